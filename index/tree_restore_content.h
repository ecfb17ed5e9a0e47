/* SPDX-License-Identifier: MIT */
/*
 * tree_restore_content: what the owner of the contents' pass and its workers
 * share.
 */
#ifndef CAIRN_INDEX_TREE_RESTORE_CONTENT_H
#define CAIRN_INDEX_TREE_RESTORE_CONTENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "datastore/base/workers.h"
#include "index/idx.h"
#include "index/tree_restore_internal.h"

/* Files over several chunks, at a time. */
#define RESTORE_OPEN_FILES 16U
/* Of a slot; a chunk that has more is loaded again. */
#define RESTORE_PIECES (512U + RESTORE_OPEN_FILES)

/* What a chunk has of a file. */
struct restore_piece {
	struct restore_file *file;
	struct restore_cursor cursor;
	size_t from; /* in the chunk */
	size_t n;
	bool whole; /* all of the file */
	bool last;
	bool failed; /* to be written, see write_error */
};

/* A chunk, and all that is to be made of it. */
struct restore_slot {
	struct idx_entry entry;
	uint64_t start;
	bool has_chunk; /* false: files without a byte */
	bool loaded;
	bool bad; /* the chunk itself */
	int load_rc;
	struct buf content;
	struct restore_piece pieces[RESTORE_PIECES];
	size_t n;
	struct err load_error;
	struct err write_error;
};

/* workers_ops; the slot is a restore_slot, ctx a restore. */
int restore_work_init(void *ctx, void **ret, struct err *e);
void restore_work_release(void *ctx, void *local);
int restore_work(void *ctx, void *local, void *slot, struct err *e);

#endif
