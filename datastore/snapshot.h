/* SPDX-License-Identifier: MIT */
/*
 * snapshot: what is done to a snapshot that exists: lock, forget, protect,
 * annotate.
 *
 * Locks are flock on the directories (pathlock.h), never waited for
 * (ERR_BUSY), re-checked by inode: readers shared, removal exclusive.  Each
 * removal (of a forget, a cleaner, a failed session) goes through
 * snapshot_remove: tree lock shared, the path recorded in `.cairn/removed`,
 * manifest first, then the rest, then the directory.
 */
#ifndef CAIRN_DATASTORE_SNAPSHOT_H
#define CAIRN_DATASTORE_SNAPSHOT_H

#include <stdbool.h>

#include "datastore/backupid.h"
#include "datastore/base/err.h"
#include "datastore/base/lockfile.h"
#include "datastore/base/task.h"
#include "datastore/cairndir.h"
#include "datastore/datastore.h"
#include "datastore/manifest.h"

/*
 * A snapshot held open against removal.  On a store that can not be written
 * (read-only file system) a lock that fails is done without.
 */
struct snapshot_hold {
	int fd; /* its directory */
};
#define SNAPSHOT_HOLD_INIT \
	{                  \
		.fd = -1   \
	}

int snapshot_hold(struct datastore *ds, const struct backup_snapshot *s,
    enum lock_mode mode, struct snapshot_hold *ret, struct err *e);
void snapshot_release(struct snapshot_hold *h);

/*
 * Where the path of each removed snapshot is appended, one a line, below
 * `.cairn`; GC empties it, under a flock of the file, when it has written
 * `roots`.
 */
#define SNAPSHOT_REMOVED "removed"
/*
 * The same of each snapshot that was pushed.  A line of init's says that they
 * are all that there ever were, until GC writes the first `roots`.
 */
#define SNAPSHOT_ADDED "added"
#define SNAPSHOT_ADDED_ALL "# all since init"

/*
 * Remove a snapshot, finished or not, and its group's directory if it was the
 * last one.  ERR_REFUSED if protected, ERR_BUSY if anyone reads it, bases on
 * it or writes it.  Takes prune lock and tree lock shared.
 */
int snapshot_forget(struct datastore *ds, const struct backup_snapshot *s,
    struct task *task, struct err *e);

/*
 * Who is told of a removal, while its locks are held; any may be NULL.
 * removing: nothing speaks against it any more, and nothing was removed so far.
 * kept: then it failed, and the manifest is still there.
 */
struct snapshot_watch {
	void (*removing)(void *ctx, const struct backup_snapshot *s);
	void (*kept)(void *ctx, const struct backup_snapshot *s);
	void *ctx;
};
int snapshot_forget_watched(struct datastore *ds,
    const struct backup_snapshot *s, const struct snapshot_watch *watch,
    struct task *task, struct err *e);

/* The same where the caller holds the prune lock; `what` waits, in messages. */
int snapshot_forget_locked(struct datastore *ds,
    const struct backup_snapshot *s, const char *what,
    const struct snapshot_watch *watch, struct task *task, struct err *e);

/*
 * Removals that were begun and did not end, because somebody was killed in
 * the middle: recorded in `.cairn/removed`, still there, without a manifest,
 * not protected.  What is left of them are index files that keep chunks.  only:
 * those of this group; NULL: all.  The array is to be freed.
 */
int snapshot_interrupted(struct datastore *ds, const struct backup_group *only,
    struct backup_snapshot **ret, size_t *ret_n, struct err *e);

/*
 * End them.  One that somebody holds is left alone: it is being removed now,
 * or written anew.  What can not be ended is a warning.
 */
int snapshot_end_removals(struct datastore *ds, const struct backup_group *only,
    struct task *task, size_t *ret_n, struct err *e);

/*
 * Remove the directory's content and the directory, under locks that the
 * caller holds (tree shared, snapshot exclusive): manifest first; path
 * recorded in `.cairn/removed` before.  group_fd is its parent.  A directory
 * inside it is an error.
 */
int snapshot_remove(struct datastore *ds, int group_fd, int snapshot_fd,
    const struct backup_snapshot *s, struct err *e);

/*
 * Remove a group's directory if nothing is in it but `owner` and `notes`,
 * under locks that the caller holds (tree shared, group exclusive: group_fd
 * is what pathlock_take gave).  Something else in it: nothing is done.
 */
int snapshot_remove_group(struct datastore *ds, const struct backup_group *g,
    int group_fd, bool *ret_removed, struct err *e);
/* The same where the group lock is only tried (tree lock held). */
int snapshot_try_remove_group(struct datastore *ds,
    const struct backup_group *g, bool *ret_removed, struct err *e);

/*
 * The group's directory, locked exclusively, not waited for (ERR_BUSY),
 * re-checked.  ERR_NOTFOUND if there is none.
 */
int snapshot_lock_group(struct datastore *ds, const struct backup_group *g,
    int *ret_fd, struct err *e);

/* Append the path of what is about to be removed to `.cairn/removed` (where
 * .cairn is missing: nothing to do). */
int snapshot_record_removal(
    struct datastore *ds, const struct backup_snapshot *s, struct err *e);

/* The same of what was pushed, to `.cairn/added`. */
int snapshot_record_added(
    struct datastore *ds, const struct backup_snapshot *s, struct err *e);

/* "<datastore>/<snapshot>/<name>" for messages; name may be "". */
const char *snapshot_shown(const struct datastore *ds,
    const struct backup_snapshot *s, const char *name,
    char out[CAIRNDIR_SHOWN]);

int snapshot_is_protected(int snapshot_fd, bool *ret, struct err *e);
int snapshot_set_protected(struct datastore *ds,
    const struct backup_snapshot *s, bool value, struct err *e);

/*
 * Change the manifest's `unprotected`, and only that: exclusive flock of
 * index.json.blob itself, re-checked by inode, awaited 5 s at most, re-read,
 * changed by fn, replaced.  The caller holds the snapshot.
 */
int snapshot_update_manifest(struct datastore *ds,
    const struct backup_snapshot *s, int snapshot_fd,
    int (*fn)(void *ctx, struct manifest *m, struct err *e), void *ctx,
    struct err *e);
int snapshot_set_notes(struct datastore *ds, const struct backup_snapshot *s,
    const char *notes, struct err *e);

#endif
