/* SPDX-License-Identifier: MIT */
/*
 * walk: a stack of directories, opened one below the other, however deep.
 *
 * Paths play no part: a directory is opened by its name in the one above.
 * Only some descriptors of a deep stack stay open; a directory that was closed
 * is opened again through ".." when all below it is done, and its device and
 * inode are compared.  Names are read at once and sorted by bytes; memory is
 * that of the names of the directories on the stack.
 *
 * One thread.  Others may use the descriptor of a directory between walk_hold
 * and walk_release, which are the owner's to call.
 */
#ifndef CAIRN_INDEX_WALK_H
#define CAIRN_INDEX_WALK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "datastore/base/buf.h"
#include "datastore/base/err.h"

/* Directories that stay open, though nobody holds them. */
#define WALK_OPEN_MAX 32U

/* What walk asks of statx: all that a row needs. */
#define WALK_STATX_MASK (STATX_BASIC_STATS | STATX_MNT_ID)

struct walk_dir {
	struct walk_dir *parent; /* NULL: the root */
	const char *name;        /* one of the parent's; the root's: "" */
	int fd;                  /* -1: closed meanwhile */
	size_t depth;            /* of the root: 0 */
	uint64_t ino;
	uint32_t dev_major;
	uint32_t dev_minor;
	uint64_t mnt_id;
	unsigned refs; /* the stack, children, holders */
	unsigned held; /* by those who use fd */
	bool stacked;

	struct buf names; /* of each a byte (DT_REG...), the name, a zero */
	uint32_t *order;  /* where each begins, sorted */
	size_t n;
	size_t next; /* the owner's: how many were dealt with */

	int64_t id;       /* the owner's: of its row */
	int64_t first_id; /* the owner's: of its first entry's row */
};

struct walk;

/* rootfd stays the caller's. */
int walk_new(int rootfd, const char *shown, struct walk **ret, struct err *e);
/* NULL is allowed.  Nobody holds a directory any more. */
void walk_free(struct walk *w);

struct walk_dir *walk_root(const struct walk *w);
/* The directory on top; NULL: the walk is over. */
struct walk_dir *walk_top(const struct walk *w);

/* Entry i of a directory that was listed. */
const char *walk_name(const struct walk_dir *d, size_t i);
unsigned char walk_type(const struct walk_dir *d, size_t i); /* DT_REG... */

/*
 * Open the directory `name` (one of the top's names, whose memory is kept) in
 * the one on top, following nothing.  It is held and must be released.
 * A failure of the call is ERR_SYS.
 */
int walk_open(
    struct walk *w, const char *name, struct walk_dir **ret, struct err *e);
/* Read its names.  A failure leaves it without any. */
int walk_list(struct walk_dir *d, struct err *e);
/* Keep only those entries that fn says yes to. */
int walk_filter(struct walk_dir *d,
    int (*fn)(
	void *ctx, struct walk_dir *d, size_t i, bool *ret_keep, struct err *e),
    void *ctx, struct err *e);
/* On top of the stack. */
int walk_push(struct walk *w, struct walk_dir *d, struct err *e);
/*
 * The top is done.  *ret_lost: the one below it is not what or where it was,
 * and what is left of it can not be reached; it is on top all the same.
 */
int walk_pop(struct walk *w, bool *ret_lost, struct err *e);

void walk_hold(struct walk_dir *d);
void walk_release(struct walk_dir *d);

/* Append the path from the root; "" for the root itself.  name may be NULL. */
int walk_path(
    const struct walk_dir *d, const char *name, struct buf *out, struct err *e);

/*
 * openat for reading, O_NOFOLLOW and O_NONBLOCK, access times left alone if
 * that is allowed.  -1 and errno.
 */
int walk_openat(int dirfd, const char *name, int flags);

#endif
