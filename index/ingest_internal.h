/* SPDX-License-Identifier: MIT */
/*
 * ingest_internal: what the kinds of ingest share: a pulse that keeps the
 * session alive, and the pipeline.
 */
#ifndef CAIRN_INDEX_INGEST_INTERNAL_H
#define CAIRN_INDEX_INGEST_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "datastore/backupid.h"
#include "datastore/base/digest.h"
#include "datastore/base/err.h"
#include "datastore/base/task.h"
#include "datastore/base/workers.h"
#include "datastore/session.h"
#include "index/idxwriter.h"
#include "index/ingest.h"
#include "index/ingest_reader.h"

/* All memory of an ingest, as ingest_plan counts it. */
#define INGEST_MEMORY_MAX ((size_t)200 << 20)

/*
 * Called at least a few times a minute, and per chunk: is the task to stop,
 * and is it time to tell that the session lives?
 */
struct ingest_pulse {
	struct session *session;
	struct task *task;
	int64_t last_ns; /* of the last session_beat */
};

void ingest_pulse_init(
    struct ingest_pulse *p, struct session *s, struct task *task);
int ingest_pulse_check(struct ingest_pulse *p, struct err *e);

/*
 * How many threads and slots there is room for; at least one thread and two
 * slots.  INGEST_MEMORY_MAX is always enough.
 */
void ingest_plan(size_t chunk_max, const struct ingest_opts *opts,
    unsigned *ret_threads, size_t *ret_slots);

#define INGEST_COUNTS_MAX 4U

/* One chunk on its way, and full chunks of zeros that come before it. */
struct ingest_slot {
	uint8_t *data; /* room for chunk_max bytes */
	size_t n;      /* 0: nothing but the zeros before it */
	uint64_t zeros_before;
	bool first_zeros; /* it is the first full chunk of zeros itself */
	struct digest digest;
};

struct ingest_pipeline_opts {
	const char *filename;
	uint64_t chunk_size; /* of a fixed index, else 0 */
	size_t chunk_max;
	uint64_t total; /* for the progress; 0: unknown */
	const struct ingest_opts *opts;
};

/*
 * From filled slots to the index.  The owner gets the current slot, fills it
 * (data, n) and submits it; the current slot stays the same until then.
 */
struct ingest_pipeline {
	struct ingest_pulse pulse;
	struct idxwriter *writer;
	struct workers *workers;
	struct ingest_slot *slots;
	void **slot_pointers;
	size_t slots_n;
	size_t chunk_max;
	struct ingest_slot *current; /* NULL: none was asked for yet */

	/* Full chunks of zeros are put once and then only counted. */
	uint64_t zeros;             /* met, behind the last slot submitted */
	bool zeros_put;             /* the first went on its way */
	struct digest zeros_digest; /* retire: known when it was retired */

	char phase[BACKUP_NAME_MAX + 32];
	struct session_stats before;
	uint64_t total;
	const struct task_count *more; /* the owner's, for the progress */
	size_t more_n;                 /* at most INGEST_COUNTS_MAX */
	uint64_t done;                 /* bytes in the index */
	uint64_t chunks;               /* entries in the index */
};

/* p needs no release if this fails. */
int ingest_pipeline_open(struct ingest_pipeline *p, struct session *s,
    const struct ingest_pipeline_opts *opts, struct task *task, struct err *e);
void ingest_pipeline_close(struct ingest_pipeline *p);

/* The current slot.  Checks the pulse. */
int ingest_pipeline_slot(
    struct ingest_pipeline *p, struct ingest_slot **ret, struct err *e);
void ingest_pipeline_submit(struct ingest_pipeline *p);

/* count full chunks of zeros; the current slot's content is lost. */
int ingest_pipeline_zeros(
    struct ingest_pipeline *p, uint64_t count, struct err *e);

/* For ingest_reader.idle: the pulse, and what became of the last chunks. */
int ingest_pipeline_idle(void *pipeline, struct err *e);

/* Everything that was submitted is in the index and that is the session's. */
int ingest_pipeline_finish(
    struct ingest_pipeline *p, struct ingest_result *ret, struct err *e);

#endif
