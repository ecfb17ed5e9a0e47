/* SPDX-License-Identifier: MIT */
#include "index/hashidx.h"

#include <stdlib.h>

#define SLOTS_MIN 1024

struct hashidx_slot {
	uint32_t hash;
	uint32_t next_value; /* the value plus one; 0: the slot is free */
};

void hashidx_release(struct hashidx *h)
{
	free(h->slots);
	*h = (struct hashidx){ .slots = NULL };
}

static void place(struct hashidx_slot *slots, size_t n, struct hashidx_slot s)
{
	size_t i = s.hash & (n - 1);

	while (slots[i].next_value != 0)
		i = (i + 1) & (n - 1);
	slots[i] = s;
}

static int grow(struct hashidx *h, struct err *e)
{
	size_t n = h->slots_n == 0 ? SLOTS_MIN : 2 * h->slots_n;
	struct hashidx_slot *slots = calloc(n, sizeof(*slots));

	if (slots == NULL)
		return err_nomem(e);
	for (size_t i = 0; i < h->slots_n; i++) {
		if (h->slots[i].next_value != 0)
			place(slots, n, h->slots[i]);
	}
	free(h->slots);
	h->slots = slots;
	h->slots_n = n;
	return 0;
}

int hashidx_add(struct hashidx *h, uint32_t hash, uint32_t value, struct err *e)
{
	int rc = 0;

	if (h->used >= HASHIDX_MAX)
		return err_set(e, ERR_LIMIT, "more than %u names", HASHIDX_MAX);
	if (h->used >= h->slots_n / 4 * 3)
		rc = grow(h, e);
	if (rc < 0)
		return rc;
	place(h->slots, h->slots_n,
	    (struct hashidx_slot){ .hash = hash, .next_value = value + 1 });
	h->used++;
	return 0;
}

bool hashidx_next(
    const struct hashidx *h, uint32_t hash, size_t *at, uint32_t *ret)
{
	while (h->slots_n > 0) {
		const struct hashidx_slot *s =
		    &h->slots[(hash + (*at)++) & (h->slots_n - 1)];

		if (s->next_value == 0)
			return false;
		if (s->hash == hash) {
			*ret = s->next_value - 1;
			return true;
		}
	}
	return false;
}
