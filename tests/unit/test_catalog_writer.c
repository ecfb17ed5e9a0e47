/* SPDX-License-Identifier: MIT */
/*
 * catalog_writer: what it takes and what it refuses, members of tars, the
 * lineage, and how few pages a look-up takes.
 */
#include "index/catalog_writer.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "datastore/base/bytes.h"
#include "tests/support/catalogfix.h"

static int finish(struct catalogfix *x, uint64_t next_pos)
{
	x->f->e = (struct err)ERR_INIT;
	return catalog_writer_finish(
	    x->w, 2, next_pos, NULL, &x->f->task, &x->stored, &x->f->e);
}

static void refuses_bad_rows(void **state)
{
	struct catalogfix *x = *state;
	struct err *e = &x->f->e;
	const struct catalog_entry good =
	    catalogfix_row(1, "f", 2, CATALOG_FILE);
	struct catalog_entry bad = good;
	static const char *const names[] = { "", ".", "..", "a/b", "/" };

	catalogfix_begin(x, "root.tree");
	for (size_t i = 0; i < TEST_COUNT(names); i++) {
		bad.name = catalogfix_bytes(names[i]);
		assert_err(catalog_writer_add(x->w, &bad, e), e, ERR_INVALID,
		    "root.tree.catalog.fidx': '");
	}
	bad = good;
	bad.has |= CATALOG_HAS_MODE;
	bad.mode = 0100644;
	assert_err(catalog_writer_add(x->w, &bad, e), e, ERR_INVALID,
	    "'f' of directory 1: mode is 33188, want 0 to 4095");
	bad = good;
	bad.size = UINT64_MAX;
	assert_err(catalog_writer_add(x->w, &bad, e), e, ERR_INVALID, "size");
	bad = good;
	bad.has &= ~(unsigned)CATALOG_HAS_POS;
	bad.size = 1;
	assert_err(catalog_writer_add(x->w, &bad, e), e, ERR_INVALID,
	    "a file without content");
	assert_ok(catalog_writer_add(x->w, &good, e), e);
	assert_err(catalog_writer_add(x->w, &good, e), e, ERR_INVALID,
	    "'f' of directory 1: is there already");
	assert_err(catalog_writer_run(x->w, 0, 0, 0, e), e, ERR_INVALID,
	    "run of 0 bytes");
	assert_err(catalog_writer_run(x->w, INT64_MAX, 1, 0, e), e, ERR_INVALID,
	    "out of all ranges");
	assert_err(finish(x, 0), e, ERR_INVALID, "there is no root");
}

static void refuses_bad_ends(void **state)
{
	struct catalogfix *x = *state;
	struct err *e = &x->f->e;

	catalogfix_begin(x, "root.tree");
	catalogfix_add(x, 0, "", 1, CATALOG_DIR);
	assert_err(finish(x, UINT64_MAX), e, ERR_INVALID,
	    "position 18446744073709551615 is beyond");
	catalog_writer_free(x->w);
	assert_ok(catalog_writer_new(x->f->session, "b.tree", &x->w, e), e);
	catalogfix_add(x, 0, "", 1, CATALOG_DIR);
	atomic_store(&x->f->task.stop, 2);
	assert_err(finish(x, 0), e, ERR_CANCELLED, "");
	atomic_store(&x->f->task.stop, 0);
	catalog_writer_free(x->w);
	x->w = NULL;
	assert_err(catalog_writer_new(x->f->session, "b.img", &x->w, e), e,
	    ERR_INVALID, "'b.img' has no catalog");
}

static void needs_a_directory_for_files(void **state)
{
	struct catalogfix *x = *state;
	struct err *e = &x->f->e;
	const char *before = getenv("TMPDIR");
	char *kept = before != NULL ? strdup(before) : NULL;

	restorefix_begin(x->f);
	assert_int_equal(setenv("TMPDIR", "/does/not/exist", 1), 0);
	assert_err(catalog_writer_new(x->f->session, "a.tree", &x->w, e), e,
	    ERR_SYS, "directory '/does/not/exist' for temporary files");
	if (kept != NULL)
		assert_int_equal(setenv("TMPDIR", kept, 1), 0);
	else
		assert_int_equal(unsetenv("TMPDIR"), 0);
	free(kept);
}

/* The bytes that the format's document says, made here once more. */
static void makes_the_lineage(void **state)
{
	static const uint8_t bytes[] = { 1, 0, 0, 0, 0, 0, 0, 0,
		0,                            /* parent 0 */
		3, 0, 0, 0, 0,                /* name x'' */
		1, 1, 0, 0, 0, 0, 0, 0, 0,    /* id 1 */
		2, 3, 0, 0, 0, 'd', 'i', 'r', /* kind */
		1, 0xed, 1, 0, 0, 0, 0, 0, 0, /* mode 0755 */
		0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 };
	struct catalogfix *x = *state;
	struct err *e = &x->f->e;
	struct catalog_entry root = catalogfix_row(0, "", 1, CATALOG_DIR);
	char hex[DIGEST_HEX_SIZE];
	struct digest d;
	bool found = false;

	root.has |= CATALOG_HAS_MODE;
	root.mode = 0755;
	catalogfix_begin(x, "root.tree");
	assert_ok(catalog_writer_add(x->w, &root, e), e);
	catalogfix_finish(x, 2);
	catalogfix_open(x, "root.tree");
	assert_ok(digest_of(bytes, sizeof(bytes), &d, e), e);
	digest_hex(&d, hex);
	assert_ok(catalog_meta(x->c, "lineage", &x->buf, &found, e), e);
	assert_true(found);
	assert_string_equal(buf_cstr(&x->buf, e), hex);
}

static void add_member(struct catalogfix *x, int64_t parent, const char *name,
    int64_t id, enum catalog_kind kind, uint64_t member)
{
	struct err *e = &x->f->e;
	struct catalog_entry row = catalogfix_row(parent, name, id, kind);

	assert_ok(catalog_writer_add_member(x->w, &row, member, e), e);
}

/* The last member of a name wins; the others are earlier. */
static void sorts_members(void **state)
{
	struct catalogfix *x = *state;
	struct err *e = &x->f->e;
	struct catalog_entry row;
	bool more = true;
	static const int64_t want[] = { 5, 3, 6 };

	catalogfix_begin(x, "x.tar");
	catalogfix_add(x, 0, "", 1, CATALOG_DIR);
	catalogfix_add(x, 1, "d", 2, CATALOG_DIR);
	add_member(x, 1, "a", 3, CATALOG_FILE, 512);
	add_member(x, 1, "a", 4, CATALOG_SYMLINK, 1536);
	add_member(x, 1, "a", 5, CATALOG_FIFO, 0);
	add_member(x, 1, "z", 6, CATALOG_FILE, 1024);
	add_member(x, 1, "z", 7, CATALOG_FILE, 2048);
	add_member(x, 1, "d", 2, CATALOG_DIR, 4096);
	add_member(x, 0, "", 1, CATALOG_DIR, 5120);
	catalogfix_finish(x, 8);
	catalogfix_open(x, "x.tar");
	assert_ok(catalog_all(x->c, &x->cur, e), e);
	assert_string_equal(catalogfix_names(x), "/a/d/z/");
	assert_ok(catalog_resolve(x->c, catalogfix_bytes("a"), &row, e), e);
	assert_int_equal(row.id, 4);
	assert_ok(catalog_resolve(x->c, catalogfix_bytes("z"), &row, e), e);
	assert_int_equal(row.id, 7);
	assert_ok(catalog_earlier(x->c, &x->cur, e), e);
	for (size_t i = 0; i <= TEST_COUNT(want); i++) {
		assert_ok(catalog_cursor_next(x->cur, &row, &more, e), e);
		assert_int_equal(more, i < TEST_COUNT(want));
		if (more)
			assert_int_equal(row.id, want[i]);
	}
}

#define MANY 100000
#define A_DIRECTORY 50

/* /NNN/NN, in an order that is none. */
static void add_many(struct catalogfix *x)
{
	char name[32];

	catalogfix_add(x, 0, "", 1, CATALOG_DIR);
	for (int64_t i = 0; i < MANY - 1; i++) {
		int64_t at = i * 7919 % (MANY - 1);
		int64_t dir = at / A_DIRECTORY;
		bool is_dir = at % A_DIRECTORY == 0;

		(void)snprintf(name, sizeof(name), "entry-%07" PRId64, at);
		catalogfix_add(x, is_dir ? 1 : 2 + dir * A_DIRECTORY, name,
		    at + 2, is_dir ? CATALOG_DIR : CATALOG_FILE);
	}
}

static void takes_few_pages(void **state)
{
	struct catalogfix *x = *state;
	struct err *e = &x->f->e;
	struct catalog_entry row;
	uint64_t before = 0;

	catalogfix_begin(x, "root.tree");
	add_many(x);
	catalogfix_finish(x, MANY + 2);
	/* Packed, though it came in any order. */
	assert_in_range(x->stored.size / MANY, 30, 60);
	catalogfix_open(x, "root.tree");
	assert_in_range(catalog_pages_read(x->c), 1, 4);
	assert_ok(
	    catalog_resolve(x->c, catalogfix_bytes("entry-0050000"), &row, e),
	    e);
	before = catalog_pages_read(x->c);
	assert_in_range(before, 3, 16);
	assert_ok(catalog_children(x->c, row.id, &x->cur, e), e);
	assert_int_equal(strlen(catalogfix_names(x)), (A_DIRECTORY - 1) * 14);
	assert_in_range(catalog_pages_read(x->c) - before, 1, 8);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CATALOGFIX_TEST(refuses_bad_rows),
		CATALOGFIX_TEST(refuses_bad_ends),
		CATALOGFIX_TEST(needs_a_directory_for_files),
		CATALOGFIX_TEST(makes_the_lineage),
		CATALOGFIX_TEST(sorts_members),
		CATALOGFIX_TEST(takes_few_pages),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
