/* SPDX-License-Identifier: MIT */
/*
 * chunkidx: the chunk index of a datastore: which chunks it has, how large
 * they are, when they were verified; so that nothing has to walk millions of
 * files to answer that, and a restart costs the same for any number of them.
 *
 *     control.json            generation, what is known, of which GC
 *     base-<gen>.cix          all chunks, sorted; never changed
 *     base-<gen>.gone         one bit per entry: removed since
 *     runs/<sequence>.cix     what one session inserted, or what was verified
 *     lock                    byte 0: who merges, rebuilds or removes
 *
 * in `.cairn/index/`, or in <index-dir>/<store id>/ for a datastore on a
 * network file system.  etc/doc/format-chunkidx.md has the bytes.
 *
 * The files of chunks are the truth, and the index is a hint (R0): nothing is
 * skipped or removed because of what it says alone.  Every byte of it may be
 * lost, old, torn or another's: that costs time.  So what is wrong with it is
 * mostly no error here but a state: what is not known is `unknown`.
 *
 * Shards are the 256 first bytes of digests.  Of a known shard every chunk
 * that was inserted by a session that recorded it is in the base or in a run;
 * of an unknown one nothing is told.
 *
 * Nobody waits: the lock is only tried (R4), what can not be recorded is
 * dropped, and opening neither merges nor rebuilds (R3).
 */
#ifndef CAIRN_INDEX_CHUNKIDX_H
#define CAIRN_INDEX_CHUNKIDX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "datastore/base/task.h"
#include "datastore/datastore.h"
#include "index/cix.h"

/* A merge is due when there are so many runs. */
#define CHUNKIDX_RUNS_DUE 32U
/* What is behind is not looked at before a merge. */
#define CHUNKIDX_RUNS_MAX 1024U

/* How long a directory scan may be ago: 30 days. */
#define CHUNKIDX_SCAN_S (30LL * 86400)

enum chunkidx_state {
	CHUNKIDX_OFF,     /* the file system can not carry it, or asked so */
	CHUNKIDX_NONE,    /* there is no base yet, or none that is ours */
	CHUNKIDX_PARTIAL, /* some shards are unknown */
	CHUNKIDX_READY,   /* all are known */
};

const char *chunkidx_state_name(enum chunkidx_state s);

struct chunkidx;

/* What is known without reading more than headers. */
struct chunkidx_info {
	enum chunkidx_state state;
	char why[ERR_MSG_SIZE]; /* of OFF, NONE, PARTIAL */
	char dir[ERR_MSG_SIZE]; /* where it lies, for people */
	uint64_t generation;
	struct cix_shards known;
	uint64_t base_entries;
	uint64_t gone; /* of these, removed since */
	uint64_t run_entries;
	unsigned runs;
	/* Chunks and their bytes by headers: removals in runs, and chunks that
	 * several runs have, are not looked for. */
	uint64_t chunks;
	uint64_t bytes;
	int64_t scanned; /* last scan of all directories by a GC; 0: never */
	int64_t merged;  /* when the base was made; 0: there is none */
	/* Chunks were inserted that it was not told of: a push was killed, or
	 * had no room for it. */
	bool lacking;
	bool busy; /* somebody merges, rebuilds or collects */
	struct cix_stats stats;
};

/*
 * Open what there is.  upid: of the last GC, as `.gc-status` has it; if it is
 * not one that the index knows, another program may have removed chunks, and
 * all shards are unknown.  NULL: not compared.  Fails for lack of memory only;
 * everything else is a state.
 */
int chunkidx_open(struct datastore *ds, const char *upid, struct chunkidx **ret,
    struct err *e);
void chunkidx_close(struct chunkidx *ix); /* NULL is allowed */

void chunkidx_get_info(struct chunkidx *ix, struct chunkidx_info *ret);
bool chunkidx_knows(const struct chunkidx *ix, const struct digest *d);

enum chunkidx_found {
	CHUNKIDX_UNKNOWN, /* nothing is told */
	CHUNKIDX_ABSENT,
	CHUNKIDX_REMOVED, /* it was there */
	CHUNKIDX_PRESENT,
};

/* Where an entry was found. */
struct chunkidx_hit {
	struct cix_entry entry;
	bool in_base;
	uint64_t rank; /* if in_base */
	uint64_t run;  /* its sequence, if not */
};

/* By all of it; the newest that is said of a digest counts. */
enum chunkidx_found chunkidx_find(
    struct chunkidx *ix, const struct digest *d, struct chunkidx_hit *ret);

/* --- Who changes the index holds its lock. --- */

/* Make the directories where they are missing.  ERR_UNSUPPORTED: it is off. */
int chunkidx_make(struct datastore *ds, struct err *e);

/* Of a datastore that is empty: an index that knows all.  ERR_UNSUPPORTED: it
 * is off. */
int chunkidx_create(struct datastore *ds, struct err *e);

/*
 * Try the lock; *ret_taken false: somebody else has it.  It is held until
 * chunkidx_unlock or the close.  Once it is held, the control file is read
 * anew: *ret_taken is also false, and nothing held, if it has changed.
 */
int chunkidx_lock(struct chunkidx *ix, bool *ret_taken, struct err *e);
void chunkidx_unlock(struct chunkidx *ix);

/* The base, for ranks; NULL if there is none.  Borrowed. */
struct cix *chunkidx_base(struct chunkidx *ix);
bool chunkidx_is_gone(struct chunkidx *ix, uint64_t rank);

/*
 * Note that these ranks of the base are removed, before they are (R5): in
 * place, and on stable storage when this returns.  Ascending; their chunks
 * have so many bytes, for status.
 */
int chunkidx_set_gone(struct chunkidx *ix, const uint64_t *ranks, size_t n,
    uint64_t bytes, struct err *e);

/*
 * From before the first of these until all that was noted is removed: who is
 * killed in between leaves chunks that the index takes for removed, and the
 * next run has to look for them.
 */
int chunkidx_removing(struct chunkidx *ix, bool begins, struct err *e);

/* The base can not be kept true: one byte of it, in place, fsynced; or, where
 * that is not possible, the control file is removed. */
int chunkidx_distrust(struct chunkidx *ix, struct err *e);

/* What chunkidx_finish changes of the control file. */
struct chunkidx_note {
	/* Of a GC that ends; NULL: as before.  The one before stays good until
	 * `settled` says that `.gc-status` has this one. */
	const char *upid;
	bool settled;
	bool scanned;                     /* it has scanned all directories */
	const struct cix_shards *unknown; /* no longer known; NULL: none */
};
int chunkidx_note(
    struct chunkidx *ix, const struct chunkidx_note *note, struct err *e);

/*
 * --- A new base, from the old one without what is gone, the runs, and for
 * some shards from what a scan of the directories finds. ---
 *
 * The order is that of prefixes: chunkbuild_scanned is called for prefixes of
 * the shards to be scanned, ascending, with what lies there in order of
 * digests; those that are passed over are empty, the last one is called for
 * in any case.  What is between is copied.
 * chunkbuild_finish makes it the base and removes what it was made of; a
 * failure, or a kill at any moment, leaves the old one.
 */
struct chunkbuild;

/* The lock is held.  scan: shards that chunkbuild_scanned will tell of. */
int chunkbuild_new(struct chunkidx *ix, const struct cix_shards *scan,
    struct task *task, struct chunkbuild **ret, struct err *e);
/* Days of verification are taken from what was known. */
int chunkbuild_scanned(struct chunkbuild *b, unsigned prefix,
    struct cix_entry *x, size_t n, struct err *e);
/*
 * The rest is copied; shards to be scanned that were not told of whole
 * are as unknown, or as known, as they were.  note: as for chunkidx_note.
 * ix tells of the new base afterwards.
 */
int chunkbuild_finish(
    struct chunkbuild *b, const struct chunkidx_note *note, struct err *e);
void chunkbuild_free(struct chunkbuild *b); /* NULL is allowed */

/* Merge: a build without a scan. */
int chunkidx_merge(struct chunkidx *ix, struct task *task,
    const struct chunkidx_note *note, struct err *e);

/*
 * Scan the directories of all shards that are unknown, or of all; progress is
 * by prefix.  Stopped, it keeps the shards that it has done.
 */
int chunkidx_rebuild(
    struct chunkidx *ix, bool all, struct task *task, struct err *e);

/* --- Reading all of it --- */

struct chunkidx_check {
	uint64_t entries;
	uint64_t bad_pages;
	uint64_t absent;  /* in the index, and no such file */
	uint64_t unknown; /* files of known shards that it has not */
	uint64_t sizes;   /* of another size than it says */
};

/* Every page; with_files: compare with the directories, too. */
int chunkidx_check(struct chunkidx *ix, bool with_files, struct task *task,
    struct chunkidx_check *ret, struct err *e);

#endif
