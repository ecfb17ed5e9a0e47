/* SPDX-License-Identifier: MIT */
/*
 * newfile: a small file that appears whole and durable, and never over
 * another one: two that make it at once agree on one content.
 */
#ifndef CAIRN_DATASTORE_NEWFILE_H
#define CAIRN_DATASTORE_NEWFILE_H

#include "datastore/base/err.h"
#include "datastore/base/file.h"

/* What a temporary name has behind the final one, and six letters. */
#define NEWFILE_TMP_INFIX ".tmp_"

/*
 * Make `name` with this text, 0644: temporary file, fsync, name, fsync of the
 * directory.  ERR_EXISTS if the name is taken; nothing of ours is left then.
 */
int newfile_make(int dirfd, const char *name, const char *text,
    const struct file_owner *owner, const char *shown, struct err *e);

#endif
