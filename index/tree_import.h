/* SPDX-License-Identifier: MIT */
/*
 * tree_import: an archive file (tar, cpio, zip, 7z...: whatever libarchive
 * reads, compressed or not) as a tree archive.
 *
 * tar and cpio are read as they come; formats that have their list at the end
 * (zip, 7z, ...) are put into a temporary file first if they come through a
 * pipe.  Contents are placed, and names get their ids, in the order of the
 * archive (tar_rows.h): the same archive gives the same catalog.  Of a name
 * that comes twice the last one counts.  Nothing of the archive is kept in
 * memory but 8 to 16 bytes a name.
 */
#ifndef CAIRN_INDEX_TREE_IMPORT_H
#define CAIRN_INDEX_TREE_IMPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "datastore/base/err.h"
#include "datastore/base/task.h"
#include "datastore/session.h"
#include "index/ingest.h"
#include "index/tree_writer.h"

struct tree_import_opts {
	struct ingest_opts ingest;
	bool ignore_zeros; /* as in tar_push_opts */
};

struct tree_import_result {
	struct tree_writer_result written;
	uint64_t members;
	uint64_t left_out; /* names with "..", kinds that have no place; said */
	bool changed;      /* the source was written while it was read */
	bool whole;        /* false: it ends early; was said */
};

/* archive: "root.tree".  A source that is no archive is ERR_INVALID. */
int tree_import(struct session *s, const char *archive,
    const struct ingest_source *src, const struct tree_import_opts *opts,
    struct task *task, struct tree_import_result *ret, struct err *e);

#endif
