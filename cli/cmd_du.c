/* SPDX-License-Identifier: MIT */
/*
 * cmd_du: sizes within a tree or tar archive.
 */
#include <inttypes.h>
#include <stdint.h>
#include <stdlib.h>

#include "cli/cmd.h"
#include "cli/entry.h"
#include "cli/exit.h"
#include "cli/meant.h"
#include "cli/opened.h"
#include "cli/output.h"
#include "datastore/base/text.h"
#include "index/tree_du.h"

struct usage {
	enum entry_form form;
	struct output_array array;
	struct buf line;
	struct catalog_gaps gaps;
};

static int show_json(struct usage *u, struct catalog_bytes path,
    const struct tree_du_sum *sum, struct err *e)
{
	struct js *o = js_object();

	output_json_begin(e);
	js_set_bytes(o, "path", path.p, path.n, e);
	js_set_u64(o, "size", sum->size, e);
	js_set_u64(o, "stored", sum->stored, e);
	js_set_u64(o, "files", sum->files, e);
	js_set_u64(o, "dirs", sum->dirs, e);
	js_set_u64(o, "others", sum->others, e);
	return output_array_add(&u->array, o, e);
}

static int show(void *ctx, struct catalog_bytes path,
    const struct tree_du_sum *sum, struct err *e)
{
	struct usage *u = ctx;
	struct buf *line = &u->line;
	bool zeros = u->form == ENTRY_ZEROS;
	char size[TEXT_SIZE_SIZE];
	char stored[TEXT_SIZE_SIZE];
	int rc = 0;

	if (u->form == ENTRY_JSON)
		return show_json(u, path, sum, e);
	if (path.n == 0) /* of the root, whose name is empty */
		path = entry_typed(".");
	buf_reset(line);
	rc = buf_append_fmt(line, e, "%10s  %10s  %8" PRIu64 "  %8" PRIu64 "  ",
	    text_size(size, sum->size), text_size(stored, sum->stored),
	    sum->files, sum->dirs);
	if (rc == 0)
		rc = zeros ? buf_append(line, path.p, path.n, e)
			   : text_append_name(line, path.p, path.n, e);
	if (rc == 0)
		rc = buf_append(line, zeros ? "" : "\n", 1, e);
	return rc < 0 ? rc : output_bytes(line->data, line->len, e);
}

static int show_all(struct app *app, struct opened *o, struct usage *u,
    size_t depth, struct err *e)
{
	const struct invocation *inv = app->inv;
	const struct tree_du d = {
		.c = o->catalog,
		.depth = depth,
		.fn = show,
		.ctx = u,
		.task = &app->task,
		.gaps = &u->gaps,
	};
	struct catalog_entry found;
	struct catalog_entry *from = NULL;
	struct buf path = BUF_INIT;
	int rc =
	    entry_clean_path(inv->args_n > 2 ? inv->args[2] : "", &path, e);

	if (rc == 0)
		rc = catalog_resolve(o->catalog, entry_bytes(&path), &found, e);
	if (rc < 0)
		meant_path(o->catalog, entry_bytes(&path), e);
	if (rc == 0)
		rc = catalog_entry_copy(&found, &from, e);
	if (rc == 0 && u->form == ENTRY_JSON)
		rc = output_array_begin(&u->array, e);
	else if (rc == 0 && u->form == ENTRY_LINES)
		rc = output_text(e, "%10s  %10s  %8s  %8s  %s\n", "SIZE",
		    "STORED", "FILES", "DIRS", "PATH");
	if (rc == 0)
		rc = tree_du(&d, from, entry_bytes(&path), e);
	if (rc == 0 && u->form == ENTRY_JSON)
		rc = output_array_end(&u->array, e);
	free(from);
	buf_release(&path);
	return rc;
}

int cmd_du(struct app *app, const struct invocation *inv, struct err *e)
{
	const char *word = invocation_value(inv, "depth");
	struct opened o = OPENED_INIT;
	struct usage u = { .line = BUF_INIT };
	uint64_t depth = 1;
	int rc = entry_form_parse(inv, &u.form, e);

	if (rc == 0 && word != NULL) {
		rc = text_parse_u64(word, 0, CATALOG_DEPTH_MAX, &depth, e);
		if (rc < 0)
			err_prefix(e, "--depth");
	}
	if (rc == 0)
		rc = opened_snapshot(app, inv->args[0], &o, e);
	if (rc == 0)
		rc = opened_catalog(&o, inv->args[1], e);
	if (rc == 0)
		rc = show_all(app, &o, &u, (size_t)depth, e);
	buf_release(&u.line);
	opened_release(&o);
	if (rc < 0)
		return rc;
	if (catalog_gaps_any(&u.gaps))
		return EXIT_DAMAGE;
	return o.incomplete ? EXIT_INCOMPLETE : EXIT_DONE;
}
