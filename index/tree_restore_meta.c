/* SPDX-License-Identifier: MIT */
#include "index/tree_restore_meta.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <string.h>

#include "datastore/base/sysio.h"

#define NOBODY UINT32_MAX  /* to chown: leave it */
#define IMPLIED_MODE 0755U /* of a directory that a tar only implies */
#define SPECIAL_BITS 06000U
#define PROC_SIZE 32

/* Those that hinder whoever comes after them. */
#define LATE_FLAGS ((unsigned)FS_IMMUTABLE_FL | (unsigned)FS_APPEND_FL)
#define ALL_FLAGS ((unsigned)FS_FL_USER_MODIFIABLE)

void restore_missed_add(
    struct restore_missed *m, enum restore_miss kind, int error)
{
	unsigned bit = 1U << kind;

	if ((m->bits & bit) != 0)
		return;
	m->bits |= bit;
	m->error[kind] = error;
}

static const struct {
	const char *word;
	const char *key;
} misses[RESTORE_MISS_KINDS] = {
	[RESTORE_MISS_OWNER] = { "owner", "owner" },
	[RESTORE_MISS_MODE] = { "mode", "mode" },
	[RESTORE_MISS_XATTR] = { "extended attributes", "xattrs" },
	[RESTORE_MISS_ACL] = { "ACL", "acl" },
	[RESTORE_MISS_TIMES] = { "times", "times" },
	[RESTORE_MISS_FLAGS] = { "flags", "flags" },
	[RESTORE_MISS_SPACE] = { "preallocated space", "space" },
};

const char *restore_miss_word(enum restore_miss kind)
{
	return misses[kind].word;
}

const char *restore_miss_key(enum restore_miss kind)
{
	return misses[kind].key;
}

static bool get_flags(int fd, unsigned *ret)
{
	int flags = 0;

	if (sysio_ioctl(fd, FS_IOC_GETFLAGS, &flags) < 0)
		return false;
	*ret = (unsigned)flags;
	return true;
}

unsigned restore_meta_inherits(int dirfd)
{
	unsigned inherits = 0;
	unsigned flags = 0;

	if (sysio_fgetxattr(dirfd, RESTORE_ACL_DEFAULT, NULL, 0) > 0)
		inherits |= RESTORE_INHERIT_ACL;
	if (get_flags(dirfd, &flags) && (flags & ALL_FLAGS & ~LATE_FLAGS) != 0)
		inherits |= RESTORE_INHERIT_FLAGS;
	return inherits;
}

/* A path that leads to the open entry itself, whatever became of its name. */
static const char *proc_path(int fd, char out[PROC_SIZE])
{
	(void)snprintf(out, PROC_SIZE, "/proc/self/fd/%d", fd);
	return out;
}

/* `keep`: bits of the flags that stay as they are. */
static void set_flags(const struct restore_node *n, unsigned want,
    unsigned keep, struct restore_missed *missed)
{
	unsigned now = 0;
	unsigned flags = 0;
	int value = 0;

	if (!get_flags(n->fd, &now)) {
		/* What has no flags has those: none. */
		if (want != 0)
			restore_missed_add(missed, RESTORE_MISS_FLAGS, errno);
		return;
	}
	flags = (now & keep) | (want & ~keep);
	if (flags == now)
		return;
	value = (int)flags;
	if (sysio_ioctl(n->fd, FS_IOC_SETFLAGS, &value) < 0)
		restore_missed_add(missed, RESTORE_MISS_FLAGS, errno);
}

bool restore_meta_thaw(int fd, unsigned *ret_was)
{
	int value = 0;

	if (!get_flags(fd, ret_was) || (*ret_was & LATE_FLAGS) == 0)
		return false;
	value = (int)(*ret_was & ~LATE_FLAGS);
	return sysio_ioctl(fd, FS_IOC_SETFLAGS, &value) == 0;
}

void restore_meta_freeze(int fd, unsigned was)
{
	int value = (int)was;

	/* It was so a moment ago; a failure is seen in lsattr only. */
	(void)sysio_ioctl(fd, FS_IOC_SETFLAGS, &value);
}

void restore_meta_early(const struct restore_node *n,
    const struct restore_meta *m, struct restore_missed *missed)
{
	unsigned want = m->flags & ALL_FLAGS & ~LATE_FLAGS;

	if (want != 0 || (n->inherited & RESTORE_INHERIT_FLAGS) != 0)
		set_flags(n, want, ~ALL_FLAGS | LATE_FLAGS, missed);
}

bool restore_meta_has_late(const struct restore_meta *m)
{
	return (m->flags & LATE_FLAGS) != 0;
}

void restore_meta_late(const struct restore_node *n,
    const struct restore_meta *m, struct restore_missed *missed)
{
	if ((m->has & CATALOG_HAS_FLAGS) != 0)
		set_flags(n, m->flags & ALL_FLAGS, ~ALL_FLAGS, missed);
}

static bool chown_node(const struct restore_node *n, uint32_t uid, uint32_t gid)
{
	return sysio_fchownat(n->fd, "", uid, gid, AT_EMPTY_PATH) == 0;
}

/* Returns the bits of the mode that would now be given to somebody else. */
static unsigned set_owner(const struct restore_node *n,
    const struct restore_meta *m, struct restore_missed *missed)
{
	uint32_t uid = (m->has & CATALOG_HAS_UID) != 0 ? m->uid : NOBODY;
	uint32_t gid = (m->has & CATALOG_HAS_GID) != 0 ? m->gid : NOBODY;
	bool special = ((m->has & CATALOG_HAS_UID) != 0 && uid == NOBODY) ||
	    ((m->has & CATALOG_HAS_GID) != 0 && gid == NOBODY);
	unsigned lost = 0;

	if (uid == NOBODY)
		lost |= S_ISUID;
	if (gid == NOBODY)
		lost |= S_ISGID;
	if (special) /* a number that no file can have */
		restore_missed_add(missed, RESTORE_MISS_OWNER, EINVAL);
	if (uid == NOBODY && gid == NOBODY)
		return lost;
	if (chown_node(n, uid, gid))
		return lost;
	restore_missed_add(missed, RESTORE_MISS_OWNER, errno);
	lost |= S_ISUID;
	/* Who may not give files away may be in the group. */
	if (gid == NOBODY || !chown_node(n, NOBODY, gid))
		lost |= S_ISGID;
	return lost;
}

static void set_mode(const struct restore_node *n, unsigned mode, unsigned lost,
    struct restore_missed *missed)
{
	char path[PROC_SIZE];
	/* A directory's setgid bit gives nobody rights. */
	unsigned kept = n->kind == CATALOG_DIR ? mode : mode & ~lost;
	int rc = 0;

	if (n->path_only)
		rc = sysio_fchmodat(AT_FDCWD, proc_path(n->fd, path), kept, 0);
	else
		rc = sysio_fchmod(n->fd, kept);
	if (rc < 0)
		restore_missed_add(missed, RESTORE_MISS_MODE, errno);
	else if (kept != mode)
		restore_missed_add(missed, RESTORE_MISS_MODE, EPERM);
}

static int set_xattr(
    const struct restore_node *n, const char *name, const void *p, size_t size)
{
	char path[PROC_SIZE];

	if (n->path_only)
		return sysio_setxattr(proc_path(n->fd, path), name, p, size, 0);
	return sysio_fsetxattr(n->fd, name, p, size, 0);
}

/* An ACL that is there only because the directory handed it down. */
static void drop_acl(const struct restore_node *n, const char *name)
{
	/* Version 2, no entries: that is what takes one away. */
	static const uint8_t none[] = { 2, 0, 0, 0 };

	/* Where there are no ACLs, there is none. */
	(void)set_xattr(n, name, none, sizeof(none));
}

static void set_xattrs(const struct restore_node *n,
    const struct restore_attr *attr, struct restore_missed *missed)
{
	struct catalog_xattr x;
	size_t at = 0;

	while (attr != NULL && catalog_attr_next(&attr->data, &at, &x)) {
		bool acl = strcmp(x.name_z, RESTORE_ACL_ACCESS) == 0 ||
		    strcmp(x.name_z, RESTORE_ACL_DEFAULT) == 0;

		if (set_xattr(n, x.name_z, x.value.p, x.value.n) < 0)
			restore_missed_add(missed,
			    acl ? RESTORE_MISS_ACL : RESTORE_MISS_XATTR, errno);
	}
}

static void set_times(const struct restore_node *n,
    const struct restore_meta *m, struct restore_missed *missed)
{
	char path[PROC_SIZE];
	struct timespec times[2] = {
		{ .tv_sec = 0, .tv_nsec = UTIME_OMIT },
		{ .tv_sec = m->mtime_s, .tv_nsec = (long)m->mtime_ns },
	};
	int rc = 0;

	if (n->path_only)
		rc =
		    sysio_utimensat(AT_FDCWD, proc_path(n->fd, path), times, 0);
	else
		rc = sysio_futimens(n->fd, times);
	if (rc < 0)
		restore_missed_add(missed, RESTORE_MISS_TIMES, errno);
}

void restore_meta_apply(const struct restore_node *n,
    const struct restore_meta *m, const struct restore_attr *attr,
    struct restore_missed *missed)
{
	unsigned lost = set_owner(n, m, missed);
	bool inherits = (n->inherited & RESTORE_INHERIT_ACL) != 0;

	if (inherits && (attr == NULL || !attr->has_default) &&
	    n->kind == CATALOG_DIR)
		drop_acl(n, RESTORE_ACL_DEFAULT);
	if (inherits && (attr == NULL || !attr->has_access) &&
	    n->kind != CATALOG_SYMLINK)
		drop_acl(n, RESTORE_ACL_ACCESS);
	if (n->kind != CATALOG_SYMLINK)
		set_mode(n,
		    (m->has & CATALOG_HAS_MODE) != 0 ? m->mode : IMPLIED_MODE,
		    lost, missed);
	set_xattrs(n, attr, missed);
	if ((m->has & CATALOG_HAS_MTIME) != 0)
		set_times(n, m, missed);
}

bool restore_meta_is_set(
    const struct restore_meta *m, const struct statx *there)
{
	if ((there->stx_attributes &
		(STATX_ATTR_IMMUTABLE | STATX_ATTR_APPEND)) == 0)
		return false;
	return there->stx_uid == m->uid && there->stx_gid == m->gid &&
	    (there->stx_mode & ALLPERMS) == m->mode &&
	    there->stx_mtime.tv_sec == m->mtime_s &&
	    there->stx_mtime.tv_nsec == m->mtime_ns;
}

bool restore_meta_harmless(
    const struct restore_meta *m, const struct statx *there)
{
	if (there->stx_nlink == 1 && (m->has & CATALOG_HAS_ATTR) == 0 &&
	    (m->mode & SPECIAL_BITS) == 0)
		return true;
	return there->stx_uid == m->uid && there->stx_gid == m->gid &&
	    (there->stx_mode & ALLPERMS) == m->mode;
}
