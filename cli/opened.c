/* SPDX-License-Identifier: MIT */
#include "cli/opened.h"

#include "datastore/tree.h"
#include "index/catalog.h"

int opened_snapshot(
    struct app *app, const char *word, struct opened *o, struct err *e)
{
	int rc = app_open_datastore(app, DATASTORE_READ, &o->ds, e);

	o->task = &app->task;
	if (rc == 0)
		rc = tree_find_snapshot(o->ds, &app->ns, word, &o->id, e);
	if (rc == 0)
		rc = snapshot_hold(o->ds, &o->id, LOCK_SHARED, &o->hold, e);
	if (rc == 0)
		rc = tree_read_manifest(
		    o->ds, &o->id, o->hold.fd, &o->manifest, e);
	return rc;
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

void opened_release(struct opened *o)
{
	archive_close(o->archive);
	manifest_release(&o->manifest);
	snapshot_release(&o->hold);
	datastore_close(o->ds);
	o->archive = NULL;
	o->ds = NULL;
}
