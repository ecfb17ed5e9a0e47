/* SPDX-License-Identifier: MIT */
/*
 * tree_restore_meta: owner, mode, attributes, times and flags of an entry
 * that was made.
 *
 * The order matters: a change of owner takes setuid bits and capabilities
 * away, so the mode comes behind the owner and attributes behind the mode;
 * times come last, and behind all, when nothing more is done to the entry or
 * below it, the flags that forbid further changes.  What can not be set is
 * no error: it is noted, and the rest is done.  Thread-safe.
 */
#ifndef CAIRN_INDEX_TREE_RESTORE_META_H
#define CAIRN_INDEX_TREE_RESTORE_META_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "index/catalog.h"
#include "index/tree_restore_names.h"

struct restore_meta {
	unsigned has; /* enum catalog_column */
	unsigned mode;
	uint32_t uid; /* of this machine */
	uint32_t gid;
	uint32_t mtime_ns;
	int64_t mtime_s;
	int64_t attr;
	uint32_t flags;
};

/* What may not be possible. */
enum restore_miss {
	RESTORE_MISS_OWNER,
	RESTORE_MISS_MODE,
	RESTORE_MISS_XATTR,
	RESTORE_MISS_ACL,
	RESTORE_MISS_TIMES,
	RESTORE_MISS_FLAGS,
	RESTORE_MISS_SPACE, /* preallocated */
	RESTORE_MISS_KINDS,
};

struct restore_missed {
	unsigned bits;
	int error[RESTORE_MISS_KINDS];
};

void restore_missed_add(
    struct restore_missed *m, enum restore_miss kind, int error);
/* "extended attributes", for messages, and "xattrs", for JSON. */
const char *restore_miss_word(enum restore_miss kind);
const char *restore_miss_key(enum restore_miss kind);

/* What an entry may have got from the directory that it was made in. */
#define RESTORE_INHERIT_ACL 1U
#define RESTORE_INHERIT_FLAGS 2U
/* What of it a directory, open for reading, hands down. */
unsigned restore_meta_inherits(int dirfd);

/* The entry: opened with O_PATH, or for reading or writing. */
struct restore_node {
	int fd;
	bool path_only;
	enum catalog_kind kind;
	unsigned inherited;
};

/* Behind its making, before there is content: flags that matter then. */
void restore_meta_early(const struct restore_node *n,
    const struct restore_meta *m, struct restore_missed *missed);
/* All but what restore_meta_late does.  attr: NULL if it has none. */
void restore_meta_apply(const struct restore_node *n,
    const struct restore_meta *m, const struct restore_attr *attr,
    struct restore_missed *missed);
/* Is there anything for restore_meta_late?  (For files; directories have
 * all their flags set then.) */
bool restore_meta_has_late(const struct restore_meta *m);
/* All flags.  Not with O_PATH. */
void restore_meta_late(const struct restore_node *n,
    const struct restore_meta *m, struct restore_missed *missed);

/* The flags with which nothing can be replaced are taken away; false: there
 * are none, or they stay.  *ret_was: for restore_meta_freeze.  Not O_PATH. */
bool restore_meta_thaw(int fd, unsigned *ret_was);
void restore_meta_freeze(int fd, unsigned was);

/* Owner, mode and time are what they are to be: of what is immutable. */
bool restore_meta_is_set(
    const struct restore_meta *m, const struct statx *there);

/*
 * May what is there be kept and get this metadata?  Not if it might hand a
 * setuid bit to what somebody else wrote, or its owner to a file that has
 * other names as well; if owner and mode are what they are to be, it may.
 */
bool restore_meta_harmless(
    const struct restore_meta *m, const struct statx *there);

#endif
