/* SPDX-License-Identifier: MIT */
/*
 * A forget, a prune, a count of what would become garbage, and a time zone
 * whose n-th system call or allocation fails, for each n.
 *
 * Whatever fails, what the policy keeps is whole, nothing that is listed has
 * holes, and the next prune ends what was begun.  A figure that calls itself
 * exact is exact.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "datastore/base/zone.h"
#include "datastore/prune.h"
#include "datastore/snapshot.h"
#include "gc/wouldfree.h"
#include "tests/support/failmalloc.h"
#include "tests/support/gcfix.h"

#define OLD 2 /* snapshots that go */

/* Chunks of the i-th one: 4i .. 4i + 7, of which it shares the first four with
 * the one before. */
static void push_group(struct gcfix *f)
{
	for (unsigned i = 0; i <= OLD; i++) {
		char name[64];

		(void)snprintf(name, sizeof(name),
		    "host/a/2027-01-15T08:00:0%uZ/index.json.blob", i);
		if (!gcfix_exists(f, name))
			(void)gcfix_push_new(
			    f, "host/a", GCFIX_T0 + i, 4 * i, 8);
	}
}

static int prune(struct gcfix *f, struct prune_group *ret)
{
	static const struct backup_group group = { .type = BACKUP_HOST,
		.id = "a" };
	const struct retention_policy policy = {
		.given = { [RETENTION_LAST] = true },
		.value = { [RETENTION_LAST] = 1 },
	};
	const struct prune_opts o = { .policy = &policy,
		.now = GCFIX_T0 + GCFIX_DAY };

	f->e = (struct err)ERR_INIT;
	return prune_group(f->ds, &group, &o, &f->other, ret, &f->e);
}

/* Behind a prune that may have failed. */
static void judge(struct gcfix *f, int rc, struct prune_group *p)
{
	size_t finished = 0;

	assert_true(rc == 0 || strlen(f->e.msg) > 10);
	prune_group_release(p);
	/* Every finished one is whole; the newest is one of them. */
	finished = gcfix_check(f);
	assert_in_range(finished, 1, OLD + 1);
	assert_true(
	    gcfix_exists(f, "host/a/" GCFIX_T2_NAME "/index.json.blob"));
	assert_ok(prune(f, p), &f->e);
	prune_group_release(p);
	assert_int_equal(gcfix_check(f), 1);
	assert_false(gcfix_exists(f, "host/a/" GCFIX_T0_NAME));
	assert_false(gcfix_exists(f, "host/a/" GCFIX_T1_NAME));
	/* Or it grows, and with it the number of calls. */
	gcfix_unlink(f, ".cairn/removed");
}

static void no_fsync(void *ctx, struct fault_event *ev)
{
	(void)ctx;
	/* Nobody cuts the power here. */
	if (ev->call == FAULT_FSYNC || ev->call == FAULT_SYNCFS)
		ev->skip = true;
}

static void install(void)
{
	fault_install();
	fault_set_hooks(&(struct fault_hooks){ .before = no_fsync });
}

static void prune_fails(struct gcfix *f, int error)
{
	const uint64_t calls = FAULT_ANY & ~FAULT_BIT(FAULT_OFD_LOCK);
	uint64_t failed = 0;
	uint64_t hits = 1;

	for (uint64_t n = 1; hits > 0; n++) {
		struct prune_group p = PRUNE_GROUP_INIT;
		int rc = 0;

		install();
		push_group(f);
		fault_once(calls, n, error);
		rc = prune(f, &p);
		hits = fault_hits();
		fault_uninstall();
		failed += rc < 0;
		for (size_t i = 0; i < p.n && rc == 0; i++) {
			if (p.items[i].outcome == PRUNE_FAILED)
				failed++;
		}
		if (hits == 0)
			assert_ok(rc, &f->e);
		judge(f, rc, &p);
	}
	assert_in_range(failed, 30, 500);
}

static void prune_eio(void **state)
{
	prune_fails(*state, EIO);
}

static void prune_enospc(void **state)
{
	prune_fails(*state, ENOSPC);
}

/* Behind a forget of the first one that may have failed. */
static void judge_forget(
    struct gcfix *f, const struct backup_snapshot *s, int error, int rc)
{
	size_t finished = gcfix_check(f);

	assert_true(rc == 0 || strlen(f->e.msg) > 10);
	assert_in_range(finished, OLD, OLD + 1);
	/* Only what was to go went, and all of it at the next try. */
	if (gcfix_exists(f, "host/a/" GCFIX_T0_NAME)) {
		assert_true(rc < 0);
		f->e = (struct err)ERR_INIT;
		assert_ok(snapshot_forget(f->ds, s, &f->other, &f->e), &f->e);
	}
	assert_int_equal(gcfix_check(f), OLD);
	assert_true(
	    gcfix_exists(f, "host/a/" GCFIX_T1_NAME "/index.json.blob"));
	assert_true(
	    gcfix_exists(f, "host/a/" GCFIX_T2_NAME "/index.json.blob"));
	/* Recorded before it went, unless there was no room for that. */
	if (gcfix_exists(f, ".cairn/removed"))
		gcfix_unlink(f, ".cairn/removed");
	else
		assert_int_equal(error, EDQUOT);
}

static void forget_fails(void **state)
{
	static const int errors[] = { EIO, EACCES, EROFS, EDQUOT, EMFILE };
	const uint64_t calls = FAULT_ANY & ~FAULT_BIT(FAULT_OFD_LOCK);
	const struct backup_snapshot s = {
		.group = { .type = BACKUP_HOST, .id = "a" },
		.time = GCFIX_T0,
	};
	struct gcfix *f = *state;

	for (size_t k = 0; k < TEST_COUNT(errors); k++) {
		uint64_t failed = 0;
		uint64_t hits = 1;

		for (uint64_t n = 1; hits > 0; n++) {
			int rc = 0;

			install();
			push_group(f);
			f->e = (struct err)ERR_INIT;
			fault_once(calls, n, errors[k]);
			rc = snapshot_forget(f->ds, &s, &f->other, &f->e);
			hits = fault_hits();
			fault_uninstall();
			failed += rc < 0;
			if (hits == 0)
				assert_ok(rc, &f->e);
			judge_forget(f, &s, errors[k], rc);
		}
		assert_in_range(failed, 10, 500);
	}
}

static void prune_no_memory(void **state)
{
	struct gcfix *f = *state;
	uint64_t hits = 1;

	for (uint64_t n = 1; hits > 0; n++) {
		struct prune_group p = PRUNE_GROUP_INIT;
		int rc = 0;

		push_group(f);
		failmalloc_at(n);
		rc = prune(f, &p);
		hits = failmalloc_off();
		if (hits == 0)
			assert_ok(rc, &f->e);
		judge(f, rc, &p);
	}
}

/* What would go: the first two, chunks 0 to 7 of which nobody else has. */
#define TRUE_CHUNKS 8

static uint64_t true_bytes(struct gcfix *f)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < TRUE_CHUNKS; i++) {
		char path[PATH_MAX];
		struct stat st;

		gcfix_chunk_path(i, "", path);
		assert_int_equal(fstatat(f->dir.fd, path, &st, 0), 0);
		sum += (uint64_t)st.st_size;
	}
	return sum;
}

static int count(struct gcfix *f, size_t capacity, struct wouldfree *ret)
{
	struct backup_snapshot gone[OLD] = {
		{ .group = { .type = BACKUP_HOST, .id = "a" },
		    .time = GCFIX_T0 },
		{ .group = { .type = BACKUP_HOST, .id = "a" },
		    .time = GCFIX_T0 + 1 },
	};
	const struct wouldfree_opts o = {
		.gone = gone, .gone_n = OLD, .capacity = capacity
	};

	f->e = (struct err)ERR_INIT;
	return wouldfree_count(f->ds, &o, &f->other, ret, &f->e);
}

static void judge_figure(const struct wouldfree *w, uint64_t bytes)
{
	if (!w->maybe_more) {
		assert_true(w->chunks >= TRUE_CHUNKS);
		assert_true(w->bytes >= bytes);
	}
	if (!w->maybe_less) {
		assert_true(w->chunks <= TRUE_CHUNKS);
		assert_true(w->bytes <= bytes);
	}
	if (strcmp(wouldfree_word(w), "exactly") == 0) {
		assert_int_equal(w->chunks, TRUE_CHUNKS);
		assert_int_equal(w->bytes, bytes);
	}
}

static void count_fails(void **state)
{
	static const int errors[] = { EIO, ENOENT, ESTALE };
	struct gcfix *f = *state;
	uint64_t bytes = 0;

	push_group(f);
	bytes = true_bytes(f);
	for (size_t k = 0; k < TEST_COUNT(errors); k++) {
		uint64_t doubted = 0;
		uint64_t hits = 1;

		for (uint64_t n = 1; hits > 0; n++) {
			struct wouldfree w = { .chunks = 0 };
			int rc = 0;

			install();
			fault_once(FAULT_ANY, n, errors[k]);
			rc = count(f, 5, &w);
			hits = fault_hits();
			fault_uninstall();
			doubted += rc < 0 || w.maybe_more || w.maybe_less;
			/* What is said not to be there may be believed. */
			if (rc == 0 && (hits == 0 || errors[k] != ENOENT))
				judge_figure(&w, bytes);
			else if (rc < 0)
				assert_true(strlen(f->e.msg) > 10);
			if (hits == 0)
				assert_ok(rc, &f->e);
		}
		assert_in_range(doubted, 10, 2000);
	}
}

static void count_no_memory(void **state)
{
	struct gcfix *f = *state;
	uint64_t bytes = 0;
	uint64_t hits = 1;

	push_group(f);
	bytes = true_bytes(f);
	for (uint64_t n = 1; hits > 0; n++) {
		struct wouldfree w = { .chunks = 0 };
		int rc = 0;

		failmalloc_at(n);
		rc = count(f, 5, &w);
		hits = failmalloc_off();
		if (rc == 0)
			judge_figure(&w, bytes);
		else
			assert_int_equal(f->e.code, rc);
		if (hits == 0)
			assert_ok(rc, &f->e);
	}
}

static void zone_fails(void **state)
{
	struct gcfix *f = *state;
	struct zone *z = NULL;
	struct stat st;
	uint64_t hits = 1;

	if (stat(ZONE_DIR "/Europe/Berlin", &st) != 0)
		skip();
	for (uint64_t n = 1; hits > 0; n++) {
		int rc = 0;

		f->e = (struct err)ERR_INIT;
		failmalloc_at(n);
		rc = zone_open("Europe/Berlin", &z, &f->e);
		hits = failmalloc_off();
		if (hits > 0)
			assert_err(rc, &f->e, ERR_NOMEM, "memory");
		else
			assert_ok(rc, &f->e);
	}
	zone_free(z);
	hits = 1;
	for (uint64_t n = 1; hits > 0; n++) {
		int rc = 0;

		f->e = (struct err)ERR_INIT;
		z = NULL;
		fault_install();
		fault_once(FAULT_ANY & ~FAULT_BIT(FAULT_CLOSE), n, EIO);
		rc = zone_open("Europe/Berlin", &z, &f->e);
		hits = fault_hits();
		fault_uninstall();
		zone_free(z);
		if (hits > 0)
			assert_err(rc, &f->e, ERR_INVALID, "'Europe/Berlin'");
		else
			assert_ok(rc, &f->e);
	}
}

static int teardown(void **state)
{
	(void)failmalloc_off();
	fault_uninstall();
	return gcfix_teardown(state);
}

#define PRUNE_TEST(t) cmocka_unit_test_setup_teardown(t, gcfix_setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		PRUNE_TEST(prune_eio),
		PRUNE_TEST(prune_enospc),
		PRUNE_TEST(forget_fails),
		PRUNE_TEST(prune_no_memory),
		PRUNE_TEST(count_fails),
		PRUNE_TEST(count_no_memory),
		PRUNE_TEST(zone_fails),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
