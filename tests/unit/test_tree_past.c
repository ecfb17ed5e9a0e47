/* SPDX-License-Identifier: MIT */
/*
 * Listings that go on past what can not be listed, and tell it.
 */
#include <errno.h>

#include "datastore/tree.h"
#include "tests/support/dsfix.h"

#define T0 "2027-01-15T08:00:00Z"
#define T1 "2027-01-15T08:00:01Z"

/* What was told: one line each. */
struct told {
	char text[1024];
	size_t n;
};

static void tell(void *ctx, const struct err *why)
{
	struct told *t = ctx;
	size_t len = strlen(t->text);

	assert_true(why->code < 0);
	(void)snprintf(t->text + len, sizeof(t->text) - len, "%s\n", why->msg);
	t->n++;
}

/* Two namespaces, groups in each, a link in place of something of each. */
static void make_tree(struct dsfix *f)
{
	dsfix_mkdir(f, "host/a/" T0);
	dsfix_mkdir(f, "host/a/" T1);
	dsfix_mkdir(f, "vm/100/" T0);
	dsfix_mkdir(f, "ns/prod/host/b/" T0);
	dsfix_mkdir(f, "ns/test/host/c/" T0);
	assert_ok(dsfix_open(f, DATASTORE_READ), &f->e);
}

static void lists_all_where_nothing_is_wrong(void **state)
{
	struct dsfix *f = *state;
	struct told told = { .n = 0 };
	const struct tree_obstacles o = { .fn = tell, .ctx = &told };
	struct tree_namespaces namespaces;
	struct tree_groups groups;
	struct tree_snapshots snapshots;
	struct backup_ns root = { .name = "" };

	make_tree(f);
	assert_ok(tree_namespaces_past(f->ds, &o, &namespaces, &f->e), &f->e);
	assert_int_equal(namespaces.n, 3);
	assert_ok(tree_groups_past(f->ds, &root, &o, &groups, &f->e), &f->e);
	assert_int_equal(groups.n, 2);
	assert_ok(
	    tree_snapshots_past(f->ds, &groups.items[0], &o, &snapshots, &f->e),
	    &f->e);
	assert_int_equal(snapshots.n, 2);
	assert_int_equal(told.n, 0);
	tree_namespaces_release(&namespaces);
	tree_groups_release(&groups);
	tree_snapshots_release(&snapshots);
}

static void goes_past_links(void **state)
{
	struct dsfix *f = *state;
	struct told told = { .n = 0 };
	const struct tree_obstacles o = { .fn = tell, .ctx = &told };
	struct tree_namespaces namespaces;
	struct tree_groups groups;
	struct tree_snapshots snapshots;
	struct backup_ns root = { .name = "" };

	make_tree(f);
	dsfix_symlink(f, "prod", "ns/link");
	dsfix_symlink(f, "a", "host/link");
	dsfix_symlink(f, T0, "host/a/2027-01-15T09:00:00Z");
	assert_err(tree_namespaces(f->ds, &namespaces, &f->e), &f->e,
	    ERR_CORRUPT, "'ns/link' is a symbolic link");
	f->e = (struct err)ERR_INIT;
	assert_ok(tree_namespaces_past(f->ds, &o, &namespaces, &f->e), &f->e);
	assert_int_equal(namespaces.n, 3);
	assert_ok(tree_groups_past(f->ds, &root, &o, &groups, &f->e), &f->e);
	assert_int_equal(groups.n, 2);
	assert_string_equal(groups.items[0].id, "a");
	assert_ok(
	    tree_snapshots_past(f->ds, &groups.items[0], &o, &snapshots, &f->e),
	    &f->e);
	assert_int_equal(snapshots.n, 2);
	assert_string_equal(told.text,
	    "'ns/link' is a symbolic link, want a directory\n"
	    "'host/link' is a symbolic link, want a directory\n"
	    "'host/a/2027-01-15T09:00:00Z' is a symbolic link, want a "
	    "directory\n");
	/* What was told is no failure of ours. */
	assert_int_equal(f->e.code, ERR_OK);
	tree_namespaces_release(&namespaces);
	tree_groups_release(&groups);
	tree_snapshots_release(&snapshots);
}

/* The directory itself: all of one kind is away, the others are there. */
static void goes_past_a_type_that_is_a_link(void **state)
{
	struct dsfix *f = *state;
	struct told told = { .n = 0 };
	const struct tree_obstacles o = { .fn = tell, .ctx = &told };
	struct tree_groups groups;
	struct tree_snapshots snapshots;
	struct backup_ns root = { .name = "" };
	struct backup_group g = { .type = BACKUP_HOST, .id = "a" };

	make_tree(f);
	dsfix_move(f, "store/host", "moved");
	dsfix_symlink(f, "../moved", "host");
	assert_ok(tree_groups_past(f->ds, &root, &o, &groups, &f->e), &f->e);
	assert_int_equal(groups.n, 1);
	assert_string_equal(groups.items[0].id, "100");
	assert_int_equal(told.n, 1);
	assert_ok(tree_snapshots_past(f->ds, &g, &o, &snapshots, &f->e), &f->e);
	assert_int_equal(snapshots.n, 0);
	assert_int_equal(told.n, 2);
	tree_groups_release(&groups);
	tree_snapshots_release(&snapshots);
}

static void goes_past_disk_errors(void **state)
{
	struct dsfix *f = *state;
	struct backup_ns root = { .name = "" };
	bool struck = true;

	make_tree(f);
	for (uint64_t n = 1; struck; n++) {
		struct told told = { .n = 0 };
		const struct tree_obstacles o = { .fn = tell, .ctx = &told };
		struct tree_groups groups = { .items = NULL };

		fault_install();
		fault_once(FAULT_BIT(FAULT_READDIR) | FAULT_BIT(FAULT_STATX) |
			FAULT_BIT(FAULT_OPENAT),
		    n, EIO);
		assert_ok(
		    tree_groups_past(f->ds, &root, &o, &groups, &f->e), &f->e);
		struck = fault_hits() > 0;
		fault_uninstall();
		assert_int_equal(told.n, struck);
		assert_true(groups.n <= 2);
		if (!struck)
			assert_int_equal(groups.n, 2);
		tree_groups_release(&groups);
	}
}

/* What is not there is not in the way. */
static void says_what_does_not_exist(void **state)
{
	struct dsfix *f = *state;
	struct told told = { .n = 0 };
	const struct tree_obstacles o = { .fn = tell, .ctx = &told };
	struct tree_groups groups;
	struct tree_snapshots snapshots;
	struct backup_ns none = { .name = "none" };
	struct backup_group g = { .type = BACKUP_HOST, .id = "none" };

	make_tree(f);
	assert_err(tree_groups_past(f->ds, &none, &o, &groups, &f->e), &f->e,
	    ERR_NOTFOUND, "'none'");
	assert_err(tree_snapshots_past(f->ds, &g, &o, &snapshots, &f->e), &f->e,
	    ERR_NOTFOUND, "'host/none'");
	assert_int_equal(told.n, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		DSFIX_TEST(lists_all_where_nothing_is_wrong),
		DSFIX_TEST(goes_past_links),
		DSFIX_TEST(goes_past_a_type_that_is_a_link),
		DSFIX_TEST(goes_past_disk_errors),
		DSFIX_TEST(says_what_does_not_exist),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
