/* SPDX-License-Identifier: MIT */
/*
 * opened: a snapshot, held while something in it is looked at, and an archive
 * of it.
 */
#ifndef CAIRN_CLI_OPENED_H
#define CAIRN_CLI_OPENED_H

#include "cli/app.h"
#include "datastore/backupid.h"
#include "datastore/base/err.h"
#include "datastore/datastore.h"
#include "datastore/manifest.h"
#include "datastore/snapshot.h"
#include "index/archive.h"
#include "index/catalog.h"

/* The snapshot can not be removed meanwhile. */
struct opened {
	const struct app *app; /* NULL: not opened */
	struct datastore *ds;
	struct backup_snapshot id;
	struct snapshot_hold hold;
	struct manifest manifest;
	struct archive *archive; /* NULL: none was opened */
	struct task *task;       /* the command's */
	struct catalog *catalog; /* the same */
	bool incomplete;         /* a catalog that does not list all */
};

#define OPENED_INIT                                                         \
	{                                                                   \
		.app = NULL, .ds = NULL, .hold = SNAPSHOT_HOLD_INIT,        \
		.manifest = MANIFEST_INIT, .archive = NULL, .catalog = NULL \
	}

/* tree_read_manifest, with the next step behind an error. */
int opened_read_manifest(const struct app *app, struct datastore *ds,
    const struct backup_snapshot *id, int fd, struct manifest *m,
    struct err *e);

/* word: SNAPSHOT as typed.  *o is OPENED_INIT; release it after errors, too. */
int opened_snapshot(
    struct app *app, const char *word, struct opened *o, struct err *e);
/* One of its archives, as a stream. */
int opened_archive(struct opened *o, const char *archive, struct err *e);
/* What is inside one of its archives. */
int opened_catalog(struct opened *o, const char *archive, struct err *e);
/* Does this catalog of it list all there is?  If not, that is said. */
int opened_check(struct opened *o, struct catalog *c, struct err *e);
/*
 * The same of an archive that is given as the stream it was pushed as: only a
 * tar can be known to be cut.  A catalog that can not be read is no reason to
 * keep the stream back: that is said, and no error.
 */
int opened_check_stream(struct opened *o, const char *archive, struct err *e);
void opened_close_catalog(struct opened *o);
/*
 * "root.tree" of "root.tree.didx": the archive of a file that may have a
 * catalog, in the caller's memory; false: the file is no such archive.
 */
bool opened_is_browsable(const char *filename, char out[BACKUP_ID_MAX + 1]);
void opened_release(struct opened *o);

#endif
