/* SPDX-License-Identifier: MIT */
#include "tests/support/tarfix.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "datastore/base/file.h"
#include "index/archive_reader.h"
#include "index/tree_cat.h"

int tarfix_setup(void **state)
{
	struct tarfix *t = calloc(1, sizeof(*t));
	void *x = NULL;

	if (t == NULL)
		return -1;
	*state = t;
	if (catalogfix_setup(&x) < 0)
		return -1;
	t->x = x;
	return 0;
}

int tarfix_teardown(void **state)
{
	struct tarfix *t = *state;
	void *x = t->x;

	buf_release(&t->tar);
	buf_release(&t->text);
	free(t);
	return catalogfix_teardown(&x);
}

void tarfix_bytes(struct tarfix *t, const void *p, size_t n)
{
	assert_ok(buf_append(&t->tar, p, n, &t->x->f->e), &t->x->f->e);
}

void tarfix_zeros(struct tarfix *t, size_t n)
{
	assert_ok(buf_reserve(&t->tar, n, &t->x->f->e), &t->x->f->e);
	memset(t->tar.data + t->tar.len, 0, n);
	t->tar.len += n;
}

static void octal(char *p, size_t n, uint64_t v)
{
	(void)snprintf(p, n, "%0*" PRIo64, (int)n - 1, v);
}

void tarfix_member(struct tarfix *t, char type, const char *name,
    const char *link, const void *p, size_t n)
{
	char h[TARFIX_BLOCK] = { 0 };
	unsigned sum = 0;

	(void)snprintf(h, 100, "%s", name);
	octal(h + 100, 8, 0640);
	octal(h + 108, 8, 1000);
	octal(h + 116, 8, 100);
	octal(h + 124, 12, n);
	octal(h + 136, 12, 1000000000);
	memset(h + 148, ' ', 8);
	h[156] = type;
	if (link != NULL)
		(void)snprintf(h + 157, 100, "%s", link);
	memcpy(h + 257, "ustar\00000", 8);
	(void)snprintf(h + 265, 32, "jo");
	(void)snprintf(h + 297, 32, "users");
	for (size_t i = 0; i < sizeof(h); i++)
		sum += (unsigned char)h[i];
	octal(h + 148, 7, sum);
	tarfix_bytes(t, h, sizeof(h));
	t->content = t->tar.len;
	if (n > 0)
		tarfix_bytes(t, p, n);
	if (n % TARFIX_BLOCK != 0)
		tarfix_zeros(t, TARFIX_BLOCK - n % TARFIX_BLOCK);
}

void tarfix_file(struct tarfix *t, const char *name, const char *content)
{
	tarfix_member(t, '0', name, NULL, content, strlen(content));
}

void tarfix_pax(struct tarfix *t, const char *const *records)
{
	char text[8192];
	size_t n = 0;

	for (; *records != NULL; records++) {
		size_t length = strlen(*records) + 3;

		/* A record's length has its own digits in it. */
		while ((size_t)snprintf(
			   NULL, 0, "%zu %s\n", length, *records) != length)
			length++;
		assert_true(n + length < sizeof(text));
		(void)snprintf(
		    text + n, sizeof(text) - n, "%zu %s\n", length, *records);
		n += length;
	}
	tarfix_member(t, 'x', "pax", NULL, text, n);
}

void tarfix_end(struct tarfix *t)
{
	tarfix_zeros(t, 2 * TARFIX_BLOCK);
}

void tarfix_push_as(struct tarfix *t, const struct tar_push_opts *opts)
{
	struct restorefix *f = t->x->f;
	struct ingest_source src = { .shown = "source" };

	t->tree = false;
	tmpdir_put(f->dir.fd, "source", t->tar.data, t->tar.len);
	restorefix_begin(f);
	restorefix_target(f, "source", O_RDONLY);
	src.fd = f->out;
	assert_ok(tar_push(f->session, "root.tar", &src, opts, &f->task,
		      &t->result, &f->e),
	    &f->e);
	restorefix_commit(f);
	assert_int_equal(t->result.content.size, t->tar.len);
	if (t->result.catalog.size > 0)
		assert_ok(catalogfix_try_open(t->x, "root.tar"), &f->e);
}

void tarfix_push(struct tarfix *t)
{
	static const struct tar_push_opts small = {
		.ingest = { .chunk_size = RESTOREFIX_CHUNK, .threads = 2 }
	};

	tarfix_push_as(t, &small);
}

int tarfix_export(struct tarfix *t, enum tree_export_format format,
    const char *path, struct tree_export_result *ret)
{
	struct restorefix *f = t->x->f;
	const struct tree_export_opts opts = { .format = format,
		.path = catalogfix_bytes(path),
		.shown = "exported" };
	struct err e = ERR_INIT;
	int rc = 0;

	restorefix_target(f, "exported", O_RDWR | O_CREAT | O_TRUNC);
	rc = tree_export(
	    t->x->c, f->archive, f->out, &opts, &f->task, ret, &f->e);
	if (rc < 0)
		return rc;
	buf_reset(&t->tar);
	assert_ok(file_read_at(
		      f->dir.fd, "exported", SIZE_MAX, &t->tar, "exported", &e),
	    &e);
	return 0;
}

void tarfix_assert_stream(struct tarfix *t)
{
	struct restorefix *f = t->x->f;
	struct archive_result r;

	if (f->archive == NULL)
		assert_ok(restorefix_open(f, "root.tar.didx"), &f->e);
	restorefix_target(f, "back", O_RDWR | O_CREAT | O_TRUNC);
	assert_ok(archive_extract(f->archive, f->out, ARCHIVE_SPARSE_FILE,
		      "back", &f->task, &r, &f->e),
	    &f->e);
	restorefix_assert_file(f, "back", t->tar.data, t->tar.len);
}

static int on_content(void *ctx, const void *p, size_t n, struct err *e)
{
	uint64_t *got = ctx;

	(void)p;
	(void)e;
	*got += n;
	return 0;
}

/* It has the SHA-256 that the row says. */
static void cat_content(struct tarfix *t, const struct catalog_entry *row)
{
	struct restorefix *f = t->x->f;
	struct archive_reader *reader = NULL;
	uint64_t got = 0;

	assert_ok(
	    archive_reader_new(f->archive, 1U << 20, &reader, &f->e), &f->e);
	assert_ok(
	    tree_cat(t->x->c, reader, row, on_content, &got, &f->task, &f->e),
	    &f->e);
	archive_reader_free(reader);
	assert_int_equal(got, row->size);
}

/* What the row says of its content is what the stream has there. */
static void check_content(struct tarfix *t, const struct catalog_entry *row)
{
	struct err *e = &t->x->f->e;
	uint64_t n = catalog_stored_size(row);
	struct catalog_extent extent = { .start = row->pos };
	struct digest d;

	if (row->kind != CATALOG_FILE ||
	    (row->state & CATALOG_STATE_UNREADABLE) != 0)
		return;
	assert_true((row->has & CATALOG_HAS_SHA256) != 0);
	if (t->tree) {
		cat_content(t, row);
		return;
	}
	if (n > 0) {
		assert_ok(catalog_extent(t->x->c, row->pos, n, &extent, e), e);
		assert_int_equal(extent.length, n);
		assert_int_equal(extent.start, row->pos);
	}
	assert_true(extent.start + n <= t->tar.len);
	assert_ok(digest_of(t->tar.data + extent.start, (size_t)n, &d, e), e);
	assert_true(digest_equal(&d, &row->sha256));
}

struct dump {
	struct tarfix *t;
	struct {
		int64_t link;
		char path[128];
	} firsts[16];
	size_t n;
};

static void add(struct tarfix *t, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
static void add(struct tarfix *t, const char *fmt, ...)
{
	char line[4096];
	va_list args;

	va_start(args, fmt);
	(void)vsnprintf(line, sizeof(line), fmt, args);
	va_end(args);
	assert_ok(buf_append_str(&t->text, line, &t->x->f->e), &t->x->f->e);
}

static void add_row(
    struct dump *d, const char *path, size_t n, const struct catalog_entry *row)
{
	struct tarfix *t = d->t;

	add(t, "%.*s %s", (int)n, path, catalog_kind_word(row->kind));
	if ((row->has & CATALOG_HAS_MODE) != 0)
		add(t, " %o", row->mode);
	if ((row->has & CATALOG_HAS_SIZE) != 0)
		add(t, " size=%" PRIu64, row->size);
	for (size_t i = 0; i < catalog_holes_count(row); i++) {
		struct catalog_hole h = catalog_hole_decode(row, i);

		add(t, "%s%" PRIu64 "+%" PRIu64, i == 0 ? " holes=" : ",",
		    h.start, h.length);
	}
	if ((row->has & CATALOG_HAS_TARGET) != 0)
		add(t, " -> %.*s", (int)row->target.n, row->target.p);
	if ((row->has & CATALOG_HAS_LINK) != 0) {
		size_t i = 0;

		while (i < d->n && d->firsts[i].link != row->link)
			i++;
		if (i == d->n) {
			assert_true(d->n < TEST_COUNT(d->firsts));
			d->firsts[i].link = row->link;
			(void)snprintf(d->firsts[i].path,
			    sizeof(d->firsts[i].path), "%.*s", (int)n, path);
			d->n++;
		}
		add(t, " link=%s", d->firsts[i].path);
	}
	if ((row->has & CATALOG_HAS_STATE) != 0)
		add(t, " state=%u", row->state);
	add(t, "\n");
	check_content(t, row);
}

static int on_row(void *ctx, struct catalog_bytes path,
    const struct catalog_entry *row, struct err *e)
{
	(void)e;
	add_row(ctx, (const char *)path.p, path.n, row);
	return 0;
}

const char *tarfix_dump(struct tarfix *t)
{
	struct catalogfix *x = t->x;
	struct err *e = &x->f->e;
	struct dump d = { .t = t };
	const struct catalog_walk w = {
		.fn = on_row, .ctx = &d, .task = &x->f->task
	};
	struct catalog_entry row;
	bool more = true;

	buf_reset(&t->text);
	assert_non_null(x->c);
	assert_ok(catalog_root(x->c, &row, e), e);
	assert_ok(catalog_entry_copy(&row, &x->kept, e), e);
	assert_ok(
	    catalog_walk(x->c, x->kept, (struct catalog_bytes){ 0 }, &w, e), e);
	free(x->kept);
	x->kept = NULL;
	assert_ok(catalog_earlier(x->c, &x->cur, e), e);
	while (more) {
		assert_ok(catalog_cursor_next(x->cur, &row, &more, e), e);
		if (!more)
			break;
		add(t, "- ");
		add_row(&d, (const char *)row.name.p, row.name.n, &row);
	}
	catalog_cursor_free(x->cur);
	x->cur = NULL;
	return buf_cstr(&t->text, e);
}

void tarfix_assert_dump(struct tarfix *t, const char *want)
{
	assert_string_equal(tarfix_dump(t), want);
}

struct catalog_entry tarfix_row(struct tarfix *t, const char *path)
{
	struct catalog_entry row;

	assert_ok(
	    catalog_resolve(t->x->c, catalogfix_bytes(path), &row, &t->x->f->e),
	    &t->x->f->e);
	return row;
}
