/* SPDX-License-Identifier: MIT */
#include "tests/support/treefix.h"

#include <stdio.h>
#include <stdlib.h>

#define ALL_HAVE                                                      \
	(CATALOG_HAS_MODE | CATALOG_HAS_UID | CATALOG_HAS_GID |       \
	    CATALOG_HAS_MTIME | CATALOG_HAS_CTIME | CATALOG_HAS_INO | \
	    CATALOG_HAS_NLINK | CATALOG_HAS_MOUNT)

struct catalog_bytes treefix_bytes(const char *s)
{
	return (struct catalog_bytes){
		.p = (const uint8_t *)s,
		.n = strlen(s),
	};
}

struct catalog_bytes treefix_holes(
    const struct catalog_hole *holes, size_t n, uint8_t *out)
{
	for (size_t i = 0; i < n; i++)
		catalog_hole_encode(&holes[i], out + i * CATALOG_HOLE_SIZE);
	return (struct catalog_bytes){ .p = out, .n = n * CATALOG_HOLE_SIZE };
}

struct catalog_entry treefix_entry(enum catalog_kind kind)
{
	struct catalog_entry x = {
		.kind = kind,
		.has = ALL_HAVE,
		.mode = kind == CATALOG_DIR ? 0755 : 0644,
		.mtime_s = TREEFIX_MTIME,
		.ctime_s = TREEFIX_MTIME,
		.ino = 1,
		.nlink = 1,
		.mount = 1,
	};

	return x;
}

void treefix_begin(struct treefix *t, struct restorefix *f, const char *archive)
{
	const struct catalog_bytes top = { .p = NULL, .n = 0 };
	struct catalog_entry root = treefix_entry(CATALOG_DIR);

	memset(t, 0, sizeof(*t));
	t->f = f;
	t->archive = archive;
	assert_ok(catalog_writer_new(f->session, archive, &t->w, &f->e), &f->e);
	assert_ok(catalog_writer_mount(t->w, 1, top, "ext4", &f->e), &f->e);
	root.id = CATALOG_ROOT_ID;
	assert_ok(catalog_writer_add(t->w, &root, &f->e), &f->e);
	t->dirs[0].id = CATALOG_ROOT_ID;
	t->dirs_n = 1;
	t->next_id = CATALOG_ROOT_ID + 1;
}

static int64_t dir_id(const struct treefix *t, const char *path, size_t n)
{
	for (size_t i = 0; i < t->dirs_n; i++) {
		if (strlen(t->dirs[i].path) == n &&
		    strncmp(t->dirs[i].path, path, n) == 0)
			return t->dirs[i].id;
	}
	fail_msg("no directory for '%s'", path);
	return 0;
}

int64_t treefix_add(
    struct treefix *t, const char *path, struct catalog_entry entry)
{
	const char *slash = strrchr(path, '/');

	entry.parent =
	    dir_id(t, path, slash != NULL ? (size_t)(slash - path) : 0);
	entry.name = treefix_bytes(slash != NULL ? slash + 1 : path);
	if (entry.id == 0)
		entry.id = t->next_id;
	if (entry.id >= t->next_id)
		t->next_id = entry.id + 1;
	assert_ok(catalog_writer_add(t->w, &entry, &t->f->e), &t->f->e);
	if (entry.kind == CATALOG_DIR) {
		assert_true(t->dirs_n < TREEFIX_DIRS);
		(void)snprintf(t->dirs[t->dirs_n].path, sizeof(t->dirs[0].path),
		    "%s", path);
		t->dirs[t->dirs_n++].id = entry.id;
	}
	return entry.id;
}

void treefix_content(
    struct treefix *t, struct catalog_entry *entry, const void *p, size_t n)
{
	entry->has |= CATALOG_HAS_SIZE | CATALOG_HAS_POS | CATALOG_HAS_SHA256;
	entry->pos = t->run_pos + t->stream.len - t->run_start;
	entry->size = n;
	assert_ok(digest_of(p, n, &entry->sha256, &t->f->e), &t->f->e);
	if (n > 0)
		assert_ok(buf_append(&t->stream, p, n, &t->f->e), &t->f->e);
}

struct catalog_entry treefix_file(
    struct treefix *t, const char *path, const char *content)
{
	struct catalog_entry x = treefix_entry(CATALOG_FILE);

	treefix_content(t, &x, content, strlen(content));
	x.id = treefix_add(t, path, x);
	return x;
}

int64_t treefix_dir(struct treefix *t, const char *path)
{
	return treefix_add(t, path, treefix_entry(CATALOG_DIR));
}

static void end_run(struct treefix *t)
{
	uint64_t length = t->stream.len - t->run_start;

	if (length > 0)
		assert_ok(catalog_writer_run(
			      t->w, t->run_pos, length, t->run_start, &t->f->e),
		    &t->f->e);
	t->run_pos += length;
	t->run_start = t->stream.len;
}

void treefix_run(struct treefix *t, uint64_t gap)
{
	end_run(t);
	t->run_pos += gap;
}

void treefix_end(struct treefix *t)
{
	const struct ingest_opts opts = { .chunk_size = 256U << 10,
		.threads = 1 };
	struct restorefix *f = t->f;
	struct ingest_result r;
	char filename[BACKUP_ID_MAX + 1];

	end_run(t);
	(void)snprintf(filename, sizeof(filename), "%s.didx", t->archive);
	restorefix_add(f, filename, t->stream.data, t->stream.len);
	assert_ok(catalog_writer_finish(
		      t->w, t->next_id, t->run_pos, &opts, &f->task, &r, &f->e),
	    &f->e);
	treefix_release(t);
}

void treefix_release(struct treefix *t)
{
	catalog_writer_free(t->w);
	t->w = NULL;
	buf_release(&t->stream);
}
