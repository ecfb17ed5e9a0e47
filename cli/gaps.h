/* SPDX-License-Identifier: MIT */
/*
 * gaps: the ranges of a restored stream that are damaged, told and counted.
 */
#ifndef CAIRN_CLI_GAPS_H
#define CAIRN_CLI_GAPS_H

#include <stdbool.h>
#include <stdint.h>

#include "datastore/base/err.h"
#include "datastore/base/json.h"
#include "datastore/base/task.h"
#include "index/archive.h"

#define GAPS_KEPT 1000U /* ranges of JSON */

struct gaps {
	struct task *task;
	const char *shown; /* of the target, in messages */
	bool in_place;     /* it keeps what it had there; else zeros */
	struct archive_gaps hook;
	struct gaps_range {
		uint64_t start;
		uint64_t end;
	} kept[GAPS_KEPT]; /* the first ones */
	uint64_t end;      /* of the last range */
	uint64_t ranges;
	uint64_t bytes;
	struct err why; /* of the first chunk of the last range */
};

/* *g stays where it is as long as the archive is extracted. */
void gaps_init(
    struct gaps *g, struct task *task, const char *shown, bool in_place);
/* All is extracted: tell of the last one, and how many were not told. */
void gaps_end(struct gaps *g);
/* "damaged-bytes", "damaged-ranges" and "damaged-at", the first of them. */
void gaps_json(const struct gaps *g, struct js *doc, struct err *e);
int gaps_print(const struct gaps *g, struct err *e);

#endif
