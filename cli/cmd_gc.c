/* SPDX-License-Identifier: MIT */
/*
 * cmd_gc: collect garbage, and tell of the last time.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cmd.h"
#include "cli/exit.h"
#include "cli/gc_report.h"
#include "cli/meant.h"
#include "cli/output.h"
#include "datastore/base/text.h"
#include "gc/gc.h"

static int parse_options(struct app *app, const struct settings *settings,
    struct gc_opts *opts, struct err *e)
{
	const char *batch = invocation_value(app->inv, "touch-batch");
	const char *cutoff = invocation_value(app->inv, "cutoff");
	int rc = 0;

	opts->dry_run = invocation_has(app->inv, "dry-run");
	opts->index = true;
	opts->full = invocation_has(app->inv, "full");
	opts->accept_missing = invocation_has(app->inv, "accept-missing");
	opts->touch_batch = settings->gc_touch_batch;
	opts->cutoff_s = settings->gc_cutoff_s;
	if (batch != NULL) {
		rc = settings_parse_touch_batch(batch, &opts->touch_batch, e);
		if (rc < 0)
			err_prefix(e, "--touch-batch");
	}
	if (rc == 0 && cutoff != NULL) {
		rc = text_parse_duration(cutoff, &opts->cutoff_s, e);
		/* Who types 24 means no seconds. */
		if (rc == 0 && opts->cutoff_s > 0 &&
		    cutoff[strspn(cutoff, "0123456789")] == '\0')
			rc = err_set(e, ERR_INVALID,
			    "'%s' has no unit, want one as in %sh (or d, m, s)",
			    cutoff, cutoff);
		if (rc < 0)
			err_prefix(e, "--cutoff");
	}
	return rc;
}

/* The broken snapshots that are set aside must exist: a typing mistake would
 * leave the broken one in the way. */
static int parse_ignored(struct app *app, struct datastore *ds,
    struct backup_snapshot **ret, size_t *ret_n, struct err *e)
{
	const struct invocation *inv = app->inv;
	struct backup_snapshot *ids = calloc(inv->values_n + 1, sizeof(*ids));
	size_t n = 0;
	int rc = 0;

	if (ids == NULL)
		return err_nomem(e);
	for (size_t i = 0; i < inv->values_n && rc == 0; i++) {
		if (strcmp(inv->values[i].option->name, "ignore") != 0)
			continue;
		rc = meant_find_snapshot(
		    app, ds, inv->values[i].value, &ids[n++], e);
		if (rc < 0)
			err_prefix(e, "--ignore");
	}
	if (rc < 0) {
		free(ids);
		return rc;
	}
	*ret = ids;
	*ret_n = n;
	return 0;
}

static int run(struct app *app, struct err *e)
{
	enum datastore_access access =
	    invocation_has(app->inv, "dry-run") ? DATASTORE_READ : DATASTORE_GC;
	struct backup_snapshot *ignored = NULL;
	struct gc_result result = { .dry_run = false };
	struct datastore *ds = NULL;
	struct gc_opts opts = { .dry_run = false };
	int rc = app_open_datastore(app, access, &ds, e);

	if (rc == 0)
		rc = parse_options(app, &ds->settings, &opts, e);
	if (rc == 0)
		rc = parse_ignored(app, ds, &ignored, &opts.ignore_n, e);
	if (rc < 0)
		goto out;
	opts.ignore = ignored;
	rc = gc_run(ds, &opts, &app->task, &result, e);
	if (rc == 0)
		rc = gc_report_run(app, &result, e);
	else if (rc == ERR_CANCELLED)
		gc_report_stopped(app, &result);
out:
	free(ignored);
	datastore_close(ds);
	if (rc < 0)
		return rc;
	if (result.missing_chunks > 0 || result.unswept_prefixes > 0)
		return EXIT_INCOMPLETE;
	return EXIT_DONE;
}

static int status(struct app *app, struct err *e)
{
	struct err ignored = ERR_INIT;
	struct gc_seen seen = { .has_now = false };
	struct gc_last last = { .found = false };
	struct datastore *ds = NULL;
	bool running = false;
	char who[256] = "";
	int rc = app_open_datastore(app, DATASTORE_READ, &ds, e);

	if (rc == 0)
		rc = gc_is_running(ds, &running, who, sizeof(who), e);
	if (rc == 0)
		rc = gc_last_read(ds, &last, e);
	if (rc == ERR_CORRUPT)
		err_suffix(e, "; the next garbage collection writes it anew");
	if (rc == 0) {
		gc_report_look(app, ds, &last, &seen);
		if (running &&
		    gcrunning_read(ds, &seen.now, &seen.has_now, &ignored) < 0)
			seen.has_now = false;
		rc = gc_report_status(
		    app, &last, running ? who : NULL, &seen, e);
	}
	datastore_close(ds);
	return rc < 0 ? rc : EXIT_DONE;
}

int cmd_gc(struct app *app, const struct invocation *inv, struct err *e)
{
	char shown[64];

	if (inv->args_n == 0)
		return run(app, e);
	if (strcmp(inv->args[0], "status") != 0)
		return err_set(e, ERR_INVALID,
		    "unexpected argument '%s'; want 'cairn gc' or 'cairn gc "
		    "status'",
		    text_name(shown, sizeof(shown), inv->args[0]));
	for (size_t i = 0; i < inv->values_n; i++)
		for (size_t j = 0; j < inv->command->options_n; j++)
			if (inv->values[i].option == &inv->command->options[j])
				return err_set(e, ERR_INVALID,
				    "'gc status' takes no option '--%s'",
				    inv->values[i].option->name);
	return status(app, e);
}
