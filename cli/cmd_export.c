/* SPDX-License-Identifier: MIT */
/*
 * cmd_export: a tree or tar archive, or a path of it, as a tar, zip or cpio.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/cmd.h"
#include "cli/exit.h"
#include "cli/hint.h"
#include "cli/meant.h"
#include "cli/opened.h"
#include "datastore/base/text.h"
#include "index/archive.h"
#include "index/catalog.h"
#include "index/tree_export.h"

#define STDOUT_SHOWN "standard output"
#define LEFT_OUT_SIZE 48

/* "root.tar", as asked for with or without the suffix of the index. */
static bool is_tar(const char *archive)
{
	char name[BACKUP_ID_MAX + 1];
	const char *dot = NULL;

	cmd_archive_name(archive, name);
	dot = strrchr(name, '.');
	return dot != NULL && strcmp(dot, ".tar") == 0;
}

static int parse_options(
    const struct invocation *inv, struct tree_export_opts *opts, struct err *e)
{
	const char *format = invocation_value(inv, "format");
	const char *path = inv->args_n > 2 ? inv->args[2] : "";

	opts->shown = STDOUT_SHOWN;
	opts->path =
	    (struct catalog_bytes){ (const uint8_t *)path, strlen(path) };
	if (format != NULL && !tree_export_parse(format, &opts->format))
		return cmd_bad_value("format", format, "tar, zip or cpio", e);
	/* An archive drives a terminal mad. */
	if (isatty(STDOUT_FILENO) == 1)
		return err_set(e, ERR_INVALID,
		    "standard output is a terminal; send it to a file or a "
		    "command");
	return 0;
}

/* What was pushed as a tar is one, byte for byte. */
static int export_stream(
    struct app *app, struct opened *o, const char *archive, struct err *e)
{
	struct archive_result result;
	char size[TEXT_SIZE_SIZE];
	int rc = opened_check_stream(o, archive, e);

	if (rc == 0)
		rc = archive_extract(o->archive, STDOUT_FILENO, ARCHIVE_APPEND,
		    STDOUT_SHOWN, &app->task, &result, e);
	if (rc == 0)
		task_message(&app->task, TASK_NOTE,
		    "%s exported, as it was pushed",
		    text_size(size, result.bytes));
	return rc;
}

/* Standard output is the archive's. */
static void summarise(struct app *app, const struct tree_export_result *r)
{
	char left_out[LEFT_OUT_SIZE] = "";
	char size[TEXT_SIZE_SIZE];

	if (r->left_out > 0)
		(void)snprintf(left_out, sizeof(left_out),
		    "; %" PRIu64 " left out", r->left_out);
	task_message(&app->task, TASK_NOTE, "%" PRIu64 " %s exported, %s%s",
	    r->entries, text_plural(r->entries, "entry", "entries"),
	    text_size(size, r->bytes), left_out);
}

static int export_entries(struct app *app, struct opened *o,
    const char *archive, const struct tree_export_opts *opts,
    struct tree_export_result *ret, struct err *e)
{
	char name[BACKUP_ID_MAX + 1];
	struct catalog *c = NULL;
	int rc = 0;

	cmd_archive_name(archive, name);
	rc = catalog_open(o->ds, &o->id, &o->hold, &o->manifest, name, &c, e);
	if (rc == 0)
		rc = opened_check(o, c, e);
	if (rc == 0) {
		rc = tree_export(
		    c, o->archive, STDOUT_FILENO, opts, &app->task, ret, e);
		if (rc < 0)
			meant_path(c, opts->path, e);
	}
	if (rc == 0)
		summarise(app, ret);
	catalog_close(c);
	return rc;
}

int cmd_export(struct app *app, const struct invocation *inv, struct err *e)
{
	struct tree_export_result result = { .entries = 0 };
	struct tree_export_opts opts = { .format = TREE_EXPORT_TAR };
	struct opened o = OPENED_INIT;
	int rc = parse_options(inv, &opts, e);

	if (rc < 0)
		return rc;
	rc = opened_snapshot(app, inv->args[0], &o, e);
	if (rc == 0)
		rc = opened_archive(&o, inv->args[1], e);
	else
		goto out;
	if (rc < 0)
		hint_damaged_file(app, &o.id, e);
	if (rc == 0 && opts.format == TREE_EXPORT_TAR && inv->args_n < 3 &&
	    is_tar(inv->args[1]))
		rc = export_stream(app, &o, inv->args[1], e);
	else if (rc == 0)
		rc = export_entries(app, &o, inv->args[1], &opts, &result, e);
	if (rc < 0 && o.archive != NULL)
		hint_damage(
		    app, &o.id, "'restore --skip-damaged' gives the rest", e);
	else if (rc == 0 &&
	    (result.damaged > 0 || catalog_gaps_any(&result.gaps)))
		hint_tell_damage(app, &o.id, o.task);
out:
	opened_release(&o);
	if (rc < 0)
		return rc;
	return catalog_gaps_any(&result.gaps) || result.damaged > 0 ||
		result.left_out > 0 || result.nameless > 0 || o.incomplete
	    ? EXIT_INCOMPLETE
	    : EXIT_DONE;
}
