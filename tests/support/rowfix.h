/* SPDX-License-Identifier: MIT */
/*
 * rowfix: tree archives made row by row, whatever the rows say, and
 * restored into the directory "target".
 */
#ifndef CAIRN_TESTS_SUPPORT_ROWFIX_H
#define CAIRN_TESTS_SUPPORT_ROWFIX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "index/catalog.h"
#include "index/catalog_writer.h"
#include "index/tree_restore.h"
#include "tests/support/restorefix.h"

struct rowfix {
	struct restorefix *f;
	struct catalog_writer *w;
	struct buf stream;
	int64_t next_id;
	bool has_run; /* of the whole stream, made by commit */
	struct catalog *c;
	int target; /* -1, or the directory */
	struct tree_restore_result result;
};

/* *state is a struct rowfix, and a session is open. */
int rowfix_setup(void **state);
int rowfix_teardown(void **state);
#define ROWFIX_TEST(t) \
	cmocka_unit_test_setup_teardown(t, rowfix_setup, rowfix_teardown)

#define ROWFIX_MTIME 1000000000

/* A row of this user's, not added yet; the name is borrowed. */
struct catalog_entry rowfix_row(struct rowfix *t, int64_t parent,
    const char *name, enum catalog_kind kind, unsigned mode);
/* The stream gets these bytes, and the row says so. */
void rowfix_content(
    struct rowfix *t, struct catalog_entry *row, const void *p, size_t n);
void rowfix_target(struct catalog_entry *row, const char *text);
int64_t rowfix_attr(
    struct rowfix *t, const char *name, const void *p, size_t n);
void rowfix_add(struct rowfix *t, const struct catalog_entry *row);

/* In one step; the id. */
int64_t rowfix_dir(
    struct rowfix *t, int64_t parent, const char *name, unsigned mode);
int64_t rowfix_file(struct rowfix *t, int64_t parent, const char *name,
    unsigned mode, const void *p, size_t n);
int64_t rowfix_text(
    struct rowfix *t, int64_t parent, const char *name, const char *text);

/* The snapshot is finished; archive "root.tree" or "root.tar" is opened. */
void rowfix_commit(struct rowfix *t, const char *archive);

/* Into "target", made if it is missing. */
int rowfix_restore(struct rowfix *t, const struct tree_restore_opts *opts);

/* Below the target. */
void rowfix_assert_text(struct rowfix *t, const char *path, const char *text);
struct stat rowfix_stat(struct rowfix *t, const char *path);
bool rowfix_exists(struct rowfix *t, const char *path);
/* No temporary file is left anywhere. */
void rowfix_assert_clean(struct rowfix *t);

#endif
