/* SPDX-License-Identifier: MIT */
#include "datastore/tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/support/dsfix.h"

#define T1 "2026-07-14T08:30:00Z"
#define T2 "2026-07-15T08:30:00Z"
#define T3 "2026-07-16T08:30:00Z"

static const struct backup_ns root_ns = { .name = "" };

static struct backup_ns ns_of(const char *text)
{
	struct backup_ns ns;
	struct err e = ERR_INIT;

	assert_ok(backup_ns_parse(text, &ns, &e), &e);
	return ns;
}

static struct backup_group group_of(const char *ns_text, const char *text)
{
	struct backup_ns ns = ns_of(ns_text);
	struct backup_group g;
	struct err e = ERR_INIT;

	assert_ok(backup_group_parse(&ns, text, &g, &e), &e);
	return g;
}

/* Names joined with blanks, to compare a list at one glance. */
static void assert_namespaces(struct dsfix *f, const char *want)
{
	struct tree_namespaces l = { .items = NULL };
	char text[1024] = "";

	assert_ok(tree_namespaces(f->ds, &l, &f->e), &f->e);
	for (size_t i = 0; i < l.n; i++) {
		size_t len = strlen(text);

		(void)snprintf(
		    text + len, sizeof(text) - len, "[%s]", l.items[i].name);
	}
	tree_namespaces_release(&l);
	assert_null(l.items);
	assert_string_equal(text, want);
}

static void assert_groups(struct dsfix *f, const char *ns, const char *want)
{
	struct backup_ns in = ns_of(ns);
	struct tree_groups l = { .items = NULL };
	char text[1024] = "";

	assert_ok(tree_groups(f->ds, &in, &l, &f->e), &f->e);
	for (size_t i = 0; i < l.n; i++) {
		char name[BACKUP_PATH_SIZE];
		size_t len = strlen(text);

		assert_string_equal(l.items[i].ns.name, ns);
		backup_group_path(&l.items[i], name);
		(void)snprintf(text + len, sizeof(text) - len, "[%s]", name);
	}
	tree_groups_release(&l);
	assert_null(l.items);
	assert_string_equal(text, want);
}

/* TIME with ! finished, p protected. */
static void assert_snapshots(struct dsfix *f, const char *want)
{
	struct backup_group g = group_of("", "vm/100");
	struct tree_snapshots l = { .items = NULL };
	char text[1024] = "";

	assert_ok(tree_snapshots(f->ds, &g, &l, &f->e), &f->e);
	for (size_t i = 0; i < l.n; i++) {
		char name[BACKUP_PATH_SIZE];
		size_t len = strlen(text);

		backup_snapshot_path(&l.items[i].id, name);
		(void)snprintf(text + len, sizeof(text) - len, "[%s%s%s]",
		    strrchr(name, '/') + 1, l.items[i].finished ? "!" : "",
		    l.items[i].is_protected ? "p" : "");
	}
	tree_snapshots_release(&l);
	assert_null(l.items);
	assert_string_equal(text, want);
}

static int setup(void **state)
{
	struct dsfix *f = NULL;

	if (dsfix_setup(state) < 0)
		return -1;
	f = *state;
	return dsfix_open(f, DATASTORE_WRITE) < 0 ? -1 : 0;
}

static void test_namespaces(void **state)
{
	struct dsfix *f = *state;

	assert_namespaces(f, "[]");
	dsfix_mkdir(f, "ns");
	assert_namespaces(f, "[]");
	dsfix_mkdir(f, "ns/prod/ns/db/ns/a");
	dsfix_mkdir(f, "ns/prod/ns/app");
	dsfix_mkdir(f, "ns/dev");
	dsfix_mkdir(f, "ns/prod-2");
	/* What is no namespace. */
	dsfix_mkdir(f, "ns/.hidden");
	dsfix_mkdir(f, "ns/odd name");
	dsfix_put(f, "ns/file", "");
	dsfix_mkdir(f, "ns/dev/prod");
	dsfix_mkdir(f, "vm/ns/x");
	assert_namespaces(
	    f, "[][dev][prod][prod-2][prod/app][prod/db][prod/db/a]");
}

static void test_namespaces_deep(void **state)
{
	struct dsfix *f = *state;

	dsfix_mkdir(
	    f, "ns/1/ns/2/ns/3/ns/4/ns/5/ns/6/ns/7/ns/too-deep/ns/deeper");
	assert_namespaces(f,
	    "[][1][1/2][1/2/3][1/2/3/4][1/2/3/4/5][1/2/3/4/5/6]"
	    "[1/2/3/4/5/6/7]");
}

static void test_groups(void **state)
{
	struct dsfix *f = *state;
	struct tree_groups l = { .items = NULL };
	struct backup_ns ns = ns_of("x");

	assert_groups(f, "", "");
	dsfix_mkdir(f, "vm/100");
	dsfix_mkdir(f, "vm/99");
	dsfix_mkdir(f, "host/elsa");
	dsfix_mkdir(f, "host/7");
	dsfix_mkdir(f, "ct/1");
	dsfix_mkdir(f, "qemu/1");
	dsfix_mkdir(f, "vm/.x");
	dsfix_mkdir(f, "vm/a b");
	dsfix_put(f, "vm/file", "");
	dsfix_mkdir(f, "ns/a/host/b");
	assert_groups(f, "", "[ct/1][host/7][host/elsa][vm/99][vm/100]");
	assert_groups(f, "a", "[ns/a/host/b]");
	assert_err(tree_groups(f->ds, &ns, &l, &f->e), &f->e, ERR_NOTFOUND, "");
	assert_string_equal(f->e.msg, "namespace 'x' does not exist");
}

static void test_snapshots(void **state)
{
	struct dsfix *f = *state;
	struct tree_snapshots l = { .items = NULL };
	struct backup_group g = group_of("", "vm/101");

	dsfix_mkdir(f, "vm/100");
	assert_snapshots(f, "");
	dsfix_mkdir(f, "vm/100/" T3);
	dsfix_mkdir(f, "vm/100/" T1);
	dsfix_put(f, "vm/100/" T1 "/index.json.blob", "x");
	dsfix_mkdir(f, "vm/100/" T2);
	dsfix_put(f, "vm/100/" T2 "/index.json.blob", "");
	dsfix_put(f, "vm/100/" T2 "/.protected", "");
	dsfix_mkdir(f, "vm/100/1970-01-01T00:00:00Z");
	dsfix_mkdir(f, "vm/100/2026-07-15");
	dsfix_mkdir(f, "vm/100/latest");
	dsfix_put(f, "vm/100/owner", "root@pam\n");
	dsfix_put(f, "vm/100/2026-07-17T08:30:00Z", "");
	assert_snapshots(f, "[" T1 "!][" T2 "!p][" T3 "]");
	assert_err(
	    tree_snapshots(f->ds, &g, &l, &f->e), &f->e, ERR_NOTFOUND, "");
	assert_string_equal(f->e.msg, "group 'vm/101' does not exist");
	g = group_of("prod", "vm/101");
	assert_err(
	    tree_snapshots(f->ds, &g, &l, &f->e), &f->e, ERR_NOTFOUND, "");
	assert_string_equal(f->e.msg, "group '[prod] vm/101' does not exist");
}

/* Each link is found by the listing that would have gone through it. */
static void test_links(void **state)
{
	static const struct {
		const char *at;
		const char *message;
	} rows[] = {
		{ "ns", "directory 'ns': 'ns' is a symbolic link or a file" },
		{ "ns/a", "'ns/a' is a symbolic link, want a directory" },
		{ "ns/a/ns/b", "'ns/a/ns/b' is a symbolic link" },
		{ "vm", "directory 'vm': 'vm' is a symbolic link or a file" },
		{ "vm/100", "'vm/100' is a symbolic link, want a directory" },
		{ "ns/a/vm", "directory 'ns/a/vm': 'vm' is a symbolic link" },
		{ "ns/a/vm/100", "'ns/a/vm/100' is a symbolic link" },
		{ "ns/a/vm/100/" T2,
		    "'ns/a/vm/100/" T2 "' is a symbolic link" },
	};
	struct dsfix *f = *state;
	struct tree_namespaces namespaces = { .items = NULL };
	struct tree_groups groups = { .items = NULL };
	struct tree_snapshots snapshots = { .items = NULL };
	struct backup_ns ns = ns_of("a");
	struct backup_group g = group_of("a", "vm/100");
	int fd = -1;

	for (size_t i = 0; i < TEST_COUNT(rows); i++) {
		char path[DSFIX_NAME_SIZE];
		const char *at = rows[i].at;

		/* The link leads to what would be right. */
		dsfix_mkdir(f, at);
		dsfix_move(f, dsfix_name(at, path), "moved");
		dsfix_symlink(f, "/proc/self", at);
		if (strcmp(at, "vm") == 0 || strcmp(at, "vm/100") == 0) {
			assert_err(tree_groups(f->ds, &root_ns, &groups, &f->e),
			    &f->e, ERR_CORRUPT, rows[i].message);
		} else if (strstr(at, "T08") != NULL) {
			assert_err(tree_snapshots(f->ds, &g, &snapshots, &f->e),
			    &f->e, ERR_CORRUPT, rows[i].message);
		} else if (strstr(at, "vm") != NULL) {
			assert_err(tree_groups(f->ds, &ns, &groups, &f->e),
			    &f->e, ERR_CORRUPT, rows[i].message);
			assert_err(tree_open_group(f->ds, &g, &fd, &f->e),
			    &f->e, ERR_CORRUPT, "is a symbolic link");
			assert_err(tree_make_group(f->ds, &g, &fd, &f->e),
			    &f->e, ERR_CORRUPT, "is a symbolic link");
		} else {
			assert_err(tree_namespaces(f->ds, &namespaces, &f->e),
			    &f->e, ERR_CORRUPT, rows[i].message);
		}
		dsfix_unlink(f, at);
		assert_int_equal(unlinkat(f->dir.fd, "moved", AT_REMOVEDIR), 0);
		/* Empty directories above it are as good as none. */
	}
}

/* A directory that is gone when its turn comes. */
static void vanish(void *ctx, struct fault_event *ev)
{
	const char *name = ctx;

	if (ev->call == FAULT_READDIR && ev->result_p != NULL) {
		const struct dirent *d = ev->result_p;

		if (strcmp(d->d_name, name) == 0)
			(void)unlinkat(ev->fd, name, AT_REMOVEDIR);
	}
}

static void test_vanishing(void **state)
{
	struct dsfix *f = *state;
	char name[32] = "2026-07-15T08:30:00Z";
	struct fault_hooks hooks = { .after = vanish, .ctx = name };

	dsfix_mkdir(f, "vm/100/" T1);
	dsfix_mkdir(f, "vm/100/" T2);
	dsfix_mkdir(f, "vm/101");
	dsfix_mkdir(f, "ns/a/ns/b");
	fault_install();
	fault_set_hooks(&hooks);
	assert_snapshots(f, "[" T1 "]");
	(void)snprintf(name, sizeof(name), "101");
	assert_groups(f, "", "[vm/100]");
	(void)snprintf(name, sizeof(name), "b");
	assert_namespaces(f, "[][a]");
}

/* What can not be read is no empty list. */
static void test_unreadable(void **state)
{
	static const uint64_t calls[] = { FAULT_BIT(FAULT_OPENAT),
		FAULT_BIT(FAULT_STATX), FAULT_BIT(FAULT_READDIR) };
	struct dsfix *f = *state;
	struct tree_namespaces namespaces = { .items = NULL };
	struct tree_groups groups = { .items = NULL };
	struct tree_snapshots snapshots = { .items = NULL };
	struct backup_group g = group_of("", "vm/100");

	dsfix_mkdir(f, "vm/100/" T1);
	dsfix_mkdir(f, "ns/a");
	for (size_t i = 0; i < TEST_COUNT(calls); i++) {
		struct fault_rule rule = {
			.calls = calls[i],
			.what = FAULT_FAIL,
			.at = 1,
			.times = FAULT_FOREVER,
			.error = EACCES,
		};

		fault_install();
		fault_add(&rule);
		assert_err(tree_namespaces(f->ds, &namespaces, &f->e), &f->e,
		    ERR_SYS, "Permission denied");
		assert_err(tree_groups(f->ds, &root_ns, &groups, &f->e), &f->e,
		    ERR_SYS, "Permission denied");
		assert_err(tree_snapshots(f->ds, &g, &snapshots, &f->e), &f->e,
		    ERR_SYS, "Permission denied");
		fault_uninstall();
	}
}

static void test_find(void **state)
{
	static const struct {
		const char *text;
		const char *path; /* NULL: not found */
		int code;
		const char *message;
	} rows[] = {
		{ "vm/100/latest", "vm/100/" T2, 0, NULL },
		{ "vm/100/" T1, "vm/100/" T1, 0, NULL },
		{ "vm/100/" T3, "vm/100/" T3, 0, NULL },
		{ "vm/101/latest", NULL, ERR_NOTFOUND,
		    "group 'vm/101' has no finished snapshot" },
		{ "vm/102/latest", NULL, ERR_NOTFOUND,
		    "group 'vm/102' does not exist" },
		{ "vm/100/2026-07-17T08:30:00Z", NULL, ERR_NOTFOUND,
		    "snapshot 'vm/100/2026-07-17T08:30:00Z' does not exist" },
		{ "vm/102/" T1, NULL, ERR_NOTFOUND,
		    "snapshot 'vm/102/" T1 "' does not exist" },
		{ "vm/../latest", NULL, ERR_INVALID,
		    "group 'vm/..': '..' is no id" },
		{ "/latest", NULL, ERR_INVALID, "snapshot '/latest': want" },
		{ "latest", NULL, ERR_INVALID, "snapshot 'latest': want" },
		{ "vm/latest", NULL, ERR_INVALID, "group 'vm': want a type" },
		{ "vm/100/newest", NULL, ERR_INVALID, "'newest' is no time" },
	};
	struct dsfix *f = *state;

	dsfix_mkdir(f, "vm/100/" T1);
	dsfix_put(f, "vm/100/" T1 "/index.json.blob", "x");
	dsfix_mkdir(f, "vm/100/" T2);
	dsfix_put(f, "vm/100/" T2 "/index.json.blob", "x");
	dsfix_mkdir(f, "vm/100/" T3);
	dsfix_mkdir(f, "vm/101/" T3);
	for (size_t i = 0; i < TEST_COUNT(rows); i++) {
		struct backup_snapshot s = { .time = 0 };
		char path[BACKUP_PATH_SIZE];
		int rc = tree_find_snapshot(
		    f->ds, &root_ns, rows[i].text, &s, &f->e);

		if (rows[i].path == NULL) {
			assert_err(rc, &f->e, rows[i].code, rows[i].message);
			continue;
		}
		assert_ok(rc, &f->e);
		backup_snapshot_path(&s, path);
		assert_string_equal(path, rows[i].path);
	}
}

static void assert_mode(struct dsfix *f, const char *name, unsigned mode)
{
	char path[DSFIX_NAME_SIZE];
	struct stat st;

	assert_int_equal(fstatat(f->dir.fd, dsfix_name(name, path), &st, 0), 0);
	assert_int_equal(st.st_mode, mode);
}

static void test_make_group(void **state)
{
	struct dsfix *f = *state;
	struct backup_group g = group_of("prod/db", "vm/100");
	char owner[64];
	char *text = NULL;
	mode_t mask = umask(077);
	int fd = -1;

	for (int i = 0; i < 2; i++) {
		assert_ok(tree_make_group(f->ds, &g, &fd, &f->e), &f->e);
		assert_int_equal(tmpdir_count(fd, ""), 1);
		(void)close(fd);
		/* The second finds it, with an owner that is not touched. */
		(void)snprintf(f->ds->settings.owner,
		    sizeof(f->ds->settings.owner), "backup@pbs!t");
	}
	(void)umask(mask);
	assert_mode(f, "ns", S_IFDIR | 0755);
	assert_mode(f, "ns/prod/ns/db/vm", S_IFDIR | 0755);
	assert_mode(f, "ns/prod/ns/db/vm/100", S_IFDIR | 0755);
	assert_mode(f, "ns/prod/ns/db/vm/100/owner", S_IFREG | 0644);
	text = tmpdir_get(f->dir.fd, "store/ns/prod/ns/db/vm/100/owner", NULL);
	assert_string_equal(text, "root@pam\n");
	free(text);
	assert_ok(
	    tree_group_owner(f->ds, &g, owner, sizeof(owner), &f->e), &f->e);
	assert_string_equal(owner, "root@pam");
	/* A group without one gets one. */
	dsfix_unlink(f, "ns/prod/ns/db/vm/100/owner");
	assert_ok(tree_make_group(f->ds, &g, &fd, &f->e), &f->e);
	(void)close(fd);
	assert_ok(
	    tree_group_owner(f->ds, &g, owner, sizeof(owner), &f->e), &f->e);
	assert_string_equal(owner, "backup@pbs!t");
}

/* Another program removes the empty type directory each time. */
static void remove_type(void *ctx, struct fault_event *ev)
{
	unsigned *times = ctx;

	if (ev->call == FAULT_OPENAT && strcmp(ev->name, "vm") == 0 &&
	    *times > 0) {
		(*times)--;
		(void)unlinkat(ev->fd, "vm", AT_REMOVEDIR);
	}
}

static void test_make_group_race(void **state)
{
	struct dsfix *f = *state;
	struct backup_group g = group_of("", "vm/100");
	unsigned times = 2;
	struct fault_hooks hooks = { .before = remove_type, .ctx = &times };
	int fd = -1;

	fault_install();
	fault_set_hooks(&hooks);
	assert_ok(tree_make_group(f->ds, &g, &fd, &f->e), &f->e);
	(void)close(fd);
	assert_int_equal(times, 0);
	assert_true(dsfix_has(f, "vm/100/owner"));
}

static void test_make_group_owner(void **state)
{
	struct dsfix *f = *state;
	struct backup_group g = group_of("", "ct/7");
	static const char *const names[] = { "ct", "ct/7", "ct/7/owner" };
	int fd = -1;

	if (geteuid() != 0)
		skip();
	assert_int_equal(
	    fchownat(f->dir.fd, "store/.chunks", 12345, 54321, 0), 0);
	assert_ok(dsfix_open(f, DATASTORE_WRITE), &f->e);
	assert_ok(tree_make_group(f->ds, &g, &fd, &f->e), &f->e);
	(void)close(fd);
	for (size_t i = 0; i < TEST_COUNT(names); i++) {
		char path[DSFIX_NAME_SIZE];
		struct stat st;

		assert_int_equal(
		    fstatat(f->dir.fd, dsfix_name(names[i], path), &st, 0), 0);
		assert_int_equal(st.st_uid, 12345);
		assert_int_equal(st.st_gid, 54321);
	}
}

static void test_group_owner(void **state)
{
	static const struct {
		const char *text; /* NULL: no file */
		const char *owner;
		int code;
	} rows[] = {
		{ NULL, "", 0 },
		{ "", "", 0 },
		{ "\n", "", 0 },
		{ "root@pam", "root@pam", 0 },
		{ "root@pam\n", "root@pam", 0 },
		{ " \tbackup@pbs!c \r\nsecond\n", "backup@pbs!c", 0 },
		{ "012345678901234\n", "012345678901234", 0 },
		{ "0123456789012345\n", NULL, ERR_CORRUPT },
	};
	struct dsfix *f = *state;
	struct backup_group g = group_of("", "vm/100");
	char owner[16];

	assert_err(tree_group_owner(f->ds, &g, owner, sizeof(owner), &f->e),
	    &f->e, ERR_NOTFOUND, "group 'vm/100' does not exist");
	dsfix_mkdir(f, "vm/100");
	for (size_t i = 0; i < TEST_COUNT(rows); i++) {
		int rc = 0;

		if (rows[i].text != NULL)
			dsfix_put(f, "vm/100/owner", rows[i].text);
		rc = tree_group_owner(f->ds, &g, owner, sizeof(owner), &f->e);
		if (rows[i].code != 0) {
			assert_err(rc, &f->e, rows[i].code,
			    "'vm/100/owner': first line of 16 bytes, want an "
			    "owner of at most 15");
			continue;
		}
		assert_ok(rc, &f->e);
		assert_string_equal(owner, rows[i].owner);
	}
	dsfix_unlink(f, "vm/100/owner");
	dsfix_symlink(f, "/etc/passwd", "vm/100/owner");
	assert_err(tree_group_owner(f->ds, &g, owner, sizeof(owner), &f->e),
	    &f->e, ERR_CORRUPT, "'vm/100/owner' is a symbolic link");
}

static void test_read_manifest(void **state)
{
	static const char bad[] = "0123456789";
	struct dsfix *f = *state;
	struct backup_snapshot s = { .group = group_of("a", "vm/100"),
		.time = 1784104200 };
	struct manifest m = MANIFEST_INIT;
	struct buf raw = BUF_INIT;
	int fd = -1;

	assert_err(tree_open_snapshot(f->ds, &s, &fd, &f->e), &f->e,
	    ERR_NOTFOUND, "snapshot '[a] vm/100/" T2 "' does not exist");
	dsfix_mkdir(f, "ns/a/vm/100/" T2);
	assert_ok(tree_open_snapshot(f->ds, &s, &fd, &f->e), &f->e);
	assert_err(tree_read_manifest(f->ds, &s, fd, &m, &f->e), &f->e,
	    ERR_NOTFOUND, "");
	assert_string_equal(f->e.msg,
	    "'ns/a/vm/100/" T2 "/index.json.blob': the snapshot is unfinished");
	tmpdir_put(fd, BACKUP_MANIFEST, bad, sizeof(bad) - 1);
	assert_err(tree_read_manifest(f->ds, &s, fd, &m, &f->e), &f->e,
	    ERR_CORRUPT, "");
	assert_memory_equal(
	    f->e.msg, "'ns/a/vm/100/" T2 "/index.json.blob': ", 52);
	assert_ok(manifest_new(&s, &m, &f->e), &f->e);
	assert_ok(manifest_set_notes(&m, "hello", &f->e), &f->e);
	assert_ok(manifest_encode(&m, &raw, &f->e), &f->e);
	manifest_release(&m);
	tmpdir_put(fd, BACKUP_MANIFEST, raw.data, raw.len);
	assert_ok(tree_read_manifest(f->ds, &s, fd, &m, &f->e), &f->e);
	assert_string_equal(m.notes, "hello");
	/* That of another snapshot. */
	s.time++;
	assert_err(tree_read_manifest(f->ds, &s, fd, &m, &f->e), &f->e,
	    ERR_CORRUPT, "manifest of 'vm/100/" T2 "', want that of");
	assert_int_equal(unlinkat(fd, BACKUP_MANIFEST, 0), 0);
	assert_int_equal(symlinkat("/etc/passwd", fd, BACKUP_MANIFEST), 0);
	assert_err(tree_read_manifest(f->ds, &s, fd, &m, &f->e), &f->e,
	    ERR_CORRUPT, "is a symbolic link");
	manifest_release(&m);
	buf_release(&raw);
	(void)close(fd);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, dsfix_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_namespaces),
		TEST(test_namespaces_deep),
		TEST(test_groups),
		TEST(test_snapshots),
		TEST(test_links),
		TEST(test_vanishing),
		TEST(test_unreadable),
		TEST(test_find),
		TEST(test_make_group),
		TEST(test_make_group_race),
		TEST(test_make_group_owner),
		TEST(test_group_owner),
		TEST(test_read_manifest),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
