/* SPDX-License-Identifier: MIT */
/*
 * ref_touch STORE: the mark of a garbage collection in the plainest way, to
 * compare with: every index file below STORE, in order of path; every
 * reference in index order; what a memory of the last 1 Mi digests does not
 * know is touched by its full path.  Nothing of cairn's is in it.  Prints
 *     SECONDS CPU-SECONDS REFERENCES TOUCHES MISSING
 */
#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define DIGEST 32
#define HEADER 4096
#define LRU (1U << 20)
#define BUCKETS (1U << 21)
#define NONE UINT32_MAX
#define PIECE (4096 * 40 * 32) /* a multiple of both sizes of an entry */

struct node {
	unsigned char d[DIGEST];
	uint32_t chain, newer, older;
};

static struct node *nodes;
static uint32_t *buckets;
static uint32_t used, newest = NONE, oldest = NONE;
static uint64_t references, touches, missing;
static const char *store;

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static uint32_t bucket_of(const unsigned char *d)
{
	uint32_t v;

	memcpy(&v, d + 8, sizeof(v));
	return v & (BUCKETS - 1);
}

static void take_out(uint32_t i)
{
	struct node *n = &nodes[i];

	*(n->newer == NONE ? &newest : &nodes[n->newer].older) = n->older;
	*(n->older == NONE ? &oldest : &nodes[n->older].newer) = n->newer;
}

static void put_first(uint32_t i)
{
	nodes[i].newer = NONE;
	nodes[i].older = newest;
	*(newest == NONE ? &oldest : &nodes[newest].newer) = i;
	newest = i;
}

/* Is it known?  If not, it is from now on, and the oldest one is not. */
static int known(const unsigned char *d)
{
	uint32_t *b = &buckets[bucket_of(d)];
	uint32_t i = *b;

	while (i != NONE && memcmp(nodes[i].d, d, DIGEST) != 0)
		i = nodes[i].chain;
	if (i != NONE) {
		take_out(i);
		put_first(i);
		return 1;
	}
	i = used;
	if (used < LRU) {
		used++;
	} else {
		uint32_t *p = &buckets[bucket_of(nodes[oldest].d)];

		i = oldest;
		while (*p != i)
			p = &nodes[*p].chain;
		*p = nodes[i].chain;
		take_out(i);
	}
	memcpy(nodes[i].d, d, DIGEST);
	nodes[i].chain = *b;
	*b = i;
	put_first(i);
	return 0;
}

static void touch(const unsigned char *d)
{
	static const char digits[] = "0123456789abcdef";
	const struct timespec times[2] = { { 0, UTIME_NOW },
		{ 0, UTIME_OMIT } };
	char hex[2 * DIGEST + 1];
	char path[4096];

	for (int i = 0; i < DIGEST; i++) {
		hex[2 * i] = digits[d[i] >> 4];
		hex[2 * i + 1] = digits[d[i] & 15];
	}
	hex[2 * DIGEST] = '\0';
	(void)snprintf(
	    path, sizeof(path), "%s/.chunks/%.4s/%s", store, hex, hex);
	touches++;
	if (utimensat(AT_FDCWD, path, times, AT_SYMLINK_NOFOLLOW) == 0)
		return;
	if (errno != ENOENT)
		die(path);
	missing++;
}

static void read_index(const char *path, size_t size, unsigned char *piece)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	off_t at = HEADER;
	ssize_t n = 0;

	if (fd < 0)
		die(path);
	while ((n = pread(fd, piece, PIECE, at)) > 0) {
		for (ssize_t i = 0; i + (ssize_t)size <= n;
		     i += (ssize_t)size) {
			const unsigned char *d = piece + i + size - DIGEST;

			references++;
			if (!known(d))
				touch(d);
		}
		at += n;
	}
	if (n < 0)
		die(path);
	(void)close(fd);
}

static int by_name(const FTSENT **a, const FTSENT **b)
{
	return strcmp((*a)->fts_name, (*b)->fts_name);
}

int main(int argc, char **argv)
{
	char *paths[] = { argc > 1 ? argv[1] : NULL, NULL };
	unsigned char *piece = malloc(PIECE);
	struct timespec a, b, c;
	FTS *fts = NULL;

	nodes = malloc(LRU * sizeof(*nodes));
	buckets = malloc(BUCKETS * sizeof(*buckets));
	if (argc != 2 || nodes == NULL || buckets == NULL || piece == NULL)
		die("usage: ref_touch STORE");
	store = argv[1];
	memset(buckets, 0xff, BUCKETS * sizeof(*buckets));
	(void)clock_gettime(CLOCK_MONOTONIC, &a);
	fts = fts_open(paths, FTS_PHYSICAL | FTS_NOSTAT | FTS_NOCHDIR, by_name);
	for (FTSENT *f = NULL; fts != NULL && (f = fts_read(fts)) != NULL;) {
		const char *dot = strrchr(f->fts_name, '.');

		if (f->fts_level > 0 && f->fts_name[0] == '.')
			(void)fts_set(fts, f, FTS_SKIP);
		else if (dot != NULL && strcmp(dot, ".fidx") == 0)
			read_index(f->fts_accpath, 32, piece);
		else if (dot != NULL && strcmp(dot, ".didx") == 0)
			read_index(f->fts_accpath, 40, piece);
	}
	(void)clock_gettime(CLOCK_MONOTONIC, &b);
	(void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &c);
	printf("%.3f %.3f %llu %llu %llu\n",
	    (double)(b.tv_sec - a.tv_sec) +
		(double)(b.tv_nsec - a.tv_nsec) / 1e9,
	    (double)c.tv_sec + (double)c.tv_nsec / 1e9,
	    (unsigned long long)references, (unsigned long long)touches,
	    (unsigned long long)missing);
	return 0;
}
