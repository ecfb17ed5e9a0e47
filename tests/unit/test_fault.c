/* SPDX-License-Identifier: MIT */
#include "tests/support/test.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "datastore/base/sysio.h"
#include "tests/support/fault.h"
#include "tests/support/tmpdir.h"

static int setup(void **state)
{
	int rc = tmpdir_setup(state);

	fault_install();
	return rc;
}

static int teardown(void **state)
{
	fault_uninstall();
	return tmpdir_teardown(state);
}

static int dir_of(void **state)
{
	const struct tmpdir *t = *state;

	return t->fd;
}

static int create(int dirfd, const char *name)
{
	return sysio_openat(
	    dirfd, name, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
}

static void counts_without_rules(void **state)
{
	int dir = dir_of(state);
	int fd = create(dir, "a");

	assert_true(fd >= 0);
	assert_int_equal(sysio_write(fd, "ab", 2), 2);
	assert_int_equal(sysio_write(fd, "cd", 2), 2);
	assert_int_equal(sysio_close(fd), 0);
	assert_int_equal(fault_count(FAULT_BIT(FAULT_CREATE)), 1);
	assert_int_equal(fault_count(FAULT_BIT(FAULT_OPENAT)), 0);
	assert_int_equal(fault_count(FAULT_BIT(FAULT_WRITE)), 2);
	assert_int_equal(fault_count(FAULT_ANY), 4);
	assert_int_equal(fault_count(FAULT_CHANGES), 3);
	assert_int_equal(fault_hits(), 0);
	fault_reset();
	assert_int_equal(fault_count(FAULT_ALL), 0);
}

static void fails_the_nth_once(void **state)
{
	int fd = create(dir_of(state), "a");
	char *got = NULL;

	fault_add(&(struct fault_rule){ .calls = FAULT_BIT(FAULT_WRITE),
	    .what = FAULT_FAIL,
	    .at = 2,
	    .times = 1,
	    .error = ENOSPC });
	assert_int_equal(sysio_write(fd, "1", 1), 1);
	errno = 0;
	assert_int_equal(sysio_write(fd, "2", 1), -1);
	assert_int_equal(errno, ENOSPC);
	assert_int_equal(sysio_write(fd, "3", 1), 1);
	assert_int_equal(fault_hits(), 1);
	assert_int_equal(sysio_close(fd), 0);
	got = tmpdir_get(dir_of(state), "a", NULL);
	assert_string_equal(got, "13");
	free(got);
}

static void fails_from_then_on(void **state)
{
	int fd = create(dir_of(state), "a");

	fault_add(&(struct fault_rule){ .calls = FAULT_BIT(FAULT_FSYNC),
	    .what = FAULT_FAIL,
	    .at = 3,
	    .times = FAULT_FOREVER,
	    .error = EIO });
	for (int i = 1; i <= 6; i++)
		assert_int_equal(sysio_fsync(fd), i < 3 ? 0 : -1);
	assert_int_equal(fault_hits(), 4);
	assert_int_equal(sysio_close(fd), 0);
}

static void rule_counts_from_its_adding(void **state)
{
	int fd = create(dir_of(state), "a");

	assert_int_equal(sysio_fsync(fd), 0);
	fault_add(&(struct fault_rule){ .calls = FAULT_ANY,
	    .what = FAULT_FAIL,
	    .at = 1,
	    .times = 1,
	    .error = EIO });
	assert_int_equal(sysio_fsync(fd), -1);
	assert_int_equal(sysio_fsync(fd), 0);
	assert_int_equal(sysio_close(fd), 0);
}

static void any_leaves_clocks_alone(void **state)
{
	struct timespec ts;

	(void)state;
	fault_add(&(struct fault_rule){ .calls = FAULT_ANY,
	    .what = FAULT_FAIL,
	    .at = 1,
	    .times = FAULT_FOREVER,
	    .error = EIO });
	assert_int_equal(sysio_clock_gettime(CLOCK_BOOTTIME, &ts), 0);
	assert_int_equal(fault_hits(), 0);
	assert_int_equal(fault_count(FAULT_ALL), 1);
}

static void picks_by_name(void **state)
{
	int dir = dir_of(state);

	tmpdir_put_str(dir, "plain", "");
	fault_add(&(struct fault_rule){ .calls = FAULT_ANY,
	    .name = ".tmp_",
	    .what = FAULT_FAIL,
	    .at = 1,
	    .times = FAULT_FOREVER,
	    .error = EACCES });
	assert_int_equal(create(dir, "x.tmp_abc"), -1);
	assert_int_equal(errno, EACCES);
	assert_int_equal(sysio_renameat2(dir, "plain", dir, "y.tmp_", 0), -1);
	assert_int_equal(sysio_renameat2(dir, "plain", dir, "z", 0), 0);
}

static void falls_short(void **state)
{
	int fd = create(dir_of(state), "a");
	char p[8] = "";

	fault_add(&(struct fault_rule){
	    .calls = FAULT_BIT(FAULT_WRITE) | FAULT_BIT(FAULT_PREAD),
	    .what = FAULT_SHORT,
	    .at = 1,
	    .times = 2,
	    .bytes = 3 });
	assert_int_equal(sysio_write(fd, "abcdefgh", 8), 3);
	assert_int_equal(sysio_pread(fd, p, 2, 0), 2);
	assert_int_equal(sysio_write(fd, "defgh", 5), 5);
	fault_reset();
	fault_add(&(struct fault_rule){ .calls = FAULT_BIT(FAULT_PREAD),
	    .what = FAULT_SHORT,
	    .at = 1,
	    .times = 1,
	    .bytes = 0 });
	assert_int_equal(sysio_pread(fd, p, 8, 0), 0);
	assert_int_equal(sysio_pread(fd, p, 8, 0), 8);
	assert_memory_equal(p, "abcdefgh", 8);
	assert_int_equal(sysio_close(fd), 0);
}

static void fails_after_the_deed(void **state)
{
	int dir = dir_of(state);

	tmpdir_put_str(dir, "a", "x");
	fault_add(&(struct fault_rule){ .calls = FAULT_ANY,
	    .what = FAULT_FAIL_AFTER,
	    .at = 1,
	    .times = FAULT_FOREVER,
	    .error = EIO });
	errno = 0;
	assert_int_equal(sysio_renameat2(dir, "a", dir, "b", 0), -1);
	assert_int_equal(errno, EIO);
	assert_int_equal(create(dir, "c"), -1);
	assert_int_equal(tmpdir_count(dir, "a"), 0);
	assert_int_equal(tmpdir_count(dir, ""), 2);
}

static void leaks_no_descriptor(void **state)
{
	static const enum fault_what ways[] = { FAULT_FAIL, FAULT_FAIL_AFTER };
	int dir = dir_of(state);
	size_t before = tmpdir_open_fds();

	for (size_t i = 0; i < TEST_COUNT(ways); i++) {
		int fd = create(dir, "a");

		fault_add(&(struct fault_rule){ .calls = FAULT_ANY,
		    .what = ways[i],
		    .at = 1,
		    .times = FAULT_FOREVER,
		    .error = EIO });
		assert_int_equal(sysio_close(fd), -1);
		assert_int_equal(create(dir, "b"), -1);
		fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		assert_true(fd >= 0);
		assert_null(sysio_fdopendir(fd));
		assert_int_equal(close(fd), 0);
		fault_reset();
	}
	assert_int_equal(tmpdir_open_fds(), before);
}

static void readdir_ends_or_fails(void **state)
{
	int fd = sysio_openat(dir_of(state), ".", O_RDONLY | O_CLOEXEC, 0);
	DIR *d = sysio_fdopendir(fd);

	assert_non_null(d);
	errno = 0;
	assert_non_null(sysio_readdir(d));
	assert_non_null(sysio_readdir(d));
	assert_null(sysio_readdir(d));
	assert_int_equal(errno, 0);
	rewinddir(d);
	fault_add(&(struct fault_rule){ .calls = FAULT_BIT(FAULT_READDIR),
	    .what = FAULT_FAIL,
	    .at = 2,
	    .times = 1,
	    .error = EIO });
	assert_non_null(sysio_readdir(d));
	assert_null(sysio_readdir(d));
	assert_int_equal(errno, EIO);
	assert_int_equal(sysio_closedir(d), 0);
}

struct seen {
	unsigned before;
	unsigned after;
	char name[16];
	int64_t result;
	int dir;
};

static void note_before(void *ctx, struct fault_event *ev)
{
	struct seen *seen = ctx;

	seen->before++;
	if (ev->name != NULL)
		(void)snprintf(seen->name, sizeof(seen->name), "%s", ev->name);
	/* The race: it goes away just before it is opened. */
	if (ev->call == FAULT_OPENAT)
		(void)sysio_unlinkat(seen->dir, "victim", 0);
	errno = EDOM;
}

static void note_after(void *ctx, struct fault_event *ev)
{
	struct seen *seen = ctx;

	seen->after++;
	seen->result = ev->result;
	errno = EDOM;
}

static void hooks_see_and_disturb(void **state)
{
	struct seen seen = { .dir = dir_of(state) };

	tmpdir_put_str(seen.dir, "victim", "");
	fault_set_hooks(&(struct fault_hooks){
	    .before = note_before, .after = note_after, .ctx = &seen });
	assert_int_equal(sysio_openat(seen.dir, "victim", O_RDONLY, 0), -1);
	assert_int_equal(errno, ENOENT);
	assert_int_equal(seen.before, 1);
	assert_int_equal(seen.after, 1);
	assert_int_equal(seen.result, -1);
	assert_string_equal(seen.name, "victim");
	/* What the hook did is not counted. */
	assert_int_equal(fault_count(FAULT_ALL), 1);
	fault_set_hooks(NULL);
	assert_int_equal(sysio_unlinkat(seen.dir, "victim", 0), -1);
	assert_int_equal(seen.before, 1);
}

static void lie_before(void *ctx, struct fault_event *ev)
{
	(void)ctx;
	if (ev->call != FAULT_FSYNC)
		return;
	ev->skip = true;
	ev->result = 0;
}

static void lie_after(void *ctx, struct fault_event *ev)
{
	struct statx *st = ev->p;

	(void)ctx;
	if (ev->call == FAULT_STATX && ev->result == 0)
		st->stx_size = 12345;
	if (ev->call == FAULT_UNLINKAT) {
		ev->result = -1;
		ev->error = EROFS;
	}
}

static void hooks_lie(void **state)
{
	int dir = dir_of(state);
	struct statx st;

	tmpdir_put_str(dir, "a", "x");
	fault_set_hooks(
	    &(struct fault_hooks){ .before = lie_before, .after = lie_after });
	assert_int_equal(sysio_fsync(-1), 0);
	assert_int_equal(
	    sysio_statx(dir, "a", AT_SYMLINK_NOFOLLOW, STATX_BASIC_STATS, &st),
	    0);
	assert_int_equal(st.stx_size, 12345);
	assert_int_equal(sysio_unlinkat(dir, "a", 0), -1);
	assert_int_equal(errno, EROFS);
	assert_int_equal(tmpdir_count(dir, "a"), 0);
}

/* Write three bytes one by one in a child that dies as the rule says. */
static int run_doomed(int dir, enum fault_what what, uint64_t at)
{
	int status = 0;
	pid_t pid = fork();

	if (pid == 0) {
		int fd = create(dir, "a");

		fault_add(&(struct fault_rule){ .calls = FAULT_BIT(FAULT_WRITE),
		    .what = what,
		    .at = at,
		    .times = 1 });
		for (int i = 0; i < 3; i++) {
			if (sysio_write(fd, "x", 1) != 1)
				_exit(1);
		}
		_exit(0);
	}
	assert_true(pid > 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

static void kills_at_the_nth(void **state)
{
	static const struct {
		enum fault_what what;
		uint64_t at;
		const char *left;
	} cases[] = {
		{ FAULT_KILL, 1, "" },
		{ FAULT_KILL_AFTER, 1, "x" },
		{ FAULT_KILL, 3, "xx" },
		{ FAULT_KILL_AFTER, 3, "xxx" },
	};
	int dir = dir_of(state);

	for (size_t i = 0; i < TEST_COUNT(cases); i++) {
		int status = run_doomed(dir, cases[i].what, cases[i].at);
		char *got = NULL;

		assert_true(WIFSIGNALED(status));
		assert_int_equal(WTERMSIG(status), SIGKILL);
		got = tmpdir_get(dir, "a", NULL);
		assert_string_equal(got, cases[i].left);
		free(got);
	}
	assert_int_equal(run_doomed(dir, FAULT_KILL, 4), 0);
}

/* Those on entries of directories and their attributes: how many failed. */
static int fail_entry_calls(void)
{
	int failed = 0;
	char p[1];

	failed += sysio_fallocate(-1, 0, 0, 1) == -1;
	failed += sysio_fchownat(-1, "x", 0, 0, 0) == -1;
	failed += sysio_fchmodat(-1, "x", 0, 0) == -1;
	failed += sysio_futimens(-1, NULL) == -1;
	failed += sysio_setxattr("x", "y", p, 0, 0) == -1;
	failed += sysio_fsetxattr(-1, "x", p, 0, 0) == -1;
	failed += sysio_fgetxattr(-1, "x", p, 1) == -1;
	failed += sysio_flistxattr(-1, p, 1) == -1;
	failed += sysio_getxattr("x", "y", p, 1) == -1;
	failed += sysio_listxattr("x", p, 1) == -1;
	failed += sysio_fremovexattr(-1, "x") == -1;
	failed += sysio_symlinkat("x", -1, "y") == -1;
	failed += sysio_mknodat(-1, "x", 0, 0) == -1;
	return failed;
}

/* Each function of the table goes through the rules, under its own name. */
static void every_call_is_wired(void **state)
{
	struct timespec ts = { .tv_sec = 0, .tv_nsec = 0 };
	struct timespec both[2] = { ts, ts };
	DIR *d = fdopendir(openat(dir_of(state), ".", O_RDONLY));
	struct statvfs svfs;
	struct statfs sfs;
	struct statx st;
	struct flock l;
	char p[4];
	int failed = 0;

	assert_non_null(d);
	fault_add(&(struct fault_rule){ .calls = FAULT_ALL,
	    .what = FAULT_FAIL,
	    .at = 1,
	    .times = FAULT_FOREVER,
	    .error = EXDEV });
	failed += sysio_openat(-1, "x", O_RDONLY, 0) == -1;
	failed += sysio_openat(-1, "x", O_RDONLY | O_CREAT, 0) == -1;
	failed += sysio_close(-1) == -1;
	failed += sysio_read(-1, p, 1) == -1;
	failed += sysio_pread(-1, p, 1, 0) == -1;
	failed += sysio_write(-1, "x", 1) == -1;
	failed += sysio_pwrite(-1, "x", 1, 0) == -1;
	failed += sysio_lseek(-1, 0, SEEK_SET) == -1;
	failed += sysio_ftruncate(-1, 0) == -1;
	failed += sysio_fsync(-1) == -1;
	failed += sysio_syncfs(-1) == -1;
	failed += sysio_fchown(-1, 0, 0) == -1;
	failed += sysio_fchmod(-1, 0) == -1;
	failed += sysio_statx(-1, "x", 0, 0, &st) == -1;
	failed += sysio_utimensat(-1, "x", both, 0) == -1;
	failed += sysio_renameat2(-1, "x", -1, "y", 0) == -1;
	failed += sysio_linkat(-1, "x", -1, "y", 0) == -1;
	failed += sysio_unlinkat(-1, "x", 0) == -1;
	failed += sysio_mkdirat(-1, "x", 0) == -1;
	failed += sysio_readlinkat(-1, "x", p, 1) == -1;
	failed += sysio_fdopendir(-1) == NULL;
	failed += sysio_readdir(d) == NULL;
	failed += sysio_getdents64(-1, p, 1) == -1;
	failed += sysio_ofd_lock(-1, F_OFD_SETLK, &l) == -1;
	failed += sysio_flock(-1, 0) == -1;
	failed += sysio_fstatvfs(-1, &svfs) == -1;
	failed += sysio_fstatfs(-1, &sfs) == -1;
	failed += sysio_ioctl(-1, 0, NULL) == -1;
	failed += sysio_clock_gettime(CLOCK_REALTIME, &ts) == -1;
	failed += sysio_nanosleep(&ts, NULL) == -1;
	failed += sysio_getrandom(p, 1, 0) == -1;
	failed += fail_entry_calls();
	assert_int_equal(errno, EXDEV);
	failed += sysio_closedir(d) == -1;
	failed += sysio_poll(NULL, 0, 0) == -1;
	assert_int_equal(failed, FAULT_CALLS);
	for (unsigned i = 0; i < FAULT_CALLS; i++)
		assert_int_equal(fault_count(FAULT_BIT(i)), 1);
}

static void uninstalls(void **state)
{
	fault_add(&(struct fault_rule){ .calls = FAULT_ALL,
	    .what = FAULT_FAIL,
	    .at = 1,
	    .times = FAULT_FOREVER,
	    .error = EIO });
	fault_uninstall();
	assert_ptr_equal(sysio_table, &sysio_real);
	assert_int_equal(sysio_fsync(dir_of(state)), 0);
	assert_int_equal(fault_count(FAULT_ALL), 0);
}

static void names_every_call(void **state)
{
	(void)state;
	for (unsigned i = 0; i < FAULT_CALLS; i++)
		assert_non_null(fault_call_name((enum fault_call)i));
	assert_string_equal(fault_call_name(FAULT_GETRANDOM), "getrandom");
	assert_string_equal(fault_call_name(FAULT_READDIR), "readdir");
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(counts_without_rules),
		TEST(fails_the_nth_once),
		TEST(fails_from_then_on),
		TEST(rule_counts_from_its_adding),
		TEST(any_leaves_clocks_alone),
		TEST(picks_by_name),
		TEST(falls_short),
		TEST(fails_after_the_deed),
		TEST(leaks_no_descriptor),
		TEST(readdir_ends_or_fails),
		TEST(hooks_see_and_disturb),
		TEST(hooks_lie),
		TEST(kills_at_the_nth),
		TEST(every_call_is_wired),
		TEST(uninstalls),
		TEST(names_every_call),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
