/* SPDX-License-Identifier: MIT */
/*
 * zone: what clocks showed in a time zone, without the process's own zone.
 *
 * libc knows one zone per process, that of TZ: changing it there would change
 * it for every thread.  So the compiled zones of the system (tzdata, TZif of
 * RFC 9636, version 2 and later) are read here.  A zone does not change once
 * it is open: thread-safe.
 */
#ifndef CAIRN_DATASTORE_BASE_ZONE_H
#define CAIRN_DATASTORE_BASE_ZONE_H

#include <stddef.h>
#include <stdint.h>

#include "datastore/base/err.h"

struct zone;

#define ZONE_UTC "UTC"
#define ZONE_NAME_SIZE 64 /* of a name, with NUL */
#define ZONE_DIR "/usr/share/zoneinfo"

/* What a calendar and a clock on the wall show. */
struct zone_time {
	int64_t year;
	unsigned month;    /* 1 to 12 */
	unsigned day;      /* 1 to 31 */
	unsigned hour;     /* 0 to 23 */
	unsigned minute;   /* 0 to 59 */
	unsigned second;   /* 0 to 59 */
	unsigned year_day; /* 1 to 366 */
	unsigned week_day; /* 1 Monday to 7 Sunday */
	int32_t offset_s;  /* ahead of UTC */
};

/*
 * By its name in ZONE_DIR, "Europe/Berlin"; ZONE_UTC needs no file.
 * ERR_INVALID says what is wrong with the name or with the file that it leads
 * to.  Names that depend on the machine ("localtime") are refused, and so are
 * zones that count leap seconds ("right/...").
 */
int zone_open(const char *name, struct zone **ret, struct err *e);
void zone_free(struct zone *z); /* NULL is allowed */

/* The bytes of such a file; ERR_CORRUPT, ERR_UNSUPPORTED.  Pure. */
int zone_decode(const void *raw, size_t n, struct zone **ret, struct err *e);

/* z NULL: UTC.  Never fails; exact for the years 0 to 9999. */
void zone_local(const struct zone *z, int64_t epoch, struct zone_time *ret);

/*
 * The week of ISO 8601, 1 to 53, and the year that it belongs to, which is not
 * always that of the date: week 1 is the one with the year's first Thursday.
 */
void zone_iso_week(
    const struct zone_time *t, int64_t *ret_year, unsigned *ret_week);

#endif
