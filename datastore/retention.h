/* SPDX-License-Identifier: MIT */
/*
 * retention: which snapshots of a group a policy keeps, and why.
 *
 * The rules are those of Proxmox Backup Server, applied one after the other,
 * each from the newest snapshot to the oldest: keep-last, hourly, daily,
 * weekly, monthly, yearly.  A rule keeps the newest snapshot of each of its
 * last N periods; a period in which an earlier rule has kept one is not
 * counted.  Before them comes keep-within, which is cairn's own: all that are
 * at most so much older than the group's newest finished one.
 *
 * Apart from the rules: a protected snapshot is kept, and covers no period;
 * an unfinished one is kept only if it is the newest of all; one that is dated
 * in the future is kept and has no part in anything; and so is one that is
 * hurt, or it would stand for the sound ones that the rules remove.
 *
 * Periods are those of the zone's clocks; weeks are ISO weeks.  An hour that
 * comes twice, when summer time ends, is one period, as in PBS.
 *
 * Pure: no clock, no files, no memory of its own.
 */
#ifndef CAIRN_DATASTORE_RETENTION_H
#define CAIRN_DATASTORE_RETENTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "datastore/base/err.h"
#include "datastore/base/zone.h"

/* In the order in which they are applied. */
enum retention_rule {
	RETENTION_WITHIN,
	RETENTION_LAST,
	RETENTION_HOURLY,
	RETENTION_DAILY,
	RETENTION_WEEKLY,
	RETENTION_MONTHLY,
	RETENTION_YEARLY,
	RETENTION_RULES,
};

/* By rule.  A rule that is given as 0 keeps nothing. */
struct retention_policy {
	bool given[RETENTION_RULES];
	uint64_t value[RETENTION_RULES]; /* how many; of WITHIN: seconds */
};

/* "keep-within", "keep-last", ...: of the command line and the config file. */
const char *retention_name(enum retention_rule rule);
/* A number, or a duration.  ERR_INVALID. */
int retention_set(struct retention_policy *p, enum retention_rule rule,
    const char *value, struct err *e);
bool retention_is_given(const struct retention_policy *p); /* any rule */

struct retention_item {
	int64_t time;
	bool finished;
	bool is_protected;
	bool half_removed; /* unfinished, because a removal was interrupted */
	bool hurt;         /* no manifest that can be read, or verify failed */
};

enum retention_reason {
	RETENTION_UNDECIDED, /* never in a result */
	/* kept */
	RETENTION_RULE,
	RETENTION_PROTECTED,
	RETENTION_FUTURE,
	RETENTION_HURT,
	RETENTION_PARTIAL, /* unfinished, no finished one is newer */
	/* to be removed */
	RETENTION_UNFINISHED,
	RETENTION_HALF_REMOVED,
	RETENTION_COVERED, /* a newer one of its period was kept */
	RETENTION_NO_RULE,
};

#define RETENTION_PERIOD_SIZE 24

struct retention_decision {
	bool keep;
	enum retention_reason reason;
	enum retention_rule rule; /* of RULE and COVERED */
	/* Of the rule: "2026-11-30T14", "2026-11-30", "2026-W49", "2026-11",
	 * "2026", "". */
	char period[RETENTION_PERIOD_SIZE];
	int64_t key; /* the period of the rule being applied, as a number */
};

/*
 * Items oldest first, ret[i] for items[i].  z NULL: UTC.  A policy of nothing
 * keeps nothing: whoever calls this sees to it that one was given.
 */
void retention_decide(const struct retention_policy *p, const struct zone *z,
    int64_t now, const struct retention_item *items, size_t n,
    struct retention_decision *ret);

/*
 * There are finished ones, not counting protected and hurt ones and those of
 * the future, and none of them is to be kept: a protected one of last year is
 * no backup of today.
 */
bool retention_empties(const struct retention_item *items,
    const struct retention_decision *d, size_t n);

/* "keep-daily 2026-11-30", "protected", "no rule keeps it".  Returns out. */
#define RETENTION_TEXT_SIZE 80
const char *retention_text(
    const struct retention_decision *d, char out[RETENTION_TEXT_SIZE]);
/* For JSON: "rule", "protected", "future", "hurt", "partial", "unfinished",
 * "half-removed", "covered", "no-rule". */
const char *retention_reason_name(enum retention_reason r);

#endif
