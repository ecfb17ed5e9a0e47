/* SPDX-License-Identifier: MIT */
/*
 * tree_restore: a tree archive, or paths of it, back into a directory.
 *
 * Never writes through a symbolic link and never outside the target, whatever
 * the catalog says: every step is relative to an open directory, O_NOFOLLOW;
 * what is in the way is replaced, not followed.  Contents come in the order
 * of the stream, each chunk read once, by several threads; SHA-256 of every
 * file is checked.  Directories get their metadata last.  Damage does not end
 * it: each file that is hurt is named and counted.
 */
#ifndef CAIRN_INDEX_TREE_RESTORE_H
#define CAIRN_INDEX_TREE_RESTORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "datastore/base/err.h"
#include "datastore/base/task.h"
#include "index/archive.h"
#include "index/catalog.h"

enum tree_overwrite {
	TREE_OVERWRITE_NEVER,   /* what exists stays, said and counted */
	TREE_OVERWRITE_CHANGED, /* unless kind, size and mtime are equal */
	TREE_OVERWRITE_ALWAYS,
};

struct tree_restore_opts {
	enum tree_overwrite overwrite;
	bool numeric_owner;
	const struct catalog_bytes *paths; /* 0: all */
	size_t paths_n;
	bool root_metadata; /* the target was made for it */
	unsigned threads;   /* 0: as many as there are CPUs */
};

struct tree_restore_result {
	uint64_t entries;
	uint64_t bytes;   /* of file contents written */
	uint64_t skipped; /* existed, and stayed as they are */
	uint64_t equal;   /* OVERWRITE_CHANGED: were so already */
	uint64_t failed;  /* could not be made; each was named */
	uint64_t
	    damaged; /* content missing or bad, or unreadable when pushed */
	uint64_t
	    metadata_failed; /* owner, xattr, flags that could not be set */
};

/*
 * content: the archive's stream; targetfd: the directory.  A path that is not
 * there is ERR_NOTFOUND before anything is written.
 */
int tree_restore(struct catalog *c, struct archive *content, int targetfd,
    const char *shown, const struct tree_restore_opts *opts, struct task *task,
    struct tree_restore_result *ret, struct err *e);

#endif
