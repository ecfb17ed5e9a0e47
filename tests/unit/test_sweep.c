/* SPDX-License-Identifier: MIT */
#include "gc/sweep.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "datastore/locks.h"
#include "tests/support/foreign.h"
#include "tests/support/gcfix.h"

#define OLD (2 * GCFIX_DAY)

static filetime now(void)
{
	return clock_now_s() * CLOCK_NS_PER_S;
}

/* What is older than an hour goes. */
static struct sweep_opts by_touch(void)
{
	return (struct sweep_opts){
		.cutoff = now() - GCFIX_HOUR * CLOCK_NS_PER_S,
		.start_of_mark = now() - 10 * CLOCK_NS_PER_S,
	};
}

/* Chunks 0..9, old; they are nobody's. */
static void put_ten(struct gcfix *f)
{
	(void)gcfix_push_new(f, "host/a", GCFIX_T0, 0, 10);
	gcfix_remove_tree(f, "host");
	gcfix_age(f, OLD);
}

static int run(struct gcfix *f, const struct sweep_opts *o)
{
	buf_reset(&f->messages);
	f->r = (struct gc_result){ .dry_run = false };
	f->e = (struct err)ERR_INIT;
	return sweep_run(f->gc, o, &f->task, &f->r, &f->e);
}

static void ages_decide(void **state)
{
	struct gcfix *f = *state;
	struct sweep_opts o = by_touch();

	put_ten(f);
	gcfix_age_chunk(f, 1, GCFIX_HOUR - 60); /* pending */
	gcfix_age_chunk(f, 2, 60);              /* pending */
	gcfix_age_chunk(f, 3, 0);
	assert_ok(run(f, &o), &f->e);
	assert_int_equal(f->r.removed_chunks, 7);
	assert_int_equal(f->r.pending_chunks, 2);
	assert_int_equal(f->r.disk_chunks, 1);
	assert_int_equal(gcfix_have(f, 1, 3), 3);
	assert_int_equal(gcfix_have(f, 0, 10), 3);
	assert_in_range(clock_filetime_s(f->r.newest_pending),
	    clock_now_s() - 70, clock_now_s() - 50);
	/* Directories stay. */
	assert_true(gcfix_exists(f, ".chunks"));
}

static void counting_changes_nothing(void **state)
{
	struct gcfix *f = *state;
	struct sweep_opts o = by_touch();
	uint64_t chunks = 0;
	uint64_t would_go = 0;

	put_ten(f);
	gcfix_age_chunk(f, 2, 60);
	gcfix_age_chunk(f, 3, -3 * GCFIX_HOUR);
	assert_ok(
	    sweep_count(f->gc, &o, &f->task, &chunks, &would_go, &f->e), &f->e);
	assert_int_equal(chunks, 10);
	/* What is too young, or ahead of the clock, goes one day, too. */
	assert_int_equal(would_go, 10);
	assert_int_equal(gcfix_have(f, 0, 10), 10);
	assert_int_equal(f->sweeps, 0);
}

/* Live and its range, for the set-based ones. */
static struct livepass *live_of(
    struct gcfix *f, unsigned first, unsigned n, const struct digest *lo)
{
	struct livepass *p = NULL;
	struct digest hi;
	bool is_end = false;

	assert_ok(livepass_new(64, &p, &f->e), &f->e);
	livepass_begin(p, lo);
	for (unsigned i = 0; i < n; i++) {
		struct digest d;

		pushfix_digest(first + i, &d);
		livepass_add(p, &d);
	}
	livepass_end(p, &hi, &is_end);
	assert_true(is_end);
	return p;
}

static void sets_decide(void **state)
{
	const struct digest zero = { .b = { 0 } };
	struct gcfix *f = *state;
	struct sweep_opts o = by_touch();
	struct livepass *p = NULL;
	const struct digest *d = NULL;
	struct digest gone;
	size_t at = 0;

	put_ten(f);
	p = live_of(f, 5, 6, &zero); /* 5..10; 10 is not there */
	o.live = p;
	o.hi_is_end = true;
	o.by_ctime = true;
	/* Their ctimes are of this minute. */
	assert_ok(run(f, &o), &f->e);
	assert_int_equal(f->r.removed_chunks, 0);
	assert_int_equal(f->r.disk_chunks, 5);
	assert_int_equal(f->r.pending_chunks, 5);
	o.by_ctime = false;
	assert_ok(run(f, &o), &f->e);
	assert_int_equal(f->r.removed_chunks, 5);
	assert_int_equal(f->r.disk_chunks, 5);
	assert_int_equal(gcfix_have(f, 5, 5), 5);
	d = livepass_next_unseen(p, &at);
	pushfix_digest(10, &gone);
	assert_non_null(d);
	assert_true(digest_equal(d, &gone));
	assert_null(livepass_next_unseen(p, &at));
	livepass_free(p);
}

/* Only what lies in the range, at both its ends. */
static void ranges_are_kept(void **state)
{
	const struct digest zero = { .b = { 0 } };
	struct gcfix *f = *state;
	struct sweep_opts o = by_touch();
	struct livepass *p = NULL;
	struct digest d[10];
	unsigned expect = 0;

	put_ten(f);
	for (unsigned i = 0; i < 10; i++)
		pushfix_digest(i, &d[i]);
	qsort(d, 10, sizeof(d[0]), digest_qsort);
	p = live_of(f, 0, 0, &zero);
	o.live = p;
	o.lo = d[3];
	o.hi = d[6];
	assert_ok(run(f, &o), &f->e);
	assert_int_equal(f->r.removed_chunks, 3);
	assert_int_equal(f->r.disk_chunks + f->r.pending_chunks, 0);
	for (unsigned i = 0; i < 10; i++) {
		struct store_entry entry;
		bool found = false;

		assert_ok(
		    store_stat(f->gc->store, &d[i], &entry, &found, &f->e),
		    &f->e);
		assert_int_equal(found, i < 3 || i >= 6);
	}
	o.lo = d[6];
	o.hi_is_end = true;
	assert_ok(run(f, &o), &f->e);
	assert_int_equal(f->r.removed_chunks, 4);
	expect = gcfix_have(f, 0, 10);
	assert_int_equal(expect, 3);
	livepass_free(p);
}

/* More in one directory than one taking of its lock removes. */
static void many_in_one_prefix(void **state)
{
	enum { N = 200 };
	struct gcfix *f = *state;
	struct sweep_opts o = by_touch();
	char path[PATH_MAX];

	gcfix_mkdir(f, ".chunks/00ab");
	for (unsigned i = 0; i < N; i++) {
		(void)snprintf(
		    path, sizeof(path), "store/.chunks/00ab/00ab%060x", i);
		tmpdir_put_str(f->dir.fd, path, "a chunk of old times");
	}
	gcfix_age(f, OLD);
	assert_ok(run(f, &o), &f->e);
	assert_int_equal(f->r.removed_chunks, N);
	assert_int_equal(f->r.removed_bytes, N * 20);
	assert_true(gcfix_exists(f, ".chunks/00ab"));
	gcfix_rmdir(f, ".chunks/00ab"); /* empty */
}

/* A directory whose lock a backup holds is put off, then left. */
static void a_busy_prefix_is_left(void **state)
{
	struct gcfix *f = *state;
	struct sweep_opts o = by_touch();
	struct foreign_lock lock = { .type = F_RDLCK, .len = 1 };
	struct foreign_holder holder;
	struct digest d;
	char want[128];

	put_ten(f);
	pushfix_digest(4, &d);
	lock.start = (off_t)(LOCK_BYTE_PREFIX + digest_prefix(&d));
	foreign_start(f->dir.fd, "store/.lock", &lock, &holder);
	gcfix_fast(NULL);
	assert_ok(run(f, &o), &f->e);
	assert_int_equal(f->r.unswept_prefixes, 1);
	assert_int_equal(f->r.removed_chunks, 9);
	assert_int_equal(f->r.pending_chunks, 1);
	assert_int_equal(f->r.warnings, 1);
	(void)snprintf(want, sizeof(want), "/.chunks/%04x'", digest_prefix(&d));
	assert_int_equal(gcfix_said(f, want), 1);
	assert_int_equal(gcfix_have(f, 4, 1), 1);
	foreign_end(&holder);
	assert_ok(run(f, &o), &f->e);
	assert_int_equal(f->r.unswept_prefixes, 0);
	assert_int_equal(f->r.removed_chunks, 1);
}

/* ... and swept where the lock is let go in time. */
static struct foreign_holder holder_to_end;
static unsigned naps;

static void end_holder(void *ctx, struct fault_event *ev)
{
	(void)ctx;
	if (ev->call == FAULT_NANOSLEEP && ++naps == 5)
		foreign_end(&holder_to_end);
}

static void a_prefix_put_off_is_swept(void **state)
{
	const struct fault_hooks hooks = { .before = end_holder };
	struct gcfix *f = *state;
	struct sweep_opts o = by_touch();
	struct foreign_lock lock = { .type = F_RDLCK, .len = 1 };
	struct digest d;

	put_ten(f);
	pushfix_digest(4, &d);
	lock.start = (off_t)(LOCK_BYTE_PREFIX + digest_prefix(&d));
	foreign_start(f->dir.fd, "store/.lock", &lock, &holder_to_end);
	naps = 0;
	gcfix_fast(&hooks);
	assert_ok(run(f, &o), &f->e);
	assert_true(naps >= 5);
	assert_int_equal(f->r.unswept_prefixes, 0);
	assert_int_equal(f->r.removed_chunks, 10);
	assert_int_equal(f->r.disk_chunks + f->r.pending_chunks, 0);
	assert_int_equal(f->r.warnings, 0);
}

/* Touched between the scan and the lock: it stays. */
static void touch_before_lock(void *ctx, struct fault_event *ev)
{
	struct gcfix *f = ctx;
	const struct flock *l = ev->p;
	struct digest d;

	pushfix_digest(4, &d);
	if (ev->call == FAULT_OFD_LOCK && l->l_type == F_WRLCK &&
	    l->l_start == (off_t)(LOCK_BYTE_PREFIX + digest_prefix(&d)))
		gcfix_age_chunk(f, 4, 0);
}

static void a_touch_in_time_saves(void **state)
{
	struct gcfix *f = *state;
	const struct fault_hooks hooks = { .before = touch_before_lock,
		.ctx = f };
	struct sweep_opts o = by_touch();

	put_ten(f);
	fault_install();
	fault_set_hooks(&hooks);
	assert_ok(run(f, &o), &f->e);
	assert_int_equal(f->r.removed_chunks, 9);
	assert_int_equal(f->r.disk_chunks, 1);
	assert_int_equal(gcfix_have(f, 4, 1), 1);
}

/* What can not be scanned ends it before the next unlink. */
static void a_scan_that_fails_ends_it(void **state)
{
	struct gcfix *f = *state;
	struct sweep_opts o = by_touch();
	struct digest d[10];
	char prefix[8];

	put_ten(f);
	for (unsigned i = 0; i < 10; i++)
		pushfix_digest(i, &d[i]);
	qsort(d, 10, sizeof(d[0]), digest_qsort);
	(void)snprintf(prefix, sizeof(prefix), "%04x", digest_prefix(&d[4]));
	fault_install();
	fault_add(&(struct fault_rule){ .calls = FAULT_BIT(FAULT_OPENAT),
	    .name = prefix,
	    .what = FAULT_FAIL,
	    .at = 1,
	    .times = FAULT_FOREVER,
	    .error = EIO });
	assert_err(run(f, &o), &f->e, ERR_SYS, prefix);
	assert_int_equal(f->r.removed_chunks, 4);
	assert_int_equal(gcfix_have(f, 0, 10), 6);
	fault_uninstall();
	/* So does one that can not be removed; the count is right. */
	fault_install();
	fault_add(&(struct fault_rule){ .calls = FAULT_BIT(FAULT_UNLINKAT),
	    .what = FAULT_FAIL,
	    .at = 3,
	    .times = 1,
	    .error = EROFS });
	assert_err(run(f, &o), &f->e, ERR_SYS, "remove");
	assert_int_equal(f->r.removed_chunks, 2);
	assert_int_equal(gcfix_have(f, 0, 10), 4);
}

/* The check comes before the first unlink and per 256 prefixes. */
static struct {
	unsigned calls;
	unsigned fail_at;
} check;

static int on_check(void *ctx, struct err *e)
{
	(void)ctx;
	check.calls++;
	if (check.calls == check.fail_at)
		return err_set(e, ERR_REFUSED, "a canary");
	return 0;
}

static void checks_come_in_between(void **state)
{
	struct gcfix *f = *state;
	struct sweep_opts o = by_touch();

	o.check = on_check;
	put_ten(f);
	check.calls = 0;
	check.fail_at = 1;
	assert_err(run(f, &o), &f->e, ERR_REFUSED, "canary");
	assert_int_equal(gcfix_have(f, 0, 10), 10);
	check.calls = 0;
	check.fail_at = 0;
	o.dry_run = true;
	assert_ok(run(f, &o), &f->e);
	assert_int_equal(check.calls, STORE_PREFIXES / SWEEP_CHECK_EVERY);
	assert_int_equal(f->r.removed_chunks, 10);
	assert_int_equal(gcfix_have(f, 0, 10), 10);
	o.dry_run = false;
	check.calls = 0;
	check.fail_at = 128; /* in the middle */
	assert_err(run(f, &o), &f->e, ERR_REFUSED, "canary");
	assert_in_range(gcfix_have(f, 0, 10), 1, 9);
	assert_int_equal(f->r.removed_chunks + gcfix_have(f, 0, 10), 10);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		GCFIX_TEST(ages_decide),
		GCFIX_TEST(counting_changes_nothing),
		GCFIX_TEST(sets_decide),
		GCFIX_TEST(ranges_are_kept),
		GCFIX_TEST(many_in_one_prefix),
		GCFIX_TEST(a_busy_prefix_is_left),
		GCFIX_TEST(a_prefix_put_off_is_swept),
		GCFIX_TEST(a_touch_in_time_saves),
		GCFIX_TEST(a_scan_that_fails_ends_it),
		GCFIX_TEST(checks_come_in_between),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
