/* SPDX-License-Identifier: MIT */
/*
 * ingest_reader: a source read in order, piece by piece: a file, a device, a
 * pipe, a socket, a terminal.
 *
 * Waits without end for data, but tells its owner twice a second that it does,
 * so that a session stays alive and a task can be stopped.
 */
#ifndef CAIRN_INDEX_INGEST_READER_H
#define CAIRN_INDEX_INGEST_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "datastore/base/err.h"
#include "index/ingest.h"

struct ingest_reader {
	const struct ingest_source *src;
	uint64_t at;       /* bytes read */
	struct statx stat; /* when it was begun */
	/* Called while there is nothing to read; the owner sets it. */
	int (*idle)(void *ctx, struct err *e);
	void *ctx;
};

int ingest_reader_init(
    struct ingest_reader *r, const struct ingest_source *src, struct err *e);

/*
 * Some bytes, at most n; *ret_got 0 at the end.  idle is called twice a
 * second while there is nothing; its error ends the waiting.
 */
int ingest_reader_read(
    struct ingest_reader *r, void *p, size_t n, size_t *ret_got, struct err *e);

/* A regular file whose size or mtime is not what it was. */
int ingest_reader_changed(
    const struct ingest_reader *r, bool *ret, struct err *e);

#endif
