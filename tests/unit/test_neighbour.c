/* SPDX-License-Identifier: MIT */
/*
 * What a neighbour says of entries, and what a mark makes of it.
 */
#include "gc/neighbour.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "datastore/base/clock.h"
#include "gc/mark.h"
#include "index/idxformat.h"
#include "tests/support/gcfix.h"

enum { MANY = 40000, LATE = 30000, SPOILT = 2 * MANY };

#define GROUP "host/a/"
#define NAME(time, name) GROUP time "/" name

/* Digests by number; more than those of pushfix. */
static struct digest number(uint32_t n)
{
	struct digest d = { .b = { 7 } };

	memcpy(d.b + 4, &n, sizeof(n));
	n *= 2654435761U;
	memcpy(d.b + 8, &n, sizeof(n));
	return d;
}

static void write_index(struct gcfix *f, const char *path, enum idx_kind kind,
    const uint32_t *list, uint32_t n)
{
	size_t each = idx_entry_size(kind);
	uint8_t *p = calloc(1, IDX_HEADER_SIZE + n * each);
	struct idx_info info = {
		.kind = kind,
		.size = n,
		.chunk_size = kind == IDX_FIXED ? 1U << 20 : 0,
		.count = n,
	};
	char full[PATH_MAX];

	assert_non_null(p);
	info.size = (uint64_t)n << 20;
	for (uint32_t i = 0; i < n; i++) {
		struct idx_entry entry = { .digest = number(list[i]),
			.end = i + 1 };

		idx_entry_encode(kind, &entry, p + IDX_HEADER_SIZE + i * each);
	}
	assert_ok(
	    digest_of(p + IDX_HEADER_SIZE, n * each, &info.csum, &f->e), &f->e);
	/* Another one for each path. */
	for (size_t i = 0; path[i] != '\0'; i++)
		info.uuid[i % IDX_UUID_SIZE] ^= (uint8_t)path[i];
	idx_header_encode(&info, p);
	(void)snprintf(full, sizeof(full), "store/%s", path);
	*strrchr(full, '/') = '\0';
	gcfix_mkdir(f, full + strlen("store/"));
	(void)snprintf(full, sizeof(full), "store/%s", path);
	tmpdir_put(f->dir.fd, full, p, IDX_HEADER_SIZE + n * each);
	free(p);
}

/* Numbers from `first` on. */
static uint32_t *sequence(uint32_t first, uint32_t n)
{
	uint32_t *list = calloc(n, sizeof(*list));

	assert_non_null(list);
	for (uint32_t i = 0; i < n; i++)
		list[i] = first + i;
	return list;
}

static struct idx *open_index(struct gcfix *f, const char *path)
{
	struct idx *ix = NULL;

	assert_ok(idx_open(f->gc->root_fd, path, path, &ix, &f->e), &f->e);
	return ix;
}

/* A neighbour of this list, read whole. */
static struct neighbour *make(struct gcfix *f, const char *path,
    enum idx_kind kind, const uint32_t *list, uint32_t n)
{
	struct neighbour *nb = NULL;
	struct idx *ix = NULL;

	write_index(f, path, kind, list, n);
	ix = open_index(f, path);
	assert_ok(idx_check(ix, &f->e), &f->e);
	assert_ok(neighbour_new(&nb, &f->e), &f->e);
	neighbour_set(nb, ix, path, 5);
	neighbour_begin(nb);
	return nb;
}

static uint32_t count_known(
    struct neighbour *nb, const uint32_t *list, uint32_t n)
{
	uint32_t known = 0;

	neighbour_begin(nb);
	for (uint32_t i = 0; i < n; i++) {
		struct digest d = number(list[i]);

		known += neighbour_has(nb, i, &d);
	}
	return known;
}

/* Fixed: at its place only. */
static void fixed_entries_have_their_place(void **state)
{
	struct gcfix *f = *state;
	uint32_t *list = sequence(0, MANY);
	struct neighbour *nb =
	    make(f, NAME("1", "a.fidx"), IDX_FIXED, list, MANY);

	assert_int_equal(neighbour_when(nb), 5);
	assert_int_equal(count_known(nb, list, MANY), MANY);
	list[0] = 1;
	list[8192] = MANY + 1;
	list[MANY - 1] = 3;
	assert_int_equal(count_known(nb, list, MANY), MANY - 3);
	neighbour_free(nb);
	free(list);
	/* Behind its end nothing stands. */
	list = sequence(0, 20000);
	nb = make(f, NAME("1", "a.fidx"), IDX_FIXED, list, 10);
	assert_int_equal(count_known(nb, list, 20000), 10);
	neighbour_free(nb);
	free(list);
}

/* Dynamic: what was put in or taken out does not hide what follows. */
static void dynamic_entries_follow_each_other(void **state)
{
	struct gcfix *f = *state;
	uint32_t *old = sequence(0, MANY);
	uint32_t *new = sequence(0, MANY);
	struct neighbour *nb =
	    make(f, NAME("1", "a.didx"), IDX_DYNAMIC, old, MANY);
	uint32_t n = 0;
	uint32_t fresh = 0;

	assert_int_equal(count_known(nb, old, MANY), MANY);
	/* Every 500 entries 20 go, and 30 others come. */
	for (uint32_t i = 0; n < MANY; i++) {
		if (i % 500 == 100) {
			for (uint32_t k = 0; k < 30 && n < MANY; k++)
				new[n++] = MANY + fresh++;
			i += 20;
		}
		if (n < MANY)
			new[n++] = i;
	}
	assert_true(fresh > 2000);
	assert_int_equal(count_known(nb, new, MANY), MANY - fresh);
	/* A long run of others, then as before. */
	for (uint32_t i = 0; i < MANY; i++)
		new[i] = i >= 10000 && i < 25000 ? MANY + i : i;
	assert_int_equal(count_known(nb, new, MANY), MANY - 15000);
	neighbour_free(nb);
	free(old);
	free(new);
}

/* It never says so of what is not there. */
static void nothing_else_is_known(void **state)
{
	struct gcfix *f = *state;
	uint32_t *old = sequence(0, MANY);
	uint32_t *other = sequence(MANY, MANY);
	struct neighbour *nb =
	    make(f, NAME("1", "a.didx"), IDX_DYNAMIC, old, MANY);

	assert_int_equal(count_known(nb, other, MANY), 0);
	neighbour_free(nb);
	nb = make(f, NAME("1", "a.didx"), IDX_DYNAMIC, old, 0);
	assert_int_equal(count_known(nb, other, 100), 0);
	neighbour_free(nb);
	free(old);
	free(other);
}

static void what_can_not_be_read_knows_nothing(void **state)
{
	struct gcfix *f = *state;
	uint32_t *list = sequence(0, MANY);
	struct neighbour *nb =
	    make(f, NAME("1", "a.fidx"), IDX_FIXED, list, MANY);

	fault_install();
	fault_once(FAULT_BIT(FAULT_PREAD), 100, EIO);
	assert_in_range(count_known(nb, list, MANY), 1, MANY - 1000);
	fault_uninstall();
	assert_int_equal(count_known(nb, list, MANY), MANY);
	neighbour_free(nb);
	free(list);
}

static void only_one_of_its_kind_is_its_neighbour(void **state)
{
	static const struct {
		const char *path;
		bool want;
	} cases[] = {
		{ "host/a/2/x.fidx", true },
		{ "host/a/0/x.fidx", true },
		{ "host/a/2/y.fidx", false },
		{ "host/b/2/x.fidx", false },
		{ "host/ab/2/x.fidx", false },
		{ "ns/host/a/2/x.fidx", false },
	};
	struct gcfix *f = *state;
	uint32_t list[] = { 1, 2, 3 };
	struct neighbour *nb = make(f, "host/a/1/x.fidx", IDX_FIXED, list, 3);
	struct idx *ix = NULL;

	for (size_t i = 0; i < TEST_COUNT(cases); i++) {
		write_index(f, cases[i].path, IDX_FIXED, list, 3);
		ix = open_index(f, cases[i].path);
		assert_int_equal(
		    neighbour_is_of(nb, ix, cases[i].path), cases[i].want);
		idx_close(ix);
	}
	/* Alike, when its own sum was computed and is the same. */
	ix = open_index(f, "host/a/2/x.fidx");
	assert_true(neighbour_seems_equal(nb, ix));
	assert_ok(idx_check(ix, &f->e), &f->e);
	assert_true(neighbour_is_equal(nb, ix));
	idx_close(ix);
	list[1] = 9;
	write_index(f, "host/a/2/x.fidx", IDX_FIXED, list, 3);
	ix = open_index(f, "host/a/2/x.fidx");
	assert_false(neighbour_seems_equal(nb, ix));
	assert_ok(idx_check(ix, &f->e), &f->e);
	assert_false(neighbour_is_equal(nb, ix));
	assert_true(neighbour_is_same(nb));
	neighbour_forget(nb);
	assert_false(neighbour_is_of(nb, ix, "host/a/2/x.fidx"));
	idx_close(ix);
	neighbour_free(nb);
	neighbour_free(NULL);
}

static void paths_are_by_group_name_and_time(void **state)
{
	static const char *const order[] = { "a.fidx", "b/a.fidx",
		"host/a/1/x.fidx", "host/a/2/x.fidx", "host/a/10/x.fidx",
		"host/a/1/y.fidx", "host/a/1/sub/x.fidx", "host/ab/1/x.fidx",
		"vm/1/1/x.fidx" };

	(void)state;
	for (size_t i = 0; i < TEST_COUNT(order); i++)
		assert_int_equal(
		    neighbour_compare_paths(order[i], order[i]), 0);
	assert_true(neighbour_compare_paths(order[2], order[3]) < 0);
	assert_true(neighbour_compare_paths(order[3], order[5]) < 0);
	assert_true(neighbour_compare_paths(order[5], order[6]) < 0);
	assert_true(neighbour_compare_paths(order[5], order[7]) < 0);
	assert_true(neighbour_compare_paths(order[7], order[8]) < 0);
	assert_true(neighbour_compare_paths(order[8], order[2]) > 0);
}

/* What a sink was given. */
struct given {
	struct gcfix *f;
	bool *added; /* by number */
	uint32_t added_n;
	uint64_t repeated;
	uint64_t when;
	uint64_t clock;
	bool wrong;
	const char *spoil; /* written to when its neighbour is half read */
	bool late_added;   /* SPOILT, when the first round ended */
	unsigned rounds;
	struct mark m;
	struct findings findings;
};

static int on_add(void *ctx, const struct digest *d, struct err *e)
{
	struct given *g = ctx;
	uint32_t n = 0;

	(void)e;
	memcpy(&n, d->b + 4, sizeof(n));
	g->added_n += !g->added[n];
	g->added[n] = true;
	return 0;
}

static int on_repeat(void *ctx, uint64_t n, uint64_t when, struct err *e)
{
	struct given *g = ctx;
	char path[PATH_MAX];
	struct digest d;
	int fd = -1;

	(void)e;
	g->repeated += n;
	g->wrong |= when >= g->clock;
	g->when = when;
	if (g->spoil != NULL) {
		(void)snprintf(path, sizeof(path), "store/%s", g->spoil);
		fd = openat(g->f->dir.fd, path, O_WRONLY | O_CLOEXEC);
		assert_true(fd >= 0);
		/* Times may be as coarse as this. */
		clock_sleep_ms(20);
		d = number(SPOILT);
		assert_int_equal(pwrite(fd, d.b, DIGEST_SIZE,
				     IDX_HEADER_SIZE + LATE * DIGEST_SIZE),
		    DIGEST_SIZE);
		assert_int_equal(close(fd), 0);
		g->spoil = NULL;
	}
	return 0;
}

static uint64_t on_now(void *ctx)
{
	struct given *g = ctx;

	return g->clock++;
}

static int on_flush(void *ctx, struct err *e)
{
	struct given *g = ctx;

	(void)e;
	if (g->rounds++ == 0)
		g->late_added = g->added[SPOILT];
	return 0;
}

static int mark(struct gcfix *f, struct given *g)
{
	const struct mark_sink sink = {
		.add = on_add,
		.repeat = on_repeat,
		.now = on_now,
		.flush = on_flush,
		.ctx = g,
	};
	struct mark_opts opts = { .locks = true };

	g->f = f;
	g->m = (struct mark)MARK_INIT;
	g->findings = (struct findings){ .task = &f->task };
	g->added = calloc(4 * MANY, sizeof(*g->added));
	assert_non_null(g->added);
	return mark_run(
	    f->gc, &opts, &sink, &g->findings, &f->task, &g->m, &f->e);
}

static void release(struct given *g)
{
	mark_release(&g->m);
	free(g->added);
}

#define T0 GROUP "2027-01-01T00:00:00Z/x"
#define T1 GROUP "2027-01-02T00:00:00Z/x"
#define T2 GROUP "2027-01-03T00:00:00Z/x"

/* Each is compared with the one before it; every reference counts once. */
static void a_mark_adds_what_is_new(void **state)
{
	static const char *const suffixes[] = { ".fidx", ".didx" };
	struct gcfix *f = *state;

	for (enum idx_kind kind = IDX_FIXED; kind <= IDX_DYNAMIC; kind++) {
		static const char *const times[] = { T0, T1, T2 };
		struct given g = { .clock = 1 };
		uint32_t *list = sequence(0, 10000);

		for (uint32_t t = 0; t < 3; t++) {
			char path[PATH_MAX];

			(void)snprintf(path, sizeof(path), "%s%s", times[t],
			    suffixes[kind]);
			for (uint32_t i = 0; t > 0 && i < 100; i++)
				list[i * 50 + t] = 10000 * t + i;
			write_index(f, path, kind, list, 10000);
		}
		assert_ok(mark(f, &g), &f->e);
		assert_int_equal(g.added_n, 10200);
		assert_int_equal(g.repeated, 2 * 9900);
		assert_false(g.wrong);
		assert_int_equal(g.m.counts.references_read, 30000);
		assert_int_equal(g.findings.fatal, 0);
		gcfix_remove_tree(f, "host");
		release(&g);
		free(list);
	}
}

static void an_equal_one_is_skipped_whole(void **state)
{
	struct gcfix *f = *state;
	struct given g = { .clock = 1 };
	uint32_t *list = sequence(0, MANY);

	write_index(f, T0 ".fidx", IDX_FIXED, list, MANY);
	write_index(f, T1 ".fidx", IDX_FIXED, list, MANY);
	write_index(f, T2 ".fidx", IDX_FIXED, list, MANY);
	assert_ok(mark(f, &g), &f->e);
	assert_int_equal(g.added_n, MANY);
	assert_int_equal(g.repeated, 2 * MANY);
	assert_int_equal(g.m.counts.references_read, 3 * MANY);
	assert_int_equal(g.m.roots_n, 3);
	release(&g);
	free(list);
}

/* A header that claims to be the neighbour's proves nothing. */
static void a_claim_is_not_believed(void **state)
{
	struct gcfix *f = *state;
	struct given g = { .clock = 1 };
	uint32_t *list = sequence(0, 1000);
	uint8_t head[IDX_HEADER_SIZE];
	int fd = -1;

	write_index(f, T0 ".fidx", IDX_FIXED, list, 1000);
	list[500] = 2000;
	write_index(f, T1 ".fidx", IDX_FIXED, list, 1000);
	fd = openat(f->gc->root_fd, T0 ".fidx", O_RDONLY | O_CLOEXEC);
	assert_int_equal(pread(fd, head, sizeof(head), 0), sizeof(head));
	assert_int_equal(close(fd), 0);
	fd = openat(f->gc->root_fd, T1 ".fidx", O_WRONLY | O_CLOEXEC);
	assert_int_equal(pwrite(fd, head, sizeof(head), 0), sizeof(head));
	assert_int_equal(close(fd), 0);
	assert_ok(mark(f, &g), &f->e);
	assert_int_equal(g.findings.fatal, 1);
	assert_int_equal(g.repeated, 0);
	assert_int_equal(gcfix_said(f, "checksum"), 1);
	release(&g);
	free(list);
}

/*
 * One that is written to while it is compared with, so that it claims to have
 * had what is new: all is added then.
 */
static void a_neighbour_that_changes_proves_nothing(void **state)
{
	struct gcfix *f = *state;
	struct given g = { .clock = 1, .spoil = T0 ".fidx" };
	uint32_t *list = sequence(0, MANY);

	write_index(f, T0 ".fidx", IDX_FIXED, list, MANY);
	list[LATE] = SPOILT;
	write_index(f, T1 ".fidx", IDX_FIXED, list, MANY);
	assert_ok(mark(f, &g), &f->e);
	assert_true(g.repeated > 0);
	/* Not only in the second round, which reads the other one again. */
	assert_true(g.late_added);
	release(&g);
	free(list);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		GCFIX_TEST(fixed_entries_have_their_place),
		GCFIX_TEST(dynamic_entries_follow_each_other),
		GCFIX_TEST(nothing_else_is_known),
		GCFIX_TEST(what_can_not_be_read_knows_nothing),
		GCFIX_TEST(only_one_of_its_kind_is_its_neighbour),
		GCFIX_TEST(paths_are_by_group_name_and_time),
		GCFIX_TEST(a_mark_adds_what_is_new),
		GCFIX_TEST(an_equal_one_is_skipped_whole),
		GCFIX_TEST(a_claim_is_not_believed),
		GCFIX_TEST(a_neighbour_that_changes_proves_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
