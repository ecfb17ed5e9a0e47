/* SPDX-License-Identifier: MIT */
#include "tests/support/test.h"

#include <stdlib.h>

#include "datastore/base/buf.h"
#include "tests/support/gen.h"

static int setup(void **state)
{
	static const struct buf empty = BUF_INIT;
	struct buf *b = malloc(sizeof(*b));

	if (b == NULL)
		return -1;
	*b = empty;
	*state = b;
	return 0;
}

static int teardown(void **state)
{
	buf_release(*state);
	free(*state);
	return 0;
}

static void is_empty_at_first(void **state)
{
	struct buf *b = *state;
	struct err e = ERR_INIT;

	assert_null(b->data);
	assert_ok(buf_append(b, NULL, 0, &e), &e);
	assert_ok(buf_append_str(b, "", &e), &e);
	assert_ok(buf_reserve(b, 0, &e), &e);
	assert_int_equal(b->len, 0);
	assert_string_equal(buf_cstr(b, &e), "");
	buf_release(NULL);
}

static void appends_what_is_given(void **state)
{
	static const uint8_t zeros[3] = { 0, 0, 0 };
	struct buf *b = *state;
	struct err e = ERR_INIT;

	assert_ok(buf_append_str(b, "abc", &e), &e);
	assert_ok(buf_append(b, zeros, sizeof(zeros), &e), &e);
	assert_ok(buf_append_fmt(b, &e, "<%d|%s>", -5, "x"), &e);
	assert_int_equal(b->len, 12);
	assert_memory_equal(b->data, "abc\0\0\0<-5|x>", 12);
}

/* Each length at which growth may go wrong by one. */
static void grows_and_keeps(void **state)
{
	struct buf *b = *state;
	struct err e = ERR_INIT;
	uint8_t want[5000];
	struct gen g;

	gen_seed(&g, 1);
	gen_fill(&g, GEN_RANDOM, want, sizeof(want));
	for (size_t i = 0; i < sizeof(want); i++) {
		assert_ok(buf_append(b, &want[i], 1, &e), &e);
		assert_true(b->len <= b->cap);
		if (i % 7 == 0)
			assert_non_null(buf_cstr(b, &e));
	}
	assert_int_equal(b->len, sizeof(want));
	assert_memory_equal(b->data, want, sizeof(want));
}

/* A step that just fits, or just not, into twice the room. */
static void grows_by_steps(void **state)
{
	static const uint8_t bytes[300] = { 0 };
	struct buf *b = *state;
	struct err e = ERR_INIT;

	for (size_t first = 0; first < 66; first++) {
		for (size_t step = 60; step < sizeof(bytes); step++) {
			buf_release(b);
			assert_ok(buf_append(b, bytes, first, &e), &e);
			assert_ok(buf_append(b, bytes, step, &e), &e);
			assert_int_equal(b->len, first + step);
			assert_true(b->len <= b->cap);
		}
	}
}

static void formats_at_every_fill(void **state)
{
	struct buf *b = *state;
	struct err e = ERR_INIT;

	for (size_t fill = 0; fill < 200; fill++) {
		buf_release(b);
		for (size_t i = 0; i < fill; i++)
			assert_ok(buf_append(b, "f", 1, &e), &e);
		assert_ok(buf_append_fmt(b, &e, "%s", "0123456789"), &e);
		assert_int_equal(b->len, fill + 10);
		assert_memory_equal(b->data + fill, "0123456789", 10);
		assert_string_equal(buf_cstr(b, &e) + fill, "0123456789");
	}
}

static void cstr_adds_nothing(void **state)
{
	struct buf *b = *state;
	struct err e = ERR_INIT;

	for (size_t i = 0; i < 100; i++) {
		assert_int_equal(strlen(buf_cstr(b, &e)), i);
		assert_int_equal(b->len, i);
		assert_ok(buf_append(b, "q", 1, &e), &e);
	}
}

static void reset_keeps_memory(void **state)
{
	struct buf *b = *state;
	struct err e = ERR_INIT;
	const uint8_t *data = NULL;

	assert_ok(buf_append_str(b, "something", &e), &e);
	data = b->data;
	buf_reset(b);
	assert_int_equal(b->len, 0);
	assert_ok(buf_append_str(b, "else", &e), &e);
	assert_ptr_equal(b->data, data);
	buf_release(b);
	assert_null(b->data);
	assert_int_equal(b->cap, 0);
}

static void detach_hands_over(void **state)
{
	struct buf *b = *state;
	struct err e = ERR_INIT;
	char *s = NULL;

	assert_ok(buf_append_str(b, "owned", &e), &e);
	s = buf_detach_str(b, &e);
	assert_non_null(s);
	assert_null(b->data);
	assert_int_equal(b->len, 0);
	assert_string_equal(s, "owned");
	free(s);
}

static void absurd_sizes_fail(void **state)
{
	static const size_t sizes[] = { SIZE_MAX, SIZE_MAX - 2, SIZE_MAX / 2,
		(size_t)PTRDIFF_MAX - 1 };
	struct buf *b = *state;
	struct err e = ERR_INIT;

	assert_ok(buf_append_str(b, "keep", &e), &e);
	for (size_t i = 0; i < TEST_COUNT(sizes); i++) {
		assert_err(
		    buf_reserve(b, sizes[i], &e), &e, ERR_NOMEM, "memory");
		assert_int_equal(b->len, 4);
		assert_string_equal(buf_cstr(b, &e), "keep");
	}
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(is_empty_at_first),
		TEST(appends_what_is_given),
		TEST(grows_and_keeps),
		TEST(grows_by_steps),
		TEST(formats_at_every_fill),
		TEST(cstr_adds_nothing),
		TEST(reset_keeps_memory),
		TEST(detach_hands_over),
		TEST(absurd_sizes_fail),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
