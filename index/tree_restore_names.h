/* SPDX-License-Identifier: MIT */
/*
 * tree_restore_names: extended attributes and owners of a catalog, as this
 * machine has them.
 *
 * Users and groups go by their names, where the catalog has one and this
 * machine knows it, else by their numbers; so do those in ACLs.  Both are
 * kept for a while, since many entries share few.  One thread, the catalog's;
 * what restore_names_attr gives may be used and put back by any.
 */
#ifndef CAIRN_INDEX_TREE_RESTORE_NAMES_H
#define CAIRN_INDEX_TREE_RESTORE_NAMES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "datastore/base/buf.h"
#include "datastore/base/err.h"
#include "datastore/base/task.h"
#include "index/catalog.h"

#define RESTORE_ACL_ACCESS "system.posix_acl_access"
#define RESTORE_ACL_DEFAULT "system.posix_acl_default"
#define RESTORE_CAPABILITY "security.capability"

struct restore_attr {
	atomic_uint refs;
	int64_t id;
	struct buf data; /* for catalog_attr_next */
	bool has_access;
	bool has_default;
	bool has_capability;
	bool nameless; /* a name in an ACL is lost: it has the number */
};

struct restore_names;

int restore_names_new(struct catalog *c, bool numeric, struct task *task,
    struct restore_names **ret, struct err *e);
void restore_names_free(struct restore_names *n); /* NULL is allowed */

/* A name that the catalog lost is no end: that is said once, the number
 * stands, and *lost becomes true. */
int restore_names_id(struct restore_names *n, enum catalog_account kind,
    uint32_t id, uint32_t *ret, bool *lost, struct err *e);

/* Put it back with restore_attr_put. */
int restore_names_attr(struct restore_names *n, int64_t id,
    struct restore_attr **ret, struct err *e);
void restore_attr_put(struct restore_attr *a); /* NULL is allowed */

#endif
