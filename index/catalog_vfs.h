/* SPDX-License-Identifier: MIT */
/*
 * catalog_vfs: what SQLite reads and writes, through the seam of system calls.
 *
 * A set of named files that only its owner's connections know: sources that
 * are read on demand, and open descriptors.  Nothing is looked up in a file
 * system and nothing locked.  What fails keeps its own message (take_err).
 *
 * SQLite wants to be told of it by name (sqlite3_vfs_register, thread-safe):
 * each set is registered under a name of its own while it lives, so that none
 * is shared, and cairn has no mutable global for it.
 *
 * A set belongs to one thread, as do its connections, which are closed first.
 */
#ifndef CAIRN_INDEX_CATALOG_VFS_H
#define CAIRN_INDEX_CATALOG_VFS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "datastore/base/err.h"

struct catalog_vfs;

/* Bytes that do not change.  pread: exactly n bytes, at + n <= size. */
struct catalog_source {
	int (*pread)(void *ctx, void *p, size_t n, uint64_t at, struct err *e);
	void *ctx;
	uint64_t size;
};

#define CATALOG_VFS_FILES 4

/* tmp: SQLite may make temporary files (catalog_tmp.h). */
int catalog_vfs_new(bool tmp, struct catalog_vfs **ret, struct err *e);
void catalog_vfs_free(struct catalog_vfs *v); /* NULL is allowed */

/* For sqlite3_open_v2. */
const char *catalog_vfs_name(const struct catalog_vfs *v);

/* At most CATALOG_VFS_FILES; `name` is what SQL calls the file and, like fd
 * and shown, must outlive the set. */
void catalog_vfs_add_source(struct catalog_vfs *v, const char *name,
    const struct catalog_source *source);
void catalog_vfs_add_fd(
    struct catalog_vfs *v, const char *name, int fd, const char *shown);

/* Reads so far: SQLite reads one page at a time. */
uint64_t catalog_vfs_reads(const struct catalog_vfs *v);

/* What failed since the last time; 0: nothing. */
int catalog_vfs_take_err(struct catalog_vfs *v, struct err *e);

#endif
