/* SPDX-License-Identifier: MIT */
/*
 * cairndir: the files of `.cairn/`, as they are now.
 *
 * Everything here looks the directory up from the datastore's root each
 * time: another process may have made `.cairn` after this datastore was
 * opened, and one that was moved away is not to be taken for the one that
 * everybody else looks into.
 */
#ifndef CAIRN_DATASTORE_CAIRNDIR_H
#define CAIRN_DATASTORE_CAIRNDIR_H

#include <stdbool.h>
#include <stddef.h>

#include "datastore/base/err.h"
#include "datastore/datastore.h"

#define CAIRNDIR ".cairn"
#define CAIRNDIR_SESSIONS ".cairn/sessions"

/* Room for the path of a file of a datastore in a message. */
#define CAIRNDIR_SHOWN 1536

/* path: CAIRNDIR or CAIRNDIR_SESSIONS.  *ret_found says if it is there. */
int cairndir_open(const struct datastore *ds, const char *path, int *ret_fd,
    bool *ret_found, struct err *e);

/*
 * Append these bytes, whole lines, to the file `name` of `.cairn`, which is
 * made if it is missing, by one write under an exclusive flock of the file;
 * fsynced if `sync`.  If the file ends in a torn line that is ended first, so
 * that it does not swallow ours.  Whoever replaces or empties such a file
 * holds the same flock.  ERR_NOTFOUND where there is no `.cairn`.
 */
int cairndir_append(const struct datastore *ds, const char *name, const void *p,
    size_t n, bool sync, struct err *e);

/*
 * Make each line of `name` that is `line` (without its end) one that begins
 * with '#', in place and under the same flock: that needs no room.  No file,
 * no such line: nothing to do.
 */
int cairndir_strike(const struct datastore *ds, const char *name,
    const char *line, struct err *e);

#endif
