/* SPDX-License-Identifier: MIT */
/*
 * cmd_verify: read and check everything again.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cmd.h"
#include "cli/exit.h"
#include "cli/output.h"
#include "datastore/base/text.h"
#include "index/verify.h"

struct id_list {
	struct backup_snapshot *items;
	size_t n;
	size_t cap;
};

static int id_list_add(
    struct id_list *l, const struct backup_snapshot *s, struct err *e)
{
	if (l->n == l->cap) {
		size_t cap = l->cap == 0 ? 64 : l->cap * 2;
		struct backup_snapshot *grown =
		    reallocarray(l->items, cap, sizeof(*grown));

		if (grown == NULL)
			return err_nomem(e);
		l->items = grown;
		l->cap = cap;
	}
	l->items[l->n++] = *s;
	return 0;
}

static int add_group(struct datastore *ds, const struct backup_group *g,
    struct id_list *l, struct err *e)
{
	struct tree_snapshots snapshots = { .items = NULL, .n = 0 };
	int rc = tree_snapshots(ds, g, &snapshots, e);

	for (size_t i = 0; i < snapshots.n && rc == 0; i++)
		rc = id_list_add(l, &snapshots.items[i].id, e);
	tree_snapshots_release(&snapshots);
	return rc;
}

static int add_namespace(struct datastore *ds, const struct backup_ns *ns,
    struct id_list *l, struct err *e)
{
	struct tree_groups groups = { .items = NULL, .n = 0 };
	int rc = tree_groups(ds, ns, &groups, e);

	for (size_t i = 0; i < groups.n && rc == 0; i++) {
		struct err why = ERR_INIT;

		rc = add_group(ds, &groups.items[i], l, &why);
		if (rc == ERR_NOTFOUND)
			rc = 0; /* removed since the groups were listed */
		else if (rc < 0)
			*e = why;
	}
	tree_groups_release(&groups);
	return rc;
}

static int add_everything(
    struct datastore *ds, struct id_list *l, struct err *e)
{
	struct tree_namespaces all = { .items = NULL, .n = 0 };
	int rc = tree_namespaces(ds, &all, e);

	for (size_t i = 0; i < all.n && rc == 0; i++)
		rc = add_namespace(ds, &all.items[i], l, e);
	tree_namespaces_release(&all);
	return rc;
}

/* A word with two slashes is a snapshot, with one a group. */
static int find_scope(
    struct app *app, struct datastore *ds, struct id_list *l, struct err *e)
{
	const struct invocation *inv = app->inv;
	struct backup_snapshot id;
	int rc = 0;

	if (inv->args_n == 0 && invocation_has(inv, "ns"))
		return add_namespace(ds, &app->ns, l, e);
	if (inv->args_n == 0)
		return add_everything(ds, l, e);
	if (strchr(inv->args[0], '/') == strrchr(inv->args[0], '/')) {
		rc = backup_group_parse(&app->ns, inv->args[0], &id.group, e);
		return rc < 0 ? rc : add_group(ds, &id.group, l, e);
	}
	rc = tree_find_snapshot(ds, &app->ns, inv->args[0], &id, e);
	return rc < 0 ? rc : id_list_add(l, &id, e);
}

static int print_json(const struct verify_result *r, struct err *e)
{
	struct js *doc = js_object();
	struct js *hurt = js_array();

	output_json_begin(e);
	js_set_u64(doc, "snapshots", r->snapshots, e);
	js_set_u64(doc, "unfinished", r->unfinished, e);
	js_set_u64(doc, "busy", r->busy, e);
	js_set_u64(doc, "chunks", r->chunks, e);
	js_set_u64(doc, "bytes", r->bytes, e);
	js_set_u64(doc, "missing-chunks", r->missing_chunks, e);
	js_set_u64(doc, "bad-chunks", r->bad_chunks, e);
	js_set_u64(doc, "unreadable-chunks", r->unreadable_chunks, e);
	for (size_t i = 0; i < r->hurt_n; i++) {
		struct js *o = js_object();

		cmd_json_snapshot(o, &r->hurt[i].id, e);
		js_set_name(o, "reasons", r->hurt[i].reasons, e);
		js_append(hurt, o, e);
	}
	js_set(doc, "hurt", hurt, e);
	return output_json(doc, e);
}

static int print_text(const struct verify_result *r, struct err *e)
{
	char size[TEXT_SIZE_SIZE];
	int rc = output_text(e,
	    "verified %" PRIu64 " snapshot%s: %" PRIu64 " chunk%s, %s read\n",
	    r->snapshots, r->snapshots == 1 ? "" : "s", r->chunks,
	    r->chunks == 1 ? "" : "s", text_size(size, r->bytes));

	if (rc == 0 && r->unfinished > 0)
		rc = output_text(
		    e, "passed over: %" PRIu64 " unfinished\n", r->unfinished);
	if (rc == 0 && r->busy > 0)
		rc = output_text(
		    e, "passed over: %" PRIu64 " being removed\n", r->busy);
	if (rc == 0 &&
	    r->missing_chunks + r->bad_chunks + r->unreadable_chunks > 0)
		rc = output_text(e,
		    "chunks: %" PRIu64 " missing, %" PRIu64
		    " bad (renamed to .bad), %" PRIu64 " unreadable\n",
		    r->missing_chunks, r->bad_chunks, r->unreadable_chunks);
	for (size_t i = 0; i < r->hurt_n && rc == 0; i++) {
		char name[BACKUP_PATH_SIZE];

		backup_snapshot_text(&r->hurt[i].id, name);
		rc = output_text(e, "hurt: %s\n", name);
	}
	if (rc == 0 && r->hurt_n > 0)
		rc = output_text(e,
		    "a push of the same data stores missing and bad chunks "
		    "again; then verify once more\n");
	else if (rc == 0)
		rc = output_text(e, "no damage found\n");
	return rc;
}

int cmd_verify(struct app *app, const struct invocation *inv, struct err *e)
{
	struct verify_result result = { .hurt = NULL };
	struct id_list ids = { .items = NULL };
	struct datastore *ds = NULL;
	bool damage = false;
	int rc = app_open_datastore(app, DATASTORE_WRITE, &ds, e);

	(void)inv;
	if (rc == 0)
		rc = find_scope(app, ds, &ids, e);
	if (rc == 0)
		rc = verify_run(ds, ids.items, ids.n, &app->task, &result, e);
	if (rc == 0)
		rc =
		    app->json ? print_json(&result, e) : print_text(&result, e);
	damage = result.hurt_n > 0;
	verify_result_release(&result);
	free(ids.items);
	datastore_close(ds);
	if (rc < 0)
		return rc;
	return damage ? EXIT_DAMAGE : EXIT_DONE;
}
