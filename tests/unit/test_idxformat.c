/* SPDX-License-Identifier: MIT */
#include "tests/support/test.h"

#include "datastore/base/bytes.h"
#include "datastore/blob.h"
#include "index/idxformat.h"
#include "tests/support/gen.h"

#define MIB (UINT64_C(1) << 20)

/* A sound header, and the length of a file that it goes with. */
static void make_fixed(
    uint8_t out[IDX_HEADER_SIZE], uint64_t size, uint64_t chunk_size)
{
	struct idx_info x = { .kind = IDX_FIXED,
		.ctime = 1784017800,
		.size = size,
		.chunk_size = chunk_size };

	for (unsigned i = 0; i < IDX_UUID_SIZE; i++)
		x.uuid[i] = (uint8_t)(0xa0 + i);
	for (unsigned i = 0; i < DIGEST_SIZE; i++)
		x.csum.b[i] = (uint8_t)i;
	idx_header_encode(&x, out);
}

static void make_dynamic(uint8_t out[IDX_HEADER_SIZE])
{
	struct idx_info x = { .kind = IDX_DYNAMIC, .ctime = -1 };

	memset(x.uuid, 0x11, IDX_UUID_SIZE);
	memset(x.csum.b, 0x22, DIGEST_SIZE);
	idx_header_encode(&x, out);
}

/* The layout, byte by byte, as the format's description has it. */
static void lays_out_a_fixed_header(void **state)
{
	static const uint8_t magic[] = { 0x2f, 0x7f, 0x41, 0xed, 0x91, 0xfd,
		0x0f, 0xcd };
	uint8_t h[IDX_HEADER_SIZE];

	(void)state;
	make_fixed(h, UINT64_C(0x0102030405060708), 65536);
	assert_memory_equal(h, magic, 8);
	assert_int_equal(h[8], 0xa0);
	assert_int_equal(h[23], 0xaf);
	assert_memory_equal(h + 24, "\x88\xf3\x55\x6a\0\0\0\0", 8);
	assert_int_equal(h[32], 0);
	assert_int_equal(h[63], 31);
	assert_memory_equal(h + 64, "\x08\x07\x06\x05\x04\x03\x02\x01", 8);
	assert_memory_equal(h + 72, "\0\0\x01\0\0\0\0\0", 8);
	for (size_t i = 80; i < sizeof(h); i++)
		assert_int_equal(h[i], 0);
}

static void lays_out_a_dynamic_header(void **state)
{
	static const uint8_t magic[] = { 0x1c, 0x91, 0x4e, 0xa5, 0x19, 0xba,
		0xb3, 0xcd };
	uint8_t h[IDX_HEADER_SIZE];

	(void)state;
	make_dynamic(h);
	assert_memory_equal(h, magic, 8);
	assert_int_equal(h[8], 0x11);
	assert_int_equal(h[23], 0x11);
	for (size_t i = 24; i < 32; i++)
		assert_int_equal(h[i], 0xff);
	assert_int_equal(h[32], 0x22);
	assert_int_equal(h[63], 0x22);
	for (size_t i = 64; i < sizeof(h); i++)
		assert_int_equal(h[i], 0);
}

static void decodes_what_it_encoded(void **state)
{
	uint8_t h[IDX_HEADER_SIZE];
	uint8_t again[IDX_HEADER_SIZE];
	struct idx_info x = { .kind = IDX_DYNAMIC };
	struct err e = ERR_INIT;

	(void)state;
	make_fixed(h, 340025, 65536);
	assert_ok(idx_header_decode(h, sizeof(h), 4096 + 6 * 32, &x, &e), &e);
	assert_int_equal(x.kind, IDX_FIXED);
	assert_int_equal(x.ctime, 1784017800);
	assert_int_equal(x.size, 340025);
	assert_int_equal(x.chunk_size, 65536);
	assert_int_equal(x.count, 6);
	idx_header_encode(&x, again);
	assert_memory_equal(h, again, sizeof(h));

	make_dynamic(h);
	assert_ok(idx_header_decode(h, sizeof(h), 4096 + 7 * 40, &x, &e), &e);
	assert_int_equal(x.kind, IDX_DYNAMIC);
	assert_true(x.ctime == -1);
	assert_int_equal(x.size, 0);
	assert_int_equal(x.chunk_size, 0);
	assert_int_equal(x.count, 7);
	idx_header_encode(&x, again);
	assert_memory_equal(h, again, sizeof(h));
}

static void takes_an_empty_dynamic_index(void **state)
{
	uint8_t h[IDX_HEADER_SIZE];
	struct idx_info x = { .count = 1 };
	struct err e = ERR_INIT;

	(void)state;
	make_dynamic(h);
	assert_ok(idx_header_decode(h, sizeof(h), 4096, &x, &e), &e);
	assert_int_equal(x.count, 0);
}

struct bad {
	uint64_t file_size;
	size_t n; /* bytes of the header at hand */
	size_t at;
	uint8_t byte; /* put at `at` */
	const char *text;
};

static void refused(const uint8_t *sound, const struct bad *bad)
{
	uint8_t h[IDX_HEADER_SIZE];
	struct idx_info x = { .count = 77 };
	struct err e = ERR_INIT;

	memcpy(h, sound, sizeof(h));
	h[bad->at] = bad->byte;
	assert_err(idx_header_decode(h, bad->n, bad->file_size, &x, &e), &e,
	    ERR_CORRUPT, bad->text);
	assert_string_equal(e.msg, bad->text);
	assert_int_equal(x.count, 77);
}

/* Rules 1 to 4, for both kinds. */
static void refuses_bad_headers(void **state)
{
	static const struct bad fixed[] = {
		{ 0, 0, 0, 0x2f, "0 bytes, want at least 4096" },
		{ 1, 1, 0, 0x2f, "1 bytes, want at least 4096" },
		{ 4080, 4080, 0, 0x2f, "4080 bytes, want at least 4096" },
		{ 4095, 4095, 0, 0x2f, "4095 bytes, want at least 4096" },
		{ 4128, 4000, 0, 0x2f, "4000 bytes, want at least 4096" },
		{ 4128, 4096, 0, 0x2e,
		    "magic 2e7f41ed91fd0fcd, want 2f7f41ed91fd0fcd (fixed) or "
		    "1c914ea519bab3cd (dynamic)" },
		{ 4128, 4096, 7, 0,
		    "magic 2f7f41ed91fd0f00, want 2f7f41ed91fd0fcd (fixed) or "
		    "1c914ea519bab3cd (dynamic)" },
		{ 4128, 4096, 80, 1, "byte 80 of the header is 1, want 0" },
		{ 4128, 4096, 4095, 255,
		    "byte 4095 of the header is 255, want 0" },
		{ 4096, 4096, 0, 0x2f,
		    "nothing behind the header, want at least one entry" },
		{ 4127, 4096, 0, 0x2f,
		    "31 bytes behind the header, want a multiple of 32" },
		{ 4129, 4096, 0, 0x2f,
		    "33 bytes behind the header, want a multiple of 32" },
	};
	static const struct bad dynamic[] = {
		{ 4096, 4096, 64, 1, "byte 64 of the header is 1, want 0" },
		{ 4096, 4096, 79, 9, "byte 79 of the header is 9, want 0" },
		{ 4097, 4096, 0, 0x1c,
		    "1 bytes behind the header, want a multiple of 40" },
		{ 4135, 4096, 0, 0x1c,
		    "39 bytes behind the header, want a multiple of 40" },
		{ 4128, 4096, 0, 0x1c,
		    "32 bytes behind the header, want a multiple of 40" },
	};
	uint8_t h[IDX_HEADER_SIZE];

	(void)state;
	make_fixed(h, 65536, 65536);
	for (size_t i = 0; i < TEST_COUNT(fixed); i++)
		refused(h, &fixed[i]);
	make_dynamic(h);
	for (size_t i = 0; i < TEST_COUNT(dynamic); i++)
		refused(h, &dynamic[i]);
}

/* Every byte of the rest must be zero, and is looked at. */
static void refuses_any_reserved_byte(void **state)
{
	uint8_t h[IDX_HEADER_SIZE];
	struct idx_info x;
	struct err e = ERR_INIT;

	(void)state;
	make_dynamic(h);
	for (size_t i = 64; i < sizeof(h); i++) {
		h[i] = 0x80;
		assert_err(idx_header_decode(h, sizeof(h), 4096, &x, &e), &e,
		    ERR_CORRUPT, "of the header is 128, want 0");
		h[i] = 0;
	}
	assert_ok(idx_header_decode(h, sizeof(h), 4096, &x, &e), &e);
}

/* Rule 5. */
static const struct {
	uint64_t size;
	uint64_t chunk_size;
	uint64_t count;
	const char *text; /* NULL: it is sound */
} sizes[] = {
	{ 1, 1, 1, NULL },
	{ 1, 65536, 1, NULL },
	{ 65535, 65536, 1, NULL },
	{ 65536, 65536, 1, NULL },
	{ 65537, 65536, 2, NULL },
	{ 131072, 65536, 2, NULL },
	{ 16 * MIB, 16 * MIB, 1, NULL },
	{ 0, 65536, 1, "image of 0 bytes, want at least 1" },
	{ 65536, 0, 1,
	    "chunk size 0, want a power of two up to "
	    "16777216" },
	{ 65536, 65537, 1,
	    "chunk size 65537, want a power of two up "
	    "to 16777216" },
	{ 65536, 3, 1,
	    "chunk size 3, want a power of two up to "
	    "16777216" },
	{ 65536, 32 * MIB, 1,
	    "chunk size 33554432, want a power of "
	    "two up to 16777216" },
	{ 65536, UINT64_C(1) << 63, 1,
	    "chunk size 9223372036854775808, want a power of two up "
	    "to 16777216" },
	{ 65537, 65536, 1,
	    "1 entries, want 2 for 65537 bytes in "
	    "chunks of 65536" },
	{ 65536, 65536, 2,
	    "2 entries, want 1 for 65536 bytes in "
	    "chunks of 65536" },
	{ UINT64_C(1) << 63, 65536, 4,
	    "4 entries, want 140737488355328 for 9223372036854775808 "
	    "bytes in chunks of 65536" },
	{ UINT64_MAX, 1, 1,
	    "1 entries, want 18446744073709551615 for "
	    "18446744073709551615 bytes in chunks of 1" },
	{ UINT64_MAX, 2, 1,
	    "1 entries, want 9223372036854775808 for "
	    "18446744073709551615 bytes in chunks of 2" },
	/* 32 times what it wants is 0 in 64 bits. */
	{ UINT64_C(1) << 59, 1, 1,
	    "1 entries, want 576460752303423488 for "
	    "576460752303423488 bytes in chunks of 1" },
};

static void checks_size_and_chunk_size(void **state)
{
	(void)state;
	for (size_t i = 0; i < TEST_COUNT(sizes); i++) {
		uint8_t h[IDX_HEADER_SIZE];
		struct idx_info x = { .count = 0 };
		struct err e = ERR_INIT;
		int rc = 0;

		make_fixed(h, sizes[i].size, sizes[i].chunk_size);
		rc = idx_header_decode(
		    h, sizeof(h), 4096 + 32 * sizes[i].count, &x, &e);
		if (sizes[i].text != NULL) {
			assert_err(rc, &e, ERR_CORRUPT, sizes[i].text);
			assert_string_equal(e.msg, sizes[i].text);
			continue;
		}
		assert_ok(rc, &e);
		assert_int_equal(x.count, sizes[i].count);
	}
}

/* A file as long as a file can be: nothing overflows on the way. */
static void takes_absurd_lengths(void **state)
{
	uint8_t h[IDX_HEADER_SIZE];
	uint64_t count = (UINT64_MAX - 4096) / 32;
	struct idx_info x;
	struct err e = ERR_INIT;

	(void)state;
	make_fixed(h, count, 1);
	assert_ok(
	    idx_header_decode(h, sizeof(h), 4096 + 32 * count, &x, &e), &e);
	assert_int_equal(x.count, count);
	assert_err(idx_header_decode(h, sizeof(h), UINT64_MAX, &x, &e), &e,
	    ERR_CORRUPT, "want a multiple of 32");
}

static void decodes_fixed_entries(void **state)
{
	struct idx_info x = { .kind = IDX_FIXED,
		.size = 2 * 65536 + 1,
		.chunk_size = 65536,
		.count = 3 };
	uint8_t raw[IDX_FIXED_ENTRY_SIZE];
	struct idx_entry entry = { .end = 0 };
	struct err e = ERR_INIT;

	(void)state;
	memset(raw, 0x5a, sizeof(raw));
	assert_ok(idx_entry_decode(&x, 0, raw, 0, &entry, &e), &e);
	assert_int_equal(entry.end, 65536);
	assert_memory_equal(entry.digest.b, raw, DIGEST_SIZE);
	assert_ok(idx_entry_decode(&x, 1, raw, 65536, &entry, &e), &e);
	assert_int_equal(entry.end, 131072);
	assert_ok(idx_entry_decode(&x, 2, raw, 131072, &entry, &e), &e);
	assert_int_equal(entry.end, 131073);
	assert_int_equal(idx_fixed_length(&x, 0), 65536);
	assert_int_equal(idx_fixed_length(&x, 1), 65536);
	assert_int_equal(idx_fixed_length(&x, 2), 1);
	x.size = 3 * 65536;
	assert_int_equal(idx_fixed_length(&x, 2), 65536);
	x.count = 1;
	x.size = 7;
	assert_int_equal(idx_fixed_length(&x, 0), 7);
}

/* Rule 6. */
static void checks_dynamic_entries(void **state)
{
	static const struct {
		uint64_t prev;
		uint64_t end;
		const char *text; /* NULL: it is sound */
	} cases[] = {
		{ 0, 1, NULL },
		{ 0, CHUNK_MAX_PLAIN, NULL },
		{ 5, 6, NULL },
		{ UINT64_MAX - 1, UINT64_MAX, NULL },
		{ 0, 0,
		    "entry 3 ends at 0, want more than 0, where it "
		    "begins" },
		{ 7, 7,
		    "entry 3 ends at 7, want more than 7, where it "
		    "begins" },
		{ 7, 6,
		    "entry 3 ends at 6, want more than 7, where it "
		    "begins" },
		{ 0, CHUNK_MAX_PLAIN + 1,
		    "entry 3 has 16777217 bytes, want at most 16777216" },
		{ 1, UINT64_MAX,
		    "entry 3 has 18446744073709551614 bytes, "
		    "want at most 16777216" },
	};
	struct idx_info x = { .kind = IDX_DYNAMIC, .count = 4 };

	(void)state;
	for (size_t i = 0; i < TEST_COUNT(cases); i++) {
		uint8_t raw[IDX_DYNAMIC_ENTRY_SIZE];
		struct idx_entry entry = { .end = 0 };
		struct err e = ERR_INIT;
		int rc = 0;

		memset(raw, 0x5a, sizeof(raw));
		bytes_put_le64(raw, cases[i].end);
		rc = idx_entry_decode(&x, 3, raw, cases[i].prev, &entry, &e);
		if (cases[i].text != NULL) {
			assert_err(rc, &e, ERR_CORRUPT, cases[i].text);
			assert_string_equal(e.msg, cases[i].text);
			continue;
		}
		assert_ok(rc, &e);
		assert_int_equal(entry.end, cases[i].end);
		assert_memory_equal(entry.digest.b, raw + 8, DIGEST_SIZE);
	}
}

static void encodes_entries(void **state)
{
	struct idx_entry entry = { .end = UINT64_C(0x0807060504030201) };
	uint8_t raw[IDX_DYNAMIC_ENTRY_SIZE + 1];

	(void)state;
	memset(entry.digest.b, 0x77, DIGEST_SIZE);
	memset(raw, 0xee, sizeof(raw));
	idx_entry_encode(IDX_DYNAMIC, &entry, raw);
	assert_memory_equal(raw, "\x01\x02\x03\x04\x05\x06\x07\x08", 8);
	assert_memory_equal(raw + 8, entry.digest.b, DIGEST_SIZE);
	assert_int_equal(raw[40], 0xee);
	memset(raw, 0xee, sizeof(raw));
	idx_entry_encode(IDX_FIXED, &entry, raw);
	assert_memory_equal(raw, entry.digest.b, DIGEST_SIZE);
	assert_int_equal(raw[32], 0xee);
}

static void knows_kinds_by_name(void **state)
{
	static const char *const others[] = { "", ".fidx", ".didx", "fidx",
		"a.fidx2", "a.tmp_fidx", "a.blob", "a.FIDX", "a.fidx.", "a." };
	enum idx_kind kind = IDX_DYNAMIC;

	(void)state;
	assert_true(idx_kind_of_name("root.img.fidx", &kind));
	assert_int_equal(kind, IDX_FIXED);
	assert_true(idx_kind_of_name("root.fidx.didx", &kind));
	assert_int_equal(kind, IDX_DYNAMIC);
	for (size_t i = 0; i < TEST_COUNT(others); i++)
		assert_false(idx_kind_of_name(others[i], &kind));
}

/* Whatever the bytes: sound ones come back the same, others are refused. */
static void survives_random_headers(void **state)
{
	unsigned sound = 0;
	struct gen g;

	(void)state;
	gen_seed(&g, 1);
	for (unsigned i = 0; i < 2000; i++) {
		uint8_t h[IDX_HEADER_SIZE];
		uint8_t again[IDX_HEADER_SIZE];
		struct idx_info x;
		struct err e = ERR_INIT;

		if (gen_below(&g, 2) == 0) {
			make_fixed(h, gen_below(&g, 1 << 20),
			    UINT64_C(1) << gen_below(&g, 26));
		} else {
			make_dynamic(h);
		}
		if (gen_below(&g, 2) == 0)
			h[gen_below(&g, 100)] ^= (uint8_t)gen_below(&g, 256);
		if (idx_header_decode(h, sizeof(h),
			4096 + 8 * gen_below(&g, 100), &x, &e) < 0) {
			assert_int_equal(e.code, ERR_CORRUPT);
			continue;
		}
		idx_header_encode(&x, again);
		assert_memory_equal(h, again, sizeof(h));
		sound++;
	}
	assert_true(sound > 50);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lays_out_a_fixed_header),
		cmocka_unit_test(lays_out_a_dynamic_header),
		cmocka_unit_test(decodes_what_it_encoded),
		cmocka_unit_test(takes_an_empty_dynamic_index),
		cmocka_unit_test(refuses_bad_headers),
		cmocka_unit_test(refuses_any_reserved_byte),
		cmocka_unit_test(checks_size_and_chunk_size),
		cmocka_unit_test(takes_absurd_lengths),
		cmocka_unit_test(decodes_fixed_entries),
		cmocka_unit_test(checks_dynamic_entries),
		cmocka_unit_test(encodes_entries),
		cmocka_unit_test(knows_kinds_by_name),
		cmocka_unit_test(survives_random_headers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
