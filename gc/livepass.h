/* SPDX-License-Identifier: MIT */
/*
 * livepass: the exact set of referenced digests, one range after the other,
 * in bounded memory.
 *
 * For dry runs, which may touch nothing, and for file systems too full to
 * touch.  A pass reads all index files and keeps the smallest digests from
 * `lo` on, up to `capacity` distinct ones: the live set of [lo, hi), where hi
 * is where memory ran out.  The next pass begins there.  With capacity for
 * all, one pass does.
 *
 * Memory: 40 bytes per digest of the capacity, and one bit.
 */
#ifndef CAIRN_GC_LIVEPASS_H
#define CAIRN_GC_LIVEPASS_H

#include <stdbool.h>
#include <stddef.h>

#include "datastore/base/digest.h"
#include "datastore/base/err.h"

struct livepass;

/* capacity: at least 1. */
int livepass_new(size_t capacity, struct livepass **ret, struct err *e);
void livepass_free(struct livepass *p); /* NULL is allowed */

/* Begin a pass at lo; forgets what was there. */
void livepass_begin(struct livepass *p, const struct digest *lo);
void livepass_add(struct livepass *p, const struct digest *d);
/*
 * Sort; the set is [lo, *ret_hi).  *ret_is_end: it reaches the last digest,
 * and *ret_hi says nothing.
 */
void livepass_end(struct livepass *p, struct digest *ret_hi, bool *ret_is_end);

/* Of the range only, and between livepass_end and the next begin. */
bool livepass_contains(const struct livepass *p, const struct digest *d);
size_t livepass_count(const struct livepass *p);

/* Note that the chunk of this digest is there; nothing if it is not live. */
void livepass_see(struct livepass *p, const struct digest *d);
/* The live digests that were not seen, in order; NULL behind the last.
 * *at begins as 0. */
const struct digest *livepass_next_unseen(const struct livepass *p, size_t *at);

#endif
