/* SPDX-License-Identifier: MIT */
#include "datastore/base/workers.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

#include "datastore/base/clock.h"
#include "tests/support/test.h"

#define SLOTS 6
#define THREADS 3
#define NOWHERE UINT64_MAX

struct slot {
	uint64_t item;
	uint64_t square; /* what work makes of it */
};

/* What the callbacks do and have seen. */
struct job {
	struct workers *w;
	struct slot slots[SLOTS];
	void *pointers[SLOTS];
	struct err e;
	uint64_t next; /* to submit */

	uint64_t slow_at; /* this item takes its time */
	uint64_t fail_at;
	uint64_t fail_from; /* this one and all behind it */
	uint64_t fail_retire_at;
	bool fail_init;
	atomic_bool hold; /* no work ends */

	atomic_uint inits;
	atomic_uint releases;
	atomic_uint begun;
	atomic_uint at_work;
	atomic_uint at_work_most;
	uint64_t retired; /* in the owner's thread */
	uint64_t retire_calls;
	pthread_t owner;
	bool wrong; /* a check of retire failed */
};

static int job_thread_init(void *ctx, void **ret_local, struct err *e)
{
	struct job *job = ctx;
	unsigned n = atomic_fetch_add(&job->inits, 1);

	if (job->fail_init && n == 1)
		return err_set(e, ERR_UNSUPPORTED, "no second thread");
	*ret_local = malloc(1);
	return *ret_local == NULL ? err_nomem(e) : 0;
}

static void job_thread_release(void *ctx, void *local)
{
	struct job *job = ctx;

	atomic_fetch_add(&job->releases, 1);
	free(local);
}

static int job_work(void *ctx, void *local, void *p, struct err *e)
{
	struct job *job = ctx;
	struct slot *slot = p;
	unsigned n = atomic_fetch_add(&job->at_work, 1) + 1;
	unsigned most = atomic_load(&job->at_work_most);
	int rc = 0;

	atomic_fetch_add(&job->begun, 1);
	while (n > most &&
	    !atomic_compare_exchange_weak(&job->at_work_most, &most, n)) {
	}
	if (slot->item == job->slow_at)
		clock_sleep_ms(60);
	while (atomic_load(&job->hold))
		clock_sleep_ms(1);
	slot->square = local == NULL ? 0 : slot->item * slot->item;
	if (slot->item == job->fail_at || slot->item >= job->fail_from) {
		rc = err_set(
		    e, ERR_CORRUPT, "item %u is bad", (unsigned)slot->item);
	}
	atomic_fetch_sub(&job->at_work, 1);
	return rc;
}

static int job_retire(void *ctx, void *p, struct err *e)
{
	struct job *job = ctx;
	const struct slot *slot = p;

	job->retire_calls++;
	if (slot->item != job->retired ||
	    slot->square != slot->item * slot->item ||
	    !pthread_equal(pthread_self(), job->owner))
		job->wrong = true;
	if (slot->item == job->fail_retire_at)
		return err_set(e, ERR_LIMIT, "no room for this");
	job->retired++;
	return 0;
}

static const struct workers_ops job_ops = {
	.thread_init = job_thread_init,
	.thread_release = job_thread_release,
	.work = job_work,
	.retire = job_retire,
};

static int setup(void **state)
{
	struct job *job = calloc(1, sizeof(*job));

	if (job == NULL)
		return -1;
	for (size_t i = 0; i < SLOTS; i++)
		job->pointers[i] = &job->slots[i];
	job->slow_at = NOWHERE;
	job->fail_at = NOWHERE;
	job->fail_from = NOWHERE;
	job->fail_retire_at = NOWHERE;
	job->owner = pthread_self();
	*state = job;
	return 0;
}

static int teardown(void **state)
{
	struct job *job = *state;

	atomic_store(&job->hold, false);
	workers_free(job->w);
	free(job);
	return 0;
}

static void start(struct job *job)
{
	assert_ok(workers_new(&job_ops, job, THREADS, job->pointers, SLOTS,
		      &job->w, &job->e),
	    &job->e);
}

/* Submit n more; the code of the first get that fails. */
static int submit(struct job *job, uint64_t n)
{
	for (; n > 0; n--) {
		void *p = NULL;
		struct slot *slot = NULL;
		int rc = workers_get(job->w, &p, &job->e);

		if (rc < 0)
			return rc;
		slot = p;
		slot->item = job->next++;
		slot->square = 0;
		workers_submit(job->w);
	}
	return 0;
}

static void await(atomic_uint *what, unsigned n)
{
	for (unsigned ms = 0; atomic_load(what) < n; ms++) {
		assert_true(ms < 20000);
		clock_sleep_ms(1);
	}
}

static void test_default_threads(void **state)
{
	unsigned n = workers_default_threads();

	(void)state;
	assert_in_range(n, 1, 64);
}

/* The first item is the slowest, and is retired first all the same. */
static void test_order(void **state)
{
	struct job *job = *state;

	job->slow_at = 0;
	start(job);
	assert_ok(submit(job, 50), &job->e);
	assert_ok(workers_finish(job->w, &job->e), &job->e);
	assert_int_equal(job->retired, 50);
	assert_false(job->wrong);
	assert_int_equal(atomic_load(&job->begun), 50);

	/* It goes on after a finish; one with nothing to do is no error. */
	assert_ok(workers_finish(job->w, &job->e), &job->e);
	assert_ok(submit(job, 7), &job->e);
	assert_ok(workers_finish(job->w, &job->e), &job->e);
	assert_int_equal(job->retired, 57);
	assert_false(job->wrong);

	workers_free(job->w);
	job->w = NULL;
	assert_int_equal(atomic_load(&job->inits), THREADS);
	assert_int_equal(atomic_load(&job->releases), THREADS);
}

/* All threads work, all slots are used, and get waits for the oldest. */
static void test_bounded(void **state)
{
	struct job *job = *state;
	void *p = NULL;
	void *again = NULL;

	atomic_store(&job->hold, true);
	start(job);
	assert_ok(submit(job, SLOTS), &job->e);
	await(&job->at_work, THREADS);
	clock_sleep_ms(20);
	assert_int_equal(atomic_load(&job->begun), THREADS);
	assert_int_equal(job->retired, 0);
	atomic_store(&job->hold, false);

	assert_ok(workers_get(job->w, &p, &job->e), &job->e);
	assert_true(job->retired >= 1);
	assert_ptr_equal(p, &job->slots[0]);
	/* Not submitted: it is handed out again. */
	assert_ok(workers_get(job->w, &again, &job->e), &job->e);
	assert_ptr_equal(again, p);
	assert_ok(workers_finish(job->w, &job->e), &job->e);
	assert_int_equal(job->retired, SLOTS);
	assert_int_equal(atomic_load(&job->at_work_most), THREADS);
}

/* Item 5 fails at once, item 3 later: it is the error of 3 that counts. */
static void test_first_error_wins(void **state)
{
	struct job *job = *state;
	unsigned begun = 0;

	job->slow_at = 3;
	job->fail_at = 3;
	job->fail_from = 5;
	start(job);
	assert_err(submit(job, 50), &job->e, ERR_CORRUPT, "item 3 is bad");
	assert_int_equal(job->retired, 3);
	assert_false(job->wrong);
	begun = atomic_load(&job->begun);
	assert_in_range(begun, 4, SLOTS + 3);

	/* It stays so, and nothing more is begun. */
	assert_err(submit(job, 1), &job->e, ERR_CORRUPT, "item 3 is bad");
	job->e = (struct err)ERR_INIT;
	assert_err(workers_finish(job->w, &job->e), &job->e, ERR_CORRUPT,
	    "item 3 is bad");
	assert_int_equal(job->retired, 3);
	workers_free(job->w);
	job->w = NULL;
	assert_int_equal(atomic_load(&job->begun), begun);
}

/* No new slot after a failure, even while there are free ones. */
static void test_get_tells_early(void **state)
{
	struct job *job = *state;
	void *p = NULL;
	int rc = 0;

	job->fail_at = 0;
	start(job);
	assert_ok(submit(job, 1), &job->e);
	for (unsigned ms = 0; rc == 0; ms++) {
		assert_true(ms < 20000);
		rc = workers_get(job->w, &p, &job->e);
		clock_sleep_ms(1);
	}
	assert_err(rc, &job->e, ERR_CORRUPT, "item 0 is bad");
	assert_int_equal(job->retired, 0);
}

/* Item 1 has failed while item 0 is still at work: get waits for 0. */
static void test_get_goes_to_failure(void **state)
{
	struct job *job = *state;
	void *p = NULL;

	job->slow_at = 0;
	job->fail_at = 1;
	start(job);
	assert_ok(submit(job, 2), &job->e);
	await(&job->begun, 2);
	while (atomic_load(&job->at_work) > 1)
		clock_sleep_ms(1);
	/* From the end of work() to its result being noted. */
	clock_sleep_ms(20);
	assert_err(workers_get(job->w, &p, &job->e), &job->e, ERR_CORRUPT,
	    "item 1 is bad");
	assert_int_equal(job->retired, 1);
	assert_null(p);
}

static void test_retire_fails(void **state)
{
	struct job *job = *state;

	job->fail_retire_at = 4;
	job->fail_at = 6;
	start(job);
	assert_err(submit(job, 50), &job->e, ERR_LIMIT, "no room for this");
	assert_int_equal(job->retired, 4);
	assert_err(workers_finish(job->w, &job->e), &job->e, ERR_LIMIT,
	    "no room for this");
	assert_int_equal(job->retired, 4);
	/* It is remembered, not tried again. */
	assert_int_equal(job->retire_calls, 5);
}

/* Three are at work when the first fails: the others are not begun. */
static void test_none_begun_after(void **state)
{
	struct job *job = *state;

	atomic_store(&job->hold, true);
	job->fail_from = 0;
	start(job);
	assert_ok(submit(job, SLOTS), &job->e);
	await(&job->at_work, THREADS);
	atomic_store(&job->hold, false);
	assert_err(workers_finish(job->w, &job->e), &job->e, ERR_CORRUPT,
	    "item 0 is bad");
	workers_free(job->w);
	job->w = NULL;
	assert_int_equal(atomic_load(&job->begun), THREADS);
	assert_int_equal(job->retire_calls, 0);
}

static void test_init_fails(void **state)
{
	struct job *job = *state;
	int rc = 0;

	job->fail_init = true;
	rc = workers_new(
	    &job_ops, job, THREADS, job->pointers, SLOTS, &job->w, &job->e);
	assert_err(rc, &job->e, ERR_UNSUPPORTED, "no second thread");
	assert_null(job->w);
	assert_int_equal(atomic_load(&job->inits), THREADS);
	assert_int_equal(atomic_load(&job->releases), THREADS - 1);
}

static void *let_go_soon(void *arg)
{
	struct job *job = arg;

	clock_sleep_ms(50);
	atomic_store(&job->hold, false);
	return NULL;
}

/* What is not begun when the end comes is dropped. */
static void test_free_drops(void **state)
{
	struct job *job = *state;
	pthread_t t;

	atomic_store(&job->hold, true);
	start(job);
	assert_ok(submit(job, SLOTS), &job->e);
	await(&job->at_work, THREADS);
	assert_int_equal(pthread_create(&t, NULL, let_go_soon, job), 0);
	workers_free(job->w);
	job->w = NULL;
	(void)pthread_join(t, NULL);
	assert_int_equal(atomic_load(&job->begun), THREADS);
	assert_int_equal(job->retired, 0);
	workers_free(NULL);
}

struct thread_facts {
	sigset_t blocked;
	char name[16];
};

static int look_at_thread(void *ctx, void *local, void *slot, struct err *e)
{
	struct thread_facts *facts = slot;

	(void)ctx;
	(void)local;
	if (pthread_sigmask(SIG_SETMASK, NULL, &facts->blocked) != 0 ||
	    pthread_getname_np(
		pthread_self(), facts->name, sizeof(facts->name)) != 0)
		return err_set(e, ERR_INVALID, "thread not looked at");
	return 0;
}

static int retire_nothing(void *ctx, void *slot, struct err *e)
{
	(void)ctx;
	(void)slot;
	(void)e;
	return 0;
}

/* Signals go to the main thread; people see what a thread is. */
static void test_threads_are_ours(void **state)
{
	static const struct workers_ops ops = {
		.work = look_at_thread,
		.retire = retire_nothing,
	};
	struct thread_facts facts[2] = { 0 };
	void *pointers[] = { &facts[0], &facts[1] };
	struct job *job = *state;
	sigset_t mine;
	void *p = NULL;

	assert_ok(
	    workers_new(&ops, NULL, 1, pointers, 2, &job->w, &job->e), &job->e);
	assert_int_equal(pthread_sigmask(SIG_SETMASK, NULL, &mine), 0);
	assert_int_equal(sigismember(&mine, SIGTERM), 0);
	assert_ok(workers_get(job->w, &p, &job->e), &job->e);
	workers_submit(job->w);
	assert_ok(workers_finish(job->w, &job->e), &job->e);
	assert_int_equal(sigismember(&facts[0].blocked, SIGTERM), 1);
	assert_int_equal(sigismember(&facts[0].blocked, SIGINT), 1);
	assert_int_equal(sigismember(&facts[0].blocked, SIGTSTP), 1);
	assert_int_equal(sigismember(&facts[0].blocked, SIGSEGV), 0);
	assert_string_equal(facts[0].name, "work 0");
}

static void test_stress(void **state)
{
	struct job *job = *state;

	start(job);
	for (unsigned i = 0; i < 20; i++) {
		assert_ok(submit(job, 1000 + i), &job->e);
		if (i % 4 == 0)
			assert_ok(workers_finish(job->w, &job->e), &job->e);
	}
	assert_ok(workers_finish(job->w, &job->e), &job->e);
	assert_int_equal(job->retired, 20190);
	assert_int_equal(atomic_load(&job->begun), 20190);
	assert_false(job->wrong);
}

/* Whichever thread is faster, the outcome of a failure is the same. */
static void test_stress_failure(void **state)
{
	struct job *job = *state;

	for (unsigned i = 0; i < 200; i++) {
		int rc = 0;

		job->next = 0;
		job->retired = 0;
		job->fail_at = i % 17;
		job->fail_from = i % 17 + 1 + i % 3;
		start(job);
		rc = submit(job, 40);
		assert_true(rc < 0);
		assert_int_equal(job->retired, i % 17);
		assert_err(workers_finish(job->w, &job->e), &job->e,
		    ERR_CORRUPT, " is bad");
		assert_int_equal(
		    strtoul(job->e.msg + strlen("item "), NULL, 10), i % 17);
		workers_free(job->w);
		job->w = NULL;
	}
	assert_false(job->wrong);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_default_threads),
		TEST(test_order),
		TEST(test_bounded),
		TEST(test_first_error_wins),
		TEST(test_get_tells_early),
		TEST(test_get_goes_to_failure),
		TEST(test_retire_fails),
		TEST(test_none_begun_after),
		TEST(test_init_fails),
		TEST(test_free_drops),
		TEST(test_threads_are_ours),
		TEST(test_stress),
		TEST(test_stress_failure),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
