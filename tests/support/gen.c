/* SPDX-License-Identifier: MIT */
#include "tests/support/gen.h"

#include <string.h>

#include "datastore/base/bytes.h"

void gen_seed(struct gen *g, uint64_t seed)
{
	g->state = seed;
}

/* splitmix64: a counter with an odd step, and a mixing of its bits. */
uint64_t gen_u64(struct gen *g)
{
	uint64_t v = 0;

	g->state += UINT64_C(0x9e3779b97f4a7c15);
	v = g->state;
	v = (v ^ v >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	v = (v ^ v >> 27) * UINT64_C(0x94d049bb133111eb);
	return v ^ v >> 31;
}

uint64_t gen_below(struct gen *g, uint64_t n)
{
	return gen_u64(g) % n;
}

static void fill_random(struct gen *g, uint8_t *p, size_t n)
{
	uint8_t last[8];

	for (; n >= 8; n -= 8, p += 8)
		bytes_put_le64(p, gen_u64(g));
	if (n > 0) {
		bytes_put_le64(last, gen_u64(g));
		memcpy(p, last, n);
	}
}

static void fill_text(struct gen *g, uint8_t *p, size_t n)
{
	static const char *const words[] = { "the ", "store ", "of ", "a ",
		"heap ", "marks ", "where ", "path ", "and ", "stone ", "lies ",
		"under ", "snow ", "till ", "spring.\n", "comes " };

	while (n > 0) {
		const char *word = words[gen_below(g, 16)];
		size_t len = strlen(word);

		if (len > n)
			len = n;
		/* NOLINTNEXTLINE(bugprone-not-null-terminated-result) */
		memcpy(p, word, len);
		p += len;
		n -= len;
	}
}

void gen_fill(struct gen *g, enum gen_kind kind, void *p, size_t n)
{
	switch (kind) {
	case GEN_ZEROS:
		memset(p, 0, n);
		break;
	case GEN_RANDOM:
		fill_random(g, p, n);
		break;
	case GEN_TEXT:
		fill_text(g, p, n);
		break;
	}
}
