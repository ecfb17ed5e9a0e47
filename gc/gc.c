/* SPDX-License-Identifier: MIT */
#include "gc/gc.h"

#include <inttypes.h>
#include <stdlib.h>

#include "datastore/base/text.h"
#include "gc/gc_index.h"
#include "gc/gc_internal.h"
#include "gc/roots.h"

int gc_judge_vanished(struct gc_run *run, const struct roots_past *past,
    uint64_t chunks, uint64_t would_go, struct err *e)
{
	if (would_go <= chunks / 2)
		return 0;
	if (past->files == 0 && past->snapshots == 0)
		return err_set(e, ERR_REFUSED,
		    "nothing tells which snapshots '%s' has had, for cairn has "
		    "not collected garbage in it before, and %" PRIu64
		    " of %" PRIu64 " chunks would go, now or when the safety "
		    "margin is over: are all groups there ('cairn groups'), or "
		    "is something not mounted? If all are, say "
		    "--accept-missing",
		    run->ds->path, would_go, chunks);
	return err_set(e, ERR_REFUSED,
	    "'%s' is gone from '%s' and nobody recorded its removal, and "
	    "%" PRIu64 " of %" PRIu64 " chunks would go, now or when the "
	    "safety margin is over: is something not mounted? If not, say "
	    "--accept-missing",
	    past->first, run->ds->path, would_go, chunks);
}

static void warn_of_vanished(struct gc_run *run, const struct roots_past *past)
{
	if (past->files > 0)
		findings_warn(&run->findings,
		    "%" PRIu64 " index file%s that the last run read %s gone "
		    "and nobody recorded the removal, the first one is '%s': "
		    "was it removed by hand, or is something not mounted?",
		    past->files, text_plural(past->files, "", "s"),
		    text_plural(past->files, "is", "are"), past->first);
	else if (past->snapshots > 0)
		findings_warn(&run->findings,
		    "%" PRIu64 " snapshot%s pushed since the last run %s gone "
		    "and nobody recorded the removal, the first one is '%s': "
		    "was it removed by hand, or is something not mounted?",
		    past->snapshots, text_plural(past->snapshots, "", "s"),
		    text_plural(past->snapshots, "is", "are"), past->first);
}

int gc_check_vanished(struct gc_run *run,
    int (*count)(struct gc_run *run, uint64_t *ret_chunks,
	uint64_t *ret_would_go, struct err *e),
    bool *ret_counted, struct err *e)
{
	struct roots_past past;
	uint64_t chunks = 0;
	uint64_t would_go = 0;
	int rc = 0;

	*ret_counted = false;
	if (run->opts->accept_missing)
		return 0;
	rc = roots_vanished(run->ds, &run->mark, &run->findings, &past, e);
	if (rc < 0)
		return rc;
	run->r.vanished_files = past.files + past.snapshots;
	if (past.known && run->r.vanished_files == 0)
		return 0;
	warn_of_vanished(run, &past);
	rc = count(run, &chunks, &would_go, e);
	if (rc < 0)
		return rc;
	*ret_counted = true;
	return gc_judge_vanished(run, &past, chunks, would_go, e);
}

/* For sweep_opts.removed. */
static void on_removed(void *ctx, const struct store_victim *v, filetime used)
{
	gc_index_removed(ctx, v);
	gc_trace_removed(ctx, v, used);
}

/* For sweep_opts.check_group: before each group of unlinks. */
static int before_unlinks(void *ctx, struct err *e)
{
	int rc = gc_guard_group(ctx, e);

	return rc < 0 ? rc : gc_index_before_unlink(ctx, e);
}

static struct sweep_opts sweep_opts_of(struct gc_run *run)
{
	return (struct sweep_opts){
		.cutoff = run->r.cutoff,
		.start_of_mark = run->r.start_of_mark,
		.file_clock = &run->file_clock,
		.check = gc_guard_next,
		.check_group = before_unlinks,
		.check_ctx = run,
		.progress = gc_trace_progress,
		.seen = gc_index_seen,
		.removed = on_removed,
		.told_ctx = run,
	};
}

static int count_by_touch(struct gc_run *run, uint64_t *ret_chunks,
    uint64_t *ret_would_go, struct err *e)
{
	struct sweep_opts opts = sweep_opts_of(run);

	if (gc_index_marks(run))
		return gc_candidates_count(run, ret_chunks, ret_would_go, e);
	return sweep_count(
	    run->ds, &opts, run->task, ret_chunks, ret_would_go, e);
}

int gc_check_emptied(struct gc_run *run, uint64_t there, struct err *e)
{
	if (there > 0 || run->r.missing_chunks == 0 ||
	    run->opts->accept_missing)
		return 0;
	/* Nor are they put on the list of damage. */
	run->missing_n = 0;
	return err_set(e, ERR_REFUSED,
	    "none of the %" PRIu64 " chunk%s that the snapshots in '%s' "
	    "reference %s in its '.chunks': was it emptied, or is another "
	    "file system mounted there? Nothing is removed; if it is meant "
	    "so, say --accept-missing",
	    run->r.missing_chunks, text_plural(run->r.missing_chunks, "", "s"),
	    run->ds->path, text_plural(run->r.missing_chunks, "is", "are"));
}

/* Everything was touched: what is missing, what is safe, then sweep. */
static int sweep_touched(struct gc_run *run, struct err *e)
{
	struct sweep_opts opts = sweep_opts_of(run);
	bool counted = false;
	int rc = gc_check_findings(run, e);

	if (rc < 0)
		return rc;
	gc_mark_finished(run);
	rc = gc_check_emptied(run, run->r.touched, e);
	if (rc < 0)
		return rc;
	gc_missing_record(run, false);
	rc = gc_missing_report(run, e);
	if (rc == 0)
		rc = gc_check_vanished(run, count_by_touch, &counted, e);
	if (rc == 0)
		rc = gc_guard_all(run, e);
	if (rc < 0)
		return rc;
	if (gc_index_marks(run))
		return gc_candidates_sweep(run, &opts, e);
	gc_index_build_begin(run);
	return sweep_run(run->ds, &opts, run->task, &run->r, e);
}

static int sweep_by_sets(struct gc_run *run, struct err *e)
{
	int rc = 0;

	task_message(run->task, TASK_NOTE,
	    "'%s' is too full to set access times: garbage is found by "
	    "reading all index files, in passes that fit the memory",
	    run->ds->path);
	run->r.set_based = true;
	gc_index_forget(run);
	run->r.touched = 0;
	run->r.seen_hits = 0;
	run->r.missing_chunks = 0;
	rc = gc_set_run(run, e);
	if (rc < 0)
		return rc;
	return gc_missing_report(run, e);
}

static int run_real(struct gc_run *run, struct err *e)
{
	int rc = gc_start(run, e);

	if (rc == 0)
		rc = gc_index_begin(run, e);
	if (rc == 0 && !run->no_space) {
		rc = gc_mark_touch(run, e);
		if (rc == 0 && !run->no_space && gc_index_is_wrong(run)) {
			gc_index_drop_marks(run);
			rc = gc_mark_touch(run, e);
		}
		if (rc == 0 && !run->no_space)
			return sweep_touched(run, e);
	}
	if (rc < 0)
		return rc;
	return sweep_by_sets(run, e);
}

static int run_dry(struct gc_run *run, struct err *e)
{
	struct roots_past past;
	const struct gc_result *r = &run->r;
	int rc = gc_start_dry(run, e);

	if (rc == 0)
		rc = gc_index_would(run, &run->r.by_index, e);
	if (rc == 0)
		rc = gc_set_run(run, e);
	if (rc == 0)
		rc = gc_check_emptied(run, r->disk_chunks, e);
	if (rc == 0)
		rc = gc_missing_report(run, e);
	if (rc < 0 || run->opts->accept_missing)
		return rc;
	/* A run would not remove what this one counted. */
	rc = roots_vanished(run->ds, &run->mark, &run->findings, &past, e);
	if (rc == 0 && (!past.known || past.files + past.snapshots > 0))
		rc = gc_judge_vanished(run, &past,
		    r->disk_chunks + r->pending_chunks + r->removed_chunks,
		    r->removed_chunks + r->pending_chunks, e);
	return rc;
}

/* Until when, and because of what. */
static void explain_pending(struct gc_run *run)
{
	struct gc_result *r = &run->r;
	int64_t ns = 0;

	if (r->pending_chunks == 0)
		return;
	if (run->session_limits) {
		r->pending_cause = GC_PENDING_SESSION;
		return;
	}
	r->pending_cause = GC_PENDING_CUTOFF;
	if (r->newest_pending == 0 ||
	    run->opts->cutoff_s > (uint64_t)(INT64_MAX / CLOCK_NS_PER_S) ||
	    __builtin_add_overflow(r->newest_pending,
		(int64_t)run->opts->cutoff_s * CLOCK_NS_PER_S, &ns) ||
	    __builtin_add_overflow(ns, GC_SLACK_NS + CLOCK_NS_PER_S, &ns))
		return;
	r->pending_until = clock_filetime_s(ns);
}

static void fill_result(struct gc_run *run)
{
	struct datastore_space space = { .available = 0 };
	struct err ignored = ERR_INIT;
	struct gc_result *r = &run->r;

	r->index_file_count = run->mark.roots_n;
	r->index_data_bytes = mark_data_bytes(&run->mark);
	r->references = run->mark.counts.references_read;
	r->left_overs = run->mark.counts.left_overs;
	/* For people: where it can not be asked, it is not told. */
	if (datastore_space(run->ds, &space, &ignored) == 0)
		r->free_after = space.available;
	explain_pending(run);
}

static void count_warnings(struct gc_run *run)
{
	run->r.warnings += run->findings.warnings;
	run->r.warnings += run->findings.fatal > UINT32_MAX
	    ? UINT32_MAX
	    : (uint32_t)run->findings.fatal;
	run->findings.warnings = 0;
	run->findings.fatal = 0;
}

static int run_locked(struct gc_run *run, struct err *e)
{
	struct err ignored = ERR_INIT;
	int rc = running_begin(run->ds, &run->running, e);

	if (rc < 0) {
		run->r.ended = clock_now_s();
		gc_trace_end(run, false, rc, e);
		return rc;
	}
	gc_trace_begin(run);
	rc = run_real(run, e);
	run->r.ended = clock_now_s();
	fill_result(run);
	/* Space there is now, or never; a failure is told by what follows. */
	if (rc == 0)
		(void)datastore_ensure_cairn(run->ds, &ignored);
	gc_missing_record(run, true);
	count_warnings(run);
	if (rc == 0)
		gc_status_write(run);
	gc_trace_end(run, true, rc, e);
	return rc;
}

static void release(struct gc_run *run)
{
	mark_release(&run->mark);
	touch_free(run->touch);
	livepass_free(run->live);
	gc_start_release(run);
	gc_index_release(run);
	history_record_release(&run->history);
	free(run->missing);
}

int gc_run(struct datastore *ds, const struct gc_opts *opts, struct task *task,
    struct gc_result *ret, struct err *e)
{
	struct datastore_space space = { .available = 0 };
	struct err ignored = ERR_INIT;
	struct gc_run run = {
		.ds = ds,
		.opts = opts,
		.task = task,
		.r = { .dry_run = opts->dry_run, .started = clock_now_s() },
		.findings = {
			.task = task,
			.ignore = opts->ignore,
			.ignore_n = opts->ignore_n,
		},
		.mark = MARK_INIT,
		.running = RUNNING_INIT,
		.history = HISTORY_RECORD_INIT,
	};
	int rc = gc_check_opts(&run, e);

	if (rc < 0)
		return rc;
	if (datastore_space(ds, &space, &ignored) == 0)
		run.r.free_before = space.available;
	/* For people, too. */
	if (roots_removed(ds, &run.r.forgotten_snapshots, &ignored) < 0)
		run.r.forgotten_snapshots = 0;
	if (opts->dry_run) {
		rc = run_dry(&run, e);
		run.r.ended = clock_now_s();
		fill_result(&run);
		count_warnings(&run);
	} else {
		history_record_init(&run.history, ds, task, HISTORY_GC);
		rc = run_locked(&run, e);
	}
	*ret = run.r;
	release(&run);
	return rc;
}
