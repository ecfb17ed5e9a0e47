/* SPDX-License-Identifier: MIT */
/*
 * zone_internal: a zone from the inside.
 *
 *     zone.c        opening, looking up, the calendar
 *     zone_tzif.c   the file
 *     zone_rule.c   its last line, which rules all times to come
 */
#ifndef CAIRN_DATASTORE_BASE_ZONE_INTERNAL_H
#define CAIRN_DATASTORE_BASE_ZONE_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "datastore/base/zone.h"

/* A day of each year, and the time of it on the clock until then. */
struct zone_day {
	enum {
		ZONE_DAY_JULIAN, /* 1 to 365; February 29th is not counted */
		ZONE_DAY_ZERO,   /* 0 to 365 */
		ZONE_DAY_WEEK,   /* that weekday, the how-manieth of a month */
	} kind;
	unsigned number;   /* of JULIAN and ZERO */
	unsigned month;    /* 1 to 12 */
	unsigned week;     /* 1 to 5, 5 the last one */
	unsigned week_day; /* 0 Sunday to 6 */
	int32_t time_s;    /* may lie in another day */
};

/* POSIX's TZ, as RFC 9636 extends it. */
struct zone_rule {
	int32_t std_s; /* ahead of UTC */
	bool has_dst;
	int32_t dst_s;
	struct zone_day start;
	struct zone_day end;
};

struct zone {
	int64_t *at; /* rising: from here on ... */
	uint8_t *kind;
	size_t n;
	int32_t *offsets; /* ... the clock is so far ahead, by kind */
	size_t offsets_n; /* at least 1 */
	bool has_rule;    /* from at[n - 1] on */
	struct zone_rule rule;
};

#define ZONE_DAY_S 86400

/* Days since 1970-01-01 of a date that exists. */
int64_t zone_days(int64_t year, unsigned month, unsigned day);
bool zone_is_leap(int64_t year);
unsigned zone_month_days(int64_t year, unsigned month);
/* The year that this day, in days since 1970-01-01, lies in. */
int64_t zone_year_of(int64_t days);

/* n bytes of text, without its newlines. ERR_CORRUPT. */
int zone_rule_parse(
    const char *s, size_t n, struct zone_rule *ret, struct err *e);
/* How far ahead of UTC. */
int32_t zone_rule_offset(const struct zone_rule *r, int64_t epoch);

#endif
