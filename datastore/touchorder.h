/* SPDX-License-Identifier: MIT */
/*
 * touchorder: in which order the chunks of a batch are visited.
 *
 * An order is an array of keys, one per digest: a rank, and below it the
 * digest's number in the batch.  So the digests themselves stay where they
 * are, and chunks of equal rank keep the order in which they were met, which
 * is often that in which they were made.  8 bytes per digest, sorted in place.
 */
#ifndef CAIRN_DATASTORE_TOUCHORDER_H
#define CAIRN_DATASTORE_TOUCHORDER_H

#include <stddef.h>
#include <stdint.h>

#include "datastore/base/digest.h"

#define TOUCHORDER_INDEX_BITS 24
#define TOUCHORDER_MAX (1U << TOUCHORDER_INDEX_BITS) /* digests of a batch */
#define TOUCHORDER_RANK_MAX (UINT64_MAX >> TOUCHORDER_INDEX_BITS)

static inline size_t touchorder_index(uint64_t key)
{
	return (size_t)(key & (TOUCHORDER_MAX - 1));
}

static inline uint64_t touchorder_rank(uint64_t key)
{
	return key >> TOUCHORDER_INDEX_BITS;
}

static inline uint64_t touchorder_key(uint64_t rank, size_t index)
{
	return rank << TOUCHORDER_INDEX_BITS | index;
}

/*
 * By prefix, each digest once: the first of equal ones.  keys has room for n;
 * returns how many there are.
 */
size_t touchorder_by_prefix(const struct digest *d, size_t n, uint64_t *keys);

/* Sort after ranks were changed. */
void touchorder_sort(uint64_t *keys, size_t n);

#endif
