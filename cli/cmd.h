/* SPDX-License-Identifier: MIT */
/*
 * cmd: the commands' functions, for the table in commands.c.
 *
 * Each returns the exit code, or a negative error with *e filled.
 */
#ifndef CAIRN_CLI_CMD_H
#define CAIRN_CLI_CMD_H

#include "cli/app.h"
#include "cli/command.h"
#include "datastore/backupid.h"
#include "datastore/base/err.h"
#include "datastore/base/json.h"
#include "gc/wouldfree.h"

typedef int cmd_fn(
    struct app *app, const struct invocation *inv, struct err *e);

cmd_fn cmd_cat;
cmd_fn cmd_completion;
cmd_fn cmd_diff;
cmd_fn cmd_du;
cmd_fn cmd_export;
cmd_fn cmd_files;
cmd_fn cmd_find;
cmd_fn cmd_forget;
cmd_fn cmd_gc;
cmd_fn cmd_groups;
cmd_fn cmd_help;
cmd_fn cmd_history;
cmd_fn cmd_index;
cmd_fn cmd_init;
cmd_fn cmd_inspect;
cmd_fn cmd_list;
cmd_fn cmd_ls;
cmd_fn cmd_namespaces;
cmd_fn cmd_note;
cmd_fn cmd_protect;
cmd_fn cmd_prune;
cmd_fn cmd_push;
cmd_fn cmd_restore;
cmd_fn cmd_status;
cmd_fn cmd_unprotect;
cmd_fn cmd_verify;
cmd_fn cmd_version;

/* ERR_INVALID: "--option 'value': want ...". */
int cmd_bad_value(
    const char *option, const char *value, const char *want, struct err *e);

/* The keys that name a snapshot in every JSON document. */
void cmd_json_group(
    struct js *obj, const struct backup_group *g, struct err *e);
void cmd_json_snapshot(
    struct js *obj, const struct backup_snapshot *s, struct err *e);

/* What would become garbage if these snapshots were removed; in memory of
 * the touch batch. */
int cmd_garbage_count(struct app *app, struct datastore *ds,
    const struct backup_snapshot *gone, size_t n, struct wouldfree *ret,
    struct err *e);
struct js *cmd_garbage_json(const struct wouldfree *w, struct err *e);
int cmd_garbage_print(const struct wouldfree *w, struct err *e);

/* A file of a snapshot as ARCHIVE: its name without the suffix. */
void cmd_archive_name(const char *filename, char out[BACKUP_ID_MAX + 1]);

#endif
