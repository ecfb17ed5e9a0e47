/* SPDX-License-Identifier: MIT */
#include "datastore/base/dirreader.h"

#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "datastore/base/sysio.h"

/* More than a prefix directory of 300 chunks has. */
#define PIECE (32U << 10)

void dirreader_begin(struct dirreader *r, int fd)
{
	r->fd = fd;
	r->n = 0;
	r->at = 0;
}

/* The next piece; nothing in it: it was the last. */
static int read_piece(struct dirreader *r, const char *shown, struct err *e)
{
	ssize_t n = -1;

	if (r->piece == NULL)
		r->piece = malloc(PIECE);
	if (r->piece == NULL)
		return err_nomem(e);
	do {
		n = sysio_getdents64(r->fd, r->piece, PIECE);
	} while (n < 0 && errno == EINTR);
	/* A directory that was removed has no more names. */
	if (n < 0 && errno == ENOENT)
		n = 0;
	if (n < 0)
		return err_sys(e, "read directory '%s'", shown);
	r->n = (size_t)n;
	r->at = 0;
	return 0;
}

static bool is_dots(const char *name)
{
	return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

int dirreader_next(struct dirreader *r, struct dirreader_entry *ret,
    const char *shown, struct err *e)
{
	const struct dirent64 *entry = NULL;
	int rc = 0;

	do {
		if (r->at == r->n)
			rc = read_piece(r, shown, e);
		if (rc < 0)
			return rc;
		if (r->n == 0) {
			*ret = (struct dirreader_entry){ .name = NULL };
			return 0;
		}
		/* The kernel aligns each to 8 bytes, malloc the first. */
		entry = (const void *)(r->piece + r->at);
		r->at += entry->d_reclen;
	} while (is_dots(entry->d_name));
	*ret = (struct dirreader_entry){
		.name = entry->d_name,
		.inode = entry->d_ino,
	};
	return 0;
}

void dirreader_release(struct dirreader *r)
{
	free(r->piece);
	*r = (struct dirreader)DIRREADER_INIT;
}
