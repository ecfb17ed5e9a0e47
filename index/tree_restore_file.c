/* SPDX-License-Identifier: MIT */
/*
 * tree_restore_file: one regular file, from its record to its name.
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <stdlib.h>
#include <string.h>

#include "datastore/base/file.h"
#include "datastore/base/sysio.h"
#include "index/archive_reader.h"
#include "index/tree_restore_internal.h"

#define CACHE ((size_t)32 << 20) /* of chunks, for scattered files */
#define PIECE ((size_t)1 << 20)

/* Attributes larger than this are not shared. */
#define ATTR_SHARED_MAX ((size_t)256 << 10)

static int load_holes(struct restore *r, struct restore_file *f, struct err *e)
{
	const struct catalog_bytes name = { .p = (const uint8_t *)f->rec.name,
		.n = f->rec.name_n };
	struct catalog_entry entry;
	bool found = false;
	int rc = catalog_lookup(r->c, f->rec.parent, name, &entry, &found, e);

	if (rc < 0)
		return rc;
	if (!found)
		return err_set(e, ERR_CORRUPT, "'%s': it is gone from it",
		    catalog_shown(r->c));
	return buf_append(&f->holes, entry.holes.p, entry.holes.n, e);
}

int restore_file_new(
    struct restore *r, uint64_t at, struct restore_file **ret, struct err *e)
{
	struct restore_file *f = calloc(1, sizeof(*f));
	int rc = 0;

	if (f == NULL)
		return err_nomem(e);
	f->at = at;
	f->temp.fd = -1;
	rc = restore_record_read(r, at, &f->rec, e);
	if (rc < 0) {
		restore_file_free(f);
		return rc;
	}
	f->rc = restore_attr_of(r, &f->rec.meta, &f->attr, &f->e);
	if (f->rc == 0 && f->rec.has_holes)
		f->rc = load_holes(r, f, &f->e);
	f->weight = f->holes.cap;
	if (f->attr != NULL && f->attr->data.len > ATTR_SHARED_MAX)
		f->weight += f->attr->data.cap;
	*ret = f;
	return 0;
}

void restore_file_free(struct restore_file *f)
{
	if (f == NULL)
		return;
	assert(f->temp.fd < 0);
	restore_attr_put(f->attr);
	buf_release(&f->holes);
	digest_ctx_free(f->hash);
	free(f);
}

static struct catalog_entry holes_of(const struct restore_file *f)
{
	struct catalog_entry entry = {
		.size = f->rec.size,
		.has = CATALOG_HAS_SIZE,
	};

	if (f->holes.len > 0) {
		entry.has |= CATALOG_HAS_HOLES;
		entry.holes.p = f->holes.data;
		entry.holes.n = f->holes.len;
	}
	return entry;
}

/* Holes at the end need a size, and ranges that were reserved are again. */
static int shape(struct restore_file *f, struct err *e)
{
	const struct catalog_entry entry = holes_of(f);
	size_t n = catalog_holes_count(&entry);

	if (f->rec.size == f->rec.stored && n == 0)
		return 0;
	if (f->rec.size > INT64_MAX) {
		errno = EFBIG;
		return err_sys(e, "set its size");
	}
	if (sysio_ftruncate(f->temp.fd, (off_t)f->rec.size) < 0)
		return err_sys(e, "set its size");
	for (size_t i = 0; i < n; i++) {
		struct catalog_hole h = catalog_hole_decode(&entry, i);

		if (h.allocated &&
		    sysio_fallocate(f->temp.fd, FALLOC_FL_KEEP_SIZE,
			(off_t)h.start, (off_t)h.length) < 0)
			restore_missed_add(
			    &f->missed, RESTORE_MISS_SPACE, errno);
	}
	return 0;
}

static struct restore_node node_of(const struct restore_file *f)
{
	return (struct restore_node){ .fd = f->temp.fd,
		.kind = CATALOG_FILE,
		.inherited = f->rec.inherited };
}

int restore_file_begin(
    struct restore *r, struct restore_file *f, int dirfd, struct err *e)
{
	struct restore_node n;
	int rc = restore_temp_make(&r->place, dirfd, &f->temp, e);

	if (rc < 0)
		return rc;
	n = node_of(f);
	restore_meta_early(&n, &f->rec.meta, &f->missed);
	rc = shape(f, e);
	if (rc < 0)
		restore_temp_drop(dirfd, &f->temp);
	return rc;
}

/* Whoever tells of it names the file. */
static int write_at(
    int fd, const uint8_t *p, size_t n, uint64_t at, struct err *e)
{
	int rc = file_pwrite_fully(fd, p, n, at, "", e);

	if (rc == ERR_SYS) {
		errno = e->sys_errno;
		rc = err_sys(e, "write");
	}
	return rc;
}

int restore_file_write(const struct restore_file *f, struct restore_cursor *c,
    const uint8_t *p, size_t n, struct err *e)
{
	const struct catalog_entry entry = holes_of(f);
	size_t holes = catalog_holes_count(&entry);

	while (n > 0) {
		size_t part = n;
		int rc = 0;

		if (c->hole < holes) {
			struct catalog_hole h =
			    catalog_hole_decode(&entry, c->hole);

			if (h.start == c->at) {
				c->at += h.length;
				c->hole++;
				continue;
			}
			if (h.start - c->at < part)
				part = (size_t)(h.start - c->at);
		}
		if (p != NULL) {
			rc = write_at(f->temp.fd, p, part, c->at, e);
			p += part;
		}
		if (rc < 0)
			return rc;
		c->at += part;
		n -= part;
	}
	return 0;
}

int restore_file_check(
    const struct restore_file *f, const struct digest *found, struct err *e)
{
	char want[DIGEST_HEX_SIZE];
	char got[DIGEST_HEX_SIZE];

	if (!f->rec.has_sha256 || digest_equal(found, &f->rec.sha256))
		return 0;
	digest_hex(&f->rec.sha256, want);
	digest_hex(found, got);
	return err_set(e, ERR_CORRUPT,
	    "the content has SHA-256 %s, the catalog says %s", got, want);
}

int restore_file_end(
    struct restore *r, struct restore_file *f, int dirfd, struct err *e)
{
	struct restore_node n = node_of(f);

	restore_meta_apply(&n, &f->rec.meta, f->attr, &f->missed);
	return restore_place_file(&r->place, &f->temp, dirfd, f->rec.name,
	    restore_taken(r), &f->exists, e);
}

int restore_file_settle(
    struct restore *r, struct restore_file *f, struct err *e)
{
	bool made = f->rc == 0 && !f->exists;
	int rc = 0;

	if (!made && f->rec.link != 0)
		rc = restore_record_fail(r, f->at, f->rc, e);
	if (rc < 0)
		return rc;
	if (f->rc < 0) {
		*e = f->e;
		return restore_failed(r, f->rec.dir, f->rec.name, f->rc, e);
	}
	if (f->exists)
		return restore_tell(r, RESTORE_TOLD_SKIPPED, f->rec.dir,
		    f->rec.name, "exists", e);
	r->result.entries++;
	r->result.bytes += f->rec.stored;
	if (restore_meta_has_late(&f->rec.meta))
		rc = restore_sort_add(
		    r->late, (struct restore_pair){ .key = f->at }, e);
	if (rc == 0)
		rc = restore_tell_missed(
		    r, f->rec.dir, f->rec.name, &f->missed, e);
	return rc;
}

/* Everything between begin and end. */
static int copy_pieces(struct restore *r, struct restore_file *f,
    struct archive_reader *reader, uint64_t pos, struct err *e)
{
	struct restore_cursor c = { .at = 0 };
	uint64_t left = f->rec.stored;
	struct digest found;
	int rc = digest_ctx_new(&f->hash, e);

	while (rc == 0 && left > 0) {
		struct catalog_extent x;
		const uint8_t *p = NULL;
		size_t n = 0;

		rc = task_check(r->task, e);
		if (rc == 0)
			rc = catalog_extent(r->c, pos, left, &x, e);
		if (rc == 0)
			rc = archive_reader_peek(reader,
			    x.length < PIECE ? (size_t)x.length : PIECE,
			    x.start, &p, &n, e);
		if (rc == 0)
			rc = restore_file_write(f, &c, p, n, e);
		if (rc == 0)
			rc = digest_ctx_update(f->hash, p, n, e);
		pos += n;
		left -= n;
	}
	if (rc == 0)
		rc = digest_ctx_final(f->hash, &found, e);
	return rc < 0 ? rc : restore_file_check(f, &found, e);
}

static int make_scattered(
    struct restore *r, struct restore_file *f, uint64_t pos, struct err *e)
{
	struct restore_dirfd dir = { .open = false };
	struct archive_reader *reader = NULL;
	int rc = archive_reader_new(r->content, CACHE, &reader, e);

	if (rc == 0)
		rc = restore_dirs_open(r->dirs, f->rec.dir, &dir, e);
	if (rc == 0)
		rc = restore_file_begin(r, f, dir.fd, e);
	if (rc < 0)
		goto out;
	rc = copy_pieces(r, f, reader, pos, e);
	if (rc == 0)
		rc = restore_file_end(r, f, dir.fd, e);
	else
		restore_temp_drop(dir.fd, &f->temp);
out:
	restore_dirs_put(r->dirs, &dir);
	archive_reader_free(reader);
	return rc;
}

int restore_file_scattered(struct restore *r, uint64_t at, struct err *e)
{
	struct restore_file *f = NULL;
	int rc = restore_file_new(r, at, &f, e);

	if (rc < 0)
		return rc;
	if (f->rc == 0)
		f->rc = make_scattered(r, f, f->rec.start, &f->e);
	rc = restore_file_settle(r, f, e);
	restore_file_free(f);
	return rc;
}
