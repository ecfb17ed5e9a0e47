/* SPDX-License-Identifier: MIT */
/*
 * The part of session.h that makes a snapshot visible (steps 8 to 10).
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "datastore/base/sysio.h"
#include "datastore/blob.h"
#include "datastore/compress.h"
#include "datastore/locks.h"
#include "datastore/session_internal.h"
#include "datastore/snapshot.h"
#include "datastore/tree.h"

#define MANIFEST_TMP "index.json.tmp_blob"
#define BLOB_SUFFIX ".blob"
#define TMP_BLOB_SUFFIX ".tmp_blob"

/* Is the name one of a file that the session may add? */
static int check_names(const struct session *s, const char *tmp_name,
    const char *filename, struct err *e)
{
	enum backup_file_kind kind = backup_file_kind(filename);

	if (!backupid_is_safe(filename) || kind == BACKUP_FILE_NONE ||
	    strlen(filename) > BACKUP_NAME_MAX + sizeof(BLOB_SUFFIX) ||
	    strcmp(filename, BACKUP_MANIFEST) == 0 ||
	    strcmp(filename, BACKUP_CLIENT_LOG) == 0) {
		return err_set(e, ERR_INVALID,
		    "'%s' is no name of a file of a snapshot", filename);
	}
	/* A visible temporary name would make it a root before its time. */
	if (!backupid_is_safe(tmp_name) ||
	    backup_file_kind(tmp_name) != BACKUP_FILE_NONE) {
		return err_set(e, ERR_INVALID,
		    "'%s' is no temporary name of a file of a snapshot",
		    tmp_name);
	}
	if (kind != BACKUP_FILE_BLOB && s->opts.references == NULL) {
		return err_set(e, ERR_INVALID,
		    "'%s': the session was opened without 'references'",
		    filename);
	}
	for (size_t i = 0; i < s->files_n; i++) {
		if (strcmp(s->files[i].name, filename) == 0) {
			return err_set(e, ERR_EXISTS,
			    "'%s' is in the snapshot already", filename);
		}
	}
	if (s->files_n >= MANIFEST_MAX_FILES) {
		return err_set(e, ERR_LIMIT, "more than %u files in a snapshot",
		    MANIFEST_MAX_FILES);
	}
	return 0;
}

static int append_file(struct session *s, const char *tmp_name,
    const char *filename, uint64_t size, const struct digest *csum,
    struct err *e)
{
	struct session_file *files =
	    reallocarray(s->files, s->files_n + 1, sizeof(*files));
	struct session_file f = { .size = size, .csum = *csum };

	if (files == NULL)
		return err_nomem(e);
	s->files = files;
	f.tmp = strdup(tmp_name);
	f.name = strdup(filename);
	if (f.tmp == NULL || f.name == NULL) {
		free(f.tmp);
		free(f.name);
		return err_nomem(e);
	}
	s->files[s->files_n++] = f;
	return 0;
}

/* Before it gets its name: an index that is seen is one that is on disk. */
static int sync_file(const struct session *s, const char *name, struct err *e)
{
	char shown[CAIRNDIR_SHOWN];
	int fd = -1;
	int rc = file_open_regular(
	    s->dir_fd, name, &fd, NULL, session_shown(s, name, shown), e);

	if (rc == 0)
		rc = file_sync(fd, shown, e);
	file_close(&fd);
	return rc;
}

int session_add_file(struct session *s, const char *tmp_name,
    const char *filename, uint64_t size, const struct digest *csum,
    struct err *e)
{
	int rc = check_names(s, tmp_name, filename, e);

	if (rc == 0 && !s->opts.dry_run)
		rc = sync_file(s, tmp_name, e);
	if (rc == 0)
		rc = append_file(s, tmp_name, filename, size, csum, e);
	return rc;
}

/* A new file with the store's owner, whole but not synced. */
static int write_new(const struct session *s, const char *name, const void *p,
    size_t n, struct err *e)
{
	char shown[CAIRNDIR_SHOWN];
	int rc = 0;
	int fd = sysio_openat(s->dir_fd, name,
	    O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, FILE_MODE);

	(void)session_shown(s, name, shown);
	if (fd < 0)
		return err_sys(e, "make '%s'", shown);
	rc = file_set_owner(fd, &s->ds->owner, FILE_MODE, shown, e);
	if (rc == 0)
		rc = file_write_fully(fd, p, n, shown, e);
	if (sysio_close(fd) < 0 && errno != EINTR && rc == 0)
		rc = err_sys(e, "close '%s'", shown);
	return rc;
}

/* "x.conf.blob" to "x.conf.tmp_blob". */
static int blob_tmp_name(
    const char *filename, char *out, size_t size, struct err *e)
{
	size_t n = strlen(filename);
	size_t suffix = sizeof(BLOB_SUFFIX) - 1;

	if (backup_file_kind(filename) != BACKUP_FILE_BLOB ||
	    n > BACKUP_NAME_MAX + suffix) {
		return err_set(e, ERR_INVALID,
		    "'%s' is no name of a blob of a snapshot", filename);
	}
	(void)snprintf(
	    out, size, "%.*s%s", (int)(n - suffix), filename, TMP_BLOB_SUFFIX);
	return 0;
}

static int encode_blob(const struct session *s, const void *plain, size_t n,
    struct buf *out, struct err *e)
{
	struct codec *codec = NULL;
	int rc = 0;

	if (n > BLOB_MAX_PLAIN) {
		return err_set(e, ERR_LIMIT,
		    "blob of %zu bytes, want at most "
		    "%u",
		    n, BLOB_MAX_PLAIN);
	}
	rc = codec_new(&codec, e);
	if (rc == 0)
		rc = blob_encode(codec, s->opts.level, plain, n, out, e);
	codec_free(codec);
	return rc;
}

int session_add_blob(struct session *s, const char *filename, const void *plain,
    size_t n, struct err *e)
{
	char tmp[BACKUP_NAME_MAX + sizeof(TMP_BLOB_SUFFIX)];
	struct buf raw = BUF_INIT;
	struct digest csum;
	int rc = blob_tmp_name(filename, tmp, sizeof(tmp), e);

	if (rc == 0)
		rc = check_names(s, tmp, filename, e);
	if (rc == 0)
		rc = encode_blob(s, plain, n, &raw, e);
	if (rc == 0)
		rc = digest_of(raw.data, raw.len, &csum, e);
	if (rc == 0 && !s->opts.dry_run)
		rc = write_new(s, tmp, raw.data, raw.len, e);
	if (rc == 0)
		rc = session_add_file(s, tmp, filename, raw.len, &csum, e);
	buf_release(&raw);
	return rc;
}

static int base_lost(const struct session *s, const char *what, struct err *e)
{
	char text[BACKUP_PATH_SIZE];

	backup_snapshot_text(&s->base, text);
	return err_set(e, ERR_BUSY,
	    "base '%s' %s while chunks of it were being reused: the backup "
	    "has to be repeated",
	    text, what);
}

/*
 * The very file?  Inode numbers are used again, but not with the same time of
 * change: a file that took the place of another was made later.
 */
static bool same_file(const struct statx *a, const struct statx *b)
{
	return file_same(a, b) && a->stx_size == b->stx_size &&
	    a->stx_ctime.tv_sec == b->stx_ctime.tv_sec &&
	    a->stx_ctime.tv_nsec == b->stx_ctime.tv_nsec;
}

static int append_base_file(
    struct session *s, const char *name, const struct statx *st, struct err *e)
{
	struct session_base_file *files =
	    reallocarray(s->base_files, s->base_files_n + 1, sizeof(*files));
	char *copy = NULL;

	if (files == NULL)
		return err_nomem(e);
	s->base_files = files;
	copy = strdup(name);
	if (copy == NULL)
		return err_nomem(e);
	s->base_files[s->base_files_n++] =
	    (struct session_base_file){ .name = copy, .st = *st };
	return 0;
}

int session_use_base_file(
    struct session *s, const char *filename, int fd, struct err *e)
{
	struct statx here;
	struct statx there;
	bool found = false;
	int rc = 0;

	if (s->base_fd < 0) {
		return err_set(e, ERR_INVALID,
		    "'%s': the session was opened without a base", filename);
	}
	rc = file_stat_fd(fd, &here, filename, e);
	if (rc == 0) {
		rc = file_stat_at(
		    s->base_fd, filename, &there, &found, filename, e);
	}
	if (rc < 0)
		return rc;
	if (!found || !same_file(&here, &there))
		return base_lost(s, "changed", e);
	return append_base_file(s, filename, &here, e);
}

/*
 * I2, the last clause: our index files are visible now, and we hold the tree
 * lock, so GC is not listing.  If the base stands, a listing to come shows it
 * or us, or both.  If it was removed, by a program that takes no lock of ours
 * (PBS's prune), GC may have listed neither: we withdraw.  It is looked up
 * from the root: what was moved away is not where it will be looked for.
 */
static int check_base(struct session *s, struct err *e)
{
	struct err why = ERR_INIT;
	struct statx here;
	struct statx there;
	bool found = false;
	int fd = -1;
	int rc = 0;

	if (s->opts.base == NULL)
		return 0;
	rc = tree_open_snapshot(s->ds, &s->base, &fd, &why);
	if (rc == ERR_NOTFOUND)
		return base_lost(s, "was removed", e);
	if (rc == 0)
		rc = file_stat_fd(fd, &there, "base", &why);
	if (rc == 0)
		rc = file_stat_fd(s->base_fd, &here, "base", &why);
	if (rc == 0) {
		rc = file_stat_at(fd, BACKUP_MANIFEST, &(struct statx){ 0 },
		    &found, "base", &why);
	}
	file_close(&fd);
	if (rc < 0) {
		*e = why;
		return rc;
	}
	if (!file_same(&here, &there))
		return base_lost(s, "was replaced", e);
	if (!found)
		return base_lost(s, "was removed", e);
	return 0;
}

static int check_base_files(struct session *s, struct err *e)
{
	for (size_t i = 0; i < s->base_files_n; i++) {
		const struct session_base_file *f = &s->base_files[i];
		struct statx st;
		bool found = false;
		int rc =
		    file_stat_at(s->base_fd, f->name, &st, &found, f->name, e);

		if (rc < 0)
			return rc;
		if (!found || !same_file(&f->st, &st))
			return base_lost(s, "changed", e);
	}
	return 0;
}

static int file_references(struct session *s, const char *name,
    const struct digest *d, bool *ret, struct err *e)
{
	char shown[CAIRNDIR_SHOWN];
	int fd = -1;
	int rc = file_open_regular(
	    s->dir_fd, name, &fd, NULL, session_shown(s, name, shown), e);

	if (rc == 0)
		rc = s->opts.references(fd, name, d, ret, e);
	file_close(&fd);
	return rc;
}

/* A digest that was found damaged since we read the list: do we need it? */
static int check_damaged(void *ctx, const struct digest *d, struct err *e)
{
	struct session *s = ctx;
	char hex[DIGEST_HEX_SIZE];

	for (size_t i = 0; i < s->files_n; i++) {
		const char *name = s->files[i].name;
		bool needed = false;
		int rc = 0;

		if (backup_file_kind(name) != BACKUP_FILE_BLOB)
			rc = file_references(s, name, d, &needed, e);
		if (rc < 0)
			return rc;
		if (needed) {
			digest_hex(d, hex);
			return err_set(e, ERR_BUSY,
			    "chunk %s, which '%s' references, was found "
			    "missing or damaged meanwhile: the backup has to "
			    "be repeated, and stores it anew",
			    hex, name);
		}
	}
	return 0;
}

/* Not over another file; the lock of the directory is ours. */
static int rename_new(
    const struct session *s, const char *from, const char *to, struct err *e)
{
	char shown[CAIRNDIR_SHOWN];

	return file_rename_new(
	    s->dir_fd, from, to, session_shown(s, to, shown), e);
}

/* The manifest, complete but for its place. */
static int encode_manifest(
    const struct session *s, struct buf *out, struct err *e)
{
	struct manifest m = MANIFEST_INIT;
	struct session_stats stats;
	int rc = manifest_new(&s->id, &m, e);

	session_stats(s, &stats);
	for (size_t i = 0; rc == 0 && i < s->files_n; i++) {
		const struct session_file *f = &s->files[i];

		rc = manifest_add(&m, f->name, f->size, &f->csum, e);
	}
	if (rc == 0 && s->opts.notes != NULL)
		rc = manifest_set_notes(&m, s->opts.notes, e);
	if (rc == 0) {
		rc = manifest_set_upload_stats(&m, stats.chunks, stats.bytes,
		    stats.stored_bytes, stats.chunks - stats.new_chunks, e);
	}
	if (rc == 0)
		rc = manifest_encode(&m, out, e);
	manifest_release(&m);
	return rc;
}

static int sync_dirs(const struct session *s, struct err *e)
{
	char shown[CAIRNDIR_SHOWN];
	int rc = file_sync(s->dir_fd, session_shown(s, "", shown), e);

	if (rc == 0)
		rc = file_sync(s->group_fd, shown, e);
	return rc;
}

/*
 * Step 10, under the tree lock.  The order is the point: all index files are
 * seen (and will be listed) before anything is checked, all is checked before
 * the manifest is, and nothing is said to be done before it is on disk.
 */
static int publish(struct session *s, const struct buf *manifest, struct err *e)
{
	char shown[CAIRNDIR_SHOWN];
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < s->files_n; i++)
		rc = rename_new(s, s->files[i].tmp, s->files[i].name, e);
	/* No power cut leaves the manifest without what it lists. */
	if (rc == 0)
		rc = file_sync(s->dir_fd, session_shown(s, "", shown), e);
	if (rc == 0)
		rc = check_base(s, e);
	if (rc == 0)
		rc = check_base_files(s, e);
	if (rc == 0)
		rc = damage_refresh(s->ds, s->damage, check_damaged, s, e);
	if (rc == 0)
		rc = registration_check(s->registration, e);
	if (rc == 0) {
		rc = write_new(
		    s, MANIFEST_TMP, manifest->data, manifest->len, e);
	}
	if (rc == 0)
		rc = sync_file(s, MANIFEST_TMP, e);
	if (rc == 0)
		rc = rename_new(s, MANIFEST_TMP, BACKUP_MANIFEST, e);
	if (rc == 0)
		rc = sync_dirs(s, e);
	return rc;
}

/*
 * What sync-level asks for, before the tree lock: it may take minutes.  Level
 * `file` too: a chunk that was there may be another session's, not synced.
 */
static int sync_chunks(const struct session *s, struct err *e)
{
	int rc = -1;

	if (s->opts.sync_level == SYNC_NONE)
		return 0;
	do {
		rc = sysio_syncfs(s->ds->root_fd);
	} while (rc < 0 && errno == EINTR);
	if (rc < 0)
		return err_sys(e, "sync the file system of '%s'", s->ds->path);
	return 0;
}

/* Steps 8 to 10. */
static int commit(struct session *s, struct err *e)
{
	struct buf manifest = BUF_INIT;
	int rc = task_check(s->task, e);

	if (rc == 0)
		rc = registration_beat(s->registration, e);
	if (rc == 0)
		rc = encode_manifest(s, &manifest, e);
	if (rc == 0)
		rc = sync_chunks(s, e);
	if (rc == 0) {
		rc = locks_wait_shared(
		    s->ds, LOCK_BYTE_TREE, s->command, s->task, e);
		s->tree = rc == 0;
	}
	if (rc == 0)
		rc = publish(s, &manifest, e);
	buf_release(&manifest);
	return rc;
}

/* So that GC notices if it is not there one day (I5).  The snapshot is made: a
 * failure is told, and is none of it. */
static void note_added(struct session *s)
{
	struct err why = ERR_INIT;

	if (snapshot_record_added(s->ds, &s->id, &why) < 0)
		task_message(s->task, TASK_WARNING,
		    "%s: the snapshot is made, but a garbage collection would "
		    "not notice if it were missing",
		    why.msg);
	(void)err_forget(&why);
}

int session_commit(struct session *s, struct err *e)
{
	int rc = 0;

	if (!s->opts.dry_run)
		rc = commit(s, e);
	if (rc == 0 && !s->opts.dry_run)
		note_added(s);
	if (rc < 0) {
		session_abort(s);
	} else {
		session_release(s, false);
	}
	return rc;
}
