/* SPDX-License-Identifier: MIT */
/*
 * tree_restore_work: a worker's side of the contents' pass: loads the chunk,
 * makes the files that lie within it, writes its pieces of others.
 */
#include <stdlib.h>

#include "datastore/compress.h"
#include "index/tree_restore_content.h"

struct local {
	struct archive_loader loader;
	struct digest_ctx *hash;
	struct restore_dirfd dir;
	uint64_t dir_number;
};

void restore_work_release(void *ctx, void *arg)
{
	struct restore *r = ctx;
	struct local *l = arg;

	if (l == NULL)
		return;
	restore_dirs_put(r->dirs, &l->dir);
	codec_free(l->loader.codec);
	buf_release(&l->loader.raw);
	digest_ctx_free(l->hash);
	free(l);
}

int restore_work_init(void *ctx, void **ret, struct err *e)
{
	struct local *l = calloc(1, sizeof(*l));
	int rc = 0;

	if (l == NULL)
		return err_nomem(e);
	rc = codec_new(&l->loader.codec, e);
	if (rc == 0)
		rc = digest_ctx_new(&l->hash, e);
	if (rc < 0) {
		restore_work_release(ctx, l);
		return rc;
	}
	*ret = l;
	return 0;
}

/* Files mostly come directory by directory. */
static int enter(
    struct restore *r, struct local *l, uint64_t dir, struct err *e)
{
	int rc = 0;

	if (l->dir.open && l->dir_number == dir)
		return 0;
	restore_dirs_put(r->dirs, &l->dir);
	rc = restore_dirs_open(r->dirs, dir, &l->dir, e);
	l->dir_number = dir;
	return rc;
}

/* A file that is the whole of a chunk has the chunk's digest. */
static int check_whole(const struct restore_slot *s,
    const struct restore_piece *p, struct local *l, struct err *e)
{
	struct digest found = s->entry.digest;
	int rc = 0;

	if (!p->file->rec.has_sha256)
		return 0;
	if (!s->has_chunk || p->n < s->content.len) {
		rc = digest_ctx_update(
		    l->hash, s->content.data + p->from, p->n, e);
		if (rc == 0)
			rc = digest_ctx_final(l->hash, &found, e);
	}
	return rc < 0 ? rc : restore_file_check(p->file, &found, e);
}

static int make_whole(struct restore *r, const struct restore_slot *s,
    const struct restore_piece *p, struct local *l, struct err *e)
{
	struct restore_file *f = p->file;
	struct restore_cursor c = p->cursor;
	int rc = 0;

	if (s->load_rc < 0) {
		*e = s->load_error;
		return s->load_rc;
	}
	/* Before anything is made: what is wrong makes no file. */
	rc = check_whole(s, p, l, e);
	if (rc == 0)
		rc = enter(r, l, f->rec.dir, e);
	if (rc == 0)
		rc = restore_file_begin(r, f, l->dir.fd, e);
	if (rc < 0)
		return rc;
	rc = restore_file_write(f, &c, s->content.data + p->from, p->n, e);
	if (rc == 0)
		return restore_file_end(r, f, l->dir.fd, e);
	restore_temp_drop(l->dir.fd, &f->temp);
	return rc;
}

static void write_part(struct restore_slot *s, struct restore_piece *p)
{
	struct restore_cursor c = p->cursor;
	struct err why = ERR_INIT;

	if (s->load_rc < 0 || atomic_load(&p->file->bad))
		return;
	if (restore_file_write(
		p->file, &c, s->content.data + p->from, p->n, &why) == 0)
		return;
	atomic_store(&p->file->bad, true);
	p->failed = true;
	s->write_error = why;
}

static int load(struct restore *r, struct restore_slot *s, struct local *l)
{
	s->load_error = (struct err)ERR_INIT;
	s->load_rc = 0;
	buf_reset(&s->content);
	if (!s->has_chunk)
		return 0;
	s->load_rc = archive_load_chunk(archive_datastore(r->content),
	    &l->loader, &s->entry.digest, s->entry.end - s->start, &s->content,
	    &s->load_error);
	s->bad = l->loader.bad;
	return s->load_rc;
}

int restore_work(void *ctx, void *local, void *arg, struct err *e)
{
	struct restore *r = ctx;
	struct restore_slot *s = arg;
	struct local *l = local;
	int rc = task_check(r->task, e);

	if (rc < 0)
		return rc;
	rc = load(r, s, l);
	if (rc < 0 && restore_is_fatal(&s->load_error)) {
		*e = s->load_error;
		return rc;
	}
	for (size_t i = 0; i < s->n; i++) {
		struct restore_piece *p = &s->pieces[i];

		if (!p->whole) {
			write_part(s, p);
			continue;
		}
		p->file->rc = make_whole(r, s, p, l, &p->file->e);
		if (p->file->rc < 0 && restore_is_fatal(&p->file->e)) {
			*e = p->file->e;
			restore_name_error(
			    r, p->file->rec.dir, p->file->rec.name, e);
			return p->file->rc;
		}
	}
	return 0;
}
