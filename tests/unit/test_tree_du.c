/* SPDX-License-Identifier: MIT */
/*
 * Sums of directories: what counts once, and how deep it is told.
 */
#include "index/tree_du.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/support/treefix.h"

struct scene {
	struct restorefix *f;
	struct treefix t;
	struct catalog *c;
	struct buf got;
};

static int setup(void **state)
{
	struct scene *s = calloc(1, sizeof(*s));
	void *f = NULL;

	if (s == NULL || restorefix_setup(&f) < 0)
		return -1;
	s->f = f;
	*state = s;
	restorefix_begin(s->f);
	treefix_begin(&s->t, s->f, "root.tree");
	return 0;
}

static int teardown(void **state)
{
	struct scene *s = *state;
	void *f = s->f;
	int rc = 0;

	treefix_release(&s->t);
	catalog_close(s->c);
	buf_release(&s->got);
	rc = restorefix_teardown(&f);
	free(s);
	return rc;
}

#define SCENE_TEST(t) cmocka_unit_test_setup_teardown(t, setup, teardown)

static void push(struct scene *s)
{
	struct restorefix *f = s->f;

	treefix_end(&s->t);
	restorefix_commit(f);
	assert_ok(restorefix_open(f, "root.tree"), &f->e);
	assert_ok(catalog_open(f->ds, &f->id, &f->hold, &f->manifest,
		      "root.tree", &s->c, &f->e),
	    &f->e);
}

static int tell(void *ctx, struct catalog_bytes path,
    const struct tree_du_sum *sum, struct err *e)
{
	struct scene *s = ctx;

	return buf_append_fmt(&s->got, e,
	    "/%.*s %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64
	    "\n",
	    (int)path.n, (const char *)path.p, sum->size, sum->stored,
	    sum->files, sum->dirs, sum->others);
}

static void assert_du(
    struct scene *s, const char *path, size_t depth, const char *want)
{
	const struct tree_du d = {
		.c = s->c,
		.depth = depth,
		.fn = tell,
		.ctx = s,
		.task = &s->f->task,
	};
	struct catalog_entry found;
	struct catalog_entry *x = NULL;
	int rc = catalog_resolve(s->c, treefix_bytes(path), &found, &s->f->e);

	buf_reset(&s->got);
	if (rc == 0)
		rc = catalog_entry_copy(&found, &x, &s->f->e);
	if (rc == 0)
		rc = tree_du(&d, x, treefix_bytes(path), &s->f->e);
	free(x);
	assert_ok(rc, &s->f->e);
	assert_string_equal(buf_cstr(&s->got, &s->f->e), want);
}

static void sums_up(void **state)
{
	static const struct catalog_hole hole = { 0, 1000, false };
	struct scene *s = *state;
	uint8_t column[CATALOG_HOLE_SIZE];
	struct catalog_entry x = treefix_entry(CATALOG_FILE);

	treefix_dir(&s->t, "a");
	treefix_file(&s->t, "a/one", "1");
	treefix_file(&s->t, "a/same", "same");
	treefix_dir(&s->t, "a/b");
	treefix_dir(&s->t, "a/b/c");
	treefix_content(&s->t, &x, "sparse", 6);
	x.size = 1006;
	x.has |= CATALOG_HAS_HOLES;
	x.holes = treefix_holes(&hole, 1, column);
	treefix_add(&s->t, "a/b/c/sparse", x);
	treefix_file(&s->t, "a/b/same", "same");
	treefix_dir(&s->t, "empty");
	treefix_add(&s->t, "fifo", treefix_entry(CATALOG_FIFO));
	x = treefix_entry(CATALOG_FILE);
	treefix_content(&s->t, &x, "linked", 6);
	x.nlink = 2;
	x.has |= CATALOG_HAS_LINK;
	x.link = s->t.next_id;
	treefix_add(&s->t, "l1", x);
	treefix_add(&s->t, "l2", x);
	x = treefix_entry(CATALOG_FILE);
	x.has |= CATALOG_HAS_SIZE | CATALOG_HAS_STATE;
	x.size = 50;
	x.state = CATALOG_STATE_UNREADABLE;
	treefix_add(&s->t, "unreadable", x);
	push(s);
	assert_du(s, "", 0, "/ 1071 17 6 5 2\n");
	assert_du(s, "", 1,
	    "/a 1015 11 4 3 0\n/empty 0 0 0 1 0\n"
	    "/ 1071 17 6 5 2\n");
	assert_du(s, "", 9,
	    "/a/b/c 1006 6 1 1 0\n/a/b 1010 10 2 2 0\n/a 1015 11 4 3 0\n"
	    "/empty 0 0 0 1 0\n/ 1071 17 6 5 2\n");
	assert_du(s, "a", 1, "/a/b 1010 10 2 2 0\n/a 1015 11 4 3 0\n");
	assert_du(s, "l2", 0, "/l2 6 6 1 0 0\n");
	assert_du(s, "fifo", 3, "/fifo 0 0 0 0 1\n");
}

/* More contents than the set begins with. */
static void remembers_many(void **state)
{
	struct scene *s = *state;
	char path[16];
	char content[16];

	for (unsigned i = 0; i < 6000; i++) {
		(void)snprintf(path, sizeof(path), "f%u", i);
		(void)snprintf(content, sizeof(content), "c%04u", i % 3000);
		treefix_file(&s->t, path, content);
	}
	push(s);
	assert_du(s, "", 0, "/ 30000 15000 6000 1 0\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		SCENE_TEST(sums_up),
		SCENE_TEST(remembers_many),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
