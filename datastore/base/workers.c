/* SPDX-License-Identifier: MIT */
#include "datastore/base/workers.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define THREADS_MAX 64
#define THREAD_NAME_SIZE 16 /* what the kernel keeps */

enum slot_state {
	SLOT_FREE,
	SLOT_QUEUED,
	SLOT_BEGUN,
	SLOT_DONE,
	SLOT_FAILED,
};

/*
 * Items are numbered in the order of submission; item i lives in slot
 * i % slots_n.  retired <= begun <= submitted <= retired + slots_n holds when
 * `mutex` is free, and guards all below it.  Work begins in order; so when
 * the owner comes to a failed item, retiring in order, no earlier one can
 * still fail: its error is the first, whichever thread was faster.
 */
struct workers {
	const struct workers_ops *ops;
	void *ctx;
	void **slots;
	size_t slots_n;
	pthread_t *threads;
	unsigned threads_n; /* running */

	pthread_mutex_t mutex;
	pthread_cond_t todo; /* to the threads: an item, or the end */
	pthread_cond_t done; /* to the owner: an item, or a start */
	enum slot_state *states;
	uint64_t submitted;
	uint64_t begun;
	uint64_t retired;
	unsigned started; /* threads past thread_init */
	bool stopped;     /* begin no more work */
	bool quit;        /* threads are to end */
	uint64_t failed;  /* the item that `error` is of */
	struct err error;
};

unsigned workers_default_threads(void)
{
	cpu_set_t set;
	int n = 1;

	/* Fails only on machines with more CPUs than fit: then take them all */
	if (sched_getaffinity(0, sizeof(set), &set) < 0)
		return THREADS_MAX;
	n = CPU_COUNT(&set);
	if (n < 1)
		return 1;
	return n > THREADS_MAX ? THREADS_MAX : (unsigned)n;
}

/* An item failed: keep the error of the earliest one.  Mutex held. */
static void note_failure(struct workers *w, uint64_t item, const struct err *e)
{
	assert(e->code < 0);
	if (w->error.code != ERR_OK && w->failed <= item)
		return;
	w->failed = item;
	w->error = *e;
	w->stopped = true;
}

/* Work until told to quit.  Mutex held, but not during the work. */
static void work_items(struct workers *w, void *local)
{
	while (!w->quit) {
		struct err e = ERR_INIT;
		uint64_t item = w->begun;
		size_t slot = (size_t)(item % w->slots_n);
		int rc = 0;

		if (w->stopped || item == w->submitted) {
			pthread_cond_wait(&w->todo, &w->mutex);
			continue;
		}
		w->begun++;
		w->states[slot] = SLOT_BEGUN;
		pthread_mutex_unlock(&w->mutex);
		rc = w->ops->work(w->ctx, local, w->slots[slot], &e);
		pthread_mutex_lock(&w->mutex);
		w->states[slot] = rc < 0 ? SLOT_FAILED : SLOT_DONE;
		if (rc < 0)
			note_failure(w, item, &e);
		/* The owner sleeps only for the next one to retire. */
		if (item == w->retired)
			pthread_cond_signal(&w->done);
	}
}

static void *thread_main(void *arg)
{
	struct workers *w = arg;
	struct err e = ERR_INIT;
	void *local = NULL;
	int rc = 0;

	if (w->ops->thread_init != NULL)
		rc = w->ops->thread_init(w->ctx, &local, &e);
	pthread_mutex_lock(&w->mutex);
	if (rc < 0)
		note_failure(w, 0, &e);
	w->started++;
	pthread_cond_signal(&w->done);
	if (rc == 0)
		work_items(w, local);
	pthread_mutex_unlock(&w->mutex);
	if (rc == 0 && w->ops->thread_release != NULL)
		w->ops->thread_release(w->ctx, local);
	return NULL;
}

/*
 * Signals that ask the program for something go to the main thread.  Those
 * that tell of a fault go to the thread that has it, whatever it blocks.
 */
static void block_signals(sigset_t *ret_old)
{
	sigset_t set;

	sigfillset(&set);
	sigdelset(&set, SIGABRT);
	sigdelset(&set, SIGBUS);
	sigdelset(&set, SIGFPE);
	sigdelset(&set, SIGILL);
	sigdelset(&set, SIGSEGV);
	sigdelset(&set, SIGSYS);
	sigdelset(&set, SIGTRAP);
	(void)pthread_sigmask(SIG_SETMASK, &set, ret_old);
}

static int start_threads(struct workers *w, unsigned threads, struct err *e)
{
	sigset_t old;
	int rc = 0;

	block_signals(&old);
	while (w->threads_n < threads) {
		char name[THREAD_NAME_SIZE];
		int error = pthread_create(
		    &w->threads[w->threads_n], NULL, thread_main, w);

		if (error != 0) {
			errno = error;
			rc = err_sys(e, "start worker thread %u of %u",
			    w->threads_n + 1, threads);
			break;
		}
		(void)snprintf(name, sizeof(name), "work %u", w->threads_n);
		/* A name is only for people. */
		(void)pthread_setname_np(w->threads[w->threads_n], name);
		w->threads_n++;
	}
	(void)pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (rc < 0)
		return rc;
	pthread_mutex_lock(&w->mutex);
	while (w->started < w->threads_n)
		pthread_cond_wait(&w->done, &w->mutex);
	if (w->error.code != ERR_OK) {
		*e = w->error;
		rc = w->error.code;
	}
	pthread_mutex_unlock(&w->mutex);
	return rc;
}

int workers_new(const struct workers_ops *ops, void *ctx, unsigned threads,
    void **slots, size_t slots_n, struct workers **ret, struct err *e)
{
	struct workers *w = NULL;
	int rc = 0;

	assert(threads >= 1 && slots_n > threads);
	w = calloc(1, sizeof(*w));
	if (w == NULL)
		return err_nomem(e);
	/* Of default attributes they need nothing that could be lacking. */
	(void)pthread_mutex_init(&w->mutex, NULL);
	(void)pthread_cond_init(&w->todo, NULL);
	(void)pthread_cond_init(&w->done, NULL);
	w->ops = ops;
	w->ctx = ctx;
	w->slots = slots;
	w->slots_n = slots_n;
	w->threads = calloc(threads, sizeof(*w->threads));
	w->states = calloc(slots_n, sizeof(*w->states));
	if (w->threads == NULL || w->states == NULL) {
		rc = err_nomem(e);
	} else {
		rc = start_threads(w, threads, e);
	}
	if (rc < 0) {
		workers_free(w);
		return rc;
	}
	*ret = w;
	return 0;
}

/*
 * Retire the oldest item, which must be submitted: wait for it if `wait`,
 * else only if it is done; *ret_retired says.  Mutex held, but not while
 * retiring.
 */
static int retire_oldest(
    struct workers *w, bool wait, bool *ret_retired, struct err *e)
{
	size_t slot = (size_t)(w->retired % w->slots_n);
	int rc = 0;

	/* An item that will not be begun stands behind the failed one. */
	while (
	    w->states[slot] == SLOT_QUEUED || w->states[slot] == SLOT_BEGUN) {
		if (!wait) {
			*ret_retired = false;
			return 0;
		}
		pthread_cond_wait(&w->done, &w->mutex);
	}
	if (w->states[slot] == SLOT_FAILED) {
		*e = w->error;
		return w->error.code;
	}
	pthread_mutex_unlock(&w->mutex);
	rc = w->ops->retire(w->ctx, w->slots[slot], e);
	pthread_mutex_lock(&w->mutex);
	if (rc < 0) {
		/* Found again, and returned again, by the next call. */
		w->states[slot] = SLOT_FAILED;
		note_failure(w, w->retired, e);
		return rc;
	}
	w->states[slot] = SLOT_FREE;
	w->retired++;
	*ret_retired = true;
	return 0;
}

int workers_get(struct workers *w, void **ret_slot, struct err *e)
{
	bool retired = true;
	int rc = 0;

	pthread_mutex_lock(&w->mutex);
	while (rc == 0 && retired && w->retired < w->submitted) {
		/* After a failure there is nothing to hand out: go to it. */
		bool wait =
		    w->stopped || w->submitted - w->retired == w->slots_n;

		rc = retire_oldest(w, wait, &retired, e);
	}
	if (rc == 0)
		*ret_slot = w->slots[w->submitted % w->slots_n];
	pthread_mutex_unlock(&w->mutex);
	return rc;
}

void workers_submit(struct workers *w)
{
	size_t slot = 0;

	pthread_mutex_lock(&w->mutex);
	slot = (size_t)(w->submitted % w->slots_n);
	assert(w->states[slot] == SLOT_FREE);
	w->states[slot] = SLOT_QUEUED;
	w->submitted++;
	pthread_cond_signal(&w->todo);
	pthread_mutex_unlock(&w->mutex);
}

int workers_finish(struct workers *w, struct err *e)
{
	bool retired = true;
	int rc = 0;

	pthread_mutex_lock(&w->mutex);
	while (rc == 0 && w->retired < w->submitted)
		rc = retire_oldest(w, true, &retired, e);
	pthread_mutex_unlock(&w->mutex);
	return rc;
}

void workers_free(struct workers *w)
{
	if (w == NULL)
		return;
	pthread_mutex_lock(&w->mutex);
	w->quit = true;
	pthread_cond_broadcast(&w->todo);
	pthread_mutex_unlock(&w->mutex);
	for (unsigned i = 0; i < w->threads_n; i++)
		(void)pthread_join(w->threads[i], NULL);
	pthread_mutex_destroy(&w->mutex);
	pthread_cond_destroy(&w->todo);
	pthread_cond_destroy(&w->done);
	free(w->threads);
	free(w->states);
	free(w);
}
