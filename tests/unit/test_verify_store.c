/* SPDX-License-Identifier: MIT */
/*
 * Snapshots and their files: what verify says of them, and how it goes on.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "index/verify.h"
#include "tests/support/restorefix.h"

#define CHUNK RESTOREFIX_CHUNK
#define IMG "root.img.fidx"

#define CHUNKS 8U
#define HURT 5U /* which one is damaged */

static void push_image(struct restorefix *f)
{
	size_t n = CHUNKS * CHUNK;

	restorefix_push(f, IMG, restorefix_bytes(f, GEN_RANDOM, n), n);
}

static int verify(struct restorefix *f, const struct backup_snapshot *ids,
    size_t n, struct verify_result *ret)
{
	f->e = (struct err)ERR_INIT;
	buf_reset(&f->messages);
	return verify_run(f->ds, ids, n, &f->task, ret, &f->e);
}

/* Of f->id and one more that is sound: the second is verified all the same. */
static struct verify_result verify_two(
    struct restorefix *f, const struct backup_snapshot *second)
{
	const struct backup_snapshot ids[] = { f->id, *second };
	struct verify_result r;

	assert_ok(verify(f, ids, 2, &r), &f->e);
	assert_int_equal(r.snapshots, 2);
	assert_int_equal(r.hurt_n, 1);
	assert_int_equal(r.hurt[0].id.time, f->id.time);
	assert_int_equal(restorefix_list_lines(f), r.missing_chunks);
	return r;
}

/* A file of f->id, changed. */
static void change(
    struct restorefix *f, const char *filename, void (*how)(char *p, size_t *n))
{
	char path[PATH_MAX];
	char *p = NULL;
	size_t n = 0;

	restorefix_file_path(f, filename, path);
	p = tmpdir_get(f->dir.fd, path, &n);
	assert_non_null(p);
	how(p, &n);
	tmpdir_put(f->dir.fd, path, p, n);
	free(p);
}

static void flip_last(char *p, size_t *n)
{
	p[*n - 1] = (char)(p[*n - 1] ^ 1);
}

static void flip_csum(char *p, size_t *n)
{
	(void)n;
	p[32] = (char)(p[32] ^ 1);
}

static void cut_one(char *p, size_t *n)
{
	(void)p;
	(*n)--;
}

static void cut_all(char *p, size_t *n)
{
	(void)p;
	*n = 0;
}

static void finds_damaged_files(void **state)
{
	static const struct {
		const char *filename;
		void (*how)(char *p, size_t *n);
		const char *text;
	} cases[] = {
		{ IMG, flip_last, IMG "': checksum " },
		{ IMG, flip_csum, IMG "': checksum " },
		{ IMG, cut_one, IMG "': " },
		{ IMG, cut_all, IMG "': 0 bytes, want at least 4096" },
		{ "a.conf.blob", flip_last, "a.conf.blob': checksum " },
		{ "a.conf.blob", cut_one, "a.conf.blob': size " },
		{ "a.conf.blob", cut_all, "a.conf.blob': blob of 0 bytes" },
		{ BACKUP_MANIFEST, flip_last, BACKUP_MANIFEST "': " },
		{ BACKUP_MANIFEST, cut_one, BACKUP_MANIFEST "': " },
		{ BACKUP_MANIFEST, cut_all, BACKUP_MANIFEST "': " },
	};
	struct restorefix *f = *state;
	struct backup_snapshot sound;

	push_image(f);
	sound = f->id;
	for (size_t i = 0; i < TEST_COUNT(cases); i++) {
		struct verify_result r;

		restorefix_begin(f);
		restorefix_add(f, IMG, f->own, CHUNKS * CHUNK);
		restorefix_add(f, "a.conf.blob", "key = value\n", 12);
		restorefix_commit(f);
		change(f, cases[i].filename, cases[i].how);
		r = verify_two(f, &sound);
		assert_non_null(strstr(r.hurt[0].reasons, cases[i].text));
		assert_true(restorefix_said(f, cases[i].text) > 0);
		assert_int_equal(r.chunks, CHUNKS);
		verify_result_release(&r);
	}
}

static void finds_files_that_do_not_belong(void **state)
{
	struct restorefix *f = *state;
	struct backup_snapshot sound;
	struct verify_result r;
	char path[PATH_MAX];

	push_image(f);
	sound = f->id;
	push_image(f);
	/* None of these is an archive. */
	restorefix_file_path(f, "client.log.blob", path);
	tmpdir_put_str(f->dir.fd, path, "");
	restorefix_file_path(f, "b.img.tmp_fidx", path);
	tmpdir_put_str(f->dir.fd, path, "");
	restorefix_file_path(f, ".hidden.fidx", path);
	tmpdir_put_str(f->dir.fd, path, "");
	restorefix_file_path(f, "more\n.raw.didx", path);
	tmpdir_put_str(f->dir.fd, path, "");
	r = verify_two(f, &sound);
	assert_int_equal(restorefix_said(f, ""), 1);
	assert_non_null(strstr(r.hurt[0].reasons,
	    "/more\\n.raw.didx' is not listed in the manifest: it was "
	    "renamed or added by hand; rename it back, or remove it\n"));
	verify_result_release(&r);

	push_image(f);
	restorefix_file_path(f, IMG, path);
	assert_int_equal(unlinkat(f->dir.fd, path, 0), 0);
	r = verify_two(f, &sound);
	assert_int_equal(restorefix_said(f, ""), 1);
	assert_non_null(strstr(r.hurt[0].reasons,
	    BACKUP_MANIFEST "' lists '" IMG "', which does not exist\n"));
	verify_result_release(&r);
}

/* A link where the snapshot should be. */
static void finds_a_snapshot_that_is_a_link(void **state)
{
	struct restorefix *f = *state;
	struct backup_snapshot sound;
	struct verify_result r;
	char path[PATH_MAX];

	push_image(f);
	sound = f->id;
	push_image(f);
	restorefix_file_path(f, "", path);
	path[strlen(path) - 1] = '\0';
	assert_int_equal(renameat(f->dir.fd, path, f->dir.fd, "moved"), 0);
	assert_int_equal(symlinkat("../../../moved", f->dir.fd, path), 0);
	r = verify_two(f, &sound);
	assert_non_null(strstr(r.hurt[0].reasons, "symbolic link"));
	verify_result_release(&r);
}

/* What can not be read is a finding, and the rest is verified. */
static void goes_on_behind_disk_errors(void **state)
{
	static const struct {
		enum fault_call call;
		const char *name;
		const char *text;
	} cases[] = {
		{ FAULT_OPENAT, IMG, IMG },
		{ FAULT_OPENAT, "a.conf.blob", "a.conf.blob" },
		{ FAULT_OPENAT, BACKUP_MANIFEST, BACKUP_MANIFEST },
		{ FAULT_READDIR, NULL, "host/a/" },
	};
	struct restorefix *f = *state;
	struct backup_snapshot sound;

	push_image(f);
	sound = f->id;
	restorefix_begin(f);
	restorefix_add(f, IMG, f->own, CHUNKS * CHUNK);
	restorefix_add(f, "a.conf.blob", "key = value\n", 12);
	restorefix_commit(f);
	for (size_t i = 0; i < TEST_COUNT(cases); i++) {
		struct verify_result r;
		/* The index is opened to be counted, then again. */
		bool twice =
		    cases[i].name != NULL && strcmp(cases[i].name, IMG) == 0;

		fault_install();
		fault_add(
		    &(struct fault_rule){ .calls = FAULT_BIT(cases[i].call),
			.name = cases[i].name,
			.what = FAULT_FAIL,
			.at = twice ? 2 : 1,
			.times = 1,
			.error = EIO });
		r = verify_two(f, &sound);
		assert_int_equal(fault_hits(), 1);
		fault_uninstall();
		assert_non_null(strstr(r.hurt[0].reasons, cases[i].text));
		assert_non_null(
		    strstr(r.hurt[0].reasons, "Input/output error"));
		verify_result_release(&r);
	}
}

/* Indexes are read in pieces of this many entries. */
#define PIECE ((size_t)(1 << 20) / IDX_DYNAMIC_ENTRY_SIZE)

/* Reading its second piece, for the chunks, fails. */
static void fail_index(void *ctx, struct fault_event *ev)
{
	atomic_int *left = ctx;

	if (ev->call == FAULT_PREAD &&
	    ev->at ==
		(int64_t)(IDX_HEADER_SIZE + PIECE * IDX_DYNAMIC_ENTRY_SIZE) &&
	    atomic_fetch_sub(left, 1) == 1) {
		ev->skip = true;
		ev->result = -1;
		ev->error = EIO;
	}
}

/* What was submitted of it by then is judged under its own name. */
static void goes_on_behind_an_index_that_fails_later(void **state)
{
	const size_t many = PIECE + 100;
	const size_t last = PIECE / 1024 * 1024; /* entries are got by 1024 */
	struct restorefix *f = *state;
	atomic_int left = 2; /* to be checked; for the chunks */
	struct fault_hooks hooks = { .before = fail_index, .ctx = &left };
	struct idx_entry *entries = calloc(many, sizeof(*entries));
	struct backup_snapshot sound;
	struct verify_result r;
	struct digest d;

	assert_non_null(entries);
	push_image(f);
	sound = f->id;
	restorefix_begin(f);
	d = restorefix_put(f, "x", 1);
	for (size_t i = 0; i < many; i++) {
		entries[i] = (struct idx_entry){ .digest = d, .end = i + 1 };
		/* The last ones before it fails are missing. */
		if (i < last && i >= last - 3)
			entries[i].digest.b[31] ^= (uint8_t)(i - last + 4);
	}
	restorefix_craft(f, "a.raw.didx", entries, many);
	restorefix_commit(f);
	free(entries);
	fault_install();
	fault_set_hooks(&hooks);
	r = verify_two(f, &sound);
	fault_uninstall();
	assert_int_equal(left, 0);
	assert_non_null(strstr(r.hurt[0].reasons, "Input/output error"));
	assert_int_equal(restorefix_said(f, ": missing"), 3);
	assert_int_equal(r.missing_chunks, 3);
	assert_int_equal(r.chunks, 1 + 3 + CHUNKS);
	verify_result_release(&r);
}

static void passes_over_what_is_not_there(void **state)
{
	struct restorefix *f = *state;
	struct snapshot_hold hold = SNAPSHOT_HOLD_INIT;
	struct backup_snapshot ids[4];
	struct verify_result r;
	char path[PATH_MAX];

	push_image(f);
	ids[0] = f->id;
	ids[1] = f->id;
	ids[1].time -= 1000; /* there is none */
	push_image(f);
	ids[2] = f->id; /* being removed */
	assert_ok(
	    snapshot_hold(f->ds, &f->id, LOCK_EXCLUSIVE, &hold, &f->e), &f->e);
	push_image(f);
	ids[3] = f->id; /* unfinished */
	restorefix_file_path(f, BACKUP_MANIFEST, path);
	assert_int_equal(unlinkat(f->dir.fd, path, 0), 0);
	assert_ok(verify(f, ids, 4, &r), &f->e);
	snapshot_release(&hold);
	assert_int_equal(r.snapshots, 1);
	assert_int_equal(r.busy, 1);
	assert_int_equal(r.unfinished, 1);
	assert_int_equal(r.hurt_n, 0);
	assert_int_equal(f->last.done, f->last.total);
	verify_result_release(&r);
}

static void warns_if_the_state_can_not_be_written(void **state)
{
	struct restorefix *f = *state;
	struct verify_result r;

	push_image(f);
	fault_install();
	fault_add(&(struct fault_rule){ .calls = FAULT_BIT(FAULT_RENAMEAT2),
	    .name = BACKUP_MANIFEST,
	    .what = FAULT_FAIL,
	    .at = 1,
	    .times = 1,
	    .error = ENOSPC });
	assert_ok(verify(f, &f->id, 1, &r), &f->e);
	assert_int_equal(fault_hits(), 1);
	assert_int_equal(r.hurt_n, 0);
	assert_int_equal(
	    restorefix_said(f, "W the result could not be written: "), 1);
	verify_result_release(&r);
}

static void stops(void **state)
{
	struct restorefix *f = *state;
	struct verify_result r = { .snapshots = 99 };

	push_image(f);
	f->task.stop = SIGTERM;
	assert_err(verify(f, &f->id, 1, &r), &f->e, ERR_CANCELLED, "SIGTERM");
	assert_int_equal(r.snapshots, 0);
	assert_null(r.hurt);
}

/* Without the list no rename (I2): said, and the others are judged. */
static void keeps_what_it_can_not_list(void **state)
{
	static const struct {
		enum fault_call call;
		const char *name;
		unsigned lines; /* of the list then */
	} cases[] = {
		{ FAULT_CREATE, "damaged", 0 },
		{ FAULT_RENAMEAT2, ".0.bad", 2 },
	};
	struct restorefix *f = *state;

	for (size_t i = 0; i < TEST_COUNT(cases); i++) {
		struct digest first;
		struct digest d;
		struct verify_result r;
		char path[PATH_MAX];

		push_image(f);
		first = restorefix_entry(f, IMG, 0).digest;
		d = restorefix_entry(f, IMG, HURT).digest;
		restorefix_spoil(f, &first, SPOIL_CRC);
		restorefix_spoil(f, &d, SPOIL_CONTENT);
		fault_install();
		fault_add(
		    &(struct fault_rule){ .calls = FAULT_BIT(cases[i].call),
			.name = cases[i].name,
			.what = FAULT_FAIL,
			.at = 1,
			.times = FAULT_FOREVER,
			.error = ENOSPC });
		assert_ok(verify(f, &f->id, 1, &r), &f->e);
		fault_uninstall();
		assert_int_equal(r.bad_chunks, 2);
		assert_int_equal(r.kept_chunks, 2);
		assert_int_equal(r.hurt_n, 1);
		assert_int_equal(restorefix_said(f, "; not renamed: "), 2);
		assert_int_equal(restorefix_said(f, "No space left"), 2);
		assert_int_equal(restorefix_said(f, "another digest"), 1);
		assert_true(restorefix_has_chunk(f, &first, ""));
		assert_true(restorefix_has_chunk(f, &d, ""));
		assert_false(restorefix_has_chunk(f, &d, ".0.bad"));
		assert_int_equal(restorefix_list_lines(f), cases[i].lines);
		verify_result_release(&r);

		/* With room again, all is as it should be. */
		assert_ok(verify(f, &f->id, 1, &r), &f->e);
		assert_int_equal(r.kept_chunks, 0);
		assert_int_equal(r.bad_chunks, 2);
		assert_true(restorefix_has_chunk(f, &d, ".0.bad"));
		verify_result_release(&r);
		restorefix_chunk_path(&d, ".0.bad", path);
		assert_int_equal(unlinkat(f->dir.fd, path, 0), 0);
		assert_int_equal(
		    unlinkat(f->dir.fd, "store/.cairn/damaged", 0), 0);
	}
}

/* Open for reading: all is told, and the store stays as it is. */
static void reads_without_writing(void **state)
{
	struct restorefix *f = *state;
	struct datastore *writing = f->ds;
	struct verify_result r;
	struct digest bad;
	struct digest missing;
	char path[PATH_MAX];
	char *before = NULL;
	char *after = NULL;
	size_t n[2] = { 0, 0 };

	push_image(f);
	bad = restorefix_entry(f, IMG, HURT).digest;
	missing = restorefix_entry(f, IMG, HURT - 1).digest;
	restorefix_spoil(f, &bad, SPOIL_CRC);
	restorefix_spoil(f, &missing, SPOIL_MISSING);
	restorefix_file_path(f, BACKUP_MANIFEST, path);
	before = tmpdir_get(f->dir.fd, path, &n[0]);
	f->ds = NULL;
	assert_ok(datastore_open(f->path, DATASTORE_READ, NULL, &f->ds, &f->e),
	    &f->e);
	assert_ok(verify(f, &f->id, 1, &r), &f->e);
	datastore_close(f->ds);
	f->ds = writing;
	assert_int_equal(r.hurt_n, 1);
	assert_int_equal(r.bad_chunks, 1);
	assert_int_equal(r.kept_chunks, 1);
	assert_int_equal(r.missing_chunks, 1);
	verify_result_release(&r);
	assert_int_equal(restorefix_said(f, "chunk"), 2);
	assert_int_equal(restorefix_list_lines(f), 0);
	assert_true(restorefix_has_chunk(f, &bad, ""));
	after = tmpdir_get(f->dir.fd, path, &n[1]);
	assert_int_equal(n[0], n[1]);
	assert_memory_equal(before, after, n[0]);
	free(before);
	free(after);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		RESTOREFIX_TEST(finds_damaged_files),
		RESTOREFIX_TEST(finds_files_that_do_not_belong),
		RESTOREFIX_TEST(finds_a_snapshot_that_is_a_link),
		RESTOREFIX_TEST(goes_on_behind_disk_errors),
		RESTOREFIX_TEST(goes_on_behind_an_index_that_fails_later),
		RESTOREFIX_TEST(passes_over_what_is_not_there),
		RESTOREFIX_TEST(warns_if_the_state_can_not_be_written),
		RESTOREFIX_TEST(stops),
		RESTOREFIX_TEST(keeps_what_it_can_not_list),
		RESTOREFIX_TEST(reads_without_writing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
