/* SPDX-License-Identifier: MIT */
#include "datastore/tree.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "datastore/base/text.h"
#include "datastore/tree_internal.h"

#define NS_NAME "ns"

static const enum backup_type types[] = { BACKUP_CT, BACKUP_HOST, BACKUP_VM };

/* The items of a list, grown one by one. */
static void *grow(void *items, size_t n, size_t size)
{
	/* Doubled at each power of two: no count is kept beside n. */
	if ((n & (n - 1)) != 0)
		return items;
	return reallocarray(items, n == 0 ? 1 : 2 * n, size);
}

/*
 * Is this entry a directory?  A link could hide one: what lies behind it would
 * be seen by nobody.  Other kinds are nothing, and so is what has vanished.
 */
static int check_dir(
    int dirfd, const char *dir, const char *name, bool *ret, struct err *e)
{
	struct statx st = { .stx_mask = 0 };
	char shown[BACKUP_PATH_SIZE];
	bool found = false;
	int rc = file_stat_at(
	    dirfd, name, &st, &found, tree_join(dir, name, shown), e);

	if (rc < 0)
		return rc;
	if (found && S_ISLNK(st.stx_mode)) {
		return err_set(e, ERR_CORRUPT,
		    "'%s' is a symbolic link, want a directory", shown);
	}
	*ret = found && S_ISDIR(st.stx_mode);
	return 0;
}

/* One directory being listed: fn gets its names that are directories. */
struct walk {
	int dirfd;
	const char *shown;
	bool (*is_good)(const char *name);
	int (*fn)(void *ctx, const char *name, struct err *e);
	void *ctx;
	const struct tree_obstacles *obstacles; /* or NULL */
};

/* A directory, or something in its place, that can not be listed. */
static int pass(const struct tree_obstacles *o, int rc, struct err *e)
{
	if (o == NULL || (rc != ERR_CORRUPT && rc != ERR_SYS))
		return rc;
	o->fn(o->ctx, e);
	return err_forget(e);
}

static int walk_name(void *ctx, const char *name, struct err *e)
{
	const struct walk *w = ctx;
	bool is_dir = false;
	int rc = 0;

	if (!w->is_good(name))
		return 0;
	rc = check_dir(w->dirfd, w->shown, name, &is_dir, e);
	if (rc == 0 && is_dir)
		rc = w->fn(w->ctx, name, e);
	return rc < 0 ? pass(w->obstacles, rc, e) : 0;
}

/* Walk the directory `path` below the root; nothing if it is not there. */
static int walk_dir(
    struct datastore *ds, const char *path, struct walk *w, struct err *e)
{
	int fd = -1;
	int rc = file_open_dir(ds->root_fd, path, &fd, path, e);

	if (rc == ERR_NOTFOUND)
		return err_forget(e);
	if (rc < 0)
		return pass(w->obstacles, rc, e);
	w->dirfd = fd;
	w->shown = path;
	rc = file_each_name(fd, walk_name, w, path, e);
	file_close(&fd);
	return rc < 0 ? pass(w->obstacles, rc, e) : 0;
}

struct ns_walk {
	struct tree_namespaces list;
	size_t parent;
};

static int add_ns(void *ctx, const char *name, struct err *e)
{
	struct ns_walk *w = ctx;
	const char *above = w->list.items[w->parent].name;
	struct err ignored = ERR_INIT;
	struct backup_ns ns;
	struct backup_ns *items = NULL;
	char text[BACKUP_NS_MAX + BACKUP_ID_MAX + 2];

	(void)snprintf(text, sizeof(text), "%s%s%s", above,
	    above[0] == '\0' ? "" : "/", name);
	/* Too deep or too long: not a namespace, as for PBS. */
	if (backup_ns_parse(text, &ns, &ignored) < 0)
		return 0;
	items = grow(w->list.items, w->list.n, sizeof(*items));
	if (items == NULL)
		return err_nomem(e);
	w->list.items = items;
	items[w->list.n++] = ns;
	return 0;
}

static int compare_ns(const void *a, const void *b)
{
	return strcmp(((const struct backup_ns *)a)->name,
	    ((const struct backup_ns *)b)->name);
}

int tree_namespaces(
    struct datastore *ds, struct tree_namespaces *ret, struct err *e)
{
	return tree_namespaces_past(ds, NULL, ret, e);
}

int tree_namespaces_past(struct datastore *ds, const struct tree_obstacles *o,
    struct tree_namespaces *ret, struct err *e)
{
	struct ns_walk w = { .list = { .items = NULL } };
	struct walk walk = {
		.is_good = backupid_is_safe,
		.fn = add_ns,
		.ctx = &w,
		.obstacles = o,
	};
	int rc = 0;

	w.list.items = calloc(1, sizeof(*w.list.items));
	if (w.list.items == NULL)
		return err_nomem(e);
	/* The root; the list is its own list of work. */
	w.list.n = 1;
	for (; rc == 0 && w.parent < w.list.n; w.parent++) {
		char path[BACKUP_PATH_SIZE];
		char ns_path[BACKUP_PATH_SIZE];

		backup_ns_path(&w.list.items[w.parent], path);
		rc = walk_dir(ds, tree_join(path, NS_NAME, ns_path), &walk, e);
	}
	if (rc < 0) {
		tree_namespaces_release(&w.list);
		return rc;
	}
	qsort(w.list.items, w.list.n, sizeof(*w.list.items), compare_ns);
	*ret = w.list;
	return 0;
}

void tree_namespaces_release(struct tree_namespaces *l)
{
	free(l->items);
	*l = (struct tree_namespaces){ .items = NULL };
}

static int open_ns(struct datastore *ds, const struct backup_ns *ns,
    int *ret_fd, struct err *e)
{
	char path[BACKUP_PATH_SIZE];
	int rc = 0;

	backup_ns_path(ns, path);
	rc = file_open_dir(ds->root_fd, path, ret_fd, path, e);
	if (rc == ERR_NOTFOUND) {
		rc = err_set(
		    e, ERR_NOTFOUND, "namespace '%s' does not exist", ns->name);
	}
	return rc;
}

struct group_walk {
	struct tree_groups list;
	struct backup_group next; /* but for the id */
};

static int add_group(void *ctx, const char *name, struct err *e)
{
	struct group_walk *w = ctx;
	size_t len = strlen(name);
	struct backup_group *items = NULL;

	if (len > BACKUP_ID_MAX)
		return 0;
	items = grow(w->list.items, w->list.n, sizeof(*items));
	if (items == NULL)
		return err_nomem(e);
	w->list.items = items;
	items[w->list.n] = w->next;
	memcpy(items[w->list.n].id, name, len + 1);
	w->list.n++;
	return 0;
}

static int compare_groups(const void *a, const void *b)
{
	return backup_group_compare(a, b);
}

int tree_groups(struct datastore *ds, const struct backup_ns *ns,
    struct tree_groups *ret, struct err *e)
{
	return tree_groups_past(ds, ns, NULL, ret, e);
}

int tree_groups_past(struct datastore *ds, const struct backup_ns *ns,
    const struct tree_obstacles *o, struct tree_groups *ret, struct err *e)
{
	struct group_walk w = { .next = { .ns = *ns } };
	struct walk walk = {
		.is_good = backupid_is_safe,
		.fn = add_group,
		.ctx = &w,
		.obstacles = o,
	};
	char path[BACKUP_PATH_SIZE];
	int fd = -1;
	int rc = open_ns(ds, ns, &fd, e);

	if (rc < 0) {
		rc = pass(o, rc, e);
		if (rc == 0)
			*ret = w.list;
		return rc;
	}
	file_close(&fd);
	backup_ns_path(ns, path);
	for (size_t i = 0; rc == 0 && i < sizeof(types) / sizeof(types[0]);
	     i++) {
		char type_path[BACKUP_PATH_SIZE];

		w.next.type = types[i];
		rc = walk_dir(ds,
		    tree_join(path, backup_type_name(types[i]), type_path),
		    &walk, e);
	}
	if (rc < 0) {
		tree_groups_release(&w.list);
		return rc;
	}
	if (w.list.n > 1) {
		qsort(w.list.items, w.list.n, sizeof(*w.list.items),
		    compare_groups);
	}
	*ret = w.list;
	return 0;
}

void tree_groups_release(struct tree_groups *l)
{
	free(l->items);
	*l = (struct tree_groups){ .items = NULL };
}

struct snapshot_walk {
	struct tree_snapshots list;
	const struct backup_group *group;
	const struct walk *walk;
};

/* Is there a file of this name in the snapshot's directory, of any kind? */
static int has_file(const struct snapshot_walk *w, const char *snapshot,
    const char *name, bool *ret, struct err *e)
{
	struct statx st = { .stx_mask = 0 };
	char path[BACKUP_TIME_SIZE + 1 + sizeof(BACKUP_MANIFEST)];
	char shown[BACKUP_PATH_SIZE];

	(void)snprintf(path, sizeof(path), "%s/%s", snapshot, name);
	return file_stat_at(w->walk->dirfd, path, &st, ret,
	    tree_join(w->walk->shown, path, shown), e);
}

static bool is_time(const char *name)
{
	int64_t ignored = 0;

	return text_parse_time(name, &ignored);
}

static int add_snapshot(void *ctx, const char *name, struct err *e)
{
	struct snapshot_walk *w = ctx;
	struct tree_snapshot s = { .id = { .group = *w->group } };
	struct tree_snapshot *items = NULL;
	bool there = true;
	int rc = 0;

	if (!text_parse_time(name, &s.id.time))
		return 0;
	rc = has_file(w, name, BACKUP_MANIFEST, &s.finished, e);
	if (rc == 0)
		rc = has_file(w, name, BACKUP_PROTECTED, &s.is_protected, e);
	/* Without a manifest it may have none, or be gone by now. */
	if (rc == 0 && !s.finished)
		rc = check_dir(w->walk->dirfd, w->walk->shown, name, &there, e);
	if (rc < 0 || !there)
		return rc;
	items = grow(w->list.items, w->list.n, sizeof(*items));
	if (items == NULL)
		return err_nomem(e);
	w->list.items = items;
	items[w->list.n++] = s;
	return 0;
}

static int compare_snapshots(const void *a, const void *b)
{
	int64_t x = ((const struct tree_snapshot *)a)->id.time;
	int64_t y = ((const struct tree_snapshot *)b)->id.time;

	return (x > y) - (x < y);
}

int tree_snapshots(struct datastore *ds, const struct backup_group *g,
    struct tree_snapshots *ret, struct err *e)
{
	return tree_snapshots_past(ds, g, NULL, ret, e);
}

int tree_snapshots_past(struct datastore *ds, const struct backup_group *g,
    const struct tree_obstacles *o, struct tree_snapshots *ret, struct err *e)
{
	struct snapshot_walk w = { .group = g };
	struct walk walk = {
		.dirfd = -1,
		.is_good = is_time,
		.fn = add_snapshot,
		.ctx = &w,
		.obstacles = o,
	};
	char path[BACKUP_PATH_SIZE];
	int rc = tree_open_group(ds, g, &walk.dirfd, e);

	backup_group_path(g, path);
	walk.shown = path;
	w.walk = &walk;
	if (rc == 0)
		rc = file_each_name(walk.dirfd, walk_name, &walk, path, e);
	file_close(&walk.dirfd);
	if (rc < 0)
		rc = pass(o, rc, e);
	if (rc < 0) {
		tree_snapshots_release(&w.list);
		return rc;
	}
	if (w.list.n > 1) {
		qsort(w.list.items, w.list.n, sizeof(*w.list.items),
		    compare_snapshots);
	}
	*ret = w.list;
	return 0;
}

void tree_snapshots_release(struct tree_snapshots *l)
{
	free(l->items);
	*l = (struct tree_snapshots){ .items = NULL };
}

static int find_latest(struct datastore *ds, const struct backup_group *g,
    struct backup_snapshot *ret, struct err *e)
{
	struct tree_snapshots list = { .items = NULL };
	char text[BACKUP_PATH_SIZE];
	size_t n = 0;
	int rc = tree_snapshots(ds, g, &list, e);

	if (rc < 0)
		return rc;
	n = list.n;
	while (n > 0 && !list.items[n - 1].finished)
		n--;
	if (n == 0) {
		backup_group_text(g, text);
		rc = err_set(e, ERR_NOTFOUND,
		    "group '%s' has no finished snapshot", text);
	} else {
		*ret = list.items[n - 1].id;
	}
	tree_snapshots_release(&list);
	return rc;
}

int tree_find_snapshot(struct datastore *ds, const struct backup_ns *ns,
    const char *text, struct backup_snapshot *ret, struct err *e)
{
	static const char latest[] = "/latest";
	struct backup_snapshot s = { .time = 0 };
	struct backup_group g = { .type = BACKUP_CT };
	size_t len = strlen(text);
	int fd = -1;
	int rc = 0;

	if (len >= sizeof(latest) &&
	    strcmp(text + len - (sizeof(latest) - 1), latest) == 0) {
		char group[BACKUP_PATH_SIZE];

		(void)snprintf(group, sizeof(group), "%.*s",
		    (int)(len - (sizeof(latest) - 1)), text);
		rc = backup_group_parse(ns, group, &g, e);
		return rc < 0 ? rc : find_latest(ds, &g, ret, e);
	}
	rc = backup_snapshot_parse(ns, text, &s, e);
	if (rc == 0)
		rc = tree_open_snapshot(ds, &s, &fd, e);
	if (rc == 0)
		*ret = s;
	file_close(&fd);
	return rc;
}
