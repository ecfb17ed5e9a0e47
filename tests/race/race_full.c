/* SPDX-License-Identifier: MIT */
/*
 * Runs on file systems that are full: nothing is made before the first
 * unlink, and where touches fail garbage is found by sets.
 */
#include <errno.h>

#include "tests/support/garbagefix.h"

/*
 * Full: touches fail with ENOSPC from the n-th on.  Garbage is found by sets
 * then, and as ctimes can not be set the file system tells old ones.
 */
static int64_t ctime_shift;

static void old_ctimes(void *ctx, struct fault_event *ev)
{
	struct statx *st = ev->p;

	(void)ctx;
	if (ev->call == FAULT_STATX && ev->result == 0 && is_chunk(ev->name))
		st->stx_ctime.tv_sec -= ctime_shift;
}

static void run_full(struct gcfix *f, uint64_t from, int error)
{
	const struct fault_hooks hooks = { .after = old_ctimes };

	gcfix_fast(&hooks);
	fault_add(&(struct fault_rule){ .calls = FAULT_BIT(FAULT_UTIMENSAT),
	    .what = FAULT_FAIL,
	    .at = from,
	    .times = FAULT_FOREVER,
	    .error = error });
	(void)gcfix_run(f);
	fault_uninstall();
}

static void a_full_disk_is_collected_by_sets(void **state)
{
	struct gcfix *f = *state;

	for (uint64_t from = 1; from <= 15; from += from < 6 ? 1 : 3) {
		make_garbage(f);
		/* Four digests at a time: several passes. */
		f->opts.touch_batch = 4;
		ctime_shift = OLD;
		run_full(f, from, from % 2 == 0 ? EDQUOT : ENOSPC);
		assert_ok(f->e.code, &f->e);
		assert_true(f->r.set_based);
		assert_int_equal(gcfix_said(f, "too full"), 1);
		assert_int_equal(f->r.removed_chunks, 10);
		assert_int_equal(f->r.disk_chunks, 15);
		assert_int_equal(f->r.references, 15);
		assert_int_equal(f->r.missing_chunks, 0);
		assert_false(f->fell);
		check_collected(f);
		gcfix_remove_tree(f, "host");
	}
}

/* A chunk touched by someone has a new ctime, and stays. */
static void sets_ask_for_an_old_ctime(void **state)
{
	struct gcfix *f = *state;

	make_garbage(f);
	f->opts.touch_batch = 4;
	ctime_shift = 0;
	run_full(f, 1, ENOSPC);
	assert_ok(f->e.code, &f->e);
	assert_int_equal(f->r.pending_chunks, 10);
	check_untouched(f);
}

static void sets_find_what_is_missing(void **state)
{
	struct gcfix *f = *state;

	make_garbage(f);
	gcfix_remove_chunk(f, 12);
	gcfix_remove_chunk(f, 20);
	f->opts.touch_batch = 4;
	ctime_shift = OLD;
	run_full(f, 1, ENOSPC);
	assert_ok(f->e.code, &f->e);
	assert_int_equal(f->r.missing_chunks, 2);
	assert_int_equal(gcfix_said(f, "is missing; 'host/b/"), 2);
	assert_int_equal(f->r.removed_chunks, 10);
}

/*
 * Between two passes a snapshot is published that shares the chunks of its
 * base without a touch, and the base is removed.
 */
static unsigned swept;

static void publish_between_passes(struct gcfix *f, enum gcfix_point point)
{
	const struct pushfix p = {
		.group = "host/c",
		.time = GCFIX_T0 + 1,
		.base = &f->s0,
		.reuse = { .first = 10, .n = 15 },
	};

	if (point != GCFIX_SWEEP || swept++ > 0)
		return;
	/* It has no room either: only what needs none is done. */
	fault_uninstall();
	(void)gcfix_push(f, &p);
	gcfix_forget(f, &f->s0);
	ctime_shift = OLD;
	gcfix_fast(&(struct fault_hooks){ .after = old_ctimes });
	fault_add(&(struct fault_rule){ .calls = FAULT_BIT(FAULT_UTIMENSAT),
	    .what = FAULT_FAIL,
	    .at = 1,
	    .times = FAULT_FOREVER,
	    .error = ENOSPC });
}

static void each_pass_lists_anew(void **state)
{
	struct gcfix *f = *state;

	make_garbage(f);
	f->s0 = (struct backup_snapshot){
		.group = { .type = BACKUP_HOST, .id = "b" },
		.time = GCFIX_T0,
	};
	f->opts.touch_batch = 4;
	f->opts.cutoff_s = GCFIX_HOUR;
	ctime_shift = OLD;
	swept = 0;
	f->at = publish_between_passes;
	run_full(f, 1, ENOSPC);
	f->at = NULL;
	assert_ok(f->e.code, &f->e);
	assert_true(swept > 0);
	check_collected(f);
}

/* A full disk takes no new file, not even for a moment. */
static struct {
	unsigned made;
	unsigned removed;
} early;

static void count_made(void *ctx, struct fault_event *ev)
{
	(void)ctx;
	if (ev->call == FAULT_UNLINKAT) {
		early.removed++;
	} else if (early.removed == 0 &&
	    (ev->call == FAULT_CREATE || ev->call == FAULT_MKDIRAT ||
		ev->call == FAULT_LINKAT || ev->call == FAULT_RENAMEAT2)) {
		early.made++;
	}
}

static void nothing_is_made_before_the_first_unlink(void **state)
{
	const struct fault_hooks hooks = { .before = count_made };
	struct gcfix *f = *state;

	for (unsigned i = 0; i < 2; i++) {
		make_garbage(f);
		if (i == 1)
			gcfix_remove_chunk(f, 12);
		early.made = 0;
		early.removed = 0;
		gcfix_fast(&hooks);
		gcfix_collect(f);
		fault_uninstall();
		assert_int_equal(early.made, 0);
		assert_true(early.removed >= 10);
		gcfix_remove_tree(f, "host");
	}
}

/* Between two passes a group goes that nobody said he removes. */
static void lose_a_group(struct gcfix *f, enum gcfix_point point)
{
	if (point == GCFIX_SWEEP && swept++ == 0)
		gcfix_remove_tree(f, "host/b");
}

static void a_group_that_goes_between_passes(void **state)
{
	struct gcfix *f = *state;

	make_garbage(f);
	f->opts.touch_batch = 4;
	ctime_shift = OLD;
	swept = 0;
	f->at = lose_a_group;
	run_full(f, 1, ENOSPC);
	f->at = NULL;
	assert_int_equal(f->e.code, ERR_REFUSED);
	assert_int_equal(gcfix_have(f, 10, 15), 15);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		GCFIX_TEST(nothing_is_made_before_the_first_unlink),
		GCFIX_TEST(a_full_disk_is_collected_by_sets),
		GCFIX_TEST(sets_ask_for_an_old_ctime),
		GCFIX_TEST(sets_find_what_is_missing),
		GCFIX_TEST(each_pass_lists_anew),
		GCFIX_TEST(a_group_that_goes_between_passes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
