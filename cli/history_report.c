/* SPDX-License-Identifier: MIT */
#include "cli/history_report.h"

#include <inttypes.h>
#include <stdio.h>

#include "datastore/base/text.h"

#define REMOVED_SIZE 64
#define HOST_SHOWN 128
#define WHY_SHOWN 1024

static bool removes_chunks(const struct history_run *r)
{
	return r->kind == HISTORY_GC;
}

static bool removes_nothing(const struct history_run *r)
{
	return r->kind == HISTORY_VERIFY;
}

static const char *removed_text(
    const struct history_run *r, char out[REMOVED_SIZE])
{
	char size[TEXT_SIZE_SIZE];
	const char *s = r->removed == 1 ? "" : "s";

	if (removes_nothing(r))
		(void)snprintf(out, REMOVED_SIZE, "-");
	else if (removes_chunks(r))
		(void)snprintf(out, REMOVED_SIZE, "%" PRIu64 " chunk%s, %s",
		    r->removed, s, text_size(size, r->freed));
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

/* What the rows of one run are put into. */
struct details {
	struct js *doc; /* NULL: text */
	bool json;      /* into the array */
	bool any;
	struct output_array array;
};

static int show_count(void *ctx, const struct history_count *c, struct err *e)
{
	struct details *d = ctx;
	char key[HOST_SHOWN];

	if (d->doc == NULL)
		return output_text(e, "  %-20s %" PRIu64 "\n",
		    text_name(key, sizeof(key), c->key), c->n);
	js_set_u64(d->doc, c->key, c->n, e);
	return e->code;
}

static int show_name(void *ctx, const char *name, struct err *e)
{
	struct details *d = ctx;
	char shown[BACKUP_PATH_SIZE];

	if (d->doc == NULL)
		return output_text(
		    e, "  %s\n", text_name(shown, sizeof(shown), name));
	js_append(d->doc, js_new_str(name, e), e);
	return e->code;
}

static int one_json(
    struct history *h, const struct history_run *r, struct err *e)
{
	struct details counts = { .doc = js_object() };
	struct details names = { .doc = js_array() };
	struct js *doc = NULL;
	int rc = 0;

	output_json_begin(e);
	rc = history_counts(h, r->id, show_count, &counts, e);
	if (rc == 0)
		rc = history_snapshots(h, r->id, show_name, &names, e);
	if (rc < 0) {
		js_free(counts.doc);
		js_free(names.doc);
		return rc;
	}
	doc = history_report_json(r, e);
	js_set(doc, "counts", counts.doc, e);
	js_set(doc, "snapshots", names.doc, e);
	return output_json(doc, e);
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

static int one_text(
    struct history *h, const struct history_run *r, struct err *e)
{
	struct details d = { .doc = NULL };
	char removed[REMOVED_SIZE];
	char why[WHY_SHOWN];
	int rc = print_head(r, e);

	if (rc == 0 && r->why[0] != '\0')
		rc = output_text(
		    e, "why:     %s\n", text_name(why, sizeof(why), r->why));
	if (rc == 0 && !removes_nothing(r))
		rc = output_text(e, "removed: %s\n", removed_text(r, removed));
	if (rc == 0)
		rc = history_snapshots(h, r->id, show_name, &d, e);
	if (rc == 0)
		rc = output_text(e, "figures:\n");
	return rc < 0 ? rc : history_counts(h, r->id, show_count, &d, e);
}

int history_report_one(struct app *app, struct history *h,
    const struct history_run *r, struct err *e)
{
	return app->json ? one_json(h, r, e) : one_text(h, r, e);
}

static int show_removed(
    void *ctx, const struct history_removed *r, struct err *e)
{
	struct details *d = ctx;
	char hex[DIGEST_HEX_SIZE];
	char used[TEXT_TIME_SIZE];
	struct js *o = NULL;

	d->any = true;
	digest_hex(&r->digest, hex);
	if (!d->json)
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

int history_report_digests(struct app *app, struct history *h,
    const struct history_run *r, struct err *e)
{
	struct details d = { .json = app->json };
	int rc = 0;

	if (app->json)
		rc = output_array_begin(&d.array, e);
	if (rc == 0)
		rc = history_removed(h, r->id, show_removed, &d, e);
	if (rc == 0 && app->json)
		rc = output_array_end(&d.array, e);
	if (rc == 0 && !d.any && r->freed > 0)
		task_message(&app->task, TASK_NOTE,
		    "what run %" PRId64
		    " removed is not listed any more: the log is kept for 90 "
		    "days and within 1 GiB",
		    r->id);
	if (rc == 0 && r->unlogged > 0)
		task_message(&app->task, TASK_WARNING,
		    "%" PRIu64 " more were removed and could not be listed",
		    r->unlogged);
	return rc;
}
