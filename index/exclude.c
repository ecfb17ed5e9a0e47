/* SPDX-License-Identifier: MIT */
#include "index/exclude.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "datastore/base/buf.h"
#include "datastore/base/file.h"
#include "datastore/base/sysio.h"
#include "datastore/base/text.h"

#define SHOWN 256
#define READ_BYTES ((size_t)64 << 10)

/* A file of patterns is read whole; a longer one is a mistake. */
#define FILE_MAX_BYTES (16U << 20)

/* What stands between two slashes. */
struct segment {
	const char *p;
	size_t n;
	bool any; /* two stars and more: any number of components */
};

struct pattern {
	char *text; /* the segments lie in it */
	struct segment *segments;
	size_t n;
	bool negated;
	bool dir_only;
	bool base_only; /* no slash: the last component, wherever it is */
};

struct exclude {
	struct pattern *patterns;
	size_t n;
	size_t room;
};

int exclude_new(struct exclude **ret, struct err *e)
{
	struct exclude *x = calloc(1, sizeof(*x));

	if (x == NULL)
		return err_nomem(e);
	*ret = x;
	return 0;
}

static void pattern_release(struct pattern *p)
{
	free(p->text);
	free(p->segments);
}

void exclude_free(struct exclude *x)
{
	if (x == NULL)
		return;
	for (size_t i = 0; i < x->n; i++)
		pattern_release(&x->patterns[i]);
	free(x->patterns);
	free(x);
}

/* ---- one byte ---- */

static bool in_range(unsigned char c, unsigned char from, unsigned char to)
{
	return c >= from && c <= to;
}

static bool is_lower(unsigned char c)
{
	return in_range(c, 'a', 'z');
}

static bool is_upper(unsigned char c)
{
	return in_range(c, 'A', 'Z');
}

static bool is_alpha(unsigned char c)
{
	return is_lower(c) || is_upper(c);
}

static bool is_digit(unsigned char c)
{
	return in_range(c, '0', '9');
}

static bool is_alnum(unsigned char c)
{
	return is_alpha(c) || is_digit(c);
}

static bool is_graph(unsigned char c)
{
	return in_range(c, 0x21, 0x7e);
}

static bool is_punct(unsigned char c)
{
	return is_graph(c) && !is_alnum(c);
}

static bool is_print(unsigned char c)
{
	return is_graph(c) || c == ' ';
}

static bool is_blank(unsigned char c)
{
	return c == ' ' || c == '\t';
}

static bool is_space(unsigned char c)
{
	return c == ' ' || in_range(c, '\t', '\r');
}

static bool is_cntrl(unsigned char c)
{
	return c < 0x20 || c == 0x7f;
}

static bool is_xdigit(unsigned char c)
{
	return is_digit(c) || in_range(c, 'a', 'f') || in_range(c, 'A', 'F');
}

/* Of ASCII alone, whatever the locale: a name is bytes. */
static const struct class
{
	const char *name;
	bool (*has)(unsigned char c);
} classes[] = {
	{ "alnum", is_alnum },
	{ "alpha", is_alpha },
	{ "blank", is_blank },
	{ "cntrl", is_cntrl },
	{ "digit", is_digit },
	{ "graph", is_graph },
	{ "lower", is_lower },
	{ "print", is_print },
	{ "punct", is_punct },
	{ "space", is_space },
	{ "upper", is_upper },
	{ "xdigit", is_xdigit },
};

static const struct class *find_class(const char *p, size_t n)
{
	for (size_t i = 0; i < sizeof(classes) / sizeof(classes[0]); i++)
		if (strlen(classes[i].name) == n &&
		    memcmp(classes[i].name, p, n) == 0)
			return &classes[i];
	return NULL;
}

/* ---- brackets ---- */

/*
 * The class whose "[:" stands at p; NULL and *ret_n 0: it is an ordinary '['.
 * NULL and *ret_n not 0: a class that there is not.
 */
static const struct class *class_at(const char *p, size_t n, size_t *ret_n)
{
	const char *end = NULL;
	size_t len = 0;

	*ret_n = 0;
	if (n < 2 || p[1] != ':')
		return NULL;
	end = memchr(p + 2, ']', n - 2);
	if (end == NULL)
		return NULL;
	len = (size_t)(end - p);
	if (len < 3 || end[-1] != ':')
		return NULL;
	*ret_n = len + 1;
	return find_class(p + 2, len - 3);
}

/* A byte of a bracket expression, perhaps quoted; false at its end. */
static bool member_at(
    const char *p, size_t n, size_t *at, unsigned char *ret_byte)
{
	if (*at < n && p[*at] == '\\')
		++*at;
	if (*at >= n)
		return false;
	*ret_byte = (unsigned char)p[*at];
	++*at;
	return true;
}

/* One member, class or range of brackets, at p[*at]; -1: malformed. */
static int bracket_item(const char *p, size_t n, size_t *at, unsigned char c)
{
	size_t class_n = 0;
	const struct class *class = NULL;
	unsigned char from = 0;
	unsigned char to = 0;

	if (p[*at] == '[')
		class = class_at(p + *at, n - *at, &class_n);
	if (class_n > 0) {
		*at += class_n;
		return class == NULL ? -1 : class->has(c);
	}
	if (!member_at(p, n, at, &from))
		return -1;
	to = from;
	if (*at + 1 < n && p[*at] == '-' && p[*at + 1] != ']') {
		++*at;
		if (!member_at(p, n, at, &to))
			return -1;
	}
	return in_range(c, from, to) || c == from;
}

/*
 * The brackets that begin at p: their length, and whether they have c; 0 if
 * they do not end, or name a class that there is not.
 */
static size_t bracket(const char *p, size_t n, unsigned char c, bool *ret_has)
{
	bool negated = n > 1 && (p[1] == '!' || p[1] == '^');
	size_t at = negated ? 2 : 1;
	bool has = false;
	bool first = true;

	while (at < n && (first || p[at] != ']')) {
		int item = bracket_item(p, n, &at, c);

		if (item < 0)
			return 0;
		has = has || item > 0;
		first = false;
	}
	if (at >= n)
		return 0;
	*ret_has = has != negated;
	return at + 1;
}

/* ---- matching ---- */

/* Does the piece of a pattern at p match this byte?  *ret_n: its length. */
static bool piece_matches(const char *p, size_t n, char c, size_t *ret_n)
{
	bool has = false;

	switch (p[0]) {
	case '?':
		*ret_n = 1;
		return true;
	case '[':
		*ret_n = bracket(p, n, (unsigned char)c, &has);
		return has;
	case '\\':
		*ret_n = 2;
		return p[1] == c;
	default:
		*ret_n = 1;
		return p[0] == c;
	}
}

/* Only the last star is ever widened: the earlier ones need not be. */
static bool segment_matches(const struct segment *s, const char *t, size_t n)
{
	size_t at = 0;
	size_t i = 0;
	bool star = false;
	size_t star_at = 0;
	size_t star_i = 0;

	while (i < n) {
		size_t len = 0;

		if (at < s->n && s->p[at] == '*') {
			star = true;
			star_at = ++at;
			star_i = i;
		} else if (at < s->n &&
		    piece_matches(s->p + at, s->n - at, t[i], &len)) {
			at += len;
			i++;
		} else if (star) {
			at = star_at;
			i = ++star_i;
		} else {
			return false;
		}
	}
	while (at < s->n && s->p[at] == '*')
		at++;
	return at == s->n;
}

static size_t component_length(const char *path, size_t n)
{
	const char *slash = memchr(path, '/', n);

	return slash == NULL ? n : (size_t)(slash - path);
}

/* The same again with components for bytes; "**" at the end wants one. */
static bool path_matches(const struct pattern *p, const char *path, size_t n)
{
	size_t seg = 0;
	size_t at = 0;
	bool star = false;
	size_t star_seg = 0;
	size_t star_at = 0;

	while (at < n) {
		size_t len = component_length(path + at, n - at);

		if (seg < p->n && p->segments[seg].any) {
			if (++seg == p->n)
				return true;
			star = true;
			star_seg = seg;
			star_at = at;
		} else if (seg < p->n &&
		    segment_matches(&p->segments[seg], path + at, len)) {
			at += len + 1;
			seg++;
		} else if (star) {
			star_at +=
			    component_length(path + star_at, n - star_at) + 1;
			at = star_at;
			seg = star_seg;
		} else {
			return false;
		}
	}
	return seg == p->n;
}

bool exclude_match(
    const struct exclude *x, const char *path, size_t n, bool is_dir)
{
	const char *slash = memrchr(path, '/', n);
	const char *base = slash == NULL ? path : slash + 1;
	size_t base_n = n - (size_t)(base - path);

	for (size_t i = x->n; i > 0; i--) {
		const struct pattern *p = &x->patterns[i - 1];

		if (p->dir_only && !is_dir)
			continue;
		if (p->base_only
			? segment_matches(&p->segments[0], base, base_n)
			: path_matches(p, path, n))
			return !p->negated;
	}
	return false;
}

/* ---- parsing ---- */

/* Spaces at the end mean nothing, but for quoted ones. */
static size_t without_spaces(const char *s, size_t n)
{
	size_t keep = 0;

	for (size_t i = 0; i < n; i++) {
		if (s[i] == '\\' && i + 1 < n)
			keep = ++i + 1;
		else if (s[i] != ' ')
			keep = i + 1;
	}
	return keep;
}

/*
 * Length of the segment at p, up to a slash (one in brackets is none) or the
 * end; a quoted slash is one, too, and *ret_quoted then.
 */
static int segment_length(
    const char *p, size_t n, size_t *ret_n, bool *ret_quoted, struct err *e)
{
	size_t at = 0;

	*ret_quoted = false;
	while (at < n && p[at] != '/') {
		size_t len = 1;
		bool has = false;

		if (p[at] == '\\' && at + 1 == n)
			return err_set(e, ERR_INVALID,
			    "nothing stands behind the last '\\'");
		if (p[at] == '\\' && p[at + 1] == '/') {
			*ret_quoted = true;
			break;
		}
		if (p[at] == '\\')
			len = 2;
		if (p[at] == '[')
			len = bracket(p + at, n - at, 0, &has);
		if (len == 0)
			return err_set(e, ERR_INVALID,
			    "'[' without its ']', or an unknown [:class:]");
		at += len;
	}
	*ret_n = at;
	return 0;
}

static bool all_stars(const char *p, size_t n)
{
	size_t i = 0;

	while (i < n && p[i] == '*')
		i++;
	return i == n && n >= 2;
}

static int parse_segments(struct pattern *p, size_t n, struct err *e)
{
	size_t most = 1;
	size_t at = 0;
	bool more = true;

	for (size_t i = 0; i < n; i++)
		most += p->text[i] == '/';
	p->segments = calloc(most, sizeof(*p->segments));
	if (p->segments == NULL)
		return err_nomem(e);
	while (more) {
		struct segment *s = &p->segments[p->n];
		bool quoted = false;
		int rc = 0;

		s->p = p->text + at;
		rc = segment_length(s->p, n - at, &s->n, &quoted, e);
		if (rc < 0)
			return rc;
		s->any = !p->base_only && all_stars(s->p, s->n);
		p->n++;
		at += s->n;
		more = at < n;
		at += quoted ? 2 : 1;
	}
	return 0;
}

static int parse(struct pattern *p, const char *line, size_t n, struct err *e)
{
	if (line[0] == '!') {
		p->negated = true;
		line++;
		n--;
	}
	if (n > 0 && line[n - 1] == '/') {
		p->dir_only = true;
		n--;
	}
	p->base_only = memchr(line, '/', n) == NULL;
	if (n > 0 && line[0] == '/') {
		line++;
		n--;
	}
	p->text = malloc(n + 1);
	if (p->text == NULL)
		return err_nomem(e);
	memcpy(p->text, line, n);
	p->text[n] = '\0';
	return parse_segments(p, n, e);
}

static int make_room(struct exclude *x, struct err *e)
{
	size_t room = x->room == 0 ? 16 : 2 * x->room;
	struct pattern *more = NULL;

	if (x->n < x->room)
		return 0;
	more = reallocarray(x->patterns, room, sizeof(*more));
	if (more == NULL)
		return err_nomem(e);
	x->patterns = more;
	x->room = room;
	return 0;
}

int exclude_add(struct exclude *x, const char *pattern, size_t n, struct err *e)
{
	struct pattern p = { .text = NULL };
	int rc = 0;

	if (n > 0 && pattern[0] == '#')
		return 0;
	n = without_spaces(pattern, n);
	if (n == 0)
		return 0;
	if (memchr(pattern, '\0', n) != NULL)
		return err_set(e, ERR_INVALID, "a zero byte in a pattern");
	rc = make_room(x, e);
	if (rc == 0)
		rc = parse(&p, pattern, n, e);
	if (rc < 0) {
		pattern_release(&p);
		return rc;
	}
	x->patterns[x->n++] = p;
	return 0;
}

/* ---- files ---- */

static int add_lines(
    struct exclude *x, const struct buf *b, const char *shown, struct err *e)
{
	static const uint8_t bom[] = { 0xef, 0xbb, 0xbf };
	const char *p = (const char *)b->data;
	size_t left = b->len;
	unsigned number = 0;

	if (left >= sizeof(bom) && memcmp(p, bom, sizeof(bom)) == 0) {
		p += sizeof(bom);
		left -= sizeof(bom);
	}
	while (left > 0) {
		const char *end = memchr(p, '\n', left);
		size_t n = end == NULL ? left : (size_t)(end - p);
		size_t used = end == NULL ? left : n + 1;
		int rc = 0;

		number++;
		if (n > 0 && p[n - 1] == '\r' && end != NULL)
			n--;
		rc = exclude_add(x, p, n, e);
		if (rc < 0) {
			err_prefix(e, "%s:%u", shown, number);
			return rc;
		}
		p += used;
		left -= used;
	}
	return 0;
}

static int read_all(int fd, struct buf *b, const char *shown, struct err *e)
{
	size_t got = READ_BYTES;

	while (got == READ_BYTES) {
		int rc = buf_reserve(b, READ_BYTES, e);

		if (rc == 0)
			rc = file_read_fully(
			    fd, b->data + b->len, READ_BYTES, &got, shown, e);
		if (rc < 0)
			return rc;
		b->len += got;
		if (b->len > FILE_MAX_BYTES)
			return err_set(e, ERR_LIMIT,
			    "'%s' has more than %u bytes, the most that a "
			    "file of patterns may have",
			    shown, FILE_MAX_BYTES);
	}
	return 0;
}

int exclude_add_file(struct exclude *x, const char *path, struct err *e)
{
	struct buf b = BUF_INIT;
	char shown[SHOWN];
	int rc = 0;
	int fd =
	    sysio_openat(AT_FDCWD, path, O_RDONLY | O_CLOEXEC | O_NOCTTY, 0);

	text_name(shown, sizeof(shown), path);
	if (fd < 0)
		return err_sys(e, "'%s'", shown);
	rc = read_all(fd, &b, shown, e);
	if (rc == 0)
		rc = add_lines(x, &b, shown, e);
	file_close(&fd);
	buf_release(&b);
	return rc;
}
