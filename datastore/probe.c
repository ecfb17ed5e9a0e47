/* SPDX-License-Identifier: MIT */
#include "datastore/probe.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "datastore/base/file.h"
#include "datastore/base/sysio.h"

/* File systems count in steps of up to 2 s; a busy machine is late. */
#define MOVE_WITHIN_NS (5 * CLOCK_NS_PER_S)
#define PAUSE_FIRST_MS 1U
#define PAUSE_LAST_MS 200U

/* Far above every byte of locks.h, also above 2^32 + random. */
#define PROBE_BYTE (1ULL << 62)

/* Room for two numbers of 64 bits. */
#define NS_TEXT 48

struct times {
	filetime atime;
	filetime ctime;
};

static const char *ns_text(char out[NS_TEXT], filetime t)
{
	int64_t s = clock_filetime_s(t);

	(void)snprintf(out, NS_TEXT, "%" PRId64 ".%09" PRId64, s,
	    (int64_t)(t - s * CLOCK_NS_PER_S));
	return out;
}

/*
 * What the file system says now, not what a cache of it said (a network file
 * system keeps attributes for up to a minute).
 */
static int look(int dirfd, const char *name, struct times *ret,
    const char *shown, struct err *e)
{
	struct statx st;
	int rc = -1;

	do {
		rc = sysio_statx(dirfd, name,
		    AT_SYMLINK_NOFOLLOW | AT_STATX_FORCE_SYNC,
		    STATX_BASIC_STATS, &st);
	} while (rc < 0 && errno == EINTR);
	if (rc < 0 && errno == ENOENT)
		return err_set(e, ERR_NOTFOUND, "'%s' does not exist", shown);
	if (rc < 0)
		return err_sys(e, "stat '%s'", shown);
	ret->atime = clock_from_statx(&st.stx_atime);
	ret->ctime = clock_from_statx(&st.stx_ctime);
	return 0;
}

static int touch_and_look(int dirfd, const char *name, struct times *ret,
    const char *shown, struct err *e)
{
	bool found = false;
	int rc = file_touch_at(dirfd, name, &found, shown, e);

	if (rc < 0)
		return rc;
	if (!found)
		return err_set(e, ERR_NOTFOUND, "'%s' does not exist", shown);
	return look(dirfd, name, ret, shown, e);
}

static int refuse_times(const char *shown, const struct times *before,
    const struct times *after, struct err *e)
{
	char a[NS_TEXT];
	char b[NS_TEXT];
	char c[NS_TEXT];
	char d[NS_TEXT];

	return err_set(e, ERR_REFUSED,
	    "'%s': the file system does not keep access times: 5 s of setting "
	    "them to now took atime from %s to %s and ctime from %s to %s, "
	    "want both to move",
	    shown, ns_text(a, before->atime), ns_text(b, after->atime),
	    ns_text(c, before->ctime), ns_text(d, after->ctime));
}

int probe_atime(int dirfd, const char *name, filetime *ret_now,
    const char *shown, struct err *e)
{
	struct times before = { 0 };
	struct times now = { 0 };
	unsigned pause_ms = PAUSE_FIRST_MS;
	int64_t start = clock_boot_ns();
	int rc = look(dirfd, name, &before, shown, e);

	if (rc < 0)
		return rc;
	/*
	 * The first touch moves both at once, as a rule.  It does not where
	 * the file was touched within this very step of the file system's
	 * time (1 s with inodes of 128 bytes, 2 s on exFAT): then the next
	 * step has to come.  A time that moves back has moved too: the last
	 * touch was by a clock that was ahead, and A1 asks that touches are
	 * seen; that clocks do not run backwards is A2.
	 */
	for (;;) {
		rc = touch_and_look(dirfd, name, &now, shown, e);
		if (rc < 0)
			return rc;
		if (now.atime != before.atime && now.ctime != before.ctime)
			break;
		if (clock_boot_ns() - start >= MOVE_WITHIN_NS)
			return refuse_times(shown, &before, &now, e);
		clock_sleep_ms(pause_ms);
		pause_ms *= 2;
		if (pause_ms > PAUSE_LAST_MS)
			pause_ms = PAUSE_LAST_MS;
	}
	*ret_now = now.atime;
	return 0;
}

int probe_clock(int dirfd, const char *name, filetime *ret_now,
    const char *shown, struct err *e)
{
	struct times now = { 0 };
	int rc = touch_and_look(dirfd, name, &now, shown, e);

	if (rc < 0)
		return rc;
	*ret_now = now.atime;
	return 0;
}

static int try_byte(int fd, uint64_t byte)
{
	struct flock l = {
		.l_type = F_WRLCK,
		.l_whence = SEEK_SET,
		.l_start = (off_t)byte,
		.l_len = 1,
	};
	int rc = -1;

	do {
		rc = sysio_ofd_lock(fd, F_OFD_SETLK, &l);
	} while (rc < 0 && errno == EINTR);
	return rc;
}

static int open_lock(int dirfd, const char *name)
{
	return sysio_openat(dirfd, name,
	    O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, 0);
}

/* Exit statuses of the other process; STATUS_ERRNO + errno for the rest. */
enum {
	STATUS_GOT = 0,
	STATUS_HELD = 1,
	STATUS_ERRNO = 64,
};

/*
 * The other process.  It is a fork of one that may have threads: nothing but
 * calls that are safe after that (open, fcntl, _exit).  It opens the file
 * itself: the inherited description is the parent's, and so is its lock.
 */
_Noreturn static void other_process(int dirfd, const char *name, uint64_t byte)
{
	int fd = open_lock(dirfd, name);

	if (fd < 0)
		_exit(STATUS_ERRNO + errno);
	if (try_byte(fd, byte) == 0)
		_exit(STATUS_GOT);
	if (errno == EAGAIN || errno == EACCES)
		_exit(STATUS_HELD);
	_exit(STATUS_ERRNO + errno);
}

static int judge_status(int status, const char *shown, struct err *e)
{
	int code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;

	if (code == STATUS_HELD)
		return 0;
	if (code == STATUS_GOT) {
		return err_set(e, ERR_REFUSED,
		    "'%s': a lock of one process is not seen by another on "
		    "this file system",
		    shown);
	}
	if (code < STATUS_ERRNO) {
		return err_set(e, ERR_REFUSED,
		    "'%s': the process that was to probe its locks ended with "
		    "status %#x",
		    shown, (unsigned)status);
	}
	errno = code - STATUS_ERRNO;
	return err_sys(e, "lock '%s' from another process", shown);
}

static int ask_other_process(int dirfd, const char *name, uint64_t byte,
    const char *shown, struct err *e)
{
	int status = 0;
	pid_t got = -1;
	pid_t pid = fork();

	if (pid < 0)
		return err_sys(e, "start a process to probe '%s'", shown);
	if (pid == 0)
		other_process(dirfd, name, byte);
	do {
		got = waitpid(pid, &status, 0);
	} while (got < 0 && errno == EINTR);
	if (got < 0)
		return err_sys(e, "wait for the probe of '%s'", shown);
	return judge_status(status, shown, e);
}

int probe_locks(
    int dirfd, const char *lock_name, const char *shown, struct err *e)
{
	uint32_t random = 0;
	uint64_t byte = 0;
	int fd = -1;
	int rc = file_random(&random, sizeof(random), e);

	if (rc < 0)
		return rc;
	byte = PROBE_BYTE + random;
	fd = open_lock(dirfd, lock_name);
	if (fd < 0) {
		rc = err_sys(e, "open '%s'", shown);
		goto out;
	}
	if (try_byte(fd, byte) < 0) {
		if (errno == EAGAIN || errno == EACCES) {
			rc = err_set(e, ERR_BUSY,
			    "'%s' is locked by another program" ERR_TRY_AGAIN,
			    shown);
		} else {
			rc = err_sys(e, "lock '%s'", shown);
		}
		goto out;
	}
	rc = ask_other_process(dirfd, lock_name, byte, shown, e);
out:
	file_close(&fd);
	return rc;
}
