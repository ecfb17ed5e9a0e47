/* SPDX-License-Identifier: MIT */
#include "index/tar_libarchive.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "datastore/base/bytes.h"
#include "datastore/base/text.h"

/* Zeros that stand in a stream where a hole is meant (Solaris). */
#define ZEROS 65536

int tar_locale_enter(struct tar_locale *l, bool utf8, struct err *e)
{
	locale_t own = (locale_t)0;

	if (utf8)
		own = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0);
	if (own == (locale_t)0)
		own = newlocale(LC_CTYPE_MASK, "C", (locale_t)0);
	if (own == (locale_t)0)
		return err_sys(e, "locale 'C'");
	l->own = own;
	l->before = uselocale(own);
	return 0;
}

void tar_locale_leave(struct tar_locale *l)
{
	if (l->own == (locale_t)0)
		return;
	(void)uselocale(l->before);
	freelocale(l->own);
	l->own = (locale_t)0;
}

const char *tar_reason(struct archive *a, char *out, size_t size)
{
	const char *text = archive_error_string(a);

	return text_name(out, size, text != NULL ? text : "no reason given");
}

const char *tar_warning(struct archive *a)
{
	const char *text = archive_error_string(a);

	if (text == NULL)
		return "no reason given";
	return strstr(text, "converted from") != NULL ? NULL : text;
}

int tar_fail(struct archive *a, int code, const char *shown, struct err *e)
{
	char text[256];

	if (archive_errno(a) == ENOMEM)
		return err_nomem(e);
	return err_set(
	    e, code, "'%s': %s", shown, tar_reason(a, text, sizeof(text)));
}

static int set_hole(
    struct tar_content *c, uint64_t start, uint64_t length, struct err *e)
{
	struct catalog_hole h = { .start = start, .length = length };
	uint8_t bytes[CATALOG_HOLE_SIZE];

	catalog_hole_encode(&h, bytes);
	return buf_append(&c->holes, bytes, sizeof(bytes), e);
}

static int take(struct tar_content *c, const void *p, size_t n, struct err *e)
{
	int rc = digest_ctx_update(c->digest, p, n, e);

	if (rc == 0 && c->sink != NULL)
		rc = c->sink(c->ctx, p, n, e);
	c->stored += n;
	c->size += n;
	return rc;
}

static int take_zeros(struct tar_content *c, uint64_t n, struct err *e)
{
	static const uint8_t zeros[ZEROS];
	int rc = 0;

	while (n > 0 && rc == 0) {
		size_t m = n < ZEROS ? (size_t)n : ZEROS;

		rc = take(c, zeros, m, e);
		n -= m;
	}
	return rc;
}

static void give_up(struct tar_content *c, unsigned state, const char *why)
{
	c->state |= state;
	c->why = why;
}

/* What lies between the last block and one at this offset. */
static int gap(
    struct tar_content *c, struct archive *a, uint64_t offset, struct err *e)
{
	uint64_t hole = 0;
	uint64_t between = 0;

	if (offset < c->size || offset > INT64_MAX) {
		give_up(c, CATALOG_STATE_UNREADABLE, "its data overlaps");
		return 0;
	}
	hole = offset - c->size;
	if (c->placed)
		between =
		    (uint64_t)archive_filter_bytes(a, 0) - (c->pos + c->stored);
	if (between > 0 && between == hole)
		return take_zeros(c, hole, e);
	if (between > 0) {
		give_up(c, CATALOG_STATE_UNREADABLE,
		    "its data lies in several pieces");
		return 0;
	}
	if (hole == 0)
		return 0;
	if (c->holes.len / CATALOG_HOLE_SIZE >= CATALOG_HOLES_MAX) {
		give_up(c, CATALOG_STATE_UNREADABLE, "it has too many holes");
		return 0;
	}
	c->size = offset;
	return set_hole(c, offset - hole, hole, e);
}

/* Block by block; false: the last one, or none that can be used. */
static int next_block(
    struct tar_content *c, struct archive *a, bool *ret_more, struct err *e)
{
	const void *p = NULL;
	size_t n = 0;
	la_int64_t offset = 0;
	int r = archive_read_data_block(a, &p, &n, &offset);
	int rc = 0;

	*ret_more = r == ARCHIVE_OK || r == ARCHIVE_WARN;
	if (r == ARCHIVE_EOF)
		return 0;
	if (archive_errno(a) == ENOMEM && r != ARCHIVE_OK)
		return err_nomem(e);
	if (r == ARCHIVE_WARN || !*ret_more) {
		unsigned state = c->size == 0 && r == ARCHIVE_FAILED
		    ? CATALOG_STATE_UNREADABLE
		    : CATALOG_STATE_SHORT;

		give_up(c, state, archive_error_string(a));
		c->ended = r == ARCHIVE_FATAL;
	}
	if (!*ret_more || n == 0)
		return 0;
	rc = gap(c, a, (uint64_t)offset, e);
	if (rc == 0 && n > INT64_MAX - c->size)
		give_up(c, CATALOG_STATE_UNREADABLE, "it is too long");
	if (rc < 0 || (c->state & CATALOG_STATE_UNREADABLE) != 0) {
		*ret_more = false;
		return rc;
	}
	return take(c, p, n, e);
}

int tar_content_read(struct tar_content *c, struct archive *a,
    struct archive_entry *ae, struct err *e)
{
	int64_t declared = archive_entry_size(ae);
	bool more = true;
	int rc = 0;

	c->size = c->stored = 0;
	c->state = 0;
	c->ended = false;
	c->why = NULL;
	buf_reset(&c->holes);
	while (rc == 0 && more)
		rc = next_block(c, a, &more, e);
	/* The next header is looked for behind it. */
	if (rc == 0 && !c->ended && archive_read_data_skip(a) == ARCHIVE_FATAL)
		c->ended = true;
	if (rc == 0)
		rc = digest_ctx_final(c->digest, &c->sha256, e);
	/* Only what fills its last block is missing. */
	if (c->state == CATALOG_STATE_SHORT && c->ended && declared >= 0 &&
	    c->size == (uint64_t)declared)
		c->state = 0;
	if (rc < 0 || c->state != 0 || declared <= 0 ||
	    (uint64_t)declared <= c->size ||
	    archive_entry_sparse_count(ae) == 0)
		return rc;
	if (c->holes.len / CATALOG_HOLE_SIZE >= CATALOG_HOLES_MAX) {
		give_up(c, CATALOG_STATE_UNREADABLE, "it has too many holes");
		return 0;
	}
	/* It ends with a hole. */
	rc = set_hole(c, c->size, (uint64_t)declared - c->size, e);
	c->size = (uint64_t)declared;
	return rc;
}

void tar_content_row(const struct tar_content *c, struct catalog_entry *row)
{
	row->size = c->size;
	row->has |= CATALOG_HAS_SIZE;
	if (c->state != 0) {
		row->state = c->state;
		row->has |= CATALOG_HAS_STATE;
	}
	if ((c->state & CATALOG_STATE_UNREADABLE) != 0)
		return;
	row->sha256 = c->sha256;
	row->has |= CATALOG_HAS_SHA256;
	if (c->holes.len > 0) {
		row->holes =
		    (struct catalog_bytes){ c->holes.data, c->holes.len };
		row->has |= CATALOG_HAS_HOLES;
	}
}
