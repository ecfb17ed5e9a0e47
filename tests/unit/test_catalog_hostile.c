/* SPDX-License-Identifier: MIT */
/*
 * Catalogs that somebody else made, or that were damaged: each is refused, by
 * the rule that it breaks, and nothing worse happens.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "index/catalog_schema.h"
#include "tests/support/catalogfix.h"

/* /, a/ 2, a/f 3, a/l 4, b/ 5, b/g 6 */
static void make_file(struct catalogfix *x)
{
	struct err *e = &x->f->e;
	int64_t id = 0;

	catalogfix_begin(x, "root.tree");
	assert_ok(catalog_attr_append(&x->buf, "user.a", "1", 1, e), e);
	assert_ok(
	    catalog_writer_attr(x->w, x->buf.data, x->buf.len, &id, e), e);
	catalogfix_add(x, 0, "", 1, CATALOG_DIR);
	catalogfix_add(x, 1, "a", 2, CATALOG_DIR);
	catalogfix_add(x, 2, "f", 3, CATALOG_FILE);
	catalogfix_add(x, 2, "l", 4, CATALOG_SYMLINK);
	catalogfix_add(x, 1, "b", 5, CATALOG_DIR);
	catalogfix_add(x, 5, "g", 6, CATALOG_FILE);
	assert_ok(catalog_writer_account(x->w, CATALOG_USER, 5, "joe", e), e);
	assert_ok(catalog_writer_run(x->w, 0, 36, 0, e), e);
	catalogfix_finish(x, 7);
	catalogfix_open(x, "root.tree");
	catalogfix_extract(x, "root.tree.catalog", "sound");
}

/* "spoilt" is "sound", and then this. */
static void spoil(struct catalogfix *x, const char *sql)
{
	size_t n = 0;
	char *p = tmpdir_get(x->f->dir.fd, "sound", &n);

	assert_non_null(p);
	tmpdir_put(x->f->dir.fd, "spoilt", p, n);
	free(p);
	if (sql[0] != '\0')
		catalogfix_sql(x, "spoilt", false, sql);
}

/* The same of its bytes; n more, or less, at the end. */
static void spoil_bytes(struct catalogfix *x, size_t at, const void *bytes,
    size_t bytes_n, ptrdiff_t longer)
{
	size_t n = 0;
	char *p = tmpdir_get(x->f->dir.fd, "sound", &n);
	size_t size = (size_t)((ptrdiff_t)n + longer);
	char *q = calloc(1, size + 1);

	assert_non_null(p);
	assert_non_null(q);
	memcpy(q, p, n < size ? n : size);
	memcpy(q + at, bytes, bytes_n);
	tmpdir_put(x->f->dir.fd, "spoilt", q, size);
	free(p);
	free(q);
}

static void refuses_other_files(void **state)
{
	static const struct {
		size_t at;
		const char *bytes;
		size_t n;
		ptrdiff_t longer;
		int code;
		const char *text;
	} cases[] = {
		{ 0, "SQLite format 4", 15, 0, ERR_CORRUPT, "no SQLite" },
		{ 0, "", 0, -4096, ERR_CORRUPT, "pages of 4096 bytes, but" },
		{ 0, "", 0, 4096, ERR_CORRUPT, "pages of 4096 bytes, but" },
		{ 0, "", 0, 1, ERR_CORRUPT, "pages of 4096 bytes, but" },
		{ 16, "\x20\0", 2, 0, ERR_CORRUPT,
		    "page size 0x2000, want 0x1000" },
		{ 18, "\2\2", 2, 0, ERR_CORRUPT, "journal mode 0x202" },
		{ 20, "\10", 1, 0, ERR_CORRUPT, "payload fractions" },
		{ 47, "\1", 1, 0, ERR_CORRUPT, "schema format 0x1" },
		{ 55, "\1", 1, 0, ERR_CORRUPT, "auto-vacuum 0x1" },
		{ 59, "\2", 1, 0, ERR_CORRUPT, "text encoding 0x2" },
		{ 63, "\2", 1, 0, ERR_UNSUPPORTED, "version 2, want 1" },
		{ 63, "\0", 1, 0, ERR_CORRUPT, "version 0, want 1" },
		{ 68, "CRN0", 4, 0, ERR_CORRUPT,
		    "application id 0x43524e30, want 0x43524e31" },
		{ 28, "\0\0\0\0", 4, 0, ERR_CORRUPT, "0 pages" },
	};
	struct catalogfix *x = *state;

	make_file(x);
	spoil(x, "");
	assert_ok(catalogfix_open_file(x, "spoilt"), &x->f->e);
	for (size_t i = 0; i < TEST_COUNT(cases); i++) {
		spoil_bytes(x, cases[i].at, cases[i].bytes, cases[i].n,
		    cases[i].longer);
		assert_err(catalogfix_open_file(x, "spoilt"), &x->f->e,
		    cases[i].code, cases[i].text);
		assert_non_null(strstr(x->f->e.msg, "'spoilt'"));
	}
	tmpdir_put(x->f->dir.fd, "spoilt", "SQLite format 3", 16);
	assert_err(catalogfix_open_file(x, "spoilt"), &x->f->e, ERR_CORRUPT,
	    "16 bytes, want at least 4096");
	tmpdir_put(x->f->dir.fd, "spoilt", "", 0);
	assert_err(catalogfix_open_file(x, "spoilt"), &x->f->e, ERR_CORRUPT,
	    "0 bytes");
}

static void refuses_other_schemas(void **state)
{
	static const struct {
		const char *sql;
		const char *text;
	} cases[] = {
		{ "create table more(x)", "'more' is no table of a catalog" },
		{ "create table \"a\nb\"(x)", "'a\\nb' is no table" },
		{ "create view v as select 1", "'v' is not a table" },
		{ "create trigger t after insert on entry begin "
		  "delete from entry; end",
		    "'t' is not a table" },
		{ "create index i on entry(id)", "'i' is not a table" },
		{ "drop table superseded", "'superseded' is missing" },
		{ "drop table meta; create view meta as select 1 key, 2 value",
		    "'meta' is not a table" },
		{ "alter table run add column more",
		    "'run' has other columns than it must" },
		{ "alter table attr rename column data to value",
		    "'attr' has other columns" },
		{ "drop table run; create table run(pos integer primary key, "
		  "length integer not null, start integer not null, "
		  "check(length > 0))",
		    "'run' has other columns" },
		{ "drop table run; create table run(pos integer primary key, "
		  "length integer not null, start as (pos) not null)",
		    "'run' has other columns" },
		{ "drop table run; create table run as select 1 pos, "
		  "2 length, 3 start",
		    "'run' has other columns" },
		{ "drop table run; create virtual table run using "
		  "fts4(pos, length, start)",
		    "'run' has other columns" },
		{ "analyze", "'sqlite_stat1' is no table of a catalog" },
	};
	struct catalogfix *x = *state;

	make_file(x);
	for (size_t i = 0; i < TEST_COUNT(cases); i++) {
		spoil(x, cases[i].sql);
		assert_err(catalogfix_open_file(x, "spoilt"), &x->f->e,
		    ERR_CORRUPT, cases[i].text);
		assert_non_null(strstr(x->f->e.msg, "'spoilt'"));
	}
}

/* White space is the writer's affair; `earlier` may be there. */
static void takes_equal_schemas(void **state)
{
	struct catalogfix *x = *state;
	bool found = true;

	make_file(x);
	spoil(x,
	    "drop table attr; create table attr(id  integer\nprimary key,"
	    "data blob\tnot null )");
	assert_ok(catalogfix_open_file(x, "spoilt"), &x->f->e);
	assert_ok(
	    catalog_meta(x->c, "next-id", &x->buf, &found, &x->f->e), &x->f->e);
	assert_true(found);
}

#define SET_F(what) "update entry set " what " where id = 3"
#define SET_L(what) "update entry set " what " where id = 4"

static const struct {
	const char *sql;
	const char *text;
} bad_rows[] = {
	{ SET_F("name = 'f'"), "name is not a blob" },
	{ SET_F("name = 7"), "name is not a blob" },
	{ SET_F("name = x''"), "name is empty" },
	{ SET_F("name = zeroblob(65536)"), "too long" },
	{ SET_F("name = x'2e'"), "'.' of directory 2: the name is '.'" },
	{ SET_F("name = x'2e2e'"), "row '..' of directory 2" },
	{ SET_F("name = x'612f62'"), "row 'a/b' of directory 2: the name has" },
	{ SET_F("name = x'6100'"), "row 'a\\x00' of directory 2" },
	{ SET_F("parent = 0"), "the root, and only it" },
	{ SET_F("parent = -2"), "parent is -2" },
	{ SET_F("parent = 3"), "its own parent" },
	{ SET_F("id = 1"), "the root, and only it" },
	{ SET_F("id = 0"), "id is 0" },
	{ SET_F("id = 1.5"), "id is not an integer" },
	{ SET_F("id = 'x'"), "id is not an integer" },
	{ SET_F("kind = 'door'"), "kind is none" },
	{ SET_F("kind = x'66696c65'"), "kind is none" },
	{ SET_F("kind = 'file' || char(0)"), "kind is none" },
	{ SET_F("kind = ''"), "kind is none" },
	{ SET_F("mode = 4096"), "mode is 4096, want 0 to 4095" },
	{ SET_F("mode = -1"), "mode is -1" },
	{ SET_F("mode = 'rwx'"), "mode is not an integer" },
	{ SET_F("uid = 4294967296"), "uid is 4294967296" },
	{ SET_F("gid = -1"), "gid is -1" },
	{ SET_F("mtime_s = 1"), "half a time" },
	{ SET_F("mtime_ns = 1"), "half a time" },
	{ SET_F("ctime_ns = 1"), "half a time" },
	{ SET_F("mtime_s = 1, mtime_ns = 1000000000"), "mtime_ns is 10000" },
	{ SET_F("nlink = -1"), "nlink is -1" },
	{ SET_F("mount = 0"), "mount is 0" },
	{ SET_F("flags = 4294967296"), "flags is" },
	{ SET_F("size = -1"), "size is -1" },
	{ SET_F("size = 1e300"), "size is not an integer" },
	{ SET_F("size = null"), "a file without a size" },
	{ SET_F("size = 1, pos = null"), "a file without content" },
	{ SET_F("size = 2, pos = 9223372036854775807"), "beyond all" },
	{ SET_F("sha256 = zeroblob(31)"), "sha256 has not 32 bytes" },
	{ SET_F("sha256 = 'x'"), "sha256 is not a blob" },
	{ SET_F("state = 8"), "state is 8" },
	{ SET_F("state = 4"), "unreadable, yet with content" },
	{ SET_F("target = x'61'"), "a target, but it is not a symlink" },
	{ SET_F("holes = x''"), "not one to" },
	{ SET_F("holes = zeroblob(15)"), "not one to" },
	{ SET_F("holes = zeroblob(16)"), "not in order" },
	{ SET_F("size = 9, holes = x'0000000000000000' || "
		"x'0a00000000000000'"),
	    "holes is not a blob" },
	{ SET_F("size = 9, holes = x'00000000000000000a00000000000000'"),
	    "beyond the size" },
	{ SET_F("size = 9, holes = x'00000000000000000200000000000000"
		"01000000000000000100000000000000'"),
	    "not in order" },
	{ SET_F("size = 9, holes = x'ffffffffffffffff0100000000000080'"),
	    "not in order" },
	{ SET_F("size = 9, holes = x'0100000000000000ffffffffffffffff'"),
	    "not in order" },
	{ SET_F("link = 0"), "link is 0" },
	{ SET_F("attr = 'x'"), "attr is not an integer" },
	{ SET_L("target = null"), "a symlink without a target" },
	{ SET_L("target = 'x'"), "target is not a blob" },
	{ SET_L("target = x'6100'"), "zero byte" },
	{ SET_L("target = zeroblob(1048577)"), "the target is too long" },
	{ SET_L("pos = 1"), "content, but it is not a file" },
	{ "update entry set kind = 'file', size = 0, pos = 0 where id = 1",
	    "the root has a name, or is no directory" },
	{ "update entry set name = x'61' where id = 1", "the root has a name" },
};

/* All rows; what is wrong with the first that is wrong. */
static int read_all(struct catalogfix *x)
{
	struct catalog_entry row;
	bool more = true;
	int rc = catalog_all(x->c, &x->cur, &x->f->e);

	while (rc == 0 && more)
		rc = catalog_cursor_next(x->cur, &row, &more, &x->f->e);
	catalog_cursor_free(x->cur);
	x->cur = NULL;
	return rc;
}

static void refuses_bad_rows(void **state)
{
	struct catalogfix *x = *state;

	make_file(x);
	for (size_t i = 0; i < TEST_COUNT(bad_rows); i++) {
		spoil(x, bad_rows[i].sql);
		assert_ok(catalogfix_open_file(x, "spoilt"), &x->f->e);
		assert_err(
		    read_all(x), &x->f->e, ERR_CORRUPT, bad_rows[i].text);
		assert_non_null(strstr(x->f->e.msg, "'spoilt'"));
	}
}

/* A value that SQLite must not even bring into memory. */
static void refuses_huge_values(void **state)
{
	struct catalogfix *x = *state;

	make_file(x);
	spoil(x, SET_F("holes = zeroblob(40000000)"));
	assert_ok(catalogfix_open_file(x, "spoilt"), &x->f->e);
	assert_err(read_all(x), &x->f->e, ERR_LIMIT,
	    "a value of more than 33554432 bytes");
	spoil(x, "replace into attr values (1, zeroblob(40000000))");
	assert_ok(catalogfix_open_file(x, "spoilt"), &x->f->e);
	assert_err(catalog_attr(x->c, 1, &x->buf, &x->f->e), &x->f->e,
	    ERR_LIMIT, "a value of more than");
}

static int count(void *ctx, struct catalog_bytes path,
    const struct catalog_entry *entry, struct err *e)
{
	uint64_t *n = ctx;

	(void)path;
	(void)entry;
	/* Where nothing else ends it, the test does. */
	return ++*n < 1000000 ? 0 : err_set(e, ERR_REFUSED, "endless");
}

static int walk(struct catalogfix *x, uint64_t *ret_n)
{
	const struct catalog_bytes none = { .p = NULL, .n = 0 };
	const struct catalog_walk w = {
		.fn = count, .ctx = ret_n, .task = &x->f->task
	};
	struct catalog_entry root;
	int rc = catalog_root(x->c, &root, &x->f->e);

	*ret_n = 0;
	return rc < 0 ? rc : catalog_walk(x->c, &root, none, &w, &x->f->e);
}

/* Two cells of the page of `entry` (its first, with all six rows) swapped. */
static void swap_cells(struct catalogfix *x, size_t i)
{
	size_t at = CATALOG_PAGE_SIZE + 8 + 2 * i;
	size_t n = 0;
	char *p = tmpdir_get(x->f->dir.fd, "sound", &n);
	char swapped[4];

	assert_non_null(p);
	assert_int_equal(p[CATALOG_PAGE_SIZE], 10);
	assert_int_equal(p[CATALOG_PAGE_SIZE + 4], 6);
	memcpy(swapped, p + at + 2, 2);
	memcpy(swapped + 2, p + at, 2);
	free(p);
	spoil_bytes(x, at, swapped, sizeof(swapped), 0);
}

static void refuses_disorder(void **state)
{
	struct catalogfix *x = *state;
	uint64_t n = 0;

	make_file(x);
	for (size_t i = 0; i < 5; i++) {
		swap_cells(x, i);
		assert_ok(catalogfix_open_file(x, "spoilt"), &x->f->e);
		assert_err(read_all(x), &x->f->e, ERR_CORRUPT,
		    "'spoilt': rows that are not in order");
	}
	/* a/f and a/l */
	swap_cells(x, 3);
	assert_ok(catalogfix_open_file(x, "spoilt"), &x->f->e);
	assert_err(walk(x, &n), &x->f->e, ERR_CORRUPT,
	    "'spoilt': rows that are not in order");
}

static void refuses_loops(void **state)
{
	struct catalogfix *x = *state;
	struct catalog_entry row;
	uint64_t n = 0;

	make_file(x);
	/* a/, a/b/ and a/b/a/, which is a/ again. */
	spoil(x,
	    "update entry set parent = 2 where id = 5;"
	    "insert into entry(parent, name, id, kind) "
	    "values (5, x'61', 2, 'dir')");
	assert_ok(catalogfix_open_file(x, "spoilt"), &x->f->e);
	assert_err(walk(x, &n), &x->f->e, ERR_CORRUPT,
	    "'spoilt': 'a/b/a' is one of the directories that it is in");
	/* By path it can be walked in circles, but only as long as typed. */
	assert_ok(catalog_resolve(
		      x->c, catalogfix_bytes("a/b/a/b/a/f"), &row, &x->f->e),
	    &x->f->e);
	assert_int_equal(row.id, 3);
	spoil(x, "delete from entry where id = 1");
	assert_ok(catalogfix_open_file(x, "spoilt"), &x->f->e);
	assert_err(walk(x, &n), &x->f->e, ERR_CORRUPT, "there is no root");
}

/* Two names for each directory, and two in each: 2^60 paths. */
static void refuses_endless_walks(void **state)
{
	struct catalogfix *x = *state;
	uint64_t n = 0;

	make_file(x);
	spoil(x,
	    "with recursive c(i) as (select 2 union all select i + 1 from c "
	    "where i < 62) insert into entry(parent, name, id, kind) "
	    "select i, x'70', i + 1, 'dir' from c union all "
	    "select i, x'71', i + 1, 'dir' from c");
	assert_ok(catalogfix_open_file(x, "spoilt"), &x->f->e);
	assert_err(walk(x, &n), &x->f->e, ERR_CORRUPT,
	    "more entries than it has room for");
	assert_true(n < 10000);
}

static void bounds_the_depth(void **state)
{
	struct catalogfix *x = *state;
	char sql[512];
	uint64_t n = 0;

	make_file(x);
	for (int more = 0; more < 2; more++) {
		(void)snprintf(sql, sizeof(sql),
		    "delete from entry where id > 1; with recursive c(i) as "
		    "(select 1 union all select i + 1 from c where i < %u) "
		    "insert into entry(parent, name, id, kind) "
		    "select i, x'70', i + 1, 'dir' from c",
		    CATALOG_DEPTH_MAX - 1 + (unsigned)more);
		spoil(x, sql);
		assert_ok(catalogfix_open_file(x, "spoilt"), &x->f->e);
		if (more == 0) {
			assert_ok(walk(x, &n), &x->f->e);
			assert_int_equal(n, CATALOG_DEPTH_MAX);
		} else {
			assert_err(walk(x, &n), &x->f->e, ERR_LIMIT,
			    "more than 65536 directories in one another");
		}
	}
}

static void refuses_what_rows_refer_to(void **state)
{
	static const struct {
		const char *sql;
		const char *text;
	} attrs[] = {
		{ "replace into attr values (1, 'x')", "attr 1 is not a blob" },
		{ "replace into attr values (1, x'01')",
		    "attr 1 is malformed" },
		{ "replace into attr values (1, x'0000000000006161')",
		    "attr 1 is malformed" },
		{ "replace into attr values (1, x'0100000000ff6161')",
		    "attr 1 is malformed" },
		{ "replace into attr values (1, x'01000000000061010000000000"
		  "61')",
		    "attr 1 is malformed" },
		{ "replace into attr values (1, x'01000000000000')",
		    "attr 1 is malformed" },
		{ "replace into attr values (1, x'ffff00000000' || "
		  "zeroblob(65535))",
		    "attr 1 is not a blob" },
	};
	static const char *const runs[] = {
		"update run set length = 'x'",
		"update run set length = -5",
		"update run set length = 1.5",
		"update run set start = -1",
		"update run set start = 9223372036854775807",
		"update run set pos = -9, length = 9223372036854775807",
		"update run set pos = 36",
		"delete from run",
	};
	struct catalogfix *x = *state;
	struct catalog_extent ext;

	make_file(x);
	for (size_t i = 0; i < TEST_COUNT(attrs); i++) {
		spoil(x, attrs[i].sql);
		assert_ok(catalogfix_open_file(x, "spoilt"), &x->f->e);
		assert_err(catalog_attr(x->c, 1, &x->buf, &x->f->e), &x->f->e,
		    ERR_CORRUPT, attrs[i].text);
	}
	for (size_t i = 0; i < TEST_COUNT(runs); i++) {
		spoil(x, runs[i]);
		assert_ok(catalogfix_open_file(x, "spoilt"), &x->f->e);
		assert_err(catalog_extent(x->c, 3, 5, &ext, &x->f->e), &x->f->e,
		    ERR_CORRUPT, "'spoilt': ");
	}
	spoil(x, "update account set name = 'x'");
	assert_ok(catalogfix_open_file(x, "spoilt"), &x->f->e);
	assert_err(catalog_account(x->c, CATALOG_USER, 5, &x->buf,
		       &(bool){ false }, &x->f->e),
	    &x->f->e, ERR_CORRUPT, "has a name that is no blob");
	spoil(x, "update account set name = x'6a00'");
	assert_ok(catalogfix_open_file(x, "spoilt"), &x->f->e);
	assert_err(catalog_account(x->c, CATALOG_USER, 5, &x->buf,
		       &(bool){ false }, &x->f->e),
	    &x->f->e, ERR_CORRUPT, "zero byte in its name");
}

/* Everything that reads; damage must not be more than an error. */
static int read_everything(struct catalogfix *x)
{
	struct catalog_extent ext;
	struct err *e = &x->f->e;
	bool found = false;
	uint64_t n = 0;
	int rc = catalogfix_open_file(x, "spoilt");

	if (rc == 0)
		rc = walk(x, &n);
	if (rc == 0)
		rc = read_all(x);
	if (rc == 0)
		rc = catalog_extent(x->c, 0, 1, &ext, e);
	if (rc == 0)
		rc = catalog_account(x->c, CATALOG_USER, 5, &x->buf, &found, e);
	if (rc == 0)
		rc = catalog_meta(x->c, "lineage", &x->buf, &found, e);
	if (rc == 0)
		rc = catalog_attr(x->c, 1, &x->buf, e);
	return rc;
}

static void outlives_damaged_pages(void **state)
{
	struct catalogfix *x = *state;
	size_t pages = 0;
	unsigned refused = 0;
	struct gen g;

	make_file(x);
	gen_seed(&g, 7);
	pages = x->stored.size / CATALOG_PAGE_SIZE;
	for (unsigned i = 0; i < 1500; i++) {
		uint8_t bytes[8];
		size_t page = gen_below(&g, pages);
		/* Most of what counts lies at the two ends of a page. */
		size_t at = (i & 1) != 0 ? gen_below(&g, 120)
					 : 4088 - gen_below(&g, 300);
		size_t n = 1 + gen_below(&g, sizeof(bytes));
		int rc = 0;

		gen_fill(&g, GEN_RANDOM, bytes, sizeof(bytes));
		spoil_bytes(x, page * CATALOG_PAGE_SIZE + at, bytes, n, 0);
		rc = read_everything(x);
		if (rc == 0)
			continue;
		refused++;
		if (rc != ERR_CORRUPT && rc != ERR_UNSUPPORTED &&
		    rc != ERR_LIMIT)
			assert_ok(rc, &x->f->e);
		assert_non_null(strstr(x->f->e.msg, "'spoilt'"));
	}
	/* Much of a page is not used. */
	assert_true(refused > 200 && refused < 1400);
}

/* A chunk that is missing or bad is named, and listed as damaged. */
static void names_missing_chunks(void **state)
{
	struct catalogfix *x = *state;
	struct restorefix *f = x->f;
	struct idx_entry entry;
	char hex[DIGEST_HEX_SIZE];

	make_file(x);
	entry = restorefix_entry(f, "root.tree.catalog.fidx", 0);
	digest_hex(&entry.digest, hex);
	for (enum restorefix_spoil how = SPOIL_MISSING; how < SPOIL_KINDS;
	     how++) {
		restorefix_spoil(f, &entry.digest, how);
		assert_err(catalogfix_try_open(x, "root.tree"), &f->e,
		    ERR_CORRUPT, hex);
		assert_non_null(
		    strstr(f->e.msg, "root.tree.catalog.fidx': chunk "));
		assert_non_null(strstr(f->e.msg, "at offset 0"));
	}
	assert_true(restorefix_listed(f, &entry.digest, "missing") > 0);
	assert_true(restorefix_listed(f, &entry.digest, "bad") > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CATALOGFIX_TEST(refuses_other_files),
		CATALOGFIX_TEST(refuses_other_schemas),
		CATALOGFIX_TEST(takes_equal_schemas),
		CATALOGFIX_TEST(refuses_bad_rows),
		CATALOGFIX_TEST(refuses_huge_values),
		CATALOGFIX_TEST(refuses_disorder),
		CATALOGFIX_TEST(refuses_loops),
		CATALOGFIX_TEST(refuses_endless_walks),
		CATALOGFIX_TEST(bounds_the_depth),
		CATALOGFIX_TEST(refuses_what_rows_refer_to),
		CATALOGFIX_TEST(outlives_damaged_pages),
		CATALOGFIX_TEST(names_missing_chunks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
