/* SPDX-License-Identifier: MIT */
/*
 * cix: one `.cix` file (cixformat.h), opened for reading.
 *
 * Opening reads the header and nothing else, so that it costs the same for
 * any number of entries.  A look-up reads a fence page or two and the data
 * page that they lead to; it compares all 32 bytes of the digest.  Look-ups
 * in ascending order and walks read ahead, up to 64 pages at once.
 *
 * A page is checked when it is first used.  One that is damaged, or that can
 * not be read, is no error: what it holds is not known then (CIX_UNREADABLE),
 * which costs its user time and nothing else.
 *
 * Pages are read into memory of its own, not mapped: a disk that fails under a
 * map kills the process.  One thread at a time.
 */
#ifndef CAIRN_INDEX_CIX_H
#define CAIRN_INDEX_CIX_H

#include <stdbool.h>
#include <stdint.h>

#include "index/cixformat.h"

struct cix;

enum cix_found {
	CIX_ABSENT,
	CIX_FOUND,
	CIX_UNREADABLE,
};

/* What reading has cost, and met. */
struct cix_stats {
	uint64_t pages_read;
	uint64_t lookups;
	uint64_t bad_pages;
	char first_bad[128]; /* "" or what is wrong with which page */
};

/*
 * ERR_NOTFOUND, ERR_CORRUPT, ERR_UNSUPPORTED (of a later version).  shown is
 * copied.
 */
int cix_open(int dirfd, const char *name, const char *shown, struct cix **ret,
    struct err *e);
void cix_close(struct cix *c); /* NULL is allowed */

const struct cix_info *cix_info(const struct cix *c);
void cix_stats(const struct cix *c, struct cix_stats *ret);
const char *cix_shown(const struct cix *c);
/* Its descriptor, for locks; borrowed. */
int cix_fd(const struct cix *c);

/* *ret and *ret_rank (may be NULL) only for CIX_FOUND. */
enum cix_found cix_find(struct cix *c, const struct digest *d,
    struct cix_entry *ret, uint64_t *ret_rank);

/* A walk over all entries from a rank on.  Look-ups between its steps are
 * allowed, and slow it down. */
struct cix_walk {
	struct cix *c;
	uint64_t next; /* rank */
};

enum cix_step {
	CIX_STEP_END,
	CIX_STEP_ENTRY,
	/* Unreadable pages were passed over: entries are missing here. */
	CIX_STEP_GAP,
};

/* *ret_rank (may be NULL): of the entry; of a gap, where it began. */
enum cix_step cix_walk_next(
    struct cix_walk *w, struct cix_entry *ret, uint64_t *ret_rank);

#endif
