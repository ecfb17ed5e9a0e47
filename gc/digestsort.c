/* SPDX-License-Identifier: MIT */
#include "gc/digestsort.h"

#include <stdint.h>

#define RADIX 256U
#define RADIX_LEVELS 2U

/* Below this, comparing beats counting. */
#define COUNT_FROM 64U
#define INSERTION_MAX 24U

static void swap(struct digest *a, struct digest *b)
{
	struct digest tmp = *a;

	*a = *b;
	*b = tmp;
}

static void insertion_sort(struct digest *d, size_t n)
{
	for (size_t i = 1; i < n; i++) {
		struct digest key = d[i];
		size_t at = i;

		while (at > 0 && digest_compare(&d[at - 1], &key) > 0) {
			d[at] = d[at - 1];
			at--;
		}
		d[at] = key;
	}
}

static void sift_down(struct digest *d, size_t root, size_t n)
{
	for (;;) {
		size_t child = 2 * root + 1;

		if (child >= n)
			return;
		if (child + 1 < n &&
		    digest_compare(&d[child], &d[child + 1]) < 0)
			child++;
		if (digest_compare(&d[root], &d[child]) >= 0)
			return;
		swap(&d[root], &d[child]);
		root = child;
	}
}

/* In place, and n log n whatever the content: digests come from files. */
static void heap_sort(struct digest *d, size_t n)
{
	for (size_t i = n / 2; i > 0; i--)
		sift_down(d, i - 1, n);
	for (size_t end = n; end > 1; end--) {
		swap(&d[0], &d[end - 1]);
		sift_down(d, 0, end - 1);
	}
}

static void sort_small(struct digest *d, size_t n)
{
	if (n <= INSERTION_MAX) {
		insertion_sort(d, n);
	} else {
		heap_sort(d, n);
	}
}

/*
 * Put each digest into the bucket of its byte number `level`, by following
 * the cycles of the permutation.  start[v] is where bucket v begins.
 */
static void scatter(
    struct digest *d, size_t n, size_t level, size_t start[RADIX + 1])
{
	size_t next[RADIX];
	size_t at = 0;

	for (size_t v = 0; v <= RADIX; v++)
		start[v] = 0;
	for (size_t i = 0; i < n; i++)
		start[d[i].b[level] + 1U]++;
	for (size_t v = 0; v < RADIX; v++) {
		start[v + 1] += start[v];
		next[v] = start[v];
	}
	for (size_t v = 0; v < RADIX; v++) {
		while (next[v] < start[v + 1]) {
			at = d[next[v]].b[level];
			if (at == v) {
				next[v]++;
			} else {
				swap(&d[next[v]], &d[next[at]]);
				next[at]++;
			}
		}
	}
}

static void sort_second(struct digest *d, size_t n)
{
	size_t start[RADIX + 1];

	if (n < COUNT_FROM) {
		sort_small(d, n);
		return;
	}
	scatter(d, n, RADIX_LEVELS - 1, start);
	for (size_t v = 0; v < RADIX; v++)
		sort_small(d + start[v], start[v + 1] - start[v]);
}

void digest_sort(struct digest *d, size_t n)
{
	size_t start[RADIX + 1];

	if (n < COUNT_FROM) {
		sort_small(d, n);
		return;
	}
	scatter(d, n, 0, start);
	for (size_t v = 0; v < RADIX; v++)
		sort_second(d + start[v], start[v + 1] - start[v]);
}

size_t digest_unique(struct digest *d, size_t n)
{
	size_t kept = 0;

	for (size_t i = 0; i < n; i++) {
		if (kept == 0 || !digest_equal(&d[kept - 1], &d[i])) {
			d[kept] = d[i];
			kept++;
		}
	}
	return kept;
}

size_t digest_lower_bound(
    const struct digest *d, size_t n, const struct digest *key)
{
	size_t low = 0;
	size_t high = n;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (digest_compare(&d[mid], key) < 0) {
			low = mid + 1;
		} else {
			high = mid;
		}
	}
	return low;
}
