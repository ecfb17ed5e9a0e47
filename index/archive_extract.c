/* SPDX-License-Identifier: MIT */
/*
 * archive_extract: chunks loaded and checked by the workers, written by them
 * where the place is known, or by the owner, in order, where it is a stream.
 */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "datastore/base/bytes.h"
#include "datastore/base/file.h"
#include "datastore/base/sysio.h"
#include "datastore/base/workers.h"
#include "datastore/blob.h"
#include "datastore/damage.h"
#include "datastore/digestset.h"
#include "index/archive_internal.h"

/* A chunk's file may be longer than an honest one: as many of 16 MiB. */
#define THREADS_MAX 8U

/* What is left out or compared at a time.  A hole per 4 KiB would cost more
 * than it saves. */
#define BLOCK ((size_t)64 << 10)

#define ENTRIES 1024 /* read from the index at a time */

#define FILE_PIECE ((size_t)1 << 20) /* of archive_of_file, at a time */

/* How long a signal to stop may go unseen that came just before the wait. */
#define WAIT_MS 500

struct slot {
	struct idx_entry entry;
	uint64_t start;
	struct buf content;
	uint64_t written;
	bool gap;       /* it could not be had: */
	struct err why; /* this is the reason */
};

struct local {
	struct archive_loader loader;
	struct buf there; /* what the target holds already */
};

struct extraction {
	struct archive *a;
	int fd;
	enum archive_output how;
	const char *shown;
	struct task *task;
	bool waits; /* a write to fd may have to wait for its reader */
	struct archive_result result;
	char phase[BACKUP_ID_MAX + 16];

	pthread_mutex_t lock; /* of all below */
	/* The last chunk found to be nothing but zeros: images repeat it
	 * without end, and it need not be loaded again. */
	bool zeros_known;
	struct digest zeros_digest;
	uint64_t zeros_size;
	/* On the damage list: once is enough. */
	struct digestset recorded;
};

static void local_release(void *ctx, void *arg)
{
	struct local *l = arg;

	(void)ctx;
	if (l == NULL)
		return;
	codec_free(l->loader.codec);
	buf_release(&l->loader.raw);
	buf_release(&l->there);
	free(l);
}

static int local_init(void *ctx, void **ret, struct err *e)
{
	struct local *l = calloc(1, sizeof(*l));
	int rc = 0;

	if (l == NULL)
		return err_nomem(e);
	rc = codec_new(&l->loader.codec, e);
	if (rc < 0) {
		local_release(ctx, l);
		return rc;
	}
	*ret = l;
	return 0;
}

static int write_range(const struct extraction *x, struct slot *s, size_t from,
    size_t to, struct err *e)
{
	if (from == to)
		return 0;
	s->written += to - from;
	return file_pwrite_fully(x->fd, s->content.data + from, to - from,
	    s->start + from, x->shown, e);
}

/* All but the blocks that `there` has already; NULL: a new file, which has
 * nothing but zeros. */
static int write_blocks(const struct extraction *x, struct slot *s,
    const uint8_t *there, struct err *e)
{
	const uint8_t *p = s->content.data;
	size_t n = s->content.len;
	size_t begin = 0; /* of what is to be written */
	int rc = 0;

	for (size_t at = 0; at < n && rc == 0; at += BLOCK) {
		size_t len = n - at < BLOCK ? n - at : BLOCK;
		bool same = there == NULL
		    ? bytes_are_zero(p + at, len)
		    : memcmp(p + at, there + at, len) == 0;

		if (!same)
			continue;
		rc = write_range(x, s, begin, at, e);
		begin = at + len;
	}
	return rc < 0 ? rc : write_range(x, s, begin, n, e);
}

static int write_changed(const struct extraction *x, struct slot *s,
    struct buf *there, struct err *e)
{
	size_t n = s->content.len;
	struct err why = ERR_INIT;
	int rc = 0;

	buf_reset(there);
	rc = buf_reserve(there, n, e);
	if (rc < 0)
		return rc;
	rc = file_pread_exact(x->fd, there->data, n, s->start, x->shown, &why);
	if (rc == ERR_CORRUPT) /* it ends before: nothing to compare with */
		return write_range(x, s, 0, n, e);
	if (rc < 0) {
		*e = why;
		return rc;
	}
	return write_blocks(x, s, there->data, e);
}

static int write_placed(const struct extraction *x, struct slot *s,
    struct buf *there, struct err *e)
{
	switch (x->how) {
	case ARCHIVE_SPARSE_FILE:
		return write_blocks(x, s, NULL, e);
	case ARCHIVE_OVERWRITE_CHANGED:
		return write_changed(x, s, there, e);
	case ARCHIVE_OVERWRITE:
		return write_range(x, s, 0, s->content.len, e);
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
	if (!bytes_are_zero(s->content.data, s->content.len))
		return;
	(void)pthread_mutex_lock(&x->lock);
	x->zeros_known = true;
	x->zeros_digest = s->entry.digest;
	x->zeros_size = s->content.len;
	(void)pthread_mutex_unlock(&x->lock);
}

/* Remember it for the next push; the stream is lost either way. */
static void record(
    struct extraction *x, const struct digest *d, enum damage_state state)
{
	struct err why = ERR_INIT;
	bool added = false;
	int rc = 0;

	/* Without .cairn there is no list; a store of others stays as it is. */
	if (x->a->ds->cairn_fd < 0)
		return;
	(void)pthread_mutex_lock(&x->lock);
	rc = digestset_add(&x->recorded, d, &added, &why);
	(void)pthread_mutex_unlock(&x->lock);
	if (rc == 0 && added)
		rc = damage_append(x->a->ds, d, state, &why);
	if (rc < 0) {
		task_message(x->task, TASK_WARNING,
		    "the damage could not be recorded: %s", why.msg);
	}
}

/* Say which chunk of which file. */
static int damaged(
    struct extraction *x, const struct slot *s, int rc, bool bad, struct err *e)
{
	char hex[DIGEST_HEX_SIZE];

	digest_hex(&s->entry.digest, hex);
	err_prefix(
	    e, "'%s': chunk %s at offset %" PRIu64, x->a->shown, hex, s->start);
	if (rc == ERR_NOTFOUND) {
		record(x, &s->entry.digest, DAMAGE_MISSING);
	} else if (rc == ERR_CORRUPT && bad) {
		record(x, &s->entry.digest, DAMAGE_BAD);
	}
	if (rc == ERR_NOTFOUND)
		e->code = rc = ERR_CORRUPT;
	return rc;
}

static int make_zeros(struct slot *s, struct err *e)
{
	size_t n = (size_t)(s->entry.end - s->start);
	int rc = 0;

	buf_reset(&s->content);
	rc = buf_reserve(&s->content, n, e);
	if (rc < 0)
		return rc;
	memset(s->content.data, 0, n);
	s->content.len = n;
	return 0;
}

/* Is it the chunk's failure, and is that wanted to be passed over? */
static bool is_gap(const struct extraction *x, const struct err *e)
{
	return x->a->gaps != NULL &&
	    (e->code == ERR_CORRUPT || err_is_sys(e, EIO));
}

/* What is written in place keeps its own bytes there: no others may be left. */
static int leave_gap(const struct extraction *x, struct slot *s, struct err *e)
{
	s->gap = true;
	s->why = *e;
	(void)err_forget(e);
	buf_reset(&s->content);
	return x->how == ARCHIVE_APPEND ? make_zeros(s, e) : 0;
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
	s->gap = false;
	if (is_known_zeros(x, s)) {
		if (x->how == ARCHIVE_SPARSE_FILE)
			return 0;
		rc = make_zeros(s, e);
		return rc < 0 ? rc : write_placed(x, s, &l->there, e);
	}
	rc = archive_load_chunk(x->a->ds, &l->loader, &s->entry.digest,
	    s->entry.end - s->start, &s->content, e);
	if (rc < 0) {
		rc = damaged(x, s, rc, l->loader.bad, e);
		return is_gap(x, e) ? leave_gap(x, s, e) : rc;
	}
	learn_zeros(x, s);
	return write_placed(x, s, &l->there, e);
}

/* *ret_ready false: whoever reads has not read enough yet. */
static int wait_for_room(
    const struct extraction *x, bool *ret_ready, struct err *e)
{
	struct pollfd fds = { .fd = x->fd, .events = POLLOUT };
	int rc = 1;

	if (x->waits)
		rc = sysio_poll(&fds, 1, WAIT_MS);
	if (rc < 0 && errno != EINTR)
		return err_sys(e, "wait for '%s'", x->shown);
	/* That the other end is closed is for write to tell. */
	*ret_ready = rc > 0;
	return 0;
}

/* Write in order, but never where it would block for good: what is ready
 * takes PIPE_BUF bytes. */
static int append(
    const struct extraction *x, const uint8_t *p, size_t n, struct err *e)
{
	while (n > 0) {
		size_t piece = x->waits && n > PIPE_BUF ? PIPE_BUF : n;
		bool ready = false;
		ssize_t r = -1;
		int rc = task_check(x->task, e);

		if (rc == 0)
			rc = wait_for_room(x, &ready, e);
		if (rc < 0)
			return rc;
		if (!ready)
			continue;
		r = sysio_write(x->fd, p, piece);
		if (r < 0 && (errno == EINTR || errno == EAGAIN))
			continue;
		/* It takes nothing and names no reason. */
		if (r == 0)
			errno = EIO;
		if (r <= 0)
			return err_sys(e, "write '%s'", x->shown);
		p += r;
		n -= (size_t)r;
	}
	return 0;
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
		rc = append(x, s->content.data, s->content.len, e);
		s->written = s->content.len;
	}
	if (rc < 0)
		return rc;
	if (s->gap)
		x->a->gaps->fn(
		    x->a->gaps->ctx, s->start, s->entry.end, &s->why);
	x->result.bytes += s->entry.end - s->start;
	x->result.bytes_written += s->written;
	report(x);
	return 0;
}

void archive_plan(
    uint64_t longest, unsigned cpus, unsigned *ret_threads, size_t *ret_slots)
{
	unsigned threads = cpus < THREADS_MAX ? cpus : THREADS_MAX;

	while (threads > 1 &&
	    (4 * (uint64_t)threads + 1) * longest > ARCHIVE_MEMORY_MAX)
		threads--;
	*ret_threads = threads;
	*ret_slots = 2 * (size_t)threads + 1;
}

static int feed(struct extraction *x, struct workers *w, struct err *e)
{
	struct idx_entry *entries = calloc(ENTRIES, sizeof(*entries));
	uint64_t start = 0;
	size_t n = 0;
	int rc = 0;

	if (entries == NULL)
		return err_nomem(e);
	rc = idx_rewind(x->a->idx, e);
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
	/* The content is borrowed. */
	struct slot s = { .content = x->a->content, .entry.end = x->a->size };
	struct buf there = BUF_INIT;
	int rc = x->how == ARCHIVE_APPEND ? 0 : write_placed(x, &s, &there, e);

	if (rc == 0)
		rc = retire(x, &s, e);
	buf_release(&there);
	return rc;
}

static int extract_file(struct extraction *x, struct err *e)
{
	struct slot s = { .start = 0 };
	struct buf there = BUF_INIT;
	int rc = 0;

	while (rc == 0 && s.start < x->a->size) {
		uint64_t left = x->a->size - s.start;
		size_t n = left < FILE_PIECE ? (size_t)left : FILE_PIECE;

		buf_reset(&s.content);
		rc = buf_reserve(&s.content, n, e);
		if (rc == 0)
			rc = file_pread_exact(x->a->fd, s.content.data, n,
			    s.start, x->a->shown, e);
		s.content.len = n;
		s.entry.end = s.start + n;
		s.written = 0;
		if (rc == 0)
			rc = task_check(x->task, e);
		if (rc == 0 && x->how != ARCHIVE_APPEND)
			rc = write_placed(x, &s, &there, e);
		if (rc == 0)
			rc = retire(x, &s, e);
		s.start += n;
	}
	buf_release(&s.content);
	buf_release(&there);
	return rc;
}

static int extract_index(struct extraction *x, struct err *e)
{
	unsigned threads = 0;
	size_t slots = 0;

	archive_plan(
	    x->a->longest, workers_default_threads(), &threads, &slots);
	return run(x, threads, slots, e);
}

/* Whatever is wrong with the index or the target is known now. */
static int prepare(struct extraction *x, struct err *e)
{
	struct statx st = { .stx_mask = 0 };
	int rc = archive_check(x->a, x->task, e);

	if (rc == 0)
		rc = task_check(x->task, e);
	if (rc == 0)
		rc = file_stat_fd(x->fd, &st, x->shown, e);
	if (rc < 0)
		return rc;
	x->waits = !S_ISREG(st.stx_mode) && !S_ISBLK(st.stx_mode);
	if (x->how == ARCHIVE_SPARSE_FILE &&
	    sysio_ftruncate(x->fd, (off_t)x->a->size) < 0)
		return err_sys(e, "set the size of '%s'", x->shown);
	return 0;
}

int archive_extract(struct archive *a, int fd, enum archive_output how,
    const char *shown, struct task *task, struct archive_result *ret,
    struct err *e)
{
	struct extraction x = {
		.a = a, .fd = fd, .how = how, .shown = shown, .task = task
	};
	int rc = prepare(&x, e);

	if (rc < 0)
		return rc;
	/* As a person names it: without the suffix, which all have. */
	(void)snprintf(x.phase, sizeof(x.phase), "restore %.*s",
	    (int)(strrchr(a->filename, '.') - a->filename), a->filename);
	if (pthread_mutex_init(&x.lock, NULL) != 0)
		return err_nomem(e);
	if (a->fd >= 0)
		rc = extract_file(&x, e);
	else
		rc = a->kind == BACKUP_FILE_BLOB ? extract_blob(&x, e)
						 : extract_index(&x, e);
	(void)pthread_mutex_destroy(&x.lock);
	digestset_release(&x.recorded);
	if (rc < 0)
		return rc;
	*ret = x.result;
	return 0;
}
