/* SPDX-License-Identifier: MIT */
#include "gc/findings.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* An error message and what is said around it. */
#define TEXT_SIZE (2 * ERR_MSG_SIZE)

static void say_fatal(struct findings *f, const char *text)
{
	f->fatal++;
	task_message(f->task, TASK_WARNING, "%s", text);
}

static void say_warning(struct findings *f, const char *text)
{
	if (f->quiet)
		return;
	f->warnings++;
	task_message(f->task, TASK_WARNING, "%s", text);
}

void findings_fatal(struct findings *f, const char *fmt, ...)
{
	char text[TEXT_SIZE];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	say_fatal(f, text);
}

void findings_warn(struct findings *f, const char *fmt, ...)
{
	char text[TEXT_SIZE];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	say_warning(f, text);
}

void findings_at(struct findings *f, const char *path, const char *fmt, ...)
{
	char text[TEXT_SIZE];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (findings_is_ignored(f, path)) {
		say_warning(f, text);
	} else {
		say_fatal(f, text);
	}
}

bool findings_is_ignored(const struct findings *f, const char *path)
{
	char dir[BACKUP_PATH_SIZE];

	for (size_t i = 0; i < f->ignore_n; i++) {
		size_t n = 0;

		backup_snapshot_path(&f->ignore[i], dir);
		n = strlen(dir);
		if (strncmp(path, dir, n) == 0 &&
		    (path[n] == '\0' || path[n] == '/'))
			return true;
	}
	return false;
}
