/* SPDX-License-Identifier: MIT */
/*
 * tar_libarchive: what the readers of archives share: members into rows,
 * contents, names as bytes, errors.
 *
 * libarchive converts names between the charset of an archive and that of the
 * thread's locale.  In the "C" locale what is not ASCII can not be converted,
 * and it gives the bytes as they are, with a warning that is to be ignored;
 * in a UTF-8 locale it would compose accents, so that two names became one.
 * Formats that hold UTF-16 need the UTF-8 locale.
 */
#ifndef CAIRN_INDEX_TAR_LIBARCHIVE_H
#define CAIRN_INDEX_TAR_LIBARCHIVE_H

#include <archive.h>
#include <archive_entry.h>
#include <locale.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "datastore/base/buf.h"
#include "datastore/base/digest.h"
#include "datastore/base/err.h"
#include "datastore/base/task.h"
#include "index/catalog.h"
#include "index/catalog_writer.h"

/* More bytes before a member's content are no header that anybody wrote. */
#define TAR_HEADER_MAX (16U << 20)

/* The calling thread's locale, for a while. */
struct tar_locale {
	locale_t own;
	locale_t before;
};
#define TAR_LOCALE_INIT                                   \
	{                                                 \
		.own = (locale_t)0, .before = (locale_t)0 \
	}
/* utf8: where there is no such locale it is "C" again. */
int tar_locale_enter(struct tar_locale *l, bool utf8, struct err *e);
void tar_locale_leave(struct tar_locale *l);

/* The library's last failure: ERR_NOMEM, or `code` with its text. */
int tar_fail(struct archive *a, int code, const char *shown, struct err *e);
/* Its text for a message, quoted; returns out. */
const char *tar_reason(struct archive *a, char *out, size_t size);

/* Of an ARCHIVE_WARN of a header: NULL if only charsets are meant. */
const char *tar_warning(struct archive *a);

/* From members to rows. */
struct tar_meta {
	struct catalog_writer *writer; /* of attr and account */
	struct task *task;
	const char *shown; /* the archive, in messages */
	struct buf attr;   /* of the last row */
	struct buf users;  /* names met: u32 id, text, zero byte */
	struct buf groups;
	uint64_t acl_names; /* in ACLs, without a number: left out */
};
void tar_meta_release(struct tar_meta *m);

/*
 * Kind, mode, owner, times, device, target, xattrs, ACLs, flags; the bytes
 * are the entry's.  *ret_wrong: NULL, or why there is no such row.
 */
int tar_meta_row(struct tar_meta *m, struct archive_entry *ae,
    struct catalog_entry *row, const char **ret_wrong, struct err *e);

/* The content of one member. */
struct tar_content {
	/* The owner's. */
	struct digest_ctx *digest;
	int (*sink)(void *ctx, const void *p, size_t n, struct err *e);
	void *ctx;   /* sink may be NULL */
	bool placed; /* it is to lie in one piece from pos of the stream on */
	uint64_t pos;
	/* The result. */
	uint64_t size;
	uint64_t stored;
	struct buf holes;
	struct digest sha256;
	unsigned state;  /* CATALOG_STATE_SHORT, CATALOG_STATE_UNREADABLE */
	bool ended;      /* the archive can not be read on */
	const char *why; /* of state; the library's, or constant */
};

/*
 * Read it all.  What is wrong with the archive is no failure but `state`; a
 * failure is the sink's, or of memory.  Who has callbacks looks at what they
 * met first.
 */
int tar_content_read(struct tar_content *c, struct archive *a,
    struct archive_entry *ae, struct err *e);
/* The columns of it but pos. */
void tar_content_row(const struct tar_content *c, struct catalog_entry *row);

#endif
