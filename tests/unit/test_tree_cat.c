/* SPDX-License-Identifier: MIT */
/*
 * Contents of single files: data and holes, across runs and chunks; what is
 * no content, and what is damaged.
 */
#include "index/tree_cat.h"

#include <stdio.h>
#include <stdlib.h>

#include "tests/support/treefix.h"

#define CHUNK RESTOREFIX_CHUNK
#define BIG (6 * CHUNK + 77)

struct scene {
	struct restorefix *f;
	struct treefix t;
	struct catalog *c;
	struct archive_reader *r;
	struct buf got;
	size_t takes; /* bytes until the sink fails; 0: it does not */
};

static int setup(void **state)
{
	struct scene *s = calloc(1, sizeof(*s));
	void *f = NULL;

	if (s == NULL || restorefix_setup(&f) < 0)
		return -1;
	s->f = f;
	*state = s;
	restorefix_begin(s->f);
	treefix_begin(&s->t, s->f, "root.tree");
	return 0;
}

static int teardown(void **state)
{
	struct scene *s = *state;
	void *f = s->f;
	int rc = 0;

	treefix_release(&s->t);
	archive_reader_free(s->r);
	catalog_close(s->c);
	buf_release(&s->got);
	rc = restorefix_teardown(&f);
	free(s);
	return rc;
}

#define SCENE_TEST(t) cmocka_unit_test_setup_teardown(t, setup, teardown)

/* What was added is a snapshot, open. */
static void push(struct scene *s)
{
	struct restorefix *f = s->f;

	treefix_end(&s->t);
	restorefix_commit(f);
	assert_ok(restorefix_open(f, "root.tree"), &f->e);
	assert_ok(catalog_open(f->ds, &f->id, &f->hold, &f->manifest,
		      "root.tree", &s->c, &f->e),
	    &f->e);
	assert_ok(
	    archive_reader_new(f->archive, 2 * CHUNK, &s->r, &f->e), &f->e);
}

static int take(void *ctx, const void *p, size_t n, struct err *e)
{
	struct scene *s = ctx;

	assert_true(n > 0);
	if (s->takes > 0 && s->got.len + n > s->takes)
		return err_set(e, ERR_REFUSED, "no more");
	return buf_append(&s->got, p, n, e);
}

static int cat(struct scene *s, const char *path)
{
	struct restorefix *f = s->f;
	struct catalog_entry found;
	struct catalog_entry *x = NULL;
	int rc = catalog_resolve(s->c, treefix_bytes(path), &found, &f->e);

	buf_reset(&s->got);
	if (rc == 0)
		rc = catalog_entry_copy(&found, &x, &f->e);
	if (rc == 0)
		rc = tree_cat(s->c, s->r, x, take, s, &f->task, &f->e);
	free(x);
	return rc;
}

static void assert_cat(
    struct scene *s, const char *path, const void *p, size_t n)
{
	assert_ok(cat(s, path), &s->f->e);
	assert_int_equal(s->got.len, n);
	if (n > 0)
		assert_memory_equal(s->got.data, p, n);
}

static void gives_contents(void **state)
{
	struct scene *s = *state;
	const uint8_t *p = restorefix_bytes(s->f, GEN_RANDOM, BIG);
	struct catalog_entry big = treefix_entry(CATALOG_FILE);
	struct catalog_entry empty = treefix_entry(CATALOG_FILE);

	treefix_file(&s->t, "a", "first");
	treefix_dir(&s->t, "d");
	treefix_content(&s->t, &big, p, BIG);
	treefix_add(&s->t, "d/big", big);
	treefix_file(&s->t, "e", "last");
	/* Neither a position nor a digest. */
	empty.has |= CATALOG_HAS_SIZE;
	treefix_add(&s->t, "empty", empty);
	treefix_file(&s->t, "f", "");
	push(s);
	assert_cat(s, "a", "first", 5);
	assert_cat(s, "d/big", p, BIG);
	assert_cat(s, "e", "last", 4);
	assert_cat(s, "empty", "", 0);
	assert_cat(s, "f", "", 0);
}

/* Positions are not offsets, and a file may lie in two runs. */
static void follows_runs(void **state)
{
	struct scene *s = *state;
	struct catalog_entry x = treefix_entry(CATALOG_FILE);

	treefix_run(&s->t, 1000);
	treefix_file(&s->t, "a", "aaaa");
	treefix_content(&s->t, &x, "head", 4);
	treefix_run(&s->t, 0);
	assert_ok(buf_append(&s->t.stream, "tail", 4, &s->f->e), &s->f->e);
	x.size = 8;
	assert_ok(digest_of("headtail", 8, &x.sha256, &s->f->e), &s->f->e);
	treefix_add(&s->t, "b", x);
	treefix_run(&s->t, UINT64_C(1) << 40);
	treefix_file(&s->t, "c", "cc");
	push(s);
	assert_cat(s, "a", "aaaa", 4);
	assert_cat(s, "b", "headtail", 8);
	assert_cat(s, "c", "cc", 2);
}

static void add_holes(struct scene *s, const char *name, const char *data,
    uint64_t size, const struct catalog_hole *holes, size_t n)
{
	struct catalog_entry x = treefix_entry(CATALOG_FILE);
	uint8_t column[8 * CATALOG_HOLE_SIZE];

	treefix_content(&s->t, &x, data, strlen(data));
	x.size = size;
	x.has |= CATALOG_HAS_HOLES;
	x.holes = treefix_holes(holes, n, column);
	treefix_add(&s->t, name, x);
}

static void fills_holes(void **state)
{
	static const struct catalog_hole first[] = { { 0, 4, false } };
	static const struct catalog_hole last[] = { { 2, 100000, false } };
	static const struct catalog_hole mixed[] = { { 0, 1, false },
		{ 2, 3, true }, { 6, 2, false }, { 8, 10, true } };
	static const struct catalog_hole beyond[] = { { 4, 4, true } };
	static const struct catalog_hole across[] = { { 2, 9, true } };
	static const struct catalog_hole only[] = { { 0, 7, false } };
	struct scene *s = *state;
	char *zeros = calloc(1, 100002);

	assert_non_null(zeros);
	s->f->own = (uint8_t *)zeros;
	add_holes(s, "across", "ab", 4, across, 1);
	add_holes(s, "beyond", "abcd", 4, beyond, 1);
	add_holes(s, "first", "ab", 6, first, 1);
	add_holes(s, "last", "ab", 100002, last, 1);
	add_holes(s, "mixed", "ab", 8, mixed, 4);
	add_holes(s, "only", "", 7, only, 1);
	push(s);
	assert_cat(s, "across", "ab\0\0", 4);
	assert_cat(s, "beyond", "abcd", 4);
	assert_cat(s, "first", "\0\0\0\0ab", 6);
	assert_cat(s, "mixed", "\0a\0\0\0b\0\0", 8);
	assert_cat(s, "only", "\0\0\0\0\0\0\0", 7);
	zeros[0] = 'a';
	zeros[1] = 'b';
	assert_cat(s, "last", zeros, 100002);
}

/* Zeros without end, and nobody waits for them. */
static void stops_within_a_hole(void **state)
{
	static const struct catalog_hole hole = { 1, UINT64_C(1) << 50, false };
	struct scene *s = *state;

	add_holes(s, "huge", "x", (UINT64_C(1) << 50) + 1, &hole, 1);
	push(s);
	s->takes = 1000000;
	assert_err(cat(s, "huge"), &s->f->e, ERR_REFUSED, "no more");
	assert_true(s->got.len > 900000);
	s->takes = 0;
	s->f->task.stop = 2;
	assert_err(cat(s, "huge"), &s->f->e, ERR_CANCELLED, "");
}

static void says_what_is_no_file(void **state)
{
	static const struct {
		enum catalog_kind kind;
		const char *text;
	} rows[] = {
		{ CATALOG_DIR, "'x\\n0' is a directory, want a file" },
		{ CATALOG_SYMLINK, "'x\\n1' is a symbolic link, want a file" },
		{ CATALOG_FIFO, "'x\\n2' is a FIFO, want a file" },
		{ CATALOG_SOCKET, "'x\\n3' is a socket, want a file" },
		{ CATALOG_CHAR, "'x\\n4' is a character device, want" },
		{ CATALOG_BLOCK, "'x\\n5' is a block device, want a file" },
	};
	struct scene *s = *state;
	struct catalog_entry x = treefix_entry(CATALOG_FILE);
	char name[8];

	for (unsigned i = 0; i < TEST_COUNT(rows); i++) {
		struct catalog_entry y = treefix_entry(rows[i].kind);

		if (y.kind == CATALOG_SYMLINK) {
			y.target = treefix_bytes("to");
			y.has |= CATALOG_HAS_TARGET;
		}
		if (y.kind >= CATALOG_CHAR)
			y.has |= CATALOG_HAS_RDEV;
		(void)snprintf(name, sizeof(name), "x\n%u", i);
		treefix_add(&s->t, name, y);
	}
	x.has |= CATALOG_HAS_SIZE | CATALOG_HAS_STATE;
	x.size = 5;
	x.state = CATALOG_STATE_UNREADABLE;
	treefix_add(&s->t, "unreadable", x);
	push(s);
	for (unsigned i = 0; i < TEST_COUNT(rows); i++) {
		(void)snprintf(name, sizeof(name), "x\n%u", i);
		assert_err(cat(s, name), &s->f->e, ERR_INVALID, rows[i].text);
		assert_int_equal(s->got.len, 0);
	}
	assert_err(cat(s, "unreadable"), &s->f->e, ERR_NOTFOUND,
	    "'unreadable' could not be read when it was pushed");
}

/* A catalog that lies about where content is, or what it is. */
static void notices_lies(void **state)
{
	struct scene *s = *state;
	struct catalog_entry x = treefix_entry(CATALOG_FILE);

	treefix_content(&s->t, &x, "content", 7);
	x.sha256.b[0] ^= 1;
	treefix_add(&s->t, "digest", x);
	x.pos = 6;
	treefix_add(&s->t, "end", x);
	x.pos = UINT64_C(1) << 60;
	treefix_add(&s->t, "far", x);
	x.pos = 100;
	treefix_add(&s->t, "gap", x);
	treefix_run(&s->t, 93);
	assert_ok(catalog_writer_run(s->t.w, 100, 7, 1000, &s->f->e), &s->f->e);
	push(s);
	assert_err(cat(s, "digest"), &s->f->e, ERR_CORRUPT,
	    "the content of 'digest' has SHA-256 ");
	assert_int_equal(s->got.len, 7);
	assert_err(cat(s, "end"), &s->f->e, ERR_CORRUPT, "");
	assert_err(cat(s, "far"), &s->f->e, ERR_CORRUPT, "");
	assert_err(cat(s, "gap"), &s->f->e, ERR_CORRUPT, "");
}

static void notices_damage(void **state)
{
	struct scene *s = *state;
	const uint8_t *p = restorefix_bytes(s->f, GEN_RANDOM, BIG);
	struct catalog_entry big = treefix_entry(CATALOG_FILE);
	struct idx_entry chunk;

	treefix_content(&s->t, &big, p, BIG);
	treefix_add(&s->t, "big", big);
	treefix_file(&s->t, "small", "small");
	push(s);
	chunk = restorefix_entry(s->f, "root.tree.didx", 1);
	restorefix_spoil(s->f, &chunk.digest, SPOIL_MISSING);
	assert_err(cat(s, "big"), &s->f->e, ERR_CORRUPT, "root.tree.didx");
	/* What comes before it is right. */
	chunk = restorefix_entry(s->f, "root.tree.didx", 0);
	assert_int_equal(s->got.len, chunk.end);
	assert_memory_equal(s->got.data, s->f->own, s->got.len);
	assert_cat(s, "small", "small", 5);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		SCENE_TEST(gives_contents),
		SCENE_TEST(follows_runs),
		SCENE_TEST(fills_holes),
		SCENE_TEST(stops_within_a_hole),
		SCENE_TEST(says_what_is_no_file),
		SCENE_TEST(notices_lies),
		SCENE_TEST(notices_damage),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
