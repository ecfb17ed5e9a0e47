/* SPDX-License-Identifier: MIT */
#include "index/catalog_build.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "datastore/base/clock.h"
#include "datastore/base/digest.h"
#include "datastore/base/file.h"
#include "index/catalog.h"
#include "index/catalog_row.h"
#include "index/catalog_schema.h"
#include "index/catalog_tmp.h"

/* Instructions of SQLite's between two looks at the task: a few ms. */
#define PULSE_OPS 100000
#define BEAT_NS ((int64_t)20 * 1000000000)

#define HASH_AT_ONCE ((size_t)64 << 10)

/* In SQLite's header: the version of who wrote it, which says nothing about
 * the content but would make the same rows another first chunk. */
#define HEADER_WRITER 96
#define HEADER_WRITER_VALUE         \
	{                           \
		0, 0x2e, 0x63, 0x01 \
	} /* 3040001 */

void catalog_build_init(struct catalog_build *b, const char *shown)
{
	memset(b, 0, sizeof(*b));
	b->shown = shown;
	b->q.shown = shown;
	b->fd = -1;
	b->spool_fd = -1;
}

static void disconnect(struct catalog_build *b)
{
	catalog_sql_close(&b->q);
	catalog_vfs_free(b->q.vfs);
	b->q.vfs = NULL;
	file_close(&b->spool_fd);
}

void catalog_build_release(struct catalog_build *b)
{
	disconnect(b);
	file_close(&b->fd);
}

/* Not zero: SQLite ends the statement with SQLITE_INTERRUPT. */
static int pulse(void *ctx)
{
	struct catalog_build *b = ctx;
	int64_t now = 0;
	int rc = 0;

	if (b->task != NULL)
		rc = task_check(b->task, &b->why);
	if (rc < 0 || b->session == NULL)
		return rc;
	now = clock_boot_ns();
	if (now - b->last_ns < BEAT_NS)
		return 0;
	b->last_ns = now;
	return session_beat(b->session, &b->why);
}

int catalog_build_exec(struct catalog_build *b, const char *sql, struct err *e)
{
	int rc = catalog_sql_exec(&b->q, sql, e);

	if (rc == ERR_CANCELLED && b->why.code < 0) {
		*e = b->why;
		rc = b->why.code;
	}
	return rc;
}

/*
 * The caches are what the 24 MiB go to.  Freed bytes are zeros, whatever
 * SQLite was built to do: the same rows give the same bytes.
 */
static int set_up_new(struct catalog_build *b, struct err *e)
{
	char sql[512];

	(void)snprintf(sql, sizeof(sql),
	    "pragma main.page_size = %u; pragma main.auto_vacuum = none;"
	    "pragma main.journal_mode = off; pragma main.synchronous = off;"
	    "pragma main.secure_delete = on; pragma main.cache_size = 512;"
	    "pragma main.application_id = %u; pragma main.user_version = %u;"
	    "pragma temp_store = file",
	    CATALOG_PAGE_SIZE, CATALOG_APPLICATION_ID, CATALOG_VERSION);
	return catalog_sql_exec(&b->q, sql, e);
}

static int set_up_spool(struct catalog_build *b, struct err *e)
{
	return catalog_sql_exec(&b->q,
	    "attach 'spool' as spool; pragma spool.auto_vacuum = none;"
	    "pragma spool.journal_mode = off; pragma spool.synchronous = off;"
	    "pragma spool.secure_delete = off; pragma spool.cache_size = 2560",
	    e);
}

/* Of the files of the set, the new one. */
static int connect_new(struct catalog_build *b, struct err *e)
{
	int rc = 0;

	catalog_vfs_add_fd(b->q.vfs, "new", b->fd, b->shown);
	rc = catalog_sql_open(
	    &b->q, "new", SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, e);
	return rc < 0 ? rc : set_up_new(b, e);
}

static int begin(struct catalog_build *b, bool earlier, struct err *e)
{
	int rc = catalog_sql_exec(&b->q, "begin", e);

	if (rc == 0)
		rc = catalog_schema_create(&b->q, "main", earlier, e);
	if (rc == 0)
		sqlite3_progress_handler(b->q.db, PULSE_OPS, pulse, b);
	return rc;
}

int catalog_build_begin(struct catalog_build *b, bool earlier, struct err *e)
{
	int rc = 0;

	if (b->fd < 0)
		rc = catalog_tmp_open(&b->fd, e);
	if (rc == 0)
		rc = catalog_tmp_open(&b->spool_fd, e);
	if (rc == 0)
		rc = catalog_vfs_new(true, &b->q.vfs, e);
	if (rc < 0)
		return rc;
	catalog_vfs_add_fd(b->q.vfs, "spool", b->spool_fd, b->shown);
	rc = connect_new(b, e);
	if (rc == 0)
		rc = set_up_spool(b, e);
	if (rc == 0)
		rc = begin(b, earlier, e);
	return rc < 0 ? rc : catalog_schema_create(&b->q, "spool", earlier, e);
}

int catalog_build_begin_merge(struct catalog_build *b,
    const struct catalog_source *base, const struct catalog_source *changes,
    struct err *e)
{
	int rc = catalog_vfs_new(true, &b->q.vfs, e);

	if (rc < 0)
		return rc;
	catalog_vfs_add_source(b->q.vfs, "base", base);
	catalog_vfs_add_source(b->q.vfs, "changes", changes);
	rc = connect_new(b, e);
	if (rc == 0)
		rc = catalog_sql_exec(&b->q,
		    "attach 'base' as base; attach 'changes' as changes", e);
	return rc < 0 ? rc : begin(b, false, e);
}

/* Of several members of a key the last one is the entry. */
#define EARLIER_LATER                                  \
	"exists (select 1 from spool.earlier l where " \
	"l.parent = e.parent and l.name = e.name and l.member > e.member)"

int catalog_build_copy(struct catalog_build *b, bool earlier, struct err *e)
{
	/* Whole tables of the same columns are copied record by record. */
	static const char *const tables[] = {
		"insert into main.run select * from spool.run",
		"insert into main.account select * from spool.account",
		"insert into main.mount select * from spool.mount",
	};
	int rc = 0;

	if (earlier)
		rc = catalog_build_exec(b,
		    "insert into main.entry select " CATALOG_COLUMNS
		    " from spool.earlier e where not " EARLIER_LATER
		    " order by parent, name",
		    e);
	else
		rc = catalog_build_exec(
		    b, "insert into main.entry select * from spool.entry", e);
	if (rc == 0 && earlier)
		rc = catalog_build_exec(b,
		    "insert into main.earlier select * from spool.earlier e "
		    "where member >= 0 and " EARLIER_LATER
		    " order by parent, name, member",
		    e);
	for (size_t i = 0; rc == 0 && i < sizeof(tables) / sizeof(*tables); i++)
		rc = catalog_build_exec(b, tables[i], e);
	return rc;
}

int catalog_build_merge(struct catalog_build *b, struct err *e)
{
	static const char *const sql[] = {
		"insert into main.entry select " CATALOG_COLUMNS
		" from base.entry e where not exists (select 1 from "
		"changes.superseded s where s.parent = e.parent and "
		"s.name = e.name) union all select " CATALOG_COLUMNS
		" from changes.entry order by parent, name",
		"insert into main.run select * from changes.run",
		"insert into main.mount select * from changes.mount",
		"insert into main.attr select id, data from base.attr "
		"where id not in (select id from changes.attr) union all "
		"select id, data from changes.attr order by id",
		"insert into main.account select * from changes.account",
		"insert into main.account select * from base.account b "
		"where not exists (select 1 from changes.account c where "
		"c.kind = b.kind and c.id = b.id)",
		("insert into main.meta select * from changes.meta "
		 "where key <> 'catalog'"),
	};
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < sizeof(sql) / sizeof(sql[0]); i++)
		rc = catalog_build_exec(b, sql[i], e);
	return rc;
}

static int hash_rows(struct catalog_build *b, sqlite3_stmt *stmt,
    struct digest_ctx *ctx, struct err *e)
{
	struct buf buf = BUF_INIT;
	bool more = true;
	int rc = 0;

	while (rc == 0 && more) {
		rc = catalog_sql_step(&b->q, stmt, &more, e);
		if (rc == 0 && more)
			rc = catalog_row_append(&b->q, stmt, &buf, e);
		if (rc < 0 || (more && buf.len < HASH_AT_ONCE))
			continue;
		rc = digest_ctx_update(ctx, buf.data, buf.len, e);
		buf_reset(&buf);
	}
	if (rc == ERR_CANCELLED && b->why.code < 0) {
		*e = b->why;
		rc = b->why.code;
	}
	buf_release(&buf);
	return rc;
}

static int make_lineage(
    struct catalog_build *b, char out[DIGEST_HEX_SIZE], struct err *e)
{
	struct digest_ctx *ctx = NULL;
	sqlite3_stmt *stmt = NULL;
	struct digest d;
	int rc = digest_ctx_new(&ctx, e);

	if (rc == 0)
		rc = catalog_sql_prepare(&b->q,
		    "select " CATALOG_COLUMNS
		    " from main.entry order by parent, name",
		    &stmt, e);
	if (rc == 0)
		rc = hash_rows(b, stmt, ctx, e);
	if (rc == 0)
		rc = digest_ctx_final(ctx, &d, e);
	if (rc == 0)
		digest_hex(&d, out);
	(void)sqlite3_finalize(stmt);
	digest_ctx_free(ctx);
	return rc;
}

int catalog_build_meta(
    struct catalog_build *b, int64_t next_id, uint64_t next_pos, struct err *e)
{
	char lineage[DIGEST_HEX_SIZE];
	char sql[512];
	int rc = make_lineage(b, lineage, e);

	if (rc < 0)
		return rc;
	(void)snprintf(sql, sizeof(sql),
	    "insert into main.meta values "
	    "('changes-bytes', 0), ('lineage', '%s'), "
	    "('next-id', %" PRId64 "), ('next-pos', %" PRId64 ")",
	    lineage, next_id, (int64_t)next_pos);
	return catalog_build_exec(b, sql, e);
}

int catalog_build_end(struct catalog_build *b, struct err *e)
{
	static const uint8_t writer[4] = HEADER_WRITER_VALUE;
	int rc = catalog_build_exec(b, "commit", e);

	disconnect(b);
	if (rc == 0)
		rc = file_pwrite_fully(
		    b->fd, writer, sizeof(writer), HEADER_WRITER, b->shown, e);
	return rc;
}
