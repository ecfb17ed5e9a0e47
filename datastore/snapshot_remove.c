/* SPDX-License-Identifier: MIT */
/*
 * The part of snapshot.h that removes.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "datastore/base/file.h"
#include "datastore/base/pathlock.h"
#include "datastore/base/sysio.h"
#include "datastore/cairndir.h"
#include "datastore/locks.h"
#include "datastore/snapshot.h"
#include "datastore/tree.h"

#define OWNER "owner"
#define NOTES "notes"

/* A program that takes no lock of ours may add files while we remove. */
#define REMOVE_TRIES 3

static const char *below(
    const struct datastore *ds, const char *path, char out[CAIRNDIR_SHOWN])
{
	return datastore_shown(ds, path, out, CAIRNDIR_SHOWN);
}

static const char *leaf(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash == NULL ? path : slash + 1;
}

static int record_in(struct datastore *ds, const char *name,
    const struct backup_snapshot *s, struct err *e)
{
	char line[BACKUP_PATH_SIZE + 1];
	bool found = false;
	int fd = -1;
	int rc = cairndir_open(ds, CAIRNDIR, &fd, &found, e);

	file_close(&fd);
	if (rc < 0 || !found)
		return rc;
	backup_snapshot_path(s, line);
	(void)snprintf(line + strlen(line), 2, "\n");
	return cairndir_append(ds, name, line, strlen(line), false, e);
}

int snapshot_record_removal(
    struct datastore *ds, const struct backup_snapshot *s, struct err *e)
{
	return record_in(ds, SNAPSHOT_REMOVED, s, e);
}

int snapshot_record_added(
    struct datastore *ds, const struct backup_snapshot *s, struct err *e)
{
	return record_in(ds, SNAPSHOT_ADDED, s, e);
}

/*
 * Recorded before it is removed (I5), so that GC does not take it for a mount
 * that is missing.  A disk without room is no reason to keep a snapshot: that
 * is when they are removed.  What was pushed since the last GC is struck off
 * then; of others GC asks for --accept-missing if it matters.  *ret_done: one
 * of the two was written.
 */
static int record(struct datastore *ds, const struct backup_snapshot *s,
    bool *ret_done, struct err *e)
{
	char line[BACKUP_PATH_SIZE];
	struct err why = ERR_INIT;
	struct err ignored = ERR_INIT;
	int rc = snapshot_record_removal(ds, s, &why);

	*ret_done = rc == 0;
	if (rc == 0)
		return 0;
	if (!err_is_sys(&why, ENOSPC) && !err_is_sys(&why, EDQUOT)) {
		*e = why;
		return rc;
	}
	backup_snapshot_path(s, line);
	(void)err_forget(&why);
	rc = cairndir_strike(ds, SNAPSHOT_ADDED, line, &ignored);
	*ret_done = rc == 0;
	return err_forget(&ignored);
}

/* Nothing is removed unless all of it can be. */
static int check_no_dirs(
    int fd, char *const *names, const char *shown, struct err *e)
{
	for (; *names != NULL; names++) {
		struct statx st;
		bool found = false;
		int rc = file_stat_at(fd, *names, &st, &found, shown, e);

		if (rc < 0)
			return rc;
		if (found && S_ISDIR(st.stx_mode)) {
			return err_set(e, ERR_REFUSED,
			    "'%s' contains a directory, want files only",
			    shown);
		}
	}
	return 0;
}

/*
 * The manifest first: whatever interrupts us, what is left is unfinished and
 * no snapshot with holes.
 */
static int empty_dir(
    int fd, char *const *names, const char *shown, struct err *e)
{
	int rc = file_unlink_at(fd, BACKUP_MANIFEST, shown, e);

	for (; rc == 0 && *names != NULL; names++)
		rc = file_unlink_at(fd, *names, shown, e);
	return rc;
}

/* rmdir; *ret_again: something was added meanwhile. */
static int remove_dir(int parent_fd, const char *name, bool *ret_again,
    const char *shown, struct err *e)
{
	*ret_again = false;
	if (sysio_unlinkat(parent_fd, name, AT_REMOVEDIR) == 0 ||
	    errno == ENOENT)
		return 0;
	*ret_again = errno == ENOTEMPTY || errno == EEXIST;
	return err_sys(e, "remove directory '%s'", shown);
}

/* One go; *ret_again: something was added meanwhile. */
static int remove_once(int group_fd, int snapshot_fd, const char *name,
    bool *ret_again, const char *shown, struct err *e)
{
	char **names = NULL;
	size_t n = 0;
	int rc = file_list(snapshot_fd, &names, &n, shown, e);

	*ret_again = false;
	if (rc == 0)
		rc = check_no_dirs(snapshot_fd, names, shown, e);
	if (rc == 0)
		rc = empty_dir(snapshot_fd, names, shown, e);
	file_list_free(names);
	if (rc < 0)
		return rc;
	/* Gone already, or another one by now: that is not ours to remove. */
	rc = pathlock_recheck(snapshot_fd, group_fd, name, shown, e);
	if (rc == 0)
		return remove_dir(group_fd, name, ret_again, shown, e);
	return rc == ERR_NOTFOUND ? 0 : rc;
}

/*
 * As snapshot_remove.  Where the removal had no room to be recorded before (on
 * btrfs and ZFS, which write nothing in place, a line could not be struck off
 * either), what was removed may have made some.
 */
static int remove_recorded(struct datastore *ds, int group_fd, int snapshot_fd,
    const struct backup_snapshot *s, bool *ret_recorded, struct err *e)
{
	char path[BACKUP_PATH_SIZE];
	char shown[CAIRNDIR_SHOWN];
	struct err late = ERR_INIT;
	bool again = true;
	int rc = record(ds, s, ret_recorded, e);

	if (rc < 0)
		return rc;
	backup_snapshot_path(s, path);
	(void)below(ds, path, shown);
	for (int tries = 0; again && tries < REMOVE_TRIES; tries++) {
		struct err why = ERR_INIT;

		rc = remove_once(
		    group_fd, snapshot_fd, leaf(path), &again, shown, &why);
		if (rc < 0)
			*e = why;
	}
	if (rc == 0 && !*ret_recorded) {
		(void)sysio_syncfs(group_fd);
		*ret_recorded = snapshot_record_removal(ds, s, &late) == 0;
		(void)err_forget(&late);
	}
	return rc;
}

int snapshot_remove(struct datastore *ds, int group_fd, int snapshot_fd,
    const struct backup_snapshot *s, struct err *e)
{
	bool recorded = false;

	return remove_recorded(ds, group_fd, snapshot_fd, s, &recorded, e);
}

/* The directory that holds a group's, following no link. */
static int open_parent(struct datastore *ds, const char *path, int *ret_fd,
    const char *shown, struct err *e)
{
	char parent[BACKUP_PATH_SIZE];

	(void)snprintf(parent, sizeof(parent), "%.*s",
	    (int)(strlen(path) - strlen(leaf(path))), path);
	return file_open_dir(ds->root_fd, parent, ret_fd, shown, e);
}

int snapshot_lock_group(struct datastore *ds, const struct backup_group *g,
    int *ret_fd, struct err *e)
{
	char path[BACKUP_PATH_SIZE];
	char shown[CAIRNDIR_SHOWN];
	int parent_fd = -1;
	int rc = 0;

	backup_group_path(g, path);
	(void)below(ds, path, shown);
	rc = open_parent(ds, path, &parent_fd, shown, e);
	if (rc == 0) {
		rc = pathlock_take(
		    parent_fd, leaf(path), LOCK_EXCLUSIVE, 0, ret_fd, shown, e);
	}
	file_close(&parent_fd);
	return rc;
}

static int is_empty_group(int fd, bool *ret, const char *shown, struct err *e)
{
	char **names = NULL;
	size_t n = 0;
	bool empty = true;
	int rc = file_list(fd, &names, &n, shown, e);

	for (size_t i = 0; rc == 0 && i < n; i++) {
		if (strcmp(names[i], OWNER) != 0 &&
		    strcmp(names[i], NOTES) != 0)
			empty = false;
	}
	file_list_free(names);
	*ret = empty;
	return rc;
}

/*
 * Whoever makes a snapshot in a group holds its lock, which we do, so nothing
 * comes between the look and the rmdir.
 */
static int remove_empty_group(int parent_fd, int group_fd, const char *name,
    bool *ret_removed, const char *shown, struct err *e)
{
	bool again = false;
	int rc = pathlock_recheck(group_fd, parent_fd, name, shown, e);

	if (rc == ERR_NOTFOUND)
		return 0;
	if (rc == 0)
		rc = file_unlink_at(group_fd, NOTES, shown, e);
	if (rc == 0)
		rc = file_unlink_at(group_fd, OWNER, shown, e);
	if (rc == 0)
		rc = remove_dir(parent_fd, name, &again, shown, e);
	*ret_removed = rc == 0;
	return rc;
}

int snapshot_remove_group(struct datastore *ds, const struct backup_group *g,
    int group_fd, bool *ret_removed, struct err *e)
{
	char path[BACKUP_PATH_SIZE];
	char shown[CAIRNDIR_SHOWN];
	struct err why = ERR_INIT;
	bool empty = false;
	int parent_fd = -1;
	int rc = 0;

	*ret_removed = false;
	backup_group_path(g, path);
	(void)below(ds, path, shown);
	rc = is_empty_group(group_fd, &empty, shown, &why);
	if (rc == 0 && empty)
		rc = open_parent(ds, path, &parent_fd, shown, &why);
	if (rc == 0 && empty) {
		rc = remove_empty_group(
		    parent_fd, group_fd, leaf(path), ret_removed, shown, &why);
	}
	file_close(&parent_fd);
	if (rc < 0)
		*e = why;
	return rc;
}

int snapshot_try_remove_group(struct datastore *ds,
    const struct backup_group *g, bool *ret_removed, struct err *e)
{
	struct err why = ERR_INIT;
	int fd = -1;
	int rc = snapshot_lock_group(ds, g, &fd, &why);

	*ret_removed = false;
	/* A session is at work in it, or it is gone. */
	if (rc == ERR_BUSY || rc == ERR_NOTFOUND)
		return 0;
	if (rc == 0)
		rc = snapshot_remove_group(ds, g, fd, ret_removed, &why);
	file_close(&fd);
	if (rc < 0)
		*e = why;
	return rc;
}

/* What can not be told apart from a removal counts as one. */
static bool is_whole(int snapshot_fd, const char *shown)
{
	struct err ignored = ERR_INIT;
	struct statx st;
	bool found = false;

	return file_stat_at(snapshot_fd, BACKUP_MANIFEST, &st, &found, shown,
		   &ignored) == 0 &&
	    found;
}

static int remove_watched(struct datastore *ds, int group_fd, int snapshot_fd,
    const struct backup_snapshot *s, const struct snapshot_watch *watch,
    struct task *task, struct err *e)
{
	char text[BACKUP_PATH_SIZE];
	bool recorded = false;
	int rc = 0;

	if (watch->removing != NULL)
		watch->removing(watch->ctx, s);
	rc = remove_recorded(ds, group_fd, snapshot_fd, s, &recorded, e);
	backup_snapshot_text(s, text);
	if (rc == 0 && !recorded) {
		task_message(task, TASK_WARNING,
		    "there is no room to record that '%s' was removed: where "
		    "'cairn gc' stops because it is gone, say 'cairn gc "
		    "--accept-missing'",
		    text);
	}
	if (rc < 0 && watch->kept != NULL && is_whole(snapshot_fd, text))
		watch->kept(watch->ctx, s);
	return rc;
}

int snapshot_forget_locked(struct datastore *ds,
    const struct backup_snapshot *s, const char *what,
    const struct snapshot_watch *watch, struct task *task, struct err *e)
{
	struct snapshot_hold hold = SNAPSHOT_HOLD_INIT;
	struct err group_err = ERR_INIT;
	char text[BACKUP_PATH_SIZE];
	bool is_protected = false;
	bool removed = false;
	int group_fd = -1;
	int rc = snapshot_hold(ds, s, LOCK_EXCLUSIVE, &hold, e);

	backup_snapshot_text(s, text);
	if (rc == 0)
		rc = tree_open_group(ds, &s->group, &group_fd, e);
	/* Again, if it was looked at before: now nobody can change it. */
	if (rc == 0)
		rc = snapshot_is_protected(hold.fd, &is_protected, e);
	if (rc == 0 && is_protected) {
		rc = err_set(e, ERR_REFUSED,
		    "snapshot '%s' is protected; 'cairn unprotect' lifts that",
		    text);
	}
	if (rc == 0)
		rc = locks_wait_shared(ds, LOCK_BYTE_TREE, what, task, e);
	if (rc < 0)
		goto out;
	rc = remove_watched(ds, group_fd, hold.fd, s, watch, task, e);
	/* The snapshot is gone: an empty directory more is worth no error. */
	if (rc == 0 &&
	    snapshot_try_remove_group(ds, &s->group, &removed, &group_err) <
		0) {
		task_message(task, TASK_WARNING,
		    "the empty group of '%s' stays: %s", text, group_err.msg);
	}
	locks_release(ds, LOCK_BYTE_TREE, LOCK_SHARED);
out:
	file_close(&group_fd);
	snapshot_release(&hold);
	return rc;
}

int snapshot_forget_watched(struct datastore *ds,
    const struct backup_snapshot *s, const struct snapshot_watch *watch,
    struct task *task, struct err *e)
{
	/*
	 * The prune lock comes first: GC takes it when snapshots vanish as
	 * fast as it reads them, and then the tree lock.
	 */
	int rc = locks_wait_shared(ds, LOCK_BYTE_PRUNE, "forget", task, e);

	if (rc < 0)
		return rc;
	rc = snapshot_forget_locked(ds, s, "forget", watch, task, e);
	locks_release(ds, LOCK_BYTE_PRUNE, LOCK_SHARED);
	return rc;
}

int snapshot_forget(struct datastore *ds, const struct backup_snapshot *s,
    struct task *task, struct err *e)
{
	const struct snapshot_watch nobody = { .ctx = NULL };

	return snapshot_forget_watched(ds, s, &nobody, task, e);
}
