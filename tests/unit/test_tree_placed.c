/* SPDX-License-Identifier: MIT */
/*
 * tree_placed: what was added is found; sizes that never were are not; the
 * oldest makes room.
 */
#include "index/tree_placed.h"
#include "tests/support/test.h"

static struct digest digest(uint64_t i)
{
	struct digest d = { .b = { 0 } };

	/* Many in the same bucket. */
	d.b[0] = (uint8_t)(i % 3);
	for (unsigned k = 0; k < 8; k++)
		d.b[8 + k] = (uint8_t)(i >> (8 * k));
	return d;
}

static int setup(void **state)
{
	struct err e = ERR_INIT;
	struct tree_placed *t = NULL;

	if (tree_placed_new(8192, &t, &e) < 0)
		return -1;
	*state = t;
	return 0;
}

static int teardown(void **state)
{
	tree_placed_free(*state);
	return 0;
}

static void add(struct tree_placed *t, uint64_t i, uint64_t size)
{
	struct digest d = digest(i);
	struct err e = ERR_INIT;

	assert_ok(tree_placed_add(t, &d, size, 1000 + i, &e), &e);
}

static bool has(struct tree_placed *t, uint64_t i, uint64_t size)
{
	struct digest d = digest(i);
	uint64_t pos = 0;

	if (!tree_placed_find(t, &d, size, &pos))
		return false;
	assert_int_equal(pos, 1000 + i);
	return true;
}

static void finds(void **state)
{
	struct tree_placed *t = *state;

	assert_false(has(t, 1, 5));
	for (uint64_t i = 0; i < 8000; i++)
		add(t, i, 5 + i);
	for (uint64_t i = 0; i < 8000; i++) {
		assert_true(has(t, i, 5 + i));
		assert_false(has(t, i, 6 + i));
	}
	assert_false(has(t, 8000, 8005));
}

/* Whole digests count. */
static void compares_all(void **state)
{
	struct tree_placed *t = *state;
	struct digest d = digest(7);
	struct err e = ERR_INIT;
	uint64_t pos = 0;

	assert_ok(tree_placed_add(t, &d, 9, 1, &e), &e);
	d.b[DIGEST_SIZE - 1] ^= 1;
	assert_false(tree_placed_find(t, &d, 9, &pos));
}

static void makes_room(void **state)
{
	struct tree_placed *t = *state;

	for (uint64_t i = 0; i < 20000; i++)
		add(t, i, 5);
	for (uint64_t i = 0; i < 20000; i++)
		assert_int_equal(has(t, i, 5), i >= 20000 - 8192);
}

static void knows_sizes(void **state)
{
	struct tree_placed *t = *state;
	unsigned mistaken = 0;

	for (uint64_t i = 0; i < 1000; i++)
		add(t, i, (1U << 20) + 7 * i);
	for (uint64_t i = 0; i < 1000; i++) {
		assert_true(tree_placed_has_size(t, (1U << 20) + 7 * i));
		mistaken += tree_placed_has_size(t, (1U << 20) + 7 * i + 3);
	}
	assert_in_range(mistaken, 0, 20);
	/* It is not worth it. */
	assert_true(tree_placed_has_size(t, 1000));
}

#define TEST(t) cmocka_unit_test_setup_teardown(t, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(finds),
		TEST(compares_all),
		TEST(makes_room),
		TEST(knows_sizes),
	};

	return cmocka_run_group_tests_name("tree_placed", tests, NULL, NULL);
}
