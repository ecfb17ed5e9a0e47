/* SPDX-License-Identifier: MIT */
/*
 * A push that is killed before its n-th system call, for each n: what it left
 * is cleaned, the older snapshot is whole, the next push works; and whatever
 * is listed is whole at every instant.
 */
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>

#include "datastore/damage.h"
#include "datastore/snapshot.h"
#include "datastore/tree.h"
#include "tests/support/sessionfix.h"

struct kill_at {
	uint64_t at;
	uint64_t seen;
};

/* fsync is left out: a process that dies takes nothing from the disk. */
static void count_down(void *ctx, struct fault_event *ev)
{
	struct kill_at *k = ctx;

	if (ev->call == FAULT_FSYNC || ev->call == FAULT_SYNCFS)
		ev->skip = true;
	if (k->at != 0 && ++k->seen == k->at) {
		(void)kill(getpid(), SIGKILL);
		(void)pause();
	}
}

static int no_sync_setup(void **state)
{
	static struct kill_at never;

	if (sessionfix_setup(state) < 0)
		return -1;
	fault_install();
	fault_set_hooks(
	    &(struct fault_hooks){ .before = count_down, .ctx = &never });
	return 0;
}

/* The child.  Exit status 0: it was done before the n-th call. */
_Noreturn static void push_and_die(
    const char *path, const struct pushfix *p, uint64_t n)
{
	struct kill_at k = { .at = n };
	struct datastore *ds = NULL;
	struct task task = TASK_SILENT;
	struct err e = ERR_INIT;

	fault_set_hooks(
	    &(struct fault_hooks){ .before = count_down, .ctx = &k });
	if (datastore_open(path, DATASTORE_WRITE, NULL, &ds, &e) < 0 ||
	    pushfix_run(ds, p, &task, NULL, &e) < 0) {
		(void)fprintf(stderr, "%s\n", e.msg);
		_exit(1);
	}
	datastore_close(ds);
	_exit(0);
}

/* True if it was killed. */
static bool push_killed(struct dsfix *f, const struct pushfix *p, uint64_t n)
{
	int status = 0;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0)
		push_and_die(f->path, p, n);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (WIFSIGNALED(status)) {
		assert_int_equal(WTERMSIG(status), SIGKILL);
		return true;
	}
	assert_int_equal(status, 0);
	return false;
}

static struct pushfix_census census(struct dsfix *f)
{
	struct pushfix_census c = { .finished = 0 };

	assert_ok(pushfix_check(f->ds, &c, &f->e), &f->e);
	return c;
}

/*
 * Those that were killed before their registration said of which machine they
 * are: cleaned when a day is over.  It is.
 */
static void age_nameless(struct dsfix *f)
{
	const struct timespec old[2] = { { .tv_sec = 1000 },
		{ .tv_sec = 1000 } };
	char **names = NULL;
	size_t n = 0;
	int fd = openat(f->ds->root_fd, ".cairn/sessions",
	    O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	assert_ok(file_list(fd, &names, &n, "sessions", &f->e), &f->e);
	for (size_t i = 0; i < n; i++) {
		if (names[i][0] == '.')
			assert_int_equal(utimensat(fd, names[i], old, 0), 0);
	}
	file_list_free(names);
	(void)close(fd);
}

static void forget_all(struct dsfix *f, const char *group)
{
	struct backup_group g;
	struct tree_snapshots list = { .n = 0 };

	assert_ok(backup_group_parse(
		      &(struct backup_ns){ .name = "" }, group, &g, &f->e),
	    &f->e);
	assert_ok(tree_snapshots(f->ds, &g, &list, &f->e), &f->e);
	for (size_t i = 0; i < list.n; i++) {
		assert_ok(
		    snapshot_forget(f->ds, &list.items[i].id, &f->task, &f->e),
		    &f->e);
	}
	tree_snapshots_release(&list);
}

static void clean_and_push(struct dsfix *f, struct pushfix *p)
{
	struct pushfix_census before = census(f);
	struct pushfix_census after;
	size_t cleaned = 0;

	age_nameless(f);
	/* Listed or not: it is visible in one step. */
	assert_in_range(before.finished, 1, 2);
	assert_true(before.unfinished <= 1);
	assert_ok(session_clean_dead(f->ds, &f->task, &cleaned, &f->e), &f->e);
	after = census(f);
	assert_int_equal(after.finished, before.finished);
	assert_int_equal(after.unfinished, 0);
	assert_int_equal(after.registrations, 0);
	p->put.first += 2;
	sessionfix_run(f, p, NULL);
	after = census(f);
	assert_int_equal(after.finished, before.finished + 1);
	forget_all(f, p->group);
}

static void test_kill(void **state)
{
	struct dsfix *f = *state;
	struct backup_snapshot base;
	struct digest d;
	struct pushfix p = { .group = "host/b",
		.base = &base,
		.reuse = { .first = 2, .n = 2 },
		.put = { .first = 100, .n = 2 },
		.blob = true };
	uint64_t listed = 0;
	uint64_t n = 1;
	bool killed = true;

	sessionfix_run(f, &sessionfix_ten, &base);
	pushfix_digest(3, &d);
	for (n = 1; killed; n++) {
		assert_ok(damage_append(f->ds, &d, DAMAGE_BAD, &f->e), &f->e);
		p.put.first += 2;
		killed = push_killed(f, &p, n);
		listed += killed && census(f).finished == 2;
		clean_and_push(f, &p);
	}
	/* It went all the way, and some deaths came after the manifest. */
	assert_in_range(n, 200, 5000);
	assert_in_range(listed, 3, n / 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
		    test_kill, no_sync_setup, dsfix_teardown),
	};

	return cmocka_run_group_tests_name("crash_session", tests, NULL, NULL);
}
