/* SPDX-License-Identifier: MIT */
#include "tests/support/rowfix.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define TARGET "target"

int rowfix_setup(void **state)
{
	struct rowfix *t = calloc(1, sizeof(*t));
	struct catalog_entry root;
	void *f = NULL;

	if (t == NULL || restorefix_setup(&f) < 0)
		return -1;
	*state = t;
	t->f = f;
	t->target = -1;
	t->next_id = CATALOG_ROOT_ID;
	restorefix_begin(t->f);
	if (catalog_writer_new(t->f->session, "root.tree", &t->w, &t->f->e) < 0)
		return -1;
	root = rowfix_row(t, 0, "", CATALOG_DIR, 0750);
	rowfix_add(t, &root);
	return 0;
}

int rowfix_teardown(void **state)
{
	struct rowfix *t = *state;
	void *f = t->f;

	fault_uninstall();
	catalog_writer_free(t->w);
	catalog_close(t->c);
	buf_release(&t->stream);
	if (t->target >= 0)
		(void)close(t->target);
	free(t);
	return restorefix_teardown(&f);
}

struct catalog_entry rowfix_row(struct rowfix *t, int64_t parent,
    const char *name, enum catalog_kind kind, unsigned mode)
{
	struct catalog_entry row = {
		.parent = parent,
		.id = t->next_id++,
		.name = { (const uint8_t *)name, strlen(name) },
		.kind = kind,
		.has = CATALOG_HAS_MODE | CATALOG_HAS_UID | CATALOG_HAS_GID |
		    CATALOG_HAS_MTIME,
		.mode = mode,
		.uid = geteuid(),
		.gid = getegid(),
		.mtime_s = ROWFIX_MTIME,
		.mtime_ns = (uint32_t)t->next_id,
	};

	return row;
}

void rowfix_content(
    struct rowfix *t, struct catalog_entry *row, const void *p, size_t n)
{
	row->has |= CATALOG_HAS_SIZE | CATALOG_HAS_POS | CATALOG_HAS_SHA256;
	row->pos = t->stream.len;
	row->size = n;
	assert_ok(digest_of(p, n, &row->sha256, &t->f->e), &t->f->e);
	assert_ok(buf_append(&t->stream, p, n, &t->f->e), &t->f->e);
}

void rowfix_target(struct catalog_entry *row, const char *text)
{
	row->has |= CATALOG_HAS_TARGET;
	row->target.p = (const uint8_t *)text;
	row->target.n = strlen(text);
}

int64_t rowfix_attr(struct rowfix *t, const char *name, const void *p, size_t n)
{
	struct buf data = BUF_INIT;
	int64_t id = 0;
	int rc = catalog_attr_append(&data, name, p, n, &t->f->e);

	if (rc == 0)
		rc = catalog_writer_attr(
		    t->w, data.data, data.len, &id, &t->f->e);
	buf_release(&data);
	assert_ok(rc, &t->f->e);
	return id;
}

void rowfix_add(struct rowfix *t, const struct catalog_entry *row)
{
	assert_ok(catalog_writer_add(t->w, row, &t->f->e), &t->f->e);
}

int64_t rowfix_dir(
    struct rowfix *t, int64_t parent, const char *name, unsigned mode)
{
	struct catalog_entry row =
	    rowfix_row(t, parent, name, CATALOG_DIR, mode);

	rowfix_add(t, &row);
	return row.id;
}

int64_t rowfix_file(struct rowfix *t, int64_t parent, const char *name,
    unsigned mode, const void *p, size_t n)
{
	struct catalog_entry row =
	    rowfix_row(t, parent, name, CATALOG_FILE, mode);

	rowfix_content(t, &row, p, n);
	rowfix_add(t, &row);
	return row.id;
}

int64_t rowfix_text(
    struct rowfix *t, int64_t parent, const char *name, const char *text)
{
	return rowfix_file(t, parent, name, 0644, text, strlen(text));
}

void rowfix_commit(struct rowfix *t, const char *archive)
{
	struct restorefix *f = t->f;
	struct ingest_result r;
	char name[64];
	int rc = 0;

	(void)snprintf(name, sizeof(name), "%s.didx", archive);
	restorefix_add(f, name, t->stream.data, t->stream.len);
	if (!t->has_run && t->stream.len > 0)
		rc = catalog_writer_run(t->w, 0, t->stream.len, 0, &f->e);
	if (rc == 0)
		rc = catalog_writer_finish(
		    t->w, t->next_id, t->stream.len, NULL, &f->task, &r, &f->e);
	assert_ok(rc, &f->e);
	restorefix_commit(f);
	assert_ok(restorefix_open(f, archive), &f->e);
	assert_ok(catalog_open(f->ds, &f->id, &f->hold, &f->manifest, archive,
		      &t->c, &f->e),
	    &f->e);
}

int rowfix_restore(struct rowfix *t, const struct tree_restore_opts *opts)
{
	struct restorefix *f = t->f;

	(void)mkdirat(f->dir.fd, TARGET, 0700);
	if (t->target < 0)
		t->target = openat(
		    f->dir.fd, TARGET, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(t->target >= 0);
	f->e = (struct err)ERR_INIT;
	f->messages.len = 0;
	memset(&t->result, 0, sizeof(t->result));
	return tree_restore(t->c, f->archive, t->target, TARGET, opts, &f->task,
	    &t->result, &f->e);
}

void rowfix_assert_text(struct rowfix *t, const char *path, const char *text)
{
	char *got = tmpdir_get(t->target, path, NULL);

	if (got == NULL)
		print_error("'%s' is missing\n", path);
	assert_non_null(got);
	assert_string_equal(got, text);
	free(got);
}

struct stat rowfix_stat(struct rowfix *t, const char *path)
{
	struct stat st = { .st_mode = 0 };

	if (fstatat(t->target, path, &st, AT_SYMLINK_NOFOLLOW) < 0)
		print_error("'%s' is missing\n", path);
	assert_int_not_equal(st.st_mode, 0);
	return st;
}

bool rowfix_exists(struct rowfix *t, const char *path)
{
	struct stat st;

	return fstatat(t->target, path, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

static void check_clean(int dirfd)
{
	DIR *d = fdopendir(dirfd);
	const struct dirent *x = NULL;

	assert_non_null(d);
	while ((x = readdir(d)) != NULL) {
		int fd = -1;

		if (strcmp(x->d_name, ".") == 0 || strcmp(x->d_name, "..") == 0)
			continue;
		if (strncmp(x->d_name, ".cairn-", 7) == 0)
			fail_msg("'%s' is left", x->d_name);
		fd = openat(dirfd, x->d_name,
		    O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (fd >= 0)
			check_clean(fd);
	}
	(void)closedir(d);
}

void rowfix_assert_clean(struct rowfix *t)
{
	check_clean(openat(t->target, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
}
