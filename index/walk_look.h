/* SPDX-License-Identifier: MIT */
/*
 * walk_look: all that is to be known of one entry of a directory.
 *
 * Opens it without following or waiting, and describes what was opened, not
 * what has the name by now.  What can not be read or looked at is an outcome,
 * with its reason; only what must end everything (memory, descriptors) is an
 * error.  Thread-safe: each thread has structs of its own.
 */
#ifndef CAIRN_INDEX_WALK_LOOK_H
#define CAIRN_INDEX_WALK_LOOK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "datastore/base/buf.h"
#include "datastore/base/digest.h"
#include "datastore/base/err.h"
#include "index/catalog.h"

/* Contents up to this size are read whole. */
#define WALK_SMALL_MAX (1U << 20)

enum walk_outcome {
	WALK_THERE,
	WALK_GONE,   /* it was listed, and is not there any more */
	WALK_HIDDEN, /* it can not even be looked at: `why` */
};

/* One entry, used again and again; begins as zeros but for fd = -1. */
struct walk_found {
	enum walk_outcome outcome;
	struct statx st; /* WALK_THERE: what follows is of this state */
	enum catalog_kind kind;
	bool has_flags;
	uint32_t flags;
	struct buf attr;   /* attr.data; empty: no xattrs */
	struct buf holes;  /* empty: none */
	struct buf target; /* of a symlink */
	int fd; /* of a regular file that can be read: open for it; else -1 */
	uint64_t stored; /* bytes to read, then: bytes read */
	uint64_t size;   /* as stat says, then: as read */
	struct buf data; /* by walk_read */
	struct digest sha256;
	unsigned state;  /* CATALOG_STATE_... */
	bool incomplete; /* metadata could not be read: `why` */
	struct err why;
};

void walk_found_release(struct walk_found *f);
/* Close, and forget all but the memory (large blocks of it, too). */
void walk_found_reset(struct walk_found *f);

/*
 * The entry `name` of dirfd; type is the DT_... that it was listed as.  name
 * NULL: the directory dirfd itself.
 */
int walk_look(int dirfd, const char *name, unsigned char type,
    struct walk_found *f, struct err *e);

/*
 * Read f->stored bytes of f->fd, at most WALK_SMALL_MAX, into f->data; digest;
 * and see whether the file has changed since it was looked at.  state says
 * how it went.
 */
int walk_read(struct walk_found *f, struct digest_ctx *digest, struct err *e);

/*
 * The same in pieces: *at begins as 0 (an offset of the file).  *ret_got 0: it
 * ended, or could not be read: state.
 */
int walk_read_piece(struct walk_found *f, uint64_t *at, void *p, size_t n,
    size_t *ret_got, struct err *e);
/* Behind the last piece: has it changed?  total: bytes read. */
int walk_read_end(struct walk_found *f, uint64_t total, struct err *e);

#endif
