/* SPDX-License-Identifier: MIT */
#include "cli/opened.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli/cmd.h"
#include "cli/hint.h"
#include "cli/meant.h"
#include "datastore/tree.h"
#include "index/catalog.h"

int opened_read_manifest(const struct app *app, struct datastore *ds,
    const struct backup_snapshot *id, int fd, struct manifest *m, struct err *e)
{
	int rc = tree_read_manifest(ds, id, fd, m, e);

	if (rc == ERR_NOTFOUND)
		hint_unfinished(app, id, e);
	else if (rc < 0)
		hint_damaged_file(app, id, e);
	return rc;
}

int opened_snapshot(
    struct app *app, const char *word, struct opened *o, struct err *e)
{
	int rc = app_open_datastore(app, DATASTORE_READ, &o->ds, e);

	o->app = app;
	o->task = &app->task;
	if (rc == 0)
		rc = meant_find_snapshot(app, o->ds, word, &o->id, e);
	if (rc == 0)
		rc = snapshot_hold(o->ds, &o->id, LOCK_SHARED, &o->hold, e);
	if (rc < 0)
		return rc;
	return opened_read_manifest(
	    app, o->ds, &o->id, o->hold.fd, &o->manifest, e);
}

int opened_archive(struct opened *o, const char *archive, struct err *e)
{
	/* A catalog with changes is given as one plain database. */
	int rc = catalog_open_merged(o->ds, &o->id, &o->hold, &o->manifest,
	    archive, o->task, &o->archive, e);

	if (rc == 0 && o->archive == NULL)
		rc = archive_open(o->ds, &o->id, &o->hold, &o->manifest,
		    archive, &o->archive, e);
	return rc;
}

int opened_catalog(struct opened *o, const char *archive, struct err *e)
{
	int rc = catalog_open(
	    o->ds, &o->id, &o->hold, &o->manifest, archive, &o->catalog, e);

	if (rc < 0)
		hint_damaged_file(o->app, &o->id, e);
	return rc < 0 ? rc : opened_check(o, o->catalog, e);
}

int opened_check(struct opened *o, struct catalog *c, struct err *e)
{
	uint64_t offset = 0;
	bool incomplete = false;
	int rc = catalog_incomplete(c, &incomplete, &offset, e);

	if (rc < 0 || !incomplete)
		return rc;
	o->incomplete = true;
	task_message(o->task, TASK_WARNING,
	    "'%s': the tar ended, or could not be read, at offset %" PRIu64
	    " when it was pushed; what may be behind is not listed",
	    catalog_shown(c), offset);
	return 0;
}

int opened_check_stream(struct opened *o, const char *archive, struct err *e)
{
	char name[BACKUP_ID_MAX + 1];
	char index[BACKUP_ID_MAX + 32];
	size_t n = 0;
	int rc = 0;

	cmd_archive_name(archive, name);
	n = strlen(name);
	(void)snprintf(index, sizeof(index), "%s.catalog.fidx", name);
	if (n < 4 || strcmp(name + n - 4, ".tar") != 0 ||
	    manifest_find(&o->manifest, index) == NULL)
		return 0;
	rc = opened_catalog(o, archive, e);
	opened_close_catalog(o);
	if (rc == 0 || rc == ERR_NOMEM || rc == ERR_CANCELLED)
		return rc;
	task_message(o->task, TASK_WARNING,
	    "%s; if the tar was whole when it was pushed is not known", e->msg);
	return err_forget(e);
}

void opened_close_catalog(struct opened *o)
{
	catalog_close(o->catalog);
	o->catalog = NULL;
}

bool opened_is_browsable(const char *filename, char out[BACKUP_ID_MAX + 1])
{
	static const char *const ends[] = { ".tree", ".tar" };
	size_t n = 0;

	if (backup_file_kind(filename) != BACKUP_FILE_DIDX)
		return false;
	cmd_archive_name(filename, out);
	n = strlen(out);
	for (size_t i = 0; i < sizeof(ends) / sizeof(*ends); i++) {
		size_t end = strlen(ends[i]);

		if (n > end && strcmp(out + n - end, ends[i]) == 0)
			return true;
	}
	return false;
}

void opened_release(struct opened *o)
{
	opened_close_catalog(o);
	archive_close(o->archive);
	manifest_release(&o->manifest);
	snapshot_release(&o->hold);
	datastore_close(o->ds);
	o->archive = NULL;
	o->ds = NULL;
}
