/* SPDX-License-Identifier: MIT */
#include "datastore/retention.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "datastore/base/text.h"

#define DAY_S INT64_C(86400)

/* What a clock may be put forward or back within a period. */
#define SHIFT_S (2 * DAY_S)

/* More than anybody has. */
#define COUNT_MAX UINT32_MAX

static const struct {
	const char *name;
	int64_t span_s; /* of two times of one period, at most */
} rules[RETENTION_RULES] = {
	[RETENTION_WITHIN] = { "keep-within", 0 },
	[RETENTION_LAST] = { "keep-last", 0 },
	[RETENTION_HOURLY] = { "keep-hourly", 3600 + SHIFT_S },
	[RETENTION_DAILY] = { "keep-daily", DAY_S + SHIFT_S },
	[RETENTION_WEEKLY] = { "keep-weekly", 7 * DAY_S + SHIFT_S },
	[RETENTION_MONTHLY] = { "keep-monthly", 31 * DAY_S + SHIFT_S },
	[RETENTION_YEARLY] = { "keep-yearly", 366 * DAY_S + SHIFT_S },
};

const char *retention_name(enum retention_rule rule)
{
	return rules[rule].name;
}

int retention_set(struct retention_policy *p, enum retention_rule rule,
    const char *value, struct err *e)
{
	uint64_t v = 0;
	int rc = rule == RETENTION_WITHIN
	    ? text_parse_duration(value, &v, e)
	    : text_parse_u64(value, 0, COUNT_MAX, &v, e);

	if (rc < 0)
		return rc;
	p->given[rule] = true;
	p->value[rule] = v;
	return 0;
}

bool retention_is_given(const struct retention_policy *p)
{
	for (size_t i = 0; i < RETENTION_RULES; i++) {
		if (p->given[i])
			return true;
	}
	return false;
}

/* One call of retention_decide. */
struct deciding {
	const struct retention_policy *policy;
	const struct zone *zone;
	const struct retention_item *items;
	size_t n;
	struct retention_decision *d;
};

static void decide(
    struct retention_decision *d, bool keep, enum retention_reason reason)
{
	d->keep = keep;
	d->reason = reason;
}

static bool is_set_aside(const struct retention_decision *d)
{
	return d->reason == RETENTION_FUTURE || d->reason == RETENTION_HURT;
}

/* What has no part in anything. */
static void set_aside(struct deciding *c, int64_t now)
{
	for (size_t i = 0; i < c->n; i++) {
		if (c->items[i].half_removed)
			decide(&c->d[i], false, RETENTION_HALF_REMOVED);
		else if (c->items[i].time > now)
			decide(&c->d[i], true, RETENTION_FUTURE);
		else if (c->items[i].finished && c->items[i].hurt)
			decide(&c->d[i], true, RETENTION_HURT);
	}
}

/*
 * An unfinished one that is newer than all finished ones may be a backup that
 * is being made; any other one never ends.  What is protected stays, but it
 * is looked at like the others.
 */
static void decide_unfinished(struct deciding *c)
{
	bool newest = true;

	for (size_t i = c->n; i-- > 0;) {
		struct retention_decision *d = &c->d[i];

		if (d->reason != RETENTION_UNDECIDED)
			continue;
		if (!c->items[i].finished) {
			decide(d, newest,
			    newest ? RETENTION_PARTIAL : RETENTION_UNFINISHED);
		}
		newest = false;
	}
	for (size_t i = 0; i < c->n; i++) {
		if (c->items[i].is_protected && !is_set_aside(&c->d[i]) &&
		    c->d[i].reason != RETENTION_HALF_REMOVED)
			decide(&c->d[i], true, RETENTION_PROTECTED);
	}
}

static void decide_within(struct deciding *c)
{
	uint64_t within = c->policy->value[RETENTION_WITHIN];
	int64_t newest = 0;

	if (!c->policy->given[RETENTION_WITHIN] || within == 0)
		return;
	for (size_t i = 0; i < c->n; i++) {
		if (c->items[i].finished && !is_set_aside(&c->d[i]))
			newest = c->items[i].time;
	}
	for (size_t i = 0; i < c->n; i++) {
		struct retention_decision *d = &c->d[i];

		if (d->reason != RETENTION_UNDECIDED ||
		    (uint64_t)(newest - c->items[i].time) > within)
			continue;
		decide(d, true, RETENTION_RULE);
		d->rule = RETENTION_WITHIN;
	}
}

/* The period of a time as a number: the same for two times of one period. */
static int64_t key_of(
    const struct zone *z, enum retention_rule rule, int64_t time)
{
	struct zone_time t;
	int64_t year = 0;
	unsigned week = 0;

	zone_local(z, time, &t);
	switch (rule) {
	case RETENTION_HOURLY:
		return ((t.year * 12 + t.month) * 32 + t.day) * 24 + t.hour;
	case RETENTION_DAILY:
		return (t.year * 12 + t.month) * 32 + t.day;
	case RETENTION_WEEKLY:
		zone_iso_week(&t, &year, &week);
		return year * 54 + week;
	case RETENTION_MONTHLY:
		return t.year * 12 + t.month;
	case RETENTION_YEARLY:
		return t.year;
	case RETENTION_WITHIN:
	case RETENTION_LAST:
	case RETENTION_RULES:
		break;
	}
	return time;
}

static void write_period(const struct zone *z, enum retention_rule rule,
    int64_t time, char out[RETENTION_PERIOD_SIZE])
{
	struct zone_time t;
	int64_t year = 0;
	unsigned week = 0;
	const size_t size = RETENTION_PERIOD_SIZE;

	zone_local(z, time, &t);
	out[0] = '\0';
	switch (rule) {
	case RETENTION_HOURLY:
		(void)snprintf(out, size, "%04" PRId64 "-%02u-%02uT%02u",
		    t.year, t.month, t.day, t.hour);
		break;
	case RETENTION_DAILY:
		(void)snprintf(out, size, "%04" PRId64 "-%02u-%02u", t.year,
		    t.month, t.day);
		break;
	case RETENTION_WEEKLY:
		zone_iso_week(&t, &year, &week);
		(void)snprintf(out, size, "%04" PRId64 "-W%02u", year, week);
		break;
	case RETENTION_MONTHLY:
		(void)snprintf(
		    out, size, "%04" PRId64 "-%02u", t.year, t.month);
		break;
	case RETENTION_YEARLY:
		(void)snprintf(out, size, "%04" PRId64, t.year);
		break;
	case RETENTION_WITHIN:
	case RETENTION_LAST:
	case RETENTION_RULES:
		break;
	}
}

static bool covers(const struct deciding *c, size_t i, size_t j)
{
	return c->d[j].reason == RETENTION_RULE && c->d[j].key == c->d[i].key;
}

/*
 * One that was kept, by this rule or an earlier one, in the period of item i;
 * c->n if there is none.  Looked for among the neighbours: the newer ones
 * first, where it is at once if there is one.
 */
static size_t find_kept(
    const struct deciding *c, enum retention_rule rule, size_t i)
{
	const struct retention_item *items = c->items;
	int64_t span = rules[rule].span_s;

	for (size_t j = i + 1;
	     j < c->n && items[j].time - items[i].time <= span; j++) {
		if (covers(c, i, j))
			return j;
	}
	for (size_t j = i; j-- > 0 && items[i].time - items[j].time <= span;) {
		if (covers(c, i, j))
			return j;
	}
	return c->n;
}

static void apply(struct deciding *c, enum retention_rule rule)
{
	uint64_t left = c->policy->given[rule] ? c->policy->value[rule] : 0;

	if (left == 0)
		return;
	for (size_t i = 0; i < c->n; i++)
		c->d[i].key = key_of(c->zone, rule, c->items[i].time);
	for (size_t i = c->n; i-- > 0;) {
		struct retention_decision *d = &c->d[i];
		size_t kept = 0;

		if (d->reason != RETENTION_UNDECIDED)
			continue;
		kept = find_kept(c, rule, i);
		/* A later rule may still want it. */
		if (kept < c->n && c->d[kept].rule != rule)
			continue;
		if (kept == c->n && left == 0)
			break;
		d->rule = rule;
		write_period(c->zone, rule, c->items[i].time, d->period);
		if (kept < c->n) {
			decide(d, false, RETENTION_COVERED);
		} else {
			decide(d, true, RETENTION_RULE);
			left--;
		}
	}
}

void retention_decide(const struct retention_policy *p, const struct zone *z,
    int64_t now, const struct retention_item *items, size_t n,
    struct retention_decision *ret)
{
	struct deciding c = {
		.policy = p,
		.zone = z,
		.items = items,
		.n = n,
		.d = ret,
	};

	for (size_t i = 0; i < n; i++)
		ret[i] = (struct retention_decision){ .keep = false };
	set_aside(&c, now);
	decide_unfinished(&c);
	decide_within(&c);
	for (int rule = RETENTION_LAST; rule < RETENTION_RULES; rule++)
		apply(&c, (enum retention_rule)rule);
	for (size_t i = 0; i < n; i++) {
		if (ret[i].reason == RETENTION_UNDECIDED)
			decide(&ret[i], false, RETENTION_NO_RULE);
	}
}

bool retention_empties(const struct retention_item *items,
    const struct retention_decision *d, size_t n)
{
	bool any = false;

	for (size_t i = 0; i < n; i++) {
		if (!items[i].finished || is_set_aside(&d[i]) ||
		    d[i].reason == RETENTION_PROTECTED)
			continue;
		if (d[i].keep)
			return false;
		any = true;
	}
	return any;
}

const char *retention_text(
    const struct retention_decision *d, char out[RETENTION_TEXT_SIZE])
{
	const char *text = "";

	switch (d->reason) {
	case RETENTION_RULE:
	case RETENTION_COVERED:
		(void)snprintf(out, RETENTION_TEXT_SIZE, "%s%s%s%s",
		    rules[d->rule].name, d->period[0] == '\0' ? "" : " ",
		    d->period,
		    d->reason == RETENTION_RULE ? "" : " has a newer one");
		return out;
	case RETENTION_PROTECTED:
		text = "protected";
		break;
	case RETENTION_FUTURE:
		text = "dated in the future";
		break;
	case RETENTION_HURT:
		text = "damaged, so it counts for no rule";
		break;
	case RETENTION_PARTIAL:
		text = "unfinished, the newest";
		break;
	case RETENTION_UNFINISHED:
		text = "unfinished, there is a newer one";
		break;
	case RETENTION_HALF_REMOVED:
		text = "its removal was interrupted";
		break;
	case RETENTION_NO_RULE:
		text = "no rule keeps it";
		break;
	case RETENTION_UNDECIDED:
		break;
	}
	(void)snprintf(out, RETENTION_TEXT_SIZE, "%s", text);
	return out;
}

const char *retention_reason_name(enum retention_reason r)
{
	switch (r) {
	case RETENTION_RULE:
		return "rule";
	case RETENTION_PROTECTED:
		return "protected";
	case RETENTION_FUTURE:
		return "future";
	case RETENTION_HURT:
		return "hurt";
	case RETENTION_PARTIAL:
		return "partial";
	case RETENTION_UNFINISHED:
		return "unfinished";
	case RETENTION_HALF_REMOVED:
		return "half-removed";
	case RETENTION_COVERED:
		return "covered";
	case RETENTION_NO_RULE:
		return "no-rule";
	case RETENTION_UNDECIDED:
		break;
	}
	return "undecided";
}
