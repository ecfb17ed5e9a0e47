/* SPDX-License-Identifier: MIT */
/*
 * tree_du: how much lies in each directory of a tree.
 *
 * A file with several names counts where it is met first, and so does a
 * content: the numbers of directories add up.  Memory: 8 bytes, at least half
 * of them in use, for each file with several names and each content.
 */
#ifndef CAIRN_INDEX_TREE_DU_H
#define CAIRN_INDEX_TREE_DU_H

#include <stddef.h>
#include <stdint.h>

#include "datastore/base/err.h"
#include "datastore/base/task.h"
#include "index/catalog.h"

struct tree_du_sum {
	uint64_t size;   /* of the files, as ls shows it */
	uint64_t stored; /* less holes, each content once */
	uint64_t files;  /* regular ones */
	uint64_t dirs;   /* with itself */
	uint64_t others; /* symbolic links, devices, ... and further names */
};

struct tree_du {
	struct catalog *c;
	/* Of each directory down to `depth` below the first (which has 0),
	 * and of the first, whatever it is: when all in it was seen. */
	size_t depth;
	int (*fn)(void *ctx, struct catalog_bytes path,
	    const struct tree_du_sum *sum, struct err *e);
	void *ctx;
	struct task *task;
	struct catalog_gaps *gaps; /* as catalog_walk has it */
};

int tree_du(const struct tree_du *d, const struct catalog_entry *from,
    struct catalog_bytes path, struct err *e);

#endif
