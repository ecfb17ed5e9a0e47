/* SPDX-License-Identifier: MIT */
#include "index/verify.h"

#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "datastore/base/clock.h"
#include "datastore/base/file.h"
#include "datastore/base/text.h"
#include "datastore/blob.h"
#include "datastore/snapshot.h"
#include "datastore/tree.h"
#include "index/verify_internal.h"

/* Chunks remembered as sound: 64 MiB. */
#define REMEMBERED ((size_t)1 << 21)

/* What one snapshot is worth in the progress. */
#define SNAPSHOT_WEIGHT 1000U

/* Findings of a snapshot that are told and kept; more would tell nobody
 * anything.  Fewer once all that are kept take this many bytes. */
#define REASONS_MAX 1000U
#define REASONS_FEW 10U
#define REASONS_BYTES ((size_t)16 << 20)

static uint64_t reasons_max(const struct verify *v)
{
	return v->reasons_kept < REASONS_BYTES ? REASONS_MAX : REASONS_FEW;
}

static int add_reason(struct verify *v, const char *text, struct err *e)
{
	if (!v->untold)
		task_message(v->task, TASK_WARNING, "%s", text);
	return buf_append_fmt(&v->reasons, e, "%s\n", text);
}

int verify_reason(struct verify *v, struct err *e, const char *fmt, ...)
{
	char text[ERR_MSG_SIZE + BACKUP_PATH_SIZE];
	va_list ap;

	v->reasons_n++;
	if (v->reasons_n > reasons_max(v))
		return 0;
	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	return add_reason(v, text, e);
}

int verify_finding(
    struct verify *v, int rc, const struct err *why, struct err *e)
{
	if (rc != ERR_NOMEM && rc != ERR_CANCELLED)
		return verify_reason(v, e, "%s", why->msg);
	*e = *why;
	return rc;
}

void verify_report(struct verify *v)
{
	struct task_count counts[] = {
		{ "snapshots", "snapshots", v->snapshots_done, v->snapshots_n,
		    TASK_UNIT_COUNT, "snapshot" },
		{ "chunks", "chunks", v->result.chunks, 0, TASK_UNIT_COUNT,
		    "chunk" },
		{ "bytes", "read", v->result.bytes, 0, TASK_UNIT_BYTES, NULL },
	};
	struct task_progress p = {
		.phase = "verify",
		.unit = TASK_UNIT_COUNT,
		.done = (uint64_t)v->snapshots_done * SNAPSHOT_WEIGHT,
		.total = (uint64_t)v->snapshots_n * SNAPSHOT_WEIGHT,
		.counts = counts,
		.counts_n = sizeof(counts) / sizeof(counts[0]),
	};

	if (v->entries > 0 && v->snapshots_done < v->snapshots_n) {
		p.done += (uint64_t)((long double)v->entries_done *
		    (SNAPSHOT_WEIGHT - 1) / (long double)v->entries);
	}
	task_progress(v->task, &p);
}

/* One file of the snapshot in hand. */
struct in_hand {
	const struct backup_snapshot *id;
	int dir_fd;
	const struct manifest *m;
	char path[BACKUP_PATH_SIZE];     /* the snapshot's */
	char manifest[BACKUP_PATH_SIZE]; /* its manifest's */
};

static void shown_file(
    const struct in_hand *h, const char *filename, char out[BACKUP_PATH_SIZE])
{
	if ((size_t)snprintf(out, BACKUP_PATH_SIZE, "%s/%s", h->path,
		filename) >= BACKUP_PATH_SIZE)
		memcpy(out + BACKUP_PATH_SIZE - 4, "...", 4);
}

static int compare_listed(struct verify *v, const char *shown,
    const struct manifest_file *f, uint64_t size, const struct digest *csum,
    struct err *e)
{
	int rc = 0;

	if (size != f->size || !digest_equal(csum, &f->csum))
		v->result.damaged_files++;
	if (size != f->size) {
		rc = verify_reason(v, e,
		    "'%s': size %" PRIu64 ", '%s' lists %" PRIu64, shown, size,
		    v->manifest_shown, f->size);
	}
	if (rc == 0 && !digest_equal(csum, &f->csum)) {
		char listed[DIGEST_HEX_SIZE];
		char found[DIGEST_HEX_SIZE];

		digest_hex(&f->csum, listed);
		digest_hex(csum, found);
		rc = verify_reason(v, e, "'%s': checksum %s, '%s' lists %s",
		    shown, found, v->manifest_shown, listed);
	}
	return rc;
}

/* A file that is listed and can not be opened. */
static int not_opened(struct verify *v, const struct manifest_file *f, int rc,
    const struct err *why, struct err *e)
{
	v->result.damaged_files++;
	if (rc != ERR_NOTFOUND || f == NULL)
		return verify_finding(v, rc, why, e);
	return verify_reason(v, e, "'%s' lists '%s', which does not exist",
	    v->manifest_shown, f->filename);
}

/* Encrypted blobs: what can be seen without a key. */
static int check_blob_content(const struct verify *v,
    const struct manifest_file *f, const struct buf *raw, struct err *e)
{
	enum blob_kind kind = BLOB_PLAIN;
	struct codec *codec = NULL;
	struct buf plain = BUF_INIT;
	int rc = blob_check(raw->data, raw->len, &kind, e);

	if (rc < 0)
		return rc;
	if (blob_is_encrypted(kind) != (f->crypt_mode == CRYPT_ENCRYPT)) {
		return err_set(e, ERR_CORRUPT,
		    "%sencrypted, '%s' lists crypt-mode '%s'",
		    blob_is_encrypted(kind) ? "" : "not ", v->manifest_shown,
		    crypt_mode_name(f->crypt_mode));
	}
	if (blob_is_encrypted(kind))
		return 0;
	rc = codec_new(&codec, e);
	if (rc == 0) {
		rc = blob_decode(
		    codec, raw->data, raw->len, BLOB_MAX_PLAIN, &plain, e);
	}
	codec_free(codec);
	buf_release(&plain);
	return rc;
}

static int verify_blob(struct verify *v, const struct in_hand *h,
    const struct manifest_file *f, struct err *e)
{
	char shown[BACKUP_PATH_SIZE];
	struct buf raw = BUF_INIT;
	struct digest csum;
	uint64_t listed = 0;
	struct err why = ERR_INIT;
	int rc = 0;

	shown_file(h, f->filename, shown);
	rc = file_read_at(h->dir_fd, f->filename,
	    (size_t)BLOB_MAX_PLAIN + BLOB_ENCRYPTED_HEADER_SIZE, &raw, shown,
	    &why);
	if (rc < 0) {
		rc = not_opened(v, f, rc, &why, e);
		goto out;
	}
	v->result.bytes += raw.len;
	listed = v->result.damaged_files;
	rc = digest_of(raw.data, raw.len, &csum, e);
	if (rc == 0)
		rc = compare_listed(v, shown, f, raw.len, &csum, e);
	if (rc < 0)
		goto out;
	rc = check_blob_content(v, f, &raw, &why);
	if (rc < 0) {
		/* Once, whatever is wrong with it. */
		v->result.damaged_files = listed + 1;
		err_prefix(&why, "'%s'", shown);
		rc = verify_finding(v, rc, &why, e);
	}
out:
	buf_release(&raw);
	return rc;
}

/* f: what the manifest says of it; NULL: there is no manifest to be read. */
static int verify_index(struct verify *v, const struct in_hand *h,
    const char *filename, const struct manifest_file *f, struct err *e)
{
	enum verify_crypt crypt = VERIFY_CRYPT_ANY;
	char shown[BACKUP_PATH_SIZE];
	struct idx *ix = NULL;
	struct err why = ERR_INIT;
	int rc = 0;

	shown_file(h, filename, shown);
	rc = idx_open(h->dir_fd, filename, shown, &ix, &why);
	if (rc == 0)
		rc = idx_check(ix, &why);
	if (rc < 0) {
		rc = not_opened(v, f, rc, &why, e);
		goto out;
	}
	if (f != NULL) {
		crypt = f->crypt_mode == CRYPT_ENCRYPT ? VERIFY_CRYPT_YES
						       : VERIFY_CRYPT_NO;
		rc = compare_listed(
		    v, shown, f, idx_info(ix)->size, &idx_info(ix)->csum, e);
	}
	if (rc == 0)
		rc = idx_rewind(ix, e);
	/* The findings of its chunks name it. */
	v->file_shown = shown;
	v->ranges_n = 0;
	if (rc == 0)
		rc = verify_chunks(v, ix, crypt, e);
	v->file_shown = NULL;
	if (rc == 0 && f != NULL)
		rc = verify_names(v, h->id, h->dir_fd, h->m, filename, e);
out:
	idx_close(ix);
	return rc;
}

/* For the progress only: a broken one counts nothing. */
static uint64_t count_entries(const struct in_hand *h)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < h->m->files_n; i++) {
		const char *name = h->m->files[i].filename;
		struct err ignored = ERR_INIT;
		struct idx *ix = NULL;

		if (backup_file_kind(name) == BACKUP_FILE_BLOB ||
		    idx_open(h->dir_fd, name, name, &ix, &ignored) < 0)
			continue;
		sum += idx_info(ix)->count;
		idx_close(ix);
	}
	return sum;
}

/* An archive that the manifest does not list is none of the snapshot's. */
static int check_unlisted(
    struct verify *v, const struct in_hand *h, struct err *e)
{
	char **names = NULL;
	size_t n = 0;
	char shown[4 * NAME_MAX];
	struct err why = ERR_INIT;
	int rc = file_list(h->dir_fd, &names, &n, h->path, &why);

	if (rc < 0)
		return verify_finding(v, rc, &why, e);
	for (size_t i = 0; i < n && rc == 0; i++) {
		if (backup_file_kind(names[i]) == BACKUP_FILE_NONE ||
		    strcmp(names[i], BACKUP_MANIFEST) == 0 ||
		    strcmp(names[i], BACKUP_CLIENT_LOG) == 0 ||
		    manifest_find(h->m, names[i]) != NULL)
			continue;
		rc = verify_reason(v, e,
		    "'%s/%s' is not listed in the manifest: it was "
		    "renamed or added by hand; rename it back, or "
		    "remove it",
		    h->path, text_name(shown, sizeof(shown), names[i]));
	}
	file_list_free(names);
	return rc;
}

/* f: as of verify_index. */
static int verify_file(struct verify *v, const struct in_hand *h,
    const char *filename, const struct manifest_file *f, struct err *e)
{
	uint64_t findings = v->reasons_n;
	uint64_t named = v->files_n + v->files_more;
	int rc = f != NULL && backup_file_kind(filename) == BACKUP_FILE_BLOB
	    ? verify_blob(v, h, f, e)
	    : verify_index(v, h, filename, f, e);

	if (rc == 0 && v->reasons_n > findings &&
	    v->files_n + v->files_more == named)
		rc = verify_name_whole(v, filename, e);
	return rc < 0 ? rc : task_check(v->task, e);
}

static int verify_files(
    struct verify *v, const struct in_hand *h, struct err *e)
{
	int rc = 0;

	v->entries = count_entries(h);
	v->entries_done = 0;
	for (size_t i = 0; i < h->m->files_n && rc == 0; i++)
		rc = verify_file(
		    v, h, h->m->files[i].filename, &h->m->files[i], e);
	if (rc == 0)
		rc = check_unlisted(v, h, e);
	return rc < 0 ? rc : verify_catalogs(v, h->id, h->dir_fd, h->m, e);
}

/*
 * Its manifest can not be read: what it references is damaged or not all the
 * same, and garbage collection keeps it.
 */
static int verify_without_manifest(
    struct verify *v, const struct in_hand *h, struct err *e)
{
	char **names = NULL;
	size_t n = 0;
	struct err why = ERR_INIT;
	int rc = file_list(h->dir_fd, &names, &n, h->path, &why);

	if (rc < 0)
		return verify_finding(v, rc, &why, e);
	v->entries = 0;
	for (size_t i = 0; i < n && rc == 0; i++) {
		enum backup_file_kind kind = backup_file_kind(names[i]);

		if (kind == BACKUP_FILE_FIDX || kind == BACKUP_FILE_DIDX)
			rc = verify_file(v, h, names[i], NULL, e);
	}
	file_list_free(names);
	return rc;
}

static void forget_files(struct verify *v)
{
	v->files = NULL;
	v->files_n = 0;
	v->files_cap = 0;
	v->files_more = 0;
}

static int add_hurt(
    struct verify *v, const struct backup_snapshot *id, struct err *e)
{
	struct verify_hurt *grown =
	    reallocarray(v->result.hurt, v->result.hurt_n + 1, sizeof(*grown));
	char *reasons = NULL;

	if (grown == NULL)
		return err_nomem(e);
	v->result.hurt = grown;
	v->reasons_kept += v->reasons.len;
	reasons = buf_detach_str(&v->reasons, e);
	if (reasons == NULL)
		return e->code;
	grown[v->result.hurt_n].id = *id;
	grown[v->result.hurt_n].reasons = reasons;
	grown[v->result.hurt_n].files = v->files;
	grown[v->result.hurt_n].files_n = v->files_n;
	grown[v->result.hurt_n].files_more = v->files_more;
	forget_files(v);
	v->result.hurt_n++;
	return 0;
}

static int set_state(void *ctx, struct manifest *m, struct err *e)
{
	const bool *ok = ctx;

	return manifest_set_verified(
	    m, *ok ? VERIFY_OK : VERIFY_FAILED, clock_now_s(), e);
}

/* The result in the manifest is a help, not the result: failing to write it
 * is a warning. */
static void record_state(struct verify *v, const struct in_hand *h, bool ok)
{
	struct err why = ERR_INIT;

	if (!verify_records(v))
		return;
	if (snapshot_update_manifest(
		v->ds, h->id, h->dir_fd, set_state, &ok, &why) < 0) {
		task_message(v->task, TASK_WARNING,
		    "the result could not be written: %s", why.msg);
	}
}

/* The findings of a snapshot are told: keep them. */
static int end_snapshot(
    struct verify *v, const struct backup_snapshot *id, struct err *e)
{
	char text[64];
	int rc = 0;

	if (v->reasons_n > reasons_max(v)) {
		(void)snprintf(text, sizeof(text),
		    "and %" PRIu64 " more finding%s",
		    v->reasons_n - reasons_max(v),
		    text_plural(v->reasons_n - reasons_max(v), "", "s"));
		/* They are counted at the end. */
		v->untold = v->chunks_untold > 0;
		rc = add_reason(v, text, e);
		v->untold = false;
	}
	if (rc == 0 && v->reasons_n > 0)
		rc = add_hurt(v, id, e);
	return rc;
}

static int verify_held(struct verify *v, const struct backup_snapshot *id,
    int dir_fd, struct err *e)
{
	struct manifest m = MANIFEST_INIT;
	struct in_hand h = { .id = id, .dir_fd = dir_fd, .m = &m };
	struct err why = ERR_INIT;
	int rc = tree_read_manifest(v->ds, id, dir_fd, &m, &why);
	bool readable = rc == 0;

	if (rc == ERR_NOTFOUND) {
		v->result.unfinished++;
		return 0;
	}
	backup_snapshot_path(id, h.path);
	shown_file(&h, BACKUP_MANIFEST, h.manifest);
	v->manifest_shown = h.manifest;
	if (readable) {
		rc = verify_files(v, &h, e);
	} else {
		v->result.damaged_files++;
		rc = verify_finding(v, rc, &why, e);
	}
	if (rc == 0 && !readable)
		rc = verify_without_manifest(v, &h, e);
	if (rc == 0 && readable)
		record_state(v, &h, v->reasons_n == 0);
	if (rc == 0)
		rc = end_snapshot(v, id, e);
	v->result.snapshots += rc == 0;
	v->manifest_shown = NULL;
	manifest_release(&m);
	return rc;
}

static int verify_one(
    struct verify *v, const struct backup_snapshot *id, struct err *e)
{
	struct snapshot_hold hold = SNAPSHOT_HOLD_INIT;
	struct err why = ERR_INIT;
	int rc = snapshot_hold(v->ds, id, LOCK_SHARED, &hold, &why);

	buf_reset(&v->reasons);
	v->reasons_n = 0;
	if (rc == ERR_NOTFOUND)
		return 0; /* removed since the snapshots were listed */
	if (rc == ERR_BUSY) {
		v->result.busy++;
		return 0;
	}
	if (rc < 0) {
		rc = verify_finding(v, rc, &why, e);
		if (rc == 0)
			rc = end_snapshot(v, id, e);
		v->result.snapshots += rc == 0;
		return rc;
	}
	rc = verify_held(v, id, hold.fd, e);
	snapshot_release(&hold);
	return rc;
}

/* The list shrinks to what is damaged now. */
static void compact_damage(struct verify *v)
{
	struct err why = ERR_INIT;

	if (damage_compact(v->ds, &why) < 0)
		task_message(v->task, TASK_WARNING, "%s", why.msg);
}

int verify_run(struct datastore *ds, const struct backup_snapshot *snapshots,
    size_t n, struct task *task, struct verify_result *ret, struct err *e)
{
	struct verify v = { .ds = ds, .task = task, .snapshots_n = n };
	int rc = verify_records(&v) ? datastore_ensure_cairn(ds, e) : 0;

	if (rc == 0)
		rc = damage_read(ds, &v.damage, e);
	if (rc == 0)
		(void)damage_odd(v.damage, ds, task);
	if (rc == 0)
		rc = seenset_new(REMEMBERED, &v.good, e);
	if (rc == 0)
		rc = verify_chunks_begin(&v, e);
	for (size_t i = 0; i < n && rc == 0; i++) {
		verify_report(&v);
		rc = verify_one(&v, &snapshots[i], e);
		v.snapshots_done = i + 1;
		v.entries = 0;
	}
	if (rc == 0) {
		verify_report(&v);
		verify_tell_rest(&v);
		if (verify_records(&v))
			compact_damage(&v);
	}
	verify_chunks_end(&v);
	seenset_free(v.good);
	digestset_release(&v.hurt);
	digestset_release(&v.catalogs);
	damage_free(v.damage);
	buf_release(&v.missing);
	buf_release(&v.reasons);
	free(v.ranges);
	verify_files_release(v.files, v.files_n);
	if (rc < 0)
		verify_result_release(&v.result);
	*ret = v.result;
	return rc;
}

void verify_result_release(struct verify_result *r)
{
	for (size_t i = 0; i < r->hurt_n; i++) {
		free(r->hurt[i].reasons);
		verify_files_release(r->hurt[i].files, r->hurt[i].files_n);
	}
	free(r->hurt);
	r->hurt = NULL;
	r->hurt_n = 0;
}
