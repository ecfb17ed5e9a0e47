/* SPDX-License-Identifier: MIT */
/*
 * catalogfix: catalogs for tests: made by catalog_writer in a session of
 * restorefix, or by hand with SQL, and opened.
 *
 * Only for programs that link cairn_restorefix.
 */
#ifndef CAIRN_TESTS_SUPPORT_CATALOGFIX_H
#define CAIRN_TESTS_SUPPORT_CATALOGFIX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "index/catalog.h"
#include "index/catalog_writer.h"
#include "tests/support/restorefix.h"

struct catalogfix {
	struct restorefix *f;
	struct catalog_writer *w; /* NULL, or open */
	struct catalog *c;        /* NULL, or open */
	struct catalog_cursor *cur;
	struct catalog_entry *kept;
	struct buf buf;
	struct ingest_result stored;
	char *bytes; /* NULL, or the database of catalogfix_open_file */
	size_t bytes_n;
};

/* *state is a struct catalogfix. */
int catalogfix_setup(void **state);
int catalogfix_teardown(void **state);
#define CATALOGFIX_TEST(t)               \
	cmocka_unit_test_setup_teardown( \
	    t, catalogfix_setup, catalogfix_teardown)

struct catalog_bytes catalogfix_bytes(const char *s);

/* A row with nothing but its key, id and kind, and what the kind demands: a
 * file is empty, a symlink points to "target". */
struct catalog_entry catalogfix_row(
    int64_t parent, const char *name, int64_t id, enum catalog_kind kind);
/* Such rows of the writer. */
void catalogfix_add(struct catalogfix *x, int64_t parent, const char *name,
    int64_t id, enum catalog_kind kind);

/* A session with a writer for the archive, whose content is some bytes. */
void catalogfix_begin(struct catalogfix *x, const char *archive);
/* The writer's end, not yet the session's. */
void catalogfix_finish(struct catalogfix *x, int64_t next_id);
/* ... and the session's; then the catalog is opened. */
void catalogfix_open(struct catalogfix *x, const char *archive);
int catalogfix_try_open(struct catalogfix *x, const char *archive);

/* The whole database of an archive ("root.tree.catalog"), as the file `name`
 * of the scratch directory. */
void catalogfix_extract(
    struct catalogfix *x, const char *archive, const char *name);

/* Statements on the file `name` of the scratch directory; without `create` it
 * must be there. */
void catalogfix_sql(
    struct catalogfix *x, const char *name, bool create, const char *sql);

/* The file `name` of the scratch directory as a catalog, without a snapshot;
 * messages call it by this name. */
int catalogfix_open_file(struct catalogfix *x, const char *name);

/* All tables of the format, in such a file. */
void catalogfix_schema(struct catalogfix *x, const char *name, bool earlier);

/* The names of the cursor's rows, each followed by a slash, in x->buf. */
const char *catalogfix_names(struct catalogfix *x);

#endif
