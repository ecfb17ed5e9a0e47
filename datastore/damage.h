/* SPDX-License-Identifier: MIT */
/*
 * damage: `.cairn/damaged`, the digests known to be missing or bad.
 *
 * Text, one line per event: "DIGEST missing|bad|healed TIME\n" with 64 hex
 * digits and an RFC 3339 time.  Lines are appended by one write under an
 * exclusive flock of the file; the last line of a digest counts.  A line that
 * is not of this form is passed over (a torn last line, a newer word).
 *
 * A digest on the list is never reused by a session: its content is stored
 * again, and then `healed` is appended (I2).
 */
#ifndef CAIRN_DATASTORE_DAMAGE_H
#define CAIRN_DATASTORE_DAMAGE_H

#include <stdbool.h>
#include <stddef.h>

#include "datastore/base/digest.h"
#include "datastore/base/err.h"
#include "datastore/base/task.h"
#include "datastore/datastore.h"

enum damage_state {
	DAMAGE_MISSING,
	DAMAGE_BAD,
	DAMAGE_HEALED,
};

/* An in-memory list, with how far the file was read.  One thread at a time,
 * but damage_contains may be called from many while nobody changes it. */
struct damage;

/* An absent file is an empty list. */
int damage_read(struct datastore *ds, struct damage **ret, struct err *e);
void damage_free(struct damage *d);

/* Read what was appended (or the whole file anew, if it was replaced) and
 * hand each digest that became damaged since to fn. */
int damage_refresh(struct datastore *ds, struct damage *d,
    int (*fn)(void *ctx, const struct digest *digest, struct err *e), void *ctx,
    struct err *e);

bool damage_contains(const struct damage *d, const struct digest *digest);
size_t damage_count(const struct damage *d); /* damaged now, healed not */
/* How many lines were passed over; if any, that is said. */
size_t damage_odd(
    const struct damage *d, const struct datastore *ds, struct task *task);
/* The i-th of damage_count, sorted by digest, with its state. */
const struct digest *damage_at(
    const struct damage *d, size_t i, enum damage_state *ret_state);

/*
 * Append, durably; fails where .cairn is missing (datastore_ensure_cairn
 * first).  damage_append_all: n of them with one write and one fsync per 1024.
 */
int damage_append(struct datastore *ds, const struct digest *digest,
    enum damage_state state, struct err *e);
int damage_append_all(struct datastore *ds, const struct digest *digests,
    size_t n, enum damage_state state, struct err *e);

/*
 * Rewrite with one line per digest that is damaged now, with the time of its
 * last event.  Sessions notice by the other inode and read it anew.
 */
int damage_compact(struct datastore *ds, struct err *e);

#endif
