/* SPDX-License-Identifier: MIT */
/*
 * fault: a sysio table that counts the calls, and lets them fail, fall short,
 * be watched, be lied about, or be the last thing the process does.
 *
 * Rules say which calls are struck and how; hooks see each call before and
 * after.  Install before threads start and uninstall after they ended; adding
 * rules and reading counts is thread-safe.
 *
 *     fault_install();
 *     fault_add(&(struct fault_rule){ .calls = FAULT_BIT(FAULT_WRITE),
 *         .what = FAULT_FAIL, .at = 2, .times = 1, .error = ENOSPC });
 *     rc = thing(&e);                   its second write finds a full disk
 *     fault_uninstall();
 *
 * The loop that reaches every call of a thing:
 *
 *     for (uint64_t n = 1; ; n++) {
 *             fault_reset();
 *             fault_once(FAULT_ANY, n, EIO);
 *             rc = thing(&e);
 *             if (fault_hits() == 0)
 *                     break;            n was beyond the last call
 *             ...
 *     }
 */
#ifndef CAIRN_TESTS_SUPPORT_FAULT_H
#define CAIRN_TESTS_SUPPORT_FAULT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum fault_call {
	FAULT_OPENAT, /* without O_CREAT */
	FAULT_CREATE, /* openat with O_CREAT or O_TMPFILE */
	FAULT_CLOSE,
	FAULT_POLL,
	FAULT_READ,
	FAULT_PREAD,
	FAULT_WRITE,
	FAULT_PWRITE,
	FAULT_LSEEK,
	FAULT_FTRUNCATE,
	FAULT_FSYNC,
	FAULT_SYNCFS,
	FAULT_FALLOCATE,
	FAULT_FCHOWN,
	FAULT_FCHOWNAT,
	FAULT_FCHMOD,
	FAULT_FCHMODAT,
	FAULT_STATX,
	FAULT_UTIMENSAT,
	FAULT_FUTIMENS,
	FAULT_SETXATTR,
	FAULT_FSETXATTR,
	FAULT_FGETXATTR,
	FAULT_FLISTXATTR,
	FAULT_GETXATTR,
	FAULT_LISTXATTR,
	FAULT_FREMOVEXATTR,
	FAULT_RENAMEAT2,
	FAULT_LINKAT,
	FAULT_SYMLINKAT,
	FAULT_MKNODAT,
	FAULT_UNLINKAT,
	FAULT_MKDIRAT,
	FAULT_READLINKAT,
	FAULT_FDOPENDIR,
	FAULT_READDIR,
	FAULT_CLOSEDIR,
	FAULT_GETDENTS64,
	FAULT_OFD_LOCK,
	FAULT_FLOCK,
	FAULT_FSTATVFS,
	FAULT_FSTATFS,
	FAULT_IOCTL,
	FAULT_CLOCK_GETTIME,
	FAULT_NANOSLEEP,
	FAULT_GETRANDOM,
	FAULT_CALLS
};

#define FAULT_BIT(call) (UINT64_C(1) << (call))
#define FAULT_ALL (FAULT_BIT(FAULT_CALLS) - 1)

/* Every call that may fail: the clocks, by their contract, do not. */
#define FAULT_ANY                                      \
	(FAULT_ALL & ~FAULT_BIT(FAULT_CLOCK_GETTIME) & \
	    ~FAULT_BIT(FAULT_NANOSLEEP))

/* Every call that changes what is on disk, or makes it lasting. */
#define FAULT_CHANGES                                                    \
	(FAULT_BIT(FAULT_CREATE) | FAULT_BIT(FAULT_WRITE) |              \
	    FAULT_BIT(FAULT_PWRITE) | FAULT_BIT(FAULT_FTRUNCATE) |       \
	    FAULT_BIT(FAULT_FSYNC) | FAULT_BIT(FAULT_SYNCFS) |           \
	    FAULT_BIT(FAULT_FALLOCATE) | FAULT_BIT(FAULT_FCHOWN) |       \
	    FAULT_BIT(FAULT_FCHOWNAT) | FAULT_BIT(FAULT_FCHMOD) |        \
	    FAULT_BIT(FAULT_FCHMODAT) | FAULT_BIT(FAULT_UTIMENSAT) |     \
	    FAULT_BIT(FAULT_FUTIMENS) | FAULT_BIT(FAULT_SETXATTR) |      \
	    FAULT_BIT(FAULT_FSETXATTR) | FAULT_BIT(FAULT_FREMOVEXATTR) | \
	    FAULT_BIT(FAULT_RENAMEAT2) | FAULT_BIT(FAULT_LINKAT) |       \
	    FAULT_BIT(FAULT_SYMLINKAT) | FAULT_BIT(FAULT_MKNODAT) |      \
	    FAULT_BIT(FAULT_UNLINKAT) | FAULT_BIT(FAULT_MKDIRAT))

enum fault_what {
	FAULT_FAIL,       /* not done; fails with .error */
	FAULT_FAIL_AFTER, /* done, yet reported as failed with .error */
	FAULT_SHORT,      /* transfers at most .bytes; 0 is the end of file */
	FAULT_KILL,       /* the process dies (SIGKILL) before the call */
	FAULT_KILL_AFTER, /* ... after it */
};

#define FAULT_FOREVER UINT64_MAX

/*
 * Strikes the calls numbered at .. at + times - 1 among those that it counts:
 * the kinds of `calls` whose name (for renameat2 and linkat also the second)
 * contains `name`.  Counting starts when the rule is added.  A close or
 * closedir that fails has closed all the same, as on Linux.
 */
struct fault_rule {
	uint64_t calls;   /* FAULT_BITs */
	const char *name; /* NULL: any; else the caller's, until reset */
	enum fault_what what;
	uint64_t at;    /* from 1 */
	uint64_t times; /* 1: once; FAULT_FOREVER */
	int error;
	size_t bytes;
};

/* One call, as hooks see it. Fields that a call has not are 0 or NULL. */
struct fault_event {
	enum fault_call call;
	uint64_t nth; /* number among all calls since install or reset */
	int fd;       /* or dirfd; of closedir and readdir: of the stream */
	int to_fd;
	const char *name;
	const char *to_name;
	void *p;        /* the bytes, or what the call fills or takes */
	const void *in; /* the bytes to be written; times; nanosleep's ts */
	size_t n;       /* as the caller asked; before may lower it */
	int64_t at;     /* offset or size */
	int flags;      /* flags, lock command, lock operation, whence */
	int64_t result; /* of calls that return a number */
	void *result_p; /* of fdopendir and readdir */
	int error;      /* errno behind the call */
	bool skip; /* before: do not call; the fields above are the result */
};

/*
 * Called without any lock held, in the calling thread, around each call.
 * What a hook itself does through sysio goes straight to the kernel, uncounted.
 * `before` may set skip and the result; `after` may change result, error and
 * what p points to.  A result of -1 (NULL) goes with error.
 */
struct fault_hooks {
	void (*before)(void *ctx, struct fault_event *ev); /* or NULL */
	void (*after)(void *ctx, struct fault_event *ev);  /* or NULL */
	void *ctx;
};

/* Put the table in front, without rules, hooks and counts. */
void fault_install(void);

/* Take it away and forget everything; harmless if it is not in front. */
void fault_uninstall(void);

/* Forget rules, hooks and counts. */
void fault_reset(void);

/* At most 8 rules; the first that strikes a call wins. */
void fault_add(const struct fault_rule *rule);

/* The usual rule: the at-th of these calls fails, once. */
static inline void fault_once(uint64_t calls, uint64_t at, int error)
{
	fault_add(&(struct fault_rule){ .calls = calls,
	    .what = FAULT_FAIL,
	    .at = at,
	    .times = 1,
	    .error = error });
}

/* The struct is copied; NULL takes the hooks away. */
void fault_set_hooks(const struct fault_hooks *hooks);

/* Calls of these kinds since install or reset, struck or not. */
uint64_t fault_count(uint64_t calls);

/* How often a rule struck since install or reset. */
uint64_t fault_hits(void);

/* "openat", for messages. */
const char *fault_call_name(enum fault_call call);

#endif
