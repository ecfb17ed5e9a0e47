/* SPDX-License-Identifier: MIT */
/*
 * cmd_verify: read and check everything again.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cmd.h"
#include "cli/exit.h"
#include "cli/hint.h"
#include "cli/meant.h"
#include "cli/output.h"
#include "datastore/base/text.h"
#include "gc/history_record.h"
#include "index/verify.h"

/* What is to be verified, and what could not be listed. */
struct scope {
	struct app *app;
	struct datastore *ds;
	struct task *task;
	struct backup_snapshot *items;
	size_t n;
	size_t cap;
	size_t obstacles;
	bool verbose;
};

/* Files of a snapshot that are named without --verbose. */
#define FILES_SHOWN 20U
/* Snapshots that are named without it. */
#define HURT_SHOWN 100U

static int scope_add(
    struct scope *s, const struct backup_snapshot *id, struct err *e)
{
	if (s->n == s->cap) {
		size_t cap = s->cap == 0 ? 64 : s->cap * 2;
		struct backup_snapshot *grown =
		    reallocarray(s->items, cap, sizeof(*grown));

		if (grown == NULL)
			return err_nomem(e);
		s->items = grown;
		s->cap = cap;
	}
	s->items[s->n++] = *id;
	return 0;
}

/* It is damage like any other: the rest is verified. */
static void meet_obstacle(void *ctx, const struct err *why)
{
	struct scope *s = ctx;

	s->obstacles++;
	task_message(s->task, TASK_WARNING, "%s", why->msg);
}

static int add_group(
    struct scope *s, const struct backup_group *g, struct err *e)
{
	const struct tree_obstacles o = { .fn = meet_obstacle, .ctx = s };
	struct tree_snapshots snapshots = { .items = NULL, .n = 0 };
	int rc = tree_snapshots_past(s->ds, g, &o, &snapshots, e);

	for (size_t i = 0; i < snapshots.n && rc == 0; i++)
		rc = scope_add(s, &snapshots.items[i].id, e);
	tree_snapshots_release(&snapshots);
	return rc;
}

static int add_namespace(
    struct scope *s, const struct backup_ns *ns, struct err *e)
{
	const struct tree_obstacles o = { .fn = meet_obstacle, .ctx = s };
	struct tree_groups groups = { .items = NULL, .n = 0 };
	int rc = tree_groups_past(s->ds, ns, &o, &groups, e);

	for (size_t i = 0; i < groups.n && rc == 0; i++) {
		struct err why = ERR_INIT;

		rc = add_group(s, &groups.items[i], &why);
		if (rc == ERR_NOTFOUND) {
			rc = 0; /* removed since the groups were listed */
		} else if (rc < 0) {
			*e = why;
		}
	}
	tree_groups_release(&groups);
	return rc;
}

static int add_everything(struct scope *s, struct err *e)
{
	const struct tree_obstacles o = { .fn = meet_obstacle, .ctx = s };
	struct tree_namespaces all = { .items = NULL, .n = 0 };
	int rc = tree_namespaces_past(s->ds, &o, &all, e);

	for (size_t i = 0; i < all.n && rc == 0; i++) {
		struct err why = ERR_INIT;

		rc = add_namespace(s, &all.items[i], &why);
		if (rc == ERR_NOTFOUND) {
			rc = 0; /* the same */
		} else if (rc < 0) {
			*e = why;
		}
	}
	tree_namespaces_release(&all);
	return rc;
}

/* A word with two slashes is a snapshot, with one a group. */
static int find_scope(struct app *app, struct scope *s, struct err *e)
{
	const struct invocation *inv = app->inv;
	struct backup_snapshot id;
	int rc = 0;

	if (inv->args_n == 0 && !invocation_has(inv, "ns"))
		return add_everything(s, e);
	if (inv->args_n == 0) {
		rc = add_namespace(s, &app->ns, e);
		if (rc < 0)
			meant_namespace(s->ds, &app->ns, e);
		return rc;
	}
	if (strchr(inv->args[0], '/') == strrchr(inv->args[0], '/')) {
		rc = backup_group_parse(&app->ns, inv->args[0], &id.group, e);
		if (rc < 0)
			return rc;
		rc = add_group(s, &id.group, e);
		if (rc < 0)
			meant_group(app, s->ds, &id.group, e);
		return rc;
	}
	rc = meant_find_snapshot(app, s->ds, inv->args[0], &id, e);
	return rc < 0 ? rc : scope_add(s, &id, e);
}

static struct js *files_json(const struct verify_hurt *h, struct err *e)
{
	struct js *files = js_array();

	for (size_t i = 0; i < h->files_n; i++) {
		struct js *o = js_object();

		js_set_str(o, "archive", h->files[i].archive, e);
		js_set_name(o, "path", h->files[i].path, e);
		js_append(files, o, e);
	}
	return files;
}

static int print_json(
    const struct scope *s, const struct verify_result *r, struct err *e)
{
	struct js *doc = js_object();
	struct js *hurt = js_array();

	output_json_begin(e);
	js_set_u64(doc, "snapshots", r->snapshots, e);
	js_set_u64(doc, "unfinished", r->unfinished, e);
	js_set_u64(doc, "busy", r->busy, e);
	js_set_u64(doc, "not-listed", s->obstacles, e);
	js_set_u64(doc, "chunks", r->chunks, e);
	js_set_u64(doc, "bytes", r->bytes, e);
	js_set_u64(doc, "missing-chunks", r->missing_chunks, e);
	js_set_u64(doc, "bad-chunks", r->bad_chunks, e);
	js_set_u64(doc, "kept-chunks", r->kept_chunks, e);
	js_set_u64(doc, "unreadable-chunks", r->unreadable_chunks, e);
	js_set_u64(doc, "damaged-files", r->damaged_files, e);
	for (size_t i = 0; i < r->hurt_n; i++) {
		struct js *o = js_object();

		cmd_json_snapshot(o, &r->hurt[i].id, e);
		js_set_name(o, "reasons", r->hurt[i].reasons, e);
		js_set(o, "files", files_json(&r->hurt[i], e), e);
		js_set_u64(o, "files-more", r->hurt[i].files_more, e);
		js_append(hurt, o, e);
	}
	js_set(doc, "hurt", hurt, e);
	return output_json(doc, e);
}

static int print_chunks(const struct verify_result *r, struct err *e)
{
	int rc = 0;

	if (r->missing_chunks + r->bad_chunks + r->unreadable_chunks == 0)
		return 0;
	rc = output_text(e,
	    "chunks: %" PRIu64 " missing, %" PRIu64
	    " bad (renamed to .bad), %" PRIu64 " unreadable\n",
	    r->missing_chunks, r->bad_chunks - r->kept_chunks,
	    r->unreadable_chunks);
	if (rc == 0 && r->kept_chunks > 0) {
		rc = output_text(e,
		    "chunks: %" PRIu64 " bad that could not be renamed\n",
		    r->kept_chunks);
	}
	return rc;
}

/* As 'cairn find' shows them. */
static int print_files(
    const struct scope *s, const struct verify_hurt *h, struct err *e)
{
	size_t n = h->files_n;
	uint64_t more = h->files_more;
	struct buf name = BUF_INIT;
	int rc = 0;

	if (!s->verbose && n > FILES_SHOWN) {
		more += n - FILES_SHOWN;
		n = FILES_SHOWN;
	}
	for (size_t i = 0; i < n && rc == 0; i++) {
		const struct verify_file *f = &h->files[i];
		const char *text = NULL;

		buf_reset(&name);
		rc = text_append_name(&name, f->path, strlen(f->path), e);
		text = rc == 0 ? buf_cstr(&name, e) : NULL;
		rc = text != NULL ? output_text(e, "  %s%s%s\n", f->archive,
					text[0] != '\0' ? ":" : "", text)
				  : e->code;
	}
	buf_release(&name);
	if (rc == 0 && more > 0)
		rc = output_text(e, "  and %" PRIu64 " more file%s%s\n", more,
		    text_plural(more, "", "s"),
		    h->files_more < more ? "; --verbose lists more" : "");
	return rc;
}

static int print_next_steps(
    const struct scope *s, const struct verify_result *r, struct err *e)
{
	char list[HINT_SIZE];
	char forget[HINT_SIZE];
	int rc = 0;

	if (r->chunks > 0 && r->missing_chunks == r->chunks) {
		rc = output_text(e,
		    "no chunk is there at all: was '.chunks' emptied, or is "
		    "its file system not mounted?\n");
	} else if (r->missing_chunks + r->bad_chunks > 0) {
		rc = output_text(e,
		    "a push of the same data stores missing and bad chunks "
		    "again; then verify once more\n");
	}
	if (rc == 0 && r->damaged_files > 0) {
		rc = output_text(e,
		    "no push mends a manifest, index or blob: '%s' shows the "
		    "snapshots that may have the data whole, then '%s' removes "
		    "a damaged one\n",
		    hint_command(s->app, HINT_NAMESPACE, "list", list),
		    hint_command(
			s->app, HINT_NAMESPACE, "forget SNAPSHOT", forget));
	}
	return rc;
}

static int print_hurt(
    const struct scope *s, const struct verify_result *r, struct err *e)
{
	size_t shown =
	    s->verbose || r->hurt_n < HURT_SHOWN ? r->hurt_n : HURT_SHOWN;
	int rc = 0;

	for (size_t i = 0; i < shown && rc == 0; i++) {
		char name[BACKUP_PATH_SIZE];

		backup_snapshot_text(&r->hurt[i].id, name);
		rc = output_text(e, "hurt: %s\n", name);
		if (rc == 0)
			rc = print_files(s, &r->hurt[i], e);
	}
	if (rc == 0 && shown < r->hurt_n) {
		rc = output_text(e,
		    "hurt: %zu more snapshot%s; --verbose names them\n",
		    r->hurt_n - shown, text_plural(r->hurt_n - shown, "", "s"));
	}
	if (rc == 0 && s->obstacles > 0) {
		rc = output_text(e,
		    "hurt: %zu place%s where nothing could be listed\n",
		    s->obstacles, text_plural(s->obstacles, "", "s"));
	}
	if (rc == 0)
		rc = print_next_steps(s, r, e);
	if (rc == 0 && r->hurt_n == 0 && s->obstacles == 0)
		rc = output_text(e, "no damage found\n");
	return rc;
}

static int print_text(
    const struct scope *s, const struct verify_result *r, struct err *e)
{
	char size[TEXT_SIZE_SIZE];
	int rc = output_text(e,
	    "verified %" PRIu64 " snapshot%s: %" PRIu64 " chunk%s, %s read\n",
	    r->snapshots, text_plural(r->snapshots, "", "s"), r->chunks,
	    text_plural(r->chunks, "", "s"), text_size(size, r->bytes));

	if (rc == 0 && r->unfinished > 0) {
		char list[HINT_SIZE];

		rc = output_text(e,
		    "passed over: %" PRIu64 " unfinished (without a manifest; "
		    "'%s' names %s)\n",
		    r->unfinished,
		    hint_command(s->app, HINT_NAMESPACE, "list --all", list),
		    text_plural(r->unfinished, "it", "them"));
	}
	if (rc == 0 && r->busy > 0) {
		rc = output_text(e,
		    "passed over: %" PRIu64
		    " busy (being written or removed)\n",
		    r->busy);
	}
	if (rc == 0)
		rc = print_chunks(r, e);
	return rc < 0 ? rc : print_hurt(s, r, e);
}

/* What can not be written can still be read. */
static int open_datastore(
    struct app *app, struct datastore **ret, struct err *e)
{
	struct err why = ERR_INIT;
	int rc = app_open_datastore(app, DATASTORE_WRITE, ret, &why);

	if (rc == 0)
		return 0;
	if (!err_is_sys(&why, EROFS)) {
		*e = why;
		return rc;
	}
	task_message(&app->task, TASK_NOTE,
	    "the file system is read-only: the result is not recorded");
	return app_open_datastore(app, DATASTORE_READ, ret, e);
}

static void record_end(struct history_record *record,
    const struct verify_result *r, bool damage, int rc, const struct err *e)
{
	const struct history_count counts[] = {
		{ "snapshots", r->snapshots },
		{ "chunks", r->chunks },
		{ "bytes", r->bytes },
		{ "missing-chunks", r->missing_chunks },
		{ "bad-chunks", r->bad_chunks },
		{ "unreadable-chunks", r->unreadable_chunks },
		{ "hurt", r->hurt_n },
	};

	history_record_end(record, damage ? HISTORY_DAMAGE : HISTORY_DONE, rc,
	    rc < 0 ? e->msg : NULL, counts, sizeof(counts) / sizeof(counts[0]));
}

int cmd_verify(struct app *app, const struct invocation *inv, struct err *e)
{
	struct verify_result result = { .hurt = NULL };
	struct scope s = {
		.app = app,
		.task = &app->task,
		.verbose = invocation_has(inv, "verbose"),
	};
	struct history_record record = HISTORY_RECORD_INIT;
	bool damage = false;
	int rc = open_datastore(app, &s.ds, e);

	if (rc == 0)
		rc = find_scope(app, &s, e);
	/* A store that is open for reading only takes no record. */
	if (rc == 0 && s.ds->access != DATASTORE_READ)
		history_record_begin(&record, s.ds, &app->task, HISTORY_VERIFY);
	if (rc == 0)
		rc = verify_run(s.ds, s.items, s.n, &app->task, &result, e);
	/* Its end is that of the work: nobody may read what is printed. */
	damage = result.hurt_n > 0 || s.obstacles > 0;
	record_end(&record, &result, damage, rc, e);
	if (rc == 0 && app->json) {
		rc = print_json(&s, &result, e);
	} else if (rc == 0) {
		rc = print_text(&s, &result, e);
	}
	if (rc == ERR_CANCELLED)
		err_suffix(e,
		    "; %" PRIu64 " of %zu snapshot%s verified until then; "
		    "damage that was found is recorded",
		    result.snapshots, s.n, text_plural(s.n, " was", "s were"));
	verify_result_release(&result);
	free(s.items);
	datastore_close(s.ds);
	if (rc < 0)
		return rc;
	return damage ? EXIT_DAMAGE : EXIT_DONE;
}
