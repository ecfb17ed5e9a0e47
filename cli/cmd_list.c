/* SPDX-License-Identifier: MIT */
/*
 * cmd_list: list, groups, namespaces, files: what there is.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli/cmd.h"
#include "cli/exit.h"
#include "cli/meant.h"
#include "cli/opened.h"
#include "cli/output.h"
#include "datastore/base/clock.h"
#include "datastore/base/file.h"
#include "datastore/base/text.h"
#include "datastore/manifest.h"
#include "datastore/snapshot.h"

/* What is being listed into: a table or an array. */
/* Clocks of hosts may differ by so much without being wrong. */
#define CLOCKS_DIFFER_S 60

struct lister {
	struct app *app;
	struct datastore *ds;
	struct table *table;
	struct js *array;
	bool all;
	bool damaged;    /* something could not be read, and was told */
	int64_t now;     /* what is later than this is of the future */
	uint64_t future; /* so many are listed */
	struct backup_snapshot newest; /* the last of those */
};

/* One damaged thing must not hide the others: warn and go on. */
static void pass_over(void *ctx, const struct err *why)
{
	struct lister *l = ctx;

	task_message(&l->app->task, TASK_WARNING, "%s", why->msg);
	l->damaged = true;
}

/* Is it about this one thing?  Then pass over it, else it is *e. */
static int pass_over_damage(
    struct lister *l, const struct err *why, struct err *e)
{
	if (why->code != ERR_CORRUPT && why->code != ERR_SYS &&
	    why->code != ERR_LIMIT && why->code != ERR_UNSUPPORTED) {
		*e = *why;
		return why->code;
	}
	pass_over(l, why);
	return 0;
}

static const char *verified_name(enum verify_outcome v)
{
	switch (v) {
	case VERIFY_OK:
		return "ok";
	case VERIFY_FAILED:
		return "failed";
	case VERIFY_NONE:
		break;
	}
	return "-";
}

static uint64_t total_size(const struct manifest *m)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < m->files_n; i++)
		sum += m->files[i].size;
	return sum;
}

static int add_json(struct lister *l, const struct tree_snapshot *s,
    const struct manifest *m, struct err *e)
{
	struct js *o = js_object();

	output_json_begin(e);
	cmd_json_snapshot(o, &s->id, e);
	js_set_bool(o, "finished", s->finished, e);
	js_set_bool(o, "protected", s->is_protected, e);
	if (m != NULL) {
		js_set_u64(o, "size", total_size(m), e);
		js_set_u64(o, "files", m->files_n, e);
		js_set_str(o, "verified",
		    m->verified == VERIFY_NONE ? NULL
					       : verified_name(m->verified),
		    e);
		js_set_str(o, "note", m->notes, e);
	} else if (s->finished) {
		js_set_bool(o, "damaged", true, e);
	}
	js_append(l->array, o, e);
	return e->code;
}

/* The first line of the note, as one cell. */
static int note_cell(struct table *t, const char *notes, struct err *e)
{
	struct buf text = BUF_INIT;
	size_t n = notes != NULL ? strcspn(notes, "\n") : 0;
	const char *s = NULL;
	int rc = text_append_name(&text, notes, n, e);

	if (rc == 0) {
		s = buf_cstr(&text, e);
		rc = s != NULL ? table_cell(t, e, "%s", s) : e->code;
	}
	buf_release(&text);
	return rc;
}

static int add_row(struct lister *l, const struct tree_snapshot *s,
    const struct manifest *m, struct err *e)
{
	char name[BACKUP_PATH_SIZE];
	char size[TEXT_SIZE_SIZE];
	const char *state = !s->finished ? "unfinished"
	    : m == NULL                  ? "damaged"
					 : verified_name(m->verified);
	int rc = 0;

	backup_snapshot_text(&s->id, name);
	rc = table_cell(l->table, e, "%s", name);
	if (rc == 0)
		rc = table_cell(l->table, e, "%s",
		    m != NULL ? text_size(size, total_size(m)) : "-");
	if (rc == 0 && m != NULL)
		rc = table_cell(l->table, e, "%zu", m->files_n);
	else if (rc == 0)
		rc = table_cell(l->table, e, "-");
	if (rc == 0)
		rc = table_cell(l->table, e, "%s", state);
	if (rc == 0)
		rc = table_cell(
		    l->table, e, "%s", s->is_protected ? "yes" : "-");
	if (rc == 0)
		rc = note_cell(l->table, m != NULL ? m->notes : "", e);
	return rc;
}

static int read_manifest(struct lister *l, const struct tree_snapshot *s,
    struct manifest *m, bool *ret_there, struct err *e)
{
	struct err why = ERR_INIT;
	int fd = -1;
	int rc = tree_open_snapshot(l->ds, &s->id, &fd, &why);

	if (rc == 0)
		rc = tree_read_manifest(l->ds, &s->id, fd, m, &why);
	file_close(&fd);
	*ret_there = rc == 0;
	if (rc == 0 || rc == ERR_NOTFOUND)
		return 0;
	return pass_over_damage(l, &why, e);
}

static int list_snapshot(
    struct lister *l, const struct tree_snapshot *s, struct err *e)
{
	struct manifest m = MANIFEST_INIT;
	bool there = false;
	int rc = 0;

	if (!s->finished && !l->all)
		return 0;
	if (s->id.time > l->now) {
		l->future++;
		l->newest = s->id;
	}
	if (s->finished)
		rc = read_manifest(l, s, &m, &there, e);
	if (rc == 0 && l->app->json)
		rc = add_json(l, s, there ? &m : NULL, e);
	else if (rc == 0)
		rc = add_row(l, s, there ? &m : NULL, e);
	manifest_release(&m);
	return rc;
}

static int list_group(
    struct lister *l, const struct backup_group *g, struct err *e)
{
	const struct tree_obstacles o = { .fn = pass_over, .ctx = l };
	struct tree_snapshots snapshots = { .items = NULL, .n = 0 };
	int rc = tree_snapshots_past(l->ds, g, &o, &snapshots, e);

	for (size_t i = 0; i < snapshots.n && rc == 0; i++)
		rc = list_snapshot(l, &snapshots.items[i], e);
	tree_snapshots_release(&snapshots);
	return rc;
}

static int list_all(struct lister *l, struct err *e)
{
	const struct tree_obstacles o = { .fn = pass_over, .ctx = l };
	struct tree_groups groups = { .items = NULL, .n = 0 };
	int rc = tree_groups_past(l->ds, &l->app->ns, &o, &groups, e);

	for (size_t i = 0; i < groups.n && rc == 0; i++) {
		struct err gone = ERR_INIT;

		rc = list_group(l, &groups.items[i], &gone);
		if (rc == ERR_NOTFOUND)
			rc = 0; /* removed since the groups were listed */
		else if (rc < 0)
			rc = pass_over_damage(l, &gone, e);
	}
	tree_groups_release(&groups);
	return rc;
}

/* Else nobody sees why the backups of today are never the latest. */
static void warn_of_future(const struct lister *l)
{
	char name[BACKUP_PATH_SIZE];

	if (l->future == 0)
		return;
	backup_snapshot_text(&l->newest, name);
	task_message(&l->app->task, TASK_WARNING,
	    "%" PRIu64 " snapshot%s dated in the future, as '%s': was a clock "
	    "wrong? 'latest' means %s, and 'prune' sets %s aside",
	    l->future, text_plural(l->future, " is", "s are"), name,
	    text_plural(l->future, "it", "the last of them"),
	    text_plural(l->future, "it", "them"));
}

int cmd_list(struct app *app, const struct invocation *inv, struct err *e)
{
	static const char *const heading[] = { "SNAPSHOT", "SIZE", "FILES",
		"VERIFIED", "PROTECTED", "NOTE" };
	struct lister l = {
		.app = app,
		.all = invocation_has(inv, "all"),
		.now = clock_now_s() + CLOCKS_DIFFER_S,
	};
	struct backup_group g;
	int rc = 0;

	if (inv->args_n > 0) {
		rc = backup_group_parse(&app->ns, inv->args[0], &g, e);
		if (rc < 0)
			return rc;
	}
	rc = app_open_datastore(app, DATASTORE_READ, &l.ds, e);
	if (rc == 0)
		rc = table_new("lrrlll", heading, &l.table, e);
	if (rc < 0)
		goto out;
	l.array = js_array();
	rc = inv->args_n > 0 ? list_group(&l, &g, e) : list_all(&l, e);
	if (rc < 0 && inv->args_n > 0)
		meant_group(app, l.ds, &g, e);
	else if (rc < 0)
		meant_namespace(l.ds, &app->ns, e);
	if (rc == 0 && app->json) {
		output_json_begin(e);
		rc = output_json(l.array, e);
		l.array = NULL;
	} else if (rc == 0) {
		rc = table_print(l.table, e);
	}
	if (rc == 0)
		warn_of_future(&l);
out:
	js_free(l.array);
	table_free(l.table);
	datastore_close(l.ds);
	if (rc < 0)
		return rc;
	return l.damaged ? EXIT_DAMAGE : EXIT_DONE;
}

struct group_row {
	uint64_t finished;
	uint64_t unfinished;
	int64_t latest; /* 0: none */
	char owner[256];
};

static int read_group(struct lister *l, const struct backup_group *g,
    struct group_row *row, struct err *e)
{
	const struct tree_obstacles o = { .fn = pass_over, .ctx = l };
	struct tree_snapshots snapshots = { .items = NULL, .n = 0 };
	int rc = tree_snapshots_past(l->ds, g, &o, &snapshots, e);

	memset(row, 0, sizeof(*row));
	for (size_t i = 0; i < snapshots.n; i++) {
		if (!snapshots.items[i].finished) {
			row->unfinished++;
			continue;
		}
		row->finished++;
		row->latest = snapshots.items[i].id.time;
	}
	tree_snapshots_release(&snapshots);
	if (rc == 0)
		rc = tree_group_owner(
		    l->ds, g, row->owner, sizeof(row->owner), e);
	return rc;
}

static int group_out(struct lister *l, const struct backup_group *g,
    const struct group_row *row, struct err *e)
{
	char name[BACKUP_PATH_SIZE];
	char latest[TEXT_TIME_SIZE] = "-";
	char owner[256];
	int rc = 0;

	if (row->latest != 0)
		(void)text_time(latest, row->latest);
	if (l->app->json) {
		struct js *o = js_object();

		output_json_begin(e);
		cmd_json_group(o, g, e);
		js_set_u64(o, "snapshots", row->finished, e);
		js_set_u64(o, "unfinished", row->unfinished, e);
		js_set_str(o, "latest", row->latest != 0 ? latest : NULL, e);
		js_set_name(o, "owner", row->owner, e);
		js_append(l->array, o, e);
		return e->code;
	}
	backup_group_text(g, name);
	rc = table_cell(l->table, e, "%s", name);
	if (rc == 0)
		rc = table_cell(l->table, e, "%" PRIu64, row->finished);
	if (rc == 0)
		rc = table_cell(l->table, e, "%" PRIu64, row->unfinished);
	if (rc == 0)
		rc = table_cell(l->table, e, "%s", latest);
	if (rc == 0)
		rc = table_cell(l->table, e, "%s",
		    text_name(owner, sizeof(owner), row->owner));
	return rc;
}

int cmd_groups(struct app *app, const struct invocation *inv, struct err *e)
{
	static const char *const heading[] = { "GROUP", "SNAPSHOTS",
		"UNFINISHED", "LATEST", "OWNER" };
	struct tree_groups groups = { .items = NULL, .n = 0 };
	struct lister l = { .app = app };
	const struct tree_obstacles o = { .fn = pass_over, .ctx = &l };
	int rc = 0;

	(void)inv;
	rc = app_open_datastore(app, DATASTORE_READ, &l.ds, e);
	if (rc == 0)
		rc = table_new("lrrll", heading, &l.table, e);
	if (rc == 0)
		rc = tree_groups_past(l.ds, &app->ns, &o, &groups, e);
	if (rc < 0 && l.ds != NULL)
		meant_namespace(l.ds, &app->ns, e);
	if (rc < 0)
		goto out;
	l.array = js_array();
	for (size_t i = 0; i < groups.n && rc == 0; i++) {
		struct group_row row;
		struct err why = ERR_INIT;

		rc = read_group(&l, &groups.items[i], &row, &why);
		if (rc == 0)
			rc = group_out(&l, &groups.items[i], &row, e);
		else if (rc == ERR_NOTFOUND)
			rc = 0; /* removed since the groups were listed */
		else
			rc = pass_over_damage(&l, &why, e);
	}
	if (rc == 0 && app->json) {
		output_json_begin(e);
		rc = output_json(l.array, e);
		l.array = NULL;
	} else if (rc == 0) {
		rc = table_print(l.table, e);
	}
out:
	js_free(l.array);
	table_free(l.table);
	tree_groups_release(&groups);
	datastore_close(l.ds);
	if (rc < 0)
		return rc;
	return l.damaged ? EXIT_DAMAGE : EXIT_DONE;
}

/* The one that --ns names, or below it; of the root, all. */
static bool is_below(const struct backup_ns *ns, const struct backup_ns *top)
{
	size_t n = strlen(top->name);

	return n == 0 ||
	    (strncmp(ns->name, top->name, n) == 0 &&
		(ns->name[n] == '\0' || ns->name[n] == '/'));
}

static int namespace_out(
    struct lister *l, const struct backup_ns *ns, struct err *e)
{
	const struct tree_obstacles o = { .fn = pass_over, .ctx = l };
	struct tree_groups groups = { .items = NULL, .n = 0 };
	struct err why = ERR_INIT;
	int rc = tree_groups_past(l->ds, ns, &o, &groups, &why);
	size_t n = groups.n;

	tree_groups_release(&groups);
	if (rc == ERR_NOTFOUND)
		return 0; /* removed since the namespaces were listed */
	if (rc < 0)
		return pass_over_damage(l, &why, e);
	if (l->app->json) {
		struct js *obj = js_object();

		output_json_begin(e);
		js_set_str(obj, "namespace", ns->name, e);
		js_set_u64(obj, "groups", n, e);
		js_append(l->array, obj, e);
		return e->code;
	}
	rc = table_cell(
	    l->table, e, "%s", ns->name[0] == '\0' ? "(root)" : ns->name);
	return rc < 0 ? rc : table_cell(l->table, e, "%zu", n);
}

static int list_namespaces(struct lister *l, struct err *e)
{
	const struct tree_obstacles o = { .fn = pass_over, .ctx = l };
	struct tree_namespaces all = { .items = NULL, .n = 0 };
	bool any = false;
	int rc = tree_namespaces_past(l->ds, &o, &all, e);

	for (size_t i = 0; i < all.n && rc == 0; i++) {
		if (!is_below(&all.items[i], &l->app->ns))
			continue;
		any = true;
		rc = namespace_out(l, &all.items[i], e);
	}
	tree_namespaces_release(&all);
	if (rc == 0 && !any) {
		rc = err_set(e, ERR_NOTFOUND, "namespace '%s' does not exist",
		    l->app->ns.name);
		meant_namespace(l->ds, &l->app->ns, e);
	}
	return rc;
}

int cmd_namespaces(struct app *app, const struct invocation *inv, struct err *e)
{
	static const char *const heading[] = { "NAMESPACE", "GROUPS" };
	struct lister l = { .app = app };
	int rc = app_open_datastore(app, DATASTORE_READ, &l.ds, e);

	(void)inv;
	if (rc == 0)
		rc = table_new("lr", heading, &l.table, e);
	if (rc < 0)
		goto out;
	l.array = js_array();
	rc = list_namespaces(&l, e);
	if (rc == 0 && app->json) {
		output_json_begin(e);
		rc = output_json(l.array, e);
		l.array = NULL;
	} else if (rc == 0) {
		rc = table_print(l.table, e);
	}
out:
	js_free(l.array);
	table_free(l.table);
	datastore_close(l.ds);
	if (rc < 0)
		return rc;
	return l.damaged ? EXIT_DAMAGE : EXIT_DONE;
}

static int files_json(
    const struct backup_snapshot *id, const struct manifest *m, struct err *e)
{
	struct js *doc = js_object();
	struct js *files = js_array();

	output_json_begin(e);
	cmd_json_snapshot(doc, id, e);
	for (size_t i = 0; i < m->files_n; i++) {
		const struct manifest_file *f = &m->files[i];
		char name[BACKUP_ID_MAX + 1];
		char hex[DIGEST_HEX_SIZE];
		struct js *o = js_object();

		cmd_archive_name(f->filename, name);
		digest_hex(&f->csum, hex);
		js_set_str(o, "archive", name, e);
		js_set_str(o, "filename", f->filename, e);
		js_set_u64(o, "size", f->size, e);
		js_set_str(o, "crypt-mode", crypt_mode_name(f->crypt_mode), e);
		js_set_str(o, "csum", hex, e);
		js_append(files, o, e);
	}
	js_set(doc, "files", files, e);
	js_set_str(doc, "note", m->notes, e);
	return output_json(doc, e);
}

static int files_table(const struct manifest *m, struct err *e)
{
	static const char *const heading[] = { "ARCHIVE", "FILE", "SIZE",
		"BYTES", "ENCRYPTION", "CHECKSUM" };
	struct table *t = NULL;
	int rc = table_new("llrrll", heading, &t, e);

	for (size_t i = 0; i < m->files_n && rc == 0; i++) {
		const struct manifest_file *f = &m->files[i];
		char name[BACKUP_ID_MAX + 1];
		char hex[DIGEST_HEX_SIZE];
		char size[TEXT_SIZE_SIZE];

		cmd_archive_name(f->filename, name);
		digest_hex(&f->csum, hex);
		if (rc == 0)
			rc = table_cell(t, e, "%s", name);
		if (rc == 0)
			rc = table_cell(t, e, "%s", f->filename);
		if (rc == 0)
			rc = table_cell(t, e, "%s", text_size(size, f->size));
		if (rc == 0)
			rc = table_cell(t, e, "%" PRIu64, f->size);
		if (rc == 0)
			rc = table_cell(
			    t, e, "%s", crypt_mode_name(f->crypt_mode));
		if (rc == 0)
			rc = table_cell(t, e, "%s", hex);
	}
	if (rc == 0)
		rc = table_print(t, e);
	table_free(t);
	return rc;
}

int cmd_files(struct app *app, const struct invocation *inv, struct err *e)
{
	struct manifest m = MANIFEST_INIT;
	struct datastore *ds = NULL;
	struct backup_snapshot id;
	int fd = -1;
	int rc = app_open_datastore(app, DATASTORE_READ, &ds, e);

	if (rc == 0)
		rc = meant_find_snapshot(app, ds, inv->args[0], &id, e);
	if (rc == 0)
		rc = tree_open_snapshot(ds, &id, &fd, e);
	if (rc == 0)
		rc = opened_read_manifest(app, ds, &id, fd, &m, e);
	if (rc == 0)
		rc = app->json ? files_json(&id, &m, e) : files_table(&m, e);
	file_close(&fd);
	manifest_release(&m);
	datastore_close(ds);
	return rc < 0 ? rc : EXIT_DONE;
}
