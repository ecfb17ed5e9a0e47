/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <string.h>

#include "datastore/store_fs_internal.h"

/* From this many chunks on it pays to open their directory. */
#define OPEN_FROM 2

#define BAD_SUFFIX ".0.bad"
#define BAD_DIGIT_AT 1

/*
 * A mark that fails ends a GC run, so its message has to be enough to act on:
 * whose the file is, and what makes it the store's.
 */
static int explain_touch(
    const struct store_fs *s, const char *rel, struct err *e)
{
	char shown[STORE_SHOWN_SIZE];
	struct err ignored = ERR_INIT;
	struct statx st;
	bool found = false;
	int error = e->sys_errno;

	store_fs_shown(s, rel, shown);
	if (e->code != ERR_SYS) {
		err_prefix(e, "touch '%s'", shown);
		return e->code;
	}
	if (!store_fs_is_denied(e) ||
	    file_stat_at(s->chunks_fd, rel, &st, &found, shown, &ignored) < 0 ||
	    !found) {
		errno = error;
		return err_sys(e, "touch '%s'", shown);
	}
	errno = error;
	return err_sys(e,
	    "touch '%s', which belongs to %u:%u, not to %u:%u (as root: chown "
	    "-R %u:%u '%s')",
	    shown, st.stx_uid, st.stx_gid, s->chunks_st.stx_uid,
	    s->chunks_st.stx_gid, s->chunks_st.stx_uid, s->chunks_st.stx_gid,
	    s->shown);
}

/*
 * Mark one chunk.  dirfd is .chunks or the chunk's prefix directory.  No lock:
 * whoever removes chunks is the one who marks.
 */
static int touch_at(struct store_fs *s, int dirfd, const struct digest *d,
    enum store_touched *ret, struct err *e)
{
	char rel[STORE_CHUNK_PATH_SIZE + sizeof(BAD_SUFFIX)];
	const char *name =
	    dirfd == s->chunks_fd ? rel : rel + STORE_PREFIX_SIZE;
	char *suffix = rel + STORE_CHUNK_PATH_SIZE - 1;
	enum store_touched what = STORE_TOUCHED;
	bool found = false;
	int rc = 0;

	store_chunk_path(d, rel);
	rc = file_touch_at(dirfd, name, &found, rel, e);
	if (rc < 0)
		return explain_touch(s, rel, e);
	if (!found) {
		what = STORE_MISSING;
		memcpy(suffix, BAD_SUFFIX, sizeof(BAD_SUFFIX));
		for (unsigned i = 0; i < STORE_BAD_COPIES; i++) {
			suffix[BAD_DIGIT_AT] = (char)('0' + i);
			rc = file_touch_at(dirfd, name, &found, rel, e);
			if (rc < 0)
				return explain_touch(s, rel, e);
			if (found)
				what = STORE_ONLY_BAD;
		}
	}
	*ret = what;
	return 0;
}

int store_fs_touch(struct store *base, const struct digest *d,
    enum store_touched *ret, struct err *e)
{
	struct store_fs *s = store_fs_of(base);
	bool found = false;
	int rc = store_fs_check_prefix(s, digest_prefix(d), &found, e);

	if (rc < 0)
		return rc;
	if (!found) {
		*ret = STORE_MISSING;
		return 0;
	}
	return touch_at(s, s->chunks_fd, d, ret, e);
}

/* All digests of a batch that lie in one prefix. */
static int touch_prefix(struct store_fs *s, const struct digest *d, size_t n,
    store_touch_fn fn, void *ctx, struct err *e)
{
	enum store_touched what = STORE_MISSING;
	bool found = false;
	int dirfd = s->chunks_fd;
	int fd = -1;
	int rc = 0;

	if (n >= OPEN_FROM) {
		rc = store_fs_open_prefix(s, digest_prefix(d), false, &fd, e);
		found = fd >= 0;
		dirfd = fd;
	} else {
		rc = store_fs_check_prefix(s, digest_prefix(d), &found, e);
	}
	for (size_t i = 0; rc == 0 && i < n; i++) {
		if (found)
			rc = touch_at(s, dirfd, &d[i], &what, e);
		if (rc == 0)
			rc = fn(ctx, &d[i], what, e);
	}
	file_close(&fd);
	return rc;
}

int store_fs_touch_batch(struct store *base, const struct digest *d, size_t n,
    store_touch_fn fn, void *ctx, struct task *task, struct err *e)
{
	struct store_fs *s = store_fs_of(base);
	size_t first = 0;
	int rc = 0;

	while (first < n) {
		size_t end = first + 1;

		while (end < n &&
		    digest_prefix(&d[end]) == digest_prefix(&d[first]))
			end++;
		rc = task_check(task, e);
		if (rc == 0) {
			rc =
			    touch_prefix(s, d + first, end - first, fn, ctx, e);
		}
		if (rc < 0)
			return rc;
		first = end;
	}
	return 0;
}
