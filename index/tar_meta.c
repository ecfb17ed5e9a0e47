/* SPDX-License-Identifier: MIT */
/*
 * tar_meta: the part of tar_libarchive.h that turns members into rows.
 */
#include <linux/fs.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "datastore/base/bytes.h"
#include "index/tar_libarchive.h"

/* Names of accounts that ACLs may mean; more are not remembered. */
#define ACCOUNTS_MAX ((size_t)256 << 10)

#define XATTR_NAME_MAX_BYTES 255
#define ACL_PREFIX "system.posix_acl_"

/* The kernel's form: a version, then tag, permissions and id of each entry,
 * ascending; from <linux/posix_acl_xattr.h>. */
#define ACL_VERSION 2
#define ACL_ENTRY_SIZE 8
#define ACL_NO_ID UINT32_MAX
#define ACL_ENTRIES_MAX 8191 /* of 64 KiB */

void tar_meta_release(struct tar_meta *m)
{
	buf_release(&m->attr);
	buf_release(&m->users);
	buf_release(&m->groups);
}

/* The next of "id name\0"; false at the end. */
static bool next_account(
    const struct buf *b, size_t *at, uint32_t *ret_id, const char **ret_name)
{
	if (*at >= b->len)
		return false;
	*ret_id = bytes_get_le32(b->data + *at);
	*ret_name = (const char *)b->data + *at + 4;
	*at += 4 + strlen(*ret_name) + 1;
	return true;
}

static int set_account(struct tar_meta *m, enum catalog_account kind,
    uint32_t id, const char *name, struct err *e)
{
	struct buf *b = kind == CATALOG_USER ? &m->users : &m->groups;
	uint8_t number[4];
	uint32_t known = 0;
	const char *text = NULL;
	size_t at = 0;
	int rc = 0;

	if (name == NULL || name[0] == '\0')
		return 0;
	while (next_account(b, &at, &known, &text)) {
		if (known == id)
			return 0;
	}
	rc = catalog_writer_account(m->writer, kind, id, name, e);
	if (rc < 0 || b->len + 4 + strlen(name) + 1 > ACCOUNTS_MAX)
		return rc;
	bytes_put_le32(number, id);
	rc = buf_append(b, number, sizeof(number), e);
	return rc < 0 ? rc : buf_append(b, name, strlen(name) + 1, e);
}

static bool find_account(
    const struct buf *b, const char *name, uint32_t *ret_id)
{
	const char *text = NULL;
	size_t at = 0;

	while (next_account(b, &at, ret_id, &text)) {
		if (strcmp(text, name) == 0)
			return true;
	}
	return false;
}

static int set_owner(struct tar_meta *m, struct archive_entry *ae,
    struct catalog_entry *row, struct err *e)
{
	int64_t uid = archive_entry_uid(ae);
	int64_t gid = archive_entry_gid(ae);
	int rc = 0;

	if (uid >= 0 && uid <= UINT32_MAX) {
		row->uid = (uint32_t)uid;
		row->has |= CATALOG_HAS_UID;
		rc = set_account(
		    m, CATALOG_USER, row->uid, archive_entry_uname(ae), e);
	}
	if (rc == 0 && gid >= 0 && gid <= UINT32_MAX) {
		row->gid = (uint32_t)gid;
		row->has |= CATALOG_HAS_GID;
		rc = set_account(
		    m, CATALOG_GROUP, row->gid, archive_entry_gname(ae), e);
	}
	return rc;
}

struct acl_entry {
	uint16_t tag;
	uint16_t perm;
	uint32_t id;
};

static int compare_acl(const void *a, const void *b)
{
	const struct acl_entry *x = a;
	const struct acl_entry *y = b;

	if (x->tag != y->tag)
		return x->tag < y->tag ? -1 : 1;
	return x->id < y->id ? -1 : x->id > y->id;
}

static uint16_t acl_tag(int tag)
{
	switch (tag) {
	case ARCHIVE_ENTRY_ACL_USER_OBJ:
		return 1;
	case ARCHIVE_ENTRY_ACL_USER:
		return 2;
	case ARCHIVE_ENTRY_ACL_GROUP_OBJ:
		return 4;
	case ARCHIVE_ENTRY_ACL_GROUP:
		return 8;
	case ARCHIVE_ENTRY_ACL_MASK:
		return 16;
	case ARCHIVE_ENTRY_ACL_OTHER:
		return 32;
	default:
		return 0;
	}
}

/* False: whoever is meant has no number. */
static bool acl_id(
    struct tar_meta *m, uint16_t tag, int qual, const char *name, uint32_t *ret)
{
	*ret = ACL_NO_ID;
	if (tag != 2 && tag != 8)
		return true;
	if (qual >= 0) {
		*ret = (uint32_t)qual;
		return true;
	}
	return name != NULL &&
	    find_account(tag == 2 ? &m->users : &m->groups, name, ret);
}

static int encode_acl(const struct acl_entry *acl, size_t n, const char *name,
    struct buf *out, struct err *e)
{
	struct buf value = BUF_INIT;
	int rc = buf_reserve(&value, 4 + n * ACL_ENTRY_SIZE, e);

	if (rc < 0)
		return rc;
	bytes_put_le32(value.data, ACL_VERSION);
	for (size_t i = 0; i < n; i++) {
		uint8_t *p = value.data + 4 + i * ACL_ENTRY_SIZE;

		bytes_put_le32(
		    p, (uint32_t)acl[i].tag | (uint32_t)acl[i].perm << 16);
		bytes_put_le32(p + 4, acl[i].id);
	}
	rc = catalog_attr_append(
	    out, name, value.data, 4 + n * ACL_ENTRY_SIZE, e);
	buf_release(&value);
	return rc;
}

/* Of access rights or a directory's default; the mask, if there is one, is
 * what stat shows as the group's. */
static int set_acl(struct tar_meta *m, struct archive_entry *ae, int type,
    struct catalog_entry *row, struct err *e)
{
	bool access = type == ARCHIVE_ENTRY_ACL_TYPE_ACCESS;
	int count = archive_entry_acl_reset(ae, type);
	struct acl_entry *acl = NULL;
	const char *name = NULL;
	size_t n = 0;
	int kind = 0;
	int perm = 0;
	int tag = 0;
	int qual = 0;
	int rc = 0;

	if (count <= 0 || count > ACL_ENTRIES_MAX)
		return 0;
	acl = calloc((size_t)count, sizeof(*acl));
	if (acl == NULL)
		return err_nomem(e);
	while (n < (size_t)count &&
	    archive_entry_acl_next(
		ae, type, &kind, &perm, &tag, &qual, &name) == ARCHIVE_OK) {
		struct acl_entry x = { .tag = acl_tag(tag),
			.perm = (uint16_t)(perm & 7) };

		if (x.tag == 0)
			continue;
		if (!acl_id(m, x.tag, qual, name, &x.id)) {
			m->acl_names++;
			continue;
		}
		if (access && x.tag == 16 && (row->has & CATALOG_HAS_MODE) != 0)
			row->mode = (row->mode & ~070U) | (unsigned)x.perm << 3;
		acl[n++] = x;
	}
	qsort(acl, n, sizeof(*acl), compare_acl);
	if (n > 0)
		rc = encode_acl(acl, n,
		    access ? ACL_PREFIX "access" : ACL_PREFIX "default",
		    &m->attr, e);
	free(acl);
	return rc;
}

struct xattr {
	const char *name;
	const void *value;
	size_t n;
	size_t nr;
};

/* The last one of a name comes first. */
static int compare_xattr(const void *a, const void *b)
{
	const struct xattr *x = a;
	const struct xattr *y = b;
	int order = strcmp(x->name, y->name);

	if (order != 0)
		return order;
	return x->nr > y->nr ? -1 : 1;
}

static int append_xattrs(struct tar_meta *m, const struct xattr *x, size_t n,
    bool before_acl, struct err *e)
{
	int rc = 0;

	for (size_t i = 0; i < n && rc == 0; i++) {
		size_t length = strlen(x[i].name);

		if ((strcmp(x[i].name, ACL_PREFIX) < 0) != before_acl ||
		    strncmp(x[i].name, ACL_PREFIX, strlen(ACL_PREFIX)) == 0 ||
		    length == 0 || length > XATTR_NAME_MAX_BYTES ||
		    (i > 0 && strcmp(x[i].name, x[i - 1].name) == 0))
			continue;
		rc = catalog_attr_append(
		    &m->attr, x[i].name, x[i].value, x[i].n, e);
	}
	return rc;
}

/* Sorted by name, ACLs among them. */
static int set_attr(struct tar_meta *m, struct archive_entry *ae,
    struct catalog_entry *row, struct err *e)
{
	int count = archive_entry_xattr_reset(ae);
	struct xattr *x = NULL;
	size_t n = 0;
	int rc = 0;

	buf_reset(&m->attr);
	x = calloc((size_t)(count > 0 ? count : 1), sizeof(*x));
	if (x == NULL)
		return err_nomem(e);
	while (n < (size_t)count &&
	    archive_entry_xattr_next(ae, &x[n].name, &x[n].value, &x[n].n) ==
		ARCHIVE_OK) {
		x[n].nr = n;
		n++;
	}
	qsort(x, n, sizeof(*x), compare_xattr);
	rc = append_xattrs(m, x, n, true, e);
	if (rc == 0)
		rc = set_acl(m, ae, ARCHIVE_ENTRY_ACL_TYPE_ACCESS, row, e);
	if (rc == 0 && row->kind == CATALOG_DIR)
		rc = set_acl(m, ae, ARCHIVE_ENTRY_ACL_TYPE_DEFAULT, row, e);
	if (rc == 0)
		rc = append_xattrs(m, x, n, false, e);
	free(x);
	if (rc < 0 || m->attr.len == 0)
		return rc;
	rc = catalog_writer_attr(
	    m->writer, m->attr.data, m->attr.len, &row->attr, e);
	if (rc == 0)
		row->has |= CATALOG_HAS_ATTR;
	return rc;
}

static void set_flags(struct archive_entry *ae, struct catalog_entry *row)
{
	unsigned long set = 0;
	unsigned long clear = 0;

	if (row->kind != CATALOG_FILE && row->kind != CATALOG_DIR)
		return;
	archive_entry_fflags(ae, &set, &clear);
	set &= FS_FL_USER_MODIFIABLE;
	if (set == 0)
		return;
	row->flags = (uint32_t)set;
	row->has |= CATALOG_HAS_FLAGS;
}

static bool set_kind(
    struct archive_entry *ae, struct catalog_entry *row, const char **ret_wrong)
{
	const char *target = NULL;

	switch (archive_entry_filetype(ae)) {
	case AE_IFDIR:
		row->kind = CATALOG_DIR;
		return true;
	case AE_IFIFO:
		row->kind = CATALOG_FIFO;
		return true;
	case AE_IFSOCK:
		row->kind = CATALOG_SOCKET;
		return true;
	case AE_IFCHR:
	case AE_IFBLK:
		row->kind = archive_entry_filetype(ae) == AE_IFCHR
		    ? CATALOG_CHAR
		    : CATALOG_BLOCK;
		row->rdev = (uint64_t)archive_entry_rdevmajor(ae) << 32 |
		    (uint32_t)archive_entry_rdevminor(ae);
		row->has |= CATALOG_HAS_RDEV;
		return true;
	case AE_IFLNK:
		row->kind = CATALOG_SYMLINK;
		target = archive_entry_symlink(ae);
		if (target == NULL || strlen(target) > CATALOG_TARGET_MAX) {
			*ret_wrong = "it leads nowhere, or too far";
			return false;
		}
		row->target = (struct catalog_bytes){ (const uint8_t *)target,
			strlen(target) };
		row->has |= CATALOG_HAS_TARGET;
		return true;
	default:
		row->kind = CATALOG_FILE;
		return true;
	}
}

int tar_meta_row(struct tar_meta *m, struct archive_entry *ae,
    struct catalog_entry *row, const char **ret_wrong, struct err *e)
{
	int rc = 0;

	*row = (struct catalog_entry){ .has = CATALOG_HAS_MODE };
	*ret_wrong = NULL;
	if (!set_kind(ae, row, ret_wrong))
		return 0;
	row->mode = (unsigned)archive_entry_perm(ae) & 07777;
	if (archive_entry_mtime_is_set(ae) &&
	    archive_entry_mtime_nsec(ae) >= 0 &&
	    archive_entry_mtime_nsec(ae) < 1000000000) {
		row->mtime_s = archive_entry_mtime(ae);
		row->mtime_ns = (uint32_t)archive_entry_mtime_nsec(ae);
		row->has |= CATALOG_HAS_MTIME;
	}
	set_flags(ae, row);
	rc = set_owner(m, ae, row, e);
	return rc < 0 ? rc : set_attr(m, ae, row, e);
}
