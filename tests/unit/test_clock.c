/* SPDX-License-Identifier: MIT */
#include "tests/support/test.h"

#include <errno.h>
#include <time.h>

#include "datastore/base/clock.h"
#include "tests/support/fault.h"

static void converts_and_clamps(void **state)
{
	static const struct {
		struct statx_timestamp ts;
		filetime want;
	} cases[] = {
		{ { .tv_sec = 0, .tv_nsec = 0 }, 0 },
		{ { .tv_sec = 1, .tv_nsec = 5 }, 1000000005 },
		{ { .tv_sec = -1, .tv_nsec = 999999999 }, -1 },
		{ { .tv_sec = -1, .tv_nsec = 0 }, -1000000000 },
		{ { .tv_sec = 9223372036, .tv_nsec = 854775807 }, INT64_MAX },
		{ { .tv_sec = 9223372036, .tv_nsec = 854775808 }, INT64_MAX },
		{ { .tv_sec = 9223372037, .tv_nsec = 0 }, INT64_MAX },
		{ { .tv_sec = INT64_MAX, .tv_nsec = 999999999 }, INT64_MAX },
		{ { .tv_sec = -9223372037, .tv_nsec = 145224193 },
		    INT64_MIN + 1 },
		{ { .tv_sec = -9223372037, .tv_nsec = 145224192 }, INT64_MIN },
		{ { .tv_sec = -9223372037, .tv_nsec = 145224191 }, INT64_MIN },
		{ { .tv_sec = INT64_MIN, .tv_nsec = 0 }, INT64_MIN },
	};

	(void)state;
	for (size_t i = 0; i < TEST_COUNT(cases); i++)
		assert_int_equal(clock_from_statx(&cases[i].ts), cases[i].want);
}

static void seconds_round_to_the_past(void **state)
{
	(void)state;
	assert_int_equal(clock_filetime_s(0), 0);
	assert_int_equal(clock_filetime_s(999999999), 0);
	assert_int_equal(clock_filetime_s(1000000000), 1);
	assert_int_equal(clock_filetime_s(-1), -1);
	assert_int_equal(clock_filetime_s(-1000000000), -1);
	assert_int_equal(clock_filetime_s(-1000000001), -2);
	assert_int_equal(clock_filetime_s(INT64_MAX), 9223372036);
	assert_int_equal(clock_filetime_s(INT64_MIN), -9223372037);
}

static void set_clocks(void *ctx, struct fault_event *ev)
{
	struct timespec *ts = ev->p;

	(void)ctx;
	if (ev->call != FAULT_CLOCK_GETTIME)
		return;
	*ts = (struct timespec){ .tv_sec = 77, .tv_nsec = 5 };
	if (ev->flags == CLOCK_REALTIME)
		ts->tv_sec = 1234567890;
}

static void clocks_come_from_sysio(void **state)
{
	(void)state;
	fault_install();
	fault_set_hooks(&(struct fault_hooks){ .after = set_clocks });
	assert_int_equal(clock_now_s(), 1234567890);
	assert_int_equal(clock_boot_ns(), 77000000005);
	fault_uninstall();
	assert_true(clock_now_s() > 1234567890);
}

static void note_sleep(void *ctx, struct fault_event *ev)
{
	struct timespec *slept = ctx;

	if (ev->call != FAULT_NANOSLEEP)
		return;
	*slept = *(const struct timespec *)ev->in;
	ev->skip = true;
	ev->result = -1;
	ev->error = EINTR;
}

static void sleeps_once(void **state)
{
	struct timespec slept = { .tv_sec = 0 };
	int64_t before = 0;

	(void)state;
	fault_install();
	fault_set_hooks(
	    &(struct fault_hooks){ .before = note_sleep, .ctx = &slept });
	clock_sleep_ms(61234);
	assert_int_equal(slept.tv_sec, 61);
	assert_int_equal(slept.tv_nsec, 234000000);
	/* A signal ends it. */
	assert_int_equal(fault_count(FAULT_ALL), 1);
	fault_uninstall();
	before = clock_boot_ns();
	clock_sleep_ms(20);
	assert_true(clock_boot_ns() - before >= 20000000);
}

static int put_table_back(void **state)
{
	(void)state;
	fault_uninstall();
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(converts_and_clamps),
		cmocka_unit_test(seconds_round_to_the_past),
		cmocka_unit_test_teardown(
		    clocks_come_from_sysio, put_table_back),
		cmocka_unit_test_teardown(sleeps_once, put_table_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
