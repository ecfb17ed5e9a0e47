/* SPDX-License-Identifier: MIT */
#include "cli/history_report.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "datastore/base/buf.h"
#include "datastore/base/text.h"
#include "gc/history_record.h"

#define REMOVED_SIZE 64
#define HOST_SHOWN 128
#define WHY_SHOWN 1024

static bool removes_chunks(const struct history_run *r)
{
	return r->kind == HISTORY_GC;
}

static bool removes_nothing(const struct history_run *r)
{
	return r->kind == HISTORY_VERIFY || r->kind == HISTORY_PUSH;
}

static const char *removed_text(
    const struct history_run *r, char out[REMOVED_SIZE])
{
	char size[TEXT_SIZE_SIZE];
	const char *s = text_plural(r->removed, "", "s");

	if (removes_nothing(r))
		(void)snprintf(out, REMOVED_SIZE, "-");
	else if (removes_chunks(r))
		(void)snprintf(out, REMOVED_SIZE, "%s%" PRIu64 " chunk%s, %s",
		    r->ended == 0 ? "at least " : "", r->removed, s,
		    text_size(size, r->freed));
	else
		(void)snprintf(
		    out, REMOVED_SIZE, "%" PRIu64 " snapshot%s", r->removed, s);
	return out;
}

static const char *took_text(
    const struct history_run *r, char out[TEXT_DURATION_SIZE])
{
	if (r->ended == 0 || r->ended < r->started)
		(void)snprintf(out, TEXT_DURATION_SIZE, "-");
	else
		(void)text_duration(out, (uint64_t)(r->ended - r->started));
	return out;
}

int history_report_table(struct table **ret, struct err *e)
{
	static const char *const heading[] = { "RUN", "KIND", "STARTED", "TOOK",
		"RESULT", "REMOVED", "BY" };

	return table_new("rllrlll", heading, ret, e);
}

int history_report_row(
    struct table *t, const struct history_run *r, struct err *e)
{
	char removed[REMOVED_SIZE];
	char time[TEXT_TIME_SIZE];
	char took[TEXT_DURATION_SIZE];
	char host[HOST_SHOWN];
	int rc = r->id != 0 ? table_cell(t, e, "%" PRId64, r->id)
			    : table_cell(t, e, "-");

	if (rc == 0)
		rc = table_cell(t, e, "%s", history_kind_name(r->kind));
	if (rc == 0)
		rc = table_cell(t, e, "%s", text_time(time, r->started));
	if (rc == 0)
		rc = table_cell(t, e, "%s", took_text(r, took));
	if (rc == 0)
		rc = table_cell(t, e, "%s", history_result_name(r->result));
	if (rc == 0)
		rc = table_cell(t, e, "%s", removed_text(r, removed));
	if (rc == 0)
		rc = table_cell(t, e, "pid %" PRId64 " on %s", r->pid,
		    text_name(host, sizeof(host), r->host));
	return rc;
}

static void set_time(struct js *o, const char *key, int64_t t, struct err *e)
{
	char text[TEXT_TIME_SIZE];

	js_set_str(o, key, t != 0 ? text_time(text, t) : NULL, e);
}

struct js *history_report_json(const struct history_run *r, struct err *e)
{
	struct js *o = js_object();

	if (r->id != 0)
		js_set_i64(o, "run", r->id, e);
	else
		js_set_null(o, "run", e);
	js_set_str(o, "kind", history_kind_name(r->kind), e);
	js_set_str(o, "result", history_result_name(r->result), e);
	set_time(o, "started", r->started, e);
	set_time(o, "ended", r->ended, e);
	js_set_name(o, "host", r->host, e);
	js_set_i64(o, "pid", r->pid, e);
	js_set_name(o, "why", r->why[0] != '\0' ? r->why : NULL, e);
	if (removes_chunks(r)) {
		js_set_u64(o, "removed-chunks", r->removed, e);
		js_set_u64(o, "removed-bytes", r->freed, e);
		js_set_u64(o, "not-logged", r->unlogged, e);
	} else if (!removes_nothing(r)) {
		js_set_u64(o, "removed-snapshots", r->removed, e);
	}
	return o;
}

/*
 * Open the history, if it still knows the run.  Nothing is printed while it is
 * open: who reads that may take his time, and others wait for the lock.
 */
static int open_at(struct app *app, struct datastore *ds,
    const struct history_run *r, struct history **ret, struct err *e)
{
	bool found = false;
	bool known = false;
	int rc = history_open(ds, HISTORY_READ, &app->task, ret, &found, e);

	if (rc == 0 && found)
		rc = history_knows(*ret, r, &known, e);
	if (rc == 0 && !known)
		rc = err_set(e, ERR_NOTFOUND,
		    "run %" PRId64 " is in the history of '%s' no more", r->id,
		    ds->path);
	return rc;
}

/* What the rows of one run are put into: JSON, or lines. */
struct details {
	struct js *counts;
	struct js *names;
	struct buf count_lines;
	struct buf name_lines;
};

static int show_count(void *ctx, const struct history_count *c, struct err *e)
{
	struct details *d = ctx;
	char key[HOST_SHOWN];

	js_set_u64(d->counts, c->key, c->n, e);
	return e->code < 0
	    ? e->code
	    : buf_append_fmt(&d->count_lines, e, "  %-20s %" PRIu64 "\n",
		  text_name(key, sizeof(key), c->key), c->n);
}

static int show_name(void *ctx, const char *name, struct err *e)
{
	struct details *d = ctx;
	char shown[BACKUP_PATH_SIZE];

	js_append(d->names, js_new_str(name, e), e);
	return e->code < 0 ? e->code
			   : buf_append_fmt(&d->name_lines, e, "  %s\n",
				 text_name(shown, sizeof(shown), name));
}

static int read_details(struct app *app, struct datastore *ds,
    const struct history_run *r, struct details *d, struct err *e)
{
	struct history *h = NULL;
	int rc = open_at(app, ds, r, &h, e);

	if (rc == 0)
		rc = history_counts(h, r->id, show_count, d, e);
	if (rc == 0)
		rc = history_snapshots(h, r->id, show_name, d, e);
	history_close(h);
	return rc;
}

static int print_head(const struct history_run *r, struct err *e)
{
	char started[TEXT_TIME_SIZE];
	char ended[TEXT_TIME_SIZE];
	char took[TEXT_DURATION_SIZE];
	char host[HOST_SHOWN];
	int rc = output_text(e,
	    "run:     %" PRId64 ", %s\nresult:  %s\nstarted: %s by pid %" PRId64
	    " on %s\n",
	    r->id, history_kind_name(r->kind), history_result_name(r->result),
	    text_time(started, r->started), r->pid,
	    text_name(host, sizeof(host), r->host));

	if (rc == 0 && r->ended != 0)
		rc = output_text(e, "ended:   %s, after %s\n",
		    text_time(ended, r->ended), took_text(r, took));
	return rc;
}

static int print_lines(struct buf *lines, struct err *e)
{
	const char *text = buf_cstr(lines, e);

	return text != NULL ? output_text(e, "%s", text) : e->code;
}

static int one_text(
    const struct history_run *r, struct details *d, struct err *e)
{
	char removed[REMOVED_SIZE];
	char why[WHY_SHOWN];
	int rc = print_head(r, e);

	if (rc == 0 && r->why[0] != '\0')
		rc = output_text(
		    e, "why:     %s\n", text_name(why, sizeof(why), r->why));
	if (rc == 0 && !removes_nothing(r))
		rc = output_text(e, "removed: %s\n", removed_text(r, removed));
	if (rc == 0 && r->kind == HISTORY_PUSH && d->name_lines.len > 0)
		rc = output_text(e, "made:    1 snapshot\n");
	if (rc == 0)
		rc = print_lines(&d->name_lines, e);
	if (rc == 0)
		rc = output_text(e, "figures:\n");
	return rc < 0 ? rc : print_lines(&d->count_lines, e);
}

static int one_json(
    const struct history_run *r, struct details *d, struct err *e)
{
	struct js *doc = NULL;

	output_json_begin(e);
	doc = history_report_json(r, e);
	js_set(doc, "counts", d->counts, e);
	js_set(doc, "snapshots", d->names, e);
	d->counts = NULL;
	d->names = NULL;
	return output_json(doc, e);
}

int history_report_one(struct app *app, struct datastore *ds,
    const struct history_run *r, struct err *e)
{
	struct details d = { .counts = js_object(),
		.names = js_array(),
		.count_lines = BUF_INIT,
		.name_lines = BUF_INIT };
	int rc = 0;

	output_json_begin(e);
	rc = read_details(app, ds, r, &d, e);
	if (rc == 0)
		rc = app->json ? one_json(r, &d, e) : one_text(r, &d, e);
	js_free(d.counts);
	js_free(d.names);
	buf_release(&d.count_lines);
	buf_release(&d.name_lines);
	return rc;
}

/* What is read of the log at a time. */
#define PAGE_ROWS 4096U

struct digests {
	struct app *app;
	struct output_array array;
	struct history_removed *rows;
	size_t n; /* of this page */
	bool any;
};

static int keep_row(void *ctx, const struct history_removed *r, struct err *e)
{
	struct digests *d = ctx;

	(void)e;
	d->rows[d->n++] = *r;
	return 0;
}

static int read_page(struct digests *d, struct datastore *ds,
    const struct history_run *r, struct history_page *page, struct err *e)
{
	struct history *h = NULL;
	int rc = open_at(d->app, ds, r, &h, e);

	d->n = 0;
	if (rc == 0)
		rc = history_removed(h, page, keep_row, d, e);
	history_close(h);
	return rc;
}

static int show_removed(
    struct digests *d, const struct history_removed *r, struct err *e)
{
	char hex[DIGEST_HEX_SIZE];
	char used[TEXT_TIME_SIZE];
	struct js *o = NULL;

	d->any = true;
	digest_hex(&r->digest, hex);
	if (!d->app->json)
		return output_text(e, "%s  %" PRIu64 "  %s  last used %s\n",
		    hex, r->bytes, history_what_name(r->what),
		    text_time(used, r->used));
	o = js_object();
	output_json_begin(e);
	js_set_str(o, "digest", hex, e);
	js_set_u64(o, "size", r->bytes, e);
	js_set_str(o, "why", history_what_name(r->what), e);
	set_time(o, "last-used", r->used, e);
	return output_array_add(&d->array, o, e);
}

static int show_pages(struct digests *d, struct datastore *ds,
    const struct history_run *r, struct err *e)
{
	struct history_page page = { .run = r->id, .most = PAGE_ROWS };
	int rc = 0;

	do {
		rc = read_page(d, ds, r, &page, e);
		for (size_t i = 0; rc == 0 && i < d->n; i++)
			rc = show_removed(d, &d->rows[i], e);
	} while (rc == 0 && d->n == PAGE_ROWS);
	return rc;
}

/* What is not on the list, and why. */
static void tell_rest(struct app *app, const struct history_run *r, bool any)
{
	if (!any && r->freed > 0)
		task_message(&app->task, TASK_NOTE,
		    "what run %" PRId64
		    " removed is not listed any more: the log is kept for 90 "
		    "days and within 1 GiB",
		    r->id);
	if (r->unlogged > 0)
		task_message(&app->task, TASK_WARNING,
		    "%" PRIu64 " more %s removed and could not be listed",
		    r->unlogged, text_plural(r->unlogged, "was", "were"));
	if (r->kind == HISTORY_GC && r->result == HISTORY_KILLED)
		task_message(&app->task, TASK_WARNING,
		    "run %" PRId64
		    " was killed: up to %u files that it removed last may not "
		    "be listed",
		    r->id, HISTORY_RECORD_LOG_MAX - 1);
}

int history_report_digests(struct app *app, struct datastore *ds,
    const struct history_run *r, struct err *e)
{
	struct digests d = { .app = app };
	int rc = 0;

	d.rows = calloc(PAGE_ROWS, sizeof(*d.rows));
	if (d.rows == NULL)
		return err_nomem(e);
	if (app->json)
		rc = output_array_begin(&d.array, e);
	if (rc == 0)
		rc = show_pages(&d, ds, r, e);
	if (rc == 0 && app->json)
		rc = output_array_end(&d.array, e);
	if (rc == 0)
		tell_rest(app, r, d.any);
	free(d.rows);
	return rc;
}
