/* SPDX-License-Identifier: MIT */
/*
 * replay: feeds each file of the directories named to a fuzz target, so that
 * what a fuzzer once found stays found, with any compiler.
 */
#include <dirent.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define INPUT_MAX (64U << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

_Noreturn static void give_up(const char *what, const char *name)
{
	(void)fprintf(stderr, "replay: %s ", what);
	perror(name);
	exit(2);
}

static void feed(int dirfd, const char *name)
{
	int fd = openat(dirfd, name, O_RDONLY | O_CLOEXEC);
	struct stat st;
	uint8_t *p = NULL;
	size_t n = 0;
	size_t got = 0;

	if (fd < 0 || fstat(fd, &st) < 0)
		give_up("open", name);
	if (!S_ISREG(st.st_mode) || st.st_size > (off_t)INPUT_MAX)
		give_up("no input:", name);
	n = (size_t)st.st_size;
	p = malloc(n > 0 ? n : 1);
	if (p == NULL)
		give_up("read", name);
	while (got < n) {
		ssize_t r = read(fd, p + got, n - got);

		if (r <= 0)
			give_up("read", name);
		got += (size_t)r;
	}
	(void)close(fd);
	/* Whatever it does to us, this is who did it. */
	(void)fprintf(stderr, "%s\n", name);
	(void)LLVMFuzzerTestOneInput(p, n);
	free(p);
}

static size_t feed_all(const char *path)
{
	DIR *d = opendir(path);
	const struct dirent *entry = NULL;
	size_t n = 0;

	if (d == NULL)
		give_up("read", path);
	/* NOLINTNEXTLINE(concurrency-mt-unsafe): d is ours alone */
	while ((entry = readdir(d)) != NULL) {
		if (entry->d_name[0] == '.')
			continue;
		feed(dirfd(d), entry->d_name);
		n++;
	}
	(void)closedir(d);
	return n;
}

int main(int argc, char **argv)
{
	size_t n = 0;

	for (int i = 1; i < argc; i++)
		n += feed_all(argv[i]);
	(void)fprintf(stderr, "%zu inputs\n", n);
	/* A corpus that is not found must not pass for a sound one. */
	return n > 0 ? 0 : 1;
}
