/* SPDX-License-Identifier: MIT */
#include "gc/running.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "datastore/base/file.h"
#include "datastore/base/sysio.h"
#include "datastore/cairndir.h"
#include "datastore/locks.h"

#define LOCK_NAME ".lock"

/*
 * Who holds a lock that a shared (exclusive) one of the byte would meet?
 * l_type F_UNLCK: nobody.
 */
static int ask(struct datastore *ds, off_t byte, short type, struct flock *ret,
    struct err *e)
{
	char shown[CAIRNDIR_SHOWN];
	int rc = 0;
	int fd = sysio_openat(ds->root_fd, LOCK_NAME,
	    O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, 0);

	(void)datastore_shown(ds, LOCK_NAME, shown, sizeof(shown));
	*ret = (struct flock){
		.l_type = type,
		.l_whence = SEEK_SET,
		.l_start = byte,
		.l_len = 1,
	};
	if (fd < 0)
		return err_sys(e, "open '%s'", shown);
	do {
		rc = sysio_ofd_lock(fd, F_OFD_GETLK, ret);
	} while (rc < 0 && errno == EINTR);
	if (rc < 0)
		rc = err_sys(e, "ask for locks of '%s'", shown);
	file_close(&fd);
	return rc;
}

/*
 * cairn locks the byte; a program that locks the whole file, by a lock that
 * has a process, is PBS or does as PBS does.
 */
static void describe(
    const struct datastore *ds, const struct flock *l, char *out, size_t size)
{
	char holder[RUNNING_WHO_SIZE];

	if (l->l_len == 1) {
		(void)snprintf(out, size, "garbage collection of cairn (%s)",
		    locks_gc_holder(ds, holder, sizeof(holder)));
	} else if (l->l_pid > 0) {
		(void)snprintf(out, size, "%s of another program (pid %ld)",
		    l->l_type == F_WRLCK ? "garbage collection" : "a backup",
		    (long)l->l_pid);
	} else {
		(void)snprintf(out, size, "%s of another program",
		    l->l_type == F_WRLCK ? "garbage collection" : "a backup");
	}
}

int running_who(
    struct datastore *ds, bool *ret, char *who, size_t size, struct err *e)
{
	struct flock l;
	int rc = ask(ds, LOCK_BYTE_GC, F_RDLCK, &l, e);

	if (rc < 0)
		return rc;
	if (l.l_type != F_UNLCK)
		describe(ds, &l, who, size);
	*ret = l.l_type != F_UNLCK;
	return 0;
}

int running_backup(struct datastore *ds, bool *ret, struct err *e)
{
	struct flock l;
	int rc = ask(ds, LOCK_BYTE_SESSION, F_WRLCK, &l, e);

	if (rc == 0)
		*ret = l.l_type != F_UNLCK;
	return rc;
}

static int busy(struct datastore *ds, struct err *e)
{
	char who[RUNNING_WHO_SIZE + 64] = "an unknown program";
	struct err ignored = ERR_INIT;
	struct flock l;

	/* It may be gone by now: then it stays unknown. */
	if (ask(ds, LOCK_BYTE_GC, F_WRLCK, &l, &ignored) == 0 &&
	    l.l_type != F_UNLCK)
		describe(ds, &l, who, sizeof(who));
	return err_set(e, ERR_BUSY, "'%s' is in use by %s", ds->path, who);
}

int running_begin(struct datastore *ds, struct err *e)
{
	struct err ignored = ERR_INIT;
	bool taken = false;
	int rc = 0;

	if (ds->locks == NULL)
		return err_set(e, ERR_REFUSED,
		    "'%s' is open for reading, want it open for garbage "
		    "collection",
		    ds->path);
	rc = lockfile_try(ds->locks, LOCK_BYTE_GC, LOCK_EXCLUSIVE, &taken, e);
	if (rc < 0)
		return rc;
	if (!taken)
		return busy(ds, e);
	/* For those who wait; a disk without room for it is no reason. */
	(void)locks_gc_announce(ds, &ignored);
	return 0;
}

void running_end(struct datastore *ds)
{
	locks_gc_retract(ds);
	lockfile_unlock(ds->locks, LOCK_BYTE_GC, LOCK_EXCLUSIVE);
}
