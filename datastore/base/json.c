/* SPDX-License-Identifier: MIT */
#include "datastore/base/json.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "datastore/base/text.h"

/*
 * A double needs up to 17 digits to be read back as the same one; 15 always
 * survive, and look like what a person would have written.
 */
#define REAL_DIGITS_MIN 15
#define REAL_DIGITS_MAX 17
#define REAL_SIZE 40

#define INDENT 2
#define UTF8_MAX 4    /* bytes of the longest character */
#define SHOWN_SIZE 80 /* of a text in a message */

/*
 * A struct js is a json_t by another name: values got out of a document are
 * borrowed, so nothing may be wrapped around them.
 */
static json_t *to_jansson(struct js *v)
{
	return (json_t *)v;
}

static const json_t *to_jansson_const(const struct js *v)
{
	return (const json_t *)v;
}

static struct js *from_jansson(json_t *v)
{
	return (struct js *)v;
}

void js_free(struct js *v)
{
	json_decref(to_jansson(v));
}

int js_parse(const void *p, size_t n, struct js **ret, struct err *e)
{
	json_error_t error;
	json_t *v = NULL;
	char shown[2 * JSON_ERROR_TEXT_LENGTH];

	/* An empty text may come without an address. */
	v = json_loadb(n == 0 ? "" : p, n,
	    JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &error);
	if (v != NULL) {
		*ret = from_jansson(v);
		return 0;
	}
	if (json_error_code(&error) == json_error_out_of_memory)
		return err_nomem(e);
	/* It quotes the text, which may hold anything. */
	return err_set(e, ERR_CORRUPT, "no JSON: line %d column %d: %s",
	    error.line, error.column,
	    text_name(shown, sizeof(shown), error.text));
}

bool js_is_object(const struct js *v)
{
	return json_is_object(to_jansson_const(v));
}

static const char *type_name(const json_t *v)
{
	switch (json_typeof(v)) {
	case JSON_OBJECT:
		return "an object";
	case JSON_ARRAY:
		return "an array";
	case JSON_STRING:
		return "a string";
	case JSON_INTEGER:
		return "an integer";
	case JSON_REAL:
		return "a fraction";
	case JSON_TRUE:
	case JSON_FALSE:
		return "a boolean";
	case JSON_NULL:
		break;
	}
	return "null";
}

static int wrong_type(
    const json_t *v, const char *key, const char *want, struct err *e)
{
	return err_set(
	    e, ERR_CORRUPT, "'%s' is %s, want %s", key, type_name(v), want);
}

/*
 * Look key up.  *ret is NULL, and *ret_found (which may be NULL) is set to
 * false, when it is not there and need not be.
 */
static int look_up(const struct js *obj, const char *key, json_t **ret,
    bool *ret_found, struct err *e)
{
	const json_t *o = to_jansson_const(obj);
	json_t *v = NULL;

	if (!json_is_object(o)) {
		return err_set(e, ERR_CORRUPT, "%s, want an object with '%s'",
		    o == NULL ? "nothing" : type_name(o), key);
	}
	v = json_object_get(o, key);
	if (json_is_null(v))
		v = NULL;
	if (v == NULL && ret_found == NULL)
		return err_set(e, ERR_CORRUPT, "'%s' is missing", key);
	if (v == NULL)
		*ret_found = false;
	*ret = v;
	return 0;
}

static void found(bool *ret_found)
{
	if (ret_found != NULL)
		*ret_found = true;
}

int js_get(const struct js *obj, const char *key, struct js **ret,
    bool *ret_found, struct err *e)
{
	json_t *v = NULL;
	int rc = look_up(obj, key, &v, ret_found, e);

	if (rc < 0 || v == NULL)
		return rc;
	*ret = from_jansson(v);
	found(ret_found);
	return 0;
}

int js_get_str(const struct js *obj, const char *key, const char **ret,
    bool *ret_found, struct err *e)
{
	json_t *v = NULL;
	int rc = look_up(obj, key, &v, ret_found, e);

	if (rc < 0 || v == NULL)
		return rc;
	if (!json_is_string(v))
		return wrong_type(v, key, "a string", e);
	*ret = json_string_value(v);
	found(ret_found);
	return 0;
}

int js_get_i64(const struct js *obj, const char *key, int64_t *ret,
    bool *ret_found, struct err *e)
{
	json_t *v = NULL;
	int rc = look_up(obj, key, &v, ret_found, e);

	if (rc < 0 || v == NULL)
		return rc;
	if (!json_is_integer(v))
		return wrong_type(v, key, "an integer", e);
	*ret = json_integer_value(v);
	found(ret_found);
	return 0;
}

int js_get_u64(const struct js *obj, const char *key, uint64_t *ret,
    bool *ret_found, struct err *e)
{
	int64_t number = 0;
	bool there = true;
	int rc =
	    js_get_i64(obj, key, &number, ret_found == NULL ? NULL : &there, e);

	if (rc < 0)
		return rc;
	if (there && number < 0) {
		return err_set(e, ERR_CORRUPT,
		    "'%s' is %" PRId64 ", want at least 0", key, number);
	}
	if (there)
		*ret = (uint64_t)number;
	if (ret_found != NULL)
		*ret_found = there;
	return 0;
}

int js_get_array(const struct js *obj, const char *key, struct js **ret,
    size_t *ret_n, bool *ret_found, struct err *e)
{
	json_t *v = NULL;
	int rc = look_up(obj, key, &v, ret_found, e);

	if (rc < 0 || v == NULL)
		return rc;
	if (!json_is_array(v))
		return wrong_type(v, key, "an array", e);
	*ret = from_jansson(v);
	*ret_n = json_array_size(v);
	found(ret_found);
	return 0;
}

struct js *js_at(const struct js *array, size_t i)
{
	return from_jansson(json_array_get(to_jansson_const(array), i));
}

const char *js_str(const struct js *v)
{
	return json_string_value(to_jansson_const(v));
}

struct js *js_object(void)
{
	return from_jansson(json_object());
}

struct js *js_array(void)
{
	return from_jansson(json_array());
}

/* Put v, which may be NULL, into obj; every failure but of memory is told. */
static void set_value(struct js *obj, const char *key, json_t *v, struct err *e)
{
	char shown[SHOWN_SIZE];

	if (e->code != ERR_OK) {
		json_decref(v);
		return;
	}
	if (!text_is_utf8(key, strlen(key))) {
		json_decref(v);
		(void)err_set(e, ERR_INVALID, "key '%s' is not UTF-8",
		    text_name(shown, sizeof(shown), key));
		return;
	}
	/* Takes the value also when it fails. */
	if (json_object_set_new(to_jansson(obj), key, v) < 0)
		(void)err_nomem(e);
}

void js_set(struct js *obj, const char *key, struct js *v, struct err *e)
{
	set_value(obj, key, to_jansson(v), e);
}

/* NULL and *e, unless set already, if it is not UTF-8 or memory is out. */
static json_t *new_string(const char *s, struct err *e)
{
	char shown[SHOWN_SIZE];
	json_t *v = NULL;

	if (e->code != ERR_OK)
		return NULL;
	if (!text_is_utf8(s, strlen(s))) {
		(void)err_set(e, ERR_INVALID, "string '%s' is not UTF-8",
		    text_name(shown, sizeof(shown), s));
		return NULL;
	}
	v = json_string(s);
	if (v == NULL)
		(void)err_nomem(e);
	return v;
}

void js_set_str(struct js *obj, const char *key, const char *s, struct err *e)
{
	if (s == NULL) {
		set_value(obj, key, json_null(), e);
	} else {
		set_value(obj, key, new_string(s, e), e);
	}
}

void js_set_i64(struct js *obj, const char *key, int64_t v, struct err *e)
{
	set_value(obj, key, json_integer(v), e);
}

void js_set_u64(struct js *obj, const char *key, uint64_t v, struct err *e)
{
	if (v <= INT64_MAX) {
		js_set_i64(obj, key, (int64_t)v, e);
		return;
	}
	if (e->code == ERR_OK) {
		(void)err_set(e, ERR_LIMIT,
		    "'%s' is %" PRIu64 ", want at most %" PRId64, key, v,
		    INT64_MAX);
	}
}

void js_set_real(struct js *obj, const char *key, double v, struct err *e)
{
	char digits[REAL_SIZE];

	if (e->code != ERR_OK)
		return;
	if (!isfinite(v)) {
		(void)err_set(
		    e, ERR_INVALID, "'%s' is %f, want a finite number", key, v);
		return;
	}
	/* So that one third of a value does not print the others in 17. */
	(void)snprintf(digits, sizeof(digits), "%.*g", REAL_DIGITS_MIN, v);
	set_value(obj, key, json_real(strtod(digits, NULL)), e);
}

void js_set_bool(struct js *obj, const char *key, bool v, struct err *e)
{
	set_value(obj, key, json_boolean(v), e);
}

void js_set_null(struct js *obj, const char *key, struct err *e)
{
	set_value(obj, key, json_null(), e);
}

/* Bytes of the UTF-8 character that s begins with; 0 if it is none. */
static size_t character_size(const char *s, size_t n)
{
	for (size_t i = 1; i <= UTF8_MAX && i <= n; i++) {
		if (text_is_utf8(s, i))
			return i;
	}
	return 0;
}

static int replace_bad_bytes(
    const char *name, size_t n, struct buf *out, struct err *e)
{
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < n;) {
		size_t size = character_size(name + i, n - i);

		if (size == 0 || name[i] == '\0') {
			rc = buf_append_str(out, "\xef\xbf\xbd", e);
			i++;
		} else {
			rc = buf_append(out, name + i, size, e);
			i += size;
		}
	}
	return rc;
}

void js_set_name(
    struct js *obj, const char *key, const char *name, struct err *e)
{
	if (name == NULL)
		js_set_null(obj, key, e);
	else
		js_set_bytes(obj, key, name, strlen(name), e);
}

/* Both keys, since the text alone would lose something. */
static void set_lossless(
    struct js *obj, const char *key, const char *name, size_t n, struct err *e)
{
	struct buf text = BUF_INIT;
	struct buf hex = BUF_INIT;
	struct buf hex_key = BUF_INIT;
	const char *s = NULL;
	const char *k = NULL;
	int rc = replace_bad_bytes(name, n, &text, e);

	for (size_t i = 0; rc == 0 && i < n; i++)
		rc = buf_append_fmt(&hex, e, "%02x", (unsigned char)name[i]);
	if (rc == 0)
		rc = buf_append_fmt(&hex_key, e, "%s-hex", key);
	if (rc < 0)
		goto out;
	s = buf_cstr(&text, e);
	if (s != NULL)
		js_set_str(obj, key, s, e);
	s = buf_cstr(&hex, e);
	k = buf_cstr(&hex_key, e);
	if (s != NULL && k != NULL)
		js_set_str(obj, k, s, e);
out:
	buf_release(&text);
	buf_release(&hex);
	buf_release(&hex_key);
}

void js_set_bytes(
    struct js *obj, const char *key, const void *p, size_t n, struct err *e)
{
	struct buf text = BUF_INIT;
	const char *s = NULL;

	if (e->code != ERR_OK)
		return;
	if (n > 0 && (memchr(p, 0, n) != NULL || !text_is_utf8(p, n))) {
		set_lossless(obj, key, p, n, e);
		return;
	}
	if (buf_append(&text, p, n, e) == 0)
		s = buf_cstr(&text, e);
	if (s != NULL)
		js_set_str(obj, key, s, e);
	buf_release(&text);
}

void js_append(struct js *array, struct js *v, struct err *e)
{
	if (e->code != ERR_OK) {
		js_free(v);
		return;
	}
	if (json_array_append_new(to_jansson(array), to_jansson(v)) < 0)
		(void)err_nomem(e);
}

void js_remove(struct js *obj, const char *key)
{
	/* Its failure says that there is no such key. */
	(void)json_object_del(to_jansson(obj), key);
}

struct js *js_new_str(const char *s, struct err *e)
{
	return from_jansson(new_string(s, e));
}

/* How many digits does this number need to be read back as it is? */
static int digits_of_number(double v)
{
	char digits[REAL_SIZE];
	int n = REAL_DIGITS_MIN;

	for (; n < REAL_DIGITS_MAX; n++) {
		(void)snprintf(digits, sizeof(digits), "%.*g", n, v);
		if (strtod(digits, NULL) == v)
			break;
	}
	return n;
}

/*
 * The same for the whole document: jansson has one precision for all.  The
 * depth of recursion is that of jansson's own parser and printer.
 */
static int digits_of(json_t *v) // NOLINT(misc-no-recursion)
{
	int most = REAL_DIGITS_MIN;
	size_t n = json_array_size(v);

	if (json_is_real(v))
		return digits_of_number(json_real_value(v));
	for (size_t i = 0; i < n; i++) {
		int digits = digits_of(json_array_get(v, i));

		most = digits > most ? digits : most;
	}
	if (json_is_object(v)) {
		const char *key = NULL;
		json_t *member = NULL;

		json_object_foreach(v, key, member)
		{
			int digits = digits_of(member);

			most = digits > most ? digits : most;
		}
	}
	return most;
}

struct dump_state {
	struct buf *out;
	struct err *e;
};

static int dump_piece(const char *p, size_t n, void *ctx)
{
	struct dump_state *state = ctx;

	return buf_append(state->out, p, n, state->e) < 0 ? -1 : 0;
}

/*
 * Escapes in lower case, as the programs print them that sign canonical
 * JSON.  A backslash begins an escape wherever it stands.
 */
static void lower_escapes(uint8_t *p, size_t n)
{
	for (size_t i = 0; i + 1 < n; i++) {
		if (p[i] != '\\')
			continue;
		i++;
		for (size_t k = i + 1; p[i] == 'u' && k < n && k <= i + 4;
		     k++) {
			if (p[k] >= 'A' && p[k] <= 'F')
				p[k] = (uint8_t)(p[k] - 'A' + 'a');
		}
	}
}

int js_dump(
    const struct js *v, enum js_style style, struct buf *out, struct err *e)
{
	struct dump_state state = { .out = out, .e = e };
	/* Its iterator wants it writable; nothing here writes to it. */
	json_t *j = (json_t *)(uintptr_t)v;
	size_t before = out->len;
	size_t flags = JSON_ENCODE_ANY | JSON_COMPACT;

	if (e->code != ERR_OK)
		return e->code;
	if (v == NULL)
		return err_nomem(e);
	if (style == JS_PRETTY)
		flags = JSON_ENCODE_ANY | JSON_INDENT(INDENT);
	if (style == JS_CANONICAL)
		flags |= JSON_SORT_KEYS;
	flags |= JSON_REAL_PRECISION((size_t)digits_of(j));
	/* jansson goes on after some of the pieces that failed. */
	if (json_dump_callback(j, dump_piece, &state, flags) < 0 ||
	    e->code != ERR_OK) {
		out->len = before;
		/* Ours, or jansson's while sorting: there is no other. */
		return e->code != ERR_OK ? e->code : err_nomem(e);
	}
	if (style == JS_CANONICAL)
		lower_escapes(out->data + before, out->len - before);
	return 0;
}
