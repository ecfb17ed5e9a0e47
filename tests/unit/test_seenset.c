/* SPDX-License-Identifier: MIT */
#include "datastore/seenset.h"

#include <stdlib.h>

#include "tests/support/gen.h"
#include "tests/support/test.h"

static struct digest random_digest(struct gen *g)
{
	struct digest d;

	gen_fill(g, GEN_RANDOM, d.b, sizeof(d.b));
	return d;
}

static struct seenset *make(size_t capacity)
{
	struct seenset *s = NULL;
	struct err e = ERR_INIT;

	assert_ok(seenset_new(capacity, &s, &e), &e);
	return s;
}

static void knows_what_was_added(void **state)
{
	struct seenset *s = make(64);
	struct digest a = { .b = { 1 } };
	struct digest b = { .b = { 2 } };

	(void)state;
	assert_false(seenset_contains(s, &a));
	seenset_add(s, &a);
	assert_true(seenset_contains(s, &a));
	assert_false(seenset_contains(s, &b));
	seenset_free(s);
}

/* A slot that was never filled holds zeros, and so does this digest. */
static void zeros_are_not_known_before_they_are_added(void **state)
{
	struct seenset *s = make(64);
	struct digest zero = { .b = { 0 } };

	(void)state;
	assert_false(seenset_contains(s, &zero));
	seenset_add(s, &zero);
	assert_true(seenset_contains(s, &zero));
	seenset_free(s);
}

/* All 32 bytes count: one that differs in any byte is another. */
static void every_byte_counts(void **state)
{
	struct seenset *s = make(4096);
	struct gen g;
	struct digest d;

	(void)state;
	gen_seed(&g, 1);
	d = random_digest(&g);
	seenset_add(s, &d);
	for (size_t i = 0; i < sizeof(d.b); i++) {
		for (unsigned bit = 0; bit < 8; bit++) {
			struct digest other = d;

			other.b[i] ^= (uint8_t)(1U << bit);
			assert_false(seenset_contains(s, &other));
		}
	}
	seenset_free(s);
}

/* It forgets, but never knows what it was not told, and holds its size. */
static void never_lies_when_full(void **state)
{
	enum { CAPACITY = 256, N = 4096 };
	struct seenset *s = make(CAPACITY);
	struct gen g;
	struct digest *added = calloc(N, sizeof(*added));
	unsigned known = 0;

	(void)state;
	assert_non_null(added);
	gen_seed(&g, 2);
	for (size_t i = 0; i < N; i++) {
		added[i] = random_digest(&g);
		seenset_add(s, &added[i]);
		/* The newest one is known whatever had to go. */
		assert_true(seenset_contains(s, &added[i]));
	}
	for (size_t i = 0; i < N; i++)
		known += seenset_contains(s, &added[i]);
	assert_in_range(known, CAPACITY / 2, CAPACITY);
	for (size_t i = 0; i < N; i++) {
		struct digest d = random_digest(&g);

		assert_false(seenset_contains(s, &d));
	}
	free(added);
	seenset_free(s);
}

/* All into one set: the bytes that choose it are the same. */
static void forgets_the_oldest_of_a_set(void **state)
{
	struct seenset *s = make(4096);
	struct digest d[6];

	(void)state;
	for (size_t i = 0; i < 6; i++) {
		d[i] = (struct digest){ .b = { (uint8_t)i } };
		seenset_add(s, &d[i]);
	}
	assert_false(seenset_contains(s, &d[0]));
	assert_false(seenset_contains(s, &d[1]));
	for (size_t i = 2; i < 6; i++)
		assert_true(seenset_contains(s, &d[i]));
	/* What is known takes no second place. */
	seenset_add(s, &d[5]);
	assert_true(seenset_contains(s, &d[2]));
	seenset_free(s);
}

static void smallest_capacities(void **state)
{
	(void)state;
	for (size_t capacity = 0; capacity < 10; capacity++) {
		struct seenset *s = make(capacity);
		struct digest d = { .b = { 9 } };

		seenset_add(s, &d);
		assert_true(seenset_contains(s, &d));
		seenset_free(s);
	}
	seenset_free(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(knows_what_was_added),
		cmocka_unit_test(zeros_are_not_known_before_they_are_added),
		cmocka_unit_test(every_byte_counts),
		cmocka_unit_test(never_lies_when_full),
		cmocka_unit_test(forgets_the_oldest_of_a_set),
		cmocka_unit_test(smallest_capacities),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
