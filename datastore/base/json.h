/* SPDX-License-Identifier: MIT */
/*
 * json: JSON in (manifests, state files) and out (--json), over jansson.
 *
 * The only home of jansson.  Reading is strict: one document, UTF-8, no
 * duplicate keys, no NUL in strings, integers within 64 bits (an integer in
 * 2^63..2^64-1 is refused).  A `struct js` is one value; a value put into
 * another belongs to it.  Values got out of one are borrowed: good while the
 * outer one lives and is not changed.
 */
#ifndef CAIRN_DATASTORE_BASE_JSON_H
#define CAIRN_DATASTORE_BASE_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "datastore/base/buf.h"
#include "datastore/base/err.h"

struct js;

void js_free(struct js *v); /* NULL is allowed; not for borrowed values */

/* ERR_CORRUPT with line and column if it is not JSON. */
int js_parse(const void *p, size_t n, struct js **ret, struct err *e);

/* Reading.  A missing key or null: *ret_found false and *ret left alone
 * (ret_found may be NULL: then it is an error).  Another type than asked for
 * is ERR_CORRUPT naming the key. */
bool js_is_object(const struct js *v);
int js_get(const struct js *obj, const char *key, struct js **ret,
    bool *ret_found, struct err *e);
int js_get_str(const struct js *obj, const char *key, const char **ret,
    bool *ret_found, struct err *e);
int js_get_u64(const struct js *obj, const char *key, uint64_t *ret,
    bool *ret_found, struct err *e);
int js_get_i64(const struct js *obj, const char *key, int64_t *ret,
    bool *ret_found, struct err *e);
int js_get_array(const struct js *obj, const char *key, struct js **ret,
    size_t *ret_n, bool *ret_found, struct err *e);
struct js *js_at(const struct js *array, size_t i); /* borrowed; i < n */
const char *js_str(const struct js *v);             /* NULL if no string */

/*
 * Building.  The constructors return NULL when memory is out, and every
 * setter takes a NULL value or target and remembers it in *e: a document can
 * be built without looking at each step, as long as e is looked at once, at
 * the end (js_dump fails with it).  Setters take ownership of the value.
 */
struct js *js_object(void);
struct js *js_array(void);
void js_set(struct js *obj, const char *key, struct js *v, struct err *e);
void js_set_str(struct js *obj, const char *key, const char *s,
    struct err *e); /* must be UTF-8; NULL gives null */
void js_set_u64(struct js *obj, const char *key, uint64_t v, struct err *e);
void js_set_i64(struct js *obj, const char *key, int64_t v, struct err *e);
/* Rounded to 15 digits, so that 0.1 stays 0.1; must be finite. */
void js_set_real(struct js *obj, const char *key, double v, struct err *e);
void js_set_bool(struct js *obj, const char *key, bool v, struct err *e);
void js_set_null(struct js *obj, const char *key, struct err *e);
/* A name of any bytes: KEY holds it as text (bad bytes as U+FFFD) and, only
 * where that lost something, KEY-hex holds all its bytes in hex.  NULL: null.
 */
void js_set_name(
    struct js *obj, const char *key, const char *name, struct err *e);
/* The same of n bytes; a zero byte among them counts as a bad one. */
void js_set_bytes(
    struct js *obj, const char *key, const void *p, size_t n, struct err *e);
void js_append(struct js *array, struct js *v, struct err *e);
void js_remove(struct js *obj, const char *key);
struct js *js_new_str(const char *s, struct err *e);

enum js_style {
	JS_COMPACT, /* one line */
	JS_PRETTY,  /* two blanks of indent */
	/* One line, keys sorted by bytes, no blanks, escapes in lower case. */
	JS_CANONICAL,
};

/* Appends the text.  If e is already set, returns that error. */
int js_dump(
    const struct js *v, enum js_style style, struct buf *out, struct err *e);

#endif
