/* SPDX-License-Identifier: MIT */
/*
 * crc32: CRC-32/ISO-HDLC, the checksum of blobs and of the chunk index.
 *
 * It is zlib's crc32; this is the only home of zlib.
 */
#ifndef CAIRN_DATASTORE_BASE_CRC32_H
#define CAIRN_DATASTORE_BASE_CRC32_H

#include <stddef.h>
#include <stdint.h>

uint32_t crc32_of(const void *p, size_t n);

#endif
