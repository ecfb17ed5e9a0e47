/* SPDX-License-Identifier: MIT */
/* The part of file.h that makes and replaces. */
#include "tests/support/test.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "datastore/base/file.h"
#include "tests/support/fault.h"
#include "tests/support/scratch.h"
#include "tests/support/tmpdir.h"

static const struct file_owner self = { .change = false };

/* As root somebody else; otherwise all that may be said is who we are. */
static struct file_owner some_owner(void)
{
	struct file_owner owner = {
		.change = true, .uid = geteuid(), .gid = getegid()
	};

	if (owner.uid == 0) {
		owner.uid = 4711;
		owner.gid = 4712;
	}
	return owner;
}

static void assert_made(struct scratch *f, const char *name, unsigned mode,
    const struct file_owner *owner)
{
	struct stat st;

	assert_int_equal(fstatat(f->dir, name, &st, AT_SYMLINK_NOFOLLOW), 0);
	assert_int_equal(st.st_mode & 07777, mode);
	assert_int_equal(st.st_uid, owner->change ? owner->uid : geteuid());
	assert_int_equal(st.st_gid, owner->change ? owner->gid : getegid());
}

static void makes_directories(void **state)
{
	struct file_owner other = some_owner();
	struct scratch *f = *state;
	struct err e = ERR_INIT;
	mode_t before = umask(077);

	assert_ok(file_make_dir(f->dir, "a", 0755, &self, "a", &e), &e);
	assert_ok(file_make_dir(f->dir, "b", 0750, &other, "b", &e), &e);
	(void)umask(before);
	assert_made(f, "a", 0755, &self);
	assert_made(f, "b", 0750, &other);
	assert_err(file_make_dir(f->dir, "a", 0755, &self, "p/a", &e), &e,
	    ERR_EXISTS, "'p/a'");
	fault_once(FAULT_BIT(FAULT_FCHMOD), 1, EPERM);
	assert_err(file_make_dir(f->dir, "c", 0755, &self, "c", &e), &e,
	    ERR_SYS, "mode of 'c'");
	fault_once(FAULT_BIT(FAULT_FCHOWN), 1, EPERM);
	assert_err(file_make_dir(f->dir, "c", 0755, &other, "c", &e), &e,
	    ERR_SYS, "owner of 'c'");
	assert_int_equal(tmpdir_count(f->dir, "c"), 0);
}

static void makes_temporary_files(void **state)
{
	struct file_owner other = some_owner();
	struct scratch *f = *state;
	struct err e = ERR_INIT;
	char name[64] = "";
	mode_t before = umask(077);

	assert_ok(
	    file_make_tmp(f->dir, "stem.tmp_", &other, &f->fd, name, "s", &e),
	    &e);
	(void)umask(before);
	assert_int_equal(strlen(name), strlen("stem.tmp_") + 6);
	assert_memory_equal(name, "stem.tmp_", 9);
	assert_int_equal(strspn(name + 9,
			     "abcdefghijklmnopqrstuvwxyz"
			     "ABCDEFGHIJKLMNOPQRSTUVWXYZ"),
	    6);
	assert_made(f, name, 0644, &other);
	assert_int_equal(write(f->fd, "x", 1), 1);
	scratch_assert_content(f, name, "x");
	assert_int_equal(fcntl(f->fd, F_GETFD), FD_CLOEXEC);
}

/* The kernel's random numbers are the same the first few times. */
static void repeat_random(void *ctx, struct fault_event *ev)
{
	unsigned *left = ctx;

	if (ev->call != FAULT_GETRANDOM || *left == 0)
		return;
	--*left;
	memset(ev->p, 0, ev->n);
}

static void temporary_names_do_not_collide(void **state)
{
	struct scratch *f = *state;
	struct err e = ERR_INIT;
	char name[16] = "";
	unsigned left = 5;
	int fd = -7;

	tmpdir_put_str(f->dir, "t_aaaaaa", "mine");
	fault_set_hooks(
	    &(struct fault_hooks){ .after = repeat_random, .ctx = &left });
	assert_ok(
	    file_make_tmp(f->dir, "t_", &self, &f->fd, name, "s", &e), &e);
	assert_string_not_equal(name, "t_aaaaaa");
	scratch_assert_content(f, "t_aaaaaa", "mine");
	left = UINT_MAX;
	assert_err(file_make_tmp(f->dir, "t_", &self, &fd, name, "s", &e), &e,
	    ERR_SYS, "temporary file for 's': File exists");
	assert_int_equal(fd, -7);
}

static void replaces(void **state)
{
	struct file_owner other = some_owner();
	struct scratch *f = *state;
	struct err e = ERR_INIT;
	mode_t before = umask(077);

	assert_ok(file_replace_at(f->dir, "a", "one", 3, &self, "a", &e), &e);
	scratch_assert_content(f, "a", "one");
	assert_made(f, "a", 0644, &self);
	assert_ok(file_replace_at(f->dir, "a", "", 0, &other, "a", &e), &e);
	(void)umask(before);
	scratch_assert_content(f, "a", "");
	assert_made(f, "a", 0644, &other);
	assert_int_equal(tmpdir_count(f->dir, ""), 1);
}

/* The link goes, what it leads to stays. */
static void replaces_a_link_itself(void **state)
{
	struct scratch *f = *state;
	struct err e = ERR_INIT;

	tmpdir_put_str(f->dir, "target", "target");
	assert_int_equal(symlinkat("target", f->dir, "link"), 0);
	assert_ok(
	    file_replace_at(f->dir, "link", "new", 3, &self, "link", &e), &e);
	scratch_assert_content(f, "target", "target");
	scratch_assert_content(f, "link", "new");
	assert_made(f, "link", 0644, &self);
}

static void replaces_no_directory(void **state)
{
	struct scratch *f = *state;
	struct err e = ERR_INIT;
	char name[300];

	assert_int_equal(mkdirat(f->dir, "dir", 0755), 0);
	assert_err(file_replace_at(f->dir, "dir", "x", 1, &self, "dir", &e), &e,
	    ERR_SYS, "rename to 'dir'");
	memset(name, 'n', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	assert_err(file_replace_at(f->dir, name, "x", 1, &self, "long", &e), &e,
	    ERR_SYS, "too long");
	name[250] = '\0';
	assert_err(file_replace_at(f->dir, name, "x", 1, &self, "long", &e), &e,
	    ERR_SYS, "too long");
	assert_int_equal(tmpdir_count(f->dir, ""), 1);
}

/* What must be on disk before what: the order of the calls. */
struct order {
	char text[64];
};

static void note_order(void *ctx, struct fault_event *ev)
{
	struct order *o = ctx;
	size_t len = strlen(o->text);
	char c = ev->call == FAULT_WRITE  ? 'w'
	    : ev->call == FAULT_FSYNC     ? 's'
	    : ev->call == FAULT_CLOSE     ? 'c'
	    : ev->call == FAULT_RENAMEAT2 ? 'r'
	    : ev->call == FAULT_CREATE    ? 'n'
					  : '\0';

	if (c != '\0' && len + 1 < sizeof(o->text)) {
		o->text[len] = c;
		o->text[len + 1] = '\0';
	}
}

static void replace_syncs_before_it_renames(void **state)
{
	struct order order = { .text = "" };
	struct scratch *f = *state;
	struct err e = ERR_INIT;

	fault_set_hooks(
	    &(struct fault_hooks){ .after = note_order, .ctx = &order });
	assert_ok(file_replace_at(f->dir, "a", "1", 1, &self, "a", &e), &e);
	assert_string_equal(order.text, "nwscrs");
}

/* Each call fails in turn: the old or the new file, whole, and nothing else. */
static void replace_fails_cleanly(void **state)
{
	static const int errors[] = { EIO, ENOSPC, EDQUOT, EACCES };
	struct file_owner other = some_owner();
	struct scratch *f = *state;
	struct err e = ERR_INIT;
	uint64_t n = 0;

	for (size_t i = 0; i < TEST_COUNT(errors); i++) {
		for (n = 1;; n++) {
			bool renamed = false;
			int rc = 0;

			tmpdir_put_str(f->dir, "a", "old");
			fault_reset();
			fault_once(FAULT_ANY, n, errors[i]);
			rc = file_replace_at(
			    f->dir, "a", "new", 3, &other, "a", &e);
			if (fault_hits() == 0) {
				assert_ok(rc, &e);
				break;
			}
			assert_err(rc, &e, ERR_SYS, "'a'");
			assert_true(err_is_sys(&e, errors[i]));
			/* Only the sync of the directory comes later. */
			renamed = fault_count(FAULT_BIT(FAULT_FSYNC)) == 2;
			scratch_assert_content(f, "a", renamed ? "new" : "old");
			assert_int_equal(tmpdir_count(f->dir, ""), 1);
		}
		/* random, create, own, mode, write, sync, close, rename, sync
		 */
		assert_int_equal(n, 10);
	}
}

/* A process that dies at any call leaves the old or the new file. */
static void replace_is_atomic(void **state)
{
	struct scratch *f = *state;
	int status = 0;

	for (uint64_t n = 1; !WIFEXITED(status) || n == 1; n++) {
		char *got = NULL;
		pid_t pid = 0;

		tmpdir_put_str(f->dir, "a", "old");
		pid = fork();
		if (pid == 0) {
			struct err e = ERR_INIT;

			fault_add(&(struct fault_rule){ .calls = FAULT_ANY,
			    .what = FAULT_KILL,
			    .at = n,
			    .times = 1 });
			_exit(file_replace_at(
				  f->dir, "a", "new", 3, &self, "a", &e) == 0
				? 0
				: 1);
		}
		assert_true(pid > 0);
		assert_int_equal(waitpid(pid, &status, 0), pid);
		got = tmpdir_get(f->dir, "a", NULL);
		assert_true(strcmp(got, "old") == 0 || strcmp(got, "new") == 0);
		if (WIFEXITED(status)) {
			assert_int_equal(WEXITSTATUS(status), 0);
			assert_string_equal(got, "new");
			assert_true(n > 5);
		}
		free(got);
	}
}

/* What a file system can do besides a plain rename. */
static void refuse(void *ctx, struct fault_event *ev)
{
	const int *error = ctx;

	if ((ev->call == FAULT_RENAMEAT2 && ev->flags != 0) ||
	    (ev->call == FAULT_LINKAT && error[1] != 0)) {
		ev->skip = true;
		ev->result = -1;
		ev->error = error[ev->call == FAULT_LINKAT];
	}
}

static void renames_over_nothing(void **state)
{
	static int errors[][2] = { { EINVAL, 0 }, { ENOSYS, 0 }, { EPERM, 0 },
		{ EOPNOTSUPP, EPERM }, { EINVAL, EOPNOTSUPP } };
	struct scratch *f = *state;
	struct err e = ERR_INIT;

	for (size_t i = 0; i <= TEST_COUNT(errors); i++) {
		struct stat st;

		if (i > 0) {
			fault_install();
			fault_set_hooks(&(struct fault_hooks){
			    .before = refuse, .ctx = errors[i - 1] });
		}
		tmpdir_put_str(f->dir, "old", "content");
		assert_ok(
		    file_rename_new(f->dir, "old", "new", "p/new", &e), &e);
		assert_int_equal(fstatat(f->dir, "new", &st, 0), 0);
		assert_int_equal(st.st_nlink, 1);
		assert_int_equal(tmpdir_count(f->dir, ""), 1);
		tmpdir_put_str(f->dir, "old", "other");
		assert_err(file_rename_new(f->dir, "old", "new", "p/new", &e),
		    &e, ERR_EXISTS, "'p/new' is already there");
		scratch_assert_content(f, "old", "other");
		scratch_assert_content(f, "new", "content");
		fault_uninstall();
		assert_int_equal(unlinkat(f->dir, "old", 0), 0);
		assert_int_equal(unlinkat(f->dir, "new", 0), 0);
	}
}

/* Where it fails it is still there, and the new name is not. */
static void a_rename_fails_whole(void **state)
{
	static int errors[][2] = { { EINVAL, 0 }, { EINVAL, EPERM } };
	static const uint64_t calls[] = { FAULT_BIT(FAULT_UNLINKAT),
		FAULT_BIT(FAULT_STATX) };
	struct scratch *f = *state;
	struct err e = ERR_INIT;

	tmpdir_put_str(f->dir, "old", "content");
	for (size_t i = 0; i < TEST_COUNT(errors); i++) {
		fault_install();
		fault_set_hooks(&(struct fault_hooks){
		    .before = refuse, .ctx = errors[i] });
		fault_once(calls[i], 1, EIO);
		assert_err(file_rename_new(f->dir, "old", "new", "p/new", &e),
		    &e, ERR_SYS, "rename to 'p/new'");
		assert_int_equal(fault_hits(), 1);
		fault_uninstall();
		scratch_assert_content(f, "old", "content");
		assert_int_equal(tmpdir_count(f->dir, ""), 1);
	}
	assert_err(file_rename_new(f->dir, "none", "new", "p/new", &e), &e,
	    ERR_SYS, "No such file");
}

/*
 * A call is done, and its reply is not what it was: over a network its repeat
 * is what answers.  There is always a name, and never the wrong content.
 */
static void no_name_is_lost_with_a_reply(void **state)
{
	static int errors[] = { EINVAL, 0 };
	static const struct {
		uint64_t calls;
		int error;
		bool done;
	} cases[] = {
		{ FAULT_BIT(FAULT_LINKAT), EEXIST, true },
		{ FAULT_BIT(FAULT_UNLINKAT), ENOENT, true },
		{ FAULT_BIT(FAULT_UNLINKAT), EIO, false },
	};
	struct scratch *f = *state;
	struct err e = ERR_INIT;

	for (size_t i = 0; i < TEST_COUNT(cases); i++) {
		int rc = 0;

		tmpdir_put_str(f->dir, "old", "content");
		fault_install();
		fault_set_hooks(
		    &(struct fault_hooks){ .before = refuse, .ctx = errors });
		fault_add(&(struct fault_rule){ .calls = cases[i].calls,
		    .what = FAULT_FAIL_AFTER,
		    .at = 1,
		    .times = 1,
		    .error = cases[i].error });
		rc = file_rename_new(f->dir, "old", "new", "p/new", &e);
		assert_int_equal(fault_hits(), 1);
		fault_uninstall();
		assert_int_equal(rc == 0, cases[i].done);
		scratch_assert_content(f, "new", "content");
		assert_int_equal(tmpdir_count(f->dir, ""), 1);
		assert_int_equal(unlinkat(f->dir, "new", 0), 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		SCRATCH_TEST(makes_directories),
		SCRATCH_TEST(makes_temporary_files),
		SCRATCH_TEST(temporary_names_do_not_collide),
		SCRATCH_TEST(replaces),
		SCRATCH_TEST(replaces_a_link_itself),
		SCRATCH_TEST(replaces_no_directory),
		SCRATCH_TEST(replace_syncs_before_it_renames),
		SCRATCH_TEST(replace_fails_cleanly),
		SCRATCH_TEST(replace_is_atomic),
		SCRATCH_TEST(renames_over_nothing),
		SCRATCH_TEST(a_rename_fails_whole),
		SCRATCH_TEST(no_name_is_lost_with_a_reply),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
