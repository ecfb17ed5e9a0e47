/* SPDX-License-Identifier: MIT */
#include "index/chunkidx.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "index/chunkidx_run.h"
#include "tests/support/dsfix.h"
#include "tests/support/gen.h"

/* Few digests, so that the same ones come again and again. */
#define DIGESTS 3000U
#define STEPS 400U

struct model {
	struct digest d;
	bool there;
	uint32_t size;
};

struct ixfix {
	struct dsfix *ds;
	struct chunkidx *ix;
	struct chunkrun *run;
	struct model m[DIGESTS];
	struct gen g;
};

static struct ixfix *fix;

static int setup(void **state)
{
	if (dsfix_setup(state) < 0)
		return -1;
	fix = calloc(1, sizeof(*fix));
	if (fix == NULL)
		return -1;
	fix->ds = *state;
	return dsfix_open(fix->ds, DATASTORE_WRITE);
}

static int teardown(void **state)
{
	chunkrun_free(fix->run);
	chunkidx_close(fix->ix);
	free(fix);
	fix = NULL;
	return dsfix_teardown(state);
}

static void reopen(void)
{
	chunkidx_close(fix->ix);
	fix->ix = NULL;
	assert_ok(chunkidx_open(fix->ds->ds, NULL, &fix->ix, &fix->ds->e),
	    &fix->ds->e);
}

static void lock_it(void)
{
	bool taken = false;

	assert_ok(chunkidx_lock(fix->ix, &taken, &fix->ds->e), &fix->ds->e);
	assert_true(taken);
}

/* An index that knows all of an empty store. */
static void make(void)
{
	assert_ok(chunkidx_make(fix->ds->ds, &fix->ds->e), &fix->ds->e);
	reopen();
	lock_it();
	assert_ok(chunkidx_rebuild(fix->ix, true, &fix->ds->task, &fix->ds->e),
	    &fix->ds->e);
	chunkidx_unlock(fix->ix);
}

static struct chunkidx_info info(void)
{
	struct chunkidx_info i;

	chunkidx_get_info(fix->ix, &i);
	return i;
}

static void is_off_where_nothing_says_which_store_it_is(void **state)
{
	(void)state;
	dsfix_unlink(fix->ds, ".cairn/format");
	assert_ok(dsfix_open(fix->ds, DATASTORE_WRITE), &fix->ds->e);
	reopen();
	assert_int_equal(info().state, CHUNKIDX_OFF);
	assert_non_null(strstr(info().why, ".cairn/format"));
}

static void begins_with_nothing(void **state)
{
	struct chunkidx_hit hit;
	struct digest d = { .b = { 1 } };

	(void)state;
	reopen();
	assert_int_equal(info().state, CHUNKIDX_NONE);
	assert_int_equal(chunkidx_find(fix->ix, &d, &hit), CHUNKIDX_UNKNOWN);
	make();
	assert_int_equal(info().state, CHUNKIDX_READY);
	assert_int_equal(chunkidx_find(fix->ix, &d, &hit), CHUNKIDX_ABSENT);
}

static void begin_model(uint64_t seed)
{
	gen_seed(&fix->g, seed);
	for (size_t i = 0; i < DIGESTS; i++)
		gen_fill(&fix->g, GEN_RANDOM, &fix->m[i].d, DIGEST_SIZE);
}

static void insert_some(void)
{
	assert_ok(
	    chunkrun_new(fix->ds->ds, &fix->run, &fix->ds->e), &fix->ds->e);
	for (uint64_t n = gen_below(&fix->g, 200); n > 0; n--) {
		struct model *m = &fix->m[gen_below(&fix->g, DIGESTS)];
		struct cix_entry x = { .digest = m->d };

		if (m->there)
			continue;
		m->there = true;
		m->size = (uint32_t)gen_below(&fix->g, 1000000);
		x.size = m->size;
		chunkrun_add(fix->run, &x);
	}
	assert_string_equal(chunkrun_commit(fix->run), "");
	chunkrun_free(fix->run);
	fix->run = NULL;
}

static int compare_ranks(const void *a, const void *b)
{
	const uint64_t *x = a;
	const uint64_t *y = b;

	return (*x > *y) - (*x < *y);
}

/* Of the base by its bits, of others by a run. */
static void remove_some(void)
{
	uint64_t ranks[200];
	size_t n = 0;
	uint64_t bytes = 0;

	assert_ok(
	    chunkrun_new(fix->ds->ds, &fix->run, &fix->ds->e), &fix->ds->e);
	reopen();
	lock_it();
	for (uint64_t i = gen_below(&fix->g, 100); i > 0; i--) {
		struct model *m = &fix->m[gen_below(&fix->g, DIGESTS)];
		struct cix_entry x = { .digest = m->d, .flags = CIX_REMOVED };
		struct chunkidx_hit hit;

		if (!m->there)
			continue;
		assert_int_equal(
		    chunkidx_find(fix->ix, &m->d, &hit), CHUNKIDX_PRESENT);
		m->there = false;
		bytes += hit.in_base ? m->size : 0;
		if (hit.in_base)
			ranks[n++] = hit.rank;
		else
			chunkrun_add(fix->run, &x);
	}
	qsort(ranks, n, sizeof(ranks[0]), compare_ranks);
	assert_ok(chunkidx_set_gone(fix->ix, ranks, n, bytes, &fix->ds->e),
	    &fix->ds->e);
	assert_string_equal(chunkrun_commit(fix->run), "");
	chunkrun_free(fix->run);
	fix->run = NULL;
	chunkidx_unlock(fix->ix);
}

static void merge_all(void)
{
	reopen();
	lock_it();
	assert_ok(chunkidx_merge(fix->ix, &fix->ds->task, NULL, &fix->ds->e),
	    &fix->ds->e);
	chunkidx_unlock(fix->ix);
	assert_int_equal(info().runs, 0);
	assert_int_equal(info().gone, 0);
}

static void compare_all(void)
{
	uint64_t there = 0;
	uint64_t bytes = 0;

	reopen();
	for (size_t i = 0; i < DIGESTS; i++) {
		const struct model *m = &fix->m[i];
		struct chunkidx_hit hit;
		enum chunkidx_found f = chunkidx_find(fix->ix, &m->d, &hit);

		if (!m->there) {
			assert_true(
			    f == CHUNKIDX_ABSENT || f == CHUNKIDX_REMOVED);
			continue;
		}
		there++;
		bytes += m->size;
		assert_int_equal(f, CHUNKIDX_PRESENT);
		assert_int_equal(hit.entry.size, m->size);
	}
	if (info().runs == 0) {
		assert_int_equal(info().chunks, there);
		assert_int_equal(info().bytes, bytes);
	}
}

/* What a map in memory says, after any number of steps. */
static void is_as_a_map(void **state)
{
	(void)state;
	make();
	begin_model(42);
	for (unsigned i = 0; i < STEPS; i++) {
		uint64_t what = gen_below(&fix->g, 10);

		if (what < 6)
			insert_some();
		else if (what < 9)
			remove_some();
		else
			merge_all();
		if (i % 10 == 0)
			compare_all();
	}
	merge_all();
	compare_all();
}

static void who_comes_second_does_not_wait(void **state)
{
	struct chunkidx *second = NULL;
	bool taken = true;

	(void)state;
	make();
	lock_it();
	assert_ok(chunkidx_open(fix->ds->ds, NULL, &second, &fix->ds->e),
	    &fix->ds->e);
	assert_ok(chunkidx_lock(second, &taken, &fix->ds->e), &fix->ds->e);
	assert_false(taken);
	assert_err(chunkidx_merge(second, &fix->ds->task, NULL, &fix->ds->e),
	    &fix->ds->e, ERR_BUSY, "somebody else");
	chunkidx_close(second);
}

static void another_collector_makes_all_unknown(void **state)
{
	const struct chunkidx_note note = { .upid = "UPID:a", .settled = true };
	struct chunkidx *other = NULL;
	struct digest d = { .b = { 1 } };

	(void)state;
	make();
	lock_it();
	assert_ok(chunkidx_note(fix->ix, &note, &fix->ds->e), &fix->ds->e);
	chunkidx_unlock(fix->ix);
	assert_ok(chunkidx_open(fix->ds->ds, "UPID:a", &other, &fix->ds->e),
	    &fix->ds->e);
	assert_true(chunkidx_knows(other, &d));
	chunkidx_close(other);
	assert_ok(chunkidx_open(fix->ds->ds, "UPID:b", &other, &fix->ds->e),
	    &fix->ds->e);
	assert_false(chunkidx_knows(other, &d));
	chunkidx_close(other);
}

static void a_base_without_trust_is_none(void **state)
{
	(void)state;
	make();
	lock_it();
	assert_ok(chunkidx_distrust(fix->ix, &fix->ds->e), &fix->ds->e);
	chunkidx_unlock(fix->ix);
	reopen();
	assert_int_equal(info().state, CHUNKIDX_NONE);
	make();
	assert_int_equal(info().state, CHUNKIDX_READY);
}

/* With each page of the base damaged in turn: what is told stays true, and a
 * merge makes the shards of that page unknown. */
static void a_damaged_page_costs_its_shards(void **state)
{
	char path[DSFIX_NAME_SIZE];
	struct chunkidx_info after;
	unsigned known = 0;
	int fd = -1;

	(void)state;
	make();
	begin_model(1);
	for (size_t i = 0; i < 20; i++)
		insert_some();
	merge_all();
	(void)snprintf(path, sizeof(path), "store/.cairn/index/base-%u.cix",
	    (unsigned)info().generation);
	fd = openat(fix->ds->dir.fd, path, O_RDWR | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(pwrite(fd, "x", 1, 3 * CIX_PAGE + 77), 1);
	assert_int_equal(close(fd), 0);
	merge_all();
	reopen();
	after = info();
	known = cix_shards_count(&after.known);
	assert_int_equal(info().state, CHUNKIDX_PARTIAL);
	assert_true(known < CIX_SHARDS && known > CIX_SHARDS / 2);
	for (size_t i = 0; i < DIGESTS; i++) {
		struct chunkidx_hit hit;
		enum chunkidx_found f =
		    chunkidx_find(fix->ix, &fix->m[i].d, &hit);

		if (f == CHUNKIDX_PRESENT)
			assert_true(fix->m[i].there);
		else if (f != CHUNKIDX_UNKNOWN)
			assert_false(fix->m[i].there);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
		TEST(is_off_where_nothing_says_which_store_it_is),
		TEST(begins_with_nothing),
		TEST(is_as_a_map),
		TEST(who_comes_second_does_not_wait),
		TEST(another_collector_makes_all_unknown),
		TEST(a_base_without_trust_is_none),
		TEST(a_damaged_page_costs_its_shards),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
