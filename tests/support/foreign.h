/* SPDX-License-Identifier: MIT */
/*
 * foreign: locks of other processes on a file, taken and asked for.
 *
 * Each is a process that opens the file for itself: a classic record lock, as
 * PBS takes it, or one of an open file description, as cairn does.  None of
 * this goes through sysio.  A failure of fork and the like aborts.
 */
#ifndef CAIRN_TESTS_SUPPORT_FOREIGN_H
#define CAIRN_TESTS_SUPPORT_FOREIGN_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct foreign_lock {
	bool classic;
	short type; /* F_RDLCK, F_WRLCK */
	off_t start;
	off_t len; /* 0: to the end of all files */
};

/* Could another process have this lock now? */
bool foreign_can(int dirfd, const char *name, const struct foreign_lock *lock);

/* The same for one byte, as cairn locks it. */
bool foreign_can_byte(int dirfd, const char *name, uint64_t byte, short type);

/* A process that holds a lock until it is ended, or killed by its pid. */
struct foreign_holder {
	pid_t pid;
	int to;
};

/* Returns when it has the lock, which must be free. */
void foreign_start(int dirfd, const char *name, const struct foreign_lock *lock,
    struct foreign_holder *ret);

/* Ends it, if it lives, and waits for it. */
void foreign_end(struct foreign_holder *h);

#endif
