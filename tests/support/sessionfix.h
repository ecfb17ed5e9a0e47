/* SPDX-License-Identifier: MIT */
/*
 * sessionfix: dsfix, open for writing, and pushfix with assertions.
 */
#ifndef CAIRN_TESTS_SUPPORT_SESSIONFIX_H
#define CAIRN_TESTS_SUPPORT_SESSIONFIX_H

#include <sys/file.h>

#include "tests/support/dsfix.h"
#include "tests/support/pushfix.h"

#define T0 1800000000 /* 2027-01-15T08:00:00Z */
#define T0_DIR "host/a/2027-01-15T08:00:00Z"

static inline int sessionfix_setup(void **state)
{
	struct dsfix *f = NULL;

	if (dsfix_setup(state) < 0)
		return -1;
	f = *state;
	assert_non_null(f);
	return dsfix_open(f, DATASTORE_WRITE);
}

#define SESSION_TEST(t) \
	cmocka_unit_test_setup_teardown(t, sessionfix_setup, dsfix_teardown)

static const struct pushfix sessionfix_ten = {
	.group = "host/a",
	.time = T0,
	.put = { .first = 0, .n = 10 },
	.blob = true,
};

static inline struct session *sessionfix_open(
    struct dsfix *f, const struct pushfix *p)
{
	struct session *s = NULL;

	if (f == NULL)
		abort();
	assert_ok(pushfix_open(f->ds, p, &f->task, &s, &f->e), &f->e);
	return s;
}

static inline void sessionfix_run(
    struct dsfix *f, const struct pushfix *p, struct backup_snapshot *ret)
{
	if (f == NULL)
		abort();
	assert_ok(pushfix_run(f->ds, p, &f->task, ret, &f->e), &f->e);
}

/* Everything is whole, and there is this much of it. */
static inline void sessionfix_census(struct dsfix *f, size_t finished,
    size_t unfinished, size_t groups, size_t registrations)
{
	struct pushfix_census c = { .finished = 0 };

	assert_ok(pushfix_check(f->ds, &c, &f->e), &f->e);
	assert_int_equal(c.finished, finished);
	assert_int_equal(c.unfinished, unfinished);
	assert_int_equal(c.groups, groups);
	assert_int_equal(c.registrations, registrations);
}

/* Could another process lock this directory of the store? */
static inline bool sessionfix_can_flock(
    struct dsfix *f, const char *name, int how)
{
	char path[PATH_MAX];
	int fd = openat(f->dir.fd, dsfix_name(name, path),
	    O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	bool can = false;

	assert_true(fd >= 0);
	can = flock(fd, how | LOCK_NB) == 0;
	(void)close(fd);
	return can;
}

/* A chunk that was last used long ago. */
static inline void sessionfix_set_old(struct dsfix *f, unsigned number)
{
	const struct timespec old[2] = { { .tv_sec = 1000 },
		{ .tv_sec = 1000 } };
	char path[STORE_CHUNK_PATH_SIZE];
	struct digest d;

	pushfix_digest(number, &d);
	store_chunk_path(&d, path);
	assert_int_equal(utimensat(f->ds->chunks_fd, path, old, 0), 0);
}

static inline int64_t sessionfix_atime(struct dsfix *f, unsigned number)
{
	char path[STORE_CHUNK_PATH_SIZE];
	struct stat st;
	struct digest d;

	pushfix_digest(number, &d);
	store_chunk_path(&d, path);
	assert_int_equal(fstatat(f->ds->chunks_fd, path, &st, 0), 0);
	return st.st_atim.tv_sec;
}

#endif
