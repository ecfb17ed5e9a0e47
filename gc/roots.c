/* SPDX-License-Identifier: MIT */
#include "gc/roots.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "datastore/backupid.h"
#include "datastore/base/buf.h"
#include "datastore/base/file.h"
#include "datastore/base/pathlock.h"
#include "datastore/base/text.h"
#include "datastore/cairndir.h"
#include "datastore/snapshot.h"

#define UUID_HEX ((size_t)2 * IDX_UUID_SIZE)
#define END_WORD "end "
#define LOCK_WAIT_MS 5000U
#define LOCK_TRIES 8

/* Sizes at which something else is wrong: ten million lines. */
#define FILE_MAX (1ULL << 30)

/* A file of lines, whole, cut into strings. */
struct lines {
	struct buf bytes;
	char **items;
	size_t n;
	bool found;
};
#define LINES_INIT                                                       \
	{                                                                \
		.bytes = BUF_INIT, .items = NULL, .n = 0, .found = false \
	}

static void lines_release(struct lines *l)
{
	buf_release(&l->bytes);
	free(l->items);
}

static const char *shown_file(
    const struct datastore *ds, const char *name, char out[CAIRNDIR_SHOWN])
{
	return datastore_shown_in(ds, CAIRNDIR, name, out, CAIRNDIR_SHOWN);
}

/* A last line without its end is torn, and no line. */
static int cut_lines(struct lines *l, struct err *e)
{
	size_t count = 0;
	char *at = (char *)l->bytes.data;
	char *end = at + l->bytes.len;

	for (size_t i = 0; i < l->bytes.len; i++)
		count += l->bytes.data[i] == '\n';
	l->items = calloc(count + 1, sizeof(*l->items));
	if (l->items == NULL)
		return err_nomem(e);
	while (l->n < count) {
		char *eol = memchr(at, '\n', (size_t)(end - at));

		*eol = '\0';
		l->items[l->n] = at;
		l->n++;
		at = eol + 1;
	}
	return 0;
}

static int read_lines(int dirfd, const char *name, struct lines *l,
    const char *shown, struct err *e)
{
	struct err why = ERR_INIT;
	int rc = file_read_at(dirfd, name, FILE_MAX, &l->bytes, shown, &why);

	if (rc == ERR_NOTFOUND)
		return 0;
	if (rc < 0) {
		*e = why;
		return rc;
	}
	l->found = true;
	return l->bytes.len == 0 ? 0 : cut_lines(l, e);
}

/* A file of .cairn; none where there is no .cairn. */
static int read_cairn_lines(
    struct datastore *ds, const char *name, struct lines *l, struct err *e)
{
	char shown[CAIRNDIR_SHOWN];
	bool found = false;
	int dirfd = -1;
	int rc = cairndir_open(ds, CAIRNDIR, &dirfd, &found, e);

	if (rc == 0 && found)
		rc = read_lines(dirfd, name, l, shown_file(ds, name, shown), e);
	file_close(&dirfd);
	return rc;
}

int roots_removed(struct datastore *ds, uint64_t *ret_n, struct err *e)
{
	struct lines removed = LINES_INIT;
	int rc = read_cairn_lines(ds, SNAPSHOT_REMOVED, &removed, e);

	if (rc == 0)
		*ret_n = removed.n;
	lines_release(&removed);
	return rc;
}

static int compare_strings(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static bool contains(char *const *sorted, size_t n, const char *s)
{
	return n > 0 &&
	    bsearch(&s, sorted, n, sizeof(*sorted), compare_strings) != NULL;
}

static void lines_sort(struct lines *l)
{
	if (l->n > 0)
		qsort(l->items, l->n, sizeof(*l->items), compare_strings);
}

static void uuid_hex(const uint8_t uuid[IDX_UUID_SIZE], char *out)
{
	static const char digits[] = "0123456789abcdef";

	for (size_t i = 0; i < IDX_UUID_SIZE; i++) {
		out[2 * i] = digits[uuid[i] >> 4];
		out[2 * i + 1] = digits[uuid[i] & 15];
	}
	out[UUID_HEX] = '\0';
}

/* The names by which the roots of a mark are known in the file: sorted. */
struct known {
	char **paths;
	char **uuids;
	size_t n;
};

static void known_release(struct known *k)
{
	for (size_t i = 0; i < k->n; i++) {
		free(k->paths[i]);
		free(k->uuids[i]);
	}
	free(k->paths);
	free(k->uuids);
}

static int known_add(
    struct known *k, const struct mark_root *root, struct err *e)
{
	struct buf text = BUF_INIT;
	char *uuid = calloc(UUID_HEX + 1, 1);
	char *path = NULL;
	int rc = text_append_name(&text, root->path, strlen(root->path), e);

	if (rc == 0)
		path = buf_detach_str(&text, e);
	buf_release(&text);
	if (uuid == NULL || path == NULL) {
		free(uuid);
		free(path);
		return rc < 0 ? rc : err_nomem(e);
	}
	uuid_hex(root->uuid, uuid);
	k->paths[k->n] = path;
	k->uuids[k->n] = uuid;
	k->n++;
	return 0;
}

static int known_new(const struct mark *m, struct known *k, struct err *e)
{
	int rc = 0;

	k->paths = calloc(m->roots_n + 1, sizeof(*k->paths));
	k->uuids = calloc(m->roots_n + 1, sizeof(*k->uuids));
	if (k->paths == NULL || k->uuids == NULL)
		return err_nomem(e);
	for (size_t i = 0; rc == 0 && i < m->roots_n; i++)
		rc = known_add(k, &m->roots[i], e);
	return rc;
}

static void known_sort(struct known *k)
{
	if (k->n == 0)
		return;
	qsort(k->paths, k->n, sizeof(*k->paths), compare_strings);
	qsort(k->uuids, k->n, sizeof(*k->uuids), compare_strings);
}

/* Is the snapshot of this root in a list of snapshots, sorted? */
static bool is_recorded(const struct lines *list, const char *path)
{
	const char *slash = strrchr(path, '/');
	char dir[BACKUP_PATH_SIZE];
	size_t n = slash == NULL ? 0 : (size_t)(slash - path);

	if (n == 0 || n >= sizeof(dir))
		return false;
	memcpy(dir, path, n);
	dir[n] = '\0';
	return contains(list->items, list->n, dir);
}

/* "UUID PATH" to its two halves; NULL: it is no such line. */
static char *split_root(char *line)
{
	if (strlen(line) < UUID_HEX + 2 || line[UUID_HEX] != ' ')
		return NULL;
	line[UUID_HEX] = '\0';
	return line + UUID_HEX + 1;
}

/* Written whole? */
static bool is_ended(const struct lines *l)
{
	struct err ignored = ERR_INIT;
	const char *last = l->n == 0 ? "" : l->items[l->n - 1];
	uint64_t count = 0;

	return strncmp(last, END_WORD, strlen(END_WORD)) == 0 &&
	    text_parse_u64(last + strlen(END_WORD), 0, UINT64_MAX, &count,
		&ignored) == 0 &&
	    count == l->n - 1;
}

/* Zeros are no uuid: they would make all files without one the same. */
static bool has_uuid(const char *uuid)
{
	return strspn(uuid, "0") < UUID_HEX;
}

/* Neither there, under this name or another, nor removed on purpose. */
static bool is_gone(const struct known *now, const struct lines *removed,
    const char *uuid, const char *path)
{
	if (contains(now->paths, now->n, path) || is_recorded(removed, path))
		return false;
	return !has_uuid(uuid) || !contains(now->uuids, now->n, uuid);
}

/* In a snapshot set aside, and there: it was not read because it was so asked.
 * Where that can not be told, it is not. */
static bool is_set_aside(
    struct datastore *ds, const struct findings *f, const char *path)
{
	struct err ignored = ERR_INIT;
	struct statx st;
	bool found = false;

	return findings_is_ignored(f, path) &&
	    file_stat_at(ds->root_fd, path, &st, &found, path, &ignored) == 0 &&
	    found && S_ISREG(st.stx_mode);
}

static uint64_t count_vanished(struct datastore *ds, const struct findings *f,
    struct lines *old, const struct known *now, const struct lines *removed,
    const char **ret_first)
{
	uint64_t count = 0;

	for (size_t i = 0; i + 1 < old->n; i++) {
		char *uuid = old->items[i];
		const char *path = split_root(uuid);

		if (path == NULL || !is_gone(now, removed, uuid, path) ||
		    is_set_aside(ds, f, path))
			continue;
		if (count == 0)
			*ret_first = path;
		count++;
	}
	return count;
}

/* A snapshot that was pushed: is it not there, and nobody has removed it? */
static int is_added_gone(struct datastore *ds, const struct lines *removed,
    const char *path, bool *ret, struct err *e)
{
	char shown[CAIRNDIR_SHOWN];
	struct backup_snapshot id;
	struct statx st;
	bool found = false;
	int rc = 0;

	*ret = false;
	/* Another line was struck off, or says nothing. */
	if (contains(removed->items, removed->n, path) ||
	    !backup_snapshot_from_path(path, &id))
		return 0;
	rc = file_stat_at(ds->root_fd, path, &st, &found,
	    datastore_shown(ds, path, shown, sizeof(shown)), e);
	if (rc == 0)
		*ret = !found || !S_ISDIR(st.stx_mode);
	return rc;
}

static int count_added(struct datastore *ds, const struct lines *added,
    const struct lines *removed, struct roots_past *past, struct err *e)
{
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < added->n; i++) {
		bool gone = false;

		rc = is_added_gone(ds, removed, added->items[i], &gone, e);
		if (rc < 0 || !gone)
			continue;
		if (past->files == 0 && past->snapshots == 0)
			(void)text_name(
			    past->first, sizeof(past->first), added->items[i]);
		past->snapshots++;
	}
	return rc;
}

/* Is every snapshot recorded that ever was there?  One that is, and is not
 * recorded, was made by others, and may have been one of many. */
static bool are_all_added(const struct mark *m, const struct lines *added)
{
	bool all = contains(added->items, added->n, SNAPSHOT_ADDED_ALL);

	for (size_t i = 0; all && i < m->roots_n; i++)
		all = is_recorded(added, m->roots[i].path);
	return all;
}

static int look_back(struct datastore *ds, const struct mark *m,
    const struct findings *f, struct lines *old, const struct lines *added,
    const struct lines *removed, struct roots_past *past, struct err *e)
{
	struct known now = { .paths = NULL, .uuids = NULL, .n = 0 };
	const char *first = "";
	int rc = 0;

	past->known = is_ended(old) || are_all_added(m, added);
	if (is_ended(old)) {
		rc = known_new(m, &now, e);
		known_sort(&now);
		if (rc == 0)
			past->files =
			    count_vanished(ds, f, old, &now, removed, &first);
		(void)text_name(past->first, sizeof(past->first), first);
		known_release(&now);
	}
	return rc < 0 ? rc : count_added(ds, added, removed, past, e);
}

int roots_vanished(struct datastore *ds, const struct mark *m,
    const struct findings *f, struct roots_past *ret, struct err *e)
{
	struct lines old = LINES_INIT;
	struct lines added = LINES_INIT;
	struct lines removed = LINES_INIT;
	int rc = read_cairn_lines(ds, ROOTS_NAME, &old, e);

	*ret = (struct roots_past){ .known = false };
	if (rc == 0)
		rc = read_cairn_lines(ds, SNAPSHOT_ADDED, &added, e);
	if (rc == 0)
		rc = read_cairn_lines(ds, SNAPSHOT_REMOVED, &removed, e);
	if (rc == 0) {
		lines_sort(&added);
		lines_sort(&removed);
		rc = look_back(ds, m, f, &old, &added, &removed, ret, e);
	}
	lines_release(&removed);
	lines_release(&added);
	lines_release(&old);
	return rc;
}

int roots_gone(struct datastore *ds, const struct mark *before,
    const struct mark *now, struct roots_past *ret, struct err *e)
{
	struct lines removed = LINES_INIT;
	struct known known = { .paths = NULL, .uuids = NULL, .n = 0 };
	struct known old = { .paths = NULL, .uuids = NULL, .n = 0 };
	int rc = read_cairn_lines(ds, SNAPSHOT_REMOVED, &removed, e);

	*ret = (struct roots_past){ .known = true };
	if (rc == 0)
		rc = known_new(now, &known, e);
	if (rc == 0)
		rc = known_new(before, &old, e);
	if (rc < 0)
		goto out;
	known_sort(&known);
	lines_sort(&removed);
	for (size_t i = 0; i < old.n; i++) {
		if (!is_gone(&known, &removed, old.uuids[i], old.paths[i]))
			continue;
		if (ret->files == 0)
			(void)text_name(
			    ret->first, sizeof(ret->first), old.paths[i]);
		ret->files++;
	}
out:
	known_release(&old);
	known_release(&known);
	lines_release(&removed);
	return rc;
}

static int roots_text(const struct known *k, struct buf *out, struct err *e)
{
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < k->n; i++)
		rc =
		    buf_append_fmt(out, e, "%s %s\n", k->uuids[i], k->paths[i]);
	if (rc == 0)
		rc = buf_append_fmt(out, e, END_WORD "%zu\n", k->n);
	return rc;
}

/* Directories of the roots, sorted. */
static void cut_to_dirs(struct known *k)
{
	for (size_t i = 0; i < k->n; i++) {
		char *slash = strrchr(k->paths[i], '/');

		if (slash != NULL)
			*slash = '\0';
	}
	known_sort(k);
}

/* What lines are still needed for, now that the roots were written. */
struct keep {
	struct datastore *ds;
	const struct known *dirs; /* of the roots */
	struct lines added;       /* sorted */
};

typedef bool (*line_fn)(const struct keep *k, const char *line);

/* Removed while GC was at work: the roots have it, or what is added has. */
static bool is_removed_needed(const struct keep *k, const char *line)
{
	return contains(k->dirs->paths, k->dirs->n, line) ||
	    contains(k->added.items, k->added.n, line);
}

/* Pushed while GC was at work.  Who went on though it is gone knows. */
static bool is_added_needed(const struct keep *k, const char *line)
{
	struct err ignored = ERR_INIT;
	struct statx st;
	bool found = false;

	return !contains(k->dirs->paths, k->dirs->n, line) &&
	    (file_stat_at(k->ds->root_fd, line, &st, &found, line, &ignored) <
		    0 ||
		found);
}

/* The file's lock is held. */
static int keep_lines(const struct keep *k, int dirfd, const char *name,
    line_fn is_needed, const char *shown, struct err *e)
{
	struct lines all = LINES_INIT;
	struct buf text = BUF_INIT;
	int rc = read_lines(dirfd, name, &all, shown, e);

	for (size_t i = 0; rc == 0 && i < all.n; i++) {
		if (is_needed(k, all.items[i]))
			rc = buf_append_fmt(&text, e, "%s\n", all.items[i]);
	}
	if (rc == 0 && all.n > 0)
		rc = file_replace_at(
		    dirfd, name, text.data, text.len, &k->ds->owner, shown, e);
	buf_release(&text);
	lines_release(&all);
	return rc;
}

/* Whoever appends holds the same lock (cairndir.h): what is removed from now on
 * stays, and what was removed until now was added before that. */
static int empty(struct datastore *ds, int dirfd, const char *name,
    const struct known *dirs, line_fn is_needed, struct err *e)
{
	struct keep k = { .ds = ds, .dirs = dirs, .added = LINES_INIT };
	char shown[CAIRNDIR_SHOWN];
	struct err why = ERR_INIT;
	struct statx st;
	bool found = true;
	int fd = -1;
	int rc = ERR_NOTFOUND;

	(void)shown_file(ds, name, shown);
	for (int i = 0; rc == ERR_NOTFOUND && i < LOCK_TRIES; i++) {
		rc = file_stat_at(dirfd, name, &st, &found, shown, &why);
		if (rc < 0 || !found)
			break;
		rc = pathlock_take(dirfd, name, LOCK_EXCLUSIVE, LOCK_WAIT_MS,
		    &fd, shown, &why);
	}
	if (rc == 0 && found)
		rc = read_lines(dirfd, SNAPSHOT_ADDED, &k.added, shown, &why);
	lines_sort(&k.added);
	if (rc == 0 && found)
		rc = keep_lines(&k, dirfd, name, is_needed, shown, &why);
	lines_release(&k.added);
	file_close(&fd);
	if (rc < 0)
		*e = why;
	return rc;
}

int roots_write(struct datastore *ds, const struct mark *m, struct err *e)
{
	struct known k = { .paths = NULL, .uuids = NULL, .n = 0 };
	struct buf text = BUF_INIT;
	char shown[CAIRNDIR_SHOWN];
	bool found = false;
	int dirfd = -1;
	int rc = cairndir_open(ds, CAIRNDIR, &dirfd, &found, e);

	if (rc == 0 && !found)
		rc = err_set(
		    e, ERR_NOTFOUND, "'%s' has no %s", ds->path, CAIRNDIR);
	if (rc == 0)
		rc = known_new(m, &k, e);
	if (rc == 0)
		rc = roots_text(&k, &text, e);
	if (rc == 0)
		rc = file_replace_at(dirfd, ROOTS_NAME, text.data, text.len,
		    &ds->owner, shown_file(ds, ROOTS_NAME, shown), e);
	if (rc == 0) {
		cut_to_dirs(&k);
		/* In this order: what is removed is needed as long as it is
		 * added. */
		rc = empty(ds, dirfd, SNAPSHOT_ADDED, &k, is_added_needed, e);
		if (rc == 0)
			rc = empty(ds, dirfd, SNAPSHOT_REMOVED, &k,
			    is_removed_needed, e);
	}
	known_release(&k);
	buf_release(&text);
	file_close(&dirfd);
	return rc;
}
