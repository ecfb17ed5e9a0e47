/* SPDX-License-Identifier: MIT */
#include "index/tree_diff.h"

#include <stdlib.h>
#include <string.h>

#include "index/tree_diff_internal.h"

/* However deep and long-named a tree is. */
#define PATH_BYTES_MAX ((size_t)64 << 20)

const char *tree_diff_word(unsigned i)
{
	static const char *const words[TREE_DIFF_WHATS] = { "type", "content",
		"target", "device", "mode", "owner", "mtime", "xattrs", "flags",
		"links" };

	return words[i];
}

static bool same_bytes(struct catalog_bytes x, struct catalog_bytes y)
{
	return x.n == y.n && (x.n == 0 || memcmp(x.p, y.p, x.n) == 0);
}

/* Known in one only? */
static bool has_differs(const struct catalog_entry *x,
    const struct catalog_entry *y, unsigned columns)
{
	return ((x->has ^ y->has) & columns) != 0;
}

static bool content_differs(
    const struct catalog_entry *x, const struct catalog_entry *y)
{
	if (((x->state ^ y->state) & CATALOG_STATE_UNREADABLE) ||
	    has_differs(x, y, CATALOG_HAS_SIZE | CATALOG_HAS_SHA256))
		return true;
	return x->size != y->size || !digest_equal(&x->sha256, &y->sha256) ||
	    !same_bytes(x->holes, y->holes);
}

/* The data of both ids; what most entries share is read once. */
static int attrs_differ(struct tree_differ *d, const struct catalog_entry *x,
    const struct catalog_entry *y, bool *ret, struct err *e)
{
	struct tree_diff_attr *known = NULL;
	int rc = 0;

	*ret = has_differs(x, y, CATALOG_HAS_ATTR);
	if (*ret || !(x->has & CATALOG_HAS_ATTR))
		return 0;
	known = &d->attrs[((uint64_t)x->attr * 31 + (uint64_t)y->attr) %
	    TREE_DIFF_ATTRS];
	if (known->used && known->a == x->attr && known->b == y->attr) {
		*ret = !known->equal;
		return 0;
	}
	buf_reset(&d->attr_a);
	buf_reset(&d->attr_b);
	rc = catalog_attr(d->d->a, x->attr, &d->attr_a, e);
	if (rc == 0)
		rc = catalog_attr(d->d->b, y->attr, &d->attr_b, e);
	if (rc < 0)
		return rc;
	known->used = true;
	known->a = x->attr;
	known->b = y->attr;
	known->equal = d->attr_a.len == d->attr_b.len &&
	    (d->attr_a.len == 0 ||
		memcmp(d->attr_a.data, d->attr_b.data, d->attr_a.len) == 0);
	*ret = !known->equal;
	return 0;
}

int tree_diff_compare(struct tree_differ *d, const struct catalog_entry *before,
    const struct catalog_entry *after, unsigned *ret_what, struct err *e)
{
	const struct catalog_entry *x = before;
	const struct catalog_entry *y = after;
	unsigned what = 0;
	bool attrs = false;
	int rc = 0;

	if (x->kind != y->kind) {
		*ret_what = TREE_DIFF_TYPE;
		return 0;
	}
	if (x->kind == CATALOG_FILE && content_differs(x, y))
		what |= TREE_DIFF_CONTENT;
	if (!same_bytes(x->target, y->target))
		what |= TREE_DIFF_TARGET;
	if (x->rdev != y->rdev)
		what |= TREE_DIFF_DEVICE;
	if (x->mode != y->mode || has_differs(x, y, CATALOG_HAS_MODE))
		what |= TREE_DIFF_MODE;
	if (x->uid != y->uid || x->gid != y->gid ||
	    has_differs(x, y, CATALOG_HAS_UID | CATALOG_HAS_GID))
		what |= TREE_DIFF_OWNER;
	if (x->mtime_s != y->mtime_s || x->mtime_ns != y->mtime_ns ||
	    has_differs(x, y, CATALOG_HAS_MTIME))
		what |= TREE_DIFF_MTIME;
	if (x->flags != y->flags || has_differs(x, y, CATALOG_HAS_FLAGS))
		what |= TREE_DIFF_FLAGS;
	/* A directory's are its subdirectories, on some file systems. */
	if (x->kind != CATALOG_DIR && x->nlink != y->nlink)
		what |= TREE_DIFF_LINKS;
	rc = attrs_differ(d, x, y, &attrs, e);
	if (rc == 0)
		*ret_what = what | (attrs ? TREE_DIFF_XATTRS : 0);
	return rc;
}

/* One of the two catalogs, in the directory that is walked. */
struct side {
	struct catalog *c;
	struct catalog_cursor *cur; /* NULL: the directory is not in this one */
	struct catalog_entry entry;
	bool in_hand;  /* entry is the next one */
	uint64_t left; /* rows that there can still be */
};

struct level {
	bool in[2]; /* of which */
	int64_t id[2];
	size_t path_n; /* bytes of the path that are its own */
	size_t record; /* it was added or removed */
};

struct walk {
	struct tree_differ d;
	struct side side[2];
	struct buf path;
	struct level *levels;
	size_t depth;
	size_t room;
};

static void close_side(struct side *s)
{
	catalog_cursor_free(s->cur);
	s->cur = NULL;
	s->in_hand = false;
}

/*
 * The children of the innermost directory behind this name.  Only one
 * directory is open at a time, however deep it lies.
 */
static int open_level(struct walk *k, struct catalog_bytes after, struct err *e)
{
	const struct level *l = &k->levels[k->depth - 1];
	int rc = 0;

	for (size_t i = 0; i < 2 && rc == 0; i++) {
		struct side *s = &k->side[i];

		close_side(s);
		if (l->in[i])
			rc = catalog_children_after(
			    s->c, l->id[i], after, &s->cur, e);
	}
	return rc;
}

static int enter(struct walk *k, const struct catalog_entry *x,
    const struct catalog_entry *y, size_t record, struct err *e)
{
	const struct catalog_bytes first = { .p = NULL, .n = 0 };
	struct level *l = NULL;

	if (k->depth == CATALOG_DEPTH_MAX) {
		return err_set(e, ERR_LIMIT,
		    "'%s': more than %u directories in one another",
		    catalog_shown(k->side[x == NULL].c), CATALOG_DEPTH_MAX);
	}
	if (k->depth == k->room) {
		size_t room = k->room == 0 ? 64 : 2 * k->room;

		l = reallocarray(k->levels, room, sizeof(*l));
		if (l == NULL)
			return err_nomem(e);
		k->levels = l;
		k->room = room;
	}
	l = &k->levels[k->depth++];
	memset(l, 0, sizeof(*l));
	l->in[0] = x != NULL;
	l->in[1] = y != NULL;
	l->id[0] = x != NULL ? x->id : 0;
	l->id[1] = y != NULL ? y->id : 0;
	l->path_n = k->path.len;
	l->record = record;
	return open_level(k, first, e);
}

/* Back to the directory above, behind the one that is left. */
static int leave(struct walk *k, struct err *e)
{
	const struct level *l = &k->levels[--k->depth];
	struct catalog_bytes name = { .p = NULL, .n = 0 };
	size_t start = 0;

	k->path.len = l->path_n;
	if (k->depth == 0)
		return 0;
	start = l[-1].path_n + (l[-1].path_n > 0 ? 1 : 0);
	name.p = k->path.data + start;
	name.n = k->path.len - start;
	return open_level(k, name, e);
}

static int push_name(struct walk *k, struct catalog_bytes name, struct err *e)
{
	size_t n = k->levels[k->depth - 1].path_n;
	int rc = 0;

	k->path.len = n;
	if (n + 1 + name.n > PATH_BYTES_MAX)
		return err_set(e, ERR_LIMIT, "a path of more than %zu bytes",
		    PATH_BYTES_MAX);
	if (n > 0)
		rc = buf_append(&k->path, "/", 1, e);
	return rc < 0 ? rc : buf_append(&k->path, name.p, name.n, e);
}

/* What is held back goes; the directories above are no records any more. */
static int flush(struct walk *k, struct err *e)
{
	for (size_t i = 0; i < k->depth; i++) {
		if (k->levels[i].record != TREE_DIFF_NONE)
			k->d.records[k->levels[i].record].open = true;
		k->levels[i].record = TREE_DIFF_NONE;
	}
	return tree_diff_flush(&k->d, e);
}

/* *ret_record: what the children's parent is. */
static int compare(struct walk *k, const struct catalog_entry *x,
    const struct catalog_entry *y, size_t *ret_record, struct err *e)
{
	size_t memory = k->d.d->memory > 0 ? k->d.d->memory : TREE_DIFF_MEMORY;
	size_t parent =
	    k->depth > 0 ? k->levels[k->depth - 1].record : TREE_DIFF_NONE;
	struct tree_diff_event event = {
		.change = x == NULL ? TREE_DIFF_ADDED
		    : y == NULL     ? TREE_DIFF_REMOVED
				    : TREE_DIFF_CHANGED,
		.path = { .p = k->path.data, .n = k->path.len },
		.before = x,
		.after = y,
	};
	int rc = 0;

	*ret_record = TREE_DIFF_NONE;
	if (event.change == TREE_DIFF_CHANGED) {
		rc = tree_diff_compare(&k->d, x, y, &event.what, e);
		if (rc < 0 || event.what == 0)
			return rc;
		parent = TREE_DIFF_NONE;
	}
	if (k->d.bytes >= memory) {
		rc = flush(k, e);
		parent = TREE_DIFF_NONE;
	}
	if (rc == 0)
		rc = tree_diff_hold(&k->d, &event, parent, e);
	if (rc == 0 && event.change != TREE_DIFF_CHANGED)
		*ret_record = k->d.n - 1;
	return rc;
}

static const struct catalog_entry *dir_or_null(const struct catalog_entry *x)
{
	return x != NULL && x->kind == CATALOG_DIR ? x : NULL;
}

/* Either may be NULL.  What is taken is not in hand any more. */
static int visit(struct walk *k, const struct catalog_entry *x,
    const struct catalog_entry *y, struct err *e)
{
	size_t record = TREE_DIFF_NONE;
	int rc = compare(k, x, y, &record, e);

	k->side[0].in_hand = k->side[0].in_hand && x == NULL;
	k->side[1].in_hand = k->side[1].in_hand && y == NULL;
	x = dir_or_null(x);
	y = dir_or_null(y);
	if (rc < 0 || (x == NULL && y == NULL))
		return rc;
	return enter(k, x, y, record, e);
}

static int fetch(struct side *s, struct err *e)
{
	bool more = false;
	int rc = 0;

	if (s->cur == NULL || s->in_hand)
		return 0;
	rc = catalog_cursor_next(s->cur, &s->entry, &more, e);
	if (rc < 0)
		return rc;
	if (!more) {
		close_side(s);
		return 0;
	}
	/* Directories that share an id would be walked again and again. */
	if (s->left-- == 0)
		return err_set(e, ERR_CORRUPT,
		    "'%s': more entries than it has room for",
		    catalog_shown(s->c));
	s->in_hand = true;
	return 0;
}

static int compare_names(struct catalog_bytes x, struct catalog_bytes y)
{
	size_t n = x.n < y.n ? x.n : y.n;
	int order = n > 0 ? memcmp(x.p, y.p, n) : 0;

	return order != 0 ? order : (x.n > y.n) - (x.n < y.n);
}

/* The next of both, or of the one whose name comes first. */
static int step(struct walk *k, struct err *e)
{
	struct side *a = &k->side[0];
	struct side *b = &k->side[1];
	int order = 0;
	int rc = fetch(a, e);

	if (rc == 0)
		rc = fetch(b, e);
	if (rc < 0)
		return rc;
	if (!a->in_hand && !b->in_hand)
		return leave(k, e);
	if (a->in_hand && b->in_hand)
		order = compare_names(a->entry.name, b->entry.name);
	else
		order = a->in_hand ? -1 : 1;
	rc = push_name(k, order <= 0 ? a->entry.name : b->entry.name, e);
	if (rc < 0)
		return rc;
	return visit(
	    k, order <= 0 ? &a->entry : NULL, order >= 0 ? &b->entry : NULL, e);
}

static int walk(struct walk *k, struct err *e)
{
	int rc = 0;

	while (rc == 0 && k->depth > 0) {
		rc = task_check(k->d.d->task, e);
		if (rc == 0)
			rc = step(k, e);
	}
	return rc;
}

/* Of one lineage, an id means the same in both. */
static int compare_lineages(struct walk *k, struct err *e)
{
	struct buf text[2] = { BUF_INIT, BUF_INIT };
	bool found[2] = { false, false };
	int rc = 0;

	for (size_t i = 0; i < 2 && rc == 0; i++)
		rc = catalog_meta(
		    k->side[i].c, "lineage", &text[i], &found[i], e);
	k->d.lineage = rc == 0 && found[0] && found[1] && text[0].len > 0 &&
	    text[0].len == text[1].len &&
	    memcmp(text[0].data, text[1].data, text[0].len) == 0;
	buf_release(&text[0]);
	buf_release(&text[1]);
	return rc;
}

/* A path that is not there is no error unless both say so. */
static int resolve(struct catalog *c, struct catalog_bytes path,
    struct catalog_entry **ret, struct err *e)
{
	struct catalog_entry found;
	int rc = catalog_resolve(c, path, &found, e);

	*ret = NULL;
	return rc < 0 ? rc : catalog_entry_copy(&found, ret, e);
}

static int begin(struct walk *k, struct catalog_bytes path, struct err *e)
{
	struct catalog_entry *from[2] = { NULL, NULL };
	struct err why[2] = { ERR_INIT, ERR_INIT };
	int rc = 0;

	for (size_t i = 0; i < 2 && rc == 0; i++) {
		rc = resolve(k->side[i].c, path, &from[i], &why[i]);
		if (rc == ERR_NOTFOUND) {
			rc = 0;
		} else if (rc < 0) {
			*e = why[i];
		}
	}
	if (rc == 0 && from[0] == NULL && from[1] == NULL) {
		*e = why[0];
		rc = e->code;
	}
	if (rc == 0)
		rc = visit(k, from[0], from[1], e);
	free(from[0]);
	free(from[1]);
	return rc;
}

int tree_diff(
    const struct tree_diff *d, struct catalog_bytes path, struct err *e)
{
	struct walk k = {
		.side = { { .c = d->a }, { .c = d->b } },
	};
	int rc = 0;

	k.d.d = d;
	rc = compare_lineages(&k, e);

	for (size_t i = 0; i < 2; i++)
		k.side[i].left = catalog_rows_max(k.side[i].c);
	if (rc == 0 && path.n > 0)
		rc = buf_append(&k.path, path.p, path.n, e);
	if (rc == 0)
		rc = begin(&k, path, e);
	if (rc == 0)
		rc = walk(&k, e);
	if (rc == 0)
		rc = flush(&k, e);
	close_side(&k.side[0]);
	close_side(&k.side[1]);
	tree_diff_records_release(&k.d);
	buf_release(&k.path);
	free(k.levels);
	return rc;
}
