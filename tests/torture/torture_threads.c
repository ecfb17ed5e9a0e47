/* SPDX-License-Identifier: MIT */
/* Locks and workers where every allocation and every lock call fails once. */
#include <errno.h>
#include <stdbool.h>

#include "datastore/base/lockfile.h"
#include "datastore/base/workers.h"
#include "tests/support/failmalloc.h"
#include "tests/support/fault.h"
#include "tests/support/test.h"
#include "tests/support/tmpdir.h"

/* Open, take bytes in both ways, give them back, close. */
static int use_locks(int dirfd, struct err *e)
{
	struct task task = TASK_SILENT;
	struct lockfile *lf = NULL;
	bool taken = false;
	int rc = lockfile_open(dirfd, ".lock", &lf, "s/.lock", e);

	if (rc < 0)
		return rc;
	rc = lockfile_wait(lf, 7, LOCK_SHARED, 0, &task, NULL, NULL, e);
	if (rc < 0)
		goto out;
	rc = lockfile_try(lf, 71, LOCK_EXCLUSIVE, &taken, e);
	lockfile_unlock(lf, 7, LOCK_SHARED);
	if (rc < 0)
		goto out;
	assert_true(taken);
	lockfile_unlock(lf, 71, LOCK_EXCLUSIVE);
out:
	lockfile_close(lf);
	return rc;
}

static void test_lockfile_memory(void **state)
{
	struct tmpdir *t = *state;
	size_t fds = tmpdir_open_fds();
	uint64_t n = 1;

	tmpdir_put_str(t->fd, ".lock", "");
	for (;; n++) {
		struct err e = ERR_INIT;
		int rc = 0;

		failmalloc_at(n);
		rc = use_locks(t->fd, &e);
		if (failmalloc_off() == 0) {
			assert_ok(rc, &e);
			break;
		}
		assert_err(rc, &e, ERR_NOMEM, "memory");
		assert_int_equal(tmpdir_open_fds(), fds);
	}
	/* The lockfile, its name, two bytes. */
	assert_int_equal(n, 5);
}

static void test_lockfile_calls(void **state)
{
	struct tmpdir *t = *state;
	size_t fds = tmpdir_open_fds();
	uint64_t n = 1;

	tmpdir_put_str(t->fd, ".lock", "");
	fault_install();
	for (;; n++) {
		struct err e = ERR_INIT;
		uint64_t unlocks = 0;
		int rc = 0;

		fault_reset();
		fault_add(&(struct fault_rule){ .calls = FAULT_ANY,
		    .what = FAULT_FAIL,
		    .at = n,
		    .times = 1,
		    .error = EIO });
		rc = use_locks(t->fd, &e);
		if (fault_hits() == 0) {
			assert_ok(rc, &e);
			break;
		}
		/* Giving back and closing can not fail. */
		unlocks = fault_count(FAULT_BIT(FAULT_OFD_LOCK));
		if (rc < 0) {
			assert_err(rc, &e, ERR_SYS, "'s/.lock'");
		} else {
			assert_true(unlocks >= 3);
		}
		assert_int_equal(tmpdir_open_fds(), fds);
	}
	fault_uninstall();
	/* open, statx, two locks, two unlocks, close */
	assert_int_equal(n, 8);
}

static int do_nothing(void *ctx, void *local, void *slot, struct err *e)
{
	(void)ctx;
	(void)local;
	(void)slot;
	(void)e;
	return 0;
}

static int retire_nothing(void *ctx, void *slot, struct err *e)
{
	return do_nothing(ctx, NULL, slot, e);
}

static void test_workers_memory(void **state)
{
	static const struct workers_ops ops = {
		.work = do_nothing,
		.retire = retire_nothing,
	};
	int memory[3] = { 0 };
	void *slots[] = { &memory[0], &memory[1], &memory[2] };
	uint64_t n = 1;

	(void)state;
	for (;; n++) {
		struct workers *w = NULL;
		struct err e = ERR_INIT;
		int rc = 0;

		failmalloc_at(n);
		rc = workers_new(&ops, NULL, 2, slots, 3, &w, &e);
		if (failmalloc_off() == 0) {
			assert_ok(rc, &e);
			assert_ok(workers_finish(w, &e), &e);
			workers_free(w);
			break;
		}
		assert_err(rc, &e, ERR_NOMEM, "memory");
		assert_null(w);
	}
	/* The struct, the threads, the states. */
	assert_int_equal(n, 4);
}

#define TEST(name) \
	cmocka_unit_test_setup_teardown(name, tmpdir_setup, tmpdir_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_lockfile_memory),
		TEST(test_lockfile_calls),
		TEST(test_workers_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
