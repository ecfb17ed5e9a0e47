/* SPDX-License-Identifier: MIT */
/*
 * tree_restore: a tree archive, or paths of it, back into a directory.
 *
 * A file appears under its name whole, with all its metadata, or not at all;
 * what it replaces is there until then.  Who is killed leaves directories
 * that are for their owner only, and, on file systems without nameless files
 * (O_TMPFILE: NFS and others), files named ".cairn-restore." and 16 hex
 * digits, which nobody needs; who is stopped leaves none.  When it returns 0,
 * all of it is on disk.
 *
 * Never writes through a symbolic link and never outside the target, whatever
 * the catalog says: every step is relative to an open directory, O_NOFOLLOW;
 * what is in the way is replaced, not followed.  Contents come in the order
 * of the stream, each chunk read once, by several threads; SHA-256 of every
 * file is checked before it gets its name.  Directories get their metadata
 * last.  Damage does not end it: each file that is hurt is named and counted.
 *
 * Memory: at most 220 MiB, and the catalog's, however many entries there are;
 * what has to be remembered of them goes to files without a name in $TMPDIR,
 * or /var/tmp: 200 to 500 bytes an entry.
 */
#ifndef CAIRN_INDEX_TREE_RESTORE_H
#define CAIRN_INDEX_TREE_RESTORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "datastore/base/err.h"
#include "datastore/base/task.h"
#include "index/archive.h"
#include "index/catalog.h"
#include "index/tree_restore_meta.h"

enum tree_overwrite {
	TREE_OVERWRITE_NEVER,   /* what exists stays, said and counted */
	TREE_OVERWRITE_CHANGED, /* unless kind, size and mtime are equal */
	TREE_OVERWRITE_ALWAYS,
};

struct tree_restore_opts {
	enum tree_overwrite overwrite;
	bool numeric_owner;
	const struct catalog_bytes *paths; /* 0: all */
	size_t paths_n;
	bool root_metadata; /* the target was made for it */
	unsigned threads;   /* 0: as many as there are CPUs */
};

struct tree_restore_result {
	uint64_t entries; /* made */
	uint64_t bytes;   /* of file contents written */
	uint64_t skipped; /* existed, and stayed as they are */
	uint64_t equal;   /* OVERWRITE_CHANGED: were so already */
	uint64_t failed;  /* could not be made */
	/* Content missing or bad, or unreadable when pushed, and the index if
	 * its checksum is wrong; each was named.
	 * Of those that are skipped or failed, the first hundred were. */
	uint64_t damaged;
	/* Of these, owner, flags... could not be set; the first was named. */
	uint64_t metadata_failed;
	uint64_t missed[RESTORE_MISS_KINDS];
	/* Of the catalog; what it says elsewhere was restored. */
	struct catalog_gaps gaps;
};

/*
 * content: the archive's stream; targetfd: the directory, open for reading.
 * `shown` names it, as text.  A path that is not there is ERR_NOTFOUND before
 * anything is written.  Paths come back below the target as they lie below
 * the root; directories that lead there are made if they are missing, with
 * their metadata.  An error only for what ends everything: no space, no
 * memory, told to stop, an index that can not be read; *ret is then what was
 * done until then.
 */
int tree_restore(struct catalog *c, struct archive *content, int targetfd,
    const char *shown, const struct tree_restore_opts *opts, struct task *task,
    struct tree_restore_result *ret, struct err *e);

#endif
