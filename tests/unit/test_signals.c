/* SPDX-License-Identifier: MIT */
/*
 * What a signal does to the task, and that it does nothing once the task is
 * gone.
 */
#include "cli/signals.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/test.h"

static const int stopping[] = { SIGINT, SIGTERM, SIGHUP };

/* In a process of its own: the second signal ends it. */
static int in_child(void (*body)(struct task *, atomic_bool *))
{
	struct task *task = calloc(1, sizeof(*task));
	atomic_bool *asked = calloc(1, sizeof(*asked));
	struct err e = ERR_INIT;
	int status = 0;
	pid_t pid = 0;

	assert_non_null(task);
	assert_non_null(asked);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		if (signals_watch(task, asked, &e) < 0)
			_exit(99);
		body(task, asked);
		_exit(98);
	}
	free(task);
	free(asked);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static void first_asks(struct task *task, atomic_bool *asked)
{
	(void)raise(SIGTERM);
	_exit(
	    atomic_load(&task->stop) == SIGTERM && !atomic_load(asked) ? 0 : 1);
}

static void second_ends(struct task *task, atomic_bool *asked)
{
	(void)task;
	(void)asked;
	(void)raise(SIGTERM);
	(void)raise(SIGINT);
}

static void usr1_asks_for_progress(struct task *task, atomic_bool *asked)
{
	(void)raise(SIGUSR1);
	_exit(atomic_load(asked) && atomic_load(&task->stop) == 0 ? 0 : 1);
}

/* Every one of them, and twice: none may look at what is freed. */
static void gone(struct task *task, atomic_bool *asked)
{
	signals_ignore();
	free(task);
	free(asked);
	for (size_t round = 0; round < 2; round++) {
		for (size_t i = 0; i < TEST_COUNT(stopping); i++)
			(void)raise(stopping[i]);
		(void)raise(SIGUSR1);
	}
	_exit(0);
}

static void first_asks_to_stop(void **state)
{
	(void)state;
	assert_int_equal(in_child(first_asks), 0);
}

static void second_ends_at_once(void **state)
{
	(void)state;
	assert_int_equal(in_child(second_ends), 128 + SIGINT);
}

static void asked_for_progress(void **state)
{
	(void)state;
	assert_int_equal(in_child(usr1_asks_for_progress), 0);
}

static void after_the_work_nothing(void **state)
{
	(void)state;
	assert_int_equal(in_child(gone), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(first_asks_to_stop),
		cmocka_unit_test(second_ends_at_once),
		cmocka_unit_test(asked_for_progress),
		cmocka_unit_test(after_the_work_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
