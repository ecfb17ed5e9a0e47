/* SPDX-License-Identifier: MIT */
/*
 * fuzz_blob: any bytes as a blob, as a blob whose CRC is right, and as bare
 * zstd data; and what is encoded of them comes back the same.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "datastore/base/bytes.h"
#include "datastore/blob.h"

#define LIMIT 100000U

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MUST(cond)               \
	do {                     \
		if (!(cond))     \
			abort(); \
	} while (0)

/* A block of exactly n bytes: reading one more is found. */
static uint8_t *exact_copy(const uint8_t *p, size_t n)
{
	uint8_t *copy = malloc(n > 0 ? n : 1);

	MUST(copy != NULL);
	if (n > 0)
		memcpy(copy, p, n);
	return copy;
}

/* Whatever it says, it is within the bounds. */
static void check_outcome(int rc, const struct err *e, const struct buf *out)
{
	MUST(out->len <= LIMIT);
	MUST(out->cap <= LIMIT);
	if (rc == 0)
		return;
	MUST(rc == e->code);
	MUST(rc == ERR_CORRUPT || rc == ERR_LIMIT || rc == ERR_UNSUPPORTED);
	MUST(e->msg[0] != '\0');
	MUST(out->len == 0);
}

static void try_decode(struct codec *c, const uint8_t *p, size_t n)
{
	struct buf out = BUF_INIT;
	struct err e = ERR_INIT;

	check_outcome(blob_decode(c, p, n, LIMIT, &out, &e), &e, &out);
	buf_release(&out);
}

static void try_expand(struct codec *c, const uint8_t *p, size_t n)
{
	struct buf out = BUF_INIT;
	struct err e = ERR_INIT;

	check_outcome(codec_expand(c, p, n, LIMIT, &out, &e), &e, &out);
	buf_release(&out);
}

/* Past the CRC, which chance does not get right. */
static void try_with_crc(struct codec *c, uint8_t *p, size_t n)
{
	enum blob_kind kind = BLOB_PLAIN;
	struct err e = ERR_INIT;
	size_t header = 0;

	if (blob_identify(p, n, &kind, &e) < 0)
		return;
	header = blob_header_size(kind);
	bytes_put_le32(p + 8, (uint32_t)crc32_z(0, p + header, n - header));
	MUST(blob_check(p, n, &kind, &e) == 0);
	try_decode(c, p, n);
}

static void round_trip(struct codec *c, const uint8_t *p, size_t n)
{
	struct buf raw = BUF_INIT;
	struct buf out = BUF_INIT;
	struct err e = ERR_INIT;
	int level = (int)(n % (COMPRESS_LEVEL_MAX + 1));

	MUST(blob_encode(c, level, p, n, &raw, &e) == 0);
	MUST(raw.len <= n + BLOB_HEADER_SIZE);
	MUST(blob_decode(c, raw.data, raw.len, n, &out, &e) == 0);
	MUST(out.len == n);
	MUST(n == 0 || memcmp(out.data, p, n) == 0);
	buf_release(&raw);
	buf_release(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *copy = exact_copy(data, size);
	struct codec *c = NULL;
	struct err e = ERR_INIT;

	MUST(codec_new(&c, &e) == 0);
	try_decode(c, copy, size);
	try_expand(c, copy, size);
	try_with_crc(c, copy, size);
	round_trip(c, copy, size);
	codec_free(c);
	free(copy);
	return 0;
}
