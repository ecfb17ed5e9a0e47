/* SPDX-License-Identifier: MIT */
/*
 * entry: an entry of a catalog, as a line and as JSON.
 *
 * Lines: names with control characters quoted and a newline, or, with -0, as
 * they are and a zero byte.  JSON: one object
 *     {"path": "etc/passwd", "kind": "file", "mode": "0644", "uid": 0,
 *      "user": "root", "gid": 0, "group": "root", "nlink": 1, "size": 1234,
 *      "mtime": "2026-11-30T12:00:00Z", "mtime-s": 1796040000,
 *      "mtime-ns": 0, "sha256": "..."}
 * and, where there are any, "rdev" (of devices, "MAJOR:MINOR"), "target",
 * "link" (the same number for names of one file), "flags", "state" (a list of
 * "changed", "short", "unreadable"), "earlier" (true: a tar has a later member
 * of this name).  What is not known is left out.  Names that are no UTF-8 have
 * a second key, as in "path-hex".
 */
#ifndef CAIRN_CLI_ENTRY_H
#define CAIRN_CLI_ENTRY_H

#include <stdbool.h>

#include "cli/output.h"
#include "datastore/base/buf.h"
#include "datastore/base/err.h"
#include "datastore/base/json.h"
#include "index/catalog.h"

/* Names of users and groups, as they were met. */
#define ENTRY_ACCOUNTS 64U
struct entry_account {
	bool used;
	bool found;
	uint32_t id;
	struct buf name;
};

enum entry_form {
	ENTRY_LINES,
	ENTRY_ZEROS, /* -0 */
	ENTRY_JSON,
};

/* What entries are printed by; all zeros but `form` and `details`. */
struct entry_printer {
	enum entry_form form;
	bool details; /* -l */
	struct output_array array;
	struct buf line;
	struct entry_account accounts[2][ENTRY_ACCOUNTS];
};

struct invocation;

/* By --json and --null, which exclude each other. */
int entry_form_parse(
    const struct invocation *inv, enum entry_form *ret, struct err *e);
/* The same, and --long where the command has it. */
int entry_printer_init(
    struct entry_printer *p, const struct invocation *inv, struct err *e);
void entry_printer_release(struct entry_printer *p);
/* Names of accounts are those of one catalog: before the next. */
void entry_printer_forget(struct entry_printer *p);

int entry_begin(struct entry_printer *p, struct err *e);
int entry_end(struct entry_printer *p, struct err *e);

/* One entry of what is listed. */
struct entry_shown {
	const char *archive;        /* NULL: there is one only */
	struct catalog_bytes path;  /* of JSON */
	struct catalog_bytes label; /* of lines: the name or the path */
	bool earlier;
};
int entry_print(struct entry_printer *p, struct catalog *c,
    const struct entry_shown *shown, const struct catalog_entry *entry,
    struct err *e);

/* The bytes of a word, and of a buffer. */
struct catalog_bytes entry_typed(const char *s);
struct catalog_bytes entry_bytes(const struct buf *b);

/* A path of the catalog as typed: without empty components and ".". */
int entry_clean_path(const char *typed, struct buf *out, struct err *e);
/* out becomes "dir/name", or "name" in the root (dir is ""). */
int entry_join(struct buf *out, struct catalog_bytes dir,
    struct catalog_bytes name, struct err *e);

#endif
