/* SPDX-License-Identifier: MIT */
#include "gc/listing.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/gcfix.h"

#define SNAPSHOT "host/a/" GCFIX_T0_NAME
#define VM_0 "vm/1/2027-01-15T08:00:00Z"
#define VM_1_INDEX "vm/1/2027-01-15T08:00:01Z/a.fidx"

/* A listing and what was found on the way. */
struct walk {
	struct listing l;
	struct findings findings;
};

static int walk(struct gcfix *f, struct walk *w)
{
	listing_release(&w->l);
	buf_reset(&f->messages);
	w->findings = (struct findings){ .task = &f->task,
		.ignore = f->opts.ignore,
		.ignore_n = f->opts.ignore_n };
	return listing_walk(f->gc, &f->task, &w->findings, &w->l, &f->e);
}

static const struct root_file *find(const struct walk *w, const char *path)
{
	for (size_t i = 0; i < w->l.n; i++) {
		if (strcmp(w->l.files[i].path, path) == 0)
			return &w->l.files[i];
	}
	return NULL;
}

static void put(struct gcfix *f, const char *dir, const char *name)
{
	char path[PATH_MAX];

	gcfix_mkdir(f, dir);
	(void)snprintf(path, sizeof(path), "%s/%s", dir, name);
	gcfix_put_index(f, path, 0, 1);
}

static void link_to(struct gcfix *f, const char *to, const char *name)
{
	char path[PATH_MAX];

	(void)snprintf(path, sizeof(path), "store/%s", name);
	assert_int_equal(symlinkat(to, f->dir.fd, path), 0);
}

static void every_index_file_is_found(void **state)
{
	static const struct {
		const char *dir;
		const char *name;
		bool in_snapshot;
	} files[] = {
		{ SNAPSHOT, "a.img.fidx", true },
		{ SNAPSHOT, "b.didx", true },
		{ SNAPSHOT, "odd name.fidx", true },
		{ "ns/x/ns/y/vm/100/" GCFIX_T0_NAME, "a.img.fidx", true },
		{ "host/a/2027-01-15", "a.img.fidx", false },
		{ "host/a", "a.img.fidx", false },
		{ "host", "a.img.fidx", false },
		{ "other/deep/place", "a.img.fidx", false },
		{ SNAPSHOT "/sub.didx", "a.img.fidx", false },
	};
	struct gcfix *f = *state;
	struct walk w = { .l = LISTING_INIT };

	gcfix_put_index(f, "root.fidx", 0, 1);
	for (size_t i = 0; i < TEST_COUNT(files); i++)
		put(f, files[i].dir, files[i].name);
	assert_ok(walk(f, &w), &f->e);
	assert_int_equal(w.l.n, TEST_COUNT(files) + 1);
	assert_int_equal(w.l.vanished, 0);
	assert_int_equal(w.findings.fatal, 0);
	assert_int_equal(w.findings.warnings, 0);
	for (size_t i = 0; i < TEST_COUNT(files); i++) {
		char path[PATH_MAX];
		const struct root_file *file = NULL;
		struct stat st;

		(void)snprintf(
		    path, sizeof(path), "%s/%s", files[i].dir, files[i].name);
		file = find(&w, path);
		assert_non_null(file);
		assert_int_equal(file->in_snapshot, files[i].in_snapshot);
		assert_int_equal(file->bytes, 4096 + 32);
		assert_int_equal(fstatat(f->gc->root_fd, path, &st, 0), 0);
		assert_int_equal(file->id.inode, st.st_ino);
	}
	for (size_t i = 1; i < w.l.n; i++)
		assert_true(
		    strcmp(w.l.files[i - 1].path, w.l.files[i].path) < 0);
	listing_release(&w.l);
}

static void other_names_are_not(void **state)
{
	static const char *const names[] = { "a.img.tmp_fidx", "a.fidx.tmp_xy",
		".hidden.fidx", "a.blob", "afidx", "a.fidx~" };
	struct gcfix *f = *state;
	struct walk w = { .l = LISTING_INIT };

	for (size_t i = 0; i < TEST_COUNT(names); i++)
		put(f, SNAPSHOT, names[i]);
	put(f, ".hidden/" SNAPSHOT, "a.img.fidx");
	put(f, "host/.hidden", "a.img.fidx");
	put(f, ".chunks/0000", "a.img.fidx");
	put(f, "lost+found", "a.img.fidx");
	assert_ok(walk(f, &w), &f->e);
	assert_int_equal(w.l.n, 0);
	assert_int_equal(w.findings.fatal + w.findings.warnings, 0);
	/* Further down it is a place like any other. */
	put(f, "host/lost+found", "a.img.fidx");
	assert_ok(walk(f, &w), &f->e);
	assert_int_equal(w.l.n, 1);
	listing_release(&w.l);
}

static void a_manifest_is_noted(void **state)
{
	struct gcfix *f = *state;
	struct walk w = { .l = LISTING_INIT };

	put(f, SNAPSHOT, "a.fidx");
	put(f, SNAPSHOT, "z.fidx");
	put(f, SNAPSHOT, "index.json.blob");
	put(f, "host/b/" GCFIX_T0_NAME, "a.fidx");
	assert_ok(walk(f, &w), &f->e);
	assert_int_equal(w.l.n, 3);
	assert_true(find(&w, SNAPSHOT "/a.fidx")->has_manifest);
	assert_true(find(&w, SNAPSHOT "/z.fidx")->has_manifest);
	assert_false(find(&w, "host/b/" GCFIX_T0_NAME "/a.fidx")->has_manifest);
	listing_release(&w.l);
}

/* A link may hide what nobody may call garbage. */
static void links_in_the_tree_are_fatal(void **state)
{
	static const char *const fatal[] = { "host", "ns", "ct/a", "ns/x",
		"ns/y/vm", VM_0, VM_1_INDEX, "vm/1/x.didx", "x.fidx",
		"odd/x.fidx" };
	static const char *const harmless[] = { "vm/1/notes", "other",
		"vm/1/2027-01-15T08:00:01Z/link" };
	struct gcfix *f = *state;
	struct walk w = { .l = LISTING_INIT };
	char path[PATH_MAX];

	gcfix_mkdir(f, "vm/1/" GCFIX_T1_NAME);
	gcfix_mkdir(f, "ct");
	gcfix_mkdir(f, "odd");
	for (size_t i = 0; i < TEST_COUNT(fatal); i++) {
		if (strncmp(fatal[i], "ns/", 3) == 0)
			gcfix_mkdir(f, "ns/y");
		link_to(f, "/tmp", fatal[i]);
		assert_ok(walk(f, &w), &f->e);
		if (w.findings.fatal != 1)
			fail_msg("'%s'", fatal[i]);
		(void)snprintf(path, sizeof(path), "%s/%s'", f->path, fatal[i]);
		assert_int_equal(gcfix_said(f, path), 1);
		gcfix_unlink(f, fatal[i]);
	}
	for (size_t i = 0; i < TEST_COUNT(harmless); i++) {
		link_to(f, "/tmp", harmless[i]);
		assert_ok(walk(f, &w), &f->e);
		assert_int_equal(w.findings.fatal, 0);
		assert_int_equal(w.findings.warnings, 1);
		gcfix_unlink(f, harmless[i]);
	}
	listing_release(&w.l);
}

static void a_pipe_is_no_index(void **state)
{
	struct gcfix *f = *state;
	struct walk w = { .l = LISTING_INIT };

	gcfix_mkdir(f, SNAPSHOT);
	assert_int_equal(
	    mkfifoat(f->dir.fd, "store/" SNAPSHOT "/a.fidx", 0600), 0);
	assert_int_equal(
	    mkfifoat(f->dir.fd, "store/" SNAPSHOT "/pipe", 0600), 0);
	assert_ok(walk(f, &w), &f->e);
	assert_int_equal(w.findings.fatal, 1);
	assert_int_equal(w.l.n, 0);
	listing_release(&w.l);
}

/* Each of them is told, and the others are still listed. */
static void what_can_not_be_read_is_found(void **state)
{
	static const struct {
		uint64_t call;
		const char *name;
		int error;
		const char *said;
	} cases[] = {
		{ FAULT_BIT(FAULT_OPENAT), GCFIX_T0_NAME, EACCES, SNAPSHOT },
		{ FAULT_BIT(FAULT_OPENAT), "host", EIO, "/host'" },
		{ FAULT_BIT(FAULT_STATX), "a.fidx", EIO, SNAPSHOT },
		{ FAULT_BIT(FAULT_STATX), "host", EACCES, "store" },
	};
	struct gcfix *f = *state;
	struct walk w = { .l = LISTING_INIT };

	put(f, SNAPSHOT, "a.fidx");
	put(f, "ct/a/" GCFIX_T1_NAME, "b.fidx");
	put(f, "vm/a/" GCFIX_T1_NAME, "b.fidx");
	for (size_t i = 0; i < TEST_COUNT(cases); i++) {
		fault_install();
		fault_add(&(struct fault_rule){ .calls = cases[i].call,
		    .name = cases[i].name,
		    .what = FAULT_FAIL,
		    .at = 1,
		    .times = FAULT_FOREVER,
		    .error = cases[i].error });
		assert_ok(walk(f, &w), &f->e);
		assert_int_equal(w.findings.fatal, 1);
		assert_int_equal(gcfix_said(f, cases[i].said), 1);
		fault_uninstall();
		if (i == 3)
			break; /* the rest of the root is not looked at */
		assert_non_null(find(&w, "ct/a/" GCFIX_T1_NAME "/b.fidx"));
		assert_non_null(find(&w, "vm/a/" GCFIX_T1_NAME "/b.fidx"));
	}
	listing_release(&w.l);
}

/* readdir that fails in the middle is no end. */
static void a_directory_that_ends_early_is_found(void **state)
{
	struct gcfix *f = *state;
	struct walk w = { .l = LISTING_INIT };
	uint64_t fatal = 0;

	put(f, SNAPSHOT, "a.fidx");
	put(f, "ct/a/" GCFIX_T1_NAME, "b.fidx");
	for (uint64_t n = 1;; n++) {
		fault_install();
		fault_add(
		    &(struct fault_rule){ .calls = FAULT_BIT(FAULT_READDIR),
			.what = FAULT_FAIL,
			.at = n,
			.times = 1,
			.error = EIO });
		assert_ok(walk(f, &w), &f->e);
		if (fault_hits() == 0)
			break;
		assert_int_equal(w.findings.fatal, 1);
		fatal++;
		fault_uninstall();
	}
	assert_true(fatal > 10);
	assert_int_equal(w.findings.fatal, 0);
	assert_int_equal(w.l.n, 2);
	listing_release(&w.l);
}

static void lost_and_found_may_be_unreadable(void **state)
{
	struct gcfix *f = *state;
	struct walk w = { .l = LISTING_INIT };

	put(f, "host/a/lost+found", "a.fidx");
	gcfix_mkdir(f, "lost+found");
	fault_install();
	fault_add(&(struct fault_rule){ .calls = FAULT_BIT(FAULT_OPENAT),
	    .name = "lost+found",
	    .what = FAULT_FAIL,
	    .at = 1,
	    .times = FAULT_FOREVER,
	    .error = EACCES });
	assert_ok(walk(f, &w), &f->e);
	assert_int_equal(w.findings.fatal, 0);
	assert_int_equal(w.findings.warnings, 1);
	listing_release(&w.l);
}

/* What is within a snapshot set aside is told, and no more. */
static void an_ignored_snapshot_is_not_fatal(void **state)
{
	const struct backup_snapshot ignore = {
		.group = { .type = BACKUP_HOST, .id = "a" },
		.time = GCFIX_T0,
	};
	struct gcfix *f = *state;
	struct walk w = { .l = LISTING_INIT };

	put(f, SNAPSHOT, "a.fidx");
	put(f, "host/a/" GCFIX_T1_NAME, "a.fidx");
	f->opts.ignore = &ignore;
	f->opts.ignore_n = 1;
	fault_install();
	fault_add(&(struct fault_rule){ .calls = FAULT_BIT(FAULT_STATX),
	    .name = "a.fidx",
	    .what = FAULT_FAIL,
	    .at = 1,
	    .times = FAULT_FOREVER,
	    .error = EIO });
	assert_ok(walk(f, &w), &f->e);
	assert_int_equal(w.findings.fatal, 1);
	assert_int_equal(w.findings.warnings, 1);
	listing_release(&w.l);
}

/* Removed between readdir and the look at it: whoever lists must know. */
struct vanish {
	struct gcfix *f;
	const char *name; /* as the call has it */
	const char *path; /* what goes then */
	bool dir;
	bool open; /* when it is opened, behind the look at it */
};

static void on_call(void *ctx, struct fault_event *ev)
{
	struct vanish *v = ctx;

	if (v->path == NULL || ev->name == NULL ||
	    (v->open && ev->call != FAULT_OPENAT) ||
	    strcmp(ev->name, v->name) != 0)
		return;
	if (v->dir) {
		gcfix_remove_tree(v->f, v->path);
	} else {
		gcfix_unlink(v->f, v->path);
	}
	v->path = NULL;
}

static void what_vanishes_is_counted(void **state)
{
	static const struct vanish cases[] = {
		{ .name = "a.fidx", .path = SNAPSHOT "/a.fidx" },
		{ .name = GCFIX_T0_NAME, .path = SNAPSHOT, .dir = true },
		{ .name = "a", .path = "host/a", .dir = true },
		{ .name = "host", .path = "host", .dir = true },
		{ .name = GCFIX_T0_NAME,
		    .path = SNAPSHOT,
		    .dir = true,
		    .open = true },
		{ .name = "a", .path = "host/a", .dir = true, .open = true },
		{ .name = "b.blob", .path = SNAPSHOT "/b.blob" },
		{ .name = "a.tmp_fidx", .path = SNAPSHOT "/a.tmp_fidx" },
	};
	struct gcfix *f = *state;
	struct walk w = { .l = LISTING_INIT };

	for (size_t i = 0; i < TEST_COUNT(cases); i++) {
		struct vanish v = cases[i];
		const struct fault_hooks hooks = { .before = on_call,
			.ctx = &v };

		put(f, SNAPSHOT, "a.fidx");
		put(f, SNAPSHOT, "b.blob");
		put(f, SNAPSHOT, "a.tmp_fidx");
		put(f, SNAPSHOT, "c.fidx");
		v.f = f;
		fault_install();
		fault_set_hooks(&hooks);
		assert_ok(walk(f, &w), &f->e);
		fault_uninstall();
		assert_null(v.path);
		/* Temporary files in a snapshot come and go. */
		assert_int_equal(w.l.vanished, i < 6);
		assert_int_equal(w.findings.fatal, 0);
	}
	listing_release(&w.l);
}

static void it_does_not_go_down_for_ever(void **state)
{
	struct gcfix *f = *state;
	struct walk w = { .l = LISTING_INIT };
	char path[PATH_MAX] = "d";

	for (unsigned i = 1; i < LISTING_DEPTH_MAX; i++)
		(void)snprintf(
		    path + strlen(path), sizeof(path) - strlen(path), "/d");
	put(f, path, "a.fidx");
	assert_ok(walk(f, &w), &f->e);
	assert_int_equal(w.l.n, 1);
	assert_int_equal(w.findings.fatal, 0);
	(void)snprintf(path + strlen(path), sizeof(path) - strlen(path), "/d");
	put(f, path, "a.fidx");
	assert_ok(walk(f, &w), &f->e);
	assert_int_equal(w.l.n, 1);
	assert_int_equal(w.findings.fatal, 1);
	listing_release(&w.l);
}

static void it_stops_when_told(void **state)
{
	struct gcfix *f = *state;
	struct walk w = { .l = LISTING_INIT };

	f->task.stop = 2;
	assert_err(walk(f, &w), &f->e, ERR_CANCELLED, "SIGINT");
	f->task.stop = 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		GCFIX_TEST(every_index_file_is_found),
		GCFIX_TEST(other_names_are_not),
		GCFIX_TEST(a_manifest_is_noted),
		GCFIX_TEST(links_in_the_tree_are_fatal),
		GCFIX_TEST(a_pipe_is_no_index),
		GCFIX_TEST(what_can_not_be_read_is_found),
		GCFIX_TEST(a_directory_that_ends_early_is_found),
		GCFIX_TEST(lost_and_found_may_be_unreadable),
		GCFIX_TEST(an_ignored_snapshot_is_not_fatal),
		GCFIX_TEST(what_vanishes_is_counted),
		GCFIX_TEST(it_does_not_go_down_for_ever),
		GCFIX_TEST(it_stops_when_told),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
