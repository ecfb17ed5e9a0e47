/* SPDX-License-Identifier: MIT */
/*
 * history_report: runs of the history, as text and as JSON.
 */
#ifndef CAIRN_CLI_HISTORY_REPORT_H
#define CAIRN_CLI_HISTORY_REPORT_H

#include "cli/app.h"
#include "cli/output.h"
#include "datastore/base/err.h"
#include "datastore/base/json.h"
#include "gc/history.h"

int history_report_table(struct table **ret, struct err *e);
int history_report_row(
    struct table *t, const struct history_run *r, struct err *e);
struct js *history_report_json(const struct history_run *r, struct err *e);

/* All there is of one run. */
int history_report_one(struct app *app, struct datastore *ds,
    const struct history_run *r, struct err *e);
/* What it removed, a file a line. */
int history_report_digests(struct app *app, struct datastore *ds,
    const struct history_run *r, struct err *e);

#endif
