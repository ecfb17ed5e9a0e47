/* SPDX-License-Identifier: MIT */
#include "datastore/pace.h"

#include <stdbool.h>
#include <string.h>
#include <sys/resource.h>

#include "datastore/base/clock.h"

/* A measurement is made of so many calls per thread, or takes so long. */
#define WINDOW_CALLS 512U
#define WINDOW_MIN_NS (20 * INT64_C(1000000))
#define WINDOW_MAX_NS (400 * INT64_C(1000000))
#define WINDOW_MIN_CALLS 16U

/* Shares of the time of calls that are spent waiting. */
#define TRY_FROM 0.5
#define DROP_BELOW 0.2

/* A trial has to be that much faster to be kept. */
#define GAIN 1.1

/* The first trial is a big step: one in flight says little of a disk. */
#define FIRST_STEP 4U

/* Measurements until the next trial, after one that was of no use. */
#define REST_FIRST 8U
#define REST_MAX 128U

#define NS_PER_US 1000

void pace_init(struct pace *p, unsigned max)
{
	*p = (struct pace){
		.max = max,
		.threads = 1,
		.next_rest = REST_FIRST,
	};
}

void pace_pause(struct pace *p)
{
	p->began = 0;
	p->sum = (struct pace_piece){ .calls = 0 };
}

void pace_limit(struct pace *p, unsigned max)
{
	p->max = max;
	if (p->threads > max)
		p->threads = max;
	p->before = 0;
	pace_pause(p);
}

static unsigned level_of(unsigned threads)
{
	unsigned level = 0;

	while (level < PACE_LEVELS - 1 && 1U << level < threads)
		level++;
	return level;
}

unsigned pace_mostly(const struct pace *p)
{
	unsigned best = 0;

	for (unsigned i = 1; i < PACE_LEVELS; i++) {
		if (p->calls_at[i] > p->calls_at[best])
			best = i;
	}
	return 1U << best;
}

/* Was the trial of any use? */
static void judge_trial(struct pace *p, double rate)
{
	if (rate < p->rate_before * GAIN) {
		p->threads = p->before;
		p->rest = p->next_rest;
		if (p->next_rest < REST_MAX)
			p->next_rest *= 2;
	} else {
		p->next_rest = REST_FIRST;
	}
	p->before = 0;
}

static void decide(struct pace *p, int64_t elapsed)
{
	double rate = (double)p->sum.calls / (double)elapsed;
	double share = 0.0;

	if (p->sum.took_ns > 0)
		share = (double)p->sum.waited_ns / (double)p->sum.took_ns;
	if (p->threads > 1 && share < DROP_BELOW) {
		p->threads /= 2;
		p->before = 0;
		return;
	}
	if (p->before != 0) {
		judge_trial(p, rate);
		/* At once on, where it was. */
		if (p->rest > 0)
			return;
	}
	if (p->rest > 0) {
		p->rest--;
		return;
	}
	if (share < TRY_FROM || p->threads == p->max)
		return;
	p->before = p->threads;
	p->rate_before = rate;
	p->threads *= p->threads == 1 ? FIRST_STEP : 2;
	if (p->threads > p->max)
		p->threads = p->max;
}

void pace_note(struct pace *p, const struct pace_piece *piece, int64_t now)
{
	int64_t elapsed = 0;

	p->total.calls += piece->calls;
	p->total.took_ns += piece->took_ns;
	p->total.waited_ns += piece->waited_ns;
	p->calls_at[level_of(p->threads)] += piece->calls;
	/* Where several are worked on at once, the first one only starts the
	 * clock: how much of the others is done by then is not known. */
	if (p->began == 0 && p->threads > 1) {
		p->began = now;
		return;
	}
	if (p->began == 0)
		p->began = now - piece->took_ns;
	p->sum.calls += piece->calls;
	p->sum.took_ns += piece->took_ns;
	p->sum.waited_ns += piece->waited_ns;
	elapsed = now - p->began;
	if (elapsed < WINDOW_MIN_NS ||
	    p->sum.calls < (uint64_t)WINDOW_MIN_CALLS * p->threads ||
	    (p->sum.calls < (uint64_t)WINDOW_CALLS * p->threads &&
		elapsed < WINDOW_MAX_NS))
		return;
	decide(p, elapsed);
	pace_pause(p);
	p->began = now;
}

static int64_t ns_of(const struct timeval *t)
{
	return t->tv_sec * CLOCK_NS_PER_S + t->tv_usec * NS_PER_US;
}

static struct pace_clock read_clock(void)
{
	struct pace_clock c = { .began = clock_boot_ns() };
	struct rusage u;

	if (getrusage(RUSAGE_THREAD, &u) == 0) {
		c.cpu_ns = ns_of(&u.ru_utime) + ns_of(&u.ru_stime);
		c.switches = u.ru_nvcsw;
	}
	return c;
}

void pace_begin(struct pace_clock *c)
{
	*c = read_clock();
}

struct pace_piece pace_end(const struct pace_clock *c, uint64_t calls)
{
	struct pace_clock now = read_clock();
	struct pace_piece piece = {
		.calls = calls,
		.took_ns = now.began - c->began,
	};
	int64_t cpu = now.cpu_ns - c->cpu_ns;

	if (now.switches > c->switches && cpu < piece.took_ns)
		piece.waited_ns = piece.took_ns - cpu;
	return piece;
}
