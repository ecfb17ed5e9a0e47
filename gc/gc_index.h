/* SPDX-License-Identifier: MIT */
/*
 * gc_index: garbage collection by the chunk index (chunkidx.h).
 *
 * The index decides nothing alone.  What it says is there and referenced gets
 * a bit instead of a touch; what has no bit is a candidate, and a candidate
 * goes only if (1) no index file references its digest when all are read once
 * more, and (2) under the lock of its prefix its access time and its change
 * time are both before the cutoff.  A page that lies makes a chunk a candidate
 * that is needed: (1) keeps it.  A session that uses a chunk touches it: (2)
 * keeps it.  The removal is noted before it is made (R5).
 *
 * Files: gc_index.c, gc_candidates.c.
 */
#ifndef CAIRN_GC_GC_INDEX_H
#define CAIRN_GC_GC_INDEX_H

#include "gc/sweep.h"
#include "index/chunkidx.h"

struct gc_run;

/* Decide whether this run goes by the index, and say so.  No index, or one
 * that can not be used, is no error. */
int gc_index_begin(struct gc_run *run, struct err *e);
/* Would a run that began now go by it?  For a dry one. */
int gc_index_would(struct gc_run *run, bool *ret, struct err *e);
bool gc_index_marks(const struct gc_run *run);
void gc_index_release(struct gc_run *run);

/* For touch_hooks.known. */
int gc_index_known(
    void *ctx, struct digest *d, size_t n, size_t *ret_left, struct err *e);

/* After the mark: a chunk that it says is there is missing. */
bool gc_index_is_wrong(struct gc_run *run);
/* Then: go on without it. */
void gc_index_drop_marks(struct gc_run *run);
/* The run goes by sets instead. */
void gc_index_forget(struct gc_run *run);
/* What is in use, for the result. */
void gc_index_count(struct gc_run *run);

/* Before the first unlink of a run that does not note each: the index is not
 * true from here on. */
int gc_index_before_unlink(struct gc_run *run, struct err *e);

/* While a run without the index sweeps: a new base.  For sweep_opts.seen. */
void gc_index_build_begin(struct gc_run *run);
int gc_index_seen(void *ctx, const struct store_entry *entry, struct err *e);
void gc_index_removed(struct gc_run *run, const struct store_victim *v);
void gc_index_build_end(struct gc_run *run, const char *upid);

/* The run ends well; before `.gc-status` has this upid, and when it has. */
void gc_index_note(struct gc_run *run, const char *upid, bool settled);

/* gc_candidates.c */

/* The index, and a bit for each rank that is marked. */
struct chunkidx *gc_index_of(struct gc_run *run, const uint64_t **ret_marks);

/* Count what has no mark: for vanished roots. */
int gc_candidates_count(struct gc_run *run, uint64_t *ret_chunks,
    uint64_t *ret_would_go, struct err *e);
/* Read all index files again, remove what is still a candidate.  opts: as
 * for a sweep of everything. */
int gc_candidates_sweep(
    struct gc_run *run, const struct sweep_opts *opts, struct err *e);

#endif
