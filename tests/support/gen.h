/* SPDX-License-Identifier: MIT */
/*
 * gen: data for tests that is the same on every machine, from a seed.
 *
 * Not for secrets and not a measure of randomness; the numbers of a seed are
 * kept for ever, since golden files are made of them.
 */
#ifndef CAIRN_TESTS_SUPPORT_GEN_H
#define CAIRN_TESTS_SUPPORT_GEN_H

#include <stddef.h>
#include <stdint.h>

struct gen {
	uint64_t state;
};

enum gen_kind {
	GEN_ZEROS,
	GEN_RANDOM, /* does not compress */
	GEN_TEXT,   /* lines of words from a small list: compresses well */
};

void gen_seed(struct gen *g, uint64_t seed);

uint64_t gen_u64(struct gen *g);

/* A number in 0..n-1; n is at least 1. */
uint64_t gen_below(struct gen *g, uint64_t n);

void gen_fill(struct gen *g, enum gen_kind kind, void *p, size_t n);

#endif
