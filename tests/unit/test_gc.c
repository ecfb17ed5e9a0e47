/* SPDX-License-Identifier: MIT */
/*
 * Whole runs, with nobody beside them.
 */
#include "gc/gc.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "datastore/base/clock.h"
#include "datastore/base/json.h"
#include "datastore/damage.h"
#include "datastore/locks.h"
#include "tests/support/foreign.h"
#include "tests/support/gcfix.h"

#define OLD (2 * GCFIX_DAY)

/* Chunks 0..4 are garbage, 5..14 are in use. */
static void make_garbage(struct gcfix *f)
{
	struct backup_snapshot s0 =
	    gcfix_push_new(f, "host/a", GCFIX_T0, 0, 10);

	(void)gcfix_push_new(f, "host/b", GCFIX_T0, 5, 10);
	gcfix_forget(f, &s0);
	gcfix_age(f, OLD);
}

static void check_removed(struct gcfix *f)
{
	assert_int_equal(gcfix_have(f, 0, 5), 0);
	assert_int_equal(gcfix_have(f, 5, 10), 10);
	assert_int_equal(gcfix_check(f), 1);
}

static void garbage_goes(void **state)
{
	static const uint32_t batches[] = { GC_TOUCH_BATCH_MIN,
		GC_TOUCH_BATCH_OFF, GC_TOUCH_BATCH_DEFAULT };
	struct gcfix *f = *state;

	for (size_t i = 0; i < TEST_COUNT(batches); i++) {
		make_garbage(f);
		f->opts.touch_batch = batches[i];
		gcfix_collect(f);
		check_removed(f);
		assert_int_equal(f->r.removed_chunks, 5);
		assert_int_equal(f->r.disk_chunks, 10);
		assert_int_equal(f->r.pending_chunks, 0);
		assert_int_equal(f->r.index_file_count, 1);
		assert_int_equal(f->r.index_data_bytes, 10 * PUSHFIX_CHUNK);
		assert_int_equal(f->r.references, 10);
		assert_int_equal(f->r.touched, 10);
		assert_int_equal(f->r.warnings, 0);
		assert_int_equal(f->r.missing_chunks, 0);
		assert_true(f->r.removed_bytes > 0);
		assert_true(f->r.disk_bytes > f->r.removed_bytes);
		gcfix_remove_tree(f, "host");
	}
}

static void a_second_run_finds_nothing(void **state)
{
	struct gcfix *f = *state;

	make_garbage(f);
	gcfix_collect(f);
	gcfix_collect(f);
	check_removed(f);
	assert_int_equal(f->r.removed_chunks, 0);
	assert_int_equal(f->r.disk_chunks, 10);
}

static void an_empty_store_is_collected(void **state)
{
	struct gcfix *f = *state;

	gcfix_collect(f);
	assert_int_equal(f->r.index_file_count, 0);
	assert_int_equal(f->r.disk_chunks, 0);
	assert_int_equal(f->r.warnings, 0);
}

/* One phase each; what is shown never falls; all is shown at the end. */
static void progress_is_true(void **state)
{
	struct gcfix *f = *state;

	make_garbage(f);
	gcfix_collect(f);
	assert_int_equal(f->marks, 1);
	assert_int_equal(f->sweeps, 1);
	assert_false(f->fell);
	assert_int_equal(f->last_percent, 100);
}

/* The margin keeps them, and it is told until when. */
static void the_margin_keeps(void **state)
{
	struct gcfix *f = *state;
	int64_t until = 0;

	make_garbage(f);
	f->opts.cutoff_s = 3 * GCFIX_DAY;
	gcfix_collect(f);
	assert_int_equal(gcfix_have(f, 0, 15), 15);
	assert_int_equal(f->r.removed_chunks, 0);
	assert_int_equal(f->r.pending_chunks, 5);
	assert_true(f->r.pending_bytes > 0);
	assert_int_equal(f->r.disk_chunks, 10);
	assert_int_equal(f->r.pending_cause, GC_PENDING_CUTOFF);
	until = f->r.started + GCFIX_DAY;
	assert_in_range(f->r.pending_until, until, until + 60);
	f->opts.cutoff_s = UINT64_MAX;
	gcfix_collect(f);
	assert_int_equal(f->r.pending_chunks, 5);
	assert_int_equal(f->r.pending_until, 0);
	f->opts.cutoff_s = GCFIX_CUTOFF;
	gcfix_collect(f);
	check_removed(f);
	assert_int_equal(f->r.pending_cause, GC_PENDING_NONE);
}

/* Without a margin, what was last used before the run was started goes. */
static void no_margin_waits_first(void **state)
{
	struct gcfix *f = *state;
	struct backup_snapshot s0;
	int64_t began = 0;

	gcfix_fast(NULL);
	s0 = gcfix_push_new(f, "host/a", GCFIX_T0, 0, 10);
	(void)gcfix_push_new(f, "host/b", GCFIX_T0, 5, 10);
	gcfix_forget(f, &s0);
	f->opts.cutoff_s = 0;
	began = clock_boot_ns();
	gcfix_collect(f);
	assert_true(clock_boot_ns() - began >= 6 * CLOCK_NS_PER_S);
	assert_int_equal(gcfix_said(f, "waiting 6 s"), 1);
	/* The wait is fake, so nothing is old enough: */
	assert_int_equal(f->r.removed_chunks, 0);
	assert_int_equal(f->r.pending_chunks, 5);
	gcfix_age(f, 6);
	gcfix_collect(f);
	check_removed(f);
}

static void an_open_backup_keeps(void **state)
{
	struct gcfix *f = *state;
	const struct pushfix p = {
		.group = "host/c",
		.time = GCFIX_T0,
		.put = { .first = 20, .n = 1 },
	};

	make_garbage(f);
	gcfix_fast(NULL);
	f->opts.cutoff_s = 0;
	assert_ok(
	    pushfix_open(f->ds, &p, &f->other, &f->session, &f->e), &f->e);
	gcfix_age(f, -60); /* used after the session began */
	gcfix_age_chunk(f, 0, OLD);
	gcfix_collect(f);
	/* By the clock they lie ahead, by less than an hour. */
	assert_int_equal(gcfix_have(f, 0, 5), 4);
	gcfix_age(f, 1);
	gcfix_age_chunk(f, 1, OLD);
	gcfix_collect(f);
	assert_int_equal(gcfix_have(f, 0, 5), 3);
	assert_int_equal(f->r.removed_chunks, 1);
	assert_int_equal(f->r.pending_chunks, 3);
	assert_int_equal(f->r.pending_until, 0);
	assert_int_equal(f->r.pending_cause, GC_PENDING_SESSION);
	assert_non_null(strstr(f->r.pending_session, "host/c"));
	session_abort(f->session);
	f->session = NULL;
	gcfix_age(f, OLD);
	gcfix_collect(f);
	check_removed(f);
}

/* A dry run changes nothing, and says what the run behind it does. */
static void a_dry_run_says_what_a_run_does(void **state)
{
	static const uint32_t batches[] = { GC_TOUCH_BATCH_MIN,
		GC_TOUCH_BATCH_OFF };
	struct gcfix *f = *state;

	for (size_t i = 0; i < TEST_COUNT(batches); i++) {
		struct gc_result dry;
		char *before = NULL;
		char *after = NULL;

		make_garbage(f);
		f->opts.touch_batch = batches[i];
		/* What the kernel notes of reading is noted now. */
		f->opts.dry_run = true;
		gcfix_collect(f);
		before = gcfix_describe(f);
		gcfix_collect(f);
		after = gcfix_describe(f);
		gcfix_assert_same(before, after);
		assert_int_equal(f->marks, 1);
		assert_int_equal(f->sweeps, 1);
		assert_false(f->fell);
		dry = f->r;
		f->opts.dry_run = false;
		gcfix_collect(f);
		check_removed(f);
		assert_true(dry.dry_run);
		assert_int_equal(dry.removed_chunks, f->r.removed_chunks);
		assert_int_equal(dry.removed_bytes, f->r.removed_bytes);
		assert_int_equal(dry.disk_chunks, f->r.disk_chunks);
		assert_int_equal(dry.disk_bytes, f->r.disk_bytes);
		assert_int_equal(dry.index_file_count, f->r.index_file_count);
		assert_int_equal(dry.index_data_bytes, f->r.index_data_bytes);
		assert_int_equal(dry.references, f->r.references);
		gcfix_remove_tree(f, "host");
	}
}

/* A datastore opened for reading will do for it, and PBS may be at work. */
static void a_dry_run_needs_no_lock(void **state)
{
	const struct foreign_lock whole = { .classic = true, .type = F_WRLCK };
	struct gcfix *f = *state;
	struct foreign_holder holder;
	struct datastore *ds = NULL;

	make_garbage(f);
	datastore_close(f->ds);
	f->ds = NULL;
	datastore_close(f->gc);
	f->gc = NULL;
	foreign_start(f->dir.fd, "store/.lock", &whole, &holder);
	assert_ok(
	    datastore_open(f->path, DATASTORE_READ, NULL, &ds, &f->e), &f->e);
	f->gc = ds;
	f->opts.dry_run = true;
	gcfix_collect(f);
	foreign_end(&holder);
	assert_int_equal(f->r.removed_chunks, 5);
}

static void missing_chunks_are_named(void **state)
{
	struct gcfix *f = *state;
	struct damage *damage = NULL;
	enum damage_state what = DAMAGE_HEALED;
	struct digest d;
	char hex[DIGEST_HEX_SIZE];
	char want[256];

	make_garbage(f);
	(void)gcfix_push_new(f, "host/c", GCFIX_T0, 7, 1);
	gcfix_remove_chunk(f, 7);
	pushfix_digest(7, &d);
	digest_hex(&d, hex);
	for (unsigned dry = 2; dry-- > 0;) {
		f->opts.dry_run = dry != 0;
		gcfix_collect(f);
		assert_int_equal(f->r.missing_chunks, 1);
		(void)snprintf(want, sizeof(want),
		    "W chunk %s is missing; 'host/b/" GCFIX_T0_NAME
		    "/a.img.fidx' references it",
		    hex);
		assert_int_equal(gcfix_said(f, want), 1);
		(void)snprintf(want, sizeof(want),
		    "W chunk %s is missing; 'host/c/" GCFIX_T0_NAME
		    "/a.img.fidx' references it",
		    hex);
		assert_int_equal(gcfix_said(f, want), 1);
		assert_int_equal(f->r.hurt_snapshots, 2);
		assert_int_equal(gcfix_said(f,
				     "W 'host/b/" GCFIX_T0_NAME
				     "' is hurt: it lacks 1 chunk"),
		    1);
		assert_int_equal(f->r.warnings, 4);
		assert_ok(damage_read(f->ds, &damage, &f->e), &f->e);
		assert_int_equal(damage_count(damage), 1 - dry);
		if (!dry) {
			assert_true(
			    digest_equal(damage_at(damage, 0, &what), &d));
			assert_int_equal(what, DAMAGE_MISSING);
		}
		damage_free(damage);
	}
	assert_int_equal(gcfix_have(f, 0, 5), 0);
}

/* More of them than are worth a line each. */
static void many_missing_chunks_are_counted(void **state)
{
	struct gcfix *f = *state;

	(void)gcfix_push_new(f, "host/a", GCFIX_T0, 0, 151);
	for (unsigned i = 0; i < 150; i++)
		gcfix_remove_chunk(f, i);
	gcfix_collect(f);
	assert_int_equal(f->r.missing_chunks, 150);
	assert_int_equal(gcfix_said(f, "is missing"), 100);
	assert_int_equal(
	    gcfix_said(f, "and 50 more references to missing chunks"), 1);
	assert_int_equal(gcfix_said(f, "is hurt: it lacks 150 chunks"), 1);
	assert_int_equal(f->r.hurt_snapshots, 1);
}

/* None of all: not damage to be listed, but a store that is not the one. */
static void an_emptied_store_is_refused(void **state)
{
	struct gcfix *f = *state;
	struct damage *damage = NULL;

	(void)gcfix_push_new(f, "host/a", GCFIX_T0, 0, 3);
	for (unsigned i = 0; i < 3; i++)
		gcfix_remove_chunk(f, i);
	for (unsigned dry = 2; dry-- > 0;) {
		f->opts.dry_run = dry != 0;
		assert_err(
		    gcfix_run(f), &f->e, ERR_REFUSED, "none of the 3 chunks");
		assert_int_equal(gcfix_said(f, "is missing"), 0);
	}
	assert_ok(damage_read(f->ds, &damage, &f->e), &f->e);
	assert_int_equal(damage_count(damage), 0);
	damage_free(damage);
	f->opts.accept_missing = true;
	gcfix_collect(f);
	assert_int_equal(f->r.missing_chunks, 3);
}

/* A chunk of the future: touched, so that it counts from now. */
static void a_time_far_ahead_is_brought_back(void **state)
{
	struct gcfix *f = *state;
	char path[PATH_MAX];
	struct stat st;

	make_garbage(f);
	gcfix_age_chunk(f, 0, -2 * GCFIX_HOUR);
	gcfix_age_chunk(f, 1, -GCFIX_HOUR / 2);
	f->opts.dry_run = true;
	gcfix_collect(f);
	gcfix_chunk_path(0, "", path);
	assert_int_equal(fstatat(f->dir.fd, path, &st, 0), 0);
	assert_true(st.st_atim.tv_sec > clock_now_s() + GCFIX_HOUR);
	assert_int_equal(f->r.removed_chunks, 3);
	assert_int_equal(f->r.pending_chunks, 1);
	f->opts.dry_run = false;
	gcfix_collect(f);
	assert_int_equal(gcfix_have(f, 0, 5), 2);
	assert_int_equal(f->r.pending_chunks, 1);
	assert_int_equal(f->r.disk_chunks, 11);
	f->opts.cutoff_s = 0;
	gcfix_collect(f);
	assert_int_equal(gcfix_have(f, 0, 1), 0);
	assert_int_equal(gcfix_have(f, 1, 1), 1);
}

/* .bad files of what is referenced stay until a good chunk is there. */
static void bad_files_wait_for_a_good_chunk(void **state)
{
	struct gcfix *f = *state;
	char from[PATH_MAX];
	char to[PATH_MAX];

	make_garbage(f);
	for (unsigned i = 0; i < 6; i += 5) { /* 0: garbage, 5: in use */
		gcfix_chunk_path(i, "", from);
		gcfix_chunk_path(i, ".0.bad", to);
		assert_int_equal(renameat(f->dir.fd, from, f->dir.fd, to), 0);
	}
	gcfix_chunk_path(6, ".3.bad", to); /* beside a good one */
	tmpdir_put_str(f->dir.fd, to, "bad");
	for (unsigned dry = 2; dry-- > 0;) {
		gcfix_age(f, OLD);
		f->opts.dry_run = dry != 0;
		gcfix_collect(f);
		assert_int_equal(f->r.removed_bad, 2);
		assert_int_equal(f->r.still_bad, 1);
		assert_int_equal(f->r.missing_chunks, 1);
		assert_int_equal(f->r.removed_chunks, 4);
		assert_int_equal(f->r.disk_chunks, 9);
	}
	gcfix_chunk_path(5, ".0.bad", to);
	assert_int_equal(faccessat(f->dir.fd, to, F_OK, 0), 0);
	/* Stored again: now the bad one may go. */
	(void)gcfix_push_new(f, "host/c", GCFIX_T0, 5, 1);
	gcfix_age(f, OLD);
	gcfix_collect(f);
	assert_int_equal(f->r.removed_bad, 1);
	assert_int_equal(faccessat(f->dir.fd, to, F_OK, 0), -1);
	assert_int_equal(gcfix_check(f), 2);
}

/*
 * Temporary files go when both their times are old; ctimes can not be set, so
 * the clock has to be elsewhere.
 */
static filetime moved;

static void move_times(void *ctx, struct fault_event *ev)
{
	struct statx *st = ev->p;

	(void)ctx;
	if (ev->call != FAULT_STATX || ev->result != 0 || ev->name == NULL ||
	    strstr(ev->name, ".tmp") == NULL)
		return;
	st->stx_ctime.tv_sec -= moved;
}

static void temporary_files_go_when_old(void **state)
{
	const struct fault_hooks hooks = { .after = move_times };
	struct gcfix *f = *state;
	char path[PATH_MAX];

	gcfix_fast(&hooks);
	moved = 0;
	make_garbage(f);
	gcfix_chunk_path(6, ".tmp_AbCd09", path);
	tmpdir_put_str(f->dir.fd, path, "half");
	gcfix_collect(f);
	assert_int_equal(f->r.removed_tmp, 0);
	moved = OLD; /* ctime old, mtime not */
	for (unsigned dry = 2; dry-- > 0;) {
		f->opts.dry_run = dry != 0;
		gcfix_collect(f);
		assert_int_equal(f->r.removed_tmp, 0);
	}
	moved = 0; /* mtime old, ctime not */
	assert_int_equal(
	    utimensat(f->dir.fd, path,
		(const struct timespec[2]){ { .tv_sec = 1 }, { .tv_sec = 1 } },
		0),
	    0);
	gcfix_collect(f);
	assert_int_equal(f->r.removed_tmp, 0);
	moved = OLD;
	f->opts.dry_run = true;
	gcfix_collect(f);
	assert_int_equal(f->r.removed_tmp, 1);
	f->opts.dry_run = false;
	gcfix_collect(f);
	assert_int_equal(f->r.removed_tmp, 1);
	assert_int_equal(faccessat(f->dir.fd, path, F_OK, 0), -1);
}

/* The file clock steps back, by less than A2 allows but more than the margin.
 */
static bool stepped;

static void step_back(void *ctx, struct fault_event *ev)
{
	struct statx *st = ev->p;

	(void)ctx;
	if (!stepped || ev->call != FAULT_STATX || ev->result != 0 ||
	    ev->name == NULL || strcmp(ev->name, ".") != 0)
		return;
	st->stx_atime.tv_sec -= 30;
	st->stx_ctime.tv_sec -= 30;
}

static void step_when_marked(struct gcfix *f, enum gcfix_point point)
{
	(void)f;
	stepped |= point == GCFIX_MARKED;
}

static void a_small_step_back_stops_a_small_margin(void **state)
{
	const struct fault_hooks hooks = { .after = step_back };
	struct gcfix *f = *state;

	gcfix_fast(&hooks);
	make_garbage(f);
	stepped = false;
	f->at = step_when_marked;
	assert_err(gcfix_run(f), &f->e, ERR_REFUSED,
	    "was set back to before this run");
	assert_int_equal(f->r.removed_chunks, 0);
	/* The usual margin is larger than any step that A2 allows. */
	f->opts.cutoff_s = 2 * GCFIX_HOUR;
	stepped = false;
	gcfix_collect(f);
	assert_true(stepped);
}

/* What is no regular file in a chunk's place is told and left alone. */
static void odd_files_among_chunks_stay(void **state)
{
	struct gcfix *f = *state;
	char path[PATH_MAX];

	make_garbage(f);
	gcfix_remove_chunk(f, 0);
	gcfix_chunk_path(0, "", path);
	assert_int_equal(symlinkat("nowhere", f->dir.fd, path), 0);
	gcfix_chunk_path(1, ".using", path);
	tmpdir_put_str(f->dir.fd, path, "");
	gcfix_age(f, OLD);
	gcfix_collect(f);
	assert_int_equal(f->r.removed_chunks, 4);
	assert_int_equal(f->r.warnings, 1);
	assert_int_equal(gcfix_said(f, "is no regular file"), 1);
	assert_int_equal(faccessat(f->dir.fd, path, F_OK, 0), 0);
	assert_int_equal(gcfix_have(f, 0, 1), 1);
}

static void pretend_network(void *ctx, struct fault_event *ev)
{
	struct statfs *st = ev->p;

	(void)ctx;
	if (ev->call == FAULT_FSTATFS && ev->result == 0)
		st->f_type = 0x6969; /* NFS */
}

static void short_margins_are_not_for_networks(void **state)
{
	const struct fault_hooks hooks = { .after = pretend_network };
	struct gcfix *f = *state;
	char *before = NULL;
	char *after = NULL;

	make_garbage(f);
	gcfix_fast(&hooks);
	before = gcfix_describe(f);
	f->opts.cutoff_s = 599;
	assert_err(gcfix_run(f), &f->e, ERR_INVALID, "network file system");
	f->opts.dry_run = true;
	assert_err(gcfix_run(f), &f->e, ERR_INVALID, "at least 600 s");
	after = gcfix_describe(f);
	gcfix_assert_same(before, after);
	f->opts.dry_run = false;
	f->opts.cutoff_s = 600;
	gcfix_collect(f);
	check_removed(f);
}

static uint64_t get(const struct js *doc, const char *key)
{
	struct err e = ERR_INIT;
	uint64_t v = 0;

	assert_ok(js_get_u64(doc, key, &v, NULL, &e), &e);
	return v;
}

/* Keys and upid as PBS has them. */
static void the_status_is_in_the_form_of_pbs(void **state)
{
	struct gcfix *f = *state;
	struct js *doc = NULL;
	struct js *cache = NULL;
	const char *upid = NULL;
	unsigned colons = 0;
	char *text = NULL;
	size_t n = 0;

	make_garbage(f);
	assert_false(gcfix_exists(f, ".gc-status"));
	gcfix_collect(f);
	text = tmpdir_get(f->dir.fd, "store/.gc-status", &n);
	assert_non_null(text);
	assert_ok(js_parse(text, n, &doc, &f->e), &f->e);
	free(text);
	assert_int_equal(get(doc, "index-file-count"), 1);
	assert_int_equal(get(doc, "index-data-bytes"), 10 * PUSHFIX_CHUNK);
	assert_int_equal(get(doc, "disk-chunks"), 10);
	assert_int_equal(get(doc, "disk-bytes"), f->r.disk_bytes);
	assert_int_equal(get(doc, "removed-chunks"), 5);
	assert_int_equal(get(doc, "removed-bytes"), f->r.removed_bytes);
	assert_int_equal(get(doc, "pending-chunks"), 0);
	assert_int_equal(get(doc, "pending-bytes"), 0);
	assert_int_equal(get(doc, "removed-bad"), 0);
	assert_int_equal(get(doc, "still-bad"), 0);
	assert_ok(js_get(doc, "cache-stats", &cache, NULL, &f->e), &f->e);
	assert_int_equal(get(cache, "hits"), 0);
	assert_int_equal(get(cache, "misses"), 10);
	assert_ok(js_get_str(doc, "upid", &upid, NULL, &f->e), &f->e);
	assert_int_equal(strncmp(upid, "UPID:", 5), 0);
	assert_non_null(strstr(upid, ":garbage_collection:"));
	for (const char *c = upid; *c != '\0'; c++)
		colons += *c == ':';
	assert_int_equal(colons, 9);
	js_free(doc);
}

static void the_last_run_is_read_back(void **state)
{
	struct gcfix *f = *state;
	struct gc_last last;

	assert_ok(gc_last_read(f->ds, &last, &f->e), &f->e);
	assert_false(last.found);
	make_garbage(f);
	gcfix_remove_chunk(f, 8);
	f->opts.cutoff_s = 3 * GCFIX_DAY;
	gcfix_collect(f);
	assert_ok(gc_last_read(f->ds, &last, &f->e), &f->e);
	assert_true(last.found);
	assert_true(last.by_cairn);
	assert_memory_equal(&last.result, &f->r, sizeof(f->r));
	/* Another program's run behind it. */
	tmpdir_put_str(f->dir.fd, "store/.gc-status",
	    "{\"upid\":\"UPID:pbs:0000002A:0000002B:0000002C:65920080:"
	    "garbage_collection:main:root@pam:\",\"removed-chunks\":7}");
	assert_ok(gc_last_read(f->ds, &last, &f->e), &f->e);
	assert_true(last.found);
	assert_false(last.by_cairn);
	assert_int_equal(last.result.removed_chunks, 7);
	assert_int_equal(last.result.started, 0x65920080);
	assert_int_equal(last.result.missing_chunks, 0);
	/* Never run: PBS writes it so. */
	tmpdir_put_str(f->dir.fd, "store/.gc-status", "{\"upid\":null}");
	assert_ok(gc_last_read(f->ds, &last, &f->e), &f->e);
	assert_false(last.found);
	tmpdir_put_str(f->dir.fd, "store/.gc-status", "{");
	assert_err(gc_last_read(f->ds, &last, &f->e), &f->e, ERR_CORRUPT,
	    ".gc-status");
	/* A damaged one is in nobody's way. */
	f->opts.cutoff_s = GCFIX_CUTOFF;
	gcfix_collect(f);
}

/* What can not be recorded is a warning: the garbage is gone. */
static void a_status_that_can_not_be_written_is_a_warning(void **state)
{
	struct gcfix *f = *state;

	make_garbage(f);
	gcfix_fast(NULL);
	fault_add(&(struct fault_rule){ .calls = FAULT_BIT(FAULT_CREATE),
	    .what = FAULT_FAIL,
	    .at = 1,
	    .times = FAULT_FOREVER,
	    .error = ENOSPC });
	gcfix_collect(f);
	check_removed(f);
	assert_int_equal(gcfix_said(f, "can not be recorded"), 4);
	assert_int_equal(f->r.warnings, 4);
	assert_false(gcfix_exists(f, ".gc-status"));
}

static void stop_at_sweep(struct gcfix *f, enum gcfix_point point)
{
	if (point == GCFIX_SWEEP && f->prefix == 100)
		f->task.stop = 15;
}

static void stop_at_read(struct gcfix *f, enum gcfix_point point)
{
	if (point == GCFIX_READING)
		f->task.stop = 2;
}

static void it_stops_when_told(void **state)
{
	struct gcfix *f = *state;

	make_garbage(f);
	f->at = stop_at_read;
	assert_err(gcfix_run(f), &f->e, ERR_CANCELLED, "SIGINT");
	assert_int_equal(gcfix_have(f, 0, 15), 15);
	f->task.stop = 0;
	f->at = stop_at_sweep;
	assert_err(gcfix_run(f), &f->e, ERR_CANCELLED, "SIGTERM");
	assert_true(f->prefix == 100);
	assert_false(gcfix_exists(f, ".gc-status"));
	f->task.stop = 0;
	f->at = NULL;
	gcfix_collect(f);
	check_removed(f);
}

/* Nothing of cairn's own is there, and nothing is made before the sweep. */
static bool made_early;

static void look_for_cairn(struct gcfix *f, enum gcfix_point point)
{
	made_early |= point != GCFIX_SWEEP && gcfix_exists(f, ".cairn");
}

static void a_store_of_pbs_is_collected(void **state)
{
	struct gcfix *f = *state;

	make_garbage(f);
	gcfix_remove_tree(f, ".cairn");
	datastore_close(f->gc);
	f->gc = NULL;
	assert_ok(
	    datastore_open(f->path, DATASTORE_GC, NULL, &f->gc, &f->e), &f->e);
	made_early = false;
	f->at = look_for_cairn;
	gcfix_collect(f);
	assert_false(made_early);
	check_removed(f);
	assert_true(gcfix_exists(f, ".cairn/roots"));
	assert_int_equal(f->r.warnings, 0);
	/* What is missing is recorded there, too. */
	gcfix_remove_tree(f, ".cairn");
	gcfix_remove_chunk(f, 7);
	made_early = false;
	gcfix_collect(f);
	assert_false(made_early);
	assert_true(gcfix_exists(f, ".cairn/damaged"));
	assert_int_equal(f->r.warnings, 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		GCFIX_TEST(garbage_goes),
		GCFIX_TEST(a_second_run_finds_nothing),
		GCFIX_TEST(an_empty_store_is_collected),
		GCFIX_TEST(progress_is_true),
		GCFIX_TEST(the_margin_keeps),
		GCFIX_TEST(no_margin_waits_first),
		GCFIX_TEST(an_open_backup_keeps),
		GCFIX_TEST(a_dry_run_says_what_a_run_does),
		GCFIX_TEST(a_dry_run_needs_no_lock),
		GCFIX_TEST(missing_chunks_are_named),
		GCFIX_TEST(many_missing_chunks_are_counted),
		GCFIX_TEST(an_emptied_store_is_refused),
		GCFIX_TEST(a_time_far_ahead_is_brought_back),
		GCFIX_TEST(bad_files_wait_for_a_good_chunk),
		GCFIX_TEST(temporary_files_go_when_old),
		GCFIX_TEST(a_small_step_back_stops_a_small_margin),
		GCFIX_TEST(odd_files_among_chunks_stay),
		GCFIX_TEST(short_margins_are_not_for_networks),
		GCFIX_TEST(the_status_is_in_the_form_of_pbs),
		GCFIX_TEST(the_last_run_is_read_back),
		GCFIX_TEST(a_status_that_can_not_be_written_is_a_warning),
		GCFIX_TEST(it_stops_when_told),
		GCFIX_TEST(a_store_of_pbs_is_collected),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
