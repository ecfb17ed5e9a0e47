/* SPDX-License-Identifier: MIT */
/*
 * text: what people read and write: quoted names, sizes, durations, times.
 *
 * Names are bytes.  On a terminal or in a log they are shown so that one name
 * is one piece of one line and drives nothing: control characters, bytes that
 * are not UTF-8, backslash and DEL become \n, \t, \\ or \xNN.
 */
#ifndef CAIRN_DATASTORE_BASE_TEXT_H
#define CAIRN_DATASTORE_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "datastore/base/buf.h"
#include "datastore/base/err.h"

/* Append a name as text (without quotes around it). */
int text_append_name(
    struct buf *out, const void *name, size_t n, struct err *e);

/*
 * The same into a fixed field, cut with "..." if it does not fit: for error
 * messages.  Returns out.  size is at least 8.
 */
const char *text_name(char *out, size_t size, const char *name);
/* The same of n bytes. */
const char *text_bytes(char *out, size_t size, const void *name, size_t n);

/* True if the n bytes are valid UTF-8 (no surrogates, nothing over-long). */
bool text_is_utf8(const void *p, size_t n);

#define TEXT_SIZE_SIZE 24     /* room for text_size */
#define TEXT_DURATION_SIZE 32 /* room for text_duration */
#define TEXT_TIME_SIZE 32     /* room for text_time */

/* "0 B", "999 B", "1.5 GiB": four significant digits at most. Returns out. */
const char *text_size(char out[TEXT_SIZE_SIZE], uint64_t bytes);

/* The word for n of them: one of exactly 1, else many. */
const char *text_plural(uint64_t n, const char *one, const char *many);

/* "0s", "90s" as "1m30s", "1d2h", two units at most. Returns out. */
const char *text_duration(char out[TEXT_DURATION_SIZE], uint64_t seconds);

/* "2026-11-30T12:00:00Z"; years outside 0..9999 as "@seconds". Returns out. */
const char *text_time(char out[TEXT_TIME_SIZE], int64_t epoch);

/*
 * The strict form of text_time, "YYYY-MM-DDTHH:MM:SSZ" and nothing else, with
 * a date that exists, at or after 1970-01-01T00:00:01Z (the format's epoch is
 * at least 1).  False if it is not that.
 */
bool text_parse_time(const char *s, int64_t *ret_epoch);

/*
 * Sizes: digits, then nothing (bytes) or one of B K M G T P (powers of 1024,
 * either case, an "iB" may follow).  ERR_INVALID says what is wrong with it.
 */
int text_parse_size(const char *s, uint64_t *ret_bytes, struct err *e);

/*
 * Durations: "90" (seconds), or a sum of NUMBER UNIT with units w d h m s,
 * each at most once and in falling order: "24h5m", "30d".
 */
int text_parse_duration(const char *s, uint64_t *ret_seconds, struct err *e);

/* A whole decimal number between min and max. */
int text_parse_u64(
    const char *s, uint64_t min, uint64_t max, uint64_t *ret, struct err *e);

#endif
