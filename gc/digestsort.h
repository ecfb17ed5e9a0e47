/* SPDX-License-Identifier: MIT */
/*
 * digestsort: sorts digests in place, without memory of its own.
 *
 * qsort(3) may take as much memory again as the array has; the bound of a
 * batch does not allow for that.  Digests are close to uniform, so two passes
 * over their first bytes leave little to compare; content that was chosen to
 * be otherwise costs n log n.
 */
#ifndef CAIRN_GC_DIGESTSORT_H
#define CAIRN_GC_DIGESTSORT_H

#include <stddef.h>

#include "datastore/base/digest.h"

void digest_sort(struct digest *d, size_t n);

/* Drop repetitions from a sorted array; returns how many stay. */
size_t digest_unique(struct digest *d, size_t n);

/*
 * The first place of a sorted array whose digest is not below `key`: n if
 * there is none.
 */
size_t digest_lower_bound(
    const struct digest *d, size_t n, const struct digest *key);

#endif
