/* SPDX-License-Identifier: MIT */
/*
 * tree_push: the rows and contents of trees that hold still.
 */
#include <errno.h>
#include <inttypes.h>
#include <sys/resource.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>

#include "tests/support/dirfix.h"

#define MIB ((size_t)1 << 20)

static void empty_tree(void **state)
{
	struct dirfix *t = *state;
	struct catalog_entry row;

	dirfix_push(t);
	row = dirfix_row(t, "");
	assert_int_equal(row.id, 1);
	assert_int_equal(row.parent, 0);
	assert_int_equal(row.kind, CATALOG_DIR);
	assert_int_equal(row.mount, 1);
	assert_int_equal(t->result.directories, 1);
	assert_int_equal(t->result.files, 0);
	assert_int_equal(t->result.written.entries, 1);
	assert_int_equal(t->result.written.content.size, 0);
	assert_int_equal(t->result.written.content.chunks, 0);
}

/* Ids: those of a directory in a row, when it was listed; children later. */
static void ids_by_directory(void **state)
{
	static const struct {
		const char *path;
		int64_t id;
		int64_t parent;
	} want[] = { { "a", 2, 1 }, { "a-b", 3, 1 }, { "b", 4, 1 },
		{ "c", 5, 1 }, { "a/x", 6, 2 }, { "a/y", 7, 2 },
		{ "a/x/1", 8, 6 }, { "a-b/z", 9, 3 }, { "c/q", 10, 5 } };
	struct dirfix *t = *state;

	dirfix_dir(t, "a");
	dirfix_dir(t, "a/x");
	dirfix_dir(t, "c");
	dirfix_dir(t, "a-b");
	dirfix_put(t, "a/y", "1");
	dirfix_put(t, "a/x/1", "2");
	dirfix_put(t, "a-b/z", "3");
	dirfix_put(t, "b", "4");
	dirfix_put(t, "c/q", "5");
	dirfix_push(t);
	for (size_t i = 0; i < TEST_COUNT(want); i++) {
		struct catalog_entry row = dirfix_row(t, want[i].path);

		assert_int_equal(row.id, want[i].id);
		assert_int_equal(row.parent, want[i].parent);
	}
	/* Contents lie in walk order, one behind another. */
	dirfix_read(t, "a/x/1");
	assert_int_equal(dirfix_row(t, "a/x/1").pos, 0);
	assert_int_equal(dirfix_row(t, "a/y").pos, 1);
	assert_int_equal(dirfix_row(t, "a-b/z").pos, 2);
	assert_int_equal(dirfix_row(t, "b").pos, 3);
	assert_int_equal(dirfix_row(t, "c/q").pos, 4);
	assert_int_equal(t->result.directories, 5);
	assert_int_equal(t->result.files, 5);
}

static void columns(void **state)
{
	struct dirfix *t = *state;
	const struct timespec times[2] = { { .tv_sec = 1 },
		{ .tv_sec = -5, .tv_nsec = 999999999 } };
	struct catalog_entry row;
	struct stat st;

	dirfix_put(t, "f", "hello");
	assert_int_equal(fchmodat(t->src, "f", 04640, 0), 0);
	assert_int_equal(utimensat(t->src, "f", times, 0), 0);
	assert_int_equal(symlinkat("to\nwhere", t->src, "l"), 0);
	assert_int_equal(mkfifoat(t->src, "p", 0600), 0);
	assert_int_equal(mknodat(t->src, "s", S_IFSOCK | 0700, 0), 0);
	dirfix_push(t);

	assert_int_equal(fstatat(t->src, "f", &st, 0), 0);
	row = dirfix_row(t, "f");
	assert_int_equal(row.kind, CATALOG_FILE);
	assert_int_equal(row.mode, 04640);
	assert_int_equal(row.uid, st.st_uid);
	assert_int_equal(row.gid, st.st_gid);
	assert_int_equal(row.mtime_s, -5);
	assert_int_equal(row.mtime_ns, 999999999);
	assert_int_equal(row.ctime_s, st.st_ctim.tv_sec);
	assert_int_equal(row.ctime_ns, st.st_ctim.tv_nsec);
	assert_int_equal(row.ino, st.st_ino);
	assert_int_equal(row.nlink, 1);
	assert_int_equal(row.has &
		(CATALOG_HAS_LINK | CATALOG_HAS_RDEV | CATALOG_HAS_STATE |
		    CATALOG_HAS_HOLES | CATALOG_HAS_TARGET),
	    0);
	dirfix_assert_content(t, "f", "hello", 5);

	row = dirfix_row(t, "l");
	assert_int_equal(row.kind, CATALOG_SYMLINK);
	assert_int_equal(row.target.n, 8);
	assert_memory_equal(row.target.p, "to\nwhere", 8);
	assert_int_equal(row.has &
		(CATALOG_HAS_SIZE | CATALOG_HAS_POS | CATALOG_HAS_SHA256 |
		    CATALOG_HAS_FLAGS),
	    0);
	assert_int_equal(dirfix_row(t, "p").kind, CATALOG_FIFO);
	assert_int_equal(dirfix_row(t, "p").mode, 0600);
	row = dirfix_row(t, "s");
	assert_int_equal(row.kind, CATALOG_SOCKET);
	row = dirfix_row(t, "");
	assert_int_equal(row.has & CATALOG_HAS_NLINK, 0);
	assert_int_equal(t->result.written.entries, 5);
}

static void devices(void **state)
{
	struct dirfix *t = *state;
	struct catalog_entry row;

	if (mknodat(t->src, "c", S_IFCHR | 0600, makedev(300, 70000)) < 0) {
		print_message("devices can not be made here\n");
		skip();
	}
	assert_int_equal(
	    mknodat(t->src, "b", S_IFBLK | 0600, makedev(7, 3)), 0);
	dirfix_push(t);
	row = dirfix_row(t, "c");
	assert_int_equal(row.kind, CATALOG_CHAR);
	assert_int_equal(row.rdev, UINT64_C(300) << 32 | 70000);
	row = dirfix_row(t, "b");
	assert_int_equal(row.kind, CATALOG_BLOCK);
	assert_int_equal(row.rdev, UINT64_C(7) << 32 | 3);
}

/* The same attributes are one row of attr; sorted by name. */
static void xattrs(void **state)
{
	struct dirfix *t = *state;
	struct catalog_entry a;
	struct catalog_entry b;
	struct catalog_xattr x;
	char big[3000];
	size_t at = 0;
	int fd = 0;

	memset(big, 'v', sizeof(big));
	dirfix_put(t, "a", "1");
	dirfix_put(t, "b", "2");
	dirfix_put(t, "none", "3");
	for (const char *name = "ab"; *name != '\0'; name++) {
		char one[2] = { *name, '\0' };

		fd = openat(t->src, one, O_RDONLY | O_CLOEXEC);
		if (fsetxattr(fd, "user.z", "last", 4, 0) < 0) {
			(void)close(fd);
			print_message("no user xattrs here\n");
			skip();
		}
		assert_int_equal(fsetxattr(fd, "user.big", big, 3000, 0), 0);
		assert_int_equal(fsetxattr(fd, "user.a", "", 0, 0), 0);
		(void)close(fd);
	}
	dirfix_push(t);
	a = dirfix_row(t, "a");
	b = dirfix_row(t, "b");
	assert_true((a.has & CATALOG_HAS_ATTR) != 0);
	assert_int_equal(a.attr, b.attr);
	assert_int_equal(dirfix_row(t, "none").has & CATALOG_HAS_ATTR, 0);
	assert_ok(
	    catalog_attr(t->x->c, a.attr, &t->x->buf, &t->f->e), &t->f->e);
	assert_true(catalog_attr_next(&t->x->buf, &at, &x));
	assert_string_equal(x.name_z, "user.a");
	assert_int_equal(x.value.n, 0);
	assert_true(catalog_attr_next(&t->x->buf, &at, &x));
	assert_string_equal(x.name_z, "user.big");
	assert_int_equal(x.value.n, 3000);
	assert_memory_equal(x.value.p, big, 3000);
	assert_true(catalog_attr_next(&t->x->buf, &at, &x));
	assert_string_equal(x.name_z, "user.z");
	assert_false(catalog_attr_next(&t->x->buf, &at, &x));
}

static void equal_contents(void **state)
{
	struct dirfix *t = *state;

	dirfix_random(t, "a", 5000, 1);
	dirfix_random(t, "b", 5001, 1);
	dirfix_random(t, "c", 5000, 1);
	dirfix_random(t, "d", 5000, 2);
	dirfix_random(t, "large", 3 * MIB, 3);
	dirfix_random(t, "large2", 3 * MIB, 3);
	dirfix_random(t, "large3", 3 * MIB, 4);
	dirfix_put(t, "empty", "");
	dirfix_push(t);
	assert_int_equal(dirfix_row(t, "a").pos, dirfix_row(t, "c").pos);
	assert_int_not_equal(dirfix_row(t, "a").pos, dirfix_row(t, "d").pos);
	assert_int_equal(
	    dirfix_row(t, "large").pos, dirfix_row(t, "large2").pos);
	assert_int_equal(t->result.written.same_files, 2);
	assert_int_equal(t->result.written.same_bytes, 5000 + 3 * MIB);
	assert_int_equal(
	    t->result.written.content.size, 5000 + 5001 + 5000 + 6 * MIB);
	dirfix_assert_file(t, "a");
	dirfix_assert_file(t, "c");
	dirfix_assert_file(t, "d");
	dirfix_assert_file(t, "empty");
	dirfix_assert_file(t, "large");
	dirfix_assert_file(t, "large2");
	dirfix_assert_file(t, "large3");
}

/* Does a chunk of the stream begin here? */
static bool chunk_begins(struct dirfix *t, uint64_t at)
{
	uint64_t n = restorefix_entries(t->f, "root.tree.didx");

	for (uint64_t i = 0; i < n; i++)
		if (restorefix_entry(t->f, "root.tree.didx", i).end == at)
			return true;
	return at == 0;
}

static void forced_cuts(void **state)
{
	struct dirfix *t = *state;
	uint64_t pos = 0;

	dirfix_random(t, "a", 1000, 1);
	dirfix_random(t, "b", MIB, 2);
	dirfix_random(t, "c", 1000, 3);
	dirfix_random(t, "d", MIB - 1, 4);
	dirfix_random(t, "e", MIB + 1, 5);
	dirfix_push(t);
	pos = dirfix_row(t, "b").pos;
	assert_int_equal(pos, 1000);
	assert_true(chunk_begins(t, pos));
	assert_true(chunk_begins(t, pos + MIB));
	pos = dirfix_row(t, "d").pos;
	assert_int_equal(pos, MIB + 2000);
	assert_false(chunk_begins(t, pos));
	pos = dirfix_row(t, "e").pos;
	assert_true(chunk_begins(t, pos));
	for (const char *name = "abcde"; *name != '\0'; name++) {
		char one[2] = { *name, '\0' };

		dirfix_assert_file(t, one);
	}
}

static void hard_links(void **state)
{
	struct dirfix *t = *state;
	struct catalog_entry one;
	struct catalog_entry row;

	dirfix_dir(t, "d");
	dirfix_put(t, "d/first", "shared");
	assert_int_equal(linkat(t->src, "d/first", t->src, "e", 0), 0);
	assert_int_equal(linkat(t->src, "d/first", t->src, "f", 0), 0);
	dirfix_put(t, "alone", "alone");
	dirfix_random(t, "large", 2 * MIB, 1);
	assert_int_equal(linkat(t->src, "large", t->src, "large2", 0), 0);
	assert_int_equal(mkfifoat(t->src, "p", 0600), 0);
	assert_int_equal(linkat(t->src, "p", t->src, "q", 0), 0);
	dirfix_push(t);
	one = dirfix_row(t, "d/first");
	assert_int_equal(one.nlink, 3);
	assert_int_equal(one.link, one.id);
	for (const char *name = "ef"; *name != '\0'; name++) {
		char path[2] = { *name, '\0' };

		row = dirfix_row(t, path);
		assert_int_equal(row.link, one.id);
		assert_int_equal(row.pos, one.pos);
		assert_int_equal(row.ino, one.ino);
		dirfix_assert_content(t, path, "shared", 6);
	}
	assert_int_equal(dirfix_row(t, "alone").has & CATALOG_HAS_LINK, 0);
	row = dirfix_row(t, "large2");
	assert_int_equal(row.link, dirfix_row(t, "large").id);
	dirfix_assert_file(t, "large2");
	assert_int_equal(dirfix_row(t, "q").link, dirfix_row(t, "p").id);
	/* Read once each: they are not even counted as equal. */
	assert_int_equal(t->result.written.same_files, 0);
	assert_int_equal(t->result.written.content.size, 6 + 5 + 2 * MIB);
}

/* However many names, its content is read once. */
static void links_are_read_once(void **state)
{
	struct dirfix *t = *state;
	char name[16];

	dirfix_random(t, "f0", 3000, 1);
	for (unsigned i = 1; i < 50; i++) {
		(void)snprintf(name, sizeof(name), "f%u", i);
		assert_int_equal(linkat(t->src, "f0", t->src, name, 0), 0);
	}
	t->opts.ingest.threads = 8;
	t->rule = (struct fault_rule){ .calls = FAULT_BIT(FAULT_PREAD),
		.what = FAULT_FAIL,
		.at = 1000,
		.times = 1,
		.error = EIO };
	assert_ok(dirfix_try(t), &t->f->e);
	/* One, and one more if another name than the first was the first to
	 * be claimed. */
	assert_in_range(fault_count(FAULT_BIT(FAULT_PREAD)), 1, 30);
	fault_uninstall();
	catalogfix_open(t->x, "root.tree");
	for (unsigned i = 0; i < 50; i++) {
		(void)snprintf(name, sizeof(name), "f%u", i);
		assert_int_equal(
		    dirfix_row(t, name).link, dirfix_row(t, "f0").id);
		dirfix_assert_file(t, name);
	}
	assert_int_equal(t->result.written.content.size, 3000);
}

static void make_hole(
    struct dirfix *t, const char *name, off_t size, const char *text, off_t at)
{
	int fd = openat(t->src, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	ssize_t n = (ssize_t)strlen(text);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, size), 0);
	assert_int_equal(pwrite(fd, text, strlen(text), at), n);
	(void)close(fd);
}

/* Cost follows data; the same data elsewhere is the same content. */
static void holes(void **state)
{
	struct dirfix *t = *state;
	struct catalog_entry row;
	struct catalog_hole h;

	make_hole(t, "a", 100 * (off_t)MIB, "data", 50 * (off_t)MIB);
	make_hole(t, "b", 100 * (off_t)MIB, "data", 60 * (off_t)MIB);
	make_hole(t, "all", 5 * (off_t)MIB, "", 0);
	dirfix_push(t);
	row = dirfix_row(t, "a");
	if (catalog_holes_count(&row) == 0) {
		print_message("no holes here\n");
		skip();
	}
	assert_int_equal(row.size, 100 * MIB);
	assert_int_equal(catalog_holes_count(&row), 2);
	h = catalog_hole_decode(&row, 0);
	assert_int_equal(h.start, 0);
	assert_int_equal(h.length, 50 * MIB);
	assert_false(h.allocated);
	h = catalog_hole_decode(&row, 1);
	assert_int_equal(h.start + h.length, 100 * MIB);
	assert_in_range(catalog_stored_size(&row), 4, 1 << 16);
	dirfix_read(t, "a");
	assert_memory_equal(t->x->buf.data, "data", 4);
	row = dirfix_row(t, "b");
	assert_int_equal(row.pos, dirfix_row(t, "a").pos);
	row = dirfix_row(t, "all");
	assert_int_equal(row.size, 5 * MIB);
	assert_int_equal(catalog_stored_size(&row), 0);
	assert_in_range(t->result.written.content.size, 4, 1 << 16);
}

static void add_patterns(struct dirfix *t, struct exclude **x)
{
	static const char *const patterns[] = { "*.o", "/tmp/", "!keep.o" };

	assert_ok(exclude_new(x, &t->f->e), &t->f->e);
	for (size_t i = 0; i < TEST_COUNT(patterns); i++)
		assert_ok(
		    exclude_add(*x, patterns[i], strlen(patterns[i]), &t->f->e),
		    &t->f->e);
	t->opts.exclude = *x;
}

static void excluded(void **state)
{
	struct dirfix *t = *state;
	struct exclude *x = NULL;

	dirfix_dir(t, "tmp");
	dirfix_put(t, "tmp/file", "1");
	dirfix_dir(t, "d");
	dirfix_dir(t, "d/tmp");
	dirfix_put(t, "d/tmp/file", "2");
	dirfix_put(t, "d/a.o", "3");
	dirfix_put(t, "d/keep.o", "4");
	dirfix_put(t, "z.o", "5");
	add_patterns(t, &x);
	dirfix_push(t);
	exclude_free(x);
	assert_false(dirfix_has(t, "tmp"));
	assert_true(dirfix_has(t, "d/tmp/file"));
	assert_false(dirfix_has(t, "d/a.o"));
	assert_true(dirfix_has(t, "d/keep.o"));
	assert_false(dirfix_has(t, "z.o"));
	assert_int_equal(t->result.excluded, 3);
	/* Ids have no gaps. */
	assert_int_equal(dirfix_row(t, "d").id, 2);
}

static void caches(void **state)
{
	static const char tag[] =
	    "Signature: 8a477f597d28d172789f06886806bc55\n# mine\n";
	struct dirfix *t = *state;

	dirfix_dir(t, "c");
	dirfix_put(t, "c/CACHEDIR.TAG", tag);
	dirfix_put(t, "c/A", "1");
	dirfix_dir(t, "c/z");
	dirfix_dir(t, "d");
	dirfix_put(t, "d/CACHEDIR.TAG", "Signature: 8a477f597d28d172789f068");
	dirfix_put(t, "d/A", "2");
	dirfix_dir(t, "e");
	dirfix_dir(t, "e/CACHEDIR.TAG");
	dirfix_dir(t, "p");
	assert_int_equal(mkfifoat(t->src, "p/CACHEDIR.TAG", 0600), 0);
	dirfix_push(t);
	assert_true(dirfix_has(t, "c/A"));
	t->opts.exclude_caches = true;
	dirfix_push(t);
	assert_false(dirfix_has(t, "c/A"));
	assert_false(dirfix_has(t, "c/z"));
	dirfix_assert_file(t, "c/CACHEDIR.TAG");
	assert_true(dirfix_has(t, "d/A"));
	assert_true(dirfix_has(t, "e/CACHEDIR.TAG"));
	assert_true(dirfix_has(t, "p/CACHEDIR.TAG"));
	assert_int_equal(t->result.excluded, 2);
}

static void make_many(struct dirfix *t)
{
	for (unsigned d = 0; d < 20; d++) {
		char name[32];

		(void)snprintf(name, sizeof(name), "d%u", d * 7 % 20);
		dirfix_dir(t, name);
	}
	for (unsigned d = 0; d < 20; d++)
		for (unsigned i = 0; i < 40; i++) {
			char name[32];

			(void)snprintf(
			    name, sizeof(name), "d%u/f%u", d, i * 31 % 40);
			dirfix_random(
			    t, name, 10 + (size_t)(i * 937), d * 20 + i % 35);
		}
	dirfix_random(t, "d3/large", 2 * MIB + 5, 99);
	dirfix_random(t, "d9/large", 2 * MIB + 5, 99);
}

/* The same tree gives the same bytes, whoever reads what first. */
static void deterministic(void **state)
{
	struct dirfix *t = *state;
	struct tree_writer_result first;

	make_many(t);
	t->opts.ingest.threads = 1;
	dirfix_push(t);
	first = t->result.written;
	for (unsigned round = 0; round < 3; round++) {
		t->opts.ingest.threads = 2 + 7 * round;
		dirfix_push(t);
		assert_int_equal(
		    t->result.written.catalog.size, first.catalog.size);
		assert_memory_equal(t->result.written.catalog.csum.b,
		    first.catalog.csum.b, DIGEST_SIZE);
		assert_memory_equal(t->result.written.content.csum.b,
		    first.content.csum.b, DIGEST_SIZE);
	}
	assert_int_equal(t->result.files, 802);
	dirfix_assert_file(t, "d19/f39");
	dirfix_assert_file(t, "d9/large");
}

/* Names come in byte order. */
static void names_in_order(void **state)
{
	static const char *const names[] = { "\x01", " ", "-", "A", "a", "a\n",
		"a b", "a.b", "aa", "\x7f", "\xc3\xa9", "\xff" };
	struct dirfix *t = *state;

	for (size_t i = 0; i < TEST_COUNT(names); i++)
		dirfix_put(t, names[TEST_COUNT(names) - 1 - i], "x");
	dirfix_push(t);
	for (size_t i = 0; i < TEST_COUNT(names); i++)
		assert_int_equal(dirfix_row(t, names[i]).id, 2 + i);
}

/* Deeper than there are descriptors. */
static void deep(void **state)
{
	struct dirfix *t = *state;
	struct rlimit old;
	struct rlimit few;
	char path[3 * 400 + 8] = "";
	struct catalog_entry row;
	size_t n = 0;

	for (unsigned i = 0; i < 400; i++) {
		char file[sizeof(path) + 8];

		n += (size_t)snprintf(path + n, sizeof(path) - n, "%s%c%c",
		    i > 0 ? "/" : "", 'a' + (int)(i % 26), 'b');
		dirfix_dir(t, path);
		(void)snprintf(file, sizeof(file), "%s/z%u", path, i);
		if (i % 3 == 0)
			dirfix_put(t, file, "here");
	}
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
	few = old;
	few.rlim_cur = 160;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
	dirfix_push(t);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
	assert_int_equal(t->result.directories, 401);
	assert_int_equal(t->result.files, 134);
	assert_int_equal(t->result.unreadable + t->result.changed, 0);
	row = dirfix_row(t, path);
	assert_int_equal(row.kind, CATALOG_DIR);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		DIRFIX_TEST(empty_tree),
		DIRFIX_TEST(ids_by_directory),
		DIRFIX_TEST(columns),
		DIRFIX_TEST(devices),
		DIRFIX_TEST(xattrs),
		DIRFIX_TEST(equal_contents),
		DIRFIX_TEST(forced_cuts),
		DIRFIX_TEST(hard_links),
		DIRFIX_TEST(links_are_read_once),
		DIRFIX_TEST(holes),
		DIRFIX_TEST(excluded),
		DIRFIX_TEST(caches),
		DIRFIX_TEST(deterministic),
		DIRFIX_TEST(names_in_order),
		DIRFIX_TEST(deep),
	};

	return cmocka_run_group_tests_name("tree_push", tests, NULL, NULL);
}
