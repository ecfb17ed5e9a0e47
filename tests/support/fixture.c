/* SPDX-License-Identifier: MIT */
#include "tests/support/fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define PREFIXES 65536U

_Noreturn static void give_up(const char *what, const char *name)
{
	(void)fprintf(stderr, "fixture: %s ", what);
	perror(name);
	abort();
}

void fixture_unpack(const char *tar, const char *dir)
{
	int status = 0;
	pid_t pid = fork();

	if (pid < 0)
		give_up("fork for", tar);
	if (pid == 0) {
		(void)execlp("tar", "tar", "-xzpf", tar, "-C", dir,
		    "--no-same-owner", (char *)NULL);
		give_up("run", "tar");
	}
	if (waitpid(pid, &status, 0) != pid)
		give_up("wait for", "tar");
	if (status != 0) {
		(void)fprintf(stderr, "fixture: tar of %s ended with %#x\n",
		    tar, (unsigned)status);
		abort();
	}
}

void fixture_make_prefixes(const char *store)
{
	int root = open(store, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int fd = -1;

	if (root >= 0) {
		fd =
		    openat(root, ".chunks", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	}
	if (fd < 0)
		give_up("open", store);
	for (unsigned i = 0; i < PREFIXES; i++) {
		char name[8];

		(void)snprintf(name, sizeof(name), "%04x", i);
		if (mkdirat(fd, name, 0750) < 0 && errno != EEXIST)
			give_up("make", name);
	}
	(void)close(fd);
	(void)close(root);
}
