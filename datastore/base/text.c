/* SPDX-License-Identifier: MIT */
#include "datastore/base/text.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "datastore/base/bytes.h"

/* An argument's place in an error message. */
#define QUOTE_SIZE 64

/* Four bytes of UTF-8 as \xNN each, and a NUL. */
#define PIECE_SIZE 17

/*
 * Decode the code point at p, of n > 0 bytes.  Returns its length in bytes, 0
 * if it is not UTF-8.  The smallest number that needs a length is the bound
 * that finds over-long forms.
 */
static size_t utf8_decode(const uint8_t *p, size_t n, uint32_t *ret_point)
{
	static const uint32_t smallest[5] = { 0, 0, 0x80, 0x800, 0x10000 };
	uint32_t point = p[0];
	size_t len = 0;

	if (p[0] < 0x80) {
		*ret_point = point;
		return 1;
	}
	if (p[0] >= 0xf8 || p[0] < 0xc0)
		return 0;
	len = p[0] >= 0xf0 ? 4 : p[0] >= 0xe0 ? 3 : 2;
	if (len > n)
		return 0;
	point &= 0x7fU >> len;
	for (size_t i = 1; i < len; i++) {
		if ((p[i] & 0xc0) != 0x80)
			return 0;
		point = point << 6 | (p[i] & 0x3fU);
	}
	if (point < smallest[len] || point > 0x10ffff ||
	    (point >= 0xd800 && point <= 0xdfff))
		return 0;
	*ret_point = point;
	return len;
}

/*
 * What drives a terminal, breaks a line or turns the direction of writing:
 * C0, DEL, C1, the line separators and the bidirectional controls.
 */
static bool is_control(uint32_t point)
{
	return point < 0x20 || (point >= 0x7f && point < 0xa0) ||
	    point == 0x2028 || point == 0x2029 ||
	    (point >= 0x202a && point <= 0x202e) ||
	    (point >= 0x2066 && point <= 0x2069);
}

/*
 * The first piece of a name, that is one code point or one bad byte, as text.
 * Returns how many bytes of p it stands for.
 */
static size_t shown_piece(const uint8_t *p, size_t n, char out[PIECE_SIZE])
{
	static const char digits[] = "0123456789abcdef";
	uint32_t point = 0;
	size_t len = utf8_decode(p, n, &point);
	size_t used = len == 0 ? 1 : len;
	const char *escape = NULL;

	if (len == 1) {
		escape = p[0] == '\n' ? "\\n"
		    : p[0] == '\t'    ? "\\t"
		    : p[0] == '\\'    ? "\\\\"
				      : NULL;
	}
	if (escape != NULL) {
		(void)snprintf(out, PIECE_SIZE, "%s", escape);
		return used;
	}
	if (len > 0 && !is_control(point)) {
		memcpy(out, p, len);
		out[len] = '\0';
		return used;
	}
	for (size_t i = 0; i < used; i++) {
		*out++ = '\\';
		*out++ = 'x';
		*out++ = digits[p[i] >> 4];
		*out++ = digits[p[i] & 15];
	}
	*out = '\0';
	return used;
}

int text_append_name(struct buf *out, const void *name, size_t n, struct err *e)
{
	const uint8_t *p = name;
	size_t len = out->len;
	char piece[PIECE_SIZE];

	while (n > 0) {
		size_t used = shown_piece(p, n, piece);
		int rc = buf_append_str(out, piece, e);

		if (rc < 0) {
			out->len = len;
			return rc;
		}
		p += used;
		n -= used;
	}
	return 0;
}

const char *text_name(char *out, size_t size, const char *name)
{
	return text_bytes(out, size, name, strlen(name));
}

const char *text_bytes(char *out, size_t size, const void *name, size_t n)
{
	static const char dots[] = "...";
	const uint8_t *p = name;
	size_t cut = 0; /* the longest part that leaves room for the dots */
	size_t len = 0;
	char piece[PIECE_SIZE];

	assert(size >= 8);
	while (n > 0) {
		size_t used = shown_piece(p, n, piece);
		size_t piece_len = strlen(piece);

		if (len + piece_len >= size) {
			memcpy(out + cut, dots, sizeof(dots));
			return out;
		}
		memcpy(out + len, piece, piece_len);
		len += piece_len;
		if (len + sizeof(dots) <= size)
			cut = len;
		p += used;
		n -= used;
	}
	out[len] = '\0';
	return out;
}

bool text_is_utf8(const void *p, size_t n)
{
	const uint8_t *b = p;

	while (n > 0) {
		uint32_t point = 0;
		size_t len = utf8_decode(b, n, &point);

		if (len == 0)
			return false;
		b += len;
		n -= len;
	}
	return true;
}

const char *text_size(char out[TEXT_SIZE_SIZE], uint64_t bytes)
{
	static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB",
		"PiB", "EiB" };
	const char *const *unit = units;
	uint64_t rest = 0;
	uint64_t parts = 0; /* of 1/10000 of the unit */
	uint64_t step = 10;
	unsigned shift = 0;
	size_t len = 0;

	while (bytes >> shift >= 1024) {
		shift += 10;
		unit++;
	}
	rest = bytes - (bytes >> shift << shift);
	parts = (bytes >> shift) * 10000;
	/* rest * 10000 has to fit; 2^-40 of a unit changes nothing. */
	if (shift > 40) {
		parts += (rest >> (shift - 40)) * 10000 >> 40;
	} else {
		parts += rest * 10000 >> shift;
	}
	while (step < 10000 && parts >= step * 10000)
		step *= 10;
	parts = (parts + step / 2) / step * step;
	if (parts == UINT64_C(1024) * 10000) {
		parts = 10000;
		unit++;
	}
	(void)snprintf(out, TEXT_SIZE_SIZE, "%u.%03u",
	    (unsigned)(parts / 10000), (unsigned)(parts % 10000 / 10));
	len = strlen(out);
	while (out[len - 1] == '0')
		len--;
	if (out[len - 1] == '.')
		len--;
	(void)snprintf(out + len, TEXT_SIZE_SIZE - len, " %s", *unit);
	return out;
}

/* Falling, as text_parse_duration wants them. */
static const struct {
	char letter;
	uint64_t seconds;
} duration_units[] = {
	{ 'w', 604800 },
	{ 'd', 86400 },
	{ 'h', 3600 },
	{ 'm', 60 },
	{ 's', 1 },
};

#define DURATION_UNITS (sizeof(duration_units) / sizeof(duration_units[0]))

const char *text_plural(uint64_t n, const char *one, const char *many)
{
	return n == 1 ? one : many;
}

const char *text_duration(char out[TEXT_DURATION_SIZE], uint64_t seconds)
{
	size_t i = 1; /* people count days, not weeks */
	uint64_t first = 0;
	uint64_t second = 0;

	while (i + 1 < DURATION_UNITS && seconds < duration_units[i].seconds)
		i++;
	first = seconds / duration_units[i].seconds;
	seconds %= duration_units[i].seconds;
	if (i + 1 < DURATION_UNITS)
		second = seconds / duration_units[i + 1].seconds;
	if (second == 0) {
		(void)snprintf(out, TEXT_DURATION_SIZE, "%" PRIu64 "%c", first,
		    duration_units[i].letter);
	} else {
		(void)snprintf(out, TEXT_DURATION_SIZE,
		    "%" PRIu64 "%c%" PRIu64 "%c", first,
		    duration_units[i].letter, second,
		    duration_units[i + 1].letter);
	}
	return out;
}

/*
 * The calendar is computed here and not by gmtime: that one may count leap
 * seconds, as TZ says, and the format has none.
 */
#define DAY_S 86400
#define EPOCH_DAY 719528           /* days from 0000-01-01 to 1970-01-01 */
#define YEAR_0_S (-62167219200LL)  /* 0000-01-01T00:00:00Z */
#define YEAR_9999_S 253402300799LL /* 9999-12-31T23:59:59Z */

static bool is_leap(unsigned year)
{
	return (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
}

/* Days from 0000-01-01 to the first of the year. */
static unsigned days_before_year(unsigned year)
{
	unsigned past = year - 1; /* the last year that is over */

	if (year == 0)
		return 0;
	/* Year 0 was a leap year and is not in the quotients. */
	return year * 365 + past / 4 - past / 100 + past / 400 + 1;
}

static unsigned days_in_month(unsigned year, unsigned month)
{
	static const unsigned char days[12] = { 31, 28, 31, 30, 31, 30, 31, 31,
		30, 31, 30, 31 };

	return days[month - 1] + (month == 2 && is_leap(year) ? 1U : 0U);
}

const char *text_time(char out[TEXT_TIME_SIZE], int64_t epoch)
{
	unsigned year = 0;
	unsigned month = 1;
	unsigned day = 0;
	unsigned second = 0;

	if (epoch < YEAR_0_S || epoch > YEAR_9999_S) {
		(void)snprintf(out, TEXT_TIME_SIZE, "@%" PRId64, epoch);
		return out;
	}
	day = (unsigned)((epoch - YEAR_0_S) / DAY_S);
	second = (unsigned)((epoch - YEAR_0_S) % DAY_S);
	year = day / 366; /* never too late, few years too early */
	while (days_before_year(year + 1) <= day)
		year++;
	day -= days_before_year(year);
	while (day >= days_in_month(year, month))
		day -= days_in_month(year, month++);
	(void)snprintf(out, TEXT_TIME_SIZE, "%04u-%02u-%02uT%02u:%02u:%02uZ",
	    year, month, day + 1, second / 3600, second / 60 % 60, second % 60);
	return out;
}

/* A number of exactly n digits at s. */
static bool parse_digits(const char *s, size_t n, unsigned *ret)
{
	unsigned v = 0;

	for (size_t i = 0; i < n; i++) {
		if (s[i] < '0' || s[i] > '9')
			return false;
		v = v * 10 + (unsigned)(s[i] - '0');
	}
	*ret = v;
	return true;
}

bool text_parse_time(const char *s, int64_t *ret_epoch)
{
	static const char form[] = "dddd-dd-ddTdd:dd:ddZ";
	unsigned year = 0, month = 0, day = 0, hour = 0, minute = 0;
	unsigned second = 0;
	int64_t epoch = 0;

	if (strlen(s) != sizeof(form) - 1)
		return false;
	for (size_t i = 0; form[i] != '\0'; i++) {
		if (form[i] != 'd' && form[i] != s[i])
			return false;
	}
	if (!parse_digits(s, 4, &year) || !parse_digits(s + 5, 2, &month) ||
	    !parse_digits(s + 8, 2, &day) || !parse_digits(s + 11, 2, &hour) ||
	    !parse_digits(s + 14, 2, &minute) ||
	    !parse_digits(s + 17, 2, &second))
		return false;
	if (month < 1 || month > 12 || day < 1 ||
	    day > days_in_month(year, month) || hour > 23 || minute > 59 ||
	    second > 59)
		return false;
	day += days_before_year(year);
	for (unsigned m = 1; m < month; m++)
		day += days_in_month(year, m);
	second += minute * 60 + hour * 3600;
	epoch = ((int64_t)day - 1 - EPOCH_DAY) * DAY_S + second;
	if (epoch < 1)
		return false;
	*ret_epoch = epoch;
	return true;
}

/*
 * The digits at *s; *s stands behind them then.  False if there is none or if
 * the number needs more than 64 bits.
 */
static bool take_number(const char **s, uint64_t *ret)
{
	const char *p = *s;
	uint64_t v = 0;

	for (; *p >= '0' && *p <= '9'; p++) {
		if (!bytes_mul_u64(v, 10, &v) ||
		    !bytes_add_u64(v, (uint64_t)(*p - '0'), &v))
			return false;
	}
	if (p == *s)
		return false;
	*s = p;
	*ret = v;
	return true;
}

int text_parse_size(const char *s, uint64_t *ret_bytes, struct err *e)
{
	static const char units[] = "bkmgtp";
	char quote[QUOTE_SIZE];
	const char *p = s;
	const char *unit = NULL;
	uint64_t bytes = 0;
	bool ok = take_number(&p, &bytes);

	if (ok && *p != '\0') {
		unit = strchr(units, *p | 0x20);
		ok = unit != NULL;
		p++;
		if (ok && unit != units && strcmp(p, "iB") == 0)
			p += 2;
		ok = ok && *p == '\0' &&
		    bytes_mul_u64(
			bytes, (uint64_t)1 << (10 * (unit - units)), &bytes);
	}
	if (!ok) {
		return err_set(e, ERR_INVALID,
		    "'%s' is no size, want a number of bytes below 16 EiB "
		    "with or without K, M, G, T or P behind it",
		    text_name(quote, sizeof(quote), s));
	}
	*ret_bytes = bytes;
	return 0;
}

/* Add number * unit; unit_at is the first unit that may still come. */
static bool take_duration_part(
    const char **s, size_t *unit_at, uint64_t *seconds)
{
	uint64_t number = 0;
	size_t i = *unit_at;

	if (!take_number(s, &number))
		return false;
	while (i < DURATION_UNITS && duration_units[i].letter != **s)
		i++;
	if (i == DURATION_UNITS ||
	    !bytes_mul_u64(number, duration_units[i].seconds, &number) ||
	    !bytes_add_u64(*seconds, number, seconds))
		return false;
	(*s)++;
	*unit_at = i + 1;
	return true;
}

int text_parse_duration(const char *s, uint64_t *ret_seconds, struct err *e)
{
	char quote[QUOTE_SIZE];
	const char *p = s;
	uint64_t seconds = 0;
	size_t unit_at = 0;

	if (take_number(&p, &seconds) && *p == '\0') {
		*ret_seconds = seconds;
		return 0;
	}
	p = s;
	seconds = 0;
	do {
		if (!take_duration_part(&p, &unit_at, &seconds)) {
			return err_set(e, ERR_INVALID,
			    "'%s' is no duration, want seconds or a sum like "
			    "1w2d3h4m5s",
			    text_name(quote, sizeof(quote), s));
		}
	} while (*p != '\0');
	*ret_seconds = seconds;
	return 0;
}

int text_parse_u64(
    const char *s, uint64_t min, uint64_t max, uint64_t *ret, struct err *e)
{
	char quote[QUOTE_SIZE];
	const char *p = s;
	uint64_t v = 0;

	if (!take_number(&p, &v) || *p != '\0' || v < min || v > max) {
		return err_set(e, ERR_INVALID,
		    "'%s' is no whole number between %" PRIu64 " and %" PRIu64,
		    text_name(quote, sizeof(quote), s), min, max);
	}
	*ret = v;
	return 0;
}
