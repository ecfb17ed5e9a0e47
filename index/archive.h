/* SPDX-License-Identifier: MIT */
/*
 * archive: one file of a snapshot, opened to be given back as a stream.
 *
 * ARCHIVE in commands is the file's name without its suffix: "root.img" for
 * root.img.fidx.  Opening checks the manifest: the file is listed, its size
 * and checksum are the listed ones.
 */
#ifndef CAIRN_INDEX_ARCHIVE_H
#define CAIRN_INDEX_ARCHIVE_H

#include <stdbool.h>
#include <stdint.h>

#include "datastore/backupid.h"
#include "datastore/base/err.h"
#include "datastore/base/task.h"
#include "datastore/datastore.h"
#include "datastore/manifest.h"
#include "datastore/snapshot.h"
#include "index/idx.h"

struct archive;

/*
 * `name`: with or without its suffix.  ERR_NOTFOUND lists what there is.
 * ERR_UNSUPPORTED if it is encrypted.  The hold must outlive the archive.
 */
int archive_open(struct datastore *ds, const struct backup_snapshot *s,
    const struct snapshot_hold *hold, const struct manifest *m,
    const char *name, struct archive **ret, struct err *e);
void archive_close(struct archive *a); /* NULL is allowed */

uint64_t archive_size(const struct archive *a); /* of the stream */
enum backup_file_kind archive_kind(const struct archive *a);

enum archive_output {
	/* write(2) in order: pipes, terminals */
	ARCHIVE_APPEND,
	/* a new regular file: pwrite, zero chunks left as holes, ftruncate */
	ARCHIVE_SPARSE_FILE,
	/* a device or existing file: pwrite of everything */
	ARCHIVE_OVERWRITE,
	/* the same, but what is equal already is not written */
	ARCHIVE_OVERWRITE_CHANGED,
};

struct archive_result {
	uint64_t bytes;         /* of the stream */
	uint64_t bytes_written; /* less holes and what was equal */
};

/*
 * Write the whole stream to fd.  Every chunk's CRC, length and SHA-256 are
 * checked before a byte of it is written.  A missing or bad chunk: ERR_CORRUPT
 * naming it, the index file and the offset; the digest is recorded on the
 * damage list if that can be done.
 */
int archive_extract(struct archive *a, int fd, enum archive_output how,
    const char *shown, struct task *task, struct archive_result *ret,
    struct err *e);

/* Load one chunk, check it whole, and append its content to out. */
struct codec;
int archive_load_chunk(struct datastore *ds, struct codec *codec,
    const struct digest *d, uint64_t want_size, struct buf *raw,
    struct buf *out, struct err *e);

#endif
