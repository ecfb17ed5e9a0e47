/* SPDX-License-Identifier: MIT */
/*
 * Tars, header by header: the stream is kept as it is, and the catalog says
 * what tar would make of it.
 */
#include "index/tar_push.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/tarfix.h"

static void lists_members(void **state)
{
	struct tarfix *t = *state;
	struct catalog_entry row;

	tarfix_member(t, '5', "./", NULL, NULL, 0);
	tarfix_member(t, '5', "./d/", NULL, NULL, 0);
	tarfix_file(t, "./d/f", "content");
	tarfix_file(t, "./d/empty", "");
	tarfix_member(t, '2', "./d/s", "../else/where", NULL, 0);
	tarfix_member(t, '6', "./pipe", NULL, NULL, 0);
	tarfix_member(t, '3', "./char", NULL, NULL, 0);
	tarfix_member(t, '4', "./block", NULL, NULL, 0);
	tarfix_end(t);
	tarfix_push(t);
	assert_true(t->result.whole);
	assert_int_equal(t->result.members, 8);
	tarfix_assert_stream(t);
	tarfix_assert_dump(t,
	    " dir 640\n"
	    "block block 640\n"
	    "char char 640\n"
	    "d dir 640\n"
	    "d/empty file 640 size=0\n"
	    "d/f file 640 size=7\n"
	    "d/s symlink 640 -> ../else/where\n"
	    "pipe fifo 640\n");
	row = tarfix_row(t, "d/f");
	assert_int_equal(row.uid, 1000);
	assert_int_equal(row.gid, 100);
	assert_int_equal(row.mtime_s, 1000000000);
	assert_int_equal(row.mtime_ns, 0);
	assert_int_equal(row.pos, 3 * TARFIX_BLOCK);
	assert_int_equal(restorefix_said(t->x->f, "W "), 0);
}

/* Directories that only members' names tell of; leading slashes and dots. */
static void makes_directories_without_members(void **state)
{
	struct tarfix *t = *state;

	tarfix_file(t, "/a/b/c", "1");
	tarfix_file(t, "././/a//x/./y", "2");
	tarfix_member(t, '5', "a/b", NULL, NULL, 0);
	tarfix_end(t);
	tarfix_push(t);
	assert_true(t->result.whole);
	tarfix_assert_dump(t,
	    " dir\n"
	    "a dir\n"
	    "a/b dir 640\n"
	    "a/b/c file 640 size=1\n"
	    "a/x dir\n"
	    "a/x/y file 640 size=1\n");
}

static void the_last_member_of_a_name_wins(void **state)
{
	struct tarfix *t = *state;

	tarfix_file(t, "f", "one");
	tarfix_file(t, "g", "g");
	tarfix_file(t, "f", "second");
	tarfix_member(t, '2', "f", "g", NULL, 0);
	tarfix_file(t, "./f", "third!!");
	tarfix_member(t, '5', "d", NULL, NULL, 0);
	tarfix_member(t, '5', "d", NULL, NULL, 0);
	tarfix_end(t);
	tarfix_push(t);
	assert_true(t->result.whole);
	tarfix_assert_dump(t,
	    " dir\n"
	    "d dir 640\n"
	    "f file 640 size=7\n"
	    "g file 640 size=1\n"
	    "- d dir 640\n"
	    "- f file 640 size=3\n"
	    "- f file 640 size=6\n"
	    "- f symlink 640 -> g\n");
}

/* A name with others in it is a directory, whatever came first. */
static void directories_stay(void **state)
{
	struct tarfix *t = *state;
	uint64_t end = 0;
	bool incomplete = true;

	tarfix_file(t, "a", "file");
	tarfix_file(t, "a/b", "in it");
	tarfix_file(t, "d/e", "in it");
	tarfix_file(t, "d", "file");
	tarfix_member(t, '2', "d", "a", NULL, 0);
	tarfix_member(t, '1', "d", "a/b", NULL, 0);
	tarfix_end(t);
	tarfix_push(t);
	assert_false(t->result.whole);
	assert_int_equal(restorefix_said(t->x->f,
			     "'source': member 'd' is not listed: a directory "
			     "had its name before"),
	    3);
	assert_int_equal(
	    restorefix_said(t->x->f,
		"'source': member 'a' is not listed: a later member lies in "
		"it as in a directory"),
	    1);
	assert_ok(catalog_incomplete(t->x->c, &incomplete, &end, &t->x->f->e),
	    &t->x->f->e);
	assert_false(incomplete);
	tarfix_assert_dump(t,
	    " dir\n"
	    "a dir\n"
	    "a/b file 640 size=5 link=a/b\n"
	    "d dir\n"
	    "d/e file 640 size=5\n"
	    "- a file 640 size=4\n");
}

static void links_share_what_they_name(void **state)
{
	struct tarfix *t = *state;

	tarfix_file(t, "a", "first");
	tarfix_member(t, '1', "b", "./a", NULL, 0);
	tarfix_member(t, '1', "c/d", "b", NULL, 0);
	tarfix_file(t, "a", "another");
	tarfix_member(t, '1', "e", "/a", NULL, 0);
	tarfix_member(t, '1', "e", "e", NULL, 0); /* to itself */
	tarfix_member(t, '2', "s", "x", NULL, 0);
	tarfix_member(t, '1', "t", "s", NULL, 0);
	tarfix_end(t);
	tarfix_push(t);
	assert_true(t->result.whole);
	tarfix_assert_dump(t,
	    " dir\n"
	    "a file 640 size=7 link=a\n"
	    "b file 640 size=5 link=b\n"
	    "c dir\n"
	    "c/d file 640 size=5 link=b\n"
	    "e file 640 size=7 link=a\n"
	    "s symlink 640 -> x link=s\n"
	    "t symlink 640 -> x link=s\n"
	    "- a file 640 size=5 link=b\n");
}

static void links_to_nothing_are_not_listed(void **state)
{
	struct tarfix *t = *state;

	tarfix_member(t, '1', "l", "later", NULL, 0);
	tarfix_file(t, "later", "x");
	tarfix_member(t, '1', "m", "../../etc/passwd", NULL, 0);
	tarfix_member(t, '5', "d", NULL, NULL, 0);
	tarfix_member(t, '1', "n", "d", NULL, 0);
	tarfix_end(t);
	tarfix_push(t);
	assert_false(t->result.whole);
	assert_int_equal(
	    restorefix_said(t->x->f, "links to what is not listed"), 3);
	tarfix_assert_dump(t,
	    " dir\n"
	    "d dir 640\n"
	    "later file 640 size=1\n");
}

static void names_that_lead_outside_are_not_listed(void **state)
{
	struct tarfix *t = *state;

	tarfix_file(t, "../x", "1");
	tarfix_file(t, "a/../../y", "2");
	tarfix_file(t, "a/..", "3");
	tarfix_file(t, "..\n", "4");
	tarfix_file(t, "/", "5");
	tarfix_end(t);
	tarfix_push(t);
	assert_false(t->result.whole);
	assert_int_equal(restorefix_said(t->x->f, "its name has '..'"), 3);
	/* The root, though it is said to be a file. */
	assert_int_equal(
	    restorefix_said(t->x->f, "W 'source': member '/' is not"), 0);
	tarfix_assert_dump(t,
	    " dir 640\n"
	    "..\n file 640 size=1\n");
	tarfix_assert_stream(t);
}

/* GNU's and pax's ways to say a long name; bytes of any kind. */
static void names_are_bytes(void **state)
{
	static const char *const names[] = { "e\xcc\x81", "\xc3\xa9",
		"\xff\xfe", "a\nb", "\xe2\x84\xaa", "\x1b[31m", "back\\slash",
		" lead" };
	struct tarfix *t = *state;
	char deep[3 * 121 + 1] = "";
	char record[512];

	for (size_t i = 0; i < TEST_COUNT(names); i++) {
		const char *const pax[] = { record, NULL };
		char name[64];

		(void)snprintf(name, sizeof(name), "u/%s", names[i]);
		tarfix_file(t, name, "ustar");
		(void)snprintf(record, sizeof(record), "path=p/%s", names[i]);
		tarfix_pax(t, pax);
		tarfix_file(t, "not this", "pax");
		(void)snprintf(name, sizeof(name), "g/%s", names[i]);
		tarfix_member(
		    t, 'L', "././@LongLink", NULL, name, strlen(name) + 1);
		tarfix_file(t, "nor this", "gnu");
	}
	for (size_t i = 0; i < 3; i++) {
		memset(deep + 121 * i, 'x', 120);
		deep[121 * i + 120] = i < 2 ? '/' : '\0';
	}
	tarfix_member(t, 'L', "././@LongLink", NULL, deep, strlen(deep) + 1);
	tarfix_file(t, "nor this", "deep");
	tarfix_end(t);
	tarfix_push(t);
	assert_true(t->result.whole);
	assert_int_equal(restorefix_said(t->x->f, "W "), 0);
	for (size_t i = 0; i < TEST_COUNT(names); i++) {
		char name[64];

		(void)snprintf(name, sizeof(name), "u/%s", names[i]);
		assert_int_equal(tarfix_row(t, name).size, 5);
		(void)snprintf(name, sizeof(name), "p/%s", names[i]);
		assert_int_equal(tarfix_row(t, name).size, 3);
		(void)snprintf(name, sizeof(name), "g/%s", names[i]);
		assert_int_equal(tarfix_row(t, name).size, 3);
	}
	assert_int_equal(tarfix_row(t, deep).size, 4);
}

static void pax_says_more(void **state)
{
	static const char *const records[] = { "uid=4000000000",
		"gid=3000000000", "uname=j\xc3\xb6rg", "mtime=-1",
		"SCHILY.xattr.user.b=\x01\x02", "SCHILY.xattr.user.a=",
		"SCHILY.acl.access=user::rw-,user:x:r--:77,group::---,"
		"mask::rw-,other::---",
		NULL };
	static const char *const times[] = { "mtime=5000000000.123456789",
		NULL };
	static const uint8_t acl[] = { 2, 0, 0, 0, 1, 0, 6, 0, 255, 255, 255,
		255, 2, 0, 4, 0, 77, 0, 0, 0, 4, 0, 0, 0, 255, 255, 255, 255,
		16, 0, 6, 0, 255, 255, 255, 255, 32, 0, 0, 0, 255, 255, 255,
		255 };
	struct tarfix *t = *state;
	struct err *e = &t->x->f->e;
	struct catalog_entry row;
	struct catalog_xattr attr;
	struct buf data = BUF_INIT;
	bool found = false;
	size_t at = 0;

	tarfix_pax(t, records);
	tarfix_file(t, "f", "1");
	tarfix_pax(t, times);
	tarfix_file(t, "g", "1");
	tarfix_end(t);
	tarfix_push(t);
	assert_true(t->result.whole);
	row = tarfix_row(t, "g");
	assert_int_equal(row.mtime_s, 5000000000);
	assert_int_equal(row.mtime_ns, 123456789);
	row = tarfix_row(t, "f");
	assert_int_equal(row.uid, 4000000000);
	assert_int_equal(row.gid, 3000000000);
	assert_int_equal(row.mtime_s, -1);
	assert_int_equal(row.mode, 0660);
	assert_ok(catalog_attr(t->x->c, row.attr, &data, e), e);
	assert_true(catalog_attr_next(&data, &at, &attr));
	assert_string_equal(attr.name_z, "system.posix_acl_access");
	assert_int_equal(attr.value.n, sizeof(acl));
	assert_memory_equal(attr.value.p, acl, sizeof(acl));
	assert_true(catalog_attr_next(&data, &at, &attr));
	assert_string_equal(attr.name_z, "user.a");
	assert_int_equal(attr.value.n, 0);
	assert_true(catalog_attr_next(&data, &at, &attr));
	assert_string_equal(attr.name_z, "user.b");
	assert_memory_equal(attr.value.p, "\x01\x02", 2);
	assert_false(catalog_attr_next(&data, &at, &attr));
	buf_reset(&data);
	assert_ok(catalog_account(
		      t->x->c, CATALOG_USER, 4000000000, &data, &found, e),
	    e);
	assert_true(found);
	assert_int_equal(data.len, 5);
	assert_memory_equal(data.data, "j\xc3\xb6rg", 5);
	buf_release(&data);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TARFIX_TEST(lists_members),
		TARFIX_TEST(makes_directories_without_members),
		TARFIX_TEST(the_last_member_of_a_name_wins),
		TARFIX_TEST(directories_stay),
		TARFIX_TEST(links_share_what_they_name),
		TARFIX_TEST(links_to_nothing_are_not_listed),
		TARFIX_TEST(names_that_lead_outside_are_not_listed),
		TARFIX_TEST(names_are_bytes),
		TARFIX_TEST(pax_says_more),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
