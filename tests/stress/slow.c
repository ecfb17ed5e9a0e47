/* SPDX-License-Identifier: MIT */
/*
 * slow: a library to be preloaded, that makes some of the calls wait that
 * decide what is lost: as on a busy disk, or over a network.  What another
 * process does between a look and the change that follows it then has time to
 * happen.
 *
 * With SLOW_TOUCH_MS or SLOW_UNLINK_MS in the environment, it is every one of
 * these calls, so long, and no other: who wants to look at a garbage collection
 * in the midst of its mark or sweep then has the time.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_S UINT64_C(1000000000)
#define NS_PER_MS UINT64_C(1000000)

/* One in some calls waits, up to so long. */
static void perhaps_wait(unsigned one_in, unsigned most_ms)
{
	static _Thread_local uint64_t x;
	struct timespec now;
	struct timespec wait = { .tv_sec = 0 };

	if (x == 0) {
		(void)clock_gettime(CLOCK_MONOTONIC, &now);
		x = (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec +
		    (uint64_t)getpid();
	}
	/* Marsaglia's xorshift64. */
	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	if (x % one_in != 0)
		return;
	wait.tv_nsec = (long)(x / one_in % (most_ms * NS_PER_MS));
	(void)nanosleep(&wait, NULL);
}

/* As perhaps_wait, if nobody asked for a time of his own. */
static void wait_or(const char *asked, unsigned one_in, unsigned most_ms)
{
	const char *ms = getenv(asked);
	uint64_t n = ms == NULL ? 0 : strtoull(ms, NULL, 10);
	const struct timespec wait = {
		.tv_sec = (time_t)(n / 1000),
		.tv_nsec = (long)(n % 1000 * NS_PER_MS),
	};

	if (ms != NULL)
		(void)nanosleep(&wait, NULL);
	else if (getenv("SLOW_TOUCH_MS") == NULL &&
	    getenv("SLOW_UNLINK_MS") == NULL)
		perhaps_wait(one_in, most_ms);
}

static void *next(const char *name)
{
	void *p = dlsym(RTLD_NEXT, name);

	if (p == NULL)
		abort();
	return p;
}

/* Longest: between its look and the removal all must keep away. */
int unlinkat(int dirfd, const char *name, int flags)
{
	int (*real)(int, const char *, int) = NULL;

	*(void **)&real = next("unlinkat");
	wait_or("SLOW_UNLINK_MS", 2, 40);
	return real(dirfd, name, flags);
}

int renameat2(
    int fromfd, const char *from, int tofd, const char *to, unsigned flags)
{
	int (*real)(int, const char *, int, const char *, unsigned) = NULL;

	*(void **)&real = next("renameat2");
	wait_or("SLOW_OTHER_MS", 6, 8);
	return real(fromfd, from, tofd, to, flags);
}

int linkat(int fromfd, const char *from, int tofd, const char *to, int flags)
{
	int (*real)(int, const char *, int, const char *, int) = NULL;

	*(void **)&real = next("linkat");
	wait_or("SLOW_OTHER_MS", 6, 8);
	return real(fromfd, from, tofd, to, flags);
}

int utimensat(
    int dirfd, const char *name, const struct timespec times[2], int flags)
{
	int (*real)(int, const char *, const struct timespec *, int) = NULL;

	*(void **)&real = next("utimensat");
	wait_or("SLOW_TOUCH_MS", 6, 8);
	return real(dirfd, name, times, flags);
}
