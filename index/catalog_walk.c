/* SPDX-License-Identifier: MIT */
/*
 * catalog_walk: by path, and depth first.
 */
#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "datastore/base/text.h"
#include "index/catalog_internal.h"

/* However deep and long-named a tree is. */
#define PATH_BYTES_MAX ((size_t)64 << 20)

/* "'X': no 'a/b' in it", the part of the path that is not there. */
static int bad_path(const struct catalog *c, struct catalog_bytes path,
    int code, const char *what, struct err *e)
{
	struct buf text = BUF_INIT;
	const char *s = NULL;
	int rc = text_append_name(&text, path.p, path.n, e);

	if (rc == 0) {
		s = buf_cstr(&text, e);
		rc = s == NULL
		    ? e->code
		    : err_set(e, code, "'%s': '%s' %s", c->base.shown, s, what);
	}
	buf_release(&text);
	return rc;
}

/* The next component from *at on; none: n 0. */
static struct catalog_bytes next_component(const struct buf *path, size_t *at)
{
	struct catalog_bytes name = { .p = NULL, .n = 0 };

	while (*at < path->len) {
		size_t start = *at;
		const uint8_t *p = path->data + start;
		const uint8_t *slash = memchr(p, '/', path->len - start);
		size_t n =
		    slash != NULL ? (size_t)(slash - p) : path->len - start;

		*at = start + n + (slash != NULL ? 1 : 0);
		if (n == 0 || (n == 1 && p[0] == '.'))
			continue;
		name.p = p;
		name.n = n;
		break;
	}
	return name;
}

int catalog_resolve(struct catalog *c, struct catalog_bytes path,
    struct catalog_entry *ret, struct err *e)
{
	struct catalog_entry x = { .id = 0 };
	size_t at = 0;
	size_t end = 0; /* of the last component */
	int rc = 0;

	/* Copied: it may be bytes of a row that is about to go. */
	buf_reset(&c->path);
	if (path.n > 0)
		rc = buf_append(&c->path, path.p, path.n, e);
	if (rc == 0)
		rc = catalog_root(c, &x, e);
	while (rc == 0) {
		struct catalog_bytes so_far = { .p = c->path.data, .n = end };
		struct catalog_bytes name = next_component(&c->path, &at);
		bool found = false;

		if (name.n == 0)
			break;
		if (x.kind != CATALOG_DIR)
			return bad_path(
			    c, so_far, ERR_NOTFOUND, "is no directory", e);
		end = (size_t)(name.p - c->path.data) + name.n;
		so_far.n = end;
		if (name.n == 2 && memcmp(name.p, "..", 2) == 0)
			return bad_path(c, so_far, ERR_INVALID,
			    "has a '..', which is not followed", e);
		rc = catalog_lookup(c, x.id, name, &x, &found, e);
		if (rc == 0 && !found)
			return bad_path(
			    c, so_far, ERR_NOTFOUND, "is not in it", e);
	}
	if (rc == 0)
		*ret = x;
	return rc;
}

/* A directory that is being walked. */
struct level {
	int64_t id;
	int64_t max;   /* id of it and all above it */
	size_t path_n; /* bytes of the path that are its own */
	uint64_t gaps; /* in it */
};

/*
 * One statement does for all levels: it is asked again for what comes behind
 * the child it was left at, whose name is the end of the path.
 */
struct walk {
	struct catalog *c;
	const struct catalog_walk *w;
	sqlite3_stmt *stmt;
	struct catalog_salvage *salvage; /* NULL: the statement does */
	struct buf path;
	struct level *levels;
	size_t depth;
	size_t room;
	uint64_t left; /* rows that there can still be */
	uint64_t met;  /* rows, also those that are wrong */
	uint64_t sum;  /* of those that are not: catalog_sum */
	bool skipped;  /* and so some were not */
	bool gaps;     /* some could not be read */
	bool failed;   /* SQLite did, and not for a page that is lost */
	uint8_t *lost; /* a bit for each page that was counted */
};

static struct catalog_bytes path_of(const struct walk *k)
{
	return (struct catalog_bytes){ .p = k->path.data, .n = k->path.len };
}

static int check_enter(
    const struct walk *k, const struct catalog_entry *x, struct err *e)
{
	if (k->depth == CATALOG_DEPTH_MAX) {
		return err_set(e, ERR_LIMIT,
		    "'%s': more than %u directories in one another",
		    k->c->shown, CATALOG_DEPTH_MAX);
	}
	/* A child's id is mostly greater than any above it. */
	if (k->depth == 0 || x->id > k->levels[k->depth - 1].max)
		return 0;
	for (size_t i = 0; i < k->depth; i++) {
		if (k->levels[i].id == x->id)
			return bad_path(k->c, path_of(k), ERR_CORRUPT,
			    "is one of the directories that it is in", e);
	}
	return 0;
}

static int enter(struct walk *k, const struct catalog_entry *x, struct err *e)
{
	struct level *l = NULL;
	int rc = check_enter(k, x, e);

	if (rc < 0)
		return rc;
	if (k->depth == k->room) {
		size_t room = k->room == 0 ? 64 : 2 * k->room;

		l = reallocarray(k->levels, room, sizeof(*l));
		if (l == NULL)
			return err_nomem(e);
		k->levels = l;
		k->room = room;
	}
	l = &k->levels[k->depth];
	l->id = x->id;
	l->max = x->id;
	if (k->depth > 0 && l[-1].max > l->max)
		l->max = l[-1].max;
	l->path_n = k->path.len;
	l->gaps = 0;
	k->depth++;
	return 0;
}

/* Ask for the children of the innermost directory behind this name. */
static int seek(struct walk *k, struct catalog_bytes after, struct err *e)
{
	const struct level *l = &k->levels[k->depth - 1];
	struct catalog_sql *q = &k->c->q;
	int rc = 0;

	if (k->salvage != NULL)
		return catalog_salvage_seek(k->salvage, l->id, after, true, e);
	catalog_sql_reset(k->stmt);
	rc = catalog_sql_bind_int(q, k->stmt, 1, l->id, e);
	if (rc == 0)
		rc = catalog_sql_bind_copy(q, k->stmt, 2, after.p, after.n, e);
	return rc;
}

/* The child that was visited last: the end of the path. */
static struct catalog_bytes last_child(const struct walk *k)
{
	size_t n = k->levels[k->depth - 1].path_n;
	size_t slash = n > 0 ? 1 : 0;
	struct catalog_bytes name = { .p = NULL, .n = 0 };

	if (k->path.len > n) {
		name.p = k->path.data + n + slash;
		name.n = k->path.len - n - slash;
	}
	return name;
}

static int leave(struct walk *k, struct err *e)
{
	struct level *l = &k->levels[k->depth - 1];
	int rc = 0;

	k->path.len = l->path_n;
	if (k->w->leave != NULL)
		rc = k->w->leave(k->w->ctx, path_of(k), l->id, e);
	k->depth--;
	if (rc < 0 || k->depth == 0)
		return rc;
	return seek(k, last_child(k), e);
}

static bool is_behind(const struct catalog_bytes *a, struct catalog_bytes b)
{
	size_t n = a->n < b.n ? a->n : b.n;
	int order = n > 0 ? memcmp(a->p, b.p, n) : 0;

	return order > 0 || (order == 0 && a->n > b.n);
}

/* -- What can not be read. -- */

static int append_place(const struct walk *k, struct buf *out, struct err *e)
{
	struct catalog_bytes last = last_child(k);
	size_t n = k->levels[k->depth - 1].path_n;
	int rc = buf_append_str(out, "some entries of '", e);

	if (rc == 0)
		rc = n > 0 ? text_append_name(out, k->path.data, n, e)
			   : buf_append_str(out, "/", e);
	if (rc == 0 && last.n > 0) {
		rc = buf_append_str(out, "' behind '", e);
		if (rc == 0)
			rc = text_append_name(out, last.p, last.n, e);
	}
	return rc < 0 ? rc : buf_append_str(out, "'", e);
}

/* A page is come to once for each directory that has rows near it. */
static int count_page(struct walk *k, struct err *e)
{
	uint64_t page = catalog_salvage_page(k->salvage);
	uint8_t bit = (uint8_t)(1U << page % 8);

	if (k->lost == NULL)
		k->lost = calloc(
		    1, (size_t)(catalog_salvage_pages(k->salvage) / 8 + 1));
	if (k->lost == NULL)
		return err_nomem(e);
	k->w->gaps->places += (k->lost[page / 8] & bit) == 0;
	k->lost[page / 8] |= bit;
	return 0;
}

/* Of a directory, the first one.  Whether there are any entries where they can
 * not be read, only they themselves could say. */
static int tell_gap(struct walk *k, const struct err *why, struct err *e)
{
	struct catalog_gaps *g = k->w->gaps;
	struct buf text = BUF_INIT;
	const char *s = NULL;
	int rc = 0;

	k->gaps = true;
	if (k->levels[k->depth - 1].gaps++ > 0 || g->told > CATALOG_GAPS_TOLD)
		return 0;
	if (g->told++ == CATALOG_GAPS_TOLD) {
		task_message(k->w->task, TASK_WARNING,
		    "'%s': more entries can not be read; they are only counted",
		    k->c->shown);
		return 0;
	}
	rc = append_place(k, &text, e);
	s = rc == 0 ? buf_cstr(&text, e) : NULL;
	if (s != NULL)
		task_message(k->w->task, TASK_WARNING, "%s can not be read: %s",
		    s, why->msg);
	buf_release(&text);
	return s == NULL ? e->code : 0;
}

/* 0: it was told, and one can go on.  Of a place that was counted: more 0. */
static int pass_over(struct walk *k, int rc, unsigned more, struct err *e)
{
	struct err why = *e;

	if (k->w->gaps == NULL || !catalog_can_salvage(e))
		return rc;
	if (k->left-- == 0)
		return catalog_crowd(k->c, e);
	(void)err_forget(e);
	k->w->gaps->places += more;
	return tell_gap(k, &why, e);
}

/* Pages that could not be had. */
static int pass_pages(struct walk *k, const struct err *why, struct err *e)
{
	int rc = task_check(k->w->task, e);

	if (rc == 0)
		rc = count_page(k, e);
	return rc < 0 ? rc : tell_gap(k, why, e);
}

/* Rows that are there, less those that the walk came to. */
static int count_unreached(struct walk *k, struct err *e)
{
	struct catalog_gaps *g = k->w->gaps;
	struct catalog_count n;
	uint64_t rows = 0;
	int rc = catalog_count(k->c, k->w->task, &n, e);

	if (rc < 0)
		return rc;
	/* Where none was passed over, each row there is was met once, or some
	 * were met again and perhaps as many others not at all. */
	if (n.whole && !k->gaps && n.rows <= k->met && n.sum != k->sum) {
		g->shared++;
		task_message(k->w->task, TASK_WARNING,
		    "'%s': directories have the same id: entries are listed "
		    "more than once, and others perhaps not at all",
		    k->c->shown);
	}
	if (n.rows <= k->met)
		return 0;
	rows = n.rows - k->met;
	g->unreached += rows;
	task_message(k->w->task, TASK_WARNING,
	    "'%s': %" PRIu64 " %s in no directory that could be listed",
	    k->c->shown, rows, text_plural(rows, "entry is", "entries are"));
	return 0;
}

/* -- The walk. -- */

static int push_name(
    struct walk *k, const struct catalog_entry *x, struct err *e)
{
	const struct level *l = &k->levels[k->depth - 1];
	size_t n = l->path_n;
	int rc = 0;

	if (x->parent != l->id || !is_behind(&x->name, last_child(k)))
		return catalog_disorder(k->c, e);
	k->path.len = n;
	if (n + 1 + x->name.n > PATH_BYTES_MAX) {
		return err_set(e, ERR_LIMIT,
		    "'%s': a path of more than %zu bytes", k->c->shown,
		    PATH_BYTES_MAX);
	}
	if (n > 0)
		rc = buf_append(&k->path, "/", 1, e);
	return rc < 0 ? rc : buf_append(&k->path, x->name.p, x->name.n, e);
}

static int visit(struct walk *k, const struct catalog_entry *x, struct err *e)
{
	const struct catalog_bytes first = { .p = NULL, .n = 0 };
	/* fn may let go of the row. */
	bool dir = x->kind == CATALOG_DIR;
	struct catalog_entry kept = { .id = x->id };
	int rc = 0;

	/* Directories that share an id would be walked again and again, each
	 * time with all that is below. */
	if (k->left-- == 0)
		return catalog_crowd(k->c, e);
	k->met++;
	k->sum += catalog_sum(x->parent, 1);
	rc = task_check(k->w->task, e);
	if (rc == 0)
		rc = k->w->fn(k->w->ctx, path_of(k), x, e);
	if (rc == CATALOG_SKIP && dir)
		k->skipped = true;
	if (rc < 0 || rc == CATALOG_SKIP || !dir)
		return rc < 0 ? rc : 0;
	rc = enter(k, &kept, e);
	if (rc == 0)
		return seek(k, first, e);
	if (k->depth > 0)
		rc = pass_over(k, rc, 1, e);
	if (rc == 0 && k->w->leave != NULL)
		rc = k->w->leave(k->w->ctx, path_of(k), kept.id, e);
	return rc;
}

/* The next child of the innermost directory. */
static int next(struct walk *k, struct catalog_entry *ret,
    enum catalog_salvaged *ret_what, struct err *ret_why, struct err *e)
{
	bool more = false;
	int rc = 0;

	*ret_what = SALVAGED_END;
	if (k->salvage != NULL) {
		rc =
		    catalog_salvage_next(k->salvage, ret, ret_what, ret_why, e);
		/* Its statements do not end with the directory. */
		if (rc == 0 && *ret_what == SALVAGED_ROW &&
		    ret->parent != k->levels[k->depth - 1].id)
			*ret_what = SALVAGED_END;
		return rc;
	}
	rc = catalog_sql_step(&k->c->q, k->stmt, &more, e);
	if (rc < 0 || !more)
		return rc;
	*ret_what = SALVAGED_ROW;
	return catalog_decode(k->c, k->stmt, ret, e);
}

/* A step failed: from now on in the way that passes over pages. */
static int begin_salvage(struct walk *k, int rc, struct err *e)
{
	struct err first = *e;

	if (k->w->gaps == NULL || !catalog_can_salvage(e))
		return rc;
	(void)err_forget(e);
	rc = catalog_salvage_take(k->c, &k->salvage, e);
	if (rc == 0)
		return seek(k, last_child(k), e);
	if (catalog_can_salvage(e)) {
		*e = first;
		rc = first.code;
	}
	return rc;
}

/* What next() failed with. */
static int recover(
    struct walk *k, enum catalog_salvaged what, int rc, struct err *e)
{
	/* A row that is wrong, and not how it was reached. */
	if (what == SALVAGED_ROW) {
		k->met++;
		rc = pass_over(k, rc, 1, e);
		return rc < 0 ? rc : task_check(k->w->task, e);
	}
	if (k->salvage == NULL)
		return begin_salvage(k, rc, e);
	/* Each directory comes to it again. */
	rc = pass_over(k, rc, k->failed ? 0 : 1, e);
	k->failed = true;
	return rc < 0 ? rc : leave(k, e);
}

static int step(struct walk *k, struct err *e)
{
	enum catalog_salvaged what = SALVAGED_END;
	struct err why = ERR_INIT;
	struct catalog_entry x;
	int rc = next(k, &x, &what, &why, e);

	if (rc < 0)
		return recover(k, what, rc, e);
	if (what == SALVAGED_END)
		return leave(k, e);
	if (what == SALVAGED_GAP)
		return pass_pages(k, &why, e);
	rc = push_name(k, &x, e);
	if (rc == 0)
		return visit(k, &x, e);
	k->met++;
	return pass_over(k, rc, 1, e);
}

int catalog_walk(struct catalog *c, const struct catalog_entry *from,
    struct catalog_bytes path, const struct catalog_walk *w, struct err *e)
{
	struct walk k = { .c = c, .w = w };
	bool whole = from->parent == 0;
	int rc = catalog_take_children(c, &k.stmt, e);

	k.left = catalog_rows_max(c);
	if (rc == 0 && path.n > 0)
		rc = buf_append(&k.path, path.p, path.n, e);
	if (rc == 0)
		rc = visit(&k, from, e);
	while (rc == 0 && k.depth > 0)
		rc = step(&k, e);
	if (rc == 0 && w->gaps != NULL && whole && !k.skipped)
		rc = count_unreached(&k, e);
	catalog_give_children(c, k.stmt);
	catalog_salvage_give(c, k.salvage);
	buf_release(&k.path);
	free(k.levels);
	free(k.lost);
	return rc;
}
