/* SPDX-License-Identifier: MIT */
#include "datastore/compress.h"

#include <stdlib.h>
#include <string.h>
#include <zstd.h>
#include <zstd_errors.h>

#include "datastore/base/bytes.h"

#define MAGIC_FRAME 0xfd2fb528U
#define MAGIC_SKIPPABLE 0x184d2a50U /* the last digit is free */
#define MAGIC_SKIPPABLE_MASK 0xfffffff0U

/* First guess at the content of a frame that does not say: times its size. */
#define GUESS_RATIO 4U
#define GUESS_MIN 4096U

struct codec {
	ZSTD_CCtx *compress;
	ZSTD_DCtx *expand;
};

int codec_new(struct codec **ret, struct err *e)
{
	struct codec *c = calloc(1, sizeof(*c));

	if (c == NULL)
		return err_nomem(e);
	c->compress = ZSTD_createCCtx();
	c->expand = ZSTD_createDCtx();
	if (c->compress == NULL || c->expand == NULL) {
		codec_free(c);
		return err_nomem(e);
	}
	*ret = c;
	return 0;
}

void codec_free(struct codec *c)
{
	if (c == NULL)
		return;
	ZSTD_freeCCtx(c->compress);
	ZSTD_freeDCtx(c->expand);
	free(c);
}

int codec_compress(struct codec *c, int level, const void *p, size_t n,
    struct buf *out, bool *ret_smaller, struct err *e)
{
	size_t got = 0;
	int rc = 0;

	if (level < COMPRESS_LEVEL_MIN || level > COMPRESS_LEVEL_MAX) {
		return err_set(e, ERR_INVALID,
		    "compression level %d, want %d to %d", level,
		    COMPRESS_LEVEL_MIN, COMPRESS_LEVEL_MAX);
	}
	/* Nothing is smaller than no byte or one. */
	if (n < 2) {
		*ret_smaller = false;
		return 0;
	}
	rc = buf_reserve(out, n - 1, e);
	if (rc < 0)
		return rc;
	got = ZSTD_compressCCtx(
	    c->compress, out->data + out->len, n - 1, p, n, level);
	if (ZSTD_isError(got)) {
		ZSTD_ErrorCode code = ZSTD_getErrorCode(got);

		if (code == ZSTD_error_memory_allocation)
			return err_nomem(e);
		if (code != ZSTD_error_dstSize_tooSmall) {
			return err_set(e, ERR_INVALID, "compress: %s",
			    ZSTD_getErrorName(got));
		}
		*ret_smaller = false;
		return 0;
	}
	out->len += got;
	*ret_smaller = true;
	return 0;
}

/*
 * Room for n more bytes, growing by doubling, but never beyond `most` bytes in
 * all: buf_reserve alone would take up to twice the limit.
 */
static int reserve_within(struct buf *out, size_t n, size_t most, struct err *e)
{
	struct buf bigger = BUF_INIT;
	size_t want = out->len + n;
	int rc = 0;

	if (want <= out->cap)
		return 0;
	if (want < out->cap * 2)
		want = out->cap * 2 < most ? out->cap * 2 : most;
	rc = buf_reserve(&bigger, want, e);
	if (rc < 0)
		return rc;
	if (out->len > 0)
		memcpy(bigger.data, out->data, out->len);
	bigger.len = out->len;
	buf_release(out);
	*out = bigger;
	return 0;
}

static int corrupt(struct err *e, size_t code)
{
	if (ZSTD_getErrorCode(code) == ZSTD_error_memory_allocation)
		return err_nomem(e);
	return err_set(
	    e, ERR_CORRUPT, "zstd data: %s", ZSTD_getErrorName(code));
}

static int too_large(struct err *e, size_t limit)
{
	return err_set(
	    e, ERR_LIMIT, "zstd data expands to more than %zu bytes", limit);
}

/*
 * One attempt at a frame: into what room there is behind out, at most `room`
 * bytes.  *ret_full: it wants more.
 */
static int expand_into(struct codec *c, const void *p, size_t n, size_t room,
    struct buf *out, bool *ret_full, struct err *e)
{
	size_t avail = out->cap - out->len;
	size_t got = 0;

	if (avail > room)
		avail = room;
	got = ZSTD_decompressDCtx(c->expand,
	    out->data != NULL ? out->data + out->len : NULL, avail, p, n);
	if (!ZSTD_isError(got)) {
		out->len += got;
		*ret_full = false;
		return 0;
	}
	if (ZSTD_getErrorCode(got) != ZSTD_error_dstSize_tooSmall)
		return corrupt(e, got);
	*ret_full = true;
	return 0;
}

/* A frame that says how large it is: one attempt with exactly that. */
static int expand_sized(struct codec *c, const void *p, size_t n, size_t size,
    size_t most, struct buf *out, struct err *e)
{
	bool full = false;
	int rc = reserve_within(out, size, most, e);

	if (rc == 0)
		rc = expand_into(c, p, n, size, out, &full, e);
	if (rc == 0 && full) {
		rc = err_set(e, ERR_CORRUPT,
		    "zstd data expands to more than the %zu bytes it says",
		    size);
	}
	return rc;
}

/*
 * A frame that does not say: attempts with more and more room.  The streaming
 * decoder would need one pass, but also a window of up to 128 MiB, as large
 * as the frame pleases; this takes no memory but the output, and all attempts
 * together do 4/3 of the work of the last.
 */
static int expand_unsized(struct codec *c, const void *p, size_t n, size_t most,
    struct buf *out, struct err *e)
{
	size_t room = most - out->len;
	size_t guess = n < room / GUESS_RATIO ? n * GUESS_RATIO : room;
	bool full = true;
	int rc = 0;

	if (guess < GUESS_MIN)
		guess = GUESS_MIN < room ? GUESS_MIN : room;
	for (;;) {
		if (guess < out->cap - out->len)
			guess = out->cap - out->len;
		if (guess > room)
			guess = room;
		rc = reserve_within(out, guess, most, e);
		if (rc < 0)
			return rc;
		rc = expand_into(c, p, n, room, out, &full, e);
		if (rc < 0 || !full)
			return rc;
		if (out->cap - out->len >= room)
			return too_large(e, room);
		guess = guess < room / GUESS_RATIO ? guess * GUESS_RATIO : room;
	}
}

/* RFC 8878 only: libzstd may have been built to read its old formats too. */
static bool is_frame(const uint8_t *p, size_t n)
{
	uint32_t magic = n >= 4 ? bytes_get_le32(p) : 0;

	return magic == MAGIC_FRAME ||
	    (magic & MAGIC_SKIPPABLE_MASK) == MAGIC_SKIPPABLE;
}

/* The frame at the start of p[0..n): expand it and say how long it is. */
static int expand_frame(struct codec *c, const uint8_t *p, size_t n,
    size_t most, struct buf *out, size_t *ret_used, struct err *e)
{
	unsigned long long size = 0;
	size_t used = 0;
	int rc = 0;

	if (!is_frame(p, n)) {
		return err_set(e, ERR_CORRUPT,
		    "zstd data: %zu bytes that are no frame", n);
	}
	used = ZSTD_findFrameCompressedSize(p, n);
	if (ZSTD_isError(used))
		return corrupt(e, used);
	size = ZSTD_getFrameContentSize(p, n);
	if (size == ZSTD_CONTENTSIZE_ERROR)
		return err_set(e, ERR_CORRUPT, "zstd data: no frame header");
	if (size == ZSTD_CONTENTSIZE_UNKNOWN) {
		rc = expand_unsized(c, p, used, most, out, e);
	} else if (size > most - out->len) {
		rc = too_large(e, most - out->len);
	} else {
		rc = expand_sized(c, p, used, (size_t)size, most, out, e);
	}
	if (rc == 0)
		*ret_used = used;
	return rc;
}

int codec_expand(struct codec *c, const void *p, size_t n, size_t limit,
    struct buf *out, struct err *e)
{
	const uint8_t *at = p;
	size_t before = out->len;
	size_t most = 0;
	size_t used = 0;
	int rc = 0;

	if (n == 0)
		return err_set(e, ERR_CORRUPT, "zstd data: empty");
	if (__builtin_add_overflow(before, limit, &most) || most > PTRDIFF_MAX)
		most = PTRDIFF_MAX;
	while (n > 0) {
		rc = expand_frame(c, at, n, most, out, &used, e);
		if (rc < 0) {
			out->len = before;
			return rc;
		}
		at += used;
		n -= used;
	}
	return 0;
}
