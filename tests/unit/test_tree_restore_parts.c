/* SPDX-License-Identifier: MIT */
/*
 * What a restore remembers its entries with: spool, sorter, directories.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "index/tree_restore_dirs.h"
#include "index/tree_restore_sort.h"
#include "index/tree_restore_spool.h"
#include "tests/support/gen.h"
#include "tests/support/test.h"
#include "tests/support/tmpdir.h"

struct fix {
	struct tmpdir dir;
	struct restore_spool *spool;
	struct restore_sort *sort;
	struct restore_dirs *dirs;
	struct restore_pair *pairs;
	size_t fds;
	struct err e;
};

static int setup(void **state)
{
	struct fix *f = calloc(1, sizeof(*f));

	if (f == NULL)
		return -1;
	f->fds = tmpdir_open_fds();
	tmpdir_make(&f->dir);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fix *f = *state;
	size_t before = f->fds;

	restore_spool_free(f->spool);
	restore_sort_free(f->sort);
	restore_dirs_free(f->dirs);
	tmpdir_remove(&f->dir);
	free(f->pairs);
	free(f);
	return tmpdir_open_fds() == before ? 0 : -1;
}

/* Records of all lengths, read in any order, some of them changed. */
static void spool_gives_back(void **state)
{
	enum { RECORDS = 3000, LONGEST = 1000 };
	struct fix *f = *state;
	uint64_t at[RECORDS];
	uint8_t want[LONGEST];
	uint8_t got[LONGEST];
	struct gen g;

	assert_ok(restore_spool_new(&f->spool, &f->e), &f->e);
	for (uint64_t i = 0; i < RECORDS; i++) {
		gen_seed(&g, i);
		gen_fill(&g, GEN_RANDOM, want, LONGEST);
		assert_ok(restore_spool_append(f->spool, want,
			      (size_t)(i * 31 % LONGEST), &at[i], &f->e),
		    &f->e);
		assert_true(i == 0 || at[i] >= at[i - 1]);
	}
	for (uint64_t i = 1; i < RECORDS; i += 7)
		assert_ok(
		    restore_spool_overwrite(f->spool, at[i], "CHANGED",
			i * 31 % LONGEST < 7 ? (size_t)(i * 31 % LONGEST) : 7,
			&f->e),
		    &f->e);
	gen_seed(&g, 99);
	for (unsigned k = 0; k < 3 * RECORDS; k++) {
		uint64_t i =
		    k < RECORDS ? RECORDS - 1 - k : gen_below(&g, RECORDS);
		size_t n = (size_t)(i * 31 % LONGEST);
		struct gen h;

		gen_seed(&h, i);
		gen_fill(&h, GEN_RANDOM, want, LONGEST);
		if (i % 7 == 1)
			memcpy(want, "CHANGED", n < 7 ? n : 7);
		assert_ok(
		    restore_spool_read(f->spool, at[i], got, n, &f->e), &f->e);
		assert_memory_equal(got, want, n);
	}
}

static int compare(const void *a, const void *b)
{
	const struct restore_pair *x = a;
	const struct restore_pair *y = b;

	if (x->key != y->key)
		return x->key < y->key ? -1 : 1;
	return (x->at > y->at) - (x->at < y->at);
}

static void check_sorted(struct fix *f, size_t n)
{
	struct restore_pair got;
	bool more = true;

	for (int round = 0; round < 2; round++) {
		assert_ok(restore_sort_rewind(f->sort, &f->e), &f->e);
		for (size_t i = 0; i < n; i++) {
			assert_ok(
			    restore_sort_next(f->sort, &got, &more, &f->e),
			    &f->e);
			assert_true(more);
			assert_int_equal(got.key, f->pairs[i].key);
			assert_int_equal(got.at, f->pairs[i].at);
		}
		assert_ok(
		    restore_sort_next(f->sort, &got, &more, &f->e), &f->e);
		assert_false(more);
	}
}

/* In memory, and in up to hundreds of runs. */
static void sorts(void **state)
{
	static const size_t sizes[] = { 0, 1, 2, 63, 64, 65, 640, 641, 20000 };
	struct fix *f = *state;
	struct gen g;

	gen_seed(&g, 1);
	assert_ok(restore_sort_new(64, &f->sort, &f->e), &f->e);
	for (size_t s = 0; s < TEST_COUNT(sizes); s++) {
		size_t n = sizes[s];

		f->pairs = calloc(n + 1, sizeof(*f->pairs));
		assert_non_null(f->pairs);
		for (size_t i = 0; i < n; i++) {
			/* Many keys are equal; the greatest are used. */
			f->pairs[i].key =
			    i % 3 == 0 ? UINT64_MAX - i % 5 : gen_below(&g, n);
			f->pairs[i].at = i;
			assert_ok(restore_sort_add(f->sort, f->pairs[i], &f->e),
			    &f->e);
		}
		assert_int_equal(restore_sort_count(f->sort), n);
		qsort(f->pairs, n, sizeof(*f->pairs), compare);
		check_sorted(f, n);
		restore_sort_clear(f->sort);
		assert_int_equal(restore_sort_count(f->sort), 0);
		free(f->pairs);
		f->pairs = NULL;
	}
}

/* More may be added when some were read. */
static void sorts_on(void **state)
{
	struct fix *f = *state;

	f->pairs = calloc(200, sizeof(*f->pairs));
	assert_non_null(f->pairs);
	assert_ok(restore_sort_new(64, &f->sort, &f->e), &f->e);
	for (size_t i = 0; i < 200; i++) {
		f->pairs[i].key = 199 - i;
		assert_ok(restore_sort_add(f->sort, f->pairs[i], &f->e), &f->e);
		if (i == 10 || i == 100)
			assert_ok(restore_sort_rewind(f->sort, &f->e), &f->e);
	}
	qsort(f->pairs, 200, sizeof(*f->pairs), compare);
	check_sorted(f, 200);
}

static uint64_t add_dir(struct fix *f, uint64_t parent, const char *name)
{
	struct restore_dir d;

	memset(&d, 0, sizeof(d));
	d.parent = parent;
	d.name_n = (unsigned)strlen(name);
	memcpy(d.name, name, d.name_n);
	assert_ok(restore_dirs_add(f->dirs, &d, &f->e), &f->e);
	return d.number;
}

static ino_t inode_of(struct fix *f, uint64_t number)
{
	struct restore_dirfd d = { .open = false };
	struct stat st;

	assert_ok(restore_dirs_open(f->dirs, number, &d, &f->e), &f->e);
	assert_int_equal(fstat(d.fd, &st), 0);
	restore_dirs_put(f->dirs, &d);
	return st.st_ino;
}

/* A tree of 3 levels, with room for two open directories. */
static void opens_again(void **state)
{
	struct fix *f = *state;
	uint64_t numbers[3][10];
	ino_t inodes[3][10];
	struct stat st;
	char path[64];

	assert_ok(restore_dirs_new(f->dir.fd, 2, &f->dirs, &f->e), &f->e);
	assert_int_equal(add_dir(f, RESTORE_DIR_NONE, ""), RESTORE_DIR_TARGET);
	for (unsigned i = 0; i < 30; i++) {
		static const char *const below[] = { "", "/b", "/b/c" };
		static const char *const names[] = { "", "b", "c" };
		unsigned level = i / 10;
		uint64_t parent = level == 0 ? RESTORE_DIR_TARGET
					     : numbers[level - 1][i % 10];

		(void)snprintf(
		    path, sizeof(path), "a%u%s", i % 10, below[level]);
		assert_int_equal(mkdirat(f->dir.fd, path, 0700), 0);
		assert_int_equal(fstatat(f->dir.fd, path, &st, 0), 0);
		inodes[level][i % 10] = st.st_ino;
		numbers[level][i % 10] =
		    add_dir(f, parent, level == 0 ? path : names[level]);
	}
	for (unsigned k = 0; k < 200; k++) {
		unsigned level = k % 3;
		unsigned i = (k * 7) % 10;

		assert_int_equal(
		    inode_of(f, numbers[level][i]), inodes[level][i]);
	}
}

/* All slots are held: others are open for one use. */
static void opens_more_than_it_keeps(void **state)
{
	struct fix *f = *state;
	struct restore_dirfd open[20];
	size_t fds = 0;
	uint64_t numbers[20];
	char name[16];

	assert_ok(restore_dirs_new(f->dir.fd, 3, &f->dirs, &f->e), &f->e);
	(void)add_dir(f, RESTORE_DIR_NONE, "");
	fds = tmpdir_open_fds();
	for (unsigned i = 0; i < 20; i++) {
		(void)snprintf(name, sizeof(name), "d%u", i);
		assert_int_equal(mkdirat(f->dir.fd, name, 0700), 0);
		numbers[i] = add_dir(f, RESTORE_DIR_TARGET, name);
	}
	for (unsigned i = 0; i < 20; i++)
		assert_ok(
		    restore_dirs_open(f->dirs, numbers[i], &open[i], &f->e),
		    &f->e);
	assert_int_equal(tmpdir_open_fds(), fds + 20);
	for (unsigned i = 0; i < 20; i++)
		restore_dirs_put(f->dirs, &open[i]);
	assert_int_equal(tmpdir_open_fds(), fds + 3);
}

static void follows_no_link(void **state)
{
	struct fix *f = *state;
	struct restore_dirfd d = { .open = false };
	struct buf path = BUF_INIT;
	uint64_t a = 0;
	uint64_t b = 0;

	assert_ok(restore_dirs_new(f->dir.fd, 3, &f->dirs, &f->e), &f->e);
	(void)add_dir(f, RESTORE_DIR_NONE, "");
	assert_int_equal(mkdirat(f->dir.fd, "real", 0700), 0);
	assert_int_equal(mkdirat(f->dir.fd, "real/b", 0700), 0);
	assert_int_equal(symlinkat("real", f->dir.fd, "a"), 0);
	a = add_dir(f, RESTORE_DIR_TARGET, "a");
	b = add_dir(f, a, "b");
	assert_err(restore_dirs_open(f->dirs, a, &d, &f->e), &f->e, ERR_SYS,
	    "Not a directory");
	assert_err(restore_dirs_open(f->dirs, b, &d, &f->e), &f->e, ERR_SYS,
	    "Not a directory");
	assert_ok(restore_dirs_path(f->dirs, b, "x", &path, &f->e), &f->e);
	assert_int_equal(path.len, 5);
	assert_memory_equal(path.data, "a/b/x", 5);
	buf_reset(&path);
	assert_ok(restore_dirs_path(f->dirs, b, "", &path, &f->e), &f->e);
	assert_int_equal(path.len, 3);
	assert_memory_equal(path.data, "a/b", 3);
	buf_release(&path);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(spool_gives_back),
		TEST(sorts),
		TEST(sorts_on),
		TEST(opens_again),
		TEST(opens_more_than_it_keeps),
		TEST(follows_no_link),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
