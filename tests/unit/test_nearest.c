/* SPDX-License-Identifier: MIT */
#include "datastore/base/nearest.h"

#include <string.h>

#include "tests/support/test.h"

static const char *const words[] = { "push", "list", "ls", "du", "groups",
	"keep-weekly", "keep-last", "host/web1", "host/web2" };

static void assert_nearest(const char *typed, const char *want)
{
	struct nearest n;

	nearest_init(&n, typed);
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		nearest_try(&n, words[i]);
	if (want == NULL)
		assert_null(nearest_best(&n));
	else
		assert_string_equal(nearest_best(&n), want);
}

static void slips_are_understood(void **state)
{
	(void)state;
	assert_nearest("pusj", "push");
	assert_nearest("lst", "list");
	assert_nearest("group", "groups");
	assert_nearest("host/web", "host/web1");
	assert_nearest("host/web2", "host/web2");
	assert_nearest("keep-week", "keep-weekly");
}

static void what_is_like_nothing_is_left_alone(void **state)
{
	(void)state;
	assert_nearest("", NULL);
	assert_nearest("xx", NULL);
	assert_nearest("frobnicate", NULL);
	assert_nearest("vm/web1", NULL);
	assert_nearest("ho", NULL);
}

static void the_beginning_of_a_long_word_is_enough(void **state)
{
	(void)state;
	assert_nearest("keep-w", "keep-weekly");
	assert_nearest("hos", "host/web1");
}

static void long_words_are_like_none(void **state)
{
	char a[2 * NEAREST_SIZE];
	char b[2 * NEAREST_SIZE];
	struct nearest n;

	(void)state;
	memset(a, 'a', sizeof(a));
	memset(b, 'a', sizeof(b));
	for (size_t len = NEAREST_SIZE - 2; len < NEAREST_SIZE + 2; len++) {
		a[len] = '\0';
		b[len] = '\0';
		nearest_init(&n, a);
		nearest_try(&n, b);
		if (len < NEAREST_SIZE)
			assert_string_equal(nearest_best(&n), b);
		else
			assert_null(nearest_best(&n));
		a[len] = 'a';
		b[len] = 'a';
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(slips_are_understood),
		cmocka_unit_test(what_is_like_nothing_is_left_alone),
		cmocka_unit_test(the_beginning_of_a_long_word_is_enough),
		cmocka_unit_test(long_words_are_like_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
