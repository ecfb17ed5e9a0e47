/* SPDX-License-Identifier: MIT */
/*
 * digestset: which digests this run has already dealt with, in fixed memory.
 *
 * A set-associative table of whole digests: it forgets when it is full, and
 * what it says it knows is always true, because all 32 bytes are compared.
 * Forgetting costs a touch, never a chunk.
 */
#ifndef CAIRN_GC_DIGESTSET_H
#define CAIRN_GC_DIGESTSET_H

#include <stdbool.h>
#include <stddef.h>

#include "datastore/base/digest.h"
#include "datastore/base/err.h"

struct digestset;

/* About `capacity` digests, rounded to a power of two; 32 bytes each. */
int digestset_new(size_t capacity, struct digestset **ret, struct err *e);
void digestset_free(struct digestset *s);
bool digestset_contains(const struct digestset *s, const struct digest *d);
void digestset_add(struct digestset *s, const struct digest *d);

#endif
