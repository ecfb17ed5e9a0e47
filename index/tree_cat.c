/* SPDX-License-Identifier: MIT */
#include "index/tree_cat.h"

#include <inttypes.h>

#include "datastore/base/digest.h"
#include "datastore/base/text.h"

#define SHOWN 256

/* What the sink gets at a time, at most: how often the task is looked at. */
#define PIECE ((size_t)1 << 20)
#define ZEROS ((size_t)64 << 10)

struct cat {
	struct catalog *c;
	struct archive_reader *r;
	const struct catalog_entry *file;
	tree_cat_sink *sink;
	void *ctx;
	struct task *task;
	struct digest_ctx *hash; /* of what is stored; NULL: nobody says */
	uint64_t pos;            /* of the next byte that is stored */
};

static int refuse(
    const struct cat *t, int code, const char *what, struct err *e)
{
	char shown[SHOWN];

	return err_set(e, code, "'%s': '%s' %s", catalog_shown(t->c),
	    text_bytes(shown, sizeof(shown), t->file->name.p, t->file->name.n),
	    what);
}

static int check_kind(const struct cat *t, struct err *e)
{
	static const char *const kinds[] = {
		[CATALOG_FILE] = "",
		[CATALOG_DIR] = "is a directory, want a file",
		[CATALOG_SYMLINK] = "is a symbolic link, want a file",
		[CATALOG_FIFO] = "is a FIFO, want a file",
		[CATALOG_SOCKET] = "is a socket, want a file",
		[CATALOG_CHAR] = "is a character device, want a file",
		[CATALOG_BLOCK] = "is a block device, want a file",
	};
	const struct catalog_entry *f = t->file;

	if (f->kind != CATALOG_FILE)
		return refuse(t, ERR_INVALID, kinds[f->kind], e);
	if (f->state & CATALOG_STATE_UNREADABLE)
		return refuse(t, ERR_NOTFOUND,
		    "could not be read when it was pushed: its content is not "
		    "stored",
		    e);
	if (!(f->has & CATALOG_HAS_SIZE))
		return refuse(t, ERR_CORRUPT, "is a file without a size", e);
	if (!(f->has & CATALOG_HAS_POS) && catalog_stored_size(f) > 0)
		return refuse(
		    t, ERR_CORRUPT, "is a file without a position", e);
	return 0;
}

static int put_zeros(const struct cat *t, uint64_t n, struct err *e)
{
	static const uint8_t zeros[ZEROS];
	int rc = 0;

	while (n > 0 && rc == 0) {
		size_t piece = n < ZEROS ? (size_t)n : ZEROS;

		rc = task_check(t->task, e);
		if (rc == 0)
			rc = t->sink(t->ctx, zeros, piece, e);
		n -= piece;
	}
	return rc;
}

/* n bytes of the stream, from `at` on. */
static int put_stream(
    const struct cat *t, uint64_t at, uint64_t n, struct err *e)
{
	int rc = 0;

	while (n > 0 && rc == 0) {
		const uint8_t *p = NULL;
		size_t got = 0;

		rc = task_check(t->task, e);
		if (rc < 0)
			break;
		rc = archive_reader_peek(
		    t->r, n < PIECE ? (size_t)n : PIECE, at, &p, &got, e);
		if (rc == ERR_INVALID) { /* the catalog says where to read */
			e->code = rc = ERR_CORRUPT;
			err_prefix(e, "'%s'", catalog_shown(t->c));
		}
		if (rc == 0 && t->hash != NULL)
			rc = digest_ctx_update(t->hash, p, got, e);
		if (rc == 0)
			rc = t->sink(t->ctx, p, got, e);
		at += got;
		n -= got;
	}
	return rc;
}

static int put_data(struct cat *t, uint64_t n, struct err *e)
{
	int rc = 0;

	while (n > 0 && rc == 0) {
		struct catalog_extent x;

		rc = catalog_extent(t->c, t->pos, n, &x, e);
		if (rc == 0)
			rc = put_stream(t, x.start, x.length, e);
		if (rc < 0)
			break;
		t->pos += x.length;
		n -= x.length;
	}
	return rc;
}

/* Data, hole, data, ...: preallocated ranges beyond the end are no content. */
static int put_content(struct cat *t, struct err *e)
{
	uint64_t size = t->file->size;
	size_t holes = catalog_holes_count(t->file);
	uint64_t at = 0;
	int rc = 0;

	for (size_t i = 0; i < holes && rc == 0; i++) {
		struct catalog_hole h = catalog_hole_decode(t->file, i);
		uint64_t end = h.start + h.length;

		if (h.start >= size)
			break;
		if (end > size)
			end = size;
		rc = put_data(t, h.start - at, e);
		if (rc == 0)
			rc = put_zeros(t, end - h.start, e);
		at = end;
	}
	return rc < 0 ? rc : put_data(t, size - at, e);
}

static int compare_digest(const struct cat *t, struct err *e)
{
	struct digest found;
	char hex[2][DIGEST_HEX_SIZE];
	char shown[SHOWN];
	int rc = 0;

	if (t->hash == NULL)
		return 0;
	rc = digest_ctx_final(t->hash, &found, e);
	if (rc < 0 || digest_equal(&found, &t->file->sha256))
		return rc;
	digest_hex(&found, hex[0]);
	digest_hex(&t->file->sha256, hex[1]);
	return err_set(e, ERR_CORRUPT,
	    "'%s': the content of '%s' has SHA-256 %s, want %s",
	    catalog_shown(t->c),
	    text_bytes(shown, sizeof(shown), t->file->name.p, t->file->name.n),
	    hex[0], hex[1]);
}

int tree_cat(struct catalog *c, struct archive_reader *r,
    const struct catalog_entry *file, tree_cat_sink *sink, void *ctx,
    struct task *task, struct err *e)
{
	struct cat t = {
		.c = c,
		.r = r,
		.file = file,
		.sink = sink,
		.ctx = ctx,
		.task = task,
		.pos = file->pos,
	};
	int rc = check_kind(&t, e);

	if (rc == 0 && (file->has & CATALOG_HAS_SHA256))
		rc = digest_ctx_new(&t.hash, e);
	if (rc == 0)
		rc = put_content(&t, e);
	if (rc == 0)
		rc = compare_digest(&t, e);
	digest_ctx_free(t.hash);
	return rc;
}
