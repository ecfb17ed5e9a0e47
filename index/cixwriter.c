/* SPDX-License-Identifier: MIT */
#include "index/cixwriter.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "datastore/base/clock.h"

#define BUF_PAGES 64U
#define TMP_SIZE 16

struct cixwriter {
	int dirfd;
	int fd;
	bool sync;
	char *shown;
	char tmp[TMP_SIZE]; /* "" when it has its name */
	struct cix_info info;
	struct digest last;

	uint8_t *buf; /* BUF_PAGES pages; the last one of `pages` is open */
	unsigned pages;
	unsigned entries; /* in the open one */
	uint64_t written; /* data pages */

	uint64_t *fences;
	size_t fences_n;
	size_t fences_cap;
};

int cixwriter_new(int dirfd, const char *shown, const struct cix_info *info,
    const struct file_owner *owner, bool sync, struct cixwriter **ret,
    struct err *e)
{
	struct cixwriter *w = calloc(1, sizeof(*w));
	int rc = 0;

	if (w == NULL)
		return err_nomem(e);
	w->dirfd = dirfd;
	w->fd = -1;
	w->sync = sync;
	w->info = *info;
	w->info.entries = 0;
	w->info.present = 0;
	w->info.bytes = 0;
	w->info.made = clock_now_s();
	w->info.trust = CIX_TRUST_ALL;
	w->shown = strdup(shown);
	w->buf = malloc((size_t)BUF_PAGES * CIX_PAGE);
	if (w->shown == NULL || w->buf == NULL)
		rc = err_nomem(e);
	if (rc == 0)
		rc = file_make_tmp(
		    dirfd, CIXWRITER_TMP, owner, &w->fd, w->tmp, shown, e);
	if (rc < 0) {
		cixwriter_free(w);
		return rc;
	}
	*ret = w;
	return 0;
}

void cixwriter_free(struct cixwriter *w)
{
	struct err ignored = ERR_INIT;

	if (w == NULL)
		return;
	if (w->tmp[0] != '\0')
		(void)file_unlink_at(w->dirfd, w->tmp, w->shown, &ignored);
	file_close(&w->fd);
	free(w->fences);
	free(w->buf);
	free(w->shown);
	free(w);
}

static int add_fence(struct cixwriter *w, uint64_t key, struct err *e)
{
	size_t cap = w->fences_cap == 0 ? 512 : w->fences_cap * 2;
	uint64_t *p = NULL;

	if (w->fences_n == w->fences_cap) {
		p = reallocarray(w->fences, cap, sizeof(*p));
		if (p == NULL)
			return err_nomem(e);
		w->fences = p;
		w->fences_cap = cap;
	}
	w->fences[w->fences_n] = key;
	w->fences_n++;
	return 0;
}

static int write_out(struct cixwriter *w, struct err *e)
{
	int rc = file_pwrite_fully(w->fd, w->buf, (size_t)w->pages * CIX_PAGE,
	    (1 + w->written) * CIX_PAGE, w->shown, e);

	w->written += w->pages;
	w->pages = 0;
	return rc;
}

static uint8_t *open_page(struct cixwriter *w)
{
	return w->buf + (size_t)(w->pages - 1) * CIX_PAGE;
}

static void seal(struct cixwriter *w)
{
	if (w->entries > 0)
		cix_page_seal(
		    open_page(w), w->written + w->pages - 1, w->entries);
	w->entries = 0;
}

int cixwriter_fd(const struct cixwriter *w)
{
	return w->fd;
}

int cixwriter_append(
    struct cixwriter *w, const struct cix_entry *x, struct err *e)
{
	int rc = 0;

	assert(
	    w->info.entries == 0 || digest_compare(&w->last, &x->digest) < 0);
	if (w->info.entries == CIX_ENTRIES_MAX)
		return err_set(e, ERR_LIMIT, "'%s': too many chunks", w->shown);
	if (w->entries == CIX_PAGE_ENTRIES)
		seal(w);
	if (w->entries == 0) {
		if (w->pages == BUF_PAGES)
			rc = write_out(w, e);
		if (rc == 0)
			rc = add_fence(w, cix_key(&x->digest), e);
		if (rc < 0)
			return rc;
		w->pages++;
	}
	cix_entry_encode(
	    x, open_page(w) + 16 + (size_t)w->entries * CIX_ENTRY_SIZE);
	w->entries++;
	w->info.entries++;
	if ((x->flags & CIX_REMOVED) == 0) {
		w->info.present++;
		w->info.bytes += x->size;
	}
	w->last = x->digest;
	return 0;
}

void cixwriter_set_known(struct cixwriter *w, const struct cix_shards *known)
{
	w->info.known = *known;
}

void cixwriter_set_trust(struct cixwriter *w, enum cix_trust trust)
{
	w->info.trust = trust;
}

const struct cix_info *cixwriter_info(const struct cixwriter *w)
{
	return &w->info;
}

static int write_fences(struct cixwriter *w, struct err *e)
{
	uint64_t at = 1 + w->written;
	uint8_t page[CIX_PAGE];
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < w->fences_n; i += CIX_PAGE_FENCES) {
		size_t n = w->fences_n - i;

		if (n > CIX_PAGE_FENCES)
			n = CIX_PAGE_FENCES;
		cix_fences_encode(w->fences + i, (unsigned)n, page);
		rc = file_pwrite_fully(
		    w->fd, page, CIX_PAGE, at * CIX_PAGE, w->shown, e);
		at++;
	}
	return rc;
}

static int write_header(struct cixwriter *w, struct err *e)
{
	uint8_t page[CIX_PAGE];
	int rc = 0;

	cix_header_encode(&w->info, page);
	rc = file_pwrite_fully(w->fd, page, CIX_PAGE, 0, w->shown, e);
	if (rc == 0 && w->sync)
		rc = file_sync(w->fd, w->shown, e);
	return rc;
}

int cixwriter_finish(struct cixwriter *w, struct err *e)
{
	int rc = 0;

	seal(w);
	if (w->pages > 0)
		rc = write_out(w, e);
	if (rc == 0)
		rc = write_fences(w, e);
	return rc < 0 ? rc : write_header(w, e);
}

int cixwriter_renumber(struct cixwriter *w, uint64_t number, struct err *e)
{
	w->info.number = number;
	return write_header(w, e);
}

int cixwriter_name(struct cixwriter *w, const char *name, struct err *e)
{
	int rc = file_rename_new(w->dirfd, w->tmp, name, w->shown, e);

	if (rc < 0)
		return rc;
	w->tmp[0] = '\0';
	return w->sync ? file_sync(w->dirfd, w->shown, e) : 0;
}
