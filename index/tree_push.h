/* SPDX-License-Identifier: MIT */
/*
 * tree_push: a directory tree into NAME.tree.didx and its catalog.
 *
 * The walk is relative to open directories, depth first, names in byte order;
 * several files are looked at and read at a time, their rows and contents come
 * in walk order.  Memory is bounded: per open directory its names, and fixed
 * buffers.  Nothing of the tree is changed; access times are left alone where
 * the kernel allows (O_NOATIME).
 */
#ifndef CAIRN_INDEX_TREE_PUSH_H
#define CAIRN_INDEX_TREE_PUSH_H

#include <stdbool.h>
#include <stdint.h>

#include "datastore/base/err.h"
#include "datastore/base/task.h"
#include "datastore/session.h"
#include "index/exclude.h"
#include "index/ingest.h"
#include "index/tree_writer.h"

struct tree_push_opts {
	struct ingest_opts ingest;
	const struct exclude *exclude; /* NULL: nothing */
	bool
	    one_file_system; /* a mount point is stored as an empty directory */
	bool exclude_caches; /* of a directory with a CACHEDIR.TAG only that */
};

struct tree_push_result {
	struct tree_writer_result written;
	uint64_t files;
	uint64_t directories;
	uint64_t excluded;
	uint64_t unreadable; /* said so, each; exit code 3 */
	uint64_t changed;    /* while they were read; said so; exit code 3 */
	uint64_t vanished;   /* between listing and looking; no failure */
};

/*
 * dirfd: the root, open for reading; `shown` names it.  ERR_SYS only for what
 * stops everything (the store, the root itself); a file or directory that can
 * not be read is a warning and counted.
 */
int tree_push(struct session *s, const char *archive, int dirfd,
    const char *shown, const struct tree_push_opts *opts, struct task *task,
    struct tree_push_result *ret, struct err *e);

#endif
