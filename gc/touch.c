/* SPDX-License-Identifier: MIT */
#include "gc/touch.h"

#include <stdlib.h>
#include <string.h>

#include "datastore/config.h"
#include "datastore/seenset.h"
#include "gc/digestsort.h"

/* Touches between two calls of the progress hook: of calls that each wait for
 * a disk it must hear often enough. */
#define PROGRESS_EVERY 32U

struct touch {
	struct store *store;
	struct touch_hooks hooks;
	struct digest *list; /* NULL: each is touched at once */
	uint64_t *keys;      /* as many, for the store's order */
	size_t n;
	size_t batch;
	/* What was put into the list, or touched; the tag says in which epoch:
	 * what is of this one waits, if there is a list. */
	struct seenset *seen;
	uint64_t epoch;    /* flushes that are done */
	uint64_t tied;     /* references to what waits, beside the first */
	uint64_t flushing; /* digests of the list that is being flushed */
	uint64_t flushed;  /* of these */
	bool probed;

	struct digest *canaries;
	size_t canaries_n;
	uint64_t stride; /* each stride-th one touched is a canary */
	uint64_t until_next;

	struct digest *missing; /* sorted */
	size_t missing_n;
	size_t missing_cap;

	struct touch_counts counts;
};

int touch_new(struct store *store, uint32_t batch,
    const struct touch_hooks *hooks, struct touch **ret, struct err *e)
{
	size_t memory = TOUCH_MEMORY_MAX;
	struct touch *t = calloc(1, sizeof(*t));
	int rc = 0;

	if (t == NULL)
		return err_nomem(e);
	t->store = store;
	t->hooks = *hooks;
	t->probed = hooks->first == NULL;
	t->stride = 1;
	t->batch = batch;
	t->canaries = calloc(TOUCH_CANARIES, sizeof(*t->canaries));
	if (batch != GC_TOUCH_BATCH_OFF) {
		/* calloc: a small store takes little of it. */
		t->list = calloc(batch, sizeof(*t->list));
		t->keys = calloc(batch, sizeof(*t->keys));
		if (batch < memory)
			memory = batch;
	}
	if (t->canaries == NULL ||
	    (batch != GC_TOUCH_BATCH_OFF &&
		(t->list == NULL || t->keys == NULL))) {
		rc = err_nomem(e);
		goto out;
	}
	rc = seenset_new(memory, &t->seen, e);
	if (rc < 0)
		goto out;
	*ret = t;
	t = NULL;
out:
	touch_free(t);
	return rc;
}

void touch_end(struct touch *t)
{
	seenset_free(t->seen);
	free(t->list);
	free(t->keys);
	t->seen = NULL;
	t->list = NULL;
	t->keys = NULL;
}

void touch_free(struct touch *t)
{
	if (t == NULL)
		return;
	touch_end(t);
	free(t->canaries);
	free(t->missing);
	free(t);
}

/*
 * Each stride-th one touched is kept.  When there is no room, every second
 * one goes and the stride doubles: what stays is spread over all that was
 * touched, however much that becomes.
 */
static void keep_canary(struct touch *t, const struct digest *d)
{
	if (t->until_next > 0) {
		t->until_next--;
		return;
	}
	if (t->canaries_n == TOUCH_CANARIES) {
		for (size_t i = 0; i < TOUCH_CANARIES / 2; i++)
			t->canaries[i] = t->canaries[2 * i];
		t->canaries_n = TOUCH_CANARIES / 2;
		t->stride *= 2;
	}
	t->canaries[t->canaries_n] = *d;
	t->canaries_n++;
	t->until_next = t->stride - 1;
}

static int keep_missing(struct touch *t, const struct digest *d, struct err *e)
{
	size_t at = digest_lower_bound(t->missing, t->missing_n, d);
	size_t cap = t->missing_cap == 0 ? 64 : t->missing_cap * 2;
	struct digest *p = NULL;

	if (at < t->missing_n && digest_equal(&t->missing[at], d))
		return 0;
	t->counts.missing++;
	if (t->missing_n == TOUCH_MISSING_MAX)
		return 0;
	if (t->missing_n == t->missing_cap) {
		p = reallocarray(t->missing, cap, sizeof(*p));
		if (p == NULL)
			return err_nomem(e);
		t->missing = p;
		t->missing_cap = cap;
	}
	memmove(t->missing + at + 1, t->missing + at,
	    (t->missing_n - at) * sizeof(*t->missing));
	t->missing[at] = *d;
	t->missing_n++;
	return 0;
}

/* The store has dealt with this digest: one reference is resolved. */
static int resolve(struct touch *t, const struct digest *d,
    enum store_touched what, struct err *e)
{
	int rc = 0;

	if (what == STORE_TOUCHED) {
		t->counts.touched++;
		keep_canary(t, d);
	} else {
		rc = keep_missing(t, d, e);
	}
	t->counts.resolved++;
	if (t->hooks.progress != NULL &&
	    t->counts.resolved % PROGRESS_EVERY == 0)
		t->hooks.progress(t->hooks.ctx);
	return rc;
}

/* Probe with this one, before it or any other is touched. */
static int probe(struct touch *t, const struct digest *d, struct err *e)
{
	return t->probed ? 0 : t->hooks.first(t->hooks.ctx, d, &t->probed, e);
}

/* *why is what the store says of d.  0: go on. */
static int fail(struct touch *t, const struct digest *d, const struct err *why,
    struct err *e)
{
	*e = *why;
	if (why->code == ERR_CANCELLED || why->code == ERR_NOMEM ||
	    t->hooks.failed == NULL)
		return why->code;
	t->counts.failed++;
	return t->hooks.failed(t->hooks.ctx, d, e);
}

static int touch_now(
    struct touch *t, const struct digest *d, struct task *task, struct err *e)
{
	enum store_touched what = STORE_MISSING;
	struct err why = ERR_INIT;
	struct digest copy = *d;
	size_t left = 1;
	int rc = task_check(task, e);

	if (rc == 0)
		rc = probe(t, d, e);
	if (rc == 0 && t->hooks.known != NULL)
		rc = t->hooks.known(t->hooks.ctx, &copy, 1, &left, e);
	if (rc < 0)
		return rc;
	if (left == 0) {
		seenset_add_tagged(t->seen, d, 0);
		t->counts.known++;
		t->counts.resolved++;
		return 0;
	}
	if (store_touch(t->store, d, &what, &why) < 0)
		return fail(t, d, &why, e);
	seenset_add_tagged(t->seen, d, 0);
	return resolve(t, d, what, e);
}

/* n references to what was put in this epoch. */
static void repeat(struct touch *t, uint64_t n, bool waits)
{
	t->counts.hits += n;
	if (waits && t->n > 0) {
		t->tied += n;
	} else {
		t->counts.resolved += n;
	}
}

int touch_add(
    struct touch *t, const struct digest *d, struct task *task, struct err *e)
{
	uint8_t tag = 0;
	int rc = 0;

	t->counts.references++;
	if (seenset_find(t->seen, d, &tag)) {
		repeat(t, 1, tag == (uint8_t)t->epoch);
		return 0;
	}
	if (t->list == NULL)
		return touch_now(t, d, task, e);
	if (t->n == t->batch)
		rc = touch_flush(t, task, e);
	if (rc < 0)
		return rc;
	t->list[t->n] = *d;
	t->n++;
	seenset_add_tagged(t->seen, d, (uint8_t)t->epoch);
	return 0;
}

uint64_t touch_epoch(const struct touch *t)
{
	return t->epoch;
}

void touch_repeat(struct touch *t, uint64_t n, uint64_t epoch)
{
	t->counts.references += n;
	repeat(t, n, epoch == t->epoch);
}

/* How far the store has come with a batch. */
struct flush {
	struct touch *t;
	size_t done;
	struct err own; /* a failure of our own, not of a touch */
};

static int on_touched(
    void *ctx, const struct digest *d, enum store_touched what, struct err *e)
{
	struct flush *f = ctx;
	int rc = 0;

	f->t->flushed++;
	rc = resolve(f->t, d, what, &f->own);
	if (rc < 0) {
		*e = f->own;
		return rc;
	}
	f->done++;
	return 0;
}

static int touch_planned(struct touch *t, const struct store_batch *b,
    struct task *task, struct err *e)
{
	size_t first = 0;
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < b->todo && !t->probed; i++)
		rc = probe(t, store_batch_at(b, i), e);
	while (rc == 0 && first < b->todo) {
		struct flush f = { .t = t, .own = ERR_INIT };
		struct err why = ERR_INIT;

		rc = store_touch_batch(
		    t->store, b, first, on_touched, &f, task, &why);
		first += f.done;
		if (rc == 0)
			break;
		if (f.own.code != ERR_OK || first == b->todo) {
			*e = why;
			break;
		}
		/* The first one that was not told of is the one. */
		rc = fail(t, store_batch_at(b, first), &why, e);
		first++;
	}
	return rc;
}

/* Drop from the list what needs no touch. */
static int take_known(struct touch *t, struct task *task, struct err *e)
{
	size_t distinct = 0;
	size_t left = 0;
	int rc = task_check(task, e);

	if (rc < 0 || t->hooks.known == NULL)
		return rc;
	digest_sort(t->list, t->n);
	distinct = digest_unique(t->list, t->n);
	t->tied += t->n - distinct;
	t->counts.hits += t->n - distinct;
	t->n = distinct;
	/* A1 is looked at on a chunk, also where none will be touched. */
	for (size_t i = 0; rc == 0 && i < distinct && !t->probed; i++)
		rc = probe(t, &t->list[i], e);
	if (rc == 0)
		rc = t->hooks.known(t->hooks.ctx, t->list, distinct, &left, e);
	if (rc < 0)
		return rc;
	t->counts.known += distinct - left;
	t->counts.resolved += distinct - left;
	t->n = left;
	return 0;
}

int touch_flush(struct touch *t, struct task *task, struct err *e)
{
	struct store_batch b = { .d = t->list, .keys = t->keys };
	int rc = 0;

	if (t->n == 0)
		return 0;
	rc = take_known(t, task, e);
	b.n = t->n;
	if (rc == 0 && b.n > 0)
		rc = store_plan(t->store, &b, task, e);
	if (rc < 0)
		return rc;
	/* What memory had forgotten by then is known again only here. */
	t->tied += t->n - b.todo;
	t->counts.hits += t->n - b.todo;
	t->flushing = b.todo;
	t->flushed = 0;
	rc = touch_planned(t, &b, task, e);
	if (rc < 0)
		return rc;
	/* Of one that failed, too: nothing hangs on these any more. */
	t->counts.resolved += t->tied;
	t->tied = 0;
	t->flushing = 0;
	t->n = 0;
	t->epoch++;
	if (t->hooks.progress != NULL)
		t->hooks.progress(t->hooks.ctx);
	return 0;
}

void touch_counts(const struct touch *t, struct touch_counts *ret)
{
	*ret = t->counts;
	/* Those that are resolved with another, as many as of the others. */
	if (t->flushing > 0)
		ret->resolved += (uint64_t)((double)t->tied *
		    ((double)t->flushed / (double)t->flushing));
	ret->waiting = ret->references - ret->resolved;
}

const struct digest *touch_canaries(const struct touch *t, size_t *ret_n)
{
	*ret_n = t->canaries_n;
	return t->canaries;
}

const struct digest *touch_missing(const struct touch *t, size_t *ret_n)
{
	*ret_n = t->missing_n;
	return t->missing;
}
