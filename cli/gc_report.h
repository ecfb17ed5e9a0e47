/* SPDX-License-Identifier: MIT */
/*
 * gc_report: the result of a garbage collection, as text and as JSON.
 */
#ifndef CAIRN_CLI_GC_REPORT_H
#define CAIRN_CLI_GC_REPORT_H

#include "cli/app.h"
#include "datastore/base/err.h"
#include "datastore/base/json.h"
#include "datastore/gcrunning.h"
#include "gc/gc.h"
#include "gc/history.h"

/* Of a run that ended well, to stdout. */
int gc_report_run(struct app *app, const struct gc_result *r, struct err *e);

/* Of one that was stopped: a note of what it did. */
void gc_report_stopped(struct app *app, const struct gc_result *r);

/* What gc.running and the history tell besides. */
struct gc_seen {
	struct gcrunning now; /* of the one that runs */
	bool has_now;
	/* The newest one, if it did not do its work. */
	struct history_run failed;
	bool has_failed;
};

/* Fill in seen->failed. */
void gc_report_look(struct app *app, struct datastore *ds,
    const struct gc_last *last, struct gc_seen *seen);

/* `gc status`; running: who, or NULL. */
int gc_report_status(struct app *app, const struct gc_last *last,
    const char *running, const struct gc_seen *seen, struct err *e);

/* The keys of a result; PBS's names where PBS has them. */
void gc_report_json(struct js *obj, const struct gc_result *r, struct err *e);

#endif
