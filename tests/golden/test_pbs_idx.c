/* SPDX-License-Identifier: MIT */
/*
 * Index files that cairn did not write: entries, sizes, checksums and, where
 * no key is needed, contents are as described; each broken one is refused,
 * with these words.
 */
#include <fcntl.h>

#include "datastore/blob.h"
#include "datastore/compress.h"
#include "datastore/store.h"
#include "datastore/tree.h"
#include "index/idx.h"
#include "tests/golden/golden.h"

#define STORE "pbs-store"
#define SNAPSHOTS 8
#define BAD_STORES 27
#define ENTRIES_MAX 64

/* What all the indexes of the sound store reference. */
struct references {
	struct digest digests[ENTRIES_MAX];
	size_t n;
	size_t indexes;
};

/* golden_each_snapshot has no context of its own. */
static struct references seen;

/* All entries, in order, checked against reading them one by one. */
static size_t read_entries(
    struct golden *g, struct idx *ix, struct idx_entry out[ENTRIES_MAX])
{
	struct idx_entry one;
	size_t n = 0;
	size_t end = 1;

	assert_ok(idx_next(ix, out, ENTRIES_MAX, &n, &g->e), &g->e);
	if (n > 0) {
		assert_ok(idx_next(ix, &one, 1, &end, &g->e), &g->e);
	} else {
		end = 0;
	}
	assert_int_equal(end, 0);
	for (size_t i = 0; i < n; i++) {
		assert_ok(idx_read(ix, i, &one, 1, &g->e), &g->e);
		assert_int_equal(one.end, out[i].end);
		assert_true(digest_equal(&one.digest, &out[i].digest));
	}
	return n;
}

static void check_info(const struct idx_info *x, const struct digest *computed,
    const struct js *want)
{
	char text[DIGEST_HEX_SIZE];

	assert_string_equal(
	    x->kind == IDX_FIXED ? "fidx" : "didx", golden_str(want, "kind"));
	assert_int_equal(x->count, golden_u64(want, "entries"));
	assert_int_equal(x->size, golden_u64(want, "size"));
	assert_int_equal(x->size, golden_u64(want, "manifest-size"));
	digest_hex(&x->csum, text);
	assert_string_equal(text, golden_str(want, "csum"));
	assert_true(digest_equal(&x->csum, computed));
	if (x->kind == IDX_FIXED) {
		assert_int_equal(x->chunk_size, golden_u64(want, "chunk-size"));
	} else {
		assert_int_equal(x->chunk_size, 0);
	}
}

/* The content, chunk by chunk, has the SHA-256 that is described. */
static void check_content(struct golden *g, const struct idx_entry *entries,
    size_t n, const struct js *want)
{
	struct codec *codec = NULL;
	struct digest_ctx *ctx = NULL;
	struct buf raw = BUF_INIT;
	struct buf plain = BUF_INIT;
	struct digest digest;
	char text[DIGEST_HEX_SIZE];
	uint64_t end = 0;

	assert_ok(codec_new(&codec, &g->e), &g->e);
	assert_ok(digest_ctx_new(&ctx, &g->e), &g->e);
	for (size_t i = 0; i < n; i++) {
		buf_reset(&raw);
		assert_ok(
		    store_load(g->ds->store, &entries[i].digest, &raw, &g->e),
		    &g->e);
		assert_ok(blob_decode(codec, raw.data, raw.len, CHUNK_MAX_PLAIN,
			      &plain, &g->e),
		    &g->e);
		assert_int_equal(plain.len, entries[i].end - end);
		assert_ok(digest_ctx_update(ctx, plain.data, plain.len, &g->e),
		    &g->e);
		end = entries[i].end;
	}
	assert_ok(digest_ctx_final(ctx, &digest, &g->e), &g->e);
	digest_hex(&digest, text);
	assert_string_equal(text, golden_str(want, "sha256"));
	codec_free(codec);
	digest_ctx_free(ctx);
	buf_release(&raw);
	buf_release(&plain);
}

static void check_index(struct golden *g, int dirfd, const struct js *want)
{
	const char *name = golden_str(want, "filename");
	struct idx_entry entries[ENTRIES_MAX];
	struct idx *ix = NULL;
	bool found = false;
	size_t n = 0;

	assert_ok(idx_open(dirfd, name, name, &ix, &g->e), &g->e);
	n = read_entries(g, ix, entries);
	check_info(idx_info(ix), idx_computed_csum(ix), want);
	assert_int_equal(n, idx_info(ix)->count);
	if (strcmp(golden_str(want, "crypt-mode"), "encrypt") != 0)
		check_content(g, entries, n, want);
	for (size_t i = 0; i < n; i++) {
		assert_ok(idx_references(idx_fd(ix), name, &entries[i].digest,
			      &found, &g->e),
		    &g->e);
		assert_true(found);
		assert_true(seen.n < ENTRIES_MAX);
		seen.digests[seen.n++] = entries[i].digest;
	}
	idx_close(ix);
	seen.indexes++;
}

static void check_snapshot(
    struct golden *g, const struct backup_snapshot *s, const struct js *v)
{
	size_t n = 0;
	struct js *archives = golden_list(v, "archives", &n);
	int dirfd = -1;

	assert_ok(tree_open_snapshot(g->ds, s, &dirfd, &g->e), &g->e);
	for (size_t i = 0; i < n; i++) {
		const struct js *archive = js_at(archives, i);

		if (strcmp(golden_str(archive, "kind"), "blob") != 0)
			check_index(g, dirfd, archive);
	}
	assert_int_equal(close(dirfd), 0);
}

/* Distinct digests of `seen`, which is sorted by it. */
static size_t count_distinct(void)
{
	size_t n = 0;

	qsort(seen.digests, seen.n, sizeof(seen.digests[0]), digest_qsort);
	for (size_t i = 0; i < seen.n; i++) {
		if (i == 0 ||
		    !digest_equal(&seen.digests[i - 1], &seen.digests[i]))
			n++;
	}
	return n;
}

static void test_all_indexes(void **state)
{
	struct golden *g = *state;
	struct js *counts = NULL;

	memset(&seen, 0, sizeof(seen));
	assert_ok(golden_open(g, STORE, DATASTORE_READ), &g->e);
	assert_int_equal(golden_each_snapshot(g, check_snapshot), SNAPSHOTS);
	assert_ok(js_get(g->json, "counts", &counts, NULL, &g->e), &g->e);
	assert_int_equal(seen.indexes, golden_u64(counts, "indexes"));
	assert_int_equal(seen.n, golden_u64(counts, "references"));
	assert_int_equal(count_distinct(),
	    golden_u64(counts, "chunks") -
		golden_u64(counts, "unreferenced-chunks"));
}

/* One that is being written: its checksum is not yet what it says. */
static void test_unfinished_index(void **state)
{
	struct golden *g = *state;
	const char *dir = STORE "/vm/101/2026-07-16T00:00:00Z";
	struct idx *ix = NULL;
	int dirfd = openat(g->dir.fd, dir, O_RDONLY | O_CLOEXEC);

	assert_true(dirfd >= 0);
	assert_ok(
	    idx_open(dirfd, "drive-scsi1.img.tmp_fidx", "tmp", &ix, &g->e),
	    &g->e);
	assert_int_equal(idx_info(ix)->count, 3);
	assert_err(
	    idx_check(ix, &g->e), &g->e, ERR_CORRUPT, "'tmp': checksum ");
	idx_close(ix);
	assert_int_equal(close(dirfd), 0);
}

/* Every store whose defect is one of an index, and what is said of it. */
static const struct {
	const char *store;
	const char *text;
} broken[] = {
	{ "fidx-10-bytes", "10 bytes, want at least 4096" },
	{ "fidx-header-only",
	    "nothing behind the header, want at least one entry" },
	{ "fidx-byte-short",
	    "127 bytes behind the header, want a multiple of 32" },
	{ "fidx-byte-long",
	    "129 bytes behind the header, want a multiple of 32" },
	{ "fidx-magic",
	    "magic 2e7f41ed91fd0fcd, want 2f7f41ed91fd0fcd (fixed) or "
	    "1c914ea519bab3cd (dynamic)" },
	{ "fidx-csum",
	    "checksum 3fe57d7c0d1bca3730afe4689b798964"
	    "df0bae272914cb6b585fdfa2b08e4c92, want "
	    "3ee57d7c0d1bca3730afe4689b798964"
	    "df0bae272914cb6b585fdfa2b08e4c92" },
	{ "didx-partial-entry",
	    "113 bytes behind the header, want a multiple of 40" },
	{ "didx-csum",
	    "checksum 76f39f714cf9a0170ded4493d6ed5e1d"
	    "2fadea9e0a04f5cb8b4618db20a59272, want "
	    "76f39f714cf9a0170ded4493d6ed5e1d"
	    "2fadea9e0a04f5cb8b4618db20a59273" },
	{ "fidx-size-mismatch",
	    "4 entries, want 5 for 263344 bytes in chunks of 65536" },
	{ "fidx-size-zero",
	    "nothing behind the header, want at least one entry" },
	{ "fidx-chunk-size",
	    "chunk size 65537, want a power of two up to 16777216" },
	{ "fidx-size-2p63",
	    "4 entries, want 140737488355328 for 9223372036854775808 bytes in "
	    "chunks of 65536" },
	{ "didx-decreasing",
	    "entry 1 ends at 2000, want more than 32000, where it begins" },
};

static const char *broken_text(const char *store)
{
	for (size_t i = 0; i < TEST_COUNT(broken); i++) {
		if (strcmp(broken[i].store, store) == 0)
			return broken[i].text;
	}
	return NULL;
}

/* Read whole, under this name. */
static int read_index(struct golden *g, const char *file, const char *shown)
{
	struct idx *ix = NULL;
	int rc = idx_open(g->dir.fd, file, shown, &ix, &g->e);

	if (rc == 0)
		rc = idx_check(ix, &g->e);
	idx_close(ix);
	return rc;
}

static void check_bad(
    struct golden *g, const char *store, const char *path, const char *what)
{
	const char *text = broken_text(store);
	char name[GOLDEN_NAME_SIZE];
	char message[ERR_MSG_SIZE];

	(void)what;
	(void)snprintf(name, sizeof(name), "pbs-bad/%s/%s", store, path);
	if (text != NULL) {
		assert_err(read_index(g, name, path), &g->e, ERR_CORRUPT, "");
		(void)snprintf(
		    message, sizeof(message), "'%s': %s", path, text);
		assert_string_equal(g->e.msg, message);
		seen.indexes++;
		return;
	}
	/* Those with another defect have sound indexes. */
	if (strcmp(store, "group-symlink") == 0) {
		(void)snprintf(name, sizeof(name),
		    "pbs-bad/%s/.moved/2026-07-15T08:30:00Z/data.raw.didx",
		    store);
	} else {
		(void)snprintf(name, sizeof(name),
		    "pbs-bad/%s/vm/100/2026-07-15T08:30:00Z/data.raw.didx",
		    store);
	}
	assert_ok(read_index(g, name, name), &g->e);
}

static void test_broken_indexes(void **state)
{
	struct golden *g = *state;

	memset(&seen, 0, sizeof(seen));
	assert_int_equal(golden_each_bad(g, check_bad), BAD_STORES);
	assert_int_equal(seen.indexes, TEST_COUNT(broken));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		GOLDEN_TEST(test_all_indexes),
		GOLDEN_TEST(test_unfinished_index),
		GOLDEN_BAD_TEST(test_broken_indexes),
	};

	return cmocka_run_group_tests_name("golden_pbs_idx", tests, NULL, NULL);
}
