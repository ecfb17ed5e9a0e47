/* SPDX-License-Identifier: MIT */
#include "datastore/base/err.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/*
 * A message is one line of a log or a terminal, and may quote names of any
 * bytes: nothing in it may end the line or drive the terminal.
 */
static void make_one_line(char *s)
{
	for (; *s != '\0'; s++) {
		unsigned char c = (unsigned char)*s;

		if (c == '\n' || c == '\r' || c == '\t') {
			*s = ' ';
		} else if (c < 0x20 || c == 0x7f) {
			*s = '?';
		}
	}
}

/* Like strlcat: what does not fit is lost. */
static void append(char *to, size_t size, const char *text)
{
	size_t len = strlen(to);

	(void)snprintf(to + len, size - len, "%s", text);
}

__attribute__((format(printf, 3, 0))) static void fill(
    struct err *e, int code, const char *fmt, va_list ap)
{
	e->code = code;
	e->sys_errno = 0;
	(void)vsnprintf(e->msg, sizeof(e->msg), fmt, ap);
	make_one_line(e->msg);
}

int err_set(struct err *e, int code, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	fill(e, code, fmt, ap);
	va_end(ap);
	return code;
}

int err_sys(struct err *e, const char *fmt, ...)
{
	int saved = errno;
	int code = saved == ENOMEM ? ERR_NOMEM : ERR_SYS;
	char text[128];
	va_list ap;

	va_start(ap, fmt);
	fill(e, code, fmt, ap);
	va_end(ap);
	if (code == ERR_SYS)
		e->sys_errno = saved;
	append(e->msg, sizeof(e->msg), ": ");
	append(e->msg, sizeof(e->msg), strerror_r(saved, text, sizeof(text)));
	return code;
}

int err_nomem(struct err *e)
{
	return err_set(e, ERR_NOMEM, "out of memory");
}

void err_prefix(struct err *e, const char *fmt, ...)
{
	char joined[ERR_MSG_SIZE];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(joined, sizeof(joined), fmt, ap);
	va_end(ap);
	make_one_line(joined);
	append(joined, sizeof(joined), ": ");
	append(joined, sizeof(joined), e->msg);
	memcpy(e->msg, joined, sizeof(joined));
}

void err_suffix(struct err *e, const char *fmt, ...)
{
	char text[ERR_MSG_SIZE];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	make_one_line(text);
	append(e->msg, sizeof(e->msg), text);
}

int err_is_sys(const struct err *e, int sys_errno)
{
	return e->code == ERR_SYS && e->sys_errno == sys_errno;
}
