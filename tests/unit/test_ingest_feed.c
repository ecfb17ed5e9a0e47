/* SPDX-License-Identifier: MIT */
#include "index/ingest_feed.h"

#include "datastore/chunker.h"
#include "tests/support/gen.h"
#include "tests/support/ingestfix.h"

#define AVG ((size_t)64 << 10)
#define N (30 * AVG + 123)
#define NAME "a.tar.didx"
#define TMP "a.tar.tmp_didx"

static const struct ingest_opts small = { .chunk_size = AVG, .threads = 2 };

static int setup(void **state)
{
	struct gen g;
	struct ingestfix *f = NULL;

	if (ingestfix_setup(state) < 0)
		return -1;
	f = *state;
	f->own = malloc(N);
	if (f->own == NULL)
		return -1;
	gen_seed(&g, 1);
	gen_fill(&g, GEN_RANDOM, f->own, N);
	return 0;
}

/* f->own in pieces, cut before each offset in cuts (ascending, ends with N). */
static void feed(
    struct ingestfix *f, size_t piece, const size_t *cuts, bool twice)
{
	struct ingest_feed *feed = NULL;
	struct ingest_result r = { .size = 0 };
	size_t at = 0;
	size_t k = 0;

	assert_ok(
	    ingest_feed_new(f->s, NAME, 0, &small, &f->task, &feed, &f->e),
	    &f->e);
	while (at < N) {
		size_t n = piece < N - at ? piece : N - at;

		if (at == cuts[k]) {
			k++;
			assert_ok(ingest_feed_cut(feed, &f->e), &f->e);
			if (twice)
				assert_ok(ingest_feed_cut(feed, &f->e), &f->e);
		}
		if (n > cuts[k] - at)
			n = cuts[k] - at;
		assert_ok(
		    ingest_feed_append(feed, f->own + at, n, &f->e), &f->e);
		at += n;
		assert_int_equal(ingest_feed_size(feed), at);
	}
	assert_ok(ingest_feed_idle(feed, &f->e), &f->e);
	assert_ok(ingest_feed_finish(feed, &r, &f->e), &f->e);
	ingest_feed_free(feed);
	assert_int_equal(r.size, N);
	ingestfix_assert_got(
	    f, ingestfix_read(f, session_dir_fd(f->s), TMP), f->own, N);
}

/* The chunker's cuts, begun anew at each of ours. */
static void check_cuts(struct ingestfix *f, const size_t *cuts)
{
	struct chunker c;
	struct idx *ix = NULL;
	struct idx_entry entry;
	size_t at = 0;
	size_t k = 0;
	size_t got = 0;

	assert_ok(chunker_init(&c, AVG, &f->e), &f->e);
	assert_ok(idx_open(session_dir_fd(f->s), TMP, TMP, &ix, &f->e), &f->e);
	while (at < N) {
		bool cut = false;

		if (at == cuts[k]) {
			k++;
			chunker_reset(&c);
		}
		at += chunker_scan(&c, f->own + at, cuts[k] - at, &cut);
		assert_true(cut || at == cuts[k]);
		assert_ok(idx_next(ix, &entry, 1, &got, &f->e), &f->e);
		assert_int_equal(got, 1);
		assert_int_equal(entry.end, at);
	}
	assert_ok(idx_next(ix, &entry, 1, &got, &f->e), &f->e);
	assert_int_equal(got, 0);
	idx_close(ix);
}

static void cuts_where_it_is_told(void **state)
{
	static const size_t none[] = { N };
	static const size_t some[] = { 0, 1, 5000, AVG, 7 * AVG + 1,
		7 * AVG + 2, N - 1, N };
	static const size_t pieces[] = { 777, 4096, AVG, N };
	struct ingestfix *f = *state;

	for (size_t i = 0; i < TEST_COUNT(pieces); i++) {
		feed(f, pieces[i], none, false);
		check_cuts(f, none);
		ingestfix_abort(f);
		assert_ok(ingestfix_open(f, false), &f->e);
		feed(f, pieces[i], some, i % 2 == 0);
		check_cuts(f, some);
		ingestfix_abort(f);
		assert_ok(ingestfix_open(f, false), &f->e);
	}
}

static void stops_when_told(void **state)
{
	struct ingestfix *f = *state;
	struct ingest_feed *feed = NULL;

	assert_ok(
	    ingest_feed_new(f->s, NAME, 0, &small, &f->task, &feed, &f->e),
	    &f->e);
	f->task.stop = 15;
	assert_int_equal(
	    ingest_feed_append(feed, f->own, N, &f->e), ERR_CANCELLED);
	assert_int_equal(ingest_feed_cut(feed, &f->e), ERR_CANCELLED);
	assert_int_equal(ingest_feed_idle(feed, &f->e), ERR_CANCELLED);
	f->task.stop = 0;
	ingest_feed_free(feed);
	ingest_feed_free(NULL);
}

static void refuses_what_is_no_size(void **state)
{
	static const struct ingest_opts odd = { .chunk_size = 100000 };
	struct ingestfix *f = *state;
	struct ingest_feed *feed = NULL;

	assert_int_equal(
	    ingest_feed_new(f->s, NAME, 0, &odd, &f->task, &feed, &f->e),
	    ERR_INVALID);
	assert_null(feed);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
		    cuts_where_it_is_told, setup, ingestfix_teardown),
		cmocka_unit_test_setup_teardown(
		    stops_when_told, setup, ingestfix_teardown),
		cmocka_unit_test_setup_teardown(
		    refuses_what_is_no_size, setup, ingestfix_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
