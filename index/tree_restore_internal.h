/* SPDX-License-Identifier: MIT */
/*
 * tree_restore_internal: one restore, for tree_restore*.c.
 *
 * Order of a run: the catalog is walked; directories are made and remembered,
 * what has no content is made at once, files are noted with the offset of
 * their content.  Hard links are grouped, the first of each group is a file
 * like others.  Contents come in the order of the stream.  Then the other
 * links, flags that forbid changes, and directories, the deepest first.
 */
#ifndef CAIRN_INDEX_TREE_RESTORE_INTERNAL_H
#define CAIRN_INDEX_TREE_RESTORE_INTERNAL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "datastore/base/buf.h"
#include "datastore/base/digest.h"
#include "datastore/base/err.h"
#include "datastore/base/task.h"
#include "index/archive.h"
#include "index/catalog.h"
#include "index/tree_restore.h"
#include "index/tree_restore_dirs.h"
#include "index/tree_restore_meta.h"
#include "index/tree_restore_names.h"
#include "index/tree_restore_place.h"
#include "index/tree_restore_sort.h"
#include "index/tree_restore_spool.h"

/* What waits for its content, or its group; in the spool, its name cut. */
struct restore_record {
	uint64_t start; /* of its content in the stream */
	uint64_t stored;
	uint64_t size;
	uint64_t dir;
	int64_t parent;       /* in the catalog */
	int64_t link;         /* 0: no hard link */
	struct digest sha256; /* of what is no file: what it is */
	struct restore_meta meta;
	enum catalog_kind kind;
	unsigned inherited;
	bool has_sha256;
	bool has_holes;
	bool scattered; /* its content is in several pieces */
	bool in_way;    /* something has its name */
	bool equal;     /* and is what it is to be */
	bool failed;    /* could not be made */
	bool damaged;   /* for that reason */
	bool led;       /* was tried when the first of its group had failed */
	bool done;      /* in such a group: nothing is left to do */
	unsigned name_n;
	char name[RESTORE_NAME_MAX + 1];
};

/* In r->files, of a file without a byte. */
#define RESTORE_NO_CONTENT UINT64_MAX

/* How often a line is said of each kind. */
enum restore_told {
	RESTORE_TOLD_SKIPPED,
	RESTORE_TOLD_FAILED,
	RESTORE_TOLD_DAMAGED, /* always */
	RESTORE_TOLD_SHORT,   /* always, and not counted */
	RESTORE_TOLD_KINDS,
};
#define RESTORE_TOLD_MAX 100U

struct restore {
	struct catalog *c;
	struct archive *content;
	const char *shown; /* the target */
	const struct tree_restore_opts *opts;
	struct task *task;
	char phase[BACKUP_ID_MAX + 16];
	char phase_walk[BACKUP_ID_MAX + 32];

	struct tree_restore_result result;
	uint64_t told[RESTORE_TOLD_KINDS];
	uint64_t entries_seen;
	uint64_t total; /* bytes of contents */
	uint64_t done;
	unsigned missed_named; /* bits of enum restore_miss */

	struct restore_place place;
	struct restore_dirs *dirs;
	struct restore_names *names;
	struct restore_spool *spool;    /* of records */
	struct restore_sort *files;     /* by offset in the stream */
	struct restore_sort *scattered; /* contents in several pieces */
	struct restore_sort *links;     /* by group */
	struct restore_sort *late;      /* have flags to be set in the end */
	struct restore_sort *thawed;    /* directories, and their flags */
	uint64_t unfinished;  /* directories from this one on have theirs */
	unsigned links_round; /* of restore_links_make */
	bool links_again;

	struct restore_pass *pass; /* of contents, while there is one */

	struct catalog_extent run; /* the last one, of ... */
	uint64_t run_pos;
};

/* -- tree_restore.c -- */

/* Nothing more can be done: no memory, no space, told to stop. */
bool restore_is_fatal(const struct err *e);
/* Put the entry's path in front.  Thread-safe. */
void restore_name_error(
    struct restore *r, uint64_t dir, const char *name, struct err *e);
/*
 * A failure of one entry: said and counted, and 0 is returned; or it is
 * fatal, and comes back.  ERR_CORRUPT is damage.
 */
int restore_failed(
    struct restore *r, uint64_t dir, const char *name, int rc, struct err *e);
int restore_tell(struct restore *r, enum restore_told kind, uint64_t dir,
    const char *name, const char *text, struct err *e);
int restore_tell_missed(struct restore *r, uint64_t dir, const char *name,
    const struct restore_missed *missed, struct err *e);
int restore_record_add(struct restore *r, const struct restore_record *rec,
    uint64_t *ret_at, struct err *e);
int restore_record_read(
    struct restore *r, uint64_t at, struct restore_record *ret, struct err *e);
/* A file is to be made: into r->files, or r->scattered. */
int restore_schedule(struct restore *r, const struct restore_record *rec,
    uint64_t at, struct err *e);
/* It was not made; rc says if that was for damage. */
int restore_record_fail(struct restore *r, uint64_t at, int rc, struct err *e);
/* Set a flag, by its offset in the record. */
int restore_record_mark(
    struct restore *r, uint64_t at, size_t offset, struct err *e);
int restore_meta_of(struct restore *r, const struct catalog_entry *entry,
    struct restore_meta *ret, struct err *e);
/* Of an entry, or NULL. */
int restore_attr_of(struct restore *r, const struct restore_meta *m,
    struct restore_attr **ret, struct err *e);
enum restore_taken restore_taken(const struct restore *r);

/* -- tree_restore_walk.c -- */

int restore_walk(struct restore *r, struct err *e);

/* -- tree_restore_locate.c -- */

/* Size and content of a file; ERR_CORRUPT: it has none to be restored. */
int restore_locate(struct restore *r, const struct catalog_entry *entry,
    struct restore_record *rec, struct err *e);

/* -- tree_restore_special.c -- */

/* A symbolic link, FIFO, socket or device, as the row says.  Tells. */
int restore_special(struct restore *r, const struct restore_record *rec,
    const struct catalog_entry *entry, bool *ret_made, struct err *e);
/* The same; the row is looked up. */
int restore_special_again(struct restore *r, const struct restore_record *rec,
    bool *ret_made, struct err *e);

/* -- tree_restore_links.c -- */

/* Choose who gets content: into r->files. */
int restore_links_plan(struct restore *r, struct err *e);
/* All others become links, or, where that can not be, files again; so does the
 * next of a group whose first could not be made.  *ret_again: then the others
 * wait for it: to be called once more, after contents. */
int restore_links_make(struct restore *r, bool *ret_again, struct err *e);

/* -- tree_restore_file.c -- */

/* Where in a file its next stored byte goes. */
struct restore_cursor {
	uint64_t at;
	size_t hole; /* the next one */
};

/* A file being made.  What it holds on to beyond the record is `weight`. */
struct restore_file {
	struct restore_record rec;
	uint64_t at; /* of the record */
	struct restore_attr *attr;
	struct buf holes;
	size_t weight;
	struct restore_temp temp;
	struct restore_missed missed;
	struct restore_cursor cursor; /* of the owner */
	uint64_t next;                /* stored bytes that were handed out */
	struct digest_ctx *hash;      /* of a file in several chunks */
	atomic_bool bad;              /* no need to go on with it */
	bool exists;                  /* something took its name, and stays */
	int rc;
	struct err e; /* why not, without the path */
};

/* What the catalog lacks for it is in rc; owner's thread. */
int restore_file_new(
    struct restore *r, uint64_t at, struct restore_file **ret, struct err *e);
void restore_file_free(struct restore_file *f); /* NULL is allowed */

/* Made, with its size and space.  Any thread, like those below. */
int restore_file_begin(
    struct restore *r, struct restore_file *f, int dirfd, struct err *e);
/* n stored bytes from the cursor on; p NULL: only move it. */
int restore_file_write(const struct restore_file *f, struct restore_cursor *c,
    const uint8_t *p, size_t n, struct err *e);
/* Metadata, and its name. */
int restore_file_end(
    struct restore *r, struct restore_file *f, int dirfd, struct err *e);
/* Count it, tell of it; owner's thread.  Frees nothing. */
int restore_file_settle(
    struct restore *r, struct restore_file *f, struct err *e);
/* ERR_CORRUPT unless it is the one the catalog has. */
int restore_file_check(
    const struct restore_file *f, const struct digest *found, struct err *e);
/* One whose content lies in several pieces: from begin to settle. */
int restore_file_scattered(struct restore *r, uint64_t at, struct err *e);

/* -- tree_restore_content.c -- */

/* All files of r->files, which is empty then. */
int restore_contents(struct restore *r, struct err *e);

#endif
