/* SPDX-License-Identifier: MIT */
/*
 * history: `.cairn/history.db`, what ran on a datastore, and what a garbage
 * collection removed.
 *
 * A SQLite database, open for one short transaction at a time, under a lock of
 * the whole file that is awaited for 5 s.  It tells, and nothing depends on
 * it: whoever records goes on without it (history_record.h).  Runs are kept,
 * the newest HISTORY_RUNS_MAX of them, and as many pushes beside them: hosts
 * that push every minute push no other run out.  What was removed, chunk by
 * chunk, is kept for 90 days and as long as the file has less than 1 GiB.
 *
 * A run is recorded when it begins and once more when it ends; one that did
 * not say how it ended, and holds its lock no more, was killed.  Garbage
 * collection makes nothing before its first unlink (I11), and so is recorded
 * later, and by `.cairn/gc.running` until then.  A push is recorded at its end
 * only: while it runs its registration tells of it.
 */
#ifndef CAIRN_GC_HISTORY_H
#define CAIRN_GC_HISTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "datastore/base/digest.h"
#include "datastore/base/err.h"
#include "datastore/base/task.h"
#include "datastore/datastore.h"
#include "datastore/gcrunning.h"
#include "datastore/registration.h"

#define HISTORY_NAME "history.db"
/* Where a damaged one goes, over an older one. */
#define HISTORY_ASIDE "history.db.damaged"

#define HISTORY_RUNS_MAX 10000U
#define HISTORY_KEEP_S (90LL * 86400)
#define HISTORY_BYTES_MAX (1ULL << 30)
#define HISTORY_WHY_SIZE 512

struct history;

enum history_kind {
	HISTORY_GC,
	HISTORY_FORGET,
	HISTORY_PRUNE,
	HISTORY_VERIFY,
	HISTORY_PUSH,
};
#define HISTORY_KINDS 5

enum history_result {
	HISTORY_RUNNING,
	HISTORY_DONE,
	HISTORY_INCOMPLETE, /* done, but not whole: exit code 3 */
	HISTORY_DAMAGE,     /* done, and found damage */
	HISTORY_BUSY,
	HISTORY_REFUSED,
	HISTORY_FAILED,
	HISTORY_STOPPED, /* by a signal */
	HISTORY_KILLED,
};
#define HISTORY_RESULTS 9

struct history_run {
	int64_t id; /* 0: is not in the database */
	enum history_kind kind;
	enum history_result result;
	int64_t started; /* epoch */
	int64_t ended;   /* 0: it has not, or nobody knows */
	char host[REGISTRATION_HOST_SIZE];
	char machine_id[DATASTORE_ID_SIZE];
	int64_t pid;
	uint64_t lock_byte; /* of `.lock`, held while it runs; 0: none */
	uint64_t removed;   /* chunks, or snapshots */
	uint64_t freed;     /* bytes */
	uint64_t unlogged;  /* removed, and not in the log: no room */
	char why[HISTORY_WHY_SIZE];
};

/* One of its figures. */
struct history_count {
	const char *key; /* "disk-chunks" */
	uint64_t n;
};

enum history_what {
	HISTORY_GARBAGE,   /* a chunk that nothing referenced */
	HISTORY_BAD,       /* a .bad file that nobody needs any more */
	HISTORY_TEMPORARY, /* left by a dead backup */
};

/* One file that was removed. */
struct history_removed {
	struct digest digest;
	enum history_what what;
	uint64_t bytes;
	int64_t used; /* epoch of its last use */
};

/* Words of JSON and of the database. */
const char *history_kind_name(enum history_kind k);
bool history_kind_parse(const char *s, enum history_kind *ret);
const char *history_result_name(enum history_result r);
const char *history_what_name(enum history_what w);

/* This process, now, running. */
void history_run_init(
    struct history_run *r, const struct datastore *ds, enum history_kind kind);

/*
 * Open it and lock it, shared to read, exclusively to write, which makes it
 * where it is missing.  *ret_found false: there is none (to write: there is no
 * `.cairn`), and nothing is opened.  ERR_CORRUPT: it is damaged;
 * ERR_UNSUPPORTED: a newer cairn made it, or SQLite can not use it; ERR_BUSY:
 * locked for 5 s.
 *
 * To write, and ERR_CORRUPT: *ret may be there all the same, locked, to be put
 * aside and closed, and for nothing else.  SIGTSTP is blocked for this thread
 * while it is open for writing: a process that is stopped would keep the lock.
 */
enum history_mode {
	HISTORY_READ,
	HISTORY_READ_SOON, /* waits a quarter of a second only */
	HISTORY_WRITE,
	HISTORY_WRITE_SOON,
};
int history_open(struct datastore *ds, enum history_mode mode,
    struct task *task, struct history **ret, bool *ret_found, struct err *e);
void history_close(struct history *h); /* NULL is allowed */

/*
 * Put a damaged one, open for writing, out of the way, for a new one.  Its lock
 * is held until h is closed: who waits for it sees then that it is another.
 */
int history_set_aside(struct history *h, struct err *e);

/* Each of these is one transaction. */

/*
 * Record r, whose id is 0: it gets one.  Runs that did not say how they ended
 * and do not hold their lock any more become killed ones.
 */
int history_add(struct history *h, struct history_run *r, struct err *e);
/*
 * Is there one of this kind, begin, machine and pid; and of this id, unless it
 * is 0?  An id alone may be another's: the database may be a new one.
 */
int history_knows(
    struct history *h, const struct history_run *r, bool *ret, struct err *e);
/* And did it say how it ended? */
int history_has_ended(
    struct history *h, const struct history_run *r, bool *ret, struct err *e);
/* Write how it is by now, with its figures.  ERR_NOTFOUND: it is not there. */
int history_update(struct history *h, const struct history_run *r,
    const struct history_count *counts, size_t n, struct err *e);
/*
 * Record r, whose id is 0 and which has ended, with its figures and the
 * snapshot that it made (NULL: none).  The dead are left to history_add.
 */
int history_add_ended(struct history *h, struct history_run *r,
    const char *made, const struct history_count *counts, size_t n,
    struct err *e);
/* A snapshot that is about to be removed; or that stayed, after all. */
int history_add_snapshot(
    struct history *h, int64_t run, const char *name, struct err *e);
int history_drop_snapshot(
    struct history *h, int64_t run, const char *name, struct err *e);
/*
 * Files that were removed.  *ret_added of them found room, after older ones
 * were dropped.
 */
int history_add_removed(struct history *h, int64_t run,
    const struct history_removed *items, size_t n, size_t *ret_added,
    struct err *e);
/* Drop what is older than it is kept for, or beyond the number of runs. */
int history_trim(struct history *h, int64_t now, struct err *e);
/* For tests: smaller limits. */
void history_limit(struct history *h, uint64_t bytes, uint64_t runs);

struct history_query {
	int64_t run;   /* only this one; 0: all */
	bool any_kind; /* else only this one */
	enum history_kind kind;
	int64_t since;  /* begun then or later; 0: all */
	uint64_t limit; /* at most so many; 0: all */
};

/*
 * The newest first.  fn's failure ends it and is returned.  The result is
 * HISTORY_KILLED also where nobody wrote that down so far.  Of a garbage
 * collection without an end, removed and freed are what is in its log, or more.
 */
int history_runs(struct history *h, const struct history_query *q,
    int (*fn)(void *ctx, const struct history_run *r, struct err *e), void *ctx,
    struct err *e);
/* In the order in which they were recorded, or of their keys. */
int history_counts(struct history *h, int64_t run,
    int (*fn)(void *ctx, const struct history_count *c, struct err *e),
    void *ctx, struct err *e);
int history_snapshots(struct history *h, int64_t run,
    int (*fn)(void *ctx, const char *name, struct err *e), void *ctx,
    struct err *e);
/* Only so many at a time: nobody keeps the lock while a person reads. */
struct history_page {
	int64_t run;
	uint64_t most;
	int64_t after; /* of those before, by the call; 0: from the first on */
};
int history_removed(struct history *h, struct history_page *page,
    int (*fn)(void *ctx, const struct history_removed *r, struct err *e),
    void *ctx, struct err *e);

/*
 * The garbage collection that gc.running tells of, as a run with id 0:
 * running, killed, or ended.  *ret_found false: none.
 */
int history_gc_trace(struct datastore *ds, struct history_run *ret,
    bool *ret_found, struct err *e);
/* Such a record; alive: its lock is held. */
void history_of_gc(
    const struct gcrunning *g, bool alive, struct history_run *ret);

#endif
