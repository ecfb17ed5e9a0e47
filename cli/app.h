/* SPDX-License-Identifier: MIT */
/*
 * app: one run of the program: global options, config, task, and the way to
 * a datastore.
 */
#ifndef CAIRN_CLI_APP_H
#define CAIRN_CLI_APP_H

#include <stdbool.h>
#include <stddef.h>

#include "cli/command.h"
#include "cli/report.h"
#include "datastore/backupid.h"
#include "datastore/base/err.h"
#include "datastore/base/task.h"
#include "datastore/config.h"
#include "datastore/datastore.h"
#include "datastore/tree.h"

struct app {
	const struct invocation *inv;
	bool json;
	bool quiet;
	struct backup_ns ns;
	struct config config;
	struct report report;
	struct task task;
};

/* Reads global options and the config file. */
int app_init(struct app *app, const struct invocation *inv, struct err *e);
void app_release(struct app *app);

/*
 * The datastore that -d, CAIRN_DATASTORE or, if the config file has exactly
 * one, the config names.
 */
int app_open_datastore(struct app *app, enum datastore_access access,
    struct datastore **ret, struct err *e);

/* The settings for a path: of its config section, or the defaults. */
struct settings app_settings(const struct app *app, const char *path);

/*
 * Prints the error as one line; the exit code for it.  A reader of standard
 * output that went away ends the program as SIGPIPE would: 141, and no word.
 */
int app_fail(const struct app *app, const struct err *e);
/* Of the command line itself. */
int app_fail_usage(const struct err *e, bool json);

#endif
