/* SPDX-License-Identifier: MIT */
/*
 * tree_push_row: what was found of an entry, as a row of the catalog; with the
 * mounts, attributes and names of users and groups that it refers to.
 */
#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>

#include "datastore/base/bytes.h"
#include "index/catalog_writer.h"
#include "index/tree_push_internal.h"

#define TEXT_MIN 1024U
#define TEXT_MAX (1U << 20)

/* ---- users and groups ---- */

void tree_accounts_release(struct tree_accounts *a)
{
	free(a->keys);
	buf_release(&a->text);
}

/* Where the key is, or would be. */
static uint64_t *place_of(const struct tree_accounts *a, uint64_t key)
{
	size_t i = (size_t)(key * 0x9e3779b97f4a7c15U >> 32) & (a->room - 1);

	while (a->keys[i] != 0 && a->keys[i] != key)
		i = (i + 1) & (a->room - 1);
	return &a->keys[i];
}

static int make_room(struct tree_accounts *a, struct err *e)
{
	struct tree_accounts more = *a;

	if (2 * a->n < a->room)
		return 0;
	more.room = a->room == 0 ? 64 : 2 * a->room;
	more.keys = calloc(more.room, sizeof(*more.keys));
	if (more.keys == NULL)
		return err_nomem(e);
	for (size_t i = 0; i < a->room; i++)
		if (a->keys[i] != 0)
			*place_of(&more, a->keys[i]) = a->keys[i];
	free(a->keys);
	a->keys = more.keys;
	a->room = more.room;
	return 0;
}

/* The C library's answer; NULL: it knows no name. */
static int ask_name(struct tree_accounts *a, enum catalog_account kind,
    uint32_t id, const char **ret, struct err *e)
{
	struct passwd user;
	struct passwd *user_found = NULL;
	struct group group;
	struct group *group_found = NULL;
	int error = ERANGE;

	*ret = NULL;
	for (size_t room = TEXT_MIN; error == ERANGE && room <= TEXT_MAX;
	     room *= 4) {
		int rc = 0;

		buf_reset(&a->text);
		rc = buf_reserve(&a->text, room, e);
		if (rc < 0)
			return rc;
		error = kind == CATALOG_USER
		    ? getpwuid_r(
			  id, &user, (char *)a->text.data, room, &user_found)
		    : getgrgid_r(
			  id, &group, (char *)a->text.data, room, &group_found);
	}
	if (error == 0 && user_found != NULL)
		*ret = user.pw_name;
	if (error == 0 && group_found != NULL)
		*ret = group.gr_name;
	return 0;
}

static int add_account(
    struct tree_push *t, enum catalog_account kind, uint32_t id, struct err *e)
{
	struct tree_accounts *a = &t->accounts;
	uint64_t key = (uint64_t)(kind == CATALOG_USER ? 1 : 2) << 32 | id;
	const char *name = NULL;
	int rc = make_room(a, e);

	if (rc < 0 || *place_of(a, key) == key)
		return rc;
	rc = ask_name(a, kind, id, &name, e);
	if (rc == 0)
		rc = catalog_writer_account(
		    tree_writer_catalog(t->writer), kind, id, name, e);
	if (rc == 0) {
		*place_of(a, key) = key;
		a->n++;
	}
	return rc;
}

/*
 * The kernel's form of an ACL: a version, then entries of tag, permissions
 * and, of named users and groups, an id.
 */
#define ACL_HEADER 4U
#define ACL_ENTRY 8U
#define ACL_USER 2U
#define ACL_GROUP 8U

static int add_acl_accounts(
    struct tree_push *t, const struct catalog_bytes *acl, struct err *e)
{
	int rc = 0;

	for (size_t at = ACL_HEADER; rc == 0 && acl->n >= at + ACL_ENTRY;
	     at += ACL_ENTRY) {
		unsigned tag = bytes_get_le32(acl->p + at) & 0xffffU;
		uint32_t id = bytes_get_le32(acl->p + at + 4);

		if (tag == ACL_USER)
			rc = add_account(t, CATALOG_USER, id, e);
		else if (tag == ACL_GROUP)
			rc = add_account(t, CATALOG_GROUP, id, e);
	}
	return rc;
}

static int add_acls(struct tree_push *t, const struct buf *attr, struct err *e)
{
	static const char prefix[] = "system.posix_acl_";
	struct catalog_xattr x;
	size_t at = 0;
	int rc = 0;

	while (rc == 0 && catalog_attr_next(attr, &at, &x))
		if (strncmp(x.name_z, prefix, sizeof(prefix) - 1) == 0)
			rc = add_acl_accounts(t, &x.value, e);
	return rc;
}

/* ---- columns ---- */

static void set_owner_and_times(
    const struct walk_found *f, struct catalog_entry *x)
{
	const struct statx *st = &f->st;

	x->mode = st->stx_mode & 07777U;
	x->uid = st->stx_uid;
	x->gid = st->stx_gid;
	x->mtime_s = st->stx_mtime.tv_sec;
	x->mtime_ns = st->stx_mtime.tv_nsec;
	x->ctime_s = st->stx_ctime.tv_sec;
	x->ctime_ns = st->stx_ctime.tv_nsec;
	x->ino = st->stx_ino;
	x->has |= CATALOG_HAS_MODE | CATALOG_HAS_UID | CATALOG_HAS_GID |
	    CATALOG_HAS_MTIME | CATALOG_HAS_CTIME | CATALOG_HAS_INO;
	/* Of a directory it is no count of names. */
	if (f->kind != CATALOG_DIR) {
		x->nlink = st->stx_nlink;
		x->has |= CATALOG_HAS_NLINK;
	}
	if (f->kind == CATALOG_CHAR || f->kind == CATALOG_BLOCK) {
		x->rdev =
		    (uint64_t)st->stx_rdev_major << 32 | st->stx_rdev_minor;
		x->has |= CATALOG_HAS_RDEV;
	}
	if (f->has_flags) {
		x->flags = f->flags;
		x->has |= CATALOG_HAS_FLAGS;
	}
}

static void set_bytes(struct catalog_entry *x, unsigned has,
    struct catalog_bytes *ret, const struct buf *b)
{
	ret->p = b->data;
	ret->n = b->len;
	x->has |= has;
}

static void set_content(const struct tree_slot *s, struct catalog_entry *x)
{
	const struct walk_found *f = &s->f;

	if (f->kind == CATALOG_SYMLINK && f->target.len > 0)
		set_bytes(x, CATALOG_HAS_TARGET, &x->target, &f->target);
	if (x->state != 0)
		x->has |= CATALOG_HAS_STATE;
	if (f->kind != CATALOG_FILE)
		return;
	x->size = f->size;
	x->has |= CATALOG_HAS_SIZE;
	if ((x->state & CATALOG_STATE_UNREADABLE) != 0)
		return;
	if (f->holes.len > 0)
		set_bytes(x, CATALOG_HAS_HOLES, &x->holes, &f->holes);
	x->pos = s->pos;
	x->sha256 = f->sha256;
	x->has |= CATALOG_HAS_POS | CATALOG_HAS_SHA256;
}

static int set_mount(struct tree_push *t, const struct tree_slot *s,
    struct catalog_entry *x, struct err *e)
{
	struct catalog_bytes path = { .p = (const uint8_t *)"" };
	const char *fstype = NULL;
	bool is_new = false;
	int rc = walk_mounts_find(
	    t->mounts, &s->f.st, &x->mount, &is_new, &fstype, e);

	x->has |= CATALOG_HAS_MOUNT;
	if (rc < 0 || !is_new)
		return rc;
	buf_reset(&t->path);
	rc = walk_path(s->dir, s->name, &t->path, e);
	if (rc < 0)
		return rc;
	if (t->path.len > 0)
		path.p = t->path.data;
	path.n = t->path.len;
	return catalog_writer_mount(
	    tree_writer_catalog(t->writer), x->mount, path, fstype, e);
}

static int set_attr(struct tree_push *t, const struct walk_found *f,
    struct catalog_entry *x, struct err *e)
{
	int rc = 0;

	if (f->attr.len == 0)
		return 0;
	rc = catalog_writer_attr(tree_writer_catalog(t->writer), f->attr.data,
	    f->attr.len, &x->attr, e);
	x->has |= CATALOG_HAS_ATTR;
	/* Ids go up: a greater one is of bytes that are new. */
	if (rc < 0 || x->attr <= t->attrs)
		return rc;
	t->attrs = x->attr;
	return add_acls(t, &f->attr, e);
}

int tree_push_row(
    struct tree_push *t, const struct tree_slot *s, int64_t link, struct err *e)
{
	const struct walk_dir *parent =
	    s->name != NULL ? s->dir : s->dir->parent;
	const char *name = s->name != NULL ? s->name : s->dir->name;
	struct catalog_entry x = { .parent = parent != NULL ? parent->id : 0,
		.id = s->id,
		.name = { .p = (const uint8_t *)name, .n = strlen(name) },
		.kind = s->f.kind,
		.link = link,
		.state = s->f.state };
	int rc = 0;

	if (s->unlisted)
		x.state |= CATALOG_STATE_UNREADABLE;
	if (link != 0)
		x.has |= CATALOG_HAS_LINK;
	set_owner_and_times(&s->f, &x);
	set_content(s, &x);
	rc = set_mount(t, s, &x, e);
	if (rc == 0)
		rc = set_attr(t, &s->f, &x, e);
	if (rc == 0)
		rc = add_account(t, CATALOG_USER, x.uid, e);
	if (rc == 0)
		rc = add_account(t, CATALOG_GROUP, x.gid, e);
	return rc < 0 ? rc : tree_writer_add(t->writer, &x, e);
}
