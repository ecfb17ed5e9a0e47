/* SPDX-License-Identifier: MIT */
/*
 * filter: run only those cases of a test program whose name matches the
 * pattern in CAIRN_TEST_FILTER, where that is set and not empty.
 */
#include <stdlib.h>

#include "tests/support/test.h"

__attribute__((constructor)) static void set_filter(void)
{
	const char *pattern = getenv("CAIRN_TEST_FILTER");

	if (pattern != NULL && pattern[0] != '\0')
		cmocka_set_test_filter(pattern);
}
