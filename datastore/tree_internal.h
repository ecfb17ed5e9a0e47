/* SPDX-License-Identifier: MIT */
/*
 * tree_internal: what the listing and the opening of the tree share.
 */
#ifndef CAIRN_DATASTORE_TREE_INTERNAL_H
#define CAIRN_DATASTORE_TREE_INTERNAL_H

#include "datastore/backupid.h"

/*
 * "<dir>/<name>", or the name alone in the root ("").  The name is well-formed
 * or ours; returns out.
 */
const char *tree_join(
    const char *dir, const char *name, char out[BACKUP_PATH_SIZE]);

#endif
