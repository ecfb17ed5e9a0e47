/* SPDX-License-Identifier: MIT */
#include "tests/support/pushfix.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "datastore/base/bytes.h"
#include "datastore/base/file.h"
#include "datastore/base/sysio.h"
#include "datastore/blob.h"
#include "datastore/compress.h"
#include "datastore/manifest.h"
#include "datastore/tree.h"
#include "tests/support/gen.h"
#include "tests/support/tmpdir.h"

#define HEADER 4096U
#define CSUM_AT 32
#define SIZE_AT 64
#define CHUNK_SIZE_AT 72
#define MAX_FILE (1U << 20)

static const uint8_t magic[8] = { 0x2f, 0x7f, 0x41, 0xed, 0x91, 0xfd, 0x0f,
	0xcd };

void pushfix_chunk(unsigned number, uint8_t out[PUSHFIX_CHUNK])
{
	struct gen g;

	gen_seed(&g, number);
	gen_fill(
	    &g, number % 2 == 0 ? GEN_TEXT : GEN_RANDOM, out, PUSHFIX_CHUNK);
}

void pushfix_digest(unsigned number, struct digest *ret)
{
	uint8_t bytes[PUSHFIX_CHUNK];
	struct err e = ERR_INIT;

	pushfix_chunk(number, bytes);
	if (digest_of(bytes, sizeof(bytes), ret, &e) < 0)
		abort();
}

int pushfix_references(int fd, const char *filename, const struct digest *d,
    bool *ret, struct err *e)
{
	struct digest entry;
	bool found = false;
	ssize_t r = (ssize_t)sizeof(entry);

	for (off_t at = HEADER; !found && r == (ssize_t)sizeof(entry);
	     at += (off_t)sizeof(entry)) {
		r = pread(fd, &entry, sizeof(entry), at);
		found = r == (ssize_t)sizeof(entry) && digest_equal(&entry, d);
	}
	if (r < 0)
		return err_sys(e, "read '%s'", filename);
	*ret = found;
	return 0;
}

int pushfix_opts(
    const struct pushfix *p, struct session_opts *ret, struct err *e)
{
	struct session_opts opts = {
		.time = p->time,
		.command = "push",
		.sync_level = SYNC_NONE,
		.level = 1,
		.base = p->base,
		.references = pushfix_references,
	};
	struct backup_ns root = { .name = "" };
	int rc = backup_group_parse(&root, p->group, &opts.group, e);

	if (rc == 0)
		*ret = opts;
	return rc;
}

int pushfix_open(struct datastore *ds, const struct pushfix *p,
    struct task *task, struct session **ret, struct err *e)
{
	struct session_opts opts;
	int rc = pushfix_opts(p, &opts, e);

	return rc < 0 ? rc : session_open(ds, &opts, task, ret, e);
}

static int put_range(struct session *s, const struct pushfix_range *r,
    struct buf *digests, struct err *e)
{
	struct codec *codec = NULL;
	struct buf scratch = BUF_INIT;
	int rc = codec_new(&codec, e);

	for (unsigned i = 0; rc == 0 && i < r->n; i++) {
		uint8_t bytes[PUSHFIX_CHUNK];
		enum session_put what = SESSION_NEW;
		struct digest d;

		pushfix_chunk(r->first + i, bytes);
		rc = session_put(
		    s, codec, &scratch, bytes, sizeof(bytes), &d, &what, e);
		if (rc == 0)
			rc = buf_append(digests, &d, sizeof(d), e);
	}
	buf_release(&scratch);
	codec_free(codec);
	return rc;
}

static int reuse_range(struct session *s, const struct pushfix_range *r,
    struct buf *digests, struct err *e)
{
	int fd = -1;
	int rc = 0;

	if (r->n == 0)
		return 0;
	rc = file_open_regular(
	    session_base_fd(s), PUSHFIX_NAME, &fd, NULL, "base", e);
	if (rc == 0)
		rc = session_use_base_file(s, PUSHFIX_NAME, fd, e);
	file_close(&fd);
	for (unsigned i = 0; rc == 0 && i < r->n; i++) {
		struct digest d;

		pushfix_digest(r->first + i, &d);
		if (session_may_reference(s, &d)) {
			rc = buf_append(digests, &d, sizeof(d), e);
		} else {
			rc = put_range(s,
			    &(struct pushfix_range){
				.first = r->first + i, .n = 1 },
			    digests, e);
		}
	}
	return rc;
}

/* Through sysio: a fault may strike it, as it would the layer above. */
static int write_index(struct session *s, const struct buf *digests,
    struct digest *ret_csum, struct err *e)
{
	uint8_t header[HEADER] = { 0 };
	uint64_t size = digests->len / DIGEST_SIZE * PUSHFIX_CHUNK;
	int fd = -1;
	int rc = digest_of(digests->data, digests->len, ret_csum, e);

	memcpy(header, magic, sizeof(magic));
	memcpy(header + CSUM_AT, ret_csum->b, DIGEST_SIZE);
	bytes_put_le64(header + SIZE_AT, size);
	bytes_put_le64(header + CHUNK_SIZE_AT, PUSHFIX_CHUNK);
	if (rc == 0) {
		fd = sysio_openat(session_dir_fd(s), PUSHFIX_TMP,
		    O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, FILE_MODE);
		if (fd < 0)
			rc = err_sys(e, "make '%s'", PUSHFIX_TMP);
	}
	if (rc == 0) {
		rc = file_write_fully(
		    fd, header, sizeof(header), PUSHFIX_TMP, e);
	}
	if (rc == 0) {
		rc = file_write_fully(
		    fd, digests->data, digests->len, PUSHFIX_TMP, e);
	}
	file_close(&fd);
	return rc;
}

int pushfix_fill(struct session *s, const struct pushfix *p, struct err *e)
{
	static const char blob[] = "key = value\n";
	struct buf digests = BUF_INIT;
	struct digest csum = { .b = { 0 } };
	int rc = reuse_range(s, &p->reuse, &digests, e);

	if (rc == 0)
		rc = put_range(s, &p->put, &digests, e);
	if (rc == 0 && session_dir_fd(s) >= 0)
		rc = write_index(s, &digests, &csum, e);
	if (rc == 0) {
		rc = session_add_file(s, PUSHFIX_TMP, PUSHFIX_NAME,
		    digests.len / DIGEST_SIZE * PUSHFIX_CHUNK, &csum, e);
	}
	if (rc == 0 && p->blob) {
		rc = session_add_blob(
		    s, "b.conf.blob", blob, sizeof(blob) - 1, e);
	}
	buf_release(&digests);
	return rc;
}

int pushfix_run(struct datastore *ds, const struct pushfix *p,
    struct task *task, struct backup_snapshot *ret_id, struct err *e)
{
	struct session *s = NULL;
	struct backup_snapshot id;
	int rc = pushfix_open(ds, p, task, &s, e);

	if (rc < 0)
		return rc;
	id = *session_id(s);
	rc = pushfix_fill(s, p, e);
	if (rc < 0) {
		session_abort(s);
		return rc;
	}
	rc = session_commit(s, e);
	if (rc == 0 && ret_id != NULL)
		*ret_id = id;
	return rc;
}

static int check_chunk(struct datastore *ds, struct codec *codec,
    const struct digest *d, struct err *e)
{
	struct buf raw = BUF_INIT;
	struct buf plain = BUF_INIT;
	struct digest is = { .b = { 0 } };
	int rc = store_load(ds->store, d, &raw, e);

	if (rc == 0) {
		rc = blob_decode(
		    codec, raw.data, raw.len, CHUNK_MAX_PLAIN, &plain, e);
	}
	if (rc == 0)
		rc = digest_of(plain.data, plain.len, &is, e);
	if (rc == 0 && !digest_equal(&is, d))
		rc = err_set(e, ERR_CORRUPT, "chunk of another content");
	buf_release(&raw);
	buf_release(&plain);
	return rc < 0 && rc != ERR_NOMEM
	    ? err_set(e, ERR_CORRUPT, "chunk %02x%02x...: missing or bad",
		  d->b[0], d->b[1])
	    : rc;
}

static int check_index(struct datastore *ds, const struct buf *raw,
    const struct manifest_file *mf, struct err *e)
{
	struct codec *codec = NULL;
	struct digest csum;
	int rc = 0;

	if (raw->len < HEADER || (raw->len - HEADER) % DIGEST_SIZE != 0 ||
	    memcmp(raw->data, magic, sizeof(magic)) != 0 ||
	    (raw->len - HEADER) / DIGEST_SIZE * PUSHFIX_CHUNK != mf->size)
		return err_set(e, ERR_CORRUPT, "no index of this size");
	rc = digest_of(raw->data + HEADER, raw->len - HEADER, &csum, e);
	if (rc == 0 &&
	    (!digest_equal(&csum, &mf->csum) ||
		memcmp(raw->data + CSUM_AT, csum.b, DIGEST_SIZE) != 0))
		rc = err_set(e, ERR_CORRUPT, "checksum of the index");
	if (rc == 0)
		rc = codec_new(&codec, e);
	for (size_t at = HEADER; rc == 0 && at < raw->len; at += DIGEST_SIZE) {
		struct digest d;

		memcpy(d.b, raw->data + at, DIGEST_SIZE);
		rc = check_chunk(ds, codec, &d, e);
	}
	codec_free(codec);
	return rc;
}

static int check_file(
    struct datastore *ds, int fd, const struct manifest_file *mf, struct err *e)
{
	struct buf raw = BUF_INIT;
	struct digest csum;
	int rc = file_read_at(fd, mf->filename, MAX_FILE, &raw, "file", e);

	if (rc == 0 && backup_file_kind(mf->filename) != BACKUP_FILE_BLOB) {
		rc = check_index(ds, &raw, mf, e);
	} else if (rc == 0) {
		rc = digest_of(raw.data, raw.len, &csum, e);
		if (rc == 0 &&
		    (raw.len != mf->size || !digest_equal(&csum, &mf->csum)))
			rc = err_set(e, ERR_CORRUPT, "checksum of the blob");
	}
	buf_release(&raw);
	if (rc < 0)
		err_prefix(e, "%s", mf->filename);
	return rc;
}

static int check_snapshot(
    struct datastore *ds, const struct backup_snapshot *s, struct err *e)
{
	struct manifest m = MANIFEST_INIT;
	char text[BACKUP_PATH_SIZE];
	int fd = -1;
	int rc = tree_open_snapshot(ds, s, &fd, e);

	if (rc == 0)
		rc = tree_read_manifest(ds, s, fd, &m, e);
	for (size_t i = 0; rc == 0 && i < m.files_n; i++)
		rc = check_file(ds, fd, &m.files[i], e);
	manifest_release(&m);
	file_close(&fd);
	backup_snapshot_text(s, text);
	if (rc < 0)
		err_prefix(e, "%s", text);
	return rc;
}

static int check_group(struct datastore *ds, const struct backup_group *g,
    struct pushfix_census *census, struct err *e)
{
	struct tree_snapshots list = { .items = NULL, .n = 0 };
	int rc = tree_snapshots(ds, g, &list, e);

	for (size_t i = 0; rc == 0 && i < list.n; i++) {
		if (!list.items[i].finished) {
			census->unfinished++;
			continue;
		}
		census->finished++;
		rc = check_snapshot(ds, &list.items[i].id, e);
	}
	tree_snapshots_release(&list);
	return rc;
}

int pushfix_check(
    struct datastore *ds, struct pushfix_census *ret, struct err *e)
{
	struct pushfix_census census = { .finished = 0 };
	struct backup_ns root = { .name = "" };
	struct tree_groups groups = { .items = NULL, .n = 0 };
	int fd = openat(
	    ds->root_fd, ".cairn/sessions", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int rc = tree_groups(ds, &root, &groups, e);

	if (fd >= 0) {
		census.registrations = tmpdir_count(fd, "");
		(void)close(fd);
	}
	for (size_t i = 0; rc == 0 && i < groups.n; i++)
		rc = check_group(ds, &groups.items[i], &census, e);
	census.groups = groups.n;
	tree_groups_release(&groups);
	if (rc == 0)
		*ret = census;
	return rc;
}
