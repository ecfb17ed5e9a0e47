/* SPDX-License-Identifier: MIT */
/*
 * walk_links: which entries are names of one inode.
 *
 * Only inodes of several names are kept, until all of them were met.  A worker
 * claims an inode before it reads it, so that its content is read once however
 * many names are in flight; what came of it is remembered for the others by
 * the owner, who meets entries in walk order.
 *
 * walk_links_claim is thread-safe; the rest is the owner's.
 */
#ifndef CAIRN_INDEX_WALK_LINKS_H
#define CAIRN_INDEX_WALK_LINKS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "datastore/base/digest.h"
#include "datastore/base/err.h"

/* What was stored of a file; holes, attributes and flags are not kept here:
 * who has this looks at them himself. */
struct walk_link_content {
	struct statx_timestamp ctime; /* of the inode when it was read */
	uint64_t size;
	uint64_t stored;
	uint64_t pos;
	struct digest sha256;
};

struct walk_links;

int walk_links_new(struct walk_links **ret, struct err *e);
void walk_links_free(struct walk_links *l); /* NULL is allowed */

/* *ret_first: nobody has claimed this inode before. */
int walk_links_claim(struct walk_links *l, const struct statx *st,
    bool *ret_first, struct err *e);

/*
 * An entry is met; id is its own.  *ret_link: the group's (that of the first
 * one met).  *ret_content: what was stored of it, if that is known and the
 * inode has not changed since; else NULL.  Good until walk_links_done.
 */
int walk_links_meet(struct walk_links *l, const struct statx *st, int64_t id,
    int64_t *ret_link, const struct walk_link_content **ret_content,
    struct err *e);
/* This came of the entry met last.  Where memory is short it is not kept. */
void walk_links_store(
    struct walk_links *l, const struct walk_link_content *content);
/* The entry met last is dealt with. */
void walk_links_done(struct walk_links *l);

#endif
