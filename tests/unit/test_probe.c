/* SPDX-License-Identifier: MIT */
#include "datastore/probe.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/fault.h"
#include "tests/support/foreign.h"
#include "tests/support/scratch.h"
#include "tests/support/test.h"

/* Far less than the 5 s that a failure takes; the machine may be busy. */
#define SOON_NS (2 * CLOCK_NS_PER_S)

/* What a file system does to the times that statx tells. */
struct lie {
	int64_t step_ns; /* rounds down to steps of this; 0: does not */
	bool still;      /* tells 1000000000 s, whatever was set */
	bool ctime_still;
};

static void bend(const struct lie *lie, struct statx_timestamp *ts)
{
	int64_t ns = ts->tv_sec * CLOCK_NS_PER_S + ts->tv_nsec;

	if (lie->step_ns > 0)
		ns -= ns % lie->step_ns;
	if (lie->still)
		ns = CLOCK_NS_PER_S * CLOCK_NS_PER_S;
	ts->tv_sec = ns / CLOCK_NS_PER_S;
	ts->tv_nsec = (uint32_t)(ns % CLOCK_NS_PER_S);
}

static void tell_lies(void *ctx, struct fault_event *ev)
{
	struct lie *lie = ctx;
	struct statx *st = ev->p;

	if (ev->call != FAULT_STATX || ev->result < 0)
		return;
	/* Asked the file system itself, not a cache. */
	assert_true((ev->flags & AT_STATX_FORCE_SYNC) != 0);
	bend(lie, &st->stx_atime);
	bend(lie, &st->stx_ctime);
	if (lie->ctime_still) {
		st->stx_ctime.tv_sec = 1000;
		st->stx_ctime.tv_nsec = 0;
	}
}

static void lie_with(struct lie *lie)
{
	fault_install();
	fault_set_hooks(
	    &(struct fault_hooks){ .after = tell_lies, .ctx = lie });
}

/* A file system of fine steps: at once, and the atime is the file clock. */
static void test_moves(void **state)
{
	struct scratch *s = *state;
	struct err e = ERR_INIT;
	int64_t start = clock_boot_ns();
	filetime now = 0;
	filetime again = 0;

	tmpdir_put_str(s->dir, "f", "x");
	assert_ok(probe_atime(s->dir, "f", &now, "f", &e), &e);
	assert_in_range(
	    clock_filetime_s(now), clock_now_s() - 2, clock_now_s() + 2);
	assert_ok(probe_atime(s->dir, ".", &again, "dir", &e), &e);
	assert_true(again >= now);
	assert_true(clock_boot_ns() - start < SOON_NS);
	assert_ok(probe_clock(s->dir, "f", &again, "f", &e), &e);
	assert_true(again >= now);
	/* Nothing was made, and the file is what it was. */
	assert_int_equal(tmpdir_count(s->dir, ""), 1);
	scratch_assert_content(s, "f", "x");
}

/* One that is old needs no waiting for the next step, however long it is. */
static void test_coarse_old(void **state)
{
	struct scratch *s = *state;
	struct err e = ERR_INIT;
	struct lie lie = { .step_ns = 2 * CLOCK_NS_PER_S };
	const struct timespec old[2] = { { .tv_sec = 1000 },
		{ .tv_sec = 1000 } };
	int64_t start = clock_boot_ns();
	filetime now = 0;

	tmpdir_put_str(s->dir, "f", "x");
	assert_int_equal(utimensat(s->dir, "f", old, 0), 0);
	lie_with(&lie);
	/* ctime can not be set back: its step has to end. */
	assert_ok(probe_atime(s->dir, "f", &now, "f", &e), &e);
	assert_int_equal(now % (2 * CLOCK_NS_PER_S), 0);
	assert_true(clock_boot_ns() - start < 3 * CLOCK_NS_PER_S);
}

/* Touched in this very step of 1 s or 2 s: the next one is waited for. */
static void test_coarse(void **state)
{
	static const int64_t steps[] = { CLOCK_NS_PER_S, 2 * CLOCK_NS_PER_S };
	struct scratch *s = *state;

	for (size_t i = 0; i < TEST_COUNT(steps); i++) {
		struct err e = ERR_INIT;
		struct lie lie = { .step_ns = steps[i] };
		int64_t start = clock_boot_ns();
		filetime before = 0;
		filetime now = 0;

		tmpdir_put_str(s->dir, "f", "x");
		lie_with(&lie);
		assert_ok(probe_clock(s->dir, "f", &before, "f", &e), &e);
		assert_ok(probe_atime(s->dir, "f", &now, "f", &e), &e);
		assert_true(now >= before + steps[i]);
		assert_true(clock_boot_ns() - start < steps[i] + SOON_NS);
		fault_uninstall();
	}
}

/* The last touch was by a clock that was ahead: back is a move, too. */
static void test_ahead(void **state)
{
	struct scratch *s = *state;
	struct err e = ERR_INIT;
	const struct timespec ahead[2] = { { .tv_sec = 4000000000 },
		{ .tv_sec = 4000000000 } };
	filetime now = 0;

	tmpdir_put_str(s->dir, "f", "x");
	assert_int_equal(utimensat(s->dir, "f", ahead, 0), 0);
	assert_ok(probe_atime(s->dir, "f", &now, "f", &e), &e);
	assert_true(clock_filetime_s(now) < 4000000000);
}

/* A1 fails: what was seen is said.  5 s pass by a clock that runs fast. */
static void pass_time(void *ctx, struct fault_event *ev)
{
	static _Thread_local int64_t skipped;
	struct timespec *ts = ev->p;

	tell_lies(ctx, ev);
	if (ev->call == FAULT_CLOCK_GETTIME) {
		skipped++;
		ts->tv_sec += skipped;
	}
}

static void test_ignored(void **state)
{
	static const struct {
		struct lie lie;
		const char *want;
	} cases[] = {
		{ { .still = true },
		    "atime from 1000000000.000000000 to 1000000000.000000000" },
		{ { .ctime_still = true },
		    "ctime from 1000.000000000 to 1000.000000000" },
	};
	struct scratch *s = *state;

	for (size_t i = 0; i < TEST_COUNT(cases); i++) {
		struct err e = ERR_INIT;
		struct lie lie = cases[i].lie;
		filetime now = 77;

		tmpdir_put_str(s->dir, "f", "x");
		fault_install();
		fault_set_hooks(
		    &(struct fault_hooks){ .after = pass_time, .ctx = &lie });
		assert_err(probe_atime(s->dir, "f", &now, "the/f", &e), &e,
		    ERR_REFUSED, "'the/f': the file system does not keep");
		assert_non_null(strstr(e.msg, cases[i].want));
		assert_int_equal(now, 77);
		fault_uninstall();
	}
}

/* utimensat that says it did, and did nothing. */
static void skip_touch(void *ctx, struct fault_event *ev)
{
	(void)ctx;
	if (ev->call == FAULT_UTIMENSAT) {
		ev->skip = true;
		ev->result = 0;
	}
}

static void test_skipped(void **state)
{
	struct scratch *s = *state;
	struct err e = ERR_INIT;
	int64_t start = clock_boot_ns();
	filetime now = 0;

	tmpdir_put_str(s->dir, "f", "x");
	fault_install();
	fault_set_hooks(&(struct fault_hooks){ .before = skip_touch });
	assert_err(probe_atime(s->dir, "f", &now, "f", &e), &e, ERR_REFUSED,
	    "want both to move");
	assert_true(clock_boot_ns() - start >= 5 * CLOCK_NS_PER_S);
}

static void test_time_errors(void **state)
{
	struct scratch *s = *state;
	filetime now = 0;

	for (uint64_t n = 1; n <= 3; n++) {
		struct err e = ERR_INIT;

		tmpdir_put_str(s->dir, "f", "x");
		fault_install();
		fault_add(&(struct fault_rule){ .calls = FAULT_ANY,
		    .what = FAULT_FAIL,
		    .at = n,
		    .times = 1,
		    .error = EACCES });
		assert_err(probe_atime(s->dir, "f", &now, "the/f", &e), &e,
		    ERR_SYS, "'the/f'");
		assert_int_equal(e.sys_errno, EACCES);
		fault_uninstall();
		/* Interrupted: goes on. */
		fault_install();
		fault_add(&(struct fault_rule){ .calls = FAULT_ANY,
		    .what = FAULT_FAIL,
		    .at = n,
		    .times = 1,
		    .error = EINTR });
		assert_ok(probe_atime(s->dir, "f", &now, "f", &e), &e);
		fault_uninstall();
	}
}

static void test_missing(void **state)
{
	struct scratch *s = *state;
	struct err e = ERR_INIT;
	filetime now = 0;

	assert_err(probe_atime(s->dir, "f", &now, "f", &e), &e, ERR_NOTFOUND,
	    "'f' does not exist");
	assert_err(probe_clock(s->dir, "f", &now, "f", &e), &e, ERR_NOTFOUND,
	    "'f' does not exist");
}

static void test_locks(void **state)
{
	struct scratch *s = *state;
	struct err e = ERR_INIT;

	tmpdir_put_str(s->dir, ".lock", "");
	for (int i = 0; i < 5; i++)
		assert_ok(probe_locks(s->dir, ".lock", ".lock", &e), &e);
	/* Nothing stays locked, nobody stays behind. */
	assert_true(foreign_can(s->dir, ".lock",
	    &(struct foreign_lock){ .classic = true, .type = F_WRLCK }));
	scratch_assert_content(s, ".lock", "");
}

/* Locks that are granted to everybody (FUSE, an overlay). */
static void grant(void *ctx, struct fault_event *ev)
{
	(void)ctx;
	if (ev->call == FAULT_OFD_LOCK) {
		ev->skip = true;
		ev->result = 0;
	}
}

static void test_locks_lie(void **state)
{
	struct scratch *s = *state;
	struct err e = ERR_INIT;

	tmpdir_put_str(s->dir, ".lock", "");
	fault_install();
	fault_set_hooks(&(struct fault_hooks){ .before = grant });
	assert_err(probe_locks(s->dir, ".lock", "the/.lock", &e), &e,
	    ERR_REFUSED, "'the/.lock': a lock of one process is not seen");
}

static void test_locks_errors(void **state)
{
	struct scratch *s = *state;
	struct err e = ERR_INIT;
	struct foreign_holder holder;
	const struct foreign_lock all = { .classic = true, .type = F_WRLCK };

	assert_err(probe_locks(s->dir, ".lock", "the/.lock", &e), &e, ERR_SYS,
	    "open 'the/.lock'");
	tmpdir_put_str(s->dir, ".lock", "");
	/* The second lock is the other process's. */
	fault_install();
	fault_add(&(struct fault_rule){ .calls = FAULT_BIT(FAULT_OFD_LOCK),
	    .what = FAULT_FAIL,
	    .at = 2,
	    .times = 1,
	    .error = ENOLCK });
	assert_err(probe_locks(s->dir, ".lock", "the/.lock", &e), &e, ERR_SYS,
	    "lock 'the/.lock' from another process");
	assert_int_equal(e.sys_errno, ENOLCK);
	fault_reset();
	/* EACCES of its open is no sign of a lock. */
	fault_add(&(struct fault_rule){ .calls = FAULT_BIT(FAULT_OPENAT),
	    .what = FAULT_FAIL,
	    .at = 2,
	    .times = 1,
	    .error = EACCES });
	assert_err(probe_locks(s->dir, ".lock", "the/.lock", &e), &e, ERR_SYS,
	    "from another process");
	fault_reset();
	fault_add(&(struct fault_rule){ .calls = FAULT_BIT(FAULT_OFD_LOCK),
	    .what = FAULT_KILL,
	    .at = 2,
	    .times = 1 });
	assert_err(probe_locks(s->dir, ".lock", "the/.lock", &e), &e,
	    ERR_REFUSED, "ended with status 0x9");
	fault_uninstall();
	foreign_start(s->dir, ".lock", &all, &holder);
	assert_err(probe_locks(s->dir, ".lock", "the/.lock", &e), &e, ERR_BUSY,
	    "'the/.lock' is locked by another program");
	foreign_end(&holder);
}

static int teardown(void **state)
{
	fault_uninstall();
	return scratch_teardown(state);
}

#define PROBE_TEST(t) \
	cmocka_unit_test_setup_teardown(t, scratch_setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		PROBE_TEST(test_moves),
		PROBE_TEST(test_coarse_old),
		PROBE_TEST(test_coarse),
		PROBE_TEST(test_ahead),
		PROBE_TEST(test_ignored),
		PROBE_TEST(test_skipped),
		PROBE_TEST(test_time_errors),
		PROBE_TEST(test_missing),
		PROBE_TEST(test_locks),
		PROBE_TEST(test_locks_lie),
		PROBE_TEST(test_locks_errors),
	};

	return cmocka_run_group_tests_name("probe", tests, NULL, NULL);
}
