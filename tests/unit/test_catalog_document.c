/* SPDX-License-Identifier: MIT */
/*
 * The SQL of etc/doc/format-catalog.md, taken from there: its tables are those
 * of catalogs, and its queries give what they say.
 */
#include <fcntl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "index/catalog_schema.h"
#include "tests/support/catalogfix.h"

#define BLOCKS_MAX 32

enum {
	BLOCK_TABLES,
	BLOCK_MERGED,
	BLOCK_EARLIER,
	BLOCK_QUERIES,
};

struct document {
	struct catalogfix *x;
	char *text;
	const char *blocks[BLOCKS_MAX]; /* each ends with a zero byte */
	size_t n;
	sqlite3 *db;
};

static int document_teardown(void **state)
{
	struct document *d = *state;
	void *x = d->x;

	free(d->text);
	(void)sqlite3_close(d->db);
	free(d);
	return catalogfix_teardown(&x);
}

static void find_blocks(struct document *d)
{
	char *at = d->text;

	for (;;) {
		char *end = NULL;

		at = strstr(at, "```sql\n");
		if (at == NULL)
			return;
		at += strlen("```sql\n");
		end = strstr(at, "```");
		assert_non_null(end);
		assert_true(d->n < BLOCKS_MAX);
		*end = '\0';
		d->blocks[d->n++] = at;
		at = end + 1;
	}
}

static int document_setup(void **state)
{
	struct document *d = calloc(1, sizeof(*d));
	void *x = NULL;
	int dirfd = -1;
	size_t n = 0;

	if (d == NULL)
		return -1;
	*state = d;
	if (catalogfix_setup(&x) < 0)
		return -1;
	d->x = x;
	dirfd = open(CAIRN_DOC_DIR, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	d->text = tmpdir_get(dirfd, "format-catalog.md", &n);
	(void)close(dirfd);
	if (d->text == NULL)
		return -1;
	find_blocks(d);
	return 0;
}

#define DOCUMENT_TEST(t) \
	cmocka_unit_test_setup_teardown(t, document_setup, document_teardown)

/* An empty database of the document's tables. */
static void make_empty(struct document *d, const char *name, bool earlier)
{
	char sql[256];

	(void)snprintf(sql, sizeof(sql),
	    "pragma page_size = 4096; pragma application_id = %u;"
	    "pragma user_version = 1",
	    CATALOG_APPLICATION_ID);
	catalogfix_sql(d->x, name, true, sql);
	catalogfix_sql(d->x, name, false, d->blocks[BLOCK_TABLES]);
	if (earlier)
		catalogfix_sql(d->x, name, false, d->blocks[BLOCK_EARLIER]);
}

static void open_db(struct document *d, const char *name)
{
	char path[PATH_MAX];

	(void)snprintf(path, sizeof(path), "%s/%s", d->x->f->dir.path, name);
	assert_int_equal(sqlite3_open(path, &d->db), SQLITE_OK);
}

static void run(struct document *d, const char *sql)
{
	char *why = NULL;

	if (sqlite3_exec(d->db, sql, NULL, NULL, &why) == SQLITE_OK)
		return;
	print_error("%s\n%s\n", why, sql);
	fail();
}

/* Rows, one a line, columns with a bar between. */
static const char *ask(struct document *d, const char *sql)
{
	struct buf *out = &d->x->buf;
	struct err *e = &d->x->f->e;
	sqlite3_stmt *stmt = NULL;

	buf_reset(out);
	if (sqlite3_prepare_v2(d->db, sql, -1, &stmt, NULL) != SQLITE_OK) {
		print_error("%s\n%s\n", sqlite3_errmsg(d->db), sql);
		fail();
	}
	while (sqlite3_step(stmt) == SQLITE_ROW) {
		for (int i = 0; i < sqlite3_column_count(stmt); i++) {
			const char *s =
			    (const char *)sqlite3_column_text(stmt, i);

			assert_ok(buf_append_fmt(out, e, "%s%s",
				      i > 0 ? "|" : "", s != NULL ? s : ""),
			    e);
		}
		assert_ok(buf_append_str(out, "\n", e), e);
	}
	assert_int_equal(sqlite3_finalize(stmt), SQLITE_OK);
	return buf_cstr(out, e);
}

static void has_the_tables(void **state)
{
	struct document *d = *state;
	struct catalogfix *x = d->x;

	make_empty(d, "plain", false);
	assert_ok(catalogfix_open_file(x, "plain"), &x->f->e);
	make_empty(d, "tar", true);
	assert_ok(catalogfix_open_file(x, "tar"), &x->f->e);
	assert_ok(catalog_earlier(x->c, &x->cur, &x->f->e), &x->f->e);
	assert_string_equal(catalogfix_names(x), "");
}

#define ROW(values)                                                        \
	"insert into entry(parent, name, id, kind, mode, uid, mtime_s, "   \
	"mtime_ns, nlink, size, pos, sha256, link, state) values (" values \
	");"

static const char rows[] =
    /*  parent name id kind mode uid mtime ns nlink size pos sha link state */
    ROW("0, x'', 1, 'dir', 493, 0, 1600000000, 0, 1, null, null, null, null, "
	"null") ROW("1, cast('etc' as blob), 2, 'dir', 493, 0, 1600000000, 0, 1, null, "
		    "null, null, null, null")
	ROW("1, cast('big' as blob), 3, 'file', 420, 5, 1600000000, 0, 1, 5000, "
	    "110, zeroblob(32), null, null")
	    ROW("1, cast('home' as blob), 4, 'dir', 493, 5, 1600000000, 0, 1, null, "
		"null, null, null, null") ROW("2, cast('a.conf' as blob), 5, 'file', 420, 0, 1700006400, 0, 1, 10, "
					      "100, x'01', null, null")
		ROW("2, cast('su' as blob), 6, 'file', 2541, 0, 1600000000, 0, 1, 7, "
		    "6000, x'02', null, null")
		    ROW("4, cast('copy' as blob), 7, 'file', 438, 5, 1700100000, 0, 2, 10, "
			"100, x'01', 7, 1") ROW("4, cast('link' as blob), 8, 'file', 438, 5, 1700100000, 0, 2, 10, "
						"100, x'01', 7, 1")
			ROW("4, cast('lost' as blob), 9, 'file', 384, 6, 1600000000, 0, 1, 99, "
			    "null, null, null, 4") "insert into account values ('user', 0, cast('root' as blob)),"
						   "('user', 5, cast('joe' as blob)), ('user', 6, null);"
						   "insert into run values (100, 50, 0), (150, 9000, 1000);";

static const char *const wanted[] = {
	/* every path */
	"/big\n/etc\n/etc/a.conf\n/etc/su\n/home\n/home/copy\n/home/link\n"
	"/home/lost\n",
	/* like ls -l */
	"file|0644|10|2023-11-15 00:00:00|a.conf\n"
	"file|4755|7|2020-09-13 12:26:40|su\n",
	/* the largest */
	"5000|/big\n99|/home/lost\n10|/etc/a.conf\n",
	/* since a day */
	"2023-11-15 00:00:00|a.conf\n2023-11-16 02:00:00|copy\n"
	"2023-11-16 02:00:00|link\n",
	/* more than once */
	"2|10|10|a.conf,copy\n",
	/* by owner */
	"joe|3|5020.0\n6|1|99.0\nroot|2|17.0\n",
	/* like du */
	"home|3|119.0\netc|2|17.0\n",
	/* set-user-id, writable */
	"0666|5|copy\n0666|5|link\n4755|0|su\n",
	/* one inode */
	"7|2|2|copy,link\n",
	/* not as it was */
	"changed|copy\nchanged|link\nunreadable|lost\n",
	/* in the stream */
	"10|5000\n",
	/* kinds */
	"dir|3|0.0\nfile|6|5136.0\n",
};

static void answers_the_queries(void **state)
{
	struct document *d = *state;

	assert_int_equal(d->n, BLOCK_QUERIES + TEST_COUNT(wanted));
	make_empty(d, "plain", false);
	open_db(d, "plain");
	run(d, rows);
	for (size_t i = 0; i < TEST_COUNT(wanted); i++) {
		assert_string_equal(
		    ask(d, d->blocks[BLOCK_QUERIES + i]), wanted[i]);
	}
}

/* 'changes.db' lies in the scratch directory. */
static void merges(void **state)
{
	static const char name[] = "attach 'changes.db'";
	struct document *d = *state;
	const char *sql = d->blocks[BLOCK_MERGED];
	char text[2 * PATH_MAX];

	make_empty(d, "plain", false);
	make_empty(d, "changes.db", false);
	catalogfix_sql(d->x, "changes.db", false,
	    "insert into entry(parent, name, id, kind) values "
	    "(1, x'62', 2, 'dir'), (1, x'63', 4, 'dir');"
	    "insert into superseded values (1, x'61'), (1, x'63')");
	open_db(d, "plain");
	run(d,
	    "insert into entry(parent, name, id, kind) values "
	    "(0, x'', 1, 'dir'), (1, x'61', 2, 'dir'), (2, x'66', 3, 'fifo'),"
	    "(1, x'63', 4, 'fifo')");
	assert_memory_equal(sql, name, sizeof(name) - 1);
	(void)snprintf(text, sizeof(text), "attach '%s/changes.db'%s",
	    d->x->f->dir.path, sql + sizeof(name) - 1);
	run(d, text);
	assert_string_equal(
	    ask(d,
		"select parent, cast(name as text), id, kind from merged "
		"order by parent, name"),
	    "0||1|dir\n1|b|2|dir\n1|c|4|dir\n2|f|3|fifo\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		DOCUMENT_TEST(has_the_tables),
		DOCUMENT_TEST(answers_the_queries),
		DOCUMENT_TEST(merges),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
