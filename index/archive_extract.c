/* SPDX-License-Identifier: MIT */
/*
 * archive_extract: chunks loaded and checked by the workers, written by them
 * where the place is known, or by the owner, in order, where it is a stream.
 */
#include <assert.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "datastore/base/file.h"
#include "datastore/base/sysio.h"
#include "datastore/base/workers.h"
#include "datastore/blob.h"
#include "datastore/damage.h"
#include "index/archive_internal.h"

/* Of all buffers of chunks: one per slot, two per thread. */
#define MEMORY_MAX ((uint64_t)160 << 20)

/* Shorter runs of zeros are written: a hole per block would cost more than
 * it saves. */
#define HOLE_MIN ((size_t)64 << 10)

#define ENTRIES 1024 /* read from the index at a time */

struct slot {
	struct idx_entry entry;
	uint64_t start;
	struct buf content;
	uint64_t written;
	bool zeros; /* known, not loaded */
};

struct local {
	struct codec *codec;
	struct buf raw;
	struct buf there; /* what the target holds already */
};

struct extraction {
	struct archive *a;
	int fd;
	enum archive_output how;
	const char *shown;
	struct task *task;
	struct archive_result result;
	char phase[BACKUP_ID_MAX + 16];

	/* The last chunk found to be nothing but zeros: images repeat it
	 * without end, and it need not be loaded again. */
	pthread_mutex_t lock;
	bool zeros_known;
	struct digest zeros_digest;
	uint64_t zeros_size;
};

static bool is_zero(const uint8_t *p, size_t n)
{
	return n == 0 || (p[0] == 0 && memcmp(p, p + 1, n - 1) == 0);
}

static void local_release(void *ctx, void *arg)
{
	struct local *l = arg;

	(void)ctx;
	if (l == NULL)
		return;
	codec_free(l->codec);
	buf_release(&l->raw);
	buf_release(&l->there);
	free(l);
}

static int local_init(void *ctx, void **ret, struct err *e)
{
	struct local *l = calloc(1, sizeof(*l));
	int rc = 0;

	if (l == NULL)
		return err_nomem(e);
	rc = codec_new(&l->codec, e);
	if (rc < 0) {
		local_release(ctx, l);
		return rc;
	}
	*ret = l;
	return 0;
}

/* Write all but long runs of zeros: the file is new and has holes there. */
static int write_sparse(
    const struct extraction *x, struct slot *s, struct err *e)
{
	const uint8_t *p = s->content.data;
	size_t n = s->content.len;
	size_t begin = 0; /* of what is to be written */
	int rc = 0;

	for (size_t at = 0; at < n && rc == 0; at += HOLE_MIN) {
		size_t len = n - at < HOLE_MIN ? n - at : HOLE_MIN;

		if (!is_zero(p + at, len))
			continue;
		if (at > begin) {
			rc = file_pwrite_fully(x->fd, p + begin, at - begin,
			    s->start + begin, x->shown, e);
			s->written += at - begin;
		}
		begin = at + len;
	}
	if (rc == 0 && begin < n) {
		rc = file_pwrite_fully(
		    x->fd, p + begin, n - begin, s->start + begin, x->shown, e);
		s->written += n - begin;
	}
	return rc;
}

static int write_changed(const struct extraction *x, struct slot *s,
    struct buf *there, struct err *e)
{
	size_t n = s->content.len;
	int rc = 0;

	buf_reset(there);
	rc = buf_reserve(there, n, e);
	if (rc == 0)
		rc = file_pread_exact(
		    x->fd, there->data, n, s->start, x->shown, e);
	if (rc < 0 || memcmp(there->data, s->content.data, n) == 0)
		return rc;
	s->written = n;
	return file_pwrite_fully(
	    x->fd, s->content.data, n, s->start, x->shown, e);
}

static int write_placed(
    const struct extraction *x, struct slot *s, struct local *l, struct err *e)
{
	switch (x->how) {
	case ARCHIVE_SPARSE_FILE:
		return write_sparse(x, s, e);
	case ARCHIVE_OVERWRITE_CHANGED:
		return write_changed(x, s, &l->there, e);
	case ARCHIVE_OVERWRITE:
		s->written = s->content.len;
		return file_pwrite_fully(x->fd, s->content.data, s->content.len,
		    s->start, x->shown, e);
	case ARCHIVE_APPEND:
		break; /* in retire */
	}
	return 0;
}

static bool is_known_zeros(struct extraction *x, const struct slot *s)
{
	bool known = false;

	(void)pthread_mutex_lock(&x->lock);
	known = x->zeros_known && x->zeros_size == s->entry.end - s->start &&
	    digest_equal(&x->zeros_digest, &s->entry.digest);
	(void)pthread_mutex_unlock(&x->lock);
	return known;
}

static void learn_zeros(struct extraction *x, const struct slot *s)
{
	if (!is_zero(s->content.data, s->content.len))
		return;
	(void)pthread_mutex_lock(&x->lock);
	x->zeros_known = true;
	x->zeros_digest = s->entry.digest;
	x->zeros_size = s->content.len;
	(void)pthread_mutex_unlock(&x->lock);
}

/* Say which chunk of which file, and remember it for the next push. */
static int damaged(
    struct extraction *x, const struct slot *s, int rc, struct err *e)
{
	char hex[DIGEST_HEX_SIZE];
	struct err why = ERR_INIT;

	digest_hex(&s->entry.digest, hex);
	err_prefix(
	    e, "'%s': chunk %s at offset %" PRIu64, x->a->shown, hex, s->start);
	if (rc != ERR_NOTFOUND && rc != ERR_CORRUPT)
		return rc;
	e->code = ERR_CORRUPT;
	/* Without .cairn there is no list; a store of others stays as it is. */
	if (x->a->ds->cairn_fd >= 0 &&
	    damage_append(x->a->ds, &s->entry.digest,
		rc == ERR_NOTFOUND ? DAMAGE_MISSING : DAMAGE_BAD, &why) < 0)
		task_message(x->task, TASK_WARNING,
		    "the damage could not be recorded: %s", why.msg);
	return ERR_CORRUPT;
}

static int work(void *ctx, void *local, void *arg, struct err *e)
{
	struct extraction *x = ctx;
	struct slot *s = arg;
	struct local *l = local;
	int rc = task_check(x->task, e);

	if (rc < 0)
		return rc;
	s->written = 0;
	s->zeros = x->how != ARCHIVE_OVERWRITE_CHANGED && is_known_zeros(x, s);
	if (s->zeros && x->how == ARCHIVE_SPARSE_FILE)
		return 0;
	if (s->zeros) {
		size_t n = (size_t)(s->entry.end - s->start);

		buf_reset(&s->content);
		rc = buf_reserve(&s->content, n, e);
		if (rc < 0)
			return rc;
		memset(s->content.data, 0, n);
		s->content.len = n;
		return write_placed(x, s, l, e);
	}
	rc = archive_load_chunk(x->a->ds, l->codec, &s->entry.digest,
	    s->entry.end - s->start, &l->raw, &s->content, e);
	if (rc < 0)
		return damaged(x, s, rc, e);
	learn_zeros(x, s);
	return write_placed(x, s, l, e);
}

static void report(struct extraction *x)
{
	struct task_progress p = {
		.phase = x->phase,
		.unit = TASK_UNIT_BYTES,
		.done = x->result.bytes,
		.total = x->a->size,
	};

	task_progress(x->task, &p);
}

static int retire(void *ctx, void *arg, struct err *e)
{
	struct extraction *x = ctx;
	struct slot *s = arg;
	int rc = 0;

	if (x->how == ARCHIVE_APPEND) {
		rc = file_write_fully(
		    x->fd, s->content.data, s->content.len, x->shown, e);
		s->written = s->content.len;
	}
	if (rc < 0)
		return rc;
	x->result.bytes += s->entry.end - s->start;
	x->result.bytes_written += s->written;
	report(x);
	return 0;
}

/* The whole index first: what is wrong with it is known before a byte goes
 * out, and so is the longest chunk. */
static int survey(
    struct idx *ix, uint64_t *ret_longest, struct task *task, struct err *e)
{
	struct idx_entry *entries = calloc(ENTRIES, sizeof(*entries));
	uint64_t longest = 1;
	uint64_t end = 0;
	size_t n = 0;
	int rc = entries == NULL ? err_nomem(e) : 0;

	while (rc == 0) {
		rc = idx_next(ix, entries, ENTRIES, &n, e);
		if (rc < 0 || n == 0)
			break;
		for (size_t i = 0; i < n; i++) {
			if (entries[i].end - end > longest)
				longest = entries[i].end - end;
			end = entries[i].end;
		}
		rc = task_check(task, e);
	}
	if (rc == 0)
		rc = idx_rewind(ix, e);
	free(entries);
	if (rc < 0)
		return rc;
	*ret_longest = longest;
	return 0;
}

static void plan(uint64_t longest, unsigned *ret_threads, size_t *ret_slots)
{
	unsigned threads = workers_default_threads();

	while (
	    threads > 1 && (4 * (uint64_t)threads + 1) * longest > MEMORY_MAX)
		threads--;
	*ret_threads = threads;
	*ret_slots = 2 * (size_t)threads + 1;
}

static int feed(struct extraction *x, struct workers *w, struct err *e)
{
	struct idx_entry *entries = calloc(ENTRIES, sizeof(*entries));
	uint64_t start = 0;
	size_t n = 0;
	int rc = entries == NULL ? err_nomem(e) : 0;

	while (rc == 0) {
		rc = idx_next(x->a->idx, entries, ENTRIES, &n, e);
		if (rc < 0 || n == 0)
			break;
		for (size_t i = 0; i < n && rc == 0; i++) {
			void *slot = NULL;
			struct slot *s = NULL;

			rc = workers_get(w, &slot, e);
			if (rc < 0)
				break;
			s = slot;
			s->entry = entries[i];
			s->start = start;
			start = entries[i].end;
			workers_submit(w);
		}
	}
	if (rc == 0)
		rc = workers_finish(w, e);
	free(entries);
	return rc;
}

static int run(
    struct extraction *x, unsigned threads, size_t slots_n, struct err *e)
{
	static const struct workers_ops ops = {
		.thread_init = local_init,
		.thread_release = local_release,
		.work = work,
		.retire = retire,
	};
	struct slot *slots = calloc(slots_n, sizeof(*slots));
	void **pointers = calloc(slots_n, sizeof(*pointers));
	struct workers *w = NULL;
	int rc = 0;

	if (slots == NULL || pointers == NULL) {
		rc = err_nomem(e);
		goto out;
	}
	for (size_t i = 0; i < slots_n; i++)
		pointers[i] = &slots[i];
	rc = workers_new(&ops, x, threads, pointers, slots_n, &w, e);
	if (rc == 0)
		rc = feed(x, w, e);
	workers_free(w);
out:
	for (size_t i = 0; slots != NULL && i < slots_n; i++)
		buf_release(&slots[i].content);
	free(slots);
	free(pointers);
	return rc;
}

static int extract_blob(struct extraction *x, struct err *e)
{
	const struct buf *c = &x->a->content;
	int rc = x->how == ARCHIVE_APPEND
	    ? file_write_fully(x->fd, c->data, c->len, x->shown, e)
	    : file_pwrite_fully(x->fd, c->data, c->len, 0, x->shown, e);

	if (rc < 0)
		return rc;
	x->result.bytes = c->len;
	x->result.bytes_written = c->len;
	return 0;
}

static int extract_index(struct extraction *x, struct err *e)
{
	uint64_t longest = 0;
	unsigned threads = 0;
	size_t slots = 0;
	int rc = survey(x->a->idx, &longest, x->task, e);

	if (rc < 0)
		return rc;
	plan(longest, &threads, &slots);
	return run(x, threads, slots, e);
}

int archive_extract(struct archive *a, int fd, enum archive_output how,
    const char *shown, struct task *task, struct archive_result *ret,
    struct err *e)
{
	struct extraction x = {
		.a = a, .fd = fd, .how = how, .shown = shown, .task = task
	};
	int rc = 0;

	(void)snprintf(x.phase, sizeof(x.phase), "restore %s", a->filename);
	if (how == ARCHIVE_SPARSE_FILE &&
	    sysio_ftruncate(fd, (off_t)a->size) < 0)
		return err_sys(e, "'%s'", shown);
	if (pthread_mutex_init(&x.lock, NULL) != 0)
		return err_nomem(e);
	rc = a->kind == BACKUP_FILE_BLOB ? extract_blob(&x, e)
					 : extract_index(&x, e);
	(void)pthread_mutex_destroy(&x.lock);
	if (rc < 0)
		return rc;
	*ret = x.result;
	return 0;
}
