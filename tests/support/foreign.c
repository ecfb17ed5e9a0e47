/* SPDX-License-Identifier: MIT */
#include "tests/support/foreign.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

_Noreturn static void give_up(const char *what)
{
	perror(what);
	abort();
}

/* In the child: 0, or errno.  The descriptor stays open for its life. */
static int take(int dirfd, const char *name, const struct foreign_lock *lock)
{
	struct flock l = {
		.l_type = lock->type,
		.l_whence = SEEK_SET,
		.l_start = lock->start,
		.l_len = lock->len,
	};
	int cmd = lock->classic ? F_SETLK : F_OFD_SETLK;
	int fd = openat(dirfd, name, O_RDWR | O_CLOEXEC);

	if (fd < 0 || fcntl(fd, cmd, &l) < 0)
		return errno;
	return 0;
}

bool foreign_can(int dirfd, const char *name, const struct foreign_lock *lock)
{
	int status = 0;
	pid_t pid = fork();

	if (pid == 0)
		_exit(take(dirfd, name, lock));
	if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
		give_up("foreign lock");
	errno = WEXITSTATUS(status);
	if (errno != 0 && errno != EAGAIN && errno != EACCES)
		give_up("foreign lock");
	return errno == 0;
}

bool foreign_can_byte(int dirfd, const char *name, uint64_t byte, short type)
{
	struct foreign_lock lock = {
		.type = type,
		.start = (off_t)byte,
		.len = 1,
	};

	return foreign_can(dirfd, name, &lock);
}

void foreign_start(int dirfd, const char *name, const struct foreign_lock *lock,
    struct foreign_holder *ret)
{
	int ready[2];
	int stop[2];
	unsigned char answer = 1;

	if (pipe2(ready, O_CLOEXEC) < 0 || pipe2(stop, O_CLOEXEC) < 0)
		give_up("foreign holder");
	ret->pid = fork();
	if (ret->pid < 0)
		give_up("foreign holder");
	if (ret->pid == 0) {
		(void)close(stop[1]);
		answer = (unsigned char)take(dirfd, name, lock);
		(void)!write(ready[1], &answer, 1);
		(void)!read(stop[0], &answer, 1);
		_exit(0);
	}
	(void)close(ready[1]);
	(void)close(stop[0]);
	ret->to = stop[1];
	if (read(ready[0], &answer, 1) != 1 || answer != 0) {
		errno = answer;
		give_up("foreign holder");
	}
	(void)close(ready[0]);
}

void foreign_end(struct foreign_holder *h)
{
	(void)close(h->to);
	if (waitpid(h->pid, NULL, 0) != h->pid)
		give_up("foreign holder");
}
