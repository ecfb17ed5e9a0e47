/* SPDX-License-Identifier: MIT */
/*
 * digest: SHA-256 of chunks, index files and blobs.
 *
 * A chunk's identity is the SHA-256 of its plain content (FIPS 180-4).  This
 * is the only home of OpenSSL's digest calls.
 */
#ifndef CAIRN_DATASTORE_BASE_DIGEST_H
#define CAIRN_DATASTORE_BASE_DIGEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "datastore/base/err.h"

#define DIGEST_SIZE 32
#define DIGEST_HEX_SIZE 65 /* 64 lower-case digits and NUL */

struct digest {
	uint8_t b[DIGEST_SIZE];
};

static inline int digest_compare(const struct digest *a, const struct digest *b)
{
	return memcmp(a->b, b->b, DIGEST_SIZE);
}

static inline bool digest_equal(const struct digest *a, const struct digest *b)
{
	return memcmp(a->b, b->b, DIGEST_SIZE) == 0;
}

/* For qsort over an array of struct digest. */
int digest_qsort(const void *a, const void *b);

/* The first two bytes as a number: which prefix directory a chunk lies in. */
static inline unsigned digest_prefix(const struct digest *d)
{
	return (unsigned)d->b[0] << 8 | d->b[1];
}

void digest_hex(const struct digest *d, char out[DIGEST_HEX_SIZE]);

/* Exactly 64 lower-case hex digits, no more read than n; false if not. */
bool digest_parse(const char *s, size_t n, struct digest *ret);

/* One piece. */
int digest_of(const void *p, size_t n, struct digest *ret, struct err *e);

/* Piece by piece. */
struct digest_ctx;
int digest_ctx_new(struct digest_ctx **ret, struct err *e);
int digest_ctx_update(
    struct digest_ctx *c, const void *p, size_t n, struct err *e);
/* The digest so far; the context starts anew. */
int digest_ctx_final(struct digest_ctx *c, struct digest *ret, struct err *e);
void digest_ctx_free(struct digest_ctx *c);

#endif
