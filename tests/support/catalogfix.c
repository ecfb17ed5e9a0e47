/* SPDX-License-Identifier: MIT */
#include "tests/support/catalogfix.h"

#include <fcntl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "index/catalog_schema.h"
#include "tests/support/catalogmem.h"

int catalogfix_setup(void **state)
{
	struct catalogfix *x = calloc(1, sizeof(*x));
	void *f = NULL;

	if (x == NULL)
		return -1;
	*state = x;
	if (restorefix_setup(&f) < 0)
		return -1;
	x->f = f;
	return 0;
}

int catalogfix_teardown(void **state)
{
	struct catalogfix *x = *state;
	void *f = x->f;

	catalog_cursor_free(x->cur);
	catalog_close(x->c);
	catalog_writer_free(x->w);
	free(x->kept);
	free(x->bytes);
	buf_release(&x->buf);
	free(x);
	return restorefix_teardown(&f);
}

struct catalog_bytes catalogfix_bytes(const char *s)
{
	return (
	    struct catalog_bytes){ .p = (const uint8_t *)s, .n = strlen(s) };
}

struct catalog_entry catalogfix_row(
    int64_t parent, const char *name, int64_t id, enum catalog_kind kind)
{
	struct catalog_entry e = { .parent = parent,
		.id = id,
		.name = catalogfix_bytes(name),
		.kind = kind };

	if (kind == CATALOG_FILE) {
		e.has = CATALOG_HAS_SIZE | CATALOG_HAS_POS;
	} else if (kind == CATALOG_SYMLINK) {
		e.has = CATALOG_HAS_TARGET;
		e.target = catalogfix_bytes("target");
	}
	return e;
}

void catalogfix_add(struct catalogfix *x, int64_t parent, const char *name,
    int64_t id, enum catalog_kind kind)
{
	struct catalog_entry e = catalogfix_row(parent, name, id, kind);

	assert_ok(catalog_writer_add(x->w, &e, &x->f->e), &x->f->e);
}

void catalogfix_begin(struct catalogfix *x, const char *archive)
{
	static const char bytes[] = "0123456789abcdefghijklmnopqrstuvwxyz";
	char name[BACKUP_ID_MAX + 1];

	restorefix_begin(x->f);
	(void)snprintf(name, sizeof(name), "%s.didx", archive);
	restorefix_add(x->f, name, bytes, sizeof(bytes) - 1);
	assert_ok(catalog_writer_new(x->f->session, archive, &x->w, &x->f->e),
	    &x->f->e);
}

void catalogfix_finish(struct catalogfix *x, int64_t next_id)
{
	assert_ok(catalog_writer_finish(x->w, next_id, 36, NULL, &x->f->task,
		      &x->stored, &x->f->e),
	    &x->f->e);
	catalog_writer_free(x->w);
	x->w = NULL;
}

int catalogfix_try_open(struct catalogfix *x, const char *archive)
{
	char name[BACKUP_ID_MAX + 1];

	catalog_close(x->c);
	x->c = NULL;
	(void)snprintf(name, sizeof(name), "%s.didx", archive);
	assert_ok(restorefix_open(x->f, name), &x->f->e);
	x->f->e = (struct err)ERR_INIT;
	return catalog_open(x->f->ds, &x->f->id, &x->f->hold, &x->f->manifest,
	    archive, &x->c, &x->f->e);
}

void catalogfix_open(struct catalogfix *x, const char *archive)
{
	if (x->f->session != NULL)
		restorefix_commit(x->f);
	assert_ok(catalogfix_try_open(x, archive), &x->f->e);
}

void catalogfix_extract(
    struct catalogfix *x, const char *archive, const char *name)
{
	struct archive_result r;
	struct archive *a = NULL;

	assert_ok(archive_open(x->f->ds, &x->f->id, &x->f->hold,
		      &x->f->manifest, archive, &a, &x->f->e),
	    &x->f->e);
	restorefix_target(x->f, name, O_RDWR | O_CREAT | O_TRUNC);
	assert_ok(archive_extract(a, x->f->out, ARCHIVE_SPARSE_FILE, "target",
		      &x->f->task, &r, &x->f->e),
	    &x->f->e);
	archive_close(a);
}

void catalogfix_sql(
    struct catalogfix *x, const char *name, bool create, const char *sql)
{
	char path[PATH_MAX];
	char *why = NULL;
	sqlite3 *db = NULL;
	int flags = SQLITE_OPEN_READWRITE | (create ? SQLITE_OPEN_CREATE : 0);

	(void)snprintf(path, sizeof(path), "%s/%s", x->f->dir.path, name);
	assert_int_equal(sqlite3_open_v2(path, &db, flags, NULL), SQLITE_OK);
	if (sqlite3_exec(db, sql, NULL, NULL, &why) != SQLITE_OK) {
		print_error("%s\n%s\n", why, sql);
		fail();
	}
	assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

int catalogfix_open_file(struct catalogfix *x, const char *name)
{
	struct catalog_part base;

	catalog_close(x->c);
	x->c = NULL;
	free(x->bytes);
	x->bytes = tmpdir_get(x->f->dir.fd, name, &x->bytes_n);
	assert_non_null(x->bytes);
	x->f->e = (struct err)ERR_INIT;
	base = catalogmem_part(x->bytes, x->bytes_n, name);
	return catalog_open_parts(&base, NULL, "", &x->c, &x->f->e);
}

void catalogfix_schema(struct catalogfix *x, const char *name, bool earlier)
{
	struct catalog_sql q = { .shown = name };
	char path[PATH_MAX];

	(void)snprintf(path, sizeof(path), "%s/%s", x->f->dir.path, name);
	assert_int_equal(sqlite3_open(path, &q.db), SQLITE_OK);
	assert_ok(catalog_vfs_new(false, &q.vfs, &x->f->e), &x->f->e);
	assert_ok(
	    catalog_schema_create(&q, "main", earlier, &x->f->e), &x->f->e);
	catalog_sql_close(&q);
	catalog_vfs_free(q.vfs);
}

const char *catalogfix_names(struct catalogfix *x)
{
	struct err *e = &x->f->e;
	struct catalog_entry row;
	bool more = true;

	buf_reset(&x->buf);
	for (;;) {
		assert_ok(catalog_cursor_next(x->cur, &row, &more, e), e);
		if (!more)
			break;
		assert_ok(buf_append(&x->buf, row.name.p, row.name.n, e), e);
		assert_ok(buf_append(&x->buf, "/", 1, e), e);
	}
	catalog_cursor_free(x->cur);
	x->cur = NULL;
	return buf_cstr(&x->buf, e);
}
