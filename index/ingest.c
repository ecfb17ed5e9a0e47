/* SPDX-License-Identifier: MIT */
#include "index/ingest.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "datastore/base/buf.h"
#include "datastore/chunker.h"
#include "index/ingest_internal.h"

/*
 * A stream is read into the chunk that is being filled; what was read beyond
 * its end is copied to the next one.  A quarter of an average chunk at a time
 * keeps that below one byte in eight.
 */
#define READ_MAX ((size_t)256 << 10)

/* Give the chunk away and begin the next with the rest of its bytes. */
static int next_chunk(struct ingest_pipeline *p, size_t rest, struct err *e)
{
	struct ingest_slot *full = p->current;
	struct ingest_slot *slot = NULL;
	int rc = 0;

	ingest_pipeline_submit(p);
	rc = ingest_pipeline_slot(p, &slot, e);
	if (rc < 0)
		return rc;
	/*
	 * The full one is being worked on, but nobody writes to it: there are
	 * other slots before it comes round again.
	 */
	if (rest > 0)
		memcpy(slot->data, full->data + full->n, rest);
	slot->n = 0;
	return 0;
}

/* Cut the `fresh` bytes behind the current chunk's. */
static int cut_bytes(
    struct ingest_pipeline *p, struct chunker *c, size_t fresh, struct err *e)
{
	while (fresh > 0) {
		struct ingest_slot *slot = p->current;
		bool cut = false;
		size_t n = chunker_scan(c, slot->data + slot->n, fresh, &cut);
		int rc = 0;

		slot->n += n;
		fresh -= n;
		if (cut)
			rc = next_chunk(p, fresh, e);
		if (rc < 0)
			return rc;
	}
	return 0;
}

static int push_stream(struct ingest_pipeline *p, struct chunker *c,
    struct ingest_reader *r, struct err *e)
{
	size_t piece = c->avg / 4 < READ_MAX ? c->avg / 4 : READ_MAX;
	struct ingest_slot *slot = NULL;
	size_t got = 1;
	int rc = ingest_pipeline_slot(p, &slot, e);

	if (rc < 0)
		return rc;
	slot->n = 0;
	while (got > 0) {
		size_t room = 0;

		slot = p->current;
		room = p->chunk_max - slot->n;
		rc = ingest_reader_read(r, slot->data + slot->n,
		    room < piece ? room : piece, &got, e);
		if (rc == 0)
			rc = cut_bytes(p, c, got, e);
		if (rc == 0)
			rc = ingest_pulse_check(&p->pulse, e);
		if (rc < 0)
			return rc;
	}
	if (p->current->n > 0)
		ingest_pipeline_submit(p);
	return 0;
}

int ingest_stream(struct session *s, const char *filename,
    const struct ingest_source *src, const struct ingest_opts *opts,
    struct task *task, struct ingest_result *ret, struct err *e)
{
	static const struct ingest_opts none = { .chunk_size = 0 };
	struct ingest_pipeline_opts how = { .filename = filename };
	struct ingest_result result = { .size = 0 };
	struct ingest_pipeline p;
	struct ingest_reader r;
	struct chunker c;
	size_t avg = CHUNKER_AVG_DEFAULT;
	int rc = ingest_reader_init(&r, src, e);

	if (rc < 0)
		return rc;
	how.opts = opts != NULL ? opts : &none;
	if (how.opts->chunk_size != 0)
		avg = how.opts->chunk_size;
	rc = chunker_init(&c, avg, e);
	if (rc < 0)
		return rc;
	how.chunk_max = c.max;
	how.total = src->size_hint;
	rc = ingest_pipeline_open(&p, s, &how, task, e);
	if (rc < 0)
		return rc;
	r.idle = ingest_pipeline_idle;
	r.ctx = &p;
	rc = push_stream(&p, &c, &r, e);
	if (rc == 0)
		rc = ingest_reader_changed(&r, &result.changed, e);
	if (rc == 0)
		rc = ingest_pipeline_finish(&p, &result, e);
	ingest_pipeline_close(&p);
	if (rc < 0)
		return rc;
	*ret = result;
	return 0;
}

static int conf_idle(void *ctx, struct err *e)
{
	struct ingest_pulse *pulse = ctx;

	return ingest_pulse_check(pulse, e);
}

/* All of it, into b. */
static int read_conf(struct ingest_reader *r, struct buf *b, struct err *e)
{
	size_t got = 1;

	while (got > 0) {
		int rc = 0;

		if (b->len > INGEST_CONF_MAX) {
			return err_set(e, ERR_LIMIT,
			    "'%s' has more than %u bytes, the most that a "
			    "'.conf' may have",
			    r->src->shown, INGEST_CONF_MAX);
		}
		rc = buf_reserve(b, READ_MAX, e);
		if (rc == 0) {
			rc = ingest_reader_read(
			    r, b->data + b->len, READ_MAX, &got, e);
		}
		if (rc < 0)
			return rc;
		b->len += got;
	}
	return 0;
}

int ingest_conf(struct session *s, const char *filename,
    const struct ingest_source *src, struct task *task,
    struct ingest_result *ret, struct err *e)
{
	struct ingest_result result = { .size = 0 };
	struct ingest_pulse pulse;
	struct ingest_reader r;
	struct buf b = BUF_INIT;
	int rc = ingest_reader_init(&r, src, e);

	if (rc < 0)
		return rc;
	ingest_pulse_init(&pulse, s, task);
	r.idle = conf_idle;
	r.ctx = &pulse;
	rc = read_conf(&r, &b, e);
	if (rc == 0)
		rc = ingest_reader_changed(&r, &result.changed, e);
	if (rc == 0)
		rc = session_add_blob(s, filename, b.data, b.len, e);
	if (rc == 0) {
		result.size = b.len;
		*ret = result;
	}
	buf_release(&b);
	return rc;
}
