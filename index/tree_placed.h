/* SPDX-License-Identifier: MIT */
/*
 * tree_placed: which contents are in the stream, and where.
 *
 * 56 bytes a content.  When there are TREE_PLACED_MAX, the oldest makes room
 * for the newest: that content, met again, is stored again.
 */
#ifndef CAIRN_INDEX_TREE_PLACED_H
#define CAIRN_INDEX_TREE_PLACED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "datastore/base/digest.h"
#include "datastore/base/err.h"

#define TREE_PLACED_MAX (1U << 20)

struct tree_placed;

/* most: a power of two, 0: TREE_PLACED_MAX */
int tree_placed_new(size_t most, struct tree_placed **ret, struct err *e);
void tree_placed_free(struct tree_placed *t); /* NULL is allowed */

bool tree_placed_find(const struct tree_placed *t, const struct digest *d,
    uint64_t size, uint64_t *ret_pos);
/* False: none of this size was ever added.  Else one may have been. */
bool tree_placed_has_size(const struct tree_placed *t, uint64_t size);
/* One that is not there. */
int tree_placed_add(struct tree_placed *t, const struct digest *d,
    uint64_t size, uint64_t pos, struct err *e);

#endif
