/* SPDX-License-Identifier: MIT */
/*
 * catalog_internal: what the parts of reading share.
 */
#ifndef CAIRN_INDEX_CATALOG_INTERNAL_H
#define CAIRN_INDEX_CATALOG_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "index/archive.h"
#include "index/archive_reader.h"
#include "index/catalog.h"
#include "index/catalog_row.h"
#include "index/catalog_salvage.h"
#include "index/catalog_schema.h"
#include "index/catalog_sql.h"

/* What SQL calls the two databases. */
#define CATALOG_BASE "main"
#define CATALOG_CHANGES "changes"

/* Statements that are made when first needed, and kept. */
enum catalog_query {
	CATALOG_Q_LOOKUP,
	CATALOG_Q_EXTENT,
	CATALOG_Q_ATTR,
	CATALOG_Q_ACCOUNT,
	CATALOG_Q_MOUNT,
	CATALOG_Q_META,
	CATALOG_QUERIES
};

/* A file of the snapshot: an archive, read here and there. */
struct catalog_part {
	struct archive *archive; /* NULL: of a test */
	struct archive_reader *reader;
	struct catalog_source source;
	char shown[BACKUP_PATH_SIZE];
	bool earlier; /* has this table */
};

/* Statements of catalog_children that nobody uses at the moment. */
#define CATALOG_IDLE 4

struct catalog {
	struct catalog_sql q;
	struct catalog_vfs *vfs;
	struct catalog_part base;
	struct catalog_part changes;
	bool has_changes;
	/* For messages that can not tell which of the two it is. */
	char shown[2 * BACKUP_PATH_SIZE + 8];
	sqlite3_stmt *queries[CATALOG_QUERIES];
	sqlite3_stmt *idle[CATALOG_IDLE];
	size_t idle_n;
	struct buf path;                 /* of catalog_resolve */
	struct catalog_salvage *salvage; /* idle; NULL: none */
};

/*
 * From what `base` and, unless NULL, `changes` are; copied on success, with
 * what they own.  want: what changes must say that they belong to, in hex.
 */
int catalog_open_parts(const struct catalog_part *base,
    const struct catalog_part *changes, const char *want, struct catalog **ret,
    struct err *e);

/* A kept statement, ready for its parameters. */
int catalog_query(struct catalog *c, enum catalog_query which,
    sqlite3_stmt **ret, struct err *e);

/* The entry of a row whose last column, behind CATALOG_COLUMNS, says which
 * database it is of. */
int catalog_decode(struct catalog *c, sqlite3_stmt *stmt,
    struct catalog_entry *ret, struct err *e);

/* ERR_CORRUPT: a damaged tree of pages gives any row anywhere, or the same one
 * for ever. */
int catalog_disorder(const struct catalog *c, struct err *e);

/* ERR_CORRUPT: more rows than the file has bytes for. */
int catalog_crowd(const struct catalog *c, struct err *e);

/*
 * How many rows there are, as far as they can be read.  The sum is that of
 * their parents: who comes to the same number of rows in other directories has
 * another one.
 */
struct catalog_count {
	uint64_t rows;
	uint64_t sum; /* only if whole */
	bool whole;
};
int catalog_count(struct catalog *c, struct task *task,
    struct catalog_count *ret, struct err *e);
/* What so many rows of a directory add to it. */
uint64_t catalog_sum(int64_t parent, uint64_t rows);

/* `what` of the merged view of a table of entries, with conditions and order:
 * a statement. */
int catalog_prepare_entries(struct catalog *c, const char *where,
    const char *order, sqlite3_stmt **ret, struct err *e);

/* ?1: parent; ?2: names greater than this.  Give it back to be used again. */
int catalog_take_children(struct catalog *c, sqlite3_stmt **ret, struct err *e);
void catalog_give_children(struct catalog *c, sqlite3_stmt *stmt);

#endif
