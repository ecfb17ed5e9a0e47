/* SPDX-License-Identifier: MIT */
#include "index/catalog_row.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "datastore/base/bytes.h"
#include "datastore/base/text.h"

#define TEXT 128

/* How a column of integers may look; the rest has min > max. */
static const struct {
	const char *name;
	unsigned has; /* 0: never null */
	int64_t min;
	int64_t max;
} columns[COLS] = {
	[COL_PARENT] = { "parent", 0, 0, INT64_MAX },
	[COL_NAME] = { "name", 0, 1, 0 },
	[COL_ID] = { "id", 0, 1, INT64_MAX },
	[COL_KIND] = { "kind", 0, 1, 0 },
	[COL_MODE] = { "mode", CATALOG_HAS_MODE, 0, 07777 },
	[COL_UID] = { "uid", CATALOG_HAS_UID, 0, UINT32_MAX },
	[COL_GID] = { "gid", CATALOG_HAS_GID, 0, UINT32_MAX },
	[COL_MTIME_S] = { "mtime_s", CATALOG_HAS_MTIME, INT64_MIN, INT64_MAX },
	[COL_MTIME_NS] = { "mtime_ns", CATALOG_HAS_MTIME, 0, 999999999 },
	[COL_CTIME_S] = { "ctime_s", CATALOG_HAS_CTIME, INT64_MIN, INT64_MAX },
	[COL_CTIME_NS] = { "ctime_ns", CATALOG_HAS_CTIME, 0, 999999999 },
	/* 64 bits without a sign, kept as they are. */
	[COL_INO] = { "ino", CATALOG_HAS_INO, INT64_MIN, INT64_MAX },
	[COL_NLINK] = { "nlink", CATALOG_HAS_NLINK, 0, INT64_MAX },
	[COL_MOUNT] = { "mount", CATALOG_HAS_MOUNT, 1, INT64_MAX },
	[COL_RDEV] = { "rdev", CATALOG_HAS_RDEV, INT64_MIN, INT64_MAX },
	[COL_FLAGS] = { "flags", CATALOG_HAS_FLAGS, 0, UINT32_MAX },
	[COL_SIZE] = { "size", CATALOG_HAS_SIZE, 0, INT64_MAX },
	[COL_POS] = { "pos", CATALOG_HAS_POS, 0, INT64_MAX },
	[COL_SHA256] = { "sha256", CATALOG_HAS_SHA256, 1, 0 },
	[COL_HOLES] = { "holes", CATALOG_HAS_HOLES, 1, 0 },
	[COL_TARGET] = { "target", CATALOG_HAS_TARGET, 1, 0 },
	[COL_LINK] = { "link", CATALOG_HAS_LINK, 1, INT64_MAX },
	[COL_ATTR] = { "attr", CATALOG_HAS_ATTR, 1, INT64_MAX },
	[COL_STATE] = { "state", CATALOG_HAS_STATE, 0, 7 },
};

static const struct {
	const char *word;
	unsigned mode;
} kinds[] = {
	[CATALOG_FILE] = { "file", S_IFREG },
	[CATALOG_DIR] = { "dir", S_IFDIR },
	[CATALOG_SYMLINK] = { "symlink", S_IFLNK },
	[CATALOG_FIFO] = { "fifo", S_IFIFO },
	[CATALOG_SOCKET] = { "socket", S_IFSOCK },
	[CATALOG_CHAR] = { "char", S_IFCHR },
	[CATALOG_BLOCK] = { "block", S_IFBLK },
};

#define KINDS (sizeof(kinds) / sizeof(kinds[0]))

const char *catalog_kind_word(enum catalog_kind k)
{
	return kinds[k].word;
}

unsigned catalog_kind_mode(enum catalog_kind k)
{
	return kinds[k].mode;
}

static bool wrong(char out[CATALOG_WRONG_SIZE], const char *what)
{
	(void)snprintf(out, CATALOG_WRONG_SIZE, "%s", what);
	return false;
}

static bool check_key(
    const struct catalog_entry *x, char out[CATALOG_WRONG_SIZE])
{
	const uint8_t *p = x->name.p;
	size_t n = x->name.n;

	if (x->id < 1 || x->parent < 0)
		return wrong(out, "id or parent is not positive");
	if ((x->parent == 0) != (x->id == CATALOG_ROOT_ID))
		return wrong(out, "the root, and only it, has parent 0");
	if (x->parent == 0) {
		return n == 0 && x->kind == CATALOG_DIR
		    ? true
		    : wrong(out, "the root has a name, or is no directory");
	}
	if (x->parent == x->id)
		return wrong(out, "it is its own parent");
	if (n == 0 || n > CATALOG_NAME_MAX)
		return wrong(out, "the name is empty or too long");
	if (memchr(p, '/', n) != NULL || memchr(p, '\0', n) != NULL)
		return wrong(out, "the name has a slash or a zero byte");
	if (p[0] == '.' && (n == 1 || (n == 2 && p[1] == '.')))
		return wrong(out, "the name is '.' or '..'");
	return true;
}

struct catalog_hole catalog_hole_decode(
    const struct catalog_entry *entry, size_t i)
{
	const uint8_t *p = entry->holes.p + i * CATALOG_HOLE_SIZE;
	uint64_t length = bytes_get_le64(p + 8);

	return (struct catalog_hole){ .start = bytes_get_le64(p),
		.length = length & INT64_MAX,
		.allocated = length > INT64_MAX };
}

void catalog_hole_encode(
    const struct catalog_hole *h, uint8_t out[CATALOG_HOLE_SIZE])
{
	bytes_put_le64(out, h->start);
	bytes_put_le64(
	    out + 8, h->length | (h->allocated ? (uint64_t)1 << 63 : 0));
}

size_t catalog_holes_count(const struct catalog_entry *entry)
{
	return entry->holes.n / CATALOG_HOLE_SIZE;
}

static bool check_holes(
    const struct catalog_entry *x, char out[CATALOG_WRONG_SIZE])
{
	uint64_t end = 0;

	if ((x->has & CATALOG_HAS_HOLES) == 0)
		return true;
	if (x->holes.n == 0 || x->holes.n % CATALOG_HOLE_SIZE != 0 ||
	    x->holes.n / CATALOG_HOLE_SIZE > CATALOG_HOLES_MAX)
		return wrong(out, "holes: not one to 2^20 records");
	for (size_t i = 0; i < catalog_holes_count(x); i++) {
		struct catalog_hole h = catalog_hole_decode(x, i);

		if (h.length == 0 || h.start < end || h.start > INT64_MAX ||
		    h.length > INT64_MAX - h.start)
			return wrong(out, "holes: not in order");
		end = h.start + h.length;
		if (end > x->size && !h.allocated)
			return wrong(out, "holes: beyond the size");
	}
	return true;
}

uint64_t catalog_stored_size(const struct catalog_entry *entry)
{
	uint64_t n = entry->size;

	if ((entry->has & CATALOG_HAS_HOLES) == 0)
		return n;
	for (size_t i = 0; i < catalog_holes_count(entry); i++) {
		struct catalog_hole h = catalog_hole_decode(entry, i);

		if (h.start >= entry->size)
			break;
		n -= h.length < entry->size - h.start ? h.length
						      : entry->size - h.start;
	}
	return n;
}

static bool check_content(
    const struct catalog_entry *x, char out[CATALOG_WRONG_SIZE])
{
	bool file = x->kind == CATALOG_FILE;
	bool readable = (x->state & CATALOG_STATE_UNREADABLE) == 0;

	if (!file &&
	    (x->has &
		(CATALOG_HAS_POS | CATALOG_HAS_SHA256 | CATALOG_HAS_HOLES)) !=
		0)
		return wrong(out, "content, but it is not a file");
	if (file && (x->has & CATALOG_HAS_SIZE) == 0)
		return wrong(out, "a file without a size");
	if (!readable && (x->has & CATALOG_HAS_POS) != 0)
		return wrong(out, "unreadable, yet with content");
	if (!check_holes(x, out))
		return false;
	if (!file || !readable)
		return true;
	if (catalog_stored_size(x) > 0 && (x->has & CATALOG_HAS_POS) == 0)
		return wrong(out, "a file without content");
	if (x->pos > INT64_MAX - catalog_stored_size(x))
		return wrong(out, "content beyond all positions");
	return true;
}

static bool check_target(
    const struct catalog_entry *x, char out[CATALOG_WRONG_SIZE])
{
	bool has = (x->has & CATALOG_HAS_TARGET) != 0;

	if (has && x->kind != CATALOG_SYMLINK)
		return wrong(out, "a target, but it is not a symlink");
	if (!has) {
		return x->kind != CATALOG_SYMLINK ||
			(x->state & CATALOG_STATE_UNREADABLE) != 0
		    ? true
		    : wrong(out, "a symlink without a target");
	}
	if (x->target.n > CATALOG_TARGET_MAX)
		return wrong(out, "the target is too long");
	if (memchr(x->target.p, '\0', x->target.n) != NULL)
		return wrong(out, "the target has a zero byte");
	return true;
}

static int64_t value_of(const struct catalog_entry *x, unsigned col)
{
	switch (col) {
	case COL_PARENT:
		return x->parent;
	case COL_ID:
		return x->id;
	case COL_MODE:
		return x->mode;
	case COL_UID:
		return x->uid;
	case COL_GID:
		return x->gid;
	case COL_MTIME_S:
		return x->mtime_s;
	case COL_MTIME_NS:
		return x->mtime_ns;
	case COL_CTIME_S:
		return x->ctime_s;
	case COL_CTIME_NS:
		return x->ctime_ns;
	case COL_INO:
		return (int64_t)x->ino;
	case COL_NLINK:
		return (int64_t)x->nlink;
	case COL_MOUNT:
		return x->mount;
	case COL_RDEV:
		return (int64_t)x->rdev;
	case COL_FLAGS:
		return x->flags;
	case COL_SIZE:
		return (int64_t)x->size;
	case COL_POS:
		return (int64_t)x->pos;
	case COL_LINK:
		return x->link;
	case COL_ATTR:
		return x->attr;
	case COL_STATE:
		return x->state;
	default:
		return 0;
	}
}

static bool is_integer(unsigned col)
{
	return columns[col].min <= columns[col].max;
}

static bool is_null(const struct catalog_entry *x, unsigned col)
{
	return columns[col].has != 0 && (x->has & columns[col].has) == 0;
}

static bool out_of_range(char out[CATALOG_WRONG_SIZE], unsigned col, int64_t v)
{
	(void)snprintf(out, CATALOG_WRONG_SIZE,
	    "%s is %" PRId64 ", want %" PRId64 " to %" PRId64,
	    columns[col].name, v, columns[col].min, columns[col].max);
	return false;
}

/* What is more than the range of one column. */
static bool check_rules(
    const struct catalog_entry *x, char out[CATALOG_WRONG_SIZE])
{
	return check_key(x, out) && check_content(x, out) &&
	    check_target(x, out);
}

bool catalog_entry_check(
    const struct catalog_entry *entry, char out[CATALOG_WRONG_SIZE])
{
	for (unsigned col = 0; col < COLS; col++) {
		int64_t v = value_of(entry, col);

		if (is_integer(col) && !is_null(entry, col) &&
		    (v < columns[col].min || v > columns[col].max))
			return out_of_range(out, col, v);
	}
	return check_rules(entry, out);
}

/*
 * The values of the row, each fetched once: of all that a walk does, asking
 * SQLite for columns takes the most time.  Nobody else has the connection, so
 * that they can be used as they are.
 */
struct row {
	sqlite3_value *v[COLS];
	int type[COLS];
};

static void get_row(sqlite3_stmt *stmt, struct row *ret)
{
	for (int col = 0; col < COLS; col++) {
		ret->v[col] = sqlite3_column_value(stmt, col);
		ret->type[col] = sqlite3_value_type(ret->v[col]);
	}
}

/* Its range is looked at first, since not all of it fits the member. */
static bool get_integer(const struct row *r, unsigned col, int64_t *ret,
    char out[CATALOG_WRONG_SIZE])
{
	int64_t v = 0;

	if (r->type[col] != SQLITE_INTEGER) {
		(void)snprintf(out, CATALOG_WRONG_SIZE, "%s is not an integer",
		    columns[col].name);
		return false;
	}
	v = sqlite3_value_int64(r->v[col]);
	if (v < columns[col].min || v > columns[col].max)
		return out_of_range(out, col, v);
	*ret = v;
	return true;
}

static void set_integers(struct catalog_entry *x, const int64_t v[COLS])
{
	x->parent = v[COL_PARENT];
	x->id = v[COL_ID];
	x->mode = (unsigned)v[COL_MODE];
	x->uid = (uint32_t)v[COL_UID];
	x->gid = (uint32_t)v[COL_GID];
	x->mtime_s = v[COL_MTIME_S];
	x->mtime_ns = (uint32_t)v[COL_MTIME_NS];
	x->ctime_s = v[COL_CTIME_S];
	x->ctime_ns = (uint32_t)v[COL_CTIME_NS];
	x->ino = (uint64_t)v[COL_INO];
	x->nlink = (uint64_t)v[COL_NLINK];
	x->mount = v[COL_MOUNT];
	x->rdev = (uint64_t)v[COL_RDEV];
	x->flags = (uint32_t)v[COL_FLAGS];
	x->size = (uint64_t)v[COL_SIZE];
	x->pos = (uint64_t)v[COL_POS];
	x->link = v[COL_LINK];
	x->attr = v[COL_ATTR];
	x->state = (unsigned)v[COL_STATE];
}

static bool get_bytes(const struct row *r, unsigned col,
    struct catalog_bytes *ret, char out[CATALOG_WRONG_SIZE])
{
	if (r->type[col] != SQLITE_BLOB) {
		(void)snprintf(out, CATALOG_WRONG_SIZE, "%s is not a blob",
		    columns[col].name);
		return false;
	}
	/* In this order; an empty one is NULL, which memchr must not get. */
	ret->p = sqlite3_value_blob(r->v[col]);
	ret->n = (size_t)sqlite3_value_bytes(r->v[col]);
	if (ret->p == NULL) {
		ret->p = (const uint8_t *)"";
		ret->n = 0;
	}
	return true;
}

static bool get_kind(const struct row *r, enum catalog_kind *ret)
{
	const unsigned char *s = NULL;
	size_t n = 0;

	if (r->type[COL_KIND] != SQLITE_TEXT)
		return false;
	s = sqlite3_value_text(r->v[COL_KIND]);
	n = (size_t)sqlite3_value_bytes(r->v[COL_KIND]);
	for (unsigned k = 0; k < KINDS && s != NULL; k++) {
		if (strlen(kinds[k].word) == n &&
		    memcmp(kinds[k].word, s, n) == 0) {
			*ret = (enum catalog_kind)k;
			return true;
		}
	}
	return false;
}

static bool get_others(
    const struct row *r, struct catalog_entry *x, char out[CATALOG_WRONG_SIZE])
{
	struct catalog_bytes sha256 = { .n = DIGEST_SIZE };

	if (!get_kind(r, &x->kind))
		return wrong(out, "kind is none that is known");
	if (!get_bytes(r, COL_NAME, &x->name, out))
		return false;
	if (!is_null(x, COL_HOLES) && !get_bytes(r, COL_HOLES, &x->holes, out))
		return false;
	if (!is_null(x, COL_TARGET) &&
	    !get_bytes(r, COL_TARGET, &x->target, out))
		return false;
	if (is_null(x, COL_SHA256))
		return true;
	if (!get_bytes(r, COL_SHA256, &sha256, out))
		return false;
	if (sha256.n != DIGEST_SIZE)
		return wrong(out, "sha256 has not 32 bytes");
	memcpy(x->sha256.b, sha256.p, DIGEST_SIZE);
	return true;
}

static bool decode(
    const struct row *r, struct catalog_entry *x, char out[CATALOG_WRONG_SIZE])
{
	int64_t v[COLS] = { 0 };

	/* Of a time both columns, or none. */
	if ((r->type[COL_MTIME_S] == SQLITE_NULL) !=
		(r->type[COL_MTIME_NS] == SQLITE_NULL) ||
	    (r->type[COL_CTIME_S] == SQLITE_NULL) !=
		(r->type[COL_CTIME_NS] == SQLITE_NULL))
		return wrong(out, "half a time");
	for (unsigned col = 0; col < COLS; col++) {
		if (columns[col].has != 0 && r->type[col] == SQLITE_NULL)
			continue;
		x->has |= columns[col].has;
		if (is_integer(col) && !get_integer(r, col, &v[col], out))
			return false;
	}
	set_integers(x, v);
	return get_others(r, x, out) && check_rules(x, out);
}

static int bad_row(struct catalog_sql *q, sqlite3_stmt *stmt, const char *shown,
    const char *what, struct err *e)
{
	struct buf name = BUF_INIT;
	struct err ignored = ERR_INIT; /* a name less is no harm */
	const char *text = NULL;
	const void *p = sqlite3_column_blob(stmt, COL_NAME);
	size_t n = (size_t)sqlite3_column_bytes(stmt, COL_NAME);

	/* SQLite gives NULL also when memory is out; nothing is wrong then. */
	if (sqlite3_errcode(q->db) == SQLITE_NOMEM)
		return err_nomem(e);
	if (p != NULL &&
	    text_append_name(&name, p, n < TEXT ? n : TEXT, &ignored) == 0)
		text = buf_cstr(&name, &ignored);
	(void)err_set(e, ERR_CORRUPT,
	    "'%s': row '%s' of directory %" PRId64 ": %s", shown,
	    text != NULL ? text : "",
	    (int64_t)sqlite3_column_int64(stmt, COL_PARENT), what);
	buf_release(&name);
	return e->code;
}

int catalog_row_decode(struct catalog_sql *q, sqlite3_stmt *stmt,
    const char *shown, struct catalog_entry *ret, struct err *e)
{
	struct catalog_entry x = { .has = 0 };
	char what[CATALOG_WRONG_SIZE];
	struct row r;

	get_row(stmt, &r);
	if (!decode(&r, &x, what))
		return bad_row(q, stmt, shown, what, e);
	*ret = x;
	return 0;
}

static int bind_bytes(struct catalog_sql *q, sqlite3_stmt *stmt, unsigned col,
    const struct catalog_entry *x, struct err *e)
{
	int at = (int)col + 1;

	switch (col) {
	case COL_NAME:
		return catalog_sql_bind_blob(
		    q, stmt, at, x->name.p, x->name.n, e);
	case COL_KIND:
		return catalog_sql_bind_text(
		    q, stmt, at, kinds[x->kind].word, e);
	case COL_SHA256:
		return catalog_sql_bind_blob(
		    q, stmt, at, x->sha256.b, DIGEST_SIZE, e);
	case COL_HOLES:
		return catalog_sql_bind_blob(
		    q, stmt, at, x->holes.p, x->holes.n, e);
	default:
		return catalog_sql_bind_blob(
		    q, stmt, at, x->target.p, x->target.n, e);
	}
}

int catalog_row_bind(struct catalog_sql *q, sqlite3_stmt *stmt,
    const struct catalog_entry *entry, struct err *e)
{
	int rc = 0;

	for (unsigned col = 0; col < COLS && rc == 0; col++) {
		if (is_null(entry, col)) {
			int code = sqlite3_bind_null(stmt, (int)col + 1);

			if (code != SQLITE_OK)
				rc = catalog_sql_fail(q, code, e);
		} else if (is_integer(col)) {
			rc = catalog_sql_bind_int(
			    q, stmt, (int)col + 1, value_of(entry, col), e);
		} else {
			rc = bind_bytes(q, stmt, col, entry, e);
		}
	}
	return rc;
}

static int append_bytes(
    struct buf *out, uint8_t type, const void *p, size_t n, struct err *e)
{
	uint8_t head[5] = { type };
	int rc = 0;

	bytes_put_le32(head + 1, (uint32_t)n);
	rc = buf_append(out, head, sizeof(head), e);
	return rc == 0 && n > 0 ? buf_append(out, p, n, e) : rc;
}

static int append_column(sqlite3_value *v, struct buf *out, struct err *e)
{
	int type = sqlite3_value_type(v);
	uint8_t integer[9] = { type == SQLITE_INTEGER };
	const void *p = NULL;

	if (type == SQLITE_NULL)
		return buf_append(out, integer, 1, e);
	if (type == SQLITE_INTEGER) {
		bytes_put_le64(integer + 1, (uint64_t)sqlite3_value_int64(v));
		return buf_append(out, integer, sizeof(integer), e);
	}
	p = type == SQLITE_TEXT ? (const void *)sqlite3_value_text(v)
				: sqlite3_value_blob(v);
	return append_bytes(out, type == SQLITE_TEXT ? 2 : 3, p,
	    (size_t)sqlite3_value_bytes(v), e);
}

int catalog_row_append(
    struct catalog_sql *q, sqlite3_stmt *stmt, struct buf *out, struct err *e)
{
	int rc = 0;

	for (int col = 0; col < COLS && rc == 0; col++)
		rc = append_column(sqlite3_column_value(stmt, col), out, e);
	if (rc == 0 && sqlite3_errcode(q->db) == SQLITE_NOMEM)
		rc = err_nomem(e);
	return rc;
}
