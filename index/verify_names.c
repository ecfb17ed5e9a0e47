/* SPDX-License-Identifier: MIT */
/*
 * verify_names: which files of a tree or tar need the chunks that are hurt.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "index/catalog.h"
#include "index/verify_internal.h"

/* Ranges of one archive: 16 MiB.  Of what is behind them no file is named. */
#define RANGES_MAX ((size_t)1 << 20)

/* Names that are kept, of all snapshots, in bytes; then as many of each. */
#define FILES_BYTES ((size_t)16 << 20)
#define FILES_FEW 10U

int verify_range_add(
    struct verify *v, uint64_t start, uint64_t end, struct err *e)
{
	struct verify_range *r = NULL;

	if (v->ranges_n > 0 && v->ranges[v->ranges_n - 1].end == start) {
		v->ranges[v->ranges_n - 1].end = end;
		return 0;
	}
	if (v->ranges_n == RANGES_MAX)
		return 0;
	if (v->ranges_n == v->ranges_cap) {
		size_t cap = v->ranges_cap == 0 ? 64 : 2 * v->ranges_cap;

		r = reallocarray(v->ranges, cap, sizeof(*r));
		if (r == NULL)
			return err_nomem(e);
		v->ranges = r;
		v->ranges_cap = cap;
	}
	r = &v->ranges[v->ranges_n++];
	r->start = start;
	r->end = end;
	return 0;
}

static int compare_ranges(const void *a, const void *b)
{
	const struct verify_range *x = a;
	const struct verify_range *y = b;

	return (x->start > y->start) - (x->start < y->start);
}

struct naming {
	struct verify *v;
	struct catalog *c;
	const char *archive;
	struct verify_run run; /* that the last file was in */
};

/* Does any of [start, start + length) of the stream lie in a hurt chunk? */
static bool is_hurt(const struct verify *v, uint64_t start, uint64_t length)
{
	size_t low = 0;
	size_t high = v->ranges_n;

	/* The first range that ends behind start. */
	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (v->ranges[middle].end <= start)
			low = middle + 1;
		else
			high = middle;
	}
	/* start + length may be anything that a catalog says. */
	return low < v->ranges_n &&
	    (v->ranges[low].start <= start ||
		v->ranges[low].start - start < length);
}

int verify_find_run(
    struct catalog *c, struct verify_run *run, uint64_t pos, struct err *e)
{
	struct catalog_extent x;
	int rc = 0;

	if (pos >= run->pos && pos - run->pos < run->length)
		return 0;
	if (pos > INT64_MAX)
		return err_set(
		    e, ERR_CORRUPT, "position %" PRIu64 " is none", pos);
	rc = catalog_extent(c, pos, INT64_MAX - pos, &x, e);
	if (rc < 0)
		return rc;
	run->pos = pos;
	run->length = x.length;
	run->start = x.start;
	return 0;
}

static int look_at(struct naming *n, const struct catalog_entry *file,
    bool *ret_hurt, struct err *e)
{
	uint64_t pos = file->pos;
	uint64_t left = catalog_stored_size(file);

	*ret_hurt = false;
	while (left > 0 && !*ret_hurt) {
		uint64_t length = 0;
		uint64_t into = 0;
		int rc = verify_find_run(n->c, &n->run, pos, e);

		if (rc < 0)
			return rc;
		into = pos - n->run.pos;
		length = n->run.length - into;
		if (length > left)
			length = left;
		*ret_hurt = is_hurt(n->v, n->run.start + into, length);
		pos += length;
		left -= length;
	}
	return 0;
}

int verify_keep_file(struct verify *v, const char *archive,
    struct catalog_bytes path, struct err *e)
{
	struct verify_file *f = NULL;

	if (v->files_bytes >= FILES_BYTES && v->files_n >= FILES_FEW) {
		v->files_more++;
		return 0;
	}
	if (v->files_n == v->files_cap) {
		size_t cap = v->files_cap == 0 ? 16 : 2 * v->files_cap;

		f = reallocarray(v->files, cap, sizeof(*f));
		if (f == NULL)
			return err_nomem(e);
		v->files = f;
		v->files_cap = cap;
	}
	f = &v->files[v->files_n];
	f->path = malloc(path.n + 1);
	f->archive = strdup(archive);
	if (f->path == NULL || f->archive == NULL) {
		free(f->path);
		free(f->archive);
		return err_nomem(e);
	}
	if (path.n > 0)
		memcpy(f->path, path.p, path.n);
	f->path[path.n] = '\0';
	v->files_n++;
	v->files_bytes += sizeof(*f) + path.n + strlen(f->archive) + 2;
	return 0;
}

static int visit(void *ctx, struct catalog_bytes path,
    const struct catalog_entry *entry, struct err *e)
{
	struct naming *n = ctx;
	bool hurt = false;
	int rc = 0;

	if (entry->kind == CATALOG_FILE && (entry->has & CATALOG_HAS_POS))
		rc = look_at(n, entry, &hurt, e);
	return rc == 0 && hurt ? verify_keep_file(n->v, n->archive, path, e)
			       : rc;
}

static int name_all(struct naming *n, struct err *e)
{
	const struct catalog_walk walk = {
		.fn = visit,
		.ctx = n,
		.task = n->v->task,
	};
	const struct catalog_bytes top = { .p = NULL, .n = 0 };
	struct catalog_entry root;
	int rc = catalog_root(n->c, &root, e);

	return rc < 0 ? rc : catalog_walk(n->c, &root, top, &walk, e);
}

/* "root.tree" of "root.tree.didx"; false: such files have no catalog. */
static bool archive_of(const char *filename, char out[BACKUP_ID_MAX + 1])
{
	static const char *const ends[] = { ".tree.didx", ".tar.didx" };
	size_t n = strlen(filename);

	for (size_t i = 0; i < sizeof(ends) / sizeof(*ends); i++) {
		size_t end = strlen(ends[i]);

		if (n > end && strcmp(filename + n - end, ends[i]) == 0) {
			(void)snprintf(out, BACKUP_ID_MAX + 1, "%.*s",
			    (int)(n - strlen(".didx")), filename);
			return true;
		}
	}
	return false;
}

/* What the names follow from: archives that have the same need no new look. */
static int make_key(const struct verify *v, const struct manifest *m,
    const char *archive, struct digest *ret, struct err *e)
{
	static const char *const ends[] = { "didx", "catalog.fidx",
		"changes.fidx" };
	struct digest_ctx *ctx = NULL;
	int rc = digest_ctx_new(&ctx, e);

	if (rc == 0)
		rc = digest_ctx_update(
		    ctx, v->ranges, v->ranges_n * sizeof(*v->ranges), e);
	if (rc == 0)
		rc = digest_ctx_update(ctx, archive, strlen(archive), e);
	for (size_t i = 0; i < sizeof(ends) / sizeof(*ends) && rc == 0; i++) {
		char name[BACKUP_ID_MAX + sizeof(".catalog.fidx")];
		const struct manifest_file *f = NULL;

		(void)snprintf(name, sizeof(name), "%s.%s", archive, ends[i]);
		f = manifest_find(m, name);
		if (f != NULL)
			rc = digest_ctx_update(
			    ctx, &f->csum, sizeof(f->csum), e);
	}
	if (rc == 0)
		rc = digest_ctx_final(ctx, ret, e);
	digest_ctx_free(ctx);
	return rc;
}

/* *ret_named false: they are others than those of the snapshot before. */
static int name_again(
    struct naming *n, const struct digest *key, bool *ret_named, struct err *e)
{
	struct verify *v = n->v;
	const struct verify_named *last = &v->named;
	const struct verify_hurt *h = NULL;
	int rc = 0;

	*ret_named = last->known && last->hurt < v->result.hurt_n &&
	    digest_equal(&last->key, key);
	if (!*ret_named)
		return 0;
	h = &v->result.hurt[last->hurt];
	for (size_t i = 0; i < last->n && rc == 0; i++) {
		const char *path = h->files[last->first + i].path;
		const struct catalog_bytes bytes = {
			.p = (const uint8_t *)path,
			.n = strlen(path),
		};

		rc = verify_keep_file(v, n->archive, bytes, e);
	}
	v->files_more += last->more;
	return rc;
}

int verify_names(struct verify *v, const struct backup_snapshot *id, int dir_fd,
    const struct manifest *m, const char *filename, struct err *e)
{
	const struct snapshot_hold hold = { .fd = dir_fd };
	char archive[BACKUP_ID_MAX + 1];
	struct naming n = { .v = v, .archive = archive };
	struct verify_named named = {
		.hurt = v->result.hurt_n,
		.first = v->files_n,
		.more = v->files_more,
		.known = true,
	};
	struct err why = ERR_INIT;
	bool again = false;
	int rc = 0;

	if (v->ranges_n == 0 || !archive_of(filename, archive))
		return 0;
	qsort(v->ranges, v->ranges_n, sizeof(*v->ranges), compare_ranges);
	rc = make_key(v, m, archive, &named.key, e);
	if (rc == 0)
		rc = name_again(&n, &named.key, &again, e);
	if (rc < 0 || again)
		return rc;
	rc = catalog_open(v->ds, id, &hold, m, archive, &n.c, &why);
	if (rc == ERR_NOTFOUND) /* a tar that has none */
		return 0;
	if (rc == 0)
		rc = name_all(&n, &why);
	catalog_close(n.c);
	if (rc == 0) {
		named.n = v->files_n - named.first;
		named.more = v->files_more - named.more;
		v->named = named;
		return 0;
	}
	err_prefix(
	    &why, "the files of '%s' that are hurt can not be named", archive);
	return verify_finding(v, rc, &why, e);
}

int verify_name_whole(struct verify *v, const char *filename, struct err *e)
{
	/* verify_catalogs names these, with the reason. */
	static const char *const ends[] = { ".catalog.fidx", ".changes.fidx" };
	const struct catalog_bytes none = { .p = NULL, .n = 0 };
	char archive[BACKUP_ID_MAX + 1];
	size_t n = strlen(filename);

	for (size_t i = 0; i < sizeof(ends) / sizeof(*ends); i++) {
		size_t end = strlen(ends[i]);

		if (n > end && strcmp(filename + n - end, ends[i]) == 0)
			return 0;
	}
	/* They all end in .didx, .fidx or .blob. */
	(void)snprintf(archive, sizeof(archive), "%.*s",
	    (int)(n > 5 ? n - 5 : n), filename);
	return verify_keep_file(v, archive, none, e);
}

void verify_files_release(struct verify_file *files, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		free(files[i].archive);
		free(files[i].path);
	}
	free(files);
}
