/* SPDX-License-Identifier: MIT */
/*
 * A whole small push whose n-th system call or allocation fails, for each n:
 * afterwards the snapshot is listed and whole, or nothing of it is left but
 * what a dead session leaves and the next cleaner removes; the older snapshot
 * is whole; the next push works.
 */
#include <errno.h>
#include <stdio.h>

#include "datastore/damage.h"
#include "datastore/locks.h"
#include "datastore/snapshot.h"
#include "tests/support/failmalloc.h"
#include "tests/support/sessionfix.h"

#define GROUP "host/b"

/*
 * The n-th call fails; and no fsync reaches the disk, of which this program
 * makes tens of thousands: nobody cuts the power here.
 */
struct strike {
	uint64_t at; /* 0: none */
	bool after;  /* done all the same */
	int error;
	uint64_t seen;
	bool hit;
	bool hit_lock; /* a lock that could not be taken, or dropped */
};

struct fixture {
	struct dsfix *f;
	struct lockfile *locks; /* not the datastore's */
	struct strike strike;
	struct backup_snapshot base;
	unsigned next; /* number of a chunk that was never put */
	size_t fds;
};

static bool is_due(struct strike *k, const struct fault_event *ev)
{
	if ((FAULT_BIT(ev->call) & FAULT_ANY) == 0 || k->at == 0)
		return false;
	return k->seen == k->at && !k->hit;
}

static void strike_before(void *ctx, struct fault_event *ev)
{
	struct strike *k = ctx;
	bool closes = ev->call == FAULT_CLOSE || ev->call == FAULT_CLOSEDIR;

	k->seen += (FAULT_BIT(ev->call) & FAULT_ANY) != 0;
	if (ev->call == FAULT_FSYNC || ev->call == FAULT_SYNCFS)
		ev->skip = true;
	/* What is closed is closed, and a stream that nobody gets leaks. */
	if (!is_due(k, ev) || closes ||
	    (k->after && ev->call != FAULT_FDOPENDIR))
		return;
	ev->skip = true;
	ev->result = -1;
	ev->result_p = NULL;
	ev->error = k->error;
	k->hit = true;
	k->hit_lock = ev->call == FAULT_OFD_LOCK;
}

static void strike_after(void *ctx, struct fault_event *ev)
{
	struct strike *k = ctx;
	bool opens = ev->call == FAULT_OPENAT || ev->call == FAULT_CREATE;

	if (!is_due(k, ev))
		return;
	if (opens && ev->result >= 0)
		(void)close((int)ev->result);
	ev->result = -1;
	ev->result_p = NULL;
	ev->error = k->error;
	k->hit = true;
	k->hit_lock = ev->call == FAULT_OFD_LOCK;
}

static int setup(void **state)
{
	struct fixture *x = calloc(1, sizeof(*x));
	struct digest d;
	void *one = NULL;

	*state = x;
	if (x == NULL || sessionfix_setup(&one) < 0)
		return -1;
	x->f = one;
	x->next = 100;
	fault_install();
	fault_set_hooks(&(struct fault_hooks){ .before = strike_before,
	    .after = strike_after,
	    .ctx = &x->strike });
	sessionfix_run(x->f, &sessionfix_ten, &x->base);
	/* So that the list is read, refreshed and appended to. */
	pushfix_digest(3, &d);
	assert_ok(damage_append(x->f->ds, &d, DAMAGE_BAD, &x->f->e), &x->f->e);
	if (lockfile_open(
		x->f->ds->root_fd, ".lock", &x->locks, ".lock", &x->f->e) < 0)
		return -1;
	x->fds = tmpdir_open_fds();
	return 0;
}

static int teardown(void **state)
{
	struct fixture *x = *state;
	void *one = x->f;

	(void)failmalloc_off();
	fault_uninstall();
	lockfile_close(x->locks);
	free(x);
	return dsfix_teardown(&one);
}

/* A push that goes everywhere: base, damaged, old and new chunks, a blob. */
static struct pushfix next_push(struct fixture *x)
{
	struct pushfix p = { .group = GROUP,
		.base = &x->base,
		.reuse = { .first = 2, .n = 2 },
		.put = { .first = x->next, .n = 2 },
		.blob = true };

	x->next += 2;
	return p;
}

static struct pushfix_census census(struct fixture *x)
{
	struct pushfix_census c = { .finished = 0 };

	assert_ok(pushfix_check(x->f->ds, &c, &x->f->e), &x->f->e);
	return c;
}

/* Chunk 3 is on the list again: the next push has to heal it, too. */
static void damage_again(struct fixture *x)
{
	struct digest d;

	pushfix_digest(3, &d);
	assert_ok(damage_append(x->f->ds, &d, DAMAGE_BAD, &x->f->e), &x->f->e);
}

/* As another process sees it: through a description of our own. */
static bool is_held(struct fixture *x, uint64_t byte)
{
	bool held = true;

	assert_ok(
	    lockfile_is_held(x->locks, byte, LOCK_EXCLUSIVE, &held, &x->f->e),
	    &x->f->e);
	return held;
}

static void clean_and_push(struct fixture *x, bool locks_too)
{
	struct pushfix p = next_push(x);
	struct pushfix_census c;
	struct backup_snapshot id;
	size_t n = 0;

	assert_ok(
	    session_clean_dead(x->f->ds, &x->f->task, &n, &x->f->e), &x->f->e);
	c = census(x);
	assert_int_equal(c.finished, 1);
	assert_int_equal(c.unfinished, 0);
	assert_int_equal(c.registrations, 0);
	if (locks_too) {
		assert_false(is_held(x, LOCK_BYTE_SESSION));
		assert_false(is_held(x, LOCK_BYTE_TREE));
	}
	sessionfix_run(x->f, &p, &id);
	c = census(x);
	assert_int_equal(c.finished, 2);
	assert_ok(
	    snapshot_forget(x->f->ds, &id, &x->f->task, &x->f->e), &x->f->e);
}

/* After a push that may have failed. */
static void judge(
    struct fixture *x, int rc, const struct backup_snapshot *id, bool locks_too)
{
	size_t said = strlen(x->f->e.msg);
	struct pushfix_census c = census(x);

	assert_int_equal(tmpdir_open_fds(), x->fds);
	if (rc == 0) {
		assert_int_equal(c.finished, 2);
		assert_int_equal(c.unfinished, 0);
		assert_ok(snapshot_forget(x->f->ds, id, &x->f->task, &x->f->e),
		    &x->f->e);
	} else {
		/* Said why, with a name that means something. */
		assert_true(said > 10);
		assert_int_equal(c.finished, 1);
	}
	clean_and_push(x, locks_too);
	damage_again(x);
}

static void fail_each_call(struct fixture *x, bool after, int error)
{
	uint64_t failed = 0;

	for (uint64_t n = 1;; n++) {
		struct pushfix p = next_push(x);
		struct backup_snapshot id;
		struct strike was;
		int rc = 0;

		x->f->e = (struct err)ERR_INIT;
		x->strike =
		    (struct strike){ .at = n, .after = after, .error = error };
		rc = pushfix_run(x->f->ds, &p, &x->f->task, &id, &x->f->e);
		was = x->strike;
		x->strike.at = 0;
		if (!was.hit)
			assert_ok(rc, &x->f->e);
		failed += rc < 0;
		/* A lock that could not be dropped stays until the close. */
		judge(x, rc, &id, !was.hit_lock);
		if (!was.hit)
			break;
	}
	/* Most calls matter, and it was not the first that always failed. */
	assert_in_range(failed, 80, 2000);
}

static void test_eio(void **state)
{
	fail_each_call(*state, false, EIO);
}

static void test_enospc(void **state)
{
	fail_each_call(*state, false, ENOSPC);
}

static void test_eacces(void **state)
{
	fail_each_call(*state, false, EACCES);
}

/* Something else is there, or nothing: names that come and go. */
static void test_enoent(void **state)
{
	fail_each_call(*state, false, ENOENT);
}

/* Done, but said to have failed, as a server does whose answer was lost. */
static void test_lost_answers(void **state)
{
	fail_each_call(*state, true, EIO);
}

static void fail_each_allocation(struct fixture *x, void (*arm)(uint64_t n))
{
	uint64_t failed = 0;

	for (uint64_t n = 1;; n++) {
		struct pushfix p = next_push(x);
		struct backup_snapshot id;
		bool done = false;
		int rc = 0;

		x->f->e = (struct err)ERR_INIT;
		arm(n);
		rc = pushfix_run(x->f->ds, &p, &x->f->task, &id, &x->f->e);
		done = failmalloc_off() == 0;
		if (done) {
			assert_ok(rc, &x->f->e);
		} else if (rc < 0) {
			assert_int_equal(x->f->e.code, ERR_NOMEM);
		}
		failed += rc < 0;
		judge(x, rc, &id, true);
		if (done)
			break;
	}
	assert_in_range(failed, 20, 2000);
}

static void test_memory_once(void **state)
{
	fail_each_allocation(*state, failmalloc_at);
}

/* From then on there is none: not even for cleaning up. */
static void test_memory_out(void **state)
{
	fail_each_allocation(*state, failmalloc_from);
}

#define TORTURE(t) cmocka_unit_test_setup_teardown(t, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TORTURE(test_eio),
		TORTURE(test_enospc),
		TORTURE(test_eacces),
		TORTURE(test_enoent),
		TORTURE(test_lost_answers),
		TORTURE(test_memory_once),
		TORTURE(test_memory_out),
	};

	return cmocka_run_group_tests_name(
	    "torture_session", tests, NULL, NULL);
}
