/* SPDX-License-Identifier: MIT */
#include "datastore/base/lockfile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/foreign.h"
#include "tests/support/lockfix.h"

static bool is_held(struct fixture *f, uint64_t byte, enum lock_mode mode)
{
	bool held = false;

	assert_ok(lockfile_is_held(f->lf, byte, mode, &held, &f->e), &f->e);
	return held;
}

/* Could another process have it? */
static bool foreign_gets(const struct fixture *f, uint64_t byte, short type)
{
	return foreign_can_byte(f->dir.fd, LOCK_NAME, byte, type);
}

/*
 * What the kernel says of a lock of ours beside one of another process, in
 * either order: a whole file that PBS locks, and single bytes.
 */
static void test_other_process(void **state)
{
	static const struct {
		struct foreign_lock theirs;
		uint64_t byte;
		enum lock_mode mode;
		bool conflict;
	} rows[] = {
		/* PBS writer (reads all) beside session, GC, own byte. */
		{ { true, F_RDLCK, 0, 0 }, 0, LOCK_SHARED, false },
		{ { true, F_RDLCK, 0, 0 }, 1, LOCK_EXCLUSIVE, true },
		{ { true, F_RDLCK, 0, 0 }, (UINT64_C(1) << 32) + 5,
		    LOCK_EXCLUSIVE, true },
		/* PBS GC (writes all) beside session, GC. */
		{ { true, F_WRLCK, 0, 0 }, 0, LOCK_SHARED, true },
		{ { true, F_WRLCK, 0, 0 }, 1, LOCK_EXCLUSIVE, true },
		{ { true, F_WRLCK, 0, 0 }, INT64_MAX, LOCK_SHARED, true },
		/* cairn beside cairn. */
		{ { false, F_RDLCK, 0, 1 }, 1, LOCK_EXCLUSIVE, false },
		{ { false, F_RDLCK, 0, 1 }, 0, LOCK_SHARED, false },
		{ { false, F_WRLCK, 1, 1 }, 1, LOCK_EXCLUSIVE, true },
		{ { false, F_WRLCK, 16, 1 }, 16, LOCK_SHARED, true },
		{ { false, F_RDLCK, 16, 1 }, 16, LOCK_EXCLUSIVE, true },
		{ { false, F_WRLCK, 16, 1 }, 17, LOCK_EXCLUSIVE, false },
	};
	struct fixture *f = *state;

	for (size_t i = 0; i < TEST_COUNT(rows); i++) {
		struct foreign_holder h;

		foreign_start(f->dir.fd, LOCK_NAME, &rows[i].theirs, &h);
		assert_int_equal(
		    is_held(f, rows[i].byte, rows[i].mode), rows[i].conflict);
		assert_int_equal(
		    try_lock(f, rows[i].byte, rows[i].mode), !rows[i].conflict);
		if (!rows[i].conflict)
			lockfile_unlock(f->lf, rows[i].byte, rows[i].mode);
		foreign_end(&h);

		assert_false(is_held(f, rows[i].byte, rows[i].mode));
		assert_true(try_lock(f, rows[i].byte, rows[i].mode));
		assert_int_equal(
		    foreign_can(f->dir.fd, LOCK_NAME, &rows[i].theirs),
		    !rows[i].conflict);
		lockfile_unlock(f->lf, rows[i].byte, rows[i].mode);
		assert_true(foreign_can(f->dir.fd, LOCK_NAME, &rows[i].theirs));
	}
}

/* The second reader is protected after the first one has left. */
static void test_two_readers(void **state)
{
	struct fixture *f = *state;

	assert_true(try_lock(f, 7, LOCK_SHARED));
	assert_true(try_lock(f, 7, LOCK_SHARED));
	assert_false(try_lock(f, 7, LOCK_EXCLUSIVE));
	lockfile_unlock(f->lf, 7, LOCK_SHARED);
	assert_false(foreign_gets(f, 7, F_WRLCK));
	assert_true(foreign_gets(f, 7, F_RDLCK));
	assert_false(try_lock(f, 7, LOCK_EXCLUSIVE));
	lockfile_unlock(f->lf, 7, LOCK_SHARED);
	assert_true(foreign_gets(f, 7, F_WRLCK));
	assert_true(try_lock(f, 7, LOCK_EXCLUSIVE));
	lockfile_unlock(f->lf, 7, LOCK_EXCLUSIVE);
}

/* A description does not exclude itself: the count in front has to. */
static void test_within_process(void **state)
{
	struct fixture *f = *state;

	assert_true(try_lock(f, 7, LOCK_EXCLUSIVE));
	assert_false(try_lock(f, 7, LOCK_SHARED));
	assert_false(try_lock(f, 7, LOCK_EXCLUSIVE));
	assert_true(try_lock(f, 8, LOCK_EXCLUSIVE));
	assert_false(is_held(f, 7, LOCK_EXCLUSIVE));
	/* A try that failed has not touched the kernel's lock. */
	assert_false(foreign_gets(f, 7, F_RDLCK));
	lockfile_unlock(f->lf, 7, LOCK_EXCLUSIVE);
	assert_true(foreign_gets(f, 7, F_WRLCK));
	assert_false(foreign_gets(f, 8, F_RDLCK));
	lockfile_unlock(f->lf, 8, LOCK_EXCLUSIVE);
}

/* The kernel merges neighbours into one lock; each goes alone again. */
static void test_unlock_order(void **state)
{
	static const uint64_t orders[][3] = {
		{ 16, 17, 18 },
		{ 17, 16, 18 },
		{ 18, 16, 17 },
	};
	struct fixture *f = *state;

	for (size_t i = 0; i < 2 * TEST_COUNT(orders); i++) {
		enum lock_mode mode = i % 2 == 0 ? LOCK_SHARED : LOCK_EXCLUSIVE;
		const uint64_t *order = orders[i / 2];

		for (uint64_t byte = 16; byte <= 18; byte++)
			assert_true(try_lock(f, byte, mode));
		for (size_t k = 0; k < 3; k++) {
			lockfile_unlock(f->lf, order[k], mode);
			for (size_t m = 0; m < 3; m++) {
				assert_int_equal(
				    foreign_gets(f, order[m], F_WRLCK), m <= k);
			}
		}
	}
}

static void test_many_bytes(void **state)
{
	struct fixture *f = *state;

	/* Several in each bucket of the table. */
	for (uint64_t byte = 0; byte < 300; byte++)
		assert_true(try_lock(f, byte, LOCK_EXCLUSIVE));
	for (uint64_t byte = 0; byte < 300; byte += 2)
		lockfile_unlock(f->lf, byte, LOCK_EXCLUSIVE);
	for (uint64_t byte = 0; byte < 300; byte++)
		assert_int_equal(try_lock(f, byte, LOCK_SHARED), byte % 2 == 0);
}

static void test_open_errors(void **state)
{
	struct fixture *f = *state;
	struct lockfile *lf = NULL;
	size_t fds = tmpdir_open_fds();

	assert_err(lockfile_open(f->dir.fd, "none", &lf, "s/none", &f->e),
	    &f->e, ERR_NOTFOUND, "'s/none' does not exist");
	assert_int_equal(mkdirat(f->dir.fd, "dir", 0755), 0);
	assert_int_equal(symlinkat(LOCK_NAME, f->dir.fd, "link"), 0);
	assert_int_equal(mkfifoat(f->dir.fd, "fifo", 0644), 0);
	assert_err(lockfile_open(f->dir.fd, "dir", &lf, "s/dir", &f->e), &f->e,
	    ERR_CORRUPT, "'s/dir' is not a regular file");
	assert_err(lockfile_open(f->dir.fd, "link", &lf, "s/link", &f->e),
	    &f->e, ERR_CORRUPT, "'s/link' is not a regular file");
	assert_err(lockfile_open(f->dir.fd, "fifo", &lf, "s/fifo", &f->e),
	    &f->e, ERR_CORRUPT, "'s/fifo' is not a regular file");
	fault_install();
	fault_add(&(struct fault_rule){ .calls = FAULT_BIT(FAULT_OPENAT),
	    .what = FAULT_FAIL,
	    .at = 1,
	    .times = 1,
	    .error = EACCES });
	assert_err(lockfile_open(f->dir.fd, LOCK_NAME, &lf, SHOWN, &f->e),
	    &f->e, ERR_SYS, "open 'store/.lock': Permission denied");
	fault_uninstall();
	assert_null(lf);
	assert_int_equal(tmpdir_open_fds(), fds);
	lockfile_close(NULL);
}

static void test_close_drops(void **state)
{
	struct fixture *f = *state;
	struct lockfile *second = NULL;
	bool taken = false;

	assert_true(try_lock(f, 7, LOCK_EXCLUSIVE));
	/* Another lockfile is another holder, and its end is not ours. */
	assert_ok(
	    lockfile_open(f->dir.fd, LOCK_NAME, &second, SHOWN, &f->e), &f->e);
	assert_ok(lockfile_try(second, 7, LOCK_SHARED, &taken, &f->e), &f->e);
	assert_false(taken);
	lockfile_close(second);
	assert_false(foreign_gets(f, 7, F_RDLCK));

	lockfile_close(f->lf);
	f->lf = NULL;
	assert_true(foreign_gets(f, 7, F_WRLCK));
}

/* As documented: a child that only lives on keeps the lock. */
static void test_fork_keeps(void **state)
{
	struct fixture *f = *state;
	struct foreign_holder h;
	struct foreign_lock other = { .type = F_RDLCK, .start = 99, .len = 1 };

	assert_true(try_lock(f, 7, LOCK_EXCLUSIVE));
	foreign_start(f->dir.fd, LOCK_NAME, &other, &h);
	lockfile_close(f->lf);
	f->lf = NULL;
	assert_false(foreign_gets(f, 7, F_RDLCK));
	foreign_end(&h);
	assert_true(foreign_gets(f, 7, F_RDLCK));
}

static void test_byte_range(void **state)
{
	struct fixture *f = *state;
	const uint64_t beyond = (uint64_t)INT64_MAX + 1;
	bool answer = true;

	assert_err(lockfile_try(f->lf, beyond, LOCK_SHARED, &answer, &f->e),
	    &f->e, ERR_INVALID, "want at most 9223372036854775807");
	assert_err(lockfile_is_held(f->lf, beyond, LOCK_SHARED, &answer, &f->e),
	    &f->e, ERR_INVALID, "lock byte 9223372036854775808 of");
	assert_err(wait_lock(f, beyond, LOCK_SHARED, 0), &f->e, ERR_INVALID,
	    "lock byte");
	assert_true(answer);
}

static void fail_locks(int error, uint64_t times)
{
	fault_reset();
	fault_add(&(struct fault_rule){ .calls = FAULT_BIT(FAULT_OFD_LOCK),
	    .what = FAULT_FAIL,
	    .at = 1,
	    .times = times,
	    .error = error });
}

static void test_kernel_errors(void **state)
{
	struct fixture *f = *state;
	bool answer = false;

	fault_install();
	fail_locks(ENOLCK, 1);
	assert_err(lockfile_try(f->lf, 7, LOCK_SHARED, &answer, &f->e), &f->e,
	    ERR_SYS, "lock byte 7 of 'store/.lock': No locks available");
	fail_locks(ENOLCK, 1);
	assert_err(wait_lock(f, 7, LOCK_SHARED, LONG_MS), &f->e, ERR_SYS,
	    "lock byte 7 of 'store/.lock': No locks available");
	fail_locks(ENOLCK, 1);
	assert_err(lockfile_is_held(f->lf, 7, LOCK_SHARED, &answer, &f->e),
	    &f->e, ERR_SYS, "ask for the lock of byte 7 of 'store/.lock'");

	/* Nothing is left behind; a signal is no failure; EACCES is "held". */
	fail_locks(EINTR, 3);
	assert_true(try_lock(f, 7, LOCK_EXCLUSIVE));
	assert_int_equal(fault_hits(), 3);
	fail_locks(EACCES, 1);
	assert_false(try_lock(f, 8, LOCK_EXCLUSIVE));
	assert_true(try_lock(f, 8, LOCK_EXCLUSIVE));
	fail_locks(EACCES, 3);
	assert_ok(wait_lock(f, 9, LOCK_EXCLUSIVE, LONG_MS), &f->e);
	assert_int_equal(fault_hits(), 3);

	/* An unlock the kernel refuses holds on, and does not stop us. */
	fail_locks(ENOLCK, 1);
	lockfile_unlock(f->lf, 7, LOCK_EXCLUSIVE);
	assert_false(foreign_gets(f, 7, F_RDLCK));
	assert_true(try_lock(f, 7, LOCK_SHARED));
	assert_true(foreign_gets(f, 7, F_RDLCK));
	lockfile_unlock(f->lf, 7, LOCK_SHARED);
	assert_true(foreign_gets(f, 7, F_WRLCK));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_other_process),
		TEST(test_two_readers),
		TEST(test_within_process),
		TEST(test_unlock_order),
		TEST(test_many_bytes),
		TEST(test_open_errors),
		TEST(test_close_drops),
		TEST(test_fork_keeps),
		TEST(test_byte_range),
		TEST(test_kernel_errors),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
