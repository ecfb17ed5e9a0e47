/* SPDX-License-Identifier: MIT */
#include "gc/running.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "datastore/base/clock.h"
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

int running_holds(struct datastore *ds, uint64_t byte, bool *ret, struct err *e)
{
	struct flock l;
	int rc = ask(ds, (off_t)byte, F_WRLCK, &l, e);

	/* A lock of the whole file (length 0) is another program's; it could
	 * not have got it while cairn held the byte. */
	if (rc == 0)
		*ret = l.l_type != F_UNLCK && l.l_len != 0;
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
	return err_set(
	    e, ERR_BUSY, "'%s' is in use by %s" ERR_TRY_AGAIN, ds->path, who);
}

/* For those who look; that it can not be written is no reason. */
static void write_record(struct datastore *ds, struct running *r)
{
	struct err ignored = ERR_INIT;

	if (r->fd < 0)
		return;
	r->written_ns = clock_boot_ns();
	(void)gcrunning_write(ds, r->fd, &r->now, &ignored);
}

static void announce(struct datastore *ds, struct running *r)
{
	struct err ignored = ERR_INIT;
	bool found = false;

	if (gcrunning_read(ds, &r->before, &found, &ignored) < 0)
		found = false;
	r->found_dead =
	    found && strcmp(r->before.state, GCRUNNING_RUNNING) == 0;
	gcrunning_init(&r->now);
	if (gcrunning_open(ds, &r->fd, &ignored) == 0)
		write_record(ds, r);
}

int running_begin(struct datastore *ds, struct running *r, struct err *e)
{
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
	announce(ds, r);
	return 0;
}

void running_progress(
    struct datastore *ds, struct running *r, const struct task_progress *p)
{
	uint32_t percent = 0;
	bool news = strcmp(r->now.phase, p->phase) != 0;

	if (p->total > 0)
		percent = p->done >= p->total
		    ? 100
		    : (uint32_t)((double)p->done * 100.0 / (double)p->total);
	news = news || (percent == 100 && r->now.percent != 100);
	if (r->fd < 0 ||
	    (!news && clock_boot_ns() - r->written_ns < CLOCK_NS_PER_S))
		return;
	(void)snprintf(r->now.phase, sizeof(r->now.phase), "%s", p->phase);
	r->now.percent = percent;
	r->now.updated = clock_now_s();
	write_record(ds, r);
}

void running_end(struct datastore *ds, struct running *r)
{
	struct err ignored = ERR_INIT;

	/* The first run of a store made it since. */
	if (r->fd < 0)
		(void)gcrunning_open(ds, &r->fd, &ignored);
	write_record(ds, r);
	file_close(&r->fd);
	lockfile_unlock(ds->locks, LOCK_BYTE_GC, LOCK_EXCLUSIVE);
}
