/* SPDX-License-Identifier: MIT */
#include "gc/place.h"

#include "tests/support/test.h"

static void knows_the_tree(void **state)
{
	static const struct {
		const char *path;
		enum place want;
	} cases[] = {
		{ "", PLACE_NAMESPACE },
		{ "host", PLACE_TYPE },
		{ "ct", PLACE_TYPE },
		{ "vm", PLACE_TYPE },
		{ "hosts", PLACE_ODD },
		{ "host/a", PLACE_GROUP },
		{ "host/-a", PLACE_ODD },
		{ "host/a/2027-01-15T08:00:00Z", PLACE_SNAPSHOT },
		{ "host/a/2027-01-15T08:00:00", PLACE_ODD },
		{ "host/a/2027-02-30T08:00:00Z", PLACE_ODD },
		{ "host/a/2027-01-15T08:00:00Z/x", PLACE_ODD },
		{ "host/a/2027-01-15T08:00:00Z/x/y", PLACE_ODD },
		{ "ns", PLACE_NAMESPACES },
		{ "ns/a", PLACE_NAMESPACE },
		{ "ns/a/host", PLACE_TYPE },
		{ "ns/a/ns/b/vm/1/2027-01-15T08:00:00Z", PLACE_SNAPSHOT },
		{ "ns/a b", PLACE_ODD },
		{ "ns/a b/host/a/2027-01-15T08:00:00Z", PLACE_ODD },
		{ "other/host/a/2027-01-15T08:00:00Z", PLACE_ODD },
	};

	(void)state;
	for (size_t i = 0; i < TEST_COUNT(cases); i++) {
		if (place_of(cases[i].path) != cases[i].want)
			fail_msg("'%s'", cases[i].path);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(knows_the_tree),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
