/* SPDX-License-Identifier: MIT */
/*
 * tree_export_entry: rows as libarchive's entries.
 */
#include <string.h>

#include "datastore/base/bytes.h"
#include "index/catalog_salvage.h"
#include "index/tree_export_internal.h"

#define ACL_PREFIX "system.posix_acl_"
#define ACL_VERSION 2
#define ACL_ENTRY_SIZE 8

void tree_export_entry_release(struct tree_export_entry *x)
{
	buf_release(&x->text);
	buf_release(&x->attr);
}

/* Bytes as a string; it lives until the next one. */
static int make_text(struct tree_export_entry *x, struct catalog_bytes b,
    const char *suffix, const char **ret, struct err *e)
{
	int rc = 0;

	buf_reset(&x->text);
	if (b.n > 0)
		rc = buf_append(&x->text, b.p, b.n, e);
	if (rc == 0)
		rc = buf_append_str(&x->text, suffix, e);
	if (rc < 0)
		return rc;
	*ret = buf_cstr(&x->text, e);
	return *ret == NULL ? e->code : 0;
}

static int set_name(struct tree_export_entry *x, struct catalog_bytes path,
    const struct catalog_entry *row, struct err *e)
{
	static const struct catalog_bytes dot = { (const uint8_t *)".", 1 };
	const char *text = NULL;
	int rc = make_text(x, path.n > 0 ? path : dot,
	    row->kind == CATALOG_DIR ? "/" : "", &text, e);

	if (rc == 0)
		archive_entry_copy_pathname(x->ae, text);
	if (rc == 0 && row->kind == CATALOG_SYMLINK) {
		rc = make_text(x, row->target, "", &text, e);
		if (rc == 0)
			archive_entry_copy_symlink(x->ae, text);
	}
	return rc;
}

/* Into x->text.  One that the catalog lost is no end: the number stands. */
static int look_up(struct tree_export_entry *x, enum catalog_account kind,
    uint32_t id, bool *ret_found, struct err *e)
{
	int rc = 0;

	buf_reset(&x->text);
	rc = catalog_account(x->catalog, kind, id, &x->text, ret_found, e);
	if (rc == 0 || !catalog_can_salvage(e))
		return rc;
	if (x->nameless++ == 0)
		task_message(x->task, TASK_WARNING,
		    "%s; owners whose names can not be read go by their "
		    "numbers (said once)",
		    e->msg);
	*ret_found = false;
	return err_forget(e);
}

static int set_account(struct tree_export_entry *x, enum catalog_account kind,
    uint32_t id, struct err *e)
{
	const char *text = NULL;
	bool found = false;
	int rc = 0;

	rc = look_up(x, kind, id, &found, e);
	if (rc < 0 || !found)
		return rc;
	text = buf_cstr(&x->text, e);
	if (text == NULL)
		return e->code;
	if (kind == CATALOG_USER)
		archive_entry_copy_uname(x->ae, text);
	else
		archive_entry_copy_gname(x->ae, text);
	return 0;
}

static int set_owner(
    struct tree_export_entry *x, const struct catalog_entry *row, struct err *e)
{
	int rc = 0;

	if ((row->has & CATALOG_HAS_UID) != 0) {
		archive_entry_set_uid(x->ae, row->uid);
		rc = set_account(x, CATALOG_USER, row->uid, e);
	}
	if (rc == 0 && (row->has & CATALOG_HAS_GID) != 0) {
		archive_entry_set_gid(x->ae, row->gid);
		rc = set_account(x, CATALOG_GROUP, row->gid, e);
	}
	return rc;
}

static int acl_tag(unsigned tag)
{
	switch (tag) {
	case 1:
		return ARCHIVE_ENTRY_ACL_USER_OBJ;
	case 2:
		return ARCHIVE_ENTRY_ACL_USER;
	case 4:
		return ARCHIVE_ENTRY_ACL_GROUP_OBJ;
	case 8:
		return ARCHIVE_ENTRY_ACL_GROUP;
	case 16:
		return ARCHIVE_ENTRY_ACL_MASK;
	case 32:
		return ARCHIVE_ENTRY_ACL_OTHER;
	default:
		return 0;
	}
}

/* The name of whom an ACL means; NULL: none. */
static int acl_name(struct tree_export_entry *x, unsigned tag, uint32_t id,
    const char **ret, struct err *e)
{
	bool found = false;
	int rc = 0;

	*ret = NULL;
	if (tag != 2 && tag != 8)
		return 0;
	rc = look_up(x, tag == 2 ? CATALOG_USER : CATALOG_GROUP, id, &found, e);
	if (rc < 0 || !found)
		return rc;
	*ret = buf_cstr(&x->text, e);
	return *ret == NULL ? e->code : 0;
}

/* From the kernel's form; *ret_done false: it is not in that. */
static int set_acl(struct tree_export_entry *x, struct catalog_bytes v,
    int type, bool *ret_done, struct err *e)
{
	*ret_done = false;
	if (v.n < 4 || (v.n - 4) % ACL_ENTRY_SIZE != 0 ||
	    bytes_get_le32(v.p) != ACL_VERSION)
		return 0;
	for (size_t at = 4; at < v.n; at += ACL_ENTRY_SIZE) {
		uint32_t word = bytes_get_le32(v.p + at);
		uint32_t id = bytes_get_le32(v.p + at + 4);
		unsigned tag = word & 0xffff;
		bool named = tag == 2 || tag == 8;
		const char *name = NULL;
		int rc = acl_name(x, tag, id, &name, e);

		if (rc < 0)
			return rc;
		if (acl_tag(tag) == 0 || (named && id > INT32_MAX))
			return 0;
		(void)archive_entry_acl_add_entry(x->ae, type,
		    (int)(word >> 16 & 7), acl_tag(tag), named ? (int)id : -1,
		    name);
	}
	*ret_done = true;
	return 0;
}

static int set_attr(
    struct tree_export_entry *x, const struct catalog_entry *row, struct err *e)
{
	struct catalog_xattr attr;
	size_t at = 0;
	int rc = 0;

	if ((row->has & CATALOG_HAS_ATTR) == 0 || x->format != TREE_EXPORT_TAR)
		return 0;
	buf_reset(&x->attr);
	rc = catalog_attr(x->catalog, row->attr, &x->attr, e);
	while (rc == 0 && catalog_attr_next(&x->attr, &at, &attr)) {
		bool done = false;

		if (strcmp(attr.name_z, ACL_PREFIX "access") == 0)
			rc = set_acl(x, attr.value,
			    ARCHIVE_ENTRY_ACL_TYPE_ACCESS, &done, e);
		else if (strcmp(attr.name_z, ACL_PREFIX "default") == 0)
			rc = set_acl(x, attr.value,
			    ARCHIVE_ENTRY_ACL_TYPE_DEFAULT, &done, e);
		if (rc == 0 && !done)
			archive_entry_xattr_add_entry(
			    x->ae, attr.name_z, attr.value.p, attr.value.n);
	}
	return rc;
}

/* Where there is data. */
static void set_sparse(
    struct tree_export_entry *x, const struct catalog_entry *row)
{
	uint64_t at = 0;
	bool any = false;

	for (size_t i = 0; i < catalog_holes_count(row); i++) {
		struct catalog_hole h = catalog_hole_decode(row, i);

		if (h.start >= row->size)
			break;
		if (h.start > at)
			archive_entry_sparse_add_entry(
			    x->ae, (la_int64_t)at, (la_int64_t)(h.start - at));
		at = h.start + h.length;
		any = true;
	}
	if (any && at < row->size)
		archive_entry_sparse_add_entry(
		    x->ae, (la_int64_t)at, (la_int64_t)(row->size - at));
	/* Without an entry there were no holes. */
	if (any && archive_entry_sparse_count(x->ae) == 0)
		archive_entry_sparse_add_entry(x->ae, (la_int64_t)row->size, 0);
}

/* Numbers that cpio needs: which names are one file. */
static void set_inode(
    struct tree_export_entry *x, const struct catalog_entry *row)
{
	bool link = (row->has & CATALOG_HAS_LINK) != 0;
	unsigned nlink = 1;

	if (link)
		nlink = row->nlink > 1 && row->nlink < INT32_MAX
		    ? (unsigned)row->nlink
		    : 2;
	archive_entry_set_ino64(x->ae, link ? row->link : row->id);
	archive_entry_set_nlink(x->ae, nlink);
}

int tree_export_fill(struct tree_export_entry *x, struct catalog_bytes path,
    const struct catalog_entry *row, struct err *e)
{
	int rc = 0;

	archive_entry_clear(x->ae);
	archive_entry_set_filetype(x->ae, catalog_kind_mode(row->kind));
	archive_entry_set_perm(
	    x->ae, (row->has & CATALOG_HAS_MODE) != 0 ? row->mode : 0600);
	if ((row->has & CATALOG_HAS_MTIME) != 0)
		archive_entry_set_mtime(
		    x->ae, row->mtime_s, (long)row->mtime_ns);
	if ((row->has & CATALOG_HAS_RDEV) != 0) {
		archive_entry_set_rdevmajor(x->ae, row->rdev >> 32);
		archive_entry_set_rdevminor(x->ae, row->rdev & UINT32_MAX);
	}
	if ((row->has & CATALOG_HAS_FLAGS) != 0 && row->flags != 0)
		archive_entry_set_fflags(x->ae, row->flags, 0);
	archive_entry_set_size(
	    x->ae, row->kind == CATALOG_FILE ? (la_int64_t)row->size : 0);
	if (row->kind == CATALOG_FILE && x->format == TREE_EXPORT_TAR)
		set_sparse(x, row);
	if (x->format == TREE_EXPORT_CPIO)
		set_inode(x, row);
	rc = set_name(x, path, row, e);
	if (rc == 0)
		rc = set_owner(x, row, e);
	return rc < 0 ? rc : set_attr(x, row, e);
}
