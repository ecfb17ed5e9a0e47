/* SPDX-License-Identifier: MIT */
/*
 * catalog_schema: the tables of a catalog, for those who write and who check
 * them (etc/doc/format-catalog.md).
 */
#ifndef CAIRN_INDEX_CATALOG_SCHEMA_H
#define CAIRN_INDEX_CATALOG_SCHEMA_H

#include <stddef.h>
#include <stdint.h>

#include "datastore/base/err.h"
#include "index/catalog_sql.h"

#define CATALOG_APPLICATION_ID 0x43524e31U
#define CATALOG_VERSION 1U
#define CATALOG_PAGE_SIZE 4096U
#define CATALOG_HEADER_SIZE 100U
/* No row takes fewer bytes of a database than its columns' types do. */
#define CATALOG_ROW_MIN 24U

enum catalog_table {
	CATALOG_TABLE_ENTRY,
	CATALOG_TABLE_SUPERSEDED,
	CATALOG_TABLE_RUN,
	CATALOG_TABLE_ATTR,
	CATALOG_TABLE_ACCOUNT,
	CATALOG_TABLE_MOUNT,
	CATALOG_TABLE_META,
	CATALOG_TABLE_EARLIER, /* tar only */
	CATALOG_TABLES
};

const char *catalog_table_name(enum catalog_table t);

/* `entry`'s columns, in their order. */
#define CATALOG_COLUMNS                                              \
	"parent,name,id,kind,mode,uid,gid,mtime_s,mtime_ns,ctime_s," \
	"ctime_ns,ino,nlink,mount,rdev,flags,size,pos,sha256,holes," \
	"target,link,attr,state"

/* Create all tables in the database that SQL knows as `schema`. */
int catalog_schema_create(
    struct catalog_sql *q, const char *schema, bool earlier, struct err *e);

/*
 * Is what `schema` has exactly these tables, each as it must be?  White space
 * does not count.  `earlier` may be there.  ERR_CORRUPT says what is not.
 */
int catalog_schema_check(struct catalog_sql *q, const char *schema,
    bool *ret_earlier, struct err *e);

/* The first bytes of the file: is SQLite to see it at all?  ERR_UNSUPPORTED:
 * a newer version of this format. */
int catalog_header_check(const uint8_t header[CATALOG_HEADER_SIZE],
    uint64_t size, const char *shown, struct err *e);

#endif
