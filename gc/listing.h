/* SPDX-License-Identifier: MIT */
/*
 * listing: every index file below the datastore's root.
 *
 * The walk follows no symbolic link and passes over names with a leading dot
 * and `lost+found`; every other directory is entered, well-named or not, so
 * that an index file in an odd place is found (and marked, with a warning).
 * What can not be read, and links where namespaces, groups, snapshots or
 * index files should be, are findings: GC reports all of them and then
 * removes nothing (I5).
 *
 * It takes no lock.  Whoever needs a listing that holds everything that was
 * visible when it began holds the tree lock (mark.h).
 */
#ifndef CAIRN_GC_LISTING_H
#define CAIRN_GC_LISTING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "datastore/base/clock.h"
#include "datastore/base/err.h"
#include "datastore/base/task.h"
#include "datastore/datastore.h"
#include "gc/findings.h"

/* Levels of directories: 7 namespaces take 17; nobody has more. */
#define LISTING_DEPTH_MAX 64U

/* An index file as it was seen: the same one is the same in all of this. */
struct root_id {
	uint32_t dev_major;
	uint32_t dev_minor;
	uint64_t inode;
	filetime ctime;
};

struct root_file {
	char *path; /* below the root */
	struct root_id id;
	uint64_t bytes;
	bool in_snapshot;  /* well-placed: .../TYPE/ID/TIME/NAME */
	bool has_manifest; /* its directory had one when listed */
};

struct listing {
	struct root_file *files; /* sorted by path */
	size_t n;
	size_t cap;
	/*
	 * Names that were there and then were not.  Any of them may have been
	 * a directory with index files, but for other names within a
	 * snapshot, where temporary files come and go.
	 */
	size_t vanished;
};
#define LISTING_INIT                                           \
	{                                                      \
		.files = NULL, .n = 0, .cap = 0, .vanished = 0 \
	}

/* ret is to be initialised.  Looks at the task once per directory. */
int listing_walk(struct datastore *ds, struct task *task,
    struct findings *findings, struct listing *ret, struct err *e);
void listing_release(struct listing *l);

/* A path below the root, for messages, control characters quoted. */
#define LISTING_SHOWN_SIZE 1024
const char *listing_shown(
    const struct datastore *ds, const char *path, char out[LISTING_SHOWN_SIZE]);

struct root_id root_id_of(const struct statx *st);
bool root_id_equal(const struct root_id *a, const struct root_id *b);

#endif
