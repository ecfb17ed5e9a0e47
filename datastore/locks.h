/* SPDX-License-Identifier: MIT */
/*
 * locks: what each byte of `.lock` means, and the orders they are taken in.
 *
 * | byte          | who                                    | how          |
 * |---------------|----------------------------------------|--------------|
 * | 0             | session                                | shared       |
 * | 1             | GC, for the whole run                  | exclusive    |
 * | 2 tree lock   | publish, forget, prune                 | shared       |
 * |               | GC while it lists                      | exclusive    |
 * | 3 prune lock  | forget                                 | shared       |
 * |               | prune, one group at a time             | exclusive    |
 * |               | GC from the 4th round of listing       | exclusive    |
 * | 16 + N        | one touch or insert in prefix N        | shared       |
 * |               | look again and unlink or rename        | exclusive    |
 * | 2^32 + random | every writer but GC, a byte of its own | exclusive    |
 *
 * PBS locks the whole file: shared for writers, exclusive for GC; so cairn's
 * writers and GC exclude PBS's writers and GC.
 *
 * Order: byte 0 and own byte, prune, group, base, snapshot (pathlock.h; these
 * three are never waited for), tree, prefix (one at a time).
 */
#ifndef CAIRN_DATASTORE_LOCKS_H
#define CAIRN_DATASTORE_LOCKS_H

#include "datastore/base/err.h"
#include "datastore/base/lockfile.h"
#include "datastore/base/task.h"
#include "datastore/datastore.h"

#define LOCK_BYTE_SESSION 0U
#define LOCK_BYTE_GC 1U
#define LOCK_BYTE_TREE 2U
#define LOCK_BYTE_PRUNE 3U
#define LOCK_BYTE_PREFIX 16U
#define LOCK_BYTE_OWN (1ULL << 32)

/*
 * Take the tree or prune lock shared, waiting as long as GC lists; after 5 s
 * a message says who holds it (from .cairn/gc.running), naming `what` waits.
 */
int locks_wait_shared(struct datastore *ds, uint64_t byte, const char *what,
    struct task *task, struct err *e);
/*
 * Prune: the prune lock exclusively, however long it takes, so that nobody
 * removes what a policy counts on while it is carried out.
 */
int locks_wait_prune(struct datastore *ds, struct task *task, struct err *e);
/* GC: exclusive, at most timeout_ms; ERR_BUSY names the sessions. */
int locks_wait_exclusive(struct datastore *ds, uint64_t byte,
    uint64_t timeout_ms, const char *what, struct task *task, struct err *e);
void locks_release(struct datastore *ds, uint64_t byte, enum lock_mode mode);

/*
 * Who runs GC, as text: "host web1, pid 42, since 2026-11-30T12:00:00Z", or
 * "unknown" where .cairn/gc.running (gcrunning.h) does not tell.  Returns out.
 */
const char *locks_gc_holder(const struct datastore *ds, char *out, size_t size);

#endif
