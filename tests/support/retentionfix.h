/* SPDX-License-Identifier: MIT */
/*
 * retentionfix: a group of snapshots as retention sees one, and zones.
 */
#ifndef CAIRN_TESTS_SUPPORT_RETENTIONFIX_H
#define CAIRN_TESTS_SUPPORT_RETENTIONFIX_H

#include <sys/stat.h>

#include "datastore/retention.h"
#include "tests/support/test.h"

#define RETENTIONFIX_MAX 160
/* Nothing is in the future then. */
#define RETENTIONFIX_NEVER INT64_C(253402300799)

struct group {
	struct retention_item items[RETENTIONFIX_MAX];
	size_t n;
	struct retention_policy policy;
	int64_t now; /* 0: nothing is in the future */
	const struct zone *zone;
	struct retention_decision d[RETENTIONFIX_MAX];
};

/* False where this machine has no zones. */
static inline bool open_zone(const char *name, struct zone **ret)
{
	struct err e = ERR_INIT;
	struct stat st;

	if (stat(ZONE_DIR "/Europe/Berlin", &st) != 0)
		return false;
	assert_ok(zone_open(name, ret, &e), &e);
	return true;
}

#endif
