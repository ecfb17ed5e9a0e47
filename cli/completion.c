/* SPDX-License-Identifier: MIT */
#include "cli/completion.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "cli/command.h"
#include "cli/output.h"
#include "datastore/base/text.h"
#include "datastore/config.h"

/* What one argument of a command, or the value of an option, is. */
enum kind {
	KIND_ANY, /* nothing can be offered */
	KIND_FILE,
	KIND_STORE, /* a name of the config file, or a directory */
	KIND_SNAPSHOT,
	KIND_GROUP,
	KIND_ARCHIVE, /* of the snapshot before it */
	KIND_COMMAND,
	KIND_WORDS, /* the word itself has them: never|always */
};

#define WORDS_SIZE 256
/* sed's: the name of [datastore "NAME"]. */
#define HEADING                                   \
	"s/^[[:blank:]]*\\[datastore[[:blank:]]*" \
	"\"\\([^\"]*\\)\".*/\\1/p"

/* Its name in the scripts. */
static const char *const kind_names[] = {
	[KIND_ANY] = "any",
	[KIND_FILE] = "file",
	[KIND_STORE] = "store",
	[KIND_SNAPSHOT] = "snapshot",
	[KIND_GROUP] = "group",
	[KIND_ARCHIVE] = "archive",
	[KIND_COMMAND] = "command",
	[KIND_WORDS] = "words",
};

static bool contains(const char *word, const char *part)
{
	return strstr(word, part) != NULL;
}

/* "never|always": lower case only, more than one, or asked for with alone. */
static bool are_words(const char *word, bool alone)
{
	if (!alone && strchr(word, '|') == NULL)
		return false;
	for (const char *s = word; *s != '\0'; s++)
		if (!islower((unsigned char)*s) && *s != '|' && *s != '-')
			return false;
	return true;
}

static enum kind kind_of(const char *word)
{
	if (contains(word, "SNAPSHOT") || strcmp(word, "A") == 0 ||
	    strcmp(word, "B") == 0)
		return KIND_SNAPSHOT;
	if (contains(word, "GROUP"))
		return KIND_GROUP;
	if (strcmp(word, "ARCHIVE") == 0)
		return KIND_ARCHIVE;
	if (strcmp(word, "COMMAND") == 0)
		return KIND_COMMAND;
	if (strcmp(word, "PATH|NAME") == 0)
		return KIND_STORE;
	if (contains(word, "FILE") || contains(word, "SOURCE") ||
	    strcmp(word, "TARGET") == 0 || strcmp(word, "DIR") == 0)
		return KIND_FILE;
	return KIND_ANY;
}

/* Words with blanks for bars: "never always". */
static void split_words(const char *word, char out[WORDS_SIZE])
{
	(void)snprintf(out, WORDS_SIZE, "%s", word);
	for (char *s = out; *s != '\0'; s++)
		if (*s == '|')
			*s = ' ';
}

/*
 * Argument number i of a command: its word without brackets and dots.  The
 * last one stands for those behind it if it ends in dots.  False: there is no
 * such argument.
 */
static bool nth_argument(const struct command *c, size_t nth, char *out,
    size_t size, bool *ret_repeats)
{
	const char *s = c->args;
	bool repeats = false;

	for (size_t i = 0; *s != '\0'; i++) {
		size_t n = 0;

		s += strspn(s, " []");
		n = strcspn(s, " []");
		if (n == 0)
			break;
		repeats = n > 3 && strncmp(s + n - 3, "...", 3) == 0;
		if (i == nth) {
			(void)snprintf(
			    out, size, "%.*s", (int)(repeats ? n - 3 : n), s);
			*ret_repeats = repeats;
			return true;
		}
		s += n;
	}
	return false;
}

/*
 * The answer of a shell function to "what comes here": a kind, and the words
 * of KIND_WORDS.
 */
static int print_answer(const char *word, bool alone, struct err *e)
{
	char words[WORDS_SIZE];

	if (!are_words(word, alone))
		return output_text(
		    e, "echo %s ;;\n", kind_names[kind_of(word)]);
	split_words(word, words);
	return output_text(e, "echo 'words %s' ;;\n", words);
}

/* case COMMAND:OPTION of those that take a value. */
static int print_values(const char *command,
    const struct command_option *options, size_t n, struct err *e)
{
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < n; i++) {
		const struct command_option *o = &options[i];

		if (o->arg == NULL)
			continue;
		rc = output_text(e, "\t%s:--%s", command, o->name);
		if (rc == 0 && o->letter != 0)
			rc = output_text(e, "|%s:-%c", command, o->letter);
		if (rc == 0)
			rc = output_text(e, ") ");
		if (rc == 0)
			rc = print_answer(o->arg, false, e);
	}
	return rc;
}

static int print_arguments(const struct command *c, struct err *e)
{
	char word[WORDS_SIZE];
	bool repeats = false;
	int rc = 0;

	for (size_t i = 0;
	     rc == 0 && nth_argument(c, i, word, sizeof(word), &repeats); i++) {
		if (repeats)
			rc = output_text(e, "\t%s:*) ", c->name);
		else
			rc = output_text(e, "\t%s:%zu) ", c->name, i);
		if (rc == 0)
			rc = print_answer(word, true, e);
	}
	return rc;
}

static int print_option_names(
    const struct command_option *options, size_t n, struct err *e)
{
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < n; i++)
		rc = output_text(e, " --%s", options[i].name);
	return rc;
}

/* The functions that bash and zsh share: pure look-ups in the table. */
static int print_tables(struct err *e)
{
	int rc = output_text(e, "_cairn_commands() {\n\techo '");

	for (size_t i = 0; rc == 0 && i < commands_n; i++)
		rc = output_text(e, "%s%s", i > 0 ? " " : "", commands[i].name);
	if (rc == 0)
		rc = output_text(e, "'\n}\n_cairn_options() {\n\tcase $1 in\n");
	for (size_t i = 0; rc == 0 && i < commands_n; i++) {
		if (commands[i].options_n == 0)
			continue;
		rc = output_text(e, "\t%s) echo '", commands[i].name);
		if (rc == 0)
			rc = print_option_names(
			    commands[i].options, commands[i].options_n, e);
		if (rc == 0)
			rc = output_text(e, "' ;;\n");
	}
	if (rc == 0)
		rc = output_text(e, "\tesac\n\techo '");
	if (rc == 0)
		rc = print_option_names(command_globals, command_globals_n, e);
	if (rc == 0)
		rc = output_text(
		    e, " --help'\n}\n_cairn_value() {\n\tcase $1:$2 in\n");
	for (size_t i = 0; rc == 0 && i < commands_n; i++)
		rc = print_values(commands[i].name, commands[i].options,
		    commands[i].options_n, e);
	if (rc == 0)
		rc = print_values("*", command_globals, command_globals_n, e);
	if (rc == 0)
		rc = output_text(
		    e, "\tesac\n}\n_cairn_argument() {\n\tcase $1:$2 in\n");
	for (size_t i = 0; rc == 0 && i < commands_n; i++)
		rc = print_arguments(&commands[i], e);
	if (rc == 0)
		rc = output_text(e, "\tesac\n}\n");
	return rc;
}

/*
 * Both shells split the line their own way (bash at colons, which times have);
 * it is split anew at blanks here.  Sets kind, cmd, cur, and snap: the first
 * argument, which is a snapshot where an archive comes behind.
 */
static const char walk_words[] =
    "_cairn_look() {\n"
    "\tlocal i word nth=0 last=$#\n"
    "\tcmd='' kind='' snap='' where=()\n"
    "\tlocal -a all=(\"$@\")\n"
    "\tlocal -i first=${_cairn_first:-0}\n"
    "\tcur=${all[first + last - 1]}\n"
    "\tfor ((i = 1; i < last - 1; i++)); do\n"
    "\t\tword=${all[first + i]}\n"
    "\t\tcase $word in\n"
    "\t\t--*=*) case $word in\n"
    "\t\t\t--datastore=*|--ns=*|--config=*) where+=(\"$word\") ;;\n"
    "\t\t\tesac ;;\n"
    "\t\t-*)\n"
    "\t\t\tkind=$(_cairn_value \"$cmd\" \"$word\")\n"
    "\t\t\tif [ -n \"$kind\" ]; then\n"
    "\t\t\t\tif ((i == last - 2)); then return; fi\n"
    "\t\t\t\ti=$((i + 1))\n"
    "\t\t\t\tcase $word in\n"
    "\t\t\t\t-d|--datastore|--ns|--config) where+=(\"$word\" "
    "\"${all[first + i]}\") ;;\n"
    "\t\t\t\tesac\n"
    "\t\t\t\tkind=''\n"
    "\t\t\tfi ;;\n"
    "\t\t*) if [ -z \"$cmd\" ]; then cmd=$word\n"
    "\t\t\telse nth=$((nth + 1)); snap=${snap:-$word}; fi ;;\n"
    "\t\tesac\n"
    "\tdone\n"
    "\tcase $cur in\n"
    "\t--*=*) kind=$(_cairn_value \"$cmd\" \"${cur%%=*}\"); "
    "cur=${cur#*=} ;;\n"
    "\t-*) kind=\"words $(_cairn_options \"$cmd\")\" ;;\n"
    "\t*) if [ -z \"$cmd\" ]; then kind=command; else "
    "kind=$(_cairn_argument \"$cmd\" \"$nth\"); fi ;;\n"
    "\tesac\n"
    "}\n"
    /* No command prints them: their headings are read. */
    "_cairn_stores() {\n"
    "\tlocal word last='' conf=${CAIRN_CONFIG:-" CONFIG_PATH_DEFAULT "}\n"
    "\tfor word in \"${where[@]}\"; do\n"
    "\t\tcase $word in --config=*) conf=${word#*=} ;; esac\n"
    "\t\tif [ \"$last\" = --config ]; then conf=$word; fi\n"
    "\t\tlast=$word\n"
    "\tdone\n"
    "\tsed -n '" HEADING "' \"$conf\" 2>/dev/null\n"
    "}\n"
    /* A datastore that does not answer offers nothing, and says nothing. */
    "_cairn_names() {\n"
    "\tcase $kind in\n"
    "\tcommand) _cairn_commands ;;\n"
    "\tstore) _cairn_stores ;;\n"
    "\twords*) echo \"${kind#words}\" ;;\n"
    "\tsnapshot) cairn -q \"${where[@]}\" list </dev/null 2>/dev/null |\n"
    "\t\tsed -n '2,$s/^\\([^ ]*\\).*/\\1/p'\n"
    "\t\tcairn -q \"${where[@]}\" groups </dev/null 2>/dev/null |\n"
    "\t\t\tsed -n '2,$s/^\\([^ ]*\\).*/\\1\\/latest/p' ;;\n"
    "\tarchive) cairn -q \"${where[@]}\" files \"$snap\" </dev/null "
    "2>/dev/null |\n"
    "\t\tsed -n '/^[^ ]*\\.catalog /d; /^[^ ]*\\.changes /d; "
    "2,$s/^\\([^ ]*\\).*/\\1/p' ;;\n"
    "\tgroup) cairn -q \"${where[@]}\" groups </dev/null 2>/dev/null |\n"
    "\t\tsed -n '2,$s/^\\([^ ]*\\).*/\\1/p' ;;\n"
    "\tesac\n"
    "}\n";

static int print_bash(struct err *e)
{
	int rc = output_text(e,
	    "# bash completion for cairn; made by 'cairn completion bash'.\n");

	if (rc == 0)
		rc = print_tables(e);
	if (rc == 0)
		rc = output_text(e, "%s", walk_words);
	if (rc < 0)
		return rc;
	return output_text(e,
	    "_cairn() {\n"
	    "\tlocal cmd kind cur cut snap line=${COMP_LINE:0:COMP_POINT}\n"
	    "\tlocal -a words where\n"
	    "\tlocal IFS=$' \\t\\n'; read -ra words <<<\"$line\"\n"
	    "\tcase $line in *[[:space:]]) words+=('') ;; esac\n"
	    "\t_cairn_look \"${words[@]}\"\n"
	    "\tCOMPREPLY=()\n"
	    "\tif [ \"$kind\" = file ]; then\n"
	    "\t\tcompopt -o default 2>/dev/null\n"
	    "\t\treturn\n"
	    "\tfi\n"
	    "\tif [ \"$kind\" = store ]; then compopt -o plusdirs 2>/dev/null; "
	    "fi\n"
	    "\tmapfile -t COMPREPLY < <(compgen -W \"$(_cairn_names)\" -- "
	    "\"$cur\")\n"
	    /* Readline replaces only what follows the last of these. */
	    "\tcase $COMP_WORDBREAKS in\n"
	    "\t*:*) cut=${cur%%\"${cur##*:}\"}\n"
	    "\t\tCOMPREPLY=(\"${COMPREPLY[@]#\"$cut\"}\") ;;\n"
	    "\tesac\n"
	    "}\n"
	    "complete -F _cairn cairn\n");
}

static int print_zsh(struct err *e)
{
	int rc = output_text(e,
	    "#compdef cairn\n"
	    "# zsh completion for cairn; made by 'cairn completion zsh'.\n");

	if (rc == 0)
		rc = print_tables(e);
	if (rc == 0)
		rc = output_text(e, "%s", walk_words);
	if (rc < 0)
		return rc;
	return output_text(e,
	    "_cairn() {\n"
	    "\tlocal cmd kind cur snap\n"
	    "\tlocal -a where\n"
	    /* Arrays count from 1 here. */
	    "\tlocal _cairn_first=1\n"
	    "\t_cairn_look \"${(@)words[1,CURRENT]}\"\n"
	    "\tcase $kind in\n"
	    "\tfile) _files ;;\n"
	    "\tstore) compadd -- ${=\"$(_cairn_names)\"}; _files -/ ;;\n"
	    "\t?*) compadd -- ${=\"$(_cairn_names)\"} ;;\n"
	    "\tesac\n"
	    "}\n"
	    "if [ \"$funcstack[1]\" = _cairn ]; then _cairn \"$@\"; else "
	    "compdef _cairn cairn; fi\n");
}

/* In single quotes of fish, where only these two mean something. */
static int print_quoted(const char *s, struct err *e)
{
	int rc = output_text(e, "'");

	for (; rc == 0 && *s != '\0'; s++)
		rc = output_text(
		    e, "%s%c", *s == '\'' || *s == '\\' ? "\\" : "", *s);
	return rc < 0 ? rc : output_text(e, "'");
}

static const char *fish_value(enum kind kind)
{
	if (kind == KIND_STORE)
		return " -x -a '(__cairn_stores) "
		       "(__fish_complete_directories)'";
	return kind == KIND_FILE ? " -r -F" : " -x";
}

static int print_fish_option(
    const char *command, const struct command_option *o, struct err *e)
{
	char words[WORDS_SIZE];
	int rc = output_text(e, "complete -c cairn");

	if (rc == 0 && command != NULL)
		rc = output_text(
		    e, " -n '__fish_seen_subcommand_from %s'", command);
	if (rc == 0)
		rc = output_text(e, " -l %s", o->name);
	if (rc == 0 && o->letter != 0)
		rc = output_text(e, " -s %c", o->letter);
	if (rc == 0 && o->arg != NULL && are_words(o->arg, false)) {
		split_words(o->arg, words);
		rc = output_text(e, " -x -a '%s'", words);
	} else if (rc == 0 && o->arg != NULL) {
		rc = output_text(e, "%s", fish_value(kind_of(o->arg)));
	}
	if (rc == 0)
		rc = output_text(e, " -d ");
	if (rc == 0)
		rc = print_quoted(o->help, e);
	return rc < 0 ? rc : output_text(e, "\n");
}

/* fish completes by what was typed, not by place: all that may come. */
static int print_fish_arguments(const struct command *c, struct err *e)
{
	char word[WORDS_SIZE];
	char words[WORDS_SIZE];
	bool repeats = false;
	int rc = 0;

	for (size_t i = 0;
	     rc == 0 && nth_argument(c, i, word, sizeof(word), &repeats); i++) {
		enum kind kind = kind_of(word);

		if (are_words(word, true))
			kind = KIND_WORDS;
		if (kind == KIND_ANY)
			continue;
		rc = output_text(e,
		    "complete -c cairn -n '__fish_seen_subcommand_from %s' ",
		    c->name);
		if (rc < 0)
			return rc;
		split_words(word, words);
		switch (kind) {
		case KIND_WORDS:
			rc = output_text(e, "-a '%s'\n", words);
			break;
		case KIND_FILE:
			rc = output_text(e, "-F\n");
			break;
		case KIND_COMMAND:
			rc = output_text(e, "-a '(__cairn_commands)'\n");
			break;
		case KIND_SNAPSHOT:
			rc = output_text(e,
			    "-a '(__cairn_names list) "
			    "(__cairn_names groups)/latest'\n");
			break;
		case KIND_GROUP:
			rc = output_text(e, "-a '(__cairn_names groups)'\n");
			break;
		case KIND_ARCHIVE:
			rc = output_text(e, "-a '(__cairn_archives)'\n");
			break;
		case KIND_STORE: /* only options take it */
		case KIND_ANY:
			break;
		}
	}
	return rc;
}

static int print_fish(struct err *e)
{
	int rc = output_text(e,
	    "# fish completion for cairn; made by 'cairn completion fish'.\n"
	    "function __cairn_ask\n"
	    "\tset -l where\n"
	    "\tset -l words (commandline -opc)\n"
	    "\tfor i in (seq 2 (count $words))\n"
	    "\t\tswitch $words[$i]\n"
	    "\t\t\tcase -d --datastore --ns --config\n"
	    "\t\t\t\tset -a where $words[$i] $words[(math $i + 1)]\n"
	    "\t\t\tcase '--datastore=*' '--ns=*' '--config=*'\n"
	    "\t\t\t\tset -a where $words[$i]\n"
	    "\t\tend\n"
	    "\tend\n"
	    "\tcairn -q $where $argv </dev/null 2>/dev/null\n"
	    "end\n"
	    "function __cairn_stores\n"
	    "\tset -l conf " CONFIG_PATH_DEFAULT "\n"
	    "\ttest -n \"$CAIRN_CONFIG\"; and set conf $CAIRN_CONFIG\n"
	    "\tset -l words (commandline -opc)\n"
	    "\tfor i in (seq 2 (count $words))\n"
	    "\t\tswitch $words[$i]\n"
	    "\t\t\tcase --config\n"
	    "\t\t\t\tset conf $words[(math $i + 1)]\n"
	    "\t\t\tcase '--config=*'\n"
	    "\t\t\t\tset conf (string replace -- --config= '' "
	    "$words[$i])\n"
	    "\t\tend\n"
	    "\tend\n"
	    "\tsed -n '" HEADING "' $conf 2>/dev/null\n"
	    "end\n"
	    "function __cairn_names\n"
	    "\t__cairn_ask $argv | string match -r '^[a-z]+/[^ ]+'\n"
	    "end\n"
	    "function __cairn_archives\n"
	    "\tset -l snap (commandline -opc | "
	    "string match -r '^[a-z]+/[^/]+/.+')\n"
	    "\tand __cairn_ask files $snap[1] | "
	    "string match -rv '^[^ ]+[.](catalog|changes) ' | "
	    "string replace -rf '^([^ ]+[.][a-z]+) .*' '$1'\n"
	    "end\n"
	    "function __cairn_commands\n"
	    "\tstring split ' ' '");

	for (size_t i = 0; rc == 0 && i < commands_n; i++)
		rc = output_text(e, "%s%s", i > 0 ? " " : "", commands[i].name);
	if (rc == 0)
		rc = output_text(e, "'\nend\ncomplete -c cairn -f\n");
	for (size_t i = 0; rc == 0 && i < commands_n; i++) {
		const struct command *c = &commands[i];

		rc = output_text(e,
		    "complete -c cairn -n __fish_use_subcommand -a %s -d ",
		    c->name);
		if (rc == 0)
			rc = print_quoted(c->summary, e);
		if (rc == 0)
			rc = output_text(e, "\n");
		for (size_t o = 0; rc == 0 && o < c->options_n; o++)
			rc = print_fish_option(c->name, &c->options[o], e);
		if (rc == 0)
			rc = print_fish_arguments(c, e);
	}
	for (size_t o = 0; rc == 0 && o < command_globals_n; o++)
		rc = print_fish_option(NULL, &command_globals[o], e);
	return rc;
}

int completion_print(const char *shell, struct err *e)
{
	char shown[32];

	if (strcmp(shell, "bash") == 0)
		return print_bash(e);
	if (strcmp(shell, "zsh") == 0)
		return print_zsh(e);
	if (strcmp(shell, "fish") == 0)
		return print_fish(e);
	return err_set(e, ERR_INVALID,
	    "no completion for '%s'; want bash, zsh or fish",
	    text_name(shown, sizeof(shown), shell));
}
