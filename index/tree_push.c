/* SPDX-License-Identifier: MIT */
#include "index/tree_push.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "datastore/base/file.h"
#include "datastore/base/text.h"
#include "index/tree_push_internal.h"

/* Reads that wait for a disk at the same time, even on a single CPU. */
#define THREADS_MIN 4U
#define THREADS_MAX 16U

/* Of up to WALK_SMALL_MAX bytes each. */
#define SLOTS 32U

#define PIECE ((size_t)256 << 10)

/* While nothing is appended, the session is looked after so often. */
#define PULSE_ENTRIES 256U

/* A path that is longer is shown without its middle. */
#define SHOWN_MAX ((size_t)512)

/* ---- messages ---- */

static int append_shown(struct buf *out, const char *p, size_t n, struct err *e)
{
	int rc = 0;

	if (n <= SHOWN_MAX)
		return text_append_name(out, p, n, e);
	rc = text_append_name(out, p, SHOWN_MAX / 2, e);
	if (rc == 0)
		rc = buf_append_str(out, "[...]", e);
	if (rc == 0)
		rc = text_append_name(
		    out, p + n - SHOWN_MAX / 2, SHOWN_MAX / 2, e);
	return rc;
}

static int shown_path(struct tree_push *t, const struct walk_dir *d,
    const char *name, struct buf *out, struct err *e)
{
	int rc = 0;

	buf_reset(&t->path);
	rc = buf_append_str(&t->path, t->shown, e);
	if (rc == 0 && (d->parent != NULL || name != NULL) &&
	    (t->path.len == 0 || t->path.data[t->path.len - 1] != '/'))
		rc = buf_append(&t->path, "/", 1, e);
	if (rc == 0)
		rc = walk_path(d, name, &t->path, e);
	if (rc == 0)
		rc = append_shown(
		    out, (const char *)t->path.data, t->path.len, e);
	return rc;
}

int tree_push_warn(struct tree_push *t, const struct walk_dir *d,
    const char *name, struct err *e, const char *fmt, ...)
{
	struct buf out = BUF_INIT;
	char text[ERR_MSG_SIZE + 256];
	const char *path = NULL;
	va_list ap;
	int rc = shown_path(t, d, name, &out, e);

	if (rc == 0) {
		path = buf_cstr(&out, e);
		rc = path == NULL ? e->code : 0;
	}
	if (rc == 0) {
		va_start(ap, fmt);
		(void)vsnprintf(text, sizeof(text), fmt, ap);
		va_end(ap);
		task_message(t->task, TASK_WARNING, "'%s' %s", path, text);
	}
	buf_release(&out);
	return rc;
}

/* ---- retiring ---- */

static int warn(struct tree_push *t, const struct tree_slot *s,
    const char *what, const struct err *why, struct err *e)
{
	return tree_push_warn(t, s->dir, s->name, e, "%s: %s", what, why->msg);
}

/* Whatever a person must know of it, each once. */
static int tell(struct tree_push *t, const struct tree_slot *s, struct err *e)
{
	const struct walk_found *f = &s->f;
	bool unreadable = s->unlisted || f->incomplete ||
	    (f->state & CATALOG_STATE_UNREADABLE) != 0;

	t->result.unreadable += unreadable;
	if (s->unlisted)
		return warn(t, s, "can not be read; what is in it is missing",
		    &s->why, e);
	if ((f->state & CATALOG_STATE_UNREADABLE) != 0)
		return warn(t, s, "can not be read; its content is missing",
		    &f->why, e);
	if (f->incomplete)
		return warn(t, s, "is stored, but not all of it", &f->why, e);
	if ((f->state & (CATALOG_STATE_CHANGED | CATALOG_STATE_SHORT)) == 0)
		return 0;
	t->result.changed++;
	if ((f->state & CATALOG_STATE_CHANGED) != 0)
		return tree_push_warn(t, s->dir, s->name, e,
		    "changed while it was read; what was read is stored");
	return tree_push_warn(t, s->dir, s->name, e,
	    "has %" PRIu64 " bytes, want %" PRIu64 "; they are stored", f->size,
	    (uint64_t)f->st.stx_size);
}

/* An entry that is not there, or not for us. */
static int pass_over(
    struct tree_push *t, const struct tree_slot *s, struct err *e)
{
	if (s->f.outcome == WALK_GONE) {
		t->result.vanished++;
		return 0;
	}
	t->result.unreadable++;
	return warn(t, s, "is left out", &s->f.why, e);
}

static void count(struct tree_push *t, const struct tree_slot *s)
{
	t->result.files += s->f.kind == CATALOG_FILE;
	t->result.directories += s->f.kind == CATALOG_DIR;
}

/* A directory took the place of what was listed: it was not walked. */
static void check_kind(struct tree_slot *s)
{
	if (s->name != NULL && !s->unlisted && s->f.kind == CATALOG_DIR) {
		s->unlisted = true;
		(void)err_set(&s->why, ERR_INVALID,
		    "a directory took the place of something else");
	}
}

static bool is_stored(const struct tree_slot *s)
{
	return s->content != TREE_CONTENT_NONE && s->f.outcome == WALK_THERE &&
	    s->f.kind == CATALOG_FILE &&
	    (s->f.state & CATALOG_STATE_UNREADABLE) == 0;
}

/* A later name was read by a worker before this one came to its turn: that is
 * no content that is like another's. */
static bool is_known(
    const struct tree_slot *s, const struct walk_link_content *known)
{
	return is_stored(s) && s->f.state == 0 && s->f.size == known->size &&
	    s->f.stored == known->stored &&
	    digest_equal(&s->f.sha256, &known->sha256);
}

/* One name of several of an inode. */
static int retire_link(
    struct tree_push *t, struct tree_slot *s, int64_t *ret_link, struct err *e)
{
	const struct walk_link_content *known = NULL;
	struct walk_found *f = &s->f;
	int rc = walk_links_meet(t->links, &f->st, s->id, ret_link, &known, e);

	if (rc < 0)
		return rc;
	if (known != NULL &&
	    (s->content == TREE_CONTENT_OWNER || is_known(s, known))) {
		s->pos = known->pos;
		f->sha256 = known->sha256;
		f->size = known->size;
		f->stored = known->stored;
	} else {
		rc = tree_push_place(t, s, e);
		if (rc == 0 && is_stored(s) &&
		    (f->state &
			(CATALOG_STATE_CHANGED | CATALOG_STATE_SHORT)) == 0) {
			const struct walk_link_content content = {
				.ctime = f->st.stx_ctime,
				.size = f->size,
				.stored = f->stored,
				.pos = s->pos,
				.sha256 = f->sha256,
			};

			walk_links_store(t->links, &content);
		}
	}
	walk_links_done(t->links);
	return rc;
}

/* The owner may have looked again, at something else. */
static int64_t checked_link(
    const struct tree_slot *s, const struct statx *before, int64_t link)
{
	const struct statx *st = &s->f.st;

	if (s->f.kind == CATALOG_DIR || st->stx_nlink < 2)
		return 0;
	return link != 0 && file_same(st, before) ? link : s->id;
}

static int retire_entry(struct tree_push *t, struct tree_slot *s, struct err *e)
{
	struct statx before = s->f.st;
	int64_t link = 0;
	int rc = 0;

	if (s->f.outcome != WALK_THERE)
		return pass_over(t, s, e);
	if (s->f.kind != CATALOG_DIR && s->f.st.stx_nlink > 1)
		rc = retire_link(t, s, &link, e);
	else
		rc = tree_push_place(t, s, e);
	if (rc < 0)
		return rc;
	if (s->f.outcome != WALK_THERE)
		return pass_over(t, s, e);
	check_kind(s);
	rc = tree_push_row(t, s, checked_link(s, &before, link), e);
	if (rc < 0)
		return rc;
	count(t, s);
	return tell(t, s, e);
}

static int retire(void *ctx, void *slot, struct err *e)
{
	struct tree_push *t = ctx;
	struct tree_slot *s = slot;
	int rc = retire_entry(t, s, e);

	walk_release(s->dir);
	s->dir = NULL;
	walk_found_reset(&s->f);
	if (rc == 0 && ++t->retired % PULSE_ENTRIES == 0)
		rc = tree_writer_pulse(t->writer, e);
	return rc;
}

/* ---- workers ---- */

static int thread_init(void *ctx, void **ret_local, struct err *e)
{
	struct digest_ctx *digest = NULL;
	int rc = digest_ctx_new(&digest, e);

	(void)ctx;
	if (rc == 0)
		*ret_local = digest;
	return rc;
}

static void thread_release(void *ctx, void *local)
{
	(void)ctx;
	digest_ctx_free(local);
}

static int work(void *ctx, void *local, void *slot, struct err *e)
{
	return tree_push_look(ctx, local, slot, e);
}

static const struct workers_ops ops = {
	.thread_init = thread_init,
	.thread_release = thread_release,
	.work = work,
	.retire = retire,
};

/* ---- the walk ---- */

/*
 * Give an entry to the workers; its directory is held for it.  why: a
 * directory that can not be listed; NULL: nothing is wrong with it.
 */
static int submit(struct tree_push *t, struct walk_dir *d, const char *name,
    int64_t id, unsigned char type, const struct err *why, struct err *e)
{
	struct tree_slot *s = NULL;
	void *slot = NULL;
	int rc = workers_get(t->workers, &slot, e);

	if (rc < 0)
		return rc;
	s = slot;
	walk_hold(d);
	s->dir = d;
	s->name = name;
	s->id = id;
	s->type = type;
	s->unlisted = why != NULL;
	if (why != NULL)
		s->why = *why;
	workers_submit(t->workers);
	return 0;
}

/* Nothing that a single directory is to blame for. */
static bool is_fatal(const struct err *e)
{
	return e->code != ERR_LIMIT &&
	    (e->code != ERR_SYS || e->sys_errno == EMFILE ||
		e->sys_errno == ENFILE);
}

static void number_entries(struct tree_push *t, struct walk_dir *d)
{
	for (size_t i = 0; i < d->n; i++) {
		int64_t id = tree_writer_next_id(t->writer);

		if (i == 0)
			d->first_id = id;
	}
}

/* The names of a directory that is open, its own row, and onto the stack. */
static int enter_open(struct tree_push *t, struct walk_dir *d, struct err *e)
{
	const struct walk_dir *root = walk_root(t->walk);
	struct err why = ERR_INIT;
	int rc = 0;

	if (t->opts->one_file_system &&
	    (d->mnt_id != root->mnt_id || d->dev_major != root->dev_major ||
		d->dev_minor != root->dev_minor))
		return submit(t, d, NULL, d->id, DT_DIR, NULL, e);
	rc = tree_push_list(t, d, &why);
	if (rc < 0 && (is_fatal(&why) || d == root)) {
		*e = why;
		err_prefix(e, "'%s'", t->shown);
		return rc;
	}
	number_entries(t, d);
	rc = submit(t, d, NULL, d->id, DT_DIR, rc < 0 ? &why : NULL, e);
	return rc < 0 ? rc : walk_push(t->walk, d, e);
}

/* A directory on the way down; or what has become of it. */
static int enter(
    struct tree_push *t, const char *name, int64_t id, struct err *e)
{
	struct walk_dir *top = walk_top(t->walk);
	struct walk_dir *d = NULL;
	struct err why = ERR_INIT;
	int rc = walk_open(t->walk, name, &d, &why);

	if (rc == 0) {
		d->id = id;
		rc = enter_open(t, d, e);
		walk_release(d);
		return rc;
	}
	if (is_fatal(&why)) {
		*e = why;
		return rc;
	}
	if (why.sys_errno == ENOENT) {
		t->result.vanished++;
		return 0;
	}
	if (why.sys_errno == ENOTDIR || why.sys_errno == ELOOP)
		return submit(t, top, name, id, DT_UNKNOWN, NULL, e);
	return submit(t, top, name, id, DT_DIR, &why, e);
}

static int next_entry(struct tree_push *t, struct walk_dir *d, struct err *e)
{
	size_t i = d->next++;
	const char *name = walk_name(d, i);
	unsigned char type = walk_type(d, i);
	int64_t id = d->first_id + (int64_t)i;

	if (type == DT_UNKNOWN)
		type = tree_push_type(d, name);
	if (type == DT_DIR)
		return enter(t, name, id, e);
	return submit(t, d, name, id, type, NULL, e);
}

/* One is done; what is left of the one above can be reached, or not. */
static int leave(struct tree_push *t, struct err *e)
{
	struct walk_dir *d = NULL;
	bool lost = false;
	int rc = walk_pop(t->walk, &lost, e);

	d = walk_top(t->walk);
	if (rc < 0 || !lost)
		return rc;
	if (d->next == d->n)
		return 0;
	t->result.changed++;
	d->next = d->n;
	return tree_push_warn(t, d, NULL, e,
	    "was moved while it was read; not all that is in it is stored");
}

static int walk_all(struct tree_push *t, struct err *e)
{
	struct walk_dir *d = walk_root(t->walk);
	int rc = 0;

	d->id = tree_writer_next_id(t->writer);
	rc = enter_open(t, d, e);
	while (rc == 0 && (d = walk_top(t->walk)) != NULL)
		rc = d->next < d->n ? next_entry(t, d, e) : leave(t, e);
	if (rc == 0)
		rc = workers_finish(t->workers, e);
	return rc;
}

/* ---- the whole ---- */

static int make_slots(struct tree_push *t, struct err *e)
{
	t->slots = calloc(SLOTS, sizeof(*t->slots));
	if (t->slots == NULL)
		return err_nomem(e);
	/* From here on they may be released. */
	t->slots_n = SLOTS;
	for (size_t i = 0; i < t->slots_n; i++)
		t->slots[i].f.fd = -1;
	t->slot_pointers = calloc(t->slots_n, sizeof(*t->slot_pointers));
	t->piece = malloc(PIECE);
	if (t->slot_pointers == NULL || t->piece == NULL)
		return err_nomem(e);
	for (size_t i = 0; i < t->slots_n; i++)
		t->slot_pointers[i] = &t->slots[i];
	return 0;
}

static int start(struct tree_push *t, int dirfd, struct err *e)
{
	unsigned threads = t->opts->ingest.threads;
	int rc = make_slots(t, e);

	if (threads == 0)
		threads = workers_default_threads();
	if (threads < THREADS_MIN)
		threads = THREADS_MIN;
	if (threads > THREADS_MAX)
		threads = THREADS_MAX;
	if (rc == 0)
		rc = walk_new(dirfd, t->shown, &t->walk, e);
	if (rc == 0)
		rc = walk_links_new(&t->links, e);
	if (rc == 0)
		rc = walk_mounts_new(&t->mounts, e);
	if (rc == 0)
		rc = digest_ctx_new(&t->digest, e);
	if (rc == 0)
		rc = workers_new(&ops, t, threads, t->slot_pointers, t->slots_n,
		    &t->workers, e);
	return rc;
}

static void stop(struct tree_push *t)
{
	workers_free(t->workers);
	for (size_t i = 0; i < t->slots_n; i++) {
		if (t->slots[i].dir != NULL)
			walk_release(t->slots[i].dir);
		walk_found_release(&t->slots[i].f);
	}
	free(t->slots);
	free(t->slot_pointers);
	walk_free(t->walk);
	walk_links_free(t->links);
	walk_mounts_free(t->mounts);
	digest_ctx_free(t->digest);
	tree_accounts_release(&t->accounts);
	free(t->piece);
	buf_release(&t->path);
}

int tree_push(struct session *s, const char *archive, int dirfd,
    const char *shown, const struct tree_push_opts *opts, struct task *task,
    struct tree_push_result *ret, struct err *e)
{
	static const struct tree_push_opts none = { .exclude = NULL };
	struct tree_push t = { .shown = shown,
		.opts = opts != NULL ? opts : &none,
		.task = task };
	int rc =
	    tree_writer_new(s, archive, &t.opts->ingest, task, &t.writer, e);

	if (rc == 0)
		rc = start(&t, dirfd, e);
	if (rc == 0)
		rc = walk_all(&t, e);
	/* What the walk needs, the catalog may have. */
	stop(&t);
	if (rc == 0)
		rc = tree_writer_finish(t.writer, &t.result.written, e);
	tree_writer_free(t.writer);
	if (rc == 0)
		*ret = t.result;
	return rc;
}
