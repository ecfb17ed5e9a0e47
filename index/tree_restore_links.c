/* SPDX-License-Identifier: MIT */
/*
 * tree_restore_links: entries that are one file under several names.
 *
 * The first of a group that is wanted gets the content; so a part of a group
 * has it, too.  If it can not be made, the next one gets it, and so on.  A row
 * that says it belongs to a group but is of another kind or content than the
 * first is made on its own.
 */
#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "datastore/base/file.h"
#include "index/tree_restore_internal.h"

/* How many of a group may fail before the rest goes with them. */
#define TRIES 16U

/* A group while its members come by. */
struct group {
	uint64_t key;                /* 0: none yet */
	uint64_t at;                 /* the first one's record */
	struct restore_record first; /* or who took its place */
	bool lost;                   /* the first one could not be made */
	bool waits;                  /* for the next one's content */
};

static bool is_same(
    const struct restore_record *a, const struct restore_record *b)
{
	return a->kind == b->kind && a->size == b->size &&
	    a->stored == b->stored && a->has_sha256 == b->has_sha256 &&
	    (a->has_sha256 || a->start == b->start) &&
	    digest_equal(&a->sha256, &b->sha256);
}

/* For each member: is it the first of its group, or one like that? */
static int each_member(struct restore *r,
    int (*fn)(struct restore *r, struct group *g, uint64_t at,
	const struct restore_record *rec, bool first, struct err *e),
    struct err *e)
{
	struct group g = { .key = 0 };
	int rc = restore_sort_rewind(r->links, e);

	while (rc == 0) {
		struct restore_record rec;
		struct restore_pair pair;
		bool more = false;
		bool first = false;

		rc = task_check(r->task, e);
		if (rc == 0)
			rc = restore_sort_next(r->links, &pair, &more, e);
		if (rc < 0 || !more)
			break;
		rc = restore_record_read(r, pair.at, &rec, e);
		if (rc < 0)
			break;
		first = g.key != pair.key;
		if (first) {
			g.key = pair.key;
			g.at = pair.at;
			g.first = rec;
			g.lost = rec.failed && !rec.damaged;
			g.waits = false;
		}
		rc = fn(r, &g, pair.at, &rec, first, e);
	}
	return rc;
}

static int make_special(struct restore *r, uint64_t at,
    const struct restore_record *rec, struct err *e)
{
	bool made = false;
	int rc = restore_special_again(r, rec, &made, e);

	return rc < 0 || made ? rc : restore_record_fail(r, at, 0, e);
}

static int plan(struct restore *r, struct group *g, uint64_t at,
    const struct restore_record *rec, bool first, struct err *e)
{
	if (first ? rec->equal : is_same(&g->first, rec))
		return 0;
	if (rec->kind == CATALOG_FILE)
		return restore_schedule(r, rec, at, e);
	return make_special(r, at, rec, e);
}

int restore_links_plan(struct restore *r, struct err *e)
{
	return each_member(r, plan, e);
}

/* Where there can be no link, there can still be a copy. */
static bool needs_copy(const struct err *e)
{
	return err_is_sys(e, EXDEV) || err_is_sys(e, EMLINK) ||
	    err_is_sys(e, EPERM) || err_is_sys(e, EOPNOTSUPP) ||
	    err_is_sys(e, ENOSYS);
}

/* *ret_there: it is that very file already. */
static int link_dirs(struct restore *r, const struct restore_record *from,
    const struct restore_record *to, bool *ret_exists, bool *ret_there,
    struct err *e)
{
	struct restore_dirfd a = { .open = false };
	struct restore_dirfd b = { .open = false };
	struct statx sa;
	struct statx sb;
	bool found_a = false;
	bool found_b = false;
	int rc = restore_dirs_open(r->dirs, from->dir, &a, e);

	*ret_there = false;
	if (rc == 0)
		rc = restore_dirs_open(r->dirs, to->dir, &b, e);
	if (rc == 0 && to->in_way) {
		rc = restore_stat_at(a.fd, from->name, &sa, &found_a, e);
		if (rc == 0)
			rc = restore_stat_at(b.fd, to->name, &sb, &found_b, e);
		*ret_there =
		    rc == 0 && found_a && found_b && file_same(&sa, &sb);
	}
	if (rc == 0 && !*ret_there)
		rc = restore_place_link(&r->place, a.fd, from->name, b.fd,
		    to->name, restore_taken(r), ret_exists, e);
	restore_dirs_put(r->dirs, &b);
	restore_dirs_put(r->dirs, &a);
	return rc;
}

/* The first one could not be made: this one may take its place. */
static int lead(struct restore *r, struct group *g, uint64_t at,
    const struct restore_record *rec, struct err *e)
{
	bool made = false;
	int rc =
	    restore_record_mark(r, at, offsetof(struct restore_record, led), e);

	if (rc < 0)
		return rc;
	if (rec->kind == CATALOG_FILE) {
		g->waits = true;
		return restore_schedule(r, rec, at, e);
	}
	rc = restore_special_again(r, rec, &made, e);
	if (rc == 0 && made)
		g->first = *rec;
	if (rc == 0 && !made)
		rc = restore_record_fail(r, at, 0, e);
	return rc;
}

/* Who was tried in an earlier round was made, or told of. */
static void follow(struct group *g, const struct restore_record *rec)
{
	if (g->first.failed && !g->first.damaged && !rec->failed)
		g->first = *rec;
	else if (rec->damaged)
		g->first.damaged = true;
}

static int link_one(struct restore *r, struct group *g, uint64_t at,
    const struct restore_record *rec, struct err *e)
{
	bool exists = false;
	bool there = false;
	int rc = 0;

	if (g->first.failed) {
		rc = err_set(e, g->first.damaged ? ERR_CORRUPT : ERR_REFUSED,
		    "what it is a hard link of could not be made");
		return restore_failed(r, rec->dir, rec->name, rc, e);
	}
	rc = link_dirs(r, &g->first, rec, &exists, &there, e);
	if (rc < 0 && needs_copy(e)) {
		(void)err_forget(e);
		return rec->kind == CATALOG_FILE
		    ? restore_schedule(r, rec, at, e)
		    : make_special(r, at, rec, e);
	}
	if (rc < 0)
		return restore_failed(r, rec->dir, rec->name, rc, e);
	if (exists)
		return restore_tell(
		    r, RESTORE_TOLD_SKIPPED, rec->dir, rec->name, "exists", e);
	r->result.entries += !there;
	return 0;
}

static int link_to(struct restore *r, struct group *g, uint64_t at,
    const struct restore_record *rec, bool first, struct err *e)
{
	int rc = 0;

	if (first || !is_same(&g->first, rec))
		return 0;
	if (rec->led) {
		follow(g, rec);
		return 0;
	}
	/* All others were seen to in the first round. */
	if ((r->links_round > 0 && !g->lost) || rec->done || g->waits)
		return 0;
	if (g->first.failed && !g->first.damaged && r->links_round < TRIES) {
		rc = lead(r, g, at, rec, e);
		r->links_again |= g->waits;
		return rc;
	}
	rc = link_one(r, g, at, rec, e);
	if (rc == 0 && g->lost)
		rc = restore_record_mark(
		    r, at, offsetof(struct restore_record, done), e);
	return rc;
}

int restore_links_make(struct restore *r, bool *ret_again, struct err *e)
{
	int rc = 0;

	r->links_again = false;
	rc = each_member(r, link_to, e);
	r->links_round++;
	*ret_again = r->links_again;
	return rc;
}
