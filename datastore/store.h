/* SPDX-License-Identifier: MIT */
/*
 * store: content-addressed chunks: put, get, touch, scan, remove.
 *
 * A chunk is named by the SHA-256 of its plain content and holds one blob
 * (blob.h).  What is in use is known by its access time: a session touches
 * or inserts what it references, garbage collection marks by touching and
 * removes what has an old time (etc/doc/gc-safety.md).  `store_ops` is the
 * interface of a kind of store; store_fs.c is the one on a file system.
 *
 * Content is the caller's: an insert does not compare it with the digest.
 *
 * Thread-safe, but for close.  A touch or an insert of a digest, and a look
 * followed by a removal or a rename of it, exclude each other across threads
 * and processes (I7): the implementation takes its locks inside the calls,
 * around one touch or insert, or around one group of removals.
 */
#ifndef CAIRN_DATASTORE_STORE_H
#define CAIRN_DATASTORE_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "datastore/base/buf.h"
#include "datastore/base/clock.h"
#include "datastore/base/digest.h"
#include "datastore/base/err.h"
#include "datastore/base/file.h"
#include "datastore/base/lockfile.h"
#include "datastore/base/task.h"
#include "datastore/touchorder.h"

#define STORE_PREFIXES 65536U
#define STORE_BAD_COPIES 10U /* <digest>.0.bad to .9.bad */

/* Longest name of an entry that is ours: digest, ".tmp_XXXXXX", NUL. */
#define STORE_NAME_SIZE 80

enum store_kind {
	STORE_CHUNK, /* 64 hex digits */
	STORE_BAD,   /* <digest>.N.bad: content was proven wrong */
	STORE_TMP,   /* <digest>.tmp_XXXXXX, or PBS's old <digest>.tmp */
	STORE_OTHER, /* anything else; never touched by us */
};

/* One entry of a prefix directory. */
struct store_entry {
	enum store_kind kind;
	struct digest digest; /* of STORE_CHUNK, STORE_BAD, STORE_TMP */
	const char *name;     /* within the prefix directory; "" from stat */
	bool regular;
	uint64_t bytes;
	filetime atime;
	filetime mtime;
	filetime ctime;
};

enum store_inserted {
	STORE_NEW,      /* our file got the name */
	STORE_HIT,      /* a sound-looking one was there and was touched */
	STORE_REPLACED, /* an empty, short, damaged or foreign one was */
};

enum store_touched {
	STORE_TOUCHED,
	STORE_MISSING,  /* no such chunk; nothing of it there */
	STORE_ONLY_BAD, /* no such chunk; its .bad files were touched */
};

/* How hard an insert works for durability, and whom it trusts. */
struct store_insert_opts {
	bool sync;      /* fsync the chunk and its directory */
	bool known_bad; /* the digest is on the damage list: replace it */
};

/*
 * What a sweep asks to remove.  The rule is looked at again under the lock,
 * with times read afresh from the file system (AT_STATX_FORCE_SYNC):
 *   STORE_CHUNK, STORE_BAD  atime < cutoff (and ctime < cutoff if by_ctime)
 *   STORE_TMP               mtime < cutoff and ctime < cutoff
 * if_good_exists: a .bad file that may only go because its chunk is there.
 */
struct store_victim {
	char name[STORE_NAME_SIZE];
	enum store_kind kind;
	bool by_ctime;
	bool if_good_exists;
	enum {
		STORE_VICTIM_KEPT, /* a time, or the good chunk, saved it */
		STORE_VICTIM_REMOVED,
		STORE_VICTIM_GONE,
	} outcome;
	uint64_t bytes; /* of a removed one */
};

#define STORE_SWEEP_MAX 64U /* victims per taking of a prefix lock */

/*
 * What is to be touched together: n digests (TOUCHORDER_MAX at most), in the
 * order in which they were met, equal ones among them; and room for a key per
 * digest.  store_plan fills the order: keys[0 .. todo), each digest once.
 */
struct store_batch {
	const struct digest *d;
	size_t n;
	uint64_t *keys;
	size_t todo;
};

static inline const struct digest *store_batch_at(
    const struct store_batch *b, size_t i)
{
	return &b->d[touchorder_index(b->keys[i])];
}

/* How a store's touches went: for people. */
struct store_pace {
	uint64_t calls;   /* that were timed */
	int64_t call_ns;  /* what one took, on average */
	unsigned threads; /* that most of them were made with */
	bool by_inode;    /* in order of inodes, not by directory */
};

/* Called per digest of a batch, in order; a failure ends the batch. */
typedef int (*store_touch_fn)(
    void *ctx, const struct digest *d, enum store_touched what, struct err *e);
typedef int (*store_scan_fn)(
    void *ctx, const struct store_entry *entry, struct err *e);

/* A set of prefixes. */
struct store_prefixes {
	uint64_t bits[STORE_PREFIXES / 64];
};

static inline bool store_prefixes_has(
    const struct store_prefixes *set, unsigned prefix)
{
	return (set->bits[prefix / 64] >> prefix % 64 & 1) != 0;
}

/*
 * A scan of the prefixes first .. last, in order, with all told in the
 * caller's thread: begin for each, also for those that are not there; then, if
 * it is there, its entries (STORE_OTHER may be left out) and end.  A failure
 * ends it.  An entry may have been looked at some prefixes before its turn.
 */
struct store_scan_plan {
	const struct store_prefixes *there;
	unsigned first;
	unsigned last;
	int (*begin)(void *ctx, unsigned prefix, struct err *e);
	store_scan_fn entry;
	int (*end)(void *ctx, unsigned prefix, struct err *e);
	void *ctx;
};

struct store;

struct store_ops {
	/*
	 * Session: is it there?  Under the prefix read lock: a regular file of
	 * more than 12 bytes that can be touched is a hit; anything else is
	 * not, and the insert that follows mends it.
	 */
	int (*reuse)(struct store *s, const struct digest *d, bool *ret_hit,
	    struct err *e);
	/*
	 * Session: put these bytes (a whole blob, more than its header) under
	 * this name (I1).  On failure the old state stands, or the new chunk
	 * is there, whole.
	 */
	int (*insert)(struct store *s, const struct digest *d, const void *raw,
	    size_t n, const struct store_insert_opts *opts,
	    enum store_inserted *ret, struct err *e);
	/* The raw blob; ERR_NOTFOUND; ERR_CORRUPT if empty, over-long, or no
	 * regular file.  Content is not looked at. */
	int (*load)(struct store *s, const struct digest *d, struct buf *raw,
	    struct err *e);
	/* Looks only; never touches. */
	int (*stat)(struct store *s, const struct digest *d,
	    struct store_entry *ret, bool *ret_found, struct err *e);
	/*
	 * GC's mark: set the access time, no lock (GC is the only one who
	 * removes).  Where the chunk is missing its .bad files are touched.
	 * Fails with anything but ENOENT: then nothing may be swept.  What is
	 * no regular file is touched like one (a link itself, not what it
	 * leads to): to tell them apart would cost a call for every chunk,
	 * and scan and verify tell.
	 */
	int (*touch)(struct store *s, const struct digest *d,
	    enum store_touched *ret, struct err *e);
	/*
	 * Put a batch into the order that suits the disk.  NULL: by prefix.
	 */
	int (*plan)(struct store *s, struct store_batch *b, struct task *task,
	    struct err *e);
	/*
	 * Touch what is planned, from number `first` on.  fn is told of each,
	 * in order, in the caller's thread; some behind the last one told may
	 * have been touched, too.  What is behind may be put into another
	 * order.  A failure is that of the first one not
	 * told of, or fn's.  task is looked at before every touch.  One batch
	 * at a time.  NULL where a kind of store has no use for it: store.c
	 * then touches one by one.
	 */
	int (*touch_batch)(struct store *s, const struct store_batch *b,
	    size_t first, store_touch_fn fn, void *ctx, struct task *task,
	    struct err *e);
	/* May be NULL: nothing is known. */
	void (*pace)(struct store *s, struct store_pace *ret);
	/*
	 * Those whose directory was there when this was called; of others it
	 * may tell.  What is in the place of a directory is not looked at.
	 */
	int (*prefixes)(
	    struct store *s, struct store_prefixes *ret, struct err *e);
	/*
	 * Every entry of one prefix, in no order.  A prefix that is not there
	 * is empty; a symbolic link, another kind of file or another device in
	 * its place is an error.  An entry that vanishes is passed over.
	 */
	int (*scan)(struct store *s, unsigned prefix, store_scan_fn fn,
	    void *ctx, struct err *e);
	/* NULL: one after the other. */
	int (*scan_all)(struct store *s, const struct store_scan_plan *plan,
	    struct task *task, struct err *e);
	/*
	 * Remove what still may go, under the exclusive prefix lock, which is
	 * only tried: *ret_busy means that nothing was done.  n is at most
	 * STORE_SWEEP_MAX.  SIGTSTP is blocked for this thread meanwhile: a
	 * program of several threads blocks it in the others.  A failure ends
	 * it; the outcome of each victim before that is right, that of the
	 * others is KEPT.
	 */
	int (*sweep)(struct store *s, unsigned prefix, filetime cutoff,
	    struct store_victim *v, size_t n, bool *ret_busy, struct err *e);
	/*
	 * Verify: rename the chunk to .N.bad, N the first free one (9 is
	 * overwritten when all are taken), under the exclusive prefix lock,
	 * if the name still leads to the file with this inode and ctime.
	 * *ret_done false: it does not any more.
	 */
	int (*quarantine)(struct store *s, const struct digest *d, int fd,
	    bool *ret_done, struct err *e);
	/* Open a chunk's file for quarantine and repeated reading. */
	int (*open)(struct store *s, const struct digest *d, int *ret_fd,
	    struct err *e);
	void (*close)(struct store *s);
};

struct store {
	const struct store_ops *ops;
};

/* Dispatch: thin, checked; see store_ops for what each one does. */
int store_reuse(
    struct store *s, const struct digest *d, bool *ret_hit, struct err *e);
int store_insert(struct store *s, const struct digest *d, const void *raw,
    size_t n, const struct store_insert_opts *opts, enum store_inserted *ret,
    struct err *e);
int store_load(
    struct store *s, const struct digest *d, struct buf *raw, struct err *e);
int store_stat(struct store *s, const struct digest *d, struct store_entry *ret,
    bool *ret_found, struct err *e);
int store_touch(struct store *s, const struct digest *d,
    enum store_touched *ret, struct err *e);
int store_plan(
    struct store *s, struct store_batch *b, struct task *task, struct err *e);
int store_touch_batch(struct store *s, const struct store_batch *b,
    size_t first, store_touch_fn fn, void *ctx, struct task *task,
    struct err *e);
void store_pace(struct store *s, struct store_pace *ret);
int store_list_prefixes(
    struct store *s, struct store_prefixes *ret, struct err *e);
int store_scan(struct store *s, unsigned prefix, store_scan_fn fn, void *ctx,
    struct err *e);
int store_scan_all(struct store *s, const struct store_scan_plan *plan,
    struct task *task, struct err *e);
int store_sweep(struct store *s, unsigned prefix, filetime cutoff,
    struct store_victim *v, size_t n, bool *ret_busy, struct err *e);
int store_quarantine(struct store *s, const struct digest *d, int fd,
    bool *ret_done, struct err *e);
int store_open_chunk(
    struct store *s, const struct digest *d, int *ret_fd, struct err *e);
void store_close(struct store *s); /* NULL is allowed */

/* "0a1b/0a1b...": a chunk's path below .chunks. */
#define STORE_CHUNK_PATH_SIZE 70
void store_chunk_path(const struct digest *d, char out[STORE_CHUNK_PATH_SIZE]);

/* "0a1b": is this the name of a prefix directory, and of which; pure. */
bool store_prefix_of(const char *name, unsigned *ret);

/* What a name in prefix directory `prefix` is; pure. */
enum store_kind store_name_kind(
    const char *name, unsigned prefix, struct digest *ret);

/*
 * The store of files below chunks_fd (`.chunks`; the caller's, open as long
 * as the store).  Prefix directories are made when first needed, mode 0750.
 * locks may be NULL for a store that is only read.  `shown` (".chunks" with
 * the datastore's path before it) is copied.
 */
int store_fs_open(int chunks_fd, struct lockfile *locks,
    const struct file_owner *owner, const char *shown, struct store **ret,
    struct err *e);

/*
 * What is known of the file system.  network: calls wait for a server, so that
 * more may be in flight.  by_inode: what touches change lies in order of inode
 * numbers, and is written anew where it changes (btrfs).
 */
void store_fs_set_kind(struct store *s, bool network, bool by_inode);

/* The directory of this prefix was looked at: it is one, and on the device of
 * `.chunks`.  So nobody needs to look again. */
void store_fs_note_prefix(struct store *s, unsigned prefix);

/*
 * While a prefix lock is waited for, task is asked whether to stop
 * (ERR_CANCELLED); waiting is called once, after 5 s.  Both may be NULL.
 */
void store_fs_set_waiting(struct store *s, struct task *task,
    void (*waiting)(void *ctx, struct task *task), void *ctx);

#endif
