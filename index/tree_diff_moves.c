/* SPDX-License-Identifier: MIT */
/*
 * tree_diff_moves: what was held back is matched, and told.
 */
#include <stdlib.h>
#include <string.h>

#include "index/tree_diff_internal.h"

/* Records that may be found by a key, sorted by it. */
struct candidates {
	const struct tree_diff_record *records;
	size_t *order; /* their numbers */
	size_t *next;  /* of each place: the first from it on that is free */
	size_t n;
};

typedef int compare_fn(
    const struct catalog_entry *x, const struct catalog_entry *y);

static int compare_bytes(struct catalog_bytes x, struct catalog_bytes y)
{
	size_t n = x.n < y.n ? x.n : y.n;
	int order = n > 0 ? memcmp(x.p, y.p, n) : 0;

	return order != 0 ? order : (x.n > y.n) - (x.n < y.n);
}

static int by_id(const struct catalog_entry *x, const struct catalog_entry *y)
{
	return (x->id > y->id) - (x->id < y->id);
}

static int by_content(
    const struct catalog_entry *x, const struct catalog_entry *y)
{
	int order = digest_compare(&x->sha256, &y->sha256);

	if (order == 0)
		order = (x->size > y->size) - (x->size < y->size);
	return order != 0 ? order : compare_bytes(x->holes, y->holes);
}

static int by_content_and_name(
    const struct catalog_entry *x, const struct catalog_entry *y)
{
	int order = by_content(x, y);

	return order != 0 ? order : compare_bytes(x->name, y->name);
}

struct sorting {
	const struct tree_diff_record *records;
	compare_fn *fn;
};

/* Of equals the first that was found comes first. */
static int compare_records(const void *a, const void *b, void *arg)
{
	const struct sorting *s = arg;
	size_t x = *(const size_t *)a;
	size_t y = *(const size_t *)b;
	int order = s->fn(s->records[x].before, s->records[y].before);

	return order != 0 ? order : (x > y) - (x < y);
}

static void candidates_release(struct candidates *c)
{
	free(c->order);
	free(c->next);
	c->order = NULL;
	c->next = NULL;
}

static bool has_content(const struct catalog_entry *x)
{
	return x->kind == CATALOG_FILE && (x->has & CATALOG_HAS_SHA256) &&
	    (x->has & CATALOG_HAS_POS) && x->size > 0;
}

/* What was removed and may have gone elsewhere. */
static int candidates_init(struct candidates *c, const struct tree_differ *d,
    compare_fn *fn, struct err *e)
{
	struct sorting s = { .records = d->records, .fn = fn };

	memset(c, 0, sizeof(*c));
	c->records = d->records;
	c->order = calloc(d->n + 1, sizeof(*c->order));
	c->next = calloc(d->n + 1, sizeof(*c->next));
	if (c->order == NULL || c->next == NULL) {
		candidates_release(c);
		return err_nomem(e);
	}
	for (size_t i = 0; i < d->n; i++) {
		const struct tree_diff_record *r = &d->records[i];

		if (r->change == TREE_DIFF_REMOVED && !r->open &&
		    r->pair == TREE_DIFF_NONE &&
		    (fn == by_id || has_content(r->before)))
			c->order[c->n++] = i;
	}
	qsort_r(c->order, c->n, sizeof(*c->order), compare_records, &s);
	for (size_t i = 0; i <= c->n; i++)
		c->next[i] = i;
	return 0;
}

/* The first place whose entry is not before x. */
static size_t lower_bound(
    const struct candidates *c, compare_fn *fn, const struct catalog_entry *x)
{
	size_t low = 0;
	size_t high = c->n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (fn(c->records[c->order[middle]].before, x) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* From a place on; the way is shorter for the next who comes. */
static size_t first_free(struct candidates *c, size_t place)
{
	size_t end = place;

	while (c->next[end] != end)
		end = c->next[end];
	while (c->next[place] != end) {
		size_t next = c->next[place];

		c->next[place] = end;
		place = next;
	}
	return end;
}

static void pair(struct tree_differ *d, size_t removed, size_t added)
{
	d->records[removed].pair = added;
	d->records[added].pair = removed;
}

/* Take the first free one that is equal to what was added. */
static void match(
    struct tree_differ *d, struct candidates *c, compare_fn *fn, size_t added)
{
	const struct catalog_entry *x = d->records[added].after;
	size_t place = first_free(c, lower_bound(c, fn, x));

	if (place == c->n)
		return;
	if (fn(d->records[c->order[place]].before, x) != 0 ||
	    d->records[c->order[place]].before->kind != x->kind)
		return;
	pair(d, c->order[place], added);
	c->next[place] = place + 1;
}

static bool may_have_come(const struct tree_diff_record *r)
{
	return r->change == TREE_DIFF_ADDED && !r->open &&
	    r->pair == TREE_DIFF_NONE;
}

static int match_ids(struct tree_differ *d, struct err *e)
{
	struct candidates c;
	int rc = candidates_init(&c, d, by_id, e);

	if (rc < 0)
		return rc;
	for (size_t i = 0; i < d->n; i++) {
		if (may_have_come(&d->records[i]))
			match(d, &c, by_id, i);
	}
	candidates_release(&c);
	return 0;
}

/* The order that does for content and name does for content, too. */
static int match_contents(struct tree_differ *d, struct err *e)
{
	static compare_fn *const passes[] = { by_content_and_name, by_content };
	struct candidates c;
	int rc = candidates_init(&c, d, by_content_and_name, e);

	if (rc < 0)
		return rc;
	for (size_t pass = 0; pass < 2; pass++) {
		for (size_t i = 0; i < d->n; i++) {
			if (may_have_come(&d->records[i]) &&
			    has_content(d->records[i].after))
				match(d, &c, passes[pass], i);
		}
	}
	candidates_release(&c);
	return 0;
}

/* Both of a pair have one name, in directories that were held back. */
static bool went_along(const struct tree_differ *d, size_t removed)
{
	const struct tree_diff_record *r = &d->records[removed];
	const struct tree_diff_record *a = NULL;

	if (r->pair == TREE_DIFF_NONE || r->parent == TREE_DIFF_NONE)
		return false;
	a = &d->records[r->pair];
	return a->parent != TREE_DIFF_NONE &&
	    compare_bytes(r->before->name, a->after->name) == 0;
}

static const struct catalog_entry *entry_of(const struct tree_diff_record *r)
{
	return r->after != NULL ? r->after : r->before;
}

/* What could be found elsewhere: a content, or a directory of them. */
static bool may_vote(const struct tree_diff_record *r)
{
	const struct catalog_entry *x = entry_of(r);

	return x->kind == CATALOG_DIR || has_content(x);
}

/* Directories without any such do not count as children. */
static void discount_empty(struct tree_differ *d)
{
	for (size_t i = d->n; i-- > 0;) {
		const struct tree_diff_record *r = &d->records[i];

		if (r->parent != TREE_DIFF_NONE && r->children == 0 &&
		    entry_of(r)->kind == CATALOG_DIR)
			d->records[r->parent].children--;
	}
}

static void vote(struct tree_differ *d, size_t removed)
{
	struct tree_diff_record *r = &d->records[removed];
	struct tree_diff_record *dir = &d->records[r->parent];
	size_t to = d->records[r->pair].parent;

	if (dir->votes == 0)
		dir->candidate = to;
	dir->votes += dir->candidate == to;
}

/* More than half of those that count, under the names they had. */
static bool is_same_directory(
    const struct tree_diff_record *r, const struct tree_diff_record *a)
{
	return may_have_come(a) && r->votes > r->children / 2 &&
	    r->votes > a->children / 2;
}

/* A directory whose children went to one other.  They stand behind it:
 * backwards, so that those below are known. */
static void match_directories(struct tree_differ *d)
{
	for (size_t i = d->n; i-- > 0;) {
		struct tree_diff_record *r = &d->records[i];

		if (r->change != TREE_DIFF_REMOVED)
			continue;
		if (r->pair == TREE_DIFF_NONE && !r->open && r->votes > 0 &&
		    is_same_directory(r, &d->records[r->candidate]))
			pair(d, i, r->candidate);
		if (went_along(d, i))
			vote(d, i);
	}
}

/* By the directory they are in, then by name; there is one of each. */
static int compare_children(const void *a, const void *b, void *arg)
{
	const struct tree_diff_record *records = arg;
	const struct tree_diff_record *x = &records[*(const size_t *)a];
	const struct tree_diff_record *y = &records[*(const size_t *)b];

	if (x->parent != y->parent)
		return x->parent < y->parent ? -1 : 1;
	return compare_bytes(x->after->name, y->after->name);
}

/* The added child of a directory, NONE if there is no such name. */
static size_t find_child(const struct tree_differ *d, const size_t *order,
    size_t n, size_t parent, struct catalog_bytes name)
{
	size_t low = 0;
	size_t high = n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		const struct tree_diff_record *r = &d->records[order[middle]];
		int rel = r->parent != parent
		    ? (r->parent < parent ? -1 : 1)
		    : compare_bytes(r->after->name, name);

		if (rel == 0)
			return order[middle];
		if (rel < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return TREE_DIFF_NONE;
}

/* What is left in a directory that was moved is told by its name: those that
 * changed, empty ones, links.  Forwards, from directory to directory. */
static int match_children(struct tree_differ *d, struct err *e)
{
	size_t *order = calloc(d->n + 1, sizeof(*order));
	size_t n = 0;

	if (order == NULL)
		return err_nomem(e);
	for (size_t i = 0; i < d->n; i++) {
		if (may_have_come(&d->records[i]) &&
		    d->records[i].parent != TREE_DIFF_NONE)
			order[n++] = i;
	}
	qsort_r(order, n, sizeof(*order), compare_children, d->records);
	for (size_t i = 0; i < d->n; i++) {
		const struct tree_diff_record *r = &d->records[i];
		size_t to = TREE_DIFF_NONE;

		if (r->change != TREE_DIFF_REMOVED || r->open ||
		    r->pair != TREE_DIFF_NONE || r->parent == TREE_DIFF_NONE ||
		    d->records[r->parent].pair == TREE_DIFF_NONE)
			continue;
		to = find_child(
		    d, order, n, d->records[r->parent].pair, r->before->name);
		if (to != TREE_DIFF_NONE && may_have_come(&d->records[to]) &&
		    d->records[to].after->kind == r->before->kind)
			pair(d, i, to);
	}
	free(order);
	return 0;
}

static int judge_moves(struct tree_differ *d, struct err *e)
{
	int rc = 0;

	for (size_t i = 0; i < d->n && rc == 0; i++) {
		struct tree_diff_record *r = &d->records[i];
		struct tree_diff_record *a = NULL;

		if (r->change != TREE_DIFF_REMOVED || r->pair == TREE_DIFF_NONE)
			continue;
		a = &d->records[r->pair];
		a->implied =
		    went_along(d, i) && d->records[r->parent].pair == a->parent;
		rc = tree_diff_compare(d, r->before, a->after, &a->what, e);
	}
	return rc;
}

static int tell(const struct tree_differ *d, const struct tree_diff_record *r,
    struct err *e)
{
	struct tree_diff_event event = {
		.change = r->change,
		.what = r->what,
		.path = tree_diff_path(r),
		.before = r->before,
		.after = r->after,
	};

	if (r->pair != TREE_DIFF_NONE) {
		const struct tree_diff_record *old = &d->records[r->pair];

		if (r->change == TREE_DIFF_REMOVED)
			return 0; /* told where it went */
		if (r->implied && r->what == 0)
			return 0;
		event.change = r->implied ? TREE_DIFF_CHANGED : TREE_DIFF_MOVED;
		event.before = old->before;
		event.from = tree_diff_path(old);
	}
	return d->d->fn(d->d->ctx, &event, e);
}

static void record_release(struct tree_diff_record *r)
{
	free(r->path);
	free(r->before);
	free(r->after);
}

static int copy_event(struct tree_diff_record *r,
    const struct tree_diff_event *event, struct err *e)
{
	int rc = 0;

	r->path_n = event->path.n;
	r->path = malloc(event->path.n + 1);
	if (r->path == NULL)
		return err_nomem(e);
	if (event->path.n > 0)
		memcpy(r->path, event->path.p, event->path.n);
	if (event->before != NULL)
		rc = catalog_entry_copy(event->before, &r->before, e);
	if (rc == 0 && event->after != NULL)
		rc = catalog_entry_copy(event->after, &r->after, e);
	return rc;
}

static size_t size_of(const struct catalog_entry *x)
{
	return x == NULL ? 0
			 : sizeof(*x) + x->name.n + x->holes.n + x->target.n;
}

int tree_diff_hold(struct tree_differ *d, const struct tree_diff_event *event,
    size_t parent, struct err *e)
{
	struct tree_diff_record r = {
		.change = event->change,
		.what = event->what,
		.parent = parent,
		.pair = TREE_DIFF_NONE,
		.candidate = TREE_DIFF_NONE,
	};
	int rc = copy_event(&r, event, e);

	if (rc == 0 && d->n == d->cap) {
		size_t cap = d->cap == 0 ? 64 : d->cap * 2;
		struct tree_diff_record *grown =
		    reallocarray(d->records, cap, sizeof(*grown));

		if (grown == NULL) {
			rc = err_nomem(e);
		} else {
			d->records = grown;
			d->cap = cap;
		}
	}
	if (rc < 0) {
		record_release(&r);
		return rc;
	}
	if (parent != TREE_DIFF_NONE && may_vote(&r))
		d->records[parent].children++;
	/* With what sorting takes. */
	d->bytes += sizeof(r) + 2 * sizeof(size_t) + r.path_n +
	    size_of(r.before) + size_of(r.after);
	d->records[d->n++] = r;
	return 0;
}

static void drop_records(struct tree_differ *d)
{
	for (size_t i = 0; i < d->n; i++)
		record_release(&d->records[i]);
	d->n = 0;
	d->bytes = 0;
}

void tree_diff_records_release(struct tree_differ *d)
{
	drop_records(d);
	free(d->records);
	d->records = NULL;
	d->cap = 0;
	buf_release(&d->attr_a);
	buf_release(&d->attr_b);
}

int tree_diff_flush(struct tree_differ *d, struct err *e)
{
	int rc = 0;

	if (d->lineage)
		rc = match_ids(d, e);
	if (rc == 0)
		rc = match_contents(d, e);
	if (rc == 0) {
		discount_empty(d);
		match_directories(d);
		rc = match_children(d, e);
	}
	if (rc == 0)
		rc = judge_moves(d, e);
	for (size_t i = 0; i < d->n && rc == 0; i++)
		rc = tell(d, &d->records[i], e);
	if (rc == 0)
		drop_records(d);
	return rc;
}
