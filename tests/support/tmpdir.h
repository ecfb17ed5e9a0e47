/* SPDX-License-Identifier: MIT */
/*
 * tmpdir: a scratch directory under $TMPDIR or /tmp, and files in it.
 *
 * None of this goes through sysio: injected faults do not reach it.  A
 * failure here is one of the machine, not of what is tested: it says why and
 * aborts.
 */
#ifndef CAIRN_TESTS_SUPPORT_TMPDIR_H
#define CAIRN_TESTS_SUPPORT_TMPDIR_H

#include <limits.h>
#include <stddef.h>

struct tmpdir {
	int fd;              /* open for reading */
	char path[PATH_MAX]; /* absolute */
};

void tmpdir_make(struct tmpdir *t);

/* With all that is in it, also what has lost its permissions. */
void tmpdir_remove(struct tmpdir *t);

/* The same as a cmocka fixture: *state is a struct tmpdir. */
int tmpdir_setup(void **state);
int tmpdir_teardown(void **state);

/* Make or overwrite a file, 0644. */
void tmpdir_put(int dirfd, const char *name, const void *p, size_t n);
void tmpdir_put_str(int dirfd, const char *name, const char *s);

/* A whole file with a NUL behind it, to be freed; NULL if there is none. */
char *tmpdir_get(int dirfd, const char *name, size_t *ret_n);

/* How many names but "." and ".." contain this text; "" counts them all. */
size_t tmpdir_count(int dirfd, const char *text);

/* How many descriptors this process has open. */
size_t tmpdir_open_fds(void);

#endif
