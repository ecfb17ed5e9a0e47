/* SPDX-License-Identifier: MIT */
#include "datastore/seenset.h"

#include <stdint.h>
#include <stdlib.h>

#include "datastore/base/bytes.h"

/* A set of the table: as many digests as two cache lines hold. */
#define WAYS 4U

/* Which bytes of a digest choose its set.  Not the first ones: what is asked
 * for comes in order of those, and then all would fall on one set's
 * neighbours. */
#define HASH_AT 8

struct seenset {
	struct digest *slots; /* sets * WAYS */
	uint8_t *tags;        /* one per slot */
	/* Per set: how many slots are filled, then which one is next to go. */
	uint8_t *used;
	uint8_t *next;
	size_t sets; /* a power of two */
};

int seenset_new(size_t capacity, struct seenset **ret, struct err *e)
{
	struct seenset *s = calloc(1, sizeof(*s));

	if (s == NULL)
		return err_nomem(e);
	s->sets = 1;
	while (s->sets <= capacity / WAYS / 2)
		s->sets *= 2;
	/* calloc: pages that are never needed are never taken. */
	s->slots = calloc(s->sets * WAYS, sizeof(*s->slots));
	s->tags = calloc(s->sets * WAYS, sizeof(*s->tags));
	s->used = calloc(s->sets, sizeof(*s->used));
	s->next = calloc(s->sets, sizeof(*s->next));
	if (s->slots == NULL || s->tags == NULL || s->used == NULL ||
	    s->next == NULL) {
		seenset_free(s);
		return err_nomem(e);
	}
	*ret = s;
	return 0;
}

void seenset_free(struct seenset *s)
{
	if (s == NULL)
		return;
	free(s->slots);
	free(s->tags);
	free(s->used);
	free(s->next);
	free(s);
}

static size_t set_of(const struct seenset *s, const struct digest *d)
{
	return (size_t)(bytes_get_le64(d->b + HASH_AT) & (s->sets - 1));
}

bool seenset_find(
    const struct seenset *s, const struct digest *d, uint8_t *ret_tag)
{
	size_t set = set_of(s, d);
	const struct digest *slots = s->slots + set * WAYS;

	for (size_t i = 0; i < s->used[set]; i++) {
		if (digest_equal(&slots[i], d)) {
			*ret_tag = s->tags[set * WAYS + i];
			return true;
		}
	}
	return false;
}

bool seenset_contains(const struct seenset *s, const struct digest *d)
{
	uint8_t ignored = 0;

	return seenset_find(s, d, &ignored);
}

void seenset_add_tagged(struct seenset *s, const struct digest *d, uint8_t tag)
{
	size_t set = set_of(s, d);
	size_t slot = 0;

	if (s->used[set] < WAYS) {
		slot = set * WAYS + s->used[set];
		s->used[set]++;
	} else {
		/* The oldest one goes. */
		slot = set * WAYS + s->next[set];
		s->next[set] = (uint8_t)((s->next[set] + 1U) % WAYS);
	}
	s->slots[slot] = *d;
	s->tags[slot] = tag;
}

void seenset_add(struct seenset *s, const struct digest *d)
{
	if (!seenset_contains(s, d))
		seenset_add_tagged(s, d, 0);
}
