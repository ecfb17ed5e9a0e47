/* SPDX-License-Identifier: MIT */
/*
 * Catalogs whose chunks are sound and whose rows are not, and the other way
 * round: verify names them.
 */
#include <stdlib.h>

#include "index/verify.h"
#include "tests/support/catalogfix.h"

static void make(struct catalogfix *x, uint64_t run)
{
	catalogfix_begin(x, "root.tree");
	catalogfix_add(x, 0, "", 1, CATALOG_DIR);
	catalogfix_add(x, 1, "a", 2, CATALOG_DIR);
	assert_ok(catalog_writer_run(x->w, 0, run, 0, &x->f->e), &x->f->e);
}

static void add_file(
    struct catalogfix *x, const char *name, int64_t id, uint64_t size)
{
	struct catalog_entry row = catalogfix_row(2, name, id, CATALOG_FILE);

	row.size = size;
	row.pos = 6;
	row.has |= CATALOG_HAS_SHA256;
	assert_ok(catalog_writer_add(x->w, &row, &x->f->e), &x->f->e);
}

static void finish(struct catalogfix *x)
{
	catalogfix_finish(x, 100);
	catalogfix_open(x, "root.tree");
}

/* Verified twice, as two snapshots would be.  NULL: nothing is to be found. */
static void verify(struct catalogfix *x, const char *reason)
{
	struct verify_result r = { .hurt_n = 0 };
	struct backup_snapshot ids[2] = { x->f->id, x->f->id };

	assert_ok(
	    verify_run(x->f->ds, ids, 2, &x->f->task, &r, &x->f->e), &x->f->e);
	assert_int_equal(r.hurt_n, reason != NULL ? 2 : 0);
	for (size_t i = 0; i < r.hurt_n; i++) {
		const struct verify_hurt *h = &r.hurt[i];

		if (strstr(h->reasons, reason) == NULL)
			fail_msg("'%s', want '%s'", h->reasons, reason);
		assert_int_equal(h->files_n, 1);
		assert_string_equal(h->files[0].archive, "root.tree.catalog");
		assert_string_equal(h->files[0].path, "");
	}
	verify_result_release(&r);
}

static void takes_a_sound_one(void **state)
{
	struct catalogfix *x = *state;

	make(x, 36);
	add_file(x, "f", 3, 30);
	add_file(x, "g", 4, 0);
	finish(x);
	verify(x, NULL);
}

static void names_entries_of_nowhere(void **state)
{
	struct catalogfix *x = *state;

	make(x, 36);
	catalogfix_add(x, 77, "orphan", 3, CATALOG_FIFO);
	finish(x);
	verify(x, "'root.tree.catalog': 1 entry in no directory");
}

static void names_positions_of_nowhere(void **state)
{
	struct catalogfix *x = *state;

	make(x, 36);
	add_file(x, "f", 3, 31);
	add_file(x, "g", 4, 4000);
	finish(x);
	verify(x, "'root.tree.catalog': 2 files have no place in the archive");
}

static void names_runs_that_are_too_long(void **state)
{
	struct catalogfix *x = *state;

	make(x, UINT64_C(1) << 40);
	add_file(x, "f", 3, 30);
	finish(x);
	verify(x, "'root.tree.catalog': 'a/f': position 6 is behind");
}

static void names_lost_chunks(void **state)
{
	struct catalogfix *x = *state;
	struct idx_entry chunk;

	make(x, 36);
	finish(x);
	catalog_close(x->c);
	x->c = NULL;
	chunk = restorefix_entry(x->f, "root.tree.catalog.fidx", 0);
	restorefix_spoil(x->f, &chunk.digest, SPOIL_MISSING);
	verify(x, "'root.tree.catalog' can not be used: ");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CATALOGFIX_TEST(takes_a_sound_one),
		CATALOGFIX_TEST(names_entries_of_nowhere),
		CATALOGFIX_TEST(names_positions_of_nowhere),
		CATALOGFIX_TEST(names_runs_that_are_too_long),
		CATALOGFIX_TEST(names_lost_chunks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
