/* SPDX-License-Identifier: MIT */
/*
 * Two trees, and every line that tells how they differ.
 */
#include "index/tree_diff.h"

#include <stdio.h>
#include <stdlib.h>

#include "datastore/tree.h"
#include "tests/support/catalogfix.h"
#include "tests/support/treefix.h"

struct side {
	struct catalog *c;
	struct snapshot_hold hold;
	struct manifest manifest;
};

struct scene {
	struct restorefix *f;
	struct treefix t;
	struct side side[2];
	struct buf got; /* "+ path\n" ... */
	size_t memory;
	unsigned fails_at; /* n-th event */
	unsigned events;
};

static int setup(void **state)
{
	struct scene *s = calloc(1, sizeof(*s));
	void *f = NULL;

	if (s == NULL || restorefix_setup(&f) < 0)
		return -1;
	s->f = f;
	for (size_t i = 0; i < 2; i++) {
		s->side[i].hold = (struct snapshot_hold)SNAPSHOT_HOLD_INIT;
		s->side[i].manifest = (struct manifest)MANIFEST_INIT;
	}
	*state = s;
	return 0;
}

static void close_sides(struct scene *s)
{
	for (size_t i = 0; i < 2; i++) {
		catalog_close(s->side[i].c);
		s->side[i].c = NULL;
		manifest_release(&s->side[i].manifest);
		snapshot_release(&s->side[i].hold);
	}
}

static int teardown(void **state)
{
	struct scene *s = *state;
	void *f = s->f;
	int rc = 0;

	treefix_release(&s->t);
	close_sides(s);
	buf_release(&s->got);
	rc = restorefix_teardown(&f);
	free(s);
	return rc;
}

#define SCENE_TEST(t) cmocka_unit_test_setup_teardown(t, setup, teardown)

static void begin(struct scene *s)
{
	restorefix_begin(s->f);
	treefix_begin(&s->t, s->f, "root.tree");
}

static void open_side(struct scene *s, size_t i)
{
	struct restorefix *f = s->f;
	struct side *x = &s->side[i];

	assert_ok(
	    snapshot_hold(f->ds, &f->id, LOCK_SHARED, &x->hold, &f->e), &f->e);
	assert_ok(
	    tree_read_manifest(f->ds, &f->id, x->hold.fd, &x->manifest, &f->e),
	    &f->e);
	assert_ok(catalog_open(f->ds, &f->id, &x->hold, &x->manifest,
		      "root.tree", &x->c, &f->e),
	    &f->e);
}

/* What was added is one of the two. */
static void end(struct scene *s, size_t i)
{
	treefix_end(&s->t);
	restorefix_commit(s->f);
	open_side(s, i);
}

static int tell(void *ctx, const struct tree_diff_event *event, struct err *e)
{
	struct scene *s = ctx;
	const char *before = " (";
	int rc = 0;

	assert_int_equal(
	    event->before == NULL, event->change == TREE_DIFF_ADDED);
	assert_int_equal(
	    event->after == NULL, event->change == TREE_DIFF_REMOVED);
	if (++s->events == s->fails_at)
		return err_set(e, ERR_REFUSED, "no more");
	rc = buf_append_fmt(&s->got, e, "%c ", "+-MR"[event->change]);
	if (rc == 0 && event->change == TREE_DIFF_MOVED)
		rc = buf_append_fmt(&s->got, e, "%.*s -> ", (int)event->from.n,
		    (const char *)event->from.p);
	if (rc == 0)
		rc = buf_append_fmt(&s->got, e, "%.*s", (int)event->path.n,
		    (const char *)event->path.p);
	for (unsigned i = 0; i < TREE_DIFF_WHATS && rc == 0; i++) {
		if (!(event->what >> i & 1))
			continue;
		rc = buf_append_fmt(
		    &s->got, e, "%s%s", before, tree_diff_word(i));
		before = ", ";
	}
	return rc < 0
	    ? rc
	    : buf_append_fmt(&s->got, e, "%s\n", before[0] == ',' ? ")" : "");
}

static int diff(struct scene *s, size_t a, size_t b, const char *path)
{
	const struct tree_diff d = {
		.a = s->side[a].c,
		.b = s->side[b].c,
		.fn = tell,
		.ctx = s,
		.task = &s->f->task,
		.memory = s->memory,
	};

	s->f->e = (struct err)ERR_INIT;
	s->events = 0;
	buf_reset(&s->got);
	return tree_diff(&d, treefix_bytes(path), &s->f->e);
}

static void assert_diff(
    struct scene *s, size_t a, size_t b, const char *path, const char *want)
{
	const char *got = NULL;

	assert_ok(diff(s, a, b, path), &s->f->e);
	got = buf_cstr(&s->got, &s->f->e);
	assert_non_null(got);
	assert_string_equal(got, want);
}

static void small_tree(struct scene *s)
{
	begin(s);
	treefix_file(&s->t, "a", "aaa");
	treefix_dir(&s->t, "d");
	treefix_file(&s->t, "d/x", "xxx");
	treefix_dir(&s->t, "d/e");
	treefix_file(&s->t, "d/e/y", "yyy");
	treefix_file(&s->t, "z", "zzz");
}

static void is_silent_about_equals(void **state)
{
	struct scene *s = *state;

	small_tree(s);
	end(s, 0);
	small_tree(s);
	end(s, 1);
	assert_diff(s, 0, 1, "", "");
	assert_diff(s, 0, 0, "", "");
	assert_diff(s, 0, 1, "d", "");
	assert_diff(s, 0, 1, "z", "");
}

/* Names that begin like each other, and directories against files. */
static void tells_added_and_removed(void **state)
{
	struct scene *s = *state;

	small_tree(s);
	treefix_file(&s->t, "d.x", "1");
	end(s, 0);
	begin(s);
	treefix_dir(&s->t, "a");
	treefix_file(&s->t, "a/b", "2");
	treefix_file(&s->t, "a.b", "3");
	treefix_file(&s->t, "d", "4");
	treefix_file(&s->t, "z", "zzz");
	treefix_file(&s->t, "zz", "5");
	end(s, 1);
	assert_diff(s, 0, 1, "",
	    "M a (type)\n+ a/b\n+ a.b\nM d (type)\n- d/e\n- d/e/y\n- d/x\n"
	    "- d.x\n+ zz\n");
	assert_diff(s, 1, 0, "",
	    "M a (type)\n- a/b\n- a.b\nM d (type)\n+ d/e\n+ d/e/y\n+ d/x\n"
	    "+ d.x\n- zz\n");
	assert_diff(s, 0, 1, "d.x", "- d.x\n");
	assert_diff(s, 0, 1, "zz", "+ zz\n");
	assert_diff(s, 0, 1, "d/e", "- d/e\n- d/e/y\n");
	assert_err(diff(s, 0, 1, "q"), &s->f->e, ERR_NOTFOUND, "'q' is not");
	assert_err(diff(s, 0, 1, "d/.."), &s->f->e, ERR_INVALID, "'..'");
}

/* One entry of each kind, the first with what differs. */
static void add_attr(struct scene *s, struct catalog_entry *x, const char *name)
{
	struct buf data = BUF_INIT;

	assert_ok(
	    catalog_attr_append(&data, name, "value", 5, &s->f->e), &s->f->e);
	assert_ok(catalog_writer_attr(
		      s->t.w, data.data, data.len, &x->attr, &s->f->e),
	    &s->f->e);
	x->has |= CATALOG_HAS_ATTR;
	buf_release(&data);
}

static void tell_what(struct scene *s, bool second)
{
	static const struct catalog_hole holes[] = { { 3, 4, false } };
	struct catalog_entry file = treefix_entry(CATALOG_FILE);
	struct catalog_entry x;
	uint8_t column[CATALOG_HOLE_SIZE];
	uint32_t one = second ? 1 : 0;

	begin(s);
	/* Another number for what is equal. */
	if (second)
		add_attr(s, &file, "user.other");
	file = treefix_entry(CATALOG_FILE);
	treefix_content(&s->t, &file, second ? "new" : "old", 3);
	treefix_add(&s->t, "content", file);
	x = treefix_entry(CATALOG_CHAR);
	x.has |= CATALOG_HAS_RDEV;
	x.rdev = UINT64_C(8) << 32 | one;
	treefix_add(&s->t, "device", x);
	treefix_content(&s->t, &file, "same", 4);
	file.flags = one;
	file.has |= CATALOG_HAS_FLAGS;
	treefix_add(&s->t, "flags", file);
	file.flags = 0;
	file.has &= ~(unsigned)CATALOG_HAS_FLAGS;
	x = file;
	x.gid = one;
	treefix_add(&s->t, "gid", x);
	x = file;
	if (second) {
		x.has |= CATALOG_HAS_HOLES;
		x.holes = treefix_holes(holes, 1, column);
	}
	x.size += second ? 4 : 0;
	treefix_add(&s->t, "hole", x);
	x = file;
	x.nlink += one;
	treefix_add(&s->t, "links", x);
	x = file;
	x.mode = second ? 04644 : 0644;
	treefix_add(&s->t, "mode", x);
	x = file;
	x.mtime_ns = one;
	x.ctime_s += one;
	x.ino += one;
	treefix_add(&s->t, "mtime", x);
	x = file;
	x.ctime_s += one;
	x.ino += one;
	x.mount += one;
	treefix_add(&s->t, "not", x);
	x = treefix_entry(CATALOG_DIR);
	if (second)
		x.has = 0;
	treefix_add(&s->t, "nothing-known", x);
	x = treefix_entry(CATALOG_SYMLINK);
	x.has |= CATALOG_HAS_TARGET;
	x.target = treefix_bytes(second ? "y" : "x");
	treefix_add(&s->t, "target", x);
	x = file;
	x.uid = one;
	x.mtime_s += one;
	treefix_add(&s->t, "uid", x);
	x = treefix_entry(CATALOG_FILE);
	x.has |= CATALOG_HAS_SIZE | CATALOG_HAS_STATE;
	x.size = 4;
	x.state = second ? CATALOG_STATE_UNREADABLE : CATALOG_STATE_SHORT;
	if (!second) {
		x.has |= CATALOG_HAS_POS | CATALOG_HAS_SHA256;
		x.pos = file.pos;
		x.sha256 = file.sha256;
	}
	treefix_add(&s->t, "unreadable", x);
	x = file;
	add_attr(s, &x, second ? "user.b" : "user.a");
	treefix_add(&s->t, "xattr", x);
	x = file;
	if (second)
		add_attr(s, &x, "user.a");
	treefix_add(&s->t, "xattr-new", x);
	x = file;
	add_attr(s, &x, "user.a");
	treefix_add(&s->t, "xattr-same", x);
	end(s, second);
}

static void tells_what_changed(void **state)
{
	static const char want[] =
	    "M content (content)\nM device (device)\nM flags (flags)\n"
	    "M gid (owner)\nM hole (content)\nM links (links)\n"
	    "M mode (mode)\nM mtime (mtime)\n"
	    "M nothing-known (mode, owner, mtime)\nM target (target)\n"
	    "M uid (owner, mtime)\nM unreadable (content)\n"
	    "M xattr (xattrs)\nM xattr-new (xattrs)\n";
	struct scene *s = *state;

	tell_what(s, false);
	tell_what(s, true);
	assert_diff(s, 0, 1, "", want);
	assert_diff(s, 1, 0, "", want);
}

/* By content: one goes for one, those of the same name first. */
static void finds_moved_files(void **state)
{
	struct scene *s = *state;
	struct catalog_entry x = treefix_entry(CATALOG_FILE);

	begin(s);
	treefix_dir(&s->t, "d");
	treefix_file(&s->t, "d/name", "twice");
	treefix_file(&s->t, "d/other", "twice");
	treefix_file(&s->t, "empty", "");
	treefix_file(&s->t, "once", "once");
	treefix_file(&s->t, "stays", "stays");
	end(s, 0);
	begin(s);
	treefix_dir(&s->t, "d");
	treefix_file(&s->t, "copied", "stays");
	treefix_file(&s->t, "e", "");
	treefix_file(&s->t, "first", "twice");
	treefix_file(&s->t, "name", "twice");
	treefix_content(&s->t, &x, "once", 4);
	x.mode = 0600;
	treefix_add(&s->t, "once-more", x);
	treefix_file(&s->t, "stays", "stays");
	treefix_file(&s->t, "third", "twice");
	end(s, 1);
	assert_diff(s, 0, 1, "",
	    "+ copied\n+ e\n- empty\nR d/other -> first\nR d/name -> name\n"
	    "R once -> once-more (mode)\n+ third\n");
	assert_diff(s, 1, 0, "",
	    "- copied\nR name -> d/name\nR first -> d/other\n- e\n+ empty\n"
	    "R once-more -> once (mode)\n- third\n");
}

/* A directory most of whose children went to another one, with what changed,
 * is empty or a link; and one of which just half did. */
static void finds_moved_directories(void **state)
{
	struct scene *s = *state;
	struct catalog_entry x = treefix_entry(CATALOG_FILE);
	struct catalog_entry link = treefix_entry(CATALOG_SYMLINK);

	link.has |= CATALOG_HAS_TARGET;
	link.target = treefix_bytes("to");
	begin(s);
	treefix_dir(&s->t, "half");
	treefix_file(&s->t, "half/2", "22");
	treefix_file(&s->t, "half/3", "33");
	treefix_dir(&s->t, "old");
	treefix_file(&s->t, "old/a", "aa");
	treefix_file(&s->t, "old/changed", "cc");
	treefix_file(&s->t, "old/gone", "gone");
	treefix_dir(&s->t, "old/sub");
	treefix_file(&s->t, "old/sub/b", "bb");
	treefix_file(&s->t, "old/sub/d", "dd");
	treefix_dir(&s->t, "old/sub/empty");
	treefix_add(&s->t, "old/sub/link", link);
	treefix_file(&s->t, "old/sub/nothing", "");
	treefix_file(&s->t, "old/sub/x", "xx");
	treefix_file(&s->t, "old/type", "type");
	treefix_file(&s->t, "old/z", "zz");
	treefix_file(&s->t, "old/zz", "zzz");
	end(s, 0);
	begin(s);
	treefix_dir(&s->t, "new");
	treefix_content(&s->t, &x, "aa", 2);
	x.mtime_s++;
	treefix_add(&s->t, "new/a", x);
	treefix_file(&s->t, "new/changed", "CC");
	treefix_file(&s->t, "new/more", "more");
	treefix_dir(&s->t, "new/sub");
	treefix_file(&s->t, "new/sub/b", "bb");
	treefix_file(&s->t, "new/sub/d", "dd");
	treefix_dir(&s->t, "new/sub/empty");
	treefix_add(&s->t, "new/sub/link", link);
	treefix_file(&s->t, "new/sub/nothing", "");
	treefix_file(&s->t, "new/sub/x", "xx");
	treefix_dir(&s->t, "new/type");
	treefix_file(&s->t, "new/z", "zz");
	treefix_file(&s->t, "new/zz", "zzz");
	treefix_dir(&s->t, "whole");
	treefix_file(&s->t, "whole/2", "22");
	end(s, 1);
	assert_diff(s, 0, 1, "",
	    "- half\n- half/3\nR old -> new\nM new/a (mtime)\n"
	    "M new/changed (content)\n+ new/more\n+ new/type\n- old/gone\n"
	    "- old/type\n+ whole\nR half/2 -> whole/2\n");
	assert_diff(s, 1, 0, "",
	    "+ half\nR whole/2 -> half/2\n+ half/3\n- new/more\n"
	    "- new/type\nR new -> old\nM old/a (mtime)\n"
	    "M old/changed (content)\n+ old/gone\n+ old/type\n- whole\n");
}

/* As if both had come from one catalog: a snapshot of the same rows, with
 * this lineage. */
static void give_lineage(struct scene *s, size_t i, const char *lineage)
{
	struct catalogfix x = { .f = s->f };
	struct side *side = &s->side[i];
	char sql[128];
	size_t n = 0;
	char *p = NULL;

	assert_ok(restorefix_open(s->f, "root.tree"), &s->f->e);
	catalogfix_extract(&x, "root.tree.catalog", "db");
	restorefix_close(s->f);
	(void)snprintf(sql, sizeof(sql),
	    "update meta set value = '%s' where key = 'lineage'", lineage);
	catalogfix_sql(&x, "db", false, sql);
	p = tmpdir_get(s->f->dir.fd, "db", &n);
	assert_non_null(p);
	catalog_close(side->c);
	side->c = NULL;
	manifest_release(&side->manifest);
	snapshot_release(&side->hold);
	restorefix_begin(s->f);
	restorefix_add(s->f, "root.tree.didx", "xy", 2);
	restorefix_add(s->f, "root.tree.catalog.fidx", p, n);
	free(p);
	restorefix_commit(s->f);
	open_side(s, i);
}

/* In one lineage an id is enough, whatever became of the rest. */
static void finds_moved_ids(void **state)
{
	struct scene *s = *state;
	struct catalog_entry dir = treefix_entry(CATALOG_DIR);

	begin(s);
	treefix_dir(&s->t, "a");
	treefix_dir(&s->t, "a/e");
	treefix_file(&s->t, "a/e/x", "1");
	treefix_file(&s->t, "a/y", "2");
	end(s, 0);
	give_lineage(s, 0, "one");
	begin(s);
	dir.mode = 0700;
	treefix_add(&s->t, "b", dir);
	treefix_dir(&s->t, "b/e");
	treefix_file(&s->t, "b/e/x", "3");
	treefix_file(&s->t, "b/z", "4");
	end(s, 1);
	give_lineage(s, 1, "one");
	assert_diff(s, 0, 1, "",
	    "R a -> b (mode)\nM b/e/x (content)\nR a/y -> b/z (content)\n");
	give_lineage(s, 1, "two");
	assert_diff(s, 0, 1, "",
	    "- a\n- a/e\n- a/e/x\n- a/y\n+ b\n+ b/e\n+ b/e/x\n+ b/z\n");
}

/* What is held back has an end: beyond it nothing was moved. */
static void holds_back_no_more_than_it_may(void **state)
{
	struct scene *s = *state;
	char path[32];
	char content[32];

	for (unsigned side = 0; side < 2; side++) {
		begin(s);
		treefix_dir(&s->t, side ? "b" : "a");
		for (unsigned i = 0; i < 500; i++) {
			(void)snprintf(
			    path, sizeof(path), "%c/%03u", side ? 'b' : 'a', i);
			(void)snprintf(content, sizeof(content), "c%u", i);
			treefix_file(&s->t, path, content);
		}
		end(s, side);
	}
	assert_diff(s, 0, 1, "", "R a -> b\n");
	s->memory = 1;
	assert_ok(diff(s, 0, 1, ""), &s->f->e);
	assert_int_equal(s->events, 2 * 501);
	assert_int_equal(s->got.data[0], '-');
	/* Some windows hold an end of the one and a beginning of the other. */
	s->memory = 100000;
	assert_ok(diff(s, 0, 1, ""), &s->f->e);
	assert_true(s->events > 501 && s->events <= 2 * 501);
}

static void ends_when_it_is_told_to(void **state)
{
	struct scene *s = *state;

	small_tree(s);
	end(s, 0);
	begin(s);
	end(s, 1);
	s->fails_at = 2;
	assert_err(diff(s, 0, 1, ""), &s->f->e, ERR_REFUSED, "no more");
	s->fails_at = 0;
	s->f->task.stop = 2;
	assert_err(diff(s, 0, 1, ""), &s->f->e, ERR_CANCELLED, "");
}

/* Directories that share an id, so that there is no end of them. */
static void notices_that_there_is_no_end(void **state)
{
	struct scene *s = *state;
	struct catalog_entry x = treefix_entry(CATALOG_DIR);

	begin(s);
	end(s, 0);
	begin(s);
	x.id = treefix_dir(&s->t, "a");
	treefix_dir(&s->t, "a/b");
	treefix_add(&s->t, "a/b/c", x);
	treefix_add(&s->t, "a/b/d", x);
	end(s, 1);
	s->memory = 100000;
	assert_err(diff(s, 0, 1, ""), &s->f->e, ERR_CORRUPT,
	    "more entries than it has room for");
	assert_err(diff(s, 1, 1, ""), &s->f->e, ERR_CORRUPT, "more entries");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		SCENE_TEST(is_silent_about_equals),
		SCENE_TEST(tells_added_and_removed),
		SCENE_TEST(tells_what_changed),
		SCENE_TEST(finds_moved_files),
		SCENE_TEST(finds_moved_directories),
		SCENE_TEST(finds_moved_ids),
		SCENE_TEST(holds_back_no_more_than_it_may),
		SCENE_TEST(ends_when_it_is_told_to),
		SCENE_TEST(notices_that_there_is_no_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
