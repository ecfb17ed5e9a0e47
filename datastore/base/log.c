/* SPDX-License-Identifier: MIT */
#include "datastore/base/log.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "datastore/base/sysio.h"
#include "datastore/base/text.h"

/* Two paths of full length and a sentence; what is longer ends in "...". */
#define LINE_SIZE 9216

static atomic_int log_most = LOG_LEVEL_INFO;
static atomic_bool log_color;

/* ECMA-48 select graphic rendition: bold red, yellow, and back. */
#define RED "\033[1;31m"
#define YELLOW "\033[33m"
#define PLAIN "\033[0m"

void log_set_level(enum log_level most)
{
	atomic_store_explicit(&log_most, (int)most, memory_order_relaxed);
}

void log_set_color(bool on)
{
	atomic_store_explicit(&log_color, on, memory_order_relaxed);
}

static const char *head_of(enum log_level level)
{
	bool color = atomic_load_explicit(&log_color, memory_order_relaxed);

	switch (level) {
	case LOG_LEVEL_ERROR:
		return color ? RED "cairn:" PLAIN " " : "cairn: ";
	case LOG_LEVEL_WARNING:
		return color ? "cairn: " YELLOW "warning:" PLAIN " "
			     : "cairn: warning: ";
	case LOG_LEVEL_INFO:
	case LOG_LEVEL_DEBUG:
		break;
	}
	return "cairn: ";
}

/* Bytes of the character that begins here; 0: it is none, or a control one. */
static size_t printable_length(const char *s, size_t n)
{
	unsigned char c = (unsigned char)s[0];
	size_t len = 1;

	if (c < 0x80)
		return c >= 0x20 && c != 0x7f ? 1 : 0;
	while (len < 4 && len < n && ((unsigned char)s[len] & 0xc0U) == 0x80U)
		len++;
	/* U+0080 to U+009F are control characters, too. */
	if (!text_is_utf8(s, len) || (c == 0xc2 && (unsigned char)s[1] < 0xa0))
		return 0;
	return len;
}

/* Names are bytes: none may end the line or drive the terminal. */
static void make_one_line(char *s, size_t n)
{
	for (size_t i = 0; i < n;) {
		size_t len = printable_length(s + i, n - i);

		if (len == 0) {
			bool blank =
			    s[i] == '\n' || s[i] == '\r' || s[i] == '\t';

			s[i] = blank ? ' ' : '?';
			len = 1;
		}
		i += len;
	}
}

void log_line(enum log_level level, const char *fmt, ...)
{
	static const char cut[] = "...";
	const char *head = head_of(level);
	size_t head_n = strlen(head);
	size_t len = head_n;
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
	make_one_line(line + head_n, len - head_n);
	line[len++] = '\n';
	/* Where the log itself fails there is nobody left to tell. */
	(void)sysio_write(STDERR_FILENO, line, len);
}
