/* SPDX-License-Identifier: MIT */
/*
 * Retention by examples.
 */
#include "datastore/retention.h"

#include <stdio.h>

#include "datastore/base/text.h"
#include "tests/support/retentionfix.h"

static int64_t at(const char *time)
{
	int64_t t = 0;

	if (!text_parse_time(time, &t)) {
		print_error("%s\n", time);
		fail();
	}
	return t;
}

/* "TIME", or with one of these behind: p protected, u unfinished, h half
 * removed. */
static void add(struct group *g, const char *text)
{
	char time[TEXT_TIME_SIZE];
	struct retention_item item = { .finished = true };

	(void)snprintf(time, sizeof(time), "%.20s", text);
	item.time = at(time);
	item.is_protected = strchr(text, 'p') != NULL;
	item.half_removed = strchr(text, 'h') != NULL;
	item.finished = strchr(text, 'u') == NULL && !item.half_removed;
	assert_true(g->n < RETENTIONFIX_MAX);
	assert_true(g->n == 0 || g->items[g->n - 1].time < item.time);
	g->items[g->n++] = item;
}

/* "keep-last 3 keep-daily 7" */
static void set_policy(struct group *g, const char *text)
{
	struct err e = ERR_INIT;
	char name[32];
	char value[32];
	int used = 0;

	g->policy = (struct retention_policy){ .given = { false } };
	for (; sscanf(text, "%31s %31s%n", name, value, &used) == 2;
	     text += used) {
		int rule = 0;

		while (strcmp(retention_name((enum retention_rule)rule),
			   name) != 0)
			rule++;
		assert_ok(retention_set(
			      &g->policy, (enum retention_rule)rule, value, &e),
		    &e);
	}
}

static void run(struct group *g)
{
	retention_decide(&g->policy, g->zone,
	    g->now == 0 ? RETENTIONFIX_NEVER : g->now, g->items, g->n, g->d);
}

/* One line per snapshot, from the oldest: "+ reason" or "- reason". */
static void expect(struct group *g, const char *policy, const char *want)
{
	char got[8192] = "";
	char text[RETENTION_TEXT_SIZE];

	set_policy(g, policy);
	run(g);
	for (size_t i = 0; i < g->n; i++) {
		size_t used = strlen(got);

		(void)snprintf(got + used, sizeof(got) - used, "%c %s\n",
		    g->d[i].keep ? '+' : '-', retention_text(&g->d[i], text));
	}
	if (strcmp(got, want) != 0) {
		print_error("%s\n%swanted\n%s", policy, got, want);
		fail();
	}
}

/* The newest of each period stays; older ones of it go. */
static void newest_of_a_day(void **state)
{
	struct group g = { .n = 0 };

	(void)state;
	add(&g, "2026-11-27T12:00:00Z");
	add(&g, "2026-11-28T06:00:00Z");
	add(&g, "2026-11-28T18:00:00Z");
	add(&g, "2026-11-30T00:00:00Z");
	add(&g, "2026-11-30T23:59:59Z");
	expect(&g, "keep-daily 2",
	    "- no rule keeps it\n"
	    "- keep-daily 2026-11-28 has a newer one\n"
	    "+ keep-daily 2026-11-28\n"
	    "- keep-daily 2026-11-30 has a newer one\n"
	    "+ keep-daily 2026-11-30\n");
	/* Days without a snapshot are no days. */
	expect(&g, "keep-daily 3",
	    "+ keep-daily 2026-11-27\n"
	    "- keep-daily 2026-11-28 has a newer one\n"
	    "+ keep-daily 2026-11-28\n"
	    "- keep-daily 2026-11-30 has a newer one\n"
	    "+ keep-daily 2026-11-30\n");
	expect(&g, "keep-last 2",
	    "- no rule keeps it\n"
	    "- no rule keeps it\n"
	    "- no rule keeps it\n"
	    "+ keep-last\n"
	    "+ keep-last\n");
}

/*
 * Each option covers its own time, and the next one takes care of what is
 * older: three of a day, and then days, of which the first is covered.
 */
static void options_follow_each_other(void **state)
{
	struct group g = { .n = 0 };

	(void)state;
	add(&g, "2025-12-31T12:00:00Z");
	add(&g, "2026-11-01T12:00:00Z");
	add(&g, "2026-11-27T12:00:00Z");
	add(&g, "2026-11-28T12:00:00Z");
	add(&g, "2026-11-29T01:00:00Z");
	add(&g, "2026-11-29T12:00:00Z");
	add(&g, "2026-11-30T10:00:00Z");
	add(&g, "2026-11-30T11:00:00Z");
	add(&g, "2026-11-30T12:00:00Z");
	expect(&g, "keep-last 2 keep-daily 2 keep-yearly 5",
	    "+ keep-yearly 2025\n"
	    "- no rule keeps it\n"
	    "- no rule keeps it\n"
	    "+ keep-daily 2026-11-28\n"
	    "- keep-daily 2026-11-29 has a newer one\n"
	    "+ keep-daily 2026-11-29\n"
	    "- no rule keeps it\n"
	    "+ keep-last\n"
	    "+ keep-last\n");
	/* The order in which they are written means nothing. */
	expect(&g, "keep-yearly 5 keep-daily 2 keep-last 2",
	    "+ keep-yearly 2025\n"
	    "- no rule keeps it\n"
	    "- no rule keeps it\n"
	    "+ keep-daily 2026-11-28\n"
	    "- keep-daily 2026-11-29 has a newer one\n"
	    "+ keep-daily 2026-11-29\n"
	    "- no rule keeps it\n"
	    "+ keep-last\n"
	    "+ keep-last\n");
	/* The month is covered: no rule counts it again. */
	expect(&g, "keep-last 1 keep-monthly 1",
	    "+ keep-monthly 2025-12\n"
	    "- no rule keeps it\n"
	    "- no rule keeps it\n"
	    "- no rule keeps it\n"
	    "- no rule keeps it\n"
	    "- no rule keeps it\n"
	    "- no rule keeps it\n"
	    "- no rule keeps it\n"
	    "+ keep-last\n");
}

static void protected_ones(void **state)
{
	struct group g = { .n = 0 };

	(void)state;
	add(&g, "2026-11-27T12:00:00Zp");
	add(&g, "2026-11-28T06:00:00Z");
	add(&g, "2026-11-28T12:00:00Zp");
	add(&g, "2026-11-29T12:00:00Z");
	add(&g, "2026-11-30T12:00:00Zp");
	/* They take no place of a rule, and cover no day. */
	expect(&g, "keep-daily 2",
	    "+ protected\n"
	    "+ keep-daily 2026-11-28\n"
	    "+ protected\n"
	    "+ keep-daily 2026-11-29\n"
	    "+ protected\n");
	assert_false(retention_empties(g.items, g.d, g.n));
	expect(&g, "keep-last 1",
	    "+ protected\n"
	    "- no rule keeps it\n"
	    "+ protected\n"
	    "+ keep-last\n"
	    "+ protected\n");
}

static void unfinished_ones(void **state)
{
	struct group g = { .n = 0 };

	(void)state;
	add(&g, "2026-11-26T12:00:00Zu");
	add(&g, "2026-11-27T12:00:00Z");
	add(&g, "2026-11-27T18:00:00Zup");
	add(&g, "2026-11-28T12:00:00Z");
	add(&g, "2026-11-29T12:00:00Zu");
	add(&g, "2026-11-30T12:00:00Zu");
	expect(&g, "keep-daily 9",
	    "- unfinished, there is a newer one\n"
	    "+ keep-daily 2026-11-27\n"
	    "+ protected\n"
	    "+ keep-daily 2026-11-28\n"
	    "- unfinished, there is a newer one\n"
	    "+ unfinished, the newest\n");
	/* A finished one is newer: none of them is of use. */
	add(&g, "2026-11-30T13:00:00Z");
	expect(&g, "keep-daily 9",
	    "- unfinished, there is a newer one\n"
	    "+ keep-daily 2026-11-27\n"
	    "+ protected\n"
	    "+ keep-daily 2026-11-28\n"
	    "- unfinished, there is a newer one\n"
	    "- unfinished, there is a newer one\n"
	    "+ keep-daily 2026-11-30\n");
}

/* It is as good as gone: the newest unfinished one is another. */
static void half_removed_ones(void **state)
{
	struct group g = { .n = 0 };

	(void)state;
	add(&g, "2026-11-26T12:00:00Zh");
	add(&g, "2026-11-27T12:00:00Z");
	add(&g, "2026-11-28T12:00:00Zu");
	add(&g, "2026-11-29T12:00:00Zh");
	expect(&g, "keep-last 1",
	    "- its removal was interrupted\n"
	    "+ keep-last\n"
	    "+ unfinished, the newest\n"
	    "- its removal was interrupted\n");
}

/* A clock that was wrong once must not use up what others need. */
static void future_ones(void **state)
{
	struct group g = { .n = 0, .now = at("2026-11-30T12:00:00Z") };

	(void)state;
	add(&g, "2026-11-28T12:00:00Z");
	add(&g, "2026-11-29T12:00:00Z");
	add(&g, "2026-11-30T12:00:00Zu");
	add(&g, "2026-11-30T12:00:01Z");
	add(&g, "2099-01-01T00:00:00Zp");
	add(&g, "2099-01-01T00:00:01Zu");
	expect(&g, "keep-last 1",
	    "- no rule keeps it\n"
	    "+ keep-last\n"
	    "+ unfinished, the newest\n"
	    "+ dated in the future\n"
	    "+ dated in the future\n"
	    "+ dated in the future\n");
	expect(&g, "keep-within 1d",
	    "+ keep-within\n"
	    "+ keep-within\n"
	    "+ unfinished, the newest\n"
	    "+ dated in the future\n"
	    "+ dated in the future\n"
	    "+ dated in the future\n");
	assert_false(retention_empties(g.items, g.d, g.n));
	/* They do not count as what is left of a group either. */
	set_policy(&g, "keep-last 0");
	run(&g);
	assert_true(retention_empties(g.items, g.d, g.n));
}

static void empty_groups(void **state)
{
	struct group g = { .n = 0 };

	(void)state;
	set_policy(&g, "keep-daily 1");
	run(&g);
	assert_false(retention_empties(g.items, g.d, g.n));
	add(&g, "2026-11-28T12:00:00Zu");
	set_policy(&g, "keep-daily 0");
	run(&g);
	assert_false(retention_empties(g.items, g.d, g.n));
	add(&g, "2026-11-29T12:00:00Z");
	run(&g);
	assert_true(retention_empties(g.items, g.d, g.n));
	set_policy(&g, "keep-daily 0 keep-weekly 1");
	run(&g);
	assert_false(retention_empties(g.items, g.d, g.n));
	/* Nor is an old one that is protected what a group is for. */
	g.n = 0;
	add(&g, "2020-11-28T12:00:00Zp");
	set_policy(&g, "keep-daily 0");
	run(&g);
	assert_false(retention_empties(g.items, g.d, g.n));
	add(&g, "2026-11-29T12:00:00Z");
	run(&g);
	assert_true(retention_empties(g.items, g.d, g.n));
}

/* Counted from the newest finished one, not from now: a host that was not
 * backed up for months loses nothing by it. */
static void within(void **state)
{
	struct group g = { .n = 0 };

	(void)state;
	add(&g, "2026-11-20T12:00:00Z");
	add(&g, "2026-11-27T11:59:59Z");
	add(&g, "2026-11-27T12:00:00Z");
	add(&g, "2026-11-29T12:00:00Z");
	add(&g, "2026-11-30T12:00:00Z");
	add(&g, "2026-11-30T18:00:00Zu");
	expect(&g, "keep-within 3d keep-daily 1",
	    "+ keep-daily 2026-11-20\n"
	    "- no rule keeps it\n"
	    "+ keep-within\n"
	    "+ keep-within\n"
	    "+ keep-within\n"
	    "+ unfinished, the newest\n");
	expect(&g, "keep-within 0 keep-last 1",
	    "- no rule keeps it\n"
	    "- no rule keeps it\n"
	    "- no rule keeps it\n"
	    "- no rule keeps it\n"
	    "+ keep-last\n"
	    "+ unfinished, the newest\n");
}

static void iso_weeks(void **state)
{
	struct group g = { .n = 0 };

	(void)state;
	add(&g, "2020-12-27T12:00:00Z"); /* Sunday of week 52 */
	add(&g, "2020-12-28T12:00:00Z"); /* Monday of week 53 */
	add(&g, "2021-01-03T23:59:59Z"); /* Sunday of week 53 */
	add(&g, "2021-01-04T00:00:00Z"); /* Monday of week 1 */
	expect(&g, "keep-weekly 9",
	    "+ keep-weekly 2020-W52\n"
	    "- keep-weekly 2020-W53 has a newer one\n"
	    "+ keep-weekly 2020-W53\n"
	    "+ keep-weekly 2021-W01\n");
	/* The year of the week is not that of the date. */
	expect(&g, "keep-yearly 9",
	    "- keep-yearly 2020 has a newer one\n"
	    "+ keep-yearly 2020\n"
	    "- keep-yearly 2021 has a newer one\n"
	    "+ keep-yearly 2021\n");
}

static void leap_days_and_ends_of_months(void **state)
{
	struct group g = { .n = 0 };

	(void)state;
	add(&g, "2024-01-31T12:00:00Z");
	add(&g, "2024-02-28T12:00:00Z");
	add(&g, "2024-02-29T12:00:00Z");
	add(&g, "2024-03-01T12:00:00Z");
	add(&g, "2024-03-31T12:00:00Z");
	expect(&g, "keep-monthly 3",
	    "+ keep-monthly 2024-01\n"
	    "- keep-monthly 2024-02 has a newer one\n"
	    "+ keep-monthly 2024-02\n"
	    "- keep-monthly 2024-03 has a newer one\n"
	    "+ keep-monthly 2024-03\n");
	expect(&g, "keep-daily 5",
	    "+ keep-daily 2024-01-31\n"
	    "+ keep-daily 2024-02-28\n"
	    "+ keep-daily 2024-02-29\n"
	    "+ keep-daily 2024-03-01\n"
	    "+ keep-daily 2024-03-31\n");
}

/* Days of 23 and of 25 hours, and the hour that comes twice. */
static void summer_time(void **state)
{
	struct group g = { .n = 0 };
	struct zone *berlin = NULL;

	(void)state;
	if (!open_zone("Europe/Berlin", &berlin))
		skip();
	g.zone = berlin;
	add(&g, "2026-03-28T22:59:59Z"); /* 23:59:59 of the 28th */
	add(&g, "2026-03-28T23:00:00Z"); /* 00:00 of the 29th: 23 hours */
	add(&g, "2026-03-29T21:59:59Z"); /* 23:59:59 */
	add(&g, "2026-03-29T22:00:00Z"); /* 00:00 of the 30th */
	add(&g, "2026-10-24T22:00:00Z"); /* 00:00 of the 25th: 25 hours */
	add(&g, "2026-10-25T00:30:00Z"); /* 02:30 in summer */
	add(&g, "2026-10-25T01:15:00Z"); /* 02:15 again */
	add(&g, "2026-10-25T22:59:59Z"); /* 23:59:59 */
	add(&g, "2026-10-25T23:00:00Z"); /* 00:00 of the 26th */
	expect(&g, "keep-daily 9",
	    "+ keep-daily 2026-03-28\n"
	    "- keep-daily 2026-03-29 has a newer one\n"
	    "+ keep-daily 2026-03-29\n"
	    "+ keep-daily 2026-03-30\n"
	    "- keep-daily 2026-10-25 has a newer one\n"
	    "- keep-daily 2026-10-25 has a newer one\n"
	    "- keep-daily 2026-10-25 has a newer one\n"
	    "+ keep-daily 2026-10-25\n"
	    "+ keep-daily 2026-10-26\n");
	expect(&g, "keep-hourly 5",
	    "- no rule keeps it\n"
	    "- no rule keeps it\n"
	    "- no rule keeps it\n"
	    "+ keep-hourly 2026-03-30T00\n"
	    "+ keep-hourly 2026-10-25T00\n"
	    "- keep-hourly 2026-10-25T02 has a newer one\n"
	    "+ keep-hourly 2026-10-25T02\n"
	    "+ keep-hourly 2026-10-25T23\n"
	    "+ keep-hourly 2026-10-26T00\n");
	zone_free(berlin);
}

/* The day that Samoa did not have: 2011-12-30. */
static void a_day_that_never_was(void **state)
{
	struct group g = { .n = 0 };
	struct zone *apia = NULL;

	(void)state;
	if (!open_zone("Pacific/Apia", &apia))
		skip();
	g.zone = apia;
	add(&g, "2011-12-30T09:00:00Z");
	add(&g, "2011-12-30T09:59:59Z");
	add(&g, "2011-12-30T10:00:00Z");
	expect(&g, "keep-daily 9",
	    "- keep-daily 2011-12-29 has a newer one\n"
	    "+ keep-daily 2011-12-29\n"
	    "+ keep-daily 2011-12-31\n");
	zone_free(apia);
}

static void values(void **state)
{
	struct retention_policy p = { .given = { false } };
	struct err e = ERR_INIT;

	(void)state;
	assert_false(retention_is_given(&p));
	assert_err(retention_set(&p, RETENTION_DAILY, "-1", &e), &e,
	    ERR_INVALID, "'-1' is no whole number between 0 and 4294967295");
	assert_err(retention_set(&p, RETENTION_LAST, "3d", &e), &e, ERR_INVALID,
	    "'3d' is no whole number");
	assert_err(retention_set(&p, RETENTION_LAST, "", &e), &e, ERR_INVALID,
	    "'' is no whole number");
	assert_err(retention_set(&p, RETENTION_WITHIN, "1y", &e), &e,
	    ERR_INVALID, "'1y' is no duration");
	assert_err(retention_set(&p, RETENTION_WITHIN, "-1d", &e), &e,
	    ERR_INVALID, "'-1d' is no duration");
	assert_false(retention_is_given(&p));
	assert_ok(retention_set(&p, RETENTION_WITHIN, "1w2d", &e), &e);
	assert_int_equal(p.value[RETENTION_WITHIN], 9 * 86400);
	assert_true(retention_is_given(&p));
	p = (struct retention_policy){ .given = { false } };
	assert_ok(retention_set(&p, RETENTION_YEARLY, "0", &e), &e);
	assert_true(retention_is_given(&p));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(newest_of_a_day),
		cmocka_unit_test(options_follow_each_other),
		cmocka_unit_test(protected_ones),
		cmocka_unit_test(unfinished_ones),
		cmocka_unit_test(half_removed_ones),
		cmocka_unit_test(future_ones),
		cmocka_unit_test(empty_groups),
		cmocka_unit_test(within),
		cmocka_unit_test(iso_weeks),
		cmocka_unit_test(leap_days_and_ends_of_months),
		cmocka_unit_test(summer_time),
		cmocka_unit_test(a_day_that_never_was),
		cmocka_unit_test(values),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
