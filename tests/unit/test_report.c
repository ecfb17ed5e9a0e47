/* SPDX-License-Identifier: MIT */
/*
 * What goes to standard error, and when: by a clock of the test's.
 */
#include "cli/report.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "datastore/base/json.h"
#include "datastore/base/log.h"
#include "tests/support/fault.h"
#include "tests/support/test.h"

struct fixture {
	struct report r;
	struct task task;
	char text[8192]; /* what was written */
	size_t n;
	size_t writes;
	int64_t now_ms;
};

static void before(void *ctx, struct fault_event *ev)
{
	struct fixture *f = ctx;

	if (ev->call == FAULT_CLOCK_GETTIME) {
		struct timespec *ts = ev->p;

		ts->tv_sec = f->now_ms / 1000;
		ts->tv_nsec = f->now_ms % 1000 * 1000000;
		ev->skip = true;
		ev->result = 0;
	}
	if (ev->call == FAULT_WRITE && ev->fd == STDERR_FILENO) {
		assert_true(f->n + ev->n < sizeof(f->text));
		memcpy(f->text + f->n, ev->in, ev->n);
		f->n += ev->n;
		f->text[f->n] = '\0';
		f->writes++;
		ev->skip = true;
		ev->result = (int64_t)ev->n;
	}
}

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	struct fault_hooks hooks = { .before = before, .ctx = f };

	if (f == NULL)
		return -1;
	*state = f;
	f->now_ms = 1000000;
	log_set_level(LOG_LEVEL_INFO);
	fault_install();
	fault_set_hooks(&hooks);
	return 0;
}

static int teardown(void **state)
{
	report_release(&((struct fixture *)*state)->r);
	fault_uninstall();
	free(*state);
	return 0;
}

/* As it is behind a pipe, whatever this test's standard error is. */
static void start(struct fixture *f, bool json, bool quiet,
    enum report_progress progress, bool terminal)
{
	struct err e = ERR_INIT;

	assert_ok(report_init(&f->r, json, quiet, progress, &e), &e);
	f->r.terminal = terminal;
	f->task = (struct task){ .ops = &report_task_ops, .ctx = &f->r };
}

static void progress(
    struct fixture *f, const char *phase, uint64_t done, uint64_t total)
{
	struct task_progress p = {
		.phase = phase, .done = done, .total = total
	};

	task_progress(&f->task, &p);
}

/* What was written since the last look. */
static void assert_wrote(struct fixture *f, const char *want)
{
	assert_string_equal(f->text, want);
	f->text[0] = '\0';
	f->n = 0;
}

static void writes_lines_to_a_log(void **state)
{
	struct fixture *f = *state;

	start(f, false, false, REPORT_AUTO, false);
	progress(f, "mark", 0, 1000);
	assert_wrote(f, "");
	f->now_ms += 9999;
	progress(f, "mark", 100, 1000);
	assert_wrote(f, "");
	f->now_ms += 1;
	progress(f, "mark", 109, 1000);
	assert_wrote(f, "cairn: mark 10%, 1m21s left\n");
	/* Time went by, but no percent. */
	f->now_ms += 20000;
	progress(f, "mark", 109, 1000);
	assert_wrote(f, "");
	progress(f, "mark", 110, 1000);
	assert_wrote(f, "cairn: mark 11%, 4m2s left\n");
	/* Percents went by, but no time. */
	progress(f, "mark", 999, 1000);
	assert_wrote(f, "");
	/* The end is told at once, and once. */
	progress(f, "mark", 1000, 1000);
	assert_wrote(f, "cairn: mark 100%\n");
	f->now_ms += 60000;
	progress(f, "mark", 1000, 1000);
	assert_wrote(f, "");
	progress(f, "sweep", 0, 7);
	progress(f, "sweep", 7, 7);
	assert_wrote(f, "cairn: sweep 100%\n");
}

static void never_rounds_up(void **state)
{
	struct fixture *f = *state;

	start(f, false, false, REPORT_AUTO, false);
	progress(f, "mark", 0, UINT64_MAX);
	f->now_ms += 10000;
	progress(f, "mark", UINT64_MAX - 1, UINT64_MAX);
	assert_wrote(f, "cairn: mark 99%, 0s left\n");
	/* More than was expected is all. */
	progress(f, "more", 9, 7);
	assert_wrote(f, "cairn: more 100%\n");
}

/* The word goes with the last number before it. */
static void counts_one_as_one(void **state)
{
	struct fixture *f = *state;
	const struct task_count counts[] = {
		{ "a", "chunks", 1, 0, TASK_UNIT_COUNT, "chunk" },
		{ "b", "new chunks", 0, 0, TASK_UNIT_COUNT, "new chunk" },
		{ "c", "snapshots", 1, 5, TASK_UNIT_COUNT, "snapshot" },
		{ "d", "files", 0, 1, TASK_UNIT_COUNT, "file" },
		{ "e", "entries", 2, 0, TASK_UNIT_COUNT, "entry" },
	};
	struct task_progress p = { .phase = "push",
		.done = 1,
		.total = 1,
		.counts = counts,
		.counts_n = TEST_COUNT(counts) };

	start(f, false, false, REPORT_AUTO, false);
	task_progress(&f->task, &p);
	assert_wrote(f,
	    "cairn: push 100% (1 chunk, 0 new chunks, 1 of 5 snapshots, "
	    "0 of 1 file, 2 entries)\n");
}

static void shows_counts_and_sizes(void **state)
{
	struct fixture *f = *state;
	const struct task_count counts[] = {
		{ "files", "index files read", 504, 1200, TASK_UNIT_COUNT,
		    NULL },
		{ "waiting", "waiting", 81, 0, TASK_UNIT_COUNT, NULL },
		{ "bytes", "read", 3 << 20, 0, TASK_UNIT_BYTES, NULL },
		{ "of", "of it", 1024, 2048, TASK_UNIT_BYTES, NULL },
	};
	struct task_progress p = { .phase = "gc: mark",
		.done = 42,
		.total = 42,
		.counts = counts,
		.counts_n = TEST_COUNT(counts) };

	start(f, false, false, REPORT_AUTO, false);
	task_progress(&f->task, &p);
	assert_wrote(f,
	    "cairn: gc: mark 100% (504 of 1200 index files read, 81 waiting, "
	    "3 MiB read, 1 KiB of 2 KiB of it)\n");
	p = (struct task_progress){ .phase = "push",
		.unit = TASK_UNIT_BYTES,
		.done = 0,
		.total = 100 << 20 };
	task_progress(&f->task, &p);
	f->now_ms += 20000;
	p.done = 40 << 20;
	task_progress(&f->task, &p);
	assert_wrote(
	    f, "cairn: push 40% 40 MiB of 100 MiB, 2 MiB/s, 30s left\n");
	/* Without a total: what was done, and how fast. */
	p = (struct task_progress){ .phase = "stream",
		.unit = TASK_UNIT_BYTES };
	task_progress(&f->task, &p);
	f->now_ms += 10000;
	p.done = 10 << 20;
	task_progress(&f->task, &p);
	assert_wrote(f, "cairn: stream 10 MiB, 1 MiB/s\n");
	f->now_ms += 10000;
	task_progress(&f->task, &p);
	assert_wrote(f, "cairn: stream 10 MiB, 512 KiB/s\n");
}

static void rewrites_a_line_of_a_terminal(void **state)
{
	struct fixture *f = *state;

	start(f, false, false, REPORT_AUTO, true);
	progress(f, "mark", 0, 10);
	assert_wrote(f, "");
	f->now_ms += 100;
	progress(f, "mark", 1, 10);
	assert_wrote(f, "\rmark 10%\033[K");
	f->now_ms += 99;
	progress(f, "mark", 2, 10);
	assert_wrote(f, "");
	f->now_ms += 1;
	progress(f, "mark", 2, 10);
	assert_wrote(f, "\rmark 20%\033[K");
	/* A message takes the line's place, in one piece each. */
	task_message(&f->task, TASK_WARNING, "look at '%s'", "a");
	assert_wrote(f, "\r\033[Kcairn: warning: look at 'a'\n");
	task_message(&f->task, TASK_NOTE, "again");
	assert_wrote(f, "cairn: again\n");
	f->now_ms += 100;
	progress(f, "mark", 3, 10);
	assert_wrote(f, "\rmark 30%\033[K");
	/* So does another phase, and the end. */
	progress(f, "sweep", 0, 10);
	assert_wrote(f, "\r\033[K");
	f->now_ms += 100;
	progress(f, "sweep", 5, 10);
	assert_wrote(f, "\rsweep 50%\033[K");
	report_release(&f->r);
	assert_wrote(f, "\r\033[K");
	start(f, false, false, REPORT_AUTO, true);
}

/* Who asks gets it; who wants peace has it. */
static void obeys(void **state)
{
	static const struct {
		bool quiet;
		enum report_progress progress;
		bool shows;
	} cases[] = {
		{ false, REPORT_AUTO, true },
		{ true, REPORT_AUTO, false },
		{ false, REPORT_ALWAYS, true },
		{ true, REPORT_ALWAYS, true },
		{ false, REPORT_NEVER, false },
		{ true, REPORT_NEVER, false },
	};
	struct fixture *f = *state;

	for (size_t i = 0; i < 4 * TEST_COUNT(cases); i++) {
		const bool json = (i & 1) != 0;
		const bool terminal = (i & 2) != 0;

		start(f, json, cases[i / 4].quiet, cases[i / 4].progress,
		    terminal);
		progress(f, "mark", 10, 10);
		assert_int_equal(f->n > 0, cases[i / 4].shows);
		f->n = 0;
		report_release(&f->r);
		f->n = 0;
		f->text[0] = '\0';
	}
	start(f, false, false, REPORT_AUTO, false);
}

/* One line of the --json stream, which must be one write. */
static struct js *one_event(struct fixture *f)
{
	struct js *v = NULL;
	struct err e = ERR_INIT;

	assert_int_equal(f->writes, 1);
	assert_true(f->n > 1);
	assert_int_equal(f->text[f->n - 1], '\n');
	assert_null(memchr(f->text, '\n', f->n - 1));
	assert_ok(js_parse(f->text, f->n, &v, &e), &e);
	f->n = 0;
	f->writes = 0;
	return v;
}

static void assert_str(const struct js *v, const char *key, const char *want)
{
	const char *s = NULL;
	struct err e = ERR_INIT;

	assert_ok(js_get_str(v, key, &s, NULL, &e), &e);
	assert_string_equal(s, want);
}

static void assert_u64(const struct js *v, const char *key, uint64_t want)
{
	uint64_t n = 0;
	struct err e = ERR_INIT;

	assert_ok(js_get_u64(v, key, &n, NULL, &e), &e);
	assert_int_equal(n, want);
}

static bool has(const struct js *v, const char *key)
{
	struct js *value = NULL;
	struct err e = ERR_INIT;
	bool found = false;

	assert_ok(js_get(v, key, &value, &found, &e), &e);
	return found;
}

static void writes_events(void **state)
{
	struct fixture *f = *state;
	const struct task_count counts[] = { { "files-read", "files read", 5,
	    12, TASK_UNIT_COUNT, "file read" } };
	struct task_progress p = { .phase = "gc: mark",
		.done = 0,
		.total = 200,
		.counts = counts,
		.counts_n = 1 };
	struct js *v = NULL;

	/* The same on a terminal: it is for programs. */
	start(f, true, false, REPORT_AUTO, true);
	task_progress(&f->task, &p);
	assert_int_equal(f->n, 0);
	f->now_ms += 10000;
	p.done = 50;
	task_progress(&f->task, &p);
	v = one_event(f);
	assert_str(v, "event", "progress");
	assert_str(v, "phase", "gc: mark");
	assert_str(v, "unit", "count");
	assert_u64(v, "done", 50);
	assert_u64(v, "total", 200);
	assert_u64(v, "percent", 25);
	assert_u64(v, "files-read", 5);
	assert_u64(v, "seconds-left", 30);
	js_free(v);

	p = (struct task_progress){
		.phase = "stream", .unit = TASK_UNIT_BYTES, .done = 1
	};
	task_progress(&f->task, &p);
	f->now_ms += 10000;
	task_progress(&f->task, &p);
	v = one_event(f);
	assert_str(v, "unit", "bytes");
	assert_false(has(v, "total"));
	assert_false(has(v, "percent"));
	assert_false(has(v, "seconds-left"));
	js_free(v);
}

static void writes_messages_as_events(void **state)
{
	struct fixture *f = *state;
	struct js *v = NULL;

	start(f, true, false, REPORT_AUTO, false);
	task_message(&f->task, TASK_WARNING, "chunk '%s'", "a\nb");
	v = one_event(f);
	assert_str(v, "event", "message");
	assert_str(v, "level", "warning");
	assert_str(v, "text", "chunk 'a\nb'");
	js_free(v);
	task_message(&f->task, TASK_NOTE, "bytes \xff");
	v = one_event(f);
	assert_str(v, "level", "note");
	assert_str(v, "text-hex", "627974657320ff");
	js_free(v);
	task_message(&f->task, TASK_DEBUG, "nobody asked");
	assert_int_equal(f->n, 0);
}

static void counts_warnings(void **state)
{
	struct fixture *f = *state;

	start(f, false, false, REPORT_AUTO, false);
	task_message(&f->task, TASK_WARNING, "one");
	task_message(&f->task, TASK_NOTE, "none");
	task_message(&f->task, TASK_DEBUG, "none");
	task_message(&f->task, TASK_WARNING, "two");
	assert_int_equal(f->r.warnings, 2);
	assert_wrote(
	    f, "cairn: warning: one\ncairn: none\ncairn: warning: two\n");
	log_set_level(LOG_LEVEL_WARNING);
	task_message(&f->task, TASK_NOTE, "none");
	task_message(&f->task, TASK_WARNING, "three");
	assert_wrote(f, "cairn: warning: three\n");
	log_set_level(LOG_LEVEL_DEBUG);
	task_message(&f->task, TASK_DEBUG, "more");
	assert_wrote(f, "cairn: more\n");
}

/* A phase that begins in its middle: the rate is that of what was made. */
static void estimates_from_where_it_began(void **state)
{
	struct fixture *f = *state;

	start(f, false, false, REPORT_AUTO, false);
	progress(f, "mark", 500, 1000);
	f->now_ms += 10000;
	progress(f, "mark", 600, 1000);
	assert_wrote(f, "cairn: mark 60%, 40s left\n");
	/* Too soon to say. */
	progress(f, "other", 0, 1000);
	f->now_ms += 1999;
	f->r.terminal = true;
	progress(f, "other", 10, 1000);
	assert_wrote(f, "\rother 1%\033[K");
}

#define REPORT_TEST(t) cmocka_unit_test_setup_teardown(t, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		REPORT_TEST(writes_lines_to_a_log),
		REPORT_TEST(never_rounds_up),
		REPORT_TEST(counts_one_as_one),
		REPORT_TEST(shows_counts_and_sizes),
		REPORT_TEST(rewrites_a_line_of_a_terminal),
		REPORT_TEST(obeys),
		REPORT_TEST(writes_events),
		REPORT_TEST(writes_messages_as_events),
		REPORT_TEST(counts_warnings),
		REPORT_TEST(estimates_from_where_it_began),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
