/* SPDX-License-Identifier: MIT */
#include "datastore/base/task.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>

/* A message quotes at most an error message and a path. */
#define MESSAGE_SIZE 2048

void task_message(struct task *t, enum task_level level, const char *fmt, ...)
{
	char text[MESSAGE_SIZE];
	va_list ap;

	if (t->ops == NULL || t->ops->message == NULL)
		return;
	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	t->ops->message(t->ctx, level, text);
}

void task_progress(struct task *t, const struct task_progress *p)
{
	if (t->ops != NULL && t->ops->progress != NULL)
		t->ops->progress(t->ctx, p);
}

int task_check(struct task *t, struct err *e)
{
	int stop = atomic_load_explicit(&t->stop, memory_order_relaxed);

	if (stop == 0)
		return 0;
	switch (stop) {
	case SIGINT:
		return err_set(e, ERR_CANCELLED, "stopped by SIGINT");
	case SIGTERM:
		return err_set(e, ERR_CANCELLED, "stopped by SIGTERM");
	case SIGHUP:
		return err_set(e, ERR_CANCELLED, "stopped by SIGHUP");
	default:
		return err_set(e, ERR_CANCELLED, "stopped by signal %d", stop);
	}
}
