/* SPDX-License-Identifier: MIT */
/*
 * Looking at every chunk: one directory, or all of them, several at once while
 * looks wait for the disk.
 */
#include <stdlib.h>
#include <string.h>

#include "datastore/base/dirreader.h"
#include "datastore/base/workers.h"
#include "datastore/store_fs_internal.h"

/* Prefixes that are measured together when there is one thread. */
#define PIECE_PREFIXES 16U

/* A directory with more entries is looked at by the caller's thread alone:
 * what is read ahead has to fit into memory. */
#define AHEAD_MAX 2048U
#define FIRST_ROOM 32U

/* An open prefix directory. */
struct walk {
	struct store_fs *s;
	struct dirreader *reader;
	unsigned prefix;
	int fd; /* -1: it is not there */
	bool checked;
	char shown[STORE_SHOWN_SIZE];
};

static int open_walk(struct store_fs *s, unsigned prefix,
    struct dirreader *reader, struct walk *w, struct err *e)
{
	char name[STORE_PREFIX_SIZE];
	int rc = 0;

	*w = (struct walk){
		.s = s,
		.reader = reader,
		.prefix = prefix,
		.fd = -1,
	};
	store_fs_prefix_name(prefix, name);
	store_fs_shown(s, name, w->shown);
	rc = store_fs_open_unchecked(s, prefix, &w->fd, e);
	if (rc == 0)
		dirreader_begin(reader, w->fd);
	return rc;
}

/* All was looked at; where nothing lay the directory itself is asked. */
static int end_walk(struct walk *w, struct err *e)
{
	if (w->fd < 0 || w->checked)
		return 0;
	return store_fs_check_dir(w->s, w->prefix, w->fd, e);
}

/* The next entry; its name is NULL behind the last. */
static int next_entry(
    struct walk *w, struct dirreader_entry *ret, struct err *e)
{
	return dirreader_next(w->reader, ret, w->shown, e);
}

/*
 * Look at an entry.  The first one tells on which device the directory is; it
 * is asked itself only if that is another than that of `.chunks`.
 */
static int look(struct walk *w, const char *name, enum store_kind kind,
    const struct digest *d, struct store_entry *ret, bool *ret_found,
    struct err *e)
{
	struct statx st;
	int rc = file_stat_at(w->fd, name, &st, ret_found, w->shown, e);

	if (rc < 0 || !*ret_found)
		return rc;
	if (!w->checked &&
	    (st.stx_dev_major != w->s->chunks_st.stx_dev_major ||
		st.stx_dev_minor != w->s->chunks_st.stx_dev_minor))
		rc = store_fs_check_dir(w->s, w->prefix, w->fd, e);
	if (rc < 0)
		return rc;
	w->checked = true;
	*ret = store_fs_entry(kind, d, name, &st);
	return 0;
}

/* With a reader that was used before, or not. */
static int scan_with_reader(struct store_fs *s, unsigned prefix,
    struct dirreader *reader, store_scan_fn fn, void *ctx, struct err *e)
{
	struct dirreader_entry entry;
	struct walk w;
	int rc = open_walk(s, prefix, reader, &w, e);

	while (rc == 0 && w.fd >= 0) {
		struct digest d = { { 0 } };
		struct store_entry seen;
		enum store_kind kind = STORE_OTHER;
		bool found = false;

		rc = next_entry(&w, &entry, e);
		if (rc < 0 || entry.name == NULL)
			break;
		kind = store_name_kind(entry.name, prefix, &d);
		rc = look(&w, entry.name, kind, &d, &seen, &found, e);
		if (rc == 0 && found)
			rc = fn(ctx, &seen, e);
	}
	if (rc == 0)
		rc = end_walk(&w, e);
	file_close(&w.fd);
	return rc;
}

int store_fs_scan(struct store *base, unsigned prefix, store_scan_fn fn,
    void *ctx, struct err *e)
{
	struct dirreader reader = DIRREADER_INIT;
	int rc =
	    scan_with_reader(store_fs_of(base), prefix, &reader, fn, ctx, e);

	dirreader_release(&reader);
	return rc;
}

/* A scan of many. */
struct scanning {
	struct store_fs *s;
	const struct store_scan_plan *plan;
	struct task *task;
	unsigned next;           /* prefix that begins the next piece */
	struct dirreader reader; /* of the caller's thread */
};

/* An entry that was looked at ahead of its turn. */
struct ahead_entry {
	uint64_t inode;
	bool found;
	struct store_entry seen;
	char name[STORE_NAME_SIZE];
};

/* One prefix, and those before it that are not there. */
struct ahead {
	unsigned from;
	unsigned prefix; /* the last one; `there` says if it is */
	bool there;
	bool too_many;
	struct ahead_entry *entries;
	size_t n;
	size_t cap;
	struct err err;
	struct pace_piece cost;
};

static int add_ahead(
    struct ahead *a, const struct dirreader_entry *entry, struct err *e)
{
	size_t cap = a->cap == 0 ? FIRST_ROOM : a->cap * 2;
	size_t len = strlen(entry->name);
	struct ahead_entry *to = NULL;

	/* Only names that are nobody's are longer. */
	if (len >= sizeof(to->name))
		return 0;
	if (a->n == AHEAD_MAX) {
		a->too_many = true;
		return 0;
	}
	if (a->n == a->cap) {
		struct ahead_entry *p =
		    reallocarray(a->entries, cap, sizeof(*p));

		if (p == NULL)
			return err_nomem(e);
		a->entries = p;
		a->cap = cap;
	}
	to = &a->entries[a->n++];
	*to = (struct ahead_entry){ .inode = entry->inode };
	to->seen.kind =
	    store_name_kind(entry->name, a->prefix, &to->seen.digest);
	memcpy(to->name, entry->name, len);
	return 0;
}

static int compare_inodes(const void *a, const void *b)
{
	const struct ahead_entry *x = a;
	const struct ahead_entry *y = b;

	return (x->inode > y->inode) - (x->inode < y->inode);
}

/* Names first, then looks at them in the order in which inodes lie. */
static int look_ahead(struct scanning *sc, struct dirreader *reader,
    struct ahead *a, struct err *e)
{
	struct dirreader_entry entry;
	struct walk w;
	int rc = open_walk(sc->s, a->prefix, reader, &w, e);

	while (rc == 0 && w.fd >= 0 && !a->too_many) {
		rc = next_entry(&w, &entry, e);
		if (rc < 0 || entry.name == NULL)
			break;
		rc = add_ahead(a, &entry, e);
	}
	if (rc == 0 && a->n > 0 && !a->too_many)
		qsort(a->entries, a->n, sizeof(*a->entries), compare_inodes);
	for (size_t i = 0; rc == 0 && i < a->n && !a->too_many; i++) {
		struct ahead_entry *x = &a->entries[i];
		struct digest d = x->seen.digest;

		rc = task_check(sc->task, e);
		if (rc == 0)
			rc = look(&w, x->name, x->seen.kind, &d, &x->seen,
			    &x->found, e);
	}
	if (rc == 0 && !a->too_many)
		rc = end_walk(&w, e);
	file_close(&w.fd);
	return rc;
}

static int thread_init(void *ctx, void **ret_local, struct err *e)
{
	struct dirreader *reader = malloc(sizeof(*reader));

	(void)ctx;
	if (reader == NULL)
		return err_nomem(e);
	*reader = (struct dirreader)DIRREADER_INIT;
	*ret_local = reader;
	return 0;
}

static void thread_release(void *ctx, void *local)
{
	(void)ctx;
	dirreader_release(local);
	free(local);
}

/* In any thread.  What fails is told when its turn comes. */
static int work(void *ctx, void *local, void *slot, struct err *e)
{
	struct scanning *sc = ctx;
	struct ahead *a = slot;
	struct pace_clock clock;

	(void)e;
	a->n = 0;
	a->too_many = false;
	a->err = (struct err)ERR_INIT;
	pace_begin(&clock);
	if (a->there)
		(void)look_ahead(sc, local, a, &a->err);
	a->cost = pace_end(&clock, 1);
	return 0;
}

/* What was seen of one prefix. */
static int tell(struct scanning *sc, struct ahead *a, struct err *e)
{
	const struct store_scan_plan *plan = sc->plan;
	int rc = 0;

	if (a->too_many)
		return scan_with_reader(
		    sc->s, a->prefix, &sc->reader, plan->entry, plan->ctx, e);
	if (a->err.code != ERR_OK) {
		*e = a->err;
		return e->code;
	}
	for (size_t i = 0; rc == 0 && i < a->n; i++) {
		if (a->entries[i].found)
			rc = plan->entry(plan->ctx, &a->entries[i].seen, e);
	}
	return rc;
}

/* In the caller's thread, prefix by prefix in order. */
static int retire(void *ctx, void *slot, struct err *e)
{
	struct scanning *sc = ctx;
	const struct store_scan_plan *plan = sc->plan;
	struct ahead *a = slot;
	int rc = 0;

	for (unsigned p = a->from; rc == 0 && p <= a->prefix; p++)
		rc = plan->begin(plan->ctx, p, e);
	if (rc == 0 && a->there)
		rc = tell(sc, a, e);
	if (rc == 0 && a->there)
		rc = plan->end(plan->ctx, a->prefix, e);
	if (rc == 0)
		pace_note(&sc->s->scan_pace, &a->cost, clock_boot_ns());
	return rc;
}

/* The next piece; false behind the last. */
static bool cut(struct scanning *sc, struct ahead *a)
{
	unsigned p = sc->next;

	if (p > sc->plan->last)
		return false;
	a->from = p;
	while (p < sc->plan->last && !store_prefixes_has(sc->plan->there, p))
		p++;
	a->prefix = p;
	a->there = store_prefixes_has(sc->plan->there, p);
	sc->next = p + 1;
	return true;
}

/* A prefix at a time, until several threads are better. */
static int scan_alone(struct scanning *sc, struct err *e)
{
	const struct store_scan_plan *plan = sc->plan;
	struct pace *pace = &sc->s->scan_pace;
	struct ahead a = { .entries = NULL };
	int rc = 0;

	while (rc == 0 && pace->threads == 1 && sc->next <= plan->last) {
		struct pace_clock clock;
		struct pace_piece cost;
		unsigned n = 0;

		pace_begin(&clock);
		while (rc == 0 && n < PIECE_PREFIXES && cut(sc, &a)) {
			for (unsigned p = a.from; rc == 0 && p <= a.prefix; p++)
				rc = plan->begin(plan->ctx, p, e);
			if (rc < 0 || !a.there)
				continue;
			rc = scan_with_reader(sc->s, a.prefix, &sc->reader,
			    plan->entry, plan->ctx, e);
			if (rc == 0)
				rc = plan->end(plan->ctx, a.prefix, e);
			n++;
		}
		cost = pace_end(&clock, n);
		pace_note(pace, &cost, clock_boot_ns());
	}
	return rc;
}

static const struct workers_ops scan_ops = {
	.thread_init = thread_init,
	.thread_release = thread_release,
	.work = work,
	.retire = retire,
};

static int scan_with(struct scanning *sc, struct workers *w, struct err *e)
{
	unsigned threads = sc->s->scan_pace.threads;
	void *slot = NULL;
	int rc = 0;

	while (rc == 0 && sc->s->scan_pace.threads == threads) {
		rc = workers_get(w, &slot, e);
		if (rc < 0 || !cut(sc, slot))
			break;
		workers_submit(w);
	}
	return rc < 0 ? rc : workers_finish(w, e);
}

static int scan_together(struct scanning *sc, struct err *e)
{
	unsigned threads = sc->s->scan_pace.threads;
	size_t n = (size_t)threads + threads / 2 + 1;
	struct ahead *all = calloc(n, sizeof(*all));
	void **slots = calloc(n, sizeof(*slots));
	struct workers *w = NULL;
	struct err why = ERR_INIT;
	int rc = 0;

	for (size_t i = 0; all != NULL && slots != NULL && i < n; i++)
		slots[i] = &all[i];
	if (all == NULL || slots == NULL ||
	    workers_new(&scan_ops, sc, threads, slots, n, &w, &why) < 0) {
		/* One can do it as well. */
		pace_limit(&sc->s->scan_pace, 1);
	} else {
		pace_pause(&sc->s->scan_pace);
		rc = scan_with(sc, w, e);
		pace_pause(&sc->s->scan_pace);
	}
	workers_free(w);
	for (size_t i = 0; all != NULL && i < n; i++)
		free(all[i].entries);
	free(slots);
	free(all);
	return rc;
}

int store_fs_scan_all(struct store *base, const struct store_scan_plan *plan,
    struct task *task, struct err *e)
{
	struct scanning sc = {
		.s = store_fs_of(base),
		.plan = plan,
		.task = task,
		.next = plan->first,
		.reader = DIRREADER_INIT,
	};
	int rc = 0;

	pace_pause(&sc.s->scan_pace);
	while (rc == 0 && sc.next <= plan->last) {
		if (sc.s->scan_pace.threads == 1) {
			rc = scan_alone(&sc, e);
		} else {
			rc = scan_together(&sc, e);
		}
	}
	dirreader_release(&sc.reader);
	return rc;
}
