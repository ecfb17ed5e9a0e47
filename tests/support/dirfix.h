/* SPDX-License-Identifier: MIT */
/*
 * dirfix: a directory "src" in the scratch directory, pushed as "root.tree"
 * into the datastore beside it, and looked at through its catalog.
 *
 * Only for programs that link cairn_catalogfix.
 */
#ifndef CAIRN_TESTS_SUPPORT_DIRFIX_H
#define CAIRN_TESTS_SUPPORT_DIRFIX_H

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "index/archive_reader.h"
#include "index/tree_push.h"
#include "tests/support/catalogfix.h"
#include "tests/support/gen.h"

struct dirfix {
	struct catalogfix *x;
	struct restorefix *f;
	int src; /* the directory */
	struct tree_push_opts opts;
	struct tree_push_result result;
	struct fault_rule rule; /* of the push alone; calls 0: none */
};

static inline int dirfix_setup(void **state)
{
	struct dirfix *t = calloc(1, sizeof(*t));
	void *x = NULL;

	if (t == NULL)
		return -1;
	*state = t;
	t->src = -1;
	if (catalogfix_setup(&x) < 0)
		return -1;
	t->x = x;
	t->f = t->x->f;
	t->opts.ingest.chunk_size = (size_t)64 << 10;
	t->opts.ingest.level = 1;
	if (mkdirat(t->f->dir.fd, "src", 0755) < 0)
		return -1;
	t->src =
	    openat(t->f->dir.fd, "src", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return t->src >= 0 ? 0 : -1;
}

static inline int dirfix_teardown(void **state)
{
	struct dirfix *t = *state;
	void *x = t->x;

	fault_uninstall();
	if (t->src >= 0)
		(void)close(t->src);
	free(t);
	return catalogfix_teardown(&x);
}

#define DIRFIX_TEST(t) \
	cmocka_unit_test_setup_teardown(t, dirfix_setup, dirfix_teardown)

static inline void dirfix_put(
    struct dirfix *t, const char *name, const char *text)
{
	tmpdir_put_str(t->src, name, text);
}

static inline void dirfix_dir(struct dirfix *t, const char *name)
{
	assert_int_equal(mkdirat(t->src, name, 0755), 0);
}

/* n random bytes of a seed as a file. */
static inline void dirfix_random(
    struct dirfix *t, const char *name, size_t n, uint64_t seed)
{
	uint8_t *p = malloc(n + 1);
	struct gen g;

	assert_non_null(p);
	gen_seed(&g, seed);
	gen_fill(&g, GEN_RANDOM, p, n);
	tmpdir_put(t->src, name, p, n);
	free(p);
}

/* In a session of its own, which stays open. */
static inline int dirfix_try(struct dirfix *t)
{
	t->f->e = (struct err)ERR_INIT;
	catalog_close(t->x->c);
	t->x->c = NULL;
	restorefix_begin(t->f);
	if (t->rule.calls != 0) {
		fault_install();
		fault_add(&t->rule);
	}
	return tree_push(t->f->session, "root.tree", t->src, "src", &t->opts,
	    &t->f->task, &t->result, &t->f->e);
}

/* It works, and the catalog is opened. */
static inline void dirfix_push(struct dirfix *t)
{
	assert_ok(dirfix_try(t), &t->f->e);
	fault_uninstall();
	catalogfix_open(t->x, "root.tree");
}

/* The row of a path; its bytes are good until the next one. */
static inline struct catalog_entry dirfix_row(
    struct dirfix *t, const char *path)
{
	struct catalog_entry row = { .parent = 0 };

	assert_ok(
	    catalog_resolve(t->x->c, catalogfix_bytes(path), &row, &t->f->e),
	    &t->f->e);
	return row;
}

static inline bool dirfix_has(struct dirfix *t, const char *path)
{
	struct catalog_entry row = { .parent = 0 };
	struct err e = ERR_INIT;

	return catalog_resolve(t->x->c, catalogfix_bytes(path), &row, &e) == 0;
}

/* What is stored of a file, holes left out, into t->x->buf. */
static inline void dirfix_read(struct dirfix *t, const char *path)
{
	struct catalog_entry row = dirfix_row(t, path);
	struct archive_reader *r = NULL;
	struct err *e = &t->f->e;
	uint64_t left = catalog_stored_size(&row);
	uint64_t pos = row.pos;

	assert_ok(archive_reader_new(t->f->archive, 1 << 20, &r, e), e);
	buf_reset(&t->x->buf);
	while (left > 0) {
		struct catalog_extent x;

		assert_ok(catalog_extent(t->x->c, pos, left, &x, e), e);
		assert_ok(buf_reserve(&t->x->buf, x.length, e), e);
		assert_ok(
		    archive_reader_pread(r, t->x->buf.data + t->x->buf.len,
			x.length, x.start, e),
		    e);
		t->x->buf.len += x.length;
		pos += x.length;
		left -= x.length;
	}
	archive_reader_free(r);
}

/* A whole file without holes is this; its SHA-256, too. */
static inline void dirfix_assert_content(
    struct dirfix *t, const char *path, const void *p, size_t n)
{
	struct catalog_entry row = dirfix_row(t, path);
	struct digest d;

	assert_true((row.has & CATALOG_HAS_SHA256) != 0);
	assert_ok(digest_of(p, n, &d, &t->f->e), &t->f->e);
	assert_memory_equal(d.b, row.sha256.b, DIGEST_SIZE);
	assert_int_equal(row.size, n);
	dirfix_read(t, path);
	assert_int_equal(t->x->buf.len, n);
	if (n > 0)
		assert_memory_equal(t->x->buf.data, p, n);
}

static inline void dirfix_assert_file(struct dirfix *t, const char *path)
{
	size_t n = 0;
	char *p = tmpdir_get(t->src, path, &n);

	assert_non_null(p);
	dirfix_assert_content(t, path, p, n);
	free(p);
}

#endif
