/* SPDX-License-Identifier: MIT */
#include "index/walk_holes.h"

#include <errno.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "datastore/base/bytes.h"
#include "datastore/base/sysio.h"
#include "index/catalog.h"

#define EXTENTS 64U
#define SECTOR 512U
#define XFS_MAGIC 0x58465342UL

/* The top bit of a length; what FIEMAP may say is cut to what fits. */
#define OFFSET_MAX ((uint64_t)INT64_MAX)

/* One range, allocated or not, behind the others; joined where it can be. */
static int add_range(
    struct buf *out, const struct catalog_hole *h, struct err *e)
{
	uint8_t record[CATALOG_HOLE_SIZE];

	if (h->length == 0)
		return 0;
	catalog_hole_encode(h, record);
	return buf_append(out, record, sizeof(record), e);
}

static struct catalog_hole get_range(const struct buf *holes, size_t i)
{
	const struct catalog_entry entry = { .has = CATALOG_HAS_HOLES,
		.holes = { .p = holes->data, .n = holes->len } };

	return catalog_hole_decode(&entry, i);
}

static size_t count(const struct buf *holes)
{
	return holes->len / CATALOG_HOLE_SIZE;
}

/* What SEEK_HOLE says of the size. */
static int seek_holes(int fd, uint64_t size, struct buf *out, struct err *e)
{
	uint64_t at = 0;

	while (at < size && count(out) < WALK_HOLES_MAX) {
		struct catalog_hole h = { .start = 0 };
		off_t hole = sysio_lseek(fd, (off_t)at, SEEK_HOLE);
		off_t data = 0;
		int rc = 0;

		/* Unknown, or it makes no sense: the rest is data. */
		if (hole < (off_t)at || (uint64_t)hole >= size)
			break;
		data = sysio_lseek(fd, hole, SEEK_DATA);
		if (data < 0 && errno != ENXIO)
			break;
		if (data < 0 || (uint64_t)data > size)
			data = (off_t)size;
		if (data <= hole)
			break;
		h.start = (uint64_t)hole;
		h.length = (uint64_t)(data - hole);
		rc = add_range(out, &h, e);
		if (rc < 0)
			return rc;
		at = (uint64_t)data;
	}
	return 0;
}

/* ---- preallocation ---- */

/* The unwritten extents of a file, one after the other. */
struct extents {
	int fd;
	bool end;
	unsigned n;
	unsigned next;
	uint64_t at;        /* where to ask next */
	struct fiemap *map; /* with room for EXTENTS */
};

static void ask(struct extents *x)
{
	struct fiemap *map = x->map;

	memset(map, 0, sizeof(*map));
	map->fm_start = x->at;
	map->fm_length = OFFSET_MAX - x->at;
	/* What waits in memory to be written may stand as unwritten, or not
	 * at all. */
	map->fm_flags = FIEMAP_FLAG_SYNC;
	map->fm_extent_count = EXTENTS;
	x->n = 0;
	x->next = 0;
	if (x->at >= OFFSET_MAX || sysio_ioctl(x->fd, FS_IOC_FIEMAP, map) < 0 ||
	    map->fm_mapped_extents == 0 || map->fm_mapped_extents > EXTENTS) {
		x->end = true;
		return;
	}
	x->n = map->fm_mapped_extents;
}

/* False: there is no more. */
static bool next_unwritten(struct extents *x, uint64_t *from, uint64_t *to)
{
	const struct fiemap *map = x->map;

	while (!x->end) {
		const struct fiemap_extent *one = &map->fm_extents[x->next];

		if (x->next == x->n) {
			ask(x);
			continue;
		}
		x->next++;
		if (one->fe_logical < x->at || one->fe_length == 0 ||
		    one->fe_length > OFFSET_MAX - one->fe_logical) {
			x->end = true;
			break;
		}
		x->at = one->fe_logical + one->fe_length;
		if ((one->fe_flags & FIEMAP_EXTENT_LAST) != 0) {
			x->end = true;
			x->n = x->next;
		}
		if ((one->fe_flags & FIEMAP_EXTENT_UNWRITTEN) == 0)
			continue;
		*from = one->fe_logical;
		*to = x->at;
		return true;
	}
	return false;
}

/* The unwritten range that ends behind a place, looked at again and again. */
struct unwritten {
	struct extents x;
	bool some;
	uint64_t from;
	uint64_t to;
};

static void skip_to(struct unwritten *u, uint64_t at)
{
	while (u->some && u->to <= at)
		u->some = next_unwritten(&u->x, &u->from, &u->to);
}

/* [from, to), cut into what is allocated and what is not. */
static int split(struct buf *out, struct unwritten *u, uint64_t from,
    uint64_t to, struct err *e)
{
	int rc = 0;

	while (rc == 0 && from < to) {
		struct catalog_hole h = { .start = from, .length = to - from };

		skip_to(u, from);
		if (count(out) >= 2 * WALK_HOLES_MAX)
			u->some = false;
		if (u->some && u->from <= from) {
			h.allocated = true;
			h.length = (u->to < to ? u->to : to) - from;
		} else if (u->some && u->from < to) {
			h.length = u->from - from;
		}
		rc = add_range(out, &h, e);
		from += h.length;
	}
	return rc;
}

/*
 * XFS allocates behind the end what it thinks will be written there; what
 * somebody asked for it marks.
 */
static bool is_speculative(int fd)
{
	struct statfs fs = { .f_type = 0 };
	struct fsxattr x = { .fsx_xflags = 0 };

	return sysio_fstatfs(fd, &fs) == 0 &&
	    (unsigned long)fs.f_type == XFS_MAGIC &&
	    sysio_ioctl(fd, FS_IOC_FSGETXATTR, &x) == 0 &&
	    (x.fsx_xflags & FS_XFLAG_PREALLOC) == 0;
}

/* Behind the end only what is allocated is worth a word. */
static int behind_end(
    struct buf *out, struct unwritten *u, uint64_t size, struct err *e)
{
	int rc = 0;

	skip_to(u, size);
	if (u->some && is_speculative(u->x.fd))
		return 0;
	while (rc == 0 && u->some && count(out) < WALK_HOLES_MAX) {
		uint64_t from = u->from > size ? u->from : size;
		struct catalog_hole h = {
			.start = from, .length = u->to - from, .allocated = true
		};

		rc = add_range(out, &h, e);
		skip_to(u, u->to);
	}
	return rc;
}

static int split_all(
    struct unwritten *u, uint64_t size, struct buf *out, struct err *e)
{
	struct buf all = BUF_INIT;
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < count(out); i++) {
		struct catalog_hole h = get_range(out, i);

		rc = split(&all, u, h.start, h.start + h.length, e);
	}
	if (rc == 0)
		rc = behind_end(&all, u, size, e);
	if (rc == 0) {
		buf_reset(out);
		rc = buf_append(out, all.data, all.len, e);
	}
	buf_release(&all);
	return rc;
}

static int add_allocated(int fd, uint64_t size, struct buf *out, struct err *e)
{
	struct unwritten u = { .x = { .fd = fd } };
	int rc = 0;

	u.x.map = calloc(
	    1, sizeof(*u.x.map) + EXTENTS * sizeof(struct fiemap_extent));
	if (u.x.map == NULL)
		return err_nomem(e);
	u.some = next_unwritten(&u.x, &u.from, &u.to);
	if (u.some)
		rc = split_all(&u, size, out, e);
	free(u.x.map);
	return rc;
}

int walk_holes(int fd, const struct statx *st, struct buf *out, struct err *e)
{
	uint64_t allocated = st->stx_blocks * SECTOR;
	uint64_t stored = 0;
	int rc = 0;

	buf_reset(out);
	if (st->stx_size > OFFSET_MAX)
		return 0;
	rc = seek_holes(fd, st->stx_size, out, e);
	if (rc < 0)
		return rc;
	/* Asked only where more is allocated than there is data. */
	stored = walk_holes_stored(out, st->stx_size);
	if (allocated <= stored ||
	    (out->len == 0 && allocated - stored < st->stx_blksize))
		return 0;
	return add_allocated(fd, st->stx_size, out, e);
}

bool walk_holes_data(const struct buf *holes, uint64_t size, uint64_t *at,
    uint64_t *ret_start, uint64_t *ret_end)
{
	uint64_t from = *at;
	size_t low = 0;
	size_t high = count(holes);

	/* The first hole that ends behind `from`. */
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		struct catalog_hole h = get_range(holes, middle);

		if (h.start + h.length <= from)
			low = middle + 1;
		else
			high = middle;
	}
	for (; low < count(holes); low++) {
		struct catalog_hole h = get_range(holes, low);

		if (h.start > from)
			break;
		from = h.start + h.length;
	}
	if (from >= size)
		return false;
	*ret_start = from;
	*ret_end = size;
	if (low < count(holes) && get_range(holes, low).start < size)
		*ret_end = get_range(holes, low).start;
	*at = *ret_end;
	return true;
}

uint64_t walk_holes_stored(const struct buf *holes, uint64_t size)
{
	uint64_t stored = size;

	for (size_t i = 0; i < count(holes); i++) {
		struct catalog_hole h = get_range(holes, i);
		uint64_t end = h.start + h.length;

		if (h.start < size)
			stored -= (end < size ? end : size) - h.start;
	}
	return stored;
}

void walk_holes_truncate(struct buf *holes, uint64_t size)
{
	size_t kept = 0;

	for (; kept < count(holes); kept++) {
		struct catalog_hole h = get_range(holes, kept);
		uint8_t *p = holes->data + kept * CATALOG_HOLE_SIZE;

		if (h.start >= size)
			break;
		if (h.length > size - h.start)
			h.length = size - h.start;
		catalog_hole_encode(&h, p);
	}
	holes->len = kept * CATALOG_HOLE_SIZE;
}
