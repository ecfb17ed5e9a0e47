/* SPDX-License-Identifier: MIT */
#include "datastore/prune.h"

#include <stdlib.h>

#include "datastore/base/file.h"
#include "datastore/locks.h"
#include "datastore/manifest.h"
#include "datastore/snapshot.h"
#include "datastore/tree.h"

void prune_group_release(struct prune_group *p)
{
	free(p->items);
	*p = (struct prune_group)PRUNE_GROUP_INIT;
}

static int refuse(
    const struct backup_group *g, struct prune_group *p, struct err *e)
{
	char text[BACKUP_PATH_SIZE];
	bool aside = false;

	for (size_t i = 0; i < p->n; i++) {
		enum retention_reason why = p->items[i].decision.reason;

		if (why == RETENTION_FUTURE || why == RETENTION_HURT ||
		    why == RETENTION_PROTECTED)
			aside = true;
		else if (p->items[i].outcome == PRUNE_REMOVED)
			p->items[i].outcome = PRUNE_NOT_REACHED;
	}
	p->refused = true;
	backup_group_text(g, text);
	return err_set(e, ERR_REFUSED,
	    "group '%s': no finished snapshot%s would be left, so nothing is "
	    "removed; --allow-empty allows it",
	    text,
	    aside ? " but protected and damaged ones and those of the future"
		  : "");
}

/* Of what was listed: which are the rests of interrupted removals? */
static int find_halves(struct datastore *ds, const struct backup_group *g,
    const struct tree_snapshots *list, struct retention_item *items,
    struct err *e)
{
	struct backup_snapshot *halves = NULL;
	size_t n = 0;
	int rc = snapshot_interrupted(ds, g, &halves, &n, e);

	if (rc < 0)
		return rc;
	for (size_t i = 0; i < list->n; i++) {
		for (size_t k = 0; k < n && !list->items[i].finished; k++) {
			if (halves[k].time == list->items[i].id.time)
				items[i].half_removed = true;
		}
	}
	free(halves);
	return 0;
}

/*
 * Can it be given back, as far as is known without reading it?  Whatever
 * hinders reading its manifest speaks against it.
 */
static int look_if_hurt(struct datastore *ds, const struct tree_snapshot *s,
    bool *ret, struct err *e)
{
	struct manifest m = MANIFEST_INIT;
	struct err why = ERR_INIT;
	int fd = -1;
	int rc = tree_open_snapshot(ds, &s->id, &fd, &why);

	if (rc == 0)
		rc = tree_read_manifest(ds, &s->id, fd, &m, &why);
	*ret = (rc < 0 && rc != ERR_NOTFOUND) || m.verified == VERIFY_FAILED;
	manifest_release(&m);
	file_close(&fd);
	if (rc != ERR_NOMEM && rc != ERR_CANCELLED)
		return 0;
	*e = why;
	return rc;
}

/* What is to be done with each; nothing is done. */
static int plan(struct datastore *ds, const struct backup_group *g,
    const struct prune_opts *o, const struct tree_snapshots *list,
    struct prune_group *ret, bool *ret_empties, struct err *e)
{
	size_t n = list->n;
	struct retention_item *items = calloc(n + 1, sizeof(*items));
	struct retention_decision *d = calloc(n + 1, sizeof(*d));
	struct prune_item *out = calloc(n + 1, sizeof(*out));
	int rc = 0;

	if (items == NULL || d == NULL || out == NULL)
		rc = err_nomem(e);
	if (rc == 0)
		rc = find_halves(ds, g, list, items, e);
	if (rc < 0)
		goto done;
	for (size_t i = 0; i < n; i++) {
		items[i].time = list->items[i].id.time;
		items[i].finished = list->items[i].finished;
		items[i].is_protected = list->items[i].is_protected;
		if (list->items[i].finished)
			rc = look_if_hurt(
			    ds, &list->items[i], &items[i].hurt, e);
		if (rc < 0)
			goto done;
	}
	retention_decide(o->policy, o->zone, o->now, items, n, d);
	for (size_t i = 0; i < n; i++) {
		out[i].snapshot = list->items[i];
		out[i].decision = d[i];
		out[i].outcome = d[i].keep ? PRUNE_KEPT : PRUNE_REMOVED;
	}
	*ret_empties = retention_empties(items, d, n);
	ret->items = out;
	ret->n = n;
	out = NULL;
done:
	free(out);
	free(items);
	free(d);
	return rc;
}

static enum prune_outcome outcome_of(int rc)
{
	switch (rc) {
	case 0:
		return PRUNE_REMOVED;
	case ERR_NOTFOUND:
		return PRUNE_GONE;
	case ERR_BUSY:
		return PRUNE_BUSY;
	default:
		return PRUNE_FAILED;
	}
}

static int remove_planned(struct datastore *ds, const struct prune_opts *o,
    struct task *task, struct prune_group *p, struct err *e)
{
	const struct snapshot_watch watch = {
		.removing = o->removing, .kept = o->kept, .ctx = o->ctx
	};
	int rc = 0;

	for (size_t i = 0; i < p->n; i++) {
		struct prune_item *item = &p->items[i];
		struct err why = ERR_INIT;

		if (item->outcome != PRUNE_REMOVED)
			continue;
		if (rc == 0)
			rc = task_check(task, e);
		item->outcome = PRUNE_NOT_REACHED;
		if (rc < 0)
			continue;
		item->outcome = outcome_of(snapshot_forget_locked(
		    ds, &item->snapshot.id, "prune", &watch, task, &why));
		if (why.code == ERR_CANCELLED) {
			item->outcome = PRUNE_NOT_REACHED;
			*e = why;
			rc = why.code;
		} else if ((item->outcome == PRUNE_BUSY ||
			       item->outcome == PRUNE_FAILED) &&
		    o->failed != NULL) {
			o->failed(o->ctx, &why);
		}
	}
	return rc;
}

static int prune_locked(struct datastore *ds, const struct backup_group *g,
    const struct prune_opts *o, struct task *task, struct prune_group *ret,
    struct err *e)
{
	struct tree_snapshots list = { .items = NULL, .n = 0 };
	bool empties = false;
	int rc = tree_snapshots(ds, g, &list, e);

	if (rc == 0)
		rc = plan(ds, g, o, &list, ret, &empties, e);
	tree_snapshots_release(&list);
	if (rc < 0)
		return rc;
	if (empties && !o->allow_empty)
		return refuse(g, ret, e);
	return o->dry_run ? 0 : remove_planned(ds, o, task, ret, e);
}

int prune_group(struct datastore *ds, const struct backup_group *g,
    const struct prune_opts *o, struct task *task, struct prune_group *ret,
    struct err *e)
{
	int rc = 0;

	*ret = (struct prune_group)PRUNE_GROUP_INIT;
	if (o->dry_run)
		return prune_locked(ds, g, o, task, ret, e);
	rc = locks_wait_prune(ds, task, e);
	if (rc < 0)
		return rc;
	rc = prune_locked(ds, g, o, task, ret, e);
	locks_release(ds, LOCK_BYTE_PRUNE, LOCK_EXCLUSIVE);
	return rc;
}
