/* SPDX-License-Identifier: MIT */
#include "index/tree_restore_sort.h"

#include <stdlib.h>

#include "datastore/base/file.h"
#include "index/catalog_tmp.h"

#define AHEAD 256U /* pairs of a run, read at a time */
#define FIRST_ROOM 1024U

/* A sorted piece of the file, being read. */
struct run {
	uint64_t at; /* pairs */
	uint64_t end;
	size_t i;
	size_t n;
	struct restore_pair pairs[AHEAD];
};

struct restore_sort {
	size_t most; /* pairs in memory */
	struct restore_pair *pairs;
	size_t n;
	size_t room;
	size_t i; /* next one to give, if there is no run */

	int fd;
	uint64_t *ends; /* of the runs in the file, in pairs */
	size_t runs_n;

	struct run **heap; /* the one with the least pair first */
	size_t heap_n;
};

int restore_sort_new(size_t run, struct restore_sort **ret, struct err *e)
{
	struct restore_sort *s = calloc(1, sizeof(*s));

	if (s == NULL)
		return err_nomem(e);
	s->most = run;
	s->fd = -1;
	*ret = s;
	return 0;
}

static void free_heap(struct restore_sort *s)
{
	for (size_t i = 0; i < s->heap_n; i++)
		free(s->heap[i]);
	free(s->heap);
	s->heap = NULL;
	s->heap_n = 0;
}

void restore_sort_clear(struct restore_sort *s)
{
	free_heap(s);
	file_close(&s->fd);
	free(s->pairs);
	free(s->ends);
	s->pairs = NULL;
	s->ends = NULL;
	s->n = s->room = s->i = s->runs_n = 0;
}

void restore_sort_free(struct restore_sort *s)
{
	if (s == NULL)
		return;
	restore_sort_clear(s);
	free(s);
}

uint64_t restore_sort_count(const struct restore_sort *s)
{
	return (s->runs_n > 0 ? s->ends[s->runs_n - 1] : 0) + s->n;
}

static int compare(const void *a, const void *b)
{
	const struct restore_pair *x = a;
	const struct restore_pair *y = b;

	if (x->key != y->key)
		return x->key < y->key ? -1 : 1;
	return (x->at > y->at) - (x->at < y->at);
}

/* They mostly come in order. */
static void sort(struct restore_sort *s)
{
	for (size_t i = 1; i < s->n; i++) {
		if (compare(&s->pairs[i - 1], &s->pairs[i]) > 0) {
			qsort(s->pairs, s->n, sizeof(*s->pairs), compare);
			return;
		}
	}
}

/* What is in memory becomes a run. */
static int spill(struct restore_sort *s, struct err *e)
{
	uint64_t end = s->runs_n > 0 ? s->ends[s->runs_n - 1] : 0;
	uint64_t *ends = reallocarray(s->ends, s->runs_n + 1, sizeof(*s->ends));
	int rc = 0;

	if (ends == NULL)
		return err_nomem(e);
	s->ends = ends;
	if (s->fd < 0)
		rc = catalog_tmp_open(&s->fd, e);
	if (rc == 0) {
		sort(s);
		rc =
		    file_pwrite_fully(s->fd, s->pairs, s->n * sizeof(*s->pairs),
			end * sizeof(*s->pairs), catalog_tmp_dir(), e);
	}
	if (rc < 0)
		return rc;
	s->ends[s->runs_n++] = end + s->n;
	s->n = 0;
	return 0;
}

int restore_sort_add(
    struct restore_sort *s, struct restore_pair pair, struct err *e)
{
	if (s->n == s->most) {
		int rc = spill(s, e);

		if (rc < 0)
			return rc;
	}
	if (s->n == s->room) {
		size_t room = s->room == 0 ? FIRST_ROOM : 2 * s->room;
		struct restore_pair *p =
		    reallocarray(s->pairs, room, sizeof(*p));

		if (p == NULL)
			return err_nomem(e);
		s->pairs = p;
		s->room = room;
	}
	s->pairs[s->n++] = pair;
	return 0;
}

static int fill(struct restore_sort *s, struct run *r, struct err *e)
{
	uint64_t left = r->end - r->at;
	size_t n = left < AHEAD ? (size_t)left : AHEAD;
	int rc = file_pread_exact(s->fd, r->pairs, n * sizeof(*r->pairs),
	    r->at * sizeof(*r->pairs), catalog_tmp_dir(), e);

	if (rc < 0)
		return rc;
	r->at += n;
	r->i = 0;
	r->n = n;
	return 0;
}

static bool before(const struct run *a, const struct run *b)
{
	return compare(&a->pairs[a->i], &b->pairs[b->i]) < 0;
}

static void swap(struct restore_sort *s, size_t a, size_t b)
{
	struct run *r = s->heap[a];

	s->heap[a] = s->heap[b];
	s->heap[b] = r;
}

static void sink(struct restore_sort *s, size_t i)
{
	for (;;) {
		size_t least = i;

		for (size_t k = 2 * i + 1; k <= 2 * i + 2; k++) {
			if (k < s->heap_n && before(s->heap[k], s->heap[least]))
				least = k;
		}
		if (least == i)
			return;
		swap(s, i, least);
		i = least;
	}
}

static int open_runs(struct restore_sort *s, struct err *e)
{
	s->heap = calloc(s->runs_n, sizeof(struct run *));
	if (s->heap == NULL)
		return err_nomem(e);
	for (size_t i = 0; i < s->runs_n; i++) {
		struct run *r = calloc(1, sizeof(*r));
		int rc = 0;

		if (r == NULL)
			return err_nomem(e);
		s->heap[s->heap_n++] = r;
		r->at = i > 0 ? s->ends[i - 1] : 0;
		r->end = s->ends[i];
		rc = fill(s, r, e);
		if (rc < 0)
			return rc;
	}
	for (size_t i = s->heap_n / 2; i > 0; i--)
		sink(s, i - 1);
	return 0;
}

int restore_sort_rewind(struct restore_sort *s, struct err *e)
{
	int rc = 0;

	s->i = 0;
	free_heap(s);
	if (s->runs_n == 0) {
		sort(s);
		return 0;
	}
	if (s->n > 0)
		rc = spill(s, e);
	return rc < 0 ? rc : open_runs(s, e);
}

int restore_sort_next(struct restore_sort *s, struct restore_pair *ret,
    bool *ret_more, struct err *e)
{
	struct run *r = NULL;

	if (s->runs_n == 0) {
		*ret_more = s->i < s->n;
		if (*ret_more)
			*ret = s->pairs[s->i++];
		return 0;
	}
	*ret_more = s->heap_n > 0;
	if (s->heap_n == 0)
		return 0;
	r = s->heap[0];
	*ret = r->pairs[r->i++];
	if (r->i == r->n && r->at < r->end) {
		int rc = fill(s, r, e);

		if (rc < 0)
			return rc;
	} else if (r->i == r->n) {
		free(r);
		s->heap[0] = s->heap[--s->heap_n];
	}
	if (s->heap_n > 0)
		sink(s, 0);
	return 0;
}
