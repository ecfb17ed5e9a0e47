/* SPDX-License-Identifier: MIT */
/*
 * The log of the history: what was removed, file by file, within its bounds.
 */
#include <stdio.h>

#include "datastore/base/clock.h"
#include "gc/history_internal.h"

/* Rows of the log that one transaction drops, at most: its journal holds
 * their pages. */
#define DROP_ROWS 50000
/* How long a trim goes on doing that, at most: others wait 5 s for the lock. */
#define TRIM_NS (2 * CLOCK_NS_PER_S)
/* What is left of the bound for all else than the log. */
#define ROOM_PAGES 64

/* Pages that hold something. */
static int used_pages(struct history *h, uint64_t *ret, struct err *e)
{
	int64_t all = 0;
	int64_t free_pages = 0;
	int rc = history_number(h, "pragma page_count", &all, e);

	if (rc == 0)
		rc = history_number(h, "pragma freelist_count", &free_pages, e);
	if (rc == 0)
		*ret = all > free_pages ? (uint64_t)(all - free_pages) : 0;
	return rc;
}

static int drop_rows(struct history *h, const char *where, int64_t n,
    int64_t *ret_dropped, struct err *e)
{
	const struct history_value v = { .number = n };
	char sql[256];
	int rc = history_begin(h, e);

	(void)snprintf(sql, sizeof(sql),
	    "delete from removed where (run, seq) in (select run, seq from "
	    "removed where %s order by run, seq limit %d)",
	    where, DROP_ROWS);
	if (rc < 0)
		return rc;
	rc = history_sql_run(h, sql, &v, 1, NULL, e);
	if (rc == 0)
		*ret_dropped = sqlite3_changes64(h->db);
	return history_finish(h, rc, e);
}

/* Room for n more rows: older runs' go first.  *ret_room false: this run's
 * own fill it. */
static int make_room(
    struct history *h, int64_t run, size_t n, bool *ret_room, struct err *e)
{
	/* Of a row, with what SQLite needs around it. */
	const uint64_t pages = n * 64 / HISTORY_PAGE + 8;
	const uint64_t most = h->bytes_max / HISTORY_PAGE;
	int64_t dropped = 1;
	uint64_t used = 0;
	int rc = used_pages(h, &used, e);

	while (rc == 0 && dropped > 0 && used + pages + ROOM_PAGES > most) {
		rc = drop_rows(h, "run < ?", run, &dropped, e);
		if (rc == 0)
			rc = used_pages(h, &used, e);
	}
	if (rc == 0)
		*ret_room = used + pages + ROOM_PAGES <= most;
	return rc;
}

static int insert_removed(struct history *h, int64_t run,
    const struct history_removed *items, size_t n, struct err *e)
{
	const struct history_value which = { .number = run };
	sqlite3_stmt *stmt = NULL;
	int64_t seq = 0;
	bool row = false;
	int rc = history_sql_run(h,
	    "select coalesce(max(seq), 0) from removed where run = ?", &which,
	    1, &seq, e);

	if (rc == 0)
		rc = history_sql_prepare(h,
		    "insert into removed(run, seq, digest, what, bytes, used) "
		    "values(?, ?, ?, ?, ?, ?)",
		    &stmt, e);
	for (size_t i = 0; rc == 0 && i < n; i++) {
		const struct history_value v[] = {
			which,
			{ .number = ++seq },
			{ .blob = items[i].digest.b,
			    .n = sizeof(items[i].digest.b) },
			history_text_value(history_what_name(items[i].what)),
			history_unsigned_value(items[i].bytes),
			{ .number = items[i].used },
		};

		rc = history_sql_bind(h, stmt, v, sizeof(v) / sizeof(v[0]), e);
		if (rc == 0)
			rc = history_sql_step(h, stmt, &row, e);
		(void)sqlite3_reset(stmt);
	}
	(void)sqlite3_finalize(stmt);
	return rc;
}

int history_add_removed(struct history *h, int64_t run,
    const struct history_removed *items, size_t n, size_t *ret_added,
    struct err *e)
{
	bool room = false;
	int rc = make_room(h, run, n, &room, e);

	if (rc == 0 && room)
		rc = history_begin(h, e);
	if (rc < 0)
		return rc;
	if (room)
		rc = history_finish(h, insert_removed(h, run, items, n, e), e);
	if (rc == 0)
		*ret_added = room ? n : 0;
	return rc;
}

/* Pushes, or all others: beyond the newest so many. */
#define TOO_MANY                                                    \
	"(kind = 'push') = ?1 and id <= (select id from run where " \
	"(kind = 'push') = ?1 order by id desc limit 1 offset ?2)"

static int drop_runs(struct history *h, bool pushes, struct err *e)
{
	static const char *const sql[] = {
		"delete from count where run in "
		"(select id from run where " TOO_MANY ")",
		"delete from snapshot where run in "
		"(select id from run where " TOO_MANY ")",
		"delete from run where " TOO_MANY,
	};
	const struct history_value v[] = {
		{ .number = pushes },
		history_unsigned_value(h->runs_max),
	};
	int rc = history_begin(h, e);

	if (rc < 0)
		return rc;
	for (size_t i = 0; rc == 0 && i < sizeof(sql) / sizeof(sql[0]); i++)
		rc = history_sql_run(
		    h, sql[i], v, sizeof(v) / sizeof(v[0]), NULL, e);
	return history_finish(h, rc, e);
}

int history_trim(struct history *h, int64_t now, struct err *e)
{
	int64_t began = clock_boot_ns();
	int64_t dropped = 0;
	int rc = 0;

	do {
		/* Also what lost its run; pushes have none. */
		rc = drop_rows(h,
		    "run < coalesce((select min(id) from run where started >= "
		    "? and kind <> 'push'), (select max(id) + 1 from run))",
		    now - HISTORY_KEEP_S, &dropped, e);
	} while (rc == 0 && dropped == DROP_ROWS &&
	    clock_boot_ns() - began < TRIM_NS);
	if (rc == 0)
		rc = drop_runs(h, false, e);
	if (rc == 0)
		rc = drop_runs(h, true, e);
	/* A part of what got free goes back to the disk each time. */
	if (rc == 0)
		rc = history_sql_exec(h, "pragma incremental_vacuum(4096)", e);
	return rc;
}
