/* SPDX-License-Identifier: MIT */
/*
 * roots: `.cairn/roots` and `.cairn/removed`: what the last run read, and
 * what was removed on purpose since (I5).
 *
 * roots: text, one line per index file, "UUID PATH\n" (32 hex digits; the path
 * below the root, with control characters and the like as text.h shows them),
 * ended by a line "end N\n".  removed: one path of a snapshot per line,
 * appended by forget, prune and cleaners before they remove.  A root of the
 * last run that is gone without being recorded may mean a group that is not
 * mounted: then GC counts before it removes, and stops if more than half of
 * all chunks would go, now or when the margin is over.
 */
#ifndef CAIRN_GC_ROOTS_H
#define CAIRN_GC_ROOTS_H

#include <stddef.h>
#include <stdint.h>

#include "datastore/base/err.h"
#include "datastore/datastore.h"
#include "gc/findings.h"
#include "gc/mark.h"

#define ROOTS_NAME "roots"

/*
 * How many roots of the last run are gone unrecorded, and the first one's
 * path, as text.  Gone: no root of m has its path or its uuid (a snapshot may
 * have been moved by hand), its snapshot is not in `removed`, and it is no file
 * that is there in a snapshot that f sets aside.  A file of roots that is
 * missing, or has no end, tells nothing: 0.
 */
int roots_vanished(struct datastore *ds, const struct mark *m,
    const struct findings *f, uint64_t *ret_n, char *ret_first, size_t size,
    struct err *e);

/* The same between two marks of one run. */
int roots_gone(struct datastore *ds, const struct mark *before,
    const struct mark *now, uint64_t *ret_n, char *ret_first, size_t size,
    struct err *e);

/* How many removals are recorded since the roots were written. */
int roots_removed(struct datastore *ds, uint64_t *ret_n, struct err *e);

/*
 * Write roots; then drop from `removed` what needs no record any more: all
 * but the snapshots whose index files are in these roots, for those were
 * removed while GC was at work.
 */
int roots_write(struct datastore *ds, const struct mark *m, struct err *e);

#endif
