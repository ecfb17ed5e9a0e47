/* SPDX-License-Identifier: MIT */
/*
 * command: the table of commands and options, and parsing by it.
 *
 * Everything a person can type is in one table (commands.c): parsing, --help,
 * `cairn help` and later the man pages' test and the shells' completion are
 * all made from it.  Options may stand anywhere behind the program's name;
 * "--" ends them; "-" is an argument.  Long ones take their value as
 * --name=value or --name value, short ones as -n value or -nvalue.
 */
#ifndef CAIRN_CLI_COMMAND_H
#define CAIRN_CLI_COMMAND_H

#include <stdbool.h>
#include <stddef.h>

#include "datastore/base/err.h"

struct app;
struct invocation;

struct command_option {
	const char *name; /* "chunk-size" */
	char letter;      /* 'd', or 0 */
	const char *arg;  /* "SIZE" of the value; NULL: a flag */
	bool repeats;     /* may be given more than once */
	const char *help; /* one line */
};

struct command {
	const char *name;
	const char *args;    /* "GROUP ARCHIVE=SOURCE...", "" */
	const char *summary; /* one line, for the list of commands */
	const char *help;    /* paragraphs, wrapped by hand at 76 columns */
	const struct command_option *options;
	size_t options_n;
	size_t args_min;
	size_t args_max;
	/* The exit code (exit.h), or a negative error with *e filled. */
	int (*run)(
	    struct app *app, const struct invocation *inv, struct err *e);
	/* What it reads is the datastore's: ERR_CORRUPT is damage of that, and
	 * ends it with EXIT_DAMAGE.  Of push it may be of a source. */
	bool finds_damage;
};

#define COMMAND_ARGS_ANY ((size_t)-1)

extern const struct command commands[];
extern const size_t commands_n;
extern const struct command_option command_globals[];
extern const size_t command_globals_n;

const struct command *command_find(const char *name); /* or NULL */
/* ERR_INVALID: there is no such command; which one may be meant. */
int command_unknown(const char *word, struct err *e);

/* What was typed. Strings are borrowed from argv. */
struct invocation {
	const struct command *command; /* NULL: none was named */
	const char **args;
	size_t args_n;
	struct invocation_value {
		const struct command_option *option;
		const char *value; /* NULL for a flag */
	} * values;
	size_t values_n;
	bool help; /* --help or -h was given */
};

/* Is --json among the words?  For errors of what can not be parsed. */
bool invocation_wants_json(int argc, char **argv);

/* ERR_INVALID: what is wrong and what would be right. */
int invocation_parse(
    int argc, char **argv, struct invocation *ret, struct err *e);
void invocation_release(struct invocation *inv);

/* By the option's name; the name must be in the table. */
bool invocation_has(const struct invocation *inv, const char *option);
/* The last value given, or NULL. */
const char *invocation_value(const struct invocation *inv, const char *option);

/* Help of one command, or the overview (command NULL), to stdout. */
int command_print_help(const struct command *command, struct err *e);
/* The table of exit codes. */
int command_print_exit_codes(struct err *e);

#endif
