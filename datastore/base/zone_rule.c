/* SPDX-License-Identifier: MIT */
/*
 * The last line of a time zone's file: the rule for all times to come.
 */
#include <string.h>

#include "datastore/base/zone_internal.h"

#define HOUR_S 3600
#define MINUTE_S 60

/* Hours of an offset from UTC, and of the time of a change (RFC 9636). */
#define OFFSET_HOURS 24U
#define TIME_HOURS 167U

/* What is still to be read. */
struct cursor {
	const char *at;
	const char *end;
};

static bool next_is(const struct cursor *c, char want)
{
	return c->at < c->end && *c->at == want;
}

static bool take(struct cursor *c, char want)
{
	bool is = next_is(c, want);

	c->at += is;
	return is;
}

static bool is_digit(char ch)
{
	return ch >= '0' && ch <= '9';
}

static bool is_letter(char ch)
{
	return (ch >= 'A' && ch <= 'Z') || (ch >= 'a' && ch <= 'z');
}

/* At most three digits. */
static bool take_number(
    struct cursor *c, unsigned min, unsigned max, unsigned *ret)
{
	unsigned v = 0;
	size_t n = 0;

	for (; c->at < c->end && is_digit(*c->at) && n < 4; n++)
		v = v * 10 + (unsigned)(*c->at++ - '0');
	if (n == 0 || n > 3 || v < min || v > max)
		return false;
	*ret = v;
	return true;
}

/* Three letters or more, or anything in angle brackets; what it is called is
 * nothing to us. */
static bool take_name(struct cursor *c)
{
	const char *begin = c->at;

	if (take(c, '<')) {
		while (c->at < c->end && *c->at != '>')
			c->at++;
		return take(c, '>');
	}
	while (c->at < c->end && is_letter(*c->at))
		c->at++;
	return c->at - begin >= 3;
}

/* [+-]hh[:mm[:ss]] */
static bool take_clock(struct cursor *c, unsigned max_hours, int32_t *ret)
{
	bool negative = take(c, '-');
	unsigned h = 0;
	unsigned m = 0;
	unsigned s = 0;
	int32_t v = 0;

	if (!negative)
		(void)take(c, '+');
	if (!take_number(c, 0, max_hours, &h))
		return false;
	if (take(c, ':')) {
		if (!take_number(c, 0, 59, &m))
			return false;
		if (take(c, ':') && !take_number(c, 0, 59, &s))
			return false;
	}
	v = (int32_t)(h * HOUR_S + m * MINUTE_S + s);
	*ret = negative ? -v : v;
	return true;
}

/* Jn, n or Mm.w.d, and perhaps /time. */
static bool take_day(struct cursor *c, struct zone_day *ret)
{
	struct zone_day d = { .time_s = 2 * HOUR_S };
	bool good = false;

	if (take(c, 'J')) {
		d.kind = ZONE_DAY_JULIAN;
		good = take_number(c, 1, 365, &d.number);
	} else if (take(c, 'M')) {
		d.kind = ZONE_DAY_WEEK;
		good = take_number(c, 1, 12, &d.month) && take(c, '.') &&
		    take_number(c, 1, 5, &d.week) && take(c, '.') &&
		    take_number(c, 0, 6, &d.week_day);
	} else {
		d.kind = ZONE_DAY_ZERO;
		good = take_number(c, 0, 365, &d.number);
	}
	if (good && take(c, '/'))
		good = take_clock(c, TIME_HOURS, &d.time_s);
	*ret = d;
	return good;
}

/* Behind the standard time: name, offset and the days of both changes. */
static bool take_dst(struct cursor *c, struct zone_rule *r)
{
	int32_t west = 0;

	r->has_dst = true;
	r->dst_s = r->std_s + HOUR_S;
	if (!take_name(c))
		return false;
	if (!next_is(c, ',')) {
		if (!take_clock(c, OFFSET_HOURS, &west))
			return false;
		r->dst_s = -west;
	}
	return take(c, ',') && take_day(c, &r->start) && take(c, ',') &&
	    take_day(c, &r->end);
}

int zone_rule_parse(
    const char *s, size_t n, struct zone_rule *ret, struct err *e)
{
	struct cursor c = { .at = s, .end = s + n };
	struct zone_rule r = { .has_dst = false };
	int32_t west = 0;
	bool good = take_name(&c) && take_clock(&c, OFFSET_HOURS, &west);

	r.std_s = -west;
	if (good && c.at < c.end)
		good = take_dst(&c, &r);
	if (!good || c.at < c.end) {
		return err_set(e, ERR_CORRUPT,
		    "the rule for times to come is none, want one like "
		    "'CET-1CEST,M3.5.0,M10.5.0/3'");
	}
	*ret = r;
	return 0;
}

/* 0 Sunday to 6, of a number of days since a Thursday. */
static unsigned week_day_of(int64_t days)
{
	int64_t r = (days + 4) % 7;

	return (unsigned)(r < 0 ? r + 7 : r);
}

static int64_t day_in(const struct zone_day *d, int64_t year)
{
	unsigned first = 0;
	unsigned day = 0;

	switch (d->kind) {
	case ZONE_DAY_JULIAN:
		day = d->number - 1;
		/* Behind February 28th a leap year has one more. */
		if (zone_is_leap(year) && d->number > 59)
			day++;
		return zone_days(year, 1, 1) + day;
	case ZONE_DAY_ZERO:
		return zone_days(year, 1, 1) + d->number;
	case ZONE_DAY_WEEK:
		break;
	}
	first = week_day_of(zone_days(year, d->month, 1));
	day = (d->week_day + 7 - first) % 7 + (d->week - 1) * 7;
	while (day >= zone_month_days(year, d->month))
		day -= 7;
	return zone_days(year, d->month, 1) + day;
}

/*
 * The last change that is not behind `epoch` says what holds.  The times of
 * changes may lie days off their dates, so the years beside are looked at, too.
 * Where both fall on one instant, as in a zone whose summer never ends, the
 * start comes last.
 */
int32_t zone_rule_offset(const struct zone_rule *r, int64_t epoch)
{
	int64_t seconds = epoch + r->std_s;
	int64_t days =
	    seconds / ZONE_DAY_S - (seconds % ZONE_DAY_S < 0 ? 1 : 0);
	int64_t year = zone_year_of(days);
	int64_t latest = INT64_MIN;
	int32_t offset = r->std_s;

	if (!r->has_dst)
		return r->std_s;
	for (int64_t y = year - 1; y <= year + 1; y++) {
		int64_t end =
		    day_in(&r->end, y) * ZONE_DAY_S + r->end.time_s - r->dst_s;
		int64_t start = day_in(&r->start, y) * ZONE_DAY_S +
		    r->start.time_s - r->std_s;

		if (end <= epoch && end > latest) {
			latest = end;
			offset = r->std_s;
		}
		if (start <= epoch && start >= latest) {
			latest = start;
			offset = r->dst_s;
		}
	}
	return offset;
}
