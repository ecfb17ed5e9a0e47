/* SPDX-License-Identifier: MIT */
/*
 * What a run tells while it runs and behind it: progress, gc.running, the
 * history; and what a dry run says before.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "datastore/gcrunning.h"
#include "gc/gc.h"
#include "gc/history.h"
#include "tests/support/gcfix.h"

#define OLD (2 * GCFIX_DAY)

/* What holds for every stream of events, whatever the run. */
struct stream {
	char phase[32];
	uint64_t done;
	unsigned whole[2]; /* times that mark and sweep said 100 % */
	unsigned events;
	bool sweep_before_whole; /* of mark, in a run that touches */
};

static uint64_t count_of(const struct task_progress *p, const char *key)
{
	for (size_t i = 0; i < p->counts_n; i++) {
		if (strcmp(p->counts[i].key, key) == 0)
			return p->counts[i].done;
	}
	fail_msg("no count '%s'", key);
	return 0;
}

static uint64_t total_of(const struct task_progress *p, const char *key)
{
	for (size_t i = 0; i < p->counts_n; i++) {
		if (strcmp(p->counts[i].key, key) == 0)
			return p->counts[i].of;
	}
	return 0;
}

static void on_progress(void *ctx, const struct task_progress *p)
{
	struct stream *s = ctx;
	bool sweep = strcmp(p->phase, "gc: sweep") == 0;

	s->events++;
	assert_true(sweep || strcmp(p->phase, "gc: mark") == 0);
	assert_true(p->done <= p->total && p->total > 0);
	if (strcmp(s->phase, p->phase) == 0)
		assert_true(p->done >= s->done);
	/* Behind 100 % a phase says nothing more. */
	assert_int_equal(s->whole[sweep], 0);
	(void)snprintf(s->phase, sizeof(s->phase), "%s", p->phase);
	s->done = p->done;
	s->whole[sweep] += p->done == p->total;
	if (sweep) {
		assert_int_equal(count_of(p, "directories"), p->done);
		s->sweep_before_whole |= s->whole[0] == 0;
		return;
	}
	assert_true(count_of(p, "references") <= total_of(p, "references"));
	if (p->done == p->total) {
		assert_int_equal(count_of(p, "waiting"), 0);
		assert_int_equal(
		    count_of(p, "references"), total_of(p, "references"));
		assert_int_equal(count_of(p, "index-files-read"),
		    total_of(p, "index-files-read"));
	}
}

static const struct task_ops ops = { .progress = on_progress };

/* Chunks 0..39 are garbage, 40..199 in use, some of them several times; a bad
 * file of garbage, and a temporary one. */
static void make_store(struct gcfix *f)
{
	struct backup_snapshot s0 =
	    gcfix_push_new(f, "host/a", GCFIX_T0, 0, 60);
	char path[PATH_MAX];

	(void)gcfix_push_new(f, "host/b", GCFIX_T0, 40, 100);
	(void)gcfix_push_new(f, "host/b", GCFIX_T0 + 1, 50, 150);
	gcfix_forget(f, &s0);
	gcfix_chunk_path(3, ".0.bad", path);
	tmpdir_put_str(f->dir.fd, path, "bad, of garbage");
	gcfix_age(f, OLD);
	/* Within the margin. */
	gcfix_age_chunk(f, 5, 0);
	gcfix_age_chunk(f, 9, 0);
}

static void progress_holds(void **state)
{
	static const struct {
		uint32_t batch;
		bool dry_run;
	} cases[] = { { 7, false }, { GC_TOUCH_BATCH_OFF, false },
		{ GC_TOUCH_BATCH_DEFAULT, false }, { 7, true }, { 1, true },
		{ 1000, true } };
	struct gcfix *f = *state;

	make_store(f);
	for (size_t i = 0; i < TEST_COUNT(cases); i++) {
		struct stream s = { .events = 0 };

		f->opts.touch_batch = cases[i].batch;
		f->opts.dry_run = cases[i].dry_run;
		f->opts.cutoff_s = 3 * GCFIX_DAY;
		f->task.ops = &ops;
		f->task.ctx = &s;
		assert_ok(
		    gc_run(f->gc, &f->opts, &f->task, &f->r, &f->e), &f->e);
		assert_int_equal(s.whole[0], 1);
		assert_int_equal(s.whole[1], 1);
		assert_string_equal(s.phase, "gc: sweep");
		if (!cases[i].dry_run)
			assert_false(s.sweep_before_whole);
		assert_true(s.events > 4);
	}
	f->task.ops = NULL;
}

/* In passes of any size, what the run right behind it does. */
static void a_dry_run_is_exact(void **state)
{
	static const uint32_t batches[] = { 1, 7, 64, 199, 200, 201, 100000 };
	struct gcfix *f = *state;
	struct gc_result first;

	make_store(f);
	f->opts.dry_run = true;
	/* The kernel notes once what is read. */
	gcfix_collect(f);
	for (size_t i = 0; i < TEST_COUNT(batches); i++) {
		char *before = gcfix_describe(f);

		f->opts.touch_batch = batches[i];
		gcfix_collect(f);
		gcfix_assert_same(before, gcfix_describe(f));
		if (i == 0)
			first = f->r;
		assert_int_equal(f->r.removed_chunks, first.removed_chunks);
		assert_int_equal(f->r.removed_bytes, first.removed_bytes);
		assert_int_equal(f->r.disk_bytes, first.disk_bytes);
		assert_int_equal(f->r.pending_bytes, first.pending_bytes);
	}
	assert_int_equal(first.removed_chunks, 38);
	assert_int_equal(first.pending_chunks, 2);
	assert_int_equal(first.removed_bad, 1);
	f->opts.dry_run = false;
	gcfix_collect(f);
	assert_int_equal(f->r.removed_chunks, first.removed_chunks);
	assert_int_equal(f->r.removed_bytes, first.removed_bytes);
	assert_int_equal(f->r.removed_bad, first.removed_bad);
	assert_int_equal(f->r.pending_chunks, first.pending_chunks);
	assert_int_equal(f->r.pending_bytes, first.pending_bytes);
	assert_int_equal(f->r.disk_chunks, first.disk_chunks);
	assert_int_equal(f->r.disk_bytes, first.disk_bytes);
	assert_int_equal(gcfix_have(f, 40, 160), 160);
	assert_int_equal(gcfix_check(f), 2);
}

static struct gcrunning seen;

static void look(struct gcfix *f, enum gcfix_point point)
{
	bool found = false;

	if (point != GCFIX_SWEEP)
		return;
	assert_ok(gcrunning_read(f->ds, &seen, &found, &f->e), &f->e);
	assert_true(found);
}

static int keep(void *ctx, const struct history_run *r, struct err *e)
{
	(void)e;
	*(struct history_run *)ctx = *r;
	return 0;
}

static struct history_run newest(struct gcfix *f)
{
	const struct history_query q = { .any_kind = true, .limit = 1 };
	struct history_run r = { .id = 0 };
	struct history *h = NULL;
	bool found = false;

	assert_ok(
	    history_open(f->ds, HISTORY_READ, &f->other, &h, &found, &f->e),
	    &f->e);
	assert_true(found);
	assert_ok(history_runs(h, &q, keep, &r, &f->e), &f->e);
	history_close(h);
	return r;
}

static void it_says_that_it_runs(void **state)
{
	struct gcfix *f = *state;
	struct history_run r;
	bool found = false;

	make_store(f);
	f->at = look;
	gcfix_collect(f);
	assert_string_equal(seen.state, GCRUNNING_RUNNING);
	assert_string_equal(seen.phase, "gc: sweep");
	assert_ok(gcrunning_read(f->ds, &seen, &found, &f->e), &f->e);
	assert_string_equal(seen.state, "done");
	assert_int_equal(seen.removed_chunks, 38);
	r = newest(f);
	assert_int_equal(r.result, HISTORY_DONE);
	assert_int_equal(r.removed, 38);
	assert_int_equal(r.freed, f->r.removed_bytes);
	/* A dry run leaves no trace. */
	f->at = NULL;
	f->opts.dry_run = true;
	gcfix_collect(f);
	assert_int_equal(newest(f).id, r.id);
}

/* Nothing of it is made before the first unlink (I11). */
static void the_history_comes_late(void **state)
{
	struct gcfix *f = *state;

	make_store(f);
	/* forget and prune of the fixture do not record. */
	assert_false(gcfix_exists(f, ".cairn/" HISTORY_NAME));
	gcfix_put_index(f, "host/b/odd.img.fidx", 0, 1);
	gcfix_fast(NULL);
	fault_add(&(struct fault_rule){ .calls = FAULT_BIT(FAULT_UNLINKAT),
	    .name = NULL,
	    .what = FAULT_FAIL,
	    .at = 1,
	    .times = FAULT_FOREVER,
	    .error = EIO });
	assert_int_not_equal(gcfix_run(f), 0);
	fault_uninstall();
	assert_int_equal(newest(f).result, HISTORY_FAILED);
	assert_int_equal(newest(f).removed, 0);
}

static void one_that_was_killed_is_told_of(void **state)
{
	struct gcfix *f = *state;
	const struct history_query q = { .any_kind = true, .run = 1 };
	struct history_run r = { .id = 0 };
	struct history *h = NULL;
	struct gcrunning g;
	bool found = false;
	int fd = -1;

	gcrunning_init(&g);
	g.pid = 4711;
	g.start -= 100;
	g.percent = 42;
	(void)snprintf(g.phase, sizeof(g.phase), "gc: mark");
	assert_ok(gcrunning_open(f->ds, &fd, &f->e), &f->e);
	assert_ok(gcrunning_write(f->ds, fd, &g, &f->e), &f->e);
	file_close(&fd);
	assert_ok(history_gc_trace(f->ds, &r, &found, &f->e), &f->e);
	assert_int_equal(r.result, HISTORY_KILLED);
	make_store(f);
	gcfix_collect(f);
	assert_int_equal(gcfix_said(f, "of pid 4711 on"), 1);
	assert_int_equal(newest(f).id, 2);
	assert_ok(
	    history_open(f->ds, HISTORY_READ, &f->other, &h, &found, &f->e),
	    &f->e);
	assert_ok(history_runs(h, &q, keep, &r, &f->e), &f->e);
	history_close(h);
	assert_int_equal(r.result, HISTORY_KILLED);
	assert_int_equal(r.pid, 4711);
	assert_string_equal(
	    r.why, "ended without a word in phase 'gc: mark' at 42%");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		GCFIX_TEST(progress_holds),
		GCFIX_TEST(a_dry_run_is_exact),
		GCFIX_TEST(it_says_that_it_runs),
		GCFIX_TEST(the_history_comes_late),
		GCFIX_TEST(one_that_was_killed_is_told_of),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
