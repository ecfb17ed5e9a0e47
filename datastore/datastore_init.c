/* SPDX-License-Identifier: MIT */
/*
 * The part of datastore.h that makes a datastore.
 *
 * In this order: `.cairn`, `.lock`, `.chunks.init`, the probes, prefix
 * directories, all of it synced; then `.chunks.init` becomes `.chunks`, and
 * there is a datastore.  What an interrupted init left is known by `.cairn`
 * without `.chunks`, and gone on from.
 */
#include "datastore/datastore_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "datastore/base/sysio.h"
#include "datastore/base/text.h"
#include "datastore/gcrunning.h"
#include "datastore/newfile.h"
#include "datastore/probe.h"
#include "datastore/snapshot.h"

#define QUOTE_SIZE 128
#define PASSWD_SIZE 4096
#define PBS_USER "backup"
#define PREFIX_NAME_SIZE 5
/* How many prefix directories between two looks at the task. */
#define PREFIXES_PER_CHECK 1024U

/* One init; the flags say what it made itself and removes if it fails. */
struct making {
	const char *path;
	bool pbs_layout;
	int root_fd;
	int chunks_fd;
	int cairn_fd;
	struct file_owner owner;
	struct statx root; /* as it was found or made */
	bool made_root;
	bool made_cairn;
	bool made_lock;
	bool made_chunks;
	bool changed_root;
	struct shown shown;
};

static const char *shown(struct making *m, const char *rel)
{
	return datastore_join(m->path, rel, &m->shown);
}

/* Make the root if it is missing, open it, keep other inits out. */
static int open_root(struct making *m, struct err *e)
{
	int rc = 0;

	if (sysio_mkdirat(AT_FDCWD, m->path, FILE_DIR_MODE) == 0) {
		m->made_root = true;
	} else if (errno == ENOENT) {
		return err_set(e, ERR_NOTFOUND,
		    "'%s' can not be made: the directory above does not exist",
		    m->path);
	} else if (errno != EEXIST) {
		return err_sys(e, "make directory '%s'", m->path);
	}
	m->root_fd = sysio_openat(
	    AT_FDCWD, m->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
	if (m->root_fd < 0)
		return err_sys(e, "open directory '%s'", m->path);
	/* Where directories can not be locked at all, nobody is kept out. */
	if (sysio_flock(m->root_fd, LOCK_EX | LOCK_NB) < 0 &&
	    errno == EWOULDBLOCK) {
		return err_set(e, ERR_BUSY,
		    "'%s' is locked: another init runs there" ERR_TRY_AGAIN,
		    m->path);
	}
	if (m->made_root && sysio_fchmod(m->root_fd, FILE_DIR_MODE) < 0) {
		return err_sys(e, "change the mode of '%s' to %#o", m->path,
		    (unsigned)FILE_DIR_MODE);
	}
	rc = file_stat_fd(m->root_fd, &m->root, m->path, e);
	if (rc < 0)
		return rc;
	return datastore_check_not_nested(m->root_fd, m->path, e);
}

/* What the root holds already. */
struct found {
	struct making *m;
	bool cairn;
	bool lock;
};

static int check_root_name(void *ctx, const char *name, struct err *e)
{
	struct found *f = ctx;
	char quote[QUOTE_SIZE];

	if (strcmp(name, CHUNKS_NAME) == 0) {
		return err_set(e, ERR_EXISTS,
		    "'%s' is a datastore already: it has a '%s'", f->m->path,
		    CHUNKS_NAME);
	}
	if (strcmp(name, CAIRN_NAME) == 0)
		f->cairn = true;
	if (strcmp(name, LOCK_NAME) == 0)
		f->lock = true;
	if (name[0] == '.' || strcmp(name, "lost+found") == 0)
		return 0;
	return err_set(e, ERR_REFUSED,
	    "'%s' is not empty: it has '%s', want at most 'lost+found' and "
	    "names with a leading dot",
	    f->m->path, text_name(quote, sizeof(quote), name));
}

static bool begins_with(const char *s, const char *stem)
{
	return strncmp(s, stem, strlen(stem)) == 0;
}

static bool is_tmp(const char *name)
{
	return begins_with(name, FORMAT_NAME NEWFILE_TMP_INFIX) ||
	    begins_with(name, GCRUNNING_NAME NEWFILE_TMP_INFIX) ||
	    begins_with(name, SNAPSHOT_ADDED NEWFILE_TMP_INFIX);
}

static int not_interrupted(
    const struct making *m, const char *name, struct err *e)
{
	char quote[QUOTE_SIZE];

	return err_set(e, ERR_EXISTS,
	    "'%s/%s' has '%s', which is not of an interrupted init: move it "
	    "away first",
	    m->path, CAIRN_NAME, text_name(quote, sizeof(quote), name));
}

/* A `.cairn` with anything but this was used, and is not ours to go on with. */
static int check_cairn_name(void *ctx, const char *name, struct err *e)
{
	const struct making *m = ctx;

	if (strcmp(name, FORMAT_NAME) == 0 ||
	    strcmp(name, GCRUNNING_NAME) == 0 ||
	    strcmp(name, SNAPSHOT_ADDED) == 0 ||
	    strcmp(name, SESSIONS_NAME) == 0 || is_tmp(name))
		return 0;
	return not_interrupted(m, name, e);
}

static int remove_cairn_name(void *ctx, const char *name, struct err *e)
{
	const struct making *m = ctx;

	if (strcmp(name, SESSIONS_NAME) == 0)
		return 0;
	return file_unlink_at(m->cairn_fd, name, m->shown.text, e);
}

/*
 * Empty what an interrupted init left: a file may be there without its owner
 * or its mode.
 */
static int empty_cairn(struct making *m, struct err *e)
{
	int rc = 0;

	(void)shown(m, CAIRN_NAME);
	rc = file_open_dir(
	    m->root_fd, CAIRN_NAME, &m->cairn_fd, m->shown.text, e);
	if (rc == 0) {
		rc = file_each_name(
		    m->cairn_fd, check_cairn_name, m, m->shown.text, e);
	}
	if (rc < 0)
		return rc;
	if (sysio_unlinkat(m->cairn_fd, SESSIONS_NAME, AT_REMOVEDIR) < 0 &&
	    errno != ENOENT) {
		if (errno == ENOTEMPTY || errno == EEXIST)
			return not_interrupted(m, SESSIONS_NAME "/*", e);
		return err_sys(
		    e, "remove '%s/%s'", m->shown.text, SESSIONS_NAME);
	}
	return file_each_name(
	    m->cairn_fd, remove_cairn_name, m, m->shown.text, e);
}

/* May a datastore be made here? */
static int check_empty(struct making *m, struct err *e)
{
	struct found f = { .m = m };
	int rc = file_each_name(m->root_fd, check_root_name, &f, m->path, e);

	if (rc < 0)
		return rc;
	if (f.lock && !f.cairn) {
		return err_set(e, ERR_EXISTS,
		    "'%s' has a '%s' already, which is not of an interrupted "
		    "init: remove it first",
		    m->path, LOCK_NAME);
	}
	return f.cairn ? empty_cairn(m, e) : 0;
}

/* The ids of Proxmox Backup Server's user; false if there is none. */
static bool find_pbs_user(struct file_owner *ret)
{
	char data[PASSWD_SIZE];
	struct passwd entry;
	struct passwd *found = NULL;

	if (getpwnam_r(PBS_USER, &entry, data, sizeof(data), &found) != 0 ||
	    found == NULL)
		return false;
	*ret = (struct file_owner){
		.change = true,
		.uid = entry.pw_uid,
		.gid = entry.pw_gid,
	};
	return true;
}

/* To whom everything will belong. */
static void choose_owner(struct making *m, struct task *task)
{
	struct file_owner pbs = { .change = false };
	bool is_root = geteuid() == 0;

	m->owner = (struct file_owner){
		.change = is_root,
		.uid = m->root.stx_uid,
		.gid = m->root.stx_gid,
	};
	if (!m->pbs_layout)
		return;
	if (find_pbs_user(&pbs) && is_root) {
		m->owner = pbs;
	} else if (!pbs.change || pbs.uid != geteuid()) {
		task_message(task, TASK_WARNING,
		    "'%s' will not belong to the user '%s', as Proxmox Backup "
		    "Server wants it",
		    m->path, PBS_USER);
	}
}

static int make_cairn(struct making *m, struct err *e)
{
	struct datastore_format ignored;
	struct shown name;

	(void)datastore_join(m->path, CAIRN_NAME, &name);
	/* An init that was interrupted may not have come to its owner. */
	if (m->cairn_fd >= 0) {
		int rc = file_set_owner(
		    m->cairn_fd, &m->owner, FILE_DIR_MODE, name.text, e);

		if (rc < 0)
			return rc;
		file_close(&m->cairn_fd);
	} else {
		m->made_cairn = true;
	}
	return datastore_cairn_make(
	    m->root_fd, m->path, &m->owner, &m->cairn_fd, &ignored, e);
}

/* A store that begins here: what was pushed is all that there ever was. */
static int make_added(struct making *m, struct err *e)
{
	int rc =
	    newfile_make(m->cairn_fd, SNAPSHOT_ADDED, SNAPSHOT_ADDED_ALL "\n",
		&m->owner, shown(m, CAIRN_NAME "/" SNAPSHOT_ADDED), e);

	return rc == ERR_EXISTS ? err_forget(e) : rc;
}

static int make_lock(struct making *m, struct err *e)
{
	const char *name = shown(m, LOCK_NAME);
	struct statx st = { .stx_mask = 0 };
	bool found = false;
	int fd = -1;
	int rc = file_stat_at(m->root_fd, LOCK_NAME, &st, &found, name, e);

	if (rc < 0)
		return rc;
	m->made_lock = !found;
	fd = sysio_openat(m->root_fd, LOCK_NAME,
	    O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, FILE_MODE);
	if (fd < 0)
		return err_sys(e, "make '%s'", name);
	rc = file_stat_fd(fd, &st, name, e);
	if (rc == 0 && !S_ISREG(st.stx_mode))
		rc = err_set(e, ERR_CORRUPT, "'%s' is no regular file", name);
	if (rc == 0)
		rc = file_set_owner(fd, &m->owner, FILE_MODE, name, e);
	if (rc == 0)
		rc = file_sync(fd, name, e);
	file_close(&fd);
	return rc;
}

/* A directory that may be there from an interrupted init. */
static int make_or_adopt_dir(struct making *m, int dirfd, const char *name,
    bool *ret_made, struct err *e)
{
	int fd = -1;
	int rc = file_make_dir(
	    dirfd, name, CHUNKS_MODE, &m->owner, m->shown.text, e);

	if (rc == 0)
		*ret_made = true;
	if (rc != ERR_EXISTS)
		return rc;
	(void)err_forget(e);
	rc = file_open_dir(dirfd, name, &fd, m->shown.text, e);
	if (rc == 0)
		rc = file_set_owner(
		    fd, &m->owner, CHUNKS_MODE, m->shown.text, e);
	file_close(&fd);
	return rc;
}

static int make_prefixes(struct making *m, struct task *task, struct err *e)
{
	struct task_progress progress = {
		.phase = "init",
		.unit = TASK_UNIT_COUNT,
		.total = STORE_PREFIXES,
	};
	int rc = 0;

	for (unsigned i = 0; i < STORE_PREFIXES; i++) {
		char name[PREFIX_NAME_SIZE];
		bool made = false;

		(void)snprintf(name, sizeof(name), "%04x", i & 0xffffU);
		rc = make_or_adopt_dir(m, m->chunks_fd, name, &made, e);
		if (rc < 0 && err_is_sys(e, EMLINK)) {
			return err_set(e, ERR_UNSUPPORTED,
			    "the file system allows %u directories in '%s', "
			    "Proxmox Backup Server needs %u",
			    i, m->path, STORE_PREFIXES);
		}
		if (rc == 0 && i % PREFIXES_PER_CHECK == 0) {
			progress.done = i;
			task_progress(task, &progress);
			rc = task_check(task, e);
		}
		if (rc < 0)
			return rc;
	}
	progress.done = STORE_PREFIXES;
	task_progress(task, &progress);
	return 0;
}

static int make_chunks(struct making *m, struct task *task, struct err *e)
{
	filetime ignored = 0;
	const char *name = shown(m, CHUNKS_NEW_NAME);
	int rc = make_or_adopt_dir(
	    m, m->root_fd, CHUNKS_NEW_NAME, &m->made_chunks, e);

	if (rc == 0) {
		rc = file_open_dir(
		    m->root_fd, CHUNKS_NEW_NAME, &m->chunks_fd, name, e);
	}
	/* Before the long work. */
	if (rc == 0)
		rc = probe_atime(m->chunks_fd, ".", &ignored, name, e);
	if (rc == 0) {
		rc = probe_locks(m->root_fd, LOCK_NAME, shown(m, LOCK_NAME), e);
	}
	(void)shown(m, CHUNKS_NEW_NAME);
	if (rc == 0 && m->pbs_layout)
		rc = make_prefixes(m, task, e);
	if (rc == 0)
		rc = file_sync(m->chunks_fd, m->shown.text, e);
	return rc;
}

/*
 * The rename that makes the datastore.  A network file system that asks twice
 * may call a rename failed that it has done.
 */
static int name_chunks(struct making *m, struct err *e)
{
	struct statx st = { .stx_mask = 0 };
	struct err ignored = ERR_INIT;
	bool found = false;
	int rc = 0;

	if (sysio_renameat2(
		m->root_fd, CHUNKS_NEW_NAME, m->root_fd, CHUNKS_NAME, 0) == 0)
		return 0;
	rc = err_sys(
	    e, "rename '%s' to '%s'", shown(m, CHUNKS_NEW_NAME), CHUNKS_NAME);
	(void)file_stat_at(
	    m->root_fd, CHUNKS_NAME, &st, &found, m->path, &ignored);
	return found ? err_forget(e) : rc;
}

/* All that was made is on stable storage, then `.chunks` gets its name. */
static int finish(struct making *m, struct err *e)
{
	int rc = 0;

	if (m->pbs_layout) {
		m->changed_root = true;
		rc = file_set_owner(
		    m->root_fd, &m->owner, FILE_DIR_MODE, m->path, e);
		/* One call for 65,536 directories. */
		if (rc == 0 && sysio_syncfs(m->root_fd) < 0) {
			rc =
			    err_sys(e, "sync the file system of '%s'", m->path);
		}
	}
	if (rc == 0)
		rc = file_sync(m->cairn_fd, shown(m, CAIRN_NAME), e);
	if (rc == 0)
		rc = file_sync(m->root_fd, m->path, e);
	if (rc < 0)
		return rc;
	return name_chunks(m, e);
}

/*
 * The names in the root, and the root's own.  Failing here is told, but the
 * datastore is there, and stays: it is whole, only not yet lasting.
 */
static int sync_names(struct making *m, struct err *e)
{
	int fd = -1;
	int rc = file_sync(m->root_fd, m->path, e);

	if (rc < 0 || !m->made_root)
		return rc;
	fd = sysio_openat(
	    m->root_fd, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
	/* Search permission was enough to get here; then it is not synced. */
	if (fd < 0 && errno == EACCES)
		return 0;
	if (fd < 0)
		return err_sys(e, "open '%s/..'", m->path);
	rc = file_sync(fd, m->path, e);
	file_close(&fd);
	return rc;
}

/* What can not be removed is left: the next init goes on from there. */
static void remove_made(struct making *m)
{
	char name[PREFIX_NAME_SIZE];

	for (unsigned i = 0;
	     m->made_chunks && m->pbs_layout && i < STORE_PREFIXES; i++) {
		(void)snprintf(name, sizeof(name), "%04x", i & 0xffffU);
		if (sysio_unlinkat(m->chunks_fd, name, AT_REMOVEDIR) < 0)
			break;
	}
	if (m->made_chunks) {
		(void)sysio_unlinkat(m->root_fd, CHUNKS_NEW_NAME, AT_REMOVEDIR);
	}
	if (m->made_lock)
		(void)sysio_unlinkat(m->root_fd, LOCK_NAME, 0);
	if (m->made_cairn) {
		(void)sysio_unlinkat(m->root_fd, CAIRN_NAME "/" FORMAT_NAME, 0);
		(void)sysio_unlinkat(
		    m->root_fd, CAIRN_NAME "/" GCRUNNING_NAME, 0);
		(void)sysio_unlinkat(
		    m->root_fd, CAIRN_NAME "/" SNAPSHOT_ADDED, 0);
		(void)sysio_unlinkat(
		    m->root_fd, CAIRN_NAME "/" SESSIONS_NAME, AT_REMOVEDIR);
		(void)sysio_unlinkat(m->root_fd, CAIRN_NAME, AT_REMOVEDIR);
	}
	if (m->changed_root && !m->made_root) {
		if (m->owner.change) {
			(void)sysio_fchown(
			    m->root_fd, m->root.stx_uid, m->root.stx_gid);
		}
		(void)sysio_fchmod(m->root_fd, m->root.stx_mode & 07777U);
	}
	if (m->made_root)
		(void)sysio_unlinkat(AT_FDCWD, m->path, AT_REMOVEDIR);
}

static int make_all(struct making *m, struct task *task, struct err *e)
{
	int rc = open_root(m, e);

	if (rc == 0)
		rc = check_empty(m, e);
	if (rc < 0)
		return rc;
	choose_owner(m, task);
	rc = make_cairn(m, e);
	/* One for PBS gets snapshots that nobody writes down. */
	if (rc == 0 && !m->pbs_layout)
		rc = make_added(m, e);
	if (rc == 0)
		rc = make_lock(m, e);
	if (rc == 0)
		rc = make_chunks(m, task, e);
	if (rc == 0)
		rc = finish(m, e);
	return rc;
}

int datastore_init(const char *path, const struct datastore_init_opts *opts,
    struct task *task, struct err *e)
{
	struct making m = {
		.path = path,
		.pbs_layout = opts != NULL && opts->pbs_layout,
		.root_fd = -1,
		.chunks_fd = -1,
		.cairn_fd = -1,
	};
	int rc = make_all(&m, task, e);

	if (rc < 0) {
		remove_made(&m);
	} else {
		rc = sync_names(&m, e);
	}
	file_close(&m.cairn_fd);
	file_close(&m.chunks_fd);
	file_close(&m.root_fd);
	return rc;
}
