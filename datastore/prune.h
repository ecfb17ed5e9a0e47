/* SPDX-License-Identifier: MIT */
/*
 * prune: carry out a policy on a group.
 *
 * The list that the policy is computed from is made under the prune lock,
 * taken exclusively and held until the last removal: no other forget or prune
 * of cairn removes anything meanwhile.  What others add is newer than the list
 * or not in it, and stays.  Programs that take no lock of ours may remove what
 * they like.
 */
#ifndef CAIRN_DATASTORE_PRUNE_H
#define CAIRN_DATASTORE_PRUNE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "datastore/backupid.h"
#include "datastore/base/err.h"
#include "datastore/base/task.h"
#include "datastore/base/zone.h"
#include "datastore/datastore.h"
#include "datastore/retention.h"
#include "datastore/tree.h"

struct prune_opts {
	const struct retention_policy *policy;
	const struct zone *zone; /* NULL: UTC */
	int64_t now;             /* what is later is dated in the future */
	bool dry_run;            /* nothing is locked or removed */
	bool allow_empty;
	/* Told of each removal as a snapshot_watch is, and of each failure;
	 * any may be NULL. */
	void (*removing)(void *ctx, const struct backup_snapshot *s);
	void (*kept)(void *ctx, const struct backup_snapshot *s);
	void (*failed)(void *ctx, const struct err *why);
	void *ctx;
};

enum prune_outcome {
	PRUNE_KEPT,
	PRUNE_REMOVED, /* dry run: would be */
	PRUNE_GONE,    /* somebody else removed it */
	PRUNE_BUSY,    /* it is read or written, or a backup's base */
	PRUNE_FAILED,
	PRUNE_NOT_REACHED, /* stopped, or refused, before it was its turn */
};

struct prune_item {
	struct tree_snapshot snapshot;
	struct retention_decision decision;
	enum prune_outcome outcome;
};

struct prune_group {
	struct prune_item *items; /* oldest first */
	size_t n;
	bool refused; /* no finished one would be left: see allow_empty */
};
#define PRUNE_GROUP_INIT                                \
	{                                               \
		.items = NULL, .n = 0, .refused = false \
	}

/*
 * ds is open with DATASTORE_WRITE (a dry run: DATASTORE_READ).  The policy has
 * a rule at least.  Removes the oldest first; one that can not be removed does
 * not keep the others: 0 then, too, and its outcome says so.  ERR_REFUSED: the
 * policy would leave no finished snapshot, and nothing is removed.
 * ERR_NOTFOUND: there is no such group.  ERR_CANCELLED: stopped on the way.
 *
 * *ret is filled in any case, as far as it came, and to be released.
 */
int prune_group(struct datastore *ds, const struct backup_group *g,
    const struct prune_opts *o, struct task *task, struct prune_group *ret,
    struct err *e);
void prune_group_release(struct prune_group *p);

#endif
