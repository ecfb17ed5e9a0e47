/* SPDX-License-Identifier: MIT */
#include "cli/signals.h"

#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <unistd.h>

/* The one thing a handler may look at; set once, before it is installed. */
static struct task *watched;

static void on_signal(int number)
{
	int none = 0;

	/* The second one means it: default action, now. */
	if (!atomic_compare_exchange_strong(&watched->stop, &none, number))
		_exit(128 + number);
}

int signals_watch(struct task *task, struct err *e)
{
	static const int numbers[] = { SIGINT, SIGTERM, SIGHUP };
	struct sigaction act = { .sa_handler = on_signal };
	struct sigaction ignore = { .sa_handler = SIG_IGN };

	watched = task;
	/* No SA_RESTART: a blocked read must see it. */
	(void)sigemptyset(&act.sa_mask);
	(void)sigemptyset(&ignore.sa_mask);
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		struct sigaction old;

		if (sigaction(numbers[i], NULL, &old) < 0)
			return err_sys(e, "sigaction");
		/* nohup(1) and background shells ignore some: keep that. */
		if (old.sa_handler == SIG_IGN)
			continue;
		if (sigaction(numbers[i], &act, NULL) < 0)
			return err_sys(e, "sigaction");
	}
	/* What these would end in the middle is an error of the write. */
	if (sigaction(SIGPIPE, &ignore, NULL) < 0 ||
	    sigaction(SIGXFSZ, &ignore, NULL) < 0)
		return err_sys(e, "sigaction");
	return 0;
}
