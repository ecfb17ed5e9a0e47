/* SPDX-License-Identifier: MIT */
#include "cli/meant.h"

#include <stdio.h>
#include <string.h>

#include "cli/hint.h"
#include "datastore/base/nearest.h"
#include "datastore/base/text.h"
#include "datastore/tree.h"

#define LISTED_MAX 5U /* of what there is */
#define SHOWN 128

/* "host/a, host/b" of the first few. */
struct names {
	char text[512];
	size_t n;
};

static void add_name(struct names *l, const char *name)
{
	size_t len = strlen(l->text);

	if (l->n++ < LISTED_MAX)
		(void)snprintf(l->text + len, sizeof(l->text) - len, "%s%s",
		    len > 0 ? ", " : "", name);
}

/* "; did you mean 'x'?", or what there is, or where to look. */
static void suggest(struct err *e, const struct nearest *n,
    const struct names *l, const char *command)
{
	if (nearest_best(n) != NULL)
		err_suffix(e, "; did you mean '%s'?", nearest_best(n));
	else if (l->n == 0)
		err_suffix(e, "; there is none");
	else if (l->n <= LISTED_MAX)
		err_suffix(e, "; there is: %s", l->text);
	else
		err_suffix(e, "; '%s' lists them", command);
}

void meant_namespace(
    struct datastore *ds, const struct backup_ns *ns, struct err *e)
{
	struct tree_namespaces all = { .items = NULL, .n = 0 };
	struct err ignored = ERR_INIT;
	struct names list = { .n = 0 };
	struct nearest n;

	if (e->code != ERR_NOTFOUND || tree_namespaces(ds, &all, &ignored) < 0)
		return;
	nearest_init(&n, ns->name);
	/* The first one is the root, which has no name. */
	for (size_t i = 1; i < all.n; i++) {
		nearest_try(&n, all.items[i].name);
		add_name(&list, all.items[i].name);
	}
	suggest(e, &n, &list, "cairn namespaces");
	tree_namespaces_release(&all);
}

static bool group_exists(struct datastore *ds, const struct backup_group *g)
{
	struct tree_snapshots list = { .items = NULL, .n = 0 };
	struct err ignored = ERR_INIT;

	if (tree_snapshots(ds, g, &list, &ignored) < 0)
		return false;
	tree_snapshots_release(&list);
	return true;
}

/* The same group elsewhere is the likeliest mistake of all. */
static bool is_elsewhere(
    struct datastore *ds, const struct backup_group *g, struct err *e)
{
	struct tree_namespaces all = { .items = NULL, .n = 0 };
	struct err ignored = ERR_INIT;
	bool found = false;

	if (tree_namespaces(ds, &all, &ignored) < 0)
		return false;
	for (size_t i = 0; i < all.n && !found; i++) {
		struct backup_group other = *g;

		other.ns = all.items[i];
		if (strcmp(other.ns.name, g->ns.name) == 0 ||
		    !group_exists(ds, &other))
			continue;
		found = true;
		if (other.ns.name[0] == '\0')
			err_suffix(e, "; it is in the root: leave out --ns");
		else
			err_suffix(e, "; it is in namespace '%s': --ns %s",
			    other.ns.name, other.ns.name);
	}
	tree_namespaces_release(&all);
	return found;
}

static bool namespace_exists(struct datastore *ds, const struct backup_ns *ns)
{
	struct tree_groups groups = { .items = NULL, .n = 0 };
	struct err ignored = ERR_INIT;

	if (tree_groups(ds, ns, &groups, &ignored) == ERR_NOTFOUND)
		return false;
	tree_groups_release(&groups);
	return true;
}

void meant_group(const struct app *app, struct datastore *ds,
    const struct backup_group *g, struct err *e)
{
	struct tree_groups groups = { .items = NULL, .n = 0 };
	struct err ignored = ERR_INIT;
	struct names list = { .n = 0 };
	char command[HINT_SIZE];
	char text[BACKUP_PATH_SIZE];
	struct nearest n;

	if (e->code != ERR_NOTFOUND)
		return;
	if (!namespace_exists(ds, &g->ns)) {
		err_suffix(
		    e, "; namespace '%s' does not exist either", g->ns.name);
		meant_namespace(ds, &g->ns, e);
		return;
	}
	if (is_elsewhere(ds, g, e) ||
	    tree_groups(ds, &g->ns, &groups, &ignored) < 0)
		return;
	backup_group_text(g, text);
	nearest_init(&n, text);
	for (size_t i = 0; i < groups.n; i++) {
		char other[BACKUP_PATH_SIZE];

		backup_group_text(&groups.items[i], other);
		/* The right id with another type is as near as can be. */
		n.word = strcmp(groups.items[i].id, g->id) == 0 ? other : text;
		nearest_try(&n, other);
		add_name(&list, other);
	}
	suggest(
	    e, &n, &list, hint_command(app, HINT_NAMESPACE, "groups", command));
	tree_groups_release(&groups);
}

/* The group is there, the snapshot is not. */
static void meant_snapshot(const struct app *app, struct datastore *ds,
    const struct backup_group *g, struct err *e)
{
	struct tree_snapshots list = { .items = NULL, .n = 0 };
	struct err ignored = ERR_INIT;
	char command[HINT_SIZE];
	char rest[BACKUP_PATH_SIZE + 16];
	char group[BACKUP_PATH_SIZE];
	char time[TEXT_TIME_SIZE];
	int64_t newest = 0;

	if (tree_snapshots(ds, g, &list, &ignored) < 0)
		return;
	for (size_t i = 0; i < list.n; i++)
		if (list.items[i].finished)
			newest = list.items[i].id.time;
	tree_snapshots_release(&list);
	backup_group_text(g, group);
	(void)snprintf(rest, sizeof(rest), "list %s", group);
	if (newest != 0)
		err_suffix(e, "; the newest is of %s, '%s' lists all",
		    text_time(time, newest),
		    hint_command(app, HINT_NAMESPACE, rest, command));
}

int meant_find_snapshot(const struct app *app, struct datastore *ds,
    const char *word, struct backup_snapshot *ret, struct err *e)
{
	int rc = tree_find_snapshot(ds, &app->ns, word, ret, e);
	const char *slash = strrchr(word, '/');
	struct err ignored = ERR_INIT;
	char text[BACKUP_PATH_SIZE];
	struct backup_group g;

	if (rc == ERR_INVALID &&
	    backup_group_parse(&app->ns, word, &g, &ignored) == 0)
		err_suffix(e, ", or '%s/latest'", word);
	if (rc != ERR_NOTFOUND || slash == NULL ||
	    slash - word >= (ptrdiff_t)sizeof(text))
		return rc;
	(void)snprintf(text, sizeof(text), "%.*s", (int)(slash - word), word);
	if (backup_group_parse(&app->ns, text, &g, &ignored) < 0)
		return rc;
	if (group_exists(ds, &g))
		meant_snapshot(app, ds, &g, e);
	else
		meant_group(app, ds, &g, e);
	return rc;
}

void meant_path(struct catalog *c, struct catalog_bytes path, struct err *e)
{
	struct err ignored = ERR_INIT;
	struct catalog_entry entry;
	char shown[SHOWN];

	if (e->code != ERR_NOTFOUND)
		return;
	/* '/etc/passwd' of a tree that was pushed from '/etc'. */
	for (;;) {
		const uint8_t *slash = NULL;

		while (path.n > 0 && path.p[0] == '/') {
			path.p++;
			path.n--;
		}
		if (path.n > 0)
			slash = memchr(path.p, '/', path.n);
		if (slash == NULL)
			return;
		path.n -= (size_t)(slash - path.p);
		path.p = slash;
		if (path.n > 1 &&
		    catalog_resolve(c, path, &entry, &ignored) == 0)
			break;
	}
	err_suffix(e, "; paths begin at the archive's root: did you mean '%s'?",
	    text_bytes(shown, sizeof(shown), path.p + 1, path.n - 1));
}
