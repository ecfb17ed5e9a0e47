/* SPDX-License-Identifier: MIT */
/*
 * history_vfs: what SQLite reads and writes of the history, through the seam
 * of system calls.
 *
 * Two files of one directory: the database, which the caller has opened and
 * locked, and its journal beside it.  SQLite's own locks are none: whoever has
 * the database open here holds a lock of all of it, which SQLite's ordinary
 * programs respect and which respects theirs.
 */
#ifndef CAIRN_GC_HISTORY_VFS_H
#define CAIRN_GC_HISTORY_VFS_H

#include <stdbool.h>

#include "datastore/base/err.h"
#include "datastore/base/file.h"

struct history_vfs;

struct history_vfs_opts {
	int dirfd;
	int fd;           /* of the database */
	const char *name; /* of the database, in dirfd */
	const char *shown;
	bool writable;
	struct file_owner owner; /* of the journal */
};

/* o's descriptors and texts are borrowed, and must outlive it. */
int history_vfs_new(
    const struct history_vfs_opts *o, struct history_vfs **ret, struct err *e);
void history_vfs_free(struct history_vfs *v); /* NULL is allowed */

/* For sqlite3_open_v2(). */
const char *history_vfs_name(const struct history_vfs *v);

/* The first failure since the last look; 0 if there was none. */
int history_vfs_take_err(struct history_vfs *v, struct err *e);

#endif
