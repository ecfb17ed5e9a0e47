/* SPDX-License-Identifier: MIT */
#include "datastore/registration.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "datastore/base/buf.h"
#include "datastore/base/file.h"
#include "datastore/base/json.h"
#include "datastore/base/sysio.h"
#include "datastore/base/text.h"
#include "datastore/base/uuid.h"
#include "datastore/cairndir.h"
#include "datastore/registration_internal.h"

#define NEW_TRIES 8
#define BOOT_ID_FILE "/proc/sys/kernel/random/boot_id"

/*
 * How old the last look at the file clock may be while chunks are touched,
 * and how much the system's clock may have lost since.  Cutoff is 5 s before
 * the lowest start (I6), and that covers what is not noticed in between: a
 * chunk that is touched after the beat has a time of at least the beat's,
 * less 1 s that the clock may lose unseen, less 2 s by which a file system
 * rounds; so at least start - 3 s.  A clock that loses more is seen here, at
 * the next chunk, and the file clock is looked at before that chunk is
 * touched.  Where the file clock is another machine's (NFS), this one tells
 * nothing of it: there the margin are the 10 min below which gc-cutoff is
 * refused, of which a beat at least once a minute uses up one.
 */
#define BEAT_EVERY_NS CLOCK_NS_PER_S
#define BEAT_IF_LOST_NS CLOCK_NS_PER_S

/*
 * `mutex` guards what is below it.  Invariants while it is free: text is what
 * the file holds; no chunk was touched by this session at a file time before
 * start, but for what BEAT_EVERY_NS allows.
 */
struct registration {
	int dir_fd; /* .cairn/sessions */
	int fd;     /* the registration, locked whole */
	bool named; /* UUID leads to it */
	char uuid[DATASTORE_ID_SIZE];
	char shown[CAIRNDIR_SHOWN];
	struct datastore *ds;
	size_t snapshot_at; /* offset of the field in text, and its width */
	size_t snapshot_width;
	size_t start_at;

	pthread_mutex_t mutex;
	struct buf text;
	filetime start;
	bool beaten;
	int64_t beat_boot;  /* CLOCK_BOOTTIME of the last beat */
	int64_t beat_ahead; /* CLOCK_REALTIME less that, then */
};

static int64_t realtime_ns(void)
{
	struct timespec ts = { .tv_sec = 0, .tv_nsec = 0 };
	int rc = sysio_clock_gettime(CLOCK_REALTIME, &ts);

	assert(rc == 0);
	return ts.tv_sec * CLOCK_NS_PER_S + ts.tv_nsec;
}

void registration_this_machine(
    char host[REGISTRATION_HOST_SIZE], char machine_id[DATASTORE_ID_SIZE])
{
	char name[REGISTRATION_HOST_SIZE] = "";

	/* A name cut short is still a name. */
	(void)gethostname(name, sizeof(name) - 1);
	if (name[0] == '\0' || !text_is_utf8(name, strlen(name)))
		(void)snprintf(name, sizeof(name), "unknown");
	memcpy(host, name, sizeof(name));
	datastore_machine_id(machine_id);
	if (machine_id[0] == '\0') {
		(void)snprintf(machine_id, DATASTORE_ID_SIZE, "%.*s",
		    DATASTORE_ID_SIZE - 1, name);
	}
}

static void boot_id(char out[DATASTORE_ID_SIZE])
{
	struct err ignored = ERR_INIT;
	struct buf text = BUF_INIT;
	const char *s = NULL;

	/* For people only: nothing is decided by it. */
	if (file_read_at(AT_FDCWD, BOOT_ID_FILE, DATASTORE_ID_SIZE, &text,
		BOOT_ID_FILE, &ignored) == 0)
		s = buf_cstr(&text, &ignored);
	(void)snprintf(out, DATASTORE_ID_SIZE, "%.*s", DATASTORE_ID_SIZE - 1,
	    s == NULL ? "" : s);
	out[strcspn(out, "\n")] = '\0';
	buf_release(&text);
}

static void tmp_name(const char *uuid, char out[REGISTRATION_TMP_SIZE])
{
	(void)snprintf(out, REGISTRATION_TMP_SIZE, "%s%s%s",
	    REGISTRATION_TMP_PREFIX, uuid, REGISTRATION_TMP_SUFFIX);
}

/* The fields that never change, as JSON without its closing brace. */
static int fixed_fields(
    struct buf *out, const char *command, const char *group, struct err *e)
{
	struct err failure = ERR_INIT;
	struct js *doc = js_object();
	char host[REGISTRATION_HOST_SIZE];
	char machine[DATASTORE_ID_SIZE];
	char boot[DATASTORE_ID_SIZE];
	int rc = 0;

	registration_this_machine(host, machine);
	boot_id(boot);
	js_set_str(doc, REGISTRATION_KEY_HOST, host, &failure);
	js_set_str(doc, REGISTRATION_KEY_MACHINE, machine, &failure);
	js_set_str(doc, REGISTRATION_KEY_BOOT, boot, &failure);
	js_set_i64(doc, REGISTRATION_KEY_PID, getpid(), &failure);
	js_set_str(doc, REGISTRATION_KEY_COMMAND, command, &failure);
	js_set_str(doc, REGISTRATION_KEY_GROUP, group, &failure);
	rc = js_dump(doc, JS_COMPACT, out, &failure);
	js_free(doc);
	if (rc < 0) {
		*e = failure;
		return rc;
	}
	assert(out->len > 0 && out->data[out->len - 1] == '}');
	out->len--;
	return 0;
}

/*
 * The two fields that change are rewritten in place, so each has a place of
 * fixed width: `start` by leading zeros, `snapshot`, which has no value at
 * first, by blanks behind it.
 */
static int make_text(struct registration *r, const char *command,
    const struct backup_group *group, struct err *e)
{
	char path[BACKUP_PATH_SIZE];
	int rc = 0;

	backup_group_path(group, path);
	buf_reset(&r->text);
	rc = fixed_fields(&r->text, command, path, e);
	if (rc == 0) {
		rc = buf_append_fmt(
		    &r->text, e, ",\"%s\":", REGISTRATION_KEY_SNAPSHOT);
	}
	if (rc < 0)
		return rc;
	r->snapshot_at = r->text.len;
	/* Two quotes, the group, a slash, a time. */
	r->snapshot_width = 2 + strlen(path) + 1 + (BACKUP_TIME_SIZE - 1);
	rc = buf_append_fmt(&r->text, e, "%-*s,\"%s\":\"",
	    (int)r->snapshot_width, "\"\"", REGISTRATION_KEY_START);
	if (rc < 0)
		return rc;
	r->start_at = r->text.len;
	return buf_append_fmt(&r->text, e, "%0*" PRId64 "\"}\n",
	    REGISTRATION_START_WIDTH, r->start);
}

/* Replace bytes of the file and of text by one pwrite. */
static int rewrite(struct registration *r, size_t at, const char *bytes,
    size_t n, struct err *e)
{
	ssize_t w = -1;

	do {
		w = sysio_pwrite(r->fd, bytes, n, (off_t)at);
	} while (w < 0 && errno == EINTR);
	if (w >= 0 && (size_t)w < n) {
		errno = ENOSPC;
		w = -1;
	}
	if (w < 0)
		return err_sys(e, "write '%s'", r->shown);
	memcpy(r->text.data + at, bytes, n);
	return 0;
}

/* The lower of the two times that a touch sets, as the server has them. */
static int file_clock(struct registration *r, filetime *ret, struct err *e)
{
	struct statx st;
	filetime atime = 0;
	filetime mtime = 0;
	int rc = -1;

	do {
		rc = sysio_statx(r->fd, "", AT_EMPTY_PATH | AT_STATX_FORCE_SYNC,
		    STATX_BASIC_STATS, &st);
	} while (rc < 0 && errno == EINTR);
	if (rc < 0)
		return err_sys(e, "stat '%s'", r->shown);
	atime = clock_from_statx(&st.stx_atime);
	mtime = clock_from_statx(&st.stx_mtime);
	*ret = atime < mtime ? atime : mtime;
	return 0;
}

/*
 * Set both times: atime because chunks are compared by theirs, mtime because
 * by it another machine's cleaner sees that we live.
 */
static int touch(struct registration *r, const char *name, struct err *e)
{
	static const struct timespec now[2] = {
		{ .tv_sec = 0, .tv_nsec = UTIME_NOW },
		{ .tv_sec = 0, .tv_nsec = UTIME_NOW },
	};
	int rc = -1;

	do {
		rc = sysio_utimensat(r->dir_fd, name, now, AT_SYMLINK_NOFOLLOW);
	} while (rc < 0 && errno == EINTR);
	if (rc < 0 && errno == ENOENT) {
		return err_set(e, ERR_BUSY,
		    "registration '%s' was removed: garbage collection may "
		    "not know of this session any more; the backup has to "
		    "be repeated",
		    r->shown);
	}
	if (rc < 0)
		return err_sys(e, "touch '%s'", r->shown);
	return 0;
}

static int take_lock(struct registration *r)
{
	struct flock l = REGISTRATION_LOCK(F_WRLCK);
	int rc = -1;

	do {
		rc = sysio_ofd_lock(r->fd, F_OFD_SETLK, &l);
	} while (rc < 0 && errno == EINTR);
	return rc;
}

/*
 * Give the file its name.  It is complete and locked by now: whoever finds
 * it under this name finds it whole and alive (I3).  Where hard links are
 * unknown it is renamed, which takes the lock along; the name is random, so
 * nothing is replaced.
 */
static int give_name(struct registration *r, const char *tmp)
{
	if (sysio_linkat(r->dir_fd, tmp, r->dir_fd, r->uuid, 0) == 0) {
		/* If it stays, a cleaner finds it dead with us. */
		(void)sysio_unlinkat(r->dir_fd, tmp, 0);
		return 0;
	}
	if (errno != EPERM && errno != EOPNOTSUPP && errno != ENOSYS &&
	    errno != EMLINK)
		return -1;
	return sysio_renameat2(r->dir_fd, tmp, r->dir_fd, r->uuid, 0);
}

/* The file made and locked; what follows until it has its name. */
static int fill(struct registration *r, const char *tmp, const char *command,
    const struct backup_group *group, struct err *e)
{
	int rc = file_set_owner(r->fd, &r->ds->owner, FILE_MODE, r->shown, e);

	if (rc == 0)
		rc = touch(r, tmp, e);
	if (rc == 0)
		rc = file_clock(r, &r->start, e);
	if (rc == 0)
		rc = make_text(r, command, group, e);
	if (rc == 0) {
		rc = file_pwrite_fully(
		    r->fd, r->text.data, r->text.len, 0, r->shown, e);
	}
	/*
	 * After a power cut an empty one would say nothing of whose it was,
	 * and hold GC back until it is a day old.
	 */
	if (rc == 0)
		rc = file_sync(r->fd, r->shown, e);
	if (rc < 0)
		return rc;
	if (give_name(r, tmp) < 0)
		return err_sys(e, "make '%s'", r->shown);
	r->named = true;
	return 0;
}

/* *ret_again: the name was taken, or a cleaner was faster to lock the file. */
static int try_new(struct registration *r, const char *command,
    const struct backup_group *group, bool *ret_again, struct err *e)
{
	char tmp[REGISTRATION_TMP_SIZE];
	int rc = uuid_make(r->uuid, e);

	*ret_again = false;
	if (rc < 0)
		return rc;
	tmp_name(r->uuid, tmp);
	(void)datastore_shown_in(
	    r->ds, CAIRNDIR_SESSIONS, r->uuid, r->shown, sizeof(r->shown));
	r->fd = sysio_openat(r->dir_fd, tmp,
	    O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, FILE_MODE);
	if (r->fd < 0) {
		*ret_again = errno == EEXIST;
		rc = err_sys(e, "make '%s'", r->shown);
		/* A server may have made it, and its answer was lost. */
		if (!*ret_again)
			(void)sysio_unlinkat(r->dir_fd, tmp, 0);
		return rc;
	}
	if (take_lock(r) < 0) {
		*ret_again = errno == EAGAIN || errno == EACCES;
		rc = err_sys(e, "lock '%s'", r->shown);
	} else {
		rc = fill(r, tmp, command, group, e);
	}
	if (rc < 0) {
		(void)sysio_unlinkat(r->dir_fd, tmp, 0);
		file_close(&r->fd);
	}
	return rc;
}

static void release(struct registration *r)
{
	file_close(&r->fd);
	file_close(&r->dir_fd);
	buf_release(&r->text);
	pthread_mutex_destroy(&r->mutex);
	free(r);
}

int registration_new(struct datastore *ds, const char *command,
    const struct backup_group *group, struct registration **ret, struct err *e)
{
	struct registration *r = calloc(1, sizeof(*r));
	struct err why = ERR_INIT;
	bool found = false;
	bool again = true;
	int rc = 0;

	if (r == NULL)
		return err_nomem(e);
	r->ds = ds;
	r->fd = -1;
	r->dir_fd = -1;
	rc = pthread_mutex_init(&r->mutex, NULL);
	if (rc != 0) {
		free(r);
		errno = rc;
		return err_sys(e, "make a mutex");
	}
	rc = cairndir_open(ds, CAIRNDIR_SESSIONS, &r->dir_fd, &found, e);
	if (rc == 0 && !found) {
		rc = err_set(e, ERR_NOTFOUND, "'%s/%s' does not exist",
		    ds->path, CAIRNDIR_SESSIONS);
	}
	if (rc < 0)
		goto out;
	for (int tries = 0; again && tries < NEW_TRIES; tries++)
		rc = try_new(r, command, group, &again, &why);
	if (rc < 0) {
		*e = why;
		goto out;
	}
	*ret = r;
	r = NULL;
out:
	if (r != NULL)
		release(r);
	return rc;
}

int registration_set_snapshot(
    struct registration *r, const struct backup_snapshot *s, struct err *e)
{
	char path[BACKUP_PATH_SIZE];
	char field[BACKUP_PATH_SIZE + 2];
	int n = 0;
	int rc = 0;

	backup_snapshot_path(s, path);
	n = snprintf(field, sizeof(field), "\"%s\"", path);
	pthread_mutex_lock(&r->mutex);
	/* Every time of a snapshot is written with the same width. */
	assert(n > 0 && (size_t)n == r->snapshot_width);
	rc = rewrite(r, r->snapshot_at, field, r->snapshot_width, e);
	/* On disk before the directory is: what is left can be found. */
	if (rc == 0)
		rc = file_sync(r->fd, r->shown, e);
	pthread_mutex_unlock(&r->mutex);
	return rc;
}

/* The rule of I3: touch, look, lower; only then chunks are touched. */
static int beat(struct registration *r, struct err *e)
{
	char field[REGISTRATION_START_WIDTH + 1];
	int64_t boot = clock_boot_ns();
	int64_t ahead = realtime_ns() - boot;
	filetime now = 0;
	int rc = touch(r, r->uuid, e);

	if (rc == 0)
		rc = file_clock(r, &now, e);
	if (rc < 0)
		return rc;
	if (now < r->start) {
		(void)snprintf(field, sizeof(field), "%0*" PRId64,
		    REGISTRATION_START_WIDTH, now);
		rc =
		    rewrite(r, r->start_at, field, REGISTRATION_START_WIDTH, e);
		if (rc < 0)
			return rc;
		r->start = now;
	}
	r->beaten = true;
	r->beat_boot = boot;
	r->beat_ahead = ahead;
	return 0;
}

int64_t registration_ahead(void)
{
	return realtime_ns() - clock_boot_ns();
}

bool registration_has_lost(int64_t ahead)
{
	return ahead - registration_ahead() >= BEAT_IF_LOST_NS;
}

static bool beat_is_due(const struct registration *r)
{
	return !r->beaten || clock_boot_ns() - r->beat_boot >= BEAT_EVERY_NS ||
	    registration_has_lost(r->beat_ahead);
}

int registration_beat(struct registration *r, struct err *e)
{
	int rc = 0;

	/* Under the mutex: nobody touches a chunk while another looks. */
	pthread_mutex_lock(&r->mutex);
	if (beat_is_due(r))
		rc = beat(r, e);
	pthread_mutex_unlock(&r->mutex);
	return rc;
}

static int lost(const struct registration *r, const char *why, struct err *e)
{
	return err_set(e, ERR_BUSY,
	    "registration '%s' %s: garbage collection may not have known of "
	    "this session; the backup has to be repeated",
	    r->shown, why);
}

/* The very file under its name, as everybody else looks it up. */
static int check_name(struct registration *r, struct err *e)
{
	struct statx here;
	struct statx there;
	bool found = false;
	int dirfd = -1;
	int rc = file_stat_fd(r->fd, &here, r->shown, e);

	if (rc == 0)
		rc = cairndir_open(r->ds, CAIRNDIR_SESSIONS, &dirfd, &found, e);
	if (rc == 0 && found) {
		rc = file_stat_at(dirfd, r->uuid, &there, &found, r->shown, e);
	}
	file_close(&dirfd);
	if (rc < 0)
		return rc;
	if (!found)
		return lost(r, "was removed", e);
	if (!file_same(&here, &there))
		return lost(r, "was replaced", e);
	return 0;
}

/*
 * Through the locked descriptor: where the server has taken the lock away
 * (an NFS lease that ran out), reading through it fails.
 */
static int check_content(struct registration *r, struct err *e)
{
	struct buf now = BUF_INIT;
	bool same = false;
	int rc = buf_reserve(&now, r->text.len, e);

	if (rc == 0) {
		struct err why = ERR_INIT;

		same = file_pread_exact(r->fd, now.data, r->text.len, 0,
			   r->shown, &why) == 0 &&
		    memcmp(now.data, r->text.data, r->text.len) == 0;
	}
	buf_release(&now);
	if (rc == 0 && !same)
		rc = lost(r, "can not be read back as it was written", e);
	return rc;
}

int registration_check(struct registration *r, struct err *e)
{
	int rc = 0;

	pthread_mutex_lock(&r->mutex);
	rc = check_name(r, e);
	if (rc == 0)
		rc = check_content(r, e);
	pthread_mutex_unlock(&r->mutex);
	return rc;
}

void registration_free(struct registration *r)
{
	if (r == NULL)
		return;
	/*
	 * While it is locked: who finds it unlocked and under its name takes
	 * it for a dead one.  If it stays it is one, and is cleaned away.
	 */
	if (r->named)
		(void)sysio_unlinkat(r->dir_fd, r->uuid, 0);
	release(r);
}

void registration_abandon(struct registration *r)
{
	if (r != NULL)
		release(r);
}
