/* SPDX-License-Identifier: MIT */
/*
 * wouldfree: what would become garbage if some snapshots were removed.
 *
 * A chunk counts if they are the only ones that reference it, however often;
 * what is garbage already does not count.  Takes no lock and changes nothing.
 *
 * The digests of the snapshots that would go are collected range by range, as
 * many as memory is given for; then all other index files are read, and what
 * they reference is crossed out.  So memory is bounded, and the figure is exact
 * in a store that is whole and does not change meanwhile; where it is not, the
 * result says so.
 */
#ifndef CAIRN_GC_WOULDFREE_H
#define CAIRN_GC_WOULDFREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "datastore/backupid.h"
#include "datastore/base/err.h"
#include "datastore/base/task.h"
#include "datastore/datastore.h"

struct wouldfree_opts {
	const struct backup_snapshot *gone; /* no two the same */
	size_t gone_n;
	size_t capacity; /* digests in memory, of 40 bytes; at least 1 */
};

struct wouldfree {
	uint64_t chunks; /* that are there, as files */
	uint64_t bytes;  /* of these files */
	/* Of the snapshots' own files: indexes, manifests, blobs.  They go at
	 * once, not with the next garbage collection. */
	uint64_t own_bytes;
	/* Something of the snapshots that would go could not be read: there
	 * may be more than was counted. */
	bool maybe_more;
	/* Something of what stays could not be read, or a backup runs, which
	 * may use what was counted: there may be less. */
	bool maybe_less;
};

/*
 * ret is filled on success only.  What can not be read is a warning each, and
 * no failure.
 */
int wouldfree_count(struct datastore *ds, const struct wouldfree_opts *o,
    struct task *task, struct wouldfree *ret, struct err *e);

/* "exactly", "at least", "at most", "about". */
const char *wouldfree_word(const struct wouldfree *w);

#endif
