/* SPDX-License-Identifier: MIT */
#include "datastore/base/conf.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <ini.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "datastore/base/buf.h"
#include "datastore/base/file.h"
#include "datastore/base/sysio.h"
#include "datastore/base/text.h"

#define LINE_MAX_BYTES 4096
#define FILE_MAX_BYTES ((size_t)1 << 20)
#define SHOWN_SIZE 80 /* of a piece of a line in a message */
#define DEL 0x7f

/* Of keys and of the words of headings. */
#define WORD_CHARS \
	"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_."

/* What libinih's line buffer needs behind a line: newline and NUL. */
#define LINE_END_SIZE 2

/*
 * libinih splits keys from values.  Its build decides on what else it does
 * with a line (length, comments, continuations, byte order marks), so it is
 * shown only lines about which there is nothing to decide: read_line gives it
 * neither comments nor leading blanks nor anything invalid, and counts lines,
 * since it does not say on which one it is.
 *
 * The text is changed in place: strings handed to the handler point into it.
 */
struct reader {
	const char *path;
	conf_handler fn;
	void *ctx;
	char *at;  /* rest of the text */
	char *end; /* there is a NUL */
	unsigned line;
	const char *section; /* NULL before the first heading */
	const char *name;
	int rc;
	struct err *e;
};

static bool is_blank(char c)
{
	return c == ' ' || c == '\t';
}

static bool is_word(const char *s)
{
	size_t n = strspn(s, WORD_CHARS);

	return n > 0 && s[n] == '\0';
}

/* Put "file:line: " before the message of a failure, which is kept. */
static void fail(struct reader *r, int rc)
{
	err_prefix(r->e, "%s:%u", r->path, r->line);
	r->rc = rc;
}

static int check_line(const char *s, size_t n, struct err *e)
{
	if (n > LINE_MAX_BYTES) {
		return err_set(e, ERR_INVALID,
		    "line of %zu bytes, want at "
		    "most %d",
		    n, LINE_MAX_BYTES);
	}
	for (size_t i = 0; i < n; i++) {
		unsigned char c = (unsigned char)s[i];

		if ((c < ' ' && c != '\t') || c == DEL) {
			return err_set(
			    e, ERR_INVALID, "control character 0x%02x", c);
		}
	}
	if (!text_is_utf8(s, n))
		return err_set(e, ERR_INVALID, "line is not UTF-8");
	return 0;
}

/* Cut the comment and the blanks at both ends; ends the string. */
static char *strip(char *s, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if ((s[i] == ';' || s[i] == '#') &&
		    (i == 0 || is_blank(s[i - 1])))
			n = i;
	}
	while (n > 0 && is_blank(s[n - 1]))
		n--;
	s[n] = '\0';
	while (is_blank(*s))
		s++;
	return s;
}

/* `[word]` or `[word "name"]`; sets the section, or *e. */
static int parse_heading(struct reader *r, char *s)
{
	size_t n = strlen(s);
	char shown[SHOWN_SIZE];
	char *word = s + 1;
	char *name = NULL;

	/* While it can still be quoted whole. */
	(void)text_name(shown, sizeof(shown), s);
	if (s[n - 1] != ']')
		goto bad;
	s[n - 1] = '\0';
	name = strpbrk(word, " \t");
	if (name != NULL) {
		*name++ = '\0';
		while (is_blank(*name))
			name++;
		n = strlen(name);
		/* At least one byte between two quotes, none of them one. */
		if (n < 3 || name[0] != '"' ||
		    strchr(name + 1, '"') != name + n - 1)
			goto bad;
		name[n - 1] = '\0';
		name++;
	}
	if (!is_word(word))
		goto bad;
	r->section = word;
	r->name = name == NULL ? "" : name;
	return 0;
bad:
	return err_set(r->e, ERR_INVALID,
	    "heading '%s', want '[word]' or '[word \"name\"]'", shown);
}

static void handle_heading(struct reader *r, char *s)
{
	struct conf_item item = { .line = r->line };
	int rc = parse_heading(r, s);

	if (rc == 0) {
		item.section = r->section;
		item.name = r->name;
		rc = r->fn(r->ctx, &item, r->e);
	}
	if (rc < 0)
		fail(r, rc);
}

/* Is this a line that libinih can only read as `key = value`? */
static int check_key_line(
    const struct reader *r, const char *s, size_t size, struct err *e)
{
	char shown[SHOWN_SIZE];
	size_t n = strlen(s);
	size_t key_n = strspn(s, WORD_CHARS);
	size_t at = key_n + strspn(s + key_n, " \t");

	(void)text_name(shown, sizeof(shown), s);
	if (key_n == 0 || s[at] != '=') {
		return err_set(e, ERR_INVALID,
		    "'%s', want 'key = value' or "
		    "'[section]'",
		    shown);
	}
	if (r->section == NULL) {
		return err_set(
		    e, ERR_INVALID, "'%s' before the first '[section]'", shown);
	}
	if (n + LINE_END_SIZE > size) {
		return err_set(e, ERR_INVALID,
		    "'%s' is %zu bytes long, want at most %zu", shown, n,
		    size - LINE_END_SIZE);
	}
	return 0;
}

/* Cut the next line off the text; a CR before the LF belongs to the end. */
static char *next_line(struct reader *r, size_t *ret_n)
{
	char *s = r->at;
	char *lf = memchr(s, '\n', (size_t)(r->end - s));
	size_t n = 0;

	n = (size_t)((lf == NULL ? r->end : lf) - s);
	r->at = lf == NULL ? r->end : lf + 1;
	if (lf != NULL && n > 0 && s[n - 1] == '\r')
		n--;
	r->line++;
	*ret_n = n;
	return s;
}

/* libinih's source of lines, like fgets: NULL ends the reading. */
static char *read_line(char *line, int size, void *stream)
{
	struct reader *r = stream;

	while (r->rc == 0 && r->at < r->end) {
		size_t n = 0;
		char *s = next_line(r, &n);
		int rc = check_line(s, n, r->e);

		if (rc < 0) {
			fail(r, rc);
			break;
		}
		s = strip(s, n);
		if (*s == '\0')
			continue;
		if (*s == '[') {
			handle_heading(r, s);
			continue;
		}
		rc = check_key_line(r, s, (size_t)size, r->e);
		if (rc < 0) {
			fail(r, rc);
			break;
		}
		n = strlen(s);
		memcpy(line, s, n);
		memcpy(line + n, "\n", LINE_END_SIZE);
		return line;
	}
	return NULL;
}

/* libinih's answer to a line: 1 for good, 0 for bad. */
static int handle_key(
    void *user, const char *section, const char *key, const char *value)
{
	struct reader *r = user;
	struct conf_item item = {
		.section = r->section,
		.name = r->name,
		.key = key,
		.value = value,
		.line = r->line,
	};
	int rc = 0;

	/* libinih has seen no heading. */
	(void)section;
	rc = r->fn(r->ctx, &item, r->e);
	if (rc < 0)
		fail(r, rc);
	return rc == 0;
}

/* Links are followed, and it need not be a regular file: `--config <(...)`. */
static int read_text(const char *path, struct buf *out, struct err *e)
{
	size_t n = 0;
	int fd =
	    sysio_openat(AT_FDCWD, path, O_RDONLY | O_CLOEXEC | O_NOCTTY, 0);
	int rc = 0;

	if (fd < 0 && errno == ENOENT)
		return err_set(e, ERR_NOTFOUND, "'%s' does not exist", path);
	if (fd < 0)
		return err_sys(e, "open '%s'", path);
	rc = buf_reserve(out, FILE_MAX_BYTES + 1, e);
	if (rc < 0)
		goto out;
	rc = file_read_fully(fd, out->data, FILE_MAX_BYTES + 1, &n, path, e);
	if (rc < 0)
		goto out;
	if (n > FILE_MAX_BYTES) {
		rc = err_set(e, ERR_LIMIT,
		    "'%s' is longer than %zu bytes, which a config file may be",
		    path, FILE_MAX_BYTES);
		goto out;
	}
	out->len = n;
out:
	file_close(&fd);
	return rc;
}

int conf_read_file(const char *path, conf_handler fn, void *ctx, struct err *e)
{
	struct buf text = BUF_INIT;
	struct reader r = { .path = path, .fn = fn, .ctx = ctx, .e = e };
	int rc = read_text(path, &text, e);

	if (rc == 0 && buf_cstr(&text, e) == NULL)
		rc = ERR_NOMEM;
	if (rc < 0)
		goto out;
	assert(text.data != NULL);
	r.at = (char *)text.data;
	r.end = r.at + text.len;
	/* Some editors begin a file with U+FEFF, which means nothing. */
	if (strncmp(r.at, "\xef\xbb\xbf", 3) == 0)
		r.at += 3;
#ifdef CAIRN_INIH_MAX_LINE
	/* Debian's libinih takes the size of its line buffer from here. */
	ini_max_line = LINE_MAX_BYTES + LINE_END_SIZE;
#endif
	rc = ini_parse_stream(read_line, &r, handle_key, &r);
	if (r.rc < 0) {
		rc = r.rc;
	} else if (rc == -2) {
		rc = err_nomem(e);
	} else if (rc != 0) {
		rc = err_set(
		    e, ERR_INVALID, "'%s': libinih refuses a line", path);
	}
out:
	buf_release(&text);
	return rc;
}
