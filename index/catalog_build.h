/* SPDX-License-Identifier: MIT */
/*
 * catalog_build: a new database of a catalog's tables, and what it is made of:
 * another one for what comes out of order, or a catalog and its changes.
 *
 * SQL calls the new one `main` and the others `spool`, `base`, `changes`.
 * What is written has no journal: who fails throws it away.
 */
#ifndef CAIRN_INDEX_CATALOG_BUILD_H
#define CAIRN_INDEX_CATALOG_BUILD_H

#include <stdbool.h>
#include <stdint.h>

#include "datastore/base/err.h"
#include "datastore/base/task.h"
#include "datastore/session.h"
#include "index/catalog_sql.h"

/* Of the images that catalogs are stored as. */
#define CATALOG_CHUNK_SIZE ((size_t)256 << 10)

struct catalog_build {
	struct catalog_sql q;
	const char *shown;
	int fd; /* of the new one; begin makes a temporary file if -1 */
	int spool_fd;
	struct task *task;       /* NULL: nobody asks to stop */
	struct session *session; /* NULL: none to keep alive */
	int64_t last_ns;
	struct err why; /* what ended a statement from outside */
};

/* shown: for messages; borrowed. */
void catalog_build_init(struct catalog_build *b, const char *shown);
/* Closes the spool, and the new file if begin made it. */
void catalog_build_release(struct catalog_build *b);

/* With an empty spool. */
int catalog_build_begin(struct catalog_build *b, bool earlier, struct err *e);
/* Of a base and its changes. */
int catalog_build_begin_merge(struct catalog_build *b,
    const struct catalog_source *base, const struct catalog_source *changes,
    struct err *e);

/* Rows of the spool into the new one, in the order of their keys. */
int catalog_build_copy(struct catalog_build *b, bool earlier, struct err *e);
/* Rows of base and changes, and their meta. */
int catalog_build_merge(struct catalog_build *b, struct err *e);

/* The lineage of what was copied, and the rest of `meta`. */
int catalog_build_meta(
    struct catalog_build *b, int64_t next_id, uint64_t next_pos, struct err *e);

/* All that was written is in the file b->fd, and nothing else will be. */
int catalog_build_end(struct catalog_build *b, struct err *e);

/* One statement, which may take long. */
int catalog_build_exec(struct catalog_build *b, const char *sql, struct err *e);

#endif
