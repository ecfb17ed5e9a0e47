/* SPDX-License-Identifier: MIT */
#include "gc/history_record.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "datastore/base/clock.h"
#include "datastore/base/text.h"

/* A push trims once in so many runs: each time would cost more than the rest of
 * what it records. */
#define TRIM_EVERY 64

/* What one opening of the database is for. */
struct work {
	int (*fn)(struct history *h, struct history_record *r,
	    const struct work *w, struct err *e);
	const char *name;
	const struct history_count *counts;
	size_t counts_n;
};

void history_record_init(struct history_record *r, struct datastore *ds,
    struct task *task, enum history_kind kind)
{
	memset(r, 0, sizeof(*r));
	r->ds = ds;
	r->task = task;
	history_run_init(&r->run, ds, kind);
}

void history_record_release(struct history_record *r)
{
	free(r->log);
	r->log = NULL;
	r->log_n = 0;
}

/* *ret_aside: it was damaged, as e says, and is out of the way. */
static int try_work(struct history_record *r, const struct work *w,
    bool *ret_aside, struct err *e)
{
	struct err why = ERR_INIT;
	/* What is recorded of a run that is stopped is recorded all the same,
	 * but nobody waits for it. */
	struct task silent = TASK_SILENT;
	enum history_mode mode =
	    r->task->stop != 0 || r->off ? HISTORY_WRITE_SOON : HISTORY_WRITE;
	struct history *h = NULL;
	bool found = false;
	int rc = history_open(r->ds, mode, &silent, &h, &found, e);

	if (rc == 0 && found)
		rc = w->fn(h, r, w, e);
	*ret_aside = false;
	if (rc == ERR_CORRUPT && h != NULL) {
		*ret_aside = history_set_aside(h, &why) == 0;
		if (!*ret_aside) {
			*e = why;
			rc = why.code;
		}
	}
	history_close(h);
	return rc;
}

static void warn(
    struct history_record *r, const char *what, const struct err *why)
{
	r->warnings++;
	task_message(r->task, TASK_WARNING, "%s: %s", what, why->msg);
}

static void do_work(struct history_record *r, const struct work *w)
{
	struct err why = ERR_INIT;
	bool aside = false;
	int rc = 0;

	if (r->ds == NULL)
		return;
	rc = try_work(r, w, &aside, &why);
	if (aside) {
		warn(r,
		    "the history is damaged and starts anew; the old one is "
		    "put aside as '.cairn/" HISTORY_ASIDE "'",
		    &why);
		(void)err_forget(&why);
		rc = try_work(r, w, &aside, &why);
	}
	if (rc == 0)
		return;
	if (!r->off)
		warn(r, "this run can not be recorded in the history", &why);
	r->off = true;
}

static int work_begin(struct history *h, struct history_record *r,
    const struct work *w, struct err *e)
{
	(void)w;
	return history_add(h, &r->run, e);
}

void history_record_begin(struct history_record *r, struct datastore *ds,
    struct task *task, enum history_kind kind)
{
	const struct work w = { .fn = work_begin };

	history_record_init(r, ds, task, kind);
	do_work(r, &w);
}

/* One that died before it could be recorded. */
static int add_before(
    struct history *h, struct history_record *r, struct err *e)
{
	bool known = false;
	int rc = 0;

	if (r->before.started == 0)
		return 0;
	rc = history_knows(h, &r->before, &known, e);
	if (rc == 0 && !known)
		rc = history_add(h, &r->before, e);
	return rc;
}

/* It may have been put aside since, or removed, and its number be another's. */
static int is_there(
    struct history *h, struct history_record *r, bool *ret, struct err *e)
{
	*ret = false;
	return r->run.id == 0 ? 0 : history_knows(h, &r->run, ret, e);
}

/* The older one first: it gets the lower number. */
static int need_run(struct history *h, struct history_record *r, struct err *e)
{
	bool there = false;
	int rc = is_there(h, r, &there, e);

	if (rc < 0 || there)
		return rc;
	/* What was logged of it is where it was. */
	r->run.unlogged += r->logged;
	r->logged = 0;
	rc = add_before(h, r, e);
	return rc < 0 ? rc : history_add(h, &r->run, e);
}

static int work_snapshot(struct history *h, struct history_record *r,
    const struct work *w, struct err *e)
{
	int rc = need_run(h, r, e);

	return rc < 0 ? rc : history_add_snapshot(h, r->run.id, w->name, e);
}

static int work_kept(struct history *h, struct history_record *r,
    const struct work *w, struct err *e)
{
	bool there = false;
	int rc = is_there(h, r, &there, e);

	return rc < 0 || !there
	    ? rc
	    : history_drop_snapshot(h, r->run.id, w->name, e);
}

void history_record_snapshot(struct history_record *r, const char *name)
{
	const struct work w = { .fn = work_snapshot, .name = name };

	if (!r->off)
		do_work(r, &w);
}

void history_record_kept(struct history_record *r, const char *name)
{
	const struct work w = { .fn = work_kept, .name = name };

	if (!r->off)
		do_work(r, &w);
}

static int work_log(struct history *h, struct history_record *r,
    const struct work *w, struct err *e)
{
	size_t added = 0;
	int rc = need_run(h, r, e);

	(void)w;
	if (rc == 0 && r->log_n > 0)
		rc = history_add_removed(
		    h, r->run.id, r->log, r->log_n, &added, e);
	if (rc < 0)
		return rc;
	r->run.unlogged += r->log_n - added;
	r->logged += added;
	r->log_n = 0;
	return 0;
}

/* Whatever became of it, there is room again. */
static void flush_log(struct history_record *r)
{
	const struct work w = { .fn = work_log };

	if (!r->off)
		do_work(r, &w);
	/* No `.cairn` so far, or it failed. */
	r->run.unlogged += r->log_n;
	r->log_n = 0;
	r->flushed_ns = clock_boot_ns();
}

void history_record_removed(
    struct history_record *r, const struct history_removed *removed)
{
	if (r->ds == NULL)
		return;
	if (r->log == NULL)
		r->log = calloc(HISTORY_RECORD_LOG_MAX, sizeof(*r->log));
	if (r->log == NULL) {
		r->run.unlogged++;
		return;
	}
	if (r->flushed_ns == 0)
		r->flushed_ns = clock_boot_ns();
	r->log[r->log_n] = *removed;
	r->log_n++;
	if (r->log_n == HISTORY_RECORD_LOG_MAX ||
	    clock_boot_ns() - r->flushed_ns >=
		HISTORY_RECORD_FLUSH_S * CLOCK_NS_PER_S)
		flush_log(r);
}

static int work_end(struct history *h, struct history_record *r,
    const struct work *w, struct err *e)
{
	int rc = work_log(h, r, w, e);

	if (rc == 0)
		rc = history_update(h, &r->run, w->counts, w->counts_n, e);
	if (rc == 0)
		rc = history_trim(h, r->run.ended, e);
	return rc;
}

enum history_result history_result_of(int code)
{
	if (code == ERR_BUSY)
		return HISTORY_BUSY;
	if (code == ERR_REFUSED)
		return HISTORY_REFUSED;
	return code == ERR_CANCELLED ? HISTORY_STOPPED : HISTORY_FAILED;
}

/* It has ended, now. */
static void set_end(struct history_run *run, enum history_result result,
    int code, const char *why)
{
	run->result = code < 0 ? history_result_of(code) : result;
	run->ended = clock_now_s();
	/* Messages quote the names in them; only one that was cut may not be
	 * text. */
	if (why != NULL && text_is_utf8(why, strlen(why)) &&
	    strlen(why) < sizeof(run->why))
		(void)snprintf(run->why, sizeof(run->why), "%s", why);
	else if (why != NULL)
		(void)text_name(run->why, sizeof(run->why), why);
}

void history_record_end(struct history_record *r, enum history_result result,
    int code, const char *why, const struct history_count *counts, size_t n)
{
	const struct work w = {
		.fn = work_end,
		.counts = counts,
		.counts_n = n,
	};

	if (r->ds == NULL)
		return;
	set_end(&r->run, result, code, why);
	/* Once more also where it failed before: the disk may have room by
	 * now. */
	do_work(r, &w);
	history_record_release(r);
}

static int work_push(struct history *h, struct history_record *r,
    const struct work *w, struct err *e)
{
	int rc =
	    history_add_ended(h, &r->run, w->name, w->counts, w->counts_n, e);

	if (rc == 0 && r->run.id % TRIM_EVERY == 0)
		rc = history_trim(h, r->run.ended, e);
	return rc;
}

void history_record_push(struct history_record *r, const char *made,
    enum history_result result, int code, const char *why,
    const struct history_count *counts, size_t n)
{
	const struct work w = {
		.fn = work_push,
		.name = made,
		.counts = counts,
		.counts_n = n,
	};

	if (r->ds == NULL)
		return;
	set_end(&r->run, result, code, why);
	do_work(r, &w);
}
