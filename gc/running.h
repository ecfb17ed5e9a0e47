/* SPDX-License-Identifier: MIT */
/*
 * running: the lock of a run, and who holds it.
 *
 * Byte 1 of `.lock`, exclusive, for the whole run; `.cairn/gc.running`, if it
 * is there, is filled in place (locks_gc_announce), so that those who wait can
 * say for whom.
 */
#ifndef CAIRN_GC_RUNNING_H
#define CAIRN_GC_RUNNING_H

#include <stdbool.h>
#include <stddef.h>

#include "datastore/base/err.h"
#include "datastore/datastore.h"

#define RUNNING_WHO_SIZE 256

/* ERR_BUSY says who runs: another GC, or a program that locks like PBS. */
int running_begin(struct datastore *ds, struct err *e);
void running_end(struct datastore *ds);

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

#endif
