/* SPDX-License-Identifier: MIT */
/*
 * markfix: a mark, what its sink was given, and index files put by hand.
 */
#ifndef CAIRN_TESTS_SUPPORT_MARKFIX_H
#define CAIRN_TESTS_SUPPORT_MARKFIX_H

#include <stdio.h>

#include "gc/mark.h"
#include "index/idxformat.h"
#include "tests/support/gcfix.h"

#define S0 "host/a/" GCFIX_T0_NAME
#define S1 "host/a/" GCFIX_T1_NAME
#define S2 "host/a/" GCFIX_T2_NAME

enum { MARKFIX_CHUNKS = 200 };

/* A mark, and what its sink was given. */
struct marked {
	struct gcfix *f;
	struct mark m;
	struct findings findings;
	struct mark_opts opts;
	unsigned times[MARKFIX_CHUNKS]; /* how often each chunk came */
	unsigned others;
	unsigned flushes;
	bool fell;
	uint64_t last_read;
	/* Called behind the n-th listing. */
	void (*listed)(struct marked *k, unsigned nth);
	unsigned seen; /* rounds */
	int fail;
};

static inline int on_add(void *ctx, const struct digest *d, struct err *e)
{
	struct marked *k = ctx;

	if (k->fail != 0)
		return err_set(e, k->fail, "the sink is full");
	for (unsigned i = 0; i < MARKFIX_CHUNKS; i++) {
		struct digest want;

		pushfix_digest(i, &want);
		if (digest_equal(d, &want)) {
			k->times[i]++;
			return 0;
		}
	}
	k->others++;
	return 0;
}

static inline int on_flush(void *ctx, struct err *e)
{
	struct marked *k = ctx;

	(void)e;
	k->flushes++;
	return 0;
}

static inline void on_progress(void *ctx, const struct mark_counts *c)
{
	struct marked *k = ctx;

	k->fell |= c->references_read < k->last_read ||
	    c->references_total < c->references_read ||
	    c->files_total < c->files_read;
	k->last_read = c->references_read;
	/* The first one of a round comes right behind its listing. */
	if (c->rounds > k->seen) {
		k->seen = c->rounds;
		if (k->listed != NULL)
			k->listed(k, c->rounds);
	}
}

static inline int run(struct gcfix *f, struct marked *k)
{
	const struct mark_sink sink = {
		.add = on_add,
		.flush = on_flush,
		.progress = on_progress,
		.ctx = k,
	};

	k->f = f;
	mark_release(&k->m);
	memset(k->times, 0, sizeof(k->times));
	k->others = 0;
	k->flushes = 0;
	k->last_read = 0;
	k->seen = 0;
	k->findings = (struct findings){ .task = &f->task,
		.ignore = f->opts.ignore,
		.ignore_n = f->opts.ignore_n };
	buf_reset(&f->messages);
	return mark_run(
	    f->gc, &k->opts, &sink, &k->findings, &f->task, &k->m, &f->e);
}

/* Chunks first .. first + n - 1 were all marked. */
static inline bool has(const struct marked *k, unsigned first, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		if (k->times[first + i] == 0)
			return false;
	}
	return true;
}

static inline bool has_root(const struct marked *k, const char *path)
{
	for (size_t i = 0; i < k->m.roots_n; i++) {
		if (strcmp(k->m.roots[i].path, path) == 0)
			return true;
	}
	return false;
}

static inline void put(
    struct gcfix *f, const char *dir, const char *name, unsigned first)
{
	char path[PATH_MAX];

	gcfix_mkdir(f, dir);
	(void)snprintf(path, sizeof(path), "%s/%s", dir, name);
	gcfix_put_index(f, path, first, 10);
}

/* A dynamic index of two chunks. */
static inline void put_dynamic(
    struct gcfix *f, const char *path, unsigned first)
{
	uint8_t bytes[IDX_HEADER_SIZE + 2 * IDX_DYNAMIC_ENTRY_SIZE] = { 0 };
	struct idx_info info = { .kind = IDX_DYNAMIC, .count = 2 };
	char full[PATH_MAX];

	for (unsigned i = 0; i < 2; i++) {
		struct idx_entry entry = { .end = UINT64_C(100) * (i + 1) };

		pushfix_digest(first + i, &entry.digest);
		idx_entry_encode(IDX_DYNAMIC, &entry,
		    bytes + IDX_HEADER_SIZE +
			(size_t)i * IDX_DYNAMIC_ENTRY_SIZE);
	}
	assert_ok(digest_of(bytes + IDX_HEADER_SIZE,
		      sizeof(bytes) - IDX_HEADER_SIZE, &info.csum, &f->e),
	    &f->e);
	idx_header_encode(&info, bytes);
	(void)snprintf(full, sizeof(full), "store/%s", path);
	tmpdir_put(f->dir.fd, full, bytes, sizeof(bytes));
}

#endif
