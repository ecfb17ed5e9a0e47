/* SPDX-License-Identifier: MIT */
/*
 * cmd_inspect: what is this file?  Works on any path, without a datastore.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/cmd.h"
#include "cli/exit.h"
#include "cli/output.h"
#include "datastore/base/digest.h"
#include "datastore/base/file.h"
#include "datastore/base/sysio.h"
#include "datastore/base/text.h"
#include "datastore/base/uuid.h"
#include "datastore/blob.h"
#include "datastore/manifest.h"
#include "index/idx.h"

#define MAGIC_SIZE 8

/* The largest blob there is, header included. */
#define INSPECT_MAX ((size_t)BLOB_MAX_PLAIN + BLOB_ENCRYPTED_HEADER_SIZE)

/* What is found out, in the order it is printed. */
struct inspection {
	struct app *app;
	const char *path;
	char shown[ERR_MSG_SIZE / 2]; /* the path, in messages */
	const char *base;             /* name within its directory */
	struct js *doc;
	bool damage;
};

static int fact(
    struct inspection *in, const char *key, const char *value, struct err *e)
{
	char shown[ERR_MSG_SIZE];

	if (in->app->json) {
		js_set_name(in->doc, key, value, e);
		return e->code;
	}
	return output_text(
	    e, "%-16s %s\n", key, text_name(shown, sizeof(shown), value));
}

static int fact_u64(
    struct inspection *in, const char *key, uint64_t value, struct err *e)
{
	if (in->app->json) {
		js_set_u64(in->doc, key, value, e);
		return e->code;
	}
	return output_text(e, "%-16s %" PRIu64 "\n", key, value);
}

/* Damage is a result here: it is told with the facts, and ends in 4. */
static int fact_damage(
    struct inspection *in, const struct err *why, struct err *e)
{
	in->damage = true;
	return fact(in, "damage", why->msg, e);
}

static int index_facts(
    struct inspection *in, const struct idx_info *info, struct err *e)
{
	char uuid[UUID_TEXT_SIZE];
	char text[TEXT_TIME_SIZE];
	char hex[DIGEST_HEX_SIZE];
	int rc = fact(in, "kind",
	    info->kind == IDX_FIXED ? "fixed index" : "dynamic index", e);

	uuid_text(info->uuid, uuid);
	digest_hex(&info->csum, hex);
	if (rc == 0)
		rc = fact(in, "uuid", uuid, e);
	if (rc == 0)
		rc = fact(in, "created", text_time(text, info->ctime), e);
	if (rc == 0)
		rc = fact_u64(in, "size", info->size, e);
	if (rc == 0)
		rc = fact_u64(in, "chunks", info->count, e);
	if (rc == 0 && info->kind == IDX_FIXED)
		rc = fact_u64(in, "chunk-size", info->chunk_size, e);
	if (rc == 0)
		rc = fact(in, "checksum", hex, e);
	return rc;
}

static int inspect_index(struct inspection *in, int fd, struct err *e)
{
	struct err why = ERR_INIT;
	enum idx_kind named = IDX_FIXED;
	struct idx *ix = NULL;
	int rc = idx_open_fd(fd, in->shown, &ix, &why);

	if (rc < 0) {
		file_close(&fd);
		if (rc == ERR_CORRUPT)
			return fact_damage(in, &why, e);
		*e = why;
		return rc;
	}
	rc = index_facts(in, idx_info(ix), e);
	if (rc == 0 && idx_kind_of_name(in->base, &named) &&
	    named != idx_info(ix)->kind) {
		(void)err_set(
		    &why, ERR_CORRUPT, "the name is that of another kind");
		rc = fact_damage(in, &why, e);
	} else if (rc == 0) {
		int check = idx_check(ix, &why);

		if (check == ERR_CORRUPT)
			rc = fact_damage(in, &why, e);
		else if (check < 0) {
			*e = why;
			rc = check;
		}
	}
	idx_close(ix);
	return rc;
}

static int manifest_files(
    struct inspection *in, const struct manifest *m, struct err *e)
{
	struct js *files = in->app->json ? js_array() : NULL;
	int rc = 0;

	if (!in->app->json)
		rc = fact_u64(in, "files", m->files_n, e);
	for (size_t i = 0; i < m->files_n && rc == 0; i++) {
		const struct manifest_file *f = &m->files[i];
		char hex[DIGEST_HEX_SIZE];
		struct js *o = NULL;

		digest_hex(&f->csum, hex);
		if (!in->app->json) {
			rc = output_text(e, "  %s  %s  %" PRIu64 " bytes\n",
			    hex, f->filename, f->size);
			continue;
		}
		o = js_object();
		js_set_str(o, "filename", f->filename, e);
		js_set_u64(o, "size", f->size, e);
		js_set_str(o, "csum", hex, e);
		js_append(files, o, e);
	}
	if (in->app->json) {
		js_set(in->doc, "files", files, e);
		rc = e->code;
	}
	return rc;
}

static int manifest_facts(
    struct inspection *in, const struct manifest *m, struct err *e)
{
	char text[TEXT_TIME_SIZE];
	int rc = fact(in, "manifest-of", text_time(text, m->time), e);

	if (rc == 0)
		rc = fact(in, "backup-type", backup_type_name(m->type), e);
	if (rc == 0)
		rc = fact(in, "backup-id", m->id, e);
	if (rc == 0)
		rc = fact(in, "signed", m->is_signed ? "yes" : "no", e);
	return rc < 0 ? rc : manifest_files(in, m, e);
}

/* A manifest says itself which snapshot it is of. */
static int inspect_manifest(struct inspection *in, const struct buf *raw,
    const struct buf *plain, struct err *e)
{
	struct manifest m = MANIFEST_INIT;
	struct backup_snapshot id;
	struct js *json = NULL;
	const char *type = NULL;
	const char *name = NULL;
	int64_t time = 0;
	struct err why = ERR_INIT;
	int rc = js_parse(plain->data, plain->len, &json, &why);

	memset(&id, 0, sizeof(id));
	if (rc == 0)
		rc = js_get_str(json, "backup-type", &type, NULL, &why);
	if (rc == 0)
		rc = js_get_str(json, "backup-id", &name, NULL, &why);
	if (rc == 0)
		rc = js_get_i64(json, "backup-time", &time, NULL, &why);
	if (rc == 0 &&
	    (!backup_type_parse(type, &id.group.type) ||
		!backupid_is_safe(name)))
		rc = err_set(&why, ERR_CORRUPT,
		    "backup-type or backup-id is not well-formed");
	if (rc == 0) {
		(void)snprintf(id.group.id, sizeof(id.group.id), "%s", name);
		id.time = time;
		rc = manifest_decode(raw->data, raw->len, &id, &m, &why);
	}
	if (rc == 0)
		rc = manifest_facts(in, &m, e);
	else if (rc == ERR_CORRUPT)
		rc = fact_damage(in, &why, e);
	else
		*e = why;
	manifest_release(&m);
	js_free(json);
	return rc;
}

/* The chunk's name is its digest; elsewhere the digest is just told. */
static int check_digest(
    struct inspection *in, const struct buf *plain, struct err *e)
{
	struct digest found;
	struct digest named;
	char hex[DIGEST_HEX_SIZE];
	struct err why = ERR_INIT;
	int rc = digest_of(plain->data, plain->len, &found, e);

	if (rc < 0)
		return rc;
	digest_hex(&found, hex);
	rc = fact(in, "sha256", hex, e);
	if (rc < 0 || strlen(in->base) < DIGEST_HEX_SIZE - 1 ||
	    !digest_parse(in->base, DIGEST_HEX_SIZE - 1, &named) ||
	    digest_equal(&found, &named))
		return rc;
	(void)err_set(&why, ERR_CORRUPT,
	    "the content's digest is not the one in the name");
	return fact_damage(in, &why, e);
}

/* Of a blob, or a chunk: what lies under it is meant to be one. */
static bool has_stored_name(const char *base)
{
	struct digest d;

	return backup_file_kind(base) != BACKUP_FILE_NONE ||
	    (strlen(base) >= DIGEST_HEX_SIZE - 1 &&
		digest_parse(base, DIGEST_HEX_SIZE - 1, &d));
}

static int inspect_blob(
    struct inspection *in, const struct buf *raw, struct err *e)
{
	struct buf plain = BUF_INIT;
	struct codec *codec = NULL;
	enum blob_kind kind = BLOB_PLAIN;
	struct err why = ERR_INIT;
	bool is_blob = blob_identify(raw->data, raw->len, &kind, &why) == 0;
	int rc = 0;

	(void)err_forget(&why);
	rc = blob_check(raw->data, raw->len, &kind, &why);
	if (rc == ERR_CORRUPT && !has_stored_name(in->base) && !is_blob)
		return err_set(e, ERR_INVALID,
		    "'%s' is no index, blob or chunk: neither its first bytes "
		    "nor its name are those of one",
		    in->shown);
	if (rc == ERR_CORRUPT)
		return fact_damage(in, &why, e);
	rc = fact(in, "kind", blob_kind_name(kind), e);
	if (rc == 0)
		rc = fact_u64(in, "file-size", raw->len, e);
	if (rc < 0 || blob_is_encrypted(kind))
		return rc;
	rc = codec_new(&codec, e);
	if (rc < 0)
		return rc;
	rc = blob_decode(
	    codec, raw->data, raw->len, BLOB_MAX_PLAIN, &plain, &why);
	if (rc == ERR_CORRUPT || rc == ERR_LIMIT) {
		rc = fact_damage(in, &why, e);
	} else if (rc < 0) {
		*e = why;
	} else {
		rc = fact_u64(in, "size", plain.len, e);
		if (rc == 0)
			rc = check_digest(in, &plain, e);
		if (rc == 0 && strcmp(in->base, BACKUP_MANIFEST) == 0)
			rc = inspect_manifest(in, raw, &plain, e);
	}
	codec_free(codec);
	buf_release(&plain);
	return rc;
}

/* A link is followed: its name is as good as any. */
static int open_file(
    struct inspection *in, int *ret_fd, uint64_t *ret_size, struct err *e)
{
	int fd = sysio_openat(AT_FDCWD, in->path,
	    O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0);
	struct statx st;
	int rc = 0;

	if (fd < 0)
		return err_sys(e, "'%s'", in->shown);
	rc = file_stat_fd(fd, &st, in->shown, e);
	if (rc == 0 && (st.stx_mode & S_IFMT) != S_IFREG)
		rc = err_set(e, ERR_INVALID, "'%s' is %s, want a file",
		    in->shown,
		    (st.stx_mode & S_IFMT) == S_IFDIR ? "a directory"
						      : "no regular file");
	if (rc < 0) {
		file_close(&fd);
		return rc;
	}
	*ret_fd = fd;
	*ret_size = st.stx_size;
	return 0;
}

/* Does it begin as an index does? */
static bool has_index_magic(const uint8_t *p, size_t n)
{
	static const enum idx_kind kinds[] = { IDX_FIXED, IDX_DYNAMIC };
	uint8_t header[IDX_HEADER_SIZE];

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		const struct idx_info info = { .kind = kinds[i] };

		idx_header_encode(&info, header);
		if (n == MAGIC_SIZE && memcmp(p, header, MAGIC_SIZE) == 0)
			return true;
	}
	return false;
}

/* Index files may be larger than memory; all else is read whole. */
static int inspect(struct inspection *in, int fd, uint64_t size, struct err *e)
{
	enum idx_kind kind = IDX_FIXED;
	struct buf raw = BUF_INIT;
	size_t n = 0;
	int rc = 0;

	if (idx_kind_of_name(in->base, &kind))
		return inspect_index(in, fd, e);
	if (size > INSPECT_MAX)
		rc = err_set(e, ERR_LIMIT,
		    "'%s' has %" PRIu64 " bytes, more than any blob or chunk",
		    in->shown, size);
	if (rc == 0)
		rc = buf_reserve(&raw, (size_t)size + 1, e);
	if (rc == 0)
		rc = file_read_fully(
		    fd, raw.data, (size_t)size, &n, in->shown, e);
	raw.len = n;
	if (rc == 0 &&
	    has_index_magic(raw.data, n < MAGIC_SIZE ? n : MAGIC_SIZE)) {
		buf_release(&raw);
		return inspect_index(in, fd, e);
	}
	if (rc == 0)
		rc = inspect_blob(in, &raw, e);
	buf_release(&raw);
	file_close(&fd);
	return rc;
}

int cmd_inspect(struct app *app, const struct invocation *inv, struct err *e)
{
	struct inspection in = { .app = app, .path = inv->args[0] };
	const char *slash = strrchr(in.path, '/');
	uint64_t size = 0;
	int fd = -1;
	int rc = 0;

	in.base = slash != NULL ? slash + 1 : in.path;
	(void)text_name(in.shown, sizeof(in.shown), in.path);
	in.doc = js_object();
	output_json_begin(e);
	rc = open_file(&in, &fd, &size, e);
	if (rc == 0) {
		rc = fact(&in, "file", in.path, e);
		if (rc == 0)
			rc = inspect(&in, fd, size, e);
		else
			file_close(&fd);
	}
	if (rc == 0 && app->json) {
		rc = output_json(in.doc, e);
		in.doc = NULL;
	}
	js_free(in.doc);
	if (rc < 0)
		return rc;
	return in.damage ? EXIT_DAMAGE : EXIT_DONE;
}
