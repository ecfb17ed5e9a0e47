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
	s->used = calloc(s->sets, sizeof(*s->used));
	s->next = calloc(s->sets, sizeof(*s->next));
	if (s->slots == NULL || s->used == NULL || s->next == NULL) {
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
	free(s->used);
	free(s->next);
	free(s);
}

static size_t set_of(const struct seenset *s, const struct digest *d)
{
	return (size_t)(bytes_get_le64(d->b + HASH_AT) & (s->sets - 1));
}

bool seenset_contains(const struct seenset *s, const struct digest *d)
{
	size_t set = set_of(s, d);
	const struct digest *slots = s->slots + set * WAYS;

	for (size_t i = 0; i < s->used[set]; i++) {
		if (digest_equal(&slots[i], d))
			return true;
	}
	return false;
}

void seenset_add(struct seenset *s, const struct digest *d)
{
	size_t set = set_of(s, d);
	struct digest *slots = s->slots + set * WAYS;

	if (seenset_contains(s, d))
		return;
	if (s->used[set] < WAYS) {
		slots[s->used[set]] = *d;
		s->used[set]++;
		return;
	}
	/* The oldest one goes. */
	slots[s->next[set]] = *d;
	s->next[set] = (uint8_t)((s->next[set] + 1U) % WAYS);
}
