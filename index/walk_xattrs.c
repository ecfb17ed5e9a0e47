/* SPDX-License-Identifier: MIT */
#include "index/walk_xattrs.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "datastore/base/sysio.h"
#include "index/catalog.h"

/* Both are the kernel's: XATTR_LIST_MAX, XATTR_SIZE_MAX. */
#define LIST_MAX 65536U
#define VALUE_MAX 65536U

/* Almost all lists and values fit; else the kernel is asked how long. */
#define FIRST_ROOM 512U

#define PROC_PATH_SIZE 40

struct source {
	int fd;
	bool only_path;
	char path[PROC_PATH_SIZE]; /* leads to the inode of an O_PATH fd */
};

static ssize_t list(const struct source *s, char *p, size_t n)
{
	return s->only_path ? sysio_listxattr(s->path, p, n)
			    : sysio_flistxattr(s->fd, p, n);
}

static ssize_t get(const struct source *s, const char *name, void *p, size_t n)
{
	return s->only_path ? sysio_getxattr(s->path, name, p, n)
			    : sysio_fgetxattr(s->fd, name, p, n);
}

/* The names into b, each with its zero. */
static int read_list(const struct source *s, struct buf *b, struct err *e)
{
	size_t room = FIRST_ROOM;

	for (;;) {
		ssize_t n = 0;
		int rc = buf_reserve(b, room, e);

		if (rc < 0)
			return rc;
		n = list(s, (char *)b->data, room);
		if (n >= 0) {
			b->len = (size_t)n;
			return 0;
		}
		/* ENOSYS: procfs is not mounted, or worse. */
		if (errno == EOPNOTSUPP)
			return 0;
		if (errno != ERANGE || room >= LIST_MAX)
			return err_sys(e, "list extended attributes");
		room = LIST_MAX;
	}
}

/* *ret_found false: it is not there any more, or not for us. */
static int read_value(const struct source *s, const char *name, struct buf *b,
    bool *ret_found, struct err *e)
{
	size_t room = FIRST_ROOM;

	buf_reset(b);
	for (;;) {
		ssize_t n = 0;
		int rc = buf_reserve(b, room, e);

		if (rc < 0)
			return rc;
		n = get(s, name, b->data, room);
		*ret_found = n >= 0;
		if (n >= 0) {
			b->len = (size_t)n;
			return 0;
		}
		if (errno == ENODATA || errno == EPERM || errno == EACCES ||
		    errno == EOPNOTSUPP)
			return 0;
		if (errno != ERANGE || room >= VALUE_MAX)
			return err_sys(
			    e, "read the extended attribute '%s'", name);
		room = VALUE_MAX;
	}
}

static int compare_names(const void *a, const void *b)
{
	const char *const *x = a;
	const char *const *y = b;

	return strcmp(*x, *y);
}

/* An array of the names in the list, sorted. */
static int sorted(
    struct buf *names, const char ***ret, size_t *ret_n, struct err *e)
{
	const char *text = NULL;
	const char **all = NULL;
	size_t n = 0;
	int rc = buf_append(names, "", 1, e); /* whatever the list ends with */

	if (rc < 0)
		return rc;
	text = (const char *)names->data;
	for (size_t at = 0; at + 1 < names->len; at += strlen(text + at) + 1)
		n++;
	all = reallocarray(NULL, n + 1, sizeof(*all));
	if (all == NULL)
		return err_nomem(e);
	n = 0;
	for (size_t at = 0; at + 1 < names->len; at += strlen(text + at) + 1)
		all[n++] = text + at;
	qsort(all, n, sizeof(*all), compare_names);
	*ret = all;
	*ret_n = n;
	return 0;
}

static int append_all(
    const struct source *s, struct buf *names, struct buf *out, struct err *e)
{
	struct buf value = BUF_INIT;
	const char **all = NULL;
	size_t n = 0;
	int rc = sorted(names, &all, &n, e);

	for (size_t i = 0; rc == 0 && i < n; i++) {
		bool found = false;

		rc = read_value(s, all[i], &value, &found, e);
		if (rc == 0 && found)
			rc = catalog_attr_append(
			    out, all[i], value.data, value.len, e);
	}
	free(all);
	buf_release(&value);
	return rc;
}

int walk_xattrs(int fd, bool only_path, struct buf *out, struct err *e)
{
	struct source s = { .fd = fd, .only_path = only_path };
	struct buf names = BUF_INIT;
	char room[FIRST_ROOM];
	int rc = 0;

	buf_reset(out);
	(void)snprintf(s.path, sizeof(s.path), "/proc/self/fd/%d", fd);
	/* Most have none; they cost one call and no memory. */
	if (list(&s, room, sizeof(room)) == 0)
		return 0;
	rc = read_list(&s, &names, e);
	if (rc == 0 && names.len > 0)
		rc = append_all(&s, &names, out, e);
	buf_release(&names);
	return rc;
}
