/* SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "datastore/base/text.h"
#include "gc/gc_index.h"
#include "gc/gc_internal.h"

/* Touches that may fail before no more are tried: the reason is clear. */
#define FAILURES_MAX 20U

/* Of fewer touches there is nothing to tell. */
#define PACE_SAID_FROM 65536U
#define NS_PER_US 1e3

/* The progress is counted in millionths, so that a total that grows takes
 * nothing back. */
#define WHOLE 1000000U

struct mark_opts gc_mark_opts(const struct gc_run *run)
{
	return (struct mark_opts){
		.locks = !run->opts->dry_run,
		.left_over_cutoff = run->r.cutoff,
		.skip = run->skip,
		.skip_n = run->skip_n,
	};
}

static void show(struct gc_run *run, const struct mark_counts *c,
    uint64_t resolved, uint64_t done)
{
	const struct task_count counts[] = {
		{ .key = "index-files-read",
		    .text = "index files read",
		    .one = "index file read",
		    .done = c->files_read,
		    .of = c->files_total },
		{ .key = "references",
		    .text = "references",
		    .one = "reference",
		    .done = resolved,
		    .of = c->references_total },
		{ .key = "waiting",
		    .text = "waiting",
		    .done = c->references_read - resolved },
	};
	const struct task_progress p = {
		.phase = "gc: mark",
		.unit = TASK_UNIT_COUNT,
		.done = done,
		.total = WHOLE,
		.counts = counts,
		.counts_n = sizeof(counts) / sizeof(counts[0]),
	};

	gc_trace_progress(run, &p);
}

void gc_mark_progress(
    struct gc_run *run, const struct mark_counts *c, uint64_t resolved)
{
	double part = 0.0;
	uint64_t done = 0;

	if (resolved > c->references_read)
		resolved = c->references_read;
	if (c->references_total > 0)
		part = (double)resolved / (double)c->references_total;
	part = run->pass_from + part * run->pass_width;
	if (part > 0.0)
		done = (uint64_t)(part * WHOLE);
	/* All only when all is done: after the last listing and flush. */
	if (done > WHOLE - 1)
		done = WHOLE - 1;
	if (done < run->shown)
		done = run->shown;
	run->shown = done;
	show(run, c, resolved, done);
}

void gc_mark_finished(struct gc_run *run)
{
	const struct mark_counts *c = &run->mark.counts;

	run->shown = WHOLE;
	show(run, c, c->references_read, WHOLE);
}

static uint64_t resolved_now(const struct gc_run *run)
{
	struct touch_counts c;

	touch_counts(run->touch, &c);
	return c.resolved;
}

static void on_touch_progress(void *ctx)
{
	struct gc_run *run = ctx;

	gc_mark_progress(run, &run->mark.counts, resolved_now(run));
}

static void on_mark_progress(void *ctx, const struct mark_counts *counts)
{
	struct gc_run *run = ctx;

	gc_mark_progress(run, counts, resolved_now(run));
}

/*
 * A chunk that can not be touched would be removed, though it is needed.
 * Others that can not be touched are looked for, but not a million of them.
 */
static int on_touch_failed(void *ctx, const struct digest *d, struct err *e)
{
	struct gc_run *run = ctx;

	(void)d; /* the message names it */
	if (gc_is_full(e)) {
		run->no_space = true;
		return e->code;
	}
	findings_fatal(&run->findings, "%s", e->msg);
	run->touch_failures++;
	if (run->touch_failures < FAILURES_MAX)
		return 0;
	findings_fatal(&run->findings,
	    "%u chunks could not be touched; no more are tried", FAILURES_MAX);
	run->touch_failed = true;
	return e->code;
}

/* Once touches were given up, index files are still read, for findings. */
static int settle(struct gc_run *run, int rc)
{
	return run->touch_failed ? 0 : rc;
}

static int on_add(void *ctx, const struct digest *d, struct err *e)
{
	struct gc_run *run = ctx;

	if (run->touch_failed)
		return 0;
	return settle(run, touch_add(run->touch, d, run->task, e));
}

static int on_repeat(void *ctx, uint64_t n, uint64_t when, struct err *e)
{
	struct gc_run *run = ctx;

	(void)e;
	if (!run->touch_failed)
		touch_repeat(run->touch, n, when);
	return 0;
}

static uint64_t on_now(void *ctx)
{
	struct gc_run *run = ctx;

	return touch_epoch(run->touch);
}

static int on_flush(void *ctx, struct err *e)
{
	struct gc_run *run = ctx;

	if (run->touch_failed)
		return 0;
	return settle(run, touch_flush(run->touch, run->task, e));
}

static int take_missing(struct gc_run *run, struct err *e)
{
	size_t n = 0;
	const struct digest *d = touch_missing(run->touch, &n);

	if (n == 0)
		return 0;
	run->missing = calloc(n, sizeof(*run->missing));
	if (run->missing == NULL)
		return err_nomem(e);
	memcpy(run->missing, d, n * sizeof(*d));
	run->missing_n = n;
	return 0;
}

/* How the touches were made, and why so. */
static void say_pace(struct gc_run *run)
{
	struct store_pace pace;

	store_pace(run->ds->store, &pace);
	if (pace.calls < PACE_SAID_FROM)
		return;
	task_message(run->task, TASK_NOTE,
	    "touch: %.1f us a call, %u thread%s%s",
	    (double)pace.call_ns / NS_PER_US, pace.threads,
	    text_plural(pace.threads, "", "s"),
	    pace.by_inode ? ", in order of inodes" : "");
}

int gc_mark_touch(struct gc_run *run, struct err *e)
{
	struct touch_hooks hooks = {
		.first = gc_guard_first,
		.failed = on_touch_failed,
		.progress = on_touch_progress,
		.ctx = run,
	};
	const struct mark_sink sink = {
		.add = on_add,
		.repeat = on_repeat,
		.now = on_now,
		.flush = on_flush,
		.progress = on_mark_progress,
		.ctx = run,
	};
	struct mark_opts opts = gc_mark_opts(run);
	struct err why = ERR_INIT;
	struct touch_counts c;
	int rc = 0;

	if (gc_index_marks(run))
		hooks.known = gc_index_known;
	touch_free(run->touch);
	run->touch = NULL;
	mark_release(&run->mark);
	free(run->missing);
	run->missing = NULL;
	run->missing_n = 0;
	rc = touch_new(
	    run->ds->store, run->opts->touch_batch, &hooks, &run->touch, &why);
	run->pass_from = 0.0;
	run->pass_width = 1.0;
	if (rc == 0)
		rc = mark_run(run->ds, &opts, &sink, &run->findings, run->task,
		    &run->mark, &why);
	if (run->touch != NULL) {
		touch_counts(run->touch, &c);
		run->r.touched = c.touched;
		run->r.seen_hits = c.hits;
		run->r.missing_chunks = c.missing;
		say_pace(run);
	}
	if (rc < 0 && run->no_space) {
		mark_release(&run->mark);
		touch_free(run->touch);
		run->touch = NULL;
		return 0;
	}
	if (rc < 0) {
		*e = why;
		return rc;
	}
	/* The sweep looks ahead in memory of its own. */
	touch_end(run->touch);
	return take_missing(run, e);
}

int gc_check_findings(struct gc_run *run, struct err *e)
{
	if (run->findings.fatal == 0)
		return 0;
	return err_set(e, ERR_REFUSED,
	    "garbage collection could not read or touch all that it has to in "
	    "'%s': %" PRIu64 " problem%s, see the warning%s; nothing%s is "
	    "removed; 'forget' removes a broken snapshot, 'gc --ignore' sets "
	    "it aside",
	    run->ds->path, run->findings.fatal,
	    text_plural(run->findings.fatal, "", "s"),
	    text_plural(run->findings.fatal, "", "s"),
	    run->r.removed_chunks > 0 && !run->opts->dry_run ? " more" : "");
}
