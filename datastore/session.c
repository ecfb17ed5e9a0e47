/* SPDX-License-Identifier: MIT */
#include "datastore/session.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "datastore/base/clock.h"
#include "datastore/base/pathlock.h"
#include "datastore/base/sysio.h"
#include "datastore/locks.h"
#include "datastore/session_internal.h"
#include "datastore/snapshot.h"
#include "datastore/store.h"
#include "datastore/tree.h"

/* How often a group may be removed between its making and its lock. */
#define GROUP_TRIES 16
/* How many seconds in a row may be taken. */
#define TIME_TRIES 300
/* For a passer-by (list, a cleaner) who holds what was just made. */
#define NEW_DIR_WAIT_MS 200U

#define TIME_MAX 253402300799LL /* 9999-12-31T23:59:59Z */
#define HOLDER_SIZE 256

const char *session_shown(
    const struct session *s, const char *name, char out[CAIRNDIR_SHOWN])
{
	return snapshot_shown(s->ds, &s->id, name, out);
}

void session_dir_name(const struct session *s, char out[BACKUP_TIME_SIZE])
{
	char path[BACKUP_PATH_SIZE];
	size_t n = 0;

	backup_snapshot_path(&s->id, path);
	n = strlen(path);
	assert(n >= BACKUP_TIME_SIZE);
	memcpy(out, path + n - (BACKUP_TIME_SIZE - 1), BACKUP_TIME_SIZE);
}

/* A session that holds nothing yet; NULL and *e. */
static struct session *session_new(struct datastore *ds,
    const struct session_opts *opts, struct task *task, struct err *e)
{
	struct session *s = calloc(1, sizeof(*s));

	if (s == NULL) {
		(void)err_nomem(e);
		return NULL;
	}
	/* Cannot fail on Linux without attributes. */
	(void)pthread_mutex_init(&s->mutex, NULL);
	s->ds = ds;
	s->task = task;
	s->opts = *opts;
	s->id = (struct backup_snapshot){ .group = opts->group,
		.time = opts->time };
	s->group_fd = -1;
	s->base_fd = -1;
	s->dir_fd = -1;
	if (opts->base != NULL) {
		s->base = *opts->base;
		s->opts.base = &s->base;
	}
	s->command = strdup(opts->command == NULL ? "push" : opts->command);
	if (opts->notes != NULL)
		s->notes = strdup(opts->notes);
	if (s->command == NULL || (opts->notes != NULL && s->notes == NULL)) {
		(void)err_nomem(e);
		session_release(s, false);
		return NULL;
	}
	s->opts.command = s->command;
	s->opts.notes = s->notes;
	return s;
}

/* Step 1.  The own byte is the datastore's; it keeps PBS out, too. */
static int take_byte0(struct session *s, struct err *e)
{
	int rc = lockfile_try(
	    s->ds->locks, LOCK_BYTE_SESSION, LOCK_SHARED, &s->byte0, e);

	if (rc == 0 && !s->byte0) {
		rc = err_set(e, ERR_BUSY,
		    "datastore '%s' is in use by another program that locks "
		    "all of it, as PBS does" ERR_TRY_AGAIN,
		    s->ds->path);
	}
	return rc;
}

/* After 5 s on a prefix lock. */
static void say_prefix(void *ctx, struct task *task)
{
	const struct session *s = ctx;
	char holder[HOLDER_SIZE];

	(void)task;
	task_message(s->task, TASK_NOTE,
	    "%s waits for a directory of chunks of '%s', which garbage "
	    "collection sweeps (%s)",
	    s->command, s->ds->path,
	    locks_gc_holder(s->ds, holder, sizeof(holder)));
}

/* Who is at work in the group, from the registrations. */
static int group_busy(struct session *s, struct err *e)
{
	char path[BACKUP_PATH_SIZE];
	char text[BACKUP_PATH_SIZE];
	char who[REGISTRATION_TEXT_SIZE];

	backup_group_path(&s->id.group, path);
	backup_group_text(&s->id.group, text);
	return err_set(e, ERR_BUSY, "group '%s' is in use by %s" ERR_TRY_AGAIN,
	    text,
	    registration_of_group(s->ds, path, who)
		? who
		: "a forget, or a session that can not be seen from here");
}

static int try_group(struct session *s, struct err *e)
{
	int fd = -1;
	int rc = tree_open_group(s->ds, &s->id.group, &fd, e);

	if (rc == ERR_NOTFOUND) {
		rc = tree_make_group(s->ds, &s->id.group, &fd, e);
		s->made_group = true;
	} else if (rc == 0) {
		file_close(&fd);
		/* Its `owner`, where that is missing. */
		rc = tree_make_group(s->ds, &s->id.group, &fd, e);
	}
	file_close(&fd);
	if (rc == 0) {
		rc = snapshot_lock_group(s->ds, &s->id.group, &s->group_fd, e);
	}
	return rc;
}

/*
 * Step 3.  A forget may remove an empty group between our making and our
 * locking it; the lock tells (it is re-checked by inode), and we start anew.
 */
static int take_group(struct session *s, struct err *e)
{
	struct err why = ERR_INIT;
	int rc = ERR_NOTFOUND;

	for (int tries = 0; rc == ERR_NOTFOUND && tries < GROUP_TRIES;
	     tries++) {
		rc = try_group(s, &why);
		if (rc == ERR_SYS && why.sys_errno == ENOENT)
			rc = ERR_NOTFOUND;
	}
	if (rc == ERR_BUSY)
		return group_busy(s, e);
	if (rc < 0) {
		*e = why;
		return why.code;
	}
	return 0;
}

static int base_has_manifest(struct session *s, struct err *e)
{
	struct statx st;
	char text[BACKUP_PATH_SIZE];
	bool found = false;
	int rc = file_stat_at(
	    s->base_fd, BACKUP_MANIFEST, &st, &found, BACKUP_MANIFEST, e);

	if (rc == 0 && !found) {
		backup_snapshot_text(&s->base, text);
		rc = err_set(e, ERR_NOTFOUND,
		    "base '%s' is not finished, or being removed", text);
	}
	return rc;
}

/*
 * Step 5.  The lock is re-checked by inode when it is taken, and the manifest
 * is looked for behind it: a removal takes that first.  From here on nobody
 * of cairn removes the base; PBS's prune, which knows no such lock, is what
 * the check before our manifest is for (I2).
 */
static int take_base(struct session *s, struct err *e)
{
	struct snapshot_hold hold = SNAPSHOT_HOLD_INIT;
	int rc = 0;

	if (s->opts.base == NULL)
		return 0;
	if (s->opts.dry_run) {
		rc = tree_open_snapshot(s->ds, &s->base, &s->base_fd, e);
	} else {
		rc = snapshot_hold(s->ds, &s->base, LOCK_SHARED, &hold, e);
		if (rc == 0)
			s->base_fd = hold.fd;
	}
	if (rc < 0) {
		err_prefix(e, "base");
		return rc;
	}
	return base_has_manifest(s, e);
}

static int time_taken(const struct session *s, struct err *e)
{
	char text[BACKUP_PATH_SIZE];

	backup_snapshot_text(&s->id, text);
	return err_set(e, ERR_EXISTS, "snapshot '%s' is already there", text);
}

/*
 * Name the directory, make it, lock it.  It is named in the registration
 * first: whatever kills us, a cleaner finds it.  Should the name belong to
 * another it is not in danger: a cleaner removes only what has no manifest and
 * nobody's lock, and we hold the group's, so no living session has it.
 */
static int try_dir(struct session *s, struct err *e)
{
	char name[BACKUP_TIME_SIZE];
	char shown[CAIRNDIR_SHOWN];
	int rc = registration_set_snapshot(s->registration, &s->id, e);

	if (rc < 0)
		return rc;
	session_dir_name(s, name);
	(void)session_shown(s, "", shown);
	s->may_have = true;
	rc = file_make_dir(
	    s->group_fd, name, FILE_DIR_MODE, &s->ds->owner, shown, e);
	if (rc == ERR_EXISTS)
		s->may_have = false;
	if (rc == 0) {
		rc = pathlock_take(s->group_fd, name, LOCK_EXCLUSIVE,
		    NEW_DIR_WAIT_MS, &s->dir_fd, shown, e);
	}
	/*
	 * A cleaner that was after a dead session's took it for that.  Or it
	 * is there all the same (a network file system that remembers the
	 * name as free): empty, ours, and not to be left behind.
	 */
	if (rc == ERR_NOTFOUND) {
		(void)sysio_unlinkat(s->group_fd, name, AT_REMOVEDIR);
		s->may_have = false;
	}
	return rc;
}

/* Step 6. */
static int make_dir(struct session *s, struct err *e)
{
	struct err why = ERR_INIT;
	int rc = try_dir(s, &why);

	for (int tries = 0; tries < TIME_TRIES; tries++) {
		if (rc != ERR_EXISTS && rc != ERR_NOTFOUND)
			break;
		if (rc == ERR_EXISTS && s->opts.time != 0)
			return time_taken(s, e);
		if (s->id.time == TIME_MAX)
			break;
		s->id.time += rc == ERR_EXISTS;
		rc = try_dir(s, &why);
	}
	if (rc < 0)
		*e = why;
	return rc;
}

/* Steps 1 to 6, in this order. */
static int open_steps(struct session *s, struct err *e)
{
	size_t cleaned = 0;
	int rc = datastore_check_min_free(s->ds, &s->opts.min_free, e);

	s->space_looked = clock_boot_ns();
	if (rc == 0)
		rc = datastore_ensure_cairn(s->ds, e);
	if (rc == 0)
		rc = take_byte0(s, e);
	if (rc == 0)
		rc = session_clean_dead(s->ds, s->task, &cleaned, e);
	if (rc == 0) {
		rc = snapshot_end_removals(
		    s->ds, &s->id.group, s->task, &cleaned, e);
	}
	if (rc == 0)
		rc = take_group(s, e);
	if (rc == 0) {
		rc = registration_new(
		    s->ds, s->command, &s->id.group, &s->registration, e);
	}
	/* From here on GC knows of us: now chunks may be looked at (I3). */
	if (rc == 0)
		rc = damage_read(s->ds, &s->damage, e);
	if (rc == 0)
		rc = take_base(s, e);
	if (rc == 0)
		rc = make_dir(s, e);
	if (rc == 0) {
		store_fs_set_waiting(s->ds->store, s->task, say_prefix, s);
		s->waiting_set = true;
	}
	return rc;
}

/* A dry run looks: at the damage list, the base, and which time is free. */
static int open_dry(struct session *s, struct err *e)
{
	struct err why = ERR_INIT;
	int rc = damage_read(s->ds, &s->damage, e);

	if (rc == 0)
		rc = take_base(s, e);
	for (int tries = 0; rc == 0 && tries < TIME_TRIES; tries++) {
		int fd = -1;

		rc = tree_open_snapshot(s->ds, &s->id, &fd, &why);
		file_close(&fd);
		if (rc == ERR_NOTFOUND)
			return 0;
		if (rc == 0 && s->opts.time != 0)
			break;
		s->id.time++;
		if (rc < 0)
			*e = why;
	}
	return rc < 0 ? rc : time_taken(s, e);
}

static int check_opts(
    const struct datastore *ds, const struct session_opts *opts, struct err *e)
{
	if (opts->time < 0 || opts->time > TIME_MAX) {
		return err_set(e, ERR_INVALID,
		    "time %" PRId64 " of a snapshot, want 1 to %lld",
		    opts->time, TIME_MAX);
	}
	if (!opts->dry_run && ds->access != DATASTORE_WRITE) {
		return err_set(
		    e, ERR_REFUSED, "'%s' is not open for writing", ds->path);
	}
	return 0;
}

static int open_any(struct session *s, struct err *e)
{
	if (s->id.time == 0)
		s->id.time = clock_now_s();
	if (s->id.time < 1 || s->id.time > TIME_MAX) {
		return err_set(e, ERR_INVALID,
		    "the clock says %" PRId64 " s since 1970, which is no "
		    "time of a snapshot",
		    s->id.time);
	}
	return s->opts.dry_run ? open_dry(s, e) : open_steps(s, e);
}

int session_open(struct datastore *ds, const struct session_opts *opts,
    struct task *task, struct session **ret, struct err *e)
{
	struct session *s = NULL;
	int rc = check_opts(ds, opts, e);

	if (rc < 0)
		return rc;
	s = session_new(ds, opts, task, e);
	if (s == NULL)
		return e->code;
	rc = open_any(s, e);
	if (rc < 0) {
		session_abort(s);
	} else {
		*ret = s;
	}
	return rc;
}

const struct backup_snapshot *session_id(const struct session *s)
{
	return &s->id;
}

int session_dir_fd(const struct session *s)
{
	return s->dir_fd;
}

int session_base_fd(const struct session *s)
{
	return s->base_fd;
}
