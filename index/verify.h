/* SPDX-License-Identifier: MIT */
/*
 * verify: read everything again and say what is hurt.
 *
 * Per snapshot: manifest, each listed file (blobs: size, SHA-256, decoding;
 * indexes: header, size, checksum), each chunk (present, CRC, length,
 * SHA-256).  A chunk is read once per run, whatever references it (of more
 * than two million some may be read again).  Content that two separate reads
 * prove wrong is put on the damage list and renamed to `.N.bad` under the
 * exclusive prefix lock, so that the next push of the same data stores it
 * again; an I/O error proves nothing and renames nothing.  Encrypted chunks:
 * CRC only.  A chunk that is sound but not what an index says of it (length,
 * encryption) is a finding of that snapshot, and stays.
 *
 * Where a chunk of a NAME.tree or NAME.tar is hurt, its catalog is read once,
 * to name the files that need it (not again for a snapshot that is the same as
 * the one before); if that fails it is one more finding.
 *
 * Each catalog is read whole: all rows have to be reached from the root, and
 * contents have to lie within the archive.  One that can not be used as it is
 * stands among the files, by its name and without a path.
 *
 * The result is written into each manifest (`verify_state`).  What is on the
 * damage list and sound by now is `healed`; the list shrinks at the end.
 *
 * Where the datastore is open for reading only (DATASTORE_READ), everything is
 * looked at and told, and nothing is written or renamed.
 */
#ifndef CAIRN_INDEX_VERIFY_H
#define CAIRN_INDEX_VERIFY_H

#include <stddef.h>
#include <stdint.h>

#include "datastore/backupid.h"
#include "datastore/base/err.h"
#include "datastore/base/task.h"
#include "datastore/datastore.h"

struct verify_file {
	char *archive; /* "root.tree" */
	char *path;    /* from its root; "": of "root.tree.catalog", "db.raw" */
};

struct verify_hurt {
	struct backup_snapshot id;
	char *reasons; /* lines, one per finding; of very many the first */
	/* Files of its trees and tars that need a chunk that is hurt, by path,
	 * and archives that have no such names; of very many the first. */
	struct verify_file *files;
	size_t files_n;
	uint64_t files_more; /* that are not listed */
};

struct verify_result {
	uint64_t snapshots;
	uint64_t unfinished; /* passed over */
	uint64_t busy;       /* being removed: passed over */
	uint64_t chunks;     /* distinct, looked at */
	uint64_t bytes;      /* read */
	uint64_t missing_chunks;
	uint64_t bad_chunks;        /* proven */
	uint64_t kept_chunks;       /* of the bad ones: could not be renamed */
	uint64_t unreadable_chunks; /* I/O errors */
	uint64_t damaged_files;     /* manifests, blobs and indexes */
	struct verify_hurt *hurt;
	size_t hurt_n;
};

/*
 * All of a list of snapshots.  Damage is a result, not an error, and so is
 * what can not be read; each finding is also a TASK_WARNING message when it is
 * found.  Checks the task per chunk.  Where it fails, or is told to stop, *ret
 * has what was counted until then, and no list.
 */
int verify_run(struct datastore *ds, const struct backup_snapshot *snapshots,
    size_t n, struct task *task, struct verify_result *ret, struct err *e);
void verify_result_release(struct verify_result *r);

#endif
