/* SPDX-License-Identifier: MIT */
/*
 * tree_push_read: entries looked at and small files read by workers; contents
 * placed, and large files read, by the owner.
 */
#include <assert.h>
#include <string.h>

#include "datastore/base/clock.h"
#include "index/tree_push_internal.h"

#define PIECE ((size_t)256 << 10)

/* Not as it was when it was looked at. */
#define UNSTEADY (CATALOG_STATE_CHANGED | CATALOG_STATE_SHORT)

static bool is_readable(const struct walk_found *f)
{
	return f->outcome == WALK_THERE && f->kind == CATALOG_FILE &&
	    f->fd >= 0;
}

static int try_again(struct tree_push *t, struct err *e)
{
	int rc = task_check(t->task, e);

	if (rc == 0)
		clock_sleep_ms(TREE_PUSH_PAUSE_MS);
	return rc;
}

/* Has somebody else claimed to read it? */
static int is_claimed(struct tree_push *t, const struct walk_found *f,
    unsigned tries, bool *ret, struct err *e)
{
	bool first = true;
	int rc = 0;

	*ret = false;
	if (f->st.stx_nlink < 2 || tries > 0)
		return 0;
	rc = walk_links_claim(t->links, &f->st, &first, e);
	*ret = !first;
	return rc;
}

int tree_push_look(struct tree_push *t, struct digest_ctx *digest,
    struct tree_slot *s, struct err *e)
{
	struct walk_found *f = &s->f;
	int rc = task_check(t->task, e);

	for (unsigned tries = 0; rc == 0; tries++) {
		bool claimed = false;

		s->content = TREE_CONTENT_NONE;
		rc = walk_look(s->dir->fd, s->name, s->type, f, e);
		if (rc < 0 || !is_readable(f))
			return rc;
		rc = is_claimed(t, f, tries, &claimed, e);
		if (rc < 0)
			break;
		s->content = TREE_CONTENT_OWNER;
		if (claimed || f->stored > WALK_SMALL_MAX)
			break;
		s->content = TREE_CONTENT_READ;
		rc = walk_read(f, digest, e);
		if (rc < 0 || (f->state & UNSTEADY) == 0 ||
		    tries + 1 == TREE_PUSH_TRIES)
			break;
		rc = try_again(t, e);
	}
	file_close(&f->fd);
	return rc;
}

/* ---- the owner ---- */

/* One content that lies in memory. */
static int place_data(struct tree_push *t, struct tree_slot *s, struct err *e)
{
	const struct walk_found *f = &s->f;
	int rc = 0;

	if (f->stored == 0 ||
	    tree_writer_find(t->writer, &f->sha256, f->stored, &s->pos))
		return 0;
	rc = tree_writer_begin(
	    t->writer, f->stored >= TREE_CUT_SIZE, &s->pos, e);
	if (rc == 0)
		rc =
		    tree_writer_append(t->writer, f->data.data, f->data.len, e);
	if (rc == 0)
		rc = tree_writer_end(t->writer, &f->sha256, e);
	return rc;
}

/* All of it once, into the digest and, with `place`, into the stream. */
static int read_all(
    struct tree_push *t, struct walk_found *f, bool place, struct err *e)
{
	uint64_t total = 0;
	uint64_t at = 0;
	size_t got = 1;
	int rc = 0;

	while (rc == 0 && got > 0) {
		rc = walk_read_piece(f, &at, t->piece, PIECE, &got, e);
		if (rc == 0)
			rc = digest_ctx_update(t->digest, t->piece, got, e);
		if (rc == 0 && place)
			rc = tree_writer_append(t->writer, t->piece, got, e);
		if (rc == 0 && !place)
			rc = tree_writer_pulse(t->writer, e);
		total += got;
	}
	if (rc == 0)
		rc = digest_ctx_final(t->digest, &f->sha256, e);
	if (rc == 0)
		rc = walk_read_end(f, total, e);
	return rc;
}

/* Where content of this length was placed, it may be the same. */
static int place_as_known(
    struct tree_push *t, struct tree_slot *s, bool *ret_done, struct err *e)
{
	struct walk_found *f = &s->f;
	int rc = 0;

	*ret_done = f->stored == 0;
	if (*ret_done || !tree_writer_has_size(t->writer, f->stored))
		return *ret_done ? read_all(t, f, false, e) : 0;
	rc = read_all(t, f, false, e);
	if (rc == 0 && (f->state & CATALOG_STATE_UNREADABLE) == 0 &&
	    tree_writer_find(t->writer, &f->sha256, f->stored, &s->pos))
		*ret_done = true;
	return rc;
}

static int place_as_new(
    struct tree_push *t, struct tree_slot *s, bool last, struct err *e)
{
	struct walk_found *f = &s->f;
	int rc = tree_writer_begin(
	    t->writer, f->stored >= TREE_CUT_SIZE, &s->pos, e);

	if (rc == 0)
		rc = read_all(t, f, true, e);
	if (rc < 0)
		return rc;
	if ((f->state & CATALOG_STATE_UNREADABLE) != 0 ||
	    ((f->state & UNSTEADY) != 0 && !last))
		return tree_writer_drop(t->writer, e);
	return tree_writer_end(t->writer, &f->sha256, e);
}

static int read_and_place(
    struct tree_push *t, struct tree_slot *s, struct err *e)
{
	struct walk_found *f = &s->f;
	bool last = false;
	int rc = 0;

	for (unsigned tries = 1; rc == 0 && !last; tries++) {
		bool done = false;

		rc = walk_look(s->dir->fd, s->name, s->type, f, e);
		if (rc < 0 || !is_readable(f))
			break;
		last =
		    tries == TREE_PUSH_TRIES || f->stored > TREE_PUSH_AGAIN_MAX;
		rc = place_as_known(t, s, &done, e);
		if (rc == 0 && !done)
			rc = place_as_new(t, s, last, e);
		if (rc == 0 && (f->state & UNSTEADY) == 0)
			break;
		if (rc == 0 && !last)
			rc = try_again(t, e);
	}
	file_close(&f->fd);
	return rc;
}

int tree_push_place(struct tree_push *t, struct tree_slot *s, struct err *e)
{
	s->pos = 0;
	switch (s->content) {
	case TREE_CONTENT_READ:
		if ((s->f.state & CATALOG_STATE_UNREADABLE) != 0)
			return 0;
		return place_data(t, s, e);
	case TREE_CONTENT_OWNER:
		return read_and_place(t, s, e);
	case TREE_CONTENT_NONE:
		break;
	}
	return 0;
}
