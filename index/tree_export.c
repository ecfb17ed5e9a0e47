/* SPDX-License-Identifier: MIT */
#include "index/tree_export.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "datastore/base/bytes.h"
#include "datastore/base/file.h"
#include "datastore/base/sysio.h"
#include "datastore/base/text.h"
#include "index/archive_reader.h"
#include "index/hashidx.h"
#include "index/spill.h"
#include "index/tar_libarchive.h"
#include "index/tree_cat.h"
#include "index/tree_export_internal.h"

#define CACHE ((size_t)64 << 20) /* a file is checked, then written */
#define OUT_MAX ((size_t)256 << 10)
#define WAIT_MS 500
#define ZEROS ((size_t)64 << 10)
#define TEXT 256

/* Where the first name of a group of hard links was written. */
struct first {
	int64_t link;
	uint64_t path;
	uint64_t path_n;
};

struct export
{
	const struct tree_export_opts *opts;
	struct catalog *catalog;
	struct archive_reader *reader;
	struct task *task;
	int fd;
	bool waits; /* writing may block */
	struct buf out;
	struct err *e; /* of whoever calls libarchive */
	int failed;    /* what a callback met; *e has it */
	bool discard;  /* of what libarchive writes when it is closed */
	struct archive *a;
	struct tree_export_entry entry;
	uint64_t written; /* of the file that is being written */
	char phase[BACKUP_ID_MAX + 16];
	struct spill firsts;
	struct spill paths;
	struct hashidx index;
	struct buf target;
	struct tree_export_result result;
};

static int wait_for_room(struct export *x, bool *ret_ready, struct err *e)
{
	struct pollfd fds = { .fd = x->fd, .events = POLLOUT };
	int rc = 1;

	if (x->waits)
		rc = sysio_poll(&fds, 1, WAIT_MS);
	if (rc < 0 && errno != EINTR)
		return err_sys(e, "wait for '%s'", x->opts->shown);
	*ret_ready = rc > 0;
	return 0;
}

/* What is ready takes PIPE_BUF bytes; it never blocks for good. */
static int flush(struct export *x, struct err *e)
{
	size_t at = 0;

	while (at < x->out.len) {
		size_t piece = x->out.len - at;
		bool ready = false;
		ssize_t r = -1;
		int rc = task_check(x->task, e);

		if (rc == 0)
			rc = wait_for_room(x, &ready, e);
		if (rc < 0)
			return rc;
		if (!ready)
			continue;
		if (x->waits && piece > PIPE_BUF)
			piece = PIPE_BUF;
		r = sysio_write(x->fd, x->out.data + at, piece);
		if (r < 0 && (errno == EINTR || errno == EAGAIN))
			continue;
		if (r == 0)
			errno = EIO;
		if (r <= 0)
			return err_sys(e, "write '%s'", x->opts->shown);
		at += (size_t)r;
	}
	buf_reset(&x->out);
	return 0;
}

static la_ssize_t on_write(
    struct archive *a, void *ctx, const void *p, size_t n)
{
	struct export *x = ctx;
	int rc = 0;

	if (x->discard)
		return (la_ssize_t)n;
	rc = buf_append(&x->out, p, n, x->e);
	if (rc == 0 && x->out.len >= OUT_MAX)
		rc = flush(x, x->e);
	if (rc == 0)
		return (la_ssize_t)n;
	x->failed = rc;
	archive_set_error(a, EIO, "stopped");
	return -1;
}

static void say(struct export *x, struct catalog_bytes path, const char *what,
    const char *why)
{
	struct buf b = BUF_INIT;
	struct err ignored = ERR_INIT; /* a name less is no harm */
	const char *text = NULL;

	if (text_append_name(&b, path.p, path.n, &ignored) == 0)
		text = buf_cstr(&b, &ignored);
	task_message(x->task, TASK_WARNING, "'%s' %s: %s",
	    text != NULL ? text : "", what, why);
	buf_release(&b);
}

static void leave_out(
    struct export *x, struct catalog_bytes path, const char *why)
{
	x->result.left_out++;
	say(x, path, "is left out", why);
}

/* A failure of the library: of the entry (0), or of everything. */
static int check(struct export *x, int r, struct err *e)
{
	if (x->failed < 0)
		return x->failed;
	if (archive_errno(x->a) == ENOMEM && r != ARCHIVE_OK)
		return err_nomem(e);
	return r == ARCHIVE_FATAL
	    ? tar_fail(x->a, ERR_INVALID, x->opts->shown, e)
	    : 0;
}

static int find_first(struct export *x, int64_t link, struct first *ret,
    bool *ret_found, struct err *e)
{
	uint32_t nr = 0;
	size_t at = 0;

	*ret_found = false;
	while (hashidx_next(&x->index, (uint32_t)link, &at, &nr)) {
		int rc = spill_read(
		    &x->firsts, ret, sizeof(*ret), nr * sizeof(*ret), e);

		if (rc < 0)
			return rc;
		if (ret->link == link) {
			*ret_found = true;
			return 0;
		}
	}
	return 0;
}

/* The entry is a link to the name of its group that was written first. */
static int link_entry(struct export *x, const struct first *f, struct err *e)
{
	const char *text = NULL;
	int rc = 0;

	buf_reset(&x->target);
	rc = buf_reserve(&x->target, f->path_n + 1, e);
	if (rc == 0)
		rc = spill_read(
		    &x->paths, x->target.data, f->path_n, f->path, e);
	if (rc < 0)
		return rc;
	x->target.len = f->path_n;
	text = buf_cstr(&x->target, e);
	if (text == NULL)
		return e->code;
	archive_entry_sparse_clear(x->entry.ae);
	archive_entry_set_size(x->entry.ae, 0);
	archive_entry_copy_hardlink(x->entry.ae, text);
	return 0;
}

static int remember(
    struct export *x, int64_t link, struct catalog_bytes path, struct err *e)
{
	struct first f = { .link = link, .path_n = path.n };
	uint64_t nr = spill_size(&x->firsts) / sizeof(f);
	int rc = spill_append(&x->paths, path.p, path.n, &f.path, e);

	if (rc == 0)
		rc = spill_append(&x->firsts, &f, sizeof(f), NULL, e);
	return rc < 0 ? rc
		      : hashidx_add(&x->index, (uint32_t)link, (uint32_t)nr, e);
}

static int on_checked(void *ctx, const void *p, size_t n, struct err *e)
{
	const struct export *x = ctx;

	(void)p;
	(void)n;
	return task_check(x->task, e);
}

/* Of a huge hole, too, all bytes pass. */
static void report(struct export *x)
{
	const struct task_progress p = { .phase = x->phase,
		.unit = TASK_UNIT_BYTES,
		.done = x->result.bytes };

	task_progress(x->task, &p);
}

static int on_content(void *ctx, const void *p, size_t n, struct err *e)
{
	struct export *x = ctx;
	la_ssize_t r = archive_write_data(x->a, p, n);
	int rc = 0;

	if (r < 0) {
		rc = check(x, (int)r, e);
		if (rc == 0)
			rc = tar_fail(x->a, ERR_SYS, x->opts->shown, e);
		return rc;
	}
	x->written += n;
	x->result.bytes += n;
	report(x);
	return 0;
}

static bool is_damage(int rc)
{
	return rc == ERR_CORRUPT || rc == ERR_NOTFOUND;
}

/* Its header promised so many bytes. */
static int pad(struct export *x, uint64_t size, struct err *e)
{
	static const uint8_t zeros[ZEROS];
	int rc = 0;

	while (rc == 0 && x->written < size) {
		uint64_t left = size - x->written;

		rc = on_content(
		    x, zeros, left < ZEROS ? (size_t)left : ZEROS, e);
		if (rc == 0)
			rc = task_check(x->task, e);
	}
	return rc;
}

static int write_content(struct export *x, struct catalog_bytes path,
    const struct catalog_entry *row, struct err *e)
{
	bool cut = false;
	int rc = 0;

	x->written = 0;
	rc = catalog_is_cut(x->catalog, row, &cut, e);
	if (rc == 0 && cut)
		say(x, path, "is not whole", CATALOG_CUT_TEXT);
	if (rc == 0)
		rc = tree_cat(
		    x->catalog, x->reader, row, on_content, x, x->task, e);
	if (rc == 0 || x->failed < 0 || !is_damage(rc))
		return rc;
	x->result.damaged++;
	say(x, path, "is not what it was, zeros stand for what is missing",
	    e->msg);
	(void)err_forget(e);
	return pad(x, row->size, e);
}

/* *ret_sound false: it was said. */
static int check_content(struct export *x, struct catalog_bytes path,
    const struct catalog_entry *row, bool *ret_sound, struct err *e)
{
	int rc = 0;

	*ret_sound = true;
	if ((row->state & CATALOG_STATE_UNREADABLE) != 0) {
		leave_out(x, path, "it could not be read when it was pushed");
		*ret_sound = false;
		return 0;
	}
	if (catalog_stored_size(row) > TREE_EXPORT_CHECK_MAX)
		return 0;
	rc = tree_cat(x->catalog, x->reader, row, on_checked, x, x->task, e);
	if (!is_damage(rc))
		return rc;
	x->result.damaged++;
	leave_out(x, path, e->msg);
	*ret_sound = false;
	return err_forget(e);
}

/* Why the format has no place for it, or NULL. */
static const char *no_place(const struct export *x, struct catalog_bytes path,
    const struct catalog_entry *row)
{
	bool plain = row->kind == CATALOG_FILE || row->kind == CATALOG_DIR ||
	    row->kind == CATALOG_SYMLINK;

	if (row->kind == CATALOG_SOCKET)
		return "it is a socket";
	if (row->kind == CATALOG_SYMLINK &&
	    (row->has & CATALOG_HAS_TARGET) == 0)
		return "its target could not be read when it was pushed";
	if (!plain && x->opts->format == TREE_EXPORT_ZIP)
		return "a zip has files, directories and symbolic links only";
	/* Some readers refuse all of a zip with another one. */
	if (x->opts->format == TREE_EXPORT_ZIP && path.n > 0 &&
	    !text_is_utf8(path.p, path.n))
		return "its name is not UTF-8, as names in a zip are";
	return NULL;
}

static int write_entry(struct export *x, struct catalog_bytes path,
    const struct catalog_entry *row, bool *ret_written, struct err *e)
{
	char text[TEXT];
	int r = archive_write_header(x->a, x->entry.ae);
	int rc = check(x, r, e);

	*ret_written = false;
	if (rc < 0)
		return rc;
	if (r != ARCHIVE_OK && r != ARCHIVE_WARN) {
		leave_out(x, path, tar_reason(x->a, text, sizeof(text)));
		return 0;
	}
	*ret_written = true;
	x->result.entries++;
	if (row->kind != CATALOG_FILE ||
	    archive_entry_hardlink(x->entry.ae) != NULL)
		return 0;
	return write_content(x, path, row, e);
}

static int export_entry(struct export *x, struct catalog_bytes path,
    const struct catalog_entry *row, struct err *e)
{
	bool group = (row->has & CATALOG_HAS_LINK) != 0 &&
	    row->kind != CATALOG_DIR && x->opts->format == TREE_EXPORT_TAR;
	const char *why = no_place(x, path, row);
	struct first first;
	bool linked = false;
	bool sound = true;
	bool written = false;
	int rc = 0;

	if (why != NULL) {
		leave_out(x, path, why);
		return 0;
	}
	if (group)
		rc = find_first(x, row->link, &first, &linked, e);
	if (rc == 0 && row->kind == CATALOG_FILE && !linked)
		rc = check_content(x, path, row, &sound, e);
	if (rc < 0 || !sound)
		return rc;
	rc = tree_export_fill(&x->entry, path, row, e);
	if (is_damage(rc)) {
		x->result.damaged++;
		say(x, path, "lacks attributes", e->msg);
		rc = err_forget(e);
	}
	if (rc == 0 && linked)
		rc = link_entry(x, &first, e);
	if (rc == 0)
		rc = write_entry(x, path, row, &written, e);
	if (rc == 0 && group && !linked && written)
		rc = remember(x, row->link, path, e);
	return rc;
}

static int on_entry(void *ctx, struct catalog_bytes path,
    const struct catalog_entry *row, struct err *e)
{
	struct export *x = ctx;
	int rc = task_check(x->task, e);

	/* Who unpacks it makes such a directory without being told. */
	if (rc < 0 ||
	    (row->kind == CATALOG_DIR && (row->has & CATALOG_HAS_MODE) == 0))
		return rc;
	return export_entry(x, path, row, e);
}

/* As the catalog has it: single slashes, none at the ends. */
static int tidy_path(struct catalog_bytes in, struct buf *out, struct err *e)
{
	size_t at = 0;
	int rc = 0;

	while (rc == 0 && at < in.n) {
		const uint8_t *slash = memchr(in.p + at, '/', in.n - at);
		size_t n =
		    slash != NULL ? (size_t)(slash - in.p) - at : in.n - at;

		if (n > 0 && !(n == 1 && in.p[at] == '.')) {
			if (out->len > 0)
				rc = buf_append(out, "/", 1, e);
			if (rc == 0)
				rc = buf_append(out, in.p + at, n, e);
		}
		at += n + 1;
	}
	return rc;
}

static int walk(struct export *x, struct err *e)
{
	const struct catalog_walk w = { .fn = on_entry,
		.ctx = x,
		.task = x->task,
		.gaps = &x->result.gaps };
	struct catalog_entry row;
	struct catalog_entry *from = NULL;
	struct buf path = BUF_INIT;
	int rc = 0;

	/* The row is good until the next look-up only. */
	rc = x->opts->path.n > 0
	    ? catalog_resolve(x->catalog, x->opts->path, &row, e)
	    : catalog_root(x->catalog, &row, e);
	if (rc == 0)
		rc = catalog_entry_copy(&row, &from, e);
	if (rc == 0)
		rc = tidy_path(x->opts->path, &path, e);
	if (rc == 0)
		rc = catalog_walk(x->catalog, from,
		    (struct catalog_bytes){ path.data, path.len }, &w, e);
	buf_release(&path);
	free(from);
	return rc;
}

static int set_format(struct export *x, struct err *e)
{
	int r = ARCHIVE_OK;

	switch (x->opts->format) {
	case TREE_EXPORT_TAR:
		r = archive_write_set_format_pax(x->a);
		/* One header for each xattr: that which GNU tar knows. */
		if (r == ARCHIVE_OK)
			r = archive_write_set_options(
			    x->a, "pax:xattrheader=SCHILY");
		break;
	case TREE_EXPORT_ZIP:
		r = archive_write_set_format_zip(x->a);
		break;
	case TREE_EXPORT_CPIO:
		r = archive_write_set_format_cpio_newc(x->a);
		break;
	}
	return r == ARCHIVE_OK
	    ? 0
	    : tar_fail(x->a, ERR_UNSUPPORTED, x->opts->shown, e);
}

static int prepare(struct export *x, struct archive *content, struct err *e)
{
	static const struct spill none = SPILL_INIT;
	struct statx st;
	int rc = 0;

	const char *file = archive_filename(content);

	x->firsts = x->paths = none;
	(void)snprintf(x->phase, sizeof(x->phase), "export %.*s",
	    (int)(strrchr(file, '.') - file), file);
	rc = file_stat_fd(x->fd, &st, x->opts->shown, e);
	if (rc == 0)
		rc = archive_reader_new(content, CACHE, &x->reader, e);
	if (rc == 0)
		rc = spill_open(&x->firsts, e);
	if (rc == 0)
		rc = spill_open(&x->paths, e);
	if (rc < 0)
		return rc;
	x->waits = !S_ISREG(st.stx_mode) && !S_ISBLK(st.stx_mode);
	x->a = archive_write_new();
	x->entry.ae = x->a != NULL ? archive_entry_new2(x->a) : NULL;
	if (x->entry.ae == NULL)
		return err_nomem(e);
	rc = set_format(x, e);
	/* Only a tar is filled up to a whole record. */
	if (x->opts->format != TREE_EXPORT_TAR)
		(void)archive_write_set_bytes_in_last_block(x->a, 1);
	if (rc == 0 &&
	    archive_write_open(x->a, x, NULL, on_write, NULL) != ARCHIVE_OK)
		rc = tar_fail(x->a, ERR_SYS, x->opts->shown, e);
	return rc;
}

static int export_all(struct export *x, struct err *e)
{
	int rc = walk(x, e);

	if (rc < 0)
		return rc;
	if (archive_write_close(x->a) != ARCHIVE_OK) {
		rc = x->failed < 0 ? x->failed
				   : tar_fail(x->a, ERR_SYS, x->opts->shown, e);
		return rc;
	}
	return flush(x, e);
}

static void release(struct export *x)
{
	/*
	 * What it still holds is not to be written; but only closing gives its
	 * memory back, which freeing alone leaves out after a failure.
	 */
	x->discard = true;
	if (x->a != NULL)
		(void)archive_write_close(x->a);
	(void)archive_write_free(x->a);
	archive_entry_free(x->entry.ae);
	tree_export_entry_release(&x->entry);
	archive_reader_free(x->reader);
	spill_close(&x->firsts);
	spill_close(&x->paths);
	hashidx_release(&x->index);
	buf_release(&x->out);
	buf_release(&x->target);
}

int tree_export(struct catalog *c, struct archive *content, int fd,
    const struct tree_export_opts *opts, struct task *task,
    struct tree_export_result *ret, struct err *e)
{
	struct export x = { .opts = opts,
		.catalog = c,
		.task = task,
		.fd = fd,
		.e = e,
		.entry = {
		    .catalog = c, .format = opts->format, .task = task } };
	struct tar_locale locale = TAR_LOCALE_INIT;
	int rc = tar_locale_enter(&locale, true, e);

	if (rc == 0)
		rc = prepare(&x, content, e);
	if (rc == 0)
		rc = export_all(&x, e);
	x.result.nameless = x.entry.nameless;
	release(&x);
	tar_locale_leave(&locale);
	if (rc == 0)
		*ret = x.result;
	return rc;
}

bool tree_export_parse(const char *word, enum tree_export_format *ret)
{
	static const char *const words[] = {
		[TREE_EXPORT_TAR] = "tar",
		[TREE_EXPORT_ZIP] = "zip",
		[TREE_EXPORT_CPIO] = "cpio",
	};

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (strcmp(word, words[i]) == 0) {
			*ret = (enum tree_export_format)i;
			return true;
		}
	}
	return false;
}
