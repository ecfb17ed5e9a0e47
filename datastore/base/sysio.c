/* SPDX-License-Identifier: MIT */
#include "datastore/base/sysio.h"

#include <stdio.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/random.h>
#include <sys/xattr.h>
#include <unistd.h>

/* The C library's variadic functions need a fixed signature in front. */
static int real_openat(int dirfd, const char *name, int flags, mode_t mode)
{
	return openat(dirfd, name, flags, mode);
}

static int real_ofd_lock(int fd, int cmd, struct flock *l)
{
	return fcntl(fd, cmd, l);
}

static int real_ioctl(int fd, unsigned long request, void *arg)
{
	return ioctl(fd, request, arg);
}

const struct sysio_table sysio_real = {
	.openat = real_openat,
	.close = close,
	.poll = poll,
	.read = read,
	.pread = pread,
	.write = write,
	.pwrite = pwrite,
	.lseek = lseek,
	.ftruncate = ftruncate,
	.fsync = fsync,
	.syncfs = syncfs,
	.fallocate = fallocate,
	.fchown = fchown,
	.fchownat = fchownat,
	.fchmod = fchmod,
	.fchmodat = fchmodat,
	.statx = statx,
	.utimensat = utimensat,
	.futimens = futimens,
	.setxattr = setxattr,
	.fsetxattr = fsetxattr,
	.fgetxattr = fgetxattr,
	.flistxattr = flistxattr,
	.getxattr = getxattr,
	.listxattr = listxattr,
	.fremovexattr = fremovexattr,
	.renameat2 = renameat2,
	.linkat = linkat,
	.symlinkat = symlinkat,
	.mknodat = mknodat,
	.unlinkat = unlinkat,
	.mkdirat = mkdirat,
	.readlinkat = readlinkat,
	.fdopendir = fdopendir,
	.readdir = readdir,
	.closedir = closedir,
	.getdents64 = getdents64,
	.ofd_lock = real_ofd_lock,
	.flock = flock,
	.fstatvfs = fstatvfs,
	.fstatfs = fstatfs,
	.ioctl = real_ioctl,
	.clock_gettime = clock_gettime,
	.nanosleep = nanosleep,
	.getrandom = getrandom,
};

const struct sysio_table *sysio_table = &sysio_real;
