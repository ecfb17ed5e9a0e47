/* SPDX-License-Identifier: MIT */
/*
 * The file of a time zone (TZif, RFC 9636).
 *
 * It has a header and a block of data with times of 32 bits, which is
 * passed over; the same with times of 64 bits; a line of text with the rule
 * for all times behind the last one.  Big-endian.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "datastore/base/zone_internal.h"

#define MAGIC "TZif"
#define HEADER_SIZE 44U
#define VERSION_AT 4U
#define COUNTS_AT 20U

#define TYPE_SIZE 6U
#define OLD_TIME_SIZE 4U
#define TIME_SIZE 8U

/* What a clock may be ahead of UTC, as the RFC limits it. */
#define OFFSET_MIN_S (-25 * 3600)
#define OFFSET_MAX_S (26 * 3600)

struct counts {
	uint64_t isut;
	uint64_t isstd;
	uint64_t leap;
	uint64_t time;
	uint64_t type;
	uint64_t chars;
};

/* What is still to be read. */
struct cursor {
	const uint8_t *at;
	size_t left;
};

static uint32_t get_be32(const uint8_t *p)
{
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 |
	    (uint32_t)p[2] << 8 | (uint32_t)p[3];
}

static int64_t get_be64(const uint8_t *p)
{
	return (int64_t)((uint64_t)get_be32(p) << 32 | get_be32(p + 4));
}

static int truncated(struct err *e)
{
	return err_set(e, ERR_CORRUPT, "the file ends too early");
}

static int take_header(
    struct cursor *c, struct counts *ret, uint8_t *ret_version, struct err *e)
{
	const uint8_t *p = c->at;

	if (c->left < HEADER_SIZE || memcmp(p, MAGIC, strlen(MAGIC)) != 0) {
		return err_set(e, ERR_CORRUPT,
		    "no compiled time zone, want one that begins with "
		    "'" MAGIC "'");
	}
	*ret_version = p[VERSION_AT];
	p += COUNTS_AT;
	ret->isut = get_be32(p);
	ret->isstd = get_be32(p + 4);
	ret->leap = get_be32(p + 8);
	ret->time = get_be32(p + 12);
	ret->type = get_be32(p + 16);
	ret->chars = get_be32(p + 20);
	c->at += HEADER_SIZE;
	c->left -= HEADER_SIZE;
	return 0;
}

/* Sizes of at most 2^32 items of a few bytes: no sum overflows. */
static uint64_t block_size(const struct counts *n, uint64_t time_size)
{
	return n->time * (time_size + 1) + n->type * TYPE_SIZE + n->chars +
	    n->leap * (time_size + 4) + n->isstd + n->isut;
}

static int check_counts(
    const struct cursor *c, const struct counts *n, struct err *e)
{
	if (n->type == 0 || n->type > UINT8_MAX + 1U) {
		return err_set(e, ERR_CORRUPT,
		    "%" PRIu64 " kinds of local time, want 1 to 256", n->type);
	}
	if (block_size(n, TIME_SIZE) > c->left)
		return truncated(e);
	if (n->leap > 0) {
		return err_set(e, ERR_UNSUPPORTED,
		    "the zone counts leap seconds, and file times do not");
	}
	return 0;
}

static int get_transitions(
    const uint8_t *p, const struct counts *n, struct zone *z, struct err *e)
{
	for (size_t i = 0; i < n->time; i++) {
		z->at[i] = get_be64(p + i * TIME_SIZE);
		z->kind[i] = p[n->time * TIME_SIZE + i];
		if (i > 0 && z->at[i] <= z->at[i - 1]) {
			return err_set(e, ERR_CORRUPT,
			    "change number %zu is not behind the one before",
			    i);
		}
		if (z->kind[i] >= n->type) {
			return err_set(e, ERR_CORRUPT,
			    "change number %zu is to kind %u of %" PRIu64, i,
			    z->kind[i], n->type);
		}
	}
	return 0;
}

static int get_offsets(
    const uint8_t *p, const struct counts *n, struct zone *z, struct err *e)
{
	for (size_t i = 0; i < n->type; i++) {
		int32_t offset = (int32_t)get_be32(p + i * TYPE_SIZE);

		if (offset < OFFSET_MIN_S || offset > OFFSET_MAX_S) {
			return err_set(e, ERR_CORRUPT,
			    "an offset of %d s from UTC, want %d to %d", offset,
			    OFFSET_MIN_S, OFFSET_MAX_S);
		}
		z->offsets[i] = offset;
	}
	return 0;
}

static int get_block(const struct cursor *c, const struct counts *n,
    struct zone *z, struct err *e)
{
	int rc = 0;

	z->n = (size_t)n->time;
	z->offsets_n = (size_t)n->type;
	z->at = calloc(z->n + 1, sizeof(*z->at));
	z->kind = calloc(z->n + 1, sizeof(*z->kind));
	z->offsets = calloc(z->offsets_n, sizeof(*z->offsets));
	if (z->at == NULL || z->kind == NULL || z->offsets == NULL)
		return err_nomem(e);
	rc = get_transitions(c->at, n, z, e);
	if (rc == 0)
		rc = get_offsets(c->at + n->time * (TIME_SIZE + 1), n, z, e);
	return rc;
}

/* Between two newlines; nothing between them: no rule is known. */
static int get_footer(const struct cursor *c, struct zone *z, struct err *e)
{
	const char *s = (const char *)c->at;
	const char *end = NULL;

	if (c->left < 2 || s[0] != '\n')
		return truncated(e);
	s++;
	end = memchr(s, '\n', c->left - 1);
	if (end == NULL)
		return truncated(e);
	if (end == s)
		return 0;
	z->has_rule = true;
	return zone_rule_parse(s, (size_t)(end - s), &z->rule, e);
}

/* Pass over what is there for programs of 32 bits. */
static int skip_old_block(struct cursor *c, struct err *e)
{
	struct counts n;
	uint8_t version = 0;
	uint64_t size = 0;
	int rc = take_header(c, &n, &version, e);

	if (rc < 0)
		return rc;
	if (version < '2') {
		return err_set(e, ERR_UNSUPPORTED,
		    "a compiled time zone of version 1, want 2 or later");
	}
	size = block_size(&n, OLD_TIME_SIZE);
	if (size > c->left)
		return truncated(e);
	c->at += size;
	c->left -= (size_t)size;
	return 0;
}

int zone_decode(const void *raw, size_t n, struct zone **ret, struct err *e)
{
	struct cursor c = { .at = raw, .left = n };
	struct counts counts = { 0 };
	struct zone *z = calloc(1, sizeof(*z));
	uint8_t version = 0;
	uint64_t size = 0;
	int rc = z == NULL ? err_nomem(e) : skip_old_block(&c, e);

	if (rc == 0)
		rc = take_header(&c, &counts, &version, e);
	if (rc == 0)
		rc = check_counts(&c, &counts, e);
	if (rc == 0)
		rc = get_block(&c, &counts, z, e);
	if (rc < 0)
		goto out;
	size = block_size(&counts, TIME_SIZE);
	c.at += size;
	c.left -= (size_t)size;
	rc = get_footer(&c, z, e);
out:
	if (rc < 0) {
		zone_free(z);
		return rc;
	}
	*ret = z;
	return 0;
}
