/* SPDX-License-Identifier: MIT */
/*
 * Mark by sets: nothing is touched; a pass computes the live digests of a
 * range, as large as memory allows, and the sweep of that range follows.
 *
 * Why a range may be swept before the next pass begins, and what happens to
 * snapshots that come and go between passes: each pass is a whole mark by I4,
 * with its own listings under the tree lock, of which it keeps the digests of
 * its range; nothing of an earlier pass is believed.  (To read the same roots
 * again would not do: one may be gone, and a newer snapshot that was based on
 * it, and touched nothing, be the only one left to reference a chunk of a
 * range that is still to come.)  So the sweep of a range removes what a GC
 * would remove that began when this one did, whose listing is that pass's:
 * the cutoff is older than every listing, and sessions that registered after
 * the cutoff was taken touch what they use at times behind it.  That is the
 * order of I6, with the listing as late as it likes.
 *
 * A chunk that a session uses is protected as ever: by its time, looked at
 * again under the prefix lock.  What marks by touching leaves to the atime
 * alone needs, without touches, the ctime to be old as well: atimes can be
 * set by anyone, ctimes can not.
 */
#include <stdlib.h>
#include <string.h>

#include "datastore/config.h"
#include "gc/gc_internal.h"
#include "gc/roots.h"

/* One range of digests. */
struct range {
	struct digest lo;
	struct digest hi;
	bool is_end;
};

/* How far from the first to the last digest this one lies: 0 to 1. */
static double share(const struct digest *d)
{
	double v = 0.0;

	for (size_t i = 8; i > 0; i--)
		v = (v + d->b[i - 1]) / 256.0;
	return v;
}

static int on_add(void *ctx, const struct digest *d, struct err *e)
{
	struct gc_run *run = ctx;

	(void)e;
	livepass_add(run->live, d);
	return 0;
}

/* They are in the set, or beyond its end, already. */
static int on_repeat(void *ctx, uint64_t n, uint64_t when, struct err *e)
{
	(void)ctx;
	(void)n;
	(void)when;
	(void)e;
	return 0;
}

static uint64_t on_now(void *ctx)
{
	(void)ctx;
	return 0;
}

static size_t capacity(const struct gc_run *run)
{
	return run->opts->touch_batch == GC_TOUCH_BATCH_OFF
	    ? GC_TOUCH_BATCH_DEFAULT
	    : run->opts->touch_batch;
}

/* What is read and in memory is as good as resolved. */
static void on_progress(void *ctx, const struct mark_counts *counts)
{
	struct gc_run *run = ctx;

	/* How many passes there will be, the first one can only guess. */
	if (run->pass_width <= 0.0 && counts->references_total > 0) {
		run->pass_width =
		    (double)capacity(run) / (double)counts->references_total;
		if (run->pass_width > 1.0)
			run->pass_width = 1.0;
	}
	gc_mark_progress(run, counts, counts->references_read);
}

/* The live digests from r->lo on; where the range ends goes into r. */
static int mark_range(struct gc_run *run, struct range *r, struct err *e)
{
	const struct mark_sink sink = {
		.add = on_add,
		.repeat = on_repeat,
		.now = on_now,
		.progress = on_progress,
		.ctx = run,
	};
	struct mark_opts opts = gc_mark_opts(run);
	int rc = 0;

	mark_release(&run->mark);
	livepass_begin(run->live, &r->lo);
	run->pass_from = share(&r->lo);
	/* The passes behind the first read the same and would say the same. */
	run->findings.quiet = run->passes > 0;
	rc = mark_run(
	    run->ds, &opts, &sink, &run->findings, run->task, &run->mark, e);
	run->findings.quiet = false;
	run->passes++;
	if (rc == 0)
		rc = gc_check_findings(run, e);
	if (rc < 0)
		return rc;
	livepass_end(run->live, &r->hi, &r->is_end);
	run->pass_width = (r->is_end ? 1.0 : share(&r->hi)) - share(&r->lo);
	if (r->is_end)
		gc_mark_finished(run);
	return 0;
}

static struct sweep_opts sweep_opts_of(
    struct gc_run *run, const struct range *r)
{
	return (struct sweep_opts){
		.cutoff = run->r.cutoff,
		.start_of_mark = run->r.start_of_mark,
		.file_clock = &run->file_clock,
		.dry_run = run->opts->dry_run,
		.live = run->live,
		.lo = r->lo,
		.hi = r->hi,
		.hi_is_end = r->is_end,
		.progress = gc_trace_progress,
		.removed = gc_trace_removed,
		.told_ctx = run,
		/* A dry run says what a run would do that touches, or one that
		 * goes by the chunk index. */
		.by_ctime = !run->opts->dry_run || run->r.by_index,
		.chunks_only = run->r.by_index,
	};
}

static int note_missing(struct gc_run *run, struct err *e)
{
	const struct digest *d = NULL;
	size_t at = 0;

	for (;;) {
		d = livepass_next_unseen(run->live, &at);
		if (d == NULL)
			return 0;
		run->r.missing_chunks++;
		if (run->missing_n == TOUCH_MISSING_MAX)
			continue;
		if (run->missing == NULL) {
			run->missing =
			    calloc(TOUCH_MISSING_MAX, sizeof(*run->missing));
			if (run->missing == NULL)
				return err_nomem(e);
		}
		run->missing[run->missing_n] = *d;
		run->missing_n++;
	}
}

static int sweep_range(struct gc_run *run, const struct range *r, struct err *e)
{
	struct sweep_opts opts = sweep_opts_of(run, r);
	int rc = 0;

	if (!run->opts->dry_run) {
		opts.check = gc_guard_next;
		opts.check_group = gc_guard_group;
		opts.check_ctx = run;
		rc = gc_guard_all(run, e);
	}
	if (rc == 0)
		rc = sweep_run(run->ds, &opts, run->task, &run->r, e);
	return rc < 0 ? rc : note_missing(run, e);
}

static int count_range(struct gc_run *run, const struct range *r,
    uint64_t *chunks, uint64_t *would_go, struct err *e)
{
	struct sweep_opts opts = sweep_opts_of(run, r);
	uint64_t n = 0;
	uint64_t go = 0;
	int rc = sweep_count(run->ds, &opts, run->task, &n, &go, e);

	if (rc < 0)
		return rc;
	*chunks += n;
	*would_go += go;
	return 0;
}

/*
 * Passes of their own, before the first unlink; run->mark and run->live are
 * of the last one afterwards.
 */
int gc_set_count(struct gc_run *run, uint64_t *ret_chunks,
    uint64_t *ret_would_go, struct err *e)
{
	struct range r = { .is_end = false };
	uint64_t chunks = 0;
	uint64_t would_go = 0;
	int rc = 0;

	do {
		rc = mark_range(run, &r, e);
		if (rc == 0)
			rc = count_range(run, &r, &chunks, &would_go, e);
		r.lo = r.hi;
	} while (rc == 0 && !r.is_end);
	if (rc < 0)
		return rc;
	*ret_chunks = chunks;
	*ret_would_go = would_go;
	return 0;
}

/*
 * Is something gone that the pass before has read, and nobody said that he
 * removes it?  A group that is not mounted any more, perhaps: then the rule
 * for what vanished since the last run holds for this range.
 */
static int check_gone(struct gc_run *run, const struct mark *before,
    const struct range *r, struct err *e)
{
	struct roots_past past;
	uint64_t chunks = 0;
	uint64_t would_go = 0;
	int rc = 0;

	if (run->opts->accept_missing || run->opts->dry_run)
		return 0;
	rc = roots_gone(run->ds, before, &run->mark, &past, e);
	if (rc == 0 && past.files > 0)
		rc = count_range(run, r, &chunks, &would_go, e);
	if (rc == 0 && past.files > 0)
		rc = gc_judge_vanished(run, &past, chunks, would_go, e);
	return rc;
}

static int next_pass(struct gc_run *run, struct range *r, struct err *e)
{
	struct mark before = run->mark;
	int rc = 0;

	run->mark = (struct mark)MARK_INIT;
	r->lo = r->hi;
	rc = mark_range(run, r, e);
	if (rc == 0)
		rc = check_gone(run, &before, r, e);
	mark_release(&before);
	return rc;
}

/* Is one of the first range's live chunks there?  In most stores, the first
 * that is asked for. */
static int check_there(struct gc_run *run, struct err *e)
{
	const struct digest *d = NULL;
	uint64_t asked = 0;
	bool found = false;
	size_t at = 0;
	int rc = 0;

	while (rc == 0 && !found &&
	    (d = livepass_next_unseen(run->live, &at)) != NULL) {
		struct store_entry entry;

		rc = task_check(run->task, e);
		if (rc == 0)
			rc = store_stat(run->ds->store, d, &entry, &found, e);
		asked++;
	}
	if (rc < 0 || found)
		return rc;
	run->r.missing_chunks = asked;
	rc = gc_check_emptied(run, 0, e);
	if (rc == 0)
		run->r.missing_chunks = 0;
	return rc;
}

static int first_pass(struct gc_run *run, struct range *r, struct err *e)
{
	bool counted = false;
	int rc = mark_range(run, r, e);

	/* A dry run counts as it goes. */
	if (rc < 0 || run->opts->dry_run)
		return rc;
	rc = check_there(run, e);
	if (rc == 0)
		rc = gc_check_vanished(run, gc_set_count, &counted, e);
	if (rc < 0 || !counted)
		return rc;
	/* Counting took passes of its own. */
	*r = (struct range){ .is_end = false };
	return mark_range(run, r, e);
}

int gc_set_run(struct gc_run *run, struct err *e)
{
	struct range r = { .is_end = false };
	int rc = livepass_new(capacity(run), &run->live, e);

	run->pass_width = 0.0;
	if (rc == 0)
		rc = first_pass(run, &r, e);
	if (rc == 0)
		rc = sweep_range(run, &r, e);
	while (rc == 0 && !r.is_end) {
		rc = next_pass(run, &r, e);
		if (rc == 0)
			rc = sweep_range(run, &r, e);
	}
	return rc;
}
