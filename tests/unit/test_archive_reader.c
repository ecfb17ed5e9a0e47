/* SPDX-License-Identifier: MIT */
/*
 * archive_reader: any bytes of an archive of each kind, a cache that keeps to
 * its size, and damage that is named.
 */
#include "index/archive_reader.h"

#include <stdio.h>
#include <stdlib.h>

#include "tests/support/restorefix.h"

#define CHUNK RESTOREFIX_CHUNK
/* Some more entries than are read of an index at a time. */
#define SIZE (150 * CHUNK + 99)

static const char *const names[] = { "a.img", "b.raw", "c.conf" };

static void push(struct restorefix *f)
{
	const uint8_t *p = restorefix_bytes(f, GEN_RANDOM, SIZE);

	restorefix_begin(f);
	restorefix_add(f, "a.img.fidx", p, SIZE);
	restorefix_add(f, "b.raw.didx", p, SIZE);
	restorefix_add(f, "c.conf.blob", p, SIZE);
	restorefix_commit(f);
}

static struct archive_reader *reader(
    struct restorefix *f, const char *name, size_t cache)
{
	struct archive_reader *r = NULL;

	assert_ok(restorefix_open(f, name), &f->e);
	assert_ok(archive_reader_new(f->archive, cache, &r, &f->e), &f->e);
	return r;
}

static void reads_anywhere(void **state)
{
	struct restorefix *f = *state;
	uint8_t *got = malloc(SIZE);
	struct gen g;

	assert_non_null(got);
	gen_seed(&g, 3);
	push(f);
	for (size_t i = 0; i < TEST_COUNT(names); i++) {
		struct archive_reader *r = reader(f, names[i], 8 * CHUNK);

		for (unsigned j = 0; j < 400; j++) {
			size_t at = gen_below(&g, SIZE + 1);
			size_t most =
			    SIZE - at < 3 * CHUNK ? SIZE - at : 3 * CHUNK;
			size_t n = gen_below(&g, most + 1);

			assert_ok(
			    archive_reader_pread(r, got, n, at, &f->e), &f->e);
			assert_true(memcmp(got, f->own + at, n) == 0);
		}
		assert_ok(archive_reader_pread(r, got, SIZE, 0, &f->e), &f->e);
		assert_true(memcmp(got, f->own, SIZE) == 0);
		archive_reader_free(r);
	}
	free(got);
}

static void peeks(void **state)
{
	struct restorefix *f = *state;

	push(f);
	for (size_t i = 0; i < TEST_COUNT(names); i++) {
		struct archive_reader *r = reader(f, names[i], 0);
		size_t at = 0;

		while (at < SIZE) {
			const uint8_t *p = NULL;
			size_t n = 0;

			assert_ok(archive_reader_peek(
				      r, SIZE - at, at, &p, &n, &f->e),
			    &f->e);
			assert_in_range(n, 1, SIZE - at);
			assert_true(memcmp(p, f->own + at, n) == 0);
			at += n;
		}
		archive_reader_free(r);
	}
}

static void refuses_what_lies_outside(void **state)
{
	struct restorefix *f = *state;
	uint8_t b[2];

	push(f);
	for (size_t i = 0; i < TEST_COUNT(names); i++) {
		struct archive_reader *r = reader(f, names[i], CHUNK);
		const uint8_t *p = NULL;
		size_t n = 0;

		assert_err(archive_reader_pread(r, b, 2, SIZE - 1, &f->e),
		    &f->e, ERR_INVALID, names[i]);
		assert_err(archive_reader_pread(r, b, 0, SIZE + 1, &f->e),
		    &f->e, ERR_INVALID, names[i]);
		assert_err(archive_reader_pread(r, b, 2, UINT64_MAX, &f->e),
		    &f->e, ERR_INVALID,
		    "2 bytes from offset 1844674407370955"
		    "1615 wanted, it has 9830499");
		assert_err(archive_reader_peek(r, 0, 0, &p, &n, &f->e), &f->e,
		    ERR_INVALID, "no bytes");
		archive_reader_free(r);
	}
}

/* The cache is of chunks, and the least lately used goes. */
static void keeps_chunks(void **state)
{
	struct restorefix *f = *state;
	struct archive_reader *r = NULL;
	static const struct {
		unsigned chunk;
		unsigned loads;
	} steps[] = { { 0, 1 }, { 1, 2 }, { 2, 3 }, { 0, 3 }, { 1, 3 },
		/* 2 is the oldest. */
		{ 3, 4 }, { 0, 4 }, { 1, 4 }, { 2, 5 }, { 3, 6 } };
	uint8_t b = 0;

	push(f);
	r = reader(f, "a.img", 3 * CHUNK);
	for (size_t i = 0; i < TEST_COUNT(steps); i++) {
		assert_ok(archive_reader_pread(
			      r, &b, 1, steps[i].chunk * CHUNK + 5, &f->e),
		    &f->e);
		assert_int_equal(b, f->own[steps[i].chunk * CHUNK + 5]);
		assert_int_equal(archive_reader_loads(r), steps[i].loads);
	}
	archive_reader_free(r);
}

static void names_damage(void **state)
{
	struct restorefix *f = *state;
	struct archive_reader *r = NULL;
	char where[64];
	uint8_t b = 0;

	push(f);
	r = reader(f, "a.img", 2 * CHUNK);
	for (size_t how = SPOIL_MISSING; how < SPOIL_KINDS; how++) {
		size_t at = (2 * how + 1) * CHUNK;
		struct idx_entry entry =
		    restorefix_entry(f, "a.img.fidx", 2 * how + 1);
		char hex[DIGEST_HEX_SIZE];

		digest_hex(&entry.digest, hex);
		(void)snprintf(where, sizeof(where), "at offset %zu", at);
		restorefix_spoil(f, &entry.digest, (enum restorefix_spoil)how);
		for (unsigned twice = 0; twice < 2; twice++) {
			assert_err(
			    archive_reader_pread(r, &b, 1, at + 9, &f->e),
			    &f->e, ERR_CORRUPT, hex);
			assert_non_null(strstr(f->e.msg, where));
			assert_non_null(
			    strstr(f->e.msg, "a.img.fidx': chunk "));
			assert_non_null(strstr(f->e.msg,
			    restorefix_spoil_text((enum restorefix_spoil)how)));
		}
		/* What lies beside it can still be read. */
		f->e = (struct err)ERR_INIT;
		assert_ok(
		    archive_reader_pread(r, &b, 1, at + CHUNK, &f->e), &f->e);
		assert_int_equal(b, f->own[at + CHUNK]);
		assert_int_equal(restorefix_listed(f, &entry.digest,
				     how == SPOIL_MISSING ? "missing" : "bad"),
		    1);
	}
	archive_reader_free(r);
}

/* A chunk that is sound, but not as long as the index says. */
static void checks_lengths(void **state)
{
	struct restorefix *f = *state;
	struct archive_reader *r = NULL;
	struct idx_entry entries[2];
	uint8_t b = 0;

	restorefix_begin(f);
	entries[0].digest = restorefix_put(f, "abc", 3);
	entries[0].end = 4;
	entries[1].digest = restorefix_put(f, "defg", 4);
	entries[1].end = 8;
	restorefix_craft(f, "b.raw.didx", entries, 2);
	restorefix_commit(f);
	r = reader(f, "b.raw", CHUNK);
	assert_err(archive_reader_pread(r, &b, 1, 1, &f->e), &f->e, ERR_CORRUPT,
	    "3 bytes of content, the index says 4");
	assert_ok(archive_reader_pread(r, &b, 1, 4, &f->e), &f->e);
	assert_int_equal(b, 'd');
	assert_int_equal(restorefix_list_lines(f), 0);
	archive_reader_free(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		RESTOREFIX_TEST(reads_anywhere),
		RESTOREFIX_TEST(peeks),
		RESTOREFIX_TEST(refuses_what_lies_outside),
		RESTOREFIX_TEST(keeps_chunks),
		RESTOREFIX_TEST(names_damage),
		RESTOREFIX_TEST(checks_lengths),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
