/* SPDX-License-Identifier: MIT */
/*
 * meant: a name that does not exist: what is there instead, behind the error.
 */
#ifndef CAIRN_CLI_MEANT_H
#define CAIRN_CLI_MEANT_H

#include "cli/app.h"
#include "datastore/backupid.h"
#include "datastore/base/err.h"
#include "datastore/datastore.h"
#include "index/catalog.h"

/*
 * Each does nothing unless *e is ERR_NOTFOUND.  A failure to look is none: the
 * error stays as it is.
 */

/* The group of what was looked for; a namespace that is not there, too. */
void meant_group(const struct app *app, struct datastore *ds,
    const struct backup_group *g, struct err *e);
void meant_namespace(
    struct datastore *ds, const struct backup_ns *ns, struct err *e);

/* tree_find_snapshot, with what is there instead. */
int meant_find_snapshot(const struct app *app, struct datastore *ds,
    const char *word, struct backup_snapshot *ret, struct err *e);

/* A PATH in an archive: one that would be right without its beginning. */
void meant_path(struct catalog *c, struct catalog_bytes path, struct err *e);

#endif
