/* SPDX-License-Identifier: MIT */
/*
 * hint: commands to be typed next, with the global options of this run, so
 * that they can be copied as they are; and what was meant by a word that is
 * not known.
 */
#ifndef CAIRN_CLI_HINT_H
#define CAIRN_CLI_HINT_H

#include <stdbool.h>
#include <stddef.h>

#include "cli/app.h"
#include "datastore/backupid.h"
#include "datastore/base/err.h"
#include "datastore/base/task.h"

#define HINT_SIZE 320 /* a longer one loses its options, not its command */

enum hint_scope {
	HINT_STORE,     /* -d and --config; for what knows no namespaces */
	HINT_NAMESPACE, /* and --ns */
};

/*
 * "cairn -d ./store gc --cutoff 0" of "gc --cutoff 0": with -d, --config and
 * --ns as they were given on this command line, quoted for a shell.  (What
 * came from the environment is there for the next command, too.)  Returns
 * out.
 */
const char *hint_command(const struct app *app, enum hint_scope scope,
    const char *rest, char out[HINT_SIZE]);

/*
 * Behind an error that is damage, of something in this snapshot: what can be
 * done.  rest: the option that gives what is left, or NULL.
 */
void hint_damage(const struct app *app, const struct backup_snapshot *id,
    const char *rest, struct err *e);

/*
 * The same of a manifest, an index or a blob: no push mends those, but another
 * snapshot may have it whole.
 */
void hint_damaged_file(
    const struct app *app, const struct backup_snapshot *id, struct err *e);

/* The same as a note, where each damaged thing was named already. */
void hint_tell_damage(
    const struct app *app, const struct backup_snapshot *id, struct task *task);

/*
 * Behind an error that a snapshot has no manifest: where its data may be found
 * whole.
 */
void hint_unfinished(
    const struct app *app, const struct backup_snapshot *id, struct err *e);

/* What to type for this snapshot, and for those of its group. */
const char *hint_snapshot(const struct app *app, const char *command,
    const struct backup_snapshot *id, char out[HINT_SIZE]);
const char *hint_group(const struct app *app, const char *command,
    const struct backup_group *g, char out[HINT_SIZE]);

/* Behind an error of a full file system: how to make room. */
void hint_no_space(const struct app *app, struct err *e);

#endif
