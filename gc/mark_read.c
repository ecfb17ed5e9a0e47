/* SPDX-License-Identifier: MIT */
#include <errno.h>
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

const char *mark_shown(
    const struct datastore *ds, const char *path, char out[MARK_SHOWN_SIZE])
{
	char whole[MARK_SHOWN_SIZE];

	return text_name(out, MARK_SHOWN_SIZE,
	    datastore_shown(ds, path, whole, sizeof(whole)));
}

/* The directory that holds path, opened, and the name in it. */
static int open_parent(struct datastore *ds, const char *path, int *ret_fd,
    const char **ret_name, struct err *e)
{
	const char *slash = strrchr(path, '/');
	char shown[MARK_SHOWN_SIZE];
	char *dir = NULL;
	int rc = 0;

	*ret_name = slash == NULL ? path : slash + 1;
	dir = strndup(path, slash == NULL ? 0 : (size_t)(slash - path));
	if (dir == NULL)
		return err_nomem(e);
	rc = file_open_dir(
	    ds->root_fd, dir, ret_fd, mark_shown(ds, dir, shown), e);
	free(dir);
	return rc;
}

int mark_open(
    struct datastore *ds, const char *path, struct idx **ret, struct err *e)
{
	char shown[MARK_SHOWN_SIZE];
	const char *name = NULL;
	int fd = -1;
	int rc = open_parent(ds, path, &fd, &name, e);

	if (rc == 0)
		rc = idx_open(fd, name, mark_shown(ds, path, shown), ret, e);
	file_close(&fd);
	return rc;
}

void mark_progress(struct marking *mk, uint64_t current)
{
	struct mark_counts *c = &mk->m->counts;

	c->references_total = c->references_read + current + mk->ahead;
	if (mk->sink->progress != NULL)
		mk->sink->progress(mk->sink->ctx, c);
}

/*
 * Hand all references over.  A failure of the file goes into *why and ends
 * it; a failure of anything else is returned.
 */
static int feed(
    struct marking *mk, struct idx *ix, struct err *why, struct err *e)
{
	uint64_t left = idx_info(ix)->count;
	size_t n = 0;
	int rc = 0;

	do {
		rc = task_check(mk->task, e);
		if (rc < 0)
			return rc;
		rc = idx_next(ix, mk->entries, MARK_PIECE, &n, why);
		if (rc < 0)
			return 0;
		for (size_t i = 0; i < n; i++) {
			rc = mk->sink->add(
			    mk->sink->ctx, &mk->entries[i].digest, e);
			if (rc < 0)
				return rc;
		}
		left -= n < left ? n : left;
		mk->m->counts.references_read += n;
		mark_progress(mk, left);
	} while (n > 0);
	return 0;
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
	char shown[MARK_SHOWN_SIZE];
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
	(void)mark_shown(mk->ds, file->path, shown);
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
	char shown[MARK_SHOWN_SIZE];
	struct statx st;
	bool found = true;
	const char *name = NULL;
	char *dir = strndup(path, (size_t)(slash - path));
	int group_fd = -1;
	int fd = -1;
	int rc = -1;

	if (dir == NULL)
		return false;
	(void)mark_shown(mk->ds, dir, shown);
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
		rc = feed(mk, ix, &why, e);
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
out:
	idx_close(ix);
	return rc;
}
