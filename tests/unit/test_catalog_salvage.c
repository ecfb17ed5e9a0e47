/* SPDX-License-Identifier: MIT */
/*
 * Catalogs with pages that can not be read: what is behind them is listed all
 * the same, and found by its path, and rows that nothing leads to are counted.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "index/catalog_schema.h"
#include "tests/support/catalogfix.h"
#include "tests/support/catalogmem.h"

#define DIRS 20
#define FILES 150
#define ROWS (1 + DIRS + DIRS * FILES)
#define PAGE_ROWS 60 /* more than a leaf has */
#define PRAGMAS                                                        \
	"pragma page_size = 4096; pragma application_id = 0x43524e31;" \
	"pragma user_version = 1"
#define PAGE ((size_t)CATALOG_PAGE_SIZE)

/* A database in memory, of whose pages some can not be read. */
struct bad {
	char *p;
	size_t n;
	size_t from; /* pages, from 0 */
	size_t to;
	int code;
};

struct salvage {
	struct catalogfix *x;
	struct bad base;
	struct bad changes;
	struct catalog_gaps gaps;
	uint64_t visited;
};

static int bad_pread(void *ctx, void *p, size_t n, uint64_t at, struct err *e)
{
	const struct bad *b = ctx;
	size_t page = (size_t)(at / PAGE);

	if (page >= b->from && page < b->to)
		return err_set(e, b->code, "page %zu is away", page);
	memcpy(p, b->p + at, n);
	return 0;
}

static int salvage_setup(void **state)
{
	struct salvage *t = calloc(1, sizeof(*t));
	void *x = NULL;
	int rc = catalogfix_setup(&x);

	if (t == NULL || rc < 0)
		return -1;
	t->x = x;
	*state = t;
	return 0;
}

static int salvage_teardown(void **state)
{
	struct salvage *t = *state;
	void *x = t->x;
	int rc = catalogfix_teardown(&x);

	free(t->base.p);
	free(t->changes.p);
	free(t);
	return rc;
}

/* Directories "d00" to "d19" (2 to 21) with files "f000" to "f149" each, and
 * what else is to be in it. */
static void make(struct salvage *t, const char *more)
{
	struct catalogfix *x = t->x;

	(void)unlinkat(x->f->dir.fd, "base", 0);
	t->base.from = t->base.to = 0;
	catalogfix_sql(x, "base", true, PRAGMAS);
	catalogfix_schema(x, "base", false);
	catalogfix_sql(x, "base", false,
	    "insert into entry(parent, name, id, kind) values(0, x'', 1, "
	    "'dir');"
	    "with recursive n(i) as (select 0 union all select i + 1 from n "
	    "where i < 19) insert into entry(parent, name, id, kind) select "
	    "1, cast(printf('d%02d', i) as blob), i + 2, 'dir' from n;"
	    "with recursive n(i) as (select 0 union all select i + 1 from n "
	    "where i < 2999) insert into entry(parent, name, id, kind, size, "
	    "pos, sha256) select i / 150 + 2, cast(printf('f%03d-%s', i % 150, "
	    "hex(zeroblob(20))) as blob), i + 22, 'file', 0, 0, "
	    "x'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b"
	    "855' from n;");
	catalogfix_sql(x, "base", false, more);
	catalogfix_sql(x, "base", false, "vacuum;");
	free(t->base.p);
	t->base.p = tmpdir_get(x->f->dir.fd, "base", &t->base.n);
	t->base.code = t->changes.code = ERR_CORRUPT;
	assert_non_null(t->base.p);
}

static void open_it(struct salvage *t)
{
	struct catalogfix *x = t->x;
	struct catalog_part base = catalogmem_part(&t->base, t->base.n, "base");
	struct catalog_part changes =
	    catalogmem_part(&t->changes, t->changes.n, "changes");

	base.source.pread = changes.source.pread = bad_pread;
	catalog_close(x->c);
	x->c = NULL;
	assert_ok(
	    catalog_open_parts(&base, t->changes.p != NULL ? &changes : NULL,
		"it", &x->c, &x->f->e),
	    &x->f->e);
}

/* The order of a walk is checked by the walk. */
static int visit(void *ctx, struct catalog_bytes path,
    const struct catalog_entry *entry, struct err *e)
{
	struct salvage *t = ctx;
	struct catalog_entry found;
	int64_t id = entry->id;
	int rc = 0;

	t->visited++;
	/* What is listed can be asked for. */
	rc = catalog_resolve(t->x->c, path, &found, e);
	if (rc == 0 && found.id != id)
		rc = err_set(e, ERR_INVALID, "another one");
	return rc;
}

static void walk(struct salvage *t)
{
	const struct catalog_bytes none = { .p = NULL, .n = 0 };
	const struct catalog_walk w = {
		.fn = visit, .ctx = t, .task = &t->x->f->task, .gaps = &t->gaps
	};
	struct err *e = &t->x->f->e;
	struct catalog_entry root;

	t->visited = 0;
	t->gaps = (struct catalog_gaps){ .places = 0 };
	open_it(t);
	assert_ok(catalog_root(t->x->c, &root, e), e);
	assert_ok(catalog_walk(t->x->c, &root, none, &w, e), e);
}

static void lists_what_is_sound(void **state)
{
	struct salvage *t = *state;

	make(t, "");
	walk(t);
	assert_int_equal(t->visited, ROWS);
	assert_false(catalog_gaps_any(&t->gaps));
}

/* One page after the other; all but what is on it is found. */
static void goes_on_behind_each_page(void **state)
{
	struct salvage *t = *state;
	size_t leaves = 0;

	make(t, "");
	for (size_t i = 1; i < t->base.n / PAGE; i += 3) {
		const char *page = t->base.p + i * PAGE;
		bool of_root = memmem(page, PAGE, "dird", 4) != NULL ||
		    memmem(page, PAGE, "d07", 3) != NULL;

		/* Inner pages, and those of tables that are empty. */
		if (page[0] != 10 || page[4] == 0 || of_root)
			continue;
		leaves++;
		t->base.from = i;
		t->base.to = i + 1;
		t->base.code = i % 2 != 0 ? ERR_CORRUPT : ERR_LIMIT;
		walk(t);
		assert_in_range(t->visited, ROWS - PAGE_ROWS, ROWS - 1);
		assert_true(t->gaps.places > 0);
		assert_int_equal(t->gaps.unreached, 0);
		assert_true(
		    restorefix_said(t->x->f, "can not be read: page ") > 0);
	}
	assert_true(leaves > 20);
}

/* A directory of many leaves, of which one is lost: its children whose rows
 * are in inner pages are there, and what is asked for meanwhile (visit) needs
 * such rows as well, and does not end the walk. */
static void goes_on_while_it_is_asked(void **state)
{
	struct salvage *t = *state;
	size_t asked = 0;

	make(t,
	    "with recursive n(i) as (select 0 union all select i + 1 from n "
	    "where i < 999) insert into entry(parent, name, id, kind) select "
	    "1, cast(printf('more-%04d-%s', i, hex(zeroblob(20))) as blob), "
	    "i + 10000, 'dir' from n;"
	    "with recursive n(i) as (select 0 union all select i + 1 from n "
	    "where i < 4999) insert into entry(parent, name, id, kind) select "
	    "10000 + i / 5, cast('a' || (i % 5) as blob), 20000 + i, 'fifo' "
	    "from n;");
	for (size_t i = 1; i < t->base.n / PAGE; i++) {
		const char *page = t->base.p + i * PAGE;

		/* The first one has the root, the last one files. */
		if (page[0] != 10 || memmem(page, PAGE, "more-", 5) == NULL ||
		    memmem(page, PAGE, "d07", 3) != NULL ||
		    memmem(page, PAGE, "f000-", 5) != NULL)
			continue;
		asked++;
		t->base.from = i;
		t->base.to = i + 1;
		walk(t);
		/* Of a directory that is lost, five more are in none. */
		assert_int_equal(t->gaps.unreached % 5, 0);
		assert_int_equal(
		    t->visited + t->gaps.unreached / 5 * 6, ROWS + 6000);
		assert_true(t->gaps.places > 0);
		assert_in_range(t->gaps.unreached, 5 * 10, 5 * PAGE_ROWS);
	}
	assert_true(asked > 10);
}

/* Many at once, as in a chunk that is lost; inner ones, too. */
static void goes_on_behind_ranges(void **state)
{
	struct salvage *t = *state;
	size_t pages = 0;

	make(t, "");
	pages = t->base.n / PAGE;
	for (size_t n = 4; n < 40; n += 7) {
		t->base.from = pages - n - 3;
		t->base.to = pages - 3;
		walk(t);
		assert_in_range(t->visited, ROWS / 4, ROWS - 20 * (uint64_t)n);
		assert_true(t->gaps.places > 0);
	}
}

/* What was in directories that are lost is there, but nowhere. */
static void counts_what_nothing_leads_to(void **state)
{
	struct salvage *t = *state;

	make(t,
	    "insert into entry(parent, name, id, kind) values"
	    "(7000, x'61', 7001, 'fifo'), (7002, x'62', 7003, 'dir'),"
	    "(7003, x'63', 7002, 'dir')");
	walk(t);
	assert_int_equal(t->visited, ROWS);
	assert_int_equal(t->gaps.places, 0);
	assert_int_equal(t->gaps.unreached, 3);
	assert_int_equal(
	    restorefix_said(t->x->f, "'base': 3 entries are in no directory"),
	    1);
}

/* A row that is wrong is one row less. */
static void passes_over_bad_rows(void **state)
{
	struct salvage *t = *state;

	make(t,
	    "insert into entry(parent, name, id, kind) values"
	    "(3, x'6631303061', 7001, 'nonsense'), (4, x'61', 1, 'dir')");
	walk(t);
	assert_int_equal(
	    restorefix_said(t->x->f, "kind is none that is known"), 1);
	assert_int_equal(t->gaps.places, 2);
	assert_int_equal(t->gaps.unreached, 0);
	assert_int_equal(t->visited, ROWS);
}

/* As many rows are come to as there are, but not the same ones. */
static void sees_directories_that_share_an_id(void **state)
{
	struct salvage *t = *state;

	make(t, "update entry set id = 2 where parent = 1");
	walk(t);
	assert_int_equal(t->visited, ROWS);
	assert_int_equal(t->gaps.places, 0);
	assert_int_equal(t->gaps.shared, 1);
	assert_int_equal(
	    restorefix_said(t->x->f, "directories have the same id"), 1);
	/* More than there are, and fewer. */
	make(t,
	    "insert into entry(parent, name, id, kind) values"
	    "(1, x'65', 7, 'dir')");
	walk(t);
	assert_int_equal(t->visited, ROWS + 1 + FILES);
	assert_int_equal(t->gaps.shared, 1);
	make(t,
	    "delete from entry where parent = 2;"
	    "update entry set id = 2 where parent = 1 and id < 4");
	walk(t);
	assert_int_equal(t->gaps.unreached, FILES);
	/* None has anything that could be hidden. */
	make(t,
	    "delete from entry where parent in (2, 3);"
	    "update entry set id = 2 where parent = 1 and id < 4");
	walk(t);
	assert_false(catalog_gaps_any(&t->gaps));
}

/* -- Pages that lead to one another. -- */

#define CELLS 300U
#define LAYERS 3U /* hours, if each row is read */

static void put(char *p, uint64_t v, size_t n)
{
	for (; n-- > 0; v >>= 8)
		p[n] = (char)v;
}

/* An inner page all of whose children are the same page, or a leaf; of rows
 * that look like those that stand for pages. */
static void fill_page(char *page, uint32_t child)
{
	static const char cell[] = { 4, 3, 14, 12, -1 };
	size_t head = child != 0 ? 12 : 8;
	size_t at = PAGE;

	memset(page, 0, PAGE);
	page[0] = child != 0 ? 2 : 10;
	for (size_t i = 0; i < CELLS; i++) {
		at -= sizeof(cell);
		memcpy(page + at, cell, sizeof(cell));
		if (child != 0) {
			at -= 4;
			put(page + at, child, 4);
		}
		put(page + head + 2 * i, at, 2);
	}
	put(page + 3, CELLS, 2);
	put(page + 5, at, 2);
	if (child != 0)
		put(page + 8, child, 4);
}

static uint32_t root_page(struct salvage *t)
{
	struct catalog_sql *q = NULL;
	struct err *e = &t->x->f->e;
	sqlite3_stmt *stmt = NULL;
	bool found = false;
	uint32_t page = 0;

	open_it(t);
	q = &t->x->c->q;
	assert_ok(catalog_sql_prepare(q,
		      "select rootpage from main.sqlite_master where "
		      "name = 'entry'",
		      &stmt, e),
	    e);
	assert_ok(catalog_sql_step(q, stmt, &found, e), e);
	assert_true(found);
	page = (uint32_t)sqlite3_column_int64(stmt, 0);
	(void)sqlite3_finalize(stmt);
	return page;
}

/* In the place of what was behind all others: CELLS ^ LAYERS leaves. */
static void add_layers(struct salvage *t, uint32_t root, size_t layers)
{
	size_t pages = t->base.n / PAGE;
	char *p = realloc(t->base.p, t->base.n + (layers + 1) * PAGE);

	assert_non_null(p);
	t->base.p = p;
	t->base.n += (layers + 1) * PAGE;
	for (size_t i = 0; i <= layers; i++)
		fill_page(p + (pages + i) * PAGE,
		    i < layers ? (uint32_t)(pages + i + 2) : 0);
	put(p + (root - 1) * PAGE + 8, pages + 1, 4);
	put(p + 28, pages + layers + 1, 4);
}

/* So many rows would take hours. */
static void ends_in_pages_without_end(void **state)
{
	const struct catalog_bytes none = { .p = NULL, .n = 0 };
	struct salvage *t = *state;
	struct catalog_walk w = {
		.fn = visit, .ctx = t, .task = &t->x->f->task, .gaps = &t->gaps
	};
	struct err *e = &t->x->f->e;
	struct catalog_entry root;
	struct catalog_count n;
	uint32_t page = 0;

	make(t, "");
	page = root_page(t);
	assert_int_equal(t->base.p[(page - 1) * PAGE], 2);
	add_layers(t, page, LAYERS);
	open_it(t);
	assert_ok(catalog_count(t->x->c, &t->x->f->task, &n, e), e);
	assert_false(n.whole);
	/* The second one of the root's children. */
	t->base.from = 0;
	for (size_t i = 0; i < 4; i++) {
		const char *p = t->base.p + (page - 1) * PAGE;
		size_t cell = (uint8_t)p[14] * 256U + (uint8_t)p[15];

		t->base.from = t->base.from * 256 + (uint8_t)p[cell + i];
	}
	t->base.to = t->base.from--;
	open_it(t);
	assert_ok(catalog_root(t->x->c, &root, e), e);
	assert_err(catalog_walk(t->x->c, &root, none, &w, e), e, ERR_CORRUPT,
	    "more entries than it has room for");
	/* It is one page that all of them come to. */
	t->base.from = t->base.n / PAGE - 1;
	t->base.to = t->base.from + 1;
	open_it(t);
	t->gaps.places = 0;
	assert_ok(catalog_root(t->x->c, &root, e), e);
	assert_ok(catalog_walk(t->x->c, &root, none, &w, e), e);
	assert_true(t->gaps.places > 0);
	assert_true(
	    catalog_lookup(t->x->c, 22, none, &root, &(bool){ 0 }, e) < 0);
}

/* A page that is lost, and the child of more than there are pages. */
static void bounds_gaps(void **state)
{
	const struct catalog_bytes none = { .p = NULL, .n = 0 };
	enum catalog_salvaged what = SALVAGED_GAP;
	struct catalog_salvage *s = NULL;
	struct salvage *t = *state;
	struct err *e = &t->x->f->e;
	size_t gaps = 0;
	int rc = 0;

	make(t, "");
	add_layers(t, root_page(t), 1);
	t->base.from = t->base.n / PAGE - 1;
	t->base.to = t->base.from + 1;
	open_it(t);
	assert_ok(catalog_salvage_take(t->x->c, &s, e), e);
	assert_ok(catalog_salvage_seek(s, 22, none, false, e), e);
	while (what != SALVAGED_END) {
		struct catalog_entry x;
		struct err why;

		what = SALVAGED_END;
		rc = catalog_salvage_next(s, &x, &what, &why, e);
		gaps += rc == 0 && what == SALVAGED_GAP;
		if (rc < 0 && what == SALVAGED_ROW)
			rc = err_forget(e);
	}
	catalog_salvage_give(t->x->c, s);
	assert_int_equal(rc, ERR_CORRUPT);
	assert_in_range(gaps, 2, t->base.n / PAGE + 1);
}

/* A page that is its own child is one place, however often it is met. */
static void counts_a_bad_page_once(void **state)
{
	struct salvage *t = *state;
	uint32_t root = 0;
	uint32_t right = 0;

	make(t, "");
	root = root_page(t);
	for (size_t i = 0; i < 4; i++)
		right =
		    right << 8 | (uint8_t)t->base.p[(root - 1) * PAGE + 8 + i];
	assert_int_equal(t->base.p[(right - 1) * PAGE], 2);
	for (size_t i = 0; i < 10; i++) {
		char *p = t->base.p + (right - 1) * PAGE;
		size_t cell =
		    (uint8_t)p[12 + 2 * i] * 256U + (uint8_t)p[13 + 2 * i];

		put(p + cell, right, 4);
	}
	walk(t);
	assert_true(t->visited < ROWS);
	assert_int_equal(t->gaps.places, 1);
	/* One that is away, too: several directories are on it. */
	make(t, "");
	t->base.from = right - 1;
	t->base.to = right;
	walk(t);
	assert_true(restorefix_said(t->x->f, "can not be read: page ") > 2);
	assert_int_equal(t->gaps.places, 1);
}

/* The same where a later push has replaced some. */
static void merges_what_is_left(void **state)
{
	struct salvage *t = *state;
	struct catalogfix *x = t->x;
	size_t pages = 0;

	make(t, "");
	catalogfix_sql(x, "changes", true, PRAGMAS);
	catalogfix_schema(x, "changes", false);
	catalogfix_sql(x, "changes", false,
	    "insert into meta values ('catalog', 'it');"
	    "with recursive n(i) as (select 0 union all select i + 1 from n "
	    "where i < 1999) insert into entry(parent, name, id, kind) select "
	    "21, cast(printf('g%04d-%s', i, hex(zeroblob(20))) as blob), "
	    "i + 9000, 'fifo' from n;"
	    "insert into superseded(parent, name) select 21, cast("
	    "printf('f010-%s', hex(zeroblob(20))) as blob);"
	    "vacuum;");
	t->changes.p = tmpdir_get(x->f->dir.fd, "changes", &t->changes.n);
	assert_non_null(t->changes.p);
	walk(t);
	assert_int_equal(t->visited, ROWS + 2000 - 1);
	assert_false(catalog_gaps_any(&t->gaps));

	pages = t->base.n / PAGE;
	t->base.from = pages - 12;
	t->base.to = pages - 8;
	t->changes.from = 18;
	t->changes.to = 20;
	walk(t);
	assert_in_range(
	    t->visited, ROWS + 2000 - 16 * PAGE_ROWS, ROWS + 2000 - 60);
	assert_true(t->gaps.places >= 2);
}

/* Who does not say that gaps are welcome gets the failure. */
static void fails_unless_asked(void **state)
{
	const struct catalog_bytes none = { .p = NULL, .n = 0 };
	struct salvage *t = *state;
	struct catalog_walk w = {
		.fn = visit, .ctx = t, .task = &t->x->f->task
	};
	struct err *e = &t->x->f->e;
	struct catalog_entry root;

	make(t, "");
	t->base.from = t->base.n / PAGE - 12;
	t->base.to = t->base.n / PAGE - 8;
	open_it(t);
	assert_ok(catalog_root(t->x->c, &root, e), e);
	assert_err(catalog_walk(t->x->c, &root, none, &w, e), e, ERR_CORRUPT,
	    "is away");
	/* A machine without memory is no damage. */
	t->base.code = ERR_NOMEM;
	w.gaps = &t->gaps;
	open_it(t);
	assert_ok(catalog_root(t->x->c, &root, e), e);
	assert_int_equal(catalog_walk(t->x->c, &root, none, &w, e), ERR_NOMEM);
}

#define TEST(t) \
	cmocka_unit_test_setup_teardown(t, salvage_setup, salvage_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(lists_what_is_sound),
		TEST(goes_on_behind_each_page),
		TEST(goes_on_while_it_is_asked),
		TEST(goes_on_behind_ranges),
		TEST(counts_what_nothing_leads_to),
		TEST(passes_over_bad_rows),
		TEST(sees_directories_that_share_an_id),
		TEST(ends_in_pages_without_end),
		TEST(bounds_gaps),
		TEST(counts_a_bad_page_once),
		TEST(merges_what_is_left),
		TEST(fails_unless_asked),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
