/* SPDX-License-Identifier: MIT */
/*
 * tree_diff_internal: what the walk (tree_diff.c) and the finding of moves
 * (tree_diff_moves.c) share.
 */
#ifndef CAIRN_INDEX_TREE_DIFF_INTERNAL_H
#define CAIRN_INDEX_TREE_DIFF_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "datastore/base/buf.h"
#include "index/tree_diff.h"

#define TREE_DIFF_NONE SIZE_MAX

/* What was found, in the order of the walk, and is held back. */
struct tree_diff_record {
	enum tree_diff_change change;
	unsigned what;
	uint8_t *path;
	size_t path_n;
	struct catalog_entry *before;
	struct catalog_entry *after;
	size_t parent;   /* of the directory it is in, if that is one, too */
	size_t children; /* of those it is the parent of that could be found */
	bool open;       /* not all of them were seen */
	/* Of moves. */
	size_t pair;
	size_t candidate; /* where children went */
	size_t votes;     /* how many of them */
	bool implied;     /* by that of its directory */
};

/* Two attr ids and what comparing their data gave. */
#define TREE_DIFF_ATTRS 64U
struct tree_diff_attr {
	bool used;
	int64_t a;
	int64_t b;
	bool equal;
};

struct tree_differ {
	const struct tree_diff *d;
	bool lineage; /* ids mean the same in both */
	struct tree_diff_record *records;
	size_t n;
	size_t cap;
	size_t bytes;
	struct tree_diff_attr attrs[TREE_DIFF_ATTRS];
	struct buf attr_a;
	struct buf attr_b;
};

/* Neither is NULL. */
int tree_diff_compare(struct tree_differ *d, const struct catalog_entry *before,
    const struct catalog_entry *after, unsigned *ret_what, struct err *e);

static inline struct catalog_bytes tree_diff_path(
    const struct tree_diff_record *r)
{
	return (struct catalog_bytes){ .p = r->path, .n = r->path_n };
}

/*
 * Hold back what event says; all of it is copied.  parent: a record or NONE.
 */
int tree_diff_hold(struct tree_differ *d, const struct tree_diff_event *event,
    size_t parent, struct err *e);

/* Find what was moved, tell all, and begin anew. */
int tree_diff_flush(struct tree_differ *d, struct err *e);
void tree_diff_records_release(struct tree_differ *d);

#endif
