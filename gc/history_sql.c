/* SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <string.h>

#include "datastore/base/text.h"
#include "gc/history_internal.h"

/* Of what SQLite says, which may quote the database. */
#define TEXT 256

#define VALUE_MAX 65536
#define SQL_MAX 8192

/* Instructions between two looks at the task, and looks that a step may take:
 * pages of a damaged file may lead to each other for ever. */
#define TICK 200000
#define TICKS_MAX 2000U

static int tick(void *ctx)
{
	struct history *h = ctx;

	return ++h->ticks > TICKS_MAX || h->task->stop != 0;
}

static void set_limits(sqlite3 *db)
{
	(void)sqlite3_limit(db, SQLITE_LIMIT_LENGTH, VALUE_MAX);
	(void)sqlite3_limit(db, SQLITE_LIMIT_SQL_LENGTH, SQL_MAX);
	(void)sqlite3_limit(db, SQLITE_LIMIT_ATTACHED, 0);
	(void)sqlite3_limit(db, SQLITE_LIMIT_TRIGGER_DEPTH, 0);
	(void)sqlite3_limit(db, SQLITE_LIMIT_WORKER_THREADS, 0);
}

static int configure(struct history *h, struct err *e)
{
	static const struct {
		int what;
		int value;
	} config[] = {
		{ SQLITE_DBCONFIG_DEFENSIVE, 1 },
		{ SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0 },
		{ SQLITE_DBCONFIG_ENABLE_TRIGGER, 0 },
		{ SQLITE_DBCONFIG_ENABLE_VIEW, 0 },
		{ SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 0 },
	};

	set_limits(h->db);
	sqlite3_progress_handler(h->db, TICK, tick, h);
	for (size_t i = 0; i < sizeof(config) / sizeof(config[0]); i++) {
		int code = sqlite3_db_config(
		    h->db, config[i].what, config[i].value, NULL);

		if (code != SQLITE_OK)
			return history_sql_fail(h, code, e);
	}
	return history_sql_exec(h,
	    "pragma locking_mode = exclusive;"
	    "pragma cell_size_check = on;"
	    "pragma temp_store = memory;"
	    "pragma cache_size = -1024;"
	    "pragma synchronous = full",
	    e);
}

int history_sql_open(struct history *h, struct err *e)
{
	const struct history_vfs_opts o = {
		.dirfd = h->dirfd,
		.fd = h->fd,
		.name = HISTORY_NAME,
		.shown = h->shown,
		.writable = h->writing,
		.owner = h->ds->owner,
	};
	int code = 0;
	int rc = history_vfs_new(&o, &h->vfs, e);

	if (rc < 0)
		return rc;
	code = sqlite3_open_v2(HISTORY_NAME, &h->db,
	    (h->writing ? SQLITE_OPEN_READWRITE : SQLITE_OPEN_READONLY) |
		SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE,
	    history_vfs_name(h->vfs));
	if (code != SQLITE_OK)
		return history_sql_fail(h, code, e);
	return configure(h, e);
}

void history_sql_close(struct history *h)
{
	/* Every statement was finalised, so it can not be busy. */
	(void)sqlite3_close(h->db);
	h->db = NULL;
	history_vfs_free(h->vfs);
	h->vfs = NULL;
}

int history_sql_fail(struct history *h, int code, struct err *e)
{
	char text[TEXT];
	int rc = history_vfs_take_err(h->vfs, e);

	if (rc < 0)
		return rc;
	if (code == SQLITE_IOERR_NOMEM || (code & 0xff) == SQLITE_NOMEM)
		return err_nomem(e);
	if ((code & 0xff) == SQLITE_INTERRUPT && h->task->stop != 0)
		return task_check(h->task, e);
	if ((code & 0xff) == SQLITE_INTERRUPT)
		return err_set(e, ERR_CORRUPT,
		    "'%s': damaged database: its pages have no end", h->shown);
	if ((code & 0xff) == SQLITE_FULL)
		return err_set(e, ERR_LIMIT,
		    "'%s' has no room left: it may have %" PRIu64 " bytes",
		    h->shown, h->bytes_max);
	if ((code & 0xff) == SQLITE_READONLY) {
		h->hot = true;
		return err_set(e, ERR_BUSY,
		    "'%s' was being written when its writer was killed, and "
		    "is not open for writing: the next command that writes "
		    "to it mends it",
		    h->shown);
	}
	(void)text_name(text, sizeof(text),
	    h->db != NULL && sqlite3_errcode(h->db) != SQLITE_OK
		? sqlite3_errmsg(h->db)
		: sqlite3_errstr(code));
	/* Whoever is told of damage puts all of it aside: nothing else is. */
	if ((code & 0xff) != SQLITE_CORRUPT && (code & 0xff) != SQLITE_NOTADB)
		return err_set(e, ERR_UNSUPPORTED, "'%s' can not be used: %s",
		    h->shown, text);
	return err_set(
	    e, ERR_CORRUPT, "'%s': damaged database: %s", h->shown, text);
}

int history_sql_exec(struct history *h, const char *sql, struct err *e)
{
	int code = 0;

	h->ticks = 0;
	code = sqlite3_exec(h->db, sql, NULL, NULL, NULL);
	return code == SQLITE_OK ? 0 : history_sql_fail(h, code, e);
}

int history_sql_prepare(
    struct history *h, const char *sql, sqlite3_stmt **ret, struct err *e)
{
	int code = 0;

	h->ticks = 0;
	code = sqlite3_prepare_v2(h->db, sql, -1, ret, NULL);
	return code == SQLITE_OK ? 0 : history_sql_fail(h, code, e);
}

static int bind_one(sqlite3_stmt *stmt, int at, const struct history_value *v)
{
	if (v->null)
		return sqlite3_bind_null(stmt, at);
	if (v->text != NULL)
		return sqlite3_bind_text(stmt, at, v->text, -1, SQLITE_STATIC);
	if (v->blob != NULL)
		return sqlite3_bind_blob64(
		    stmt, at, v->blob, v->n, SQLITE_STATIC);
	return sqlite3_bind_int64(stmt, at, v->number);
}

int history_sql_bind(struct history *h, sqlite3_stmt *stmt,
    const struct history_value *v, size_t n, struct err *e)
{
	for (size_t i = 0; i < n; i++) {
		int code = bind_one(stmt, (int)i + 1, &v[i]);

		if (code != SQLITE_OK)
			return history_sql_fail(h, code, e);
	}
	return 0;
}

int history_sql_step(
    struct history *h, sqlite3_stmt *stmt, bool *ret_row, struct err *e)
{
	int code = 0;

	h->ticks = 0;
	code = sqlite3_step(stmt);
	if (code != SQLITE_ROW && code != SQLITE_DONE)
		return history_sql_fail(h, code, e);
	*ret_row = code == SQLITE_ROW;
	return 0;
}

int history_sql_run(struct history *h, const char *sql,
    const struct history_value *v, size_t n, int64_t *ret, struct err *e)
{
	sqlite3_stmt *stmt = NULL;
	bool row = false;
	bool first = true;
	int rc = history_sql_prepare(h, sql, &stmt, e);

	if (rc == 0)
		rc = history_sql_bind(h, stmt, v, n, e);
	do {
		if (rc == 0)
			rc = history_sql_step(h, stmt, &row, e);
		if (rc == 0 && row && first && ret != NULL)
			*ret = sqlite3_column_int64(stmt, 0);
		first = false;
	} while (rc == 0 && row);
	(void)sqlite3_finalize(stmt);
	return rc;
}

int history_number(
    struct history *h, const char *sql, int64_t *ret, struct err *e)
{
	return history_sql_run(h, sql, NULL, 0, ret, e);
}

int history_begin(struct history *h, struct err *e)
{
	return history_sql_exec(h, "begin immediate", e);
}

int history_finish(struct history *h, int rc, struct err *e)
{
	struct err ignored = ERR_INIT;

	if (rc == 0)
		rc = history_sql_exec(h, "commit", e);
	/* Some failures have rolled back already. */
	if (rc < 0 && sqlite3_get_autocommit(h->db) == 0)
		(void)history_sql_exec(h, "rollback", &ignored);
	/* What the rollback met is no news. */
	if (rc < 0)
		(void)history_vfs_take_err(h->vfs, &ignored);
	return rc;
}
