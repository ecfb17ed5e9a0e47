/* SPDX-License-Identifier: MIT */
/*
 * roots: `.cairn/roots` and `.cairn/removed`: what the last run read, and
 * what was removed on purpose since (I5).
 *
 * roots: text, one line per index file, "UUID PATH\n", ended by a line
 * "end N\n".  removed: one path of a snapshot per line, appended by forget,
 * prune and cleaners before they remove.  A root of the last run that is gone
 * without being recorded may mean a group that is not mounted: then GC counts
 * before it removes, and stops if more than half of all chunks would go.
 */
#ifndef CAIRN_GC_ROOTS_H
#define CAIRN_GC_ROOTS_H

#include <stddef.h>
#include <stdint.h>

#include "datastore/base/err.h"
#include "datastore/datastore.h"
#include "gc/mark.h"

/* How many roots of the last run are gone unrecorded; the first one's path. */
int roots_vanished(struct datastore *ds, const struct mark *m,
    uint64_t *ret_n, char *ret_first, size_t size, struct err *e);

/* Write roots, then empty removed of what was there at `removed_until`. */
int roots_write(struct datastore *ds, const struct mark *m, struct err *e);

#endif
