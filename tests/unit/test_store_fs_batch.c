/* SPDX-License-Identifier: MIT */
/*
 * Batches: their order, several touches at once, failures and stops then.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <time.h>

#include "datastore/store_fs_internal.h"
#include "tests/support/gen.h"
#include "tests/support/storefix.h"

enum { MANY = 3000, FILES = 2900 };

struct fixture {
	struct storefix *f;
	struct digest d[MANY];
	uint64_t keys[MANY];
	struct store_batch b;
	struct task task;
	size_t told;
	size_t stop_at; /* the task, when so many were told */
	size_t fail_at;

	/* By the hook, from any thread. */
	pthread_mutex_t mutex;
	unsigned inside;
	unsigned most_inside;
	int64_t sleep_ns;
	const struct digest *bad; /* EIO */
	bool first_only; /* only the first touch of a directory waits */
	bool visited[STORE_PREFIXES];
	uint64_t touched;
	uint64_t inodes[MANY]; /* in the order of touches */
};

static void make_digests(struct fixture *x)
{
	struct gen g;

	gen_seed(&g, 11);
	for (size_t i = 0; i < MANY; i++) {
		gen_fill(&g, GEN_RANDOM, x->d[i].b, sizeof(x->d[i].b));
		/* Eight or so in each directory. */
		x->d[i].b[0] = 0;
		x->d[i].b[1] = (uint8_t)(i * 37 % 251);
		x->d[i].b[2] = (uint8_t)(i >> 8);
		x->d[i].b[3] = (uint8_t)i;
	}
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
	make_digests(x);
	x->b = (struct store_batch){ .d = x->d, .n = MANY, .keys = x->keys };
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

static bool is_bad(const struct fixture *x, const char *name)
{
	char hex[DIGEST_HEX_SIZE];

	if (x->bad == NULL)
		return false;
	digest_hex(x->bad, hex);
	return strstr(name, hex) != NULL;
}

/* Does this one wait?  Mutex held. */
static bool waits(struct fixture *x, const char *name)
{
	unsigned long prefix = strtoul(name, NULL, 16);
	bool first = true;

	if (prefix < STORE_PREFIXES) {
		first = !x->visited[prefix];
		x->visited[prefix] = true;
	}
	return x->sleep_ns > 0 && (first || !x->first_only);
}

/* Touches are as slow as told, and succeed without being made. */
static void slow_touch(void *ctx, struct fault_event *ev)
{
	struct fixture *x = ctx;
	const struct timespec pause = { .tv_nsec = x->sleep_ns };
	bool slow = false;

	if (ev->call != FAULT_UTIMENSAT)
		return;
	pthread_mutex_lock(&x->mutex);
	x->inside++;
	x->touched++;
	if (x->inside > x->most_inside)
		x->most_inside = x->inside;
	slow = waits(x, ev->name);
	pthread_mutex_unlock(&x->mutex);
	if (slow)
		(void)nanosleep(&pause, NULL);
	pthread_mutex_lock(&x->mutex);
	x->inside--;
	pthread_mutex_unlock(&x->mutex);
	ev->skip = true;
	ev->result = 0;
	if (is_bad(x, ev->name)) {
		ev->result = -1;
		ev->error = EIO;
	}
}

static void make_slow(struct fixture *x, int64_t ns)
{
	const struct fault_hooks hooks = { .before = slow_touch, .ctx = x };

	/* Directories only: chunks are what the hook says. */
	for (unsigned p = 0; p < 251; p++) {
		char name[8];

		(void)snprintf(name, sizeof(name), "%04x", p);
		if (mkdirat(x->f->chunks_fd, name, 0750) < 0)
			assert_int_equal(errno, EEXIST);
	}
	x->sleep_ns = ns;
	fault_install();
	fault_set_hooks(&hooks);
}

static int tell(
    void *ctx, const struct digest *d, enum store_touched what, struct err *e)
{
	struct fixture *x = ctx;

	assert_true(digest_equal(d, store_batch_at(&x->b, x->told)));
	assert_int_equal(what, STORE_TOUCHED);
	x->told++;
	if (x->told == x->stop_at)
		x->task.stop = 15;
	if (x->told == x->fail_at)
		return err_set(e, ERR_REFUSED, "told enough");
	return 0;
}

static int touch(struct fixture *x)
{
	assert_ok(store_plan(x->f->store, &x->b, &x->task, &x->f->e), &x->f->e);
	assert_int_equal(x->b.todo, MANY);
	return store_touch_batch(
	    x->f->store, &x->b, x->told, tell, x, &x->task, &x->f->e);
}

/* Many are in flight while calls wait, and all are told of in order. */
static void several_while_calls_wait(void **state)
{
	struct fixture *x = *state;
	struct store_pace pace;

	make_slow(x, 1000000);
	assert_ok(touch(x), &x->f->e);
	assert_int_equal(x->told, MANY);
	assert_int_equal(x->touched, MANY);
	assert_in_range(x->most_inside, 4, 32);
	store_pace(x->f->store, &pace);
	assert_int_equal(pace.calls, MANY);
	assert_true(pace.threads > 1);
	assert_true(pace.call_ns >= 1000000);
	assert_false(pace.by_inode);
}

static void one_while_they_do_not(void **state)
{
	struct fixture *x = *state;
	struct store_pace pace;

	make_slow(x, 0);
	assert_ok(touch(x), &x->f->e);
	assert_int_equal(x->told, MANY);
	assert_int_equal(x->most_inside, 1);
	store_pace(x->f->store, &pace);
	assert_int_equal(pace.threads, 1);
}

/* The failure is that of the first one not told of; it can be gone on with. */
static void a_failure_among_several_keeps_the_order(void **state)
{
	struct fixture *x = *state;
	char hex[DIGEST_HEX_SIZE];
	size_t fds = 0;

	make_slow(x, 1000000);
	fds = tmpdir_open_fds();
	assert_ok(store_plan(x->f->store, &x->b, &x->task, &x->f->e), &x->f->e);
	x->bad = store_batch_at(&x->b, 2000);
	digest_hex(x->bad, hex);
	assert_err(touch(x), &x->f->e, ERR_SYS, hex);
	assert_int_equal(x->told, 2000);
	assert_true(x->most_inside > 1);
	assert_int_equal(tmpdir_open_fds(), fds);
	x->bad = NULL;
	assert_ok(touch(x), &x->f->e);
	assert_int_equal(x->told, MANY);
}

static void the_teller_can_end_it(void **state)
{
	struct fixture *x = *state;

	make_slow(x, 1000000);
	x->fail_at = 1500;
	assert_err(touch(x), &x->f->e, ERR_REFUSED, "told enough");
	assert_int_equal(x->told, 1500);
}

static void a_stop_is_heard_between_touches(void **state)
{
	struct fixture *x = *state;

	make_slow(x, 1000000);
	x->stop_at = 1000;
	assert_err(touch(x), &x->f->e, ERR_CANCELLED, "");
	assert_true(x->touched < 2500);
	x->task.stop = 0;
	x->stop_at = 0;
	x->told = 0;
	x->touched = 0;
	x->task.stop = 2;
	assert_err(store_plan(x->f->store, &x->b, &x->task, &x->f->e), &x->f->e,
	    ERR_CANCELLED, "");
	assert_int_equal(x->touched, 0);
}

static void note_inode(void *ctx, struct fault_event *ev)
{
	struct fixture *x = ctx;
	struct stat st;

	if (ev->call != FAULT_UTIMENSAT)
		return;
	assert_int_equal(
	    fstatat(ev->fd, ev->name, &st, AT_SYMLINK_NOFOLLOW), 0);
	x->inodes[x->touched++] = st.st_ino;
}

/* Files made in the order of the batch, or, of an aged store, in any. */
static void put_files(struct fixture *x, bool aged)
{
	struct gen g;

	for (size_t i = 0; i < FILES; i++)
		storefix_put(x->f, &x->d[i], "", "0123456789abcdef", 16);
	x->b.n = FILES;
	gen_seed(&g, 5);
	for (size_t i = FILES; aged && i > 1; i--) {
		size_t k = (size_t)gen_below(&g, i);
		struct digest tmp = x->d[i - 1];

		x->d[i - 1] = x->d[k];
		x->d[k] = tmp;
	}
}

static void touch_noting(struct fixture *x, bool by_inode)
{
	const struct fault_hooks hooks = { .before = note_inode, .ctx = x };

	fault_install();
	fault_set_hooks(&hooks);
	store_fs_set_kind(x->f->store, false, by_inode);
	assert_ok(store_plan(x->f->store, &x->b, &x->task, &x->f->e), &x->f->e);
	assert_int_equal(x->b.todo, FILES);
	assert_ok(store_touch_batch(
		      x->f->store, &x->b, 0, tell, x, &x->task, &x->f->e),
	    &x->f->e);
	assert_int_equal(x->touched, FILES);
}

/* An aged store: the directories tell in which order inodes lie. */
static void in_order_of_inodes(void **state)
{
	struct fixture *x = *state;
	struct store_pace pace;

	put_files(x, true);
	store_fs_of(x->f->store)->rank_from = FILES;
	touch_noting(x, true);
	for (size_t i = 1; i < FILES; i++)
		assert_true(x->inodes[i - 1] < x->inodes[i]);
	store_pace(x->f->store, &pace);
	assert_true(pace.by_inode);
	assert_true(fault_count(FAULT_BIT(FAULT_GETDENTS64)) > 0);
}

/* Files made in the order of the batch; not every file system numbers so. */
static void put_rising(struct fixture *x)
{
	struct stat st;
	uint64_t before = 0;

	put_files(x, false);
	for (size_t i = 0; i < FILES; i++) {
		assert_true(storefix_stat(x->f, &x->d[i], "", &st));
		if (st.st_ino < before)
			skip();
		before = st.st_ino;
	}
}

/* A fresh store: chunks are met as they lie, and no directory is read. */
static void as_they_come_if_that_is_it(void **state)
{
	struct fixture *x = *state;

	put_rising(x);
	for (unsigned by_inode = 0; by_inode < 2; by_inode++) {
		x->touched = 0;
		x->told = 0;
		touch_noting(x, by_inode == 1);
		for (size_t i = 0; i < FILES; i++)
			assert_int_equal(touchorder_index(x->keys[i]), i);
		assert_int_equal(fault_count(FAULT_BIT(FAULT_GETDENTS64)), 0);
		fault_uninstall();
	}
}

/* Were the keys taken in the order of prefixes? */
static bool is_by_prefix(const struct fixture *x)
{
	bool rising = true;

	for (size_t i = 1; i < FILES; i++)
		rising = rising &&
		    digest_prefix(store_batch_at(&x->b, i - 1)) <=
			digest_prefix(store_batch_at(&x->b, i));
	return rising;
}

static bool plan_with_memory(struct fixture *x, uint64_t bytes)
{
	store_fs_of(x->f->store)->memory = bytes;
	assert_ok(store_plan(x->f->store, &x->b, &x->task, &x->f->e), &x->f->e);
	assert_int_equal(x->b.todo, FILES);
	return is_by_prefix(x);
}

/* A fresh one: what counts is what memory can hold, half of it filled. */
static void by_prefix_if_only_inodes_fit(void **state)
{
	struct fixture *x = *state;
	const uint64_t inodes = FILES * 256;
	uint64_t directories = 0;
	struct stat st;

	put_rising(x);
	assert_int_equal(fstatat(x->f->chunks_fd, "0000", &st, 0), 0);
	directories = 251 * ((uint64_t)st.st_size + 1024);
	if (directories <= inodes)
		skip(); /* of this file system they are small */
	assert_false(plan_with_memory(x, 2 * directories));
	assert_true(plan_with_memory(x, 2 * directories - 2));
	assert_true(plan_with_memory(x, 2 * inodes));
	assert_false(plan_with_memory(x, 2 * inodes - 2));
	store_fs_set_kind(x->f->store, false, true);
	assert_false(plan_with_memory(x, 2 * inodes));
}

/* An aged one, elsewhere than on btrfs, or where too few are touched there. */
static void by_prefix_if_it_is_not(void **state)
{
	struct fixture *x = *state;

	put_files(x, true);
	for (unsigned by_inode = 0; by_inode < 2; by_inode++) {
		x->touched = 0;
		x->told = 0;
		touch_noting(x, by_inode == 1);
		assert_true(is_by_prefix(x));
		assert_int_equal(fault_count(FAULT_BIT(FAULT_GETDENTS64)), 0);
		fault_uninstall();
	}
}

/*
 * Directories have to be read, but stay in memory then: the order is kept, with
 * many in flight.  Every second touch is the first one of a directory.
 */
static void as_they_come_while_directories_stay(void **state)
{
	struct fixture *x = *state;

	for (size_t i = 0; i < FILES; i++) {
		size_t k = i % 2 == 0 ? i / 2 : i * 37 % (i / 2 + 1);

		x->d[i].b[0] = (uint8_t)(k >> 8);
		x->d[i].b[1] = (uint8_t)k;
	}
	put_rising(x);
	make_slow(x, 1000000);
	x->first_only = true;
	assert_ok(store_plan(x->f->store, &x->b, &x->task, &x->f->e), &x->f->e);
	assert_ok(store_touch_batch(
		      x->f->store, &x->b, 0, tell, x, &x->task, &x->f->e),
	    &x->f->e);
	assert_int_equal(x->told, FILES);
	assert_int_equal(x->touched, FILES);
	assert_true(x->most_inside > 1);
	for (size_t i = 0; i < FILES; i++)
		assert_int_equal(touchorder_index(x->keys[i]), i);
}

/* When they are read again, what is left is touched by prefix; each once. */
static void by_prefix_once_directories_are_read_again(void **state)
{
	struct fixture *x = *state;
	size_t falls = 0;

	put_rising(x);
	make_slow(x, 1000000);
	assert_ok(store_plan(x->f->store, &x->b, &x->task, &x->f->e), &x->f->e);
	for (size_t i = 0; i < FILES; i++)
		assert_int_equal(touchorder_index(x->keys[i]), i);
	assert_ok(store_touch_batch(
		      x->f->store, &x->b, 0, tell, x, &x->task, &x->f->e),
	    &x->f->e);
	assert_int_equal(x->told, FILES);
	assert_int_equal(x->touched, FILES);
	assert_true(x->most_inside > 1);
	for (size_t i = FILES * 3 / 4; i < FILES; i++)
		falls += digest_prefix(store_batch_at(&x->b, i - 1)) >
		    digest_prefix(store_batch_at(&x->b, i));
	assert_int_equal(falls, 0);
}

/* Where more lie in a directory, its name is looked up once. */
static void a_full_directory_is_opened(void **state)
{
	struct fixture *x = *state;

	for (size_t i = 0; i < 40; i++)
		x->d[i].b[1] = i < 10 ? 1 : 2;
	x->b.n = 40;
	make_slow(x, 0);
	assert_ok(store_plan(x->f->store, &x->b, &x->task, &x->f->e), &x->f->e);
	assert_ok(store_touch_batch(
		      x->f->store, &x->b, 0, tell, x, &x->task, &x->f->e),
	    &x->f->e);
	assert_int_equal(x->told, 40);
	assert_int_equal(fault_count(FAULT_BIT(FAULT_OPENAT)), 1);
	assert_int_equal(fault_count(FAULT_BIT(FAULT_CLOSE)), 1);
}

#define BATCH_TEST(t) cmocka_unit_test_setup_teardown(t, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		BATCH_TEST(several_while_calls_wait),
		BATCH_TEST(one_while_they_do_not),
		BATCH_TEST(a_failure_among_several_keeps_the_order),
		BATCH_TEST(the_teller_can_end_it),
		BATCH_TEST(a_stop_is_heard_between_touches),
		BATCH_TEST(in_order_of_inodes),
		BATCH_TEST(as_they_come_if_that_is_it),
		BATCH_TEST(by_prefix_if_it_is_not),
		BATCH_TEST(by_prefix_if_only_inodes_fit),
		BATCH_TEST(as_they_come_while_directories_stay),
		BATCH_TEST(by_prefix_once_directories_are_read_again),
		BATCH_TEST(a_full_directory_is_opened),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
