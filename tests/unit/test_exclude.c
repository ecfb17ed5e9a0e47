/* SPDX-License-Identifier: MIT */
/*
 * exclude: the table of etc/doc/excluding.md, what is refused, files; and
 * random patterns on random paths, as git sees them, where there is git.
 */
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "index/exclude.h"
#include "tests/support/gen.h"
#include "tests/support/scratch.h"
#include "tests/support/test.h"

struct fixture {
	void *scratch;
	struct scratch *s;
	struct exclude *x;
	char *own;
	struct err e;
};

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	if (f == NULL || scratch_setup(&f->scratch) < 0)
		return -1;
	f->s = f->scratch;
	*state = f;
	return exclude_new(&f->x, &f->e);
}

static int teardown(void **state)
{
	struct fixture *f = *state;
	void *scratch = f->scratch;

	exclude_free(f->x);
	free(f->own);
	free(f);
	return scratch_teardown(&scratch);
}

static void renew(struct fixture *f)
{
	exclude_free(f->x);
	f->x = NULL;
	assert_ok(exclude_new(&f->x, &f->e), &f->e);
}

/* Does a walk from the root leave it out?  A slash at the end: a directory. */
static bool left_out(struct exclude *x, const char *path)
{
	size_t n = strlen(path);
	bool is_dir = n > 0 && path[n - 1] == '/';

	if (is_dir)
		n--;
	for (size_t i = 1; i < n; i++)
		if (path[i] == '/' && exclude_match(x, path, i, true))
			return true;
	return exclude_match(x, path, n, is_dir);
}

/* The text between the next two backticks; NULL: there is none. */
static char *quoted(char **at)
{
	char *from = strchr(*at, '`');
	char *to = from == NULL ? NULL : strchr(from + 1, '`');

	if (to == NULL)
		return NULL;
	*to = '\0';
	*at = to + 1;
	return from + 1;
}

/* The end of a cell: where the next begins. */
static char *cell_end(char *at)
{
	bool inside = false;

	for (; *at != '\0' && (inside || *at != '|'); at++)
		if (*at == '`')
			inside = !inside;
	assert_true(*at == '|');
	*at = '\0';
	return at + 1;
}

static void run_row(struct fixture *f, char *row)
{
	char *path_cell = cell_end(row + 1);
	char *answer = cell_end(path_cell);
	char *patterns = row + 1;
	char *path = quoted(&path_cell);
	bool want = strncmp(answer, " yes |", 6) == 0;
	char *pattern = NULL;

	assert_true(want || strncmp(answer, " no |", 5) == 0);
	renew(f);
	while ((pattern = quoted(&patterns)) != NULL)
		assert_ok(
		    exclude_add(f->x, pattern, strlen(pattern), &f->e), &f->e);
	assert_non_null(path);
	if (left_out(f->x, path) != want)
		fail_msg("'%s': want %s", path, answer);
}

static void test_table(void **state)
{
	struct fixture *f = *state;
	unsigned rows = 0;
	char *line = NULL;
	char *rest = NULL;

	f->own = tmpdir_get(AT_FDCWD, CAIRN_DOC_DIR "/excluding.md", NULL);
	assert_non_null(f->own);
	rest = strstr(f->own, "|---|");
	assert_non_null(rest);
	(void)strsep(&rest, "\n");
	while ((line = strsep(&rest, "\n")) != NULL && line[0] == '|') {
		run_row(f, line);
		rows++;
	}
	assert_in_range(rows, 20, 1000);
}

static void test_nothing(void **state)
{
	struct fixture *f = *state;

	assert_false(left_out(f->x, "a/b"));
	assert_ok(exclude_add(f->x, "", 0, &f->e), &f->e);
	assert_ok(exclude_add(f->x, "   ", 3, &f->e), &f->e);
	assert_ok(exclude_add(f->x, "#", 1, &f->e), &f->e);
	assert_false(left_out(f->x, "#"));
	assert_false(left_out(f->x, " "));
	exclude_free(NULL);
}

static void test_refused(void **state)
{
	static const char *const bad[] = { "a[", "[", "[]", "[!]", "[a-", "a\\",
		"[[:digits:]]", "[[:digit:]", "a/b[c/", "!\\" };
	struct fixture *f = *state;

	for (size_t i = 0; i < TEST_COUNT(bad); i++) {
		int rc = exclude_add(f->x, bad[i], strlen(bad[i]), &f->e);

		if (rc != ERR_INVALID)
			fail_msg("'%s' is taken", bad[i]);
	}
	assert_err(exclude_add(f->x, "a\0b", 3, &f->e), &f->e, ERR_INVALID,
	    "zero byte");
	assert_false(left_out(f->x, "a"));
}

/* A name that a naive matcher would try in 2^40 ways. */
static void test_no_explosion(void **state)
{
	static const char pattern[] =
	    "**/*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a/**/**/**/**/**/**/b/x";
	struct fixture *f = *state;
	char path[4000];

	assert_ok(exclude_add(f->x, pattern, strlen(pattern), &f->e), &f->e);
	memset(path, 'a', sizeof(path));
	for (size_t i = 60; i < sizeof(path); i += 60)
		path[i] = '/';
	assert_false(exclude_match(f->x, path, sizeof(path), false));
}

static void test_many(void **state)
{
	struct fixture *f = *state;

	for (unsigned i = 0; i < 1000; i++) {
		char one[32];
		int n = snprintf(one, sizeof(one), "/p%u", i);

		assert_ok(exclude_add(f->x, one, (size_t)n, &f->e), &f->e);
	}
	assert_true(left_out(f->x, "p0"));
	assert_true(left_out(f->x, "p999"));
	assert_false(left_out(f->x, "p1000"));
}

static int add_file(struct fixture *f, const void *text, size_t n)
{
	char path[PATH_MAX + 16];

	tmpdir_put(f->s->dir, "patterns", text, n);
	(void)snprintf(path, sizeof(path), "%s/patterns", f->s->t.path);
	return exclude_add_file(f->x, path, &f->e);
}

static void test_file(void **state)
{
	static const char text[] = "\xef\xbb\xbf"
				   "one\r\n\n# two\nthree  \n/four";
	struct fixture *f = *state;

	assert_ok(add_file(f, text, strlen(text)), &f->e);
	assert_true(left_out(f->x, "one"));
	assert_false(left_out(f->x, "# two"));
	assert_true(left_out(f->x, "three"));
	assert_true(left_out(f->x, "four"));
	assert_false(left_out(f->x, "x/four"));
	assert_err(
	    add_file(f, "a\nb\nc[\n", 7), &f->e, ERR_INVALID, "patterns:3: ");
	assert_err(add_file(f, "a\nb\0\n", 5), &f->e, ERR_INVALID,
	    "patterns:2: a zero byte");
	assert_err(exclude_add_file(f->x, "/nonexistent/p", &f->e), &f->e,
	    ERR_SYS, "'/nonexistent/p'");
}

static void test_file_too_long(void **state)
{
	struct fixture *f = *state;
	size_t n = ((size_t)16 << 20) + 1;

	f->own = calloc(1, n);
	assert_non_null(f->own);
	memset(f->own, '#', n);
	assert_err(add_file(f, f->own, n), &f->e, ERR_LIMIT, "16777216");
}

/* ---- git ---- */

#define ROUNDS 150
#define PATTERNS 4

static const char *const names[] = { "a", "b", "ab", "ba", "a.b", "a b", "X",
	"[a]", "a-", "*", "\\a", "#", "!", "a ", "]", "\xc3\xa9" };

/* Directories of all these, two levels, then files; into f->own, zeros
 * between them. */
static size_t make_paths(struct fixture *f)
{
	size_t n = 0;
	size_t room = 1 << 16;
	struct gen g;

	gen_seed(&g, 7);
	f->own = malloc(room);
	assert_non_null(f->own);
	for (unsigned i = 0; i < 300; i++) {
		char path[64] = "";
		unsigned depth = 1 + (unsigned)gen_below(&g, 4);
		int len = 0;

		for (unsigned d = 0; d < depth; d++) {
			const char *name =
			    names[gen_below(&g, TEST_COUNT(names))];

			len += snprintf(path + len, sizeof(path) - (size_t)len,
			    "%s%s", d > 0 ? "/" : "", name);
			if (d + 1 < depth)
				(void)mkdirat(f->s->dir, path, 0755);
		}
		if (faccessat(f->s->dir, path, F_OK, 0) < 0) {
			int fd = openat(f->s->dir, path,
			    O_WRONLY | O_CREAT | O_CLOEXEC, 0644);

			if (fd < 0)
				continue; /* a file is above it */
			(void)close(fd);
		}
		memcpy(f->own + n, path, (size_t)len + 1);
		n += (size_t)len + 1;
		assert_true(n + sizeof(path) < room);
	}
	return n;
}

/* git ARGUMENTS in the scratch directory, from ".in" to ".out"; its code. */
static int git(struct fixture *f, char *const argv[])
{
	static char config[] = "GIT_CONFIG_NOSYSTEM=1";
	static char home[] = "HOME=/nonexistent";
	static char xdg[] = "XDG_CONFIG_HOME=/nonexistent";
	static char path[] = "PATH=/usr/local/bin:/usr/bin:/bin";
	char *env[] = { config, home, xdg, path, NULL };
	posix_spawn_file_actions_t a;
	char in[PATH_MAX + 8];
	char out[PATH_MAX + 8];
	pid_t pid = 0;
	int status = 0;
	int rc = 0;

	(void)snprintf(in, sizeof(in), "%s/.in", f->s->t.path);
	(void)snprintf(out, sizeof(out), "%s/.out", f->s->t.path);
	(void)posix_spawn_file_actions_init(&a);
	(void)posix_spawn_file_actions_addopen(&a, 0, in, O_RDONLY, 0);
	(void)posix_spawn_file_actions_addopen(
	    &a, 1, out, O_WRONLY | O_CREAT | O_TRUNC, 0644);
	(void)posix_spawn_file_actions_addfchdir_np(&a, f->s->dir);
	rc = posix_spawnp(&pid, "git", &a, NULL, argv, env);
	(void)posix_spawn_file_actions_destroy(&a);
	if (rc != 0 || waitpid(pid, &status, 0) < 0 || !WIFEXITED(status))
		return -1;
	return WEXITSTATUS(status);
}

/*
 * Stars behind something else than a slash, at the end of a component: git
 * takes them for "**" if all before them is literal, against what it says.
 */
static bool git_errs(const char *p, size_t n)
{
	for (size_t i = 1; i + 1 < n; i++) {
		size_t end = i + 1;

		if (p[i] != '*' || p[i + 1] != '*' || p[i - 1] == '/' ||
		    p[i - 1] == '!')
			continue;
		while (end < n && p[end] == '*')
			end++;
		if (end == n || p[end] == '/' || p[end] == '\\')
			return true;
	}
	return false;
}

static void random_patterns(
    struct fixture *f, struct gen *g, char *text, size_t size)
{
	static const char *const pieces[] = { "a", "b", "ab", "*", "*", "?",
		"**", "/", "/", "/", "**/", "/**", "[ab]", "[!a]", "[^b]",
		"[[:alpha:]]", "[[:upper:]]", "[]a]", "[a-z]", "[b-a]", "[/a]",
		"[a-]", "[\\]]", "\\*", "\\[", "\\a", "\\ ", " ", "#", "!", ".",
		"X", "-", "]", "[", "\\", "\xc3\xa9", "[[:x:]]", "[[:]" };
	size_t n = 0;

	for (unsigned i = 0; i < PATTERNS; i++) {
		size_t from = n;
		unsigned parts = 1 + (unsigned)gen_below(g, 6);

		if (gen_below(g, 4) == 0)
			text[n++] = '!';
		for (unsigned k = 0; k < parts; k++)
			n += (size_t)snprintf(text + n, size - n, "%s",
			    pieces[gen_below(g, TEST_COUNT(pieces))]);
		if (git_errs(text + from, n - from)) {
			n = from;
			continue;
		}
		/* What is refused matches nothing in git. */
		(void)exclude_add(f->x, text + from, n - from, &f->e);
		text[n++] = '\n';
	}
	text[n] = '\0';
}

/* Is this one of the texts with a zero behind them? */
static bool is_listed(const char *list, size_t n, const char *text)
{
	for (size_t at = 0; at < n; at += strlen(list + at) + 1)
		if (strcmp(list + at, text) == 0)
			return true;
	return false;
}

static bool is_dir(struct fixture *f, const char *path)
{
	struct stat st;

	return fstatat(f->s->dir, path, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	    S_ISDIR(st.st_mode);
}

static unsigned compare_with_git(
    struct fixture *f, size_t paths_n, const char *text)
{
	size_t n = 0;
	char *got = tmpdir_get(f->s->dir, ".out", &n);
	unsigned out = 0;

	for (size_t at = 0; at < paths_n; at += strlen(f->own + at) + 1) {
		char path[80];
		bool git_says = is_listed(got, n, f->own + at);

		(void)snprintf(path, sizeof(path), "%s%s", f->own + at,
		    is_dir(f, f->own + at) ? "/" : "");
		if (left_out(f->x, path) != git_says) {
			free(got);
			fail_msg("'%s': git says %s of\n%s", path,
			    git_says ? "yes" : "no", text);
		}
		out += git_says;
	}
	free(got);
	return out;
}

static void test_like_git(void **state)
{
	char *init[] = { (char[]){ "git" }, (char[]){ "init" },
		(char[]){ "-q" }, NULL };
	char *ask[] = { (char[]){ "git" }, (char[]){ "check-ignore" },
		(char[]){ "--no-index" }, (char[]){ "-z" },
		(char[]){ "--stdin" }, NULL };
	struct fixture *f = *state;
	unsigned out = 0;
	size_t n = 0;
	struct gen g;

	tmpdir_put_str(f->s->dir, ".in", "");
	if (git(f, init) != 0) {
		print_message("git is not installed\n");
		skip();
	}
	n = make_paths(f);
	tmpdir_put(f->s->dir, ".in", f->own, n);
	gen_seed(&g, 11);
	for (unsigned round = 0; round < ROUNDS; round++) {
		char text[1024];
		int code = 0;

		renew(f);
		random_patterns(f, &g, text, sizeof(text));
		tmpdir_put_str(f->s->dir, ".gitignore", text);
		code = git(f, ask);
		assert_in_range(code, 0, 1);
		out += compare_with_git(f, n, text);
	}
	/* Neither all nor nothing was left out. */
	assert_in_range(out, 1000, ROUNDS * 250);
}

#define TEST(t) cmocka_unit_test_setup_teardown(t, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_table),
		TEST(test_nothing),
		TEST(test_refused),
		TEST(test_no_explosion),
		TEST(test_many),
		TEST(test_file),
		TEST(test_file_too_long),
		TEST(test_like_git),
	};

	return cmocka_run_group_tests_name("exclude", tests, NULL, NULL);
}
