/* SPDX-License-Identifier: MIT */
/*
 * lockfile: shared and exclusive locks on single bytes of one file, between
 * processes and between threads.
 *
 * The kernel's part are open-file-description locks (fcntl F_OFD_SETLK): they
 * conflict with the classic record locks of other programs and survive the
 * closing of other descriptors.  A kernel lock belongs to the description,
 * not to a thread: two threads that lock the same byte through it do not
 * exclude each other, and one's unlock drops the other's.  So each lockfile
 * keeps a reader-writer lock and a count per byte in front: the kernel lock is
 * taken with the first holder and dropped with the last.  A lock is never
 * converted: two that convert from shared to exclusive would hang for ever.
 *
 * The file must never be replaced; whoever replaces it has two sets of locks.
 * A child made by fork shares the description and keeps the locks until it
 * execs (O_CLOEXEC) or ends.
 *
 * Thread-safe.
 */
#ifndef CAIRN_DATASTORE_BASE_LOCKFILE_H
#define CAIRN_DATASTORE_BASE_LOCKFILE_H

#include <stdbool.h>
#include <stdint.h>

#include "datastore/base/err.h"
#include "datastore/base/task.h"

enum lock_mode {
	LOCK_SHARED,
	LOCK_EXCLUSIVE,
};

struct lockfile;

/*
 * Open name (not followed; ERR_NOTFOUND if there is none, ERR_CORRUPT if it is
 * no regular file).  Without write permission on it only shared locks can be
 * had; open then fails with ERR_SYS.
 */
int lockfile_open(int dirfd, const char *name, struct lockfile **ret,
    const char *shown, struct err *e);
/* Drops every lock.  NULL is allowed. */
void lockfile_close(struct lockfile *lf);

/* Take now or not at all; *ret_taken says which. */
int lockfile_try(struct lockfile *lf, uint64_t byte, enum lock_mode mode,
    bool *ret_taken, struct err *e);

/*
 * Threads of one process that wait for one byte have it in the order in which
 * they came, shared ones together; a try does not queue and may overtake
 * them.  So who holds a byte must not wait for it once more, not even shared.
 *
 * Wait for it, at most timeout_ms (UINT64_MAX: without limit), obeying
 * task->stop.  After 5 s of waiting `waiting` (may be NULL) is called once,
 * to say for whom.  Time out: ERR_BUSY, message "lock byte N of 'shown' is
 * held"; callers say what it means.
 */
int lockfile_wait(struct lockfile *lf, uint64_t byte, enum lock_mode mode,
    uint64_t timeout_ms, struct task *task,
    void (*waiting)(void *ctx, struct task *task), void *ctx, struct err *e);

void lockfile_unlock(struct lockfile *lf, uint64_t byte, enum lock_mode mode);

/*
 * Would an exclusive (shared) lock of the byte meet another process's?  Asks
 * the kernel only (F_OFD_GETLK): locks of this lockfile do not count.
 */
int lockfile_is_held(struct lockfile *lf, uint64_t byte, enum lock_mode mode,
    bool *ret_held, struct err *e);

#endif
