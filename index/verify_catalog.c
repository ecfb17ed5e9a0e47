/* SPDX-License-Identifier: MIT */
/*
 * verify_catalog: can what catalogs say be used?
 *
 * Their chunks were judged as those of any archive; here each row is read as
 * who lists and restores reads it, and has to have a place in the tree and its
 * content a place in the stream.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "datastore/base/text.h"
#include "index/catalog.h"
#include "index/verify_internal.h"

#define TEXT 256
#define END ".catalog.fidx"

struct looking {
	struct verify *v;
	struct catalog *c;
	const char *catalog; /* "root.tree.catalog" */
	uint64_t stream;     /* its size */
	struct verify_run run;
	uint64_t lost; /* files whose content has no place */
};

static int has_place(
    struct looking *l, const struct catalog_entry *file, struct err *e)
{
	uint64_t pos = file->pos;
	uint64_t left = catalog_stored_size(file);

	while (left > 0) {
		uint64_t length = 0;
		int rc = verify_find_run(l->c, &l->run, pos, e);

		if (rc < 0)
			return rc;
		length = l->run.length - (pos - l->run.pos);
		if (l->run.start > l->stream ||
		    l->run.length > l->stream - l->run.start)
			return err_set(e, ERR_CORRUPT,
			    "position %" PRIu64
			    " is behind the archive's %" PRIu64 " bytes",
			    pos, l->stream);
		if (length > left)
			length = left;
		pos += length;
		left -= length;
	}
	return 0;
}

/* The first is told of, the others are counted. */
static int lose(struct looking *l, struct catalog_bytes path, struct err *e)
{
	char text[TEXT];
	struct err why = *e;
	struct buf name = BUF_INIT;
	int rc = 0;

	if (e->code == ERR_NOMEM || e->code == ERR_CANCELLED)
		return e->code;
	(void)err_forget(e);
	if (l->lost++ > 0)
		return 0;
	rc = path.n > 0 ? buf_append(&name, path.p, path.n, e) : 0;
	if (rc == 0 && buf_cstr(&name, e) == NULL)
		rc = e->code;
	if (rc == 0)
		rc = verify_reason(l->v, e, "'%s': '%s': %s", l->catalog,
		    text_name(text, sizeof(text), buf_cstr(&name, e)), why.msg);
	buf_release(&name);
	return rc;
}

static int visit(void *ctx, struct catalog_bytes path,
    const struct catalog_entry *entry, struct err *e)
{
	struct looking *l = ctx;

	if (entry->kind != CATALOG_FILE || !(entry->has & CATALOG_HAS_POS) ||
	    has_place(l, entry, e) == 0)
		return 0;
	return lose(l, path, e);
}

/* Members of a tar that others took the place of: they can be asked for. */
static int read_earlier(struct looking *l, struct err *e)
{
	struct catalog_cursor *cur = NULL;
	struct catalog_entry entry;
	bool more = true;
	int rc = catalog_earlier(l->c, &cur, e);

	while (rc == 0) {
		rc = catalog_cursor_next(cur, &entry, &more, e);
		if (rc < 0 || !more)
			break;
		rc = visit(l, entry.name, &entry, e);
	}
	catalog_cursor_free(cur);
	return rc;
}

static int read_all(struct looking *l, struct catalog_gaps *gaps, struct err *e)
{
	const struct catalog_walk walk = {
		.fn = visit,
		.ctx = l,
		.task = l->v->task,
		.gaps = gaps,
	};
	const struct catalog_bytes top = { .p = NULL, .n = 0 };
	struct catalog_entry root;
	int rc = catalog_root(l->c, &root, e);

	if (rc == 0)
		rc = catalog_walk(l->c, &root, top, &walk, e);
	return rc < 0 ? rc : read_earlier(l, e);
}

/* *ret_sound false: it was told why not. */
static int look_into(struct looking *l, bool *ret_sound, struct err *e)
{
	struct catalog_gaps gaps = { .places = 0 };
	struct err why = ERR_INIT;
	int rc = read_all(l, &gaps, &why);

	*ret_sound = rc == 0 && l->lost == 0 && !catalog_gaps_any(&gaps);
	if (rc < 0) {
		err_prefix(&why, "'%s' can not be read whole", l->catalog);
		rc = verify_finding(l->v, rc, &why, e);
	}
	if (rc == 0 && gaps.places > 0)
		rc = verify_reason(l->v, e,
		    "'%s': %" PRIu64 " %s can not be read", l->catalog,
		    gaps.places, text_plural(gaps.places, "place", "places"));
	if (rc == 0 && gaps.unreached > 0)
		rc = verify_reason(l->v, e,
		    "'%s': %" PRIu64 " %s in no directory", l->catalog,
		    gaps.unreached,
		    text_plural(gaps.unreached, "entry", "entries"));
	if (rc == 0 && gaps.shared > 0)
		rc = verify_reason(l->v, e,
		    "'%s': directories have the same id, which hides entries",
		    l->catalog);
	if (rc == 0 && l->lost > 1)
		rc = verify_reason(l->v, e,
		    "'%s': %" PRIu64 " files have no place in the archive",
		    l->catalog, l->lost);
	return rc;
}

/* What follows from the same files need not be found again. */
static int make_key(const struct manifest *m, const char *archive,
    struct digest *ret, struct err *e)
{
	static const char *const ends[] = { "didx", "catalog.fidx",
		"changes.fidx" };
	struct digest_ctx *ctx = NULL;
	int rc = digest_ctx_new(&ctx, e);

	for (size_t i = 0; i < sizeof(ends) / sizeof(*ends) && rc == 0; i++) {
		char name[BACKUP_ID_MAX + sizeof(END)];
		const struct manifest_file *f = NULL;

		(void)snprintf(name, sizeof(name), "%s.%s", archive, ends[i]);
		f = manifest_find(m, name);
		if (f != NULL)
			rc = digest_ctx_update(
			    ctx, &f->csum, sizeof(f->csum), e);
		if (f != NULL && rc == 0)
			rc = digest_ctx_update(ctx, &i, sizeof(i), e);
	}
	if (rc == 0)
		rc = digest_ctx_final(ctx, ret, e);
	digest_ctx_free(ctx);
	return rc;
}

static int verify_catalog(struct verify *v, const struct backup_snapshot *id,
    int dir_fd, const struct manifest *m, const char *archive, struct err *e)
{
	const struct snapshot_hold hold = { .fd = dir_fd };
	const struct catalog_bytes none = { .p = NULL, .n = 0 };
	char name[BACKUP_ID_MAX + sizeof(END)];
	struct looking l = { .v = v, .catalog = name };
	const struct manifest_file *stream = NULL;
	struct err why = ERR_INIT;
	struct digest key;
	bool sound = false;
	int rc = make_key(m, archive, &key, e);

	if (rc < 0 || digestset_contains(&v->catalogs, &key))
		return rc;
	(void)snprintf(name, sizeof(name), "%s.didx", archive);
	stream = manifest_find(m, name);
	l.stream = stream != NULL ? stream->size : 0;
	(void)snprintf(name, sizeof(name), "%s.catalog", archive);
	rc = catalog_open(v->ds, id, &hold, m, archive, &l.c, &why);
	if (rc < 0) {
		err_prefix(&why, "'%s' can not be used", name);
		rc = verify_finding(v, rc, &why, e);
	} else {
		rc = look_into(&l, &sound, e);
	}
	catalog_close(l.c);
	if (rc < 0)
		return rc;
	return sound ? digestset_add(&v->catalogs, &key, &sound, e)
		     : verify_keep_file(v, name, none, e);
}

int verify_catalogs(struct verify *v, const struct backup_snapshot *id,
    int dir_fd, const struct manifest *m, struct err *e)
{
	static const char *const ends[] = { ".tree" END, ".tar" END };
	int rc = 0;

	for (size_t i = 0; i < m->files_n && rc == 0; i++) {
		const char *file = m->files[i].filename;
		size_t n = strlen(file);
		char archive[BACKUP_ID_MAX + 1];

		for (size_t k = 0; k < sizeof(ends) / sizeof(*ends); k++) {
			size_t end = strlen(ends[k]);

			if (n <= end || n > BACKUP_ID_MAX ||
			    strcmp(file + n - end, ends[k]) != 0)
				continue;
			(void)snprintf(archive, sizeof(archive), "%.*s",
			    (int)(n - strlen(END)), file);
			rc = verify_catalog(v, id, dir_fd, m, archive, e);
		}
	}
	return rc;
}
