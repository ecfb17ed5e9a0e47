/* SPDX-License-Identifier: MIT */
#include "datastore/base/nearest.h"

#include <stdint.h>
#include <string.h>

#define FAR 3U           /* no likeness any more */
#define BEGINNING_MIN 3U /* letters that say what is meant */

/* How many letters must be put in, left out or changed (Levenshtein). */
static size_t distance(const char *a, size_t a_len, const char *b, size_t b_len)
{
	size_t row[NEAREST_SIZE];

	for (size_t k = 0; k <= b_len; k++)
		row[k] = k;
	for (size_t i = 1; i <= a_len; i++) {
		size_t diagonal = row[0];

		row[0] = i;
		for (size_t k = 1; k <= b_len; k++) {
			size_t best = diagonal + (a[i - 1] != b[k - 1]);

			diagonal = row[k];
			if (row[k] + 1 < best)
				best = row[k] + 1;
			if (row[k - 1] + 1 < best)
				best = row[k - 1] + 1;
			row[k] = best;
		}
	}
	return row[b_len];
}

void nearest_init(struct nearest *n, const char *word)
{
	n->word = word;
	n->least = FAR;
	n->best[0] = '\0';
}

void nearest_try(struct nearest *n, const char *candidate)
{
	size_t a_len = strlen(n->word);
	size_t b_len = strlen(candidate);
	size_t d = FAR;

	if (a_len >= NEAREST_SIZE || b_len >= NEAREST_SIZE)
		return;
	/* The table is not worth filling for words of other lengths. */
	if (a_len + FAR > b_len && b_len + FAR > a_len)
		d = distance(n->word, a_len, candidate, b_len);
	/* A short word changed whole makes no likeness. */
	if (d * 2 > b_len)
		d = FAR;
	if (d == FAR && a_len >= BEGINNING_MIN && a_len < b_len &&
	    memcmp(n->word, candidate, a_len) == 0)
		d = FAR - 1;
	if (d >= n->least)
		return;
	n->least = d;
	memcpy(n->best, candidate, b_len + 1);
}

const char *nearest_best(const struct nearest *n)
{
	return n->best[0] != '\0' ? n->best : NULL;
}
