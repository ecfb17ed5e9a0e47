/* SPDX-License-Identifier: MIT */
/*
 * compress: zstd frames of blobs (RFC 8878), bounded in both directions.
 *
 * The only home of libzstd.  A codec holds the library's contexts so that
 * they are made once per thread; it belongs to one thread.
 */
#ifndef CAIRN_DATASTORE_COMPRESS_H
#define CAIRN_DATASTORE_COMPRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "datastore/base/buf.h"
#include "datastore/base/err.h"

#define COMPRESS_LEVEL_DEFAULT 3
#define COMPRESS_LEVEL_MIN 1
#define COMPRESS_LEVEL_MAX 19

struct codec;

int codec_new(struct codec **ret, struct err *e);
void codec_free(struct codec *c); /* NULL is allowed */

/*
 * Append one frame, with its content size in it, to out if that takes less
 * than n bytes; else leave out as it was and set *ret_smaller to false.
 */
int codec_compress(struct codec *c, int level, const void *p, size_t n,
    struct buf *out, bool *ret_smaller, struct err *e);

/*
 * Append the content of the frame or frames that p[0..n) is exactly.  Frames
 * without a content size are fine.  More than limit bytes: ERR_LIMIT, before
 * more than limit bytes of memory are taken, whatever the frame says of
 * itself.  Anything else that is wrong with it: ERR_CORRUPT.
 */
int codec_expand(struct codec *c, const void *p, size_t n, size_t limit,
    struct buf *out, struct err *e);

#endif
