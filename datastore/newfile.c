/* SPDX-License-Identifier: MIT */
#include "datastore/newfile.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "datastore/base/sysio.h"

static bool is_unsupported(int error)
{
	return error == EINVAL || error == ENOSYS || error == EOPNOTSUPP ||
	    error == EPERM;
}

/*
 * Give the file its name.  Of the two calls that never replace, some file
 * systems know one, some the other; where there is neither, what is left is a
 * look before the rename.
 */
static int give_name(int dirfd, const char *tmp, const char *name)
{
	struct statx st = { .stx_mask = 0 };

	if (sysio_renameat2(dirfd, tmp, dirfd, name, RENAME_NOREPLACE) == 0)
		return 0;
	if (!is_unsupported(errno))
		return -1;
	if (sysio_linkat(dirfd, tmp, dirfd, name, 0) == 0) {
		/* If it stays, it is a second name that nobody looks at. */
		(void)sysio_unlinkat(dirfd, tmp, 0);
		return 0;
	}
	if (!is_unsupported(errno))
		return -1;
	if (sysio_statx(dirfd, name, AT_SYMLINK_NOFOLLOW, STATX_TYPE, &st) ==
	    0) {
		errno = EEXIST;
		return -1;
	}
	if (errno != ENOENT)
		return -1;
	return sysio_renameat2(dirfd, tmp, dirfd, name, 0);
}

int newfile_make(int dirfd, const char *name, const char *text,
    const struct file_owner *owner, const char *shown, struct err *e)
{
	char stem[NAME_MAX + 1];
	char tmp[NAME_MAX + 1];
	bool made = false;
	int fd = -1;
	int rc = 0;

	if (snprintf(stem, sizeof(stem), "%s%s", name, NEWFILE_TMP_INFIX) >=
	    (int)sizeof(stem)) {
		errno = ENAMETOOLONG;
		return err_sys(e, "make '%s'", shown);
	}
	rc = file_make_tmp(dirfd, stem, owner, &fd, tmp, shown, e);
	if (rc < 0)
		return rc;
	made = true;
	rc = file_write_fully(fd, text, strlen(text), shown, e);
	if (rc == 0)
		rc = file_sync(fd, shown, e);
	if (rc < 0)
		goto out;
	/* After the fsync there is nothing left that a close could lose. */
	file_close(&fd);
	if (give_name(dirfd, tmp, name) < 0) {
		rc = errno == EEXIST
		    ? err_set(e, ERR_EXISTS, "'%s' is already there", shown)
		    : err_sys(e, "make '%s'", shown);
		goto out;
	}
	made = false;
	rc = file_sync(dirfd, shown, e);
out:
	file_close(&fd);
	if (made)
		(void)sysio_unlinkat(dirfd, tmp, 0);
	return rc;
}
