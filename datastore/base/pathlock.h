/* SPDX-License-Identifier: MIT */
/*
 * pathlock: flock(2) on a directory or file that others may remove.
 *
 * A lock on something that was removed between open and flock is granted and
 * worth nothing; so after taking it the inode is compared with what the name
 * leads to.  The lock lives with the descriptor.
 */
#ifndef CAIRN_DATASTORE_BASE_PATHLOCK_H
#define CAIRN_DATASTORE_BASE_PATHLOCK_H

#include "datastore/base/err.h"
#include "datastore/base/lockfile.h"

/*
 * Lock the directory or regular file `name` of dirfd (not followed), waiting
 * at most timeout_ms (0: not at all).  ERR_NOTFOUND if there is none, or if it
 * was removed or replaced meanwhile; ERR_BUSY if another holds it.
 * *ret_fd is open for reading and holds the lock until closed.
 */
int pathlock_take(int dirfd, const char *name, enum lock_mode mode,
    uint64_t timeout_ms, int *ret_fd, const char *shown, struct err *e);

/* The same inode still under its name?  Else ERR_NOTFOUND. */
int pathlock_recheck(
    int fd, int dirfd, const char *name, const char *shown, struct err *e);

#endif
