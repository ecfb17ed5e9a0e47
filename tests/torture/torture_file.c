/* SPDX-License-Identifier: MIT */
/*
 * Every operation of file.h and its neighbours, with every system call and
 * every allocation failing in turn: it says so, with the right code, leaves
 * its outputs and the directory as they were, and leaks nothing.
 */
#include "tests/support/test.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "datastore/base/digest.h"
#include "datastore/base/file.h"
#include "datastore/base/text.h"
#include "tests/support/failmalloc.h"
#include "tests/support/fault.h"
#include "tests/support/scratch.h"

/* Files that are only read, and directories, need no good end. */
#define CLOSES (FAULT_BIT(FAULT_CLOSE) | FAULT_BIT(FAULT_CLOSEDIR))
#define MUST_WORK (FAULT_ANY & ~CLOSES)

/* Calls that are repeated when a signal comes in between. */
#define REPEATED                                               \
	(FAULT_BIT(FAULT_OPENAT) | FAULT_BIT(FAULT_CREATE) |   \
	    FAULT_BIT(FAULT_READ) | FAULT_BIT(FAULT_PREAD) |   \
	    FAULT_BIT(FAULT_WRITE) | FAULT_BIT(FAULT_PWRITE) | \
	    FAULT_BIT(FAULT_FSYNC) | FAULT_BIT(FAULT_STATX) |  \
	    FAULT_BIT(FAULT_UTIMENSAT) | FAULT_BIT(FAULT_GETRANDOM) | CLOSES)

#define TRANSFERS                                              \
	(FAULT_BIT(FAULT_READ) | FAULT_BIT(FAULT_PREAD) |      \
	    FAULT_BIT(FAULT_WRITE) | FAULT_BIT(FAULT_PWRITE) | \
	    FAULT_BIT(FAULT_GETRANDOM))

#define OLD "the old content"
#define NEW "something new"

static const struct file_owner self = { .change = false };

/* An operation checks its own outputs, and undoes what it did. */
typedef int (*operation)(struct scratch *s, struct err *e);

static int op_read(struct scratch *s, struct err *e)
{
	int rc = 0;

	buf_release(&s->buf);
	rc = file_read_at(s->dir, "a", 100, &s->buf, "a", e);
	if (rc == 0) {
		assert_int_equal(s->buf.len, strlen(OLD));
	} else {
		assert_int_equal(s->buf.len, 0);
	}
	return rc;
}

/* Without memory of its own: it may just be out. */
static void assert_size(const struct scratch *s, const char *name, size_t n)
{
	struct stat st;

	assert_int_equal(fstatat(s->dir, name, &st, 0), 0);
	assert_int_equal(st.st_size, n);
}

static int op_replace(struct scratch *s, struct err *e)
{
	struct file_owner owner = {
		.change = true, .uid = geteuid(), .gid = getegid()
	};
	int rc = file_replace_at(s->dir, "a", NEW, strlen(NEW), &owner, "a", e);

	if (rc == 0) {
		assert_size(s, "a", strlen(NEW));
		tmpdir_put_str(s->dir, "a", OLD);
	}
	return rc;
}

static int op_open_dir(struct scratch *s, struct err *e)
{
	int fd = -7;
	int rc = file_open_dir(s->dir, "d/e", &fd, "d/e", e);

	if (rc < 0) {
		assert_int_equal(fd, -7);
	} else {
		file_close(&fd);
	}
	return rc;
}

static int op_make_dir(struct scratch *s, struct err *e)
{
	int rc = file_make_dir(s->dir, "n", 0755, &self, "n", e);

	if (rc == 0)
		assert_int_equal(unlinkat(s->dir, "n", AT_REMOVEDIR), 0);
	return rc;
}

static int op_make_tmp(struct scratch *s, struct err *e)
{
	char name[16] = "untouched";
	int fd = -7;
	int rc = file_make_tmp(s->dir, "t_", &self, &fd, name, "t", e);

	if (rc < 0) {
		assert_int_equal(fd, -7);
		assert_string_equal(name, "untouched");
	} else {
		assert_int_equal(unlinkat(s->dir, name, 0), 0);
		file_close(&fd);
	}
	return rc;
}

static int op_list(struct scratch *s, struct err *e)
{
	char **names = NULL;
	size_t n = 99;
	int rc = file_list(s->dir, &names, &n, ".", e);

	if (rc < 0) {
		assert_null(names);
		assert_int_equal(n, 99);
	} else {
		assert_int_equal(n, 2);
		assert_string_equal(names[1], "d");
	}
	file_list_free(names);
	return rc;
}

static int op_touch_and_stat(struct scratch *s, struct err *e)
{
	struct statx st = { .stx_size = 99 };
	bool found = false;
	int rc = file_touch_at(s->dir, "a", &found, "a", e);

	if (rc < 0) {
		assert_false(found);
		return rc;
	}
	assert_true(found);
	found = false;
	rc = file_stat_at(s->dir, "a", &st, &found, "a", e);
	assert_int_equal(found, rc == 0);
	assert_int_equal(st.stx_size, rc == 0 ? strlen(OLD) : 99);
	return rc;
}

static int op_transfer(struct scratch *s, struct err *e)
{
	char got[sizeof(OLD)] = "";
	int fd = openat(s->dir, "a", O_RDWR | O_CLOEXEC);
	int rc = file_pwrite_fully(fd, OLD, strlen(OLD), 0, "a", e);

	if (rc == 0)
		rc = file_sync(fd, "a", e);
	if (rc == 0)
		rc = file_pread_exact(fd, got, strlen(OLD), 0, "a", e);
	if (rc == 0)
		assert_string_equal(got, OLD);
	assert_int_equal(close(fd), 0);
	return rc;
}

static int op_unlink(struct scratch *s, struct err *e)
{
	int rc = file_unlink_at(s->dir, "a", "a", e);

	if (rc == 0) {
		assert_int_equal(tmpdir_count(s->dir, ""), 1);
		tmpdir_put_str(s->dir, "a", OLD);
	}
	return rc;
}

static int op_text(struct scratch *s, struct err *e)
{
	static const char name[] = "line\nfeed";
	int rc = 0;

	buf_release(&s->buf);
	for (size_t i = 0; i < 100 && rc == 0; i++) {
		size_t before = s->buf.len;

		rc = text_append_name(&s->buf, name, sizeof(name) - 1, e);
		assert_int_equal(s->buf.len, rc == 0 ? before + 10 : before);
	}
	if (rc == 0)
		rc = buf_append_fmt(&s->buf, e, "%01000d", 7);
	if (rc == 0 && buf_cstr(&s->buf, e) == NULL)
		rc = e->code;
	return rc;
}

static int op_digest(struct scratch *s, struct err *e)
{
	struct digest_ctx *c = NULL;
	struct digest d;
	int rc = digest_ctx_new(&c, e);

	(void)s;
	if (rc < 0) {
		assert_null(c);
	} else {
		rc = digest_ctx_final(c, &d, e);
	}
	digest_ctx_free(c);
	return rc;
}

static const struct {
	const char *name;
	operation run;
} operations[] = {
	{ "read", op_read },
	{ "replace", op_replace },
	{ "open_dir", op_open_dir },
	{ "make_dir", op_make_dir },
	{ "make_tmp", op_make_tmp },
	{ "list", op_list },
	{ "touch_and_stat", op_touch_and_stat },
	{ "transfer", op_transfer },
	{ "unlink", op_unlink },
	{ "text", op_text },
	{ "digest", op_digest },
};

static void prepare(struct scratch *s)
{
	tmpdir_put_str(s->dir, "a", OLD);
	assert_int_equal(mkdirat(s->dir, "d", 0755), 0);
	assert_int_equal(mkdirat(s->dir, "d/e", 0755), 0);
}

/* Nothing but "a" and "d", and "a" is whole: the old, or the new one. */
static void assert_clean(struct scratch *s)
{
	char *got = tmpdir_get(s->dir, "a", NULL);

	assert_non_null(got);
	assert_true(strcmp(got, OLD) == 0 || strcmp(got, NEW) == 0);
	free(got);
	assert_int_equal(tmpdir_count(s->dir, ""), 2);
	tmpdir_put_str(s->dir, "a", OLD);
}

/* Returns how many calls there are to fail. */
static uint64_t fail_calls(
    struct scratch *s, size_t op, uint64_t calls, int error, bool must_fail)
{
	size_t fds = tmpdir_open_fds();
	struct err e = ERR_INIT;
	uint64_t n = 1;

	for (;; n++) {
		int rc = 0;

		fault_reset();
		fault_once(calls, n, error);
		rc = operations[op].run(s, &e);
		assert_int_equal(tmpdir_open_fds(), fds);
		if (fault_hits() == 0) {
			assert_ok(rc, &e);
			return n - 1;
		}
		if (must_fail && !err_is_sys(&e, error)) {
			fail_msg("%s, call %u: returned %d: %s",
			    operations[op].name, (unsigned)n, rc, e.msg);
		}
		if (must_fail)
			assert_int_equal(rc, ERR_SYS);
		assert_clean(s);
	}
}

static void every_call_fails(void **state)
{
	struct scratch *s = *state;
	uint64_t calls = 0;

	prepare(s);
	for (size_t op = 0; op < TEST_COUNT(operations); op++) {
		calls += fail_calls(s, op, MUST_WORK, EIO, true);
		calls += fail_calls(s, op, MUST_WORK, ENOSPC, true);
		calls += fail_calls(s, op, CLOSES, EIO, false);
	}
	/* If the table is not in front, nothing fails. */
	assert_true(calls > 60);
}

/* Where removing fails too, something stays. */
static void sweep(struct scratch *s)
{
	struct err e = ERR_INIT;
	size_t n = 0;

	fault_reset();
	assert_ok(file_list(s->dir, &s->names, &n, ".", &e), &e);
	for (size_t i = 0; i < n; i++) {
		const char *name = s->names[i];

		if (strcmp(name, "a") == 0 || strcmp(name, "d") == 0)
			continue;
		if (unlinkat(s->dir, name, 0) < 0) {
			assert_int_equal(
			    unlinkat(s->dir, name, AT_REMOVEDIR), 0);
		}
	}
	file_list_free(s->names);
	s->names = NULL;
	assert_clean(s);
}

static void every_call_from_then_on_fails(void **state)
{
	struct scratch *s = *state;
	struct err e = ERR_INIT;
	size_t fds = 0;

	prepare(s);
	fds = tmpdir_open_fds();
	for (size_t op = 0; op < TEST_COUNT(operations); op++) {
		for (uint64_t n = 1;; n++) {
			int rc = 0;

			fault_reset();
			fault_add(&(struct fault_rule){ .calls = MUST_WORK,
			    .what = FAULT_FAIL,
			    .at = n,
			    .times = FAULT_FOREVER,
			    .error = EROFS });
			rc = operations[op].run(s, &e);
			assert_int_equal(tmpdir_open_fds(), fds);
			if (fault_hits() == 0)
				break;
			assert_err(rc, &e, ERR_SYS, "Read-only");
			sweep(s);
		}
	}
}

static void signals_and_short_transfers_do_not_matter(void **state)
{
	struct scratch *s = *state;
	struct err e = ERR_INIT;
	uint64_t hits = 0;

	prepare(s);
	for (size_t op = 0; op < TEST_COUNT(operations); op++) {
		for (uint64_t n = 1;; n++) {
			int rc = 0;

			fault_reset();
			fault_once(REPEATED, n, EINTR);
			rc = operations[op].run(s, &e);
			assert_ok(rc, &e);
			if (fault_hits() == 0)
				break;
			hits += fault_hits();
			assert_clean(s);
		}
		fault_reset();
		fault_add(&(struct fault_rule){ .calls = TRANSFERS,
		    .what = FAULT_SHORT,
		    .at = 1,
		    .times = FAULT_FOREVER,
		    .bytes = 1 });
		assert_ok(operations[op].run(s, &e), &e);
		hits += fault_hits();
		assert_clean(s);
	}
	assert_true(hits > 60);
}

/* Done, yet reported as failed: what is there then is not known, but whole. */
static void lost_answers_do_no_harm(void **state)
{
	struct scratch *s = *state;
	struct err e = ERR_INIT;
	size_t fds = 0;

	prepare(s);
	fds = tmpdir_open_fds();
	for (uint64_t n = 1;; n++) {
		char *got = NULL;
		int rc = 0;

		tmpdir_put_str(s->dir, "a", OLD);
		fault_reset();
		fault_add(&(struct fault_rule){ .calls = FAULT_ANY,
		    .what = FAULT_FAIL_AFTER,
		    .at = n,
		    .times = 1,
		    .error = EIO });
		rc = file_replace_at(
		    s->dir, "a", NEW, strlen(NEW), &self, "a", &e);
		assert_int_equal(tmpdir_open_fds(), fds);
		if (fault_hits() == 0) {
			assert_ok(rc, &e);
			break;
		}
		assert_err(rc, &e, ERR_SYS, "'a'");
		got = tmpdir_get(s->dir, "a", NULL);
		assert_true(strcmp(got, OLD) == 0 || strcmp(got, NEW) == 0);
		free(got);
	}
}

static void every_allocation_fails(void **state)
{
	struct scratch *s = *state;
	uint64_t failed = 0;

	prepare(s);
	for (size_t op = 0; op < TEST_COUNT(operations); op++) {
		size_t fds = tmpdir_open_fds();

		for (uint64_t n = 1;; n++) {
			struct err e = ERR_INIT;
			uint64_t hits = 0;
			int rc = 0;

			failmalloc_at(n);
			rc = operations[op].run(s, &e);
			hits = failmalloc_off();
			assert_int_equal(tmpdir_open_fds(), fds);
			if (hits == 0) {
				assert_ok(rc, &e);
				break;
			}
			failed += hits;
			assert_err(rc, &e, ERR_NOMEM, "out of memory");
			assert_clean(s);
		}
	}
	/* If the linker does not wrap malloc, nothing fails. */
	assert_true(failed >= 6);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		SCRATCH_TEST(every_call_fails),
		SCRATCH_TEST(every_call_from_then_on_fails),
		SCRATCH_TEST(signals_and_short_transfers_do_not_matter),
		SCRATCH_TEST(lost_answers_do_no_harm),
		SCRATCH_TEST(every_allocation_fails),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
