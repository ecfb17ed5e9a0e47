/* SPDX-License-Identifier: MIT */
/*
 * digestset: a set of whole digests in memory.  One thread at a time.
 */
#ifndef CAIRN_DATASTORE_DIGESTSET_H
#define CAIRN_DATASTORE_DIGESTSET_H

#include <stdbool.h>
#include <stddef.h>

#include "datastore/base/digest.h"
#include "datastore/base/err.h"

struct digestset {
	struct digest *slots; /* all zeros: free */
	size_t cap;           /* 0 or a power of two */
	size_t n;             /* slots in use */
	bool has_zero;        /* the digest that free slots look like */
};

#define DIGESTSET_INIT                                             \
	{                                                          \
		.slots = NULL, .cap = 0, .n = 0, .has_zero = false \
	}

void digestset_release(struct digestset *s);
bool digestset_contains(const struct digestset *s, const struct digest *d);
/* *ret_added false: it was there.  On failure the set is as it was. */
int digestset_add(struct digestset *s, const struct digest *d, bool *ret_added,
    struct err *e);

#endif
