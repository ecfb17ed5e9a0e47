/* SPDX-License-Identifier: MIT */
/*
 * tree_import_internal: an archive file from which members are read.
 *
 * What it is shows when libarchive looks at its beginning: first as a tar or
 * cpio, whose names are bytes, then as one of the other formats.  What a pipe
 * gave meanwhile is kept for the next try.
 */
#ifndef CAIRN_INDEX_TREE_IMPORT_INTERNAL_H
#define CAIRN_INDEX_TREE_IMPORT_INTERNAL_H

#include <archive.h>
#include <stdbool.h>
#include <stdint.h>

#include "datastore/base/buf.h"
#include "datastore/base/err.h"
#include "index/ingest_reader.h"
#include "index/tree_writer.h"

struct tree_source {
	struct archive *a; /* NULL: not open */
	struct err *e;     /* of whoever calls libarchive */
	int failed;        /* what a callback met; *e has it */
	bool lost;         /* it can not be opened again */

	/* The module's own. */
	const char *shown;
	bool ignore_zeros;
	struct tree_writer *writer; /* its pulse */
	struct ingest_reader reader;
	bool seekable;
	int spool; /* -1, or what came through a pipe, for formats that want to
		    * look at its end first */
	struct buf block; /* what libarchive got last... */
	struct buf first; /* ... and all it got so far, for another try */
	size_t first_at;
	bool keeping;   /* first is filled */
	uint64_t given; /* bytes that libarchive got */
};

/* *x.e is set; x->spool is -1. */
int tree_source_init(struct tree_source *x, const struct ingest_source *src,
    struct tree_writer *writer, struct err *e);
void tree_source_release(struct tree_source *x);

/* *ret_open false: it is none of these. */
int tree_source_open_bytes(
    struct tree_source *x, bool *ret_open, struct err *e);
/* From the start again, unless it is lost. */
int tree_source_open_others(
    struct tree_source *x, bool *ret_open, struct err *e);

/* It is what it was taken for: nobody opens it again. */
void tree_source_settle(struct tree_source *x);

/*
 * Behind the last member: a pipe is read to its end, and of a tar that is not
 * compressed *ret_more says if anything but zeros stands behind *ret_end.
 */
int tree_source_rest(
    struct tree_source *x, bool *ret_more, uint64_t *ret_end, struct err *e);

#endif
