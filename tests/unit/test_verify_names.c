/* SPDX-License-Identifier: MIT */
/*
 * Which files need a chunk that is hurt: all of them, and no other.
 */
#include <stdio.h>
#include <stdlib.h>

#include "index/verify.h"
#include "tests/support/treefix.h"

#define CHUNK RESTOREFIX_CHUNK
#define BIG (20 * CHUNK)

struct scene {
	struct restorefix *f;
	struct treefix t;
	struct verify_result result;
};

static int setup(void **state)
{
	struct scene *s = calloc(1, sizeof(*s));
	void *f = NULL;

	if (s == NULL || restorefix_setup(&f) < 0)
		return -1;
	s->f = f;
	*state = s;
	return 0;
}

static int teardown(void **state)
{
	struct scene *s = *state;
	void *f = s->f;
	int rc = 0;

	treefix_release(&s->t);
	verify_result_release(&s->result);
	rc = restorefix_teardown(&f);
	free(s);
	return rc;
}

#define SCENE_TEST(t) cmocka_unit_test_setup_teardown(t, setup, teardown)

static void verify(struct scene *s)
{
	struct restorefix *f = s->f;

	verify_result_release(&s->result);
	assert_ok(
	    verify_run(f->ds, &f->id, 1, &f->task, &s->result, &f->e), &f->e);
}

static bool is_named(const struct scene *s, const char *path)
{
	const struct verify_hurt *h = &s->result.hurt[0];

	for (size_t i = 0; i < h->files_n; i++) {
		if (strcmp(h->files[i].path, path) == 0)
			return true;
	}
	return false;
}

/* Does the file have bytes of [start, end) of the stream? */
struct placed {
	char path[16];
	uint64_t start;
	uint64_t end;
};

/*
 * Files of all sizes, one behind the other, in runs that lie elsewhere; each
 * chunk in turn is missing, and the files that have a byte of it are named.
 */
static void names_who_needs_it(void **state)
{
	struct scene *s = *state;
	const uint8_t *p = restorefix_bytes(s->f, GEN_RANDOM, BIG);
	struct placed files[200];
	size_t files_n = 0;
	uint64_t chunks = 0;
	uint64_t start = 0;

	restorefix_begin(s->f);
	treefix_begin(&s->t, s->f, "root.tree");
	treefix_dir(&s->t, "d");
	treefix_file(&s->t, "d/empty", "");
	for (uint64_t at = 0; at < BIG; files_n++) {
		struct catalog_entry x = treefix_entry(CATALOG_FILE);
		struct placed *f = &files[files_n];
		uint64_t n = files_n % 7 == 0 ? 3 * CHUNK : 100 + files_n * 97;

		assert_true(files_n < TEST_COUNT(files));
		n = n < BIG - at ? n : BIG - at;
		treefix_content(&s->t, &x, p + at, n);
		(void)snprintf(f->path, sizeof(f->path), "d/%zu", files_n);
		f->start = at;
		f->end = at + n;
		treefix_add(&s->t, f->path, x);
		at += n;
		if (files_n % 5 == 0)
			treefix_run(&s->t, 1000);
	}
	treefix_end(&s->t);
	restorefix_commit(s->f);
	chunks = restorefix_entries(s->f, "root.tree.didx");
	assert_true(chunks > 5);
	for (uint64_t i = 0; i < chunks; i++) {
		struct idx_entry chunk =
		    restorefix_entry(s->f, "root.tree.didx", i);
		char path[PATH_MAX];
		char aside[PATH_MAX];

		restorefix_chunk_path(&chunk.digest, "", path);
		restorefix_chunk_path(&chunk.digest, ".aside", aside);
		assert_int_equal(
		    renameat(s->f->dir.fd, path, s->f->dir.fd, aside), 0);
		verify(s);
		assert_int_equal(s->result.hurt_n, 1);
		assert_int_equal(s->result.missing_chunks, 1);
		assert_int_equal(s->result.hurt[0].files_more, 0);
		for (size_t j = 0; j < files_n; j++)
			assert_int_equal(is_named(s, files[j].path),
			    files[j].start < chunk.end && files[j].end > start);
		assert_false(is_named(s, "d/empty"));
		assert_string_equal(
		    s->result.hurt[0].files[0].archive, "root.tree");
		assert_int_equal(
		    renameat(s->f->dir.fd, aside, s->f->dir.fd, path), 0);
		start = chunk.end;
	}
	verify(s);
	assert_int_equal(s->result.hurt_n, 0);
}

/* A snapshot of one tree with one big file. */
static void push_one(struct scene *s)
{
	const uint8_t *p = restorefix_bytes(s->f, GEN_RANDOM, BIG);
	struct catalog_entry x = treefix_entry(CATALOG_FILE);

	restorefix_begin(s->f);
	treefix_begin(&s->t, s->f, "root.tree");
	treefix_content(&s->t, &x, p, BIG);
	treefix_add(&s->t, "a\nb", x);
	treefix_end(&s->t);
	restorefix_commit(s->f);
}

/* Many chunks, in any order of being found: the file is named once, and so
 * it is again by who knows of them from before. */
static void names_each_file_once(void **state)
{
	struct scene *s = *state;

	push_one(s);
	for (uint64_t i = 0; i < restorefix_entries(s->f, "root.tree.didx");
	     i += 2) {
		struct idx_entry chunk =
		    restorefix_entry(s->f, "root.tree.didx", i);

		restorefix_spoil(
		    s->f, &chunk.digest, i % 4 ? SPOIL_MISSING : SPOIL_CRC);
	}
	for (unsigned i = 0; i < 2; i++) {
		verify(s);
		assert_int_equal(s->result.hurt_n, 1);
		assert_int_equal(s->result.hurt[0].files_n, 1);
		assert_true(is_named(s, "a\nb"));
	}
}

/* Snapshots that are the same, and then one that is not. */
static void names_them_in_each_snapshot(void **state)
{
	struct scene *s = *state;
	struct backup_snapshot ids[4];
	struct idx_entry chunk;

	for (size_t i = 0; i < 4; i++) {
		restorefix_begin(s->f);
		treefix_begin(&s->t, s->f, "root.tree");
		treefix_file(&s->t, i < 3 ? "same" : "other", "content");
		treefix_end(&s->t);
		restorefix_commit(s->f);
		ids[i] = s->f->id;
	}
	chunk = restorefix_entry(s->f, "root.tree.didx", 0);
	restorefix_spoil(s->f, &chunk.digest, SPOIL_MISSING);
	assert_ok(
	    verify_run(s->f->ds, ids, 4, &s->f->task, &s->result, &s->f->e),
	    &s->f->e);
	assert_int_equal(s->result.hurt_n, 4);
	for (size_t i = 0; i < 4; i++) {
		const struct verify_hurt *h = &s->result.hurt[i];

		assert_int_equal(h->files_n, 1);
		assert_int_equal(h->files_more, 0);
		assert_string_equal(h->files[0].archive, "root.tree");
		assert_string_equal(h->files[0].path, i < 3 ? "same" : "other");
	}
}

/* A catalog that is hurt, too, is one more finding. */
static void says_why_none_is_named(void **state)
{
	struct scene *s = *state;
	struct idx_entry chunk;

	push_one(s);
	chunk = restorefix_entry(s->f, "root.tree.didx", 0);
	restorefix_spoil(s->f, &chunk.digest, SPOIL_MISSING);
	chunk = restorefix_entry(s->f, "root.tree.catalog.fidx", 0);
	restorefix_spoil(s->f, &chunk.digest, SPOIL_MISSING);
	verify(s);
	assert_int_equal(s->result.hurt_n, 1);
	assert_int_equal(s->result.hurt[0].files_n, 2);
	assert_string_equal(s->result.hurt[0].files[0].archive, "root.tree");
	assert_string_equal(s->result.hurt[0].files[0].path, "");
	assert_string_equal(
	    s->result.hurt[0].files[1].archive, "root.tree.catalog");
	assert_non_null(strstr(s->result.hurt[0].reasons,
	    "the files of 'root.tree' that are hurt can not be named: "));
	assert_int_equal(
	    restorefix_said(s->f, "that are hurt can not be named"), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		SCENE_TEST(names_who_needs_it),
		SCENE_TEST(names_each_file_once),
		SCENE_TEST(names_them_in_each_snapshot),
		SCENE_TEST(says_why_none_is_named),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
