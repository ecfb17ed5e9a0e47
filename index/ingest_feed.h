/* SPDX-License-Identifier: MIT */
/*
 * ingest_feed: a stream of content-defined chunks that its owner puts together
 * and may cut where he likes.
 *
 * Like ingest_stream (same chunks of the same bytes, same pipeline, memory and
 * progress), but the bytes are handed over.  One thread; several feeds at a
 * time would each take ingest_stream's memory.
 */
#ifndef CAIRN_INDEX_INGEST_FEED_H
#define CAIRN_INDEX_INGEST_FEED_H

#include <stddef.h>
#include <stdint.h>

#include "datastore/base/err.h"
#include "datastore/base/task.h"
#include "datastore/session.h"
#include "index/ingest.h"

struct ingest_feed;

/*
 * filename ends in ".didx".  total: bytes that will come, for the progress; 0:
 * unknown.  opts may be NULL.
 */
int ingest_feed_new(struct session *s, const char *filename, uint64_t total,
    const struct ingest_opts *opts, struct task *task, struct ingest_feed **ret,
    struct err *e);
void ingest_feed_free(struct ingest_feed *f); /* NULL is allowed */

/* Counts to show with the progress, at most INGEST_FEED_COUNTS_MAX; they stay
 * the owner's, who changes them as he goes on. */
#define INGEST_FEED_COUNTS_MAX 4U
void ingest_feed_counts(
    struct ingest_feed *f, const struct task_count *counts, size_t n);

uint64_t ingest_feed_size(const struct ingest_feed *f); /* bytes appended */

/* The next bytes, which are copied.  Checks the task, keeps the session
 * alive. */
int ingest_feed_append(
    struct ingest_feed *f, const void *p, size_t n, struct err *e);
/*
 * A forced cut: what is appended next begins a chunk.  That of before may be
 * shorter than any other; nothing happens where a chunk begins anyway.
 */
int ingest_feed_cut(struct ingest_feed *f, struct err *e);

/* While there is nothing to append, twice a second (ingest_reader.idle): what
 * became of the last chunks, is the task to stop, does the session live? */
int ingest_feed_idle(void *feed, struct err *e);

/* All is in the index and that is the session's.  Fills all of *ret but
 * hole_bytes and changed. */
int ingest_feed_finish(
    struct ingest_feed *f, struct ingest_result *ret, struct err *e);

#endif
