/* SPDX-License-Identifier: MIT */
/*
 * chunker: cuts a byte stream by its content.
 *
 * Gear rolling hash with normalised cut points, after Xia et al., "The Design
 * of Fast Content-Defined Chunking for Data Deduplication Based Storage
 * Systems", IEEE TPDS 31(9), 2020.  Chunks are at least avg/4 and at most
 * avg*4 bytes; up to avg a cut needs two more bits of the hash to be zero than
 * log2(avg), behind it two fewer.  The table of 256 64-bit numbers comes from
 * splitmix64 with the seed "cairn gear table" read as documented in
 * chunker.c; a test holds its SHA-256.
 *
 * Pure: no I/O, no allocation.  Where the cuts fall depends on the bytes
 * since the last cut only, not on how they are handed over.
 */
#ifndef CAIRN_DATASTORE_CHUNKER_H
#define CAIRN_DATASTORE_CHUNKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "datastore/base/err.h"

#define CHUNKER_AVG_MIN (64U << 10)
#define CHUNKER_AVG_MAX (4U << 20)
#define CHUNKER_AVG_DEFAULT (1U << 20)

/* What a byte adds to the hash. */
extern const uint64_t chunker_gear[256];

struct chunker {
	size_t min;
	size_t avg;
	size_t max;
	uint64_t mask_early; /* below avg */
	uint64_t mask_late;
	uint64_t hash;
	size_t len; /* bytes of the current chunk seen so far */
};

/* avg: a power of two, CHUNKER_AVG_MIN to CHUNKER_AVG_MAX; else ERR_INVALID */
int chunker_init(struct chunker *c, size_t avg, struct err *e);

/*
 * Look at the next n bytes.  Returns how many of them belong to the current
 * chunk; *ret_cut says whether it ends there (then the next call begins a new
 * one).  Without a cut all n belong to it.
 */
size_t chunker_scan(
    struct chunker *c, const uint8_t *p, size_t n, bool *ret_cut);

/* Begin a new chunk here: a forced cut. */
void chunker_reset(struct chunker *c);

#endif
