/* SPDX-License-Identifier: MIT */
/*
 * The part of snapshot.h that ends what others began to remove.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "datastore/base/file.h"
#include "datastore/base/sysio.h"
#include "datastore/cairndir.h"
#include "datastore/locks.h"
#include "datastore/snapshot.h"
#include "datastore/tree.h"

/* Of the file of records; a line is shorter. */
#define PIECE 65536U

#define WHAT "cleaning"

struct found {
	struct datastore *ds;
	const struct backup_group *only;
	struct backup_snapshot *items;
	size_t n;
	/* The line before: who tries again and again is recorded as often. */
	char last[BACKUP_PATH_SIZE];
	/* Of one group: what is in its directory, sorted.  A push asks, and
	 * must not pay for each removal since the last GC. */
	char **names;
	size_t names_n;
};

/* Is it there, as a removal leaves it when it is killed?  Opened: snapshot_fd.
 */
static int is_half(int snapshot_fd, bool *ret, struct err *e)
{
	struct statx st;
	bool finished = false;
	bool is_protected = false;
	int rc = file_stat_at(
	    snapshot_fd, BACKUP_MANIFEST, &st, &finished, BACKUP_MANIFEST, e);

	if (rc == 0)
		rc = snapshot_is_protected(snapshot_fd, &is_protected, e);
	*ret = !finished && !is_protected;
	return rc;
}

static bool is_known(const struct found *f, const struct backup_snapshot *s)
{
	for (size_t i = 0; i < f->n; i++) {
		if (f->items[i].time == s->time &&
		    backup_group_compare(&f->items[i].group, &s->group) == 0)
			return true;
	}
	return false;
}

static int remember(
    struct found *f, const struct backup_snapshot *s, struct err *e)
{
	struct backup_snapshot *items = NULL;

	if (is_known(f, s))
		return 0;
	items = reallocarray(f->items, f->n + 1, sizeof(*items));
	if (items == NULL)
		return err_nomem(e);
	f->items = items;
	items[f->n++] = *s;
	return 0;
}

static int compare_name(const void *key, const void *item)
{
	return strcmp(key, *(char *const *)item);
}

/* Most are gone: the list of the group, or one call, says so. */
static bool is_gone(const struct found *f, const char *path)
{
	const char *slash = strrchr(path, '/');
	struct statx st;

	if (f->only != NULL)
		return f->names_n == 0 || slash == NULL ||
		    bsearch(slash + 1, f->names, f->names_n, sizeof(*f->names),
			compare_name) == NULL;
	return sysio_statx(f->ds->root_fd, path, AT_SYMLINK_NOFOLLOW,
		   STATX_TYPE, &st) < 0 &&
	    errno == ENOENT;
}

static int list_group(struct found *f, struct err *e)
{
	char path[BACKUP_PATH_SIZE];
	struct err why = ERR_INIT;
	int fd = -1;
	int rc = 0;

	backup_group_path(f->only, path);
	rc = file_open_dir(f->ds->root_fd, path, &fd, path, &why);
	if (rc == 0)
		rc = file_list(fd, &f->names, &f->names_n, path, &why);
	file_close(&fd);
	if (rc < 0 && rc != ERR_NOTFOUND) {
		*e = why;
		return rc;
	}
	return 0;
}

/* A line of the file, whatever it says. */
static int look_at(struct found *f, const char *path, struct err *e)
{
	struct backup_snapshot s;
	struct err why = ERR_INIT;
	bool half = false;
	int fd = -1;
	int rc = 0;

	if (strcmp(path, f->last) == 0)
		return 0;
	(void)snprintf(f->last, sizeof(f->last), "%s", path);
	if (!backup_snapshot_from_path(path, &s) ||
	    (f->only != NULL && backup_group_compare(f->only, &s.group) != 0) ||
	    is_gone(f, path))
		return 0;
	rc = tree_open_snapshot(f->ds, &s, &fd, &why);
	if (rc == 0)
		rc = is_half(fd, &half, &why);
	file_close(&fd);
	if (rc == 0 && half)
		return remember(f, &s, e);
	/* What can not be read there is for others to tell. */
	if (rc == ERR_NOMEM)
		*e = why;
	return rc == ERR_NOMEM ? rc : 0;
}

/*
 * The lines of a piece of text; *ret_used: up to where.  A line that is too
 * long is none of ours.
 */
static int look_at_lines(
    struct found *f, char *text, size_t n, size_t *ret_used, struct err *e)
{
	size_t used = 0;
	int rc = 0;

	for (;;) {
		char *line = text + used;
		char *end = memchr(line, '\n', n - used);

		if (end == NULL)
			break;
		*end = '\0';
		used = (size_t)(end - text) + 1;
		rc = look_at(f, line, e);
		if (rc < 0)
			return rc;
	}
	*ret_used = used == 0 && n == PIECE ? n : used;
	return 0;
}

static int look_at_file(
    struct found *f, int fd, const char *shown, struct err *e)
{
	char *text = malloc(PIECE);
	size_t n = 0;
	size_t got = 0;
	size_t used = 0;
	int rc = 0;

	if (text == NULL)
		return err_nomem(e);
	while (rc == 0) {
		rc = file_read_fully(fd, text + n, PIECE - n, &got, shown, e);
		if (rc < 0 || got == 0)
			break;
		n += got;
		rc = look_at_lines(f, text, n, &used, e);
		if (rc == 0) {
			n -= used;
			memmove(text, text + used, n);
		}
	}
	free(text);
	return rc;
}

int snapshot_interrupted(struct datastore *ds, const struct backup_group *only,
    struct backup_snapshot **ret, size_t *ret_n, struct err *e)
{
	struct found f = { .ds = ds, .only = only };
	char shown[CAIRNDIR_SHOWN];
	struct err why = ERR_INIT;
	bool found = false;
	int dirfd = -1;
	int fd = -1;
	int rc = cairndir_open(ds, CAIRNDIR, &dirfd, &found, &why);

	(void)datastore_shown(
	    ds, CAIRNDIR "/" SNAPSHOT_REMOVED, shown, sizeof(shown));
	if (rc == 0 && found) {
		rc = file_open_regular(
		    dirfd, SNAPSHOT_REMOVED, &fd, NULL, shown, &why);
		if (rc == ERR_NOTFOUND)
			rc = 0;
	}
	if (rc == 0 && fd >= 0 && only != NULL)
		rc = list_group(&f, &why);
	if (rc == 0 && fd >= 0)
		rc = look_at_file(&f, fd, shown, &why);
	file_list_free(f.names);
	file_close(&fd);
	file_close(&dirfd);
	if (rc < 0) {
		free(f.items);
		*e = why;
		return rc;
	}
	*ret = f.items;
	*ret_n = f.n;
	return 0;
}

/* Its lock is held, exclusively. */
static int end_held(struct datastore *ds, const struct backup_snapshot *s,
    int snapshot_fd, struct task *task, struct err *e)
{
	bool removed = false;
	int group_fd = -1;
	int rc = tree_open_group(ds, &s->group, &group_fd, e);

	if (rc < 0)
		return rc;
	rc = locks_wait_shared(ds, LOCK_BYTE_TREE, WHAT, task, e);
	if (rc == 0) {
		rc = snapshot_remove(ds, group_fd, snapshot_fd, s, e);
		if (rc == 0) {
			rc = snapshot_try_remove_group(
			    ds, &s->group, &removed, e);
		}
		locks_release(ds, LOCK_BYTE_TREE, LOCK_SHARED);
	}
	file_close(&group_fd);
	return rc;
}

/*
 * Looked at again under its lock.  Nobody loses anything: a session that is
 * about to lock a directory that it just made of this name makes it again.
 */
static int end_one(struct datastore *ds, const struct backup_snapshot *s,
    struct task *task, bool *ret_done, struct err *e)
{
	struct snapshot_hold hold = SNAPSHOT_HOLD_INIT;
	char text[BACKUP_PATH_SIZE];
	struct err why = ERR_INIT;
	bool half = false;
	int rc = snapshot_hold(ds, s, LOCK_EXCLUSIVE, &hold, &why);

	*ret_done = false;
	if (rc == ERR_BUSY || rc == ERR_NOTFOUND)
		return 0;
	if (rc == 0)
		rc = is_half(hold.fd, &half, &why);
	if (rc == 0 && half)
		rc = end_held(ds, s, hold.fd, task, &why);
	snapshot_release(&hold);
	if (rc < 0) {
		*e = why;
		return rc;
	}
	if (half) {
		backup_snapshot_text(s, text);
		task_message(task, TASK_NOTE,
		    "removed the rest of '%s', whose removal was interrupted",
		    text);
	}
	*ret_done = half;
	return 0;
}

/* What can not be done now is done later, and is no reason to fail. */
static int forgive(
    struct task *task, const char *what, const struct err *why, struct err *e)
{
	if (why->code == ERR_CANCELLED || why->code == ERR_NOMEM) {
		*e = *why;
		return why->code;
	}
	task_message(task, TASK_WARNING,
	    "what is left of interrupted removals%s stays: %s", what, why->msg);
	return 0;
}

int snapshot_end_removals(struct datastore *ds, const struct backup_group *only,
    struct task *task, size_t *ret_n, struct err *e)
{
	struct backup_snapshot *items = NULL;
	struct err why = ERR_INIT;
	size_t done_n = 0;
	size_t n = 0;
	int rc = snapshot_interrupted(ds, only, &items, &n, &why);

	if (rc < 0)
		rc = forgive(task, "", &why, e);
	for (size_t i = 0; rc == 0 && i < n; i++) {
		char text[BACKUP_PATH_SIZE];
		char what[BACKUP_PATH_SIZE + 8];
		bool done = false;

		rc = end_one(ds, &items[i], task, &done, &why);
		done_n += rc == 0 && done;
		if (rc < 0) {
			backup_snapshot_text(&items[i], text);
			(void)snprintf(what, sizeof(what), ", '%s',", text);
			rc = forgive(task, what, &why, e);
		}
	}
	free(items);
	if (rc == 0)
		*ret_n = done_n;
	return rc;
}
