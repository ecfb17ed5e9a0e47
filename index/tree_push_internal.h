/* SPDX-License-Identifier: MIT */
/*
 * tree_push_internal: what listing, reading and the rows of a push share.
 *
 * The owner walks: it opens and lists directories and submits each entry as a
 * slot.  Workers look at entries and read small files.  The owner retires the
 * slots in walk order: contents are placed, rows made.
 */
#ifndef CAIRN_INDEX_TREE_PUSH_INTERNAL_H
#define CAIRN_INDEX_TREE_PUSH_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "datastore/base/buf.h"
#include "datastore/base/digest.h"
#include "datastore/base/err.h"
#include "datastore/base/workers.h"
#include "index/tree_push.h"
#include "index/tree_writer.h"
#include "index/walk.h"
#include "index/walk_links.h"
#include "index/walk_look.h"
#include "index/walk_mounts.h"

/* A file that changes while it is read is read so often, with pauses. */
#define TREE_PUSH_TRIES 3U
#define TREE_PUSH_PAUSE_MS 100U
/* But a file longer than this only once. */
#define TREE_PUSH_AGAIN_MAX ((uint64_t)256 << 20)

/* Where the content of a file is. */
enum tree_content {
	TREE_CONTENT_NONE,  /* no file, or it can not be read */
	TREE_CONTENT_READ,  /* in f.data, f.sha256 */
	TREE_CONTENT_OWNER, /* large, or perhaps known: the owner's affair */
};

/* One entry on its way. */
struct tree_slot {
	struct walk_dir *dir; /* held; NULL: the slot is free */
	const char *name;     /* one of dir's; NULL: dir itself */
	unsigned char type;   /* as it was listed */
	int64_t id;
	bool unlisted; /* a directory whose names can not be read: why */
	struct err why;
	struct walk_found f;
	enum tree_content content;
	uint64_t pos; /* of the content, once it is placed */
};

/* Users and groups whose names were asked for. */
struct tree_accounts {
	uint64_t *keys; /* open addressing; 0: free */
	size_t room;    /* a power of two, or 0 */
	size_t n;
	struct buf text; /* of getpwuid_r */
};

struct tree_push {
	const char *shown;
	const struct tree_push_opts *opts;
	struct task *task;
	struct tree_writer *writer;
	struct walk *walk;
	struct walk_links *links;
	struct walk_mounts *mounts;
	struct workers *workers;
	struct tree_slot *slots;
	void **slot_pointers;
	size_t slots_n;
	struct tree_accounts accounts;
	struct digest_ctx *digest; /* the owner's */
	uint8_t *piece;            /* of a large file */
	struct buf path;           /* the owner's, for patterns and messages */
	int64_t attrs;             /* ids that the catalog gave so far */
	unsigned retired;
	struct tree_push_result result;
};

/* A warning about an entry: "'PATH' TEXT". */
int tree_push_warn(struct tree_push *t, const struct walk_dir *d,
    const char *name, struct err *e, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));

/* tree_push_list.c: read the names of d, without those left out. */
int tree_push_list(struct tree_push *t, struct walk_dir *d, struct err *e);
/* The DT_... of an entry that was listed without. */
unsigned char tree_push_type(const struct walk_dir *d, const char *name);

/* tree_push_read.c: in a worker. */
int tree_push_look(struct tree_push *t, struct digest_ctx *digest,
    struct tree_slot *s, struct err *e);
/* In the owner: place what a worker read, or read and place it. */
int tree_push_place(struct tree_push *t, struct tree_slot *s, struct err *e);

/* tree_push_row.c: the row of an entry whose content is placed.  link: 0, or
 * that of its group. */
int tree_push_row(struct tree_push *t, const struct tree_slot *s, int64_t link,
    struct err *e);
void tree_accounts_release(struct tree_accounts *a);

#endif
