/* SPDX-License-Identifier: MIT */
/*
 * What others do to a store at each system call of a push: the push is stopped
 * before its n-th call, the other one acts, and it goes on; for each n.
 *
 * At every call, a garbage collection that comes at this very moment is
 * imagined, too: while it could have the tree lock, it lists.  A chunk that the
 * session relies on is safe in its eyes if an index file references it (the
 * base's, or the session's own) or, for one that the session put, if it sees
 * the session's registration.  If a listing ever found a chunk unprotected,
 * the session must not publish (I2, I3, I4).
 */
#include <errno.h>
#include <stdio.h>

#include "datastore/damage.h"
#include "datastore/locks.h"
#include "datastore/registration.h"
#include "datastore/snapshot.h"
#include "tests/support/sessionfix.h"

#define BASE_INDEX T0_DIR "/" PUSHFIX_NAME
#define OWN_DIR "host/b/2027-01-15T08:00:00Z"
#define OWN_INDEX OWN_DIR "/" PUSHFIX_NAME
#define DIGEST_LEN 64

struct race {
	struct dsfix *f; /* f->ds: the push's; f->second: the others' */
	struct lockfile *gc_locks;
	struct backup_snapshot base;
	void (*act)(struct race *r);
	uint64_t at;
	uint64_t seen;
	bool acted;
	int act_rc;
	bool visible_then; /* the session's index, when the other acted */
	bool relies_on_base;
	bool relies_on_new;
	bool own_unseen; /* by a listing that goes on */
	bool unprotected;
	uint64_t listings;
};

static bool sees_registration(struct race *r)
{
	struct registration_list l = { .n = 0 };
	struct err e = ERR_INIT;
	bool live = false;

	assert_ok(registration_list(r->f->second, &l, &e), &e);
	for (size_t i = 0; i < l.n; i++)
		live = live || l.items[i].live;
	registration_list_release(&l);
	return live;
}

/* One look of a listing that began when the tree lock was last free. */
static void look(struct race *r)
{
	bool own = dsfix_has(r->f, OWN_INDEX);

	r->listings++;
	r->own_unseen = r->own_unseen || !own;
	if (r->relies_on_base && r->own_unseen && !dsfix_has(r->f, BASE_INDEX))
		r->unprotected = true;
	if (r->relies_on_new && !own && !sees_registration(r))
		r->unprotected = true;
}

/*
 * A listing takes its time: it has looked for the session's index long before
 * it looks for the base's.  But while the session has the tree lock there is
 * none, so that one that goes on afterwards began afterwards.
 */
static void imagine_gc(struct race *r)
{
	struct err e = ERR_INIT;
	bool taken = false;

	if (!r->relies_on_base && !r->relies_on_new)
		return;
	assert_ok(lockfile_try(
		      r->gc_locks, LOCK_BYTE_TREE, LOCK_EXCLUSIVE, &taken, &e),
	    &e);
	if (!taken) {
		r->own_unseen = false;
		return;
	}
	look(r);
	lockfile_unlock(r->gc_locks, LOCK_BYTE_TREE, LOCK_EXCLUSIVE);
}

static void stop_point(void *ctx, struct fault_event *ev)
{
	struct race *r = ctx;

	if (ev->call == FAULT_FSYNC || ev->call == FAULT_SYNCFS)
		ev->skip = true;
	if (ev->call == FAULT_CLOCK_GETTIME)
		return;
	if (++r->seen == r->at) {
		r->visible_then = dsfix_has(r->f, OWN_INDEX);
		r->acted = true;
		r->act(r);
	}
	imagine_gc(r);
}

static void see_reliance(void *ctx, struct fault_event *ev)
{
	struct race *r = ctx;
	const char *to = ev->to_name == NULL ? ev->name : ev->to_name;

	if (ev->result < 0)
		return;
	if (ev->call == FAULT_OPENAT && strcmp(ev->name, PUSHFIX_NAME) == 0)
		r->relies_on_base = true;
	if ((ev->call == FAULT_LINKAT || ev->call == FAULT_RENAMEAT2 ||
		ev->call == FAULT_UTIMENSAT) &&
	    strlen(to) >= DIGEST_LEN) /* with its directory */
		r->relies_on_new = true;
}

static void skip_sync(void *ctx, struct fault_event *ev)
{
	(void)ctx;
	if (ev->call == FAULT_FSYNC || ev->call == FAULT_SYNCFS)
		ev->skip = true;
}

static void begin(struct race *r)
{
	void *one = NULL;

	fault_install();
	fault_set_hooks(&(struct fault_hooks){ .before = skip_sync });
	assert_int_equal(sessionfix_setup(&one), 0);
	r->f = one;
	sessionfix_run(r->f, &sessionfix_ten, &r->base);
	assert_ok(datastore_open(r->f->path, DATASTORE_WRITE, NULL,
		      &r->f->second, &r->f->e),
	    &r->f->e);
	assert_ok(lockfile_open(r->f->ds->root_fd, ".lock", &r->gc_locks,
		      ".lock", &r->f->e),
	    &r->f->e);
}

static void end(struct race *r)
{
	void *one = r->f;

	lockfile_close(r->gc_locks);
	assert_int_equal(dsfix_teardown(&one), 0);
}

static const struct pushfix push = {
	.group = "host/b",
	.time = T0,
	.reuse = { .first = 2, .n = 2 },
	.put = { .first = 9, .n = 3 }, /* one is there, two are new */
};

static int run_push(struct race *r)
{
	struct pushfix p = push;
	int rc = 0;

	p.base = &r->base;
	fault_set_hooks(&(struct fault_hooks){
	    .before = stop_point, .after = see_reliance, .ctx = r });
	rc = pushfix_run(r->f->ds, &p, &r->f->task, NULL, &r->f->e);
	fault_set_hooks(&(struct fault_hooks){ .before = skip_sync });
	return rc;
}

/* How often a push went which way. */
struct tally {
	unsigned done;
	unsigned withdrawn;
};

/* One push, met before its n-th call; false: it has no such call. */
static bool at_call(uint64_t n, void (*act)(struct race *r),
    void (*check)(struct race *r, int rc), struct tally *t)
{
	struct race r = { .act = act, .at = n };
	struct pushfix_census c = { .finished = 0 };
	struct err e = ERR_INIT;
	int rc = 0;

	begin(&r);
	rc = run_push(&r);
	if (rc < 0) {
		t->withdrawn++;
	} else {
		t->done++;
	}
	assert_true(r.listings > 0 || rc < 0);
	assert_false(rc == 0 && r.unprotected);
	assert_ok(pushfix_check(r.f->ds, &c, &e), &e);
	if (rc < 0)
		assert_false(dsfix_has(r.f, OWN_DIR));
	check(&r, rc);
	end(&r);
	return r.acted;
}

/*
 * For each n: a new store, the push, and what must hold however it went.
 * Returns how often it went which way, so that a test can not pass idly.
 */
static struct tally at_each_call(
    void (*act)(struct race *r), void (*check)(struct race *r, int rc))
{
	struct tally t = { .done = 0 };
	uint64_t n = 1;

	while (at_call(n, act, check, &t))
		n++;
	return t;
}

/* PBS's prune, which takes no lock of ours (schedules 7 and 9). */
static void remove_base(struct race *r)
{
	dsfix_unlink(r->f, T0_DIR "/index.json.blob");
	dsfix_unlink(r->f, T0_DIR "/b.conf.blob");
	dsfix_unlink(r->f, BASE_INDEX);
	dsfix_rmdir(r->f, T0_DIR);
}

static void check_base(struct race *r, int rc)
{
	(void)r;
	if (rc < 0) {
		assert_true(
		    r->f->e.code == ERR_BUSY || r->f->e.code == ERR_NOTFOUND);
	}
}

static void test_base_pruned(void **state)
{
	struct tally t = at_each_call(remove_base, check_base);

	(void)state;
	assert_true(t.done > 5);
	assert_true(t.withdrawn > 50);
}

/* It has only begun: manifest and index are gone, the rest is there. */
static void remove_base_half(struct race *r)
{
	dsfix_unlink(r->f, T0_DIR "/index.json.blob");
	dsfix_unlink(r->f, BASE_INDEX);
}

static void test_base_half_pruned(void **state)
{
	struct tally t = at_each_call(remove_base_half, check_base);

	(void)state;
	assert_true(t.done > 5);
	assert_true(t.withdrawn > 50);
}

/* cairn's own forget: refused while the base is in use. */
static void forget_base(struct race *r)
{
	struct task task = TASK_SILENT;
	struct err e = ERR_INIT;

	r->act_rc = snapshot_forget(r->f->second, &r->base, &task, &e);
}

static void check_forget(struct race *r, int rc)
{
	if (!r->acted)
		return;
	if (r->act_rc == 0) {
		/* Before it was locked, or after all was done. */
		assert_true(rc == 0 || r->f->e.code == ERR_NOTFOUND);
		assert_true(rc < 0 || r->visible_then);
	} else {
		assert_int_equal(r->act_rc, ERR_BUSY);
		assert_int_equal(rc, 0);
	}
}

static void test_base_forgotten(void **state)
{
	struct tally t = at_each_call(forget_base, check_forget);

	(void)state;
	assert_true(t.done > 50);
	assert_true(t.withdrawn > 5);
}

/* Schedule 6b: `.cairn` was taken for a cache, an operator tidies up. */
static void remove_registrations(struct race *r)
{
	struct registration_list l = { .n = 0 };
	struct err e = ERR_INIT;

	assert_ok(registration_list(r->f->second, &l, &e), &e);
	for (size_t i = 0; i < l.n; i++) {
		char name[PATH_MAX];

		(void)snprintf(
		    name, sizeof(name), ".cairn/sessions/%s", l.items[i].uuid);
		dsfix_unlink(r->f, name);
	}
	registration_list_release(&l);
}

static void check_busy(struct race *r, int rc)
{
	if (rc < 0)
		assert_int_equal(r->f->e.code, ERR_BUSY);
}

static void test_registration_removed(void **state)
{
	struct tally t = at_each_call(remove_registrations, check_busy);

	(void)state;
	assert_true(t.done > 20);
	assert_true(t.withdrawn > 50);
}

/* Cleaners at work: they leave the living alone, at every instant. */
static void clean(struct race *r)
{
	struct task task = TASK_SILENT;
	struct err e = ERR_INIT;
	size_t n = 0;

	assert_ok(session_clean_dead(r->f->second, &task, &n, &e), &e);
	assert_int_equal(n, 0);
}

static void check_done(struct race *r, int rc)
{
	assert_ok(rc, &r->f->e);
}

static void test_cleaned(void **state)
{
	(void)at_each_call(clean, check_done);
	(void)state;
}

/* Somebody forgets the unfinished snapshot: it is in use, or not there. */
static void forget_own(struct race *r)
{
	struct task task = TASK_SILENT;
	struct err e = ERR_INIT;
	struct backup_snapshot own = r->base;
	bool finished = dsfix_has(r->f, OWN_DIR "/" BACKUP_MANIFEST);

	memcpy(own.group.id, "b", 2);
	r->act_rc = snapshot_forget(r->f->second, &own, &task, &e);
	/* It was published, and is forgotten: nothing is relied on any more. */
	if (r->act_rc == 0 && finished) {
		r->relies_on_base = false;
		r->relies_on_new = false;
	}
	/* It may also have been made a moment ago, and not be locked yet. */
	assert_true(r->act_rc == ERR_BUSY || r->act_rc == ERR_NOTFOUND ||
	    r->act_rc == 0);
}

static void test_own_forgotten(void **state)
{
	(void)at_each_call(forget_own, check_done);
	(void)state;
}

/* I2: found missing meanwhile: healed by us, or we withdraw. */
static void damage(struct race *r)
{
	struct err e = ERR_INIT;
	struct digest d;

	pushfix_digest(2, &d);
	assert_ok(damage_append(r->f->second, &d, DAMAGE_MISSING, &e), &e);
}

static void check_damage(struct race *r, int rc)
{
	struct damage *d = NULL;
	size_t n = 0;

	assert_ok(damage_read(r->f->ds, &d, &r->f->e), &r->f->e);
	n = damage_count(d);
	damage_free(d);
	if (rc < 0) {
		assert_int_equal(r->f->e.code, ERR_BUSY);
	} else if (r->acted && !r->visible_then) {
		assert_int_equal(n, 0);
	}
}

static void test_damaged(void **state)
{
	struct tally t = at_each_call(damage, check_damage);

	(void)state;
	assert_true(t.done > 20);
	assert_true(t.withdrawn > 50);
}

/* A second session in the group: one of the two is there at a time. */
static void push_too(struct race *r)
{
	struct pushfix p = { .group = "host/b",
		.time = T0 + 1,
		.put = { .first = 50, .n = 1 } };
	struct task task = TASK_SILENT;
	struct err e = ERR_INIT;

	r->act_rc = pushfix_run(r->f->second, &p, &task, NULL, &e);
	if (r->act_rc < 0)
		assert_int_equal(e.code, ERR_BUSY);
}

static void check_two(struct race *r, int rc)
{
	struct pushfix_census c = { .finished = 0 };

	assert_ok(rc, &r->f->e);
	assert_ok(pushfix_check(r->f->ds, &c, &r->f->e), &r->f->e);
	assert_int_equal(c.finished, 2 + (r->acted && r->act_rc == 0));
	assert_int_equal(c.registrations, 0);
}

static void test_two_sessions(void **state)
{
	(void)at_each_call(push_too, check_two);
	(void)state;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_base_pruned),
		cmocka_unit_test(test_base_half_pruned),
		cmocka_unit_test(test_base_forgotten),
		cmocka_unit_test(test_registration_removed),
		cmocka_unit_test(test_cleaned),
		cmocka_unit_test(test_own_forgotten),
		cmocka_unit_test(test_damaged),
		cmocka_unit_test(test_two_sessions),
	};

	return cmocka_run_group_tests_name("race_session", tests, NULL, NULL);
}
