/* SPDX-License-Identifier: MIT */
/*
 * restore_tree: a tree, or paths of a tree or tar, into a directory.
 */
#ifndef CAIRN_CLI_RESTORE_TREE_H
#define CAIRN_CLI_RESTORE_TREE_H

#include <stdbool.h>

#include "cli/app.h"
#include "cli/command.h"
#include "cli/opened.h"
#include "datastore/base/err.h"
#include "index/tree_restore.h"

/* A whole tree, or any PATH: not an archive's stream. */
bool restore_tree_is_meant(const struct invocation *inv);

/* The snapshot is opened, its archive is not.  Returns the exit code. */
int restore_tree(struct app *app, const struct invocation *inv,
    struct opened *o, enum tree_overwrite overwrite, struct err *e);

/* ERR_REFUSED: the open directory is the datastore's, or lies in it. */
int restore_tree_refuse_store(
    const struct datastore *ds, int dirfd, const char *shown, struct err *e);

/* The directory above a target could not be opened: errno says why. */
int restore_tree_no_parent(const char *shown, struct err *e);

#endif
