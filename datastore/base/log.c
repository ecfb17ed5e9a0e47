/* SPDX-License-Identifier: MIT */
#include "datastore/base/log.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "datastore/base/sysio.h"

/* Two paths of full length and a sentence; what is longer ends in "...". */
#define LINE_SIZE 9216

static atomic_int log_most = LOG_LEVEL_INFO;

void log_set_level(enum log_level most)
{
	atomic_store_explicit(&log_most, (int)most, memory_order_relaxed);
}

/* Names are bytes: none may end the line or drive the terminal. */
static void make_one_line(char *s, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		unsigned char c = (unsigned char)s[i];

		if (c == '\n' || c == '\r' || c == '\t') {
			s[i] = ' ';
		} else if (c < 0x20 || c == 0x7f) {
			s[i] = '?';
		}
	}
}

void log_line(enum log_level level, const char *fmt, ...)
{
	static const char cut[] = "...";
	const char *head =
	    level == LOG_LEVEL_WARNING ? "cairn: warning: " : "cairn: ";
	size_t len = strlen(head);
	char line[LINE_SIZE];
	va_list ap;
	int n = 0;

	if ((int)level > atomic_load_explicit(&log_most, memory_order_relaxed))
		return;
	(void)snprintf(line, sizeof(line), "%s", head);
	va_start(ap, fmt);
	n = vsnprintf(line + len, sizeof(line) - len, fmt, ap);
	va_end(ap);
	if (n < 0)
		return;
	if ((size_t)n < sizeof(line) - len) {
		len += (size_t)n;
	} else {
		len = sizeof(line) - 1;
		memcpy(line + len - (sizeof(cut) - 1), cut, sizeof(cut) - 1);
	}
	make_one_line(line, len);
	line[len++] = '\n';
	/* Where the log itself fails there is nobody left to tell. */
	(void)sysio_write(STDERR_FILENO, line, len);
}
