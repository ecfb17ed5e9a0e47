/* SPDX-License-Identifier: MIT */
/*
 * pace: how many calls to have in flight, by what calls cost.
 *
 * A call that finds its blocks in memory costs processor time alone, and a
 * second thread would only be in its way.  A call that waits for a disk or a
 * server leaves the processor idle: then more of them at once is faster, until
 * the disk has enough to do.  So more threads are tried while calls wait, and
 * kept if more gets done; when they stop waiting one thread does it again.
 *
 * Pure: it is told what was done and when, and knows no clock and no thread.
 * Belongs to one thread.
 */
#ifndef CAIRN_DATASTORE_PACE_H
#define CAIRN_DATASTORE_PACE_H

#include <stdint.h>

#define PACE_LEVELS 7 /* 1, 2, 4 .. 64 threads */

/* A piece of work that a thread has done. */
struct pace_piece {
	uint64_t calls;
	int64_t took_ns;   /* from its first call to its last */
	int64_t waited_ns; /* of these, asleep */
};

struct pace {
	unsigned max;
	unsigned threads; /* to work with now */

	/* What is being measured. */
	int64_t began; /* 0: with the next piece */
	struct pace_piece sum;

	/* A trial: what it is compared with, and when the next one is. */
	unsigned before; /* threads; 0: no trial */
	double rate_before;
	unsigned rest;
	unsigned next_rest;

	/* Of everything, for people. */
	struct pace_piece total;
	uint64_t calls_at[PACE_LEVELS];
};

/* max: a power of two, at most 64. */
void pace_init(struct pace *p, unsigned max);

/* At the time `now` this was known to be done. */
void pace_note(struct pace *p, const struct pace_piece *piece, int64_t now);

/* Work stops for a while, or begins anew: what is being measured is dropped. */
void pace_pause(struct pace *p);

/* More than this many can not be had. */
void pace_limit(struct pace *p, unsigned max);

/* With how many threads most calls were made. */
unsigned pace_mostly(const struct pace *p);

/*
 * Time that the calling thread has been asleep waiting, for a piece: call
 * before and after; needs took_ns.  0 where it never gave up the processor by
 * itself: then others had it.
 */
struct pace_clock {
	int64_t began;
	int64_t cpu_ns;
	int64_t switches;
};
void pace_begin(struct pace_clock *c);
struct pace_piece pace_end(const struct pace_clock *c, uint64_t calls);

#endif
