/* SPDX-License-Identifier: MIT */
/*
 * output: data to stdout: tables, JSON, raw bytes; every failure is seen.
 *
 * A full disk or a closed pipe behind stdout must not look like success: all
 * output goes through these functions and output_flush, once, at the end.
 */
#ifndef CAIRN_CLI_OUTPUT_H
#define CAIRN_CLI_OUTPUT_H

#include <stddef.h>

#include "datastore/base/buf.h"
#include "datastore/base/err.h"
#include "datastore/base/json.h"

/* Text to stdout, buffered. */
int output_text(struct err *e, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* Bytes as they are. */
int output_bytes(const void *p, size_t n, struct err *e);
int output_flush(struct err *e);

/*
 * A document or element begins: js_* functions remember a failure in *e and
 * are looked at once, so *e must not hold what a step that went well met on
 * its way (a directory that may be missing).
 */
void output_json_begin(struct err *e);

/* One JSON document and a newline; frees v (NULL: *e is set already). */
int output_json(struct js *v, struct err *e);

/*
 * One JSON document that is an array, element by element, one a line: for
 * listings too long to be held.  Where it breaks off it is no JSON.
 */
struct output_array {
	size_t n;
};
int output_array_begin(struct output_array *a, struct err *e);
/* Frees v (NULL: *e is set already). */
int output_array_add(struct output_array *a, struct js *v, struct err *e);
int output_array_end(struct output_array *a, struct err *e);

/*
 * A table: cells are text, columns as wide as their widest cell, two blanks
 * between; columns named in `right` (a string of 'l' and 'r') are aligned to
 * the right.  The heading is shown only if there are rows.
 */
struct table;
int table_new(const char *align, const char *const *heading, struct table **ret,
    struct err *e);
void table_free(struct table *t);
int table_cell(struct table *t, struct err *e, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
int table_print(const struct table *t, struct err *e);

#endif
