/* SPDX-License-Identifier: MIT */
#include "datastore/base/json.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "tests/support/test.h"

struct fixture {
	struct js *v;
	struct js *other;
	struct buf out;
	struct err e;
};

static int setup(void **state)
{
	*state = calloc(1, sizeof(struct fixture));
	return *state == NULL ? -1 : 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	js_free(f->v);
	js_free(f->other);
	buf_release(&f->out);
	free(f);
	return 0;
}

static void parse(struct fixture *f, const char *text)
{
	js_free(f->v);
	f->v = NULL;
	assert_ok(js_parse(text, strlen(text), &f->v, &f->e), &f->e);
}

static const char *dump(
    struct fixture *f, const struct js *v, enum js_style style)
{
	const char *s = NULL;

	buf_reset(&f->out);
	assert_ok(js_dump(v, style, &f->out, &f->e), &f->e);
	s = buf_cstr(&f->out, &f->e);
	assert_non_null(s);
	return s;
}

static void test_parse_refuses(void **state)
{
	static const struct {
		const char *text;
		const char *message;
	} rows[] = {
		{ "", "no JSON: line 1 column 0: unexpected token" },
		{ "{", "line 1 column 1: string or '}' expected" },
		{ "{}\n x", "line 2 column 2: end of file expected" },
		{ "[1,]", "unexpected token near ']'" },
		{ "[01]", "near '0'" },
		{ "[NaN]", "invalid token near 'NaN'" },
		{ "{'a': 1}", "line 1 column 2" },
		{ "{\"a\":1,\n\"a\":2}",
		    "line 2 column 3: duplicate object key" },
		{ "\"a\\u0000b\"", "is not allowed" },
		{ "9223372036854775808", "too big integer" },
		{ "18446744073709551615", "too big integer" },
		{ "-9223372036854775809", "too big negative integer" },
		{ "1e999", "real number overflow" },
		{ "\"\xff\"", "unable to decode byte 0xff" },
		{ "\"\xc0\x80\"", "unable to decode byte 0xc0" },
		{ "\"\xed\xa0\x80\"", "unable to decode byte 0xed" },
		{ "\"\\ud800\"", "invalid Unicode" },
		{ "\xef\xbb\xbf{}", "invalid token" },
		{ "// c\n{}", "invalid token" },
		/* What it quotes of the text drives no terminal. */
		{ "\x1b[31m", "near '\\x1b'" },
	};
	struct fixture *f = *state;

	for (size_t i = 0; i < TEST_COUNT(rows); i++) {
		int rc =
		    js_parse(rows[i].text, strlen(rows[i].text), &f->v, &f->e);

		assert_err(rc, &f->e, ERR_CORRUPT, rows[i].message);
		assert_null(f->v);
	}
	assert_err(js_parse(NULL, 0, &f->v, &f->e), &f->e, ERR_CORRUPT,
	    "unexpected token");
	assert_err(js_parse("{}\0", 3, &f->v, &f->e), &f->e, ERR_CORRUPT,
	    "end of file expected");
}

static void test_parse_depth(void **state)
{
	struct fixture *f = *state;

	for (unsigned i = 0; i < 100000; i++)
		assert_ok(buf_append_str(&f->out, "[", &f->e), &f->e);
	assert_err(js_parse(f->out.data, f->out.len, &f->v, &f->e), &f->e,
	    ERR_CORRUPT, "maximum parsing depth");
}

static void test_get(void **state)
{
	struct fixture *f = *state;
	struct js *v = NULL;
	const char *s = NULL;
	uint64_t u = 0;
	int64_t i = 0;
	size_t n = 0;
	bool found = false;

	parse(f,
	    "{\"s\":\"x\xc3\xa4\",\"u\":9223372036854775807,\"i\":-5,"
	    "\"a\":[\"p\",2,null],\"o\":{\"k\":0},\"z\":null}");
	assert_true(js_is_object(f->v));
	assert_ok(js_get_str(f->v, "s", &s, NULL, &f->e), &f->e);
	assert_string_equal(s, "x\xc3\xa4");
	assert_ok(js_get_u64(f->v, "u", &u, &found, &f->e), &f->e);
	assert_true(found);
	assert_int_equal(u, INT64_MAX);
	assert_ok(js_get_i64(f->v, "i", &i, NULL, &f->e), &f->e);
	assert_true(i == -5);
	assert_ok(js_get_array(f->v, "a", &v, &n, NULL, &f->e), &f->e);
	assert_int_equal(n, 3);
	assert_string_equal(js_str(js_at(v, 0)), "p");
	assert_null(js_str(js_at(v, 1)));
	assert_null(js_str(NULL));
	assert_ok(js_get(f->v, "o", &v, &found, &f->e), &f->e);
	assert_ok(js_get_u64(v, "k", &u, NULL, &f->e), &f->e);
	assert_int_equal(u, 0);
}

/* A key that is not there, or null: said where it may be, else an error. */
static void test_get_missing(void **state)
{
	static const char *const keys[] = { "none", "z" };
	struct fixture *f = *state;
	struct js *v = NULL;
	const char *s = "kept";
	uint64_t u = 77;
	int64_t i = 78;
	size_t n = 79;

	parse(f, "{\"z\":null}");
	for (size_t k = 0; k < TEST_COUNT(keys); k++) {
		const char *key = keys[k];
		bool found[5] = { true, true, true, true, true };

		assert_ok(js_get(f->v, key, &v, &found[0], &f->e), &f->e);
		assert_ok(js_get_str(f->v, key, &s, &found[1], &f->e), &f->e);
		assert_ok(js_get_u64(f->v, key, &u, &found[2], &f->e), &f->e);
		assert_ok(js_get_i64(f->v, key, &i, &found[3], &f->e), &f->e);
		assert_ok(
		    js_get_array(f->v, key, &v, &n, &found[4], &f->e), &f->e);
		for (size_t m = 0; m < TEST_COUNT(found); m++)
			assert_false(found[m]);
		assert_err(js_get_str(f->v, key, &s, NULL, &f->e), &f->e,
		    ERR_CORRUPT, "' is missing");
		assert_err(js_get_u64(f->v, key, &u, NULL, &f->e), &f->e,
		    ERR_CORRUPT, key);
	}
	assert_null(v);
	assert_string_equal(s, "kept");
	assert_int_equal(u, 77);
	assert_int_equal(i, 78);
	assert_int_equal(n, 79);
}

static void test_get_wrong_type(void **state)
{
	struct fixture *f = *state;
	struct js *v = NULL;
	const char *s = NULL;
	uint64_t u = 0;
	int64_t i = 0;
	size_t n = 0;
	bool found = false;

	parse(f,
	    "{\"s\":\"1\",\"r\":1.0,\"i\":-1,\"a\":[],\"o\":{},\"b\":false}");
	assert_err(js_get_str(f->v, "i", &s, &found, &f->e), &f->e, ERR_CORRUPT,
	    "'i' is an integer, want a string");
	assert_err(js_get_u64(f->v, "s", &u, &found, &f->e), &f->e, ERR_CORRUPT,
	    "'s' is a string, want an integer");
	assert_err(js_get_u64(f->v, "r", &u, &found, &f->e), &f->e, ERR_CORRUPT,
	    "'r' is a fraction, want an integer");
	assert_err(js_get_u64(f->v, "i", &u, &found, &f->e), &f->e, ERR_CORRUPT,
	    "'i' is -1, want at least 0");
	assert_err(js_get_i64(f->v, "b", &i, &found, &f->e), &f->e, ERR_CORRUPT,
	    "'b' is a boolean, want an integer");
	assert_err(js_get_array(f->v, "o", &v, &n, &found, &f->e), &f->e,
	    ERR_CORRUPT, "'o' is an object, want an array");
	assert_ok(js_get(f->v, "a", &v, NULL, &f->e), &f->e);
	assert_err(js_get_str(v, "k", &s, &found, &f->e), &f->e, ERR_CORRUPT,
	    "an array, want an object with 'k'");
	assert_err(js_get_str(NULL, "k", &s, &found, &f->e), &f->e, ERR_CORRUPT,
	    "nothing, want an object with 'k'");
	assert_false(found);
	assert_null(s);
}

static void test_build(void **state)
{
	struct fixture *f = *state;
	struct js *list = js_array();

	f->v = js_object();
	js_set_str(f->v, "b", "\xe2\x82\xac \"q\" \\ \n", &f->e);
	js_set_str(f->v, "a", NULL, &f->e);
	js_set_u64(f->v, "u", INT64_MAX, &f->e);
	js_set_i64(f->v, "i", INT64_MIN, &f->e);
	js_set_bool(f->v, "t", true, &f->e);
	js_set_bool(f->v, "f", false, &f->e);
	js_set_null(f->v, "n", &f->e);
	js_append(list, js_new_str("x", &f->e), &f->e);
	js_append(list, js_object(), &f->e);
	js_append(list, js_array(), &f->e);
	js_set(f->v, "l", list, &f->e);
	js_set_bool(f->v, "gone", true, &f->e);
	js_remove(f->v, "gone");
	js_remove(f->v, "never there");
	assert_int_equal(f->e.code, ERR_OK);
	assert_string_equal(dump(f, f->v, JS_COMPACT),
	    "{\"b\":\"\xe2\x82\xac \\\"q\\\" \\\\ \\n\",\"a\":null,"
	    "\"u\":9223372036854775807,\"i\":-9223372036854775808,"
	    "\"t\":true,\"f\":false,\"n\":null,\"l\":[\"x\",{},[]]}");
	assert_string_equal(dump(f, f->v, JS_CANONICAL),
	    "{\"a\":null,\"b\":\"\xe2\x82\xac \\\"q\\\" \\\\ \\n\","
	    "\"f\":false,\"i\":-9223372036854775808,\"l\":[\"x\",{},[]],"
	    "\"n\":null,\"t\":true,\"u\":9223372036854775807}");
	/* A key set again keeps its place. */
	js_set_u64(f->v, "a", 1, &f->e);
	js_remove(f->v, "b");
	assert_string_equal(dump(f, f->v, JS_PRETTY),
	    "{\n  \"a\": 1,\n  \"u\": 9223372036854775807,\n"
	    "  \"i\": -9223372036854775808,\n  \"t\": true,\n"
	    "  \"f\": false,\n  \"n\": null,\n"
	    "  \"l\": [\n    \"x\",\n    {},\n    []\n  ]\n}");
}

/* Sorted by bytes at every depth, the longer of two like keys behind. */
static void test_canonical(void **state)
{
	struct fixture *f = *state;

	parse(f,
	    "{ \"b\" : [ { \"z\": 1, \"a\": 2 } ], \"\xc3\xa4\": 1, \"ab\": 2,"
	    " \"a-\": 3, \"a\": 4, \"Z\": 5, \"\": 6, \"ab0\": 7 }");
	assert_string_equal(dump(f, f->v, JS_CANONICAL),
	    "{\"\":6,\"Z\":5,\"a\":4,\"a-\":3,\"ab\":2,\"ab0\":7,"
	    "\"b\":[{\"a\":2,\"z\":1}],\"\xc3\xa4\":1}");
	/* Escapes in small letters; a backslash that is text is none. */
	parse(f, "[\"\\u001F\\u007f/\\\\u00AB\\u000C\\u00e4\\\\\\u001B\"]");
	assert_string_equal(dump(f, f->v, JS_CANONICAL),
	    "[\"\\u001f\x7f/\\\\u00AB\\f\xc3\xa4\\\\\\u001b\"]");
}

static void test_dump_appends(void **state)
{
	struct fixture *f = *state;

	parse(f, "\"x\"");
	assert_ok(buf_append_str(&f->out, "\\u00AB ", &f->e), &f->e);
	assert_ok(js_dump(f->v, JS_CANONICAL, &f->out, &f->e), &f->e);
	assert_string_equal(buf_cstr(&f->out, &f->e), "\\u00AB \"x\"");
}

static void test_real(void **state)
{
	static const struct {
		double v;
		const char *text;
	} rows[] = {
		{ 0.1, "{\"r\":0.1}" },
		{ 5.3, "{\"r\":5.3}" },
		{ 3, "{\"r\":3.0}" },
		{ -1e300, "{\"r\":-1e300}" },
		{ 1.0 / 3, "{\"r\":0.333333333333333}" },
	};
	static const double bad[] = { (double)INFINITY, (double)NAN };
	struct fixture *f = *state;

	for (size_t i = 0; i < TEST_COUNT(rows); i++) {
		js_free(f->v);
		f->v = js_object();
		js_set_real(f->v, "r", rows[i].v, &f->e);
		assert_string_equal(dump(f, f->v, JS_COMPACT), rows[i].text);
	}
	for (size_t i = 0; i < TEST_COUNT(bad); i++) {
		f->e = (struct err)ERR_INIT;
		js_set_real(f->v, "r", bad[i], &f->e);
		assert_err(js_dump(f->v, JS_COMPACT, &f->out, &f->e), &f->e,
		    ERR_INVALID, "want a finite number");
	}
	/* What others wrote keeps its value, in as few digits as it takes. */
	f->e = (struct err)ERR_INIT;
	parse(f, "[{\"a\":[0.30000000000000004]},0.5]");
	assert_string_equal(
	    dump(f, f->v, JS_COMPACT), "[{\"a\":[0.30000000000000004]},0.5]");
	parse(f, "[0.1234567890123456,0.5]");
	assert_string_equal(
	    dump(f, f->v, JS_COMPACT), "[0.1234567890123456,0.5]");
}

static void test_name(void **state)
{
	static const struct {
		const char *name;
		const char *text;
	} rows[] = {
		{ "", "{\"n\":\"\"}" },
		{ "a\xc3\xa4\n", "{\"n\":\"a\xc3\xa4\\n\"}" },
		{ "a\xff"
		  "b",
		    "{\"n\":\"a\xef\xbf\xbd"
		    "b\",\"n-hex\":\"61ff62\"}" },
		/* Cut short, over-long, surrogate: each byte for itself. */
		{ "\xe2\x82",
		    "{\"n\":\"\xef\xbf\xbd\xef\xbf\xbd\","
		    "\"n-hex\":\"e282\"}" },
		{ "\xc0\x80",
		    "{\"n\":\"\xef\xbf\xbd\xef\xbf\xbd\","
		    "\"n-hex\":\"c080\"}" },
		{ "\xff\xf0\x9f\x92\xbe",
		    "{\"n\":\"\xef\xbf\xbd\xf0\x9f\x92\xbe\","
		    "\"n-hex\":\"fff09f92be\"}" },
	};
	struct fixture *f = *state;

	for (size_t i = 0; i < TEST_COUNT(rows); i++) {
		js_free(f->v);
		f->v = js_object();
		js_set_name(f->v, "n", rows[i].name, &f->e);
		assert_string_equal(dump(f, f->v, JS_COMPACT), rows[i].text);
	}
}

/* Bytes that no string of C could hold. */
static void test_bytes(void **state)
{
	struct fixture *f = *state;

	f->v = js_object();
	js_set_bytes(f->v, "a", "abcd", 3, &f->e);
	js_set_bytes(f->v, "b", "x\0y", 3, &f->e);
	js_set_bytes(f->v, "c", "\xffz", 1, &f->e);
	js_set_bytes(f->v, "d", NULL, 0, &f->e);
	assert_string_equal(dump(f, f->v, JS_COMPACT),
	    "{\"a\":\"abc\",\"b\":\"x\xef\xbf\xbdy\",\"b-hex\":\"780079\","
	    "\"c\":\"\xef\xbf\xbd\",\"c-hex\":\"ff\",\"d\":\"\"}");
}

/* The first error of a document stays, and comes out at the end. */
static void test_sticky_error(void **state)
{
	struct fixture *f = *state;

	f->v = js_object();
	js_set_str(f->v, "bad", "\xff", &f->e);
	js_set_str(f->v, "worse", "\xfe", &f->e);
	js_set_str(f->v, "good", "x", &f->e);
	js_set_name(f->v, "name", "\xff", &f->e);
	js_set_real(f->v, "real", 1, &f->e);
	js_set_u64(f->v, "big", UINT64_MAX, &f->e);
	js_set(f->v, "o", js_object(), &f->e);
	assert_null(js_new_str("x", &f->e));
	f->other = js_array();
	js_append(f->other, js_object(), &f->e);
	assert_err(js_dump(f->v, JS_PRETTY, &f->out, &f->e), &f->e, ERR_INVALID,
	    "string '\\xff' is not UTF-8");
	assert_int_equal(f->out.len, 0);

	f->e = (struct err)ERR_INIT;
	assert_string_equal(dump(f, f->v, JS_COMPACT), "{}");
	assert_string_equal(dump(f, f->other, JS_COMPACT), "[]");
}

static void test_bad_values(void **state)
{
	struct fixture *f = *state;

	f->v = js_object();
	js_set_u64(f->v, "big", (uint64_t)INT64_MAX + 1, &f->e);
	assert_err(js_dump(f->v, JS_COMPACT, &f->out, &f->e), &f->e, ERR_LIMIT,
	    "'big' is 9223372036854775808, want at most 9223372036854775807");
	f->e = (struct err)ERR_INIT;
	js_set_bool(f->v, "\xff", true, &f->e);
	assert_err(js_dump(f->v, JS_COMPACT, &f->out, &f->e), &f->e,
	    ERR_INVALID, "key '\\xff' is not UTF-8");
	/* NULL is what a constructor gives when memory is out. */
	f->e = (struct err)ERR_INIT;
	js_set(f->v, "k", NULL, &f->e);
	assert_int_equal(f->e.code, ERR_NOMEM);
	f->e = (struct err)ERR_INIT;
	js_set_bool(NULL, "k", true, &f->e);
	assert_int_equal(f->e.code, ERR_NOMEM);
	f->e = (struct err)ERR_INIT;
	js_append(NULL, js_object(), &f->e);
	assert_int_equal(f->e.code, ERR_NOMEM);
	f->e = (struct err)ERR_INIT;
	assert_true(js_dump(NULL, JS_COMPACT, &f->out, &f->e) == ERR_NOMEM);
	js_free(NULL);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_parse_refuses),
		TEST(test_parse_depth),
		TEST(test_get),
		TEST(test_get_missing),
		TEST(test_get_wrong_type),
		TEST(test_build),
		TEST(test_canonical),
		TEST(test_dump_appends),
		TEST(test_real),
		TEST(test_name),
		TEST(test_bytes),
		TEST(test_sticky_error),
		TEST(test_bad_values),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
