/* SPDX-License-Identifier: MIT */
/*
 * cmd_diff: what differs between two snapshots, or between archives or
 * directories of theirs.
 */
#include <stdio.h>
#include <string.h>

#include "cli/cmd.h"
#include "cli/entry.h"
#include "cli/exit.h"
#include "cli/opened.h"
#include "cli/output.h"
#include "datastore/base/text.h"
#include "index/tree_diff.h"

struct comparison {
	struct app *app;
	struct opened a;
	struct opened b;
	enum entry_form form;
	const char *archive; /* in front of paths; NULL: it was named */
	struct output_array array;
	struct buf line;
};

static const char *const changes[] = { "added", "removed", "changed", "moved" };

static void set_sizes(
    struct js *o, const struct tree_diff_event *event, struct err *e)
{
	const struct catalog_entry *x = event->before;
	const struct catalog_entry *y = event->after;

	if (y != NULL || x != NULL)
		js_set_str(
		    o, "kind", catalog_kind_word((y != NULL ? y : x)->kind), e);
	if (x != NULL && y != NULL && x->kind != y->kind)
		js_set_str(o, "old-kind", catalog_kind_word(x->kind), e);
	if (x != NULL && (x->has & CATALOG_HAS_SIZE))
		js_set_u64(o, "old-size", x->size, e);
	if (y != NULL && (y->has & CATALOG_HAS_SIZE))
		js_set_u64(o, "size", y->size, e);
}

static int tell_json(
    struct comparison *c, const struct tree_diff_event *event, struct err *e)
{
	struct js *o = js_object();
	struct js *what = NULL;

	output_json_begin(e);
	js_set_str(o, "change", changes[event->change], e);
	if (c->archive != NULL)
		js_set_str(o, "archive", c->archive, e);
	if (event->path.p != NULL)
		js_set_bytes(o, "path", event->path.p, event->path.n, e);
	if (event->change == TREE_DIFF_MOVED)
		js_set_bytes(o, "from", event->from.p, event->from.n, e);
	set_sizes(o, event, e);
	if (event->before == NULL || event->after == NULL)
		return output_array_add(&c->array, o, e);
	what = js_array();
	for (unsigned i = 0; i < TREE_DIFF_WHATS; i++) {
		if (event->what >> i & 1)
			js_append(what, js_new_str(tree_diff_word(i), e), e);
	}
	js_set(o, "what", what, e);
	return output_array_add(&c->array, o, e);
}

/* "archive:path"; the archive alone; "." for the root. */
static int append_path(
    struct comparison *c, struct catalog_bytes path, struct err *e)
{
	struct buf *line = &c->line;
	int rc = 0;

	if (c->archive != NULL)
		rc = buf_append_fmt(
		    line, e, "%s%s", c->archive, path.p != NULL ? ":" : "");
	if (rc < 0 || path.p == NULL)
		return rc;
	if (path.n == 0)
		path = entry_typed(".");
	return c->form == ENTRY_ZEROS
	    ? buf_append(line, path.p, path.n, e)
	    : text_append_name(line, path.p, path.n, e);
}

static int append_what(struct comparison *c, unsigned what, struct err *e)
{
	const char *before = " (";
	int rc = 0;

	for (unsigned i = 0; i < TREE_DIFF_WHATS && rc == 0; i++) {
		if (!(what >> i & 1))
			continue;
		rc = buf_append_fmt(
		    &c->line, e, "%s%s", before, tree_diff_word(i));
		before = ", ";
	}
	return rc < 0 || what == 0 ? rc : buf_append(&c->line, ")", 1, e);
}

static int tell(void *ctx, const struct tree_diff_event *event, struct err *e)
{
	static const char letters[] = "+-MR";
	struct comparison *c = ctx;
	bool zeros = c->form == ENTRY_ZEROS;
	struct buf *line = &c->line;
	int rc = 0;

	if (c->form == ENTRY_JSON)
		return tell_json(c, event, e);
	buf_reset(line);
	rc = buf_append_fmt(line, e, "%c ", letters[event->change]);
	if (rc == 0 && event->change == TREE_DIFF_MOVED) {
		rc = append_path(c, event->from, e);
		if (rc == 0)
			rc = buf_append(
			    line, zeros ? "" : " -> ", zeros ? 1 : 4, e);
	}
	if (rc == 0)
		rc = append_path(c, event->path, e);
	if (rc == 0 && !zeros)
		rc = append_what(c, event->what, e);
	if (rc == 0)
		rc = buf_append(line, zeros ? "" : "\n", 1, e);
	return rc < 0 ? rc : output_bytes(line->data, line->len, e);
}

/* Of an archive as a whole. */
static int tell_archive(struct comparison *c, const char *archive,
    enum tree_diff_change change, struct err *e)
{
	struct tree_diff_event event = {
		.change = change,
		.what = change == TREE_DIFF_CHANGED ? TREE_DIFF_CONTENT : 0,
	};

	c->archive = archive;
	return tell(c, &event, e);
}

static int diff_catalogs(
    struct comparison *c, const char *archive, const char *path, struct err *e)
{
	struct tree_diff d = {
		.fn = tell,
		.ctx = c,
		.task = &c->app->task,
	};
	struct buf clean = BUF_INIT;
	int rc = entry_clean_path(path, &clean, e);

	if (rc == 0)
		rc = opened_catalog(&c->a, archive, e);
	if (rc == 0)
		rc = opened_catalog(&c->b, archive, e);
	d.a = c->a.catalog;
	d.b = c->b.catalog;
	if (rc == 0)
		rc = tree_diff(&d, entry_bytes(&clean), e);
	opened_close_catalog(&c->a);
	opened_close_catalog(&c->b);
	buf_release(&clean);
	return rc;
}

/* The same index, or none in either. */
static bool is_same(const struct comparison *c, const char *filename)
{
	const struct manifest_file *x = manifest_find(&c->a.manifest, filename);
	const struct manifest_file *y = manifest_find(&c->b.manifest, filename);

	if (x == NULL || y == NULL)
		return x == y;
	return x->size == y->size && digest_equal(&x->csum, &y->csum);
}

static bool is_same_catalog(const struct comparison *c, const char *archive)
{
	static const char *const parts[] = { "catalog", "changes" };
	char filename[BACKUP_ID_MAX + sizeof(".catalog.fidx")];
	bool same = true;

	for (size_t i = 0; i < sizeof(parts) / sizeof(*parts); i++) {
		(void)snprintf(filename, sizeof(filename), "%s.%s.fidx",
		    archive, parts[i]);
		same = same && is_same(c, filename);
	}
	return same;
}

/* A tar that was compressed has no catalog. */
static bool has_catalog(const struct opened *o, const char *archive)
{
	char filename[BACKUP_ID_MAX + sizeof(".catalog.fidx")];

	(void)snprintf(filename, sizeof(filename), "%s.catalog.fidx", archive);
	return manifest_find(&o->manifest, filename) != NULL;
}

/* root.tree.catalog.fidx: of root.tree.didx, which is told of. */
static bool is_part(const struct opened *o, const char *filename)
{
	static const char *const ends[] = { ".catalog.fidx", ".changes.fidx" };
	char main[BACKUP_ID_MAX + 1];
	size_t n = strlen(filename);

	for (size_t i = 0; i < sizeof(ends) / sizeof(*ends); i++) {
		size_t end = strlen(ends[i]);

		if (n <= end || strcmp(filename + n - end, ends[i]) != 0)
			continue;
		(void)snprintf(
		    main, sizeof(main), "%.*s.didx", (int)(n - end), filename);
		return manifest_find(&o->manifest, main) != NULL;
	}
	return false;
}

/* A file that both have. */
static int diff_file(struct comparison *c, const char *filename, struct err *e)
{
	char archive[BACKUP_ID_MAX + 1];

	if (opened_is_browsable(filename, archive) &&
	    has_catalog(&c->a, archive) && has_catalog(&c->b, archive)) {
		if (is_same_catalog(c, archive))
			return 0;
		c->archive = archive;
		return diff_catalogs(c, archive, "", e);
	}
	if (is_same(c, filename))
		return 0;
	cmd_archive_name(filename, archive);
	return tell_archive(c, archive, TREE_DIFF_CHANGED, e);
}

/* Those of the first in its order, then what only the second has. */
static int diff_snapshots(struct comparison *c, struct err *e)
{
	const struct manifest *a = &c->a.manifest;
	const struct manifest *b = &c->b.manifest;
	char archive[BACKUP_ID_MAX + 1];
	int rc = 0;

	for (size_t i = 0; i < a->files_n && rc == 0; i++) {
		const char *name = a->files[i].filename;

		cmd_archive_name(name, archive);
		if (is_part(&c->a, name))
			continue;
		rc = manifest_find(b, name) != NULL
		    ? diff_file(c, name, e)
		    : tell_archive(c, archive, TREE_DIFF_REMOVED, e);
	}
	for (size_t i = 0; i < b->files_n && rc == 0; i++) {
		const char *name = b->files[i].filename;

		cmd_archive_name(name, archive);
		if (!is_part(&c->b, name) && manifest_find(a, name) == NULL)
			rc = tell_archive(c, archive, TREE_DIFF_ADDED, e);
	}
	return rc;
}

static int diff(struct comparison *c, struct err *e)
{
	const struct invocation *inv = c->app->inv;

	if (inv->args_n == 2)
		return diff_snapshots(c, e);
	return diff_catalogs(
	    c, inv->args[2], inv->args_n > 3 ? inv->args[3] : "", e);
}

int cmd_diff(struct app *app, const struct invocation *inv, struct err *e)
{
	struct comparison c = {
		.app = app,
		.a = OPENED_INIT,
		.b = OPENED_INIT,
	};
	int rc = entry_form_parse(inv, &c.form, e);

	if (rc == 0)
		rc = opened_snapshot(app, inv->args[0], &c.a, e);
	if (rc == 0)
		rc = opened_snapshot(app, inv->args[1], &c.b, e);
	if (rc == 0 && c.form == ENTRY_JSON)
		rc = output_array_begin(&c.array, e);
	if (rc == 0)
		rc = diff(&c, e);
	if (rc == 0 && c.form == ENTRY_JSON)
		rc = output_array_end(&c.array, e);
	buf_release(&c.line);
	opened_release(&c.a);
	opened_release(&c.b);
	if (rc < 0)
		return rc;
	return c.a.incomplete || c.b.incomplete ? EXIT_INCOMPLETE : EXIT_DONE;
}
