/* SPDX-License-Identifier: MIT */
/*
 * nearest: which of several words a mistyped one is likely to be.
 *
 * Like is what takes at most two letters put in, left out or changed, and no
 * more than half of its letters; or what begins with all that was typed.  Of
 * several the nearest, and of equally near ones the first.
 */
#ifndef CAIRN_DATASTORE_BASE_NEAREST_H
#define CAIRN_DATASTORE_BASE_NEAREST_H

#include <stddef.h>

#define NEAREST_SIZE 192 /* longer words are like none */

struct nearest {
	const char *word; /* as typed */
	size_t least;     /* distance of best */
	char best[NEAREST_SIZE];
};

void nearest_init(struct nearest *n, const char *word);
void nearest_try(struct nearest *n, const char *candidate);
/* NULL: none is like it. */
const char *nearest_best(const struct nearest *n);

#endif
