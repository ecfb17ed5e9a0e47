/* SPDX-License-Identifier: MIT */
#include "datastore/compress.h"

#include <stdlib.h>
#include <zstd.h>

#include "datastore/base/bytes.h"
#include "tests/support/gen.h"
#include "tests/support/test.h"

#define SIZE 300000U

struct fixture {
	struct codec *codec;
	struct buf packed;
	struct buf out;
	struct err e;
	uint8_t data[SIZE];
};

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	struct gen g;

	if (f == NULL)
		return -1;
	gen_seed(&g, 1);
	gen_fill(&g, GEN_TEXT, f->data, sizeof(f->data));
	*state = f;
	return codec_new(&f->codec, &f->e);
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	codec_free(f->codec);
	buf_release(&f->packed);
	buf_release(&f->out);
	free(f);
	return 0;
}

/* Append a frame that does not say how large its content is. */
static void pack_unsized(struct fixture *f, const void *p, size_t n)
{
	ZSTD_CCtx *c = ZSTD_createCCtx();
	size_t got = 0;

	assert_non_null(c);
	assert_ok(buf_reserve(&f->packed, ZSTD_compressBound(n), &f->e), &f->e);
	(void)ZSTD_CCtx_setParameter(c, ZSTD_c_contentSizeFlag, 0);
	(void)ZSTD_CCtx_setParameter(c, ZSTD_c_checksumFlag, 1);
	got = ZSTD_compress2(c, f->packed.data + f->packed.len,
	    f->packed.cap - f->packed.len, p, n);
	(void)ZSTD_freeCCtx(c);
	assert_false(ZSTD_isError(got));
	assert_true(ZSTD_getFrameContentSize(f->packed.data + f->packed.len,
			got) == ZSTD_CONTENTSIZE_UNKNOWN);
	f->packed.len += got;
}

static void pack(struct fixture *f, const void *p, size_t n)
{
	bool smaller = false;

	assert_ok(codec_compress(f->codec, COMPRESS_LEVEL_DEFAULT, p, n,
		      &f->packed, &smaller, &f->e),
	    &f->e);
	assert_true(smaller);
}

static int expand(struct fixture *f, size_t limit)
{
	buf_reset(&f->out);
	return codec_expand(
	    f->codec, f->packed.data, f->packed.len, limit, &f->out, &f->e);
}

static void assert_expands_to(struct fixture *f, const void *p, size_t n)
{
	assert_ok(expand(f, n), &f->e);
	assert_int_equal(f->out.len, n);
	assert_memory_equal(f->out.data, p, n);
}

static void test_round_trip(void **state)
{
	static const size_t sizes[] = { 100, 4096, 4097, 131072, SIZE };
	struct fixture *f = *state;

	for (size_t i = 0; i < TEST_COUNT(sizes); i++) {
		buf_reset(&f->packed);
		pack(f, f->data, sizes[i]);
		assert_true(f->packed.len < sizes[i]);
		assert_true(ZSTD_getFrameContentSize(
				f->packed.data, f->packed.len) == sizes[i]);
		assert_expands_to(f, f->data, sizes[i]);
	}
}

static void test_levels(void **state)
{
	static const int bad[] = { -1, 0, 20, 22 };
	struct fixture *f = *state;
	bool smaller = false;

	for (int level = 1; level <= COMPRESS_LEVEL_MAX; level += 6) {
		buf_reset(&f->packed);
		assert_ok(codec_compress(f->codec, level, f->data, 50000,
			      &f->packed, &smaller, &f->e),
		    &f->e);
		assert_expands_to(f, f->data, 50000);
	}
	for (size_t i = 0; i < TEST_COUNT(bad); i++) {
		assert_err(codec_compress(f->codec, bad[i], f->data, 100,
			       &f->packed, &smaller, &f->e),
		    &f->e, ERR_INVALID, "want 1 to 19");
	}
}

static void test_not_smaller(void **state)
{
	struct fixture *f = *state;
	uint8_t noise[5000];
	struct gen g;

	gen_seed(&g, 2);
	gen_fill(&g, GEN_RANDOM, noise, sizeof(noise));
	assert_ok(buf_append_str(&f->out, "before", &f->e), &f->e);
	for (size_t n = 0; n <= sizeof(noise); n += n < 3 ? 1 : 999) {
		bool smaller = true;

		assert_ok(codec_compress(f->codec, COMPRESS_LEVEL_MAX, noise, n,
			      &f->out, &smaller, &f->e),
		    &f->e);
		assert_false(smaller);
		assert_int_equal(f->out.len, 6);
	}
	assert_memory_equal(f->out.data, "before", 6);
}

/* Just as long is not smaller. */
static void test_smaller_is_strict(void **state)
{
	struct fixture *f = *state;
	bool smaller = false;
	size_t n = 8;

	while (!smaller) {
		n++;
		buf_reset(&f->packed);
		assert_ok(codec_compress(f->codec, 1, f->data, n, &f->packed,
			      &smaller, &f->e),
		    &f->e);
		assert_true(!smaller || f->packed.len < n);
		assert_true(smaller || f->packed.len == 0);
		assert_true(n < SIZE);
	}
}

static void test_appends(void **state)
{
	struct fixture *f = *state;

	pack(f, f->data, 1000);
	assert_ok(buf_append_str(&f->out, "before", &f->e), &f->e);
	assert_ok(codec_expand(f->codec, f->packed.data, f->packed.len, 1000,
		      &f->out, &f->e),
	    &f->e);
	assert_int_equal(f->out.len, 1006);
	assert_memory_equal(f->out.data, "before", 6);
	assert_memory_equal(f->out.data + 6, f->data, 1000);
	/* And on failure nothing is left of it. */
	assert_err(codec_expand(f->codec, f->packed.data, f->packed.len, 999,
		       &f->out, &f->e),
	    &f->e, ERR_LIMIT, "more than 999 bytes");
	assert_int_equal(f->out.len, 1006);
}

static void test_frames_without_a_size(void **state)
{
	static const size_t sizes[] = { 0, 1, 4095, 4096, 4097, 70000, SIZE };
	struct fixture *f = *state;

	for (size_t i = 0; i < TEST_COUNT(sizes); i++) {
		buf_reset(&f->packed);
		pack_unsized(f, f->data, sizes[i]);
		buf_release(&f->out);
		assert_expands_to(f, f->data, sizes[i]);
	}
}

/* Expands to 5 bytes, but wants a window of 2 GiB: magic, header, one block. */
static void test_a_large_window_costs_nothing(void **state)
{
	static const uint8_t frame[] = { 0x28, 0xb5, 0x2f, 0xfd, 0x00, 0xa8,
		0x29, 0x00, 0x00, 'h', 'e', 'l', 'l', 'o' };
	struct fixture *f = *state;

	assert_ok(buf_append(&f->packed, frame, sizeof(frame), &f->e), &f->e);
	assert_expands_to(f, "hello", 5);
}

static void test_several_frames(void **state)
{
	static const uint8_t skippable[] = { 0x53, 0x2a, 0x4d, 0x18, 3, 0, 0, 0,
		'x', 'y', 'z' };
	struct fixture *f = *state;

	pack(f, f->data, 1000);
	pack_unsized(f, f->data + 1000, 2000);
	assert_ok(
	    buf_append(&f->packed, skippable, sizeof(skippable), &f->e), &f->e);
	pack_unsized(f, f->data + 3000, 0);
	pack(f, f->data + 3000, 200000);
	assert_expands_to(f, f->data, 203000);
	/* The limit is one for all of them. */
	assert_err(expand(f, 202999), &f->e, ERR_LIMIT, "more than");
	assert_err(expand(f, 2999), &f->e, ERR_LIMIT, "more than");
}

/* 64 MiB of zeros, in frames that say so and that do not. */
static void test_a_bomb_costs_at_most_the_limit(void **state)
{
	static const size_t limits[] = { 0, 1, 4095, 5000, 1U << 20,
		(64U << 20) - 1 };
	struct fixture *f = *state;
	uint8_t *zeros = calloc(1, 64U << 20);

	assert_non_null(zeros);
	for (unsigned sized = 0; sized < 2; sized++) {
		buf_reset(&f->packed);
		if (sized)
			pack(f, zeros, 64U << 20);
		else
			pack_unsized(f, zeros, 64U << 20);
		for (size_t i = 0; i < TEST_COUNT(limits); i++) {
			buf_release(&f->out);
			assert_err(expand(f, limits[i]), &f->e, ERR_LIMIT,
			    "more than");
			assert_int_equal(f->out.len, 0);
			/* A buf is never smaller than 64 bytes. */
			assert_true(
			    f->out.cap <= limits[i] || f->out.cap <= 64);
		}
		buf_release(&f->out);
		assert_ok(expand(f, 64U << 20), &f->e);
		assert_int_equal(f->out.cap, 64U << 20);
	}
	free(zeros);
}

static void test_a_frame_that_says_too_much(void **state)
{
	/* A single segment with a size of 8 bytes: 2^40, then nothing. */
	static const uint8_t frame[] = { 0x28, 0xb5, 0x2f, 0xfd, 0xe0, 0, 0, 0,
		0, 0, 1, 0, 0, 0x01, 0x00, 0x00 };
	struct fixture *f = *state;

	assert_ok(buf_append(&f->packed, frame, sizeof(frame), &f->e), &f->e);
	assert_err(expand(f, SIZE_MAX >> 30), &f->e, ERR_LIMIT, "more than");
	assert_int_equal(f->out.cap, 0);
}

static void test_a_frame_that_lies(void **state)
{
	struct fixture *f = *state;

	for (int change = -1; change <= 1; change += 2) {
		buf_reset(&f->packed);
		pack(f, f->data, 200);
		assert_int_equal(f->packed.data[5], 200);
		f->packed.data[5] = (uint8_t)(200 + change);
		assert_err(expand(f, SIZE), &f->e, ERR_CORRUPT, "zstd data");
		assert_int_equal(f->out.len, 0);
	}
}

static void test_cut_short(void **state)
{
	struct fixture *f = *state;

	for (unsigned sized = 0; sized < 2; sized++) {
		size_t whole = 0;

		buf_reset(&f->packed);
		if (sized)
			pack(f, f->data, 2000);
		else
			pack_unsized(f, f->data, 2000);
		whole = f->packed.len;
		for (size_t n = 0; n < whole; n++) {
			f->packed.len = n;
			assert_err(
			    expand(f, SIZE), &f->e, ERR_CORRUPT, "zstd data");
		}
	}
}

static void test_something_behind(void **state)
{
	static const char *const tails[] = { "x", "garbage", "\x28\xb5\x2f\xfd",
		"\x53\x2a\x4d\x18" };
	struct fixture *f = *state;

	for (size_t i = 0; i < TEST_COUNT(tails); i++) {
		buf_reset(&f->packed);
		pack(f, f->data, 2000);
		assert_ok(buf_append_str(&f->packed, tails[i], &f->e), &f->e);
		assert_err(expand(f, SIZE), &f->e, ERR_CORRUPT, "zstd data");
		assert_int_equal(f->out.len, 0);
	}
}

/* Formats from before RFC 8878, which the library may know. */
static void test_old_formats(void **state)
{
	struct fixture *f = *state;

	for (uint32_t magic = 0xfd2fb522U; magic <= 0xfd2fb527U; magic++) {
		buf_reset(&f->packed);
		pack(f, f->data, 2000);
		bytes_put_le32(f->packed.data, magic);
		assert_err(expand(f, SIZE), &f->e, ERR_CORRUPT, "no frame");
	}
}

static void test_many_small_frames(void **state)
{
	struct fixture *f = *state;

	for (size_t i = 0; i < 3000; i++)
		pack_unsized(f, f->data + i * 100, 100);
	assert_expands_to(f, f->data, 300000);
	assert_true(f->out.cap <= 300000);
}

static void test_free_nothing(void **state)
{
	(void)state;
	codec_free(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
		    test_round_trip, setup, teardown),
		cmocka_unit_test_setup_teardown(test_levels, setup, teardown),
		cmocka_unit_test_setup_teardown(
		    test_not_smaller, setup, teardown),
		cmocka_unit_test_setup_teardown(
		    test_smaller_is_strict, setup, teardown),
		cmocka_unit_test_setup_teardown(test_appends, setup, teardown),
		cmocka_unit_test_setup_teardown(
		    test_frames_without_a_size, setup, teardown),
		cmocka_unit_test_setup_teardown(
		    test_a_large_window_costs_nothing, setup, teardown),
		cmocka_unit_test_setup_teardown(
		    test_several_frames, setup, teardown),
		cmocka_unit_test_setup_teardown(
		    test_a_bomb_costs_at_most_the_limit, setup, teardown),
		cmocka_unit_test_setup_teardown(
		    test_a_frame_that_says_too_much, setup, teardown),
		cmocka_unit_test_setup_teardown(
		    test_a_frame_that_lies, setup, teardown),
		cmocka_unit_test_setup_teardown(
		    test_cut_short, setup, teardown),
		cmocka_unit_test_setup_teardown(
		    test_something_behind, setup, teardown),
		cmocka_unit_test_setup_teardown(
		    test_old_formats, setup, teardown),
		cmocka_unit_test_setup_teardown(
		    test_many_small_frames, setup, teardown),
		cmocka_unit_test(test_free_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
