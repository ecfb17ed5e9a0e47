/* SPDX-License-Identifier: MIT */
/*
 * bench_catalog DIR ENTRIES: in a new datastore DIR, write the catalog of a
 * made-up tree of so many entries, then look things up in it; print what each
 * cost.  Under bench_run for the memory.  DIR stays, for a look at it.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "datastore/datastore.h"
#include "datastore/session.h"
#include "datastore/tree.h"
#include "index/catalog.h"
#include "index/catalog_writer.h"
#include "index/idx.h"
#include "tests/support/gen.h"

#define FILES_A_DIRECTORY 18U
#define DIRECTORIES_A_DIRECTORY 6U
#define LOOKUPS 10000U

struct bench {
	struct datastore *ds;
	struct session *s;
	struct backup_snapshot id;
	struct task task;
	struct catalog_writer *w;
	struct catalog *c;
	struct gen g;
	int64_t next_id;
	uint64_t next_pos;
	uint64_t entries; /* wanted */
	double at;
	struct err e;
};

static double cpu(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static void say(struct bench *b, const char *what)
{
	double now = cpu();

	printf("%-32s %8.3f s of CPU\n", what, now - b->at);
	b->at = cpu();
}

static void must(struct bench *b, int rc)
{
	if (rc == 0)
		return;
	(void)fprintf(stderr, "bench_catalog: %s\n", b->e.msg);
	exit(1);
}

static struct catalog_bytes text(const char *s)
{
	return (
	    struct catalog_bytes){ .p = (const uint8_t *)s, .n = strlen(s) };
}

static void add(struct bench *b, int64_t parent, int64_t id, const char *name,
    enum catalog_kind kind)
{
	struct catalog_entry x = { .parent = parent,
		.id = id,
		.name = text(name),
		.kind = kind,
		.mode = 0644,
		.uid = 1000,
		.gid = 1000,
		.mtime_s = 1700000000 + (int64_t)gen_below(&b->g, 10000000),
		.mtime_ns = (uint32_t)gen_below(&b->g, 1000000000),
		.ino = (uint64_t)id + 131072,
		.nlink = 1,
		.mount = 1 };

	x.ctime_s = x.mtime_s;
	x.ctime_ns = x.mtime_ns;
	x.has = CATALOG_HAS_MODE | CATALOG_HAS_UID | CATALOG_HAS_GID |
	    CATALOG_HAS_MTIME | CATALOG_HAS_CTIME | CATALOG_HAS_INO |
	    CATALOG_HAS_NLINK | CATALOG_HAS_MOUNT;
	if (kind == CATALOG_FILE) {
		x.has |=
		    CATALOG_HAS_SIZE | CATALOG_HAS_POS | CATALOG_HAS_SHA256;
		x.size = gen_below(&b->g, 100000);
		x.pos = b->next_pos;
		b->next_pos += x.size;
		gen_fill(&b->g, GEN_RANDOM, x.sha256.b, sizeof(x.sha256.b));
	}
	must(b, catalog_writer_add(b->w, &x, &b->e));
}

/* In the order of a walk: a directory is listed, then gone through. */
static void add_directory(struct bench *b, int64_t id, unsigned depth)
{
	char name[64];
	int64_t first = b->next_id;
	unsigned n = DIRECTORIES_A_DIRECTORY + FILES_A_DIRECTORY;

	b->next_id += n;
	for (unsigned i = 0; i < n; i++) {
		if ((uint64_t)first + i > b->entries)
			break;
		(void)snprintf(name, sizeof(name), "%s-%02u.%" PRIx64,
		    i < DIRECTORIES_A_DIRECTORY ? "lib" : "module", i,
		    gen_below(&b->g, 1U << 24));
		if (i < DIRECTORIES_A_DIRECTORY) {
			add(b, id, first + i, name, CATALOG_DIR);
			if (depth > 0)
				add_directory(b, first + i, depth - 1);
		} else {
			add(b, id, first + i, name, CATALOG_FILE);
		}
	}
}

static void write_catalog(struct bench *b)
{
	const struct session_opts opts = {
		.group = { .type = BACKUP_HOST, .id = "bench" },
		.command = "push",
		.sync_level = SYNC_NONE,
		.level = 3,
		.references = idx_references,
	};
	struct ingest_result r;
	unsigned depth = 1;

	for (uint64_t n = 24; n < b->entries; n *= 6)
		depth++;
	must(b, session_open(b->ds, &opts, &b->task, &b->s, &b->e));
	b->id = *session_id(b->s);
	b->at = cpu();
	must(b, catalog_writer_new(b->s, "root.tree", &b->w, &b->e));
	add(b, 0, 1, "", CATALOG_DIR);
	b->next_id = 2;
	add_directory(b, 1, depth);
	say(b, "rows handed over");
	must(b,
	    catalog_writer_finish(
		b->w, b->next_id, b->next_pos, NULL, &b->task, &r, &b->e));
	catalog_writer_free(b->w);
	say(b, "sorted, written, stored");
	must(b, session_commit(b->s, &b->e));
	printf("%" PRIu64 " bytes, %" PRIu64 " pages, %" PRIu64 " chunks\n",
	    r.size, r.size / 4096, r.chunks);
	b->at = cpu();
}

static int count(void *ctx, struct catalog_bytes path,
    const struct catalog_entry *entry, struct err *e)
{
	uint64_t *n = ctx;

	(void)path;
	(void)entry;
	(void)e;
	++*n;
	return 0;
}

static void list(struct bench *b, int64_t id)
{
	struct catalog_cursor *cur = NULL;
	struct catalog_entry x;
	bool more = true;

	must(b, catalog_children(b->c, id, &cur, &b->e));
	while (more)
		must(b, catalog_cursor_next(cur, &x, &more, &b->e));
	catalog_cursor_free(cur);
}

static void pages(struct bench *b, const char *what, uint64_t *before)
{
	uint64_t now = catalog_pages_read(b->c);

	printf("%-32s %8" PRIu64 " pages\n", what, now - *before);
	*before = now;
	say(b, what);
}

static void read_catalog(struct bench *b)
{
	struct snapshot_hold hold = SNAPSHOT_HOLD_INIT;
	struct manifest m = MANIFEST_INIT;
	struct catalog_entry root;
	uint64_t before = 0;
	uint64_t n = 0;
	struct catalog_walk w = { .fn = count, .ctx = &n, .task = &b->task };

	must(b, snapshot_hold(b->ds, &b->id, LOCK_SHARED, &hold, &b->e));
	must(b, tree_read_manifest(b->ds, &b->id, hold.fd, &m, &b->e));
	must(b,
	    catalog_open(b->ds, &b->id, &hold, &m, "root.tree", &b->c, &b->e));
	pages(b, "open", &before);
	must(b, catalog_root(b->c, &root, &b->e));
	list(b, 1);
	pages(b, "list the root", &before);
	list(b, (int64_t)(b->entries / 2));
	pages(b, "list another directory", &before);
	for (unsigned i = 0; i < LOOKUPS; i++)
		list(b, 1 + (int64_t)gen_below(&b->g, b->entries / 20));
	pages(b, "list 10,000 of 5 %", &before);
	must(b, catalog_walk(b->c, &root, text(""), &w, &b->e));
	pages(b, "walk", &before);
	printf("%" PRIu64 " entries\n", n);
	catalog_close(b->c);
	manifest_release(&m);
	snapshot_release(&hold);
}

int main(int argc, char **argv)
{
	struct bench b = { .task = TASK_SILENT };

	if (argc != 3) {
		(void)fputs("usage: bench_catalog DIR ENTRIES\n", stderr);
		return 64;
	}
	b.entries = strtoull(argv[2], NULL, 10);
	gen_seed(&b.g, 1);
	must(&b, datastore_init(argv[1], NULL, &b.task, &b.e));
	must(&b, datastore_open(argv[1], DATASTORE_WRITE, NULL, &b.ds, &b.e));
	write_catalog(&b);
	read_catalog(&b);
	datastore_close(b.ds);
	return 0;
}
