/* SPDX-License-Identifier: MIT */
#include "datastore/digestset.h"

#include <stdlib.h>

#include "datastore/base/bytes.h"

#define CAP_FIRST 64

static const struct digest zero;

void digestset_release(struct digestset *s)
{
	free(s->slots);
	*s = (struct digestset)DIGESTSET_INIT;
}

/* Where it is, or the free slot where it belongs.  There is a free one. */
static size_t find(
    const struct digest *slots, size_t cap, const struct digest *d)
{
	/* A digest is as good as random, in any eight of its bytes. */
	size_t i = (size_t)bytes_get_le64(d->b + 8) & (cap - 1);

	while (!digest_equal(&slots[i], &zero) && !digest_equal(&slots[i], d))
		i = (i + 1) & (cap - 1);
	return i;
}

bool digestset_contains(const struct digestset *s, const struct digest *d)
{
	if (digest_equal(d, &zero))
		return s->has_zero;
	return s->cap > 0 &&
	    digest_equal(&s->slots[find(s->slots, s->cap, d)], d);
}

static int grow(struct digestset *s, struct err *e)
{
	size_t cap = s->cap == 0 ? CAP_FIRST : s->cap * 2;
	struct digest *slots = calloc(cap, sizeof(*slots));

	if (slots == NULL)
		return err_nomem(e);
	for (size_t i = 0; i < s->cap; i++) {
		if (!digest_equal(&s->slots[i], &zero))
			slots[find(slots, cap, &s->slots[i])] = s->slots[i];
	}
	free(s->slots);
	s->slots = slots;
	s->cap = cap;
	return 0;
}

int digestset_add(
    struct digestset *s, const struct digest *d, bool *ret_added, struct err *e)
{
	int rc = 0;

	if (digestset_contains(s, d)) {
		*ret_added = false;
		return 0;
	}
	if (digest_equal(d, &zero)) {
		s->has_zero = true;
	} else {
		/* At most three in four are in use. */
		if ((s->n + 1) * 4 > s->cap * 3)
			rc = grow(s, e);
		if (rc < 0)
			return rc;
		s->slots[find(s->slots, s->cap, d)] = *d;
		s->n++;
	}
	*ret_added = true;
	return 0;
}
