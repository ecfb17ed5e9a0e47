/* SPDX-License-Identifier: MIT */
#include "index/tree_restore_spool.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "datastore/base/file.h"
#include "index/catalog_tmp.h"

#define BLOCK ((size_t)16 << 10)
#define BLOCKS 31U /* that are kept; a prime: neighbours do not meet */

/* Block `number` of the file; 0: none (the first one is number 1). */
struct block {
	uint64_t number;
	uint8_t *p;
};

/* Only whole blocks are in the file; the last one is in `tail`. */
struct restore_spool {
	int fd;
	uint64_t written;
	size_t tail_n;
	uint8_t *tail;
	struct block blocks[BLOCKS];
};

int restore_spool_new(struct restore_spool **ret, struct err *e)
{
	struct restore_spool *s = calloc(1, sizeof(*s));
	int rc = 0;

	if (s == NULL)
		return err_nomem(e);
	s->fd = -1;
	s->tail = malloc(BLOCK);
	rc = s->tail == NULL ? err_nomem(e) : catalog_tmp_open(&s->fd, e);
	if (rc < 0) {
		restore_spool_free(s);
		return rc;
	}
	*ret = s;
	return 0;
}

void restore_spool_free(struct restore_spool *s)
{
	if (s == NULL)
		return;
	file_close(&s->fd);
	for (size_t i = 0; i < BLOCKS; i++)
		free(s->blocks[i].p);
	free(s->tail);
	free(s);
}

int restore_spool_append(struct restore_spool *s, const void *p, size_t n,
    uint64_t *ret_at, struct err *e)
{
	uint64_t at = s->written + s->tail_n;
	const uint8_t *from = p;

	while (n > 0) {
		size_t part = BLOCK - s->tail_n < n ? BLOCK - s->tail_n : n;

		memcpy(s->tail + s->tail_n, from, part);
		s->tail_n += part;
		from += part;
		n -= part;
		if (s->tail_n == BLOCK) {
			int rc = file_pwrite_fully(s->fd, s->tail, BLOCK,
			    s->written, catalog_tmp_dir(), e);

			if (rc < 0)
				return rc;
			s->written += BLOCK;
			s->tail_n = 0;
		}
	}
	*ret_at = at;
	return 0;
}

static int load(
    struct restore_spool *s, uint64_t number, uint8_t **ret, struct err *e)
{
	struct block *b = &s->blocks[number % BLOCKS];
	int rc = 0;

	if (b->number != number + 1) {
		if (b->p == NULL)
			b->p = malloc(BLOCK);
		if (b->p == NULL)
			return err_nomem(e);
		b->number = 0;
		rc = file_pread_exact(
		    s->fd, b->p, BLOCK, number * BLOCK, catalog_tmp_dir(), e);
		if (rc < 0)
			return rc;
		b->number = number + 1;
	}
	*ret = b->p;
	return 0;
}

/* Where the byte is, and how many behind it are there, too. */
static int find(struct restore_spool *s, uint64_t at, uint8_t **ret,
    size_t *ret_n, struct err *e)
{
	size_t in = (size_t)(at % BLOCK);
	uint8_t *p = s->tail;
	int rc = 0;

	assert(at < s->written + s->tail_n);
	if (at < s->written)
		rc = load(s, at / BLOCK, &p, e);
	if (rc < 0)
		return rc;
	*ret = p + in;
	*ret_n = (at < s->written ? BLOCK : s->tail_n) - in;
	return 0;
}

int restore_spool_read(
    struct restore_spool *s, uint64_t at, void *p, size_t n, struct err *e)
{
	uint8_t *to = p;

	while (n > 0) {
		uint8_t *from = NULL;
		size_t part = 0;
		int rc = find(s, at, &from, &part, e);

		if (rc < 0)
			return rc;
		if (part > n)
			part = n;
		memcpy(to, from, part);
		to += part;
		at += part;
		n -= part;
	}
	return 0;
}

int restore_spool_overwrite(struct restore_spool *s, uint64_t at, const void *p,
    size_t n, struct err *e)
{
	const uint8_t *from = p;

	while (n > 0) {
		uint8_t *to = NULL;
		size_t part = 0;
		int rc = find(s, at, &to, &part, e);

		if (rc < 0)
			return rc;
		if (part > n)
			part = n;
		memcpy(to, from, part);
		if (at < s->written)
			rc = file_pwrite_fully(
			    s->fd, from, part, at, catalog_tmp_dir(), e);
		if (rc < 0)
			return rc;
		from += part;
		at += part;
		n -= part;
	}
	return 0;
}
