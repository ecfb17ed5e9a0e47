/* SPDX-License-Identifier: MIT */
/*
 * The part of file.h about directories: opening them and reading their names.
 */
#include "datastore/base/file.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "datastore/base/sysio.h"
#include "datastore/base/text.h"

/* A component's place in an error message. */
#define NAME_FIELD 128

/* One step down; the errors of a step name the component that fails. */
static int open_component(
    int dirfd, const char *name, int *ret_fd, const char *shown, struct err *e)
{
	char field[NAME_FIELD];
	int fd = -1;

	do {
		fd = sysio_openat(dirfd, name,
		    O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC, 0);
	} while (fd < 0 && errno == EINTR);
	if (fd >= 0) {
		*ret_fd = fd;
		return 0;
	}
	if (errno == ENOENT) {
		return err_set(e, ERR_NOTFOUND,
		    "directory '%s': '%s' does not exist", shown,
		    text_name(field, sizeof(field), name));
	}
	if (errno == ENOTDIR || errno == ELOOP) {
		return err_set(e, ERR_CORRUPT,
		    "directory '%s': '%s' is a symbolic link or a file, want "
		    "a directory",
		    shown, text_name(field, sizeof(field), name));
	}
	return err_sys(e, "open directory '%s'", shown);
}

/* The next component of *path that leads anywhere; "" at the end. */
static int next_component(const char **path, char name[NAME_MAX + 1],
    const char *shown, struct err *e)
{
	size_t n = 0;

	do {
		*path += strspn(*path, "/");
		n = strcspn(*path, "/");
		if (n > NAME_MAX) {
			errno = ENAMETOOLONG;
			return err_sys(e, "open directory '%s'", shown);
		}
		memcpy(name, *path, n);
		name[n] = '\0';
		*path += n;
	} while (strcmp(name, ".") == 0);
	if (strcmp(name, "..") == 0) {
		return err_set(e, ERR_INVALID,
		    "directory '%s': want no '..' in its path", shown);
	}
	return 0;
}

int file_open_dir(
    int dirfd, const char *path, int *ret_fd, const char *shown, struct err *e)
{
	char name[NAME_MAX + 1] = "";
	int fd = -1;
	int next = -1;
	int rc = 0;

	if (path[0] == '/') {
		return err_set(e, ERR_INVALID,
		    "directory '%s': want a relative path", shown);
	}
	rc = open_component(dirfd, ".", &fd, shown, e);
	if (rc < 0)
		return rc;
	for (;;) {
		rc = next_component(&path, name, shown, e);
		if (rc < 0 || name[0] == '\0')
			break;
		rc = open_component(fd, name, &next, shown, e);
		if (rc < 0)
			break;
		file_close(&fd);
		fd = next;
	}
	if (rc < 0) {
		file_close(&fd);
	} else {
		*ret_fd = fd;
	}
	return rc;
}

/* The next name that is neither "." nor ".."; NULL at the end. */
static int next_name(
    DIR *d, const char **ret_name, const char *shown, struct err *e)
{
	const struct dirent *entry = NULL;

	do {
		errno = 0;
		entry = sysio_readdir(d);
		if (entry == NULL && errno != 0)
			return err_sys(e, "read directory '%s'", shown);
	} while (entry != NULL &&
	    (strcmp(entry->d_name, ".") == 0 ||
		strcmp(entry->d_name, "..") == 0));
	*ret_name = entry == NULL ? NULL : entry->d_name;
	return 0;
}

int file_each_name(int dirfd,
    int (*fn)(void *ctx, const char *name, struct err *e), void *ctx,
    const char *shown, struct err *e)
{
	const char *name = NULL;
	DIR *d = NULL;
	int fd = -1;
	int rc = open_component(dirfd, ".", &fd, shown, e);

	if (rc < 0)
		goto out;
	d = sysio_fdopendir(fd);
	if (d == NULL) {
		rc = err_sys(e, "read directory '%s'", shown);
		goto out;
	}
	fd = -1; /* d owns it */
	do {
		rc = next_name(d, &name, shown, e);
		if (rc == 0 && name != NULL)
			rc = fn(ctx, name, e);
	} while (rc == 0 && name != NULL);
out:
	if (d != NULL)
		(void)sysio_closedir(d);
	file_close(&fd);
	return rc;
}

/* Names one behind the other, each with its NUL. */
struct name_list {
	struct buf bytes;
	size_t n;
};

static int collect_name(void *ctx, const char *name, struct err *e)
{
	struct name_list *list = ctx;
	int rc = buf_append(&list->bytes, name, strlen(name) + 1, e);

	if (rc == 0)
		list->n++;
	return rc;
}

static int compare_names(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

int file_list(int dirfd, char ***ret_names, size_t *ret_n, const char *shown,
    struct err *e)
{
	struct name_list list = { .bytes = BUF_INIT, .n = 0 };
	char **names = NULL;
	char *text = NULL;
	int rc = file_each_name(dirfd, collect_name, &list, shown, e);

	if (rc < 0)
		goto out;
	/* One block: the pointers, then the bytes they point to. */
	names = malloc((list.n + 1) * sizeof(*names) + list.bytes.len);
	if (names == NULL) {
		rc = err_nomem(e);
		goto out;
	}
	text = (char *)(names + list.n + 1);
	if (list.n > 0)
		memcpy(text, list.bytes.data, list.bytes.len);
	for (size_t i = 0; i < list.n; i++) {
		names[i] = text;
		text += strlen(text) + 1;
	}
	names[list.n] = NULL;
	qsort(names, list.n, sizeof(*names), compare_names);
	*ret_names = names;
	*ret_n = list.n;
out:
	buf_release(&list.bytes);
	return rc;
}

void file_list_free(char **names)
{
	free(names);
}
