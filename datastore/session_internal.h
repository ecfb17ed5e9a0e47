/* SPDX-License-Identifier: MIT */
/*
 * session_internal: a session from the inside, for session*.c.
 */
#ifndef CAIRN_DATASTORE_SESSION_INTERNAL_H
#define CAIRN_DATASTORE_SESSION_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/stat.h>

#include "datastore/base/file.h"
#include "datastore/cairndir.h"
#include "datastore/damage.h"
#include "datastore/digestset.h"
#include "datastore/manifest.h"
#include "datastore/registration.h"
#include "datastore/session.h"

/* A file of the snapshot: `tmp` until it is published, then `name`. */
struct session_file {
	char *tmp;
	char *name;
	uint64_t size;
	struct digest csum;
};

/* An index file of the base, as it was when it was read. */
struct session_base_file {
	char *name;
	struct statx st;
};

/*
 * What a session holds, in the order in which it takes it; session_release
 * goes by these fields, so that it serves a session of any age.
 *
 * `mutex` guards what is behind it; everything else belongs to the thread
 * that opened the session, or does not change while chunks are put.
 */
struct session {
	struct datastore *ds;
	struct task *task;
	struct session_opts opts; /* its strings are ours, see below */
	struct backup_snapshot id;
	struct backup_snapshot base; /* if opts.base != NULL, that is &base */
	char *command;
	char *notes;

	bool byte0;
	bool waiting_set; /* the store tells us whom it waits for */
	bool made_group;  /* it was not there before */
	int group_fd;     /* locked exclusively */
	struct registration *registration;
	struct damage *damage;
	int base_fd;   /* share-locked */
	bool may_have; /* a directory of our name may have been made by us */
	int dir_fd;    /* it, locked exclusively */
	bool tree;     /* the tree lock, shared */

	struct session_file *files;
	size_t files_n;
	struct session_base_file *base_files;
	size_t base_files_n;

	atomic_uint_fast64_t chunks;
	atomic_uint_fast64_t new_chunks;
	atomic_uint_fast64_t bytes;
	atomic_uint_fast64_t new_bytes;
	atomic_uint_fast64_t stored_bytes;

	pthread_mutex_t mutex;
	struct digestset healed; /* on the damage list, stored anew by us */
	struct digestset seen;   /* dry run: what would have been stored */
	int64_t space_looked;    /* CLOCK_BOOTTIME of the last look */
};

/* "<datastore>/<snapshot>/<name>"; name may be "". */
const char *session_shown(
    const struct session *s, const char *name, char out[CAIRNDIR_SHOWN]);

/* The last component of the snapshot's path: its time. */
void session_dir_name(const struct session *s, char out[BACKUP_TIME_SIZE]);

/*
 * Remove what the session made: its directory, under the tree lock, and its
 * group's if that is empty and was made by it.  False if it could not: then
 * the registration has to stay behind, for the next cleaner.
 */
bool session_withdraw(struct session *s);

/* Step 11, and the memory.  leave: the registration stays, dead. */
void session_release(struct session *s, bool leave);

#endif
