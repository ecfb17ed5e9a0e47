/* SPDX-License-Identifier: MIT */
#include "datastore/blob.h"

#include <inttypes.h>
#include <string.h>

#include "datastore/base/bytes.h"
#include "datastore/base/crc32.h"

#define MAGIC_SIZE 8
#define CRC_AT 8

static const struct {
	uint8_t magic[MAGIC_SIZE];
	const char *name;
} kinds[] = {
	[BLOB_PLAIN] = { { 0x42, 0xab, 0x38, 0x07, 0xbe, 0x83, 0x70, 0xa1 },
	    "plain" },
	[BLOB_ZSTD] = { { 0x31, 0xb9, 0x58, 0x42, 0x6f, 0xb6, 0xa3, 0x7f },
	    "zstd" },
	[BLOB_ENCRYPTED] = { { 0x7b, 0x67, 0x85, 0xbe, 0x22, 0x2d, 0x4c, 0xf0 },
	    "encrypted" },
	[BLOB_ENCRYPTED_ZSTD] = { { 0xe6, 0x59, 0x1b, 0xbf, 0x0b, 0xbf, 0xd8,
				      0x0b },
	    "encrypted zstd" },
};

#define KINDS (sizeof(kinds) / sizeof(kinds[0]))

const char *blob_kind_name(enum blob_kind k)
{
	return kinds[k].name;
}

int blob_encode(struct codec *c, int level, const void *p, size_t n,
    struct buf *out, struct err *e)
{
	static const uint8_t header[BLOB_HEADER_SIZE] = { 0 };
	enum blob_kind kind = BLOB_PLAIN;
	bool smaller = false;
	int rc = 0;

	buf_reset(out);
	if (n > BLOB_MAX_PLAIN) {
		return err_set(e, ERR_LIMIT,
		    "blob of %zu bytes, want at most %u", n, BLOB_MAX_PLAIN);
	}
	/* What can be needed at most, so that nothing is moved meanwhile. */
	rc = buf_reserve(out, sizeof(header) + n, e);
	if (rc < 0)
		return rc;
	rc = buf_append(out, header, sizeof(header), e);
	if (rc == 0 && level != 0)
		rc = codec_compress(c, level, p, n, out, &smaller, e);
	if (rc == 0 && smaller)
		kind = BLOB_ZSTD;
	if (rc == 0 && !smaller)
		rc = buf_append(out, p, n, e);
	if (rc < 0) {
		buf_reset(out);
		return rc;
	}
	memcpy(out->data, kinds[kind].magic, MAGIC_SIZE);
	bytes_put_le32(out->data + CRC_AT,
	    crc32_of(
		out->data + BLOB_HEADER_SIZE, out->len - BLOB_HEADER_SIZE));
	return 0;
}

int blob_identify(const void *raw, size_t n, enum blob_kind *ret, struct err *e)
{
	enum blob_kind kind = BLOB_PLAIN;

	if (n < BLOB_HEADER_SIZE) {
		return err_set(e, ERR_CORRUPT,
		    "blob of %zu bytes, want at least %d", n, BLOB_HEADER_SIZE);
	}
	while (kind < KINDS && memcmp(raw, kinds[kind].magic, MAGIC_SIZE) != 0)
		kind++;
	if (kind == KINDS) {
		return err_set(e, ERR_CORRUPT,
		    "blob with unknown magic %016" PRIx64,
		    __builtin_bswap64(bytes_get_le64(raw)));
	}
	if (n < blob_header_size(kind)) {
		return err_set(e, ERR_CORRUPT,
		    "%s blob of %zu bytes, want at least %zu", kinds[kind].name,
		    n, blob_header_size(kind));
	}
	*ret = kind;
	return 0;
}

int blob_check(const void *raw, size_t n, enum blob_kind *ret, struct err *e)
{
	const uint8_t *p = raw;
	enum blob_kind kind = BLOB_PLAIN;
	uint32_t said = 0;
	uint32_t is = 0;
	int rc = blob_identify(raw, n, &kind, e);

	if (rc < 0)
		return rc;
	said = bytes_get_le32(p + CRC_AT);
	is = crc32_of(p + blob_header_size(kind), n - blob_header_size(kind));
	if (is != said) {
		return err_set(e, ERR_CORRUPT,
		    "%s blob of %zu bytes has CRC %08" PRIx32
		    ", its header says %08" PRIx32,
		    kinds[kind].name, n, is, said);
	}
	*ret = kind;
	return 0;
}

int blob_decode(struct codec *c, const void *raw, size_t n, size_t limit,
    struct buf *out, struct err *e)
{
	const uint8_t *data = NULL;
	enum blob_kind kind = BLOB_PLAIN;
	int rc = 0;

	buf_reset(out);
	rc = blob_check(raw, n, &kind, e);
	if (rc < 0)
		return rc;
	if (blob_is_encrypted(kind)) {
		return err_set(e, ERR_UNSUPPORTED,
		    "%s blob can not be read without its key",
		    kinds[kind].name);
	}
	data = (const uint8_t *)raw + BLOB_HEADER_SIZE;
	n -= BLOB_HEADER_SIZE;
	if (kind == BLOB_ZSTD)
		return codec_expand(c, data, n, limit, out, e);
	if (n > limit) {
		return err_set(e, ERR_LIMIT,
		    "plain blob holds %zu bytes, want at most %zu", n, limit);
	}
	return buf_append(out, data, n, e);
}
