/* SPDX-License-Identifier: MIT */
/*
 * tree_cat: the content of one file of a tree or tar archive.
 */
#ifndef CAIRN_INDEX_TREE_CAT_H
#define CAIRN_INDEX_TREE_CAT_H

#include <stddef.h>
#include <stdint.h>

#include "datastore/base/err.h"
#include "datastore/base/task.h"
#include "index/archive_reader.h"
#include "index/catalog.h"

/* Takes the next n bytes of the content, in order. */
typedef int tree_cat_sink(void *ctx, const void *p, size_t n, struct err *e);

/*
 * All `size` bytes, holes as zeros, then its SHA-256 is compared.  ERR_CORRUPT
 * where a chunk is bad or the digest differs (known only at the end; what the
 * sink has got may be wrong then); ERR_NOTFOUND: the file could not be read
 * when it was pushed; ERR_INVALID: no regular file.
 */
int tree_cat(struct catalog *c, struct archive_reader *r,
    const struct catalog_entry *file, tree_cat_sink *sink, void *ctx,
    struct task *task, struct err *e);

#endif
