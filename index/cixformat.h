/* SPDX-License-Identifier: MIT */
/*
 * cixformat: the bytes of `.cix`, the sorted files of the chunk index, as pure
 * functions.
 *
 * A file is pages of 4096 bytes: a header, data pages with the entries in
 * order of their digests, fence pages with the first 8 bytes of each data
 * page's first digest.  All little-endian.
 *
 *   header   0  magic 8          8  version u32 (1)   12  kind u32
 *           16  store, a UUID's text of 36 bytes      52  zero 4
 *           56  number u64: the generation of a base, the sequence of a run
 *           64  entries u64     72  of these, chunks that are there u64
 *           80  their bytes u64 88  made i64, seconds since 1970
 *           96  shards whose chunks are all known: bit N of 256
 *          128  zero          4088  trust u8, outside the CRC
 *        4089  zero 3         4092  CRC-32 of bytes 0 to 4087
 *   data     0  CRC-32 of bytes 4 to 4095, u32         4  entries u32
 *            8  number of the data page u64           16  entries of 40 bytes
 *   entry    0  digest 32       32  size u32: of the chunk's file
 *           36  day u16: of the last verification, days since 1970; 0: none
 *           38  flags u16
 *   fences   0  CRC-32 of bytes 4 to 4095, u32         4  zero 4
 *            8  511 times u64, big-endian as in the digest
 *
 * Every page is full but the last data page and the last fence page, whose
 * rest is zero.  The position of an entry, counted from 0, is its rank.  A
 * page's CRC and its number tell a page that is torn, old or another's.
 */
#ifndef CAIRN_INDEX_CIXFORMAT_H
#define CAIRN_INDEX_CIXFORMAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "datastore/base/digest.h"
#include "datastore/base/err.h"
#include "datastore/datastore.h"

#define CIX_PAGE 4096U
#define CIX_ENTRY_SIZE 40U
#define CIX_PAGE_ENTRIES 102U
#define CIX_PAGE_FENCES 511U
#define CIX_SHARDS 256U
#define CIX_TRUST_AT 4088U

/* A file of 2^32 data pages could not be told from a damaged one. */
#define CIX_ENTRIES_MAX ((uint64_t)UINT32_MAX * CIX_PAGE_ENTRIES)

enum cix_kind {
	CIX_BASE = 1,
	CIX_RUN = 2,
};

enum cix_flags {
	/* In a run: the chunk was removed; it wins over what is older. */
	CIX_REMOVED = 1,
};

/* One byte of a base's header, changed in place: that needs no room. */
enum cix_trust {
	CIX_TRUST_NONE = 0, /* removals could not be recorded */
	CIX_TRUST_ALL = 1,
	CIX_TRUST_LACKING = 2, /* it was not told of all that was inserted */
	/* What is noted as removed may be there still: a run is at it, or was
	 * killed.  To be treated as LACKING. */
	CIX_TRUST_REMOVING = 3,
};

/* A set of shards: of first bytes of digests. */
struct cix_shards {
	uint8_t b[CIX_SHARDS / 8];
};

static inline bool cix_shards_has(const struct cix_shards *s, unsigned shard)
{
	return (s->b[shard / 8] >> shard % 8 & 1) != 0;
}

static inline void cix_shards_set(struct cix_shards *s, unsigned shard, bool on)
{
	unsigned bit = 1U << shard % 8;

	s->b[shard / 8] =
	    (uint8_t)(on ? s->b[shard / 8] | bit : s->b[shard / 8] & ~bit);
}

unsigned cix_shards_count(const struct cix_shards *s);

struct cix_info {
	enum cix_kind kind;
	char store[DATASTORE_ID_SIZE];
	uint64_t number;
	uint64_t entries;
	uint64_t present;
	uint64_t bytes;
	int64_t made;
	struct cix_shards known;
	enum cix_trust trust;
};

struct cix_entry {
	struct digest digest;
	uint32_t size;
	uint16_t day;
	uint16_t flags; /* enum cix_flags */
};

static inline uint64_t cix_data_pages(uint64_t entries)
{
	return (entries + CIX_PAGE_ENTRIES - 1) / CIX_PAGE_ENTRIES;
}

static inline uint64_t cix_fence_pages(uint64_t entries)
{
	return (cix_data_pages(entries) + CIX_PAGE_FENCES - 1) /
	    CIX_PAGE_FENCES;
}

/* How long a file with so many entries is. */
static inline uint64_t cix_file_size(uint64_t entries)
{
	return CIX_PAGE *
	    (1 + cix_data_pages(entries) + cix_fence_pages(entries));
}

/* The first 8 bytes of a digest as a number: orders as the digest does. */
static inline uint64_t cix_key(const struct digest *d)
{
	uint64_t key = 0;

	for (unsigned i = 0; i < sizeof(key); i++)
		key = key << 8 | d->b[i];
	return key;
}

void cix_header_encode(const struct cix_info *info, uint8_t out[CIX_PAGE]);

/*
 * Check a header against the length of its file; ERR_CORRUPT says what was
 * found and what was wanted, ERR_UNSUPPORTED names a later version.
 */
int cix_header_decode(const uint8_t p[CIX_PAGE], uint64_t file_size,
    struct cix_info *ret, struct err *e);

void cix_entry_encode(const struct cix_entry *x, uint8_t out[CIX_ENTRY_SIZE]);
/* Nothing is checked: its page was. */
void cix_entry_decode(const uint8_t p[CIX_ENTRY_SIZE], struct cix_entry *ret);

/* The entries are in place; fills the rest of the page. */
void cix_page_seal(uint8_t page[CIX_PAGE], uint64_t number, unsigned entries);

/*
 * Is this data page number `number` of a file with that many entries?  CRC,
 * number, count, order of the digests, flags.  Returns NULL, or what is wrong.
 */
const char *cix_page_check(
    const uint8_t page[CIX_PAGE], uint64_t number, uint64_t entries);

/* How many entries data page `number` has. */
static inline unsigned cix_page_entries(uint64_t number, uint64_t entries)
{
	uint64_t left = entries - number * CIX_PAGE_ENTRIES;

	return left < CIX_PAGE_ENTRIES ? (unsigned)left : CIX_PAGE_ENTRIES;
}

static inline const uint8_t *cix_page_entry(
    const uint8_t page[CIX_PAGE], unsigned i)
{
	return page + 16 + (size_t)i * CIX_ENTRY_SIZE;
}

/* The same for fence pages; keys: CIX_PAGE_FENCES of them, n in use. */
void cix_fences_encode(const uint64_t *keys, unsigned n, uint8_t out[CIX_PAGE]);
/* Returns NULL, or what is wrong. */
const char *cix_fences_check(const uint8_t page[CIX_PAGE]);
uint64_t cix_fence_at(const uint8_t page[CIX_PAGE], unsigned i);

#endif
