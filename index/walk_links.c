/* SPDX-License-Identifier: MIT */
#include "index/walk_links.h"

#include <pthread.h>
#include <stdlib.h>

/* Contents remembered at a time; without one, a file is read again. */
#define CONTENTS_MAX 131072U

#define BUCKETS_MIN 1024U

struct record {
	struct record *next;
	uint64_t ino;
	uint32_t dev_major;
	uint32_t dev_minor;
	int64_t link;                      /* 0: no entry was met yet */
	uint32_t left;                     /* names not met */
	struct walk_link_content *content; /* the owner's */
};

struct walk_links {
	pthread_mutex_t lock; /* of buckets and chains */
	struct record **buckets;
	size_t buckets_n; /* a power of two */
	size_t n;
	size_t contents_n;
	struct record *met; /* last; NULL: none */
};

int walk_links_new(struct walk_links **ret, struct err *e)
{
	struct walk_links *l = calloc(1, sizeof(*l));

	if (l == NULL)
		return err_nomem(e);
	l->buckets = calloc(BUCKETS_MIN, sizeof(struct record *));
	if (l->buckets == NULL) {
		free(l);
		return err_nomem(e);
	}
	l->buckets_n = BUCKETS_MIN;
	(void)pthread_mutex_init(&l->lock, NULL);
	*ret = l;
	return 0;
}

static void record_free(struct record *r)
{
	free(r->content);
	free(r);
}

void walk_links_free(struct walk_links *l)
{
	if (l == NULL)
		return;
	for (size_t i = 0; i < l->buckets_n; i++) {
		struct record *r = l->buckets[i];

		while (r != NULL) {
			struct record *next = r->next;

			record_free(r);
			r = next;
		}
	}
	pthread_mutex_destroy(&l->lock);
	free(l->buckets);
	free(l);
}

static size_t bucket(const struct walk_links *l, uint64_t ino, uint32_t minor)
{
	uint64_t h = (ino ^ (uint64_t)minor << 40) * 0x9e3779b97f4a7c15U;

	return (size_t)(h >> 32) & (l->buckets_n - 1);
}

static struct record *find(struct walk_links *l, const struct statx *st)
{
	struct record *r =
	    l->buckets[bucket(l, st->stx_ino, st->stx_dev_minor)];

	while (r != NULL &&
	    (r->ino != st->stx_ino || r->dev_major != st->stx_dev_major ||
		r->dev_minor != st->stx_dev_minor))
		r = r->next;
	return r;
}

/* Without memory for it the chains get longer, no more. */
static void grow(struct walk_links *l)
{
	size_t old_n = l->buckets_n;
	struct record **old = l->buckets;
	struct record **more = NULL;

	if (l->n < old_n)
		return;
	more = calloc(2 * old_n, sizeof(struct record *));
	if (more == NULL)
		return;
	l->buckets = more;
	l->buckets_n = 2 * old_n;
	for (size_t i = 0; i < old_n; i++) {
		while (old[i] != NULL) {
			struct record *r = old[i];
			size_t b = bucket(l, r->ino, r->dev_minor);

			old[i] = r->next;
			r->next = more[b];
			more[b] = r;
		}
	}
	free(old);
}

static int make(struct walk_links *l, const struct statx *st,
    struct record **ret, struct err *e)
{
	struct record *r = calloc(1, sizeof(*r));
	size_t b = 0;

	if (r == NULL)
		return err_nomem(e);
	grow(l);
	b = bucket(l, st->stx_ino, st->stx_dev_minor);
	r->ino = st->stx_ino;
	r->dev_major = st->stx_dev_major;
	r->dev_minor = st->stx_dev_minor;
	r->left = st->stx_nlink;
	r->next = l->buckets[b];
	l->buckets[b] = r;
	l->n++;
	*ret = r;
	return 0;
}

static int find_or_make(struct walk_links *l, const struct statx *st,
    bool *ret_made, struct record **ret, struct err *e)
{
	int rc = 0;

	(void)pthread_mutex_lock(&l->lock);
	*ret = find(l, st);
	*ret_made = *ret == NULL;
	if (*ret == NULL)
		rc = make(l, st, ret, e);
	(void)pthread_mutex_unlock(&l->lock);
	return rc;
}

int walk_links_claim(struct walk_links *l, const struct statx *st,
    bool *ret_first, struct err *e)
{
	struct record *r = NULL;

	return find_or_make(l, st, ret_first, &r, e);
}

int walk_links_meet(struct walk_links *l, const struct statx *st, int64_t id,
    int64_t *ret_link, const struct walk_link_content **ret_content,
    struct err *e)
{
	bool made = false;
	int rc = find_or_make(l, st, &made, &l->met, e);

	if (rc < 0)
		return rc;
	if (l->met->link == 0)
		l->met->link = id;
	*ret_link = l->met->link;
	*ret_content = l->met->content;
	if (*ret_content != NULL &&
	    ((*ret_content)->ctime.tv_sec != st->stx_ctime.tv_sec ||
		(*ret_content)->ctime.tv_nsec != st->stx_ctime.tv_nsec ||
		(*ret_content)->size != st->stx_size))
		*ret_content = NULL;
	return 0;
}

void walk_links_store(
    struct walk_links *l, const struct walk_link_content *content)
{
	struct record *r = l->met;

	if (r->content == NULL && l->contents_n < CONTENTS_MAX) {
		r->content = malloc(sizeof(*r->content));
		l->contents_n += r->content != NULL;
	}
	if (r->content != NULL)
		*r->content = *content;
}

void walk_links_done(struct walk_links *l)
{
	struct record *r = l->met;
	struct record **at = NULL;

	l->met = NULL;
	if (r->left > 0)
		r->left--;
	if (r->left > 0)
		return;
	(void)pthread_mutex_lock(&l->lock);
	at = &l->buckets[bucket(l, r->ino, r->dev_minor)];
	while (*at != r)
		at = &(*at)->next;
	*at = r->next;
	l->n--;
	(void)pthread_mutex_unlock(&l->lock);
	l->contents_n -= r->content != NULL;
	record_free(r);
}
