/* SPDX-License-Identifier: MIT */
#include "gc/history_vfs.h"

#include <errno.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "datastore/base/sysio.h"

#define NAME_SIZE 64
#define SECTOR 4096

struct history_vfs {
	sqlite3_vfs vfs;
	char name[NAME_SIZE];
	struct history_vfs_opts o;
	struct err err; /* the first failure that was not yet told */
};

/* What SQLite has for each open file. */
struct file {
	sqlite3_file base;
	struct history_vfs *v;
	int fd;
	bool own; /* the journal: to be closed */
};

static struct file *of(sqlite3_file *base)
{
	return (struct file *)(void *)base;
}

/* The code is SQLite's; the message waits here. */
static int failed(struct history_vfs *v, const struct err *e, int code)
{
	if (v->err.code == 0)
		v->err = *e;
	if (err_is_sys(e, ENOSPC) || err_is_sys(e, EDQUOT))
		return SQLITE_FULL;
	return code;
}

static int x_close(sqlite3_file *base)
{
	struct file *f = of(base);

	if (f->own)
		file_close(&f->fd);
	return SQLITE_OK;
}

static int x_read(sqlite3_file *base, void *p, int n, sqlite3_int64 at)
{
	struct file *f = of(base);
	struct err e = ERR_INIT;
	size_t got = 0;

	while (got < (size_t)n) {
		ssize_t r = sysio_pread(f->fd, (char *)p + got, (size_t)n - got,
		    (off_t)at + (off_t)got);

		if (r < 0 && errno == EINTR)
			continue;
		if (r < 0) {
			(void)err_sys(&e, "read '%s'", f->v->o.shown);
			return failed(f->v, &e, SQLITE_IOERR_READ);
		}
		if (r == 0)
			break;
		got += (size_t)r;
	}
	memset((char *)p + got, 0, (size_t)n - got);
	return got == (size_t)n ? SQLITE_OK : SQLITE_IOERR_SHORT_READ;
}

static int x_write(sqlite3_file *base, const void *p, int n, sqlite3_int64 at)
{
	struct file *f = of(base);
	struct err e = ERR_INIT;

	if (file_pwrite_fully(
		f->fd, p, (size_t)n, (uint64_t)at, f->v->o.shown, &e) == 0)
		return SQLITE_OK;
	return failed(f->v, &e, SQLITE_IOERR_WRITE);
}

static int x_truncate(sqlite3_file *base, sqlite3_int64 size)
{
	struct file *f = of(base);
	struct err e = ERR_INIT;

	if (sysio_ftruncate(f->fd, size) == 0)
		return SQLITE_OK;
	(void)err_sys(&e, "set the size of '%s'", f->v->o.shown);
	return failed(f->v, &e, SQLITE_IOERR_TRUNCATE);
}

static int x_sync(sqlite3_file *base, int flags)
{
	struct file *f = of(base);
	struct err e = ERR_INIT;

	(void)flags;
	if (file_sync(f->fd, f->v->o.shown, &e) == 0)
		return SQLITE_OK;
	return failed(f->v, &e, SQLITE_IOERR_FSYNC);
}

static int x_size(sqlite3_file *base, sqlite3_int64 *ret)
{
	struct file *f = of(base);
	struct err e = ERR_INIT;
	struct statx st = { .stx_mask = 0 };

	if (file_stat_fd(f->fd, &st, f->v->o.shown, &e) < 0)
		return failed(f->v, &e, SQLITE_IOERR_FSTAT);
	*ret = (sqlite3_int64)st.stx_size;
	return SQLITE_OK;
}

static int x_lock(sqlite3_file *base, int level)
{
	(void)base;
	(void)level;
	return SQLITE_OK;
}

static int x_reserved(sqlite3_file *base, int *ret)
{
	(void)base;
	*ret = 0;
	return SQLITE_OK;
}

static int x_control(sqlite3_file *base, int op, void *arg)
{
	(void)base;
	(void)op;
	(void)arg;
	return SQLITE_NOTFOUND;
}

static int x_sector(sqlite3_file *base)
{
	(void)base;
	return SECTOR;
}

static int x_traits(sqlite3_file *base)
{
	(void)base;
	return 0;
}

static const sqlite3_io_methods methods = {
	.iVersion = 1,
	.xClose = x_close,
	.xRead = x_read,
	.xWrite = x_write,
	.xTruncate = x_truncate,
	.xSync = x_sync,
	.xFileSize = x_size,
	.xLock = x_lock,
	.xUnlock = x_lock,
	.xCheckReservedLock = x_reserved,
	.xFileControl = x_control,
	.xSectorSize = x_sector,
	.xDeviceCharacteristics = x_traits,
};

static int open_journal(
    struct history_vfs *v, const char *name, int flags, int *ret_fd)
{
	struct err e = ERR_INIT;
	int how = (flags & SQLITE_OPEN_READWRITE) != 0 ? O_RDWR : O_RDONLY;
	bool made = false;
	int fd = -1;

	how |= O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY;
	fd = sysio_openat(v->o.dirfd, name, how, 0);
	if (fd < 0 && errno == ENOENT && (flags & SQLITE_OPEN_CREATE) != 0) {
		fd = sysio_openat(
		    v->o.dirfd, name, how | O_CREAT | O_EXCL, FILE_MODE);
		made = true;
	}
	if (fd < 0) {
		(void)err_sys(&e, "open the journal of '%s'", v->o.shown);
		return failed(v, &e, SQLITE_CANTOPEN);
	}
	/* A journal whose name a power cut takes can roll nothing back. */
	if (made &&
	    (file_set_owner(fd, &v->o.owner, FILE_MODE, v->o.shown, &e) < 0 ||
		file_sync(v->o.dirfd, v->o.shown, &e) < 0)) {
		file_close(&fd);
		return failed(v, &e, SQLITE_CANTOPEN);
	}
	*ret_fd = fd;
	return SQLITE_OK;
}

static int x_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *base,
    int flags, int *ret_flags)
{
	struct history_vfs *v = vfs->pAppData;
	struct file *f = of(base);
	int code = SQLITE_OK;

	/* SQLite closes only what has methods. */
	memset(f, 0, sizeof(*f));
	f->v = v;
	f->fd = -1;
	/* Temporary things are kept in memory. */
	if (name == NULL)
		return SQLITE_CANTOPEN;
	if (!v->o.writable) {
		flags &= ~(SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE);
		flags |= SQLITE_OPEN_READONLY;
	}
	if (strcmp(name, v->o.name) == 0) {
		f->fd = v->o.fd;
	} else {
		code = open_journal(v, name, flags, &f->fd);
		f->own = true;
	}
	if (code != SQLITE_OK)
		return code;
	if (ret_flags != NULL)
		*ret_flags = flags;
	f->base.pMethods = &methods;
	return SQLITE_OK;
}

static int x_delete(sqlite3_vfs *vfs, const char *name, int sync)
{
	struct history_vfs *v = vfs->pAppData;
	struct err e = ERR_INIT;

	if (file_unlink_at(v->o.dirfd, name, v->o.shown, &e) < 0 ||
	    (sync != 0 && file_sync(v->o.dirfd, v->o.shown, &e) < 0))
		return failed(v, &e, SQLITE_IOERR_DELETE);
	return SQLITE_OK;
}

static int x_access(sqlite3_vfs *vfs, const char *name, int flags, int *ret)
{
	struct history_vfs *v = vfs->pAppData;
	struct statx st = { .stx_mask = 0 };
	struct err e = ERR_INIT;
	bool found = false;

	(void)flags;
	if (file_stat_at(v->o.dirfd, name, &st, &found, v->o.shown, &e) < 0)
		return failed(v, &e, SQLITE_IOERR_ACCESS);
	*ret = found && st.stx_size > 0;
	return SQLITE_OK;
}

static int x_full_path(sqlite3_vfs *vfs, const char *name, int n, char *out)
{
	(void)vfs;
	return snprintf(out, (size_t)n, "%s", name) < n ? SQLITE_OK
							: SQLITE_CANTOPEN;
}

static int x_sleep(sqlite3_vfs *vfs, int us)
{
	(void)vfs;
	return us;
}

/* No SQL of ours asks for the time, nor for chance. */
static int x_time(sqlite3_vfs *vfs, double *ret)
{
	(void)vfs;
	*ret = 0;
	return SQLITE_ERROR;
}

static int x_random(sqlite3_vfs *vfs, int n, char *out)
{
	(void)vfs;
	memset(out, 0, (size_t)n);
	return n;
}

static int x_last_error(sqlite3_vfs *vfs, int n, char *out)
{
	(void)vfs;
	(void)n;
	(void)out;
	return 0;
}

int history_vfs_new(
    const struct history_vfs_opts *o, struct history_vfs **ret, struct err *e)
{
	struct history_vfs *v = calloc(1, sizeof(*v));

	if (v == NULL)
		return err_nomem(e);
	(void)snprintf(v->name, sizeof(v->name), "cairn-history-%p", (void *)v);
	v->o = *o;
	v->vfs = (sqlite3_vfs){ .iVersion = 1,
		.szOsFile = (int)sizeof(struct file),
		.mxPathname = NAME_SIZE,
		.zName = v->name,
		.pAppData = v,
		.xOpen = x_open,
		.xDelete = x_delete,
		.xAccess = x_access,
		.xFullPathname = x_full_path,
		.xRandomness = x_random,
		.xSleep = x_sleep,
		.xCurrentTime = x_time,
		.xGetLastError = x_last_error };
	if (sqlite3_vfs_register(&v->vfs, 0) != SQLITE_OK) {
		free(v);
		return err_nomem(e);
	}
	*ret = v;
	return 0;
}

void history_vfs_free(struct history_vfs *v)
{
	if (v == NULL)
		return;
	(void)sqlite3_vfs_unregister(&v->vfs);
	free(v);
}

const char *history_vfs_name(const struct history_vfs *v)
{
	return v->name;
}

int history_vfs_take_err(struct history_vfs *v, struct err *e)
{
	int rc = v->err.code;

	if (rc == 0)
		return 0;
	*e = v->err;
	(void)err_forget(&v->err);
	return rc;
}
