/* SPDX-License-Identifier: MIT */
#include "tests/support/tmpdir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

_Noreturn static void give_up(const char *what, const char *name)
{
	(void)fprintf(stderr, "tmpdir: %s ", what);
	perror(name);
	abort();
}

void tmpdir_make(struct tmpdir *t)
{
	/* NOLINTNEXTLINE(concurrency-mt-unsafe): nobody calls setenv */
	const char *base = getenv("TMPDIR");
	char path[PATH_MAX];
	int n = 0;

	if (base == NULL || base[0] == '\0')
		base = "/tmp";
	n = snprintf(path, sizeof(path), "%s/cairn-test-XXXXXX", base);
	if (n < 0 || (size_t)n >= sizeof(path)) {
		errno = ENAMETOOLONG;
		give_up("make in", base);
	}
	if (mkdtemp(path) == NULL)
		give_up("make", path);
	if (realpath(path, t->path) == NULL)
		give_up("resolve", path);
	t->fd = open(t->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (t->fd < 0)
		give_up("open", t->path);
}

/* Empties the directory of which fd is a descriptor, and closes it. */
static void empty_dir(int fd) /* NOLINT(misc-no-recursion) */
{
	const struct dirent *entry = NULL;
	DIR *d = NULL;

	/* Tests take permissions away. */
	(void)fchmod(fd, 0700);
	d = fdopendir(fd);
	if (d == NULL)
		give_up("read", "a directory");
	/* NOLINTNEXTLINE(concurrency-mt-unsafe): d is ours alone */
	while ((entry = readdir(d)) != NULL) {
		const char *name = entry->d_name;
		int sub = -1;

		if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
			continue;
		if (unlinkat(fd, name, 0) == 0)
			continue;
		if (errno != EISDIR && errno != EPERM)
			give_up("remove", name);
		sub = openat(fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
		if (sub < 0 && errno == EACCES) {
			if (fchmodat(fd, name, 0700, 0) < 0)
				give_up("change", name);
			sub = openat(
			    fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
		}
		if (sub < 0)
			give_up("open", name);
		empty_dir(sub);
		if (unlinkat(fd, name, AT_REMOVEDIR) < 0)
			give_up("remove", name);
	}
	(void)closedir(d);
}

void tmpdir_remove(struct tmpdir *t)
{
	empty_dir(t->fd);
	t->fd = -1;
	if (rmdir(t->path) < 0)
		give_up("remove", t->path);
}

int tmpdir_setup(void **state)
{
	struct tmpdir *t = malloc(sizeof(*t));

	if (t == NULL)
		return -1;
	tmpdir_make(t);
	*state = t;
	return 0;
}

int tmpdir_teardown(void **state)
{
	struct tmpdir *t = *state;

	tmpdir_remove(t);
	free(t);
	return 0;
}

void tmpdir_put(int dirfd, const char *name, const void *p, size_t n)
{
	int fd =
	    openat(dirfd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	if (fd < 0)
		give_up("open", name);
	while (n > 0) {
		ssize_t r = write(fd, p, n);

		if (r <= 0)
			give_up("write", name);
		p = (const char *)p + r;
		n -= (size_t)r;
	}
	if (close(fd) < 0)
		give_up("close", name);
}

void tmpdir_put_str(int dirfd, const char *name, const char *s)
{
	tmpdir_put(dirfd, name, s, strlen(s));
}

char *tmpdir_get(int dirfd, const char *name, size_t *ret_n)
{
	int fd = openat(dirfd, name, O_RDONLY | O_CLOEXEC);
	struct stat st;
	char *p = NULL;
	size_t n = 0;

	if (fd < 0 && errno == ENOENT)
		return NULL;
	if (fd < 0 || fstat(fd, &st) < 0)
		give_up("open", name);
	p = malloc((size_t)st.st_size + 1);
	if (p == NULL)
		give_up("read", name);
	while (n < (size_t)st.st_size) {
		ssize_t r = read(fd, p + n, (size_t)st.st_size - n);

		if (r <= 0)
			give_up("read", name);
		n += (size_t)r;
	}
	(void)close(fd);
	p[n] = '\0';
	if (ret_n != NULL)
		*ret_n = n;
	return p;
}

size_t tmpdir_count(int dirfd, const char *text)
{
	int fd = openat(dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *entry = NULL;
	size_t count = 0;

	if (d == NULL)
		give_up("read", "a directory");
	/* NOLINTNEXTLINE(concurrency-mt-unsafe): d is ours alone */
	while ((entry = readdir(d)) != NULL) {
		const char *name = entry->d_name;

		if (strcmp(name, ".") != 0 && strcmp(name, "..") != 0 &&
		    strstr(name, text) != NULL)
			count++;
	}
	(void)closedir(d);
	return count;
}

size_t tmpdir_open_fds(void)
{
	int fd = open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	size_t count = 0;

	if (fd < 0)
		give_up("open", "/proc/self/fd");
	count = tmpdir_count(fd, "");
	(void)close(fd);
	return count - 2; /* this one and that of tmpdir_count */
}
