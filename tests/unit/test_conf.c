/* SPDX-License-Identifier: MIT */
#include "datastore/base/conf.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "datastore/base/buf.h"
#include "tests/support/fault.h"
#include "tests/support/test.h"
#include "tests/support/tmpdir.h"

#define LINE_BYTES 4096
#define FILE_BYTES ((size_t)1 << 20)

struct fixture {
	struct tmpdir dir;
	char path[PATH_MAX + 16];
	struct buf seen;    /* one line for each item */
	const char *refuse; /* this key or section */
	int refuse_code;
	struct err e;
};

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	if (f == NULL)
		return -1;
	tmpdir_make(&f->dir);
	(void)snprintf(f->path, sizeof(f->path), "%s/c", f->dir.path);
	f->refuse_code = ERR_INVALID;
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	fault_uninstall();
	tmpdir_remove(&f->dir);
	buf_release(&f->seen);
	free(f);
	return 0;
}

static int handle(void *ctx, const struct conf_item *item, struct err *e)
{
	struct fixture *f = ctx;
	const char *what = item->key == NULL ? item->section : item->key;

	if (f->refuse != NULL && strcmp(what, f->refuse) == 0)
		return err_set(e, f->refuse_code, "no '%s' today", what);
	if (item->key == NULL) {
		assert_null(item->value);
		return buf_append_fmt(&f->seen, e, "%u [%s|%s]\n", item->line,
		    item->section, item->name);
	}
	return buf_append_fmt(&f->seen, e, "%u %s|%s|%s=%s\n", item->line,
	    item->section, item->name, item->key, item->value);
}

static int read_bytes(struct fixture *f, const void *p, size_t n)
{
	tmpdir_put(f->dir.fd, "c", p, n);
	buf_reset(&f->seen);
	f->e = (struct err)ERR_INIT;
	return conf_read_file(f->path, handle, f, &f->e);
}

static int read_text(struct fixture *f, const char *text)
{
	return read_bytes(f, text, strlen(text));
}

/* The items of a text that is right. */
static void test_good(void **state)
{
	static const struct {
		const char *text;
		const char *items;
	} rows[] = {
		{ "", "" },
		{ "\n\n; c\n# c\n \t\n  ; c", "" },
		{ "[a]", "1 [a|]\n" },
		{ "[a]\nk = v\n", "1 [a|]\n2 a||k=v\n" },
		{ "[a]\nk=v", "1 [a|]\n2 a||k=v\n" },
		{ "[a]\r\nk = v\r\n", "1 [a|]\n2 a||k=v\n" },
		{ "\xef\xbb\xbf[a]\nk = v\n", "1 [a|]\n2 a||k=v\n" },
		{ "\t[a] ; c\n\n\tk\t =\t v w\t \n", "1 [a|]\n3 a||k=v w\n" },
		/* Sections with names, more than one, again, empty. */
		{ "[d \"x\"]\np=1\n[d  \"y ]z\"]\n[e]\n[d \"x\"]\np=2\n",
		    "1 [d|x]\n2 d|x|p=1\n3 [d|y ]z]\n4 [e|]\n5 [d|x]\n"
		    "6 d|x|p=2\n" },
		/* Longer than what libinih keeps of a section: 50 bytes. */
		{ "[d \"0123456789012345678901234567890123456789012345678901"
		  "23456789\"]\nk=v",
		    "1 [d|0123456789012345678901234567890123456789012345678901"
		    "23456789]\n2 d|0123456789012345678901234567890123456789012"
		    "34567890123456789|k=v\n" },
		/* Values: empty, with every sign that means something. */
		{ "[a]\nk =\nl= ; c\nm =;v\n",
		    "1 [a|]\n2 a||k=\n3 a||l=\n4 a||m=;v\n" },
		{ "[a]\nk = a=b:c[d]\"e\"\n",
		    "1 [a|]\n2 a||k=a=b:c[d]\"e\"\n" },
		{ "[a]\nk = x;y#z\nl = x ;y\nm = x # y ; z\nn = x\t; y\n",
		    "1 [a|]\n2 a||k=x;y#z\n3 a||l=x\n4 a||m=x\n5 a||n=x\n" },
		{ "[a]\nk = \xc3\xa4 \xf0\x9f\x92\xbe\n",
		    "1 [a|]\n2 a||k=\xc3\xa4 \xf0\x9f\x92\xbe\n" },
		/* No continuation: an indented line is a line. */
		{ "[a]\nk = v\n  l = w\n", "1 [a|]\n2 a||k=v\n3 a||l=w\n" },
		{ "[a]\nA-z_0.9 = v\nk = 1\nk = 2\n",
		    "1 [a|]\n2 a||A-z_0.9=v\n3 a||k=1\n4 a||k=2\n" },
	};
	struct fixture *f = *state;

	for (size_t i = 0; i < TEST_COUNT(rows); i++) {
		assert_ok(read_text(f, rows[i].text), &f->e);
		assert_string_equal(buf_cstr(&f->seen, &f->e), rows[i].items);
	}
}

#define WANT_HEADING "', want '[word]' or '[word \"name\"]'"
#define WANT_LINE "', want 'key = value' or '[section]'"

/* Whole messages, without the path. */
static void test_bad(void **state)
{
	static const struct {
		const char *text;
		const char *message;
	} rows[] = {
		{ "k = v\n", ":1: 'k = v' before the first '[section]'" },
		{ "; c\n\nk = v\n",
		    ":3: 'k = v' before the first '[section]'" },
		{ "[a]\nword\n", ":2: 'word" WANT_LINE },
		{ "[a]\nk = v\n  more of v\n", ":3: 'more of v" WANT_LINE },
		{ "[a]\n= v\n", ":2: '= v" WANT_LINE },
		{ "[a]\nk: v\n", ":2: 'k: v" WANT_LINE },
		{ "[a]\nk:l = v\n", ":2: 'k:l = v" WANT_LINE },
		{ "[a]\nk l = v\n", ":2: 'k l = v" WANT_LINE },
		{ "[a]\nk ; = v\n", ":2: 'k" WANT_LINE },
		{ "[a]\nk\xc3\xa4 = v\n", ":2: 'k\xc3\xa4 = v" WANT_LINE },
		{ "\xef\xbb\xbf\xef\xbb\xbf[a]\n",
		    ":1: '\xef\xbb\xbf[a]" WANT_LINE },
		{ "[a\n", ":1: heading '[a" WANT_HEADING },
		{ "[", ":1: heading '[" WANT_HEADING },
		{ "\n[]\n", ":2: heading '[]" WANT_HEADING },
		{ "[a]b\n", ":1: heading '[a]b" WANT_HEADING },
		{ "[a] k = v\n", ":1: heading '[a] k = v" WANT_HEADING },
		{ "[ a]\n", ":1: heading '[ a]" WANT_HEADING },
		{ "[a ]\n", ":1: heading '[a ]" WANT_HEADING },
		{ "[a b]\n", ":1: heading '[a b]" WANT_HEADING },
		{ "[a/b]\n", ":1: heading '[a/b]" WANT_HEADING },
		{ "[a \"\"]\n", ":1: heading '[a \"\"]" WANT_HEADING },
		{ "[a \"]\n", ":1: heading '[a \"]" WANT_HEADING },
		{ "[a \"b]\n", ":1: heading '[a \"b]" WANT_HEADING },
		{ "[a b\"]\n", ":1: heading '[a b\"]" WANT_HEADING },
		{ "[a\"b\"]\n", ":1: heading '[a\"b\"]" WANT_HEADING },
		{ "[a \"b\"c\"]\n", ":1: heading '[a \"b\"c\"]" WANT_HEADING },
		{ "[a \"b\" ]\n", ":1: heading '[a \"b\" ]" WANT_HEADING },
		{ "[\"b\"]\n", ":1: heading '[\"b\"]" WANT_HEADING },
		{ "[a \"b ;c\"]\n", ":1: heading '[a \"b" WANT_HEADING },
		{ "[a]\n\nk = \x1b[1m\n", ":3: control character 0x1b" },
		{ "; \x7f\n", ":1: control character 0x7f" },
		{ "[a]\rk = v\n", ":1: control character 0x0d" },
		{ "[a]\nk = v\r", ":2: control character 0x0d" },
		{ "[a]\nk = \xff\n", ":2: line is not UTF-8" },
		{ "# \xc0\x80\n", ":1: line is not UTF-8" },
	};
	struct fixture *f = *state;

	for (size_t i = 0; i < TEST_COUNT(rows); i++) {
		int rc = read_text(f, rows[i].text);

		assert_err(rc, &f->e, ERR_INVALID, "");
		assert_memory_equal(f->e.msg, f->path, strlen(f->path));
		assert_string_equal(
		    f->e.msg + strlen(f->path), rows[i].message);
	}
	assert_err(read_bytes(f, "[a]\n\nk = a\0b\n", 13), &f->e, ERR_INVALID,
	    ":3: control character 0x00");
	/* What came before the error has been handed over. */
	assert_string_equal(buf_cstr(&f->seen, &f->e), "1 [a|]\n");
}

/* Put start, then fill up to n bytes. */
static void append_filled(
    struct fixture *f, struct buf *b, const char *start, size_t n, char fill)
{
	assert_ok(buf_append_str(b, start, &f->e), &f->e);
	for (size_t i = strlen(start); i < n; i++)
		assert_ok(buf_append(b, &fill, 1, &f->e), &f->e);
}

/* A line of n bytes, with `[a]` before and `l = w` behind it. */
static int read_long_line(
    struct fixture *f, const char *start, size_t n, char fill)
{
	struct buf text = BUF_INIT;
	int rc = 0;

	assert_ok(buf_append_str(&text, "[a]\n", &f->e), &f->e);
	append_filled(f, &text, start, n, fill);
	assert_ok(buf_append_str(&text, "\nl = w\n", &f->e), &f->e);
	rc = read_bytes(f, text.data, text.len);
	buf_release(&text);
	return rc;
}

static void test_long_lines(void **state)
{
	static const char *const starts[] = { "k = ", "; ", "\t" };
	struct fixture *f = *state;
	struct buf want = BUF_INIT;
	bool same = false;

	/* libinih itself would cut at 200. */
	assert_ok(read_long_line(f, "k = ", LINE_BYTES, 'x'), &f->e);
	assert_ok(buf_append_str(&want, "1 [a|]\n", &f->e), &f->e);
	append_filled(
	    f, &want, "2 a||k=", strlen("2 a||k=") + LINE_BYTES - 4, 'x');
	assert_ok(buf_append_str(&want, "\n3 a||l=w\n", &f->e), &f->e);
	same = want.len == f->seen.len &&
	    memcmp(want.data, f->seen.data, want.len) == 0;
	buf_release(&want);
	assert_true(same);

	assert_ok(read_long_line(f, "; ", LINE_BYTES, 'x'), &f->e);
	assert_string_equal(buf_cstr(&f->seen, &f->e), "1 [a|]\n3 a||l=w\n");
	for (size_t i = 0; i < TEST_COUNT(starts); i++) {
		int rc = read_long_line(f, starts[i], LINE_BYTES + 1, ' ');

		assert_err(rc, &f->e, ERR_INVALID,
		    ":2: line of 4097 bytes, want at most 4096");
	}
}

static void test_handler_refuses(void **state)
{
	struct fixture *f = *state;
	const char *text = "[a]\n\nk = v\nl = w\n[b \"c\"]\n";

	f->refuse = "k";
	assert_err(read_text(f, text), &f->e, ERR_INVALID, "c:3: no 'k' today");
	assert_string_equal(buf_cstr(&f->seen, &f->e), "1 [a|]\n");
	f->refuse = "b";
	assert_err(read_text(f, text), &f->e, ERR_INVALID, "c:5: no 'b' today");
	assert_string_equal(
	    buf_cstr(&f->seen, &f->e), "1 [a|]\n3 a||k=v\n4 a||l=w\n");
	/* The code is the handler's, too. */
	f->refuse_code = ERR_NOMEM;
	assert_err(read_text(f, text), &f->e, ERR_NOMEM, "c:5: no 'b' today");
}

static void test_files(void **state)
{
	struct fixture *f = *state;
	size_t fds = tmpdir_open_fds();
	char *big = NULL;
	int rc = 0;

	assert_err(conf_read_file(f->path, handle, f, &f->e), &f->e,
	    ERR_NOTFOUND, "c' does not exist");
	/* A link to it will do. */
	tmpdir_put_str(f->dir.fd, "real", "[a]\n");
	assert_int_equal(symlinkat("real", f->dir.fd, "c"), 0);
	assert_ok(conf_read_file(f->path, handle, f, &f->e), &f->e);
	assert_string_equal(buf_cstr(&f->seen, &f->e), "1 [a|]\n");
	assert_int_equal(unlinkat(f->dir.fd, "c", 0), 0);
	assert_int_equal(mkdirat(f->dir.fd, "c", 0755), 0);
	assert_err(conf_read_file(f->path, handle, f, &f->e), &f->e, ERR_SYS,
	    "Is a directory");
	assert_int_equal(unlinkat(f->dir.fd, "c", AT_REMOVEDIR), 0);

	big = malloc(FILE_BYTES + 1);
	assert_non_null(big);
	memset(big, '\n', FILE_BYTES + 1);
	rc = read_bytes(f, big, FILE_BYTES);
	if (rc == 0)
		rc = read_bytes(f, big, FILE_BYTES + 1);
	free(big);
	assert_err(rc, &f->e, ERR_LIMIT, "longer than 1048576 bytes");
	assert_int_equal(tmpdir_open_fds(), fds);
}

static void test_failing_reads(void **state)
{
	struct fixture *f = *state;
	size_t fds = tmpdir_open_fds();
	uint64_t n = 1;

	fault_install();
	for (;; n++) {
		int rc = 0;

		fault_reset();
		fault_add(&(struct fault_rule){
		    .calls = FAULT_ANY & ~FAULT_BIT(FAULT_CLOSE),
		    .what = FAULT_FAIL,
		    .at = n,
		    .times = 1,
		    .error = EIO });
		rc = read_text(f, "[a]\nk = v\n");
		if (fault_hits() == 0) {
			assert_ok(rc, &f->e);
			break;
		}
		assert_err(rc, &f->e, ERR_SYS, "Input/output error");
		assert_int_equal(f->seen.len, 0);
		assert_int_equal(tmpdir_open_fds(), fds);
	}
	/* At least one open and one read failed. */
	assert_true(n >= 3);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_good),
		TEST(test_bad),
		TEST(test_long_lines),
		TEST(test_handler_refuses),
		TEST(test_files),
		TEST(test_failing_reads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
