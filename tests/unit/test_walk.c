/* SPDX-License-Identifier: MIT */
/*
 * walk, and what it is helped by: names, paths, the stack; links; mounts;
 * holes, also those that the file system of the test does not have.
 */
#include "index/walk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "index/catalog.h"
#include "index/walk_holes.h"
#include "index/walk_links.h"
#include "index/walk_mounts.h"
#include "tests/support/fault.h"
#include "tests/support/scratch.h"
#include "tests/support/test.h"

struct fixture {
	void *scratch;
	struct scratch *s;
	struct walk *w;
	struct walk_links *links;
	struct walk_mounts *mounts;
	struct buf buf;
	struct err e;
};

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	if (f == NULL || scratch_setup(&f->scratch) < 0)
		return -1;
	f->s = f->scratch;
	*state = f;
	if (walk_links_new(&f->links, &f->e) < 0)
		return -1;
	return walk_mounts_new(&f->mounts, &f->e);
}

static int teardown(void **state)
{
	struct fixture *f = *state;
	void *scratch = f->scratch;

	walk_free(f->w);
	walk_links_free(f->links);
	walk_mounts_free(f->mounts);
	buf_release(&f->buf);
	free(f);
	return scratch_teardown(&scratch);
}

/* ---- the stack ---- */

static struct walk_dir *enter(struct fixture *f, const char *name)
{
	struct walk_dir *d = NULL;

	assert_ok(walk_open(f->w, name, &d, &f->e), &f->e);
	assert_ok(walk_list(d, &f->e), &f->e);
	assert_ok(walk_push(f->w, d, &f->e), &f->e);
	walk_release(d);
	return d;
}

static void start(struct fixture *f)
{
	struct walk_dir *root = NULL;

	assert_ok(walk_new(f->s->dir, "scratch", &f->w, &f->e), &f->e);
	root = walk_root(f->w);
	assert_null(walk_top(f->w));
	assert_ok(walk_list(root, &f->e), &f->e);
	assert_ok(walk_push(f->w, root, &f->e), &f->e);
	assert_ptr_equal(walk_top(f->w), root);
}

static int keep_odd(
    void *ctx, struct walk_dir *d, size_t i, bool *ret_keep, struct err *e)
{
	(void)ctx;
	(void)e;
	*ret_keep = walk_name(d, i)[1] % 2 == 1;
	return 0;
}

static void names(void **state)
{
	struct fixture *f = *state;
	struct walk_dir *root = NULL;

	for (const char *p = "9271834560"; *p != '\0'; p++) {
		char name[3] = { 'f', *p, '\0' };

		tmpdir_put_str(f->s->dir, name, "");
	}
	assert_int_equal(mkdirat(f->s->dir, "e", 0755), 0);
	start(f);
	root = walk_root(f->w);
	assert_int_equal(root->n, 11);
	assert_string_equal(walk_name(root, 0), "e");
	assert_int_equal(walk_type(root, 0), DT_DIR);
	assert_string_equal(walk_name(root, 1), "f0");
	assert_int_equal(walk_type(root, 1), DT_REG);
	assert_string_equal(walk_name(root, 10), "f9");
	root->order[0] = root->order[1];
	assert_ok(walk_filter(root, keep_odd, NULL, &f->e), &f->e);
	assert_int_equal(root->n, 5);
	assert_string_equal(walk_name(root, 4), "f9");
}

static const char *path(
    struct fixture *f, const struct walk_dir *d, const char *name)
{
	buf_reset(&f->buf);
	assert_ok(walk_path(d, name, &f->buf, &f->e), &f->e);
	return buf_cstr(&f->buf, &f->e);
}

static void paths(void **state)
{
	struct fixture *f = *state;
	struct walk_dir *d = NULL;
	bool lost = true;

	assert_int_equal(mkdirat(f->s->dir, "a", 0755), 0);
	assert_int_equal(mkdirat(f->s->dir, "a/bc", 0755), 0);
	start(f);
	assert_string_equal(path(f, walk_root(f->w), NULL), "");
	assert_string_equal(path(f, walk_root(f->w), "x"), "x");
	d = enter(f, "a");
	assert_string_equal(path(f, d, NULL), "a");
	assert_string_equal(path(f, d, "xyz"), "a/xyz");
	d = enter(f, "bc");
	assert_string_equal(path(f, d, NULL), "a/bc");
	assert_string_equal(path(f, d, "x"), "a/bc/x");
	assert_int_equal(d->depth, 2);
	for (unsigned i = 0; i < 3; i++) {
		assert_ok(walk_pop(f->w, &lost, &f->e), &f->e);
		assert_false(lost);
	}
	assert_null(walk_top(f->w));
}

/* As deep as it may be, few descriptors are open, and all come back. */
static void deep(void **state)
{
	struct fixture *f = *state;
	size_t before = 0;
	char name[2000] = "";
	size_t n = 0;

	for (unsigned i = 0; i < 300; i++) {
		n += (size_t)snprintf(
		    name + n, sizeof(name) - n, "%sd%u", i > 0 ? "/" : "", i);
		assert_int_equal(mkdirat(f->s->dir, name, 0755), 0);
	}
	start(f);
	before = tmpdir_open_fds();
	for (unsigned i = 0; i < 300; i++) {
		char one[16];
		struct walk_dir *d = NULL;

		(void)snprintf(one, sizeof(one), "d%u", i);
		d = enter(f, walk_name(walk_top(f->w), 0));
		assert_string_equal(d->name, one);
		assert_in_range(
		    tmpdir_open_fds(), before, before + WALK_OPEN_MAX + 1);
	}
	for (unsigned i = 300; i > 0; i--) {
		bool lost = true;

		assert_int_equal(walk_top(f->w)->depth, i);
		assert_ok(walk_pop(f->w, &lost, &f->e), &f->e);
		assert_false(lost);
		assert_true(walk_top(f->w)->fd >= 0);
		assert_in_range(
		    tmpdir_open_fds(), before, before + WALK_OPEN_MAX + 1);
	}
	assert_int_equal(tmpdir_open_fds(), before);
}

/* Who is held stays open, on the stack or not; and its memory, too. */
static void held(void **state)
{
	struct fixture *f = *state;
	struct walk_dir *a = NULL;
	struct walk_dir *b = NULL;
	bool lost = true;

	assert_int_equal(mkdirat(f->s->dir, "a", 0755), 0);
	assert_int_equal(mkdirat(f->s->dir, "a/b", 0755), 0);
	start(f);
	a = enter(f, "a");
	b = enter(f, walk_name(a, 0));
	walk_hold(b);
	assert_ok(walk_pop(f->w, &lost, &f->e), &f->e);
	assert_ok(walk_pop(f->w, &lost, &f->e), &f->e);
	assert_true(b->fd >= 0);
	assert_int_equal(a->fd, -1);
	assert_string_equal(path(f, b, NULL), "a/b");
	walk_release(b);
}

/* ---- links ---- */

static struct statx inode(uint64_t ino, uint32_t nlink, uint32_t ctime)
{
	struct statx st = { .stx_ino = ino,
		.stx_nlink = nlink,
		.stx_dev_minor = 5,
		.stx_size = 10 };

	st.stx_ctime.tv_sec = ctime;
	return st;
}

static int64_t meet(struct fixture *f, const struct statx *st, int64_t id,
    const struct walk_link_content **ret)
{
	int64_t link = 0;

	assert_ok(walk_links_meet(f->links, st, id, &link, ret, &f->e), &f->e);
	return link;
}

static void links(void **state)
{
	struct fixture *f = *state;
	struct walk_link_content content = { .size = 10, .pos = 77 };
	const struct walk_link_content *got = NULL;
	struct statx st = inode(9, 3, 1);
	struct statx other = inode(10, 2, 1);
	bool first = false;

	assert_ok(walk_links_claim(f->links, &st, &first, &f->e), &f->e);
	assert_true(first);
	assert_ok(walk_links_claim(f->links, &st, &first, &f->e), &f->e);
	assert_false(first);
	assert_int_equal(meet(f, &st, 100, &got), 100);
	assert_null(got);
	content.ctime.tv_sec = 1;
	walk_links_store(f->links, &content);
	walk_links_done(f->links);
	/* Another one. */
	assert_int_equal(meet(f, &other, 101, &got), 101);
	assert_null(got);
	walk_links_done(f->links);
	/* Met again: its content is known, unless it has changed. */
	assert_int_equal(meet(f, &st, 102, &got), 100);
	assert_non_null(got);
	assert_int_equal(got->pos, 77);
	walk_links_done(f->links);
	st.stx_ctime.tv_sec = 2;
	assert_int_equal(meet(f, &st, 103, &got), 100);
	assert_null(got);
	walk_links_done(f->links);
	/* All three were met: it is forgotten. */
	assert_ok(walk_links_claim(f->links, &st, &first, &f->e), &f->e);
	assert_true(first);
}

static void many_links(void **state)
{
	struct fixture *f = *state;
	const struct walk_link_content *got = NULL;

	for (uint64_t i = 1; i <= 5000; i++) {
		struct statx st = inode(i, 2, 1);

		assert_int_equal(meet(f, &st, (int64_t)i, &got), (int64_t)i);
		walk_links_done(f->links);
	}
	for (uint64_t i = 1; i <= 5000; i++) {
		struct statx st = inode(i, 2, 1);

		assert_int_equal(meet(f, &st, 9999, &got), (int64_t)i);
		walk_links_done(f->links);
	}
}

/* ---- mounts ---- */

static const char mountinfo[] =
    "22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n"
    "23 22 0:21 / /proc rw - proc proc rw\n"
    "230 22 0:40 / /a\\040-\\040b rw master:2 shared:7 - fuse.some x rw\n"
    "24 22 0:41 / /no type\n";

static void parses_mounts(void **state)
{
	char type[16];

	(void)state;
	assert_true(walk_mounts_parse(mountinfo, 22, type, sizeof(type)));
	assert_string_equal(type, "ext4");
	assert_true(walk_mounts_parse(mountinfo, 23, type, sizeof(type)));
	assert_string_equal(type, "proc");
	assert_true(walk_mounts_parse(mountinfo, 230, type, sizeof(type)));
	assert_string_equal(type, "fuse.some");
	assert_false(walk_mounts_parse(mountinfo, 24, type, sizeof(type)));
	assert_false(walk_mounts_parse(mountinfo, 2, type, sizeof(type)));
	assert_false(walk_mounts_parse(mountinfo, 230, type, 5));
	assert_false(walk_mounts_parse("", 22, type, sizeof(type)));
}

static void numbers_mounts(void **state)
{
	static const struct {
		uint64_t mnt;
		int64_t id;
		bool is_new;
	} cases[] = { { 500, 1, true }, { 500, 1, false }, { 7, 2, true },
		{ 500, 1, false }, { 7, 2, false }, { 8, 3, true } };
	struct fixture *f = *state;
	struct statx st = { .stx_mask = STATX_MNT_ID };
	const char *type = NULL;
	bool is_new = false;
	int64_t id = 0;

	for (size_t i = 0; i < TEST_COUNT(cases); i++) {
		st.stx_mnt_id = cases[i].mnt;
		assert_ok(walk_mounts_find(
			      f->mounts, &st, &id, &is_new, &type, &f->e),
		    &f->e);
		assert_int_equal(id, cases[i].id);
		assert_int_equal(is_new, cases[i].is_new);
	}
	/* An old kernel: by device, which is no mount's number. */
	st.stx_mask = 0;
	st.stx_dev_minor = 7;
	assert_ok(walk_mounts_find(f->mounts, &st, &id, &is_new, &type, &f->e),
	    &f->e);
	assert_int_equal(id, 4);
	assert_string_equal(type, "");
	assert_int_equal(
	    statx(f->s->dir, "", AT_EMPTY_PATH, WALK_STATX_MASK, &st), 0);
	assert_ok(walk_mounts_find(f->mounts, &st, &id, &is_new, &type, &f->e),
	    &f->e);
	if ((st.stx_mask & STATX_MNT_ID) != 0)
		assert_true(strlen(type) > 0);
}

/* ---- holes ---- */

/* A file that has data where a string has a letter; 4 KiB each. */
struct fake {
	const char *data;      /* 'x': data, ' ': none */
	const char *unwritten; /* 'u': preallocated; may be longer */
	unsigned asked;
};

static void fake_seek(const struct fake *x, struct fault_event *ev)
{
	size_t n = strlen(x->data);
	size_t at = (size_t)ev->at / 4096;
	char want = ev->flags == SEEK_DATA ? 'x' : ' ';

	ev->skip = true;
	while (at < n && x->data[at] != want)
		at++;
	ev->result = (int64_t)(at * 4096);
	if (ev->result < ev->at)
		ev->result = ev->at;
	if (at == n && ev->flags == SEEK_DATA) {
		ev->result = -1;
		ev->error = ENXIO;
	}
}

/* One extent a call, so that asking again is seen. */
static void fake_fiemap(struct fake *x, struct fault_event *ev)
{
	struct fiemap *map = ev->p;
	size_t n = strlen(x->unwritten);
	size_t at = (size_t)map->fm_start / 4096;
	size_t end = 0;

	x->asked++;
	ev->skip = true;
	ev->result = 0;
	map->fm_mapped_extents = 0;
	while (at < n && x->unwritten[at] == ' ')
		at++;
	if (at >= n)
		return;
	end = at;
	while (end < n && x->unwritten[end] == x->unwritten[at])
		end++;
	map->fm_mapped_extents = 1;
	map->fm_extents[0] = (struct fiemap_extent){
		.fe_logical = at * 4096,
		.fe_length = (end - at) * 4096,
		.fe_flags =
		    x->unwritten[at] == 'u' ? FIEMAP_EXTENT_UNWRITTEN : 0,
	};
}

static void fake_before(void *ctx, struct fault_event *ev)
{
	struct fake *x = ctx;

	if (ev->call == FAULT_LSEEK)
		fake_seek(x, ev);
	if (ev->call == FAULT_IOCTL && (uint64_t)ev->at == FS_IOC_FIEMAP)
		fake_fiemap(x, ev);
}

/* The holes as text: "0+1 3+2a", in blocks; a: allocated. */
static void assert_holes(
    struct fixture *f, struct fake *x, size_t allocated, const char *want)
{
	struct statx st = { .stx_size = strlen(x->data) * 4096,
		.stx_blocks = allocated * 8,
		.stx_blksize = 4096 };
	struct catalog_entry entry = { .has = CATALOG_HAS_HOLES };
	char text[200] = "";
	size_t n = 0;

	fault_reset();
	fault_set_hooks(
	    &(struct fault_hooks){ .before = fake_before, .ctx = x });
	assert_ok(walk_holes(f->s->dir, &st, &f->buf, &f->e), &f->e);
	entry.holes.p = f->buf.data;
	entry.holes.n = f->buf.len;
	for (size_t i = 0; i < catalog_holes_count(&entry); i++) {
		struct catalog_hole h = catalog_hole_decode(&entry, i);

		n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%u+%u%s",
		    i > 0 ? " " : "", (unsigned)(h.start / 4096),
		    (unsigned)(h.length / 4096), h.allocated ? "a" : "");
	}
	assert_string_equal(text, want);
}

static void holes(void **state)
{
	static const struct {
		const char *data;
		const char *unwritten;
		const char *want;
	} cases[] = {
		{ "", "", "" },
		{ "xxx", "", "" },
		{ "   ", "", "0+3" },
		{ " x ", "", "0+1 2+1" },
		{ "x  x", "", "1+2" },
		{ "x  x", "wu w", "1+1a 2+1" },
		{ "x  x", "w uw", "1+1 2+1a" },
		{ "x  x", "wuuw", "1+2a" },
		{ "x    x", "wu uuw", "1+1a 2+1 3+2a" },
		{ "    ", " uu ", "0+1 1+2a 3+1" },
		/* Dirty pages in what is unwritten still: data. */
		{ "x x ", "uuuu", "1+1a 3+1a" },
		/* Behind the end. */
		{ "xx", "wwuu", "2+2a" },
		{ "xx", "ww uu", "3+2a" },
		{ "x ", "wuuu", "1+1a 2+2a" },
		{ "", "uu", "0+2a" },
		{ "xx", "wwu u", "2+1a 4+1a" },
	};
	struct fixture *f = *state;

	for (size_t i = 0; i < TEST_COUNT(cases); i++) {
		struct fake x = { .data = cases[i].data,
			.unwritten = cases[i].unwritten };
		size_t n = 0;

		for (const char *p = x.unwritten; *p != '\0'; p++)
			n += *p != ' ';
		assert_holes(f, &x, n > 0 ? n : strlen(x.data), cases[i].want);
	}
	/* FIEMAP is not asked where there can be nothing. */
	for (size_t i = 0; i < 2; i++) {
		struct fake x = { .data = i == 0 ? "xxx" : "x x",
			.unwritten = "uuuu" };

		assert_holes(f, &x, i == 0 ? 3 : 2, i == 0 ? "" : "1+1");
		assert_int_equal(x.asked, 0);
	}
}

static void data_around_holes(void **state)
{
	struct fixture *f = *state;
	struct fake x = { .data = " xx x ", .unwritten = " ww wuuu" };
	uint64_t start = 0;
	uint64_t end = 0;
	uint64_t at = 0;

	assert_holes(f, &x, 6, "0+1 3+1 5+1a 6+2a");
	assert_int_equal(walk_holes_stored(&f->buf, 6 * 4096), 3 * 4096);
	assert_true(walk_holes_data(&f->buf, 6 * 4096, &at, &start, &end));
	assert_int_equal(start, 4096);
	assert_int_equal(end, 3 * 4096);
	assert_true(walk_holes_data(&f->buf, 6 * 4096, &at, &start, &end));
	assert_int_equal(start, 4 * 4096);
	assert_int_equal(end, 5 * 4096);
	assert_false(walk_holes_data(&f->buf, 6 * 4096, &at, &start, &end));
	/* From the middle of a range. */
	at = 4097;
	assert_true(walk_holes_data(&f->buf, 6 * 4096, &at, &start, &end));
	assert_int_equal(start, 4097);
	/* It became shorter. */
	walk_holes_truncate(&f->buf, 3 * 4096 + 100);
	assert_int_equal(f->buf.len, 2 * CATALOG_HOLE_SIZE);
	assert_int_equal(walk_holes_stored(&f->buf, 3 * 4096 + 100), 2 * 4096);
}

#define TEST(t) cmocka_unit_test_setup_teardown(t, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(names),
		TEST(paths),
		TEST(deep),
		TEST(held),
		TEST(links),
		TEST(many_links),
		TEST(parses_mounts),
		TEST(numbers_mounts),
		TEST(holes),
		TEST(data_around_holes),
	};

	return cmocka_run_group_tests_name("walk", tests, NULL, NULL);
}
