/* SPDX-License-Identifier: MIT */
/*
 * dsfix: a datastore in a scratch directory, made by datastore_init, and what
 * a test does to its files behind its back.
 *
 * Only for programs that link cairn_datastore.  The teardown fails the test
 * if it left a descriptor open.
 */
#ifndef CAIRN_TESTS_SUPPORT_DSFIX_H
#define CAIRN_TESTS_SUPPORT_DSFIX_H

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "datastore/datastore.h"
#include "tests/support/fault.h"
#include "tests/support/test.h"
#include "tests/support/tmpdir.h"

#define DSFIX_PATH_SIZE (PATH_MAX + 64)
#define DSFIX_NAME_SIZE 512 /* of paths below the scratch directory */

struct dsfix {
	struct tmpdir dir;
	char path[DSFIX_PATH_SIZE]; /* of the store: dir's "store" */
	struct datastore *ds;       /* NULL, or open */
	struct datastore *second;   /* NULL, or the test's to use */
	struct task task;
	struct err e;
	size_t fds; /* open before the test */
};

/* *state is a struct dsfix; nothing is open yet. */
static inline int dsfix_setup(void **state)
{
	struct dsfix *f = calloc(1, sizeof(*f));

	if (f == NULL)
		return -1;
	*state = f;
	f->fds = tmpdir_open_fds();
	tmpdir_make(&f->dir);
	(void)snprintf(f->path, sizeof(f->path), "%s/store", f->dir.path);
	f->task = (struct task)TASK_SILENT;
	return datastore_init(f->path, NULL, &f->task, &f->e) < 0 ? -1 : 0;
}

static inline int dsfix_teardown(void **state)
{
	struct dsfix *f = *state;
	size_t before = f->fds;
	size_t after = 0;

	fault_uninstall();
	datastore_close(f->ds);
	datastore_close(f->second);
	tmpdir_remove(&f->dir);
	free(f);
	after = tmpdir_open_fds();
	if (after != before)
		print_error(
		    "%zu descriptors open, %zu before\n", after, before);
	return after == before ? 0 : -1;
}

#define DSFIX_TEST(f) \
	cmocka_unit_test_setup_teardown(f, dsfix_setup, dsfix_teardown)

/* Open f->ds anew. */
static inline int dsfix_open(struct dsfix *f, enum datastore_access access)
{
	datastore_close(f->ds);
	f->ds = NULL;
	f->e = (struct err)ERR_INIT;
	return datastore_open(f->path, access, NULL, &f->ds, &f->e);
}

/* "store/<name>", in the caller's memory: relative to f->dir.fd. */
static inline const char *dsfix_name(
    const char *name, char out[DSFIX_NAME_SIZE])
{
	(void)snprintf(out, DSFIX_NAME_SIZE, "store/%s", name);
	return out;
}

/* Below the store, not through sysio: they must work. */
static inline void dsfix_put(struct dsfix *f, const char *name, const char *s)
{
	char path[DSFIX_NAME_SIZE];

	tmpdir_put_str(f->dir.fd, dsfix_name(name, path), s);
}

static inline void dsfix_unlink(struct dsfix *f, const char *name)
{
	char path[DSFIX_NAME_SIZE];

	assert_int_equal(unlinkat(f->dir.fd, dsfix_name(name, path), 0), 0);
}

static inline void dsfix_rmdir(struct dsfix *f, const char *name)
{
	char path[DSFIX_NAME_SIZE];

	assert_int_equal(
	    unlinkat(f->dir.fd, dsfix_name(name, path), AT_REMOVEDIR), 0);
}

static inline void dsfix_symlink(
    struct dsfix *f, const char *to, const char *name)
{
	char path[DSFIX_NAME_SIZE];

	assert_int_equal(symlinkat(to, f->dir.fd, dsfix_name(name, path)), 0);
}

/* With every directory above it that is missing; it may be there. */
static inline void dsfix_mkdir(struct dsfix *f, const char *name)
{
	char path[DSFIX_NAME_SIZE];
	char *p = path;

	(void)dsfix_name(name, path);
	for (p = strchr(p, '/'); p != NULL; p = strchr(p, '/')) {
		*p = '\0';
		(void)mkdirat(f->dir.fd, path, 0755);
		*p++ = '/';
	}
	(void)mkdirat(f->dir.fd, path, 0755);
	assert_int_equal(faccessat(f->dir.fd, path, F_OK, 0), 0);
}

/* rename within the scratch directory, of paths below it. */
static inline void dsfix_move(struct dsfix *f, const char *from, const char *to)
{
	assert_int_equal(renameat(f->dir.fd, from, f->dir.fd, to), 0);
}

static inline bool dsfix_has(struct dsfix *f, const char *name)
{
	char path[DSFIX_NAME_SIZE];
	struct stat st;

	return fstatat(f->dir.fd, dsfix_name(name, path), &st,
		   AT_SYMLINK_NOFOLLOW) == 0;
}

/* The whole of f->e.msg; the store's path stands for each $ of want. */
static inline void dsfix_assert_message(struct dsfix *f, const char *want)
{
	char text[ERR_MSG_SIZE];
	size_t len = 0;

	for (; *want != '\0' && len + strlen(f->path) < sizeof(text); want++) {
		if (*want == '$') {
			memcpy(text + len, f->path, strlen(f->path));
			len += strlen(f->path);
		} else {
			text[len++] = *want;
		}
	}
	assert_true(len < sizeof(text));
	text[len] = '\0';
	assert_string_equal(f->e.msg, text);
}

#endif
