/* SPDX-License-Identifier: MIT */
/*
 * cmd_history: what ran on a datastore, and what a garbage collection removed.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cmd.h"
#include "cli/exit.h"
#include "cli/history_report.h"
#include "cli/output.h"
#include "datastore/base/clock.h"
#include "datastore/base/text.h"
#include "gc/history.h"

#define LIMIT_DEFAULT 50U

struct listing_runs {
	struct app *app;
	struct history_query query;
	struct history_run trace; /* of gc.running */
	bool has_trace;           /* it is not in the database */
	struct table *table;
	struct output_array array;
	struct history_run *runs;
	size_t n;
};

/* A time, or how long ago. */
static int parse_since(const char *s, int64_t *ret, struct err *e)
{
	struct err why = ERR_INIT;
	int64_t now = clock_now_s();
	uint64_t ago = 0;

	if (text_parse_time(s, ret))
		return 0;
	if (text_parse_duration(s, &ago, &why) < 0)
		return cmd_bad_value("since", s,
		    "a time like 2026-11-30T12:00:00Z, or how long ago, like "
		    "7d",
		    e);
	*ret = ago >= (uint64_t)now ? 1 : now - (int64_t)ago;
	return 0;
}

static int parse_query(
    const struct invocation *inv, struct history_query *q, struct err *e)
{
	const char *kind = invocation_value(inv, "kind");
	const char *limit = invocation_value(inv, "limit");
	const char *since = invocation_value(inv, "since");
	uint64_t run = 0;
	int rc = 0;

	*q = (struct history_query){ .any_kind = kind == NULL,
		.limit = LIMIT_DEFAULT };
	if (kind != NULL && !history_kind_parse(kind, &q->kind))
		return cmd_bad_value(
		    "kind", kind, "gc, forget, prune, verify or push", e);
	if (limit != NULL) {
		rc = text_parse_u64(limit, 1, INT64_MAX, &q->limit, e);
		if (rc < 0)
			err_prefix(e, "--limit");
	}
	if (rc == 0 && since != NULL)
		rc = parse_since(since, &q->since, e);
	if (rc == 0 && inv->args_n > 0) {
		rc = text_parse_u64(inv->args[0], 1, INT64_MAX, &run, e);
		if (rc < 0)
			err_prefix(e, "RUN");
		q->run = (int64_t)run;
	}
	if (rc == 0 && run != 0 &&
	    (kind != NULL || limit != NULL || since != NULL))
		rc = err_set(e, ERR_INVALID,
		    "--kind, --limit and --since choose among runs, and one "
		    "was named");
	if (rc == 0 && run == 0 && invocation_has(inv, "digests"))
		rc = err_set(e, ERR_INVALID,
		    "--digests lists what one run removed: which? 'cairn "
		    "history' has their numbers");
	return rc;
}

static int keep_run(void *ctx, const struct history_run *r, struct err *e)
{
	struct listing_runs *l = ctx;

	/* Doubled at each power of two. */
	if ((l->n & (l->n - 1)) == 0) {
		struct history_run *runs = reallocarray(
		    l->runs, l->n == 0 ? 1 : 2 * l->n, sizeof(*runs));

		if (runs == NULL)
			return err_nomem(e);
		l->runs = runs;
	}
	l->runs[l->n++] = *r;
	return 0;
}

static int show_run(
    struct listing_runs *l, const struct history_run *r, struct err *e)
{
	if (!l->app->json)
		return history_report_row(l->table, r, e);
	output_json_begin(e);
	return output_array_add(&l->array, history_report_json(r, e), e);
}

/* One that is in the database is not told of twice. */
static int find_trace(struct listing_runs *l, struct datastore *ds,
    struct history *h, struct err *e)
{
	const struct history_query *q = &l->query;
	bool known = false;
	int rc = history_gc_trace(ds, &l->trace, &l->has_trace, e);

	if (rc == 0 && l->has_trace && h != NULL)
		rc = history_knows(h, &l->trace, &known, e);
	if (known || l->trace.started < q->since ||
	    (!q->any_kind && q->kind != HISTORY_GC))
		l->has_trace = false;
	return rc;
}

static int read_runs(struct listing_runs *l, struct datastore *ds,
    struct history *h, struct err *e)
{
	int rc = find_trace(l, ds, h, e);

	if (rc == 0 && l->has_trace) {
		rc = keep_run(l, &l->trace, e);
		if (l->query.limit == 1)
			return rc;
		l->query.limit--;
	}
	if (rc == 0 && h != NULL)
		rc = history_runs(h, &l->query, keep_run, l, e);
	return rc;
}

static int list(struct listing_runs *l, struct err *e)
{
	int rc = l->app->json ? output_array_begin(&l->array, e)
			      : history_report_table(&l->table, e);

	for (size_t i = 0; rc == 0 && i < l->n; i++)
		rc = show_run(l, &l->runs[i], e);
	if (rc == 0 && l->app->json)
		rc = output_array_end(&l->array, e);
	else if (rc == 0 && l->n > 0)
		rc = table_print(l->table, e);
	else if (rc == 0)
		task_message(&l->app->task, TASK_NOTE, "no runs are recorded");
	table_free(l->table);
	return rc;
}

static int one(struct listing_runs *l, struct datastore *ds, struct err *e)
{
	struct app *app = l->app;

	if (l->n == 0)
		return err_set(e, ERR_NOTFOUND,
		    "no run %" PRId64 " in the history of '%s'", l->query.run,
		    ds->path);
	return invocation_has(app->inv, "digests")
	    ? history_report_digests(app, ds, &l->runs[0], e)
	    : history_report_one(app, ds, &l->runs[0], e);
}

/* Read first, printed when nobody has to wait for us any more. */
static int read_all(struct listing_runs *l, struct datastore *ds, struct err *e)
{
	struct history *h = NULL;
	bool found = false;
	int rc = history_open(ds, HISTORY_READ, &l->app->task, &h, &found, e);

	if (rc == ERR_CORRUPT)
		err_suffix(e,
		    "; the next run that is recorded puts it aside and begins "
		    "a new one");
	else if (rc == ERR_BUSY)
		err_suffix(e, "%s", ERR_TRY_AGAIN);
	if (rc == 0 && l->query.run == 0)
		rc = read_runs(l, ds, h, e);
	else if (rc == 0 && h != NULL)
		rc = history_runs(h, &l->query, keep_run, l, e);
	history_close(h);
	return rc;
}

int cmd_history(struct app *app, const struct invocation *inv, struct err *e)
{
	struct listing_runs l = { .app = app };
	struct datastore *ds = NULL;
	int rc = parse_query(inv, &l.query, e);

	if (rc == 0)
		rc = app_open_datastore(app, DATASTORE_READ, &ds, e);
	if (rc == 0)
		rc = read_all(&l, ds, e);
	if (rc == 0)
		rc = l.query.run != 0 ? one(&l, ds, e) : list(&l, e);
	free(l.runs);
	datastore_close(ds);
	return rc < 0 ? rc : EXIT_DONE;
}
