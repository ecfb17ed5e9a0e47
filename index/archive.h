/* SPDX-License-Identifier: MIT */
/*
 * archive: one file of a snapshot, opened to be given back as a stream.
 *
 * ARCHIVE in commands is the file's name without its suffix: "root.img" for
 * root.img.fidx.  Opening checks the manifest: the file is listed, its size
 * and checksum are the listed ones.  An archive belongs to one thread.
 */
#ifndef CAIRN_INDEX_ARCHIVE_H
#define CAIRN_INDEX_ARCHIVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "datastore/backupid.h"
#include "datastore/base/buf.h"
#include "datastore/base/digest.h"
#include "datastore/base/err.h"
#include "datastore/base/task.h"
#include "datastore/compress.h"
#include "datastore/datastore.h"
#include "datastore/manifest.h"
#include "datastore/snapshot.h"
#include "index/idx.h"

struct archive;

/*
 * `name`: with or without its suffix.  ERR_NOTFOUND lists what there is;
 * ERR_INVALID if it names two.  ERR_UNSUPPORTED if it is encrypted.
 * ERR_CORRUPT: the file is missing, broken, or not the one that is listed.
 * The hold must outlive the archive.
 */
int archive_open(struct datastore *ds, const struct backup_snapshot *s,
    const struct snapshot_hold *hold, const struct manifest *m,
    const char *name, struct archive **ret, struct err *e);
/*
 * A plain file that is given back like an archive: what stands for one that is
 * put together from several.  It owns fd then (on success only).  Not for
 * archive_reader.
 */
int archive_of_file(int fd, const char *filename, const char *shown,
    struct archive **ret, struct err *e);
/*
 * ERR_NOTFOUND: the snapshot (`shown`) has no archive of this name; which one
 * may be meant, and what there is.
 */
int archive_not_found(const struct manifest *m, const char *name,
    const char *shown, struct err *e);
void archive_close(struct archive *a); /* NULL is allowed */

uint64_t archive_size(const struct archive *a); /* of the stream */

/* For messages: its path below the datastore; and its name in the snapshot. */
const char *archive_shown(const struct archive *a);
const char *archive_filename(const struct archive *a);

/*
 * For who reads its chunks himself, with archive_load_chunk: the datastore,
 * the index (NULL: it has none), both borrowed, and how many threads (at most
 * `cpus`) and slots of one chunk there is memory for; more if it was checked.
 */
struct datastore *archive_datastore(const struct archive *a);
struct idx *archive_idx(struct archive *a);
void archive_plan_chunks(const struct archive *a, unsigned cpus,
    unsigned *ret_threads, size_t *ret_slots);

/*
 * Read its index whole, once: a wrong checksum is known before the target is
 * touched.  archive_extract does it too; who prepares a target asks first.
 */
int archive_check(struct archive *a, struct task *task, struct err *e);

enum archive_output {
	/* write(2) in order: pipes, terminals; where writing may block, the
	 * task is looked at twice a second */
	ARCHIVE_APPEND,
	/* an empty regular file: gets its size, long runs of zeros stay
	 * holes */
	ARCHIVE_SPARSE_FILE,
	/* a device or existing file: pwrite of everything.  Its size, if
	 * that is to change, is the caller's affair. */
	ARCHIVE_OVERWRITE,
	/* the same, open for reading too: blocks of 64 KiB that are equal
	 * already are not written */
	ARCHIVE_OVERWRITE_CHANGED,
};

struct archive_result {
	uint64_t bytes;         /* of the stream */
	uint64_t bytes_written; /* less holes and what was equal */
};

/*
 * Write the whole stream to fd; `shown` names it in messages.  The index is
 * read whole before the first byte is written, and every chunk's CRC, length
 * and SHA-256 are checked before a byte of it is.  A missing or bad chunk:
 * ERR_CORRUPT naming it, the index file and the offset; the digest is recorded
 * on the damage list if that can be done (once per call; failing is a
 * warning).  With ARCHIVE_APPEND nothing behind it is written.  Memory: at
 * most 160 MiB, whatever the chunks' size.
 */
int archive_extract(struct archive *a, int fd, enum archive_output how,
    const char *shown, struct task *task, struct archive_result *ret,
    struct err *e);

/*
 * For who wants what is left: a chunk that is missing, bad or can not be read
 * ends no archive_extract from now on, but is told, in order, in the caller's
 * thread.  Zeros take its place, in a new file (sparse) a hole; what is
 * overwritten keeps what it has there.  *gaps is borrowed; NULL: as before.
 */
struct archive_gaps {
	void (*fn)(
	    void *ctx, uint64_t start, uint64_t end, const struct err *why);
	void *ctx;
};
void archive_skip_damage(struct archive *a, const struct archive_gaps *gaps);

/* What a thread needs to load chunks; the caller's to make and release. */
struct archive_loader {
	struct codec *codec;
	struct buf raw;
	bool bad; /* of the last chunk that was ERR_CORRUPT */
};

/*
 * Load one chunk, check it whole, and put its content into out (replaced).
 * What looks wrong is read a second time.  ERR_NOTFOUND: it is missing;
 * ERR_CORRUPT: l->bad tells whether the chunk is bad, or sound and only not
 * of want_size bytes.
 */
int archive_load_chunk(struct datastore *ds, struct archive_loader *l,
    const struct digest *d, uint64_t want_size, struct buf *out, struct err *e);

#endif
