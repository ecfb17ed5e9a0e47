/* SPDX-License-Identifier: MIT */
#include "index/catalog_schema.h"

#include <assert.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "datastore/base/text.h"

#define SQL_SIZE 1024
#define TEXT 64

#define ENTRY                                                           \
	"parent integer not null, name blob not null, "                 \
	"id integer not null, kind text not null, mode integer, "       \
	"uid integer, gid integer, mtime_s integer, mtime_ns integer, " \
	"ctime_s integer, ctime_ns integer, ino integer, "              \
	"nlink integer, mount integer, rdev integer, flags integer, "   \
	"size integer, pos integer, sha256 blob, holes blob, "          \
	"target blob, link integer, attr integer, state integer, "

static const struct {
	const char *name;
	const char *what; /* behind the name */
} tables[CATALOG_TABLES] = {
	[CATALOG_TABLE_ENTRY] = { "entry",
	    "(" ENTRY "primary key(parent, name)) without rowid" },
	[CATALOG_TABLE_SUPERSEDED] = { "superseded",
	    "(parent integer not null, name blob not null, "
	    "primary key(parent, name)) without rowid" },
	[CATALOG_TABLE_RUN] = { "run",
	    "(pos integer primary key, length integer not null, "
	    "start integer not null)" },
	[CATALOG_TABLE_ATTR] = { "attr",
	    "(id integer primary key, data blob not null)" },
	[CATALOG_TABLE_ACCOUNT] = { "account",
	    "(kind text not null, id integer not null, name blob, "
	    "primary key(kind, id)) without rowid" },
	[CATALOG_TABLE_MOUNT] = { "mount",
	    "(id integer primary key, dev integer, path blob, fstype text)" },
	[CATALOG_TABLE_META] = { "meta",
	    "(key text primary key, value) without rowid" },
	[CATALOG_TABLE_EARLIER] = { "earlier",
	    "(" ENTRY "member integer not null, "
	    "primary key(parent, name, member)) without rowid" },
};

const char *catalog_table_name(enum catalog_table t)
{
	return tables[t].name;
}

int catalog_schema_create(
    struct catalog_sql *q, const char *schema, bool earlier, struct err *e)
{
	char sql[SQL_SIZE];
	int rc = 0;

	for (size_t i = 0; i < CATALOG_TABLES && rc == 0; i++) {
		int n = 0;

		if (i == CATALOG_TABLE_EARLIER && !earlier)
			continue;
		n = snprintf(sql, sizeof(sql), "create table %s.%s%s", schema,
		    tables[i].name, tables[i].what);
		assert(n > 0 && (size_t)n < sizeof(sql));
		rc = catalog_sql_exec(q, sql, e);
	}
	return rc;
}

static bool is_space(char c)
{
	return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static const char *skip_space(const char *s)
{
	while (is_space(*s))
		s++;
	return s;
}

/* Equal but for white space.  Where a blank that matters is missing, a column
 * is, too, and no statement of ours can be prepared. */
static bool same_sql(const char *a, const char *b)
{
	do {
		a = skip_space(a);
		b = skip_space(b);
		if (*a != *b++)
			return false;
	} while (*a++ != '\0');
	return true;
}

static int bad_table(const struct catalog_sql *q, const char *name,
    const char *what, struct err *e)
{
	char text[TEXT];

	return err_set(e, ERR_CORRUPT, "'%s': '%s' %s", q->shown,
	    text_name(text, sizeof(text), name != NULL ? name : ""), what);
}

static int check_object(
    struct catalog_sql *q, sqlite3_stmt *stmt, unsigned *seen, struct err *e)
{
	const char *type = (const char *)sqlite3_column_text(stmt, 0);
	const char *name = (const char *)sqlite3_column_text(stmt, 1);
	const char *sql = (const char *)sqlite3_column_text(stmt, 2);
	char want[SQL_SIZE];

	if (type == NULL || name == NULL || strcmp(type, "table") != 0)
		return bad_table(q, name, "is not a table", e);
	for (size_t i = 0; i < CATALOG_TABLES; i++) {
		if (strcmp(name, tables[i].name) != 0)
			continue;
		/* So SQLite begins it, whoever wrote it. */
		(void)snprintf(want, sizeof(want), "CREATE TABLE %s%s", name,
		    tables[i].what);
		if (sql == NULL || !same_sql(sql, want))
			return bad_table(
			    q, name, "has other columns than it must", e);
		*seen |= 1U << i;
		return 0;
	}
	return bad_table(q, name, "is no table of a catalog", e);
}

int catalog_schema_check(
    struct catalog_sql *q, const char *schema, bool *ret_earlier, struct err *e)
{
	sqlite3_stmt *stmt = NULL;
	char sql[SQL_SIZE];
	unsigned seen = 0;
	bool more = true;
	int rc = 0;

	(void)snprintf(sql, sizeof(sql),
	    "select type, name, sql from %s.sqlite_schema", schema);
	rc = catalog_sql_prepare(q, sql, &stmt, e);
	while (rc == 0) {
		rc = catalog_sql_step(q, stmt, &more, e);
		if (rc < 0 || !more)
			break;
		rc = check_object(q, stmt, &seen, e);
	}
	(void)sqlite3_finalize(stmt);
	for (size_t i = 0; i < CATALOG_TABLE_EARLIER && rc == 0; i++) {
		if ((seen & 1U << i) == 0)
			rc = bad_table(
			    q, tables[i].name, "is missing, a table", e);
	}
	if (rc == 0)
		*ret_earlier = (seen & 1U << CATALOG_TABLE_EARLIER) != 0;
	return rc;
}

/* SQLite's header, the one format that is big-endian. */
static uint32_t get_be(const uint8_t *p, unsigned n)
{
	uint32_t v = 0;

	for (unsigned i = 0; i < n; i++)
		v = v << 8 | p[i];
	return v;
}

int catalog_header_check(const uint8_t header[CATALOG_HEADER_SIZE],
    uint64_t size, const char *shown, struct err *e)
{
	/* SQLite's own rules, and what of its choices is never made: other
	 * pages, a log, reserved bytes, auto-vacuum, UTF-16. */
	static const struct {
		unsigned at;
		unsigned n;
		uint32_t want;
		const char *what;
	} fields[] = {
		{ 68, 4, CATALOG_APPLICATION_ID, "application id" },
		{ 16, 2, CATALOG_PAGE_SIZE, "page size" },
		{ 18, 2, 0x0101, "journal mode" },
		{ 20, 4, 0x00402020, "payload fractions" },
		{ 44, 4, 4, "schema format" },
		{ 52, 4, 0, "auto-vacuum" },
		{ 56, 4, 1, "text encoding" },
	};
	uint32_t version = get_be(header + 60, 4);
	uint32_t pages = get_be(header + 28, 4);

	if (memcmp(header, "SQLite format 3", 16) != 0) {
		return err_set(
		    e, ERR_CORRUPT, "'%s' is no SQLite database", shown);
	}
	for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
		uint32_t found = get_be(header + fields[i].at, fields[i].n);

		if (found != fields[i].want) {
			return err_set(e, ERR_CORRUPT,
			    "'%s': %s %#" PRIx32 ", want %#" PRIx32, shown,
			    fields[i].what, found, fields[i].want);
		}
	}
	if (version != CATALOG_VERSION) {
		return err_set(e,
		    version > CATALOG_VERSION ? ERR_UNSUPPORTED : ERR_CORRUPT,
		    "'%s': version %" PRIu32 ", want %u", shown, version,
		    CATALOG_VERSION);
	}
	if ((uint64_t)pages * CATALOG_PAGE_SIZE != size) {
		return err_set(e, ERR_CORRUPT,
		    "'%s': %" PRIu32 " pages of %u bytes, but %" PRIu64
		    " bytes",
		    shown, pages, CATALOG_PAGE_SIZE, size);
	}
	return 0;
}
