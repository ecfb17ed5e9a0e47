/* SPDX-License-Identifier: MIT */
/*
 * dirreader: the names in a directory, with no call and no allocation but those
 * that they need.
 *
 * For who reads very many small directories: readdir(3) makes a stream for each
 * of them, two more system calls and 32 KiB of memory.  One reader does one
 * directory after the other.  Elsewhere file_each_name is simpler.
 */
#ifndef CAIRN_DATASTORE_BASE_DIRREADER_H
#define CAIRN_DATASTORE_BASE_DIRREADER_H

#include <stddef.h>
#include <stdint.h>

#include "datastore/base/err.h"

struct dirreader {
	int fd; /* the caller's */
	char *piece;
	size_t n; /* bytes of it */
	size_t at;
};

#define DIRREADER_INIT   \
	{                \
		.fd = -1 \
	}

struct dirreader_entry {
	const char *name; /* until the next call; NULL: there is no more */
	uint64_t inode;
};

/*
 * Read the open directory fd from where it stands; fd stays open, and the
 * caller's, for as long as it is read.
 */
void dirreader_begin(struct dirreader *r, int fd);

/* The next entry but "." and "..".  ERR_SYS: it can not be read. */
int dirreader_next(struct dirreader *r, struct dirreader_entry *ret,
    const char *shown, struct err *e);

/* The memory of it. */
void dirreader_release(struct dirreader *r);

#endif
