/* SPDX-License-Identifier: MIT */
/*
 * The wrapper of each call.
 */
#include "tests/support/fault_internal.h"

static int fault_openat(int dirfd, const char *name, int flags, mode_t mode)
{
	struct fault_passage c = FAULT_CALL(
	    (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE
		? FAULT_CREATE
		: FAULT_OPENAT,
	    .fd = dirfd, .name = name, .flags = flags);

	if (fault_call_begin(&c))
		fault_call_done(
		    &c, sysio_real.openat(dirfd, name, flags, mode));
	return (int)fault_call_end(&c);
}

static int fault_close(int fd)
{
	struct fault_passage c = FAULT_CALL(FAULT_CLOSE, .fd = fd);

	if (fault_call_begin(&c))
		fault_call_done(&c, sysio_real.close(fd));
	return (int)fault_call_end(&c);
}

static int fault_poll(struct pollfd *fds, nfds_t n, int timeout_ms)
{
	struct fault_passage c =
	    FAULT_CALL(FAULT_POLL, .p = fds, .n = n, .at = timeout_ms);

	if (fault_call_begin(&c))
		fault_call_done(&c, sysio_real.poll(fds, n, timeout_ms));
	return (int)fault_call_end(&c);
}

static ssize_t fault_read(int fd, void *p, size_t n)
{
	struct fault_passage c =
	    FAULT_CALL(FAULT_READ, .fd = fd, .p = p, .n = n);

	if (fault_call_begin(&c))
		fault_call_done(&c, sysio_real.read(fd, p, c.ev.n));
	return fault_call_end(&c);
}

static ssize_t fault_pread(int fd, void *p, size_t n, off_t at)
{
	struct fault_passage c =
	    FAULT_CALL(FAULT_PREAD, .fd = fd, .p = p, .n = n, .at = at);

	if (fault_call_begin(&c))
		fault_call_done(&c, sysio_real.pread(fd, p, c.ev.n, at));
	return fault_call_end(&c);
}

static ssize_t fault_write(int fd, const void *p, size_t n)
{
	struct fault_passage c =
	    FAULT_CALL(FAULT_WRITE, .fd = fd, .in = p, .n = n);

	if (fault_call_begin(&c))
		fault_call_done(&c, sysio_real.write(fd, p, c.ev.n));
	return fault_call_end(&c);
}

static ssize_t fault_pwrite(int fd, const void *p, size_t n, off_t at)
{
	struct fault_passage c =
	    FAULT_CALL(FAULT_PWRITE, .fd = fd, .in = p, .n = n, .at = at);

	if (fault_call_begin(&c))
		fault_call_done(&c, sysio_real.pwrite(fd, p, c.ev.n, at));
	return fault_call_end(&c);
}

static off_t fault_lseek(int fd, off_t at, int whence)
{
	struct fault_passage c =
	    FAULT_CALL(FAULT_LSEEK, .fd = fd, .at = at, .flags = whence);

	if (fault_call_begin(&c))
		fault_call_done(&c, sysio_real.lseek(fd, at, whence));
	return fault_call_end(&c);
}

static int fault_ftruncate(int fd, off_t size)
{
	struct fault_passage c =
	    FAULT_CALL(FAULT_FTRUNCATE, .fd = fd, .at = size);

	if (fault_call_begin(&c))
		fault_call_done(&c, sysio_real.ftruncate(fd, size));
	return (int)fault_call_end(&c);
}

static int fault_fsync(int fd)
{
	struct fault_passage c = FAULT_CALL(FAULT_FSYNC, .fd = fd);

	if (fault_call_begin(&c))
		fault_call_done(&c, sysio_real.fsync(fd));
	return (int)fault_call_end(&c);
}

static int fault_syncfs(int fd)
{
	struct fault_passage c = FAULT_CALL(FAULT_SYNCFS, .fd = fd);

	if (fault_call_begin(&c))
		fault_call_done(&c, sysio_real.syncfs(fd));
	return (int)fault_call_end(&c);
}

static int fault_fallocate(int fd, int mode, off_t at, off_t n)
{
	struct fault_passage c = FAULT_CALL(
	    FAULT_FALLOCATE, .fd = fd, .flags = mode, .at = at, .n = (size_t)n);

	if (fault_call_begin(&c))
		fault_call_done(&c, sysio_real.fallocate(fd, mode, at, n));
	return (int)fault_call_end(&c);
}

static int fault_fchown(int fd, uid_t uid, gid_t gid)
{
	struct fault_passage c = FAULT_CALL(FAULT_FCHOWN, .fd = fd);

	if (fault_call_begin(&c))
		fault_call_done(&c, sysio_real.fchown(fd, uid, gid));
	return (int)fault_call_end(&c);
}

static int fault_fchownat(
    int dirfd, const char *name, uid_t uid, gid_t gid, int flags)
{
	struct fault_passage c = FAULT_CALL(
	    FAULT_FCHOWNAT, .fd = dirfd, .name = name, .flags = flags);

	if (fault_call_begin(&c))
		fault_call_done(
		    &c, sysio_real.fchownat(dirfd, name, uid, gid, flags));
	return (int)fault_call_end(&c);
}

static int fault_fchmod(int fd, mode_t mode)
{
	struct fault_passage c = FAULT_CALL(FAULT_FCHMOD, .fd = fd);

	if (fault_call_begin(&c))
		fault_call_done(&c, sysio_real.fchmod(fd, mode));
	return (int)fault_call_end(&c);
}

static int fault_fchmodat(int dirfd, const char *name, mode_t mode, int flags)
{
	struct fault_passage c = FAULT_CALL(
	    FAULT_FCHMODAT, .fd = dirfd, .name = name, .flags = flags);

	if (fault_call_begin(&c))
		fault_call_done(
		    &c, sysio_real.fchmodat(dirfd, name, mode, flags));
	return (int)fault_call_end(&c);
}

static int fault_statx(
    int dirfd, const char *name, int flags, unsigned mask, struct statx *st)
{
	struct fault_passage c = FAULT_CALL(
	    FAULT_STATX, .fd = dirfd, .name = name, .flags = flags, .p = st);

	if (fault_call_begin(&c))
		fault_call_done(
		    &c, sysio_real.statx(dirfd, name, flags, mask, st));
	return (int)fault_call_end(&c);
}

static int fault_utimensat(
    int dirfd, const char *name, const struct timespec times[2], int flags)
{
	struct fault_passage c = FAULT_CALL(FAULT_UTIMENSAT, .fd = dirfd,
	    .name = name, .flags = flags, .in = times);

	if (fault_call_begin(&c))
		fault_call_done(
		    &c, sysio_real.utimensat(dirfd, name, times, flags));
	return (int)fault_call_end(&c);
}

static int fault_futimens(int fd, const struct timespec times[2])
{
	struct fault_passage c =
	    FAULT_CALL(FAULT_FUTIMENS, .fd = fd, .in = times);

	if (fault_call_begin(&c))
		fault_call_done(&c, sysio_real.futimens(fd, times));
	return (int)fault_call_end(&c);
}

static int fault_setxattr(
    const char *path, const char *name, const void *p, size_t n, int flags)
{
	struct fault_passage c = FAULT_CALL(FAULT_SETXATTR, .name = path,
	    .to_name = name, .in = p, .n = n, .flags = flags);

	if (fault_call_begin(&c))
		fault_call_done(
		    &c, sysio_real.setxattr(path, name, p, n, flags));
	return (int)fault_call_end(&c);
}

static int fault_fsetxattr(
    int fd, const char *name, const void *p, size_t n, int flags)
{
	struct fault_passage c = FAULT_CALL(FAULT_FSETXATTR, .fd = fd,
	    .name = name, .in = p, .n = n, .flags = flags);

	if (fault_call_begin(&c))
		fault_call_done(
		    &c, sysio_real.fsetxattr(fd, name, p, n, flags));
	return (int)fault_call_end(&c);
}

static ssize_t fault_fgetxattr(int fd, const char *name, void *p, size_t n)
{
	struct fault_passage c =
	    FAULT_CALL(FAULT_FGETXATTR, .fd = fd, .name = name, .p = p, .n = n);

	if (fault_call_begin(&c))
		fault_call_done(&c, sysio_real.fgetxattr(fd, name, p, n));
	return fault_call_end(&c);
}

static ssize_t fault_flistxattr(int fd, char *p, size_t n)
{
	struct fault_passage c =
	    FAULT_CALL(FAULT_FLISTXATTR, .fd = fd, .p = p, .n = n);

	if (fault_call_begin(&c))
		fault_call_done(&c, sysio_real.flistxattr(fd, p, n));
	return fault_call_end(&c);
}

static ssize_t fault_getxattr(
    const char *path, const char *name, void *p, size_t n)
{
	struct fault_passage c = FAULT_CALL(
	    FAULT_GETXATTR, .name = path, .to_name = name, .p = p, .n = n);

	if (fault_call_begin(&c))
		fault_call_done(&c, sysio_real.getxattr(path, name, p, n));
	return fault_call_end(&c);
}

static ssize_t fault_listxattr(const char *path, char *p, size_t n)
{
	struct fault_passage c =
	    FAULT_CALL(FAULT_LISTXATTR, .name = path, .p = p, .n = n);

	if (fault_call_begin(&c))
		fault_call_done(&c, sysio_real.listxattr(path, p, n));
	return fault_call_end(&c);
}

static int fault_fremovexattr(int fd, const char *name)
{
	struct fault_passage c =
	    FAULT_CALL(FAULT_FREMOVEXATTR, .fd = fd, .name = name);

	if (fault_call_begin(&c))
		fault_call_done(&c, sysio_real.fremovexattr(fd, name));
	return (int)fault_call_end(&c);
}

static int fault_renameat2(
    int fromfd, const char *from, int tofd, const char *to, unsigned flags)
{
	struct fault_passage c = FAULT_CALL(FAULT_RENAMEAT2, .fd = fromfd,
	    .name = from, .to_fd = tofd, .to_name = to, .flags = (int)flags);

	if (fault_call_begin(&c))
		fault_call_done(
		    &c, sysio_real.renameat2(fromfd, from, tofd, to, flags));
	return (int)fault_call_end(&c);
}

static int fault_linkat(
    int fromfd, const char *from, int tofd, const char *to, int flags)
{
	struct fault_passage c = FAULT_CALL(FAULT_LINKAT, .fd = fromfd,
	    .name = from, .to_fd = tofd, .to_name = to, .flags = flags);

	if (fault_call_begin(&c))
		fault_call_done(
		    &c, sysio_real.linkat(fromfd, from, tofd, to, flags));
	return (int)fault_call_end(&c);
}

static int fault_symlinkat(const char *target, int dirfd, const char *name)
{
	struct fault_passage c = FAULT_CALL(
	    FAULT_SYMLINKAT, .fd = dirfd, .name = name, .in = target);

	if (fault_call_begin(&c))
		fault_call_done(&c, sysio_real.symlinkat(target, dirfd, name));
	return (int)fault_call_end(&c);
}

static int fault_mknodat(int dirfd, const char *name, mode_t mode, dev_t dev)
{
	struct fault_passage c = FAULT_CALL(
	    FAULT_MKNODAT, .fd = dirfd, .name = name, .flags = (int)mode);

	if (fault_call_begin(&c))
		fault_call_done(&c, sysio_real.mknodat(dirfd, name, mode, dev));
	return (int)fault_call_end(&c);
}

static int fault_unlinkat(int dirfd, const char *name, int flags)
{
	struct fault_passage c = FAULT_CALL(
	    FAULT_UNLINKAT, .fd = dirfd, .name = name, .flags = flags);

	if (fault_call_begin(&c))
		fault_call_done(&c, sysio_real.unlinkat(dirfd, name, flags));
	return (int)fault_call_end(&c);
}

static int fault_mkdirat(int dirfd, const char *name, mode_t mode)
{
	struct fault_passage c =
	    FAULT_CALL(FAULT_MKDIRAT, .fd = dirfd, .name = name);

	if (fault_call_begin(&c))
		fault_call_done(&c, sysio_real.mkdirat(dirfd, name, mode));
	return (int)fault_call_end(&c);
}

static ssize_t fault_readlinkat(int dirfd, const char *name, char *p, size_t n)
{
	struct fault_passage c = FAULT_CALL(
	    FAULT_READLINKAT, .fd = dirfd, .name = name, .p = p, .n = n);

	if (fault_call_begin(&c))
		fault_call_done(
		    &c, sysio_real.readlinkat(dirfd, name, p, c.ev.n));
	return fault_call_end(&c);
}

static DIR *fault_fdopendir(int fd)
{
	struct fault_passage c = FAULT_CALL(FAULT_FDOPENDIR, .fd = fd);

	if (fault_call_begin(&c))
		fault_call_done_p(&c, sysio_real.fdopendir(fd));
	(void)fault_call_end(&c);
	return c.ev.result_p;
}

static struct dirent *fault_readdir(DIR *d)
{
	struct fault_passage c = FAULT_CALL(FAULT_READDIR, .fd = dirfd(d));

	if (fault_call_begin(&c))
		fault_call_done_p(&c, sysio_real.readdir(d));
	(void)fault_call_end(&c);
	return c.ev.result_p;
}

static ssize_t fault_getdents64(int fd, void *p, size_t n)
{
	struct fault_passage c =
	    FAULT_CALL(FAULT_GETDENTS64, .fd = fd, .p = p, .n = n);

	if (fault_call_begin(&c))
		fault_call_done(&c, sysio_real.getdents64(fd, p, c.ev.n));
	return fault_call_end(&c);
}

static int fault_closedir(DIR *d)
{
	struct fault_passage c = FAULT_CALL(FAULT_CLOSEDIR, .fd = dirfd(d));

	if (fault_call_begin(&c))
		fault_call_done(&c, sysio_real.closedir(d));
	return (int)fault_call_end(&c);
}

static int fault_ofd_lock(int fd, int cmd, struct flock *l)
{
	struct fault_passage c =
	    FAULT_CALL(FAULT_OFD_LOCK, .fd = fd, .p = l, .flags = cmd);

	if (fault_call_begin(&c))
		fault_call_done(&c, sysio_real.ofd_lock(fd, cmd, l));
	return (int)fault_call_end(&c);
}

static int fault_flock(int fd, int operation)
{
	struct fault_passage c =
	    FAULT_CALL(FAULT_FLOCK, .fd = fd, .flags = operation);

	if (fault_call_begin(&c))
		fault_call_done(&c, sysio_real.flock(fd, operation));
	return (int)fault_call_end(&c);
}

static int fault_fstatvfs(int fd, struct statvfs *st)
{
	struct fault_passage c = FAULT_CALL(FAULT_FSTATVFS, .fd = fd, .p = st);

	if (fault_call_begin(&c))
		fault_call_done(&c, sysio_real.fstatvfs(fd, st));
	return (int)fault_call_end(&c);
}

static int fault_fstatfs(int fd, struct statfs *st)
{
	struct fault_passage c = FAULT_CALL(FAULT_FSTATFS, .fd = fd, .p = st);

	if (fault_call_begin(&c))
		fault_call_done(&c, sysio_real.fstatfs(fd, st));
	return (int)fault_call_end(&c);
}

static int fault_ioctl(int fd, unsigned long request, void *arg)
{
	struct fault_passage c =
	    FAULT_CALL(FAULT_IOCTL, .fd = fd, .p = arg, .at = (int64_t)request);

	if (fault_call_begin(&c))
		fault_call_done(&c, sysio_real.ioctl(fd, request, arg));
	return (int)fault_call_end(&c);
}

static int fault_clock_gettime(clockid_t clock, struct timespec *ts)
{
	struct fault_passage c =
	    FAULT_CALL(FAULT_CLOCK_GETTIME, .p = ts, .flags = clock);

	if (fault_call_begin(&c))
		fault_call_done(&c, sysio_real.clock_gettime(clock, ts));
	return (int)fault_call_end(&c);
}

static int fault_nanosleep(const struct timespec *ts, struct timespec *left)
{
	struct fault_passage c =
	    FAULT_CALL(FAULT_NANOSLEEP, .p = left, .in = ts);

	if (fault_call_begin(&c))
		fault_call_done(&c, sysio_real.nanosleep(ts, left));
	return (int)fault_call_end(&c);
}

static ssize_t fault_getrandom(void *p, size_t n, unsigned flags)
{
	struct fault_passage c =
	    FAULT_CALL(FAULT_GETRANDOM, .p = p, .n = n, .flags = (int)flags);

	if (fault_call_begin(&c))
		fault_call_done(&c, sysio_real.getrandom(p, c.ev.n, flags));
	return fault_call_end(&c);
}

const struct sysio_table fault_table = {
	.openat = fault_openat,
	.close = fault_close,
	.poll = fault_poll,
	.read = fault_read,
	.pread = fault_pread,
	.write = fault_write,
	.pwrite = fault_pwrite,
	.lseek = fault_lseek,
	.ftruncate = fault_ftruncate,
	.fsync = fault_fsync,
	.syncfs = fault_syncfs,
	.fallocate = fault_fallocate,
	.fchown = fault_fchown,
	.fchownat = fault_fchownat,
	.fchmod = fault_fchmod,
	.fchmodat = fault_fchmodat,
	.statx = fault_statx,
	.utimensat = fault_utimensat,
	.futimens = fault_futimens,
	.setxattr = fault_setxattr,
	.fsetxattr = fault_fsetxattr,
	.fgetxattr = fault_fgetxattr,
	.flistxattr = fault_flistxattr,
	.getxattr = fault_getxattr,
	.listxattr = fault_listxattr,
	.fremovexattr = fault_fremovexattr,
	.renameat2 = fault_renameat2,
	.linkat = fault_linkat,
	.symlinkat = fault_symlinkat,
	.mknodat = fault_mknodat,
	.unlinkat = fault_unlinkat,
	.mkdirat = fault_mkdirat,
	.readlinkat = fault_readlinkat,
	.fdopendir = fault_fdopendir,
	.readdir = fault_readdir,
	.closedir = fault_closedir,
	.getdents64 = fault_getdents64,
	.ofd_lock = fault_ofd_lock,
	.flock = fault_flock,
	.fstatvfs = fault_fstatvfs,
	.fstatfs = fault_fstatfs,
	.ioctl = fault_ioctl,
	.clock_gettime = fault_clock_gettime,
	.nanosleep = fault_nanosleep,
	.getrandom = fault_getrandom,
};
