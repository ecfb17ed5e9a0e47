/* SPDX-License-Identifier: MIT */
/*
 * Tars that end early, late or not at all, that are none, that have holes:
 * what is stored is the stream, and the catalog has what could be read.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/tarfix.h"

#define CHUNK RESTOREFIX_CHUNK

static bool is_chunk_start(struct tarfix *t, uint64_t at)
{
	uint64_t n = restorefix_entries(t->x->f, "root.tar.didx");

	for (uint64_t i = 0; i < n; i++) {
		if (restorefix_entry(t->x->f, "root.tar.didx", i).end == at)
			return true;
	}
	return false;
}

/* The content of a large member begins a chunk, wherever it lies. */
static void large_contents_begin_chunks(void **state)
{
	static const size_t sizes[] = { TAR_CUT_SIZE - 1, TAR_CUT_SIZE, 100,
		TAR_CUT_SIZE + 12345, 3 * TAR_CUT_SIZE, 1, 0, TAR_CUT_SIZE };
	struct tarfix *t = *state;
	size_t at[TEST_COUNT(sizes)];
	uint8_t *p = restorefix_bytes(t->x->f, GEN_RANDOM, 3 * TAR_CUT_SIZE);

	for (size_t i = 0; i < TEST_COUNT(sizes); i++) {
		char name[16];

		(void)snprintf(name, sizeof(name), "f%zu", i);
		tarfix_member(t, '0', name, NULL, p, sizes[i]);
		at[i] = t->content;
	}
	tarfix_end(t);
	tarfix_push(t);
	assert_true(t->result.whole);
	tarfix_assert_stream(t);
	for (size_t i = 0; i < TEST_COUNT(sizes); i++) {
		char name[16];

		(void)snprintf(name, sizeof(name), "f%zu", i);
		assert_int_equal(tarfix_row(t, name).pos, at[i]);
		assert_int_equal(tarfix_row(t, name).size, sizes[i]);
		assert_int_equal(
		    is_chunk_start(t, at[i]), sizes[i] >= TAR_CUT_SIZE);
	}
	(void)tarfix_dump(t);
}

/* Cut off at every kind of place. */
static void says_where_a_tar_was_cut_off(void **state)
{
	static const struct {
		size_t at;
		const char *said;
		const char *dump;
	} cuts[] = {
		{ 5 * TARFIX_BLOCK, "without an end-of-archive marker",
		    " dir\na file 640 size=600\nb file 640 size=1\n" },
		/* Its content is there, what fills its block is not. */
		{ 4 * TARFIX_BLOCK + 1, "behind offset 2049: Truncated",
		    " dir\na file 640 size=600\nb file 640 size=1\n" },
		{ 4 * TARFIX_BLOCK, "member 'b' is not whole: Truncated",
		    " dir\na file 640 size=600\nb file 640 size=0 state=2\n" },
		{ 3 * TARFIX_BLOCK + 100, "behind offset 1536: Truncated",
		    " dir\na file 640 size=600\n" },
		{ 3 * TARFIX_BLOCK, "offset 1536 without an end-of-archive",
		    " dir\na file 640 size=600\n" },
		{ TARFIX_BLOCK + 300, "member 'a' is not whole: Truncated",
		    " dir\na file 640 size=300 state=2\n" },
	};

	for (size_t i = 0; i < TEST_COUNT(cuts); i++) {
		struct tarfix *t = NULL;
		void *one = NULL;
		uint8_t content[600];
		uint64_t end = 0;
		bool incomplete = false;

		assert_int_equal(tarfix_setup(&one), 0);
		t = one;
		memset(content, 'a', sizeof(content));
		tarfix_member(t, '0', "a", NULL, content, sizeof(content));
		tarfix_file(t, "b", "b");
		t->tar.len = cuts[i].at;
		tarfix_push(t);
		assert_false(t->result.whole);
		assert_true(restorefix_said(t->x->f, cuts[i].said) > 0);
		tarfix_assert_dump(t, cuts[i].dump);
		tarfix_assert_stream(t);
		/* Later it is still known. */
		assert_ok(
		    catalog_incomplete(t->x->c, &incomplete, &end, &t->x->f->e),
		    &t->x->f->e);
		assert_true(incomplete);
		assert_in_range(end,
		    cuts[i].at / TARFIX_BLOCK * TARFIX_BLOCK - TARFIX_BLOCK,
		    cuts[i].at);
		assert_int_equal(tarfix_teardown(&one), 0);
	}
	(void)state;
}

/* One block of zeros is an end, too; two hundred as well. */
static void takes_what_tar_takes_for_an_end(void **state)
{
	static const size_t blocks[] = { 1, 2, 200, 5000 };

	(void)state;
	for (size_t i = 0; i < TEST_COUNT(blocks); i++) {
		struct tarfix *t = NULL;
		void *one = NULL;

		assert_int_equal(tarfix_setup(&one), 0);
		t = one;
		tarfix_file(t, "a", "a");
		tarfix_zeros(t, blocks[i] * TARFIX_BLOCK);
		tarfix_push(t);
		assert_true(t->result.whole);
		assert_int_equal(restorefix_said(t->x->f, "W "), 0);
		tarfix_assert_stream(t);
		assert_int_equal(tarfix_teardown(&one), 0);
	}
}

static void tells_of_garbage_behind_the_end(void **state)
{
	struct tarfix *t = *state;

	tarfix_file(t, "a", "a");
	tarfix_end(t);
	tarfix_zeros(t, 3000);
	tarfix_bytes(t, "garbage", 7);
	tarfix_push(t);
	assert_false(t->result.whole);
	assert_int_equal(
	    restorefix_said(t->x->f,
		"W 'source' has 3007 bytes behind its end, at offset 2048, "
		"that its catalog does not show (see --ignore-zeros)"),
	    1);
	tarfix_assert_dump(t, " dir\na file 640 size=1\n");
	tarfix_assert_stream(t);
}

static void make_two(struct tarfix *t)
{
	tarfix_file(t, "a", "a");
	tarfix_end(t);
	tarfix_zeros(t, 7 * TARFIX_BLOCK);
	tarfix_file(t, "b", "bb");
	tarfix_file(t, "a", "aaa");
	tarfix_end(t);
}

static void one_archive_ends_at_its_end(void **state)
{
	struct tarfix *t = *state;

	make_two(t);
	tarfix_push(t);
	assert_false(t->result.whole);
	assert_int_equal(restorefix_said(t->x->f, "behind its end"), 1);
	tarfix_assert_dump(t, " dir\na file 640 size=1\n");
	tarfix_assert_stream(t);
}

static void several_archives_are_read_when_asked_for(void **state)
{
	static const struct tar_push_opts all = { .ignore_zeros = true };
	struct tarfix *t = *state;

	make_two(t);
	tarfix_push_as(t, &all);
	assert_true(t->result.whole);
	tarfix_assert_dump(t,
	    " dir\na file 640 size=3\nb file 640 size=2\n"
	    "- a file 640 size=1\n");
	tarfix_assert_stream(t);
}

/* Nothing at all, something else, something packed. */
static void stores_what_is_no_tar(void **state)
{
	static const struct {
		const char *p;
		size_t n;
		const char *said;
	} streams[] = {
		{ "x", 1, "is no tar" },
		{ "\x1f\x8b\x08", 3, "is compressed (gzip)" },
		{ "BZh91AY", 7, "is compressed (bzip2)" },
		{ "\xfd"
		  "7zXZ\0",
		    6, "is compressed (xz)" },
		{ "\x28\xb5\x2f\xfd", 4, "is compressed (zstd)" },
	};

	(void)state;
	for (size_t i = 0; i < 2 * TEST_COUNT(streams); i++) {
		struct tarfix *t = NULL;
		void *one = NULL;
		uint8_t *p = NULL;
		size_t n = i < TEST_COUNT(streams) ? 0 : 1000000;

		assert_int_equal(tarfix_setup(&one), 0);
		t = one;
		p = restorefix_bytes(t->x->f, GEN_RANDOM, 1000000);
		tarfix_bytes(t, streams[i % TEST_COUNT(streams)].p,
		    streams[i % TEST_COUNT(streams)].n);
		tarfix_bytes(t, p, n);
		tarfix_push(t);
		assert_false(t->result.whole);
		assert_int_equal(t->result.catalog.size, 0);
		assert_int_equal(t->result.members, 0);
		assert_int_equal(restorefix_said(t->x->f,
				     streams[i % TEST_COUNT(streams)].said),
		    1);
		tarfix_assert_stream(t);
		assert_int_equal(tarfix_teardown(&one), 0);
	}
}

/* What a producer that failed at once leaves at the end of a pipe. */
static void refuses_nothing_at_all(void **state)
{
	static const struct tar_push_opts opts = {
		.ingest = { .chunk_size = RESTOREFIX_CHUNK, .threads = 2 }
	};
	struct tarfix *t = *state;
	struct restorefix *f = t->x->f;
	struct ingest_source src = { .shown = "source" };

	tmpdir_put(f->dir.fd, "source", "", 0);
	restorefix_begin(f);
	restorefix_target(f, "source", O_RDONLY);
	src.fd = f->out;
	assert_err(tar_push(f->session, "root.tar", &src, &opts, &f->task,
		       &t->result, &f->e),
	    &f->e, ERR_REFUSED, "'source': nothing came");
}

static void lists_nothing_of_an_empty_tar(void **state)
{
	struct tarfix *t = *state;

	tarfix_end(t);
	tarfix_push(t);
	assert_true(t->result.whole);
	tarfix_assert_dump(t, " dir\n");
	tarfix_assert_stream(t);
}

/* In the middle something else begins. */
static void lists_what_comes_before_damage(void **state)
{
	struct tarfix *t = *state;
	uint8_t *p = restorefix_bytes(t->x->f, GEN_RANDOM, 700000);

	tarfix_file(t, "a", "a");
	tarfix_member(t, '0', "b", NULL, p, 300000);
	tarfix_bytes(t, p, 700000);
	tarfix_push(t);
	assert_false(t->result.whole);
	assert_int_equal(
	    restorefix_said(t->x->f, "can not be read as a tar behind"), 1);
	tarfix_assert_dump(
	    t, " dir\na file 640 size=1\nb file 640 size=300000\n");
	tarfix_assert_stream(t);
}

/* Holes as pax says them, in its three ways: 1 MiB, 4 bytes in the middle. */
static void holes_are_no_content(void **state)
{
	static const char *const v00[] = { "GNU.sparse.size=1048576",
		"GNU.sparse.numblocks=2", "GNU.sparse.offset=524288",
		"GNU.sparse.numbytes=4", "GNU.sparse.offset=1048576",
		"GNU.sparse.numbytes=0", NULL };
	static const char *const v01[] = { "GNU.sparse.size=1048576",
		"GNU.sparse.name=v01", "GNU.sparse.map=524288,4,1048576,0",
		NULL };
	static const char *const v10[] = { "GNU.sparse.major=1",
		"GNU.sparse.minor=0", "GNU.sparse.name=v10",
		"GNU.sparse.realsize=1048576", NULL };
	static const char *const all[] = { "GNU.sparse.size=70000",
		"GNU.sparse.name=all", "GNU.sparse.map=70000,0", NULL };
	static const char *const ends[] = { "GNU.sparse.size=300000",
		"GNU.sparse.name=ends", "GNU.sparse.map=0,2,100000,2,299999,1",
		NULL };
	struct tarfix *t = *state;
	char map[TARFIX_BLOCK + 4] = "2\n524288\n4\n1048576\n0\n";

	memcpy(map + TARFIX_BLOCK, "data", 4);
	tarfix_pax(t, v00);
	tarfix_file(t, "v00", "data");
	tarfix_pax(t, v01);
	tarfix_file(t, "GNUSparseFile.0/v01", "data");
	tarfix_pax(t, v10);
	tarfix_member(t, '0', "GNUSparseFile.0/v10", NULL, map, sizeof(map));
	tarfix_pax(t, all);
	tarfix_file(t, "GNUSparseFile.0/all", "");
	tarfix_pax(t, ends);
	tarfix_file(t, "GNUSparseFile.0/ends", "abcde");
	tarfix_end(t);
	tarfix_push(t);
	assert_true(t->result.whole);
	tarfix_assert_dump(t,
	    " dir\n"
	    "all file 640 size=70000 holes=0+70000\n"
	    "ends file 640 size=300000 holes=2+99998,100002+199997\n"
	    "v00 file 640 size=1048576 holes=0+524288,524292+524284\n"
	    "v01 file 640 size=1048576 holes=0+524288,524292+524284\n"
	    "v10 file 640 size=1048576 holes=0+524288,524292+524284\n");
	tarfix_assert_stream(t);
}

/* Maps that nobody wrote: backwards, overlapping, beyond the end. */
static void strange_maps_give_no_content(void **state)
{
	static const char *const back[] = { "GNU.sparse.size=1000",
		"GNU.sparse.name=back", "GNU.sparse.map=500,2,100,2", NULL };
	static const char *const far[] = { "GNU.sparse.size=1000",
		"GNU.sparse.name=far", "GNU.sparse.map=9223372036854775806,4",
		NULL };
	struct tarfix *t = *state;

	tarfix_pax(t, back);
	tarfix_file(t, "x", "data");
	tarfix_file(t, "z", "sound");
	tarfix_pax(t, far);
	tarfix_file(t, "y", "data");
	tarfix_end(t);
	tarfix_push(t);
	tarfix_assert_stream(t);
	assert_false(t->result.whole);
	assert_int_equal(
	    restorefix_said(t->x->f, "member 'back' is not whole"), 1);
	assert_int_equal(tarfix_row(t, "back").state, CATALOG_STATE_UNREADABLE);
	assert_int_equal(tarfix_row(t, "z").size, 5);
	(void)tarfix_dump(t);
}

/* The chunks of a push are found again in another, where members moved. */
static void moved_members_cost_little(void **state)
{
	struct tarfix *t = *state;
	uint8_t *p = restorefix_bytes(t->x->f, GEN_RANDOM, 2000000);
	struct session_stats stats;
	struct ingest_source src = { .shown = "source" };
	struct restorefix *f = t->x->f;
	static const struct tar_push_opts small = { .ingest = {
							.chunk_size = CHUNK } };

	tarfix_member(t, '0', "a", NULL, p, 1000000);
	tarfix_member(t, '0', "b", NULL, p + 1000000, 1000000);
	tarfix_end(t);
	tarfix_push(t);
	buf_reset(&t->tar);
	tarfix_file(t, "first", "one more");
	tarfix_member(t, '0', "x", NULL, p + 1000000, 1000000);
	tarfix_member(t, '0', "y", NULL, p, 1000000);
	tarfix_end(t);
	tmpdir_put(f->dir.fd, "source", t->tar.data, t->tar.len);
	restorefix_begin(f);
	restorefix_target(f, "source", O_RDONLY);
	src.fd = f->out;
	assert_ok(tar_push(f->session, "root.tar", &src, &small, &f->task,
		      &t->result, &f->e),
	    &f->e);
	session_stats(f->session, &stats);
	restorefix_commit(f);
	/* Headers, and the last chunk of each content. */
	assert_true(stats.new_bytes < 9 * CHUNK);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TARFIX_TEST(large_contents_begin_chunks),
		cmocka_unit_test(says_where_a_tar_was_cut_off),
		cmocka_unit_test(takes_what_tar_takes_for_an_end),
		TARFIX_TEST(tells_of_garbage_behind_the_end),
		TARFIX_TEST(one_archive_ends_at_its_end),
		TARFIX_TEST(several_archives_are_read_when_asked_for),
		cmocka_unit_test(stores_what_is_no_tar),
		TARFIX_TEST(refuses_nothing_at_all),
		TARFIX_TEST(lists_nothing_of_an_empty_tar),
		TARFIX_TEST(lists_what_comes_before_damage),
		TARFIX_TEST(holes_are_no_content),
		TARFIX_TEST(strange_maps_give_no_content),
		TARFIX_TEST(moved_members_cost_little),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
