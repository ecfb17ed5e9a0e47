/* SPDX-License-Identifier: MIT */
#include "datastore/base/clock.h"

#include <assert.h>
#include <stdbool.h>
#include <time.h>

#include "datastore/base/sysio.h"

#define NS_PER_MS 1000000L
#define MS_PER_S 1000U

filetime clock_from_statx(const struct statx_timestamp *ts)
{
	int64_t s = ts->tv_sec;
	int64_t ns = ts->tv_nsec;
	bool negative = s < 0;
	filetime t = 0;

	/* Towards zero, so that the product of the last second fits. */
	if (negative) {
		s += 1;
		ns -= CLOCK_NS_PER_S;
	}
	if (__builtin_mul_overflow(s, CLOCK_NS_PER_S, &t) ||
	    __builtin_add_overflow(t, ns, &t))
		return negative ? INT64_MIN : INT64_MAX;
	return t;
}

int64_t clock_filetime_s(filetime t)
{
	int64_t s = t / CLOCK_NS_PER_S;

	return t % CLOCK_NS_PER_S < 0 ? s - 1 : s;
}

int64_t clock_now_s(void)
{
	struct timespec ts = { .tv_sec = 0, .tv_nsec = 0 };
	int rc = sysio_clock_gettime(CLOCK_REALTIME, &ts);

	assert(rc == 0);
	return ts.tv_sec;
}

int64_t clock_boot_ns(void)
{
	struct timespec ts = { .tv_sec = 0, .tv_nsec = 0 };
	int rc = sysio_clock_gettime(CLOCK_BOOTTIME, &ts);

	assert(rc == 0);
	return ts.tv_sec * CLOCK_NS_PER_S + ts.tv_nsec;
}

void clock_sleep_ms(unsigned ms)
{
	struct timespec ts = {
		.tv_sec = (time_t)(ms / MS_PER_S),
		.tv_nsec = (long)(ms % MS_PER_S) * NS_PER_MS,
	};

	(void)sysio_nanosleep(&ts, NULL);
}
