/* SPDX-License-Identifier: MIT */
#include "datastore/pace.h"

#include <time.h>

#include "datastore/base/clock.h"
#include "tests/support/test.h"

#define US INT64_C(1000)
#define PIECE 32U

/* A disk: a call alone takes `alone`, and so many can be had a second. */
struct disk {
	int64_t alone_ns;
	int64_t cpu_ns;   /* of these, at work */
	int64_t least_ns; /* between the ends of two calls, at best */
};

static int64_t run(
    struct pace *p, const struct disk *d, int64_t now, unsigned pieces)
{
	for (unsigned i = 0; i < pieces; i++) {
		int64_t each = d->alone_ns / p->threads;
		struct pace_piece piece = { .calls = PIECE };

		if (each < d->least_ns)
			each = d->least_ns;
		piece.took_ns = each * p->threads * PIECE;
		piece.waited_ns = piece.took_ns - d->cpu_ns * PIECE;
		if (piece.waited_ns < 0)
			piece.waited_ns = 0;
		now += each * PIECE;
		pace_note(p, &piece, now);
	}
	return now;
}

static void one_thread_where_nothing_waits(void **state)
{
	const struct disk hot = { 2 * US, 2 * US, 0 };
	struct pace p;

	(void)state;
	pace_init(&p, 32);
	assert_int_equal(p.threads, 1);
	(void)run(&p, &hot, 1, 100000);
	assert_int_equal(p.threads, 1);
	assert_int_equal(pace_mostly(&p), 1);
	assert_int_equal(p.total.calls, 100000 * PIECE);
}

static void more_while_it_pays(void **state)
{
	const struct disk ssd = { 400 * US, 4 * US, 10 * US };
	struct pace p;

	(void)state;
	pace_init(&p, 32);
	(void)run(&p, &ssd, 1, 3000);
	assert_int_equal(p.threads, 32);
	assert_int_equal(pace_mostly(&p), 32);
	pace_init(&p, 8);
	(void)run(&p, &ssd, 1, 3000);
	assert_int_equal(p.threads, 8);
}

/* Four make it as busy as it can be: eight are tried and given up. */
static void no_more_than_are_of_use(void **state)
{
	const struct disk arm = { 8000 * US, 4 * US, 2000 * US };
	struct pace p;

	(void)state;
	pace_init(&p, 32);
	(void)run(&p, &arm, 1, 2000);
	assert_int_equal(pace_mostly(&p), 4);
	assert_in_range(p.threads, 4, 8);
	/* Trials become rare. */
	assert_true(p.calls_at[3] * 4 < p.calls_at[2]);
	assert_int_equal(p.calls_at[4], 0);
}

static void back_to_one_when_it_got_hot(void **state)
{
	const struct disk ssd = { 400 * US, 4 * US, 10 * US };
	const struct disk hot = { 4 * US, 4 * US, 4 * US };
	struct pace p;
	int64_t now = 1;

	(void)state;
	pace_init(&p, 32);
	now = run(&p, &ssd, now, 3000);
	assert_int_equal(p.threads, 32);
	for (unsigned i = 0; i < 20000; i++) {
		struct pace_piece piece = { PIECE, PIECE * hot.cpu_ns, 0 };

		now += PIECE * hot.cpu_ns;
		pace_note(&p, &piece, now);
	}
	assert_int_equal(p.threads, 1);
}

static void a_limit_holds(void **state)
{
	const struct disk ssd = { 400 * US, 4 * US, 10 * US };
	struct pace p;

	(void)state;
	pace_init(&p, 32);
	(void)run(&p, &ssd, 1, 3000);
	pace_limit(&p, 1);
	assert_int_equal(p.threads, 1);
	(void)run(&p, &ssd, CLOCK_NS_PER_S, 3000);
	assert_int_equal(p.threads, 1);
}

/* What lies between two batches is not counted as work. */
static void a_pause_is_not_measured(void **state)
{
	const struct disk ssd = { 400 * US, 4 * US, 10 * US };
	struct pace p;
	int64_t now = 1;

	(void)state;
	pace_init(&p, 32);
	for (unsigned i = 0; i < 500; i++) {
		now = run(&p, &ssd, now, 600) + 1000 * CLOCK_NS_PER_S;
		pace_pause(&p);
	}
	assert_int_equal(p.threads, 32);
}

static void sleep_is_told_from_work(void **state)
{
	const struct timespec pause = { .tv_nsec = 20000000 };
	struct pace_clock clock;
	struct pace_piece piece;
	volatile unsigned x = 0;

	(void)state;
	pace_begin(&clock);
	assert_int_equal(nanosleep(&pause, NULL), 0);
	piece = pace_end(&clock, 3);
	assert_int_equal(piece.calls, 3);
	assert_true(piece.took_ns >= pause.tv_nsec);
	assert_true(piece.waited_ns > pause.tv_nsec / 2);
	pace_begin(&clock);
	for (unsigned i = 0; i < 1000000; i++)
		x += i;
	assert_true(x > 0);
	piece = pace_end(&clock, 1);
	assert_int_equal(piece.waited_ns, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_thread_where_nothing_waits),
		cmocka_unit_test(more_while_it_pays),
		cmocka_unit_test(no_more_than_are_of_use),
		cmocka_unit_test(back_to_one_when_it_got_hot),
		cmocka_unit_test(a_limit_holds),
		cmocka_unit_test(a_pause_is_not_measured),
		cmocka_unit_test(sleep_is_told_from_work),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
