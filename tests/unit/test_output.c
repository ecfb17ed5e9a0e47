/* SPDX-License-Identifier: MIT */
#include "cli/output.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/support/scratch.h"
#include "tests/support/test.h"

/* Standard output is this file of the scratch directory, or of the system. */
static int aside;

static void divert(int dir, const char *name)
{
	int fd =
	    openat(dir, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	assert_true(fd >= 0);
	(void)fflush(stdout);
	aside = dup(STDOUT_FILENO);
	assert_true(aside >= 0);
	assert_true(dup2(fd, STDOUT_FILENO) >= 0);
	(void)close(fd);
}

/* Nothing asserts in between: its message would go to the file. */
static void restore(void)
{
	(void)fflush(stdout);
	clearerr(stdout);
	(void)dup2(aside, STDOUT_FILENO);
	(void)close(aside);
}

static void prints_text(void **state)
{
	struct scratch *s = *state;
	struct err e = ERR_INIT;
	int rc = 0;

	divert(s->dir, "out");
	rc = output_text(&e, "%s %d\n", "a", 1);
	if (rc == 0)
		rc = output_text(&e, "%s", "");
	if (rc == 0)
		rc = output_flush(&e);
	restore();
	assert_ok(rc, &e);
	scratch_assert_content(s, "out", "a 1\n");
}

static void prints_json(void **state)
{
	struct scratch *s = *state;
	struct err e = ERR_INIT;
	struct js *doc = js_object();
	int rc = 0;

	output_json_begin(&e);
	js_set_u64(doc, "n", 1, &e);
	divert(s->dir, "out");
	rc = output_json(doc, &e);
	if (rc == 0)
		rc = output_flush(&e);
	restore();
	assert_ok(rc, &e);
	scratch_assert_content(s, "out", "{\n  \"n\": 1\n}\n");
}

static int print_array(unsigned n, struct err *e)
{
	struct output_array a;
	int rc = output_array_begin(&a, e);

	for (unsigned i = 0; i < n && rc == 0; i++) {
		struct js *o = js_object();

		output_json_begin(e);
		js_set_u64(o, "n", i, e);
		rc = output_array_add(&a, o, e);
	}
	if (rc == 0)
		rc = output_array_end(&a, e);
	return rc < 0 ? rc : output_flush(e);
}

static void prints_arrays(void **state)
{
	static const char *const want[] = { "[]\n", "[\n  {\"n\":0}\n]\n",
		"[\n  {\"n\":0},\n  {\"n\":1}\n]\n" };
	struct scratch *s = *state;

	for (unsigned n = 0; n < TEST_COUNT(want); n++) {
		struct err e = ERR_INIT;
		int rc = 0;

		divert(s->dir, "out");
		rc = print_array(n, &e);
		restore();
		assert_ok(rc, &e);
		scratch_assert_content(s, "out", want[n]);
	}
}

/* What failed while it was built is not printed as if it were whole. */
static void prints_no_json_that_is_not_whole(void **state)
{
	struct scratch *s = *state;
	struct err e = ERR_INIT;
	struct js *doc = js_object();
	int rc = 0;

	js_set_str(doc, "bad", "\xff", &e);
	assert_true(e.code < 0);
	divert(s->dir, "out");
	rc = output_json(doc, &e);
	restore();
	assert_true(rc < 0);
	scratch_assert_content(s, "out", "");
}

static void notices_a_full_disk(void **state)
{
	struct err e = ERR_INIT;
	int text = 0;
	int flush = 0;

	(void)state;
	if (access("/dev/full", W_OK) < 0)
		skip();
	divert(AT_FDCWD, "/dev/full");
	text = output_text(&e, "a\n");
	flush = output_flush(&e);
	restore();
	assert_true(text == 0 || text == ERR_SYS);
	assert_err(flush, &e, ERR_SYS, "standard output: ");
	assert_int_equal(e.sys_errno, ENOSPC);
}

/* Also when it was only some of it, earlier. */
static void remembers_a_full_disk(void **state)
{
	struct err e = ERR_INIT;
	int flush = 0;
	int again = 0;

	(void)state;
	if (access("/dev/full", W_OK) < 0)
		skip();
	divert(AT_FDCWD, "/dev/full");
	for (int i = 0; i < 10000; i++)
		(void)output_text(&e, "%s\n", "more than a buffer holds");
	flush = output_flush(&e);
	again = output_flush(&e);
	restore();
	assert_int_equal(flush, ERR_SYS);
	assert_int_equal(again, ERR_SYS);
}

static int print_table(const char *align, const char *const *heading,
    const char *const *cells, size_t n, struct err *e)
{
	struct table *t = NULL;
	int rc = table_new(align, heading, &t, e);

	for (size_t i = 0; i < n && rc == 0; i++)
		rc = table_cell(t, e, "%s", cells[i]);
	if (rc == 0)
		rc = table_print(t, e);
	if (rc == 0)
		rc = output_flush(e);
	table_free(t);
	return rc;
}

static void prints_tables(void **state)
{
	static const char *const heading[] = { "name", "size", "note" };
	static const struct {
		const char *align;
		const char *cells[9];
		size_t n;
		const char *want;
	} cases[] = {
		/* No rows: no heading either. */
		{ "lrl", { NULL }, 0, "" },
		{ "lrl", { "a", "1", "x" }, 3,
		    "name  size  note\n"
		    "a        1  x\n" },
		{ "lrl", { "longer", "1", "x", "b", "12345", "" }, 6,
		    "name     size  note\n"
		    "longer      1  x\n"
		    "b       12345\n" },
		{ "llr", { "a", "", "1", "b", "2", "" }, 6,
		    "name  size  note\n"
		    "a              1\n"
		    "b     2\n" },
		/* Width is that of what is seen. */
		{ "lrl", { "gr\xc3\xb6\xc3\x9f", "1", "x", "groess", "2", "y" },
		    6,
		    "name    size  note\n"
		    "gr\xc3\xb6\xc3\x9f       1  x\n"
		    "groess     2  y\n" },
		/* A row that is not whole is not printed. */
		{ "lrl", { "a", "1", "x", "b" }, 4,
		    "name  size  note\n"
		    "a        1  x\n" },
	};
	struct scratch *s = *state;

	for (size_t i = 0; i < TEST_COUNT(cases); i++) {
		struct err e = ERR_INIT;
		int rc = 0;

		divert(s->dir, "out");
		rc = print_table(
		    cases[i].align, heading, cases[i].cells, cases[i].n, &e);
		restore();
		assert_ok(rc, &e);
		scratch_assert_content(s, "out", cases[i].want);
	}
	table_free(NULL);
}

/* More cells than a table begins with. */
static void prints_long_tables(void **state)
{
	static const char *const heading[] = { "n" };
	struct scratch *s = *state;
	struct table *t = NULL;
	struct err e = ERR_INIT;
	char *got = NULL;
	size_t n = 0;
	int rc = table_new("r", heading, &t, &e);

	for (unsigned i = 0; i < 1000 && rc == 0; i++)
		rc = table_cell(t, &e, "%u", i);
	divert(s->dir, "out");
	if (rc == 0)
		rc = table_print(t, &e);
	restore();
	table_free(t);
	assert_ok(rc, &e);
	got = tmpdir_get(s->dir, "out", &n);
	assert_non_null(got);
	assert_int_equal(n, 1001 * 4);
	assert_string_equal(got + 1000 * 4, "999\n");
	free(got);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		SCRATCH_TEST(prints_text),
		SCRATCH_TEST(prints_json),
		SCRATCH_TEST(prints_arrays),
		SCRATCH_TEST(prints_no_json_that_is_not_whole),
		SCRATCH_TEST(notices_a_full_disk),
		SCRATCH_TEST(remembers_a_full_disk),
		SCRATCH_TEST(prints_tables),
		SCRATCH_TEST(prints_long_tables),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
