/* SPDX-License-Identifier: MIT */
/*
 * cixwriter: makes a `.cix` file (cixformat.h), in one pass.
 *
 * The file has a temporary name until it is whole and on stable storage.
 * Memory: 256 KiB, and 8 bytes for each 102 entries.
 */
#ifndef CAIRN_INDEX_CIXWRITER_H
#define CAIRN_INDEX_CIXWRITER_H

#include "datastore/base/file.h"
#include "index/cixformat.h"

struct cixwriter;

/* The stem of temporary names; six letters follow. */
#define CIXWRITER_TMP ".tmp_"

/*
 * A temporary file in dirfd.  Of info, kind, store, number and known are
 * taken.  dirfd is borrowed; shown (of the directory) is copied.  sync: it is
 * on stable storage before it has its name; of what is torn otherwise, the
 * checksums tell.
 */
int cixwriter_new(int dirfd, const char *shown, const struct cix_info *info,
    const struct file_owner *owner, bool sync, struct cixwriter **ret,
    struct err *e);

/* Of the file, for a lock; borrowed. */
int cixwriter_fd(const struct cixwriter *w);

/* In ascending order of digests, each once. */
int cixwriter_append(
    struct cixwriter *w, const struct cix_entry *x, struct err *e);

/* Before the end: what turned out to be known. */
void cixwriter_set_known(struct cixwriter *w, const struct cix_shards *known);

void cixwriter_set_trust(struct cixwriter *w, enum cix_trust trust);

/* What it will say of itself, so far. */
const struct cix_info *cixwriter_info(const struct cixwriter *w);

/* Write the rest.  Not named yet. */
int cixwriter_finish(struct cixwriter *w, struct err *e);

/*
 * Give it its name, never over another file: ERR_EXISTS.  The directory is
 * fsynced, too.  After cixwriter_finish; may be tried again with another name.
 */
int cixwriter_name(struct cixwriter *w, const char *name, struct err *e);

/* Renumber: after cixwriter_finish, before it is named. */
int cixwriter_renumber(struct cixwriter *w, uint64_t number, struct err *e);

/* What was not named is removed.  NULL is allowed. */
void cixwriter_free(struct cixwriter *w);

#endif
