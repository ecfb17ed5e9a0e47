/* SPDX-License-Identifier: MIT */
#include "index/catalog_tmp.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "datastore/base/file.h"
#include "datastore/base/sysio.h"

#define MODE 0600

const char *catalog_tmp_dir(void)
{
	const char *dir = getenv("TMPDIR");

	return dir != NULL && dir[0] != '\0' ? dir : "/var/tmp";
}

/* Where a file can not be made without a name, it loses the one it got. */
static int make_and_unlink(int dirfd, int *ret_fd, struct err *e)
{
	char name[40];
	uint64_t r = 0;
	int fd = -1;
	int rc = file_random(&r, sizeof(r), e);

	if (rc < 0)
		return rc;
	(void)snprintf(name, sizeof(name), ".cairn-tmp.%016" PRIx64, r);
	fd = sysio_openat(dirfd, name,
	    O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, MODE);
	if (fd < 0) {
		return err_sys(
		    e, "make a temporary file in '%s'", catalog_tmp_dir());
	}
	rc = file_unlink_at(dirfd, name, name, e);
	if (rc < 0) {
		file_close(&fd);
		return rc;
	}
	*ret_fd = fd;
	return 0;
}

int catalog_tmp_open(int *ret_fd, struct err *e)
{
	int dirfd = sysio_openat(
	    AT_FDCWD, catalog_tmp_dir(), O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
	int fd = -1;
	int rc = 0;

	if (dirfd < 0) {
		return err_sys(
		    e, "directory '%s' for temporary files", catalog_tmp_dir());
	}
	fd = sysio_openat(
	    dirfd, ".", O_TMPFILE | O_RDWR | O_EXCL | O_CLOEXEC, MODE);
	if (fd >= 0)
		*ret_fd = fd;
	/* ENOENT, EISDIR: kernels and file systems without such files. */
	else if (errno == EOPNOTSUPP || errno == EISDIR || errno == ENOENT)
		rc = make_and_unlink(dirfd, ret_fd, e);
	else
		rc = err_sys(
		    e, "make a temporary file in '%s'", catalog_tmp_dir());
	file_close(&dirfd);
	return rc;
}
