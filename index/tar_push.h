/* SPDX-License-Identifier: MIT */
/*
 * tar_push: a tar stream, kept byte for byte, with a catalog.
 *
 * While the stream passes, libarchive reads along and says what is in it.  A
 * chunk starts at the content of each member of TAR_CUT_SIZE bytes or more,
 * so that equal files in other tars are found.  A stream that libarchive can
 * not read, or a compressed one, is stored all the same; one without a byte
 * is refused (ERR_REFUSED): a producer failed.
 */
#ifndef CAIRN_INDEX_TAR_PUSH_H
#define CAIRN_INDEX_TAR_PUSH_H

#include <stdbool.h>
#include <stdint.h>

#include "datastore/base/err.h"
#include "datastore/base/task.h"
#include "datastore/session.h"
#include "index/ingest.h"

#define TAR_CUT_SIZE (256U << 10)

struct tar_push_opts {
	struct ingest_opts ingest;
	/* Read on behind the end of an archive: several, one behind another. */
	bool ignore_zeros;
};

struct tar_push_result {
	struct ingest_result content;
	struct ingest_result catalog; /* size 0: there is none */
	uint64_t members;
	bool whole; /* false: the catalog is missing or ends early; was said */
};

/* archive: "root.tar". */
int tar_push(struct session *s, const char *archive,
    const struct ingest_source *src, const struct tar_push_opts *opts,
    struct task *task, struct tar_push_result *ret, struct err *e);

#endif
