/* SPDX-License-Identifier: MIT */
#include <errno.h>

#include "datastore/base/uuid.h"
#include "tests/support/fault.h"
#include "tests/support/test.h"

#define TEXT "00112233-4455-6677-8899-aabbccddeeff"

static void test_text(void **state)
{
	char text[UUID_TEXT_SIZE];
	uint8_t b[UUID_SIZE];

	(void)state;
	for (size_t i = 0; i < sizeof(b); i++)
		b[i] = (uint8_t)(i * 0x11);
	uuid_text(b, text);
	assert_string_equal(text, TEXT);
	assert_int_equal(sizeof(TEXT), UUID_TEXT_SIZE);
}

static void test_is_text(void **state)
{
	static const char *const others[] = {
		"00112233-4455-6677-8899-AABBCCDDEEFF",
		"00112233-4455-6677-8899aabbccddeefff",
		"001122334-455-6677-8899-aabbccddeeff",
		"00112233-4455-6677-8899-aabbccddeefg",
		"00112233-4455-6677-8899-aabbccddee/f",
	};

	(void)state;
	assert_true(uuid_is_text(TEXT, 36));
	assert_true(uuid_is_text(TEXT ".tmp", 36));
	assert_false(uuid_is_text(TEXT "0", 37));
	assert_false(uuid_is_text(TEXT, 35));
	assert_false(uuid_is_text("", 0));
	for (size_t i = 0; i < TEST_COUNT(others); i++)
		assert_false(uuid_is_text(others[i], strlen(others[i])));
}

/* Version 4, variant 10, and never the same. */
static void test_make(void **state)
{
	char before[UUID_TEXT_SIZE] = "";
	struct err e = ERR_INIT;

	(void)state;
	for (unsigned i = 0; i < 50; i++) {
		char text[UUID_TEXT_SIZE];

		assert_ok(uuid_make(text, &e), &e);
		assert_true(uuid_is_text(text, strlen(text)));
		assert_int_equal(text[14], '4');
		assert_non_null(strchr("89ab", text[19]));
		assert_string_not_equal(text, before);
		memcpy(before, text, sizeof(text));
	}
}

static void test_make_fails(void **state)
{
	char text[UUID_TEXT_SIZE] = "as it was";
	struct err e = ERR_INIT;

	(void)state;
	fault_install();
	fault_once(FAULT_BIT(FAULT_GETRANDOM), 1, EIO);
	assert_err(uuid_make(text, &e), &e, ERR_SYS, "");
	fault_uninstall();
	assert_string_equal(text, "as it was");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_text),
		cmocka_unit_test(test_is_text),
		cmocka_unit_test(test_make),
		cmocka_unit_test(test_make_fails),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
