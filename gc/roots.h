/* SPDX-License-Identifier: MIT */
/*
 * roots: `.cairn/roots`, `.cairn/added` and `.cairn/removed`: what the last run
 * read, what was pushed since, and what was removed on purpose (I5).
 *
 * roots: text, one line per index file, "UUID PATH\n" (32 hex digits; the path
 * below the root, with control characters and the like as text.h shows them),
 * ended by a line "end N\n".  removed: one path of a snapshot per line,
 * appended by forget, prune and cleaners before they remove.  added: the same,
 * appended by a push when its snapshot is there.
 *
 * What one of the first two has, and is gone without being in the third, may be
 * in a group that is not mounted.  So may anything where none of them says what
 * there was: before the first run on a store of PBS, or of which `.cairn` was
 * removed.  Then GC counts before it removes, and stops if more than half of
 * all chunks would go, now or when the margin is over.
 */
#ifndef CAIRN_GC_ROOTS_H
#define CAIRN_GC_ROOTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "datastore/base/err.h"
#include "datastore/datastore.h"
#include "gc/findings.h"
#include "gc/mark.h"

#define ROOTS_NAME "roots"
#define ROOTS_SHOWN_SIZE 1024

/* What there was, as far as it was written down, and is not any more. */
struct roots_past {
	/* Is all of it written down?  Not before a first run, if init did not
	 * make this store or others have pushed to it. */
	bool known;
	uint64_t files;     /* of the last run's roots: gone unrecorded */
	uint64_t snapshots; /* pushed since then: the same */
	char first[ROOTS_SHOWN_SIZE]; /* of these, as text */
};

/*
 * Gone is a root whose path and uuid no root of m has (a snapshot may have been
 * moved by hand), whose snapshot is not in `removed`, and which is no file that
 * is there in a snapshot that f sets aside; and a snapshot in `added` that is
 * neither there nor in `removed`.  Of a file of roots that has no end only its
 * absence counts.
 */
int roots_vanished(struct datastore *ds, const struct mark *m,
    const struct findings *f, struct roots_past *ret, struct err *e);

/* The same between two marks of one run. */
int roots_gone(struct datastore *ds, const struct mark *before,
    const struct mark *now, struct roots_past *ret, struct err *e);

/* How many removals are recorded since the roots were written. */
int roots_removed(struct datastore *ds, uint64_t *ret_n, struct err *e);

/*
 * Write roots; then drop what needs no record any more: from `removed` all but
 * the snapshots whose index files are in these roots, for those were removed
 * while GC was at work; from `added` those, and what is gone.
 */
int roots_write(struct datastore *ds, const struct mark *m, struct err *e);

#endif
