/* SPDX-License-Identifier: MIT */
/*
 * Catalogs as catalog_writer makes them: rows come back as they were given,
 * by key, by path, by directory and depth first.
 */
#include "index/catalog.h"

#include <stdlib.h>

#include "tests/support/catalogfix.h"

/* /, a/, a/b/, a/b/c, a/x, z: given in walk order. */
static void make_small(struct catalogfix *x)
{
	catalogfix_begin(x, "root.tree");
	catalogfix_add(x, 0, "", 1, CATALOG_DIR);
	catalogfix_add(x, 1, "a", 2, CATALOG_DIR);
	catalogfix_add(x, 2, "b", 4, CATALOG_DIR);
	catalogfix_add(x, 4, "c", 6, CATALOG_FILE);
	catalogfix_add(x, 2, "x", 5, CATALOG_FIFO);
	catalogfix_add(x, 1, "z", 3, CATALOG_SYMLINK);
	catalogfix_finish(x, 7);
	catalogfix_open(x, "root.tree");
}

static void finds_rows(void **state)
{
	struct catalogfix *x = *state;
	struct catalog_entry row;
	struct err *e = &x->f->e;
	bool found = true;

	make_small(x);
	assert_ok(catalog_root(x->c, &row, e), e);
	assert_int_equal(row.id, 1);
	assert_int_equal(row.parent, 0);
	assert_int_equal(row.name.n, 0);
	assert_int_equal(row.kind, CATALOG_DIR);
	assert_int_equal(row.has, 0);
	assert_ok(
	    catalog_lookup(x->c, 4, catalogfix_bytes("c"), &row, &found, e), e);
	assert_true(found);
	assert_int_equal(row.id, 6);
	assert_int_equal(row.kind, CATALOG_FILE);
	assert_int_equal(row.has, CATALOG_HAS_SIZE | CATALOG_HAS_POS);
	assert_ok(
	    catalog_lookup(x->c, 2, catalogfix_bytes("c"), &row, &found, e), e);
	assert_false(found);
}

static void resolves_paths(void **state)
{
	static const struct {
		const char *path;
		int64_t id;
	} good[] = { { "", 1 }, { "/", 1 }, { ".", 1 }, { "./a", 2 },
		{ "/a//b/./c", 6 }, { "a/b/", 4 }, { "z", 3 },
		{ "a/b/c/", 6 } };
	static const struct {
		const char *path;
		int code;
		const char *text;
	} bad[] = {
		{ "q", ERR_NOTFOUND, "root.tree.catalog.fidx': 'q' is not" },
		{ "a/q/b", ERR_NOTFOUND, "'a/q' is not in it" },
		{ "a/b/c/d", ERR_NOTFOUND, "'a/b/c' is no directory" },
		{ "a/../z", ERR_INVALID, "'a/..' has a '..'" },
		{ "a\nb", ERR_NOTFOUND, "'a\\nb' is not in it" },
	};
	struct catalogfix *x = *state;
	struct catalog_entry row;

	make_small(x);
	for (size_t i = 0; i < TEST_COUNT(good); i++) {
		assert_ok(catalog_resolve(x->c, catalogfix_bytes(good[i].path),
			      &row, &x->f->e),
		    &x->f->e);
		assert_int_equal(row.id, good[i].id);
	}
	for (size_t i = 0; i < TEST_COUNT(bad); i++) {
		assert_err(catalog_resolve(x->c, catalogfix_bytes(bad[i].path),
			       &row, &x->f->e),
		    &x->f->e, bad[i].code, bad[i].text);
	}
}

static void lists_in_order(void **state)
{
	struct catalogfix *x = *state;
	struct err *e = &x->f->e;

	make_small(x);
	assert_ok(catalog_children(x->c, 1, &x->cur, e), e);
	assert_string_equal(catalogfix_names(x), "a/z/");
	assert_ok(catalog_children(x->c, 2, &x->cur, e), e);
	assert_string_equal(catalogfix_names(x), "b/x/");
	assert_ok(catalog_children(x->c, 3, &x->cur, e), e);
	assert_string_equal(catalogfix_names(x), "");
	assert_ok(catalog_all(x->c, &x->cur, e), e);
	assert_string_equal(catalogfix_names(x), "/a/z/b/x/c/");
	assert_ok(catalog_earlier(x->c, &x->cur, e), e);
	assert_string_equal(catalogfix_names(x), "");
}

static int note(void *ctx, struct catalog_bytes path,
    const struct catalog_entry *entry, struct err *e)
{
	struct catalogfix *x = ctx;

	return buf_append_fmt(&x->buf, e, "%.*s%s ", (int)path.n,
	    (const char *)path.p, entry->kind == CATALOG_DIR ? "/" : "");
}

static int note_leave(
    void *ctx, struct catalog_bytes path, int64_t id, struct err *e)
{
	struct catalogfix *x = ctx;

	return buf_append_fmt(&x->buf, e, "<%.*s %d ", (int)path.n,
	    (const char *)path.p, (int)id);
}

static int note_and_skip(void *ctx, struct catalog_bytes path,
    const struct catalog_entry *entry, struct err *e)
{
	int rc = note(ctx, path, entry, e);

	return rc == 0 && entry->id == 4 ? CATALOG_SKIP : rc;
}

static const char *walk(
    struct catalogfix *x, const char *from, const struct catalog_walk *w)
{
	struct catalog_bytes path = catalogfix_bytes(from);
	struct catalog_entry row;
	struct err *e = &x->f->e;

	buf_reset(&x->buf);
	assert_ok(catalog_resolve(x->c, path, &row, e), e);
	assert_ok(catalog_walk(x->c, &row, path, w, e), e);
	return buf_cstr(&x->buf, e);
}

static void walks_depth_first(void **state)
{
	struct catalogfix *x = *state;
	struct catalog_walk w = {
		.fn = note, .leave = note_leave, .ctx = x, .task = &x->f->task
	};

	make_small(x);
	assert_string_equal(
	    walk(x, "", &w), "/ a/ a/b/ a/b/c <a/b 4 a/x <a 2 z < 1 ");
	assert_string_equal(walk(x, "a", &w), "a/ a/b/ a/b/c <a/b 4 a/x <a 2 ");
	assert_string_equal(walk(x, "z", &w), "z ");
	w.leave = NULL;
	w.fn = note_and_skip;
	assert_string_equal(walk(x, "", &w), "/ a/ a/b/ a/x z ");
}

/* Every column, each with a value of its own. */
static void keeps_all_columns(void **state)
{
	struct catalogfix *x = *state;
	struct err *e = &x->f->e;
	uint8_t holes[CATALOG_HOLE_SIZE];
	struct catalog_hole hole = { .start = 4, .length = 6 };
	struct catalog_entry in = catalogfix_row(1, "f", 2, CATALOG_FILE);
	struct catalog_entry out;

	in.has = (1U << 18) - 1;
	in.has &= ~(unsigned)CATALOG_HAS_TARGET;
	in.mode = 04755;
	in.uid = UINT32_MAX;
	in.gid = 7;
	in.mtime_s = INT64_MIN;
	in.mtime_ns = 999999999;
	in.ctime_s = INT64_MAX;
	in.ctime_ns = 1;
	in.ino = UINT64_MAX;
	in.nlink = 3;
	in.mount = 2;
	in.rdev = UINT64_C(0xffffffff00000001);
	in.flags = 0x80000000U;
	in.size = 20;
	in.pos = 11;
	memset(in.sha256.b, 0xab, sizeof(in.sha256.b));
	catalog_hole_encode(&hole, holes);
	in.holes.p = holes;
	in.holes.n = sizeof(holes);
	in.link = 99;
	in.attr = 5;
	in.state = CATALOG_STATE_CHANGED | CATALOG_STATE_SHORT;
	catalogfix_begin(x, "root.tree");
	catalogfix_add(x, 0, "", 1, CATALOG_DIR);
	assert_ok(catalog_writer_add(x->w, &in, e), e);
	catalogfix_finish(x, 3);
	catalogfix_open(x, "root.tree");
	assert_ok(catalog_resolve(x->c, catalogfix_bytes("f"), &out, e), e);
	assert_ok(catalog_entry_copy(&out, &x->kept, e), e);
	catalog_close(x->c);
	x->c = NULL;
	out = *x->kept;
	assert_int_equal(out.name.n, 1);
	assert_memory_equal(out.name.p, "f", 1);
	assert_int_equal(out.holes.n, sizeof(holes));
	assert_memory_equal(out.holes.p, holes, sizeof(holes));
	assert_int_equal(catalog_stored_size(&out), 14);
	in.name = out.name;
	in.holes = out.holes;
	in.target = out.target;
	assert_memory_equal(&in, &out, sizeof(in));
}

static void keeps_the_rest(void **state)
{
	struct catalogfix *x = *state;
	struct err *e = &x->f->e;
	struct catalog_extent ext;
	struct catalog_xattr attr;
	struct buf data = BUF_INIT;
	int64_t id = 0;
	size_t at = 0;
	bool found = false;

	catalogfix_begin(x, "root.tree");
	catalogfix_add(x, 0, "", 1, CATALOG_DIR);
	assert_ok(catalog_attr_append(&data, "user.a", "1", 1, e), e);
	assert_ok(catalog_writer_attr(x->w, data.data, data.len, &id, e), e);
	assert_int_equal(id, 1);
	assert_ok(catalog_attr_append(&data, "user.b", "", 0, e), e);
	assert_ok(catalog_writer_attr(x->w, data.data, data.len, &id, e), e);
	assert_int_equal(id, 2);
	assert_ok(catalog_writer_attr(x->w, data.data, 13, &id, e), e);
	assert_int_equal(id, 1);
	buf_release(&data);
	assert_ok(catalog_writer_account(x->w, CATALOG_USER, 5, "joe", e), e);
	assert_ok(catalog_writer_account(x->w, CATALOG_USER, 5, "jim", e), e);
	assert_ok(catalog_writer_account(x->w, CATALOG_GROUP, 5, NULL, e), e);
	assert_ok(
	    catalog_writer_mount(x->w, 1, catalogfix_bytes(""), "tmpfs", e), e);
	assert_ok(catalog_writer_run(x->w, 100, 20, 0, e), e);
	assert_ok(catalog_writer_run(x->w, 120, 10, 26, e), e);
	catalogfix_finish(x, 2);
	catalogfix_open(x, "root.tree");

	assert_ok(catalog_attr(x->c, 2, &x->buf, e), e);
	assert_true(catalog_attr_next(&x->buf, &at, &attr));
	assert_string_equal(attr.name_z, "user.a");
	assert_int_equal(attr.value.n, 1);
	assert_true(catalog_attr_next(&x->buf, &at, &attr));
	assert_string_equal(attr.name_z, "user.b");
	assert_int_equal(attr.value.n, 0);
	assert_false(catalog_attr_next(&x->buf, &at, &attr));
	assert_err(catalog_attr(x->c, 3, &x->buf, e), e, ERR_CORRUPT,
	    "attr 3 is not there");

	assert_ok(
	    catalog_account(x->c, CATALOG_USER, 5, &x->buf, &found, e), e);
	assert_true(found);
	assert_string_equal(buf_cstr(&x->buf, e), "joe");
	assert_ok(
	    catalog_account(x->c, CATALOG_GROUP, 5, &x->buf, &found, e), e);
	assert_false(found);

	assert_ok(catalog_extent(x->c, 110, 30, &ext, e), e);
	assert_int_equal(ext.start, 10);
	assert_int_equal(ext.length, 10);
	assert_ok(catalog_extent(x->c, 120, 3, &ext, e), e);
	assert_int_equal(ext.start, 26);
	assert_int_equal(ext.length, 3);
	assert_err(catalog_extent(x->c, 130, 1, &ext, e), e, ERR_CORRUPT,
	    "position 130 is in no run");
	assert_err(catalog_extent(x->c, 99, 1, &ext, e), e, ERR_CORRUPT,
	    "position 99 is in no run");

	assert_ok(catalog_meta(x->c, "next-id", &x->buf, &found, e), e);
	assert_true(found);
	assert_string_equal(buf_cstr(&x->buf, e), "2");
	assert_ok(catalog_meta(x->c, "next-pos", &x->buf, &found, e), e);
	assert_string_equal(buf_cstr(&x->buf, e), "36");
	assert_ok(catalog_meta(x->c, "nothing", &x->buf, &found, e), e);
	assert_false(found);
}

static void has_equal_bytes(void **state)
{
	struct catalogfix *x = *state;
	struct digest first;

	make_small(x);
	first = x->stored.csum;
	catalogfix_begin(x, "root.tree");
	catalogfix_add(x, 2, "x", 5, CATALOG_FIFO);
	catalogfix_add(x, 4, "c", 6, CATALOG_FILE);
	catalogfix_add(x, 1, "z", 3, CATALOG_SYMLINK);
	catalogfix_add(x, 2, "b", 4, CATALOG_DIR);
	catalogfix_add(x, 1, "a", 2, CATALOG_DIR);
	catalogfix_add(x, 0, "", 1, CATALOG_DIR);
	catalogfix_finish(x, 7);
	assert_true(digest_equal(&first, &x->stored.csum));
}

static void has_no_catalog(void **state)
{
	struct catalogfix *x = *state;
	struct restorefix *f = x->f;

	restorefix_begin(f);
	restorefix_add(f, "root.tree.didx", "abc", 3);
	restorefix_add(f, "root.img.fidx", "abc", 3);
	restorefix_commit(f);
	assert_err(catalogfix_try_open(x, "root.tree"), &f->e, ERR_NOTFOUND,
	    "archive 'root.tree' has no catalog");
	assert_err(catalog_open(f->ds, &f->id, &f->hold, &f->manifest, "q.tree",
		       &x->c, &f->e),
	    &f->e, ERR_NOTFOUND, "no archive 'q.tree'");
	assert_err(catalog_open(f->ds, &f->id, &f->hold, &f->manifest,
		       "root.img", &x->c, &f->e),
	    &f->e, ERR_INVALID, "'root.img' has no catalog");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CATALOGFIX_TEST(finds_rows),
		CATALOGFIX_TEST(resolves_paths),
		CATALOGFIX_TEST(lists_in_order),
		CATALOGFIX_TEST(walks_depth_first),
		CATALOGFIX_TEST(keeps_all_columns),
		CATALOGFIX_TEST(keeps_the_rest),
		CATALOGFIX_TEST(has_equal_bytes),
		CATALOGFIX_TEST(has_no_catalog),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
