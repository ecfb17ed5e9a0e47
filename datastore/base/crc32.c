/* SPDX-License-Identifier: MIT */
#include "datastore/base/crc32.h"

#include <zlib.h>

uint32_t crc32_of(const void *p, size_t n)
{
	return (uint32_t)crc32_z(crc32_z(0, NULL, 0), p, n);
}
