/* SPDX-License-Identifier: MIT */
/*
 * tree_push_list: the names of a directory, without those that are left out.
 */
#include <dirent.h>
#include <errno.h>
#include <string.h>

#include "datastore/base/file.h"
#include "datastore/base/sysio.h"
#include "index/tree_push_internal.h"

#define TAG "CACHEDIR.TAG"
#define SIGNATURE "Signature: 8a477f597d28d172789f06886806bc55"

unsigned char tree_push_type(const struct walk_dir *d, const char *name)
{
	struct statx st = { .stx_mask = 0 };

	if (sysio_statx(d->fd, name, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT,
		STATX_TYPE, &st) < 0)
		return DT_UNKNOWN;
	return (unsigned char)IFTODT(st.stx_mode);
}

/* Entries are sorted. */
static bool has_name(const struct walk_dir *d, const char *name)
{
	size_t low = 0;
	size_t high = d->n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		int order = strcmp(walk_name(d, middle), name);

		if (order == 0)
			return true;
		if (order < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return false;
}

/* A tag that can not be read is none. */
static bool is_cache(const struct walk_dir *d)
{
	char text[sizeof(SIGNATURE) - 1];
	struct statx st = { .stx_mask = 0 };
	size_t got = 0;
	ssize_t n = 1;
	int fd = -1;

	if (!has_name(d, TAG))
		return false;
	fd = walk_openat(d->fd, TAG, 0);
	if (fd < 0)
		return false;
	if (sysio_statx(fd, "", AT_EMPTY_PATH, STATX_TYPE, &st) < 0 ||
	    !S_ISREG(st.stx_mode))
		n = 0;
	while (n > 0 && got < sizeof(text)) {
		n = sysio_pread(fd, text + got, sizeof(text) - got, (off_t)got);
		if (n < 0 && errno == EINTR)
			n = 1;
		else if (n > 0)
			got += (size_t)n;
	}
	file_close(&fd);
	return got == sizeof(text) && memcmp(text, SIGNATURE, got) == 0;
}

static int keep_tag(
    void *ctx, struct walk_dir *d, size_t i, bool *ret_keep, struct err *e)
{
	struct tree_push *t = ctx;

	(void)e;
	*ret_keep = strcmp(walk_name(d, i), TAG) == 0;
	t->result.excluded += !*ret_keep;
	return 0;
}

/* t->path is the directory's, with a slash behind it. */
static int keep_unmatched(
    void *ctx, struct walk_dir *d, size_t i, bool *ret_keep, struct err *e)
{
	struct tree_push *t = ctx;
	const char *name = walk_name(d, i);
	unsigned char type = walk_type(d, i);
	size_t stem = t->path.len;
	int rc = buf_append(&t->path, name, strlen(name), e);

	if (rc < 0)
		return rc;
	if (type == DT_UNKNOWN)
		type = tree_push_type(d, name);
	*ret_keep = !exclude_match(t->opts->exclude, (const char *)t->path.data,
	    t->path.len, type == DT_DIR);
	t->path.len = stem;
	t->result.excluded += !*ret_keep;
	return 0;
}

int tree_push_list(struct tree_push *t, struct walk_dir *d, struct err *e)
{
	int rc = walk_list(d, e);

	if (rc < 0)
		return rc;
	if (t->opts->exclude_caches && is_cache(d))
		rc = walk_filter(d, keep_tag, t, e);
	if (rc < 0 || t->opts->exclude == NULL)
		return rc;
	buf_reset(&t->path);
	rc = walk_path(d, NULL, &t->path, e);
	if (rc == 0 && t->path.len > 0)
		rc = buf_append(&t->path, "/", 1, e);
	if (rc == 0)
		rc = walk_filter(d, keep_unmatched, t, e);
	return rc;
}
