/* SPDX-License-Identifier: MIT */
/*
 * Policies carried out on a group, with others at work; and removals that
 * were interrupted.
 */
#include "datastore/prune.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "datastore/locks.h"
#include "datastore/snapshot.h"
#include "tests/support/foreign.h"
#include "tests/support/sessionfix.h"

#define NOW (T0 + 1000)

struct told {
	unsigned failures;
	char last[ERR_MSG_SIZE];
};

static struct backup_snapshot push(struct dsfix *f, int64_t time)
{
	struct pushfix p = sessionfix_ten;
	struct backup_snapshot id;

	p.time = time;
	sessionfix_run(f, &p, &id);
	return id;
}

static void tell(void *ctx, const struct err *why)
{
	struct told *told = ctx;

	told->failures++;
	(void)snprintf(told->last, sizeof(told->last), "%s", why->msg);
}

static const struct backup_group group = { .type = BACKUP_HOST, .id = "a" };

static int prune(struct dsfix *f, uint64_t last, bool dry_run,
    struct prune_group *ret, struct told *told)
{
	const struct retention_policy policy = {
		.given = { [RETENTION_LAST] = true },
		.value = { [RETENTION_LAST] = last },
	};
	const struct prune_opts o = { .policy = &policy,
		.now = NOW,
		.dry_run = dry_run,
		.failed = told != NULL ? tell : NULL,
		.ctx = told };

	f->e = (struct err)ERR_INIT;
	return prune_group(f->ds, &group, &o, &f->task, ret, &f->e);
}

/* One letter each, oldest first: Kept, Removed, Gone, Busy, Failed, Left. */
static void expect(struct prune_group *p, const char *want)
{
	static const char letters[] = { 'K', 'R', 'G', 'B', 'F', 'L' };
	char got[64] = "";

	assert_true(p->n < sizeof(got));
	for (size_t i = 0; i < p->n; i++)
		got[i] = letters[p->items[i].outcome];
	assert_string_equal(got, want);
	prune_group_release(p);
}

static void the_oldest_go(void **state)
{
	struct dsfix *f = *state;
	struct prune_group p = PRUNE_GROUP_INIT;

	for (int i = 0; i < 5; i++)
		(void)push(f, T0 + i);
	assert_ok(prune(f, 2, true, &p, NULL), &f->e);
	expect(&p, "RRRKK");
	sessionfix_census(f, 5, 0, 1, 0);
	assert_ok(prune(f, 2, false, &p, NULL), &f->e);
	expect(&p, "RRRKK");
	sessionfix_census(f, 2, 0, 1, 0);
	assert_ok(prune(f, 2, false, &p, NULL), &f->e);
	expect(&p, "KK");
	/* What is left behind: no lock. */
	assert_true(foreign_can_byte(
	    f->ds->root_fd, ".lock", LOCK_BYTE_PRUNE, F_WRLCK));
	assert_true(
	    foreign_can_byte(f->ds->root_fd, ".lock", LOCK_BYTE_TREE, F_WRLCK));
}

/* A damaged one must not stand for the sound ones that the rules remove. */
static void hurt_ones_do_not_count(void **state)
{
	struct dsfix *f = *state;
	struct prune_group p = PRUNE_GROUP_INIT;
	struct backup_snapshot id;
	char path[BACKUP_PATH_SIZE];
	char name[BACKUP_PATH_SIZE + sizeof("/index.json.blob")];

	(void)push(f, T0);
	(void)push(f, T0 + 1);
	id = push(f, T0 + 2);
	(void)backup_snapshot_path(&id, path);
	(void)snprintf(name, sizeof(name), "%s/index.json.blob", path);
	dsfix_put(f, name, "no blob");
	assert_ok(prune(f, 1, false, &p, NULL), &f->e);
	assert_int_equal(p.items[2].decision.reason, RETENTION_HURT);
	expect(&p, "RKK");
	/* Alone it is all there is, but nothing that a policy would empty. */
	assert_ok(prune(f, 0, true, &p, NULL) == ERR_REFUSED ? 0 : -1, &f->e);
	prune_group_release(&p);
}

static void an_empty_group_is_refused(void **state)
{
	struct dsfix *f = *state;
	struct prune_group p = PRUNE_GROUP_INIT;
	const struct retention_policy none = {
		.given = { [RETENTION_DAILY] = true },
	};
	const struct prune_opts o = {
		.policy = &none, .now = NOW, .allow_empty = true
	};

	(void)push(f, T0);
	(void)push(f, T0 + 1);
	for (int dry = 0; dry < 2; dry++) {
		assert_err(prune(f, 0, dry == 1, &p, NULL), &f->e, ERR_REFUSED,
		    "group 'host/a': no finished snapshot would be left, so "
		    "nothing is removed; --allow-empty allows it");
		assert_true(p.refused);
		expect(&p, "LL");
	}
	(void)push(f, NOW + 1);
	assert_err(prune(f, 0, false, &p, NULL), &f->e, ERR_REFUSED,
	    "but protected and damaged ones and those of the future");
	expect(&p, "LLK");
	sessionfix_census(f, 3, 0, 1, 0);
	assert_ok(prune_group(f->ds, &group, &o, &f->task, &p, &f->e), &f->e);
	expect(&p, "RRK");
	assert_ok(
	    snapshot_forget(f->ds,
		&(struct backup_snapshot){ .group = group, .time = NOW + 1 },
		&f->task, &f->e),
	    &f->e);
	assert_false(dsfix_has(f, "host/a"));
	assert_err(prune(f, 1, false, &p, NULL), &f->e, ERR_NOTFOUND,
	    "group 'host/a' does not exist");
	expect(&p, "");
}

/* One that is in use, or can not be removed, does not keep the others. */
static void busy_and_failing_ones(void **state)
{
	struct dsfix *f = *state;
	struct prune_group p = PRUNE_GROUP_INIT;
	struct snapshot_hold hold = SNAPSHOT_HOLD_INIT;
	struct told told = { .failures = 0 };
	struct backup_snapshot ids[5];

	for (int i = 0; i < 5; i++)
		ids[i] = push(f, T0 + i);
	assert_ok(
	    snapshot_hold(f->ds, &ids[1], LOCK_SHARED, &hold, &f->e), &f->e);
	dsfix_mkdir(f, T0_DIR "/odd");
	assert_ok(prune(f, 1, false, &p, &told), &f->e);
	snapshot_release(&hold);
	expect(&p, "FBRRK");
	assert_int_equal(told.failures, 2);
	assert_non_null(strstr(told.last, "is in use"));
	dsfix_rmdir(f, T0_DIR "/odd");
	assert_ok(prune(f, 1, false, &p, &told), &f->e);
	expect(&p, "RRK");
	assert_int_equal(told.failures, 2);
}

/*
 * The list is made behind the prune lock: what is forgotten while it is
 * awaited does not count.  (Were it made before, the policy would keep the one
 * that goes, and remove the last one.)
 */
static void the_list_is_not_stale(void **state)
{
	struct dsfix *f = *state;
	struct prune_group p = PRUNE_GROUP_INIT;
	struct backup_snapshot newest;
	struct foreign_holder holder;
	int status = 0;
	pid_t pid = 0;

	(void)push(f, T0);
	newest = push(f, T0 + 1);
	foreign_start(f->ds->root_fd, ".lock",
	    &(struct foreign_lock){
		.type = F_RDLCK, .start = LOCK_BYTE_PRUNE, .len = 1 },
	    &holder);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		/* Or the holder would never see its end. */
		(void)close(holder.to);
		datastore_close(f->ds);
		f->ds = NULL;
		if (dsfix_open(f, DATASTORE_WRITE) < 0 ||
		    prune(f, 1, false, &p, NULL) < 0)
			_exit(1);
		_exit(p.n == 1 ? 0 : 2);
	}
	/* It waits; whether it has come as far yet makes no difference. */
	(void)usleep(200000);
	assert_ok(snapshot_forget(f->ds, &newest, &f->task, &f->e), &f->e);
	foreign_end(&holder);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
	sessionfix_census(f, 1, 0, 1, 0);
}

/* And nobody forgets while it is carried out. */
struct watching {
	struct dsfix *f;
	unsigned looks;
};

static void look(void *ctx, struct fault_event *ev)
{
	struct watching *w = ctx;

	if (ev->call != FAULT_UNLINKAT)
		return;
	w->looks++;
	assert_false(foreign_can_byte(
	    w->f->ds->root_fd, ".lock", LOCK_BYTE_PRUNE, F_RDLCK));
	/* A session may go on; it waits for the tree lock only with GC. */
	assert_true(foreign_can_byte(
	    w->f->ds->root_fd, ".lock", LOCK_BYTE_TREE, F_RDLCK));
}

static void nobody_else_removes(void **state)
{
	struct dsfix *f = *state;
	struct prune_group p = PRUNE_GROUP_INIT;
	struct watching w = { .f = f };

	for (int i = 0; i < 3; i++)
		(void)push(f, T0 + i);
	fault_install();
	fault_set_hooks(&(struct fault_hooks){ .before = look, .ctx = &w });
	assert_ok(prune(f, 1, false, &p, NULL), &f->e);
	fault_uninstall();
	expect(&p, "RRK");
	assert_true(w.looks > 4);
}

/* Stopped after the first one: what was done is told. */
static void stop(void *ctx, struct fault_event *ev)
{
	struct dsfix *f = ctx;

	if (ev->call == FAULT_UNLINKAT)
		f->task.stop = SIGTERM;
}

static void stopped_on_the_way(void **state)
{
	struct dsfix *f = *state;
	struct prune_group p = PRUNE_GROUP_INIT;

	for (int i = 0; i < 4; i++)
		(void)push(f, T0 + i);
	fault_install();
	fault_set_hooks(&(struct fault_hooks){ .after = stop, .ctx = f });
	assert_err(prune(f, 1, false, &p, NULL), &f->e, ERR_CANCELLED, "");
	fault_uninstall();
	expect(&p, "RLLK");
	f->task.stop = 0;
	sessionfix_census(f, 3, 0, 1, 0);
}

/* Interrupted removals. */

/* A forget that is killed right behind the manifest. */
static void kill_forget(struct dsfix *f, const struct backup_snapshot *s)
{
	int status = 0;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		const struct fault_rule at_the_second = {
			.calls = FAULT_BIT(FAULT_UNLINKAT),
			.what = FAULT_KILL,
			.at = 2,
			.times = 1,
		};

		datastore_close(f->ds);
		f->ds = NULL;
		if (dsfix_open(f, DATASTORE_WRITE) < 0)
			_exit(1);
		fault_install();
		fault_add(&at_the_second);
		(void)snapshot_forget(f->ds, s, &f->task, &f->e);
		_exit(2);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status));
	assert_int_equal(WTERMSIG(status), SIGKILL);
}

static size_t interrupted(struct dsfix *f)
{
	struct backup_snapshot *items = NULL;
	size_t n = 99;

	assert_ok(snapshot_interrupted(f->ds, NULL, &items, &n, &f->e), &f->e);
	free(items);
	return n;
}

static size_t end_removals(struct dsfix *f, const struct backup_group *only)
{
	size_t n = 99;

	assert_ok(
	    snapshot_end_removals(f->ds, only, &f->task, &n, &f->e), &f->e);
	return n;
}

static void a_killed_forget_is_ended(void **state)
{
	static const struct backup_group other = { .type = BACKUP_HOST,
		.id = "b" };
	struct dsfix *f = *state;
	struct backup_snapshot s = push(f, T0);

	(void)push(f, T0 + 1);
	assert_int_equal(interrupted(f), 0);
	kill_forget(f, &s);
	assert_true(dsfix_has(f, T0_DIR "/" PUSHFIX_NAME));
	assert_false(dsfix_has(f, T0_DIR "/index.json.blob"));
	assert_int_equal(interrupted(f), 1);
	assert_int_equal(end_removals(f, &other), 0);
	assert_int_equal(end_removals(f, &group), 1);
	assert_false(dsfix_has(f, T0_DIR));
	assert_int_equal(interrupted(f), 0);
	assert_int_equal(end_removals(f, NULL), 0);
	sessionfix_census(f, 1, 0, 1, 0);
}

/* By the next push of the group, also one of the same name. */
static void the_next_push_ends_it(void **state)
{
	struct dsfix *f = *state;
	struct backup_snapshot s = push(f, T0);

	kill_forget(f, &s);
	(void)push(f, T0 + 1);
	assert_false(dsfix_has(f, T0_DIR));
	s = push(f, T0);
	kill_forget(f, &s);
	(void)push(f, T0);
	assert_true(dsfix_has(f, T0_DIR "/index.json.blob"));
	assert_int_equal(interrupted(f), 0);
	sessionfix_census(f, 2, 0, 1, 0);
}

static void prune_ends_it(void **state)
{
	struct dsfix *f = *state;
	struct prune_group p = PRUNE_GROUP_INIT;
	struct backup_snapshot s = push(f, T0 + 1);

	(void)push(f, T0);
	kill_forget(f, &s);
	/* Though it is unfinished and the newest. */
	assert_ok(prune(f, 1, true, &p, NULL), &f->e);
	assert_int_equal(p.items[1].decision.reason, RETENTION_HALF_REMOVED);
	expect(&p, "KR");
	assert_ok(prune(f, 1, false, &p, NULL), &f->e);
	expect(&p, "KR");
	sessionfix_census(f, 1, 0, 1, 0);
}

/*
 * What only looks like one: a finished snapshot made anew under a name that was
 * removed once; a session that is making one; a protected one; an unfinished
 * one that nobody began to remove.
 */
static void others_are_left_alone(void **state)
{
	struct dsfix *f = *state;
	struct pushfix p = sessionfix_ten;
	struct backup_snapshot s = push(f, T0);
	struct session *session = NULL;

	assert_ok(snapshot_forget(f->ds, &s, &f->task, &f->e), &f->e);
	session = sessionfix_open(f, &p);
	assert_int_equal(interrupted(f), 1);
	assert_int_equal(end_removals(f, NULL), 0);
	assert_ok(pushfix_fill(session, &p, &f->e), &f->e);
	assert_ok(session_commit(session, &f->e), &f->e);
	assert_int_equal(interrupted(f), 0);
	dsfix_put(f, T0_DIR "/.protected", "");
	dsfix_unlink(f, T0_DIR "/index.json.blob");
	assert_int_equal(interrupted(f), 0);
	assert_int_equal(end_removals(f, NULL), 0);
	dsfix_unlink(f, T0_DIR "/.protected");
	dsfix_unlink(f, ".cairn/removed");
	assert_int_equal(interrupted(f), 0);
	assert_true(dsfix_has(f, T0_DIR "/" PUSHFIX_NAME));
}

/* Whatever the file says. */
static void odd_records(void **state)
{
	struct dsfix *f = *state;
	static char text[80000];

	(void)push(f, T0);
	dsfix_unlink(f, T0_DIR "/index.json.blob");
	/* A line longer than what is read at once, then a good one. */
	memset(text, 'x', sizeof(text));
	(void)snprintf(text + 70000, sizeof(text) - 70000,
	    "\n\n../host/a\n/\nhost/a\n" T0_DIR "/\n" T0_DIR "\n" T0_DIR
	    "\nhost/b/2027-01-15T08:00:00Z\n" T0_DIR);
	dsfix_put(f, ".cairn/removed", text);
	assert_int_equal(interrupted(f), 1);
	/* A line without its end is none. */
	dsfix_put(f, ".cairn/removed", T0_DIR);
	assert_int_equal(interrupted(f), 0);
	dsfix_put(f, ".cairn/removed", "");
	assert_int_equal(interrupted(f), 0);
}

/* Between the look at it and its lock: a session of the same name publishes. */
static char *late_manifest;
static size_t late_n;

static void finish_late(void *ctx, struct fault_event *ev)
{
	struct dsfix *f = ctx;

	if (ev->call == FAULT_FLOCK && !dsfix_has(f, T0_DIR "/index.json.blob"))
		tmpdir_put(f->dir.fd, "store/" T0_DIR "/index.json.blob",
		    late_manifest, late_n);
}

static void finished_meanwhile(void **state)
{
	struct dsfix *f = *state;

	(void)push(f, T0);
	late_manifest =
	    tmpdir_get(f->dir.fd, "store/" T0_DIR "/index.json.blob", &late_n);
	dsfix_unlink(f, T0_DIR "/index.json.blob");
	dsfix_put(f, ".cairn/removed", T0_DIR "\n");
	fault_install();
	fault_set_hooks(
	    &(struct fault_hooks){ .before = finish_late, .ctx = f });
	assert_int_equal(end_removals(f, NULL), 0);
	fault_uninstall();
	free(late_manifest);
	sessionfix_census(f, 1, 0, 1, 0);
}

/* Somebody reads it. */
static void in_use_meanwhile(void **state)
{
	struct dsfix *f = *state;
	struct backup_snapshot s = push(f, T0);
	struct snapshot_hold hold = SNAPSHOT_HOLD_INIT;

	dsfix_unlink(f, T0_DIR "/index.json.blob");
	dsfix_put(f, ".cairn/removed", T0_DIR "\n");
	assert_ok(snapshot_hold(f->ds, &s, LOCK_SHARED, &hold, &f->e), &f->e);
	assert_int_equal(end_removals(f, NULL), 0);
	assert_true(dsfix_has(f, T0_DIR "/" PUSHFIX_NAME));
	snapshot_release(&hold);
	assert_int_equal(end_removals(f, NULL), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		SESSION_TEST(the_oldest_go),
		SESSION_TEST(hurt_ones_do_not_count),
		SESSION_TEST(an_empty_group_is_refused),
		SESSION_TEST(busy_and_failing_ones),
		SESSION_TEST(the_list_is_not_stale),
		SESSION_TEST(nobody_else_removes),
		SESSION_TEST(stopped_on_the_way),
		SESSION_TEST(a_killed_forget_is_ended),
		SESSION_TEST(the_next_push_ends_it),
		SESSION_TEST(prune_ends_it),
		SESSION_TEST(others_are_left_alone),
		SESSION_TEST(finished_meanwhile),
		SESSION_TEST(in_use_meanwhile),
		SESSION_TEST(odd_records),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
