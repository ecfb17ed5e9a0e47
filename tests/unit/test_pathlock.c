/* SPDX-License-Identifier: MIT */
#include "datastore/base/pathlock.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "datastore/base/clock.h"
#include "datastore/base/file.h"
#include "tests/support/fault.h"
#include "tests/support/test.h"
#include "tests/support/tmpdir.h"

#define NS_PER_MS 1000000LL
#define LONG_MS 20000U /* never waited for when all is well */

struct fixture {
	struct tmpdir dir;
	struct err e;
};

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	if (f == NULL)
		return -1;
	tmpdir_make(&f->dir);
	tmpdir_put_str(f->dir.fd, "file", "x");
	*state = f;
	return mkdirat(f->dir.fd, "snap", 0755);
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	fault_uninstall();
	tmpdir_remove(&f->dir);
	free(f);
	return 0;
}

static int take(struct fixture *f, const char *name, enum lock_mode mode,
    uint64_t timeout_ms, int *ret_fd)
{
	return pathlock_take(
	    f->dir.fd, name, mode, timeout_ms, ret_fd, name, &f->e);
}

static void test_modes(void **state)
{
	static const char *const names[] = { "snap", "file" };
	struct fixture *f = *state;
	size_t fds = tmpdir_open_fds();

	for (size_t i = 0; i < TEST_COUNT(names); i++) {
		const char *name = names[i];
		int a = -1;
		int b = -1;
		int c = -1;

		assert_ok(take(f, name, LOCK_SHARED, 0, &a), &f->e);
		assert_ok(take(f, name, LOCK_SHARED, 0, &b), &f->e);
		assert_err(take(f, name, LOCK_EXCLUSIVE, 0, &c), &f->e,
		    ERR_BUSY, "is locked");
		file_close(&a);
		assert_err(take(f, name, LOCK_EXCLUSIVE, 0, &c), &f->e,
		    ERR_BUSY, name);
		file_close(&b);
		assert_ok(take(f, name, LOCK_EXCLUSIVE, 0, &c), &f->e);
		assert_int_equal(fcntl(c, F_GETFD), FD_CLOEXEC);
		assert_err(take(f, name, LOCK_SHARED, 0, &a), &f->e, ERR_BUSY,
		    "is locked");
		assert_int_equal(a, -1);
		file_close(&c);
	}
	assert_int_equal(tmpdir_open_fds(), fds);
}

static void test_wrong_things(void **state)
{
	struct fixture *f = *state;
	size_t fds = tmpdir_open_fds();
	int fd = -1;

	assert_int_equal(symlinkat("snap", f->dir.fd, "link"), 0);
	assert_int_equal(mkfifoat(f->dir.fd, "fifo", 0644), 0);
	assert_err(take(f, "none", LOCK_SHARED, 0, &fd), &f->e, ERR_NOTFOUND,
	    "'none' does not exist");
	assert_err(take(f, "link", LOCK_SHARED, 0, &fd), &f->e, ERR_CORRUPT,
	    "'link' is a symbolic link, want a directory or file");
	assert_err(take(f, "fifo", LOCK_SHARED, 0, &fd), &f->e, ERR_CORRUPT,
	    "'fifo' is a special file, want a directory or file");
	assert_int_equal(fd, -1);
	assert_int_equal(tmpdir_open_fds(), fds);
}

/* What another process does between our open and our flock. */
struct meddler {
	int dirfd;
	bool replace;
	bool after; /* even after it */
	bool done;
};

static void meddle(struct meddler *m)
{
	if (m->done)
		return;
	m->done = true;
	(void)unlinkat(m->dirfd, "file", 0);
	(void)unlinkat(m->dirfd, "snap", AT_REMOVEDIR);
	if (m->replace) {
		tmpdir_put_str(m->dirfd, "file", "y");
		(void)mkdirat(m->dirfd, "snap", 0755);
	}
}

static void before_flock(void *ctx, struct fault_event *ev)
{
	struct meddler *m = ctx;

	if (ev->call == FAULT_FLOCK && !m->after)
		meddle(m);
}

static void after_flock(void *ctx, struct fault_event *ev)
{
	struct meddler *m = ctx;

	if (ev->call == FAULT_FLOCK && m->after)
		meddle(m);
}

static void test_removed_or_replaced(void **state)
{
	static const char *const names[] = { "snap", "file" };
	struct fixture *f = *state;
	size_t fds = tmpdir_open_fds();

	for (unsigned i = 0; i < 8; i++) {
		struct meddler m = {
			.dirfd = f->dir.fd,
			.replace = (i & 1) != 0,
			.after = (i & 2) != 0,
		};
		struct fault_hooks hooks = {
			.before = before_flock,
			.after = after_flock,
			.ctx = &m,
		};
		int fd = -1;
		int rc = 0;

		tmpdir_put_str(f->dir.fd, "file", "x");
		(void)mkdirat(f->dir.fd, "snap", 0755);
		fault_install();
		fault_set_hooks(&hooks);
		rc = take(f, names[i / 4], LOCK_EXCLUSIVE, 0, &fd);
		fault_uninstall();
		assert_true(m.done);
		assert_err(rc, &f->e, ERR_NOTFOUND,
		    m.replace ? "' was replaced" : "' was removed");
		assert_int_equal(fd, -1);
	}
	assert_int_equal(tmpdir_open_fds(), fds);
}

static void test_recheck(void **state)
{
	struct fixture *f = *state;
	int fd = -1;

	assert_ok(take(f, "snap", LOCK_SHARED, 0, &fd), &f->e);
	assert_ok(
	    pathlock_recheck(fd, f->dir.fd, "snap", "g/snap", &f->e), &f->e);
	assert_int_equal(renameat(f->dir.fd, "snap", f->dir.fd, "away"), 0);
	assert_err(pathlock_recheck(fd, f->dir.fd, "snap", "g/snap", &f->e),
	    &f->e, ERR_NOTFOUND, "'g/snap' was removed");
	assert_int_equal(mkdirat(f->dir.fd, "snap", 0755), 0);
	assert_err(pathlock_recheck(fd, f->dir.fd, "snap", "g/snap", &f->e),
	    &f->e, ERR_NOTFOUND, "'g/snap' was replaced");
	assert_ok(
	    pathlock_recheck(fd, f->dir.fd, "away", "g/away", &f->e), &f->e);
	file_close(&fd);
}

static void *close_soon(void *arg)
{
	int *fd = arg;

	clock_sleep_ms(50);
	file_close(fd);
	return NULL;
}

static void test_wait(void **state)
{
	struct fixture *f = *state;
	int64_t start = clock_boot_ns();
	pthread_t t;
	int a = -1;
	int b = -1;
	int rc = 0;

	assert_ok(take(f, "snap", LOCK_EXCLUSIVE, 0, &a), &f->e);
	assert_err(take(f, "snap", LOCK_EXCLUSIVE, 80, &b), &f->e, ERR_BUSY,
	    "'snap' is locked");
	assert_true(clock_boot_ns() - start >= 80 * NS_PER_MS);
	assert_int_equal(pthread_create(&t, NULL, close_soon, &a), 0);
	rc = take(f, "snap", LOCK_SHARED, LONG_MS, &b);
	(void)pthread_join(t, NULL);
	assert_ok(rc, &f->e);
	file_close(&b);
}

/* NFS: an exclusive lock of a file needs one that is open for writing. */
static void like_nfs(void *ctx, struct fault_event *ev)
{
	unsigned *refused = ctx;

	if (ev->call != FAULT_FLOCK || (ev->flags & LOCK_EX) == 0 ||
	    (fcntl(ev->fd, F_GETFL) & O_ACCMODE) != O_RDONLY)
		return;
	(*refused)++;
	ev->skip = true;
	ev->result = -1;
	ev->error = EBADF;
}

static void test_nfs(void **state)
{
	struct fixture *f = *state;
	unsigned refused = 0;
	struct fault_hooks hooks = { .before = like_nfs, .ctx = &refused };
	size_t fds = tmpdir_open_fds();
	int fd = -1;
	char c = 0;

	fault_install();
	fault_set_hooks(&hooks);
	assert_ok(take(f, "file", LOCK_EXCLUSIVE, 0, &fd), &f->e);
	assert_int_equal(refused, 1);
	assert_int_equal(read(fd, &c, 1), 1);
	file_close(&fd);
	assert_ok(take(f, "file", LOCK_SHARED, 0, &fd), &f->e);
	assert_int_equal(refused, 1);
	file_close(&fd);
	assert_int_equal(tmpdir_open_fds(), fds);
}

/* Every call fails once: an error comes out, and no descriptor stays open. */
static void test_every_call_fails(void **state)
{
	struct fixture *f = *state;
	size_t fds = tmpdir_open_fds();
	uint64_t n = 1;

	fault_install();
	for (;; n++) {
		int fd = -1;
		int rc = 0;

		fault_reset();
		fault_add(&(struct fault_rule){
		    .calls = FAULT_ANY & ~FAULT_BIT(FAULT_CLOSE),
		    .what = FAULT_FAIL,
		    .at = n,
		    .times = 1,
		    .error = EIO });
		rc = take(f, "snap", LOCK_EXCLUSIVE, 0, &fd);
		if (fault_hits() == 0) {
			assert_ok(rc, &f->e);
			file_close(&fd);
			break;
		}
		assert_err(rc, &f->e, ERR_SYS, "'snap'");
		assert_int_equal(fd, -1);
		assert_int_equal(tmpdir_open_fds(), fds);
	}
	/* open, statx, flock, two statx */
	assert_int_equal(n, 6);
}

static void test_interrupted(void **state)
{
	struct fixture *f = *state;
	int fd = -1;

	fault_install();
	fault_add(&(struct fault_rule){ .calls = FAULT_BIT(FAULT_OPENAT),
	    .what = FAULT_FAIL,
	    .at = 1,
	    .times = 2,
	    .error = EINTR });
	fault_add(&(struct fault_rule){ .calls = FAULT_BIT(FAULT_FLOCK),
	    .what = FAULT_FAIL,
	    .at = 1,
	    .times = 2,
	    .error = EINTR });
	assert_ok(take(f, "snap", LOCK_EXCLUSIVE, 0, &fd), &f->e);
	assert_int_equal(fault_hits(), 4);
	file_close(&fd);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_modes),
		TEST(test_wrong_things),
		TEST(test_removed_or_replaced),
		TEST(test_recheck),
		TEST(test_wait),
		TEST(test_nfs),
		TEST(test_every_call_fails),
		TEST(test_interrupted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
