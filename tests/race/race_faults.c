/* SPDX-License-Identifier: MIT */
/*
 * Runs on file systems that fail and lie, clocks that step, and runs that are
 * killed: no snapshot is hurt, and the next run completes.
 */
#include <errno.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/garbagefix.h"

/*
 * All that is wrong is told in one run: an index, a directory, chunks that can
 * not be touched; and nothing is removed.
 */
static void every_finding_is_told(void **state)
{
	struct gcfix *f = *state;
	char name[DIGEST_HEX_SIZE];
	struct digest d;

	make_garbage(f);
	(void)gcfix_push_new(f, "host/c", GCFIX_T0, 40, 2);
	tmpdir_put_str(f->dir.fd,
	    "store/host/c/" GCFIX_T0_NAME "/" PUSHFIX_NAME, "broken");
	gcfix_mkdir(f, "host/unreadable");
	gcfix_mkdir(f, "vm");
	assert_int_equal(symlinkat("/tmp", f->dir.fd, "store/vm/1"), 0);
	assert_int_equal(symlinkat("/tmp", f->dir.fd, "store/.chunks/ffff"), 0);
	pushfix_digest(12, &d);
	digest_hex(&d, name);
	for (unsigned dry = 0; dry < 2; dry++) {
		f->opts.dry_run = dry != 0;
		gcfix_fast(NULL);
		fault_add(
		    &(struct fault_rule){ .calls = FAULT_BIT(FAULT_UTIMENSAT),
			.name = name,
			.what = FAULT_FAIL,
			.at = 1,
			.times = FAULT_FOREVER,
			.error = EACCES });
		fault_add(
		    &(struct fault_rule){ .calls = FAULT_BIT(FAULT_OPENAT),
			.name = "unreadable",
			.what = FAULT_FAIL,
			.at = 1,
			.times = FAULT_FOREVER,
			.error = EACCES });
		(void)gcfix_run(f);
		fault_uninstall();
		assert_int_equal(f->e.code, ERR_REFUSED);
		assert_non_null(strstr(f->e.msg, "nothing is removed"));
		assert_int_equal(
		    gcfix_said(
			f, "/host/c/" GCFIX_T0_NAME "/" PUSHFIX_NAME "'"),
		    1);
		assert_int_equal(gcfix_said(f, "/host/unreadable'"), 1);
		assert_int_equal(gcfix_said(f, "/vm/1'"), 1);
		assert_int_equal(gcfix_said(f, "/.chunks/ffff'"), 1);
		assert_int_equal(gcfix_said(f, name), 1 - dry);
		assert_int_equal(f->r.warnings, 5 - dry);
		check_untouched(f);
	}
}

/* Each kind alone is enough, and named. */
static void one_finding_is_enough(void **state)
{
	static const struct {
		struct fault_rule rule;
		const char *said;
	} cases[] = {
		{ { .calls = FAULT_BIT(FAULT_OPENAT),
		      .name = GCFIX_T0_NAME,
		      .error = EACCES },
		    "host/b/" GCFIX_T0_NAME },
		{ { .calls = FAULT_BIT(FAULT_OPENAT),
		      .name = PUSHFIX_NAME,
		      .error = EIO },
		    PUSHFIX_NAME },
		{ { .calls = FAULT_BIT(FAULT_PREAD), .error = EIO },
		    PUSHFIX_NAME },
		{ { .calls = FAULT_BIT(FAULT_STATX),
		      .name = PUSHFIX_NAME,
		      .error = EIO },
		    "host/b/" GCFIX_T0_NAME },
	};
	struct gcfix *f = *state;

	make_garbage(f);
	for (size_t i = 0; i < 2 * TEST_COUNT(cases); i++) {
		struct fault_rule rule = cases[i / 2].rule;

		f->opts.dry_run = i % 2 != 0;
		rule.what = FAULT_FAIL;
		rule.at = 1;
		rule.times = FAULT_FOREVER;
		gcfix_fast(NULL);
		fault_add(&rule);
		(void)gcfix_run(f);
		fault_uninstall();
		assert_int_equal(f->e.code, ERR_REFUSED);
		assert_true(gcfix_said(f, cases[i / 2].said) >= 1);
		check_untouched(f);
	}
	f->opts.dry_run = false;
	gcfix_collect(f);
	check_collected(f);
}

/* A directory of chunks that another file system is mounted on. */
static void other_device(void *ctx, struct fault_event *ev)
{
	struct statx *st = ev->p;
	const char *name = ctx;

	if (ev->call == FAULT_STATX && ev->result == 0 && ev->name != NULL &&
	    strcmp(ev->name, name) == 0)
		st->stx_dev_minor++;
}

static void a_mount_among_the_chunks(void **state)
{
	struct gcfix *f = *state;
	struct digest d;
	char hex[DIGEST_HEX_SIZE];
	const struct fault_hooks hooks = { .after = other_device, .ctx = hex };

	make_garbage(f);
	pushfix_digest(3, &d);
	digest_hex(&d, hex);
	hex[4] = '\0';
	gcfix_fast(&hooks);
	assert_err(gcfix_run(f), &f->e, ERR_REFUSED, "nothing is removed");
	assert_int_equal(gcfix_said(f, "is on another device"), 1);
	check_untouched(f);
}

/* Touches that fail, all of them: the reason is told some times, not 1e6. */
static void touches_that_fail(void **state)
{
	static const int errors[] = { EACCES, EIO, EROFS, EPERM };
	static const uint32_t batches[] = { GC_TOUCH_BATCH_MIN,
		GC_TOUCH_BATCH_OFF };
	struct gcfix *f = *state;

	make_garbage(f);
	(void)gcfix_push_new(f, "host/c", GCFIX_T0, 100, 50);
	for (size_t i = 0; i < 2 * TEST_COUNT(errors); i++) {
		f->opts.touch_batch = batches[i % 2];
		gcfix_fast(NULL);
		/* Not .chunks itself: its name is ".". */
		fault_add(
		    &(struct fault_rule){ .calls = FAULT_BIT(FAULT_UTIMENSAT),
			.name = "a",
			.what = FAULT_FAIL,
			.at = 1,
			.times = FAULT_FOREVER,
			.error = errors[i / 2] });
		assert_err(
		    gcfix_run(f), &f->e, ERR_REFUSED, "nothing is removed");
		fault_uninstall();
		assert_int_equal(gcfix_said(f, "W touch '"), 20);
		assert_int_equal(gcfix_said(f, "no more are tried"), 1);
		check_untouched(f);
	}
	fault_uninstall();
	gcfix_collect(f);
	assert_int_equal(gcfix_have(f, 0, 10), 0);
	assert_int_equal(gcfix_have(f, 100, 50), 50);
	assert_int_equal(gcfix_check(f), 2);
}

/*
 * Access times that are not kept: `utimensat` says that it did, from the n-th
 * touch on, or for some names only.
 */
static struct {
	uint64_t from;
	uint64_t calls;
	bool chunks_only;
} lie;

static void ignore_touch(void *ctx, struct fault_event *ev)
{
	(void)ctx;
	if (ev->call != FAULT_UTIMENSAT || ev->skip ||
	    (lie.chunks_only && !is_chunk(ev->name)))
		return;
	lie.calls++;
	if (lie.calls < lie.from)
		return;
	ev->skip = true;
	ev->result = 0;
}

static void touches_that_are_ignored(void **state)
{
	static const uint32_t batches[] = { GC_TOUCH_BATCH_MIN,
		GC_TOUCH_BATCH_OFF };
	const struct fault_hooks hooks = { .before = ignore_touch };
	struct gcfix *f = *state;

	make_garbage(f);
	for (unsigned i = 0; i < 40; i++) {
		lie.chunks_only = i >= 4;
		lie.from = i < 4 ? 1 + i : i / 2 - 1;
		lie.calls = 0;
		f->opts.touch_batch = batches[i % 2];
		gcfix_age(f, OLD);
		gcfix_fast(&hooks);
		(void)gcfix_run(f);
		fault_uninstall();
		if (lie.calls >= lie.from && f->e.code != ERR_REFUSED)
			fail_msg(
			    "lies from %d on: %s", (int)lie.from, f->e.msg);
		if (f->e.code == ERR_REFUSED) {
			check_untouched(f);
		} else {
			check_collected(f);
			gcfix_remove_tree(f, "host");
			make_garbage(f);
		}
	}
}

/* What was touched has an old time again, in the middle of the sweep. */
static void age_at_sweep(struct gcfix *f, enum gcfix_point point)
{
	if (point == GCFIX_SWEEP && f->prefix == 300)
		gcfix_age(f, OLD);
}

static void a_roll_back_stops_the_sweep(void **state)
{
	struct gcfix *f = *state;

	make_garbage(f);
	/* Garbage at the end of the walk, too. */
	gcfix_mkdir(f, ".chunks/ffff");
	tmpdir_put_str(f->dir.fd,
	    "store/.chunks/ffff/ffff"
	    "000000000000000000000000000000000000000000000000000000000000",
	    "some old chunk");
	gcfix_age(f, OLD);
	f->at = age_at_sweep;
	assert_err(gcfix_run(f), &f->e, ERR_REFUSED,
	    "does not keep access times; nothing more is removed");
	assert_int_equal(gcfix_have(f, 10, 15), 15);
	assert_true(gcfix_exists(f,
	    ".chunks/ffff/ffff"
	    "000000000000000000000000000000000000000000000000000000000000"));
}

/*
 * A clock that steps: what is read of `.chunks`, which is the file clock, is
 * shifted from some point on.
 */
static int64_t shift_s;
static int64_t shift_next;

static void shift_clock(void *ctx, struct fault_event *ev)
{
	struct statx *st = ev->p;

	(void)ctx;
	if (ev->call != FAULT_STATX || ev->result != 0 || ev->name == NULL ||
	    strcmp(ev->name, ".") != 0)
		return;
	st->stx_atime.tv_sec += shift_s;
	st->stx_ctime.tv_sec += shift_s;
}

static uint64_t shift_at;

static void step(struct gcfix *f, enum gcfix_point point)
{
	if (shift_at == UINT64_MAX
		? point == GCFIX_MARKED
		: point == GCFIX_SWEEP && f->prefix == shift_at)
		shift_s = shift_next;
}

static int run_with_step(struct gcfix *f, uint64_t at, int64_t seconds)
{
	const struct fault_hooks hooks = { .after = shift_clock };
	int rc = 0;

	shift_s = 0;
	shift_next = seconds;
	shift_at = at;
	gcfix_fast(&hooks);
	f->at = step;
	rc = gcfix_run(f);
	f->at = NULL;
	fault_uninstall();
	return rc;
}

static void a_clock_that_steps(void **state)
{
	struct gcfix *f = *state;

	make_garbage(f);
	f->opts.cutoff_s = GCFIX_HOUR;
	/* Back, by more than the margin of A2, before the first unlink. */
	assert_err(run_with_step(f, UINT64_MAX, -200), &f->e, ERR_REFUSED,
	    "was set back by 3m");
	check_untouched(f);
	/* In the middle of the sweep: it ends at the next look. */
	assert_err(run_with_step(f, 5000, -OLD), &f->e, ERR_REFUSED,
	    "nothing more is removed");
	assert_int_equal(gcfix_have(f, 10, 15), 15);
	assert_true(gcfix_have(f, 0, 10) > 0);
	assert_int_equal(gcfix_have(f, 0, 10) + f->r.removed_chunks, 10);
	/* Forward is told, once. */
	assert_ok(run_with_step(f, UINT64_MAX, 3 * GCFIX_DAY), &f->e);
	assert_int_equal(gcfix_said(f, "was set forward by"), 1);
	check_collected(f);
}

/*
 * Back by less than A2 allows, with a margin of seconds: what a session would
 * store now has a time before the cutoff, so not one more unlink is made.
 */
static void a_small_step_ends_a_run_without_margin(void **state)
{
	struct gcfix *f = *state;
	unsigned first = STORE_PREFIXES;

	make_garbage(f);
	for (unsigned i = 0; i < 10; i++) {
		struct digest d;

		pushfix_digest(i, &d);
		if (digest_prefix(&d) < first)
			first = digest_prefix(&d);
	}
	f->opts.cutoff_s = 0;
	assert_err(run_with_step(f, first, -60), &f->e, ERR_REFUSED,
	    "nothing more is removed");
	assert_int_equal(gcfix_have(f, 0, 25), 25);
}

static void a_little_is_allowed(void **state)
{
	struct gcfix *f = *state;

	make_garbage(f);
	f->opts.cutoff_s = GCFIX_HOUR;
	assert_ok(run_with_step(f, UINT64_MAX, -60), &f->e);
	check_collected(f);
	assert_int_equal(gcfix_said(f, "was set"), 0);
}

/* A run that is killed at its n-th change of anything. */
static bool run_killed(
    struct gcfix *f, uint64_t n, enum fault_what what, uint64_t calls)
{
	int status = 0;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		struct err e = ERR_INIT;
		struct task silent = TASK_SILENT;
		struct gc_result r;
		struct datastore *ds = NULL;

		if (datastore_open(f->path, DATASTORE_GC, NULL, &ds, &e) < 0)
			_exit(1);
		fault_install();
		fault_add(&(struct fault_rule){
		    .calls = calls, .what = what, .at = n, .times = 1 });
		_exit(gc_run(ds, &f->opts, &silent, &r, &e) < 0 ? 2 : 0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (WIFEXITED(status))
		assert_int_equal(WEXITSTATUS(status), 0);
	return WIFSIGNALED(status);
}

static void reopen(struct gcfix *f, bool open)
{
	datastore_close(f->gc);
	datastore_close(f->ds);
	f->gc = NULL;
	f->ds = NULL;
	if (!open)
		return;
	assert_ok(
	    datastore_open(f->path, DATASTORE_GC, NULL, &f->gc, &f->e), &f->e);
	assert_ok(datastore_open(f->path, DATASTORE_WRITE, NULL, &f->ds, &f->e),
	    &f->e);
}

static void kill_at_each(
    struct gcfix *f, enum fault_what what, uint64_t calls, uint64_t least)
{
	uint64_t killed = 0;
	bool more = true;

	for (uint64_t n = 1; more; n++) {
		make_garbage(f);
		/* A lock held here would be held for the child, too. */
		reopen(f, false);
		more = run_killed(f, n, what, calls);
		reopen(f, true);
		killed += more;
		assert_int_equal(gcfix_check(f), 1);
		/* A push of what went, and the next run. */
		(void)gcfix_push_new(f, "host/c", GCFIX_T0, 0, 3);
		gcfix_age(f, OLD);
		gcfix_collect(f);
		assert_int_equal(gcfix_have(f, 0, 3), 3);
		assert_int_equal(gcfix_have(f, 3, 7), 0);
		assert_int_equal(gcfix_check(f), 2);
		assert_int_equal(f->r.warnings, 0);
		gcfix_remove_tree(f, "host");
		gcfix_unlink(f, ".cairn/added");
	}
	assert_true(killed >= least);
}

static void killed_at_each_unlink(void **state)
{
	kill_at_each(*state, FAULT_KILL_AFTER, FAULT_BIT(FAULT_UNLINKAT), 10);
}

static void killed_at_each_change(void **state)
{
	kill_at_each(*state, FAULT_KILL, FAULT_CHANGES, 30);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		GCFIX_TEST(every_finding_is_told),
		GCFIX_TEST(one_finding_is_enough),
		GCFIX_TEST(a_mount_among_the_chunks),
		GCFIX_TEST(touches_that_fail),
		GCFIX_TEST(touches_that_are_ignored),
		GCFIX_TEST(a_roll_back_stops_the_sweep),
		GCFIX_TEST(a_clock_that_steps),
		GCFIX_TEST(a_small_step_ends_a_run_without_margin),
		GCFIX_TEST(a_little_is_allowed),
		GCFIX_TEST(killed_at_each_unlink),
		GCFIX_TEST(killed_at_each_change),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
