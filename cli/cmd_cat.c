/* SPDX-License-Identifier: MIT */
/*
 * cmd_cat: an archive, or one file of it, to standard output.
 */
#include <stdlib.h>
#include <unistd.h>

#include "cli/cmd.h"
#include "cli/entry.h"
#include "cli/exit.h"
#include "cli/hint.h"
#include "cli/meant.h"
#include "cli/opened.h"
#include "cli/output.h"
#include "datastore/base/text.h"
#include "index/archive.h"
#include "index/archive_reader.h"
#include "index/tree_cat.h"

/* The chunk in hand, and the next one where a file begins in the middle. */
#define CACHE ((size_t)8 << 20)

#define SHOWN 512 /* of a path in messages */

static int cat_archive(
    struct app *app, struct opened *o, bool *ret_cut, struct err *e)
{
	struct archive_result result;
	int rc = opened_check_stream(o, app->inv->args[1], e);

	if (rc == 0)
		rc = archive_extract(o->archive, STDOUT_FILENO, ARCHIVE_APPEND,
		    "standard output", &app->task, &result, e);
	if (rc < 0)
		hint_damage(
		    app, &o->id, "'restore --skip-damaged' gives the rest", e);
	*ret_cut = o->incomplete;
	return rc;
}

static int to_stdout(void *ctx, const void *p, size_t n, struct err *e)
{
	(void)ctx;
	return output_bytes(p, n, e);
}

/* All there is of it was given. */
static int tell_if_cut(struct opened *o, const struct catalog_entry *file,
    const char *path, bool *ret_cut, struct err *e)
{
	char shown[SHOWN];
	int rc = catalog_is_cut(o->catalog, file, ret_cut, e);

	if (rc == 0 && *ret_cut)
		task_message(o->task, TASK_WARNING, "'%s': " CATALOG_CUT_TEXT,
		    text_name(shown, sizeof(shown), path));
	return rc;
}

static int cat_file(
    struct app *app, struct opened *o, bool *ret_cut, struct err *e)
{
	const struct invocation *inv = app->inv;
	const struct catalog_bytes path = entry_typed(inv->args[2]);
	struct archive_reader *r = NULL;
	struct catalog_entry found;
	struct catalog_entry *file = NULL;
	int rc = opened_catalog(o, inv->args[1], e);

	if (rc == 0)
		rc = catalog_resolve(o->catalog, path, &found, e);
	if (rc < 0 && o->catalog != NULL)
		meant_path(o->catalog, path, e);
	if (rc == 0)
		rc = catalog_entry_copy(&found, &file, e);
	if (rc == 0)
		rc = archive_reader_new(o->archive, CACHE, &r, e);
	if (rc == 0)
		rc = tree_cat(
		    o->catalog, r, file, to_stdout, NULL, &app->task, e);
	if (rc == 0)
		rc = tell_if_cut(o, file, inv->args[2], ret_cut, e);
	if (rc < 0 && o->catalog != NULL)
		hint_damage(app, &o->id, NULL, e);
	archive_reader_free(r);
	free(file);
	return rc;
}

/* The hint for what opens but can not be read whole is given further on. */
static int open_archive(struct app *app, struct opened *o, struct err *e)
{
	int rc = opened_archive(o, app->inv->args[1], e);

	if (rc < 0)
		hint_damaged_file(app, &o->id, e);
	return rc;
}

int cmd_cat(struct app *app, const struct invocation *inv, struct err *e)
{
	struct opened o = OPENED_INIT;
	bool cut = false;
	int rc = opened_snapshot(app, inv->args[0], &o, e);

	if (rc == 0)
		rc = open_archive(app, &o, e);
	if (rc == 0)
		rc = inv->args_n > 2 ? cat_file(app, &o, &cut, e)
				     : cat_archive(app, &o, &cut, e);
	opened_release(&o);
	if (rc < 0)
		return rc;
	return cut ? EXIT_INCOMPLETE : EXIT_DONE;
}
