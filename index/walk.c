/* SPDX-License-Identifier: MIT */
#include "index/walk.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "datastore/base/file.h"
#include "datastore/base/sysio.h"

struct walk {
	int rootfd; /* the caller's */
	struct walk_dir *root;
	struct walk_dir **stack;
	size_t n;
	size_t room;
	size_t open_n; /* descriptors of the stack */
	size_t low;    /* below it all but the root are closed */
};

int walk_openat(int dirfd, const char *name, int flags)
{
	int how =
	    O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | flags;
	int fd = sysio_openat(dirfd, name, how | O_NOATIME, 0);

	/* Only owners and root may ask for it. */
	if (fd < 0 && errno == EPERM)
		fd = sysio_openat(dirfd, name, how, 0);
	return fd;
}

static void set_identity(struct walk_dir *d, const struct statx *st)
{
	d->ino = st->stx_ino;
	d->dev_major = st->stx_dev_major;
	d->dev_minor = st->stx_dev_minor;
	d->mnt_id = (st->stx_mask & STATX_MNT_ID) != 0 ? st->stx_mnt_id : 0;
}

static bool is_same(const struct walk_dir *d, const struct statx *st)
{
	return d->ino == st->stx_ino && d->dev_major == st->stx_dev_major &&
	    d->dev_minor == st->stx_dev_minor;
}

static int stat_fd(int fd, struct statx *st)
{
	return sysio_statx(fd, "", AT_EMPTY_PATH, WALK_STATX_MASK, st);
}

int walk_new(int rootfd, const char *shown, struct walk **ret, struct err *e)
{
	struct walk *w = calloc(1, sizeof(*w));
	struct statx st = { .stx_mask = 0 };
	int rc = 0;

	if (w == NULL)
		return err_nomem(e);
	w->rootfd = rootfd;
	w->low = 1;
	w->root = calloc(1, sizeof(*w->root));
	if (w->root == NULL) {
		rc = err_nomem(e);
	} else if (stat_fd(rootfd, &st) < 0) {
		rc = err_sys(e, "'%s'", shown);
	}
	if (rc < 0) {
		free(w->root);
		free(w);
		return rc;
	}
	w->root->name = "";
	w->root->fd = rootfd;
	w->root->refs = 1;
	set_identity(w->root, &st);
	*ret = w;
	return 0;
}

/* One reference less; a directory that has none takes its parent's. */
static void unref(struct walk_dir *d)
{
	while (d != NULL && --d->refs == 0) {
		struct walk_dir *parent = d->parent;

		if (parent != NULL)
			file_close(&d->fd);
		buf_release(&d->names);
		free(d->order);
		free(d);
		d = parent;
	}
}

void walk_free(struct walk *w)
{
	if (w == NULL)
		return;
	while (w->n > 0)
		unref(w->stack[--w->n]);
	unref(w->root);
	free(w->stack);
	free(w);
}

struct walk_dir *walk_root(const struct walk *w)
{
	return w->root;
}

struct walk_dir *walk_top(const struct walk *w)
{
	return w->n > 0 ? w->stack[w->n - 1] : NULL;
}

const char *walk_name(const struct walk_dir *d, size_t i)
{
	return (const char *)d->names.data + d->order[i] + 1;
}

unsigned char walk_type(const struct walk_dir *d, size_t i)
{
	return d->names.data[d->order[i]];
}

void walk_hold(struct walk_dir *d)
{
	assert(d->fd >= 0);
	d->refs++;
	d->held++;
}

/* Children that are in use need its memory, not its descriptor. */
static void close_unused(struct walk_dir *d)
{
	if (d->held == 0 && !d->stacked && d->parent != NULL)
		file_close(&d->fd);
}

void walk_release(struct walk_dir *d)
{
	assert(d->held > 0);
	d->held--;
	close_unused(d);
	unref(d);
}

int walk_open(
    struct walk *w, const char *name, struct walk_dir **ret, struct err *e)
{
	struct walk_dir *parent = walk_top(w);
	struct statx st = { .stx_mask = 0 };
	struct walk_dir *d = NULL;
	int fd = walk_openat(parent->fd, name, O_DIRECTORY);
	int rc = 0;

	if (fd < 0)
		return err_sys(e, "open the directory");
	if (stat_fd(fd, &st) < 0) {
		rc = err_sys(e, "look at the directory");
		goto out;
	}
	d = calloc(1, sizeof(*d));
	if (d == NULL) {
		rc = err_nomem(e);
		goto out;
	}
	set_identity(d, &st);
	d->parent = parent;
	d->name = name;
	d->fd = fd;
	d->depth = parent->depth + 1;
	d->refs = 1;
	d->held = 1;
	parent->refs++;
	*ret = d;
	fd = -1;
out:
	file_close(&fd);
	return rc;
}

/* ---- names ---- */

static int add_name(
    struct walk_dir *d, const struct dirent *entry, struct err *e)
{
	size_t n = strlen(entry->d_name);
	uint8_t type = entry->d_type;
	int rc = 0;

	if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
		return 0;
	if (d->names.len > UINT32_MAX - n - 2)
		return err_set(e, ERR_LIMIT, "4 GiB of names");
	rc = buf_append(&d->names, &type, 1, e);
	if (rc == 0)
		rc = buf_append(&d->names, entry->d_name, n + 1, e);
	if (rc == 0)
		d->n++;
	return rc;
}

static int read_names(struct walk_dir *d, DIR *dir, struct err *e)
{
	int rc = 0;

	while (rc == 0) {
		struct dirent *entry = NULL;

		errno = 0;
		entry = sysio_readdir(dir);
		if (entry == NULL && errno != 0)
			return err_sys(e, "list the directory");
		if (entry == NULL)
			break;
		rc = add_name(d, entry, e);
	}
	return rc;
}

static int compare_names(const void *a, const void *b, void *names)
{
	const char *text = names;
	const uint32_t *x = a;
	const uint32_t *y = b;

	return strcmp(text + *x + 1, text + *y + 1);
}

static int sort_names(struct walk_dir *d, struct err *e)
{
	uint32_t at = 0;

	if (d->n == 0)
		return 0;
	d->order = reallocarray(NULL, d->n, sizeof(*d->order));
	if (d->order == NULL)
		return err_nomem(e);
	for (size_t i = 0; i < d->n; i++) {
		const char *name = (const char *)d->names.data + at + 1;

		d->order[i] = at;
		at += (uint32_t)strlen(name) + 2;
	}
	qsort_r(
	    d->order, d->n, sizeof(*d->order), compare_names, d->names.data);
	return 0;
}

int walk_list(struct walk_dir *d, struct err *e)
{
	DIR *dir = NULL;
	int fd = walk_openat(d->fd, ".", O_DIRECTORY);
	int rc = 0;

	if (fd < 0)
		return err_sys(e, "list the directory");
	dir = sysio_fdopendir(fd);
	if (dir == NULL) {
		rc = err_sys(e, "list the directory");
		file_close(&fd);
		return rc;
	}
	rc = read_names(d, dir, e);
	(void)sysio_closedir(dir);
	if (rc == 0)
		rc = sort_names(d, e);
	if (rc < 0) {
		buf_release(&d->names);
		d->n = 0;
	}
	return rc;
}

int walk_filter(struct walk_dir *d,
    int (*fn)(
	void *ctx, struct walk_dir *d, size_t i, bool *ret_keep, struct err *e),
    void *ctx, struct err *e)
{
	size_t kept = 0;

	for (size_t i = 0; i < d->n; i++) {
		bool keep = true;
		int rc = fn(ctx, d, i, &keep, e);

		if (rc < 0)
			return rc;
		if (keep)
			d->order[kept++] = d->order[i];
	}
	d->n = kept;
	return 0;
}

/* ---- the stack ---- */

/* The highest ones are needed last. */
static void close_some(struct walk *w)
{
	for (size_t i = w->low; i + 1 < w->n && w->open_n > WALK_OPEN_MAX;
	     i++) {
		struct walk_dir *d = w->stack[i];

		if (d->fd >= 0 && d->held == 0) {
			file_close(&d->fd);
			w->open_n--;
		}
		if (i == w->low && d->fd < 0)
			w->low++;
	}
}

int walk_push(struct walk *w, struct walk_dir *d, struct err *e)
{
	if (w->n == w->room) {
		size_t room = w->room == 0 ? 64 : 2 * w->room;
		struct walk_dir **more =
		    reallocarray(w->stack, room, sizeof(*more));

		if (more == NULL)
			return err_nomem(e);
		w->stack = more;
		w->room = room;
	}
	d->refs++;
	d->stacked = true;
	w->stack[w->n++] = d;
	w->open_n++;
	close_some(w);
	return 0;
}

/* The directory above `from`, if it is d; -1: it is not. */
static int open_above(const struct walk_dir *from, const struct walk_dir *d)
{
	struct statx st = { .stx_mask = 0 };
	int fd = walk_openat(from->fd, "..", O_DIRECTORY);

	if (fd < 0)
		return -1;
	if (stat_fd(fd, &st) == 0 && is_same(d, &st))
		return fd;
	file_close(&fd);
	return -1;
}

/* Stack entry `to`, from the root, name by name; -1: it is not there. */
static int open_by_name(const struct walk *w, size_t to)
{
	struct statx st = { .stx_mask = 0 };
	int fd = -1;

	for (size_t i = 1; i <= to; i++) {
		int next = walk_openat(
		    i == 1 ? w->rootfd : fd, w->stack[i]->name, O_DIRECTORY);

		file_close(&fd);
		if (next < 0)
			return -1;
		fd = next;
	}
	if (fd >= 0 && stat_fd(fd, &st) == 0 && is_same(w->stack[to], &st))
		return fd;
	file_close(&fd);
	return -1;
}

int walk_pop(struct walk *w, bool *ret_lost, struct err *e)
{
	struct walk_dir *d = walk_top(w);
	struct walk_dir *below = w->n > 1 ? w->stack[w->n - 2] : NULL;

	*ret_lost = false;
	if (below != NULL && below->fd < 0) {
		if (d->fd >= 0)
			below->fd = open_above(d, below);
		if (below->fd < 0)
			below->fd = open_by_name(w, w->n - 2);
		if (below->fd < 0 && (errno == EMFILE || errno == ENFILE))
			return err_sys(e, "open a directory again");
		*ret_lost = below->fd < 0;
		w->open_n += below->fd >= 0;
		if (w->low > w->n - 2)
			w->low = w->n - 2 > 0 ? w->n - 2 : 1;
	}
	w->n--;
	if (d->fd >= 0)
		w->open_n--;
	d->stacked = false;
	close_unused(d);
	unref(d);
	return 0;
}

int walk_path(
    const struct walk_dir *d, const char *name, struct buf *out, struct err *e)
{
	size_t n = name != NULL ? strlen(name) : 0;
	size_t end = 0;
	int rc = 0;

	for (const struct walk_dir *x = d; x->parent != NULL; x = x->parent)
		n += strlen(x->name) + (n > 0);
	rc = buf_reserve(out, n, e);
	if (rc < 0)
		return rc;
	end = out->len + n;
	out->len = end;
	if (name != NULL) {
		end -= strlen(name);
		memcpy(out->data + end, name, strlen(name));
	}
	for (const struct walk_dir *x = d; x->parent != NULL; x = x->parent) {
		size_t len = strlen(x->name);

		if (end < out->len)
			out->data[--end] = '/';
		end -= len;
		memcpy(out->data + end, x->name, len);
	}
	return 0;
}
