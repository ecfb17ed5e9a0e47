/* SPDX-License-Identifier: MIT */
#include "index/tree_import.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "datastore/base/text.h"
#include "index/tar_libarchive.h"
#include "index/tar_rows.h"
#include "index/tree_import_internal.h"

#define TEXT 192

struct import {
	const struct tree_import_opts *opts;
	struct task *task;
	const char *shown;
	struct tree_source source;
	struct archive_entry *entry;

	struct tree_writer *writer;
	struct tar_rows *rows;
	struct tar_meta meta;
	struct tar_content content;
	struct buf small; /* a content, until it is whole or long */
	bool begun;       /* it was long */
	uint64_t pos;
	int64_t last_id;
	struct buf path;
	struct buf target;
	struct tree_import_result result;
};

__attribute__((format(printf, 2, 3))) static void warn(
    struct import *x, const char *fmt, ...)
{
	char text[3 * TEXT];
	va_list args;

	va_start(args, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	x->result.whole = false;
	task_message(x->task, TASK_WARNING, "'%s'%s", x->shown, text);
}

static void leave_out(struct import *x, const char *name, const char *why)
{
	char text[TEXT];

	x->result.left_out++;
	warn(x, ": member '%s' is left out: %s",
	    text_name(text, sizeof(text), name), why);
}

/* A content that is not long yet may be one that was placed before. */
static int on_content(void *ctx, const void *p, size_t n, struct err *e)
{
	struct import *x = ctx;
	int rc = 0;

	if (!x->begun) {
		rc = buf_append(&x->small, p, n, e);
		if (rc < 0 || x->small.len < TREE_CUT_SIZE)
			return rc;
		x->begun = true;
		rc = tree_writer_begin(x->writer, true, &x->pos, e);
		p = x->small.data;
		n = x->small.len;
	}
	return rc < 0 ? rc : tree_writer_append(x->writer, p, n, e);
}

static int place(struct import *x, struct err *e)
{
	const struct digest *d = &x->content.sha256;
	int rc = 0;

	if (x->begun)
		return tree_writer_end(x->writer, d, e);
	if (tree_writer_find(x->writer, d, x->small.len, &x->pos))
		return 0;
	rc = tree_writer_begin(x->writer, false, &x->pos, e);
	if (rc == 0 && x->small.len > 0)
		rc = tree_writer_append(
		    x->writer, x->small.data, x->small.len, e);
	return rc < 0 ? rc : tree_writer_end(x->writer, d, e);
}

static int read_content(struct import *x, const char *name,
    struct catalog_entry *row, struct err *e)
{
	char text[2][TEXT];
	int rc = 0;

	buf_reset(&x->small);
	x->begun = false;
	rc = tar_content_read(&x->content, x->source.a, x->entry, e);
	if (x->source.failed < 0)
		return x->source.failed;
	if (rc == 0 && row->kind == CATALOG_FILE &&
	    (x->begun || x->content.stored > 0))
		rc = place(x, e);
	if (rc < 0)
		return rc;
	if (x->content.state != 0)
		warn(x, ": member '%s' is not whole: %s",
		    text_name(text[0], TEXT, name),
		    text_name(text[1], TEXT,
			x->content.why != NULL ? x->content.why : "damaged"));
	if (row->kind != CATALOG_FILE)
		return 0;
	tar_content_row(&x->content, row);
	if ((x->content.state & CATALOG_STATE_UNREADABLE) == 0) {
		row->pos = x->content.stored > 0 ? x->pos : 0;
		row->has |= CATALOG_HAS_POS;
	}
	return 0;
}

static int put_row(struct import *x, const char *name,
    const struct catalog_entry *row, struct err *e)
{
	const char *to = archive_entry_hardlink(x->entry);
	struct catalog_bytes path = { x->path.data, x->path.len };
	enum tar_rows_put put = TAR_ROWS_LISTED;
	const char *wrong = NULL;
	int rc = 0;

	if (to == NULL) {
		rc = tar_rows_put(
		    x->rows, path, row, x->result.members, &put, e);
	} else {
		rc = tar_rows_path(to, &x->target, &wrong, e);
		if (rc == 0 && wrong != NULL)
			buf_reset(&x->target);
		if (rc == 0)
			rc = tar_rows_link(x->rows, path,
			    (struct catalog_bytes){
				x->target.data, x->target.len },
			    x->content.size > 0 ? row : NULL, x->result.members,
			    &put, e);
	}
	if (rc == 0 && put == TAR_ROWS_DIRECTORY)
		leave_out(x, name, "a directory had its name before");
	if (rc == 0 && put == TAR_ROWS_NO_TARGET)
		leave_out(x, name, "it links to what is not there");
	return rc;
}

static int read_member(struct import *x, struct err *e)
{
	const char *name = archive_entry_pathname(x->entry);
	const char *wrong = NULL;
	struct catalog_entry row;
	int rc = 0;

	x->result.members++;
	if (name == NULL) {
		leave_out(x, "", "it has no name");
		return 0;
	}
	rc = tar_rows_path(name, &x->path, &wrong, e);
	if (rc == 0 && wrong == NULL)
		rc = tar_meta_row(&x->meta, x->entry, &row, &wrong, e);
	if (rc == 0 && wrong == NULL && x->path.len == 0 &&
	    row.kind != CATALOG_DIR)
		wrong = "it has no name";
	if (rc == 0 && wrong != NULL) {
		leave_out(x, name, wrong);
		return 0;
	}
	if (rc == 0)
		rc = read_content(x, name, &row, e);
	return rc < 0 ? rc : put_row(x, name, &row, e);
}

static void check_warning(struct import *x)
{
	const char *name = archive_entry_pathname(x->entry);
	char text[2][TEXT];

	if (tar_warning(x->source.a) == NULL)
		return;
	warn(x, ": metadata of member '%s' is not whole: %s",
	    text_name(text[0], TEXT, name != NULL ? name : ""),
	    text_name(text[1], TEXT, tar_warning(x->source.a)));
}

static int read_members(struct import *x, bool *ret_ended, struct err *e)
{
	char text[TEXT];
	int r = ARCHIVE_OK;

	while (!x->content.ended) {
		int rc = 0;

		r = archive_read_next_header2(x->source.a, x->entry);
		if (x->source.failed < 0)
			return x->source.failed;
		*ret_ended = r == ARCHIVE_EOF;
		if (*ret_ended)
			return 0;
		tree_source_settle(&x->source);
		if (archive_errno(x->source.a) == ENOMEM && r != ARCHIVE_OK)
			return err_nomem(e);
		if (r != ARCHIVE_OK && r != ARCHIVE_WARN)
			break;
		if (r == ARCHIVE_WARN)
			check_warning(x);
		rc = read_member(x, e);
		if (x->source.failed < 0)
			return x->source.failed;
		if (rc < 0)
			return rc;
	}
	/* Not even one: what it was taken for, it is not. */
	if (x->result.members == 0)
		return tar_fail(x->source.a, ERR_INVALID, x->shown, e);
	warn(x, " can not be read behind member %" PRIu64 ": %s",
	    x->result.members, tar_reason(x->source.a, text, sizeof(text)));
	return 0;
}

static int read_rest(struct import *x, bool ended, struct err *e)
{
	uint64_t end = 0;
	bool more = false;
	int rc = tree_source_rest(&x->source, &more, &end, e);

	if (rc == 0 && more && ended)
		warn(x,
		    " has more behind its end, at offset %" PRIu64
		    ", that is left out%s",
		    end, x->opts->ignore_zeros ? "" : " (see --ignore-zeros)");
	return rc;
}

static int import_as_bytes(struct import *x, bool *ret_open, struct err *e)
{
	struct tar_locale locale = TAR_LOCALE_INIT;
	bool ended = false;
	int rc = tar_locale_enter(&locale, false, e);

	if (rc == 0)
		rc = tree_source_open_bytes(&x->source, ret_open, e);
	if (rc == 0 && *ret_open)
		rc = read_members(x, &ended, e);
	if (rc == 0 && x->result.members > 0)
		rc = read_rest(x, ended, e);
	tar_locale_leave(&locale);
	return rc;
}

static int import(struct import *x, struct err *e)
{
	struct tar_locale locale = TAR_LOCALE_INIT;
	bool open = false;
	bool empty = false;
	bool ended = false;
	int rc = import_as_bytes(x, &empty, e);

	/* An empty tar is zeros, with which other things begin, too. */
	if (rc < 0 || x->result.members > 0 || (empty && x->source.lost))
		return rc;
	rc = tar_locale_enter(&locale, true, e);
	if (rc == 0)
		rc = tree_source_open_others(&x->source, &open, e);
	if (rc == 0 && open)
		rc = read_members(x, &ended, e);
	else if (rc == 0 && !empty)
		rc = err_set(e, ERR_INVALID,
		    "'%s' is neither a directory nor an archive of a kind "
		    "that is known",
		    x->shown);
	tar_locale_leave(&locale);
	return rc;
}

static void on_gives_way(void *ctx, const char *path)
{
	leave_out(ctx, path, "a later member lies in it as in a directory");
}

static int on_row(void *ctx, const struct catalog_entry *row, uint64_t member,
    bool replaced, struct err *e)
{
	struct import *x = ctx;

	(void)member;
	if (replaced)
		return 0;
	/* Ids were handed out in tar_rows; here they only have to be gone. */
	while (x->last_id < row->id)
		x->last_id = tree_writer_next_id(x->writer);
	return tree_writer_add(x->writer, row, e);
}

static int prepare(struct import *x, struct session *s, const char *archive,
    const struct ingest_source *src, struct err *e)
{
	const struct tar_rows_sink sink = {
		.row = on_row, .gives_way = on_gives_way, .ctx = x
	};
	int rc = tree_writer_new(
	    s, archive, &x->opts->ingest, x->task, &x->writer, e);

	if (rc == 0)
		rc = tree_source_init(&x->source, src, x->writer, e);
	if (rc == 0)
		rc = tar_rows_new(&sink, &x->rows, e);
	if (rc == 0)
		rc = digest_ctx_new(&x->content.digest, e);
	if (rc == 0 && (x->entry = archive_entry_new()) == NULL)
		rc = err_nomem(e);
	if (rc == 0)
		x->meta.writer = tree_writer_catalog(x->writer);
	return rc;
}

static int finish(struct import *x, struct err *e)
{
	int64_t next_id = 0;
	int rc = tar_rows_finish(x->rows, &next_id, e);

	if (rc == 0)
		rc = ingest_reader_changed(
		    &x->source.reader, &x->result.changed, e);
	if (rc == 0)
		rc = tree_writer_finish(x->writer, &x->result.written, e);
	if (rc == 0 && x->meta.acl_names > 0)
		warn(x,
		    ": %" PRIu64 " %s of access control lists %s "
		    "accounts without a number, left out here",
		    x->meta.acl_names,
		    text_plural(x->meta.acl_names, "entry", "entries"),
		    text_plural(x->meta.acl_names, "names", "name"));
	return rc;
}

static void release(struct import *x)
{
	archive_entry_free(x->entry);
	tree_source_release(&x->source);
	tar_rows_free(x->rows);
	tree_writer_free(x->writer);
	tar_meta_release(&x->meta);
	digest_ctx_free(x->content.digest);
	buf_release(&x->content.holes);
	buf_release(&x->small);
	buf_release(&x->path);
	buf_release(&x->target);
}

int tree_import(struct session *s, const char *archive,
    const struct ingest_source *src, const struct tree_import_opts *opts,
    struct task *task, struct tree_import_result *ret, struct err *e)
{
	static const struct tree_import_opts none = { .ignore_zeros = false };
	struct import x = { .opts = opts != NULL ? opts : &none,
		.task = task,
		.shown = src->shown,
		.source = { .e = e, .spool = -1 },
		.meta = { .task = task, .shown = src->shown },
		.result = { .whole = true } };
	int rc = 0;

	x.source.ignore_zeros = x.opts->ignore_zeros;
	x.content.sink = on_content;
	x.content.ctx = &x;
	rc = prepare(&x, s, archive, src, e);
	if (rc == 0)
		rc = import(&x, e);
	if (rc == 0)
		rc = finish(&x, e);
	release(&x);
	if (rc == 0)
		*ret = x.result;
	return rc;
}
