/* SPDX-License-Identifier: MIT */
/*
 * touch: the batch of deferred touches.
 *
 * References are put into a list of at most `batch` digests.  When it is full,
 * and at the end, it is sorted, duplicates are dropped, and it is handed to
 * the store, which visits prefix directories in order.  A reference is
 * resolved when its chunk was touched, is known to have been touched in this
 * run, or was found missing; never when it was merely read.
 *
 * With batch GC_TOUCH_BATCH_OFF each chunk is touched at once, in the order of
 * the index files, with the same memory of what was touched.
 */
#ifndef CAIRN_GC_TOUCH_H
#define CAIRN_GC_TOUCH_H

#include <stddef.h>
#include <stdint.h>

#include "datastore/base/clock.h"
#include "datastore/base/digest.h"
#include "datastore/base/err.h"
#include "datastore/base/task.h"
#include "datastore/store.h"

struct touch;

#define TOUCH_CANARIES 1024U

struct touch_counts {
	uint64_t references; /* put */
	uint64_t resolved;
	uint64_t waiting;    /* put, not resolved: references - resolved */
	uint64_t touched;    /* calls that touched a chunk */
	uint64_t hits;	     /* resolved by memory or as duplicates */
	uint64_t missing;    /* distinct digests found missing (lower bound
				where more than TOUCH_MISSING_MAX are) */
};

/* first_touched is called once, with the first digest that is going to be
 * touched, before any touch (probe of A1 on a chunk). */
int touch_new(struct store *store, uint32_t batch,
    int (*first_touched)(void *ctx, const struct digest *d, struct err *e),
    void *ctx, struct touch **ret, struct err *e);
void touch_free(struct touch *t);

int touch_add(struct touch *t, const struct digest *d, struct task *task,
    struct err *e);
int touch_flush(struct touch *t, struct task *task, struct err *e);
void touch_counts(const struct touch *t, struct touch_counts *ret);

/* Called after each flushed prefix or so, for progress. May be NULL. */
void touch_set_progress(struct touch *t, void (*fn)(void *ctx), void *ctx);

/* Up to TOUCH_CANARIES of the digests touched, spread over the run. */
const struct digest *touch_canaries(const struct touch *t, size_t *ret_n);

/* The digests found missing, sorted, at most TOUCH_MISSING_MAX. */
#define TOUCH_MISSING_MAX 65536U
const struct digest *touch_missing(const struct touch *t, size_t *ret_n);

#endif
