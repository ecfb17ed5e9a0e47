/* SPDX-License-Identifier: MIT */
/*
 * cmd_cat: an archive, or one file of it, to standard output.
 */
#include <unistd.h>

#include "cli/cmd.h"
#include "cli/exit.h"
#include "cli/opened.h"
#include "index/archive.h"

int cmd_cat(struct app *app, const struct invocation *inv, struct err *e)
{
	struct opened o = OPENED_INIT;
	struct archive_result result;
	int rc = opened_snapshot(app, inv->args[0], &o, e);

	if (rc == 0)
		rc = opened_archive(&o, inv->args[1], e);
	if (rc == 0)
		rc = archive_extract(o.archive, STDOUT_FILENO, ARCHIVE_APPEND,
		    "standard output", &app->task, &result, e);
	opened_release(&o);
	return rc < 0 ? rc : EXIT_DONE;
}
