/* SPDX-License-Identifier: MIT */
/*
 * tree_restore_dirs: the directories of a restore: remembered, and opened
 * again when something is to be made in one.
 *
 * A directory has a number, in the order in which they were added, parents
 * before children.  It is reached name by name from the target, following no
 * link, so depth and length of paths do not matter; some stay open.  Threads:
 * open, put and path from any; add, keep, last and read by one, before others
 * start or after they ended.
 */
#ifndef CAIRN_INDEX_TREE_RESTORE_DIRS_H
#define CAIRN_INDEX_TREE_RESTORE_DIRS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "datastore/base/buf.h"
#include "datastore/base/err.h"
#include "index/catalog.h"
#include "index/tree_restore_meta.h"

#define RESTORE_DIR_TARGET UINT64_C(0) /* the target's number */
#define RESTORE_DIR_NONE UINT64_MAX
#define RESTORE_NAME_MAX 255U

struct restore_dir {
	uint64_t number;
	uint64_t parent;
	uint64_t previous; /* the one added before, or RESTORE_DIR_NONE */
	struct restore_meta meta;
	bool existed;
	bool set; /* it gets its metadata in the end */
	unsigned inherited;
	unsigned name_n;
	char name[RESTORE_NAME_MAX + 1];
};

struct restore_dirs;

/* fd: the target, borrowed; cache: how many others may stay open, >= 1. */
int restore_dirs_new(
    int fd, size_t cache, struct restore_dirs **ret, struct err *e);
void restore_dirs_free(struct restore_dirs *d); /* NULL is allowed */

/* d->number and d->previous are set.  The first one is the target. */
int restore_dirs_add(
    struct restore_dirs *dirs, struct restore_dir *d, struct err *e);
int restore_dirs_read(struct restore_dirs *dirs, uint64_t number,
    struct restore_dir *ret, struct err *e);
uint64_t restore_dirs_last(const struct restore_dirs *dirs);

/* An open directory; zeros: none. */
struct restore_dirfd {
	int fd;
	unsigned slot; /* 0: not kept */
	bool open;
};
int restore_dirs_open(struct restore_dirs *dirs, uint64_t number,
    struct restore_dirfd *ret, struct err *e);
void restore_dirs_put(struct restore_dirs *dirs, struct restore_dirfd *d);

/* Append the path below the target, as bytes, of an entry of a directory. */
int restore_dirs_path(struct restore_dirs *dirs, uint64_t number,
    const char *name, struct buf *out, struct err *e);

#endif
