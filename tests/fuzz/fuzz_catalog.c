/* SPDX-License-Identifier: MIT */
/*
 * fuzz_catalog: any database as a catalog, alone or with changes: whatever it
 * holds, reading it ends, with rows that keep the rules or with an error that
 * names it.
 *
 * Most bytes of a database say nothing, so an input is mostly how to change
 * sound ones, by its first byte:
 *   p, q   bytes of the catalog, of the changes: page, offset (2), value, ...
 *   s, t   SQL that is run on the catalog, on the changes
 *   else   the catalog itself
 */
#include <sqlite3.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "index/catalog_internal.h"
#include "index/catalog_schema.h"
#include "tests/support/catalogmem.h"

#define MUST(cond)               \
	do {                     \
		if (!(cond))     \
			abort(); \
	} while (0)

/* An input that asks for more is not interesting. */
#define SQL_OPS 2000000
#define DATABASE_MAX ((size_t)8 << 20)

#define OF "0000000000000000000000000000000000000000000000000000000000000000"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct database {
	uint8_t *p;
	size_t n;
};

/* An empty catalog, and what it is to hold. */
static const char base_sql[] =
    "insert into entry(parent, name, id, kind, mode, size, pos, target, attr)"
    "values (0, x'', 1, 'dir', 493, null, null, null, null),"
    "(1, x'61', 2, 'dir', 493, null, null, null, 1),"
    "(2, x'66', 3, 'file', 420, 10, 0, null, null),"
    "(2, x'6c', 4, 'symlink', null, null, null, x'66', null),"
    "(1, x'62', 5, 'dir', null, null, null, null, null),"
    "(5, x'67', 6, 'file', null, 26, 10, null, null);"
    "insert into entry(parent, name, id, kind, holes, size, pos) values"
    "(1, x'68', 7, 'file', x'00000000000000000400000000000000', 9, 30);"
    "insert into run values (0, 20, 0), (20, 16, 40);"
    "insert into attr values (1, x'060001000000757365722e6132');"
    "insert into account values ('user', 0, x'726f6f74');"
    "insert into mount values (1, null, x'', 'xfs');"
    "insert into meta values ('lineage', 'x'), ('next-id', 8);";

static const char changes_sql[] =
    "insert into entry(parent, name, id, kind, size, pos) values"
    "(1, x'63', 2, 'dir', null, null), (2, x'6e', 8, 'file', 1, 36);"
    "insert into superseded values (1, x'61'), (2, x'66');"
    "insert into run values (0, 37, 0);"
    "insert into account values ('user', 7, x'626f62');"
    "insert into meta values ('catalog', '" OF "');";

/* Nothing but the database itself: no file, no function that makes one. */
static int authorize(void *ctx, int action, const char *a, const char *b,
    const char *c, const char *d)
{
	(void)ctx;
	(void)a;
	(void)b;
	(void)c;
	(void)d;
	return action == SQLITE_ATTACH || action == SQLITE_PRAGMA ? SQLITE_DENY
								  : SQLITE_OK;
}

static int stop(void *ctx)
{
	(void)ctx;
	return 1;
}

static struct database take(sqlite3 *db)
{
	struct database d = { .p = NULL };
	sqlite3_int64 n = 0;
	unsigned char *p = sqlite3_serialize(db, "main", &n, 0);

	if (p != NULL && n > 0 && (size_t)n <= DATABASE_MAX) {
		d.p = malloc((size_t)n);
		MUST(d.p != NULL);
		memcpy(d.p, p, (size_t)n);
		d.n = (size_t)n;
	}
	sqlite3_free(p);
	return d;
}

/* A sound one and, unless NULL, `more`, which need not be sound. */
static struct database make(const char *sound, const char *more)
{
	struct catalog_sql q = { .shown = "made" };
	struct database d;
	struct err e = ERR_INIT;

	MUST(sqlite3_open(":memory:", &q.db) == SQLITE_OK);
	MUST(catalog_vfs_new(false, &q.vfs, &e) == 0);
	MUST(catalog_sql_exec(&q,
		 "pragma page_size = 4096; pragma auto_vacuum = none;"
		 "pragma application_id = 0x43524e31; pragma user_version = 1",
		 &e) == 0);
	MUST(catalog_schema_create(&q, "main", false, &e) == 0);
	MUST(catalog_sql_exec(&q, sound, &e) == 0);
	if (more != NULL) {
		MUST(sqlite3_set_authorizer(q.db, authorize, NULL) == 0);
		(void)sqlite3_limit(q.db, SQLITE_LIMIT_LENGTH, 1 << 20);
		sqlite3_progress_handler(q.db, SQL_OPS, stop, NULL);
		(void)sqlite3_exec(q.db, more, NULL, NULL, NULL);
		(void)sqlite3_exec(q.db, "commit", NULL, NULL, NULL);
	}
	d = take(q.db);
	catalog_sql_close(&q);
	catalog_vfs_free(q.vfs);
	return d;
}

/* A copy of a sound one, which is made once. */
static struct database sound(bool changes)
{
	static struct database made[2];
	struct database *from = &made[changes ? 1 : 0];
	struct database d = { .p = NULL };

	if (from->p == NULL)
		*from = make(changes ? changes_sql : base_sql, NULL);
	d.p = malloc(from->n);
	MUST(d.p != NULL);
	memcpy(d.p, from->p, from->n);
	d.n = from->n;
	return d;
}

static void patch(struct database *d, const uint8_t *data, size_t size)
{
	for (; size >= 4; data += 4, size -= 4) {
		size_t at = (size_t)data[0] * CATALOG_PAGE_SIZE +
		    ((size_t)data[1] << 8 | data[2]) % CATALOG_PAGE_SIZE;

		d->p[at % d->n] = data[3];
	}
}

static void check_failure(int rc, const struct err *e)
{
	MUST(rc == ERR_CORRUPT || rc == ERR_UNSUPPORTED || rc == ERR_LIMIT ||
	    rc == ERR_NOTFOUND);
	MUST(e->code == rc);
	/* Whoever is asked for help is asked with this. */
	MUST(strstr(e->msg, "'base'") != NULL ||
	    strstr(e->msg, "'changes'") != NULL ||
	    strstr(e->msg, "'base' or 'changes'") != NULL);
}

/* The rules that users of rows rely on. */
static void check_row(const struct catalog_entry *x)
{
	MUST((x->parent == 0) == (x->name.n == 0));
	MUST(memchr(x->name.p, '/', x->name.n) == NULL);
	MUST(memchr(x->name.p, '\0', x->name.n) == NULL);
	MUST(x->name.n > 2 || memcmp("..", x->name.p, x->name.n) != 0 ||
	    x->name.n == 0);
	MUST(x->kind <= CATALOG_BLOCK);
	MUST(catalog_stored_size(x) <= x->size);
}

static int look(struct catalog *c, const struct catalog_entry *x, struct err *e)
{
	struct catalog_extent ext;
	struct buf data = BUF_INIT;
	struct catalog_xattr attr;
	size_t at = 0;
	int rc = 0;

	check_row(x);
	if (x->kind == CATALOG_FILE && catalog_stored_size(x) > 0 &&
	    (x->has & CATALOG_HAS_POS) != 0) {
		rc = catalog_extent(c, x->pos, catalog_stored_size(x), &ext, e);
		MUST(rc < 0 || ext.length > 0);
	}
	if (rc == 0 && (x->has & CATALOG_HAS_ATTR) != 0)
		rc = catalog_attr(c, x->attr, &data, e);
	while (rc == 0 && catalog_attr_next(&data, &at, &attr))
		MUST(strlen(attr.name_z) == attr.name.n);
	buf_release(&data);
	return rc;
}

static int on_entry(void *ctx, struct catalog_bytes path,
    const struct catalog_entry *entry, struct err *e)
{
	struct err ignored = ERR_INIT;
	int rc = look(ctx, entry, &ignored);

	(void)path;
	(void)e;
	if (rc < 0)
		check_failure(rc, &ignored);
	return 0;
}

static void walk(struct catalog *c)
{
	const struct catalog_bytes none = { .p = NULL, .n = 0 };
	struct task task = TASK_SILENT;
	struct catalog_gaps gaps = { .places = 0 };
	struct catalog_walk w = { .fn = on_entry, .ctx = c, .task = &task };
	struct catalog_entry root;
	struct err e = ERR_INIT;
	int rc = catalog_root(c, &root, &e);

	if (rc == 0)
		rc = catalog_walk(c, &root, none, &w, &e);
	if (rc < 0)
		check_failure(rc, &e);
	/* The same, and on behind what is wrong. */
	e = (struct err)ERR_INIT;
	w.gaps = &gaps;
	rc = catalog_root(c, &root, &e);
	if (rc == 0)
		rc = catalog_walk(c, &root, none, &w, &e);
	if (rc < 0)
		check_failure(rc, &e);
}

static void read_rows(struct catalog *c, bool earlier)
{
	struct catalog_cursor *cur = NULL;
	struct catalog_entry x;
	struct err e = ERR_INIT;
	bool more = true;
	int rc =
	    earlier ? catalog_earlier(c, &cur, &e) : catalog_all(c, &cur, &e);

	while (rc == 0 && more) {
		rc = catalog_cursor_next(cur, &x, &more, &e);
		if (rc == 0 && more)
			check_row(&x);
	}
	if (rc < 0)
		check_failure(rc, &e);
	catalog_cursor_free(cur);
}

static void ask(struct catalog *c)
{
	static const char path[] = "a/f";
	const struct catalog_bytes typed = { .p = (const uint8_t *)path,
		.n = sizeof(path) - 1 };
	struct catalog_entry x;
	struct buf one = BUF_INIT;
	struct buf two = BUF_INIT;
	struct err e = ERR_INIT;
	bool found = false;

	if (catalog_resolve(c, typed, &x, &e) < 0)
		check_failure(e.code, &e);
	if (catalog_account(c, CATALOG_USER, 0, &one, &found, &e) < 0)
		check_failure(e.code, &e);
	if (catalog_mount(c, 1, &one, &two, &found, &e) < 0)
		check_failure(e.code, &e);
	if (catalog_meta(c, "next-id", &one, &found, &e) < 0)
		check_failure(e.code, &e);
	buf_release(&one);
	buf_release(&two);
}

static void export(struct catalog *c)
{
	struct task task = TASK_SILENT;
	struct err e = ERR_INIT;
	int fd = memfd_create("fuzz_catalog", MFD_CLOEXEC);
	int rc = 0;

	MUST(fd >= 0);
	rc = catalog_export(c, fd, &task, &e);
	if (rc < 0)
		check_failure(rc, &e);
	(void)close(fd);
}

static void check(struct database base, struct database changes)
{
	struct catalog_part b = catalogmem_part(base.p, base.n, "base");
	struct catalog_part ch =
	    catalogmem_part(changes.p, changes.n, "changes");
	struct catalog *c = NULL;
	struct err e = ERR_INIT;
	int rc =
	    catalog_open_parts(&b, changes.p != NULL ? &ch : NULL, OF, &c, &e);

	if (rc < 0) {
		check_failure(rc, &e);
		return;
	}
	walk(c);
	read_rows(c, false);
	read_rows(c, true);
	ask(c);
	export(c);
	catalog_close(c);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct database base = { .p = NULL };
	struct database changes = { .p = NULL };
	char what = size > 0 ? (char)data[0] : '\0';
	char *sql = calloc(1, size + 1);

	MUST(sql != NULL);
	if (size > 1)
		memcpy(sql, data + 1, size - 1);
	if (what == 's')
		base = make(base_sql, sql);
	else if (what == 'p' || what == 'q' || what == 't')
		base = sound(false);
	if (what == 't')
		changes = make(changes_sql, sql);
	else if (what == 'q')
		changes = sound(true);
	if (what == 'p')
		patch(&base, data + 1, size - 1);
	else if (what == 'q')
		patch(&changes, data + 1, size - 1);
	if (base.p == NULL) {
		base.p = malloc(size > 0 ? size : 1);
		MUST(base.p != NULL);
		if (size > 0)
			memcpy(base.p, data, size);
		base.n = size;
	}
	check(base, changes);
	free(base.p);
	free(changes.p);
	free(sql);
	return 0;
}
