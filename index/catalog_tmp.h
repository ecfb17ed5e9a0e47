/* SPDX-License-Identifier: MIT */
/*
 * catalog_tmp: a file without a name, for what is put together on disk.
 *
 * Nobody else can open it, and it is gone when its descriptor is closed, also
 * if the process dies.
 */
#ifndef CAIRN_INDEX_CATALOG_TMP_H
#define CAIRN_INDEX_CATALOG_TMP_H

#include "datastore/base/err.h"

/* In the directory $TMPDIR, or /var/tmp: a catalog may be larger than memory,
 * which is where /tmp often lies.  Open for reading and writing. */
int catalog_tmp_open(int *ret_fd, struct err *e);

/* The directory, for messages. */
const char *catalog_tmp_dir(void);

#endif
