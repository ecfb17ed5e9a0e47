/* SPDX-License-Identifier: MIT */
#include "index/catalog_vfs.h"

#include <assert.h>
#include <errno.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "datastore/base/file.h"
#include "datastore/base/sysio.h"
#include "index/catalog_tmp.h"

#define NAME_MAX_BYTES 64
#define SECTOR 4096

struct named {
	const char *name;
	const char *shown;
	struct catalog_source source; /* pread NULL: a descriptor */
	int fd;
};

struct catalog_vfs {
	sqlite3_vfs vfs;
	char name[NAME_MAX_BYTES];
	bool tmp;
	struct named files[CATALOG_VFS_FILES];
	size_t files_n;
	uint64_t reads;
	struct err err; /* the first failure that was not yet told */
};

/* What SQLite has for each open file. */
struct file {
	sqlite3_file base;
	struct catalog_vfs *v;
	const struct named *named; /* NULL: a temporary file */
	int fd;
	const char *shown;
};

static struct file *of(sqlite3_file *base)
{
	return (struct file *)(void *)base;
}

/* The code is SQLite's; the message waits here. */
static int failed(struct catalog_vfs *v, const struct err *e, int code)
{
	if (v->err.code == 0)
		v->err = *e;
	return code;
}

static int x_close(sqlite3_file *base)
{
	struct file *f = of(base);

	if (f->named == NULL)
		file_close(&f->fd);
	return SQLITE_OK;
}

static int read_source(
    struct file *f, uint8_t *p, size_t n, uint64_t at, struct err *e)
{
	const struct catalog_source *s = &f->named->source;
	size_t there = n;

	if (at >= s->size)
		there = 0;
	else if (s->size - at < n)
		there = (size_t)(s->size - at);
	if (there > 0 && s->pread(s->ctx, p, there, at, e) < 0)
		return SQLITE_IOERR_READ;
	memset(p + there, 0, n - there);
	return there == n ? SQLITE_OK : SQLITE_IOERR_SHORT_READ;
}

static int read_fd(
    struct file *f, uint8_t *p, size_t n, uint64_t at, struct err *e)
{
	size_t got = 0;

	while (got < n) {
		ssize_t r =
		    sysio_pread(f->fd, p + got, n - got, (off_t)(at + got));

		if (r < 0 && errno == EINTR)
			continue;
		if (r < 0) {
			(void)err_sys(e, "read '%s'", f->shown);
			return SQLITE_IOERR_READ;
		}
		if (r == 0)
			break;
		got += (size_t)r;
	}
	memset(p + got, 0, n - got);
	return got == n ? SQLITE_OK : SQLITE_IOERR_SHORT_READ;
}

static int x_read(sqlite3_file *base, void *p, int n, sqlite3_int64 at)
{
	struct file *f = of(base);
	struct err e = ERR_INIT;
	int code = 0;

	f->v->reads++;
	if (f->named != NULL && f->named->source.pread != NULL)
		code = read_source(f, p, (size_t)n, (uint64_t)at, &e);
	else
		code = read_fd(f, p, (size_t)n, (uint64_t)at, &e);
	return e.code == 0 ? code : failed(f->v, &e, code);
}

static int x_write(sqlite3_file *base, const void *p, int n, sqlite3_int64 at)
{
	struct file *f = of(base);
	struct err e = ERR_INIT;

	if (f->fd < 0)
		return SQLITE_READONLY;
	if (file_pwrite_fully(
		f->fd, p, (size_t)n, (uint64_t)at, f->shown, &e) == 0)
		return SQLITE_OK;
	return failed(f->v, &e,
	    err_is_sys(&e, ENOSPC) ? SQLITE_FULL : SQLITE_IOERR_WRITE);
}

static int x_truncate(sqlite3_file *base, sqlite3_int64 size)
{
	struct file *f = of(base);
	struct err e = ERR_INIT;

	if (f->fd < 0)
		return SQLITE_READONLY;
	if (sysio_ftruncate(f->fd, size) == 0)
		return SQLITE_OK;
	(void)err_sys(&e, "set the size of '%s'", f->shown);
	return failed(f->v, &e, SQLITE_IOERR_TRUNCATE);
}

/* What must last is read back and stored by others. */
static int x_sync(sqlite3_file *base, int flags)
{
	(void)base;
	(void)flags;
	return SQLITE_OK;
}

static int x_size(sqlite3_file *base, sqlite3_int64 *ret)
{
	struct file *f = of(base);
	struct err e = ERR_INIT;
	struct statx st = { .stx_mask = 0 };

	if (f->named != NULL && f->named->source.pread != NULL) {
		*ret = (sqlite3_int64)f->named->source.size;
		return SQLITE_OK;
	}
	if (file_stat_fd(f->fd, &st, f->shown, &e) < 0)
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

/* Immutable: no lock is asked for, no journal looked for, and pages that are
 * in memory are not read again. */
static int x_traits(sqlite3_file *base)
{
	const struct file *f = of(base);

	return f->fd < 0 ? SQLITE_IOCAP_IMMUTABLE : 0;
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

static const struct named *find(const struct catalog_vfs *v, const char *name)
{
	for (size_t i = 0; i < v->files_n; i++) {
		if (strcmp(v->files[i].name, name) == 0)
			return &v->files[i];
	}
	return NULL;
}

static int open_tmp(struct catalog_vfs *v, struct file *f)
{
	struct err e = ERR_INIT;

	if (!v->tmp)
		return SQLITE_CANTOPEN;
	if (catalog_tmp_open(&f->fd, &e) < 0)
		return failed(v, &e, SQLITE_CANTOPEN);
	f->shown = catalog_tmp_dir();
	return SQLITE_OK;
}

static int x_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *base,
    int flags, int *ret_flags)
{
	struct catalog_vfs *v = vfs->pAppData;
	struct file *f = of(base);
	int code = SQLITE_OK;

	/* SQLite closes only what has methods. */
	memset(f, 0, sizeof(*f));
	f->v = v;
	f->fd = -1;
	if (name == NULL) {
		code = open_tmp(v, f);
		if (code != SQLITE_OK)
			return code;
	} else {
		f->named = find(v, name);
		if (f->named == NULL)
			return SQLITE_CANTOPEN;
		f->fd = f->named->fd;
		f->shown = f->named->shown;
		if (f->fd < 0) {
			flags &= ~(SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE);
			flags |= SQLITE_OPEN_READONLY;
		}
	}
	if (ret_flags != NULL)
		*ret_flags = flags;
	f->base.pMethods = &methods;
	return SQLITE_OK;
}

/* There is nothing beside the files that were named: no journal, no log. */
static int x_delete(sqlite3_vfs *vfs, const char *name, int sync)
{
	(void)vfs;
	(void)name;
	(void)sync;
	return SQLITE_IOERR_DELETE_NOENT;
}

static int x_access(sqlite3_vfs *vfs, const char *name, int flags, int *ret)
{
	(void)flags;
	*ret = find(vfs->pAppData, name) != NULL;
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

int catalog_vfs_new(bool tmp, struct catalog_vfs **ret, struct err *e)
{
	struct catalog_vfs *v = calloc(1, sizeof(*v));

	if (v == NULL)
		return err_nomem(e);
	(void)snprintf(v->name, sizeof(v->name), "cairn-%p", (void *)v);
	v->tmp = tmp;
	v->vfs = (sqlite3_vfs){ .iVersion = 1,
		.szOsFile = (int)sizeof(struct file),
		.mxPathname = NAME_MAX_BYTES,
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

void catalog_vfs_free(struct catalog_vfs *v)
{
	if (v == NULL)
		return;
	(void)sqlite3_vfs_unregister(&v->vfs);
	free(v);
}

const char *catalog_vfs_name(const struct catalog_vfs *v)
{
	return v->name;
}

static struct named *add(
    struct catalog_vfs *v, const char *name, const char *shown)
{
	struct named *n = NULL;

	assert(v->files_n < CATALOG_VFS_FILES);
	n = &v->files[v->files_n++];
	n->name = name;
	n->shown = shown;
	n->fd = -1;
	return n;
}

void catalog_vfs_add_source(struct catalog_vfs *v, const char *name,
    const struct catalog_source *source)
{
	add(v, name, name)->source = *source;
}

void catalog_vfs_add_fd(
    struct catalog_vfs *v, const char *name, int fd, const char *shown)
{
	add(v, name, shown)->fd = fd;
}

uint64_t catalog_vfs_reads(const struct catalog_vfs *v)
{
	return v->reads;
}

int catalog_vfs_take_err(struct catalog_vfs *v, struct err *e)
{
	int rc = v->err.code;

	if (rc == 0)
		return 0;
	*e = v->err;
	(void)err_forget(&v->err);
	return rc;
}
