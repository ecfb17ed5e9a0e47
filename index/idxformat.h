/* SPDX-License-Identifier: MIT */
/*
 * idxformat: the bytes of `.fidx` and `.didx`, as pure functions.
 *
 * Both begin with 4096 bytes: magic 8, uuid 16, ctime i64, csum 32, and in a
 * `.fidx` size u64 and chunk size u64; the rest is zero.  Then a `.fidx` has
 * one digest of 32 bytes per chunk, a `.didx` 40 bytes per chunk: end offset
 * u64 and digest.  csum is the SHA-256 of everything behind the header.
 * All little-endian.  Every reader goes through these functions.  An index
 * is valid if (the numbers are those of etc/doc/format-store.md):
 *
 *   1  its file has at least 4096 bytes
 *   2  the magic is one of the two, and that of its suffix (idx.h)
 *   3  the rest of the header is zero
 *   4  a multiple of 32 or 40 bytes follows
 *   5  `.fidx`: at least one entry; chunk size a power of two, at most
 *      CHUNK_MAX_PLAIN; size at least 1; entries as many as these say
 *   6  `.didx`: ends increase, the first from 0; no chunk is longer than
 *      CHUNK_MAX_PLAIN
 *   7  csum is that of the entries (idx.h, when all were read)
 */
#ifndef CAIRN_INDEX_IDXFORMAT_H
#define CAIRN_INDEX_IDXFORMAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "datastore/base/digest.h"
#include "datastore/base/err.h"

#define IDX_HEADER_SIZE 4096U
#define IDX_UUID_SIZE 16
#define IDX_FIXED_ENTRY_SIZE 32U
#define IDX_DYNAMIC_ENTRY_SIZE 40U

enum idx_kind {
	IDX_FIXED,
	IDX_DYNAMIC,
};

struct idx_info {
	enum idx_kind kind;
	uint8_t uuid[IDX_UUID_SIZE];
	int64_t ctime;
	struct digest csum; /* as the header says */
	uint64_t size;      /* of the archive; IDX_DYNAMIC: set by the reader */
	uint64_t chunk_size; /* IDX_FIXED only, else 0 */
	uint64_t count;      /* entries */
};

struct idx_entry {
	struct digest digest;
	uint64_t end; /* offset behind this chunk */
};

static inline size_t idx_entry_size(enum idx_kind k)
{
	return k == IDX_FIXED ? IDX_FIXED_ENTRY_SIZE : IDX_DYNAMIC_ENTRY_SIZE;
}

/*
 * Check a header (the first n bytes) against the length of its file, in the
 * order of the rules 1 to 5.  ERR_CORRUPT says what was found and what was
 * wanted; files are named by the caller.
 */
int idx_header_decode(const uint8_t *p, size_t n, uint64_t file_size,
    struct idx_info *ret, struct err *e);

void idx_header_encode(
    const struct idx_info *info, uint8_t out[IDX_HEADER_SIZE]);

/*
 * Entry number i (0 first) from its bytes; prev_end is the end before it.
 * Rule 6.
 */
int idx_entry_decode(const struct idx_info *info, uint64_t i, const uint8_t *p,
    uint64_t prev_end, struct idx_entry *ret, struct err *e);

/* Into idx_entry_size(kind) bytes. */
void idx_entry_encode(
    enum idx_kind kind, const struct idx_entry *entry, uint8_t *out);

/* By the suffix: false if it is neither `.fidx` nor `.didx`. */
bool idx_kind_of_name(const char *filename, enum idx_kind *ret);

/* The plain length of a fixed index's chunk i. */
uint64_t idx_fixed_length(const struct idx_info *info, uint64_t i);

#endif
