/* SPDX-License-Identifier: MIT */
/*
 * catalog_row: struct catalog_entry from and to a statement's columns.
 */
#ifndef CAIRN_INDEX_CATALOG_ROW_H
#define CAIRN_INDEX_CATALOG_ROW_H

#include <sqlite3.h>
#include <stddef.h>
#include <stdint.h>

#include "datastore/base/buf.h"
#include "datastore/base/err.h"
#include "index/catalog.h"
#include "index/catalog_sql.h"

/* CATALOG_COLUMNS, by number. */
enum catalog_column_nr {
	COL_PARENT,
	COL_NAME,
	COL_ID,
	COL_KIND,
	COL_MODE,
	COL_UID,
	COL_GID,
	COL_MTIME_S,
	COL_MTIME_NS,
	COL_CTIME_S,
	COL_CTIME_NS,
	COL_INO,
	COL_NLINK,
	COL_MOUNT,
	COL_RDEV,
	COL_FLAGS,
	COL_SIZE,
	COL_POS,
	COL_SHA256,
	COL_HOLES,
	COL_TARGET,
	COL_LINK,
	COL_ATTR,
	COL_STATE,
	COLS,
};

/* Room for what catalog_entry_check says. */
#define CATALOG_WRONG_SIZE 160

/* All rules of rows that do not need the database.  False: `wrong` says which
 * one is broken. */
bool catalog_entry_check(
    const struct catalog_entry *entry, char wrong[CATALOG_WRONG_SIZE]);

/*
 * The row that the statement is on; its first columns are CATALOG_COLUMNS.
 * Bytes are good until it moves.  ERR_CORRUPT names the row in `shown`.
 */
int catalog_row_decode(struct catalog_sql *q, sqlite3_stmt *stmt,
    const char *shown, struct catalog_entry *ret, struct err *e);

/* Parameters 1 to COLS; the entry's bytes must outlive the step. */
int catalog_row_bind(struct catalog_sql *q, sqlite3_stmt *stmt,
    const struct catalog_entry *entry, struct err *e);

/*
 * Append the columns of the row as the lineage is made of them: for each a
 * byte and a value.  0: null; 1: i64; 2: text, 3: blob, both with a u32 of
 * their length before them.  Little-endian.
 */
int catalog_row_append(
    struct catalog_sql *q, sqlite3_stmt *stmt, struct buf *out, struct err *e);

#endif
