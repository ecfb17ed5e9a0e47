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
#include "cli/hint.h"
#include "cli/push_report.h"
#include "cli/push_source.h"
#include "datastore/base/text.h"
#include "datastore/chunker.h"
#include "datastore/session.h"
#include "datastore/tree.h"
#include "gc/history_record.h"
#include "index/chunkidx_run.h"
#include "index/exclude.h"
#include "index/idx.h"
#include "index/ingest.h"
#include "index/tar_push.h"
#include "index/tree_import.h"
#include "index/tree_push.h"

/* One push, from the arguments to the result. */
struct push {
	struct app *app;
	const char *command;
	struct push_source *sources;
	size_t n;
	struct session_opts opts;
	struct ingest_opts ingest;
	struct exclude *exclude; /* NULL: no pattern was given */
	struct tree_push_opts tree;
	struct push_result *results;
	struct session_stats stats;
	struct backup_snapshot id;
	bool ignore_zeros;
	bool changed;
	bool incomplete;
};

/* Patterns are one list, in the order in which they were given. */
static int parse_patterns(
    struct push *p, const struct invocation *inv, struct err *e)
{
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < inv->values_n; i++) {
		const char *option = inv->values[i].option->name;
		const char *value = inv->values[i].value;
		bool is_file = strcmp(option, "exclude-file") == 0;

		if (!is_file && strcmp(option, "exclude") != 0)
			continue;
		if (p->exclude == NULL)
			rc = exclude_new(&p->exclude, e);
		if (rc == 0 && is_file)
			rc = exclude_add_file(p->exclude, value, e);
		else if (rc == 0)
			rc = exclude_add(p->exclude, value, strlen(value), e);
		if (rc < 0 && rc != ERR_NOMEM && is_file)
			err_prefix(e, "--exclude-file");
		else if (rc < 0 && rc != ERR_NOMEM)
			err_prefix(e, "--exclude '%s'", value);
	}
	return rc;
}

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
	if (rc == 0)
		rc = parse_patterns(p, inv, e);
	p->ingest.chunk_size = (size_t)chunk_size;
	p->tree.one_file_system = invocation_has(inv, "one-file-system");
	p->tree.exclude_caches = invocation_has(inv, "exclude-caches");
	p->ignore_zeros = invocation_has(inv, "ignore-zeros");
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

static int push_tree(struct push *p, struct session *s, size_t i, struct err *e)
{
	struct push_source *src = &p->sources[i];
	struct push_result *r = &p->results[i];
	int rc = 0;

	p->tree.ingest = p->ingest;
	p->tree.exclude = p->exclude;
	rc = tree_push(s, src->archive, src->fd, src->path, &p->tree,
	    &p->app->task, &r->tree, e);
	if (rc < 0)
		return rc;
	r->is_tree = true;
	r->content = r->tree.written.content;
	r->catalog = r->tree.written.catalog;
	r->content.changed = r->tree.changed > 0;
	p->changed = p->changed || r->content.changed;
	p->incomplete =
	    p->incomplete || r->content.changed || r->tree.unreadable > 0;
	return 0;
}

static int push_tar(struct push *p, struct session *s, size_t i,
    const struct ingest_source *from, struct err *e)
{
	const struct tar_push_opts opts = { .ingest = p->ingest,
		.ignore_zeros = p->ignore_zeros };
	struct push_result *r = &p->results[i];
	struct tar_push_result result;
	int rc = tar_push(
	    s, p->sources[i].archive, from, &opts, &p->app->task, &result, e);

	if (rc < 0)
		return rc;
	r->content = result.content;
	r->catalog = result.catalog;
	r->members = result.members;
	p->incomplete = p->incomplete || !result.whole;
	return 0;
}

/* A tree from an archive file. */
static int push_import(struct push *p, struct session *s, size_t i,
    const struct ingest_source *from, struct err *e)
{
	const struct tree_import_opts opts = { .ingest = p->ingest,
		.ignore_zeros = p->ignore_zeros };
	struct push_result *r = &p->results[i];
	struct tree_import_result result;
	int rc = tree_import(
	    s, p->sources[i].archive, from, &opts, &p->app->task, &result, e);

	if (rc < 0)
		return rc;
	r->content = result.written.content;
	r->content.changed = result.changed;
	r->catalog = result.written.catalog;
	r->members = result.members;
	p->incomplete = p->incomplete || !result.whole;
	return 0;
}

/* Standard input or a command's output, of which nobody sees how it ended. */
static bool is_piped(const struct push_source *src)
{
	return (src->kind == PUSH_RAW || src->kind == PUSH_CONF) &&
	    (src->path == NULL || strcmp(src->path, "-") == 0);
}

static int push_stream(
    struct push *p, struct session *s, size_t i, struct err *e)
{
	struct push_source *src = &p->sources[i];
	struct task *task = &p->app->task;
	struct ingest_result *r = &p->results[i].content;
	const struct ingest_source from = {
		.fd = src->fd,
		.shown = src->path != NULL ? src->path : p->command,
		.size_hint = src->size_hint,
	};
	char text[256];
	int rc = 0;

	if (src->kind == PUSH_IMG)
		rc = ingest_image(
		    s, src->filename, &from, &p->ingest, task, r, e);
	else if (src->kind == PUSH_CONF)
		rc = ingest_conf(s, src->filename, &from, task, r, e);
	else if (src->kind == PUSH_TAR)
		rc = push_tar(p, s, i, &from, e);
	else if (src->kind == PUSH_TREE)
		rc = push_import(p, s, i, &from, e);
	else
		rc = ingest_stream(
		    s, src->filename, &from, &p->ingest, task, r, e);
	if (rc < 0 || !r->changed)
		return rc;
	task_message(task, TASK_WARNING,
	    "'%s' changed while it was read; '%s' is what was read",
	    text_name(text, sizeof(text), from.shown), src->archive);
	p->changed = true;
	p->incomplete = true;
	return 0;
}

/* A producer that dies at once must not look like a backup; who means it gives
 * an empty file. */
static int check_not_empty(const struct push *p, size_t i, struct err *e)
{
	const struct push_source *src = &p->sources[i];
	char text[256];

	if (p->results[i].content.size > 0 || !is_piped(src))
		return 0;
	return err_set(e, ERR_REFUSED,
	    "'%s': nothing came; no snapshot is made of a stream without a "
	    "byte",
	    text_name(text, sizeof(text),
		src->path != NULL ? src->path : p->command));
}

static int ingest_one(
    struct push *p, struct session *s, size_t i, struct err *e)
{
	struct push_source *src = &p->sources[i];
	int rc = 0;

	if (src->path == NULL) {
		rc = push_source_start(src, p->command, e);
		if (rc < 0)
			return rc;
	}
	if (src->directory)
		rc = push_tree(p, s, i, e);
	else
		rc = push_stream(p, s, i, e);
	/* What was typed is right, as far as anyone could see. */
	if (rc == ERR_INVALID)
		e->code = rc = ERR_REFUSED;
	if (rc == 0 && src->path == NULL)
		rc = finish_command(p, s, src, e);
	return rc < 0 ? rc : check_not_empty(p, i, e);
}

static int run(struct push *p, struct datastore *ds, struct err *e)
{
	struct session *s = NULL;
	int rc = session_open(ds, &p->opts, &p->app->task, &s, e);

	if (rc < 0)
		return rc;
	for (size_t i = 0; i < p->n && rc == 0; i++)
		rc = ingest_one(p, s, i, e);
	session_stats(s, &p->stats);
	if (rc < 0) {
		session_abort(s);
		return rc;
	}
	p->id = *session_id(s);
	return session_commit(s, e);
}

/* In the history; one that failed has its own error to tell, and no other. */
static void record(
    const struct push *p, struct history_record *r, int rc, const struct err *e)
{
	const struct history_count counts[] = {
		{ "archives", p->n },
		{ "chunks", p->stats.chunks },
		{ "new-chunks", p->stats.new_chunks },
		{ "bytes", p->stats.bytes },
		{ "new-bytes", p->stats.new_bytes },
		{ "stored-bytes", p->stats.stored_bytes },
	};
	char name[BACKUP_PATH_SIZE];

	if (rc == 0)
		backup_snapshot_text(&p->id, name);
	history_record_push(r, rc < 0 ? NULL : name,
	    p->incomplete ? HISTORY_INCOMPLETE : HISTORY_DONE, rc,
	    rc < 0 ? e->msg : NULL, counts, sizeof(counts) / sizeof(counts[0]));
}

/* What was stored goes into the chunk index, also of a push that failed. */
static int run_indexed(struct push *p, struct datastore *ds, struct err *e)
{
	struct chunkrun *chunks = NULL;
	const char *why = "";
	int rc = 0;

	if (p->opts.dry_run)
		return run(p, ds, e);
	rc = chunkrun_new(ds, &chunks, e);
	if (rc < 0)
		return rc;
	p->opts.stored = chunkrun_stored;
	p->opts.stored_ctx = chunks;
	rc = run(p, ds, e);
	why = chunkrun_commit(chunks);
	if (why[0] != '\0')
		task_message(&p->app->task, TASK_DEBUG,
		    "not all new chunks are in the chunk index: %s", why);
	chunkrun_free(chunks);
	return rc;
}

static int run_recorded(struct push *p, struct datastore *ds, struct err *e)
{
	struct history_record r = HISTORY_RECORD_INIT;
	struct task silent = TASK_SILENT;
	int rc = 0;

	if (!p->opts.dry_run)
		history_record_init(&r, ds, &p->app->task, HISTORY_PUSH);
	rc = run_indexed(p, ds, e);
	silent.stop = p->app->task.stop;
	if (rc < 0)
		r.task = &silent;
	record(p, &r, rc, e);
	return rc;
}

static int report(const struct push *p, struct err *e)
{
	const struct push_report r = {
		.id = p->id,
		.sources = p->sources,
		.results = p->results,
		.n = p->n,
		.stats = p->stats,
		.dry_run = p->opts.dry_run,
		.changed = p->changed,
		.incomplete = p->incomplete,
	};

	return p->app->json ? push_report_json(&r, e) : push_report_text(&r, e);
}

/* It may be a typing mistake, which nobody would notice else. */
static void say_new_namespace(const struct push *p, struct datastore *ds)
{
	struct tree_groups groups = { .items = NULL, .n = 0 };
	const struct backup_ns *ns = &p->app->ns;
	struct err why = ERR_INIT;

	if (ns->name[0] != '\0' &&
	    tree_groups(ds, ns, &groups, &why) == ERR_NOTFOUND)
		task_message(
		    &p->app->task, TASK_NOTE, "new namespace '%s'", ns->name);
	tree_groups_release(&groups);
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
	say_new_namespace(&p, ds);
	rc = run_recorded(&p, ds, e);
	if (rc < 0)
		hint_no_space(app, e);
	if (rc == ERR_CANCELLED)
		err_suffix(e,
		    "; no snapshot was made, and the next push reuses what was "
		    "stored until then");
	if (rc == 0)
		rc = report(&p, e);
out:
	datastore_close(ds);
	free(p.results);
	exclude_free(p.exclude);
	push_sources_free(p.sources, p.n);
	if (rc < 0)
		return rc;
	return p.incomplete ? EXIT_INCOMPLETE : EXIT_DONE;
}
