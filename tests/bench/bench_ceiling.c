/* SPDX-License-Identifier: MIT */
/*
 * bench_ceiling: what the cores of this machine can do at most of what a push
 * must do with each new byte: read it, SHA-256, zstd.
 *
 *     bench_ceiling [--threads N] [--level N] [--piece KIB] [--skip-zeros] FILE
 *
 * Each thread takes the next piece of the file, reads, hashes and compresses
 * it, keeps nothing and waits for nobody.  Nothing of cairn is in it.  So
 * MB/s of a push, over MB/s of this with the same file, level and piece, says
 * how much of the machine the push uses.  --skip-zeros: a piece of nothing but
 * zeros is neither worked on nor counted, as a push needs it once at most.
 * On a machine that is not idle compare CPU seconds.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <openssl/evp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <zstd.h>

#define THREADS_MAX 256L
#define LEVEL_DEFAULT 3
#define PIECE_DEFAULT_KIB 1024L

struct bench {
	int fd;
	uint64_t size;
	size_t piece;
	int level;
	bool skip_zeros;
	atomic_uint_fast64_t next;  /* number of the next piece */
	atomic_uint_fast64_t bytes; /* hashed and compressed */
	atomic_uint_fast64_t out;   /* compressed to */
};

_Noreturn static void die(const char *what)
{
	perror(what);
	exit(1);
}

static bool is_zero(const uint8_t *p, size_t n)
{
	return p[0] == 0 && memcmp(p, p + 1, n - 1) == 0;
}

static size_t read_piece(const struct bench *b, uint64_t at, uint8_t *p)
{
	size_t got = 0;

	while (got < b->piece) {
		ssize_t r =
		    pread(b->fd, p + got, b->piece - got, (off_t)(at + got));

		if (r < 0 && errno == EINTR)
			continue;
		if (r < 0)
			die("read");
		if (r == 0)
			break;
		got += (size_t)r;
	}
	return got;
}

static void *run(void *arg)
{
	struct bench *b = arg;
	size_t room = ZSTD_compressBound(b->piece);
	uint8_t *in = malloc(b->piece);
	uint8_t *out = malloc(room);
	ZSTD_CCtx *zstd = ZSTD_createCCtx();

	if (in == NULL || out == NULL || zstd == NULL)
		die("memory");
	for (;;) {
		uint64_t at = atomic_fetch_add(&b->next, 1) * b->piece;
		uint8_t digest[EVP_MAX_MD_SIZE];
		size_t n = at < b->size ? read_piece(b, at, in) : 0;
		size_t got = 0;

		if (n == 0)
			break;
		if (b->skip_zeros && is_zero(in, n))
			continue;
		if (EVP_Digest(in, n, digest, NULL, EVP_sha256(), NULL) != 1)
			die("digest");
		got = ZSTD_compressCCtx(zstd, out, room, in, n, b->level);
		if (ZSTD_isError(got))
			die("compress");
		atomic_fetch_add(&b->bytes, n);
		atomic_fetch_add(&b->out, got);
	}
	ZSTD_freeCCtx(zstd);
	free(in);
	free(out);
	return NULL;
}

static double now(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

/* Of all threads, in user and kernel mode. */
static double cpu_seconds(void)
{
	struct rusage u;

	(void)getrusage(RUSAGE_SELF, &u);
	return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
	    (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

static double run_threads(struct bench *b, long n)
{
	pthread_t threads[THREADS_MAX];
	double start = now();

	for (long i = 0; i < n; i++) {
		if (pthread_create(&threads[i], NULL, run, b) != 0)
			die("thread");
	}
	for (long i = 0; i < n; i++)
		(void)pthread_join(threads[i], NULL);
	return now() - start;
}

static long number(const char *s, long min, long max)
{
	char *end = NULL;
	long n = strtol(s, &end, 10);

	if (*s == '\0' || *end != '\0' || n < min || n > max) {
		(void)fprintf(stderr,
		    "bench_ceiling: '%s': want a number from %ld to %ld\n", s,
		    min, max);
		exit(2);
	}
	return n;
}

static long parse(struct bench *b, int argc, char **argv)
{
	static const struct option options[] = {
		{ "threads", required_argument, NULL, 't' },
		{ "level", required_argument, NULL, 'l' },
		{ "piece", required_argument, NULL, 'p' },
		{ "skip-zeros", no_argument, NULL, 'z' },
		{ NULL, 0, NULL, 0 },
	};
	long threads = sysconf(_SC_NPROCESSORS_ONLN);
	int c = 0;

	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (c == 't') {
			threads = number(optarg, 1, THREADS_MAX);
		} else if (c == 'l') {
			b->level = (int)number(optarg, 1, 19);
		} else if (c == 'p') {
			b->piece = (size_t)number(optarg, 1, 65536) << 10;
		} else if (c == 'z') {
			b->skip_zeros = true;
		} else {
			exit(2);
		}
	}
	if (argc - optind != 1) {
		(void)fprintf(stderr, "bench_ceiling: want one FILE\n");
		exit(2);
	}
	return threads;
}

int main(int argc, char **argv)
{
	struct bench b = { .level = LEVEL_DEFAULT,
		.piece = (size_t)PIECE_DEFAULT_KIB << 10 };
	long threads = parse(&b, argc, argv);
	struct stat st;
	uint64_t bytes = 0;
	double seconds = 0;

	b.fd = open(argv[optind], O_RDONLY | O_CLOEXEC);
	if (b.fd < 0 || fstat(b.fd, &st) < 0)
		die(argv[optind]);
	b.size = (uint64_t)st.st_size;
	seconds = run_threads(&b, threads);
	bytes = atomic_load(&b.bytes);
	printf("%" PRIu64 " bytes, %" PRIu64 " compressed, %.3f s, %.3f CPU s, "
	       "%ld threads, level %d, piece %zu KiB: %.1f MB/s\n",
	    bytes, atomic_load(&b.out), seconds, cpu_seconds(), threads,
	    b.level, b.piece >> 10, (double)bytes / 1e6 / seconds);
	return 0;
}
