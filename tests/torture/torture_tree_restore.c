/* SPDX-License-Identifier: MIT */
/*
 * A tree given back, with every system call and every allocation failing in
 * turn.  What is there under its name is whole; what is not there was told
 * of; no failure is taken for damage of the store; and no temporary file
 * stays.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "index/tree_restore.h"
#include "tests/support/failmalloc.h"
#include "tests/support/rowfix.h"

#define ROOT CATALOG_ROOT_ID
#define CHUNK RESTOREFIX_CHUNK
#define LONG_SIZE (3 * CHUNK)
#define ENTRIES 9U /* that are made */

/* One thread, so that the n-th call is the same one each time. */
static const struct tree_restore_opts opts = {
	.overwrite = TREE_OVERWRITE_ALWAYS,
	.threads = 1,
};

static void add_special(struct rowfix *t, int64_t d)
{
	struct catalog_entry row =
	    rowfix_row(t, d, "link", CATALOG_SYMLINK, 0777);

	rowfix_target(&row, "nowhere");
	rowfix_add(t, &row);
	row = rowfix_row(t, d, "fifo", CATALOG_FIFO, 0640);
	rowfix_add(t, &row);
	row = rowfix_row(t, d, "h1", CATALOG_FILE, 0640);
	row.has |= CATALOG_HAS_LINK;
	row.link = row.id;
	rowfix_content(t, &row, "one", 3);
	rowfix_add(t, &row);
	row.id = t->next_id++;
	row.name.p = (const uint8_t *)"h2";
	rowfix_add(t, &row);
}

/* Something of each kind that takes its own way. */
static void make_tree(struct rowfix *t)
{
	static const struct catalog_hole hole = { 0, 8192, false };
	uint8_t *p = restorefix_bytes(t->f, GEN_RANDOM, LONG_SIZE);
	int64_t d = rowfix_dir(t, ROOT, "d", 0750);
	uint8_t text[CATALOG_HOLE_SIZE];
	struct catalog_entry row;

	rowfix_file(t, d, "long", 0600, p, LONG_SIZE);
	rowfix_text(t, ROOT, "small", "small");
	rowfix_text(t, ROOT, "empty", "");
	row = rowfix_row(t, d, "sparse", CATALOG_FILE, 0600);
	row.has |= CATALOG_HAS_ATTR | CATALOG_HAS_HOLES;
	row.attr = rowfix_attr(t, "user.x", "y", 1);
	rowfix_content(t, &row, "tail", 4);
	row.size = 8196;
	catalog_hole_encode(&hole, text);
	row.holes.p = text;
	row.holes.n = sizeof(text);
	rowfix_add(t, &row);
	add_special(t, d);
	rowfix_commit(t, "root.tree");
}

static bool file_is(struct rowfix *t, const char *path, const void *p, size_t n)
{
	size_t got_n = 0;
	char *got = tmpdir_get(t->target, path, &got_n);

	if (got == NULL)
		return false;
	assert_int_equal(got_n, n);
	assert_memory_equal(got, p, n);
	free(got);
	return true;
}

/* How many are there; each file is whole. */
static unsigned check_files(struct rowfix *t)
{
	static const uint8_t zeros[8192];
	uint8_t sparse[8196] = { 0 };
	unsigned n = 0;

	memcpy(sparse + sizeof(zeros), "tail", 4);
	n += rowfix_exists(t, "d");
	n += file_is(t, "small", "small", 5);
	n += file_is(t, "empty", "", 0);
	n += file_is(t, "d/long", t->f->own, LONG_SIZE);
	n += file_is(t, "d/sparse", sparse, sizeof(sparse));
	n += file_is(t, "d/h1", "one", 3);
	n += file_is(t, "d/h2", "one", 3);
	n += rowfix_exists(t, "d/fifo");
	n += rowfix_exists(t, "d/link");
	return n;
}

static void empty_target(struct rowfix *t)
{
	static const char *const names[] = { "small", "empty", "d/long",
		"d/sparse", "d/h1", "d/h2", "d/fifo", "d/link" };

	if (t->target < 0)
		return;
	for (size_t i = 0; i < TEST_COUNT(names); i++)
		(void)unlinkat(t->target, names[i], 0);
	(void)unlinkat(t->target, "d", AT_REMOVEDIR);
}

static void check(struct rowfix *t, int rc, bool clean)
{
	unsigned there = check_files(t);

	if (rc < 0) {
		assert_int_equal(t->f->e.code, rc);
		assert_true(t->f->e.msg[0] != '\0');
	} else if (there < ENTRIES) {
		/* A directory that fails takes all below it along. */
		assert_true(t->result.failed + t->result.damaged > 0);
		assert_true(restorefix_said(t->f, "W 'target") > 0);
	}
	if (clean)
		rowfix_assert_clean(t);
	assert_int_equal(restorefix_list_lines(t->f), 0);
}

static void check_again(struct rowfix *t)
{
	assert_ok(rowfix_restore(t, &opts), &t->f->e);
	assert_int_equal(t->result.failed + t->result.damaged, 0);
	assert_int_equal(check_files(t), ENTRIES);
	empty_target(t);
}

/* No nameless files. */
static void refuse_tmpfile(void *ctx, struct fault_event *ev)
{
	(void)ctx;
	if (ev->call != FAULT_CREATE || (ev->flags & O_TMPFILE) != O_TMPFILE)
		return;
	ev->skip = true;
	ev->result = -1;
	ev->error = EOPNOTSUPP;
}

/* All n for one rule.  over: something is in the way each time. */
static void run_rule(
    struct rowfix *t, struct fault_rule rule, bool named, bool over)
{
	uint64_t hits = 1;

	rule.times = 1;
	for (rule.at = 1; hits > 0; rule.at++) {
		int rc = 0;

		empty_target(t);
		if (over)
			assert_ok(rowfix_restore(t, &opts), &t->f->e);
		fault_install();
		if (named)
			fault_set_hooks(
			    &(struct fault_hooks){ .before = refuse_tmpfile });
		fault_add(&rule);
		rc = rowfix_restore(t, &opts);
		hits = fault_hits();
		fault_uninstall();
		if (hits == 0)
			assert_ok(rc, &t->f->e);
		if (over)
			assert_int_equal(check_files(t), ENTRIES);
		check(t, rc, (rule.calls & FAULT_BIT(FAULT_UNLINKAT)) == 0);
	}
	/* An unlink that failed has left something. */
	(void)unlinkat(t->target, "d", AT_REMOVEDIR);
}

static const uint64_t any = FAULT_ANY & ~FAULT_BIT(FAULT_UNLINKAT);

static void every_call_fails(void **state)
{
	const struct fault_rule rules[] = {
		{ .calls = any, .what = FAULT_FAIL, .error = EIO },
		{ .calls = any, .what = FAULT_FAIL, .error = EPERM },
		{ .calls = FAULT_BIT(FAULT_READ) | FAULT_BIT(FAULT_PREAD) |
			FAULT_BIT(FAULT_WRITE) | FAULT_BIT(FAULT_PWRITE),
		    .what = FAULT_SHORT,
		    .bytes = 7 },
	};
	struct rowfix *t = *state;

	make_tree(t);
	for (size_t i = 0; i < TEST_COUNT(rules); i++) {
		run_rule(t, rules[i], false, false);
		check_again(t);
	}
	run_rule(t, rules[0], true, false);
	check_again(t);
}

/* Over what exists: until the new one is whole, the old one is there. */
static void every_call_fails_over(void **state)
{
	const struct fault_rule rule = {
		.calls = any, .what = FAULT_FAIL, .error = EIO
	};
	struct rowfix *t = *state;

	make_tree(t);
	run_rule(t, rule, false, true);
	run_rule(t, rule, true, true);
	check_again(t);
}

static void every_allocation_fails(void **state)
{
	struct rowfix *t = *state;
	uint64_t failed = 1;

	make_tree(t);
	for (uint64_t n = 1; failed > 0; n++) {
		int rc = 0;

		empty_target(t);
		failmalloc_at(n);
		rc = rowfix_restore(t, &opts);
		failed = failmalloc_off();
		if (rc < 0)
			assert_err(rc, &t->f->e, ERR_NOMEM, "memory");
		check(t, rc, true);
		if (failed == 0)
			assert_ok(rc, &t->f->e);
	}
	check_again(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ROWFIX_TEST(every_call_fails),
		ROWFIX_TEST(every_call_fails_over),
		ROWFIX_TEST(every_allocation_fails),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
