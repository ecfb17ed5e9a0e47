/* SPDX-License-Identifier: MIT */
#include "index/catalog_salvage.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "datastore/base/buf.h"
#include "index/catalog_internal.h"

/* Of a page of an index (https://www.sqlite.org/fileformat.html, 1.6). */
#define PAGE_INNER 0x02
#define PAGE_LEAF 0x0a
#define INNER_HEAD 12U
#define AT_CELLS 3U
#define AT_CONTENT 5U
#define AT_RIGHT 8U

/* A leaf's only cell: 7 bytes of a record, whose head has 3 bytes and says
 * that a blob of four bytes (the page's number) and one of none follow.  Blobs
 * are greater than numbers. */
static const uint8_t gap_cell[] = { 7, 3, 20, 12 };
#define GAP_VALUE 4U

/* One of the two databases. */
struct half {
	struct catalog_source source; /* of the catalog */
	uint64_t pages;
	uint8_t *nodes; /* a bit for each page of the tree of `entry` */
	uint8_t *lost;  /* and for each that was replaced */
	struct err why; /* of the page that was replaced last */
	const char *shown;
	sqlite3_stmt *stmt;
	enum catalog_salvaged at;
	bool ready; /* `at` is to be given out */
};

struct catalog_salvage {
	struct catalog *c;
	struct catalog_sql q;
	struct catalog_vfs *vfs;
	struct half halves[2]; /* of changes: the second */
	size_t n;
	struct buf key;
	uint64_t page; /* of the last gap */
	uint64_t gaps; /* since the last seek */
};

bool catalog_can_salvage(const struct err *e)
{
	return e->code == ERR_CORRUPT || e->code == ERR_LIMIT ||
	    err_is_sys(e, EIO);
}

static bool has_page(const struct half *h, const uint8_t *bits, uint64_t page)
{
	return page > 0 && page <= h->pages && bits != NULL &&
	    (bits[(page - 1) / 8] >> (page - 1) % 8 & 1) != 0;
}

static void set_page(uint8_t *bits, uint64_t page)
{
	bits[(page - 1) / 8] |= (uint8_t)(1U << (page - 1) % 8);
}

/* False: it is none, or was met before. */
static bool add_node(struct half *h, uint64_t page)
{
	if (page == 0 || page > h->pages || has_page(h, h->nodes, page))
		return false;
	set_page(h->nodes, page);
	return true;
}

static void fill_gap(uint8_t *page, uint64_t number)
{
	size_t at = CATALOG_PAGE_SIZE - sizeof(gap_cell) - GAP_VALUE;

	memset(page, 0, CATALOG_PAGE_SIZE);
	page[0] = PAGE_LEAF;
	page[AT_CELLS + 1] = 1;
	page[AT_CONTENT] = page[8] = (uint8_t)(at >> 8);
	page[AT_CONTENT + 1] = page[9] = (uint8_t)at;
	memcpy(page + at, gap_cell, sizeof(gap_cell));
	for (size_t i = 1; i <= GAP_VALUE; i++, number >>= 8)
		page[CATALOG_PAGE_SIZE - i] = (uint8_t)number;
}

static int read_source(void *ctx, void *p, size_t n, uint64_t at, struct err *e)
{
	struct half *h = ctx;
	uint64_t page = at / CATALOG_PAGE_SIZE + 1;
	int rc = h->source.pread(h->source.ctx, p, n, at, e);

	if (rc == 0 || !catalog_can_salvage(e) || n != CATALOG_PAGE_SIZE ||
	    at % CATALOG_PAGE_SIZE != 0 || !has_page(h, h->nodes, page))
		return rc;
	h->why = *e;
	set_page(h->lost, page);
	fill_gap(p, page);
	return err_forget(e);
}

/* -- Which pages are of the tree. -- */

/* Pages to be read. */
struct queue {
	struct buf pages; /* of uint32_t */
	size_t at;
};

static uint32_t be32(const uint8_t *p)
{
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 |
	    (uint32_t)p[2] << 8 | p[3];
}

static int read_page(
    struct half *h, uint64_t page, uint8_t *p, bool *ret_read, struct err *e)
{
	int rc = h->source.pread(h->source.ctx, p, CATALOG_PAGE_SIZE,
	    (page - 1) * CATALOG_PAGE_SIZE, e);

	*ret_read = rc == 0;
	return rc < 0 && catalog_can_salvage(e) ? err_forget(e) : rc;
}

/* The children of an inner page: its cells', and the one right of them. */
static int add_children(
    struct half *h, const uint8_t *page, struct queue *q, struct err *e)
{
	size_t n = (size_t)page[AT_CELLS] << 8 | page[AT_CELLS + 1];
	int rc = 0;

	if (n > (CATALOG_PAGE_SIZE - INNER_HEAD) / 2)
		n = 0;
	for (size_t i = 0; i <= n && rc == 0; i++) {
		const uint8_t *cell = page + INNER_HEAD + 2 * i;
		size_t at = AT_RIGHT;
		uint32_t child = 0;

		if (i < n)
			at = (size_t)cell[0] << 8 | cell[1];
		if (at > CATALOG_PAGE_SIZE - 4)
			continue;
		child = be32(page + at);
		if (add_node(h, child))
			rc = buf_append(&q->pages, &child, sizeof(child), e);
	}
	return rc;
}

/* All leaves are equally deep: one that can be read tells of all in the queue,
 * and none of them is read for it. */
static int find_nodes(struct half *h, uint32_t root, struct err *e)
{
	struct queue q = { .pages = BUF_INIT };
	uint8_t page[CATALOG_PAGE_SIZE];
	int rc = 0;

	h->nodes = calloc(1, (size_t)(h->pages / 8 + 1));
	h->lost = calloc(1, (size_t)(h->pages / 8 + 1));
	if (h->nodes == NULL || h->lost == NULL)
		return err_nomem(e);
	if (!add_node(h, root))
		return err_set(e, ERR_CORRUPT,
		    "'%s': damaged database: its entries have no page",
		    h->shown);
	rc = buf_append(&q.pages, &root, sizeof(root), e);
	while (rc == 0 && q.at < q.pages.len) {
		uint32_t number = 0;
		bool was_read = false;

		memcpy(&number, q.pages.data + q.at, sizeof(number));
		q.at += sizeof(number);
		rc = read_page(h, number, page, &was_read, e);
		if (rc < 0 || !was_read)
			continue;
		if (page[0] != PAGE_INNER)
			break;
		rc = add_children(h, page, &q, e);
	}
	buf_release(&q.pages);
	return rc;
}

static int find_root(
    struct catalog *c, const char *sql, uint32_t *ret, struct err *e)
{
	sqlite3_stmt *stmt = NULL;
	bool found = false;
	int rc = catalog_sql_prepare(&c->q, sql, &stmt, e);

	if (rc == 0)
		rc = catalog_sql_step(&c->q, stmt, &found, e);
	if (rc == 0)
		*ret = found ? (uint32_t)sqlite3_column_int64(stmt, 0) : 0;
	(void)sqlite3_finalize(stmt);
	return rc;
}

/* -- The second connection. -- */

#define BEHIND "(parent, name) >= (?1, ?2) "
#define ORDER "order by parent, name"
#define ROOT_OF(db) \
	"select rootpage from " db ".sqlite_master where name = 'entry'"

static int open_half(struct catalog_salvage *s, const struct catalog_part *p,
    const char *name, const char *root_sql, struct err *e)
{
	struct half *h = &s->halves[s->n++];
	const struct catalog_source source = {
		.pread = read_source, .ctx = h, .size = p->source.size
	};
	uint32_t root = 0;
	int rc = find_root(s->c, root_sql, &root, e);

	h->source = p->source;
	h->shown = p->shown;
	h->pages = p->source.size / CATALOG_PAGE_SIZE;
	if (rc == 0)
		rc = find_nodes(h, root, e);
	if (rc == 0)
		catalog_vfs_add_source(s->vfs, name, &source);
	return rc;
}

static int prepare(struct catalog_salvage *s, struct err *e)
{
	static const char alone[] =
	    "select " CATALOG_COLUMNS ", 0 from " CATALOG_BASE
	    ".entry where " BEHIND ORDER;
	static const char base[] =
	    "select " CATALOG_COLUMNS ", 0 from " CATALOG_BASE
	    ".entry e where " BEHIND
	    "and not exists (select 1 from " CATALOG_CHANGES
	    ".superseded s where s.parent = e.parent and "
	    "s.name = e.name) " ORDER;
	static const char changes[] =
	    "select " CATALOG_COLUMNS ", 1 from " CATALOG_CHANGES
	    ".entry where " BEHIND ORDER;
	int rc = catalog_sql_open(&s->q, "base", SQLITE_OPEN_READONLY, e);

	if (rc == 0 && s->n > 1)
		rc = catalog_sql_exec(
		    &s->q, "attach 'changes' as " CATALOG_CHANGES, e);
	if (rc == 0)
		rc = catalog_sql_exec(&s->q, "pragma temp_store = memory", e);
	if (rc == 0)
		rc = catalog_sql_prepare(
		    &s->q, s->n > 1 ? base : alone, &s->halves[0].stmt, e);
	if (rc == 0 && s->n > 1)
		rc = catalog_sql_prepare(&s->q, changes, &s->halves[1].stmt, e);
	if (rc == 0)
		catalog_sql_bound(
		    &s->q, s->c->base.source.size + s->c->changes.source.size);
	return rc;
}

int catalog_salvage_take(
    struct catalog *c, struct catalog_salvage **ret, struct err *e)
{
	struct catalog_salvage *s = c->salvage;
	int rc = 0;

	if (s != NULL) {
		c->salvage = NULL;
		*ret = s;
		return 0;
	}
	s = calloc(1, sizeof(*s));
	if (s == NULL)
		return err_nomem(e);
	s->c = c;
	s->q.shown = c->shown;
	rc = catalog_vfs_new(false, &s->vfs, e);
	s->q.vfs = s->vfs;
	if (rc == 0)
		rc = open_half(s, &c->base, "base", ROOT_OF(CATALOG_BASE), e);
	if (rc == 0 && c->has_changes)
		rc = open_half(
		    s, &c->changes, "changes", ROOT_OF(CATALOG_CHANGES), e);
	if (rc == 0)
		rc = prepare(s, e);
	if (rc < 0) {
		catalog_salvage_free(s);
		return rc;
	}
	*ret = s;
	return 0;
}

void catalog_salvage_give(struct catalog *c, struct catalog_salvage *s)
{
	if (c->salvage == NULL)
		c->salvage = s;
	else
		catalog_salvage_free(s);
}

void catalog_salvage_free(struct catalog_salvage *s)
{
	if (s == NULL)
		return;
	for (size_t i = 0; i < s->n; i++)
		(void)sqlite3_finalize(s->halves[i].stmt);
	catalog_sql_close(&s->q);
	catalog_vfs_free(s->vfs);
	for (size_t i = 0; i < s->n; i++) {
		free(s->halves[i].nodes);
		free(s->halves[i].lost);
	}
	buf_release(&s->key);
	free(s);
}

/* -- Rows. -- */

int catalog_salvage_seek(struct catalog_salvage *s, int64_t parent,
    struct catalog_bytes name, bool behind, struct err *e)
{
	int rc = 0;

	s->gaps = 0;
	/* Names have no zero byte: the least that is greater ends in one. */
	buf_reset(&s->key);
	if (name.n > 0)
		rc = buf_append(&s->key, name.p, name.n, e);
	if (rc == 0 && behind)
		rc = buf_append(&s->key, "", 1, e);
	for (size_t i = 0; i < s->n && rc == 0; i++) {
		struct half *h = &s->halves[i];

		h->ready = false;
		catalog_sql_reset(h->stmt);
		rc = catalog_sql_bind_int(&s->q, h->stmt, 1, parent, e);
		if (rc == 0)
			rc = catalog_sql_bind_copy(
			    &s->q, h->stmt, 2, s->key.data, s->key.len, e);
	}
	return rc;
}

/* The page that a row stands for; 0: it is a row of the catalog. */
static uint64_t gap_of(const struct half *h)
{
	const uint8_t *p = NULL;
	uint64_t page = 0;

	if (sqlite3_column_type(h->stmt, COL_PARENT) != SQLITE_BLOB ||
	    sqlite3_column_bytes(h->stmt, COL_PARENT) != GAP_VALUE)
		return 0;
	p = sqlite3_column_blob(h->stmt, COL_PARENT);
	page = p != NULL ? be32(p) : 0;
	return has_page(h, h->lost, page) ? page : 0;
}

static int advance(struct catalog_salvage *s, struct half *h, struct err *e)
{
	bool more = false;
	int rc = catalog_sql_step(&s->q, h->stmt, &more, e);

	if (rc < 0)
		return rc;
	h->ready = true;
	h->at = SALVAGED_ROW;
	if (!more)
		h->at = SALVAGED_END;
	else if (gap_of(h) != 0)
		h->at = SALVAGED_GAP;
	return 0;
}

/* Is the first one's row before the second one's? */
static bool is_before(const struct half *a, const struct half *b)
{
	int64_t pa = sqlite3_column_int64(a->stmt, COL_PARENT);
	int64_t pb = sqlite3_column_int64(b->stmt, COL_PARENT);
	size_t na = (size_t)sqlite3_column_bytes(a->stmt, COL_NAME);
	size_t nb = (size_t)sqlite3_column_bytes(b->stmt, COL_NAME);
	const void *x = sqlite3_column_blob(a->stmt, COL_NAME);
	const void *y = sqlite3_column_blob(b->stmt, COL_NAME);
	size_t n = na < nb ? na : nb;
	int order = n > 0 && x != NULL && y != NULL ? memcmp(x, y, n) : 0;

	if (pa != pb)
		return pa < pb;
	return order != 0 ? order < 0 : na <= nb;
}

/* In a tree that is one, each page is come to once. */
static int give_gap(struct catalog_salvage *s, struct half *h,
    enum catalog_salvaged *ret_what, struct err *ret_why, struct err *e)
{
	if (s->gaps++ > catalog_salvage_pages(s)) {
		*ret_what = SALVAGED_END;
		return catalog_disorder(s->c, e);
	}
	s->page = gap_of(h) - 1;
	if (h != s->halves)
		s->page += s->halves[0].pages;
	h->ready = false;
	*ret_why = h->why;
	*ret_what = SALVAGED_GAP;
	return 0;
}

uint64_t catalog_salvage_page(const struct catalog_salvage *s)
{
	return s->page;
}

uint64_t catalog_salvage_pages(const struct catalog_salvage *s)
{
	return s->halves[0].pages + s->halves[1].pages;
}

int catalog_salvage_next(struct catalog_salvage *s, struct catalog_entry *ret,
    enum catalog_salvaged *ret_what, struct err *ret_why, struct err *e)
{
	struct half *next = NULL;
	int rc = 0;

	for (size_t i = 0; i < s->n && rc == 0; i++) {
		struct half *h = &s->halves[i];

		if (!h->ready)
			rc = advance(s, h, e);
		if (rc < 0)
			return rc;
		if (h->at == SALVAGED_GAP)
			return give_gap(s, h, ret_what, ret_why, e);
		if (h->at == SALVAGED_ROW &&
		    (next == NULL || !is_before(next, h)))
			next = h;
	}
	*ret_what = SALVAGED_END;
	if (next == NULL)
		return 0;
	next->ready = false;
	*ret_what = SALVAGED_ROW;
	return catalog_row_decode(&s->q, next->stmt, next->shown, ret, e);
}

/* -- How many. -- */

uint64_t catalog_sum(int64_t parent, uint64_t rows)
{
	uint64_t x = (uint64_t)parent + 0x9e3779b97f4a7c15U;

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9U;
	x = (x ^ x >> 27) * 0x94d049bb133111ebU;
	return (x ^ x >> 31) * rows;
}

/* A row for each directory.  (SQLite would count a whole table, too, but can
 * not be stopped at that, and a damaged one may have no end.) */
static int count_strictly(struct catalog *c, struct task *task,
    struct catalog_count *ret, struct err *e)
{
	static const char alone[] = "select parent, count(*) from " CATALOG_BASE
				    ".entry group by parent";
	static const char merged[] =
	    "select parent, count(*) from " CATALOG_BASE
	    ".entry e where not exists (select 1 from " CATALOG_CHANGES
	    ".superseded s where s.parent = e.parent and s.name = e.name) "
	    "group by parent union all "
	    "select parent, count(*) from " CATALOG_CHANGES
	    ".entry group by parent";
	struct catalog_count n = { .whole = true };
	sqlite3_stmt *stmt = NULL;
	bool more = true;
	int rc = catalog_sql_prepare(
	    &c->q, c->has_changes ? merged : alone, &stmt, e);

	while (rc == 0) {
		uint64_t rows = 0;

		rc = task_check(task, e);
		if (rc == 0)
			rc = catalog_sql_step(&c->q, stmt, &more, e);
		if (rc < 0 || !more)
			break;
		rows = (uint64_t)sqlite3_column_int64(stmt, 1);
		n.rows += rows;
		n.sum += catalog_sum(sqlite3_column_int64(stmt, 0), rows);
		/* Pages that lead to one another give them without end. */
		if (n.rows > catalog_rows_max(c))
			rc = catalog_crowd(c, e);
	}
	if (rc == 0)
		*ret = n;
	(void)sqlite3_finalize(stmt);
	return rc;
}

/* Until it can not go on: then there are at least so many. */
static int count_salvaged(
    struct catalog *c, struct task *task, uint64_t *ret, struct err *e)
{
	const struct catalog_bytes none = { .p = NULL, .n = 0 };
	enum catalog_salvaged what = SALVAGED_ROW;
	struct catalog_salvage *s = NULL;
	uint64_t left = catalog_rows_max(c);
	uint64_t n = 0;
	int rc = catalog_salvage_take(c, &s, e);

	if (rc == 0)
		rc = catalog_salvage_seek(s, 0, none, false, e);
	while (rc == 0 && what != SALVAGED_END && left-- > 0) {
		struct catalog_entry x;
		struct err why;

		rc = task_check(task, e);
		what = SALVAGED_END;
		if (rc == 0)
			rc = catalog_salvage_next(s, &x, &what, &why, e);
		if (rc < 0 && what == SALVAGED_ROW && catalog_can_salvage(e))
			rc = err_forget(e);
		n += what == SALVAGED_ROW;
	}
	if (rc < 0 && catalog_can_salvage(e))
		rc = err_forget(e);
	catalog_salvage_give(c, s);
	if (rc == 0)
		*ret = n;
	return rc;
}

int catalog_count(struct catalog *c, struct task *task,
    struct catalog_count *ret, struct err *e)
{
	struct catalog_count n = { .rows = 0 };
	int rc = count_strictly(c, task, ret, e);

	if (rc == 0 || !catalog_can_salvage(e))
		return rc;
	(void)err_forget(e);
	rc = count_salvaged(c, task, &n.rows, e);
	if (rc == 0)
		*ret = n;
	return rc;
}
