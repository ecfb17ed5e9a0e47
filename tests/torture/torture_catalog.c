/* SPDX-License-Identifier: MIT */
/*
 * Catalogs written, read and exported, with every system call and every
 * allocation failing in turn, those inside SQLite too.  What is called done is
 * right, and no failure is taken for damage.
 */
#include <errno.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/support/catalogfix.h"
#include "tests/support/catalogmem.h"
#include "tests/support/failmalloc.h"

#define BASE "root.tree.catalog.fidx"
#define CHANGES "root.tree.changes.fidx"

/* Some pages of them, so that trees grow and caches are written. */
#define ROWS 60

/* SQLite's own allocations, with their sizes before them. */
static void *mem_new(int n)
{
	size_t *p = malloc((size_t)n + 2 * sizeof(*p));

	if (p == NULL)
		return NULL;
	p[0] = (size_t)n;
	return p + 2;
}

static void mem_free(void *p)
{
	free(p == NULL ? NULL : (size_t *)p - 2);
}

static void *mem_again(void *old, int n)
{
	size_t *p = realloc((size_t *)old - 2, (size_t)n + 2 * sizeof(*p));

	if (p == NULL)
		return NULL;
	p[0] = (size_t)n;
	return p + 2;
}

static int mem_size(void *p)
{
	return p == NULL ? 0 : (int)((size_t *)p - 2)[0];
}

static int mem_round(int n)
{
	return (n + 7) & ~7;
}

static int mem_init(void *ctx)
{
	(void)ctx;
	return SQLITE_OK;
}

static void mem_end(void *ctx)
{
	(void)ctx;
}

static const sqlite3_mem_methods mem = { .xMalloc = mem_new,
	.xFree = mem_free,
	.xRealloc = mem_again,
	.xSize = mem_size,
	.xRoundup = mem_round,
	.xInit = mem_init,
	.xShutdown = mem_end };

static int add_rows(struct catalog_writer *w, struct err *e)
{
	char name[160];
	int64_t id = 0;
	int rc = 0;

	for (int i = 0; i < ROWS && rc == 0; i++) {
		struct catalog_entry x;

		(void)snprintf(name, sizeof(name), "name-%0*d", i % 3 * 60 + 1,
		    i * 7 % ROWS);
		x = catalogfix_row(i == 0 ? 0 : 1, i == 0 ? "" : name, i + 1,
		    i == 0 ? CATALOG_DIR : CATALOG_FILE);
		if (i < 4)
			rc = catalog_writer_attr(
			    w, i % 3 == 0 ? "aaaaaaa" : "bbbbbbb", 7, &id, e);
		if (rc == 0)
			rc = catalog_writer_add(w, &x, e);
	}
	if (rc == 0)
		rc = catalog_writer_account(w, CATALOG_USER, 5, "joe", e);
	if (rc == 0)
		rc = catalog_writer_mount(
		    w, 1, catalogfix_bytes(""), "tmpfs", e);
	return rc == 0 ? catalog_writer_run(w, 0, 36, 0, e) : rc;
}

static int write_one(struct catalogfix *x)
{
	struct err *e = &x->f->e;
	int rc = 0;

	*e = (struct err)ERR_INIT;
	rc = catalog_writer_new(x->f->session, "root.tree", &x->w, e);
	if (rc == 0)
		rc = add_rows(x->w, e);
	if (rc == 0)
		rc = catalog_writer_finish(
		    x->w, ROWS + 1, 36, NULL, &x->f->task, &x->stored, e);
	catalog_writer_free(x->w);
	x->w = NULL;
	return rc;
}

static int count(void *ctx, struct catalog_bytes path,
    const struct catalog_entry *entry, struct err *e)
{
	unsigned *n = ctx;

	(void)path;
	(void)entry;
	(void)e;
	++*n;
	return 0;
}

static int look(struct catalogfix *x, unsigned *ret_n)
{
	const struct catalog_walk w = {
		.fn = count, .ctx = ret_n, .task = &x->f->task
	};
	struct err *e = &x->f->e;
	struct catalog_extent ext;
	struct catalog_entry row;
	bool found = false;
	int rc = catalog_root(x->c, &row, e);

	if (rc == 0)
		rc = catalog_walk(x->c, &row, catalogfix_bytes(""), &w, e);
	if (rc == 0)
		rc = catalog_resolve(x->c, catalogfix_bytes("name-9"), &row, e);
	if (rc == 0)
		rc = catalog_extent(x->c, 0, 9, &ext, e);
	if (rc == 0)
		rc = catalog_account(x->c, CATALOG_USER, 5, &x->buf, &found, e);
	if (rc == 0 && !found)
		rc = err_set(e, ERR_NOTFOUND, "no joe");
	if (rc == 0)
		rc = catalog_export(x->c, x->f->out, &x->f->task, e);
	return rc;
}

static int read_one(struct catalogfix *x)
{
	struct restorefix *f = x->f;
	unsigned n = 0;
	int rc = 0;

	f->e = (struct err)ERR_INIT;
	rc = catalog_open(
	    f->ds, &f->id, &f->hold, &f->manifest, "root.tree", &x->c, &f->e);
	if (rc == 0)
		rc = look(x, &n);
	if (rc == 0)
		assert_int_equal(n, ROWS);
	catalog_close(x->c);
	x->c = NULL;
	return rc;
}

/* A database of which a page is away. */
struct hurt {
	const char *p;
	size_t page; /* from 0 */
};

static int hurt_pread(void *ctx, void *p, size_t n, uint64_t at, struct err *e)
{
	const struct hurt *h = ctx;

	if (at / CATALOG_PAGE_SIZE == h->page)
		return err_set(e, ERR_CORRUPT, "it is away");
	memcpy(p, h->p + at, n);
	return 0;
}

/* The last leaf that has rows. */
static size_t find_leaf(const struct catalogfix *x)
{
	size_t found = 0;

	for (size_t i = 1; i < x->bytes_n / CATALOG_PAGE_SIZE; i++) {
		const char *page = x->bytes + i * CATALOG_PAGE_SIZE;

		if (page[0] == 10 &&
		    memmem(page, CATALOG_PAGE_SIZE, "name-", 5) != NULL)
			found = i;
	}
	assert_true(found > 0);
	return found;
}

static int salvage_one(struct catalogfix *x)
{
	struct task silent = TASK_SILENT;
	struct catalog_gaps gaps = { .places = 0 };
	struct hurt hurt = { .p = x->bytes, .page = find_leaf(x) };
	unsigned n = 0;
	const struct catalog_walk w = {
		.fn = count, .ctx = &n, .task = &silent, .gaps = &gaps
	};
	struct catalog_part part = catalogmem_part(x->bytes, x->bytes_n, "it");
	struct catalog_entry root;
	struct err *e = &x->f->e;
	int rc = 0;

	*e = (struct err)ERR_INIT;
	part.source.pread = hurt_pread;
	part.source.ctx = &hurt;
	rc = catalog_open_parts(&part, NULL, "", &x->c, e);
	if (rc == 0)
		rc = catalog_root(x->c, &root, e);
	if (rc == 0)
		rc = catalog_walk(x->c, &root, catalogfix_bytes(""), &w, e);
	if (rc == 0) {
		assert_true(gaps.places > 0);
		assert_in_range(n, ROWS / 4, ROWS - 1);
	}
	catalog_close(x->c);
	x->c = NULL;
	return rc;
}

typedef int scene(struct catalogfix *x);

static void before(struct catalogfix *x, scene *run)
{
	if (run == write_one)
		restorefix_begin(x->f);
	else
		restorefix_target(x->f, "out", O_RDWR | O_CREAT | O_TRUNC);
}

static void after(struct catalogfix *x, scene *run, int rc)
{
	struct restorefix *f = x->f;

	assert_int_equal(f->e.code, rc);
	assert_int_equal(f->e.msg[0] == '\0', rc == 0);
	if (run == write_one) {
		session_abort(f->session);
		f->session = NULL;
	}
	assert_int_equal(restorefix_list_lines(f), 0);
}

/* A snapshot of a base and changes that take nothing away and add one attr. */
static void make_pair(struct catalogfix *x)
{
	static const char sql[] =
	    "delete from entry; delete from attr; delete from account;"
	    "insert into attr values (7, x'01');"
	    "insert into superseded values (1, x'6e6f');";
	struct restorefix *f = x->f;
	char meta[256];
	char csum[DIGEST_HEX_SIZE];
	size_t n = 0;
	size_t changes_n = 0;
	char *base = NULL;
	char *changes = NULL;

	catalogfix_begin(x, "root.tree");
	assert_ok(add_rows(x->w, &f->e), &f->e);
	catalogfix_finish(x, ROWS + 1);
	catalogfix_open(x, "root.tree");
	catalogfix_extract(x, "root.tree.catalog", "base");
	base = tmpdir_get(f->dir.fd, "base", &n);
	restorefix_push(f, BASE, base, n);
	assert_ok(restorefix_open(f, BASE), &f->e);
	digest_hex(&manifest_find(&f->manifest, BASE)->csum, csum);
	catalogfix_sql(x, "base", false, sql);
	(void)snprintf(meta, sizeof(meta),
	    "insert into meta values ('catalog', '%s')", csum);
	catalogfix_sql(x, "base", false, meta);
	changes = tmpdir_get(f->dir.fd, "base", &changes_n);
	restorefix_begin(f);
	restorefix_add(f, "root.tree.didx", "abc", 3);
	restorefix_add(f, BASE, base, n);
	restorefix_add(f, CHANGES, changes, changes_n);
	restorefix_commit(f);
	free(base);
	free(changes);
	assert_ok(restorefix_open(f, BASE), &f->e);
	catalog_close(x->c);
	x->c = NULL;
}

static void fail_calls(struct catalogfix *x, scene *run,
    const struct fault_rule *like, bool corrupt)
{
	struct fault_rule rule = *like;
	uint64_t hits = 1;

	rule.times = 1;
	for (uint64_t n = 1; hits > 0; n++) {
		int rc = 0;

		before(x, run);
		fault_install();
		rule.at = n;
		fault_add(&rule);
		rc = run(x);
		hits = fault_hits();
		fault_uninstall();
		if (hits == 0)
			assert_ok(rc, &x->f->e);
		if (rc < 0 && !corrupt)
			assert_int_equal(rc, ERR_SYS);
		after(x, run, rc);
	}
	before(x, run);
	assert_ok(run(x), &x->f->e);
	after(x, run, 0);
}

static void every_call_fails(struct catalogfix *x, scene *run)
{
	static const struct fault_rule fail = {
		.calls = FAULT_ANY, .what = FAULT_FAIL, .error = EIO
	};
	static const struct fault_rule full = { .calls =
						    FAULT_BIT(FAULT_PWRITE),
		.what = FAULT_FAIL,
		.error = ENOSPC };
	static const struct fault_rule pieces = {
		.calls = FAULT_BIT(FAULT_READ) | FAULT_BIT(FAULT_PREAD) |
		    FAULT_BIT(FAULT_WRITE) | FAULT_BIT(FAULT_PWRITE),
		.what = FAULT_SHORT,
		.bytes = 7
	};
	static const struct fault_rule end = {
		.calls = FAULT_BIT(FAULT_READ) | FAULT_BIT(FAULT_PREAD),
		.what = FAULT_SHORT,
	};

	fail_calls(x, run, &fail, false);
	fail_calls(x, run, &full, false);
	fail_calls(x, run, &pieces, false);
	fail_calls(x, run, &end, true);
}

static void every_allocation_fails(struct catalogfix *x, scene *run)
{
	uint64_t failed = 1;

	for (uint64_t n = 1; failed > 0; n++) {
		int rc = 0;

		before(x, run);
		failmalloc_at(n);
		rc = run(x);
		failed = failmalloc_off();
		if (failed == 0)
			assert_ok(rc, &x->f->e);
		if (rc < 0)
			assert_int_equal(rc, ERR_NOMEM);
		after(x, run, rc);
	}
	before(x, run);
	assert_ok(run(x), &x->f->e);
	after(x, run, 0);
}

static void writes_though_calls_fail(void **state)
{
	every_call_fails(*state, write_one);
}

static void writes_though_memory_is_out(void **state)
{
	every_allocation_fails(*state, write_one);
}

static void salvages_though_memory_is_out(void **state)
{
	struct catalogfix *x = *state;

	make_pair(x);
	catalogfix_extract(x, BASE, "hurt");
	x->bytes = tmpdir_get(x->f->dir.fd, "hurt", &x->bytes_n);
	assert_non_null(x->bytes);
	every_allocation_fails(x, salvage_one);
}

static void reads_though_calls_fail(void **state)
{
	make_pair(*state);
	every_call_fails(*state, read_one);
}

static void reads_though_memory_is_out(void **state)
{
	make_pair(*state);
	every_allocation_fails(*state, read_one);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CATALOGFIX_TEST(writes_though_memory_is_out),
		CATALOGFIX_TEST(writes_though_calls_fail),
		CATALOGFIX_TEST(reads_though_memory_is_out),
		CATALOGFIX_TEST(salvages_though_memory_is_out),
		CATALOGFIX_TEST(reads_though_calls_fail),
	};

	if (sqlite3_config(SQLITE_CONFIG_MALLOC, &mem) != SQLITE_OK)
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
