/* SPDX-License-Identifier: MIT */
/*
 * push_report: what a push stored, as text and as JSON.
 */
#ifndef CAIRN_CLI_PUSH_REPORT_H
#define CAIRN_CLI_PUSH_REPORT_H

#include <stdbool.h>
#include <stddef.h>

#include "cli/push_source.h"
#include "datastore/backupid.h"
#include "datastore/base/err.h"
#include "datastore/session.h"
#include "index/ingest.h"
#include "index/tree_push.h"

/* Of one archive. */
struct push_result {
	struct ingest_result content; /* of its stream, or the blob */
	struct ingest_result catalog; /* chunks 0: it has none */
	uint64_t members;             /* of a tar, or of what became a tree */
	bool is_tree;                 /* pushed from a directory: */
	struct tree_push_result tree;
};

struct push_report {
	struct backup_snapshot id;
	const struct push_source *sources;
	const struct push_result *results;
	size_t n;
	struct session_stats stats;
	bool dry_run;
	bool changed;    /* a source, while it was read */
	bool incomplete; /* something is missing, or not as it was */
};

int push_report_text(const struct push_report *r, struct err *e);
int push_report_json(const struct push_report *r, struct err *e);

#endif
