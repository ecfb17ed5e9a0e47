/* SPDX-License-Identifier: MIT */
/*
 * tarfix: tars put together header by header, pushed, and what their catalog
 * says of them.
 *
 * Only for programs that link cairn_catalogfix.
 */
#ifndef CAIRN_TESTS_SUPPORT_TARFIX_H
#define CAIRN_TESTS_SUPPORT_TARFIX_H

#include "index/tar_push.h"
#include "index/tree_export.h"
#include "index/tree_import.h"
#include "tests/support/catalogfix.h"

#define TARFIX_BLOCK ((size_t)512)

struct tarfix {
	struct catalogfix *x;
	struct buf tar;
	struct buf text;
	struct tar_push_result result;
	struct tree_import_result imported;
	bool tree;      /* root.tree was made, not root.tar */
	size_t content; /* offset of the last member's */
	int pipe;
};

/* *state is a struct tarfix. */
int tarfix_setup(void **state);
int tarfix_teardown(void **state);
#define TARFIX_TEST(t) \
	cmocka_unit_test_setup_teardown(t, tarfix_setup, tarfix_teardown)

/* Bytes behind what there is. */
void tarfix_bytes(struct tarfix *t, const void *p, size_t n);
void tarfix_zeros(struct tarfix *t, size_t n);
/* A header (ustar; mode 0640, owner 1000:100 "jo":"users", mtime 1000000000),
 * the content and what fills its last block.  name: at most 99 bytes. */
void tarfix_member(struct tarfix *t, char type, const char *name,
    const char *link, const void *p, size_t n);
void tarfix_file(struct tarfix *t, const char *name, const char *content);
/* A pax header of "KEY=VALUE" strings, NULL at the end, for the next member. */
void tarfix_pax(struct tarfix *t, const char *const *records);
/* Two blocks of zeros. */
void tarfix_end(struct tarfix *t);

/* t->tar as root.tar of a snapshot; its catalog is opened if it has one. */
void tarfix_push_as(struct tarfix *t, const struct tar_push_opts *opts);
void tarfix_push(struct tarfix *t);

/* t->tar, whatever archive that is, as root.tree of a snapshot; its catalog is
 * opened.  pipe: it comes through one.  A failure is the result. */
int tarfix_import(struct tarfix *t, bool pipe);
/* What was opened last as an archive, into t->tar; a failure is the result. */
int tarfix_export(struct tarfix *t, enum tree_export_format format,
    const char *path, struct tree_export_result *ret);

/*
 * The catalog, depth first, a line an entry: path, kind, mode, then, as far as
 * they apply, "size=N", "holes=START+LENGTH,...", "-> TARGET", "link=PATH of
 * the first name", "state=N"; then those of `earlier`, the same behind "- ".
 * Each content is checked.
 */
const char *tarfix_dump(struct tarfix *t);
void tarfix_assert_dump(struct tarfix *t, const char *want);
/* root.tar is, byte for byte, t->tar. */
void tarfix_assert_stream(struct tarfix *t);

/* The row of a path, which must be there. */
struct catalog_entry tarfix_row(struct tarfix *t, const char *path);

#endif
