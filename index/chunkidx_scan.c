/* SPDX-License-Identifier: MIT */
/*
 * The part of chunkidx.h that compares with the directories: rebuild, check.
 */
#include <stdlib.h>
#include <string.h>

#include "datastore/store.h"
#include "index/chunkidx_internal.h"

#define SHARD_PREFIXES (STORE_PREFIXES / CIX_SHARDS)

/* What lies in one prefix directory after the other, in order of digests. */
struct lying {
	struct chunkidx *ix;
	struct task *task;
	int (*fn)(void *ctx, unsigned prefix, struct cix_entry *x, size_t n,
	    struct err *e);
	void *ctx;
	const char *phase;
	unsigned of;   /* prefixes in all */
	unsigned done; /* before this range */
	unsigned first;

	bool has;
	unsigned prefix;
	struct cix_entry *x;
	size_t n;
	size_t cap;
	uint64_t chunks;
};

static int compare(const void *a, const void *b)
{
	const struct cix_entry *x = a;
	const struct cix_entry *y = b;

	return digest_compare(&x->digest, &y->digest);
}

static int tell(struct lying *l, struct err *e)
{
	int rc = 0;

	if (!l->has)
		return 0;
	if (l->n > 1)
		qsort(l->x, l->n, sizeof(*l->x), compare);
	l->chunks += l->n;
	rc = l->fn(l->ctx, l->prefix, l->x, l->n, e);
	l->n = 0;
	l->has = false;
	return rc;
}

static void progress(struct lying *l, unsigned done)
{
	const struct task_count counts[] = {
		{ .key = "directories",
		    .text = "directories",
		    .done = done,
		    .of = l->of },
		{ .key = "chunks",
		    .text = "chunks",
		    .one = "chunk",
		    .done = l->chunks },
	};
	const struct task_progress p = {
		.phase = l->phase,
		.unit = TASK_UNIT_COUNT,
		.done = done,
		.total = l->of,
		.counts = counts,
		.counts_n = sizeof(counts) / sizeof(counts[0]),
	};

	task_progress(l->task, &p);
}

static int on_begin(void *ctx, unsigned prefix, struct err *e)
{
	struct lying *l = ctx;
	int rc = tell(l, e);

	progress(l, l->done + (prefix - l->first));
	l->has = true;
	l->prefix = prefix;
	return rc < 0 ? rc : task_check(l->task, e);
}

static int on_entry(void *ctx, const struct store_entry *entry, struct err *e)
{
	struct lying *l = ctx;
	size_t cap = l->cap == 0 ? 64 : l->cap * 2;
	struct cix_entry *p = NULL;

	if (entry->kind != STORE_CHUNK || !entry->regular)
		return 0;
	if (l->n == l->cap) {
		p = reallocarray(l->x, cap, sizeof(*p));
		if (p == NULL)
			return err_nomem(e);
		l->x = p;
		l->cap = cap;
	}
	l->x[l->n] = (struct cix_entry){
		.digest = entry->digest,
		.size = entry->bytes > UINT32_MAX ? UINT32_MAX
						  : (uint32_t)entry->bytes,
	};
	l->n++;
	return 0;
}

static int on_end(void *ctx, unsigned prefix, struct err *e)
{
	(void)ctx;
	(void)prefix;
	(void)e;
	return 0;
}

/* Shards from .. to, which are in a row. */
static int scan_range(struct lying *l, const struct store_prefixes *there,
    unsigned from, unsigned to, struct err *e)
{
	const struct store_scan_plan plan = {
		.there = there,
		.first = from * SHARD_PREFIXES,
		.last = (to + 1) * SHARD_PREFIXES - 1,
		.begin = on_begin,
		.entry = on_entry,
		.end = on_end,
		.ctx = l,
	};
	int rc = 0;

	l->first = plan.first;
	rc = store_scan_all(l->ix->ds->store, &plan, l->task, e);
	if (rc == 0)
		rc = tell(l, e);
	l->done += plan.last - plan.first + 1;
	return rc;
}

static int scan_shards(
    struct lying *l, const struct cix_shards *shards, struct err *e)
{
	struct store_prefixes there;
	unsigned from = 0;
	int rc = store_list_prefixes(l->ix->ds->store, &there, e);

	l->of = cix_shards_count(shards) * SHARD_PREFIXES;
	while (rc == 0 && from < CIX_SHARDS) {
		unsigned to = from;

		if (!cix_shards_has(shards, from)) {
			from++;
			continue;
		}
		while (to + 1 < CIX_SHARDS && cix_shards_has(shards, to + 1))
			to++;
		rc = scan_range(l, &there, from, to, e);
		from = to + 1;
	}
	if (rc == 0)
		progress(l, l->of);
	free(l->x);
	return rc;
}

static int on_prefix(
    void *ctx, unsigned prefix, struct cix_entry *x, size_t n, struct err *e)
{
	return chunkbuild_scanned(ctx, prefix, x, n, e);
}

int chunkidx_rebuild(
    struct chunkidx *ix, bool all, struct task *task, struct err *e)
{
	struct chunkbuild *b = NULL;
	struct cix_shards scan = { .b = { 0 } };
	struct lying l = {
		.ix = ix,
		.task = task,
		.fn = on_prefix,
		.phase = "index: rebuild",
	};
	struct chunkidx_note note = { .upid = ix->has_upid ? ix->upid : NULL,
		.settled = true };
	struct err why = ERR_INIT;
	int rc = 0;

	for (unsigned i = 0; i < CIX_SHARDS; i++)
		cix_shards_set(&scan, i, all || !cix_shards_has(&ix->known, i));
	rc = chunkbuild_new(ix, &scan, task, &b, e);
	if (rc < 0)
		return rc;
	l.ctx = b;
	rc = scan_shards(&l, &scan, &why);
	/* What is done stays: the next time goes on from there. */
	if (rc == 0 || rc == ERR_CANCELLED) {
		int rc2 = chunkbuild_finish(b, &note, e);

		if (rc == 0 || rc2 == 0)
			rc = rc2 < 0 ? rc2 : rc;
	}
	if (rc < 0 && why.code != ERR_OK)
		*e = why;
	chunkbuild_free(b);
	return rc;
}

int chunkidx_create(struct datastore *ds, struct err *e)
{
	const struct chunkidx_note note = { .scanned = true };
	struct task silent = TASK_SILENT;
	struct chunkidx *ix = NULL;
	bool taken = false;
	int rc = chunkidx_make(ds, e);

	if (rc == 0)
		rc = chunkidx_open(ds, NULL, &ix, e);
	if (rc == 0)
		rc = chunkidx_lock(ix, &taken, e);
	if (rc == 0 && taken && ix->control.generation == 0) {
		rc = chunkidx_rebuild(ix, true, &silent, e);
		if (rc == 0)
			rc = chunkidx_note(ix, &note, e);
	}
	chunkidx_close(ix);
	return rc;
}

/* --- check --- */

struct checking {
	struct chunkidx *ix;
	struct chunkidx_check *r;
	struct cix_walk walk;
	struct cix_entry head; /* of the base */
	uint64_t rank;
	bool has;
};

static void next_of_base(struct checking *c)
{
	enum cix_step step = CIX_STEP_GAP;

	while (c->walk.c != NULL && step == CIX_STEP_GAP)
		step = cix_walk_next(&c->walk, &c->head, &c->rank);
	c->has = step == CIX_STEP_ENTRY;
}

/* Does the index say, all in all, that this entry of the base is there? */
static bool is_said(struct checking *c)
{
	struct chunkidx_hit hit;

	if (chunkidx_is_gone(c->ix, c->rank))
		return false;
	for (size_t i = 0; i < c->ix->runs_n; i++) {
		if (cix_find(c->ix->runs[i].c, &c->head.digest, &hit.entry,
			NULL) == CIX_FOUND)
			return false; /* told with the run */
	}
	return true;
}

static const struct cix_entry *find_lying(
    const struct cix_entry *x, size_t n, const struct digest *d)
{
	struct cix_entry key = { .digest = *d };

	return n == 0 ? NULL : bsearch(&key, x, n, sizeof(*x), compare);
}

static void compare_one(struct checking *c, const struct cix_entry *said,
    const struct cix_entry *lies)
{
	if (lies == NULL)
		c->r->absent++;
	else if (lies->size != said->size)
		c->r->sizes++;
}

static int check_prefix(
    void *ctx, unsigned prefix, struct cix_entry *x, size_t n, struct err *e)
{
	struct checking *c = ctx;
	struct chunkidx_hit hit;

	(void)e;
	for (; c->has && digest_prefix(&c->head.digest) <= prefix;
	     next_of_base(c)) {
		if (chunkidx_knows(c->ix, &c->head.digest) && is_said(c))
			compare_one(
			    c, &c->head, find_lying(x, n, &c->head.digest));
	}
	for (size_t i = 0; i < n; i++) {
		enum chunkidx_found f =
		    chunkidx_find(c->ix, &x[i].digest, &hit);

		if (f == CHUNKIDX_ABSENT || f == CHUNKIDX_REMOVED)
			c->r->unknown++;
		else if (f == CHUNKIDX_PRESENT && !hit.in_base)
			compare_one(c, &hit.entry, &x[i]);
	}
	return 0;
}

/* Of what is in runs only, what is not there. */
static int check_runs(struct checking *c, struct task *task, struct err *e)
{
	struct store_entry entry;
	struct chunkidx_hit hit;
	bool found = false;
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < c->ix->runs_n; i++) {
		struct cix_walk w = { .c = c->ix->runs[i].c };
		struct cix_entry x;
		enum cix_step step = CIX_STEP_GAP;

		while (rc == 0 &&
		    (step = cix_walk_next(&w, &x, NULL)) != CIX_STEP_END) {
			if (step == CIX_STEP_GAP ||
			    chunkidx_find(c->ix, &x.digest, &hit) !=
				CHUNKIDX_PRESENT ||
			    hit.in_base || hit.run != c->ix->runs[i].sequence)
				continue;
			rc = task_check(task, e);
			if (rc == 0)
				rc = store_stat(c->ix->ds->store, &x.digest,
				    &entry, &found, e);
			if (rc == 0 && !found)
				c->r->absent++;
		}
	}
	return rc;
}

static uint64_t bad_pages(struct cix *c)
{
	struct cix_stats s;

	cix_stats(c, &s);
	return s.bad_pages;
}

static int read_all(struct chunkidx *ix, struct chunkidx_check *r,
    struct task *task, struct err *e)
{
	int rc = 0;

	for (size_t i = 0; rc == 0 && i <= ix->runs_n; i++) {
		struct cix *c = i == 0 ? ix->base : ix->runs[i - 1].c;
		struct cix_walk w = { .c = c };
		struct cix_entry x;

		while (c != NULL && rc == 0 &&
		    cix_walk_next(&w, &x, NULL) != CIX_STEP_END) {
			r->entries++;
			if (r->entries % 65536 == 0)
				rc = task_check(task, e);
		}
		r->bad_pages += c == NULL ? 0 : bad_pages(c);
	}
	r->bad_pages += ix->bad_runs;
	return rc;
}

int chunkidx_check(struct chunkidx *ix, bool with_files, struct task *task,
    struct chunkidx_check *ret, struct err *e)
{
	struct checking c = { .ix = ix, .r = ret };
	struct cix_shards all;
	struct lying l = {
		.ix = ix,
		.task = task,
		.fn = check_prefix,
		.ctx = &c,
		.phase = "index: check",
	};
	int rc = 0;

	memset(ret, 0, sizeof(*ret));
	memset(&all, 0xff, sizeof(all));
	rc = read_all(ix, ret, task, e);
	if (rc < 0 || !with_files)
		return rc;
	c.walk.c = ix->base;
	next_of_base(&c);
	rc = scan_shards(&l, &all, e);
	return rc < 0 ? rc : check_runs(&c, task, e);
}
