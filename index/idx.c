/* SPDX-License-Identifier: MIT */
#include "index/idx.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "datastore/base/bytes.h"
#include "datastore/base/file.h"

#define PIECE_BYTES (1U << 20)
#define RANDOM_ENTRIES 128U /* per read of idx_read, on the stack */

struct idx {
	int fd;
	char *shown;
	struct statx st;
	struct idx_info info;

	/* In order: entries [piece_first, piece_end) are in `piece`. */
	uint8_t *piece; /* NULL until first needed */
	uint64_t piece_first;
	uint64_t piece_end;
	uint64_t next;
	uint64_t prev_end;
	struct digest_ctx *ctx;
	struct digest csum; /* if `ended` */
	bool ended;
};

static uint64_t entry_at(const struct idx *ix, uint64_t i)
{
	return IDX_HEADER_SIZE + i * idx_entry_size(ix->info.kind);
}

static uint64_t piece_entries(const struct idx *ix)
{
	uint64_t n = PIECE_BYTES / idx_entry_size(ix->info.kind);

	return n < ix->info.count ? n : ix->info.count;
}

/* How far the last entry of a `.didx` says that the archive goes. */
static int read_dynamic_size(struct idx *ix, struct err *e)
{
	uint8_t end[sizeof(uint64_t)];
	int rc = 0;

	if (ix->info.count == 0)
		return 0;
	rc = file_pread_exact(ix->fd, end, sizeof(end),
	    entry_at(ix, ix->info.count - 1), ix->shown, e);
	if (rc < 0)
		return rc;
	ix->info.size = bytes_get_le64(end);
	return 0;
}

static int read_header(struct idx *ix, struct err *e)
{
	uint8_t header[IDX_HEADER_SIZE];
	size_t n = sizeof(header);
	int rc = 0;

	if (ix->st.stx_size < n)
		n = (size_t)ix->st.stx_size;
	rc = file_pread_exact(ix->fd, header, n, 0, ix->shown, e);
	if (rc < 0)
		return rc;
	rc = idx_header_decode(header, n, ix->st.stx_size, &ix->info, e);
	if (rc < 0) {
		err_prefix(e, "'%s'", ix->shown);
		return rc;
	}
	return ix->info.kind == IDX_DYNAMIC ? read_dynamic_size(ix, e) : 0;
}

/* Of rule 2.  A name without either suffix (a temporary one) says nothing. */
static int check_name(const struct idx *ix, const char *name, struct err *e)
{
	enum idx_kind want = ix->info.kind;

	if (!idx_kind_of_name(name, &want) || want == ix->info.kind)
		return 0;
	return err_set(e, ERR_CORRUPT,
	    "'%s': magic of a %s index, want that of a %s one", ix->shown,
	    want == IDX_FIXED ? "dynamic" : "fixed",
	    want == IDX_FIXED ? "fixed" : "dynamic");
}

static int prepare(
    struct idx *ix, const char *name, const char *shown, struct err *e)
{
	int rc = 0;

	if (!S_ISREG(ix->st.stx_mode)) {
		return err_set(e, ERR_CORRUPT,
		    "'%s' is of file type %#o, want a regular file", shown,
		    ix->st.stx_mode & (unsigned)S_IFMT);
	}
	ix->shown = strdup(shown);
	if (ix->shown == NULL)
		return err_nomem(e);
	rc = digest_ctx_new(&ix->ctx, e);
	if (rc == 0)
		rc = read_header(ix, e);
	return rc < 0 ? rc : check_name(ix, name, e);
}

/* fd, that st is of, stays the caller's if this fails. */
static int open_checked(int fd, const struct statx *st, const char *name,
    const char *shown, struct idx **ret, struct err *e)
{
	struct idx *ix = calloc(1, sizeof(*ix));
	int rc = 0;

	if (ix == NULL)
		return err_nomem(e);
	ix->fd = fd;
	ix->st = *st;
	rc = prepare(ix, name, shown, e);
	if (rc < 0) {
		ix->fd = -1;
		idx_close(ix);
		return rc;
	}
	*ret = ix;
	return 0;
}

int idx_open_fd(int fd, const char *shown, struct idx **ret, struct err *e)
{
	struct statx st = { .stx_mask = 0 };
	int rc = file_stat_fd(fd, &st, shown, e);

	return rc < 0 ? rc : open_checked(fd, &st, "", shown, ret, e);
}

int idx_open(int dirfd, const char *name, const char *shown, struct idx **ret,
    struct err *e)
{
	struct statx st = { .stx_mask = 0 };
	int fd = -1;
	int rc = file_open_regular(dirfd, name, &fd, &st, shown, e);

	if (rc < 0)
		return rc;
	rc = open_checked(fd, &st, name, shown, ret, e);
	if (rc < 0)
		file_close(&fd);
	return rc;
}

/* All but the descriptor. */
static void release(struct idx *ix)
{
	digest_ctx_free(ix->ctx);
	free(ix->piece);
	free(ix->shown);
}

void idx_close(struct idx *ix)
{
	if (ix == NULL)
		return;
	file_close(&ix->fd);
	release(ix);
	free(ix);
}

const struct idx_info *idx_info(const struct idx *ix)
{
	return &ix->info;
}

const struct statx *idx_stat(const struct idx *ix)
{
	return &ix->st;
}

int idx_fd(const struct idx *ix)
{
	return ix->fd;
}

/* Read the piece that begins with the next entry. */
static int fill_piece(struct idx *ix, struct err *e)
{
	size_t each = idx_entry_size(ix->info.kind);
	uint64_t n = piece_entries(ix);
	size_t bytes = 0;
	int rc = 0;

	if (ix->piece == NULL)
		ix->piece = malloc((size_t)n * each);
	if (ix->piece == NULL)
		return err_nomem(e);
	if (n > ix->info.count - ix->next)
		n = ix->info.count - ix->next;
	bytes = (size_t)n * each;
	rc = file_pread_exact(
	    ix->fd, ix->piece, bytes, entry_at(ix, ix->next), ix->shown, e);
	if (rc < 0)
		return rc;
	rc = digest_ctx_update(ix->ctx, ix->piece, bytes, e);
	if (rc < 0)
		return rc;
	ix->piece_first = ix->next;
	ix->piece_end = ix->next + n;
	return 0;
}

/* Entries from the piece that is loaded, at most max. */
static int take_entries(struct idx *ix, struct idx_entry *entries, size_t max,
    size_t *ret_n, struct err *e)
{
	size_t each = idx_entry_size(ix->info.kind);
	const uint8_t *p =
	    ix->piece + (size_t)(ix->next - ix->piece_first) * each;
	size_t n = max;

	if (n > ix->piece_end - ix->next)
		n = (size_t)(ix->piece_end - ix->next);
	for (size_t i = 0; i < n; i++, p += each) {
		int rc = idx_entry_decode(
		    &ix->info, ix->next, p, ix->prev_end, &entries[i], e);

		if (rc < 0) {
			err_prefix(e, "'%s'", ix->shown);
			return rc;
		}
		ix->prev_end = entries[i].end;
		ix->next++;
	}
	*ret_n = n;
	return 0;
}

/* All was read: rule 7. */
static int check_csum(struct idx *ix, struct err *e)
{
	char found[DIGEST_HEX_SIZE];
	char want[DIGEST_HEX_SIZE];
	int rc = 0;

	if (!ix->ended) {
		rc = digest_ctx_final(ix->ctx, &ix->csum, e);
		if (rc < 0)
			return rc;
		ix->ended = true;
	}
	if (digest_equal(&ix->csum, &ix->info.csum))
		return 0;
	digest_hex(&ix->csum, found);
	digest_hex(&ix->info.csum, want);
	return err_set(e, ERR_CORRUPT, "'%s': checksum %s, want %s", ix->shown,
	    found, want);
}

int idx_next(struct idx *ix, struct idx_entry *entries, size_t max,
    size_t *ret_n, struct err *e)
{
	size_t n = 0;
	int rc = 0;

	assert(max > 0);
	if (ix->next == ix->info.count) {
		rc = check_csum(ix, e);
		if (rc == 0)
			*ret_n = 0;
		return rc;
	}
	while (n < max && ix->next < ix->info.count) {
		size_t got = 0;

		if (ix->next == ix->piece_end)
			rc = fill_piece(ix, e);
		if (rc == 0)
			rc = take_entries(ix, entries + n, max - n, &got, e);
		if (rc < 0)
			return rc;
		n += got;
	}
	*ret_n = n;
	return 0;
}

int idx_rewind(struct idx *ix, struct err *e)
{
	struct digest dropped;
	int rc = digest_ctx_final(ix->ctx, &dropped, e);

	if (rc < 0)
		return rc;
	ix->piece_first = 0;
	ix->piece_end = 0;
	ix->next = 0;
	ix->prev_end = 0;
	ix->ended = false;
	return 0;
}

const struct digest *idx_computed_csum(const struct idx *ix)
{
	assert(ix->ended);
	return &ix->csum;
}

/* At most RANDOM_ENTRIES - 1 entries; a `.didx` needs the end before them. */
static int read_few(struct idx *ix, uint64_t first, struct idx_entry *entries,
    size_t n, struct err *e)
{
	uint8_t raw[RANDOM_ENTRIES * IDX_DYNAMIC_ENTRY_SIZE];
	size_t each = idx_entry_size(ix->info.kind);
	size_t before = ix->info.kind == IDX_DYNAMIC && first > 0 ? 1 : 0;
	uint64_t prev_end = 0;
	int rc = file_pread_exact(ix->fd, raw, (n + before) * each,
	    entry_at(ix, first - before), ix->shown, e);

	if (rc < 0)
		return rc;
	if (before > 0)
		prev_end = bytes_get_le64(raw);
	for (size_t i = 0; i < n; i++) {
		rc = idx_entry_decode(&ix->info, first + i,
		    raw + (i + before) * each, prev_end, &entries[i], e);
		if (rc < 0) {
			err_prefix(e, "'%s'", ix->shown);
			return rc;
		}
		prev_end = entries[i].end;
	}
	return 0;
}

int idx_read(struct idx *ix, uint64_t first, struct idx_entry *entries,
    size_t n, struct err *e)
{
	assert(first <= ix->info.count && n <= ix->info.count - first);
	while (n > 0) {
		size_t few = n < RANDOM_ENTRIES ? n : RANDOM_ENTRIES - 1;
		int rc = read_few(ix, first, entries, few, e);

		if (rc < 0)
			return rc;
		first += few;
		entries += few;
		n -= few;
	}
	return 0;
}

int idx_check(struct idx *ix, struct err *e)
{
	struct idx_entry entries[RANDOM_ENTRIES];
	size_t n = 1;
	int rc = idx_rewind(ix, e);

	while (rc == 0 && n > 0)
		rc = idx_next(ix, entries, RANDOM_ENTRIES, &n, e);
	return rc;
}

static int find_digest(
    struct idx *ix, const struct digest *d, bool *ret, struct err *e)
{
	struct idx_entry entries[RANDOM_ENTRIES];
	size_t n = 1;

	while (n > 0) {
		int rc = idx_next(ix, entries, RANDOM_ENTRIES, &n, e);

		if (rc < 0)
			return rc;
		for (size_t i = 0; i < n; i++) {
			if (digest_equal(&entries[i].digest, d)) {
				*ret = true;
				return 0;
			}
		}
	}
	*ret = false;
	return 0;
}

int idx_references(int fd, const char *filename, const struct digest *d,
    bool *ret, struct err *e)
{
	struct idx ix = { .fd = fd };
	enum idx_kind kind = IDX_FIXED;
	int rc = 0;

	if (!idx_kind_of_name(filename, &kind)) {
		*ret = false;
		return 0;
	}
	rc = file_stat_fd(fd, &ix.st, filename, e);
	if (rc == 0)
		rc = prepare(&ix, filename, filename, e);
	if (rc == 0)
		rc = find_digest(&ix, d, ret, e);
	release(&ix);
	return rc;
}
