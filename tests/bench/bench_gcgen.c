/* SPDX-License-Identifier: MIT */
/*
 * bench_gcgen: stores to measure garbage collection with, made quickly.
 *
 *     bench_gcgen chunks CHUNKS-DIR N
 *         N chunk files of 1 KiB, number 0 first; a prefix directory is made
 *         when it is first needed; nothing is synced
 *     bench_gcgen index ROOT N fresh|aged
 *         20 index files below ROOT that reference all N: 10 snapshots of a
 *         disk (.fidx), 10 of a tree (.didx), each sharing 80 to 95 % with
 *         the one before it.  fresh: new chunks stand in an index in the
 *         order in which they were made; aged: in any order.
 *     bench_gcgen floor CHUNKS-DIR
 *         prints how many blocks of 4096 the prefix directories have, and how
 *         many the inodes of chunks lie in, at 256 bytes each (ext4)
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "datastore/base/bytes.h"
#include "datastore/base/digest.h"
#include "datastore/base/file.h"
#include "index/idxformat.h"

#define SNAPSHOTS 10U
#define CHUNK_BYTES 1024U
#define IMAGE_CHUNK (4U << 20)
#define FIRST_DAY 10U

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static uint64_t mix(uint64_t x)
{
	x += UINT64_C(0x9e3779b97f4a7c15);
	x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
	return x ^ (x >> 31);
}

static struct digest digest_number(uint64_t n)
{
	struct digest d = { { 0 } };

	for (size_t i = 0; i < DIGEST_SIZE; i += 8)
		bytes_put_le64(d.b + i, mix(n * 4 + i / 8));
	return d;
}

static void make_chunks(const char *dir, uint64_t n)
{
	uint8_t content[CHUNK_BYTES];
	char hex[DIGEST_HEX_SIZE];
	char path[DIGEST_HEX_SIZE + 8];
	int dirfd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (dirfd < 0)
		die(dir);
	for (uint64_t i = 0; i < n; i++) {
		struct digest d = digest_number(i);
		int fd = -1;

		for (size_t k = 0; k < CHUNK_BYTES; k += 8)
			bytes_put_le64(content + k, mix(i ^ k << 40));
		digest_hex(&d, hex);
		(void)snprintf(path, sizeof(path), "%.4s", hex);
		if (i < 2000000)
			(void)mkdirat(dirfd, path, 0750);
		(void)snprintf(path, sizeof(path), "%.4s/%s", hex, hex);
		fd = openat(dirfd, path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
		if (fd < 0 || write(fd, content, CHUNK_BYTES) != CHUNK_BYTES)
			die(path);
		(void)close(fd);
	}
}

/* One archive as it changes: numbers of chunks, in order. */
struct archive {
	enum idx_kind kind;
	uint32_t *list;
	size_t n;
	uint32_t next; /* new chunk */
	uint32_t end;  /* of the numbers it may use */
	uint64_t random;
	const uint32_t *names; /* NULL: a number is its name */
};

static uint64_t below(struct archive *a, uint64_t n)
{
	a->random = mix(a->random);
	return a->random % n;
}

/* Runs of entries are replaced until `change` were; in a tree by more or
 * fewer than there were. */
static void change(struct archive *a, size_t left)
{
	size_t cap = a->n + 2 * left + 64;
	uint32_t *to = calloc(cap, sizeof(*to));
	size_t runs = left / 32 + 1;
	size_t gap = a->n / runs;
	size_t n = 0;

	if (to == NULL)
		die("memory");
	for (size_t i = 0; i < a->n;) {
		size_t keep = gap > 32 ? gap - 32 : 1;
		size_t gone = 32;
		size_t fresh = 32;

		for (; keep > 0 && i < a->n; keep--)
			to[n++] = a->list[i++];
		if (a->kind == IDX_DYNAMIC)
			fresh = 24 + below(a, 17);
		for (; gone > 0 && i < a->n; gone--)
			i++;
		for (; fresh > 0 && a->next < a->end && left > 0; fresh--) {
			to[n++] = a->next++;
			left--;
		}
	}
	free(a->list);
	a->list = to;
	a->n = n;
}

static void write_index(const struct archive *a, const char *path, unsigned k)
{
	size_t each = idx_entry_size(a->kind);
	uint8_t *p = calloc(1, IDX_HEADER_SIZE + a->n * each);
	struct err e = ERR_INIT;
	struct idx_info info = {
		.kind = a->kind,
		.ctime = 1800000000 + k,
		.size = (uint64_t)a->n * IMAGE_CHUNK,
		.chunk_size = a->kind == IDX_FIXED ? IMAGE_CHUNK : 0,
		.count = a->n,
	};
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	if (p == NULL || fd < 0)
		die(path);
	for (size_t i = 0; i < a->n; i++) {
		struct idx_entry entry = { .end = (i + 1) * IMAGE_CHUNK };

		entry.digest = digest_number(
		    a->names == NULL ? a->list[i] : a->names[a->list[i]]);
		idx_entry_encode(
		    a->kind, &entry, p + IDX_HEADER_SIZE + i * each);
	}
	bytes_put_le64(info.uuid, mix(k + (uint64_t)a->end));
	if (digest_of(p + IDX_HEADER_SIZE, a->n * each, &info.csum, &e) < 0)
		die(e.msg);
	idx_header_encode(&info, p);
	if (file_write_fully(fd, p, IDX_HEADER_SIZE + a->n * each, path, &e) <
	    0)
		die(e.msg);
	(void)close(fd);
	free(p);
}

static void make_dir(const char *path)
{
	if (mkdir(path, 0755) < 0)
		die(path);
}

/* Ten snapshots of one archive below root/type/id. */
static void make_group(struct archive *a, const char *root, const char *type)
{
	static const unsigned changes[] = { 5, 10, 15, 20 }; /* per cent */
	char dir[1024];
	char path[2048];
	size_t all = a->end - a->next;
	size_t first = 0;
	unsigned sum = 100;

	for (unsigned k = 1; k < SNAPSHOTS; k++)
		sum += changes[k % 4];
	first = all * 100 / sum;
	a->list = calloc(first, sizeof(*a->list));
	if (a->list == NULL)
		die("memory");
	for (a->n = 0; a->n < first; a->n++)
		a->list[a->n] = a->next++;
	(void)snprintf(dir, sizeof(dir), "%s/%s", root, type);
	make_dir(dir);
	(void)snprintf(dir, sizeof(dir), "%s/%s/1", root, type);
	make_dir(dir);
	for (unsigned k = 0; k < SNAPSHOTS; k++) {
		if (k > 0)
			change(a, first * changes[k % 4] / 100);
		/* What rounding has left is appended to the last one. */
		while (k == SNAPSHOTS - 1 && a->next < a->end) {
			a->list =
			    reallocarray(a->list, a->n + 1, sizeof(*a->list));
			if (a->list == NULL)
				die("memory");
			a->list[a->n++] = a->next++;
		}
		(void)snprintf(dir, sizeof(dir),
		    "%s/%s/1/2027-01-%02uT00:00:00Z", root, type,
		    FIRST_DAY + k);
		make_dir(dir);
		(void)snprintf(path, sizeof(path), "%s/%s", dir,
		    a->kind == IDX_FIXED ? "disk.img.fidx" : "root.tar.didx");
		write_index(a, path, k);
	}
	free(a->list);
}

static uint32_t *shuffled(uint32_t n)
{
	uint32_t *p = calloc(n, sizeof(*p));
	uint64_t random = 42;

	if (p == NULL)
		die("memory");
	for (uint32_t i = 0; i < n; i++) {
		uint32_t k = 0;

		random = mix(random);
		k = (uint32_t)(random % (i + 1));
		p[i] = p[k];
		p[k] = i;
	}
	return p;
}

struct floor {
	uint64_t directories;
	uint64_t blocks;
	uint8_t *seen; /* a bit per block of inodes */
	uint64_t seen_n;
};

static void count_inode(struct floor *f, uint64_t ino)
{
	uint64_t block = (ino - 1) / 16;

	if (block / 8 >= f->seen_n) {
		uint64_t n = block / 4 + 4096;

		f->seen = realloc(f->seen, n);
		if (f->seen == NULL)
			die("memory");
		memset(f->seen + f->seen_n, 0, n - f->seen_n);
		f->seen_n = n;
	}
	if ((f->seen[block / 8] >> block % 8 & 1) == 0) {
		f->seen[block / 8] |= (uint8_t)(1U << block % 8);
		f->blocks++;
	}
}

static void count_floor(const char *dir)
{
	struct floor f = { .blocks = 0 };
	char path[4096];

	for (unsigned p = 0; p < 65536; p++) {
		struct dirent *entry = NULL;
		struct stat st;
		DIR *d = NULL;

		(void)snprintf(path, sizeof(path), "%s/%04x", dir, p);
		d = opendir(path);
		if (d == NULL)
			continue;
		if (stat(path, &st) == 0)
			f.directories += (uint64_t)(st.st_size + 4095) / 4096;
		while ((entry = readdir(d)) != NULL) {
			if (entry->d_name[0] != '.')
				count_inode(&f, entry->d_ino);
		}
		(void)closedir(d);
	}
	printf("%llu %llu\n", (unsigned long long)f.directories,
	    (unsigned long long)f.blocks);
	free(f.seen);
}

int main(int argc, char **argv)
{
	uint32_t n = argc > 3 ? (uint32_t)strtoul(argv[3], NULL, 10) : 0;
	uint32_t *names = NULL;

	if (argc == 4 && strcmp(argv[1], "chunks") == 0) {
		make_chunks(argv[2], n);
		return 0;
	}
	if (argc == 3 && strcmp(argv[1], "floor") == 0) {
		count_floor(argv[2]);
		return 0;
	}
	if (argc != 5 || strcmp(argv[1], "index") != 0) {
		(void)fprintf(stderr, "usage: see bench_gcgen.c\n");
		return 2;
	}
	if (strcmp(argv[4], "aged") == 0)
		names = shuffled(n);
	make_dir(argv[2]);
	make_group(
	    &(struct archive){
		.kind = IDX_FIXED, .end = n / 2, .random = 1, .names = names },
	    argv[2], "vm");
	make_group(&(struct archive){ .kind = IDX_DYNAMIC,
		       .next = n / 2,
		       .end = n,
		       .random = 2,
		       .names = names },
	    argv[2], "host");
	free(names);
	return 0;
}
