/* SPDX-License-Identifier: MIT */
/*
 * Restores over what exists: what stays, what is replaced, and what is never
 * written through.
 */
#include "index/tree_restore.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/rowfix.h"

#define ROOT CATALOG_ROOT_ID

static const struct tree_restore_opts never = { .threads = 2 };
static const struct tree_restore_opts changed = { .overwrite =
						      TREE_OVERWRITE_CHANGED };
static const struct tree_restore_opts always = { .overwrite =
						     TREE_OVERWRITE_ALWAYS };

/* The target, and a directory beside it that nothing may get into. */
static void make_places(struct rowfix *t)
{
	assert_int_equal(mkdirat(t->f->dir.fd, "target", 0700), 0);
	assert_int_equal(mkdirat(t->f->dir.fd, "outside", 0700), 0);
	tmpdir_put_str(t->f->dir.fd, "outside/victim", "precious");
	t->target = openat(t->f->dir.fd, "target", O_RDONLY | O_CLOEXEC);
	assert_true(t->target >= 0);
}

static void check_outside(struct rowfix *t)
{
	char *text = tmpdir_get(t->f->dir.fd, "outside/victim", NULL);
	int fd = openat(t->f->dir.fd, "outside", O_RDONLY | O_CLOEXEC);

	assert_non_null(text);
	assert_string_equal(text, "precious");
	free(text);
	assert_int_equal(tmpdir_count(fd, ""), 1);
	(void)close(fd);
}

static void link_outside(struct rowfix *t, const char *to, const char *name)
{
	char path[PATH_MAX + 32];

	(void)snprintf(path, sizeof(path), "%s/%s", t->f->dir.path, to);
	assert_int_equal(symlinkat(path, t->target, name), 0);
}

/* d/a, b -> a, f (FIFO) */
static void make_tree(struct rowfix *t)
{
	int64_t d = rowfix_dir(t, ROOT, "d", 0751);
	struct catalog_entry row =
	    rowfix_row(t, ROOT, "b", CATALOG_SYMLINK, 0777);

	rowfix_text(t, d, "a", "from the backup");
	rowfix_target(&row, "a");
	rowfix_add(t, &row);
	row = rowfix_row(t, ROOT, "f", CATALOG_FIFO, 0600);
	rowfix_add(t, &row);
	rowfix_commit(t, "root.tree");
	make_places(t);
}

static void never_leaves_alone(void **state)
{
	struct rowfix *t = *state;

	make_tree(t);
	assert_int_equal(mkdirat(t->target, "d", 0700), 0);
	tmpdir_put_str(t->target, "d/a", "mine");
	tmpdir_put_str(t->target, "b", "mine, too");
	assert_ok(rowfix_restore(t, &never), &t->f->e);
	assert_int_equal(t->result.skipped, 2);
	assert_int_equal(t->result.entries, 1);
	assert_int_equal(restorefix_said(t->f, "W 'target/d/a': exists"), 1);
	assert_int_equal(restorefix_said(t->f, "W 'target/b': exists"), 1);
	rowfix_assert_text(t, "d/a", "mine");
	rowfix_assert_text(t, "b", "mine, too");
	assert_int_equal(rowfix_stat(t, "d").st_mode & ALLPERMS, 0700);
	/* What is missing comes. */
	assert_int_equal(unlinkat(t->target, "d/a", 0), 0);
	assert_ok(rowfix_restore(t, &never), &t->f->e);
	assert_int_equal(t->result.skipped, 2);
	rowfix_assert_text(t, "d/a", "from the backup");
}

/* A million of them are not a million lines. */
static void counts_many(void **state)
{
	struct rowfix *t = *state;
	char name[16];

	for (unsigned i = 0; i < 250; i++) {
		(void)snprintf(name, sizeof(name), "f%u", i);
		rowfix_text(t, ROOT, name, name);
	}
	rowfix_commit(t, "root.tree");
	assert_ok(rowfix_restore(t, &never), &t->f->e);
	assert_int_equal(t->result.entries, 250);
	assert_ok(rowfix_restore(t, &never), &t->f->e);
	assert_int_equal(t->result.skipped, 250);
	assert_int_equal(t->result.entries, 0);
	assert_int_equal(restorefix_said(t->f, ": exists"), 100);
	assert_int_equal(restorefix_said(t->f, "they are only counted"), 1);
}

static void always_replaces(void **state)
{
	struct rowfix *t = *state;
	char old[32] = "";
	struct stat st;
	int fd = -1;

	make_tree(t);
	assert_int_equal(mkdirat(t->target, "d", 0700), 0);
	tmpdir_put_str(t->target, "d/a", "mine");
	assert_int_equal(linkat(t->target, "d/a", t->target, "other", 0), 0);
	assert_int_equal(mkdirat(t->target, "f", 0700), 0);
	fd = openat(t->target, "d/a", O_RDONLY | O_CLOEXEC);
	assert_ok(rowfix_restore(t, &always), &t->f->e);
	assert_int_equal(t->result.skipped + t->result.failed, 0);
	rowfix_assert_text(t, "d/a", "from the backup");
	st = rowfix_stat(t, "d");
	assert_int_equal(st.st_mode & ALLPERMS, 0751);
	assert_int_equal(st.st_mtim.tv_sec, ROWFIX_MTIME);
	st = rowfix_stat(t, "f"); /* an empty directory was there */
	assert_true(S_ISFIFO(st.st_mode));
	/* Who had it open, or under another name, keeps it. */
	assert_int_equal(read(fd, old, sizeof(old)), 4);
	(void)close(fd);
	assert_string_equal(old, "mine");
	rowfix_assert_text(t, "other", "mine");
	rowfix_assert_clean(t);
}

static void full_directories_stay(void **state)
{
	struct rowfix *t = *state;

	make_tree(t);
	assert_int_equal(mkdirat(t->target, "b", 0700), 0);
	tmpdir_put_str(t->target, "b/mine", "mine");
	assert_int_equal(mkdirat(t->target, "d", 0700), 0);
	assert_int_equal(mkdirat(t->target, "d/a", 0700), 0);
	tmpdir_put_str(t->target, "d/a/mine", "mine");
	assert_ok(rowfix_restore(t, &always), &t->f->e);
	assert_int_equal(t->result.failed, 2);
	assert_int_equal(restorefix_said(t->f,
			     "'target/b': remove the directory in its place: "
			     "Directory not empty"),
	    1);
	rowfix_assert_text(t, "b/mine", "mine");
	rowfix_assert_text(t, "d/a/mine", "mine");
	rowfix_assert_clean(t);
}

static void changed_looks_first(void **state)
{
	struct rowfix *t = *state;
	struct stat before;
	struct stat st;
	const struct timespec later[2] = { { 5, 0 }, { 5, 0 } };

	make_tree(t);
	assert_ok(rowfix_restore(t, &changed), &t->f->e);
	assert_int_equal(t->result.entries, 4);
	before = rowfix_stat(t, "d/a");
	assert_int_equal(fchmodat(t->target, "d/a", 0777, 0), 0);
	assert_ok(rowfix_restore(t, &changed), &t->f->e);
	assert_int_equal(t->result.entries, 0);
	assert_int_equal(t->result.bytes, 0);
	assert_int_equal(t->result.equal, 3);
	assert_int_equal(t->result.metadata_failed, 0);
	st = rowfix_stat(t, "d/a");
	assert_int_equal(st.st_ino, before.st_ino);
	assert_int_equal(st.st_mode & ALLPERMS, 0644);
	/* Time, size, kind. */
	assert_int_equal(utimensat(t->target, "d/a", later, 0), 0);
	assert_ok(rowfix_restore(t, &changed), &t->f->e);
	assert_int_equal(t->result.entries, 1);
	assert_int_not_equal(rowfix_stat(t, "d/a").st_ino, before.st_ino);
	tmpdir_put_str(t->target, "d/a", "shorter");
	assert_int_equal(unlinkat(t->target, "f", 0), 0);
	tmpdir_put_str(t->target, "f", "");
	assert_int_equal(unlinkat(t->target, "b", 0), 0);
	assert_int_equal(symlinkat("c", t->target, "b"), 0);
	assert_ok(rowfix_restore(t, &changed), &t->f->e);
	assert_int_equal(t->result.entries, 3);
	rowfix_assert_text(t, "d/a", "from the backup");
}

/* A file that somebody made look like one that becomes setuid root. */
static void trusts_no_setuid(void **state)
{
	struct rowfix *t = *state;
	struct catalog_entry row =
	    rowfix_row(t, ROOT, "su", CATALOG_FILE, 04755);
	struct timespec times[2] = { { 0, UTIME_OMIT }, { 0, 0 } };

	rowfix_content(t, &row, "good", 4);
	rowfix_add(t, &row);
	rowfix_commit(t, "root.tree");
	make_places(t);
	tmpdir_put_str(t->target, "su", "evil");
	times[1].tv_sec = row.mtime_s;
	times[1].tv_nsec = row.mtime_ns;
	assert_int_equal(utimensat(t->target, "su", times, 0), 0);
	assert_ok(rowfix_restore(t, &changed), &t->f->e);
	rowfix_assert_text(t, "su", "good");
	assert_int_equal(rowfix_stat(t, "su").st_mode & ALLPERMS, 04755);
}

/* Another name of a file that is somebody else's affair. */
static void gives_no_file_away(void **state)
{
	struct rowfix *t = *state;
	struct catalog_entry row = rowfix_row(t, ROOT, "a", CATALOG_FILE, 0666);
	struct timespec times[2] = { { 0, UTIME_OMIT }, { 0, 0 } };
	struct stat st;

	rowfix_content(t, &row, "precious", 8);
	rowfix_add(t, &row);
	rowfix_commit(t, "root.tree");
	make_places(t);
	times[1].tv_sec = row.mtime_s;
	times[1].tv_nsec = row.mtime_ns;
	assert_int_equal(
	    linkat(t->f->dir.fd, "outside/victim", t->target, "a", 0), 0);
	assert_int_equal(
	    utimensat(t->f->dir.fd, "outside/victim", times, 0), 0);
	assert_int_equal(fchmodat(t->f->dir.fd, "outside/victim", 0600, 0), 0);
	assert_ok(rowfix_restore(t, &changed), &t->f->e);
	assert_int_equal(rowfix_stat(t, "a").st_mode & ALLPERMS, 0666);
	assert_int_equal(fstatat(t->f->dir.fd, "outside/victim", &st, 0), 0);
	assert_int_equal(st.st_mode & ALLPERMS, 0600);
	assert_int_equal(st.st_nlink, 1);
}

/* Links in the target, to a file and to directories, for each way. */
static void follows_no_link(void **state)
{
	static const struct tree_restore_opts *const ways[] = { &never,
		&changed, &always };
	struct rowfix *t = *state;
	struct stat st;

	make_tree(t);
	for (size_t i = 0; i < TEST_COUNT(ways); i++) {
		link_outside(t, "outside", "d");
		link_outside(t, "outside/victim", "f");
		assert_ok(rowfix_restore(t, ways[i]), &t->f->e);
		check_outside(t);
		st = rowfix_stat(t, "d");
		if (ways[i] == &never) {
			assert_true(S_ISLNK(st.st_mode));
			assert_int_equal(t->result.skipped, 2);
			assert_int_equal(restorefix_said(t->f,
					     "'target/d': exists and is no "
					     "directory"),
			    1);
			assert_int_equal(unlinkat(t->target, "d", 0), 0);
		} else {
			assert_true(S_ISDIR(st.st_mode));
			rowfix_assert_text(t, "d/a", "from the backup");
			assert_int_equal(unlinkat(t->target, "d/a", 0), 0);
			assert_int_equal(
			    unlinkat(t->target, "d", AT_REMOVEDIR), 0);
		}
		assert_int_equal(unlinkat(t->target, "f", 0), 0);
		assert_int_equal(unlinkat(t->target, "b", 0), 0);
	}
}

/* A directory that becomes a link while the restore is at work. */
static void swap_dir(void *ctx, struct fault_event *ev)
{
	struct rowfix *t = ctx;

	/* Its temporary files are made before it. */
	if (ev->call == FAULT_CREATE && (ev->flags & O_TMPFILE) == O_TMPFILE &&
	    renameat(t->target, "d", t->target, "moved") == 0)
		link_outside(t, "outside", "d");
}

static void is_not_led_out(void **state)
{
	struct rowfix *t = *state;
	int rc = 0;

	make_tree(t);
	fault_install();
	fault_set_hooks(&(struct fault_hooks){ .before = swap_dir, .ctx = t });
	rc = rowfix_restore(t, &(struct tree_restore_opts){ .threads = 1 });
	fault_uninstall();
	assert_ok(rc, &t->f->e);
	assert_true(rowfix_exists(t, "moved"));
	check_outside(t);
}

struct without {
	int tmpfile;   /* O_TMPFILE fails with this */
	int noreplace; /* 0, or RENAME_NOREPLACE does */
};

static void fail_both(void *ctx, struct fault_event *ev)
{
	const struct without *w = ctx;

	if (ev->call == FAULT_CREATE && (ev->flags & O_TMPFILE) == O_TMPFILE)
		ev->error = w->tmpfile;
	else if (ev->call == FAULT_RENAMEAT2 && ev->flags != 0 &&
	    w->noreplace != 0)
		ev->error = w->noreplace;
	else
		return;
	ev->skip = true;
	ev->result = -1;
}

/* File systems without nameless files, and without RENAME_NOREPLACE. */
static void works_with_names(void **state)
{
	static struct without cases[] = { { EOPNOTSUPP, 0 }, { EISDIR, EINVAL },
		{ ENOENT, ENOSYS } };
	struct rowfix *t = *state;

	make_tree(t);
	for (size_t i = 0; i < TEST_COUNT(cases); i++) {
		int rc = 0;

		fault_install();
		fault_set_hooks(&(struct fault_hooks){
		    .before = fail_both, .ctx = &cases[i] });
		(void)unlinkat(t->target, "d/a", 0);
		rc = rowfix_restore(t, &never);
		fault_uninstall();
		assert_ok(rc, &t->f->e);
		rowfix_assert_text(t, "d/a", "from the backup");
		assert_int_equal(rowfix_stat(t, "d/a").st_nlink, 1);
		rowfix_assert_clean(t);
		/* And over what is there. */
		fault_install();
		fault_set_hooks(&(struct fault_hooks){
		    .before = fail_both, .ctx = &cases[i] });
		tmpdir_put_str(t->target, "d/a", "mine");
		rc = rowfix_restore(t, &always);
		fault_uninstall();
		assert_ok(rc, &t->f->e);
		rowfix_assert_text(t, "d/a", "from the backup");
		rowfix_assert_clean(t);
	}
}

/* -- Flags that forbid it. -- */

static void set_flags(struct rowfix *t, const char *path, int flags)
{
	int fd = openat(t->target, path, O_RDONLY | O_CLOEXEC);

	(void)ioctl(fd, FS_IOC_SETFLAGS, &flags);
	(void)close(fd);
}

static int get_flags(struct rowfix *t, const char *path)
{
	int fd = openat(t->target, path, O_RDONLY | O_CLOEXEC);
	int flags = 0;

	(void)ioctl(fd, FS_IOC_GETFLAGS, &flags);
	(void)close(fd);
	return flags & (FS_IMMUTABLE_FL | FS_APPEND_FL);
}

/* d/, d/a, d/b with such flags, and what becomes of them. */
struct frozen {
	int rc;
	int flags[3];
	char *text;
};

static const char *const frozen_paths[] = { "d", "d/a", "d/b" };

/* The scratch directory could not be removed with them. */
static struct frozen restore_frozen(
    struct rowfix *t, const struct tree_restore_opts *opts, const char *other)
{
	struct frozen f;

	f.rc = rowfix_restore(t, opts);
	for (size_t i = 0; i < 3; i++) {
		f.flags[i] = get_flags(t, frozen_paths[i]);
		set_flags(t, frozen_paths[i], 0);
	}
	f.text = tmpdir_get(t->target, other, NULL);
	return f;
}

static void replaces_what_is_frozen(void **state)
{
	struct rowfix *t = *state;
	struct catalog_entry row = rowfix_row(t, ROOT, "d", CATALOG_DIR, 0755);
	struct frozen f;
	int64_t d = row.id;
	struct stat before;

	row.has |= CATALOG_HAS_FLAGS;
	row.flags = FS_IMMUTABLE_FL;
	rowfix_add(t, &row);
	row = rowfix_row(t, d, "a", CATALOG_FILE, 0644);
	row.has |= CATALOG_HAS_FLAGS;
	row.flags = FS_IMMUTABLE_FL;
	rowfix_content(t, &row, "ours", 4);
	rowfix_add(t, &row);
	row = rowfix_row(t, d, "b", CATALOG_FILE, 0644);
	row.has |= CATALOG_HAS_FLAGS;
	row.flags = FS_APPEND_FL;
	rowfix_content(t, &row, "ours", 4);
	rowfix_add(t, &row);
	rowfix_commit(t, "root.tree");

	make_places(t);
	f = restore_frozen(t, &never, "d/a");
	free(f.text);
	assert_ok(f.rc, &t->f->e);
	if (t->result.metadata_failed > 0)
		skip(); /* not root, or not on this file system */
	assert_int_equal(f.flags[1], FS_IMMUTABLE_FL);

	/* A second name of what is replaced stays as it is. */
	before = rowfix_stat(t, "d/a");
	assert_int_equal(linkat(t->target, "d/a", t->target, "kept", 0), 0);
	set_flags(t, "d/a", FS_IMMUTABLE_FL);
	set_flags(t, "d/b", FS_APPEND_FL);
	set_flags(t, "d", FS_IMMUTABLE_FL);
	f = restore_frozen(t, &always, "d/a");
	assert_int_equal(get_flags(t, "kept"), FS_IMMUTABLE_FL);
	set_flags(t, "kept", 0);
	assert_ok(f.rc, &t->f->e);
	assert_int_equal(t->result.failed + t->result.metadata_failed, 0);
	assert_int_equal(t->result.entries, 2);
	assert_string_equal(f.text, "ours");
	free(f.text);
	assert_int_equal(f.flags[0], FS_IMMUTABLE_FL);
	assert_int_equal(f.flags[1], FS_IMMUTABLE_FL);
	assert_int_equal(f.flags[2], FS_APPEND_FL);
	assert_true(rowfix_stat(t, "d/a").st_ino != before.st_ino);

	/* One that comes to no end leaves the directory's. */
	set_flags(t, "d", FS_IMMUTABLE_FL);
	fault_install();
	fault_add(&(struct fault_rule){ .calls = FAULT_BIT(FAULT_CREATE),
	    .what = FAULT_FAIL,
	    .at = 1,
	    .times = FAULT_FOREVER,
	    .error = ENOSPC });
	f = restore_frozen(t, &always, "d/a");
	fault_uninstall();
	free(f.text);
	assert_err(f.rc, &t->f->e, ERR_SYS, "No space");
	assert_int_equal(f.flags[0], FS_IMMUTABLE_FL);

	/* Who replaces nothing takes no flag away. */
	set_flags(t, "d/a", FS_IMMUTABLE_FL);
	set_flags(t, "d/b", 0);
	f = restore_frozen(t, &never, "d/a");
	free(f.text);
	assert_ok(f.rc, &t->f->e);
	assert_int_equal(t->result.skipped, 2);
	assert_int_equal(f.flags[1], FS_IMMUTABLE_FL);
}

/* -- Groups of hard links. -- */

static void add_group(struct rowfix *t, const char *const *names, size_t n,
    enum catalog_kind kind)
{
	struct catalog_entry row = rowfix_row(t, ROOT, names[0], kind, 0640);

	row.has |= CATALOG_HAS_LINK;
	row.link = row.id;
	if (kind == CATALOG_FILE)
		rowfix_content(t, &row, "linked", 6);
	for (size_t i = 0; i < n; i++) {
		row.name.p = (const uint8_t *)names[i];
		row.name.n = strlen(names[i]);
		rowfix_add(t, &row);
		row.id = t->next_id++;
	}
}

/* No name is lost because one before it can not be made. */
static void goes_on_with_the_next_name(void **state)
{
	static const char *const files[] = { "f-no1", "f-no2", "f-yes1",
		"f-yes2", "f-yes3" };
	static const char *const fifos[] = { "p-no1", "p-yes1", "p-yes2" };
	static const char *const others[] = { "z1", "z2" };
	struct rowfix *t = *state;
	struct stat st;
	int rc = 0;

	add_group(t, files, TEST_COUNT(files), CATALOG_FILE);
	add_group(t, fifos, TEST_COUNT(fifos), CATALOG_FIFO);
	add_group(t, others, TEST_COUNT(others), CATALOG_FILE);
	rowfix_commit(t, "root.tree");
	fault_install();
	fault_add(&(struct fault_rule){
	    .calls = FAULT_BIT(FAULT_LINKAT) | FAULT_BIT(FAULT_MKNODAT),
	    .name = "-no",
	    .what = FAULT_FAIL,
	    .at = 1,
	    .times = FAULT_FOREVER,
	    .error = EACCES });
	rc = rowfix_restore(t, &never);
	fault_uninstall();
	assert_ok(rc, &t->f->e);
	assert_int_equal(t->result.failed, 3);
	assert_int_equal(t->result.entries, 7);
	st = rowfix_stat(t, "f-yes1");
	assert_int_equal(st.st_nlink, 3);
	assert_int_equal(st.st_ino, rowfix_stat(t, "f-yes3").st_ino);
	rowfix_assert_text(t, "f-yes2", "linked");
	assert_int_equal(rowfix_stat(t, "p-yes2").st_nlink, 2);
	assert_true(S_ISFIFO(rowfix_stat(t, "p-yes1").st_mode));
	assert_int_equal(rowfix_stat(t, "z2").st_nlink, 2);
	rowfix_assert_clean(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ROWFIX_TEST(never_leaves_alone),
		ROWFIX_TEST(counts_many),
		ROWFIX_TEST(always_replaces),
		ROWFIX_TEST(full_directories_stay),
		ROWFIX_TEST(changed_looks_first),
		ROWFIX_TEST(trusts_no_setuid),
		ROWFIX_TEST(gives_no_file_away),
		ROWFIX_TEST(follows_no_link),
		ROWFIX_TEST(is_not_led_out),
		ROWFIX_TEST(works_with_names),
		ROWFIX_TEST(replaces_what_is_frozen),
		ROWFIX_TEST(goes_on_with_the_next_name),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
