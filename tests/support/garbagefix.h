/* SPDX-License-Identifier: MIT */
/*
 * garbagefix: two snapshots that share chunks, one of them forgotten.
 */
#ifndef CAIRN_TESTS_SUPPORT_GARBAGEFIX_H
#define CAIRN_TESTS_SUPPORT_GARBAGEFIX_H

#include "tests/support/gcfix.h"

#define OLD (2 * GCFIX_DAY)

/* Chunks 0..9 are garbage of two days, 10..24 are in use. */
static inline void make_garbage(struct gcfix *f)
{
	struct backup_snapshot s0 =
	    gcfix_push_new(f, "host/a", GCFIX_T0, 0, 15);

	(void)gcfix_push_new(f, "host/b", GCFIX_T0, 10, 15);
	gcfix_forget(f, &s0);
	gcfix_age(f, OLD);
}

static inline void check_untouched(struct gcfix *f)
{
	assert_int_equal(gcfix_have(f, 0, 25), 25);
	assert_int_equal(f->r.removed_chunks, 0);
}

static inline void check_collected(struct gcfix *f)
{
	assert_int_equal(gcfix_have(f, 0, 10), 0);
	assert_int_equal(gcfix_have(f, 10, 15), 15);
	assert_int_equal(gcfix_check(f), 1);
}

static inline bool is_chunk(const char *name)
{
	return name != NULL && strspn(name, "0123456789abcdef/") >= 64;
}

#endif
