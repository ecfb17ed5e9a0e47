/* SPDX-License-Identifier: MIT */
/* Pushes in the history: recorded whole at their end, and kept apart. */
#include <inttypes.h>
#include <sqlite3.h>
#include <stdio.h>

#include "gc/history.h"
#include "gc/history_record.h"
#include "tests/support/gcfix.h"

static struct history *open_history(struct gcfix *f, enum history_mode mode)
{
	struct history *h = NULL;
	bool found = false;

	assert_ok(
	    history_open(f->ds, mode, &f->other, &h, &found, &f->e), &f->e);
	assert_true(found);
	return h;
}

/* What was told, as text. */
struct told {
	char text[1024];
	size_t n;
};

static void tell(struct told *t, const char *word, uint64_t n)
{
	int len = snprintf(
	    t->text + t->n, sizeof(t->text) - t->n, "%s %" PRIu64 ";", word, n);

	assert_true(len > 0 && (size_t)len < sizeof(t->text) - t->n);
	t->n += (size_t)len;
}

static int on_run(void *ctx, const struct history_run *r, struct err *e)
{
	(void)e;
	tell(ctx, history_kind_name(r->kind), (uint64_t)r->id);
	tell(ctx, history_result_name(r->result), r->ended != 0);
	return 0;
}

static int on_count(void *ctx, const struct history_count *c, struct err *e)
{
	(void)e;
	tell(ctx, c->key, c->n);
	return 0;
}

static int on_name(void *ctx, const char *name, struct err *e)
{
	(void)e;
	tell(ctx, name, 0);
	return 0;
}

static void assert_runs(struct gcfix *f, const char *want)
{
	const struct history_query all = { .any_kind = true };
	struct history *h = open_history(f, HISTORY_READ);
	struct told t = { .text = "" };

	assert_ok(history_runs(h, &all, on_run, &t, &f->e), &f->e);
	assert_string_equal(t.text, want);
	history_close(h);
}

static void push(struct gcfix *f, const char *made, int code)
{
	static const struct history_count counts[] = { { "archives", 1 },
		{ "bytes", 7 } };
	struct history_record r;

	history_record_init(&r, f->ds, &f->task, HISTORY_PUSH);
	history_record_push(&r, made, HISTORY_DONE, code, NULL, counts, 2);
	assert_int_equal(r.warnings, 0);
}

static void it_is_recorded_whole(void **state)
{
	struct gcfix *f = *state;
	struct history *h = NULL;
	struct told t = { .text = "" };

	push(f, "host/a", 0);
	push(f, NULL, ERR_CANCELLED);
	assert_runs(f, "push 2;stopped 1;push 1;done 1;");
	h = open_history(f, HISTORY_READ);
	assert_ok(history_counts(h, 1, on_count, &t, &f->e), &f->e);
	assert_ok(history_snapshots(h, 1, on_name, &t, &f->e), &f->e);
	assert_ok(history_counts(h, 2, on_count, &t, &f->e), &f->e);
	assert_ok(history_snapshots(h, 2, on_name, &t, &f->e), &f->e);
	assert_string_equal(
	    t.text, "archives 1;bytes 7;host/a 0;archives 1;bytes 7;");
	history_close(h);
}

static void count_end(void *ctx, struct fault_event *ev)
{
	if (ev->call == FAULT_FTRUNCATE)
		*(unsigned *)ctx += 1;
}

/* Each transaction ends with a truncated journal. */
static void it_costs_one_transaction(void **state)
{
	struct gcfix *f = *state;
	unsigned n = 0;

	push(f, "host/a", 0);
	fault_install();
	fault_set_hooks(&(struct fault_hooks){ .after = count_end, .ctx = &n });
	push(f, "host/b", 0);
	fault_uninstall();
	assert_int_equal(n, 1);
}

static void add(struct gcfix *f, struct history *h, enum history_kind kind)
{
	struct history_run r;

	history_run_init(&r, f->ds, kind);
	r.result = HISTORY_DONE;
	r.ended = r.started;
	assert_ok(history_add_ended(h, &r, "x", NULL, 0, &f->e), &f->e);
}

/* Neither pushes the others out. */
static void they_are_kept_apart(void **state)
{
	struct gcfix *f = *state;
	struct history *h = open_history(f, HISTORY_WRITE);
	struct told t = { .text = "" };

	history_limit(h, HISTORY_BYTES_MAX, 2);
	add(f, h, HISTORY_GC);
	for (int i = 0; i < 4; i++)
		add(f, h, HISTORY_PUSH);
	assert_ok(history_trim(h, 0, &f->e), &f->e);
	assert_ok(history_snapshots(h, 1, on_name, &t, &f->e), &f->e);
	assert_ok(history_snapshots(h, 3, on_name, &t, &f->e), &f->e);
	assert_string_equal(t.text, "x 0;");
	history_close(h);
	assert_runs(f, "push 5;done 1;push 4;done 1;gc 1;done 1;");

	h = open_history(f, HISTORY_WRITE);
	history_limit(h, HISTORY_BYTES_MAX, 2);
	add(f, h, HISTORY_VERIFY);
	add(f, h, HISTORY_FORGET);
	assert_ok(history_trim(h, 0, &f->e), &f->e);
	history_close(h);
	assert_runs(
	    f, "forget 7;done 1;verify 6;done 1;push 5;done 1;push 4;done 1;");
}

static int on_removed(void *ctx, const struct history_removed *r, struct err *e)
{
	(void)e;
	(void)r;
	*(unsigned *)ctx += 1;
	return 0;
}

/* What a collection removed stays, however many pushes came after it. */
static void the_log_outlives_pushes(void **state)
{
	const struct history_removed removed = { .bytes = 5 };
	struct gcfix *f = *state;
	struct history *h = open_history(f, HISTORY_WRITE);
	struct history_page page = { .run = 1, .most = 2 };
	size_t added = 0;
	unsigned n = 0;

	history_limit(h, HISTORY_BYTES_MAX, 1);
	add(f, h, HISTORY_GC);
	assert_ok(history_add_removed(h, 1, &removed, 1, &added, &f->e), &f->e);
	add(f, h, HISTORY_PUSH);
	add(f, h, HISTORY_PUSH);
	assert_ok(history_trim(h, 0, &f->e), &f->e);
	history_close(h);
	h = open_history(f, HISTORY_READ);
	assert_ok(history_removed(h, &page, on_removed, &n, &f->e), &f->e);
	assert_int_equal(n, 1);
	history_close(h);
}

static int count_run(void *ctx, const struct history_run *r, struct err *e)
{
	(void)e;
	(void)r;
	*(unsigned *)ctx += 1;
	return 0;
}

/* A push sees to it itself, now and then. */
static void pushes_alone_are_bounded(void **state)
{
	struct gcfix *f = *state;
	char path[PATH_MAX + 64];
	sqlite3 *db = NULL;
	struct history *h = NULL;
	unsigned n = 0;

	push(f, "host/a", 0);
	(void)snprintf(path, sizeof(path), "%s/.cairn/" HISTORY_NAME, f->path);
	assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
	assert_int_equal(
	    sqlite3_exec(db,
		"with recursive c(i) as (select 2 union all select i + 1 from "
		"c where i < 10111) insert into run select i, 'push', 'done', "
		"1, 1, '', '', 1, 0, 0, 0, 0, '' from c",
		NULL, NULL, NULL),
	    SQLITE_OK);
	(void)sqlite3_close(db);
	/* 10112 is the next one that trims. */
	push(f, "host/a", 0);
	h = open_history(f, HISTORY_READ);
	assert_ok(
	    history_runs(h, &(struct history_query){ .kind = HISTORY_PUSH },
		count_run, &n, &f->e),
	    &f->e);
	history_close(h);
	assert_int_equal(n, HISTORY_RUNS_MAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		GCFIX_TEST(it_is_recorded_whole),
		GCFIX_TEST(it_costs_one_transaction),
		GCFIX_TEST(they_are_kept_apart),
		GCFIX_TEST(the_log_outlives_pushes),
		GCFIX_TEST(pushes_alone_are_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
