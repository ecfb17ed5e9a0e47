/* SPDX-License-Identifier: MIT */
/*
 * A file's content, and what differs between two trees, with every system call
 * and every allocation failing in turn.  What is called done is right; what
 * the sink got before is a beginning of it; and no failure is taken for
 * damage.
 */
#include <errno.h>
#include <stdlib.h>

#include "index/tree_cat.h"
#include "index/tree_diff.h"
#include "index/tree_du.h"
#include "index/verify.h"
#include "tests/support/failmalloc.h"
#include "tests/support/treefix.h"

#define CHUNK RESTOREFIX_CHUNK
#define BIG (2 * CHUNK + 99)
#define HOLE 1000

static const struct catalog_hole hole = { CHUNK, HOLE, false };

static void push(struct restorefix *f, struct treefix *t)
{
	const uint8_t *p = restorefix_bytes(f, GEN_RANDOM, BIG);
	struct catalog_entry x = treefix_entry(CATALOG_FILE);
	uint8_t column[CATALOG_HOLE_SIZE];

	restorefix_begin(f);
	treefix_begin(t, f, "root.tree");
	treefix_dir(t, "d");
	treefix_file(t, "d/small", "small");
	treefix_content(t, &x, p, BIG);
	x.size += HOLE;
	x.has |= CATALOG_HAS_HOLES;
	x.holes = treefix_holes(&hole, 1, column);
	treefix_add(t, "d/big", x);
	treefix_end(t);
	restorefix_commit(f);
}

static int take(void *ctx, const void *p, size_t n, struct err *e)
{
	return buf_append(ctx, p, n, e);
}

static int count(void *ctx, const struct tree_diff_event *event, struct err *e)
{
	unsigned *n = ctx;

	(void)event;
	(void)e;
	(*n)++;
	return 0;
}

static int keep(void *ctx, struct catalog_bytes path,
    const struct tree_du_sum *sum, struct err *e)
{
	(void)path;
	(void)e;
	*(struct tree_du_sum *)ctx = *sum;
	return 0;
}

/* All that is asked of an open catalog. */
static int look(struct restorefix *f, struct catalog *c, struct buf *got)
{
	const struct catalog_bytes top = { .p = NULL, .n = 0 };
	struct tree_du_sum sum = { .size = 0 };
	unsigned events = 0;
	struct tree_diff diff = {
		.a = c,
		.b = c,
		.fn = count,
		.ctx = &events,
		.task = &f->task,
	};
	struct tree_du du = {
		.c = c,
		.fn = keep,
		.ctx = &sum,
		.task = &f->task,
	};
	struct archive_reader *r = NULL;
	struct catalog_entry found;
	struct catalog_entry *x = NULL;
	int rc = catalog_resolve(c, treefix_bytes("d/big"), &found, &f->e);

	if (rc == 0)
		rc = catalog_entry_copy(&found, &x, &f->e);
	if (rc == 0)
		rc = archive_reader_new(f->archive, 1, &r, &f->e);
	if (rc == 0)
		rc = tree_cat(c, r, x, take, got, &f->task, &f->e);
	archive_reader_free(r);
	free(x);
	if (rc == 0)
		rc = tree_diff(&diff, top, &f->e);
	if (rc == 0)
		assert_int_equal(events, 0);
	if (rc == 0)
		rc = catalog_root(c, &found, &f->e);
	if (rc == 0)
		rc = tree_du(&du, &found, top, &f->e);
	if (rc == 0)
		assert_int_equal(sum.size, BIG + HOLE + 5);
	return rc;
}

static int run(struct restorefix *f, struct buf *got)
{
	struct catalog *c = NULL;
	int rc = 0;

	buf_reset(got);
	rc = restorefix_open(f, "root.tree");
	if (rc == 0)
		rc = catalog_open(f->ds, &f->id, &f->hold, &f->manifest,
		    "root.tree", &c, &f->e);
	if (rc == 0)
		rc = look(f, c, got);
	catalog_close(c);
	restorefix_close(f);
	return rc;
}

static void check(struct restorefix *f, const struct buf *got, int rc)
{
	static const uint8_t zeros[HOLE];
	const uint8_t *p = got->data;
	size_t n = got->len;

	assert_int_equal(f->e.code, rc);
	assert_int_equal(f->e.msg[0] == '\0', rc == 0);
	assert_true(rc != ERR_CORRUPT);
	if (rc == 0)
		assert_int_equal(n, BIG + HOLE);
	if (n > CHUNK + HOLE)
		assert_memory_equal(
		    p + CHUNK + HOLE, f->own + CHUNK, n - CHUNK - HOLE);
	if (n > CHUNK)
		assert_memory_equal(
		    p + CHUNK, zeros, n - CHUNK < HOLE ? n - CHUNK : HOLE);
	if (n > 0)
		assert_memory_equal(p, f->own, n < CHUNK ? n : CHUNK);
	assert_int_equal(restorefix_list_lines(f), 0);
}

static void every_call_fails(void **state)
{
	static const struct fault_rule rules[] = {
		{ .calls = FAULT_ANY, .what = FAULT_FAIL, .error = EIO },
		{ .calls = FAULT_ANY, .what = FAULT_FAIL, .error = EINTR },
		{ .calls = FAULT_BIT(FAULT_READ) | FAULT_BIT(FAULT_PREAD),
		    .what = FAULT_SHORT,
		    .bytes = 7 },
	};
	struct restorefix *f = *state;
	struct treefix t;
	struct buf got = BUF_INIT;

	push(f, &t);
	for (size_t i = 0; i < TEST_COUNT(rules); i++) {
		uint64_t hits = 1;

		for (uint64_t n = 1; hits > 0; n++) {
			struct fault_rule rule = rules[i];
			int rc = 0;

			f->e = (struct err)ERR_INIT;
			rule.times = 1;
			rule.at = n;
			fault_install();
			fault_add(&rule);
			rc = run(f, &got);
			hits = fault_hits();
			fault_uninstall();
			if (hits == 0)
				assert_ok(rc, &f->e);
			check(f, &got, rc);
		}
	}
	buf_release(&got);
}

static void every_allocation_fails(void **state)
{
	struct restorefix *f = *state;
	struct treefix t;
	struct buf got = BUF_INIT;
	uint64_t failed = 1;

	push(f, &t);
	for (uint64_t n = 1; failed > 0; n++) {
		int rc = 0;

		f->e = (struct err)ERR_INIT;
		failmalloc_at(n);
		rc = run(f, &got);
		failed = failmalloc_off();
		if (rc < 0)
			assert_err(rc, &f->e, ERR_NOMEM, "memory");
		else
			check(f, &got, rc);
		if (failed == 0)
			assert_ok(rc, &f->e);
	}
	buf_release(&got);
}

/* A chunk is missing: whatever fails, its file is named or it is said why
 * not, and verify does not call it sound. */
static void naming_fails(void **state)
{
	struct restorefix *f = *state;
	struct treefix t;
	/* What the fixture keeps of messages takes memory, too. */
	struct task silent = TASK_SILENT;
	struct idx_entry chunk;
	uint64_t failed = 1;

	push(f, &t);
	chunk = restorefix_entry(f, "root.tree.didx", 0);
	restorefix_spoil(f, &chunk.digest, SPOIL_MISSING);
	for (uint64_t n = 1; failed > 0; n++) {
		struct verify_result r = { .hurt = NULL };
		int rc = 0;

		f->e = (struct err)ERR_INIT;
		failmalloc_at(n);
		rc = verify_run(f->ds, &f->id, 1, &silent, &r, &f->e);
		failed = failmalloc_off();
		if (rc < 0) {
			assert_err(rc, &f->e, ERR_NOMEM, "memory");
			continue;
		}
		assert_int_equal(r.hurt_n, 1);
		assert_int_equal(r.hurt[0].files_n, 2);
		verify_result_release(&r);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		RESTOREFIX_TEST(every_call_fails),
		RESTOREFIX_TEST(every_allocation_fails),
		RESTOREFIX_TEST(naming_fails),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
