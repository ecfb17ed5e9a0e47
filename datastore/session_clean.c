/* SPDX-License-Identifier: MIT */
/*
 * The part of session.h that ends: withdrawing, step 11, and cleaning after
 * those who died.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "datastore/base/pathlock.h"
#include "datastore/locks.h"
#include "datastore/session_internal.h"
#include "datastore/snapshot.h"
#include "datastore/store.h"
#include "datastore/tree.h"

/*
 * A session that was asked to stop still has to clean up: its waits do not
 * obey the task any more, but they end.  What is left then is the next
 * cleaner's.
 */
#define WITHDRAW_WAIT_MS 5000U

/* Our directory, if we died on the way to locking it. */
static int lock_own_dir(struct session *s, struct err *e)
{
	char name[BACKUP_TIME_SIZE];
	char shown[CAIRNDIR_SHOWN];
	struct statx st;
	bool found = false;
	int rc = 0;

	session_dir_name(s, name);
	rc = pathlock_take(s->group_fd, name, LOCK_EXCLUSIVE, 0, &s->dir_fd,
	    session_shown(s, "", shown), e);
	if (rc < 0)
		return rc;
	/* We can not have come as far: it is another's after all. */
	rc = file_stat_at(s->dir_fd, BACKUP_MANIFEST, &st, &found, shown, e);
	if (rc == 0 && found) {
		file_close(&s->dir_fd);
		rc = ERR_NOTFOUND;
	}
	return rc;
}

static int remove_own(struct session *s, struct err *e)
{
	bool removed = false;
	int rc = 0;

	if (s->may_have && s->dir_fd < 0) {
		rc = lock_own_dir(s, e);
		if (rc == ERR_NOTFOUND)
			rc = 0;
	}
	if (rc == 0 && s->dir_fd >= 0)
		rc = snapshot_remove(s->ds, s->group_fd, s->dir_fd, &s->id, e);
	if (rc == 0 && s->made_group) {
		rc = snapshot_remove_group(
		    s->ds, &s->id.group, s->group_fd, &removed, e);
	}
	return rc;
}

bool session_withdraw(struct session *s)
{
	struct task quiet = TASK_SILENT;
	struct err e = ERR_INIT;

	if (s->group_fd < 0 || (!s->may_have && !s->made_group))
		return true;
	if (!s->tree) {
		s->tree =
		    lockfile_wait(s->ds->locks, LOCK_BYTE_TREE, LOCK_SHARED,
			WITHDRAW_WAIT_MS, &quiet, NULL, NULL, &e) == 0;
	}
	if (s->tree && remove_own(s, &e) == 0)
		return true;
	task_message(s->task, TASK_WARNING,
	    "what is left of the unfinished snapshot is removed by the next "
	    "push or garbage collection: %s",
	    e.msg);
	return false;
}

static void release_memory(struct session *s)
{
	for (size_t i = 0; i < s->files_n; i++) {
		free(s->files[i].tmp);
		free(s->files[i].name);
	}
	for (size_t i = 0; i < s->base_files_n; i++)
		free(s->base_files[i].name);
	free(s->files);
	free(s->base_files);
	free(s->command);
	free(s->notes);
	digestset_release(&s->healed);
	digestset_release(&s->seen);
	damage_free(s->damage);
	pthread_mutex_destroy(&s->mutex);
	free(s);
}

void session_release(struct session *s, bool leave)
{
	if (s->waiting_set)
		store_fs_set_waiting(s->ds->store, NULL, NULL, NULL);
	if (s->tree)
		locks_release(s->ds, LOCK_BYTE_TREE, LOCK_SHARED);
	file_close(&s->dir_fd);
	file_close(&s->base_fd);
	file_close(&s->group_fd);
	if (s->byte0)
		locks_release(s->ds, LOCK_BYTE_SESSION, LOCK_SHARED);
	/*
	 * The registration last: until here GC's cutoff lies before our start.
	 * And after byte 0: held without a live registration it means to GC a
	 * session that it can not see, and ends the run.
	 */
	if (leave) {
		registration_abandon(s->registration);
	} else {
		registration_free(s->registration);
	}
	release_memory(s);
}

void session_abort(struct session *s)
{
	bool clean = false;

	if (s == NULL)
		return;
	clean = session_withdraw(s);
	session_release(s, !clean);
}

struct cleaning {
	struct datastore *ds;
	struct task *task;
};

/* Its snapshot, if it is unfinished.  Tree lock and its own are held. */
static int clean_snapshot(struct cleaning *c, const struct backup_snapshot *s,
    const struct registration_info *info, int snapshot_fd, struct err *e)
{
	char text[BACKUP_PATH_SIZE];
	char who[REGISTRATION_TEXT_SIZE];
	struct statx st;
	bool finished = false;
	int group_fd = -1;
	int rc = file_stat_at(
	    snapshot_fd, BACKUP_MANIFEST, &st, &finished, BACKUP_MANIFEST, e);

	/* It died after its manifest was seen: the snapshot is whole. */
	if (rc < 0 || finished)
		return rc;
	rc = tree_open_group(c->ds, &s->group, &group_fd, e);
	if (rc == 0)
		rc = snapshot_remove(c->ds, group_fd, snapshot_fd, s, e);
	file_close(&group_fd);
	if (rc == 0) {
		backup_snapshot_text(s, text);
		task_message(c->task, TASK_NOTE,
		    "removed the unfinished snapshot '%s', left by %s", text,
		    registration_text(info, who));
	}
	return rc;
}

/* Everything that it named, in the order of the locks. */
static int clean_named(struct cleaning *c, const struct registration_info *info,
    const struct backup_group *g, const struct backup_snapshot *s,
    struct err *e)
{
	struct snapshot_hold hold = SNAPSHOT_HOLD_INIT;
	struct err why = ERR_INIT;
	bool removed = false;
	int rc = 0;

	if (s != NULL)
		rc = snapshot_hold(c->ds, s, LOCK_EXCLUSIVE, &hold, &why);
	if (rc == ERR_NOTFOUND)
		rc = 0;
	if (rc == 0) {
		rc = locks_wait_shared(
		    c->ds, LOCK_BYTE_TREE, "cleaning", c->task, &why);
	}
	if (rc < 0)
		goto out;
	if (hold.fd >= 0)
		rc = clean_snapshot(c, s, info, hold.fd, &why);
	if (rc == 0)
		rc = snapshot_try_remove_group(c->ds, g, &removed, &why);
	locks_release(c->ds, LOCK_BYTE_TREE, LOCK_SHARED);
out:
	snapshot_release(&hold);
	if (rc < 0)
		*e = why;
	return rc;
}

/* For registration_bury: the dead one is locked, and goes when we succeed. */
static int clean_one(
    void *ctx, const struct registration_info *info, struct err *e)
{
	struct cleaning *c = ctx;
	struct backup_snapshot s;
	struct backup_group g;
	bool has_snapshot = info->snapshot[0] != '\0';

	/* One that names nothing that could be, or can not be read. */
	if (info->damaged || !backup_group_from_path(info->group, &g))
		return 0;
	if (has_snapshot && !backup_snapshot_from_path(info->snapshot, &s))
		return 0;
	return clean_named(c, info, &g, has_snapshot ? &s : NULL, e);
}

/* What can not be cleaned now is cleaned later, and is no reason to fail. */
static int forgive(struct cleaning *c, const char *what, int rc,
    const struct err *why, struct err *e)
{
	if (rc == ERR_CANCELLED) {
		*e = *why;
		return rc;
	}
	task_message(
	    c->task, TASK_WARNING, "cleaning after %s: %s", what, why->msg);
	return 0;
}

int session_clean_dead(
    struct datastore *ds, struct task *task, size_t *ret_cleaned, struct err *e)
{
	struct cleaning c = { .ds = ds, .task = task };
	struct registration_list list = { .items = NULL, .n = 0 };
	char who[REGISTRATION_TEXT_SIZE];
	size_t cleaned = 0;
	size_t unborn = 0;
	int rc = registration_list(ds, &list, e);

	for (size_t i = 0; rc == 0 && i < list.n; i++) {
		const struct registration_info *info = &list.items[i];
		struct err why = ERR_INIT;
		bool done = false;

		if (info->live)
			continue;
		rc = registration_bury(
		    ds, info->uuid, clean_one, &c, &done, &why);
		cleaned += rc == 0 && done;
		if (rc < 0) {
			rc = forgive(
			    &c, registration_text(info, who), rc, &why, e);
		}
	}
	registration_list_release(&list);
	if (rc == 0) {
		struct err why = ERR_INIT;

		rc = registration_bury_unborn(ds, &unborn, &why);
		if (rc < 0)
			rc = forgive(&c, "the unborn", rc, &why, e);
	}
	if (rc == 0)
		*ret_cleaned = cleaned;
	return rc;
}
