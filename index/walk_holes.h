/* SPDX-License-Identifier: MIT */
/*
 * walk_holes: where a file has data, and what was allocated without any.
 *
 * Holes are what SEEK_HOLE says (a file system that knows none says that all
 * is data); of them, and of what lies behind the end, FIEMAP tells which parts
 * are preallocated.  Cost follows the number of ranges, not the size.
 */
#ifndef CAIRN_INDEX_WALK_HOLES_H
#define CAIRN_INDEX_WALK_HOLES_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "datastore/base/buf.h"
#include "datastore/base/err.h"

/* With more holes, what lies behind the last of these is read as data. */
#define WALK_HOLES_MAX 65536U

/*
 * The holes of the file, in the form of the column `holes`; empty: it has
 * none.  st is its own.  Never fails but for memory.
 */
int walk_holes(int fd, const struct statx *st, struct buf *out, struct err *e);

/*
 * The data around them, range by range: *at begins as 0, and *ret_start and
 * *ret_end are of the next range below size; false: there is none.
 */
bool walk_holes_data(const struct buf *holes, uint64_t size, uint64_t *at,
    uint64_t *ret_start, uint64_t *ret_end);
/* Bytes of all ranges. */
uint64_t walk_holes_stored(const struct buf *holes, uint64_t size);
/* The file has become shorter: forget what lies behind. */
void walk_holes_truncate(struct buf *holes, uint64_t size);

#endif
