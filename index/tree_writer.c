/* SPDX-License-Identifier: MIT */
#include "index/tree_writer.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "index/ingest_feed.h"
#include "index/tree_placed.h"

struct tree_writer {
	struct task *task;
	struct ingest_opts opts;
	struct ingest_feed *feed;
	struct catalog_writer *catalog;
	struct tree_placed *placed;
	struct task_count counts[1]; /* of the progress */
	int64_t next_id;
	bool open; /* a content has begun */
	bool cut;  /* and ends at a forced cut */
	uint64_t pos;
	struct tree_writer_result result;
};

int tree_writer_new(struct session *s, const char *archive,
    const struct ingest_opts *opts, struct task *task, struct tree_writer **ret,
    struct err *e)
{
	char filename[BACKUP_ID_MAX + 1];
	struct tree_writer *w = calloc(1, sizeof(*w));
	int rc = 0;

	if (w == NULL)
		return err_nomem(e);
	(void)snprintf(filename, sizeof(filename), "%s.didx", archive);
	w->task = task;
	if (opts != NULL)
		w->opts = *opts;
	if (w->opts.memory == 0)
		w->opts.memory = TREE_WRITER_MEMORY;
	w->next_id = CATALOG_ROOT_ID;
	w->counts[0] = (struct task_count){ "entries", "entries", 0, 0,
		TASK_UNIT_COUNT, "entry" };
	rc = ingest_feed_new(s, filename, 0, &w->opts, task, &w->feed, e);
	if (rc == 0)
		rc = catalog_writer_new(s, archive, &w->catalog, e);
	if (rc == 0)
		rc = tree_placed_new(0, &w->placed, e);
	if (rc < 0) {
		tree_writer_free(w);
		return rc;
	}
	ingest_feed_counts(w->feed, w->counts, 1);
	*ret = w;
	return 0;
}

void tree_writer_free(struct tree_writer *w)
{
	if (w == NULL)
		return;
	ingest_feed_free(w->feed);
	catalog_writer_free(w->catalog);
	tree_placed_free(w->placed);
	free(w);
}

struct catalog_writer *tree_writer_catalog(struct tree_writer *w)
{
	return w->catalog;
}

bool tree_writer_find(struct tree_writer *w, const struct digest *sha256,
    uint64_t size, uint64_t *ret_pos)
{
	if (!tree_placed_find(w->placed, sha256, size, ret_pos))
		return false;
	w->result.same_files++;
	w->result.same_bytes += size;
	return true;
}

bool tree_writer_has_size(const struct tree_writer *w, uint64_t size)
{
	return tree_placed_has_size(w->placed, size);
}

int tree_writer_begin(
    struct tree_writer *w, bool cut, uint64_t *ret_pos, struct err *e)
{
	int rc = 0;

	assert(!w->open);
	if (cut)
		rc = ingest_feed_cut(w->feed, e);
	if (rc < 0)
		return rc;
	w->open = true;
	w->cut = cut;
	w->pos = ingest_feed_size(w->feed);
	*ret_pos = w->pos;
	return 0;
}

int tree_writer_append(
    struct tree_writer *w, const void *p, size_t n, struct err *e)
{
	assert(w->open);
	return ingest_feed_append(w->feed, p, n, e);
}

int tree_writer_drop(struct tree_writer *w, struct err *e)
{
	assert(w->open);
	w->open = false;
	return w->cut ? ingest_feed_cut(w->feed, e) : 0;
}

int tree_writer_end(
    struct tree_writer *w, const struct digest *sha256, struct err *e)
{
	uint64_t size = ingest_feed_size(w->feed) - w->pos;
	uint64_t pos = 0;
	int rc = tree_writer_drop(w, e);

	if (rc < 0 || size == 0 ||
	    tree_placed_find(w->placed, sha256, size, &pos))
		return rc;
	return tree_placed_add(w->placed, sha256, size, w->pos, e);
}

int tree_writer_add(
    struct tree_writer *w, const struct catalog_entry *entry, struct err *e)
{
	int rc = catalog_writer_add(w->catalog, entry, e);

	if (rc == 0)
		w->counts[0].done = ++w->result.entries;
	return rc;
}

int64_t tree_writer_next_id(struct tree_writer *w)
{
	return w->next_id++;
}

int tree_writer_pulse(struct tree_writer *w, struct err *e)
{
	return ingest_feed_idle(w->feed, e);
}

int tree_writer_finish(
    struct tree_writer *w, struct tree_writer_result *ret, struct err *e)
{
	uint64_t size = ingest_feed_size(w->feed);
	int rc = ingest_feed_finish(w->feed, &w->result.content, e);

	if (rc < 0)
		return rc;
	/* The catalog wants memory of its own for its chunks. */
	ingest_feed_free(w->feed);
	w->feed = NULL;
	tree_placed_free(w->placed);
	w->placed = NULL;
	if (size > 0)
		rc = catalog_writer_run(w->catalog, 0, size, 0, e);
	if (rc == 0)
		rc = catalog_writer_finish(w->catalog, w->next_id, size,
		    &w->opts, w->task, &w->result.catalog, e);
	if (rc == 0)
		*ret = w->result;
	return rc;
}
