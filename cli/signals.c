/* SPDX-License-Identifier: MIT */
#include "cli/signals.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <unistd.h>

/* What handlers may look at; set before they are installed. */
static struct task *watched;
static atomic_bool *progress_asked;

/* Those that ask the task to stop. */
static const int stopping[] = { SIGINT, SIGTERM, SIGHUP };

#define STOPPING_COUNT (sizeof(stopping) / sizeof(stopping[0]))

static void on_signal(int number)
{
	int none = 0;

	/* The second one means it: default action, now. */
	if (!atomic_compare_exchange_strong(&watched->stop, &none, number))
		_exit(128 + number);
}

static void on_ask(int number)
{
	(void)number;
	atomic_store(progress_asked, true);
}

int signals_watch(struct task *task, atomic_bool *asked, struct err *e)
{
	struct sigaction act = { .sa_handler = on_signal };
	struct sigaction ignore = { .sa_handler = SIG_IGN };
	/* Who only asks must not make a call fail. */
	struct sigaction ask = { .sa_handler = on_ask, .sa_flags = SA_RESTART };

	watched = task;
	progress_asked = asked;
	/* No SA_RESTART: a blocked read must see it. */
	(void)sigemptyset(&act.sa_mask);
	(void)sigemptyset(&ignore.sa_mask);
	(void)sigemptyset(&ask.sa_mask);
	for (size_t i = 0; i < STOPPING_COUNT; i++) {
		struct sigaction old;

		if (sigaction(stopping[i], NULL, &old) < 0)
			return err_sys(e, "sigaction");
		/* nohup(1) and background shells ignore some: keep that. */
		if (old.sa_handler == SIG_IGN)
			continue;
		if (sigaction(stopping[i], &act, NULL) < 0)
			return err_sys(e, "sigaction");
	}
	if (sigaction(SIGUSR1, &ask, NULL) < 0)
		return err_sys(e, "sigaction");
	/* What these would end in the middle is an error of the write. */
	if (sigaction(SIGPIPE, &ignore, NULL) < 0 ||
	    sigaction(SIGXFSZ, &ignore, NULL) < 0)
		return err_sys(e, "sigaction");
	return 0;
}

void signals_ignore(void)
{
	struct sigaction ignore = { .sa_handler = SIG_IGN };

	(void)sigemptyset(&ignore.sa_mask);
	for (size_t i = 0; i < STOPPING_COUNT; i++)
		(void)sigaction(stopping[i], &ignore, NULL);
	(void)sigaction(SIGUSR1, &ignore, NULL);
}
