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

	assert_ok(pushfix_open(f->ds, p, &f->task, &s, &f->e), &f->e);
	return s;
}

static inline void sessionfix_run(
    struct dsfix *f, const struct pushfix *p, struct backup_snapshot *ret)
{
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

#endif
