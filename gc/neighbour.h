/* SPDX-License-Identifier: MIT */
/*
 * neighbour: the index file that was read just before, beside the next one.
 *
 * Snapshots of one archive are alike: most entries of an index stand in the
 * one before it, at the same place (fixed) or behind the same entry (dynamic).
 * What stands there too was dealt with when that file was read, so it needs
 * neither memory nor a touch: one comparison tells.
 *
 * It was read whole, and is read here a second time, without its checksum;
 * neighbour_is_same says whether it is still the file that was read then.  If
 * it can not be read any more, nothing stands in it.
 */
#ifndef CAIRN_GC_NEIGHBOUR_H
#define CAIRN_GC_NEIGHBOUR_H

#include <stdbool.h>
#include <stdint.h>

#include "datastore/base/digest.h"
#include "datastore/base/err.h"
#include "index/idx.h"

struct neighbour;

int neighbour_new(struct neighbour **ret, struct err *e);
void neighbour_free(struct neighbour *nb); /* NULL is allowed */

/*
 * This one was read whole, to the end: takes it over.  path is copied; where
 * there is no memory for that there is no neighbour.  when: the caller's.
 */
void neighbour_set(
    struct neighbour *nb, struct idx *ix, const char *path, uint64_t when);
void neighbour_forget(struct neighbour *nb);
uint64_t neighbour_when(const struct neighbour *nb);

/* Is there one, of the same group, archive name and kind? */
bool neighbour_is_of(
    const struct neighbour *nb, const struct idx *ix, const char *path);
/* By the checksum that the header of ix claims: are all entries the same? */
bool neighbour_seems_equal(const struct neighbour *nb, const struct idx *ix);
/* By its computed one, when it was read to its end. */
bool neighbour_is_equal(const struct neighbour *nb, const struct idx *ix);

/* A file is compared from its first entry on. */
void neighbour_begin(struct neighbour *nb);
/* Does entry i, asked for in order from 0 on, stand in it? */
bool neighbour_has(struct neighbour *nb, uint64_t i, const struct digest *d);
/* Is it unchanged, so that what neighbour_has said holds? */
bool neighbour_is_same(const struct neighbour *nb);

/*
 * By group, name of the archive, and time, oldest first: for qsort-like use on
 * paths below the root.
 */
int neighbour_compare_paths(const char *a, const char *b);

#endif
