/* SPDX-License-Identifier: MIT */
/*
 * memory: how much of the machine's this process, and what the kernel caches
 * for it, may fill.
 */
#ifndef CAIRN_DATASTORE_BASE_MEMORY_H
#define CAIRN_DATASTORE_BASE_MEMORY_H

#include <stdint.h>

/*
 * Bytes: the least of what the machine has and what the control groups of this
 * process allow, version 1 or 2, each with those above it.  What can not be
 * read does not count.
 */
uint64_t memory_limit(void);

/*
 * The groups alone; UINT64_MAX: none has a limit.  list: as /proc/self/cgroup
 * has it (cgroups(7)); root: where the hierarchies are mounted.
 */
uint64_t memory_group_limit(const char *list, const char *root);

#endif
