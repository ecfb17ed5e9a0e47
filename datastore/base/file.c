/* SPDX-License-Identifier: MIT */
#include "datastore/base/file.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "datastore/base/sysio.h"

#define READ_STEP 4096

static int open_retry(int dirfd, const char *name, int flags, mode_t mode)
{
	int fd = -1;

	do {
		fd = sysio_openat(dirfd, name, flags | O_CLOEXEC, mode);
	} while (fd < 0 && errno == EINTR);
	return fd;
}

static int statx_retry(int dirfd, const char *name, int flags, struct statx *st)
{
	int rc = -1;

	do {
		rc = sysio_statx(dirfd, name, flags, STATX_BASIC_STATS, st);
	} while (rc < 0 && errno == EINTR);
	return rc;
}

void file_close(int *fd)
{
	if (*fd >= 0)
		(void)sysio_close(*fd);
	*fd = -1;
}

int file_read_fully(int fd, void *p, size_t n, size_t *ret_got,
    const char *shown, struct err *e)
{
	size_t got = 0;

	while (got < n) {
		ssize_t r = sysio_read(fd, (char *)p + got, n - got);

		if (r < 0 && errno == EINTR)
			continue;
		if (r < 0)
			return err_sys(e, "read '%s'", shown);
		if (r == 0)
			break;
		got += (size_t)r;
	}
	*ret_got = got;
	return 0;
}

/* True if n bytes at this offset stay below what off_t can say. */
static bool offset_fits(uint64_t at, size_t n)
{
	return at <= INT64_MAX && n <= INT64_MAX - at;
}

int file_pread_exact(
    int fd, void *p, size_t n, uint64_t at, const char *shown, struct err *e)
{
	size_t got = 0;

	while (got < n) {
		ssize_t r = 0;

		if (offset_fits(at, n)) {
			r = sysio_pread(
			    fd, (char *)p + got, n - got, (off_t)(at + got));
		}
		if (r < 0 && errno == EINTR)
			continue;
		if (r < 0)
			return err_sys(e, "read '%s'", shown);
		if (r == 0) {
			return err_set(e, ERR_CORRUPT,
			    "'%s': %zu bytes at offset %" PRIu64 ", want %zu",
			    shown, got, at, n);
		}
		got += (size_t)r;
	}
	return 0;
}

/* The outcome of one write: an error, nothing (EINTR), or progress. */
static int count_written(
    ssize_t r, size_t *done, const char *shown, struct err *e)
{
	if (r < 0 && errno == EINTR)
		return 0;
	/* A file that takes nothing and names no reason would hang us. */
	if (r == 0)
		errno = EIO;
	if (r <= 0)
		return err_sys(e, "write '%s'", shown);
	*done += (size_t)r;
	return 0;
}

int file_write_fully(
    int fd, const void *p, size_t n, const char *shown, struct err *e)
{
	size_t done = 0;

	while (done < n) {
		ssize_t r = sysio_write(fd, (const char *)p + done, n - done);
		int rc = count_written(r, &done, shown, e);

		if (rc < 0)
			return rc;
	}
	return 0;
}

int file_pwrite_fully(int fd, const void *p, size_t n, uint64_t at,
    const char *shown, struct err *e)
{
	size_t done = 0;

	if (!offset_fits(at, n)) {
		errno = EFBIG;
		return err_sys(e, "write '%s'", shown);
	}
	while (done < n) {
		ssize_t r = sysio_pwrite(
		    fd, (const char *)p + done, n - done, (off_t)(at + done));
		int rc = count_written(r, &done, shown, e);

		if (rc < 0)
			return rc;
	}
	return 0;
}

int file_open_regular(int dirfd, const char *name, int *ret_fd,
    struct statx *ret_st, const char *shown, struct err *e)
{
	struct statx st = { .stx_mask = 0 };
	int rc = 0;
	int fd = open_retry(
	    dirfd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, 0);

	if (fd < 0 && errno == ENOENT)
		return err_set(e, ERR_NOTFOUND, "'%s' does not exist", shown);
	if (fd < 0 && errno == ELOOP) {
		return err_set(e, ERR_CORRUPT,
		    "'%s' is a symbolic link, want a regular file", shown);
	}
	/* A socket, or a device that nothing drives. */
	if (fd < 0 && (errno == ENXIO || errno == ENODEV)) {
		return err_set(e, ERR_CORRUPT,
		    "'%s' is a socket or device, want a regular file", shown);
	}
	if (fd < 0)
		return err_sys(e, "open '%s'", shown);
	rc = file_stat_fd(fd, &st, shown, e);
	if (rc < 0)
		goto out;
	if (!S_ISREG(st.stx_mode)) {
		rc = err_set(e, ERR_CORRUPT,
		    "'%s' is of file type %#o, want a regular file", shown,
		    st.stx_mode & (unsigned)S_IFMT);
		goto out;
	}
	if (ret_st != NULL)
		*ret_st = st;
	*ret_fd = fd;
	fd = -1;
out:
	file_close(&fd);
	return rc;
}

/* All that is left in fd, at most limit bytes; first is a guess of it. */
static int read_rest(int fd, size_t first, size_t limit, struct buf *out,
    const char *shown, struct err *e)
{
	size_t step = first;
	size_t got = 0;

	do {
		int rc = buf_reserve(out, step, e);

		if (rc < 0)
			return rc;
		rc = file_read_fully(
		    fd, out->data + out->len, step, &got, shown, e);
		if (rc < 0)
			return rc;
		out->len += got;
		if (out->len > limit) {
			return err_set(e, ERR_LIMIT,
			    "'%s' grew beyond %zu bytes while it was read",
			    shown, limit);
		}
		if (got < step)
			return 0;
		step = READ_STEP;
	} while (true);
}

int file_read_at(int dirfd, const char *name, size_t limit, struct buf *out,
    const char *shown, struct err *e)
{
	struct statx st = { .stx_mask = 0 };
	int fd = -1;
	int rc = 0;

	buf_reset(out);
	rc = file_open_regular(dirfd, name, &fd, &st, shown, e);
	if (rc < 0)
		goto out;
	if (st.stx_size > limit) {
		rc = err_set(e, ERR_LIMIT,
		    "'%s': %" PRIu64 " bytes, want at most %zu", shown,
		    (uint64_t)st.stx_size, limit);
		goto out;
	}
	/* One more, so that the first read already sees the end. */
	rc = read_rest(fd, (size_t)st.stx_size + 1, limit, out, shown, e);
out:
	if (rc < 0)
		buf_reset(out);
	file_close(&fd);
	return rc;
}

int file_sync(int fd, const char *shown, struct err *e)
{
	int rc = -1;

	/* Only EINTR: after EIO the kernel has dropped what it could not
	 * write, and a second fsync would say that all is well. */
	do {
		rc = sysio_fsync(fd);
	} while (rc < 0 && errno == EINTR);
	if (rc < 0)
		return err_sys(e, "sync '%s'", shown);
	return 0;
}

bool file_same(const struct statx *a, const struct statx *b)
{
	return a->stx_ino == b->stx_ino &&
	    a->stx_dev_major == b->stx_dev_major &&
	    a->stx_dev_minor == b->stx_dev_minor;
}

int file_stat_fd(int fd, struct statx *ret_st, const char *shown, struct err *e)
{
	struct statx st = { .stx_mask = 0 };

	if (statx_retry(fd, "", AT_EMPTY_PATH, &st) < 0)
		return err_sys(e, "stat '%s'", shown);
	*ret_st = st;
	return 0;
}

int file_stat_at(int dirfd, const char *name, struct statx *ret_st,
    bool *ret_found, const char *shown, struct err *e)
{
	struct statx st = { .stx_mask = 0 };
	int rc = statx_retry(dirfd, name, AT_SYMLINK_NOFOLLOW, &st);

	if (rc < 0 && errno != ENOENT)
		return err_sys(e, "stat '%s'", shown);
	if (rc == 0)
		*ret_st = st;
	*ret_found = rc == 0;
	return 0;
}

int file_touch_at(int dirfd, const char *name, bool *ret_found,
    const char *shown, struct err *e)
{
	static const struct timespec times[2] = {
		{ .tv_sec = 0, .tv_nsec = UTIME_NOW },
		{ .tv_sec = 0, .tv_nsec = UTIME_OMIT },
	};
	int rc = -1;

	do {
		rc = sysio_utimensat(dirfd, name, times, AT_SYMLINK_NOFOLLOW);
	} while (rc < 0 && errno == EINTR);
	if (rc < 0 && errno != ENOENT)
		return err_sys(e, "touch '%s'", shown);
	*ret_found = rc == 0;
	return 0;
}

int file_unlink_at(
    int dirfd, const char *name, const char *shown, struct err *e)
{
	if (sysio_unlinkat(dirfd, name, 0) < 0 && errno != ENOENT)
		return err_sys(e, "remove '%s'", shown);
	return 0;
}

int file_random(void *p, size_t n, struct err *e)
{
	size_t got = 0;

	while (got < n) {
		ssize_t r = sysio_getrandom((char *)p + got, n - got, 0);

		if (r < 0 && errno == EINTR)
			continue;
		if (r < 0)
			return err_sys(e, "random numbers of the kernel");
		got += (size_t)r;
	}
	return 0;
}
