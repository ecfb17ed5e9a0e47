/* SPDX-License-Identifier: MIT */
/*
 * catalogmem: a database in memory as a part of a catalog.
 *
 * For unit tests and fuzzing, without a datastore.
 */
#ifndef CAIRN_TESTS_SUPPORT_CATALOGMEM_H
#define CAIRN_TESTS_SUPPORT_CATALOGMEM_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "index/catalog_internal.h"

/* The bytes, which must outlive the catalog, are the context. */
static inline int catalogmem_pread(
    void *ctx, void *p, size_t n, uint64_t at, struct err *e)
{
	(void)e;
	memcpy(p, (const uint8_t *)ctx + at, n);
	return 0;
}

static inline struct catalog_part catalogmem_part(
    void *p, size_t n, const char *shown)
{
	struct catalog_part part = {
		.source = { .pread = catalogmem_pread, .ctx = p, .size = n }
	};

	(void)snprintf(part.shown, sizeof(part.shown), "%s", shown);
	return part;
}

#endif
