/* SPDX-License-Identifier: MIT */
#include "datastore/base/zone.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "datastore/base/buf.h"
#include "datastore/base/file.h"
#include "datastore/base/sysio.h"
#include "datastore/base/text.h"
#include "datastore/base/zone_internal.h"

/* Real ones have some thousands of bytes. */
#define FILE_MAX (256U << 10)

#define PATH_SIZE (sizeof(ZONE_DIR) + 1 + ZONE_NAME_SIZE)

/* Years repeat after this many, to the weekday. */
#define CYCLE_YEARS 400
#define CYCLE_DAYS 146097

/* Days from 0000-03-01, a day behind a leap day, to 1970-01-01. */
#define MARCH_0_DAYS 719468

/* Times beyond hold no date that anybody writes; sums stay far from the ends
 * of 64 bits. */
#define EPOCH_LIMIT (INT64_C(1) << 55)

bool zone_is_leap(int64_t year)
{
	return year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
}

unsigned zone_month_days(int64_t year, unsigned month)
{
	static const uint8_t days[] = { 31, 28, 31, 30, 31, 30, 31, 31, 30, 31,
		30, 31 };

	return days[month - 1] + (month == 2 && zone_is_leap(year) ? 1U : 0U);
}

/* The quotient, rounded towards the past. */
static int64_t floor_div(int64_t a, int64_t b)
{
	return a / b - (a % b < 0 ? 1 : 0);
}

/*
 * Years that begin in March have their leap day at the end, so that months
 * have the same place in each: month m of 0 to 11 begins at day
 * (153 * m + 2) / 5.
 */
int64_t zone_days(int64_t year, unsigned month, unsigned day)
{
	int64_t y = month <= 2 ? year - 1 : year;
	unsigned m = (month + 9) % 12;

	return y * 365 + floor_div(y, 4) - floor_div(y, 100) +
	    floor_div(y, 400) + (153 * m + 2) / 5 + day - 1 - MARCH_0_DAYS;
}

int64_t zone_year_of(int64_t days)
{
	int64_t cycles = floor_div(days + MARCH_0_DAYS, CYCLE_DAYS);
	/* Never too late, and at most two too early. */
	int64_t year = cycles * CYCLE_YEARS +
	    (days + MARCH_0_DAYS - cycles * CYCLE_DAYS) / 366;

	while (zone_days(year + 1, 1, 1) <= days)
		year++;
	return year;
}

static int32_t offset_at(const struct zone *z, int64_t epoch)
{
	size_t low = 0;
	size_t high = 0;

	if (z == NULL)
		return 0;
	high = z->n;
	if (z->has_rule && (z->n == 0 || epoch >= z->at[z->n - 1]))
		return zone_rule_offset(&z->rule, epoch);
	/* How many changes are not behind it. */
	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (z->at[mid] <= epoch) {
			low = mid + 1;
		} else {
			high = mid;
		}
	}
	return z->offsets[low == 0 ? 0 : z->kind[low - 1]];
}

void zone_local(const struct zone *z, int64_t epoch, struct zone_time *ret)
{
	struct zone_time t = { .year = 0 };
	int64_t seconds = 0;
	int64_t days = 0;
	unsigned left = 0;

	if (epoch > EPOCH_LIMIT)
		epoch = EPOCH_LIMIT;
	if (epoch < -EPOCH_LIMIT)
		epoch = -EPOCH_LIMIT;
	t.offset_s = offset_at(z, epoch);
	seconds = epoch + t.offset_s;
	days = floor_div(seconds, ZONE_DAY_S);
	left = (unsigned)(seconds - days * ZONE_DAY_S);
	t.hour = left / 3600;
	t.minute = left / 60 % 60;
	t.second = left % 60;
	t.week_day = (unsigned)(days + 3 - floor_div(days + 3, 7) * 7) + 1;
	t.year = zone_year_of(days);
	left = (unsigned)(days - zone_days(t.year, 1, 1));
	t.year_day = left + 1;
	t.month = 1;
	while (left >= zone_month_days(t.year, t.month))
		left -= zone_month_days(t.year, t.month++);
	t.day = left + 1;
	*ret = t;
}

void zone_iso_week(
    const struct zone_time *t, int64_t *ret_year, unsigned *ret_week)
{
	/* The Thursday of the week says which year it belongs to; its day of
	 * that year, which week it is. */
	int64_t thursday = (int64_t)t->year_day - t->week_day + 4;
	int64_t year = t->year;

	if (thursday < 1) {
		year--;
		thursday += zone_is_leap(year) ? 366 : 365;
	} else if (thursday > (zone_is_leap(year) ? 366 : 365)) {
		thursday -= zone_is_leap(year) ? 366 : 365;
		year++;
	}
	*ret_year = year;
	*ret_week = (unsigned)(thursday - 1) / 7 + 1;
}

void zone_free(struct zone *z)
{
	if (z == NULL)
		return;
	free(z->at);
	free(z->kind);
	free(z->offsets);
	free(z);
}

/* Words of letters, digits and _+-, with single slashes between them: nothing
 * that leads out of the directory. */
static bool is_name(const char *s)
{
	bool word = false;

	if (strlen(s) >= ZONE_NAME_SIZE)
		return false;
	for (; *s != '\0'; s++) {
		bool good = (*s >= 'A' && *s <= 'Z') ||
		    (*s >= 'a' && *s <= 'z') || (*s >= '0' && *s <= '9') ||
		    *s == '_' || *s == '+' || *s == '-';

		if (!good && (*s != '/' || !word))
			return false;
		word = good;
	}
	return word;
}

/* Links are followed: tzdata has many. */
static int read_zone(const char *path, struct buf *out, struct err *e)
{
	struct statx st = { .stx_mask = 0 };
	size_t got = 0;
	int fd = sysio_openat(
	    AT_FDCWD, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0);
	int rc = 0;

	if (fd < 0) {
		return errno == ENOENT || errno == ENOTDIR
		    ? err_set(e, ERR_NOTFOUND,
			  "there is no '%s'; want a name as below '" ZONE_DIR
			  "', which the package tzdata fills, or " ZONE_UTC,
			  path)
		    : err_sys(e, "open '%s'", path);
	}
	rc = file_stat_fd(fd, &st, path, e);
	if (rc == 0 && !S_ISREG(st.stx_mode)) {
		rc = err_set(e, ERR_CORRUPT, "'%s' is no file", path);
	} else if (rc == 0 && st.stx_size > FILE_MAX) {
		rc = err_set(
		    e, ERR_LIMIT, "'%s': more than %u bytes", path, FILE_MAX);
	}
	if (rc == 0)
		rc = buf_reserve(out, (size_t)st.stx_size, e);
	if (rc == 0)
		rc = file_read_fully(
		    fd, out->data, (size_t)st.stx_size, &got, path, e);
	if (rc == 0)
		out->len = got;
	file_close(&fd);
	return rc;
}

static int open_file(const char *name, struct zone **ret, struct err *e)
{
	char path[PATH_SIZE];
	struct buf raw = BUF_INIT;
	int rc = 0;

	(void)snprintf(path, sizeof(path), "%s/%s", ZONE_DIR, name);
	rc = read_zone(path, &raw, e);
	if (rc == 0) {
		rc = zone_decode(raw.data, raw.len, ret, e);
		if (rc < 0)
			err_prefix(e, "'%s'", path);
	}
	buf_release(&raw);
	return rc;
}

int zone_open(const char *name, struct zone **ret, struct err *e)
{
	static const char local[] = "localtime";
	char shown[ZONE_NAME_SIZE];
	struct zone *z = NULL;
	int rc = 0;

	(void)text_name(shown, sizeof(shown), name);
	if (!is_name(name)) {
		return err_set(e, ERR_INVALID,
		    "'%s' is no time zone, want a name like 'Europe/Berlin' or "
		    "'" ZONE_UTC "'",
		    shown);
	}
	if (strcmp(name, local) == 0) {
		return err_set(e, ERR_INVALID,
		    "'%s' is whatever zone a machine is in, want a name like "
		    "'Europe/Berlin' or '" ZONE_UTC "'",
		    shown);
	}
	if (strcmp(name, ZONE_UTC) == 0) {
		z = calloc(1, sizeof(*z));
		if (z != NULL)
			z->offsets = calloc(1, sizeof(*z->offsets));
		if (z == NULL || z->offsets == NULL) {
			zone_free(z);
			return err_nomem(e);
		}
		z->offsets_n = 1;
	} else {
		rc = open_file(name, &z, e);
	}
	if (rc < 0) {
		/* Whatever it is, the name was a wrong one. */
		if (rc != ERR_NOMEM) {
			e->code = rc = ERR_INVALID;
			e->sys_errno = 0;
		}
		err_prefix(e, "time zone '%s'", shown);
		return rc;
	}
	*ret = z;
	return 0;
}
