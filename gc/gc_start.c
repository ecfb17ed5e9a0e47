/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "datastore/base/file.h"
#include "datastore/base/sysio.h"
#include "datastore/base/text.h"
#include "datastore/cairndir.h"
#include "datastore/locks.h"
#include "datastore/probe.h"
#include "datastore/registration.h"
#include "datastore/session.h"
#include "datastore/snapshot.h"
#include "gc/gc_internal.h"

/* A margin below this is made up for by waiting first. */
#define SHORT_CUTOFF_S 5U
#define SHORT_WAIT_NS (6 * CLOCK_NS_PER_S)

/* On a network file system others' touches may be seen late. */
#define NETWORK_CUTOFF_S 600U

/* A session registers right after it took byte 0, and ends right before. */
#define UNSEEN_WAIT_NS (10 * CLOCK_NS_PER_S)
#define PAUSE_MS 100U

bool gc_is_full(const struct err *e)
{
	return err_is_sys(e, ENOSPC) || err_is_sys(e, EDQUOT);
}

int gc_check_opts(struct gc_run *run, struct err *e)
{
	const struct gc_opts *o = run->opts;

	if (o->cutoff_s >= NETWORK_CUTOFF_S || !datastore_is_network(run->ds))
		return 0;
	return err_set(e, ERR_INVALID,
	    "cutoff of %" PRIu64 " s on a network file system ('%s'), want at "
	    "least %u s: what other hosts touch is seen late there",
	    o->cutoff_s, run->ds->path, NETWORK_CUTOFF_S);
}

/* What a walk over `.chunks` needs. */
struct prefix_walk {
	struct gc_run *run;
	struct statx chunks;
};

static int check_prefix(void *ctx, const char *name, struct err *e)
{
	struct prefix_walk *w = ctx;
	struct datastore *ds = w->run->ds;
	struct err why = ERR_INIT;
	struct statx st;
	unsigned prefix = 0;
	bool found = false;
	int rc = 0;

	if (!store_prefix_of(name, &prefix))
		return 0;
	rc = task_check(w->run->task, e);
	if (rc < 0)
		return rc;
	if (file_stat_at(ds->chunks_fd, name, &st, &found, name, &why) < 0) {
		findings_fatal(
		    &w->run->findings, "'%s/.chunks': %s", ds->path, why.msg);
	} else if (found && !S_ISDIR(st.stx_mode)) {
		findings_fatal(&w->run->findings,
		    "'%s/.chunks/%s' is a symbolic link or a file, want a "
		    "directory",
		    ds->path, name);
	} else if (found &&
	    (st.stx_dev_major != w->chunks.stx_dev_major ||
		st.stx_dev_minor != w->chunks.stx_dev_minor)) {
		findings_fatal(&w->run->findings,
		    "'%s/.chunks/%s' is on another device than '.chunks', "
		    "want it on the same",
		    ds->path, name);
	} else if (found) {
		/* The mark need not look again, the sweep does. */
		store_fs_note_prefix(ds->store, prefix);
	}
	return 0;
}

/*
 * All of them together, so that not half of a store is swept before it is
 * noticed that the rest is another store's.
 */
static int check_prefixes(struct gc_run *run, struct err *e)
{
	struct prefix_walk w = { .run = run };
	char shown[GC_SHOWN_SIZE];
	int rc = 0;

	(void)datastore_shown(run->ds, ".chunks", shown, sizeof(shown));
	rc = file_stat_fd(run->ds->chunks_fd, &w.chunks, shown, e);
	if (rc == 0)
		rc = file_each_name(
		    run->ds->chunks_fd, check_prefix, &w, shown, e);
	return rc;
}

/* A1 on `.chunks`, which creates nothing: the time it gives is the clock. */
static int probe_chunks(struct gc_run *run, filetime *ret, struct err *e)
{
	char shown[GC_SHOWN_SIZE];
	struct err why = ERR_INIT;
	int rc = probe_atime(run->ds->chunks_fd, ".", ret,
	    datastore_shown(run->ds, ".chunks", shown, sizeof(shown)), &why);

	/* Full: mark goes without touches, and the clock is another's. */
	if (rc < 0 && gc_is_full(&why))
		return gc_guard_clock(run, ret, e);
	if (rc < 0)
		*e = why;
	return rc;
}

static int wait_ns(struct gc_run *run, int64_t ns, struct err *e)
{
	int64_t began = clock_boot_ns();
	int rc = task_check(run->task, e);

	while (rc == 0 && clock_boot_ns() - began < ns) {
		clock_sleep_ms(PAUSE_MS);
		rc = task_check(run->task, e);
	}
	return rc;
}

/* A3 and A1, then the time from which all that is touched counts as used. */
static int find_start(struct gc_run *run, struct err *e)
{
	char shown[GC_SHOWN_SIZE];
	int rc = probe_locks(run->ds->root_fd, ".lock",
	    datastore_shown(run->ds, ".lock", shown, sizeof(shown)), e);

	if (rc == 0)
		rc = probe_chunks(run, &run->r.start_of_mark, e);
	if (rc == 0 && run->opts->cutoff_s < SHORT_CUTOFF_S) {
		task_message(run->task, TASK_NOTE,
		    "waiting 6 s, so that what was last used before this run "
		    "can go");
		rc = wait_ns(run, SHORT_WAIT_NS, e);
		if (rc == 0)
			rc = probe_chunks(run, &run->r.start_of_mark, e);
	}
	run->start_boot = clock_boot_ns();
	run->file_clock = run->r.start_of_mark;
	return rc;
}

/* What a session keeps, as text for people. */
static void set_session(
    struct gc_run *run, const struct registration_info *info)
{
	char text[REGISTRATION_TEXT_SIZE];

	(void)snprintf(run->r.pending_session, sizeof(run->r.pending_session),
	    "%s", registration_text(info, text));
}

/* a - b, or as far back as times go. */
static filetime before(filetime a, int64_t b)
{
	filetime t = 0;

	return __builtin_sub_overflow(a, b, &t) ? INT64_MIN : t;
}

static int64_t cutoff_ns(const struct gc_run *run)
{
	uint64_t s = run->opts->cutoff_s;

	if (s > (uint64_t)(INT64_MAX / CLOCK_NS_PER_S))
		return INT64_MAX;
	return (int64_t)s * CLOCK_NS_PER_S;
}

/* The cutoff, from the start of mark and those who live. */
static int find_cutoff(
    struct gc_run *run, const struct registration_list *list, struct err *e)
{
	filetime cutoff = before(run->r.start_of_mark, cutoff_ns(run));

	for (size_t i = 0; i < list->n; i++) {
		const struct registration_info *info = &list->items[i];

		if (!info->live)
			continue;
		if (info->damaged) {
			return err_set(e, ERR_BUSY,
			    "'%s/%s/%s' can not be read: since when its backup "
			    "runs is not known; it counts as dead when nobody "
			    "has touched it for a day, or remove it if no "
			    "backup runs",
			    run->ds->path, CAIRNDIR_SESSIONS, info->uuid);
		}
		if (info->start < cutoff) {
			cutoff = info->start;
			run->session_limits = true;
			set_session(run, info);
		}
	}
	run->r.cutoff = before(cutoff, GC_SLACK_NS);
	return 0;
}

static bool any_live(const struct registration_list *list)
{
	for (size_t i = 0; i < list->n; i++) {
		if (list->items[i].live)
			return true;
	}
	return false;
}

/*
 * *ret_unseen: somebody holds the lock of sessions and no live registration is
 * to be seen, so that nothing is known of what he uses.
 */
static int look_for_sessions(struct gc_run *run, struct registration_list *ret,
    bool *ret_unseen, struct err *e)
{
	struct registration_list list = { .items = NULL, .n = 0 };
	bool held = false;
	int rc = lockfile_is_held(
	    run->ds->locks, LOCK_BYTE_SESSION, LOCK_EXCLUSIVE, &held, e);

	/* After that question: who came since has a start after ours. */
	if (rc == 0)
		rc = registration_list(run->ds, &list, e);
	if (rc < 0)
		return rc;
	*ret = list;
	*ret_unseen = held && !any_live(&list);
	return 0;
}

static int read_sessions(struct gc_run *run, struct err *e)
{
	struct registration_list list = { .items = NULL, .n = 0 };
	int64_t began = clock_boot_ns();
	bool unseen = false;
	int rc = look_for_sessions(run, &list, &unseen, e);

	while (rc == 0 && unseen && clock_boot_ns() - began < UNSEEN_WAIT_NS) {
		clock_sleep_ms(PAUSE_MS);
		rc = task_check(run->task, e);
		if (rc < 0)
			break;
		registration_list_release(&list);
		list = (struct registration_list){ .items = NULL, .n = 0 };
		rc = look_for_sessions(run, &list, &unseen, e);
	}
	if (rc == 0 && unseen)
		rc = err_set(e, ERR_BUSY,
		    "a backup into '%s' runs whose registration can not be "
		    "seen in '%s'" ERR_TRY_AGAIN,
		    run->ds->path, CAIRNDIR_SESSIONS);
	if (rc == 0)
		rc = find_cutoff(run, &list, e);
	registration_list_release(&list);
	return rc;
}

int gc_start(struct gc_run *run, struct err *e)
{
	size_t cleaned = 0;
	int rc = find_start(run, e);

	if (rc == 0)
		rc = session_clean_dead(run->ds, run->task, &cleaned, e);
	if (rc == 0) {
		rc = snapshot_end_removals(
		    run->ds, NULL, run->task, &cleaned, e);
	}
	if (rc == 0)
		rc = read_sessions(run, e);
	if (rc == 0)
		rc = check_prefixes(run, e);
	return rc;
}

static int add_skipped(struct gc_run *run, const char *path, struct err *e)
{
	run->skip[run->skip_n] = strdup(path);
	if (run->skip[run->skip_n] == NULL)
		return err_nomem(e);
	run->skip_n++;
	return 0;
}

static bool is_live(const struct registration_list *list, const char *path)
{
	for (size_t i = 0; i < list->n; i++) {
		if (list->items[i].live &&
		    strcmp(list->items[i].snapshot, path) == 0)
			return true;
	}
	return false;
}

/* What a run would remove before it lists: snapshots of the dead, and what is
 * left of interrupted removals. */
static int find_skipped(
    struct gc_run *run, const struct registration_list *list, struct err *e)
{
	struct backup_snapshot *halves = NULL;
	size_t n = 0;
	int rc = snapshot_interrupted(run->ds, NULL, &halves, &n, e);

	if (rc < 0)
		return rc;
	run->skip = calloc(list->n + n + 1, sizeof(*run->skip));
	if (run->skip == NULL)
		rc = err_nomem(e);
	for (size_t i = 0; rc == 0 && i < list->n; i++) {
		const struct registration_info *info = &list->items[i];

		if (!info->live && info->snapshot[0] != '\0')
			rc = add_skipped(run, info->snapshot, e);
	}
	for (size_t i = 0; rc == 0 && i < n; i++) {
		char path[BACKUP_PATH_SIZE];

		backup_snapshot_path(&halves[i], path);
		if (!is_live(list, path))
			rc = add_skipped(run, path, e);
	}
	free(halves);
	return rc;
}

/*
 * The time that a run would read back from a touch of `.chunks` if it began
 * now.  A dry run may not touch, and a file time that is only read is of the
 * last change, which may be days ago: then it would say "nothing" where a run
 * removes a lot.  On a local file system times are given by the kernel's
 * clock, so that is what would be read.  On a network file system it is the
 * server's, and the two may differ; nothing is removed by it, so the price is
 * a report that is off by as much.
 */
static filetime kernel_clock(void)
{
	struct timespec ts = { .tv_sec = 0, .tv_nsec = 0 };

	(void)sysio_clock_gettime(CLOCK_REALTIME, &ts);
	return ts.tv_sec * CLOCK_NS_PER_S + ts.tv_nsec;
}

int gc_start_dry(struct gc_run *run, struct err *e)
{
	struct registration_list list = { .items = NULL, .n = 0 };
	int rc = 0;

	run->r.start_of_mark = kernel_clock();
	/* A run would wait first. */
	if (run->opts->cutoff_s < SHORT_CUTOFF_S)
		run->r.start_of_mark += SHORT_WAIT_NS;
	run->file_clock = run->r.start_of_mark;
	run->start_boot = clock_boot_ns();
	rc = registration_list(run->ds, &list, e);
	if (rc < 0)
		return rc;
	rc = find_skipped(run, &list, e);
	if (rc == 0)
		rc = find_cutoff(run, &list, e);
	registration_list_release(&list);
	if (rc == 0)
		rc = check_prefixes(run, e);
	return rc;
}

void gc_start_release(struct gc_run *run)
{
	for (size_t i = 0; i < run->skip_n; i++)
		free(run->skip[i]);
	free(run->skip);
}
