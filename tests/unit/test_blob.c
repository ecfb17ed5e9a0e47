/* SPDX-License-Identifier: MIT */
#include "datastore/blob.h"

#include <stdlib.h>

#include "datastore/base/bytes.h"
#include "datastore/base/digest.h"
#include "tests/support/gen.h"
#include "tests/support/test.h"

/* "123456789", plain. */
static const uint8_t plain[] = { 0x42, 0xab, 0x38, 0x07, 0xbe, 0x83, 0x70, 0xa1,
	0x26, 0x39, 0xf4, 0xcb, '1', '2', '3', '4', '5', '6', '7', '8', '9' };

/* The same encrypted with the key 00..1f and the IV 00..0f. */
static const uint8_t encrypted[] = { 0x7b, 0x67, 0x85, 0xbe, 0x22, 0x2d, 0x4c,
	0xf0, 0xd0, 0x18, 0xa0, 0xb5, 0x00, 0x01, 0x02, 0x03, 0x04, 0x05, 0x06,
	0x07, 0x08, 0x09, 0x0a, 0x0b, 0x0c, 0x0d, 0x0e, 0x0f, 0x18, 0x96, 0x31,
	0xe7, 0x0a, 0xc6, 0x74, 0xa0, 0x47, 0x2b, 0x51, 0x4b, 0xed, 0x48, 0xdc,
	0x99, 0x56, 0x5e, 0x93, 0x42, 0x0c, 0xd2, 0x7d, 0x10, 0xa4 };

struct fixture {
	struct codec *codec;
	struct buf raw;
	struct buf out;
	struct err e;
};

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	if (f == NULL)
		return -1;
	*state = f;
	return codec_new(&f->codec, &f->e);
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	codec_free(f->codec);
	buf_release(&f->raw);
	buf_release(&f->out);
	free(f);
	return 0;
}

static void encode(struct fixture *f, int level, const void *p, size_t n)
{
	assert_ok(blob_encode(f->codec, level, p, n, &f->raw, &f->e), &f->e);
}

static int decode(struct fixture *f, size_t limit)
{
	return blob_decode(
	    f->codec, f->raw.data, f->raw.len, limit, &f->out, &f->e);
}

static enum blob_kind identify(struct fixture *f)
{
	enum blob_kind kind = BLOB_PLAIN;

	assert_ok(blob_identify(f->raw.data, f->raw.len, &kind, &f->e), &f->e);
	return kind;
}

static void put_raw(struct fixture *f, const void *p, size_t n)
{
	buf_reset(&f->raw);
	assert_ok(buf_append(&f->raw, p, n, &f->e), &f->e);
}

/* Each magic is the start of the SHA-256 of a label. */
static void test_magics(void **state)
{
	static const struct {
		enum blob_kind kind;
		const char *label;
		const char *name;
	} all[] = {
		{ BLOB_PLAIN, "Proxmox Backup uncompressed blob v1.0",
		    "plain" },
		{ BLOB_ZSTD, "Proxmox Backup zstd compressed blob v1.0",
		    "zstd" },
		{ BLOB_ENCRYPTED, "Proxmox Backup encrypted blob v1.0",
		    "encrypted" },
		{ BLOB_ENCRYPTED_ZSTD,
		    "Proxmox Backup zstd compressed encrypted blob v1.0",
		    "encrypted zstd" },
	};
	struct fixture *f = *state;
	uint8_t raw[BLOB_ENCRYPTED_HEADER_SIZE] = { 0 };

	for (size_t i = 0; i < TEST_COUNT(all); i++) {
		struct digest d;

		assert_ok(
		    digest_of(all[i].label, strlen(all[i].label), &d, &f->e),
		    &f->e);
		memcpy(raw, d.b, 8);
		put_raw(f, raw, sizeof(raw));
		assert_int_equal(identify(f), all[i].kind);
		assert_string_equal(blob_kind_name(all[i].kind), all[i].name);
	}
}

static void test_plain_vector(void **state)
{
	struct fixture *f = *state;

	encode(f, 0, "123456789", 9);
	assert_int_equal(f->raw.len, sizeof(plain));
	assert_memory_equal(f->raw.data, plain, sizeof(plain));
	assert_ok(decode(f, 9), &f->e);
	assert_int_equal(f->out.len, 9);
	assert_memory_equal(f->out.data, "123456789", 9);
	assert_err(decode(f, 8), &f->e, ERR_LIMIT, "9 bytes, want at most 8");
}

static void test_encrypted_vector(void **state)
{
	struct fixture *f = *state;
	enum blob_kind kind = BLOB_PLAIN;

	put_raw(f, encrypted, sizeof(encrypted));
	assert_ok(blob_check(f->raw.data, f->raw.len, &kind, &f->e), &f->e);
	assert_int_equal(kind, BLOB_ENCRYPTED);
	assert_true(blob_is_encrypted(kind));
	assert_err(decode(f, 100), &f->e, ERR_UNSUPPORTED, "without its key");
	/* The CRC covers neither magic, IV nor tag, but all behind them. */
	f->raw.data[12] ^= 1;
	f->raw.data[28] ^= 1;
	assert_ok(blob_check(f->raw.data, f->raw.len, &kind, &f->e), &f->e);
	f->raw.data[44] ^= 1;
	assert_err(blob_check(f->raw.data, f->raw.len, &kind, &f->e), &f->e,
	    ERR_CORRUPT, "encrypted blob of 53 bytes has CRC");
	assert_err(decode(f, 100), &f->e, ERR_CORRUPT, "has CRC");
}

/* The chunk that every disk image has. */
static void test_zero_chunk(void **state)
{
	struct fixture *f = *state;
	char hex[DIGEST_HEX_SIZE];
	struct digest d;
	uint8_t *zeros = calloc(1, 4U << 20);

	assert_non_null(zeros);
	encode(f, 1, zeros, 4U << 20);
	free(zeros);
	assert_int_equal(identify(f), BLOB_ZSTD);
	assert_true(f->raw.len < 1000);
	assert_ok(decode(f, CHUNK_MAX_PLAIN), &f->e);
	assert_int_equal(f->out.len, 4U << 20);
	assert_ok(digest_of(f->out.data, f->out.len, &d, &f->e), &f->e);
	digest_hex(&d, hex);
	assert_string_equal(hex,
	    "bb9f8df61474d25e71fa00722318cd38"
	    "7396ca1736605e1248821cc0de3d3af8");
}

static void test_round_trip(void **state)
{
	static const size_t sizes[] = { 0, 1, 2, 31, 1000, 65536, 200000 };
	static const enum gen_kind gens[] = { GEN_TEXT, GEN_RANDOM, GEN_ZEROS };
	struct fixture *f = *state;
	uint8_t *data = malloc(200000);
	struct gen g;

	assert_non_null(data);
	gen_seed(&g, 4);
	for (size_t k = 0; k < TEST_COUNT(gens); k++) {
		gen_fill(&g, gens[k], data, 200000);
		for (size_t i = 0; i < TEST_COUNT(sizes); i++) {
			encode(f, 3, data, sizes[i]);
			assert_true(f->raw.len <= BLOB_HEADER_SIZE + sizes[i]);
			assert_ok(decode(f, sizes[i]), &f->e);
			assert_int_equal(f->out.len, sizes[i]);
			if (sizes[i] > 0)
				assert_memory_equal(
				    f->out.data, data, sizes[i]);
		}
	}
	free(data);
}

static void test_kind_follows_what_is_smaller(void **state)
{
	struct fixture *f = *state;
	uint8_t data[4096];
	struct gen g;

	gen_seed(&g, 5);
	gen_fill(&g, GEN_RANDOM, data, sizeof(data));
	encode(f, 19, data, sizeof(data));
	assert_int_equal(identify(f), BLOB_PLAIN);
	gen_fill(&g, GEN_TEXT, data, sizeof(data));
	encode(f, 1, data, sizeof(data));
	assert_int_equal(identify(f), BLOB_ZSTD);
	encode(f, 0, data, sizeof(data));
	assert_int_equal(identify(f), BLOB_PLAIN);
	assert_err(
	    blob_encode(f->codec, 20, data, sizeof(data), &f->raw, &f->e),
	    &f->e, ERR_INVALID, "level 20");
	assert_int_equal(f->raw.len, 0);
}

static void test_too_large(void **state)
{
	struct fixture *f = *state;
	uint8_t byte = 0;

	assert_err(
	    blob_encode(f->codec, 0, &byte, BLOB_MAX_PLAIN + 1, &f->raw, &f->e),
	    &f->e, ERR_LIMIT, "want at most 134217728");
	assert_int_equal(f->raw.cap, 0);
}

static void test_every_bit_counts(void **state)
{
	struct fixture *f = *state;

	encode(f, 0, "123456789", 9);
	for (size_t i = 0; i < sizeof(plain) * 8; i++) {
		f->raw.data[i / 8] ^= (uint8_t)(1U << i % 8);
		assert_err(decode(f, 100), &f->e, ERR_CORRUPT, "blob");
		assert_int_equal(f->out.len, 0);
		f->raw.data[i / 8] ^= (uint8_t)(1U << i % 8);
	}
	assert_ok(decode(f, 100), &f->e);
}

static void test_cut_short(void **state)
{
	struct fixture *f = *state;
	enum blob_kind kind = BLOB_PLAIN;

	put_raw(f, encrypted, sizeof(encrypted));
	for (f->raw.len = 0; f->raw.len < BLOB_HEADER_SIZE; f->raw.len++) {
		assert_err(blob_identify(f->raw.data, f->raw.len, &kind, &f->e),
		    &f->e, ERR_CORRUPT, "want at least 12");
	}
	while (f->raw.len < BLOB_ENCRYPTED_HEADER_SIZE) {
		assert_err(blob_check(f->raw.data, f->raw.len, &kind, &f->e),
		    &f->e, ERR_CORRUPT, "want at least 44");
		f->raw.len++;
	}
	assert_ok(blob_identify(f->raw.data, f->raw.len, &kind, &f->e), &f->e);
}

static void test_unknown_magic(void **state)
{
	struct fixture *f = *state;
	enum blob_kind kind = BLOB_PLAIN;

	put_raw(f, "not a blob at all", 17);
	assert_err(blob_identify(f->raw.data, f->raw.len, &kind, &f->e), &f->e,
	    ERR_CORRUPT, "unknown magic 6e6f74206120626c");
}

/* The CRC is right, but what it covers is no frame. */
static void test_bad_frame(void **state)
{
	struct fixture *f = *state;
	uint8_t text[2000];
	struct gen g;

	gen_seed(&g, 6);
	gen_fill(&g, GEN_TEXT, text, sizeof(text));
	encode(f, 1, text, sizeof(text));
	memcpy(f->raw.data + 8, plain + 8, sizeof(plain) - 8);
	f->raw.len = sizeof(plain);
	assert_err(decode(f, 5000), &f->e, ERR_CORRUPT, "zstd data");
	assert_int_equal(f->out.len, 0);
}

static void test_limit_of_zstd(void **state)
{
	struct fixture *f = *state;
	uint8_t text[2000];
	struct gen g;

	gen_seed(&g, 7);
	gen_fill(&g, GEN_TEXT, text, sizeof(text));
	encode(f, 1, text, sizeof(text));
	assert_ok(decode(f, sizeof(text)), &f->e);
	assert_err(
	    decode(f, sizeof(text) - 1), &f->e, ERR_LIMIT, "more than 1999");
	assert_int_equal(f->out.len, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_magics, setup, teardown),
		cmocka_unit_test_setup_teardown(
		    test_plain_vector, setup, teardown),
		cmocka_unit_test_setup_teardown(
		    test_encrypted_vector, setup, teardown),
		cmocka_unit_test_setup_teardown(
		    test_zero_chunk, setup, teardown),
		cmocka_unit_test_setup_teardown(
		    test_round_trip, setup, teardown),
		cmocka_unit_test_setup_teardown(
		    test_kind_follows_what_is_smaller, setup, teardown),
		cmocka_unit_test_setup_teardown(
		    test_too_large, setup, teardown),
		cmocka_unit_test_setup_teardown(
		    test_every_bit_counts, setup, teardown),
		cmocka_unit_test_setup_teardown(
		    test_cut_short, setup, teardown),
		cmocka_unit_test_setup_teardown(
		    test_unknown_magic, setup, teardown),
		cmocka_unit_test_setup_teardown(
		    test_bad_frame, setup, teardown),
		cmocka_unit_test_setup_teardown(
		    test_limit_of_zstd, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
