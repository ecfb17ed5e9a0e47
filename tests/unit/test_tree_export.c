/* SPDX-License-Identifier: MIT */
/*
 * What was pushed as a tar, exported, read again: it is the same, or it was
 * said what is not.
 */
#include "index/tree_export.h"

#include <archive.h>
#include <archive_entry.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "index/tree_restore.h"
#include "tests/support/tarfix.h"

/* Everything that a tar can hold. */
static void make_all(struct tarfix *t)
{
	static const char *const meta[] = { "uid=4000000000", "gid=3000000000",
		"uname=j\xc3\xb6rg", "gname=gr", "mtime=5000000000.123456789",
		"SCHILY.xattr.user.b=\x01\x02", "SCHILY.xattr.user.a=",
		"SCHILY.acl.access=user::rw-,user:x:r--:77,group::---,"
		"mask::rw-,other::---",
		NULL };
	static const char *const acl[] = { "SCHILY.acl.default=user::rwx,"
					   "group::r-x,group:y:rwx:88,"
					   "mask::rwx,other::---",
		NULL };
	static const char *const nfd[] = { "path=d/e\xcc\x81", NULL };
	static const char *const nfc[] = { "path=d/\xc3\xa9", NULL };
	static const char *const bad[] = { "path=d/\xff\xfe\n", NULL };
	static const char *const ends[] = { "GNU.sparse.size=300000",
		"GNU.sparse.name=ends", "GNU.sparse.map=0,2,100000,2,299999,1",
		NULL };
	static const char *const hole[] = { "GNU.sparse.size=70000",
		"GNU.sparse.name=hole", "GNU.sparse.map=70000,0", NULL };
	char name[200];

	tarfix_member(t, '5', "./", NULL, NULL, 0);
	tarfix_pax(t, acl);
	tarfix_member(t, '5', "d", NULL, NULL, 0);
	tarfix_pax(t, meta);
	tarfix_file(t, "d/meta", "content");
	tarfix_pax(t, nfd);
	tarfix_file(t, "x", "nfd");
	tarfix_pax(t, nfc);
	tarfix_file(t, "x", "nfc!");
	tarfix_pax(t, bad);
	tarfix_file(t, "x", "bytes");
	tarfix_pax(t, ends);
	tarfix_file(t, "x", "abcde");
	tarfix_pax(t, hole);
	tarfix_file(t, "x", "");
	tarfix_file(t, "d/empty", "");
	tarfix_member(t, '1', "l/one", "d/empty", NULL, 0);
	tarfix_member(t, '1', "l/two", "d/meta", NULL, 0);
	tarfix_member(t, '1', "l/three", "ends", NULL, 0);
	tarfix_member(t, '2', "s", "../else\xff where", NULL, 0);
	tarfix_member(t, '1', "l/s", "s", NULL, 0);
	tarfix_member(t, '6', "pipe", NULL, NULL, 0);
	tarfix_member(t, '3', "char", NULL, NULL, 0);
	tarfix_member(t, '4', "block", NULL, NULL, 0);
	memset(name, 'n', sizeof(name));
	name[90] = '/';
	name[sizeof(name) - 1] = '\0';
	tarfix_member(t, 'L', "././@LongLink", NULL, name, sizeof(name));
	tarfix_file(t, "x", "long");
	tarfix_end(t);
}

/* Of the row of a path everything that is no position. */
static void append_attr(struct tarfix *t, const char *path, struct buf *out)
{
	struct err *e = &t->x->f->e;
	struct catalog_entry row = tarfix_row(t, path);

	assert_ok(buf_append_fmt(out, e, "%s %o %u %u %lld.%u ", path, row.mode,
		      row.uid, row.gid, (long long)row.mtime_s, row.mtime_ns),
	    e);
	if ((row.has & CATALOG_HAS_ATTR) != 0)
		assert_ok(catalog_attr(t->x->c, row.attr, out, e), e);
}

static void a_tar_comes_back(void **state)
{
	static const char *const paths[] = { "d", "d/meta", "s", "pipe", "char",
		"l/two", "" };
	struct tarfix *t = *state;
	struct err *e = &t->x->f->e;
	struct tree_export_result r;
	struct buf one = BUF_INIT;
	struct buf two = BUF_INIT;
	struct buf name = BUF_INIT;
	bool found = false;
	char *dump = NULL;

	make_all(t);
	tarfix_push(t);
	assert_true(t->result.whole);
	dump = strdup(tarfix_dump(t));
	assert_non_null(dump);
	for (size_t i = 0; i < TEST_COUNT(paths); i++)
		append_attr(t, paths[i], &one);
	assert_ok(tarfix_export(t, TREE_EXPORT_TAR, "", &r), e);
	assert_int_equal(r.left_out, 0);
	assert_int_equal(r.damaged, 0);
	/* Not l, and not that of the long name. */
	assert_int_equal(r.entries, 18);
	tarfix_push(t);
	assert_true(t->result.whole);
	tarfix_assert_dump(t, dump);
	for (size_t i = 0; i < TEST_COUNT(paths); i++)
		append_attr(t, paths[i], &two);
	assert_int_equal(one.len, two.len);
	assert_memory_equal(one.data, two.data, one.len);
	assert_ok(catalog_account(
		      t->x->c, CATALOG_USER, 4000000000, &name, &found, e),
	    e);
	assert_true(found);
	assert_int_equal(name.len, 5);
	assert_memory_equal(name.data, "j\xc3\xb6rg", 5);
	assert_int_equal(restorefix_said(t->x->f, "W "), 0);
	free(dump);
	buf_release(&one);
	buf_release(&two);
	buf_release(&name);
}

/* What has attributes that are lost is there, without them. */
static void does_without_attributes(void **state)
{
	struct tarfix *t = *state;
	struct tree_export_result r;

	make_all(t);
	tarfix_push(t);
	catalogfix_extract(t->x, "root.tar.catalog", "hurt");
	catalogfix_sql(t->x, "hurt", false, "delete from attr");
	assert_ok(catalogfix_open_file(t->x, "hurt"), &t->x->f->e);
	assert_ok(tarfix_export(t, TREE_EXPORT_TAR, "", &r), &t->x->f->e);
	assert_int_equal(r.left_out, 0);
	assert_true(r.damaged > 0);
	assert_int_equal(
	    restorefix_said(t->x->f, "lacks attributes"), (int)r.damaged);
	assert_int_equal(r.entries, 18);
}

/* Names of owners that are lost leave the numbers, and nothing else out. */
static void does_without_names(void **state)
{
	const struct tree_restore_opts opts = { .threads = 1 };
	struct tarfix *t = *state;
	struct restorefix *f = t->x->f;
	struct tree_restore_result back = { .entries = 0 };
	struct tree_export_result r;
	struct buf one = BUF_INIT;
	struct buf two = BUF_INIT;
	int fd = -1;

	make_all(t);
	tarfix_push(t);
	append_attr(t, "d/meta", &one);
	catalogfix_extract(t->x, "root.tar.catalog", "hurt");
	catalogfix_sql(t->x, "hurt", false, "update account set name = 'x'");
	assert_ok(catalogfix_open_file(t->x, "hurt"), &f->e);
	assert_ok(tarfix_export(t, TREE_EXPORT_TAR, "", &r), &f->e);
	assert_int_equal(r.left_out, 0);
	assert_int_equal(r.damaged, 0);
	assert_true(r.nameless > 1);
	assert_int_equal(r.entries, 18);
	assert_int_equal(restorefix_said(f, "go by their numbers"), 1);
	assert_int_equal(mkdirat(f->dir.fd, "unpacked", 0700), 0);
	fd = openat(f->dir.fd, "unpacked", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_ok(tree_restore(t->x->c, f->archive, fd, "unpacked", &opts,
		      &f->task, &back, &f->e),
	    &f->e);
	(void)close(fd);
	assert_true(back.entries > 15);
	assert_int_equal(back.failed, 0);
	assert_true(back.missed[RESTORE_MISS_OWNER] > 1);
	assert_int_equal(restorefix_said(f, "go by their numbers"), 2);
	tarfix_push(t);
	append_attr(t, "d/meta", &two);
	assert_int_equal(one.len, two.len);
	assert_memory_equal(one.data, two.data, one.len);
	buf_release(&one);
	buf_release(&two);
}

static void a_path_comes_alone(void **state)
{
	struct tarfix *t = *state;
	struct tree_export_result r;

	make_all(t);
	tarfix_push(t);
	assert_ok(
	    tarfix_export(t, TREE_EXPORT_TAR, "./l//two", &r), &t->x->f->e);
	assert_int_equal(r.entries, 1);
	tarfix_push(t);
	tarfix_assert_dump(t, " dir\nl dir\nl/two file 660 size=7\n");
}

static void a_directory_comes_with_what_is_in_it(void **state)
{
	struct tarfix *t = *state;
	struct tree_export_result r;

	make_all(t);
	tarfix_push(t);
	assert_ok(tarfix_export(t, TREE_EXPORT_TAR, "/l/", &r), &t->x->f->e);
	assert_int_equal(r.entries, 4);
	tarfix_push(t);
	tarfix_assert_dump(t,
	    " dir\nl dir\nl/one file 640 size=0\n"
	    "l/s symlink 640 -> ../else\xff where\n"
	    "l/three file 640 size=300000 holes=2+99998,100002+199997\n"
	    "l/two file 660 size=7\n");
}

static void a_path_that_is_not_there_is_an_error(void **state)
{
	struct tarfix *t = *state;
	struct tree_export_result r;

	make_all(t);
	tarfix_push(t);
	assert_int_equal(
	    tarfix_export(t, TREE_EXPORT_TAR, "no", &r), ERR_NOTFOUND);
	restorefix_assert_file(t->x->f, "exported", "", 0);
}

/* Names, sizes and kinds as libarchive reads them. */
static void list(struct tarfix *t, struct buf *out)
{
	struct archive *a = archive_read_new();
	struct archive_entry *ae = NULL;
	struct err *e = &t->x->f->e;

	assert_int_equal(archive_read_support_format_zip(a), ARCHIVE_OK);
	assert_int_equal(archive_read_support_format_cpio(a), ARCHIVE_OK);
	assert_int_equal(
	    archive_read_open_memory(a, t->tar.data, t->tar.len), ARCHIVE_OK);
	while (archive_read_next_header(a, &ae) == ARCHIVE_OK) {
		uint64_t n = 0;
		char p[4096];
		la_ssize_t got = 0;

		while ((got = archive_read_data(a, p, sizeof(p))) > 0)
			n += (uint64_t)got;
		assert_int_equal(got, 0);
		assert_ok(
		    buf_append_fmt(out, e, "%s %o %llu %s\n",
			archive_entry_pathname(ae),
			(unsigned)archive_entry_mode(ae), (unsigned long long)n,
			archive_entry_hardlink(ae) != NULL
			    ? archive_entry_hardlink(ae)
			    : ""),
		    e);
	}
	(void)archive_read_free(a);
}

static void make_few(struct tarfix *t)
{
	tarfix_member(t, '5', "d", NULL, NULL, 0);
	tarfix_file(t, "d/f", "content");
	tarfix_member(t, '1', "d/g", "d/f", NULL, 0);
	tarfix_member(t, '2', "d/s", "f", NULL, 0);
	tarfix_member(t, '6', "d/pipe", NULL, NULL, 0);
	tarfix_end(t);
	tarfix_push(t);
}

static void a_zip_has_files(void **state)
{
	struct tarfix *t = *state;
	struct tree_export_result r;
	struct buf got = BUF_INIT;

	make_few(t);
	assert_ok(tarfix_export(t, TREE_EXPORT_ZIP, "", &r), &t->x->f->e);
	assert_int_equal(r.left_out, 1);
	assert_int_equal(restorefix_said(t->x->f,
			     "W 'd/pipe' is left out: a zip has files, "
			     "directories and symbolic links only"),
	    1);
	list(t, &got);
	assert_string_equal(buf_cstr(&got, &t->x->f->e),
	    "d/ 40640 0 \n"
	    "d/f 100640 7 \n"
	    "d/g 100640 7 \n"
	    "d/s 120640 0 \n");
	buf_release(&got);
}

static void a_cpio_has_links(void **state)
{
	struct tarfix *t = *state;
	struct tree_export_result r;
	struct buf got = BUF_INIT;

	make_few(t);
	assert_ok(tarfix_export(t, TREE_EXPORT_CPIO, "", &r), &t->x->f->e);
	assert_int_equal(r.left_out, 0);
	assert_int_equal(restorefix_said(t->x->f, "W "), 0);
	list(t, &got);
	assert_string_equal(buf_cstr(&got, &t->x->f->e),
	    "d/ 40640 0 \n"
	    "d/f 100640 7 \n"
	    "d/g 100640 7 d/f\n"
	    "d/pipe 10640 0 \n"
	    "d/s 120640 0 \n");
	buf_release(&got);
}

/* Which chunk of the stream has this byte. */
static struct digest chunk_at(struct tarfix *t, uint64_t at)
{
	uint64_t i = 0;

	while (restorefix_entry(t->x->f, "root.tar.didx", i).end <= at)
		i++;
	return restorefix_entry(t->x->f, "root.tar.didx", i).digest;
}

/* A small file is left out, of a large one its beginning comes. */
static void damage_does_not_go_out_unnoticed(void **state)
{
	static const size_t large = TREE_EXPORT_CHECK_MAX + 100000;
	struct tarfix *t = *state;
	uint8_t *p = restorefix_bytes(t->x->f, GEN_RANDOM, large);
	struct digest d;
	struct tree_export_result r;
	size_t at = 0;
	size_t small = 0;
	struct gen g;

	gen_seed(&g, 1);
	tarfix_file(t, "a", "sound");
	tarfix_member(t, '0', "large", NULL, p, large);
	at = t->content;
	/* No chunk of both. */
	gen_fill(&g, GEN_RANDOM, p, 500000);
	tarfix_member(t, '0', "small", NULL, p, 500000);
	small = t->content;
	tarfix_member(t, '1', "z", "small", NULL, 0);
	tarfix_end(t);
	tarfix_push(t);
	d = chunk_at(t, at + 20000000);
	restorefix_spoil(t->x->f, &d, SPOIL_MISSING);
	d = chunk_at(t, small + 400000);
	restorefix_spoil(t->x->f, &d, SPOIL_CRC);
	assert_ok(tarfix_export(t, TREE_EXPORT_TAR, "", &r), &t->x->f->e);
	assert_int_equal(r.entries, 2);
	assert_int_equal(r.left_out, 2);
	assert_int_equal(r.damaged, 3);
	assert_int_equal(
	    restorefix_said(t->x->f, "W 'small' is left out: "), 1);
	assert_int_equal(restorefix_said(t->x->f, "W 'z' is left out: "), 1);
	assert_int_equal(
	    restorefix_said(t->x->f, "W 'large' is not what it was"), 1);
	tarfix_push(t);
	tarfix_assert_dump(
	    t, " dir\na file 640 size=5\nlarge file 640 size=33654432\n");
	at = (size_t)tarfix_row(t, "large").pos;
	assert_memory_equal(t->tar.data + at + 500000, p + 500000, 19000000);
	assert_int_equal(t->tar.data[at + large - 1], 0);
}

static void sockets_have_no_place(void **state)
{
	struct tarfix *t = *state;
	struct tree_export_result r;

	catalogfix_begin(t->x, "root.tree");
	catalogfix_add(t->x, 0, "", 1, CATALOG_DIR);
	catalogfix_add(t->x, 1, "s\n", 2, CATALOG_SOCKET);
	catalogfix_finish(t->x, 3);
	catalogfix_open(t->x, "root.tree");
	for (unsigned i = TREE_EXPORT_TAR; i <= TREE_EXPORT_CPIO; i++) {
		assert_ok(tarfix_export(t, (enum tree_export_format)i, "", &r),
		    &t->x->f->e);
		assert_int_equal(r.entries, 0);
		assert_int_equal(r.left_out, 1);
		assert_int_equal(restorefix_said(t->x->f,
				     "W 's\\n' is left out: it is a socket"),
		    i + 1);
	}
}

static void stops_when_told(void **state)
{
	struct tarfix *t = *state;
	struct tree_export_result r;

	make_few(t);
	t->x->f->task.stop = 15;
	assert_int_equal(
	    tarfix_export(t, TREE_EXPORT_TAR, "", &r), ERR_CANCELLED);
	t->x->f->task.stop = 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TARFIX_TEST(a_tar_comes_back),
		TARFIX_TEST(does_without_attributes),
		TARFIX_TEST(does_without_names),
		TARFIX_TEST(a_path_comes_alone),
		TARFIX_TEST(a_directory_comes_with_what_is_in_it),
		TARFIX_TEST(a_path_that_is_not_there_is_an_error),
		TARFIX_TEST(a_zip_has_files),
		TARFIX_TEST(a_cpio_has_links),
		TARFIX_TEST(damage_does_not_go_out_unnoticed),
		TARFIX_TEST(sockets_have_no_place),
		TARFIX_TEST(stops_when_told),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
