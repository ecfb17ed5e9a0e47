/* SPDX-License-Identifier: MIT */
#include "gc/history.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "datastore/locks.h"
#include "gc/history_record.h"
#include "tests/support/foreign.h"
#include "tests/support/gcfix.h"

#define DB "store/.cairn/" HISTORY_NAME
#define ASIDE "store/.cairn/" HISTORY_ASIDE

static struct history *open_history(
    struct gcfix *f, struct datastore *ds, enum history_mode mode)
{
	struct history *h = NULL;
	bool found = false;

	assert_ok(history_open(ds, mode, &f->other, &h, &found, &f->e), &f->e);
	assert_int_equal(found, h != NULL);
	return h;
}

/* What was told, as text. */
struct told {
	char text[8192];
	size_t n;
};

static void tell(struct told *t, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
static void tell(struct told *t, const char *fmt, ...)
{
	size_t room = sizeof(t->text) - t->n;
	va_list args;
	int len = 0;

	va_start(args, fmt);
	len = vsnprintf(t->text + t->n, room, fmt, args);
	va_end(args);
	assert_true(len >= 0 && (size_t)len < room);
	t->n += (size_t)len;
}

static int on_run(void *ctx, const struct history_run *r, struct err *e)
{
	(void)e;
	tell(ctx, "%s %s '%s' %" PRId64 ";", history_kind_name(r->kind),
	    history_result_name(r->result), r->why, r->id);
	return 0;
}

static int on_count(void *ctx, const struct history_count *c, struct err *e)
{
	(void)e;
	tell(ctx, "%s=%" PRIu64 ";", c->key, c->n);
	return 0;
}

static int on_name(void *ctx, const char *name, struct err *e)
{
	(void)e;
	tell(ctx, "%s;", name);
	return 0;
}

static int on_removed(void *ctx, const struct history_removed *r, struct err *e)
{
	(void)e;
	assert_int_equal(r->digest.b[0], r->bytes & 0xff);
	tell(ctx, "%s %" PRIu64 ";", history_what_name(r->what), r->bytes);
	return 0;
}

static void assert_runs(
    struct gcfix *f, const struct history_query *q, const char *want)
{
	struct history *h = open_history(f, f->ds, HISTORY_READ);
	struct told t = { .n = 0 };

	assert_non_null(h);
	assert_ok(history_runs(h, q, on_run, &t, &f->e), &f->e);
	assert_string_equal(t.text, want);
	history_close(h);
}

static const struct history_query all = { .any_kind = true };

/* Nothing is made by who reads, nor where there is no `.cairn`. */
static void there_is_none(void **state)
{
	struct gcfix *f = *state;

	assert_null(open_history(f, f->ds, HISTORY_READ));
	assert_false(gcfix_exists(f, ".cairn/" HISTORY_NAME));
	gcfix_remove_tree(f, ".cairn");
	assert_null(open_history(f, f->ds, HISTORY_WRITE));
	assert_false(gcfix_exists(f, ".cairn"));
}

static void put_removed(struct gcfix *f, struct history *h, int64_t run,
    unsigned first, unsigned n, size_t want)
{
	struct history_removed *r = calloc(n, sizeof(*r));
	size_t added = 0;

	for (unsigned i = 0; i < n; i++) {
		r[i].bytes = first + i;
		memset(r[i].digest.b, (int)((first + i) & 0xff),
		    sizeof(r[i].digest.b));
		r[i].what = (enum history_what)((first + i) % 3);
	}
	assert_ok(history_add_removed(h, run, r, n, &added, &f->e), &f->e);
	assert_int_equal(added, want);
	free(r);
}

static void comes_back(void **state)
{
	static const struct history_count counts[] = { { "b", 2 },
		{ "a", UINT64_MAX } };
	struct gcfix *f = *state;
	struct history *h = open_history(f, f->ds, HISTORY_WRITE);
	struct history_query q = { .any_kind = false, .kind = HISTORY_PRUNE };
	struct history_page page = { .run = 2, .most = 2 };
	struct history_run r;
	struct told t = { .n = 0 };

	assert_non_null(h);
	history_run_init(&r, f->ds, HISTORY_FORGET);
	assert_int_equal(r.lock_byte, f->ds->own_byte);
	assert_ok(history_add(h, &r, &f->e), &f->e);
	assert_int_equal(r.id, 1);
	assert_ok(history_add_snapshot(h, 1, "host/a", &f->e), &f->e);
	assert_ok(history_add_snapshot(h, 1, "host/b", &f->e), &f->e);
	assert_ok(history_add_snapshot(h, 1, "host/b", &f->e), &f->e);
	assert_ok(history_drop_snapshot(h, 1, "host/a", &f->e), &f->e);
	r.result = HISTORY_REFUSED;
	r.ended = r.started + 1;
	(void)snprintf(r.why, sizeof(r.why), "no");
	assert_ok(history_update(h, &r, counts, 2, &f->e), &f->e);
	history_run_init(&r, f->ds, HISTORY_PRUNE);
	assert_ok(history_add(h, &r, &f->e), &f->e);
	put_removed(f, h, 2, 5, 2, 2);
	put_removed(f, h, 2, 7, 1, 1);
	history_close(h);

	assert_runs(f, &all, "prune running '' 2;forget refused 'no' 1;");
	assert_runs(f, &q, "prune running '' 2;");
	q = (struct history_query){ .any_kind = true, .limit = 1 };
	assert_runs(f, &q, "prune running '' 2;");
	q = (struct history_query){ .any_kind = true, .run = 1 };
	assert_runs(f, &q, "forget refused 'no' 1;");
	q = (struct history_query){ .any_kind = true,
		.since = r.started + 100 };
	assert_runs(f, &q, "");

	h = open_history(f, f->ds, HISTORY_READ);
	assert_ok(history_counts(h, 1, on_count, &t, &f->e), &f->e);
	assert_ok(history_snapshots(h, 1, on_name, &t, &f->e), &f->e);
	/* In pages, each where the one before ended. */
	for (int i = 0; i < 3; i++)
		assert_ok(
		    history_removed(h, &page, on_removed, &t, &f->e), &f->e);
	assert_int_equal(page.after, 3);
	/* SQLite has no greater one. */
	assert_string_equal(t.text,
	    "a=9223372036854775807;b=2;host/b;temporary 5;garbage 6;bad 7;");
	history_close(h);
}

/* Who does not hold his lock any more was killed: shown, and written down by
 * the next. */
static void the_dead_are_known(void **state)
{
	struct gcfix *f = *state;
	struct history *h = open_history(f, f->ds, HISTORY_WRITE);
	struct history_run r;

	history_run_init(&r, f->ds, HISTORY_VERIFY);
	r.lock_byte = LOCK_BYTE_OWN + 77;
	assert_ok(history_add(h, &r, &f->e), &f->e);
	history_close(h);
	assert_runs(f, &all, "verify killed '' 1;");
	h = open_history(f, f->ds, HISTORY_WRITE);
	history_run_init(&r, f->ds, HISTORY_PRUNE);
	assert_ok(history_add(h, &r, &f->e), &f->e);
	r.lock_byte = LOCK_BYTE_OWN + 77;
	history_close(h);
	assert_runs(f, &all, "prune running '' 2;verify killed '' 1;");
}

/* The sum of what is listed. */
static int count_removed(
    void *ctx, const struct history_removed *r, struct err *e)
{
	(void)e;
	(void)r;
	*(unsigned *)ctx += 1;
	return 0;
}

static unsigned listed(struct gcfix *f, struct history *h, int64_t run)
{
	struct history_page page = { .run = run, .most = UINT64_MAX };
	unsigned n = 0;

	assert_ok(history_removed(h, &page, count_removed, &n, &f->e), &f->e);
	return n;
}

/* Older runs' files make room; what finds none is not listed. */
static void it_is_bounded(void **state)
{
	struct gcfix *f = *state;
	struct history *h = open_history(f, f->ds, HISTORY_WRITE);
	struct history_run r;
	struct stat st;

	history_limit(h, 320 << 12, 3);
	for (int i = 1; i <= 5; i++) {
		history_run_init(&r, f->ds, HISTORY_GC);
		assert_ok(history_add(h, &r, &f->e), &f->e);
		assert_int_equal(r.id, i);
		put_removed(f, h, i, 0, 6000, 6000);
		assert_int_equal(listed(f, h, i), 6000);
	}
	assert_int_equal(listed(f, h, 1), 0);
	put_removed(f, h, 5, 0, 6000, 6000);
	put_removed(f, h, 5, 0, 6000, 0);
	assert_int_equal(listed(f, h, 5), 12000);
	assert_int_equal(fstatat(f->dir.fd, DB, &st, 0), 0);
	assert_true(st.st_size <= 320 << 12);
	/* Of the runs, the newest three stay. */
	assert_ok(history_add_snapshot(h, 1, "x", &f->e), &f->e);
	assert_ok(history_trim(h, r.started, &f->e), &f->e);
	history_close(h);
	assert_runs(f, &all, "gc killed '' 5;gc killed '' 4;gc killed '' 3;");
	h = open_history(f, f->ds, HISTORY_READ);
	{
		struct told t = { .text = "", .n = 0 };

		assert_ok(history_snapshots(h, 1, on_name, &t, &f->e), &f->e);
		assert_string_equal(t.text, "");
	}
	history_close(h);
}

static int keep_run(void *ctx, const struct history_run *r, struct err *e)
{
	(void)e;
	*(struct history_run *)ctx = *r;
	return 0;
}

/* It wrote no figures: they are those of its log, and of chunks alone. */
static void the_dead_removed_what_they_logged(void **state)
{
	struct gcfix *f = *state;
	const struct history_query q = { .any_kind = true, .run = 1 };
	struct history *h = open_history(f, f->ds, HISTORY_WRITE);
	struct history_run r;

	history_run_init(&r, f->ds, HISTORY_GC);
	assert_ok(history_add(h, &r, &f->e), &f->e);
	put_removed(f, h, 1, 0, 10, 10);
	assert_ok(history_runs(h, &q, keep_run, &r, &f->e), &f->e);
	assert_int_equal(r.result, HISTORY_KILLED);
	assert_int_equal(r.removed, 4);
	assert_int_equal(r.freed, 0 + 3 + 6 + 9);
	/* An end has figures of its own. */
	r.result = HISTORY_DONE;
	r.ended = r.started + 1;
	r.removed = 3;
	r.freed = 7;
	assert_ok(history_update(h, &r, NULL, 0, &f->e), &f->e);
	assert_ok(history_runs(h, &q, keep_run, &r, &f->e), &f->e);
	assert_int_equal(r.removed, 3);
	assert_int_equal(r.freed, 7);
	history_close(h);
}

/* 90 days; the run itself stays. */
static void old_files_are_dropped(void **state)
{
	struct gcfix *f = *state;
	struct history *h = open_history(f, f->ds, HISTORY_WRITE);
	struct history_run r;

	for (int i = 1; i <= 2; i++) {
		history_run_init(&r, f->ds, HISTORY_GC);
		r.started += i;
		assert_ok(history_add(h, &r, &f->e), &f->e);
		put_removed(f, h, i, 0, 10, 10);
	}
	assert_ok(history_trim(h, r.started + HISTORY_KEEP_S, &f->e), &f->e);
	assert_int_equal(listed(f, h, 1), 0);
	assert_int_equal(listed(f, h, 2), 10);
	assert_ok(
	    history_trim(h, r.started + HISTORY_KEEP_S + 1, &f->e), &f->e);
	assert_int_equal(listed(f, h, 2), 0);
	history_close(h);
	assert_runs(f, &all, "gc killed '' 2;gc killed '' 1;");
}

static void try_open(
    struct gcfix *f, enum history_mode mode, int code, const char *text)
{
	struct history *h = NULL;
	bool found = false;

	assert_err(history_open(f->ds, mode, &f->other, &h, &found, &f->e),
	    &f->e, code, text);
	assert_true(
	    h == NULL || (mode == HISTORY_WRITE && code == ERR_CORRUPT));
	history_close(h);
}

/* SQL, as a person would. */
static void sql(struct gcfix *f, const char *text)
{
	char path[PATH_MAX + 64];
	sqlite3 *db = NULL;

	(void)snprintf(path, sizeof(path), "%s/.cairn/" HISTORY_NAME, f->path);
	assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
	assert_int_equal(sqlite3_exec(db, text, NULL, NULL, NULL), SQLITE_OK);
	(void)sqlite3_close(db);
}

static void damage_is_told(void **state)
{
	static const struct {
		const char *sql; /* or NULL: this content */
		const char *content;
		int code;
		const char *text;
	} cases[] = {
		{ NULL, "no database, but long enough to be looked at",
		    ERR_CORRUPT, "damaged database" },
		{ "pragma user_version = 2", NULL, ERR_UNSUPPORTED,
		    "is of version 2, this cairn knows versions up to 1" },
		{ "pragma user_version = 1; pragma application_id = 1", NULL,
		    ERR_CORRUPT, "is no history of cairn" },
	};
	struct gcfix *f = *state;

	history_close(open_history(f, f->ds, HISTORY_WRITE));
	for (size_t i = 0; i < TEST_COUNT(cases); i++) {
		if (cases[i].sql != NULL)
			sql(f, cases[i].sql);
		else
			tmpdir_put_str(f->dir.fd, DB, cases[i].content);
		try_open(f, HISTORY_READ, cases[i].code, cases[i].text);
		try_open(f, HISTORY_WRITE, cases[i].code, cases[i].text);
		if (i == 0) {
			gcfix_unlink(f, ".cairn/" HISTORY_NAME);
			history_close(open_history(f, f->ds, HISTORY_WRITE));
		}
	}
	gcfix_unlink(f, ".cairn/" HISTORY_NAME);
	assert_int_equal(symlinkat("format", f->dir.fd, DB), 0);
	try_open(f, HISTORY_WRITE, ERR_SYS, "open '");
	gcfix_unlink(f, ".cairn/" HISTORY_NAME);
	gcfix_mkdir(f, ".cairn/" HISTORY_NAME);
	try_open(f, HISTORY_READ, ERR_CORRUPT, "is no regular file");
}

static void it_is_locked(void **state)
{
	const struct foreign_lock read = { .type = F_RDLCK };
	const struct foreign_lock write = { .type = F_WRLCK };
	struct gcfix *f = *state;
	struct foreign_holder holder;
	struct history *h = open_history(f, f->ds, HISTORY_WRITE);

	assert_false(foreign_can(f->dir.fd, DB, &read));
	history_close(h);
	h = open_history(f, f->ds, HISTORY_READ);
	assert_true(foreign_can(f->dir.fd, DB, &read));
	assert_false(foreign_can(f->dir.fd, DB, &write));
	history_close(h);
	assert_true(foreign_can(f->dir.fd, DB, &write));
	foreign_start(f->dir.fd, DB, &read, &holder);
	gcfix_fast(NULL);
	try_open(f, HISTORY_WRITE, ERR_BUSY, "is kept locked");
	history_close(open_history(f, f->ds, HISTORY_READ));
	fault_uninstall();
	foreign_end(&holder);
}

/* A recorder tells once that it can not, and goes on. */
static void a_full_disk_is_a_warning(void **state)
{
	struct gcfix *f = *state;
	struct history_record r;

	f->r.warnings = 0;
	fault_install();
	fault_add(&(struct fault_rule){ .calls = FAULT_BIT(FAULT_PWRITE),
	    .what = FAULT_FAIL,
	    .at = 1,
	    .times = FAULT_FOREVER,
	    .error = ENOSPC });
	history_record_begin(&r, f->ds, &f->task, HISTORY_FORGET);
	history_record_snapshot(&r, "host/a");
	history_record_kept(&r, "host/a");
	history_record_end(&r, HISTORY_DONE, 0, NULL, NULL, 0);
	fault_uninstall();
	assert_int_equal(r.warnings, 1);
	assert_int_equal(
	    gcfix_said(f, "W this run can not be recorded in the history"), 1);
	assert_int_equal(gcfix_said(f, "No space left on device"), 1);
	/* The next one can. */
	history_record_begin(&r, f->ds, &f->task, HISTORY_FORGET);
	history_record_end(&r, HISTORY_DONE, ERR_BUSY, "a\001", NULL, 0);
	assert_runs(f, &all, "forget busy 'a\001' 1;");
	assert_false(gcfix_exists(f, ".cairn/" HISTORY_ASIDE));
}

static void a_damaged_one_is_put_aside(void **state)
{
	struct gcfix *f = *state;
	struct history_record r;
	char *text = NULL;

	history_record_begin(&r, f->ds, &f->task, HISTORY_FORGET);
	tmpdir_put_str(f->dir.fd, DB, "damaged by somebody, which is so long");
	history_record_snapshot(&r, "host/a");
	assert_int_equal(gcfix_said(f, "W the history is damaged"), 1);
	text = tmpdir_get(f->dir.fd, ASIDE, NULL);
	assert_memory_equal(text, "damaged by", 10);
	free(text);
	history_record_end(&r, HISTORY_DONE, 0, NULL, NULL, 0);
	assert_int_equal(r.warnings, 1);
	assert_runs(f, &all, "forget done '' 1;");
	/* One of a newer version is left alone. */
	sql(f, "pragma user_version = 2");
	history_record_begin(&r, f->ds, &f->task, HISTORY_FORGET);
	history_record_end(&r, HISTORY_DONE, 0, NULL, NULL, 0);
	assert_int_equal(gcfix_said(f, "W this run can not be recorded"), 1);
	sql(f, "pragma user_version = 1");
	assert_runs(f, &all, "forget done '' 1;");
}

/* Another process, which opens the datastore itself, records a run. */
static void record_elsewhere(struct gcfix *f, bool hurried)
{
	int status = 0;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		struct task task = f->other;
		struct datastore *ds = NULL;
		struct history_record r;

		fault_uninstall();
		task.stop = hurried ? SIGTERM : 0;
		if (datastore_open(f->path, DATASTORE_WRITE, NULL, &ds, &f->e) <
		    0)
			_exit(1);
		history_record_begin(&r, ds, &task, HISTORY_VERIFY);
		history_record_end(&r, HISTORY_DONE, 0, NULL, NULL, 0);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static void assert_snapshots(struct gcfix *f, int64_t run, const char *want)
{
	struct history *h = open_history(f, f->ds, HISTORY_READ);
	struct told t = { .text = "" };

	assert_ok(history_snapshots(h, run, on_name, &t, &f->e), &f->e);
	assert_string_equal(t.text, want);
	history_close(h);
}

/* In another file the same number is another's. */
static void a_new_file_has_other_runs(void **state)
{
	struct gcfix *f = *state;
	struct history_record r;
	struct history_record gc;
	const struct history_removed removed = { .bytes = 5 };
	struct history *h = NULL;

	history_record_begin(&r, f->ds, &f->task, HISTORY_FORGET);
	history_record_snapshot(&r, "host/gone");
	assert_int_equal(r.run.id, 1);
	gcfix_unlink(f, ".cairn/" HISTORY_NAME);
	record_elsewhere(f, false);
	history_record_kept(&r, "host/gone");
	history_record_snapshot(&r, "host/a");
	history_record_end(&r, HISTORY_DONE, 0, NULL, NULL, 0);
	assert_runs(f, &all, "forget done '' 2;verify done '' 1;");
	assert_snapshots(f, 1, "");
	assert_snapshots(f, 2, "host/a;");

	/* A collection says what it logged in the other one. */
	history_record_init(&gc, f->ds, &f->task, HISTORY_GC);
	history_record_removed(&gc, &removed);
	gc.flushed_ns = 1;
	history_record_removed(&gc, &removed);
	assert_int_equal(gc.run.id, 3);
	gcfix_unlink(f, ".cairn/" HISTORY_NAME);
	record_elsewhere(f, false);
	record_elsewhere(f, false);
	record_elsewhere(f, false);
	history_record_removed(&gc, &removed);
	history_record_end(&gc, HISTORY_DONE, 0, NULL, NULL, 0);
	assert_int_equal(gc.run.id, 4);
	assert_int_equal(gc.run.unlogged, 2);
	h = open_history(f, f->ds, HISTORY_WRITE);
	assert_int_equal(listed(f, h, 3), 0);
	assert_int_equal(listed(f, h, 4), 1);
	/* Nor is a run changed that is not there. */
	gc.run.id = 44;
	assert_err(history_update(h, &gc.run, NULL, 0, &f->e), &f->e,
	    ERR_NOTFOUND, "has no run 44");
	history_close(h);
}

static void record_before_journal_goes(void *ctx, struct fault_event *ev)
{
	struct gcfix *f = ctx;

	if (ev->call == FAULT_UNLINKAT &&
	    strstr(ev->name, HISTORY_NAME) != NULL && f->sweeps++ == 0)
		record_elsewhere(f, true);
}

/* Two find it damaged: neither puts the other's new one aside. */
static void two_put_it_aside(void **state)
{
	struct gcfix *f = *state;
	struct history_record r;
	char *text = NULL;

	f->sweeps = 0;
	tmpdir_put_str(f->dir.fd, DB, "damaged by somebody, which is so long");
	fault_install();
	fault_set_hooks(&(struct fault_hooks){
	    .before = record_before_journal_goes, .ctx = f });
	history_record_begin(&r, f->ds, &f->task, HISTORY_FORGET);
	history_record_end(&r, HISTORY_DONE, 0, NULL, NULL, 0);
	fault_uninstall();
	assert_int_equal(f->sweeps, 1);
	text = tmpdir_get(f->dir.fd, ASIDE, NULL);
	assert_memory_equal(text, "damaged by", 10);
	free(text);
	assert_runs(f, &all, "forget done '' 1;");
}

/* What SQLite refuses for another reason stays where it is. */
static void only_damage_is_put_aside(void **state)
{
	struct gcfix *f = *state;
	struct history_record r;

	history_record_begin(&r, f->ds, &f->task, HISTORY_FORGET);
	sql(f, "drop table snapshot");
	history_record_snapshot(&r, "host/a");
	history_record_snapshot(&r, "host/b");
	assert_int_equal(r.warnings, 1);
	assert_int_equal(gcfix_said(f, "no such table: snapshot"), 1);
	assert_int_equal(gcfix_said(f, "damaged"), 0);
	assert_false(gcfix_exists(f, ".cairn/" HISTORY_ASIDE));
	history_record_release(&r);
	assert_runs(f, &all, "forget running '' 1;");
}

/* The log is written now and then; an older run has the lower number. */
static void the_log_is_written_on_the_way(void **state)
{
	const struct history_removed removed = { .bytes = 5 };
	struct gcfix *f = *state;
	struct history_record r;
	struct history *h = NULL;

	history_record_init(&r, f->ds, &f->task, HISTORY_GC);
	history_run_init(&r.before, f->ds, HISTORY_GC);
	r.before.started -= 100;
	r.before.result = HISTORY_KILLED;
	history_record_removed(&r, &removed);
	assert_null(open_history(f, f->ds, HISTORY_READ));
	/* As if the last time were long ago. */
	r.flushed_ns -= (HISTORY_RECORD_FLUSH_S + 1) * INT64_C(1000000000);
	history_record_removed(&r, &removed);
	h = open_history(f, f->ds, HISTORY_READ);
	assert_int_equal(listed(f, h, r.run.id), 2);
	history_close(h);
	history_record_removed(&r, &removed);
	h = open_history(f, f->ds, HISTORY_READ);
	assert_int_equal(listed(f, h, r.run.id), 2);
	history_close(h);
	history_record_end(&r, HISTORY_DONE, 0, NULL, NULL, 0);
	assert_runs(f, &all, "gc done '' 2;gc killed '' 1;");
}

/* More than one transaction drops. */
static void all_that_is_old_is_dropped(void **state)
{
	struct gcfix *f = *state;
	struct history *h = open_history(f, f->ds, HISTORY_WRITE);
	struct history_run r;

	history_run_init(&r, f->ds, HISTORY_GC);
	assert_ok(history_add(h, &r, &f->e), &f->e);
	for (int i = 0; i < 3; i++)
		put_removed(f, h, 1, 0, 17000, 17000);
	assert_int_equal(listed(f, h, 1), 51000);
	assert_ok(
	    history_trim(h, r.started + HISTORY_KEEP_S + 1, &f->e), &f->e);
	assert_int_equal(listed(f, h, 1), 0);
	history_close(h);
}

static bool stop_key_blocked(void)
{
	sigset_t set;

	assert_int_equal(pthread_sigmask(SIG_BLOCK, NULL, &set), 0);
	return sigismember(&set, SIGTSTP) == 1;
}

/* A process that is stopped would keep the lock. */
static void no_stop_while_it_is_locked(void **state)
{
	struct gcfix *f = *state;
	struct history *h = open_history(f, f->ds, HISTORY_WRITE);

	assert_true(stop_key_blocked());
	history_close(h);
	assert_false(stop_key_blocked());
	tmpdir_put_str(f->dir.fd, DB, "damaged by somebody, which is so long");
	try_open(f, HISTORY_WRITE, ERR_CORRUPT, "damaged");
	assert_false(stop_key_blocked());
}

static void count_dir_sync(void *ctx, struct fault_event *ev)
{
	struct stat st;

	if (ev->call == FAULT_FSYNC && fstat(ev->fd, &st) == 0 &&
	    S_ISDIR(st.st_mode))
		*(unsigned *)ctx += 1;
}

/* The names of the two files last; once they are there they stay. */
static void new_names_are_synced(void **state)
{
	struct gcfix *f = *state;
	unsigned n = 0;

	fault_install();
	fault_set_hooks(
	    &(struct fault_hooks){ .after = count_dir_sync, .ctx = &n });
	for (int i = 0; i < 2; i++) {
		struct history_record r;

		history_record_begin(&r, f->ds, &f->task, HISTORY_FORGET);
		history_record_end(&r, HISTORY_DONE, 0, NULL, NULL, 0);
		assert_int_equal(n, 2);
	}
	fault_uninstall();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		GCFIX_TEST(there_is_none),
		GCFIX_TEST(comes_back),
		GCFIX_TEST(the_dead_are_known),
		GCFIX_TEST(it_is_bounded),
		GCFIX_TEST(the_dead_removed_what_they_logged),
		GCFIX_TEST(old_files_are_dropped),
		GCFIX_TEST(damage_is_told),
		GCFIX_TEST(it_is_locked),
		GCFIX_TEST(a_full_disk_is_a_warning),
		GCFIX_TEST(a_damaged_one_is_put_aside),
		GCFIX_TEST(a_new_file_has_other_runs),
		GCFIX_TEST(two_put_it_aside),
		GCFIX_TEST(only_damage_is_put_aside),
		GCFIX_TEST(the_log_is_written_on_the_way),
		GCFIX_TEST(all_that_is_old_is_dropped),
		GCFIX_TEST(no_stop_while_it_is_locked),
		GCFIX_TEST(new_names_are_synced),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
