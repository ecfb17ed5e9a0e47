/* SPDX-License-Identifier: MIT */
#include "cli/app.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/cmd.h"
#include "cli/exit.h"
#include "cli/signals.h"
#include "datastore/base/json.h"
#include "datastore/base/log.h"
#include "datastore/base/nearest.h"
#include "datastore/base/sysio.h"
#include "datastore/base/text.h"

static int parse_progress(
    const struct invocation *inv, enum report_progress *ret, struct err *e)
{
	const char *s = invocation_value(inv, "progress");

	if (s == NULL || strcmp(s, "auto") == 0)
		*ret = REPORT_AUTO;
	else if (strcmp(s, "always") == 0)
		*ret = REPORT_ALWAYS;
	else if (strcmp(s, "never") == 0)
		*ret = REPORT_NEVER;
	else
		return cmd_bad_value("progress", s, "auto, always or never", e);
	return 0;
}

/* Read before there are threads; nothing here ever changes it. */
static const char *environment(const char *name)
{
	return getenv(name); /* NOLINT(concurrency-mt-unsafe) */
}

/* The file may be absent only where nobody asked for it by name. */
static int read_config(struct app *app, struct err *e)
{
	const char *path = invocation_value(app->inv, "config");
	struct err read = ERR_INIT;
	bool named = true;
	int rc = 0;

	if (path == NULL)
		path = environment("CAIRN_CONFIG");
	if (path == NULL || path[0] == '\0') {
		path = CONFIG_PATH_DEFAULT;
		named = false;
	}
	rc = config_read(path, &app->config, &read);
	if (rc < 0 && (named || rc != ERR_NOTFOUND)) {
		*e = read;
		/* A file that can not be read is wrong config. */
		if (rc == ERR_NOTFOUND || rc == ERR_SYS) {
			e->code = rc = ERR_INVALID;
			err_prefix(e, "config file");
		}
		return rc;
	}
	return 0;
}

/* NO_COLOR: https://no-color.org, set and not empty. */
static bool wants_color(void)
{
	const char *no = environment("NO_COLOR");
	const char *terminal = environment("TERM");

	return isatty(STDERR_FILENO) == 1 && (no == NULL || no[0] == '\0') &&
	    terminal != NULL && strcmp(terminal, "dumb") != 0;
}

int app_init(struct app *app, const struct invocation *inv, struct err *e)
{
	static const struct config no_config = CONFIG_INIT;
	enum report_progress progress = REPORT_AUTO;
	const char *ns = invocation_value(inv, "ns");
	int rc = 0;

	memset(app, 0, sizeof(*app));
	app->inv = inv;
	app->config = no_config;
	app->json = invocation_has(inv, "json");
	app->quiet = invocation_has(inv, "quiet");
	if (invocation_has(inv, "verbose"))
		log_set_level(LOG_LEVEL_DEBUG);
	else if (app->quiet)
		log_set_level(LOG_LEVEL_WARNING);
	log_set_color(wants_color());
	rc = parse_progress(inv, &progress, e);
	if (rc < 0)
		return rc;
	rc = report_init(&app->report, app->json, app->quiet, progress, e);
	if (rc < 0)
		return rc;
	app->task.ops = &report_task_ops;
	app->task.ctx = &app->report;
	rc = backup_ns_parse(ns != NULL ? ns : "", &app->ns, e);
	if (rc < 0)
		err_prefix(e, "--ns");
	if (rc == 0)
		rc = read_config(app, e);
	if (rc == 0)
		rc = signals_watch(&app->task, &app->report.asked, e);
	if (rc < 0)
		app_release(app);
	return rc;
}

void app_release(struct app *app)
{
	/* The task lies in what the caller frees. */
	signals_ignore();
	config_release(&app->config);
	report_release(&app->report);
}

struct settings app_settings(const struct app *app, const char *path)
{
	const struct config_datastore *d = config_find_path(&app->config, path);

	return d != NULL ? d->settings : settings_default();
}

/* Those that the config file has are few. */
static int unknown_name(const struct app *app, const char *word, struct err *e)
{
	const struct config *c = &app->config;
	struct nearest n;
	char shown[128];
	int rc = err_set(e, ERR_INVALID, "no datastore '%s' in the config file",
	    text_name(shown, sizeof(shown), word));

	nearest_init(&n, word);
	for (size_t i = 0; i < c->stores_n; i++)
		nearest_try(&n, c->stores[i].name);
	if (nearest_best(&n) != NULL)
		err_suffix(e, ", did you mean '%s'?", nearest_best(&n));
	for (size_t i = 0; i < c->stores_n && nearest_best(&n) == NULL; i++)
		err_suffix(
		    e, "%s%s", i > 0 ? ", " : ", only ", c->stores[i].name);
	err_suffix(e, "%s a path has a slash in it, as in './%s'",
	    nearest_best(&n) != NULL ? "" : ";", shown);
	return rc;
}

/* With a slash it is a path, else a section of the config file. */
static int find_path(
    const struct app *app, const char *word, const char **ret, struct err *e)
{
	const struct config_datastore *d = NULL;

	if (strchr(word, '/') != NULL || strcmp(word, ".") == 0) {
		*ret = word;
		return 0;
	}
	d = config_find_name(&app->config, word);
	if (d == NULL)
		return unknown_name(app, word, e);
	*ret = d->path;
	return 0;
}

/* There is no datastore: could init make one, and leave alone what is there?
 */
static void advise_init(const char *path, struct err *e)
{
	static const char *const parts[] = { ".chunks", ".cairn", ".lock",
		"host", "vm", "ct", "ns" };
	char inside[PATH_MAX];
	struct statx st;
	bool there = sysio_statx(AT_FDCWD, path, 0, STATX_TYPE, &st) == 0;

	if (there && (st.stx_mode & S_IFMT) != S_IFDIR)
		return;
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		(void)snprintf(inside, sizeof(inside), "%s/%s", path, parts[i]);
		if (sysio_statx(AT_FDCWD, inside, AT_SYMLINK_NOFOLLOW,
			STATX_TYPE, &st) == 0)
			return;
	}
	/* A mount point without its file system is an empty directory. */
	err_suffix(e, "%s 'cairn init' makes one",
	    there ? "; is its file system mounted?" : ";");
}

int app_open_datastore(struct app *app, enum datastore_access access,
    struct datastore **ret, struct err *e)
{
	const char *word = invocation_value(app->inv, "datastore");
	const char *path = NULL;
	struct settings settings;
	int rc = 0;

	if (word == NULL)
		word = environment("CAIRN_DATASTORE");
	if (word != NULL && word[0] != '\0') {
		rc = find_path(app, word, &path, e);
		if (rc < 0)
			return rc;
	} else if (app->config.stores_n == 1) {
		path = app->config.stores[0].path;
	} else {
		return err_set(e, ERR_INVALID,
		    "which datastore? name it with -d %s or in "
		    "CAIRN_DATASTORE",
		    app->config.stores_n > 1 ? "NAME, as in the config file,"
					     : "PATH");
	}
	settings = app_settings(app, path);
	rc = datastore_open(path, access, &settings, ret, e);
	if (rc == ERR_NOTFOUND)
		advise_init(path, e);
	if (rc < 0 && err_is_sys(e, EROFS))
		err_suffix(e, "; this command has to write to the datastore");
	return rc;
}

static int exit_code_of(const struct app *app, const struct err *e)
{
	int stop = app != NULL ? app->task.stop : 0;

	/* Not every call that a signal interrupts knows of the task. */
	if (stop != 0 && err_is_sys(e, EINTR))
		return EXIT_SIGNAL + stop;
	/* Standard output is the only pipe that is written to. */
	if (err_is_sys(e, EPIPE))
		return EXIT_SIGNAL + SIGPIPE;
	switch ((enum err_code)e->code) {
	case ERR_INVALID:
		return EXIT_USAGE;
	case ERR_BUSY:
		return EXIT_BUSY;
	case ERR_CORRUPT:
		return app != NULL && app->inv->command->finds_damage
		    ? EXIT_DAMAGE
		    : EXIT_FAILED;
	case ERR_CANCELLED:
		return EXIT_SIGNAL + (stop != 0 ? stop : SIGINT);
	case ERR_OK:
	case ERR_NOMEM:
	case ERR_SYS:
	case ERR_NOTFOUND:
	case ERR_EXISTS:
	case ERR_UNSUPPORTED:
	case ERR_LIMIT:
	case ERR_REFUSED:
		break;
	}
	return EXIT_FAILED;
}

/* On stderr in either form: stdout holds data only. */
static void tell(const struct err *e, int code, bool json)
{
	if (json) {
		struct err ignored = ERR_INIT;
		struct js *event = js_object();

		js_set_str(event, "event", "error", &ignored);
		js_set_i64(event, "exit-code", code, &ignored);
		js_set_name(event, "text", e->msg, &ignored);
		report_event(event, &ignored);
	} else {
		log_line(LOG_LEVEL_ERROR, "%s", e->msg);
	}
}

int app_fail(const struct app *app, const struct err *e)
{
	int code = exit_code_of(app, e);

	/* Who reads has seen enough: 'cairn list | head' is no failure. */
	if (!err_is_sys(e, EPIPE))
		tell(e, code, app != NULL && app->json);
	return code;
}

int app_fail_usage(const struct err *e, bool json)
{
	int code = exit_code_of(NULL, e);

	tell(e, code, json);
	return code;
}
