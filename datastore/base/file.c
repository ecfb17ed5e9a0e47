/* SPDX-License-Identifier: MIT */
#include "datastore/base/file.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "datastore/base/sysio.h"

#define TMP_LETTERS 6
#define TMP_TRIES 64
#define TMP_INFIX ".tmp_"
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

/*
 * Close what was written.  Linux has released the descriptor whatever it
 * says, also with EINTR: there is nothing to repeat.
 */
static int close_written(int *fd, const char *shown, struct err *e)
{
	int rc = sysio_close(*fd);

	*fd = -1;
	if (rc < 0 && errno != EINTR)
		return err_sys(e, "close '%s'", shown);
	return 0;
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

/* umask may have taken bits away, and root makes things for others. */
static int set_owner_mode(int fd, const struct file_owner *owner, mode_t mode,
    const char *shown, struct err *e)
{
	if (owner != NULL && owner->change &&
	    sysio_fchown(fd, owner->uid, owner->gid) < 0) {
		return err_sys(e, "change the owner of '%s' to %u:%u", shown,
		    (unsigned)owner->uid, (unsigned)owner->gid);
	}
	if (sysio_fchmod(fd, mode) < 0) {
		return err_sys(
		    e, "change the mode of '%s' to %#o", shown, (unsigned)mode);
	}
	return 0;
}

int file_make_dir(int dirfd, const char *name, mode_t mode,
    const struct file_owner *owner, const char *shown, struct err *e)
{
	int fd = -1;
	int rc = 0;

	if (sysio_mkdirat(dirfd, name, mode) < 0) {
		if (errno == EEXIST) {
			return err_set(e, ERR_EXISTS,
			    "directory '%s' can not be made: the name is "
			    "taken",
			    shown);
		}
		return err_sys(e, "make directory '%s'", shown);
	}
	rc = file_open_dir(dirfd, name, &fd, shown, e);
	if (rc == 0)
		rc = set_owner_mode(fd, owner, mode, shown, e);
	file_close(&fd);
	/* If somebody already uses it, it stays: rmdir wants it empty. */
	if (rc < 0)
		(void)sysio_unlinkat(dirfd, name, AT_REMOVEDIR);
	return rc;
}

/* Put random letters at the end of a name that has room for them. */
static int random_letters(char *end, struct err *e)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyz"
				      "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
	uint8_t r[TMP_LETTERS];
	int rc = file_random(r, sizeof(r), e);

	if (rc < 0)
		return rc;
	for (size_t i = 0; i < TMP_LETTERS; i++)
		end[i] = letters[r[i] % (sizeof(letters) - 1)];
	end[TMP_LETTERS] = '\0';
	return 0;
}

int file_make_tmp(int dirfd, const char *stem, const struct file_owner *owner,
    int *ret_fd, char *ret_name, const char *shown, struct err *e)
{
	size_t len = strlen(stem);
	char name[NAME_MAX + 1];
	int fd = -1;
	int rc = 0;

	if (len + TMP_LETTERS > NAME_MAX) {
		errno = ENAMETOOLONG;
		return err_sys(e, "make a temporary file for '%s'", shown);
	}
	(void)snprintf(name, sizeof(name), "%s", stem);
	for (int tries = 0; tries < TMP_TRIES; tries++) {
		rc = random_letters(name + len, e);
		if (rc < 0) {
			err_prefix(e, "temporary file for '%s'", shown);
			return rc;
		}
		fd = open_retry(dirfd, name,
		    O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, FILE_MODE);
		if (fd >= 0 || errno != EEXIST)
			break;
	}
	if (fd < 0)
		return err_sys(e, "make a temporary file for '%s'", shown);
	rc = set_owner_mode(fd, owner, FILE_MODE, shown, e);
	if (rc < 0) {
		file_close(&fd);
		(void)sysio_unlinkat(dirfd, name, 0);
		return rc;
	}
	memcpy(ret_name, name, len + TMP_LETTERS + 1);
	*ret_fd = fd;
	return 0;
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

int file_replace_at(int dirfd, const char *name, const void *p, size_t n,
    const struct file_owner *owner, const char *shown, struct err *e)
{
	char stem[NAME_MAX + sizeof(TMP_INFIX)];
	char tmp[NAME_MAX + sizeof(TMP_INFIX) + TMP_LETTERS];
	bool made = false;
	int fd = -1;
	int rc = 0;

	/* A name too long for its temporary one fails in file_make_tmp. */
	(void)snprintf(stem, sizeof(stem), "%.*s%s", NAME_MAX, name, TMP_INFIX);
	rc = file_make_tmp(dirfd, stem, owner, &fd, tmp, shown, e);
	if (rc < 0)
		goto out;
	made = true;
	rc = file_write_fully(fd, p, n, shown, e);
	if (rc < 0)
		goto out;
	rc = file_sync(fd, shown, e);
	if (rc < 0)
		goto out;
	rc = close_written(&fd, shown, e);
	if (rc < 0)
		goto out;
	if (sysio_renameat2(dirfd, tmp, dirfd, name, 0) < 0) {
		rc = err_sys(e, "rename to '%s'", shown);
		goto out;
	}
	made = false;
	rc = file_sync(dirfd, shown, e);
	if (rc < 0)
		err_prefix(e, "directory of a file that was just replaced");
out:
	file_close(&fd);
	if (made)
		(void)sysio_unlinkat(dirfd, tmp, 0);
	return rc;
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
