/* SPDX-License-Identifier: MIT */
/*
 * A restore that is killed before and after its n-th change, for each n: what
 * has its name is whole, with its mode; what else is there is named as
 * documented; and the next restore makes the rest.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "index/tree_restore.h"
#include "tests/support/rowfix.h"

#define ROOT CATALOG_ROOT_ID
#define CHUNK RESTOREFIX_CHUNK
#define LONG_SIZE (2 * CHUNK + 5)
#define FILES 12U
#define TMP ".cairn-restore."

static const struct tree_restore_opts opts = {
	.overwrite = TREE_OVERWRITE_CHANGED,
	.threads = 1,
};

static void make_tree(struct rowfix *t)
{
	uint8_t *p = restorefix_bytes(t->f, GEN_RANDOM, LONG_SIZE);
	int64_t d = rowfix_dir(t, ROOT, "d", 0555);
	char name[16];

	for (unsigned i = 0; i < FILES; i++) {
		(void)snprintf(name, sizeof(name), "f%u", i);
		rowfix_file(t, d, name, 0444 + (i & 1), p,
		    i % 4 == 0 ? LONG_SIZE : 10 * i);
	}
	rowfix_commit(t, "root.tree");
}

/* Before or after a call that changes something. */
struct kill_at {
	uint64_t at;
	uint64_t seen;
	bool after;
	bool named; /* no nameless files */
};

static void count(struct kill_at *k, const struct fault_event *ev)
{
	if ((FAULT_CHANGES & FAULT_BIT(ev->call)) == 0 || ++k->seen != k->at)
		return;
	(void)kill(getpid(), SIGKILL);
	(void)pause();
}

static void before(void *ctx, struct fault_event *ev)
{
	struct kill_at *k = ctx;

	if (!k->after)
		count(k, ev);
	if (ev->call == FAULT_SYNCFS) {
		ev->skip = true;
	} else if (k->named && ev->call == FAULT_CREATE &&
	    (ev->flags & O_TMPFILE) == O_TMPFILE) {
		ev->skip = true;
		ev->result = -1;
		ev->error = EOPNOTSUPP;
	}
}

static void after(void *ctx, struct fault_event *ev)
{
	struct kill_at *k = ctx;

	if (k->after)
		count(k, ev);
}

/* True if it was killed. */
static bool restore_killed(struct rowfix *t, struct kill_at k)
{
	int status = 0;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		fault_install();
		fault_set_hooks(&(struct fault_hooks){
		    .before = before, .after = after, .ctx = &k });
		_exit(rowfix_restore(t, &opts) == 0 ? 0 : 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (WIFSIGNALED(status)) {
		assert_int_equal(WTERMSIG(status), SIGKILL);
		return true;
	}
	assert_int_equal(status, 0);
	return false;
}

static unsigned check_file(struct rowfix *t, unsigned i)
{
	char name[16];
	size_t n = 0;
	char *got = NULL;
	struct stat st;

	(void)snprintf(name, sizeof(name), "d/f%u", i);
	if (!rowfix_exists(t, name))
		return 0;
	st = rowfix_stat(t, name);
	assert_int_equal(st.st_mode & ALLPERMS, 0444 + (i & 1));
	assert_int_equal(st.st_mtim.tv_sec, ROWFIX_MTIME);
	assert_int_equal(st.st_nlink, 1);
	got = tmpdir_get(t->target, name, &n);
	assert_non_null(got);
	assert_int_equal(n, i % 4 == 0 ? LONG_SIZE : 10 * i);
	assert_memory_equal(got, t->f->own, n);
	free(got);
	return 1;
}

/* How many files are there.  Removes temporary ones. */
static unsigned check(struct rowfix *t, bool named)
{
	unsigned n = 0;
	int fd = -1;
	DIR *dir = NULL;
	const struct dirent *x = NULL;

	for (unsigned i = 0; i < FILES; i++)
		n += check_file(t, i);
	fd = openat(t->target, "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return n;
	dir = fdopendir(fd);
	assert_non_null(dir);
	while ((x = readdir(dir)) != NULL) {
		if (strncmp(x->d_name, TMP, sizeof(TMP) - 1) != 0)
			continue;
		assert_true(named);
		assert_int_equal(unlinkat(fd, x->d_name, 0), 0);
	}
	(void)closedir(dir);
	return n;
}

static void empty_target(struct rowfix *t)
{
	char name[16];

	if (rowfix_exists(t, "d"))
		assert_int_equal(fchmodat(t->target, "d", 0700, 0), 0);
	for (unsigned i = 0; i < FILES; i++) {
		(void)snprintf(name, sizeof(name), "d/f%u", i);
		(void)unlinkat(t->target, name, 0);
	}
	(void)unlinkat(t->target, "d", AT_REMOVEDIR);
}

static void dies_at_every_change(void **state)
{
	struct rowfix *t = *state;
	unsigned rounds = 0;

	make_tree(t);
	assert_ok(rowfix_restore(t, &opts), &t->f->e);
	for (unsigned way = 0; way < 4; way++) {
		struct kill_at k = { .after = (way & 1) != 0,
			.named = (way & 2) != 0 };
		unsigned most = 0;

		for (k.at = 1;; k.at++, rounds++) {
			bool killed = false;
			unsigned n = 0;

			empty_target(t);
			killed = restore_killed(t, k);
			n = check(t, k.named);
			if (!killed)
				assert_int_equal(n, FILES);
			else if (n > most)
				most = n;
			/* Go on from there, now and then. */
			if (k.at % 5 != 0 && killed)
				continue;
			assert_ok(rowfix_restore(t, &opts), &t->f->e);
			assert_int_equal(t->result.equal, n);
			assert_int_equal(check(t, false), FILES);
			assert_int_equal(
			    rowfix_stat(t, "d").st_mode & ALLPERMS, 0555);
			if (!killed)
				break;
		}
		assert_true(most >= FILES - 1);
	}
	assert_true(rounds > 4 * FILES);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ROWFIX_TEST(dies_at_every_change),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
