/* SPDX-License-Identifier: MIT */
/*
 * seenset: which digests this run has already dealt with, in fixed memory.
 *
 * A set-associative table of whole digests: it forgets when it is full, and
 * what it says it knows is always true, because all 32 bytes are compared.
 * Forgetting costs a touch, never a chunk.
 */
#ifndef CAIRN_DATASTORE_SEENSET_H
#define CAIRN_DATASTORE_SEENSET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "datastore/base/digest.h"
#include "datastore/base/err.h"

struct seenset;

/* At most `capacity` digests, rounded down to a power of two, but 4 at least;
 * 33 and a half bytes each. */
int seenset_new(size_t capacity, struct seenset **ret, struct err *e);
void seenset_free(struct seenset *s); /* NULL is allowed */
bool seenset_contains(const struct seenset *s, const struct digest *d);
void seenset_add(struct seenset *s, const struct digest *d);

/* The same with a word of the caller's; add only what is not known. */
bool seenset_find(
    const struct seenset *s, const struct digest *d, uint8_t *ret_tag);
void seenset_add_tagged(struct seenset *s, const struct digest *d, uint8_t tag);

#endif
