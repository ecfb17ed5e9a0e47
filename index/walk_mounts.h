/* SPDX-License-Identifier: MIT */
/*
 * walk_mounts: which mount an entry is of, as small numbers in the order in
 * which the walk comes to them; the root's is 1.
 */
#ifndef CAIRN_INDEX_WALK_MOUNTS_H
#define CAIRN_INDEX_WALK_MOUNTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "datastore/base/err.h"

struct walk_mounts;

int walk_mounts_new(struct walk_mounts **ret, struct err *e);
void walk_mounts_free(struct walk_mounts *m); /* NULL is allowed */

/*
 * *ret_new: it is the first entry of it, its mount point; *ret_fstype is then
 * the type of the file system ("": it is not known), good until the next call.
 * Kernels that do not number mounts: the device stands for it.
 */
int walk_mounts_find(struct walk_mounts *m, const struct statx *st,
    int64_t *ret_id, bool *ret_new, const char **ret_fstype, struct err *e);

/* The type in a text like /proc/self/mountinfo of the mount of this number;
 * false: there is none. */
bool walk_mounts_parse(
    const char *text, uint64_t mnt_id, char *out, size_t size);

#endif
