/* SPDX-License-Identifier: MIT */
/*
 * The order of a batch.
 *
 * In a store that has not aged references are met in the order in which chunks
 * were made, which is that of their inodes: a small sample of the batch tells.
 * Kept, each block of inodes is changed, logged and written once, and found in
 * the processor's cache.  That is best as long as memory holds the directories,
 * whether or not they have to be read first.  Where it can not, but would hold
 * the blocks of inodes, or when directories turn out to be read again, and
 * always in a store that has aged, the order is that of prefixes: each
 * directory is visited once.
 *
 * Where inodes lie in one tree that is copied as it changes (btrfs), their
 * order matters more than directories.  In an aged store the directories tell
 * it, in a reading of their own.
 */
#include <stdlib.h>
#include <string.h>

#include "datastore/base/bytes.h"
#include "datastore/base/dirreader.h"
#include "datastore/base/memory.h"
#include "datastore/store_fs_internal.h"

/* Below this the order does not matter. */
#define SORT_FROM 2048U

/*
 * Two runs of chunks, as they were met: in how many groups of 16 inodes (a
 * block of ext4) do they lie?  Those of a store that has not aged lie in a
 * few places, from which each run goes on; those of an aged one anywhere.
 */
#define RUN 256U
#define GROUP 16U
#define LOCAL_MAX (RUN / 4)

/*
 * What of an inode has to be read again when memory was too small for it, and
 * what a directory takes beside its names: its own inode, its dentry.
 */
#define INODE_BYTES 256U
#define DIR_BYTES 1024U

/* Which bytes of a digest choose its place: the first two are all alike. */
#define HASH_AT 2

/* Chunks of a prefix whose inodes are asked for; more stay as they are. */
#define GROUP_MAX 65536U

/* The keys of one prefix, to be found by their digests. */
struct lookup {
	struct store_fs *s;
	const struct store_batch *b;
	unsigned prefix;
	uint64_t *keys;
	size_t n;
	uint32_t *table; /* number in keys + 1; 0: none */
	size_t cap;      /* a power of two */
	size_t room;     /* of table */
	struct dirreader reader;
};

static size_t place_of(const struct lookup *l, const struct digest *d)
{
	return (size_t)(bytes_get_le64(d->b + HASH_AT) & (l->cap - 1));
}

static int fill_table(struct lookup *l, struct err *e)
{
	l->cap = 16;
	while (l->cap < 2 * l->n)
		l->cap *= 2;
	if (l->cap > l->room) {
		uint32_t *p = reallocarray(l->table, l->cap, sizeof(*l->table));

		if (p == NULL)
			return err_nomem(e);
		l->table = p;
		l->room = l->cap;
	}
	memset(l->table, 0, l->cap * sizeof(*l->table));
	for (size_t i = 0; i < l->n; i++) {
		size_t at = place_of(l, &l->b->d[touchorder_index(l->keys[i])]);

		while (l->table[at] != 0)
			at = (at + 1) & (l->cap - 1);
		l->table[at] = (uint32_t)i + 1;
	}
	return 0;
}

/* An entry of the directory: if it is a chunk of the batch, rank it. */
static void note_inode(struct lookup *l, const char *name, uint64_t inode)
{
	struct digest d;
	size_t at = 0;

	if (store_name_kind(name, l->prefix, &d) != STORE_CHUNK)
		return;
	for (at = place_of(l, &d); l->table[at] != 0;
	     at = (at + 1) & (l->cap - 1)) {
		uint64_t *key = &l->keys[l->table[at] - 1];
		size_t index = touchorder_index(*key);

		if (digest_equal(&l->b->d[index], &d)) {
			*key =
			    touchorder_key(inode & TOUCHORDER_RANK_MAX, index);
			return;
		}
	}
}

/* Rank the chunks of one prefix; those that are not there come first. */
static int rank_prefix(struct lookup *l, struct err *e)
{
	struct err ignored = ERR_INIT;
	struct dirreader_entry entry;
	int fd = -1;
	int rc = l->n > GROUP_MAX ? 0 : fill_table(l, e);

	if (rc < 0)
		return rc;
	for (size_t i = 0; i < l->n; i++)
		l->keys[i] = touchorder_key(0, touchorder_index(l->keys[i]));
	/* If it can not be read, touching will say why. */
	if (l->n > GROUP_MAX ||
	    store_fs_open_prefix(l->s, l->prefix, false, &fd, &ignored) < 0 ||
	    fd < 0)
		return 0;
	dirreader_begin(&l->reader, fd);
	while (dirreader_next(&l->reader, &entry, l->s->shown, &ignored) == 0 &&
	    entry.name != NULL)
		note_inode(l, entry.name, entry.inode);
	file_close(&fd);
	return 0;
}

/* Keys by prefix become keys by inode. */
static int rank_all(
    struct store_fs *s, struct store_batch *b, struct task *task, struct err *e)
{
	struct lookup l = { .s = s, .b = b, .reader = DIRREADER_INIT };
	size_t end = 0;
	int rc = 0;

	for (size_t first = 0; rc == 0 && first < b->todo; first = end) {
		l.prefix = (unsigned)touchorder_rank(b->keys[first]);
		end = first + 1;
		while (
		    end < b->todo && touchorder_rank(b->keys[end]) == l.prefix)
			end++;
		l.keys = b->keys + first;
		l.n = end - first;
		rc = task_check(task, e);
		if (rc == 0)
			rc = rank_prefix(&l, e);
	}
	dirreader_release(&l.reader);
	free(l.table);
	if (rc == 0)
		touchorder_sort(b->keys, b->todo);
	return rc;
}

/* 0: unknown. */
static uint64_t inode_of(struct store_fs *s, const struct digest *d)
{
	char rel[STORE_CHUNK_PATH_SIZE];
	struct err ignored = ERR_INIT;
	struct statx st;
	bool found = false;

	store_chunk_path(d, rel);
	if (file_stat_at(s->chunks_fd, rel, &st, &found, rel, &ignored) < 0 ||
	    !found)
		return 0;
	return st.stx_ino;
}

static int compare_groups(const void *a, const void *b)
{
	const uint64_t *x = a;
	const uint64_t *y = b;

	return (*x > *y) - (*x < *y);
}

/* Do the chunks of the run that begins there lie close together? */
static bool is_run_local(
    struct store_fs *s, const struct store_batch *b, size_t first)
{
	uint64_t groups[RUN];
	size_t distinct = 0;

	for (size_t i = 0; i < RUN; i++)
		groups[i] = inode_of(s, &b->d[first + i]) / GROUP;
	qsort(groups, RUN, sizeof(groups[0]), compare_groups);
	for (size_t i = 0; i < RUN; i++)
		distinct += i == 0 || groups[i - 1] != groups[i];
	/* All in one group: they are not there. */
	return distinct > 1 && distinct <= LOCAL_MAX;
}

/* Were the chunks made in the order in which they were met? */
static bool is_local(struct store_fs *s, const struct store_batch *b)
{
	return is_run_local(s, b, b->n / 4) &&
	    is_run_local(s, b, b->n - b->n / 4);
}

/* Of the directory of the batch's middle; they are all alike. */
static uint64_t directory_bytes(struct store_fs *s, const struct store_batch *b)
{
	char name[STORE_PREFIX_SIZE];
	struct err ignored = ERR_INIT;
	struct statx st;
	bool found = false;

	store_fs_prefix_name(
	    digest_prefix(store_batch_at(b, b->todo / 2)), name);
	if (file_stat_at(s->chunks_fd, name, &st, &found, name, &ignored) < 0 ||
	    !found)
		return 0;
	return st.stx_size;
}

/*
 * Does memory hold the blocks of inodes, but not the directories?  Then each of
 * those has to be visited once.  (Half of it: there is more to hold.)  Keys are
 * in the order of prefixes.
 */
static bool has_room_for_inodes_alone(
    struct store_fs *s, const struct store_batch *b)
{
	uint64_t prefixes = 0;

	if (s->memory == 0)
		s->memory = memory_limit();
	for (size_t i = 0; i < b->todo; i++)
		prefixes += i == 0 ||
		    touchorder_rank(b->keys[i]) !=
			touchorder_rank(b->keys[i - 1]);
	return prefixes * (directory_bytes(s, b) + DIR_BYTES) > s->memory / 2 &&
	    b->todo * INODE_BYTES <= s->memory / 2;
}

static void order_as_met(struct store_batch *b)
{
	for (size_t i = 0; i < b->todo; i++)
		b->keys[i] = touchorder_key(0, touchorder_index(b->keys[i]));
	touchorder_sort(b->keys, b->todo);
}

void store_fs_order_by_prefix(const struct store_batch *b, size_t first)
{
	for (size_t i = first; i < b->todo; i++)
		b->keys[i] = touchorder_key(digest_prefix(store_batch_at(b, i)),
		    touchorder_index(b->keys[i]));
	touchorder_sort(b->keys + first, b->todo - first);
}

int store_fs_plan(
    struct store *base, struct store_batch *b, struct task *task, struct err *e)
{
	struct store_fs *s = store_fs_of(base);
	int rc = task_check(task, e);

	if (rc < 0)
		return rc;
	b->todo = touchorder_by_prefix(b->d, b->n, b->keys);
	s->as_met = false;
	if (b->todo < SORT_FROM ||
	    (!s->by_inode && s->rereads && s->pace.threads > 1))
		return 0;
	if (!s->by_inode && has_room_for_inodes_alone(s, b))
		return 0;
	if (is_local(s, b)) {
		s->as_met = true;
		order_as_met(b);
		return 0;
	}
	if (!s->by_inode || b->todo < s->rank_from)
		return 0;
	s->ranked = true;
	return rank_all(s, b, task, e);
}
