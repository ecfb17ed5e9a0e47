/* SPDX-License-Identifier: MIT */
/*
 * damage_internal: what the files of damage share.
 */
#ifndef CAIRN_DATASTORE_DAMAGE_INTERNAL_H
#define CAIRN_DATASTORE_DAMAGE_INTERNAL_H

#include <stddef.h>
#include <stdint.h>

#include "datastore/base/digest.h"
#include "datastore/damage.h"

#define DAMAGED_NAME "damaged"

/* What the last line of a digest said. */
struct event {
	struct digest digest;
	enum damage_state state;
	int64_t time;
};

/* Sorted by digest, each once. */
struct events {
	struct event *items;
	size_t n;
};

/*
 * list: the damaged ones.  fd: the file that was read, kept open so that its
 * inode is not given to the one that replaces it; -1 if there was none.  at:
 * behind the last whole line that was read.  odd: lines that say nothing to
 * us.
 */
struct damage {
	struct events list;
	size_t odd;
	int fd;
	uint64_t at;
};

#endif
