/* SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <stdio.h>

#include "datastore/base/sysio.h"
#include "datastore/base/text.h"
#include "datastore/probe.h"
#include "gc/gc_internal.h"

/* A2: two minutes, and what a clock that is being corrected may lose. */
#define LOSS_NS (120 * CLOCK_NS_PER_S)
#define LOSS_SHARE 1000 /* one part in this many: 1000 ppm */

/* A2 is looked at once per this many directories. */
#define CLOCK_EVERY (4096U / SWEEP_CHECK_EVERY)

/* While something is removed, it is looked at as often. */
#define LOOK_AGAIN_NS CLOCK_NS_PER_S

/* Chunks that can not be touched at all before the probe is given up. */
#define PROBE_TRIES 16U

/* File times of a local file system lag behind the clock by a tick; where
 * they are whole seconds by one, on exFAT by two. */
#define LAG_NS (2 * CLOCK_NS_PER_S)

int gc_guard_clock(struct gc_run *run, filetime *ret, struct err *e)
{
	struct timespec ts = { .tv_sec = 0, .tv_nsec = 0 };
	char shown[GC_SHOWN_SIZE];
	struct err why = ERR_INIT;
	int rc = probe_clock(run->ds->chunks_fd, ".", ret,
	    datastore_shown(run->ds, ".chunks", shown, sizeof(shown)), &why);

	if (rc == 0)
		return 0;
	/*
	 * Too full for a touch (btrfs, ZFS).  These are local, and the times
	 * they give are the kernel's.  A little earlier is the safe side: the
	 * cutoff is counted from it.
	 */
	if (!gc_is_full(&why) || datastore_is_network(run->ds)) {
		*e = why;
		return rc;
	}
	run->no_space = true;
	(void)sysio_clock_gettime(CLOCK_REALTIME, &ts);
	*ret = ts.tv_sec * CLOCK_NS_PER_S + ts.tv_nsec - LAG_NS;
	return 0;
}

/* How far our own clock is ahead of time that passes. */
static int64_t ahead_of_boot(void)
{
	struct timespec ts = { .tv_sec = 0, .tv_nsec = 0 };

	(void)sysio_clock_gettime(CLOCK_REALTIME, &ts);
	return ts.tv_sec * CLOCK_NS_PER_S + ts.tv_nsec - clock_boot_ns();
}

/*
 * A2: since the start of mark, how much did the clock that gives file times
 * lose against time that passes?  What was touched after a step back looks
 * older than it is; a step forward only makes garbage wait.
 */
static int check_clock(struct gc_run *run, struct err *e)
{
	char lost[TEXT_DURATION_SIZE];
	filetime now = 0;
	int64_t passed = 0;
	int64_t allowed = 0;
	int64_t loss = 0;
	int rc = gc_guard_clock(run, &now, e);

	if (rc < 0)
		return rc;
	run->file_clock = now;
	run->looked_boot = clock_boot_ns();
	run->looked_ahead = ahead_of_boot();
	passed = run->looked_boot - run->start_boot;
	allowed = LOSS_NS + passed / LOSS_SHARE;
	if (__builtin_sub_overflow(passed, now - run->r.start_of_mark, &loss))
		loss = INT64_MAX;
	if (loss > allowed) {
		return err_set(e, ERR_REFUSED,
		    "the clock of '%s' was set back by %s while garbage was "
		    "collected: what was used since may look older than it "
		    "is; nothing more is removed, run it again",
		    run->ds->path,
		    text_duration(lost, (uint64_t)(loss / CLOCK_NS_PER_S)));
	}
	/*
	 * Where the margin is smaller still than what a clock may lose, a
	 * session's touches would already look older than the cutoff.
	 */
	if (now - (GC_SLACK_NS - LAG_NS) < run->r.cutoff) {
		return err_set(e, ERR_REFUSED,
		    "the clock of '%s' was set back to before this run began: "
		    "what is used now looks as old as garbage; nothing more is "
		    "removed, run it again",
		    run->ds->path);
	}
	if (loss < -allowed && !run->jumped) {
		run->jumped = true;
		task_message(run->task, TASK_NOTE,
		    "the clock of '%s' was set forward by %s meanwhile",
		    run->ds->path,
		    text_duration(lost, (uint64_t)(-(loss / CLOCK_NS_PER_S))));
	}
	return 0;
}

/* A1: what this run touched has not an older time now. */
static int check_canary(
    struct gc_run *run, const struct digest *d, struct err *e)
{
	char path[STORE_CHUNK_PATH_SIZE];
	char seen[TEXT_TIME_SIZE];
	char want[TEXT_TIME_SIZE];
	struct store_entry entry;
	bool found = false;
	int rc = store_stat(run->ds->store, d, &entry, &found, e);

	/* Gone: verify found it bad, and set it aside. */
	if (rc < 0 || !found || entry.atime >= run->r.start_of_mark)
		return rc;
	store_chunk_path(d, path);
	return err_set(e, ERR_REFUSED,
	    "'%s/.chunks/%s' was touched in this run and has an access time "
	    "of %s, want %s or later: the file system does not keep access "
	    "times; nothing more is removed",
	    run->ds->path, path, text_time(seen, clock_filetime_s(entry.atime)),
	    text_time(want, clock_filetime_s(run->r.start_of_mark)));
}

int gc_guard_all(struct gc_run *run, struct err *e)
{
	const struct digest *canaries = NULL;
	size_t n = 0;
	int rc = check_clock(run, e);

	if (run->touch != NULL)
		canaries = touch_canaries(run->touch, &n);
	for (size_t i = 0; rc == 0 && i < n; i++)
		rc = check_canary(run, &canaries[i], e);
	return rc;
}

int gc_guard_next(void *ctx, struct err *e)
{
	struct gc_run *run = ctx;
	const struct digest *canaries = NULL;
	size_t n = 0;
	int rc = 0;

	if (run->checks % CLOCK_EVERY == 0)
		rc = check_clock(run, e);
	run->checks++;
	if (rc < 0 || run->touch == NULL)
		return rc;
	canaries = touch_canaries(run->touch, &n);
	if (n == 0)
		return 0;
	/* Not one behind the other: they lie in the order of the mark. */
	run->canary = (run->canary + n / 2 + 1) % n;
	return check_canary(run, &canaries[run->canary], e);
}

int gc_guard_group(void *ctx, struct err *e)
{
	struct gc_run *run = ctx;

	/*
	 * A2 lets a clock lose two minutes.  Where the cutoff is further from
	 * the start of mark than that, a session that begins after such a
	 * step still touches at times behind the cutoff.  With a margin of
	 * seconds it does not, so it is looked at before each group of
	 * unlinks, not once per 4096 directories.
	 */
	if (run->r.cutoff >= run->r.start_of_mark - LOSS_NS)
		return check_clock(run, e);
	/*
	 * No margin is wide enough for a step of days, behind which a session
	 * may begin at once.  On a local file system such a step shows in our
	 * own clock, which costs nothing to look at; on another one the
	 * file clock is asked once a second.
	 */
	if (clock_boot_ns() - run->looked_boot < LOOK_AGAIN_NS &&
	    run->looked_ahead - ahead_of_boot() < LAG_NS)
		return 0;
	return check_clock(run, e);
}

int gc_guard_first(
    void *ctx, const struct digest *d, bool *ret_done, struct err *e)
{
	struct gc_run *run = ctx;
	char rel[STORE_CHUNK_PATH_SIZE];
	char shown[GC_SHOWN_SIZE];
	struct err why = ERR_INIT;
	filetime now = 0;
	int rc = 0;

	store_chunk_path(d, rel);
	(void)snprintf(
	    shown, sizeof(shown), "%s/.chunks/%s", run->ds->path, rel);
	rc = probe_atime(run->ds->chunks_fd, rel, &now, shown, &why);
	if (rc == 0) {
		*ret_done = true;
		return 0;
	}
	/* A missing one is no chunk; one that can not be touched will be
	 * reported when it is its turn. */
	if (rc != ERR_NOTFOUND && rc != ERR_SYS) {
		*e = why;
		return rc;
	}
	if (rc == ERR_SYS)
		run->probe_failures++;
	*ret_done = run->probe_failures >= PROBE_TRIES;
	return 0;
}
