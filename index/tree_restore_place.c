/* SPDX-License-Identifier: MIT */
#include "index/tree_restore_place.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "datastore/base/file.h"
#include "datastore/base/sysio.h"
#include "index/tree_restore_meta.h"

#define MODE 0600
#define TRIES 100 /* names that are taken; they are random */
#define PROC "/proc/self/fd"
#define PROC_SIZE 32

int restore_stat_at(int dirfd, const char *name, struct statx *ret_st,
    bool *ret_found, struct err *e)
{
	*ret_found = sysio_statx(dirfd, name, AT_SYMLINK_NOFOLLOW,
			 STATX_BASIC_STATS, ret_st) == 0;
	return *ret_found || errno == ENOENT ? 0
					     : err_sys(e, "look at its place");
}

int restore_stat_fd(int fd, struct statx *ret_st, struct err *e)
{
	if (sysio_statx(fd, "", AT_EMPTY_PATH, STATX_BASIC_STATS, ret_st) < 0)
		return err_sys(e, "look at it");
	return 0;
}

int restore_place_init(struct restore_place *p, struct err *e)
{
	struct statx st;
	int rc = file_random(&p->seed, sizeof(p->seed), e);

	if (rc < 0)
		return rc;
	atomic_init(&p->next, 0);
	/* Only through /proc does a file without a name get one. */
	atomic_init(&p->named,
	    sysio_statx(AT_FDCWD, PROC, 0, STATX_BASIC_STATS, &st) < 0);
	return 0;
}

static void make_name(struct restore_place *p, char out[RESTORE_TMP_SIZE])
{
	(void)snprintf(out, RESTORE_TMP_SIZE, RESTORE_TMP_PREFIX "%016" PRIx64,
	    p->seed + (uint64_t)atomic_fetch_add(&p->next, 1));
}

static int make_named(
    struct restore_place *p, int dirfd, struct restore_temp *ret, struct err *e)
{
	for (int i = 0; i < TRIES; i++) {
		make_name(p, ret->name);
		ret->fd = sysio_openat(dirfd, ret->name,
		    O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, MODE);
		if (ret->fd >= 0)
			return 0;
		if (errno != EEXIST)
			break;
	}
	ret->name[0] = '\0';
	return err_sys(e, "make a temporary file");
}

/* What kernels and file systems say that do not know such files. */
static bool is_unknown(int error)
{
	return error == EOPNOTSUPP || error == EISDIR || error == EINVAL ||
	    error == ENOENT || error == ENOSYS;
}

int restore_temp_make(
    struct restore_place *p, int dirfd, struct restore_temp *ret, struct err *e)
{
	ret->name[0] = '\0';
	if (atomic_load(&p->named))
		return make_named(p, dirfd, ret, e);
	ret->fd =
	    sysio_openat(dirfd, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, MODE);
	if (ret->fd >= 0)
		return 0;
	if (!is_unknown(errno))
		return err_sys(e, "make a file");
	/* One file system of several may do; the others lose little. */
	atomic_store(&p->named, true);
	return make_named(p, dirfd, ret, e);
}

void restore_temp_drop(int dirfd, struct restore_temp *t)
{
	struct err ignored = ERR_INIT; /* the reason for it was told */

	file_close(&t->fd);
	if (t->name[0] != '\0')
		(void)file_unlink_at(dirfd, t->name, t->name, &ignored);
	t->name[0] = '\0';
}

/* A file that could not be replaced, without the flags that forbid it. */
struct thawed {
	int fd;
	unsigned was;
};

static bool is_frozen(const struct statx *st)
{
	return S_ISREG(st->stx_mode) &&
	    (st->stx_attributes & (STATX_ATTR_IMMUTABLE | STATX_ATTR_APPEND)) !=
	    0;
}

static bool thaw(int dirfd, const char *name, struct thawed *ret)
{
	struct err ignored = ERR_INIT; /* why it can not be replaced is told */
	struct statx before;
	struct statx st;
	bool found = false;

	/* Opening a device may do things. */
	if (restore_stat_at(dirfd, name, &before, &found, &ignored) < 0 ||
	    !found || !is_frozen(&before))
		return false;
	ret->fd = sysio_openat(dirfd, name,
	    O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0);
	if (ret->fd < 0)
		return false;
	if (restore_stat_fd(ret->fd, &st, &ignored) == 0 &&
	    file_same(&st, &before) && is_frozen(&st) &&
	    restore_meta_thaw(ret->fd, &ret->was))
		return true;
	file_close(&ret->fd);
	return false;
}

/* It stays as it was, if it stays, or has other names. */
static void refreeze(struct thawed *t)
{
	struct err ignored = ERR_INIT;
	struct statx st;

	if (restore_stat_fd(t->fd, &st, &ignored) < 0 || st.stx_nlink > 0)
		restore_meta_freeze(t->fd, t->was);
	file_close(&t->fd);
}

int restore_place_unlink(int dirfd, const char *name, struct err *e)
{
	struct thawed t = { .fd = -1 };
	int error = 0;
	int rc = sysio_unlinkat(dirfd, name, 0);

	if (rc == 0)
		return 0;
	error = errno;
	if (error == EPERM && thaw(dirfd, name, &t)) {
		rc = sysio_unlinkat(dirfd, name, 0);
		error = errno;
		refreeze(&t);
	}
	errno = error;
	return rc == 0 ? 0 : err_sys(e, "remove what is in its place");
}

/* Who replaces may, on that one file, take away what forbids it. */
static int rename_thawed(int dirfd, const char *tmp, const char *name)
{
	struct thawed t = { .fd = -1 };
	int error = 0;
	int rc = sysio_renameat2(dirfd, tmp, dirfd, name, 0);

	if (rc == 0)
		return 0;
	error = errno;
	if (error == EPERM && thaw(dirfd, name, &t)) {
		rc = sysio_renameat2(dirfd, tmp, dirfd, name, 0);
		error = errno;
		refreeze(&t);
	}
	errno = error;
	return rc;
}

/* An empty directory may go for what comes in its place. */
static int rename_over(
    int dirfd, const char *tmp, const char *name, struct err *e)
{
	if (rename_thawed(dirfd, tmp, name) == 0)
		return 0;
	if (errno != EISDIR)
		return err_sys(e, "replace what is there");
	if (sysio_unlinkat(dirfd, name, AT_REMOVEDIR) < 0)
		return err_sys(e, "remove the directory in its place");
	if (sysio_renameat2(dirfd, tmp, dirfd, name, 0) < 0)
		return err_sys(e, "replace the directory in its place");
	return 0;
}

/* What has a temporary name gets its real one, or goes. */
static int settle(int dirfd, const char *tmp, const char *name, struct err *e)
{
	struct err ignored = ERR_INIT;
	int rc = rename_over(dirfd, tmp, name, e);

	/* Also where both were names of one file: then nothing happened. */
	(void)file_unlink_at(dirfd, tmp, tmp, &ignored);
	return rc;
}

static int place_named(struct restore_temp *t, int dirfd, const char *name,
    enum restore_taken taken, bool *ret_exists, struct err *e)
{
	int fd = t->fd;

	/* What closing has to say, of NFS for one, is said before the name. */
	t->fd = -1;
	if (sysio_close(fd) < 0)
		return err_sys(e, "close it");
	if (taken == RESTORE_REPLACE)
		return rename_over(dirfd, t->name, name, e);
	if (sysio_renameat2(dirfd, t->name, dirfd, name, RENAME_NOREPLACE) == 0)
		return 0;
	/* NFS and others can not; a hard link never replaces. */
	if (errno == EINVAL || errno == ENOSYS) {
		if (sysio_linkat(dirfd, t->name, dirfd, name, 0) == 0)
			return file_unlink_at(dirfd, t->name, t->name, e);
	}
	if (errno != EEXIST)
		return err_sys(e, "name it");
	*ret_exists = true;
	return 0;
}

/* Whoever makes a name: under this one, or else under a temporary one. */
struct maker {
	int (*make)(const struct maker *m, int dirfd, const char *name);
	int (*before)(const struct maker *m, int dirfd, const char *name,
	    struct err *e); /* it replaces; may be NULL */
	const char *what;
	int fd;
	const char *from;
	int flags;
	const struct restore_special *special;
};

static int make_link(const struct maker *m, int dirfd, const char *name)
{
	return sysio_linkat(m->fd, m->from, dirfd, name, m->flags);
}

static int make_special(const struct maker *m, int dirfd, const char *name)
{
	const struct restore_special *s = m->special;

	if (s->target != NULL)
		return sysio_symlinkat(s->target, dirfd, name);
	return sysio_mknodat(dirfd, name, s->mode, s->dev);
}

/* It was just made; it is opened only to finish it, if it still is that. */
static int finish_special(
    const struct maker *m, int dirfd, const char *name, struct err *e)
{
	const struct restore_special *s = m->special;
	mode_t type = s->target != NULL ? S_IFLNK : s->mode & S_IFMT;
	struct statx st;
	int fd = sysio_openat(dirfd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC, 0);
	int rc = 0;

	if (fd < 0)
		return err_sys(e, "open it again");
	rc = restore_stat_fd(fd, &st, e);
	if (rc == 0 && ((st.stx_mode & S_IFMT) != type || st.stx_nlink != 1))
		rc = err_set(e, ERR_REFUSED, "somebody replaced it");
	if (rc == 0)
		s->finish(s->ctx, fd);
	file_close(&fd);
	return rc;
}

static int place(struct restore_place *p, const struct maker *m, int dirfd,
    const char *name, enum restore_taken taken, bool *ret_exists, struct err *e)
{
	char tmp[RESTORE_TMP_SIZE];
	struct err ignored = ERR_INIT;
	int rc = 0;

	*ret_exists = false;
	if (m->make(m, dirfd, name) == 0)
		return m->before == NULL ? 0 : m->before(m, dirfd, name, e);
	if (errno != EEXIST)
		return err_sys(e, "%s", m->what);
	if (taken == RESTORE_KEEP) {
		*ret_exists = true;
		return 0;
	}
	for (int i = 0; i < TRIES; i++) {
		make_name(p, tmp);
		rc = m->make(m, dirfd, tmp);
		if (rc == 0 || errno != EEXIST)
			break;
	}
	if (rc < 0)
		return err_sys(e, "%s", m->what);
	if (m->before != NULL)
		rc = m->before(m, dirfd, tmp, e);
	if (rc == 0)
		return settle(dirfd, tmp, name, e);
	(void)file_unlink_at(dirfd, tmp, tmp, &ignored);
	return rc;
}

int restore_place_file(struct restore_place *p, struct restore_temp *t,
    int dirfd, const char *name, enum restore_taken taken, bool *ret_exists,
    struct err *e)
{
	char path[PROC_SIZE];
	struct maker m = { .make = make_link,
		.what = "name it",
		.fd = AT_FDCWD,
		.from = path,
		.flags = AT_SYMLINK_FOLLOW };
	int rc = 0;

	*ret_exists = false;
	if (t->name[0] != '\0') {
		rc = place_named(t, dirfd, name, taken, ret_exists, e);
		if (rc == 0 && !*ret_exists)
			t->name[0] = '\0';
	} else {
		(void)snprintf(path, sizeof(path), PROC "/%d", t->fd);
		rc = place(p, &m, dirfd, name, taken, ret_exists, e);
	}
	restore_temp_drop(dirfd, t);
	return rc;
}

int restore_place_link(struct restore_place *p, int fromfd, const char *from,
    int dirfd, const char *name, enum restore_taken taken, bool *ret_exists,
    struct err *e)
{
	const struct maker m = { .make = make_link,
		.what = "make a hard link",
		.fd = fromfd,
		.from = from };

	return place(p, &m, dirfd, name, taken, ret_exists, e);
}

int restore_place_special(struct restore_place *p,
    const struct restore_special *s, int dirfd, const char *name,
    enum restore_taken taken, bool *ret_exists, struct err *e)
{
	const struct maker m = { .make = make_special,
		.before = finish_special,
		.what = s->target != NULL ? "make a symbolic link" : "make it",
		.special = s };

	return place(p, &m, dirfd, name, taken, ret_exists, e);
}
