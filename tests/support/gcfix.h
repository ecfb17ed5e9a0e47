/* SPDX-License-Identifier: MIT */
/*
 * gcfix: a datastore in a scratch directory, opened twice: by garbage
 * collection, and by those that push and forget beside it.
 *
 * Chunks are those of pushfix, known by number.  A run's messages are kept,
 * and its progress is a stop point: `at` is called with each state, in the
 * thread of the run, and may push, forget and the like through f->ds.
 */
#ifndef CAIRN_TESTS_SUPPORT_GCFIX_H
#define CAIRN_TESTS_SUPPORT_GCFIX_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "datastore/base/buf.h"
#include "gc/gc.h"
#include "tests/support/fault.h"
#include "tests/support/pushfix.h"
#include "tests/support/test.h"
#include "tests/support/tmpdir.h"

#define GCFIX_T0 1800000000 /* 2027-01-15T08:00:00Z */
#define GCFIX_T0_NAME "2027-01-15T08:00:00Z"
#define GCFIX_T1_NAME "2027-01-15T08:00:01Z"
#define GCFIX_T2_NAME "2027-01-15T08:00:02Z"

#define GCFIX_HOUR INT64_C(3600)
#define GCFIX_DAY INT64_C(86400)

/* A margin without the wait of 6 s; what was aged is older. */
#define GCFIX_CUTOFF 5U

struct gcfix;

/* Where a run is. */
enum gcfix_point {
	GCFIX_LISTED,  /* a listing shows files that are not read yet */
	GCFIX_READING, /* some references were read */
	GCFIX_MARKED,  /* mark is done */
	GCFIX_SWEEP,   /* a prefix is to be swept: f->prefix */
};

struct gcfix {
	struct tmpdir dir;
	char path[PATH_MAX + 8]; /* of the store: dir's "store" */
	struct datastore *gc;
	struct datastore *ds;
	struct task task;    /* of the run */
	struct task other;   /* of everyone else */
	struct buf messages; /* of the run, one a line: "W text" */
	struct gc_opts opts;
	struct gc_result r;
	struct err e;
	size_t fds;

	void (*at)(struct gcfix *f, enum gcfix_point point);
	unsigned listings; /* that showed something, in this run */
	bool unread;       /* files that the last one showed */
	uint64_t prefix;
	struct task_progress last; /* without counts */
	unsigned last_percent;
	bool fell;      /* progress went back */
	unsigned marks; /* times that the phase mark began */
	unsigned sweeps;
	struct backup_snapshot s0; /* for hooks */
	struct session *session;
	void *own;
};

/* *state is a struct gcfix, both datastores open, cutoff GCFIX_CUTOFF. */
int gcfix_setup(void **state);
int gcfix_teardown(void **state);
#define GCFIX_TEST(t) \
	cmocka_unit_test_setup_teardown(t, gcfix_setup, gcfix_teardown)

/* Run with f->opts; f->r and f->e are its. */
int gcfix_run(struct gcfix *f);
/* It must succeed. */
#define gcfix_collect(f) assert_ok(gcfix_run(f), &(f)->e)

/* Push; it must succeed. */
struct backup_snapshot gcfix_push(struct gcfix *f, const struct pushfix *p);
/* n chunks of a group, from `first` on. */
struct backup_snapshot gcfix_push_new(struct gcfix *f, const char *group,
    int64_t time, unsigned first, unsigned n);
void gcfix_forget(struct gcfix *f, const struct backup_snapshot *s);

/* All chunks and .bad files: last used so many seconds ago. */
void gcfix_age(struct gcfix *f, int64_t seconds);
void gcfix_age_chunk(struct gcfix *f, unsigned number, int64_t seconds);

/* How many of the chunks first .. first + n - 1 are there. */
unsigned gcfix_have(struct gcfix *f, unsigned first, unsigned n);
/* "store/.chunks/abcd/abcd...<suffix>": relative to f->dir.fd. */
void gcfix_chunk_path(unsigned number, const char *suffix, char out[PATH_MAX]);
void gcfix_remove_chunk(struct gcfix *f, unsigned number);

/* Every finished snapshot is whole; how many there are. */
size_t gcfix_check(struct gcfix *f);

/* A text about every file and directory of the store: type, mode, owner,
 * size, links, inode, all times.  To be freed. */
char *gcfix_describe(struct gcfix *f);
/* Two such texts are the same; frees both. */
void gcfix_assert_same(char *before, char *after);

/* Behind the store's back, as rm would; must work. */
void gcfix_unlink(struct gcfix *f, const char *name);
void gcfix_rmdir(struct gcfix *f, const char *name);
void gcfix_mkdir(struct gcfix *f, const char *name); /* with parents */
bool gcfix_exists(struct gcfix *f, const char *name);
/* The whole directory. */
void gcfix_remove_tree(struct gcfix *f, const char *name);
/* An index file of so many chunks from `first` on; at any place. */
void gcfix_put_index(
    struct gcfix *f, const char *name, unsigned first, unsigned n);

/* The messages of the run contain this text so many times. */
unsigned gcfix_said(const struct gcfix *f, const char *text);

/*
 * fault_install, with a clock for what passes that runs ahead when somebody
 * sleeps, so that nobody waits; and these hooks, which may be NULL.
 * gcfix_teardown ends it.
 */
void gcfix_fast(const struct fault_hooks *also);

#endif
