/* SPDX-License-Identifier: MIT */
/*
 * buf: a growable string of bytes.
 *
 * `struct buf b = BUF_INIT;` is empty and owns nothing.  data[0..len) are the
 * bytes; data may be NULL while len is 0.  A pointer into data is good until
 * the next call that may grow it.  Growth keeps what is there when it fails.
 * buf_reset keeps the memory: loops reuse one buf.
 */
#ifndef CAIRN_DATASTORE_BASE_BUF_H
#define CAIRN_DATASTORE_BASE_BUF_H

#include <stddef.h>
#include <stdint.h>

#include "datastore/base/err.h"

struct buf {
	uint8_t *data;
	size_t len;
	size_t cap;
};

#define BUF_INIT                                 \
	{                                        \
		.data = NULL, .len = 0, .cap = 0 \
	}

void buf_release(struct buf *b); /* frees; b is empty and usable again */
void buf_reset(struct buf *b);   /* len = 0, memory kept */

/* Make room for n more bytes behind len. */
int buf_reserve(struct buf *b, size_t n, struct err *e);

int buf_append(struct buf *b, const void *p, size_t n, struct err *e);
int buf_append_str(struct buf *b, const char *s, struct err *e);
int buf_append_fmt(struct buf *b, struct err *e, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/*
 * The bytes as a C string: a NUL stands behind data[len), uncounted.  Bytes
 * that are NUL themselves are the caller's affair.  NULL and *e if memory is
 * out; the pointer is good until the next change of b.
 */
const char *buf_cstr(struct buf *b, struct err *e);

/* Hand the memory over as a C string, to be freed; b is empty then. */
char *buf_detach_str(struct buf *b, struct err *e);

#endif
