/* SPDX-License-Identifier: MIT */
#include "index/catalog_sql.h"

#include <string.h>

#include "datastore/base/text.h"
#include "index/catalog.h"
#include "index/catalog_schema.h"

/* Of what SQLite says, which may quote the database. */
#define TEXT 256

/* Instructions between two looks, and as many as a row is worth: far more
 * than any of our statements needs. */
#define TICK 100000
#define ROW_INSTRUCTIONS 400U
#define TICKS_LEAST 100U

/* Ours are short, and so is a sound schema. */
#define SQL_MAX 8192

static void set_limits(sqlite3 *db)
{
	(void)sqlite3_limit(db, SQLITE_LIMIT_LENGTH, (int)CATALOG_VALUE_MAX);
	(void)sqlite3_limit(db, SQLITE_LIMIT_SQL_LENGTH, SQL_MAX);
	(void)sqlite3_limit(db, SQLITE_LIMIT_COLUMN, 100);
	(void)sqlite3_limit(db, SQLITE_LIMIT_EXPR_DEPTH, 32);
	(void)sqlite3_limit(db, SQLITE_LIMIT_COMPOUND_SELECT, 8);
	(void)sqlite3_limit(db, SQLITE_LIMIT_ATTACHED, CATALOG_VFS_FILES - 1);
	(void)sqlite3_limit(db, SQLITE_LIMIT_LIKE_PATTERN_LENGTH, 64);
	(void)sqlite3_limit(db, SQLITE_LIMIT_TRIGGER_DEPTH, 0);
	(void)sqlite3_limit(db, SQLITE_LIMIT_WORKER_THREADS, 0);
}

int catalog_sql_open(
    struct catalog_sql *q, const char *name, int flags, struct err *e)
{
	/* What is our own is built without a journal, which "defensive"
	 * does not allow. */
	bool foreign = (flags & SQLITE_OPEN_READONLY) != 0;
	const struct {
		int what;
		int value;
	} config[] = {
		{ SQLITE_DBCONFIG_DEFENSIVE, foreign },
		{ SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0 },
		{ SQLITE_DBCONFIG_ENABLE_TRIGGER, 0 },
		{ SQLITE_DBCONFIG_ENABLE_VIEW, 0 },
		{ SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 0 },
	};
	int code = sqlite3_open_v2(name, &q->db,
	    flags | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE,
	    catalog_vfs_name(q->vfs));

	if (code != SQLITE_OK)
		return catalog_sql_fail(q, code, e);
	set_limits(q->db);
	for (size_t i = 0; i < sizeof(config) / sizeof(config[0]); i++) {
		code = sqlite3_db_config(
		    q->db, config[i].what, config[i].value, NULL);
		if (code != SQLITE_OK)
			return catalog_sql_fail(q, code, e);
	}
	return catalog_sql_exec(q, "pragma cell_size_check = on", e);
}

void catalog_sql_close(struct catalog_sql *q)
{
	/* Every statement was finalised, so it can not be busy. */
	(void)sqlite3_close(q->db);
	q->db = NULL;
}

static int tick(void *ctx)
{
	struct catalog_sql *q = ctx;

	return ++q->ticks > q->ticks_max;
}

void catalog_sql_bound(struct catalog_sql *q, uint64_t bytes)
{
	q->ticks_max =
	    bytes / CATALOG_ROW_MIN * ROW_INSTRUCTIONS / TICK + TICKS_LEAST;
	sqlite3_progress_handler(q->db, TICK, tick, q);
}

int catalog_sql_fail(struct catalog_sql *q, int code, struct err *e)
{
	char text[TEXT];
	int rc = catalog_vfs_take_err(q->vfs, e);

	if (rc < 0)
		return rc;
	if (code == SQLITE_IOERR_NOMEM || (code & 0xff) == SQLITE_NOMEM)
		return err_nomem(e);
	if ((code & 0xff) == SQLITE_INTERRUPT && q->ticks_max > 0)
		return err_set(e, ERR_CORRUPT,
		    "'%s': damaged database: its pages have no end", q->shown);
	if ((code & 0xff) == SQLITE_INTERRUPT)
		return err_set(e, ERR_CANCELLED, "cancelled");
	/* Of the code alone, where there is no connection or it says that it
	 * has no memory. */
	(void)text_name(text, sizeof(text),
	    q->db != NULL && sqlite3_errcode(q->db) != SQLITE_OK
		? sqlite3_errmsg(q->db)
		: sqlite3_errstr(code));
	if ((code & 0xff) == SQLITE_TOOBIG) {
		return err_set(e, ERR_LIMIT,
		    "'%s': a value of more than %u bytes", q->shown,
		    CATALOG_VALUE_MAX);
	}
	return err_set(
	    e, ERR_CORRUPT, "'%s': damaged database: %s", q->shown, text);
}

int catalog_sql_exec(struct catalog_sql *q, const char *sql, struct err *e)
{
	int code = sqlite3_exec(q->db, sql, NULL, NULL, NULL);

	return code == SQLITE_OK ? 0 : catalog_sql_fail(q, code, e);
}

int catalog_sql_prepare(
    struct catalog_sql *q, const char *sql, sqlite3_stmt **ret, struct err *e)
{
	int code = sqlite3_prepare_v3(
	    q->db, sql, -1, SQLITE_PREPARE_PERSISTENT, ret, NULL);

	return code == SQLITE_OK ? 0 : catalog_sql_fail(q, code, e);
}

int catalog_sql_step(
    struct catalog_sql *q, sqlite3_stmt *stmt, bool *ret_row, struct err *e)
{
	int code = 0;

	q->ticks = 0;
	code = sqlite3_step(stmt);
	if (code != SQLITE_ROW && code != SQLITE_DONE)
		return catalog_sql_fail(q, code, e);
	if (ret_row != NULL)
		*ret_row = code == SQLITE_ROW;
	return 0;
}

void catalog_sql_reset(sqlite3_stmt *stmt)
{
	(void)sqlite3_reset(stmt);
}

int catalog_sql_bind_int(
    struct catalog_sql *q, sqlite3_stmt *stmt, int at, int64_t v, struct err *e)
{
	int code = sqlite3_bind_int64(stmt, at, v);

	return code == SQLITE_OK ? 0 : catalog_sql_fail(q, code, e);
}

int catalog_sql_bind_blob(struct catalog_sql *q, sqlite3_stmt *stmt, int at,
    const void *p, size_t n, struct err *e)
{
	/* NULL would be bound as null. */
	int code =
	    sqlite3_bind_blob64(stmt, at, p != NULL ? p : "", n, SQLITE_STATIC);

	return code == SQLITE_OK ? 0 : catalog_sql_fail(q, code, e);
}

int catalog_sql_bind_copy(struct catalog_sql *q, sqlite3_stmt *stmt, int at,
    const void *p, size_t n, struct err *e)
{
	int code = sqlite3_bind_blob64(
	    stmt, at, p != NULL ? p : "", n, SQLITE_TRANSIENT);

	return code == SQLITE_OK ? 0 : catalog_sql_fail(q, code, e);
}

int catalog_sql_bind_text(struct catalog_sql *q, sqlite3_stmt *stmt, int at,
    const char *s, struct err *e)
{
	int code = sqlite3_bind_text(stmt, at, s, -1, SQLITE_STATIC);

	return code == SQLITE_OK ? 0 : catalog_sql_fail(q, code, e);
}
