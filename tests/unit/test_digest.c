/* SPDX-License-Identifier: MIT */
#include "tests/support/test.h"

#include <stdlib.h>

#include "datastore/base/digest.h"
#include "tests/support/gen.h"

#define ABC "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
#define EMPTY "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
#define MILLION \
	"cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"

/* The examples of FIPS 180-4. */
static const struct {
	const char *text;
	const char *hex;
} vectors[] = {
	{ "", EMPTY },
	{ "abc", ABC },
	{ "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
	    "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1" },
	{ "abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmn"
	  "hijklmnoijklmnopjklmnopqklmnopqrlmnopqrsmnopqrstnopqrstu",
	    "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1" },
};

static void assert_hex(const struct digest *d, const char *want)
{
	char hex[DIGEST_HEX_SIZE];

	digest_hex(d, hex);
	assert_string_equal(hex, want);
}

static void one_piece(void **state)
{
	struct err e = ERR_INIT;
	struct digest d;

	(void)state;
	for (size_t i = 0; i < TEST_COUNT(vectors); i++) {
		const char *text = vectors[i].text;

		assert_ok(digest_of(text, strlen(text), &d, &e), &e);
		assert_hex(&d, vectors[i].hex);
	}
	assert_ok(digest_of(NULL, 0, &d, &e), &e);
	assert_hex(&d, EMPTY);
}

static int new_ctx(void **state)
{
	struct err e = ERR_INIT;
	struct digest_ctx *c = NULL;

	if (digest_ctx_new(&c, &e) < 0)
		return -1;
	*state = c;
	return 0;
}

static int free_ctx(void **state)
{
	digest_ctx_free(*state);
	return 0;
}

static void a_million(void **state)
{
	struct digest_ctx *c = *state;
	struct err e = ERR_INIT;
	char piece[1000];
	struct digest d;

	memset(piece, 'a', sizeof(piece));
	for (int i = 0; i < 1000; i++)
		assert_ok(digest_ctx_update(c, piece, sizeof(piece), &e), &e);
	assert_ok(digest_ctx_final(c, &d, &e), &e);
	assert_hex(&d, MILLION);
}

static void starts_anew(void **state)
{
	struct digest_ctx *c = *state;
	struct err e = ERR_INIT;
	struct digest d;

	assert_ok(digest_ctx_final(c, &d, &e), &e);
	assert_hex(&d, EMPTY);
	for (int i = 0; i < 2; i++) {
		assert_ok(digest_ctx_update(c, "ab", 2, &e), &e);
		assert_ok(digest_ctx_update(c, "", 0, &e), &e);
		assert_ok(digest_ctx_update(c, "c", 1, &e), &e);
		assert_ok(digest_ctx_final(c, &d, &e), &e);
		assert_hex(&d, ABC);
	}
}

static void pieces_do_not_matter(void **state)
{
	struct digest_ctx *c = *state;
	struct err e = ERR_INIT;
	uint8_t data[4096];
	struct digest whole;
	struct digest d;
	struct gen g;

	gen_seed(&g, 2);
	gen_fill(&g, GEN_RANDOM, data, sizeof(data));
	assert_ok(digest_of(data, sizeof(data), &whole, &e), &e);
	for (int round = 0; round < 50; round++) {
		size_t at = 0;

		while (at < sizeof(data)) {
			size_t n = (size_t)gen_below(&g, 200);

			if (n > sizeof(data) - at)
				n = sizeof(data) - at;
			assert_ok(digest_ctx_update(c, data + at, n, &e), &e);
			at += n;
		}
		assert_ok(digest_ctx_final(c, &d, &e), &e);
		assert_true(digest_equal(&d, &whole));
	}
}

static void parses_what_it_prints(void **state)
{
	char hex[DIGEST_HEX_SIZE];
	struct digest d;
	struct digest back;
	struct gen g;

	(void)state;
	gen_seed(&g, 3);
	for (int i = 0; i < 1000; i++) {
		gen_fill(&g, GEN_RANDOM, d.b, sizeof(d.b));
		digest_hex(&d, hex);
		assert_int_equal(strlen(hex), 64);
		assert_true(digest_parse(hex, 64, &back));
		assert_true(digest_equal(&d, &back));
	}
}

static void parse_is_strict(void **state)
{
	static const char bad[] = "/:@G`gAF \n\0\xff";
	struct digest before;
	struct digest d;
	char *exact = NULL;

	(void)state;
	memset(&before, 0x5a, sizeof(before));
	d = before;
	assert_false(digest_parse(ABC, 63, &d));
	assert_false(digest_parse(ABC "0", 65, &d));
	assert_false(digest_parse("", 0, &d));
	/* No NUL behind it: nothing beyond n may be read. */
	exact = malloc(64);
	assert_non_null(exact);
	memcpy(exact, ABC, 64);
	assert_true(digest_parse(exact, 64, &d));
	d = before;
	for (size_t at = 0; at < 64; at++) {
		for (size_t i = 0; i < sizeof(bad) - 1; i++) {
			memcpy(exact, ABC, 64);
			exact[at] = bad[i];
			assert_false(digest_parse(exact, 64, &d));
		}
	}
	assert_memory_equal(&d, &before, sizeof(d));
	free(exact);
}

static void orders_by_bytes(void **state)
{
	struct digest d[3] = { { { 0 } }, { { 0 } }, { { 0 } } };

	(void)state;
	d[0].b[0] = 0xff;
	d[1].b[31] = 1;
	d[2].b[0] = 0x80;
	d[2].b[1] = 0x01;
	assert_int_equal(digest_prefix(&d[0]), 0xff00);
	assert_int_equal(digest_prefix(&d[1]), 0);
	assert_int_equal(digest_prefix(&d[2]), 0x8001);
	qsort(d, 3, sizeof(d[0]), digest_qsort);
	assert_int_equal(d[0].b[31], 1);
	assert_int_equal(d[1].b[0], 0x80);
	assert_int_equal(d[2].b[0], 0xff);
	assert_true(digest_compare(&d[0], &d[1]) < 0);
	assert_true(digest_compare(&d[2], &d[1]) > 0);
	assert_int_equal(digest_compare(&d[1], &d[1]), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_piece),
		cmocka_unit_test_setup_teardown(a_million, new_ctx, free_ctx),
		cmocka_unit_test_setup_teardown(starts_anew, new_ctx, free_ctx),
		cmocka_unit_test_setup_teardown(
		    pieces_do_not_matter, new_ctx, free_ctx),
		cmocka_unit_test(parses_what_it_prints),
		cmocka_unit_test(parse_is_strict),
		cmocka_unit_test(orders_by_bytes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
