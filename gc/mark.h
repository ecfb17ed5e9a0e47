/* SPDX-License-Identifier: MIT */
/*
 * mark: rounds of listing and reading until every root was read (I4).
 *
 * A round: tree lock exclusive, list, release; read what was not read; flush.
 * A file counts as read if this very file (path, device, inode, ctime, header
 * uuid) was read whole.  Done when everything that one listing showed was read
 * and nothing listed vanished unread; at least two listings.  From the 4th
 * round on the prune lock is held, too, until the round's files are read.
 *
 * Files are read by group, archive name and time; entries that stand in the one
 * before too are not added again, but counted (neighbour.h).
 *
 * What is done with a digest is the caller's: touched (a real run) or
 * collected (a dry run, or where touching is impossible).
 */
#ifndef CAIRN_GC_MARK_H
#define CAIRN_GC_MARK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "datastore/base/digest.h"
#include "datastore/base/err.h"
#include "datastore/base/task.h"
#include "datastore/datastore.h"
#include "gc/findings.h"
#include "gc/listing.h"
#include "index/idx.h"
#include "index/idxformat.h"

/* A root that was read whole. */
struct mark_root {
	char *path; /* below the root of the datastore */
	struct root_id id;
	uint8_t uuid[IDX_UUID_SIZE];
	uint64_t entries;
	uint64_t data_bytes; /* of the archive */
};

struct mark_counts {
	uint64_t files_total; /* read, and listed but not read */
	uint64_t files_read;
	/* By what was read, and the sizes of the files that are still to be:
	 * a later round may find more. */
	uint64_t references_total;
	uint64_t references_read;
	uint32_t rounds;
	uint32_t left_overs; /* broken index files of dead sessions */
};

/* All but `add` may be NULL. */
struct mark_sink {
	int (*add)(void *ctx, const struct digest *d, struct err *e);
	/*
	 * n more references to digests that were all added before: the last of
	 * them when `now` said `when`.  Both or neither; with neither every
	 * reference is added.
	 */
	int (*repeat)(void *ctx, uint64_t n, uint64_t when, struct err *e);
	uint64_t (*now)(void *ctx);
	int (*flush)(void *ctx, struct err *e); /* end of a round */
	void (*progress)(void *ctx, const struct mark_counts *counts);
	void *ctx;
};

struct mark_opts {
	bool locks; /* false in a dry run: none is taken */
	/* A broken index file without manifest is a left-over if older. */
	filetime left_over_cutoff;
	/*
	 * Directories of snapshots below the root whose index files are no
	 * roots if they have no manifest: a run would have removed them
	 * before it listed (dry run).
	 */
	char *const *skip;
	size_t skip_n;
};

struct mark {
	struct mark_root *roots; /* sorted by path */
	size_t roots_n;
	size_t roots_cap;
	struct mark_counts counts;
};
#define MARK_INIT                                           \
	{                                                   \
		.roots = NULL, .roots_n = 0, .roots_cap = 0 \
	}

/*
 * Findings of kind fatal do not end a round: it goes on to find them all, and
 * then mark ends.  Returns an error only where nothing more can be learned
 * (cancelled, a lock that is not to be had: ERR_BUSY, a sink that failed).  m
 * is to be initialised.  Looks at the task at least once per 4096 references.
 */
int mark_run(struct datastore *ds, const struct mark_opts *opts,
    const struct mark_sink *sink, struct findings *findings, struct task *task,
    struct mark *m, struct err *e);
void mark_release(struct mark *m);

/* Sum of the sizes of the archives that were read. */
uint64_t mark_data_bytes(const struct mark *m);

/* Open an index file by its path below the root, following no link. */
int mark_open(
    struct datastore *ds, const char *path, struct idx **ret, struct err *e);

/* Digests to look for (sorted, without repetition), and who is told. */
struct mark_search {
	const struct digest *digests;
	size_t n;
	void (*fn)(void *ctx, const struct digest *d, const char *path);
	void *ctx;
};

/*
 * Read the roots again and report each index file that references one of
 * these digests, once per digest: for messages that name the index files of a
 * missing chunk.  A file that is gone or can not be read by now is passed
 * over.
 */
int mark_find_references(struct datastore *ds, const struct mark *m,
    const struct mark_search *search, struct task *task, struct err *e);

#endif
