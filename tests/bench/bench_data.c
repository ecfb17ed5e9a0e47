/* SPDX-License-Identifier: MIT */
/*
 * bench_data: data to back up, the same bytes each time.
 *
 *   bench_data tree DIR FILES BYTES    40 files in a directory, 25 directories
 *       in another one; sizes from an eighth to ten times the average; of ten
 *       files six are text, two are records, one is incompressible, and one is
 *       what another file was
 *   bench_data change-tree DIR FILES SEED    of 1000 files 6 get a line in
 *       their middle, 2 go, 2 are new
 *   bench_data image FILE BYTES    pieces of 64 KiB to 4 MiB: 45 % are
 *       incompressible, 25 % text, 10 % a copy of something before, 20 % holes
 *   bench_data change-image FILE SEED    1 % of the blocks of 4 KiB, in runs
 *       of 1 to 31
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define BLOCK ((uint64_t)4096)
#define PIECE_MAX (1024 * BLOCK)
#define WORDS 8192

struct gen {
	uint64_t state;
};

static char words[WORDS][12];
static uint8_t piece[PIECE_MAX];

/* xorshift64* */
static uint64_t next(struct gen *g)
{
	g->state ^= g->state >> 12;
	g->state ^= g->state << 25;
	g->state ^= g->state >> 27;
	return g->state * 0x2545f4914f6cdd1dULL;
}

static struct gen seeded(uint64_t seed)
{
	struct gen g = { (seed + 1) * 0x9e3779b97f4a7c15ULL };

	(void)next(&g);
	return g;
}

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static void make_words(void)
{
	struct gen g = seeded(4711);

	for (size_t i = 0; i < WORDS; i++) {
		size_t n = 2 + next(&g) % 9;

		for (size_t k = 0; k < n; k++)
			words[i][k] = "etaoinsrhldcumfpgwybvk"[next(&g) % 22];
	}
}

/* Lines of words, some of which are frequent. */
static void fill_text(struct gen *g, uint8_t *p, size_t n)
{
	size_t at = 0;

	while (at < n) {
		uint64_t r = next(g);
		uint64_t rank = (r & 0x1fff) * (r >> 13 & 0x1fff) >> 13;
		const char *w = words[rank];
		size_t len = strlen(w);

		for (size_t k = 0; k < len && at < n; k++)
			p[at++] = (uint8_t)w[k];
		if (at < n)
			p[at++] = r >> 60 == 0 ? '\n' : ' ';
	}
}

static void fill_random(struct gen *g, uint8_t *p, size_t n)
{
	for (size_t at = 0; at < n; at += 8) {
		uint64_t r = next(g);

		memcpy(p + at, &r, n - at < 8 ? n - at : 8);
	}
}

/* Records of 32 bytes: a number that grows, a few bits of noise, zeros. */
static void fill_records(struct gen *g, uint8_t *p, size_t n)
{
	memset(p, 0, n);
	for (size_t at = 0; at + 32 <= n; at += 32) {
		uint64_t r = next(g);
		uint32_t count = (uint32_t)at;

		memcpy(p + at, &count, 4);
		memcpy(p + at + 8, &r, 5);
	}
}

static void put(int fd, const uint8_t *p, size_t n, uint64_t at)
{
	while (n > 0) {
		ssize_t w = pwrite(fd, p, n, (off_t)at);

		if (w <= 0)
			die("write");
		p += w;
		n -= (size_t)w;
		at += (uint64_t)w;
	}
}

static int make(const char *path)
{
	int fd = open(
	    path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644);

	if (fd < 0)
		die(path);
	return fd;
}

static void done(int fd)
{
	if (close(fd) < 0)
		die("close");
}

static void path_of(const char *dir, uint64_t i, char *path, size_t size)
{
	(void)snprintf(path, size, "%s/d%03d/d%02d/f%07d", dir, (int)(i / 1000),
	    (int)(i / 40 % 25), (int)i);
}

/* Half are small, some are large; the mean is what was asked for. */
static uint64_t size_of(struct gen *g, uint64_t mean)
{
	static const unsigned eighths[20] = { 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 6,
		6, 6, 6, 6, 6, 16, 16, 16, 56 };
	uint64_t size = mean * eighths[next(g) % 20] / 8;

	return size / 2 + next(g) % (size + 1);
}

static void write_file(const char *path, uint64_t seed, uint64_t mean)
{
	struct gen g = seeded(seed);
	unsigned kind = (unsigned)(next(&g) % 9);
	uint64_t size = size_of(&g, mean);
	int fd = make(path);

	for (uint64_t at = 0; at < size; at += PIECE_MAX) {
		size_t n = size - at < PIECE_MAX ? size - at : PIECE_MAX;

		if (kind < 6)
			fill_text(&g, piece, n);
		else if (kind < 8)
			fill_records(&g, piece, n);
		else
			fill_random(&g, piece, n);
		put(fd, piece, n, at);
	}
	done(fd);
}

static void make_tree(const char *dir, uint64_t files, uint64_t bytes)
{
	struct gen g = seeded(1);
	char path[4096];

	(void)mkdir(dir, 0755);
	for (uint64_t i = 0; i < files; i++) {
		uint64_t seed = i;

		if (i % 1000 == 0) {
			(void)snprintf(path, sizeof(path), "%s/d%03d", dir,
			    (int)(i / 1000));
			(void)mkdir(path, 0755);
		}
		if (i % 40 == 0) {
			(void)snprintf(path, sizeof(path), "%s/d%03d/d%02d",
			    dir, (int)(i / 1000), (int)(i / 40 % 25));
			(void)mkdir(path, 0755);
		}
		if (i > 0 && next(&g) % 10 == 0)
			seed = next(&g) % i;
		path_of(dir, i, path, sizeof(path));
		write_file(path, 1000 + seed, bytes / files);
	}
}

static void insert_line(const char *path, uint64_t seed)
{
	static uint8_t rest[64 << 20];
	char line[64];
	struct stat st;
	int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	ssize_t n = 0;

	if (fd < 0)
		return; /* an earlier change took it away */
	if (fstat(fd, &st) < 0)
		die(path);
	n = pread(fd, rest, sizeof(rest), st.st_size / 2);
	if (n < 0)
		die(path);
	(void)snprintf(
	    line, sizeof(line), "\nchange %llu\n", (unsigned long long)seed);
	put(fd, (const uint8_t *)line, strlen(line), (uint64_t)st.st_size / 2);
	put(fd, rest, (size_t)n, (uint64_t)st.st_size / 2 + strlen(line));
	done(fd);
}

static void change_tree(const char *dir, uint64_t files, uint64_t seed)
{
	struct gen g = seeded(1000000007 + seed);
	char path[4096];

	for (uint64_t i = 0; i < files; i++) {
		uint64_t r = next(&g) % 1000;

		path_of(dir, i, path, sizeof(path) - 32);
		if (r < 6) {
			insert_line(path, seed * 1000000 + i);
		} else if (r < 8) {
			(void)unlink(path);
		} else if (r < 10) {
			(void)snprintf(
			    path + strlen(path), 32, ".new%d", (int)seed);
			write_file(path, next(&g), 16384);
		}
	}
}

static void make_image(const char *path, uint64_t size)
{
	struct gen g = seeded(2);
	int fd = make(path);

	if (ftruncate(fd, (off_t)size) < 0)
		die(path);
	for (uint64_t at = 0; at < size;) {
		uint64_t n = (16 + next(&g) % 1008) * BLOCK;
		uint64_t kind = next(&g) % 100;

		if (n > size - at)
			n = size - at;
		if (kind < 45)
			fill_random(&g, piece, n);
		else if (kind < 70)
			fill_text(&g, piece, n);
		else if (kind < 80 && at > n &&
		    pread(fd, piece, n,
			(off_t)(next(&g) % (at - n) / BLOCK * BLOCK)) !=
			(ssize_t)n)
			die(path);
		if (kind < 80)
			put(fd, piece, n, at);
		at += n;
	}
	done(fd);
}

static void change_image(const char *path, uint64_t seed)
{
	struct gen g = seeded(2000000011 + seed);
	struct stat st;
	int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	uint64_t blocks = 0;
	uint64_t left = 0;

	if (fd < 0 || fstat(fd, &st) < 0)
		die(path);
	blocks = (uint64_t)st.st_size / BLOCK;
	for (left = blocks / 100; left > 0;) {
		uint64_t run = 1 + next(&g) % 31;

		run = run < left ? run : left;
		fill_random(&g, piece, run * BLOCK);
		put(fd, piece, run * BLOCK,
		    next(&g) % (blocks - run + 1) * BLOCK);
		left -= run;
	}
	done(fd);
}

int main(int argc, char **argv)
{
	uint64_t a = argc > 3 ? strtoull(argv[3], NULL, 10) : 0;
	uint64_t b = argc > 4 ? strtoull(argv[4], NULL, 10) : 0;

	make_words();
	if (argc == 5 && strcmp(argv[1], "tree") == 0 && a > 0) {
		make_tree(argv[2], a, b);
	} else if (argc == 5 && strcmp(argv[1], "change-tree") == 0) {
		change_tree(argv[2], a, b);
	} else if (argc == 4 && strcmp(argv[1], "image") == 0) {
		make_image(argv[2], a);
	} else if (argc == 4 && strcmp(argv[1], "change-image") == 0) {
		change_image(argv[2], a);
	} else {
		(void)fprintf(stderr, "usage: see bench_data.c\n");
		return 2;
	}
	return 0;
}
