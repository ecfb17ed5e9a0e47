/* SPDX-License-Identifier: MIT */
#include "index/cixformat.h"

#include <inttypes.h>
#include <string.h>

#include "datastore/base/bytes.h"
#include "datastore/base/crc32.h"
#include "datastore/base/uuid.h"

#define VERSION 1U

#define VERSION_AT 8
#define KIND_AT 12
#define STORE_AT 16
#define NUMBER_AT 56
#define ENTRIES_AT 64
#define PRESENT_AT 72
#define BYTES_AT 80
#define MADE_AT 88
#define KNOWN_AT 96
#define REST_AT 128
#define HEADER_CRC_AT 4092

#define STORE_LEN (DATASTORE_ID_SIZE - 1)

#define PAGE_COUNT_AT 4
#define PAGE_NUMBER_AT 8
#define FENCES_AT 8

#define SIZE_AT 32
#define DAY_AT 36
#define FLAGS_AT 38

static const uint8_t magic[8] = { 'c', 'a', 'i', 'r', 'n', 'C', 'I', 'X' };

unsigned cix_shards_count(const struct cix_shards *s)
{
	unsigned n = 0;

	for (size_t i = 0; i < sizeof(s->b); i++)
		n += (unsigned)__builtin_popcount(s->b[i]);
	return n;
}

void cix_header_encode(const struct cix_info *info, uint8_t out[CIX_PAGE])
{
	memset(out, 0, CIX_PAGE);
	memcpy(out, magic, sizeof(magic));
	bytes_put_le32(out + VERSION_AT, VERSION);
	bytes_put_le32(out + KIND_AT, (uint32_t)info->kind);
	memcpy(out + STORE_AT, info->store, STORE_LEN);
	bytes_put_le64(out + NUMBER_AT, info->number);
	bytes_put_le64(out + ENTRIES_AT, info->entries);
	bytes_put_le64(out + PRESENT_AT, info->present);
	bytes_put_le64(out + BYTES_AT, info->bytes);
	bytes_put_le64(out + MADE_AT, (uint64_t)info->made);
	memcpy(out + KNOWN_AT, info->known.b, sizeof(info->known.b));
	out[CIX_TRUST_AT] = (uint8_t)info->trust;
	bytes_put_le32(out + HEADER_CRC_AT, crc32_of(out, CIX_TRUST_AT));
}

static int check_header(const uint8_t p[CIX_PAGE], struct err *e)
{
	if (memcmp(p, magic, sizeof(magic)) != 0)
		return err_set(e, ERR_CORRUPT,
		    "it does not begin as a file of the chunk index");
	if (bytes_get_le32(p + HEADER_CRC_AT) != crc32_of(p, CIX_TRUST_AT))
		return err_set(e, ERR_CORRUPT,
		    "its header has another checksum than it says");
	if (bytes_get_le32(p + VERSION_AT) != VERSION)
		return err_set(e, ERR_UNSUPPORTED,
		    "version %" PRIu32 " of the chunk index, want %u",
		    bytes_get_le32(p + VERSION_AT), VERSION);
	if (bytes_get_le32(p + KIND_AT) != CIX_BASE &&
	    bytes_get_le32(p + KIND_AT) != CIX_RUN)
		return err_set(e, ERR_CORRUPT, "kind %" PRIu32 ", want 1 or 2",
		    bytes_get_le32(p + KIND_AT));
	if (!uuid_is_text((const char *)p + STORE_AT, STORE_LEN))
		return err_set(e, ERR_CORRUPT, "it names no datastore");
	if (!bytes_are_zero(p + REST_AT, CIX_TRUST_AT - REST_AT))
		return err_set(
		    e, ERR_CORRUPT, "the rest of its header is not zero");
	return 0;
}

int cix_header_decode(const uint8_t p[CIX_PAGE], uint64_t file_size,
    struct cix_info *ret, struct err *e)
{
	struct cix_info info = { .kind = CIX_BASE };
	int rc = check_header(p, e);

	if (rc < 0)
		return rc;
	info.kind = (enum cix_kind)bytes_get_le32(p + KIND_AT);
	memcpy(info.store, p + STORE_AT, STORE_LEN);
	info.number = bytes_get_le64(p + NUMBER_AT);
	info.entries = bytes_get_le64(p + ENTRIES_AT);
	info.present = bytes_get_le64(p + PRESENT_AT);
	info.bytes = bytes_get_le64(p + BYTES_AT);
	info.made = (int64_t)bytes_get_le64(p + MADE_AT);
	memcpy(info.known.b, p + KNOWN_AT, sizeof(info.known.b));
	info.trust = p[CIX_TRUST_AT] > CIX_TRUST_REMOVING
	    ? CIX_TRUST_NONE
	    : (enum cix_trust)p[CIX_TRUST_AT];
	if (info.entries > CIX_ENTRIES_MAX || info.present > info.entries)
		return err_set(e, ERR_CORRUPT,
		    "%" PRIu64 " entries, %" PRIu64 " of them chunks",
		    info.entries, info.present);
	if (file_size != cix_file_size(info.entries))
		return err_set(e, ERR_CORRUPT,
		    "%" PRIu64 " bytes for %" PRIu64 " entries, want %" PRIu64,
		    file_size, info.entries, cix_file_size(info.entries));
	*ret = info;
	return 0;
}

void cix_entry_encode(const struct cix_entry *x, uint8_t out[CIX_ENTRY_SIZE])
{
	memcpy(out, x->digest.b, DIGEST_SIZE);
	bytes_put_le32(out + SIZE_AT, x->size);
	bytes_put_le32(
	    out + DAY_AT, (uint32_t)x->day | (uint32_t)x->flags << 16);
}

void cix_entry_decode(const uint8_t p[CIX_ENTRY_SIZE], struct cix_entry *ret)
{
	uint32_t word = bytes_get_le32(p + DAY_AT);

	memcpy(ret->digest.b, p, DIGEST_SIZE);
	ret->size = bytes_get_le32(p + SIZE_AT);
	ret->day = (uint16_t)word;
	ret->flags = (uint16_t)(word >> 16);
}

void cix_page_seal(uint8_t page[CIX_PAGE], uint64_t number, unsigned entries)
{
	size_t used = 16 + (size_t)entries * CIX_ENTRY_SIZE;

	memset(page + used, 0, CIX_PAGE - used);
	bytes_put_le32(page + PAGE_COUNT_AT, entries);
	bytes_put_le64(page + PAGE_NUMBER_AT, number);
	bytes_put_le32(page, crc32_of(page + 4, CIX_PAGE - 4));
}

const char *cix_page_check(
    const uint8_t page[CIX_PAGE], uint64_t number, uint64_t entries)
{
	unsigned n = cix_page_entries(number, entries);

	if (bytes_get_le32(page) != crc32_of(page + 4, CIX_PAGE - 4))
		return "has another checksum than it says";
	if (bytes_get_le64(page + PAGE_NUMBER_AT) != number)
		return "is another page";
	if (bytes_get_le32(page + PAGE_COUNT_AT) != n)
		return "has another number of entries";
	for (unsigned i = 0; i < n; i++) {
		const uint8_t *p = cix_page_entry(page, i);

		if (i > 0 && memcmp(p - CIX_ENTRY_SIZE, p, DIGEST_SIZE) >= 0)
			return "is not in order";
		if ((p[FLAGS_AT] & ~CIX_REMOVED) != 0 || p[FLAGS_AT + 1] != 0)
			return "has flags that mean nothing";
	}
	return NULL;
}

void cix_fences_encode(const uint64_t *keys, unsigned n, uint8_t out[CIX_PAGE])
{
	memset(out, 0, CIX_PAGE);
	for (unsigned i = 0; i < n; i++) {
		uint8_t *p = out + FENCES_AT + (size_t)i * sizeof(*keys);

		for (unsigned k = 0; k < sizeof(*keys); k++)
			p[k] = (uint8_t)(keys[i] >> 8 * (7 - k));
	}
	bytes_put_le32(out, crc32_of(out + 4, CIX_PAGE - 4));
}

const char *cix_fences_check(const uint8_t page[CIX_PAGE])
{
	if (bytes_get_le32(page) != crc32_of(page + 4, CIX_PAGE - 4))
		return "has another checksum than it says";
	return NULL;
}

uint64_t cix_fence_at(const uint8_t page[CIX_PAGE], unsigned i)
{
	const uint8_t *p = page + FENCES_AT + (size_t)i * sizeof(uint64_t);
	uint64_t key = 0;

	for (unsigned k = 0; k < sizeof(key); k++)
		key = key << 8 | p[k];
	return key;
}
