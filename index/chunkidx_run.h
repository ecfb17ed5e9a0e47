/* SPDX-License-Identifier: MIT */
/*
 * chunkidx_run: what a command learns of chunks, gathered and written as runs
 * of the chunk index.
 *
 * Nothing depends on it: what can not be recorded is dropped, which costs the
 * next garbage collection a touch for each chunk.  So nothing here fails but
 * for lack of memory at its beginning, and nothing waits for another process.
 *
 * chunkrun_add is thread-safe.  Memory: 40 bytes for each entry that is not
 * written yet, at most 262,144 of them.
 */
#ifndef CAIRN_INDEX_CHUNKIDX_RUN_H
#define CAIRN_INDEX_CHUNKIDX_RUN_H

#include "datastore/datastore.h"
#include "index/cixformat.h"

struct chunkrun;

#define CHUNKRUN_MAX 262144U

/* Where there is no chunk index, all that is added is dropped. */
int chunkrun_new(struct datastore *ds, struct chunkrun **ret, struct err *e);
void chunkrun_add(struct chunkrun *r, const struct cix_entry *x);
/* For session_opts.stored: ctx is a chunkrun. */
void chunkrun_stored(void *ctx, const struct digest *d, uint64_t bytes);
/* Write what was gathered.  Why something was dropped, if it was; else "". */
const char *chunkrun_commit(struct chunkrun *r);
/* What was not committed is dropped.  NULL is allowed. */
void chunkrun_free(struct chunkrun *r);

#endif
