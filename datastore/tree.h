/* SPDX-License-Identifier: MIT */
/*
 * tree: what lies where below the root: namespaces, groups, snapshots.
 *
 * Listings show what is well-formed and pass over other names, as PBS does;
 * a symbolic link where a directory should be is an error (a walker that
 * passed over it would call its chunks garbage).  Something that vanishes
 * while being listed is passed over.
 */
#ifndef CAIRN_DATASTORE_TREE_H
#define CAIRN_DATASTORE_TREE_H

#include <stdbool.h>
#include <stddef.h>

#include "datastore/backupid.h"
#include "datastore/base/err.h"
#include "datastore/datastore.h"
#include "datastore/manifest.h"

struct tree_namespaces {
	struct backup_ns *items; /* the root first, then by name */
	size_t n;
};

struct tree_groups {
	struct backup_group *items; /* sorted by backup_group_compare */
	size_t n;
};

struct tree_snapshot {
	struct backup_snapshot id;
	bool finished; /* has a manifest */
	bool is_protected;
};

struct tree_snapshots {
	struct tree_snapshot *items; /* oldest first */
	size_t n;
};

/*
 * For who wants all that can be listed: what is in the way (a link in place of
 * a directory, one that can not be read) is told to fn and passed over.  NULL
 * in its place: it is an error.
 */
struct tree_obstacles {
	void (*fn)(void *ctx, const struct err *why);
	void *ctx;
};

int tree_namespaces_past(struct datastore *ds, const struct tree_obstacles *o,
    struct tree_namespaces *ret, struct err *e);
int tree_groups_past(struct datastore *ds, const struct backup_ns *ns,
    const struct tree_obstacles *o, struct tree_groups *ret, struct err *e);
int tree_snapshots_past(struct datastore *ds, const struct backup_group *g,
    const struct tree_obstacles *o, struct tree_snapshots *ret, struct err *e);

int tree_namespaces(
    struct datastore *ds, struct tree_namespaces *ret, struct err *e);
void tree_namespaces_release(struct tree_namespaces *l);

/* ERR_NOTFOUND if the namespace does not exist. */
int tree_groups(struct datastore *ds, const struct backup_ns *ns,
    struct tree_groups *ret, struct err *e);
void tree_groups_release(struct tree_groups *l);

/* ERR_NOTFOUND if the group does not exist. */
int tree_snapshots(struct datastore *ds, const struct backup_group *g,
    struct tree_snapshots *ret, struct err *e);
void tree_snapshots_release(struct tree_snapshots *l);

/*
 * TYPE/ID/TIME or TYPE/ID/latest (newest finished) to a snapshot that exists;
 * ERR_NOTFOUND, ERR_INVALID.
 */
int tree_find_snapshot(struct datastore *ds, const struct backup_ns *ns,
    const char *text, struct backup_snapshot *ret, struct err *e);

/* Open the directories, following no link; ERR_NOTFOUND. */
int tree_open_group(struct datastore *ds, const struct backup_group *g,
    int *ret_fd, struct err *e);
int tree_open_snapshot(struct datastore *ds, const struct backup_snapshot *s,
    int *ret_fd, struct err *e);

/*
 * The group directory, made with everything above it and its `owner` file if
 * it is missing.
 */
int tree_make_group(struct datastore *ds, const struct backup_group *g,
    int *ret_fd, struct err *e);

/* First line of `owner`, trimmed; "" if there is none. */
int tree_group_owner(struct datastore *ds, const struct backup_group *g,
    char *out, size_t size, struct err *e);

/*
 * Read a snapshot's manifest.  ERR_NOTFOUND: unfinished.  Messages name the
 * manifest's path.
 */
int tree_read_manifest(struct datastore *ds, const struct backup_snapshot *s,
    int snapshot_fd, struct manifest *m, struct err *e);

#endif
