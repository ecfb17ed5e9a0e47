/* SPDX-License-Identifier: MIT */
/*
 * A whole run of garbage collection, with every allocation and every system
 * call of it failing in turn: no snapshot is hurt, nothing leaks, nothing is
 * removed after a failure that matters, and the next run completes.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/failmalloc.h"
#include "tests/support/gcfix.h"

#define OLD (2 * GCFIX_DAY)
#define GARBAGE 5U

/* Garbage beside the chunks 10.., in their directories. */
static void put_garbage(struct gcfix *f)
{
	for (unsigned i = 0; i < GARBAGE; i++) {
		char path[PATH_MAX];

		gcfix_chunk_path(10 + i, "", path);
		memset(path + strlen(path) - 20, 'a' + (int)i, 20);
		tmpdir_put_str(f->dir.fd, path, "garbage of two days");
	}
	gcfix_age(f, OLD);
}

static unsigned count_garbage(struct gcfix *f)
{
	unsigned count = 0;

	for (unsigned i = 0; i < GARBAGE; i++) {
		char path[PATH_MAX];
		struct stat st;

		gcfix_chunk_path(10 + i, "", path);
		memset(path + strlen(path) - 20, 'a' + (int)i, 20);
		count += fstatat(f->dir.fd, path, &st, 0) == 0;
	}
	return count;
}

static void prepare(struct gcfix *f)
{
	(void)gcfix_push_new(f, "host/a", GCFIX_T0, 10, 8);
	(void)gcfix_push_new(f, "host/b", GCFIX_T0, 14, 8);
	/* One that is missing, so that it is looked for and recorded. */
	gcfix_remove_chunk(f, 21);
	gcfix_unlink(f, "host/b/" GCFIX_T0_NAME "/index.json.blob");
}

/* Whatever came of it, the store is whole. */
static void check(struct gcfix *f, int rc, uint64_t n)
{
	if (rc < 0 && f->e.code != rc)
		fail_msg("%d: returns %d, says %d: %s", (int)n, rc, f->e.code,
		    f->e.msg);
	assert_int_equal(gcfix_have(f, 10, 11), 11);
	assert_int_equal(f->r.removed_chunks + count_garbage(f), GARBAGE);
	if (rc == 0)
		assert_int_equal(count_garbage(f), 0);
}

/* Dry or not, by touch or by sets. */
static const struct {
	bool dry_run;
	uint32_t batch;
} kinds[] = {
	{ false, GC_TOUCH_BATCH_MIN },
	{ true, 4 },
};

static void every_allocation_fails(void **state)
{
	struct gcfix *f = *state;

	prepare(f);
	for (size_t k = 0; k < TEST_COUNT(kinds); k++) {
		f->opts.dry_run = kinds[k].dry_run;
		f->opts.touch_batch = kinds[k].batch;
		for (uint64_t n = 1;; n++) {
			int rc = 0;
			uint64_t failed = 0;

			put_garbage(f);
			gcfix_fast(NULL);
			failmalloc_at(n);
			rc = gcfix_run(f);
			failed = failmalloc_off();
			fault_uninstall();
			if (!kinds[k].dry_run)
				check(f, rc, n);
			else
				assert_int_equal(count_garbage(f), GARBAGE);
			if (failed == 0) {
				assert_ok(rc, &f->e);
				assert_true(n > 50);
				break;
			}
			if (rc < 0 && rc != ERR_REFUSED)
				assert_int_equal(rc, ERR_NOMEM);
		}
	}
}

/* The n-th call of these kinds, for each n; at least so many. */
static void fail_calls(
    struct gcfix *f, uint64_t calls, int error, uint64_t least)
{
	for (uint64_t n = 1;; n++) {
		uint64_t hits = 0;
		int rc = 0;

		put_garbage(f);
		gcfix_fast(NULL);
		fault_add(&(struct fault_rule){ .calls = calls,
		    .what = FAULT_FAIL,
		    .at = n,
		    .times = 1,
		    .error = error });
		rc = gcfix_run(f);
		hits = fault_hits();
		fault_uninstall();
		check(f, rc, n);
		if (hits == 0) {
			assert_ok(rc, &f->e);
			assert_true(n > least);
			break;
		}
	}
	put_garbage(f);
	gcfix_collect(f);
	assert_int_equal(f->r.removed_chunks, GARBAGE);
}

static void every_call_fails(void **state)
{
	struct gcfix *f = *state;

	prepare(f);
	fail_calls(f, FAULT_ANY & ~FAULT_BIT(FAULT_OPENAT), EIO, 200);
	fail_calls(f, FAULT_BIT(FAULT_OPENAT), EACCES, 30);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		GCFIX_TEST(every_allocation_fails),
		GCFIX_TEST(every_call_fails),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
