/* SPDX-License-Identifier: MIT */
/*
 * Trees that are sound, into new directories and existing ones, whole and in
 * part.
 */
#include "index/tree_restore.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "tests/support/rowfix.h"

#define ROOT CATALOG_ROOT_ID
#define CHUNK RESTOREFIX_CHUNK

static const struct tree_restore_opts whole = { .root_metadata = true };

static void check_meta(struct rowfix *t, const char *path, unsigned mode)
{
	struct stat st = rowfix_stat(t, path);

	assert_int_equal(st.st_mode & ALLPERMS, mode);
	assert_int_equal(st.st_mtim.tv_sec, ROWFIX_MTIME);
}

static void gives_back_all_kinds(void **state)
{
	struct rowfix *t = *state;
	int64_t d = rowfix_dir(t, ROOT, "dir", 0555);
	struct catalog_entry row;
	char target[16];
	struct stat st;

	rowfix_text(t, ROOT, "a", "first");
	rowfix_text(t, d, "b", "second");
	rowfix_file(t, d, "empty", 0400, "", 0);
	row = rowfix_row(t, d, "link", CATALOG_SYMLINK, 0777);
	rowfix_target(&row, "../nowhere");
	rowfix_add(t, &row);
	row = rowfix_row(t, ROOT, "fifo", CATALOG_FIFO, 0620);
	rowfix_add(t, &row);
	row = rowfix_row(t, ROOT, "socket", CATALOG_SOCKET, 0755);
	rowfix_add(t, &row);
	rowfix_file(t, ROOT, "setuid", 06755, "#!", 2);
	rowfix_commit(t, "root.tree");
	assert_ok(rowfix_restore(t, &whole), &t->f->e);
	assert_int_equal(t->result.entries, 8);
	assert_int_equal(t->result.bytes, 13);
	assert_int_equal(t->result.failed + t->result.skipped +
		t->result.damaged + t->result.metadata_failed,
	    0);
	rowfix_assert_text(t, "a", "first");
	rowfix_assert_text(t, "dir/b", "second");
	rowfix_assert_text(t, "dir/empty", "");
	check_meta(t, "a", 0644);
	check_meta(t, "dir", 0555);
	check_meta(t, "dir/empty", 0400);
	check_meta(t, "dir/link", 0777);
	check_meta(t, "fifo", 0620);
	check_meta(t, "socket", 0755);
	check_meta(t, "setuid", 06755);
	check_meta(t, ".", 0750);
	st = rowfix_stat(t, "socket");
	assert_true(S_ISSOCK(st.st_mode));
	st = rowfix_stat(t, "fifo");
	assert_true(S_ISFIFO(st.st_mode));
	assert_int_equal(
	    readlinkat(t->target, "dir/link", target, sizeof(target)), 10);
	assert_memory_equal(target, "../nowhere", 10);
	rowfix_assert_clean(t);
}

/* Files of all sizes around those of chunks, shared by any number of them. */
static void gives_back_many(void **state)
{
	static const size_t sizes[] = { 0, 1, 100, 4096, CHUNK - 1, CHUNK,
		CHUNK + 1, 3 * CHUNK, 10 * CHUNK + 7 };
	struct rowfix *t = *state;
	size_t n = 0;
	uint8_t *p = NULL;
	int64_t d[7];
	char name[32];

	for (size_t i = 0; i < TEST_COUNT(d); i++) {
		(void)snprintf(name, sizeof(name), "d%zu", i);
		d[i] = rowfix_dir(t, ROOT, name, 0755);
	}
	p = restorefix_bytes(t->f, GEN_RANDOM, 20 * CHUNK);
	for (size_t i = 0; i < 700; i++, n++) {
		size_t size =
		    i % 10 == 0 ? sizes[(i / 10) % TEST_COUNT(sizes)] : i % 97;

		(void)snprintf(name, sizeof(name), "f%zu", i);
		rowfix_file(t, d[i % TEST_COUNT(d)], name, 0600, p + i, size);
	}
	rowfix_commit(t, "root.tree");
	for (unsigned threads = 1; threads <= 4; threads += 3) {
		const struct tree_restore_opts opts = { .threads = threads,
			.overwrite = TREE_OVERWRITE_ALWAYS };

		assert_ok(rowfix_restore(t, &opts), &t->f->e);
		assert_int_equal(t->result.bytes, t->stream.len);
		for (size_t i = 0; i < 700; i++) {
			size_t size = i % 10 == 0
			    ? sizes[(i / 10) % TEST_COUNT(sizes)]
			    : i % 97;
			size_t got = 0;
			char *there = NULL;

			(void)snprintf(name, sizeof(name), "d%zu/f%zu",
			    i % TEST_COUNT(d), i);
			there = tmpdir_get(t->target, name, &got);
			assert_non_null(there);
			assert_int_equal(got, size);
			assert_true(memcmp(there, p + i, size) == 0);
			free(there);
		}
	}
	rowfix_assert_clean(t);
}

static struct catalog_bytes path_of(const char *s)
{
	return (struct catalog_bytes){ (const uint8_t *)s, strlen(s) };
}

static int restore_paths(struct rowfix *t, const char *const *words, size_t n)
{
	struct catalog_bytes paths[8];
	const struct tree_restore_opts opts = { .paths = paths, .paths_n = n };

	assert_true(n <= TEST_COUNT(paths));
	for (size_t i = 0; i < n; i++)
		paths[i] = path_of(words[i]);
	return rowfix_restore(t, &opts);
}

/* a/b/c, a/b/d, a/e/f, g */
static void make_paths(struct rowfix *t)
{
	int64_t a = rowfix_dir(t, ROOT, "a", 0711);
	int64_t b = rowfix_dir(t, a, "b", 0750);
	int64_t x = rowfix_dir(t, a, "e", 0700);

	rowfix_text(t, b, "c", "C");
	rowfix_text(t, b, "d", "D");
	rowfix_text(t, x, "f", "F");
	rowfix_text(t, ROOT, "g", "G");
	rowfix_commit(t, "root.tree");
}

static void gives_back_paths(void **state)
{
	static const char *const words[] = { "/a/b/d", "g", "./a//b/d/" };
	struct rowfix *t = *state;

	make_paths(t);
	assert_ok(restore_paths(t, words, 3), &t->f->e);
	assert_int_equal(t->result.entries, 4);
	rowfix_assert_text(t, "a/b/d", "D");
	rowfix_assert_text(t, "g", "G");
	assert_false(rowfix_exists(t, "a/b/c"));
	assert_false(rowfix_exists(t, "a/e"));
	check_meta(t, "a", 0711);
	check_meta(t, "a/b", 0750);
	assert_int_equal(rowfix_stat(t, ".").st_mode & ALLPERMS, 0700);
}

static void gives_back_directories(void **state)
{
	static const char *const words[] = { "a/e", "a/b", "a/b/c", "a/e/f" };
	struct rowfix *t = *state;

	make_paths(t);
	assert_int_equal(mkdirat(t->f->dir.fd, "target", 0700), 0);
	assert_int_equal(mkdirat(t->f->dir.fd, "target/a", 0777), 0);
	assert_ok(restore_paths(t, words, 4), &t->f->e);
	rowfix_assert_text(t, "a/b/c", "C");
	rowfix_assert_text(t, "a/b/d", "D");
	rowfix_assert_text(t, "a/e/f", "F");
	assert_false(rowfix_exists(t, "g"));
	/* What was there on the way stays as it was. */
	assert_int_not_equal(rowfix_stat(t, "a").st_mtim.tv_sec, ROWFIX_MTIME);
	check_meta(t, "a/b", 0750);
}

static void knows_the_root_as_a_path(void **state)
{
	static const char *const words[] = { "a", "." };
	struct rowfix *t = *state;

	make_paths(t);
	assert_ok(restore_paths(t, words, 2), &t->f->e);
	assert_int_equal(t->result.entries, 7);
	rowfix_assert_text(t, "g", "G");
	assert_int_equal(rowfix_stat(t, ".").st_mode & ALLPERMS, 0700);
}

/* Nothing is written if one is not there. */
static void misses_a_path(void **state)
{
	static const char *const cases[][3] = {
		{ "g", "a/none", "'a/none' is not in it" },
		{ "g", "g/x", "is no directory" },
		{ "g", "none", "'none' is not in it" },
	};
	struct rowfix *t = *state;

	make_paths(t);
	for (size_t i = 0; i < TEST_COUNT(cases); i++) {
		int rc = restore_paths(t, cases[i], 2);

		assert_err(rc, &t->f->e, ERR_NOTFOUND, cases[i][2]);
		assert_int_equal(tmpdir_count(t->target, ""), 0);
	}
	assert_err(restore_paths(t, (const char *const[]){ "a/../g" }, 1),
	    &t->f->e, ERR_INVALID, "..");
	assert_int_equal(tmpdir_count(t->target, ""), 0);
}

/* Chunks that no file wants are not read: here they are gone. */
static void reads_only_what_is_wanted(void **state)
{
	static const char *const words[] = { "b" };
	struct rowfix *t = *state;
	uint8_t *p = restorefix_bytes(t->f, GEN_RANDOM, 30 * CHUNK);
	uint64_t n = 0;
	unsigned gone = 0;

	rowfix_file(t, ROOT, "a", 0600, p, 14 * CHUNK);
	rowfix_file(t, ROOT, "b", 0600, p + 14 * CHUNK, 100);
	rowfix_file(t, ROOT, "c", 0600, p + 15 * CHUNK, 15 * CHUNK);
	rowfix_commit(t, "root.tree");
	n = restorefix_entries(t->f, "root.tree.didx");
	assert_true(n > 8);
	for (uint64_t i = 0; i < n; i++) {
		struct idx_entry x =
		    restorefix_entry(t->f, "root.tree.didx", i);
		uint64_t start = i == 0
		    ? 0
		    : restorefix_entry(t->f, "root.tree.didx", i - 1).end;

		if (x.end > 14 * CHUNK && start < 14 * CHUNK + 100)
			continue;
		restorefix_spoil(t->f, &x.digest, SPOIL_MISSING);
		gone++;
	}
	assert_true(gone > 6);
	assert_ok(restore_paths(t, words, 1), &t->f->e);
	assert_int_equal(t->result.damaged, 0);
	assert_int_equal(rowfix_stat(t, "b").st_size, 100);
}

/* Rows of one group: all of it, or a part without its first member. */
static void links_what_is_one_file(void **state)
{
	static const char *const part[] = { "sub", "z" };
	struct rowfix *t = *state;
	int64_t sub = rowfix_dir(t, ROOT, "sub", 0755);
	struct catalog_entry row = rowfix_row(t, ROOT, "a", CATALOG_FILE, 0640);
	struct stat st;

	row.has |= CATALOG_HAS_LINK | CATALOG_HAS_NLINK;
	row.link = row.id;
	row.nlink = 4;
	rowfix_content(t, &row, "linked", 6);
	rowfix_add(t, &row);
	row.id = t->next_id++;
	row.name = path_of("z");
	rowfix_add(t, &row);
	row.id = t->next_id++;
	row.parent = sub;
	rowfix_add(t, &row);
	/* It says so, but is another one. */
	row.id = t->next_id++;
	row.name = path_of("zother");
	rowfix_content(t, &row, "others", 6);
	rowfix_add(t, &row);
	rowfix_commit(t, "root.tree");

	assert_ok(restore_paths(t, part, 2), &t->f->e);
	assert_int_equal(t->result.entries, 4);
	rowfix_assert_text(t, "z", "linked");
	rowfix_assert_text(t, "sub/zother", "others");
	st = rowfix_stat(t, "sub/z");
	assert_int_equal(st.st_nlink, 2);
	assert_int_equal(st.st_ino, rowfix_stat(t, "z").st_ino);
	assert_int_equal(rowfix_stat(t, "sub/zother").st_nlink, 1);
	/* The first one comes to them when it is restored, too. */
	assert_ok(rowfix_restore(t,
		      &(struct tree_restore_opts){
			  .overwrite = TREE_OVERWRITE_CHANGED }),
	    &t->f->e);
	st = rowfix_stat(t, "a");
	assert_int_equal(st.st_nlink, 3);
	assert_int_equal(st.st_ino, rowfix_stat(t, "sub/z").st_ino);
	assert_int_equal(t->result.failed + t->result.metadata_failed, 0);
}

/* Where links can not be, there are copies. */
static void copies_what_can_not_be_linked(void **state)
{
	static const int errors[] = { EXDEV, EMLINK, EPERM };
	struct rowfix *t = *state;
	struct catalog_entry row = rowfix_row(t, ROOT, "a", CATALOG_FILE, 0640);

	row.has |= CATALOG_HAS_LINK;
	row.link = row.id;
	rowfix_content(t, &row, "linked", 6);
	rowfix_add(t, &row);
	row.id = t->next_id++;
	row.name = path_of("b");
	rowfix_add(t, &row);
	rowfix_commit(t, "root.tree");
	for (size_t i = 0; i < TEST_COUNT(errors); i++) {
		int rc = 0;

		fault_install();
		fault_add(
		    &(struct fault_rule){ .calls = FAULT_BIT(FAULT_LINKAT),
			.name = "a",
			.what = FAULT_FAIL,
			.at = 2, /* the first one names the file itself */
			.times = 1,
			.error = errors[i] });
		rc = rowfix_restore(t, &whole);
		assert_int_equal(fault_hits(), 1);
		fault_uninstall();
		assert_ok(rc, &t->f->e);
		assert_int_equal(t->result.entries, 2);
		rowfix_assert_text(t, "a", "linked");
		rowfix_assert_text(t, "b", "linked");
		assert_int_equal(rowfix_stat(t, "b").st_nlink, 1);
		check_meta(t, "b", 0640);
		assert_int_equal(unlinkat(t->target, "a", 0), 0);
		assert_int_equal(unlinkat(t->target, "b", 0), 0);
	}
}

static void add_holes(struct catalog_entry *row, const struct catalog_hole *h,
    size_t n, uint8_t *out)
{
	for (size_t i = 0; i < n; i++)
		catalog_hole_encode(&h[i], out + i * CATALOG_HOLE_SIZE);
	row->has |= CATALOG_HAS_HOLES;
	row->holes.p = out;
	row->holes.n = n * CATALOG_HOLE_SIZE;
}

/* Holes in front, between and behind; preallocated in it and beyond. */
static void gives_back_holes(void **state)
{
	static const struct catalog_hole holes[] = {
		{ 0, 1 << 20, false },
		{ (1 << 20) + 4096, (uint64_t)1 << 40, false },
		{ ((uint64_t)1 << 40) + (1 << 20) + 3 * 4096, 65536, true },
		{ ((uint64_t)1 << 40) + (2 << 20), 1 << 20, true },
	};
	const uint64_t size = ((uint64_t)1 << 40) + (1 << 20) + 3 * 4096;
	uint8_t text[sizeof(holes) / sizeof(holes[0]) * CATALOG_HOLE_SIZE];
	struct rowfix *t = *state;
	struct catalog_entry row =
	    rowfix_row(t, ROOT, "sparse", CATALOG_FILE, 0600);
	uint8_t *p = restorefix_bytes(t->f, GEN_RANDOM, 3 * 4096);
	uint8_t got[4096];
	struct stat st;
	int fd = -1;

	rowfix_content(t, &row, p, 3 * 4096);
	row.size = size;
	add_holes(&row, holes, TEST_COUNT(holes), text);
	rowfix_add(t, &row);
	row = rowfix_row(t, ROOT, "hole", CATALOG_FILE, 0600);
	rowfix_content(t, &row, "", 0);
	row.size = 1 << 20;
	add_holes(&row, holes, 1, text + sizeof(text) - CATALOG_HOLE_SIZE);
	rowfix_add(t, &row);
	rowfix_commit(t, "root.tree");
	assert_ok(rowfix_restore(t, &whole), &t->f->e);
	assert_int_equal(t->result.bytes, 3 * 4096);
	assert_int_equal(t->result.damaged + t->result.failed, 0);
	st = rowfix_stat(t, "sparse");
	assert_int_equal(st.st_size, size);
	assert_true(st.st_blocks < 4096);
	fd = openat(t->target, "sparse", O_RDONLY | O_CLOEXEC);
	t->f->out = fd;
	assert_int_equal(lseek(fd, 0, SEEK_DATA), 1 << 20);
	assert_int_equal(pread(fd, got, 4096, 1 << 20), 4096);
	assert_memory_equal(got, p, 4096);
	assert_int_equal(pread(fd, got, 4096, (off_t)size - 4096), 4096);
	assert_memory_equal(got, p + 8192, 4096);
	assert_int_equal(rowfix_stat(t, "hole").st_size, 1 << 20);
	assert_int_equal(rowfix_stat(t, "hole").st_blocks, 0);
}

static void gives_back_times(void **state)
{
	static const struct {
		int64_t s;
		uint32_t ns;
	} times[] = { { 0, 0 }, { -1, 999999999 }, { -2208988800, 1 },
		{ 4294967296, 123456789 }, { 2147483648, 0 },
		{ -2147483648, 5 } };
	struct rowfix *t = *state;
	char name[16];

	for (size_t i = 0; i < TEST_COUNT(times); i++) {
		struct catalog_entry row;

		(void)snprintf(name, sizeof(name), "t%zu", i);
		row = rowfix_row(t, ROOT, name,
		    i % 2 == 0 ? CATALOG_FIFO : CATALOG_DIR, 0700);
		row.mtime_s = times[i].s;
		row.mtime_ns = times[i].ns;
		rowfix_add(t, &row);
	}
	rowfix_commit(t, "root.tree");
	assert_ok(rowfix_restore(t, &whole), &t->f->e);
	for (size_t i = 0; i < TEST_COUNT(times); i++) {
		struct timespec want[2] = { { .tv_nsec = UTIME_OMIT },
			{ times[i].s, times[i].ns } };
		struct stat st;
		struct stat as;

		/* As far as this file system reaches. */
		tmpdir_put_str(t->f->dir.fd, "probe", "");
		assert_int_equal(utimensat(t->f->dir.fd, "probe", want, 0), 0);
		assert_int_equal(fstatat(t->f->dir.fd, "probe", &as, 0), 0);
		(void)snprintf(name, sizeof(name), "t%zu", i);
		st = rowfix_stat(t, name);
		assert_int_equal(st.st_mtim.tv_sec, as.st_mtim.tv_sec);
		assert_int_equal(st.st_mtim.tv_nsec, as.st_mtim.tv_nsec);
	}
}

static void need_root(void)
{
	if (geteuid() != 0) {
		print_message("skipped: not root\n");
		skip();
	}
}

/* By name where this machine knows it; ids of ACLs, too. */
static void maps_owners(void **state)
{
	/* user 700 (root here): rw, group 701: r; mask rw */
	static const uint8_t acl[] = { 2, 0, 0, 0, 1, 0, 6, 0, 255, 255, 255,
		255, 2, 0, 6, 0, 188, 2, 0, 0, 4, 0, 4, 0, 255, 255, 255, 255,
		8, 0, 4, 0, 189, 2, 0, 0, 16, 0, 6, 0, 255, 255, 255, 255, 32,
		0, 0, 0, 255, 255, 255, 255 };
	struct rowfix *t = *state;
	struct catalog_entry row;
	struct stat st;

	need_root();
	row = rowfix_row(t, ROOT, "a", CATALOG_FILE, 04755);
	row.uid = 700;
	row.gid = 701;
	row.has |= CATALOG_HAS_ATTR;
	row.attr = rowfix_attr(t, "system.posix_acl_access", acl, sizeof(acl));
	row.mode = 0660;
	rowfix_content(t, &row, "a", 1);
	rowfix_add(t, &row);
	row = rowfix_row(t, ROOT, "b", CATALOG_SYMLINK, 0777);
	row.uid = 702;
	row.gid = 703;
	rowfix_target(&row, "a");
	rowfix_add(t, &row);
	assert_ok(
	    catalog_writer_account(t->w, CATALOG_USER, 700, "root", &t->f->e),
	    &t->f->e);
	assert_ok(catalog_writer_account(
		      t->w, CATALOG_USER, 702, "no such user here", &t->f->e),
	    &t->f->e);
	rowfix_commit(t, "root.tree");
	for (int numeric = 0; numeric <= 1; numeric++) {
		const struct tree_restore_opts opts = {
			.numeric_owner = numeric == 1,
			.overwrite = TREE_OVERWRITE_ALWAYS,
		};
		uint8_t got[sizeof(acl)] = { 0 };
		ssize_t n = 0;
		int fd = -1;

		assert_ok(rowfix_restore(t, &opts), &t->f->e);
		st = rowfix_stat(t, "a");
		assert_int_equal(st.st_uid, numeric == 1 ? 700 : 0);
		assert_int_equal(st.st_gid, 701);
		st = rowfix_stat(t, "b");
		assert_int_equal(st.st_uid, 702);
		assert_int_equal(st.st_gid, 703);
		if (t->result.missed[RESTORE_MISS_ACL] > 0)
			continue; /* this file system has none */
		fd = openat(t->target, "a", O_RDONLY | O_CLOEXEC);
		n = fgetxattr(fd, "system.posix_acl_access", got, sizeof(got));
		(void)close(fd);
		assert_int_equal(n, sizeof(acl));
		assert_int_equal(
		    got[16] | got[17] << 8, numeric == 1 ? 700 : 0);
		assert_int_equal(got[32] | got[33] << 8, 701);
	}
}

static void gives_back_xattrs(void **state)
{
	struct rowfix *t = *state;
	struct catalog_entry row = rowfix_row(t, ROOT, "a", CATALOG_FILE, 0400);
	char got[16];
	int fd = -1;
	ssize_t n = 0;

	row.has |= CATALOG_HAS_ATTR;
	row.attr = rowfix_attr(t, "user.test", "value", 5);
	rowfix_content(t, &row, "x", 1);
	rowfix_add(t, &row);
	row = rowfix_row(t, ROOT, "d", CATALOG_DIR, 0500);
	row.has |= CATALOG_HAS_ATTR;
	row.attr = rowfix_attr(t, "user.test", "value", 5);
	rowfix_add(t, &row);
	rowfix_commit(t, "root.tree");
	assert_ok(rowfix_restore(t, &whole), &t->f->e);
	if (t->result.missed[RESTORE_MISS_XATTR] == 2) {
		print_message("skipped: no user xattrs here\n");
		skip();
	}
	for (size_t i = 0; i < 2; i++) {
		fd =
		    openat(t->target, i == 0 ? "a" : "d", O_RDONLY | O_CLOEXEC);
		assert_true(fd >= 0);
		n = fgetxattr(fd, "user.test", got, sizeof(got));
		(void)close(fd);
		assert_int_equal(n, 5);
		assert_memory_equal(got, "value", 5);
	}
}

/* What an existing directory hands down is not part of the tree. */
static void inherits_nothing(void **state)
{
	static const uint8_t acl[] = { 2, 0, 0, 0, 1, 0, 7, 0, 255, 255, 255,
		255, 2, 0, 7, 0, 188, 2, 0, 0, 4, 0, 7, 0, 255, 255, 255, 255,
		16, 0, 7, 0, 255, 255, 255, 255, 32, 0, 7, 0, 255, 255, 255,
		255 };
	static const char *const names[] = { "a", "d", "d/b", "fifo" };
	struct rowfix *t = *state;
	int64_t d = rowfix_dir(t, ROOT, "d", 0750);
	struct catalog_entry row =
	    rowfix_row(t, ROOT, "fifo", CATALOG_FIFO, 0640);

	rowfix_add(t, &row);
	rowfix_file(t, ROOT, "a", 0640, "x", 1);
	rowfix_file(t, d, "b", 0640, "x", 1);
	rowfix_commit(t, "root.tree");
	assert_int_equal(mkdirat(t->f->dir.fd, "target", 0700), 0);
	t->target = openat(t->f->dir.fd, "target", O_RDONLY | O_CLOEXEC);
	if (fsetxattr(t->target, "system.posix_acl_default", acl, sizeof(acl),
		0) < 0) {
		print_message("skipped: no ACLs here\n");
		skip();
	}
	assert_ok(
	    rowfix_restore(t, &(struct tree_restore_opts){ 0 }), &t->f->e);
	for (size_t i = 0; i < TEST_COUNT(names); i++) {
		char path[64];

		(void)snprintf(path, sizeof(path), "/proc/self/fd/%d/%s",
		    t->target, names[i]);
		assert_int_equal(
		    getxattr(path, "system.posix_acl_access", NULL, 0), -1);
		assert_int_equal(
		    getxattr(path, "system.posix_acl_default", NULL, 0), -1);
		assert_int_equal(rowfix_stat(t, names[i]).st_mode & 0777,
		    strcmp(names[i], "d") == 0 ? 0750 : 0640);
	}
}

/* Deeper than a path, or a table of descriptors, can be. */
static void goes_deep(void **state)
{
	struct rowfix *t = *state;
	int64_t d = ROOT;
	int at = -1;
	struct stat st;

	for (int i = 0; i < 1500; i++) {
		d = rowfix_dir(t, d, i % 2 == 0 ? "even" : "odd", 0755);
		if (i % 500 == 499)
			rowfix_text(t, d, "file", "deep");
	}
	rowfix_commit(t, "root.tree");
	assert_ok(rowfix_restore(t, &whole), &t->f->e);
	assert_int_equal(t->result.entries, 1503);
	at = dup(t->target);
	for (int i = 0; i < 1500; i++) {
		int down = openat(at, i % 2 == 0 ? "even" : "odd",
		    O_RDONLY | O_DIRECTORY | O_CLOEXEC);

		(void)close(at);
		at = down;
		assert_true(at >= 0);
		assert_int_equal(fstat(at, &st), 0);
		assert_int_equal(st.st_mtim.tv_sec, ROWFIX_MTIME);
	}
	assert_int_equal(fstatat(at, "file", &st, 0), 0);
	(void)close(at);
}

/* A tar's catalog has directories that no member stands for. */
static void gives_back_members_of_tars(void **state)
{
	static const char *const words[] = { "d/m" };
	struct rowfix *t = *state;
	struct catalog_entry row;
	int64_t d = 0;

	catalog_writer_free(t->w);
	t->w = NULL;
	assert_ok(
	    catalog_writer_new(t->f->session, "root.tar", &t->w, &t->f->e),
	    &t->f->e);
	row = rowfix_row(t, 0, "", CATALOG_DIR, 0);
	row.id = ROOT;
	row.has = 0;
	rowfix_add(t, &row);
	row = rowfix_row(t, ROOT, "d", CATALOG_DIR, 0);
	row.has = 0;
	d = row.id;
	rowfix_add(t, &row);
	assert_ok(buf_append(&t->stream, "header", 6, &t->f->e), &t->f->e);
	row = rowfix_row(t, d, "m", CATALOG_FILE, 0640);
	rowfix_content(t, &row, "member", 6);
	row.has &= ~(unsigned)CATALOG_HAS_SHA256;
	assert_ok(catalog_writer_add_member(t->w, &row, 0, &t->f->e), &t->f->e);
	rowfix_commit(t, "root.tar");
	assert_ok(restore_paths(t, words, 1), &t->f->e);
	rowfix_assert_text(t, "d/m", "member");
	check_meta(t, "d/m", 0640);
	assert_int_equal(rowfix_stat(t, "d").st_mode & ALLPERMS, 0755);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ROWFIX_TEST(gives_back_all_kinds),
		ROWFIX_TEST(gives_back_many),
		ROWFIX_TEST(gives_back_paths),
		ROWFIX_TEST(gives_back_directories),
		ROWFIX_TEST(knows_the_root_as_a_path),
		ROWFIX_TEST(misses_a_path),
		ROWFIX_TEST(reads_only_what_is_wanted),
		ROWFIX_TEST(links_what_is_one_file),
		ROWFIX_TEST(copies_what_can_not_be_linked),
		ROWFIX_TEST(gives_back_holes),
		ROWFIX_TEST(gives_back_times),
		ROWFIX_TEST(maps_owners),
		ROWFIX_TEST(gives_back_xattrs),
		ROWFIX_TEST(inherits_nothing),
		ROWFIX_TEST(goes_deep),
		ROWFIX_TEST(gives_back_members_of_tars),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
