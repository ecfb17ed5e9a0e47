/* SPDX-License-Identifier: MIT */
/*
 * cmd_ls: what is in a directory of a tree or tar archive.
 */
#include <stdlib.h>
#include <string.h>

#include "cli/cmd.h"
#include "cli/entry.h"
#include "cli/exit.h"
#include "cli/meant.h"
#include "cli/opened.h"

struct listing {
	struct app *app;
	struct catalog *c;
	struct entry_printer printer;
	struct buf dir;  /* PATH, cleaned */
	struct buf path; /* of the entry in hand */
	bool recursive;
	bool all;
	struct catalog_gaps gaps;
};

static int show(struct listing *l, struct catalog_bytes dir,
    const struct catalog_entry *entry, bool earlier, struct err *e)
{
	struct entry_shown s = { .earlier = earlier };
	int rc = entry_join(&l->path, dir, entry->name, e);

	if (rc < 0)
		return rc;
	s.path = entry_bytes(&l->path);
	s.label = l->recursive ? s.path : entry->name;
	return entry_print(&l->printer, l->c, &s, entry, e);
}

/* Members of a tar that a later one of the same name took the place of. */
static int show_earlier(struct listing *l, struct catalog_bytes dir,
    const struct catalog_entry *entry, struct err *e)
{
	struct catalog_cursor *cur = NULL;
	struct catalog_entry earlier;
	bool more = true;
	int rc = catalog_earlier_of(l->c, entry->parent, entry->name, &cur, e);

	while (rc == 0) {
		rc = catalog_cursor_next(cur, &earlier, &more, e);
		if (rc < 0 || !more)
			break;
		rc = show(l, dir, &earlier, true, e);
	}
	catalog_cursor_free(cur);
	return rc;
}

static int list_entry(struct listing *l, struct catalog_bytes dir,
    const struct catalog_entry *entry, struct err *e)
{
	int rc = task_check(&l->app->task, e);

	if (rc == 0 && l->all)
		rc = show_earlier(l, dir, entry, e);
	return rc < 0 ? rc : show(l, dir, entry, false, e);
}

/* The directory that a path lies in. */
static struct catalog_bytes parent_of(struct catalog_bytes path)
{
	const uint8_t *slash = NULL;

	if (path.n > 0)
		slash = memrchr(path.p, '/', path.n);
	path.n = slash != NULL ? (size_t)(slash - path.p) : 0;
	return path;
}

static int visit(void *ctx, struct catalog_bytes path,
    const struct catalog_entry *entry, struct err *e)
{
	struct listing *l = ctx;
	int rc = 0;

	/* The directory that was asked for is no entry of itself. */
	if (path.n == l->dir.len)
		return 0;
	rc = list_entry(l, parent_of(path), entry, e);
	return rc == 0 && !l->recursive ? CATALOG_SKIP : rc;
}

static int list(
    struct listing *l, const struct catalog_entry *from, struct err *e)
{
	const struct catalog_walk walk = {
		.fn = visit,
		.ctx = l,
		.task = &l->app->task,
		.gaps = &l->gaps,
	};

	if (from->kind != CATALOG_DIR)
		return list_entry(l, parent_of(entry_bytes(&l->dir)), from, e);
	return catalog_walk(l->c, from, entry_bytes(&l->dir), &walk, e);
}

int cmd_ls(struct app *app, const struct invocation *inv, struct err *e)
{
	struct opened o = OPENED_INIT;
	struct listing l = {
		.app = app,
		.recursive = invocation_has(inv, "recursive"),
		.all = invocation_has(inv, "all"),
	};
	struct catalog_entry found;
	struct catalog_entry *from = NULL;
	int rc = entry_printer_init(&l.printer, inv, e);

	if (rc == 0)
		rc = entry_clean_path(
		    inv->args_n > 2 ? inv->args[2] : "", &l.dir, e);
	if (rc == 0)
		rc = opened_snapshot(app, inv->args[0], &o, e);
	if (rc == 0)
		rc = opened_catalog(&o, inv->args[1], e);
	if (rc < 0)
		goto out;
	l.c = o.catalog;
	rc = catalog_resolve(l.c, entry_bytes(&l.dir), &found, e);
	if (rc < 0)
		meant_path(l.c, entry_bytes(&l.dir), e);
	/* It is looked up in again while this one is still needed. */
	if (rc == 0)
		rc = catalog_entry_copy(&found, &from, e);
	if (rc == 0)
		rc = entry_begin(&l.printer, e);
	if (rc == 0)
		rc = list(&l, from, e);
	if (rc == 0)
		rc = entry_end(&l.printer, e);
out:
	free(from);
	entry_printer_release(&l.printer);
	buf_release(&l.dir);
	buf_release(&l.path);
	opened_release(&o);
	if (rc < 0)
		return rc;
	if (catalog_gaps_any(&l.gaps))
		return EXIT_DAMAGE;
	return o.incomplete ? EXIT_INCOMPLETE : EXIT_DONE;
}
