/* SPDX-License-Identifier: MIT */
/*
 * tree_import_source: which kind of archive it is, and its bytes.
 */
#include <errno.h>
#include <sys/stat.h>

#include "datastore/base/file.h"
#include "datastore/base/sysio.h"
#include "index/catalog_tmp.h"
#include "index/tar_libarchive.h"
#include "index/tree_import_internal.h"

#define READ_MAX ((size_t)256 << 10)

/* Formats are told apart within so many bytes of what is read. */
#define FIRST_MAX ((size_t)4 << 20)

static la_ssize_t stop(struct tree_source *x, struct archive *a, int rc)
{
	x->failed = rc;
	archive_set_error(a, EIO, "stopped");
	return ARCHIVE_FATAL;
}

static void forget_first(struct tree_source *x)
{
	x->keeping = false;
	buf_release(&x->first);
	x->first_at = 0;
}

/* What is read while formats are told apart is kept for a second try. */
static int read_block(struct tree_source *x, struct err *e)
{
	size_t got = 0;
	int rc = 0;

	buf_reset(&x->block);
	if (x->first_at < x->first.len) {
		rc = buf_append(&x->block, x->first.data + x->first_at,
		    x->first.len - x->first_at, e);
		x->first_at = x->first.len;
		return rc;
	}
	rc = buf_reserve(&x->block, READ_MAX, e);
	if (rc == 0 && x->spool >= 0)
		rc = file_read_fully(x->spool, x->block.data, READ_MAX, &got,
		    "temporary file", e);
	else if (rc == 0)
		rc = ingest_reader_read(
		    &x->reader, x->block.data, READ_MAX, &got, e);
	if (rc < 0)
		return rc;
	x->block.len = got;
	if (!x->keeping || x->seekable || got == 0)
		return 0;
	rc = buf_append(&x->first, x->block.data, got, e);
	x->first_at = x->first.len;
	if (rc == 0 && x->first.len > FIRST_MAX) {
		x->lost = true;
		forget_first(x);
	}
	return rc;
}

static la_ssize_t on_read(struct archive *a, void *ctx, const void **ret)
{
	struct tree_source *x = ctx;
	int rc = tree_writer_pulse(x->writer, x->e);

	if (rc == 0)
		rc = read_block(x, x->e);
	if (rc < 0)
		return stop(x, a, rc);
	x->given += x->block.len;
	*ret = x->block.data;
	return (la_ssize_t)x->block.len;
}

static la_int64_t on_seek(
    struct archive *a, void *ctx, la_int64_t offset, int whence)
{
	struct tree_source *x = ctx;
	off_t at = sysio_lseek(
	    x->spool >= 0 ? x->spool : x->reader.src->fd, offset, whence);

	if (at >= 0)
		return at;
	return stop(x, a, err_sys(x->e, "'%s'", x->shown));
}

static int add_filters(struct archive *a)
{
	/* Not all there are: some start programs, whatever they read. */
	static int (*const filters[])(struct archive *) = {
		archive_read_support_filter_bzip2,
		archive_read_support_filter_compress,
		archive_read_support_filter_gzip,
		archive_read_support_filter_lz4,
		archive_read_support_filter_lzip,
		archive_read_support_filter_lzma,
		archive_read_support_filter_rpm,
		archive_read_support_filter_xz,
		archive_read_support_filter_zstd,
	};
	int r = ARCHIVE_OK;

	for (size_t i = 0; i < sizeof(filters) / sizeof(filters[0]); i++) {
		if (filters[i](a) == ARCHIVE_FATAL)
			r = ARCHIVE_FATAL;
	}
	return r;
}

/* Those whose names are bytes, and the others. */
static int add_formats(struct archive *a, bool bytes)
{
	static int (*const formats[])(struct archive *) = {
		archive_read_support_format_cpio,
		archive_read_support_format_tar,
		archive_read_support_format_7zip,
		archive_read_support_format_ar,
		archive_read_support_format_cab,
		archive_read_support_format_iso9660,
		archive_read_support_format_lha,
		archive_read_support_format_rar,
		archive_read_support_format_rar5,
		archive_read_support_format_warc,
		archive_read_support_format_xar,
		archive_read_support_format_zip,
	};
	size_t begin = bytes ? 0 : 2;
	size_t end = bytes ? 2 : sizeof(formats) / sizeof(formats[0]);
	int r = ARCHIVE_OK;

	for (size_t i = begin; i < end; i++) {
		/* A warning: this one was built without. */
		if (formats[i](a) == ARCHIVE_FATAL)
			r = ARCHIVE_FATAL;
	}
	return r;
}

/* One try. *ret_open false: of none of these formats. */
static int try_open(
    struct tree_source *x, bool bytes, bool *ret_open, struct err *e)
{
	x->a = archive_read_new();
	if (x->a == NULL || add_filters(x->a) != ARCHIVE_OK ||
	    add_formats(x->a, bytes) != ARCHIVE_OK)
		return err_nomem(e);
	if (bytes && x->ignore_zeros &&
	    archive_read_set_options(x->a, "tar:read_concatenated_archives") !=
		ARCHIVE_OK)
		return tar_fail(x->a, ERR_UNSUPPORTED, x->shown, e);
	archive_read_set_callback_data(x->a, x);
	archive_read_set_read_callback(x->a, on_read);
	if (x->seekable)
		archive_read_set_seek_callback(x->a, on_seek);
	x->keeping = true;
	x->given = 0;
	*ret_open = archive_read_open1(x->a) == ARCHIVE_OK;
	if (x->failed < 0)
		return x->failed;
	if (!*ret_open && archive_errno(x->a) == ENOMEM)
		return err_nomem(e);
	return 0;
}

/* All of it, into a file. */
static int spool(struct tree_source *x, struct err *e)
{
	int fd = -1;
	int rc = catalog_tmp_open(&fd, e);

	buf_reset(&x->block);
	do {
		if (rc == 0 && x->block.len > 0)
			rc = file_write_fully(fd, x->block.data, x->block.len,
			    "temporary file", e);
		if (rc == 0)
			rc = tree_writer_pulse(x->writer, e);
		if (rc == 0)
			rc = read_block(x, e);
	} while (rc == 0 && x->block.len > 0);
	forget_first(x);
	if (rc < 0) {
		file_close(&fd);
		return rc;
	}
	x->spool = fd;
	x->seekable = true;
	return 0;
}

int tree_source_open_bytes(struct tree_source *x, bool *ret_open, struct err *e)
{
	return try_open(x, true, ret_open, e);
}

/* From the start, with the formats whose names have a charset. */
static int try_others(struct tree_source *x, bool *ret_open, struct err *e)
{
	int fd = x->spool >= 0 ? x->spool : x->reader.src->fd;

	(void)archive_read_free(x->a);
	x->a = NULL;
	x->first_at = 0;
	if (x->seekable && sysio_lseek(fd, 0, SEEK_SET) < 0)
		return err_sys(e, "'%s'", x->shown);
	return try_open(x, false, ret_open, e);
}

int tree_source_open_others(
    struct tree_source *x, bool *ret_open, struct err *e)
{
	int rc = try_others(x, ret_open, e);

	/* If it is one, its list may stand at its end. */
	if (rc < 0 || !*ret_open || x->seekable)
		return rc;
	x->first_at = 0;
	rc = spool(x, e);
	return rc < 0 ? rc : try_others(x, ret_open, e);
}

void tree_source_settle(struct tree_source *x)
{
	if (x->keeping)
		forget_first(x);
}

int tree_source_rest(
    struct tree_source *x, bool *ret_more, uint64_t *ret_end, struct err *e)
{
	bool plain = archive_filter_code(x->a, 0) == ARCHIVE_FILTER_NONE &&
	    (archive_format(x->a) & ARCHIVE_FORMAT_BASE_MASK) ==
		ARCHIVE_FORMAT_TAR;
	uint64_t used = (uint64_t)archive_filter_bytes(x->a, 0);
	size_t at = x->block.len;
	bool zeros = true;
	int rc = 0;

	if (plain && x->given - used <= x->block.len)
		at -= (size_t)(x->given - used);
	while (rc == 0 && x->block.len > 0 && (plain || !x->seekable)) {
		for (size_t i = at; i < x->block.len && plain && zeros; i++)
			zeros = x->block.data[i] == 0;
		at = 0;
		rc = tree_writer_pulse(x->writer, e);
		if (rc == 0)
			rc = read_block(x, e);
	}
	if (rc < 0)
		return rc;
	*ret_more = !zeros;
	*ret_end = used;
	return 0;
}

static int idle(void *ctx, struct err *e)
{
	struct tree_source *x = ctx;

	return tree_writer_pulse(x->writer, e);
}

int tree_source_init(struct tree_source *x, const struct ingest_source *src,
    struct tree_writer *writer, struct err *e)
{
	int rc = ingest_reader_init(&x->reader, src, e);

	if (rc < 0)
		return rc;
	x->shown = src->shown;
	x->writer = writer;
	x->reader.idle = idle;
	x->reader.ctx = x;
	x->seekable = S_ISREG(x->reader.stat.stx_mode) &&
	    sysio_lseek(src->fd, 0, SEEK_CUR) == 0;
	return 0;
}

void tree_source_release(struct tree_source *x)
{
	(void)archive_read_free(x->a);
	file_close(&x->spool);
	buf_release(&x->block);
	buf_release(&x->first);
}
