/* SPDX-License-Identifier: MIT */
#include "index/cix.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "datastore/base/file.h"

/* Pages read at once, at most. */
#define AHEAD_MAX 64U
#define FENCE_SLOTS 4U
#define NO_PAGE UINT64_MAX

struct cix {
	int fd;
	char *shown;
	struct cix_info info;
	uint64_t pages;
	struct cix_stats stats;

	uint64_t *good; /* bit per data page: it was checked */
	uint64_t *bad;

	/* Data pages [window, window + window_n). */
	uint8_t *buf;
	uint64_t window;
	unsigned window_n;
	unsigned ahead;

	uint8_t *fences[FENCE_SLOTS];
	uint64_t fences_of[FENCE_SLOTS];
	uint64_t hint; /* the page that was looked at last */
};

static bool bit(const uint64_t *set, uint64_t i)
{
	return (set[i / 64] >> i % 64 & 1) != 0;
}

static void set_bit(uint64_t *set, uint64_t i)
{
	set[i / 64] |= UINT64_C(1) << i % 64;
}

static int allocate(struct cix *c, struct err *e)
{
	size_t words = (size_t)(c->pages / 64 + 1);

	/* calloc and malloc: what is not used is not there. */
	c->good = calloc(words, sizeof(*c->good));
	c->bad = calloc(words, sizeof(*c->bad));
	c->buf = malloc((size_t)AHEAD_MAX * CIX_PAGE);
	for (unsigned i = 0; i < FENCE_SLOTS; i++) {
		c->fences_of[i] = NO_PAGE;
		c->fences[i] = malloc(CIX_PAGE);
		if (c->fences[i] == NULL)
			return err_nomem(e);
	}
	if (c->good == NULL || c->bad == NULL || c->buf == NULL)
		return err_nomem(e);
	return 0;
}

static int read_header(
    struct cix *c, int dirfd, const char *name, struct err *e)
{
	uint8_t page[CIX_PAGE];
	struct statx st = { .stx_mask = 0 };
	int rc = file_open_regular(dirfd, name, &c->fd, &st, c->shown, e);

	if (rc == 0 && st.stx_size < CIX_PAGE)
		rc = err_set(e, ERR_CORRUPT,
		    "'%s' was cut short: %" PRIu64 " bytes, want at least %u",
		    c->shown, (uint64_t)st.stx_size, CIX_PAGE);
	if (rc == 0)
		rc = file_pread_exact(c->fd, page, CIX_PAGE, 0, c->shown, e);
	if (rc < 0)
		return rc;
	rc = cix_header_decode(page, st.stx_size, &c->info, e);
	if (rc < 0)
		err_prefix(e, "'%s'", c->shown);
	return rc;
}

int cix_open(int dirfd, const char *name, const char *shown, struct cix **ret,
    struct err *e)
{
	struct cix *c = calloc(1, sizeof(*c));
	int rc = 0;

	if (c == NULL)
		return err_nomem(e);
	c->fd = -1;
	c->ahead = 1;
	c->hint = NO_PAGE;
	c->stats.pages_read = 1;
	c->shown = strdup(shown);
	if (c->shown == NULL)
		rc = err_nomem(e);
	if (rc == 0)
		rc = read_header(c, dirfd, name, e);
	if (rc == 0) {
		c->pages = cix_data_pages(c->info.entries);
		rc = allocate(c, e);
	}
	if (rc < 0) {
		cix_close(c);
		return rc;
	}
	*ret = c;
	return 0;
}

void cix_close(struct cix *c)
{
	if (c == NULL)
		return;
	file_close(&c->fd);
	for (unsigned i = 0; i < FENCE_SLOTS; i++)
		free(c->fences[i]);
	free(c->good);
	free(c->bad);
	free(c->buf);
	free(c->shown);
	free(c);
}

const struct cix_info *cix_info(const struct cix *c)
{
	return &c->info;
}

void cix_stats(const struct cix *c, struct cix_stats *ret)
{
	*ret = c->stats;
}

const char *cix_shown(const struct cix *c)
{
	return c->shown;
}

int cix_fd(const struct cix *c)
{
	return c->fd;
}

static void note_bad(
    struct cix *c, const char *what, uint64_t page, const char *why)
{
	c->stats.bad_pages++;
	if (c->stats.first_bad[0] == '\0')
		(void)snprintf(c->stats.first_bad, sizeof(c->stats.first_bad),
		    "%s page %" PRIu64 " %s", what, page, why);
}

/* Pages [page, page + n) into p; false if not all of them can be had. */
static bool read_pages(struct cix *c, uint64_t at, unsigned n, uint8_t *p)
{
	struct err ignored = ERR_INIT;

	if (file_pread_exact(c->fd, p, (size_t)n * CIX_PAGE, at * CIX_PAGE,
		c->shown, &ignored) < 0)
		return false;
	c->stats.pages_read += n;
	return true;
}

/* Put the window where this page is its first. */
static bool move_window(struct cix *c, uint64_t page)
{
	uint64_t end = c->window + c->window_n;
	unsigned n = 1;

	/* Of who goes on, or skips little, more is read at once. */
	if (c->window_n > 0 && page >= end && page - end <= c->ahead)
		n = c->ahead * 2 < AHEAD_MAX ? c->ahead * 2 : AHEAD_MAX;
	c->ahead = n;
	if (n > c->pages - page)
		n = (unsigned)(c->pages - page);
	c->window = page;
	c->window_n = 0;
	if (!read_pages(c, 1 + page, n, c->buf)) {
		if (n == 1 || !read_pages(c, 1 + page, 1, c->buf))
			return false;
		n = 1;
	}
	c->window_n = n;
	return true;
}

/* NULL: it can not be read, or not be believed. */
static const uint8_t *data_page(struct cix *c, uint64_t page)
{
	const uint8_t *p = NULL;
	const char *wrong = NULL;

	if (bit(c->bad, page))
		return NULL;
	if ((page < c->window || page - c->window >= c->window_n) &&
	    !move_window(c, page))
		wrong = "can not be read";
	p = c->buf + (size_t)(page - c->window) * CIX_PAGE;
	if (wrong == NULL && !bit(c->good, page))
		wrong = cix_page_check(p, page, c->info.entries);
	if (wrong != NULL) {
		note_bad(c, "data", page, wrong);
		set_bit(c->bad, page);
		return NULL;
	}
	set_bit(c->good, page);
	return p;
}

/* The first 8 bytes of a data page's first digest. */
static bool fence(struct cix *c, uint64_t page, uint64_t *ret)
{
	uint64_t of = page / CIX_PAGE_FENCES;
	unsigned slot = (unsigned)(of % FENCE_SLOTS);
	const char *wrong = NULL;

	if (c->fences_of[slot] != of) {
		c->fences_of[slot] = NO_PAGE;
		if (!read_pages(c, 1 + c->pages + of, 1, c->fences[slot]))
			wrong = "can not be read";
		else
			wrong = cix_fences_check(c->fences[slot]);
		if (wrong != NULL) {
			note_bad(c, "fence", of, wrong);
			return false;
		}
		c->fences_of[slot] = of;
	}
	*ret =
	    cix_fence_at(c->fences[slot], (unsigned)(page % CIX_PAGE_FENCES));
	return true;
}

/*
 * How many data pages begin with at most this key.  Digests are uniform, so
 * that the key says roughly where; from there steps that double lead to a
 * range that is halved.
 */
static bool pages_up_to(struct cix *c, uint64_t key, uint64_t *ret)
{
	uint64_t lo = 0;
	uint64_t hi = c->pages;
	uint64_t step = 1;
	uint64_t at = (key >> 32) * c->pages >> 32;
	uint64_t f = 0;

	/* Who asks in order goes on from where he was. */
	if (c->hint < c->pages && at < c->hint + 2 * CIX_PAGE_FENCES &&
	    fence(c, c->hint, &f) && f <= key)
		at = c->hint;
	/* Pages before lo begin with at most the key, those from hi on not. */
	while (lo < hi) {
		if (at < lo)
			at = lo;
		if (at >= hi)
			at = hi - 1;
		if (!fence(c, at, &f))
			return false;
		if (f <= key) {
			lo = at + 1;
			at =
			    hi - lo > 2 * step ? at + step : lo + (hi - lo) / 2;
		} else {
			hi = at;
			at =
			    hi - lo > 2 * step ? at - step : lo + (hi - lo) / 2;
		}
		step *= 2;
	}
	*ret = lo;
	return true;
}

/* The first entry of a page that is not below d, and whether it is d. */
static unsigned find_in_page(
    const uint8_t *page, unsigned n, const struct digest *d, bool *ret_is)
{
	unsigned lo = 0;
	unsigned hi = n;

	while (lo < hi) {
		unsigned mid = lo + (hi - lo) / 2;

		if (memcmp(cix_page_entry(page, mid), d->b, DIGEST_SIZE) < 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	*ret_is =
	    lo < n && memcmp(cix_page_entry(page, lo), d->b, DIGEST_SIZE) == 0;
	return lo;
}

enum cix_found cix_find(struct cix *c, const struct digest *d,
    struct cix_entry *ret, uint64_t *ret_rank)
{
	uint64_t key = cix_key(d);
	uint64_t page = 0;
	uint64_t f = 0;

	c->stats.lookups++;
	if (!pages_up_to(c, key, &page))
		return CIX_UNREADABLE;
	/* Several pages may begin with the same 8 bytes. */
	while (page > 0) {
		const uint8_t *p = data_page(c, page - 1);
		unsigned n = cix_page_entries(page - 1, c->info.entries);
		bool is = false;
		unsigned at = 0;

		page--;
		if (p == NULL)
			return CIX_UNREADABLE;
		c->hint = page;
		at = find_in_page(p, n, d, &is);
		if (is) {
			cix_entry_decode(cix_page_entry(p, at), ret);
			if (ret_rank != NULL)
				*ret_rank = page * CIX_PAGE_ENTRIES + at;
			return CIX_FOUND;
		}
		if (at > 0)
			break;
		if (!fence(c, page, &f))
			return CIX_UNREADABLE;
		if (f < key)
			break;
	}
	return CIX_ABSENT;
}

enum cix_step cix_walk_next(
    struct cix_walk *w, struct cix_entry *ret, uint64_t *ret_rank)
{
	struct cix *c = w->c;
	uint64_t page = w->next / CIX_PAGE_ENTRIES;
	const uint8_t *p = NULL;

	if (w->next >= c->info.entries)
		return CIX_STEP_END;
	if (ret_rank != NULL)
		*ret_rank = w->next;
	p = data_page(c, page);
	if (p == NULL) {
		while (p == NULL && ++page < c->pages)
			p = data_page(c, page);
		w->next = page * CIX_PAGE_ENTRIES;
		return CIX_STEP_GAP;
	}
	cix_entry_decode(
	    cix_page_entry(p, (unsigned)(w->next % CIX_PAGE_ENTRIES)), ret);
	w->next++;
	return CIX_STEP_ENTRY;
}
