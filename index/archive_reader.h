/* SPDX-License-Identifier: MIT */
/*
 * archive_reader: bytes of an archive from anywhere, over a small cache of
 * chunks.
 *
 * For look-ups in catalogs and for single files of a tree; whole streams come
 * faster from archive_extract.  Each chunk is checked whole (CRC, length,
 * SHA-256) when it is loaded.  A reader belongs to one thread, and so does the
 * archive it borrows.
 */
#ifndef CAIRN_INDEX_ARCHIVE_READER_H
#define CAIRN_INDEX_ARCHIVE_READER_H

#include <stddef.h>
#include <stdint.h>

#include "datastore/base/err.h"
#include "index/archive.h"

struct archive_reader;

/*
 * cache: bytes of chunks that are kept, the least lately used go first; one
 * chunk is always kept.  The archive is borrowed and must outlive the reader.
 */
int archive_reader_new(struct archive *a, size_t cache,
    struct archive_reader **ret, struct err *e);
void archive_reader_free(struct archive_reader *r); /* NULL is allowed */

/*
 * Exactly n bytes from offset `at`; all of them lie within archive_size, else
 * ERR_INVALID.  A missing or bad chunk: ERR_CORRUPT naming it, the index file
 * and the offset.
 */
int archive_reader_pread(
    struct archive_reader *r, void *p, size_t n, uint64_t at, struct err *e);

/*
 * The same without a copy: *ret_p has *ret_n bytes (1 to n) from `at` on,
 * good until the next call.
 */
int archive_reader_peek(struct archive_reader *r, size_t n, uint64_t at,
    const uint8_t **ret_p, size_t *ret_n, struct err *e);

/* Chunks loaded so far, for tests and --verbose. */
uint64_t archive_reader_loads(const struct archive_reader *r);

#endif
