/* SPDX-License-Identifier: MIT */
/*
 * main: parse, run, print one error, return one exit code.
 */
#include "cli/app.h"
#include "cli/command.h"
#include "cli/exit.h"
#include "cli/output.h"
#include "datastore/base/err.h"

static int run(struct app *app, const struct invocation *inv)
{
	struct err e = ERR_INIT;
	struct err flush = ERR_INIT;
	int code = inv->command->run(app, inv, &e);

	if (code < 0)
		code = app_fail(app, &e);
	if (output_flush(&flush) < 0 && code == EXIT_DONE)
		code = app_fail(app, &flush);
	return code;
}

static int help(const struct invocation *inv, struct err *e)
{
	int rc = command_print_help(inv->command, e);

	if (rc == 0)
		rc = output_flush(e);
	return rc;
}

int main(int argc, char **argv)
{
	struct invocation inv = { .command = NULL };
	struct app app;
	struct err e = ERR_INIT;
	int code = EXIT_DONE;

	if (invocation_parse(argc, argv, &inv, &e) < 0)
		return app_fail(NULL, &e);
	if (inv.help || inv.command == NULL) {
		if (help(&inv, &e) < 0)
			code = app_fail(NULL, &e);
		else if (!inv.help)
			code = EXIT_USAGE;
	} else if (app_init(&app, &inv, &e) < 0) {
		code = app_fail(NULL, &e);
	} else {
		code = run(&app, &inv);
		app_release(&app);
	}
	invocation_release(&inv);
	return code;
}
