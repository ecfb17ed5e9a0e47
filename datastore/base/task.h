/* SPDX-License-Identifier: MIT */
/*
 * task: what long work reports, and how it is told to stop.
 *
 * A long function takes a `struct task *`, never NULL.  It calls task_check
 * at a documented granularity, task_message for what a person must read, and
 * task_progress as often as it likes: the sink decides what is shown when.
 * The top fills `ops`; TASK_SILENT is for tests and for work nobody watches.
 *
 * Thread-safe: messages and progress may come from any thread (the sink
 * locks); `stop` is set by a signal handler or another thread.
 */
#ifndef CAIRN_DATASTORE_BASE_TASK_H
#define CAIRN_DATASTORE_BASE_TASK_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "datastore/base/err.h"

enum task_level {
	TASK_DEBUG,
	TASK_NOTE,
	TASK_WARNING,
};

enum task_unit {
	TASK_UNIT_COUNT,
	TASK_UNIT_BYTES, /* people see sizes, of a phase also its rate */
};

/* One counter of a progress line; of is 0 where no total is known. */
struct task_count {
	const char *key;  /* of JSON: "index-files-read" */
	const char *text; /* for people, behind it: "index files read" */
	uint64_t done;
	uint64_t of;
	enum task_unit unit;
	const char *one; /* text for exactly one; NULL: the same */
};

/*
 * One state of one phase ("gc: mark").  Percent is done / total, rounded
 * down, so that 100 means all; total 0 means unknown: no percent is shown.
 * A phase's done never falls.
 */
struct task_progress {
	const char *phase;
	enum task_unit unit;
	uint64_t done;
	uint64_t total;
	const struct task_count *counts;
	size_t counts_n;
};

struct task_ops {
	void (*message)(void *ctx, enum task_level level, const char *text);
	void (*progress)(void *ctx, const struct task_progress *p);
};

struct task {
	const struct task_ops *ops; /* NULL: silent */
	void *ctx;
	atomic_int stop; /* 0, or the number of the signal that asks to stop */
};

#define TASK_SILENT                                 \
	{                                           \
		.ops = NULL, .ctx = NULL, .stop = 0 \
	}

void task_message(struct task *t, enum task_level level, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
void task_progress(struct task *t, const struct task_progress *p);

/* 0, or ERR_CANCELLED when t->stop is set. */
int task_check(struct task *t, struct err *e);

#endif
