/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "datastore/base/workers.h"
#include "datastore/store_fs_internal.h"

/*
 * From this many chunks on it pays to open their directory: to open and close
 * it takes as long as to look up its name that often.
 */
#define OPEN_FROM 24U

/* Touches of one piece of work: alone, and in each of several threads.  A
 * piece ends with its prefix where that is not far. */
#define PIECE_ALONE 64U
#define PIECE_TOGETHER 32U
#define PIECE_MAX 128U

/* Pieces per thread, so that none waits for the one that retires them. */
#define PIECES_PER_THREAD 3U

/*
 * Touches into directories that were visited before, of which one in so many
 * waits: memory does not hold the directories.  Of those that do not wait for
 * them some wait for a block of inodes, or for the journal.
 */
#define AGAIN_WINDOW 512U
#define AGAIN_WAITS 4U

#define BAD_SUFFIX ".0.bad"
#define BAD_DIGIT_AT 1

/*
 * A mark that fails ends a GC run, so its message has to be enough to act on:
 * whose the file is, and what makes it the store's.
 */
static int explain_touch(
    const struct store_fs *s, const char *rel, struct err *e)
{
	char shown[STORE_SHOWN_SIZE];
	struct err ignored = ERR_INIT;
	struct statx st;
	bool found = false;
	int error = e->sys_errno;

	store_fs_shown(s, rel, shown);
	if (e->code != ERR_SYS) {
		err_prefix(e, "touch '%s'", shown);
		return e->code;
	}
	if (!store_fs_is_denied(e) ||
	    file_stat_at(s->chunks_fd, rel, &st, &found, shown, &ignored) < 0 ||
	    !found) {
		errno = error;
		return err_sys(e, "touch '%s'", shown);
	}
	errno = error;
	return err_sys(e,
	    "touch '%s', which belongs to %u:%u, not to %u:%u (as root: chown "
	    "-R %u:%u '%s')",
	    shown, st.stx_uid, st.stx_gid, s->chunks_st.stx_uid,
	    s->chunks_st.stx_gid, s->chunks_st.stx_uid, s->chunks_st.stx_gid,
	    s->shown);
}

/*
 * Mark one chunk.  dirfd is .chunks or the chunk's prefix directory.  No lock:
 * whoever removes chunks is the one who marks.
 */
static int touch_at(struct store_fs *s, int dirfd, const struct digest *d,
    enum store_touched *ret, struct err *e)
{
	char rel[STORE_CHUNK_PATH_SIZE + sizeof(BAD_SUFFIX)];
	const char *name =
	    dirfd == s->chunks_fd ? rel : rel + STORE_PREFIX_SIZE;
	char *suffix = rel + STORE_CHUNK_PATH_SIZE - 1;
	enum store_touched what = STORE_TOUCHED;
	bool found = false;
	int rc = 0;

	store_chunk_path(d, rel);
	rc = file_touch_at(dirfd, name, &found, rel, e);
	if (rc < 0)
		return explain_touch(s, rel, e);
	if (!found) {
		what = STORE_MISSING;
		memcpy(suffix, BAD_SUFFIX, sizeof(BAD_SUFFIX));
		for (unsigned i = 0; i < STORE_BAD_COPIES; i++) {
			suffix[BAD_DIGIT_AT] = (char)('0' + i);
			rc = file_touch_at(dirfd, name, &found, rel, e);
			if (rc < 0)
				return explain_touch(s, rel, e);
			if (found)
				what = STORE_ONLY_BAD;
		}
	}
	*ret = what;
	return 0;
}

int store_fs_touch(struct store *base, const struct digest *d,
    enum store_touched *ret, struct err *e)
{
	struct store_fs *s = store_fs_of(base);
	bool found = false;
	int rc = store_fs_check_prefix(s, digest_prefix(d), &found, e);

	if (rc < 0)
		return rc;
	if (!found) {
		*ret = STORE_MISSING;
		return 0;
	}
	return touch_at(s, s->chunks_fd, d, ret, e);
}

/* A batch as it is touched. */
struct touching {
	struct store_fs *s;
	const struct store_batch *b;
	store_touch_fn fn;
	void *ctx;
	struct task *task;
	/* Is it found out whether directories stay in memory?  Then which ones
	 * were visited by several threads, and what was seen of that. */
	bool watched;
	uint64_t visited[STORE_PREFIXES / 64];
	unsigned again;
	unsigned again_waited;
};

/* A piece of it: numbers first .. first + n - 1, of which `done` are. */
struct piece {
	size_t first;
	size_t n;
	size_t done;
	struct err err; /* of the one behind those */
	struct pace_piece cost;
	/* Where it is watched: a bit per touch into a directory that was
	 * visited before; how many there were, and how many of them waited. */
	uint64_t again[PIECE_MAX / 64];
	unsigned again_n;
	unsigned again_waited;
	uint8_t what[PIECE_MAX]; /* enum store_touched */
};

static unsigned prefix_at(const struct touching *t, size_t i)
{
	return digest_prefix(store_batch_at(t->b, i));
}

/* Some of a piece, all of one prefix. */
static int touch_prefix(
    struct touching *t, struct piece *p, size_t n, struct err *e)
{
	enum store_touched what = STORE_MISSING;
	size_t first = p->first + p->done;
	unsigned prefix = prefix_at(t, first);
	bool found = false;
	int dirfd = t->s->chunks_fd;
	int fd = -1;
	int rc = 0;

	if (n >= OPEN_FROM) {
		rc = store_fs_open_prefix(t->s, prefix, false, &fd, e);
		found = fd >= 0;
		dirfd = fd;
	} else {
		rc = store_fs_check_prefix(t->s, prefix, &found, e);
	}
	for (size_t i = 0; rc == 0 && i < n; i++) {
		rc = task_check(t->task, e);
		if (rc == 0 && found)
			rc = touch_at(t->s, dirfd,
			    store_batch_at(t->b, first + i), &what, e);
		if (rc == 0)
			p->what[p->done++] = (uint8_t)what;
	}
	file_close(&fd);
	return rc;
}

/* The same, and see whether it waits. */
static int touch_watched(
    struct touching *t, struct piece *p, size_t n, struct err *e)
{
	bool again = (p->again[p->done / 64] >> p->done % 64 & 1) != 0;
	struct pace_clock clock;
	int rc = 0;

	if (!again)
		return touch_prefix(t, p, n, e);
	pace_begin(&clock);
	rc = touch_prefix(t, p, n, e);
	p->again_n++;
	p->again_waited += pace_end(&clock, n).waited_ns > 0;
	return rc;
}

/*
 * Touch a piece, in any thread.  What fails is told when its turn comes: so
 * the caller hears of everything before it first.
 */
static int work(void *ctx, void *local, void *slot, struct err *e)
{
	struct touching *t = ctx;
	struct piece *p = slot;
	struct pace_clock clock;
	int rc = 0;

	(void)local;
	(void)e;
	p->done = 0;
	p->again_n = 0;
	p->again_waited = 0;
	p->err = (struct err)ERR_INIT;
	pace_begin(&clock);
	while (rc == 0 && p->done < p->n) {
		size_t end = p->done + 1;

		while (end < p->n &&
		    prefix_at(t, p->first + end) ==
			prefix_at(t, p->first + p->done))
			end++;
		rc = t->watched ? touch_watched(t, p, end - p->done, &p->err)
				: touch_prefix(t, p, end - p->done, &p->err);
	}
	p->cost = pace_end(&clock, p->done);
	return 0;
}

/* Do directories stay in memory, so that any order is as good? */
static void judge_memory(struct touching *t, const struct piece *p)
{
	t->again += p->again_n;
	t->again_waited += p->again_waited;
	if (t->again < AGAIN_WINDOW)
		return;
	if (t->again_waited >= t->again / AGAIN_WAITS)
		t->s->rereads = true;
	t->again = 0;
	t->again_waited = 0;
}

/* In the caller's thread, piece by piece in order. */
static int retire(void *ctx, void *slot, struct err *e)
{
	struct touching *t = ctx;
	struct piece *p = slot;

	for (size_t i = 0; i < p->done; i++) {
		int rc = t->fn(t->ctx, store_batch_at(t->b, p->first + i),
		    (enum store_touched)p->what[i], e);

		if (rc < 0)
			return rc;
	}
	if (p->err.code != ERR_OK) {
		*e = p->err;
		return e->code;
	}
	pace_note(&t->s->pace, &p->cost, clock_boot_ns());
	judge_memory(t, p);
	return 0;
}

/* The piece that begins with `first`, of about `want` touches. */
static void cut(
    const struct touching *t, size_t first, size_t want, struct piece *p)
{
	size_t left = t->b->todo - first;
	size_t most = 2 * want < left ? 2 * want : left;
	size_t n = want < left ? want : left;

	while (
	    n < most && prefix_at(t, first + n) == prefix_at(t, first + n - 1))
		n++;
	p->first = first;
	p->n = n;
}

/* Which of a piece go to a directory that was visited before? */
static void note_visits(struct touching *t, struct piece *p)
{
	memset(p->again, 0, sizeof(p->again));
	for (size_t i = 0; i < p->n; i++) {
		unsigned prefix = prefix_at(t, p->first + i);
		uint64_t *word = &t->visited[prefix / 64];
		uint64_t bit = UINT64_C(1) << prefix % 64;

		if ((*word & bit) != 0)
			p->again[i / 64] |= UINT64_C(1) << i % 64;
		*word |= bit;
	}
}

/* Until another number of threads is better; *first moves on. */
static int touch_alone(struct touching *t, size_t *first, struct err *e)
{
	/* None of it is watched: that would take longer than a touch that does
	 * not wait. */
	struct piece p = { .n = 0 };
	int rc = 0;

	while (rc == 0 && *first < t->b->todo && t->s->pace.threads == 1) {
		cut(t, *first, PIECE_ALONE, &p);
		(void)work(t, NULL, &p, e);
		rc = retire(t, &p, e);
		*first += p.n;
	}
	return rc;
}

static const struct workers_ops touch_ops = {
	.work = work,
	.retire = retire,
};

/* Directories are read again and again: visit each once. */
static bool is_out_of_order(const struct touching *t)
{
	return t->watched && t->s->rereads;
}

static int touch_with(
    struct touching *t, struct workers *w, size_t *first, struct err *e)
{
	unsigned threads = t->s->pace.threads;
	void *slot = NULL;
	int rc = 0;

	while (rc == 0 && *first < t->b->todo &&
	    t->s->pace.threads == threads && !is_out_of_order(t)) {
		rc = workers_get(w, &slot, e);
		if (rc < 0)
			break;
		cut(t, *first, PIECE_TOGETHER, slot);
		if (t->watched)
			note_visits(t, slot);
		*first += ((const struct piece *)slot)->n;
		workers_submit(w);
	}
	return rc < 0 ? rc : workers_finish(w, e);
}

/* The same with several threads. */
static int touch_together(struct touching *t, size_t *first, struct err *e)
{
	unsigned threads = t->s->pace.threads;
	size_t n = (size_t)threads * PIECES_PER_THREAD;
	struct piece *pieces = calloc(n, sizeof(*pieces));
	void **slots = calloc(n, sizeof(*slots));
	struct workers *w = NULL;
	struct err why = ERR_INIT;
	int rc = 0;

	for (size_t i = 0; pieces != NULL && slots != NULL && i < n; i++)
		slots[i] = &pieces[i];
	if (pieces == NULL || slots == NULL ||
	    workers_new(&touch_ops, t, threads, slots, n, &w, &why) < 0) {
		/* One can do it as well. */
		pace_limit(&t->s->pace, 1);
	} else {
		pace_pause(&t->s->pace);
		rc = touch_with(t, w, first, e);
		pace_pause(&t->s->pace);
	}
	workers_free(w);
	free(slots);
	free(pieces);
	return rc;
}

int store_fs_touch_batch(struct store *base, const struct store_batch *b,
    size_t first, store_touch_fn fn, void *ctx, struct task *task,
    struct err *e)
{
	struct touching t = {
		.s = store_fs_of(base),
		.b = b,
		.fn = fn,
		.ctx = ctx,
		.task = task,
	};
	int rc = 0;

	t.watched = t.s->as_met && !t.s->by_inode;
	pace_pause(&t.s->pace);
	while (rc == 0 && first < b->todo) {
		if (t.s->pace.threads == 1) {
			rc = touch_alone(&t, &first, e);
			continue;
		}
		if (is_out_of_order(&t)) {
			t.watched = false;
			t.s->as_met = false;
			store_fs_order_by_prefix(b, first);
		}
		rc = touch_together(&t, &first, e);
	}
	return rc;
}

void store_fs_pace(struct store *base, struct store_pace *ret)
{
	const struct store_fs *s = store_fs_of(base);
	const struct pace_piece *total = &s->pace.total;

	*ret = (struct store_pace){
		.calls = total->calls,
		.call_ns = total->calls == 0
		    ? 0
		    : total->took_ns / (int64_t)total->calls,
		.threads = pace_mostly(&s->pace),
		.by_inode = s->ranked,
	};
}
