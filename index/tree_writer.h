/* SPDX-License-Identifier: MIT */
/*
 * tree_writer: contents into NAME.tree.didx, rows into its catalog.
 *
 * What walking a directory (tree_push) and reading an archive (tree_import)
 * share.  The owner hands over, in walk order, contents and rows; equal
 * contents (SHA-256 and length) are placed once.  A content of
 * TREE_CUT_SIZE bytes and more starts and ends at a forced cut.  One thread.
 */
#ifndef CAIRN_INDEX_TREE_WRITER_H
#define CAIRN_INDEX_TREE_WRITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "datastore/base/digest.h"
#include "datastore/base/err.h"
#include "datastore/base/task.h"
#include "datastore/session.h"
#include "index/catalog_writer.h"
#include "index/ingest.h"

#define TREE_CUT_SIZE (1U << 20)

/* Of the pipeline; with what contents were placed, and the catalog's, it is
 * below 200 MiB. */
#define TREE_WRITER_MEMORY ((size_t)100 << 20)

struct tree_writer;

struct tree_writer_result {
	struct ingest_result content;
	struct ingest_result catalog;
	uint64_t entries;
	uint64_t same_files; /* whose content was placed before */
	uint64_t same_bytes;
};

/* archive: "root.tree".  opts may be NULL. */
int tree_writer_new(struct session *s, const char *archive,
    const struct ingest_opts *opts, struct task *task, struct tree_writer **ret,
    struct err *e);
void tree_writer_free(struct tree_writer *w); /* NULL is allowed */

/* For attr, account, mount; not for rows (tree_writer_add). */
struct catalog_writer *tree_writer_catalog(struct tree_writer *w);

/* Was a content of this digest and length placed?  Counts it as the same. */
bool tree_writer_find(struct tree_writer *w, const struct digest *sha256,
    uint64_t size, uint64_t *ret_pos);
/* Was any content of this length placed?  (Else find can not succeed.) */
bool tree_writer_has_size(const struct tree_writer *w, uint64_t size);

/*
 * New content: begin, append what there is, end.  cut: it has TREE_CUT_SIZE
 * bytes or more.  Its position is handed out by begin.
 */
int tree_writer_begin(
    struct tree_writer *w, bool cut, uint64_t *ret_pos, struct err *e);
int tree_writer_append(
    struct tree_writer *w, const void *p, size_t n, struct err *e);
int tree_writer_end(
    struct tree_writer *w, const struct digest *sha256, struct err *e);
/* Instead of the end: what was appended is of no use.  It stays in the
 * stream, but no row will name it. */
int tree_writer_drop(struct tree_writer *w, struct err *e);

/* A row.  Its id is the caller's (tree_writer_next_id). */
int tree_writer_add(
    struct tree_writer *w, const struct catalog_entry *entry, struct err *e);
int64_t tree_writer_next_id(struct tree_writer *w); /* 1, 2, ... */

/* While nothing is to be placed: is the task to stop, does the session live? */
int tree_writer_pulse(struct tree_writer *w, struct err *e);

int tree_writer_finish(
    struct tree_writer *w, struct tree_writer_result *ret, struct err *e);

#endif
