/* SPDX-License-Identifier: MIT */
#include "tests/support/test.h"

#include <signal.h>
#include <stdio.h>

#include "datastore/base/task.h"

struct sink {
	enum task_level level;
	char text[4096];
	unsigned messages;
	uint64_t done;
};

static void take_message(void *ctx, enum task_level level, const char *text)
{
	struct sink *sink = ctx;

	sink->level = level;
	sink->messages++;
	(void)snprintf(sink->text, sizeof(sink->text), "%s", text);
}

static void take_progress(void *ctx, const struct task_progress *p)
{
	struct sink *sink = ctx;

	sink->done = p->done;
}

static const struct task_ops all_ops = { .message = take_message,
	.progress = take_progress };

static void reaches_the_sink(void **state)
{
	struct task_progress p = { .phase = "gc: mark", .done = 5 };
	struct sink sink = { .messages = 0 };
	struct task t = { .ops = &all_ops, .ctx = &sink, .stop = 0 };

	(void)state;
	task_message(&t, TASK_WARNING, "'%s': %d", "x", 7);
	assert_int_equal(sink.messages, 1);
	assert_int_equal(sink.level, TASK_WARNING);
	assert_string_equal(sink.text, "'x': 7");
	task_progress(&t, &p);
	assert_int_equal(sink.done, 5);
}

static void holds_an_error_and_a_path(void **state)
{
	struct sink sink = { .messages = 0 };
	struct task t = { .ops = &all_ops, .ctx = &sink, .stop = 0 };
	char text[ERR_MSG_SIZE + 1024];

	(void)state;
	memset(text, 'm', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	task_message(&t, TASK_NOTE, "%s", text);
	assert_string_equal(sink.text, text);
	for (int i = 0; i < 2; i++)
		task_message(&t, TASK_NOTE, "%s%s", text, text);
	assert_int_equal(sink.messages, 3);
	assert_true(strlen(sink.text) >= sizeof(text));
}

static void silence_is_allowed(void **state)
{
	static const struct task_ops none = { .message = NULL };
	struct task_progress p = { .phase = "x" };
	struct task t = TASK_SILENT;
	struct err e = ERR_INIT;

	(void)state;
	task_message(&t, TASK_NOTE, "nobody");
	task_progress(&t, &p);
	t.ops = &none;
	task_message(&t, TASK_NOTE, "nobody");
	task_progress(&t, &p);
	assert_ok(task_check(&t, &e), &e);
}

static void stops_when_told(void **state)
{
	struct task t = TASK_SILENT;
	struct err e = ERR_INIT;

	(void)state;
	assert_ok(task_check(&t, &e), &e);
	atomic_store(&t.stop, SIGTERM);
	assert_err(task_check(&t, &e), &e, ERR_CANCELLED, "stopped by SIGTERM");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reaches_the_sink),
		cmocka_unit_test(holds_an_error_and_a_path),
		cmocka_unit_test(silence_is_allowed),
		cmocka_unit_test(stops_when_told),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
