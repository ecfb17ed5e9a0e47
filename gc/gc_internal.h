/* SPDX-License-Identifier: MIT */
/*
 * gc_internal: what the files of one run share.
 *
 *     gc.c          the run, step by step
 *     gc_start.c    locks, probes, times, sessions: the order of I6
 *     gc_guard.c    what is checked again before unlinks: clock, canaries
 *     gc_mark.c     mark by touching, and the progress of both kinds
 *     gc_set.c      mark by sets of digests: dry runs, file systems too full
 *     gc_index.c    the chunk index: marks by it, its upkeep
 *     gc_candidates.c  what it says is not referenced, looked at and swept
 *     gc_missing.c  what is referenced and not there
 *     gc_trace.c    what a run says of itself: gc.running, history
 *     gc_status.c   the files that tell of the last run
 */
#ifndef CAIRN_GC_GC_INTERNAL_H
#define CAIRN_GC_GC_INTERNAL_H

#include "gc/findings.h"
#include "gc/gc.h"
#include "gc/history_record.h"
#include "gc/livepass.h"
#include "gc/mark.h"
#include "gc/roots.h"
#include "gc/running.h"
#include "gc/sweep.h"
#include "gc/touch.h"

/* What a file time may be off by between two who agree: added to the cutoff. */
#define GC_SLACK_NS (5 * CLOCK_NS_PER_S)

#define GC_SHOWN_SIZE 1536

struct gc_index;

struct gc_run {
	struct datastore *ds;
	const struct gc_opts *opts;
	struct task *task;
	struct gc_result r;
	struct findings findings;
	struct mark mark; /* of the last pass */
	struct running running;
	struct history_record history;

	/* gc_start.c */
	filetime file_clock;  /* as last read */
	int64_t start_boot;   /* CLOCK_BOOTTIME at the start of mark */
	int64_t looked_boot;  /* ... when file_clock was read */
	int64_t looked_ahead; /* our clock was so far ahead of it then */
	bool no_space;        /* touching fails: the disk is full */
	bool session_limits;  /* the cutoff is that of a session */
	char **skip;          /* snapshots of dead sessions (dry run) */
	size_t skip_n;

	/* gc_guard.c */
	bool jumped; /* a forward jump was told */
	uint64_t checks;
	size_t canary; /* the next one to be looked at */
	unsigned probe_failures;

	/* gc_mark.c */
	struct touch *touch; /* NULL: by sets */
	bool touch_failed;   /* too often: no more touches */
	unsigned touch_failures;
	uint64_t shown; /* of the progress, in millionths; never falls */

	/* gc_set.c */
	struct livepass *live;
	unsigned passes;
	double pass_from; /* share of the digest space that is done */
	double pass_width;

	/* gc_index.c */
	struct gc_index *index; /* NULL: not used */

	/* gc_missing.c */
	struct digest *missing; /* sorted, at most TOUCH_MISSING_MAX */
	size_t missing_n;
};

/* gc_start.c */

/* Before anything: arguments that would not be safe on this store. */
int gc_check_opts(struct gc_run *run, struct err *e);
/* I6 from the probes to the cutoff; the lock is held. */
int gc_start(struct gc_run *run, struct err *e);
/* The same without writing. */
int gc_start_dry(struct gc_run *run, struct err *e);
void gc_start_release(struct gc_run *run);
/* True for the errors of a file system that is too full for a touch. */
bool gc_is_full(const struct err *e);

/* gc_guard.c */

/*
 * Read the file clock: touch `.chunks`.  Where that fails for lack of space,
 * run->no_space is set and the kernel's clock taken.
 */
int gc_guard_clock(struct gc_run *run, filetime *ret, struct err *e);
/* A2, and every canary: before the first unlink. */
int gc_guard_all(struct gc_run *run, struct err *e);
/* For sweep_opts.check: one canary; A2 every 4096 directories. */
int gc_guard_next(void *ctx, struct err *e);
/* For sweep_opts.check_group: A2, where the margin is small. */
int gc_guard_group(void *ctx, struct err *e);
/* For touch_hooks.first: A1 on the first chunk. */
int gc_guard_first(
    void *ctx, const struct digest *d, bool *ret_done, struct err *e);

/* gc_mark.c */

/*
 * Mark by touching.  0 also if there are findings; if the file system turned
 * out too full, run->no_space is set, and mark is to be made by sets.
 */
int gc_mark_touch(struct gc_run *run, struct err *e);
void gc_mark_progress(
    struct gc_run *run, const struct mark_counts *c, uint64_t resolved);
void gc_mark_finished(struct gc_run *run);
/* ERR_REFUSED if there were findings. */
int gc_check_findings(struct gc_run *run, struct err *e);
struct mark_opts gc_mark_opts(const struct gc_run *run);

/* gc_set.c */

/* Passes of mark and sweep by sets, for a dry run or without touches. */
int gc_set_run(struct gc_run *run, struct err *e);
/* Count what would go, into *ret_chunks and *ret_would_go. */
int gc_set_count(struct gc_run *run, uint64_t *ret_chunks,
    uint64_t *ret_would_go, struct err *e);

/* gc.c */

/*
 * Did roots vanish unrecorded, and would too much go for that?  count is
 * called if it matters, which *ret_counted tells.
 */
int gc_check_vanished(struct gc_run *run,
    int (*count)(struct gc_run *run, uint64_t *ret_chunks,
	uint64_t *ret_would_go, struct err *e),
    bool *ret_counted, struct err *e);
/*
 * ERR_REFUSED if of all that is referenced (r.missing_chunks are not there)
 * nothing is there: somebody emptied `.chunks`, or it is not the one that
 * belongs to these index files.  There is nothing to collect, and a thousand
 * warnings would hide the reason.
 */
int gc_check_emptied(struct gc_run *run, uint64_t there, struct err *e);
/* ERR_REFUSED if that many of that many may not go; first: what vanished. */
int gc_judge_vanished(struct gc_run *run, const struct roots_past *past,
    uint64_t chunks, uint64_t would_go, struct err *e);

/* gc_missing.c */

/* Tell who references what is missing. */
int gc_missing_report(struct gc_run *run, struct err *e);
/* Append to the damage list; may_create: also where there is none yet. */
void gc_missing_record(struct gc_run *run, bool may_create);

/* gc_trace.c */

/* To the task, and into gc.running. */
void gc_trace_progress(void *ctx, const struct task_progress *p);
/* For sweep_opts.removed. */
void gc_trace_removed(void *ctx, const struct store_victim *v, filetime used);
/* The lock is held: record what died before. */
void gc_trace_begin(struct gc_run *run);
/* How it ended: into the history and, if the lock was held, gc.running. */
void gc_trace_end(struct gc_run *run, bool locked, int rc, const struct err *e);

/* gc_status.c */

/* The figures of a result, with their names; returns how many. */
#define GC_STATUS_COUNTS 32
size_t gc_status_counts(
    const struct gc_result *r, struct history_count out[GC_STATUS_COUNTS]);

/* `.gc-status` and `.cairn/gc.last`; what fails is a warning. */
void gc_status_write(struct gc_run *run);

#endif
