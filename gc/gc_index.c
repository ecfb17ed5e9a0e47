/* SPDX-License-Identifier: MIT */
/*
 * A run by the chunk index: what mark needs of it, and its end.
 *
 * With an index that knows all, a referenced chunk is marked by one bit at its
 * rank in the base, which this run has locked, and not touched; what the base
 * has not is touched as without an index.  Every thousandth is touched all the
 * same: if one of those is not there, the index says what is not true, and the
 * run begins again without it.
 *
 * Without, or when the directories are to be looked at again, everything is
 * touched, and the sweep, which comes by every chunk, makes a new base.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "datastore/base/text.h"
#include "datastore/damage.h"
#include "gc/gc_index.h"
#include "gc/gc_internal.h"

/* Of the chunks that are marked, one in so many is touched. */
#define SAMPLE_EVERY 1000U
/* And so many of the first. */
#define SAMPLE_FIRST 16U

/* With fewer chunks there is nothing to tell of it. */
#define SAID_FROM 65536U

/* A new base is not written where it could fill the disk. */
#define SPARE_BYTES (UINT64_C(256) << 20)

struct gc_index {
	struct gc_run *run;
	struct chunkidx *ix;
	bool held; /* its lock */
	bool by_index;
	bool wrong;
	struct damage *damage;

	uint64_t *marks; /* bit per rank */
	uint64_t entries;
	uint64_t marked;
	uint64_t bytes;       /* of these */
	uint64_t sampled;     /* of these, touched as well */
	uint64_t other_bytes; /* of what the base has not */

	bool distrusted;
	struct gc_index_build *build;
};

static bool bit(const uint64_t *set, uint64_t i)
{
	return (set[i / 64] >> i % 64 & 1) != 0;
}

static void say(struct gc_run *run, uint64_t chunks, const char *text)
{
	task_message(
	    run->task, chunks < SAID_FROM ? TASK_DEBUG : TASK_NOTE, "%s", text);
}

/* Is there room for a base of so many chunks beside the one there is? */
static bool has_room(struct gc_run *run, uint64_t chunks)
{
	struct datastore_space space = { .available = 0 };
	struct err ignored = ERR_INIT;

	return datastore_space(run->ds, &space, &ignored) == 0 &&
	    space.available > SPARE_BYTES &&
	    space.available - SPARE_BYTES > 2 * cix_file_size(chunks);
}

/* Why not by the index; "" if so. */
static const char *reason(
    struct gc_run *run, const struct chunkidx_info *info, bool held)
{
	if (!held)
		return "another command changes the chunk index";
	if (info->state != CHUNKIDX_READY)
		return info->why;
	if (info->lacking)
		return "a push or a collection was killed, or could not record "
		       "what it did";
	/* What is only in runs is no candidate; a dry run merges nothing. */
	if (info->runs > 0 && !run->opts->dry_run)
		return "there is no room to merge what was stored since";
	if (run->opts->full)
		return "as asked for by --full";
	if (clock_now_s() - info->scanned > CHUNKIDX_SCAN_S ||
	    info->scanned > clock_now_s())
		return "the last scan of all directories is 30 days ago";
	return "";
}

static int begin_marks(struct gc_index *x, struct err *e)
{
	int rc = damage_read(x->run->ds, &x->damage, e);

	if (rc < 0)
		return rc;
	x->entries = cix_info(chunkidx_base(x->ix))->entries;
	x->marks = calloc((size_t)(x->entries / 64 + 1), sizeof(*x->marks));
	if (x->marks == NULL)
		return err_nomem(e);
	x->by_index = true;
	return 0;
}

/* What sessions inserted since becomes part of the base, if there is room. */
static void merge(struct gc_index *x)
{
	struct chunkidx_info info;
	struct err why = ERR_INIT;

	chunkidx_get_info(x->ix, &info);
	if (info.runs == 0 || info.state != CHUNKIDX_READY ||
	    !has_room(x->run, info.base_entries + info.run_entries))
		return;
	if (chunkidx_merge(x->ix, x->run->task, NULL, &why) < 0)
		task_message(x->run->task, TASK_DEBUG,
		    "the chunk index is not merged: %s", why.msg);
}

static int open_it(struct gc_index *x, struct err *e)
{
	char upid[GC_UPID_SIZE];
	struct err why = ERR_INIT;
	int rc = 0;

	gc_last_upid(x->run->ds, upid);
	/* Where it can not be made, there is none. */
	if (has_room(x->run, 0) && chunkidx_make(x->run->ds, &why) < 0)
		(void)err_forget(&why);
	rc = chunkidx_open(x->run->ds, upid, &x->ix, e);
	if (rc < 0)
		return rc;
	if (chunkidx_lock(x->ix, &x->held, &why) < 0)
		x->held = false;
	return 0;
}

int gc_index_begin(struct gc_run *run, struct err *e)
{
	struct gc_index *x = NULL;
	struct chunkidx_info info;
	const char *why = NULL;
	char text[ERR_MSG_SIZE + 128];
	int rc = 0;

	if (!run->opts->index)
		return 0;
	x = calloc(1, sizeof(*x));
	if (x == NULL)
		return err_nomem(e);
	run->index = x;
	x->run = run;
	rc = open_it(x, e);
	if (rc == 0 && x->held)
		merge(x);
	if (rc < 0)
		return rc;
	chunkidx_get_info(x->ix, &info);
	if (info.state == CHUNKIDX_OFF)
		return 0;
	why = reason(run, &info, x->held);
	if (why[0] == '\0') {
		(void)snprintf(text, sizeof(text),
		    "marking by the chunk index, which knows %" PRIu64
		    " chunk%s; others are touched",
		    info.chunks, text_plural(info.chunks, "", "s"));
		rc = begin_marks(x, e);
	} else {
		(void)snprintf(text, sizeof(text),
		    "touching all chunks and reading all directories: %s", why);
	}
	say(run, info.chunks, text);
	return rc;
}

int gc_index_would(struct gc_run *run, bool *ret, struct err *e)
{
	char upid[GC_UPID_SIZE];
	struct chunkidx *ix = NULL;
	struct chunkidx_info info;
	int rc = 0;

	*ret = false;
	if (!run->opts->index)
		return 0;
	gc_last_upid(run->ds, upid);
	rc = chunkidx_open(run->ds, upid, &ix, e);
	if (rc < 0)
		return rc;
	chunkidx_get_info(ix, &info);
	*ret = reason(run, &info, !info.busy)[0] == '\0';
	chunkidx_close(ix);
	return 0;
}

bool gc_index_marks(const struct gc_run *run)
{
	return run->index != NULL && run->index->by_index;
}

/* Set this rank's bit; *ret_stays: it is touched all the same.  What is known
 * to be damaged may be missing: that is for a touch to say. */
static void mark_rank(struct gc_index *x, uint64_t rank,
    const struct cix_entry *entry, bool *ret_stays)
{
	bool damaged = damage_contains(x->damage, &entry->digest);

	*ret_stays = damaged;
	if (bit(x->marks, rank))
		return;
	x->marks[rank / 64] |= UINT64_C(1) << rank % 64;
	if (damaged)
		return;
	x->bytes += entry->size;
	*ret_stays = x->marked < SAMPLE_FIRST || x->marked % SAMPLE_EVERY == 0;
	x->marked++;
	x->sampled += *ret_stays ? 1 : 0;
}

int gc_index_known(
    void *ctx, struct digest *d, size_t n, size_t *ret_left, struct err *e)
{
	struct gc_run *run = ctx;
	struct gc_index *x = run->index;
	struct cix *base = chunkidx_base(x->ix);
	size_t left = 0;

	(void)e;
	for (size_t i = 0; i < n; i++) {
		struct store_entry file = { .bytes = 0 };
		struct err ignored = ERR_INIT;
		struct cix_entry entry;
		bool stays = true;
		bool found = false;
		uint64_t rank = 0;

		if (cix_find(base, &d[i], &entry, &rank) == CIX_FOUND &&
		    !chunkidx_is_gone(x->ix, rank))
			mark_rank(x, rank, &entry, &stays);
		else if (store_stat(run->ds->store, &d[i], &file, &found,
			     &ignored) == 0 &&
		    found)
			x->other_bytes += file.bytes;
		if (stays)
			d[left++] = d[i];
	}
	*ret_left = left;
	return 0;
}

/* Of what is missing: does the index say that it is there? */
bool gc_index_is_wrong(struct gc_run *run)
{
	struct gc_index *x = run->index;

	if (!gc_index_marks(run))
		return false;
	for (size_t i = 0; i < run->missing_n; i++) {
		struct cix_entry entry;
		uint64_t rank = 0;

		if (!damage_contains(x->damage, &run->missing[i]) &&
		    cix_find(chunkidx_base(x->ix), &run->missing[i], &entry,
			&rank) == CIX_FOUND &&
		    bit(x->marks, rank))
			return true;
	}
	return false;
}

void gc_index_drop_marks(struct gc_run *run)
{
	struct gc_index *x = run->index;

	free(x->marks);
	x->marks = NULL;
	x->by_index = false;
	x->marked = 0;
	x->bytes = 0;
	x->sampled = 0;
	x->other_bytes = 0;
	task_message(run->task, TASK_NOTE,
	    "the chunk index of '%s' has chunks that are not there: it is made "
	    "anew, and the mark begins again without it",
	    run->ds->path);
}

void gc_index_forget(struct gc_run *run)
{
	if (run->index != NULL)
		run->index->by_index = false;
}

void gc_index_count(struct gc_run *run)
{
	const struct gc_index *x = run->index;

	run->r.by_index = true;
	run->r.disk_chunks += x->marked + (run->r.touched - x->sampled);
	run->r.disk_bytes += x->bytes + x->other_bytes;
}

int gc_index_before_unlink(struct gc_run *run, struct err *e)
{
	struct gc_index *x = run->index;
	int rc = 0;

	if (x == NULL || x->by_index || x->distrusted)
		return 0;
	rc = chunkidx_distrust(x->ix, e);
	if (rc < 0)
		err_prefix(e, "note that the chunk index is not true any more");
	x->distrusted = rc == 0;
	return rc;
}

/* --- A new base from what the sweep comes by --- */

struct gc_index_build {
	struct chunkbuild *b; /* NULL: given up */
	unsigned prefix;
	bool has;
	struct cix_entry *x;
	size_t n;
	size_t cap;
	unsigned told; /* prefixes before this one were told of */
};

static void give_up(struct gc_run *run, const struct err *why)
{
	struct gc_index_build *g = run->index->build;

	task_message(
	    run->task, TASK_NOTE, "no new chunk index is made: %s", why->msg);
	chunkbuild_free(g->b);
	g->b = NULL;
}

void gc_index_build_begin(struct gc_run *run)
{
	struct gc_index *x = run->index;
	struct gc_last last = { .found = false };
	struct cix_shards all;
	struct err why = ERR_INIT;

	if (x == NULL || !x->held || x->by_index)
		return;
	if (gc_last_read(run->ds, &last, &why) < 0)
		last.found = false;
	if (!has_room(run,
		last.found ? last.result.disk_chunks + run->r.touched
			   : run->r.touched))
		return;
	memset(&all, 0xff, sizeof(all));
	x->build = calloc(1, sizeof(*x->build));
	if (x->build == NULL)
		return;
	why = (struct err)ERR_INIT;
	if (chunkbuild_new(x->ix, &all, run->task, &x->build->b, &why) < 0)
		give_up(run, &why);
}

static int compare(const void *a, const void *b)
{
	const struct cix_entry *x = a;
	const struct cix_entry *y = b;

	return digest_compare(&x->digest, &y->digest);
}

/* What is left of the prefix that was seen. */
static void tell(struct gc_run *run)
{
	struct gc_index_build *g = run->index->build;
	struct err why = ERR_INIT;
	size_t kept = 0;

	if (!g->has || g->b == NULL)
		return;
	for (size_t i = 0; i < g->n; i++) {
		if ((g->x[i].flags & CIX_REMOVED) == 0)
			g->x[kept++] = g->x[i];
	}
	if (kept > 1)
		qsort(g->x, kept, sizeof(*g->x), compare);
	if (chunkbuild_scanned(g->b, g->prefix, g->x, kept, &why) < 0)
		give_up(run, &why);
	g->told = g->prefix + 1;
	g->has = false;
	g->n = 0;
}

int gc_index_seen(void *ctx, const struct store_entry *entry, struct err *e)
{
	struct gc_run *run = ctx;
	struct gc_index_build *g =
	    run->index == NULL ? NULL : run->index->build;
	unsigned prefix = digest_prefix(&entry->digest);

	if (g == NULL || g->b == NULL)
		return 0;
	if (g->has && prefix != g->prefix)
		tell(run);
	/* One that was busy: it was told of as it was before. */
	if (prefix < g->told)
		return 0;
	if (g->n == g->cap) {
		size_t cap = g->cap == 0 ? 64 : g->cap * 2;
		struct cix_entry *p = reallocarray(g->x, cap, sizeof(*p));

		if (p == NULL)
			return err_nomem(e);
		g->x = p;
		g->cap = cap;
	}
	g->has = true;
	g->prefix = prefix;
	g->x[g->n++] = (struct cix_entry){
		.digest = entry->digest,
		.size = entry->bytes > UINT32_MAX ? UINT32_MAX
						  : (uint32_t)entry->bytes,
	};
	return 0;
}

void gc_index_removed(struct gc_run *run, const struct store_victim *v)
{
	struct gc_index_build *g =
	    run->index == NULL ? NULL : run->index->build;
	struct digest d;

	if (g == NULL || !g->has || v->kind != STORE_CHUNK ||
	    !digest_parse(v->name, strlen(v->name), &d))
		return;
	for (size_t i = 0; i < g->n; i++) {
		if (digest_equal(&g->x[i].digest, &d))
			g->x[i].flags |= CIX_REMOVED;
	}
}

void gc_index_build_end(struct gc_run *run, const char *upid)
{
	const struct chunkidx_note note = { .upid = upid, .scanned = true };
	struct gc_index_build *g =
	    run->index == NULL ? NULL : run->index->build;
	struct err why = ERR_INIT;

	if (g == NULL || g->b == NULL)
		return;
	tell(run);
	if (g->b != NULL &&
	    (chunkbuild_scanned(g->b, STORE_PREFIXES - 1, NULL, 0, &why) < 0 ||
		chunkbuild_finish(g->b, &note, &why) < 0))
		give_up(run, &why);
}

void gc_index_note(struct gc_run *run, const char *upid, bool settled)
{
	const struct chunkidx_note note = { .upid = upid, .settled = settled };
	struct gc_index *x = run->index;
	struct err why = ERR_INIT;
	struct chunkidx_info info;

	if (x == NULL || !x->held)
		return;
	if (!settled && !x->by_index) {
		gc_index_build_end(run, upid);
		return;
	}
	chunkidx_get_info(x->ix, &info);
	if ((x->by_index || x->build != NULL) && info.merged != 0 &&
	    chunkidx_note(x->ix, &note, &why) < 0)
		task_message(run->task, TASK_NOTE,
		    "the next run will read all directories: %s", why.msg);
}

struct chunkidx *gc_index_of(struct gc_run *run, const uint64_t **ret_marks)
{
	*ret_marks = run->index->marks;
	return run->index->ix;
}

void gc_index_release(struct gc_run *run)
{
	struct gc_index *x = run->index;

	if (x == NULL)
		return;
	if (x->build != NULL) {
		chunkbuild_free(x->build->b);
		free(x->build->x);
		free(x->build);
	}
	chunkidx_close(x->ix);
	damage_free(x->damage);
	free(x->marks);
	free(x);
	run->index = NULL;
}
