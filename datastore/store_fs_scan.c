/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "datastore/base/sysio.h"
#include "datastore/store_fs_internal.h"

/* How often a file may be touched between two looks at it. */
#define SAME_TRIES 8

static int note_prefix(void *ctx, const char *name, struct err *e)
{
	struct store_prefixes *set = ctx;
	unsigned prefix = 0;

	(void)e;
	if (store_prefix_of(name, &prefix))
		set->bits[prefix / 64] |= UINT64_C(1) << prefix % 64;
	return 0;
}

int store_fs_prefixes(
    struct store *base, struct store_prefixes *ret, struct err *e)
{
	const struct store_fs *s = store_fs_of(base);
	struct store_prefixes set = { .bits = { 0 } };
	int rc = file_each_name(s->chunks_fd, note_prefix, &set, s->shown, e);

	if (rc == 0)
		*ret = set;
	return rc;
}

int store_fs_stat_afresh(int dirfd, const char *name, struct statx *ret_st,
    bool *ret_found, const char *shown, struct err *e)
{
	struct statx st;
	int rc = -1;

	do {
		rc = sysio_statx(dirfd, name,
		    AT_STATX_FORCE_SYNC | AT_SYMLINK_NOFOLLOW |
			(name[0] == '\0' ? AT_EMPTY_PATH : 0),
		    STATX_BASIC_STATS, &st);
	} while (rc < 0 && errno == EINTR);
	if (rc < 0 && errno != ENOENT)
		return err_sys(e, "stat '%s'", shown);
	if (rc == 0)
		*ret_st = st;
	*ret_found = rc == 0;
	return 0;
}

/* A sweep of one prefix, its lock held. */
struct sweep {
	struct store_fs *s;
	int fd;
	filetime cutoff;
};

/* The path of a victim, for messages. */
static const char *victim_shown(const struct sweep *w, unsigned prefix,
    const char *name, char out[STORE_SHOWN_SIZE])
{
	char rel[STORE_PREFIX_SIZE + STORE_NAME_SIZE];

	store_fs_prefix_name(prefix, rel);
	(void)snprintf(rel + STORE_PREFIX_SIZE - 1,
	    sizeof(rel) - STORE_PREFIX_SIZE + 1, "/%.*s", STORE_NAME_SIZE - 1,
	    name);
	return store_fs_shown(w->s, rel, out);
}

/* Do its times let it go? */
static bool is_old(
    const struct store_victim *v, const struct statx *st, filetime cutoff)
{
	filetime ctime = clock_from_statx(&st->stx_ctime);

	if (v->kind == STORE_TMP) {
		return clock_from_statx(&st->stx_mtime) < cutoff &&
		    ctime < cutoff;
	}
	return clock_from_statx(&st->stx_atime) < cutoff &&
	    (!v->by_ctime || ctime < cutoff);
}

/* Is the chunk there whose bad copy this is? */
static int has_good_chunk(const struct sweep *w, const struct digest *d,
    bool *ret, const char *shown, struct err *e)
{
	char name[DIGEST_HEX_SIZE];
	struct statx st;
	bool found = false;
	int rc = 0;

	digest_hex(d, name);
	rc = store_fs_stat_afresh(w->fd, name, &st, &found, shown, e);
	if (rc == 0)
		*ret = found && store_fs_looks_sound(&st);
	return rc;
}

static int sweep_one(const struct sweep *w, unsigned prefix,
    struct store_victim *v, struct err *e)
{
	char shown[STORE_SHOWN_SIZE];
	struct digest d;
	struct statx st;
	bool found = false;
	bool good = true;
	int rc = 0;

	victim_shown(w, prefix, v->name, shown);
	/* A name that is not what its kind says is not ours to remove. */
	if (v->kind == STORE_OTHER ||
	    store_name_kind(v->name, prefix, &d) != v->kind) {
		return err_set(e, ERR_INVALID,
		    "'%s' can not be swept: its name is of another kind",
		    shown);
	}
	rc = store_fs_stat_afresh(w->fd, v->name, &st, &found, shown, e);
	if (rc < 0)
		return rc;
	if (!found) {
		v->outcome = STORE_VICTIM_GONE;
		return 0;
	}
	if (!S_ISREG(st.stx_mode) || !is_old(v, &st, w->cutoff))
		return 0;
	if (v->kind == STORE_BAD && v->if_good_exists)
		rc = has_good_chunk(w, &d, &good, shown, e);
	if (rc < 0 || !good)
		return rc;
	if (sysio_unlinkat(w->fd, v->name, 0) == 0) {
		v->outcome = STORE_VICTIM_REMOVED;
		v->bytes = st.stx_size;
		return 0;
	}
	if (errno != ENOENT)
		return err_sys(e, "remove '%s'", shown);
	v->outcome = STORE_VICTIM_GONE;
	return 0;
}

int store_fs_sweep(struct store *base, unsigned prefix, filetime cutoff,
    struct store_victim *v, size_t n, bool *ret_busy, struct err *e)
{
	struct sweep w = {
		.s = store_fs_of(base),
		.fd = -1,
		.cutoff = cutoff,
	};
	struct store_fs_hold hold;
	bool taken = false;
	int rc = 0;

	for (size_t i = 0; i < n; i++) {
		v[i].outcome = STORE_VICTIM_KEPT;
		v[i].bytes = 0;
	}
	rc = store_fs_try_lock(w.s, prefix, &hold, &taken, e);
	if (rc < 0)
		return rc;
	if (!taken) {
		*ret_busy = true;
		return 0;
	}
	rc = store_fs_open_prefix(w.s, prefix, true, &w.fd, e);
	for (size_t i = 0; rc == 0 && i < n; i++) {
		if (w.fd >= 0) {
			rc = sweep_one(&w, prefix, &v[i], e);
		} else {
			v[i].outcome = STORE_VICTIM_GONE;
		}
	}
	file_close(&w.fd);
	store_fs_unlock(w.s, &hold);
	if (rc == 0)
		*ret_busy = false;
	return rc;
}

/* Does the name lead to the open file? */
static int is_same_file(int fd, int dirfd, const char *name, bool *ret,
    const char *shown, struct err *e)
{
	struct statx open_st = { 0 };
	struct statx name_st = { 0 };
	bool found = false;
	int rc = 0;

	/* A touch between the two looks changes the ctime: look again. */
	for (int i = 0; i < SAME_TRIES; i++) {
		rc = store_fs_stat_afresh(fd, "", &open_st, &found, shown, e);
		if (rc < 0)
			return rc;
		rc = store_fs_stat_afresh(
		    dirfd, name, &name_st, &found, shown, e);
		if (rc < 0)
			return rc;
		*ret = found && file_same(&open_st, &name_st);
		if (!*ret)
			return 0;
		*ret = open_st.stx_ctime.tv_sec == name_st.stx_ctime.tv_sec &&
		    open_st.stx_ctime.tv_nsec == name_st.stx_ctime.tv_nsec;
		if (*ret)
			return 0;
	}
	return 0;
}

/* The first free name of a bad copy; the last one if there is none. */
static int rename_bad(
    int dirfd, const char *name, const char *shown, struct err *e)
{
	char bad[STORE_NAME_SIZE];
	struct err taken = ERR_INIT;
	int rc = ERR_EXISTS;

	/* Only verify makes such names, and we have the lock. */
	for (unsigned i = 0; rc == ERR_EXISTS && i < STORE_BAD_COPIES; i++) {
		(void)snprintf(bad, sizeof(bad), "%s.%u.bad", name, i);
		rc = file_rename_new(dirfd, name, bad, bad, &taken);
	}
	if (rc < 0 && rc != ERR_EXISTS) {
		*e = taken;
		err_prefix(e, "'%s'", shown);
		return rc;
	}
	if (rc < 0 && sysio_renameat2(dirfd, name, dirfd, bad, 0) < 0)
		return err_sys(e, "rename '%s' to '%s'", shown, bad);
	return file_sync(dirfd, shown, e);
}

int store_fs_quarantine(struct store *base, const struct digest *d, int fd,
    bool *ret_done, struct err *e)
{
	struct store_fs *s = store_fs_of(base);
	char rel[STORE_CHUNK_PATH_SIZE];
	char shown[STORE_SHOWN_SIZE];
	const char *name = rel + STORE_PREFIX_SIZE;
	struct store_fs_hold hold;
	bool same = false;
	int dirfd = -1;
	int rc = 0;

	store_chunk_path(d, rel);
	store_fs_shown(s, rel, shown);
	rc = store_fs_lock(s, digest_prefix(d), LOCK_EXCLUSIVE, &hold, e);
	if (rc < 0)
		return rc;
	rc = store_fs_open_prefix(s, digest_prefix(d), true, &dirfd, e);
	if (rc == 0 && dirfd >= 0)
		rc = is_same_file(fd, dirfd, name, &same, shown, e);
	if (rc == 0 && same)
		rc = rename_bad(dirfd, name, shown, e);
	file_close(&dirfd);
	store_fs_unlock(s, &hold);
	if (rc == 0)
		*ret_done = same;
	return rc;
}
