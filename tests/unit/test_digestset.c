/* SPDX-License-Identifier: MIT */
#include "datastore/digestset.h"

#include "tests/support/test.h"

static void test_add(void **state)
{
	enum { N = 5000 };
	struct digestset s = DIGESTSET_INIT;
	struct err e = ERR_INIT;
	struct digest d = { .b = { 0 } };
	bool added = false;

	(void)state;
	assert_false(digestset_contains(&s, &d));
	for (int round = 0; round < 2; round++) {
		for (size_t i = 0; i < N; i++) {
			assert_ok(digest_of(&i, sizeof(i), &d, &e), &e);
			assert_int_equal(
			    digestset_contains(&s, &d), round == 1);
			assert_ok(digestset_add(&s, &d, &added, &e), &e);
			assert_int_equal(added, round == 0);
			assert_true(digestset_contains(&s, &d));
		}
	}
	assert_int_equal(s.n, N);
	digestset_release(&s);
	assert_false(digestset_contains(&s, &d));
}

/* All 32 bytes are compared; the digest of free slots is one as well. */
static void test_whole(void **state)
{
	struct digestset s = DIGESTSET_INIT;
	struct err e = ERR_INIT;
	struct digest d = { .b = { 0 } };
	bool added = false;

	(void)state;
	assert_ok(digestset_add(&s, &d, &added, &e), &e);
	assert_true(added);
	assert_true(digestset_contains(&s, &d));
	for (size_t i = 0; i < DIGEST_SIZE; i++) {
		d.b[i] = 1;
		assert_false(digestset_contains(&s, &d));
		assert_ok(digestset_add(&s, &d, &added, &e), &e);
		assert_true(added);
		d.b[i] = 0;
	}
	assert_ok(digestset_add(&s, &d, &added, &e), &e);
	assert_false(added);
	digestset_release(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_add),
		cmocka_unit_test(test_whole),
	};

	return cmocka_run_group_tests_name("digestset", tests, NULL, NULL);
}
