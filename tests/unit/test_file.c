/* SPDX-License-Identifier: MIT */
#include "tests/support/test.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "datastore/base/file.h"
#include "tests/support/fault.h"
#include "tests/support/gen.h"
#include "tests/support/scratch.h"
#include "tests/support/tmpdir.h"

static void transfers_survive_short_and_eintr(void **state)
{
	struct scratch *f = *state;
	struct err e = ERR_INIT;
	uint8_t want[1000];
	uint8_t got[1000];
	struct gen g;
	size_t n = 0;

	gen_seed(&g, 1);
	gen_fill(&g, GEN_RANDOM, want, sizeof(want));
	f->fd = openat(f->dir, "a", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	for (unsigned i = 0; i < 2; i++) {
		fault_add(&(struct fault_rule){ .calls = FAULT_ANY,
		    .what = i == 0 ? FAULT_FAIL : FAULT_SHORT,
		    .at = 1 + i,
		    .times = i == 0 ? 1 : FAULT_FOREVER,
		    .error = EINTR,
		    .bytes = 7 });
	}
	assert_ok(file_write_fully(f->fd, want, 500, "a", &e), &e);
	assert_ok(file_pwrite_fully(f->fd, want + 500, 500, 500, "a", &e), &e);
	assert_ok(file_pread_exact(f->fd, got, 1000, 0, "a", &e), &e);
	assert_memory_equal(got, want, 1000);
	memset(got, 0, sizeof(got));
	assert_int_equal(lseek(f->fd, 10, SEEK_SET), 10);
	assert_ok(file_read_fully(f->fd, got, 1000, &n, "a", &e), &e);
	assert_int_equal(n, 990);
	assert_memory_equal(got, want + 10, 990);
	assert_true(fault_count(FAULT_BIT(FAULT_WRITE)) > 70);
	assert_true(fault_count(FAULT_BIT(FAULT_PREAD)) > 140);
}

static void pread_needs_all(void **state)
{
	struct scratch *f = *state;
	struct err e = ERR_INIT;
	char p[8] = "";

	tmpdir_put_str(f->dir, "a", "12345");
	f->fd = openat(f->dir, "a", O_RDONLY | O_CLOEXEC);
	assert_ok(file_pread_exact(f->fd, p, 3, 2, "dir/a", &e), &e);
	assert_string_equal(p, "345");
	assert_ok(file_pread_exact(f->fd, p, 0, 99, "dir/a", &e), &e);
	assert_err(file_pread_exact(f->fd, p, 4, 2, "dir/a", &e), &e,
	    ERR_CORRUPT, "'dir/a': 3 bytes at offset 2, want 4");
	assert_err(file_pread_exact(f->fd, p, 1, 5, "dir/a", &e), &e,
	    ERR_CORRUPT, "0 bytes at offset 5, want 1");
	assert_err(file_pread_exact(f->fd, p, 8, UINT64_MAX, "dir/a", &e), &e,
	    ERR_CORRUPT, "want 8");
	assert_err(file_pread_exact(f->fd, p, 8, INT64_MAX - 7, "dir/a", &e),
	    &e, ERR_CORRUPT, "want 8");
}

static void writes_report_errors(void **state)
{
	struct scratch *f = *state;
	struct err e = ERR_INIT;

	f->fd = openat(f->dir, "a", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	assert_err(file_pwrite_fully(f->fd, "x", 1, INT64_MAX, "a", &e), &e,
	    ERR_SYS, "write 'a'");
	assert_true(err_is_sys(&e, EFBIG));
	fault_once(FAULT_BIT(FAULT_WRITE), 1, ENOSPC);
	assert_err(file_write_fully(f->fd, "x", 1, "a", &e), &e, ERR_SYS,
	    "write 'a': No space left");
	/* A write that takes nothing must not be repeated for ever. */
	fault_add(&(struct fault_rule){ .calls = FAULT_BIT(FAULT_WRITE),
	    .what = FAULT_SHORT,
	    .at = 1,
	    .times = FAULT_FOREVER,
	    .bytes = 0 });
	assert_err(
	    file_write_fully(f->fd, "x", 1, "a", &e), &e, ERR_SYS, "write 'a'");
}

static void opens_regular_files(void **state)
{
	struct scratch *f = *state;
	struct err e = ERR_INIT;
	struct statx st;

	tmpdir_put_str(f->dir, "a", "12345");
	assert_ok(file_open_regular(f->dir, "a", &f->fd, &st, "a", &e), &e);
	assert_int_equal(st.stx_size, 5);
	assert_int_equal(fcntl(f->fd, F_GETFD), FD_CLOEXEC);
	file_close(&f->fd);
	assert_int_equal(f->fd, -1);
	file_close(&f->fd);
	assert_ok(file_open_regular(f->dir, "a", &f->fd, NULL, "a", &e), &e);
}

static void make_socket(const struct scratch *f, const char *name)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	(void)snprintf(addr.sun_path, sizeof(addr.sun_path),
	    "/proc/self/fd/%d/%s", f->dir, name);
	assert_int_equal(
	    bind(fd, (const struct sockaddr *)&addr, sizeof(addr)), 0);
	assert_int_equal(close(fd), 0);
}

static void refuses_what_is_no_file(void **state)
{
	struct scratch *f = *state;
	struct err e = ERR_INIT;
	int fd = -7;

	tmpdir_put_str(f->dir, "a", "x");
	assert_int_equal(mkdirat(f->dir, "dir", 0755), 0);
	assert_int_equal(mkfifoat(f->dir, "fifo", 0644), 0);
	assert_int_equal(symlinkat("a", f->dir, "link"), 0);
	assert_int_equal(symlinkat("gone", f->dir, "dangling"), 0);
	make_socket(f, "socket");
	assert_err(file_open_regular(f->dir, "gone", &fd, NULL, "p/gone", &e),
	    &e, ERR_NOTFOUND, "'p/gone' does not exist");
	assert_err(file_open_regular(f->dir, "dir", &fd, NULL, "p/dir", &e), &e,
	    ERR_CORRUPT, "'p/dir' is of file type 040000");
	assert_err(file_open_regular(f->dir, "fifo", &fd, NULL, "p/fifo", &e),
	    &e, ERR_CORRUPT, "'p/fifo' is of file type 010000");
	assert_err(file_open_regular(f->dir, "socket", &fd, NULL, "s", &e), &e,
	    ERR_CORRUPT, "'s' is a socket");
	assert_err(file_open_regular(f->dir, "link", &fd, NULL, "p/link", &e),
	    &e, ERR_CORRUPT, "'p/link' is a symbolic link");
	assert_err(file_open_regular(f->dir, "dangling", &fd, NULL, "d", &e),
	    &e, ERR_CORRUPT, "'d' is a symbolic link");
	fault_once(FAULT_BIT(FAULT_OPENAT), 1, EACCES);
	assert_err(file_open_regular(f->dir, "a", &fd, NULL, "a", &e), &e,
	    ERR_SYS, "open 'a': Permission denied");
	assert_int_equal(fd, -7);
}

static void reads_within_its_limit(void **state)
{
	struct scratch *f = *state;
	struct err e = ERR_INIT;

	tmpdir_put_str(f->dir, "empty", "");
	tmpdir_put_str(f->dir, "ten", "0123456789");
	assert_ok(buf_append_str(&f->buf, "old", &e), &e);
	assert_ok(file_read_at(f->dir, "ten", 10, &f->buf, "ten", &e), &e);
	assert_string_equal(buf_cstr(&f->buf, &e), "0123456789");
	assert_ok(
	    file_read_at(f->dir, "ten", SIZE_MAX, &f->buf, "ten", &e), &e);
	assert_int_equal(f->buf.len, 10);
	assert_ok(file_read_at(f->dir, "empty", 0, &f->buf, "empty", &e), &e);
	assert_int_equal(f->buf.len, 0);
	assert_err(file_read_at(f->dir, "ten", 9, &f->buf, "p/ten", &e), &e,
	    ERR_LIMIT, "'p/ten': 10 bytes, want at most 9");
	assert_err(file_read_at(f->dir, "gone", 9, &f->buf, "gone", &e), &e,
	    ERR_NOTFOUND, "'gone'");
}

static void huge_file_takes_no_memory(void **state)
{
	struct scratch *f = *state;
	struct err e = ERR_INIT;

	f->fd = openat(f->dir, "huge", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	assert_int_equal(ftruncate(f->fd, (off_t)1 << 40), 0);
	assert_err(file_read_at(f->dir, "huge", 1 << 20, &f->buf, "huge", &e),
	    &e, ERR_LIMIT, "1099511627776 bytes, want at most 1048576");
	assert_int_equal(f->buf.cap, 0);
}

/* The file is larger, or smaller, than statx said: it is changing. */
static void lie_about_size(void *ctx, struct fault_event *ev)
{
	struct statx *st = ev->p;
	const uint64_t *size = ctx;

	if (ev->call == FAULT_STATX)
		st->stx_size = *size;
}

static void reads_a_changing_file(void **state)
{
	struct scratch *f = *state;
	struct err e = ERR_INIT;
	char content[20000];
	uint64_t said = 0;

	memset(content, 'c', sizeof(content));
	tmpdir_put(f->dir, "a", content, sizeof(content));
	fault_set_hooks(
	    &(struct fault_hooks){ .after = lie_about_size, .ctx = &said });
	for (said = 0; said <= 30000; said += 3000) {
		assert_ok(
		    file_read_at(f->dir, "a", 40000, &f->buf, "a", &e), &e);
		assert_int_equal(f->buf.len, sizeof(content));
		assert_memory_equal(f->buf.data, content, sizeof(content));
	}
	said = 10;
	assert_err(file_read_at(f->dir, "a", 100, &f->buf, "a", &e), &e,
	    ERR_LIMIT, "grew beyond 100 bytes");
	assert_int_equal(f->buf.len, 0);
	assert_ok(file_read_at(f->dir, "a", 20000, &f->buf, "a", &e), &e);
}

static void opens_directories(void **state)
{
	static const char *const good[] = { "a/b", "a//b/", "./a/./b/.",
		"a/b//" };
	struct scratch *f = *state;
	struct err e = ERR_INIT;
	struct statx want;
	struct statx st;

	assert_int_equal(mkdirat(f->dir, "a", 0755), 0);
	assert_int_equal(mkdirat(f->dir, "a/b", 0755), 0);
	assert_int_equal(statx(f->dir, "a/b", 0, STATX_BASIC_STATS, &want), 0);
	for (size_t i = 0; i < TEST_COUNT(good); i++) {
		assert_ok(file_open_dir(f->dir, good[i], &f->fd, "s", &e), &e);
		assert_ok(file_stat_fd(f->fd, &st, "s", &e), &e);
		assert_true(file_same(&st, &want));
		assert_int_equal(fcntl(f->fd, F_GETFD), FD_CLOEXEC);
		file_close(&f->fd);
	}
	assert_int_equal(statx(f->dir, ".", 0, STATX_BASIC_STATS, &want), 0);
	assert_false(file_same(&st, &want));
	for (int i = 0; i < 2; i++) {
		assert_ok(
		    file_open_dir(f->dir, i == 0 ? "." : "", &f->fd, "s", &e),
		    &e);
		assert_int_not_equal(f->fd, f->dir);
		assert_ok(file_stat_fd(f->fd, &st, "s", &e), &e);
		assert_true(file_same(&st, &want));
		file_close(&f->fd);
	}
}

static void refuses_directories(void **state)
{
	struct scratch *f = *state;
	struct err e = ERR_INIT;
	char name[400];
	int fd = -7;

	assert_int_equal(mkdirat(f->dir, "a", 0755), 0);
	assert_int_equal(mkdirat(f->dir, "a/b", 0755), 0);
	assert_int_equal(symlinkat("a", f->dir, "link"), 0);
	assert_int_equal(symlinkat("b", f->dir, "a/link"), 0);
	tmpdir_put_str(f->dir, "file", "");
	assert_err(file_open_dir(f->dir, "a/gone/b", &fd, "p", &e), &e,
	    ERR_NOTFOUND, "directory 'p': 'gone' does not exist");
	assert_err(file_open_dir(f->dir, "link", &fd, "p", &e), &e, ERR_CORRUPT,
	    "'link' is a symbolic link");
	assert_err(file_open_dir(f->dir, "link/b", &fd, "p", &e), &e,
	    ERR_CORRUPT, "'link' is a symbolic link");
	assert_err(file_open_dir(f->dir, "a/link", &fd, "p", &e), &e,
	    ERR_CORRUPT, "'link' is a symbolic link");
	assert_err(file_open_dir(f->dir, "file", &fd, "p", &e), &e, ERR_CORRUPT,
	    "or a file, want a directory");
	assert_err(file_open_dir(f->dir, "/tmp", &fd, "p", &e), &e, ERR_INVALID,
	    "relative");
	assert_err(file_open_dir(f->dir, "a/../a", &fd, "p", &e), &e,
	    ERR_INVALID, "'..'");
	memset(name, 'n', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	assert_err(
	    file_open_dir(f->dir, name, &fd, "p", &e), &e, ERR_SYS, "too long");
	assert_int_equal(fd, -7);
}

static void stats_names_unfollowed(void **state)
{
	struct scratch *f = *state;
	struct err e = ERR_INIT;
	struct statx file;
	struct statx link;
	struct statx st = { .stx_size = 99 };
	bool found = true;

	tmpdir_put_str(f->dir, "a", "x");
	assert_int_equal(symlinkat("a", f->dir, "link"), 0);
	assert_ok(file_stat_at(f->dir, "gone", &st, &found, "gone", &e), &e);
	assert_false(found);
	assert_int_equal(st.stx_size, 99);
	assert_ok(file_stat_at(f->dir, "a", &file, &found, "a", &e), &e);
	assert_true(found);
	assert_ok(file_stat_at(f->dir, "link", &link, &found, "l", &e), &e);
	assert_true(found);
	assert_true(S_ISLNK(link.stx_mode));
	assert_false(file_same(&file, &link));
	assert_true(file_same(&file, &file));
	st = file;
	st.stx_dev_minor++;
	assert_false(file_same(&file, &st));
	fault_once(FAULT_BIT(FAULT_STATX), 1, EACCES);
	assert_err(file_stat_at(f->dir, "a", &st, &found, "p/a", &e), &e,
	    ERR_SYS, "stat 'p/a'");
}

static void touches_atime_only(void **state)
{
	static const struct timespec past[2] = { { .tv_sec = 1000 },
		{ .tv_sec = 2000, .tv_nsec = 5 } };
	struct scratch *f = *state;
	struct err e = ERR_INIT;
	struct statx st;
	bool found = false;

	tmpdir_put_str(f->dir, "a", "x");
	assert_int_equal(symlinkat("a", f->dir, "link"), 0);
	assert_int_equal(utimensat(f->dir, "a", past, 0), 0);
	assert_ok(file_touch_at(f->dir, "link", &found, "link", &e), &e);
	assert_true(found);
	assert_ok(file_stat_at(f->dir, "a", &st, &found, "a", &e), &e);
	assert_int_equal(st.stx_atime.tv_sec, 1000);
	assert_ok(file_touch_at(f->dir, "a", &found, "a", &e), &e);
	assert_true(found);
	assert_ok(file_stat_at(f->dir, "a", &st, &found, "a", &e), &e);
	assert_true(st.stx_atime.tv_sec > 1000000);
	assert_int_equal(st.stx_mtime.tv_sec, 2000);
	assert_int_equal(st.stx_mtime.tv_nsec, 5);
	assert_ok(file_touch_at(f->dir, "gone", &found, "gone", &e), &e);
	assert_false(found);
	fault_once(FAULT_BIT(FAULT_UTIMENSAT), 1, EPERM);
	assert_err(file_touch_at(f->dir, "a", &found, "p/a", &e), &e, ERR_SYS,
	    "touch 'p/a'");
}

static void unlinks(void **state)
{
	struct scratch *f = *state;
	struct err e = ERR_INIT;

	tmpdir_put_str(f->dir, "a", "x");
	assert_ok(file_unlink_at(f->dir, "a", "a", &e), &e);
	assert_int_equal(tmpdir_count(f->dir, ""), 0);
	assert_ok(file_unlink_at(f->dir, "a", "a", &e), &e);
	fault_once(FAULT_BIT(FAULT_UNLINKAT), 1, EROFS);
	assert_err(file_unlink_at(f->dir, "a", "p/a", &e), &e, ERR_SYS,
	    "remove 'p/a'");
}

static void lists_sorted(void **state)
{
	static const char *const want[] = { ".hidden", "...", "B", "a", "a-",
		"a.b", "\303\244" };
	struct scratch *f = *state;
	struct err e = ERR_INIT;
	size_t n = 99;

	assert_ok(file_list(f->dir, &f->names, &n, "d", &e), &e);
	assert_int_equal(n, 0);
	assert_null(f->names[0]);
	file_list_free(f->names);
	f->names = NULL;
	for (size_t i = 0; i < TEST_COUNT(want); i++)
		tmpdir_put_str(f->dir, want[TEST_COUNT(want) - 1 - i], "");
	/* Twice: the position of dirfd must not matter. */
	for (int round = 0; round < 2; round++) {
		file_list_free(f->names);
		f->names = NULL;
		assert_ok(file_list(f->dir, &f->names, &n, "d", &e), &e);
		assert_int_equal(n, TEST_COUNT(want));
		assert_null(f->names[n]);
		assert_string_equal(f->names[0], "...");
		assert_string_equal(f->names[1], ".hidden");
		for (size_t i = 2; i < n; i++)
			assert_string_equal(f->names[i], want[i]);
	}
	file_list_free(NULL);
}

static int stop_at_b(void *ctx, const char *name, struct err *e)
{
	unsigned *calls = ctx;

	++*calls;
	if (strcmp(name, "b") == 0)
		return err_set(e, ERR_CANCELLED, "enough");
	return 0;
}

static void walk_ends_with_its_callback(void **state)
{
	struct scratch *f = *state;
	struct err e = ERR_INIT;
	unsigned calls = 0;

	tmpdir_put_str(f->dir, "b", "");
	assert_err(file_each_name(f->dir, stop_at_b, &calls, "d", &e), &e,
	    ERR_CANCELLED, "enough");
	assert_int_equal(calls, 1);
	tmpdir_put_str(f->dir, "a", "");
	assert_int_equal(unlinkat(f->dir, "b", 0), 0);
	fault_once(FAULT_BIT(FAULT_READDIR), 4, EIO);
	assert_err(file_each_name(f->dir, stop_at_b, &calls, "p/d", &e), &e,
	    ERR_SYS, "read directory 'p/d': Input/output error");
}

static void random_fills_all(void **state)
{
	struct err e = ERR_INIT;
	uint8_t a[64] = { 0 };
	uint8_t b[64] = { 0 };

	(void)state;
	fault_once(FAULT_BIT(FAULT_GETRANDOM), 1, EINTR);
	fault_add(&(struct fault_rule){ .calls = FAULT_BIT(FAULT_GETRANDOM),
	    .what = FAULT_SHORT,
	    .at = 2,
	    .times = FAULT_FOREVER,
	    .bytes = 5 });
	assert_ok(file_random(a, sizeof(a), &e), &e);
	assert_ok(file_random(b, sizeof(b), &e), &e);
	assert_memory_not_equal(a, b, 64);
	/* Zeros all along are possible once in 2^64 runs. */
	assert_memory_not_equal(a + 56, (const uint8_t[8]){ 0 }, 8);
	fault_reset();
	fault_once(FAULT_BIT(FAULT_GETRANDOM), 1, EIO);
	assert_err(file_random(a, 8, &e), &e, ERR_SYS, "random");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		SCRATCH_TEST(transfers_survive_short_and_eintr),
		SCRATCH_TEST(pread_needs_all),
		SCRATCH_TEST(writes_report_errors),
		SCRATCH_TEST(opens_regular_files),
		SCRATCH_TEST(refuses_what_is_no_file),
		SCRATCH_TEST(reads_within_its_limit),
		SCRATCH_TEST(huge_file_takes_no_memory),
		SCRATCH_TEST(reads_a_changing_file),
		SCRATCH_TEST(opens_directories),
		SCRATCH_TEST(refuses_directories),
		SCRATCH_TEST(stats_names_unfollowed),
		SCRATCH_TEST(touches_atime_only),
		SCRATCH_TEST(unlinks),
		SCRATCH_TEST(lists_sorted),
		SCRATCH_TEST(walk_ends_with_its_callback),
		SCRATCH_TEST(random_fills_all),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
