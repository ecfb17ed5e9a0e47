/* SPDX-License-Identifier: MIT */
/*
 * tree_export: a tree or tar archive as another archive format, streamed.
 */
#ifndef CAIRN_INDEX_TREE_EXPORT_H
#define CAIRN_INDEX_TREE_EXPORT_H

#include <stdint.h>

#include "datastore/base/err.h"
#include "datastore/base/task.h"
#include "index/archive.h"
#include "index/catalog.h"

enum tree_export_format {
	TREE_EXPORT_TAR, /* pax, GNU tar and bsdtar read it */
	TREE_EXPORT_ZIP,
	TREE_EXPORT_CPIO,
};

struct tree_export_result {
	uint64_t entries;
	uint64_t left_out; /* sockets, damaged files...; each was said */
};

int tree_export(struct catalog *c, struct archive *content, int fd,
    enum tree_export_format format, struct task *task,
    struct tree_export_result *ret, struct err *e);

#endif
