/* SPDX-License-Identifier: MIT */
#include "index/spill.h"

#include <assert.h>
#include <string.h>

#include "datastore/base/file.h"
#include "index/catalog_tmp.h"

#define TAIL_MAX ((size_t)128 << 10)

#define SHOWN "temporary file"

int spill_open(struct spill *s, struct err *e)
{
	static const struct spill init = SPILL_INIT;

	*s = init;
	return catalog_tmp_open(&s->fd, e);
}

void spill_close(struct spill *s)
{
	file_close(&s->fd);
	buf_release(&s->tail);
}

uint64_t spill_size(const struct spill *s)
{
	return s->flushed + s->tail.len;
}

static int flush(struct spill *s, struct err *e)
{
	int rc = file_pwrite_fully(
	    s->fd, s->tail.data, s->tail.len, s->flushed, SHOWN, e);

	if (rc < 0) {
		err_prefix(e, "directory '%s'", catalog_tmp_dir());
		return rc;
	}
	s->flushed += s->tail.len;
	buf_reset(&s->tail);
	return 0;
}

int spill_append(
    struct spill *s, const void *p, size_t n, uint64_t *ret_at, struct err *e)
{
	uint64_t at = spill_size(s);
	int rc = 0;

	if (n > 0)
		rc = buf_append(&s->tail, p, n, e);
	if (rc == 0 && s->tail.len >= TAIL_MAX)
		rc = flush(s, e);
	if (rc == 0 && ret_at != NULL)
		*ret_at = at;
	return rc;
}

/* How many of the n bytes from `at` on lie in the file. */
static size_t in_file(const struct spill *s, size_t n, uint64_t at)
{
	assert(at <= spill_size(s) && n <= spill_size(s) - at);
	if (at >= s->flushed)
		return 0;
	return n <= s->flushed - at ? n : (size_t)(s->flushed - at);
}

int spill_read(struct spill *s, void *p, size_t n, uint64_t at, struct err *e)
{
	size_t first = in_file(s, n, at);
	int rc = 0;

	if (first > 0)
		rc = file_pread_exact(s->fd, p, first, at, SHOWN, e);
	if (rc == 0 && first < n)
		memcpy((uint8_t *)p + first,
		    s->tail.data + (at + first - s->flushed), n - first);
	return rc;
}

int spill_write(
    struct spill *s, const void *p, size_t n, uint64_t at, struct err *e)
{
	size_t first = in_file(s, n, at);
	int rc = 0;

	if (first > 0)
		rc = file_pwrite_fully(s->fd, p, first, at, SHOWN, e);
	if (rc == 0 && first < n)
		memcpy(s->tail.data + (at + first - s->flushed),
		    (const uint8_t *)p + first, n - first);
	return rc;
}
