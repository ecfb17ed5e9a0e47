/* SPDX-License-Identifier: MIT */
/*
 * main: parse, run, print one error, return one exit code.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/app.h"
#include "cli/command.h"
#include "cli/exit.h"
#include "cli/output.h"
#include "datastore/base/err.h"
#include "datastore/base/sysio.h"

/*
 * Who was started with a closed standard descriptor would open a file of the
 * store as that, and write the archive into it.  What fills the gap can not
 * be used in its direction, so that using it still fails.
 */
static int fill_standard_descriptors(struct err *e)
{
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
		int way = fd == STDIN_FILENO ? O_WRONLY : O_RDONLY;
		struct statx st;

		/* Those below are open: the gap is what an open gets. */
		if (sysio_statx(fd, "", AT_EMPTY_PATH, STATX_TYPE, &st) < 0 &&
		    errno == EBADF &&
		    sysio_openat(AT_FDCWD, "/dev/null", way, 0) < 0)
			return err_sys(e, "'/dev/null'");
	}
	return 0;
}

static int run(struct app *app, const struct invocation *inv)
{
	struct err e = ERR_INIT;
	struct err flush = ERR_INIT;
	int code = inv->command->run(app, inv, &e);
	bool told = code < 0;

	if (told)
		code = app_fail(app, &e);
	/* One that was told already is likely to be the same. */
	if (output_flush(&flush) < 0 && !told) {
		int failed = app_fail(app, &flush);

		if (code == EXIT_DONE)
			code = failed;
	}
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

	if (fill_standard_descriptors(&e) < 0)
		return app_fail(NULL, &e);
	if (invocation_parse(argc, argv, &inv, &e) < 0)
		return app_fail_usage(&e, invocation_wants_json(argc, argv));
	if (inv.help || inv.command == NULL) {
		if (help(&inv, &e) < 0)
			code = app_fail(NULL, &e);
		else if (!inv.help)
			code = EXIT_USAGE;
	} else if (app_init(&app, &inv, &e) < 0) {
		/* It knows by now whether errors are to be JSON. */
		code = app_fail(&app, &e);
	} else {
		code = run(&app, &inv);
		app_release(&app);
	}
	invocation_release(&inv);
	return code;
}
