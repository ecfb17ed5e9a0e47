/* SPDX-License-Identifier: MIT */
/*
 * Whose time it is: file systems whose clock is not ours, or jumps, or is
 * coarse, or that answer from a cache; and sessions that come and go around
 * the moment that a run takes for its start (A1, A3, I3, I6, I7).
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "datastore/registration.h"
#include "tests/support/garbagefix.h"

#define NS_PER_S INT64_C(1000000000)

/* What is later than `moment` reads as so much later still. */
static struct {
	int64_t moment;
	int64_t shift_s;
} jump;

static void shift(struct statx_timestamp *t)
{
	if (t->tv_sec * NS_PER_S + t->tv_nsec > jump.moment)
		t->tv_sec += jump.shift_s;
}

static void shift_times(void *ctx, struct fault_event *ev)
{
	struct statx *st = ev->p;

	(void)ctx;
	if (ev->call != FAULT_STATX || ev->result != 0)
		return;
	shift(&st->stx_atime);
	shift(&st->stx_mtime);
	shift(&st->stx_ctime);
}

static int64_t read_clock(clockid_t id)
{
	struct timespec ts;

	assert_int_equal(clock_gettime(id, &ts), 0);
	return ts.tv_sec * NS_PER_S + ts.tv_nsec;
}

/*
 * From now on the file system's clock is 10 s ahead of what it was.  It goes
 * by ticks: until the next one, what is touched would have a time before.
 */
static void jump_now(void)
{
	jump.moment = read_clock(CLOCK_REALTIME);
	jump.shift_s = 10;
	while (read_clock(CLOCK_REALTIME_COARSE) <= jump.moment)
		;
}

static void begin_to_push(struct gcfix *f)
{
	const struct pushfix p = {
		.group = "host/c",
		.time = GCFIX_T0,
		.put = { .first = 0, .n = 25 },
	};
	struct err e = ERR_INIT;

	assert_ok(pushfix_open(f->ds, &p, &f->other, &f->session, &e), &e);
	assert_ok(pushfix_fill(f->session, &p, &e), &e);
}

static void commit(struct gcfix *f)
{
	struct session *s = f->session;
	struct err e = ERR_INIT;

	f->session = NULL;
	assert_ok(session_commit(s, &e), &e);
}

static void check_all_there(struct gcfix *f)
{
	assert_int_equal(gcfix_have(f, 0, 25), 25);
	assert_int_equal(gcfix_check(f), 2);
}

/* I6: the file system's clock is an hour behind ours, or ahead of it. */
static void a_clock_of_its_own(void **state)
{
	static const int64_t shifts[] = { -GCFIX_HOUR, GCFIX_HOUR };
	const struct fault_hooks hooks = { .after = shift_times };
	struct gcfix *f = *state;

	for (size_t i = 0; i < TEST_COUNT(shifts); i++) {
		make_garbage(f);
		jump.moment = INT64_MIN;
		jump.shift_s = shifts[i];
		gcfix_fast(&hooks);
		f->opts.cutoff_s = 0;
		gcfix_collect(f);
		fault_uninstall();
		check_collected(f);
		gcfix_remove_tree(f, "host");
	}
}

/* I6: the 5 s are for times of which one is rounded down, to 2 s on exFAT. */
static void a_coarse_clock(void **state)
{
	struct registration_list l = { .n = 0 };
	struct timespec times[2] = { { .tv_nsec = 0 },
		{ .tv_nsec = UTIME_OMIT } };
	struct gcfix *f = *state;
	char path[PATH_MAX];

	make_garbage(f);
	begin_to_push(f);
	assert_ok(registration_list(f->ds, &l, &f->e), &f->e);
	assert_int_equal(l.n, 1);
	times[0].tv_sec = l.items[0].start / NS_PER_S - 2;
	registration_list_release(&l);
	gcfix_chunk_path(3, "", path);
	assert_int_equal(utimensat(f->dir.fd, path, times, 0), 0);
	gcfix_fast(NULL);
	f->opts.cutoff_s = 0;
	gcfix_collect(f);
	fault_uninstall();
	commit(f);
	check_all_there(f);
}

static void commit_when_marked(struct gcfix *f, enum gcfix_point point)
{
	if (point == GCFIX_MARKED && f->session != NULL)
		commit(f);
}

/*
 * Schedule 5: a session that was there when the run began has published when
 * all is listed, and is gone when the sweep begins.  Whoever reads the
 * registrations only then does not know of it.
 */
static void a_session_that_ends_meanwhile(void **state)
{
	const struct fault_hooks hooks = { .after = shift_times };
	struct gcfix *f = *state;

	make_garbage(f);
	begin_to_push(f);
	jump_now();
	gcfix_fast(&hooks);
	f->opts.cutoff_s = 0;
	f->at = commit_when_marked;
	gcfix_collect(f);
	fault_uninstall();
	assert_null(f->session);
	check_all_there(f);
}

/*
 * Case 3: two sessions are open, and the younger one's start proves nothing of
 * what the older one used.
 */
static void the_older_of_two_sessions(void **state)
{
	const struct fault_hooks hooks = { .after = shift_times };
	const struct pushfix p = { .group = "host/d", .time = GCFIX_T0 };
	struct gcfix *f = *state;
	struct session *younger = NULL;
	struct err e = ERR_INIT;

	make_garbage(f);
	begin_to_push(f);
	jump_now();
	gcfix_fast(&hooks);
	assert_ok(pushfix_open(f->ds, &p, &f->other, &younger, &e), &e);
	f->opts.cutoff_s = 0;
	gcfix_collect(f);
	session_abort(younger);
	assert_int_equal(gcfix_have(f, 0, 25), 25);
	/* It is gone, and the older one is still there. */
	gcfix_collect(f);
	fault_uninstall();
	commit(f);
	check_all_there(f);
}

static void push_while_it_waits(void *ctx, struct fault_event *ev)
{
	struct gcfix *f = ctx;

	if (ev->call != FAULT_NANOSLEEP || f->own != NULL)
		return;
	f->own = malloc(1);
	begin_to_push(f);
	jump_now();
}

/*
 * Schedule 5: a session registers and uses chunks just before the start of
 * mark.  Whoever has read the registrations by then does not know of it.
 */
static void a_session_that_begins_meanwhile(void **state)
{
	struct gcfix *f = *state;
	const struct fault_hooks hooks = {
		.before = push_while_it_waits, .after = shift_times, .ctx = f
	};

	make_garbage(f);
	jump.moment = INT64_MAX;
	gcfix_fast(&hooks);
	f->opts.cutoff_s = 0;
	f->at = commit_when_marked;
	gcfix_collect(f);
	fault_uninstall();
	assert_non_null(f->own);
	check_all_there(f);
}

/*
 * Schedule 13, I7, A1: attributes that are answered from a cache, in which
 * nothing ever changes, unless one insists.
 */
static void answer_from_cache(void *ctx, struct fault_event *ev)
{
	struct statx *st = ev->p;

	(void)ctx;
	if (ev->call != FAULT_STATX || ev->result != 0 ||
	    (ev->flags & AT_STATX_FORCE_SYNC) != 0)
		return;
	st->stx_atime = (struct statx_timestamp){ .tv_sec = 1000000000 };
	st->stx_ctime = st->stx_atime;
}

static void times_from_a_cache(void **state)
{
	const struct fault_hooks hooks = { .after = answer_from_cache };
	struct gcfix *f = *state;

	make_garbage(f);
	gcfix_fast(&hooks);
	gcfix_collect(f);
	fault_uninstall();
	check_collected(f);
}

/* A1: the first chunk tells, before a second one is touched. */
static char first_touched[DIGEST_HEX_SIZE + 8];
static unsigned others_touched;

static void ignore_touches_of_chunks(void *ctx, struct fault_event *ev)
{
	(void)ctx;
	if (ev->call != FAULT_UTIMENSAT || !is_chunk(ev->name))
		return;
	ev->skip = true;
	ev->result = 0;
	if (first_touched[0] == '\0')
		(void)snprintf(
		    first_touched, sizeof(first_touched), "%s", ev->name);
	others_touched += strcmp(first_touched, ev->name) != 0;
}

static void the_first_chunk_tells(void **state)
{
	static const uint32_t batches[] = { GC_TOUCH_BATCH_MIN,
		GC_TOUCH_BATCH_OFF };
	const struct fault_hooks hooks = { .before = ignore_touches_of_chunks };
	struct gcfix *f = *state;

	make_garbage(f);
	for (size_t i = 0; i < TEST_COUNT(batches); i++) {
		first_touched[0] = '\0';
		others_touched = 0;
		f->opts.touch_batch = batches[i];
		gcfix_fast(&hooks);
		assert_err(gcfix_run(f), &f->e, ERR_REFUSED,
		    "does not keep access times");
		fault_uninstall();
		assert_int_not_equal(first_touched[0], '\0');
		assert_int_equal(others_touched, 0);
		check_untouched(f);
	}
}

/* A1: `.chunks` itself tells, before anything is listed. */
static void ignore_touch_of_dot(void *ctx, struct fault_event *ev)
{
	(void)ctx;
	if (ev->call != FAULT_UTIMENSAT || strcmp(ev->name, ".") != 0)
		return;
	ev->skip = true;
	ev->result = 0;
}

static void the_directory_tells(void **state)
{
	const struct fault_hooks hooks = { .before = ignore_touch_of_dot };
	struct gcfix *f = *state;

	make_garbage(f);
	gcfix_fast(&hooks);
	assert_err(gcfix_run(f), &f->e, ERR_REFUSED,
	    "does not keep access times: 5 s");
	fault_uninstall();
	assert_int_equal(f->listings, 0);
	check_untouched(f);
}

/* A3: another process gets the lock that this one holds. */
static pid_t here;

static void grant_others(void *ctx, struct fault_event *ev)
{
	(void)ctx;
	if (ev->call != FAULT_OFD_LOCK || getpid() == here)
		return;
	ev->skip = true;
	ev->result = 0;
}

static void locks_that_nobody_sees(void **state)
{
	const struct fault_hooks hooks = { .before = grant_others };
	struct gcfix *f = *state;

	here = getpid();
	make_garbage(f);
	gcfix_fast(&hooks);
	assert_err(gcfix_run(f), &f->e, ERR_REFUSED, "is not seen by another");
	fault_uninstall();
	check_untouched(f);
}

/*
 * Schedule 25: a program that is started while somebody holds a lock must not
 * keep it.
 */
static unsigned inherited;

static void see_open(void *ctx, struct fault_event *ev)
{
	(void)ctx;
	if (ev->call == FAULT_OPENAT || ev->call == FAULT_CREATE)
		inherited += (ev->flags & O_CLOEXEC) == 0;
}

static void nothing_is_inherited(void **state)
{
	const struct fault_hooks hooks = { .before = see_open };
	struct gcfix *f = *state;
	struct datastore *ds = NULL;

	inherited = 0;
	gcfix_fast(&hooks);
	assert_ok(
	    datastore_open(f->path, DATASTORE_WRITE, NULL, &ds, &f->e), &f->e);
	datastore_close(ds);
	make_garbage(f);
	gcfix_collect(f);
	assert_true(fault_count(FAULT_BIT(FAULT_OPENAT)) > 20);
	fault_uninstall();
	assert_int_equal(inherited, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		GCFIX_TEST(a_clock_of_its_own),
		GCFIX_TEST(a_coarse_clock),
		GCFIX_TEST(a_session_that_ends_meanwhile),
		GCFIX_TEST(the_older_of_two_sessions),
		GCFIX_TEST(a_session_that_begins_meanwhile),
		GCFIX_TEST(times_from_a_cache),
		GCFIX_TEST(the_first_chunk_tells),
		GCFIX_TEST(the_directory_tells),
		GCFIX_TEST(locks_that_nobody_sees),
		GCFIX_TEST(nothing_is_inherited),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
