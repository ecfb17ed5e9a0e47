/* SPDX-License-Identifier: MIT */
/*
 * err: how a failure travels.
 *
 * A function that can fail returns int: 0, or a negative enum err_code, and
 * takes a `struct err *e` last, never NULL, owned by the caller.  The place
 * that detects a failure fills *e exactly once; callers prefix it when it
 * crosses a module border; only the top (cli/main.c, gc jobs) shows it.
 * No allocation, no thread-local state: it works when memory is out and is
 * the same in every worker thread.
 *
 * A code names what the caller would do differently, not what happened; the
 * message says what happened: lower case, no full stop, names in single
 * quotes, what was found and what was wanted.
 */
#ifndef CAIRN_DATASTORE_BASE_ERR_H
#define CAIRN_DATASTORE_BASE_ERR_H

#include <stdarg.h>

enum err_code {
	ERR_OK = 0,
	ERR_NOMEM = -1,       /* an allocation failed */
	ERR_SYS = -2,         /* a system call failed; sys_errno says which */
	ERR_NOTFOUND = -3,    /* the thing that was named does not exist */
	ERR_EXISTS = -4,      /* the thing to make is already there */
	ERR_CORRUPT = -5,     /* data contradicts its format or checksum */
	ERR_UNSUPPORTED = -6, /* valid, but of a kind we can not handle */
	ERR_BUSY = -7,        /* a lock is held or was lost; try later */
	ERR_INVALID = -8,     /* argument or config of the user */
	ERR_LIMIT = -9,       /* larger than a configured or built-in bound */
	ERR_CANCELLED = -10,  /* the task was asked to stop */
	ERR_REFUSED = -11,    /* could be done, but would not be safe */
};

/* Room for two paths of ordinary length and what was wanted of them. */
#define ERR_MSG_SIZE 768
/* Ends the message of an ERR_BUSY that goes away by itself. */
#define ERR_TRY_AGAIN "; try again when that has ended"

struct err {
	int code;               /* enum err_code */
	int sys_errno;          /* set only when code is ERR_SYS */
	char msg[ERR_MSG_SIZE]; /* one line, outermost context first */
};

#define ERR_INIT                                             \
	{                                                    \
		.code = ERR_OK, .sys_errno = 0, .msg = { 0 } \
	}

/* Fill *e and return code, so that `return err_set(e, ...)` reads well. */
int err_set(struct err *e, int code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4), cold));

/*
 * Fill *e from errno, read before anything else: "<text>: <strerror>".
 * ENOMEM gives ERR_NOMEM, everything else ERR_SYS.  Returns the code.
 */
int err_sys(struct err *e, const char *fmt, ...)
    __attribute__((format(printf, 2, 3), cold));

/* The usual message of a failed allocation; returns ERR_NOMEM. */
int err_nomem(struct err *e) __attribute__((cold));

/* Put "<text>: " in front of the message; a message too long loses its end. */
void err_prefix(struct err *e, const char *fmt, ...)
    __attribute__((format(printf, 2, 3), cold));

/*
 * Forget a failure that was expected and is none: who returns 0 leaves *e as
 * it was before, since some look at e->code.  Returns 0.
 */
static inline int err_forget(struct err *e)
{
	e->code = ERR_OK;
	e->sys_errno = 0;
	e->msg[0] = '\0';
	return 0;
}

/* Put the text behind the message: what to do about it; a message too long
 * loses its end. */
void err_suffix(struct err *e, const char *fmt, ...)
    __attribute__((format(printf, 2, 3), cold));

/* True if *e is a failed system call with this errno. */
int err_is_sys(const struct err *e, int sys_errno);

#endif
