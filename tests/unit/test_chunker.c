/* SPDX-License-Identifier: MIT */
#include "datastore/chunker.h"

#include <stdlib.h>

#include "datastore/base/bytes.h"
#include "datastore/base/digest.h"
#include "tests/support/gen.h"
#include "tests/support/test.h"

#define AVG 65536U
#define CUTS_MAX 4096

/* Lengths of chunks. */
struct cuts {
	size_t n;
	size_t len[CUTS_MAX];
};

static void add_cut(struct cuts *c, size_t len)
{
	assert_true(c->n < CUTS_MAX);
	c->len[c->n++] = len;
}

/* The table, made anew from its seed. */
static void make_table(uint64_t table[256])
{
	static const uint8_t seed[] = "cairn gear table";
	uint64_t state = bytes_get_le64(seed) ^ bytes_get_le64(seed + 8);

	for (size_t i = 0; i < 256; i++) {
		uint64_t z = state += 0x9e3779b97f4a7c15U;

		z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
		z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
		table[i] = z ^ (z >> 31);
	}
}

/*
 * The rule, said another way: a chunk of length `len` may end where the sum of
 * the last 64 bytes' numbers, each doubled once for every byte behind it, has
 * enough leading zeros.
 */
static bool may_end(const uint64_t table[256], const uint8_t *p, size_t len,
    size_t avg, unsigned avg_bits)
{
	unsigned zeros = len <= avg ? avg_bits + 2 : avg_bits - 2;
	uint64_t sum = 0;

	if (len < avg / 4)
		return false;
	if (len == avg * 4)
		return true;
	for (size_t i = 0; i < 64; i++)
		sum += table[p[len - 1 - i]] << i;
	return sum == 0 || (unsigned)__builtin_clzll(sum) >= zeros;
}

static void cut_slowly(const uint8_t *p, size_t n, size_t avg, struct cuts *ret)
{
	unsigned bits = (unsigned)__builtin_ctzll(avg);
	uint64_t table[256];

	ret->n = 0;
	make_table(table);
	while (n > 0) {
		size_t len = 1;

		while (len < n && !may_end(table, p, len, avg, bits))
			len++;
		add_cut(ret, len);
		p += len;
		n -= len;
	}
}

/* `piece` says how many bytes the next call is handed, NULL: all. */
static void cut(const uint8_t *p, size_t n, size_t avg,
    size_t (*piece)(struct gen *g), struct cuts *ret)
{
	struct chunker c;
	struct err e = ERR_INIT;
	struct gen g;
	size_t len = 0;

	gen_seed(&g, 1);
	ret->n = 0;
	assert_ok(chunker_init(&c, avg, &e), &e);
	while (n > 0) {
		size_t give = piece != NULL ? piece(&g) : n;
		size_t took = 0;
		bool is_end = false;

		if (give > n)
			give = n;
		took = chunker_scan(&c, p, give, &is_end);
		assert_true(took <= give);
		assert_true(is_end || took == give);
		p += took;
		n -= took;
		len += took;
		if (is_end) {
			add_cut(ret, len);
			len = 0;
		}
	}
	if (len > 0)
		add_cut(ret, len);
}

static void assert_same_cuts(const struct cuts *a, const struct cuts *b)
{
	assert_int_equal(a->n, b->n);
	for (size_t i = 0; i < a->n; i++)
		assert_int_equal(a->len[i], b->len[i]);
}

static size_t piece_small(struct gen *g)
{
	return gen_below(g, 130);
}

static size_t piece_odd(struct gen *g)
{
	return 1 + gen_below(g, 100000);
}

static size_t piece_page(struct gen *g)
{
	(void)g;
	return 4096;
}

/* Data of a test. */
struct fixture {
	uint8_t *p;
	size_t n;
	struct cuts a;
	struct cuts b;
};

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	if (f == NULL)
		return -1;
	f->n = 4U << 20;
	f->p = calloc(1, f->n + 1);
	*state = f;
	return f->p != NULL ? 0 : -1;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	free(f->p);
	free(f);
	return 0;
}

static void fill_random(struct fixture *f, uint64_t seed)
{
	struct gen g;

	gen_seed(&g, seed);
	gen_fill(&g, GEN_RANDOM, f->p, f->n);
}

static void test_table(void **state)
{
	uint64_t table[256];
	uint8_t bytes[2048];
	char hex[DIGEST_HEX_SIZE];
	struct digest d;
	struct err e = ERR_INIT;

	(void)state;
	make_table(table);
	for (size_t i = 0; i < 256; i++) {
		assert_true(chunker_gear[i] == table[i]);
		bytes_put_le64(bytes + 8 * i, chunker_gear[i]);
	}
	assert_ok(digest_of(bytes, sizeof(bytes), &d, &e), &e);
	digest_hex(&d, hex);
	assert_string_equal(hex,
	    "f5f960a5a46b4d35d9986e84958edb2a"
	    "cb5149a530ea5131ff3132c5d2449acf");
}

static void test_slow_one_agrees(void **state)
{
	struct fixture *f = *state;

	for (uint64_t seed = 1; seed <= 2; seed++) {
		fill_random(f, seed);
		cut_slowly(f->p, f->n, AVG, &f->a);
		cut(f->p, f->n, AVG, NULL, &f->b);
		assert_true(f->a.n > 30);
		assert_same_cuts(&f->a, &f->b);
	}
}

static void test_slow_one_agrees_on_text(void **state)
{
	struct fixture *f = *state;
	struct gen g;

	gen_seed(&g, 7);
	gen_fill(&g, GEN_TEXT, f->p, f->n);
	cut_slowly(f->p, f->n, 2 * AVG, &f->a);
	cut(f->p, f->n, 2 * AVG, NULL, &f->b);
	assert_same_cuts(&f->a, &f->b);
}

static void test_pieces_do_not_matter(void **state)
{
	static size_t (*const pieces[])(
	    struct gen *) = { piece_small, piece_odd, piece_page };
	struct fixture *f = *state;

	fill_random(f, 3);
	cut(f->p, f->n, AVG, NULL, &f->a);
	for (size_t i = 0; i < TEST_COUNT(pieces); i++) {
		cut(f->p, f->n, AVG, pieces[i], &f->b);
		assert_same_cuts(&f->a, &f->b);
	}
}

/* Computed by another program.  A change of them is a change of format. */
static void test_known_cuts(void **state)
{
	static const size_t avg_64k[] = { 84365, 132577, 87127, 104721, 72484,
		78032, 86960, 41282, 68771, 70620, 66662, 139608 };
	static const size_t avg_256k[] = { 267510, 146222, 273816, 350481,
		270895, 332889, 293667, 142262, 205916, 363414, 528584, 267131,
		318217, 369990, 63310 };
	struct fixture *f = *state;
	struct err e = ERR_INIT;

	for (uint64_t i = 0; i < f->n / DIGEST_SIZE; i++) {
		uint8_t number[8];
		struct digest d;

		bytes_put_le64(number, i);
		assert_ok(digest_of(number, sizeof(number), &d, &e), &e);
		memcpy(f->p + i * DIGEST_SIZE, d.b, DIGEST_SIZE);
	}
	cut(f->p, f->n, AVG, NULL, &f->a);
	assert_int_equal(f->a.n, 59);
	assert_memory_equal(f->a.len, avg_64k, sizeof(avg_64k));
	cut(f->p, f->n, 4 * AVG, NULL, &f->a);
	assert_int_equal(f->a.n, TEST_COUNT(avg_256k));
	assert_memory_equal(f->a.len, avg_256k, sizeof(avg_256k));
}

static void test_lengths_of_random_data(void **state)
{
	struct fixture *f = *state;
	size_t chunks = 0;
	size_t bytes = 0;
	size_t longest = 0;

	for (uint64_t seed = 10; seed < 20; seed++) {
		fill_random(f, seed);
		cut(f->p, f->n, AVG, NULL, &f->a);
		for (size_t i = 0; i + 1 < f->a.n; i++) {
			assert_in_range(f->a.len[i], AVG / 4, AVG * 4);
			longest += f->a.len[i] == (size_t)AVG * 4;
			bytes += f->a.len[i];
		}
		chunks += f->a.n - 1;
	}
	/* By its rules 1.17 of the average; forced ends are rare. */
	assert_in_range(bytes / chunks, AVG + AVG / 20, AVG + AVG / 3);
	assert_true(longest * 100 < chunks);
}

static void test_constant_bytes_give_long_chunks(void **state)
{
	struct fixture *f = *state;

	for (unsigned byte = 0; byte < 256; byte += 15) {
		memset(f->p, (int)byte, f->n);
		cut(f->p, f->n, AVG, piece_odd, &f->a);
		assert_int_equal(f->a.n, f->n / AVG / 4);
		for (size_t i = 0; i < f->a.n; i++)
			assert_int_equal(f->a.len[i], AVG * 4);
	}
}

/* Cuts as offsets from the end, of which there may be few that differ. */
static size_t count_common(const struct cuts *a, const struct cuts *b)
{
	size_t n = 0;

	while (n < a->n && n < b->n &&
	    a->len[a->n - 1 - n] == b->len[b->n - 1 - n])
		n++;
	return n;
}

static void test_an_insertion_moves_few_cuts(void **state)
{
	struct fixture *f = *state;

	fill_random(f, 5);
	cut(f->p, f->n, AVG, NULL, &f->a);
	memmove(f->p + 1, f->p, f->n);
	f->p[0] = 'x';
	cut(f->p, f->n + 1, AVG, NULL, &f->b);
	assert_true(count_common(&f->a, &f->b) + 8 >= f->a.n);
}

static void test_reset_begins_a_chunk(void **state)
{
	struct fixture *f = *state;
	struct err e = ERR_INIT;
	struct chunker c;
	bool is_end = false;
	size_t took = 0;

	fill_random(f, 6);
	cut(f->p + 5000, f->n - 5000, AVG, NULL, &f->a);
	assert_ok(chunker_init(&c, AVG, &e), &e);
	assert_int_equal(chunker_scan(&c, f->p, 5000, &is_end), 5000);
	assert_false(is_end);
	chunker_reset(&c);
	took = chunker_scan(&c, f->p + 5000, f->n - 5000, &is_end);
	assert_true(is_end);
	assert_int_equal(took, f->a.len[0]);
}

static void test_nothing(void **state)
{
	struct err e = ERR_INIT;
	struct chunker c;
	bool is_end = true;

	(void)state;
	assert_ok(chunker_init(&c, AVG, &e), &e);
	assert_int_equal(chunker_scan(&c, NULL, 0, &is_end), 0);
	assert_false(is_end);
}

static void test_averages(void **state)
{
	static const size_t bad[] = { 0, 1, 32768, 65535, 65537, 3 * 65536,
		8U << 20, SIZE_MAX };
	struct chunker c;

	(void)state;
	for (size_t i = 0; i < TEST_COUNT(bad); i++) {
		struct err e = ERR_INIT;

		assert_err(chunker_init(&c, bad[i], &e), &e, ERR_INVALID,
		    "want a power of two");
	}
	for (size_t avg = CHUNKER_AVG_MIN; avg <= CHUNKER_AVG_MAX; avg *= 2) {
		struct err e = ERR_INIT;

		assert_ok(chunker_init(&c, avg, &e), &e);
		assert_int_equal(c.min, avg / 4);
		assert_int_equal(c.max, avg * 4);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_table),
		cmocka_unit_test(test_slow_one_agrees),
		cmocka_unit_test(test_slow_one_agrees_on_text),
		cmocka_unit_test(test_pieces_do_not_matter),
		cmocka_unit_test(test_known_cuts),
		cmocka_unit_test(test_lengths_of_random_data),
		cmocka_unit_test(test_constant_bytes_give_long_chunks),
		cmocka_unit_test(test_an_insertion_moves_few_cuts),
		cmocka_unit_test(test_reset_begins_a_chunk),
		cmocka_unit_test(test_nothing),
		cmocka_unit_test(test_averages),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
