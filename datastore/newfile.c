/* SPDX-License-Identifier: MIT */
#include "datastore/newfile.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "datastore/base/sysio.h"

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
	rc = file_rename_new(dirfd, tmp, name, shown, e);
	if (rc < 0)
		goto out;
	made = false;
	rc = file_sync(dirfd, shown, e);
out:
	file_close(&fd);
	if (made)
		(void)sysio_unlinkat(dirfd, tmp, 0);
	return rc;
}
