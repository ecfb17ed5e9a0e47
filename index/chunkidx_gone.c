/* SPDX-License-Identifier: MIT */
/*
 * The bits of what was removed from a base since it was made: whole from the
 * start, and set in place, so that recording a removal needs no room.  A bit
 * that is lost makes a chunk that is gone look as if it were there, one too
 * many a chunk unknown: neither loses anything, so the bits have no checksum.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "datastore/base/bytes.h"
#include "datastore/base/file.h"
#include "datastore/base/sysio.h"
#include "index/chunkidx_internal.h"

#define PAGE CIX_PAGE
#define NO_PAGE UINT64_MAX

static const uint8_t magic[8] = { 'c', 'a', 'i', 'r', 'n', 'G', 'O', 'N' };

#define STORE_AT 8
#define GENERATION_AT 48
#define ENTRIES_AT 56
#define HEADER_SIZE 64
/* Behind it, changed with the bits: */
#define GONE_AT 64
#define GONE_BYTES_AT 72
#define COUNTS_SIZE 16

uint64_t chunkidx_gone_size(uint64_t entries)
{
	return PAGE + (entries / 8 + PAGE) / PAGE * PAGE;
}

static void header(const struct chunkidx *ix, uint64_t generation,
    uint64_t entries, uint8_t out[HEADER_SIZE])
{
	memset(out, 0, HEADER_SIZE);
	memcpy(out, magic, sizeof(magic));
	memcpy(out + STORE_AT, ix->ds->id, strlen(ix->ds->id));
	bytes_put_le64(out + GENERATION_AT, generation);
	bytes_put_le64(out + ENTRIES_AT, entries);
}

/* Written, not only made long: a hole would need room when a bit is set. */
static int fill(int fd, uint64_t size, const uint8_t *head, const char *shown,
    struct err *e)
{
	const size_t piece = (size_t)64 * PAGE;
	uint8_t *zeros = calloc(1, piece);
	int rc = zeros == NULL ? err_nomem(e) : 0;

	for (uint64_t at = 0; rc == 0 && at < size; at += piece) {
		size_t n = size - at < piece ? (size_t)(size - at) : piece;

		rc = file_pwrite_fully(fd, zeros, n, at, shown, e);
	}
	if (rc == 0)
		rc = file_pwrite_fully(fd, head, HEADER_SIZE, 0, shown, e);
	if (rc == 0)
		rc = file_sync(fd, shown, e);
	free(zeros);
	return rc;
}

int chunkidx_gone_make(
    struct chunkidx *ix, uint64_t generation, uint64_t entries, struct err *e)
{
	char name[CHUNKIDX_NAME_SIZE];
	char tmp[CHUNKIDX_NAME_SIZE];
	uint8_t head[HEADER_SIZE];
	int fd = -1;
	int rc = file_make_tmp(ix->place.fd, ".tmp_", &ix->ds->owner, &fd, tmp,
	    ix->place.shown, e);

	if (rc < 0)
		return rc;
	header(ix, generation, entries, head);
	rc = fill(fd, chunkidx_gone_size(entries), head, ix->place.shown, e);
	chunkidx_gone_name(generation, name);
	if (rc == 0)
		rc = file_rename_new(
		    ix->place.fd, tmp, name, ix->place.shown, e);
	if (rc < 0)
		(void)sysio_unlinkat(ix->place.fd, tmp, 0);
	else
		rc = file_sync(ix->place.fd, ix->place.shown, e);
	file_close(&fd);
	return rc;
}

int chunkidx_gone_open(struct chunkidx *ix, struct err *e)
{
	const struct cix_info *info = cix_info(ix->base);
	char name[CHUNKIDX_NAME_SIZE];
	uint8_t want[HEADER_SIZE];
	uint8_t is[HEADER_SIZE];
	uint8_t counts[COUNTS_SIZE] = { 0 };
	struct statx st = { .stx_mask = 0 };
	int rc = 0;

	ix->gone_at = NO_PAGE;
	if (ix->gone == NULL)
		ix->gone = malloc(PAGE);
	if (ix->gone == NULL)
		return err_nomem(e);
	chunkidx_gone_name(info->number, name);
	ix->gone_fd = sysio_openat(ix->place.fd, name,
	    (ix->locked ? O_RDWR : O_RDONLY) | O_CLOEXEC | O_NOFOLLOW |
		O_NONBLOCK | O_NOCTTY,
	    0);
	if (ix->gone_fd < 0)
		return err_sys(e, "open '%s/%s'", ix->place.shown, name);
	rc = file_stat_fd(ix->gone_fd, &st, ix->place.shown, e);
	header(ix, info->number, info->entries, want);
	if (rc == 0 &&
	    (!S_ISREG(st.stx_mode) ||
		st.stx_size != chunkidx_gone_size(info->entries)))
		rc = err_set(e, ERR_CORRUPT, "'%s/%s' has another size",
		    ix->place.shown, name);
	if (rc == 0)
		rc = file_pread_exact(
		    ix->gone_fd, is, HEADER_SIZE, 0, ix->place.shown, e);
	if (rc == 0)
		rc = file_pread_exact(ix->gone_fd, counts, COUNTS_SIZE, GONE_AT,
		    ix->place.shown, e);
	if (rc == 0 && memcmp(is, want, HEADER_SIZE) != 0)
		rc = err_set(e, ERR_CORRUPT, "'%s/%s' is of another base",
		    ix->place.shown, name);
	if (rc < 0) {
		file_close(&ix->gone_fd);
		return rc;
	}
	ix->gone_n = bytes_get_le64(counts);
	ix->gone_bytes = bytes_get_le64(counts + (GONE_BYTES_AT - GONE_AT));
	return 0;
}

/* The page with this rank's bit; NULL: it can not be read. */
static uint8_t *page_of(struct chunkidx *ix, uint64_t rank)
{
	uint64_t at = rank / 8 / PAGE;
	struct err ignored = ERR_INIT;

	if (ix->gone_at == at)
		return ix->gone;
	ix->gone_at = NO_PAGE;
	if (ix->gone_fd < 0 ||
	    file_pread_exact(ix->gone_fd, ix->gone, PAGE, (1 + at) * PAGE,
		ix->place.shown, &ignored) < 0)
		return NULL;
	ix->gone_at = at;
	return ix->gone;
}

bool chunkidx_is_gone(struct chunkidx *ix, uint64_t rank)
{
	const uint8_t *p = page_of(ix, rank);

	/* What can not be told is taken for gone: that costs a touch. */
	return p == NULL || (p[rank / 8 % PAGE] >> rank % 8 & 1) != 0;
}

static int write_counts(struct chunkidx *ix, struct err *e)
{
	uint8_t counts[COUNTS_SIZE];

	bytes_put_le64(counts, ix->gone_n);
	bytes_put_le64(counts + (GONE_BYTES_AT - GONE_AT), ix->gone_bytes);
	return file_pwrite_fully(
	    ix->gone_fd, counts, COUNTS_SIZE, GONE_AT, ix->place.shown, e);
}

int chunkidx_set_gone(struct chunkidx *ix, const uint64_t *ranks, size_t n,
    uint64_t bytes, struct err *e)
{
	size_t i = 0;
	int rc = 0;

	while (rc == 0 && i < n) {
		uint64_t at = ranks[i] / 8 / PAGE;
		uint8_t *p = page_of(ix, ranks[i]);

		if (p == NULL)
			return err_set(e, ERR_CORRUPT,
			    "the bits of what was removed can not be read in "
			    "'%s'",
			    ix->place.shown);
		for (; i < n && ranks[i] / 8 / PAGE == at; i++) {
			unsigned bit = 1U << ranks[i] % 8;
			uint8_t *b = &p[ranks[i] / 8 % PAGE];

			if ((*b & bit) == 0)
				ix->gone_n++;
			*b = (uint8_t)(*b | bit);
		}
		rc = file_pwrite_fully(
		    ix->gone_fd, p, PAGE, (1 + at) * PAGE, ix->place.shown, e);
	}
	ix->gone_bytes += bytes;
	if (rc == 0)
		rc = write_counts(ix, e);
	return rc < 0 ? rc : file_sync(ix->gone_fd, ix->place.shown, e);
}
