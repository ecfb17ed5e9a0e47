/* SPDX-License-Identifier: MIT */
#include "index/tar_push.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "datastore/base/text.h"
#include "index/catalog_writer.h"
#include "index/ingest_feed.h"
#include "index/ingest_reader.h"
#include "index/tar_libarchive.h"
#include "index/tar_rows.h"

#define READ_MAX ((size_t)256 << 10)

#define TEXT 192 /* of a name or reason, in messages */

/*
 * The stream passes through a window: read at its end, looked at by
 * libarchive, handed to the feed at its start, but only what libarchive has
 * done with, so that the content of a member can begin with a cut.
 */
struct push {
	const struct tar_push_opts *opts;
	struct task *task;
	const char *shown;
	struct ingest_reader reader;
	struct ingest_feed *feed;
	struct buf window;
	size_t done;     /* bytes at its start that were handed over */
	uint64_t handed; /* of the stream */
	bool source_ended;
	bool ready;      /* the window was filled before libarchive asked */
	bool in_header;  /* libarchive looks for a member... */
	uint64_t header; /* ... since it was here */
	struct err *e;   /* of whoever calls libarchive */
	int failed;      /* what a callback met; *e has it */
	struct archive *a;
	struct archive_entry *entry;

	struct catalog_writer *writer;
	struct tar_rows *rows;
	struct tar_meta meta;
	struct tar_content content;
	struct buf path;
	struct buf target;
	uint64_t members;
	bool whole;
};

static uint64_t read_so_far(const struct push *x)
{
	return x->handed + (x->window.len - x->done);
}

/* What lies before `end` in the stream goes to the feed. */
static int hand_over(struct push *x, uint64_t end, struct err *e)
{
	size_t n = 0;
	int rc = 0;

	assert(end <= read_so_far(x));
	if (end <= x->handed)
		return 0;
	n = (size_t)(end - x->handed);
	rc = ingest_feed_append(x->feed, x->window.data + x->done, n, e);
	if (rc < 0)
		return rc;
	x->done += n;
	x->handed = end;
	return 0;
}

/* Mostly nothing is left, else the begin of a header. */
static void close_up(struct push *x)
{
	size_t left = x->window.len - x->done;

	if (left > 0)
		memmove(x->window.data, x->window.data + x->done, left);
	x->window.len = left;
	x->done = 0;
}

/* Nobody looks at the window meanwhile: what is left in it moves. */
static int fill(struct push *x, size_t *ret_got, struct err *e)
{
	size_t got = 0;
	int rc = 0;

	close_up(x);
	rc = buf_reserve(&x->window, READ_MAX, e);

	if (rc == 0 && !x->source_ended)
		rc = ingest_reader_read(&x->reader,
		    x->window.data + x->window.len, READ_MAX, &got, e);
	if (rc < 0)
		return rc;
	x->window.len += got;
	x->source_ended = x->source_ended || got == 0;
	*ret_got = got;
	return 0;
}

/*
 * libarchive's.  When it asks, it does not look at what it got before: what
 * it has not done with it has copied.
 */
static la_ssize_t on_read(struct archive *a, void *ctx, const void **ret)
{
	struct push *x = ctx;
	size_t got = x->window.len;
	int rc = 0;

	if (!x->ready) {
		rc = hand_over(x, (uint64_t)archive_filter_bytes(a, 0), x->e);
		if (rc == 0)
			rc = fill(x, &got, x->e);
	}
	x->ready = false;
	if (rc < 0) {
		x->failed = rc;
		archive_set_error(a, EIO, "stopped");
		return ARCHIVE_FATAL;
	}
	if (x->in_header &&
	    read_so_far(x) - x->header > TAR_HEADER_MAX + READ_MAX) {
		archive_set_error(a, EILSEQ, "a header of more than %u bytes",
		    TAR_HEADER_MAX);
		return ARCHIVE_FATAL;
	}
	*ret = x->window.data + x->window.len - got;
	return (la_ssize_t)got;
}

__attribute__((format(printf, 2, 3))) static void warn(
    struct push *x, const char *fmt, ...)
{
	char text[3 * TEXT];
	va_list args;

	va_start(args, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	x->whole = false;
	task_message(x->task, TASK_WARNING, "'%s'%s", x->shown, text);
}

static void warn_member(struct push *x, const char *name, const char *why)
{
	char text[TEXT];

	warn(x, ": member '%s' is not listed: %s",
	    text_name(text, sizeof(text), name), why);
}

static int list_link(struct push *x, const char *to,
    const struct catalog_entry *row, uint64_t member, enum tar_rows_put *ret,
    struct err *e)
{
	const char *wrong = NULL;
	int rc = tar_rows_path(to, &x->target, &wrong, e);

	if (rc < 0)
		return rc;
	if (wrong != NULL && row == NULL) {
		*ret = TAR_ROWS_NO_TARGET;
		return 0;
	}
	return tar_rows_link(x->rows,
	    (struct catalog_bytes){ x->path.data, x->path.len },
	    (struct catalog_bytes){ x->target.data, x->target.len }, row,
	    member, ret, e);
}

/* The row of a member whose content was read. */
static int list(struct push *x, const char *name, struct catalog_entry *row,
    uint64_t member, struct err *e)
{
	const char *to = archive_entry_hardlink(x->entry);
	enum tar_rows_put put = TAR_ROWS_LISTED;
	int rc = 0;

	if (row->kind == CATALOG_FILE) {
		tar_content_row(&x->content, row);
		row->pos = x->content.pos;
		if ((row->state & CATALOG_STATE_UNREADABLE) == 0)
			row->has |= CATALOG_HAS_POS;
	}
	if (to != NULL)
		rc = list_link(
		    x, to, x->content.size > 0 ? row : NULL, member, &put, e);
	else
		rc = tar_rows_put(x->rows,
		    (struct catalog_bytes){ x->path.data, x->path.len }, row,
		    member, &put, e);
	if (rc == 0 && put == TAR_ROWS_DIRECTORY)
		warn_member(x, name, "a directory had its name before");
	if (rc == 0 && put == TAR_ROWS_NO_TARGET)
		warn_member(x, name, "it links to what is not listed");
	return rc;
}

/* Where a member's content begins; a large one with a chunk. */
static int begin_content(struct push *x, struct err *e)
{
	uint64_t pos = (uint64_t)archive_filter_bytes(x->a, 0);
	int rc = hand_over(x, pos, e);

	x->content.pos = pos;
	if (rc == 0 && archive_entry_size(x->entry) >= (int64_t)TAR_CUT_SIZE)
		rc = ingest_feed_cut(x->feed, e);
	return rc;
}

static int read_member(struct push *x, struct err *e)
{
	const char *name = archive_entry_pathname(x->entry);
	uint64_t member = (uint64_t)archive_read_header_position(x->a);
	const char *wrong = NULL;
	struct catalog_entry row = { .kind = CATALOG_FILE };
	char text[2][TEXT];
	int rc = begin_content(x, e);

	if (name == NULL)
		name = "";
	if (rc == 0)
		rc = tar_rows_path(name, &x->path, &wrong, e);
	if (rc == 0 && wrong == NULL)
		rc = tar_meta_row(&x->meta, x->entry, &row, &wrong, e);
	if (rc == 0 && wrong == NULL && x->path.len == 0 &&
	    row.kind != CATALOG_DIR)
		wrong = "it has no name";
	if (rc == 0)
		rc = tar_content_read(&x->content, x->a, x->entry, e);
	if (rc < 0 || x->failed < 0)
		return rc;
	x->members++;
	if (wrong != NULL) {
		warn_member(x, name, wrong);
		return 0;
	}
	if (x->content.state != 0)
		warn(x, ": member '%s' is not whole: %s",
		    text_name(text[0], TEXT, name),
		    text_name(text[1], TEXT,
			x->content.why != NULL ? x->content.why : "damaged"));
	return list(x, name, &row, member, e);
}

/* An end that is none: nothing stands where two blocks of zeros should. */
static void check_end(struct push *x)
{
	if (archive_filter_bytes(x->a, 0) > archive_read_header_position(x->a))
		return;
	warn(x,
	    " ends at offset %" PRIu64 " without an end-of-archive "
	    "marker; it may have been cut off",
	    read_so_far(x));
	catalog_writer_incomplete(x->writer, read_so_far(x));
}

/* That names are not ASCII is none: their bytes are taken. */
static void check_warning(struct push *x)
{
	const char *name = archive_entry_pathname(x->entry);
	char text[2][TEXT];

	if (tar_warning(x->a) == NULL)
		return;
	warn(x, ": metadata of member '%s' is not whole: %s",
	    text_name(text[0], TEXT, name != NULL ? name : ""),
	    text_name(text[1], TEXT, tar_warning(x->a)));
}

static int read_members(struct push *x, bool *ret_end, struct err *e)
{
	char text[TEXT];
	int r = ARCHIVE_OK;

	while (!x->content.ended) {
		int rc = 0;

		x->in_header = true;
		x->header = (uint64_t)archive_filter_bytes(x->a, 0);
		r = archive_read_next_header2(x->a, x->entry);
		x->in_header = false;
		if (x->failed < 0)
			return x->failed;
		if (r == ARCHIVE_EOF) {
			check_end(x);
			*ret_end = true;
			return 0;
		}
		if (r != ARCHIVE_OK && r != ARCHIVE_WARN) {
			if (archive_errno(x->a) == ENOMEM)
				return err_nomem(e);
			break;
		}
		if (r == ARCHIVE_WARN)
			check_warning(x);
		rc = read_member(x, e);
		if (x->failed < 0)
			return x->failed;
		if (rc < 0)
			return rc;
	}
	warn(x,
	    " can not be read as a tar behind offset %" PRIu64 ": %s; all "
	    "of it is stored, but its catalog ends there",
	    (uint64_t)archive_filter_bytes(x->a, 0),
	    tar_reason(x->a, text, sizeof(text)));
	catalog_writer_incomplete(
	    x->writer, (uint64_t)archive_filter_bytes(x->a, 0));
	return 0;
}

/* "gzip", or NULL: by its first bytes. */
static const char *compression(const uint8_t *p, size_t n)
{
	static const struct {
		const char *name;
		const char *magic;
		size_t n;
	} known[] = {
		{ "gzip", "\x1f\x8b", 2 },
		{ "compress", "\x1f\x9d", 2 },
		{ "bzip2", "BZh", 3 },
		{ "xz",
		    "\xfd"
		    "7zXZ\0",
		    6 },
		{ "zstd", "\x28\xb5\x2f\xfd", 4 },
		{ "lz4", "\x04\x22\x4d\x18", 4 },
		{ "lzip", "LZIP", 4 },
		{ "lzop", "\x89LZO", 4 },
		{ "lzma", "\x5d\0\0", 3 },
	};

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		if (n >= known[i].n &&
		    memcmp(p, known[i].magic, known[i].n) == 0)
			return known[i].name;
	}
	return NULL;
}

static int open_archive(struct push *x, bool *ret_open, struct err *e)
{
	const char *packed = NULL;
	size_t got = 1;
	int rc = 0;

	/* Enough to see what it is; a pipe may give a byte at a time. */
	while (rc == 0 && got > 0 && x->window.len < 512)
		rc = fill(x, &got, e);
	if (rc < 0)
		return rc;
	x->ready = true;
	*ret_open = false;
	packed = compression(x->window.data, x->window.len);
	if (packed != NULL) {
		warn(x,
		    " is compressed (%s): stored as it is, without a "
		    "catalog",
		    packed);
		return 0;
	}
	x->a = archive_read_new();
	x->entry = x->a != NULL ? archive_entry_new2(x->a) : NULL;
	if (x->entry == NULL ||
	    archive_read_support_format_tar(x->a) != ARCHIVE_OK)
		return err_nomem(e);
	if (x->opts->ignore_zeros &&
	    archive_read_set_options(x->a, "tar:read_concatenated_archives") !=
		ARCHIVE_OK)
		return tar_fail(x->a, ERR_UNSUPPORTED, x->shown, e);
	x->in_header = true;
	if (archive_read_open(x->a, x, NULL, on_read, NULL) == ARCHIVE_OK) {
		*ret_open = true;
		return 0;
	}
	if (x->failed < 0)
		return x->failed;
	if (archive_errno(x->a) == ENOMEM)
		return err_nomem(e);
	/* An empty tar has its end, two blocks: this is a producer's failure.
	 */
	if (read_so_far(x) == 0)
		return err_set(e, ERR_REFUSED,
		    "'%s': nothing came, and no tar has no bytes; a producer "
		    "that can fail is best run by --command",
		    x->shown);
	warn(x, " is no tar: stored as it is, without a catalog");
	return 0;
}

/* What libarchive did not want to see. */
static int store_rest(struct push *x, bool end, struct err *e)
{
	uint64_t behind =
	    x->a != NULL ? (uint64_t)archive_filter_bytes(x->a, 0) : 0;
	bool zeros = true;
	size_t got = 1;
	int rc = end ? hand_over(x, behind, e) : 0;

	while (rc == 0 && got > 0) {
		for (size_t i = x->done; i < x->window.len && end && zeros; i++)
			zeros = x->window.data[i] == 0;
		rc = hand_over(x, read_so_far(x), e);
		if (rc == 0)
			rc = fill(x, &got, e);
	}
	if (rc == 0 && !zeros)
		warn(x,
		    " has %" PRIu64 " bytes behind its end, at offset %" PRIu64
		    ", that its catalog does not show%s",
		    read_so_far(x) - behind, behind,
		    x->opts->ignore_zeros ? "" : " (see --ignore-zeros)");
	return rc;
}

static int on_row(void *ctx, const struct catalog_entry *row, uint64_t member,
    bool replaced, struct err *e)
{
	struct push *x = ctx;

	/* The greatest member of a name is the one that is listed. */
	(void)replaced;
	return catalog_writer_add_member(x->writer, row, member, e);
}

static void on_gives_way(void *ctx, const char *path)
{
	warn_member(ctx, path, "a later member lies in it as in a directory");
}

static int store_catalog(
    struct push *x, uint64_t size, struct ingest_result *ret, struct err *e)
{
	int64_t next_id = 0;
	int rc = tar_rows_finish(x->rows, &next_id, e);

	if (rc == 0 && size > 0)
		rc = catalog_writer_run(x->writer, 0, size, 0, e);
	if (rc == 0)
		rc = catalog_writer_finish(x->writer, next_id, size,
		    &x->opts->ingest, x->task, ret, e);
	if (rc == 0 && x->meta.acl_names > 0)
		warn(x,
		    ": %" PRIu64 " %s of access control lists %s "
		    "accounts without a number, not in its catalog",
		    x->meta.acl_names,
		    text_plural(x->meta.acl_names, "entry", "entries"),
		    text_plural(x->meta.acl_names, "names", "name"));
	return rc;
}

static int push(struct push *x, struct tar_push_result *result, struct err *e)
{
	bool open = false;
	bool end = false;
	int rc = open_archive(x, &open, e);

	if (rc == 0 && open)
		rc = read_members(x, &end, e);
	if (rc == 0)
		rc = store_rest(x, end, e);
	if (rc == 0)
		rc = ingest_reader_changed(
		    &x->reader, &result->content.changed, e);
	if (rc == 0)
		rc = ingest_feed_finish(x->feed, &result->content, e);
	if (rc < 0)
		return rc;
	/* Its memory is needed. */
	ingest_feed_free(x->feed);
	x->feed = NULL;
	if (open && (x->members > 0 || end))
		rc =
		    store_catalog(x, result->content.size, &result->catalog, e);
	result->members = x->members;
	result->whole = x->whole;
	return rc;
}

static int prepare(struct push *x, struct session *s, const char *archive,
    const struct ingest_source *src, struct err *e)
{
	const struct tar_rows_sink sink = {
		.row = on_row, .gives_way = on_gives_way, .ctx = x
	};
	char *filename = NULL;
	int rc = ingest_reader_init(&x->reader, src, e);

	if (rc < 0)
		return rc;
	if (asprintf(&filename, "%s.didx", archive) < 0)
		return err_nomem(e);
	rc = ingest_feed_new(s, filename, src->size_hint, &x->opts->ingest,
	    x->task, &x->feed, e);
	free(filename);
	x->reader.idle = ingest_feed_idle;
	x->reader.ctx = x->feed;
	if (rc == 0)
		rc = catalog_writer_new(s, archive, &x->writer, e);
	if (rc == 0)
		rc = tar_rows_new(&sink, &x->rows, e);
	if (rc == 0)
		rc = digest_ctx_new(&x->content.digest, e);
	x->meta.writer = x->writer;
	return rc;
}

static void release(struct push *x)
{
	archive_entry_free(x->entry);
	(void)archive_read_free(x->a);
	ingest_feed_free(x->feed);
	tar_rows_free(x->rows);
	catalog_writer_free(x->writer);
	tar_meta_release(&x->meta);
	digest_ctx_free(x->content.digest);
	buf_release(&x->content.holes);
	buf_release(&x->window);
	buf_release(&x->path);
	buf_release(&x->target);
}

int tar_push(struct session *s, const char *archive,
    const struct ingest_source *src, const struct tar_push_opts *opts,
    struct task *task, struct tar_push_result *ret, struct err *e)
{
	static const struct tar_push_opts none = { .ignore_zeros = false };
	struct tar_push_result result = { .members = 0 };
	struct tar_locale locale = TAR_LOCALE_INIT;
	struct push x = { .opts = opts != NULL ? opts : &none,
		.task = task,
		.shown = src->shown,
		.e = e,
		.meta = { .task = task, .shown = src->shown },
		.content = { .placed = true },
		.whole = true };
	int rc = tar_locale_enter(&locale, false, e);

	if (rc == 0)
		rc = prepare(&x, s, archive, src, e);
	if (rc == 0)
		rc = push(&x, &result, e);
	release(&x);
	tar_locale_leave(&locale);
	if (rc == 0)
		*ret = result;
	return rc;
}
