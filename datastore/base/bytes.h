/* SPDX-License-Identifier: MIT */
/*
 * bytes: little-endian integers in byte strings, and checked arithmetic.
 *
 * All on-disk formats of cairn are little-endian.  The get/put functions work
 * at any alignment.  The checked ones return false, and leave *r alone, when
 * the result does not fit: sizes that come from files go through these.
 */
#ifndef CAIRN_DATASTORE_BASE_BYTES_H
#define CAIRN_DATASTORE_BASE_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline uint32_t bytes_get_le32(const uint8_t *p)
{
	return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 |
	    (uint32_t)p[3] << 24;
}

static inline uint64_t bytes_get_le64(const uint8_t *p)
{
	return (uint64_t)bytes_get_le32(p) |
	    (uint64_t)bytes_get_le32(p + 4) << 32;
}

static inline void bytes_put_le32(uint8_t *p, uint32_t v)
{
	for (unsigned i = 0; i < 4; i++)
		p[i] = (uint8_t)(v >> (8 * i));
}

static inline void bytes_put_le64(uint8_t *p, uint64_t v)
{
	for (unsigned i = 0; i < 8; i++)
		p[i] = (uint8_t)(v >> (8 * i));
}

static inline bool bytes_add_u64(uint64_t a, uint64_t b, uint64_t *r)
{
	uint64_t sum = 0;

	if (__builtin_add_overflow(a, b, &sum))
		return false;
	*r = sum;
	return true;
}

static inline bool bytes_mul_u64(uint64_t a, uint64_t b, uint64_t *r)
{
	uint64_t product = 0;

	if (__builtin_mul_overflow(a, b, &product))
		return false;
	*r = product;
	return true;
}

/* Of real data the first bytes tell; only zeros cost a look at all. */
static inline bool bytes_are_zero(const uint8_t *p, size_t n)
{
	return n == 0 || (p[0] == 0 && memcmp(p, p + 1, n - 1) == 0);
}

static inline bool bytes_is_power_of_two(uint64_t v)
{
	return v != 0 && (v & (v - 1)) == 0;
}

#endif
