/* SPDX-License-Identifier: MIT */
#include "index/tree_du.h"

#include <stdbool.h>
#include <stdlib.h>

#include "datastore/base/bytes.h"

/*
 * Numbers met before.  Of contents that is a part of their digest: two that
 * share it would make a sum a little too small, in one run of 2^64.
 */
struct seen {
	uint64_t *slots; /* 0: free */
	size_t cap;      /* 0 or a power of two */
	size_t n;
};

static size_t place_of(const struct seen *s, uint64_t key)
{
	/* Ids follow each other: spread them (the golden ratio, odd). */
	size_t i = (size_t)(key * UINT64_C(0x9e3779b97f4a7c15) >> 20);

	for (i &= s->cap - 1; s->slots[i] != 0 && s->slots[i] != key;)
		i = (i + 1) & (s->cap - 1);
	return i;
}

static int grow(struct seen *s, struct err *e)
{
	struct seen grown = { .cap = s->cap == 0 ? 1024 : 2 * s->cap };

	grown.slots = calloc(grown.cap, sizeof(*grown.slots));
	if (grown.slots == NULL)
		return err_nomem(e);
	for (size_t i = 0; i < s->cap; i++) {
		if (s->slots[i] != 0)
			grown.slots[place_of(&grown, s->slots[i])] =
			    s->slots[i];
	}
	grown.n = s->n;
	free(s->slots);
	*s = grown;
	return 0;
}

static int meet(struct seen *s, uint64_t key, bool *ret_new, struct err *e)
{
	size_t i = 0;
	int rc = 0;

	key += key == 0;
	if (s->n >= s->cap / 8 * 7)
		rc = grow(s, e);
	if (rc < 0)
		return rc;
	i = place_of(s, key);
	*ret_new = s->slots[i] == 0;
	s->n += *ret_new;
	s->slots[i] = key;
	return 0;
}

struct du {
	const struct tree_du *d;
	struct seen links;
	struct seen contents;
	struct tree_du_sum *sums; /* of the directories that are open */
	size_t depth;
	size_t room;
};

static int add_content(struct du *u, const struct catalog_entry *x,
    struct tree_du_sum *sum, struct err *e)
{
	bool is_new = true;
	int rc = 0;

	sum->files++;
	sum->size += x->size;
	if (!(x->has & CATALOG_HAS_POS))
		return 0;
	if (x->has & CATALOG_HAS_SHA256)
		rc =
		    meet(&u->contents, bytes_get_le64(x->sha256.b), &is_new, e);
	if (rc == 0 && is_new)
		sum->stored += catalog_stored_size(x);
	return rc;
}

static int add(struct du *u, const struct catalog_entry *x,
    struct tree_du_sum *sum, struct err *e)
{
	bool is_new = true;
	int rc = 0;

	if (x->has & CATALOG_HAS_LINK)
		rc = meet(&u->links, (uint64_t)x->link, &is_new, e);
	if (rc < 0)
		return rc;
	if (x->kind == CATALOG_FILE && is_new)
		return add_content(u, x, sum, e);
	if (x->kind == CATALOG_DIR)
		sum->dirs++;
	else
		sum->others++;
	return 0;
}

static int enter(void *ctx, struct catalog_bytes path,
    const struct catalog_entry *x, struct err *e)
{
	static const struct tree_du_sum none;
	struct du *u = ctx;
	struct tree_du_sum sum = none;
	int rc = 0;

	if (x->kind != CATALOG_DIR && u->depth > 0)
		return add(u, x, &u->sums[u->depth - 1], e);
	rc = add(u, x, &sum, e);
	if (rc == 0 && x->kind != CATALOG_DIR)
		return u->d->fn(u->d->ctx, path, &sum, e);
	if (rc == 0 && u->depth == u->room) {
		size_t room = u->room == 0 ? 64 : 2 * u->room;
		struct tree_du_sum *grown =
		    reallocarray(u->sums, room, sizeof(*grown));

		if (grown == NULL)
			return err_nomem(e);
		u->sums = grown;
		u->room = room;
	}
	if (rc == 0)
		u->sums[u->depth++] = sum;
	return rc;
}

static int leave(
    void *ctx, struct catalog_bytes path, int64_t id, struct err *e)
{
	struct du *u = ctx;
	const struct tree_du_sum *sum = &u->sums[--u->depth];

	(void)id;
	if (u->depth > 0) {
		struct tree_du_sum *up = &u->sums[u->depth - 1];

		up->size += sum->size;
		up->stored += sum->stored;
		up->files += sum->files;
		up->dirs += sum->dirs;
		up->others += sum->others;
	}
	if (u->depth > u->d->depth)
		return 0;
	return u->d->fn(u->d->ctx, path, sum, e);
}

int tree_du(const struct tree_du *d, const struct catalog_entry *from,
    struct catalog_bytes path, struct err *e)
{
	struct du u = { .d = d };
	const struct catalog_walk w = {
		.fn = enter,
		.leave = leave,
		.ctx = &u,
		.task = d->task,
		.gaps = d->gaps,
	};
	int rc = catalog_walk(d->c, from, path, &w, e);

	free(u.links.slots);
	free(u.contents.slots);
	free(u.sums);
	return rc;
}
