/* SPDX-License-Identifier: MIT */
/*
 * session: an open backup: from its registration to its manifest.
 *
 * A session becomes visible in one step, the rename of its manifest, or not
 * at all.  The order of its steps is what garbage collection's safety rests
 * on (etc/doc/gc-safety.md, I1 to I4):
 *
 *   1 own byte (datastore_open), byte 0    2 clean dead registrations,
 *                                            end interrupted removals
 *   3 group, `owner`, group lock           4 registration
 *   5 base: lock, re-check                 6 mkdir of the snapshot, its lock
 *   7 chunks                               8 files under temporary names,
 *                                            fsync; sync-level's sync
 *   9 tree lock, shared                   10 files renamed; base, damage list,
 *                                            registration checked; manifest
 *  11 everything dropped, registration last
 *
 * Failing or aborted in 4 to 10 removes the snapshot's directory under the
 * tree lock, then goes on at 11.
 *
 * session_put and session_beat are thread-safe; everything else belongs to
 * the thread that opened the session.
 */
#ifndef CAIRN_DATASTORE_SESSION_H
#define CAIRN_DATASTORE_SESSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "datastore/backupid.h"
#include "datastore/base/digest.h"
#include "datastore/base/err.h"
#include "datastore/base/task.h"
#include "datastore/compress.h"
#include "datastore/config.h"
#include "datastore/datastore.h"

struct session;

struct session_opts {
	struct backup_group group;
	int64_t time;        /* 0: now, or the next second that is free */
	const char *command; /* for the registration */
	const char *notes;   /* NULL: none */
	enum sync_level sync_level;
	int level; /* of compression; 0: store as is */
	struct min_free min_free;
	/* Reuse chunks of this snapshot without touching them; NULL: none. */
	const struct backup_snapshot *base;
	bool dry_run; /* nothing is locked, made, touched or kept */
	/* Told of each chunk that is stored, by the thread that does; its
	 * file has so many bytes.  May be NULL; not in a dry run. */
	void (*stored)(void *ctx, const struct digest *d, uint64_t bytes);
	void *stored_ctx;
	/*
	 * Does one of the session's own files, open here, reference this
	 * digest?  Asked at the end for each digest that was found damaged
	 * meanwhile.  NULL only where no index files are added.
	 */
	int (*references)(int fd, const char *filename, const struct digest *d,
	    bool *ret, struct err *e);
};

enum session_put {
	SESSION_NEW,
	SESSION_REUSED,
};

struct session_stats {
	uint64_t chunks; /* put */
	uint64_t new_chunks;
	uint64_t bytes;        /* plain bytes put */
	uint64_t new_bytes;    /* plain bytes of new ones */
	uint64_t stored_bytes; /* file sizes of new ones */
};

/*
 * Steps 1 to 6.  ERR_BUSY: the group is in use, or the base is being removed;
 * ERR_EXISTS: --time names a snapshot that is there; ERR_NOTFOUND: the base.
 * Options' strings are copied.
 */
int session_open(struct datastore *ds, const struct session_opts *opts,
    struct task *task, struct session **ret, struct err *e);

const struct backup_snapshot *session_id(const struct session *s);
/* The snapshot's directory, for temporary files; -1 in a dry run. */
int session_dir_fd(const struct session *s);
/* The base's directory, share-locked; -1 without a base. */
int session_base_fd(const struct session *s);

/*
 * Store one chunk (1 to CHUNK_MAX_PLAIN bytes) if it is not there: touch or
 * compress and insert.  `codec` and `scratch` are the calling thread's.
 */
int session_put(struct session *s, struct codec *codec, struct buf *scratch,
    const void *plain, size_t n, struct digest *ret_digest,
    enum session_put *ret, struct err *e);

/*
 * May this digest of the base be referenced without a touch?  False if it is
 * on the damage list: its content must be put again.
 */
bool session_may_reference(const struct session *s, const struct digest *d);

/*
 * An index file of the base whose digests are referenced: at the end it must
 * still be the very file (device, inode) under its name.
 */
int session_use_base_file(
    struct session *s, const char *filename, int fd, struct err *e);

/*
 * A finished temporary file of the directory becomes `filename` at the end:
 * fsyncs it.  size and csum are the manifest's.  A failure leaves the file to
 * session_abort.
 */
int session_add_file(struct session *s, const char *tmp_name,
    const char *filename, uint64_t size, const struct digest *csum,
    struct err *e);

/* A blob: encoded, written under a temporary name, added. */
int session_add_blob(struct session *s, const char *filename, const void *plain,
    size_t n, struct err *e);

/* At least once a minute while nothing is put: registration_beat, min-free. */
int session_beat(struct session *s, struct err *e);

void session_stats(const struct session *s, struct session_stats *ret);

/*
 * Steps 8 to 11: on success the snapshot is listed and durable.  On failure
 * nothing of it is left.  The session is closed either way; s is gone.
 */
int session_commit(struct session *s, struct err *e);

/* Withdraw: remove what was made, unregister.  NULL is allowed. */
void session_abort(struct session *s);

/*
 * Clean after the dead: for each dead registration its unfinished snapshot
 * (no manifest; tree lock shared, snapshot lock exclusive) and then itself.
 * What can not be cleaned is a warning; returns the number cleaned.
 */
int session_clean_dead(struct datastore *ds, struct task *task,
    size_t *ret_cleaned, struct err *e);

#endif
