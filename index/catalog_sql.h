/* SPDX-License-Identifier: MIT */
/*
 * catalog_sql: SQLite's calls with cairn's errors; the one place that
 * translates.
 */
#ifndef CAIRN_INDEX_CATALOG_SQL_H
#define CAIRN_INDEX_CATALOG_SQL_H

#include <sqlite3.h>
#include <stdbool.h>
#include <stdint.h>

#include "datastore/base/err.h"
#include "index/catalog_vfs.h"

struct catalog_sql {
	sqlite3 *db;
	struct catalog_vfs *vfs;
	const char *shown; /* in messages, quoted there; borrowed */
	/* catalog_sql_bound: of the step that runs, and at most. */
	uint64_t ticks;
	uint64_t ticks_max;
};

/* Connect to `name` of the set, and see to what holds for every connection:
 * nothing in a schema is trusted, no value is longer than CATALOG_VALUE_MAX.
 * flags: SQLITE_OPEN_READONLY or READWRITE. */
int catalog_sql_open(
    struct catalog_sql *q, const char *name, int flags, struct err *e);
void catalog_sql_close(struct catalog_sql *q);

/*
 * No step may take longer than reading so many bytes of rows can: pages of a
 * damaged tree may lead to each other for ever, without a row that is shown.
 * Such a step is ERR_CORRUPT.  q must stay where it is.
 */
void catalog_sql_bound(struct catalog_sql *q, uint64_t bytes);

/*
 * *e from what SQLite has just returned.  What the files of the set said, if
 * they failed; ERR_NOMEM, ERR_CANCELLED (interrupted), ERR_LIMIT (too long);
 * all else is a damaged database.
 */
int catalog_sql_fail(struct catalog_sql *q, int code, struct err *e);

int catalog_sql_exec(struct catalog_sql *q, const char *sql, struct err *e);
int catalog_sql_prepare(
    struct catalog_sql *q, const char *sql, sqlite3_stmt **ret, struct err *e);
/* *ret_row may be NULL where no row comes. */
int catalog_sql_step(
    struct catalog_sql *q, sqlite3_stmt *stmt, bool *ret_row, struct err *e);
/* Ready for other values; what a failed step left is passed over. */
void catalog_sql_reset(sqlite3_stmt *stmt); /* NULL is allowed */

/* sqlite3_bind_*, with an err; bytes must outlive the step. */
int catalog_sql_bind_int(struct catalog_sql *q, sqlite3_stmt *stmt, int at,
    int64_t v, struct err *e);
int catalog_sql_bind_blob(struct catalog_sql *q, sqlite3_stmt *stmt, int at,
    const void *p, size_t n, struct err *e);
/* The same, of bytes that may go before. */
int catalog_sql_bind_copy(struct catalog_sql *q, sqlite3_stmt *stmt, int at,
    const void *p, size_t n, struct err *e);
int catalog_sql_bind_text(struct catalog_sql *q, sqlite3_stmt *stmt, int at,
    const char *s, struct err *e);

#endif
