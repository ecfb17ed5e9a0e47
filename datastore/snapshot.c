/* SPDX-License-Identifier: MIT */
#include "datastore/snapshot.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>

#include "datastore/base/clock.h"
#include "datastore/base/file.h"
#include "datastore/base/pathlock.h"
#include "datastore/base/sysio.h"
#include "datastore/cairndir.h"
#include "datastore/registration.h"
#include "datastore/tree.h"

/* For a manifest that another process changes; then 75. */
#define MANIFEST_WAIT_MS 5000

const char *snapshot_shown(const struct datastore *ds,
    const struct backup_snapshot *s, const char *name, char out[CAIRNDIR_SHOWN])
{
	char path[BACKUP_PATH_SIZE];

	backup_snapshot_path(s, path);
	return datastore_shown_in(ds, path, name, out, CAIRNDIR_SHOWN);
}

static int need_write(const struct datastore *ds, struct err *e)
{
	if (ds->access != DATASTORE_READ)
		return 0;
	return err_set(e, ERR_REFUSED,
	    "'%s' is open for reading, want it open for writing", ds->path);
}

/* A read-only file system: nobody removes, so there is nothing to lock. */
static bool is_read_only(const struct datastore *ds)
{
	struct statvfs st;

	return sysio_fstatvfs(ds->root_fd, &st) == 0 &&
	    (st.f_flag & ST_RDONLY) != 0;
}

static const char *leaf(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash == NULL ? path : slash + 1;
}

/* A lock of a directory has no name on it: what is known of its group. */
static int hold_busy(struct datastore *ds, const struct backup_snapshot *s,
    enum lock_mode mode, const char *text, struct err *e)
{
	char group[BACKUP_PATH_SIZE];
	char who[REGISTRATION_TEXT_SIZE];

	(void)err_set(e, ERR_BUSY,
	    mode == LOCK_EXCLUSIVE
		? "snapshot '%s' is in use: it is being written or read, or a "
		  "backup is based on it"
		: "snapshot '%s' is being written or removed",
	    text);
	backup_group_path(&s->group, group);
	if (registration_of_group(ds, group, who))
		err_suffix(e, "; at work in its group: %s", who);
	err_suffix(e, "%s", ERR_TRY_AGAIN);
	return ERR_BUSY;
}

static int hold_in_group(struct datastore *ds, int group_fd,
    const struct backup_snapshot *s, enum lock_mode mode, int *ret_fd,
    struct err *e)
{
	char path[BACKUP_PATH_SIZE];
	char text[BACKUP_PATH_SIZE];
	char shown[CAIRNDIR_SHOWN];
	struct err why = ERR_INIT;
	int rc = 0;

	backup_snapshot_path(s, path);
	backup_snapshot_text(s, text);
	(void)snapshot_shown(ds, s, "", shown);
	/*
	 * Never waited for: a reader may hold it for hours.  Re-checked by
	 * inode: a lock on a directory that was removed before it was taken is
	 * granted, too, and protects nothing.
	 */
	rc = pathlock_take(group_fd, leaf(path), mode, 0, ret_fd, shown, &why);
	if (rc == ERR_NOTFOUND) {
		return err_set(
		    e, ERR_NOTFOUND, "snapshot '%s' does not exist", text);
	}
	if (rc == ERR_BUSY)
		return hold_busy(ds, s, mode, text, e);
	if (rc == ERR_SYS && mode == LOCK_SHARED &&
	    ds->access == DATASTORE_READ && is_read_only(ds))
		return file_open_dir(group_fd, leaf(path), ret_fd, shown, e);
	if (rc < 0)
		*e = why;
	return rc;
}

int snapshot_hold(struct datastore *ds, const struct backup_snapshot *s,
    enum lock_mode mode, struct snapshot_hold *ret, struct err *e)
{
	char text[BACKUP_PATH_SIZE];
	int group_fd = -1;
	int rc = tree_open_group(ds, &s->group, &group_fd, e);

	if (rc == ERR_NOTFOUND) {
		backup_snapshot_text(s, text);
		return err_set(
		    e, ERR_NOTFOUND, "snapshot '%s' does not exist", text);
	}
	if (rc == 0)
		rc = hold_in_group(ds, group_fd, s, mode, &ret->fd, e);
	file_close(&group_fd);
	return rc;
}

void snapshot_release(struct snapshot_hold *h)
{
	file_close(&h->fd);
}

int snapshot_is_protected(int snapshot_fd, bool *ret, struct err *e)
{
	struct statx st;

	return file_stat_at(
	    snapshot_fd, BACKUP_PROTECTED, &st, ret, BACKUP_PROTECTED, e);
}

static int protect(
    struct datastore *ds, int fd, const char *shown, struct err *e)
{
	int file = sysio_openat(fd, BACKUP_PROTECTED,
	    O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY,
	    FILE_MODE);
	int rc = 0;

	if (file < 0)
		return err_sys(e, "make '%s'", shown);
	rc = file_set_owner(file, &ds->owner, FILE_MODE, shown, e);
	file_close(&file);
	return rc;
}

int snapshot_set_protected(struct datastore *ds,
    const struct backup_snapshot *s, bool value, struct err *e)
{
	struct snapshot_hold hold = SNAPSHOT_HOLD_INIT;
	char shown[CAIRNDIR_SHOWN];
	int rc = need_write(ds, e);

	/* Shared: a removal, which looks at it under its exclusive lock,
	 * comes before or after, not in between. */
	if (rc == 0)
		rc = snapshot_hold(ds, s, LOCK_SHARED, &hold, e);
	if (rc < 0)
		return rc;
	(void)snapshot_shown(ds, s, BACKUP_PROTECTED, shown);
	if (value) {
		rc = protect(ds, hold.fd, shown, e);
	} else {
		rc = file_unlink_at(hold.fd, BACKUP_PROTECTED, shown, e);
	}
	if (rc == 0)
		rc = file_sync(hold.fd, shown, e);
	snapshot_release(&hold);
	return rc;
}

/* Replace the manifest by itself, changed.  The lock of the file is held. */
static int update_locked(struct datastore *ds, const struct backup_snapshot *s,
    int snapshot_fd, int (*fn)(void *ctx, struct manifest *m, struct err *e),
    void *ctx, struct err *e)
{
	struct manifest m = MANIFEST_INIT;
	struct buf raw = BUF_INIT;
	char shown[CAIRNDIR_SHOWN];
	int rc = tree_read_manifest(ds, s, snapshot_fd, &m, e);

	if (rc == 0)
		rc = fn(ctx, &m, e);
	if (rc == 0)
		rc = manifest_encode(&m, &raw, e);
	if (rc == 0) {
		rc = file_replace_at(snapshot_fd, BACKUP_MANIFEST, raw.data,
		    raw.len, &ds->owner,
		    snapshot_shown(ds, s, BACKUP_MANIFEST, shown), e);
	}
	buf_release(&raw);
	manifest_release(&m);
	return rc;
}

/*
 * Lock the manifest itself, until MANIFEST_WAIT_MS are over.  Who held it has
 * replaced the file, as a rule: our lock is then on the old one, and the new
 * one is the next to try.
 */
static int lock_manifest(
    int snapshot_fd, int *ret_fd, const char *shown, struct err *e)
{
	const int64_t start = clock_boot_ns();
	struct err why = ERR_INIT;
	struct statx st;
	bool found = true;
	int rc = ERR_NOTFOUND;

	while (rc == ERR_NOTFOUND && found) {
		int64_t ms = (clock_boot_ns() - start) / 1000000;

		if (ms > MANIFEST_WAIT_MS) {
			return err_set(e, ERR_BUSY,
			    "'%s' is being changed by another process" ERR_TRY_AGAIN,
			    shown);
		}
		rc = pathlock_take(snapshot_fd, BACKUP_MANIFEST, LOCK_EXCLUSIVE,
		    (uint64_t)(MANIFEST_WAIT_MS - ms), ret_fd, shown, &why);
		if (rc != ERR_NOTFOUND)
			break;
		if (file_stat_at(snapshot_fd, BACKUP_MANIFEST, &st, &found,
			shown, &why) < 0)
			rc = why.code;
	}
	if (rc == ERR_NOTFOUND) {
		return err_set(e, ERR_NOTFOUND,
		    "'%s' does not exist: the snapshot is unfinished", shown);
	}
	if (rc < 0)
		*e = why;
	return rc;
}

int snapshot_update_manifest(struct datastore *ds,
    const struct backup_snapshot *s, int snapshot_fd,
    int (*fn)(void *ctx, struct manifest *m, struct err *e), void *ctx,
    struct err *e)
{
	char shown[CAIRNDIR_SHOWN];
	int lock_fd = -1;
	int rc = need_write(ds, e);

	(void)snapshot_shown(ds, s, BACKUP_MANIFEST, shown);
	if (rc == 0)
		rc = lock_manifest(snapshot_fd, &lock_fd, shown, e);
	if (rc == 0)
		rc = update_locked(ds, s, snapshot_fd, fn, ctx, e);
	file_close(&lock_fd);
	return rc;
}

static int put_notes(void *ctx, struct manifest *m, struct err *e)
{
	return manifest_set_notes(m, *(const char *const *)ctx, e);
}

int snapshot_set_notes(struct datastore *ds, const struct backup_snapshot *s,
    const char *notes, struct err *e)
{
	struct snapshot_hold hold = SNAPSHOT_HOLD_INIT;
	int rc = need_write(ds, e);

	if (rc == 0)
		rc = snapshot_hold(ds, s, LOCK_SHARED, &hold, e);
	if (rc == 0) {
		rc = snapshot_update_manifest(
		    ds, s, hold.fd, put_notes, &notes, e);
	}
	snapshot_release(&hold);
	return rc;
}
