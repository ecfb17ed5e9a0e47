/* SPDX-License-Identifier: MIT */
/*
 * Archives of all kinds, made by libarchive or header by header, as trees.
 */
#include "index/tree_import.h"

#include <archive.h>
#include <archive_entry.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/tarfix.h"

/* What each archive holds: a/, a/b, a/empty, a/large, s -> a/b. */
#define LARGE ((size_t)1250000)

static void entry(struct tarfix *t, struct archive *a, unsigned type,
    const char *name, const void *p, size_t n)
{
	struct archive_entry *ae = archive_entry_new();

	(void)t;
	archive_entry_copy_pathname(ae, name);
	archive_entry_set_filetype(ae, type);
	archive_entry_set_perm(ae, 0750);
	archive_entry_set_mtime(ae, 1000000000, 0);
	archive_entry_set_uid(ae, 7);
	if (type == AE_IFLNK)
		archive_entry_copy_symlink(ae, p);
	archive_entry_set_size(ae, type == AE_IFREG ? (la_int64_t)n : 0);
	if (archive_write_header(a, ae) != ARCHIVE_OK) {
		print_error("%s\n", archive_error_string(a));
		fail();
	}
	if (type == AE_IFREG && n > 0)
		assert_int_equal(archive_write_data(a, p, n), n);
	archive_entry_free(ae);
}

static la_ssize_t on_write(
    struct archive *a, void *ctx, const void *p, size_t n)
{
	(void)a;
	tarfix_bytes(ctx, p, n);
	return (la_ssize_t)n;
}

/* False: the library is built without. */
static bool make(struct tarfix *t, int (*format)(struct archive *),
    int (*filter)(struct archive *), bool links)
{
	struct archive *a = archive_write_new();
	uint8_t *p = restorefix_bytes(t->x->f, GEN_RANDOM, LARGE);
	bool can = a != NULL && format(a) == ARCHIVE_OK &&
	    (filter == NULL || filter(a) == ARCHIVE_OK);

	if (can) {
		/* Nothing behind what is compressed. */
		(void)archive_write_set_bytes_in_last_block(a, 1);
		assert_int_equal(
		    archive_write_open(a, t, NULL, on_write, NULL), ARCHIVE_OK);
		entry(t, a, AE_IFDIR, "a", NULL, 0);
		entry(t, a, AE_IFREG, "a/b", "content", 7);
		entry(t, a, AE_IFREG, "a/empty", "", 0);
		entry(t, a, AE_IFREG, "a/large", p, LARGE);
		entry(t, a, AE_IFREG, "a/same", "content", 7);
		if (links)
			entry(t, a, AE_IFLNK, "s", "a/b", 3);
		assert_int_equal(archive_write_close(a), ARCHIVE_OK);
	}
	(void)archive_write_free(a);
	return can;
}

static const struct {
	const char *name;
	int (*format)(struct archive *);
	int (*filter)(struct archive *);
	bool links;
} kinds[] = {
	{ "pax", archive_write_set_format_pax, NULL, true },
	{ "ustar", archive_write_set_format_ustar, NULL, true },
	{ "gnutar", archive_write_set_format_gnutar, NULL, true },
	{ "newc", archive_write_set_format_cpio_newc, NULL, true },
	{ "odc", archive_write_set_format_cpio, NULL, true },
	{ "zip", archive_write_set_format_zip, NULL, true },
	{ "7zip", archive_write_set_format_7zip, NULL, true },
	{ "iso", archive_write_set_format_iso9660, NULL, true },
	{ "gzip", archive_write_set_format_pax, archive_write_add_filter_gzip,
	    true },
	{ "bzip2", archive_write_set_format_pax, archive_write_add_filter_bzip2,
	    true },
	{ "xz", archive_write_set_format_pax, archive_write_add_filter_xz,
	    true },
	{ "lz4", archive_write_set_format_pax, archive_write_add_filter_lz4,
	    true },
	{ "zstd", archive_write_set_format_pax, archive_write_add_filter_zstd,
	    true },
	{ "cpio.gz", archive_write_set_format_cpio_newc,
	    archive_write_add_filter_gzip, true },
};

/* Lines of the dump without modes, which not all of these have. */
static const char want[] = "a dir\na/b file size=7\na/empty file size=0\n"
			   "a/large file size=1250000\na/same file size=7\n"
			   "s symlink -> a/b\n";

static void strip_modes(char *s)
{
	char *out = s;

	/* The root's line first. */
	for (s = strchr(s, '\n') + 1; *s != '\0';) {
		size_t n = strspn(s, " 01234567");

		if (s[0] == ' ' && n > 3 && (s[n] == '\n' || s[n - 1] == ' '))
			s += s[n] == '\n' ? n : n - 1;
		*out++ = *s++;
	}
	*out = '\0';
}

static void reads_archives_of_all_kinds(void **state)
{
	(void)state;
	for (size_t i = 0; i < 2 * TEST_COUNT(kinds); i++) {
		size_t k = i / 2;
		bool pipe = i % 2 != 0;
		struct tarfix *t = NULL;
		void *one = NULL;
		char *got = NULL;
		int rc = 0;

		assert_int_equal(tarfix_setup(&one), 0);
		t = one;
		if (!make(
			t, kinds[k].format, kinds[k].filter, kinds[k].links)) {
			assert_int_equal(tarfix_teardown(&one), 0);
			continue;
		}
		rc = tarfix_import(t, pipe);
		if (rc < 0)
			print_error("%s\n", kinds[k].name);
		assert_ok(rc, &t->x->f->e);
		if (!t->imported.whole)
			print_error("%s: %s", kinds[k].name,
			    buf_cstr(&t->x->f->messages, &t->x->f->e));
		assert_true(t->imported.whole);
		assert_int_equal(t->imported.left_out, 0);
		/* An ISO image has it once already. */
		if (strcmp(kinds[k].name, "iso") != 0)
			assert_int_equal(t->imported.written.same_files, 1);
		got = strdup(tarfix_dump(t));
		assert_non_null(got);
		strip_modes(got);
		if (strcmp(got, want) != 0)
			print_error("%s\n", kinds[k].name);
		assert_string_equal(got, want);
		free(got);
		assert_int_equal(tarfix_teardown(&one), 0);
	}
}

/* The rows of a tar, without those that are no more. */
static void later_members_replace_earlier_ones(void **state)
{
	struct tarfix *t = *state;

	tarfix_file(t, "f", "one");
	tarfix_file(t, "d/x", "x");
	tarfix_file(t, "f", "second");
	tarfix_member(t, '1', "d/l", "f", NULL, 0);
	tarfix_file(t, "f", "third!!");
	tarfix_member(t, '5', "d", NULL, NULL, 0);
	tarfix_file(t, "../out", "");
	tarfix_member(t, '2', "a", "d", NULL, 0);
	tarfix_file(t, "a/b", "");
	tarfix_end(t);
	assert_ok(tarfix_import(t, false), &t->x->f->e);
	assert_false(t->imported.whole);
	assert_int_equal(t->imported.left_out, 2);
	assert_int_equal(t->imported.members, 9);
	assert_int_equal(
	    restorefix_said(t->x->f,
		"member 'a' is left out: a later member lies in it as in a "
		"directory"),
	    1);
	tarfix_assert_dump(t,
	    " dir\n"
	    "a dir\n"
	    "a/b file 640 size=0\n"
	    "d dir 640\n"
	    "d/l file 640 size=6 link=d/l\n"
	    "d/x file 640 size=1\n"
	    "f file 640 size=7\n");
}

/* cpio's links: the content comes with the last name of a file. */
static void all_names_of_a_file_get_its_content(void **state)
{
	struct tarfix *t = *state;
	struct archive *a = archive_write_new();
	static const char *const names[] = { "a", "b", "c" };

	assert_int_equal(archive_write_set_format_cpio_newc(a), ARCHIVE_OK);
	assert_int_equal(
	    archive_write_open(a, t, NULL, on_write, NULL), ARCHIVE_OK);
	for (size_t i = 0; i < 3; i++) {
		struct archive_entry *ae = archive_entry_new();

		archive_entry_copy_pathname(ae, names[i]);
		archive_entry_set_mode(ae, AE_IFREG | 0600);
		archive_entry_set_ino(ae, 5);
		archive_entry_set_dev(ae, 1);
		archive_entry_set_nlink(ae, 3);
		archive_entry_set_size(ae, i == 2 ? 7 : 0);
		assert_int_equal(archive_write_header(a, ae), ARCHIVE_OK);
		if (i == 2)
			assert_int_equal(
			    archive_write_data(a, "content", 7), 7);
		archive_entry_free(ae);
	}
	assert_int_equal(archive_write_close(a), ARCHIVE_OK);
	(void)archive_write_free(a);
	assert_ok(tarfix_import(t, false), &t->x->f->e);
	tarfix_assert_dump(t,
	    " dir\n"
	    "a file 600 size=7 link=a\n"
	    "b file 600 size=7 link=a\n"
	    "c file 600 size=7 link=a\n");
}

static void holes_stay_holes(void **state)
{
	static const char *const ends[] = { "GNU.sparse.size=300000",
		"GNU.sparse.name=ends", "GNU.sparse.map=0,2,100000,2,299999,1",
		NULL };
	static const char *const all[] = { "GNU.sparse.size=70000",
		"GNU.sparse.name=all", "GNU.sparse.map=70000,0", NULL };
	struct tarfix *t = *state;

	tarfix_pax(t, ends);
	tarfix_file(t, "x", "abcde");
	tarfix_pax(t, all);
	tarfix_file(t, "y", "");
	tarfix_end(t);
	assert_ok(tarfix_import(t, true), &t->x->f->e);
	assert_true(t->imported.whole);
	assert_int_equal(t->imported.written.content.size, 5);
	tarfix_assert_dump(t,
	    " dir\n"
	    "all file 640 size=70000 holes=0+70000\n"
	    "ends file 640 size=300000 holes=2+99998,100002+199997\n");
}

static void tells_of_what_comes_behind_the_end(void **state)
{
	(void)state;
	for (int pipe = 0; pipe < 2; pipe++) {
		struct tarfix *t = NULL;
		void *one = NULL;

		assert_int_equal(tarfix_setup(&one), 0);
		t = one;
		tarfix_file(t, "a", "a");
		tarfix_end(t);
		tarfix_zeros(t, 700000);
		tarfix_file(t, "b", "b");
		tarfix_end(t);
		assert_ok(tarfix_import(t, pipe != 0), &t->x->f->e);
		assert_false(t->imported.whole);
		assert_int_equal(
		    restorefix_said(t->x->f,
			"'source' has more behind its end, at offset 2048, "
			"that is left out (see --ignore-zeros)"),
		    1);
		tarfix_assert_dump(t, " dir\na file 640 size=1\n");
		assert_int_equal(tarfix_teardown(&one), 0);
	}
}

static void refuses_what_is_no_archive(void **state)
{
	static const char *const texts[] = { "", "x", "#mtree\n./a type=file\n",
		"just some text, long enough for anything\n",
		"\x1f\x8b\x08\0\0\0\0\0\0\3\x4b\4\0\x43\xbe\xb7\xe8\1\0\0\0" };
	static const size_t sizes[] = { 0, 1, 21, 41, 21 };

	(void)state;
	for (size_t i = 0; i < 2 * TEST_COUNT(texts); i++) {
		struct tarfix *t = NULL;
		void *one = NULL;

		assert_int_equal(tarfix_setup(&one), 0);
		t = one;
		tarfix_bytes(t, texts[i / 2], sizes[i / 2]);
		assert_int_equal(tarfix_import(t, i % 2 != 0), ERR_INVALID);
		assert_string_equal(t->x->f->e.msg,
		    "'source' is neither a directory nor an archive of a kind "
		    "that is known");
		assert_int_equal(tarfix_teardown(&one), 0);
	}
}

static void says_where_an_archive_was_cut_off(void **state)
{
	struct tarfix *t = *state;

	assert_true(make(t, archive_write_set_format_pax,
	    archive_write_add_filter_gzip, true));
	t->tar.len /= 2;
	assert_ok(tarfix_import(t, true), &t->x->f->e);
	assert_false(t->imported.whole);
	assert_int_equal(
	    restorefix_said(t->x->f, "member 'a/large' is not whole"), 1);
	assert_int_equal(restorefix_said(t->x->f, "can not be read behind"), 1);
	assert_int_equal(tarfix_row(t, "a/large").state, CATALOG_STATE_SHORT);
	(void)tarfix_dump(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reads_archives_of_all_kinds),
		TARFIX_TEST(later_members_replace_earlier_ones),
		TARFIX_TEST(all_names_of_a_file_get_its_content),
		TARFIX_TEST(holes_stay_holes),
		cmocka_unit_test(tells_of_what_comes_behind_the_end),
		cmocka_unit_test(refuses_what_is_no_archive),
		TARFIX_TEST(says_where_an_archive_was_cut_off),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
