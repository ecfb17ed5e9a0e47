/* SPDX-License-Identifier: MIT */
#include "cli/output.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int failed(struct err *e)
{
	return err_sys(e, "standard output");
}

int output_text(struct err *e, const char *fmt, ...)
{
	va_list ap;
	int n = 0;

	va_start(ap, fmt);
	n = vprintf(fmt, ap);
	va_end(ap);
	return n < 0 ? failed(e) : 0;
}

int output_bytes(const void *p, size_t n, struct err *e)
{
	return fwrite(p, 1, n, stdout) == n ? 0 : failed(e);
}

int output_flush(struct err *e)
{
	if (fflush(stdout) != 0 || ferror(stdout) != 0)
		return failed(e);
	return 0;
}

void output_json_begin(struct err *e)
{
	static const struct err none = ERR_INIT;

	*e = none;
}

int output_json(struct js *v, struct err *e)
{
	struct buf text = BUF_INIT;
	int rc = 0;

	rc = js_dump(v, JS_PRETTY, &text, e);
	if (rc == 0)
		rc = buf_append(&text, "\n", 1, e);
	if (rc == 0)
		rc = output_bytes(text.data, text.len, e);
	js_free(v);
	buf_release(&text);
	return rc;
}

int output_array_begin(struct output_array *a, struct err *e)
{
	a->n = 0;
	return output_text(e, "[");
}

int output_array_add(struct output_array *a, struct js *v, struct err *e)
{
	struct buf text = BUF_INIT;
	int rc = js_dump(v, JS_COMPACT, &text, e);

	if (rc == 0)
		rc = output_text(e, "%s\n  ", a->n > 0 ? "," : "");
	if (rc == 0)
		rc = output_bytes(text.data, text.len, e);
	a->n++;
	js_free(v);
	buf_release(&text);
	return rc;
}

int output_array_end(struct output_array *a, struct err *e)
{
	return output_text(e, "%s]\n", a->n > 0 ? "\n" : "");
}

struct table {
	char *align;
	const char *const *heading;
	size_t columns;
	char **cells;
	size_t n;
	size_t cap;
};

int table_new(const char *align, const char *const *heading, struct table **ret,
    struct err *e)
{
	struct table *t = calloc(1, sizeof(*t));

	if (t == NULL)
		return err_nomem(e);
	t->align = strdup(align);
	if (t->align == NULL) {
		free(t);
		return err_nomem(e);
	}
	t->heading = heading;
	t->columns = strlen(align);
	*ret = t;
	return 0;
}

void table_free(struct table *t)
{
	if (t == NULL)
		return;
	for (size_t i = 0; i < t->n; i++)
		free(t->cells[i]);
	free(t->cells);
	free(t->align);
	free(t);
}

int table_cell(struct table *t, struct err *e, const char *fmt, ...)
{
	va_list ap;
	int n = 0;

	if (t->n == t->cap) {
		size_t cap = t->cap == 0 ? 64 : t->cap * 2;
		char **grown = reallocarray(t->cells, cap, sizeof(*grown));

		if (grown == NULL)
			return err_nomem(e);
		t->cells = grown;
		t->cap = cap;
	}
	va_start(ap, fmt);
	n = vasprintf(&t->cells[t->n], fmt, ap);
	va_end(ap);
	if (n < 0)
		return err_nomem(e);
	t->n++;
	return 0;
}

/* Columns a terminal uses: code points of UTF-8, near enough for names. */
static size_t width(const char *s)
{
	size_t n = 0;

	for (; *s != '\0'; s++)
		n += ((unsigned char)*s & 0xc0U) != 0x80U;
	return n;
}

static size_t column_width(const struct table *t, size_t column)
{
	size_t most = width(t->heading[column]);

	for (size_t i = column; i < t->n; i += t->columns) {
		size_t w = width(t->cells[i]);

		if (w > most)
			most = w;
	}
	return most;
}

/* A cell behind the blanks that are due; none stand at the end of a line. */
static int print_cell(const char *s, int *blanks, struct err *e)
{
	int rc = 0;

	if (s[0] == '\0')
		return 0;
	rc = output_text(e, "%*s%s", *blanks, "", s);
	*blanks = 0;
	return rc;
}

static int print_row(const struct table *t, char *const *cells,
    const char *const *heading, const size_t *widths, struct err *e)
{
	int blanks = 0;
	int rc = 0;

	for (size_t c = 0; c < t->columns && rc == 0; c++) {
		const char *s = heading != NULL ? heading[c] : cells[c];
		int pad = (int)(widths[c] - width(s));

		if (t->align[c] == 'r')
			blanks += pad;
		rc = print_cell(s, &blanks, e);
		if (t->align[c] != 'r')
			blanks += pad;
		blanks += 2;
	}
	return rc == 0 ? output_text(e, "\n") : rc;
}

int table_print(const struct table *t, struct err *e)
{
	size_t *widths = NULL;
	int rc = 0;

	if (t->n == 0)
		return 0;
	widths = calloc(t->columns, sizeof(*widths));
	if (widths == NULL)
		return err_nomem(e);
	for (size_t c = 0; c < t->columns; c++)
		widths[c] = column_width(t, c);
	rc = print_row(t, NULL, t->heading, widths, e);
	for (size_t i = 0; i + t->columns <= t->n && rc == 0; i += t->columns)
		rc = print_row(t, t->cells + i, NULL, widths, e);
	free(widths);
	return rc;
}
