/* SPDX-License-Identifier: MIT */
/*
 * tree_restore_place: entries appear under their names whole, or not at all.
 *
 * A regular file is made without a name (O_TMPFILE) where the file system can
 * do that, else as RESTORE_TMP_PREFIX and 16 hex digits beside its place, and
 * gets its name when it is whole.  What is in the way is replaced by a rename,
 * never followed and never written to; a directory in the way only if it is
 * empty.  Thread-safe.
 *
 * Failures are errors without the entry's path, which the caller knows.
 */
#ifndef CAIRN_INDEX_TREE_RESTORE_PLACE_H
#define CAIRN_INDEX_TREE_RESTORE_PLACE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "datastore/base/err.h"

#define RESTORE_TMP_PREFIX ".cairn-restore."
#define RESTORE_TMP_SIZE 40

struct restore_place {
	uint64_t seed;
	atomic_uint_fast64_t next;
	atomic_bool named; /* files have to have a name from the start */
};

/* As file_stat_at and file_stat_fd. */
int restore_stat_at(int dirfd, const char *name, struct statx *ret_st,
    bool *ret_found, struct err *e);
int restore_stat_fd(int fd, struct statx *ret_st, struct err *e);

int restore_place_init(struct restore_place *p, struct err *e);

/* A new file, for its owner only. */
struct restore_temp {
	int fd;
	char name[RESTORE_TMP_SIZE]; /* "": it has none */
};
#define RESTORE_TEMP_INIT               \
	{                               \
		.fd = -1, .name = { 0 } \
	}
int restore_temp_make(struct restore_place *p, int dirfd,
    struct restore_temp *ret, struct err *e);
/* What is left of it, which may be nothing. */
void restore_temp_drop(int dirfd, struct restore_temp *t);

/* What to do where a name is taken. */
enum restore_taken {
	RESTORE_KEEP, /* *ret_exists is set; no error */
	RESTORE_REPLACE,
};

/*
 * What replaces takes from the one file in its place, if it has to, the flags
 * that forbid it (immutable, append-only); under other names it keeps them.
 */
int restore_place_unlink(int dirfd, const char *name, struct err *e);

/* The file gets its name, and is closed. */
int restore_place_file(struct restore_place *p, struct restore_temp *t,
    int dirfd, const char *name, enum restore_taken taken, bool *ret_exists,
    struct err *e);
/* Another name for a file. */
int restore_place_link(struct restore_place *p, int fromfd, const char *from,
    int dirfd, const char *name, enum restore_taken taken, bool *ret_exists,
    struct err *e);
/*
 * A symbolic link (target not NULL), or what mode says.  `finish` is called
 * with the new entry, open with O_PATH, before it replaces anything; where
 * nothing was in the way it has its name already.
 */
struct restore_special {
	const char *target;
	mode_t mode; /* with the type's bits */
	dev_t dev;
	void (*finish)(void *ctx, int fd);
	void *ctx;
};
int restore_place_special(struct restore_place *p,
    const struct restore_special *s, int dirfd, const char *name,
    enum restore_taken taken, bool *ret_exists, struct err *e);

#endif
