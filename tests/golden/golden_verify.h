/* SPDX-License-Identifier: MIT */
/*
 * golden_verify: verify of a whole store, and what it says.
 */
#ifndef CAIRN_TESTS_GOLDEN_GOLDEN_VERIFY_H
#define CAIRN_TESTS_GOLDEN_GOLDEN_VERIFY_H

#include <stdlib.h>

#include "datastore/tree.h"
#include "index/verify.h"
#include "tests/golden/golden.h"

/* Messages of one run. */
static struct buf golden_said;

static inline void golden_on_message(
    void *ctx, enum task_level level, const char *text)
{
	struct err e = ERR_INIT;

	(void)ctx;
	(void)level;
	if (buf_append_fmt(&golden_said, &e, "%s\n", text) < 0)
		abort();
}

static const struct task_ops ops = { .message = golden_on_message };

/* Where a listing could not go on. */
static inline void golden_on_obstacle(void *ctx, const struct err *why)
{
	size_t *n = ctx;

	(*n)++;
	golden_on_message(NULL, TASK_WARNING, why->msg);
}

/* All snapshots of all groups of all namespaces. */
struct golden_ids {
	struct backup_snapshot items[16];
	size_t n;
	size_t obstacles;
};

static inline void golden_add_group(
    struct golden *g, const struct backup_group *group, struct golden_ids *ids)
{
	const struct tree_obstacles o = { .fn = golden_on_obstacle,
		.ctx = &ids->obstacles };
	struct tree_snapshots list = { .items = NULL };

	assert_ok(tree_snapshots_past(g->ds, group, &o, &list, &g->e), &g->e);
	for (size_t i = 0; i < list.n; i++) {
		assert_true(ids->n < TEST_COUNT(ids->items));
		ids->items[ids->n++] = list.items[i].id;
	}
	tree_snapshots_release(&list);
}

static inline void golden_find_all(struct golden *g, struct golden_ids *ids)
{
	const struct tree_obstacles o = { .fn = golden_on_obstacle,
		.ctx = &ids->obstacles };
	struct tree_namespaces all = { .items = NULL };

	assert_ok(tree_namespaces_past(g->ds, &o, &all, &g->e), &g->e);
	for (size_t i = 0; i < all.n; i++) {
		struct tree_groups groups = { .items = NULL };

		assert_ok(
		    tree_groups_past(g->ds, &all.items[i], &o, &groups, &g->e),
		    &g->e);
		for (size_t j = 0; j < groups.n; j++)
			golden_add_group(g, &groups.items[j], ids);
		tree_groups_release(&groups);
	}
	tree_namespaces_release(&all);
}

/* Of the whole of the open store. */
static inline void golden_verify(
    struct golden *g, struct golden_ids *ids, struct verify_result *r)
{
	struct task task = { .ops = &ops };

	*ids = (struct golden_ids){ .n = 0 };
	buf_reset(&golden_said);
	golden_find_all(g, ids);
	assert_ok(
	    verify_run(g->ds, ids->items, ids->n, &task, r, &g->e), &g->e);
}

static inline const char *golden_said_text(void)
{
	struct err e = ERR_INIT;
	const char *s = buf_cstr(&golden_said, &e);

	assert_non_null(s);
	return s;
}

static inline int golden_verify_teardown(void **state)
{
	buf_release(&golden_said);
	return golden_teardown(state);
}

#endif
