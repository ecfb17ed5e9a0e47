/* SPDX-License-Identifier: MIT */
/*
 * storefix: a store of files in a scratch directory, and what a test does to
 * its files behind the store's back.
 *
 * Only for programs that link cairn_datastore.  Nothing here but storefix_make
 * and storefix_open goes through sysio.
 */
#ifndef CAIRN_TESTS_SUPPORT_STOREFIX_H
#define CAIRN_TESTS_SUPPORT_STOREFIX_H

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "datastore/base/lockfile.h"
#include "datastore/store.h"
#include "tests/support/fault.h"
#include "tests/support/test.h"
#include "tests/support/tmpdir.h"

struct storefix {
	struct tmpdir dir; /* holds .chunks and .lock */
	int chunks_fd;
	struct lockfile *locks;
	struct store *store;
	struct err e;
};

/* Open the store of a directory that is there: once per process. */
static inline void storefix_open(struct storefix *f)
{
	struct file_owner owner = { .change = false };

	f->chunks_fd =
	    openat(f->dir.fd, ".chunks", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (f->chunks_fd < 0 ||
	    lockfile_open(f->dir.fd, ".lock", &f->locks, ".lock", &f->e) < 0 ||
	    store_fs_open(f->chunks_fd, f->locks, &owner, "/store/.chunks",
		&f->store, &f->e) < 0)
		abort();
}

static inline void storefix_close(struct storefix *f)
{
	store_close(f->store);
	f->store = NULL;
	lockfile_close(f->locks);
	f->locks = NULL;
	if (f->chunks_fd >= 0)
		(void)close(f->chunks_fd);
	f->chunks_fd = -1;
}

static inline void storefix_make(struct storefix *f)
{
	memset(f, 0, sizeof(*f));
	tmpdir_make(&f->dir);
	tmpdir_put_str(f->dir.fd, ".lock", "");
	if (mkdirat(f->dir.fd, ".chunks", 0750) < 0)
		abort();
	storefix_open(f);
}

static inline void storefix_remove(struct storefix *f)
{
	storefix_close(f);
	tmpdir_remove(&f->dir);
}

/* The same as a cmocka fixture; injected faults end with it. */
static inline int storefix_setup(void **state)
{
	struct storefix *f = malloc(sizeof(*f));

	if (f == NULL)
		return -1;
	storefix_make(f);
	*state = f;
	return 0;
}

static inline int storefix_teardown(void **state)
{
	struct storefix *f = *state;

	fault_uninstall();
	storefix_remove(f);
	free(f);
	return 0;
}

#define storefix_test(test) \
	cmocka_unit_test_setup_teardown(test, storefix_setup, storefix_teardown)

/* A digest in this prefix, the n-th. */
static inline struct digest storefix_digest(unsigned prefix, uint8_t n)
{
	struct digest d;

	memset(d.b, n, sizeof(d.b));
	d.b[0] = (uint8_t)(prefix >> 8);
	d.b[1] = (uint8_t)prefix;
	return d;
}

/* "0a1b/0a1b...<suffix>", in static memory: one at a time. */
static inline const char *storefix_path(
    const struct digest *d, const char *suffix)
{
	static char path[STORE_CHUNK_PATH_SIZE + 32];

	store_chunk_path(d, path);
	memcpy(path + STORE_CHUNK_PATH_SIZE - 1, suffix, strlen(suffix) + 1);
	return path;
}

/* Put a file there, and its prefix directory if need be. */
static inline void storefix_put(struct storefix *f, const struct digest *d,
    const char *suffix, const void *p, size_t n)
{
	char prefix[] = "0000";
	char hex[DIGEST_HEX_SIZE];

	digest_hex(d, hex);
	memcpy(prefix, hex, 4);
	(void)mkdirat(f->chunks_fd, prefix, 0750);
	tmpdir_put(f->chunks_fd, storefix_path(d, suffix), p, n);
}

/* True and *ret if there is such a file. */
static inline bool storefix_stat(struct storefix *f, const struct digest *d,
    const char *suffix, struct stat *ret)
{
	return fstatat(f->chunks_fd, storefix_path(d, suffix), ret,
		   AT_SYMLINK_NOFOLLOW) == 0;
}

static inline bool storefix_has(
    struct storefix *f, const struct digest *d, const char *suffix)
{
	struct stat st;

	return storefix_stat(f, d, suffix, &st);
}

/* Access and modification times, in seconds; the change time is now. */
static inline void storefix_age(struct storefix *f, const struct digest *d,
    const char *suffix, time_t atime, time_t mtime)
{
	struct timespec times[2] = { { .tv_sec = atime }, { .tv_sec = mtime } };

	if (utimensat(f->chunks_fd, storefix_path(d, suffix), times,
		AT_SYMLINK_NOFOLLOW) < 0)
		abort();
}

static inline time_t storefix_atime(
    struct storefix *f, const struct digest *d, const char *suffix)
{
	struct stat st;

	if (!storefix_stat(f, d, suffix, &st))
		abort();
	return st.st_atim.tv_sec;
}

static inline void assert_holds(
    struct storefix *f, const struct digest *d, const void *p, size_t n)
{
	struct buf raw = BUF_INIT;

	assert_ok(store_load(f->store, d, &raw, &f->e), &f->e);
	assert_int_equal(raw.len, n);
	assert_memory_equal(raw.data, p, n);
	buf_release(&raw);
}

/* Nothing in prefix 0a1b but this many entries. */
static inline void assert_entries(struct storefix *f, size_t want)
{
	int fd = openat(f->chunks_fd, "0a1b", O_RDONLY | O_DIRECTORY);

	assert_true(fd >= 0);
	assert_int_equal(tmpdir_count(fd, ""), want);
	(void)close(fd);
}

#endif
