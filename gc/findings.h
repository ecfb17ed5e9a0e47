/* SPDX-License-Identifier: MIT */
/*
 * findings: reasons not to sweep, and what else a person should know.
 *
 * A run that finds something it can not read goes on to find everything that
 * it can not read; each finding is a warning when it is found, and if there
 * was a fatal one, nothing is removed (I5).  What lies in a snapshot that was
 * set aside by its name (`--ignore`) is not fatal.
 */
#ifndef CAIRN_GC_FINDINGS_H
#define CAIRN_GC_FINDINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "datastore/backupid.h"
#include "datastore/base/err.h"
#include "datastore/base/task.h"

struct findings {
	struct task *task;
	const struct backup_snapshot *ignore; /* snapshots set aside */
	size_t ignore_n;
	/* Say nothing of what is not fatal: a further pass over the same
	 * index files has it all again. */
	bool quiet;
	uint64_t fatal;
	uint32_t warnings;
};

/* It would not be safe to sweep. */
void findings_fatal(struct findings *f, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* Worth telling, no more. */
void findings_warn(struct findings *f, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/*
 * Something is wrong with this path below the root: fatal, or a warning if
 * it is, or is within, a snapshot set aside.
 */
void findings_at(struct findings *f, const char *path, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Is this path a snapshot set aside, or within one? */
bool findings_is_ignored(const struct findings *f, const char *path);

#endif
