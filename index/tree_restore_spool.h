/* SPDX-License-Identifier: MIT */
/*
 * tree_restore_spool: records kept in a file without a name, read back from
 * anywhere.
 *
 * What a restore has to remember of a million entries does not fit into the
 * memory it may take.  A spool takes 512 KiB, whatever is in it.  One thread.
 */
#ifndef CAIRN_INDEX_TREE_RESTORE_SPOOL_H
#define CAIRN_INDEX_TREE_RESTORE_SPOOL_H

#include <stddef.h>
#include <stdint.h>

#include "datastore/base/err.h"

struct restore_spool;

int restore_spool_new(struct restore_spool **ret, struct err *e);
void restore_spool_free(struct restore_spool *s); /* NULL is allowed */

/* n bytes behind all others; *ret_at is their place. */
int restore_spool_append(struct restore_spool *s, const void *p, size_t n,
    uint64_t *ret_at, struct err *e);
/* Bytes that were appended. */
int restore_spool_read(
    struct restore_spool *s, uint64_t at, void *p, size_t n, struct err *e);
int restore_spool_overwrite(struct restore_spool *s, uint64_t at, const void *p,
    size_t n, struct err *e);

#endif
