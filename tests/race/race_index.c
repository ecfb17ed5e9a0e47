/* SPDX-License-Identifier: MIT */
/*
 * Garbage collection by the chunk index: it removes what a run without it
 * would, notes what it removes before it does, and is not believed where it
 * is wrong.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "datastore/config.h"
#include "datastore/damage.h"
#include "index/chunkidx.h"
#include "index/chunkidx_run.h"
#include "tests/support/garbagefix.h"
#include "tests/support/gen.h"

/* Chunks that only the index has: a base of several pages. */
#define MADE_UP 20000U

#define INDEX "store/.cairn/index/"

static int64_t ctime_shift;
static struct gcfix *fix;
static unsigned unlinks;
static unsigned noted; /* of these, before they were made */
static bool done;      /* what is to be done once in a run */

static enum chunkidx_found ask(const struct digest *d, bool *ret_in_base)
{
	struct err e = ERR_INIT;
	struct chunkidx *ix = NULL;
	struct chunkidx_hit hit;
	enum chunkidx_found found = CHUNKIDX_UNKNOWN;

	assert_ok(chunkidx_open(fix->ds, NULL, &ix, &e), &e);
	found = chunkidx_find(ix, d, &hit);
	*ret_in_base = hit.in_base;
	chunkidx_close(ix);
	return found;
}

/* Change times can not be set: the file system tells old ones. */
static void after(void *ctx, struct fault_event *ev)
{
	struct statx *st = ev->p;

	(void)ctx;
	if (ev->call == FAULT_STATX && ev->result == 0 && is_chunk(ev->name))
		st->stx_ctime.tv_sec -= ctime_shift;
}

static void before(void *ctx, struct fault_event *ev)
{
	const char *name = ev->name;
	struct digest d;
	bool in_base = false;
	enum chunkidx_found found = CHUNKIDX_UNKNOWN;

	(void)ctx;
	if (ev->call != FAULT_UNLINKAT || !is_chunk(name))
		return;
	name = strrchr(name, '/') == NULL ? name : strrchr(name, '/') + 1;
	if (!digest_parse(name, strlen(name), &d))
		return;
	unlinks++;
	found = ask(&d, &in_base);
	noted += found == CHUNKIDX_REMOVED || found == CHUNKIDX_UNKNOWN;
}

static void run(struct gcfix *f)
{
	const struct fault_hooks hooks = { .before = before, .after = after };

	unlinks = 0;
	noted = 0;
	done = false;
	gcfix_fast(&hooks);
	(void)gcfix_run(f);
	fault_uninstall();
}

static struct chunkidx_info info(void)
{
	struct err e = ERR_INIT;
	struct chunkidx *ix = NULL;
	struct chunkidx_info i;

	assert_ok(chunkidx_open(fix->ds, NULL, &ix, &e), &e);
	chunkidx_get_info(ix, &i);
	chunkidx_close(ix);
	return i;
}

/* Chunks 0 to 24, all of them in the index; then 0 to 9 become garbage. */
static void make_indexed(struct gcfix *f)
{
	struct backup_snapshot s0;

	fix = f;
	f->opts.index = true;
	s0 = gcfix_push_new(f, "host/a", GCFIX_T0, 0, 15);
	(void)gcfix_push_new(f, "host/b", GCFIX_T0, 10, 15);
	gcfix_collect(f);
	assert_false(f->r.by_index);
	assert_int_equal(info().state, CHUNKIDX_READY);
	assert_int_equal(info().chunks, 25);
	gcfix_forget(f, &s0);
	gcfix_age(f, OLD);
	ctime_shift = OLD;
}

static void it_removes_what_is_garbage(void **state)
{
	struct gcfix *f = *state;

	make_indexed(f);
	run(f);
	assert_ok(f->e.code, &f->e);
	assert_true(f->r.by_index);
	assert_int_equal(f->r.removed_chunks, 10);
	assert_int_equal(f->r.disk_chunks, 15);
	assert_int_equal(f->r.pending_chunks, 0);
	assert_int_equal(f->r.missing_chunks, 0);
	assert_false(f->fell);
	check_collected(f);
	assert_int_equal(info().chunks, 15);
	/* And so it stays. */
	run(f);
	assert_ok(f->e.code, &f->e);
	assert_true(f->r.by_index);
	assert_int_equal(f->r.removed_chunks, 0);
	check_collected(f);
}

static void it_notes_a_removal_before_it_is_made(void **state)
{
	struct gcfix *f = *state;

	make_indexed(f);
	run(f);
	assert_ok(f->e.code, &f->e);
	assert_int_equal(unlinks, 10);
	assert_int_equal(noted, 10);
}

/* Without it, the same: the index is not believed from then on. */
static void so_does_a_full_run(void **state)
{
	struct gcfix *f = *state;

	make_indexed(f);
	f->opts.full = true;
	run(f);
	assert_ok(f->e.code, &f->e);
	assert_false(f->r.by_index);
	assert_int_equal(unlinks, 10);
	assert_int_equal(noted, 10);
	check_collected(f);
	assert_int_equal(info().state, CHUNKIDX_READY);
	assert_int_equal(info().chunks, 15);
}

static void it_asks_for_both_times(void **state)
{
	struct gcfix *f = *state;

	make_indexed(f);
	ctime_shift = 0;
	run(f);
	assert_ok(f->e.code, &f->e);
	assert_true(f->r.by_index);
	assert_int_equal(f->r.pending_chunks, 10);
	check_untouched(f);
	/* They stay candidates. */
	ctime_shift = OLD;
	gcfix_age_chunk(f, 3, 0);
	run(f);
	assert_ok(f->e.code, &f->e);
	assert_int_equal(f->r.removed_chunks, 9);
	assert_int_equal(gcfix_have(f, 3, 1), 1);
}

/* What is on the way out comes back into use. */
static void push_at_sweep(struct gcfix *f, enum gcfix_point point)
{
	if (point != GCFIX_SWEEP || done)
		return;
	done = true;
	(void)gcfix_push_new(f, "host/c", GCFIX_T0 + 9, 0, 10);
}

static void a_push_meanwhile_keeps_its_chunks(void **state)
{
	struct gcfix *f = *state;

	make_indexed(f);
	f->at = push_at_sweep;
	f->opts.cutoff_s = GCFIX_HOUR;
	run(f);
	f->at = NULL;
	assert_ok(f->e.code, &f->e);
	assert_true(done);
	assert_int_equal(gcfix_check(f), 2);
	assert_int_equal(gcfix_have(f, 0, 25), 25);
}

/* Put more into the index than there is, so that its base has many pages. */
static void make_up(struct gcfix *f)
{
	struct chunkrun *r = NULL;
	struct gen g;

	gen_seed(&g, 1);
	assert_ok(chunkrun_new(f->ds, &r, &f->e), &f->e);
	for (unsigned i = 0; i < MADE_UP; i++) {
		struct cix_entry x = { .size = 1 };

		gen_fill(&g, GEN_RANDOM, &x.digest, DIGEST_SIZE);
		chunkrun_add(r, &x);
	}
	assert_string_equal(chunkrun_commit(r), "");
	chunkrun_free(r);
}

/*
 * Between mark and sweep a page changes, as it may when memory is short and
 * it is read anew from a bad disk.  In the entry before the one of a chunk in
 * use, and which nothing references, stands that chunk; and what stands in its
 * own is greater, or what was in the one before.
 */
static bool in_order;
static unsigned victim;

/* Of those in use the last one: it is not among those that are touched for a
 * sample. */
#define USED_FIRST 100U
#define USED 60U

static unsigned last_used(void)
{
	unsigned last = USED_FIRST;

	for (unsigned i = USED_FIRST + 1; i < USED_FIRST + USED; i++) {
		struct digest a;
		struct digest b;

		pushfix_digest(last, &a);
		pushfix_digest(i, &b);
		last = digest_compare(&a, &b) < 0 ? i : last;
	}
	return last;
}

static bool change(uint8_t page[CIX_PAGE])
{
	struct digest d;

	pushfix_digest(victim, &d);
	for (unsigned i = 1; i < CIX_PAGE_ENTRIES; i++) {
		uint8_t *p = page + 16 + (size_t)i * CIX_ENTRY_SIZE;
		uint8_t keep[CIX_ENTRY_SIZE];

		if (memcmp(p, d.b, DIGEST_SIZE) != 0)
			continue;
		memcpy(keep, p - CIX_ENTRY_SIZE, CIX_ENTRY_SIZE);
		memcpy(p - CIX_ENTRY_SIZE, p, CIX_ENTRY_SIZE);
		if (in_order)
			p[DIGEST_SIZE - 1]++;
		else
			memcpy(p, keep, CIX_ENTRY_SIZE);
		return true;
	}
	return false;
}

static void change_page(struct gcfix *f, enum gcfix_point point)
{
	char name[64];
	uint8_t page[CIX_PAGE];
	int fd = -1;

	if (point != GCFIX_MARKED || done)
		return;
	(void)snprintf(name, sizeof(name), INDEX "base-%u.cix",
	    (unsigned)info().generation);
	fd = openat(f->dir.fd, name, O_RDWR | O_CLOEXEC);
	assert_true(fd >= 0);
	for (off_t at = CIX_PAGE;
	     !done && pread(fd, page, CIX_PAGE, at) == CIX_PAGE;
	     at += CIX_PAGE) {
		done = change(page);
		if (done)
			assert_int_equal(
			    pwrite(fd, page, CIX_PAGE, at), CIX_PAGE);
	}
	assert_int_equal(close(fd), 0);
}

static void is_found_out(struct gcfix *f, const char *text)
{
	make_indexed(f);
	(void)gcfix_push_new(f, "host/d", GCFIX_T0, USED_FIRST, USED);
	f->opts.full = true;
	f->opts.cutoff_s = 3 * GCFIX_DAY;
	run(f);
	assert_ok(f->e.code, &f->e);
	f->opts.full = false;
	f->opts.cutoff_s = GCFIX_CUTOFF;
	f->opts.touch_batch = GC_TOUCH_BATCH_DEFAULT;
	gcfix_age(f, OLD);
	make_up(f);
	victim = last_used();
	f->at = change_page;
	run(f);
	f->at = NULL;
	assert_true(done);
	assert_err(f->e.code, &f->e, ERR_REFUSED, text);
	check_untouched(f);
	assert_int_equal(gcfix_have(f, USED_FIRST, USED), USED);
	/* And not by an index that lied. */
	run(f);
	assert_ok(f->e.code, &f->e);
	assert_false(f->r.by_index);
	assert_int_equal(gcfix_check(f), 2);
	assert_int_equal(gcfix_have(f, 0, 10), 0);
}

static void a_page_that_lies_is_found_out(void **state)
{
	in_order = true;
	is_found_out(*state, "did not find chunks");
}

static void one_that_is_in_no_order_is_not_searched(void **state)
{
	in_order = false;
	is_found_out(*state, "is not in order");
}

static void one_that_has_what_is_not_there_is_made_anew(void **state)
{
	struct gcfix *f = *state;

	make_indexed(f);
	gcfix_remove_chunk(f, 20);
	run(f);
	assert_ok(f->e.code, &f->e);
	assert_false(f->r.by_index);
	assert_int_equal(f->r.missing_chunks, 1);
	assert_int_equal(gcfix_said(f, "has chunks that are not there"), 1);
	assert_int_equal(gcfix_said(f, "is missing; 'host/b/"), 1);
	assert_int_equal(gcfix_have(f, 0, 10), 0);
	/* From then on it is known to be missing, and told each time. */
	run(f);
	assert_ok(f->e.code, &f->e);
	assert_true(f->r.by_index);
	assert_int_equal(f->r.missing_chunks, 1);
}

/* As verify leaves it: on the list, and in the index still. */
static void what_is_known_to_be_damaged_is_touched(void **state)
{
	struct gcfix *f = *state;
	struct digest d;

	make_indexed(f);
	pushfix_digest(20, &d);
	assert_ok(damage_append(f->ds, &d, DAMAGE_MISSING, &f->e), &f->e);
	gcfix_remove_chunk(f, 20);
	run(f);
	assert_ok(f->e.code, &f->e);
	assert_true(f->r.by_index);
	assert_int_equal(f->r.missing_chunks, 1);
	assert_int_equal(gcfix_said(f, "is missing; 'host/b/"), 1);
	assert_int_equal(gcfix_have(f, 0, 10), 0);
}

static void another_collector_is_noticed(void **state)
{
	struct gcfix *f = *state;

	make_indexed(f);
	tmpdir_put_str(f->dir.fd, "store/.gc-status",
	    "{\"upid\":\"UPID:pbs:0000AAAA:00000000:00000000:00000000:"
	    "garbage_collection:main:root@pam:\"}");
	run(f);
	assert_ok(f->e.code, &f->e);
	assert_false(f->r.by_index);
	check_collected(f);
	run(f);
	assert_true(f->r.by_index);
}

static void what_a_killed_push_left_is_found(void **state)
{
	struct gcfix *f = *state;

	make_indexed(f);
	tmpdir_put_str(f->dir.fd, INDEX "runs/.tmp_abcdef", "");
	run(f);
	assert_ok(f->e.code, &f->e);
	assert_false(f->r.by_index);
	check_collected(f);
	assert_false(gcfix_exists(f, ".cairn/index/runs/.tmp_abcdef"));
	run(f);
	assert_true(f->r.by_index);
}

/* The file of a push that runs is not taken for that. */
static void what_a_push_is_writing_is_left_alone(void **state)
{
	struct gcfix *f = *state;
	struct chunkrun *r = NULL;
	struct cix_entry x = { .size = 1 };
	bool in_base = false;

	make_indexed(f);
	memset(&x.digest, 7, DIGEST_SIZE);
	assert_ok(chunkrun_new(f->ds, &r, &f->e), &f->e);
	chunkrun_add(r, &x);
	run(f);
	assert_true(f->r.by_index);
	f->opts.full = true;
	run(f);
	assert_string_equal(chunkrun_commit(r), "");
	chunkrun_free(r);
	assert_int_equal(ask(&x.digest, &in_base), CHUNKIDX_PRESENT);
	assert_false(in_base);
}

static int truncateat(struct gcfix *f, const char *name, off_t size)
{
	int fd = openat(f->dir.fd, name, O_WRONLY | O_CLOEXEC);
	int rc = fd < 0 ? -1 : ftruncate(fd, size);

	assert_int_equal(close(fd), 0);
	return rc;
}

/* One of its files is gone, empty, cut, or made of something else. */
static void spoil(struct gcfix *f, unsigned which, unsigned how)
{
	static const char *const names[] = { "control.json", "lock", ".cix",
		".gone" };
	char shown[128];
	char junk[9000];

	memset(junk, 'x', sizeof(junk) - 1);
	junk[sizeof(junk) - 1] = '\0';
	if (which < 2)
		(void)snprintf(shown, sizeof(shown), INDEX "%s", names[which]);
	else
		(void)snprintf(shown, sizeof(shown), INDEX "base-%u%s",
		    (unsigned)info().generation, names[which]);
	if (how == 0)
		assert_int_equal(unlinkat(f->dir.fd, shown, 0), 0);
	else if (how == 1)
		assert_int_equal(truncateat(f, shown, 0), 0);
	else if (how == 2)
		assert_int_equal(truncateat(f, shown, 100), 0);
	else
		tmpdir_put_str(f->dir.fd, shown, junk);
}

static void whatever_becomes_of_its_files(void **state)
{
	struct gcfix *f = *state;

	for (unsigned i = 0; i < 4 * 4; i++) {
		make_indexed(f);
		spoil(f, i / 4, i % 4);
		run(f);
		assert_ok(f->e.code, &f->e);
		check_collected(f);
		gcfix_remove_tree(f, "host");
		gcfix_remove_tree(f, ".cairn/index");
		f->opts.accept_missing = true;
	}
}

/* Stopped in its sweep: what it has noted and not removed is found again. */
static void stop_at_sweep(struct gcfix *f, enum gcfix_point point)
{
	if (point == GCFIX_SWEEP && f->sweeps > 0 && gcfix_have(f, 0, 10) < 10)
		f->task.stop = 1;
}

static void the_next_run_ends_what_one_began(void **state)
{
	struct gcfix *f = *state;

	make_indexed(f);
	f->at = stop_at_sweep;
	run(f);
	f->at = NULL;
	f->task.stop = 0;
	assert_err(f->e.code, &f->e, ERR_CANCELLED, "");
	assert_true(gcfix_have(f, 0, 10) > 0);
	run(f);
	assert_ok(f->e.code, &f->e);
	assert_false(f->r.by_index);
	check_collected(f);
	run(f);
	assert_true(f->r.by_index);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		GCFIX_TEST(it_removes_what_is_garbage),
		GCFIX_TEST(it_notes_a_removal_before_it_is_made),
		GCFIX_TEST(so_does_a_full_run),
		GCFIX_TEST(it_asks_for_both_times),
		GCFIX_TEST(a_push_meanwhile_keeps_its_chunks),
		GCFIX_TEST(a_page_that_lies_is_found_out),
		GCFIX_TEST(one_that_is_in_no_order_is_not_searched),
		GCFIX_TEST(one_that_has_what_is_not_there_is_made_anew),
		GCFIX_TEST(what_is_known_to_be_damaged_is_touched),
		GCFIX_TEST(another_collector_is_noticed),
		GCFIX_TEST(what_a_killed_push_left_is_found),
		GCFIX_TEST(what_a_push_is_writing_is_left_alone),
		GCFIX_TEST(whatever_becomes_of_its_files),
		GCFIX_TEST(the_next_run_ends_what_one_began),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
