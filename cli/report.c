/* SPDX-License-Identifier: MIT */
#include "cli/report.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "datastore/base/buf.h"
#include "datastore/base/clock.h"
#include "datastore/base/json.h"
#include "datastore/base/log.h"
#include "datastore/base/sysio.h"
#include "datastore/base/text.h"

#define LIVE_INTERVAL_NS (CLOCK_NS_PER_S / 10)
#define LOG_INTERVAL_NS (10 * CLOCK_NS_PER_S)
/* A rate over less than this says nothing about what is left. */
#define ESTIMATE_AFTER_NS (2 * CLOCK_NS_PER_S)

int report_init(struct report *r, bool json, bool quiet,
    enum report_progress progress, struct err *e)
{
	memset(r, 0, sizeof(*r));
	r->json = json;
	r->quiet = quiet;
	r->progress = progress;
	r->terminal = isatty(STDERR_FILENO) == 1;
	r->last_percent = -1;
	if (pthread_mutex_init(&r->lock, NULL) != 0)
		return err_nomem(e);
	return 0;
}

/* Everything on stderr is one write, so that lines of two processes that
 * share a log do not mix. */
static void put(const char *p, size_t n)
{
	ssize_t ignored = sysio_write(STDERR_FILENO, p, n);

	/* Nobody to tell. */
	(void)ignored;
}

static void end_live_line(struct report *r)
{
	if (r->live_line)
		put("\r\033[K", 4);
	r->live_line = false;
}

void report_release(struct report *r)
{
	end_live_line(r);
	(void)pthread_mutex_destroy(&r->lock);
}

void report_event(struct js *event, struct err *e)
{
	struct buf line = BUF_INIT;

	if (js_dump(event, JS_COMPACT, &line, e) == 0 &&
	    buf_append(&line, "\n", 1, e) == 0)
		put((const char *)line.data, line.len);
	js_free(event);
	buf_release(&line);
}

static const char *level_name(enum task_level level)
{
	switch (level) {
	case TASK_WARNING:
		return "warning";
	case TASK_NOTE:
		return "note";
	case TASK_DEBUG:
		break;
	}
	return "debug";
}

static enum log_level log_level_of(enum task_level level)
{
	switch (level) {
	case TASK_WARNING:
		return LOG_LEVEL_WARNING;
	case TASK_NOTE:
		return LOG_LEVEL_INFO;
	case TASK_DEBUG:
		break;
	}
	return LOG_LEVEL_DEBUG;
}

static void on_message(void *ctx, enum task_level level, const char *text)
{
	struct report *r = ctx;

	(void)pthread_mutex_lock(&r->lock);
	if (level == TASK_WARNING)
		r->warnings++;
	end_live_line(r);
	if (r->json && level != TASK_DEBUG) {
		struct err e = ERR_INIT;
		struct js *event = js_object();

		js_set_str(event, "event", "message", &e);
		js_set_str(event, "level", level_name(level), &e);
		js_set_name(event, "text", text, &e);
		report_event(event, &e);
	} else if (!r->json) {
		/* log.h knows what --quiet and --verbose let through. */
		log_line(log_level_of(level), "%s", text);
	}
	(void)pthread_mutex_unlock(&r->lock);
}

static int percent_of(const struct task_progress *p)
{
	if (p->total == 0)
		return -1;
	if (p->done >= p->total)
		return 100;
	return (int)((long double)p->done * 100 / (long double)p->total);
}

/* Seconds left by the phase's mean rate so far; -1 unknown. */
static int64_t seconds_left(
    const struct report *r, const struct task_progress *p, int64_t now)
{
	int64_t spent = now - r->phase_began_ns;
	uint64_t made = p->done - r->phase_first_done;

	if (p->total == 0 || p->done >= p->total || made == 0 ||
	    p->done < r->phase_first_done || spent < ESTIMATE_AFTER_NS)
		return -1;
	return (int64_t)((long double)(p->total - p->done) *
	    (long double)spent / (long double)made / CLOCK_NS_PER_S);
}

static const char *amount_text(
    char out[TEXT_SIZE_SIZE], uint64_t n, enum task_unit unit)
{
	if (unit == TASK_UNIT_BYTES)
		return text_size(out, n);
	(void)snprintf(out, TEXT_SIZE_SIZE, "%" PRIu64, n);
	return out;
}

/* It goes with the number before it: "1 of 5 chunks", "1 chunk". */
static const char *count_word(const struct task_count *c)
{
	if (c->one == NULL)
		return c->text;
	return text_plural(c->of > 0 ? c->of : c->done, c->one, c->text);
}

static int append_counts(
    struct buf *line, const struct task_progress *p, struct err *e)
{
	char done[TEXT_SIZE_SIZE];
	char of[TEXT_SIZE_SIZE];
	int rc = 0;

	for (size_t i = 0; i < p->counts_n && rc == 0; i++) {
		const struct task_count *c = &p->counts[i];

		rc = buf_append_fmt(line, e, "%s%s", i == 0 ? " (" : ", ",
		    amount_text(done, c->done, c->unit));
		if (rc == 0 && c->of > 0)
			rc = buf_append_fmt(
			    line, e, " of %s", amount_text(of, c->of, c->unit));
		if (rc == 0)
			rc = buf_append_fmt(line, e, " %s", count_word(c));
	}
	if (rc == 0 && p->counts_n > 0)
		rc = buf_append_str(line, ")", e);
	return rc;
}

static int append_bytes(struct buf *line, const struct report *r,
    const struct task_progress *p, int64_t now, struct err *e)
{
	char done[TEXT_SIZE_SIZE];
	char total[TEXT_SIZE_SIZE];
	char rate[TEXT_SIZE_SIZE];
	int64_t spent = now - r->phase_began_ns;
	int rc = 0;

	if (p->total > 0)
		rc = buf_append_fmt(line, e, " %s of %s",
		    text_size(done, p->done), text_size(total, p->total));
	else
		rc = buf_append_fmt(line, e, " %s", text_size(done, p->done));
	if (rc == 0 && spent >= ESTIMATE_AFTER_NS &&
	    p->done >= r->phase_first_done)
		rc = buf_append_fmt(line, e, ", %s/s",
		    text_size(rate,
			(uint64_t)((long double)(p->done -
				       r->phase_first_done) *
			    CLOCK_NS_PER_S / (long double)spent)));
	return rc;
}

static int build_line(struct buf *line, const struct report *r,
    const struct task_progress *p, int64_t now, struct err *e)
{
	char left[TEXT_DURATION_SIZE];
	int64_t seconds = seconds_left(r, p, now);
	int percent = percent_of(p);
	int rc = buf_append_str(line, p->phase, e);

	if (rc == 0 && percent >= 0)
		rc = buf_append_fmt(line, e, " %d%%", percent);
	if (rc == 0 && p->unit == TASK_UNIT_BYTES)
		rc = append_bytes(line, r, p, now, e);
	if (rc == 0)
		rc = append_counts(line, p, e);
	if (rc == 0 && seconds >= 0)
		rc = buf_append_fmt(line, e, ", %s left",
		    text_duration(left, (uint64_t)seconds));
	return rc;
}

static void put_progress_event(
    const struct report *r, const struct task_progress *p, int64_t now)
{
	struct err e = ERR_INIT;
	struct js *event = js_object();
	int64_t left = seconds_left(r, p, now);

	js_set_str(event, "event", "progress", &e);
	js_set_str(event, "phase", p->phase, &e);
	js_set_str(
	    event, "unit", p->unit == TASK_UNIT_BYTES ? "bytes" : "count", &e);
	js_set_u64(event, "done", p->done, &e);
	if (p->total > 0) {
		js_set_u64(event, "total", p->total, &e);
		js_set_i64(event, "percent", percent_of(p), &e);
	}
	for (size_t i = 0; i < p->counts_n; i++)
		js_set_u64(event, p->counts[i].key, p->counts[i].done, &e);
	if (left >= 0)
		js_set_i64(event, "seconds-left", left, &e);
	report_event(event, &e);
}

static void put_live(
    struct report *r, const struct task_progress *p, int64_t now)
{
	struct err ignored = ERR_INIT; /* a line less is no harm */
	struct buf line = BUF_INIT;

	if (buf_append_str(&line, "\r", &ignored) == 0 &&
	    build_line(&line, r, p, now, &ignored) == 0 &&
	    buf_append_str(&line, "\033[K", &ignored) == 0) {
		put((const char *)line.data, line.len);
		r->live_line = true;
	}
	buf_release(&line);
}

static void put_log(
    const struct report *r, const struct task_progress *p, int64_t now)
{
	struct err ignored = ERR_INIT;
	struct buf line = BUF_INIT;

	/* Not by log.h: --progress=always shows it with --quiet, too. */
	if (buf_append_str(&line, "cairn: ", &ignored) == 0 &&
	    build_line(&line, r, p, now, &ignored) == 0 &&
	    buf_append_str(&line, "\n", &ignored) == 0)
		put((const char *)line.data, line.len);
	buf_release(&line);
}

static void begin_phase(
    struct report *r, const struct task_progress *p, int64_t now)
{
	end_live_line(r);
	(void)snprintf(r->phase, sizeof(r->phase), "%s", p->phase);
	r->phase_began_ns = now;
	r->phase_first_done = p->done;
	r->last_percent = -1;
	r->last_ns = now;
}

/* Is it time?  A finished phase is always shown, once. */
static bool is_due(
    const struct report *r, const struct task_progress *p, int64_t now)
{
	int percent = percent_of(p);

	if (percent == 100)
		return r->last_percent != 100;
	if (r->terminal && !r->json)
		return now - r->last_ns >= LIVE_INTERVAL_NS;
	if (now - r->last_ns < LOG_INTERVAL_NS)
		return false;
	return percent < 0 || percent != r->last_percent;
}

static void on_progress(void *ctx, const struct task_progress *p)
{
	struct report *r = ctx;
	int64_t now = clock_boot_ns();
	bool asked = atomic_exchange(&r->asked, false);
	bool shown = r->progress == REPORT_ALWAYS ||
	    (r->progress == REPORT_AUTO && !r->quiet);

	(void)pthread_mutex_lock(&r->lock);
	if (strncmp(r->phase, p->phase, sizeof(r->phase) - 1) != 0)
		begin_phase(r, p, now);
	if (asked || (shown && is_due(r, p, now))) {
		if (asked)
			end_live_line(r);
		if (r->json)
			put_progress_event(r, p, now);
		else if (r->terminal && !asked)
			put_live(r, p, now);
		else
			put_log(r, p, now);
		r->last_ns = now;
		r->last_percent = percent_of(p);
	}
	(void)pthread_mutex_unlock(&r->lock);
}

const struct task_ops report_task_ops = {
	.message = on_message,
	.progress = on_progress,
};
