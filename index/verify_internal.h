/* SPDX-License-Identifier: MIT */
/*
 * verify_internal: a run, and what its two halves owe each other: snapshots
 * and files (verify.c), chunks (verify_chunk.c).
 */
#ifndef CAIRN_INDEX_VERIFY_INTERNAL_H
#define CAIRN_INDEX_VERIFY_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "datastore/base/buf.h"
#include "datastore/base/workers.h"
#include "datastore/compress.h"
#include "datastore/damage.h"
#include "datastore/digestset.h"
#include "datastore/manifest.h"
#include "datastore/seenset.h"
#include "index/catalog.h"
#include "index/idx.h"
#include "index/verify.h"

/* What the manifest says of the chunks of an index. */
enum verify_crypt {
	VERIFY_CRYPT_NO,
	VERIFY_CRYPT_YES,
	VERIFY_CRYPT_ANY, /* nobody knows */
};

/* One chunk on its way. */
struct verify_slot {
	struct idx_entry entry;
	uint64_t start;
	enum verify_crypt crypt;
	bool in_flight; /* submitted, not yet retired; the owner's */
	enum verify_chunk {
		VERIFY_CHUNK_GOOD,
		VERIFY_CHUNK_MISSING,
		VERIFY_CHUNK_BAD,        /* proven, and renamed */
		VERIFY_CHUNK_KEPT,       /* proven, could not be renamed */
		VERIFY_CHUNK_UNREADABLE, /* I/O error: nothing is proven */
		VERIFY_CHUNK_MISFIT, /* sound, but not what the index says */
	} outcome;
	bool encrypted; /* of a sound one */
	bool listed;    /* by us, just now, as bad */
	bool flaky;     /* read wrong once and right the second time */
	uint64_t bytes; /* read */
	struct err why;
};

struct verify {
	struct datastore *ds;
	struct task *task;
	struct verify_result result;

	/* Sound ones, each with the length that was asked for (see
	 * verify_chunk.c): forgets when it is full, which costs reading. */
	struct seenset *good;
	/* Missing, bad, unreadable ones: few, and never forgotten. */
	struct digestset hurt;
	struct damage *damage; /* the list as it was at the beginning */
	struct buf missing;    /* digests that it is still to be told of */
	int64_t missing_since; /* the first of them */

	struct workers *workers;
	struct verify_slot *slots;
	void **slot_pointers;
	size_t slots_n;

	/* The snapshot in hand. */
	size_t snapshots_n;
	size_t snapshots_done;
	uint64_t entries; /* of its index files */
	uint64_t entries_done;
	const char *manifest_shown;
	const char *file_shown; /* the index file in hand */
	struct buf reasons;
	uint64_t reasons_n;
	bool untold;             /* the next reason is kept, not told */
	uint64_t chunks_told;    /* findings about chunks, a line each */
	uint64_t chunks_untold;  /* more of them */
	uint64_t repeats_untold; /* references to chunks that were found */
	size_t reasons_kept;     /* bytes, of the snapshots before */

	/* Of the index in hand: where the stream is hurt. */
	struct verify_range {
		uint64_t start;
		uint64_t end;
	} * ranges;
	size_t ranges_n;
	size_t ranges_cap;
	/* Of the snapshot in hand: the files in it that are. */
	struct verify_file *files;
	size_t files_n;
	size_t files_cap;
	uint64_t files_more;
	size_t files_bytes; /* of those of the snapshots before, too */
	struct verify_named {
		/* By the ranges, the index and the catalog that it has. */
		struct digest key;
		size_t hurt; /* which of result.hurt */
		size_t first;
		size_t n;
		uint64_t more;
		bool known;
	} named; /* the last archive whose files were named */

	struct digestset catalogs; /* that were read whole, by their files */
};

/* May anything be written down, and renamed? */
static inline bool verify_records(const struct verify *v)
{
	return v->ds->access != DATASTORE_READ;
}

/* Start and stop the threads. */
int verify_chunks_begin(struct verify *v, struct err *e);
void verify_chunks_end(struct verify *v);

/* How many findings about chunks were not told. */
void verify_tell_rest(struct verify *v);
/* Every chunk that the index references; findings become reasons.  What was
 * missing is on the damage list then, also after an error. */
int verify_chunks(
    struct verify *v, struct idx *ix, enum verify_crypt crypt, struct err *e);

/*
 * A finding of the snapshot in hand: a warning, and a line of its reasons.
 * Of very many the rest is only counted.
 */
int verify_reason(struct verify *v, struct err *e, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/*
 * An error is a finding, too, and the run goes on, unless it says nothing of
 * what was to be verified (memory, a stop): then it is returned.
 */
int verify_finding(
    struct verify *v, int rc, const struct err *why, struct err *e);

void verify_report(struct verify *v);

/* These bytes of the archive in hand are lost. */
int verify_range_add(
    struct verify *v, uint64_t start, uint64_t end, struct err *e);
/* Name the files of the archive in hand that need them. */
int verify_names(struct verify *v, const struct backup_snapshot *id, int dir_fd,
    const struct manifest *m, const char *filename, struct err *e);
/* A file of the snapshot was found hurt, and nothing that is in it was named:
 * then it is named itself. */
int verify_name_whole(struct verify *v, const char *filename, struct err *e);
/* One more file of the snapshot in hand; of a whole archive the path is
 * empty. */
int verify_keep_file(struct verify *v, const char *archive,
    struct catalog_bytes path, struct err *e);

/* Positions that follow each other in the stream. */
struct verify_run {
	uint64_t pos;
	uint64_t length;
	uint64_t start;
};
/* The run that has a position: files that follow each other share it. */
int verify_find_run(
    struct catalog *c, struct verify_run *run, uint64_t pos, struct err *e);

/* Read the catalogs of the snapshot in hand whole, and name those that can not
 * be used as they are. */
int verify_catalogs(struct verify *v, const struct backup_snapshot *id,
    int dir_fd, const struct manifest *m, struct err *e);

void verify_files_release(struct verify_file *files, size_t n);

#endif
