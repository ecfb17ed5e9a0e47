/* SPDX-License-Identifier: MIT */
/*
 * tree_restore_content: contents in the order of the stream, each chunk once.
 *
 * A slot is a chunk and all that is to be made of it.  A worker loads the
 * chunk; files that lie within it he makes from beginning to end.  A file
 * that goes over several chunks is made by the owner when its first chunk is
 * handed out, written piece by piece by whoever has the chunk, digested and
 * ended by the owner, who sees the pieces in order.
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "datastore/base/file.h"
#include "datastore/damage.h"
#include "datastore/digestset.h"
#include "index/tree_restore_content.h"

#define WEIGHT_MAX ((size_t)24 << 20) /* of holes and attributes in flight */
#define ENTRIES 1024U                 /* read from the index at a time */

struct restore_pass {
	struct restore *r;
	struct workers *w;
	struct restore_sort *files; /* of this pass */
	struct restore_sort *later; /* for the next: too much was open */
	struct restore_file *open[RESTORE_OPEN_FILES]; /* over several chunks */
	size_t open_n;
	size_t weight;
	struct restore_pair next; /* the record that comes next */
	bool more;

	/* The index, being read. */
	struct idx_entry entries[ENTRIES];
	size_t entries_n;
	size_t entry;
	uint64_t start; /* of the entry */

	struct digestset recorded;
};

/* -- The owner's side: what comes back. -- */

/* For the next push; that the list can not be written is said once. */
static void record(
    struct restore_pass *x, const struct digest *d, enum damage_state state)
{
	struct datastore *ds = archive_datastore(x->r->content);
	struct err why = ERR_INIT;
	bool added = false;
	int rc = 0;

	if (ds->cairn_fd < 0)
		return;
	rc = digestset_add(&x->recorded, d, &added, &why);
	if (rc == 0 && added)
		rc = damage_append(ds, d, state, &why);
	if (rc < 0)
		task_message(x->r->task, TASK_WARNING,
		    "the damage could not be recorded: %s", why.msg);
}

/* Whatever keeps a chunk from being read, its files are hurt. */
static void name_chunk(struct restore_pass *x, struct restore_slot *s)
{
	char hex[DIGEST_HEX_SIZE];

	digest_hex(&s->entry.digest, hex);
	err_prefix(&s->load_error, "'%s': chunk %s at offset %" PRIu64,
	    archive_shown(x->r->content), hex, s->start);
	if (s->load_rc == ERR_NOTFOUND)
		record(x, &s->entry.digest, DAMAGE_MISSING);
	else if (s->load_rc == ERR_CORRUPT && s->bad)
		record(x, &s->entry.digest, DAMAGE_BAD);
	s->load_error.code = s->load_rc = ERR_CORRUPT;
}

static void release(struct restore_pass *x, struct restore_file *f)
{
	for (size_t i = 0; i < x->open_n; i++) {
		if (x->open[i] == f)
			x->open[i--] = x->open[--x->open_n];
	}
	x->weight -= f->weight;
	restore_file_free(f);
}

/* The first thing that goes wrong with a file is what is told. */
static void spoil(struct restore_file *f, int rc, const struct err *why)
{
	atomic_store(&f->bad, true);
	if (f->rc == 0) {
		f->rc = rc;
		f->e = *why;
	}
}

static int end_file(
    struct restore_pass *x, struct restore_file *f, struct err *e)
{
	struct restore_dirfd dir = { .open = false };
	struct digest found;
	int rc = restore_dirs_open(x->r->dirs, f->rec.dir, &dir, e);

	/* Not to be reached again: a name that it may have stays. */
	if (rc < 0) {
		file_close(&f->temp.fd);
		return rc;
	}
	if (f->rc == 0)
		f->rc = digest_ctx_final(f->hash, &found, &f->e);
	if (f->rc == 0)
		f->rc = restore_file_check(f, &found, &f->e);
	if (f->rc == 0)
		f->rc = restore_file_end(x->r, f, dir.fd, &f->e);
	else
		restore_temp_drop(dir.fd, &f->temp);
	restore_dirs_put(x->r->dirs, &dir);
	return 0;
}

static int retire_part(struct restore_pass *x, struct restore_slot *s,
    struct restore_piece *p, struct err *e)
{
	struct restore_file *f = p->file;
	struct err why = ERR_INIT;
	int rc = 0;

	if (s->load_rc < 0) {
		spoil(f, s->load_rc, &s->load_error);
	} else if (p->failed) {
		spoil(f, s->write_error.code, &s->write_error);
	} else if (f->rc == 0) {
		rc = digest_ctx_update(
		    f->hash, s->content.data + p->from, p->n, &why);
		if (rc < 0)
			spoil(f, rc, &why);
	}
	if (f->rc < 0 && restore_is_fatal(&f->e)) {
		*e = f->e;
		restore_name_error(x->r, f->rec.dir, f->rec.name, e);
		return f->rc;
	}
	if (!p->last)
		return 0;
	why = (struct err)ERR_INIT;
	rc = end_file(x, f, &why);
	if (rc < 0)
		spoil(f, rc, &why);
	rc = restore_file_settle(x->r, f, e);
	release(x, f);
	p->file = NULL;
	return rc;
}

static void report(struct restore_pass *x)
{
	struct restore *r = x->r;
	const struct task_count counts[] = {
		{ "entries", "entries", r->result.entries, 0, TASK_UNIT_COUNT,
		    "entry" },
	};
	struct task_progress p = {
		.phase = r->phase,
		.unit = TASK_UNIT_BYTES,
		.done = r->done,
		.total = r->total,
		.counts = counts,
		.counts_n = 1,
	};

	task_progress(r->task, &p);
}

static int retire(void *ctx, void *arg, struct err *e)
{
	struct restore_pass *x = ((struct restore *)ctx)->pass;
	struct restore_slot *s = arg;
	int rc = 0;

	if (s->load_rc < 0)
		name_chunk(x, s);
	for (size_t i = 0; i < s->n && rc == 0; i++) {
		struct restore_piece *p = &s->pieces[i];
		struct restore_file *f = p->file;

		x->r->done += p->n;
		if (!p->whole) {
			rc = retire_part(x, s, p, e);
			continue;
		}
		if (s->load_rc < 0)
			f->e = s->load_error;
		if (f->rc < 0)
			f->rc = f->e.code;
		rc = restore_file_settle(x->r, f, e);
		p->file = NULL;
		release(x, f);
	}
	s->n = 0;
	report(x);
	return rc;
}

/* -- The owner's side: what goes out. -- */

static int next_record(struct restore_pass *x, struct err *e)
{
	return restore_sort_next(x->files, &x->next, &x->more, e);
}

/* The entry of the index that has this offset; never one before it again. */
static int seek(struct restore_pass *x, uint64_t at, struct err *e)
{
	struct idx *idx = archive_idx(x->r->content);

	for (;;) {
		int rc = 0;

		while (
		    x->entry < x->entries_n && x->entries[x->entry].end <= at)
			x->start = x->entries[x->entry++].end;
		if (x->entry < x->entries_n)
			return 0;
		x->entry = 0;
		rc = idx_next(idx, x->entries, ENTRIES, &x->entries_n, e);
		if (rc == 0 && x->entries_n == 0)
			rc = err_set(e, ERR_CORRUPT,
			    "'%s': no chunk has offset %" PRIu64,
			    archive_shown(x->r->content), at);
		if (rc < 0)
			return rc;
	}
}

/* Where the next byte that is wanted lies. */
static uint64_t next_offset(const struct restore_pass *x)
{
	uint64_t least = x->more ? x->next.key : RESTORE_NO_CONTENT;

	for (size_t i = 0; i < x->open_n; i++) {
		const struct restore_file *f = x->open[i];

		if (f->next < f->rec.stored && f->rec.start + f->next < least)
			least = f->rec.start + f->next;
	}
	return least;
}

/* What the slot's chunk has of it. */
static int add_piece(
    struct restore_slot *s, struct restore_file *f, bool whole, struct err *e)
{
	struct restore_piece *p = &s->pieces[s->n++];
	uint64_t left = f->rec.stored - f->next;
	uint64_t at = f->rec.start + f->next;

	*p = (struct restore_piece){
		.file = f, .cursor = f->cursor, .whole = whole
	};
	if (s->has_chunk) {
		p->from = (size_t)(at - s->start);
		p->n = s->entry.end - at < left ? (size_t)(s->entry.end - at)
						: (size_t)left;
	}
	f->next += p->n;
	p->last = f->next == f->rec.stored;
	return whole ? 0 : restore_file_write(f, &f->cursor, NULL, p->n, e);
}

static int begin_open(
    struct restore_pass *x, struct restore_file *f, struct err *e)
{
	struct restore_dirfd dir = { .open = false };
	int rc = restore_dirs_open(x->r->dirs, f->rec.dir, &dir, e);

	if (rc == 0)
		rc = digest_ctx_new(&f->hash, e);
	if (rc == 0)
		rc = restore_file_begin(x->r, f, dir.fd, e);
	restore_dirs_put(x->r->dirs, &dir);
	return rc;
}

/* It is told of, and gone. */
static int give_up(
    struct restore_pass *x, struct restore_file *f, struct err *e)
{
	int rc = restore_file_settle(x->r, f, e);

	release(x, f);
	return rc;
}

static int add_open(struct restore_pass *x, struct restore_slot *s,
    struct restore_file *f, struct err *e)
{
	int rc = 0;

	if (x->open_n == RESTORE_OPEN_FILES ||
	    (x->open_n > 0 && x->weight > WEIGHT_MAX)) {
		release(x, f);
		return restore_sort_add(x->later, x->next, e);
	}
	f->rc = begin_open(x, f, &f->e);
	if (f->rc < 0)
		return give_up(x, f, e);
	x->open[x->open_n++] = f;
	rc = add_piece(s, f, false, e);
	return rc;
}

static int add_next(
    struct restore_pass *x, struct restore_slot *s, struct err *e)
{
	struct restore_file *f = NULL;
	int rc = restore_file_new(x->r, x->next.at, &f, e);

	if (rc < 0)
		return rc;
	x->weight += f->weight;
	if (f->rc < 0)
		rc = give_up(x, f, e);
	else if (s->has_chunk && f->rec.stored > s->entry.end - f->rec.start)
		rc = add_open(x, s, f, e);
	else
		rc = add_piece(s, f, true, e);
	return rc < 0 ? rc : next_record(x, e);
}

/* Is there room, and does the next file begin in this chunk? */
static bool takes_next(
    const struct restore_pass *x, const struct restore_slot *s)
{
	if (!x->more || s->n == RESTORE_PIECES || x->weight > WEIGHT_MAX)
		return false;
	if (!s->has_chunk)
		return true;
	return x->next.key < s->entry.end;
}

/* Files that began in an earlier chunk and go on in this one. */
static int add_pieces(
    struct restore_pass *x, struct restore_slot *s, struct err *e)
{
	int rc = 0;

	for (size_t i = 0; i < x->open_n && rc == 0; i++) {
		struct restore_file *f = x->open[i];

		if (f->next < f->rec.stored &&
		    f->rec.start + f->next < s->entry.end)
			rc = add_piece(s, f, false, e);
	}
	return rc;
}

static int fill(struct restore_pass *x, struct restore_slot *s, struct err *e)
{
	uint64_t at = next_offset(x);
	int rc = 0;

	s->n = 0;
	s->has_chunk = at != RESTORE_NO_CONTENT;
	if (s->has_chunk) {
		rc = seek(x, at, e);
		if (rc < 0)
			return rc;
		s->entry = x->entries[x->entry];
		s->start = x->start;
		rc = add_pieces(x, s, e);
	}
	while (rc == 0 && takes_next(x, s))
		rc = add_next(x, s, e);
	return rc;
}

static int feed(struct restore_pass *x, struct err *e)
{
	int rc = idx_rewind(archive_idx(x->r->content), e);

	x->entries_n = x->entry = 0;
	x->start = 0;
	if (rc == 0)
		rc = restore_sort_rewind(x->files, e);
	if (rc == 0)
		rc = next_record(x, e);
	while (rc == 0 && (x->more || next_offset(x) != RESTORE_NO_CONTENT)) {
		void *slot = NULL;
		struct restore_slot *s = NULL;

		rc = workers_get(x->w, &slot, e);
		if (rc < 0)
			break;
		s = slot;
		rc = fill(x, s, e);
		if (rc == 0 && s->n > 0)
			workers_submit(x->w);
		if (rc == 0 && x->weight > WEIGHT_MAX)
			rc = workers_finish(x->w, e);
	}
	return rc < 0 ? rc : workers_finish(x->w, e);
}

/* -- A pass. -- */

/* What was not ended leaves nothing behind. */
static void drop(struct restore_pass *x, struct restore_file *f)
{
	struct restore_dirfd dir = { .open = false };
	struct err ignored = ERR_INIT; /* the first error is told */

	if (restore_dirs_open(x->r->dirs, f->rec.dir, &dir, &ignored) == 0)
		restore_temp_drop(dir.fd, &f->temp);
	else
		file_close(&f->temp.fd);
	restore_dirs_put(x->r->dirs, &dir);
	release(x, f);
}

static void clean_up(
    struct restore_pass *x, struct restore_slot *slots, size_t n)
{
	for (size_t i = 0; slots != NULL && i < n; i++) {
		for (size_t k = 0; k < slots[i].n; k++) {
			struct restore_piece *p = &slots[i].pieces[k];

			if (p->whole && p->file != NULL)
				release(x, p->file);
		}
		buf_release(&slots[i].content);
	}
	while (x->open_n > 0)
		drop(x, x->open[x->open_n - 1]);
}

static int run(
    struct restore_pass *x, unsigned threads, size_t n, struct err *e)
{
	static const struct workers_ops ops = {
		.thread_init = restore_work_init,
		.thread_release = restore_work_release,
		.work = restore_work,
		.retire = retire,
	};
	struct restore_slot *slots = calloc(n, sizeof(*slots));
	void **pointers = calloc(n, sizeof(*pointers));
	int rc = 0;

	if (slots == NULL || pointers == NULL) {
		rc = err_nomem(e);
		goto out;
	}
	for (size_t i = 0; i < n; i++)
		pointers[i] = &slots[i];
	rc = workers_new(&ops, x->r, threads, pointers, n, &x->w, e);
	while (rc == 0) {
		struct restore_sort *done = x->files;

		rc = feed(x, e);
		if (rc < 0 || restore_sort_count(x->later) == 0)
			break;
		restore_sort_clear(done);
		x->files = x->later;
		x->later = done;
	}
	workers_free(x->w);
out:
	clean_up(x, slots, n);
	free(slots);
	free(pointers);
	return rc;
}

static int scattered(struct restore *r, struct err *e)
{
	int rc = restore_sort_rewind(r->scattered, e);

	while (rc == 0) {
		struct restore_pair next;
		bool more = false;

		rc = restore_sort_next(r->scattered, &next, &more, e);
		if (rc < 0 || !more)
			break;
		rc = restore_file_scattered(r, next.at, e);
	}
	restore_sort_clear(r->scattered);
	return rc;
}

int restore_contents(struct restore *r, struct err *e)
{
	struct restore_pass *x = NULL;
	unsigned threads = r->opts->threads;
	unsigned most = 0;
	size_t slots = 0;
	int rc = 0;

	if (threads == 0)
		threads = workers_default_threads();
	archive_plan_chunks(r->content, threads, &most, &slots);
	x = calloc(1, sizeof(*x));
	if (x == NULL)
		return err_nomem(e);
	x->r = r;
	r->pass = x;
	x->files = r->files;
	rc = restore_sort_new(RESTORE_SORT_RUN, &x->later, e);
	if (rc == 0)
		rc = run(x, most, slots, e);
	/* They may have changed places. */
	r->files = x->files;
	restore_sort_free(x->later);
	restore_sort_clear(r->files);
	digestset_release(&x->recorded);
	r->pass = NULL;
	free(x);
	return rc < 0 ? rc : scattered(r, e);
}
