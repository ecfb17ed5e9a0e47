/* SPDX-License-Identifier: MIT */
#include "gc/livepass.h"

#include <stdlib.h>

#include "gc/digestsort.h"
#include "tests/support/gen.h"
#include "tests/support/test.h"

static const struct digest zero = { .b = { 0 } };

static struct livepass *make(size_t capacity)
{
	struct livepass *p = NULL;
	struct err e = ERR_INIT;

	assert_ok(livepass_new(capacity, &p, &e), &e);
	return p;
}

static struct digest number(unsigned n)
{
	struct digest d = { .b = { (uint8_t)(n >> 8), (uint8_t)n } };

	return d;
}

static void one_pass_where_all_fit(void **state)
{
	struct livepass *p = make(3);
	struct digest hi = zero;
	bool is_end = false;

	(void)state;
	livepass_begin(p, &zero);
	for (unsigned i = 0; i < 1000; i++) {
		struct digest d = number(i % 3);

		livepass_add(p, &d);
	}
	livepass_end(p, &hi, &is_end);
	assert_true(is_end);
	assert_int_equal(livepass_count(p), 3);
	for (unsigned i = 0; i < 6; i++) {
		struct digest d = number(i);

		assert_int_equal(livepass_contains(p, &d), i < 3);
	}
	livepass_free(p);
}

static void nothing_is_a_set_too(void **state)
{
	struct livepass *p = make(1);
	struct digest hi = zero;
	bool is_end = false;

	(void)state;
	livepass_begin(p, &zero);
	livepass_end(p, &hi, &is_end);
	assert_true(is_end);
	assert_int_equal(livepass_count(p), 0);
	assert_false(livepass_contains(p, &zero));
	livepass_free(p);
	livepass_free(NULL);
}

/* One too many: the greatest is where the next pass begins. */
static void what_does_not_fit_is_the_end_of_the_range(void **state)
{
	struct livepass *p = make(3);
	struct digest hi = zero;
	struct digest greatest = number(3);
	bool is_end = true;

	(void)state;
	livepass_begin(p, &zero);
	for (unsigned i = 4; i > 0; i--) {
		struct digest d = number(i - 1);

		livepass_add(p, &d);
	}
	livepass_end(p, &hi, &is_end);
	assert_false(is_end);
	assert_true(digest_equal(&hi, &greatest));
	assert_false(livepass_contains(p, &greatest));
	livepass_begin(p, &hi);
	for (unsigned i = 0; i < 4; i++) {
		struct digest d = number(i);

		livepass_add(p, &d);
	}
	livepass_end(p, &hi, &is_end);
	assert_true(is_end);
	assert_int_equal(livepass_count(p), 1);
	assert_true(livepass_contains(p, &greatest));
	livepass_free(p);
}

/*
 * Passes over the same digests, in any order each time, find each of them in
 * exactly one range, whatever the memory.
 */
static void check_passes(size_t capacity, size_t n, uint64_t seed)
{
	struct digest *all = calloc(n, sizeof(*all));
	struct livepass *p = make(capacity);
	struct digest lo = zero;
	struct digest hi = zero;
	struct gen g;
	bool is_end = false;
	size_t found = 0;
	size_t passes = 0;
	size_t distinct = 0;

	assert_non_null(all);
	gen_seed(&g, seed);
	for (size_t i = 0; i < n; i++)
		all[i] = number((unsigned)gen_below(&g, 2 * n));
	while (!is_end) {
		livepass_begin(p, &lo);
		for (size_t i = 0; i < 3 * n; i++)
			livepass_add(p, &all[gen_below(&g, n)]);
		for (size_t i = 0; i < n; i++)
			livepass_add(p, &all[i]);
		livepass_end(p, &hi, &is_end);
		assert_true(livepass_count(p) <= capacity);
		for (size_t i = 0; i < n; i++) {
			bool within = digest_compare(&all[i], &lo) >= 0 &&
			    (is_end || digest_compare(&all[i], &hi) < 0);

			assert_int_equal(livepass_contains(p, &all[i]), within);
		}
		found += livepass_count(p);
		passes++;
		lo = hi;
	}
	digest_sort(all, n);
	distinct = digest_unique(all, n);
	assert_int_equal(found, distinct);
	assert_int_equal(passes, (distinct + capacity - 1) / capacity);
	livepass_free(p);
	free(all);
}

static void passes_find_each_digest_once(void **state)
{
	static const size_t capacities[] = { 1, 2, 3, 10, 63, 64, 65, 100, 299,
		1000 };

	(void)state;
	for (size_t i = 0; i < TEST_COUNT(capacities); i++)
		check_passes(capacities[i], 300, i);
}

static void unseen_are_listed_in_order(void **state)
{
	struct livepass *p = make(20);
	struct digest hi = zero;
	bool is_end = false;
	size_t at = 0;

	(void)state;
	livepass_begin(p, &zero);
	for (unsigned i = 0; i < 20; i++) {
		struct digest d = number(i);

		livepass_add(p, &d);
	}
	livepass_end(p, &hi, &is_end);
	for (unsigned i = 0; i < 40; i++) {
		struct digest d = number(i);

		if (i != 5 && i != 17)
			livepass_see(p, &d);
	}
	for (unsigned want = 5; want <= 17; want += 12) {
		struct digest d = number(want);
		const struct digest *got = livepass_next_unseen(p, &at);

		assert_non_null(got);
		assert_true(digest_equal(got, &d));
	}
	assert_null(livepass_next_unseen(p, &at));
	/* The next pass knows nothing of it. */
	livepass_begin(p, &zero);
	hi = number(1);
	livepass_add(p, &hi);
	livepass_end(p, &hi, &is_end);
	at = 0;
	assert_non_null(livepass_next_unseen(p, &at));
	livepass_free(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_pass_where_all_fit),
		cmocka_unit_test(nothing_is_a_set_too),
		cmocka_unit_test(what_does_not_fit_is_the_end_of_the_range),
		cmocka_unit_test(passes_find_each_digest_once),
		cmocka_unit_test(unseen_are_listed_in_order),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
