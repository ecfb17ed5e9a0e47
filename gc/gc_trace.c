/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <string.h>

#include "datastore/base/clock.h"
#include "gc/gc_internal.h"

void gc_trace_progress(void *ctx, const struct task_progress *p)
{
	struct gc_run *run = ctx;

	task_progress(run->task, p);
	if (run->opts->dry_run)
		return;
	run->running.now.removed_chunks = run->r.removed_chunks;
	run->running.now.removed_bytes = run->r.removed_bytes;
	running_progress(run->ds, &run->running, p);
}

static enum history_what what_of(enum store_kind kind)
{
	if (kind == STORE_CHUNK)
		return HISTORY_GARBAGE;
	return kind == STORE_BAD ? HISTORY_BAD : HISTORY_TEMPORARY;
}

void gc_trace_removed(void *ctx, const struct store_victim *v, filetime used)
{
	struct history_removed removed = { .what = what_of(v->kind),
		.bytes = v->bytes,
		.used = clock_filetime_s(used) };
	struct gc_run *run = ctx;

	/* All names begin with it. */
	if (digest_parse(v->name, DIGEST_HEX_SIZE - 1, &removed.digest))
		history_record_removed(&run->history, &removed);
}

/* It may have been killed between its last words in the two places. */
static bool has_ended(struct gc_run *run, const struct history_run *r)
{
	struct err ignored = ERR_INIT;
	struct history *h = NULL;
	bool found = false;
	bool ended = false;
	int rc = history_open(
	    run->ds, HISTORY_READ_SOON, run->task, &h, &found, &ignored);

	if (rc == 0 && found && history_has_ended(h, r, &ended, &ignored) < 0)
		ended = false;
	history_close(h);
	return ended;
}

/* A run that never said how it ended is told of once more, by the next. */
void gc_trace_begin(struct gc_run *run)
{
	const struct gcrunning *g = &run->running.before;
	struct history_run *r = &run->history.before;

	/* The same begin in both: that is how one is found by the other. */
	run->history.run.started = run->running.now.start;
	if (!run->running.found_dead)
		return;
	history_of_gc(g, false, r);
	if (has_ended(run, r)) {
		*r = (struct history_run){ .id = 0 };
		return;
	}
	task_message(run->task, TASK_NOTE,
	    "the garbage collection before this one, of pid %lld on %s, was "
	    "killed: nothing is lost by that, and this one does its work",
	    (long long)g->pid, g->host);
}

static enum history_result result_of(const struct gc_result *r)
{
	return r->missing_chunks > 0 || r->unswept_prefixes > 0
	    ? HISTORY_INCOMPLETE
	    : HISTORY_DONE;
}

void gc_trace_end(struct gc_run *run, bool locked, int rc, const struct err *e)
{
	struct history_count counts[GC_STATUS_COUNTS];
	struct gcrunning *now = &run->running.now;
	size_t n = gc_status_counts(&run->r, counts);
	const char *why = rc < 0 ? e->msg : NULL;

	run->history.run.removed = run->r.removed_chunks;
	run->history.run.freed = run->r.removed_bytes;
	/* It holds no lock that would tell whether it runs. */
	if (!locked)
		run->history.run.lock_byte = 0;
	history_record_end(
	    &run->history, result_of(&run->r), rc, why, counts, n);
	run->r.warnings += run->history.warnings;
	if (!locked)
		return;
	(void)snprintf(now->state, sizeof(now->state), "%s",
	    history_result_name(run->history.run.result));
	(void)snprintf(now->why, sizeof(now->why), "%s", run->history.run.why);
	now->ended = run->r.ended;
	now->updated = run->r.ended;
	now->removed_chunks = run->r.removed_chunks;
	now->removed_bytes = run->r.removed_bytes;
	running_end(run->ds, &run->running);
}
