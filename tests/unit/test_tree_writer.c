/* SPDX-License-Identifier: MIT */
/*
 * tree_writer: positions, equal contents, cuts, contents that are dropped.
 */
#include "index/tree_writer.h"

#include "tests/support/dirfix.h"

#define MIB ((size_t)1 << 20)

struct fixture {
	struct dirfix *t;
	struct tree_writer *w;
	struct tree_writer_result result;
};

static int setup(void **state)
{
	struct fixture *x = calloc(1, sizeof(*x));
	void *t = NULL;

	if (x == NULL || dirfix_setup(&t) < 0)
		return -1;
	*state = x;
	x->t = t;
	restorefix_begin(x->t->f);
	return tree_writer_new(x->t->f->session, "root.tree",
	    &x->t->opts.ingest, &x->t->f->task, &x->w, &x->t->f->e);
}

static int teardown(void **state)
{
	struct fixture *x = *state;
	void *t = x->t;

	tree_writer_free(x->w);
	free(x);
	return dirfix_teardown(&t);
}

static void add_row(
    struct fixture *x, int64_t parent, const char *name, struct catalog_entry e)
{
	struct err *err = &x->t->f->e;

	e.parent = parent;
	e.name = catalogfix_bytes(name);
	e.id = tree_writer_next_id(x->w);
	assert_ok(tree_writer_add(x->w, &e, err), err);
}

static void add_root(struct fixture *x)
{
	add_row(x, 0, "", (struct catalog_entry){ .kind = CATALOG_DIR });
}

/* n bytes of a seed, in two pieces; with `drop` it comes to nothing. */
static uint64_t place(struct fixture *x, size_t n, uint64_t seed, bool drop)
{
	struct err *e = &x->t->f->e;
	uint8_t *p = restorefix_bytes(x->t->f, GEN_RANDOM, n);
	struct digest d;
	uint64_t pos = 0;

	p[0] = (uint8_t)seed;
	assert_ok(digest_of(p, n, &d, e), e);
	assert_ok(tree_writer_begin(x->w, n >= TREE_CUT_SIZE, &pos, e), e);
	assert_ok(tree_writer_append(x->w, p, n / 3, e), e);
	assert_ok(tree_writer_append(x->w, p + n / 3, n - n / 3, e), e);
	if (drop)
		assert_ok(tree_writer_drop(x->w, e), e);
	else
		assert_ok(tree_writer_end(x->w, &d, e), e);
	return pos;
}

static bool known(struct fixture *x, size_t n, uint64_t seed, uint64_t *pos)
{
	uint8_t *p = restorefix_bytes(x->t->f, GEN_RANDOM, n);
	struct err *e = &x->t->f->e;
	struct digest d;

	p[0] = (uint8_t)seed;
	assert_ok(digest_of(p, n, &d, e), e);
	return tree_writer_find(x->w, &d, n, pos);
}

static void add_file(
    struct fixture *x, const char *name, uint64_t pos, size_t n)
{
	add_row(x, 1, name,
	    (struct catalog_entry){ .kind = CATALOG_FILE,
		.has = CATALOG_HAS_SIZE | CATALOG_HAS_POS,
		.size = n,
		.pos = pos });
}

static void finish(struct fixture *x)
{
	struct err *e = &x->t->f->e;

	assert_ok(tree_writer_finish(x->w, &x->result, e), e);
	catalogfix_open(x->t->x, "root.tree");
}

static void places(void **state)
{
	struct fixture *x = *state;
	uint64_t pos = 0;

	add_root(x);
	assert_false(known(x, 1000, 1, &pos));
	assert_false(tree_writer_has_size(x->w, MIB));
	assert_int_equal(place(x, 1000, 1, false), 0);
	assert_int_equal(place(x, 1000, 2, false), 1000);
	assert_true(known(x, 1000, 1, &pos));
	assert_int_equal(pos, 0);
	assert_true(known(x, 1000, 2, &pos));
	assert_int_equal(pos, 1000);
	assert_false(known(x, 1000, 3, &pos));
	assert_int_equal(place(x, MIB, 1, false), 2000);
	assert_true(tree_writer_has_size(x->w, MIB));
	add_file(x, "a", 1000, 1000);
	finish(x);
	assert_int_equal(x->result.entries, 2);
	assert_int_equal(x->result.same_files, 2);
	assert_int_equal(x->result.same_bytes, 2000);
	assert_int_equal(x->result.content.size, 2000 + MIB);
	dirfix_read(x->t, "a");
	restorefix_bytes(x->t->f, GEN_RANDOM, 1000)[0] = 2;
	assert_memory_equal(x->t->x->buf.data, x->t->f->own, 1000);
}

/* What was dropped is in the stream, but is not known. */
static void drops(void **state)
{
	struct fixture *x = *state;
	uint64_t pos = 0;

	add_root(x);
	assert_int_equal(place(x, MIB, 1, true), 0);
	assert_false(known(x, MIB, 1, &pos));
	assert_int_equal(place(x, 500, 1, true), MIB);
	assert_int_equal(place(x, 500, 2, false), MIB + 500);
	add_file(x, "a", MIB + 500, 500);
	finish(x);
	assert_int_equal(x->result.content.size, MIB + 1000);
	dirfix_read(x->t, "a");
	restorefix_bytes(x->t->f, GEN_RANDOM, 500)[0] = 2;
	assert_memory_equal(x->t->x->buf.data, x->t->f->own, 500);
}

/* The chunks of a large content are those that it has anywhere else. */
static void cuts(void **state)
{
	struct fixture *x = *state;
	uint64_t chunks = 0;
	uint64_t n = 0;

	add_root(x);
	(void)place(x, 777, 1, false);
	(void)place(x, 2 * MIB, 1, false);
	(void)place(x, 5, 1, false);
	finish(x);
	n = restorefix_entries(x->t->f, "root.tree.didx");
	assert_int_equal(
	    restorefix_entry(x->t->f, "root.tree.didx", 0).end, 777);
	for (uint64_t i = 1; i < n; i++) {
		struct idx_entry one =
		    restorefix_entry(x->t->f, "root.tree.didx", i);

		if (one.end > 777 && one.end <= 777 + 2 * MIB)
			chunks++;
		assert_true(one.end != 777 + 2 * MIB || i == n - 2);
	}
	restorefix_bytes(x->t->f, GEN_RANDOM, 2 * MIB)[0] = 1;
	catalog_close(x->t->x->c);
	x->t->x->c = NULL;
	restorefix_push(x->t->f, "a.raw.didx", x->t->f->own, 2 * MIB);
	assert_int_equal(restorefix_entries(x->t->f, "a.raw.didx"), chunks);
}

static void empty(void **state)
{
	struct fixture *x = *state;

	add_root(x);
	assert_ok(tree_writer_pulse(x->w, &x->t->f->e), &x->t->f->e);
	finish(x);
	assert_int_equal(x->result.content.chunks, 0);
}

#define TEST(t) cmocka_unit_test_setup_teardown(t, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(places),
		TEST(drops),
		TEST(cuts),
		TEST(empty),
	};

	return cmocka_run_group_tests_name("tree_writer", tests, NULL, NULL);
}
