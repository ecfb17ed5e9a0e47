/* SPDX-License-Identifier: MIT */
/*
 * treefix: trees made row by row, in a session of restorefix.
 *
 * A content is put behind what the stream has; positions are offsets until
 * treefix_run begins a range of them elsewhere.
 */
#ifndef CAIRN_TESTS_SUPPORT_TREEFIX_H
#define CAIRN_TESTS_SUPPORT_TREEFIX_H

#include "index/catalog.h"
#include "index/catalog_writer.h"
#include "tests/support/restorefix.h"

#define TREEFIX_DIRS 64
#define TREEFIX_MTIME 1000000000 /* of all: 2001-09-09T01:46:40Z */

struct treefix {
	struct restorefix *f;
	const char *archive;
	struct catalog_writer *w; /* NULL, or open */
	struct buf stream;
	uint64_t run_pos;   /* where the present run begins */
	uint64_t run_start; /* in the stream */
	int64_t next_id;
	struct {
		char path[256];
		int64_t id;
	} dirs[TREEFIX_DIRS];
	size_t dirs_n;
};

/* The session is open; the root is there. */
void treefix_begin(
    struct treefix *t, struct restorefix *f, const char *archive);
/* What all entries of a kind have: mode, owner, times, one name. */
struct catalog_entry treefix_entry(enum catalog_kind kind);
/* An entry at a path, whose directory is there; its id unless that is 0. */
int64_t treefix_add(
    struct treefix *t, const char *path, struct catalog_entry entry);
/* A content of its own for the entry; size is that of the content. */
void treefix_content(
    struct treefix *t, struct catalog_entry *entry, const void *p, size_t n);
/* Both; returns the row. */
struct catalog_entry treefix_file(
    struct treefix *t, const char *path, const char *content);
int64_t treefix_dir(struct treefix *t, const char *path);
/* What comes lies this many positions further than its offset says. */
void treefix_run(struct treefix *t, uint64_t gap);
/* Stream and catalog are in the session. */
void treefix_end(struct treefix *t);
/* After a test that failed, too. */
void treefix_release(struct treefix *t);

/* Holes as a column: of the test's memory. */
struct catalog_bytes treefix_holes(
    const struct catalog_hole *holes, size_t n, uint8_t *out);
struct catalog_bytes treefix_bytes(const char *s);

#endif
