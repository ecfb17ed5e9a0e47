/* SPDX-License-Identifier: MIT */
/*
 * catalog_attr: what rows refer to: attributes, accounts, mounts, positions;
 * and meta.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "datastore/base/bytes.h"
#include "datastore/base/text.h"
#include "index/catalog_internal.h"

#define XATTR_HEAD 6U

/* Whichever database it was. */
static int bad(const struct catalog *c, const char *table, int64_t id,
    const char *what, struct err *e)
{
	return err_set(e, ERR_CORRUPT, "'%s': %s %" PRId64 " %s", c->shown,
	    table, id, what);
}

int catalog_extent(struct catalog *c, uint64_t pos, uint64_t length,
    struct catalog_extent *ret, struct err *e)
{
	sqlite3_stmt *stmt = NULL;
	bool found = false;
	int64_t v[3] = { 0 };
	uint64_t left = 0;
	int rc = 0;

	if (pos > INT64_MAX)
		return bad(c, "position", -1, "is none", e);
	rc = catalog_query(c, CATALOG_Q_EXTENT, &stmt, e);
	if (rc == 0)
		rc = catalog_sql_bind_int(&c->q, stmt, 1, (int64_t)pos, e);
	if (rc == 0)
		rc = catalog_sql_step(&c->q, stmt, &found, e);
	for (int i = 0; rc == 0 && found && i < 3; i++) {
		if (sqlite3_column_type(stmt, i) != SQLITE_INTEGER)
			rc = bad(c, "run", (int64_t)pos, "is malformed", e);
		v[i] = sqlite3_column_int64(stmt, i);
	}
	catalog_sql_reset(stmt);
	if (rc < 0)
		return rc;
	if (!found || v[0] < 0 || v[0] > (int64_t)pos || v[1] <= 0 ||
	    (int64_t)pos - v[0] >= v[1])
		return bad(c, "position", (int64_t)pos, "is in no run", e);
	if (v[2] < 0 || v[1] > INT64_MAX - v[2] || v[1] > INT64_MAX - v[0])
		return bad(c, "run", v[0], "is out of all ranges", e);
	left = (uint64_t)v[1] - (pos - (uint64_t)v[0]);
	ret->start = (uint64_t)v[2] + (pos - (uint64_t)v[0]);
	ret->length = left < length ? left : length;
	return 0;
}

bool catalog_attr_next(
    const struct buf *data, size_t *at, struct catalog_xattr *ret)
{
	const uint8_t *p = NULL;
	size_t left = data->len - *at;
	size_t name_n = 0;
	size_t value_n = 0;

	if (left < XATTR_HEAD)
		return false;
	p = data->data + *at;
	name_n = (size_t)p[0] | (size_t)p[1] << 8;
	value_n = bytes_get_le32(p + 2);
	if (name_n == 0 || name_n >= sizeof(ret->name_z) ||
	    left - XATTR_HEAD < name_n || left - XATTR_HEAD - name_n < value_n)
		return false;
	ret->name.p = p + XATTR_HEAD;
	ret->name.n = name_n;
	memcpy(ret->name_z, ret->name.p, name_n);
	ret->name_z[name_n] = '\0';
	ret->value.p = ret->name.p + name_n;
	ret->value.n = value_n;
	*at += XATTR_HEAD + name_n + value_n;
	return true;
}

int catalog_attr_append(struct buf *data, const char *name, const void *value,
    size_t n, struct err *e)
{
	size_t name_n = strlen(name);
	uint8_t head[XATTR_HEAD] = { (uint8_t)name_n, (uint8_t)(name_n >> 8) };
	int rc = 0;

	if (name_n == 0 || name_n > 255 || n > CATALOG_VALUE_MAX ||
	    data->len + XATTR_HEAD + name_n + n > CATALOG_VALUE_MAX) {
		return err_set(e, ERR_LIMIT,
		    "attributes of more than %u bytes, or one with a name of "
		    "%zu, want 1 to 255",
		    CATALOG_VALUE_MAX, name_n);
	}
	bytes_put_le32(head + 2, (uint32_t)n);
	rc = buf_reserve(data, XATTR_HEAD + name_n + n, e);
	if (rc == 0)
		rc = buf_append(data, head, sizeof(head), e);
	if (rc == 0)
		rc = buf_append(data, name, name_n, e);
	if (rc == 0 && n > 0)
		rc = buf_append(data, value, n, e);
	return rc;
}

/* Whole records, names in order, without zero bytes. */
static bool attr_is_sound(const struct buf *data)
{
	struct catalog_xattr x = { .name.n = 0 };
	char before[sizeof(x.name_z)] = "";
	size_t at = 0;

	while (catalog_attr_next(data, &at, &x)) {
		if (memchr(x.name.p, '\0', x.name.n) != NULL ||
		    strcmp(before, x.name_z) >= 0)
			return false;
		memcpy(before, x.name_z, x.name.n + 1);
	}
	return at == data->len;
}

int catalog_attr(struct catalog *c, int64_t id, struct buf *out, struct err *e)
{
	sqlite3_stmt *stmt = NULL;
	bool found = false;
	int rc = catalog_query(c, CATALOG_Q_ATTR, &stmt, e);

	buf_reset(out);
	if (rc == 0)
		rc = catalog_sql_bind_int(&c->q, stmt, 1, id, e);
	if (rc == 0)
		rc = catalog_sql_step(&c->q, stmt, &found, e);
	if (rc == 0 && !found)
		rc = bad(c, "attr", id, "is not there", e);
	if (rc == 0 && sqlite3_column_type(stmt, 0) != SQLITE_BLOB)
		rc = bad(c, "attr", id, "is not a blob", e);
	if (rc == 0) {
		const void *p = sqlite3_column_blob(stmt, 0);
		size_t n = (size_t)sqlite3_column_bytes(stmt, 0);

		rc = n > 0 && p != NULL ? buf_append(out, p, n, e) : 0;
	}
	catalog_sql_reset(stmt);
	if (rc == 0 && !attr_is_sound(out))
		rc = bad(c, "attr", id, "is malformed", e);
	return rc;
}

/* A blob or text of the row that the statement is on, replacing out. */
static int copy_column(
    sqlite3_stmt *stmt, int col, struct buf *out, struct err *e)
{
	const void *p = sqlite3_column_blob(stmt, col);
	size_t n = (size_t)sqlite3_column_bytes(stmt, col);

	buf_reset(out);
	return n > 0 && p != NULL ? buf_append(out, p, n, e) : 0;
}

int catalog_account(struct catalog *c, enum catalog_account kind, uint32_t id,
    struct buf *name, bool *ret_found, struct err *e)
{
	const char *word = kind == CATALOG_USER ? "user" : "group";
	sqlite3_stmt *stmt = NULL;
	bool found = false;
	int type = SQLITE_NULL;
	int rc = catalog_query(c, CATALOG_Q_ACCOUNT, &stmt, e);

	if (rc == 0)
		rc = catalog_sql_bind_text(&c->q, stmt, 1, word, e);
	if (rc == 0)
		rc = catalog_sql_bind_int(&c->q, stmt, 2, id, e);
	if (rc == 0)
		rc = catalog_sql_step(&c->q, stmt, &found, e);
	if (rc == 0 && found)
		type = sqlite3_column_type(stmt, 0);
	if (type != SQLITE_NULL && type != SQLITE_BLOB)
		rc = bad(c, "account", id, "has a name that is no blob", e);
	found = type == SQLITE_BLOB;
	if (rc == 0 && found)
		rc = copy_column(stmt, 0, name, e);
	catalog_sql_reset(stmt);
	if (rc == 0 && found && name->len > 0 &&
	    memchr(name->data, '\0', name->len) != NULL)
		rc = bad(c, "account", id, "has a zero byte in its name", e);
	if (rc == 0)
		*ret_found = found && name->len > 0;
	return rc;
}

int catalog_is_cut(struct catalog *c, const struct catalog_entry *entry,
    bool *ret_cut, struct err *e)
{
	uint64_t offset = 0;

	*ret_cut = false;
	if ((entry->has & CATALOG_HAS_STATE) == 0 ||
	    (entry->state & CATALOG_STATE_SHORT) == 0)
		return 0;
	return catalog_incomplete(c, ret_cut, &offset, e);
}

int catalog_mount(struct catalog *c, int64_t id, struct buf *path,
    struct buf *fstype, bool *ret_found, struct err *e)
{
	sqlite3_stmt *stmt = NULL;
	bool found = false;
	int rc = catalog_query(c, CATALOG_Q_MOUNT, &stmt, e);

	if (rc == 0)
		rc = catalog_sql_bind_int(&c->q, stmt, 1, id, e);
	if (rc == 0)
		rc = catalog_sql_step(&c->q, stmt, &found, e);
	if (rc == 0 && found)
		rc = copy_column(stmt, 0, path, e);
	if (rc == 0 && found)
		rc = copy_column(stmt, 1, fstype, e);
	catalog_sql_reset(stmt);
	if (rc == 0)
		*ret_found = found;
	return rc;
}

int catalog_meta(struct catalog *c, const char *key, struct buf *out,
    bool *ret_found, struct err *e)
{
	sqlite3_stmt *stmt = NULL;
	bool found = false;
	int rc = catalog_query(c, CATALOG_Q_META, &stmt, e);

	if (rc == 0)
		rc = catalog_sql_bind_text(&c->q, stmt, 1, key, e);
	if (rc == 0)
		rc = catalog_sql_step(&c->q, stmt, &found, e);
	if (rc == 0 && found) {
		const unsigned char *p = sqlite3_column_text(stmt, 0);
		size_t n = (size_t)sqlite3_column_bytes(stmt, 0);

		buf_reset(out);
		rc = n > 0 && p != NULL ? buf_append(out, p, n, e) : 0;
	}
	catalog_sql_reset(stmt);
	if (rc == 0)
		*ret_found = found;
	return rc;
}

int catalog_incomplete(
    struct catalog *c, bool *ret, uint64_t *ret_offset, struct err *e)
{
	struct buf text = BUF_INIT;
	struct err ignored = ERR_INIT; /* then it is not known where */
	const char *s = NULL;
	bool found = false;
	int rc = catalog_meta(c, "incomplete", &text, &found, e);

	*ret_offset = 0;
	if (rc == 0 && found) {
		s = buf_cstr(&text, e);
		rc = s == NULL ? e->code : 0;
	}
	if (s != NULL)
		(void)text_parse_u64(s, 0, INT64_MAX, ret_offset, &ignored);
	buf_release(&text);
	if (rc == 0)
		*ret = found;
	return rc;
}

int catalog_entry_copy(const struct catalog_entry *entry,
    struct catalog_entry **ret, struct err *e)
{
	struct catalog_bytes *parts[3] = { NULL };
	struct catalog_entry *x = calloc(
	    1, sizeof(*x) + entry->name.n + entry->holes.n + entry->target.n);
	uint8_t *at = NULL;

	if (x == NULL)
		return err_nomem(e);
	*x = *entry;
	at = (uint8_t *)(x + 1);
	parts[0] = &x->name;
	parts[1] = &x->holes;
	parts[2] = &x->target;
	for (size_t i = 0; i < 3; i++) {
		if (parts[i]->n > 0)
			memcpy(at, parts[i]->p, parts[i]->n);
		parts[i]->p = at;
		at += parts[i]->n;
	}
	*ret = x;
	return 0;
}
