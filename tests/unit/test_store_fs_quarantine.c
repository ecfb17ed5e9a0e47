/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdio.h>
#include <time.h>

#include "tests/support/foreign.h"
#include "tests/support/storefix.h"

#define PREFIX 0x0a1bU
#define LOCK_BYTE (16 + PREFIX)
#define LONG_AGO 1000000000

static bool quarantine(struct storefix *f, const struct digest *d, int fd)
{
	bool done = false;

	assert_ok(store_quarantine(f->store, d, fd, &done, &f->e), &f->e);
	assert_true(foreign_can_byte(f->dir.fd, ".lock", LOCK_BYTE, F_WRLCK));
	return done;
}

static int open_chunk(struct storefix *f, const struct digest *d)
{
	int fd = -1;

	assert_ok(store_open_chunk(f->store, d, &fd, &f->e), &f->e);
	return fd;
}

static void put_number(
    struct storefix *f, const struct digest *d, unsigned number)
{
	char text[32];
	int n = snprintf(text, sizeof(text), "content %u", number);

	storefix_put(f, d, "", text, (size_t)n);
}

static void assert_number(
    struct storefix *f, const struct digest *d, const char *suffix, unsigned n)
{
	char *text = tmpdir_get(f->chunks_fd, storefix_path(d, suffix), NULL);
	char want[32];

	(void)snprintf(want, sizeof(want), "content %u", n);
	assert_non_null(text);
	assert_string_equal(text, want);
	free(text);
}

/* Ten names; the eleventh file and all behind it take the last one. */
static void quarantine_a_dozen(struct storefix *f)
{
	struct digest d = storefix_digest(PREFIX, 1);

	for (unsigned i = 0; i < 12; i++) {
		char suffix[] = ".0.bad";
		int fd = -1;

		put_number(f, &d, i);
		fd = open_chunk(f, &d);
		assert_true(quarantine(f, &d, fd));
		(void)close(fd);
		assert_false(storefix_has(f, &d, ""));
		suffix[1] = (char)('0' + (i < 10 ? i : 9));
		assert_number(f, &d, suffix, i);
	}
	for (unsigned i = 0; i < 9; i++) {
		char suffix[] = ".0.bad";

		suffix[1] = (char)('0' + i);
		assert_number(f, &d, suffix, i);
	}
}

static void test_quarantine(void **state)
{
	quarantine_a_dozen(*state);
}

static void refuse_noreplace(void *ctx, struct fault_event *ev)
{
	const int *error = ctx;

	if (ev->call == FAULT_RENAMEAT2 && ev->flags != 0) {
		ev->skip = true;
		ev->result = -1;
		ev->error = *error;
	}
}

static void test_quarantine_without_noreplace(void **state)
{
	int error = EINVAL;

	fault_install();
	fault_set_hooks(
	    &(struct fault_hooks){ .before = refuse_noreplace, .ctx = &error });
	quarantine_a_dozen(*state);
}

static void test_quarantine_of_another(void **state)
{
	struct storefix *f = *state;
	struct digest d = storefix_digest(PREFIX, 1);
	int fd = -1;

	put_number(f, &d, 1);
	fd = open_chunk(f, &d);
	/* Healed meanwhile. */
	put_number(f, &d, 2);
	assert_int_equal(unlinkat(f->chunks_fd, storefix_path(&d, ""), 0), 0);
	assert_false(quarantine(f, &d, fd));
	put_number(f, &d, 3);
	assert_false(quarantine(f, &d, fd));
	assert_number(f, &d, "", 3);
	assert_false(storefix_has(f, &d, ".0.bad"));
	(void)close(fd);
}

/* Marked between the two looks: still the same file. */
static void touch_between(void *ctx, struct fault_event *ev)
{
	struct storefix *f = ctx;
	struct digest d = storefix_digest(PREFIX, 1);
	static const struct timespec wait = { .tv_nsec = 20000000 };

	if (ev->call == FAULT_STATX && ev->name[0] == '\0' &&
	    fault_count(FAULT_BIT(FAULT_STATX)) <= 3) {
		/* Longer than the clock of file times stands still. */
		(void)nanosleep(&wait, NULL);
		storefix_age(f, &d, "", LONG_AGO, LONG_AGO);
	}
}

static void test_quarantine_of_a_touched_one(void **state)
{
	struct storefix *f = *state;
	struct digest d = storefix_digest(PREFIX, 1);
	int fd = -1;

	put_number(f, &d, 1);
	fd = open_chunk(f, &d);
	fault_install();
	fault_set_hooks(
	    &(struct fault_hooks){ .after = touch_between, .ctx = f });
	assert_true(quarantine(f, &d, fd));
	assert_true(fault_count(FAULT_BIT(FAULT_STATX)) > 3);
	assert_number(f, &d, ".0.bad", 1);
	(void)close(fd);
}

static void test_quarantine_lasts(void **state)
{
	struct storefix *f = *state;
	struct digest d = storefix_digest(PREFIX, 1);
	bool done = false;
	int fd = -1;

	put_number(f, &d, 1);
	fd = open_chunk(f, &d);
	fault_install();
	fault_add(&(struct fault_rule){ .calls = FAULT_BIT(FAULT_FSYNC),
	    .what = FAULT_FAIL,
	    .at = 1,
	    .times = 1,
	    .error = EIO });
	assert_err(store_quarantine(f->store, &d, fd, &done, &f->e), &f->e,
	    ERR_SYS, "sync");
	assert_false(done);
	(void)close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		storefix_test(test_quarantine),
		storefix_test(test_quarantine_without_noreplace),
		storefix_test(test_quarantine_of_another),
		storefix_test(test_quarantine_of_a_touched_one),
		storefix_test(test_quarantine_lasts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
