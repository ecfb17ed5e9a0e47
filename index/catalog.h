/* SPDX-License-Identifier: MIT */
/*
 * catalog: what is inside a tree or tar archive, without its content.
 *
 * A SQLite database (schema and rules: etc/doc/format-catalog.md), stored as
 * NAME.tree.catalog.fidx, and, where a later push wrote one, the rows that
 * differ in NAME.tree.changes.fidx.  Readers see both merged.  Pages are read
 * on demand from the chunks; no catalog is ever copied to answer a question.
 *
 * Whatever stands in a catalog is somebody else's input: each row is checked
 * when it is read, and a name that is empty, ".", ".." or has a slash or a
 * zero byte, a kind that is not known, a number out of its range or a column
 * of the wrong type is ERR_CORRUPT, naming the index file.
 *
 * A catalog and all its cursors belong to one thread.
 */
#ifndef CAIRN_INDEX_CATALOG_H
#define CAIRN_INDEX_CATALOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "datastore/backupid.h"
#include "datastore/base/buf.h"
#include "datastore/base/digest.h"
#include "datastore/base/err.h"
#include "datastore/base/task.h"
#include "datastore/datastore.h"
#include "datastore/manifest.h"
#include "datastore/snapshot.h"
#include "index/archive.h"

enum catalog_kind {
	CATALOG_FILE,
	CATALOG_DIR,
	CATALOG_SYMLINK,
	CATALOG_FIFO,
	CATALOG_SOCKET,
	CATALOG_CHAR,
	CATALOG_BLOCK,
};

/* "file", "dir", ...: the word of the column. */
const char *catalog_kind_word(enum catalog_kind k);
/* The file type bits of stat's mode: S_IFREG... */
unsigned catalog_kind_mode(enum catalog_kind k);

/* Which of the columns that may be null are not. */
enum catalog_column {
	CATALOG_HAS_MODE = 1 << 0,
	CATALOG_HAS_UID = 1 << 1,
	CATALOG_HAS_GID = 1 << 2,
	CATALOG_HAS_MTIME = 1 << 3, /* mtime_s and mtime_ns */
	CATALOG_HAS_CTIME = 1 << 4,
	CATALOG_HAS_INO = 1 << 5,
	CATALOG_HAS_NLINK = 1 << 6,
	CATALOG_HAS_MOUNT = 1 << 7,
	CATALOG_HAS_RDEV = 1 << 8,
	CATALOG_HAS_FLAGS = 1 << 9,
	CATALOG_HAS_SIZE = 1 << 10,
	CATALOG_HAS_POS = 1 << 11,
	CATALOG_HAS_SHA256 = 1 << 12,
	CATALOG_HAS_HOLES = 1 << 13,
	CATALOG_HAS_TARGET = 1 << 14,
	CATALOG_HAS_LINK = 1 << 15,
	CATALOG_HAS_ATTR = 1 << 16,
	CATALOG_HAS_STATE = 1 << 17,
};

/* Bits of `state`. */
#define CATALOG_STATE_CHANGED 1U    /* changed while it was read */
#define CATALOG_STATE_SHORT 2U      /* had fewer bytes than stat said */
#define CATALOG_STATE_UNREADABLE 4U /* no content is stored */

#define CATALOG_ROOT_ID 1
#define CATALOG_NAME_MAX 65535U
#define CATALOG_TARGET_MAX (1U << 20)
/* A file with more holes: the smallest ones are stored as data. */
#define CATALOG_HOLES_MAX (1U << 20)
/* Of a row, and of attr.data. */
#define CATALOG_VALUE_MAX (32U << 20)

struct catalog_bytes {
	const uint8_t *p;
	size_t n;
};

/*
 * One row.  Bytes are borrowed from whoever made it.  A member whose bit is
 * not in `has` is 0 and means nothing.
 */
struct catalog_entry {
	int64_t parent; /* the root's: 0 */
	int64_t id;
	struct catalog_bytes name; /* the root's: empty */
	enum catalog_kind kind;
	unsigned has;  /* enum catalog_column */
	unsigned mode; /* 07777 */
	uint32_t uid;
	uint32_t gid;
	int64_t mtime_s;
	uint32_t mtime_ns;
	int64_t ctime_s;
	uint32_t ctime_ns;
	uint64_t ino;
	uint64_t nlink;
	int64_t mount;
	uint64_t rdev; /* major << 32 | minor */
	uint32_t flags;
	uint64_t size;
	uint64_t pos;
	struct digest sha256;
	struct catalog_bytes holes; /* catalog_hole_decode */
	struct catalog_bytes target;
	int64_t link;
	int64_t attr;
	unsigned state;
};

/* One range of `holes`, of 16 bytes. */
#define CATALOG_HOLE_SIZE 16U
struct catalog_hole {
	uint64_t start;
	uint64_t length;
	bool allocated; /* preallocated; may lie beyond the file's size */
};
void catalog_hole_encode(
    const struct catalog_hole *h, uint8_t out[CATALOG_HOLE_SIZE]);
/* Number i of e->holes, which must have that many (rows were checked: whole
 * records, ascending, not overlapping, no end beyond 2^63 - 1). */
struct catalog_hole catalog_hole_decode(
    const struct catalog_entry *entry, size_t i);
size_t catalog_holes_count(const struct catalog_entry *entry);
/* Bytes of the stream that a file has: size less holes within it. */
uint64_t catalog_stored_size(const struct catalog_entry *entry);

/* A deep copy that owns its bytes (one allocation). */
int catalog_entry_copy(const struct catalog_entry *entry,
    struct catalog_entry **ret, struct err *e);

struct catalog;

/*
 * Of an archive, "root.tree" or "root.tar" (ERR_INVALID: it is of a kind that
 * has none; ERR_NOTFOUND: this one has none, or there is no such archive).
 * A `changes` file is opened with it and must belong to the catalog (meta
 * `catalog`), else ERR_CORRUPT.  The hold must outlive it.
 */
int catalog_open(struct datastore *ds, const struct backup_snapshot *s,
    const struct snapshot_hold *hold, const struct manifest *m,
    const char *archive, struct catalog **ret, struct err *e);
void catalog_close(struct catalog *c); /* NULL is allowed */

const char *catalog_shown(const struct catalog *c); /* for messages */
/* There are no more rows than this: who meets more goes in a circle. */
uint64_t catalog_rows_max(const struct catalog *c);
/* SQLite pages of 4 KiB asked for so far. */
uint64_t catalog_pages_read(const struct catalog *c);

/* The entry; its bytes are good until the next lookup or resolve. */
int catalog_lookup(struct catalog *c, int64_t parent, struct catalog_bytes name,
    struct catalog_entry *ret, bool *ret_found, struct err *e);
int catalog_root(struct catalog *c, struct catalog_entry *ret, struct err *e);
/*
 * A path as typed: components between slashes, empty ones and "." passed
 * over, ".." ERR_INVALID.  ERR_NOTFOUND names the first that is not there, or
 * is no directory though more follows.
 */
int catalog_resolve(struct catalog *c, struct catalog_bytes path,
    struct catalog_entry *ret, struct err *e);

struct catalog_cursor;

/* The children of a directory, by name in byte order. */
int catalog_children(struct catalog *c, int64_t parent,
    struct catalog_cursor **ret, struct err *e);
/* The same, but only names greater than `after`. */
int catalog_children_after(struct catalog *c, int64_t parent,
    struct catalog_bytes after, struct catalog_cursor **ret, struct err *e);
/* Every entry, in key order: parent, then name. */
int catalog_all(struct catalog *c, struct catalog_cursor **ret, struct err *e);
/* Every row of `earlier` (tar only; none elsewhere), key and member order. */
int catalog_earlier(
    struct catalog *c, struct catalog_cursor **ret, struct err *e);
/* Those that one entry took the place of. */
int catalog_earlier_of(struct catalog *c, int64_t parent,
    struct catalog_bytes name, struct catalog_cursor **ret, struct err *e);
/* *ret_more false: the end.  The bytes are good until the next call. */
int catalog_cursor_next(struct catalog_cursor *cur, struct catalog_entry *ret,
    bool *ret_more, struct err *e);
void catalog_cursor_free(struct catalog_cursor *cur); /* NULL is allowed */

/*
 * Depth first from an entry (itself first), children by name; `path` is
 * relative to the archive's root, without a slash at either end ("" for the
 * root).  fn may return CATALOG_SKIP for a directory, not to go into it; any
 * negative value ends the walk.  `leave` (may be NULL) is called for each
 * directory when all below it was visited.  Memory: one cursor and name per
 * level; a directory that is its own ancestor is ERR_CORRUPT, more than
 * CATALOG_DEPTH_MAX levels ERR_LIMIT.
 */
#define CATALOG_SKIP 1
#define CATALOG_DEPTH_MAX 65536U

/*
 * What a walk could not read.  It goes on behind: rows of pages that are there
 * are visited, whatever else is missing.  Of each directory the first place is
 * told of as a warning, of CATALOG_GAPS_TOLD directories.
 */
#define CATALOG_GAPS_TOLD 50U
struct catalog_gaps {
	uint64_t places; /* pages (each once in a walk) and rows */
	uint64_t told;
	/* Rows that no directory leads to.  Only of walks from the root in
	 * which nothing was skipped; told of in one line. */
	uint64_t unreached;
	/* Of such walks, in how many some rows were come to more than once:
	 * directories share an id, which hides what others have. */
	uint64_t shared;
};
static inline bool catalog_gaps_any(const struct catalog_gaps *g)
{
	return g->places > 0 || g->unreached > 0 || g->shared > 0;
}

struct catalog_walk {
	int (*fn)(void *ctx, struct catalog_bytes path,
	    const struct catalog_entry *entry, struct err *e);
	int (*leave)(
	    void *ctx, struct catalog_bytes path, int64_t id, struct err *e);
	void *ctx;
	struct task *task;
	/* Added to.  NULL: what can not be read ends the walk. */
	struct catalog_gaps *gaps;
};
int catalog_walk(struct catalog *c, const struct catalog_entry *from,
    struct catalog_bytes path, const struct catalog_walk *w, struct err *e);

/* Where a range of positions lies in the archive's stream. */
struct catalog_extent {
	uint64_t start; /* offset in the stream */
	uint64_t length;
};
/*
 * Extent by extent: the first of the range [pos, pos + length), length > 0.
 * ERR_CORRUPT where `run` does not have it.
 */
int catalog_extent(struct catalog *c, uint64_t pos, uint64_t length,
    struct catalog_extent *ret, struct err *e);

/* attr.data of an id; ERR_CORRUPT if there is none, or it is malformed. */
int catalog_attr(struct catalog *c, int64_t id, struct buf *out, struct err *e);
/* The xattrs in attr.data; *at begins as 0; false at the end. */
struct catalog_xattr {
	struct catalog_bytes name; /* a zero byte follows name.p[name.n - 1]
				    * only in the copy below */
	char name_z[256];          /* XATTR_NAME_MAX and the zero byte */
	struct catalog_bytes value;
};
bool catalog_attr_next(
    const struct buf *data, size_t *at, struct catalog_xattr *ret);
int catalog_attr_append(struct buf *data, const char *name, const void *value,
    size_t n, struct err *e);

enum catalog_account {
	CATALOG_USER,
	CATALOG_GROUP,
};
/* The name an id had; not found or null: *ret_found false. */
int catalog_account(struct catalog *c, enum catalog_account kind, uint32_t id,
    struct buf *name, bool *ret_found, struct err *e);

/* Of a mount, the path relative to the root ("" for it) and the file system's
 * type ("" where it is not known). */
int catalog_mount(struct catalog *c, int64_t id, struct buf *path,
    struct buf *fstype, bool *ret_found, struct err *e);

/* A value of meta as text, or not found. */
int catalog_meta(struct catalog *c, const char *key, struct buf *out,
    bool *ret_found, struct err *e);

/* *ret: when it was made, the archive could not be read to its end; what is
 * behind *ret_offset of it is not listed. */
int catalog_incomplete(
    struct catalog *c, bool *ret, uint64_t *ret_offset, struct err *e);
/* Is it the member in which such a tar ended: less than it was? */
int catalog_is_cut(struct catalog *c, const struct catalog_entry *entry,
    bool *ret_cut, struct err *e);
#define CATALOG_CUT_TEXT                                             \
	"shorter than it was: the tar ended in it, or could not be " \
	"read, when it was pushed"

/*
 * Base and changes as one plain database, written to the regular, empty,
 * seekable file fd.
 */
int catalog_export(struct catalog *c, int fd, struct task *task, struct err *e);

/*
 * "root.tree.catalog", where there are changes, too, as an archive whose bytes
 * are what catalog_export writes; *ret NULL: any other name, or no changes
 * (archive_open then gives the very bytes).  Takes a temporary file.
 */
int catalog_open_merged(struct datastore *ds, const struct backup_snapshot *s,
    const struct snapshot_hold *hold, const struct manifest *m,
    const char *name, struct task *task, struct archive **ret, struct err *e);

#endif
