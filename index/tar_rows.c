/* SPDX-License-Identifier: MIT */
#include "index/tar_rows.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "datastore/base/bytes.h"
#include "datastore/base/digest.h"
#include "index/hashidx.h"
#include "index/spill.h"

#define KEY_SIZE 16

/*
 * Structs are put aside as they lie in memory: nobody but this run reads them.
 * A name, and the node that it names; hard links share a node.
 */
struct name {
	uint8_t key[KEY_SIZE]; /* of parent and name */
	int64_t id;
	int64_t parent;
	int64_t link; /* 0: none */
	uint64_t member;
	uint64_t node;
	uint64_t text;
	uint32_t text_n;
	bool directory;
	bool implied; /* by what lies in it: there is no node */
};

struct node {
	struct catalog_entry row; /* its pointers mean nothing */
	uint64_t target;
	uint64_t holes;
};

struct tar_rows {
	struct tar_rows_sink sink;
	struct spill names; /* struct name */
	struct spill rest;  /* struct node, names, targets, holes */
	struct hashidx index;
	int64_t next_id;
	struct buf key;     /* what is hashed */
	struct buf dir;     /* the path of the directory that was last met... */
	int64_t dir_id;     /* ... and its id */
	struct buf text[3]; /* name, target, holes of the row handed over */
};

static int node_write(struct tar_rows *r, const struct catalog_entry *row,
    uint64_t at, struct err *e)
{
	struct node n;
	int rc = 0;

	memset(&n, 0, sizeof(n));
	n.row = *row;
	if ((row->has & CATALOG_HAS_TARGET) != 0)
		rc = spill_append(
		    &r->rest, row->target.p, row->target.n, &n.target, e);
	if (rc == 0 && (row->has & CATALOG_HAS_HOLES) != 0)
		rc = spill_append(
		    &r->rest, row->holes.p, row->holes.n, &n.holes, e);
	return rc < 0 ? rc : spill_write(&r->rest, &n, sizeof(n), at, e);
}

static int node_new(struct tar_rows *r, const struct catalog_entry *row,
    uint64_t *ret, struct err *e)
{
	static const struct node empty;
	uint64_t at = 0;
	int rc = spill_append(&r->rest, &empty, sizeof(empty), &at, e);

	if (rc == 0)
		rc = node_write(r, row, at, e);
	if (rc == 0)
		*ret = at;
	return rc;
}

static int load(struct tar_rows *r, struct buf *out, uint64_t at, size_t n,
    struct catalog_bytes *ret, struct err *e)
{
	int rc = 0;

	buf_reset(out);
	rc = buf_reserve(out, n + 1, e);
	if (rc == 0)
		rc = spill_read(&r->rest, out->data, n, at, e);
	if (rc == 0)
		*ret = (struct catalog_bytes){ out->data, n };
	return rc;
}

/* The row of a name, into the hands of the sink. */
static int give(
    struct tar_rows *r, const struct name *name, bool replaced, struct err *e)
{
	struct catalog_entry row = { .kind = CATALOG_DIR };
	struct node node;
	int rc = 0;

	if (!name->implied) {
		rc = spill_read(&r->rest, &node, sizeof(node), name->node, e);
		if (rc < 0)
			return rc;
		row = node.row;
		if ((row.has & CATALOG_HAS_TARGET) != 0)
			rc = load(r, &r->text[1], node.target, row.target.n,
			    &row.target, e);
		if (rc == 0 && (row.has & CATALOG_HAS_HOLES) != 0)
			rc = load(r, &r->text[2], node.holes, row.holes.n,
			    &row.holes, e);
	}
	if (rc == 0)
		rc = load(
		    r, &r->text[0], name->text, name->text_n, &row.name, e);
	if (rc < 0)
		return rc;
	row.parent = name->parent;
	row.id = name->id;
	row.link = name->link;
	row.has &= ~(unsigned)CATALOG_HAS_LINK;
	if (name->link != 0)
		row.has |= CATALOG_HAS_LINK;
	return r->sink.row(r->sink.ctx, &row, name->member, replaced, e);
}

static int name_read(
    struct tar_rows *r, uint32_t nr, struct name *ret, struct err *e)
{
	return spill_read(
	    &r->names, ret, sizeof(*ret), (uint64_t)nr * sizeof(*ret), e);
}

static int name_write(
    struct tar_rows *r, uint32_t nr, const struct name *n, struct err *e)
{
	return spill_write(
	    &r->names, n, sizeof(*n), (uint64_t)nr * sizeof(*n), e);
}

static int make_key(struct tar_rows *r, int64_t parent,
    struct catalog_bytes text, uint8_t key[KEY_SIZE], struct err *e)
{
	uint8_t number[8];
	struct digest d;
	int rc = 0;

	bytes_put_le64(number, (uint64_t)parent);
	buf_reset(&r->key);
	rc = buf_append(&r->key, number, sizeof(number), e);
	if (rc == 0 && text.n > 0)
		rc = buf_append(&r->key, text.p, text.n, e);
	if (rc == 0)
		rc = digest_of(r->key.data, r->key.len, &d, e);
	if (rc == 0)
		memcpy(key, d.b, KEY_SIZE);
	return rc;
}

/* *ret_found false: name->key is set nevertheless. */
static int name_find(struct tar_rows *r, int64_t parent,
    struct catalog_bytes text, struct name *name, uint32_t *ret_nr,
    bool *ret_found, struct err *e)
{
	uint8_t key[KEY_SIZE];
	uint32_t nr = 0;
	size_t at = 0;
	int rc = make_key(r, parent, text, key, e);

	while (
	    rc == 0 && hashidx_next(&r->index, bytes_get_le32(key), &at, &nr)) {
		rc = name_read(r, nr, name, e);
		if (rc == 0 && memcmp(name->key, key, KEY_SIZE) == 0) {
			*ret_nr = nr;
			*ret_found = true;
			return 0;
		}
	}
	if (rc < 0)
		return rc;
	memset(name, 0, sizeof(*name));
	memcpy(name->key, key, KEY_SIZE);
	name->parent = parent;
	*ret_found = false;
	return 0;
}

/* A name that was not there: all but id and text is set. */
static int name_add(struct tar_rows *r, struct name *name,
    struct catalog_bytes text, struct err *e)
{
	uint64_t nr = spill_size(&r->names) / sizeof(*name);
	int rc =
	    hashidx_add(&r->index, bytes_get_le32(name->key), (uint32_t)nr, e);

	if (rc == 0)
		rc = spill_append(&r->rest, text.p, text.n, &name->text, e);
	if (rc < 0)
		return rc;
	name->text_n = (uint32_t)text.n;
	name->id = r->next_id++;
	return spill_append(&r->names, name, sizeof(*name), NULL, e);
}

static int tell_gives_way(
    struct tar_rows *r, struct catalog_bytes path, struct err *e)
{
	const char *s = NULL;
	int rc = 0;

	buf_reset(&r->key);
	rc = buf_append(&r->key, path.p, path.n, e);
	s = rc == 0 ? buf_cstr(&r->key, e) : NULL;
	if (s == NULL)
		return e->code;
	r->sink.gives_way(r->sink.ctx, s);
	return 0;
}

/* The id of a directory that something lies in; text is the end of path. */
static int enter(struct tar_rows *r, int64_t parent, struct catalog_bytes path,
    struct catalog_bytes text, uint64_t member, int64_t *ret, struct err *e)
{
	struct name name;
	uint32_t nr = 0;
	bool found = false;
	int rc = name_find(r, parent, text, &name, &nr, &found, e);

	if (rc < 0)
		return rc;
	if (found && name.directory) {
		*ret = name.id;
		return 0;
	}
	if (found)
		rc = tell_gives_way(r, path, e);
	if (rc == 0 && found)
		rc = give(r, &name, true, e);
	name.directory = true;
	name.implied = true;
	name.link = 0;
	name.member = member;
	if (rc == 0 && found) {
		name.id = r->next_id++;
		rc = name_write(r, nr, &name, e);
	} else if (rc == 0) {
		rc = name_add(r, &name, text, e);
	}
	if (rc == 0)
		*ret = name.id;
	return rc;
}

/* The id of the directory of a path. */
static int enter_all(struct tar_rows *r, struct catalog_bytes dir,
    uint64_t member, int64_t *ret, struct err *e)
{
	int64_t id = CATALOG_ROOT_ID;
	size_t at = 0;
	int rc = 0;

	if (dir.n == r->dir.len &&
	    (dir.n == 0 || memcmp(dir.p, r->dir.data, dir.n) == 0)) {
		*ret = r->dir_id;
		return 0;
	}
	while (rc == 0 && at < dir.n) {
		const uint8_t *slash = memchr(dir.p + at, '/', dir.n - at);
		size_t end = slash != NULL ? (size_t)(slash - dir.p) : dir.n;
		struct catalog_bytes text = { dir.p + at, end - at };
		struct catalog_bytes path = { dir.p, end };

		rc = enter(r, id, path, text, member, &id, e);
		at = end + 1;
	}
	if (rc < 0)
		return rc;
	buf_reset(&r->dir);
	rc = dir.n > 0 ? buf_append(&r->dir, dir.p, dir.n, e) : 0;
	if (rc < 0) {
		/* No directory has this path. */
		r->dir.len = 0;
		r->dir_id = CATALOG_ROOT_ID;
		return rc;
	}
	r->dir_id = id;
	*ret = id;
	return 0;
}

/* Into the path of the directory and the name in it; the root: parent 0. */
static void split(struct catalog_bytes path, struct catalog_bytes *ret_dir,
    struct catalog_bytes *ret_text)
{
	const uint8_t *slash = path.n > 0 ? memrchr(path.p, '/', path.n) : NULL;
	size_t n = slash != NULL ? (size_t)(slash - path.p) : 0;

	*ret_dir = (struct catalog_bytes){ path.p, n };
	if (slash != NULL)
		n++;
	*ret_text = (struct catalog_bytes){ path.p + n, path.n - n };
}

static int find_path(struct tar_rows *r, struct catalog_bytes path,
    uint64_t member, struct name *ret, uint32_t *ret_nr, bool *ret_found,
    struct catalog_bytes *ret_text, struct err *e)
{
	struct catalog_bytes dir;
	int64_t parent = 0;
	int rc = 0;

	split(path, &dir, ret_text);
	if (path.n > 0)
		rc = enter_all(r, dir, member, &parent, e);
	return rc < 0
	    ? rc
	    : name_find(r, parent, *ret_text, ret, ret_nr, ret_found, e);
}

/* The node is the name's from now on. */
static int set(struct tar_rows *r, struct name *name, uint32_t nr, bool found,
    struct catalog_bytes text, struct err *e)
{
	return found ? name_write(r, nr, name, e) : name_add(r, name, text, e);
}

int tar_rows_put(struct tar_rows *r, struct catalog_bytes path,
    const struct catalog_entry *row, uint64_t member, enum tar_rows_put *ret,
    struct err *e)
{
	bool directory = row->kind == CATALOG_DIR;
	struct catalog_bytes text;
	struct name name;
	uint32_t nr = 0;
	bool found = false;
	int rc = find_path(r, path, member, &name, &nr, &found, &text, e);

	if (rc < 0)
		return rc;
	if (found && name.directory && !directory) {
		*ret = TAR_ROWS_DIRECTORY;
		return 0;
	}
	if (found && !name.implied)
		rc = give(r, &name, true, e);
	/* The old id may be the name of a group of links. */
	if (rc == 0 && found && !name.directory)
		name.id = r->next_id++;
	if (rc == 0)
		rc = node_new(r, row, &name.node, e);
	if (rc < 0)
		return rc;
	name.directory = directory;
	name.implied = false;
	name.member = member;
	name.link = 0;
	rc = set(r, &name, nr, found, text, e);
	if (rc == 0)
		*ret = TAR_ROWS_LISTED;
	return rc;
}

/* What a link leads to; one more name of it comes. */
static int find_target(struct tar_rows *r, struct catalog_bytes path,
    struct name *ret, bool *ret_found, struct err *e)
{
	struct catalog_bytes rest = path;
	int64_t parent = CATALOG_ROOT_ID;
	bool found = path.n > 0;
	uint32_t nr = 0;
	int rc = 0;

	while (rc == 0 && found && rest.n > 0) {
		const uint8_t *slash = memchr(rest.p, '/', rest.n);
		size_t n = slash != NULL ? (size_t)(slash - rest.p) : rest.n;

		rc = name_find(r, parent, (struct catalog_bytes){ rest.p, n },
		    ret, &nr, &found, e);
		parent = ret->id;
		if (slash != NULL)
			n++;
		rest = (struct catalog_bytes){ rest.p + n, rest.n - n };
	}
	found = found && !ret->directory;
	if (rc == 0 && found && ret->link == 0) {
		ret->link = ret->id;
		rc = name_write(r, nr, ret, e);
	}
	if (rc == 0)
		*ret_found = found;
	return rc;
}

static int link_name(struct tar_rows *r, struct catalog_bytes path,
    const struct name *target, uint64_t member, enum tar_rows_put *ret,
    struct err *e)
{
	struct catalog_bytes text;
	struct name name;
	uint32_t nr = 0;
	bool found = false;
	int rc = find_path(r, path, member, &name, &nr, &found, &text, e);

	if (rc < 0)
		return rc;
	*ret = TAR_ROWS_LISTED;
	if (found && name.directory) {
		*ret = TAR_ROWS_DIRECTORY;
		return 0;
	}
	/* A link to itself, or one that is there already. */
	if (found && name.node == target->node)
		return 0;
	if (found)
		rc = give(r, &name, true, e);
	if (rc < 0)
		return rc;
	if (found)
		name.id = r->next_id++;
	name.member = member;
	name.node = target->node;
	name.link = target->link;
	return set(r, &name, nr, found, text, e);
}

int tar_rows_link(struct tar_rows *r, struct catalog_bytes path,
    struct catalog_bytes target, const struct catalog_entry *content,
    uint64_t member, enum tar_rows_put *ret, struct err *e)
{
	struct name name;
	bool found = false;
	int rc = find_target(r, target, &name, &found, e);

	if (rc < 0)
		return rc;
	if (!found && content != NULL)
		return tar_rows_put(r, path, content, member, ret, e);
	if (!found) {
		*ret = TAR_ROWS_NO_TARGET;
		return 0;
	}
	if (content != NULL)
		rc = node_write(r, content, name.node, e);
	return rc < 0 ? rc : link_name(r, path, &name, member, ret, e);
}

int tar_rows_finish(struct tar_rows *r, int64_t *ret_next_id, struct err *e)
{
	uint64_t n = spill_size(&r->names) / sizeof(struct name);
	int rc = 0;

	for (uint64_t i = 0; i < n && rc == 0; i++) {
		struct name name;

		rc = name_read(r, (uint32_t)i, &name, e);
		if (rc == 0)
			rc = give(r, &name, false, e);
	}
	if (rc == 0)
		*ret_next_id = r->next_id;
	return rc;
}

int tar_rows_new(
    const struct tar_rows_sink *sink, struct tar_rows **ret, struct err *e)
{
	static const struct spill none = SPILL_INIT;
	static const struct catalog_bytes root = { (const uint8_t *)"", 0 };
	struct tar_rows *r = calloc(1, sizeof(*r));
	int64_t id = 0;
	int rc = 0;

	if (r == NULL)
		return err_nomem(e);
	r->sink = *sink;
	r->next_id = CATALOG_ROOT_ID;
	r->dir_id = CATALOG_ROOT_ID;
	r->names = r->rest = none;
	rc = spill_open(&r->names, e);
	if (rc == 0)
		rc = spill_open(&r->rest, e);
	if (rc == 0)
		rc = enter(r, 0, root, root, 0, &id, e);
	if (rc < 0) {
		tar_rows_free(r);
		return rc;
	}
	assert(id == CATALOG_ROOT_ID);
	*ret = r;
	return 0;
}

void tar_rows_free(struct tar_rows *r)
{
	if (r == NULL)
		return;
	spill_close(&r->names);
	spill_close(&r->rest);
	hashidx_release(&r->index);
	buf_release(&r->key);
	buf_release(&r->dir);
	for (size_t i = 0; i < sizeof(r->text) / sizeof(r->text[0]); i++)
		buf_release(&r->text[i]);
	free(r);
}

int tar_rows_path(
    const char *name, struct buf *out, const char **ret_wrong, struct err *e)
{
	unsigned depth = 0;
	/* The root's is empty, but something to point at. */
	int rc = buf_reserve(out, 1, e);

	buf_reset(out);
	*ret_wrong = NULL;
	for (const char *p = name; *p != '\0' && rc == 0;) {
		size_t n = strcspn(p, "/");

		if (n == 2 && memcmp(p, "..", 2) == 0)
			*ret_wrong = "its name has '..'";
		else if (n > CATALOG_NAME_MAX)
			*ret_wrong = "its name is too long";
		else if (n > 0 && (n > 1 || *p != '.')) {
			if (++depth > TAR_ROWS_DEPTH_MAX)
				*ret_wrong = "it lies in too many directories";
			if (out->len > 0)
				rc = buf_append(out, "/", 1, e);
			if (rc == 0)
				rc = buf_append(out, p, n, e);
		}
		if (*ret_wrong != NULL)
			return 0;
		p += n;
		p += strspn(p, "/");
	}
	return rc;
}
