/* SPDX-License-Identifier: MIT */
/*
 * pushfix: small pushes into a datastore, and whether what it holds is whole.
 *
 * Chunks are known by number: chunk 7 is the same PUSHFIX_CHUNK bytes in each
 * test.  The index files are .fidx, written by hand, so that sessions can be
 * tested without the layer above.  Nothing here asserts: children of crash
 * tests use it, too.
 */
#ifndef CAIRN_TESTS_SUPPORT_PUSHFIX_H
#define CAIRN_TESTS_SUPPORT_PUSHFIX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "datastore/session.h"

#define PUSHFIX_CHUNK 4096U
#define PUSHFIX_NAME "a.img.fidx"
#define PUSHFIX_TMP "a.img.tmp_fidx"

/* A range of chunks, by number. */
struct pushfix_range {
	unsigned first;
	unsigned n;
};

/* One push of a.img. */
struct pushfix {
	const char *group; /* "host/a" */
	int64_t time;      /* 0: now */
	const struct backup_snapshot *base;
	struct pushfix_range reuse; /* chunks of the base, not touched */
	struct pushfix_range put;   /* chunks put, behind those in the index */
	bool blob;                  /* a b.conf.blob, too */
};

void pushfix_chunk(unsigned number, uint8_t out[PUSHFIX_CHUNK]);
void pushfix_digest(unsigned number, struct digest *ret);

/* The options of such a session; group and base must outlive it. */
int pushfix_opts(
    const struct pushfix *p, struct session_opts *ret, struct err *e);

/* Open; put, write, add; commit.  Each may be done on its own. */
int pushfix_open(struct datastore *ds, const struct pushfix *p,
    struct task *task, struct session **ret, struct err *e);
int pushfix_fill(struct session *s, const struct pushfix *p, struct err *e);

/* All of it.  On failure the session is gone.  *ret_id may be NULL. */
int pushfix_run(struct datastore *ds, const struct pushfix *p,
    struct task *task, struct backup_snapshot *ret_id, struct err *e);

/* For session_opts. */
int pushfix_references(int fd, const char *filename, const struct digest *d,
    bool *ret, struct err *e);

/* What a datastore holds. */
struct pushfix_census {
	size_t finished;
	size_t unfinished;
	size_t groups;
	size_t registrations; /* live or dead, named or not */
};

/*
 * Every finished snapshot whole: its manifest is sound, its files are there
 * with the sums that it says, every chunk of its indexes is there with the
 * content of its digest.  Else ERR_CORRUPT says what is wrong.
 */
int pushfix_check(
    struct datastore *ds, struct pushfix_census *ret, struct err *e);

#endif
