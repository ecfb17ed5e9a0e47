/* SPDX-License-Identifier: MIT */
/*
 * tree_diff: what differs between two trees, by their catalogs alone.
 *
 * Both are walked at once, depth first, names in byte order; what is found is
 * held back until the end, or until TREE_DIFF_MEMORY bytes of it are there, to
 * find what was moved: a directory that has its id in both (catalogs of one
 * lineage) or whose children went, more than half of them, to one other, and
 * a regular file that is not empty by its content, those with the same name
 * first.  What lies further apart is told as removed and added.  Of what is
 * in a moved directory, only what else became of it is told.
 *
 * Not compared: ctime, inode, mount, where content lies, and the order in
 * which a tar has its members.
 */
#ifndef CAIRN_INDEX_TREE_DIFF_H
#define CAIRN_INDEX_TREE_DIFF_H

#include <stddef.h>
#include <stdint.h>

#include "datastore/base/err.h"
#include "datastore/base/task.h"
#include "index/catalog.h"

#define TREE_DIFF_MEMORY ((size_t)48 << 20)

enum tree_diff_change {
	TREE_DIFF_ADDED,
	TREE_DIFF_REMOVED,
	TREE_DIFF_CHANGED,
	TREE_DIFF_MOVED,
};

/* In what.  Of two types nothing else is compared. */
enum tree_diff_what {
	TREE_DIFF_TYPE = 1 << 0,
	TREE_DIFF_CONTENT = 1 << 1, /* or whether it is stored at all */
	TREE_DIFF_TARGET = 1 << 2,
	TREE_DIFF_DEVICE = 1 << 3,
	TREE_DIFF_MODE = 1 << 4,
	TREE_DIFF_OWNER = 1 << 5, /* uid, gid */
	TREE_DIFF_MTIME = 1 << 6,
	TREE_DIFF_XATTRS = 1 << 7,
	TREE_DIFF_FLAGS = 1 << 8,
	TREE_DIFF_LINKS = 1 << 9, /* how many names it has */
};
#define TREE_DIFF_WHATS 10
/* "type", "content", ...: of bit i. */
const char *tree_diff_word(unsigned i);

struct tree_diff_event {
	enum tree_diff_change change;
	unsigned what;                      /* CHANGED, MOVED: what else */
	struct catalog_bytes path;          /* relative to the root */
	struct catalog_bytes from;          /* MOVED: where it was */
	const struct catalog_entry *before; /* NULL: ADDED */
	const struct catalog_entry *after;  /* NULL: REMOVED */
};

struct tree_diff {
	struct catalog *a;
	struct catalog *b;
	/* Any negative value ends it. */
	int (*fn)(
	    void *ctx, const struct tree_diff_event *event, struct err *e);
	void *ctx;
	struct task *task;
	size_t memory; /* 0: TREE_DIFF_MEMORY */
};

/*
 * Of what lies at a path of both ("" is the root).  ERR_NOTFOUND: it is in
 * neither; where it is in one only, all of it was added or removed.
 */
int tree_diff(
    const struct tree_diff *d, struct catalog_bytes path, struct err *e);

#endif
