/* SPDX-License-Identifier: MIT */
/*
 * An archive given back, with every system call and every allocation failing
 * in turn.  What is called done is the archive, byte for byte; a stream that
 * ends early is a beginning of it; and no failure is taken for damage.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "index/archive.h"
#include "tests/support/failmalloc.h"
#include "tests/support/restorefix.h"

#define CHUNK RESTOREFIX_CHUNK
#define OUT "out"
#define SIZE (5 * CHUNK + 99)

struct scene {
	const char *archive;
	enum archive_output how;
};

static const struct scene scenes[] = {
	{ "a.img", ARCHIVE_APPEND },
	{ "a.img", ARCHIVE_SPARSE_FILE },
	{ "a.img", ARCHIVE_OVERWRITE_CHANGED },
	{ "b.raw", ARCHIVE_OVERWRITE },
	{ "c.conf", ARCHIVE_APPEND },
	{ "c.conf", ARCHIVE_OVERWRITE_CHANGED },
};

/* One snapshot of all three, with a chunk of zeros in it. */
static void push(struct restorefix *f)
{
	uint8_t *p = restorefix_bytes(f, GEN_RANDOM, SIZE);

	memset(p + CHUNK, 0, 2 * CHUNK);
	restorefix_begin(f);
	restorefix_add(f, "a.img.fidx", p, SIZE);
	restorefix_add(f, "b.raw.didx", p, SIZE);
	restorefix_add(f, "c.conf.blob", p, SIZE);
	restorefix_commit(f);
}

/* A new target, not through the seam. */
static void make_target(struct restorefix *f, const struct scene *s)
{
	static uint8_t other[SIZE];

	memset(other, 'x', sizeof(other));
	tmpdir_put(f->dir.fd, OUT, other,
	    s->how == ARCHIVE_OVERWRITE || s->how == ARCHIVE_OVERWRITE_CHANGED
		? SIZE
		: 0);
	restorefix_target(f, OUT, O_RDWR);
}

static int run(struct restorefix *f, const struct scene *s)
{
	struct archive_result r = { .bytes = 0 };
	int rc = restorefix_open(f, s->archive);

	if (rc == 0)
		rc = archive_extract(
		    f->archive, f->out, s->how, "target", &f->task, &r, &f->e);
	if (rc == 0)
		assert_int_equal(r.bytes, SIZE);
	restorefix_close(f);
	return rc;
}

static void check(struct restorefix *f, const struct scene *s, int rc)
{
	size_t n = SIZE;
	char *got = tmpdir_get(f->dir.fd, OUT, &n);

	assert_non_null(got);
	assert_int_equal(f->e.code, rc);
	assert_int_equal(f->e.msg[0] == '\0', rc == 0);
	if (rc == 0)
		assert_int_equal(n, SIZE);
	if (rc == 0 || s->how == ARCHIVE_APPEND) {
		assert_true(n <= SIZE);
		assert_true(memcmp(got, f->own, n) == 0);
	}
	free(got);
	assert_int_equal(restorefix_list_lines(f), 0);
}

/* Without a fault it works, whatever was before. */
static void check_again(struct restorefix *f, const struct scene *s)
{
	make_target(f, s);
	assert_ok(run(f, s), &f->e);
	check(f, s, 0);
}

static void every_call_fails(void **state)
{
	static const struct fault_rule rules[] = {
		{ .calls = FAULT_ANY, .what = FAULT_FAIL, .error = EIO },
		{ .calls = FAULT_ANY, .what = FAULT_FAIL, .error = EINTR },
		{ .calls = FAULT_BIT(FAULT_READ) | FAULT_BIT(FAULT_PREAD) |
			FAULT_BIT(FAULT_WRITE) | FAULT_BIT(FAULT_PWRITE),
		    .what = FAULT_SHORT,
		    .bytes = 7 },
		/* The end of a file before its end: once, then no more. */
		{ .calls = FAULT_BIT(FAULT_READ) | FAULT_BIT(FAULT_PREAD),
		    .what = FAULT_SHORT,
		    .bytes = 0 },
	};
	struct restorefix *f = *state;

	push(f);
	for (size_t i = 0; i < TEST_COUNT(rules); i++) {
		for (size_t j = 0; j < TEST_COUNT(scenes); j++) {
			struct fault_rule rule = rules[i];
			uint64_t hits = 1;

			rule.times = 1;
			for (uint64_t n = 1; hits > 0; n++) {
				int rc = 0;

				make_target(f, &scenes[j]);
				fault_install();
				rule.at = n;
				fault_add(&rule);
				rc = run(f, &scenes[j]);
				hits = fault_hits();
				fault_uninstall();
				if (hits == 0)
					assert_ok(rc, &f->e);
				check(f, &scenes[j], rc);
			}
			check_again(f, &scenes[j]);
		}
	}
}

static void every_allocation_fails(void **state)
{
	struct restorefix *f = *state;

	push(f);
	for (size_t j = 0; j < TEST_COUNT(scenes); j++) {
		uint64_t failed = 1;

		for (uint64_t n = 1; failed > 0; n++) {
			int rc = 0;

			make_target(f, &scenes[j]);
			failmalloc_at(n);
			rc = run(f, &scenes[j]);
			failed = failmalloc_off();
			if (rc < 0)
				assert_err(rc, &f->e, ERR_NOMEM, "memory");
			else
				check(f, &scenes[j], rc);
			if (failed == 0)
				assert_ok(rc, &f->e);
		}
		check_again(f, &scenes[j]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		RESTOREFIX_TEST(every_call_fails),
		RESTOREFIX_TEST(every_allocation_fails),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
