/* SPDX-License-Identifier: MIT */
/*
 * catalog_export: a catalog as one plain database.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "datastore/base/file.h"
#include "index/catalog_build.h"
#include "index/catalog_internal.h"
#include "index/catalog_tmp.h"

#define PIECE ((size_t)256 << 10)

static int copy(struct catalog *c, int fd, struct task *task, struct err *e)
{
	const struct catalog_source *s = &c->base.source;
	uint8_t *p = malloc(PIECE);
	uint64_t at = 0;
	int rc = p == NULL ? err_nomem(e) : 0;

	while (rc == 0 && at < s->size) {
		size_t n =
		    s->size - at < PIECE ? (size_t)(s->size - at) : PIECE;

		rc = s->pread(s->ctx, p, n, at, e);
		if (rc == 0)
			rc = file_pwrite_fully(
			    fd, p, n, at, "the plain catalog", e);
		if (rc == 0)
			rc = task_check(task, e);
		at += n;
	}
	free(p);
	return rc;
}

static int merge(struct catalog *c, int fd, struct task *task, struct err *e)
{
	struct catalog_build b;
	int rc = 0;

	catalog_build_init(&b, "the merged catalog");
	b.fd = fd;
	b.task = task;
	rc = catalog_build_begin_merge(
	    &b, &c->base.source, &c->changes.source, e);
	/* What is damaged is what is read. */
	b.q.shown = c->shown;
	if (rc == 0)
		rc = catalog_build_merge(&b, e);
	if (rc == 0)
		rc = catalog_build_end(&b, e);
	b.fd = -1; /* the caller's */
	catalog_build_release(&b);
	return rc;
}

int catalog_export(struct catalog *c, int fd, struct task *task, struct err *e)
{
	return c->has_changes ? merge(c, fd, task, e) : copy(c, fd, task, e);
}

/* "root.tree.catalog" with changes: *ret is "root.tree". */
static bool is_merged(
    const struct manifest *m, const char *name, char ret[BACKUP_ID_MAX + 1])
{
	static const char end[] = ".tree.catalog";
	char changes[BACKUP_ID_MAX + 1];
	size_t n = strlen(name);
	int stem = 0;

	if (n < sizeof(end) || n > BACKUP_NAME_MAX ||
	    strcmp(name + n - (sizeof(end) - 1), end) != 0)
		return false;
	stem = (int)(n - strlen(".catalog"));
	(void)snprintf(
	    changes, sizeof(changes), "%.*s.changes.fidx", stem, name);
	(void)snprintf(ret, BACKUP_ID_MAX + 1, "%.*s", stem, name);
	return manifest_find(m, changes) != NULL;
}

static int export_archive(struct catalog *c, const char *name,
    struct task *task, struct archive **ret, struct err *e)
{
	char filename[BACKUP_ID_MAX + 1];
	int fd = -1;
	int rc = catalog_tmp_open(&fd, e);

	/* Of the kind that it stands for. */
	(void)snprintf(filename, sizeof(filename), "%s.fidx", name);
	if (rc == 0)
		rc = catalog_export(c, fd, task, e);
	if (rc == 0)
		rc = archive_of_file(fd, filename, c->shown, ret, e);
	if (rc < 0)
		file_close(&fd);
	return rc;
}

int catalog_open_merged(struct datastore *ds, const struct backup_snapshot *s,
    const struct snapshot_hold *hold, const struct manifest *m,
    const char *name, struct task *task, struct archive **ret, struct err *e)
{
	char archive[BACKUP_ID_MAX + 1];
	struct catalog *c = NULL;
	int rc = 0;

	if (!is_merged(m, name, archive)) {
		*ret = NULL;
		return 0;
	}
	rc = catalog_open(ds, s, hold, m, archive, &c, e);
	if (rc == 0)
		rc = export_archive(c, name, task, ret, e);
	catalog_close(c);
	return rc;
}
