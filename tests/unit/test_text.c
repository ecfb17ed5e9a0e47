/* SPDX-License-Identifier: MIT */
#include "tests/support/test.h"

#include <stdlib.h>
#include <time.h>

#include "datastore/base/text.h"
#include "tests/support/gen.h"

#define KIB UINT64_C(1024)
#define MIB (KIB * 1024)
#define GIB (MIB * 1024)
#define TIB (GIB * 1024)
#define PIB (TIB * 1024)

static const struct {
	const char *bytes;
	size_t n;
	const char *shown;
} names[] = {
	{ "", 0, "" }, { "vm-100", 6, "vm-100" }, { "a b'\"", 5, "a b'\"" },
	{ "a\nb\tc\\d", 7, "a\\nb\\tc\\\\d" },
	{ "\r\033[2J\177", 6, "\\x0d\\x1b[2J\\x7f" }, { "a\0b", 3, "a\\x00b" },
	{ "gr\303\274n \342\202\254 \360\237\214\262", 14,
	    "gr\303\274n \342\202\254 \360\237\214\262" },
	{ "\377\200", 2, "\\xff\\x80" }, { "\303", 1, "\\xc3" }, /* cut short */
	{ "\303(", 2, "\\xc3(" },                          /* no continuation */
	{ "\300\257", 2, "\\xc0\\xaf" },                   /* over-long '/' */
	{ "\355\240\200", 3, "\\xed\\xa0\\x80" },          /* surrogate */
	{ "\364\220\200\200", 4, "\\xf4\\x90\\x80\\x80" }, /* > 10ffff */
	{ "\302\233", 2, "\\xc2\\x9b" },                   /* C1: CSI */
	{ "\302\240", 2, "\302\240" },                     /* first behind C1 */
	/* NOLINTNEXTLINE(misc-misleading-bidirectional): the very thing */
	{ "\342\200\256x", 4, "\\xe2\\x80\\xaex" }, /* right to left */
	{ "\342\200\250", 3, "\\xe2\\x80\\xa8" },   /* line separator */
};

static void shows_names(void **state)
{
	struct buf *b = *state;
	struct err e = ERR_INIT;

	for (size_t i = 0; i < TEST_COUNT(names); i++) {
		buf_reset(b);
		assert_ok(buf_append_str(b, "=", &e), &e);
		assert_ok(
		    text_append_name(b, names[i].bytes, names[i].n, &e), &e);
		assert_string_equal(buf_cstr(b, &e) + 1, names[i].shown);
	}
}

static void cuts_names(void **state)
{
	char out[16];

	(void)state;
	assert_string_equal(text_name(out, 8, "1234567"), "1234567");
	assert_string_equal(text_name(out, 8, "12345678"), "1234...");
	assert_string_equal(text_name(out, 8, ""), "");
	/* An escape or a character is shown whole or not at all. */
	assert_string_equal(text_name(out, 8, "123\n5678"), "123...");
	assert_string_equal(text_name(out, 8, "12\n45678"), "12\\n...");
	assert_string_equal(
	    text_name(out, 8, "1\342\202\254xyz"), "1\342\202\254xyz");
	assert_string_equal(text_name(out, 8, "12\342\202\254xyz"), "12...");
	assert_string_equal(text_name(out, 8, "\377\377\377"), "\\xff...");
	assert_string_equal(text_name(out, 8, "\302\233"), "...");
	assert_string_equal(text_bytes(out, 8, "a\0b", 3), "a\\x00b");
	assert_string_equal(text_bytes(out, 8, "abcd", 2), "ab");
	assert_string_equal(text_bytes(out, 8, NULL, 0), "");
}

/* Whatever it is given, the field is UTF-8, without controls, and ends. */
static void fields_are_always_clean(void **state)
{
	char name[40];
	char out[64];
	struct gen g;

	(void)state;
	gen_seed(&g, 4);
	for (int i = 0; i < 20000; i++) {
		size_t size = 8 + (size_t)gen_below(&g, sizeof(out) - 8);

		gen_fill(&g, GEN_RANDOM, name, sizeof(name));
		name[gen_below(&g, sizeof(name))] = '\0';
		memset(out, '!', sizeof(out));
		assert_ptr_equal(text_name(out, size, name), out);
		assert_true(strlen(out) < size);
		assert_true(text_is_utf8(out, strlen(out)));
		for (const char *p = out; *p != '\0'; p++)
			assert_true((unsigned char)*p >= 0x20 && *p != 0x7f);
	}
}

static void knows_utf8(void **state)
{
	static const char *const good[] = { "", "a", "\302\200", "\337\277",
		"\340\240\200", "\355\237\277", "\356\200\200", "\357\277\277",
		"\360\220\200\200", "\364\217\277\277" };
	static const char *const bad[] = { "\200", "\301\277", "\340\237\277",
		"\355\240\200", "\355\277\277", "\360\217\277\277",
		"\364\220\200\200", "\370\210\200\200\200", "a\302", "\340\240",
		"\360\220\200", "\302a", "\377" };

	(void)state;
	for (size_t i = 0; i < TEST_COUNT(good); i++)
		assert_true(text_is_utf8(good[i], strlen(good[i])));
	for (size_t i = 0; i < TEST_COUNT(bad); i++)
		assert_false(text_is_utf8(bad[i], strlen(bad[i])));
	assert_true(text_is_utf8("a\0b", 3));
	assert_true(text_is_utf8(NULL, 0));
}

static void shows_sizes(void **state)
{
	static const struct {
		uint64_t bytes;
		const char *shown;
	} sizes[] = {
		{ 0, "0 B" },
		{ 1, "1 B" },
		{ 999, "999 B" },
		{ 1000, "1000 B" },
		{ 1023, "1023 B" },
		{ KIB, "1 KiB" },
		{ KIB + 1, "1.001 KiB" },
		{ KIB * 3 / 2, "1.5 KiB" },
		{ 10 * KIB - 1, "9.999 KiB" },
		{ 10 * KIB + 5, "10 KiB" },
		{ 10 * KIB + 6, "10.01 KiB" },
		{ 100 * KIB + 512, "100.5 KiB" },
		{ 1023 * KIB, "1023 KiB" },
		{ 1023 * KIB + 511, "1023 KiB" },
		{ 1023 * KIB + 512, "1 MiB" },
		{ MIB - 1, "1 MiB" },
		{ GIB + GIB / 2, "1.5 GiB" },
		{ 7 * TIB, "7 TiB" },
		{ 1000 * PIB + PIB / 2, "1001 PiB" },
		{ 1024 * PIB, "1 EiB" },
		{ UINT64_MAX, "16 EiB" },
	};
	char out[TEXT_SIZE_SIZE];

	(void)state;
	for (size_t i = 0; i < TEST_COUNT(sizes); i++) {
		assert_string_equal(
		    text_size(out, sizes[i].bytes), sizes[i].shown);
	}
}

static void shows_durations(void **state)
{
	static const struct {
		uint64_t seconds;
		const char *shown;
	} durations[] = {
		{ 0, "0s" },
		{ 59, "59s" },
		{ 60, "1m" },
		{ 90, "1m30s" },
		{ 3599, "59m59s" },
		{ 3600, "1h" },
		{ 3660, "1h1m" },
		{ 3659, "1h" },
		{ 86399, "23h59m" },
		{ 86400, "1d" },
		{ 93600, "1d2h" },
		{ 30 * 86400 + 59, "30d" },
		{ UINT64_MAX, "213503982334601d7h" },
	};
	char out[TEXT_DURATION_SIZE];

	(void)state;
	for (size_t i = 0; i < TEST_COUNT(durations); i++) {
		assert_string_equal(text_duration(out, durations[i].seconds),
		    durations[i].shown);
	}
}

static void only_one_is_singular(void **state)
{
	(void)state;
	assert_string_equal(text_plural(0, "entry", "entries"), "entries");
	assert_string_equal(text_plural(1, "entry", "entries"), "entry");
	assert_string_equal(text_plural(2, "entry", "entries"), "entries");
	assert_string_equal(text_plural(UINT64_MAX, "", "s"), "s");
}

static const struct {
	int64_t epoch;
	const char *shown;
} times[] = {
	{ 1, "1970-01-01T00:00:01Z" },
	{ 951782399, "2000-02-28T23:59:59Z" },
	{ 951782400, "2000-02-29T00:00:00Z" },
	{ 951868800, "2000-03-01T00:00:00Z" },
	{ 1077926400, "2004-02-28T00:00:00Z" },
	{ 1078012800, "2004-02-29T00:00:00Z" },
	{ 1735689599, "2024-12-31T23:59:59Z" },
	{ 2147483648, "2038-01-19T03:14:08Z" },
	{ 4107542399, "2100-02-28T23:59:59Z" },
	{ 4107542400, "2100-03-01T00:00:00Z" },
	{ 253402300799, "9999-12-31T23:59:59Z" },
};

static void shows_and_reads_times(void **state)
{
	char out[TEXT_TIME_SIZE];
	int64_t epoch = 0;

	(void)state;
	for (size_t i = 0; i < TEST_COUNT(times); i++) {
		assert_string_equal(
		    text_time(out, times[i].epoch), times[i].shown);
		assert_true(text_parse_time(times[i].shown, &epoch));
		assert_int_equal(epoch, times[i].epoch);
	}
}

static void shows_times_that_it_does_not_read(void **state)
{
	static const struct {
		int64_t epoch;
		const char *shown;
	} odd[] = {
		{ 0, "1970-01-01T00:00:00Z" },
		{ -1, "1969-12-31T23:59:59Z" },
		{ -2203891200, "1900-03-01T00:00:00Z" },
		{ -62162035201, "0000-02-29T23:59:59Z" },
		{ -62167219200, "0000-01-01T00:00:00Z" },
		{ -62167219201, "@-62167219201" },
		{ 253402300800, "@253402300800" },
		{ INT64_MAX, "@9223372036854775807" },
		{ INT64_MIN, "@-9223372036854775808" },
	};
	char out[TEXT_TIME_SIZE];
	int64_t epoch = -5;

	(void)state;
	for (size_t i = 0; i < TEST_COUNT(odd); i++) {
		assert_string_equal(text_time(out, odd[i].epoch), odd[i].shown);
		assert_false(text_parse_time(odd[i].shown, &epoch));
	}
	assert_int_equal(epoch, -5);
}

static void rejects_times(void **state)
{
	static const char *const bad[] = {
		"",
		"2026-11-30",
		"2026-11-30T12:00:00",
		"2026-11-30T12:00:00z",
		"2026-11-30t12:00:00Z",
		"2026-11-30 12:00:00Z",
		"2026-11-30T12:00:00Z ",
		" 2026-11-30T12:00:00Z",
		"2026-11-30T12:00:00.0Z",
		"2026-11-30T12:00:00+00:00",
		"2026/11/30T12:00:00Z",
		"+026-11-30T12:00:00Z",
		"2026-1 -30T12:00:00Z",
		"2026-00-30T12:00:00Z",
		"2026-13-30T12:00:00Z",
		"2026-11-00T12:00:00Z",
		"2026-11-31T12:00:00Z",
		"2026-02-29T12:00:00Z",
		"2100-02-29T12:00:00Z",
		"2024-02-30T12:00:00Z",
		"2026-11-30T24:00:00Z",
		"2026-11-30T12:60:00Z",
		"2016-12-31T23:59:60Z",
	};
	int64_t epoch = -5;

	(void)state;
	for (size_t i = 0; i < TEST_COUNT(bad); i++) {
		if (text_parse_time(bad[i], &epoch))
			fail_msg("'%s' was read", bad[i]);
	}
	assert_int_equal(epoch, -5);
}

/* Each day of 2400 years, against the C library. */
static void agrees_with_the_calendar(void **state)
{
	char out[TEXT_TIME_SIZE];
	char want[TEXT_TIME_SIZE];

	(void)state;
	for (int64_t day = INT64_C(-365) * 500; day < INT64_C(365) * 1900;
	     day++) {
		int64_t epoch = day * 86400 + (day & 0xffff);
		int64_t back = 0;
		time_t t = epoch;
		struct tm tm;

		assert_non_null(gmtime_r(&t, &tm));
		assert_int_equal(
		    strftime(want, sizeof(want), "%Y-%m-%dT%H:%M:%SZ", &tm),
		    20);
		assert_string_equal(text_time(out, epoch), want);
		if (epoch >= 1) {
			assert_true(text_parse_time(want, &back));
			assert_int_equal(back, epoch);
		}
	}
}

static void reads_sizes(void **state)
{
	static const struct {
		const char *text;
		uint64_t bytes;
	} good[] = {
		{ "0", 0 },
		{ "007", 7 },
		{ "4096", 4096 },
		{ "12B", 12 },
		{ "12b", 12 },
		{ "4K", 4 * KIB },
		{ "4k", 4 * KIB },
		{ "4KiB", 4 * KIB },
		{ "4kiB", 4 * KIB },
		{ "3M", 3 * MIB },
		{ "3GiB", 3 * GIB },
		{ "2T", 2 * TIB },
		{ "1PiB", PIB },
		{ "16383P", 16383 * PIB },
		{ "18446744073709551615", UINT64_MAX },
	};
	static const char *const bad[] = { "", "B", "K", "-1", "+1", " 1", "1 ",
		"1 K", "1.5G", "1KB", "1Ki", "1KIB", "1kib", "1BiB", "1E",
		"1KK", "1KiBx", "0x10", "16384P", "18446744073709551616",
		"99999999999999999999999", "1\n" };
	struct err e = ERR_INIT;
	uint64_t bytes = 0;

	(void)state;
	for (size_t i = 0; i < TEST_COUNT(good); i++) {
		assert_ok(text_parse_size(good[i].text, &bytes, &e), &e);
		assert_int_equal(bytes, good[i].bytes);
	}
	bytes = 77;
	for (size_t i = 0; i < TEST_COUNT(bad); i++) {
		assert_err(text_parse_size(bad[i], &bytes, &e), &e, ERR_INVALID,
		    "is no size");
	}
	assert_int_equal(bytes, 77);
}

static void reads_durations(void **state)
{
	static const struct {
		const char *text;
		uint64_t seconds;
	} good[] = {
		{ "0", 0 },
		{ "90", 90 },
		{ "90s", 90 },
		{ "24h5m", 86700 },
		{ "30d", 2592000 },
		{ "1w2d3h4m5s", 788645 },
		{ "1w5s", 604805 },
		{ "0w0s", 0 },
		{ "18446744073709551615s", UINT64_MAX },
	};
	static const char *const bad[] = { "", "s", "5x", "5m3", "3s5m", "1m1m",
		"1.5h", "-1", "+1", " 1", "1 ", "1h 5m", "1H", "1y", "h1",
		"30500568904944w", "18446744073709551615s1s",
		"18446744073709551615m", "1m18446744073709551615s" };
	struct err e = ERR_INIT;
	uint64_t seconds = 0;

	(void)state;
	for (size_t i = 0; i < TEST_COUNT(good); i++) {
		assert_ok(text_parse_duration(good[i].text, &seconds, &e), &e);
		assert_int_equal(seconds, good[i].seconds);
	}
	seconds = 77;
	for (size_t i = 0; i < TEST_COUNT(bad); i++) {
		assert_err(text_parse_duration(bad[i], &seconds, &e), &e,
		    ERR_INVALID, "is no duration");
	}
	assert_int_equal(seconds, 77);
}

static void reads_its_own_durations(void **state)
{
	char out[TEXT_DURATION_SIZE];
	struct err e = ERR_INIT;
	uint64_t back = 0;
	struct gen g;

	(void)state;
	gen_seed(&g, 5);
	for (int i = 0; i < 10000; i++) {
		uint64_t s = gen_u64(&g) >> gen_below(&g, 64);

		assert_ok(
		    text_parse_duration(text_duration(out, s), &back, &e), &e);
		/* Two units: what is lost is less than the second. */
		assert_true(back <= s && s - back < 3600);
	}
}

static void reads_numbers(void **state)
{
	static const char *const bad[] = { "", "x", "1x", " 1", "1 ", "-1",
		"+1", "4", "101", "18446744073709551616", "1.0" };
	struct err e = ERR_INIT;
	uint64_t v = 0;

	(void)state;
	assert_ok(text_parse_u64("5", 5, 100, &v, &e), &e);
	assert_int_equal(v, 5);
	assert_ok(text_parse_u64("100", 5, 100, &v, &e), &e);
	assert_int_equal(v, 100);
	assert_ok(
	    text_parse_u64("18446744073709551615", 0, UINT64_MAX, &v, &e), &e);
	assert_true(v == UINT64_MAX);
	v = 77;
	for (size_t i = 0; i < TEST_COUNT(bad); i++) {
		assert_err(text_parse_u64(bad[i], 5, 100, &v, &e), &e,
		    ERR_INVALID, "between 5 and 100");
	}
	assert_int_equal(v, 77);
	assert_err(text_parse_u64("a\nb", 5, 100, &v, &e), &e, ERR_INVALID,
	    "'a\\nb' is no");
}

static int new_buf(void **state)
{
	struct buf *b = calloc(1, sizeof(*b));

	*state = b;
	return b == NULL ? -1 : 0;
}

static int free_buf(void **state)
{
	buf_release(*state);
	free(*state);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(shows_names, new_buf, free_buf),
		cmocka_unit_test(cuts_names),
		cmocka_unit_test(fields_are_always_clean),
		cmocka_unit_test(knows_utf8),
		cmocka_unit_test(shows_sizes),
		cmocka_unit_test(shows_durations),
		cmocka_unit_test(only_one_is_singular),
		cmocka_unit_test(shows_and_reads_times),
		cmocka_unit_test(shows_times_that_it_does_not_read),
		cmocka_unit_test(rejects_times),
		cmocka_unit_test(agrees_with_the_calendar),
		cmocka_unit_test(reads_sizes),
		cmocka_unit_test(reads_durations),
		cmocka_unit_test(reads_its_own_durations),
		cmocka_unit_test(reads_numbers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
