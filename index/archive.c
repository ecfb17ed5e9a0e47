/* SPDX-License-Identifier: MIT */
#include "index/archive.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "datastore/base/file.h"
#include "datastore/base/nearest.h"
#include "datastore/base/text.h"
#include "datastore/blob.h"
#include "index/archive_internal.h"

#define SHOWN 256

#define ENTRIES 1024 /* read from the index at a time */

#define LISTED_MAX 10U /* archives in a message */

/* "root.img" of "root.img.fidx", as a person types it. */
static void stem_of(const char *filename, char out[BACKUP_ID_MAX + 1])
{
	size_t n = strlen(filename);

	/* All three suffixes have five characters. */
	if (backup_file_kind(filename) != BACKUP_FILE_NONE)
		n -= sizeof(".fidx") - 1;
	(void)snprintf(out, BACKUP_ID_MAX + 1, "%.*s", (int)n, filename);
}

int archive_not_found(const struct manifest *m, const char *name,
    const char *shown, struct err *e)
{
	struct buf list = BUF_INIT;
	struct err ignored = ERR_INIT; /* a list cut short is no harm */
	char text[SHOWN];
	const char *names = NULL;
	struct nearest n;
	int rc = 0;

	nearest_init(&n, name);
	for (size_t i = 0; i < m->files_n && rc == 0; i++) {
		char stem[BACKUP_ID_MAX + 1];

		stem_of(m->files[i].filename, stem);
		nearest_try(&n, stem);
		if (i < LISTED_MAX)
			rc = buf_append_fmt(
			    &list, &ignored, "%s%s", i > 0 ? ", " : "", stem);
	}
	if (rc == 0 && m->files_n > LISTED_MAX)
		rc = buf_append_fmt(
		    &list, &ignored, " and %zu more", m->files_n - LISTED_MAX);
	names = buf_cstr(&list, &ignored);
	rc = err_set(e, ERR_NOTFOUND, "%s: no archive '%s'%s%s%s is: %s", shown,
	    text_name(text, sizeof(text), name),
	    nearest_best(&n) != NULL ? ", did you mean '" : "",
	    nearest_best(&n) != NULL ? nearest_best(&n) : "",
	    nearest_best(&n) != NULL ? "'? There" : "; there",
	    names != NULL ? names : "");
	buf_release(&list);
	return rc;
}

/* "root.img" is root.img.fidx. */
static bool is_stem(const char *filename, const char *name)
{
	size_t n = strlen(name);

	/* All three suffixes have five characters. */
	return strlen(filename) == n + sizeof(".fidx") - 1 &&
	    strncmp(filename, name, n) == 0;
}

/* A file's whole name is itself, whatever another one's stem is. */
static int find_file(const struct manifest *m, const char *name,
    const char *shown, const struct manifest_file **ret, struct err *e)
{
	const struct manifest_file *found = manifest_find(m, name);

	for (size_t i = 0; i < m->files_n && found == NULL; i++) {
		if (is_stem(m->files[i].filename, name))
			found = &m->files[i];
	}
	if (found == NULL)
		return archive_not_found(m, name, shown, e);
	for (const struct manifest_file *f = found + 1;
	     f < m->files + m->files_n; f++) {
		if (is_stem(f->filename, name) &&
		    is_stem(found->filename, name)) {
			return err_set(e, ERR_INVALID,
			    "%s: '%s' is '%s' or '%s'; want the whole name",
			    shown, name, found->filename, f->filename);
		}
	}
	*ret = found;
	return 0;
}

static int check_listed(const struct archive *a, const struct manifest_file *f,
    uint64_t size, const struct digest *csum, struct err *e)
{
	char listed[DIGEST_HEX_SIZE];
	char found[DIGEST_HEX_SIZE];

	if (size != f->size) {
		return err_set(e, ERR_CORRUPT,
		    "'%s': size %" PRIu64 ", " BACKUP_MANIFEST
		    " lists %" PRIu64,
		    a->shown, size, f->size);
	}
	if (digest_equal(csum, &f->csum))
		return 0;
	digest_hex(&f->csum, listed);
	digest_hex(csum, found);
	return err_set(e, ERR_CORRUPT,
	    "'%s': checksum %s, " BACKUP_MANIFEST " lists %s", a->shown, found,
	    listed);
}

static int open_index(
    struct archive *a, int dir_fd, const struct manifest_file *f, struct err *e)
{
	const struct idx_info *info = NULL;
	int rc = idx_open(dir_fd, a->filename, a->shown, &a->idx, e);

	if (rc < 0)
		return rc;
	info = idx_info(a->idx);
	a->size = info->size;
	return check_listed(a, f, info->size, &info->csum, e);
}

static int open_blob(
    struct archive *a, int dir_fd, const struct manifest_file *f, struct err *e)
{
	struct buf raw = BUF_INIT;
	struct codec *codec = NULL;
	struct digest csum;
	char shown[BACKUP_PATH_SIZE + 2];
	int rc = file_read_at(dir_fd, a->filename,
	    (size_t)BLOB_MAX_PLAIN + BLOB_HEADER_SIZE, &raw, a->shown, e);

	if (rc == 0)
		rc = digest_of(raw.data, raw.len, &csum, e);
	if (rc == 0)
		rc = check_listed(a, f, raw.len, &csum, e);
	if (rc == 0)
		rc = codec_new(&codec, e);
	if (rc == 0) {
		rc = blob_decode(
		    codec, raw.data, raw.len, BLOB_MAX_PLAIN, &a->content, e);
		if (rc < 0) {
			(void)snprintf(shown, sizeof(shown), "'%s'", a->shown);
			err_prefix(e, "%s", shown);
		}
	}
	/* More than the format allows. */
	if (rc == ERR_LIMIT)
		e->code = rc = ERR_CORRUPT;
	a->size = a->content.len;
	codec_free(codec);
	buf_release(&raw);
	return rc;
}

int archive_open(struct datastore *ds, const struct backup_snapshot *s,
    const struct snapshot_hold *hold, const struct manifest *m,
    const char *name, struct archive **ret, struct err *e)
{
	const struct manifest_file *f = NULL;
	char path[BACKUP_PATH_SIZE];
	struct archive *a = NULL;
	int rc = 0;

	backup_snapshot_path(s, path);
	rc = find_file(m, name, path, &f, e);
	if (rc < 0)
		return rc;
	assert(f != NULL);
	if (f->crypt_mode == CRYPT_ENCRYPT) {
		return err_set(e, ERR_UNSUPPORTED,
		    "'%s/%s' is encrypted; this version has no keys", path,
		    f->filename);
	}
	a = calloc(1, sizeof(*a));
	if (a == NULL)
		return err_nomem(e);
	a->fd = -1;
	a->ds = ds;
	a->kind = backup_file_kind(f->filename);
	(void)snprintf(a->filename, sizeof(a->filename), "%s", f->filename);
	if ((size_t)snprintf(a->shown, sizeof(a->shown), "%s/%s", path,
		f->filename) >= sizeof(a->shown)) {
		rc = err_set(e, ERR_LIMIT, "'%s': path too long", path);
	} else if (a->kind == BACKUP_FILE_BLOB) {
		rc = open_blob(a, hold->fd, f, e);
	} else {
		rc = open_index(a, hold->fd, f, e);
	}
	/* The manifest lists it, so its absence is damage. */
	if (rc == ERR_NOTFOUND) {
		rc = err_set(e, ERR_CORRUPT,
		    "'%s/" BACKUP_MANIFEST "' lists '%s', which does not exist",
		    path, f->filename);
	}
	if (rc < 0) {
		archive_close(a);
		return rc;
	}
	*ret = a;
	return 0;
}

int archive_of_file(int fd, const char *filename, const char *shown,
    struct archive **ret, struct err *e)
{
	struct statx st = { .stx_mask = 0 };
	struct archive *a = NULL;
	int rc = file_stat_fd(fd, &st, shown, e);

	if (rc < 0)
		return rc;
	a = calloc(1, sizeof(*a));
	if (a == NULL)
		return err_nomem(e);
	a->kind = backup_file_kind(filename);
	a->size = st.stx_size;
	a->fd = fd;
	(void)snprintf(a->filename, sizeof(a->filename), "%s", filename);
	(void)snprintf(a->shown, sizeof(a->shown), "%s", shown);
	*ret = a;
	return 0;
}

void archive_close(struct archive *a)
{
	if (a == NULL)
		return;
	file_close(&a->fd);
	idx_close(a->idx);
	buf_release(&a->content);
	free(a);
}

void archive_skip_damage(struct archive *a, const struct archive_gaps *gaps)
{
	a->gaps = gaps;
}

uint64_t archive_size(const struct archive *a)
{
	return a->size;
}

const char *archive_shown(const struct archive *a)
{
	return a->shown;
}

const char *archive_filename(const struct archive *a)
{
	return a->filename;
}

struct datastore *archive_datastore(const struct archive *a)
{
	return a->ds;
}

struct idx *archive_idx(struct archive *a)
{
	return a->idx;
}

void archive_plan_chunks(const struct archive *a, unsigned cpus,
    unsigned *ret_threads, size_t *ret_slots)
{
	archive_plan(a->checked ? a->longest : CHUNK_MAX_PLAIN, cpus,
	    ret_threads, ret_slots);
}

int archive_check(struct archive *a, struct task *task, struct err *e)
{
	struct idx_entry *entries = NULL;
	uint64_t longest = 1;
	uint64_t end = 0;
	size_t n = 0;
	int rc = 0;

	if (a->idx == NULL || a->checked)
		return 0;
	entries = calloc(ENTRIES, sizeof(*entries));
	if (entries == NULL)
		return err_nomem(e);
	rc = idx_rewind(a->idx, e);
	while (rc == 0) {
		rc = idx_next(a->idx, entries, ENTRIES, &n, e);
		if (rc < 0 || n == 0)
			break;
		for (size_t i = 0; i < n; i++) {
			if (entries[i].end - end > longest)
				longest = entries[i].end - end;
			end = entries[i].end;
		}
		rc = task_check(task, e);
	}
	free(entries);
	if (rc < 0)
		return rc;
	a->longest = longest;
	a->checked = true;
	return 0;
}

/* CRC, length of the format, SHA-256. */
static int load_once(struct datastore *ds, struct archive_loader *l,
    const struct digest *d, struct buf *out, struct err *e)
{
	struct digest found;
	int rc = store_load(ds->store, d, &l->raw, e);

	if (rc == 0) {
		rc = blob_decode(
		    l->codec, l->raw.data, l->raw.len, CHUNK_MAX_PLAIN, out, e);
	}
	if (rc == ERR_LIMIT)
		e->code = rc = ERR_CORRUPT;
	if (rc == 0)
		rc = digest_of(out->data, out->len, &found, e);
	if (rc == 0 && !digest_equal(&found, d)) {
		rc = err_set(e, ERR_CORRUPT,
		    "the content has another digest than the name");
	}
	return rc;
}

int archive_load_chunk(struct datastore *ds, struct archive_loader *l,
    const struct digest *d, uint64_t want_size, struct buf *out, struct err *e)
{
	struct err first = ERR_INIT;
	int rc = load_once(ds, l, d, out, &first);

	/* What was read wrong once may be right the next time: memory and
	 * cables err, too.  Only what is wrong twice is the disk's. */
	if (rc == ERR_CORRUPT) {
		rc = load_once(ds, l, d, out, e);
	} else if (rc < 0) {
		*e = first;
	}
	l->bad = rc == ERR_CORRUPT;
	if (rc < 0 || out->len == want_size)
		return rc;
	return err_set(e, ERR_CORRUPT,
	    "%zu bytes of content, the index says %" PRIu64, out->len,
	    want_size);
}
