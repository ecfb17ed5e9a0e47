/* SPDX-License-Identifier: MIT */
/*
 * chunkidx_internal: what the files of the chunk index share.
 *
 *     chunkidx_place.c    where it lies; names of files
 *     chunkidx_control.c  control.json
 *     chunkidx.c          what is there, look-ups, the lock
 *     chunkidx_gone.c     the bits of what was removed
 *     chunkidx_build.c        a new base
 *     chunkidx_scan.c     rebuild and check: against the directories
 *     chunkidx_run.c          runs are written
 */
#ifndef CAIRN_INDEX_CHUNKIDX_INTERNAL_H
#define CAIRN_INDEX_CHUNKIDX_INTERNAL_H

#include "datastore/base/lockfile.h"
#include "datastore/cairndir.h"
#include "index/chunkidx.h"

#define CHUNKIDX_RUNS "runs"
#define CHUNKIDX_LOCK "lock"
#define CHUNKIDX_CONTROL "control.json"
#define CHUNKIDX_NAME_SIZE 40

#define CHUNKIDX_UPID_SIZE 256

/* Where an index lies. */
struct chunkidx_place {
	int fd;      /* -1: nothing there */
	int runs_fd; /* -1: no runs */
	char shown[CAIRNDIR_SHOWN];
	char off[ERR_MSG_SIZE]; /* why there can be none; "" */
};
#define CHUNKIDX_PLACE_INIT             \
	{                               \
		.fd = -1, .runs_fd = -1 \
	}

/* make: the directories that are missing. */
int chunkidx_place_open(
    struct datastore *ds, bool make, struct chunkidx_place *ret, struct err *e);
void chunkidx_place_close(struct chunkidx_place *p);

/* "base-7.cix", "base-7.gone", "0000000000000007.cix". */
void chunkidx_base_name(uint64_t generation, char out[CHUNKIDX_NAME_SIZE]);
void chunkidx_gone_name(uint64_t generation, char out[CHUNKIDX_NAME_SIZE]);
void chunkidx_run_name(uint64_t sequence, char out[CHUNKIDX_NAME_SIZE]);
bool chunkidx_is_run_name(const char *name, uint64_t *ret_sequence);

struct chunkidx_control {
	uint64_t generation; /* 0: there is no base */
	uint64_t merged;     /* runs up to this sequence are in the base */
	struct cix_shards known;
	char upid[CHUNKIDX_UPID_SIZE];      /* "" none */
	char next_upid[CHUNKIDX_UPID_SIZE]; /* of a GC that is ending */
	int64_t scanned;
};

/*
 * ERR_NOTFOUND, ERR_CORRUPT, ERR_UNSUPPORTED; ERR_REFUSED if it is of another
 * datastore.
 */
int chunkidx_control_read(const struct datastore *ds,
    const struct chunkidx_place *p, struct chunkidx_control *ret,
    struct err *e);
int chunkidx_control_write(const struct datastore *ds,
    const struct chunkidx_place *p, const struct chunkidx_control *c,
    struct err *e);
void chunkidx_apply_note(
    struct chunkidx_control *c, const struct chunkidx_note *note);

/* In place, fsynced. */
int chunkidx_set_trust(const struct chunkidx_place *p, uint64_t generation,
    enum cix_trust trust, struct err *e);

/* A base that is trusted, but lacks something; what fails is let be. */
void chunkidx_note_lacking(const struct chunkidx_place *p, uint64_t generation);

struct chunkidx_run {
	uint64_t sequence;
	struct cix *c;
};

struct chunkidx {
	struct datastore *ds;
	struct chunkidx_place place;
	struct lockfile *locks;
	bool locked;
	char upid[CHUNKIDX_UPID_SIZE];
	bool has_upid;

	enum chunkidx_state state;
	char why[ERR_MSG_SIZE];
	struct chunkidx_control control;
	struct cix_shards known;
	struct cix *base;
	int gone_fd;
	uint64_t gone_n; /* as its header says, for people */
	uint64_t gone_bytes;
	uint8_t *gone;             /* one page of it */
	uint64_t gone_at;          /* which; UINT64_MAX: none */
	struct chunkidx_run *runs; /* by sequence, ascending */
	size_t runs_n;
	uint64_t bad_runs;
	uint64_t lost_runs; /* their writers died */
};

/* Is this, in runs, a temporary file that nobody writes any more?  What it was
 * to tell is not known then. */
bool chunkidx_is_lost(const struct chunkidx *ix, const char *name);

/* Forget the base and the runs, and look again. */
int chunkidx_load(struct chunkidx *ix, struct err *e);
void chunkidx_unload(struct chunkidx *ix);

/* chunkidx_gone.c */
uint64_t chunkidx_gone_size(uint64_t entries);
/* A new file of zeros, fsynced, its name too. */
int chunkidx_gone_make(
    struct chunkidx *ix, uint64_t generation, uint64_t entries, struct err *e);
/* ix->gone_fd; a file that does not fit is as none. */
int chunkidx_gone_open(struct chunkidx *ix, struct err *e);

#endif
