/* SPDX-License-Identifier: MIT */
#include "cli/command.h"

#include <assert.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "datastore/base/nearest.h"
#include "datastore/base/text.h"

#define SHOWN 128 /* of what was typed, in messages */

const struct command *command_find(const char *name)
{
	for (size_t i = 0; i < commands_n; i++)
		if (strcmp(commands[i].name, name) == 0)
			return &commands[i];
	return NULL;
}

int command_unknown(const char *word, struct err *e)
{
	struct nearest n;
	char shown[SHOWN];

	nearest_init(&n, word);
	for (size_t i = 0; i < commands_n; i++)
		nearest_try(&n, commands[i].name);
	text_name(shown, sizeof(shown), word);
	if (nearest_best(&n) != NULL)
		return err_set(e, ERR_INVALID,
		    "no command '%s'; did you mean '%s'?", shown,
		    nearest_best(&n));
	return err_set(
	    e, ERR_INVALID, "no command '%s'; 'cairn help' lists them", shown);
}

static const struct command_option *option_in(
    const struct command_option *options, size_t n, const char *name,
    size_t name_n, char letter)
{
	for (size_t i = 0; i < n; i++) {
		if (letter != 0 ? options[i].letter == letter
				: strlen(options[i].name) == name_n &&
			    strncmp(options[i].name, name, name_n) == 0)
			return &options[i];
	}
	return NULL;
}

static const struct command_option *option_find(
    const struct invocation *inv, const char *name, size_t name_n, char letter)
{
	const struct command_option *o =
	    option_in(command_globals, command_globals_n, name, name_n, letter);

	if (o == NULL && inv->command != NULL)
		o = option_in(inv->command->options, inv->command->options_n,
		    name, name_n, letter);
	return o;
}

/* Which long one may be meant; "" in *n if none. */
static void nearest_option(
    const struct invocation *inv, const char *name, struct nearest *n)
{
	nearest_init(n, name);
	for (size_t i = 0; i < command_globals_n; i++)
		nearest_try(n, command_globals[i].name);
	for (size_t i = 0; inv->command != NULL && i < inv->command->options_n;
	     i++)
		nearest_try(n, inv->command->options[i].name);
}

static int unknown_option(
    const struct invocation *inv, const char *word, struct err *e)
{
	char shown[SHOWN];
	char name[NEAREST_SIZE];
	struct nearest n;

	text_name(shown, sizeof(shown), word);
	/* Letters are too short to be like others. */
	(void)snprintf(name, sizeof(name), "%.*s", (int)strcspn(word, "="),
	    word[1] == '-' ? word + 2 : "");
	name[strcspn(name, "=")] = '\0';
	nearest_option(inv, name, &n);
	if (inv->command == NULL)
		(void)err_set(e, ERR_INVALID, "no option '%s'", shown);
	else
		(void)err_set(e, ERR_INVALID, "'%s' has no option '%s'",
		    inv->command->name, shown);
	if (nearest_best(&n) != NULL)
		err_suffix(e, "; did you mean '--%s'?", nearest_best(&n));
	else
		err_suffix(e, "; 'cairn help%s%s' lists them",
		    inv->command != NULL ? " " : "",
		    inv->command != NULL ? inv->command->name : "");
	return e->code;
}

/* Has it been given and does not repeat?  Twice is a mistake to be told. */
static int add_value(struct invocation *inv, const struct command_option *o,
    const char *value, struct err *e)
{
	if (!o->repeats && invocation_has(inv, o->name))
		return err_set(
		    e, ERR_INVALID, "option '--%s' is given twice", o->name);
	inv->values[inv->values_n].option = o;
	inv->values[inv->values_n].value = value;
	inv->values_n++;
	return 0;
}

static int parse_long(
    struct invocation *inv, int argc, char **argv, int *i, struct err *e)
{
	const char *name = argv[*i] + 2;
	const char *equals = strchr(name, '=');
	size_t n = equals != NULL ? (size_t)(equals - name) : strlen(name);
	const struct command_option *o = NULL;

	if (strcmp(name, "help") == 0) {
		inv->help = true;
		return 0;
	}
	/* As most programs have it; the command is the one that counts. */
	if (strcmp(name, "version") == 0 && inv->command == NULL &&
	    command_find(name) != NULL) {
		inv->command = command_find(name);
		return 0;
	}
	o = option_find(inv, name, n, 0);
	if (o == NULL)
		return unknown_option(inv, argv[*i], e);
	if (o->arg == NULL && equals != NULL)
		return err_set(
		    e, ERR_INVALID, "option '--%s' takes no value", o->name);
	if (o->arg == NULL)
		return add_value(inv, o, NULL, e);
	if (equals != NULL)
		return add_value(inv, o, equals + 1, e);
	if (*i + 1 >= argc)
		return err_set(e, ERR_INVALID,
		    "option '--%s' needs a value: %s", o->name, o->arg);
	return add_value(inv, o, argv[++*i], e);
}

static int parse_letters(
    struct invocation *inv, int argc, char **argv, int *i, struct err *e)
{
	const char *p = argv[*i] + 1;
	int rc = 0;

	for (; *p != '\0' && rc == 0; p++) {
		const struct command_option *o = NULL;

		if (*p == 'h') {
			inv->help = true;
			continue;
		}
		o = option_find(inv, "", 0, *p);
		if (o == NULL)
			return unknown_option(inv, argv[*i], e);
		if (o->arg == NULL) {
			rc = add_value(inv, o, NULL, e);
			continue;
		}
		if (p[1] != '\0')
			return add_value(inv, o, p + 1, e);
		if (*i + 1 >= argc)
			return err_set(e, ERR_INVALID,
			    "option '-%c' needs a value: %s", *p, o->arg);
		return add_value(inv, o, argv[++*i], e);
	}
	return rc;
}

static int check_args(const struct invocation *inv, struct err *e)
{
	const struct command *c = inv->command;

	if (inv->args_n < c->args_min)
		return err_set(e, ERR_INVALID,
		    "missing argument; want 'cairn %s %s'", c->name, c->args);
	if (inv->args_n > c->args_max) {
		char shown[SHOWN];

		text_name(shown, sizeof(shown), inv->args[c->args_max]);
		return err_set(e, ERR_INVALID,
		    "unexpected argument '%s'; want 'cairn %s%s%s'", shown,
		    c->name, c->args[0] != '\0' ? " " : "", c->args);
	}
	return 0;
}

static int parse_word(struct invocation *inv, const char *word, struct err *e)
{
	if (inv->command != NULL) {
		inv->args[inv->args_n++] = word;
		return 0;
	}
	inv->command = command_find(word);
	return inv->command != NULL ? 0 : command_unknown(word, e);
}

bool invocation_wants_json(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--") == 0)
			return false;
		if (strcmp(argv[i], "--json") == 0)
			return true;
	}
	return false;
}

int invocation_parse(
    int argc, char **argv, struct invocation *ret, struct err *e)
{
	struct invocation inv = { .command = NULL };
	size_t room = (size_t)(argc > 0 ? argc : 0) + 1;
	bool options_end = false;
	int rc = 0;

	inv.args = calloc(room, sizeof(*inv.args));
	/* "-vvq" is one word and several options. */
	for (int i = 1; i < argc; i++)
		room += strlen(argv[i]);
	inv.values = calloc(room, sizeof(*inv.values));
	if (inv.args == NULL || inv.values == NULL) {
		rc = err_nomem(e);
		goto out;
	}
	for (int i = 1; i < argc && rc == 0; i++) {
		if (options_end || argv[i][0] != '-' || argv[i][1] == '\0')
			rc = parse_word(&inv, argv[i], e);
		else if (strcmp(argv[i], "--") == 0)
			options_end = true;
		else if (argv[i][1] == '-')
			rc = parse_long(&inv, argc, argv, &i, e);
		else
			rc = parse_letters(&inv, argc, argv, &i, e);
	}
	if (rc == 0 && inv.command != NULL && !inv.help)
		rc = check_args(&inv, e);
out:
	if (rc < 0) {
		invocation_release(&inv);
		return rc;
	}
	*ret = inv;
	return 0;
}

void invocation_release(struct invocation *inv)
{
	free(inv->args);
	free(inv->values);
	inv->args = NULL;
	inv->values = NULL;
	inv->args_n = 0;
	inv->values_n = 0;
}

static const struct invocation_value *find_value(
    const struct invocation *inv, const char *option)
{
	for (size_t i = inv->values_n; i-- > 0;)
		if (strcmp(inv->values[i].option->name, option) == 0)
			return &inv->values[i];
	return NULL;
}

bool invocation_has(const struct invocation *inv, const char *option)
{
	return find_value(inv, option) != NULL;
}

const char *invocation_value(const struct invocation *inv, const char *option)
{
	const struct invocation_value *v = find_value(inv, option);

	return v != NULL ? v->value : NULL;
}
