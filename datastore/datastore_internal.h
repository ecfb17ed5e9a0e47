/* SPDX-License-Identifier: MIT */
/*
 * datastore_internal: what opening and making a datastore share: the names in
 * its root, `.cairn/` and its `format`.
 */
#ifndef CAIRN_DATASTORE_DATASTORE_INTERNAL_H
#define CAIRN_DATASTORE_DATASTORE_INTERNAL_H

#include <limits.h>
#include <stdbool.h>

#include "datastore/base/err.h"
#include "datastore/base/file.h"
#include "datastore/datastore.h"
#include "datastore/locks.h"

#define CHUNKS_NAME ".chunks"
#define LOCK_NAME ".lock"
#define CAIRN_NAME ".cairn"
/* Of `.cairn/`. */
#define FORMAT_NAME "format"
#define SESSIONS_NAME "sessions"

/*
 * What `.chunks` is called until everything else of a new datastore is there:
 * a directory without `.chunks` is no datastore.
 */
#define CHUNKS_NEW_NAME ".chunks.init"

#define CHUNKS_MODE 0750

/* What `.cairn/format` tells. */
struct datastore_format {
	char id[DATASTORE_ID_SIZE];
	char host[DATASTORE_ID_SIZE]; /* "" unknown */
};

/* "<path>/<rel>", cut where it does not fit. */
struct shown {
	char text[PATH_MAX];
};
const char *datastore_join(const char *path, const char *rel, struct shown *s);

/*
 * ERR_UNSUPPORTED if it asks for something that this version does not know,
 * ERR_CORRUPT if it is no such file; both name it.
 */
int datastore_format_read(int cairn_fd, const char *path,
    struct datastore_format *ret, bool *ret_found, struct err *e);

/*
 * `.cairn` and what belongs in it, made where it is missing; opened and read.
 * On failure what was made stays: the next try goes on from there.
 */
int datastore_cairn_make(int root_fd, const char *path,
    const struct file_owner *owner, int *ret_fd, struct datastore_format *ret,
    struct err *e);

/* ERR_REFUSED if a directory above root_fd is a datastore. */
int datastore_check_not_nested(int root_fd, const char *path, struct err *e);

#endif
