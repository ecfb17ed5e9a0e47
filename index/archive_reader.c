/* SPDX-License-Identifier: MIT */
#include "index/archive_reader.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "datastore/blob.h"
#include "datastore/damage.h"
#include "index/archive_internal.h"

/* However small the chunks are. */
#define SLOTS_MAX 64U

/* Of the index, read at a time when one goes on in order. */
#define AHEAD 64U

/* A chunk that is kept: bytes [start, end) of the archive; unused: empty. */
struct slot {
	uint64_t start;
	uint64_t end;
	uint64_t used; /* tick */
	struct buf content;
};

struct archive_reader {
	struct archive *a;
	struct archive_loader loader;
	size_t cache;
	size_t held; /* bytes of all slots */
	uint64_t tick;
	uint64_t loads;
	struct slot slots[SLOTS_MAX];
	struct slot *last; /* where most reads go again */

	/* A piece of the index: entries [first, first + n), from `start`. */
	uint64_t first;
	size_t n;
	uint64_t start;
	struct idx_entry entries[AHEAD];

	bool recorded; /* the chunk below is on the damage list */
	struct digest recorded_digest;
};

int archive_reader_new(
    struct archive *a, size_t cache, struct archive_reader **ret, struct err *e)
{
	struct archive_reader *r = calloc(1, sizeof(*r));
	int rc = 0;

	if (r == NULL)
		return err_nomem(e);
	r->a = a;
	r->cache = cache;
	r->last = &r->slots[0];
	rc = codec_new(&r->loader.codec, e);
	if (rc < 0) {
		archive_reader_free(r);
		return rc;
	}
	*ret = r;
	return 0;
}

void archive_reader_free(struct archive_reader *r)
{
	if (r == NULL)
		return;
	codec_free(r->loader.codec);
	buf_release(&r->loader.raw);
	for (size_t i = 0; i < SLOTS_MAX; i++)
		buf_release(&r->slots[i].content);
	free(r);
}

uint64_t archive_reader_loads(const struct archive_reader *r)
{
	return r->loads;
}

/* Entries from number `first` on; their `end`s go up. */
static int read_index(struct archive_reader *r, uint64_t first, struct err *e)
{
	uint64_t count = idx_info(r->a->idx)->count;
	size_t n = count - first < AHEAD ? (size_t)(count - first) : AHEAD;
	struct idx_entry before = { .end = 0 };
	int rc = 0;

	r->n = 0;
	if (first > 0)
		rc = idx_read(r->a->idx, first - 1, &before, 1, e);
	if (rc == 0)
		rc = idx_read(r->a->idx, first, r->entries, n, e);
	if (rc < 0)
		return rc;
	r->first = first;
	r->start = before.end;
	r->n = n;
	return 0;
}

/* The number of the last block of AHEAD entries that begins at or before. */
static int find_block(
    struct archive_reader *r, uint64_t at, uint64_t *ret, struct err *e)
{
	const struct idx_info *info = idx_info(r->a->idx);
	uint64_t low = 0; /* begins at or before `at` */
	uint64_t high = (info->count + AHEAD - 1) / AHEAD;

	if (info->kind == IDX_FIXED) {
		*ret = at / info->chunk_size / AHEAD;
		return 0;
	}
	while (high - low > 1) {
		uint64_t middle = low + (high - low) / 2;
		struct idx_entry before;
		int rc = idx_read(r->a->idx, middle * AHEAD - 1, &before, 1, e);

		if (rc < 0)
			return rc;
		if (before.end <= at)
			low = middle;
		else
			high = middle;
	}
	*ret = low;
	return 0;
}

/* Which chunk has this offset: its entry, and where it begins. */
static int find_entry(struct archive_reader *r, uint64_t at,
    struct idx_entry *ret, uint64_t *ret_start, struct err *e)
{
	uint64_t block = 0;
	size_t i = 0;
	int rc = 0;

	if (r->n == 0 || at < r->start || at >= r->entries[r->n - 1].end) {
		/* On from there, most likely. */
		uint64_t next = r->first + r->n;
		bool goes_on = r->n > 0 && at == r->entries[r->n - 1].end;

		if (!goes_on)
			rc = find_block(r, at, &block, e);
		if (rc == 0)
			rc = read_index(r, goes_on ? next : block * AHEAD, e);
		if (rc < 0)
			return rc;
	}
	while (i < r->n && r->entries[i].end <= at)
		i++;
	*ret_start = i == 0 ? r->start : r->entries[i - 1].end;
	if (i == r->n || at < *ret_start) {
		return err_set(e, ERR_CORRUPT,
		    "'%s': no chunk has offset %" PRIu64, r->a->shown, at);
	}
	*ret = r->entries[i];
	return 0;
}

/* For the next push, which must store it again; what was to be read is lost
 * either way, so a list that can not be written is passed over. */
static void record(
    struct archive_reader *r, const struct digest *d, enum damage_state state)
{
	struct err ignored = ERR_INIT;

	if (r->a->ds->cairn_fd < 0 ||
	    (r->recorded && digest_equal(&r->recorded_digest, d)))
		return;
	(void)damage_append(r->a->ds, d, state, &ignored);
	r->recorded = true;
	r->recorded_digest = *d;
}

static int damaged(struct archive_reader *r, const struct digest *d,
    uint64_t start, int rc, struct err *e)
{
	char hex[DIGEST_HEX_SIZE];

	digest_hex(d, hex);
	err_prefix(
	    e, "'%s': chunk %s at offset %" PRIu64, r->a->shown, hex, start);
	if (rc == ERR_NOTFOUND)
		record(r, d, DAMAGE_MISSING);
	else if (rc == ERR_CORRUPT && r->loader.bad)
		record(r, d, DAMAGE_BAD);
	if (rc == ERR_NOTFOUND)
		e->code = rc = ERR_CORRUPT;
	return rc;
}

static void drop(struct archive_reader *r, struct slot *s)
{
	r->held -= s->content.cap;
	buf_release(&s->content);
	s->start = s->end = 0;
}

/* A slot for n more bytes: the least lately used ones go. */
static struct slot *make_room(struct archive_reader *r, size_t n)
{
	for (;;) {
		struct slot *unused = NULL;
		struct slot *oldest = NULL;

		for (size_t i = 0; i < SLOTS_MAX; i++) {
			struct slot *s = &r->slots[i];

			if (s->end == s->start)
				unused = s;
			else if (oldest == NULL || s->used < oldest->used)
				oldest = s;
		}
		if (unused != NULL &&
		    (oldest == NULL ||
			(r->held < r->cache && n <= r->cache - r->held)))
			return unused;
		drop(r, oldest);
	}
}

static int load(
    struct archive_reader *r, uint64_t at, struct slot **ret, struct err *e)
{
	struct idx_entry entry;
	struct slot *s = NULL;
	uint64_t start = 0;
	int rc = find_entry(r, at, &entry, &start, e);

	if (rc < 0)
		return rc;
	s = make_room(r, (size_t)(entry.end - start));
	r->loads++;
	rc = archive_load_chunk(r->a->ds, &r->loader, &entry.digest,
	    entry.end - start, &s->content, e);
	r->held += s->content.cap;
	if (rc < 0) {
		drop(r, s);
		return damaged(r, &entry.digest, start, rc, e);
	}
	s->start = start;
	s->end = entry.end;
	*ret = s;
	return 0;
}

static bool has(const struct slot *s, uint64_t at)
{
	return at >= s->start && at < s->end;
}

static struct slot *find_slot(struct archive_reader *r, uint64_t at)
{
	if (has(r->last, at))
		return r->last;
	for (size_t i = 0; i < SLOTS_MAX; i++) {
		if (has(&r->slots[i], at))
			return &r->slots[i];
	}
	return NULL;
}

static int check_range(
    const struct archive_reader *r, size_t n, uint64_t at, struct err *e)
{
	if (at <= r->a->size && n <= r->a->size - at)
		return 0;
	return err_set(e, ERR_INVALID,
	    "'%s': %zu bytes from offset %" PRIu64 " wanted, it has %" PRIu64,
	    r->a->shown, n, at, r->a->size);
}

static int peek(struct archive_reader *r, size_t n, uint64_t at,
    const uint8_t **ret_p, size_t *ret_n, struct err *e)
{
	struct slot *s = NULL;
	uint64_t left = 0;
	int rc = 0;

	if (r->a->idx == NULL) { /* a blob is in memory */
		*ret_p = r->a->content.data + at;
		*ret_n = n;
		return 0;
	}
	s = find_slot(r, at);
	if (s == NULL)
		rc = load(r, at, &s, e);
	if (rc < 0)
		return rc;
	s->used = ++r->tick;
	r->last = s;
	left = s->end - at;
	*ret_p = s->content.data + (size_t)(at - s->start);
	*ret_n = left < n ? (size_t)left : n;
	return 0;
}

int archive_reader_peek(struct archive_reader *r, size_t n, uint64_t at,
    const uint8_t **ret_p, size_t *ret_n, struct err *e)
{
	int rc = check_range(r, n, at, e);

	if (rc == 0 && n == 0) {
		rc = err_set(e, ERR_INVALID, "'%s': no bytes wanted, want one",
		    r->a->shown);
	}
	return rc < 0 ? rc : peek(r, n, at, ret_p, ret_n, e);
}

int archive_reader_pread(
    struct archive_reader *r, void *p, size_t n, uint64_t at, struct err *e)
{
	uint8_t *out = p;
	int rc = check_range(r, n, at, e);

	while (rc == 0 && n > 0) {
		const uint8_t *from = NULL;
		size_t got = 0;

		rc = peek(r, n, at, &from, &got, e);
		if (rc < 0)
			return rc;
		memcpy(out, from, got);
		out += got;
		at += got;
		n -= got;
	}
	return rc;
}
