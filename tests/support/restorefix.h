/* SPDX-License-Identifier: MIT */
/*
 * restorefix: a datastore in a scratch directory, pushes of archives into it,
 * damage done to it behind its back, and one archive opened to be restored.
 *
 * Messages of the task are kept.  Nothing here but pushing and opening goes
 * through sysio.  The teardown fails the test if it left a descriptor open.
 */
#ifndef CAIRN_TESTS_SUPPORT_RESTOREFIX_H
#define CAIRN_TESTS_SUPPORT_RESTOREFIX_H

#include <limits.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "datastore/base/buf.h"
#include "datastore/datastore.h"
#include "datastore/manifest.h"
#include "datastore/session.h"
#include "datastore/snapshot.h"
#include "index/archive.h"
#include "index/idxformat.h"
#include "tests/support/fault.h"
#include "tests/support/gen.h"
#include "tests/support/test.h"
#include "tests/support/tmpdir.h"

/* Chunks of images, and the average of streams. */
#define RESTOREFIX_CHUNK ((size_t)64 << 10)

struct restorefix {
	struct tmpdir dir;
	char path[PATH_MAX + 8]; /* of the store: dir's "store" */
	struct datastore *ds;    /* open for writing */
	struct task task;
	pthread_mutex_t lock;      /* of the messages */
	struct buf messages;       /* one a line: "W text" */
	pthread_mutex_t told;      /* of what is told, by two at once too */
	char phase[64];            /* of the last progress */
	struct task_progress last; /* without counts and phase */
	bool fell;                 /* progress went back within a phase */
	struct err e;
	size_t fds;

	struct session *session;   /* NULL, or open */
	struct backup_snapshot id; /* of the session, or the last one */

	struct snapshot_hold hold;
	struct manifest manifest;
	struct archive *archive; /* NULL, or open */

	uint8_t *own; /* NULL, or the test's, freed */
	int out;      /* -1, or the test's, closed */
};

int restorefix_setup(void **state);
int restorefix_teardown(void **state);
#define RESTOREFIX_TEST(t)               \
	cmocka_unit_test_setup_teardown( \
	    t, restorefix_setup, restorefix_teardown)

/* n bytes of this kind in f->own, from n as the seed. */
uint8_t *restorefix_bytes(struct restorefix *f, enum gen_kind kind, size_t n);

/* A session of host/a; archives by what their names end with; its end. */
void restorefix_begin(struct restorefix *f);
void restorefix_add(
    struct restorefix *f, const char *filename, const void *p, size_t n);
struct digest restorefix_put(struct restorefix *f, const void *p, size_t n);
/* An index of these entries, whatever they say. */
void restorefix_craft(struct restorefix *f, const char *filename,
    const struct idx_entry *entries, size_t n);
void restorefix_commit(struct restorefix *f);
/* A snapshot of this one archive. */
void restorefix_push(
    struct restorefix *f, const char *filename, const void *p, size_t n);

/* Of f->id; a failure is the result. */
int restorefix_open(struct restorefix *f, const char *archive);
/* Closed, if it is open. */
void restorefix_close(struct restorefix *f);

/* f->out is the file `name` of the scratch directory, open as asked for. */
void restorefix_target(struct restorefix *f, const char *name, int flags);
/* What this file of the scratch directory holds is these bytes. */
void restorefix_assert_file(
    struct restorefix *f, const char *name, const void *p, size_t n);

/* The i-th entry of an index of f->id, and how many it has. */
struct idx_entry restorefix_entry(
    struct restorefix *f, const char *filename, uint64_t i);
uint64_t restorefix_entries(struct restorefix *f, const char *filename);

/* "store/vm/...": relative to f->dir.fd. */
void restorefix_file_path(
    struct restorefix *f, const char *filename, char out[PATH_MAX]);
void restorefix_chunk_path(
    const struct digest *d, const char *suffix, char out[PATH_MAX]);
bool restorefix_has_chunk(
    struct restorefix *f, const struct digest *d, const char *suffix);

/* What may happen to a chunk. */
enum restorefix_spoil {
	SPOIL_MISSING,
	SPOIL_CONTENT,   /* another one, in a sound blob */
	SPOIL_CRC,       /* one bit */
	SPOIL_TRUNCATED, /* to half */
	SPOIL_HEADER,    /* to the header */
	SPOIL_EMPTY,
	SPOIL_ZEROS, /* as long as it was */
	SPOIL_BOMB,  /* a few KiB that expand to 64 MiB */
	SPOIL_HUGE,  /* longer than any chunk; a hole */
	SPOIL_LINK,  /* a symbolic link to the real one */
	SPOIL_KINDS,
};

void restorefix_spoil(
    struct restorefix *f, const struct digest *d, enum restorefix_spoil how);
/* How messages call it: a piece of each. */
const char *restorefix_spoil_text(enum restorefix_spoil how);

/* The damage list: how many lines say so of the digest. */
unsigned restorefix_listed(
    struct restorefix *f, const struct digest *d, const char *word);
/* How many lines it has. */
unsigned restorefix_list_lines(struct restorefix *f);

/* How many messages contain this text. */
unsigned restorefix_said(const struct restorefix *f, const char *text);

#endif
