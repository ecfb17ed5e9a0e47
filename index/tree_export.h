/* SPDX-License-Identifier: MIT */
/*
 * tree_export: a tree or tar archive, or a path of it, as another archive
 * format, streamed.
 *
 * Names, owners, times, links and contents are kept in all formats, as far as
 * they have a place for them; xattrs, ACLs, flags, nanoseconds and holes by
 * tar (pax).  Hard links are links in tar and cpio, files of their own in zip.
 * A directory that is known by its contents only has no entry.
 *
 * What a format can not hold, sockets and files whose content is damaged are
 * left out, each with a warning.  A file is known to be damaged before its
 * header is written if it has at most TREE_EXPORT_CHECK_MAX bytes; of a larger
 * one, whose header promised its size, zeros stand for what is missing.
 */
#ifndef CAIRN_INDEX_TREE_EXPORT_H
#define CAIRN_INDEX_TREE_EXPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "datastore/base/err.h"
#include "datastore/base/task.h"
#include "index/archive.h"
#include "index/catalog.h"

#define TREE_EXPORT_CHECK_MAX (32U << 20)

enum tree_export_format {
	TREE_EXPORT_TAR, /* pax, GNU tar and bsdtar read it */
	TREE_EXPORT_ZIP,
	TREE_EXPORT_CPIO, /* newc */
};

/* "tar", "zip", "cpio". */
bool tree_export_parse(const char *word, enum tree_export_format *ret);

struct tree_export_opts {
	enum tree_export_format format;
	struct catalog_bytes path; /* as typed; empty: all */
	const char *shown;         /* names fd in messages */
};

struct tree_export_result {
	uint64_t entries;
	uint64_t bytes;    /* of their contents */
	uint64_t left_out; /* each was said */
	/* Owners of entries, and in ACLs, that go by their numbers, since the
	 * catalog lost their names; the first was said. */
	uint64_t nameless;
	uint64_t damaged; /* of these and of what was written; each was said */
	struct catalog_gaps gaps;
};

/* fd may be a pipe whose reader is slow: the task is looked at meanwhile. */
int tree_export(struct catalog *c, struct archive *content, int fd,
    const struct tree_export_opts *opts, struct task *task,
    struct tree_export_result *ret, struct err *e);

#endif
