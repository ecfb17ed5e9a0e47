/* SPDX-License-Identifier: MIT */
/*
 * Archives that are sound: opened by name, given back in four ways.
 */
#include "index/archive.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/restorefix.h"

#define CHUNK RESTOREFIX_CHUNK
#define IMG "root.img.fidx"
#define OUT "out"

static const enum archive_output modes[] = { ARCHIVE_APPEND,
	ARCHIVE_SPARSE_FILE, ARCHIVE_OVERWRITE, ARCHIVE_OVERWRITE_CHANGED };

static int extract(
    struct restorefix *f, enum archive_output how, struct archive_result *ret)
{
	f->e = (struct err)ERR_INIT;
	return archive_extract(
	    f->archive, f->out, how, "the target", &f->task, ret, &f->e);
}

static void opens_by_name(void **state)
{
	struct restorefix *f = *state;

	restorefix_begin(f);
	restorefix_add(f, IMG, "abc", 3);
	restorefix_add(f, "log.raw.didx", "abcd", 4);
	restorefix_add(f, "x.conf.blob", "abcde", 5);
	restorefix_commit(f);

	assert_ok(restorefix_open(f, "root.img"), &f->e);
	assert_int_equal(archive_size(f->archive), 3);
	assert_ok(restorefix_open(f, IMG), &f->e);
	assert_int_equal(archive_size(f->archive), 3);
	assert_ok(restorefix_open(f, "log.raw"), &f->e);
	assert_int_equal(archive_size(f->archive), 4);
	assert_ok(restorefix_open(f, "x.conf"), &f->e);
	assert_int_equal(archive_size(f->archive), 5);

	assert_err(restorefix_open(f, "root"), &f->e, ERR_NOTFOUND,
	    "no archive 'root', did you mean 'root.img'? There is: root.img, "
	    "log.raw, x.conf");
	assert_err(restorefix_open(f, ""), &f->e, ERR_NOTFOUND, "''");
	assert_err(restorefix_open(f, "a\nb"), &f->e, ERR_NOTFOUND, "'a\\nb'");
	assert_err(restorefix_open(f, "root.img.blob"), &f->e, ERR_NOTFOUND,
	    "root.img.blob");
}

static void tells_names_apart(void **state)
{
	struct restorefix *f = *state;

	restorefix_begin(f);
	restorefix_add(f, "two.didx", "abcd", 4);
	restorefix_add(f, "two.blob", "abcde", 5);
	restorefix_add(f, "two.didx.blob", "abcdef", 6);
	restorefix_commit(f);
	assert_err(restorefix_open(f, "two"), &f->e, ERR_INVALID,
	    "'two' is 'two.didx' or 'two.blob'; want the whole name");
	assert_ok(restorefix_open(f, "two.blob"), &f->e);
	assert_int_equal(archive_size(f->archive), 5);
	/* Not the stem of the third. */
	assert_ok(restorefix_open(f, "two.didx"), &f->e);
	assert_int_equal(archive_size(f->archive), 4);
	assert_ok(restorefix_open(f, "two.didx.blob"), &f->e);
	assert_int_equal(archive_size(f->archive), 6);
}

static void is_encrypted(void **state)
{
	struct restorefix *f = *state;

	restorefix_push(f, IMG, "abc", 3);
	assert_ok(restorefix_open(f, "root.img"), &f->e);
	archive_close(f->archive);
	f->archive = NULL;
	f->manifest.files[0].crypt_mode = CRYPT_ENCRYPT;
	assert_err(archive_open(f->ds, &f->id, &f->hold, &f->manifest,
		       "root.img", &f->archive, &f->e),
	    &f->e, ERR_UNSUPPORTED, "root.img.fidx' is encrypted");
	f->manifest.files[0].crypt_mode = CRYPT_SIGN_ONLY;
	assert_ok(archive_open(f->ds, &f->id, &f->hold, &f->manifest,
		      "root.img", &f->archive, &f->e),
	    &f->e);
}

/* 12 chunks and a piece: random, zeros, half zeros, zeros at the end. */
static size_t make_image(struct restorefix *f)
{
	size_t n = 12 * CHUNK + 999;
	uint8_t *p = restorefix_bytes(f, GEN_RANDOM, n);

	memset(p + 2 * CHUNK, 0, 4 * CHUNK);
	memset(p + 7 * CHUNK, 0, CHUNK / 2);
	memset(p + 9 * CHUNK, 0, 2 * CHUNK);
	return n;
}

/* What a target holds before, for the ways that need one. */
static void make_target(struct restorefix *f, enum archive_output how, size_t n)
{
	uint8_t *p = calloc(1, n + 1);

	assert_non_null(p);
	memset(p, 'x', n);
	tmpdir_put(f->dir.fd, OUT, p,
	    how == ARCHIVE_APPEND || how == ARCHIVE_SPARSE_FILE ? 0 : n);
	free(p);
	restorefix_target(f, OUT, O_RDWR);
}

/* Each way gives the same. */
static void check_modes(struct restorefix *f, const void *p, size_t n)
{
	for (size_t i = 0; i < TEST_COUNT(modes); i++) {
		struct archive_result r = { .bytes = 99 };

		make_target(f, modes[i], n);
		assert_ok(extract(f, modes[i], &r), &f->e);
		assert_int_equal(r.bytes, n);
		assert_true(r.bytes_written <= n);
		if (modes[i] == ARCHIVE_APPEND || modes[i] == ARCHIVE_OVERWRITE)
			assert_int_equal(r.bytes_written, n);
		restorefix_assert_file(f, OUT, p, n);
		if (n > 0) {
			assert_int_equal(f->last.done, n);
			assert_int_equal(f->last.total, n);
		}
	}
}

static void gives_back_images(void **state)
{
	static const size_t sizes[] = { 1, CHUNK - 1, CHUNK, CHUNK + 1,
		5 * CHUNK };
	struct restorefix *f = *state;
	size_t n = make_image(f);

	restorefix_push(f, IMG, f->own, n);
	assert_ok(restorefix_open(f, "root.img"), &f->e);
	check_modes(f, f->own, n);
	assert_string_equal(f->phase, "restore root.img");
	for (size_t i = 0; i < TEST_COUNT(sizes); i++) {
		uint8_t *p = restorefix_bytes(f, GEN_ZEROS, sizes[i]);

		restorefix_push(f, IMG, p, sizes[i]);
		assert_ok(restorefix_open(f, "root.img"), &f->e);
		check_modes(f, p, sizes[i]);
	}
}

static void gives_back_streams(void **state)
{
	static const size_t sizes[] = { 0, 1, CHUNK, 20 * CHUNK + 7 };
	struct restorefix *f = *state;

	for (size_t i = 0; i < TEST_COUNT(sizes); i++) {
		for (int kind = GEN_ZEROS; kind <= GEN_TEXT; kind++) {
			uint8_t *p =
			    restorefix_bytes(f, (enum gen_kind)kind, sizes[i]);

			restorefix_push(f, "a.raw.didx", p, sizes[i]);
			assert_ok(restorefix_open(f, "a.raw"), &f->e);
			check_modes(f, p, sizes[i]);
		}
	}
}

static void gives_back_blobs(void **state)
{
	static const size_t sizes[] = { 0, 1, 3 * CHUNK + 5 };
	struct restorefix *f = *state;

	for (size_t i = 0; i < TEST_COUNT(sizes); i++) {
		uint8_t *p = restorefix_bytes(f, GEN_TEXT, sizes[i]);

		restorefix_push(f, "a.conf.blob", p, sizes[i]);
		assert_ok(restorefix_open(f, "a.conf"), &f->e);
		check_modes(f, p, sizes[i]);
	}
}

/* One archive, twice: the index is read anew. */
static void extracts_again(void **state)
{
	struct restorefix *f = *state;
	size_t n = make_image(f);

	restorefix_push(f, IMG, f->own, n);
	assert_ok(restorefix_open(f, "root.img"), &f->e);
	assert_ok(archive_check(f->archive, &f->task, &f->e), &f->e);
	assert_ok(archive_check(f->archive, &f->task, &f->e), &f->e);
	check_modes(f, f->own, n);
}

static void keeps_holes(void **state)
{
	struct restorefix *f = *state;
	size_t n = make_image(f);
	struct archive_result r;
	struct stat st;

	restorefix_push(f, IMG, f->own, n);
	assert_ok(restorefix_open(f, "root.img"), &f->e);
	restorefix_target(f, OUT, O_RDWR | O_CREAT);
	assert_ok(extract(f, ARCHIVE_SPARSE_FILE, &r), &f->e);
	/* The half chunk of zeros is shorter than what a hole is for. */
	assert_int_equal(r.bytes_written, n - 6 * CHUNK);
	assert_int_equal(fstat(f->out, &st), 0);
	assert_int_equal(st.st_size, n);
	assert_true((size_t)st.st_blocks * 512 < n - 4 * CHUNK);

	/* Nothing but a hole, which also has its length. */
	restorefix_push(f, IMG, restorefix_bytes(f, GEN_ZEROS, n), n);
	assert_ok(restorefix_open(f, "root.img"), &f->e);
	make_target(f, ARCHIVE_SPARSE_FILE, n);
	assert_ok(extract(f, ARCHIVE_SPARSE_FILE, &r), &f->e);
	assert_int_equal(r.bytes, n);
	assert_true(r.bytes_written < CHUNK); /* the short last one */
	restorefix_assert_file(f, OUT, f->own, n);
}

/* Holes are left within the chunks of streams, too. */
static void keeps_holes_of_streams(void **state)
{
	struct restorefix *f = *state;
	size_t n = 40 * CHUNK;
	uint8_t *p = restorefix_bytes(f, GEN_ZEROS, n);
	struct archive_result r;

	p[0] = 1;
	p[n - 1] = 1;
	restorefix_push(f, "a.raw.didx", p, n);
	assert_ok(restorefix_open(f, "a.raw"), &f->e);
	make_target(f, ARCHIVE_SPARSE_FILE, n);
	assert_ok(extract(f, ARCHIVE_SPARSE_FILE, &r), &f->e);
	assert_true(r.bytes_written <= 2 * CHUNK);
	restorefix_assert_file(f, OUT, p, n);
}

/* Which blocks of the target were written: one bit each. */
struct writes {
	pthread_mutex_t lock;
	uint64_t blocks;
	size_t calls;
	size_t bytes;
};

static void see_write(void *ctx, struct fault_event *ev)
{
	struct writes *w = ctx;

	if (ev->call != FAULT_PWRITE)
		return;
	(void)pthread_mutex_lock(&w->lock);
	for (size_t at = 0; at < ev->n; at += CHUNK)
		w->blocks |= UINT64_C(1) << ((size_t)ev->at + at) / CHUNK;
	w->calls++;
	w->bytes += ev->n;
	(void)pthread_mutex_unlock(&w->lock);
}

static struct writes extract_watched(
    struct restorefix *f, enum archive_output how, struct archive_result *r)
{
	struct writes w = { .lock = PTHREAD_MUTEX_INITIALIZER };
	struct fault_hooks hooks = { .before = see_write, .ctx = &w };

	fault_install();
	fault_set_hooks(&hooks);
	assert_ok(extract(f, how, r), &f->e);
	fault_uninstall();
	return w;
}

static void writes_only_what_differs(void **state)
{
	struct restorefix *f = *state;
	size_t n = make_image(f);
	struct archive_result r;
	struct writes w;
	uint8_t byte = 7;

	restorefix_push(f, IMG, f->own, n);
	assert_ok(restorefix_open(f, "root.img"), &f->e);
	tmpdir_put(f->dir.fd, OUT, f->own, n);
	restorefix_target(f, OUT, O_RDWR);
	w = extract_watched(f, ARCHIVE_OVERWRITE_CHANGED, &r);
	assert_int_equal(w.calls, 0);
	assert_int_equal(r.bytes_written, 0);
	assert_int_equal(r.bytes, n);

	/* One byte each: in data, in zeros, in the last one. */
	assert_int_equal(pwrite(f->out, &byte, 1, CHUNK + 5), 1);
	assert_int_equal(pwrite(f->out, &byte, 1, 4 * CHUNK - 1), 1);
	assert_int_equal(pwrite(f->out, &byte, 1, (off_t)n - 1), 1);
	w = extract_watched(f, ARCHIVE_OVERWRITE_CHANGED, &r);
	assert_int_equal(w.blocks, 1 << 1 | 1 << 3 | 1 << 12);
	assert_int_equal(r.bytes_written, 2 * CHUNK + 999);
	assert_int_equal(w.bytes, r.bytes_written);
	restorefix_assert_file(f, OUT, f->own, n);

	/* A target that ends before. */
	assert_int_equal(ftruncate(f->out, (off_t)(CHUNK * 10 + 3)), 0);
	w = extract_watched(f, ARCHIVE_OVERWRITE_CHANGED, &r);
	assert_int_equal(w.blocks, 1 << 10 | 1 << 11 | 1 << 12);
	restorefix_assert_file(f, OUT, f->own, n);

	w = extract_watched(f, ARCHIVE_OVERWRITE, &r);
	assert_int_equal(w.blocks, (1 << 13) - 1);
	assert_int_equal(w.bytes, n);
}

/* A chunk of several blocks: only those of it that differ. */
static void compares_within_chunks(void **state)
{
	struct restorefix *f = *state;
	size_t n = 16 * CHUNK;
	uint8_t *p = restorefix_bytes(f, GEN_RANDOM, n);
	struct idx_entry entry = { .end = n };
	struct archive_result r;
	struct writes w;
	uint8_t byte = (uint8_t)~p[5 * CHUNK];

	restorefix_begin(f);
	entry.digest = restorefix_put(f, p, n);
	restorefix_craft(f, "a.raw.didx", &entry, 1);
	restorefix_commit(f);
	assert_ok(restorefix_open(f, "a.raw"), &f->e);
	tmpdir_put(f->dir.fd, OUT, p, n);
	restorefix_target(f, OUT, O_RDWR);
	assert_int_equal(pwrite(f->out, &byte, 1, 5 * CHUNK), 1);
	w = extract_watched(f, ARCHIVE_OVERWRITE_CHANGED, &r);
	assert_int_equal(w.blocks, 1 << 5);
	assert_int_equal(r.bytes_written, CHUNK);
	restorefix_assert_file(f, OUT, p, n);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		RESTOREFIX_TEST(opens_by_name),
		RESTOREFIX_TEST(tells_names_apart),
		RESTOREFIX_TEST(is_encrypted),
		RESTOREFIX_TEST(gives_back_images),
		RESTOREFIX_TEST(gives_back_streams),
		RESTOREFIX_TEST(gives_back_blobs),
		RESTOREFIX_TEST(extracts_again),
		RESTOREFIX_TEST(keeps_holes),
		RESTOREFIX_TEST(keeps_holes_of_streams),
		RESTOREFIX_TEST(writes_only_what_differs),
		RESTOREFIX_TEST(compares_within_chunks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
