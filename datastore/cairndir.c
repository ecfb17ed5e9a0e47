/* SPDX-License-Identifier: MIT */
#include "datastore/cairndir.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "datastore/base/buf.h"
#include "datastore/base/clock.h"
#include "datastore/base/file.h"
#include "datastore/base/pathlock.h"
#include "datastore/base/sysio.h"

/* Such a lock is held for one write and at most one fsync. */
#define APPEND_WAIT_MS 10000U
/* Between two tries on a file that somebody replaces again and again. */
#define APPEND_PAUSE_MS 1U
/* More than ten million lines: something else is wrong. */
#define STRIKE_MAX (1UL << 30)

int cairndir_open(const struct datastore *ds, const char *path, int *ret_fd,
    bool *ret_found, struct err *e)
{
	char shown[CAIRNDIR_SHOWN];
	struct err why = ERR_INIT;
	int fd = -1;
	int rc = file_open_dir(ds->root_fd, path, &fd,
	    datastore_shown(ds, path, shown, sizeof(shown)), &why);

	if (rc < 0 && rc != ERR_NOTFOUND) {
		*e = why;
		return rc;
	}
	if (rc == 0)
		*ret_fd = fd;
	*ret_found = rc == 0;
	return 0;
}

/* Open `name` for appending; made with the store's owner if it is missing. */
static int open_append(const struct datastore *ds, int dirfd, const char *name,
    int *ret_fd, const char *shown, struct err *e)
{
	const int flags =
	    O_RDWR | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY;
	int fd = sysio_openat(dirfd, name, flags, 0);
	bool made = false;
	int rc = 0;

	if (fd < 0 && errno == ENOENT) {
		made = true;
		fd = sysio_openat(
		    dirfd, name, flags | O_CREAT | O_EXCL, FILE_MODE);
		/* Another process was faster: the next try opens its file. */
		if (fd < 0 && errno == EEXIST)
			return err_set(e, ERR_NOTFOUND, "'%s' appeared", shown);
	}
	if (fd < 0)
		return err_sys(e, "open '%s'", shown);
	if (made)
		rc = file_set_owner(fd, &ds->owner, FILE_MODE, shown, e);
	/* What is fsynced is not lost with its name. */
	if (made && rc == 0)
		rc = file_sync(dirfd, shown, e);
	if (rc < 0) {
		file_close(&fd);
		return rc;
	}
	*ret_fd = fd;
	return 0;
}

/* Does the file end in the middle of a line? */
static int ends_torn(int fd, bool *ret, const char *shown, struct err *e)
{
	struct statx st;
	char last = '\n';
	int rc = file_stat_fd(fd, &st, shown, e);

	if (rc == 0 && st.stx_size > 0) {
		rc = file_pread_exact(fd, &last, 1, st.stx_size - 1, shown, e);
	}
	if (rc < 0)
		return rc;
	*ret = last != '\n';
	return 0;
}

/* One write: readers, who take no lock, see all of it or a torn end. */
static int write_once(
    int fd, const void *p, size_t n, const char *shown, struct err *e)
{
	ssize_t r = -1;

	do {
		r = sysio_write(fd, p, n);
	} while (r < 0 && errno == EINTR);
	if (r >= 0 && (size_t)r < n) {
		/* Only a disk without room stops in the middle. */
		errno = ENOSPC;
		r = -1;
	}
	if (r < 0)
		return err_sys(e, "append to '%s'", shown);
	return 0;
}

/* What cairndir_append was asked for. */
struct append {
	const char *name;
	const void *p;
	size_t n;
	bool sync;
};

static int append_locked(
    int fd, const struct append *a, const char *shown, struct err *e)
{
	struct buf text = BUF_INIT;
	bool torn = false;
	int rc = ends_torn(fd, &torn, shown, e);

	if (rc == 0 && torn)
		rc = buf_append(&text, "\n", 1, e);
	if (rc == 0)
		rc = buf_append(&text, a->p, a->n, e);
	if (rc == 0)
		rc = write_once(fd, text.data, text.len, shown, e);
	if (rc == 0 && a->sync)
		rc = file_sync(fd, shown, e);
	buf_release(&text);
	return rc;
}

/*
 * ERR_NOTFOUND: somebody made or replaced the file meanwhile.  The descriptor
 * that is written to is not that which holds the lock (pathlock opens for
 * reading), so they are compared: nobody replaces the file while it is locked.
 */
static int append_try(const struct datastore *ds, int dirfd,
    const struct append *a, const char *shown, struct err *e)
{
	int lock_fd = -1;
	int fd = -1;
	int rc = open_append(ds, dirfd, a->name, &fd, shown, e);

	if (rc == 0) {
		rc = pathlock_take(dirfd, a->name, LOCK_EXCLUSIVE,
		    APPEND_WAIT_MS, &lock_fd, shown, e);
	}
	if (rc == 0)
		rc = pathlock_recheck(fd, dirfd, a->name, shown, e);
	if (rc == 0)
		rc = append_locked(fd, a, shown, e);
	file_close(&lock_fd);
	file_close(&fd);
	return rc;
}

int cairndir_append(const struct datastore *ds, const char *name, const void *p,
    size_t n, bool sync, struct err *e)
{
	const struct append a = { .name = name, .p = p, .n = n, .sync = sync };
	char shown[CAIRNDIR_SHOWN];
	struct err why = ERR_INIT;
	bool found = false;
	int64_t until = 0;
	int dirfd = -1;
	int rc = cairndir_open(ds, CAIRNDIR, &dirfd, &found, e);

	if (rc < 0)
		return rc;
	(void)datastore_shown_in(ds, CAIRNDIR, name, shown, sizeof(shown));
	if (!found) {
		return err_set(e, ERR_NOTFOUND,
		    "'%s': its directory does not exist", shown);
	}
	until = clock_boot_ns() + APPEND_WAIT_MS * 1000000LL;
	rc = append_try(ds, dirfd, &a, shown, &why);
	while (rc == ERR_NOTFOUND && clock_boot_ns() < until) {
		clock_sleep_ms(APPEND_PAUSE_MS);
		rc = append_try(ds, dirfd, &a, shown, &why);
	}
	file_close(&dirfd);
	if (rc == ERR_NOTFOUND) {
		return err_set(e, ERR_BUSY,
		    "'%s' was replaced again and again while it was to be "
		    "appended to" ERR_TRY_AGAIN,
		    shown);
	}
	if (rc < 0)
		*e = why;
	return rc;
}

static int strike_lines(int fd, const struct buf *text, const char *line,
    const char *shown, struct err *e)
{
	const char *p = (const char *)text->data;
	size_t n = strlen(line);
	size_t at = 0;
	int rc = 0;

	while (rc == 0 && at < text->len) {
		const char *end = memchr(p + at, '\n', text->len - at);
		size_t len =
		    end != NULL ? (size_t)(end - (p + at)) : text->len - at;

		if (len == n && memcmp(p + at, line, n) == 0)
			rc = file_pwrite_fully(fd, "#", 1, at, shown, e);
		at += len + 1;
	}
	return rc;
}

/* The lock's descriptor is for reading; nobody replaces the file meanwhile. */
static int strike_locked(int dirfd, const char *name, const char *line,
    const char *shown, struct err *e)
{
	struct buf text = BUF_INIT;
	int fd = -1;
	int rc = file_read_at(dirfd, name, STRIKE_MAX, &text, shown, e);

	if (rc == 0) {
		fd = sysio_openat(
		    dirfd, name, O_WRONLY | O_CLOEXEC | O_NOFOLLOW, 0);
		rc = fd < 0 ? err_sys(e, "open '%s'", shown)
			    : strike_lines(fd, &text, line, shown, e);
	}
	file_close(&fd);
	buf_release(&text);
	return rc;
}

int cairndir_strike(const struct datastore *ds, const char *name,
    const char *line, struct err *e)
{
	char shown[CAIRNDIR_SHOWN];
	struct err why = ERR_INIT;
	bool found = false;
	int dirfd = -1;
	int lock_fd = -1;
	int rc = cairndir_open(ds, CAIRNDIR, &dirfd, &found, e);

	if (rc < 0 || !found)
		return rc;
	(void)datastore_shown_in(ds, CAIRNDIR, name, shown, sizeof(shown));
	rc = pathlock_take(
	    dirfd, name, LOCK_EXCLUSIVE, APPEND_WAIT_MS, &lock_fd, shown, &why);
	if (rc == 0)
		rc = strike_locked(dirfd, name, line, shown, &why);
	file_close(&lock_fd);
	file_close(&dirfd);
	if (rc == ERR_NOTFOUND)
		return err_forget(&why);
	if (rc < 0)
		*e = why;
	return rc;
}
