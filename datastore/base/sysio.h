/* SPDX-License-Identifier: MIT */
/*
 * sysio: the seam through which every system call goes that can fail or lie.
 *
 * One table of functions, each with the contract of the system call of its
 * name: -1 and errno on failure (sysio_readdir as readdir(3)).  The product
 * never changes the table; a test may put its own in front, before threads
 * start, to fail, delay, record or falsify a call.  The inline functions
 * below are what code calls.  Nothing here retries EINTR or short transfers;
 * file.h does.
 */
#ifndef CAIRN_DATASTORE_BASE_SYSIO_H
#define CAIRN_DATASTORE_BASE_SYSIO_H

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/types.h>
#include <sys/vfs.h>
#include <time.h>

struct sysio_table {
	int (*openat)(int dirfd, const char *name, int flags, mode_t mode);
	int (*close)(int fd);
	int (*poll)(struct pollfd *fds, nfds_t n, int timeout_ms);
	ssize_t (*read)(int fd, void *p, size_t n);
	ssize_t (*pread)(int fd, void *p, size_t n, off_t at);
	ssize_t (*write)(int fd, const void *p, size_t n);
	ssize_t (*pwrite)(int fd, const void *p, size_t n, off_t at);
	off_t (*lseek)(int fd, off_t at, int whence);
	int (*ftruncate)(int fd, off_t size);
	int (*fsync)(int fd);
	int (*syncfs)(int fd);
	int (*fallocate)(int fd, int mode, off_t at, off_t n);
	int (*fchown)(int fd, uid_t uid, gid_t gid);
	int (*fchownat)(
	    int dirfd, const char *name, uid_t uid, gid_t gid, int flags);
	int (*fchmod)(int fd, mode_t mode);
	int (*fchmodat)(int dirfd, const char *name, mode_t mode, int flags);
	int (*statx)(int dirfd, const char *name, int flags, unsigned mask,
	    struct statx *st);
	int (*utimensat)(int dirfd, const char *name,
	    const struct timespec times[2], int flags);
	int (*futimens)(int fd, const struct timespec times[2]);
	int (*setxattr)(const char *path, const char *name, const void *p,
	    size_t n, int flags); /* follows: for /proc/self/fd/N */
	int (*fsetxattr)(
	    int fd, const char *name, const void *p, size_t n, int flags);
	ssize_t (*fgetxattr)(int fd, const char *name, void *p, size_t n);
	ssize_t (*flistxattr)(int fd, char *p, size_t n);
	ssize_t (*getxattr)(
	    const char *path, const char *name, void *p, size_t n);
	ssize_t (*listxattr)(const char *path, char *p, size_t n);
	int (*fremovexattr)(int fd, const char *name);
	int (*renameat2)(int fromfd, const char *from, int tofd, const char *to,
	    unsigned flags);
	int (*linkat)(
	    int fromfd, const char *from, int tofd, const char *to, int flags);
	int (*symlinkat)(const char *target, int dirfd, const char *name);
	int (*mknodat)(int dirfd, const char *name, mode_t mode, dev_t dev);
	int (*unlinkat)(int dirfd, const char *name, int flags);
	int (*mkdirat)(int dirfd, const char *name, mode_t mode);
	ssize_t (*readlinkat)(int dirfd, const char *name, char *p, size_t n);
	DIR *(*fdopendir)(int fd);
	struct dirent *(*readdir)(DIR *d);
	int (*closedir)(DIR *d);
	ssize_t (*getdents64)(int fd, void *p, size_t n);
	int (*ofd_lock)(int fd, int cmd, struct flock *l); /* fcntl F_OFD_* */
	int (*flock)(int fd, int operation);
	int (*fstatvfs)(int fd, struct statvfs *st);
	int (*fstatfs)(int fd, struct statfs *st);
	int (*ioctl)(int fd, unsigned long request, void *arg);
	int (*clock_gettime)(clockid_t clock, struct timespec *ts);
	int (*nanosleep)(const struct timespec *ts, struct timespec *left);
	ssize_t (*getrandom)(void *p, size_t n, unsigned flags);
};

/* The table in use, and the real one, for a test's table to fall back to. */
extern const struct sysio_table *sysio_table;
extern const struct sysio_table sysio_real;

static inline int sysio_openat(
    int dirfd, const char *name, int flags, mode_t mode)
{
	return sysio_table->openat(dirfd, name, flags, mode);
}

static inline int sysio_close(int fd)
{
	return sysio_table->close(fd);
}

static inline int sysio_poll(struct pollfd *fds, nfds_t n, int timeout_ms)
{
	return sysio_table->poll(fds, n, timeout_ms);
}

static inline ssize_t sysio_read(int fd, void *p, size_t n)
{
	return sysio_table->read(fd, p, n);
}

static inline ssize_t sysio_pread(int fd, void *p, size_t n, off_t at)
{
	return sysio_table->pread(fd, p, n, at);
}

static inline ssize_t sysio_write(int fd, const void *p, size_t n)
{
	return sysio_table->write(fd, p, n);
}

static inline ssize_t sysio_pwrite(int fd, const void *p, size_t n, off_t at)
{
	return sysio_table->pwrite(fd, p, n, at);
}

static inline off_t sysio_lseek(int fd, off_t at, int whence)
{
	return sysio_table->lseek(fd, at, whence);
}

static inline int sysio_ftruncate(int fd, off_t size)
{
	return sysio_table->ftruncate(fd, size);
}

static inline int sysio_fsync(int fd)
{
	return sysio_table->fsync(fd);
}

static inline int sysio_syncfs(int fd)
{
	return sysio_table->syncfs(fd);
}

static inline int sysio_fallocate(int fd, int mode, off_t at, off_t n)
{
	return sysio_table->fallocate(fd, mode, at, n);
}

static inline int sysio_fchown(int fd, uid_t uid, gid_t gid)
{
	return sysio_table->fchown(fd, uid, gid);
}

static inline int sysio_fchownat(
    int dirfd, const char *name, uid_t uid, gid_t gid, int flags)
{
	return sysio_table->fchownat(dirfd, name, uid, gid, flags);
}

static inline int sysio_fchmod(int fd, mode_t mode)
{
	return sysio_table->fchmod(fd, mode);
}

static inline int sysio_fchmodat(
    int dirfd, const char *name, mode_t mode, int flags)
{
	return sysio_table->fchmodat(dirfd, name, mode, flags);
}

static inline int sysio_statx(
    int dirfd, const char *name, int flags, unsigned mask, struct statx *st)
{
	return sysio_table->statx(dirfd, name, flags, mask, st);
}

static inline int sysio_utimensat(
    int dirfd, const char *name, const struct timespec times[2], int flags)
{
	return sysio_table->utimensat(dirfd, name, times, flags);
}

static inline int sysio_futimens(int fd, const struct timespec times[2])
{
	return sysio_table->futimens(fd, times);
}

static inline int sysio_setxattr(
    const char *path, const char *name, const void *p, size_t n, int flags)
{
	return sysio_table->setxattr(path, name, p, n, flags);
}

static inline int sysio_fsetxattr(
    int fd, const char *name, const void *p, size_t n, int flags)
{
	return sysio_table->fsetxattr(fd, name, p, n, flags);
}

static inline ssize_t sysio_fgetxattr(
    int fd, const char *name, void *p, size_t n)
{
	return sysio_table->fgetxattr(fd, name, p, n);
}

static inline ssize_t sysio_flistxattr(int fd, char *p, size_t n)
{
	return sysio_table->flistxattr(fd, p, n);
}

/* These two follow, too. */
static inline ssize_t sysio_getxattr(
    const char *path, const char *name, void *p, size_t n)
{
	return sysio_table->getxattr(path, name, p, n);
}

static inline ssize_t sysio_listxattr(const char *path, char *p, size_t n)
{
	return sysio_table->listxattr(path, p, n);
}

static inline int sysio_fremovexattr(int fd, const char *name)
{
	return sysio_table->fremovexattr(fd, name);
}

static inline int sysio_renameat2(
    int fromfd, const char *from, int tofd, const char *to, unsigned flags)
{
	return sysio_table->renameat2(fromfd, from, tofd, to, flags);
}

static inline int sysio_linkat(
    int fromfd, const char *from, int tofd, const char *to, int flags)
{
	return sysio_table->linkat(fromfd, from, tofd, to, flags);
}

static inline int sysio_symlinkat(
    const char *target, int dirfd, const char *name)
{
	return sysio_table->symlinkat(target, dirfd, name);
}

static inline int sysio_mknodat(
    int dirfd, const char *name, mode_t mode, dev_t dev)
{
	return sysio_table->mknodat(dirfd, name, mode, dev);
}

static inline int sysio_unlinkat(int dirfd, const char *name, int flags)
{
	return sysio_table->unlinkat(dirfd, name, flags);
}

static inline int sysio_mkdirat(int dirfd, const char *name, mode_t mode)
{
	return sysio_table->mkdirat(dirfd, name, mode);
}

static inline ssize_t sysio_readlinkat(
    int dirfd, const char *name, char *p, size_t n)
{
	return sysio_table->readlinkat(dirfd, name, p, n);
}

static inline DIR *sysio_fdopendir(int fd)
{
	return sysio_table->fdopendir(fd);
}

static inline struct dirent *sysio_readdir(DIR *d)
{
	return sysio_table->readdir(d);
}

static inline int sysio_closedir(DIR *d)
{
	return sysio_table->closedir(d);
}

static inline ssize_t sysio_getdents64(int fd, void *p, size_t n)
{
	return sysio_table->getdents64(fd, p, n);
}

static inline int sysio_ofd_lock(int fd, int cmd, struct flock *l)
{
	return sysio_table->ofd_lock(fd, cmd, l);
}

static inline int sysio_flock(int fd, int operation)
{
	return sysio_table->flock(fd, operation);
}

static inline int sysio_fstatvfs(int fd, struct statvfs *st)
{
	return sysio_table->fstatvfs(fd, st);
}

static inline int sysio_fstatfs(int fd, struct statfs *st)
{
	return sysio_table->fstatfs(fd, st);
}

static inline int sysio_ioctl(int fd, unsigned long request, void *arg)
{
	return sysio_table->ioctl(fd, request, arg);
}

static inline int sysio_clock_gettime(clockid_t clock, struct timespec *ts)
{
	return sysio_table->clock_gettime(clock, ts);
}

static inline int sysio_nanosleep(
    const struct timespec *ts, struct timespec *left)
{
	return sysio_table->nanosleep(ts, left);
}

static inline ssize_t sysio_getrandom(void *p, size_t n, unsigned flags)
{
	return sysio_table->getrandom(p, n, flags);
}

#endif
