/* SPDX-License-Identifier: MIT */
/*
 * workers: a bounded pipeline: filled by one thread, worked by several,
 * retired in order by the first.
 *
 * The owner asks for a free slot, fills it and submits it; a worker thread
 * calls work() on it; the owner, inside workers_get and workers_finish, calls
 * retire() on the slots in the order they were submitted.  So get and retire
 * need no lock of their own, memory is bounded by the number of slots, and
 * all cores are busy.  A slot is the caller's memory: slots are made once and
 * used again.
 *
 * The first error in submission order wins: no work is begun once one is
 * known, all before it is retired, nothing behind it is, and get and finish
 * return it, again and again.
 */
#ifndef CAIRN_DATASTORE_BASE_WORKERS_H
#define CAIRN_DATASTORE_BASE_WORKERS_H

#include <stddef.h>

#include "datastore/base/err.h"

struct workers_ops {
	/* One per thread: private state (a compressor...), may be NULL. */
	int (*thread_init)(void *ctx, void **ret_local, struct err *e);
	void (*thread_release)(void *ctx, void *local);
	/* In a worker thread. */
	int (*work)(void *ctx, void *local, void *slot, struct err *e);
	/* In the owner's thread, in order of submission. */
	int (*retire)(void *ctx, void *slot, struct err *e);
};

struct workers;

/* The number of threads that keep this machine busy: CPUs, 1 to 64. */
unsigned workers_default_threads(void);

/*
 * slots: array of slots_n pointers, the caller's, used until workers_free.
 * threads at least 1; slots_n at least threads + 1.
 */
int workers_new(const struct workers_ops *ops, void *ctx, unsigned threads,
    void **slots, size_t slots_n, struct workers **ret, struct err *e);

/*
 * A free slot, after retiring what is done before it; waits for one.  Until
 * that is submitted, another call gives the same one, at once: an owner that
 * has nothing to submit learns so what became of the rest.
 */
int workers_get(struct workers *w, void **ret_slot, struct err *e);

/* Give the slot of the last workers_get to the workers. */
void workers_submit(struct workers *w);

/* Wait until all that was submitted is worked and retired. */
int workers_finish(struct workers *w, struct err *e);

/* Joins the threads; what is not begun is dropped.  NULL is allowed. */
void workers_free(struct workers *w);

#endif
