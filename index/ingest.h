/* SPDX-License-Identifier: MIT */
/*
 * ingest: from a file, a device or a stream to chunks and an index.
 *
 *     reader -> chunker -> [digest, look up, compress, write: workers]
 *            -> index, in order
 *
 * Memory is bounded (workers.h): slots of one chunk each, their number and
 * that of the threads chosen so that all stays under 200 MiB.  The first
 * error ends it; the session is then the caller's to abort.  Chunk sizes:
 * powers of two, 64 KiB to 4 MiB, else ERR_INVALID.
 *
 * The task is checked per chunk, and twice a second while a pipe has nothing
 * to read; meanwhile the session is kept alive.  The phase of the progress is
 * "push NAME", NAME without its suffix; bytes done are those that the index
 * has.  opts may be NULL.
 */
#ifndef CAIRN_INDEX_INGEST_H
#define CAIRN_INDEX_INGEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "datastore/base/digest.h"
#include "datastore/base/err.h"
#include "datastore/base/task.h"
#include "datastore/session.h"

struct ingest_opts {
	size_t chunk_size; /* fixed size or average; 0: 1 MiB */
	unsigned threads;  /* 0: as many as there are CPUs; memory limits it */
	int level;     /* the session's, to know its memory; 0: the hungriest */
	size_t memory; /* to stay within, if one thread can; 0: 200 MiB */
};

/* What is stored: open for reading, and what messages call it. */
struct ingest_source {
	int fd;
	const char *shown;
	uint64_t size_hint; /* of a stream, for the progress; 0: unknown */
};

struct ingest_result {
	uint64_t size;       /* of the archive */
	uint64_t hole_bytes; /* not read: holes of the source */
	uint64_t chunks;
	struct digest csum; /* of the index */
	bool changed;       /* the source was written while it was read */
};

/*
 * A disk image or block device: fixed chunks, `filename` ends in ".fidx".
 * Holes are found by SEEK_HOLE and not read.  A source that gets shorter than
 * it was at the beginning is ERR_INVALID ("shrank"); one that grew is stored
 * up to its first size, `changed`, and so is a file whose mtime moved.  An
 * empty one is ERR_INVALID.  All content is read, whatever earlier snapshots
 * hold.  Moves the descriptor's offset.
 */
int ingest_image(struct session *s, const char *filename,
    const struct ingest_source *src, const struct ingest_opts *opts,
    struct task *task, struct ingest_result *ret, struct err *e);

/*
 * A stream up to its end: content-defined chunks, `filename` ends in ".didx".
 * `changed`: a regular file whose
 * size or mtime is not what it was at the beginning.
 */
int ingest_stream(struct session *s, const char *filename,
    const struct ingest_source *src, const struct ingest_opts *opts,
    struct task *task, struct ingest_result *ret, struct err *e);

#define INGEST_CONF_MAX (16U << 20)

/*
 * A small file, whole, as ".blob"; longer than INGEST_CONF_MAX: ERR_LIMIT.
 * Of the result, size and changed are set.
 */
int ingest_conf(struct session *s, const char *filename,
    const struct ingest_source *src, struct task *task,
    struct ingest_result *ret, struct err *e);

#endif
