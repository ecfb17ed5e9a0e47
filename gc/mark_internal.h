/* SPDX-License-Identifier: MIT */
/*
 * mark_internal: what the files of mark share.
 *
 *     mark.c       rounds and locks
 *     mark_read.c  one index file: read, left over, or broken
 */
#ifndef CAIRN_GC_MARK_INTERNAL_H
#define CAIRN_GC_MARK_INTERNAL_H

#include "gc/mark.h"
#include "gc/neighbour.h"
#include "index/idx.h"

/* References between two looks at the task. */
#define MARK_PIECE 4096U

struct marking {
	struct datastore *ds;
	const struct mark_opts *opts;
	const struct mark_sink *sink;
	struct findings *findings;
	struct task *task;
	struct mark *m;
	struct idx_entry *entries; /* MARK_PIECE */
	struct neighbour *before;  /* the file that was read last */
	uint64_t ahead;  /* references of listed files not begun, estimated */
	size_t vanished; /* in this round */
	bool quiet; /* findings->quiet as it was: it is set from round 2 on */
};

/* How many references an index file of this name and size holds. */
uint64_t mark_estimate(const struct root_file *file);

/*
 * Read one listed file into the sink.  *ret_whole: it was the one that was
 * listed, and was read whole; *ret then is what to remember of it, without
 * its path.  If not, it vanished (counted), or is a finding.
 */
int mark_read(struct marking *mk, const struct root_file *file,
    struct mark_root *ret, bool *ret_whole, struct err *e);

void mark_progress(struct marking *mk, uint64_t current);

#endif
