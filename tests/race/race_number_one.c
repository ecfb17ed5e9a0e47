/* SPDX-License-Identifier: MIT */
/*
 * Test number one: a snapshot is published and its base removed while GC is
 * between its listing and its reading, or in the middle of a listing.
 *
 * The classic accident: the index of the base is gone before it is read, that
 * of the new snapshot was not listed, neither is marked, and the chunks that
 * the new one shares with the base are swept.  The chunks of every base here
 * are two days old, and the margin is 0.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "datastore/locks.h"
#include "datastore/snapshot.h"
#include "tests/support/gcfix.h"

#define OLD (2 * GCFIX_DAY)

/* How the base goes. */
enum removal {
	BY_FORGET,   /* cairn forget */
	BY_RM,       /* rm -r, or PBS's prune: no lock of ours */
	BY_HALF,     /* the same, stopped when its index was gone */
	BY_MANIFEST, /* ... and earlier */
	REMOVALS
};

/* What the tests of this file share; one runs at a time. */
static enum removal removal;

static void remove_dir(struct gcfix *f, const char *dir, enum removal how)
{
	char name[PATH_MAX];

	(void)snprintf(name, sizeof(name), "%s/" BACKUP_MANIFEST, dir);
	gcfix_unlink(f, name);
	if (how == BY_MANIFEST)
		return;
	(void)snprintf(name, sizeof(name), "%s/" PUSHFIX_NAME, dir);
	gcfix_unlink(f, name);
	if (how == BY_RM)
		gcfix_rmdir(f, dir);
}

static void remove_snapshot(
    struct gcfix *f, const struct backup_snapshot *s, enum removal how)
{
	char dir[BACKUP_PATH_SIZE];

	backup_snapshot_path(s, dir);
	if (how == BY_FORGET) {
		gcfix_forget(f, s);
	} else {
		remove_dir(f, dir, how);
	}
}

/* A snapshot of chunks 0..9 and one more, that touches only the one more. */
static struct pushfix based_on(
    const char *group, const struct backup_snapshot *base, unsigned more)
{
	return (struct pushfix){
		.group = group,
		.time = GCFIX_T0 + 1,
		.base = base,
		.reuse = { .first = 0, .n = 10 },
		.put = { .first = more, .n = 1 },
	};
}

static void publish_and_remove(struct gcfix *f, enum gcfix_point point)
{
	struct pushfix p = based_on("host/a", &f->s0, 10);

	if (point != GCFIX_LISTED || f->listings > 1)
		return;
	(void)gcfix_push(f, &p);
	remove_snapshot(f, &f->s0, removal);
}

/* S1 is published and S0 removed between the listing and the reading. */
static void between_listing_and_reading(void **state)
{
	static const char *const groups[] = { "host/a", "ct/a", "vm/z" };
	struct gcfix *f = *state;

	gcfix_fast(NULL);
	f->opts.cutoff_s = 0;
	for (removal = BY_FORGET; removal < REMOVALS; removal++) {
		for (size_t i = 0; i < TEST_COUNT(groups); i++) {
			f->s0 = gcfix_push_new(f, groups[i], GCFIX_T0, 0, 10);
			/* Garbage, so that there is something to be swept. */
			(void)gcfix_push_new(f, "host/g", GCFIX_T0, 50, 5);
			gcfix_remove_tree(f, "host/g");
			gcfix_age(f, OLD);
			f->at = publish_and_remove;
			gcfix_collect(f);
			f->at = NULL;
			assert_int_equal(gcfix_have(f, 0, 11), 11);
			assert_int_equal(gcfix_have(f, 50, 5), 0);
			assert_int_equal(gcfix_check(f), 1);
			/* And once more, with what is left. */
			gcfix_age(f, OLD);
			gcfix_collect(f);
			assert_int_equal(gcfix_have(f, 0, 11), 11);
			assert_int_equal(gcfix_check(f), 1);
			gcfix_remove_tree(f, "host");
			if (gcfix_exists(f, "ct"))
				gcfix_remove_tree(f, "ct");
			if (gcfix_exists(f, "vm"))
				gcfix_remove_tree(f, "vm");
		}
	}
}

/*
 * A chain: S1 on S0, S2 on S1, each base gone before it is read; `links` of
 * them behind each of the first three listings.  From the 4th on GC holds the
 * prune lock until it has read what it listed.
 */
static unsigned links;

static void chain(struct gcfix *f, enum gcfix_point point)
{
	struct pushfix p = based_on("host/a", &f->s0, 10);
	struct backup_snapshot s1;

	if (point != GCFIX_LISTED || f->listings > 3)
		return;
	for (unsigned i = 0; i < links; i++) {
		p.base = &f->s0;
		p.time = f->s0.time + 1;
		s1 = gcfix_push(f, &p);
		remove_snapshot(f, &f->s0, removal);
		f->s0 = s1;
	}
}

static void a_chain_of_bases(void **state)
{
	struct gcfix *f = *state;

	gcfix_fast(NULL);
	f->opts.cutoff_s = 0;
	for (unsigned i = 0; i < 2 * REMOVALS; i++) {
		removal = i / 2;
		links = 1 + 3 * (i % 2);
		f->s0 = gcfix_push_new(f, "host/a", GCFIX_T0, 0, 10);
		gcfix_age(f, OLD);
		f->at = chain;
		gcfix_collect(f);
		f->at = NULL;
		assert_int_equal(f->listings, removal == BY_MANIFEST ? 2 : 4);
		assert_int_equal(gcfix_have(f, 0, 11), 11);
		assert_int_equal(gcfix_check(f), 1);
		gcfix_remove_tree(f, "host");
	}
}

/*
 * The leapfrog: in the middle of the first listing, when the place of S1 was
 * passed and its base not yet reached, S1 is published and the base goes; in
 * the second S2, based on S1, does the same to S1.  Neither listing shows
 * anything that is not read or vanished, and S2 is not marked.  The tree lock
 * is what makes both wait for the listing's end.
 */
enum stage { BEFORE_FIRST, IN_FIRST, BEFORE_SECOND, IN_SECOND, AFTER };

static struct {
	struct gcfix *f;
	pthread_t gc;
	enum stage stage;
	struct datastore *other;
	struct session *session;
	struct backup_snapshot base; /* of the session */
	pthread_t thread;
	bool running;
	_Atomic bool done;
	int rc; /* of the commit */
	unsigned published;
} frog;

/* What the other process does; the base is half gone, or whole. */
static void *publish(void *arg)
{
	struct err e = ERR_INIT;
	char dir[BACKUP_PATH_SIZE];

	(void)arg;
	backup_snapshot_path(&frog.base, dir);
	frog.rc = session_commit(frog.session, &e);
	frog.session = NULL;
	if (frog.rc == 0)
		frog.published++;
	if (frog.rc == 0 && removal == BY_FORGET) {
		struct task silent = TASK_SILENT;

		frog.rc = snapshot_forget(frog.f->ds, &frog.base, &silent, &e);
	} else if (frog.rc == 0) {
		remove_dir(frog.f, dir, removal);
	}
	atomic_store(&frog.done, true);
	return NULL;
}

/* Let it run; if it has to wait for the listing, it will not be done. */
static void start_publishing(void)
{
	const struct timespec tick = { .tv_nsec = 5000000 };

	atomic_store(&frog.done, false);
	assert_int_equal(pthread_create(&frog.thread, NULL, publish, NULL), 0);
	frog.running = true;
	for (unsigned i = 0; i < 100 && !atomic_load(&frog.done); i++)
		(void)nanosleep(&tick, NULL);
}

static void join(void)
{
	if (frog.running)
		(void)pthread_join(frog.thread, NULL);
	frog.running = false;
}

static void open_session(const char *group, unsigned more)
{
	struct pushfix p = based_on(group, &frog.base, more);
	struct gcfix *f = frog.f;
	struct err e = ERR_INIT;

	assert_ok(pushfix_open(f->ds, &p, &f->other, &frog.session, &e), &e);
	assert_ok(pushfix_fill(frog.session, &p, &e), &e);
}

/*
 * The walk goes down in the order of names: ct/two, host/one, vm/zero.  S1 is
 * in host/one, its base in vm/zero; S2 in ct/two.
 */
static void on_open(void *ctx, struct fault_event *ev)
{
	(void)ctx;
	if (ev->call != FAULT_OPENAT || ev->name == NULL ||
	    !pthread_equal(pthread_self(), frog.gc))
		return;
	if (frog.stage == BEFORE_FIRST && strcmp(ev->name, "zero") == 0) {
		frog.stage = IN_FIRST;
		start_publishing();
	} else if (frog.stage == BEFORE_SECOND &&
	    strcmp(ev->name, "one") == 0 && frog.session != NULL) {
		frog.stage = IN_SECOND;
		start_publishing();
	}
}

/* Between the listings: S1 is there, or was refused; S2 opens on it. */
static void between(struct gcfix *f, enum gcfix_point point)
{
	/* Reading opens the same directories as listing does. */
	if (frog.stage != IN_FIRST || f->unread || point == GCFIX_MARKED ||
	    point == GCFIX_SWEEP)
		return;
	join();
	frog.stage = BEFORE_SECOND;
	if (frog.rc < 0)
		return;
	frog.base = (struct backup_snapshot){
		.group = { .type = BACKUP_HOST, .id = "one" },
		.time = GCFIX_T0 + 1,
	};
	open_session("ct/two", 11);
}

static void leapfrog(struct gcfix *f)
{
	const struct fault_hooks hooks = { .before = on_open };

	frog.f = f;
	frog.gc = pthread_self();
	frog.stage = BEFORE_FIRST;
	frog.published = 0;
	frog.base = gcfix_push_new(f, "vm/zero", GCFIX_T0, 0, 10);
	/* The group stays when its snapshot goes; others do not vanish. */
	(void)gcfix_push_new(f, "vm/zero", GCFIX_T0 + 5, 60, 1);
	(void)gcfix_push_new(f, "host/one", GCFIX_T0 + 5, 60, 1);
	(void)gcfix_push_new(f, "ct/two", GCFIX_T0 + 5, 60, 1);
	gcfix_age(f, OLD);
	open_session("host/one", 10);
	gcfix_fast(&hooks);
	f->opts.cutoff_s = 0;
	f->at = between;
	gcfix_collect(f);
	f->at = NULL;
	join();
	fault_uninstall();
	assert_int_equal(frog.stage, IN_SECOND);
	assert_int_equal(frog.published, 2);
	/* Whatever was published is whole. */
	assert_int_equal(gcfix_have(f, 0, 10), 10);
	(void)gcfix_check(f);
	/* And stays so. */
	gcfix_age(f, OLD);
	f->opts.cutoff_s = GCFIX_CUTOFF;
	gcfix_collect(f);
	assert_int_equal(gcfix_have(f, 0, 10), 10);
	(void)gcfix_check(f);
}

static void two_sessions_leapfrog_by_forget(void **state)
{
	removal = BY_FORGET;
	leapfrog(*state);
}

static void two_sessions_leapfrog_by_rm(void **state)
{
	removal = BY_RM;
	leapfrog(*state);
}

static void two_sessions_leapfrog_by_half(void **state)
{
	removal = BY_HALF;
	leapfrog(*state);
}

/*
 * The base is removed by rm before the session publishes: the session sees
 * that, and publishes nothing.
 */
static void rm_under_an_open_session(void **state)
{
	struct gcfix *f = *state;
	struct err e = ERR_INIT;
	char dir[BACKUP_PATH_SIZE];

	frog.f = f;
	frog.base = gcfix_push_new(f, "vm/zero", GCFIX_T0, 0, 10);
	(void)gcfix_push_new(f, "vm/zero", GCFIX_T0 + 5, 60, 1);
	gcfix_age(f, OLD);
	open_session("host/one", 10);
	backup_snapshot_path(&frog.base, dir);
	remove_dir(f, dir, BY_RM);
	gcfix_fast(NULL);
	f->opts.cutoff_s = 0;
	f->opts.accept_missing = true;
	gcfix_collect(f);
	assert_err(session_commit(frog.session, &e), &e, ERR_BUSY, "");
	frog.session = NULL;
	assert_int_equal(gcfix_check(f), 1);
	assert_int_equal(gcfix_have(f, 0, 10), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		GCFIX_TEST(between_listing_and_reading),
		GCFIX_TEST(a_chain_of_bases),
		GCFIX_TEST(two_sessions_leapfrog_by_forget),
		GCFIX_TEST(two_sessions_leapfrog_by_rm),
		GCFIX_TEST(two_sessions_leapfrog_by_half),
		GCFIX_TEST(rm_under_an_open_session),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
