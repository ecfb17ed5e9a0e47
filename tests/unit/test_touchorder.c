/* SPDX-License-Identifier: MIT */
#include "datastore/touchorder.h"

#include <stdlib.h>
#include <string.h>

#include "tests/support/gen.h"
#include "tests/support/test.h"

enum { MANY = 70000 };

enum spread { UNIFORM, ONE_PREFIX, FEW, ALL_EQUAL, SPREADS };

static void fill(struct digest *d, size_t n, enum spread how)
{
	struct gen g;

	gen_seed(&g, n + how);
	for (size_t i = 0; i < n; i++) {
		gen_fill(&g, GEN_RANDOM, d[i].b, sizeof(d[i].b));
		if (how == ONE_PREFIX)
			memset(d[i].b, 7, 2);
		if (how == FEW || how == ALL_EQUAL)
			memset(d[i].b, how == FEW ? (int)(i * 7 % 16) : 3,
			    sizeof(d[i].b));
	}
}

/* Prefixes rise; within one, the order is that of the array. */
static void check_order(
    const struct digest *d, const uint64_t *keys, size_t kept)
{
	for (size_t i = 0; i < kept; i++) {
		size_t at = touchorder_index(keys[i]);

		assert_int_equal(
		    touchorder_rank(keys[i]), digest_prefix(&d[at]));
		assert_true(i == 0 || keys[i - 1] < keys[i]);
	}
}

/* Each digest stands for itself, or for an equal one before it. */
static void check_once(
    const struct digest *d, size_t n, const uint64_t *keys, size_t kept)
{
	struct digest *all = calloc(n + 1, sizeof(*all));
	size_t distinct = 0;

	assert_non_null(all);
	for (size_t i = 0; i < n; i++)
		all[i] = d[i];
	if (n > 0)
		qsort(all, n, sizeof(*all), digest_qsort);
	for (size_t i = 0; i < n; i++)
		distinct += i == 0 || !digest_equal(&all[i - 1], &all[i]);
	assert_int_equal(kept, distinct);
	for (size_t i = 0; i < kept; i++)
		all[i] = d[touchorder_index(keys[i])];
	if (kept > 0)
		qsort(all, kept, sizeof(*all), digest_qsort);
	for (size_t i = 1; i < kept; i++)
		assert_false(digest_equal(&all[i - 1], &all[i]));
	free(all);
}

static void check(size_t n, enum spread how)
{
	struct digest *d = calloc(n + 1, sizeof(*d));
	uint64_t *keys = calloc(n + 1, sizeof(*keys));
	size_t kept = 0;

	assert_non_null(d);
	assert_non_null(keys);
	fill(d, n, how);
	keys[n] = 77; /* not to be touched */
	kept = touchorder_by_prefix(d, n, keys);
	assert_int_equal(keys[n], 77);
	check_order(d, keys, kept);
	check_once(d, n, keys, kept);
	free(keys);
	free(d);
}

static void by_prefix_and_each_once(void **state)
{
	static const size_t sizes[] = { 0, 1, 2, 47, 48, 49, 63, 64, 65, 200,
		1000, MANY };

	(void)state;
	for (size_t i = 0; i < TEST_COUNT(sizes); i++) {
		for (enum spread how = UNIFORM; how < SPREADS; how++)
			check(sizes[i], how);
	}
}

/* Of equal ones the first stands, however many share its prefix. */
static void the_first_of_equal_ones_stays(void **state)
{
	static const size_t sizes[] = { 10, 300 };
	struct digest d[600];
	uint64_t keys[600];

	(void)state;
	for (size_t s = 0; s < TEST_COUNT(sizes); s++) {
		size_t n = sizes[s];

		fill(d, n, ONE_PREFIX);
		memcpy(d + n, d, n * sizeof(*d));
		assert_int_equal(touchorder_by_prefix(d, 2 * n, keys), n);
		for (size_t i = 0; i < n; i++)
			assert_int_equal(touchorder_index(keys[i]), i);
	}
}

static void sorts_by_rank_then_number(void **state)
{
	uint64_t *keys = calloc(MANY, sizeof(*keys));
	struct gen g;

	(void)state;
	assert_non_null(keys);
	gen_seed(&g, 3);
	for (size_t n = 1; n <= MANY; n = n * 5 + 1) {
		for (unsigned wide = 0; wide < 2; wide++) {
			for (size_t i = 0; i < n; i++)
				keys[i] = touchorder_key(
				    gen_below(
					&g, wide ? TOUCHORDER_RANK_MAX : 100),
				    i);
			touchorder_sort(keys, n);
			for (size_t i = 1; i < n; i++)
				assert_true(keys[i - 1] < keys[i]);
		}
	}
	free(keys);
}

static void a_key_has_both(void **state)
{
	uint64_t key = touchorder_key(TOUCHORDER_RANK_MAX, TOUCHORDER_MAX - 1);

	(void)state;
	assert_true(key == UINT64_MAX);
	key = touchorder_key(5, 9);
	assert_int_equal(touchorder_rank(key), 5);
	assert_int_equal(touchorder_index(key), 9);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(by_prefix_and_each_once),
		cmocka_unit_test(the_first_of_equal_ones_stays),
		cmocka_unit_test(sorts_by_rank_then_number),
		cmocka_unit_test(a_key_has_both),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
