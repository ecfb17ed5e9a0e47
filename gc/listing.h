/* SPDX-License-Identifier: MIT */
/*
 * listing: every index file below the datastore's root.
 *
 * The walk follows no symbolic link and passes over names with a leading dot
 * and `lost+found` of the root; every other directory is entered, well-named
 * or not, so that an index file in an odd place is found (and marked, with a
 * warning).  What can not be read, and links where groups should be, are
 * findings: GC reports all of them and then removes nothing (I5).
 */
#ifndef CAIRN_GC_LISTING_H
#define CAIRN_GC_LISTING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "datastore/base/clock.h"
#include "datastore/base/err.h"
#include "datastore/base/task.h"
#include "datastore/datastore.h"

/* Reasons not to sweep, collected so that all are reported at once. */
struct findings {
	struct task *task; /* each one is a warning when it is added */
	size_t fatal;
	size_t warnings;
};
void findings_fatal(struct findings *f, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
void findings_warn(struct findings *f, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* One index file, as a listing saw it. */
struct root_file {
	char *path; /* below the root */
	uint32_t dev_major;
	uint32_t dev_minor;
	uint64_t inode;
	filetime ctime;
	uint64_t bytes;
	bool in_snapshot;  /* well-placed: .../TYPE/ID/TIME/NAME */
	bool has_manifest; /* its directory had one when listed */
};

struct listing {
	struct root_file *files; /* sorted by path */
	size_t n;
	size_t vanished; /* names that were there and then were not */
};

int listing_walk(struct datastore *ds, struct task *task,
    struct findings *findings, struct listing *ret, struct err *e);
void listing_release(struct listing *l);

#endif
