/* SPDX-License-Identifier: MIT */
/*
 * cmd_prune: remove what a policy does not keep; and what a removal would
 * free.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cmd.h"
#include "cli/exit.h"
#include "cli/hint.h"
#include "cli/meant.h"
#include "cli/output.h"
#include "datastore/base/clock.h"
#include "datastore/base/text.h"
#include "datastore/prune.h"
#include "gc/history_record.h"

int cmd_garbage_count(struct app *app, struct datastore *ds,
    const struct backup_snapshot *gone, size_t n, struct wouldfree *ret,
    struct err *e)
{
	const struct wouldfree_opts opts = {
		.gone = gone,
		.gone_n = n,
		/* The one bound of memory that there is to be tuned. */
		.capacity = ds->settings.gc_touch_batch == GC_TOUCH_BATCH_OFF
		    ? GC_TOUCH_BATCH_DEFAULT
		    : ds->settings.gc_touch_batch,
	};

	return wouldfree_count(ds, &opts, &app->task, ret, e);
}

struct js *cmd_garbage_json(const struct wouldfree *w, struct err *e)
{
	struct js *o = js_object();

	js_set_str(o, "precision", wouldfree_word(w), e);
	js_set_u64(o, "chunks", w->chunks, e);
	js_set_u64(o, "bytes", w->bytes, e);
	js_set_u64(o, "own-bytes", w->own_bytes, e);
	return o;
}

int cmd_garbage_print(const struct wouldfree *w, struct err *e)
{
	char bytes[TEXT_SIZE_SIZE];
	char own[TEXT_SIZE_SIZE];

	return output_text(e,
	    "%s %" PRIu64 " chunk%s, %s, would become garbage; %s of index "
	    "files and the like would go at once\n",
	    wouldfree_word(w), w->chunks, text_plural(w->chunks, "", "s"),
	    text_size(bytes, w->bytes), text_size(own, w->own_bytes));
}

struct pruning {
	struct app *app;
	struct datastore *ds;
	struct retention_policy policy;
	struct zone *zone;
	struct prune_opts opts;
	struct table *table;
	struct js *array;             /* of groups */
	struct backup_snapshot *gone; /* dry run: what would be removed */
	uint64_t snapshots;
	uint64_t removed;
	uint64_t busy;
	uint64_t hurt; /* damaged snapshots, which count for no rule */
	bool figures;  /* dry run: all was looked at */
	bool failed;   /* and told */
	bool damaged;  /* something could not be listed, and was told */
	struct history_record record;
};

/* --keep-... of the command line stand for all of the config file's. */
static int read_policy(struct pruning *p, struct err *e)
{
	const struct invocation *inv = p->app->inv;

	for (int i = 0; i < RETENTION_RULES; i++) {
		enum retention_rule rule = (enum retention_rule)i;
		const char *value = invocation_value(inv, retention_name(rule));
		int rc = 0;

		if (value != NULL)
			rc = retention_set(&p->policy, rule, value, e);
		if (rc < 0) {
			err_prefix(e, "--%s", retention_name(rule));
			return rc;
		}
	}
	return 0;
}

/* Nothing was said of what is to be kept: that can not mean to keep nothing. */
static int choose_policy(struct pruning *p, struct err *e)
{
	if (!retention_is_given(&p->policy))
		p->policy = p->ds->settings.retention;
	if (retention_is_given(&p->policy))
		return 0;
	return err_set(e, ERR_INVALID,
	    "no --keep-... option, and no key keep-... in the config file: "
	    "what is to be kept? 'cairn help prune' lists them");
}

static int policy_text(const struct pruning *p, struct buf *out, struct err *e)
{
	const char *between = "policy: ";
	int rc = 0;

	for (int i = 0; i < RETENTION_RULES && rc == 0; i++) {
		char duration[TEXT_DURATION_SIZE];
		uint64_t v = p->policy.value[i];
		const char *name = retention_name((enum retention_rule)i);

		if (!p->policy.given[i])
			continue;
		rc = i == RETENTION_WITHIN
		    ? buf_append_fmt(out, e, "%s%s %s", between, name,
			  text_duration(duration, v))
		    : buf_append_fmt(out, e, "%s%s %" PRIu64, between, name, v);
		between = ", ";
	}
	if (rc == 0)
		rc = buf_append_fmt(
		    out, e, "; time zone %s", p->ds->settings.time_zone);
	return rc;
}

/* What it goes by, for who reads this in a log. */
static int say_policy(struct pruning *p, struct err *e)
{
	struct buf text = BUF_INIT;
	const char *s = NULL;
	int rc = policy_text(p, &text, e);

	if (rc == 0) {
		s = buf_cstr(&text, e);
		rc = s != NULL ? 0 : e->code;
	}
	if (rc == 0)
		task_message(&p->app->task, TASK_NOTE, "%s", s);
	buf_release(&text);
	return rc;
}

static struct js *policy_json(const struct pruning *p, struct err *e)
{
	struct js *o = js_object();

	for (int i = 0; i < RETENTION_RULES; i++) {
		if (p->policy.given[i])
			js_set_u64(o, retention_name((enum retention_rule)i),
			    p->policy.value[i], e);
	}
	return o;
}

static const char *outcome_name(const struct prune_item *item, bool dry_run)
{
	switch (item->outcome) {
	case PRUNE_KEPT:
		return dry_run ? "keep" : "kept";
	case PRUNE_REMOVED:
		return dry_run ? "remove" : "removed";
	case PRUNE_GONE:
		return "gone";
	case PRUNE_BUSY:
		return "busy";
	case PRUNE_FAILED:
		return "failed";
	case PRUNE_NOT_REACHED:
		break;
	}
	return "left";
}

static void add_item_json(struct pruning *p, struct js *array,
    const struct prune_item *item, struct err *e)
{
	const struct retention_decision *d = &item->decision;
	bool of_rule =
	    d->reason == RETENTION_RULE || d->reason == RETENTION_COVERED;
	char text[RETENTION_TEXT_SIZE];
	struct js *o = js_object();

	cmd_json_snapshot(o, &item->snapshot.id, e);
	js_set_bool(o, "finished", item->snapshot.finished, e);
	js_set_bool(o, "protected", item->snapshot.is_protected, e);
	js_set_bool(o, "keep", d->keep, e);
	js_set_str(o, "reason", retention_reason_name(d->reason), e);
	js_set_str(o, "rule", of_rule ? retention_name(d->rule) : NULL, e);
	js_set_str(
	    o, "period", of_rule && d->period[0] != '\0' ? d->period : NULL, e);
	js_set_str(o, "text", retention_text(d, text), e);
	js_set_str(o, "action", outcome_name(item, p->opts.dry_run), e);
	js_append(array, o, e);
}

static int add_json(struct pruning *p, const struct backup_group *g,
    const struct prune_group *result, struct err *e)
{
	struct js *o = js_object();
	struct js *items = js_array();

	output_json_begin(e);
	cmd_json_group(o, g, e);
	js_set_bool(o, "refused", result->refused, e);
	for (size_t i = 0; i < result->n; i++)
		add_item_json(p, items, &result->items[i], e);
	js_set(o, "snapshots", items, e);
	js_append(p->array, o, e);
	return e->code;
}

static int add_rows(
    struct pruning *p, const struct prune_group *result, struct err *e)
{
	int rc = 0;

	for (size_t i = 0; i < result->n && rc == 0; i++) {
		const struct prune_item *item = &result->items[i];
		char name[BACKUP_PATH_SIZE];
		char why[RETENTION_TEXT_SIZE];

		backup_snapshot_text(&item->snapshot.id, name);
		rc = table_cell(p->table, e, "%s", name);
		if (rc == 0)
			rc = table_cell(p->table, e, "%s",
			    outcome_name(item, p->opts.dry_run));
		if (rc == 0)
			rc = table_cell(p->table, e, "%s",
			    retention_text(&item->decision, why));
	}
	return rc;
}

static int add_gone(
    struct pruning *p, const struct backup_snapshot *s, struct err *e)
{
	struct backup_snapshot *gone = NULL;

	/* removed counts them; doubled at each power of two. */
	if ((p->removed & (p->removed - 1)) == 0) {
		gone = reallocarray(p->gone,
		    p->removed == 0 ? 1 : 2 * p->removed, sizeof(*gone));
		if (gone == NULL)
			return err_nomem(e);
		p->gone = gone;
	}
	p->gone[p->removed] = *s;
	return 0;
}

static int count_items(
    struct pruning *p, const struct prune_group *result, struct err *e)
{
	int rc = 0;

	for (size_t i = 0; i < result->n && rc == 0; i++) {
		const struct prune_item *item = &result->items[i];

		p->snapshots++;
		p->busy += item->outcome == PRUNE_BUSY;
		p->hurt += item->decision.reason == RETENTION_HURT;
		if (item->outcome != PRUNE_REMOVED)
			continue;
		if (p->opts.dry_run)
			rc = add_gone(p, &item->snapshot.id, e);
		p->removed++;
	}
	return rc;
}

static void tell_failure(void *ctx, const struct err *why)
{
	struct pruning *p = ctx;

	(void)app_fail(p->app, why);
	if (why->code != ERR_BUSY)
		p->failed = true;
}

static void record_removing(void *ctx, const struct backup_snapshot *s)
{
	struct pruning *p = ctx;
	char name[BACKUP_PATH_SIZE];

	backup_snapshot_text(s, name);
	history_record_snapshot(&p->record, name);
}

static void record_kept(void *ctx, const struct backup_snapshot *s)
{
	struct pruning *p = ctx;
	char name[BACKUP_PATH_SIZE];

	backup_snapshot_text(s, name);
	history_record_kept(&p->record, name);
}

/* What is about this group only keeps no other from being pruned. */
static bool is_passed_over(int code)
{
	return code == ERR_REFUSED || code == ERR_CORRUPT || code == ERR_SYS;
}

static int prune_one(
    struct pruning *p, const struct backup_group *g, struct err *e)
{
	struct prune_group result = PRUNE_GROUP_INIT;
	struct err why = ERR_INIT;
	int pruned =
	    prune_group(p->ds, g, &p->opts, &p->app->task, &result, &why);
	int rc = count_items(p, &result, e);

	/* Also what was done before it was stopped. */
	if (rc == 0 && p->app->json)
		rc = add_json(p, g, &result, e);
	else if (rc == 0)
		rc = add_rows(p, &result, e);
	prune_group_release(&result);
	if (rc < 0 || pruned == 0)
		return rc;
	if (is_passed_over(pruned)) {
		tell_failure(p, &why);
		return 0;
	}
	*e = why;
	return pruned;
}

static void pass_over(void *ctx, const struct err *why)
{
	struct pruning *p = ctx;

	task_message(&p->app->task, TASK_WARNING, "%s", why->msg);
	p->damaged = true;
}

static int prune_all(struct pruning *p, struct err *e)
{
	const struct tree_obstacles o = { .fn = pass_over, .ctx = p };
	struct tree_groups groups = { .items = NULL, .n = 0 };
	int rc = tree_groups_past(p->ds, &p->app->ns, &o, &groups, e);

	for (size_t i = 0; i < groups.n && rc == 0; i++) {
		struct err gone = ERR_INIT;

		rc = prune_one(p, &groups.items[i], &gone);
		if (rc == ERR_NOTFOUND)
			rc = 0; /* removed since the groups were listed */
		else if (rc < 0)
			*e = gone;
	}
	tree_groups_release(&groups);
	return rc;
}

static int print_json(struct pruning *p, struct err *e)
{
	struct wouldfree w = { .chunks = 0 };
	struct js *doc = NULL;
	int rc = 0;

	if (p->figures)
		rc = cmd_garbage_count(
		    p->app, p->ds, p->gone, (size_t)p->removed, &w, e);
	if (rc < 0)
		return rc;
	doc = js_object();
	output_json_begin(e);
	js_set_bool(doc, "dry-run", p->opts.dry_run, e);
	js_set(doc, "policy", policy_json(p, e), e);
	js_set_str(doc, "time-zone", p->ds->settings.time_zone, e);
	js_set(doc, "groups", p->array, e);
	p->array = NULL;
	js_set_u64(doc, "snapshots", p->snapshots, e);
	js_set_u64(doc, "removed", p->removed, e);
	if (p->figures)
		js_set(doc, "garbage", cmd_garbage_json(&w, e), e);
	return output_json(doc, e);
}

static int print_text(struct pruning *p, struct err *e)
{
	struct wouldfree w = { .chunks = 0 };
	int rc = table_print(p->table, e);

	if (rc == 0)
		rc = output_text(e,
		    "%s %" PRIu64 " of %" PRIu64 " snapshot%s\n",
		    p->opts.dry_run ? "would remove" : "removed", p->removed,
		    p->snapshots, text_plural(p->snapshots, "", "s"));
	if (rc < 0 || !p->figures || p->removed == 0)
		return rc;
	rc = cmd_garbage_count(
	    p->app, p->ds, p->gone, (size_t)p->removed, &w, e);
	return rc < 0 ? rc : cmd_garbage_print(&w, e);
}

/* The report is printed whatever ended the work: it says what was done. */
static int run(struct pruning *p, const struct backup_group *g, struct err *e)
{
	struct err why = ERR_INIT;
	int done = g != NULL ? prune_one(p, g, &why) : prune_all(p, &why);
	int rc = 0;

	if (done < 0 && p->snapshots == 0) {
		*e = why;
		return done;
	}
	p->figures = p->opts.dry_run && done == 0;
	rc = p->app->json ? print_json(p, e) : print_text(p, e);
	if (rc == 0 && done < 0) {
		*e = why;
		rc = done;
	}
	return rc;
}

static int prepare(struct pruning *p, struct err *e)
{
	static const char *const heading[] = { "SNAPSHOT", "ACTION", "REASON" };
	bool dry_run = invocation_has(p->app->inv, "dry-run");
	int rc = app_open_datastore(
	    p->app, dry_run ? DATASTORE_READ : DATASTORE_WRITE, &p->ds, e);

	if (rc == 0)
		rc = choose_policy(p, e);
	if (rc == 0)
		rc = zone_open(p->ds->settings.time_zone, &p->zone, e);
	if (rc == 0)
		rc = say_policy(p, e);
	if (rc == 0)
		rc = table_new("lll", heading, &p->table, e);
	if (rc < 0)
		return rc;
	p->array = js_array();
	p->opts = (struct prune_opts){
		.policy = &p->policy,
		.zone = p->zone,
		.now = clock_now_s(),
		.dry_run = dry_run,
		.allow_empty = invocation_has(p->app->inv, "allow-empty"),
		.removing = record_removing,
		.kept = record_kept,
		.failed = tell_failure,
		.ctx = p,
	};
	return 0;
}

static void record_end(struct pruning *p, int rc, const struct err *e)
{
	const struct history_count counts[] = {
		{ "snapshots", p->snapshots },
		{ "removed", p->removed },
		{ "busy", p->busy },
		{ "damaged", p->hurt },
	};
	enum history_result result = HISTORY_DONE;

	if (p->failed)
		result = HISTORY_FAILED;
	else if (p->busy > 0)
		result = HISTORY_BUSY;
	else if (p->damaged)
		result = HISTORY_DAMAGE;
	/* A name that was typed wrong is no run. */
	if (rc == ERR_NOTFOUND)
		return;
	p->record.run.removed = p->removed;
	history_record_end(&p->record, result, rc, rc < 0 ? e->msg : NULL,
	    counts, sizeof(counts) / sizeof(counts[0]));
}

/* They are kept until somebody decides: what is whole in them may be needed. */
static void tell_hurt(struct pruning *p)
{
	char verify[HINT_SIZE];
	char forget[HINT_SIZE];

	task_message(&p->app->task, TASK_WARNING,
	    "%" PRIu64 " damaged snapshot%s: kept, and counted for no rule; "
	    "'%s' looks again, '%s' removes",
	    p->hurt, text_plural(p->hurt, "", "s"),
	    hint_command(p->app, HINT_NAMESPACE, "verify", verify),
	    hint_command(p->app, HINT_NAMESPACE, "forget SNAPSHOT", forget));
	p->damaged = true;
}

int cmd_prune(struct app *app, const struct invocation *inv, struct err *e)
{
	struct pruning p = { .app = app };
	struct backup_group g;
	int rc = read_policy(&p, e);

	if (rc == 0 && inv->args_n > 0)
		rc = backup_group_parse(&app->ns, inv->args[0], &g, e);
	if (rc == 0)
		rc = prepare(&p, e);
	if (rc == 0 && !p.opts.dry_run)
		history_record_init(&p.record, p.ds, &app->task, HISTORY_PRUNE);
	if (rc == 0)
		rc = run(&p, inv->args_n > 0 ? &g : NULL, e);
	if (rc < 0 && p.ds != NULL && inv->args_n > 0)
		meant_group(app, p.ds, &g, e);
	else if (rc < 0 && p.ds != NULL)
		meant_namespace(p.ds, &app->ns, e);
	if (rc == 0 && p.hurt > 0)
		tell_hurt(&p);
	record_end(&p, rc, e);
	free(p.gone);
	js_free(p.array);
	table_free(p.table);
	zone_free(p.zone);
	datastore_close(p.ds);
	if (rc < 0)
		return rc;
	if (p.failed)
		return EXIT_FAILED;
	if (p.busy > 0)
		return EXIT_BUSY;
	return p.damaged ? EXIT_DAMAGE : EXIT_DONE;
}
