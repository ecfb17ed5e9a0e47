/* SPDX-License-Identifier: MIT */
/*
 * cmd_snapshot: forget, protect, unprotect, note.
 */
#include <stdlib.h>
#include <string.h>

#include "cli/cmd.h"
#include "cli/exit.h"
#include "cli/hint.h"
#include "cli/meant.h"
#include "cli/opened.h"
#include "cli/output.h"
#include "datastore/base/file.h"
#include "datastore/base/text.h"
#include "datastore/snapshot.h"
#include "gc/history_record.h"

typedef int (*snapshot_fn)(struct datastore *ds,
    const struct backup_snapshot *s, struct task *task, struct err *e);

static bool is_among(const struct backup_snapshot *ids, size_t n,
    const struct backup_snapshot *id)
{
	for (size_t i = 0; i < n; i++) {
		if (ids[i].time == id->time &&
		    backup_group_compare(&ids[i].group, &id->group) == 0)
			return true;
	}
	return false;
}

/*
 * All names are looked up before the first snapshot is changed.  "latest" may
 * be one that was named as well: each is there once.
 */
static int find_all(struct datastore *ds, const struct app *app,
    struct backup_snapshot **ret, size_t *ret_n, struct err *e)
{
	const struct invocation *inv = app->inv;
	struct backup_snapshot *ids = calloc(inv->args_n, sizeof(*ids));
	size_t n = 0;
	int rc = 0;

	if (ids == NULL)
		return err_nomem(e);
	for (size_t i = 0; i < inv->args_n && rc == 0; i++) {
		rc = meant_find_snapshot(app, ds, inv->args[i], &ids[n], e);
		if (rc == 0 && !is_among(ids, n, &ids[n]))
			n++;
	}
	if (rc < 0) {
		free(ids);
		return rc;
	}
	*ret = ids;
	*ret_n = n;
	return 0;
}

static int done(struct app *app, struct js *array, const char *what,
    const struct backup_snapshot *id, struct err *e)
{
	char name[BACKUP_PATH_SIZE];

	if (app->json) {
		struct js *o = js_object();

		output_json_begin(e);
		cmd_json_snapshot(o, id, e);
		js_append(array, o, e);
		return e->code;
	}
	backup_snapshot_text(id, name);
	return output_text(e, "%s %s\n", what, name);
}

static void record_removing(void *ctx, const struct backup_snapshot *s)
{
	char name[BACKUP_PATH_SIZE];

	backup_snapshot_text(s, name);
	history_record_snapshot(ctx, name);
}

static void record_kept(void *ctx, const struct backup_snapshot *s)
{
	char name[BACKUP_PATH_SIZE];

	backup_snapshot_text(s, name);
	history_record_kept(ctx, name);
}

/* One snapshot; fn: NULL is forget, which is recorded. */
static int do_one(struct datastore *ds, struct app *app, snapshot_fn fn,
    const struct backup_snapshot *id, struct history_record *record,
    struct err *e)
{
	const struct snapshot_watch watch = {
		.removing = record_removing, .kept = record_kept, .ctx = record
	};
	int rc = 0;

	if (fn != NULL)
		return fn(ds, id, &app->task, e);
	rc = snapshot_forget_watched(ds, id, &watch, &app->task, e);
	if (rc == 0)
		record->run.removed++;
	return rc;
}

/*
 * Several snapshots: one that fails does not keep the others from being
 * done; each failure is told, the first decides the exit code.
 */
static int each(struct app *app, snapshot_fn fn, const char *what,
    struct history_record *record, struct err *e)
{
	struct err failed = ERR_INIT;
	struct backup_snapshot *ids = NULL;
	struct datastore *ds = NULL;
	struct js *array = NULL;
	size_t n = 0;
	int first = EXIT_DONE;
	int rc = app_open_datastore(app, DATASTORE_WRITE, &ds, e);

	if (rc == 0)
		rc = find_all(ds, app, &ids, &n, e);
	if (rc < 0)
		goto out;
	if (record != NULL)
		history_record_init(record, ds, &app->task, HISTORY_FORGET);
	array = js_array();
	for (size_t i = 0; i < n && rc == 0; i++) {
		struct err why = ERR_INIT;
		int one = do_one(ds, app, fn, &ids[i], record, &why);

		if (one == 0) {
			rc = done(app, array, what, &ids[i], e);
			continue;
		}
		hint_no_space(app, &why);
		one = app_fail(app, &why);
		if (first == EXIT_DONE) {
			first = one;
			failed = why;
		}
		if (app->task.stop != 0)
			break;
	}
	if (rc == 0 && app->json) {
		output_json_begin(e);
		rc = output_json(array, e);
		array = NULL;
	}
	if (record != NULL)
		history_record_end(record, HISTORY_DONE,
		    rc < 0 ? rc : failed.code,
		    failed.code < 0 ? failed.msg : NULL, NULL, 0);
out:
	js_free(array);
	free(ids);
	datastore_close(ds);
	return rc < 0 ? rc : first;
}

/* Is it one that would not be removed?  Who holds it now is not asked. */
static int check_protected(
    struct datastore *ds, const struct backup_snapshot *id, struct err *e)
{
	char text[BACKUP_PATH_SIZE];
	bool is_protected = false;
	int fd = -1;
	int rc = tree_open_snapshot(ds, id, &fd, e);

	if (rc == 0)
		rc = snapshot_is_protected(fd, &is_protected, e);
	file_close(&fd);
	if (rc == 0 && is_protected) {
		backup_snapshot_text(id, text);
		rc = err_set(e, ERR_REFUSED,
		    "snapshot '%s' is protected; 'cairn unprotect' lifts that",
		    text);
	}
	return rc;
}

static int print_garbage(
    struct app *app, struct js *array, const struct wouldfree *w, struct err *e)
{
	struct js *doc = NULL;

	if (!app->json) {
		js_free(array);
		return cmd_garbage_print(w, e);
	}
	doc = js_object();
	output_json_begin(e);
	js_set_bool(doc, "dry-run", true, e);
	js_set(doc, "snapshots", array, e);
	js_set(doc, "garbage", cmd_garbage_json(w, e), e);
	return output_json(doc, e);
}

static int forget_dry(struct app *app, struct err *e)
{
	struct wouldfree w = { .chunks = 0 };
	struct backup_snapshot *ids = NULL;
	struct datastore *ds = NULL;
	struct js *array = js_array();
	size_t n = 0;
	size_t gone = 0;
	int first = EXIT_DONE;
	int rc = app_open_datastore(app, DATASTORE_READ, &ds, e);

	if (rc == 0)
		rc = find_all(ds, app, &ids, &n, e);
	for (size_t i = 0; i < n && rc == 0; i++) {
		struct err why = ERR_INIT;
		int one = 0;

		if (check_protected(ds, &ids[i], &why) == 0) {
			ids[gone++] = ids[i];
			rc = done(app, array, "would forget", &ids[i], e);
			continue;
		}
		one = app_fail(app, &why);
		if (first == EXIT_DONE)
			first = one;
	}
	if (rc == 0 && (gone > 0 || app->json))
		rc = cmd_garbage_count(app, ds, ids, gone, &w, e);
	if (rc == 0 && (gone > 0 || app->json)) {
		rc = print_garbage(app, array, &w, e);
		array = NULL;
	}
	js_free(array);
	free(ids);
	datastore_close(ds);
	return rc < 0 ? rc : first;
}

int cmd_forget(struct app *app, const struct invocation *inv, struct err *e)
{
	struct history_record record = HISTORY_RECORD_INIT;

	if (invocation_has(inv, "dry-run"))
		return forget_dry(app, e);
	return each(app, NULL, "forgot", &record, e);
}

static int protect(struct datastore *ds, const struct backup_snapshot *s,
    struct task *task, struct err *e)
{
	(void)task;
	return snapshot_set_protected(ds, s, true, e);
}

static int unprotect(struct datastore *ds, const struct backup_snapshot *s,
    struct task *task, struct err *e)
{
	(void)task;
	return snapshot_set_protected(ds, s, false, e);
}

int cmd_protect(struct app *app, const struct invocation *inv, struct err *e)
{
	(void)inv;
	return each(app, protect, "protected", NULL, e);
}

int cmd_unprotect(struct app *app, const struct invocation *inv, struct err *e)
{
	(void)inv;
	return each(app, unprotect, "unprotected", NULL, e);
}

/* Line by line: a note has lines, but none that drives the terminal. */
static int print_note(const char *note, struct err *e)
{
	struct buf line = BUF_INIT;
	int rc = 0;

	do {
		size_t n = strcspn(note, "\n");
		const char *s = NULL;

		buf_reset(&line);
		rc = text_append_name(&line, note, n, e);
		if (rc == 0) {
			s = buf_cstr(&line, e);
			rc = s != NULL ? output_text(e, "%s\n", s) : ERR_NOMEM;
		}
		note += n;
	} while (rc == 0 && *note++ != '\0' && *note != '\0');
	buf_release(&line);
	return rc;
}

static int show_note(struct app *app, struct datastore *ds,
    const struct backup_snapshot *id, struct err *e)
{
	struct manifest m = MANIFEST_INIT;
	int fd = -1;
	int rc = tree_open_snapshot(ds, id, &fd, e);

	if (rc == 0)
		rc = opened_read_manifest(app, ds, id, fd, &m, e);
	if (rc == 0 && app->json) {
		struct js *doc = js_object();

		output_json_begin(e);
		cmd_json_snapshot(doc, id, e);
		js_set_str(doc, "note", m.notes, e);
		rc = output_json(doc, e);
	} else if (rc == 0 && m.notes != NULL) {
		rc = print_note(m.notes, e);
	}
	file_close(&fd);
	manifest_release(&m);
	return rc;
}

int cmd_note(struct app *app, const struct invocation *inv, struct err *e)
{
	bool set = inv->args_n > 1;
	struct datastore *ds = NULL;
	struct backup_snapshot id;
	int rc = app_open_datastore(
	    app, set ? DATASTORE_WRITE : DATASTORE_READ, &ds, e);

	if (rc == 0)
		rc = meant_find_snapshot(app, ds, inv->args[0], &id, e);
	if (rc == 0 && set)
		rc = snapshot_set_notes(ds, &id, inv->args[1], e);
	if (rc < 0 && set)
		hint_no_space(app, e);
	if (rc == 0 && (!set || app->json))
		rc = show_note(app, ds, &id, e);
	datastore_close(ds);
	return rc < 0 ? rc : EXIT_DONE;
}
