/* SPDX-License-Identifier: MIT */
#include "datastore/touchorder.h"

#include <stdbool.h>

#include "datastore/base/bytes.h"

#define RADIX 256U
#define RADIX_BITS 8
#define KEY_BITS 64

/* Below this, comparing beats counting. */
#define COUNT_FROM 64U

/* Up to here every two of a prefix are compared to find equal ones. */
#define PAIRS_MAX 48U

static void insertion_sort(uint64_t *keys, size_t n)
{
	for (size_t i = 1; i < n; i++) {
		uint64_t key = keys[i];
		size_t at = i;

		while (at > 0 && keys[at - 1] > key) {
			keys[at] = keys[at - 1];
			at--;
		}
		keys[at] = key;
	}
}

/*
 * Put each key into the bucket of the byte at `shift`, by following the
 * cycles of the permutation; start[v] is where bucket v begins.
 */
static void scatter(
    uint64_t *keys, size_t n, int shift, size_t start[RADIX + 1])
{
	size_t next[RADIX];

	for (size_t v = 0; v <= RADIX; v++)
		start[v] = 0;
	for (size_t i = 0; i < n; i++)
		start[(keys[i] >> shift & (RADIX - 1)) + 1]++;
	for (size_t v = 0; v < RADIX; v++) {
		start[v + 1] += start[v];
		next[v] = start[v];
	}
	for (size_t v = 0; v < RADIX; v++) {
		while (next[v] < start[v + 1]) {
			uint64_t key = keys[next[v]];
			size_t to = key >> shift & (RADIX - 1);

			if (to != v) {
				keys[next[v]] = keys[next[to]];
				keys[next[to]] = key;
			}
			next[to]++;
		}
	}
}

/* At most 8 levels deep, each of 4 KiB. */
static void sort_from(uint64_t *keys, size_t n, int shift)
{
	size_t start[RADIX + 1];

	if (n < COUNT_FROM) {
		insertion_sort(keys, n);
		return;
	}
	scatter(keys, n, shift, start);
	if (shift == 0)
		return;
	for (size_t v = 0; v < RADIX; v++)
		sort_from(keys + start[v], start[v + 1] - start[v],
		    shift - RADIX_BITS);
}

void touchorder_sort(uint64_t *keys, size_t n)
{
	uint64_t all = 0;
	int shift = KEY_BITS - RADIX_BITS;

	/* Bytes that are zero in every key need no pass. */
	for (size_t i = 0; i < n; i++)
		all |= keys[i];
	while (shift > 0 && all >> shift == 0)
		shift -= RADIX_BITS;
	sort_from(keys, n, shift);
}

/* By digest, then by number. */
static bool is_before(const struct digest *d, uint64_t a, uint64_t b)
{
	int c =
	    digest_compare(&d[touchorder_index(a)], &d[touchorder_index(b)]);

	return c < 0 || (c == 0 && a < b);
}

static void sift_down(
    const struct digest *d, uint64_t *keys, size_t root, size_t n)
{
	for (;;) {
		size_t child = 2 * root + 1;
		uint64_t tmp = 0;

		if (child >= n)
			return;
		if (child + 1 < n && is_before(d, keys[child], keys[child + 1]))
			child++;
		if (!is_before(d, keys[root], keys[child]))
			return;
		tmp = keys[root];
		keys[root] = keys[child];
		keys[child] = tmp;
		root = child;
	}
}

/* In place, and n log n whatever the content: digests come from files. */
static void sort_by_digest(const struct digest *d, uint64_t *keys, size_t n)
{
	for (size_t i = n / 2; i > 0; i--)
		sift_down(d, keys, i - 1, n);
	for (size_t end = n; end > 1; end--) {
		uint64_t tmp = keys[0];

		keys[0] = keys[end - 1];
		keys[end - 1] = tmp;
		sift_down(d, keys, 0, end - 1);
	}
}

static bool same(const struct digest *d, uint64_t a, uint64_t b)
{
	return digest_equal(&d[touchorder_index(a)], &d[touchorder_index(b)]);
}

/* Drop repetitions among the keys of one prefix; how many stay. */
static size_t drop_repeated(const struct digest *d, uint64_t *keys, size_t n)
{
	size_t kept = 0;

	if (n > PAIRS_MAX) {
		sort_by_digest(d, keys, n);
		for (size_t i = 0; i < n; i++) {
			if (kept == 0 || !same(d, keys[kept - 1], keys[i]))
				keys[kept++] = keys[i];
		}
		touchorder_sort(keys, kept);
		return kept;
	}
	for (size_t i = 0; i < n; i++) {
		size_t k = 0;

		while (k < kept && !same(d, keys[k], keys[i]))
			k++;
		if (k == kept)
			keys[kept++] = keys[i];
	}
	return kept;
}

size_t touchorder_by_prefix(const struct digest *d, size_t n, uint64_t *keys)
{
	size_t kept = 0;
	size_t end = 0;

	for (size_t i = 0; i < n; i++)
		keys[i] = touchorder_key(digest_prefix(&d[i]), i);
	touchorder_sort(keys, n);
	for (size_t first = 0; first < n; first = end) {
		uint64_t prefix = touchorder_rank(keys[first]);
		size_t few = 0;

		end = first + 1;
		while (end < n && touchorder_rank(keys[end]) == prefix)
			end++;
		few = drop_repeated(d, keys + first, end - first);
		for (size_t i = 0; i < few; i++)
			keys[kept++] = keys[first + i];
	}
	return kept;
}
