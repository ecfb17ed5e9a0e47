/* SPDX-License-Identifier: MIT */
/*
 * history_record: one run being written into the history.
 *
 * Nothing here fails: what can not be recorded is told once, as a warning, and
 * the run goes on.  A history that is damaged is put aside for a new one.  The
 * database is open, and locked, for the time of each call only.
 */
#ifndef CAIRN_GC_HISTORY_RECORD_H
#define CAIRN_GC_HISTORY_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "datastore/base/err.h"
#include "datastore/base/task.h"
#include "datastore/datastore.h"
#include "gc/history.h"

/*
 * Files of the log in memory, less than a MiB; they are written at the latest
 * with the first one that is removed FLUSH_S after the last time.  Of a run
 * that is killed so many, less one, may be missing.
 */
#define HISTORY_RECORD_LOG_MAX 16384U
#define HISTORY_RECORD_FLUSH_S 5

struct history_record {
	struct datastore *ds; /* NULL: nothing is recorded */
	struct task *task;
	struct history_run run;
	/* A run that never said how it ended, to be recorded with this one;
	 * id 0 and started 0: none. */
	struct history_run before;
	struct history_removed *log; /* not written so far */
	size_t log_n;
	uint64_t logged;    /* written, of this run */
	int64_t flushed_ns; /* when it was last written, by clock_boot_ns() */
	bool off;           /* it failed, which was told */
	uint32_t warnings;
};
#define HISTORY_RECORD_INIT             \
	{                               \
		.ds = NULL, .log = NULL \
	}

/*
 * Recorded with the first thing that it removes, and at its end: garbage
 * collection makes nothing before its first unlink (I11).
 */
void history_record_init(struct history_record *r, struct datastore *ds,
    struct task *task, enum history_kind kind);
/* Recorded as running, now. */
void history_record_begin(struct history_record *r, struct datastore *ds,
    struct task *task, enum history_kind kind);

/* A snapshot that is about to be removed; or that stayed, after all. */
void history_record_snapshot(struct history_record *r, const char *name);
void history_record_kept(struct history_record *r, const char *name);

/* A file that was removed; written many at a time. */
void history_record_removed(
    struct history_record *r, const struct history_removed *removed);

/*
 * It has ended.  The caller has set run.removed and run.freed.  code: what the
 * work returned; why: its message, or NULL.  result: of a run that returned 0.
 */
void history_record_end(struct history_record *r, enum history_result result,
    int code, const char *why, const struct history_count *counts, size_t n);
void history_record_release(struct history_record *r);

/*
 * A push has ended; nothing was recorded of it before.  made: the snapshot, or
 * NULL.  The rest as above.
 */
void history_record_push(struct history_record *r, const char *made,
    enum history_result result, int code, const char *why,
    const struct history_count *counts, size_t n);

/* The result of a run that returned this error. */
enum history_result history_result_of(int code);

#endif
