/* SPDX-License-Identifier: MIT */
#include "tests/support/ingestfix.h"

#include <errno.h>
#include <time.h>

#include "datastore/base/bytes.h"
#include "datastore/tree.h"
#include "index/idxwriter.h"

#define CHUNK 65536U

static struct digest digest_number(uint64_t i)
{
	struct digest d;

	memset(d.b, 0xd1, sizeof(d.b));
	bytes_put_le64(d.b, i);
	return d;
}

static uint64_t length_number(enum idx_kind kind, uint64_t i, uint64_t n)
{
	if (kind == IDX_FIXED)
		return i + 1 < n ? CHUNK : 17;
	return 1 + i % 1000;
}

/* What the last write of an index was told of it. */
struct written {
	uint64_t size;
	struct digest csum;
};

static int write_index(
    struct ingestfix *f, const char *filename, uint64_t n, struct written *ret)
{
	struct idxwriter *w = NULL;
	enum idx_kind kind = IDX_FIXED;
	int rc = 0;

	assert_true(idx_kind_of_name(filename, &kind));
	rc = idxwriter_new(f->s, filename, CHUNK, &w, &f->e);
	for (uint64_t i = 0; rc == 0 && i < n; i++) {
		struct digest d = digest_number(i);

		rc = idxwriter_append(w, &d, length_number(kind, i, n), &f->e);
	}
	if (rc == 0)
		rc = idxwriter_finish(w, &ret->size, &ret->csum, &f->e);
	idxwriter_free(w);
	return rc;
}

/* It is what was appended, in the session's directory. */
static void check_index(struct ingestfix *f, const char *tmp, uint64_t n,
    const struct written *said)
{
	struct idx *ix = NULL;
	struct idx_entry entry;
	const struct idx_info *x = NULL;
	struct timespec now;
	uint64_t end = 0;
	size_t got = 0;

	assert_ok(idx_open(session_dir_fd(f->s), tmp, tmp, &ix, &f->e), &f->e);
	x = idx_info(ix);
	assert_int_equal(x->count, n);
	assert_int_equal(x->size, said->size);
	assert_memory_equal(x->csum.b, said->csum.b, DIGEST_SIZE);
	/* not by time(): that may still tell the second before */
	assert_int_equal(clock_gettime(CLOCK_REALTIME, &now), 0);
	assert_true(x->ctime >= now.tv_sec - 60 && x->ctime <= now.tv_sec);
	for (uint64_t i = 0; i < n; i++) {
		struct digest want = digest_number(i);

		end += length_number(x->kind, i, n);
		assert_ok(idx_next(ix, &entry, 1, &got, &f->e), &f->e);
		assert_int_equal(got, 1);
		assert_int_equal(entry.end, end);
		assert_memory_equal(entry.digest.b, want.b, DIGEST_SIZE);
	}
	assert_int_equal(said->size, end);
	assert_ok(idx_next(ix, &entry, 1, &got, &f->e), &f->e);
	assert_int_equal(got, 0);
	idx_close(ix);
}

/* Around the size of its buffer: 4096 entries. */
static void writes_what_can_be_read(void **state)
{
	static const uint64_t counts[] = { 1, 2, 4095, 4096, 4097, 8192, 8193 };
	struct ingestfix *f = *state;
	struct written said;

	for (size_t i = 0; i < TEST_COUNT(counts); i++) {
		char name[32];
		char tmp[32];

		(void)snprintf(name, sizeof(name), "f%zu.img.fidx", i);
		(void)snprintf(tmp, sizeof(tmp), "f%zu.img.tmp_fidx", i);
		assert_ok(write_index(f, name, counts[i], &said), &f->e);
		check_index(f, tmp, counts[i], &said);
		(void)snprintf(name, sizeof(name), "d%zu.raw.didx", i);
		(void)snprintf(tmp, sizeof(tmp), "d%zu.raw.tmp_didx", i);
		assert_ok(write_index(f, name, counts[i], &said), &f->e);
		check_index(f, tmp, counts[i], &said);
	}
}

static void writes_an_empty_dynamic_index(void **state)
{
	struct ingestfix *f = *state;
	struct written said;
	char hex[DIGEST_HEX_SIZE];

	assert_ok(write_index(f, "a.raw.didx", 0, &said), &f->e);
	check_index(f, "a.raw.tmp_didx", 0, &said);
	digest_hex(&said.csum, hex);
	assert_string_equal(hex,
	    "e3b0c44298fc1c149afbf4c8996fb924"
	    "27ae41e4649b934ca495991b7852b855");
}

static void refuses_an_empty_image(void **state)
{
	struct ingestfix *f = *state;
	struct written said;

	assert_err(write_index(f, "a.img.fidx", 0, &said), &f->e, ERR_INVALID,
	    "'a.img.fidx': an image of 0 bytes, want at least 1");
}

/* By the commit it has its name, and the manifest knows it. */
static void hands_it_to_the_session(void **state)
{
	struct ingestfix *f = *state;
	struct manifest m = MANIFEST_INIT;
	const struct manifest_file *file = NULL;
	struct written said;
	struct stat st;

	assert_ok(write_index(f, "a.img.fidx", 3, &said), &f->e);
	assert_ok(ingestfix_commit(f), &f->e);
	assert_ok(tree_open_snapshot(f->ds, &f->id, &f->fd, &f->e), &f->e);
	assert_ok(tree_read_manifest(f->ds, &f->id, f->fd, &m, &f->e), &f->e);
	file = manifest_find(&m, "a.img.fidx");
	assert_non_null(file);
	assert_int_equal(file->size, said.size);
	assert_memory_equal(file->csum.b, said.csum.b, DIGEST_SIZE);
	manifest_release(&m);
	assert_int_equal(fstatat(f->fd, "a.img.fidx", &st, 0), 0);
	assert_int_equal(st.st_size, 4096 + 3 * 32);
	assert_int_equal(tmpdir_count(f->fd, "tmp"), 0);
}

/* Whoever pushes, under whatever umask. */
static void gives_it_mode_and_owner(void **state)
{
	struct ingestfix *f = *state;
	int dirfd = session_dir_fd(f->s);
	struct written said;
	struct stat st;
	mode_t before = umask(077);
	int rc = write_index(f, "a.img.fidx", 3, &said);

	(void)umask(before);
	assert_ok(rc, &f->e);
	assert_int_equal(fstatat(dirfd, "a.img.tmp_fidx", &st, 0), 0);
	assert_int_equal(st.st_mode & 07777, 0644);
	assert_int_equal(st.st_uid, geteuid());
	if (geteuid() != 0)
		return;
	assert_int_equal(fchown(dirfd, 34, 35), 0);
	assert_ok(write_index(f, "b.img.fidx", 3, &said), &f->e);
	assert_int_equal(fstatat(dirfd, "b.img.tmp_fidx", &st, 0), 0);
	assert_int_equal(st.st_uid, 34);
	assert_int_equal(st.st_gid, 35);
}

static void gives_each_a_uuid(void **state)
{
	struct ingestfix *f = *state;
	struct written said;
	char *a = NULL;
	char *b = NULL;
	size_t n = 0;

	assert_ok(write_index(f, "a.img.fidx", 3, &said), &f->e);
	assert_ok(write_index(f, "b.img.fidx", 3, &said), &f->e);
	a = tmpdir_get(session_dir_fd(f->s), "a.img.tmp_fidx", &n);
	b = tmpdir_get(session_dir_fd(f->s), "b.img.tmp_fidx", &n);
	assert_memory_not_equal(a + 8, b + 8, IDX_UUID_SIZE);
	assert_memory_equal(a + 32, b + 32, n - 32);
	free(a);
	free(b);
}

static void refused(struct ingestfix *f, const char *filename,
    uint64_t chunk_size, const char *text)
{
	struct idxwriter *w = NULL;

	assert_err(idxwriter_new(f->s, filename, chunk_size, &w, &f->e), &f->e,
	    ERR_INVALID, text);
	assert_null(w);
	assert_int_equal(tmpdir_count(session_dir_fd(f->s), "tmp"), 0);
}

static void refuses_bad_names(void **state)
{
	struct ingestfix *f = *state;
	char name[300];

	refused(f, "a.img", CHUNK, "'a.img': want a name that ends in");
	refused(f, "a.blob", CHUNK, "'a.blob': want a name that ends in");
	refused(f, ".fidx", CHUNK, "'.fidx': want a name that ends in");
	memset(name, 'n', sizeof(name));
	(void)snprintf(name + 201, sizeof(name) - 201, ".fidx");
	refused(f, name, CHUNK, "a name of 201 bytes, want at most 200");
}

static void refuses_bad_chunk_sizes(void **state)
{
	static const uint64_t sizes[] = { 0, 1, 32768, 65535, 65537, 98304,
		8U << 20, UINT64_C(1) << 63, UINT64_MAX };
	struct ingestfix *f = *state;

	for (size_t i = 0; i < TEST_COUNT(sizes); i++) {
		char text[64];

		(void)snprintf(text, sizeof(text),
		    "chunk size %llu, want a power of two from 65536 to "
		    "4194304",
		    (unsigned long long)sizes[i]);
		refused(f, "a.img.fidx", sizes[i], text);
	}
}

static void takes_all_good_chunk_sizes(void **state)
{
	struct ingestfix *f = *state;
	struct digest d = digest_number(0);

	for (uint64_t size = 65536; size <= 4194304; size *= 2) {
		struct idxwriter *w = NULL;
		char name[32];

		(void)snprintf(
		    name, sizeof(name), "a%u.img.fidx", (unsigned)size);
		assert_ok(idxwriter_new(f->s, name, size, &w, &f->e), &f->e);
		assert_ok(idxwriter_append(w, &d, size, &f->e), &f->e);
		assert_err(idxwriter_append(w, &d, size + 1, &f->e), &f->e,
		    ERR_INVALID, "want 1 to ");
		assert_ok(idxwriter_append(w, &d, 1, &f->e), &f->e);
		idxwriter_free(w);
	}
}

static void refuses_bad_lengths(void **state)
{
	struct ingestfix *f = *state;
	struct idxwriter *w = NULL;
	struct digest d = digest_number(0);
	struct written said;

	assert_ok(idxwriter_new(f->s, "a.img.fidx", CHUNK, &w, &f->e), &f->e);
	assert_err(idxwriter_append(w, &d, 0, &f->e), &f->e, ERR_INVALID,
	    "'a.img.fidx': a chunk of 0 bytes, want 1 to 65536");
	assert_err(idxwriter_append(w, &d, 65537, &f->e), &f->e, ERR_INVALID,
	    "'a.img.fidx': a chunk of 65537 bytes, want 1 to 65536");
	assert_ok(idxwriter_append(w, &d, 65536, &f->e), &f->e);
	assert_ok(idxwriter_append(w, &d, 65535, &f->e), &f->e);
	assert_err(idxwriter_append(w, &d, 65536, &f->e), &f->e, ERR_INVALID,
	    "'a.img.fidx': a chunk behind a short one");
	/* What was refused left no trace. */
	assert_ok(idxwriter_finish(w, &said.size, &said.csum, &f->e), &f->e);
	assert_int_equal(said.size, 131071);
	idxwriter_free(w);
	assert_ok(idxwriter_new(f->s, "a.raw.didx", 0, &w, &f->e), &f->e);
	assert_err(idxwriter_append(w, &d, 0, &f->e), &f->e, ERR_INVALID,
	    "'a.raw.didx': a chunk of 0 bytes, want 1 to 16777216");
	assert_err(idxwriter_append(w, &d, 16777217, &f->e), &f->e, ERR_INVALID,
	    "want 1 to 16777216");
	assert_ok(idxwriter_append(w, &d, 16777216, &f->e), &f->e);
	assert_ok(idxwriter_append(w, &d, 1, &f->e), &f->e);
	idxwriter_free(w);
}

static void refuses_an_archive_given_twice(void **state)
{
	struct ingestfix *f = *state;
	struct written said;

	assert_ok(write_index(f, "a.img.fidx", 3, &said), &f->e);
	assert_err(write_index(f, "a.img.fidx", 3, &said), &f->e, ERR_EXISTS,
	    "'a.img.fidx'");
}

/* The same answers, and nothing is written. */
static void writes_nothing_in_a_dry_run(void **state)
{
	struct ingestfix *f = *state;
	struct written wet;
	struct written dry;

	assert_ok(write_index(f, "a.img.fidx", 5000, &wet), &f->e);
	ingestfix_abort(f);
	assert_ok(ingestfix_open(f, true), &f->e);
	assert_int_equal(session_dir_fd(f->s), -1);
	fault_install();
	assert_ok(write_index(f, "a.img.fidx", 5000, &dry), &f->e);
	assert_int_equal(fault_count(FAULT_CHANGES), 0);
	fault_uninstall();
	assert_int_equal(dry.size, wet.size);
	assert_memory_equal(dry.csum.b, wet.csum.b, DIGEST_SIZE);
}

static int write_with_fault(
    struct ingestfix *f, uint64_t calls, uint64_t at, uint64_t *ret_hits)
{
	struct written said;
	char name[32];
	int rc = 0;

	(void)snprintf(name, sizeof(name), "a%u.img.fidx", (unsigned)at);
	fault_install();
	fault_add(&(struct fault_rule){ .calls = calls,
	    .what = FAULT_FAIL,
	    .at = at,
	    .times = 1,
	    .error = ENOSPC });
	rc = write_index(f, name, 5000, &said);
	*ret_hits = fault_hits();
	fault_uninstall();
	return rc;
}

/* Each call that may fail is heard. */
static void passes_on_errors(void **state)
{
	struct ingestfix *f = *state;
	uint64_t hits = 1;
	uint64_t n = 0;

	while (hits > 0) {
		int rc = write_with_fault(
		    f, FAULT_ANY & ~FAULT_BIT(FAULT_CLOSE), ++n, &hits);

		if (hits == 0) {
			assert_ok(rc, &f->e);
			break;
		}
		assert_err(rc, &f->e, ERR_SYS, "");
		assert_true(err_is_sys(&f->e, ENOSPC));
	}
	/* random, open, chmod, two stats, two writes, the header's, fsync */
	assert_true(n > 9);
}

/* What could not be written may be told only when it is closed. */
static void hears_the_close(void **state)
{
	struct ingestfix *f = *state;
	uint64_t hits = 0;

	assert_err(write_with_fault(f, FAULT_BIT(FAULT_CLOSE), 1, &hits), &f->e,
	    ERR_SYS, "close 'a1.img.tmp_fidx'");
	assert_int_equal(hits, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		INGESTFIX_TEST(writes_what_can_be_read),
		INGESTFIX_TEST(writes_an_empty_dynamic_index),
		INGESTFIX_TEST(refuses_an_empty_image),
		INGESTFIX_TEST(hands_it_to_the_session),
		INGESTFIX_TEST(gives_it_mode_and_owner),
		INGESTFIX_TEST(gives_each_a_uuid),
		INGESTFIX_TEST(refuses_bad_names),
		INGESTFIX_TEST(refuses_bad_chunk_sizes),
		INGESTFIX_TEST(takes_all_good_chunk_sizes),
		INGESTFIX_TEST(refuses_bad_lengths),
		INGESTFIX_TEST(refuses_an_archive_given_twice),
		INGESTFIX_TEST(writes_nothing_in_a_dry_run),
		INGESTFIX_TEST(passes_on_errors),
		INGESTFIX_TEST(hears_the_close),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
