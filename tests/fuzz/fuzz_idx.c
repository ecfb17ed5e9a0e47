/* SPDX-License-Identifier: MIT */
/*
 * fuzz_idx: any bytes as an index file: through the pure functions, and
 * through a file of them.  What is accepted must come back the same.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "datastore/base/bytes.h"
#include "datastore/blob.h"
#include "index/idx.h"
#include "index/idxformat.h"

#define BATCH 7U

/* The first byte of what is not an index, but how to make one. */
#define MADE 'm'
#define MADE_HEADER 18U

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MUST(cond)               \
	do {                     \
		if (!(cond))     \
			abort(); \
	} while (0)

/* A block of exactly n bytes: reading one more is found. */
static uint8_t *exact_copy(const uint8_t *p, size_t n)
{
	uint8_t *copy = malloc(n > 0 ? n : 1);

	MUST(copy != NULL);
	if (n > 0)
		memcpy(copy, p, n);
	return copy;
}

/* The entries behind a sound header; returns how many are sound. */
static uint64_t check_entries(
    const uint8_t *p, const struct idx_info *x, struct err *e)
{
	size_t each = idx_entry_size(x->kind);
	struct idx_entry entry = { .end = 0 };
	uint64_t end = 0;

	for (uint64_t i = 0; i < x->count; i++) {
		uint8_t *raw = exact_copy(p + IDX_HEADER_SIZE + i * each, each);
		uint8_t again[IDX_DYNAMIC_ENTRY_SIZE];
		int rc = idx_entry_decode(x, i, raw, end, &entry, e);

		if (rc == 0) {
			MUST(entry.end > end);
			MUST(entry.end - end <= CHUNK_MAX_PLAIN);
			idx_entry_encode(x->kind, &entry, again);
			MUST(memcmp(raw, again, each) == 0);
			end = entry.end;
		}
		free(raw);
		if (rc < 0) {
			MUST(rc == ERR_CORRUPT);
			return i;
		}
	}
	if (x->kind == IDX_FIXED)
		MUST(end == x->size);
	return x->count;
}

/* The same file through idx; sound: how many entries are. */
static void check_file(
    const uint8_t *data, size_t size, bool header_sound, uint64_t sound)
{
	struct err e = ERR_INIT;
	struct idx *ix = NULL;
	struct idx_entry entries[BATCH];
	uint64_t read = 0;
	size_t n = 1;
	int rc = 0;
	int fd = memfd_create("fuzz_idx", MFD_CLOEXEC);

	MUST(fd >= 0);
	MUST(write(fd, data, size) == (ssize_t)size);
	rc = idx_open_fd(fd, "fuzz", &ix, &e);
	MUST((rc == 0) == header_sound);
	if (rc < 0) {
		MUST(rc == ERR_CORRUPT);
		MUST(close(fd) == 0);
		return;
	}
	while (n > 0) {
		rc = idx_next(ix, entries, BATCH, &n, &e);
		if (rc < 0)
			break;
		read += n;
	}
	MUST(rc == 0 || rc == ERR_CORRUPT);
	MUST(read <= sound);
	if (rc == 0)
		MUST(read == idx_info(ix)->count && read == sound);
	for (uint64_t i = 0; i < sound; i++)
		MUST(idx_read(ix, i, entries, 1, &e) == 0);
	idx_close(ix);
}

static void check(const uint8_t *data, size_t size)
{
	struct err e = ERR_INIT;
	struct idx_info x;
	size_t n = size < IDX_HEADER_SIZE ? size : IDX_HEADER_SIZE;
	uint8_t *header = exact_copy(data, n);
	uint64_t sound = 0;
	int rc = idx_header_decode(header, n, size, &x, &e);

	if (rc == 0) {
		uint8_t again[IDX_HEADER_SIZE];

		idx_header_encode(&x, again);
		MUST(memcmp(header, again, sizeof(again)) == 0);
		sound = check_entries(data, &x, &e);
	} else {
		MUST(rc == ERR_CORRUPT);
	}
	free(header);
	check_file(data, size, rc == 0, sound);
}

/*
 * From few bytes, so that a change of one is a change of the index: how it is
 * made, size, chunk size, and the entries.
 */
static void check_made(const uint8_t *data, size_t size)
{
	struct idx_info x = { .kind =
				  (data[1] & 1) != 0 ? IDX_DYNAMIC : IDX_FIXED,
		.size = bytes_get_le64(data + 2),
		.chunk_size = bytes_get_le64(data + 10) };
	size_t body = size - MADE_HEADER;
	uint8_t *p = malloc(IDX_HEADER_SIZE + body);
	struct err e = ERR_INIT;

	MUST(p != NULL);
	memcpy(p + IDX_HEADER_SIZE, data + MADE_HEADER, body);
	if ((data[1] & 2) == 0)
		MUST(digest_of(p + IDX_HEADER_SIZE, body, &x.csum, &e) == 0);
	idx_header_encode(&x, p);
	check(p, IDX_HEADER_SIZE + body);
	free(p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size >= MADE_HEADER && data[0] == MADE) {
		check_made(data, size);
	} else {
		check(data, size);
	}
	return 0;
}
