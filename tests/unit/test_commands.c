/* SPDX-License-Identifier: MIT */
/*
 * The table of the program's commands: what parsing and help take for granted.
 */
#include <ctype.h>
#include <stdbool.h>

#include "cli/command.h"
#include "tests/support/test.h"

#define WIDTH 79

/* One line of plain text, no sentence. */
static void check_line(const char *s)
{
	size_t n = strlen(s);

	assert_true(n > 0);
	assert_null(strchr(s, '\n'));
	assert_false(
	    isupper((unsigned char)s[0]) && islower((unsigned char)s[1]));
	assert_true(s[n - 1] != '.');
}

static void check_option(const struct command_option *o)
{
	assert_true(strlen(o->name) >= 2);
	assert_true(o->name[0] != '-');
	assert_null(strpbrk(o->name, "= \t"));
	assert_string_not_equal(o->name, "help");
	assert_true(o->letter != 'h' && o->letter != '-');
	assert_true(o->arg == NULL || o->arg[0] != '\0');
	/* Only what takes a value can be given again. */
	assert_true(!o->repeats || o->arg != NULL);
	check_line(o->help);
}

static bool clash(
    const struct command_option *a, const struct command_option *b)
{
	return strcmp(a->name, b->name) == 0 ||
	    (a->letter != 0 && a->letter == b->letter);
}

static void options_are_told_apart(void **state)
{
	(void)state;
	for (size_t i = 0; i < command_globals_n; i++) {
		check_option(&command_globals[i]);
		for (size_t j = 0; j < i; j++)
			assert_false(
			    clash(&command_globals[i], &command_globals[j]));
	}
	for (size_t c = 0; c < commands_n; c++) {
		const struct command *cmd = &commands[c];

		for (size_t i = 0; i < cmd->options_n; i++) {
			const struct command_option *o = &cmd->options[i];

			check_option(o);
			for (size_t j = 0; j < i; j++)
				assert_false(clash(o, &cmd->options[j]));
			for (size_t j = 0; j < command_globals_n; j++)
				assert_false(clash(o, &command_globals[j]));
		}
	}
}

static void commands_are_whole(void **state)
{
	(void)state;
	for (size_t i = 0; i < commands_n; i++) {
		const struct command *c = &commands[i];
		const char *line = c->help;

		assert_ptr_equal(command_find(c->name), c);
		assert_non_null(c->run);
		assert_true(c->args_min <= c->args_max);
		assert_int_equal(c->args[0] == '\0', c->args_max == 0);
		/* What must be there stands first and not in brackets. */
		assert_int_equal(
		    c->args_min == 0, c->args[0] == '\0' || c->args[0] == '[');
		assert_int_equal(c->args_max == COMMAND_ARGS_ANY,
		    strstr(c->args, "...") != NULL);
		check_line(c->summary);
		while (*line != '\0') {
			size_t n = strcspn(line, "\n");

			assert_true(n <= WIDTH);
			line += n + (line[n] == '\n');
		}
	}
}

static void what_is_promised_is_there(void **state)
{
	static const char *const names[] = { "init", "push", "list", "groups",
		"namespaces", "files", "cat", "restore", "forget", "prune",
		"protect", "unprotect", "note", "gc", "verify", "status",
		"inspect", "version", "help" };

	(void)state;
	for (size_t i = 0; i < TEST_COUNT(names); i++)
		assert_non_null(command_find(names[i]));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(options_are_told_apart),
		cmocka_unit_test(commands_are_whole),
		cmocka_unit_test(what_is_promised_is_there),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
