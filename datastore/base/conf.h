/* SPDX-License-Identifier: MIT */
/*
 * conf: section-style config files, over libinih, with exact line numbers.
 *
 *     [service]
 *     key = value        ; comment
 *     [datastore "main"]
 *
 * This layer knows no key: it hands over section, name, key and value with
 * their line, and turns what the handler says into "file:line: text".
 * Lines longer than 4096 bytes, NUL bytes and other control characters, and
 * invalid UTF-8 are errors, and so are keys before the first heading and files
 * larger than 1 MiB.  A comment begins with ; or # at the start of a line or
 * after a blank.  Blanks at both ends of a line mean nothing: no line goes on
 * in the next one.  Words and keys are of letters, digits, '-', '_' and '.'.
 */
#ifndef CAIRN_DATASTORE_BASE_CONF_H
#define CAIRN_DATASTORE_BASE_CONF_H

#include "datastore/base/err.h"

/* One event: a section heading (key NULL) or a key of it. */
struct conf_item {
	const char *section; /* "datastore" */
	const char *name;    /* "main"; "" where the heading has none */
	const char *key;
	const char *value;
	unsigned line;
};

/*
 * The handler returns ERR_INVALID with a message of its own, to which
 * "file:line: " is put in front; the first one ends the reading.
 */
typedef int (*conf_handler)(
    void *ctx, const struct conf_item *item, struct err *e);

/* ERR_NOTFOUND if there is no such file. */
int conf_read_file(const char *path, conf_handler fn, void *ctx, struct err *e);

#endif
