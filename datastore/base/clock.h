/* SPDX-License-Identifier: MIT */
/*
 * clock: times as the store's file system gives them, and time that passes.
 *
 * File times are the only clock that garbage collection compares with (a
 * touch may read back before the kernel's own clock; on NFS it is the
 * server's).  They are kept in nanoseconds since 1970 in a signed 64-bit
 * number: 1677 to 2262, clamped at both ends.
 */
#ifndef CAIRN_DATASTORE_BASE_CLOCK_H
#define CAIRN_DATASTORE_BASE_CLOCK_H

#include <stdint.h>
#include <sys/stat.h>

#define CLOCK_NS_PER_S 1000000000LL

/* A file time. */
typedef int64_t filetime;

filetime clock_from_statx(const struct statx_timestamp *ts);

/* Whole seconds, rounded towards the past. */
int64_t clock_filetime_s(filetime t);

/* CLOCK_REALTIME in seconds: for names, logs and JSON only. */
int64_t clock_now_s(void);

/* CLOCK_BOOTTIME in nanoseconds: for what passes. Never fails. */
int64_t clock_boot_ns(void);

/* Sleep; returns early on a signal. */
void clock_sleep_ms(unsigned ms);

#endif
