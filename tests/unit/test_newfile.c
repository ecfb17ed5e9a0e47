/* SPDX-License-Identifier: MIT */
#include "datastore/newfile.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "tests/support/fault.h"
#include "tests/support/scratch.h"
#include "tests/support/test.h"

static const struct file_owner self = { .change = false };

/* What a file system can do besides a plain rename. */
static void limit(bool noreplace, bool links)
{
	const struct fault_rule no_flags = {
		.calls = FAULT_BIT(FAULT_RENAMEAT2),
		.what = FAULT_FAIL,
		.at = 1,
		.times = 1,
		.error = EINVAL,
	};
	const struct fault_rule no_links = {
		.calls = FAULT_BIT(FAULT_LINKAT),
		.what = FAULT_FAIL,
		.at = 1,
		.times = 1,
		.error = EPERM,
	};

	fault_install();
	if (!noreplace)
		fault_add(&no_flags);
	if (!links)
		fault_add(&no_links);
}

static const struct {
	bool noreplace;
	bool links;
} kinds[] = { { true, true }, { false, true }, { false, false } };

static void test_new(void **state)
{
	struct scratch *s = *state;
	struct err e = ERR_INIT;
	mode_t mask = umask(077);

	for (size_t i = 0; i < TEST_COUNT(kinds); i++) {
		char name[8];
		struct stat st;

		(void)snprintf(name, sizeof(name), "f%zu", i);
		limit(kinds[i].noreplace, kinds[i].links);
		assert_ok(
		    newfile_make(s->dir, name, "text\n", &self, name, &e), &e);
		assert_int_equal(fault_hits(),
		    (kinds[i].noreplace ? 0 : 1) + (kinds[i].links ? 0 : 1));
		/* The file before it has its name, the directory after it. */
		assert_int_equal(fault_count(FAULT_BIT(FAULT_FSYNC)), 2);
		fault_uninstall();
		scratch_assert_content(s, name, "text\n");
		assert_int_equal(fstatat(s->dir, name, &st, 0), 0);
		assert_int_equal(st.st_mode, S_IFREG | 0644);
		assert_int_equal(st.st_nlink, 1);
	}
	(void)umask(mask);
	assert_int_equal(tmpdir_count(s->dir, ""), TEST_COUNT(kinds));
}

/* Never over another one, whatever the file system can do. */
static void test_exists(void **state)
{
	struct scratch *s = *state;
	struct err e = ERR_INIT;

	tmpdir_put_str(s->dir, "f", "old");
	for (size_t i = 0; i < TEST_COUNT(kinds); i++) {
		limit(kinds[i].noreplace, kinds[i].links);
		assert_err(newfile_make(s->dir, "f", "new", &self, "d/f", &e),
		    &e, ERR_EXISTS, "'d/f' is already there");
		fault_uninstall();
		scratch_assert_content(s, "f", "old");
		assert_int_equal(tmpdir_count(s->dir, ""), 1);
	}
}

static void test_name_length(void **state)
{
	struct scratch *s = *state;
	struct err e = ERR_INIT;
	char name[256];

	memset(name, 'x', sizeof(name));
	/* Its temporary name is longer by ".tmp_" and six letters. */
	name[244] = '\0';
	assert_ok(newfile_make(s->dir, name, "", &self, "f", &e), &e);
	name[244] = 'x';
	name[245] = '\0';
	assert_err(newfile_make(s->dir, name, "", &self, "f", &e), &e, ERR_SYS,
	    "File name too long");
	name[245] = 'x';
	name[255] = '\0';
	assert_err(newfile_make(s->dir, name, "", &self, "f", &e), &e, ERR_SYS,
	    "make 'f': File name too long");
	assert_int_equal(tmpdir_count(s->dir, ""), 1);
}

/* What fails leaves nothing, and has the error of the call that failed. */
static void test_fails(void **state)
{
	static const uint64_t calls[] = { FAULT_BIT(FAULT_CREATE),
		FAULT_BIT(FAULT_FCHMOD), FAULT_BIT(FAULT_WRITE),
		FAULT_BIT(FAULT_FSYNC), FAULT_BIT(FAULT_RENAMEAT2) };
	struct scratch *s = *state;
	struct err e = ERR_INIT;

	for (size_t i = 0; i < TEST_COUNT(calls); i++) {
		const struct fault_rule rule = {
			.calls = calls[i],
			.what = FAULT_FAIL,
			.at = 1,
			.times = 1,
			.error = ENOSPC,
		};

		fault_install();
		fault_add(&rule);
		assert_err(newfile_make(s->dir, "f", "new", &self, "f", &e), &e,
		    ERR_SYS, "No space left");
		fault_uninstall();
		assert_int_equal(tmpdir_count(s->dir, ""), 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		SCRATCH_TEST(test_new),
		SCRATCH_TEST(test_exists),
		SCRATCH_TEST(test_name_length),
		SCRATCH_TEST(test_fails),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
