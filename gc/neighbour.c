/* SPDX-License-Identifier: MIT */
#include "gc/neighbour.h"

#include <stdlib.h>
#include <string.h>

#include "datastore/base/bytes.h"
#include "datastore/base/file.h"

/* Entries that are looked at together, and how far behind the last match. */
#define WINDOW 8192U
#define BEHIND (WINDOW / 4)
#define SLIDE_AT (WINDOW / 4 * 3)
#define TABLE (2 * WINDOW) /* a power of two */
#define PIECE 127U         /* idx_read takes as many at once */

#define HASH_AT 8

/* Places that are looked at: digests may be chosen to fall on one. */
#define PROBES 32U

struct neighbour {
	struct idx *ix; /* NULL: none */
	char *path;
	uint64_t when;

	uint64_t at; /* where the next entry is looked for */
	uint64_t base;
	size_t n; /* digests base .. base + n - 1 are in the window */
	bool blind;
	bool hashed;
	struct digest window[WINDOW];
	uint16_t table[TABLE]; /* number in the window + 1; 0: none */
};

int neighbour_new(struct neighbour **ret, struct err *e)
{
	*ret = calloc(1, sizeof(**ret));
	return *ret == NULL ? err_nomem(e) : 0;
}

void neighbour_free(struct neighbour *nb)
{
	if (nb == NULL)
		return;
	neighbour_forget(nb);
	free(nb);
}

void neighbour_forget(struct neighbour *nb)
{
	idx_close(nb->ix);
	free(nb->path);
	nb->ix = NULL;
	nb->path = NULL;
}

void neighbour_set(
    struct neighbour *nb, struct idx *ix, const char *path, uint64_t when)
{
	neighbour_forget(nb);
	nb->path = strdup(path);
	if (nb->path == NULL) {
		idx_close(ix);
		return;
	}
	nb->ix = ix;
	nb->when = when;
}

uint64_t neighbour_when(const struct neighbour *nb)
{
	return nb->when;
}

/* "GROUP/TIME/NAME": where the last two parts begin; 0: there is none. */
struct parts {
	size_t time;
	size_t name;
};

static struct parts split(const char *path)
{
	struct parts p = { .time = 0 };
	const char *slash = strrchr(path, '/');

	if (slash == NULL)
		return p;
	p.name = (size_t)(slash - path) + 1;
	for (p.time = p.name - 1; p.time > 0; p.time--) {
		if (path[p.time - 1] == '/')
			break;
	}
	return p;
}

/* As strcmp of the two pieces. */
static int compare(const char *a, size_t a_n, const char *b, size_t b_n)
{
	int c = memcmp(a, b, a_n < b_n ? a_n : b_n);

	if (c == 0)
		c = (a_n > b_n) - (a_n < b_n);
	return c;
}

int neighbour_compare_paths(const char *a, const char *b)
{
	struct parts x = split(a);
	struct parts y = split(b);
	int c = compare(a, x.time, b, y.time);

	if (c == 0)
		c = strcmp(a + x.name, b + y.name);
	if (c == 0)
		c = compare(
		    a + x.time, x.name - x.time, b + y.time, y.name - y.time);
	return c;
}

bool neighbour_is_of(
    const struct neighbour *nb, const struct idx *ix, const char *path)
{
	struct parts x = { .time = 0 };
	struct parts y = split(path);

	if (nb->ix == NULL || idx_info(nb->ix)->kind != idx_info(ix)->kind)
		return false;
	x = split(nb->path);
	return compare(nb->path, x.time, path, y.time) == 0 &&
	    strcmp(nb->path + x.name, path + y.name) == 0;
}

bool neighbour_seems_equal(const struct neighbour *nb, const struct idx *ix)
{
	return idx_info(nb->ix)->count == idx_info(ix)->count &&
	    digest_equal(idx_computed_csum(nb->ix), &idx_info(ix)->csum);
}

bool neighbour_is_equal(const struct neighbour *nb, const struct idx *ix)
{
	return idx_info(nb->ix)->count == idx_info(ix)->count &&
	    digest_equal(idx_computed_csum(nb->ix), idx_computed_csum(ix));
}

void neighbour_begin(struct neighbour *nb)
{
	nb->at = 0;
	nb->base = 0;
	nb->n = 0;
	nb->blind = false;
	nb->hashed = false;
}

/* The window from `base` on. */
static void load(struct neighbour *nb, uint64_t base)
{
	uint64_t count = idx_info(nb->ix)->count;
	struct idx_entry entries[PIECE];
	struct err ignored = ERR_INIT;

	nb->base = base;
	nb->n = 0;
	nb->hashed = false;
	while (nb->n < WINDOW && base + nb->n < count) {
		size_t n = WINDOW - nb->n < PIECE ? WINDOW - nb->n : PIECE;

		if (count - base - nb->n < n)
			n = (size_t)(count - base - nb->n);
		if (idx_read(nb->ix, base + nb->n, entries, n, &ignored) < 0) {
			nb->blind = true;
			return;
		}
		for (size_t i = 0; i < n; i++)
			nb->window[nb->n + i] = entries[i].digest;
		nb->n += n;
	}
}

static size_t place_of(const struct digest *d)
{
	return (size_t)(bytes_get_le64(d->b + HASH_AT) & (TABLE - 1));
}

static void hash_window(struct neighbour *nb)
{
	memset(nb->table, 0, sizeof(nb->table));
	for (size_t i = 0; i < nb->n; i++) {
		size_t at = place_of(&nb->window[i]);
		unsigned left = PROBES;

		/* Of equal ones the first will do. */
		while (left > 0 && nb->table[at] != 0 &&
		    !digest_equal(
			&nb->window[nb->table[at] - 1], &nb->window[i])) {
			at = (at + 1) & (TABLE - 1);
			left--;
		}
		if (left > 0 && nb->table[at] == 0)
			nb->table[at] = (uint16_t)(i + 1);
	}
	nb->hashed = true;
}

/* Anywhere in the window; where, goes into `at`. */
static bool find(struct neighbour *nb, const struct digest *d)
{
	size_t at = place_of(d);

	if (!nb->hashed)
		hash_window(nb);
	for (unsigned left = PROBES; left > 0 && nb->table[at] != 0; left--) {
		size_t i = nb->table[at] - 1U;

		if (digest_equal(&nb->window[i], d)) {
			nb->at = nb->base + i;
			return true;
		}
		at = (at + 1) & (TABLE - 1);
	}
	return false;
}

static bool is_at(const struct neighbour *nb, const struct digest *d)
{
	return nb->at - nb->base < nb->n &&
	    digest_equal(&nb->window[nb->at - nb->base], d);
}

bool neighbour_has(struct neighbour *nb, uint64_t i, const struct digest *d)
{
	bool fixed = idx_info(nb->ix)->kind == IDX_FIXED;
	bool has = false;

	if (fixed)
		nb->at = i;
	if (nb->at >= idx_info(nb->ix)->count && fixed)
		return false;
	if (nb->n == 0 || nb->at - nb->base >= (fixed ? WINDOW : SLIDE_AT)) {
		if (!nb->blind && nb->base + nb->n < idx_info(nb->ix)->count)
			load(nb,
			    fixed || nb->at < BEHIND ? nb->at
						     : nb->at - BEHIND);
	}
	if (nb->blind)
		return false;
	has = is_at(nb, d) || (!fixed && find(nb, d));
	/* Where it is not, something else stands in its place. */
	nb->at++;
	return has;
}

bool neighbour_is_same(const struct neighbour *nb)
{
	const struct statx *was = idx_stat(nb->ix);
	struct err ignored = ERR_INIT;
	struct statx st = { .stx_mask = 0 };

	if (file_stat_fd(idx_fd(nb->ix), &st, nb->path, &ignored) < 0)
		return false;
	return st.stx_size == was->stx_size &&
	    st.stx_ctime.tv_sec == was->stx_ctime.tv_sec &&
	    st.stx_ctime.tv_nsec == was->stx_ctime.tv_nsec;
}
