/* SPDX-License-Identifier: MIT */
/*
 * cmd_find: names in all tree and tar archives of a snapshot.
 */
#include <fnmatch.h>
#include <string.h>

#include "cli/cmd.h"
#include "cli/entry.h"
#include "cli/exit.h"
#include "cli/opened.h"

struct search {
	struct app *app;
	struct catalog *c;
	const char *archive;
	const char *pattern;
	bool whole_path;
	char kind; /* 0: any */
	struct entry_printer printer;
	struct buf text; /* of the name or path in hand */
	bool passed_over;
	struct catalog_gaps gaps;
};

static const char kinds[] = "fdlpscb"; /* by enum catalog_kind */

static int parse_kind(
    struct search *s, const struct invocation *inv, struct err *e)
{
	const char *word = invocation_value(inv, "type");

	if (word == NULL)
		return 0;
	if (word[0] == '\0' || word[1] != '\0' ||
	    strchr(kinds, word[0]) == NULL)
		return cmd_bad_value("type", word,
		    "f (file), d (directory), l (symbolic link), p (FIFO), s "
		    "(socket), c or b (device)",
		    e);
	s->kind = word[0];
	return 0;
}

static int visit(void *ctx, struct catalog_bytes path,
    const struct catalog_entry *entry, struct err *e)
{
	struct search *s = ctx;
	struct entry_shown shown = {
		.archive = s->archive,
		.path = path,
		.label = path,
	};
	struct catalog_bytes subject = s->whole_path ? path : entry->name;
	const char *text = NULL;

	/* The root has no name to be found by. */
	if (path.n == 0 || (s->kind != 0 && kinds[entry->kind] != s->kind))
		return 0;
	buf_reset(&s->text);
	if (buf_append(&s->text, subject.p, subject.n, e) < 0)
		return e->code;
	text = buf_cstr(&s->text, e);
	if (text == NULL)
		return e->code;
	if (fnmatch(s->pattern, text, 0) != 0)
		return 0;
	return entry_print(&s->printer, s->c, &shown, entry, e);
}

static int search_archive(
    struct search *s, struct opened *o, const char *archive, struct err *e)
{
	const struct catalog_walk walk = {
		.fn = visit,
		.ctx = s,
		.task = &s->app->task,
		.gaps = &s->gaps,
	};
	const struct catalog_bytes top = { .p = NULL, .n = 0 };
	struct err why = ERR_INIT;
	struct catalog_entry root;
	int rc = opened_catalog(o, archive, &why);

	if (rc == ERR_NOTFOUND) {
		task_message(&s->app->task, TASK_WARNING, "%s", why.msg);
		s->passed_over = true;
		return 0;
	}
	if (rc < 0) {
		*e = why;
		return rc;
	}
	s->c = o->catalog;
	s->archive = archive;
	entry_printer_forget(&s->printer);
	rc = catalog_root(s->c, &root, e);
	if (rc == 0)
		rc = catalog_walk(s->c, &root, top, &walk, e);
	opened_close_catalog(o);
	return rc;
}

static int search_snapshot(struct search *s, struct opened *o, struct err *e)
{
	char archive[BACKUP_ID_MAX + 1];
	char id[BACKUP_PATH_SIZE];
	bool any = false;
	int rc = entry_begin(&s->printer, e);

	for (size_t i = 0; i < o->manifest.files_n && rc == 0; i++) {
		if (!opened_is_browsable(
			o->manifest.files[i].filename, archive))
			continue;
		any = true;
		rc = search_archive(s, o, archive, e);
	}
	if (rc == 0)
		rc = entry_end(&s->printer, e);
	if (rc < 0 || any)
		return rc;
	backup_snapshot_text(&o->id, id);
	return err_set(e, ERR_NOTFOUND,
	    "%s: no archive NAME.tree or NAME.tar to be searched", id);
}

int cmd_find(struct app *app, const struct invocation *inv, struct err *e)
{
	struct opened o = OPENED_INIT;
	struct search s = { .app = app, .pattern = inv->args[1] };
	int rc = 0;

	s.whole_path = strchr(s.pattern, '/') != NULL;
	/* Paths in a catalog have none in front. */
	s.pattern += strspn(s.pattern, "/");
	rc = entry_printer_init(&s.printer, inv, e);
	if (rc == 0)
		rc = parse_kind(&s, inv, e);
	if (rc == 0)
		rc = opened_snapshot(app, inv->args[0], &o, e);
	if (rc == 0)
		rc = search_snapshot(&s, &o, e);
	entry_printer_release(&s.printer);
	buf_release(&s.text);
	opened_release(&o);
	if (rc < 0)
		return rc;
	if (catalog_gaps_any(&s.gaps))
		return EXIT_DAMAGE;
	return s.passed_over || o.incomplete ? EXIT_INCOMPLETE : EXIT_DONE;
}
