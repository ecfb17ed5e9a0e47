/* SPDX-License-Identifier: MIT */
/*
 * blob: the container of chunks and of `.blob` files.
 *
 *     plain      magic 8 | CRC-32 4 (LE) | data
 *     encrypted  magic 8 | CRC-32 4 (LE) | IV 16 | tag 16 | data
 *
 * The CRC is CRC-32/ISO-HDLC (zlib's crc32) of everything behind the header;
 * the magics are the first 8 bytes of the SHA-256 of a label.  Both are the
 * Proxmox Backup Server format; etc/doc/format-store.md has the whole of it.
 *
 * Encrypted blobs are recognised and their CRC is checked; without a key
 * their content is left alone (ERR_UNSUPPORTED).
 */
#ifndef CAIRN_DATASTORE_BLOB_H
#define CAIRN_DATASTORE_BLOB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "datastore/base/buf.h"
#include "datastore/base/err.h"
#include "datastore/compress.h"

#define BLOB_HEADER_SIZE 12
#define BLOB_ENCRYPTED_HEADER_SIZE 44
#define BLOB_MAX_PLAIN (128U << 20) /* content of a .blob file */
#define CHUNK_MAX_PLAIN (16U << 20) /* content of a chunk */
#define CHUNK_MAX_FILE (CHUNK_MAX_PLAIN + BLOB_ENCRYPTED_HEADER_SIZE)

enum blob_kind {
	BLOB_PLAIN,
	BLOB_ZSTD,
	BLOB_ENCRYPTED,
	BLOB_ENCRYPTED_ZSTD,
};

static inline bool blob_is_encrypted(enum blob_kind k)
{
	return k == BLOB_ENCRYPTED || k == BLOB_ENCRYPTED_ZSTD;
}

static inline size_t blob_header_size(enum blob_kind k)
{
	return blob_is_encrypted(k) ? BLOB_ENCRYPTED_HEADER_SIZE
				    : BLOB_HEADER_SIZE;
}

const char *blob_kind_name(enum blob_kind k); /* "plain", "zstd", ... */

/*
 * Encode: compressed at `level` where that is smaller, else plain.  level 0:
 * never compressed.  out is replaced.
 */
int blob_encode(struct codec *c, int level, const void *p, size_t n,
    struct buf *out, struct err *e);

/* Magic and length of the header; nothing is said of the rest. */
int blob_identify(
    const void *raw, size_t n, enum blob_kind *ret, struct err *e);

/* Header and CRC. */
int blob_check(const void *raw, size_t n, enum blob_kind *ret, struct err *e);

/*
 * blob_check, then the content into out (replaced), at most limit bytes
 * (ERR_LIMIT).  ERR_CORRUPT if anything is wrong, ERR_UNSUPPORTED if it is
 * encrypted.
 */
int blob_decode(struct codec *c, const void *raw, size_t n, size_t limit,
    struct buf *out, struct err *e);

#endif
