/* SPDX-License-Identifier: MIT */
/*
 * Retention against a slow implementation that shares nothing with it:
 * periods as text from libc, sets as lists.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "tests/support/gen.h"
#include "tests/support/retentionfix.h"

enum slow {
	SLOW_OPEN,
	SLOW_KEEP,
	SLOW_PARTIAL,
	SLOW_REMOVE,
};

struct words {
	char items[RETENTIONFIX_MAX][40];
	size_t n;
};

static bool has(const struct words *w, const char *s)
{
	for (size_t i = 0; i < w->n; i++)
		if (strcmp(w->items[i], s) == 0)
			return true;
	return false;
}

static void put(struct words *w, const char *s)
{
	(void)snprintf(w->items[w->n++], sizeof(w->items[0]), "%s", s);
}

static void slow_id(size_t rule, int64_t time, char out[40])
{
	time_t when = (time_t)time;
	struct tm tm;

	(void)localtime_r(&when, &tm);
	switch (rule) {
	case RETENTION_HOURLY:
		(void)strftime(out, 40, "%Y/%m/%d/%H", &tm);
		break;
	case RETENTION_DAILY:
		(void)strftime(out, 40, "%Y/%m/%d", &tm);
		break;
	case RETENTION_WEEKLY:
		(void)strftime(out, 40, "%G/%V", &tm);
		break;
	case RETENTION_MONTHLY:
		(void)strftime(out, 40, "%Y/%m", &tm);
		break;
	case RETENTION_YEARLY:
		(void)strftime(out, 40, "%Y", &tm);
		break;
	default:
		(void)strftime(out, 40, "%Y/%m/%d/%H/%M/%S/%z", &tm);
		break;
	}
}

static void slow_rule(
    const struct group *g, enum slow *marks, uint64_t keep, size_t rule)
{
	static struct words covered;
	static struct words chosen;
	char id[40];

	covered.n = 0;
	chosen.n = 0;
	for (int pass = 0; pass < 2; pass++) {
		for (size_t i = g->n; i-- > 0;) {
			if (g->items[i].time > g->now)
				continue;
			slow_id(rule, g->items[i].time, id);
			if (pass == 0) {
				if (marks[i] == SLOW_KEEP)
					put(&covered, id);
				continue;
			}
			if (marks[i] != SLOW_OPEN || g->items[i].is_protected ||
			    has(&covered, id))
				continue;
			if (has(&chosen, id)) {
				marks[i] = SLOW_REMOVE;
				continue;
			}
			if (chosen.n >= keep)
				return;
			put(&chosen, id);
			marks[i] = SLOW_KEEP;
		}
	}
}

static void slow_decide(const struct group *g, bool *keep)
{
	enum slow marks[RETENTIONFIX_MAX] = { SLOW_OPEN };
	bool newer = false;
	int64_t newest = 0;

	for (size_t i = g->n; i-- > 0;) {
		const struct retention_item *it = &g->items[i];

		if (it->time > g->now)
			continue;
		if (!it->finished)
			marks[i] = newer ? SLOW_REMOVE : SLOW_PARTIAL;
		else if (newest == 0)
			newest = it->time;
		newer = true;
	}
	for (size_t i = 0; i < g->n; i++) {
		const struct retention_item *it = &g->items[i];

		if (g->policy.value[0] > 0 && it->time <= g->now &&
		    marks[i] == SLOW_OPEN && !it->is_protected &&
		    newest - it->time <= (int64_t)g->policy.value[0])
			marks[i] = SLOW_KEEP;
	}
	for (size_t r = 1; r < RETENTION_RULES; r++)
		if (g->policy.value[r] > 0)
			slow_rule(g, marks, g->policy.value[r], r);
	for (size_t i = 0; i < g->n; i++)
		keep[i] = g->items[i].time > g->now ||
		    g->items[i].is_protected || marks[i] == SLOW_KEEP ||
		    marks[i] == SLOW_PARTIAL;
}

static int compare_items(const void *a, const void *b)
{
	int64_t x = ((const struct retention_item *)a)->time;
	int64_t y = ((const struct retention_item *)b)->time;

	return (x > y) - (x < y);
}

/* From some an hour to some a year; now and then at changes of the clock. */
static void random_group(struct group *g, struct gen *gen)
{
	static const int64_t spans[] = { 7200, 3 * 86400, 40 * 86400,
		400 * 86400, 4000 * 86400 };
	static const int64_t starts[] = { 1798000000, 1774700000, 1792800000,
		1325199000, 1704000000, 1609372800 };
	int64_t start = starts[gen_below(gen, TEST_COUNT(starts))];
	int64_t span = spans[gen_below(gen, TEST_COUNT(spans))];
	size_t n = 0;

	g->n = (size_t)gen_below(gen, RETENTIONFIX_MAX) + 1;
	for (size_t i = 0; i < g->n; i++) {
		g->items[i].time =
		    start + (int64_t)gen_below(gen, (uint64_t)span);
		g->items[i].finished = gen_below(gen, 8) != 0;
		g->items[i].is_protected = gen_below(gen, 8) == 0;
	}
	qsort(g->items, g->n, sizeof(g->items[0]), compare_items);
	for (size_t i = 1; i < g->n; i++)
		if (g->items[i].time != g->items[n].time)
			g->items[++n] = g->items[i];
	g->n = n + 1;
	g->now =
	    gen_below(gen, 2) == 0 ? RETENTIONFIX_NEVER : start + span * 3 / 4;
	g->policy = (struct retention_policy){ .given = { false } };
	for (size_t r = 0; r < RETENTION_RULES; r++) {
		if (gen_below(gen, 2) == 0)
			continue;
		g->policy.given[r] = true;
		g->policy.value[r] = gen_below(gen, 12);
	}
	if (g->policy.given[0])
		g->policy.value[0] = gen_below(gen, (uint64_t)span / 2);
}

static void as_the_slow_one(void **state)
{
	static const char *const zones[] = { "UTC", "Europe/Berlin",
		"America/New_York", "Pacific/Apia", "Asia/Kolkata",
		"Antarctica/Troll", "Australia/Lord_Howe" };
	static struct group g;
	bool keep[RETENTIONFIX_MAX];
	struct gen gen;

	(void)state;
	gen_seed(&gen, 16);
	for (size_t z = 0; z < TEST_COUNT(zones); z++) {
		struct zone *zone = NULL;

		if (!open_zone(zones[z], &zone))
			skip();
		assert_int_equal(setenv("TZ", zones[z], 1), 0);
		tzset();
		for (int round = 0; round < 1000; round++) {
			random_group(&g, &gen);
			g.zone = zone;
			retention_decide(
			    &g.policy, zone, g.now, g.items, g.n, g.d);
			slow_decide(&g, keep);
			for (size_t i = 0; i < g.n; i++) {
				if (keep[i] == g.d[i].keep)
					continue;
				print_error("%s, round %d, item %zu of %zu\n",
				    zones[z], round, i, g.n);
				fail();
			}
		}
		zone_free(zone);
	}
	(void)unsetenv("TZ");
	tzset();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(as_the_slow_one),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
