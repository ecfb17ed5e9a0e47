/* SPDX-License-Identifier: MIT */
#include "gc/sweep.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "datastore/base/text.h"
#include "datastore/blob.h"
#include "datastore/store.h"

/* How long a busy prefix is tried, and how often. */
#define PUT_OFF_NS (60 * CLOCK_NS_PER_S)
#define PUT_OFF_PAUSE_MS 100U

/* What a scan saw of a victim. */
struct sweep_seen {
	filetime atime;
	uint64_t bytes;
};

/* Counts of one prefix, dropped if it is scanned again. */
struct sweep_tally {
	uint64_t disk_chunks;
	uint64_t disk_bytes;
	uint64_t pending_chunks;
	uint64_t pending_bytes;
	uint64_t still_bad;
	filetime newest_pending;
};

struct sweeping {
	struct datastore *ds;
	const struct sweep_opts *opts;
	struct task *task;
	struct gc_result *r;
	const filetime *file_clock;
	/*
	 * What is made later holds only what is newer than any cutoff.  In a
	 * small store few are there, and to look for the others would take
	 * longer than all the rest.
	 */
	struct store_prefixes there;
	unsigned visited; /* prefixes */
	/* Of the prefix that is being swept. */
	unsigned prefix;
	struct store_victim *victims;
	struct sweep_seen *seen; /* one per victim */
	size_t n;
	size_t cap;
	struct sweep_tally tally;
	/* Prefixes whose lock was held; NULL until there is one. */
	uint16_t *busy;
	size_t busy_n;
};

static bool in_range(const struct sweep_opts *o, const struct digest *d)
{
	return o->live == NULL ||
	    (digest_compare(d, &o->lo) >= 0 &&
		(o->hi_is_end || digest_compare(d, &o->hi) < 0));
}

static bool is_live(const struct sweep_opts *o, const struct digest *d)
{
	return o->live != NULL && livepass_contains(o->live, d);
}

/* Do its times let it go?  The store looks again before it does. */
static bool is_old(const struct sweep_opts *o, const struct store_entry *entry)
{
	if (entry->kind == STORE_TMP)
		return entry->mtime < o->cutoff && entry->ctime < o->cutoff;
	return entry->atime < o->cutoff &&
	    (!o->by_ctime || entry->ctime < o->cutoff);
}

static void warn(struct sweeping *s, const char *text, const char *name)
{
	if (s->opts->quiet)
		return;
	s->r->warnings++;
	task_message(s->task, TASK_WARNING, "'%s/.chunks/%04x/%s' %s",
	    s->ds->path, s->prefix, name, text);
}

static void count_pending(struct sweeping *s, filetime atime, uint64_t bytes)
{
	s->tally.pending_bytes += bytes;
	if (atime > s->tally.newest_pending)
		s->tally.newest_pending = atime;
}

/* A chunk that stays. */
static void count_chunk(
    struct sweeping *s, const struct store_entry *entry, bool live)
{
	if (!live && entry->atime < s->opts->start_of_mark) {
		s->tally.pending_chunks++;
		count_pending(s, entry->atime, entry->bytes);
	} else {
		s->tally.disk_chunks++;
		s->tally.disk_bytes += entry->bytes;
	}
}

static void count_bad(
    struct sweeping *s, const struct store_entry *entry, bool live)
{
	s->tally.still_bad++;
	if (!live && entry->atime < s->opts->start_of_mark) {
		count_pending(s, entry->atime, entry->bytes);
	} else {
		s->tally.disk_bytes += entry->bytes;
	}
}

static int add_victim(struct sweeping *s, const struct store_entry *entry,
    bool if_good_exists, struct err *e)
{
	size_t cap = s->cap == 0 ? STORE_SWEEP_MAX : s->cap * 2;
	struct store_victim *v = NULL;

	if (s->n == s->cap) {
		struct store_victim *p =
		    reallocarray(s->victims, cap, sizeof(*p));
		struct sweep_seen *q = NULL;

		if (p == NULL)
			return err_nomem(e);
		s->victims = p;
		q = reallocarray(s->seen, cap, sizeof(*q));
		if (q == NULL)
			return err_nomem(e);
		s->seen = q;
		s->cap = cap;
	}
	v = &s->victims[s->n];
	*v = (struct store_victim){
		.kind = entry->kind,
		.by_ctime = s->opts->by_ctime,
		.if_good_exists = if_good_exists,
	};
	memcpy(v->name, entry->name, strlen(entry->name) + 1);
	s->seen[s->n] = (struct sweep_seen){
		.atime = entry->atime,
		.bytes = entry->bytes,
	};
	s->n++;
	return 0;
}

/*
 * Its time was set by a clock that was ahead.  If it is in use it was touched
 * by mark, so it is not.
 */
static void bring_back(struct sweeping *s, const struct store_entry *entry)
{
	enum store_touched what = STORE_MISSING;
	struct err why = ERR_INIT;
	filetime now = *s->file_clock;

	s->tally.pending_chunks++;
	count_pending(s, now, entry->bytes);
	/* Where it can not be touched it waits, as before. */
	if (!s->opts->dry_run &&
	    store_touch(s->ds->store, &entry->digest, &what, &why) < 0)
		warn(s, "has a time ahead of the clock and can not be touched",
		    entry->name);
}

static int see_chunk(
    struct sweeping *s, const struct store_entry *entry, struct err *e)
{
	bool live = is_live(s->opts, &entry->digest);
	int rc = 0;

	if (s->opts->seen != NULL)
		rc = s->opts->seen(s->opts->told_ctx, entry, e);
	if (rc < 0)
		return rc;
	if (live)
		livepass_see(s->opts->live, &entry->digest);
	if (!live && is_old(s->opts, entry))
		return add_victim(s, entry, false, e);
	if (!live && entry->atime > *s->file_clock &&
	    entry->atime - *s->file_clock > SWEEP_AHEAD_NS) {
		bring_back(s, entry);
	} else {
		count_chunk(s, entry, live);
	}
	return 0;
}

static int has_good(
    struct sweeping *s, const struct digest *d, bool *ret, struct err *e)
{
	struct store_entry good;
	bool found = false;
	int rc = store_stat(s->ds->store, d, &good, &found, e);

	if (rc == 0)
		*ret = found && good.regular && good.bytes > BLOB_HEADER_SIZE;
	return rc;
}

static int see_bad(
    struct sweeping *s, const struct store_entry *entry, struct err *e)
{
	bool live = is_live(s->opts, &entry->digest);
	bool goes = is_old(s->opts, entry);
	int rc = 0;

	/* A sweep asks under the lock. */
	if (goes && live && s->opts->dry_run)
		rc = has_good(s, &entry->digest, &goes, e);
	if (rc < 0)
		return rc;
	if (goes)
		return add_victim(s, entry, live, e);
	count_bad(s, entry, live);
	return 0;
}

static int see_entry(void *ctx, const struct store_entry *entry, struct err *e)
{
	struct sweeping *s = ctx;

	if (entry->kind == STORE_OTHER || !in_range(s->opts, &entry->digest))
		return 0;
	if (s->opts->chunks_only && entry->kind != STORE_CHUNK)
		return 0;
	if (!entry->regular) {
		warn(s, "is no regular file and is left alone", entry->name);
		return 0;
	}
	if (entry->kind == STORE_CHUNK)
		return see_chunk(s, entry, e);
	if (entry->kind == STORE_BAD)
		return see_bad(s, entry, e);
	return is_old(s->opts, entry) ? add_victim(s, entry, false, e) : 0;
}

static void count_removed(
    struct gc_result *r, enum store_kind kind, uint64_t bytes)
{
	r->removed_bytes += bytes;
	if (kind == STORE_CHUNK) {
		r->removed_chunks++;
	} else if (kind == STORE_BAD) {
		r->removed_bad++;
	} else {
		r->removed_tmp++;
	}
}

/* A victim that is still there: touched meanwhile, or its lock was busy. */
static void count_saved(struct sweeping *s, const struct store_victim *v,
    const struct sweep_seen *seen, bool pending)
{
	struct store_entry entry = {
		.kind = v->kind,
		.bytes = seen->bytes,
		.atime = pending ? seen->atime : s->opts->start_of_mark,
	};

	if (v->kind == STORE_CHUNK) {
		count_chunk(s, &entry, false);
	} else if (v->kind == STORE_BAD) {
		count_bad(s, &entry, false);
	}
}

/* Victims first .. first + n - 1, in one taking of the lock. */
static int remove_group(
    struct sweeping *s, size_t first, size_t n, bool *ret_busy, struct err *e)
{
	struct store_victim *v = s->victims + first;
	int rc = 0;

	if (s->opts->dry_run) {
		for (size_t i = 0; i < n; i++)
			count_removed(
			    s->r, v[i].kind, s->seen[first + i].bytes);
		*ret_busy = false;
		return 0;
	}
	if (s->opts->check_group != NULL)
		rc = s->opts->check_group(s->opts->check_ctx, e);
	if (rc < 0)
		return rc;
	rc = store_sweep(
	    s->ds->store, s->prefix, s->opts->cutoff, v, n, ret_busy, e);
	if (rc == 0 && *ret_busy)
		return 0;
	for (size_t i = 0; i < n; i++) {
		if (v[i].outcome == STORE_VICTIM_REMOVED) {
			count_removed(s->r, v[i].kind, v[i].bytes);
			if (s->opts->removed != NULL)
				s->opts->removed(s->opts->told_ctx, &v[i],
				    s->seen[first + i].atime);
		} else if (v[i].outcome == STORE_VICTIM_KEPT) {
			count_saved(s, &v[i], &s->seen[first + i], false);
		}
	}
	return rc;
}

static void begin(struct sweeping *s, unsigned prefix)
{
	s->prefix = prefix;
	s->n = 0;
	s->tally = (struct sweep_tally){ 0 };
}

static int scan(struct sweeping *s, unsigned prefix, struct err *e)
{
	begin(s, prefix);
	if (s->opts->source != NULL)
		return s->opts->source(
		    s->opts->source_ctx, prefix, see_entry, s, e);
	return store_scan(s->ds->store, prefix, see_entry, s, e);
}

static void add_tally(struct sweeping *s)
{
	struct gc_result *r = s->r;
	const struct sweep_tally *t = &s->tally;

	r->disk_chunks += t->disk_chunks;
	r->disk_bytes += t->disk_bytes;
	r->pending_chunks += t->pending_chunks;
	r->pending_bytes += t->pending_bytes;
	r->still_bad += t->still_bad;
	if (t->newest_pending > r->newest_pending)
		r->newest_pending = t->newest_pending;
}

/* Remove what was seen; *ret_busy: some of it is still to be done. */
static int remove_seen(struct sweeping *s, bool *ret_busy, struct err *e)
{
	bool busy = false;
	size_t n = 0;
	int rc = 0;

	for (size_t at = 0; rc == 0 && !busy && at < s->n; at += n) {
		n = s->n - at;
		if (n > STORE_SWEEP_MAX)
			n = STORE_SWEEP_MAX;
		rc = remove_group(s, at, n, &busy, e);
	}
	if (rc < 0)
		return rc;
	/* It will be scanned again, and its counts with it. */
	if (!busy)
		add_tally(s);
	*ret_busy = busy;
	return 0;
}

/* Scan a prefix and remove. */
static int sweep_prefix(
    struct sweeping *s, unsigned prefix, bool *ret_busy, struct err *e)
{
	int rc = scan(s, prefix, e);

	return rc < 0 ? rc : remove_seen(s, ret_busy, e);
}

static void progress(struct sweeping *s, unsigned done)
{
	const struct gc_result *r = s->r;
	const struct task_count counts[] = {
		{ .key = "directories",
		    .text = "directories",
		    .done = done,
		    .of = STORE_PREFIXES },
		{ .key = "disk-chunks",
		    .text = "chunks kept",
		    .one = "chunk kept",
		    .done = r->disk_chunks },
		{ .key = "removed-chunks",
		    .text = "removed",
		    .done = r->removed_chunks },
		{ .key = "pending-chunks",
		    .text = "pending",
		    .done = r->pending_chunks },
	};
	const struct task_progress p = {
		.phase = "gc: sweep",
		.unit = TASK_UNIT_COUNT,
		.done = done,
		.total = STORE_PREFIXES,
		.counts = counts,
		.counts_n = sizeof(counts) / sizeof(counts[0]),
	};

	if (s->opts->quiet)
		return;
	if (s->opts->progress != NULL)
		s->opts->progress(s->opts->told_ctx, &p);
	else
		task_progress(s->task, &p);
}

static int put_off(struct sweeping *s, unsigned prefix, struct err *e)
{
	if (s->busy == NULL) {
		s->busy = calloc(STORE_PREFIXES, sizeof(*s->busy));
		if (s->busy == NULL)
			return err_nomem(e);
	}
	s->busy[s->busy_n] = (uint16_t)prefix;
	s->busy_n++;
	return 0;
}

static int check(struct sweeping *s, struct err *e)
{
	if (s->opts->check == NULL)
		return 0;
	return s->opts->check(s->opts->check_ctx, e);
}

static int begin_prefix(void *ctx, unsigned prefix, struct err *e)
{
	struct sweeping *s = ctx;
	int rc = 0;

	progress(s, prefix);
	rc = task_check(s->task, e);
	if (rc == 0 && s->visited % SWEEP_CHECK_EVERY == 0)
		rc = check(s, e);
	s->visited++;
	begin(s, prefix);
	return rc;
}

static int end_prefix(void *ctx, unsigned prefix, struct err *e)
{
	struct sweeping *s = ctx;
	bool busy = false;
	int rc = remove_seen(s, &busy, e);

	if (rc == 0 && busy)
		rc = put_off(s, prefix, e);
	return rc;
}

static int sweep_all(struct sweeping *s, struct err *e)
{
	const struct sweep_opts *o = s->opts;
	struct store_scan_plan plan = {
		.there = &s->there,
		.first = o->live == NULL ? 0 : digest_prefix(&o->lo),
		.last = o->live == NULL || o->hi_is_end ? STORE_PREFIXES - 1
							: digest_prefix(&o->hi),
		.begin = begin_prefix,
		.entry = see_entry,
		.end = end_prefix,
		.ctx = s,
	};

	return store_scan_all(s->ds->store, &plan, s->task, e);
}

static int sweep_source(struct sweeping *s, struct err *e)
{
	int rc = 0;

	for (unsigned p = 0; rc == 0 && p < STORE_PREFIXES; p++) {
		if (!store_prefixes_has(s->opts->of, p))
			continue;
		rc = begin_prefix(s, p, e);
		if (rc == 0)
			rc = scan(s, p, e);
		if (rc == 0)
			rc = end_prefix(s, p, e);
	}
	return rc;
}

/* Once more those that are still busy. */
static int sweep_busy(struct sweeping *s, struct err *e)
{
	size_t kept = 0;
	bool busy = false;
	int rc = check(s, e);

	for (size_t i = 0; rc == 0 && i < s->busy_n; i++) {
		rc = task_check(s->task, e);
		if (rc == 0)
			rc = sweep_prefix(s, s->busy[i], &busy, e);
		if (rc == 0 && busy) {
			s->busy[kept] = s->busy[i];
			kept++;
		}
	}
	if (rc == 0)
		s->busy_n = kept;
	return rc;
}

/* What can not go because its lock is held: by somebody who was stopped. */
static int give_up(struct sweeping *s, struct err *e)
{
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < s->busy_n; i++) {
		rc = scan(s, s->busy[i], e);
		if (rc < 0)
			break;
		for (size_t k = 0; k < s->n; k++)
			count_saved(s, &s->victims[k], &s->seen[k], true);
		add_tally(s);
	}
	if (rc == 0 && s->busy_n > 0) {
		s->r->unswept_prefixes += (uint32_t)s->busy_n;
		s->r->warnings++;
		task_message(s->task, TASK_WARNING,
		    "%zu %s not swept, the first one "
		    "'%s/.chunks/%04x': a backup held the lock for %d s",
		    s->busy_n,
		    text_plural(s->busy_n, "directory of chunks was",
			"directories of chunks were"),
		    s->ds->path, (unsigned)s->busy[0],
		    (int)(PUT_OFF_NS / CLOCK_NS_PER_S));
	}
	return rc;
}

static int sweep_put_off(struct sweeping *s, struct err *e)
{
	int64_t began = clock_boot_ns();
	int rc = 0;

	while (s->busy_n > 0 && clock_boot_ns() - began < PUT_OFF_NS) {
		rc = sweep_busy(s, e);
		if (rc < 0)
			return rc;
		if (s->busy_n > 0)
			clock_sleep_ms(PUT_OFF_PAUSE_MS);
	}
	return give_up(s, e);
}

int sweep_run(struct datastore *ds, const struct sweep_opts *opts,
    struct task *task, struct gc_result *r, struct err *e)
{
	struct sweeping s = {
		.ds = ds,
		.opts = opts,
		.task = task,
		.r = r,
		.file_clock = opts->file_clock,
	};
	int rc = 0;

	if (s.file_clock == NULL)
		s.file_clock = &opts->start_of_mark;
	if (opts->source != NULL) {
		rc = sweep_source(&s, e);
	} else {
		rc = store_list_prefixes(ds->store, &s.there, e);
		if (rc == 0)
			rc = sweep_all(&s, e);
	}
	if (rc == 0)
		rc = sweep_put_off(&s, e);
	if (rc == 0 && (opts->live == NULL || opts->hi_is_end))
		progress(&s, STORE_PREFIXES);
	free(s.victims);
	free(s.seen);
	free(s.busy);
	return rc;
}

int sweep_count(struct datastore *ds, const struct sweep_opts *opts,
    struct task *task, uint64_t *ret_chunks, uint64_t *ret_would_go,
    struct err *e)
{
	struct gc_result r = { .dry_run = true };
	struct sweep_opts o = *opts;
	int rc = 0;

	o.dry_run = true;
	o.quiet = true;
	o.check = NULL;
	o.check_group = NULL;
	o.progress = NULL;
	o.removed = NULL;
	o.seen = NULL;
	rc = sweep_run(ds, &o, task, &r, e);
	if (rc < 0)
		return rc;
	*ret_chunks = r.disk_chunks + r.pending_chunks + r.removed_chunks;
	*ret_would_go = r.removed_chunks + r.pending_chunks;
	return 0;
}
