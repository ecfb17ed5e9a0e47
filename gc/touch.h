/* SPDX-License-Identifier: MIT */
/*
 * touch: the batch of deferred touches.
 *
 * References are put into a list of at most `batch` digests.  When it is full,
 * and at the end, the store puts it into the order that suits the disk, drops
 * duplicates, and touches it.  A reference is resolved when its chunk was
 * touched, is known to have been touched in this run, or was found missing;
 * never when it was merely read.  One to a chunk that waits in the list is
 * resolved with it; while a list is flushed, it is taken that as large a part
 * of these is resolved as of the others.
 *
 * With batch GC_TOUCH_BATCH_OFF each chunk is touched at once, in the order of
 * the index files, with the same memory of what was touched.
 *
 * Memory: 40 bytes per digest of the batch, and 35 MiB at most.
 */
#ifndef CAIRN_GC_TOUCH_H
#define CAIRN_GC_TOUCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "datastore/base/digest.h"
#include "datastore/base/err.h"
#include "datastore/base/task.h"
#include "datastore/store.h"

struct touch;

/* How many digests touched before are known again, at most. */
#define TOUCH_MEMORY_MAX 1048576U

#define TOUCH_CANARIES 1024U
#define TOUCH_MISSING_MAX 65536U

struct touch_counts {
	uint64_t references; /* put */
	uint64_t resolved;
	uint64_t waiting; /* put, not resolved: references - resolved */
	uint64_t touched; /* calls that touched a chunk */
	uint64_t known;   /* distinct digests that `known` took out */
	uint64_t hits;    /* resolved by memory or as duplicates */
	uint64_t missing; /* distinct digests found missing (more than
			     TOUCH_MISSING_MAX: some are counted twice) */
	uint64_t failed;  /* digests that `failed` let pass */
};

/* Each may be NULL. */
struct touch_hooks {
	/*
	 * Called before any touch with the digests that are to be touched
	 * first, until *ret_done (probe of A1 on a chunk: one that is missing
	 * is no chunk).
	 */
	int (*first)(
	    void *ctx, const struct digest *d, bool *ret_done, struct err *e);
	/*
	 * Of these, in order and each once, take out those that need no touch;
	 * *ret_left is how many stay, in any order.
	 */
	int (*known)(void *ctx, struct digest *d, size_t n, size_t *ret_left,
	    struct err *e);
	/*
	 * This one could not be touched, because of *e.  0: go on with the
	 * others; its references stay unresolved.  Else that is what the call
	 * returns.
	 */
	int (*failed)(void *ctx, const struct digest *d, struct err *e);
	/* Something was resolved. */
	void (*progress)(void *ctx);
	void *ctx;
};

/* hooks is copied. */
int touch_new(struct store *store, uint32_t batch,
    const struct touch_hooks *hooks, struct touch **ret, struct err *e);
void touch_free(struct touch *t); /* NULL is allowed */

/*
 * One more reference.  The task is looked at when the store is at work.
 * After a failure nothing can be done with t but to free it.
 */
int touch_add(
    struct touch *t, const struct digest *d, struct task *task, struct err *e);
/*
 * n more references, to digests that were all put before: the last of them in
 * this epoch, which touch_epoch told then.
 */
void touch_repeat(struct touch *t, uint64_t n, uint64_t epoch);
uint64_t touch_epoch(const struct touch *t);
int touch_flush(struct touch *t, struct task *task, struct err *e);
/*
 * All is put and flushed: gives back the memory that this took.  Only counts,
 * canaries and missing are asked for then.
 */
void touch_end(struct touch *t);
void touch_counts(const struct touch *t, struct touch_counts *ret);

/*
 * TOUCH_CANARIES / 2 to TOUCH_CANARIES of the digests touched, spread over
 * the run; all, where there are fewer.  Borrowed until t changes.
 */
const struct digest *touch_canaries(const struct touch *t, size_t *ret_n);

/* The digests found missing, sorted, at most TOUCH_MISSING_MAX; borrowed. */
const struct digest *touch_missing(const struct touch *t, size_t *ret_n);

#endif
