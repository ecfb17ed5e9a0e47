/* SPDX-License-Identifier: MIT */
#include "datastore/backupid.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "datastore/base/text.h"

/* A name's place in an error message. */
#define QUOTE_SIZE 96

/* Before each level of a namespace, in a path. */
#define NS_DIR "ns/"

/* A name must fit into one directory entry. */
_Static_assert(BACKUP_ID_MAX <= NAME_MAX, "an id is a file name");

/* "ns/" for each level, type/id/time/ and a file's name. */
_Static_assert(3 * BACKUP_NS_DEPTH_MAX + BACKUP_NS_MAX + 1 + 5 + BACKUP_ID_MAX +
	    1 + BACKUP_TIME_SIZE + NAME_MAX + 1 <=
	BACKUP_PATH_SIZE,
    "every path of a snapshot's file fits");

/* Not isalnum(): the locale has no say in what a name is. */
static bool is_word(char c)
{
	return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
	    (c >= '0' && c <= '9') || c == '_';
}

/* backupid_is_safe for the n bytes at s. */
static bool is_safe(const char *s, size_t n)
{
	if (n == 0 || !is_word(s[0]))
		return false;
	for (size_t i = 1; i < n; i++) {
		if (!is_word(s[i]) && s[i] != '.' && s[i] != '-')
			return false;
	}
	return true;
}

bool backupid_is_safe(const char *name)
{
	return is_safe(name, strlen(name));
}

const char *backup_type_name(enum backup_type t)
{
	switch (t) {
	case BACKUP_CT:
		return "ct";
	case BACKUP_HOST:
		return "host";
	case BACKUP_VM:
		return "vm";
	}
	return "?";
}

static bool type_parse(const char *s, size_t n, enum backup_type *ret)
{
	static const enum backup_type types[] = { BACKUP_CT, BACKUP_HOST,
		BACKUP_VM };

	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		const char *name = backup_type_name(types[i]);

		if (n == strlen(name) && memcmp(s, name, n) == 0) {
			*ret = types[i];
			return true;
		}
	}
	return false;
}

bool backup_type_parse(const char *s, enum backup_type *ret)
{
	return type_parse(s, strlen(s), ret);
}

int backup_ns_parse(const char *s, struct backup_ns *ret, struct err *e)
{
	char quote[QUOTE_SIZE];
	size_t len = strlen(s);
	size_t levels = 0;
	const char *p = s;

	if (len > BACKUP_NS_MAX) {
		return err_set(e, ERR_INVALID,
		    "namespace '%s': %zu characters, want at most %d",
		    text_name(quote, sizeof(quote), s), len, BACKUP_NS_MAX);
	}
	while (len > 0) {
		size_t n = strcspn(p, "/");

		if (!is_safe(p, n) || n > BACKUP_ID_MAX) {
			return err_set(e, ERR_INVALID,
			    "namespace '%s': want names of letters, digits "
			    "and ._- with / between them",
			    text_name(quote, sizeof(quote), s));
		}
		levels++;
		p += n;
		if (*p == '\0')
			break;
		p++;
	}
	if (levels > BACKUP_NS_DEPTH_MAX) {
		return err_set(e, ERR_INVALID,
		    "namespace '%s': %zu levels, want at most %d",
		    text_name(quote, sizeof(quote), s), levels,
		    BACKUP_NS_DEPTH_MAX);
	}
	*ret = (struct backup_ns){ .name = { 0 } };
	memcpy(ret->name, s, len + 1);
	return 0;
}

/* TYPE/ID in the n bytes at s; `what` is what the whole text should be. */
static int group_parse(const struct backup_ns *ns, const char *s, size_t n,
    struct backup_group *ret, const char *what, struct err *e)
{
	struct backup_group g = { .ns = *ns };
	const char *slash = memchr(s, '/', n);
	const char *id = slash == NULL ? s + n : slash + 1;
	size_t id_len = (size_t)(s + n - id);
	char shown[QUOTE_SIZE];

	if (slash == NULL || !type_parse(s, (size_t)(slash - s), &g.type)) {
		return err_set(e, ERR_INVALID,
		    "%s: want a type of ct, host or vm, a slash and an id",
		    what);
	}
	if (!is_safe(id, id_len) || id_len > BACKUP_ID_MAX) {
		char piece[QUOTE_SIZE];

		(void)snprintf(piece, sizeof(piece), "%.*s",
		    (int)(id_len < QUOTE_SIZE ? id_len : QUOTE_SIZE), id);
		return err_set(e, ERR_INVALID,
		    "%s: '%s' is no id, want 1 to %d letters, digits and ._- "
		    "beginning with a letter, a digit or _",
		    what, text_name(shown, sizeof(shown), piece),
		    BACKUP_ID_MAX);
	}
	memcpy(g.id, id, id_len);
	*ret = g;
	return 0;
}

int backup_group_parse(const struct backup_ns *ns, const char *s,
    struct backup_group *ret, struct err *e)
{
	char quote[QUOTE_SIZE];
	char what[QUOTE_SIZE + 16];

	(void)snprintf(what, sizeof(what), "group '%s'",
	    text_name(quote, sizeof(quote), s));
	return group_parse(ns, s, strlen(s), ret, what, e);
}

int backup_snapshot_parse(const struct backup_ns *ns, const char *s,
    struct backup_snapshot *ret, struct err *e)
{
	struct backup_snapshot snapshot = { .time = 0 };
	const char *slash = strrchr(s, '/');
	char quote[QUOTE_SIZE];
	char what[QUOTE_SIZE + 16];
	int rc = 0;

	(void)snprintf(what, sizeof(what), "snapshot '%s'",
	    text_name(quote, sizeof(quote), s));
	if (slash == NULL || memchr(s, '/', (size_t)(slash - s)) == NULL)
		return err_set(e, ERR_INVALID, "%s: want TYPE/ID/TIME", what);
	rc = group_parse(ns, s, (size_t)(slash - s), &snapshot.group, what, e);
	if (rc < 0)
		return rc;
	if (!text_parse_time(slash + 1, &snapshot.time)) {
		return err_set(e, ERR_INVALID,
		    "%s: '%s' is no time, want one like 2026-11-30T12:00:00Z",
		    what, text_name(quote, sizeof(quote), slash + 1));
	}
	*ret = snapshot;
	return 0;
}

/* Append to a path that has room for it by the assertion above. */
static size_t add(char out[BACKUP_PATH_SIZE], size_t len, const char *s)
{
	size_t n = strlen(s);

	if (n >= BACKUP_PATH_SIZE - len)
		n = BACKUP_PATH_SIZE - len - 1;
	memcpy(out + len, s, n);
	out[len + n] = '\0';
	return len + n;
}

void backup_ns_path(const struct backup_ns *ns, char out[BACKUP_PATH_SIZE])
{
	const char *p = ns->name;
	size_t len = 0;

	out[0] = '\0';
	while (*p != '\0') {
		struct backup_ns level = { .name = { 0 } };
		size_t n = strcspn(p, "/");

		memcpy(level.name, p, n);
		len = add(out, len, len == 0 ? "ns/" : "/ns/");
		len = add(out, len, level.name);
		p += n;
		p += *p == '/';
	}
}

void backup_group_path(const struct backup_group *g, char out[BACKUP_PATH_SIZE])
{
	size_t len = 0;

	backup_ns_path(&g->ns, out);
	len = strlen(out);
	if (len > 0)
		len = add(out, len, "/");
	len = add(out, len, backup_type_name(g->type));
	len = add(out, len, "/");
	(void)add(out, len, g->id);
}

/* Append "/TIME". */
static void add_time(char out[BACKUP_PATH_SIZE], int64_t epoch)
{
	char time[TEXT_TIME_SIZE];
	size_t len = add(out, strlen(out), "/");

	(void)add(out, len, text_time(time, epoch));
}

void backup_snapshot_path(
    const struct backup_snapshot *s, char out[BACKUP_PATH_SIZE])
{
	backup_group_path(&s->group, out);
	add_time(out, s->time);
}

void backup_group_text(const struct backup_group *g, char out[BACKUP_PATH_SIZE])
{
	size_t len = 0;

	out[0] = '\0';
	if (g->ns.name[0] != '\0') {
		len = add(out, len, "[");
		len = add(out, len, g->ns.name);
		len = add(out, len, "] ");
	}
	len = add(out, len, backup_type_name(g->type));
	len = add(out, len, "/");
	(void)add(out, len, g->id);
}

void backup_snapshot_text(
    const struct backup_snapshot *s, char out[BACKUP_PATH_SIZE])
{
	backup_group_text(&s->group, out);
	add_time(out, s->time);
}

static bool is_number(const char *s)
{
	return *s != '\0' && s[strspn(s, "0123456789")] == '\0';
}

/* Of any length: more digits are more. */
static int compare_numbers(const char *a, const char *b)
{
	size_t a_len = 0;
	size_t b_len = 0;

	a += strspn(a, "0");
	b += strspn(b, "0");
	a_len = strlen(a);
	b_len = strlen(b);
	if (a_len != b_len)
		return a_len < b_len ? -1 : 1;
	return strcmp(a, b);
}

static int compare_ids(const char *a, const char *b)
{
	bool a_number = is_number(a);
	bool b_number = is_number(b);
	int c = 0;

	if (a_number != b_number)
		return a_number ? -1 : 1;
	if (a_number)
		c = compare_numbers(a, b);
	/* "7" and "007" are two groups. */
	return c != 0 ? c : strcmp(a, b);
}

int backup_group_compare(
    const struct backup_group *a, const struct backup_group *b)
{
	int c = strcmp(a->ns.name, b->ns.name);

	if (c != 0)
		return c;
	if (a->type != b->type)
		return a->type < b->type ? -1 : 1;
	return compare_ids(a->id, b->id);
}

static bool ends_with(const char *s, size_t n, const char *suffix)
{
	size_t suffix_len = strlen(suffix);

	return n > suffix_len &&
	    memcmp(s + n - suffix_len, suffix, suffix_len) == 0;
}

enum backup_file_kind backup_file_kind(const char *filename)
{
	size_t n = strlen(filename);

	if (filename[0] == '.')
		return BACKUP_FILE_NONE;
	if (ends_with(filename, n, ".fidx"))
		return BACKUP_FILE_FIDX;
	if (ends_with(filename, n, ".didx"))
		return BACKUP_FILE_DIDX;
	if (ends_with(filename, n, ".blob"))
		return BACKUP_FILE_BLOB;
	return BACKUP_FILE_NONE;
}

/*
 * "ns/a/ns/b/host/x" to the namespace "a/b"; *ret_rest is what is behind it.
 * Whatever is wrong with it ends in names that do not lead back to it.
 */
static int parse_ns(const char *path, struct backup_ns *ret,
    const char **ret_rest, struct err *e)
{
	char name[BACKUP_PATH_SIZE] = "";
	size_t n = 0;

	while (strncmp(path, NS_DIR, sizeof(NS_DIR) - 1) == 0) {
		size_t part = 0;

		path += sizeof(NS_DIR) - 1;
		part = strcspn(path, "/");
		if (n + part + 2 > sizeof(name) || path[part] != '/')
			return err_set(e, ERR_INVALID, "no namespace");
		if (n > 0)
			name[n++] = '/';
		memcpy(name + n, path, part);
		n += part;
		name[n] = '\0';
		path += part + 1;
	}
	*ret_rest = path;
	return backup_ns_parse(name, ret, e);
}

bool backup_group_from_path(const char *path, struct backup_group *ret)
{
	struct err ignored = ERR_INIT;
	struct backup_ns ns;
	const char *rest = NULL;
	char back[BACKUP_PATH_SIZE];

	if (parse_ns(path, &ns, &rest, &ignored) < 0 ||
	    backup_group_parse(&ns, rest, ret, &ignored) < 0)
		return false;
	backup_group_path(ret, back);
	return strcmp(back, path) == 0;
}

bool backup_snapshot_from_path(const char *path, struct backup_snapshot *ret)
{
	struct err ignored = ERR_INIT;
	struct backup_ns ns;
	const char *rest = NULL;
	char back[BACKUP_PATH_SIZE];

	if (parse_ns(path, &ns, &rest, &ignored) < 0 ||
	    backup_snapshot_parse(&ns, rest, ret, &ignored) < 0)
		return false;
	backup_snapshot_path(ret, back);
	return strcmp(back, path) == 0;
}
