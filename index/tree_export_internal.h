/* SPDX-License-Identifier: MIT */
/*
 * tree_export_internal: rows as libarchive's entries.
 */
#ifndef CAIRN_INDEX_TREE_EXPORT_INTERNAL_H
#define CAIRN_INDEX_TREE_EXPORT_INTERNAL_H

#include <archive.h>
#include <archive_entry.h>

#include "datastore/base/buf.h"
#include "datastore/base/err.h"
#include "index/catalog.h"
#include "index/tree_export.h"

struct tree_export_entry {
	struct catalog *catalog;
	enum tree_export_format format;
	struct archive_entry *ae; /* what is filled */
	struct buf text;          /* NUL-terminated copies */
	struct buf attr;
	struct task *task;
	uint64_t nameless; /* lost names of owners; the first was said */
};

/* All of ae but what makes it a link.  path: "" is the root. */
int tree_export_fill(struct tree_export_entry *x, struct catalog_bytes path,
    const struct catalog_entry *row, struct err *e);
void tree_export_entry_release(struct tree_export_entry *x); /* not ae */

#endif
