/* SPDX-License-Identifier: MIT */
/*
 * What would become garbage: compared with sets made by hand, and with what
 * garbage collection says before and after.
 */
#include "gc/wouldfree.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "datastore/snapshot.h"
#include "tests/support/foreign.h"
#include "tests/support/gcfix.h"
#include "tests/support/gen.h"

#define SNAPSHOTS 8
#define CHUNKS 40U
#define OLD (2 * GCFIX_DAY)

struct made {
	struct backup_snapshot id[SNAPSHOTS];
	unsigned first[SNAPSHOTS];
	unsigned n[SNAPSHOTS];
};

struct said {
	unsigned n;
	char last[1024];
};

static void take_message(void *ctx, enum task_level level, const char *text)
{
	struct said *said = ctx;

	assert_int_equal(level, TASK_WARNING);
	said->n++;
	(void)snprintf(said->last, sizeof(said->last), "%s", text);
}

static struct wouldfree count(struct gcfix *f,
    const struct backup_snapshot *gone, size_t n, size_t capacity,
    struct said *said)
{
	static const struct task_ops ops = { .message = take_message };
	struct said ignored = { .n = 0 };
	struct task task = {
		.ops = &ops, .ctx = said != NULL ? said : &ignored, .stop = 0
	};
	const struct wouldfree_opts o = {
		.gone = gone, .gone_n = n, .capacity = capacity
	};
	struct wouldfree w = { .chunks = 0 };

	assert_ok(wouldfree_count(f->ds, &o, &task, &w, &f->e), &f->e);
	return w;
}

static uint64_t chunk_size(struct gcfix *f, unsigned number)
{
	char path[PATH_MAX];
	struct stat st;

	gcfix_chunk_path(number, "", path);
	assert_int_equal(fstatat(f->dir.fd, path, &st, 0), 0);
	return (uint64_t)st.st_size;
}

static void make(struct gcfix *f, struct made *m, struct gen *g)
{
	for (unsigned i = 0; i < SNAPSHOTS; i++) {
		m->first[i] = (unsigned)gen_below(g, CHUNKS);
		m->n[i] = 1 + (unsigned)gen_below(g, CHUNKS / 3);
		m->id[i] = gcfix_push_new(f, i % 2 == 0 ? "host/a" : "host/b",
		    GCFIX_T0 + (int64_t)i, m->first[i], m->n[i]);
	}
}

/* Chunks that only the chosen ones reference. */
static void expected(struct gcfix *f, const struct made *m, unsigned chosen,
    uint64_t *ret_chunks, uint64_t *ret_bytes)
{
	*ret_chunks = 0;
	*ret_bytes = 0;
	for (unsigned c = 0; c < 2 * CHUNKS; c++) {
		bool goes = false;
		bool stays = false;

		for (unsigned i = 0; i < SNAPSHOTS; i++) {
			if (c < m->first[i] || c >= m->first[i] + m->n[i])
				continue;
			if ((chosen >> i & 1) != 0)
				goes = true;
			else
				stays = true;
		}
		if (goes && !stays) {
			(*ret_chunks)++;
			*ret_bytes += chunk_size(f, c);
		}
	}
}

/* Whatever the memory, down to one digest at a time. */
static void as_by_hand(void **state)
{
	static const size_t capacities[] = { 1, 2, 7, 1000 };
	struct gcfix *f = *state;
	struct made m;
	struct gen g;

	gen_seed(&g, 5);
	make(f, &m, &g);
	for (unsigned chosen = 0; chosen < 1U << SNAPSHOTS; chosen += 3) {
		struct backup_snapshot gone[SNAPSHOTS];
		uint64_t chunks = 0;
		uint64_t bytes = 0;
		size_t n = 0;

		for (unsigned i = 0; i < SNAPSHOTS; i++)
			if ((chosen >> i & 1) != 0)
				gone[n++] = m.id[i];
		expected(f, &m, chosen, &chunks, &bytes);
		for (size_t k = 0; k < TEST_COUNT(capacities); k++) {
			struct wouldfree w =
			    count(f, gone, n, capacities[k], NULL);

			assert_int_equal(w.chunks, chunks);
			assert_int_equal(w.bytes, bytes);
			assert_true((n > 0) == (w.own_bytes > 0));
			assert_string_equal(wouldfree_word(&w), "exactly");
		}
	}
}

static void nothing_is_changed(void **state)
{
	struct gcfix *f = *state;
	char *before = NULL;
	struct made m;
	struct gen g;

	gen_seed(&g, 7);
	make(f, &m, &g);
	/* The first reading may set access times of index files. */
	(void)count(f, m.id, SNAPSHOTS, 3, NULL);
	before = gcfix_describe(f);
	(void)count(f, m.id, SNAPSHOTS, 3, NULL);
	gcfix_assert_same(before, gcfix_describe(f));
}

/* What a run would remove then and would not remove now. */
static void as_garbage_collection_says(void **state)
{
	struct gcfix *f = *state;
	struct backup_snapshot gone[5];
	struct wouldfree w;
	uint64_t chunks = 0;
	uint64_t bytes = 0;
	struct made m;
	struct gen g;

	gen_seed(&g, 6);
	make(f, &m, &g);
	/* Something that is garbage already. */
	gcfix_forget(f, &m.id[0]);
	gcfix_age(f, OLD);
	f->opts.dry_run = true;
	gcfix_collect(f);
	chunks = f->r.removed_chunks;
	bytes = f->r.removed_bytes;
	for (unsigned i = 0; i < 5; i++)
		gone[i] = m.id[i + 2];
	w = count(f, gone, 5, 5, NULL);
	for (unsigned i = 0; i < 5; i++)
		gcfix_forget(f, &gone[i]);
	gcfix_collect(f);
	assert_true(w.chunks > 0);
	assert_int_equal(f->r.removed_chunks - chunks, w.chunks);
	assert_int_equal(f->r.removed_bytes - bytes, w.bytes);
}

static void a_backup_runs(void **state)
{
	struct gcfix *f = *state;
	struct backup_snapshot s = gcfix_push_new(f, "host/a", GCFIX_T0, 0, 5);
	const struct pushfix other = { .group = "host/b",
		.time = GCFIX_T0,
		.put = { .first = 0, .n = 3 } };
	struct session *session = NULL;
	struct said said = { .n = 0 };
	struct wouldfree w;

	assert_ok(
	    pushfix_open(f->ds, &other, &f->other, &session, &f->e), &f->e);
	w = count(f, &s, 1, 100, &said);
	session_abort(session);
	assert_int_equal(w.chunks, 5);
	assert_string_equal(wouldfree_word(&w), "at most");
	assert_int_equal(said.n, 1);
	assert_string_equal(
	    said.last, "a backup runs that may use some of these chunks");
	w = count(f, &s, 1, 100, NULL);
	assert_string_equal(wouldfree_word(&w), "exactly");
}

/* One that locks the whole file, as PBS does, and leaves no registration. */
static void a_foreign_backup_runs(void **state)
{
	struct gcfix *f = *state;
	struct backup_snapshot s = gcfix_push_new(f, "host/a", GCFIX_T0, 0, 5);
	struct wouldfree w;
	struct foreign_holder holder;

	/* It does not go together with writers of ours. */
	datastore_close(f->ds);
	f->ds = NULL;
	assert_ok(datastore_open(f->path, DATASTORE_READ, NULL, &f->ds, &f->e),
	    &f->e);
	foreign_start(f->ds->root_fd, ".lock",
	    &(struct foreign_lock){ .classic = true, .type = F_RDLCK },
	    &holder);
	w = count(f, &s, 1, 100, NULL);
	foreign_end(&holder);
	assert_string_equal(wouldfree_word(&w), "at most");
	w = count(f, &s, 1, 100, NULL);
	assert_string_equal(wouldfree_word(&w), "exactly");
}

static void break_index(struct gcfix *f, const char *name)
{
	int fd = openat(f->dir.fd, name, O_RDWR);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, 5000), 0);
	assert_int_equal(close(fd), 0);
}

#define INDEX_A "store/host/a/" GCFIX_T0_NAME "/" PUSHFIX_NAME
#define INDEX_B "store/host/b/" GCFIX_T0_NAME "/" PUSHFIX_NAME

static void broken_indexes(void **state)
{
	struct gcfix *f = *state;
	struct backup_snapshot a = gcfix_push_new(f, "host/a", GCFIX_T0, 0, 5);
	struct said said = { .n = 0 };
	struct wouldfree w;

	(void)gcfix_push_new(f, "host/b", GCFIX_T0, 0, 3);
	w = count(f, &a, 1, 100, NULL);
	assert_int_equal(w.chunks, 2);
	assert_string_equal(wouldfree_word(&w), "exactly");
	break_index(f, INDEX_B);
	/* Told once, in however many passes. */
	w = count(f, &a, 1, 1, &said);
	assert_int_equal(w.chunks, 5);
	assert_string_equal(wouldfree_word(&w), "at most");
	assert_int_equal(said.n, 1);
	assert_non_null(strstr(said.last, INDEX_B));
	break_index(f, INDEX_A);
	w = count(f, &a, 1, 100, NULL);
	assert_int_equal(w.chunks, 0);
	assert_string_equal(wouldfree_word(&w), "at least");
}

static void links_and_missing_chunks(void **state)
{
	struct gcfix *f = *state;
	struct backup_snapshot a = gcfix_push_new(f, "host/a", GCFIX_T0, 0, 5);
	struct said said = { .n = 0 };
	struct wouldfree w;

	/* What is not there takes no space. */
	gcfix_remove_chunk(f, 2);
	w = count(f, &a, 1, 100, NULL);
	assert_int_equal(w.chunks, 4);
	assert_string_equal(wouldfree_word(&w), "exactly");
	/* Nobody knows what lies behind it. */
	assert_int_equal(symlinkat("/", f->dir.fd, "store/vm"), 0);
	w = count(f, &a, 1, 100, &said);
	assert_int_equal(w.chunks, 4);
	assert_string_equal(wouldfree_word(&w), "about");
	assert_int_equal(said.n, 1);
	assert_int_equal(unlinkat(f->dir.fd, "store/vm", 0), 0);
}

/* What garbage collection would remove before it looks keeps nothing. */
static void the_dead_keep_nothing(void **state)
{
	struct gcfix *f = *state;
	struct backup_snapshot a = gcfix_push_new(f, "host/a", GCFIX_T0, 0, 5);
	struct backup_snapshot b = gcfix_push_new(f, "host/b", GCFIX_T0, 0, 3);
	struct wouldfree w;

	gcfix_unlink(f, "host/b/" GCFIX_T0_NAME "/index.json.blob");
	w = count(f, &a, 1, 100, NULL);
	assert_int_equal(w.chunks, 2);
	assert_ok(snapshot_record_removal(f->ds, &b, &f->e), &f->e);
	w = count(f, &a, 1, 100, NULL);
	assert_int_equal(w.chunks, 5);
	/* And it may be what is asked for. */
	w = count(f, &b, 1, 100, NULL);
	assert_int_equal(w.chunks, 0);
	assert_true(w.own_bytes > 4096);
}

/* A snapshot that appears while it is counted. */
struct appearing {
	struct gcfix *f;
	bool done;
};

static void appear(void *ctx, const struct task_progress *p)
{
	struct appearing *a = ctx;

	(void)p;
	if (!a->done)
		(void)gcfix_push_new(a->f, "host/c", GCFIX_T0, 0, 3);
	a->done = true;
}

static void a_snapshot_appears(void **state)
{
	static const struct task_ops ops = { .progress = appear };
	struct gcfix *f = *state;
	struct backup_snapshot s = gcfix_push_new(f, "host/a", GCFIX_T0, 0, 5);
	struct appearing a = { .f = f };
	struct task task = { .ops = &ops, .ctx = &a, .stop = 0 };
	const struct wouldfree_opts o = {
		.gone = &s, .gone_n = 1, .capacity = 100
	};
	struct wouldfree w = { .chunks = 0 };

	assert_ok(wouldfree_count(f->ds, &o, &task, &w, &f->e), &f->e);
	assert_true(a.done);
	assert_string_equal(wouldfree_word(&w), "about");
}

static void stopped(void **state)
{
	struct gcfix *f = *state;
	struct backup_snapshot s = gcfix_push_new(f, "host/a", GCFIX_T0, 0, 5);
	struct task task = { .ops = NULL, .ctx = NULL, .stop = 2 };
	const struct wouldfree_opts o = {
		.gone = &s, .gone_n = 1, .capacity = 100
	};
	struct wouldfree w = { .chunks = 7 };

	assert_err(wouldfree_count(f->ds, &o, &task, &w, &f->e), &f->e,
	    ERR_CANCELLED, "");
	assert_int_equal(w.chunks, 7);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		GCFIX_TEST(as_by_hand),
		GCFIX_TEST(nothing_is_changed),
		GCFIX_TEST(as_garbage_collection_says),
		GCFIX_TEST(a_backup_runs),
		GCFIX_TEST(a_foreign_backup_runs),
		GCFIX_TEST(broken_indexes),
		GCFIX_TEST(links_and_missing_chunks),
		GCFIX_TEST(the_dead_keep_nothing),
		GCFIX_TEST(a_snapshot_appears),
		GCFIX_TEST(stopped),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
