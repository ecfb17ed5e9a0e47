/* SPDX-License-Identifier: MIT */
/*
 * A catalog and its changes, made by hand: what readers see is both merged,
 * and so is the plain database that they become.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "datastore/manifest.h"
#include "index/catalog_schema.h"
#include "tests/support/catalogfix.h"

#define CATALOG "root.tree.catalog.fidx"
#define CHANGES "root.tree.changes.fidx"

/*
 * The base:                        what the changes make of it:
 *   /            1                   /             1  (another mode)
 *   /a/          2                   /moved/       2  (was /a: same id)
 *   /a/in        5                   /moved/in     5  (its row stays)
 *   /a/out       6                   (gone)
 *   /b           3  attr 1           /b            3  attr 2, user 7
 *   /gone/       4                   (gone, and what is in it)
 *   /gone/x      7
 *                                    /0new         8
 *                                    /moved/sub/   9
 *                                    /moved/sub/y 10
 *   /same       11                   /same        11
 */
static void push_base(struct catalogfix *x)
{
	struct err *e = &x->f->e;
	struct catalog_entry b = catalogfix_row(1, "b", 3, CATALOG_FIFO);
	int64_t attr = 0;

	catalogfix_begin(x, "root.tree");
	catalogfix_add(x, 0, "", 1, CATALOG_DIR);
	catalogfix_add(x, 1, "a", 2, CATALOG_DIR);
	catalogfix_add(x, 2, "in", 5, CATALOG_FILE);
	catalogfix_add(x, 2, "out", 6, CATALOG_FILE);
	assert_ok(catalog_attr_append(&x->buf, "user.a", "1", 1, e), e);
	assert_ok(
	    catalog_writer_attr(x->w, x->buf.data, x->buf.len, &attr, e), e);
	b.has |= CATALOG_HAS_ATTR;
	b.attr = attr;
	assert_ok(catalog_writer_add(x->w, &b, e), e);
	catalogfix_add(x, 1, "gone", 4, CATALOG_DIR);
	catalogfix_add(x, 4, "x", 7, CATALOG_FILE);
	catalogfix_add(x, 1, "same", 11, CATALOG_FILE);
	assert_ok(catalog_writer_account(x->w, CATALOG_USER, 5, "joe", e), e);
	assert_ok(catalog_writer_account(x->w, CATALOG_USER, 6, "old", e), e);
	assert_ok(
	    catalog_writer_mount(x->w, 1, catalogfix_bytes(""), "xfs", e), e);
	assert_ok(catalog_writer_run(x->w, 0, 36, 0, e), e);
	catalogfix_finish(x, 12);
	catalogfix_open(x, "root.tree");
}

static const char changed[] =
    "insert into entry(parent, name, id, kind, mode, attr, size, pos) values"
    "(0, x'', 1, 'dir', 493, null, null, null),"
    "(1, x'6d6f766564', 2, 'dir', null, null, null, null),"
    "(1, x'62', 3, 'fifo', null, 2, null, null),"
    "(1, x'306e6577', 8, 'file', null, null, 0, 36),"
    "(2, x'737562', 9, 'dir', null, null, null, null),"
    "(9, x'79', 10, 'file', null, null, 0, 36);"
    "insert into superseded values (0, x''), (1, x'61'), (2, x'6f7574'),"
    "(1, x'62'), (1, x'676f6e65'), (4, x'78');"
    "insert into run values (10, 26, 0), (40, 4, 26);"
    "insert into mount values (1, null, x'', 'ext4');"
    "insert into attr values (2, x'060001000000757365722e6132');"
    "insert into account values ('user', 6, x'6e6577'),"
    "('user', 7, x'626f62');";

/* The empty database of the format. */
static void make_changes(struct catalogfix *x, const char *sql)
{
	char text[256];
	struct tmpdir *dir = &x->f->dir;

	(void)unlinkat(dir->fd, "changes", 0);
	(void)snprintf(text, sizeof(text),
	    "pragma page_size = 4096; pragma application_id = %u;"
	    "pragma user_version = 1",
	    CATALOG_APPLICATION_ID);
	catalogfix_sql(x, "changes", true, text);
	catalogfix_schema(x, "changes", false);
	catalogfix_sql(x, "changes", false, sql);
}

/* A snapshot of the same base and of these changes, of the base `of`. */
static void push_changes(struct catalogfix *x, const char *of, const char *sql)
{
	char meta[512];
	size_t n = 0;
	char *p = NULL;

	catalogfix_extract(x, "root.tree.catalog", "base");
	make_changes(x, sql);
	(void)snprintf(meta, sizeof(meta),
	    "insert into meta values ('catalog', '%s'), ('lineage', 'l'),"
	    "('next-id', 12), ('next-pos', 44), ('changes-bytes', 1)",
	    of);
	catalogfix_sql(x, "changes", false, meta);
	restorefix_begin(x->f);
	restorefix_add(x->f, "root.tree.didx", "abc", 3);
	p = tmpdir_get(x->f->dir.fd, "base", &n);
	restorefix_add(x->f, CATALOG, p, n);
	free(p);
	p = tmpdir_get(x->f->dir.fd, "changes", &n);
	restorefix_add(x->f, CHANGES, p, n);
	free(p);
	restorefix_commit(x->f);
}

/* The base's index has another checksum where its chunks are of another
 * size: what is written is what the fixture's chunks make of it. */
static void csum_of_base(struct catalogfix *x, char out[DIGEST_HEX_SIZE])
{
	size_t n = 0;
	char *p = NULL;

	catalogfix_extract(x, "root.tree.catalog", "base");
	p = tmpdir_get(x->f->dir.fd, "base", &n);
	restorefix_push(x->f, CATALOG, p, n);
	free(p);
	assert_ok(restorefix_open(x->f, CATALOG), &x->f->e);
	digest_hex(&manifest_find(&x->f->manifest, CATALOG)->csum, out);
}

static void make_pair(struct catalogfix *x)
{
	char csum[DIGEST_HEX_SIZE];

	push_base(x);
	csum_of_base(x, csum);
	push_changes(x, csum, changed);
	catalogfix_open(x, "root.tree");
}

static int note(void *ctx, struct catalog_bytes path,
    const struct catalog_entry *entry, struct err *e)
{
	struct catalogfix *x = ctx;

	return buf_append_fmt(&x->buf, e, "/%.*s=%" PRId64 " ", (int)path.n,
	    (const char *)path.p, entry->id);
}

static const char whole[] =
    "/=1 /0new=8 /b=3 /moved=2 /moved/in=5 /moved/sub=9 /moved/sub/y=10 "
    "/same=11 ";

static void walk_all(struct catalogfix *x)
{
	const struct catalog_bytes none = { .p = NULL, .n = 0 };
	const struct catalog_walk w = {
		.fn = note, .ctx = x, .task = &x->f->task
	};
	struct err *e = &x->f->e;
	struct catalog_entry root;

	buf_reset(&x->buf);
	assert_ok(catalog_root(x->c, &root, e), e);
	assert_ok(catalog_walk(x->c, &root, none, &w, e), e);
}

static void shows_both_merged(void **state)
{
	struct catalogfix *x = *state;
	struct err *e = &x->f->e;
	struct catalog_entry row;
	bool found = true;

	make_pair(x);
	walk_all(x);
	assert_string_equal(buf_cstr(&x->buf, e), whole);
	assert_ok(catalog_children(x->c, 1, &x->cur, e), e);
	assert_string_equal(catalogfix_names(x), "0new/b/moved/same/");
	assert_ok(catalog_children(x->c, 2, &x->cur, e), e);
	assert_string_equal(catalogfix_names(x), "in/sub/");
	assert_ok(catalog_children(x->c, 4, &x->cur, e), e);
	assert_string_equal(catalogfix_names(x), "");
	assert_ok(catalog_all(x->c, &x->cur, e), e);
	assert_string_equal(
	    catalogfix_names(x), "/0new/b/moved/same/in/sub/y/");
	assert_ok(catalog_root(x->c, &row, e), e);
	assert_int_equal(row.mode, 0755);
	assert_ok(
	    catalog_resolve(x->c, catalogfix_bytes("moved/in"), &row, e), e);
	assert_int_equal(row.id, 5);
	assert_ok(
	    catalog_lookup(x->c, 1, catalogfix_bytes("a"), &row, &found, e), e);
	assert_false(found);
	assert_err(catalog_resolve(x->c, catalogfix_bytes("gone/x"), &row, e),
	    e, ERR_NOTFOUND, "'gone' is not in it");
}

static void assert_user(struct catalogfix *x, uint32_t id, const char *want)
{
	struct err *e = &x->f->e;
	bool found = false;

	assert_ok(
	    catalog_account(x->c, CATALOG_USER, id, &x->buf, &found, e), e);
	assert_true(found);
	assert_string_equal(buf_cstr(&x->buf, e), want);
}

static void adds_and_replaces(void **state)
{
	struct catalogfix *x = *state;
	struct err *e = &x->f->e;
	struct catalog_extent ext;
	struct buf type = BUF_INIT;
	bool found = false;

	make_pair(x);
	assert_user(x, 5, "joe");
	assert_user(x, 6, "new");
	assert_user(x, 7, "bob");
	assert_ok(catalog_attr(x->c, 1, &x->buf, e), e);
	assert_int_equal(x->buf.data[x->buf.len - 1], '1');
	assert_ok(catalog_attr(x->c, 2, &x->buf, e), e);
	assert_int_equal(x->buf.data[x->buf.len - 1], '2');
	assert_ok(catalog_extent(x->c, 12, 100, &ext, e), e);
	assert_int_equal(ext.start, 2);
	assert_int_equal(ext.length, 24);
	assert_err(catalog_extent(x->c, 0, 1, &ext, e), e, ERR_CORRUPT,
	    "position 0 is in no run");
	assert_ok(catalog_mount(x->c, 1, &x->buf, &type, &found, e), e);
	assert_true(found);
	assert_string_equal(buf_cstr(&type, e), "ext4");
	buf_release(&type);
	assert_ok(catalog_meta(x->c, "lineage", &x->buf, &found, e), e);
	assert_string_equal(buf_cstr(&x->buf, e), "l");
}

/* What belongs to another catalog is not taken. */
static void refuses_another_base(void **state)
{
	struct catalogfix *x = *state;

	push_base(x);
	push_changes(x,
	    "0123456789abcdef0123456789abcdef"
	    "0123456789abcdef0123456789abcdef",
	    changed);
	assert_err(catalogfix_try_open(x, "root.tree"), &x->f->e, ERR_CORRUPT,
	    "changes.fidx': changes of catalog '0123456789abcdef");
	push_changes(x, "", "");
	assert_err(catalogfix_try_open(x, "root.tree"), &x->f->e, ERR_CORRUPT,
	    "changes of catalog ''");
}

/* A row that is in both and not superseded. */
static void finds_a_row_twice(void **state)
{
	struct catalogfix *x = *state;
	struct err *e = &x->f->e;
	struct catalog_entry row;
	char csum[DIGEST_HEX_SIZE];
	bool more = false;

	push_base(x);
	csum_of_base(x, csum);
	push_changes(x, csum,
	    "insert into entry(parent, name, id, kind) values "
	    "(1, x'62', 3, 'dir')");
	catalogfix_open(x, "root.tree");
	assert_ok(catalog_children(x->c, 1, &x->cur, e), e);
	assert_ok(catalog_cursor_next(x->cur, &row, &more, e), e);
	assert_ok(catalog_cursor_next(x->cur, &row, &more, e), e);
	assert_err(catalog_cursor_next(x->cur, &row, &more, e), e, ERR_CORRUPT,
	    "not in order");
}

static void export_to(struct catalogfix *x, const char *name)
{
	restorefix_target(x->f, name, O_RDWR | O_CREAT | O_TRUNC);
	assert_ok(
	    catalog_export(x->c, x->f->out, &x->f->task, &x->f->e), &x->f->e);
}

/* Exported, it is a base without changes that shows the same. */
static void exports_one_database(void **state)
{
	struct catalogfix *x = *state;
	struct err *e = &x->f->e;
	size_t n = 0;
	char *p = NULL;
	bool found = true;

	make_pair(x);
	export_to(x, "plain");
	p = tmpdir_get(x->f->dir.fd, "plain", &n);
	restorefix_begin(x->f);
	restorefix_add(x->f, "root.tree.didx", "abc", 3);
	restorefix_add(x->f, CATALOG, p, n);
	free(p);
	restorefix_commit(x->f);
	catalogfix_open(x, "root.tree");
	walk_all(x);
	assert_string_equal(buf_cstr(&x->buf, e), whole);
	assert_user(x, 5, "joe");
	assert_user(x, 6, "new");
	assert_ok(catalog_attr(x->c, 1, &x->buf, e), e);
	assert_ok(catalog_attr(x->c, 2, &x->buf, e), e);
	assert_ok(catalog_meta(x->c, "catalog", &x->buf, &found, e), e);
	assert_false(found);
	assert_ok(catalog_meta(x->c, "next-pos", &x->buf, &found, e), e);
	assert_string_equal(buf_cstr(&x->buf, e), "44");
	/* Without changes: the very bytes. */
	export_to(x, "again");
	p = tmpdir_get(x->f->dir.fd, "plain", &n);
	restorefix_assert_file(x->f, "again", p, n);
	free(p);
}

static void opens_as_an_archive(void **state)
{
	struct catalogfix *x = *state;
	struct restorefix *f = x->f;
	struct archive_result r;
	struct archive *a = NULL;
	size_t n = 0;
	char *p = NULL;

	make_pair(x);
	export_to(x, "plain");
	p = tmpdir_get(f->dir.fd, "plain", &n);
	assert_ok(catalog_open_merged(f->ds, &f->id, &f->hold, &f->manifest,
		      "root.tree.catalog", &f->task, &a, &f->e),
	    &f->e);
	assert_non_null(a);
	assert_int_equal(archive_size(a), n);
	restorefix_target(f, "sparse", O_RDWR | O_CREAT | O_TRUNC);
	assert_ok(archive_extract(a, f->out, ARCHIVE_SPARSE_FILE, "target",
		      &f->task, &r, &f->e),
	    &f->e);
	restorefix_assert_file(f, "sparse", p, n);
	assert_int_equal(r.bytes, n);
	assert_string_equal(f->phase, "restore root.tree.catalog");
	restorefix_target(f, "append", O_RDWR | O_CREAT | O_TRUNC);
	assert_ok(archive_extract(
		      a, f->out, ARCHIVE_APPEND, "target", &f->task, &r, &f->e),
	    &f->e);
	restorefix_assert_file(f, "append", p, n);
	archive_close(a);
	free(p);
	/* By its whole name it is what it is. */
	assert_ok(catalog_open_merged(f->ds, &f->id, &f->hold, &f->manifest,
		      CATALOG, &f->task, &a, &f->e),
	    &f->e);
	assert_null(a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CATALOGFIX_TEST(shows_both_merged),
		CATALOGFIX_TEST(adds_and_replaces),
		CATALOGFIX_TEST(refuses_another_base),
		CATALOGFIX_TEST(finds_a_row_twice),
		CATALOGFIX_TEST(exports_one_database),
		CATALOGFIX_TEST(opens_as_an_archive),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
