/* SPDX-License-Identifier: MIT */
/*
 * Scans of many directories: what is told, in which order, with one thread and
 * with several.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <time.h>

#include "tests/support/storefix.h"

enum { DIRS = 600, EACH = 3, STEP = 97, FULL = 2200 };

struct fixture {
	struct storefix *f;
	struct store_prefixes there;
	struct store_scan_plan plan;
	struct task task;

	/* What was told. */
	unsigned begun; /* the next prefix to begin */
	unsigned ended;
	unsigned entries;
	unsigned here; /* of the prefix that was begun */
	unsigned fail_at;
	unsigned stop_at;

	/* By the hook, from any thread. */
	pthread_mutex_t mutex;
	unsigned inside;
	unsigned most_inside;
	int64_t sleep_ns;
	const char *bad;
	uint64_t looks;
};

static int on_begin(void *ctx, unsigned prefix, struct err *e)
{
	struct fixture *x = ctx;

	(void)e;
	assert_int_equal(prefix, x->begun);
	x->begun++;
	x->here = 0;
	return 0;
}

static int on_entry(void *ctx, const struct store_entry *entry, struct err *e)
{
	struct fixture *x = ctx;

	(void)e;
	assert_int_equal(entry->kind, STORE_CHUNK);
	assert_int_equal(digest_prefix(&entry->digest), x->begun - 1);
	assert_true(entry->regular);
	assert_int_equal(entry->bytes, 16);
	x->entries++;
	x->here++;
	return 0;
}

static int on_end(void *ctx, unsigned prefix, struct err *e)
{
	struct fixture *x = ctx;

	assert_int_equal(prefix, x->begun - 1);
	assert_int_equal(prefix % STEP, 0);
	x->ended++;
	if (x->ended == x->stop_at)
		x->task.stop = 15;
	if (x->ended == x->fail_at)
		return err_set(e, ERR_REFUSED, "ended enough");
	return 0;
}

static int setup(void **state)
{
	struct fixture *x = calloc(1, sizeof(*x));
	void *f = NULL;

	if (x == NULL || storefix_setup(&f) < 0)
		return -1;
	x->f = f;
	x->task = (struct task)TASK_SILENT;
	pthread_mutex_init(&x->mutex, NULL);
	for (unsigned i = 0; i < DIRS; i++) {
		for (uint8_t n = 0; n < EACH; n++) {
			struct digest d = storefix_digest(i * STEP, n);

			storefix_put(x->f, &d, "", "0123456789abcdef", 16);
		}
	}
	assert_ok(
	    store_list_prefixes(x->f->store, &x->there, &x->f->e), &x->f->e);
	x->plan = (struct store_scan_plan){
		.there = &x->there,
		.last = STORE_PREFIXES - 1,
		.begin = on_begin,
		.entry = on_entry,
		.end = on_end,
		.ctx = x,
	};
	*state = x;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *x = *state;
	void *f = x->f;

	(void)storefix_teardown(&f);
	pthread_mutex_destroy(&x->mutex);
	free(x);
	return 0;
}

static void slow_look(void *ctx, struct fault_event *ev)
{
	struct fixture *x = ctx;
	const struct timespec pause = { .tv_nsec = x->sleep_ns };

	if (ev->call != FAULT_STATX)
		return;
	pthread_mutex_lock(&x->mutex);
	x->inside++;
	x->looks++;
	if (x->inside > x->most_inside)
		x->most_inside = x->inside;
	pthread_mutex_unlock(&x->mutex);
	if (x->sleep_ns > 0)
		(void)nanosleep(&pause, NULL);
	pthread_mutex_lock(&x->mutex);
	x->inside--;
	pthread_mutex_unlock(&x->mutex);
	if (x->bad != NULL && strncmp(ev->name, x->bad, strlen(x->bad)) == 0) {
		ev->skip = true;
		ev->result = -1;
		ev->error = EIO;
	}
}

static void make_slow(struct fixture *x, int64_t ns)
{
	const struct fault_hooks hooks = { .before = slow_look, .ctx = x };

	x->sleep_ns = ns;
	fault_install();
	fault_set_hooks(&hooks);
}

static int scan(struct fixture *x)
{
	x->begun = x->plan.first;
	x->ended = 0;
	x->entries = 0;
	return store_scan_all(x->f->store, &x->plan, &x->task, &x->f->e);
}

static void all_is_told_in_order(void **state)
{
	static const int64_t waits[] = { 0, 1000000 };
	struct fixture *x = *state;

	for (size_t i = 0; i < TEST_COUNT(waits); i++) {
		size_t fds = tmpdir_open_fds();

		make_slow(x, waits[i]);
		x->looks = 0;
		assert_ok(scan(x), &x->f->e);
		fault_uninstall();
		assert_int_equal(x->begun, STORE_PREFIXES);
		assert_int_equal(x->ended, DIRS);
		assert_int_equal(x->entries, DIRS * EACH);
		/* Each is looked at once, and nothing else is. */
		assert_int_equal(x->looks, DIRS * EACH);
		assert_int_equal(tmpdir_open_fds(), fds);
		if (waits[i] == 0) {
			assert_int_equal(x->most_inside, 1);
		} else {
			assert_in_range(x->most_inside, 4, 32);
		}
	}
}

static void a_part_can_be_scanned(void **state)
{
	struct fixture *x = *state;

	x->plan.first = 5 * STEP;
	x->plan.last = 7 * STEP + 1;
	assert_ok(scan(x), &x->f->e);
	assert_int_equal(x->begun, 7 * STEP + 2);
	assert_int_equal(x->ended, 3);
	assert_int_equal(x->entries, 3 * EACH);
}

/* What fails is told when its turn comes. */
static void a_failure_keeps_the_order(void **state)
{
	struct fixture *x = *state;
	char prefix[8];

	(void)snprintf(prefix, sizeof(prefix), "%04x", 500U * STEP);
	make_slow(x, 1000000);
	x->bad = prefix;
	assert_err(scan(x), &x->f->e, ERR_SYS, prefix);
	assert_int_equal(x->ended, 500);
	assert_int_equal(x->begun, 500 * STEP + 1);
	assert_true(x->most_inside > 1);
	x->bad = NULL;
	x->fail_at = 550;
	assert_err(scan(x), &x->f->e, ERR_REFUSED, "ended enough");
	assert_int_equal(x->ended, 550);
}

static void a_stop_is_heard(void **state)
{
	struct fixture *x = *state;

	make_slow(x, 1000000);
	x->stop_at = 450;
	assert_err(scan(x), &x->f->e, ERR_CANCELLED, "");
	assert_in_range(x->ended, 450, DIRS - 1);
}

/* More than is read ahead: the caller's thread does it, when it is its turn. */
static void a_full_directory_is_told_too(void **state)
{
	struct fixture *x = *state;

	for (unsigned i = 0; i < FULL; i++) {
		struct digest d = storefix_digest(590 * STEP, 77);

		d.b[20] = (uint8_t)(i >> 8);
		d.b[21] = (uint8_t)i;
		storefix_put(x->f, &d, "", "0123456789abcdef", 16);
	}
	make_slow(x, 300000);
	assert_ok(scan(x), &x->f->e);
	assert_int_equal(x->entries, DIRS * EACH + FULL);
	assert_int_equal(x->ended, DIRS);
}

/* A kind of store without it is scanned one by one. */
static void without_one_it_is_the_same(void **state)
{
	struct fixture *x = *state;
	struct store_ops ops = *x->f->store->ops;
	const struct store_ops *own = x->f->store->ops;
	int rc = 0;

	ops.scan_all = NULL;
	x->f->store->ops = &ops;
	rc = scan(x);
	x->f->store->ops = own;
	assert_ok(rc, &x->f->e);
	assert_int_equal(x->begun, STORE_PREFIXES);
	assert_int_equal(x->entries, DIRS * EACH);
	assert_int_equal(x->ended, DIRS);
}

#define WALK_TEST(t) cmocka_unit_test_setup_teardown(t, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		WALK_TEST(all_is_told_in_order),
		WALK_TEST(a_part_can_be_scanned),
		WALK_TEST(a_failure_keeps_the_order),
		WALK_TEST(a_stop_is_heard),
		WALK_TEST(a_full_directory_is_told_too),
		WALK_TEST(without_one_it_is_the_same),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
