/* SPDX-License-Identifier: MIT */
/*
 * What no reference has marked: range by range, as many as the batch's memory
 * holds, their digests are copied out of the base, all index files are read
 * once more, and what is not met there is looked at, noted, and swept.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "datastore/base/text.h"
#include "datastore/config.h"
#include "gc/digestsort.h"
#include "gc/gc_index.h"
#include "gc/gc_internal.h"

/* Of fewer there is nothing to tell. */
#define SAID_FROM 65536U

struct candidates {
	struct gc_run *run;
	struct chunkidx *ix;
	const uint64_t *marks;
	struct cix_walk walk;
	struct digest last; /* that it came by */
	bool has_last;

	/* One range, ascending. */
	struct digest *d;
	uint64_t *ranks;
	uint32_t *sizes;
	uint64_t *keep; /* a bit each: it is not to go */
	uint64_t *hit;  /* for pass 2 has met it */
	size_t n;
	size_t old; /* of these, by a first look */
	size_t cap;
	uint64_t hits; /* of pass 2 */
	struct store_prefixes of;
};

static bool bit(const uint64_t *set, uint64_t i)
{
	return (set[i / 64] >> i % 64 & 1) != 0;
}

static void set_bit(uint64_t *set, uint64_t i)
{
	set[i / 64] |= UINT64_C(1) << i % 64;
}

int gc_candidates_count(struct gc_run *run, uint64_t *ret_chunks,
    uint64_t *ret_would_go, struct err *e)
{
	const uint64_t *marks = NULL;
	struct chunkidx *ix = gc_index_of(run, &marks);
	uint64_t entries = cix_info(chunkidx_base(ix))->entries;
	uint64_t marked = 0;
	uint64_t gone = 0;

	(void)e;
	for (uint64_t i = 0; i < entries; i++) {
		marked += bit(marks, i);
		gone += !bit(marks, i) && chunkidx_is_gone(ix, i);
	}
	*ret_chunks = entries - gone;
	*ret_would_go = entries - gone - marked;
	return 0;
}

static int allocate(struct candidates *c, struct err *e)
{
	const struct gc_opts *o = c->run->opts;
	size_t batch = o->touch_batch == GC_TOUCH_BATCH_OFF
	    ? GC_TOUCH_BATCH_DEFAULT
	    : o->touch_batch;

	/* 44 bytes and a bit each, in what the batch had. */
	c->cap = batch - batch / 8;
	c->sizes = calloc(c->cap, sizeof(*c->sizes));
	c->d = calloc(c->cap, sizeof(*c->d));
	c->ranks = calloc(c->cap, sizeof(*c->ranks));
	c->keep = calloc(c->cap / 64 + 1, sizeof(*c->keep));
	c->hit = calloc(c->cap / 64 + 1, sizeof(*c->hit));
	return c->d == NULL || c->ranks == NULL || c->sizes == NULL ||
		c->keep == NULL || c->hit == NULL
	    ? err_nomem(e)
	    : 0;
}

static int distrust(struct candidates *c, const char *why, struct err *e)
{
	struct err ignored = ERR_INIT;

	(void)chunkidx_distrust(c->ix, &ignored);
	return err_set(e, ERR_REFUSED,
	    "the chunk index of '%s' %s: it is damaged, or this is an error in "
	    "cairn; nothing%s is removed, and the next garbage collection "
	    "makes it anew",
	    c->run->ds->path, why, c->run->r.removed_chunks > 0 ? " more" : "");
}

/*
 * The next range; n is 0 where there is none.  Pass 2 finds digests by their
 * order, and a page is not checked each time that it is read: so that is.
 */
static int fill(struct candidates *c, struct err *e)
{
	enum cix_step step = CIX_STEP_ENTRY;

	c->n = 0;
	c->hits = 0;
	memset(c->keep, 0, (c->cap / 64 + 1) * sizeof(*c->keep));
	memset(c->hit, 0, (c->cap / 64 + 1) * sizeof(*c->hit));
	while (c->n < c->cap && step != CIX_STEP_END) {
		struct cix_entry x;
		uint64_t rank = 0;

		step = cix_walk_next(&c->walk, &x, &rank);
		/* What is on an unreadable page waits for a scan. */
		if (step != CIX_STEP_ENTRY)
			continue;
		if (c->has_last && digest_compare(&c->last, &x.digest) >= 0)
			return distrust(c, "is not in order", e);
		c->last = x.digest;
		c->has_last = true;
		if (bit(c->marks, rank) || chunkidx_is_gone(c->ix, rank))
			continue;
		c->d[c->n] = x.digest;
		c->ranks[c->n] = rank;
		c->sizes[c->n] = x.size;
		c->n++;
	}
	return 0;
}

/* A reference: whoever it is of, it is not to go. */
static int on_add(void *ctx, const struct digest *d, struct err *e)
{
	struct candidates *c = ctx;
	size_t at = digest_lower_bound(c->d, c->n, d);

	(void)e;
	if (at < c->n && digest_equal(&c->d[at], d) && !bit(c->keep, at)) {
		set_bit(c->keep, at);
		set_bit(c->hit, at);
		c->hits++;
	}
	return 0;
}

struct found {
	uint64_t n;
	char path[512];
};

static void on_found(void *ctx, const struct digest *d, const char *path)
{
	struct found *f = ctx;

	(void)d;
	if (f->n == 0)
		(void)text_name(f->path, sizeof(f->path), path);
	f->n++;
}

/*
 * Some candidates are referenced.  By index files that came since the mark:
 * that is what pass 2 is for.  By one that mark has read: then the index, or
 * cairn, is wrong, and nothing is removed by it.
 */
static int check_hits(struct candidates *c, struct err *e)
{
	struct gc_run *run = c->run;
	struct digest *hits = calloc((size_t)c->hits, sizeof(*hits));
	struct found f = { .n = 0 };
	struct mark_search search = {
		.digests = hits, .fn = on_found, .ctx = &f
	};
	char text[ERR_MSG_SIZE];
	int rc = 0;

	if (hits == NULL)
		return err_nomem(e);
	for (size_t i = 0; i < c->n; i++) {
		if (bit(c->hit, i))
			hits[search.n++] = c->d[i];
	}
	rc = mark_find_references(run->ds, &run->mark, &search, run->task, e);
	free(hits);
	if (rc < 0 || f.n == 0)
		return rc;
	(void)snprintf(text, sizeof(text),
	    "did not find chunks that '%s' references", f.path);
	return distrust(c, text, e);
}

static int pass_two(struct candidates *c, struct err *e)
{
	struct gc_run *run = c->run;
	const struct mark_sink sink = { .add = on_add, .ctx = c };
	struct mark_opts opts = gc_mark_opts(run);
	struct mark m = MARK_INIT;
	int rc = 0;

	task_message(run->task, c->old < SAID_FROM ? TASK_DEBUG : TASK_NOTE,
	    "%zu chunks are not referenced and old: all index files are read "
	    "once more before any of them goes",
	    c->old);
	/* It would say the same as the first. */
	run->findings.quiet = true;
	rc = mark_run(run->ds, &opts, &sink, &run->findings, run->task, &m, e);

	run->findings.quiet = false;
	mark_release(&m);
	if (rc == 0)
		rc = gc_check_findings(run, e);
	if (rc == 0 && c->hits > 0)
		rc = check_hits(c, e);
	return rc;
}

static void count_kept(struct candidates *c, const struct store_entry *entry)
{
	struct gc_result *r = &c->run->r;
	filetime used =
	    entry->ctime > entry->atime ? entry->ctime : entry->atime;

	if (entry->atime >= r->start_of_mark) {
		r->disk_chunks++;
		r->disk_bytes += entry->bytes;
		return;
	}
	r->pending_chunks++;
	r->pending_bytes += entry->bytes;
	if (used > r->newest_pending)
		r->newest_pending = used;
}

/*
 * Look, without a lock: what is too young stays a candidate of the next run,
 * with its place in the index.
 */
static int look(struct candidates *c, struct err *e)
{
	filetime cutoff = c->run->r.cutoff;
	int rc = 0;

	c->old = 0;
	for (size_t i = 0; rc == 0 && i < c->n; i++) {
		struct store_entry entry;
		bool found = false;

		rc = task_check(c->run->task, e);
		if (rc == 0)
			rc = store_stat(
			    c->run->ds->store, &c->d[i], &entry, &found, e);
		if (rc < 0)
			break;
		if (found &&
		    (!entry.regular || entry.atime >= cutoff ||
			entry.ctime >= cutoff)) {
			count_kept(c, &entry);
			set_bit(c->keep, i);
		} else {
			c->old++;
		}
	}
	return rc;
}

/* Only what goes stays in the arrays; all of it is noted before any goes. */
static int note(struct candidates *c, struct err *e)
{
	struct err why = ERR_INIT;
	uint64_t bytes = 0;
	size_t kept = 0;
	int rc = 0;

	memset(&c->of, 0, sizeof(c->of));
	for (size_t i = 0; i < c->n; i++) {
		unsigned prefix = digest_prefix(&c->d[i]);

		if (bit(c->keep, i))
			continue;
		bytes += c->sizes[i];
		c->of.bits[prefix / 64] |= UINT64_C(1) << prefix % 64;
		c->d[kept] = c->d[i];
		c->ranks[kept] = c->ranks[i];
		kept++;
	}
	c->n = kept;
	if (kept == 0)
		return 0;
	if (chunkidx_removing(c->ix, true, &why) < 0)
		(void)err_forget(&why); /* what follows fails as well */
	rc = chunkidx_set_gone(c->ix, c->ranks, kept, bytes, &why);
	if (rc == 0)
		return 0;
	/* One byte, then, for all of it. */
	rc = chunkidx_distrust(c->ix, e);
	if (rc < 0)
		err_prefix(e, "note what is removed in the chunk index");
	return rc;
}

/* For sweep_opts.source. */
static int tell_prefix(
    void *ctx, unsigned prefix, store_scan_fn fn, void *fn_ctx, struct err *e)
{
	struct candidates *c = ctx;
	struct digest first = { .b = {
				    (uint8_t)(prefix >> 8), (uint8_t)prefix } };
	int rc = 0;

	for (size_t i = digest_lower_bound(c->d, c->n, &first);
	     rc == 0 && i < c->n && digest_prefix(&c->d[i]) == prefix; i++) {
		char name[DIGEST_HEX_SIZE];
		struct store_entry entry;
		bool found = false;

		rc = store_stat(c->run->ds->store, &c->d[i], &entry, &found, e);
		if (rc < 0 || !found)
			continue;
		digest_hex(&c->d[i], name);
		entry.name = name;
		entry.kind = STORE_CHUNK;
		entry.digest = c->d[i];
		rc = fn(fn_ctx, &entry, e);
	}
	return rc;
}

static int sweep(
    struct candidates *c, const struct sweep_opts *opts, struct err *e)
{
	struct sweep_opts o = *opts;

	o.by_ctime = true;
	o.source = tell_prefix;
	o.of = &c->of;
	o.source_ctx = c;
	o.seen = NULL;
	return sweep_run(c->run->ds, &o, c->run->task, &c->run->r, e);
}

static int sweep_range(
    struct candidates *c, const struct sweep_opts *opts, struct err *e)
{
	int rc = look(c, e);

	if (rc < 0 || c->old == 0)
		return rc;
	rc = pass_two(c, e);
	if (rc == 0)
		rc = gc_guard_all(c->run, e);
	if (rc == 0)
		rc = note(c, e);
	if (rc < 0)
		return rc;
	return sweep(c, opts, e);
}

/* All of it is gone.  If that can not be noted, the next run looks for it. */
static void end_removing(struct candidates *c)
{
	struct err why = ERR_INIT;

	if (chunkidx_removing(c->ix, false, &why) < 0)
		task_message(c->run->task, TASK_NOTE,
		    "the next run will read all directories: %s", why.msg);
}

int gc_candidates_sweep(
    struct gc_run *run, const struct sweep_opts *opts, struct err *e)
{
	struct candidates c = { .run = run };
	int rc = 0;

	c.ix = gc_index_of(run, &c.marks);
	c.walk.c = chunkidx_base(c.ix);
	rc = allocate(&c, e);
	gc_index_count(run);
	if (rc == 0)
		rc = fill(&c, e);
	while (rc == 0 && c.n > 0) {
		rc = sweep_range(&c, opts, e);
		if (rc == 0)
			rc = fill(&c, e);
	}
	/* Nothing is left; it says so, also if there was nothing. */
	memset(&c.of, 0, sizeof(c.of));
	if (rc == 0)
		rc = sweep(&c, opts, e);
	if (rc == 0 && run->r.unswept_prefixes == 0)
		end_removing(&c);
	free(c.d);
	free(c.ranks);
	free(c.sizes);
	free(c.keep);
	free(c.hit);
	return rc;
}
