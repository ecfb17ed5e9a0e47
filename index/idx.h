/* SPDX-License-Identifier: MIT */
/*
 * idx: reading an index file, fixed or dynamic, in order or anywhere.
 *
 * Read by pread in pieces, never mapped: a disk that fails gives an error,
 * not a signal.  An idx belongs to one thread.  Takes 1 MiB of memory at most,
 * when reading in order.
 */
#ifndef CAIRN_INDEX_IDX_H
#define CAIRN_INDEX_IDX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "datastore/base/digest.h"
#include "datastore/base/err.h"
#include "index/idxformat.h"

struct idx;

/*
 * Open and check the header.  Messages begin with `shown` (copied).
 * ERR_NOTFOUND: no such file; ERR_CORRUPT: no index, or a broken one, or one
 * of the other kind than its suffix says.
 */
int idx_open(int dirfd, const char *name, const char *shown, struct idx **ret,
    struct err *e);
/* The same for an open file, which the idx then owns (on success only). */
int idx_open_fd(int fd, const char *shown, struct idx **ret, struct err *e);
void idx_close(struct idx *ix); /* NULL is allowed */

const struct idx_info *idx_info(const struct idx *ix);
const struct statx *idx_stat(const struct idx *ix); /* when opened */
int idx_fd(const struct idx *ix);                   /* borrowed */

/*
 * The next entries in order, at most max (1 or more); *ret_n 0 at the end.
 * The checksum is computed along the way; at the end it is compared with the
 * header's and ERR_CORRUPT says if they differ.  So an index was read whole
 * when this returned 0 entries without an error.  After an error go on with
 * idx_rewind or not at all.
 */
int idx_next(struct idx *ix, struct idx_entry *entries, size_t max,
    size_t *ret_n, struct err *e);
int idx_rewind(struct idx *ix, struct err *e);
/*
 * Only when idx_next has reached the end, with or without the error that it
 * differs: the computed checksum.
 */
const struct digest *idx_computed_csum(const struct idx *ix);

/*
 * n entries from number `first` on, first + n <= count, in any order of calls;
 * no checksum.  Does not disturb idx_next.
 */
int idx_read(struct idx *ix, uint64_t first, struct idx_entry *entries,
    size_t n, struct err *e);

/* Read it whole, for its checksum and order only. */
int idx_check(struct idx *ix, struct err *e);

/*
 * For session_opts.references.  A file that is no index by its name references
 * nothing.  fd is borrowed.
 */
int idx_references(int fd, const char *filename, const struct digest *d,
    bool *ret, struct err *e);

#endif
