/* SPDX-License-Identifier: MIT */
#include "index/tree_restore_dirs.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "datastore/base/file.h"
#include "datastore/base/sysio.h"
#include "index/tree_restore_spool.h"

struct slot {
	int fd; /* -1: unused */
	uint64_t number;
	unsigned refs;
	uint64_t used; /* tick */
};

struct restore_dirs {
	int target;
	struct restore_spool *spool;
	uint64_t last;
	pthread_mutex_t lock; /* of all below, and of the spool */
	uint64_t tick;
	struct slot *slots; /* number 0 is not used */
	size_t slots_n;
	struct buf chain; /* numbers, the innermost first */
};

int restore_dirs_new(
    int fd, size_t cache, struct restore_dirs **ret, struct err *e)
{
	struct restore_dirs *dirs = calloc(1, sizeof(*dirs));
	int rc = 0;

	if (dirs == NULL)
		return err_nomem(e);
	(void)pthread_mutex_init(&dirs->lock, NULL);
	dirs->target = fd;
	dirs->last = RESTORE_DIR_NONE;
	dirs->slots = calloc(cache + 1, sizeof(*dirs->slots));
	if (dirs->slots == NULL) {
		rc = err_nomem(e);
	} else {
		dirs->slots_n = cache + 1;
		for (size_t i = 0; i < dirs->slots_n; i++)
			dirs->slots[i].fd = -1;
		rc = restore_spool_new(&dirs->spool, e);
	}
	if (rc < 0) {
		restore_dirs_free(dirs);
		return rc;
	}
	*ret = dirs;
	return 0;
}

void restore_dirs_free(struct restore_dirs *dirs)
{
	if (dirs == NULL)
		return;
	for (size_t i = 0; i < dirs->slots_n; i++)
		file_close(&dirs->slots[i].fd);
	free(dirs->slots);
	restore_spool_free(dirs->spool);
	buf_release(&dirs->chain);
	(void)pthread_mutex_destroy(&dirs->lock);
	free(dirs);
}

int restore_dirs_add(
    struct restore_dirs *dirs, struct restore_dir *d, struct err *e)
{
	size_t n = offsetof(struct restore_dir, name) + d->name_n + 1;
	int rc = 0;

	d->previous = dirs->last;
	(void)pthread_mutex_lock(&dirs->lock);
	rc = restore_spool_append(dirs->spool, d, n, &d->number, e);
	(void)pthread_mutex_unlock(&dirs->lock);
	if (rc == 0)
		dirs->last = d->number;
	return rc;
}

uint64_t restore_dirs_last(const struct restore_dirs *dirs)
{
	return dirs->last;
}

/* Lock held. */
static int read_dir(struct restore_dirs *dirs, uint64_t number,
    struct restore_dir *ret, struct err *e)
{
	size_t fixed = offsetof(struct restore_dir, name);
	int rc = restore_spool_read(dirs->spool, number, ret, fixed, e);

	if (rc == 0)
		rc = restore_spool_read(
		    dirs->spool, number + fixed, ret->name, ret->name_n + 1, e);
	/* It was not known when this was written. */
	ret->number = number;
	return rc;
}

int restore_dirs_read(struct restore_dirs *dirs, uint64_t number,
    struct restore_dir *ret, struct err *e)
{
	int rc = 0;

	(void)pthread_mutex_lock(&dirs->lock);
	rc = read_dir(dirs, number, ret, e);
	(void)pthread_mutex_unlock(&dirs->lock);
	return rc;
}

static struct slot *find(struct restore_dirs *dirs, uint64_t number)
{
	for (size_t i = 1; i < dirs->slots_n; i++) {
		if (dirs->slots[i].number == number && dirs->slots[i].fd >= 0)
			return &dirs->slots[i];
	}
	return NULL;
}

/* The least lately used one that nobody holds; NULL: all are held. */
static struct slot *room(struct restore_dirs *dirs)
{
	struct slot *best = NULL;

	for (size_t i = 1; i < dirs->slots_n; i++) {
		struct slot *s = &dirs->slots[i];

		if (s->fd < 0)
			return s;
		if (s->refs == 0 && (best == NULL || s->used < best->used))
			best = s;
	}
	if (best != NULL)
		file_close(&best->fd);
	return best;
}

static void take(
    struct restore_dirs *dirs, struct slot *s, struct restore_dirfd *ret)
{
	s->refs++;
	s->used = ++dirs->tick;
	ret->fd = s->fd;
	ret->slot = (unsigned)(s - dirs->slots);
	ret->open = true;
}

/* Lock held. */
static void put(struct restore_dirs *dirs, struct restore_dirfd *d)
{
	if (d->open && d->slot > 0)
		dirs->slots[d->slot].refs--;
	else if (d->open && d->fd != dirs->target)
		file_close(&d->fd);
	d->open = false;
}

/* One step down.  Who may not list a directory may still enter it. */
static int open_child(int parent, const char *name, int *ret, struct err *e)
{
	const int flags = O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
	int fd = sysio_openat(parent, name, O_RDONLY | flags, 0);

	if (fd < 0 && errno == EACCES)
		fd = sysio_openat(parent, name, O_PATH | flags, 0);
	if (fd < 0)
		return err_sys(e, "open its directory");
	*ret = fd;
	return 0;
}

/* From an open directory, which is put back, to a child of it. */
static int step(struct restore_dirs *dirs, uint64_t number,
    struct restore_dirfd *at, struct err *e)
{
	struct restore_dir d;
	struct slot *s = NULL;
	int fd = -1;
	int rc = read_dir(dirs, number, &d, e);

	if (rc == 0)
		rc = open_child(at->fd, d.name, &fd, e);
	put(dirs, at);
	if (rc < 0)
		return rc;
	s = room(dirs);
	if (s == NULL) {
		*at = (struct restore_dirfd){ .fd = fd, .open = true };
		return 0;
	}
	s->fd = fd;
	s->number = number;
	take(dirs, s, at);
	return 0;
}

/* The directories between it and one that is open, itself first. */
static int climb(struct restore_dirs *dirs, uint64_t number,
    struct restore_dirfd *ret, struct err *e)
{
	buf_reset(&dirs->chain);
	for (;;) {
		struct slot *s = find(dirs, number);
		struct restore_dir d;
		int rc = 0;

		if (s != NULL) {
			take(dirs, s, ret);
			return 0;
		}
		if (number == RESTORE_DIR_TARGET) {
			*ret = (struct restore_dirfd){ .fd = dirs->target,
				.open = true };
			return 0;
		}
		rc = buf_append(&dirs->chain, &number, sizeof(number), e);
		if (rc == 0)
			rc = read_dir(dirs, number, &d, e);
		if (rc < 0)
			return rc;
		assert(d.parent < number);
		number = d.parent;
	}
}

int restore_dirs_open(struct restore_dirs *dirs, uint64_t number,
    struct restore_dirfd *ret, struct err *e)
{
	struct restore_dirfd at = { .open = false };
	int rc = 0;

	(void)pthread_mutex_lock(&dirs->lock);
	rc = climb(dirs, number, &at, e);
	while (rc == 0 && dirs->chain.len > 0) {
		dirs->chain.len -= sizeof(number);
		memcpy(&number, dirs->chain.data + dirs->chain.len,
		    sizeof(number));
		rc = step(dirs, number, &at, e);
	}
	if (rc < 0)
		put(dirs, &at);
	(void)pthread_mutex_unlock(&dirs->lock);
	if (rc == 0)
		*ret = at;
	return rc;
}

void restore_dirs_put(struct restore_dirs *dirs, struct restore_dirfd *d)
{
	if (!d->open)
		return;
	(void)pthread_mutex_lock(&dirs->lock);
	put(dirs, d);
	(void)pthread_mutex_unlock(&dirs->lock);
}

/* Lock held. */
static int append_path(struct restore_dirs *dirs, uint64_t number,
    const char *name, struct buf *out, struct err *e)
{
	struct restore_dir d;
	struct buf chain = BUF_INIT;
	int rc = 0;

	while (rc == 0 && number != RESTORE_DIR_TARGET) {
		rc = buf_append(&chain, &number, sizeof(number), e);
		if (rc == 0)
			rc = read_dir(dirs, number, &d, e);
		if (rc == 0)
			number = d.parent;
	}
	while (rc == 0 && chain.len > 0) {
		chain.len -= sizeof(number);
		memcpy(&number, chain.data + chain.len, sizeof(number));
		rc = read_dir(dirs, number, &d, e);
		if (rc == 0)
			rc = buf_append(out, d.name, d.name_n, e);
		if (rc == 0 && (chain.len > 0 || name[0] != '\0'))
			rc = buf_append(out, "/", 1, e);
	}
	if (rc == 0)
		rc = buf_append_str(out, name, e);
	buf_release(&chain);
	return rc;
}

int restore_dirs_path(struct restore_dirs *dirs, uint64_t number,
    const char *name, struct buf *out, struct err *e)
{
	int rc = 0;

	(void)pthread_mutex_lock(&dirs->lock);
	rc = append_path(dirs, number, name, out, e);
	(void)pthread_mutex_unlock(&dirs->lock);
	return rc;
}
