/* SPDX-License-Identifier: MIT */
/*
 * cmd_index: the chunk index: its state, its check, its making anew.
 */
#include <inttypes.h>
#include <string.h>

#include "cli/cmd.h"
#include "cli/exit.h"
#include "cli/hint.h"
#include "cli/output.h"
#include "datastore/base/text.h"
#include "gc/gc.h"
#include "index/chunkidx.h"

#define SHOWN 512

static struct js *time_json(int64_t t, struct err *e)
{
	char text[TEXT_TIME_SIZE];

	return t == 0 ? NULL : js_new_str(text_time(text, t), e);
}

static void set_time(struct js *doc, const char *key, int64_t t, struct err *e)
{
	if (t == 0)
		js_set_null(doc, key, e);
	else
		js_set(doc, key, time_json(t, e), e);
}

static int status_json(const struct chunkidx_info *i, struct err *e)
{
	struct js *doc = js_object();

	output_json_begin(e);
	js_set_str(doc, "state", chunkidx_state_name(i->state), e);
	js_set_str(doc, "why", i->why[0] == '\0' ? NULL : i->why, e);
	js_set_name(doc, "directory", i->dir[0] == '\0' ? NULL : i->dir, e);
	js_set_bool(doc, "busy", i->busy, e);
	js_set_u64(doc, "generation", i->generation, e);
	js_set_u64(doc, "shards", CIX_SHARDS, e);
	js_set_u64(doc, "shards-known", cix_shards_count(&i->known), e);
	js_set_u64(doc, "base-entries", i->base_entries, e);
	js_set_u64(doc, "base-removed", i->gone, e);
	js_set_u64(doc, "runs", i->runs, e);
	js_set_u64(doc, "run-entries", i->run_entries, e);
	js_set_u64(doc, "chunks", i->chunks, e);
	js_set_u64(doc, "bytes", i->bytes, e);
	set_time(doc, "made", i->merged, e);
	set_time(doc, "scanned", i->scanned, e);
	return output_json(doc, e);
}

static int status_text(const struct chunkidx_info *i, struct err *e)
{
	char size[TEXT_SIZE_SIZE];
	char text[TEXT_TIME_SIZE];
	char path[SHOWN];
	int rc = output_text(e, "index:   %s%s%s%s\n",
	    chunkidx_state_name(i->state), i->busy ? ", being changed" : "",
	    i->why[0] == '\0' ? "" : ": ", i->why);

	if (rc < 0 || i->state == CHUNKIDX_OFF)
		return rc;
	if (i->dir[0] != '\0')
		rc = output_text(
		    e, "in:      %s\n", text_name(path, sizeof(path), i->dir));
	if (rc == 0 && i->merged != 0)
		rc = output_text(e,
		    "base:    %" PRIu64 " chunk%s, %" PRIu64
		    " removed since; generation %" PRIu64 ", of %s\n",
		    i->base_entries, text_plural(i->base_entries, "", "s"),
		    i->gone, i->generation, text_time(text, i->merged));
	if (rc == 0)
		rc = output_text(e,
		    "runs:    %u with %" PRIu64 " entr%s that a merge will "
		    "take into the base\n",
		    i->runs, i->run_entries,
		    text_plural(i->run_entries, "y", "ies"));
	if (rc == 0 && i->merged != 0)
		rc = output_text(e,
		    "known:   %u of %u parts, %" PRIu64 " chunk%s, %s\n",
		    cix_shards_count(&i->known), CIX_SHARDS, i->chunks,
		    text_plural(i->chunks, "", "s"), text_size(size, i->bytes));
	if (rc == 0 && i->merged != 0)
		rc = output_text(e, "scanned: %s\n",
		    i->scanned == 0 ? "not by a garbage collection yet"
				    : text_time(text, i->scanned));
	return rc;
}

static int do_status(struct app *app, struct chunkidx *ix, struct err *e)
{
	struct chunkidx_info info;

	chunkidx_get_info(ix, &info);
	return app->json ? status_json(&info, e) : status_text(&info, e);
}

static int check_json(const struct chunkidx_check *c, bool files, struct err *e)
{
	struct js *doc = js_object();

	output_json_begin(e);
	js_set_u64(doc, "entries", c->entries, e);
	js_set_u64(doc, "bad-pages", c->bad_pages, e);
	js_set_bool(doc, "files-compared", files, e);
	js_set_u64(doc, "absent", c->absent, e);
	js_set_u64(doc, "unknown", c->unknown, e);
	js_set_u64(doc, "other-sizes", c->sizes, e);
	return output_json(doc, e);
}

static int check_text(struct app *app, const struct chunkidx_check *c,
    bool files, bool differs, struct err *e)
{
	char command[HINT_SIZE];
	int rc =
	    output_text(e, "%" PRIu64 " entr%s read, %" PRIu64 " bad page%s\n",
		c->entries, text_plural(c->entries, "y", "ies"), c->bad_pages,
		text_plural(c->bad_pages, "", "s"));

	if (rc == 0 && files)
		rc = output_text(e,
		    "%" PRIu64 " of them without a file, %" PRIu64
		    " file%s of chunks unknown, %" PRIu64 " of another size\n",
		    c->absent, c->unknown, text_plural(c->unknown, "", "s"),
		    c->sizes);
	if (rc == 0 && differs)
		rc = output_text(e,
		    "no backup is hurt by that; '%s' makes it right\n",
		    hint_command(
			app, HINT_STORE, "index rebuild --all", command));
	return rc;
}

static int do_check(
    struct app *app, struct chunkidx *ix, bool *ret_differs, struct err *e)
{
	bool files = invocation_has(app->inv, "files");
	struct chunkidx_check c;
	int rc = chunkidx_check(ix, files, &app->task, &c, e);

	if (rc < 0)
		return rc;
	*ret_differs = c.bad_pages + c.absent + c.unknown + c.sizes > 0;
	return app->json ? check_json(&c, files, e)
			 : check_text(app, &c, files, *ret_differs, e);
}

static int open_index(
    struct datastore *ds, struct chunkidx **ret, struct err *e)
{
	char upid[GC_UPID_SIZE];

	gc_last_upid(ds, upid);
	return chunkidx_open(ds, upid, ret, e);
}

static int do_rebuild(
    struct app *app, struct datastore *ds, struct chunkidx **ix, struct err *e)
{
	bool taken = false;
	int rc = datastore_ensure_cairn(ds, e);

	if (rc == 0)
		rc = chunkidx_make(ds, e);
	if (rc == 0)
		rc = open_index(ds, ix, e);
	if (rc == 0)
		rc = chunkidx_lock(*ix, &taken, e);
	if (rc == 0 && !taken)
		rc = err_set(e, ERR_BUSY,
		    "the chunk index of '%s' is being changed by another "
		    "command: a garbage collection, or a rebuild" ERR_TRY_AGAIN,
		    ds->path);
	if (rc == 0)
		rc = chunkidx_rebuild(
		    *ix, invocation_has(app->inv, "all"), &app->task, e);
	if (rc == ERR_CANCELLED)
		err_suffix(e, "; the next rebuild goes on from there");
	return rc < 0 ? rc : do_status(app, *ix, e);
}

int cmd_index(struct app *app, const struct invocation *inv, struct err *e)
{
	const char *what = inv->args[0];
	bool rebuild = strcmp(what, "rebuild") == 0;
	bool check = strcmp(what, "check") == 0;
	bool differs = false;
	struct datastore *ds = NULL;
	struct chunkidx *ix = NULL;
	int rc = 0;

	if (!rebuild && !check && strcmp(what, "status") != 0)
		return err_set(e, ERR_INVALID,
		    "'index %s': want 'status', 'check' or 'rebuild'", what);
	if ((invocation_has(inv, "all") && !rebuild) ||
	    (invocation_has(inv, "files") && !check))
		return err_set(e, ERR_INVALID,
		    "--all is for 'index rebuild', --files for 'index check'");
	rc = app_open_datastore(
	    app, rebuild ? DATASTORE_WRITE : DATASTORE_READ, &ds, e);
	if (rc == 0 && rebuild)
		rc = do_rebuild(app, ds, &ix, e);
	else if (rc == 0)
		rc = open_index(ds, &ix, e);
	if (rc == 0 && check)
		rc = do_check(app, ix, &differs, e);
	else if (rc == 0 && !rebuild)
		rc = do_status(app, ix, e);
	chunkidx_close(ix);
	datastore_close(ds);
	if (rc < 0)
		return rc;
	return differs ? EXIT_INCOMPLETE : EXIT_DONE;
}
