/* SPDX-License-Identifier: MIT */
/*
 * exclude: which paths a push leaves out: patterns in gitignore's syntax.
 *
 * Relative to the root of the tree: "*.o" anywhere, "/tmp" at the root only,
 * "cache/" directories only, "a/" "**" "/b" any depth between, "!keep" takes
 * back what an earlier pattern left out, "#" begins a comment, "\" quotes.  The
 * last pattern that matches decides.  What lies in a directory that is left
 * out is never looked at, so it can not be taken back.  The table of cases is
 * in etc/doc/excluding.md and a test runs it.
 */
#ifndef CAIRN_INDEX_EXCLUDE_H
#define CAIRN_INDEX_EXCLUDE_H

#include <stdbool.h>
#include <stddef.h>

#include "datastore/base/err.h"

struct exclude;

int exclude_new(struct exclude **ret, struct err *e);
void exclude_free(struct exclude *x); /* NULL is allowed */

/* One pattern, a line without its end; empty and comment lines do nothing. */
int exclude_add(
    struct exclude *x, const char *pattern, size_t n, struct err *e);
/* Each line of a file; ERR_INVALID with file:line where one is malformed. */
int exclude_add_file(struct exclude *x, const char *path, struct err *e);

/* path: relative to the root, n bytes, any but zero bytes. */
bool exclude_match(
    const struct exclude *x, const char *path, size_t n, bool is_dir);

#endif
