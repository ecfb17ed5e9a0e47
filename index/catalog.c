/* SPDX-License-Identifier: MIT */
/*
 * catalog: opening, and single rows.
 */
#include "index/catalog.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "datastore/base/text.h"
#include "index/catalog_internal.h"

#define SQL_SIZE 2048
#define SHOWN 128

static const char *shown_of(const struct catalog *c, bool changes)
{
	return changes ? c->changes.shown : c->base.shown;
}

static void part_release(struct catalog_part *p)
{
	archive_reader_free(p->reader);
	archive_close(p->archive);
}

/* All but the parts. */
static void close_database(struct catalog *c)
{
	for (size_t i = 0; i < CATALOG_QUERIES; i++)
		(void)sqlite3_finalize(c->queries[i]);
	for (size_t i = 0; i < c->idle_n; i++)
		(void)sqlite3_finalize(c->idle[i]);
	catalog_salvage_free(c->salvage);
	catalog_sql_close(&c->q);
	catalog_vfs_free(c->vfs);
	buf_release(&c->path);
}

void catalog_close(struct catalog *c)
{
	if (c == NULL)
		return;
	close_database(c);
	part_release(&c->base);
	part_release(&c->changes);
	free(c);
}

const char *catalog_shown(const struct catalog *c)
{
	return c->shown;
}

/* No row takes fewer bytes of a database than its columns' types do. */
#define ROW_MIN 24U

uint64_t catalog_rows_max(const struct catalog *c)
{
	return (c->base.source.size + c->changes.source.size) / ROW_MIN;
}

uint64_t catalog_pages_read(const struct catalog *c)
{
	return catalog_vfs_reads(c->vfs);
}

/* SQLite is to see nothing that is not a catalog's. */
static int check_header(const struct catalog_part *p, struct err *e)
{
	uint8_t header[CATALOG_HEADER_SIZE];
	int rc = 0;

	if (p->source.size < CATALOG_PAGE_SIZE) {
		return err_set(e, ERR_CORRUPT,
		    "'%s': %" PRIu64 " bytes, want at least %u", p->shown,
		    p->source.size, CATALOG_PAGE_SIZE);
	}
	rc = p->source.pread(p->source.ctx, header, sizeof(header), 0, e);
	return rc < 0
	    ? rc
	    : catalog_header_check(header, p->source.size, p->shown, e);
}

/* Attach, then see that all is as it should be. */
static int open_database(struct catalog *c, struct err *e)
{
	int rc = catalog_sql_open(&c->q, "base", SQLITE_OPEN_READONLY, e);

	if (rc == 0 && c->has_changes)
		rc = catalog_sql_exec(
		    &c->q, "attach 'changes' as " CATALOG_CHANGES, e);
	if (rc == 0)
		rc = catalog_sql_exec(&c->q, "pragma temp_store = memory", e);
	/* The schemas are read here, so errors are the file's. */
	if (rc == 0) {
		catalog_sql_bound(
		    &c->q, c->base.source.size + c->changes.source.size);
		c->q.shown = c->base.shown;
		rc = catalog_schema_check(
		    &c->q, CATALOG_BASE, &c->base.earlier, e);
	}
	if (rc == 0 && c->has_changes) {
		c->q.shown = c->changes.shown;
		rc = catalog_schema_check(
		    &c->q, CATALOG_CHANGES, &c->changes.earlier, e);
	}
	c->q.shown = c->shown;
	if (rc == 0)
		rc = catalog_sql_exec(&c->q, "pragma main.cache_size = 400", e);
	if (rc == 0 && c->has_changes)
		rc = catalog_sql_exec(
		    &c->q, "pragma changes.cache_size = 400", e);
	return rc;
}

/* Changes say which catalog they are of. */
static int check_pair(struct catalog *c, const char *want, struct err *e)
{
	struct buf is = BUF_INIT;
	char text[SHOWN];
	const char *s = NULL;
	bool found = false;
	int rc = catalog_meta(c, "catalog", &is, &found, e);

	if (rc == 0) {
		s = buf_cstr(&is, e);
		rc = s == NULL ? e->code : 0;
	}
	if (rc == 0 && (!found || strcmp(s, want) != 0)) {
		rc = err_set(e, ERR_CORRUPT,
		    "'%s': changes of catalog '%s', but '%s' is %s",
		    c->changes.shown, text_name(text, sizeof(text), s),
		    c->base.shown, want);
	}
	buf_release(&is);
	return rc;
}

int catalog_open_parts(const struct catalog_part *base,
    const struct catalog_part *changes, const char *want, struct catalog **ret,
    struct err *e)
{
	struct catalog *c = NULL;
	int rc = check_header(base, e);

	if (rc == 0 && changes != NULL)
		rc = check_header(changes, e);
	if (rc < 0)
		return rc;
	c = calloc(1, sizeof(*c));
	if (c == NULL)
		return err_nomem(e);
	c->base = *base;
	if (changes != NULL)
		c->changes = *changes;
	c->has_changes = changes != NULL;
	(void)snprintf(c->shown, sizeof(c->shown), "%s%s%s", base->shown,
	    changes != NULL ? "' or '" : "",
	    changes != NULL ? changes->shown : "");
	c->q.shown = c->shown;
	rc = catalog_vfs_new(false, &c->vfs, e);
	if (rc == 0) {
		c->q.vfs = c->vfs;
		catalog_vfs_add_source(c->vfs, "base", &c->base.source);
		if (c->has_changes)
			catalog_vfs_add_source(
			    c->vfs, "changes", &c->changes.source);
		rc = open_database(c, e);
	}
	if (rc == 0 && c->has_changes)
		rc = check_pair(c, want, e);
	if (rc < 0) {
		close_database(c);
		free(c);
		return rc;
	}
	*ret = c;
	return 0;
}

int catalog_prepare_entries(struct catalog *c, const char *where,
    const char *order, sqlite3_stmt **ret, struct err *e)
{
	char sql[SQL_SIZE];
	int n = 0;

	/* Both halves come in the order of their keys, so that the union is a
	 * merge: nothing is sorted. */
	if (c->has_changes) {
		n = snprintf(sql, sizeof(sql),
		    "select " CATALOG_COLUMNS ", 0 from " CATALOG_BASE
		    ".entry e where not exists (select 1 from " CATALOG_CHANGES
		    ".superseded s where s.parent = e.parent and "
		    "s.name = e.name) and %s union all "
		    "select " CATALOG_COLUMNS ", 1 from " CATALOG_CHANGES
		    ".entry where %s %s",
		    where, where, order);
	} else {
		n = snprintf(sql, sizeof(sql),
		    "select " CATALOG_COLUMNS ", 0 from " CATALOG_BASE
		    ".entry where %s %s",
		    where, order);
	}
	assert(n > 0 && (size_t)n < sizeof(sql));
	return catalog_sql_prepare(&c->q, sql, ret, e);
}

/* The table of what replaces or adds: changes', then the catalog's. */
static int prepare_query(struct catalog *c, enum catalog_query which,
    sqlite3_stmt **ret, struct err *e)
{
	static const struct {
		const char *columns;
		const char *table;
		const char *rest;
		bool adds;
	} sql[CATALOG_QUERIES] = {
		[CATALOG_Q_EXTENT] = { "pos, length, start", "run",
		    "where pos <= ?1 order by pos desc limit 1", false },
		[CATALOG_Q_ATTR] = { "data", "attr", "where id = ?1", true },
		[CATALOG_Q_ACCOUNT] = { "name", "account",
		    "where kind = ?1 and id = ?2", true },
		[CATALOG_Q_MOUNT] = { "path, fstype", "mount", "where id = ?1",
		    false },
		[CATALOG_Q_META] = { "value", "meta", "where key = ?1", false },
	};
	const char *first = c->has_changes ? CATALOG_CHANGES : CATALOG_BASE;
	char text[SQL_SIZE];
	int n = 0;

	if (which == CATALOG_Q_LOOKUP)
		return catalog_prepare_entries(
		    c, "parent = ?1 and name = ?2", "", ret, e);
	n = snprintf(text, sizeof(text), "select %s from %s.%s %s",
	    sql[which].columns, first, sql[which].table, sql[which].rest);
	if (c->has_changes && sql[which].adds) {
		n = snprintf(text, sizeof(text),
		    "select %s from " CATALOG_CHANGES ".%s %s union all "
		    "select %s from " CATALOG_BASE ".%s %s",
		    sql[which].columns, sql[which].table, sql[which].rest,
		    sql[which].columns, sql[which].table, sql[which].rest);
	}
	assert(n > 0 && (size_t)n < sizeof(text));
	return catalog_sql_prepare(&c->q, text, ret, e);
}

int catalog_query(struct catalog *c, enum catalog_query which,
    sqlite3_stmt **ret, struct err *e)
{
	int rc = 0;

	if (c->queries[which] == NULL)
		rc = prepare_query(c, which, &c->queries[which], e);
	if (rc < 0)
		return rc;
	catalog_sql_reset(c->queries[which]);
	*ret = c->queries[which];
	return 0;
}

int catalog_take_children(struct catalog *c, sqlite3_stmt **ret, struct err *e)
{
	if (c->idle_n > 0) {
		*ret = c->idle[--c->idle_n];
		return 0;
	}
	return catalog_prepare_entries(
	    c, "parent = ?1 and name > ?2", "order by parent, name", ret, e);
}

void catalog_give_children(struct catalog *c, sqlite3_stmt *stmt)
{
	if (stmt == NULL || c->idle_n == CATALOG_IDLE) {
		(void)sqlite3_finalize(stmt);
		return;
	}
	/* What was bound belongs to others. */
	catalog_sql_reset(stmt);
	(void)sqlite3_clear_bindings(stmt);
	c->idle[c->idle_n++] = stmt;
}

int catalog_decode(struct catalog *c, sqlite3_stmt *stmt,
    struct catalog_entry *ret, struct err *e)
{
	bool changes = sqlite3_column_int(stmt, COLS) != 0;

	return catalog_row_decode(&c->q, stmt, shown_of(c, changes), ret, e);
}

int catalog_disorder(const struct catalog *c, struct err *e)
{
	return err_set(
	    e, ERR_CORRUPT, "'%s': rows that are not in order", c->shown);
}

int catalog_crowd(const struct catalog *c, struct err *e)
{
	return err_set(e, ERR_CORRUPT,
	    "'%s': more entries than it has room for", c->shown);
}

static bool is_key(
    const struct catalog_entry *x, int64_t parent, struct catalog_bytes name)
{
	return x->parent == parent && x->name.n == name.n &&
	    (name.n == 0 || memcmp(x->name.p, name.p, name.n) == 0);
}

/*
 * A row of an inner page can be there although SQLite looks for it in one that
 * can not be read.  *e says why it does not have it; else that remains.
 */
static int salvage_one(struct catalog *c, int64_t parent,
    struct catalog_bytes name, struct catalog_entry *ret, struct err *e)
{
	enum catalog_salvaged what = SALVAGED_GAP;
	struct catalog_salvage *s = NULL;
	struct catalog_entry x = { .id = 0 };
	struct err ignored = ERR_INIT;
	int code = e->code;
	int rc = catalog_salvage_take(c, &s, &ignored);

	if (rc == 0)
		rc = catalog_salvage_seek(s, parent, name, false, &ignored);
	while (rc == 0 && what == SALVAGED_GAP) {
		struct err why;

		rc = catalog_salvage_next(s, &x, &what, &why, &ignored);
	}
	catalog_salvage_give(c, s);
	if (rc < 0 || what != SALVAGED_ROW || !is_key(&x, parent, name))
		return code;
	*ret = x;
	return err_forget(e);
}

int catalog_lookup(struct catalog *c, int64_t parent, struct catalog_bytes name,
    struct catalog_entry *ret, bool *ret_found, struct err *e)
{
	sqlite3_stmt *stmt = NULL;
	struct catalog_entry x = { .id = 0 };
	bool found = false;
	int rc = catalog_query(c, CATALOG_Q_LOOKUP, &stmt, e);

	if (rc == 0)
		rc = catalog_sql_bind_int(&c->q, stmt, 1, parent, e);
	if (rc == 0)
		rc = catalog_sql_bind_blob(&c->q, stmt, 2, name.p, name.n, e);
	if (rc == 0) {
		rc = catalog_sql_step(&c->q, stmt, &found, e);
		if (rc < 0 && catalog_can_salvage(e)) {
			rc = salvage_one(c, parent, name, ret, e);
			if (rc == 0)
				*ret_found = true;
			return rc;
		}
	}
	if (rc == 0 && found)
		rc = catalog_decode(c, stmt, &x, e);
	if (rc == 0 && found && !is_key(&x, parent, name))
		rc = catalog_disorder(c, e);
	if (rc < 0)
		return rc;
	*ret_found = found;
	if (found)
		*ret = x;
	return 0;
}

int catalog_root(struct catalog *c, struct catalog_entry *ret, struct err *e)
{
	const struct catalog_bytes none = { .p = NULL, .n = 0 };
	bool found = false;
	int rc = catalog_lookup(c, 0, none, ret, &found, e);

	if (rc == 0 && !found) {
		rc = err_set(e, ERR_CORRUPT, "'%s': there is no root",
		    shown_of(c, c->has_changes));
	}
	return rc;
}
