/* SPDX-License-Identifier: MIT */
/*
 * Sessions and forgets at every stop of a run, and those that a run can not
 * go beside.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "datastore/base/clock.h"
#include "datastore/locks.h"
#include "datastore/snapshot.h"
#include "tests/support/foreign.h"
#include "tests/support/gcfix.h"

#define OLD (2 * GCFIX_DAY)

/* Chunks 0..9 are garbage of two days, 10..19 are in use. */
static void make_garbage(struct gcfix *f)
{
	struct backup_snapshot s0 =
	    gcfix_push_new(f, "host/a", GCFIX_T0, 0, 10);

	(void)gcfix_push_new(f, "host/b", GCFIX_T0, 10, 10);
	gcfix_forget(f, &s0);
	gcfix_age(f, OLD);
}

/* Prefixes of chunks, to stop before and behind each of them. */
static unsigned prefix_of(unsigned number)
{
	struct digest d;

	pushfix_digest(number, &d);
	return digest_prefix(&d);
}

/* Where a test stops a run: at one point only. */
static struct {
	enum gcfix_point point;
	uint64_t prefix;
	unsigned nth; /* of that point */
	unsigned seen;
	bool done;
	void (*act)(struct gcfix *f);
} stop;

static void at_stop(struct gcfix *f, enum gcfix_point point)
{
	if (stop.done || point != stop.point ||
	    (point == GCFIX_SWEEP && f->prefix != stop.prefix) ||
	    ++stop.seen < stop.nth)
		return;
	stop.done = true;
	stop.act(f);
}

/* Run the same thing with a stop at each of many points. */
static void each_stop(struct gcfix *f, void (*prepare)(struct gcfix *f),
    void (*act)(struct gcfix *f), void (*check)(struct gcfix *f))
{
	uint64_t prefixes[] = { 0, prefix_of(0), prefix_of(0) + 1, prefix_of(3),
		prefix_of(3) + 1, prefix_of(12), STORE_PREFIXES - 1 };
	size_t stops = TEST_COUNT(prefixes) + 6;

	for (size_t i = 0; i < stops; i++) {
		stop.done = false;
		stop.seen = 0;
		stop.nth = 1;
		stop.act = act;
		if (i < TEST_COUNT(prefixes)) {
			stop.point = GCFIX_SWEEP;
			stop.prefix = prefixes[i];
		} else if (i == TEST_COUNT(prefixes)) {
			stop.point = GCFIX_LISTED;
		} else if (i == TEST_COUNT(prefixes) + 1) {
			stop.point = GCFIX_MARKED;
		} else {
			stop.point = GCFIX_READING;
			stop.nth = (unsigned)(i - TEST_COUNT(prefixes) - 1);
		}
		prepare(f);
		f->at = at_stop;
		gcfix_collect(f);
		f->at = NULL;
		if (stop.point != GCFIX_READING)
			assert_true(stop.done);
		if (!stop.done)
			act(f);
		check(f);
		gcfix_remove_tree(f, "host");
		/* Nobody records that; it is meant. */
		f->opts.accept_missing = true;
	}
}

/* A push that uses what is garbage, what is in use, and something new. */
static void push_all(struct gcfix *f)
{
	(void)gcfix_push_new(f, "host/c", GCFIX_T0, 0, 25);
}

static void all_is_there(struct gcfix *f)
{
	assert_int_equal(gcfix_have(f, 0, 25), 25);
	assert_int_equal(gcfix_check(f), 2);
}

static void a_push_at_every_stop(void **state)
{
	struct gcfix *f = *state;

	gcfix_fast(NULL);
	f->opts.cutoff_s = 0;
	each_stop(f, make_garbage, push_all, all_is_there);
}

/* A session that was open before, with its chunks put, ends at the stop. */
static void open_and_fill(struct gcfix *f)
{
	const struct pushfix p = {
		.group = "host/c",
		.time = GCFIX_T0,
		.put = { .first = 0, .n = 25 },
	};
	struct err e = ERR_INIT;

	make_garbage(f);
	assert_ok(pushfix_open(f->ds, &p, &f->other, &f->session, &e), &e);
	assert_ok(pushfix_fill(f->session, &p, &e), &e);
}

static void commit(struct gcfix *f)
{
	struct session *s = f->session;
	struct err e = ERR_INIT;

	f->session = NULL;
	assert_ok(session_commit(s, &e), &e);
}

static void an_open_session_ends_at_every_stop(void **state)
{
	struct gcfix *f = *state;

	gcfix_fast(NULL);
	f->opts.cutoff_s = 0;
	each_stop(f, open_and_fill, commit, all_is_there);
}

/* The snapshot in use is forgotten: GC goes on, and it goes with the next. */
static void forget_b(struct gcfix *f)
{
	const struct backup_snapshot b = {
		.group = { .type = BACKUP_HOST, .id = "b" },
		.time = GCFIX_T0,
	};

	gcfix_forget(f, &b);
}

static void with_another(struct gcfix *f)
{
	make_garbage(f);
	(void)gcfix_push_new(f, "host/d", GCFIX_T0, 15, 10);
	gcfix_age(f, OLD);
}

static void only_another_is_there(struct gcfix *f)
{
	assert_int_equal(gcfix_have(f, 15, 10), 10);
	assert_int_equal(gcfix_check(f), 1);
	gcfix_age(f, OLD);
	gcfix_collect(f);
	assert_int_equal(gcfix_have(f, 15, 10), 10);
	assert_int_equal(gcfix_have(f, 0, 15), 0);
}

static void a_forget_at_every_stop(void **state)
{
	struct gcfix *f = *state;

	each_stop(f, with_another, forget_b, only_another_is_there);
}

/*
 * A session older than the run, whose chunks are older than the cutoff would
 * be without it: the 6 s that a run without margin waits are real here.
 */
static void a_session_older_than_the_run(void **state)
{
	const struct pushfix p = {
		.group = "host/c",
		.time = GCFIX_T0,
		.put = { .first = 0, .n = 25 },
	};
	struct gcfix *f = *state;

	make_garbage(f);
	assert_ok(
	    pushfix_open(f->ds, &p, &f->other, &f->session, &f->e), &f->e);
	assert_ok(pushfix_fill(f->session, &p, &f->e), &f->e);
	f->opts.cutoff_s = 0;
	gcfix_collect(f);
	assert_int_equal(gcfix_have(f, 0, 25), 25);
	assert_int_equal(f->r.pending_cause, GC_PENDING_SESSION);
	commit(f);
	gcfix_collect(f);
	assert_int_equal(gcfix_have(f, 0, 25), 25);
	assert_int_equal(gcfix_check(f), 2);
}

/*
 * A dedup hit on a chunk that the sweep is about to unlink: it has looked at
 * its time, under the prefix lock, and the session comes in between.
 */
static struct {
	struct gcfix *f;
	pthread_t gc;
	pthread_t thread;
	char name[DIGEST_HEX_SIZE];
	_Atomic bool done;
	bool running;
	int rc;
} hit;

static void *fill_session(void *arg)
{
	const struct pushfix p = {
		.group = "host/c",
		.time = GCFIX_T0,
		.put = { .first = 4, .n = 1 },
	};
	struct err e = ERR_INIT;

	(void)arg;
	hit.rc = pushfix_fill(hit.f->session, &p, &e);
	atomic_store(&hit.done, true);
	return NULL;
}

static void before_unlink(void *ctx, struct fault_event *ev)
{
	const struct timespec tick = { .tv_nsec = 10000000 };

	(void)ctx;
	if (ev->call != FAULT_UNLINKAT || hit.running || ev->name == NULL ||
	    strcmp(ev->name, hit.name) != 0 ||
	    !pthread_equal(pthread_self(), hit.gc))
		return;
	hit.running = true;
	assert_int_equal(
	    pthread_create(&hit.thread, NULL, fill_session, NULL), 0);
	/* It has to wait for the lock; give it time to do without. */
	for (unsigned i = 0; i < 100 && !atomic_load(&hit.done); i++)
		(void)nanosleep(&tick, NULL);
	assert_false(atomic_load(&hit.done));
}

static void a_hit_on_a_chunk_that_is_being_removed(void **state)
{
	const struct fault_hooks hooks = { .before = before_unlink };
	const struct pushfix p = { .group = "host/c", .time = GCFIX_T0 };
	struct gcfix *f = *state;
	struct digest d;

	make_garbage(f);
	assert_ok(
	    pushfix_open(f->ds, &p, &f->other, &f->session, &f->e), &f->e);
	pushfix_digest(4, &d);
	digest_hex(&d, hit.name);
	hit.f = f;
	hit.gc = pthread_self();
	hit.running = false;
	atomic_store(&hit.done, false);
	gcfix_fast(&hooks);
	f->opts.cutoff_s = 0;
	gcfix_collect(f);
	assert_true(hit.running);
	(void)pthread_join(hit.thread, NULL);
	fault_uninstall();
	assert_int_equal(hit.rc, 0);
	commit(f);
	assert_int_equal(gcfix_have(f, 4, 1), 1);
	assert_int_equal(gcfix_check(f), 2);
}

/* A session of a process that died: what it left goes, and its chunks. */
static void leave_dead_session(struct gcfix *f, bool published)
{
	int status = 0;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		const struct pushfix p = {
			.group = "host/c",
			.time = GCFIX_T0,
			.put = { .first = 30, .n = 5 },
		};
		struct err e = ERR_INIT;
		struct datastore *ds = NULL;
		struct session *s = NULL;

		if (datastore_open(f->path, DATASTORE_WRITE, NULL, &ds, &e) <
			0 ||
		    pushfix_open(ds, &p, &f->other, &s, &e) < 0 ||
		    pushfix_fill(s, &p, &e) < 0)
			_exit(1);
		/* Dies when its index file has its name, and no manifest. */
		if (published) {
			fault_install();
			fault_add(&(struct fault_rule){
			    .calls = FAULT_BIT(FAULT_RENAMEAT2) |
				FAULT_BIT(FAULT_LINKAT),
			    .name = BACKUP_MANIFEST,
			    .what = FAULT_KILL,
			    .at = 1,
			    .times = 1 });
			(void)session_commit(s, &e);
		}
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(WIFSIGNALED(status), published);
}

static void a_dead_session_is_cleaned_up(void **state)
{
	struct gcfix *f = *state;

	for (unsigned published = 0; published < 2; published++) {
		uint64_t would_go = 0;

		make_garbage(f);
		datastore_close(f->ds);
		f->ds = NULL;
		leave_dead_session(f, published != 0);
		assert_true(gcfix_exists(f, "host/c/" GCFIX_T0_NAME));
		assert_int_equal(
		    gcfix_exists(f, "host/c/" GCFIX_T0_NAME "/a.img.fidx"),
		    published);
		assert_ok(datastore_open(
			      f->path, DATASTORE_WRITE, NULL, &f->ds, &f->e),
		    &f->e);
		gcfix_age(f, OLD);
		f->opts.dry_run = true;
		gcfix_collect(f);
		would_go = f->r.removed_chunks;
		assert_true(gcfix_exists(f, "host/c/" GCFIX_T0_NAME));
		f->opts.dry_run = false;
		gcfix_collect(f);
		assert_false(gcfix_exists(f, "host/c/" GCFIX_T0_NAME));
		assert_int_equal(gcfix_have(f, 30, 5), 0);
		assert_int_equal(f->r.removed_chunks, 15);
		assert_int_equal(would_go, 15);
		assert_int_equal(gcfix_check(f), 1);
		gcfix_remove_tree(f, "host");
		/* Nobody records that; it is meant. */
		f->opts.accept_missing = true;
	}
}

/* One at a time, and the second one says who runs. */
static struct datastore *second;

static void run_second(struct gcfix *f, enum gcfix_point point)
{
	struct task silent = TASK_SILENT;
	struct err e = ERR_INIT;
	struct gc_result r;
	char want[64];
	char who[256];
	bool running = false;

	if (point != GCFIX_LISTED)
		return;
	assert_err(gc_run(second, &f->opts, &silent, &r, &e), &e, ERR_BUSY,
	    "garbage collection of cairn (host ");
	(void)snprintf(want, sizeof(want), "pid %d", (int)getpid());
	assert_non_null(strstr(e.msg, want));
	assert_ok(gc_is_running(f->ds, &running, who, sizeof(who), &e), &e);
	assert_true(running);
	assert_non_null(strstr(who, want));
	/* Nor does PBS get what it wants. */
	assert_false(foreign_can(f->dir.fd, "store/.lock",
	    &(struct foreign_lock){ .classic = true, .type = F_RDLCK }));
}

static void gc_beside_gc(void **state)
{
	struct gcfix *f = *state;
	char who[256];
	bool running = true;

	make_garbage(f);
	assert_ok(
	    datastore_open(f->path, DATASTORE_GC, NULL, &second, &f->e), &f->e);
	f->at = run_second;
	gcfix_collect(f);
	f->at = NULL;
	assert_int_equal(f->r.removed_chunks, 10);
	assert_ok(
	    gc_is_running(f->ds, &running, who, sizeof(who), &f->e), &f->e);
	assert_false(running);
	datastore_close(second);
}

/* PBS: a backup, or its GC, in another process. */
static void pbs_at_work(void **state)
{
	static const struct {
		short type;
		const char *text;
	} cases[] = {
		{ F_RDLCK, "a backup of another program (pid " },
		{ F_WRLCK, "garbage collection of another program (pid " },
	};
	struct gcfix *f = *state;

	make_garbage(f);
	/* cairn's own writers keep its GC out, so there is none. */
	datastore_close(f->ds);
	f->ds = NULL;
	for (size_t i = 0; i < TEST_COUNT(cases); i++) {
		const struct foreign_lock whole = { .classic = true,
			.type = cases[i].type };
		struct foreign_holder holder;
		int rc = 0;
		char who[256] = "";
		bool running = false;

		foreign_start(f->dir.fd, "store/.lock", &whole, &holder);
		rc = gcfix_run(f);
		assert_ok(gc_is_running(f->gc, &running, who, sizeof(who),
			      &(struct err)ERR_INIT),
		    &f->e);
		foreign_end(&holder);
		assert_err(rc, &f->e, ERR_BUSY, cases[i].text);
		assert_int_equal(running, cases[i].type == F_WRLCK);
		assert_int_equal(gcfix_have(f, 0, 10), 10);
	}
	gcfix_collect(f);
	assert_int_equal(gcfix_have(f, 0, 10), 0);
}

/* A session that can not be seen: its lock is there, and no registration. */
static void an_unseen_session(void **state)
{
	const struct foreign_lock byte0 = {
		.type = F_RDLCK, .start = LOCK_BYTE_SESSION, .len = 1
	};
	struct gcfix *f = *state;
	struct foreign_holder holder;
	int rc = 0;

	make_garbage(f);
	foreign_start(f->dir.fd, "store/.lock", &byte0, &holder);
	gcfix_fast(NULL);
	rc = gcfix_run(f);
	foreign_end(&holder);
	assert_err(rc, &f->e, ERR_BUSY, "registration can not be seen");
	assert_int_equal(gcfix_have(f, 0, 10), 10);
}

/* It is seen, and nobody knows since when it runs. */
static void a_damaged_registration(void **state)
{
	const struct pushfix p = { .group = "host/c", .time = GCFIX_T0 };
	struct gcfix *f = *state;
	char path[PATH_MAX];
	char **names = NULL;
	size_t n = 0;
	int fd = openat(f->dir.fd, "store/.cairn/sessions",
	    O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	make_garbage(f);
	assert_ok(
	    pushfix_open(f->ds, &p, &f->other, &f->session, &f->e), &f->e);
	assert_ok(file_list(fd, &names, &n, "sessions", &f->e), &f->e);
	(void)close(fd);
	assert_int_equal(n, 1);
	(void)snprintf(
	    path, sizeof(path), "store/.cairn/sessions/%s", names[0]);
	tmpdir_put_str(f->dir.fd, path, "{");
	assert_err(gcfix_run(f), &f->e, ERR_BUSY, names[0]);
	assert_int_equal(gcfix_have(f, 0, 10), 10);
	f->opts.dry_run = true;
	assert_err(gcfix_run(f), &f->e, ERR_BUSY, names[0]);
	file_list_free(names);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		GCFIX_TEST(a_push_at_every_stop),
		GCFIX_TEST(an_open_session_ends_at_every_stop),
		GCFIX_TEST(a_forget_at_every_stop),
		GCFIX_TEST(a_session_older_than_the_run),
		GCFIX_TEST(a_hit_on_a_chunk_that_is_being_removed),
		GCFIX_TEST(a_dead_session_is_cleaned_up),
		GCFIX_TEST(gc_beside_gc),
		GCFIX_TEST(pbs_at_work),
		GCFIX_TEST(an_unseen_session),
		GCFIX_TEST(a_damaged_registration),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
