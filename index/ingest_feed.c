/* SPDX-License-Identifier: MIT */
#include "index/ingest_feed.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "datastore/chunker.h"
#include "index/ingest_internal.h"

struct ingest_feed {
	struct ingest_pipeline pipeline;
	struct chunker chunker;
	uint64_t size;
	size_t filled; /* of the current chunk */
};

int ingest_feed_new(struct session *s, const char *filename, uint64_t total,
    const struct ingest_opts *opts, struct task *task, struct ingest_feed **ret,
    struct err *e)
{
	static const struct ingest_opts none = { .chunk_size = 0 };
	struct ingest_pipeline_opts how = { .filename = filename,
		.total = total,
		.opts = opts != NULL ? opts : &none };
	struct ingest_feed *f = calloc(1, sizeof(*f));
	size_t avg = how.opts->chunk_size != 0 ? how.opts->chunk_size
					       : CHUNKER_AVG_DEFAULT;
	int rc = 0;

	if (f == NULL)
		return err_nomem(e);
	rc = chunker_init(&f->chunker, avg, e);
	how.chunk_max = f->chunker.max;
	if (rc == 0)
		rc = ingest_pipeline_open(&f->pipeline, s, &how, task, e);
	if (rc < 0) {
		free(f);
		return rc;
	}
	*ret = f;
	return 0;
}

void ingest_feed_free(struct ingest_feed *f)
{
	if (f == NULL)
		return;
	ingest_pipeline_close(&f->pipeline);
	free(f);
}

void ingest_feed_counts(
    struct ingest_feed *f, const struct task_count *counts, size_t n)
{
	_Static_assert(INGEST_FEED_COUNTS_MAX == INGEST_COUNTS_MAX, "the same");
	assert(n <= INGEST_COUNTS_MAX);
	f->pipeline.more = counts;
	f->pipeline.more_n = n;
}

uint64_t ingest_feed_size(const struct ingest_feed *f)
{
	return f->size;
}

static void submit(struct ingest_feed *f)
{
	f->pipeline.current->n = f->filled;
	ingest_pipeline_submit(&f->pipeline);
	f->filled = 0;
}

int ingest_feed_append(
    struct ingest_feed *f, const void *p, size_t n, struct err *e)
{
	const uint8_t *at = p;

	while (n > 0) {
		struct ingest_slot *slot = NULL;
		bool cut = false;
		size_t m = 0;
		int rc = ingest_pipeline_slot(&f->pipeline, &slot, e);

		if (rc < 0)
			return rc;
		m = chunker_scan(&f->chunker, at, n, &cut);
		memcpy(slot->data + f->filled, at, m);
		f->filled += m;
		f->size += m;
		at += m;
		n -= m;
		if (cut)
			submit(f);
	}
	return 0;
}

int ingest_feed_cut(struct ingest_feed *f, struct err *e)
{
	chunker_reset(&f->chunker);
	if (f->filled > 0)
		submit(f);
	return ingest_pulse_check(&f->pipeline.pulse, e);
}

int ingest_feed_idle(void *feed, struct err *e)
{
	struct ingest_feed *f = feed;

	return ingest_pipeline_idle(&f->pipeline, e);
}

int ingest_feed_finish(
    struct ingest_feed *f, struct ingest_result *ret, struct err *e)
{
	chunker_reset(&f->chunker);
	if (f->filled > 0)
		submit(f);
	return ingest_pipeline_finish(&f->pipeline, ret, e);
}
