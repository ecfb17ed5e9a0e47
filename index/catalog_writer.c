/* SPDX-License-Identifier: MIT */
/*
 * catalog_writer: rows are collected in one temporary database and copied, in
 * the order of their keys, into another one, which becomes the catalog.
 */
#include "index/catalog_writer.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "datastore/base/text.h"
#include "index/catalog_build.h"
#include "index/catalog_row.h"
#include "index/catalog_tmp.h"

#define SHOWN 256

/* A row that is no member: any member of its key replaces it. */
#define NO_MEMBER (-1)

enum insert {
	INSERT_ENTRY,
	INSERT_MEMBER,
	INSERT_RUN,
	INSERT_ATTR,
	INSERT_ATTR_KEY,
	FIND_ATTR,
	INSERT_ACCOUNT,
	INSERT_MOUNT,
	INSERTS
};

struct catalog_writer {
	struct session *session;
	char filename[BACKUP_ID_MAX + 1];
	char shown[SHOWN];
	bool tar;
	bool incomplete;
	uint64_t end; /* of what is listed, then */
	struct catalog_build b;
	sqlite3_stmt *inserts[INSERTS];
	int64_t attrs; /* ids handed out */
	/* Most entries have the attributes of the one before. */
	struct digest last_attr;
	int64_t last_attr_id; /* 0: none */
};

#define PARAMETERS_24                                                     \
	"?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12,?13,?14,?15,?16,?17,?18," \
	"?19,?20,?21,?22,?23,?24"

static const char *const insert_sql[INSERTS] = {
	[INSERT_ENTRY] = "insert into spool.entry values (" PARAMETERS_24 ")",
	[INSERT_MEMBER] =
	    "insert into spool.earlier values (" PARAMETERS_24 ",?25)",
	[INSERT_RUN] = "insert into spool.run values (?1, ?2, ?3)",
	/* Straight to its place: the ids go up. */
	[INSERT_ATTR] = "insert into main.attr values (?1, ?2)",
	[INSERT_ATTR_KEY] = "insert into spool.attr_key values (?1, ?2)",
	[FIND_ATTR] = "select id from spool.attr_key where sha256 = ?1",
	[INSERT_ACCOUNT] =
	    "insert or ignore into spool.account values (?1, ?2, ?3)",
	[INSERT_MOUNT] = "insert into spool.mount values (?1, null, ?2, ?3)",
};

static bool ends_with(const char *s, const char *end)
{
	size_t n = strlen(s);
	size_t m = strlen(end);

	return n > m && strcmp(s + n - m, end) == 0;
}

static int set_names(
    struct catalog_writer *w, const char *archive, struct err *e)
{
	char text[SHOWN / 2];

	(void)text_name(text, sizeof(text), archive);
	w->tar = ends_with(archive, ".tar");
	if (!w->tar && !ends_with(archive, ".tree")) {
		return err_set(e, ERR_INVALID,
		    "'%s' has no catalog; want a '.tree' or '.tar'", text);
	}
	if ((size_t)snprintf(w->filename, sizeof(w->filename),
		"%s.catalog.fidx", archive) >= sizeof(w->filename))
		return err_set(e, ERR_LIMIT, "'%s': name too long", text);
	(void)snprintf(w->shown, sizeof(w->shown), "%s/(catalog of %s)",
	    catalog_tmp_dir(), text);
	return 0;
}

int catalog_writer_new(struct session *s, const char *archive,
    struct catalog_writer **ret, struct err *e)
{
	struct catalog_writer *w = calloc(1, sizeof(*w));
	int rc = 0;

	if (w == NULL)
		return err_nomem(e);
	w->session = s;
	catalog_build_init(&w->b, w->shown);
	rc = set_names(w, archive, e);
	if (rc == 0)
		rc = catalog_build_begin(&w->b, w->tar, e);
	if (rc == 0)
		rc = catalog_sql_exec(&w->b.q,
		    "create table spool.attr_key(sha256 blob primary key, "
		    "id integer) without rowid",
		    e);
	if (rc < 0) {
		catalog_writer_free(w);
		return rc;
	}
	*ret = w;
	return 0;
}

static void finalize(struct catalog_writer *w)
{
	for (size_t i = 0; i < INSERTS; i++) {
		(void)sqlite3_finalize(w->inserts[i]);
		w->inserts[i] = NULL;
	}
}

void catalog_writer_free(struct catalog_writer *w)
{
	if (w == NULL)
		return;
	finalize(w);
	catalog_build_release(&w->b);
	free(w);
}

static int prepared(struct catalog_writer *w, enum insert which,
    sqlite3_stmt **ret, struct err *e)
{
	int rc = 0;

	if (w->inserts[which] == NULL)
		rc = catalog_sql_prepare(
		    &w->b.q, insert_sql[which], &w->inserts[which], e);
	if (rc < 0)
		return rc;
	catalog_sql_reset(w->inserts[which]);
	*ret = w->inserts[which];
	return 0;
}

static int bad_entry(const struct catalog_writer *w,
    const struct catalog_entry *x, const char *what, struct err *e)
{
	struct buf text = BUF_INIT;
	const char *s = NULL;
	size_t n = x->name.n < SHOWN / 2 ? x->name.n : SHOWN / 2;
	int rc = text_append_name(&text, x->name.p, n, e);

	if (rc == 0) {
		s = buf_cstr(&text, e);
		rc = s == NULL ? e->code
			       : err_set(e, ERR_INVALID,
				     "'%s': '%s' of directory %" PRId64 ": %s",
				     w->filename, s, x->parent, what);
	}
	buf_release(&text);
	return rc;
}

static int add(struct catalog_writer *w, const struct catalog_entry *entry,
    bool tar, int64_t member, struct err *e)
{
	char wrong[CATALOG_WRONG_SIZE];
	sqlite3_stmt *stmt = NULL;
	int code = 0;
	int rc = 0;

	if (!catalog_entry_check(entry, wrong))
		return bad_entry(w, entry, wrong, e);
	rc = prepared(w, tar ? INSERT_MEMBER : INSERT_ENTRY, &stmt, e);
	if (rc == 0)
		rc = catalog_row_bind(&w->b.q, stmt, entry, e);
	if (rc == 0 && tar)
		rc = catalog_sql_bind_int(&w->b.q, stmt, COLS + 1, member, e);
	if (rc < 0)
		return rc;
	code = sqlite3_step(stmt);
	if (code == SQLITE_DONE)
		return 0;
	if ((code & 0xff) == SQLITE_CONSTRAINT)
		return bad_entry(w, entry, "is there already", e);
	return catalog_sql_fail(&w->b.q, code, e);
}

int catalog_writer_add(
    struct catalog_writer *w, const struct catalog_entry *entry, struct err *e)
{
	return add(w, entry, w->tar, NO_MEMBER, e);
}

int catalog_writer_add_member(struct catalog_writer *w,
    const struct catalog_entry *entry, uint64_t member, struct err *e)
{
	assert(w->tar);
	if (member > INT64_MAX)
		return bad_entry(w, entry, "it is beyond all offsets", e);
	return add(w, entry, true, (int64_t)member, e);
}

static int find_attr(struct catalog_writer *w, const struct digest *d,
    int64_t *ret_id, struct err *e)
{
	sqlite3_stmt *stmt = NULL;
	bool found = false;
	int rc = prepared(w, FIND_ATTR, &stmt, e);

	if (rc == 0)
		rc = catalog_sql_bind_blob(
		    &w->b.q, stmt, 1, d->b, sizeof(d->b), e);
	if (rc == 0)
		rc = catalog_sql_step(&w->b.q, stmt, &found, e);
	if (rc == 0)
		*ret_id = found ? sqlite3_column_int64(stmt, 0) : 0;
	catalog_sql_reset(stmt);
	return rc;
}

static int insert_attr(struct catalog_writer *w, const struct digest *d,
    const void *data, size_t n, int64_t id, struct err *e)
{
	sqlite3_stmt *stmt = NULL;
	int rc = prepared(w, INSERT_ATTR, &stmt, e);

	if (rc == 0)
		rc = catalog_sql_bind_int(&w->b.q, stmt, 1, id, e);
	if (rc == 0)
		rc = catalog_sql_bind_blob(&w->b.q, stmt, 2, data, n, e);
	if (rc == 0)
		rc = catalog_sql_step(&w->b.q, stmt, NULL, e);
	if (rc == 0)
		rc = prepared(w, INSERT_ATTR_KEY, &stmt, e);
	if (rc == 0)
		rc = catalog_sql_bind_blob(
		    &w->b.q, stmt, 1, d->b, sizeof(d->b), e);
	if (rc == 0)
		rc = catalog_sql_bind_int(&w->b.q, stmt, 2, id, e);
	return rc < 0 ? rc : catalog_sql_step(&w->b.q, stmt, NULL, e);
}

int catalog_writer_attr(struct catalog_writer *w, const void *data, size_t n,
    int64_t *ret_id, struct err *e)
{
	struct digest d;
	int64_t id = 0;
	int rc = digest_of(data, n, &d, e);

	if (rc == 0 && w->last_attr_id > 0 && digest_equal(&d, &w->last_attr)) {
		*ret_id = w->last_attr_id;
		return 0;
	}
	if (rc == 0)
		rc = find_attr(w, &d, &id, e);
	if (rc == 0 && id == 0) {
		id = w->attrs + 1;
		rc = insert_attr(w, &d, data, n, id, e);
		if (rc == 0)
			w->attrs = id;
	}
	if (rc < 0)
		return rc;
	w->last_attr = d;
	w->last_attr_id = id;
	*ret_id = id;
	return 0;
}

int catalog_writer_account(struct catalog_writer *w, enum catalog_account kind,
    uint32_t id, const char *name, struct err *e)
{
	const char *word = kind == CATALOG_USER ? "user" : "group";
	sqlite3_stmt *stmt = NULL;
	int rc = prepared(w, INSERT_ACCOUNT, &stmt, e);

	if (rc == 0)
		rc = catalog_sql_bind_text(&w->b.q, stmt, 1, word, e);
	if (rc == 0)
		rc = catalog_sql_bind_int(&w->b.q, stmt, 2, id, e);
	if (rc == 0 && name != NULL)
		rc = catalog_sql_bind_blob(
		    &w->b.q, stmt, 3, name, strlen(name), e);
	else if (rc == 0)
		(void)sqlite3_bind_null(stmt, 3);
	return rc < 0 ? rc : catalog_sql_step(&w->b.q, stmt, NULL, e);
}

int catalog_writer_mount(struct catalog_writer *w, int64_t id,
    struct catalog_bytes path, const char *fstype, struct err *e)
{
	sqlite3_stmt *stmt = NULL;
	int rc = prepared(w, INSERT_MOUNT, &stmt, e);

	if (rc == 0)
		rc = catalog_sql_bind_int(&w->b.q, stmt, 1, id, e);
	if (rc == 0)
		rc = catalog_sql_bind_blob(&w->b.q, stmt, 2, path.p, path.n, e);
	if (rc == 0)
		rc = catalog_sql_bind_text(&w->b.q, stmt, 3, fstype, e);
	return rc < 0 ? rc : catalog_sql_step(&w->b.q, stmt, NULL, e);
}

int catalog_writer_run(struct catalog_writer *w, uint64_t pos, uint64_t length,
    uint64_t start, struct err *e)
{
	const uint64_t values[] = { pos, length, start };
	sqlite3_stmt *stmt = NULL;
	int rc = 0;

	if (length == 0 || length > INT64_MAX || pos > INT64_MAX - length ||
	    start > INT64_MAX - length) {
		return err_set(e, ERR_INVALID,
		    "'%s': run of %" PRIu64 " bytes from %" PRIu64
		    " at %" PRIu64 ", which is out of all ranges",
		    w->filename, length, pos, start);
	}
	rc = prepared(w, INSERT_RUN, &stmt, e);
	for (int i = 0; rc == 0 && i < 3; i++)
		rc = catalog_sql_bind_int(
		    &w->b.q, stmt, i + 1, (int64_t)values[i], e);
	return rc < 0 ? rc : catalog_sql_step(&w->b.q, stmt, NULL, e);
}

/* What every reader asks for, and what must fit a column. */
static int check_whole(
    struct catalog_writer *w, uint64_t next_pos, struct err *e)
{
	sqlite3_stmt *stmt = NULL;
	bool found = false;
	int rc = catalog_sql_prepare(&w->b.q,
	    "select 1 from main.entry where parent = 0 and name = x''", &stmt,
	    e);

	if (rc == 0)
		rc = catalog_sql_step(&w->b.q, stmt, &found, e);
	(void)sqlite3_finalize(stmt);
	if (rc == 0 && !found)
		rc = err_set(
		    e, ERR_INVALID, "'%s': there is no root", w->filename);
	if (rc == 0 && next_pos > INT64_MAX)
		rc = err_set(e, ERR_INVALID,
		    "'%s': position %" PRIu64 " is beyond all positions",
		    w->filename, next_pos);
	return rc;
}

void catalog_writer_incomplete(struct catalog_writer *w, uint64_t offset)
{
	w->incomplete = true;
	w->end = offset;
}

static int write_incomplete(struct catalog_writer *w, struct err *e)
{
	char sql[128];

	(void)snprintf(sql, sizeof(sql),
	    "insert into main.meta values ('incomplete', %" PRIu64 ")",
	    w->end < INT64_MAX ? w->end : (uint64_t)INT64_MAX);
	return catalog_build_exec(&w->b, sql, e);
}

int catalog_writer_finish(struct catalog_writer *w, int64_t next_id,
    uint64_t next_pos, const struct ingest_opts *opts, struct task *task,
    struct ingest_result *ret, struct err *e)
{
	struct ingest_source src = { .shown = w->shown };
	struct ingest_opts how = { .chunk_size = 0 };
	int rc = 0;

	finalize(w);
	w->b.session = w->session;
	w->b.task = task;
	rc = task_check(task, e);
	if (rc == 0)
		rc = catalog_build_copy(&w->b, w->tar, e);
	if (rc == 0)
		rc = check_whole(w, next_pos, e);
	if (rc == 0)
		rc = catalog_build_meta(&w->b, next_id, next_pos, e);
	if (rc == 0 && w->incomplete)
		rc = write_incomplete(w, e);
	if (rc == 0)
		rc = catalog_build_end(&w->b, e);
	if (rc < 0)
		return rc;
	if (opts != NULL)
		how = *opts;
	how.chunk_size = CATALOG_CHUNK_SIZE;
	src.fd = w->b.fd;
	return ingest_image(w->session, w->filename, &src, &how, task, ret, e);
}
