/* SPDX-License-Identifier: MIT */
#include "datastore/base/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/test.h"
#include "tests/support/tmpdir.h"

#define GiB (UINT64_C(1) << 30)

/* Hierarchies as both versions have them. */
static void put_limits(const struct tmpdir *t)
{
	static const char *const dirs[] = { "memory", "memory/a", "memory/a/b",
		"memory/max", "a", "a/b", "a/b/c" };

	for (size_t i = 0; i < TEST_COUNT(dirs); i++)
		assert_int_equal(mkdirat(t->fd, dirs[i], 0755), 0);
	tmpdir_put_str(
	    t->fd, "memory/memory.limit_in_bytes", "9223372036854771712\n");
	tmpdir_put_str(t->fd, "memory/a/memory.limit_in_bytes", "1073741824\n");
	tmpdir_put_str(
	    t->fd, "memory/a/b/memory.limit_in_bytes", "4294967296\n");
	tmpdir_put_str(t->fd, "a/memory.max", "2147483648\n");
	tmpdir_put_str(t->fd, "a/b/memory.max", "max\n");
}

static uint64_t limit_of(const struct tmpdir *t, const char *list)
{
	char path[PATH_MAX + 8];

	tmpdir_put_str(t->fd, "list", list);
	(void)snprintf(path, sizeof(path), "%s/list", t->path);
	return memory_group_limit(path, t->path);
}

static void the_least_of_all_above(void **state)
{
	static const struct {
		const char *list;
		uint64_t limit;
	} cases[] = {
		/* version 1 */
		{ "4:memory:/a/b\n", GiB },
		{ "4:cpu,memory:/a\n", GiB },
		{ "4:memory,cpu:/a\n", GiB },
		{ "4:memory:/\n", 9223372036854771712U },
		{ "4:cpu:/a/b\n", UINT64_MAX },
		{ "4:memoryless:/a/b\n", UINT64_MAX },
		/* version 2 */
		{ "0::/a/b/c\n", 2 * GiB },
		{ "0::/a/b\n", 2 * GiB },
		{ "0::/\n", UINT64_MAX },
		/* both; and a group that is seen elsewhere, in a container */
		{ "1:cpu:/a\n4:memory:/a/b\n0::/a/b\n", GiB },
		{ "4:memory:/not/here/a\n", 9223372036854771712U },
		/* nothing of use */
		{ "", UINT64_MAX },
		{ "memory\n", UINT64_MAX },
		{ "4:memory\n", UINT64_MAX },
		{ ":::::\n", UINT64_MAX },
	};
	const struct tmpdir *t = *state;

	put_limits(t);
	for (size_t i = 0; i < TEST_COUNT(cases); i++)
		assert_true(limit_of(t, cases[i].list) == cases[i].limit);
	tmpdir_put_str(t->fd, "memory/a/memory.limit_in_bytes", "x\n");
	assert_true(limit_of(t, "4:memory:/a/b\n") == 4 * GiB);
	assert_true(memory_group_limit("/does/not/exist", "/") == UINT64_MAX);
}

static void of_this_process(void **state)
{
	uint64_t n = memory_limit();

	(void)state;
	assert_true(n >= 1024 * 1024);
	assert_true(n <= (uint64_t)sysconf(_SC_PHYS_PAGES) *
		(uint64_t)sysconf(_SC_PAGESIZE));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
		    the_least_of_all_above, tmpdir_setup, tmpdir_teardown),
		cmocka_unit_test(of_this_process),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
