/* SPDX-License-Identifier: MIT */
/*
 * Making a datastore, with every system call and every allocation failing in
 * turn, or the process dying at it.  A failed init has left nothing; if it
 * could not clean up, or died, there is no datastore and the next init makes
 * one.  What the directory held before is untouched.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/dsfix.h"
#include "tests/support/failmalloc.h"

/* What init finds. */
enum before { NO_DIRECTORY, SOME_FILES, INTERRUPTED, BEFORE_KINDS };

/* Forget the store of the round before. */
static void prepare(struct dsfix *f, enum before before)
{
	datastore_close(f->ds);
	f->ds = NULL;
	tmpdir_remove(&f->dir);
	tmpdir_make(&f->dir);
	(void)snprintf(f->path, sizeof(f->path), "%s/store", f->dir.path);
	f->e = (struct err)ERR_INIT;
	if (before == NO_DIRECTORY)
		return;
	dsfix_mkdir(f, "lost+found");
	dsfix_put(f, ".profile", "x");
	if (before != INTERRUPTED)
		return;
	dsfix_mkdir(f, ".cairn/sessions");
	dsfix_put(f, ".cairn/format", "{}");
	dsfix_put(f, ".lock", "");
	dsfix_mkdir(f, ".chunks.init");
}

/* A disk takes its time: only those that are to fail are asked to sync. */
static void skip_sync(void *ctx, struct fault_event *ev)
{
	uint64_t *seen = ctx;
	uint64_t hits = fault_hits();
	bool struck = hits != *seen;

	*seen = hits;
	if (struck || (ev->call != FAULT_FSYNC && ev->call != FAULT_SYNCFS))
		return;
	ev->skip = true;
	ev->result = 0;
}

/* rule may be NULL.  Returns how often it struck. */
static uint64_t init_with(
    struct dsfix *f, const struct fault_rule *rule, int *ret_rc)
{
	uint64_t hits = 0;
	struct fault_hooks hooks = { .before = skip_sync, .ctx = &hits };

	f->e = (struct err)ERR_INIT;
	fault_install();
	fault_set_hooks(&hooks);
	if (rule != NULL)
		fault_add(rule);
	*ret_rc = datastore_init(f->path, NULL, &f->task, &f->e);
	hits = fault_hits();
	fault_uninstall();
	return hits;
}

static int init(struct dsfix *f)
{
	int rc = 0;

	(void)init_with(f, NULL, &rc);
	return rc;
}

static void assert_kept(struct dsfix *f, enum before before)
{
	if (before == NO_DIRECTORY)
		return;
	assert_true(dsfix_has(f, "lost+found"));
	assert_true(dsfix_has(f, ".profile"));
}

/* Nothing of ours but what was there before. */
static void assert_nothing_left(struct dsfix *f, enum before before)
{
	size_t n = 0;
	int fd = -1;

	if (before == NO_DIRECTORY) {
		assert_int_equal(tmpdir_count(f->dir.fd, ""), 0);
		return;
	}
	fd = openat(f->dir.fd, "store", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(fd >= 0);
	n = tmpdir_count(fd, "");
	(void)close(fd);
	if (before == SOME_FILES)
		assert_int_equal(n, 2);
	/* `.lock` and the like may be its own anew, and go. */
	if (before == INTERRUPTED)
		assert_true(n <= 5);
	assert_false(dsfix_has(f, ".chunks"));
}

/* A whole datastore; or none, and the next init makes it. */
static void assert_way_out(struct dsfix *f, enum before before)
{
	assert_kept(f, before);
	if (!dsfix_has(f, ".chunks")) {
		int rc = dsfix_open(f, DATASTORE_READ);

		assert_err(rc, &f->e, ERR_NOTFOUND, "");
		rc = init(f);
		assert_ok(rc, &f->e);
	}
	assert_ok(dsfix_open(f, DATASTORE_WRITE), &f->e);
	assert_true(f->ds->has_format);
	assert_false(dsfix_has(f, ".chunks.init"));
	assert_int_equal(tmpdir_count(f->ds->cairn_fd, ""), 4);
	assert_kept(f, before);
}

static void run_faults(
    struct dsfix *f, enum before before, enum fault_what what, uint64_t times)
{
	for (uint64_t n = 1;; n++) {
		const struct fault_rule rule = {
			.calls = FAULT_ANY,
			.what = what,
			.at = n,
			.times = times,
			.error = EIO,
		};
		uint64_t hits = 0;
		int rc = 0;

		prepare(f, before);
		hits = init_with(f, &rule, &rc);
		if (hits == 0) {
			assert_ok(rc, &f->e);
			assert_true(n > 30);
			break;
		}
		if (rc < 0)
			assert_int_equal(rc, ERR_SYS);
		/* A call of the locks' other process struck once more here. */
		if (rc < 0 && what == FAULT_FAIL && times == 1 &&
		    !dsfix_has(f, ".chunks") &&
		    strstr(f->e.msg, "from another process") == NULL)
			assert_nothing_left(f, before);
		assert_way_out(f, before);
	}
}

/* One call fails, and everything that cleans up works. */
static void test_one_fails(void **state)
{
	for (enum before b = NO_DIRECTORY; b < BEFORE_KINDS; b++)
		run_faults(*state, b, FAULT_FAIL, 1);
}

/* One call is done and yet reported as failed. */
static void test_one_fails_after(void **state)
{
	run_faults(*state, SOME_FILES, FAULT_FAIL_AFTER, 1);
}

/* The disk is gone from there on: nothing can be cleaned up. */
static void test_all_fail(void **state)
{
	run_faults(*state, SOME_FILES, FAULT_FAIL, FAULT_FOREVER);
}

/* The process dies; true if it did. */
static bool die_at(struct dsfix *f, uint64_t n)
{
	const struct fault_rule rule = {
		.calls = FAULT_CHANGES,
		.what = FAULT_KILL,
		.at = n,
		.times = 1,
	};
	pid_t pid = fork();
	int status = 0;

	assert_true(pid >= 0);
	if (pid == 0) {
		int rc = 0;

		(void)init_with(f, &rule, &rc);
		_exit(rc < 0 ? 1 : 0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (WIFSIGNALED(status)) {
		assert_int_equal(WTERMSIG(status), SIGKILL);
		return true;
	}
	assert_int_equal(status, 0);
	return false;
}

static void test_killed(void **state)
{
	struct dsfix *f = *state;

	for (enum before b = NO_DIRECTORY; b < BEFORE_KINDS; b++) {
		uint64_t n = 0;

		do {
			prepare(f, b);
			n++;
			if (!die_at(f, n))
				break;
			assert_way_out(f, b);
		} while (true);
		assert_true(n > 15);
	}
}

static void test_memory(void **state)
{
	struct dsfix *f = *state;
	uint64_t failed = 0;
	uint64_t n = 0;

	do {
		int rc = 0;

		prepare(f, SOME_FILES);
		failmalloc_at(++n);
		rc = init(f);
		failed = failmalloc_off();
		if (failed > 0) {
			assert_err(rc, &f->e, ERR_NOMEM, "memory");
			assert_nothing_left(f, SOME_FILES);
		} else {
			assert_ok(rc, &f->e);
		}
		assert_way_out(f, SOME_FILES);
	} while (failed > 0);
	assert_true(n > 2);
}

/* The whole layout of Proxmox Backup Server, on this file system. */
static void test_pbs_layout(void **state)
{
	const struct datastore_init_opts opts = { .pbs_layout = true };
	struct dsfix *f = *state;
	char name[16];
	int rc = 0;

	prepare(f, NO_DIRECTORY);
	rc = datastore_init(f->path, &opts, &f->task, &f->e);
	/* Some file systems do not have it. */
	if (rc == ERR_UNSUPPORTED)
		assert_nothing_left(f, NO_DIRECTORY);
	else
		assert_ok(rc, &f->e);
	for (unsigned i = 0; rc == 0 && i < STORE_PREFIXES; i++) {
		(void)snprintf(name, sizeof(name), ".chunks/%04x", i);
		assert_true(dsfix_has(f, name));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		DSFIX_TEST(test_one_fails),
		DSFIX_TEST(test_one_fails_after),
		DSFIX_TEST(test_all_fail),
		DSFIX_TEST(test_killed),
		DSFIX_TEST(test_memory),
		DSFIX_TEST(test_pbs_layout),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
