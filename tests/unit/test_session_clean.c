/* SPDX-License-Identifier: MIT */
/* How a session ends that does not publish, and who cleans after the dead. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>

#include "datastore/locks.h"
#include "datastore/registration.h"
#include "datastore/session.h"
#include "datastore/snapshot.h"
#include "tests/support/foreign.h"
#include "tests/support/sessionfix.h"

#define UUID1 "11111111-2222-4333-8444-555555555555"
#define UUID2 "11111111-2222-4333-8444-666666666666"

struct notes {
	size_t n;
	char last[1024];
};

static void take_note(void *ctx, enum task_level level, const char *text)
{
	struct notes *notes = ctx;

	(void)level;
	notes->n++;
	(void)snprintf(notes->last, sizeof(notes->last), "%s", text);
}

static const struct task_ops note_ops = { .message = take_note };

static size_t clean(struct dsfix *f)
{
	size_t n = 99;

	assert_ok(session_clean_dead(f->ds, &f->task, &n, &f->e), &f->e);
	return n;
}

/* A process that opens a session, fills it and is killed in the middle. */
static pid_t dead_session(struct dsfix *f, const struct pushfix *p)
{
	int status = 0;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		struct datastore *ds = NULL;
		struct session *s = NULL;
		struct task task = TASK_SILENT;
		struct err e = ERR_INIT;

		if (datastore_open(f->path, DATASTORE_WRITE, NULL, &ds, &e) <
			0 ||
		    pushfix_open(ds, p, &task, &s, &e) < 0 ||
		    pushfix_fill(s, p, &e) < 0)
			_exit(1);
		(void)raise(SIGKILL);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status));
	return pid;
}

/* I3: what it left is found by its registration and removed; once. */
static void test_killed(void **state)
{
	struct dsfix *f = *state;
	struct notes notes = { .n = 0 };
	char want[64];
	pid_t pid = 0;

	f->task.ops = &note_ops;
	f->task.ctx = &notes;
	pid = dead_session(f, &sessionfix_ten);
	sessionfix_census(f, 0, 1, 1, 1);
	assert_int_equal(clean(f), 1);
	assert_int_equal(notes.n, 1);
	assert_non_null(strstr(notes.last,
	    "removed the unfinished snapshot '" T0_DIR
	    "', left by push of host/a (host "));
	(void)snprintf(want, sizeof(want), ", pid %d, begun ", pid);
	assert_non_null(strstr(notes.last, want));
	sessionfix_census(f, 0, 0, 0, 0);
	assert_int_equal(clean(f), 0);
	assert_int_equal(notes.n, 1);
}

/* The next push cleans, also where it is to the same second. */
static void test_push_cleans(void **state)
{
	struct dsfix *f = *state;
	struct pushfix p = sessionfix_ten;

	sessionfix_run(f, &p, NULL);
	p.time++;
	(void)dead_session(f, &p);
	sessionfix_census(f, 1, 1, 1, 1);
	sessionfix_run(f, &p, NULL);
	sessionfix_census(f, 2, 0, 1, 0);
}

/* What lives is left alone, and so is what a dead one finished. */
static void test_alive(void **state)
{
	struct dsfix *f = *state;
	struct session *s = sessionfix_open(f, &sessionfix_ten);

	assert_int_equal(clean(f), 0);
	assert_true(dsfix_has(f, T0_DIR));
	assert_ok(pushfix_fill(s, &sessionfix_ten, &f->e), &f->e);
	assert_ok(session_commit(s, &f->e), &f->e);
	sessionfix_census(f, 1, 0, 1, 0);
}

/* A registration by hand: of this machine, unless told otherwise. */
static void put_registration(struct dsfix *f, const char *name,
    const char *machine, const char *group, const char *snapshot)
{
	char this[DATASTORE_ID_SIZE];
	char host[REGISTRATION_HOST_SIZE];
	char text[1024];
	char path[PATH_MAX];

	registration_this_machine(host, this);
	(void)snprintf(text, sizeof(text),
	    "{\"host\":\"h\",\"machine-id\":\"%s\",\"boot-id\":\"b\","
	    "\"pid\":1,\"command\":\"push\",\"group\":\"%s\","
	    "\"snapshot\":\"%s\",\"start\":\"01700000000000000000\"}\n",
	    machine == NULL ? this : machine, group, snapshot);
	(void)snprintf(path, sizeof(path), ".cairn/sessions/%s", name);
	dsfix_put(f, path, text);
}

static void set_mtime(struct dsfix *f, const char *name, int64_t age_s)
{
	const struct timespec times[2] = { { .tv_nsec = UTIME_OMIT },
		{ .tv_sec = clock_now_s() - age_s } };
	char rel[PATH_MAX];
	char path[PATH_MAX];

	(void)snprintf(rel, sizeof(rel), ".cairn/sessions/%s", name);
	assert_int_equal(
	    utimensat(f->dir.fd, dsfix_name(rel, path), times, 0), 0);
}

static void test_finished_stays(void **state)
{
	struct dsfix *f = *state;

	sessionfix_run(f, &sessionfix_ten, NULL);
	put_registration(f, UUID1, NULL, "host/a", T0_DIR);
	assert_int_equal(clean(f), 1);
	sessionfix_census(f, 1, 0, 1, 0);
}

/* Of another machine: dead when its time has stood still for a day. */
static void test_foreign_machine(void **state)
{
	struct dsfix *f = *state;

	dsfix_mkdir(f, T0_DIR);
	put_registration(f, UUID1, "0123", "host/a", T0_DIR);
	assert_int_equal(clean(f), 0);
	set_mtime(f, UUID1, 24 * 3600 - 60);
	assert_int_equal(clean(f), 0);
	sessionfix_census(f, 0, 1, 1, 1);
	set_mtime(f, UUID1, 24 * 3600 + 60);
	assert_int_equal(clean(f), 1);
	sessionfix_census(f, 0, 0, 0, 0);
}

/* Paths come from a file: what is none of a snapshot is not followed. */
static void test_odd_paths(void **state)
{
	static const char *const odd[] = { "", "..", "../x", "host/a/../../x",
		"host/a/2027-01-15T08:00:00Z/x", "host//a/2027-01-15T08:00:00Z",
		"/host/a", "ns/", "ns/a", "ns/a/ns/b",
		"ns//host/a/2027-01-15T08:00:00Z", ".cairn/sessions",
		"x/a/2027-01-15T08:00:00Z", "host/a/2027-01-15" };
	struct dsfix *f = *state;

	dsfix_mkdir(f, T0_DIR);
	dsfix_mkdir(f, "x");
	for (size_t i = 0; i < TEST_COUNT(odd); i++) {
		put_registration(f, UUID1, NULL, "host/b", odd[i]);
		put_registration(f, UUID2, NULL, odd[i], "");
		assert_int_equal(clean(f), 2);
		assert_true(dsfix_has(f, T0_DIR));
		assert_true(dsfix_has(f, "x"));
	}
	put_registration(f, UUID1, NULL, "host/a", T0_DIR);
	assert_int_equal(clean(f), 1);
	assert_false(dsfix_has(f, "host/a"));
}

static void test_namespace(void **state)
{
	struct dsfix *f = *state;

	dsfix_mkdir(f, "ns/prod/ns/db/" T0_DIR);
	dsfix_put(f, "ns/prod/ns/db/" T0_DIR "/x.img.tmp_fidx", "x");
	put_registration(
	    f, UUID1, NULL, "ns/prod/ns/db/host/a", "ns/prod/ns/db/" T0_DIR);
	assert_int_equal(clean(f), 1);
	assert_true(dsfix_has(f, "ns/prod/ns/db/host"));
	assert_false(dsfix_has(f, "ns/prod/ns/db/host/a"));
}

/* A registration that says nothing: a day of silence, then it goes. */
static void test_unreadable(void **state)
{
	struct dsfix *f = *state;

	dsfix_put(f, ".cairn/sessions/" UUID1, "");
	dsfix_put(f, ".cairn/sessions/" UUID2, "{\"host\":");
	assert_int_equal(clean(f), 0);
	set_mtime(f, UUID1, 24 * 3600 + 60);
	assert_int_equal(clean(f), 1);
	set_mtime(f, UUID2, 24 * 3600 + 60);
	assert_int_equal(clean(f), 1);
	sessionfix_census(f, 0, 0, 0, 0);
}

/* Died before the registration had its name. */
static void test_unborn(void **state)
{
	struct dsfix *f = *state;

	put_registration(f, "." UUID1 ".tmp", NULL, "host/a", "");
	put_registration(f, "." UUID2 ".tmp", "0123", "host/a", "");
	dsfix_put(f, ".cairn/sessions/note", "not ours");
	assert_int_equal(clean(f), 0);
	assert_false(dsfix_has(f, ".cairn/sessions/." UUID1 ".tmp"));
	assert_true(dsfix_has(f, ".cairn/sessions/." UUID2 ".tmp"));
	set_mtime(f, "." UUID2 ".tmp", 24 * 3600 + 60);
	assert_int_equal(clean(f), 0);
	assert_false(dsfix_has(f, ".cairn/sessions/." UUID2 ".tmp"));
	assert_true(dsfix_has(f, ".cairn/sessions/note"));
}

/* Somebody looks at what is to be removed: later, and no error. */
static void test_in_use(void **state)
{
	struct dsfix *f = *state;
	struct notes notes = { .n = 0 };
	char path[PATH_MAX];
	int fd = -1;

	f->task.ops = &note_ops;
	f->task.ctx = &notes;
	(void)dead_session(f, &sessionfix_ten);
	fd = openat(f->dir.fd, dsfix_name(T0_DIR, path),
	    O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_int_equal(flock(fd, LOCK_SH), 0);
	assert_int_equal(clean(f), 0);
	assert_non_null(strstr(notes.last, "is in use"));
	sessionfix_census(f, 0, 1, 1, 1);
	(void)close(fd);
	assert_int_equal(clean(f), 1);
	sessionfix_census(f, 0, 0, 0, 0);
}

/*
 * Schedule 25: a child that holds the descriptors keeps the session's locks,
 * and so keeps it alive; when the child ends it is dead.
 */
static void test_child_keeps_it(void **state)
{
	struct dsfix *f = *state;
	int status = 0;
	int ready[2];
	int stay[2];
	char c = 0;
	pid_t parent = 0;

	assert_int_equal(pipe(ready), 0);
	assert_int_equal(pipe(stay), 0);
	parent = fork();
	if (parent == 0) {
		struct datastore *ds = NULL;
		struct session *s = NULL;
		struct task task = TASK_SILENT;
		struct err e = ERR_INIT;

		(void)close(stay[1]);
		if (datastore_open(f->path, DATASTORE_WRITE, NULL, &ds, &e) <
			0 ||
		    pushfix_open(ds, &sessionfix_ten, &task, &s, &e) < 0)
			_exit(1);
		if (fork() == 0) {
			(void)!write(ready[1], "x", 1);
			(void)!read(stay[0], &c, 1);
			_exit(0);
		}
		(void)pause();
	}
	(void)close(ready[1]);
	(void)close(stay[0]);
	assert_int_equal(read(ready[0], &c, 1), 1);
	assert_int_equal(kill(parent, SIGKILL), 0);
	assert_int_equal(waitpid(parent, &status, 0), parent);
	assert_int_equal(clean(f), 0);
	(void)close(stay[1]);
	/* It closes `ready` when it is gone. */
	assert_int_equal(read(ready[0], &c, 1), 0);
	(void)close(ready[0]);
	for (int i = 0; i < 500 && clean(f) == 0; i++)
		clock_sleep_ms(10);
	sessionfix_census(f, 0, 0, 0, 0);
}

/*
 * GC lists for ever, as far as an abort can tell: it ends all the same, and
 * what it leaves is what a dead session leaves.
 */
static void test_abort_while_listing(void **state)
{
	const struct foreign_lock lock = {
		.type = F_WRLCK, .start = LOCK_BYTE_TREE, .len = 1
	};
	struct dsfix *f = *state;
	struct session *s = NULL;
	struct foreign_holder holder;
	struct notes notes = { .n = 0 };
	int64_t start = 0;

	f->task.ops = &note_ops;
	f->task.ctx = &notes;
	/* First: a fork of a process with a session keeps its locks. */
	foreign_start(f->ds->root_fd, ".lock", &lock, &holder);
	s = sessionfix_open(f, &sessionfix_ten);
	/* It was told to stop, and still waits for a while. */
	atomic_store(&f->task.stop, 15);
	start = clock_boot_ns();
	session_abort(s);
	assert_in_range(
	    clock_boot_ns() - start, 4 * CLOCK_NS_PER_S, 20 * CLOCK_NS_PER_S);
	assert_non_null(strstr(notes.last, "is removed by the next push"));
	atomic_store(&f->task.stop, 0);
	sessionfix_census(f, 0, 1, 1, 1);
	assert_true(foreign_can_byte(
	    f->ds->root_fd, ".lock", LOCK_BYTE_SESSION, F_WRLCK));
	assert_true(sessionfix_can_flock(f, "host/a", LOCK_EX));
	foreign_end(&holder);
	assert_int_equal(clean(f), 1);
	sessionfix_census(f, 0, 0, 0, 0);
}

/* What can not be removed now is left to the next cleaner, too. */
static void test_abort_fails(void **state)
{
	struct dsfix *f = *state;
	struct session *s = sessionfix_open(f, &sessionfix_ten);

	assert_ok(pushfix_fill(s, &sessionfix_ten, &f->e), &f->e);
	fault_install();
	fault_add(&(struct fault_rule){ .calls = FAULT_BIT(FAULT_UNLINKAT),
	    .what = FAULT_FAIL,
	    .at = 1,
	    .times = FAULT_FOREVER,
	    .error = EIO });
	session_abort(s);
	fault_uninstall();
	sessionfix_census(f, 0, 1, 1, 1);
	assert_int_equal(clean(f), 1);
	sessionfix_census(f, 0, 0, 0, 0);
}

/* I5: recorded before it is removed. */
static void test_recorded(void **state)
{
	struct dsfix *f = *state;
	struct session *s = sessionfix_open(f, &sessionfix_ten);
	char *text = NULL;

	session_abort(s);
	text = tmpdir_get(f->dir.fd, "store/.cairn/removed", NULL);
	assert_string_equal(text, T0_DIR "\n");
	free(text);
}

/* I4: nobody lists while what a dead session left is removed. */
struct removals {
	struct dsfix *f;
	unsigned n;
	unsigned in_a_listing;
};

static void ask_tree_lock(void *ctx, struct fault_event *ev)
{
	struct removals *r = ctx;

	/* Its registration, which is no part of the tree, goes last. */
	if (ev->call != FAULT_UNLINKAT || strlen(ev->name) == strlen(UUID1))
		return;
	r->n++;
	r->in_a_listing += foreign_can_byte(
	    r->f->ds->root_fd, ".lock", LOCK_BYTE_TREE, F_WRLCK);
}

static void test_tree_lock(void **state)
{
	struct dsfix *f = *state;
	struct removals r = { .f = f };

	(void)dead_session(f, &sessionfix_ten);
	fault_install();
	fault_set_hooks(
	    &(struct fault_hooks){ .before = ask_tree_lock, .ctx = &r });
	assert_int_equal(clean(f), 1);
	fault_uninstall();
	assert_true(r.n >= 3);
	assert_int_equal(r.in_a_listing, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		SESSION_TEST(test_killed),
		SESSION_TEST(test_push_cleans),
		SESSION_TEST(test_alive),
		SESSION_TEST(test_finished_stays),
		SESSION_TEST(test_foreign_machine),
		SESSION_TEST(test_odd_paths),
		SESSION_TEST(test_namespace),
		SESSION_TEST(test_unreadable),
		SESSION_TEST(test_unborn),
		SESSION_TEST(test_in_use),
		SESSION_TEST(test_child_keeps_it),
		SESSION_TEST(test_abort_while_listing),
		SESSION_TEST(test_abort_fails),
		SESSION_TEST(test_recorded),
		SESSION_TEST(test_tree_lock),
	};

	return cmocka_run_group_tests_name("session_clean", tests, NULL, NULL);
}
