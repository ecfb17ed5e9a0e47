/* SPDX-License-Identifier: MIT */
/*
 * tar_rows: the rows of an archive while it is read.
 *
 * Members of an archive come in any order, and may come again: the last one of
 * a name wins.  Rows are put aside on disk until the archive has ended; what
 * stays in memory is 8 to 16 bytes a name.  Names get ids in the order in
 * which they are first met, a directory before what is in it: the same archive
 * gives the same rows.
 *
 * - A directory that is in a member's path and has no member itself gets a row
 *   without anything but its kind.
 * - A name that has been a directory stays one, since others may lie in it: a
 *   later member of another kind is not listed (TAR_ROWS_DIRECTORY).  What was
 *   no directory gives way to one.
 * - A hard link is one more name of what its target is at that moment; when
 *   the link brings content (cpio), all names of the file get it.
 *
 * One thread.
 */
#ifndef CAIRN_INDEX_TAR_ROWS_H
#define CAIRN_INDEX_TAR_ROWS_H

#include <stdbool.h>
#include <stdint.h>

#include "datastore/base/buf.h"
#include "datastore/base/err.h"
#include "index/catalog.h"

/* More directories above each other are not listed. */
#define TAR_ROWS_DEPTH_MAX 4096U

enum tar_rows_put {
	TAR_ROWS_LISTED,
	TAR_ROWS_DIRECTORY, /* the name is a directory's */
	TAR_ROWS_NO_TARGET, /* of a link without content */
};

/*
 * Gets the rows: with `replaced` those that are no more, when that is known;
 * at the end all others, parents before children.
 */
struct tar_rows_sink {
	int (*row)(void *ctx, const struct catalog_entry *row, uint64_t member,
	    bool replaced, struct err *e);
	/* What was no directory gives way, since a member lies in it. */
	void (*gives_way)(void *ctx, const char *path);
	void *ctx;
};

struct tar_rows;

int tar_rows_new(
    const struct tar_rows_sink *sink, struct tar_rows **ret, struct err *e);
void tar_rows_free(struct tar_rows *r); /* NULL is allowed */

/*
 * A member's name as it is in a catalog: without leading slashes, "." and
 * empty components; "" is the root.  *ret_wrong: NULL, or why there is no such
 * name (it has "..", is too long or too deep).
 */
int tar_rows_path(
    const char *name, struct buf *out, const char **ret_wrong, struct err *e);

/*
 * path: of tar_rows_path.  Of the row all but parent, id, name and link
 * counts.  member rises from call to call.  More than HASHIDX_MAX names are
 * ERR_LIMIT.
 */
int tar_rows_put(struct tar_rows *r, struct catalog_bytes path,
    const struct catalog_entry *row, uint64_t member, enum tar_rows_put *ret,
    struct err *e);
/* content: the row of a link that brings it, or NULL. */
int tar_rows_link(struct tar_rows *r, struct catalog_bytes path,
    struct catalog_bytes target, const struct catalog_entry *content,
    uint64_t member, enum tar_rows_put *ret, struct err *e);

/* Hand all rows over. */
int tar_rows_finish(struct tar_rows *r, int64_t *ret_next_id, struct err *e);

#endif
