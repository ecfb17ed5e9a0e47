/* SPDX-License-Identifier: MIT */
/*
 * cmd_push: make a snapshot.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cmd.h"
#include "cli/exit.h"
#include "cli/output.h"
#include "cli/push_source.h"
#include "datastore/base/text.h"
#include "datastore/chunker.h"
#include "datastore/session.h"
#include "index/idx.h"
#include "index/ingest.h"

/* One push, from the arguments to the result. */
struct push {
	struct app *app;
	const char *command;
	struct push_source *sources;
	size_t n;
	struct session_opts opts;
	struct ingest_opts ingest;
	struct ingest_result *results;
	struct session_stats stats;
	struct backup_snapshot id;
	bool changed;
};

static int parse_options(
    struct push *p, const struct invocation *inv, struct err *e)
{
	const char *time = invocation_value(inv, "time");
	const char *size = invocation_value(inv, "chunk-size");
	const char *level = invocation_value(inv, "level");
	const char *sync = invocation_value(inv, "sync-level");
	const char *note = invocation_value(inv, "note");
	uint64_t chunk_size = CHUNKER_AVG_DEFAULT;
	int rc = 0;

	if (time != NULL && !text_parse_time(time, &p->opts.time))
		return cmd_bad_value(
		    "time", time, "UTC as in 2026-11-30T12:00:00Z", e);
	if (size != NULL) {
		rc = text_parse_size(size, &chunk_size, e);
		if (rc == 0 &&
		    (chunk_size < CHUNKER_AVG_MIN ||
			chunk_size > CHUNKER_AVG_MAX ||
			(chunk_size & (chunk_size - 1)) != 0))
			rc = err_set(e, ERR_INVALID,
			    "'%s': want a power of two from 64K to 4M", size);
		if (rc < 0)
			err_prefix(e, "--chunk-size");
	}
	if (rc == 0 && level != NULL) {
		rc = settings_parse_compression(level, &p->opts.level, e);
		if (rc < 0)
			err_prefix(e, "--level");
	}
	if (rc == 0 && sync != NULL &&
	    !sync_level_parse(sync, &p->opts.sync_level))
		rc = cmd_bad_value(
		    "sync-level", sync, "none, filesystem or file", e);
	/* Before everything is read, not when the manifest is written. */
	if (rc == 0 && note != NULL && !text_is_utf8(note, strlen(note)))
		rc = cmd_bad_value("note", note, "UTF-8", e);
	p->ingest.chunk_size = (size_t)chunk_size;
	p->opts.notes = note;
	p->opts.dry_run = invocation_has(inv, "dry-run");
	p->opts.command = "push";
	p->opts.references = idx_references;
	return rc;
}

/* Its output has ended; it may still take its time to end itself. */
static int finish_command(
    struct push *p, struct session *s, struct push_source *src, struct err *e)
{
	int rc = 0;

	while (rc == 0 && !push_source_ended(src)) {
		rc = task_check(&p->app->task, e);
		if (rc == 0)
			rc = session_beat(s, e);
	}
	return rc < 0 ? rc : push_source_finish(src, p->command, e);
}

static int ingest_one(
    struct push *p, struct session *s, size_t i, struct err *e)
{
	struct push_source *src = &p->sources[i];
	const char *shown = src->path != NULL ? src->path : p->command;
	struct task *task = &p->app->task;
	struct ingest_source from = { .shown = shown };
	int rc = 0;

	if (src->path == NULL) {
		rc = push_source_start(src, p->command, e);
		if (rc < 0)
			return rc;
	}
	from.fd = src->fd;
	from.size_hint = src->size_hint;
	switch (src->kind) {
	case PUSH_IMG:
		rc = ingest_image(s, src->filename, &from, &p->ingest, task,
		    &p->results[i], e);
		break;
	case PUSH_RAW:
		rc = ingest_stream(s, src->filename, &from, &p->ingest, task,
		    &p->results[i], e);
		break;
	case PUSH_CONF:
		rc = ingest_conf(
		    s, src->filename, &from, task, &p->results[i], e);
		break;
	}
	/* What was typed is right, as far as anyone could see. */
	if (rc == ERR_INVALID)
		e->code = rc = ERR_REFUSED;
	if (rc == 0 && src->path == NULL)
		rc = finish_command(p, s, src, e);
	if (rc == 0 && p->results[i].changed) {
		char text[256];

		task_message(task, TASK_WARNING,
		    "'%s' changed while it was read; '%s' is what was read",
		    text_name(text, sizeof(text), shown), src->archive);
		p->changed = true;
	}
	return rc;
}

static int run(struct push *p, struct datastore *ds, struct err *e)
{
	struct session *s = NULL;
	int rc = session_open(ds, &p->opts, &p->app->task, &s, e);

	if (rc < 0)
		return rc;
	for (size_t i = 0; i < p->n && rc == 0; i++)
		rc = ingest_one(p, s, i, e);
	if (rc < 0) {
		session_abort(s);
		return rc;
	}
	session_stats(s, &p->stats);
	p->id = *session_id(s);
	return session_commit(s, e);
}

static int print_json(const struct push *p, struct err *e)
{
	struct js *doc = js_object();
	struct js *archives = js_array();

	output_json_begin(e);
	cmd_json_snapshot(doc, &p->id, e);
	js_set_bool(doc, "dry-run", p->opts.dry_run, e);
	js_set_bool(doc, "changed", p->changed, e);
	for (size_t i = 0; i < p->n; i++) {
		const struct ingest_result *r = &p->results[i];
		struct js *o = js_object();
		char hex[DIGEST_HEX_SIZE];

		digest_hex(&r->csum, hex);
		js_set_str(o, "archive", p->sources[i].archive, e);
		js_set_str(o, "filename", p->sources[i].filename, e);
		js_set_u64(o, "size", r->size, e);
		js_set_u64(o, "hole-bytes", r->hole_bytes, e);
		js_set_u64(o, "chunks", r->chunks, e);
		/* A blob's is of its file, which is the session's affair. */
		if (!p->opts.dry_run && p->sources[i].kind != PUSH_CONF)
			js_set_str(o, "csum", hex, e);
		js_set_bool(o, "changed", r->changed, e);
		js_append(archives, o, e);
	}
	js_set(doc, "archives", archives, e);
	js_set_u64(doc, "chunks", p->stats.chunks, e);
	js_set_u64(doc, "new-chunks", p->stats.new_chunks, e);
	js_set_u64(doc, "bytes", p->stats.bytes, e);
	js_set_u64(doc, "new-bytes", p->stats.new_bytes, e);
	js_set_u64(doc, "stored-bytes", p->stats.stored_bytes, e);
	return output_json(doc, e);
}

static int print_text(const struct push *p, struct err *e)
{
	char name[BACKUP_PATH_SIZE];
	char a[TEXT_SIZE_SIZE];
	char b[TEXT_SIZE_SIZE];
	/* Those of the archives: of a hole only its first one was put. */
	uint64_t chunks = 0;
	int rc = 0;

	backup_snapshot_text(&p->id, name);
	rc = output_text(e, "%s%s\n", name,
	    p->opts.dry_run ? " (dry run: nothing was stored)" : "");
	for (size_t i = 0; i < p->n && rc == 0; i++) {
		const struct ingest_result *r = &p->results[i];

		chunks += r->chunks;
		rc = output_text(e, "  %s: %s", p->sources[i].archive,
		    text_size(a, r->size));
		if (rc == 0 && r->chunks > 0)
			rc = output_text(e, " in %" PRIu64 " chunk%s",
			    r->chunks, r->chunks == 1 ? "" : "s");
		if (rc == 0 && r->hole_bytes > 0)
			rc = output_text(
			    e, ", %s of it holes", text_size(a, r->hole_bytes));
		if (rc == 0)
			rc = output_text(e, "\n");
	}
	if (rc == 0 && chunks > 0)
		rc = output_text(e,
		    "  %s: %" PRIu64 " of %" PRIu64 " chunk%s, %s%s%s\n",
		    p->opts.dry_run ? "would be new" : "new",
		    p->stats.new_chunks, chunks, chunks == 1 ? "" : "s",
		    text_size(a, p->stats.new_bytes),
		    p->opts.dry_run ? "" : ", stored as ",
		    p->opts.dry_run ? "" : text_size(b, p->stats.stored_bytes));
	return rc;
}

int cmd_push(struct app *app, const struct invocation *inv, struct err *e)
{
	struct push p = { .app = app,
		.command = invocation_value(inv, "command"),
		.n = inv->args_n - 1 };
	struct datastore *ds = NULL;
	int rc = backup_group_parse(&app->ns, inv->args[0], &p.opts.group, e);

	if (rc < 0)
		return rc;
	rc = push_sources_parse(
	    inv->args + 1, p.n, p.command != NULL, &p.sources, e);
	if (rc < 0)
		return rc;
	p.results = calloc(p.n, sizeof(*p.results));
	if (p.results == NULL) {
		rc = err_nomem(e);
		goto out;
	}
	/* Options are checked before the store is opened, but the store's
	 * settings are the options' defaults. */
	rc = parse_options(&p, inv, e);
	if (rc == 0)
		rc = push_sources_open(p.sources, p.n, e);
	if (rc == 0)
		rc = app_open_datastore(app,
		    p.opts.dry_run ? DATASTORE_READ : DATASTORE_WRITE, &ds, e);
	if (rc < 0 || ds == NULL)
		goto out;
	if (!invocation_has(inv, "level"))
		p.opts.level = ds->settings.compression;
	if (!invocation_has(inv, "sync-level"))
		p.opts.sync_level = ds->settings.sync_level;
	p.opts.min_free = ds->settings.min_free;
	p.ingest.level = p.opts.level;
	rc = run(&p, ds, e);
	if (rc < 0 && (err_is_sys(e, ENOSPC) || err_is_sys(e, EDQUOT)))
		err_suffix(e,
		    "; to make room, 'cairn forget' snapshots and then run "
		    "'cairn gc --cutoff 0'");
	if (rc == 0)
		rc = app->json ? print_json(&p, e) : print_text(&p, e);
out:
	datastore_close(ds);
	free(p.results);
	push_sources_free(p.sources, p.n);
	if (rc < 0)
		return rc;
	return p.changed ? EXIT_INCOMPLETE : EXIT_DONE;
}
