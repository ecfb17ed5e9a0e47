/* SPDX-License-Identifier: MIT */
#include "datastore/base/pathlock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "datastore/base/clock.h"
#include "datastore/base/file.h"
#include "datastore/base/sysio.h"

#define NS_PER_MS 1000000LL
#define POLL_FIRST_MS 1U
#define POLL_LAST_MS 50U

/* Open for access (O_RDONLY, O_RDWR) what is a directory or regular file. */
static int open_lockable(int dirfd, const char *name, int access, int *ret_fd,
    const char *shown, struct err *e)
{
	struct statx st;
	int rc = 0;
	int fd = -1;

	do {
		fd = sysio_openat(dirfd, name,
		    access | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, 0);
	} while (fd < 0 && errno == EINTR);
	if (fd < 0 && errno == ENOENT)
		return err_set(e, ERR_NOTFOUND, "'%s' does not exist", shown);
	if (fd < 0 && errno == ELOOP) {
		return err_set(e, ERR_CORRUPT,
		    "'%s' is a symbolic link, want a directory or file", shown);
	}
	if (fd < 0)
		return err_sys(e, "open '%s'", shown);
	rc = file_stat_fd(fd, &st, shown, e);
	if (rc == 0 && !S_ISREG(st.stx_mode) && !S_ISDIR(st.stx_mode)) {
		rc = err_set(e, ERR_CORRUPT,
		    "'%s' is a special file, want a directory or file", shown);
	}
	if (rc < 0) {
		file_close(&fd);
		return rc;
	}
	*ret_fd = fd;
	return 0;
}

/* Take it, asking until the time is over. */
static int take_flock(int fd, enum lock_mode mode, uint64_t timeout_ms,
    const char *shown, struct err *e)
{
	int operation = mode == LOCK_EXCLUSIVE ? LOCK_EX : LOCK_SH;
	int64_t start = clock_boot_ns();
	unsigned poll_ms = POLL_FIRST_MS;

	while (sysio_flock(fd, operation | LOCK_NB) < 0) {
		int64_t waited = 0;

		if (errno == EINTR)
			continue;
		if (errno != EWOULDBLOCK)
			return err_sys(e, "lock '%s'", shown);
		waited = (clock_boot_ns() - start) / NS_PER_MS;
		if (waited < 0)
			waited = 0;
		if ((uint64_t)waited >= timeout_ms)
			return err_set(e, ERR_BUSY,
			    "'%s' is locked by another process" ERR_TRY_AGAIN,
			    shown);
		clock_sleep_ms(poll_ms);
		poll_ms *= 2;
		if (poll_ms > POLL_LAST_MS)
			poll_ms = POLL_LAST_MS;
	}
	return 0;
}

int pathlock_take(int dirfd, const char *name, enum lock_mode mode,
    uint64_t timeout_ms, int *ret_fd, const char *shown, struct err *e)
{
	int fd = -1;
	int rc = open_lockable(dirfd, name, O_RDONLY, &fd, shown, e);

	if (rc < 0)
		return rc;
	rc = take_flock(fd, mode, timeout_ms, shown, e);
	if (rc < 0 && mode == LOCK_EXCLUSIVE && err_is_sys(e, EBADF)) {
		/* NFS wants a file open for writing to lock it exclusively. */
		file_close(&fd);
		rc = open_lockable(dirfd, name, O_RDWR, &fd, shown, e);
		if (rc == 0)
			rc = take_flock(fd, mode, timeout_ms, shown, e);
	}
	if (rc == 0)
		rc = pathlock_recheck(fd, dirfd, name, shown, e);
	if (rc < 0) {
		file_close(&fd);
		return rc;
	}
	*ret_fd = fd;
	return 0;
}

int pathlock_recheck(
    int fd, int dirfd, const char *name, const char *shown, struct err *e)
{
	struct statx here;
	struct statx there;
	bool found = false;
	int rc = file_stat_fd(fd, &here, shown, e);

	if (rc < 0)
		return rc;
	rc = file_stat_at(dirfd, name, &there, &found, shown, e);
	if (rc < 0)
		return rc;
	if (!found)
		return err_set(e, ERR_NOTFOUND, "'%s' was removed", shown);
	if (!file_same(&here, &there))
		return err_set(e, ERR_NOTFOUND, "'%s' was replaced", shown);
	return 0;
}
