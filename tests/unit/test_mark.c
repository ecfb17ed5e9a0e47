/* SPDX-License-Identifier: MIT */
/*
 * What a mark lists and reads, and for which locks it waits.
 */
#include "gc/mark.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "datastore/locks.h"
#include "tests/support/foreign.h"
#include "tests/support/markfix.h"

static void everything_listed_is_read(void **state)
{
	struct gcfix *f = *state;
	struct marked k = { .m = MARK_INIT, .opts = { .locks = true } };
	uint64_t references = 0;

	put(f, S0, "a.fidx", 0);
	put(f, S0, "b.fidx", 5);
	put(f, "ns/x/vm/7/" GCFIX_T0_NAME, "a.fidx", 30);
	put_dynamic(f, S0 "/c.didx", 50);
	assert_ok(run(f, &k), &f->e);
	assert_true(has(&k, 0, 15));
	assert_true(has(&k, 30, 10));
	assert_true(has(&k, 50, 2));
	references = 32;
	assert_int_equal(k.m.roots_n, 4);
	assert_int_equal(k.m.counts.files_read, 4);
	assert_int_equal(k.m.counts.files_total, 4);
	assert_int_equal(k.m.counts.references_read, references);
	assert_int_equal(k.m.counts.references_total, references);
	assert_int_equal(mark_data_bytes(&k.m), 30 * PUSHFIX_CHUNK + 200);
	assert_true(has_root(&k, S0 "/c.didx"));
	assert_false(has_root(&k, S0 "/d.didx"));
	assert_false(k.fell);
	/* Nothing is read twice, and yet it is listed twice. */
	assert_int_equal(k.m.counts.rounds, 2);
	assert_int_equal(k.flushes, 2);
	for (unsigned i = 0; i < 5; i++)
		assert_int_equal(k.times[i], 1);
	assert_int_equal(k.findings.fatal, 0);
	mark_release(&k.m);
}

static void an_odd_place_is_told_once(void **state)
{
	struct gcfix *f = *state;
	struct marked k = { .m = MARK_INIT, .opts = { .locks = true } };

	put(f, "copies/of", "a.fidx", 0);
	assert_ok(run(f, &k), &f->e);
	assert_true(has(&k, 0, 10));
	assert_int_equal(k.findings.warnings, 1);
	assert_int_equal(gcfix_said(f, "copies/of/a.fidx"), 1);
	mark_release(&k.m);
}

/* Another file under the same name is read, too. */
static void replace(struct marked *k, unsigned nth)
{
	if (nth != 2)
		return;
	gcfix_unlink(k->f, S0 "/a.fidx");
	put(k->f, S0, "a.fidx", 20);
}

static void appear(struct marked *k, unsigned nth)
{
	if (nth == 1)
		put(k->f, S1, "a.fidx", 20);
}

static void what_appears_is_read(void **state)
{
	struct gcfix *f = *state;
	struct marked k = { .m = MARK_INIT, .opts = { .locks = true } };

	put(f, S0, "a.fidx", 0);
	k.listed = appear;
	assert_ok(run(f, &k), &f->e);
	assert_true(has(&k, 0, 10) && has(&k, 20, 10));
	assert_int_equal(k.m.counts.rounds, 2);
	assert_int_equal(k.m.roots_n, 2);
	mark_release(&k.m);
}

/* Between the listing and the look at it: what was listed is gone. */
static void what_is_replaced_is_read_again(void **state)
{
	struct gcfix *f = *state;
	struct marked k = { .m = MARK_INIT, .opts = { .locks = true } };

	put(f, S0, "a.fidx", 0);
	k.listed = replace;
	assert_ok(run(f, &k), &f->e);
	assert_true(has(&k, 0, 10) && has(&k, 20, 10));
	assert_int_equal(k.m.counts.rounds, 3);
	assert_int_equal(k.m.roots_n, 1);
	mark_release(&k.m);
}

/*
 * Same path, same inode, and as far as the file system's times tell the same
 * file: the uuid in its header says that it is another.
 */
static void no_ctime(void *ctx, struct fault_event *ev)
{
	struct statx *st = ev->p;

	(void)ctx;
	if (ev->call == FAULT_STATX && ev->result == 0) {
		st->stx_ctime.tv_sec = 1;
		st->stx_ctime.tv_nsec = 0;
	}
}

static void overwrite(struct marked *k, unsigned nth)
{
	if (nth == 2)
		put(k->f, S0, "a.fidx", 20);
}

static void the_uuid_tells_files_apart(void **state)
{
	const struct fault_hooks hooks = { .after = no_ctime };
	struct gcfix *f = *state;
	struct marked k = { .m = MARK_INIT, .opts = { .locks = true } };

	put(f, S0, "a.fidx", 0);
	gcfix_fast(&hooks);
	k.listed = overwrite;
	assert_ok(run(f, &k), &f->e);
	assert_true(has(&k, 0, 10) && has(&k, 20, 10));
	mark_release(&k.m);
}

/* rm -r of what was listed, and a newer one in its place, each time. */
static void rm_and_put(struct marked *k, unsigned nth)
{
	char dir[64];
	bool held = !foreign_can_byte(
	    k->f->dir.fd, "store/.lock", LOCK_BYTE_PRUNE, F_RDLCK);

	/* From the 4th on nobody may remove, of those who ask. */
	assert_int_equal(held, nth >= 4);
	assert_true(foreign_can_byte(
	    k->f->dir.fd, "store/.lock", LOCK_BYTE_TREE, F_RDLCK));
	if (nth > 5)
		return;
	(void)snprintf(dir, sizeof(dir), "host/a/2027-01-15T08:00:%02uZ", nth);
	gcfix_remove_tree(k->f, dir);
	(void)snprintf(
	    dir, sizeof(dir), "host/a/2027-01-15T08:00:%02uZ", nth + 1);
	put(k->f, dir, "a.fidx", 10 * nth);
}

static void what_vanishes_is_listed_again(void **state)
{
	struct gcfix *f = *state;
	struct marked k = { .m = MARK_INIT, .opts = { .locks = true } };

	put(f, S1, "a.fidx", 0);
	k.listed = rm_and_put;
	assert_ok(run(f, &k), &f->e);
	assert_int_equal(k.m.counts.rounds, 6);
	assert_true(has(&k, 50, 10));
	assert_int_equal(k.m.roots_n, 1);
	assert_true(foreign_can_byte(
	    f->dir.fd, "store/.lock", LOCK_BYTE_PRUNE, F_WRLCK));
	mark_release(&k.m);
}

/*
 * Moved by hand from a place that the walk has not reached to one that it has
 * passed: the first listing shows neither, and nothing vanished.
 */
static void move_by_hand(void *ctx, struct fault_event *ev)
{
	struct gcfix *f = ctx;

	if (ev->call == FAULT_OPENAT && ev->name != NULL &&
	    strcmp(ev->name, "vm") == 0)
		(void)renameat(
		    f->dir.fd, "store/vm/1", f->dir.fd, "store/ct/1");
}

static void one_move_by_hand_is_caught(void **state)
{
	struct gcfix *f = *state;
	const struct fault_hooks hooks = { .before = move_by_hand, .ctx = f };
	struct marked k = { .m = MARK_INIT, .opts = { .locks = true } };

	put(f, "vm/1/" GCFIX_T0_NAME, "a.fidx", 0);
	gcfix_mkdir(f, "ct");
	fault_install();
	fault_set_hooks(&hooks);
	assert_ok(run(f, &k), &f->e);
	assert_true(has(&k, 0, 10));
	assert_true(has_root(&k, "ct/1/" GCFIX_T0_NAME "/a.fidx"));
	mark_release(&k.m);
}

/* Who never stops must not keep GC for ever. */
static void rm_for_ever(struct marked *k, unsigned nth)
{
	gcfix_remove_tree(k->f, nth % 2 == 1 ? S1 : S2);
	put(k->f, nth % 2 == 1 ? S2 : S1, "a.fidx", 0);
}

static void it_gives_up(void **state)
{
	struct gcfix *f = *state;
	struct marked k = { .m = MARK_INIT, .opts = { .locks = true } };

	put(f, S1, "a.fidx", 0);
	k.listed = rm_for_ever;
	assert_err(run(f, &k), &f->e, ERR_BUSY, "vanished in each");
	mark_release(&k.m);
}

/* The tree lock is held while it lists, and only then. */
static struct {
	unsigned held;
	unsigned free;
	struct gcfix *f;
} lock;

static void look_at_lock(void *ctx, struct fault_event *ev)
{
	(void)ctx;
	if (ev->call != FAULT_READDIR)
		return;
	if (foreign_can_byte(
		lock.f->dir.fd, "store/.lock", LOCK_BYTE_TREE, F_RDLCK)) {
		lock.free++;
	} else {
		lock.held++;
	}
}

static void the_tree_is_locked_while_it_lists(void **state)
{
	const struct fault_hooks hooks = { .before = look_at_lock };
	struct gcfix *f = *state;
	struct marked k = { .m = MARK_INIT, .opts = { .locks = true } };

	put(f, S0, "a.fidx", 0);
	lock.f = f;
	lock.held = 0;
	lock.free = 0;
	fault_install();
	fault_set_hooks(&hooks);
	assert_ok(run(f, &k), &f->e);
	assert_true(lock.held > 0);
	assert_int_equal(lock.free, 0);
	lock.held = 0;
	k.opts.locks = false;
	assert_ok(run(f, &k), &f->e);
	assert_int_equal(lock.held, 0);
	assert_true(lock.free > 0);
	mark_release(&k.m);
}

/* Each look at the clock finds it 2 s later. */
static void hurry(void *ctx, struct fault_event *ev)
{
	static int64_t ahead;
	struct timespec *ts = ev->p;

	(void)ctx;
	if (ev->call != FAULT_CLOCK_GETTIME || ev->flags != CLOCK_BOOTTIME)
		return;
	ahead += 2;
	ts->tv_sec += ahead;
}

/* A lock that is not to be had ends it, and says what it waited for. */
static void it_does_not_wait_for_ever(void **state)
{
	const struct foreign_lock tree = {
		.type = F_RDLCK, .start = LOCK_BYTE_TREE, .len = 1
	};
	struct gcfix *f = *state;
	struct marked k = { .m = MARK_INIT, .opts = { .locks = true } };
	const struct fault_hooks hooks = { .after = hurry };
	struct foreign_holder holder;
	int rc = 0;

	foreign_start(f->dir.fd, "store/.lock", &tree, &holder);
	fault_install();
	fault_set_hooks(&hooks);
	rc = run(f, &k);
	foreign_end(&holder);
	assert_err(rc, &f->e, ERR_BUSY, "waited 30 s for the tree lock");
	mark_release(&k.m);
}

/* Somebody who took a lock behind a listing, and keeps it. */
static struct {
	struct foreign_holder holder;
	struct foreign_lock lock;
	unsigned nth;
} late;

static void take_late(struct marked *k, unsigned nth)
{
	if (nth <= late.nth)
		rm_and_put(k, nth);
	if (nth == late.nth)
		foreign_start(
		    k->f->dir.fd, "store/.lock", &late.lock, &late.holder);
}

/* Hours of reading are not thrown away as soon as nothing at all. */
static void it_waits_longer_once_it_has_read(void **state)
{
	static const struct {
		off_t byte;
		unsigned nth;
		const char *want;
	} rows[] = {
		{ LOCK_BYTE_TREE, 1, "waited 600 s for the tree lock of '" },
		{ LOCK_BYTE_PRUNE, 3, "waited 600 s for the prune lock of '" },
	};
	const struct fault_hooks hooks = { .after = hurry };
	struct gcfix *f = *state;

	for (size_t i = 0; i < TEST_COUNT(rows); i++) {
		struct marked k = { .m = MARK_INIT, .opts = { .locks = true } };
		int rc = 0;

		put(f, S1, "a.fidx", 0);
		late.nth = rows[i].nth;
		late.lock = (struct foreign_lock){
			.type = F_RDLCK, .start = rows[i].byte, .len = 1
		};
		k.listed = take_late;
		fault_install();
		fault_set_hooks(&hooks);
		rc = run(f, &k);
		fault_uninstall();
		foreign_end(&late.holder);
		assert_err(rc, &f->e, ERR_BUSY, rows[i].want);
		assert_non_null(strstr(f->e.msg, "held by: a forget or prune"));
		mark_release(&k.m);
	}
}

static void stop(struct marked *k, unsigned nth)
{
	(void)nth;
	k->f->task.stop = 2;
}

static void it_stops_when_told(void **state)
{
	struct gcfix *f = *state;
	struct marked k = { .m = MARK_INIT, .opts = { .locks = true } };

	put(f, S0, "a.fidx", 0);
	k.listed = stop;
	assert_err(run(f, &k), &f->e, ERR_CANCELLED, "SIGINT");
	assert_true(foreign_can_byte(
	    f->dir.fd, "store/.lock", LOCK_BYTE_TREE, F_WRLCK));
	f->task.stop = 0;
	mark_release(&k.m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		GCFIX_TEST(everything_listed_is_read),
		GCFIX_TEST(an_odd_place_is_told_once),
		GCFIX_TEST(what_appears_is_read),
		GCFIX_TEST(what_is_replaced_is_read_again),
		GCFIX_TEST(the_uuid_tells_files_apart),
		GCFIX_TEST(what_vanishes_is_listed_again),
		GCFIX_TEST(one_move_by_hand_is_caught),
		GCFIX_TEST(it_gives_up),
		GCFIX_TEST(the_tree_is_locked_while_it_lists),
		GCFIX_TEST(it_does_not_wait_for_ever),
		GCFIX_TEST(it_waits_longer_once_it_has_read),
		GCFIX_TEST(it_stops_when_told),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
