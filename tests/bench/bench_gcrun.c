/* SPDX-License-Identifier: MIT */
/*
 * bench_gcrun mark STORE BATCH: a garbage collection of cairn's up to the
 * sweep.  bench_gcrun sweep STORE: a sweep that finds nothing old.
 * bench_gcrun refsweep STORE: the plain way, names as they come, one by one.
 * Prints one line:
 *     SECONDS CPU-SECONDS ANONYMOUS-KIB utimensat=N openat=N statx=N getdents=N
 * and on standard error what the run says.
 */
#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "datastore/base/sysio.h"
#include "datastore/config.h"
#include "gc/gc.h"
#include "gc/sweep.h"

#define DAY 86400U

/* Calls of the run, whichever thread makes them. */
static atomic_uint_fast64_t touches, opens, stats, reads;
static uint64_t peak_kib;

static int count_utimensat(
    int dirfd, const char *name, const struct timespec times[2], int flags)
{
	touches++;
	return utimensat(dirfd, name, times, flags);
}

static int count_openat(int dirfd, const char *name, int flags, mode_t mode)
{
	opens++;
	return openat(dirfd, name, flags, mode);
}

static int count_statx(
    int dirfd, const char *name, int flags, unsigned mask, struct statx *st)
{
	stats++;
	return statx(dirfd, name, flags, mask, st);
}

static ssize_t count_getdents64(int fd, void *p, size_t n)
{
	reads++;
	return getdents64(fd, p, n);
}

static void die(const char *what)
{
	(void)fprintf(stderr, "%s\n", what);
	exit(1);
}

static void note_anonymous(void)
{
	char line[256];
	FILE *f = fopen("/proc/self/status", "re");

	while (f != NULL && fgets(line, sizeof(line), f) != NULL) {
		uint64_t kib = 0;

		if (strncmp(line, "RssAnon:", 8) == 0)
			kib = strtoull(line + 8, NULL, 10);
		if (kib > peak_kib)
			peak_kib = kib;
	}
	if (f != NULL)
		(void)fclose(f);
}

static double seconds(const struct timeval *t)
{
	return (double)t->tv_sec + (double)t->tv_usec / 1e6;
}

static double cpu(void)
{
	struct rusage u;

	(void)getrusage(RUSAGE_SELF, &u);
	return seconds(&u.ru_utime) + seconds(&u.ru_stime);
}

static double now(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static double ended, cpu_ended;

static void on_message(void *ctx, enum task_level level, const char *text)
{
	(void)ctx;
	(void)level;
	(void)fprintf(stderr, "%s\n", text);
}

/* Look at the memory now and then; stop where the sweep would begin. */
static void on_progress(void *ctx, const struct task_progress *p)
{
	struct task *task = ctx;
	static double looked;
	double t = now();

	if (t - looked > 0.05 || p->done == p->total) {
		looked = t;
		note_anonymous();
	}
	if (task != NULL && strcmp(p->phase, "gc: sweep") == 0 &&
	    task->stop == 0) {
		ended = now();
		cpu_ended = cpu();
		task->stop = 1;
	}
}

static void run_mark(struct datastore *ds, const char *batch)
{
	static const struct task_ops ops = {
		.message = on_message,
		.progress = on_progress,
	};
	struct task task = { .ops = &ops };
	/* Nobody has recorded what was pushed: no need to count for that. */
	struct gc_opts opts = { .cutoff_s = DAY, .accept_missing = true };
	struct gc_result r = { .warnings = 0 };
	struct err e = ERR_INIT;

	task.ctx = &task;
	if (settings_parse_touch_batch(batch, &opts.touch_batch, &e) < 0)
		die(e.msg);
	if (gc_run(ds, &opts, &task, &r, &e) == 0 || task.stop == 0)
		die(e.msg);
	(void)fprintf(stderr,
	    "references=%" PRIu64 " touched=%" PRIu64 " hits=%" PRIu64
	    " missing=%" PRIu64 "\n",
	    r.references, r.touched, r.seen_hits, r.missing_chunks);
}

static void run_sweep(struct datastore *ds)
{
	static const struct task_ops ops = {
		.message = on_message,
		.progress = on_progress,
	};
	struct task task = { .ops = &ops };
	struct sweep_opts opts = { .cutoff = 1, .start_of_mark = 1 };
	struct gc_result r = { .warnings = 0 };
	struct err e = ERR_INIT;
	filetime clock = INT64_MAX / 2;

	opts.file_clock = &clock;
	if (sweep_run(ds, &opts, &task, &r, &e) < 0)
		die(e.msg);
	(void)fprintf(stderr, "chunks=%" PRIu64 "\n", r.disk_chunks);
	ended = now();
	cpu_ended = cpu();
}

/* In the order of readdir, one look at a time. */
static void run_plain_sweep(int chunks_fd)
{
	uint64_t chunks = 0;
	char name[8];

	for (unsigned p = 0; p < STORE_PREFIXES; p++) {
		struct dirent *entry = NULL;
		DIR *d = NULL;
		int fd = -1;

		(void)snprintf(name, sizeof(name), "%04x", p);
		fd = openat(chunks_fd, name, O_RDONLY | O_DIRECTORY, 0);
		d = fd < 0 ? NULL : fdopendir(fd);
		while (d != NULL && (entry = readdir(d)) != NULL) {
			struct stat st;

			if (entry->d_name[0] != '.' &&
			    fstatat(fd, entry->d_name, &st,
				AT_SYMLINK_NOFOLLOW) == 0)
				chunks += st.st_atime > 1;
		}
		if (d != NULL)
			(void)closedir(d);
	}
	(void)fprintf(stderr, "chunks=%" PRIu64 "\n", chunks);
	ended = now();
	cpu_ended = cpu();
}

int main(int argc, char **argv)
{
	struct sysio_table table = sysio_real;
	struct datastore *ds = NULL;
	struct err e = ERR_INIT;
	double began = 0;
	double cpu_began = 0;

	if (argc < 3 || (strcmp(argv[1], "mark") == 0 && argc != 4))
		die("usage: see bench_gcrun.c");
	table.utimensat = count_utimensat;
	table.openat = count_openat;
	table.statx = count_statx;
	table.getdents64 = count_getdents64;
	sysio_table = &table;
	if (datastore_open(argv[2], DATASTORE_GC, NULL, &ds, &e) < 0)
		die(e.msg);
	began = now();
	cpu_began = cpu();
	if (strcmp(argv[1], "mark") == 0) {
		run_mark(ds, argv[3]);
	} else if (strcmp(argv[1], "sweep") == 0) {
		run_sweep(ds);
	} else {
		run_plain_sweep(ds->chunks_fd);
	}
	printf("%.3f %.3f %" PRIu64 " utimensat=%" PRIu64 " openat=%" PRIu64
	       " statx=%" PRIu64 " getdents=%" PRIu64 "\n",
	    ended - began, cpu_ended - cpu_began, peak_kib, touches, opens,
	    stats, reads);
	datastore_close(ds);
	sysio_table = &sysio_real;
	return 0;
}
