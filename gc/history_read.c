/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <string.h>

#include "datastore/gcrunning.h"
#include "datastore/locks.h"
#include "gc/history_internal.h"
#include "gc/running.h"

static const char *const kinds[HISTORY_KINDS] = {
	[HISTORY_GC] = "gc",
	[HISTORY_FORGET] = "forget",
	[HISTORY_PRUNE] = "prune",
	[HISTORY_VERIFY] = "verify",
	[HISTORY_PUSH] = "push",
};

static const char *const results[HISTORY_RESULTS] = {
	[HISTORY_RUNNING] = "running",
	[HISTORY_DONE] = "done",
	[HISTORY_INCOMPLETE] = "incomplete",
	[HISTORY_DAMAGE] = "damage",
	[HISTORY_BUSY] = "busy",
	[HISTORY_REFUSED] = "refused",
	[HISTORY_FAILED] = "failed",
	[HISTORY_STOPPED] = "stopped",
	[HISTORY_KILLED] = "killed",
};

static const char *const reasons[] = {
	[HISTORY_GARBAGE] = "garbage",
	[HISTORY_BAD] = "bad",
	[HISTORY_TEMPORARY] = "temporary",
};

const char *history_kind_name(enum history_kind k)
{
	return kinds[k];
}

const char *history_result_name(enum history_result r)
{
	return results[r];
}

const char *history_what_name(enum history_what w)
{
	return reasons[w];
}

/* Where a word stands in a list; n: nowhere. */
static size_t find(const char *const *words, size_t n, const char *s)
{
	size_t i = 0;

	while (i < n && strcmp(words[i], s) != 0)
		i++;
	return i;
}

bool history_kind_parse(const char *s, enum history_kind *ret)
{
	size_t i = find(kinds, HISTORY_KINDS, s);

	if (i == HISTORY_KINDS)
		return false;
	*ret = (enum history_kind)i;
	return true;
}

static const char *column_text(sqlite3_stmt *stmt, int i)
{
	const unsigned char *s = sqlite3_column_text(stmt, i);

	return s != NULL ? (const char *)s : "";
}

static uint64_t column_u64(sqlite3_stmt *stmt, int i)
{
	int64_t n = sqlite3_column_int64(stmt, i);

	return n < 0 ? 0 : (uint64_t)n;
}

static int odd(struct history *h, const char *what, struct err *e)
{
	return err_set(
	    e, ERR_CORRUPT, "'%s': damaged database: %s", h->shown, what);
}

int history_row(struct history *h, sqlite3_stmt *stmt, struct history_run *ret,
    struct err *e)
{
	struct history_run r = { .id = sqlite3_column_int64(stmt, 0) };
	size_t kind = find(kinds, HISTORY_KINDS, column_text(stmt, 1));
	size_t result = find(results, HISTORY_RESULTS, column_text(stmt, 2));

	if (kind == HISTORY_KINDS || result == HISTORY_RESULTS)
		return odd(h, "a run of an unknown kind or result", e);
	r.kind = (enum history_kind)kind;
	r.result = (enum history_result)result;
	r.started = sqlite3_column_int64(stmt, 3);
	r.ended = sqlite3_column_int64(stmt, 4);
	(void)snprintf(r.host, sizeof(r.host), "%s", column_text(stmt, 5));
	(void)snprintf(
	    r.machine_id, sizeof(r.machine_id), "%s", column_text(stmt, 6));
	r.pid = sqlite3_column_int64(stmt, 7);
	r.lock_byte = column_u64(stmt, 8);
	r.removed = column_u64(stmt, 9);
	r.freed = column_u64(stmt, 10);
	r.unlogged = column_u64(stmt, 11);
	(void)snprintf(r.why, sizeof(r.why), "%s", column_text(stmt, 12));
	*ret = r;
	return 0;
}

/* Is the GC that holds byte 1 this one? */
static bool is_this_gc(struct datastore *ds, const struct history_run *r)
{
	struct gcrunning g = { .pid = 0 };
	struct err ignored = ERR_INIT;
	bool found = false;

	/* Where it can not be told, it is. */
	return gcrunning_read(ds, &g, &found, &ignored) < 0 || !found ||
	    (g.pid == r->pid && strcmp(g.machine_id, r->machine_id) == 0 &&
		g.start == r->started);
}

int history_is_alive(
    struct history *h, const struct history_run *r, bool *ret, struct err *e)
{
	bool held = false;
	int rc = 0;

	/* 0: the datastore was open for reading, and held none. */
	if (r->lock_byte == 0) {
		*ret = true;
		return 0;
	}
	rc = running_holds(h->ds, r->lock_byte, &held, e);
	if (rc == 0 && held && r->kind == HISTORY_GC)
		held = is_this_gc(h->ds, r);
	if (rc == 0)
		*ret = held;
	return rc;
}

/* One without an end wrote no figures: at least what it logged is gone. */
static int count_logged(struct history *h, struct history_run *r, struct err *e)
{
	const struct history_value v = { .number = r->id };
	int64_t n = 0;
	int64_t bytes = 0;
	int rc = history_sql_run(h,
	    "select count(*) from removed where run = ? and what = 'garbage'",
	    &v, 1, &n, e);

	if (rc == 0)
		rc = history_sql_run(h,
		    "select total(bytes) from removed where run = ? and "
		    "what = 'garbage'",
		    &v, 1, &bytes, e);
	if (rc < 0)
		return rc;
	if (n > 0 && (uint64_t)n > r->removed)
		r->removed = (uint64_t)n;
	if (bytes > 0 && (uint64_t)bytes > r->freed)
		r->freed = (uint64_t)bytes;
	return 0;
}

static int tell_run(struct history *h, sqlite3_stmt *stmt,
    int (*fn)(void *ctx, const struct history_run *r, struct err *e), void *ctx,
    struct err *e)
{
	struct history_run r;
	bool alive = true;
	int rc = history_row(h, stmt, &r, e);

	if (rc == 0 && r.result == HISTORY_RUNNING)
		rc = history_is_alive(h, &r, &alive, e);
	if (rc == 0 && !alive)
		r.result = HISTORY_KILLED;
	if (rc == 0 && r.kind == HISTORY_GC && r.ended == 0)
		rc = count_logged(h, &r, e);
	return rc < 0 ? rc : fn(ctx, &r, e);
}

int history_runs(struct history *h, const struct history_query *q,
    int (*fn)(void *ctx, const struct history_run *r, struct err *e), void *ctx,
    struct err *e)
{
	const struct history_value v[] = {
		{ .number = q->run, .null = q->run == 0 },
		{ .text = q->any_kind ? NULL : history_kind_name(q->kind),
		    .null = q->any_kind },
		{ .number = q->since == 0 ? INT64_MIN : q->since },
		{ .number = q->limit == 0 || q->limit > INT64_MAX
			? -1
			: (int64_t)q->limit },
	};
	sqlite3_stmt *stmt = NULL;
	bool row = false;
	int rc = history_sql_prepare(h,
	    "select " HISTORY_COLUMNS " from run where (?1 is null or id = ?1) "
	    "and (?2 is null or kind = ?2) and started >= ?3 "
	    "order by id desc limit ?4",
	    &stmt, e);

	if (rc == 0)
		rc = history_sql_bind(h, stmt, v, sizeof(v) / sizeof(v[0]), e);
	while (rc == 0) {
		rc = history_sql_step(h, stmt, &row, e);
		if (rc < 0 || !row)
			break;
		rc = tell_run(h, stmt, fn, ctx, e);
	}
	(void)sqlite3_finalize(stmt);
	return rc;
}

/* What a statement with these values gives. */
struct rows {
	const char *sql;
	const struct history_value *v;
	size_t n;
};

static int each_row(struct history *h, const struct rows *rows,
    int (*fn)(struct history *h, sqlite3_stmt *stmt, void *ctx, struct err *e),
    void *ctx, struct err *e)
{
	sqlite3_stmt *stmt = NULL;
	bool row = false;
	int rc = history_sql_prepare(h, rows->sql, &stmt, e);

	if (rc == 0)
		rc = history_sql_bind(h, stmt, rows->v, rows->n, e);
	while (rc == 0) {
		rc = task_check(h->task, e);
		if (rc == 0)
			rc = history_sql_step(h, stmt, &row, e);
		if (rc < 0 || !row)
			break;
		rc = fn(h, stmt, ctx, e);
	}
	(void)sqlite3_finalize(stmt);
	return rc;
}

struct counts {
	int (*fn)(void *ctx, const struct history_count *c, struct err *e);
	void *ctx;
};

static int on_count(
    struct history *h, sqlite3_stmt *stmt, void *ctx, struct err *e)
{
	const struct counts *c = ctx;
	const struct history_count count = {
		.key = column_text(stmt, 0),
		.n = column_u64(stmt, 1),
	};

	(void)h;
	return c->fn(c->ctx, &count, e);
}

int history_counts(struct history *h, int64_t run,
    int (*fn)(void *ctx, const struct history_count *c, struct err *e),
    void *ctx, struct err *e)
{
	const struct history_value v = { .number = run };
	const struct rows rows = {
		"select key, n from count where run = ? order by key", &v, 1
	};
	struct counts c = { .fn = fn, .ctx = ctx };

	return each_row(h, &rows, on_count, &c, e);
}

struct names {
	int (*fn)(void *ctx, const char *name, struct err *e);
	void *ctx;
};

static int on_name(
    struct history *h, sqlite3_stmt *stmt, void *ctx, struct err *e)
{
	const struct names *n = ctx;

	(void)h;
	return n->fn(n->ctx, column_text(stmt, 0), e);
}

int history_snapshots(struct history *h, int64_t run,
    int (*fn)(void *ctx, const char *name, struct err *e), void *ctx,
    struct err *e)
{
	const struct history_value v = { .number = run };
	const struct rows rows = {
		"select name from snapshot where run = ? order by name", &v, 1
	};
	struct names n = { .fn = fn, .ctx = ctx };

	return each_row(h, &rows, on_name, &n, e);
}

struct files {
	int (*fn)(void *ctx, const struct history_removed *r, struct err *e);
	void *ctx;
	int64_t last;
};

static int on_removed(
    struct history *h, sqlite3_stmt *stmt, void *ctx, struct err *e)
{
	struct files *f = ctx;
	struct history_removed r = { .bytes = column_u64(stmt, 2) };
	const size_t n = sizeof(reasons) / sizeof(reasons[0]);
	size_t what = find(reasons, n, column_text(stmt, 1));
	const void *digest = sqlite3_column_blob(stmt, 0);

	if (what == n || digest == NULL ||
	    sqlite3_column_bytes(stmt, 0) != (int)sizeof(r.digest.b))
		return odd(h, "a removed file of an unknown form", e);
	memcpy(r.digest.b, digest, sizeof(r.digest.b));
	r.what = (enum history_what)what;
	r.used = sqlite3_column_int64(stmt, 3);
	f->last = sqlite3_column_int64(stmt, 4);
	return f->fn(f->ctx, &r, e);
}

int history_removed(struct history *h, struct history_page *page,
    int (*fn)(void *ctx, const struct history_removed *r, struct err *e),
    void *ctx, struct err *e)
{
	const struct history_value v[] = {
		{ .number = page->run },
		{ .number = page->after },
		history_unsigned_value(page->most),
	};
	const struct rows rows = {
		"select digest, what, bytes, used, seq from removed "
		"where run = ? and seq > ? order by seq limit ?",
		v, sizeof(v) / sizeof(v[0])
	};
	struct files f = { .fn = fn, .ctx = ctx, .last = page->after };
	int rc = each_row(h, &rows, on_removed, &f, e);

	if (rc == 0)
		page->after = f.last;
	return rc;
}

void history_of_gc(
    const struct gcrunning *g, bool alive, struct history_run *ret)
{
	size_t result = find(results, HISTORY_RESULTS, g->state);
	struct history_run r = {
		.kind = HISTORY_GC,
		.result = result == HISTORY_RESULTS
		    ? HISTORY_FAILED
		    : (enum history_result)result,
		.started = g->start,
		.ended = g->ended,
		.pid = g->pid,
		.lock_byte = LOCK_BYTE_GC,
		.removed = g->removed_chunks,
		.freed = g->removed_bytes,
	};

	memcpy(r.host, g->host, sizeof(r.host));
	memcpy(r.machine_id, g->machine_id, sizeof(r.machine_id));
	memcpy(r.why, g->why, sizeof(r.why));
	if (r.result == HISTORY_RUNNING && !alive) {
		r.result = HISTORY_KILLED;
		if (g->phase[0] == '\0')
			(void)snprintf(r.why, sizeof(r.why),
			    "ended without a word before its first phase");
		else
			(void)snprintf(r.why, sizeof(r.why),
			    "ended without a word in phase '%s' at %u%%",
			    g->phase, g->percent);
	}
	*ret = r;
}

int history_gc_trace(struct datastore *ds, struct history_run *ret,
    bool *ret_found, struct err *e)
{
	struct gcrunning g = { .pid = 0 };
	bool found = false;
	bool held = false;
	int rc = gcrunning_read(ds, &g, &found, e);

	if (rc == 0 && found)
		rc = running_holds(ds, LOCK_BYTE_GC, &held, e);
	/* Who ended in between has written how. */
	if (rc == 0 && found && !held)
		rc = gcrunning_read(ds, &g, &found, e);
	if (rc < 0)
		return rc;
	if (found)
		history_of_gc(&g, held, ret);
	*ret_found = found;
	return 0;
}
