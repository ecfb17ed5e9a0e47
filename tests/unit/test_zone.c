/* SPDX-License-Identifier: MIT */
/*
 * Time zones: compared with libc's for thousands of instants, and by hand.
 */
#include "datastore/base/zone.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>

#include "tests/support/gen.h"
#include "tests/support/test.h"

#define YEAR_S INT64_C(31556952)

struct fixture {
	struct zone *zone;
	struct err e;
};

static int setup(void **state)
{
	*state = calloc(1, sizeof(struct fixture));
	return *state == NULL ? -1 : 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	zone_free(f->zone);
	free(f);
	(void)unsetenv("TZ");
	tzset();
	return 0;
}

static void use_libc(const char *tz)
{
	assert_int_equal(setenv("TZ", tz, 1), 0);
	tzset();
}

static int open_zone(struct fixture *f, const char *name)
{
	zone_free(f->zone);
	f->zone = NULL;
	f->e = (struct err)ERR_INIT;
	return zone_open(name, &f->zone, &f->e);
}

static bool has_tzdata(void)
{
	struct stat st;

	return stat(ZONE_DIR "/Europe/Berlin", &st) == 0;
}

/* All fields as "2026 02 29 ...", ours and libc's. */
static void assert_same(const struct zone *z, int64_t epoch, const char *tz)
{
	time_t when = (time_t)epoch;
	struct zone_time t;
	struct tm tm;
	char got[128];
	char want[128];
	int64_t year = 0;
	unsigned week = 0;

	assert_non_null(localtime_r(&when, &tm));
	zone_local(z, epoch, &t);
	zone_iso_week(&t, &year, &week);
	(void)snprintf(got, sizeof(got),
	    "%04ld-%02u-%02u %02u:%02u:%02u %03u %u %04ld %02u %d",
	    (long)t.year, t.month, t.day, t.hour, t.minute, t.second,
	    t.year_day, t.week_day, (long)year, week, (int)t.offset_s);
	assert_int_not_equal(
	    strftime(want, sizeof(want), "%Y-%m-%d %H:%M:%S %j %u %G %V", &tm),
	    0);
	(void)snprintf(want + strlen(want), sizeof(want) - strlen(want), " %ld",
	    tm.tm_gmtoff);
	if (strcmp(got, want) != 0) {
		print_error(
		    "%s @%ld: %s, libc %s\n", tz, (long)epoch, got, want);
		fail();
	}
}

static const char *const zones[] = { "Europe/Berlin", "America/New_York",
	"Pacific/Apia", "Asia/Kolkata", "Europe/Dublin", "Africa/Casablanca",
	"Antarctica/Troll", "Australia/Lord_Howe", "America/St_Johns",
	"Asia/Gaza", "America/Caracas", "Pacific/Kwajalein", "Asia/Kathmandu",
	"America/Sao_Paulo", "Africa/Cairo", "Etc/GMT+12", "Pacific/Chatham",
	"America/Nuuk", "EST5EDT", "Etc/UTC" };

/* Instants all over the years, and one hour after the other in some of them:
 * changes to summer time and back, ends of months and years, leap days. */
static void as_libc_says(void **state)
{
	struct fixture *f = *state;
	struct gen g;

	if (!has_tzdata())
		skip();
	gen_seed(&g, 20261130);
	for (size_t i = 0; i < TEST_COUNT(zones); i++) {
		assert_ok(open_zone(f, zones[i]), &f->e);
		use_libc(zones[i]);
		for (int n = 0; n < 3000; n++)
			assert_same(f->zone,
			    (int64_t)gen_below(&g, 130 * YEAR_S), zones[i]);
		for (int64_t t = 1704067200 - 86400;
		     t < 1704067200 + 370 * 86400; t += 1799)
			assert_same(f->zone, t, zones[i]);
		/* Behind all that the file lists. */
		for (int n = 0; n < 1000; n++)
			assert_same(f->zone,
			    130 * YEAR_S +
				(int64_t)gen_below(&g, 7000 * YEAR_S),
			    zones[i]);
	}
}

static long libc_offset(time_t t)
{
	struct tm tm;

	assert_non_null(localtime_r(&t, &tm));
	return tm.tm_gmtoff;
}

/* The seconds around each change: nothing is off by one. */
static void at_the_change(void **state)
{
	const time_t step = 14400;
	struct fixture *f = *state;

	if (!has_tzdata())
		skip();
	for (size_t i = 0; i < TEST_COUNT(zones); i++) {
		assert_ok(open_zone(f, zones[i]), &f->e);
		use_libc(zones[i]);
		for (time_t t = 0; t < 80 * YEAR_S; t += step) {
			time_t low = t;
			time_t high = t + step;

			if (libc_offset(low) == libc_offset(high))
				continue;
			while (high - low > 1) {
				time_t mid = low + (high - low) / 2;

				if (libc_offset(mid) == libc_offset(t))
					low = mid;
				else
					high = mid;
			}
			for (time_t s = low - 2; s <= high + 2; s++)
				assert_same(f->zone, s, zones[i]);
		}
	}
}

static void utc_needs_no_file(void **state)
{
	struct fixture *f = *state;
	struct zone_time t;

	assert_ok(open_zone(f, "UTC"), &f->e);
	use_libc("UTC0");
	for (int64_t t0 = -30610224000; t0 < 253402300800; t0 += 86399 * 67) {
		assert_same(f->zone, t0, "UTC");
		assert_same(NULL, t0, "UTC");
	}
	zone_local(f->zone, 1709251199, &t);
	assert_int_equal(t.year, 2024);
	assert_int_equal(t.month, 2);
	assert_int_equal(t.day, 29);
	assert_int_equal(t.year_day, 60);
	assert_int_equal(t.week_day, 4);
	assert_int_equal(t.hour * 10000 + t.minute * 100 + t.second, 235959);
	/* No sum overflows; what it says there is of no use. */
	zone_local(f->zone, INT64_MAX, &t);
	zone_local(f->zone, INT64_MIN, &t);
}

/* Whatever zone the machine is in. */
static void the_process_zone_is_nothing(void **state)
{
	struct fixture *f = *state;
	struct zone_time t;

	use_libc("<+13>-13");
	assert_ok(open_zone(f, "UTC"), &f->e);
	zone_local(f->zone, 0, &t);
	assert_int_equal(t.year * 10000 + t.month * 100 + t.day, 19700101);
	assert_int_equal(t.hour, 0);
	assert_int_equal(t.offset_s, 0);
}

/* ISO 8601: the days around new year that are of another year's week. */
static void iso_years(void **state)
{
	static const struct {
		int64_t epoch;
		int64_t year;
		unsigned week;
	} cases[] = {
		{ 1104537600, 2004, 53 }, /* Sat 2005-01-01 */
		{ 1136073600, 2005, 52 }, /* Sun 2006-01-01 */
		{ 1199059200, 2008, 1 },  /* Mon 2007-12-31 */
		{ 1230508800, 2009, 1 },  /* Mon 2008-12-29 */
		{ 1262476800, 2009, 53 }, /* Sun 2010-01-03 */
		{ 1262563200, 2010, 1 },  /* Mon 2010-01-04 */
		{ 1609459200, 2020, 53 }, /* Fri 2021-01-01 */
	};

	(void)state;
	for (size_t i = 0; i < TEST_COUNT(cases); i++) {
		struct zone_time t;
		int64_t year = 0;
		unsigned week = 0;

		zone_local(NULL, cases[i].epoch, &t);
		zone_iso_week(&t, &year, &week);
		assert_int_equal(year, cases[i].year);
		assert_int_equal(week, cases[i].week);
	}
}

/* A file by hand: the old block, empty; changes; a rule. */
struct file {
	uint8_t bytes[512];
	size_t n;
};

static void put(struct file *f, const void *p, size_t n)
{
	assert_true(f->n + n <= sizeof(f->bytes));
	memcpy(f->bytes + f->n, p, n);
	f->n += n;
}

static void put_be(struct file *f, uint64_t v, size_t n)
{
	while (n-- > 0) {
		uint8_t b = (uint8_t)(v >> (8 * n));

		put(f, &b, 1);
	}
}

static void put_header(
    struct file *f, unsigned leap, unsigned times, unsigned types)
{
	static const uint8_t zeros[15];

	put(f, "TZif2", 5);
	put(f, zeros, sizeof(zeros));
	put_be(f, 0, 4);
	put_be(f, 0, 4);
	put_be(f, leap, 4);
	put_be(f, times, 4);
	put_be(f, types, 4);
	put_be(f, 4, 4);
}

static void put_type(struct file *f, int32_t offset)
{
	put_be(f, (uint32_t)offset, 4);
	put_be(f, 0, 2);
}

static struct file make_file(const char *rule)
{
	struct file f = { .n = 0 };

	put_header(&f, 0, 0, 1);
	put_type(&f, 0);
	put(&f, "AAA", 4);
	put_header(&f, 0, 0, 1);
	put_type(&f, 0);
	put(&f, "AAA", 4);
	put(&f, "\n", 1);
	put(&f, rule, strlen(rule));
	put(&f, "\n", 1);
	return f;
}

static int decode(struct fixture *f, const struct file *file)
{
	/* In a block of its own, so that a byte too many is seen. */
	uint8_t *p = malloc(file->n + (file->n == 0));
	int rc = 0;

	assert_non_null(p);
	memcpy(p, file->bytes, file->n);
	zone_free(f->zone);
	f->zone = NULL;
	f->e = (struct err)ERR_INIT;
	rc = zone_decode(p, file->n, &f->zone, &f->e);
	free(p);
	return rc;
}

/* What the last line of a file can say, as libc understands it in TZ. */
static void rules_as_libc(void **state)
{
	static const char *const rules[] = { "EST5EDT,M3.2.0,M11.1.0",
		"CET-1CEST,M3.5.0,M10.5.0/3", "IST-1GMT0,M10.5.0,M3.5.0/1",
		"<-02>2<-01>,M3.5.0/-1,M10.5.0/0",
		"AAA3BBB,J60/0,J300/23:59:59", "AAA-3:30BBB-4:45:15,59/2,300",
		"AAA0BBB,J1/0,J365/23", "XXX5YYY4,M10.1.0/0,M3.3.0/0", "JST-9",
		"<+1245>-12:45<+1345>,M9.5.0/2:45,M4.1.0/3:45",
		"EET-2EEST,M3.4.4/50,M10.4.4/50" };
	struct fixture *f = *state;
	struct gen g;

	gen_seed(&g, 7);
	for (size_t i = 0; i < TEST_COUNT(rules); i++) {
		struct file file = make_file(rules[i]);

		assert_ok(decode(f, &file), &f->e);
		use_libc(rules[i]);
		for (int n = 0; n < 5000; n++)
			assert_same(f->zone,
			    (int64_t)gen_below(&g, 400 * YEAR_S), rules[i]);
		/* Two days around each new year. */
		for (int64_t t = 1703980800; t < 1703980800 + 200 * YEAR_S;
		     t += 365 * 86400 / 8 * 8 + 21600 + 613)
			assert_same(f->zone, t, rules[i]);
	}
}

/* Summer for ever: the year's end and the next start are one instant. */
static void a_summer_without_end(void **state)
{
	struct fixture *f = *state;
	struct file file = make_file("EST5EDT,0/0,J365/25");

	assert_ok(decode(f, &file), &f->e);
	for (int64_t t = 0; t < 3 * YEAR_S; t += 1800) {
		struct zone_time now;

		zone_local(f->zone, t, &now);
		assert_int_equal(now.offset_s, -4 * 3600);
	}
}

/* Changes of a file that has no rule: the last one holds for ever. */
static void without_a_rule(void **state)
{
	struct fixture *f = *state;
	struct file file = { .n = 0 };
	struct zone_time t;

	put_header(&file, 0, 0, 1);
	put_type(&file, 0);
	put(&file, "AAA", 4);
	put_header(&file, 0, 2, 2);
	put_be(&file, (uint64_t)-1000, 8);
	put_be(&file, 1000, 8);
	put_be(&file, 1, 1);
	put_be(&file, 0, 1);
	put_type(&file, 3600);
	put_type(&file, -1800);
	put(&file, "AAA", 4);
	put(&file, "\n\n", 2);
	assert_ok(decode(f, &file), &f->e);
	zone_local(f->zone, -1001, &t);
	assert_int_equal(t.offset_s, 3600);
	zone_local(f->zone, -1000, &t);
	assert_int_equal(t.offset_s, -1800);
	zone_local(f->zone, 999, &t);
	assert_int_equal(t.offset_s, -1800);
	zone_local(f->zone, 1000, &t);
	assert_int_equal(t.offset_s, 3600);
	zone_local(f->zone, 5000000000, &t);
	assert_int_equal(t.offset_s, 3600);
	/* Cut anywhere it is no zone. */
	for (size_t n = file.n; n-- > 0;) {
		struct file part = file;

		part.n = n;
		assert_err(decode(f, &part), &f->e, ERR_CORRUPT, "");
	}
}

static void bad_files(void **state)
{
	static const char *const rules[] = { "A0", "AAA", "AAAx", "<AAA0",
		"AAA25", "AAA0BBB", "AAA0BBB,J0,J1", "AAA0BBB,J1,J366",
		"AAA0BBB,M13.1.0,J1", "AAA0BBB,M1.6.0,J1", "AAA0BBB,M1.1.7,J1",
		"AAA0BBB,J1/168,J2", "AAA0BBB,J1,J2,", "AAA0BBB,J1", "AAA0,",
		"AAA0:60", "AAA0BBB,J1/1:,J2", "AAA0BBB,00001,J2" };
	struct fixture *f = *state;
	struct file file;

	for (size_t i = 0; i < TEST_COUNT(rules); i++) {
		file = make_file(rules[i]);
		assert_err(decode(f, &file), &f->e, ERR_CORRUPT, "the rule");
	}
	file = make_file("AAA0");
	file.bytes[0] = 't';
	assert_err(
	    decode(f, &file), &f->e, ERR_CORRUPT, "want one that begins");
	file = make_file("AAA0");
	file.bytes[4] = 0;
	assert_err(decode(f, &file), &f->e, ERR_UNSUPPORTED, "version 1");
	file = make_file("AAA0");
	file.bytes[54 + 4 * 5 + 20 - 4 * 5 + 16 + 3] = 0;
	assert_err(decode(f, &file), &f->e, ERR_CORRUPT, "0 kinds");
	file = make_file("AAA0");
	file.bytes[54 + 20 + 8] = 255;
	assert_err(decode(f, &file), &f->e, ERR_CORRUPT, "too early");
	file = make_file("AAA0");
	file.bytes[54 + 44] = 127;
	assert_err(decode(f, &file), &f->e, ERR_CORRUPT, "an offset of 21");
}

static void bad_transitions(void **state)
{
	struct fixture *f = *state;
	struct file file = { .n = 0 };
	size_t times = 0;
	size_t kinds = 0;

	put_header(&file, 0, 0, 1);
	put_type(&file, 0);
	put(&file, "AAA", 4);
	put_header(&file, 0, 2, 1);
	times = file.n;
	put_be(&file, 5, 8);
	put_be(&file, 6, 8);
	kinds = file.n;
	put_be(&file, 0, 2);
	put_type(&file, 0);
	put(&file, "AAA", 4);
	put(&file, "\nAAA0\n", 6);
	assert_ok(decode(f, &file), &f->e);
	file.bytes[times + 15] = 5;
	assert_err(decode(f, &file), &f->e, ERR_CORRUPT,
	    "change number 1 is not behind the one before");
	file.bytes[times + 15] = 6;
	file.bytes[kinds + 1] = 1;
	assert_err(decode(f, &file), &f->e, ERR_CORRUPT,
	    "change number 1 is to kind 1 of 1");
}

/* Leap seconds: such a zone's times are not those of files. */
static void leap_seconds(void **state)
{
	struct fixture *f = *state;
	struct file file = { .n = 0 };

	put_header(&file, 0, 0, 1);
	put_type(&file, 0);
	put(&file, "AAA", 4);
	put_header(&file, 1, 0, 1);
	put_type(&file, 0);
	put(&file, "AAA", 4);
	put_be(&file, 78796800, 8);
	put_be(&file, 1, 4);
	put(&file, "\n\n", 2);
	assert_err(
	    decode(f, &file), &f->e, ERR_UNSUPPORTED, "counts leap seconds");
}

static void bad_names(void **state)
{
	static const char *const names[] = { "", "/etc/localtime", "../x", "a/",
		"a//b", "a/../b", ".", "Europe/Berlin ", "a\nb", ":UTC",
		("a234567890123456789012345678901234567890123456789012345678901"
		 "234") };
	struct fixture *f = *state;

	for (size_t i = 0; i < TEST_COUNT(names); i++)
		assert_err(open_zone(f, names[i]), &f->e, ERR_INVALID,
		    "is no time zone, want a name like 'Europe/Berlin'");
	assert_err(open_zone(f, "localtime"), &f->e, ERR_INVALID,
	    "whatever zone a machine is in");
	assert_err(open_zone(f, "Europe/Atlantis"), &f->e, ERR_INVALID,
	    "time zone 'Europe/Atlantis': there is no "
	    "'/usr/share/zoneinfo/Europe/Atlantis'");
	if (!has_tzdata())
		return;
	assert_err(open_zone(f, "Europe"), &f->e, ERR_INVALID, "is no file");
	assert_err(
	    open_zone(f, "Europe/Berlin/x"), &f->e, ERR_INVALID, "there is no");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(as_libc_says, setup, teardown),
		cmocka_unit_test_setup_teardown(at_the_change, setup, teardown),
		cmocka_unit_test_setup_teardown(
		    utc_needs_no_file, setup, teardown),
		cmocka_unit_test_setup_teardown(
		    the_process_zone_is_nothing, setup, teardown),
		cmocka_unit_test(iso_years),
		cmocka_unit_test_setup_teardown(rules_as_libc, setup, teardown),
		cmocka_unit_test_setup_teardown(
		    a_summer_without_end, setup, teardown),
		cmocka_unit_test_setup_teardown(
		    without_a_rule, setup, teardown),
		cmocka_unit_test_setup_teardown(bad_files, setup, teardown),
		cmocka_unit_test_setup_teardown(
		    bad_transitions, setup, teardown),
		cmocka_unit_test_setup_teardown(leap_seconds, setup, teardown),
		cmocka_unit_test_setup_teardown(bad_names, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
