/* SPDX-License-Identifier: MIT */
/*
 * The part of manifest.h that makes and changes manifests.
 */
#include "datastore/manifest.h"

#include <assert.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "datastore/blob.h"
#include "datastore/compress.h"
#include "datastore/manifest_internal.h"

int manifest_new(
    const struct backup_snapshot *of, struct manifest *m, struct err *e)
{
	struct manifest fresh = MANIFEST_INIT;
	struct err failure = ERR_INIT;

	fresh.type = of->group.type;
	memcpy(fresh.id, of->group.id, sizeof(fresh.id));
	fresh.time = of->time;
	fresh.json = js_object();
	js_set_str(
	    fresh.json, KEY_TYPE, backup_type_name(fresh.type), &failure);
	js_set_str(fresh.json, KEY_ID, fresh.id, &failure);
	js_set_i64(fresh.json, KEY_TIME, fresh.time, &failure);
	js_set(fresh.json, KEY_FILES, js_array(), &failure);
	js_set_null(fresh.json, KEY_SIGNATURE, &failure);
	js_set(fresh.json, KEY_UNPROTECTED, js_object(), &failure);
	if (failure.code < 0) {
		manifest_release(&fresh);
		*e = failure;
		return failure.code;
	}
	manifest_release(m);
	*m = fresh;
	return 0;
}

/* The entry of a file that is not encrypted, in JSON. */
static struct js *file_to_json(const struct manifest_file *f, struct err *e)
{
	struct js *v = js_object();
	char csum[DIGEST_HEX_SIZE];

	digest_hex(&f->csum, csum);
	js_set_str(v, KEY_FILENAME, f->filename, e);
	js_set_str(v, KEY_CRYPT_MODE, crypt_mode_name(f->crypt_mode), e);
	js_set_u64(v, KEY_SIZE, f->size, e);
	js_set_str(v, KEY_CSUM, csum, e);
	return v;
}

/* Takes the name of f, on success. */
static int append_file(
    struct manifest *m, struct manifest_file *f, struct err *e)
{
	struct err failure = ERR_INIT;
	struct manifest_file *files = NULL;
	struct js *list = NULL;
	size_t n = 0;
	int rc = js_get_array(m->json, KEY_FILES, &list, &n, NULL, e);

	if (rc < 0)
		return rc;
	files = reallocarray(m->files, m->files_n + 1, sizeof(*files));
	if (files == NULL)
		return err_nomem(e);
	m->files = files;
	/* Last, since it can not be taken back: it is done or it is not. */
	js_append(list, file_to_json(f, &failure), &failure);
	if (failure.code < 0) {
		*e = failure;
		return failure.code;
	}
	m->files[m->files_n++] = *f;
	f->filename = NULL;
	return 0;
}

int manifest_add(struct manifest *m, const char *filename, uint64_t size,
    const struct digest *csum, struct err *e)
{
	struct manifest_file f = {
		.crypt_mode = CRYPT_NONE,
		.size = size,
		.csum = *csum,
	};
	int rc = manifest_check_filename(filename, ERR_INVALID, e);

	if (rc < 0)
		return rc;
	if (manifest_find(m, filename) != NULL) {
		return err_set(
		    e, ERR_EXISTS, "file '%s' is already listed", filename);
	}
	if (m->files_n >= MANIFEST_MAX_FILES) {
		return err_set(e, ERR_LIMIT,
		    "file '%s' would be more than the %u of a manifest",
		    filename, MANIFEST_MAX_FILES);
	}
	f.filename = strdup(filename);
	if (f.filename == NULL)
		return err_nomem(e);
	rc = append_file(m, &f, e);
	free(f.filename);
	return rc;
}

/* `unprotected`, which old files lack. */
static int get_unprotected(struct manifest *m, struct js **ret, struct err *e)
{
	struct err failure = ERR_INIT;
	struct js *v = NULL;
	bool found = false;
	int rc = js_get(m->json, KEY_UNPROTECTED, &v, &found, e);

	if (rc == 0 && !found) {
		js_set(m->json, KEY_UNPROTECTED, js_object(), &failure);
		if (failure.code < 0) {
			*e = failure;
			return failure.code;
		}
		rc = js_get(m->json, KEY_UNPROTECTED, &v, NULL, e);
	}
	if (rc == 0)
		*ret = v;
	return rc;
}

int manifest_set_notes(struct manifest *m, const char *notes, struct err *e)
{
	struct err failure = ERR_INIT;
	struct js *unprotected = NULL;
	char *copy = NULL;
	int rc = get_unprotected(m, &unprotected, e);

	if (rc < 0)
		return rc;
	if (notes == NULL || notes[0] == '\0') {
		js_remove(unprotected, KEY_NOTES);
	} else {
		copy = strdup(notes);
		if (copy == NULL)
			return err_nomem(e);
		js_set_str(unprotected, KEY_NOTES, notes, &failure);
	}
	if (failure.code < 0) {
		free(copy);
		*e = failure;
		return failure.code;
	}
	free(m->notes);
	m->notes = copy;
	return 0;
}

/* The machine's name up to the first dot, of what a node's may be made of. */
static void node_name(char out[HOST_NAME_MAX + 1])
{
	size_t n = 0;

	if (gethostname(out, HOST_NAME_MAX) < 0)
		out[0] = '\0';
	out[HOST_NAME_MAX] = '\0';
	for (; out[n] != '\0' && out[n] != '.'; n++) {
		char c = out[n];

		if (!(c >= '0' && c <= '9') && !(c >= 'a' && c <= 'z') &&
		    !(c >= 'A' && c <= 'Z'))
			out[n] = n == 0 ? 'x' : '-';
	}
	while (n > 0 && out[n - 1] == '-')
		n--;
	out[n] = '\0';
	if (n == 0)
		(void)snprintf(out, HOST_NAME_MAX, "localhost");
}

int manifest_set_verified(
    struct manifest *m, enum verify_outcome outcome, int64_t at, struct err *e)
{
	struct err failure = ERR_INIT;
	struct js *unprotected = NULL;
	struct js *state = NULL;
	char node[HOST_NAME_MAX + 1];
	char upid[HOST_NAME_MAX + 128];
	int rc = get_unprotected(m, &unprotected, e);

	if (rc < 0)
		return rc;
	assert(at >= 0);
	if (outcome == VERIFY_NONE) {
		js_remove(unprotected, KEY_VERIFY);
		m->verified = VERIFY_NONE;
		m->verified_at = 0;
		return 0;
	}
	node_name(node);
	/* The start of the process and the task's number mean nothing here:
	 * they lead to a task log of Proxmox Backup Server. */
	(void)snprintf(upid, sizeof(upid),
	    "UPID:%s:%08X:%08X:%08X:%08" PRIX64
	    ":verificationjob:cairn:root@pam:",
	    node, (unsigned)getpid(), 0U, 0U, (uint64_t)at);
	state = js_object();
	js_set_str(state, KEY_STATE,
	    outcome == VERIFY_OK ? STATE_OK : STATE_FAILED, &failure);
	js_set_str(state, KEY_UPID, upid, &failure);
	js_set(unprotected, KEY_VERIFY, state, &failure);
	if (failure.code < 0) {
		*e = failure;
		return failure.code;
	}
	m->verified = outcome;
	m->verified_at = at;
	return 0;
}

int manifest_set_upload_stats(struct manifest *m, uint64_t count,
    uint64_t bytes, uint64_t stored, uint64_t duplicates, struct err *e)
{
	struct err failure = ERR_INIT;
	struct js *unprotected = NULL;
	struct js *stats = NULL;
	int rc = get_unprotected(m, &unprotected, e);

	if (rc < 0)
		return rc;
	stats = js_object();
	js_set_u64(stats, "count", count, &failure);
	js_set_u64(stats, "size", bytes, &failure);
	js_set_u64(stats, "compressed_size", stored, &failure);
	js_set_u64(stats, "duplicates", duplicates, &failure);
	js_set(unprotected, KEY_STATS, stats, &failure);
	if (failure.code < 0)
		*e = failure;
	return failure.code;
}

int manifest_encode(const struct manifest *m, struct buf *out, struct err *e)
{
	struct err failure = ERR_INIT;
	struct buf text = BUF_INIT;
	struct codec *codec = NULL;
	int rc = js_dump(m->json, JS_PRETTY, &text, &failure);

	if (rc < 0) {
		*e = failure;
		goto out;
	}
	/* Both would be refused when they are read. */
	if (text.len > MANIFEST_MAX_FILE - BLOB_HEADER_SIZE) {
		rc = err_set(e, ERR_LIMIT,
		    "manifest of %zu bytes, want at most %zu", text.len,
		    (size_t)MANIFEST_MAX_FILE - BLOB_HEADER_SIZE);
		goto out;
	}
	rc = codec_new(&codec, e);
	if (rc == 0) {
		rc = blob_encode(
		    codec, COMPRESS_LEVEL_DEFAULT, text.data, text.len, out, e);
	}
out:
	codec_free(codec);
	buf_release(&text);
	return rc;
}
