/* SPDX-License-Identifier: MIT */
/*
 * fuzz_zone: any bytes as the file of a time zone.  What is accepted gives
 * dates that exist, whatever the time.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "datastore/base/zone.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MUST(cond)               \
	do {                     \
		if (!(cond))     \
			abort(); \
	} while (0)

static void check(const struct zone *z, int64_t epoch)
{
	struct zone_time t;
	int64_t year = 0;
	unsigned week = 0;

	zone_local(z, epoch, &t);
	MUST(t.month >= 1 && t.month <= 12 && t.day >= 1 && t.day <= 31);
	MUST(t.hour < 24 && t.minute < 60 && t.second < 60);
	MUST(t.year_day >= 1 && t.year_day <= 366);
	MUST(t.week_day >= 1 && t.week_day <= 7);
	zone_iso_week(&t, &year, &week);
	MUST(week >= 1 && week <= 53);
	MUST(year >= t.year - 1 && year <= t.year + 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const int64_t times[] = { INT64_MIN, -5000000000, -1, 0, 1,
		951782400, 1709164800, 4102444800, 253402300799, INT64_MAX };
	struct zone *z = NULL;
	struct err e = { .code = ERR_OK };
	/* A block of exactly n bytes: reading one more is found. */
	uint8_t *copy = malloc(size > 0 ? size : 1);
	int rc = 0;

	MUST(copy != NULL);
	if (size > 0)
		memcpy(copy, data, size);
	rc = zone_decode(copy, size, &z, &e);
	free(copy);
	MUST(rc == e.code);
	MUST(rc == 0 || rc == ERR_CORRUPT || rc == ERR_UNSUPPORTED);
	MUST((z != NULL) == (rc == 0));
	for (size_t i = 0; rc == 0 && i < sizeof(times) / sizeof(times[0]); i++)
		check(z, times[i]);
	zone_free(z);
	return 0;
}
