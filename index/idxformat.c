/* SPDX-License-Identifier: MIT */
#include "index/idxformat.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

#include "datastore/base/bytes.h"
#include "datastore/blob.h"

/* Where the fields of a header lie. */
#define AT_UUID 8
#define AT_CTIME 24
#define AT_CSUM 32
#define AT_SIZE 64       /* `.fidx` only */
#define AT_CHUNK_SIZE 72 /* `.fidx` only */
#define FIXED_RESERVED 80
#define DYNAMIC_RESERVED 64

#define MAGIC_SIZE 8
#define ENTRY_AT_DIGEST 8 /* `.didx` only: behind the end offset */

/* The first 8 bytes of the SHA-256 of a label each. */
static const uint8_t magics[][MAGIC_SIZE] = {
	[IDX_FIXED] = { 0x2f, 0x7f, 0x41, 0xed, 0x91, 0xfd, 0x0f, 0xcd },
	[IDX_DYNAMIC] = { 0x1c, 0x91, 0x4e, 0xa5, 0x19, 0xba, 0xb3, 0xcd },
};

static int decode_kind(const uint8_t *p, enum idx_kind *ret, struct err *e)
{
	if (memcmp(p, magics[IDX_FIXED], MAGIC_SIZE) == 0) {
		*ret = IDX_FIXED;
		return 0;
	}
	if (memcmp(p, magics[IDX_DYNAMIC], MAGIC_SIZE) == 0) {
		*ret = IDX_DYNAMIC;
		return 0;
	}
	return err_set(e, ERR_CORRUPT,
	    "magic %02x%02x%02x%02x%02x%02x%02x%02x, "
	    "want 2f7f41ed91fd0fcd (fixed) or 1c914ea519bab3cd (dynamic)",
	    p[0], p[1], p[2], p[3], p[4], p[5], p[6], p[7]);
}

static int check_reserved(const uint8_t *p, size_t from, struct err *e)
{
	for (size_t i = from; i < IDX_HEADER_SIZE; i++) {
		if (p[i] != 0) {
			return err_set(e, ERR_CORRUPT,
			    "byte %zu of the header is %u, want 0", i, p[i]);
		}
	}
	return 0;
}

/* Sets count from the length of the file. */
static int decode_count(uint64_t file_size, struct idx_info *x, struct err *e)
{
	uint64_t body = file_size - IDX_HEADER_SIZE;
	size_t each = idx_entry_size(x->kind);

	if (body % each != 0) {
		return err_set(e, ERR_CORRUPT,
		    "%" PRIu64 " bytes behind the header, "
		    "want a multiple of %zu",
		    body, each);
	}
	x->count = body / each;
	if (x->kind == IDX_FIXED && x->count == 0) {
		return err_set(e, ERR_CORRUPT,
		    "nothing behind the header, want at least one entry");
	}
	return 0;
}

/* The fields that only a `.fidx` has; count is known. */
static int decode_fixed(const uint8_t *p, struct idx_info *x, struct err *e)
{
	uint64_t want = 0;

	x->size = bytes_get_le64(p + AT_SIZE);
	x->chunk_size = bytes_get_le64(p + AT_CHUNK_SIZE);
	if (!bytes_is_power_of_two(x->chunk_size) ||
	    x->chunk_size > CHUNK_MAX_PLAIN) {
		return err_set(e, ERR_CORRUPT,
		    "chunk size %" PRIu64 ", want a power of two up to %u",
		    x->chunk_size, CHUNK_MAX_PLAIN);
	}
	if (x->size == 0) {
		return err_set(
		    e, ERR_CORRUPT, "image of 0 bytes, want at least 1");
	}
	/* No overflow: the quotient of a size has room for one more. */
	want = x->size / x->chunk_size + (x->size % x->chunk_size != 0);
	if (x->count != want) {
		return err_set(e, ERR_CORRUPT,
		    "%" PRIu64 " entries, want %" PRIu64 " for %" PRIu64
		    " bytes in chunks of %" PRIu64,
		    x->count, want, x->size, x->chunk_size);
	}
	return 0;
}

int idx_header_decode(const uint8_t *p, size_t n, uint64_t file_size,
    struct idx_info *ret, struct err *e)
{
	struct idx_info x = { .kind = IDX_FIXED };
	uint64_t have = n < file_size ? n : file_size;
	int rc = 0;

	if (have < IDX_HEADER_SIZE) {
		return err_set(e, ERR_CORRUPT,
		    "%" PRIu64 " bytes, want at least %u", have,
		    IDX_HEADER_SIZE);
	}
	rc = decode_kind(p, &x.kind, e);
	if (rc < 0)
		return rc;
	rc = check_reserved(
	    p, x.kind == IDX_FIXED ? FIXED_RESERVED : DYNAMIC_RESERVED, e);
	if (rc < 0)
		return rc;
	memcpy(x.uuid, p + AT_UUID, IDX_UUID_SIZE);
	x.ctime = (int64_t)bytes_get_le64(p + AT_CTIME);
	memcpy(x.csum.b, p + AT_CSUM, DIGEST_SIZE);
	rc = decode_count(file_size, &x, e);
	if (rc < 0)
		return rc;
	if (x.kind == IDX_FIXED)
		rc = decode_fixed(p, &x, e);
	if (rc < 0)
		return rc;
	*ret = x;
	return 0;
}

void idx_header_encode(
    const struct idx_info *info, uint8_t out[IDX_HEADER_SIZE])
{
	memset(out, 0, IDX_HEADER_SIZE);
	memcpy(out, magics[info->kind], MAGIC_SIZE);
	memcpy(out + AT_UUID, info->uuid, IDX_UUID_SIZE);
	bytes_put_le64(out + AT_CTIME, (uint64_t)info->ctime);
	memcpy(out + AT_CSUM, info->csum.b, DIGEST_SIZE);
	if (info->kind == IDX_FIXED) {
		bytes_put_le64(out + AT_SIZE, info->size);
		bytes_put_le64(out + AT_CHUNK_SIZE, info->chunk_size);
	}
}

uint64_t idx_fixed_length(const struct idx_info *info, uint64_t i)
{
	assert(info->kind == IDX_FIXED && i < info->count);
	if (i + 1 < info->count)
		return info->chunk_size;
	return info->size - i * info->chunk_size;
}

int idx_entry_decode(const struct idx_info *info, uint64_t i, const uint8_t *p,
    uint64_t prev_end, struct idx_entry *ret, struct err *e)
{
	uint64_t end = 0;

	if (info->kind == IDX_FIXED) {
		ret->end = i * info->chunk_size + idx_fixed_length(info, i);
		memcpy(ret->digest.b, p, DIGEST_SIZE);
		return 0;
	}
	end = bytes_get_le64(p);
	if (end <= prev_end) {
		return err_set(e, ERR_CORRUPT,
		    "entry %" PRIu64 " ends at %" PRIu64
		    ", want more than %" PRIu64 ", where it begins",
		    i, end, prev_end);
	}
	if (end - prev_end > CHUNK_MAX_PLAIN) {
		return err_set(e, ERR_CORRUPT,
		    "entry %" PRIu64 " has %" PRIu64 " bytes, want at most %u",
		    i, end - prev_end, CHUNK_MAX_PLAIN);
	}
	ret->end = end;
	memcpy(ret->digest.b, p + ENTRY_AT_DIGEST, DIGEST_SIZE);
	return 0;
}

void idx_entry_encode(
    enum idx_kind kind, const struct idx_entry *entry, uint8_t *out)
{
	if (kind == IDX_DYNAMIC) {
		bytes_put_le64(out, entry->end);
		out += ENTRY_AT_DIGEST;
	}
	memcpy(out, entry->digest.b, DIGEST_SIZE);
}

bool idx_kind_of_name(const char *filename, enum idx_kind *ret)
{
	const char *dot = strrchr(filename, '.');

	if (dot == NULL || dot == filename)
		return false;
	if (strcmp(dot, ".fidx") == 0) {
		*ret = IDX_FIXED;
	} else if (strcmp(dot, ".didx") == 0) {
		*ret = IDX_DYNAMIC;
	} else {
		return false;
	}
	return true;
}
