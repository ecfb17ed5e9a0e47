/* SPDX-License-Identifier: MIT */
/*
 * cmd_status: what an administrator looks at first.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cmd.h"
#include "cli/exit.h"
#include "cli/gc_report.h"
#include "cli/hint.h"
#include "cli/history_report.h"
#include "cli/output.h"
#include "datastore/base/clock.h"
#include "datastore/base/text.h"
#include "datastore/damage.h"
#include "datastore/registration.h"
#include "gc/gc.h"
#include "gc/listing.h"
#include "index/idxformat.h"

#define SHOWN 512 /* of the datastore's path */

struct status {
	struct app *app;
	struct datastore *ds;
	struct datastore_space space;
	char fs[32];
	uint64_t namespaces;
	uint64_t groups;
	uint64_t finished;
	uint64_t unfinished;
	int64_t newest; /* 0: none */
	size_t damaged;
	bool emptied; /* chunks are referenced, and none is there */
	struct history_run verified; /* started 0: none is known */
	uint64_t verified_snapshots;
	struct registration_list sessions;
	struct gc_last gc;
	struct gc_seen gc_seen;
	bool gc_damaged; /* nobody knows what it was */
	bool damaged_places;
	bool gc_running;
	char gc_who[256];
};

/* One damaged thing must not hide the others: warn and go on. */
static void pass_over(void *ctx, const struct err *why)
{
	struct status *s = ctx;

	task_message(&s->app->task, TASK_WARNING, "%s", why->msg);
	s->damaged_places = true;
}

static int count_group(
    struct status *s, const struct backup_group *g, struct err *e)
{
	const struct tree_obstacles o = { .fn = pass_over, .ctx = s };
	struct tree_snapshots l = { .items = NULL, .n = 0 };
	struct err why = ERR_INIT;
	int rc = tree_snapshots_past(s->ds, g, &o, &l, &why);

	if (rc == ERR_NOTFOUND)
		return 0; /* removed since the groups were listed */
	if (rc == ERR_CORRUPT || rc == ERR_SYS) {
		pass_over(s, &why);
		return 0;
	}
	if (rc < 0) {
		*e = why;
		return rc;
	}
	s->groups++;
	for (size_t i = 0; i < l.n; i++) {
		if (!l.items[i].finished) {
			s->unfinished++;
			continue;
		}
		s->finished++;
		if (l.items[i].id.time > s->newest)
			s->newest = l.items[i].id.time;
	}
	tree_snapshots_release(&l);
	return 0;
}

static int count(struct status *s, struct err *e)
{
	const struct tree_obstacles o = { .fn = pass_over, .ctx = s };
	struct tree_namespaces all = { .items = NULL, .n = 0 };
	int rc = tree_namespaces_past(s->ds, &o, &all, e);

	s->namespaces = all.n;
	for (size_t i = 0; i < all.n && rc == 0; i++) {
		struct tree_groups groups = { .items = NULL, .n = 0 };
		struct err why = ERR_INIT;

		rc = tree_groups_past(s->ds, &all.items[i], &o, &groups, &why);
		if (rc == ERR_NOTFOUND)
			rc = 0; /* removed since namespaces were listed */
		if (rc < 0)
			*e = why;
		for (size_t j = 0; j < groups.n && rc == 0; j++)
			rc = count_group(s, &groups.items[j], e);
		tree_groups_release(&groups);
	}
	tree_namespaces_release(&all);
	return rc;
}

/* A damaged record of it hides nothing else. */
static int read_last_gc(struct status *s, struct err *e)
{
	struct err why = ERR_INIT;
	int rc = gc_last_read(s->ds, &s->gc, &why);

	if (rc == ERR_CORRUPT) {
		task_message(&s->app->task, TASK_WARNING,
		    "%s; the next garbage collection writes it anew", why.msg);
		s->gc_damaged = true;
		return 0;
	}
	if (rc < 0)
		*e = why;
	return rc;
}

/* Is there an index file that has entries? */
static int references_chunks(struct status *s, bool *ret, struct err *e)
{
	struct task silent = TASK_SILENT; /* what is damaged was told before */
	struct findings ignored = { .task = &silent };
	struct listing all = LISTING_INIT;
	int rc = listing_walk(s->ds, &s->app->task, &ignored, &all, e);

	*ret = false;
	for (size_t i = 0; i < all.n; i++)
		*ret = *ret || all.files[i].bytes > IDX_HEADER_SIZE;
	listing_release(&all);
	return rc;
}

/* Somebody removed all chunks, or their file system is not mounted. */
static int look_at_chunks(struct status *s, struct err *e)
{
	struct store_prefixes there;
	int rc = store_list_prefixes(s->ds->store, &there, e);

	if (rc < 0)
		return rc;
	for (unsigned p = 0; p < STORE_PREFIXES; p++) {
		if (store_prefixes_has(&there, p))
			return 0;
	}
	return references_chunks(s, &s->emptied, e);
}

static int keep_verified(void *ctx, const struct history_run *r, struct err *e)
{
	struct status *s = ctx;

	(void)e;
	if (s->verified.started == 0 && r->result != HISTORY_RUNNING)
		s->verified = *r;
	return 0;
}

static int keep_snapshots(
    void *ctx, const struct history_count *c, struct err *e)
{
	struct status *s = ctx;

	(void)e;
	if (strcmp(c->key, "snapshots") == 0)
		s->verified_snapshots = c->n;
	return 0;
}

/* As far as it can be read: what is wrong with the history was said before. */
static void look_at_verify(struct status *s)
{
	/* The newest, or the one before it that runs. */
	const struct history_query q = { .kind = HISTORY_VERIFY, .limit = 2 };
	struct err ignored = ERR_INIT;
	struct history *h = NULL;
	bool found = false;
	int rc = history_open(
	    s->ds, HISTORY_READ, &s->app->task, &h, &found, &ignored);

	if (rc == 0 && h != NULL)
		rc = history_runs(h, &q, keep_verified, s, &ignored);
	if (rc == 0 && s->verified.started != 0)
		rc = history_counts(
		    h, s->verified.id, keep_snapshots, s, &ignored);
	if (rc < 0)
		s->verified.started = 0;
	history_close(h);
	(void)err_forget(&ignored);
}

static int collect(struct status *s, struct err *e)
{
	struct damage *damage = NULL;
	int rc = datastore_space(s->ds, &s->space, e);

	(void)datastore_fs_name(s->ds, s->fs);
	if (rc == 0)
		rc = count(s, e);
	if (rc == 0)
		rc = look_at_chunks(s, e);
	if (rc == 0)
		rc = damage_read(s->ds, &damage, e);
	if (rc == 0) {
		s->damaged = damage_count(damage);
		if (damage_odd(damage, s->ds, &s->app->task) > 0)
			s->damaged_places = true;
	}
	damage_free(damage);
	if (rc == 0)
		rc = registration_list(s->ds, &s->sessions, e);
	if (rc == 0)
		rc = gc_is_running(
		    s->ds, &s->gc_running, s->gc_who, sizeof(s->gc_who), e);
	if (rc == 0)
		rc = read_last_gc(s, e);
	if (rc == 0)
		gc_report_look(s->app, s->ds, &s->gc, &s->gc_seen);
	if (rc == 0)
		look_at_verify(s);
	return rc;
}

static struct js *sessions_json(const struct status *s, struct err *e)
{
	struct js *array = js_array();

	for (size_t i = 0; i < s->sessions.n; i++) {
		const struct registration_info *r = &s->sessions.items[i];
		char text[TEXT_TIME_SIZE];
		struct js *o = NULL;

		if (!r->live)
			continue;
		o = js_object();
		js_set_name(o, "group", r->group, e);
		js_set_name(o, "command", r->command, e);
		js_set_name(o, "host", r->host, e);
		js_set_i64(o, "pid", r->pid, e);
		if (!r->damaged)
			js_set_str(o, "start",
			    text_time(text, clock_filetime_s(r->start)), e);
		js_append(array, o, e);
	}
	return array;
}

static int print_json(const struct status *s, struct err *e)
{
	struct js *doc = js_object();
	struct js *space = js_object();
	struct js *gc = NULL;
	char text[TEXT_TIME_SIZE];

	output_json_begin(e);
	js_set_name(doc, "datastore", s->ds->path, e);
	js_set_str(doc, "id", s->ds->has_format ? s->ds->id : NULL, e);
	js_set_str(doc, "file-system", s->fs, e);
	js_set_u64(space, "total", s->space.total, e);
	js_set_u64(space, "used", s->space.used, e);
	js_set_u64(space, "available", s->space.available, e);
	js_set_u64(space, "inodes-total", s->space.inodes_total, e);
	js_set_u64(space, "inodes-free", s->space.inodes_free, e);
	js_set(doc, "space", space, e);
	js_set_u64(doc, "namespaces", s->namespaces, e);
	js_set_u64(doc, "groups", s->groups, e);
	js_set_u64(doc, "snapshots", s->finished, e);
	js_set_u64(doc, "unfinished", s->unfinished, e);
	js_set_str(doc, "newest",
	    s->newest != 0 ? text_time(text, s->newest) : NULL, e);
	js_set_u64(doc, "damaged-chunks", s->damaged, e);
	js_set_bool(doc, "chunks-gone", s->emptied, e);
	js_set(doc, "sessions", sessions_json(s, e), e);
	if (s->gc_running)
		js_set_name(doc, "gc-running", s->gc_who, e);
	else
		js_set_null(doc, "gc-running", e);
	if (s->gc.found) {
		gc = js_object();
		gc_report_json(gc, &s->gc.result, e);
		js_set(doc, "gc", gc, e);
	} else {
		js_set_null(doc, "gc", e);
	}
	if (s->gc_seen.has_failed)
		js_set(doc, "gc-failed",
		    history_report_json(&s->gc_seen.failed, e), e);
	else
		js_set_null(doc, "gc-failed", e);
	if (s->verified.started != 0)
		js_set(doc, "verify", history_report_json(&s->verified, e), e);
	else
		js_set_null(doc, "verify", e);
	return output_json(doc, e);
}

static int print_space(const struct status *s, struct err *e)
{
	char a[TEXT_SIZE_SIZE];
	char b[TEXT_SIZE_SIZE];
	char path[SHOWN];
	int rc = output_text(e,
	    "datastore:   %s\nfile system: %s, %s of %s "
	    "available",
	    text_name(path, sizeof(path), s->ds->path), s->fs,
	    text_size(a, s->space.available), text_size(b, s->space.total));

	if (rc == 0 && s->space.inodes_total > 0)
		rc = output_text(
		    e, ", %" PRIu64 " inodes free", s->space.inodes_free);
	return rc == 0 ? output_text(e, "\n") : rc;
}

static int print_counts(const struct status *s, struct err *e)
{
	char command[HINT_SIZE];
	char text[TEXT_TIME_SIZE];
	int rc =
	    output_text(e, "snapshots:   %" PRIu64 " in %" PRIu64 " group%s",
		s->finished, s->groups, text_plural(s->groups, "", "s"));

	if (rc == 0 && s->namespaces > 1)
		rc =
		    output_text(e, " of %" PRIu64 " namespaces", s->namespaces);
	if (rc == 0 && s->unfinished > 0)
		rc = output_text(e, ", %" PRIu64 " unfinished", s->unfinished);
	if (rc == 0 && s->newest != 0)
		rc = output_text(
		    e, ", newest of %s", text_time(text, s->newest));
	if (rc == 0)
		rc = output_text(e, "\n");
	if (rc == 0 && s->emptied)
		rc = output_text(e,
		    "damage:      no chunk is there at all: was '.chunks' "
		    "emptied, or is its file system not mounted?\n");
	if (rc == 0 && s->damaged > 0)
		rc = output_text(e,
		    "damage:      %zu chunk%s missing or bad; '%s' names "
		    "what %s\n",
		    s->damaged, text_plural(s->damaged, " is", "s are"),
		    hint_command(s->app, HINT_NAMESPACE, "verify", command),
		    text_plural(s->damaged, "it hurts", "they hurt"));
	return rc;
}

static int print_sessions(const struct status *s, struct err *e)
{
	int rc = 0;

	for (size_t i = 0; i < s->sessions.n && rc == 0; i++) {
		const struct registration_info *r = &s->sessions.items[i];
		char group[256];
		char host[128];
		char text[TEXT_TIME_SIZE];

		if (!r->live)
			continue;
		rc = output_text(e,
		    "open backup: %s by pid %" PRId64 " on %s, since %s\n",
		    text_name(group, sizeof(group), r->group), r->pid,
		    text_name(host, sizeof(host), r->host),
		    r->damaged ? "unknown"
			       : text_time(text, clock_filetime_s(r->start)));
	}
	return rc;
}

/* The last one did not do its work: in one line, gc status has the rest. */
static int print_attempt(const struct status *s, struct err *e)
{
	const struct history_run *r = &s->gc_seen.failed;
	char began[TEXT_TIME_SIZE];
	char why[1024];

	if (!s->gc_seen.has_failed)
		return 0;
	return output_text(e, "gc:          last attempt: %s, %s%s%s\n",
	    history_result_name(r->result), text_time(began, r->started),
	    r->why[0] != '\0' ? ": " : "", text_name(why, sizeof(why), r->why));
}

static int print_gc(const struct status *s, struct err *e)
{
	const struct gc_result *r = &s->gc.result;
	char a[TEXT_SIZE_SIZE];
	char b[TEXT_SIZE_SIZE];
	char text[TEXT_TIME_SIZE];
	int rc = 0;

	if (s->gc_running)
		rc = output_text(e, "gc:          running: %s\n", s->gc_who);
	if (rc == 0)
		rc = print_attempt(s, e);
	if (rc == 0 && s->gc_damaged)
		return output_text(e, "gc:          see the warning\n");
	if (rc == 0 && !s->gc.found)
		return output_text(e, "gc:          never ended here\n");
	if (rc == 0 && r->ended != 0)
		rc = output_text(e, "gc:          last ended %s, removed %s\n",
		    text_time(text, r->ended), text_size(a, r->removed_bytes));
	if (rc == 0)
		rc = output_text(e, "chunks then: %" PRIu64 ", %s, holding %s",
		    r->disk_chunks, text_size(a, r->disk_bytes),
		    text_size(b, r->index_data_bytes));
	if (rc == 0 && r->disk_bytes > 0)
		rc = output_text(e, " (deduplication %.2f)",
		    (double)r->index_data_bytes / (double)r->disk_bytes);
	return rc == 0 ? output_text(e, "\n") : rc;
}

static int print_verify(const struct status *s, struct err *e)
{
	const struct history_run *r = &s->verified;
	const char *result = history_result_name(r->result);
	char text[TEXT_TIME_SIZE];

	if (r->started == 0)
		return output_text(e, "verify:      never ran here\n");
	if (r->result == HISTORY_DONE)
		result = "no damage";
	else if (r->result == HISTORY_DAMAGE)
		result = "found damage";
	return output_text(e,
	    "verify:      last ran %s, %" PRIu64 " snapshot%s: %s\n",
	    text_time(text, r->started), s->verified_snapshots,
	    text_plural(s->verified_snapshots, "", "s"), result);
}

int cmd_status(struct app *app, const struct invocation *inv, struct err *e)
{
	struct status s = { .app = app };
	int rc = app_open_datastore(app, DATASTORE_READ, &s.ds, e);

	(void)inv;
	if (rc == 0)
		rc = collect(&s, e);
	if (rc == 0 && app->json) {
		rc = print_json(&s, e);
	} else if (rc == 0) {
		rc = print_space(&s, e);
		if (rc == 0)
			rc = print_counts(&s, e);
		if (rc == 0)
			rc = print_sessions(&s, e);
		if (rc == 0)
			rc = print_gc(&s, e);
		if (rc == 0)
			rc = print_verify(&s, e);
	}
	registration_list_release(&s.sessions);
	datastore_close(s.ds);
	if (rc < 0)
		return rc;
	return s.gc_damaged || s.damaged_places || s.damaged > 0 || s.emptied ||
		s.verified.result == HISTORY_DAMAGE
	    ? EXIT_DAMAGE
	    : EXIT_DONE;
}
