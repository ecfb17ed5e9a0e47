/* SPDX-License-Identifier: MIT */
/*
 * archive_internal: what opening and extracting share.
 */
#ifndef CAIRN_INDEX_ARCHIVE_INTERNAL_H
#define CAIRN_INDEX_ARCHIVE_INTERNAL_H

#include "index/archive.h"

struct archive {
	struct datastore *ds;
	char filename[BACKUP_ID_MAX + 1];
	char shown[BACKUP_PATH_SIZE]; /* path below the root, for messages */
	enum backup_file_kind kind;
	uint64_t size;
	struct idx *idx;    /* NULL for a blob */
	bool checked;       /* the index was read whole and is sound */
	uint64_t longest;   /* chunk of it; known when checked */
	struct buf content; /* of a blob */
	int fd;             /* of archive_of_file, else -1 */
	const struct archive_gaps *gaps; /* NULL: damage is an error */
};

/* All buffers of chunks together: one per slot, two per thread. */
#define ARCHIVE_MEMORY_MAX ((uint64_t)160 << 20)

/* How many threads, at most `cpus`, and slots there is room for. */
void archive_plan(
    uint64_t longest, unsigned cpus, unsigned *ret_threads, size_t *ret_slots);

#endif
