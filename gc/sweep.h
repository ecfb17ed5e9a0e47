/* SPDX-License-Identifier: MIT */
/*
 * sweep: remove what was last used before the cutoff, prefix by prefix.
 *
 * Each prefix is scanned without a lock; what looks old is looked at again
 * and removed under the exclusive prefix lock, at most 64 per taking.  A busy
 * prefix is put off to the end, tried for 60 s, and then left: unswept.
 * Prefix directories stay.
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
#include "gc/gc.h"

struct sweep_opts {
	filetime cutoff;
	filetime start_of_mark; /* pending: older than this, not removed */
	bool dry_run;		/* count, change nothing */
	/*
	 * Set-based: only digests of [lo, hi) that is_live denies may go, and
	 * only if ctime too is before the cutoff.  NULL: by touch.
	 */
	bool (*is_live)(void *ctx, const struct digest *d);
	void *ctx;
	struct digest lo; /* used with is_live */
	struct digest hi;
	bool hi_is_end; /* hi is behind the last digest */
	/* Before the unlinks of each 256th prefix: A2, canaries.  A failure
	 * ends the sweep before the next unlink. */
	int (*check)(void *ctx, struct err *e);
	void *check_ctx;
};

/* Counts go into *r (removed, pending, disk, bad, tmp, unswept). */
int sweep_run(struct datastore *ds, const struct sweep_opts *opts,
    struct task *task, struct gc_result *r, struct err *e);

/* How many chunks there are, and how many a sweep would remove. */
int sweep_count(struct datastore *ds, const struct sweep_opts *opts,
    struct task *task, uint64_t *ret_chunks, uint64_t *ret_would_go,
    struct err *e);

#endif
