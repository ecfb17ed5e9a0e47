/* SPDX-License-Identifier: MIT */
/*
 * store_fs_internal: what the files of the file system store share.
 *
 *     store_fs.c         prefix directories, locks, reading, reuse
 *     store_fs_touch.c   the mark: touch, touch_batch
 *     store_fs_plan.c    in which order a batch is touched
 *     store_fs_insert.c  insert
 *     store_fs_walk.c    scan, scan_all
 *     store_fs_scan.c    sweep, quarantine
 */
#ifndef CAIRN_DATASTORE_STORE_FS_INTERNAL_H
#define CAIRN_DATASTORE_STORE_FS_INTERNAL_H

#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "datastore/pace.h"
#include "datastore/store.h"

/* "0a1b": a prefix directory's name. */
#define STORE_PREFIX_SIZE 5
#define STORE_DIR_MODE 0750

/* A path as messages show it. */
#define STORE_SHOWN_SIZE 512

/*
 * From so many touches on the order of inodes is worth reading directories
 * for: fewer of them change what is written once in whatever order, in one
 * commit of the file system.
 */
#define STORE_RANK_FROM (1U << 19)

struct store_fs {
	struct store base; /* first: the two are converted into each other */
	int chunks_fd;
	struct lockfile *locks; /* NULL: only read */
	struct file_owner owner;
	char *shown;
	struct statx chunks_st;    /* of .chunks, as it was opened */
	struct task *waiting_task; /* NULL: nobody can stop a wait */
	void (*waiting)(void *ctx, struct task *task);
	void *waiting_ctx;

	bool by_inode;    /* batches are touched in order of inodes */
	size_t rank_from; /* STORE_RANK_FROM */
	uint64_t memory;  /* for the cache; 0: not asked for yet */
	bool as_met;      /* the batch is touched as its chunks were met */
	bool ranked;      /* a batch was, by the inodes of its chunks */
	bool rereads;     /* and memory did not hold the directories then */
	struct pace pace; /* of touches */
	struct pace scan_pace;

	/* Learned from the file system, and not asked for again. */
	atomic_bool no_noreplace;
	atomic_bool no_link;

	/* A bit per prefix directory that was seen to be one of ours. */
	_Atomic uint64_t sound[STORE_PREFIXES / 64];
};

static inline struct store_fs *store_fs_of(struct store *s)
{
	return (struct store_fs *)s;
}

void store_fs_prefix_name(unsigned prefix, char out[STORE_PREFIX_SIZE]);

/* "<.chunks as shown>/<rel>"; a part too long loses its end.  Returns out. */
const char *store_fs_shown(
    const struct store_fs *s, const char *rel, char out[STORE_SHOWN_SIZE]);

/*
 * Is there a prefix directory?  Asks the file system once per prefix: the
 * calls that follow go by path, and ENOENT tells if it went away later.  A
 * link, another kind of file or another device in its place: ERR_CORRUPT.
 */
int store_fs_check_prefix(
    struct store_fs *s, unsigned prefix, bool *ret_found, struct err *e);

/* Make it if it is missing; *ret_made says so. */
int store_fs_make_prefix(
    struct store_fs *s, unsigned prefix, bool *ret_made, struct err *e);

/*
 * Open it for reading, and with `anew` look at its device even if that was
 * done before.  Missing: *ret_fd is -1.
 */
int store_fs_open_prefix(
    struct store_fs *s, unsigned prefix, bool anew, int *ret_fd, struct err *e);

/* The same without a look at what was opened. */
int store_fs_open_unchecked(
    struct store_fs *s, unsigned prefix, int *ret_fd, struct err *e);
/* And that look: is it on the device of `.chunks`? */
int store_fs_check_dir(
    struct store_fs *s, unsigned prefix, int fd, struct err *e);

/*
 * The lock of a prefix.  While an exclusive one is held SIGTSTP is blocked in
 * this thread: all that insert into this prefix would stop with us.
 */
struct store_fs_hold {
	unsigned prefix;
	enum lock_mode mode;
	sigset_t signals; /* the mask to go back to */
};

/* Waits as long as it takes, or until the task is stopped. */
int store_fs_lock(struct store_fs *s, unsigned prefix, enum lock_mode mode,
    struct store_fs_hold *ret, struct err *e);
int store_fs_try_lock(struct store_fs *s, unsigned prefix,
    struct store_fs_hold *ret, bool *ret_taken, struct err *e);
void store_fs_unlock(struct store_fs *s, const struct store_fs_hold *hold);

/* A regular file with more than a header in it. */
bool store_fs_looks_sound(const struct statx *st);

/* True if *e says that this user may not. */
bool store_fs_is_denied(const struct err *e);

/* What became of a session's attempt to touch what has a chunk's name. */
enum store_fs_hit {
	STORE_FS_TOUCHED,
	STORE_FS_GONE,
	STORE_FS_DENIED, /* another user's: only a copy of our own will do */
};

/* Under the prefix lock.  rel: below .chunks. */
int store_fs_touch_hit(struct store_fs *s, const char *rel, const char *shown,
    enum store_fs_hit *ret, struct err *e);

/*
 * What the file system says now: on a network one the attributes that this
 * machine remembers may be older than another machine's touch.
 */
int store_fs_stat_afresh(int dirfd, const char *name, struct statx *ret_st,
    bool *ret_found, const char *shown, struct err *e);

struct store_entry store_fs_entry(enum store_kind kind, const struct digest *d,
    const char *name, const struct statx *st);

/* What store_ops has of the other files. */
int store_fs_touch(struct store *base, const struct digest *d,
    enum store_touched *ret, struct err *e);
int store_fs_plan(struct store *base, struct store_batch *b, struct task *task,
    struct err *e);
/* What is left of a batch, from number `first` on. */
void store_fs_order_by_prefix(const struct store_batch *b, size_t first);
int store_fs_touch_batch(struct store *base, const struct store_batch *b,
    size_t first, store_touch_fn fn, void *ctx, struct task *task,
    struct err *e);
void store_fs_pace(struct store *base, struct store_pace *ret);
int store_fs_insert(struct store *base, const struct digest *d, const void *raw,
    size_t n, const struct store_insert_opts *opts, enum store_inserted *ret,
    struct err *e);
int store_fs_prefixes(
    struct store *base, struct store_prefixes *ret, struct err *e);
int store_fs_scan(struct store *base, unsigned prefix, store_scan_fn fn,
    void *ctx, struct err *e);
int store_fs_scan_all(struct store *base, const struct store_scan_plan *plan,
    struct task *task, struct err *e);
int store_fs_sweep(struct store *base, unsigned prefix, filetime cutoff,
    struct store_victim *v, size_t n, bool *ret_busy, struct err *e);
int store_fs_quarantine(struct store *base, const struct digest *d, int fd,
    bool *ret_done, struct err *e);

#endif
