/* SPDX-License-Identifier: MIT */
/*
 * The part of chunkidx.h that makes a new base.
 *
 * All that is known comes in one ascending stream of digests: the base without
 * what is gone, and the runs; where several tell of one digest the newest
 * counts.  Of shards that are scanned the stream is only asked for days of
 * verification.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "datastore/base/file.h"
#include "datastore/base/sysio.h"
#include "index/chunkidx_internal.h"
#include "index/cixwriter.h"

/* Entries between two looks at the task. */
#define LOOK_EVERY 65536U
#define SHARD_PREFIXES (STORE_PREFIXES / CIX_SHARDS)

/* One ascending source. */
struct source {
	struct cix_walk walk;
	struct cix_entry head;
	bool has;
};

struct chunkbuild {
	struct chunkidx *ix;
	struct task *task;
	struct cix_shards scan;
	struct cix_shards done; /* scanned whole */
	struct cix_shards lost; /* pages of the old base are unreadable */
	struct cixwriter *w;

	struct source base;
	struct source *runs; /* oldest first, as in ix */
	size_t runs_n;
	size_t least; /* of the runs' heads; runs_n: none has one */

	unsigned next;       /* prefix that was not told of yet */
	unsigned base_shard; /* of the base's last readable entry */
	uint64_t looked;
};

/* Of shards from .. to something was lost. */
static void lose(struct chunkbuild *b, unsigned from, unsigned to)
{
	for (unsigned s = from; s <= to; s++)
		cix_shards_set(&b->lost, s, true);
}

static void base_next(struct chunkbuild *b)
{
	struct source *s = &b->base;
	uint64_t rank = 0;
	bool gap = false;

	s->has = false;
	while (s->walk.c != NULL && !s->has) {
		switch (cix_walk_next(&s->walk, &s->head, &rank)) {
		case CIX_STEP_END:
			if (gap)
				lose(b, b->base_shard, CIX_SHARDS - 1);
			return;
		case CIX_STEP_GAP:
			gap = true;
			break;
		case CIX_STEP_ENTRY:
			if (gap)
				lose(b, b->base_shard, s->head.digest.b[0]);
			gap = false;
			b->base_shard = s->head.digest.b[0];
			s->has = !chunkidx_is_gone(b->ix, rank);
			break;
		}
	}
}

/* A gap in a run: chunks that will be touched. */
static void run_next(struct source *s)
{
	enum cix_step step = CIX_STEP_GAP;

	while (step == CIX_STEP_GAP)
		step = cix_walk_next(&s->walk, &s->head, NULL);
	s->has = step == CIX_STEP_ENTRY;
}

/* The run whose head is the least; of equal ones the newest. */
static void find_least(struct chunkbuild *b)
{
	b->least = b->runs_n;
	for (size_t i = 0; i < b->runs_n; i++) {
		if (!b->runs[i].has)
			continue;
		if (b->least == b->runs_n ||
		    digest_compare(&b->runs[i].head.digest,
			&b->runs[b->least].head.digest) <= 0)
			b->least = i;
	}
}

static void runs_next(struct chunkbuild *b, const struct digest *d)
{
	for (size_t i = 0; i < b->runs_n; i++) {
		struct source *s = &b->runs[i];

		if (s->has && digest_equal(&s->head.digest, d))
			run_next(s);
	}
	find_least(b);
}

/* What is said of the least digest that is left; NULL behind the last. */
static const struct cix_entry *peek(const struct chunkbuild *b)
{
	const struct cix_entry *run =
	    b->least < b->runs_n ? &b->runs[b->least].head : NULL;

	if (!b->base.has)
		return run;
	if (run == NULL ||
	    digest_compare(&b->base.head.digest, &run->digest) < 0)
		return &b->base.head;
	return run;
}

static void drop(struct chunkbuild *b, const struct cix_entry *x)
{
	const struct digest d = x->digest;

	if (b->least < b->runs_n)
		runs_next(b, &d);
	if (b->base.has && digest_equal(&b->base.head.digest, &d))
		base_next(b);
}

static int look(struct chunkbuild *b, struct err *e)
{
	b->looked++;
	return b->looked % LOOK_EVERY == 0 ? task_check(b->task, e) : 0;
}

/* Copy what lies before this prefix. */
static int copy_to(struct chunkbuild *b, unsigned prefix, struct err *e)
{
	const struct cix_entry *x = peek(b);
	int rc = 0;

	while (rc == 0 && x != NULL && digest_prefix(&x->digest) < prefix) {
		unsigned shard = x->digest.b[0];

		rc = look(b, e);
		/* What an unknown shard had may be gone. */
		if (rc == 0 && (x->flags & CIX_REMOVED) == 0 &&
		    !cix_shards_has(&b->scan, shard) &&
		    cix_shards_has(&b->ix->known, shard))
			rc = cixwriter_append(b->w, x, e);
		drop(b, x);
		x = peek(b);
	}
	return rc;
}

static bool is_run_or_base(
    const char *name, uint64_t generation, uint64_t merged)
{
	char base[CHUNKIDX_NAME_SIZE];
	char gone[CHUNKIDX_NAME_SIZE];
	uint64_t sequence = 0;

	chunkidx_base_name(generation, base);
	chunkidx_gone_name(generation, gone);
	if (chunkidx_is_run_name(name, &sequence))
		return sequence <= merged;
	return strncmp(name, "base-", 5) == 0 && strcmp(name, base) != 0 &&
	    strcmp(name, gone) != 0;
}

struct cleaning {
	struct chunkidx *ix;
	int fd;
	bool runs; /* others may be writing there */
	bool lost; /* a scan finds what they would have told */
};

static int clean_one(void *ctx, const char *name, struct err *e)
{
	struct cleaning *c = ctx;
	bool old = is_run_or_base(
	    name, c->ix->control.generation, c->ix->control.merged);

	if (strncmp(name, CIXWRITER_TMP, sizeof(CIXWRITER_TMP) - 1) == 0)
		old = !c->runs || (c->lost && chunkidx_is_lost(c->ix, name));
	if (old && file_unlink_at(c->fd, name, c->ix->place.shown, e) < 0)
		(void)err_forget(e);
	return 0;
}

/* What killed ones left, and what was merged; a failure waits for the next. */
static void clean(struct chunkidx *ix, bool lost)
{
	struct err ignored = ERR_INIT;
	struct cleaning c = { .ix = ix, .fd = ix->place.fd, .lost = lost };

	(void)file_each_name(c.fd, clean_one, &c, ix->place.shown, &ignored);
	c.fd = ix->place.runs_fd;
	c.runs = true;
	(void)file_each_name(c.fd, clean_one, &c, ix->place.shown, &ignored);
}

static int begin(struct chunkbuild *b, struct err *e)
{
	struct chunkidx *ix = b->ix;
	struct cix_info info = { .kind = CIX_BASE,
		.number = ix->control.generation + 1 };

	memcpy(info.store, ix->ds->id, sizeof(info.store));
	b->runs = calloc(ix->runs_n + 1, sizeof(*b->runs));
	if (b->runs == NULL)
		return err_nomem(e);
	b->runs_n = ix->runs_n;
	b->base.walk.c = ix->base;
	base_next(b);
	for (size_t i = 0; i < b->runs_n; i++) {
		b->runs[i].walk.c = ix->runs[i].c;
		run_next(&b->runs[i]);
	}
	find_least(b);
	return cixwriter_new(ix->place.fd, ix->place.shown, &info,
	    &ix->ds->owner, true, &b->w, e);
}

int chunkbuild_new(struct chunkidx *ix, const struct cix_shards *scan,
    struct task *task, struct chunkbuild **ret, struct err *e)
{
	struct chunkbuild *b = NULL;
	int rc = 0;

	if (!ix->locked)
		return err_set(e, ERR_BUSY,
		    "somebody else works on the chunk index in '%s'" ERR_TRY_AGAIN,
		    ix->place.shown);
	clean(ix, false);
	b = calloc(1, sizeof(*b));
	if (b == NULL)
		return err_nomem(e);
	b->ix = ix;
	b->task = task;
	b->scan = *scan;
	rc = begin(b, e);
	if (rc < 0) {
		chunkbuild_free(b);
		return rc;
	}
	*ret = b;
	return 0;
}

void chunkbuild_free(struct chunkbuild *b)
{
	if (b == NULL)
		return;
	cixwriter_free(b->w);
	free(b->runs);
	free(b);
}

/* Is it what was verified then? */
static uint16_t day_of(struct chunkbuild *b, const struct cix_entry *x)
{
	const struct cix_entry *old = peek(b);

	while (old != NULL && digest_compare(&old->digest, &x->digest) < 0) {
		drop(b, old);
		old = peek(b);
	}
	if (old == NULL || !digest_equal(&old->digest, &x->digest) ||
	    (old->flags & CIX_REMOVED) != 0 || old->size != x->size)
		return 0;
	return old->day;
}

int chunkbuild_scanned(struct chunkbuild *b, unsigned prefix,
    struct cix_entry *x, size_t n, struct err *e)
{
	int rc = copy_to(b, prefix, e);

	for (size_t i = 0; rc == 0 && i < n; i++) {
		x[i].day = day_of(b, &x[i]);
		x[i].flags = 0;
		rc = look(b, e);
		if (rc == 0)
			rc = cixwriter_append(b->w, &x[i], e);
	}
	if (rc < 0)
		return rc;
	/* What was passed over is empty. */
	for (unsigned shard = b->next / SHARD_PREFIXES;
	     (shard + 1) * SHARD_PREFIXES <= prefix + 1; shard++)
		cix_shards_set(
		    &b->done, shard, cix_shards_has(&b->scan, shard));
	b->next = prefix + 1;
	return 0;
}

/* Shards that were to be scanned and were not, or not whole, are copied. */
static int copy_rest(struct chunkbuild *b, struct err *e)
{
	unsigned shard = b->next / SHARD_PREFIXES;
	int rc = copy_to(b, b->next, e);

	for (; shard < CIX_SHARDS; shard++)
		cix_shards_set(&b->scan, shard, false);
	return rc < 0 ? rc : copy_to(b, STORE_PREFIXES, e);
}

/* Of the new base. */
static struct cix_shards known_of(const struct chunkbuild *b)
{
	struct cix_shards r = { .b = { 0 } };

	for (unsigned s = 0; s < CIX_SHARDS; s++)
		cix_shards_set(&r, s,
		    cix_shards_has(&b->done, s) ||
			(cix_shards_has(&b->ix->known, s) &&
			    !cix_shards_has(&b->lost, s)));
	return r;
}

/* The files are there; now they are the index. */
static int switch_to(
    struct chunkbuild *b, const struct chunkidx_note *note, struct err *e)
{
	struct chunkidx *ix = b->ix;
	struct chunkidx_control c = ix->control;
	bool lost = cix_shards_count(&b->done) == CIX_SHARDS;
	int rc = 0;

	c.generation = cixwriter_info(b->w)->number;
	c.known = cixwriter_info(b->w)->known;
	if (ix->runs_n > 0)
		c.merged = ix->runs[ix->runs_n - 1].sequence;
	chunkidx_apply_note(&c, note);
	rc = chunkidx_control_write(ix->ds, &ix->place, &c, e);
	if (rc < 0)
		return rc;
	chunkidx_unload(ix);
	rc = chunkidx_load(ix, e);
	if (rc == 0)
		clean(ix, lost);
	return rc;
}

int chunkbuild_finish(
    struct chunkbuild *b, const struct chunkidx_note *note, struct err *e)
{
	struct chunkidx *ix = b->ix;
	char name[CHUNKIDX_NAME_SIZE];
	struct cix_shards known;
	int rc = copy_rest(b, e);

	known = known_of(b);
	cixwriter_set_known(b->w, &known);
	/* What was not recorded, only a scan of everything finds. */
	if (ix->base != NULL && cix_info(ix->base)->trust != CIX_TRUST_ALL &&
	    cix_shards_count(&b->done) < CIX_SHARDS)
		cixwriter_set_trust(b->w, CIX_TRUST_LACKING);
	if (rc == 0)
		rc = cixwriter_finish(b->w, e);
	if (rc == 0)
		rc = chunkidx_gone_make(ix, cixwriter_info(b->w)->number,
		    cixwriter_info(b->w)->entries, e);
	if (rc == 0) {
		chunkidx_base_name(cixwriter_info(b->w)->number, name);
		rc = cixwriter_name(b->w, name, e);
	}
	return rc < 0 ? rc : switch_to(b, note, e);
}

int chunkidx_merge(struct chunkidx *ix, struct task *task,
    const struct chunkidx_note *note, struct err *e)
{
	const struct cix_shards none = { .b = { 0 } };
	struct chunkbuild *b = NULL;
	int rc = chunkbuild_new(ix, &none, task, &b, e);

	if (rc == 0)
		rc = chunkbuild_finish(b, note, e);
	chunkbuild_free(b);
	return rc;
}
