/* SPDX-License-Identifier: MIT */
/*
 * tree_restore_special: what has no content: symbolic links, FIFOs, sockets,
 * devices.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>

#include "index/tree_restore_internal.h"

#define NEW_MODE 0600U

/* What the kernel has bits for: more would become another device. */
#define MAJOR_MAX 0xfffU
#define MINOR_MAX 0xfffffU

struct finish {
	struct restore_node node;
	const struct restore_meta *meta;
	struct restore_attr *attr;
	struct restore_missed missed;
};

static void finish(void *ctx, int fd)
{
	struct finish *f = ctx;

	f->node.fd = fd;
	restore_meta_apply(&f->node, f->meta, f->attr, &f->missed);
}

static int device_of(
    const struct catalog_entry *entry, dev_t *ret, struct err *e)
{
	uint32_t high = (uint32_t)(entry->rdev >> 32);
	uint32_t low = (uint32_t)entry->rdev;

	if (high > MAJOR_MAX || low > MINOR_MAX)
		return err_set(e, ERR_UNSUPPORTED,
		    "there is no device %u:%u here", high, low);
	*ret = makedev(high, low);
	return 0;
}

static int make(struct restore *r, const struct restore_record *rec,
    const struct catalog_entry *entry, struct finish *f, bool *ret_exists,
    struct err *e)
{
	struct restore_special s = { .mode = catalog_kind_mode(rec->kind) |
		    NEW_MODE,
		.finish = finish,
		.ctx = f };
	struct restore_dirfd dir = { .open = false };
	char *target = NULL;
	int rc = 0;

	if (rec->kind == CATALOG_SYMLINK) {
		target =
		    strndup((const char *)entry->target.p, entry->target.n);
		if (target == NULL)
			return err_nomem(e);
		s.target = target;
	} else if (rec->kind == CATALOG_CHAR || rec->kind == CATALOG_BLOCK) {
		rc = device_of(entry, &s.dev, e);
	}
	if (rc == 0)
		rc = restore_attr_of(r, &rec->meta, &f->attr, e);
	if (rc == 0)
		rc = restore_dirs_open(r->dirs, rec->dir, &dir, e);
	if (rc == 0)
		rc = restore_place_special(&r->place, &s, dir.fd, rec->name,
		    restore_taken(r), ret_exists, e);
	restore_dirs_put(r->dirs, &dir);
	free(target);
	return rc;
}

int restore_special(struct restore *r, const struct restore_record *rec,
    const struct catalog_entry *entry, bool *ret_made, struct err *e)
{
	struct finish f = { .node = { .path_only = true,
				.kind = rec->kind,
				.inherited = rec->inherited },
		.meta = &rec->meta };
	bool exists = false;
	int rc = make(r, rec, entry, &f, &exists, e);

	*ret_made = rc == 0 && !exists;
	restore_attr_put(f.attr);
	if (rc < 0)
		return restore_failed(r, rec->dir, rec->name, rc, e);
	if (exists)
		return restore_tell(
		    r, RESTORE_TOLD_SKIPPED, rec->dir, rec->name, "exists", e);
	r->result.entries++;
	return restore_tell_missed(r, rec->dir, rec->name, &f.missed, e);
}

int restore_special_again(struct restore *r, const struct restore_record *rec,
    bool *ret_made, struct err *e)
{
	const struct catalog_bytes name = { .p = (const uint8_t *)rec->name,
		.n = rec->name_n };
	struct catalog_entry entry;
	bool found = false;
	int rc = catalog_lookup(r->c, rec->parent, name, &entry, &found, e);

	*ret_made = false;
	if (rc == 0 && !found)
		rc = err_set(e, ERR_CORRUPT, "'%s': it is gone from it",
		    catalog_shown(r->c));
	if (rc < 0)
		return restore_failed(r, rec->dir, rec->name, rc, e);
	return restore_special(r, rec, &entry, ret_made, e);
}
