/* SPDX-License-Identifier: MIT */
#include "gc/listing.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "datastore/backupid.h"
#include "datastore/base/file.h"
#include "datastore/base/text.h"
#include "gc/place.h"

#define LOST_FOUND "lost+found"

/* A directory that is still to be listed. */
struct todo {
	char *path; /* below the root; "" is the root */
	unsigned depth;
	enum place place;
};

struct walk {
	struct datastore *ds;
	struct task *task;
	struct findings *findings;
	struct listing *out;
	struct todo *todo; /* a stack */
	size_t todo_n;
	size_t todo_cap;
	/* The directory that is being listed. */
	struct todo dir;
	int dirfd;
	bool has_manifest;
	bool unreadable;
};

struct root_id root_id_of(const struct statx *st)
{
	return (struct root_id){
		.dev_major = st->stx_dev_major,
		.dev_minor = st->stx_dev_minor,
		.inode = st->stx_ino,
		.ctime = clock_from_statx(&st->stx_ctime),
	};
}

bool root_id_equal(const struct root_id *a, const struct root_id *b)
{
	return a->dev_major == b->dev_major && a->dev_minor == b->dev_minor &&
	    a->inode == b->inode && a->ctime == b->ctime;
}

void listing_release(struct listing *l)
{
	for (size_t i = 0; i < l->n; i++)
		free(l->files[i].path);
	free(l->files);
	*l = (struct listing)LISTING_INIT;
}

/* Make room for one more item of an array. */
static int grow(void **p, size_t n, size_t *cap, size_t size, struct err *e)
{
	size_t want = *cap == 0 ? 64 : *cap * 2;
	void *q = NULL;

	if (n < *cap)
		return 0;
	q = reallocarray(*p, want, size);
	if (q == NULL)
		return err_nomem(e);
	*p = q;
	*cap = want;
	return 0;
}

/* dir/name below the root, to be freed. */
static char *join(const char *dir, const char *name, struct err *e)
{
	char *path = NULL;
	int n = 0;

	if (dir[0] == '\0') {
		path = strdup(name);
	} else {
		n = asprintf(&path, "%s/%s", dir, name);
		if (n < 0)
			path = NULL;
	}
	if (path == NULL)
		(void)err_nomem(e);
	return path;
}

const char *listing_shown(
    const struct datastore *ds, const char *path, char out[LISTING_SHOWN_SIZE])
{
	char whole[LISTING_SHOWN_SIZE];

	return text_name(out, LISTING_SHOWN_SIZE,
	    datastore_shown(ds, path, whole, sizeof(whole)));
}

/* Memory that is out or a wish to stop are no findings. */
static bool is_finding(int code)
{
	return code != ERR_NOMEM && code != ERR_CANCELLED;
}

static bool is_index_name(const char *name)
{
	enum backup_file_kind kind = backup_file_kind(name);

	return kind == BACKUP_FILE_FIDX || kind == BACKUP_FILE_DIDX;
}

/* Would a directory of this name here be part of the format? */
static bool is_structure(enum place in, const char *name)
{
	switch (in) {
	case PLACE_NAMESPACE:
	case PLACE_GROUP:
		return place_below(in, name) != PLACE_ODD;
	case PLACE_NAMESPACES:
	case PLACE_TYPE:
		return true;
	case PLACE_SNAPSHOT:
	case PLACE_ODD:
		break;
	}
	return false;
}

static int push(struct walk *w, const char *name, struct err *e)
{
	char shown[LISTING_SHOWN_SIZE];
	struct todo next = { .depth = w->dir.depth + 1 };
	int rc = grow(
	    (void **)&w->todo, w->todo_n, &w->todo_cap, sizeof(*w->todo), e);

	if (rc < 0)
		return rc;
	next.place = place_below(w->dir.place, name);
	next.path = join(w->dir.path, name, e);
	if (next.path == NULL)
		return e->code;
	if (next.depth > LISTING_DEPTH_MAX) {
		findings_at(w->findings, next.path,
		    "'%s': %u directories deep, want at most %u",
		    listing_shown(w->ds, next.path, shown), next.depth,
		    LISTING_DEPTH_MAX);
		free(next.path);
		return 0;
	}
	w->todo[w->todo_n] = next;
	w->todo_n++;
	return 0;
}

static int push_root(struct walk *w, struct err *e)
{
	char *path = strdup("");
	int rc = 0;

	if (path == NULL)
		return err_nomem(e);
	rc = grow(
	    (void **)&w->todo, w->todo_n, &w->todo_cap, sizeof(*w->todo), e);
	if (rc < 0 || w->todo == NULL) {
		free(path);
		return rc;
	}
	w->todo[0] = (struct todo){ .path = path, .place = PLACE_NAMESPACE };
	w->todo_n = 1;
	return 0;
}

static int add_file(
    struct walk *w, const char *name, const struct statx *st, struct err *e)
{
	struct listing *l = w->out;
	char *path = NULL;
	int rc = grow((void **)&l->files, l->n, &l->cap, sizeof(*l->files), e);

	if (rc < 0)
		return rc;
	path = join(w->dir.path, name, e);
	if (path == NULL)
		return e->code;
	l->files[l->n] = (struct root_file){
		.path = path,
		.id = root_id_of(st),
		.bytes = st->stx_size,
		.in_snapshot = w->dir.place == PLACE_SNAPSHOT,
	};
	l->n++;
	return 0;
}

/* A link, a device, a pipe: no harm, unless something is hidden by it. */
static int add_other(
    struct walk *w, const char *name, const struct statx *st, struct err *e)
{
	bool is_link = S_ISLNK(st->stx_mode);
	char shown[LISTING_SHOWN_SIZE];
	char *path = NULL;

	if (!is_link && !is_index_name(name))
		return 0;
	path = join(w->dir.path, name, e);
	if (path == NULL)
		return e->code;
	(void)listing_shown(w->ds, path, shown);
	if (is_index_name(name)) {
		findings_at(w->findings, path,
		    "'%s' is of file type %#o, want a regular file", shown,
		    st->stx_mode & (unsigned)S_IFMT);
	} else if (is_structure(w->dir.place, name)) {
		findings_at(w->findings, path,
		    "'%s' is a symbolic link, want a directory", shown);
	} else {
		findings_warn(w->findings,
		    "'%s' is a symbolic link and is not followed", shown);
	}
	free(path);
	return 0;
}

static int visit_name(struct walk *w, const char *name, struct err *e)
{
	char shown[LISTING_SHOWN_SIZE];
	struct err why = ERR_INIT;
	struct statx st;
	bool found = false;
	int rc = 0;

	if (name[0] == '.' || w->unreadable)
		return 0;
	if (w->dir.depth == 0 && strcmp(name, LOST_FOUND) == 0)
		return 0;
	rc = file_stat_at(w->dirfd, name, &st, &found,
	    listing_shown(w->ds, w->dir.path, shown), &why);
	if (rc < 0 && is_finding(rc)) {
		/* One finding per directory: the next names would say it
		 * again. */
		findings_at(w->findings, w->dir.path, "%s", why.msg);
		w->unreadable = true;
		return 0;
	}
	if (rc < 0) {
		*e = why;
		return rc;
	}
	if (!found) {
		if (w->dir.place != PLACE_SNAPSHOT || is_index_name(name))
			w->out->vanished++;
		return 0;
	}
	if (strcmp(name, BACKUP_MANIFEST) == 0)
		w->has_manifest = true;
	if (S_ISDIR(st.stx_mode))
		return push(w, name, e);
	if (!S_ISREG(st.stx_mode))
		return add_other(w, name, &st, e);
	return is_index_name(name) ? add_file(w, name, &st, e) : 0;
}

/* What stands in the way of reading a directory. */
static void find_unreadable(struct walk *w, const struct err *why)
{
	const char *base = strrchr(w->dir.path, '/');

	/* fsck's, also on a file system that is mounted further down. */
	base = base == NULL ? w->dir.path : base + 1;
	if (strcmp(base, LOST_FOUND) == 0) {
		findings_warn(w->findings, "%s; passed over", why->msg);
	} else {
		findings_at(w->findings, w->dir.path, "%s", why->msg);
	}
}

static int visit_names(struct walk *w, const char *shown, struct err *e)
{
	char **names = NULL;
	size_t n = 0;
	int rc = file_list(w->dirfd, &names, &n, shown, e);

	/*
	 * The last name first, so that the stack hands directories out in
	 * order: a base, which is older, before what is based on it.
	 */
	for (size_t i = n; rc == 0 && i > 0; i--)
		rc = visit_name(w, names[i - 1], e);
	file_list_free(names);
	return rc;
}

/* List w->dir. */
static int visit_dir(struct walk *w, struct err *e)
{
	char shown[LISTING_SHOWN_SIZE];
	size_t first = w->out->n;
	struct err why = ERR_INIT;
	int rc = task_check(w->task, e);

	if (rc < 0)
		return rc;
	w->has_manifest = false;
	w->unreadable = false;
	(void)listing_shown(w->ds, w->dir.path, shown);
	rc = file_open_dir(w->ds->root_fd, w->dir.path, &w->dirfd, shown, &why);
	if (rc == ERR_NOTFOUND) {
		w->out->vanished++;
		return 0;
	}
	if (rc == 0)
		rc = visit_names(w, shown, &why);
	file_close(&w->dirfd);
	for (size_t i = first; i < w->out->n; i++)
		w->out->files[i].has_manifest = w->has_manifest;
	if (rc < 0 && is_finding(rc)) {
		find_unreadable(w, &why);
		return 0;
	}
	if (rc < 0)
		*e = why;
	return rc;
}

static int compare_files(const void *a, const void *b)
{
	const struct root_file *x = a;
	const struct root_file *y = b;

	return strcmp(x->path, y->path);
}

int listing_walk(struct datastore *ds, struct task *task,
    struct findings *findings, struct listing *ret, struct err *e)
{
	struct listing out = LISTING_INIT;
	struct walk w = {
		.ds = ds,
		.task = task,
		.findings = findings,
		.out = &out,
		.dirfd = -1,
	};
	int rc = 0;

	rc = push_root(&w, e);
	while (rc == 0 && w.todo_n > 0) {
		w.todo_n--;
		w.dir = w.todo[w.todo_n];
		rc = visit_dir(&w, e);
		free(w.dir.path);
	}
	while (w.todo_n > 0) {
		w.todo_n--;
		free(w.todo[w.todo_n].path);
	}
	free(w.todo);
	if (rc == 0) {
		if (out.n > 0)
			qsort(out.files, out.n, sizeof(*out.files),
			    compare_files);
		*ret = out;
	} else {
		listing_release(&out);
	}
	return rc;
}
