/* SPDX-License-Identifier: MIT */
/*
 * What the last run read, what was removed on purpose, and what is gone.
 */
#include "gc/roots.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "datastore/damage.h"
#include "datastore/snapshot.h"
#include "tests/support/gcfix.h"

#define OLD (2 * GCFIX_DAY)
#define A0 "host/a/" GCFIX_T0_NAME
#define B0 "host/b/" GCFIX_T0_NAME
#define ALL SNAPSHOT_ADDED_ALL "\n"

static char *get(struct gcfix *f, const char *name)
{
	char path[PATH_MAX];
	char *text = NULL;

	(void)snprintf(path, sizeof(path), "store/.cairn/%s", name);
	text = tmpdir_get(f->dir.fd, path, NULL);
	assert_non_null(text);
	return text;
}

static void assert_text(struct gcfix *f, const char *name, const char *want)
{
	char *text = get(f, name);

	assert_string_equal(text, want);
	free(text);
}

/* host/a has `a` chunks, host/b the ten behind 100; a run has seen both. */
static void two_groups(struct gcfix *f, unsigned a)
{
	(void)gcfix_push_new(f, "host/a", GCFIX_T0, 0, a);
	(void)gcfix_push_new(f, "host/b", GCFIX_T0, 100, 10);
	gcfix_age(f, OLD);
	gcfix_collect(f);
	gcfix_age(f, OLD);
}

static void a_run_writes_what_it_read(void **state)
{
	static const char zeros[] = "00000000000000000000000000000000";
	struct gcfix *f = *state;
	char want[512];

	two_groups(f, 10);
	(void)snprintf(want, sizeof(want),
	    "%s " A0 "/a.img.fidx\n%s " B0 "/a.img.fidx\nend 2\n", zeros,
	    zeros);
	assert_text(f, "roots", want);
}

/* Names are bytes: each file is one line. */
static void odd_names_take_one_line(void **state)
{
	struct gcfix *f = *state;
	char *text = NULL;
	unsigned lines = 0;

	(void)gcfix_push_new(f, "host/b", GCFIX_T0, 0, 1);
	gcfix_mkdir(f, "odd\nplace");
	gcfix_put_index(f, "odd\nplace/a\\b.fidx", 0, 1);
	gcfix_collect(f);
	text = get(f, "roots");
	assert_non_null(strstr(text, " odd\\nplace/a\\\\b.fidx\n"));
	for (const char *c = text; *c != '\0'; c++)
		lines += *c == '\n';
	assert_int_equal(lines, 3);
	free(text);
	/* And is known again. */
	gcfix_collect(f);
	assert_int_equal(gcfix_said(f, "that the last run read"), 0);
}

/* A group that is not mounted: more than half would go. */
static void a_group_that_is_gone_stops_it(void **state)
{
	struct gcfix *f = *state;
	char *before = NULL;

	two_groups(f, 30);
	gcfix_remove_tree(f, "host/a");
	gcfix_mkdir(f, "host/a"); /* the empty mount point */
	f->opts.dry_run = true;
	assert_err(
	    gcfix_run(f), &f->e, ERR_REFUSED, "30 of 40 chunks would go");
	before = get(f, "roots");
	f->opts.dry_run = false;
	assert_err(
	    gcfix_run(f), &f->e, ERR_REFUSED, "'" A0 "/a.img.fidx' is gone");
	assert_non_null(strstr(f->e.msg, "30 of 40 chunks would go"));
	assert_non_null(strstr(f->e.msg, "--accept-missing"));
	assert_int_equal(gcfix_have(f, 0, 30), 30);
	/* A refused run has seen nothing: the next one refuses, too. */
	assert_text(f, "roots", before);
	free(before);
	assert_err(gcfix_run(f), &f->e, ERR_REFUSED, "would go");
	f->opts.accept_missing = true;
	gcfix_collect(f);
	assert_int_equal(gcfix_have(f, 0, 30), 0);
	assert_int_equal(gcfix_have(f, 100, 10), 10);
	f->opts.accept_missing = false;
	gcfix_collect(f);
	assert_int_equal(f->r.warnings, 0);
}

/* Half of all or less is told, and goes. */
static void a_small_one_is_told(void **state)
{
	struct gcfix *f = *state;

	two_groups(f, 10);
	gcfix_remove_tree(f, "host/a");
	f->opts.dry_run = true;
	gcfix_collect(f);
	assert_int_equal(f->r.removed_chunks, 10);
	f->opts.dry_run = false;
	gcfix_collect(f);
	assert_int_equal(gcfix_said(f, "1 index file that the last run"), 1);
	assert_int_equal(f->r.removed_chunks, 10);
	assert_int_equal(gcfix_have(f, 100, 10), 10);
	gcfix_collect(f);
	assert_int_equal(f->r.warnings, 0);
}

/* forget says what it removes. */
static void what_was_forgotten_is_not_gone(void **state)
{
	struct gcfix *f = *state;
	struct backup_snapshot s0 = {
		.group = { .type = BACKUP_HOST, .id = "a" },
		.time = GCFIX_T0,
	};

	two_groups(f, 30);
	gcfix_forget(f, &s0);
	assert_text(f, "removed", A0 "\n");
	gcfix_collect(f);
	assert_int_equal(f->r.warnings, 0);
	assert_int_equal(f->r.removed_chunks, 30);
	assert_text(f, "removed", "");
}

/* Forgotten while GC sweeps: the next one has to know of it. */
static void forget_in_sweep(struct gcfix *f, enum gcfix_point point)
{
	if (point == GCFIX_SWEEP && f->prefix == 5)
		gcfix_forget(f, &f->s0);
}

static void what_is_forgotten_meanwhile_stays_recorded(void **state)
{
	struct gcfix *f = *state;
	struct backup_snapshot old =
	    gcfix_push_new(f, "host/c", GCFIX_T0, 200, 1);

	two_groups(f, 30);
	gcfix_forget(f, &old);
	f->s0 = (struct backup_snapshot){
		.group = { .type = BACKUP_HOST, .id = "a" },
		.time = GCFIX_T0,
	};
	f->at = forget_in_sweep;
	gcfix_collect(f);
	f->at = NULL;
	assert_text(f, "removed", A0 "\n");
	gcfix_age(f, OLD);
	gcfix_collect(f);
	assert_int_equal(f->r.warnings, 0);
	assert_int_equal(f->r.removed_chunks, 30);
	assert_text(f, "removed", "");
}

static void push_in_sweep(struct gcfix *f, enum gcfix_point point)
{
	if (point == GCFIX_SWEEP && f->prefix == 5)
		f->s0 = gcfix_push_new(f, "host/d", GCFIX_T0, 300, 1);
}

static void forget_behind_added(void *ctx, struct fault_event *ev)
{
	struct gcfix *f = ctx;

	if (ev->call == FAULT_RENAMEAT2 && ev->result == 0 &&
	    ev->to_name != NULL && strcmp(ev->to_name, "added") == 0)
		gcfix_forget(f, &f->s0);
}

/* Between the two lists that are emptied: both keep it. */
static void what_is_pushed_and_removed_meanwhile(void **state)
{
	struct gcfix *f = *state;
	const struct fault_hooks hooks = { .after = forget_behind_added,
		.ctx = f };

	two_groups(f, 30);
	f->at = push_in_sweep;
	gcfix_fast(&hooks);
	gcfix_collect(f);
	fault_uninstall();
	f->at = NULL;
	assert_text(f, "added", "host/d/" GCFIX_T0_NAME "\n");
	assert_text(f, "removed", "host/d/" GCFIX_T0_NAME "\n");
	gcfix_collect(f);
	assert_int_equal(f->r.warnings, 0);
	assert_text(f, "added", "");
	/* One run later the other one: killed between them, it is in both. */
	gcfix_collect(f);
	assert_text(f, "removed", "");
}

/* Moved by hand: the same files under another name. */
static void what_was_moved_is_not_gone(void **state)
{
	struct gcfix *f = *state;

	(void)gcfix_push_new(f, "host/b", GCFIX_T0, 0, 1);
	gcfix_mkdir(f, A0);
	gcfix_put_index(f, A0 "/a.fidx", 0, 10);
	gcfix_collect(f);
	assert_int_equal(
	    renameat(f->dir.fd, "store/host/a", f->dir.fd, "store/host/z"), 0);
	gcfix_collect(f);
	assert_int_equal(gcfix_said(f, "that the last run read"), 0);
}

/* Half a list says nothing, and is in nobody's way. */
static void a_torn_list_is_none(void **state)
{
	static const char *const texts[] = { "", "end", "end 0",
		"00000000000000000000000000000001 host/x/y/z.fidx\n",
		"00000000000000000000000000000001 host/x/y/z.fidx\nend 2\n",
		"00000000000000000000000000000001 host/x/y/z.fidx\nend 1",
		"short x\nend 1\n" };
	struct gcfix *f = *state;

	two_groups(f, 10);
	for (size_t i = 0; i < TEST_COUNT(texts); i++) {
		tmpdir_put_str(f->dir.fd, "store/.cairn/roots", texts[i]);
		gcfix_collect(f);
		assert_int_equal(f->r.warnings, 0);
	}
	tmpdir_put_str(f->dir.fd, "store/.cairn/roots",
	    "00000000000000000000000000000001 host/x/y/z.fidx\nend 1\n");
	gcfix_collect(f);
	assert_int_equal(f->r.warnings, 1);
}

/* By sets, where the disk is full: the same rule. */
static void it_holds_without_touches(void **state)
{
	struct gcfix *f = *state;

	two_groups(f, 30);
	gcfix_remove_tree(f, "host/a");
	gcfix_fast(NULL);
	fault_add(&(struct fault_rule){ .calls = FAULT_BIT(FAULT_UTIMENSAT),
	    .what = FAULT_FAIL,
	    .at = 1,
	    .times = FAULT_FOREVER,
	    .error = ENOSPC });
	/* Their ctimes are new, so nothing would go now; but one day. */
	assert_err(
	    gcfix_run(f), &f->e, ERR_REFUSED, "30 of 40 chunks would go");
	assert_int_equal(gcfix_said(f, "that the last run read"), 1);
	assert_true(f->r.set_based);
	assert_int_equal(gcfix_have(f, 0, 30), 30);
}

/* A store whose chunks are all gone: what lies there instead stays. */
static void so_does_that_of_an_emptied_store(void **state)
{
	struct gcfix *f = *state;
	struct damage *damage = NULL;

	(void)gcfix_push_new(f, "host/a", GCFIX_T0, 0, 3);
	for (unsigned i = 0; i < 3; i++)
		gcfix_remove_chunk(f, i);
	gcfix_fast(NULL);
	fault_add(&(struct fault_rule){ .calls = FAULT_BIT(FAULT_UTIMENSAT),
	    .what = FAULT_FAIL,
	    .at = 1,
	    .times = FAULT_FOREVER,
	    .error = ENOSPC });
	assert_err(gcfix_run(f), &f->e, ERR_REFUSED, "none of the 3 chunks");
	assert_true(f->r.set_based);
	assert_int_equal(gcfix_said(f, "is missing"), 0);
	assert_ok(damage_read(f->ds, &damage, &f->e), &f->e);
	assert_int_equal(damage_count(damage), 0);
	damage_free(damage);
	f->opts.accept_missing = true;
	assert_ok(gcfix_run(f), &f->e);
	assert_int_equal(f->r.missing_chunks, 3);
}

/*
 * A margin does not disarm it: a run that keeps everything as pending must
 * not forget that there was a group, or the next one, a margin later, removes
 * its chunks.
 */
static void a_margin_does_not_disarm_it(void **state)
{
	struct gcfix *f = *state;

	two_groups(f, 30);
	for (unsigned i = 0; i < 30; i++)
		gcfix_age_chunk(f, i, 60);
	gcfix_remove_tree(f, "host/a");
	f->opts.cutoff_s = GC_CUTOFF_DEFAULT_S;
	assert_err(
	    gcfix_run(f), &f->e, ERR_REFUSED, "30 of 40 chunks would go");
	f->opts.cutoff_s = 0;
	assert_err(
	    gcfix_run(f), &f->e, ERR_REFUSED, "30 of 40 chunks would go");
	assert_int_equal(gcfix_have(f, 0, 30), 30);
}

/* The records of removals go when the list without them is there. */
static void a_list_that_can_not_be_written(void **state)
{
	struct gcfix *f = *state;
	struct backup_snapshot s0 = {
		.group = { .type = BACKUP_HOST, .id = "a" },
		.time = GCFIX_T0,
	};

	two_groups(f, 30);
	gcfix_forget(f, &s0);
	f->opts.cutoff_s = 3 * GCFIX_DAY;
	gcfix_fast(NULL);
	fault_add(&(struct fault_rule){ .calls = FAULT_BIT(FAULT_RENAMEAT2),
	    .name = "roots",
	    .what = FAULT_FAIL,
	    .at = 1,
	    .times = FAULT_FOREVER,
	    .error = EIO });
	gcfix_collect(f);
	fault_uninstall();
	assert_int_equal(f->r.warnings, 1);
	assert_text(f, "removed", A0 "\n");
	gcfix_collect(f);
	assert_int_equal(f->r.warnings, 0);
	assert_text(f, "removed", "");
}

/* Not read, as asked, is not gone; removed from a snapshot set aside is. */
static void what_is_set_aside_is_not_gone(void **state)
{
	struct backup_snapshot s0 = {
		.group = { .type = BACKUP_HOST, .id = "a" },
		.time = GCFIX_T0,
	};
	struct gcfix *f = *state;

	two_groups(f, 30);
	gcfix_age(f, OLD);
	tmpdir_put_str(f->dir.fd, "store/" A0 "/a.img.fidx", "short");
	f->opts.ignore = &s0;
	f->opts.ignore_n = 1;
	f->opts.dry_run = true;
	assert_ok(gcfix_run(f), &f->e);
	assert_int_equal(unlinkat(f->dir.fd, "store/" A0 "/a.img.fidx", 0), 0);
	assert_err(gcfix_run(f), &f->e, ERR_REFUSED, "is gone");
	tmpdir_put_str(f->dir.fd, "store/" A0 "/a.img.fidx", "short");
	f->opts.dry_run = false;
	assert_ok(gcfix_run(f), &f->e);
	assert_int_equal(gcfix_said(f, "that the last run read"), 0);
	assert_int_equal(gcfix_have(f, 100, 10), 10);
}

/* No run has seen them yet: a push wrote down that it was there. */
static void what_was_pushed_since_is_missed(void **state)
{
	struct gcfix *f = *state;

	(void)gcfix_push_new(f, "host/a", GCFIX_T0, 0, 30);
	(void)gcfix_push_new(f, "host/b", GCFIX_T0, 100, 10);
	assert_text(f, "added", ALL A0 "\n" B0 "\n");
	gcfix_age(f, OLD);
	gcfix_remove_tree(f, "host/a");
	f->opts.dry_run = true;
	assert_err(gcfix_run(f), &f->e, ERR_REFUSED, "'" A0 "' is gone");
	f->opts.dry_run = false;
	assert_err(gcfix_run(f), &f->e, ERR_REFUSED, "'" A0 "' is gone");
	assert_non_null(strstr(f->e.msg, "30 of 40 chunks would go"));
	assert_int_equal(gcfix_said(f, "1 snapshot pushed since the last"), 1);
	assert_int_equal(gcfix_have(f, 0, 30), 30);
	f->opts.accept_missing = true;
	gcfix_collect(f);
	assert_int_equal(gcfix_have(f, 0, 30), 0);
	/* Who went on knows of it, and the other one is a root by now. */
	assert_text(f, "added", "");
	f->opts.accept_missing = false;
	gcfix_collect(f);
	assert_int_equal(f->r.warnings, 0);
	/* Between two runs. */
	(void)gcfix_push_new(f, "host/c", GCFIX_T0, 200, 30);
	gcfix_age(f, OLD);
	gcfix_remove_tree(f, "host/c");
	assert_err(gcfix_run(f), &f->e, ERR_REFUSED, "30 of 40 chunks");
}

/* What is no path of a snapshot says nothing, and ends nothing. */
static void odd_lines_are_passed_over(void **state)
{
	struct gcfix *f = *state;

	two_groups(f, 10);
	tmpdir_put_str(f->dir.fd, "store/.cairn/added",
	    "\n/\n../../etc\n#ost/a\nhost/a/x\ntorn");
	gcfix_collect(f);
	assert_int_equal(f->r.warnings, 0);
}

/* A store that others have filled: nobody knows what else there was. */
static void an_unknown_past_is_counted(void **state)
{
	static const char *const lost[] = { ".cairn/added", ".cairn" };
	struct gcfix *f = *state;

	for (size_t i = 0; i < TEST_COUNT(lost); i++) {
		struct backup_snapshot again;

		(void)gcfix_push_new(f, "host/a", GCFIX_T0, 0, 30);
		(void)gcfix_push_new(f, "host/b", GCFIX_T0, 100, 10);
		gcfix_age(f, OLD);
		gcfix_remove_tree(f, "host/a");
		if (i == 0) {
			gcfix_unlink(f, lost[i]);
		} else {
			gcfix_remove_tree(f, lost[i]);
		}
		f->opts.dry_run = true;
		assert_err(gcfix_run(f), &f->e, ERR_REFUSED,
		    "nothing tells which snapshots");
		f->opts.dry_run = false;
		assert_err(gcfix_run(f), &f->e, ERR_REFUSED,
		    "nothing tells which snapshots");
		assert_non_null(strstr(f->e.msg, "30 of 40 chunks"));
		assert_int_equal(gcfix_have(f, 0, 30), 30);
		f->opts.accept_missing = true;
		gcfix_collect(f);
		f->opts.accept_missing = false;
		assert_int_equal(gcfix_have(f, 0, 30), 0);
		/* From now on it is known. */
		again = gcfix_push_new(f, "host/a", GCFIX_T0, 0, 30);
		gcfix_age(f, OLD);
		gcfix_forget(f, &again);
		gcfix_collect(f);
		assert_int_equal(gcfix_have(f, 0, 30), 0);
		gcfix_remove_tree(f, "host");
	}
}

/* A store of cairn's own, where no push came to its end: all of it may go. */
static void nothing_but_rests(void **state)
{
	struct gcfix *f = *state;
	struct backup_snapshot s = gcfix_push_new(f, "host/a", GCFIX_T0, 0, 30);

	gcfix_age(f, OLD);
	gcfix_forget(f, &s);
	tmpdir_put_str(f->dir.fd, "store/.cairn/added", ALL);
	tmpdir_put_str(f->dir.fd, "store/.cairn/removed", "");
	gcfix_collect(f);
	assert_int_equal(f->r.removed_chunks, 30);
	assert_int_equal(f->r.warnings, 0);
	/* But not if there is a snapshot that no push of ours has made. */
	(void)gcfix_push_new(f, "host/b", GCFIX_T0, 100, 10);
	(void)gcfix_push_new(f, "host/c", GCFIX_T0, 200, 30);
	gcfix_age(f, OLD);
	gcfix_remove_tree(f, "host/c");
	gcfix_unlink(f, ".cairn/roots");
	tmpdir_put_str(f->dir.fd, "store/.cairn/added", ALL);
	assert_err(gcfix_run(f), &f->e, ERR_REFUSED, "nothing tells which");
}

/* Half of it or less goes: the rest shows that most is there. */
static void a_small_part_of_an_unknown_past(void **state)
{
	struct gcfix *f = *state;

	(void)gcfix_push_new(f, "host/a", GCFIX_T0, 0, 10);
	(void)gcfix_push_new(f, "host/b", GCFIX_T0, 100, 10);
	gcfix_age(f, OLD);
	gcfix_remove_tree(f, "host/a");
	gcfix_unlink(f, ".cairn/added");
	gcfix_collect(f);
	assert_int_equal(f->r.removed_chunks, 10);
	assert_int_equal(f->r.warnings, 0);
}

/* No room to record a removal: the record of the push is struck off. */
static void a_removal_without_room(void **state)
{
	struct gcfix *f = *state;
	char struck[] = ALL A0 "\n" B0 "\n";
	struct backup_snapshot a = gcfix_push_new(f, "host/a", GCFIX_T0, 0, 30);

	(void)gcfix_push_new(f, "host/b", GCFIX_T0, 100, 10);
	gcfix_age(f, OLD);
	fault_install();
	fault_add(&(struct fault_rule){
	    .calls = FAULT_BIT(FAULT_CREATE) | FAULT_BIT(FAULT_WRITE),
	    .name = "removed",
	    .what = FAULT_FAIL,
	    .at = 1,
	    .times = FAULT_FOREVER,
	    .error = ENOSPC });
	gcfix_forget(f, &a);
	fault_uninstall();
	struck[strlen(ALL)] = '#';
	assert_text(f, "added", struck);
	gcfix_collect(f);
	assert_int_equal(gcfix_have(f, 0, 30), 0);
	assert_int_equal(f->r.warnings, 0);
}

/* Nor can a line be struck off (btrfs): what was removed has made room. */
static void a_removal_that_makes_room(void **state)
{
	struct gcfix *f = *state;
	struct backup_snapshot a = gcfix_push_new(f, "host/a", GCFIX_T0, 0, 30);

	(void)gcfix_push_new(f, "host/b", GCFIX_T0, 100, 10);
	gcfix_age(f, OLD);
	fault_install();
	fault_add(&(struct fault_rule){ .calls = FAULT_BIT(FAULT_CREATE),
	    .name = "removed",
	    .what = FAULT_FAIL,
	    .at = 1,
	    .times = 1,
	    .error = ENOSPC });
	fault_add(&(struct fault_rule){ .calls = FAULT_BIT(FAULT_PWRITE),
	    .what = FAULT_FAIL,
	    .at = 1,
	    .times = 1,
	    .error = ENOSPC });
	gcfix_forget(f, &a);
	fault_uninstall();
	assert_text(f, "removed", A0 "\n");
	gcfix_collect(f);
	assert_int_equal(gcfix_have(f, 0, 30), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		GCFIX_TEST(a_run_writes_what_it_read),
		GCFIX_TEST(odd_names_take_one_line),
		GCFIX_TEST(a_group_that_is_gone_stops_it),
		GCFIX_TEST(a_small_one_is_told),
		GCFIX_TEST(what_was_forgotten_is_not_gone),
		GCFIX_TEST(what_is_forgotten_meanwhile_stays_recorded),
		GCFIX_TEST(a_list_that_can_not_be_written),
		GCFIX_TEST(what_is_pushed_and_removed_meanwhile),
		GCFIX_TEST(what_was_moved_is_not_gone),
		GCFIX_TEST(a_torn_list_is_none),
		GCFIX_TEST(it_holds_without_touches),
		GCFIX_TEST(so_does_that_of_an_emptied_store),
		GCFIX_TEST(a_margin_does_not_disarm_it),
		GCFIX_TEST(what_is_set_aside_is_not_gone),
		GCFIX_TEST(what_was_pushed_since_is_missed),
		GCFIX_TEST(odd_lines_are_passed_over),
		GCFIX_TEST(an_unknown_past_is_counted),
		GCFIX_TEST(nothing_but_rests),
		GCFIX_TEST(a_small_part_of_an_unknown_past),
		GCFIX_TEST(a_removal_without_room),
		GCFIX_TEST(a_removal_that_makes_room),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
