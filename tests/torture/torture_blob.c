/* SPDX-License-Identifier: MIT */
/* Blobs and their compression, with every allocation of ours failing. */
#include <stdlib.h>

#include "datastore/blob.h"
#include "tests/support/failmalloc.h"
#include "tests/support/gen.h"
#include "tests/support/test.h"

#define SIZE 50000U

struct fixture {
	uint8_t text[SIZE];
	struct buf zstd;
	struct buf plain;
	struct codec *codec;
};

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	struct err e = ERR_INIT;
	struct gen g;

	if (f == NULL)
		return -1;
	*state = f;
	gen_seed(&g, 1);
	gen_fill(&g, GEN_TEXT, f->text, sizeof(f->text));
	if (codec_new(&f->codec, &e) < 0 ||
	    blob_encode(f->codec, 1, f->text, SIZE, &f->zstd, &e) < 0)
		return -1;
	return blob_encode(f->codec, 0, f->text, SIZE, &f->plain, &e);
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	codec_free(f->codec);
	buf_release(&f->zstd);
	buf_release(&f->plain);
	free(f);
	return 0;
}

/* An operation leaves nothing behind; out is empty unless it succeeds. */
typedef int (*operation)(
    const struct fixture *f, struct buf *out, struct err *e);

static int op_new(const struct fixture *f, struct buf *out, struct err *e)
{
	struct codec *c = NULL;
	int rc = codec_new(&c, e);

	(void)f;
	(void)out;
	assert_int_equal(c == NULL, rc < 0);
	codec_free(c);
	return rc;
}

static int op_encode(const struct fixture *f, struct buf *out, struct err *e)
{
	return blob_encode(f->codec, 1, f->text, SIZE, out, e);
}

static int op_decode_zstd(
    const struct fixture *f, struct buf *out, struct err *e)
{
	return blob_decode(f->codec, f->zstd.data, f->zstd.len, SIZE, out, e);
}

static int op_decode_plain(
    const struct fixture *f, struct buf *out, struct err *e)
{
	return blob_decode(f->codec, f->plain.data, f->plain.len, SIZE, out, e);
}

static void torture(const struct fixture *f, operation op)
{
	for (uint64_t n = 1;; n++) {
		struct buf out = BUF_INIT;
		struct err e = ERR_INIT;
		int rc = 0;

		failmalloc_at(n);
		rc = op(f, &out, &e);
		if (failmalloc_off() == 0) {
			assert_ok(rc, &e);
			buf_release(&out);
			assert_true(n > 1);
			return;
		}
		assert_err(rc, &e, ERR_NOMEM, "memory");
		assert_int_equal(out.len, 0);
		buf_release(&out);
	}
}

static void test_all(void **state)
{
	static const operation ops[] = { op_new, op_encode, op_decode_zstd,
		op_decode_plain };

	for (size_t i = 0; i < TEST_COUNT(ops); i++)
		torture(*state, ops[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_all, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
