/* SPDX-License-Identifier: MIT */
#include "datastore/manifest.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "datastore/base/text.h"
#include "datastore/blob.h"
#include "datastore/compress.h"
#include "datastore/manifest_internal.h"

/* A name's place in an error message. */
#define QUOTE_SIZE 128

static const enum crypt_mode crypt_modes[] = { CRYPT_NONE, CRYPT_ENCRYPT,
	CRYPT_SIGN_ONLY };

const char *crypt_mode_name(enum crypt_mode m)
{
	switch (m) {
	case CRYPT_NONE:
		return "none";
	case CRYPT_ENCRYPT:
		return "encrypt";
	case CRYPT_SIGN_ONLY:
		return "sign-only";
	}
	return "?";
}

static void file_release(struct manifest_file *f)
{
	free(f->filename);
	f->filename = NULL;
}

void manifest_release(struct manifest *m)
{
	for (size_t i = 0; i < m->files_n; i++)
		file_release(&m->files[i]);
	free(m->files);
	free(m->notes);
	js_free(m->json);
	*m = (struct manifest)MANIFEST_INIT;
}

int manifest_check_filename(const char *name, int code, struct err *e)
{
	char quote[QUOTE_SIZE];

	(void)text_name(quote, sizeof(quote), name);
	if (!backupid_is_safe(name) || strlen(name) > NAME_MAX) {
		return err_set(e, code,
		    "'%s' is no file name, want at most %d letters, digits "
		    "and ._- beginning with a letter, a digit or _",
		    quote, NAME_MAX);
	}
	if (backup_file_kind(name) == BACKUP_FILE_NONE) {
		return err_set(e, code,
		    "file '%s', want a name that ends with .fidx, .didx or "
		    ".blob",
		    quote);
	}
	if (strcmp(name, BACKUP_MANIFEST) == 0) {
		return err_set(
		    e, code, "file '%s' is the manifest itself", quote);
	}
	return 0;
}

static int decode_crypt_mode(
    const struct js *v, enum crypt_mode *ret, struct err *e)
{
	const char *text = NULL;
	bool found = false;
	char quote[QUOTE_SIZE];
	int rc = js_get_str(v, KEY_CRYPT_MODE, &text, &found, e);

	if (rc < 0)
		return rc;
	/* Files from before there was encryption have none. */
	if (!found)
		text = crypt_mode_name(CRYPT_NONE);
	for (size_t i = 0; i < sizeof(crypt_modes) / sizeof(crypt_modes[0]);
	     i++) {
		if (strcmp(text, crypt_mode_name(crypt_modes[i])) == 0) {
			*ret = crypt_modes[i];
			return 0;
		}
	}
	return err_set(e, ERR_CORRUPT,
	    "'%s' is '%s', want none, encrypt or sign-only", KEY_CRYPT_MODE,
	    text_name(quote, sizeof(quote), text));
}

/* All but the name; *f is filled as far as it goes. */
static int decode_file_values(
    const struct js *v, struct manifest_file *f, struct err *e)
{
	const char *csum = "";
	char quote[QUOTE_SIZE];
	int rc = decode_crypt_mode(v, &f->crypt_mode, e);

	if (rc == 0)
		rc = js_get_u64(v, KEY_SIZE, &f->size, NULL, e);
	if (rc == 0)
		rc = js_get_str(v, KEY_CSUM, &csum, NULL, e);
	if (rc < 0)
		return rc;
	if (!digest_parse(csum, strlen(csum), &f->csum)) {
		return err_set(e, ERR_CORRUPT,
		    "'%s' is '%s', want 64 hex digits", KEY_CSUM,
		    text_name(quote, sizeof(quote), csum));
	}
	return 0;
}

static int decode_file(
    const struct js *v, struct manifest_file *ret, struct err *e)
{
	struct manifest_file f = { .filename = NULL };
	const char *name = "";
	int rc = js_get_str(v, KEY_FILENAME, &name, NULL, e);

	if (rc < 0)
		return rc;
	rc = manifest_check_filename(name, ERR_CORRUPT, e);
	if (rc < 0)
		return rc;
	rc = decode_file_values(v, &f, e);
	if (rc < 0) {
		err_prefix(e, "file '%s'", name);
		return rc;
	}
	f.filename = strdup(name);
	if (f.filename == NULL)
		return err_nomem(e);
	*ret = f;
	return 0;
}

static int compare_names(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Two entries of one name would let two readers see two snapshots. */
static int check_listed_once(const struct manifest *m, struct err *e)
{
	const char **names = NULL;
	int rc = 0;

	if (m->files_n < 2)
		return 0;
	names = reallocarray(NULL, m->files_n, sizeof(*names));
	if (names == NULL)
		return err_nomem(e);
	for (size_t i = 0; i < m->files_n; i++)
		names[i] = m->files[i].filename;
	qsort(names, m->files_n, sizeof(*names), compare_names);
	for (size_t i = 1; rc == 0 && i < m->files_n; i++) {
		if (strcmp(names[i - 1], names[i]) == 0) {
			rc = err_set(e, ERR_CORRUPT,
			    "file '%s' is listed more than once", names[i]);
		}
	}
	free(names);
	return rc;
}

static int decode_files(struct manifest *m, struct err *e)
{
	struct js *list = NULL;
	size_t n = 0;
	int rc = js_get_array(m->json, KEY_FILES, &list, &n, NULL, e);

	if (rc < 0)
		return rc;
	if (n > MANIFEST_MAX_FILES) {
		return err_set(e, ERR_CORRUPT, "%zu files, want at most %u", n,
		    MANIFEST_MAX_FILES);
	}
	if (n == 0)
		return 0;
	m->files = calloc(n, sizeof(*m->files));
	if (m->files == NULL)
		return err_nomem(e);
	for (size_t i = 0; i < n; i++) {
		rc = decode_file(js_at(list, i), &m->files[i], e);
		if (rc < 0) {
			err_prefix(e, "'%s'[%zu]", KEY_FILES, i);
			return rc;
		}
		m->files_n++;
	}
	return check_listed_once(m, e);
}

/* Type, id and time, which must be those of the path. */
static int decode_identity(
    struct manifest *m, const struct backup_snapshot *want, struct err *e)
{
	const struct backup_group *g = &want->group;
	const char *type = "";
	const char *id = "";
	char type_quote[QUOTE_SIZE];
	char id_quote[QUOTE_SIZE];
	char time[TEXT_TIME_SIZE];
	char want_time[TEXT_TIME_SIZE];
	int rc = js_get_str(m->json, KEY_TYPE, &type, NULL, e);

	if (rc == 0)
		rc = js_get_str(m->json, KEY_ID, &id, NULL, e);
	if (rc == 0)
		rc = js_get_i64(m->json, KEY_TIME, &m->time, NULL, e);
	if (rc < 0)
		return rc;
	if (strcmp(type, backup_type_name(g->type)) != 0 ||
	    strcmp(id, g->id) != 0 || m->time != want->time) {
		return err_set(e, ERR_CORRUPT,
		    "manifest of '%s/%s/%s', want that of '%s/%s/%s'",
		    text_name(type_quote, sizeof(type_quote), type),
		    text_name(id_quote, sizeof(id_quote), id),
		    text_time(time, m->time), backup_type_name(g->type), g->id,
		    text_time(want_time, want->time));
	}
	m->type = g->type;
	memcpy(m->id, g->id, sizeof(m->id));
	return 0;
}

/*
 * The start time of "UPID:node:PID:PSTART:TASK:START:type:id:auth:", the
 * fields in hex; 0 if it is not of that form.
 */
static int64_t upid_start(const char *upid)
{
	const unsigned start_field = 5;
	int64_t start = 0;

	if (strncmp(upid, "UPID:", 5) != 0)
		return 0;
	for (unsigned i = 0; i < start_field; i++) {
		upid = strchr(upid, ':');
		if (upid == NULL)
			return 0;
		upid++;
	}
	for (; *upid != ':'; upid++) {
		static const char digits[] = "0123456789abcdef0123456789ABCDEF";
		const char *digit =
		    *upid == '\0' ? NULL : strchr(digits, *upid);

		if (digit == NULL || start > INT64_MAX / 16 - 1)
			return 0;
		start = start * 16 + (digit - digits) % 16;
	}
	return start;
}

/*
 * A word that is neither ok nor failed, or an upid of another form, is no
 * damage: a newer program's, which says nothing to us.
 */
static int decode_verify(
    struct manifest *m, const struct js *unprotected, struct err *e)
{
	struct js *state = NULL;
	const char *word = "";
	const char *upid = "";
	bool found = false;
	int rc = js_get(unprotected, KEY_VERIFY, &state, &found, e);

	if (rc < 0 || !found)
		return rc;
	rc = js_get_str(state, KEY_STATE, &word, NULL, e);
	if (rc == 0)
		rc = js_get_str(state, KEY_UPID, &upid, NULL, e);
	if (rc < 0) {
		err_prefix(e, "'%s'", KEY_VERIFY);
		return rc;
	}
	if (strcmp(word, STATE_OK) == 0) {
		m->verified = VERIFY_OK;
	} else if (strcmp(word, STATE_FAILED) == 0) {
		m->verified = VERIFY_FAILED;
	}
	if (m->verified != VERIFY_NONE)
		m->verified_at = upid_start(upid);
	return 0;
}

static int decode_unprotected(struct manifest *m, struct err *e)
{
	struct js *unprotected = NULL;
	const char *notes = NULL;
	bool found = false;
	int rc = js_get(m->json, KEY_UNPROTECTED, &unprotected, &found, e);

	if (rc < 0 || !found)
		return rc;
	if (!js_is_object(unprotected)) {
		return err_set(
		    e, ERR_CORRUPT, "'%s' is no object", KEY_UNPROTECTED);
	}
	rc = js_get_str(unprotected, KEY_NOTES, &notes, &found, e);
	if (rc == 0)
		rc = decode_verify(m, unprotected, e);
	if (rc < 0) {
		err_prefix(e, "'%s'", KEY_UNPROTECTED);
		return rc;
	}
	if (!found || notes[0] == '\0')
		return 0;
	m->notes = strdup(notes);
	return m->notes == NULL ? err_nomem(e) : 0;
}

/* m->json is there; everything else is taken from it. */
static int decode_json(
    struct manifest *m, const struct backup_snapshot *want, struct err *e)
{
	const char *signature = NULL;
	int rc = 0;

	if (!js_is_object(m->json))
		return err_set(e, ERR_CORRUPT, "the JSON is no object");
	rc = decode_identity(m, want, e);
	if (rc == 0)
		rc = decode_files(m, e);
	if (rc == 0) {
		rc = js_get_str(
		    m->json, KEY_SIGNATURE, &signature, &m->is_signed, e);
	}
	if (rc == 0)
		rc = decode_unprotected(m, e);
	return rc;
}

/* The JSON text of a manifest's file. */
static int decode_blob(
    const void *raw, size_t n, struct buf *out, struct err *e)
{
	struct codec *codec = NULL;
	int rc = 0;

	if (n > MANIFEST_MAX_FILE) {
		return err_set(e, ERR_LIMIT, "%zu bytes, want at most %u", n,
		    MANIFEST_MAX_FILE);
	}
	rc = codec_new(&codec, e);
	if (rc == 0)
		rc = blob_decode(codec, raw, n, MANIFEST_MAX_FILE, out, e);
	codec_free(codec);
	/* A key would not help: no program encrypts manifests. */
	if (rc == ERR_UNSUPPORTED) {
		rc = err_set(e, ERR_CORRUPT,
		    "blob is encrypted, which a manifest never is");
	}
	return rc;
}

int manifest_decode(const void *raw, size_t n,
    const struct backup_snapshot *want, struct manifest *m, struct err *e)
{
	struct manifest decoded = MANIFEST_INIT;
	struct buf text = BUF_INIT;
	int rc = decode_blob(raw, n, &text, e);

	if (rc == 0)
		rc = js_parse(text.data, text.len, &decoded.json, e);
	if (rc == 0)
		rc = decode_json(&decoded, want, e);
	if (rc < 0)
		goto out;
	manifest_release(m);
	*m = decoded;
	decoded = (struct manifest)MANIFEST_INIT;
out:
	manifest_release(&decoded);
	buf_release(&text);
	return rc;
}

const struct manifest_file *manifest_find(
    const struct manifest *m, const char *filename)
{
	for (size_t i = 0; i < m->files_n; i++) {
		if (strcmp(m->files[i].filename, filename) == 0)
			return &m->files[i];
	}
	return NULL;
}
