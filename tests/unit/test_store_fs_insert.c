/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdio.h>

#include "datastore/blob.h"
#include "tests/support/fault.h"
#include "tests/support/foreign.h"
#include "tests/support/storefix.h"

#define PREFIX 0x0a1bU
#define LONG_AGO 1000000000

static const char blob[] = "a blob of more than a header";
static const char other[] = "another blob of more than a header";

static int insert(struct storefix *f, const struct digest *d,
    const struct store_insert_opts *opts, enum store_inserted *ret)
{
	return store_insert(f->store, d, blob, sizeof(blob), opts, ret, &f->e);
}

static void assert_inserts(struct storefix *f, const struct digest *d,
    const struct store_insert_opts *opts, enum store_inserted want)
{
	enum store_inserted got = STORE_NEW;

	assert_ok(insert(f, d, opts, &got), &f->e);
	assert_int_equal(got, want);
}

static const struct store_insert_opts usual = { .sync = false };

static void test_insert(void **state)
{
	struct storefix *f = *state;
	struct digest d = storefix_digest(PREFIX, 1);
	struct stat st;

	assert_inserts(f, &d, &usual, STORE_NEW);
	assert_holds(f, &d, blob, sizeof(blob));
	assert_true(storefix_stat(f, &d, "", &st));
	assert_int_equal(st.st_mode, S_IFREG | 0644);
	assert_int_equal(st.st_nlink, 1);
	assert_int_equal(fstatat(f->chunks_fd, "0a1b", &st, 0), 0);
	assert_int_equal(st.st_mode, S_IFDIR | 0750);
	assert_entries(f, 1);
}

static void test_insert_again(void **state)
{
	struct storefix *f = *state;
	struct digest d = storefix_digest(PREFIX, 1);
	struct stat first;
	struct stat second;

	storefix_put(f, &d, "", other, sizeof(other));
	storefix_age(f, &d, "", LONG_AGO, LONG_AGO);
	assert_true(storefix_stat(f, &d, "", &first));
	assert_inserts(f, &d, &usual, STORE_HIT);
	assert_true(storefix_stat(f, &d, "", &second));
	assert_int_equal(first.st_ino, second.st_ino);
	assert_true(second.st_atim.tv_sec > LONG_AGO);
	assert_int_equal(second.st_mtim.tv_sec, LONG_AGO);
	assert_holds(f, &d, other, sizeof(other));
	assert_entries(f, 1);
}

static void test_insert_over_a_short_one(void **state)
{
	struct storefix *f = *state;
	struct digest d = storefix_digest(PREFIX, 1);

	for (size_t n = 0; n <= BLOB_HEADER_SIZE; n += BLOB_HEADER_SIZE) {
		storefix_put(f, &d, "", other, n);
		assert_inserts(f, &d, &usual, STORE_REPLACED);
		assert_holds(f, &d, blob, sizeof(blob));
	}
	/* One byte more may be a chunk: only verify can tell. */
	storefix_put(f, &d, "", other, BLOB_HEADER_SIZE + 1);
	assert_inserts(f, &d, &usual, STORE_HIT);
	assert_entries(f, 1);
}

static void test_insert_over_a_damaged_one(void **state)
{
	struct store_insert_opts opts = { .known_bad = true };
	struct storefix *f = *state;
	struct digest d = storefix_digest(PREFIX, 1);

	storefix_put(f, &d, "", other, sizeof(other));
	assert_inserts(f, &d, &opts, STORE_REPLACED);
	assert_holds(f, &d, blob, sizeof(blob));
	d = storefix_digest(PREFIX, 2);
	assert_inserts(f, &d, &opts, STORE_NEW);
	assert_holds(f, &d, blob, sizeof(blob));
	assert_entries(f, 2);
}

/* Another user's chunk, which we may not touch. */
static void test_insert_over_a_foreign_one(void **state)
{
	static const int errors[] = { EACCES, EPERM };
	struct storefix *f = *state;
	struct digest d = storefix_digest(PREFIX, 1);

	fault_install();
	for (size_t i = 0; i < TEST_COUNT(errors); i++) {
		storefix_put(f, &d, "", other, sizeof(other));
		fault_reset();
		fault_add(
		    &(struct fault_rule){ .calls = FAULT_BIT(FAULT_UTIMENSAT),
			.what = FAULT_FAIL,
			.at = 1,
			.times = FAULT_FOREVER,
			.error = errors[i] });
		assert_inserts(f, &d, &usual, STORE_REPLACED);
		assert_holds(f, &d, blob, sizeof(blob));
	}
}

static void test_insert_where_no_file_is(void **state)
{
	struct storefix *f = *state;
	enum store_inserted got = STORE_NEW;
	struct digest d = storefix_digest(PREFIX, 1);
	struct store_insert_opts bad = { .known_bad = true };

	(void)mkdirat(f->chunks_fd, "0a1b", 0750);
	assert_int_equal(mkdirat(f->chunks_fd, storefix_path(&d, ""), 0), 0);
	d = storefix_digest(PREFIX, 2);
	assert_int_equal(
	    symlinkat("../../.lock", f->chunks_fd, storefix_path(&d, "")), 0);
	d = storefix_digest(PREFIX, 3);
	assert_int_equal(
	    mkfifoat(f->chunks_fd, storefix_path(&d, ""), 0600), 0);
	for (uint8_t i = 1; i <= 3; i++) {
		d = storefix_digest(PREFIX, i);
		assert_err(insert(f, &d, &usual, &got), &f->e, ERR_CORRUPT,
		    "want a regular file");
		assert_err(insert(f, &d, &bad, &got), &f->e, ERR_CORRUPT,
		    "want a regular file");
	}
	assert_entries(f, 3);
}

static void test_insert_of_no_chunk(void **state)
{
	struct storefix *f = *state;
	struct digest d = storefix_digest(PREFIX, 1);
	enum store_inserted got = STORE_NEW;

	assert_err(store_insert(f->store, &d, blob, BLOB_HEADER_SIZE, &usual,
		       &got, &f->e),
	    &f->e, ERR_INVALID, "want more than 12");
	assert_err(store_insert(f->store, &d, blob, CHUNK_MAX_FILE + 1, &usual,
		       &got, &f->e),
	    &f->e, ERR_INVALID, "at most 16777260");
}

/* A file system that knows no RENAME_NOREPLACE, then one without links. */
static void test_insert_without_noreplace(void **state)
{
	static const int errors[] = { EINVAL, ENOSYS, EOPNOTSUPP };
	struct storefix *f = *state;
	struct digest d = storefix_digest(PREFIX, 1);
	struct fault_rule no_rename = { .calls = FAULT_BIT(FAULT_RENAMEAT2),
		.what = FAULT_FAIL,
		.at = 1,
		.times = 1 };
	struct fault_rule no_link = { .calls = FAULT_BIT(FAULT_LINKAT),
		.what = FAULT_FAIL,
		.at = 1,
		.times = 1,
		.error = EPERM };

	for (size_t i = 0; i < TEST_COUNT(errors); i++) {
		storefix_remove(f);
		storefix_make(f);
		d = storefix_digest(PREFIX, 1);
		fault_install();
		no_rename.error = errors[i];
		fault_add(&no_rename);
		assert_inserts(f, &d, &usual, STORE_NEW);
		assert_inserts(f, &d, &usual, STORE_HIT);
		assert_entries(f, 1);
		/* It is not asked again. */
		assert_int_equal(fault_count(no_rename.calls), 1);
		assert_int_equal(fault_count(no_link.calls), 2);

		fault_add(&no_link);
		storefix_put(f, &d, "", other, 0);
		assert_inserts(f, &d, &usual, STORE_REPLACED);
		assert_inserts(f, &d, &usual, STORE_HIT);
		d = storefix_digest(PREFIX, 2);
		assert_inserts(f, &d, &usual, STORE_NEW);
		assert_holds(f, &d, blob, sizeof(blob));
		assert_entries(f, 2);
		assert_int_equal(fault_count(no_link.calls), 3);
		fault_uninstall();
	}
}

/* The calls of an insert, a letter each. */
struct trace {
	char text[64];
	size_t n;
};

static void record(void *ctx, struct fault_event *ev)
{
	static const char letters[FAULT_CALLS] = {
		[FAULT_CREATE] = 'c',
		[FAULT_WRITE] = 'w',
		[FAULT_FSYNC] = 's',
		[FAULT_STATX] = '?',
		[FAULT_UTIMENSAT] = 't',
		[FAULT_RENAMEAT2] = 'r',
		[FAULT_UNLINKAT] = 'u',
		[FAULT_MKDIRAT] = 'm',
	};
	struct trace *t = ctx;
	char letter = letters[ev->call];

	if (ev->call == FAULT_OFD_LOCK) {
		const struct flock *l = ev->p;

		letter = 'U';
		if (l->l_type == F_RDLCK)
			letter = 'R';
		if (l->l_type == F_WRLCK)
			letter = 'W';
	}
	if (ev->call == FAULT_RENAMEAT2 && ev->flags == 0)
		letter = 'M';
	if (letter != 0 && t->n < sizeof(t->text) - 1) {
		t->text[t->n++] = letter;
		t->text[t->n] = '\0';
	}
}

static void assert_trace(struct storefix *f, const struct digest *d,
    const struct store_insert_opts *opts, enum store_inserted want,
    const char *calls)
{
	struct trace t = { .n = 0 };

	fault_reset();
	fault_set_hooks(&(struct fault_hooks){ .before = record, .ctx = &t });
	assert_inserts(f, d, opts, want);
	fault_set_hooks(NULL);
	assert_string_equal(t.text, calls);
}

/*
 * The file is written before the lock is taken; a file is replaced only by one
 * that is on disk; what is to last is synced with its directories.
 */
static void test_order_of_calls(void **state)
{
	struct store_insert_opts sync = { .sync = true };
	struct store_insert_opts bad = { .known_bad = true };
	struct storefix *f = *state;
	struct digest d = storefix_digest(PREFIX, 1);
	struct digest d2 = storefix_digest(PREFIX, 2);
	struct digest d3 = storefix_digest(PREFIX + 1, 3);

	fault_install();
	/* The prefix is new: looked for, made, looked at. */
	assert_trace(f, &d, &usual, STORE_NEW, "?m?cwRrU");
	assert_trace(f, &d, &usual, STORE_HIT, "cwRr?tUu");
	assert_trace(f, &d2, &sync, STORE_NEW, "cwsRrUs");
	assert_trace(f, &d2, &bad, STORE_REPLACED, "cwsRr?UW?MUss");
	storefix_put(f, &d, "", "", 0);
	assert_trace(f, &d, &usual, STORE_REPLACED, "cwRr?U?sW?MUs");
	/* A prefix that is made lasts when its directory is synced too. */
	assert_trace(f, &d3, &sync, STORE_NEW, "?m?cwsRrUss");
}

/* Healed by another between the look and the second look: that one stays. */
static void put_when_locked(void *ctx, struct fault_event *ev)
{
	struct storefix *f = ctx;
	const struct flock *l = ev->p;

	if (ev->call == FAULT_OFD_LOCK && l->l_type == F_WRLCK) {
		struct digest d = storefix_digest(PREFIX, 1);

		storefix_put(f, &d, "", other, sizeof(other));
	}
}

static void test_insert_looks_again(void **state)
{
	struct storefix *f = *state;
	struct digest d = storefix_digest(PREFIX, 1);

	storefix_put(f, &d, "", "", 0);
	fault_install();
	fault_set_hooks(
	    &(struct fault_hooks){ .before = put_when_locked, .ctx = f });
	assert_inserts(f, &d, &usual, STORE_HIT);
	assert_holds(f, &d, other, sizeof(other));
	assert_entries(f, 1);
}

/* It vanishes whenever it is looked at: a program that is not ours. */
static void vanish(void *ctx, struct fault_event *ev)
{
	struct storefix *f = ctx;
	struct digest d = storefix_digest(PREFIX, 1);

	if (ev->call == FAULT_STATX)
		(void)unlinkat(f->chunks_fd, storefix_path(&d, ""), 0);
	if (ev->call == FAULT_RENAMEAT2)
		storefix_put(f, &d, "", other, sizeof(other));
}

static void test_insert_gives_up(void **state)
{
	struct storefix *f = *state;
	struct digest d = storefix_digest(PREFIX, 1);
	enum store_inserted got = STORE_NEW;

	fault_install();
	fault_set_hooks(&(struct fault_hooks){ .before = vanish, .ctx = f });
	assert_err(insert(f, &d, &usual, &got), &f->e, ERR_BUSY,
	    "made and removed by others");
	assert_entries(f, 0);
}

static void test_prefix_removed_meanwhile(void **state)
{
	struct storefix *f = *state;
	struct digest d = storefix_digest(PREFIX, 1);

	assert_inserts(f, &d, &usual, STORE_NEW);
	assert_int_equal(unlinkat(f->chunks_fd, storefix_path(&d, ""), 0), 0);
	assert_int_equal(unlinkat(f->chunks_fd, "0a1b", AT_REMOVEDIR), 0);
	assert_inserts(f, &d, &usual, STORE_NEW);
	assert_holds(f, &d, blob, sizeof(blob));
}

static void count_owners(void *ctx, struct fault_event *ev)
{
	unsigned *n = ctx;

	if (ev->call == FAULT_FCHOWN) {
		(*n)++;
		ev->skip = true;
		ev->result = 0;
	}
}

/* Chunk and prefix directory are given to the owner, by descriptor. */
static void test_owner(void **state)
{
	struct storefix *f = *state;
	struct digest d = storefix_digest(PREFIX, 1);
	struct file_owner owner = { .change = true, .uid = 1, .gid = 1 };
	unsigned changed = 0;

	store_close(f->store);
	f->store = NULL;
	assert_ok(store_fs_open(f->chunks_fd, f->locks, &owner, ".chunks",
		      &f->store, &f->e),
	    &f->e);
	fault_install();
	fault_set_hooks(
	    &(struct fault_hooks){ .before = count_owners, .ctx = &changed });
	assert_inserts(f, &d, &usual, STORE_NEW);
	assert_int_equal(changed, 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		storefix_test(test_insert),
		storefix_test(test_insert_again),
		storefix_test(test_insert_over_a_short_one),
		storefix_test(test_insert_over_a_damaged_one),
		storefix_test(test_insert_over_a_foreign_one),
		storefix_test(test_insert_where_no_file_is),
		storefix_test(test_insert_of_no_chunk),
		storefix_test(test_insert_without_noreplace),
		storefix_test(test_order_of_calls),
		storefix_test(test_insert_looks_again),
		storefix_test(test_insert_gives_up),
		storefix_test(test_prefix_removed_meanwhile),
		storefix_test(test_owner),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
