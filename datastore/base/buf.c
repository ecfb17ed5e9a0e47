/* SPDX-License-Identifier: MIT */
#include "datastore/base/buf.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CAP_MIN 64

void buf_release(struct buf *b)
{
	if (b == NULL)
		return;
	free(b->data);
	*b = (struct buf)BUF_INIT;
}

void buf_reset(struct buf *b)
{
	b->len = 0;
}

int buf_reserve(struct buf *b, size_t n, struct err *e)
{
	uint8_t *data = NULL;
	size_t want = 0;
	size_t cap = 0;

	if (n <= b->cap - b->len)
		return 0;
	/* Objects above PTRDIFF_MAX break pointer differences. */
	if (__builtin_add_overflow(b->len, n, &want) || want > PTRDIFF_MAX)
		return err_nomem(e);
	cap = b->cap <= PTRDIFF_MAX / 2 ? b->cap * 2 : PTRDIFF_MAX;
	if (cap < want)
		cap = want;
	if (cap < CAP_MIN)
		cap = CAP_MIN;
	data = realloc(b->data, cap);
	if (data == NULL)
		return err_nomem(e);
	b->data = data;
	b->cap = cap;
	return 0;
}

int buf_append(struct buf *b, const void *p, size_t n, struct err *e)
{
	int rc = buf_reserve(b, n, e);

	if (rc < 0)
		return rc;
	if (n > 0)
		memcpy(b->data + b->len, p, n);
	b->len += n;
	return 0;
}

int buf_append_str(struct buf *b, const char *s, struct err *e)
{
	return buf_append(b, s, strlen(s), e);
}

/* -1 as vsnprintf; otherwise the length without NUL, written or not. */
__attribute__((format(printf, 2, 0))) static int print_behind(
    struct buf *b, const char *fmt, va_list ap)
{
	size_t room = b->cap - b->len;
	char none[1];

	if (room == 0)
		return vsnprintf(none, sizeof(none), fmt, ap);
	return vsnprintf((char *)b->data + b->len, room, fmt, ap);
}

int buf_append_fmt(struct buf *b, struct err *e, const char *fmt, ...)
{
	va_list ap;
	int len = 0;
	int rc = 0;

	va_start(ap, fmt);
	len = print_behind(b, fmt, ap);
	va_end(ap);
	if (len < 0)
		return err_set(e, ERR_LIMIT, "formatted text is too long");
	if ((size_t)len >= b->cap - b->len) {
		rc = buf_reserve(b, (size_t)len + 1, e);
		if (rc < 0)
			return rc;
		va_start(ap, fmt);
		len = print_behind(b, fmt, ap);
		va_end(ap);
	}
	b->len += (size_t)len;
	return 0;
}

const char *buf_cstr(struct buf *b, struct err *e)
{
	if (buf_reserve(b, 1, e) < 0)
		return NULL;
	b->data[b->len] = 0;
	return (const char *)b->data;
}

char *buf_detach_str(struct buf *b, struct err *e)
{
	char *s = NULL;

	if (buf_cstr(b, e) == NULL)
		return NULL;
	s = (char *)b->data;
	*b = (struct buf)BUF_INIT;
	return s;
}
