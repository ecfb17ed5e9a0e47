/* SPDX-License-Identifier: MIT */
#include "gc/wouldfree.h"

#include <stdlib.h>
#include <string.h>

#include "datastore/base/file.h"
#include "datastore/registration.h"
#include "datastore/snapshot.h"
#include "datastore/store.h"
#include "datastore/tree.h"
#include "gc/findings.h"
#include "gc/listing.h"
#include "gc/livepass.h"
#include "gc/mark.h"
#include "gc/running.h"

#define PIECE 4096U /* references between two looks at the task */
#define PHASE "counting garbage"

/* Directories of snapshots below the root, sorted. */
struct dirs {
	char **paths;
	size_t n;
};

/* What an index file is to the count. */
enum side {
	STAYS,
	GOES,
	NOTHING, /* left by the dead: no reference, as for GC */
};

struct counting {
	struct datastore *ds;
	struct task *task;
	const struct wouldfree_opts *opts;
	struct dirs gone;
	struct dirs dead;
	struct listing files;
	struct livepass *pass;
	struct idx_entry *entries; /* PIECE */
	bool first_pass;           /* later ones meet the same trouble again */
	uint64_t files_read;       /* for the progress: in all passes */
	struct wouldfree r;
};

const char *wouldfree_word(const struct wouldfree *w)
{
	/* Less than nothing there is not. */
	bool maybe_less = w->maybe_less && w->chunks > 0;

	if (w->maybe_more)
		return maybe_less ? "about" : "at least";
	return maybe_less ? "at most" : "exactly";
}

static int compare_paths(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static void dirs_release(struct dirs *d)
{
	for (size_t i = 0; i < d->n; i++)
		free(d->paths[i]);
	free(d->paths);
}

static int dirs_add(struct dirs *d, const char *path, struct err *e)
{
	char **paths = reallocarray(d->paths, d->n + 1, sizeof(*paths));

	if (paths == NULL)
		return err_nomem(e);
	d->paths = paths;
	paths[d->n] = strdup(path);
	if (paths[d->n] == NULL)
		return err_nomem(e);
	d->n++;
	return 0;
}

static int dirs_add_snapshots(
    struct dirs *d, const struct backup_snapshot *s, size_t n, struct err *e)
{
	char path[BACKUP_PATH_SIZE];
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < n; i++) {
		backup_snapshot_path(&s[i], path);
		rc = dirs_add(d, path, e);
	}
	return rc;
}

static void dirs_sort(struct dirs *d)
{
	if (d->n > 0)
		qsort(d->paths, d->n, sizeof(*d->paths), compare_paths);
}

/* Does the file lie in one of them? */
static bool dirs_hold(const struct dirs *d, const char *file)
{
	const char *slash = strrchr(file, '/');
	char dir[BACKUP_PATH_SIZE];
	const char *key = dir;
	size_t n = slash == NULL ? 0 : (size_t)(slash - file);

	if (d->n == 0 || n == 0 || n >= sizeof(dir))
		return false;
	memcpy(dir, file, n);
	dir[n] = '\0';
	return bsearch(&key, d->paths, d->n, sizeof(*d->paths),
		   compare_paths) != NULL;
}

static enum side side_of(const struct counting *c, const struct root_file *f)
{
	if (dirs_hold(&c->gone, f->path))
		return GOES;
	if (!f->has_manifest && dirs_hold(&c->dead, f->path))
		return NOTHING;
	return STAYS;
}

/* Something could not be read: what does that mean for the figure? */
static void doubt(struct counting *c, enum side side)
{
	if (side == GOES)
		c->r.maybe_more = true;
	else
		c->r.maybe_less = true;
}

/*
 * Who is alive may be about to reference anything; what the dead left, the
 * next garbage collection removes before it looks.
 */
static int look_for_sessions(struct counting *c, struct err *e)
{
	struct registration_list list = { .items = NULL, .n = 0 };
	struct backup_snapshot *halves = NULL;
	struct err ignored = ERR_INIT;
	size_t n = 0;
	bool live = false;
	int rc = registration_list(c->ds, &list, e);

	for (size_t i = 0; rc == 0 && i < list.n; i++) {
		live = live || list.items[i].live;
		if (!list.items[i].live && list.items[i].snapshot[0] != '\0')
			rc = dirs_add(&c->dead, list.items[i].snapshot, e);
	}
	registration_list_release(&list);
	if (rc == 0 && !live)
		rc = snapshot_interrupted(c->ds, NULL, &halves, &n, e);
	if (rc == 0)
		rc = dirs_add_snapshots(&c->dead, halves, n, e);
	free(halves);
	dirs_sort(&c->dead);
	/* Without a right to ask, the registrations have to do. */
	if (rc == 0 && !live)
		(void)running_backup(c->ds, &live, &ignored);
	if (rc == 0 && live) {
		task_message(c->task, TASK_WARNING,
		    "a backup runs that may use some of these chunks");
		c->r.maybe_less = true;
	}
	return rc;
}

static int list(struct counting *c, struct listing *ret, struct err *e)
{
	/* What is wrong is told once, by the first listing. */
	struct task quiet = TASK_SILENT;
	struct findings findings = {
		.task = ret == &c->files ? c->task : &quiet,
		.quiet = true,
	};
	int rc = listing_walk(c->ds, c->task, &findings, ret, e);

	if (rc == 0 && findings.fatal > 0)
		c->r.maybe_more = c->r.maybe_less = true;
	return rc;
}

static void say_progress(struct counting *c)
{
	const struct task_count count = {
		.key = "index-files-read",
		.text = "index files read",
		.one = "index file read",
		.done = c->files_read,
	};
	const struct task_progress p = {
		.phase = PHASE,
		.done = c->files_read,
		.counts = &count,
		.counts_n = 1,
	};

	task_progress(c->task, &p);
}

/* A failure of the file goes into *why; of anything else, it is returned. */
static int read_entries(struct counting *c, struct idx *ix, enum side side,
    struct err *why, struct err *e)
{
	size_t n = 0;

	do {
		if (task_check(c->task, e) < 0)
			return e->code;
		if (idx_next(ix, c->entries, PIECE, &n, why) < 0)
			return 0;
		for (size_t i = 0; i < n; i++) {
			if (side == GOES)
				livepass_add(c->pass, &c->entries[i].digest);
			else
				livepass_see(c->pass, &c->entries[i].digest);
		}
	} while (n > 0);
	return 0;
}

static int read_file(struct counting *c, const struct root_file *file,
    enum side side, struct err *e)
{
	struct err why = ERR_INIT;
	struct idx *ix = NULL;
	int rc = 0;

	(void)mark_open(c->ds, file->path, &ix, &why);
	if (why.code == ERR_OK)
		rc = read_entries(c, ix, side, &why, e);
	idx_close(ix);
	if (rc < 0)
		return rc;
	if (why.code == ERR_NOMEM) {
		*e = why;
		return why.code;
	}
	c->files_read++;
	say_progress(c);
	if (why.code == ERR_OK)
		return 0;
	doubt(c, side);
	/* That something was removed meanwhile, the second listing tells. */
	if (c->first_pass && why.code != ERR_NOTFOUND)
		task_message(c->task, TASK_WARNING, "%s", why.msg);
	return 0;
}

static int read_side(struct counting *c, enum side side, struct err *e)
{
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < c->files.n; i++) {
		if (side_of(c, &c->files.files[i]) == side)
			rc = read_file(c, &c->files.files[i], side, e);
	}
	return rc;
}

static int add_chunk(struct counting *c, const struct digest *d, struct err *e)
{
	struct store_entry entry = { .bytes = 0 };
	struct err why = ERR_INIT;
	bool found = false;
	int rc = store_stat(c->ds->store, d, &entry, &found, &why);

	if (rc == ERR_NOMEM) {
		*e = why;
		return rc;
	}
	if (rc < 0) {
		if (!c->r.maybe_more)
			task_message(c->task, TASK_WARNING, "%s", why.msg);
		c->r.maybe_more = true;
		return 0;
	}
	if (found) {
		c->r.chunks++;
		c->r.bytes += entry.bytes;
	}
	return 0;
}

static int add_unseen(struct counting *c, struct err *e)
{
	const struct digest *d = NULL;
	size_t at = 0;
	unsigned prefix = 0;
	int rc = 0;

	for (;;) {
		d = livepass_next_unseen(c->pass, &at);
		if (d == NULL || rc < 0)
			return rc;
		if (digest_prefix(d) != prefix && task_check(c->task, e) < 0)
			return e->code;
		prefix = digest_prefix(d);
		rc = add_chunk(c, d, e);
	}
}

static int count_range(
    struct counting *c, struct digest *lo, bool *ret_is_end, struct err *e)
{
	struct digest hi = { .b = { 0 } };
	int rc = 0;

	livepass_begin(c->pass, lo);
	rc = read_side(c, GOES, e);
	if (rc < 0)
		return rc;
	livepass_end(c->pass, &hi, ret_is_end);
	if (livepass_count(c->pass) > 0) {
		rc = read_side(c, STAYS, e);
		if (rc == 0)
			rc = add_unseen(c, e);
	}
	c->first_pass = false;
	*lo = hi;
	return rc;
}

/* No more memory than there can be digests. */
static size_t capacity(const struct counting *c)
{
	uint64_t entries = 1;

	for (size_t i = 0; i < c->files.n; i++) {
		if (side_of(c, &c->files.files[i]) == GOES)
			entries +=
			    c->files.files[i].bytes / IDX_FIXED_ENTRY_SIZE;
	}
	return entries < c->opts->capacity ? (size_t)entries
					   : c->opts->capacity;
}

static int count_ranges(struct counting *c, struct err *e)
{
	struct digest lo = { .b = { 0 } };
	bool is_end = false;
	int rc = livepass_new(capacity(c), &c->pass, e);

	if (rc < 0)
		return rc;
	c->entries = malloc(PIECE * sizeof(*c->entries));
	if (c->entries == NULL)
		return err_nomem(e);
	c->first_pass = true;
	while (rc == 0 && !is_end)
		rc = count_range(c, &lo, &is_end, e);
	return rc;
}

/* Whatever came or went while it was counted. */
static int list_again(struct counting *c, struct err *e)
{
	struct listing now = LISTING_INIT;
	bool same = false;
	int rc = list(c, &now, e);

	if (rc < 0)
		return rc;
	same = now.n == c->files.n;
	for (size_t i = 0; same && i < now.n; i++) {
		same = strcmp(now.files[i].path, c->files.files[i].path) == 0 &&
		    root_id_equal(&now.files[i].id, &c->files.files[i].id);
	}
	listing_release(&now);
	if (!same) {
		task_message(c->task, TASK_WARNING,
		    "snapshots came or went while it was counted");
		c->r.maybe_more = c->r.maybe_less = true;
	}
	return 0;
}

/* The directory of a snapshot that would go. */
struct own {
	struct counting *c;
	int fd;
	const char *shown;
};

static int add_own_file(void *ctx, const char *name, struct err *e)
{
	struct own *own = ctx;
	struct statx st = { .stx_mask = 0 };
	bool found = false;
	int rc = file_stat_at(own->fd, name, &st, &found, own->shown, e);

	if (rc == 0 && found)
		own->c->r.own_bytes += st.stx_size;
	return rc;
}

static int add_own(
    struct counting *c, const struct backup_snapshot *s, struct err *e)
{
	struct err why = ERR_INIT;
	char text[BACKUP_PATH_SIZE];
	struct own own = { .c = c, .fd = -1, .shown = text };
	int rc = task_check(c->task, e);

	if (rc < 0)
		return rc;
	backup_snapshot_text(s, text);
	rc = tree_open_snapshot(c->ds, s, &own.fd, &why);
	if (rc == 0)
		rc = file_each_name(own.fd, add_own_file, &own, text, &why);
	file_close(&own.fd);
	if (rc == ERR_NOMEM) {
		*e = why;
		return rc;
	}
	if (rc < 0) {
		task_message(c->task, TASK_WARNING, "%s", why.msg);
		c->r.maybe_more = true;
	}
	return 0;
}

static int count(struct counting *c, struct err *e)
{
	int rc =
	    dirs_add_snapshots(&c->gone, c->opts->gone, c->opts->gone_n, e);

	dirs_sort(&c->gone);
	/* Before the listing: what a session publishes meanwhile is listed, and
	 * what it does not is its business. */
	if (rc == 0)
		rc = look_for_sessions(c, e);
	if (rc == 0)
		rc = list(c, &c->files, e);
	for (size_t i = 0; rc == 0 && i < c->opts->gone_n; i++)
		rc = add_own(c, &c->opts->gone[i], e);
	if (rc == 0)
		rc = count_ranges(c, e);
	return rc < 0 ? rc : list_again(c, e);
}

int wouldfree_count(struct datastore *ds, const struct wouldfree_opts *o,
    struct task *task, struct wouldfree *ret, struct err *e)
{
	struct counting c = {
		.ds = ds,
		.task = task,
		.opts = o,
		.files = LISTING_INIT,
	};
	/* Of nothing, nothing. */
	int rc = o->gone_n == 0 ? 0 : count(&c, e);

	if (rc == 0)
		*ret = c.r;
	livepass_free(c.pass);
	free(c.entries);
	listing_release(&c.files);
	dirs_release(&c.gone);
	dirs_release(&c.dead);
	return rc;
}
