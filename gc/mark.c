/* SPDX-License-Identifier: MIT */
#include "gc/mark.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "datastore/locks.h"
#include "gc/digestsort.h"
#include "gc/mark_internal.h"

/*
 * Limits of waiting.  Before the first listing nothing was done that would be
 * lost; behind it, hours of reading may have been.
 */
#define FIRST_WAIT_MS 30000U
#define LATER_WAIT_MS 600000U

/* From here on nobody may remove snapshots until what was listed is read. */
#define PRUNE_LOCK_ROUND 4U

/* With the prune lock held, only foreign programs can make things vanish. */
#define ROUNDS_MAX 64U

#define WHAT "garbage collection"

void mark_release(struct mark *m)
{
	for (size_t i = 0; i < m->roots_n; i++)
		free(m->roots[i].path);
	free(m->roots);
	*m = (struct mark)MARK_INIT;
}

static int compare_roots(const void *a, const void *b)
{
	const struct mark_root *x = a;
	const struct mark_root *y = b;

	return strcmp(x->path, y->path);
}

/* Among the first n roots, which are sorted; NULL if it is not there. */
static struct mark_root *find_root(
    const struct mark *m, size_t n, const char *path)
{
	size_t low = 0;
	size_t high = n;

	while (low < high) {
		size_t mid = low + (high - low) / 2;
		int c = strcmp(m->roots[mid].path, path);

		if (c == 0)
			return &m->roots[mid];
		if (c < 0) {
			low = mid + 1;
		} else {
			high = mid;
		}
	}
	return NULL;
}

uint64_t mark_data_bytes(const struct mark *m)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < m->roots_n; i++)
		sum += m->roots[i].data_bytes;
	return sum;
}

/* Remember a root; known: how many roots are sorted. */
static int remember(struct mark *m, size_t known, const char *path,
    const struct mark_root *root, struct err *e)
{
	struct mark_root *old = find_root(m, known, path);
	struct mark_root fresh = *root;

	if (old != NULL) {
		fresh.path = old->path;
		*old = fresh;
		return 0;
	}
	if (m->roots_n == m->roots_cap) {
		size_t cap = m->roots_cap == 0 ? 64 : m->roots_cap * 2;
		struct mark_root *p = reallocarray(m->roots, cap, sizeof(*p));

		if (p == NULL)
			return err_nomem(e);
		m->roots = p;
		m->roots_cap = cap;
	}
	fresh.path = strdup(path);
	if (fresh.path == NULL)
		return err_nomem(e);
	m->roots[m->roots_n] = fresh;
	m->roots_n++;
	return 0;
}

static bool is_skipped(const struct mark_opts *opts, const struct root_file *f)
{
	for (size_t i = 0; i < opts->skip_n && !f->has_manifest; i++) {
		size_t n = strlen(opts->skip[i]);

		if (strncmp(f->path, opts->skip[i], n) == 0 &&
		    f->path[n] == '/')
			return true;
	}
	return false;
}

/* By what the listing says of it. */
static const struct mark_root *looks_read(
    const struct mark *m, size_t known, const struct root_file *file)
{
	const struct mark_root *root = find_root(m, known, file->path);

	if (root == NULL || !root_id_equal(&root->id, &file->id))
		return NULL;
	return root;
}

/*
 * Was this very file read whole?  Inodes are used again, and times are as
 * coarse as the file system's: only the header tells for certain.
 */
static bool is_read(
    struct marking *mk, size_t known, const struct root_file *file)
{
	const struct mark_root *root = looks_read(mk->m, known, file);
	struct err ignored = ERR_INIT;
	struct idx *ix = NULL;
	struct root_id id = { 0 };
	bool same = false;

	if (root == NULL)
		return false;
	/* If it can not be opened now, reading it will say why. */
	if (mark_open(mk->ds, file->path, &ix, &ignored) < 0)
		return false;
	id = root_id_of(idx_stat(ix));
	same = root_id_equal(&id, &root->id) &&
	    memcmp(idx_info(ix)->uuid, root->uuid, IDX_UUID_SIZE) == 0;
	idx_close(ix);
	return same;
}

/* A file that stands in an odd place: no command lists it, yet it counts. */
static void say_odd(struct marking *mk, const struct root_file *file)
{
	char shown[LISTING_SHOWN_SIZE];

	bool quiet = mk->findings->quiet;

	if (file->in_snapshot)
		return;
	/* It is new, in whichever round it was met. */
	mk->findings->quiet = mk->quiet;
	findings_warn(mk->findings,
	    "'%s' is an index file outside of any snapshot; what it "
	    "references is kept",
	    listing_shown(mk->ds, file->path, shown));
	mk->findings->quiet = quiet;
}

static int read_one(struct marking *mk, size_t known,
    const struct root_file *file, struct err *e)
{
	struct mark_root root = { .path = NULL };
	bool whole = false;
	int rc = mark_read(mk, file, &root, &whole, e);

	if (rc < 0 || !whole)
		return rc;
	say_odd(mk, file);
	rc = remember(mk->m, known, file->path, &root, e);
	mk->m->counts.files_read = mk->m->roots_n;
	return rc;
}

/* Totals for the progress: what was read, and what seems to be ahead. */
static void count_ahead(struct marking *mk, const struct listing *l)
{
	struct mark_counts *c = &mk->m->counts;

	mk->ahead = 0;
	c->files_total = mk->m->roots_n;
	for (size_t i = 0; i < l->n; i++) {
		const struct root_file *file = &l->files[i];

		if (is_skipped(mk->opts, file) ||
		    looks_read(mk->m, mk->m->roots_n, file) != NULL)
			continue;
		mk->ahead += mark_estimate(file);
		if (find_root(mk->m, mk->m->roots_n, file->path) == NULL)
			c->files_total++;
	}
	mark_progress(mk, 0);
}

static int compare_files(const void *a, const void *b)
{
	const struct root_file *x = a;
	const struct root_file *y = b;

	return neighbour_compare_paths(x->path, y->path);
}

static int read_listed(struct marking *mk, struct listing *l, struct err *e)
{
	size_t known = mk->m->roots_n;
	int rc = 0;

	count_ahead(mk, l);
	if (l->n > 0)
		qsort(l->files, l->n, sizeof(*l->files), compare_files);
	for (size_t i = 0; rc == 0 && i < l->n; i++) {
		const struct root_file *file = &l->files[i];
		uint64_t estimate = mark_estimate(file);
		bool looked_read = false;

		rc = task_check(mk->task, e);
		if (rc < 0)
			break;
		if (is_skipped(mk->opts, file))
			continue;
		looked_read = looks_read(mk->m, known, file) != NULL;
		if (looked_read && is_read(mk, known, file))
			continue;
		if (!looked_read)
			mk->ahead -=
			    estimate < mk->ahead ? estimate : mk->ahead;
		rc = read_one(mk, known, file, e);
	}
	if (mk->m->roots_n > 0)
		qsort(mk->m->roots, mk->m->roots_n, sizeof(*mk->m->roots),
		    compare_roots);
	return rc;
}

/* Under the tree lock: a listing holds all that was visible at its start. */
static int list(struct marking *mk, struct listing *ret, struct err *e)
{
	uint64_t wait_ms =
	    mk->m->counts.rounds == 1 ? FIRST_WAIT_MS : LATER_WAIT_MS;
	int rc = 0;

	if (mk->opts->locks) {
		rc = locks_wait_exclusive(
		    mk->ds, LOCK_BYTE_TREE, wait_ms, WHAT, mk->task, e);
		if (rc < 0)
			return rc;
	}
	rc = listing_walk(mk->ds, mk->task, mk->findings, ret, e);
	if (mk->opts->locks)
		locks_release(mk->ds, LOCK_BYTE_TREE, LOCK_EXCLUSIVE);
	return rc;
}

static int list_and_read(struct marking *mk, struct err *e)
{
	struct listing l = LISTING_INIT;
	int rc = list(mk, &l, e);

	if (rc < 0)
		return rc;
	mk->vanished = l.vanished;
	rc = read_listed(mk, &l, e);
	listing_release(&l);
	neighbour_forget(mk->before);
	return rc;
}

static int run_round(struct marking *mk, struct err *e)
{
	bool prune_lock = false;
	int rc = 0;

	mk->m->counts.rounds++;
	/* They are no roots, so that each round meets all of them. */
	mk->m->counts.left_overs = 0;
	if (mk->opts->locks && mk->m->counts.rounds >= PRUNE_LOCK_ROUND) {
		rc = locks_wait_exclusive(
		    mk->ds, LOCK_BYTE_PRUNE, LATER_WAIT_MS, WHAT, mk->task, e);
		if (rc < 0)
			return rc;
		prune_lock = true;
	}
	rc = list_and_read(mk, e);
	if (prune_lock)
		locks_release(mk->ds, LOCK_BYTE_PRUNE, LOCK_EXCLUSIVE);
	if (rc == 0 && mk->sink->flush != NULL)
		rc = mk->sink->flush(mk->sink->ctx, e);
	/* What vanished is not to be read any more. */
	mk->ahead = 0;
	mk->m->counts.files_total = mk->m->roots_n;
	if (rc == 0)
		mark_progress(mk, 0);
	return rc;
}

/*
 * Two listings at least: a directory that somebody moves by hand can be missed
 * by one.  What was found wrong in the first is found by the second again, so
 * it is not made.
 */
static bool is_done(const struct marking *mk)
{
	if (mk->findings->fatal > 0)
		return true;
	return mk->m->counts.rounds >= 2 && mk->vanished == 0;
}

int mark_run(struct datastore *ds, const struct mark_opts *opts,
    const struct mark_sink *sink, struct findings *findings, struct task *task,
    struct mark *m, struct err *e)
{
	struct marking mk = {
		.ds = ds,
		.opts = opts,
		.sink = sink,
		.findings = findings,
		.task = task,
		.m = m,
		.quiet = findings->quiet,
	};
	int rc = 0;

	mk.entries = malloc(MARK_PIECE * sizeof(*mk.entries));
	if (mk.entries == NULL)
		return err_nomem(e);
	rc = neighbour_new(&mk.before, e);
	if (rc < 0) {
		free(mk.entries);
		return rc;
	}
	do {
		rc = run_round(&mk, e);
		/* Warnings are not said once per round. */
		findings->quiet = true;
		if (rc == 0 && m->counts.rounds == ROUNDS_MAX && !is_done(&mk))
			rc = err_set(e, ERR_BUSY,
			    "snapshots vanished in each of %u listings of "
			    "'%s': somebody removes one after the other" ERR_TRY_AGAIN,
			    ROUNDS_MAX, ds->path);
	} while (rc == 0 && !is_done(&mk));
	findings->quiet = mk.quiet;
	neighbour_free(mk.before);
	free(mk.entries);
	return rc;
}

/* Which digests were met in one file. */
struct meeting {
	const struct mark_search *search;
	struct idx_entry *entries; /* MARK_PIECE */
	bool *met;                 /* one per digest */
};

static int meet(
    struct meeting *mt, struct idx *ix, struct task *task, struct err *e)
{
	const struct mark_search *s = mt->search;
	struct err ignored = ERR_INIT;
	size_t n = 0;

	memset(mt->met, 0, s->n * sizeof(*mt->met));
	do {
		if (task_check(task, e) < 0)
			return e->code;
		/* It was readable a moment ago; this is for messages. */
		if (idx_next(ix, mt->entries, MARK_PIECE, &n, &ignored) < 0)
			return 0;
		for (size_t i = 0; i < n; i++) {
			const struct digest *d = &mt->entries[i].digest;
			size_t at = digest_lower_bound(s->digests, s->n, d);

			if (at < s->n && digest_equal(&s->digests[at], d))
				mt->met[at] = true;
		}
	} while (n > 0);
	return 0;
}

/* Search one root; who it references is told. */
static int search_root(struct meeting *mt, struct datastore *ds,
    const char *path, struct task *task, struct err *e)
{
	const struct mark_search *s = mt->search;
	struct err ignored = ERR_INIT;
	struct idx *ix = NULL;
	int rc = 0;

	if (mark_open(ds, path, &ix, &ignored) < 0)
		return 0;
	rc = meet(mt, ix, task, e);
	idx_close(ix);
	for (size_t k = 0; rc == 0 && k < s->n; k++) {
		if (mt->met[k])
			s->fn(s->ctx, &s->digests[k], path);
	}
	return rc;
}

int mark_find_references(struct datastore *ds, const struct mark *m,
    const struct mark_search *search, struct task *task, struct err *e)
{
	struct meeting mt = {
		.search = search,
		.entries = malloc(MARK_PIECE * sizeof(*mt.entries)),
		.met = calloc(search->n + 1, sizeof(*mt.met)),
	};
	int rc = 0;

	if (mt.entries == NULL || mt.met == NULL) {
		rc = err_nomem(e);
		goto out;
	}
	for (size_t i = 0; rc == 0 && i < m->roots_n; i++)
		rc = search_root(&mt, ds, m->roots[i].path, task, e);
out:
	free(mt.met);
	free(mt.entries);
	return rc;
}
