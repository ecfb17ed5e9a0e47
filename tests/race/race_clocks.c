/* SPDX-License-Identifier: MIT */
/*
 * Clocks that are set, by minutes to months, both ways: in each phase of a
 * run, between runs, and while a session lives (A1, A2, I3, I6).  Whatever a
 * run says then, nothing that is referenced goes; and when the clock is right
 * again, the next run completes.
 */
#include <time.h>

#include "tests/support/garbagefix.h"

#define NS_PER_S INT64_C(1000000000)
#define MINUTE INT64_C(60)
#define MONTHS (60 * GCFIX_DAY)

/* The clock's steps: what is later than `moment` reads as so much later. */
#define STEPS_MAX 8
static struct {
	int64_t moment;
	int64_t shift_s;
} steps[STEPS_MAX];
static unsigned steps_n;

static const int64_t shifts[] = { -MONTHS, -3 * GCFIX_HOUR, -10 * MINUTE, -90,
	90, 10 * MINUTE, 3 * GCFIX_HOUR, MONTHS };
static const uint64_t margins[] = { 0, GCFIX_HOUR, GCFIX_DAY };

static int64_t read_clock(clockid_t id)
{
	struct timespec ts;

	assert_int_equal(clock_gettime(id, &ts), 0);
	return ts.tv_sec * NS_PER_S + ts.tv_nsec;
}

static int64_t shift_of(int64_t s, int64_t ns)
{
	int64_t shift_s = 0;

	for (unsigned i = 0; i < steps_n; i++) {
		if (s * NS_PER_S + ns > steps[i].moment)
			shift_s = steps[i].shift_s;
	}
	return shift_s;
}

static void shift(struct statx_timestamp *t)
{
	t->tv_sec += shift_of(t->tv_sec, t->tv_nsec);
}

static void tell_shifted(void *ctx, struct fault_event *ev)
{
	struct statx *st = ev->p;
	struct timespec *ts = ev->p;

	(void)ctx;
	if (ev->call == FAULT_CLOCK_GETTIME && ev->flags == CLOCK_REALTIME)
		ts->tv_sec += shift_of(ts->tv_sec, ts->tv_nsec);
	if (ev->call != FAULT_STATX || ev->result != 0)
		return;
	shift(&st->stx_atime);
	shift(&st->stx_mtime);
	shift(&st->stx_ctime);
}

/*
 * From now on the clock, and the file system's, is so far from the true one.
 * File times go by ticks: until the next one, what is touched would have a time
 * before.
 */
static void set_clock(int64_t shift_s)
{
	assert_true(steps_n < STEPS_MAX);
	steps[steps_n].moment = read_clock(CLOCK_REALTIME);
	steps[steps_n].shift_s = shift_s;
	while (read_clock(CLOCK_REALTIME_COARSE) <= steps[steps_n].moment)
		;
	steps_n++;
}

static void begin(struct gcfix *f, uint64_t margin)
{
	const struct fault_hooks hooks = { .after = tell_shifted };

	steps_n = 0;
	make_garbage(f);
	f->opts.cutoff_s = margin;
	f->opts.accept_missing = true;
	gcfix_fast(&hooks);
}

/* Refused is allowed, lost is not. */
static void check_kept(struct gcfix *f, size_t snapshots)
{
	if (f->e.code != 0)
		assert_int_equal(f->e.code, ERR_REFUSED);
	assert_int_equal(gcfix_check(f), snapshots);
}

/* The clock is right again. */
static void check_recovers(struct gcfix *f, size_t snapshots)
{
	set_clock(0);
	f->at = NULL;
	f->opts.cutoff_s = 0;
	(void)gcfix_push_new(f, "host/d", GCFIX_T0, 5, 10);
	gcfix_collect(f);
	assert_int_equal(gcfix_check(f), snapshots + 1);
	fault_uninstall();
	gcfix_remove_tree(f, "host");
}

/* In a run: the clock is set, and at once somebody pushes what was garbage. */
static struct {
	enum gcfix_point point;
	uint64_t prefix;
	int64_t shift_s;
	bool done;
} in_run;

static void set_and_push(struct gcfix *f, enum gcfix_point point)
{
	if (in_run.done || point != in_run.point ||
	    (point == GCFIX_SWEEP && f->prefix < in_run.prefix))
		return;
	in_run.done = true;
	set_clock(in_run.shift_s);
	(void)gcfix_push_new(f, "host/c", GCFIX_T0, 0, 25);
}

static void run_with_step(struct gcfix *f, enum gcfix_point point,
    uint64_t prefix, int64_t shift_s, uint64_t margin)
{
	begin(f, margin);
	in_run.point = point;
	in_run.prefix = prefix;
	in_run.shift_s = shift_s;
	in_run.done = false;
	f->at = set_and_push;
	(void)gcfix_run(f);
	assert_true(in_run.done);
	check_kept(f, 2);
	assert_int_equal(gcfix_have(f, 0, 25), 25);
	/* Beyond A2: it stops, and says why. */
	if (shift_s <= -10 * MINUTE) {
		assert_int_equal(f->e.code, ERR_REFUSED);
		assert_true(strstr(f->e.msg, "was set back") != NULL ||
		    strstr(f->e.msg, "does not keep access times") != NULL);
	}
	if (shift_s > 0)
		assert_ok(f->e.code, &f->e);
	check_recovers(f, 2);
}

static void it_steps_in_a_run(void **state)
{
	static const struct {
		enum gcfix_point point;
		uint64_t prefix;
	} at[] = { { GCFIX_LISTED, 0 }, { GCFIX_MARKED, 0 }, { GCFIX_SWEEP, 0 },
		{ GCFIX_SWEEP, 5000 }, { GCFIX_SWEEP, 30000 } };
	struct gcfix *f = *state;

	for (size_t i = 0; i < TEST_COUNT(at); i++) {
		for (size_t j = 0; j < TEST_COUNT(shifts); j++) {
			for (size_t k = 0; k < TEST_COUNT(margins); k++)
				run_with_step(f, at[i].point, at[i].prefix,
				    shifts[j], margins[k]);
		}
	}
}

/* Right before a chunk that is garbage goes, wherever that is. */
static void it_steps_before_an_unlink(void **state)
{
	struct gcfix *f = *state;

	for (unsigned i = 0; i < 10; i++) {
		struct digest d;

		pushfix_digest(i, &d);
		for (size_t k = 0; k < TEST_COUNT(margins); k++)
			run_with_step(f, GCFIX_SWEEP, digest_prefix(&d),
			    -MONTHS, margins[k]);
	}
}

static struct session *open_session(struct gcfix *f, const struct pushfix *p)
{
	struct session *s = NULL;
	struct err e = ERR_INIT;

	assert_ok(pushfix_open(f->ds, p, &f->other, &s, &e), &e);
	return s;
}

/*
 * While a session lives: it has registered, or also used what was garbage; the
 * clock is set; it goes on, and a run comes before it ends.
 */
static void under_a_session(
    struct gcfix *f, bool used_before, int64_t shift_s, uint64_t margin)
{
	const struct pushfix p = { .group = "host/c",
		.time = GCFIX_T0,
		.put = { .first = 0, .n = 25 } };
	struct session *s = NULL;
	struct err e = ERR_INIT;

	begin(f, margin);
	s = open_session(f, &p);
	if (used_before)
		assert_ok(pushfix_fill(s, &p, &e), &e);
	set_clock(shift_s);
	if (!used_before)
		assert_ok(pushfix_fill(s, &p, &e), &e);
	gcfix_collect(f);
	assert_int_equal(gcfix_have(f, 0, 25), 25);
	assert_ok(session_commit(s, &e), &e);
	check_kept(f, 2);
	check_recovers(f, 2);
}

static void it_steps_under_a_session(void **state)
{
	struct gcfix *f = *state;

	for (size_t i = 0; i < TEST_COUNT(shifts); i++) {
		for (size_t j = 0; j < TEST_COUNT(margins); j++) {
			under_a_session(f, true, shifts[i], margins[j]);
			under_a_session(f, false, shifts[i], margins[j]);
		}
	}
}

/*
 * Between runs: what was pushed while the clock was wrong is needed, or
 * garbage; times far ahead are brought back, so that garbage goes one day.
 */
static void it_steps_between_runs(void **state)
{
	struct gcfix *f = *state;

	for (size_t i = 0; i < TEST_COUNT(shifts); i++) {
		struct backup_snapshot gone;

		begin(f, GCFIX_HOUR);
		set_clock(shifts[i]);
		gone = gcfix_push_new(f, "host/c", GCFIX_T0, 30, 5);
		(void)gcfix_push_new(f, "host/e", GCFIX_T0, 40, 5);
		gcfix_collect(f);
		assert_int_equal(gcfix_check(f), 3);
		set_clock(0);
		gcfix_forget(f, &gone);
		gcfix_collect(f);
		assert_int_equal(gcfix_check(f), 2);
		if (shifts[i] > 2 * GCFIX_HOUR) {
			assert_int_equal(gcfix_have(f, 30, 5), 5);
			assert_true(f->r.pending_chunks >= 5);
		}
		/* They have a time of now: no margin, and they go. */
		fault_uninstall();
		gcfix_fast(NULL);
		gcfix_age(f, 2 * GCFIX_HOUR);
		gcfix_collect(f);
		fault_uninstall();
		assert_int_equal(gcfix_have(f, 0, 10), 0);
		assert_int_equal(gcfix_have(f, 30, 5), 0);
		assert_int_equal(gcfix_check(f), 2);
		gcfix_remove_tree(f, "host");
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		GCFIX_TEST(it_steps_in_a_run),
		GCFIX_TEST(it_steps_before_an_unlink),
		GCFIX_TEST(it_steps_under_a_session),
		GCFIX_TEST(it_steps_between_runs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
