/* SPDX-License-Identifier: MIT */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "datastore/compress.h"
#include "index/ingest_internal.h"

#define MIB ((size_t)1 << 20)

/* What is neither a slot's nor a thread's: the index, the library, stacks. */
#define MEMORY_REST (8 * MIB)

/*
 * Slots are worked on and retired in order: these let a thread or two be held
 * up, by a file system that syncs, before the others have nothing to do.
 */
#define SLOTS_PER_THREAD 4

/* Zeros are shown to be under way at least this often. */
#define ZEROS_MAX 256

/* Appending to the index is checked for a stop this often. */
#define APPEND_CHECK 65536

/* A worker thread's own. */
struct local {
	struct codec *codec;
	struct buf scratch;
};

/*
 * At least what libzstd 1.5 takes for its tables at a level: they are bounded
 * by the level, and by the length of what is compressed.
 */
static size_t codec_memory(size_t chunk_max, int level)
{
	size_t most = 80 * MIB;

	if (level >= 1 && level <= 4) {
		most = MIB;
	} else if (level >= 5 && level <= 9) {
		most = 11 * MIB;
	}
	return 2 * MIB + (18 * chunk_max < most ? 18 * chunk_max : most);
}

void ingest_plan(size_t chunk_max, const struct ingest_opts *opts,
    unsigned *ret_threads, size_t *ret_slots)
{
	size_t most = opts->memory != 0 ? opts->memory : INGEST_MEMORY_MAX;
	/* Each thread has an output buffer as large as a chunk. */
	size_t per_thread = chunk_max + codec_memory(chunk_max, opts->level);
	size_t least = per_thread + 2 * chunk_max;
	size_t memory = most > MEMORY_REST + least ? most - MEMORY_REST : least;
	size_t threads =
	    opts->threads > 0 ? opts->threads : workers_default_threads();
	size_t slots = 0;

	if (threads > (memory - chunk_max) / (per_thread + chunk_max))
		threads = (memory - chunk_max) / (per_thread + chunk_max);
	assert(threads >= 1);
	slots = (memory - threads * per_thread) / chunk_max;
	if (slots > SLOTS_PER_THREAD * threads + 1)
		slots = SLOTS_PER_THREAD * threads + 1;
	*ret_threads = (unsigned)threads;
	*ret_slots = slots;
}

static void thread_release(void *ctx, void *arg)
{
	struct local *l = arg;

	(void)ctx;
	if (l == NULL)
		return;
	codec_free(l->codec);
	buf_release(&l->scratch);
	free(l);
}

static int thread_init(void *ctx, void **ret_local, struct err *e)
{
	struct local *l = calloc(1, sizeof(*l));
	int rc = 0;

	if (l == NULL)
		return err_nomem(e);
	rc = codec_new(&l->codec, e);
	if (rc < 0) {
		thread_release(ctx, l);
		return rc;
	}
	*ret_local = l;
	return 0;
}

static int work(void *ctx, void *local, void *arg, struct err *e)
{
	struct ingest_pipeline *p = ctx;
	struct ingest_slot *slot = arg;
	struct local *l = local;
	enum session_put put = SESSION_NEW;
	int rc = task_check(p->pulse.task, e);

	if (rc < 0 || slot->n == 0)
		return rc;
	return session_put(p->pulse.session, l->codec, &l->scratch, slot->data,
	    slot->n, &slot->digest, &put, e);
}

static void report(struct ingest_pipeline *p)
{
	struct session_stats now;
	struct task_count counts[4 + INGEST_COUNTS_MAX] = {
		{ "chunks", "chunks", p->chunks, 0, TASK_UNIT_COUNT, "chunk" },
		{ "new-chunks", "new chunks", 0, 0, TASK_UNIT_COUNT,
		    "new chunk" },
		{ "new-bytes", "new", 0, 0, TASK_UNIT_BYTES, NULL },
		{ "stored-bytes", "stored", 0, 0, TASK_UNIT_BYTES, NULL },
	};
	struct task_progress progress = {
		.phase = p->phase,
		.unit = TASK_UNIT_BYTES,
		.done = p->done,
		.total = p->total,
		.counts = counts,
		.counts_n = 4 + p->more_n,
	};

	session_stats(p->pulse.session, &now);
	counts[1].done = now.new_chunks - p->before.new_chunks;
	counts[2].done = now.new_bytes - p->before.new_bytes;
	counts[3].done = now.stored_bytes - p->before.stored_bytes;
	for (size_t i = 0; i < p->more_n; i++)
		counts[4 + i] = p->more[i];
	task_progress(p->pulse.task, &progress);
}

static int append(struct ingest_pipeline *p, const struct digest *d, uint64_t n,
    struct err *e)
{
	int rc = idxwriter_append(p->writer, d, n, e);

	if (rc < 0)
		return rc;
	p->done += n;
	p->chunks++;
	return 0;
}

/* count full chunks of zeros, whose digest is known. */
static int append_zeros(
    struct ingest_pipeline *p, uint64_t count, struct err *e)
{
	for (uint64_t i = 0; i < count; i++) {
		int rc = append(p, &p->zeros_digest, p->chunk_max, e);

		if (rc == 0 && i % APPEND_CHECK == APPEND_CHECK - 1) {
			report(p);
			rc = ingest_pulse_check(&p->pulse, e);
		}
		if (rc < 0)
			return rc;
	}
	return 0;
}

static int retire(void *ctx, void *arg, struct err *e)
{
	struct ingest_pipeline *p = ctx;
	struct ingest_slot *slot = arg;
	int rc = append_zeros(p, slot->zeros_before, e);

	if (rc < 0)
		return rc;
	if (slot->first_zeros)
		p->zeros_digest = slot->digest;
	if (slot->n > 0)
		rc = append(p, &slot->digest, slot->n, e);
	if (rc == 0)
		report(p);
	return rc;
}

static const struct workers_ops ops = {
	.thread_init = thread_init,
	.thread_release = thread_release,
	.work = work,
	.retire = retire,
};

static int make_slots(struct ingest_pipeline *p, struct err *e)
{
	p->slots = calloc(p->slots_n, sizeof(*p->slots));
	p->slot_pointers = calloc(p->slots_n, sizeof(*p->slot_pointers));
	if (p->slots == NULL || p->slot_pointers == NULL)
		return err_nomem(e);
	for (size_t i = 0; i < p->slots_n; i++) {
		p->slots[i].data = malloc(p->chunk_max);
		if (p->slots[i].data == NULL)
			return err_nomem(e);
		p->slot_pointers[i] = &p->slots[i];
	}
	return 0;
}

int ingest_pipeline_open(struct ingest_pipeline *p, struct session *s,
    const struct ingest_pipeline_opts *opts, struct task *task, struct err *e)
{
	const char *dot = strrchr(opts->filename, '.');
	unsigned threads = 0;
	int rc = 0;

	memset(p, 0, sizeof(*p));
	ingest_pulse_init(&p->pulse, s, task);
	p->chunk_max = opts->chunk_max;
	p->total = opts->total;
	session_stats(s, &p->before);
	(void)snprintf(p->phase, sizeof(p->phase), "push %.*s",
	    dot != NULL ? (int)(dot - opts->filename) : 0, opts->filename);
	rc = idxwriter_new(s, opts->filename, opts->chunk_size, &p->writer, e);
	if (rc < 0)
		goto out;
	ingest_plan(p->chunk_max, opts->opts, &threads, &p->slots_n);
	rc = make_slots(p, e);
	if (rc < 0)
		goto out;
	rc = workers_new(
	    &ops, p, threads, p->slot_pointers, p->slots_n, &p->workers, e);
out:
	if (rc < 0)
		ingest_pipeline_close(p);
	return rc;
}

void ingest_pipeline_close(struct ingest_pipeline *p)
{
	workers_free(p->workers);
	for (size_t i = 0; p->slots != NULL && i < p->slots_n; i++)
		free(p->slots[i].data);
	free(p->slots);
	free(p->slot_pointers);
	idxwriter_free(p->writer);
	memset(p, 0, sizeof(*p));
}

/* What is done is retired, and a failure found. */
static int get_slot(struct ingest_pipeline *p, struct err *e)
{
	void *slot = NULL;
	int rc = workers_get(p->workers, &slot, e);

	if (rc < 0)
		return rc;
	assert(p->current == NULL || p->current == slot);
	p->current = slot;
	return 0;
}

int ingest_pipeline_idle(void *pipeline, struct err *e)
{
	struct ingest_pipeline *p = pipeline;
	int rc = get_slot(p, e);

	/* Somebody may have asked how far it is. */
	if (rc == 0)
		report(p);
	return rc < 0 ? rc : ingest_pulse_check(&p->pulse, e);
}

int ingest_pipeline_slot(
    struct ingest_pipeline *p, struct ingest_slot **ret, struct err *e)
{
	int rc = ingest_pulse_check(&p->pulse, e);

	if (rc == 0 && p->current == NULL)
		rc = get_slot(p, e);
	if (rc < 0)
		return rc;
	*ret = p->current;
	return 0;
}

void ingest_pipeline_submit(struct ingest_pipeline *p)
{
	p->current->zeros_before = p->zeros;
	p->zeros = 0;
	p->current = NULL;
	workers_submit(p->workers);
}

int ingest_pipeline_zeros(
    struct ingest_pipeline *p, uint64_t count, struct err *e)
{
	struct ingest_slot *slot = NULL;
	int rc = ingest_pipeline_slot(p, &slot, e);

	if (rc < 0 || count == 0)
		return rc;
	if (!p->zeros_put) {
		/* The others can only be retired behind it. */
		memset(slot->data, 0, p->chunk_max);
		slot->n = p->chunk_max;
		slot->first_zeros = true;
		ingest_pipeline_submit(p);
		p->zeros_put = true;
		count--;
	}
	p->zeros += count;
	if (p->zeros < ZEROS_MAX)
		return 0;
	rc = ingest_pipeline_slot(p, &slot, e);
	if (rc < 0)
		return rc;
	slot->n = 0;
	slot->first_zeros = false;
	ingest_pipeline_submit(p);
	return 0;
}

int ingest_pipeline_finish(
    struct ingest_pipeline *p, struct ingest_result *ret, struct err *e)
{
	struct ingest_result r = *ret;
	int rc = workers_finish(p->workers, e);

	if (rc == 0)
		rc = append_zeros(p, p->zeros, e);
	if (rc == 0)
		rc = idxwriter_finish(p->writer, &r.size, &r.csum, e);
	if (rc < 0)
		return rc;
	report(p);
	r.chunks = p->chunks;
	*ret = r;
	return 0;
}
