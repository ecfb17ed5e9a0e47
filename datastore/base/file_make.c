/* SPDX-License-Identifier: MIT */
/*
 * The part of file.h that makes things and gives them their names.
 */
#include "datastore/base/file.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "datastore/base/sysio.h"

#define TMP_LETTERS 6
#define TMP_TRIES 64
#define TMP_INFIX ".tmp_"

int file_set_owner(int fd, const struct file_owner *owner, mode_t mode,
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
		rc = file_set_owner(fd, owner, mode, shown, e);
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
		do {
			fd = sysio_openat(dirfd, name,
			    O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
			    FILE_MODE);
		} while (fd < 0 && errno == EINTR);
		if (fd >= 0 || errno != EEXIST)
			break;
	}
	if (fd < 0)
		return err_sys(e, "make a temporary file for '%s'", shown);
	rc = file_set_owner(fd, owner, FILE_MODE, shown, e);
	if (rc < 0) {
		file_close(&fd);
		(void)sysio_unlinkat(dirfd, name, 0);
		return rc;
	}
	memcpy(ret_name, name, len + TMP_LETTERS + 1);
	*ret_fd = fd;
	return 0;
}

static bool is_unsupported(int error)
{
	return error == EINVAL || error == ENOSYS || error == EOPNOTSUPP;
}

static bool is_same_file(int dirfd, const char *a, const char *b)
{
	const int flags = AT_SYMLINK_NOFOLLOW | AT_STATX_FORCE_SYNC;
	struct statx x = { .stx_mask = 0 };
	struct statx y = { .stx_mask = 0 };

	return sysio_statx(dirfd, a, flags, STATX_INO, &x) == 0 &&
	    sysio_statx(dirfd, b, flags, STATX_INO, &y) == 0 &&
	    x.stx_ino == y.stx_ino && x.stx_dev_major == y.stx_dev_major &&
	    x.stx_dev_minor == y.stx_dev_minor;
}

/*
 * A hard link never replaces, either.  Both names or one: never none.  Over a
 * network a call whose reply was lost is made again, and then says of its own
 * work that the name is there, or is gone.
 */
static int link_new(int dirfd, const char *from, const char *to)
{
	int error = 0;

	if (sysio_linkat(dirfd, from, dirfd, to, 0) < 0) {
		error = errno;
		if (error != EEXIST || !is_same_file(dirfd, from, to)) {
			errno = error;
			return -1;
		}
	}
	if (sysio_unlinkat(dirfd, from, 0) == 0 || errno == ENOENT)
		return 0;
	error = errno;
	if (is_same_file(dirfd, from, to))
		(void)sysio_unlinkat(dirfd, to, 0);
	errno = error;
	return -1;
}

/* Where there is neither: a look, and then the rename. */
static int look_and_rename(int dirfd, const char *from, const char *to)
{
	struct statx st = { .stx_mask = 0 };

	if (sysio_statx(dirfd, to, AT_SYMLINK_NOFOLLOW, STATX_TYPE, &st) == 0) {
		errno = EEXIST;
		return -1;
	}
	if (errno != ENOENT)
		return -1;
	return sysio_renameat2(dirfd, from, dirfd, to, 0);
}

int file_rename_new(int dirfd, const char *from, const char *to,
    const char *shown, struct err *e)
{
	int rc = sysio_renameat2(dirfd, from, dirfd, to, RENAME_NOREPLACE);

	/* EPERM is what a filter of system calls says to what it is too old
	 * to know. */
	if (rc < 0 && (is_unsupported(errno) || errno == EPERM)) {
		rc = link_new(dirfd, from, to);
		/* EPERM is what FAT says to a link. */
		if (rc < 0 && (is_unsupported(errno) || errno == EPERM))
			rc = look_and_rename(dirfd, from, to);
	}
	if (rc == 0)
		return 0;
	if (errno == EEXIST)
		return err_set(e, ERR_EXISTS, "'%s' is already there", shown);
	return err_sys(e, "rename to '%s'", shown);
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
