/* SPDX-License-Identifier: MIT */
/*
 * idxwriter: writes an index file under its temporary name.
 *
 * "root.img.fidx" is written as "root.img.tmp_fidx" (the name PBS uses, which
 * no listing takes for an index).  Entries are appended in order; the header
 * comes last.  The file gets its final name by session_add_file and commit.
 */
#ifndef CAIRN_INDEX_IDXWRITER_H
#define CAIRN_INDEX_IDXWRITER_H

#include <stdint.h>

#include "datastore/base/digest.h"
#include "datastore/base/err.h"
#include "datastore/session.h"
#include "index/idxformat.h"

struct idxwriter;

/* Chunk sizes that are written; what is read may have others (idxformat.h). */
#define IDX_CHUNK_MIN (64U << 10)
#define IDX_CHUNK_MAX (4U << 20)

/*
 * filename ends in .fidx or .didx and says the kind; chunk_size is for .fidx
 * (a power of two, IDX_CHUNK_MIN to IDX_CHUNK_MAX, else ERR_INVALID).
 * ERR_EXISTS if the session has a file of that name.  In a dry run
 * (session_dir_fd is -1) nothing is written, everything else is the same.
 */
int idxwriter_new(struct session *s, const char *filename, uint64_t chunk_size,
    struct idxwriter **ret, struct err *e);

/*
 * The next chunk, of n plain bytes.  In a fixed index each but the last has
 * chunk_size bytes.  The writer checks that (ERR_INVALID).
 */
int idxwriter_append(
    struct idxwriter *w, const struct digest *d, uint64_t n, struct err *e);

/*
 * Write the header and hand the file to the session.  A fixed index without
 * entries is ERR_INVALID: an empty image can not be stored.
 */
int idxwriter_finish(struct idxwriter *w, uint64_t *ret_size,
    struct digest *ret_csum, struct err *e);

/* Closes; an unfinished file is left to the session.  NULL is allowed. */
void idxwriter_free(struct idxwriter *w);

#endif
