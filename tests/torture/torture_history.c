/* SPDX-License-Identifier: MIT */
/*
 * A run is recorded with every allocation and every system call failing in
 * turn: never more than warnings, nothing leaks, and the next run is recorded.
 */
#include <errno.h>
#include <stdio.h>

#include "gc/history_record.h"
#include "tests/support/failmalloc.h"
#include "tests/support/gcfix.h"

static void record(struct gcfix *f, struct history_record *r)
{
	static const struct history_count counts[] = { { "snapshots", 3 } };
	const struct history_removed removed = { .bytes = 5 };

	buf_reset(&f->messages);
	history_record_begin(r, f->ds, &f->task, HISTORY_FORGET);
	history_record_snapshot(r, "host/a");
	history_record_snapshot(r, "host/b");
	history_record_kept(r, "host/b");
	history_record_removed(r, &removed);
	history_record_end(r, HISTORY_DONE, 0, NULL, counts, 1);
}

static int find_run(void *ctx, const struct history_run *r, struct err *e)
{
	(void)e;
	*(struct history_run *)ctx = *r;
	return 0;
}

static int count_name(void *ctx, const char *name, struct err *e)
{
	(void)e;
	assert_string_equal(name, "host/a");
	*(unsigned *)ctx += 1;
	return 0;
}

/* The newest run is the one that was just recorded, whole. */
static void check_recorded(struct gcfix *f, const struct history_record *r)
{
	const struct history_query q = { .any_kind = true, .limit = 1 };
	struct history_run found = { .id = 0 };
	struct history *h = NULL;
	bool is_there = false;
	unsigned names = 0;

	assert_int_equal(r->warnings, 0);
	assert_ok(
	    history_open(f->ds, HISTORY_READ, &f->other, &h, &is_there, &f->e),
	    &f->e);
	assert_true(is_there);
	assert_ok(history_runs(h, &q, find_run, &found, &f->e), &f->e);
	assert_int_equal(found.id, r->run.id);
	assert_int_equal(found.result, HISTORY_DONE);
	assert_ok(
	    history_snapshots(h, found.id, count_name, &names, &f->e), &f->e);
	assert_int_equal(names, 1);
	history_close(h);
}

static void drop_history(struct gcfix *f)
{
	static const char *const names[] = { HISTORY_NAME, HISTORY_ASIDE,
		HISTORY_NAME "-journal" };

	for (size_t i = 0; i < TEST_COUNT(names); i++) {
		char path[64];

		(void)snprintf(path, sizeof(path), ".cairn/%s", names[i]);
		if (gcfix_exists(f, path))
			gcfix_unlink(f, path);
	}
}

/* Told, if it failed; at most one word of it, and one of a new one. */
static void check_after(struct gcfix *f, const struct history_record *r)
{
	struct history_record next;

	assert_true(r->warnings <= 2);
	assert_int_equal(r->warnings, gcfix_said(f, "W "));
	record(f, &next);
	check_recorded(f, &next);
}

static void every_call_fails(struct gcfix *f, bool fresh, int error)
{
	for (uint64_t n = 1;; n++) {
		struct history_record r;
		uint64_t hits = 0;

		if (fresh || n % 16 == 0)
			drop_history(f);
		gcfix_fast(NULL);
		fault_once(FAULT_ANY, n, error);
		record(f, &r);
		hits = fault_hits();
		fault_uninstall();
		check_after(f, &r);
		if (hits == 0) {
			assert_int_equal(r.warnings, 0);
			assert_true(n > 60);
			break;
		}
	}
}

static void each_call_fails_on_a_new_one(void **state)
{
	every_call_fails(*state, true, EIO);
}

static void each_call_fails_on_an_old_one(void **state)
{
	every_call_fails(*state, false, ENOSPC);
}

static void note_struck(void *ctx, struct fault_event *ev)
{
	if (ev->result < 0 && ev->error == ENOSPC)
		*(enum fault_call *)ctx = ev->call;
}

/* From some call on the disk is gone, or full. */
static void all_calls_fail(void **state)
{
	struct gcfix *f = *state;

	for (uint64_t n = 1;; n++) {
		enum fault_call struck = FAULT_CALLS;
		struct history_record r;
		uint64_t hits = 0;

		gcfix_fast(NULL);
		fault_set_hooks(&(struct fault_hooks){
		    .after = note_struck, .ctx = &struck });
		fault_add(&(struct fault_rule){ .calls = FAULT_CHANGES,
		    .what = FAULT_FAIL,
		    .at = n,
		    .times = FAULT_FOREVER,
		    .error = ENOSPC });
		record(f, &r);
		hits = fault_hits();
		fault_uninstall();
		check_after(f, &r);
		if (hits == 0)
			break;
		/* The very last is SQLite's sync of the empty journal when it
		 * is closed, behind the last commit: it hurts nobody. */
		assert_true(
		    r.warnings > 0 || (hits == 1 && struck == FAULT_FSYNC));
	}
}

static void each_allocation_fails(void **state)
{
	struct gcfix *f = *state;

	for (uint64_t n = 1;; n++) {
		struct history_record r;
		uint64_t failed = 0;

		failmalloc_at(n);
		record(f, &r);
		failed = failmalloc_off();
		check_after(f, &r);
		if (failed == 0) {
			assert_true(n > 5);
			break;
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		GCFIX_TEST(each_call_fails_on_a_new_one),
		GCFIX_TEST(each_call_fails_on_an_old_one),
		GCFIX_TEST(all_calls_fail),
		GCFIX_TEST(each_allocation_fails),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
