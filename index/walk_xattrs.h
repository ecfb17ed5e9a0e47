/* SPDX-License-Identifier: MIT */
/*
 * walk_xattrs: all extended attributes of an inode as one attr.data, sorted by
 * name: also ACLs and capabilities, which the kernel shows among them.
 */
#ifndef CAIRN_INDEX_WALK_XATTRS_H
#define CAIRN_INDEX_WALK_XATTRS_H

#include <stdbool.h>

#include "datastore/base/buf.h"
#include "datastore/base/err.h"

/*
 * Of an open file or directory; with `only_path` of whatever an O_PATH
 * descriptor stands for (symbolic links, special files, what can not be
 * opened).  out is replaced; empty: it has none, or the file system knows
 * none.  One that goes meanwhile, or that may not be read, is passed over.
 */
int walk_xattrs(int fd, bool only_path, struct buf *out, struct err *e);

#endif
