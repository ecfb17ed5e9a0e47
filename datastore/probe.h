/* SPDX-License-Identifier: MIT */
/*
 * probe: does this file system keep what garbage collection relies on?
 *
 * A1: a successful utimensat is visible to a later statx, in atime and
 * ctime.  A3: a lock taken by one process is seen by another.  Both are tried,
 * not assumed: `init` refuses and GC ends where they fail.
 */
#ifndef CAIRN_DATASTORE_PROBE_H
#define CAIRN_DATASTORE_PROBE_H

#include "datastore/base/clock.h"
#include "datastore/base/err.h"

/*
 * Touch `name` of dirfd until its atime has moved and its ctime too, as read
 * back with AT_STATX_FORCE_SYNC: file systems count in steps of up to 2 s, so
 * this tries for 5 s.  *ret_now is the atime read back: the file clock.
 * ERR_REFUSED if it never moves: what was seen before and after is said.
 * Creates nothing.  name "." probes the directory itself.
 */
int probe_atime(int dirfd, const char *name, filetime *ret_now,
    const char *shown, struct err *e);

/* Touch and read back, once: the file clock now. */
int probe_clock(int dirfd, const char *name, filetime *ret_now,
    const char *shown, struct err *e);

/*
 * Lock a random byte (beyond those of locks.h) of lock_name exclusively here,
 * and try it in a child process that opens the file itself.  ERR_REFUSED if
 * the child gets it.
 */
int probe_locks(
    int dirfd, const char *lock_name, const char *shown, struct err *e);

#endif
