/* SPDX-License-Identifier: MIT */
#include "tests/support/test.h"

#include <errno.h>
#include <stdio.h>

#include "datastore/base/err.h"

static void set_fills_all(void **state)
{
	struct err e = { .code = 1, .sys_errno = 77, .msg = "old" };

	(void)state;
	assert_int_equal(
	    err_set(&e, ERR_CORRUPT, "'%s': %d bytes, want %d", "a.fidx", 7, 8),
	    ERR_CORRUPT);
	assert_int_equal(e.code, ERR_CORRUPT);
	assert_int_equal(e.sys_errno, 0);
	assert_string_equal(e.msg, "'a.fidx': 7 bytes, want 8");
}

static void sys_takes_errno(void **state)
{
	struct err e = ERR_INIT;

	(void)state;
	errno = ENOSPC;
	assert_int_equal(err_sys(&e, "write '%s'", "x"), ERR_SYS);
	assert_int_equal(e.sys_errno, ENOSPC);
	assert_string_equal(e.msg, "write 'x': No space left on device");
	assert_true(err_is_sys(&e, ENOSPC));
	assert_false(err_is_sys(&e, EIO));
}

static void sys_knows_no_memory(void **state)
{
	struct err e = ERR_INIT;

	(void)state;
	errno = ENOMEM;
	assert_int_equal(err_sys(&e, "read"), ERR_NOMEM);
	assert_int_equal(e.sys_errno, 0);
	assert_false(err_is_sys(&e, ENOMEM));
	assert_int_equal(err_nomem(&e), ERR_NOMEM);
	assert_int_equal(e.code, ERR_NOMEM);
}

static void sys_names_unknown_errno(void **state)
{
	struct err e = ERR_INIT;

	(void)state;
	errno = 4095;
	assert_int_equal(err_sys(&e, "read"), ERR_SYS);
	assert_non_null(strstr(e.msg, "4095"));
}

static void prefix_goes_in_front(void **state)
{
	struct err e = ERR_INIT;

	(void)state;
	errno = EIO;
	(void)err_sys(&e, "read '%s'", "y");
	err_prefix(&e, "mark '%s'", "vm/1");
	err_prefix(&e, "gc");
	assert_string_equal(
	    e.msg, "gc: mark 'vm/1': read 'y': Input/output error");
	assert_int_equal(e.code, ERR_SYS);
	assert_int_equal(e.sys_errno, EIO);
}

static void too_long_loses_its_end(void **state)
{
	char text[2 * ERR_MSG_SIZE];
	struct err e = ERR_INIT;

	(void)state;
	memset(text, 'z', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	(void)err_set(&e, ERR_LIMIT, "%s", text);
	assert_int_equal(strlen(e.msg), ERR_MSG_SIZE - 1);
	err_prefix(&e, "front");
	assert_int_equal(strlen(e.msg), ERR_MSG_SIZE - 1);
	assert_memory_equal(e.msg, "front: zzz", 10);
	err_prefix(&e, "%s", text);
	assert_int_equal(strlen(e.msg), ERR_MSG_SIZE - 1);
	errno = EIO;
	(void)err_sys(&e, "%s", text);
	assert_int_equal(strlen(e.msg), ERR_MSG_SIZE - 1);
}

static void message_is_one_line(void **state)
{
	struct err e = ERR_INIT;

	(void)state;
	(void)err_set(&e, ERR_INVALID, "a\nb\tc\rd\033[2Je\177\303\244");
	assert_string_equal(e.msg, "a b c d?[2Je?\303\244");
	err_prefix(&e, "p\nq");
	assert_memory_equal(e.msg, "p q: a b", 8);
}

static void suffix_goes_behind(void **state)
{
	struct err e = ERR_INIT;
	char longer[ERR_MSG_SIZE + 10];

	(void)state;
	(void)err_set(&e, ERR_CORRUPT, "it is bad");
	err_suffix(&e, "; do %s\nabout it", "that");
	assert_string_equal(e.msg, "it is bad; do that about it");
	assert_int_equal(e.code, ERR_CORRUPT);
	memset(longer, 'x', sizeof(longer));
	longer[sizeof(longer) - 1] = '\0';
	err_suffix(&e, "%s", longer);
	assert_int_equal(strlen(e.msg), ERR_MSG_SIZE - 1);
	assert_memory_equal(e.msg, "it is bad; do that about itxxx", 30);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(set_fills_all),
		cmocka_unit_test(sys_takes_errno),
		cmocka_unit_test(sys_knows_no_memory),
		cmocka_unit_test(sys_names_unknown_errno),
		cmocka_unit_test(prefix_goes_in_front),
		cmocka_unit_test(too_long_loses_its_end),
		cmocka_unit_test(message_is_one_line),
		cmocka_unit_test(suffix_goes_behind),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
