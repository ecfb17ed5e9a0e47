/* SPDX-License-Identifier: MIT */
#include "index/walk_mounts.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "datastore/base/buf.h"
#include "datastore/base/file.h"
#include "datastore/base/sysio.h"

#define MOUNTINFO "/proc/self/mountinfo"
#define READ_BYTES ((size_t)64 << 10)
#define MOUNTINFO_MAX ((size_t)64 << 20)
#define FSTYPE_SIZE 64U

struct mount {
	bool by_device;
	uint64_t key;
};

struct walk_mounts {
	struct mount *known; /* number i has the id i + 1 */
	size_t n;
	size_t last; /* most entries are of the mount of the one before */
	char fstype[FSTYPE_SIZE];
};

int walk_mounts_new(struct walk_mounts **ret, struct err *e)
{
	struct walk_mounts *m = calloc(1, sizeof(*m));

	if (m == NULL)
		return err_nomem(e);
	*ret = m;
	return 0;
}

void walk_mounts_free(struct walk_mounts *m)
{
	if (m == NULL)
		return;
	free(m->known);
	free(m);
}

/* A decimal number at the beginning of a line. */
static bool line_is_of(const char *line, uint64_t mnt_id)
{
	uint64_t n = 0;
	size_t i = 0;

	for (; line[i] >= '0' && line[i] <= '9' && i < 19; i++)
		n = 10 * n + (uint64_t)(line[i] - '0');
	return i > 0 && line[i] == ' ' && n == mnt_id;
}

bool walk_mounts_parse(
    const char *text, uint64_t mnt_id, char *out, size_t size)
{
	while (*text != '\0') {
		size_t n = strcspn(text, "\n");
		/* Optional fields end with a lone '-'; spaces in paths are
		 * written as \040. */
		const char *dash = memmem(text, n, " - ", 3);

		if (dash != NULL && line_is_of(text, mnt_id)) {
			size_t len = strcspn(dash + 3, " \n");

			if (len >= size)
				return false;
			memcpy(out, dash + 3, len);
			out[len] = '\0';
			return true;
		}
		text += n;
		text += *text == '\n';
	}
	return false;
}

static int read_mountinfo(int fd, struct buf *b, struct err *e)
{
	size_t got = READ_BYTES;

	while (got == READ_BYTES && b->len < MOUNTINFO_MAX) {
		int rc = buf_reserve(b, READ_BYTES, e);

		if (rc == 0)
			rc = file_read_fully(fd, b->data + b->len, READ_BYTES,
			    &got, MOUNTINFO, e);
		if (rc < 0)
			return rc;
		b->len += got;
	}
	return 0;
}

/* What is not found is not known; only memory is an error. */
static int find_fstype(struct walk_mounts *m, uint64_t mnt_id, struct err *e)
{
	struct err why = ERR_INIT;
	struct buf b = BUF_INIT;
	const char *text = NULL;
	int fd = sysio_openat(AT_FDCWD, MOUNTINFO, O_RDONLY | O_CLOEXEC, 0);
	int rc = 0;

	m->fstype[0] = '\0';
	if (fd < 0)
		return 0;
	rc = read_mountinfo(fd, &b, &why);
	if (rc == 0) {
		text = buf_cstr(&b, &why);
		rc = text == NULL ? why.code : 0;
	}
	if (rc == 0)
		(void)walk_mounts_parse(
		    text, mnt_id, m->fstype, sizeof(m->fstype));
	file_close(&fd);
	buf_release(&b);
	if (rc == ERR_NOMEM)
		*e = why;
	return rc == ERR_NOMEM ? rc : 0;
}

static bool is(const struct mount *a, const struct mount *b)
{
	return a->by_device == b->by_device && a->key == b->key;
}

int walk_mounts_find(struct walk_mounts *m, const struct statx *st,
    int64_t *ret_id, bool *ret_new, const char **ret_fstype, struct err *e)
{
	struct mount one = { .key = st->stx_mnt_id };
	struct mount *more = NULL;
	int rc = 0;

	if ((st->stx_mask & STATX_MNT_ID) == 0) {
		one.by_device = true;
		one.key = (uint64_t)st->stx_dev_major << 32 | st->stx_dev_minor;
	}
	*ret_new = false;
	if (m->n > 0 && is(&m->known[m->last], &one)) {
		*ret_id = (int64_t)m->last + 1;
		return 0;
	}
	for (size_t i = 0; i < m->n; i++) {
		if (is(&m->known[i], &one)) {
			m->last = i;
			*ret_id = (int64_t)i + 1;
			return 0;
		}
	}
	m->fstype[0] = '\0';
	if (!one.by_device)
		rc = find_fstype(m, one.key, e);
	if (rc < 0)
		return rc;
	more = reallocarray(m->known, m->n + 1, sizeof(*more));
	if (more == NULL)
		return err_nomem(e);
	m->known = more;
	m->known[m->n] = one;
	m->last = m->n++;
	*ret_id = (int64_t)m->n;
	*ret_new = true;
	*ret_fstype = m->fstype;
	return 0;
}
