/* SPDX-License-Identifier: MIT */
#include "index/tree_placed.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "datastore/base/bytes.h"

/* Records are taken in blocks, so that none is ever moved. */
#define BLOCK ((size_t)4096)

#define BUCKETS_MIN ((size_t)4096)

/* One bit for each hash of a size, of sizes that are worth it. */
#define SIZE_BITS ((size_t)1 << 20)
#define SIZE_MIN (64U << 10)

#define NONE UINT32_MAX

struct record {
	struct digest digest;
	uint64_t size;
	uint64_t pos;
	uint32_t next; /* in the bucket */
};

struct tree_placed {
	struct record **blocks;
	size_t most;
	uint64_t added; /* record number i lies in place i % most */
	uint32_t *buckets;
	size_t buckets_n; /* a power of two */
	uint8_t *sizes;
};

int tree_placed_new(size_t most, struct tree_placed **ret, struct err *e)
{
	struct tree_placed *t = calloc(1, sizeof(*t));

	if (t == NULL)
		return err_nomem(e);
	t->most = most > 0 ? most : TREE_PLACED_MAX;
	assert(bytes_is_power_of_two(t->most) && t->most <= TREE_PLACED_MAX);
	t->buckets_n = BUCKETS_MIN;
	t->blocks = calloc((t->most + BLOCK - 1) / BLOCK, sizeof(*t->blocks));
	t->buckets = malloc(t->buckets_n * sizeof(*t->buckets));
	t->sizes = calloc(1, SIZE_BITS / 8);
	if (t->blocks == NULL || t->buckets == NULL || t->sizes == NULL) {
		tree_placed_free(t);
		return err_nomem(e);
	}
	memset(t->buckets, 0xff, t->buckets_n * sizeof(*t->buckets));
	*ret = t;
	return 0;
}

void tree_placed_free(struct tree_placed *t)
{
	if (t == NULL)
		return;
	for (size_t i = 0; t->blocks != NULL && i < t->most; i += BLOCK)
		free(t->blocks[i / BLOCK]);
	free(t->blocks);
	free(t->buckets);
	free(t->sizes);
	free(t);
}

static struct record *record(const struct tree_placed *t, uint32_t i)
{
	return &t->blocks[i / BLOCK][i % BLOCK];
}

/* A digest is its own hash. */
static size_t bucket(const struct tree_placed *t, const struct digest *d)
{
	return (size_t)bytes_get_le64(d->b) & (t->buckets_n - 1);
}

bool tree_placed_find(const struct tree_placed *t, const struct digest *d,
    uint64_t size, uint64_t *ret_pos)
{
	uint32_t i = t->buckets[bucket(t, d)];

	while (i != NONE) {
		const struct record *r = record(t, i);

		if (r->size == size && digest_equal(&r->digest, d)) {
			*ret_pos = r->pos;
			return true;
		}
		i = r->next;
	}
	return false;
}

static size_t size_bit(uint64_t size)
{
	return (size_t)(size * 0x9e3779b97f4a7c15U >> 40) & (SIZE_BITS - 1);
}

bool tree_placed_has_size(const struct tree_placed *t, uint64_t size)
{
	size_t bit = size_bit(size);

	return size < SIZE_MIN || (t->sizes[bit / 8] & 1U << bit % 8) != 0;
}

static void insert(struct tree_placed *t, uint32_t i)
{
	struct record *r = record(t, i);
	size_t b = bucket(t, &r->digest);

	r->next = t->buckets[b];
	t->buckets[b] = i;
}

/* Without memory for it the chains get longer, no more. */
static void grow(struct tree_placed *t)
{
	size_t n = 2 * t->buckets_n;
	uint32_t *more = NULL;

	if (t->added < t->buckets_n || t->buckets_n >= t->most)
		return;
	more = malloc(n * sizeof(*more));
	if (more == NULL)
		return;
	memset(more, 0xff, n * sizeof(*more));
	free(t->buckets);
	t->buckets = more;
	t->buckets_n = n;
	for (uint64_t i = 0; i < t->added; i++)
		insert(t, (uint32_t)i);
}

static void forget(struct tree_placed *t, uint32_t i)
{
	const struct record *r = record(t, i);
	uint32_t *at = &t->buckets[bucket(t, &r->digest)];

	while (*at != i)
		at = &record(t, *at)->next;
	*at = r->next;
}

int tree_placed_add(struct tree_placed *t, const struct digest *d,
    uint64_t size, uint64_t pos, struct err *e)
{
	uint32_t i = (uint32_t)(t->added % t->most);
	size_t bit = size_bit(size);
	struct record *r = NULL;

	if (t->blocks[i / BLOCK] == NULL) {
		t->blocks[i / BLOCK] = malloc(BLOCK * sizeof(*r));
		if (t->blocks[i / BLOCK] == NULL)
			return err_nomem(e);
	}
	if (t->added >= t->most)
		forget(t, i);
	else
		grow(t);
	r = record(t, i);
	r->digest = *d;
	r->size = size;
	r->pos = pos;
	insert(t, i);
	t->added++;
	if (size >= SIZE_MIN)
		t->sizes[bit / 8] |= (uint8_t)(1U << bit % 8);
	return 0;
}
