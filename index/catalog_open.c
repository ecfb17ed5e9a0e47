/* SPDX-License-Identifier: MIT */
/*
 * catalog_open: from a snapshot's files to the parts of a catalog.
 */
#include <stdio.h>
#include <string.h>

#include "datastore/base/text.h"
#include "index/catalog_internal.h"

/* Chunks of a catalog have 256 KiB: as many as a look-up goes through, and
 * some more. */
#define CACHE ((size_t)4 << 20)

#define TEXT 256

static int read_archive(
    void *ctx, void *p, size_t n, uint64_t at, struct err *e)
{
	return archive_reader_pread(ctx, p, n, at, e);
}

static void release(struct catalog_part *p)
{
	archive_reader_free(p->reader);
	archive_close(p->archive);
}

/* What all of a catalog's openings share. */
struct place {
	struct datastore *ds;
	const struct backup_snapshot *s;
	const struct snapshot_hold *hold;
	const struct manifest *m;
	char path[BACKUP_PATH_SIZE];
};

static int open_part(const struct place *at, const char *filename,
    struct catalog_part *ret, struct err *e)
{
	struct task silent = TASK_SILENT; /* an index of a few pages */
	struct catalog_part p = { .archive = NULL };
	int rc = archive_open(
	    at->ds, at->s, at->hold, at->m, filename, &p.archive, e);

	/* Without it a digest could be another one than was backed up. */
	if (rc == 0)
		rc = archive_check(p.archive, &silent, e);
	if (rc == 0)
		rc = archive_reader_new(p.archive, CACHE, &p.reader, e);
	if (rc == 0 &&
	    (size_t)snprintf(p.shown, sizeof(p.shown), "%s/%s", at->path,
		filename) >= sizeof(p.shown))
		rc = err_set(e, ERR_LIMIT, "'%s': path too long", at->path);
	if (rc < 0) {
		release(&p);
		return rc;
	}
	p.source = (struct catalog_source){ .pread = read_archive,
		.ctx = p.reader,
		.size = archive_size(p.archive) };
	*ret = p;
	return 0;
}

static bool ends_with(const char *s, const char *end)
{
	size_t n = strlen(s);
	size_t m = strlen(end);

	return n > m && strcmp(s + n - m, end) == 0;
}

/* The names of the two files. */
struct names {
	char base[BACKUP_ID_MAX + 1];
	char changes[BACKUP_ID_MAX + 1];
};

static int make_names(const struct place *at, const char *archive,
    struct names *ret, struct err *e)
{
	char text[TEXT];
	char content[BACKUP_ID_MAX + 1];

	(void)text_name(text, sizeof(text), archive);
	if (!ends_with(archive, ".tree") && !ends_with(archive, ".tar")) {
		return err_set(e, ERR_INVALID,
		    "'%s': '%s' has no catalog; want a '.tree' or '.tar'",
		    at->path, text);
	}
	if (strlen(archive) > BACKUP_ID_MAX - strlen(".catalog.fidx")) {
		return err_set(
		    e, ERR_NOTFOUND, "'%s': no archive '%s'", at->path, text);
	}
	(void)snprintf(content, sizeof(content), "%s.didx", archive);
	(void)snprintf(
	    ret->base, sizeof(ret->base), "%s.catalog.fidx", archive);
	(void)snprintf(
	    ret->changes, sizeof(ret->changes), "%s.changes.fidx", archive);
	if (manifest_find(at->m, ret->base) != NULL)
		return 0;
	if (manifest_find(at->m, content) == NULL)
		return archive_not_found(at->m, archive, at->path, e);
	return err_set(e, ERR_NOTFOUND, "'%s': archive '%s' has no catalog",
	    at->path, text);
}

int catalog_open(struct datastore *ds, const struct backup_snapshot *s,
    const struct snapshot_hold *hold, const struct manifest *m,
    const char *archive, struct catalog **ret, struct err *e)
{
	struct place at = { .ds = ds, .s = s, .hold = hold, .m = m };
	struct catalog_part base = { .archive = NULL };
	struct catalog_part changes = { .archive = NULL };
	char want[DIGEST_HEX_SIZE] = "";
	struct names names;
	bool changed = false;
	int rc = 0;

	backup_snapshot_path(s, at.path);
	rc = make_names(&at, archive, &names, e);
	if (rc == 0)
		rc = open_part(&at, names.base, &base, e);
	if (rc < 0)
		return rc;
	digest_hex(&manifest_find(m, names.base)->csum, want);
	changed = manifest_find(m, names.changes) != NULL;
	if (changed)
		rc = open_part(&at, names.changes, &changes, e);
	if (rc == 0)
		rc = catalog_open_parts(
		    &base, changed ? &changes : NULL, want, ret, e);
	if (rc < 0) {
		release(&base);
		release(&changes);
	}
	return rc;
}
