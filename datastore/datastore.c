/* SPDX-License-Identifier: MIT */
#include "datastore/datastore.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "datastore/base/sysio.h"
#include "datastore/base/text.h"
#include "datastore/datastore_internal.h"
#include "datastore/locks.h"

/* Byte of its own: how many are tried, and out of how many. */
#define OWN_TRIES 3
#define OWN_MASK 0x7fffffffU

/* Room for an entry of the user database. */
#define PASSWD_SIZE 4096
#define USER_SIZE 64

#define LEVELS_MAX 1024

static bool same_device(const struct statx *a, const struct statx *b)
{
	return a->stx_dev_major == b->stx_dev_major &&
	    a->stx_dev_minor == b->stx_dev_minor;
}

/*
 * Is dirfd a datastore's root?  What may not be looked at is none of ours to
 * judge: *ret_done.
 */
static int look_for_store(int dirfd, const char *shown, bool *ret_store,
    bool *ret_done, struct err *e)
{
	static const char *const names[] = { CHUNKS_NAME, LOCK_NAME };
	struct statx st = { .stx_mask = 0 };
	bool found = true;
	int rc = 0;

	for (size_t i = 0; i < 2 && rc == 0 && found; i++)
		rc = file_stat_at(dirfd, names[i], &st, &found, shown, e);
	if (rc < 0 && err_is_sys(e, EACCES)) {
		*ret_done = true;
		return err_forget(e);
	}
	if (rc == 0)
		*ret_store = found;
	return rc;
}

/* Open ".." with nothing but search permission; -1 where that is missing. */
static int open_parent(int dirfd, int *ret_fd, const char *shown, struct err *e)
{
	int fd = sysio_openat(
	    dirfd, "..", O_PATH | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW, 0);

	if (fd < 0 && errno != EACCES)
		return err_sys(e, "open '%s'", shown);
	*ret_fd = fd;
	return 0;
}

/* Go up one directory; fd -1 says that there is none above. */
static int go_up(int *fd, struct shown *shown, struct err *e)
{
	struct statx below = { .stx_mask = 0 };
	struct statx above = { .stx_mask = 0 };
	size_t len = strlen(shown->text);
	int parent = -1;
	int rc = 0;

	(void)snprintf(
	    shown->text + len, sizeof(shown->text) - len, "%s", "/..");
	rc = file_stat_fd(*fd, &below, shown->text, e);
	if (rc == 0)
		rc = open_parent(*fd, &parent, shown->text, e);
	if (rc == 0 && parent >= 0)
		rc = file_stat_fd(parent, &above, shown->text, e);
	if (rc == 0 && file_same(&below, &above))
		file_close(&parent);
	file_close(fd);
	if (rc < 0)
		file_close(&parent);
	*fd = parent;
	return rc;
}

int datastore_check_not_nested(int root_fd, const char *path, struct err *e)
{
	struct shown shown;
	bool store = false;
	bool done = false;
	int fd = -1;
	int rc = 0;

	(void)snprintf(shown.text, sizeof(shown.text), "%s", path);
	rc = file_open_dir(root_fd, ".", &fd, path, e);
	for (int level = 0; rc == 0 && level < LEVELS_MAX; level++) {
		rc = go_up(&fd, &shown, e);
		if (rc == 0 && fd >= 0)
			rc = look_for_store(fd, shown.text, &store, &done, e);
		if (rc < 0 || fd < 0 || store || done)
			break;
	}
	if (rc == 0 && store) {
		rc = err_set(e, ERR_REFUSED,
		    "'%s' lies within the datastore '%s': datastores may not "
		    "be nested",
		    path, shown.text);
	}
	file_close(&fd);
	return rc;
}

/* The user's name, or "uid N". */
static const char *user_name(uid_t uid, char out[USER_SIZE])
{
	char data[PASSWD_SIZE];
	struct passwd entry;
	struct passwd *found = NULL;

	if (getpwuid_r(uid, &entry, data, sizeof(data), &found) == 0 &&
	    found != NULL) {
		(void)snprintf(out, USER_SIZE, "'%s'", entry.pw_name);
	} else {
		(void)snprintf(out, USER_SIZE, "uid %u", (unsigned)uid);
	}
	return out;
}

static int belongs_to_another(
    const struct datastore *ds, const struct statx *chunks, struct err *e)
{
	char user[USER_SIZE];

	return err_set(e, ERR_REFUSED,
	    "datastore '%s' belongs to another user: run as %s", ds->path,
	    user_name(chunks->stx_uid, user));
}

static int check_owner(
    struct datastore *ds, const struct statx *chunks, struct err *e)
{
	uid_t me = geteuid();

	ds->owner = (struct file_owner){
		.change = me == 0,
		.uid = chunks->stx_uid,
		.gid = chunks->stx_gid,
	};
	if (ds->access == DATASTORE_READ || me == 0 || me == chunks->stx_uid)
		return 0;
	return belongs_to_another(ds, chunks, e);
}

/* Backups without their chunks: "host", or NULL. */
static const char *find_backups(const struct datastore *ds)
{
	static const char *const names[] = { "host", "vm", "ct", "ns" };

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		struct err ignored = ERR_INIT; /* then it is told otherwise */
		struct statx st = { .stx_mask = 0 };
		bool found = false;

		if (file_stat_at(ds->root_fd, names[i], &st, &found, ds->path,
			&ignored) == 0 &&
		    found)
			return names[i];
	}
	return NULL;
}

/* The error of a directory without `.chunks`: what should be done about it? */
static int not_a_store(const struct datastore *ds, struct err *e)
{
	struct err ignored = ERR_INIT;
	struct statx st = { .stx_mask = 0 };
	const char *backups = find_backups(ds);
	bool found = false;

	(void)file_stat_at(
	    ds->root_fd, LOCK_NAME, &st, &found, ds->path, &ignored);
	if (found && backups != NULL) {
		return err_set(e, ERR_NOTFOUND,
		    "datastore '%s' has lost its '%s', while '%s' is still "
		    "there: was it moved or removed? Put it back; nothing was "
		    "changed",
		    ds->path, CHUNKS_NAME, backups);
	}
	found = false;
	/* Any doubt is no reason to speak of an init. */
	(void)file_stat_at(
	    ds->root_fd, CAIRN_NAME, &st, &found, ds->path, &ignored);
	if (found) {
		return err_set(e, ERR_NOTFOUND,
		    "'%s' is no datastore: it has '%s' but no '%s', as an "
		    "interrupted init leaves it: run init again",
		    ds->path, CAIRN_NAME, CHUNKS_NAME);
	}
	return err_set(e, ERR_NOTFOUND, "'%s' is no datastore: it has no '%s'",
	    ds->path, CHUNKS_NAME);
}

static int open_root(struct datastore *ds, struct err *e)
{
	ds->root_fd = sysio_openat(
	    AT_FDCWD, ds->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
	if (ds->root_fd >= 0)
		return 0;
	if (errno == ENOENT) {
		return err_set(
		    e, ERR_NOTFOUND, "datastore '%s' does not exist", ds->path);
	}
	if (errno == ENOTDIR) {
		return err_set(e, ERR_NOTFOUND,
		    "'%s' is no datastore: it is no directory", ds->path);
	}
	return err_sys(e, "open datastore '%s'", ds->path);
}

static int open_chunks(struct datastore *ds, struct err *e)
{
	struct statx root = { .stx_mask = 0 };
	struct statx st = { .stx_mask = 0 };
	struct shown shown;
	bool found = false;
	int rc = file_stat_fd(ds->root_fd, &root, ds->path, e);

	(void)datastore_join(ds->path, CHUNKS_NAME, &shown);
	if (rc == 0) {
		rc = file_stat_at(
		    ds->root_fd, CHUNKS_NAME, &st, &found, shown.text, e);
	}
	if (rc < 0)
		return rc;
	if (!found)
		return not_a_store(ds, e);
	/* Before it is opened: the message that helps is who to be. */
	if (S_ISDIR(st.stx_mode)) {
		rc = check_owner(ds, &st, e);
		if (rc < 0)
			return rc;
	}
	rc = file_open_dir(
	    ds->root_fd, CHUNKS_NAME, &ds->chunks_fd, shown.text, e);
	/* Nobody else may read there. */
	if (rc < 0 && err_is_sys(e, EACCES))
		return belongs_to_another(ds, &st, e);
	if (rc == 0)
		rc = file_stat_fd(ds->chunks_fd, &st, shown.text, e);
	if (rc < 0)
		return rc;
	if (!same_device(&root, &st)) {
		return err_set(e, ERR_REFUSED,
		    "'%s' is on another file system than '%s'", shown.text,
		    ds->path);
	}
	return 0;
}

/* There, and what locks can be taken on. */
static int check_lock(const struct datastore *ds, struct err *e)
{
	struct statx st = { .stx_mask = 0 };
	struct shown shown;
	bool found = false;
	int rc = 0;

	(void)datastore_join(ds->path, LOCK_NAME, &shown);
	rc = file_stat_at(ds->root_fd, LOCK_NAME, &st, &found, shown.text, e);
	if (rc < 0)
		return rc;
	if (!found) {
		return err_set(e, ERR_NOTFOUND,
		    "'%s' is no datastore: it has no '%s'", ds->path,
		    LOCK_NAME);
	}
	if (!S_ISREG(st.stx_mode)) {
		return err_set(
		    e, ERR_CORRUPT, "'%s' is no regular file", shown.text);
	}
	return 0;
}

static int open_cairn(struct datastore *ds, struct err *e)
{
	struct datastore_format format = { .id = { 0 }, .host = { 0 } };
	struct shown shown;
	int rc = 0;

	(void)datastore_join(ds->path, CAIRN_NAME, &shown);
	rc = file_open_dir(
	    ds->root_fd, CAIRN_NAME, &ds->cairn_fd, shown.text, e);
	if (rc == ERR_NOTFOUND)
		return err_forget(e);
	if (rc == 0) {
		rc = datastore_format_read(
		    ds->cairn_fd, ds->path, &format, &ds->has_format, e);
	}
	if (rc < 0)
		return rc;
	memcpy(ds->id, format.id, sizeof(ds->id));
	memcpy(ds->host, format.host, sizeof(ds->host));
	return 0;
}

/*
 * A program that locks the whole file holds every byte of it; one of ours
 * holds one of 2^31.
 */
static int take_own_byte(struct datastore *ds, struct err *e)
{
	bool taken = false;
	int rc = 0;

	for (int i = 0; i < OWN_TRIES && !taken; i++) {
		uint32_t r = 0;

		rc = file_random(&r, sizeof(r), e);
		if (rc < 0)
			return rc;
		ds->own_byte = LOCK_BYTE_OWN + (r & OWN_MASK);
		rc = lockfile_try(
		    ds->locks, ds->own_byte, LOCK_EXCLUSIVE, &taken, e);
		if (rc < 0 || !taken)
			ds->own_byte = 0;
		if (rc < 0)
			return rc;
	}
	if (!taken) {
		return err_set(e, ERR_BUSY,
		    "datastore '%s' is in use by another program that locks "
		    "all of it, as PBS does" ERR_TRY_AGAIN,
		    ds->path);
	}
	return 0;
}

static int open_locks(struct datastore *ds, struct err *e)
{
	struct shown shown;
	int rc = 0;

	if (ds->access == DATASTORE_READ)
		return 0;
	(void)datastore_join(ds->path, LOCK_NAME, &shown);
	rc = lockfile_open(ds->root_fd, LOCK_NAME, &ds->locks, shown.text, e);
	if (rc == 0 && ds->access == DATASTORE_WRITE)
		rc = take_own_byte(ds, e);
	return rc;
}

static int open_all(struct datastore *ds, struct err *e)
{
	struct shown shown;
	int rc = open_root(ds, e);

	if (rc == 0)
		rc = open_chunks(ds, e);
	if (rc == 0)
		rc = check_lock(ds, e);
	if (rc == 0)
		rc = datastore_check_not_nested(ds->root_fd, ds->path, e);
	if (rc == 0)
		rc = open_cairn(ds, e);
	if (rc == 0)
		rc = open_locks(ds, e);
	if (rc < 0)
		return rc;
	rc = store_fs_open(ds->chunks_fd, ds->locks, &ds->owner,
	    datastore_join(ds->path, CHUNKS_NAME, &shown), &ds->store, e);
	if (rc == 0)
		store_fs_set_kind(ds->store, datastore_is_network(ds),
		    datastore_is_by_inode(ds));
	return rc;
}

int datastore_open(const char *path, enum datastore_access access,
    const struct settings *settings, struct datastore **ret, struct err *e)
{
	struct datastore *ds = calloc(1, sizeof(*ds));
	int rc = 0;

	if (ds == NULL)
		return err_nomem(e);
	ds->root_fd = -1;
	ds->chunks_fd = -1;
	ds->cairn_fd = -1;
	ds->access = access;
	ds->settings = settings == NULL ? settings_default() : *settings;
	ds->path = strdup(path);
	rc = ds->path == NULL ? err_nomem(e) : open_all(ds, e);
	if (rc < 0) {
		datastore_close(ds);
	} else {
		*ret = ds;
	}
	return rc;
}

void datastore_close(struct datastore *ds)
{
	if (ds == NULL)
		return;
	store_close(ds->store);
	if (ds->own_byte != 0)
		lockfile_unlock(ds->locks, ds->own_byte, LOCK_EXCLUSIVE);
	lockfile_close(ds->locks);
	file_close(&ds->cairn_fd);
	file_close(&ds->chunks_fd);
	file_close(&ds->root_fd);
	free(ds->path);
	free(ds);
}

int datastore_ensure_cairn(struct datastore *ds, struct err *e)
{
	struct datastore_format format = { .id = { 0 }, .host = { 0 } };
	int fd = -1;
	int rc = 0;

	assert(ds->access != DATASTORE_READ);
	rc = datastore_cairn_make(
	    ds->root_fd, ds->path, &ds->owner, &fd, &format, e);
	if (rc < 0)
		return rc;
	/* Others may hold the descriptor that there was. */
	if (ds->cairn_fd < 0) {
		ds->cairn_fd = fd;
	} else {
		file_close(&fd);
	}
	ds->has_format = true;
	memcpy(ds->id, format.id, sizeof(ds->id));
	memcpy(ds->host, format.host, sizeof(ds->host));
	return 0;
}

const char *datastore_shown(
    const struct datastore *ds, const char *rel, char *out, size_t size)
{
	(void)snprintf(out, size, "%s/%s", ds->path, rel);
	return out;
}

const char *datastore_shown_in(const struct datastore *ds, const char *dir,
    const char *name, char *out, size_t size)
{
	(void)snprintf(out, size, "%s/%s%s%s", ds->path, dir,
	    name[0] == '\0' ? "" : "/", name);
	return out;
}
