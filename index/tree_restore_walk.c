/* SPDX-License-Identifier: MIT */
/*
 * tree_restore_walk: what is wanted of the catalog, entry by entry.
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "datastore/base/file.h"
#include "datastore/base/sysio.h"
#include "index/tree_restore_internal.h"
#include "index/tree_restore_paths.h"

#define NEW_DIR_MODE 0700
#define NOWHERE UINT64_MAX /* a record that there is not */

/* A directory on the way from the target to the entry. */
struct level {
	uint64_t number;
	bool existed;
	unsigned inherits; /* what it hands down */
};

struct walk {
	struct restore *r;
	struct buf levels;
	bool inside;  /* not at the entry that the walk began with */
	bool leading; /* to what is wanted: what exists stays as it is */
};

static const struct level *top(const struct walk *w)
{
	assert(w->levels.len > 0);
	return (const struct level *)(const void *)(w->levels.data +
		   w->levels.len) -
	    1;
}

static int push(struct walk *w, const struct level *l, struct err *e)
{
	return buf_append(&w->levels, l, sizeof(*l), e);
}

static void pop(struct walk *w)
{
	w->levels.len -= sizeof(struct level);
}

/* An entry that is looked at: what is noted of it, and what is there. */
struct visit {
	struct restore_record rec;
	struct restore_dirfd dir;
	struct statx st;
	bool found;
};

/* Names were checked when the row was read; this is what may be too long. */
static int begin(struct walk *w, const struct catalog_entry *entry,
    struct visit *v, struct err *e)
{
	const struct level *l = top(w);
	struct restore_record *rec = &v->rec;
	int rc = 0;

	memset(v, 0, sizeof(*v));
	rec->kind = entry->kind;
	rec->dir = l->number;
	rec->parent = entry->parent;
	rec->inherited = l->inherits;
	if ((entry->has & CATALOG_HAS_LINK) != 0)
		rec->link = entry->link;
	rec->name_n =
	    (unsigned)(entry->name.n < RESTORE_NAME_MAX ? entry->name.n
							: RESTORE_NAME_MAX);
	memcpy(rec->name, entry->name.p, rec->name_n);
	rc = restore_meta_of(w->r, entry, &rec->meta, e);
	if (rc < 0)
		return rc;
	if (entry->name.n > RESTORE_NAME_MAX) {
		errno = ENAMETOOLONG;
		return err_sys(e, "make it");
	}
	rc = restore_dirs_open(w->r->dirs, l->number, &v->dir, e);
	/* Nothing is in a directory that was made for this. */
	if (rc == 0 && l->existed)
		rc =
		    restore_stat_at(v->dir.fd, rec->name, &v->st, &v->found, e);
	return rc;
}

static void end(struct walk *w, struct visit *v)
{
	restore_dirs_put(w->r->dirs, &v->dir);
}

static bool is_kind(const struct visit *v, enum catalog_kind kind)
{
	return v->found && (v->st.stx_mode & S_IFMT) == catalog_kind_mode(kind);
}

/* -- Directories. -- */

static int make_dir(const struct visit *v, bool *ret_existed, struct err *e)
{
	const char *name = v->rec.name;

	int rc = 0;

	if (v->found && !is_kind(v, CATALOG_DIR))
		rc = restore_place_unlink(v->dir.fd, name, e);
	if (rc < 0)
		return rc;
	*ret_existed = is_kind(v, CATALOG_DIR);
	if (*ret_existed || sysio_mkdirat(v->dir.fd, name, NEW_DIR_MODE) == 0)
		return 0;
	return err_sys(e, "make the directory");
}

/* What a new directory was handed down, it does not hand on. */
static void disown(struct restore *r, uint64_t number, unsigned inherited)
{
	const struct restore_meta none = { .has = CATALOG_HAS_MODE,
		.mode = NEW_DIR_MODE };
	struct restore_missed ignored = { 0 }; /* it is set in the end */
	struct restore_dirfd fd = { .open = false };
	struct err failed = ERR_INIT; /* told by who comes to use it */
	struct restore_node n = { .kind = CATALOG_DIR, .inherited = inherited };

	if (restore_dirs_open(r->dirs, number, &fd, &failed) < 0)
		return;
	n.fd = fd.fd;
	restore_meta_early(&n, &none, &ignored);
	restore_meta_apply(&n, &none, NULL, &ignored);
	restore_dirs_put(r->dirs, &fd);
}

static int add_dir(
    struct walk *w, const struct visit *v, bool existed, struct err *e)
{
	struct restore *r = w->r;
	struct restore_dirfd fd = { .open = false };
	struct level l = { .existed = existed };
	struct restore_dir d;
	int rc = 0;

	memset(&d, 0, sizeof(d));
	d.parent = v->rec.dir;
	d.meta = v->rec.meta;
	d.existed = existed;
	d.set = !existed ||
	    (!w->leading && r->opts->overwrite != TREE_OVERWRITE_NEVER);
	d.inherited = v->rec.inherited;
	if (existed)
		d.inherited |= RESTORE_INHERIT_ACL | RESTORE_INHERIT_FLAGS;
	d.name_n = v->rec.name_n;
	memcpy(d.name, v->rec.name, d.name_n + 1);
	rc = restore_dirs_add(r->dirs, &d, e);
	if (rc < 0)
		return rc;
	l.number = d.number;
	if (!existed && d.inherited != 0)
		disown(r, d.number, d.inherited);
	if (existed) {
		struct restore_pair thawed = { .key = d.number };
		unsigned was = 0;

		rc = restore_dirs_open(r->dirs, d.number, &fd, e);
		if (rc == 0)
			l.inherits = restore_meta_inherits(fd.fd);
		/* It gets those of the catalog in the end. */
		if (rc == 0 && d.set && (d.meta.has & CATALOG_HAS_FLAGS) != 0 &&
		    restore_meta_thaw(fd.fd, &was)) {
			thawed.at = was;
			rc = restore_sort_add(r->thawed, thawed, e);
		}
		restore_dirs_put(r->dirs, &fd);
	}
	return rc < 0 ? rc : push(w, &l, e);
}

/* CATALOG_SKIP: nothing can be made below it. */
static int visit_dir(
    struct walk *w, const struct catalog_entry *entry, struct err *e)
{
	struct restore *r = w->r;
	bool existed = false;
	struct visit v;
	int rc = begin(w, entry, &v, e);

	if (rc == 0 && v.found && !is_kind(&v, CATALOG_DIR) &&
	    r->opts->overwrite == TREE_OVERWRITE_NEVER) {
		end(w, &v);
		rc = restore_tell(r, RESTORE_TOLD_SKIPPED, v.rec.dir,
		    v.rec.name, "exists and is no directory", e);
		return rc < 0 ? rc : CATALOG_SKIP;
	}
	if (rc == 0)
		rc = make_dir(&v, &existed, e);
	end(w, &v);
	if (rc == 0)
		rc = add_dir(w, &v, existed, e);
	if (rc == 0) {
		r->result.entries += !existed;
		return 0;
	}
	rc = restore_failed(r, v.rec.dir, v.rec.name, rc, e);
	return rc < 0 ? rc : CATALOG_SKIP;
}

/* -- Files. -- */

static bool same_target(
    const struct visit *v, const struct catalog_entry *entry)
{
	char text[PATH_MAX];
	ssize_t n =
	    sysio_readlinkat(v->dir.fd, v->rec.name, text, sizeof(text));

	return n >= 0 && (size_t)n == entry->target.n &&
	    memcmp(text, entry->target.p, entry->target.n) == 0;
}

/* Is what is there what is to be there, as far as it can be seen? */
static bool is_equal(const struct visit *v, const struct catalog_entry *entry)
{
	if (!is_kind(v, entry->kind) || (entry->has & CATALOG_HAS_MTIME) == 0 ||
	    v->st.stx_mtime.tv_sec != entry->mtime_s ||
	    v->st.stx_mtime.tv_nsec != entry->mtime_ns ||
	    !restore_meta_harmless(&v->rec.meta, &v->st))
		return false;
	switch (entry->kind) {
	case CATALOG_FILE:
		return v->st.stx_size == entry->size;
	case CATALOG_CHAR:
	case CATALOG_BLOCK:
		return ((uint64_t)v->st.stx_rdev_major << 32 |
			   v->st.stx_rdev_minor) == entry->rdev;
	case CATALOG_SYMLINK:
		return same_target(v, entry);
	case CATALOG_FIFO:
	case CATALOG_SOCKET:
		return true;
	case CATALOG_DIR:
		break;
	}
	return false;
}

/* The metadata of what stays. */
static int refresh(struct restore *r, const struct visit *v, struct err *e)
{
	const struct restore_record *rec = &v->rec;
	uint64_t at = NOWHERE;
	struct restore_missed missed = { 0 };
	struct restore_attr *attr = NULL;
	struct restore_node n = { .path_only = true,
		.kind = rec->kind,
		.inherited = RESTORE_INHERIT_ACL };
	struct statx st;
	int rc = 0;

	if (restore_meta_is_set(&rec->meta, &v->st))
		return 0;
	n.fd = sysio_openat(
	    v->dir.fd, rec->name, O_PATH | O_NOFOLLOW | O_CLOEXEC, 0);
	if (n.fd < 0)
		return err_sys(e, "open it");
	rc = restore_stat_fd(n.fd, &st, e);
	if (rc == 0 && !file_same(&st, &v->st))
		rc = err_set(e, ERR_REFUSED, "somebody replaced it");
	if (rc == 0)
		rc = restore_attr_of(r, &rec->meta, &attr, e);
	if (rc == 0) {
		restore_meta_apply(&n, &rec->meta, attr, &missed);
		rc = restore_tell_missed(r, rec->dir, rec->name, &missed, e);
	}
	/* Flags need another way to open it than what went before. */
	if (rc == 0 && rec->kind == CATALOG_FILE && rec->meta.flags != 0)
		rc = restore_record_add(r, rec, &at, e);
	if (rc == 0 && at != NOWHERE)
		rc = restore_sort_add(
		    r->late, (struct restore_pair){ .key = at }, e);
	restore_attr_put(attr);
	file_close(&n.fd);
	return rc;
}

/* *ret_done: it stays as it is, and that was told. */
static int meet(struct walk *w, const struct catalog_entry *entry,
    struct visit *v, bool *ret_done, struct err *e)
{
	struct restore *r = w->r;
	enum tree_overwrite how = r->opts->overwrite;

	v->rec.in_way = v->found;
	*ret_done = v->found && how == TREE_OVERWRITE_NEVER;
	if (*ret_done)
		return restore_tell(r, RESTORE_TOLD_SKIPPED, v->rec.dir,
		    v->rec.name, "exists", e);
	if (!v->found || how != TREE_OVERWRITE_CHANGED || !is_equal(v, entry))
		return 0;
	v->rec.equal = true;
	r->result.equal++;
	/* One of a group may still have to become a link. */
	*ret_done = v->rec.link == 0;
	return refresh(r, v, e);
}

/* Two links of a group that are no files must lead to the same thing. */
static int note_special(const struct catalog_entry *entry,
    struct restore_record *rec, struct err *e)
{
	rec->has_sha256 = true;
	if (entry->kind == CATALOG_SYMLINK)
		return digest_of(
		    entry->target.p, entry->target.n, &rec->sha256, e);
	return digest_of(&entry->rdev, sizeof(entry->rdev), &rec->sha256, e);
}

/* It waits for its content, or its group; or it is made. */
static int note(struct walk *w, const struct catalog_entry *entry,
    struct visit *v, struct err *e)
{
	struct restore *r = w->r;
	uint64_t at = 0;
	bool made = false;
	int rc = 0;

	if (entry->kind == CATALOG_FILE)
		rc = restore_locate(r, entry, &v->rec, e);
	else if (v->rec.link == 0)
		return restore_special(r, &v->rec, entry, &made, e);
	else
		rc = note_special(entry, &v->rec, e);
	if (rc == 0)
		rc = restore_record_add(r, &v->rec, &at, e);
	if (rc < 0)
		return rc;
	if (v->rec.link != 0)
		return restore_sort_add(r->links,
		    (struct restore_pair){
			.key = (uint64_t)v->rec.link, .at = at },
		    e);
	return restore_schedule(r, &v->rec, at, e);
}

static int tell_if_cut(struct walk *w, const struct catalog_entry *entry,
    const struct visit *v, struct err *e)
{
	bool cut = false;
	int rc = catalog_is_cut(w->r->c, entry, &cut, e);

	if (rc < 0 || !cut)
		return rc;
	return restore_tell(w->r, RESTORE_TOLD_SHORT, v->rec.dir, v->rec.name,
	    CATALOG_CUT_TEXT, e);
}

static int visit_other(
    struct walk *w, const struct catalog_entry *entry, struct err *e)
{
	bool done = false;
	struct visit v;
	int rc = begin(w, entry, &v, e);

	if (rc == 0)
		rc = meet(w, entry, &v, &done, e);
	if (rc == 0 && !done)
		rc = note(w, entry, &v, e);
	if (rc == 0 && !done)
		rc = tell_if_cut(w, entry, &v, e);
	end(w, &v);
	if (rc < 0)
		rc = restore_failed(w->r, v.rec.dir, v.rec.name, rc, e);
	return rc;
}

/* -- The walk. -- */

static int visit(
    struct walk *w, const struct catalog_entry *entry, struct err *e)
{
	w->r->entries_seen++;
	return entry->kind == CATALOG_DIR ? visit_dir(w, entry, e)
					  : visit_other(w, entry, e);
}

/* The root is the target, which is there. */
static int add_target(
    struct walk *w, const struct catalog_entry *root, struct err *e)
{
	struct restore *r = w->r;
	struct level l = { .existed = !r->opts->root_metadata };
	struct restore_dirfd fd = { .open = false };
	struct restore_dir d;
	int rc = 0;

	memset(&d, 0, sizeof(d));
	d.parent = RESTORE_DIR_NONE;
	d.set = r->opts->root_metadata && !w->leading;
	d.inherited = RESTORE_INHERIT_ACL | RESTORE_INHERIT_FLAGS;
	rc = restore_meta_of(r, root, &d.meta, e);
	if (rc == 0)
		rc = restore_dirs_add(r->dirs, &d, e);
	if (rc == 0)
		rc = restore_dirs_open(r->dirs, RESTORE_DIR_TARGET, &fd, e);
	if (rc < 0)
		return rc;
	l.inherits = restore_meta_inherits(fd.fd);
	restore_dirs_put(r->dirs, &fd);
	return push(w, &l, e);
}

static int on_entry(void *ctx, struct catalog_bytes path,
    const struct catalog_entry *entry, struct err *e)
{
	struct walk *w = ctx;
	bool first = !w->inside;
	struct task_progress p = { .phase = w->r->phase_walk,
		.unit = TASK_UNIT_COUNT,
		.done = w->r->entries_seen };

	(void)path;
	w->inside = true;
	if (first && entry->parent == 0) /* the root: it is there */
		return 0;
	task_progress(w->r->task, &p);
	return visit(w, entry, e);
}

static int on_leave(
    void *ctx, struct catalog_bytes path, int64_t id, struct err *e)
{
	struct walk *w = ctx;

	(void)path;
	(void)id;
	(void)e;
	/* The target stays for the next path. */
	if (w->levels.len > sizeof(struct level))
		pop(w);
	return 0;
}

static int walk_from(struct walk *w, const struct catalog_entry *entry,
    struct catalog_bytes path, struct err *e)
{
	const struct catalog_walk how = { .fn = on_entry,
		.leave = on_leave,
		.ctx = w,
		.task = w->r->task,
		.gaps = &w->r->result.gaps };

	w->inside = false;
	w->leading = false;
	return catalog_walk(w->r->c, entry, path, &how, e);
}

/* The directories that lead to a path; *ret_stop: one can not be had. */
static int lead_to(struct walk *w, const struct restore_path *path, size_t from,
    struct catalog_entry *at, bool *ret_stop, struct err *e)
{
	int rc = 0;

	*ret_stop = false;
	w->leading = true;
	for (size_t i = 0; i < path->n && rc == 0; i++) {
		bool found = false;

		rc = catalog_lookup(
		    w->r->c, at->id, path->names[i], at, &found, e);
		if (rc == 0 && !found)
			rc = err_set(e, ERR_CORRUPT, "'%s': it changed",
			    catalog_shown(w->r->c));
		if (rc == 0 && i >= from && i + 1 < path->n)
			rc = visit(w, at, e);
		if (rc == CATALOG_SKIP) {
			*ret_stop = true;
			return 0;
		}
	}
	return rc;
}

static int walk_paths(struct walk *w, const struct restore_path *paths,
    size_t n, const struct catalog_entry *root, struct err *e)
{
	int rc = 0;

	for (size_t i = 0; i < n && rc == 0; i++) {
		struct catalog_entry at = *root;
		size_t same =
		    i > 0 ? restore_path_common(&paths[i - 1], &paths[i]) : 0;
		bool stop = false;

		/* Directories that lead to both are there. */
		while (w->levels.len > (same + 1) * sizeof(struct level))
			pop(w);
		same = w->levels.len / sizeof(struct level) - 1;
		rc = lead_to(w, &paths[i], same, &at, &stop, e);
		if (rc == 0 && !stop)
			rc = walk_from(w, &at, paths[i].text, e);
	}
	return rc;
}

int restore_walk(struct restore *r, struct err *e)
{
	const struct catalog_bytes none = { .p = NULL, .n = 0 };
	struct walk w = { .r = r };
	struct restore_path *paths = NULL;
	struct catalog_entry root;
	size_t n = 0;
	int rc = restore_paths_new(
	    r->c, r->opts->paths, r->opts->paths_n, &paths, &n, e);

	w.leading = n > 0;
	if (rc == 0)
		rc = catalog_root(r->c, &root, e);
	if (rc == 0)
		rc = add_target(&w, &root, e);
	if (rc == 0 && n == 0)
		rc = walk_from(&w, &root, none, e);
	else if (rc == 0)
		rc = walk_paths(&w, paths, n, &root, e);
	restore_paths_free(paths, n);
	buf_release(&w.levels);
	return rc;
}
