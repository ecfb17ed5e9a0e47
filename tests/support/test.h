/* SPDX-License-Identifier: MIT */
/*
 * test: cmocka, and how a test looks at a `struct err`.
 *
 * Include this instead of <cmocka.h>: cmocka 1.1 wants four headers before
 * itself.  A failed assertion jumps out of the test: what has to be released
 * hangs on the fixture's state and goes in its teardown.
 */
#ifndef CAIRN_TESTS_SUPPORT_TEST_H
#define CAIRN_TESTS_SUPPORT_TEST_H

/* clang-format off */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */

#include <string.h>

#include "datastore/base/err.h"

#define TEST_COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* rc is 0; else the message is shown. */
#define assert_ok(rc, e) test_ok((rc), (e), __FILE__, __LINE__)

/* rc and *e are this code, and the message contains this text. */
#define assert_err(rc, e, want, text) \
	test_err((rc), (e), (want), (text), __FILE__, __LINE__)

static inline void test_ok(
    int rc, const struct err *e, const char *file, int line)
{
	if (rc >= 0)
		return;
	print_error("code %d: %s\n", rc, e->msg);
	_fail(file, line);
}

static inline void test_err(int rc, const struct err *e, int want,
    const char *text, const char *file, int line)
{
	if (rc == want && e->code == want && strstr(e->msg, text) != NULL)
		return;
	if (rc >= 0)
		print_error("succeeded; want code %d, '%s'\n", want, text);
	else
		print_error("returned %d, code %d: %s; want code %d, '%s'\n",
		    rc, e->code, e->msg, want, text);
	_fail(file, line);
}

#endif
