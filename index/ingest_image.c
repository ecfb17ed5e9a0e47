/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "datastore/base/bytes.h"
#include "datastore/base/clock.h"
#include "datastore/base/file.h"
#include "datastore/base/sysio.h"
#include "datastore/chunker.h"
#include "index/ingest_internal.h"

/* An image as far as it is known where it has data. */
struct image {
	const struct ingest_source *src;
	uint64_t size;
	filetime mtime; /* of a file; of a device 0 */
	/* What comes at the offset last asked for: a hole up to data_at if
	 * that is behind it, then data up to data_end. */
	uint64_t data_at;
	uint64_t data_end;
	uint64_t hole_bytes;
};

static int look_at_image(const struct ingest_source *src, uint64_t *ret_size,
    filetime *ret_mtime, struct err *e)
{
	struct statx st = { .stx_mask = 0 };
	off_t end = 0;
	int rc = file_stat_fd(src->fd, &st, src->shown, e);

	if (rc < 0)
		return rc;
	if (S_ISREG(st.stx_mode)) {
		*ret_size = st.stx_size;
		*ret_mtime = clock_from_statx(&st.stx_mtime);
		return 0;
	}
	if (!S_ISBLK(st.stx_mode)) {
		return err_set(e, ERR_INVALID,
		    "'%s' is of file type %#o, want a regular file or a block "
		    "device",
		    src->shown, st.stx_mode & (unsigned)S_IFMT);
	}
	end = sysio_lseek(src->fd, 0, SEEK_END);
	if (end < 0)
		return err_sys(e, "find the end of '%s'", src->shown);
	*ret_size = (uint64_t)end;
	*ret_mtime = 0;
	return 0;
}

static int shrank(const struct image *m, uint64_t now, struct err *e)
{
	return err_set(e, ERR_INVALID,
	    "'%s' shrank while it was read: %" PRIu64 " bytes, want %" PRIu64,
	    m->src->shown, now, m->size);
}

/*
 * Find what comes at offset `at`.  Where holes can not be asked for, all is
 * data; and so it is where the answer makes no sense.
 */
static void find_data(struct image *m, uint64_t at)
{
	off_t data = 0;
	off_t hole = 0;

	if (at < m->data_end)
		return;
	m->data_at = at;
	m->data_end = m->size;
	data = sysio_lseek(m->src->fd, (off_t)at, SEEK_DATA);
	if (data < 0 && errno == ENXIO) {
		m->data_at = m->size;
		return;
	}
	if (data < (off_t)at)
		return;
	m->data_at = (uint64_t)data;
	hole = sysio_lseek(m->src->fd, data, SEEK_HOLE);
	if (hole > data && (uint64_t)hole < m->size)
		m->data_end = (uint64_t)hole;
	if (m->data_at > m->size)
		m->data_at = m->size;
}

static int read_data(
    struct image *m, uint64_t at, uint8_t *p, size_t n, struct err *e)
{
	size_t got = 0;

	while (got < n) {
		ssize_t r = sysio_pread(
		    m->src->fd, p + got, n - got, (off_t)(at + got));

		if (r < 0 && errno == EINTR)
			continue;
		if (r < 0) {
			return err_sys(e, "read '%s' at offset %" PRIu64,
			    m->src->shown, at + got);
		}
		if (r == 0)
			return shrank(m, at + got, e);
		got += (size_t)r;
	}
	return 0;
}

/* n bytes at this offset: data is read, holes are filled in. */
static int read_chunk(
    struct image *m, uint64_t at, uint8_t *p, size_t n, struct err *e)
{
	uint64_t end = at + n;

	while (at < end) {
		uint64_t stop = 0;
		int rc = 0;

		find_data(m, at);
		if (at < m->data_at) {
			stop = m->data_at < end ? m->data_at : end;
			memset(p, 0, (size_t)(stop - at));
			m->hole_bytes += stop - at;
		} else {
			stop = m->data_end < end ? m->data_end : end;
			rc = read_data(m, at, p, (size_t)(stop - at), e);
		}
		if (rc < 0)
			return rc;
		p += stop - at;
		at = stop;
	}
	return 0;
}

/* The full chunks that lie in a hole that begins at this offset. */
static uint64_t hole_chunks(struct image *m, uint64_t at, size_t chunk_size)
{
	find_data(m, at);
	return at < m->data_at ? (m->data_at - at) / chunk_size : 0;
}

static int push_chunks(
    struct image *m, struct ingest_pipeline *p, struct err *e)
{
	size_t chunk_size = p->chunk_max;
	uint64_t at = 0;

	while (at < m->size) {
		uint64_t zeros = hole_chunks(m, at, chunk_size);
		struct ingest_slot *slot = NULL;
		size_t n = chunk_size;
		int rc = 0;

		if (zeros > 0) {
			m->hole_bytes += zeros * chunk_size;
			at += zeros * chunk_size;
			rc = ingest_pipeline_zeros(p, zeros, e);
			if (rc < 0)
				return rc;
			continue;
		}
		if (n > m->size - at)
			n = (size_t)(m->size - at);
		rc = ingest_pipeline_slot(p, &slot, e);
		if (rc == 0)
			rc = read_chunk(m, at, slot->data, n, e);
		if (rc < 0)
			return rc;
		at += n;
		if (n == chunk_size && bytes_are_zero(slot->data, n)) {
			rc = ingest_pipeline_zeros(p, 1, e);
			if (rc < 0)
				return rc;
			continue;
		}
		slot->n = n;
		slot->first_zeros = false;
		ingest_pipeline_submit(p);
	}
	return 0;
}

/* A hole at the end is not read: only its size says that it went. */
static int check_image(const struct image *m, bool *ret_changed, struct err *e)
{
	uint64_t now = 0;
	filetime mtime = 0;
	int rc = look_at_image(m->src, &now, &mtime, e);

	if (rc < 0)
		return rc;
	if (now < m->size)
		return shrank(m, now, e);
	*ret_changed = now > m->size || mtime != m->mtime;
	return 0;
}

int ingest_image(struct session *s, const char *filename,
    const struct ingest_source *src, const struct ingest_opts *opts,
    struct task *task, struct ingest_result *ret, struct err *e)
{
	static const struct ingest_opts none = { .chunk_size = 0 };
	struct ingest_pipeline_opts how = { .filename = filename };
	struct ingest_result r = { .size = 0 };
	struct image m = { .src = src };
	struct ingest_pipeline p;
	int rc = look_at_image(src, &m.size, &m.mtime, e);

	if (rc < 0)
		return rc;
	if (m.size == 0) {
		return err_set(e, ERR_INVALID,
		    "'%s': an image of 0 bytes, want at least 1", src->shown);
	}
	how.opts = opts != NULL ? opts : &none;
	how.chunk_max = how.opts->chunk_size;
	if (how.chunk_max == 0)
		how.chunk_max = CHUNKER_AVG_DEFAULT;
	how.chunk_size = how.chunk_max;
	how.total = m.size;
	rc = ingest_pipeline_open(&p, s, &how, task, e);
	if (rc < 0)
		return rc;
	rc = push_chunks(&m, &p, e);
	if (rc == 0)
		rc = check_image(&m, &r.changed, e);
	if (rc == 0)
		rc = ingest_pipeline_finish(&p, &r, e);
	ingest_pipeline_close(&p);
	if (rc < 0)
		return rc;
	r.hole_bytes = m.hole_bytes;
	*ret = r;
	return 0;
}
