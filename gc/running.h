/* SPDX-License-Identifier: MIT */
/*
 * running: the lock of a run, who holds it, and how far he is.
 *
 * Byte 1 of `.lock`, exclusive, for the whole run; `.cairn/gc.running`, if it
 * is there, is written in place (gcrunning.h), so that those who wait can say
 * for whom, and those who look how far he is and how he ended.  Failing to
 * write it is never a reason for anything.
 */
#ifndef CAIRN_GC_RUNNING_H
#define CAIRN_GC_RUNNING_H

#include <stdbool.h>
#include <stddef.h>

#include "datastore/base/err.h"
#include "datastore/base/task.h"
#include "datastore/datastore.h"
#include "datastore/gcrunning.h"

#define RUNNING_WHO_SIZE 256

/* One run's own. */
struct running {
	int fd; /* of gc.running; -1: there is none */
	struct gcrunning now;
	int64_t written_ns; /* when now was written, of CLOCK_BOOTTIME */
	/* What the one before left, if he did not say how he ended. */
	struct gcrunning before;
	bool found_dead;
};
#define RUNNING_INIT     \
	{                \
		.fd = -1 \
	}

/* ERR_BUSY says who runs: another GC, or a program that locks like PBS. */
int running_begin(struct datastore *ds, struct running *r, struct err *e);
/* Written at most once a second, and where a phase begins or ends. */
void running_progress(
    struct datastore *ds, struct running *r, const struct task_progress *p);
/* How it ended is in r->now: state, ended, why, figures. */
void running_end(struct datastore *ds, struct running *r);

/*
 * Does anybody hold what a GC holds, and who is it?  Asks through a
 * description of its own, so that a datastore opened for reading will do,
 * and this process's own run is seen, too.
 */
int running_who(
    struct datastore *ds, bool *ret, char *who, size_t size, struct err *e);

/*
 * Is a backup being made, by a session of cairn or by a program that locks
 * like PBS?  Asks likewise.
 */
int running_backup(struct datastore *ds, bool *ret, struct err *e);

/* Does a cairn hold this byte of `.lock`, exclusively?  Asks likewise. */
int running_holds(
    struct datastore *ds, uint64_t byte, bool *ret, struct err *e);

#endif
