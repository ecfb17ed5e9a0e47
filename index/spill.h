/* SPDX-License-Identifier: MIT */
/*
 * spill: bytes put aside on disk, in a file without a name.
 *
 * For what grows with an archive and must not fill memory.  Appended, read
 * from anywhere, overwritten in place; what was appended last is kept in
 * memory until there is enough of it.  Gone when it is closed.  One thread.
 */
#ifndef CAIRN_INDEX_SPILL_H
#define CAIRN_INDEX_SPILL_H

#include <stddef.h>
#include <stdint.h>

#include "datastore/base/buf.h"
#include "datastore/base/err.h"

struct spill {
	int fd;
	uint64_t flushed; /* bytes in the file */
	struct buf tail;  /* those behind them */
};

#define SPILL_INIT                                       \
	{                                                \
		.fd = -1, .flushed = 0, .tail = BUF_INIT \
	}

/* In $TMPDIR or /var/tmp. */
int spill_open(struct spill *s, struct err *e);
void spill_close(struct spill *s); /* one that was never opened is allowed */

uint64_t spill_size(const struct spill *s);

/* ret_at may be NULL: where they lie. */
int spill_append(
    struct spill *s, const void *p, size_t n, uint64_t *ret_at, struct err *e);
/* n bytes, all of which were appended. */
int spill_read(struct spill *s, void *p, size_t n, uint64_t at, struct err *e);
int spill_write(
    struct spill *s, const void *p, size_t n, uint64_t at, struct err *e);

#endif
