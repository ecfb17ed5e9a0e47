/* SPDX-License-Identifier: MIT */
/*
 * tree_restore_paths: paths of an archive, as they were asked for, put in the
 * order of a walk.
 */
#ifndef CAIRN_INDEX_TREE_RESTORE_PATHS_H
#define CAIRN_INDEX_TREE_RESTORE_PATHS_H

#include <stddef.h>

#include "datastore/base/err.h"
#include "index/catalog.h"

struct restore_path {
	struct catalog_bytes *names; /* of its components; borrowed from text */
	size_t n;
	struct catalog_bytes text; /* "a/b/c" */
	uint8_t *memory;
};

/*
 * Each is looked up: ERR_NOTFOUND, ERR_INVALID as catalog_resolve.  What lies
 * below another one, or is there twice, is left out.  None: the whole archive
 * is wanted.
 */
int restore_paths_new(struct catalog *c, const struct catalog_bytes *paths,
    size_t n, struct restore_path **ret, size_t *ret_n, struct err *e);
void restore_paths_free(struct restore_path *paths, size_t n);

/* How many components both begin with. */
size_t restore_path_common(
    const struct restore_path *a, const struct restore_path *b);

#endif
