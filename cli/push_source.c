/* SPDX-License-Identifier: MIT */
#include "cli/push_source.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "datastore/base/file.h"
#include "datastore/base/sysio.h"
#include "datastore/base/text.h"

#define SHOWN 256

/* How long a command may take to end when nobody wants its output. */
#define END_WAIT_MS 3000
#define END_STEP_MS 20

struct kind_row {
	const char *suffix;
	const char *stored_as;
	enum push_kind kind;
};

static const struct kind_row kinds[] = {
	{ ".img", ".fidx", PUSH_IMG },
	{ ".raw", ".didx", PUSH_RAW },
	{ ".tar", ".didx", PUSH_TAR },
	{ ".conf", ".blob", PUSH_CONF },
	{ ".tree", ".didx", PUSH_TREE },
};

static const struct kind_row *kind_of(const char *archive)
{
	const char *dot = strrchr(archive, '.');

	for (size_t i = 0; dot != NULL && i < sizeof(kinds) / sizeof(kinds[0]);
	     i++)
		if (strcmp(dot, kinds[i].suffix) == 0)
			return &kinds[i];
	return NULL;
}

static int parse_archive(
    const char *word, size_t n, struct push_source *s, struct err *e)
{
	const struct kind_row *kind = NULL;
	char shown[SHOWN];

	text_name(shown, sizeof(shown), word);
	if (n > BACKUP_NAME_MAX)
		return err_set(e, ERR_INVALID,
		    "'%s': a name of %zu bytes, want at most %d", shown, n,
		    BACKUP_NAME_MAX);
	memcpy(s->archive, word, n);
	s->archive[n] = '\0';
	text_name(shown, sizeof(shown), s->archive);
	kind = kind_of(s->archive);
	if (kind == NULL)
		return err_set(e, ERR_INVALID,
		    "'%s': the name must end in .tree, .tar, .img, .raw or "
		    ".conf to say how it is stored",
		    shown);
	if (!backupid_is_safe(s->archive))
		return err_set(e, ERR_INVALID,
		    "'%s': a name begins with a letter, digit or '_' and has "
		    "only these, '.' and '-'",
		    shown);
	s->kind = kind->kind;
	(void)snprintf(s->filename, sizeof(s->filename), "%s%s", s->archive,
	    kind->stored_as);
	return 0;
}

static int parse_word(
    const char *word, bool has_command, struct push_source *s, struct err *e)
{
	const char *equals = strchr(word, '=');
	char shown[SHOWN];

	s->fd = -1;
	if (equals == NULL && !has_command)
		return err_set(e, ERR_INVALID,
		    "'%s': want ARCHIVE=SOURCE, as in root.img=/dev/sda1",
		    text_name(shown, sizeof(shown), word));
	if (equals == NULL)
		return parse_archive(word, strlen(word), s, e);
	if (equals[1] == '\0')
		return err_set(e, ERR_INVALID, "'%s': no source behind '='",
		    text_name(shown, sizeof(shown), word));
	s->path = equals + 1;
	return parse_archive(word, (size_t)(equals - word), s, e);
}

static size_t stem_length(const struct push_source *s)
{
	return (size_t)(strrchr(s->archive, '.') - s->archive);
}

/* NAME.img and NAME.raw would be two things of one name. */
static int check_pair(
    const struct push_source *a, const struct push_source *b, struct err *e)
{
	size_t n = stem_length(a);

	if (n == stem_length(b) && strncmp(a->archive, b->archive, n) == 0)
		return err_set(e, ERR_INVALID,
		    "'%s' and '%s' are both named '%.*s': what stands before "
		    "the last dot must differ within a snapshot",
		    a->archive, b->archive, (int)n, a->archive);
	if (a->path != NULL && b->path != NULL && strcmp(a->path, "-") == 0 &&
	    strcmp(b->path, "-") == 0)
		return err_set(e, ERR_INVALID,
		    "'%s' and '%s' both want standard input", a->archive,
		    b->archive);
	return 0;
}

static int check_all(
    const struct push_source *s, size_t n, bool has_command, struct err *e)
{
	size_t commands = 0;

	for (size_t i = 0; i < n; i++) {
		commands += s[i].path == NULL;
		if (s[i].kind == PUSH_IMG &&
		    (s[i].path == NULL || strcmp(s[i].path, "-") == 0))
			return err_set(e, ERR_INVALID,
			    "'%s': an image is read from a file or device; "
			    "store a stream as .raw",
			    s[i].archive);
		for (size_t j = 0; j < i; j++) {
			int rc = check_pair(&s[j], &s[i], e);

			if (rc < 0)
				return rc;
		}
	}
	if (has_command && commands != 1)
		return err_set(e, ERR_INVALID,
		    "--command: want exactly one archive without =SOURCE, "
		    "found %zu",
		    commands);
	return 0;
}

int push_sources_parse(const char *const *words, size_t n, bool has_command,
    struct push_source **ret, struct err *e)
{
	struct push_source *s = calloc(n > 0 ? n : 1, sizeof(*s));
	int rc = 0;

	if (s == NULL)
		return err_nomem(e);
	for (size_t i = 0; i < n && rc == 0; i++)
		rc = parse_word(words[i], has_command, &s[i], e);
	if (rc == 0)
		rc = check_all(s, n, has_command, e);
	if (rc < 0) {
		free(s);
		return rc;
	}
	*ret = s;
	return 0;
}

/* Wrong kinds are told before the store is touched. */
static int check_opened(struct push_source *s, struct err *e)
{
	struct statx st;
	char shown[SHOWN];
	mode_t type = 0;
	int rc = file_stat_fd(s->fd, &st, s->path, e);

	if (rc < 0)
		return rc;
	type = st.stx_mode & S_IFMT;
	text_name(shown, sizeof(shown), s->path);
	s->directory = type == S_IFDIR;
	if (s->kind != PUSH_TREE && type == S_IFDIR)
		return err_set(e, ERR_INVALID,
		    "'%s' is a directory, want a file; a directory is stored "
		    "as .tree",
		    shown);
	if (s->kind == PUSH_IMG && type != S_IFREG && type != S_IFBLK)
		return err_set(e, ERR_INVALID,
		    "'%s' is no regular file or block device; store a stream "
		    "as .raw",
		    shown);
	if (type == S_IFREG)
		s->size_hint = st.stx_size;
	return 0;
}

int push_sources_open(struct push_source *sources, size_t n, struct err *e)
{
	for (size_t i = 0; i < n; i++) {
		struct push_source *s = &sources[i];
		char shown[SHOWN];
		int rc = 0;

		if (s->path == NULL)
			continue;
		if (strcmp(s->path, "-") == 0)
			s->fd = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
		else
			s->fd = sysio_openat(AT_FDCWD, s->path,
			    O_RDONLY | O_CLOEXEC | O_NOCTTY, 0);
		text_name(shown, sizeof(shown), s->path);
		/* A FIFO that nobody writes to; only a signal ends that. */
		if (s->fd < 0 && errno == EINTR)
			return err_set(e, ERR_CANCELLED,
			    "stopped while '%s' was opened", shown);
		if (s->fd < 0)
			return err_sys(e, "'%s'", shown);
		rc = check_opened(s, e);
		if (rc < 0)
			return rc;
	}
	return 0;
}

/* What we ignore would be inherited; a producer must die of SIGPIPE when we
 * are gone. */
static int spawn(const char *command, int output, pid_t *ret)
{
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attr;
	sigset_t defaults;
	char shell[] = "/bin/sh";
	char dash_c[] = "-c";
	char *text = strdup(command);
	char *argv[] = { shell, dash_c, text, NULL };
	int rc = text == NULL ? ENOMEM : 0;

	if (rc != 0)
		return rc;
	(void)sigemptyset(&defaults);
	(void)sigaddset(&defaults, SIGPIPE);
	(void)sigaddset(&defaults, SIGXFSZ);
	rc = posix_spawn_file_actions_init(&actions);
	if (rc != 0)
		goto out_text;
	rc = posix_spawnattr_init(&attr);
	if (rc != 0)
		goto out_actions;
	rc = posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
	if (rc == 0)
		rc = posix_spawnattr_setsigdefault(&attr, &defaults);
	if (rc == 0)
		rc = posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGDEF);
	if (rc == 0)
		rc = posix_spawn(ret, shell, &actions, &attr, argv, environ);
	(void)posix_spawnattr_destroy(&attr);
out_actions:
	(void)posix_spawn_file_actions_destroy(&actions);
out_text:
	free(text);
	return rc;
}

int push_source_start(struct push_source *s, const char *command, struct err *e)
{
	int pipes[2] = { -1, -1 };
	int rc = 0;

	if (pipe2(pipes, O_CLOEXEC) < 0)
		return err_sys(e, "pipe");
	rc = spawn(command, pipes[1], &s->child);
	file_close(&pipes[1]);
	if (rc != 0) {
		file_close(&pipes[0]);
		s->child = 0;
		errno = rc;
		return err_sys(e, "--command: '/bin/sh'");
	}
	s->fd = pipes[0];
	return 0;
}

static int wait_for(pid_t pid, int *ret_status)
{
	pid_t rc = 0;

	do
		rc = waitpid(pid, ret_status, 0);
	while (rc < 0 && errno == EINTR);
	return rc < 0 ? -1 : 0;
}

/* Who does not end when he is told to, is ended. */
static void end_child(pid_t pid)
{
	const struct timespec pause = { .tv_nsec = END_STEP_MS * 1000000L };
	int status = 0;

	(void)kill(pid, SIGTERM);
	for (int ms = 0; ms < END_WAIT_MS; ms += END_STEP_MS) {
		if (waitpid(pid, &status, WNOHANG) != 0)
			return;
		(void)sysio_nanosleep(&pause, NULL);
	}
	(void)kill(pid, SIGKILL);
	(void)wait_for(pid, &status);
}

bool push_source_ended(const struct push_source *s)
{
	const struct timespec pause = { .tv_nsec = END_STEP_MS * 1000000L };
	siginfo_t info = { .si_pid = 0 };

	if (waitid(P_PID, (id_t)s->child, &info, WEXITED | WNOHANG | WNOWAIT) <
		0 ||
	    info.si_pid != 0)
		return true;
	(void)sysio_nanosleep(&pause, NULL);
	return false;
}

int push_source_finish(
    struct push_source *s, const char *command, struct err *e)
{
	char shown[SHOWN];
	int status = 0;

	file_close(&s->fd);
	text_name(shown, sizeof(shown), command);
	if (wait_for(s->child, &status) < 0)
		return err_sys(e, "--command '%s'", shown);
	s->child = 0;
	if (WIFSIGNALED(status))
		return err_set(e, ERR_REFUSED,
		    "--command '%s' was ended by signal %d; nothing is stored",
		    shown, WTERMSIG(status));
	if (WEXITSTATUS(status) != 0)
		return err_set(e, ERR_REFUSED,
		    "--command '%s' failed with exit code %d; nothing is "
		    "stored",
		    shown, WEXITSTATUS(status));
	return 0;
}

void push_sources_free(struct push_source *sources, size_t n)
{
	if (sources == NULL)
		return;
	for (size_t i = 0; i < n; i++) {
		file_close(&sources[i].fd);
		if (sources[i].child > 0)
			end_child(sources[i].child);
	}
	free(sources);
}
