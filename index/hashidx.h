/* SPDX-License-Identifier: MIT */
/*
 * hashidx: from 32 bits of a hash to numbers of records that may be meant.
 *
 * Eight bytes a slot, for tables whose records lie elsewhere (spill.h): who
 * looks one up compares the record.  One thread.
 */
#ifndef CAIRN_INDEX_HASHIDX_H
#define CAIRN_INDEX_HASHIDX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "datastore/base/err.h"

/* Three quarters of 2^24 slots: 128 MiB. */
#define HASHIDX_MAX (12U << 20)

struct hashidx_slot;
struct hashidx {
	struct hashidx_slot *slots;
	size_t slots_n; /* a power of two, or 0 */
	size_t used;
};

void hashidx_release(struct hashidx *h);

/* More than HASHIDX_MAX: ERR_LIMIT.  value is below UINT32_MAX. */
int hashidx_add(
    struct hashidx *h, uint32_t hash, uint32_t value, struct err *e);
/* The next value added with this hash; *at begins as 0.  False: no more. */
bool hashidx_next(
    const struct hashidx *h, uint32_t hash, size_t *at, uint32_t *ret);

#endif
