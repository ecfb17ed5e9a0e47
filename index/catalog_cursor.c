/* SPDX-License-Identifier: MIT */
/*
 * catalog_cursor: rows one after the other.
 */
#include <stdlib.h>
#include <string.h>

#include "index/catalog_internal.h"

struct catalog_cursor {
	struct catalog *c;
	sqlite3_stmt *stmt; /* NULL: there are no rows */
	bool children;      /* the statement is one of catalog_take_children */
	int64_t of;         /* the parent of those children */
	bool members;       /* the key has a third part, behind all columns */
	bool begun;
	/* The key of the row before. */
	int64_t parent;
	int64_t member;
	struct buf name;
};

static struct catalog_cursor *cursor_new(struct catalog *c, struct err *e)
{
	struct catalog_cursor *cur = calloc(1, sizeof(*cur));

	if (cur == NULL)
		(void)err_nomem(e);
	else
		cur->c = c;
	return cur;
}

void catalog_cursor_free(struct catalog_cursor *cur)
{
	if (cur == NULL)
		return;
	if (cur->children)
		catalog_give_children(cur->c, cur->stmt);
	else
		(void)sqlite3_finalize(cur->stmt);
	buf_release(&cur->name);
	free(cur);
}

int catalog_children(struct catalog *c, int64_t parent,
    struct catalog_cursor **ret, struct err *e)
{
	const struct catalog_bytes first = { .p = NULL, .n = 0 };

	return catalog_children_after(c, parent, first, ret, e);
}

int catalog_children_after(struct catalog *c, int64_t parent,
    struct catalog_bytes after, struct catalog_cursor **ret, struct err *e)
{
	struct catalog_cursor *cur = cursor_new(c, e);
	int rc = 0;

	if (cur == NULL)
		return ERR_NOMEM;
	cur->children = true;
	cur->of = parent;
	rc = catalog_take_children(c, &cur->stmt, e);
	if (rc == 0)
		rc = catalog_sql_bind_int(&c->q, cur->stmt, 1, parent, e);
	if (rc == 0)
		rc = catalog_sql_bind_copy(
		    &c->q, cur->stmt, 2, after.p, after.n, e);
	if (rc < 0) {
		catalog_cursor_free(cur);
		return rc;
	}
	*ret = cur;
	return 0;
}

int catalog_all(struct catalog *c, struct catalog_cursor **ret, struct err *e)
{
	struct catalog_cursor *cur = cursor_new(c, e);
	int rc = 0;

	if (cur == NULL)
		return ERR_NOMEM;
	rc = catalog_prepare_entries(
	    c, "1", "order by parent, name", &cur->stmt, e);
	if (rc < 0) {
		catalog_cursor_free(cur);
		return rc;
	}
	*ret = cur;
	return 0;
}

#define EARLIER(where)                                             \
	"select " CATALOG_COLUMNS ", 0, member from " CATALOG_BASE \
	".earlier " where " order by parent, name, member"

/* Tables of `earlier` are small, or not there. */
static int earlier_cursor(struct catalog *c, const char *sql,
    struct catalog_cursor **ret, struct err *e)
{
	struct catalog_cursor *cur = cursor_new(c, e);
	int rc = 0;

	if (cur == NULL)
		return ERR_NOMEM;
	cur->members = true;
	if (c->base.earlier)
		rc = catalog_sql_prepare(&c->q, sql, &cur->stmt, e);
	if (rc < 0) {
		catalog_cursor_free(cur);
		return rc;
	}
	*ret = cur;
	return 0;
}

int catalog_earlier(
    struct catalog *c, struct catalog_cursor **ret, struct err *e)
{
	return earlier_cursor(c, EARLIER(""), ret, e);
}

int catalog_earlier_of(struct catalog *c, int64_t parent,
    struct catalog_bytes name, struct catalog_cursor **ret, struct err *e)
{
	struct catalog_cursor *cur = NULL;
	int rc = earlier_cursor(
	    c, EARLIER("where parent = ?1 and name = ?2"), &cur, e);

	if (rc == 0 && cur->stmt != NULL)
		rc = catalog_sql_bind_int(&c->q, cur->stmt, 1, parent, e);
	if (rc == 0 && cur->stmt != NULL)
		rc = catalog_sql_bind_copy(
		    &c->q, cur->stmt, 2, name.p, name.n, e);
	if (rc < 0) {
		catalog_cursor_free(cur);
		return rc;
	}
	*ret = cur;
	return 0;
}

static int compare_bytes(const struct buf *a, const struct catalog_bytes *b)
{
	size_t n = a->len < b->n ? a->len : b->n;
	int order = n > 0 ? memcmp(a->data, b->p, n) : 0;

	return order != 0 ? order : (a->len > b->n) - (a->len < b->n);
}

static int check_order(
    struct catalog_cursor *cur, const struct catalog_entry *x, struct err *e)
{
	int64_t member = 0;
	int order = -1;
	int rc = 0;

	if (cur->members)
		member = sqlite3_column_int64(cur->stmt, COLS + 1);
	if (cur->begun) {
		order = (cur->parent > x->parent) - (cur->parent < x->parent);
		if (order == 0)
			order = compare_bytes(&cur->name, &x->name);
		if (order == 0)
			order = cur->member < member ? -1 : 1;
	}
	if (order >= 0 || (cur->children && x->parent != cur->of))
		return catalog_disorder(cur->c, e);
	cur->begun = true;
	cur->parent = x->parent;
	cur->member = member;
	buf_reset(&cur->name);
	if (x->name.n > 0)
		rc = buf_append(&cur->name, x->name.p, x->name.n, e);
	return rc;
}

int catalog_cursor_next(struct catalog_cursor *cur, struct catalog_entry *ret,
    bool *ret_more, struct err *e)
{
	struct catalog_entry x;
	bool more = false;
	int rc = 0;

	if (cur->stmt != NULL)
		rc = catalog_sql_step(&cur->c->q, cur->stmt, &more, e);
	if (rc < 0 || !more) {
		if (rc == 0)
			*ret_more = false;
		return rc;
	}
	rc = catalog_decode(cur->c, cur->stmt, &x, e);
	if (rc == 0)
		rc = check_order(cur, &x, e);
	if (rc < 0)
		return rc;
	*ret = x;
	*ret_more = true;
	return 0;
}
