/* SPDX-License-Identifier: MIT */
#include "gc/digestsort.h"

#include <stdlib.h>

#include "tests/support/gen.h"
#include "tests/support/test.h"

enum { MANY = 70000 };

/* How the digests of a test are spread. */
enum spread {
	UNIFORM,
	ONE_PREFIX, /* the first two bytes are the same */
	FEW,        /* 16 different ones */
	ALL_EQUAL,
	RISING,
	FALLING,
	LAST_BYTES, /* only the last two bytes differ */
	SPREADS
};

static void fill(struct digest *d, size_t n, enum spread how)
{
	struct gen g;

	gen_seed(&g, n);
	for (size_t i = 0; i < n; i++) {
		size_t k = how == FALLING ? n - i : i;

		gen_fill(&g, GEN_RANDOM, d[i].b, sizeof(d[i].b));
		if (how == ONE_PREFIX)
			memset(d[i].b, 7, 2);
		if (how == FEW || how == ALL_EQUAL)
			memset(d[i].b, how == FEW ? (int)(i * 7 % 16) : 3,
			    sizeof(d[i].b));
		if (how == LAST_BYTES)
			memset(d[i].b, 0, sizeof(d[i].b) - 2);
		if (how == RISING || how == FALLING) {
			for (size_t b = 0; b < 8; b++)
				d[i].b[b] = (uint8_t)(k >> (56 - 8 * b));
		}
	}
}

/* As qsort with the comparison of digests has it. */
static void check(size_t n, enum spread how)
{
	struct digest *d = calloc(n + 1, sizeof(*d));
	struct digest *want = calloc(n + 1, sizeof(*want));

	assert_non_null(d);
	assert_non_null(want);
	fill(d, n, how);
	memset(d[n].b, 0xee, sizeof(d[n].b)); /* not to be touched */
	memcpy(want, d, (n + 1) * sizeof(*d));
	if (n > 0)
		qsort(want, n, sizeof(*want), digest_qsort);
	digest_sort(d, n);
	assert_true(memcmp(d, want, (n + 1) * sizeof(*d)) == 0);
	free(want);
	free(d);
}

static void sorts_as_qsort_does(void **state)
{
	static const size_t sizes[] = { 0, 1, 2, 3, 23, 24, 25, 26, 63, 64, 65,
		100, 257, 1000, 5000 };

	(void)state;
	for (size_t i = 0; i < TEST_COUNT(sizes); i++) {
		for (enum spread how = UNIFORM; how < SPREADS; how++)
			check(sizes[i], how);
	}
}

static void sorts_many(void **state)
{
	(void)state;
	for (enum spread how = UNIFORM; how < SPREADS; how++)
		check(MANY, how);
}

static void unique_keeps_one_of_each(void **state)
{
	struct digest d[] = { { .b = { 1 } }, { .b = { 1 } }, { .b = { 2 } },
		{ .b = { 3 } }, { .b = { 3 } }, { .b = { 3 } } };

	(void)state;
	assert_int_equal(digest_unique(d, 0), 0);
	assert_int_equal(digest_unique(d, 1), 1);
	assert_int_equal(digest_unique(d, 6), 3);
	for (size_t i = 0; i < 3; i++)
		assert_int_equal(d[i].b[0], i + 1);
}

static void lower_bound_is_the_first_not_below(void **state)
{
	struct digest d[] = { { .b = { 2 } }, { .b = { 4 } }, { .b = { 4 } },
		{ .b = { 6 } } };
	static const size_t want[] = { 0, 0, 0, 1, 1, 3, 3, 4 };

	(void)state;
	for (size_t i = 0; i < TEST_COUNT(want); i++) {
		struct digest key = { .b = { (uint8_t)i } };

		assert_int_equal(digest_lower_bound(d, 4, &key), want[i]);
		assert_int_equal(digest_lower_bound(d, 0, &key), 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sorts_as_qsort_does),
		cmocka_unit_test(sorts_many),
		cmocka_unit_test(unique_keeps_one_of_each),
		cmocka_unit_test(lower_bound_is_the_first_not_below),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
