/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "datastore/base/sysio.h"
#include "datastore/store_fs_internal.h"

#define TMP_STEM_SUFFIX ".tmp_"
#define TMP_STEM_SIZE (STORE_CHUNK_PATH_SIZE + sizeof(TMP_STEM_SUFFIX) - 1)
#define TMP_SIZE (TMP_STEM_SIZE + 6)

/* How often the name may change hands under us before we give up. */
#define NAME_TRIES 16

/* One insert. */
struct put {
	struct store_fs *s;
	const struct digest *digest;
	const struct store_insert_opts *opts;
	char name[STORE_CHUNK_PATH_SIZE]; /* below .chunks */
	char tmp[TMP_SIZE];
	char shown[STORE_SHOWN_SIZE];
	bool have_tmp;
	bool synced; /* the file of tmp is on disk */
	bool made_prefix;
};

/* Where a look or an attempt leads to. */
enum step {
	STEP_NAMED,   /* our file has the name */
	STEP_HIT,     /* theirs is fine, and touched */
	STEP_TAKEN,   /* something has the name */
	STEP_GONE,    /* nothing has the name */
	STEP_REPLACE, /* theirs is to be replaced */
};

static int write_tmp(
    struct put *p, const void *raw, size_t n, bool sync, struct err *e)
{
	char stem[TMP_STEM_SIZE];
	int fd = -1;
	int rc = 0;

	(void)snprintf(stem, sizeof(stem), "%s" TMP_STEM_SUFFIX, p->name);
	rc = file_make_tmp(
	    p->s->chunks_fd, stem, &p->s->owner, &fd, p->tmp, p->shown, e);
	if (rc < 0)
		return rc;
	p->have_tmp = true;
	rc = file_write_fully(fd, raw, n, p->shown, e);
	if (rc == 0 && sync)
		rc = file_sync(fd, p->shown, e);
	if (rc < 0) {
		file_close(&fd);
		return rc;
	}
	/* Some file systems keep an error of writing until here. */
	if (sysio_close(fd) < 0 && errno != EINTR)
		return err_sys(e, "close '%s'", p->shown);
	p->synced = sync;
	return 0;
}

/* The same, and the prefix directory before it where that is missing. */
static int make_tmp(
    struct put *p, const void *raw, size_t n, bool sync, struct err *e)
{
	unsigned prefix = digest_prefix(p->digest);
	bool found = false;
	int rc = store_fs_check_prefix(p->s, prefix, &found, e);

	if (rc < 0)
		return rc;
	if (found) {
		rc = write_tmp(p, raw, n, sync, e);
		/* It may have been removed since it was seen. */
		if (!err_is_sys(e, ENOENT) || p->have_tmp)
			return rc;
	}
	rc = store_fs_make_prefix(p->s, prefix, &p->made_prefix, e);
	if (rc < 0)
		return rc;
	return write_tmp(p, raw, n, sync, e);
}

/* A file is replaced only by one that is on disk, whatever opts say (I1). */
static int sync_tmp(struct put *p, struct err *e)
{
	struct statx st;
	int fd = -1;
	int rc = 0;

	if (p->synced)
		return 0;
	rc = file_open_regular(p->s->chunks_fd, p->tmp, &fd, &st, p->shown, e);
	if (rc < 0)
		return rc;
	rc = file_sync(fd, p->shown, e);
	file_close(&fd);
	if (rc == 0)
		p->synced = true;
	return rc;
}

static bool is_not_supported(int error)
{
	return error == EINVAL || error == ENOSYS || error == ENOTSUP;
}

/* Give our file the name if nothing has it; REPLACE: this can not be done. */
static int give_free_name(struct put *p, enum step *ret, struct err *e)
{
	struct store_fs *s = p->s;
	int fd = s->chunks_fd;

	if (!atomic_load(&s->no_noreplace)) {
		if (sysio_renameat2(
			fd, p->tmp, fd, p->name, RENAME_NOREPLACE) == 0) {
			p->have_tmp = false;
			*ret = STEP_NAMED;
			return 0;
		}
		if (errno == EEXIST) {
			*ret = STEP_TAKEN;
			return 0;
		}
		if (!is_not_supported(errno))
			return err_sys(e, "rename to '%s'", p->shown);
		atomic_store(&s->no_noreplace, true);
	}
	if (!atomic_load(&s->no_link)) {
		if (sysio_linkat(fd, p->tmp, fd, p->name, 0) == 0) {
			/* The other name of the file is removed at the end. */
			*ret = STEP_NAMED;
			return 0;
		}
		if (errno == EEXIST) {
			*ret = STEP_TAKEN;
			return 0;
		}
		/* EPERM is what FAT says. */
		if (!is_not_supported(errno) && errno != EPERM)
			return err_sys(e, "link to '%s'", p->shown);
		atomic_store(&s->no_link, true);
	}
	*ret = STEP_REPLACE;
	return 0;
}

/* Look at what has the name, and touch it if it will do. */
static int look(struct put *p, enum step *ret, struct err *e)
{
	enum store_fs_hit hit = STORE_FS_DENIED;
	struct statx st;
	bool found = false;
	int rc =
	    file_stat_at(p->s->chunks_fd, p->name, &st, &found, p->shown, e);

	if (rc < 0)
		return rc;
	if (!found) {
		*ret = STEP_GONE;
		return 0;
	}
	if (!S_ISREG(st.stx_mode)) {
		return err_set(e, ERR_CORRUPT,
		    "'%s' is of file type %#o, want a regular file", p->shown,
		    st.stx_mode & (unsigned)S_IFMT);
	}
	if (!p->opts->known_bad && store_fs_looks_sound(&st))
		rc = store_fs_touch_hit(p->s, p->name, p->shown, &hit, e);
	if (rc < 0)
		return rc;
	if (hit == STORE_FS_DENIED) {
		*ret = STEP_REPLACE;
	} else {
		*ret = hit == STORE_FS_TOUCHED ? STEP_HIT : STEP_GONE;
	}
	return 0;
}

/* The usual way: the name is free, or what has it will do. */
static int name_shared(struct put *p, enum step *ret, struct err *e)
{
	struct store_fs_hold hold;
	int rc = store_fs_lock(
	    p->s, digest_prefix(p->digest), LOCK_SHARED, &hold, e);

	if (rc < 0)
		return rc;
	rc = give_free_name(p, ret, e);
	if (rc == 0 && *ret == STEP_TAKEN)
		rc = look(p, ret, e);
	store_fs_unlock(p->s, &hold);
	return rc;
}

/* The other way: replace what has the name, unless it will do by now. */
static int name_exclusive(
    struct put *p, enum store_inserted *ret, struct err *e)
{
	int fd = p->s->chunks_fd;
	struct store_fs_hold hold;
	enum step step = STEP_HIT;
	int rc = sync_tmp(p, e);

	if (rc < 0)
		return rc;
	rc = store_fs_lock(
	    p->s, digest_prefix(p->digest), LOCK_EXCLUSIVE, &hold, e);
	if (rc < 0)
		return rc;
	rc = look(p, &step, e);
	if (rc == 0 && step != STEP_HIT) {
		if (sysio_renameat2(fd, p->tmp, fd, p->name, 0) == 0) {
			p->have_tmp = false;
		} else {
			rc = err_sys(e, "rename to '%s'", p->shown);
		}
	}
	store_fs_unlock(p->s, &hold);
	if (rc < 0)
		return rc;
	if (step == STEP_HIT) {
		*ret = STORE_HIT;
	} else {
		*ret = step == STEP_REPLACE ? STORE_REPLACED : STORE_NEW;
	}
	return 0;
}

static int give_name(struct put *p, enum store_inserted *ret, struct err *e)
{
	enum step step = STEP_GONE;
	int tries = 0;

	/* Under our lock only others than cairn take a chunk away. */
	while (step == STEP_GONE) {
		int rc = 0;

		if (tries == NAME_TRIES) {
			return err_set(e, ERR_BUSY,
			    "'%s' was made and removed by others %d times" ERR_TRY_AGAIN,
			    p->shown, tries);
		}
		tries++;
		rc = name_shared(p, &step, e);
		if (rc < 0)
			return rc;
	}
	if (step == STEP_REPLACE)
		return name_exclusive(p, ret, e);
	*ret = step == STEP_NAMED ? STORE_NEW : STORE_HIT;
	return 0;
}

/* Make the new name lasting: its directory, and that one's if it is new. */
static int sync_names(struct put *p, struct err *e)
{
	int fd = -1;
	int rc =
	    store_fs_open_prefix(p->s, digest_prefix(p->digest), false, &fd, e);

	if (rc == 0 && fd < 0) {
		rc = err_set(e, ERR_NOTFOUND,
		    "directory of '%s' does not exist any more", p->shown);
	}
	if (rc == 0)
		rc = file_sync(fd, p->shown, e);
	/* Who made the directory may not have come to that yet. */
	if (rc == 0 && (p->made_prefix || p->opts->known_bad))
		rc = file_sync(p->s->chunks_fd, p->s->shown, e);
	file_close(&fd);
	return rc;
}

int store_fs_insert(struct store *base, const struct digest *d, const void *raw,
    size_t n, const struct store_insert_opts *opts, enum store_inserted *ret,
    struct err *e)
{
	struct put p = { .s = store_fs_of(base), .digest = d, .opts = opts };
	enum store_inserted done = STORE_NEW;
	/* Whoever says that a damaged chunk is healed says so for ever. */
	bool sync = opts->sync || opts->known_bad;
	int rc = 0;

	store_chunk_path(d, p.name);
	store_fs_shown(p.s, p.name, p.shown);
	rc = make_tmp(&p, raw, n, sync, e);
	if (rc < 0)
		goto out;
	rc = give_name(&p, &done, e);
	if (rc < 0)
		goto out;
	if (done == STORE_REPLACED || (done == STORE_NEW && sync))
		rc = sync_names(&p, e);
	if (rc < 0)
		goto out;
	*ret = done;
out:
	/* One that stays behind is swept when it is old. */
	if (p.have_tmp)
		(void)sysio_unlinkat(p.s->chunks_fd, p.tmp, 0);
	return rc;
}
