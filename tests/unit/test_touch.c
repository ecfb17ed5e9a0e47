/* SPDX-License-Identifier: MIT */
#include "gc/touch.h"

#include <errno.h>
#include <malloc.h>
#include <stdlib.h>

#include "datastore/config.h"
#include "tests/support/gen.h"
#include "tests/support/test.h"

enum { CHUNKS = 6000, BATCH = 1024 };

/* A store that notes what is touched, in memory. */
struct fake {
	struct store base; /* first */
	unsigned times[CHUNKS];
	bool absent[CHUNKS];
	bool broken[CHUNKS]; /* can not be touched */
	bool sorted;         /* batches came in order, without repetition */
	int error;
	uint64_t calls;
	size_t largest; /* batch */
};

struct fixture {
	struct fake store;
	struct touch *t;
	struct task task;
	struct err e;
	unsigned firsts;
	unsigned first_after; /* `first` is done with the n-th */
	unsigned failed;
	int failed_rc;
	unsigned progress;
	uint64_t resolved; /* as progress saw it */
	bool fell;
};

static struct digest number(unsigned n)
{
	struct gen g;
	struct digest d;

	gen_seed(&g, n);
	gen_fill(&g, GEN_RANDOM, d.b, sizeof(d.b));
	d.b[30] = (uint8_t)(n >> 8);
	d.b[31] = (uint8_t)n;
	return d;
}

static unsigned index_of(const struct digest *d)
{
	return (unsigned)d->b[30] << 8 | d->b[31];
}

static int fake_touch(struct store *s, const struct digest *d,
    enum store_touched *ret, struct err *e)
{
	struct fake *f = (struct fake *)s;
	unsigned i = index_of(d);

	f->calls++;
	if (f->broken[i]) {
		errno = f->error;
		return err_sys(e, "touch chunk %u", i);
	}
	f->times[i]++;
	*ret = f->absent[i] ? STORE_ONLY_BAD : STORE_TOUCHED;
	if (f->absent[i] && i % 2 == 0)
		*ret = STORE_MISSING;
	return 0;
}

static int fake_touch_batch(struct store *s, const struct store_batch *b,
    size_t first, store_touch_fn fn, void *ctx, struct task *task,
    struct err *e)
{
	struct fake *f = (struct fake *)s;
	int rc = 0;

	if (b->n > f->largest)
		f->largest = b->n;
	for (size_t i = first; rc == 0 && i < b->todo; i++) {
		const struct digest *d = store_batch_at(b, i);
		enum store_touched what = STORE_MISSING;

		if (i > 0 &&
		    digest_prefix(store_batch_at(b, i - 1)) > digest_prefix(d))
			f->sorted = false;
		rc = task_check(task, e);
		if (rc == 0)
			rc = fake_touch(s, d, &what, e);
		if (rc == 0)
			rc = fn(ctx, d, what, e);
	}
	return rc;
}

static const struct store_ops fake_ops = {
	.touch = fake_touch,
	.touch_batch = fake_touch_batch,
};

static int on_first(
    void *ctx, const struct digest *d, bool *ret_done, struct err *e)
{
	struct fixture *f = ctx;

	(void)d;
	(void)e;
	assert_int_equal(f->store.calls, 0);
	f->firsts++;
	*ret_done = f->firsts >= f->first_after;
	return 0;
}

static int on_failed(void *ctx, const struct digest *d, struct err *e)
{
	struct fixture *f = ctx;

	assert_true(f->store.broken[index_of(d)]);
	assert_true(err_is_sys(e, f->store.error));
	f->failed++;
	return f->failed_rc;
}

static void on_progress(void *ctx)
{
	struct fixture *f = ctx;
	struct touch_counts c;

	touch_counts(f->t, &c);
	f->progress++;
	f->fell |= c.resolved < f->resolved || c.resolved > c.references;
	f->resolved = c.resolved;
}

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	if (f == NULL)
		return -1;
	f->store.base.ops = &fake_ops;
	f->store.sorted = true;
	f->store.error = EACCES;
	f->first_after = 1;
	f->task = (struct task)TASK_SILENT;
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	touch_free(f->t);
	free(f);
	return 0;
}

static void make(struct fixture *f, uint32_t batch)
{
	const struct touch_hooks hooks = {
		.first = on_first,
		.failed = on_failed,
		.progress = on_progress,
		.ctx = f,
	};

	assert_ok(
	    touch_new(&f->store.base, batch, &hooks, &f->t, &f->e), &f->e);
}

static int add(struct fixture *f, unsigned n)
{
	struct digest d = number(n);

	return touch_add(f->t, &d, &f->task, &f->e);
}

static void add_range(struct fixture *f, unsigned first, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		assert_ok(add(f, first + i), &f->e);
}

static void flush(struct fixture *f)
{
	assert_ok(touch_flush(f->t, &f->task, &f->e), &f->e);
}

static struct touch_counts counts(struct fixture *f)
{
	struct touch_counts c;

	touch_counts(f->t, &c);
	assert_int_equal(c.waiting, c.references - c.resolved);
	return c;
}

static void waits_until_the_batch_is_full(void **state)
{
	struct fixture *f = *state;
	struct touch_counts c;

	make(f, BATCH);
	add_range(f, 0, BATCH);
	c = counts(f);
	assert_int_equal(f->store.calls, 0);
	assert_int_equal(c.references, BATCH);
	assert_int_equal(c.resolved, 0);
	assert_int_equal(c.waiting, BATCH);
	add_range(f, BATCH, 1);
	assert_int_equal(f->store.calls, BATCH);
	assert_int_equal(counts(f).resolved, BATCH);
	assert_int_equal(counts(f).waiting, 1);
	flush(f);
	c = counts(f);
	assert_int_equal(c.resolved, BATCH + 1);
	assert_int_equal(c.touched, BATCH + 1);
	assert_int_equal(c.hits, 0);
	assert_true(f->store.sorted);
	assert_int_equal(f->store.largest, BATCH);
	assert_int_equal(f->firsts, 1);
	assert_false(f->fell);
}

static void each_is_touched_once_where_memory_knows(void **state)
{
	struct fixture *f = *state;
	struct touch_counts c;

	make(f, BATCH);
	for (unsigned round = 0; round < 5; round++)
		add_range(f, 0, BATCH / 2);
	flush(f);
	c = counts(f);
	for (unsigned i = 0; i < BATCH / 2; i++)
		assert_in_range(f->store.times[i], 1, 2);
	assert_int_equal(c.references, 5 * (BATCH / 2));
	assert_int_equal(c.resolved, c.references);
	assert_int_equal(c.hits, c.references - c.touched);
	/* It forgets a few, where many fall on one place of its table. */
	assert_in_range(c.touched, BATCH / 2, BATCH / 2 * 5 / 4);
	assert_false(f->fell);
}

/* What equals a neighbour is resolved with it, and when it is. */
static void a_repetition_is_resolved_with_the_first(void **state)
{
	struct fixture *f = *state;
	uint64_t epoch = 0;

	make(f, BATCH);
	add_range(f, 0, 10);
	epoch = touch_epoch(f->t);
	touch_repeat(f->t, 10, epoch);
	assert_int_equal(counts(f).references, 20);
	assert_int_equal(counts(f).resolved, 0);
	flush(f);
	assert_int_equal(counts(f).resolved, 20);
	assert_int_equal(counts(f).hits, 10);
	assert_int_equal(counts(f).touched, 10);
	/* Of an earlier epoch: resolved at once, whatever waits. */
	add_range(f, 10, 1);
	touch_repeat(f->t, 10, epoch);
	assert_int_equal(counts(f).resolved, 30);
	assert_int_equal(counts(f).waiting, 1);
	touch_repeat(f->t, 5, touch_epoch(f->t));
	assert_int_equal(counts(f).waiting, 6);
	assert_true(touch_epoch(f->t) != epoch);
	touch_free(f->t);
	f->t = NULL;
	/* Off: nothing waits. */
	make(f, GC_TOUCH_BATCH_OFF);
	touch_repeat(f->t, 7, touch_epoch(f->t));
	assert_int_equal(counts(f).resolved, 7);
}

/* One that is met again while it waits is not in the list twice. */
static void one_that_waits_is_known(void **state)
{
	struct fixture *f = *state;

	make(f, BATCH);
	for (unsigned i = 0; i < 3 * BATCH; i++)
		assert_ok(add(f, 7), &f->e);
	assert_int_equal(f->store.calls, 0);
	assert_int_equal(counts(f).resolved, 0);
	flush(f);
	assert_int_equal(f->store.calls, 1);
	assert_int_equal(counts(f).resolved, 3 * BATCH);
	assert_int_equal(counts(f).hits, 3 * BATCH - 1);
}

/* Off: at once, in the order in which they come, each once. */
static void off_touches_at_once(void **state)
{
	struct fixture *f = *state;
	struct touch_counts c;

	make(f, GC_TOUCH_BATCH_OFF);
	for (unsigned i = 0; i < 3000; i++) {
		assert_ok(add(f, i), &f->e);
		assert_int_equal(f->store.times[i], 1);
		assert_int_equal(counts(f).waiting, 0);
	}
	add_range(f, 0, 3000);
	flush(f);
	c = counts(f);
	assert_int_equal(f->store.calls, 3000);
	assert_int_equal(c.hits, 3000);
	assert_int_equal(c.touched, 3000);
	assert_int_equal(f->firsts, 1);
	assert_int_equal(f->store.largest, 0);
}

static void every_chunk_is_touched_whatever_the_memory(void **state)
{
	struct fixture *f = *state;
	struct gen g;

	gen_seed(&g, 5);
	make(f, BATCH);
	for (unsigned i = 0; i < 30000; i++)
		assert_ok(add(f, (unsigned)gen_below(&g, CHUNKS)), &f->e);
	add_range(f, 0, CHUNKS);
	flush(f);
	for (unsigned i = 0; i < CHUNKS; i++)
		assert_true(f->store.times[i] >= 1);
	assert_int_equal(counts(f).resolved, 30000 + CHUNKS);
	assert_false(f->fell);
	assert_true(f->progress > 0);
}

static void missing_are_resolved_and_told(void **state)
{
	static const uint32_t batches[] = { BATCH, GC_TOUCH_BATCH_OFF };
	struct fixture *f = *state;

	for (size_t b = 0; b < TEST_COUNT(batches); b++) {
		const struct digest *d = NULL;
		size_t n = 0;

		for (unsigned i = 10; i < 3000; i += 100)
			f->store.absent[i] = true;
		make(f, batches[b]);
		f->store.calls = 0;
		for (unsigned round = 0; round < 3; round++)
			add_range(f, 0, 3000);
		flush(f);
		assert_int_equal(counts(f).missing, 30);
		assert_int_equal(counts(f).resolved, 9000);
		d = touch_missing(f->t, &n);
		assert_int_equal(n, 30);
		for (size_t i = 0; i < n; i++) {
			assert_true(f->store.absent[index_of(&d[i])]);
			assert_true(
			    i == 0 || digest_compare(&d[i - 1], &d[i]) < 0);
		}
		touch_free(f->t);
		f->t = NULL;
	}
}

/* A probe is made with the first ones, until one will do. */
static void the_first_chunks_are_probed(void **state)
{
	static const uint32_t batches[] = { BATCH, GC_TOUCH_BATCH_OFF };
	struct fixture *f = *state;

	f->first_after = 7;
	make(f, batches[0]);
	add_range(f, 0, BATCH);
	assert_int_equal(f->firsts, 0);
	flush(f);
	assert_int_equal(f->firsts, 7);
	add_range(f, BATCH, BATCH);
	flush(f);
	assert_int_equal(f->firsts, 7);
}

static void one_that_fails_leaves_the_others(void **state)
{
	struct fixture *f = *state;
	struct touch_counts c;

	f->store.broken[3] = true;
	f->store.broken[500] = true;
	make(f, BATCH);
	add_range(f, 0, 1000);
	flush(f);
	c = counts(f);
	assert_int_equal(f->failed, 2);
	assert_int_equal(c.failed, 2);
	for (unsigned i = 0; i < 1000; i++)
		assert_int_equal(f->store.times[i], !f->store.broken[i]);
	assert_int_equal(c.waiting, 2);
	assert_int_equal(c.touched, 998);
}

static void a_hook_ends_it(void **state)
{
	static const uint32_t batches[] = { BATCH, GC_TOUCH_BATCH_OFF };
	struct fixture *f = *state;

	for (size_t b = 0; b < TEST_COUNT(batches); b++) {
		int rc = 0;

		f->store.broken[3] = true;
		f->failed_rc = ERR_SYS;
		f->failed = 0;
		f->store.calls = 0;
		make(f, batches[b]);
		for (unsigned i = 0; rc == 0 && i < 100; i++)
			rc = add(f, i);
		if (rc == 0)
			rc = touch_flush(f->t, &f->task, &f->e);
		assert_err(rc, &f->e, ERR_SYS, "touch chunk 3");
		assert_int_equal(f->failed, 1);
		touch_free(f->t);
		f->t = NULL;
	}
}

/* No hook is asked about a stop. */
static void stops_when_told(void **state)
{
	struct fixture *f = *state;

	make(f, BATCH);
	add_range(f, 0, 100);
	f->task.stop = 2;
	assert_err(
	    touch_flush(f->t, &f->task, &f->e), &f->e, ERR_CANCELLED, "SIGINT");
	assert_int_equal(f->failed, 0);
	touch_free(f->t);
	f->t = NULL;
	make(f, GC_TOUCH_BATCH_OFF);
	assert_err(add(f, 1), &f->e, ERR_CANCELLED, "SIGINT");
}

/* All, while there are few; then some of every part of the run. */
static void canaries_are_spread(void **state)
{
	struct fixture *f = *state;
	const struct digest *d = NULL;
	size_t n = 0;
	unsigned parts[6] = { 0 };

	make(f, GC_TOUCH_BATCH_OFF);
	add_range(f, 0, 100);
	(void)touch_canaries(f->t, &n);
	assert_int_equal(n, 100);
	f->store.absent[100] = true;
	add_range(f, 100, CHUNKS - 100);
	d = touch_canaries(f->t, &n);
	assert_in_range(n, TOUCH_CANARIES / 2, TOUCH_CANARIES);
	for (size_t i = 0; i < n; i++) {
		parts[index_of(&d[i]) / 1000]++;
		assert_int_not_equal(index_of(&d[i]), 100);
		assert_int_equal(f->store.times[index_of(&d[i])], 1);
	}
	for (size_t i = 0; i < TEST_COUNT(parts); i++)
		assert_in_range(parts[i], n / 8, n / 5);
}

/* As many bytes as are allocated now, whoever counts them. */
__attribute__((weak)) size_t __sanitizer_get_current_allocated_bytes(void);

static size_t allocated(void)
{
	struct mallinfo2 m;

	if (__sanitizer_get_current_allocated_bytes != NULL)
		return __sanitizer_get_current_allocated_bytes();
	m = mallinfo2();
	return m.uordblks + m.hblkhd;
}

/* What is left when a mark has ended; lists and memory are given back. */
static void the_end_keeps_what_was_found(void **state)
{
	struct fixture *f = *state;
	size_t before = 0;
	size_t n = 0;

	make(f, 1048576);
	f->store.absent[7] = true;
	add_range(f, 0, 100);
	flush(f);
	before = allocated();
	touch_end(f->t);
	assert_true(before - allocated() > 70 * (1U << 20));
	(void)touch_canaries(f->t, &n);
	assert_int_equal(n, 99);
	assert_int_equal(index_of(touch_missing(f->t, &n)), 7);
	assert_int_equal(n, 1);
	assert_int_equal(counts(f).touched, 99);
}

#define TOUCH_TEST(t) cmocka_unit_test_setup_teardown(t, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TOUCH_TEST(waits_until_the_batch_is_full),
		TOUCH_TEST(each_is_touched_once_where_memory_knows),
		TOUCH_TEST(a_repetition_is_resolved_with_the_first),
		TOUCH_TEST(one_that_waits_is_known),
		TOUCH_TEST(off_touches_at_once),
		TOUCH_TEST(every_chunk_is_touched_whatever_the_memory),
		TOUCH_TEST(missing_are_resolved_and_told),
		TOUCH_TEST(the_first_chunks_are_probed),
		TOUCH_TEST(one_that_fails_leaves_the_others),
		TOUCH_TEST(a_hook_ends_it),
		TOUCH_TEST(stops_when_told),
		TOUCH_TEST(canaries_are_spread),
		TOUCH_TEST(the_end_keeps_what_was_found),
	};

	touch_free(NULL);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
