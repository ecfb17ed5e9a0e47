/* SPDX-License-Identifier: MIT */
#include "cli/command.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "cli/output.h"

#define WIDTH 79
#define TEXT_COLUMN 32 /* where the help of options begins */

/* "-d, --datastore PATH|NAME" */
static void option_left(const struct command_option *o, char *out, size_t size)
{
	char letter[5] = "    ";

	if (o->letter != 0)
		(void)snprintf(letter, sizeof(letter), "-%c, ", o->letter);
	(void)snprintf(out, size, "%s--%s%s%s", letter, o->name,
	    o->arg != NULL ? " " : "", o->arg != NULL ? o->arg : "");
}

/* Words, in lines of at most WIDTH columns, all but the first indented. */
static int print_words(const char *s, struct err *e)
{
	int column = TEXT_COLUMN;
	int rc = 0;

	while (*s != '\0' && rc == 0) {
		int n = (int)strcspn(s, " ");
		bool fits = column == TEXT_COLUMN || column + 1 + n <= WIDTH;
		bool first = column == TEXT_COLUMN;

		if (fits)
			rc = output_text(e, "%s%.*s", first ? "" : " ", n, s);
		else
			rc = output_text(e, "\n%*s%.*s", TEXT_COLUMN, "", n, s);
		column = (fits ? column + !first : TEXT_COLUMN) + n;
		s += n;
		s += strspn(s, " ");
	}
	return rc < 0 ? rc : output_text(e, "\n");
}

static int print_options(const char *title,
    const struct command_option *options, size_t n, struct err *e)
{
	int rc = 0;

	if (n == 0)
		return 0;
	rc = output_text(e, "\n%s:\n", title);
	for (size_t i = 0; i < n && rc == 0; i++) {
		char left[64];

		option_left(&options[i], left, sizeof(left));
		rc = output_text(e, "  %s", left);
		/* One that is too long has a line of its own. */
		if (rc == 0 && strlen(left) + 4 > TEXT_COLUMN)
			rc = output_text(e, "\n%*s", TEXT_COLUMN, "");
		else if (rc == 0)
			rc = output_text(
			    e, "%*s", TEXT_COLUMN - 2 - (int)strlen(left), "");
		if (rc == 0)
			rc = print_words(options[i].help, e);
	}
	return rc;
}

static int print_overview(struct err *e)
{
	int rc = output_text(e,
	    "usage: cairn [GLOBAL OPTIONS] COMMAND [ARGUMENTS]\n\n"
	    "cairn keeps backups in a deduplicating datastore and collects "
	    "its garbage.\n\ncommands:\n");

	for (size_t i = 0; i < commands_n && rc == 0; i++)
		rc = output_text(
		    e, "  %-10s  %s\n", commands[i].name, commands[i].summary);
	if (rc == 0)
		rc = print_options(
		    "global options", command_globals, command_globals_n, e);
	if (rc == 0)
		rc = output_text(e,
		    "\n'cairn help COMMAND' explains one command, 'cairn help "
		    "exit-codes' the exit codes.\n");
	return rc;
}

/* As exit.h, README and cairn(1) have it. */
int command_print_exit_codes(struct err *e)
{
	return output_text(e,
	    "exit codes, the same for every command:\n"
	    "  0         done\n"
	    "  1         failed; nothing is lost, and nothing half-made is "
	    "visible;\n"
	    "            also: gc refused to sweep\n"
	    "  2         wrong usage, or a mistake in the config file\n"
	    "  3         done, but not whole: a source was unreadable or "
	    "changed while it\n"
	    "            was read, a target existed, restore or export of a "
	    "tree left out what\n"
	    "            is damaged, gc found referenced chunks missing or "
	    "left a prefix unswept\n"
	    "  4         damage: a command that looks met it (verify, inspect, "
	    "list, ls, find,\n"
	    "            du, status, prune), or the one thing that was asked "
	    "for is damaged\n"
	    "            (restore or cat of a stream or file, a catalog, a "
	    "manifest)\n"
	    "  75        busy: a lock is held, or was lost; try again later\n"
	    "  129, 130, 143\n"
	    "            stopped by SIGHUP, SIGINT, SIGTERM\n"
	    "  141       who read standard output went away; no message\n");
}

/* Between the options and the arguments: those that do not fit into the
 * line stand on one of their own. */
static const char *usage_gap(const struct command *c)
{
	static const char begin[] = "usage: cairn [GLOBAL OPTIONS]  [OPTIONS] ";

	if (c->args[0] == '\0')
		return "";
	return sizeof(begin) - 1 + strlen(c->name) + strlen(c->args) > WIDTH
	    ? "\n       "
	    : " ";
}

int command_print_help(const struct command *command, struct err *e)
{
	int rc = 0;

	if (command == NULL)
		return print_overview(e);
	rc = output_text(e, "usage: cairn [GLOBAL OPTIONS] %s%s%s%s\n\n%s\n",
	    command->name, command->options_n > 0 ? " [OPTIONS]" : "",
	    usage_gap(command), command->args, command->summary);
	if (rc == 0 && command->help[0] != '\0')
		rc = output_text(e, "\n%s\n", command->help);
	if (rc == 0)
		rc = print_options(
		    "options", command->options, command->options_n, e);
	if (rc == 0)
		rc = print_options(
		    "global options", command_globals, command_globals_n, e);
	return rc;
}
