/* SPDX-License-Identifier: MIT */
#include "datastore/backupid.h"

#include <stdlib.h>

#include "tests/support/test.h"

static const struct backup_ns root_ns = { .name = "" };

/* n times c, then a NUL. */
static const char *repeat(char *out, char c, size_t n)
{
	memset(out, c, n);
	out[n] = '\0';
	return out;
}

static void test_safe(void **state)
{
	static const struct {
		const char *name;
		bool safe;
	} rows[] = {
		{ "a", true },
		{ "Z9", true },
		{ "_", true },
		{ "0", true },
		{ "a.b-c_d", true },
		{ "a..b", true },
		{ "a.", true },
		{ "", false },
		{ ".", false },
		{ "..", false },
		{ ".a", false },
		{ "-a", false },
		{ "a/b", false },
		{ "a b", false },
		{ "a\n", false },
		{ "a:b", false },
		{ "a@b", false },
		{ "\xc3\xa4", false },
	};

	(void)state;
	for (size_t i = 0; i < TEST_COUNT(rows); i++) {
		if (backupid_is_safe(rows[i].name) != rows[i].safe)
			fail_msg("row %zu: '%s'", i, rows[i].name);
	}
}

static void test_types(void **state)
{
	static const char *const bad[] = { "", "v", "vms", "VM", "lxc" };
	enum backup_type t = BACKUP_CT;

	(void)state;
	for (int i = BACKUP_CT; i <= BACKUP_VM; i++) {
		assert_true(backup_type_parse(
		    backup_type_name((enum backup_type)i), &t));
		assert_int_equal(t, i);
	}
	assert_string_equal(backup_type_name(BACKUP_HOST), "host");
	for (size_t i = 0; i < TEST_COUNT(bad); i++)
		assert_false(backup_type_parse(bad[i], &t));
}

static void test_ns(void **state)
{
	static const struct {
		const char *text;
		const char *path; /* NULL: bad */
		const char *message;
	} rows[] = {
		{ "", "", NULL },
		{ "a", "ns/a", NULL },
		{ "prod/db", "ns/prod/ns/db", NULL },
		{ "a/b/c/d/e/f/g", "ns/a/ns/b/ns/c/ns/d/ns/e/ns/f/ns/g", NULL },
		{ "a/b/c/d/e/f/g/h", NULL,
		    "namespace 'a/b/c/d/e/f/g/h': 8 levels, want at most 7" },
		{ "/", NULL,
		    "namespace '/': want names of letters, digits and ._- "
		    "with / between them" },
		{ "/a", NULL, "namespace '/a': want names" },
		{ "a/", NULL, "namespace 'a/': want names" },
		{ "a//b", NULL, "namespace 'a//b': want names" },
		{ "a/../b", NULL, "namespace 'a/../b': want names" },
		{ "a/.b", NULL, "namespace 'a/.b': want names" },
		{ "a\nb", NULL, "namespace 'a\\nb': want names" },
	};

	(void)state;
	for (size_t i = 0; i < TEST_COUNT(rows); i++) {
		struct backup_ns ns = { .name = "untouched" };
		struct err e = ERR_INIT;
		char path[BACKUP_PATH_SIZE];
		int rc = backup_ns_parse(rows[i].text, &ns, &e);

		if (rows[i].path == NULL) {
			assert_err(rc, &e, ERR_INVALID, rows[i].message);
			assert_string_equal(ns.name, "untouched");
			continue;
		}
		assert_ok(rc, &e);
		assert_string_equal(ns.name, rows[i].text);
		backup_ns_path(&ns, path);
		assert_string_equal(path, rows[i].path);
	}
}

static void test_ns_length(void **state)
{
	char text[BACKUP_NS_MAX + 2];
	struct backup_ns ns;
	struct err e = ERR_INIT;

	(void)state;
	(void)repeat(text, 'x', BACKUP_NS_MAX);
	text[100] = '/';
	assert_ok(backup_ns_parse(text, &ns, &e), &e);
	assert_string_equal(ns.name, text);
	(void)repeat(text, 'x', BACKUP_NS_MAX + 1);
	text[100] = '/';
	assert_err(backup_ns_parse(text, &ns, &e), &e, ERR_INVALID,
	    "257 characters, want at most 256");
	/* One component must fit into a directory entry. */
	(void)repeat(text, 'x', BACKUP_ID_MAX + 1);
	assert_err(
	    backup_ns_parse(text, &ns, &e), &e, ERR_INVALID, "want names");
}

static void test_group(void **state)
{
	static const struct {
		const char *text;
		const char *message; /* NULL: good */
	} rows[] = {
		{ "vm/100", NULL },
		{ "ct/_x.y-z", NULL },
		{ "host/elsa", NULL },
		{ "",
		    "group '': want a type of ct, host or vm, a slash and an "
		    "id" },
		{ "vm", "group 'vm': want a type" },
		{ "vm100", "group 'vm100': want a type" },
		{ "VM/100", "group 'VM/100': want a type" },
		{ "/100", "group '/100': want a type" },
		{ "v/100", "group 'v/100': want a type" },
		{ "vm/",
		    "group 'vm/': '' is no id, want 1 to 255 letters, digits "
		    "and ._- beginning with a letter, a digit or _" },
		{ "vm/..", "group 'vm/..': '..' is no id" },
		{ "vm/.x", "'.x' is no id" },
		{ "vm/1/2", "'1/2' is no id" },
		{ "vm/a b", "'a b' is no id" },
	};

	(void)state;
	for (size_t i = 0; i < TEST_COUNT(rows); i++) {
		struct backup_group g = { .id = "untouched" };
		struct err e = ERR_INIT;
		char path[BACKUP_PATH_SIZE];
		int rc = backup_group_parse(&root_ns, rows[i].text, &g, &e);

		if (rows[i].message != NULL) {
			assert_err(rc, &e, ERR_INVALID, rows[i].message);
			assert_string_equal(g.id, "untouched");
			continue;
		}
		assert_ok(rc, &e);
		backup_group_path(&g, path);
		assert_string_equal(path, rows[i].text);
		backup_group_text(&g, path);
		assert_string_equal(path, rows[i].text);
	}
}

static void test_group_length(void **state)
{
	char text[8 + BACKUP_ID_MAX] = "host/";
	struct backup_group g;
	struct err e = ERR_INIT;

	(void)state;
	(void)repeat(text + 5, '7', BACKUP_ID_MAX);
	assert_ok(backup_group_parse(&root_ns, text, &g, &e), &e);
	assert_string_equal(g.id, text + 5);
	(void)repeat(text + 5, '7', BACKUP_ID_MAX + 1);
	assert_err(backup_group_parse(&root_ns, text, &g, &e), &e, ERR_INVALID,
	    "is no id");
}

static void test_snapshot(void **state)
{
	static const struct {
		const char *text;
		int64_t time; /* 0: bad */
		const char *message;
	} rows[] = {
		{ "vm/100/2026-07-15T08:30:00Z", 1784104200, NULL },
		{ "host/elsa/1970-01-01T00:00:01Z", 1, NULL },
		{ "ct/1/9999-12-31T23:59:59Z", 253402300799, NULL },
		{ "ct/1/2024-02-29T00:00:00Z", 1709164800, NULL },
		{ "vm/100", 0, "snapshot 'vm/100': want TYPE/ID/TIME" },
		{ "", 0, "snapshot '': want TYPE/ID/TIME" },
		{ "vm/100/latest", 0,
		    "snapshot 'vm/100/latest': 'latest' is no time, want one "
		    "like 2026-11-30T12:00:00Z" },
		{ "vm/100/", 0, "'' is no time" },
		{ "vm/100/1970-01-01T00:00:00Z", 0, "is no time" },
		{ "vm/100/2026-07-15T08:30:00", 0, "is no time" },
		{ "vm/100/2026-07-15T08:30:00+00:00", 0, "is no time" },
		{ "vm/100/2026-02-29T00:00:00Z", 0, "is no time" },
		{ "vm/100/2026-07-15T08:30:00.5Z", 0, "is no time" },
		{ "xx/100/2026-07-15T08:30:00Z", 0, "want a type" },
		{ "vm/../2026-07-15T08:30:00Z", 0, "'..' is no id" },
		{ "vm/a/b/2026-07-15T08:30:00Z", 0, "'a/b' is no id" },
	};

	(void)state;
	for (size_t i = 0; i < TEST_COUNT(rows); i++) {
		struct backup_snapshot s = { .time = 77 };
		struct err e = ERR_INIT;
		char path[BACKUP_PATH_SIZE];
		int rc = backup_snapshot_parse(&root_ns, rows[i].text, &s, &e);

		if (rows[i].time == 0) {
			assert_err(rc, &e, ERR_INVALID, rows[i].message);
			assert_int_equal(s.time, 77);
			continue;
		}
		assert_ok(rc, &e);
		assert_int_equal(s.time, rows[i].time);
		backup_snapshot_path(&s, path);
		assert_string_equal(path, rows[i].text);
	}
}

/* In a namespace, the deepest and longest that there can be. */
static void test_paths(void **state)
{
	char ns_text[BACKUP_NS_MAX + 1];
	char group_text[8 + BACKUP_ID_MAX] = "host/";
	char text[BACKUP_PATH_SIZE];
	struct backup_ns ns;
	struct backup_snapshot s = { .time = 1784104200 };
	struct err e = ERR_INIT;

	(void)state;
	assert_ok(backup_ns_parse("prod/db", &ns, &e), &e);
	assert_ok(backup_group_parse(&ns, "vm/100", &s.group, &e), &e);
	backup_snapshot_path(&s, text);
	assert_string_equal(text, "ns/prod/ns/db/vm/100/2026-07-15T08:30:00Z");
	backup_snapshot_text(&s, text);
	assert_string_equal(text, "[prod/db] vm/100/2026-07-15T08:30:00Z");

	(void)repeat(ns_text, 'n', BACKUP_NS_MAX);
	for (size_t i = 1; i < BACKUP_NS_DEPTH_MAX; i++)
		ns_text[i * 36] = '/';
	(void)repeat(group_text + 5, 'g', BACKUP_ID_MAX);
	assert_ok(backup_ns_parse(ns_text, &ns, &e), &e);
	assert_ok(backup_group_parse(&ns, group_text, &s.group, &e), &e);
	backup_snapshot_path(&s, text);
	assert_int_equal(strlen(text),
	    BACKUP_NS_MAX + 3 * BACKUP_NS_DEPTH_MAX + 1 + strlen(group_text) +
		BACKUP_TIME_SIZE);
	assert_string_equal(
	    text + strlen(text) - 23, "gg/2026-07-15T08:30:00Z");
}

static int compare(const void *a, const void *b)
{
	return backup_group_compare(a, b);
}

static void test_order(void **state)
{
	/* Sorted; each is "namespace group". */
	static const char *const sorted[][2] = {
		{ "", "ct/9" },
		{ "", "ct/10" },
		{ "", "host/0" },
		{ "", "host/7" },
		{ "", "host/99999999999999999999998" },
		{ "", "host/99999999999999999999999" },
		{ "", "host/A" },
		{ "", "host/a" },
		{ "", "host/a10" },
		{ "", "host/a9" },
		{ "", "vm/007" },
		{ "", "vm/7" },
		{ "", "vm/08" },
		{ "", "vm/100" },
		{ "", "vm/1000" },
		{ "", "vm/1000x" },
		{ "a", "ct/1" },
		{ "a/b", "ct/1" },
		{ "b", "ct/1" },
	};
	struct backup_group groups[TEST_COUNT(sorted)];
	struct err e = ERR_INIT;

	(void)state;
	for (size_t i = 0; i < TEST_COUNT(sorted); i++) {
		struct backup_ns ns;
		/* Each third one, so that the order given is another. */
		size_t k = i * 3 % TEST_COUNT(sorted);

		assert_ok(backup_ns_parse(sorted[k][0], &ns, &e), &e);
		assert_ok(
		    backup_group_parse(&ns, sorted[k][1], &groups[i], &e), &e);
	}
	qsort(groups, TEST_COUNT(sorted), sizeof(groups[0]), compare);
	for (size_t i = 0; i < TEST_COUNT(sorted); i++) {
		char text[BACKUP_PATH_SIZE];

		assert_string_equal(groups[i].ns.name, sorted[i][0]);
		groups[i].ns.name[0] = '\0';
		backup_group_text(&groups[i], text);
		assert_string_equal(text, sorted[i][1]);
		assert_int_equal(
		    backup_group_compare(&groups[i], &groups[i]), 0);
	}
}

static void test_kinds(void **state)
{
	static const struct {
		const char *name;
		enum backup_file_kind kind;
	} rows[] = {
		{ "drive-scsi0.img.fidx", BACKUP_FILE_FIDX },
		{ "root.pxar.didx", BACKUP_FILE_DIDX },
		{ "index.json.blob", BACKUP_FILE_BLOB },
		{ "odd name.fidx", BACKUP_FILE_FIDX },
		{ "x.fidx.didx", BACKUP_FILE_DIDX },
		{ ".fidx", BACKUP_FILE_NONE },
		{ ".x.fidx", BACKUP_FILE_NONE },
		{ "fidx", BACKUP_FILE_NONE },
		{ "x.fidx.tmp_AbCdEf", BACKUP_FILE_NONE },
		{ "x.tmp_fidx", BACKUP_FILE_NONE },
		{ "x.FIDX", BACKUP_FILE_NONE },
		{ "x.fidx ", BACKUP_FILE_NONE },
		{ "", BACKUP_FILE_NONE },
		{ BACKUP_PROTECTED, BACKUP_FILE_NONE },
	};

	(void)state;
	for (size_t i = 0; i < TEST_COUNT(rows); i++)
		assert_int_equal(backup_file_kind(rows[i].name), rows[i].kind);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_safe),
		cmocka_unit_test(test_types),
		cmocka_unit_test(test_ns),
		cmocka_unit_test(test_ns_length),
		cmocka_unit_test(test_group),
		cmocka_unit_test(test_group_length),
		cmocka_unit_test(test_snapshot),
		cmocka_unit_test(test_paths),
		cmocka_unit_test(test_order),
		cmocka_unit_test(test_kinds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
