/* SPDX-License-Identifier: MIT */
#include <stdio.h>

#include "datastore/store.h"
#include "tests/support/test.h"

#define PREFIX 0xbb9fU
#define HEX                                \
	"bb9f8df61474d25e71fa00722318cd38" \
	"7396ca1736605e1248821cc0de3d3af8"

static enum store_kind kind_of(const char *name)
{
	struct digest d = { { 0 } };
	struct digest none = { { 0 } };
	struct digest want;
	enum store_kind kind = store_name_kind(name, PREFIX, &d);

	assert_true(digest_parse(HEX, 64, &want));
	assert_true(digest_equal(&d, kind == STORE_OTHER ? &none : &want));
	return kind;
}

static void test_path(void **state)
{
	char path[STORE_CHUNK_PATH_SIZE];
	struct digest d;

	(void)state;
	assert_true(digest_parse(HEX, 64, &d));
	store_chunk_path(&d, path);
	assert_string_equal(path, "bb9f/" HEX);
	assert_int_equal(sizeof("bb9f/" HEX), STORE_CHUNK_PATH_SIZE);
}

static void test_prefixes(void **state)
{
	static const char *const others[] = { "", ".", "..", "abc", "abcde",
		"ABCD", "0x1a", "abcg", "abc/", "abc`", "abc:" };
	unsigned prefix = 1;

	(void)state;
	assert_true(store_prefix_of("0000", &prefix));
	assert_int_equal(prefix, 0);
	assert_true(store_prefix_of("09af", &prefix));
	assert_int_equal(prefix, 0x09af);
	assert_true(store_prefix_of("ffff", &prefix));
	assert_int_equal(prefix, STORE_PREFIXES - 1);
	for (size_t i = 0; i < TEST_COUNT(others); i++)
		assert_false(store_prefix_of(others[i], &prefix));
	assert_int_equal(prefix, STORE_PREFIXES - 1);
}

static void test_kinds(void **state)
{
	(void)state;
	assert_int_equal(kind_of(HEX), STORE_CHUNK);
	assert_int_equal(kind_of(HEX ".0.bad"), STORE_BAD);
	assert_int_equal(kind_of(HEX ".9.bad"), STORE_BAD);
	assert_int_equal(kind_of(HEX ".tmp"), STORE_TMP);
	assert_int_equal(kind_of(HEX ".tmp_AbCdE0"), STORE_TMP);
	assert_int_equal(kind_of(HEX ".tmp_zzzzzz"), STORE_TMP);
	assert_true(sizeof(HEX ".tmp_AbCdE0") <= STORE_NAME_SIZE);
}

static void test_others(void **state)
{
	static const char *const names[] = {
		"",
		".",
		"..",
		"bb9f",
		HEX "0",
		HEX ".",
		HEX ".bad",
		HEX ".a.bad",
		HEX ".10.bad",
		HEX ".0.bad ",
		HEX ".0.bad.0.bad",
		HEX "..0.bad",
		HEX ".tmp_",
		HEX ".tmp_AbCdE",
		HEX ".tmp_AbCdE00",
		HEX ".tmp_AbCd-0",
		HEX ".tmpx",
		HEX ".tmp.0.bad",
		HEX ".using",
		HEX "\n",
		"bb9f8df61474d25e71fa00722318cd38"
		"7396ca1736605e1248821cc0de3d3af",
		"BB9F8DF61474D25E71FA00722318CD38"
		"7396CA1736605E1248821CC0DE3D3AF8",
		"bb9f8df61474d25e71fa00722318cd38"
		"7396ca1736605e1248821cc0de3d3af8/x",
		"bb9f8df61474d25e71fa00722318cd3g"
		"7396ca1736605e1248821cc0de3d3af8",
		/* Of another prefix. */
		"bb9e8df61474d25e71fa00722318cd38"
		"7396ca1736605e1248821cc0de3d3af8",
		"ba9f8df61474d25e71fa00722318cd38"
		"7396ca1736605e1248821cc0de3d3af8.tmp",
	};

	(void)state;
	for (size_t i = 0; i < TEST_COUNT(names); i++)
		assert_int_equal(kind_of(names[i]), STORE_OTHER);
}

/* A name as long as a directory allows, and longer. */
static void test_long_names(void **state)
{
	char name[4096];

	(void)state;
	memset(name, '0', sizeof(name));
	name[sizeof(name) - 1] = '\0';
	assert_int_equal(kind_of(name), STORE_OTHER);
	(void)snprintf(name, sizeof(name), "%s%0200d", HEX, 0);
	assert_int_equal(kind_of(name), STORE_OTHER);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_path),
		cmocka_unit_test(test_prefixes),
		cmocka_unit_test(test_kinds),
		cmocka_unit_test(test_others),
		cmocka_unit_test(test_long_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
