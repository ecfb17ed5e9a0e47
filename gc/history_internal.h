/* SPDX-License-Identifier: MIT */
/*
 * history_internal: what the files of history share.
 *
 *     history.c       the file, its lock, its schema; what is written
 *     history_log.c   files that were removed, within bounds
 *     history_read.c  what is read
 *     history_sql.c   SQLite's calls with cairn's errors
 */
#ifndef CAIRN_GC_HISTORY_INTERNAL_H
#define CAIRN_GC_HISTORY_INTERNAL_H

#include <signal.h>
#include <sqlite3.h>

#include "gc/history.h"
#include "gc/history_vfs.h"

#define HISTORY_SHOWN 1536
#define HISTORY_PAGE 4096

struct history {
	struct datastore *ds;
	struct task *task;
	bool writing;
	bool hot; /* its writer was killed: who only reads can not mend that */
	sigset_t signals; /* blocked before it was opened for writing */
	int64_t wait_ns;  /* for the lock */
	int dirfd;
	int fd;
	char shown[HISTORY_SHOWN];
	struct history_vfs *vfs;
	sqlite3 *db;
	uint64_t ticks; /* of the step that runs */
	uint64_t bytes_max;
	uint64_t runs_max;
};

/* history_sql.c */

/* Connect; h's descriptors are open and locked. */
int history_sql_open(struct history *h, struct err *e);
void history_sql_close(struct history *h);
int history_sql_fail(struct history *h, int code, struct err *e);
int history_sql_exec(struct history *h, const char *sql, struct err *e);

/* A value for a statement. */
struct history_value {
	const char *text; /* or NULL: */
	const void *blob; /* or NULL: */
	size_t n;
	int64_t number;
	bool null;
};
int history_sql_prepare(
    struct history *h, const char *sql, sqlite3_stmt **ret, struct err *e);
int history_sql_bind(struct history *h, sqlite3_stmt *stmt,
    const struct history_value *v, size_t n, struct err *e);
int history_sql_step(
    struct history *h, sqlite3_stmt *stmt, bool *ret_row, struct err *e);
/* Prepare, bind, run to the end; *ret (may be NULL): the first number. */
int history_sql_run(struct history *h, const char *sql,
    const struct history_value *v, size_t n, int64_t *ret, struct err *e);

/* The first number that this gives. */
int history_number(
    struct history *h, const char *sql, int64_t *ret, struct err *e);

/* What the columns hold of u64: figures beyond are cut. */
static inline struct history_value history_unsigned_value(uint64_t n)
{
	return (struct history_value){
		.number = n > INT64_MAX ? INT64_MAX : (int64_t)n,
	};
}

static inline struct history_value history_text_value(const char *s)
{
	return (struct history_value){ .text = s };
}

static inline struct history_value history_time_value(int64_t t)
{
	return (struct history_value){ .number = t, .null = t == 0 };
}

int history_begin(struct history *h, struct err *e);
/* Commit if rc is 0, else roll back; returns rc or why it failed. */
int history_finish(struct history *h, int rc, struct err *e);

/* history_read.c: a row of `select HISTORY_COLUMNS from run`. */
#define HISTORY_COLUMNS                                                         \
	"id, kind, result, started, ended, host, machine, pid, lock, removed, " \
	"freed, unlogged, why"
int history_row(struct history *h, sqlite3_stmt *stmt, struct history_run *ret,
    struct err *e);
/* Does it run?  Only for those that say so. */
int history_is_alive(
    struct history *h, const struct history_run *r, bool *ret, struct err *e);

#endif
