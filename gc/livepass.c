/* SPDX-License-Identifier: MIT */
#include "gc/livepass.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "gc/digestsort.h"

/* Room for what was added since the last sort: a quarter of the capacity, so
 * that memory stays within 40 bytes per digest; not too little. */
#define TAIL_SHARE 4U
#define TAIL_MIN 64U

struct livepass {
	struct digest *d;
	size_t capacity;
	size_t room; /* capacity and tail */
	size_t n;    /* sorted and unsorted */
	struct digest lo;
	struct digest hi; /* if bounded: what is not below it was dropped */
	bool bounded;
	uint8_t *seen; /* a bit per digest, after livepass_end */
};

int livepass_new(size_t capacity, struct livepass **ret, struct err *e)
{
	struct livepass *p = calloc(1, sizeof(*p));

	if (p == NULL)
		return err_nomem(e);
	p->capacity = capacity;
	p->room = capacity + capacity / TAIL_SHARE + TAIL_MIN;
	p->d = calloc(p->room, sizeof(*p->d));
	p->seen = calloc(p->room / 8 + 1, 1);
	if (p->d == NULL || p->seen == NULL) {
		livepass_free(p);
		return err_nomem(e);
	}
	*ret = p;
	return 0;
}

void livepass_free(struct livepass *p)
{
	if (p == NULL)
		return;
	free(p->d);
	free(p->seen);
	free(p);
}

void livepass_begin(struct livepass *p, const struct digest *lo)
{
	p->lo = *lo;
	p->bounded = false;
	p->n = 0;
}

/*
 * Keep the smallest ones.  The first that finds no room becomes hi: each
 * digest that was ever dropped is not below it, because hi only falls.
 */
static void compact(struct livepass *p)
{
	digest_sort(p->d, p->n);
	p->n = digest_unique(p->d, p->n);
	if (p->n <= p->capacity)
		return;
	p->hi = p->d[p->capacity];
	p->bounded = true;
	p->n = p->capacity;
}

static bool in_range(const struct livepass *p, const struct digest *d)
{
	return digest_compare(d, &p->lo) >= 0 &&
	    (!p->bounded || digest_compare(d, &p->hi) < 0);
}

void livepass_add(struct livepass *p, const struct digest *d)
{
	/* Before and behind compacting, which may bring hi down to it. */
	if (in_range(p, d) && p->n == p->room)
		compact(p);
	if (!in_range(p, d))
		return;
	p->d[p->n] = *d;
	p->n++;
}

void livepass_end(struct livepass *p, struct digest *ret_hi, bool *ret_is_end)
{
	compact(p);
	memset(p->seen, 0, p->room / 8 + 1);
	*ret_hi = p->hi;
	*ret_is_end = !p->bounded;
}

/* Where it is, or p->n. */
static size_t find(const struct livepass *p, const struct digest *d)
{
	size_t at = digest_lower_bound(p->d, p->n, d);

	return at < p->n && digest_equal(&p->d[at], d) ? at : p->n;
}

bool livepass_contains(const struct livepass *p, const struct digest *d)
{
	return find(p, d) < p->n;
}

size_t livepass_count(const struct livepass *p)
{
	return p->n;
}

void livepass_see(struct livepass *p, const struct digest *d)
{
	size_t at = find(p, d);

	if (at < p->n)
		p->seen[at / 8] |= (uint8_t)(1U << at % 8);
}

const struct digest *livepass_next_unseen(const struct livepass *p, size_t *at)
{
	while (*at < p->n) {
		size_t i = (*at)++;

		if ((p->seen[i / 8] >> i % 8 & 1) == 0)
			return &p->d[i];
	}
	return NULL;
}
