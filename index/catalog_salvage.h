/* SPDX-License-Identifier: MIT */
/*
 * catalog_salvage: rows of a catalog of which some pages can not be read.
 *
 * SQLite ends a query at the first page that it can not have.  Here it gets, in
 * the place of such a page of the tree of `entry`, one with a single row that
 * is greater than any key and says which page it stands for: so a query that
 * comes to it gives that row, a gap, and goes on with what is behind.  The same
 * row where no page was replaced is a wrong row as any other.  Pages of
 * anything else (long values, other tables) are never replaced: what they would
 * say would be wrong.
 *
 * Which pages are of that tree, its inner pages say; they are read when
 * something is to be salvaged for the first time.
 */
#ifndef CAIRN_INDEX_CATALOG_SALVAGE_H
#define CAIRN_INDEX_CATALOG_SALVAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "datastore/base/err.h"
#include "index/catalog.h"

struct catalog_salvage;

enum catalog_salvaged {
	SALVAGED_END,
	SALVAGED_ROW,
	SALVAGED_GAP, /* rows may have been here; *ret_why says why not */
};

/* Can one go on behind this failure? */
bool catalog_can_salvage(const struct err *e);

/*
 * One of a catalog; made if none is idle.  Who goes from row to row has it for
 * himself: a lookup in between takes another one.  Give it back; the row that
 * it gave last is good until it is taken again.
 */
int catalog_salvage_take(
    struct catalog *c, struct catalog_salvage **ret, struct err *e);
/* s: NULL is allowed. */
void catalog_salvage_give(struct catalog *c, struct catalog_salvage *s);
void catalog_salvage_free(struct catalog_salvage *s); /* NULL is allowed */

/* Go to the first row whose key is not less, or, if `behind`, greater. */
int catalog_salvage_seek(struct catalog_salvage *s, int64_t parent,
    struct catalog_bytes name, bool behind, struct err *e);
/* Rows in order of their keys, to the end of the table; bytes are good until
 * the next call.  A row that is wrong is an error (*ret_what is SALVAGED_ROW);
 * one can go on behind it.  Between two seeks there are at most as many gaps as
 * there are pages. */
int catalog_salvage_next(struct catalog_salvage *s, struct catalog_entry *ret,
    enum catalog_salvaged *ret_what, struct err *ret_why, struct err *e);
/* Which page the last gap stands for: one and the same number below
 * catalog_salvage_pages for each page of both databases. */
uint64_t catalog_salvage_page(const struct catalog_salvage *s);
uint64_t catalog_salvage_pages(const struct catalog_salvage *s);

#endif
