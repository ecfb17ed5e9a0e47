/* SPDX-License-Identifier: MIT */
/*
 * mark: rounds of listing and reading until every root was read (I4).
 *
 * A round: tree lock exclusive, list, release; read what was not read; flush.
 * A file counts as read if this very file (path, inode, ctime, header uuid)
 * was read whole.  Done when everything that one listing showed was read and
 * nothing listed vanished unread; at least two listings.  From the 4th round
 * on the prune lock is held, too, until the round's files are read.
 *
 * What is done with a digest is the caller's: touched (a real run) or
 * collected (a dry run, or where touching is impossible).
 */
#ifndef CAIRN_GC_MARK_H
#define CAIRN_GC_MARK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "datastore/backupid.h"
#include "datastore/base/digest.h"
#include "datastore/base/err.h"
#include "datastore/base/task.h"
#include "datastore/datastore.h"
#include "gc/listing.h"
#include "index/idxformat.h"

/* A root that was read whole. */
struct mark_root {
	char *path;
	uint64_t inode;
	filetime ctime;
	uint8_t uuid[IDX_UUID_SIZE];
	uint64_t entries;
	uint64_t data_bytes;
};

struct mark_counts {
	uint64_t files_total;
	uint64_t files_read;
	uint64_t references_total; /* by the file sizes of what is listed */
	uint64_t references_read;
	uint64_t data_bytes;
	uint32_t rounds;
	uint32_t left_overs;
};

struct mark_sink {
	int (*add)(void *ctx, const struct digest *d, struct err *e);
	int (*flush)(void *ctx, struct err *e); /* end of a round */
	void (*progress)(void *ctx, const struct mark_counts *counts);
	void *ctx;
};

struct mark_opts {
	bool locks; /* false in a dry run: none is taken */
	filetime left_over_cutoff;
	const struct backup_snapshot *ignore;
	size_t ignore_n;
};

struct mark {
	struct mark_root *roots; /* sorted by path */
	size_t roots_n;
	size_t roots_cap;
	struct mark_counts counts;
};
#define MARK_INIT { .roots = NULL, .roots_n = 0, .roots_cap = 0 }

/*
 * Findings of kind fatal do not end it: it goes on to find them all.  Returns
 * an error only where nothing more can be learned (cancelled, a lock that is
 * not to be had: ERR_BUSY, a sink that failed).
 */
int mark_run(struct datastore *ds, const struct mark_opts *opts,
    const struct mark_sink *sink, struct findings *findings,
    struct task *task, struct mark *m, struct err *e);
void mark_release(struct mark *m);

/*
 * Read the roots again and report each reference to one of these digests
 * (sorted): for messages that name the index file of a missing chunk.
 */
int mark_find_references(struct datastore *ds, const struct mark *m,
    const struct digest *digests, size_t n,
    void (*fn)(void *ctx, const struct digest *d, const char *path),
    void *ctx, struct task *task, struct err *e);

#endif
