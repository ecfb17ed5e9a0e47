/* SPDX-License-Identifier: MIT */
/*
 * report: the program's end of a task: progress and messages on stderr.
 *
 * On a terminal one live line, rewritten at most ten times a second; on a log
 * a line when a percent was passed and at least 10 s went by since the last;
 * with --json one event per line on stderr:
 *     {"event":"progress","phase":"gc: mark","done":..,"total":..,...}
 *     {"event":"message","level":"warning","text":".."}
 * --quiet leaves only warnings.  A line that somebody asks for (`asked`, set
 * by a signal) is shown whatever the options say.  Thread-safe.
 */
#ifndef CAIRN_CLI_REPORT_H
#define CAIRN_CLI_REPORT_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "datastore/base/err.h"
#include "datastore/base/task.h"

enum report_progress {
	REPORT_AUTO,   /* live on a terminal, lines elsewhere */
	REPORT_ALWAYS, /* as AUTO, also with --quiet */
	REPORT_NEVER,
};

struct report {
	pthread_mutex_t lock;
	bool json;
	bool quiet;
	bool terminal;
	enum report_progress progress;
	unsigned warnings;
	atomic_bool asked;
	/* of the line that is shown */
	char phase[64];
	bool live_line;
	int64_t phase_began_ns;
	int64_t last_ns;
	int last_percent;
	uint64_t phase_first_done;
};

extern const struct task_ops report_task_ops; /* ctx: struct report */

int report_init(struct report *r, bool json, bool quiet,
    enum report_progress progress, struct err *e);
/* Ends a live line. */
void report_release(struct report *r);

/* One event of the --json stream: a line on stderr.  Frees event. */
struct js;
void report_event(struct js *event, struct err *e);

#endif
