/* SPDX-License-Identifier: MIT */
/*
 * running: the lock of a run, and who holds it.
 *
 * Byte 1 of `.lock`, exclusive, for the whole run; `.cairn/gc.running`, if it
 * is there, is filled in place with JSON (host, machine-id, pid, start), so
 * that those who wait can say for whom.
 */
#ifndef CAIRN_GC_RUNNING_H
#define CAIRN_GC_RUNNING_H

#include "datastore/base/err.h"
#include "datastore/datastore.h"

/* ERR_BUSY says who runs: another GC, or PBS. */
int running_begin(struct datastore *ds, struct err *e);
void running_end(struct datastore *ds);

#endif
