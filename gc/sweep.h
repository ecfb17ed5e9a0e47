/* SPDX-License-Identifier: MIT */
/*
 * sweep: remove what was last used before the cutoff, prefix by prefix.
 *
 * Each prefix whose directory is there at the beginning is scanned without a
 * lock; what looks old is looked at again and removed under the exclusive
 * prefix lock, at most 64 per taking.  A busy prefix is put off to the end,
 * tried for 60 s, and then left: unswept.  While looks wait for the disk
 * several directories are looked through at once; removing, counting and every
 * message stay in one thread and in order.
 * Prefix directories stay.
 *
 *     chunk      atime before the cutoff
 *     .N.bad     the same; of a digest that is referenced only if its good
 *                chunk exists (mark touches the others)
 *     temporary  mtime and ctime before the cutoff
 *
 * A chunk whose time lies far ahead of the file clock would wait for years:
 * it is touched, so that it counts from now.
 */
#ifndef CAIRN_GC_SWEEP_H
#define CAIRN_GC_SWEEP_H

#include <stdbool.h>
#include <stdint.h>

#include "datastore/base/clock.h"
#include "datastore/base/digest.h"
#include "datastore/base/err.h"
#include "datastore/base/task.h"
#include "datastore/datastore.h"
#include "datastore/store.h"
#include "gc/gc.h"
#include "gc/livepass.h"

/* Prefixes between two calls of `check`. */
#define SWEEP_CHECK_EVERY 256U

/* How far ahead of the file clock a time may lie. */
#define SWEEP_AHEAD_NS (3600 * CLOCK_NS_PER_S)

struct sweep_opts {
	filetime cutoff;
	filetime start_of_mark; /* pending: older than this, not removed */
	/* As it was last read; `check` may change it.  NULL: start_of_mark. */
	const filetime *file_clock;
	bool dry_run; /* count, change nothing */
	bool quiet;   /* neither progress nor messages */
	/*
	 * Set-based: only digests of [lo, hi), and only those that are not in
	 * `live`, whose pass has ended; chunks that are there are noted in
	 * it.  NULL: all prefixes, by touch.
	 */
	struct livepass *live;
	struct digest lo;
	struct digest hi;
	bool hi_is_end; /* hi is behind the last digest */
	/* ctime too must be before the cutoff (where nothing was touched). */
	bool by_ctime;
	bool chunks_only; /* neither .bad nor temporary files */
	/*
	 * Instead of scans of directories: tell fn, as a scan would, of those
	 * chunks of this prefix that may go and are there, with what they look
	 * like now.  Called for the prefixes `of` only.
	 */
	int (*source)(void *ctx, unsigned prefix, store_scan_fn fn,
	    void *fn_ctx, struct err *e);
	const struct store_prefixes *of;
	void *source_ctx;
	/* Of scans: told of each chunk that is there, before any of its prefix
	 * is removed; of one whose lock is busy, again when it is tried. */
	int (*seen)(void *ctx, const struct store_entry *entry, struct err *e);
	/*
	 * Before the unlinks of each SWEEP_CHECK_EVERYth prefix, and before
	 * those of the prefixes put off.  A failure ends the sweep before the
	 * next unlink.  May be NULL.
	 */
	int (*check)(void *ctx, struct err *e);
	/* The same before each group of unlinks, right before its lock. */
	int (*check_group)(void *ctx, struct err *e);
	void *check_ctx;
	/* Instead of the task, if it is not NULL. */
	void (*progress)(void *ctx, const struct task_progress *p);
	/* Told of each file that was removed, and of its last use; ctx is
	 * told_ctx, as that of `seen`. */
	void (*removed)(void *ctx, const struct store_victim *v, filetime used);
	void *told_ctx;
};

/*
 * Counts are added to those of *r: removed, disk, pending (with
 * newest_pending), bad, tmp, unswept, warnings; what was removed is right also
 * after a failure.  Looks at the task once per prefix.
 */
int sweep_run(struct datastore *ds, const struct sweep_opts *opts,
    struct task *task, struct gc_result *r, struct err *e);

/*
 * How many chunks there are, and how many a sweep would remove, now or, being
 * pending, as soon as the margin lets it: a group that is not mounted must be
 * noticed before its chunks are old enough, since after this run nothing
 * tells any more that it was there.
 */
int sweep_count(struct datastore *ds, const struct sweep_opts *opts,
    struct task *task, uint64_t *ret_chunks, uint64_t *ret_would_go,
    struct err *e);

#endif
