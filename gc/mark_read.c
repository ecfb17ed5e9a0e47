/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "datastore/backupid.h"
#include "datastore/base/file.h"
#include "datastore/base/pathlock.h"
#include "datastore/base/text.h"
#include "gc/mark_internal.h"

#define SALVAGE_ENTRIES 4096U

uint64_t mark_estimate(const struct root_file *file)
{
	enum idx_kind kind = IDX_FIXED;

	if (!idx_kind_of_name(file->path, &kind) ||
	    file->bytes < IDX_HEADER_SIZE)
		return 0;
	return (file->bytes - IDX_HEADER_SIZE) / idx_entry_size(kind);
}

/* The directory that holds path, opened, and the name in it. */
static int open_parent(struct datastore *ds, const char *path, int *ret_fd,
    const char **ret_name, struct err *e)
{
	const char *slash = strrchr(path, '/');
	char shown[LISTING_SHOWN_SIZE];
	char *dir = NULL;
	int rc = 0;

	*ret_name = slash == NULL ? path : slash + 1;
	dir = strndup(path, slash == NULL ? 0 : (size_t)(slash - path));
	if (dir == NULL)
		return err_nomem(e);
	rc = file_open_dir(
	    ds->root_fd, dir, ret_fd, listing_shown(ds, dir, shown), e);
	free(dir);
	return rc;
}

int mark_open(
    struct datastore *ds, const char *path, struct idx **ret, struct err *e)
{
	char shown[LISTING_SHOWN_SIZE];
	const char *name = NULL;
	int fd = -1;
	int rc = open_parent(ds, path, &fd, &name, e);

	if (rc == 0)
		rc = idx_open(fd, name, listing_shown(ds, path, shown), ret, e);
	file_close(&fd);
	/* Advice: the kernel reads further ahead. */
	if (rc == 0)
		(void)posix_fadvise(idx_fd(*ret), 0, 0, POSIX_FADV_SEQUENTIAL);
	return rc;
}

void mark_progress(struct marking *mk, uint64_t current)
{
	struct mark_counts *c = &mk->m->counts;

	c->references_total = c->references_read + current + mk->ahead;
	if (mk->sink->progress != NULL)
		mk->sink->progress(mk->sink->ctx, c);
}

/* One file, and what it is compared with. */
struct feeding {
	struct marking *mk;
	struct idx *ix;
	struct neighbour *before; /* NULL: every reference is handed over */
	uint64_t i;               /* the next entry */
	uint64_t left;            /* that are not read yet */
};

/* The next piece.  *ret_n 0: it was read whole, and its checksum is right. */
static int next_piece(
    struct feeding *f, size_t *ret_n, struct err *why, struct err *e)
{
	int rc = task_check(f->mk->task, e);

	if (rc < 0)
		return rc;
	if (idx_next(f->ix, f->mk->entries, MARK_PIECE, ret_n, why) < 0)
		return 0;
	f->left -= *ret_n < f->left ? *ret_n : f->left;
	f->mk->m->counts.references_read += *ret_n;
	return 0;
}

static int repeat(struct feeding *f, uint64_t n, struct err *e)
{
	const struct mark_sink *sink = f->mk->sink;

	if (n == 0)
		return 0;
	return sink->repeat(sink->ctx, n, neighbour_when(f->mk->before), e);
}

/* Hand over what does not stand in the file before. */
static int feed_piece(struct feeding *f, size_t n, struct err *e)
{
	const struct mark_sink *sink = f->mk->sink;
	uint64_t repeated = 0;
	int rc = 0;

	for (size_t k = 0; rc == 0 && k < n; k++, f->i++) {
		const struct digest *d = &f->mk->entries[k].digest;

		if (f->before != NULL && neighbour_has(f->before, f->i, d)) {
			repeated++;
		} else {
			rc = sink->add(sink->ctx, d, e);
		}
	}
	return rc < 0 ? rc : repeat(f, repeated, e);
}

/*
 * All references from the first on.  A failure of the file goes into *why and
 * ends it; a failure of anything else is returned.
 */
static int feed_all(struct feeding *f, struct err *why, struct err *e)
{
	size_t n = 0;
	int rc = 0;

	do {
		rc = next_piece(f, &n, why, e);
		if (rc < 0 || why->code != ERR_OK)
			return rc;
		rc = feed_piece(f, n, e);
		if (rc < 0)
			return rc;
		mark_progress(f->mk, f->left);
	} while (n > 0);
	return 0;
}

/* Read it again from its beginning. */
static int again(struct feeding *f, struct err *why)
{
	uint64_t *read = &f->mk->m->counts.references_read;

	*read -= idx_info(f->ix)->count - f->left;
	f->i = 0;
	f->left = idx_info(f->ix)->count;
	return idx_rewind(f->ix, why);
}

/*
 * It claims to be the file before.  Only the checksum that is computed of all
 * its entries can tell; then none of them is new.
 */
static int skip_equal(
    struct feeding *f, bool *ret_equal, struct err *why, struct err *e)
{
	size_t n = 0;
	int rc = 0;

	do {
		rc = next_piece(f, &n, why, e);
		if (rc < 0 || why->code != ERR_OK)
			return rc;
		mark_progress(f->mk, f->left);
	} while (n > 0);
	*ret_equal = neighbour_is_equal(f->before, f->ix);
	if (*ret_equal)
		rc = repeat(f, idx_info(f->ix)->count, e);
	mark_progress(f->mk, 0);
	return rc;
}

/* Hand over every reference that was not handed over with the file before. */
static int feed(struct marking *mk, struct idx *ix, const char *path,
    struct err *why, struct err *e)
{
	struct feeding f = {
		.mk = mk,
		.ix = ix,
		.left = idx_info(ix)->count,
	};
	bool equal = false;
	int rc = 0;

	if (mk->sink->repeat == NULL || !neighbour_is_of(mk->before, ix, path))
		return feed_all(&f, why, e);
	f.before = mk->before;
	neighbour_begin(f.before);
	if (neighbour_seems_equal(f.before, ix)) {
		rc = skip_equal(&f, &equal, why, e);
		if (rc < 0 || why->code != ERR_OK || equal)
			return rc;
		if (again(&f, why) < 0)
			return 0;
	}
	rc = feed_all(&f, why, e);
	if (rc < 0 || why->code != ERR_OK || neighbour_is_same(f.before))
		return rc;
	/* Somebody wrote to that file: what it holds now proves nothing. */
	f.before = NULL;
	return again(&f, why) < 0 ? 0 : feed_all(&f, why, e);
}

/*
 * What is left of the digests of a broken file in a snapshot that was set
 * aside.  Whatever stands where a digest would is taken for one: a chunk more
 * that stays, or one that is reported as missing.
 */
static int salvage_piece(
    struct marking *mk, const uint8_t *p, size_t size, size_t n, struct err *e)
{
	struct digest d;
	int rc = task_check(mk->task, e);

	for (size_t i = 0; rc == 0 && i < n; i++) {
		memcpy(d.b, p + (i + 1) * size - DIGEST_SIZE, DIGEST_SIZE);
		rc = mk->sink->add(mk->sink->ctx, &d, e);
	}
	mk->m->counts.references_read += n;
	return rc;
}

static int salvage(
    struct marking *mk, const struct root_file *file, struct err *e)
{
	char shown[LISTING_SHOWN_SIZE];
	struct err why = ERR_INIT;
	struct statx st = { .stx_mask = 0 };
	enum idx_kind kind = IDX_FIXED;
	const char *name = NULL;
	uint8_t *piece = NULL;
	size_t size = 0;
	uint64_t count = 0;
	int dirfd = -1;
	int fd = -1;
	int rc = 0;

	if (!idx_kind_of_name(file->path, &kind))
		return 0;
	size = idx_entry_size(kind);
	(void)listing_shown(mk->ds, file->path, shown);
	piece = malloc(SALVAGE_ENTRIES * size);
	if (piece == NULL)
		return err_nomem(e);
	/* What can not be opened or read has been reported already. */
	if (open_parent(mk->ds, file->path, &dirfd, &name, &why) < 0 ||
	    file_open_regular(dirfd, name, &fd, &st, shown, &why) < 0)
		goto out;
	if (st.stx_size > IDX_HEADER_SIZE)
		count = (st.stx_size - IDX_HEADER_SIZE) / size;
	for (uint64_t at = 0; rc == 0 && at < count; at += SALVAGE_ENTRIES) {
		size_t n = SALVAGE_ENTRIES;

		if (count - at < n)
			n = (size_t)(count - at);
		if (file_pread_exact(fd, piece, n * size,
			IDX_HEADER_SIZE + at * size, shown, &why) == 0)
			rc = salvage_piece(mk, piece, size, n, e);
	}
out:
	file_close(&fd);
	file_close(&dirfd);
	free(piece);
	return rc;
}

/*
 * Nobody at work in this directory, and still no manifest in it?  The lock is
 * of a moment; where none may be taken (dry run) it is taken for granted.
 */
static bool is_abandoned(struct marking *mk, const char *path)
{
	const char *slash = strrchr(path, '/');
	struct err ignored = ERR_INIT;
	char shown[LISTING_SHOWN_SIZE];
	struct statx st;
	bool found = true;
	const char *name = NULL;
	char *dir = strndup(path, (size_t)(slash - path));
	int group_fd = -1;
	int fd = -1;
	int rc = -1;

	if (dir == NULL)
		return false;
	(void)listing_shown(mk->ds, dir, shown);
	if (open_parent(mk->ds, dir, &group_fd, &name, &ignored) < 0)
		goto out;
	if (mk->opts->locks) {
		rc = pathlock_take(
		    group_fd, name, LOCK_SHARED, 0, &fd, shown, &ignored);
	} else {
		rc = file_open_dir(group_fd, name, &fd, shown, &ignored);
	}
	if (rc == 0)
		rc = file_stat_at(
		    fd, BACKUP_MANIFEST, &st, &found, shown, &ignored);
out:
	file_close(&fd);
	file_close(&group_fd);
	free(dir);
	return rc == 0 && !found;
}

static bool is_left_over(
    struct marking *mk, const struct root_file *file, const struct err *why)
{
	return why->code == ERR_CORRUPT && file->in_snapshot &&
	    !file->has_manifest &&
	    file->id.ctime < mk->opts->left_over_cutoff &&
	    is_abandoned(mk, file->path);
}

/* A listed file could not be read whole, because of *why. */
static int judge(struct marking *mk, const struct root_file *file,
    const struct err *why, struct err *e)
{
	if (why->code == ERR_NOMEM || why->code == ERR_CANCELLED) {
		*e = *why;
		return e->code;
	}
	/* ESTALE: removed by another client of a network file system. */
	if (why->code == ERR_NOTFOUND || err_is_sys(why, ESTALE)) {
		mk->vanished++;
		return 0;
	}
	if (is_left_over(mk, file, why)) {
		mk->m->counts.left_overs++;
		findings_warn(mk->findings,
		    "%s; left over by a backup that was interrupted, no "
		    "snapshot needs it",
		    why->msg);
		return 0;
	}
	findings_at(mk->findings, file->path, "%s", why->msg);
	if (findings_is_ignored(mk->findings, file->path))
		return salvage(mk, file, e);
	return 0;
}

int mark_read(struct marking *mk, const struct root_file *file,
    struct mark_root *ret, bool *ret_whole, struct err *e)
{
	struct err why = ERR_INIT;
	struct mark_root root = { .path = NULL };
	struct idx *ix = NULL;
	int rc = 0;

	(void)mark_open(mk->ds, file->path, &ix, &why);
	if (why.code == ERR_OK)
		rc = feed(mk, ix, file->path, &why, e);
	if (rc < 0)
		goto out;
	if (why.code != ERR_OK) {
		rc = judge(mk, file, &why, e);
		goto out;
	}
	root.id = root_id_of(idx_stat(ix));
	memcpy(root.uuid, idx_info(ix)->uuid, IDX_UUID_SIZE);
	root.entries = idx_info(ix)->count;
	root.data_bytes = idx_info(ix)->size;
	/* What was listed is gone then, and nobody knows what it held. */
	if (!root_id_equal(&root.id, &file->id))
		mk->vanished++;
	*ret = root;
	*ret_whole = true;
	if (mk->sink->now != NULL) {
		neighbour_set(
		    mk->before, ix, file->path, mk->sink->now(mk->sink->ctx));
		ix = NULL;
	}
out:
	idx_close(ix);
	return rc;
}
