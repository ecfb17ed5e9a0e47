/* SPDX-License-Identifier: MIT */
/*
 * catalog_writer: a new catalog, whole.
 *
 * Rows come in any order; they are sorted by key on disk (an unlinked
 * temporary file of $TMPDIR or /var/tmp), written once in that order, and the
 * database becomes NAME.catalog.fidx of the session in chunks of 256 KiB.
 * The same rows give the same bytes.  Memory: at most 24 MiB, without what
 * ingest.h takes at the end.
 */
#ifndef CAIRN_INDEX_CATALOG_WRITER_H
#define CAIRN_INDEX_CATALOG_WRITER_H

#include <stddef.h>
#include <stdint.h>

#include "datastore/base/err.h"
#include "datastore/base/task.h"
#include "datastore/session.h"
#include "index/catalog.h"
#include "index/ingest.h"

struct catalog_writer;

/* archive: "root.tree" or "root.tar". */
int catalog_writer_new(struct session *s, const char *archive,
    struct catalog_writer **ret, struct err *e);
void catalog_writer_free(struct catalog_writer *w); /* NULL is allowed */

/*
 * One row of `entry`, which keeps the rules of catalog.h and has a key that is
 * new, else ERR_INVALID.  In a tar a row that is no member, like a directory
 * that only paths name: a member of the same key replaces it without a trace.
 */
int catalog_writer_add(
    struct catalog_writer *w, const struct catalog_entry *entry, struct err *e);
/*
 * A member of a tar: like catalog_writer_add, but of several with one key the
 * one with the greatest `member` (the header's offset) becomes the entry and
 * the others `earlier`.
 */
int catalog_writer_add_member(struct catalog_writer *w,
    const struct catalog_entry *entry, uint64_t member, struct err *e);

/* The id of this attr.data, the same for the same bytes; ids go up from 1. */
int catalog_writer_attr(struct catalog_writer *w, const void *data, size_t n,
    int64_t *ret_id, struct err *e);
/* The name of a user or group (NULL: it has none); the first one counts. */
int catalog_writer_account(struct catalog_writer *w, enum catalog_account kind,
    uint32_t id, const char *name, struct err *e);
/* path relative to the root ("" for it); dev is not stored. */
int catalog_writer_mount(struct catalog_writer *w, int64_t id,
    struct catalog_bytes path, const char *fstype, struct err *e);
/* Positions [pos, pos + length) lie at offset start of the stream. */
int catalog_writer_run(struct catalog_writer *w, uint64_t pos, uint64_t length,
    uint64_t start, struct err *e);

/* Nothing behind this offset of the archive could be listed (meta
 * `incomplete`). */
void catalog_writer_incomplete(struct catalog_writer *w, uint64_t offset);

/*
 * Sort, write, store.  next_id and next_pos become meta.  Of opts chunk_size is
 * not looked at.  Reports the phase "push NAME.catalog".  ERR_INVALID: there is
 * no root.
 */
int catalog_writer_finish(struct catalog_writer *w, int64_t next_id,
    uint64_t next_pos, const struct ingest_opts *opts, struct task *task,
    struct ingest_result *ret, struct err *e);

#endif
