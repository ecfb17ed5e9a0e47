/* SPDX-License-Identifier: MIT */
/*
 * Restores of what is damaged, and of catalogs that somebody made to do harm.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "index/tree_restore.h"
#include "tests/support/rowfix.h"

#define ROOT CATALOG_ROOT_ID
#define CHUNK RESTOREFIX_CHUNK
#define STREAM "root.tree.didx"

static const struct tree_restore_opts whole = { .root_metadata = true };

/* Of file i of make_files: where it begins, and its size. */
#define FILES 60U
static uint64_t file_start(unsigned i)
{
	uint64_t at = 0;

	for (unsigned k = 0; k < i; k++)
		at += 1 + (k * 7919U) % (2 * CHUNK);
	return at;
}

static uint64_t file_size(unsigned i)
{
	return file_start(i + 1) - file_start(i);
}

static const uint8_t *make_files(struct rowfix *t)
{
	uint8_t *p = restorefix_bytes(t->f, GEN_RANDOM, file_start(FILES));
	char name[16];

	for (unsigned i = 0; i < FILES; i++) {
		(void)snprintf(name, sizeof(name), "f%02u", i);
		rowfix_file(t, ROOT, name, 0600, p + file_start(i),
		    (size_t)file_size(i));
	}
	rowfix_commit(t, "root.tree");
	return p;
}

/* Those that touch [start, end) are named, counted and not there; all others
 * are as they were. */
static void check_hurt(
    struct rowfix *t, const uint8_t *p, uint64_t start, uint64_t end)
{
	unsigned hurt = 0;

	for (unsigned i = 0; i < FILES; i++) {
		uint64_t at = file_start(i);
		bool bad = at < end && at + file_size(i) > start;
		char name[16];
		char said[32];
		size_t n = 0;
		char *got = NULL;

		(void)snprintf(name, sizeof(name), "f%02u", i);
		(void)snprintf(said, sizeof(said), "W 'target/%s': ", name);
		got = tmpdir_get(t->target, name, &n);
		assert_int_equal(restorefix_said(t->f, said), bad ? 1 : 0);
		hurt += bad;
		if (bad) {
			assert_null(got);
			continue;
		}
		assert_non_null(got);
		assert_int_equal(n, file_size(i));
		assert_true(memcmp(got, p + at, n) == 0);
		free(got);
	}
	assert_true(hurt > 0);
	assert_int_equal(t->result.damaged, hurt);
	assert_int_equal(t->result.entries, FILES - hurt);
	assert_int_equal(t->result.failed, 0);
	rowfix_assert_clean(t);
}

static void goes_on_past_damage(void **state)
{
	struct rowfix *t = *state;
	const uint8_t *p = make_files(t);
	uint64_t n = restorefix_entries(t->f, STREAM);
	const struct tree_restore_opts opts = { .threads = 3 };

	assert_true(n > 10);
	for (enum restorefix_spoil how = 0; how < SPOIL_KINDS; how++) {
		uint64_t i = 2 + (uint64_t)how % (n - 4);
		struct idx_entry x = restorefix_entry(t->f, STREAM, i);
		uint64_t start = restorefix_entry(t->f, STREAM, i - 1).end;
		char path[PATH_MAX];
		size_t size = 0;
		char *chunk = NULL;

		restorefix_chunk_path(&x.digest, "", path);
		chunk = tmpdir_get(t->f->dir.fd, path, &size);
		restorefix_spoil(t->f, &x.digest, how);
		assert_ok(rowfix_restore(t, &opts), &t->f->e);
		check_hurt(t, p, start, x.end);
		assert_true(
		    restorefix_said(t->f, restorefix_spoil_text(how)) > 0);
		assert_int_equal(restorefix_listed(t->f, &x.digest,
				     how == SPOIL_MISSING ? "missing" : ""),
		    1);
		(void)unlinkat(t->f->dir.fd, path, 0);
		tmpdir_put(t->f->dir.fd, path, chunk, size);
		free(chunk);
		for (unsigned k = 0; k < FILES; k++) {
			(void)snprintf(path, sizeof(path), "f%02u", k);
			(void)unlinkat(t->target, path, 0);
		}
	}
}

/* One digest of the index is wrong: the files of one chunk are hurt. */
static void goes_on_past_a_bad_index(void **state)
{
	struct rowfix *t = *state;
	const uint8_t *p = make_files(t);
	struct idx_entry x = restorefix_entry(t->f, STREAM, 5);
	uint64_t start = restorefix_entry(t->f, STREAM, 4).end;
	char path[PATH_MAX];
	size_t n = 0;
	uint8_t *raw = NULL;

	restorefix_file_path(t->f, STREAM, path);
	raw = (uint8_t *)tmpdir_get(t->f->dir.fd, path, &n);
	assert_non_null(raw);
	raw[IDX_HEADER_SIZE + 5 * IDX_DYNAMIC_ENTRY_SIZE + 8] ^= 1;
	tmpdir_put(t->f->dir.fd, path, raw, n);
	free(raw);
	assert_ok(rowfix_restore(t, &whole), &t->f->e);
	assert_int_equal(
	    restorefix_said(t->f, "compared with its own digest"), 1);
	t->result.damaged--;
	check_hurt(t, p, start, x.end);
}

/* What a catalog says before and behind a gap. */
static void goes_on_with_a_broken_catalog(void **state)
{
	struct rowfix *t = *state;
	struct idx_entry x;
	char name[200];
	char path[PATH_MAX];
	uint64_t n = 0;

	for (unsigned i = 0; i < 6000; i++) {
		(void)snprintf(name, sizeof(name), "%04u-%0150u", i, i);
		rowfix_text(t, ROOT, name, name);
	}
	rowfix_commit(t, "root.tree");
	n = restorefix_entries(t->f, "root.tree.catalog.fidx");
	assert_true(n >= 5);
	x = restorefix_entry(t->f, "root.tree.catalog.fidx", n / 2);
	restorefix_chunk_path(&x.digest, "", path);
	assert_int_equal(unlinkat(t->f->dir.fd, path, 0), 0);
	assert_ok(rowfix_restore(t, &whole), &t->f->e);
	assert_true(t->result.gaps.places > 0);
	assert_true(restorefix_said(t->f, "some entries of '/' behind '") > 0);
	n = tmpdir_count(t->target, "");
	assert_in_range(n, 4000, 5500);
	assert_true(rowfix_exists(t, name)); /* the last one */
	assert_true(rowfix_exists(t,
	    "0000-0000000000000000000000000000000000"
	    "00000000000000000000000000000000000000"
	    "00000000000000000000000000000000000000"
	    "00000000000000000000000000000000000000"
	    "00"));
	rowfix_assert_clean(t);
}

/* Sound chunks, but not what the catalog says of the file. */
static void compares_digests(void **state)
{
	struct rowfix *t = *state;
	uint8_t *p = restorefix_bytes(t->f, GEN_RANDOM, 9 * CHUNK);
	static const size_t sizes[] = { 5, CHUNK / 2, 8 * CHUNK };
	char name[16];

	for (size_t i = 0; i < TEST_COUNT(sizes); i++) {
		struct catalog_entry row;

		(void)snprintf(name, sizeof(name), "f%zu", i);
		row = rowfix_row(t, ROOT, name, CATALOG_FILE, 0600);
		rowfix_content(t, &row, p + i, sizes[i]);
		row.sha256.b[31] ^= 1;
		rowfix_add(t, &row);
	}
	rowfix_text(t, ROOT, "good", "good");
	rowfix_commit(t, "root.tree");
	assert_ok(rowfix_restore(t, &whole), &t->f->e);
	assert_int_equal(t->result.damaged, TEST_COUNT(sizes));
	assert_int_equal(t->result.entries, 1);
	assert_int_equal(restorefix_said(t->f, "the content has SHA-256"), 3);
	rowfix_assert_text(t, "good", "good");
	assert_int_equal(tmpdir_count(t->target, ""), 1);
	/* What is there is not lost for something bad. */
	tmpdir_put_str(t->target, "f1", "mine");
	assert_ok(rowfix_restore(t,
		      &(struct tree_restore_opts){
			  .overwrite = TREE_OVERWRITE_ALWAYS }),
	    &t->f->e);
	rowfix_assert_text(t, "f1", "mine");
}

static void tells_of_the_unreadable(void **state)
{
	struct rowfix *t = *state;
	struct catalog_entry row =
	    rowfix_row(t, ROOT, "secret", CATALOG_FILE, 0600);

	row.has |= CATALOG_HAS_SIZE | CATALOG_HAS_STATE;
	row.size = 5;
	row.state = CATALOG_STATE_UNREADABLE;
	rowfix_add(t, &row);
	row = rowfix_row(t, ROOT, "moved", CATALOG_FILE, 0600);
	rowfix_content(t, &row, "moved", 5);
	row.has |= CATALOG_HAS_STATE;
	row.state = CATALOG_STATE_CHANGED | CATALOG_STATE_SHORT;
	rowfix_add(t, &row);
	rowfix_commit(t, "root.tree");
	assert_ok(rowfix_restore(t, &whole), &t->f->e);
	assert_int_equal(t->result.damaged, 1);
	assert_int_equal(restorefix_said(t->f,
			     "'target/secret': could not be read when it was "
			     "pushed"),
	    1);
	assert_false(rowfix_exists(t, "secret"));
	rowfix_assert_text(t, "moved", "moved");
}

/* The group's first one is damaged: so are they all. */
static void links_share_their_damage(void **state)
{
	struct rowfix *t = *state;
	struct catalog_entry row = rowfix_row(t, ROOT, "a", CATALOG_FILE, 0600);

	row.has |= CATALOG_HAS_LINK;
	row.link = row.id;
	rowfix_content(t, &row, "linked", 6);
	row.sha256.b[0] ^= 1;
	rowfix_add(t, &row);
	row.id = t->next_id++;
	row.name.p = (const uint8_t *)"b";
	rowfix_add(t, &row);
	rowfix_commit(t, "root.tree");
	assert_ok(rowfix_restore(t, &whole), &t->f->e);
	assert_int_equal(t->result.damaged, 2);
	assert_int_equal(restorefix_said(t->f, "'target/b': what it is"), 1);
	/* Not linked to what had the first one's name. */
	tmpdir_put_str(t->target, "a", "mine");
	assert_ok(rowfix_restore(t,
		      &(struct tree_restore_opts){
			  .overwrite = TREE_OVERWRITE_ALWAYS }),
	    &t->f->e);
	rowfix_assert_text(t, "a", "mine");
	assert_false(rowfix_exists(t, "b"));
}

/* -- Made to do harm. -- */

static struct catalog_entry file_row(
    struct rowfix *t, const char *name, uint64_t pos, uint64_t size)
{
	struct catalog_entry row =
	    rowfix_row(t, ROOT, name, CATALOG_FILE, 0600);

	row.has |= CATALOG_HAS_SIZE | CATALOG_HAS_POS;
	row.pos = pos;
	row.size = size;
	return row;
}

static void bears_contents_from_nowhere(void **state)
{
	static const struct {
		uint64_t pos;
		uint64_t size;
	} cases[] = { { 1 << 20, 1 }, { 0, 1 << 20 }, { 3, INT64_MAX - 3 },
		{ INT64_MAX - 1, 1 }, { 0, INT64_MAX } };
	struct rowfix *t = *state;
	struct catalog_entry row;
	char name[16];

	rowfix_text(t, ROOT, "good", "good");
	for (size_t i = 0; i < TEST_COUNT(cases); i++) {
		(void)snprintf(name, sizeof(name), "f%zu", i);
		row = file_row(t, name, cases[i].pos, cases[i].size);
		rowfix_add(t, &row);
	}
	/* The runs say more than there is, too. */
	t->has_run = true;
	assert_ok(catalog_writer_run(t->w, 0, 4, 0, &t->f->e), &t->f->e);
	assert_ok(catalog_writer_run(t->w, 4, (uint64_t)1 << 40, 2, &t->f->e),
	    &t->f->e);
	rowfix_commit(t, "root.tree");
	assert_ok(rowfix_restore(t, &whole), &t->f->e);
	assert_int_equal(t->result.damaged, TEST_COUNT(cases));
	assert_int_equal(t->result.entries, 1);
	rowfix_assert_text(t, "good", "good");
	assert_int_equal(tmpdir_count(t->target, ""), 1);
}

/* In pieces that lie apart, or before one another. */
static void follows_runs(void **state)
{
	struct rowfix *t = *state;
	struct catalog_entry row = file_row(t, "apart", 100, 9);
	struct digest d;

	assert_ok(buf_append(&t->stream, "ghidefabc", 9, &t->f->e), &t->f->e);
	t->has_run = true;
	assert_ok(catalog_writer_run(t->w, 100, 3, 6, &t->f->e), &t->f->e);
	assert_ok(catalog_writer_run(t->w, 103, 3, 3, &t->f->e), &t->f->e);
	assert_ok(catalog_writer_run(t->w, 106, 3, 0, &t->f->e), &t->f->e);
	assert_ok(digest_of("abcdefghi", 9, &d, &t->f->e), &t->f->e);
	row.has |= CATALOG_HAS_SHA256;
	row.sha256 = d;
	rowfix_add(t, &row);
	row = file_row(t, "bad", 100, 9);
	row.has |= CATALOG_HAS_SHA256;
	rowfix_add(t, &row);
	/* Two runs that follow each other in the stream, too. */
	assert_ok(catalog_writer_run(t->w, 200, 3, 3, &t->f->e), &t->f->e);
	assert_ok(catalog_writer_run(t->w, 203, 3, 6, &t->f->e), &t->f->e);
	row = file_row(t, "joined", 201, 4);
	rowfix_add(t, &row);
	rowfix_commit(t, "root.tree");
	assert_ok(rowfix_restore(t, &whole), &t->f->e);
	rowfix_assert_text(t, "apart", "abcdefghi");
	rowfix_assert_text(t, "joined", "efab");
	assert_int_equal(t->result.damaged, 1);
	assert_int_equal(restorefix_said(t->f, "'target/bad': the content"), 1);
	assert_false(rowfix_exists(t, "bad"));
	rowfix_assert_clean(t);
}

static void bears_giant_holes(void **state)
{
	static const struct catalog_hole hole = { 0, INT64_MAX - 1, false };
	static const struct catalog_hole reserved = { 1, INT64_MAX - 2, true };
	struct rowfix *t = *state;
	struct catalog_entry row = file_row(t, "huge", 0, INT64_MAX);
	uint8_t text[2][CATALOG_HOLE_SIZE];

	catalog_hole_encode(&hole, text[0]);
	catalog_hole_encode(&reserved, text[1]);
	row.has |= CATALOG_HAS_HOLES;
	row.holes.p = text[0];
	row.holes.n = CATALOG_HOLE_SIZE;
	rowfix_add(t, &row);
	row = file_row(t, "reserved", 0, 1);
	row.has |= CATALOG_HAS_HOLES;
	row.holes.p = text[1];
	row.holes.n = CATALOG_HOLE_SIZE;
	rowfix_add(t, &row);
	rowfix_text(t, ROOT, "x", "x");
	rowfix_commit(t, "root.tree");
	assert_ok(rowfix_restore(t, &whole), &t->f->e);
	/* Files of 2^63 - 1 bytes there are on tmpfs, but not elsewhere. */
	assert_int_equal(t->result.damaged, 0);
	rowfix_assert_text(t, "reserved", "x");
	assert_int_equal(t->result.missed[RESTORE_MISS_SPACE], 1);
	rowfix_assert_clean(t);
}

static void bears_impossible_rows(void **state)
{
	struct rowfix *t = *state;
	struct catalog_entry row =
	    rowfix_row(t, ROOT, "time", CATALOG_FIFO, 0600);
	char name[400];

	row.mtime_s = INT64_MAX;
	row.mtime_ns = 999999999;
	rowfix_add(t, &row);
	row = rowfix_row(t, ROOT, "early", CATALOG_DIR, 0700);
	row.mtime_s = INT64_MIN;
	rowfix_add(t, &row);
	row = rowfix_row(t, ROOT, "nobody", CATALOG_FILE, 06755);
	row.uid = row.gid = UINT32_MAX;
	rowfix_content(t, &row, "x", 1);
	rowfix_add(t, &row);
	row = rowfix_row(t, ROOT, "device", CATALOG_CHAR, 0600);
	row.has |= CATALOG_HAS_RDEV;
	row.rdev = (uint64_t)0x1001 << 32 | 3; /* cut, it would be 1:3 */
	rowfix_add(t, &row);
	memset(name, 'n', sizeof(name));
	name[sizeof(name) - 1] = '\0';
	row = rowfix_row(t, ROOT, name, CATALOG_FIFO, 0600);
	rowfix_add(t, &row);
	row = rowfix_row(t, ROOT, "to", CATALOG_SYMLINK, 0777);
	rowfix_target(&row, name);
	row.target.n = 5;
	rowfix_add(t, &row);
	/* Links to a directory, and to itself. */
	row = rowfix_row(t, ROOT, "dirlink", CATALOG_DIR, 0700);
	row.has |= CATALOG_HAS_LINK;
	row.link = row.id;
	rowfix_add(t, &row);
	row.has |= CATALOG_HAS_SIZE;
	row.id = t->next_id++;
	row.name.p = (const uint8_t *)"likedir";
	row.kind = CATALOG_FILE;
	row.size = 0;
	rowfix_add(t, &row);
	rowfix_commit(t, "root.tree");
	assert_ok(rowfix_restore(t, &whole), &t->f->e);
	assert_int_equal(t->result.failed, 2); /* device, name */
	assert_int_equal(restorefix_said(t->f, "no device 4097:3 here"), 1);
	assert_int_equal(restorefix_said(t->f, "File name too long"), 1);
	assert_int_equal(t->result.missed[RESTORE_MISS_OWNER], 1);
	/* No setuid bit for somebody else. */
	assert_int_equal(rowfix_stat(t, "nobody").st_mode & ALLPERMS, 0755);
	assert_true(S_ISREG(rowfix_stat(t, "likedir").st_mode));
	assert_true(S_ISDIR(rowfix_stat(t, "dirlink").st_mode));
}

/* Rows below what is no directory are nobody's. */
static void descends_only_directories(void **state)
{
	struct rowfix *t = *state;
	struct catalog_entry row =
	    rowfix_row(t, ROOT, "link", CATALOG_SYMLINK, 0777);

	rowfix_target(&row, "../outside");
	rowfix_add(t, &row);
	rowfix_text(t, row.id, "victim", "overwritten");
	rowfix_commit(t, "root.tree");
	assert_int_equal(mkdirat(t->f->dir.fd, "outside", 0700), 0);
	tmpdir_put_str(t->f->dir.fd, "outside/victim", "precious");
	assert_ok(rowfix_restore(t, &whole), &t->f->e);
	assert_int_equal(t->result.entries, 1);
	restorefix_assert_file(t->f, "outside/victim", "precious", 8);
}

/* What has attributes that are lost is there, without them. */
static void does_without_attributes(void **state)
{
	struct rowfix *t = *state;
	struct catalog_entry row = rowfix_row(t, ROOT, "a", CATALOG_FILE, 0600);

	row.has |= CATALOG_HAS_ATTR;
	row.attr = 77;
	rowfix_content(t, &row, "content", 7);
	rowfix_add(t, &row);
	row = rowfix_row(t, ROOT, "d", CATALOG_DIR, 0700);
	row.has |= CATALOG_HAS_ATTR;
	row.attr = 78;
	rowfix_add(t, &row);
	rowfix_text(t, row.id, "b", "in it");
	rowfix_commit(t, "root.tree");
	assert_ok(rowfix_restore(t, &whole), &t->f->e);
	rowfix_assert_text(t, "a", "content");
	rowfix_assert_text(t, "d/b", "in it");
	assert_int_equal(t->result.damaged, 0);
	assert_int_equal(t->result.metadata_failed, 2);
	assert_int_equal(t->result.missed[RESTORE_MISS_XATTR], 2);
	assert_int_equal(
	    restorefix_said(t->f, "attr 77 is not there; what has these"), 1);
}

static void ends_loops(void **state)
{
	struct rowfix *t = *state;
	int64_t a = rowfix_dir(t, ROOT, "a", 0700);
	int64_t b = rowfix_dir(t, a, "b", 0700);
	struct catalog_entry row = rowfix_row(t, b, "c", CATALOG_DIR, 0700);

	row.id = a;
	rowfix_add(t, &row);
	rowfix_text(t, ROOT, "before", "restored");
	rowfix_commit(t, "root.tree");
	assert_ok(rowfix_restore(t, &whole), &t->f->e);
	assert_int_equal(t->result.gaps.places, 1);
	assert_int_equal(
	    restorefix_said(t->f, "is one of the directories that it is in"),
	    1);
	assert_true(rowfix_exists(t, "before"));
}

/* -- What ends everything. -- */

static void stops_when_full(void **state)
{
	struct rowfix *t = *state;
	int rc = 0;

	(void)make_files(t);
	fault_install();
	fault_add(&(struct fault_rule){ .calls = FAULT_BIT(FAULT_PWRITE),
	    .what = FAULT_FAIL,
	    .at = 9,
	    .times = FAULT_FOREVER,
	    .error = ENOSPC });
	rc = rowfix_restore(t, &whole);
	fault_uninstall();
	assert_err(rc, &t->f->e, ERR_SYS, "No space left on device");
	assert_non_null(strstr(t->f->e.msg, "target"));
	rowfix_assert_clean(t);
	/* And once there is room: */
	assert_ok(rowfix_restore(t, &whole), &t->f->e);
	assert_int_equal(t->result.entries + t->result.skipped, FILES);
	assert_int_equal(t->result.damaged, 0);
}

struct stopper {
	struct rowfix *t;
	uint64_t at;
	uint64_t n;
};

static void stop(void *ctx, struct fault_event *ev)
{
	struct stopper *s = ctx;

	if (ev->call == FAULT_CREATE && (ev->flags & O_TMPFILE) == O_TMPFILE) {
		ev->skip = true;
		ev->result = -1;
		ev->error = EOPNOTSUPP;
	}
	if (ev->call == FAULT_PWRITE &&
	    __atomic_add_fetch(&s->n, 1, __ATOMIC_RELAXED) == s->at)
		atomic_store(&s->t->f->task.stop, SIGINT);
}

/* Told to stop, it leaves no temporary file and no half of one. */
static void stops_cleanly(void **state)
{
	struct rowfix *t = *state;
	const uint8_t *p = make_files(t);

	for (uint64_t at = 1; at < 120; at += 13) {
		struct stopper s = { .t = t, .at = at };
		int rc = 0;

		fault_install();
		fault_set_hooks(
		    &(struct fault_hooks){ .before = stop, .ctx = &s });
		rc = rowfix_restore(t, &whole);
		fault_uninstall();
		atomic_store(&t->f->task.stop, 0);
		if (rc < 0)
			assert_err(rc, &t->f->e, ERR_CANCELLED, "");
		assert_true(rc == 0 || t->result.entries < FILES);
		assert_true(at < 100 || t->result.entries > 0);
		rowfix_assert_clean(t);
		for (unsigned i = 0; i < FILES; i++) {
			char name[16];
			size_t n = 0;
			char *got = NULL;

			(void)snprintf(name, sizeof(name), "f%02u", i);
			got = tmpdir_get(t->target, name, &n);
			if (got == NULL)
				continue;
			assert_int_equal(n, file_size(i));
			assert_true(memcmp(got, p + file_start(i), n) == 0);
			free(got);
			(void)unlinkat(t->target, name, 0);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ROWFIX_TEST(goes_on_past_damage),
		ROWFIX_TEST(goes_on_past_a_bad_index),
		ROWFIX_TEST(goes_on_with_a_broken_catalog),
		ROWFIX_TEST(compares_digests),
		ROWFIX_TEST(tells_of_the_unreadable),
		ROWFIX_TEST(links_share_their_damage),
		ROWFIX_TEST(bears_contents_from_nowhere),
		ROWFIX_TEST(follows_runs),
		ROWFIX_TEST(bears_giant_holes),
		ROWFIX_TEST(bears_impossible_rows),
		ROWFIX_TEST(descends_only_directories),
		ROWFIX_TEST(does_without_attributes),
		ROWFIX_TEST(ends_loops),
		ROWFIX_TEST(stops_when_full),
		ROWFIX_TEST(stops_cleanly),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
