/* SPDX-License-Identifier: MIT */
/*
 * What a mark can not read, what it may pass over, and what it finds again.
 */
#include "gc/mark.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <unistd.h>

#include "datastore/locks.h"
#include "tests/support/foreign.h"
#include "tests/support/markfix.h"

static void corrupt(struct gcfix *f, const char *path, int how)
{
	char full[PATH_MAX];
	size_t n = 0;
	char *p = NULL;

	(void)snprintf(full, sizeof(full), "store/%s", path);
	p = tmpdir_get(f->dir.fd, full, &n);
	assert_non_null(p);
	if (how == 0)
		n = 0; /* empty */
	if (how == 1)
		n = 10; /* cut within the header */
	if (how == 2)
		n -= 5; /* cut behind it */
	if (how == 3)
		p[0] = 'x'; /* another magic */
	if (how == 4)
		p[n - 1] = (char)(p[n - 1] + 1); /* checksum */
	tmpdir_put(f->dir.fd, full, p, n);
	free(p);
}

enum { WAYS_TO_CORRUPT = 5 };

/* Every one of them is told, and all others are read. */
static void broken_indexes_are_all_found(void **state)
{
	struct gcfix *f = *state;
	struct marked k = { .m = MARK_INIT, .opts = { .locks = true } };

	put(f, S1, "good.fidx", 50);
	put(f, S1, "index.json.blob", 0);
	for (int how = 0; how < WAYS_TO_CORRUPT; how++) {
		char path[64];

		(void)snprintf(path, sizeof(path), S1 "/b%d.fidx", how);
		gcfix_put_index(f, path, 0, 10);
		corrupt(f, path, how);
	}
	assert_ok(run(f, &k), &f->e);
	assert_int_equal(k.findings.fatal, WAYS_TO_CORRUPT);
	for (int how = 0; how < WAYS_TO_CORRUPT; how++) {
		char path[64];

		(void)snprintf(path, sizeof(path), "/b%d.fidx'", how);
		assert_int_equal(gcfix_said(f, path), 1);
	}
	assert_true(has(&k, 50, 10));
	assert_int_equal(k.m.roots_n, 1);
	assert_int_equal(k.m.counts.left_overs, 0);
	mark_release(&k.m);
}

static void unreadable_indexes_are_found(void **state)
{
	static const struct {
		uint64_t call;
		const char *name;
		uint64_t at;
	} cases[] = {
		{ FAULT_BIT(FAULT_OPENAT), "bad.fidx", 1 },
		{ FAULT_BIT(FAULT_PREAD), NULL, 1 }, /* header */
		{ FAULT_BIT(FAULT_PREAD), NULL, 2 }, /* entries */
	};
	struct gcfix *f = *state;
	struct marked k = { .m = MARK_INIT, .opts = { .locks = true } };

	/* Without manifest and old, but the disk's fault is no left-over. */
	k.opts.left_over_cutoff = INT64_MAX;
	put(f, S0, "bad.fidx", 0);
	put(f, S1, "good.fidx", 50);
	for (size_t i = 0; i < TEST_COUNT(cases); i++) {
		fault_install();
		fault_add(&(struct fault_rule){ .calls = cases[i].call,
		    .name = cases[i].name,
		    .what = FAULT_FAIL,
		    .at = cases[i].at,
		    .times = 1,
		    .error = i == 0 ? EACCES : EIO });
		assert_ok(run(f, &k), &f->e);
		assert_int_equal(k.findings.fatal, 1);
		assert_int_equal(gcfix_said(f, "bad.fidx'"), 1);
		assert_true(has(&k, 50, 10));
		fault_uninstall();
	}
	mark_release(&k.m);
}

/* Memory that is out is not a finding about a file. */
static void a_sink_that_fails_ends_it(void **state)
{
	struct gcfix *f = *state;
	struct marked k = { .m = MARK_INIT, .opts = { .locks = true } };

	put(f, S0, "a.fidx", 0);
	k.fail = ERR_NOMEM;
	assert_err(run(f, &k), &f->e, ERR_NOMEM, "sink");
	assert_int_equal(k.findings.fatal, 0);
	assert_true(foreign_can_byte(
	    f->dir.fd, "store/.lock", LOCK_BYTE_TREE, F_WRLCK));
	mark_release(&k.m);
}

/* What a dead backup left: told, counted, not fatal. */
static void left_overs_are_not_fatal(void **state)
{
	struct gcfix *f = *state;
	struct marked k = { .m = MARK_INIT, .opts = { .locks = true } };
	char path[PATH_MAX];
	int fd = -1;

	put(f, S1, "good.fidx", 50);
	for (int how = 0; how < WAYS_TO_CORRUPT; how++) {
		put(f, S0, "bad.fidx", 0);
		corrupt(f, S0 "/bad.fidx", how);
		/* Not old enough: it may be somebody's. */
		k.opts.left_over_cutoff = 0;
		assert_ok(run(f, &k), &f->e);
		assert_int_equal(k.findings.fatal, 1);
		k.opts.left_over_cutoff = INT64_MAX;
		assert_ok(run(f, &k), &f->e);
		assert_int_equal(k.findings.fatal, 0);
		assert_int_equal(k.m.counts.left_overs, 1);
		assert_int_equal(gcfix_said(f, "left over by a backup"), 1);
		assert_true(has(&k, 50, 10));
		/* Without locks, as in a dry run, the same. */
		k.opts.locks = false;
		assert_ok(run(f, &k), &f->e);
		assert_int_equal(k.m.counts.left_overs, 1);
		k.opts.locks = true;
	}
	/* Somebody is at work there. */
	(void)snprintf(path, sizeof(path), "store/%s", S0);
	fd = openat(f->dir.fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_int_equal(flock(fd, LOCK_EX), 0);
	assert_ok(run(f, &k), &f->e);
	assert_int_equal(k.findings.fatal, 1);
	(void)close(fd);
	/* It has a manifest: a snapshot that is hurt. */
	put(f, S0, "index.json.blob", 0);
	assert_ok(run(f, &k), &f->e);
	assert_int_equal(k.findings.fatal, 1);
	assert_int_equal(k.m.counts.left_overs, 0);
	/* In an odd place nobody can tell. */
	gcfix_remove_tree(f, S0);
	put(f, "copies", "bad.fidx", 0);
	corrupt(f, "copies/bad.fidx", 0);
	assert_ok(run(f, &k), &f->e);
	assert_int_equal(k.findings.fatal, 1);
	mark_release(&k.m);
}

/* A snapshot set aside: whatever can be read of it is marked. */
static void what_is_readable_of_an_ignored_one_is_marked(void **state)
{
	const struct backup_snapshot ignore = {
		.group = { .type = BACKUP_HOST, .id = "a" },
		.time = GCFIX_T0,
	};
	struct gcfix *f = *state;
	struct marked k = { .m = MARK_INIT, .opts = { .locks = true } };

	f->opts.ignore = &ignore;
	f->opts.ignore_n = 1;
	put(f, S0, "index.json.blob", 0);
	put(f, S0, "whole.fidx", 0);
	for (int how = 2; how < WAYS_TO_CORRUPT; how++) {
		put(f, S0, "bad.fidx", 20);
		corrupt(f, S0 "/bad.fidx", how);
		assert_ok(run(f, &k), &f->e);
		assert_int_equal(k.findings.fatal, 0);
		assert_int_equal(k.findings.warnings, 1);
		assert_true(has(&k, 0, 10));
		/* Cut or changed, the last one is lost. */
		assert_true(has(&k, 20, 9));
		assert_int_equal(k.times[29] > 0, how == 3);
	}
	gcfix_unlink(f, S0 "/bad.fidx");
	put_dynamic(f, S0 "/bad.didx", 40);
	corrupt(f, S0 "/bad.didx", 3);
	assert_ok(run(f, &k), &f->e);
	assert_true(has(&k, 40, 2));
	assert_int_equal(k.findings.fatal, 0);
	/* An empty one, too. */
	corrupt(f, S0 "/bad.didx", 0);
	assert_ok(run(f, &k), &f->e);
	assert_int_equal(k.findings.fatal, 0);
	mark_release(&k.m);
}

/* What a run would have removed before it listed (dry run). */
static void skipped_directories_are_no_roots(void **state)
{
	char s0[] = S0;
	char *skip[] = { s0 };
	struct gcfix *f = *state;
	struct marked k = { .m = MARK_INIT };

	put(f, S0, "a.fidx", 0);
	put(f, S1, "a.fidx", 20);
	k.opts.skip = skip;
	k.opts.skip_n = 1;
	assert_ok(run(f, &k), &f->e);
	assert_false(has(&k, 0, 1));
	assert_true(has(&k, 20, 10));
	/* Finished: nobody removes that. */
	put(f, S0, "index.json.blob", 0);
	assert_ok(run(f, &k), &f->e);
	assert_true(has(&k, 0, 10));
	mark_release(&k.m);
}

struct found {
	unsigned n;
	struct digest d[8];
	char path[8][64];
};

static void on_reference(void *ctx, const struct digest *d, const char *path)
{
	struct found *found = ctx;

	assert_in_range(found->n, 0, 7);
	found->d[found->n] = *d;
	(void)snprintf(found->path[found->n], 64, "%s", path);
	found->n++;
}

static void references_are_found_again(void **state)
{
	struct gcfix *f = *state;
	struct marked k = { .m = MARK_INIT, .opts = { .locks = true } };
	struct found found = { .n = 0 };
	struct digest d[2];
	struct digest swap;
	const struct mark_search search = {
		.digests = d, .n = 2, .fn = on_reference, .ctx = &found
	};

	put(f, S0, "a.fidx", 0);
	put(f, S1, "a.fidx", 5);
	put(f, S1, "b.fidx", 30);
	assert_ok(run(f, &k), &f->e);
	pushfix_digest(3, &d[0]);
	pushfix_digest(7, &d[1]);
	if (digest_compare(&d[0], &d[1]) > 0) {
		swap = d[0];
		d[0] = d[1];
		d[1] = swap;
	}
	assert_ok(
	    mark_find_references(f->gc, &k.m, &search, &f->task, &f->e), &f->e);
	assert_int_equal(found.n, 3);
	assert_string_equal(found.path[0], S0 "/a.fidx");
	assert_string_equal(found.path[1], S0 "/a.fidx");
	assert_string_equal(found.path[2], S1 "/a.fidx");
	/* One that is gone by now is passed over. */
	gcfix_remove_tree(f, S0);
	found.n = 0;
	assert_ok(
	    mark_find_references(f->gc, &k.m, &search, &f->task, &f->e), &f->e);
	assert_int_equal(found.n, 1);
	mark_release(&k.m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		GCFIX_TEST(broken_indexes_are_all_found),
		GCFIX_TEST(unreadable_indexes_are_found),
		GCFIX_TEST(a_sink_that_fails_ends_it),
		GCFIX_TEST(left_overs_are_not_fatal),
		GCFIX_TEST(what_is_readable_of_an_ignored_one_is_marked),
		GCFIX_TEST(skipped_directories_are_no_roots),
		GCFIX_TEST(references_are_found_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
