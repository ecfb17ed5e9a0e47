/* SPDX-License-Identifier: MIT */
/*
 * bench_run COMMAND [ARGUMENT...]: run it and print one line:
 *     WALL-SECONDS CPU-SECONDS PEAK-ANONYMOUS-KIB
 *
 * The peak is the largest RssAnon of /proc/PID/status, of the program and its
 * children together, looked at every 5 ms: what they took for themselves,
 * without files that happen to be mapped.
 * Exits as the command does.
 */
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define LOOK_EVERY_NS 5000000

static double now(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

/* Of pid and all that it started, as far as they can be seen. */
static uint64_t anonymous_kib(pid_t pid)
{
	char path[64];
	char line[256];
	uint64_t kib = 0;
	int child = 0;
	FILE *f = NULL;

	(void)snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	f = fopen(path, "re");
	if (f == NULL)
		return 0;
	while (fgets(line, sizeof(line), f) != NULL)
		if (strncmp(line, "RssAnon:", 8) == 0)
			kib = strtoull(line + 8, NULL, 10);
	(void)fclose(f);
	(void)snprintf(path, sizeof(path), "/proc/%d/task/%d/children",
	    (int)pid, (int)pid);
	f = fopen(path, "re");
	if (f == NULL)
		return kib;
	while (fscanf(f, "%d", &child) == 1)
		kib += anonymous_kib(child);
	(void)fclose(f);
	return kib;
}

static double seconds(const struct timeval *t)
{
	return (double)t->tv_sec + (double)t->tv_usec / 1e6;
}

int main(int argc, char **argv)
{
	const struct timespec pause = { .tv_nsec = LOOK_EVERY_NS };
	struct rusage usage;
	uint64_t peak = 0;
	double begin = now();
	int status = 0;
	pid_t pid = 0;

	if (argc < 2) {
		(void)fprintf(stderr, "usage: bench_run COMMAND...\n");
		return 2;
	}
	pid = fork();
	if (pid < 0) {
		perror("fork");
		return 1;
	}
	if (pid == 0) {
		(void)execvp(argv[1], argv + 1);
		perror(argv[1]);
		_exit(127);
	}
	while (wait4(pid, &status, WNOHANG, &usage) == 0) {
		uint64_t kib = anonymous_kib(pid);

		if (kib > peak)
			peak = kib;
		(void)nanosleep(&pause, NULL);
	}
	(void)fprintf(stderr, "%.3f %.3f %" PRIu64 "\n", now() - begin,
	    seconds(&usage.ru_utime) + seconds(&usage.ru_stime), peak);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}
