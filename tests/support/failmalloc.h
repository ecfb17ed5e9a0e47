/* SPDX-License-Identifier: MIT */
/*
 * failmalloc: memory that runs out at a chosen allocation.
 *
 * Only in programs linked with cairn_failmalloc (cairn_torture does it): the
 * linker sends malloc, calloc, realloc, reallocarray, strdup and strndup of
 * our own objects here; the insides of shared libraries are not reached.
 * Counts from arming on, in all threads.
 *
 *     for (uint64_t n = 1; ; n++) {
 *             failmalloc_at(n);
 *             rc = thing(&out, &e);
 *             if (failmalloc_off() == 0)
 *                     break;           n was beyond the last: rc must be 0
 *             assert_err(rc, &e, ERR_NOMEM, "memory");
 *     }
 */
#ifndef CAIRN_TESTS_SUPPORT_FAILMALLOC_H
#define CAIRN_TESTS_SUPPORT_FAILMALLOC_H

#include <stdint.h>

/* The n-th allocation from now on fails, those behind it do not; n >= 1. */
void failmalloc_at(uint64_t n);

/* The n-th and all behind it fail. */
void failmalloc_from(uint64_t n);

/* All is well again.  Returns how many allocations failed since arming. */
uint64_t failmalloc_off(void);

#endif
