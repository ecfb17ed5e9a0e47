/* SPDX-License-Identifier: MIT */
/*
 * cmd_misc: init, help, completion, version, and what several commands share.
 */
#include <stdio.h>
#include <string.h>

#include "cli/cmd.h"
#include "cli/completion.h"
#include "cli/exit.h"
#include "cli/output.h"
#include "datastore/base/text.h"
#include "datastore/datastore.h"
#include "index/chunkidx.h"

#define SHOWN 128 /* of what was typed, in messages */

int cmd_bad_value(
    const char *option, const char *value, const char *want, struct err *e)
{
	char shown[SHOWN];

	return err_set(e, ERR_INVALID, "--%s '%s': want %s", option,
	    text_name(shown, sizeof(shown), value), want);
}

void cmd_json_group(struct js *obj, const struct backup_group *g, struct err *e)
{
	js_set_str(obj, "namespace", g->ns.name, e);
	js_set_str(obj, "backup-type", backup_type_name(g->type), e);
	js_set_str(obj, "backup-id", g->id, e);
}

void cmd_json_snapshot(
    struct js *obj, const struct backup_snapshot *s, struct err *e)
{
	char text[TEXT_TIME_SIZE];

	cmd_json_group(obj, &s->group, e);
	js_set_i64(obj, "backup-time", s->time, e);
	js_set_str(obj, "time", text_time(text, s->time), e);
}

void cmd_archive_name(const char *filename, char out[BACKUP_ID_MAX + 1])
{
	size_t n = strlen(filename);

	/* All three suffixes have five characters. */
	if (backup_file_kind(filename) != BACKUP_FILE_NONE)
		n -= sizeof(".fidx") - 1;
	(void)snprintf(out, BACKUP_ID_MAX + 1, "%.*s", (int)n, filename);
}

/* Of a datastore that is empty everything is known.  Without an index all else
 * works. */
static void make_index(struct app *app, const char *path)
{
	struct settings settings = app_settings(app, path);
	struct datastore *ds = NULL;
	struct err why = ERR_INIT;
	int rc = datastore_open(path, DATASTORE_WRITE, &settings, &ds, &why);

	if (rc == 0)
		rc = chunkidx_create(ds, &why);
	if (rc < 0)
		task_message(&app->task, TASK_DEBUG,
		    "no chunk index is made: %s", why.msg);
	datastore_close(ds);
}

int cmd_init(struct app *app, const struct invocation *inv, struct err *e)
{
	struct datastore_init_opts opts = {
		.pbs_layout = invocation_has(inv, "pbs-layout"),
	};
	char shown[SHOWN];
	int rc = datastore_init(inv->args[0], &opts, &app->task, e);

	if (rc < 0)
		return rc;
	make_index(app, inv->args[0]);
	if (app->json) {
		struct js *doc = js_object();

		output_json_begin(e);
		js_set_name(doc, "datastore", inv->args[0], e);
		return output_json(doc, e);
	}
	task_message(&app->task, TASK_NOTE, "datastore made in '%s'",
	    text_name(shown, sizeof(shown), inv->args[0]));
	return EXIT_DONE;
}

int cmd_version(struct app *app, const struct invocation *inv, struct err *e)
{
	(void)inv;
	if (app->json) {
		struct js *doc = js_object();

		js_set_str(doc, "version", CAIRN_VERSION, e);
		js_set_i64(doc, "datastore-format", DATASTORE_FORMAT, e);
		return output_json(doc, e);
	}
	return output_text(e, "cairn %s\n", CAIRN_VERSION);
}

int cmd_help(struct app *app, const struct invocation *inv, struct err *e)
{
	const struct command *c = NULL;

	if (app->json)
		return err_set(
		    e, ERR_INVALID, "'help' is text only; leave out --json");
	if (inv->args_n > 0 && strcmp(inv->args[0], "exit-codes") == 0)
		return command_print_exit_codes(e);
	if (inv->args_n > 0) {
		c = command_find(inv->args[0]);
		if (c == NULL)
			return command_unknown(inv->args[0], e);
	}
	return command_print_help(c, e);
}

int cmd_completion(struct app *app, const struct invocation *inv, struct err *e)
{
	if (app->json)
		return err_set(e, ERR_INVALID,
		    "'completion' is text only; leave out --json");
	return completion_print(inv->args[0], e);
}
