/* SPDX-License-Identifier: MIT */
#include "cli/push_source.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/scratch.h"
#include "tests/support/test.h"

/* Words, one string, separated by blanks; with_command is a '!' before. */
static int parse(const char *line, struct push_source **ret, size_t *ret_n,
    char **ret_memory, struct err *e)
{
	static const char *words[16];
	bool with_command = line[0] == '!';
	char *p = NULL;
	size_t n = 0;

	*ret_memory = strdup(line + with_command);
	assert_non_null(*ret_memory);
	for (p = *ret_memory; p != NULL && *p != '\0';) {
		char *blank = strchr(p, ' ');

		if (blank != NULL)
			*blank++ = '\0';
		assert_true(n < TEST_COUNT(words));
		words[n++] = p;
		p = blank;
	}
	*ret_n = n;
	return push_sources_parse(words, n, with_command, ret, e);
}

static void understands(void **state)
{
	static const struct {
		const char *line;
		enum push_kind kind;
		const char *archive, *filename, *path;
	} cases[] = {
		{ "root.img=/dev/sda1", PUSH_IMG, "root.img", "root.img.fidx",
		    "/dev/sda1" },
		{ "log.raw=-", PUSH_RAW, "log.raw", "log.raw.didx", "-" },
		{ "etc.conf=a", PUSH_CONF, "etc.conf", "etc.conf.blob", "a" },
		{ "a.img=b=c", PUSH_IMG, "a.img", "a.img.fidx", "b=c" },
		{ "a.img==", PUSH_IMG, "a.img", "a.img.fidx", "=" },
		{ "_1-.x.raw=./-", PUSH_RAW, "_1-.x.raw", "_1-.x.raw.didx",
		    "./-" },
		{ "a.img.raw=x", PUSH_RAW, "a.img.raw", "a.img.raw.didx", "x" },
		{ "!db.raw", PUSH_RAW, "db.raw", "db.raw.didx", NULL },
		{ "!db.conf", PUSH_CONF, "db.conf", "db.conf.blob", NULL },
	};

	(void)state;
	for (size_t i = 0; i < TEST_COUNT(cases); i++) {
		struct push_source *s = NULL;
		struct err e = ERR_INIT;
		char *memory = NULL;
		size_t n = 0;

		assert_ok(parse(cases[i].line, &s, &n, &memory, &e), &e);
		assert_int_equal(n, 1);
		assert_int_equal(s->kind, cases[i].kind);
		assert_string_equal(s->archive, cases[i].archive);
		assert_string_equal(s->filename, cases[i].filename);
		if (cases[i].path == NULL)
			assert_null(s->path);
		else
			assert_string_equal(s->path, cases[i].path);
		assert_int_equal(s->fd, -1);
		push_sources_free(s, n);
		free(memory);
	}
	push_sources_free(NULL, 0);
}

static void refuses(void **state)
{
	static const char *const cases[][2] = {
		{ "root.img", "'root.img': want ARCHIVE=SOURCE" },
		{ "root", "'root': want ARCHIVE=SOURCE" },
		{ "root.img=", "'root.img=': no source behind '='" },
		{ "=x",
		    "'': the name must end in .tree, .tar, .img, .raw or .conf" },
		{ "root=x", "'root': the name must end in .tree" },
		{ "root.=x", "'root.': the name must end in .tree" },
		{ "root.IMG=x", "'root.IMG': the name must end in .tree" },
		{ "root.imgs=x", "'root.imgs': the name must end in .tree" },
		{ "root.img.fidx=x", "'root.img.fidx': the name must end" },
		{ ".img=x", "'.img': a name begins with a letter" },
		{ "-a.img=x", "'-a.img': a name begins with a letter" },
		{ ".a.img=x", "'.a.img': a name begins with a letter" },
		{ "../a.img=x", "'../a.img': a name begins with a letter" },
		{ "a/b.img=x", "'a/b.img': a name begins with a letter" },
		{ "\xc3\xa4.img=x", "': a name begins with a letter" },
		{ "a\nb.img=x", "'a\\nb.img': a name begins with a letter" },
		/* Two of one name, whatever their kinds. */
		{ "a.img=x a.img=y", "'a.img' and 'a.img' are both named 'a'" },
		{ "a.img=x b.raw=y a.raw=z",
		    "'a.img' and 'a.raw' are both named 'a'" },
		{ "a.conf=x a.img=x", "'a.conf' and 'a.img' are both" },
		/* One standard input. */
		{ "a.raw=- b.raw=x c.conf=-",
		    "'a.raw' and 'c.conf' both want standard input" },
		{ "a.img=-",
		    "'a.img': an image is read from a file or device" },
		{ "!a.img", "'a.img': an image is read from a file or device" },
		/* One archive for the command. */
		{ "!a.raw=x",
		    "want exactly one archive without =SOURCE, "
		    "found 0" },
		{ "!a.raw b.raw", "found 2" },
		{ "!", "found 0" },
		{ "!a", "'a': the name must end in .tree" },
		{ "!a.raw=", "'a.raw=': no source behind '='" },
	};

	(void)state;
	for (size_t i = 0; i < TEST_COUNT(cases); i++) {
		struct push_source *s = NULL;
		struct err e = ERR_INIT;
		char *memory = NULL;
		size_t n = 0;

		assert_err(parse(cases[i][0], &s, &n, &memory, &e), &e,
		    ERR_INVALID, cases[i][1]);
		assert_null(s);
		free(memory);
	}
}

/* As long as a name may be, and longer. */
static void measures_names(void **state)
{
	char line[BACKUP_NAME_MAX + 32];
	struct push_source *s = NULL;
	struct err e = ERR_INIT;
	char *memory = NULL;
	size_t n = 0;

	(void)state;
	memset(line, 'a', sizeof(line));
	(void)snprintf(line + BACKUP_NAME_MAX - 4,
	    sizeof(line) - BACKUP_NAME_MAX + 4, ".img=x");
	assert_ok(parse(line, &s, &n, &memory, &e), &e);
	assert_int_equal(strlen(s->archive), BACKUP_NAME_MAX);
	push_sources_free(s, n);
	free(memory);
	memset(line, 'a', sizeof(line));
	(void)snprintf(line + BACKUP_NAME_MAX - 3,
	    sizeof(line) - BACKUP_NAME_MAX + 3, ".img=x");
	assert_err(parse(line, &s, &n, &memory, &e), &e, ERR_INVALID,
	    "bytes, want at most");
	free(memory);
}

/* "NAME=<scratch>/FILE", opened; s stays to be freed. */
static int open_one(struct scratch *sc, const char *archive, const char *file,
    struct push_source **ret, struct err *e)
{
	static char word[PATH_MAX + 64];
	const char *words[] = { word };
	int rc = 0;

	(void)snprintf(word, sizeof(word), "%s=%s%s%s", archive,
	    file[0] == '-' ? "" : sc->t.path, file[0] == '-' ? "" : "/", file);
	rc = push_sources_parse(words, 1, false, ret, e);
	return rc < 0 ? rc : push_sources_open(*ret, 1, e);
}

static void opens_files(void **state)
{
	struct scratch *sc = *state;
	struct push_source *s = NULL;
	struct err e = ERR_INIT;
	char byte = 0;

	tmpdir_put_str(sc->dir, "f", "12345");
	assert_ok(open_one(sc, "a.img", "f", &s, &e), &e);
	assert_int_equal(s->size_hint, 5);
	assert_int_equal(read(s->fd, &byte, 1), 1);
	assert_int_equal(byte, '1');
	assert_true((fcntl(s->fd, F_GETFD) & FD_CLOEXEC) != 0);
	push_sources_free(s, 1);
	/* Through a link: what a person names is what he means. */
	assert_int_equal(symlinkat("f", sc->dir, "l"), 0);
	assert_ok(open_one(sc, "a.raw", "l", &s, &e), &e);
	assert_int_equal(s->size_hint, 5);
	push_sources_free(s, 1);
}

static void tells_what_can_not_be_opened(void **state)
{
	static const struct {
		const char *archive, *file;
		int code;
		const char *text;
	} cases[] = {
		{ "a.img", "none", ERR_SYS, "/none'" },
		{ "a.raw", "dir", ERR_INVALID, "/dir' is a directory" },
		{ "a.conf", "dir", ERR_INVALID, "/dir' is a directory" },
		{ "a.img", "dir", ERR_INVALID, "/dir' is a directory" },
		{ "a.img", "new\nline", ERR_SYS, "/new\\nline'" },
		{ "a.img", "tty", ERR_INVALID,
		    "/tty' is no regular file or block device" },
	};
	struct scratch *sc = *state;

	assert_int_equal(mkdirat(sc->dir, "dir", 0755), 0);
	assert_int_equal(symlinkat("/dev/null", sc->dir, "tty"), 0);
	for (size_t i = 0; i < TEST_COUNT(cases); i++) {
		struct push_source *s = NULL;
		struct err e = ERR_INIT;

		assert_err(
		    open_one(sc, cases[i].archive, cases[i].file, &s, &e), &e,
		    cases[i].code, cases[i].text);
		push_sources_free(s, 1);
	}
}

/* The second one's failure closes the first, too. */
static void opens_all_or_none(void **state)
{
	struct scratch *sc = *state;
	char good[PATH_MAX + 64];
	const char *words[] = { good, "b.raw=/nonexistent/file" };
	struct push_source *s = NULL;
	struct err e = ERR_INIT;

	tmpdir_put_str(sc->dir, "f", "12345");
	(void)snprintf(good, sizeof(good), "a.img=%s/f", sc->t.path);
	assert_ok(push_sources_parse(words, 2, false, &s, &e), &e);
	assert_err(push_sources_open(s, 2, &e), &e, ERR_SYS, "/nonexistent");
	push_sources_free(s, 2);
	assert_int_equal(tmpdir_open_fds(), sc->fds + 1);
}

static void opens_standard_input(void **state)
{
	struct scratch *sc = *state;
	struct push_source *s = NULL;
	struct err e = ERR_INIT;
	struct stat in;
	struct stat got;

	assert_ok(open_one(sc, "a.raw", "-", &s, &e), &e);
	assert_true(s->fd > 2);
	assert_int_equal(fstat(STDIN_FILENO, &in), 0);
	assert_int_equal(fstat(s->fd, &got), 0);
	assert_int_equal(in.st_ino, got.st_ino);
	push_sources_free(s, 1);
	assert_true(fcntl(STDIN_FILENO, F_GETFD) >= 0);
}

/* A command's source, started. */
static struct push_source *start(const char *command)
{
	const char *words[] = { "db.raw" };
	struct push_source *s = NULL;
	struct err e = ERR_INIT;

	assert_ok(push_sources_parse(words, 1, true, &s, &e), &e);
	assert_ok(push_sources_open(s, 1, &e), &e);
	assert_int_equal(s->fd, -1);
	assert_ok(push_source_start(s, command, &e), &e);
	assert_true(s->fd >= 0);
	assert_true(s->child > 0);
	return s;
}

static void reads_a_command(void **state)
{
	struct push_source *s = start("echo a; echo b; exit 0");
	struct err e = ERR_INIT;
	char got[16] = "";
	size_t n = 0;
	ssize_t r = 1;

	(void)state;
	while (r > 0) {
		r = read(s->fd, got + n, sizeof(got) - 1 - n);
		assert_true(r >= 0);
		n += (size_t)r;
	}
	assert_string_equal(got, "a\nb\n");
	while (!push_source_ended(s))
		;
	assert_true(push_source_ended(s));
	assert_ok(push_source_finish(s, "echo", &e), &e);
	assert_int_equal(s->child, 0);
	assert_int_equal(s->fd, -1);
	push_sources_free(s, 1);
}

static void tells_how_a_command_failed(void **state)
{
	static const struct {
		const char *command, *text;
	} cases[] = {
		{ "exit 3", "--command 'exit 3' failed with exit code 3" },
		{ "false", "--command 'false' failed with exit code 1" },
		{ "/nonexistent 2>&-", "failed with exit code 127" },
		{ "kill -KILL $$", "was ended by signal 9" },
		{ "echo '\n'; exit 1", "--command 'echo '\\n'; exit 1' " },
	};

	(void)state;
	for (size_t i = 0; i < TEST_COUNT(cases); i++) {
		struct push_source *s = start(cases[i].command);
		struct err e = ERR_INIT;
		int rc = push_source_finish(s, cases[i].command, &e);

		assert_err(rc, &e, ERR_REFUSED, cases[i].text);
		assert_non_null(strstr(e.msg, "nothing is stored"));
		push_sources_free(s, 1);
	}
}

/* It dies of a closed pipe, though this program ignores that signal. */
static void lets_a_command_die_of_its_pipe(void **state)
{
	struct sigaction ignore = { .sa_handler = SIG_IGN };
	struct push_source *s = NULL;
	struct err e = ERR_INIT;

	(void)state;
	assert_int_equal(sigaction(SIGPIPE, &ignore, NULL), 0);
	s = start("exec yes");
	assert_err(push_source_finish(s, "yes", &e), &e, ERR_REFUSED,
	    "was ended by signal 13");
	push_sources_free(s, 1);
}

/* What nobody wants any more is ended, and waited for. */
static void ends_a_command(void **state)
{
	struct push_source *s = start("exec sleep 1000");
	pid_t pid = s->child;

	(void)state;
	push_sources_free(s, 1);
	assert_int_equal(kill(pid, 0), -1);
	assert_int_equal(errno, ESRCH);
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
	assert_int_equal(errno, ECHILD);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(understands),
		cmocka_unit_test(refuses),
		cmocka_unit_test(measures_names),
		SCRATCH_TEST(opens_files),
		SCRATCH_TEST(tells_what_can_not_be_opened),
		SCRATCH_TEST(opens_all_or_none),
		SCRATCH_TEST(opens_standard_input),
		SCRATCH_TEST(reads_a_command),
		SCRATCH_TEST(tells_how_a_command_failed),
		SCRATCH_TEST(lets_a_command_die_of_its_pipe),
		SCRATCH_TEST(ends_a_command),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
