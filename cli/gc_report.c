/* SPDX-License-Identifier: MIT */
#include "cli/gc_report.h"

#include <inttypes.h>

#include "cli/hint.h"
#include "cli/history_report.h"
#include "cli/output.h"
#include "datastore/base/clock.h"
#include "datastore/base/text.h"

static const char *cause_name(enum gc_pending_cause c)
{
	switch (c) {
	case GC_PENDING_CUTOFF:
		return "cutoff";
	case GC_PENDING_SESSION:
		return "session";
	case GC_PENDING_NONE:
		break;
	}
	return NULL;
}

/* What the snapshots would take without sharing, by what they take. */
static double deduplication(const struct gc_result *r)
{
	if (r->disk_bytes == 0)
		return 0.0;
	return (double)r->index_data_bytes / (double)r->disk_bytes;
}

static void set_time(struct js *obj, const char *key, int64_t t, struct err *e)
{
	char text[TEXT_TIME_SIZE];

	js_set_str(obj, key, t != 0 ? text_time(text, t) : NULL, e);
}

void gc_report_json(struct js *obj, const struct gc_result *r, struct err *e)
{
	js_set_bool(obj, "dry-run", r->dry_run, e);
	js_set_u64(obj, "index-file-count", r->index_file_count, e);
	js_set_u64(obj, "index-data-bytes", r->index_data_bytes, e);
	js_set_u64(obj, "references", r->references, e);
	js_set_u64(obj, "touched", r->touched, e);
	js_set_u64(obj, "seen-hits", r->seen_hits, e);
	js_set_u64(obj, "missing-chunks", r->missing_chunks, e);
	js_set_u64(obj, "hurt-snapshots", r->hurt_snapshots, e);
	js_set_u64(obj, "forgotten-snapshots", r->forgotten_snapshots, e);
	js_set_u64(obj, "vanished-files", r->vanished_files, e);
	js_set_u64(obj, "disk-chunks", r->disk_chunks, e);
	js_set_u64(obj, "disk-bytes", r->disk_bytes, e);
	js_set_u64(obj, "removed-chunks", r->removed_chunks, e);
	js_set_u64(obj, "removed-bytes", r->removed_bytes, e);
	js_set_u64(obj, "removed-bad", r->removed_bad, e);
	js_set_u64(obj, "still-bad", r->still_bad, e);
	js_set_u64(obj, "removed-temporary", r->removed_tmp, e);
	js_set_u64(obj, "pending-chunks", r->pending_chunks, e);
	js_set_u64(obj, "pending-bytes", r->pending_bytes, e);
	js_set_str(obj, "pending-cause", cause_name(r->pending_cause), e);
	set_time(obj, "pending-until", r->pending_until, e);
	if (r->pending_cause == GC_PENDING_SESSION)
		js_set_name(obj, "pending-session", r->pending_session, e);
	js_set_u64(obj, "unswept-prefixes", r->unswept_prefixes, e);
	js_set_u64(obj, "warnings", r->warnings, e);
	js_set_u64(obj, "left-overs", r->left_overs, e);
	js_set_bool(obj, "set-based", r->set_based, e);
	js_set_bool(obj, "by-index", r->by_index, e);
	set_time(obj, "started", r->started, e);
	set_time(obj, "ended", r->ended, e);
	set_time(obj, "cutoff", clock_filetime_s(r->cutoff), e);
	js_set_u64(obj, "free-before", r->free_before, e);
	js_set_u64(obj, "free-after", r->free_after, e);
	js_set_real(obj, "deduplication", deduplication(r), e);
}

static int print_line(const char *label, uint64_t n, const char *what,
    uint64_t bytes, struct err *e)
{
	char size[TEXT_SIZE_SIZE];

	return output_text(e, "%-14s %" PRIu64 " %s%s, %s\n", label, n, what,
	    text_plural(n, "", "s"), text_size(size, bytes));
}

/* Why a forget has freed nothing. */
static int print_no_garbage(const struct gc_result *r, struct err *e)
{
	/* Of what was not looked at nobody knows. */
	if (r->removed_chunks > 0 || r->disk_chunks == 0 ||
	    r->unswept_prefixes > 0)
		return 0;
	/* What these have stored, the index is told of at their end. */
	if (r->by_index && r->pending_session[0] != '\0')
		return output_text(e,
		    "               nothing is garbage, as far as open backups "
		    "let it be seen\n");
	if (r->forgotten_snapshots == 0)
		return output_text(e,
		    "               nothing is garbage: every chunk is "
		    "referenced\n");
	return output_text(e,
	    "               nothing is garbage: every chunk is referenced, also "
	    "those of what was removed\n");
}

/* What stays although nothing may reference it, until when, and why. */
static int print_pending(const struct gc_result *r, struct err *e)
{
	char until[TEXT_TIME_SIZE];
	int rc = 0;

	if (r->pending_chunks == 0)
		return print_no_garbage(r, e);
	rc = print_line(
	    "pending:", r->pending_chunks, "chunk", r->pending_bytes, e);
	if (rc == 0 && r->pending_cause == GC_PENDING_SESSION)
		rc = output_text(e,
		    "               kept for the open backup %s\n"
		    "               no command frees it before that backup "
		    "has ended; then run gc again\n",
		    r->pending_session);
	else if (rc == 0 && r->pending_cause == GC_PENDING_CUTOFF &&
	    r->pending_until != 0)
		rc = output_text(e,
		    "               kept by the safety margin until %s\n",
		    text_time(until, r->pending_until));
	return rc;
}

static int print_troubles(
    const struct app *app, const struct gc_result *r, struct err *e)
{
	char command[HINT_SIZE];
	int rc = 0;

	if (r->missing_chunks > 0)
		rc = output_text(e,
		    "%-14s %" PRIu64 " referenced chunk%s, which hurts %" PRIu64
		    " snapshot%s; '%s' names what is hurt, a push of the same "
		    "data mends it\n",
		    "missing:", r->missing_chunks,
		    text_plural(r->missing_chunks, "", "s"), r->hurt_snapshots,
		    text_plural(r->hurt_snapshots, "", "s"),
		    hint_command(app, HINT_STORE, "verify", command));
	if (rc == 0 && r->removed_bad + r->still_bad > 0)
		rc = output_text(e,
		    "%-14s %" PRIu64 " %s, %" PRIu64
		    " kept of the chunk files that are bad%s\n",
		    "bad:", r->removed_bad,
		    r->dry_run ? "would be removed" : "removed", r->still_bad,
		    r->still_bad == 0
			? ""
			: ": until a push stores that chunk again, or nothing "
			  "references it");
	if (rc == 0 && r->removed_tmp > 0)
		rc = output_text(e,
		    "%-14s %" PRIu64 " left by dead backups %s\n",
		    "temporary:", r->removed_tmp,
		    r->dry_run ? "would be removed" : "removed");
	if (rc == 0 && r->left_overs > 0)
		rc = output_text(e,
		    "%-14s %" PRIu32
		    " broken index file%s of dead backups; '%s' "
		    "removes %s\n",
		    "left over:", r->left_overs,
		    text_plural(r->left_overs, "", "s"),
		    hint_command(app, HINT_STORE, "forget SNAPSHOT", command),
		    text_plural(
			r->left_overs, "its snapshot", "their snapshots"));
	if (rc == 0 && r->unswept_prefixes > 0)
		rc = output_text(e,
		    "%-14s %" PRIu32
		    " of 65536 prefix directories stayed locked; the next run "
		    "will sweep them\n",
		    "unswept:", r->unswept_prefixes);
	return rc;
}

static int print_result(
    const struct app *app, const struct gc_result *r, struct err *e)
{
	char a[TEXT_SIZE_SIZE];
	char b[TEXT_SIZE_SIZE];
	int rc = print_line(r->dry_run ? "would remove:" : "removed:",
	    r->removed_chunks, "chunk", r->removed_bytes, e);

	if (rc == 0)
		rc = print_pending(r, e);
	if (rc == 0)
		rc = print_line(
		    "in use:", r->disk_chunks, "chunk", r->disk_bytes, e);
	if (rc == 0)
		rc = print_line("referenced by:", r->index_file_count,
		    "index file", r->index_data_bytes, e);
	if (rc == 0 && r->disk_bytes > 0)
		rc = output_text(
		    e, "%-14s %.2f\n", "deduplication:", deduplication(r));
	if (rc == 0)
		rc = print_troubles(app, r, e);
	if (rc == 0 && !r->dry_run && r->free_after > 0)
		rc = output_text(e, "%-14s %s before, %s after\n",
		    "free space:", text_size(a, r->free_before),
		    text_size(b, r->free_after));
	return rc;
}

/* The last line says how to free what is pending, if a command can. */
static int print_advice(
    const struct app *app, const struct gc_result *r, struct err *e)
{
	char size[TEXT_SIZE_SIZE];
	char command[HINT_SIZE];

	/* Not while it is open why something is not there. */
	if (r->pending_chunks == 0 || r->vanished_files > 0 ||
	    r->pending_cause != GC_PENDING_CUTOFF)
		return 0;
	return output_text(e, "to free the pending %s now: %s\n",
	    text_size(size, r->pending_bytes),
	    hint_command(app, HINT_STORE, "gc --cutoff 0", command));
}

int gc_report_run(struct app *app, const struct gc_result *r, struct err *e)
{
	int rc = 0;

	if (app->json) {
		struct js *doc = js_object();

		output_json_begin(e);
		gc_report_json(doc, r, e);
		return output_json(doc, e);
	}
	rc = print_result(app, r, e);
	if (rc == 0)
		rc = print_advice(app, r, e);
	return rc;
}

void gc_report_stopped(struct app *app, const struct gc_result *r)
{
	char size[TEXT_SIZE_SIZE];

	task_message(&app->task, TASK_NOTE,
	    "stopped; %" PRIu64 " chunk%s, %s, %s removed until then",
	    r->removed_chunks, text_plural(r->removed_chunks, "", "s"),
	    text_size(size, r->removed_bytes),
	    text_plural(r->removed_chunks, "was", "were"));
}

static bool did_not_work(const struct history_run *r)
{
	return r->result != HISTORY_RUNNING && r->result != HISTORY_DONE &&
	    r->result != HISTORY_INCOMPLETE;
}

static int keep_newest(void *ctx, const struct history_run *r, struct err *e)
{
	(void)e;
	*(struct history_run *)ctx = *r;
	return 0;
}

/* One that did not work, and turned this one away meanwhile: how it ended
 * matters, not that another came. */
static bool was_in_way(
    const struct history_run *trace, const struct history_run *newest)
{
	return newest->result == HISTORY_BUSY && did_not_work(trace) &&
	    (trace->ended == 0 || trace->ended >= newest->started);
}

/* The newest run of both, as far as they can be read: it is for people. */
void gc_report_look(struct app *app, struct datastore *ds,
    const struct gc_last *last, struct gc_seen *seen)
{
	const struct history_query q = { .kind = HISTORY_GC, .limit = 1 };
	struct history_run newest = { .started = 0 };
	struct history_run trace = { .started = 0 };
	struct err why = ERR_INIT;
	struct history *h = NULL;
	bool found = false;
	int rc = history_open(ds, HISTORY_READ, &app->task, &h, &found, &why);

	if (rc == 0 && h != NULL)
		rc = history_runs(h, &q, keep_newest, &newest, &why);
	history_close(h);
	if (rc < 0)
		task_message(&app->task, TASK_WARNING, "%s", why.msg);
	(void)err_forget(&why);
	if (history_gc_trace(ds, &trace, &found, &why) == 0 && found &&
	    (trace.started > newest.started || was_in_way(&trace, &newest)))
		newest = trace;
	seen->failed = newest;
	seen->has_failed = newest.started != 0 && did_not_work(&newest) &&
	    newest.started >= last->result.started;
}

static const char *phase_name(const struct gcrunning *g)
{
	return g->phase[0] != '\0' ? g->phase : "gc: begin";
}

static void status_json(struct js *doc, const struct gc_last *last,
    const char *running, const struct gc_seen *seen, struct err *e)
{
	struct js *run = last->found ? js_object() : NULL;

	if (running != NULL)
		js_set_name(doc, "running", running, e);
	else
		js_set_null(doc, "running", e);
	if (running != NULL && seen->has_now) {
		js_set_name(doc, "running-host", seen->now.host, e);
		js_set_i64(doc, "running-pid", seen->now.pid, e);
		set_time(doc, "running-since", seen->now.start, e);
		js_set_str(doc, "phase", phase_name(&seen->now), e);
		js_set_u64(doc, "percent", seen->now.percent, e);
		set_time(doc, "percent-at", seen->now.updated, e);
	}
	if (run != NULL) {
		gc_report_json(run, &last->result, e);
		js_set(doc, "last", run, e);
	} else {
		js_set_null(doc, "last", e);
	}
	if (seen->has_failed)
		js_set(doc, "failed", history_report_json(&seen->failed, e), e);
	else
		js_set_null(doc, "failed", e);
}

static int print_running(
    const char *running, const struct gc_seen *seen, struct err *e)
{
	const struct gcrunning *g = &seen->now;
	char phase[64];
	char at[TEXT_TIME_SIZE];
	int rc = output_text(e, "running:       %s\n", running);

	if (rc < 0 || !seen->has_now)
		return rc;
	if (g->phase[0] == '\0')
		return output_text(e, "phase:         %s\n", phase_name(g));
	return output_text(e, "phase:         %s, %" PRIu32 "%% at %s\n",
	    text_name(phase, sizeof(phase), g->phase), g->percent,
	    text_time(at, g->updated));
}

/* The last one did not do its work: what, when, by whom, why. */
static int print_failed(const struct history_run *r, struct err *e)
{
	char began[TEXT_TIME_SIZE];
	char host[128];
	char why[1024];
	int rc = output_text(e,
	    "last attempt:  %s, begun %s by pid %" PRId64 " on %s\n",
	    history_result_name(r->result), text_time(began, r->started),
	    r->pid, text_name(host, sizeof(host), r->host));

	if (rc == 0 && r->why[0] != '\0')
		rc = output_text(e, "               %s\n",
		    text_name(why, sizeof(why), r->why));
	return rc;
}

int gc_report_status(struct app *app, const struct gc_last *last,
    const char *running, const struct gc_seen *seen, struct err *e)
{
	const struct gc_result *r = &last->result;
	char text[TEXT_TIME_SIZE];
	int rc = 0;

	if (app->json) {
		struct js *doc = js_object();

		output_json_begin(e);
		status_json(doc, last, running, seen, e);
		return output_json(doc, e);
	}
	if (running != NULL)
		rc = print_running(running, seen, e);
	if (rc == 0 && seen->has_failed)
		rc = print_failed(&seen->failed, e);
	if (rc == 0 && !last->found)
		return output_text(e, "no garbage collection has ended here\n");
	if (rc == 0 && r->ended != 0)
		rc = output_text(e, "last run:      ended %s%s\n",
		    text_time(text, r->ended),
		    last->by_cairn ? "" : " (not by cairn)");
	if (rc == 0)
		rc = print_result(app, r, e);
	return rc;
}
