/* SPDX-License-Identifier: MIT */
/*
 * A store with damage verified, with every system call and every allocation
 * failing in turn.  No good chunk is renamed; what is called sound is; a chunk
 * that was taken from its place is on the damage list (I2), and never healed.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "index/verify.h"
#include "tests/support/failmalloc.h"
#include "tests/support/restorefix.h"

#define CHUNK RESTOREFIX_CHUNK
#define IMG "a.img.fidx"
#define CHUNKS 4U
#define BAD 1U
#define MISSING 2U

struct scene {
	struct digest digests[CHUNKS];
	char *bad; /* what the bad one holds */
	size_t bad_n;
};

static void push(struct restorefix *f, struct scene *s)
{
	char path[PATH_MAX];
	uint8_t *p = restorefix_bytes(f, GEN_RANDOM, CHUNKS * CHUNK);

	restorefix_begin(f);
	restorefix_add(f, IMG, p, CHUNKS * CHUNK);
	restorefix_add(f, "b.conf.blob", p, 99);
	restorefix_commit(f);
	for (size_t i = 0; i < CHUNKS; i++)
		s->digests[i] = restorefix_entry(f, IMG, i).digest;
	restorefix_spoil(f, &s->digests[MISSING], SPOIL_MISSING);
	restorefix_spoil(f, &s->digests[BAD], SPOIL_CRC);
	restorefix_chunk_path(&s->digests[BAD], "", path);
	s->bad = tmpdir_get(f->dir.fd, path, &s->bad_n);
}

/* The damage as it was, and no list. */
static void rewind_store(struct restorefix *f, const struct scene *s)
{
	char path[PATH_MAX];

	restorefix_chunk_path(&s->digests[BAD], ".0.bad", path);
	(void)unlinkat(f->dir.fd, path, 0);
	restorefix_chunk_path(&s->digests[BAD], "", path);
	tmpdir_put(f->dir.fd, path, s->bad, s->bad_n);
	(void)unlinkat(f->dir.fd, "store/.cairn/damaged", 0);
}

static int run(struct restorefix *f, struct verify_result *ret)
{
	f->e = (struct err)ERR_INIT;
	buf_reset(&f->messages);
	return verify_run(f->ds, &f->id, 1, &f->task, ret, &f->e);
}

static void check(struct restorefix *f, const struct scene *s, int rc,
    struct verify_result *r)
{
	const struct digest *bad = &s->digests[BAD];

	assert_int_equal(f->e.code, rc);
	for (size_t i = 0; i < CHUNKS; i++) {
		assert_false(restorefix_has_chunk(f, &s->digests[i], ".1.bad"));
		if (i == BAD)
			continue;
		assert_int_equal(
		    restorefix_has_chunk(f, &s->digests[i], ""), i != MISSING);
		assert_false(restorefix_has_chunk(f, &s->digests[i], ".0.bad"));
	}
	assert_true(restorefix_has_chunk(f, bad, "") ||
	    (restorefix_has_chunk(f, bad, ".0.bad") &&
		restorefix_listed(f, bad, " bad ") +
			restorefix_listed(f, bad, " missing ") >
		    0));
	assert_int_equal(restorefix_listed(f, bad, "healed"), 0);
	assert_int_equal(
	    restorefix_listed(f, &s->digests[MISSING], "healed"), 0);
	if (rc == 0) {
		assert_int_equal(r->hurt_n + r->busy, 1);
		verify_result_release(r);
	}
}

/* Without a fault it finds what is left to find. */
static void check_again(struct restorefix *f, const struct scene *s)
{
	bool renamed = restorefix_has_chunk(f, &s->digests[BAD], ".0.bad");
	struct verify_result r;

	assert_ok(run(f, &r), &f->e);
	assert_int_equal(r.snapshots, 1);
	assert_int_equal(r.missing_chunks, renamed ? 2 : 1);
	assert_int_equal(r.bad_chunks, renamed ? 0 : 1);
	assert_int_equal(r.unreadable_chunks + r.kept_chunks, 0);
	assert_int_equal(r.chunks, CHUNKS);
	assert_int_equal(restorefix_list_lines(f), 2);
	check(f, s, 0, &r);
}

static void every_call_fails(void **state)
{
	static const struct fault_rule rules[] = {
		{ .calls = FAULT_ANY, .what = FAULT_FAIL, .error = EIO },
		{ .calls = FAULT_CHANGES, .what = FAULT_FAIL, .error = ENOSPC },
		{ .calls = FAULT_CHANGES,
		    .what = FAULT_FAIL_AFTER,
		    .error = EIO },
		{ .calls = FAULT_BIT(FAULT_READ) | FAULT_BIT(FAULT_PREAD),
		    .what = FAULT_SHORT,
		    .bytes = 0 },
	};
	struct restorefix *f = *state;
	struct scene s;

	push(f, &s);
	for (size_t i = 0; i < TEST_COUNT(rules); i++) {
		struct fault_rule rule = rules[i];
		uint64_t hits = 1;

		rule.times = 1;
		for (uint64_t n = 1; hits > 0; n++) {
			struct verify_result r = { .hurt = NULL };
			int rc = 0;

			rewind_store(f, &s);
			fault_install();
			rule.at = n;
			fault_add(&rule);
			rc = run(f, &r);
			hits = fault_hits();
			fault_uninstall();
			if (hits == 0)
				assert_ok(rc, &f->e);
			check(f, &s, rc, &r);
			if (i == 0)
				check_again(f, &s);
		}
	}
	free(s.bad);
}

static void every_allocation_fails(void **state)
{
	struct restorefix *f = *state;
	struct scene s;
	uint64_t failed = 1;

	push(f, &s);
	for (uint64_t n = 1; failed > 0; n++) {
		struct verify_result r = { .hurt = NULL };
		int rc = 0;

		rewind_store(f, &s);
		failmalloc_at(n);
		rc = run(f, &r);
		failed = failmalloc_off();
		if (rc < 0)
			assert_err(rc, &f->e, ERR_NOMEM, "memory");
		if (failed == 0)
			assert_ok(rc, &f->e);
		check(f, &s, rc, &r);
		check_again(f, &s);
	}
	free(s.bad);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		RESTOREFIX_TEST(every_call_fails),
		RESTOREFIX_TEST(every_allocation_fails),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
