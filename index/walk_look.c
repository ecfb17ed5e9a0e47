/* SPDX-License-Identifier: MIT */
#include "index/walk_look.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <linux/fs.h>
#include <string.h>

#include "datastore/base/clock.h"
#include "datastore/base/file.h"
#include "datastore/base/sysio.h"
#include "index/walk.h"
#include "index/walk_holes.h"
#include "index/walk_xattrs.h"

/* Buffers larger than this are not kept for the next entry. */
#define KEEP_BYTES ((size_t)256 << 10)

#define TARGET_ROOM 256U

static void empty(struct buf *b)
{
	if (b->cap > KEEP_BYTES)
		buf_release(b);
	buf_reset(b);
}

void walk_found_reset(struct walk_found *f)
{
	file_close(&f->fd);
	empty(&f->attr);
	empty(&f->holes);
	empty(&f->target);
	empty(&f->data);
	f->outcome = WALK_THERE;
	f->has_flags = false;
	f->flags = 0;
	f->stored = 0;
	f->size = 0;
	f->state = 0;
	f->incomplete = false;
	(void)err_forget(&f->why);
}

void walk_found_release(struct walk_found *f)
{
	file_close(&f->fd);
	buf_release(&f->attr);
	buf_release(&f->holes);
	buf_release(&f->target);
	buf_release(&f->data);
}

/* Errors of the machine, not of the entry. */
static bool is_fatal(int error)
{
	return error == EMFILE || error == ENFILE || error == ENOMEM;
}

/* The first reason is the one that is told. */
static int note(struct walk_found *f, const char *what, struct err *e)
{
	if (is_fatal(errno))
		return err_sys(e, "%s", what);
	if (f->why.code == 0)
		(void)err_sys(&f->why, "%s", what);
	return 0;
}

static int hidden(struct walk_found *f, const char *what, struct err *e)
{
	f->outcome = errno == ENOENT ? WALK_GONE : WALK_HIDDEN;
	return f->outcome == WALK_GONE ? 0 : note(f, what, e);
}

static int stat_fd(struct walk_found *f, int fd)
{
	memset(&f->st, 0, sizeof(f->st));
	if (sysio_statx(fd, "", AT_EMPTY_PATH, WALK_STATX_MASK, &f->st) < 0)
		return -1;
	switch (f->st.stx_mode & (unsigned)S_IFMT) {
	case S_IFDIR:
		f->kind = CATALOG_DIR;
		break;
	case S_IFLNK:
		f->kind = CATALOG_SYMLINK;
		break;
	case S_IFIFO:
		f->kind = CATALOG_FIFO;
		break;
	case S_IFSOCK:
		f->kind = CATALOG_SOCKET;
		break;
	case S_IFCHR:
		f->kind = CATALOG_CHAR;
		break;
	case S_IFBLK:
		f->kind = CATALOG_BLOCK;
		break;
	default:
		f->kind = CATALOG_FILE;
		break;
	}
	return 0;
}

/* Where a file system has none, there are none. */
static void get_flags(struct walk_found *f, int fd)
{
	/* Kernels write an int; FUSE may write what the request's number says
	 * that it is, a long. */
	union {
		long room;
		int flags;
	} x = { .room = 0 };

	if (sysio_ioctl(fd, FS_IOC_GETFLAGS, &x) < 0)
		return;
	f->has_flags = true;
	f->flags = (uint32_t)x.flags & (uint32_t)FS_FL_USER_MODIFIABLE;
}

static int get_xattrs(
    struct walk_found *f, int fd, bool only_path, struct err *e)
{
	struct err why = ERR_INIT;
	int rc = walk_xattrs(fd, only_path, &f->attr, &why);

	if (rc == 0)
		return 0;
	if (rc == ERR_NOMEM || is_fatal(why.sys_errno)) {
		*e = why;
		return rc;
	}
	f->incomplete = true;
	if (f->why.code == 0)
		f->why = why;
	return 0;
}

static int get_target(struct walk_found *f, int fd, struct err *e)
{
	size_t room = TARGET_ROOM;

	if (f->st.stx_size >= room && f->st.stx_size < CATALOG_TARGET_MAX)
		room = (size_t)f->st.stx_size + 1;
	for (;;) {
		ssize_t n = 0;
		int rc = buf_reserve(&f->target, room, e);

		if (rc < 0)
			return rc;
		n = sysio_readlinkat(fd, "", (char *)f->target.data, room);
		if (n < 0) {
			f->state |= CATALOG_STATE_UNREADABLE;
			return note(f, "read the link", e);
		}
		f->target.len = (size_t)n;
		if ((size_t)n < room || room > CATALOG_TARGET_MAX)
			return 0;
		room *= 2;
	}
}

/* Not opened for reading: links, special files, and what may not be read. */
static int look_by_path(
    int dirfd, const char *name, struct walk_found *f, struct err *e)
{
	int fd = sysio_openat(dirfd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC, 0);
	int rc = 0;

	if (fd < 0)
		return hidden(f, "look at it", e);
	if (stat_fd(f, fd) < 0) {
		rc = hidden(f, "look at it", e);
	} else {
		rc = get_xattrs(f, fd, true, e);
		if (rc == 0 && f->kind == CATALOG_SYMLINK)
			rc = get_target(f, fd, e);
	}
	file_close(&fd);
	f->size = f->st.stx_size;
	return rc;
}

static int look_at_file(struct walk_found *f, struct err *e)
{
	int rc = 0;

	get_flags(f, f->fd);
	rc = get_xattrs(f, f->fd, false, e);
	if (rc == 0)
		rc = walk_holes(f->fd, &f->st, &f->holes, e);
	f->size = f->st.stx_size;
	f->stored = walk_holes_stored(&f->holes, f->size);
	return rc;
}

static int look_at_dir(int fd, struct walk_found *f, struct err *e)
{
	if (stat_fd(f, fd) < 0)
		return hidden(f, "look at it", e);
	get_flags(f, fd);
	return get_xattrs(f, fd, false, e);
}

/* A file; or what is there now instead. */
static int look_by_opening(
    int dirfd, const char *name, struct walk_found *f, struct err *e)
{
	int rc = 0;

	f->fd = walk_openat(dirfd, name, 0);
	if (f->fd < 0 && errno == ENOENT) {
		f->outcome = WALK_GONE;
		return 0;
	}
	if (f->fd >= 0) {
		if (stat_fd(f, f->fd) < 0) {
			rc = hidden(f, "look at it", e);
			file_close(&f->fd);
			return rc;
		}
		if (f->kind == CATALOG_FILE)
			return look_at_file(f, e);
		file_close(&f->fd);
		return look_by_path(dirfd, name, f, e);
	}
	/* These two say that it is a link or a socket by now. */
	if (errno != ELOOP && errno != ENXIO)
		rc = note(f, "open it", e);
	if (rc == 0)
		rc = look_by_path(dirfd, name, f, e);
	if (rc == 0 && f->outcome == WALK_THERE && f->kind == CATALOG_FILE)
		f->state |= CATALOG_STATE_UNREADABLE;
	return rc;
}

int walk_look(int dirfd, const char *name, unsigned char type,
    struct walk_found *f, struct err *e)
{
	walk_found_reset(f);
	if (name == NULL)
		return look_at_dir(dirfd, f, e);
	if (type == DT_REG)
		return look_by_opening(dirfd, name, f, e);
	if (type == DT_UNKNOWN) {
		/* Devices must not be opened to see what they are. */
		int rc = look_by_path(dirfd, name, f, e);

		if (rc < 0 || f->outcome != WALK_THERE ||
		    f->kind != CATALOG_FILE)
			return rc;
		walk_found_reset(f);
		return look_by_opening(dirfd, name, f, e);
	}
	return look_by_path(dirfd, name, f, e);
}

/* ---- content ---- */

int walk_read_piece(struct walk_found *f, uint64_t *at, void *p, size_t n,
    size_t *ret_got, struct err *e)
{
	uint64_t start = 0;
	uint64_t end = 0;
	uint64_t next = *at;
	ssize_t got = -1;

	*ret_got = 0;
	if (!walk_holes_data(&f->holes, f->size, &next, &start, &end))
		return 0;
	if (n > end - start)
		n = (size_t)(end - start);
	do
		got = sysio_pread(f->fd, p, n, (off_t)start);
	while (got < 0 && errno == EINTR);
	if (got < 0) {
		f->state |= CATALOG_STATE_UNREADABLE;
		return note(f, "read it", e);
	}
	if (got == 0) {
		/* Shorter than it was. */
		f->state |= CATALOG_STATE_SHORT;
		f->size = start;
		walk_holes_truncate(&f->holes, start);
		return 0;
	}
	*at = start + (uint64_t)got;
	*ret_got = (size_t)got;
	return 0;
}

static bool same_time(
    const struct statx_timestamp *a, const struct statx_timestamp *b)
{
	return a->tv_sec == b->tv_sec && a->tv_nsec == b->tv_nsec;
}

int walk_read_end(struct walk_found *f, uint64_t total, struct err *e)
{
	struct statx now = { .stx_mask = 0 };

	f->stored = total;
	if ((f->state & CATALOG_STATE_UNREADABLE) != 0)
		return 0;
	if (sysio_statx(f->fd, "", AT_EMPTY_PATH, WALK_STATX_MASK, &now) < 0) {
		f->state |= CATALOG_STATE_CHANGED;
		return note(f, "look at it again", e);
	}
	if (now.stx_size != f->st.stx_size ||
	    !same_time(&now.stx_mtime, &f->st.stx_mtime) ||
	    !same_time(&now.stx_ctime, &f->st.stx_ctime))
		f->state |= CATALOG_STATE_CHANGED;
	return 0;
}

int walk_read(struct walk_found *f, struct digest_ctx *digest, struct err *e)
{
	size_t room = (size_t)f->stored;
	uint64_t at = 0;
	size_t got = 1;
	int rc = buf_reserve(&f->data, room, e);

	while (rc == 0 && got > 0 && f->data.len < room) {
		rc = walk_read_piece(f, &at, f->data.data + f->data.len,
		    room - f->data.len, &got, e);
		f->data.len += got;
	}
	if (rc == 0)
		rc = walk_read_end(f, f->data.len, e);
	if (rc < 0 || (f->state & CATALOG_STATE_UNREADABLE) != 0)
		return rc;
	rc = digest_ctx_update(digest, f->data.data, f->data.len, e);
	if (rc == 0)
		rc = digest_ctx_final(digest, &f->sha256, e);
	return rc;
}
