/* SPDX-License-Identifier: MIT */
/*
 * gc: garbage collection, one whole run.
 *
 * Mark: read every index file and touch every chunk it references.  Sweep:
 * remove the chunks that were last used before the cutoff.  Backups go on
 * meanwhile.  etc/doc/gc-safety.md argues why nothing that is needed goes:
 * assumptions A1 to A3, invariants I1 to I12.
 *
 * Order of a run (I6), once: byte 1; gc.running; probes of locks and access
 * times; start of mark; dead registrations removed, live ones read; cutoff;
 * first listing; probe of the first chunk touched.  Then rounds of listing
 * and marking until nothing is unread and nothing vanished unread; A2,
 * canaries, vanished roots; sweep; roots, status.
 */
#ifndef CAIRN_GC_GC_H
#define CAIRN_GC_GC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "datastore/backupid.h"
#include "datastore/base/clock.h"
#include "datastore/base/err.h"
#include "datastore/base/task.h"
#include "datastore/datastore.h"

struct gc_opts {
	bool dry_run;
	bool accept_missing;
	bool index; /* use the chunk index, and keep it */
	bool full;  /* touch everything and read all directories all the same */
	uint32_t touch_batch; /* GC_TOUCH_BATCH_OFF or MIN..MAX */
	uint64_t cutoff_s;
	const struct backup_snapshot *ignore; /* snapshots set aside */
	size_t ignore_n;
};

/* Why what could go next time did not go now. */
enum gc_pending_cause {
	GC_PENDING_NONE,
	GC_PENDING_CUTOFF,  /* the safety margin */
	GC_PENDING_SESSION, /* the oldest open session */
};

/* The result; counters are of this run.  Names as in PBS's status where it
 * has them. */
struct gc_result {
	bool dry_run;
	uint64_t index_file_count;
	uint64_t index_data_bytes; /* sum of the archives' sizes */
	uint64_t references;
	uint64_t touched;             /* distinct touches made */
	uint64_t seen_hits;           /* references known touched without one */
	uint64_t missing_chunks;      /* referenced and not there */
	uint64_t hurt_snapshots;      /* that reference some of these */
	uint64_t forgotten_snapshots; /* removed since the last run */
	uint64_t vanished_files; /* index files, or snapshots, nobody removed */
	uint64_t disk_chunks;
	uint64_t disk_bytes;
	uint64_t removed_chunks;
	uint64_t removed_bytes;
	uint64_t removed_bad;
	uint64_t still_bad;
	uint64_t removed_tmp;
	uint64_t pending_chunks;
	uint64_t pending_bytes;
	filetime newest_pending; /* the last use of any of them; 0: none */
	enum gc_pending_cause pending_cause;
	int64_t pending_until;     /* epoch: when a run may remove it; 0 none */
	char pending_session[384]; /* "push of host/a (host x, pid 42, since
				      TIME)" */
	uint32_t unswept_prefixes; /* their lock stayed busy */
	uint32_t warnings;
	uint32_t left_overs; /* bad index files in dead directories */
	bool set_based;      /* touches were not possible: no space */
	bool by_index;       /* marked and swept by the chunk index */
	int64_t started;
	int64_t ended;
	filetime start_of_mark;
	filetime cutoff;
	uint64_t free_before; /* bytes available on the file system */
	uint64_t free_after;
};

/*
 * Run it.  ds is open with DATASTORE_GC (a dry run: DATASTORE_READ).  0: done,
 * also if chunks were found missing or prefixes stayed unswept (see the
 * counters: exit code 3).  ERR_INVALID: the cutoff is too short for a network
 * file system.  ERR_BUSY: another GC (message says who), PBS, or sessions that
 * can not be seen.  ERR_REFUSED: it would not be safe; every finding was
 * reported as a warning before; nothing was removed, or nothing more, if what
 * went wrong went wrong later (message says which).  ERR_CANCELLED: the task
 * was stopped; what was removed until then stays removed.
 *
 * *ret is filled in any case but ERR_INVALID, with what was counted until
 * then.
 *
 * A dry run takes no lock and changes nothing, but for what the kernel notes
 * of reading (access times of directories and index files, where the mount
 * keeps them).  It names what a run would remove that began now: it counts
 * from the kernel's clock, because a file time that is only read would be of
 * the last change.  On a network file system whose server's clock differs its
 * report is off by as much.
 */
int gc_run(struct datastore *ds, const struct gc_opts *opts, struct task *task,
    struct gc_result *ret, struct err *e);

/* `.gc-status` of the last run that ended well, whoever made it. */
struct gc_last {
	bool found;
	struct gc_result result; /* fields that are in the file */
	bool by_cairn;           /* .cairn/gc.last belongs to it */
};
int gc_last_read(struct datastore *ds, struct gc_last *ret, struct err *e);

/* Room for a upid and its NUL. */
#define GC_UPID_SIZE 256

/* The upid of that run: "" there was none, "?" nobody can tell. */
void gc_last_upid(struct datastore *ds, char out[GC_UPID_SIZE]);

/* Is one running now?  Who, as text, if so. */
int gc_is_running(
    struct datastore *ds, bool *ret, char *who, size_t size, struct err *e);

#endif
