/* SPDX-License-Identifier: MIT */
/*
 * tree_restore_sort: pairs of numbers, put in order in bounded memory.
 *
 * Runs of RESTORE_SORT_RUN pairs are sorted in memory; where there are more,
 * they go to a file without a name and are merged.  Memory: 4 MiB, and 4 KiB
 * for each run.  One thread.
 */
#ifndef CAIRN_INDEX_TREE_RESTORE_SORT_H
#define CAIRN_INDEX_TREE_RESTORE_SORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "datastore/base/err.h"

#define RESTORE_SORT_RUN ((size_t)1 << 18)

/* By `key`, then `at`. */
struct restore_pair {
	uint64_t key;
	uint64_t at;
};

struct restore_sort;

/* run: pairs sorted at a time, RESTORE_SORT_RUN but in tests. */
int restore_sort_new(size_t run, struct restore_sort **ret, struct err *e);
void restore_sort_free(struct restore_sort *s); /* NULL is allowed */

/* Forget all pairs. */
void restore_sort_clear(struct restore_sort *s);
uint64_t restore_sort_count(const struct restore_sort *s);
int restore_sort_add(
    struct restore_sort *s, struct restore_pair pair, struct err *e);
/* What was added so far, from the first one on. */
int restore_sort_rewind(struct restore_sort *s, struct err *e);
/* After rewind, with nothing added since. */
int restore_sort_next(struct restore_sort *s, struct restore_pair *ret,
    bool *ret_more, struct err *e);

#endif
