/* SPDX-License-Identifier: MIT */
#include "index/cix.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "index/cixwriter.h"
#include "tests/support/fault.h"
#include "tests/support/gen.h"
#include "tests/support/test.h"
#include "tests/support/tmpdir.h"

#define STORE "0123abcd-0123-4567-89ab-0123456789ab"
#define NAME "x.cix"
/* More than two fence pages have room for. */
#define MANY (CIX_PAGE_ENTRIES * CIX_PAGE_FENCES * 2 + 7)

struct cixfix {
	struct tmpdir dir;
	struct err e;
	size_t fds;
	struct cix *c;
	struct cixwriter *w;
	struct cix_entry *x;
	size_t n;
};

static int setup(void **state)
{
	struct cixfix *f = calloc(1, sizeof(*f));

	if (f == NULL)
		return -1;
	f->fds = tmpdir_open_fds();
	tmpdir_make(&f->dir);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct cixfix *f = *state;
	size_t before = f->fds;

	fault_uninstall();
	cix_close(f->c);
	cixwriter_free(f->w);
	tmpdir_remove(&f->dir);
	free(f->x);
	free(f);
	return tmpdir_open_fds() == before ? 0 : -1;
}

static int compare(const void *a, const void *b)
{
	const struct cix_entry *x = a;
	const struct cix_entry *y = b;

	return digest_compare(&x->digest, &y->digest);
}

static void fill_random(struct cixfix *f, size_t n, uint64_t seed)
{
	struct gen g;

	gen_seed(&g, seed);
	f->x = calloc(n + 1, sizeof(*f->x));
	assert_non_null(f->x);
	f->n = n;
	for (size_t i = 0; i < n; i++) {
		gen_fill(&g, GEN_RANDOM, &f->x[i].digest, DIGEST_SIZE);
		f->x[i].size = (uint32_t)gen_below(&g, 1U << 22);
		f->x[i].day = (uint16_t)gen_below(&g, 30000);
		f->x[i].flags = gen_below(&g, 8) == 0 ? CIX_REMOVED : 0;
	}
	qsort(f->x, n, sizeof(*f->x), compare);
}

/* Digests that differ in their last bytes only. */
static void fill_alike(struct cixfix *f, size_t n)
{
	f->x = calloc(n + 1, sizeof(*f->x));
	assert_non_null(f->x);
	f->n = n;
	for (size_t i = 0; i < n; i++) {
		memset(&f->x[i].digest, 0x5a, DIGEST_SIZE);
		f->x[i].digest.b[30] = (uint8_t)(i >> 8);
		f->x[i].digest.b[31] = (uint8_t)i;
	}
}

static void write_file(struct cixfix *f)
{
	struct cix_info info = { .kind = CIX_BASE, .number = 7 };

	memcpy(info.store, STORE, sizeof(STORE));
	memset(&info.known, 0x0f, sizeof(info.known));
	assert_ok(cixwriter_new(
		      f->dir.fd, f->dir.path, &info, NULL, true, &f->w, &f->e),
	    &f->e);
	for (size_t i = 0; i < f->n; i++)
		assert_ok(cixwriter_append(f->w, &f->x[i], &f->e), &f->e);
	assert_ok(cixwriter_finish(f->w, &f->e), &f->e);
	assert_ok(cixwriter_name(f->w, NAME, &f->e), &f->e);
	cixwriter_free(f->w);
	f->w = NULL;
}

static int open_file(struct cixfix *f)
{
	cix_close(f->c);
	f->c = NULL;
	f->e = (struct err)ERR_INIT;
	return cix_open(f->dir.fd, NAME, NAME, &f->c, &f->e);
}

static void assert_entry(const struct cix_entry *a, const struct cix_entry *b)
{
	assert_memory_equal(&a->digest, &b->digest, DIGEST_SIZE);
	assert_int_equal(a->size, b->size);
	assert_int_equal(a->day, b->day);
	assert_int_equal(a->flags, b->flags);
}

static void check_walk(struct cixfix *f)
{
	struct cix_walk w = { .c = f->c };
	struct cix_entry x;
	uint64_t rank = 0;

	for (size_t i = 0; i < f->n; i++) {
		assert_int_equal(cix_walk_next(&w, &x, &rank), CIX_STEP_ENTRY);
		assert_int_equal(rank, i);
		assert_entry(&x, &f->x[i]);
	}
	assert_int_equal(cix_walk_next(&w, &x, &rank), CIX_STEP_END);
}

/* Each stride-th entry and what lies right beside it. */
static void check_find(struct cixfix *f, size_t stride)
{
	for (size_t i = 0; i < f->n; i += stride) {
		struct digest other = f->x[i].digest;
		struct cix_entry x;
		uint64_t rank = 0;

		assert_int_equal(
		    cix_find(f->c, &f->x[i].digest, &x, &rank), CIX_FOUND);
		assert_int_equal(rank, i);
		assert_entry(&x, &f->x[i]);
		other.b[DIGEST_SIZE - 1] ^= 0x80;
		assert_int_equal(cix_find(f->c, &other, &x, NULL) == CIX_FOUND,
		    bsearch(&other, f->x, f->n, sizeof(*f->x), compare) !=
			NULL);
	}
}

static void round_trip(struct cixfix *f, size_t stride)
{
	struct cix_stats s;

	write_file(f);
	assert_ok(open_file(f), &f->e);
	assert_int_equal(cix_info(f->c)->kind, CIX_BASE);
	assert_int_equal(cix_info(f->c)->number, 7);
	assert_int_equal(cix_info(f->c)->entries, f->n);
	assert_int_equal(cix_info(f->c)->trust, CIX_TRUST_ALL);
	assert_int_equal(cix_shards_count(&cix_info(f->c)->known), 128);
	check_find(f, stride);
	check_walk(f);
	cix_stats(f->c, &s);
	assert_int_equal(s.bad_pages, 0);
}

static void gives_back_what_was_written(void **state)
{
	static const size_t counts[] = { 0, 1, 101, 102, 103, 204,
		CIX_PAGE_ENTRIES * 64, CIX_PAGE_ENTRIES * 64 + 1,
		CIX_PAGE_ENTRIES * CIX_PAGE_FENCES,
		CIX_PAGE_ENTRIES * CIX_PAGE_FENCES + 1, MANY };
	struct cixfix *f = *state;

	for (size_t i = 0; i < TEST_COUNT(counts); i++) {
		fill_random(f, counts[i], i);
		round_trip(f, 1 + counts[i] / 5000);
		free(f->x);
		f->x = NULL;
		assert_int_equal(unlinkat(f->dir.fd, NAME, 0), 0);
	}
}

static void tells_digests_with_equal_beginnings_apart(void **state)
{
	struct cixfix *f = *state;

	fill_alike(f, CIX_PAGE_ENTRIES * 5 + 3);
	round_trip(f, 1);
}

static void counts_what_is_there(void **state)
{
	struct cixfix *f = *state;
	uint64_t present = 0;
	uint64_t bytes = 0;

	fill_random(f, 1000, 5);
	for (size_t i = 0; i < f->n; i++) {
		if (f->x[i].flags == 0) {
			present++;
			bytes += f->x[i].size;
		}
	}
	write_file(f);
	assert_ok(open_file(f), &f->e);
	assert_int_equal(cix_info(f->c)->present, present);
	assert_int_equal(cix_info(f->c)->bytes, bytes);
}

static void a_look_up_reads_few_pages(void **state)
{
	struct cixfix *f = *state;
	struct cix_entry x;
	struct cix_stats s;

	fill_random(f, MANY, 11);
	write_file(f);
	for (size_t i = 0; i < 200; i++) {
		assert_ok(open_file(f), &f->e);
		assert_int_equal(
		    cix_find(f->c, &f->x[i * (MANY / 200)].digest, &x, NULL),
		    CIX_FOUND);
		cix_stats(f->c, &s);
		assert_true(s.pages_read <= 6);
	}
}

static void flip(struct cixfix *f, off_t at)
{
	uint8_t b = 0;
	int fd = openat(f->dir.fd, NAME, O_RDWR | O_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(pread(fd, &b, 1, at), 1);
	b ^= 0x10;
	assert_int_equal(pwrite(fd, &b, 1, at), 1);
	assert_int_equal(close(fd), 0);
}

/* Whatever byte is wrong: what is found is right. */
static void a_flipped_byte_hides_and_never_lies(void **state)
{
	struct cixfix *f = *state;
	uint64_t size = 0;

	fill_random(f, 500, 3);
	size = cix_file_size(f->n);
	write_file(f);
	for (uint64_t at = 0; at < size; at += at < 200 ? 1 : 97) {
		size_t found = 0;
		struct cix_walk w = { .c = NULL };
		struct cix_entry x;
		enum cix_step step = CIX_STEP_GAP;

		flip(f, (off_t)at);
		if (open_file(f) == 0) {
			for (size_t i = 0; i < f->n; i++) {
				if (cix_find(f->c, &f->x[i].digest, &x, NULL) !=
				    CIX_FOUND)
					continue;
				assert_entry(&x, &f->x[i]);
				found++;
			}
			w.c = f->c;
			while ((step = cix_walk_next(&w, &x, NULL)) !=
			    CIX_STEP_END) {
				if (step == CIX_STEP_ENTRY)
					assert_non_null(bsearch(&x, f->x, f->n,
					    sizeof(*f->x), compare));
			}
			/* All but one page, or all fences. */
			if (at < CIX_PAGE * 6)
				assert_true(found >= f->n - CIX_PAGE_ENTRIES);
		}
		flip(f, (off_t)at);
	}
}

static void another_page_is_noticed(void **state)
{
	struct cixfix *f = *state;
	uint8_t page[CIX_PAGE];
	struct cix_entry x;
	struct cix_stats s;
	int fd = -1;

	fill_random(f, CIX_PAGE_ENTRIES * 3, 3);
	write_file(f);
	fd = openat(f->dir.fd, NAME, O_RDWR | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(pread(fd, page, CIX_PAGE, 2 * CIX_PAGE), CIX_PAGE);
	assert_int_equal(pwrite(fd, page, CIX_PAGE, 1 * CIX_PAGE), CIX_PAGE);
	assert_int_equal(close(fd), 0);
	assert_ok(open_file(f), &f->e);
	assert_int_equal(
	    cix_find(f->c, &f->x[0].digest, &x, NULL), CIX_UNREADABLE);
	cix_stats(f->c, &s);
	assert_string_equal(s.first_bad, "data page 0 is another page");
}

static void refuses_another_length(void **state)
{
	struct cixfix *f = *state;
	off_t size = 0;

	fill_random(f, 300, 3);
	size = (off_t)cix_file_size(f->n);
	write_file(f);
	for (off_t n = 0; n < size; n += 1000) {
		int fd = openat(f->dir.fd, NAME, O_RDWR | O_CLOEXEC);

		assert_true(fd >= 0);
		assert_int_equal(ftruncate(fd, n), 0);
		assert_int_equal(close(fd), 0);
		assert_err(open_file(f), &f->e, ERR_CORRUPT, "bytes");
		assert_null(f->c);
		assert_int_equal(unlinkat(f->dir.fd, NAME, 0), 0);
		write_file(f);
	}
}

static void walks_past_what_can_not_be_read(void **state)
{
	struct cixfix *f = *state;
	struct cix_walk w = { .c = NULL };
	struct cix_entry x;
	size_t entries = 0;
	size_t gaps = 0;
	enum cix_step step = CIX_STEP_GAP;

	fill_random(f, CIX_PAGE_ENTRIES * 10, 3);
	write_file(f);
	flip(f, 3 * CIX_PAGE + 100);
	flip(f, 4 * CIX_PAGE + 100);
	flip(f, 10 * CIX_PAGE + 100);
	assert_ok(open_file(f), &f->e);
	w.c = f->c;
	while ((step = cix_walk_next(&w, &x, NULL)) != CIX_STEP_END) {
		entries += step == CIX_STEP_ENTRY;
		gaps += step == CIX_STEP_GAP;
	}
	assert_int_equal(entries, CIX_PAGE_ENTRIES * 7);
	assert_int_equal(gaps, 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
		TEST(gives_back_what_was_written),
		TEST(tells_digests_with_equal_beginnings_apart),
		TEST(counts_what_is_there),
		TEST(a_look_up_reads_few_pages),
		TEST(a_flipped_byte_hides_and_never_lies),
		TEST(another_page_is_noticed),
		TEST(refuses_another_length),
		TEST(walks_past_what_can_not_be_read),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
