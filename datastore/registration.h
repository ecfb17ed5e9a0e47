/* SPDX-License-Identifier: MIT */
/*
 * registration: how a session makes itself known to garbage collection (I3).
 *
 * `.cairn/sessions/UUID` is JSON of one line, locked whole (exclusive OFD
 * lock) by its session for its life: host, machine-id, boot-id, pid, command,
 * group, snapshot (its directory), start.  It is written and locked under the
 * name `.UUID.tmp`, then linked to its name: whoever sees it sees it whole.
 *
 * `start` is the lowest file time that the session has seen, in nanoseconds,
 * fixed width, rewritten in place by one pwrite.  GC removes nothing that was
 * last used after the lowest start of all live registrations less 5 s.
 *
 * A registration is dead if its lock can be taken and it is of this machine
 * or has not been touched for 24 h of file time.
 */
#ifndef CAIRN_DATASTORE_REGISTRATION_H
#define CAIRN_DATASTORE_REGISTRATION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "datastore/backupid.h"
#include "datastore/base/clock.h"
#include "datastore/base/err.h"
#include "datastore/datastore.h"

struct registration;

#define REGISTRATION_HOST_SIZE 65

struct registration_info {
	char uuid[DATASTORE_ID_SIZE];
	char host[REGISTRATION_HOST_SIZE];
	char machine_id[DATASTORE_ID_SIZE];
	char boot_id[DATASTORE_ID_SIZE];
	int64_t pid;
	char command[128];
	char group[BACKUP_PATH_SIZE];    /* directory below the root */
	char snapshot[BACKUP_PATH_SIZE]; /* directory below the root, or "" */
	filetime start;
	bool live;
	bool damaged; /* unreadable content: live, start unknown (INT64_MIN) */
};

/* The name and the id by which this machine is known in `.cairn`. */
void registration_this_machine(
    char host[REGISTRATION_HOST_SIZE], char machine_id[DATASTORE_ID_SIZE]);

/* command: what is run, for people ("push"). */
int registration_new(struct datastore *ds, const char *command,
    const struct backup_group *group, struct registration **ret, struct err *e);

/* Name the snapshot directory, before it is made. */
int registration_set_snapshot(
    struct registration *r, const struct backup_snapshot *s, struct err *e);

/*
 * Touch the registration, read its time back, lower `start` if that is
 * smaller: before each batch of touches and at least once a minute.  Cheap to
 * call per chunk: does nothing if the last one is less than a second old and
 * the system's clock has not lost a second since.
 * Thread-safe.
 */
int registration_beat(struct registration *r, struct err *e);

/*
 * A beat says nothing of a clock that is set back behind it.  So: take
 * registration_ahead, beat, touch, and ask if the clock has lost since; if it
 * has, all of it once more, for the touch may have a time before `start`, and
 * what was touched may be gone.
 */
int64_t registration_ahead(void); /* of the system's clock, to what passes */
bool registration_has_lost(int64_t ahead);

/*
 * Is it still there, under its name, readable through the locked descriptor?
 * If not: ERR_BUSY; the session must withdraw.
 */
int registration_check(struct registration *r, struct err *e);

/* Unlink, then drop the lock. NULL is allowed. */
void registration_free(struct registration *r);

/*
 * Drop the lock and leave the file, which is dead from now on: the next
 * cleaner removes the snapshot that it names, which the session could not.
 * NULL is allowed.
 */
void registration_abandon(struct registration *r);

/*
 * Who that is, for people: "push of host/a (host web1, pid 42, since TIME)"; of
 * one that is dead, "begun TIME".
 */
#define REGISTRATION_TEXT_SIZE 512
const char *registration_text(
    const struct registration_info *info, char out[REGISTRATION_TEXT_SIZE]);
/*
 * The same of a live one of this group, a path as in its registration; false:
 * none is known, and out is as it was.
 */
bool registration_of_group(
    struct datastore *ds, const char *group, char out[REGISTRATION_TEXT_SIZE]);

/*
 * All registrations, the dead too.  Entries that vanish are passed over; one
 * that can not be parsed but is locked is live and `damaged`.
 */
struct registration_list {
	struct registration_info *items;
	size_t n;
};
/* ret is filled on success only, and then to be released. */
int registration_list(
    struct datastore *ds, struct registration_list *ret, struct err *e);
void registration_list_release(struct registration_list *l);

/*
 * Remove a dead one: locks it, compares inodes, calls fn with what it names
 * while the lock is held (the cleaner removes the unfinished snapshot there),
 * then unlinks it.  *ret_done false: it is not dead, or gone.
 */
int registration_bury(struct datastore *ds, const char *uuid,
    int (*fn)(void *ctx, const struct registration_info *info, struct err *e),
    void *ctx, bool *ret_done, struct err *e);

/*
 * Remove what sessions left that died before their registration had its name
 * (`.UUID.tmp`): those that are dead by the rule above.
 */
int registration_bury_unborn(
    struct datastore *ds, size_t *ret_n, struct err *e);

#endif
