/* SPDX-License-Identifier: MIT */
/*
 * The part of tree.h that opens and makes what a name leads to.
 */
#include "datastore/tree.h"

#include <stdio.h>
#include <string.h>

#include "datastore/newfile.h"
#include "datastore/tree_internal.h"

#define OWNER_NAME "owner"
#define OWNER_MAX_FILE 4096U
/* Of making a directory that another program keeps removing. */
#define MAKE_TRIES 3

const char *tree_join(
    const char *dir, const char *name, char out[BACKUP_PATH_SIZE])
{
	if (snprintf(out, BACKUP_PATH_SIZE, "%s%s%s", dir,
		dir[0] == '\0' ? "" : "/", name) < 0)
		out[0] = '\0';
	return out;
}

int tree_open_group(struct datastore *ds, const struct backup_group *g,
    int *ret_fd, struct err *e)
{
	char path[BACKUP_PATH_SIZE];
	char text[BACKUP_PATH_SIZE];
	int rc = 0;

	backup_group_path(g, path);
	rc = file_open_dir(ds->root_fd, path, ret_fd, path, e);
	if (rc == ERR_NOTFOUND) {
		backup_group_text(g, text);
		rc =
		    err_set(e, ERR_NOTFOUND, "group '%s' does not exist", text);
	}
	return rc;
}

int tree_open_snapshot(struct datastore *ds, const struct backup_snapshot *s,
    int *ret_fd, struct err *e)
{
	char path[BACKUP_PATH_SIZE];
	char text[BACKUP_PATH_SIZE];
	int rc = 0;

	backup_snapshot_path(s, path);
	rc = file_open_dir(ds->root_fd, path, ret_fd, path, e);
	if (rc == ERR_NOTFOUND) {
		backup_snapshot_text(s, text);
		rc = err_set(
		    e, ERR_NOTFOUND, "snapshot '%s' does not exist", text);
	}
	return rc;
}

/* One step down a path that is made where it is missing; *fd becomes it. */
static int make_step(struct datastore *ds, int *fd, const char *name,
    const char *shown, struct err *e)
{
	int next = -1;
	int rc = ERR_NOTFOUND;

	/* Another program may remove an empty one between the two calls. */
	for (int i = 0; i < MAKE_TRIES && rc == ERR_NOTFOUND; i++) {
		rc = file_make_dir(
		    *fd, name, FILE_DIR_MODE, &ds->owner, shown, e);
		if (rc == 0)
			rc = file_sync(*fd, shown, e);
		if (rc == ERR_EXISTS)
			rc = err_forget(e);
		if (rc == 0)
			rc = file_open_dir(*fd, name, &next, shown, e);
	}
	if (rc < 0)
		return rc;
	file_close(fd);
	*fd = next;
	/* Of a try before the last. */
	return err_forget(e);
}

/* Every directory of a path of well-formed names, made and opened. */
static int make_path(
    struct datastore *ds, const char *path, int *ret_fd, struct err *e)
{
	const char *p = path;
	int fd = -1;
	int rc = file_open_dir(ds->root_fd, ".", &fd, ds->path, e);

	while (rc == 0 && *p != '\0') {
		char name[BACKUP_ID_MAX + 1];
		char shown[BACKUP_PATH_SIZE];
		size_t n = strcspn(p, "/");

		(void)snprintf(name, sizeof(name), "%.*s", (int)n, p);
		p += n;
		(void)snprintf(
		    shown, sizeof(shown), "%.*s", (int)(p - path), path);
		p += *p == '/';
		rc = make_step(ds, &fd, name, shown, e);
	}
	if (rc < 0) {
		file_close(&fd);
	} else {
		*ret_fd = fd;
	}
	return rc;
}

static int make_owner(
    struct datastore *ds, int group_fd, const char *path, struct err *e)
{
	struct statx st = { .stx_mask = 0 };
	char text[sizeof(ds->settings.owner) + 1];
	char shown[BACKUP_PATH_SIZE];
	bool found = false;
	int rc = file_stat_at(group_fd, OWNER_NAME, &st, &found,
	    tree_join(path, OWNER_NAME, shown), e);

	if (rc < 0 || found)
		return rc;
	(void)snprintf(text, sizeof(text), "%s\n", ds->settings.owner);
	rc = newfile_make(group_fd, OWNER_NAME, text, &ds->owner, shown, e);
	/* Another session's is as good as ours. */
	return rc == ERR_EXISTS ? err_forget(e) : rc;
}

int tree_make_group(struct datastore *ds, const struct backup_group *g,
    int *ret_fd, struct err *e)
{
	char path[BACKUP_PATH_SIZE];
	int fd = -1;
	int rc = 0;

	backup_group_path(g, path);
	rc = make_path(ds, path, &fd, e);
	if (rc == 0)
		rc = make_owner(ds, fd, path, e);
	if (rc < 0) {
		file_close(&fd);
	} else {
		*ret_fd = fd;
	}
	return rc;
}

/* The first line without blanks at its ends; returns its length. */
static size_t trim_line(const char **line, size_t n)
{
	const char *s = *line;
	const char *end = memchr(s, '\n', n);

	if (end != NULL)
		n = (size_t)(end - s);
	while (n > 0 && strchr(" \t\r", s[n - 1]) != NULL)
		n--;
	while (n > 0 && (*s == ' ' || *s == '\t')) {
		s++;
		n--;
	}
	*line = s;
	return n;
}

int tree_group_owner(struct datastore *ds, const struct backup_group *g,
    char *out, size_t size, struct err *e)
{
	struct buf text = BUF_INIT;
	char path[BACKUP_PATH_SIZE];
	char shown[BACKUP_PATH_SIZE];
	const char *line = "";
	size_t n = 0;
	int fd = -1;
	int rc = tree_open_group(ds, g, &fd, e);

	if (rc < 0)
		goto out;
	backup_group_path(g, path);
	rc = file_read_at(fd, OWNER_NAME, OWNER_MAX_FILE, &text,
	    tree_join(path, OWNER_NAME, shown), e);
	if (rc == ERR_NOTFOUND)
		rc = err_forget(e);
	if (rc < 0)
		goto out;
	if (text.len > 0) {
		line = (const char *)text.data;
		n = trim_line(&line, text.len);
	}
	if (n >= size || memchr(line, '\0', n) != NULL) {
		rc = err_set(e, ERR_CORRUPT,
		    "'%s': first line of %zu bytes, want an owner of at most "
		    "%zu",
		    shown, n, size - 1);
		goto out;
	}
	memcpy(out, line, n);
	out[n] = '\0';
out:
	file_close(&fd);
	buf_release(&text);
	return rc;
}

int tree_read_manifest(struct datastore *ds, const struct backup_snapshot *s,
    int snapshot_fd, struct manifest *m, struct err *e)
{
	struct buf raw = BUF_INIT;
	char path[BACKUP_PATH_SIZE];
	char shown[BACKUP_PATH_SIZE];
	int rc = file_read_at(snapshot_fd, BACKUP_MANIFEST, MANIFEST_MAX_FILE,
	    &raw, BACKUP_MANIFEST, e);

	(void)ds;
	backup_snapshot_path(s, path);
	(void)tree_join(path, BACKUP_MANIFEST, shown);
	if (rc == 0) {
		rc = manifest_decode(raw.data, raw.len, s, m, e);
	} else if (rc == ERR_NOTFOUND) {
		rc = err_set(e, ERR_NOTFOUND, "the snapshot is unfinished");
	}
	if (rc < 0)
		err_prefix(e, "'%s'", shown);
	buf_release(&raw);
	return rc;
}
