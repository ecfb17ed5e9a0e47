/* SPDX-License-Identifier: MIT */
/*
 * Parsing by a table, which is this test's own.
 */
#include "cli/command.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "cli/output.h"
#include "tests/support/scratch.h"
#include "tests/support/test.h"

static int run_nothing(
    struct app *app, const struct invocation *inv, struct err *e)
{
	(void)app;
	(void)inv;
	(void)e;
	return 0;
}

const struct command_option command_globals[] = {
	{ "datastore", 'd', "PATH", false, "where" },
	{ "quiet", 'q', NULL, false, "say less" },
	{ "json", 0, NULL, false, "for programs" },
};
const size_t command_globals_n = TEST_COUNT(command_globals);

static const struct command_option push_options[] = {
	{ "level", 'l', "N", false, "how hard" },
	{ "exclude", 'x', "PATTERN", true, "what not" },
	{ "dry-run", 'n', NULL, false, "do nothing" },
};

static const struct command_option none[1];

const struct command commands[] = {
	{ "push", "GROUP SOURCE...", "make a snapshot", "Of many sources.",
	    push_options, TEST_COUNT(push_options), 2, COMMAND_ARGS_ANY,
	    run_nothing, false },
	{ "list", "[GROUP]", "list snapshots", "", none, 0, 0, 1, run_nothing,
	    false },
	{ "version", "", "print the version", "", none, 0, 0, 0, run_nothing,
	    false },
};
const size_t commands_n = TEST_COUNT(commands);

/* Words of a command line, one string, separated by '|'. */
struct line {
	char *memory;
	char *argv[32];
	int argc;
};

static void split(struct line *l, const char *text)
{
	static char program[] = "cairn";
	char *p = NULL;

	l->memory = strdup(text);
	assert_non_null(l->memory);
	l->argv[0] = program;
	l->argc = 1;
	for (p = l->memory; p != NULL;) {
		char *bar = strchr(p, '|');

		if (bar != NULL)
			*bar++ = '\0';
		assert_true((size_t)l->argc < TEST_COUNT(l->argv));
		l->argv[l->argc++] = p;
		p = bar;
	}
}

/* What was understood, one string: "push A B; level=3 dry-run". */
static void describe(const struct invocation *inv, char *out, size_t size)
{
	size_t n = (size_t)snprintf(out, size, "%s%s",
	    inv->command != NULL ? inv->command->name : "-",
	    inv->help ? "?" : "");

	for (size_t i = 0; i < inv->args_n; i++)
		n += (size_t)snprintf(out + n, size - n, " %s", inv->args[i]);
	n += (size_t)snprintf(out + n, size - n, ";");
	for (size_t i = 0; i < inv->values_n; i++) {
		const char *value = inv->values[i].value;

		n += (size_t)snprintf(out + n, size - n, " %s%s%s",
		    inv->values[i].option->name, value != NULL ? "=" : "",
		    value != NULL ? value : "");
	}
}

static void understands(void **state)
{
	static const char *const cases[][2] = {
		{ "version", "version;" },
		{ "list", "list;" },
		{ "list|host/a", "list host/a;" },
		{ "push|g|a|b|c", "push g a b c;" },
		/* Global options, before and behind. */
		{ "-d|/s|list", "list; datastore=/s" },
		{ "list|-d|/s", "list; datastore=/s" },
		{ "-d/s|list", "list; datastore=/s" },
		{ "--datastore|/s|list", "list; datastore=/s" },
		{ "--datastore=/s|list", "list; datastore=/s" },
		{ "list|--datastore=/s|g", "list g; datastore=/s" },
		{ "--datastore=|list", "list; datastore=" },
		{ "--datastore=a=b|list", "list; datastore=a=b" },
		{ "-d|-q|list", "list; datastore=-q" },
		{ "--datastore|--json|list", "list; datastore=--json" },
		{ "-q|list|--json", "list; quiet json" },
		/* Of the command, anywhere behind it. */
		{ "push|-l|3|g|a", "push g a; level=3" },
		{ "push|g|-l3|a", "push g a; level=3" },
		{ "push|g|a|--level|3", "push g a; level=3" },
		{ "push|g|a|-nq", "push g a; dry-run quiet" },
		{ "push|g|a|-nl3", "push g a; dry-run level=3" },
		{ "push|g|a|-nl|3", "push g a; dry-run level=3" },
		{ "push|g|a|-ln", "push g a; level=n" },
		{ "push|-x|a|-xb|--exclude=c|g|a",
		    "push g a; exclude=a exclude=b exclude=c" },
		/* The end of options, and what is none. */
		{ "push|--|-l|--json", "push -l --json;" },
		{ "push|g|--|--", "push g --;" },
		{ "--|push|g|a", "push g a;" },
		{ "push|g|-", "push g -;" },
		{ "push|g||", "push g  ;" },
		/* Help needs no arguments, and nothing is run. */
		{ "-h", "-?;" },
		{ "--help", "-?;" },
		{ "push|--help", "push?;" },
		{ "push|-nh", "push?; dry-run" },
		{ "-q", "-; quiet" },
		{ "push|--|-h|a", "push -h a;" },
	};

	(void)state;
	for (size_t i = 0; i < TEST_COUNT(cases); i++) {
		struct invocation inv;
		struct err e = ERR_INIT;
		struct line l;
		char got[256];

		split(&l, cases[i][0]);
		assert_ok(invocation_parse(l.argc, l.argv, &inv, &e), &e);
		describe(&inv, got, sizeof(got));
		assert_string_equal(got, cases[i][1]);
		invocation_release(&inv);
		invocation_release(&inv);
		free(l.memory);
	}
}

static void refuses(void **state)
{
	static const char *const cases[][2] = {
		{ "pusch", "no command 'pusch'; did you mean 'push'?" },
		{ "posh", "no command 'posh'; did you mean 'push'?" },
		{ "lst", "no command 'lst'; did you mean 'list'?" },
		{ "versions",
		    "no command 'versions'; did you mean "
		    "'version'?" },
		{ "restore", "no command 'restore'; 'cairn help' lists them" },
		{ "", "no command ''; " },
		{ "pu\nsh", "no command 'pu\\nsh'; did you mean 'push'?" },
		{ "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
		    "no command 'aaaa" },
		{ "--nope", "no option '--nope'; 'cairn help' lists them" },
		{ "-z", "no option '-z'; 'cairn help' lists them" },
		{ "list|--nope=3",
		    "'list' has no option '--nope=3'; 'cairn "
		    "help list' lists them" },
		{ "list|-qz", "'list' has no option '-qz'; " },
		/* Of another command, or of none yet. */
		{ "list|--level=3", "'list' has no option '--level=3'" },
		{ "--level=3|push|g|a", "no option '--level=3'" },
		{ "push|--lev|3|g|a", "no option '--lev'" },
		{ "push|--levels|3|g|a", "no option '--levels'" },
		{ "push|--=3|g|a", "no option '--=3'" },
		{ "push|g|a|--helpless", "no option '--helpless'" },
		{ "push|g|a|--help=me", "no option '--help=me'" },
		{ "list|--datastore",
		    "option '--datastore' needs a value: "
		    "PATH" },
		{ "list|-d", "option '-d' needs a value: PATH" },
		{ "push|g|a|-nl", "option '-l' needs a value: N" },
		{ "list|--json=yes", "option '--json' takes no value" },
		{ "list|--json=", "option '--json' takes no value" },
		/* Twice is a mistake. */
		{ "-d|a|list|-d|b", "option '--datastore' is given twice" },
		{ "list|-qq", "option '--quiet' is given twice" },
		{ "push|-l1|--level=1|g|a", "option '--level' is given twice" },
		/* Too few and too many. */
		{ "push",
		    "missing argument; want 'cairn push GROUP "
		    "SOURCE...'" },
		{ "push|g", "missing argument; want 'cairn push " },
		{ "list|a|b",
		    "unexpected argument 'b'; want 'cairn list "
		    "[GROUP]'" },
		{ "version|1\t2",
		    "unexpected argument '1\\t2'; want 'cairn "
		    "version'" },
	};

	(void)state;
	for (size_t i = 0; i < TEST_COUNT(cases); i++) {
		struct invocation inv;
		struct err e = ERR_INIT;
		struct line l;

		split(&l, cases[i][0]);
		assert_err(invocation_parse(l.argc, l.argv, &inv, &e), &e,
		    ERR_INVALID, cases[i][1]);
		free(l.memory);
	}
}

static void knows_values(void **state)
{
	struct invocation inv;
	struct err e = ERR_INIT;
	struct line l;

	(void)state;
	split(&l, "push|-x|a|g|b|--exclude|c|--json");
	assert_ok(invocation_parse(l.argc, l.argv, &inv, &e), &e);
	assert_true(invocation_has(&inv, "json"));
	assert_null(invocation_value(&inv, "json"));
	assert_false(invocation_has(&inv, "quiet"));
	assert_null(invocation_value(&inv, "datastore"));
	/* The last one. */
	assert_string_equal(invocation_value(&inv, "exclude"), "c");
	assert_ptr_equal(inv.command, command_find("push"));
	assert_null(command_find("pus"));
	assert_null(command_find("pushy"));
	invocation_release(&inv);
	free(l.memory);
}

/* A program may be run without even its own name. */
static void takes_an_empty_command_line(void **state)
{
	struct invocation inv;
	struct err e = ERR_INIT;
	char *argv[] = { NULL };

	(void)state;
	assert_ok(invocation_parse(0, argv, &inv, &e), &e);
	assert_null(inv.command);
	assert_false(inv.help);
	invocation_release(&inv);
}

/* What the help of a command prints, into the scratch file "help". */
static void print_help(struct scratch *s, const struct command *c)
{
	struct err e = ERR_INIT;
	int out = dup(STDOUT_FILENO);
	int fd = openat(
	    s->dir, "help", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	int rc = 0;

	assert_true(out >= 0 && fd >= 0);
	(void)fflush(stdout);
	assert_true(dup2(fd, STDOUT_FILENO) >= 0);
	rc = command_print_help(c, &e);
	if (rc == 0)
		rc = output_flush(&e);
	assert_true(dup2(out, STDOUT_FILENO) >= 0);
	(void)close(out);
	(void)close(fd);
	assert_ok(rc, &e);
}

static void explains_a_command(void **state)
{
	struct scratch *s = *state;
	char *got = NULL;

	print_help(s, command_find("push"));
	got = tmpdir_get(s->dir, "help", NULL);
	assert_non_null(got);
	assert_ptr_equal(strstr(got,
			     "usage: cairn [GLOBAL OPTIONS] push [OPTIONS] "
			     "GROUP SOURCE...\n\nmake a snapshot\n\nOf many "
			     "sources.\n\noptions:\n"),
	    got);
	assert_non_null(strstr(got, "-l, --level N"));
	assert_non_null(strstr(got, "-n, --dry-run "));
	assert_non_null(strstr(got, "\nglobal options:\n"));
	assert_non_null(strstr(got, "    --json "));
	free(got);
	print_help(s, command_find("version"));
	got = tmpdir_get(s->dir, "help", NULL);
	assert_non_null(got);
	assert_ptr_equal(
	    strstr(got,
		"usage: cairn [GLOBAL OPTIONS] version\n\nprint the "
		"version\n\nglobal options:\n"),
	    got);
	free(got);
}

static void explains_itself(void **state)
{
	struct scratch *s = *state;
	char *got = NULL;

	print_help(s, NULL);
	got = tmpdir_get(s->dir, "help", NULL);
	assert_non_null(got);
	for (size_t i = 0; i < commands_n; i++) {
		assert_non_null(strstr(got, commands[i].name));
		assert_non_null(strstr(got, commands[i].summary));
	}
	assert_non_null(strstr(got, "-q, --quiet"));
	assert_null(strstr(got, "--level"));
	free(got);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(understands),
		cmocka_unit_test(refuses),
		cmocka_unit_test(knows_values),
		cmocka_unit_test(takes_an_empty_command_line),
		SCRATCH_TEST(explains_a_command),
		SCRATCH_TEST(explains_itself),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
