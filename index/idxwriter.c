/* SPDX-License-Identifier: MIT */
#include "index/idxwriter.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "datastore/backupid.h"
#include "datastore/base/bytes.h"
#include "datastore/base/clock.h"
#include "datastore/base/sysio.h"
#include "datastore/blob.h"

#define WRITE_ENTRIES 4096U /* 128 or 160 KiB per write */
#define SUFFIX_SIZE 5       /* ".fidx", ".didx" */
#define TMP_INFIX ".tmp_"
/* Longer than what it is made from by "tmp_". */
#define TMP_NAME_SIZE (BACKUP_NAME_MAX + 32)

struct idxwriter {
	struct session *session;
	char filename[TMP_NAME_SIZE];
	char tmp[TMP_NAME_SIZE];
	int fd; /* -1: a dry run, or not open any more */
	struct idx_info info;
	struct digest_ctx *ctx;
	bool short_seen; /* fixed: the last chunk was the last one */
	uint8_t *pending;
	size_t pending_bytes;
	uint64_t at; /* where `pending` belongs in the file */
};

static int check_names(struct idxwriter *w, const char *filename, struct err *e)
{
	size_t n = strlen(filename);

	if (!idx_kind_of_name(filename, &w->info.kind)) {
		return err_set(e, ERR_INVALID,
		    "'%s': want a name that ends in '.fidx' or '.didx'",
		    filename);
	}
	if (n - SUFFIX_SIZE > BACKUP_NAME_MAX) {
		return err_set(e, ERR_INVALID,
		    "'%s': a name of %zu bytes, want at most %d", filename,
		    n - SUFFIX_SIZE, BACKUP_NAME_MAX);
	}
	(void)snprintf(w->filename, sizeof(w->filename), "%s", filename);
	(void)snprintf(w->tmp, sizeof(w->tmp), "%.*s" TMP_INFIX "%s",
	    (int)(n - SUFFIX_SIZE), filename, filename + n - SUFFIX_SIZE + 1);
	return 0;
}

static int check_chunk_size(
    struct idxwriter *w, uint64_t chunk_size, struct err *e)
{
	if (w->info.kind == IDX_DYNAMIC)
		return 0;
	if (!bytes_is_power_of_two(chunk_size) || chunk_size < IDX_CHUNK_MIN ||
	    chunk_size > IDX_CHUNK_MAX) {
		return err_set(e, ERR_INVALID,
		    "chunk size %" PRIu64 ", want a power of two from %u to %u",
		    chunk_size, IDX_CHUNK_MIN, IDX_CHUNK_MAX);
	}
	w->info.chunk_size = chunk_size;
	return 0;
}

/* New files belong to whom the directory belongs to, if we may say so. */
static int set_owner(struct idxwriter *w, int dirfd, struct err *e)
{
	struct file_owner owner = { .change = false };
	struct statx dir = { .stx_mask = 0 };
	struct statx st = { .stx_mask = 0 };
	int rc = file_stat_fd(dirfd, &dir, w->tmp, e);

	if (rc == 0)
		rc = file_stat_fd(w->fd, &st, w->tmp, e);
	if (rc < 0)
		return rc;
	owner.change = st.stx_uid == 0 &&
	    (st.stx_uid != dir.stx_uid || st.stx_gid != dir.stx_gid);
	owner.uid = dir.stx_uid;
	owner.gid = dir.stx_gid;
	return file_set_owner(w->fd, &owner, FILE_MODE, w->tmp, e);
}

static int make_file(struct idxwriter *w, struct err *e)
{
	int dirfd = session_dir_fd(w->session);

	if (dirfd < 0)
		return 0;
	do {
		w->fd = sysio_openat(dirfd, w->tmp,
		    O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW,
		    FILE_MODE);
	} while (w->fd < 0 && errno == EINTR);
	if (w->fd < 0 && errno == EEXIST) {
		return err_set(e, ERR_EXISTS,
		    "'%s' is being written, or was, want each archive once",
		    w->filename);
	}
	if (w->fd < 0)
		return err_sys(e, "create '%s'", w->tmp);
	return set_owner(w, dirfd, e);
}

int idxwriter_new(struct session *s, const char *filename, uint64_t chunk_size,
    struct idxwriter **ret, struct err *e)
{
	struct idxwriter *w = calloc(1, sizeof(*w));
	int rc = 0;

	if (w == NULL)
		return err_nomem(e);
	w->session = s;
	w->fd = -1;
	w->at = IDX_HEADER_SIZE;
	rc = check_names(w, filename, e);
	if (rc == 0)
		rc = check_chunk_size(w, chunk_size, e);
	if (rc < 0)
		goto out;
	w->info.ctime = clock_now_s();
	rc = file_random(w->info.uuid, IDX_UUID_SIZE, e);
	if (rc < 0)
		goto out;
	w->pending = malloc(WRITE_ENTRIES * idx_entry_size(w->info.kind));
	if (w->pending == NULL) {
		rc = err_nomem(e);
		goto out;
	}
	rc = digest_ctx_new(&w->ctx, e);
	if (rc < 0)
		goto out;
	rc = make_file(w, e);
	if (rc < 0)
		goto out;
	*ret = w;
	w = NULL;
out:
	idxwriter_free(w);
	return rc;
}

static int write_pending(struct idxwriter *w, struct err *e)
{
	int rc = digest_ctx_update(w->ctx, w->pending, w->pending_bytes, e);

	if (rc == 0 && w->fd >= 0) {
		rc = file_pwrite_fully(
		    w->fd, w->pending, w->pending_bytes, w->at, w->tmp, e);
	}
	if (rc < 0)
		return rc;
	w->at += w->pending_bytes;
	w->pending_bytes = 0;
	return 0;
}

/* May a chunk of n bytes come next? */
static int check_length(const struct idxwriter *w, uint64_t n, struct err *e)
{
	uint64_t max =
	    w->info.kind == IDX_FIXED ? w->info.chunk_size : CHUNK_MAX_PLAIN;

	if (w->short_seen) {
		return err_set(e, ERR_INVALID,
		    "'%s': a chunk behind a short one, want that to be the "
		    "last",
		    w->filename);
	}
	if (n == 0 || n > max) {
		return err_set(e, ERR_INVALID,
		    "'%s': a chunk of %" PRIu64 " bytes, want 1 to %" PRIu64,
		    w->filename, n, max);
	}
	if (n > INT64_MAX - w->info.size) {
		return err_set(e, ERR_LIMIT, "'%s': more than 2^63 - 1 bytes",
		    w->filename);
	}
	return 0;
}

int idxwriter_append(
    struct idxwriter *w, const struct digest *d, uint64_t n, struct err *e)
{
	size_t each = idx_entry_size(w->info.kind);
	struct idx_entry entry = { .digest = *d, .end = w->info.size + n };
	int rc = check_length(w, n, e);

	if (rc < 0)
		return rc;
	if (w->pending_bytes == WRITE_ENTRIES * each) {
		rc = write_pending(w, e);
		if (rc < 0)
			return rc;
	}
	idx_entry_encode(w->info.kind, &entry, w->pending + w->pending_bytes);
	w->pending_bytes += each;
	w->info.size += n;
	w->info.count++;
	w->short_seen = w->info.kind == IDX_FIXED && n < w->info.chunk_size;
	return 0;
}

static int write_header(struct idxwriter *w, struct err *e)
{
	uint8_t header[IDX_HEADER_SIZE];

	if (w->fd < 0)
		return 0;
	idx_header_encode(&w->info, header);
	return file_pwrite_fully(w->fd, header, sizeof(header), 0, w->tmp, e);
}

/* What a network file system could not write may show here first. */
static int close_file(struct idxwriter *w, struct err *e)
{
	int rc = sysio_close(w->fd);

	w->fd = -1;
	if (rc < 0 && errno != EINTR)
		return err_sys(e, "close '%s'", w->tmp);
	return 0;
}

int idxwriter_finish(struct idxwriter *w, uint64_t *ret_size,
    struct digest *ret_csum, struct err *e)
{
	int rc = 0;

	if (w->info.kind == IDX_FIXED && w->info.count == 0) {
		return err_set(e, ERR_INVALID,
		    "'%s': an image of 0 bytes, want at least 1", w->filename);
	}
	rc = write_pending(w, e);
	if (rc == 0)
		rc = digest_ctx_final(w->ctx, &w->info.csum, e);
	if (rc == 0)
		rc = write_header(w, e);
	if (rc < 0)
		return rc;
	if (w->fd >= 0)
		rc = close_file(w, e);
	if (rc == 0) {
		rc = session_add_file(w->session, w->tmp, w->filename,
		    w->info.size, &w->info.csum, e);
	}
	if (rc < 0)
		return rc;
	*ret_size = w->info.size;
	*ret_csum = w->info.csum;
	return 0;
}

void idxwriter_free(struct idxwriter *w)
{
	if (w == NULL)
		return;
	file_close(&w->fd);
	digest_ctx_free(w->ctx);
	free(w->pending);
	free(w);
}
