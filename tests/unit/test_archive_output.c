/* SPDX-License-Identifier: MIT */
/*
 * Archives given to pipes that are read slowly or not at all, and to targets
 * that fail.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "index/archive.h"
#include "tests/support/restorefix.h"

#define CHUNK RESTOREFIX_CHUNK
#define IMG "root.img.fidx"
#define OUT "out"

static const enum archive_output modes[] = { ARCHIVE_APPEND,
	ARCHIVE_SPARSE_FILE, ARCHIVE_OVERWRITE, ARCHIVE_OVERWRITE_CHANGED };

static int extract(
    struct restorefix *f, enum archive_output how, struct archive_result *ret)
{
	f->e = (struct err)ERR_INIT;
	return archive_extract(
	    f->archive, f->out, how, "the target", &f->task, ret, &f->e);
}

/* 12 chunks and a piece: random, zeros, half zeros, zeros at the end. */
static size_t make_image(struct restorefix *f)
{
	size_t n = 12 * CHUNK + 999;
	uint8_t *p = restorefix_bytes(f, GEN_RANDOM, n);

	memset(p + 2 * CHUNK, 0, 4 * CHUNK);
	memset(p + 7 * CHUNK, 0, CHUNK / 2);
	memset(p + 9 * CHUNK, 0, 2 * CHUNK);
	return n;
}

/* What a target holds before, for the ways that need one. */
static void make_target(struct restorefix *f, enum archive_output how, size_t n)
{
	uint8_t *p = calloc(1, n + 1);

	assert_non_null(p);
	memset(p, 'x', n);
	tmpdir_put(f->dir.fd, OUT, p,
	    how == ARCHIVE_APPEND || how == ARCHIVE_SPARSE_FILE ? 0 : n);
	free(p);
	restorefix_target(f, OUT, O_RDWR);
}

/* The other end of a pipe. */
struct reader {
	pthread_t thread;
	int fd;
	size_t most; /* per read */
	struct buf got;
};

static void *read_all(void *arg)
{
	struct reader *r = arg;
	struct err e = ERR_INIT;
	uint8_t piece[8192];
	ssize_t n = 0;

	do {
		n = read(r->fd, piece, r->most);
		if (n > 0 && buf_append(&r->got, piece, (size_t)n, &e) < 0)
			abort();
	} while (n > 0);
	return NULL;
}

/* Into a pipe that is read a little at a time. */
static void check_pipe(struct restorefix *f, size_t most, int flags, size_t n)
{
	struct reader r = { .most = most, .got = BUF_INIT };
	struct archive_result result;
	int ends[2];
	int rc = 0;

	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	assert_int_equal(fcntl(ends[1], F_SETFL, flags), 0);
	r.fd = ends[0];
	assert_int_equal(pthread_create(&r.thread, NULL, read_all, &r), 0);
	rc = archive_extract(f->archive, ends[1], ARCHIVE_APPEND, "pipe",
	    &f->task, &result, &f->e);
	(void)close(ends[1]);
	(void)pthread_join(r.thread, NULL);
	(void)close(ends[0]);
	assert_ok(rc, &f->e);
	assert_int_equal(result.bytes_written, n);
	assert_int_equal(r.got.len, n);
	assert_true(memcmp(r.got.data, f->own, n) == 0);
	buf_release(&r.got);
}

static void appends_to_pipes(void **state)
{
	static const int errors[] = { EINTR, EAGAIN };
	struct restorefix *f = *state;
	size_t n = make_image(f);

	restorefix_push(f, IMG, f->own, n);
	assert_ok(restorefix_open(f, "root.img"), &f->e);
	check_pipe(f, 8192, 0, n);
	check_pipe(f, 611, 0, n);
	/* A parent that left it so must not make it fail. */
	check_pipe(f, 4096, O_NONBLOCK, n);
	fault_install();
	fault_add(&(struct fault_rule){ .calls = FAULT_BIT(FAULT_WRITE),
	    .what = FAULT_SHORT,
	    .at = 1,
	    .times = FAULT_FOREVER,
	    .bytes = 1000 });
	check_pipe(f, 8192, 0, n);
	for (size_t i = 0; i < TEST_COUNT(errors); i++) {
		fault_reset();
		fault_add(
		    &(struct fault_rule){ .calls = FAULT_BIT(FAULT_WRITE) |
			    (errors[i] == EINTR ? FAULT_BIT(FAULT_POLL) : 0),
			.what = FAULT_FAIL,
			.at = 3,
			.times = 2,
			.error = errors[i] });
		check_pipe(f, 8192, 0, n);
		assert_int_equal(fault_hits(), 2);
	}
}

/* When there was no room for a while, somebody asks to stop. */
static void stop_when_full(void *ctx, struct fault_event *ev)
{
	struct restorefix *f = ctx;

	if (ev->call == FAULT_POLL && ev->result == 0)
		f->task.stop = SIGTERM;
}

static void stops_though_nobody_reads(void **state)
{
	struct restorefix *f = *state;
	struct fault_hooks hooks = { .after = stop_when_full, .ctx = f };
	size_t n = make_image(f);
	struct archive_result r;
	int ends[2];
	int rc = 0;

	restorefix_push(f, IMG, f->own, n);
	assert_ok(restorefix_open(f, "root.img"), &f->e);
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	/* So that no chunk fits exactly. */
	assert_int_equal(write(ends[1], "x", 1), 1);
	fault_install();
	fault_set_hooks(&hooks);
	rc = archive_extract(
	    f->archive, ends[1], ARCHIVE_APPEND, "pipe", &f->task, &r, &f->e);
	(void)close(ends[0]);
	(void)close(ends[1]);
	assert_err(rc, &f->e, ERR_CANCELLED, "SIGTERM");
}

static void is_told_of_a_closed_pipe(void **state)
{
	struct restorefix *f = *state;
	struct sigaction ignore = { .sa_handler = SIG_IGN };
	size_t n = make_image(f);
	struct archive_result r;
	int ends[2];
	int rc = 0;

	assert_int_equal(sigaction(SIGPIPE, &ignore, NULL), 0);
	restorefix_push(f, IMG, f->own, n);
	assert_ok(restorefix_open(f, "root.img"), &f->e);
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	(void)close(ends[0]);
	rc = archive_extract(
	    f->archive, ends[1], ARCHIVE_APPEND, "pipe", &f->task, &r, &f->e);
	(void)close(ends[1]);
	assert_err(rc, &f->e, ERR_SYS, "write 'pipe'");
	assert_int_equal(f->e.sys_errno, EPIPE);
	assert_int_equal(restorefix_list_lines(f), 0);
}

static void is_told_of_failed_writes(void **state)
{
	static const struct {
		enum archive_output how;
		enum fault_call call;
		uint64_t at;
		int error;
		const char *text;
	} cases[] = {
		{ ARCHIVE_APPEND, FAULT_WRITE, 2, ENOSPC, "write" },
		{ ARCHIVE_APPEND, FAULT_STATX, 1, EIO, "'the target'" },
		{ ARCHIVE_SPARSE_FILE, FAULT_FTRUNCATE, 1, EFBIG,
		    "set the size of" },
		{ ARCHIVE_SPARSE_FILE, FAULT_PWRITE, 1, EDQUOT, "write" },
		{ ARCHIVE_OVERWRITE, FAULT_PWRITE, 5, EIO, "write" },
		{ ARCHIVE_OVERWRITE_CHANGED, FAULT_PWRITE, 13, EIO, "write" },
	};
	struct restorefix *f = *state;
	size_t n = make_image(f);
	struct archive_result r;

	restorefix_push(f, IMG, f->own, n);
	for (size_t i = 0; i < TEST_COUNT(cases); i++) {
		assert_ok(restorefix_open(f, "root.img"), &f->e);
		assert_ok(archive_check(f->archive, &f->task, &f->e), &f->e);
		make_target(f, cases[i].how, n);
		fault_install();
		fault_once(
		    FAULT_BIT(cases[i].call), cases[i].at, cases[i].error);
		assert_err(extract(f, cases[i].how, &r), &f->e, ERR_SYS,
		    cases[i].text);
		assert_non_null(strstr(f->e.msg, "'the target'"));
		assert_int_equal(f->e.sys_errno, cases[i].error);
		assert_int_equal(fault_hits(), 1);
		fault_uninstall();
	}
	/* None of it says anything of the store. */
	assert_int_equal(restorefix_list_lines(f), 0);
	assert_int_equal(f->messages.len, 0);
}

/* A target that can not be read can not be compared. */
static void is_told_of_failed_reads_of_the_target(void **state)
{
	struct restorefix *f = *state;
	size_t n = make_image(f);
	struct archive_result r;

	restorefix_push(f, IMG, f->own, n);
	assert_ok(restorefix_open(f, "root.img"), &f->e);
	make_target(f, ARCHIVE_OVERWRITE, n);
	restorefix_target(f, OUT, O_WRONLY);
	assert_err(extract(f, ARCHIVE_OVERWRITE_CHANGED, &r), &f->e, ERR_SYS,
	    "read 'the target'");
}

static void stops_at_once(void **state)
{
	struct restorefix *f = *state;
	size_t n = make_image(f);
	struct archive_result r;

	restorefix_push(f, IMG, f->own, n);
	assert_ok(restorefix_open(f, "root.img"), &f->e);
	f->task.stop = SIGINT;
	for (size_t i = 0; i < TEST_COUNT(modes); i++) {
		make_target(f, ARCHIVE_APPEND, 0);
		assert_err(extract(f, modes[i], &r), &f->e, ERR_CANCELLED,
		    "stopped by");
		restorefix_assert_file(f, OUT, "", 0);
	}
}

/* While the chunks are loaded: what is out is a beginning of it. */
static void stop_at_chunk(void *ctx, struct fault_event *ev)
{
	struct restorefix *f = ctx;

	if (ev->call == FAULT_OPENAT &&
	    fault_count(FAULT_BIT(FAULT_OPENAT)) == 5)
		f->task.stop = SIGINT;
}

static void stops_on_the_way(void **state)
{
	struct restorefix *f = *state;
	struct fault_hooks hooks = { .before = stop_at_chunk, .ctx = f };
	size_t n = make_image(f);
	struct archive_result r;
	struct stat st;

	restorefix_push(f, IMG, f->own, n);
	assert_ok(restorefix_open(f, "root.img"), &f->e);
	make_target(f, ARCHIVE_APPEND, 0);
	fault_install();
	fault_set_hooks(&hooks);
	assert_err(extract(f, ARCHIVE_APPEND, &r), &f->e, ERR_CANCELLED, "");
	assert_int_equal(fstat(f->out, &st), 0);
	assert_true((size_t)st.st_size < n);
	restorefix_assert_file(f, OUT, f->own, (size_t)st.st_size);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		RESTOREFIX_TEST(appends_to_pipes),
		RESTOREFIX_TEST(stops_though_nobody_reads),
		RESTOREFIX_TEST(is_told_of_a_closed_pipe),
		RESTOREFIX_TEST(is_told_of_failed_writes),
		RESTOREFIX_TEST(is_told_of_failed_reads_of_the_target),
		RESTOREFIX_TEST(stops_at_once),
		RESTOREFIX_TEST(stops_on_the_way),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
