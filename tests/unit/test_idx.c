/* SPDX-License-Identifier: MIT */
#include "tests/support/test.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "datastore/base/bytes.h"
#include "index/idx.h"
#include "tests/support/fault.h"
#include "tests/support/gen.h"
#include "tests/support/tmpdir.h"

#define CHUNK 65536U
#define BATCH 1000U

/* The digest that entry i of a test's index has. */
static struct digest digest_number(uint64_t i)
{
	struct digest d;

	memset(d.b, 0xd1, sizeof(d.b));
	bytes_put_le64(d.b, i);
	return d;
}

/* The end of entry i of a test's dynamic index. */
static uint64_t end_number(uint64_t i)
{
	return (i + 1) * 3 + (i / 7) * 100;
}

/* The bytes of an index of n entries; to be freed. */
static uint8_t *make_bytes(enum idx_kind kind, uint64_t n, size_t *ret_size)
{
	size_t each = idx_entry_size(kind);
	size_t size = IDX_HEADER_SIZE + (size_t)n * each;
	uint8_t *p = malloc(size);
	struct idx_info x = { .kind = kind, .ctime = 42, .count = n };
	struct err e = ERR_INIT;

	assert_non_null(p);
	for (uint64_t i = 0; i < n; i++) {
		struct idx_entry entry = { .digest = digest_number(i),
			.end = end_number(i) };

		idx_entry_encode(kind, &entry, p + IDX_HEADER_SIZE + i * each);
	}
	assert_ok(
	    digest_of(p + IDX_HEADER_SIZE, size - IDX_HEADER_SIZE, &x.csum, &e),
	    &e);
	if (kind == IDX_FIXED) {
		x.size = n * CHUNK - 1;
		x.chunk_size = CHUNK;
	}
	idx_header_encode(&x, p);
	*ret_size = size;
	return p;
}

static void put_index(
    struct tmpdir *t, const char *name, enum idx_kind kind, uint64_t n)
{
	size_t size = 0;
	uint8_t *p = make_bytes(kind, n, &size);

	tmpdir_put(t->fd, name, p, size);
	free(p);
}

/* The fixture: a directory, an index open in it, room for entries. */
struct world {
	struct tmpdir t;
	struct idx *ix;
	struct idx_entry entries[BATCH];
};

static int setup(void **state)
{
	struct world *w = calloc(1, sizeof(*w));

	if (w == NULL)
		return -1;
	tmpdir_make(&w->t);
	*state = w;
	return 0;
}

static int teardown(void **state)
{
	struct world *w = *state;

	fault_uninstall();
	idx_close(w->ix);
	tmpdir_remove(&w->t);
	free(w);
	return 0;
}

static void open_index(struct world *w, const char *name)
{
	struct err e = ERR_INIT;

	assert_ok(idx_open(w->t.fd, name, name, &w->ix, &e), &e);
}

static uint64_t want_end(const struct idx_info *x, uint64_t i)
{
	if (x->kind == IDX_DYNAMIC)
		return end_number(i);
	return i + 1 < x->count ? (i + 1) * CHUNK : x->size;
}

static void check_entry(
    const struct idx_info *x, uint64_t i, const struct idx_entry *entry)
{
	struct digest want = digest_number(i);

	assert_int_equal(entry->end, want_end(x, i));
	assert_memory_equal(entry->digest.b, want.b, DIGEST_SIZE);
}

/* Read it to its end in pieces of `max`, checking each entry. */
static void read_all(struct world *w, size_t max)
{
	const struct idx_info *x = idx_info(w->ix);
	struct err e = ERR_INIT;
	uint64_t at = 0;
	size_t n = 1;

	while (n > 0) {
		assert_ok(idx_next(w->ix, w->entries, max, &n, &e), &e);
		assert_true(n <= max);
		for (size_t i = 0; i < n; i++)
			check_entry(x, at + i, &w->entries[i]);
		at += n;
	}
	assert_int_equal(at, x->count);
	assert_memory_equal(
	    idx_computed_csum(w->ix)->b, x->csum.b, DIGEST_SIZE);
	/* And again. */
	n = 1;
	assert_ok(idx_next(w->ix, w->entries, max, &n, &e), &e);
	assert_int_equal(n, 0);
}

static void reads_a_fixed_index(void **state)
{
	struct world *w = *state;

	put_index(&w->t, "a.img.fidx", IDX_FIXED, 5);
	open_index(w, "a.img.fidx");
	assert_int_equal(idx_info(w->ix)->kind, IDX_FIXED);
	assert_int_equal(idx_info(w->ix)->count, 5);
	assert_int_equal(idx_info(w->ix)->size, 5 * CHUNK - 1);
	assert_int_equal(idx_stat(w->ix)->stx_size, 4096 + 5 * 32);
	assert_true(idx_fd(w->ix) >= 0);
	read_all(w, 2);
}

static void reads_a_dynamic_index(void **state)
{
	struct world *w = *state;

	put_index(&w->t, "a.raw.didx", IDX_DYNAMIC, 5);
	open_index(w, "a.raw.didx");
	assert_int_equal(idx_info(w->ix)->kind, IDX_DYNAMIC);
	assert_int_equal(idx_info(w->ix)->count, 5);
	assert_int_equal(idx_info(w->ix)->size, end_number(4));
	assert_int_equal(idx_info(w->ix)->chunk_size, 0);
	read_all(w, 3);
}

static void reads_an_empty_dynamic_index(void **state)
{
	struct world *w = *state;

	put_index(&w->t, "a.raw.didx", IDX_DYNAMIC, 0);
	open_index(w, "a.raw.didx");
	assert_int_equal(idx_info(w->ix)->size, 0);
	read_all(w, 1);
}

/* Around the ends of the pieces in which files are read: 1 MiB. */
static void reads_across_pieces(void **state)
{
	static const uint64_t fixed[] = { 32767, 32768, 32769, 70000 };
	static const uint64_t dynamic[] = { 26213, 26214, 26215, 60000 };
	struct world *w = *state;

	for (size_t i = 0; i < TEST_COUNT(fixed); i++) {
		put_index(&w->t, "a.fidx", IDX_FIXED, fixed[i]);
		open_index(w, "a.fidx");
		read_all(w, BATCH);
		idx_close(w->ix);
		put_index(&w->t, "a.didx", IDX_DYNAMIC, dynamic[i]);
		open_index(w, "a.didx");
		read_all(w, 999);
		idx_close(w->ix);
		w->ix = NULL;
	}
}

static void rewinds_at_any_time(void **state)
{
	struct world *w = *state;
	struct err e = ERR_INIT;
	size_t n = 0;

	put_index(&w->t, "a.didx", IDX_DYNAMIC, 30000);
	open_index(w, "a.didx");
	for (unsigned i = 0; i < 28; i++)
		assert_ok(idx_next(w->ix, w->entries, BATCH, &n, &e), &e);
	assert_ok(idx_rewind(w->ix, &e), &e);
	read_all(w, BATCH);
	assert_ok(idx_rewind(w->ix, &e), &e);
	read_all(w, 501);
	assert_ok(idx_check(w->ix, &e), &e);
	assert_ok(idx_rewind(w->ix, &e), &e);
	read_all(w, BATCH);
}

/* Also between calls of idx_next, which it must not disturb. */
static void reads_anywhere(void **state)
{
	static const char *const names[] = { "a.fidx", "a.didx" };
	struct world *w = *state;
	struct idx_entry *some = w->entries + BATCH / 2;
	struct gen g;

	gen_seed(&g, 7);
	put_index(&w->t, names[IDX_FIXED], IDX_FIXED, 600);
	put_index(&w->t, names[IDX_DYNAMIC], IDX_DYNAMIC, 600);
	for (size_t k = 0; k < 2; k++) {
		struct err e = ERR_INIT;
		uint64_t at = 0;
		size_t n = 1;

		open_index(w, names[k]);
		while (n > 0) {
			uint64_t first = gen_below(&g, 601);
			size_t want = (size_t)gen_below(&g, 601 - first);

			if (want > BATCH / 2)
				want = BATCH / 2;
			assert_ok(idx_read(w->ix, first, some, want, &e), &e);
			for (size_t i = 0; i < want; i++) {
				check_entry(
				    idx_info(w->ix), first + i, &some[i]);
			}
			assert_ok(idx_next(w->ix, w->entries, 7, &n, &e), &e);
			for (size_t i = 0; i < n; i++) {
				check_entry(
				    idx_info(w->ix), at + i, &w->entries[i]);
			}
			at += n;
		}
		assert_int_equal(at, 600);
		assert_ok(idx_read(w->ix, 600, some, 0, &e), &e);
		idx_close(w->ix);
		w->ix = NULL;
	}
}

/* A bit of an entry, or of the checksum, is found at the end. */
static void compares_the_checksum(void **state)
{
	static const size_t places[] = { 32, 63, 4096 + 8, 4096 + 99 * 32 };
	struct world *w = *state;

	for (size_t i = 0; i < TEST_COUNT(places); i++) {
		struct err e = ERR_INIT;
		size_t size = 0;
		size_t n = 0;
		uint8_t *p = make_bytes(IDX_FIXED, 100, &size);

		p[places[i]] ^= 1;
		tmpdir_put(w->t.fd, "a.fidx", p, size);
		free(p);
		open_index(w, "a.fidx");
		assert_err(idx_check(w->ix, &e), &e, ERR_CORRUPT,
		    "'a.fidx': checksum ");
		assert_non_null(strstr(e.msg, ", want "));
		/* The end stays what it is. */
		assert_err(idx_next(w->ix, w->entries, 1, &n, &e), &e,
		    ERR_CORRUPT, "'a.fidx': checksum ");
		assert_memory_not_equal(idx_computed_csum(w->ix)->b,
		    idx_info(w->ix)->csum.b, DIGEST_SIZE);
		/* Reading anywhere does not ask for it. */
		assert_ok(idx_read(w->ix, 0, w->entries, 100, &e), &e);
		idx_close(w->ix);
		w->ix = NULL;
	}
}

/* An end that does not increase: found when its entry is come to. */
static void finds_falling_ends(void **state)
{
	struct world *w = *state;
	struct err e = ERR_INIT;
	size_t size = 0;
	size_t n = 0;
	uint8_t *p = make_bytes(IDX_DYNAMIC, 30000, &size);

	bytes_put_le64(p + IDX_HEADER_SIZE + (size_t)26214 * 40, 5);
	tmpdir_put(w->t.fd, "a.didx", p, size);
	free(p);
	open_index(w, "a.didx");
	for (unsigned i = 0; i < 26; i++)
		assert_ok(idx_next(w->ix, w->entries, BATCH, &n, &e), &e);
	assert_err(idx_next(w->ix, w->entries, BATCH, &n, &e), &e, ERR_CORRUPT,
	    "'a.didx': entry 26214 ends at 5, want more than ");
	assert_err(idx_check(w->ix, &e), &e, ERR_CORRUPT, "entry 26214");
	assert_ok(idx_read(w->ix, 0, w->entries, BATCH, &e), &e);
	assert_err(idx_read(w->ix, 26214, w->entries, 1, &e), &e, ERR_CORRUPT,
	    "'a.didx': entry 26214 ends at 5, want more than ");
}

static void says_what_can_not_be_opened(void **state)
{
	struct world *w = *state;
	struct err e = ERR_INIT;
	struct idx *ix = NULL;
	int fd = -1;

	assert_err(idx_open(w->t.fd, "no.fidx", "s/no.fidx", &ix, &e), &e,
	    ERR_NOTFOUND, "'s/no.fidx' does not exist");
	tmpdir_put_str(w->t.fd, "short.fidx", "ten bytes!");
	assert_err(idx_open(w->t.fd, "short.fidx", "s/short.fidx", &ix, &e), &e,
	    ERR_CORRUPT, "'s/short.fidx': 10 bytes, want at least 4096");
	assert_int_equal(mkdirat(w->t.fd, "dir.fidx", 0700), 0);
	assert_err(idx_open(w->t.fd, "dir.fidx", "dir.fidx", &ix, &e), &e,
	    ERR_CORRUPT, "want a regular file");
	assert_int_equal(symlinkat("short.fidx", w->t.fd, "link.fidx"), 0);
	assert_err(idx_open(w->t.fd, "link.fidx", "link.fidx", &ix, &e), &e,
	    ERR_CORRUPT, "symbolic link");
	assert_int_equal(mkfifoat(w->t.fd, "fifo.fidx", 0600), 0);
	assert_err(idx_open(w->t.fd, "fifo.fidx", "fifo.fidx", &ix, &e), &e,
	    ERR_CORRUPT, "want a regular file");
	fd = dup(w->t.fd);
	assert_err(idx_open_fd(fd, "directory", &ix, &e), &e, ERR_CORRUPT,
	    "'directory' is of file type 040000, want a regular file");
	assert_int_equal(close(fd), 0); /* it stayed ours */
	assert_null(ix);
}

/* Of rule 2. */
static void wants_the_kind_that_the_name_says(void **state)
{
	struct world *w = *state;
	struct err e = ERR_INIT;
	struct idx *ix = NULL;

	put_index(&w->t, "a.didx", IDX_FIXED, 3);
	put_index(&w->t, "a.fidx", IDX_DYNAMIC, 3);
	put_index(&w->t, "a.tmp_fidx", IDX_DYNAMIC, 3);
	assert_err(idx_open(w->t.fd, "a.didx", "a.didx", &ix, &e), &e,
	    ERR_CORRUPT,
	    "'a.didx': magic of a fixed index, want that of a dynamic one");
	assert_err(idx_open(w->t.fd, "a.fidx", "a.fidx", &ix, &e), &e,
	    ERR_CORRUPT,
	    "'a.fidx': magic of a dynamic index, want that of a fixed one");
	open_index(w, "a.tmp_fidx");
	read_all(w, 10);
}

/* The file is cut while it is open. */
static void notices_a_file_that_shrinks(void **state)
{
	struct world *w = *state;
	struct err e = ERR_INIT;
	size_t n = 0;
	int fd = -1;

	put_index(&w->t, "a.fidx", IDX_FIXED, 70000);
	open_index(w, "a.fidx");
	assert_ok(idx_next(w->ix, w->entries, BATCH, &n, &e), &e);
	fd = openat(w->t.fd, "a.fidx", O_WRONLY | O_CLOEXEC);
	assert_int_equal(ftruncate(fd, 4096 + 40000 * 32), 0);
	assert_int_equal(close(fd), 0);
	assert_err(idx_check(w->ix, &e), &e, ERR_CORRUPT, "'a.fidx': ");
	assert_err(idx_read(w->ix, 50000, w->entries, 1, &e), &e, ERR_CORRUPT,
	    "'a.fidx': 0 bytes at offset 1604096, want 32");
}

/* An I/O error is no verdict on the file, and can be tried again. */
static void passes_on_io_errors(void **state)
{
	struct world *w = *state;
	struct err e = ERR_INIT;
	size_t fds = 0;

	put_index(&w->t, "a.didx", IDX_DYNAMIC, 60000);
	fds = tmpdir_open_fds();
	for (uint64_t at = 1; at <= 5; at++) {
		int rc = 0;

		fault_install();
		fault_add(&(struct fault_rule){ .calls = FAULT_BIT(FAULT_PREAD),
		    .what = FAULT_FAIL,
		    .at = at,
		    .times = 1,
		    .error = EIO });
		w->ix = NULL;
		rc = idx_open(w->t.fd, "a.didx", "a.didx", &w->ix, &e);
		if (rc == 0)
			rc = idx_check(w->ix, &e);
		assert_int_equal(fault_hits(), 1);
		fault_uninstall();
		assert_err(rc, &e, ERR_SYS, "read 'a.didx'");
		assert_true(err_is_sys(&e, EIO));
		if (w->ix != NULL)
			assert_ok(idx_check(w->ix, &e), &e);
		idx_close(w->ix);
		w->ix = NULL;
		assert_int_equal(tmpdir_open_fds(), fds);
	}
}

static void owns_its_descriptor(void **state)
{
	struct world *w = *state;
	struct err e = ERR_INIT;
	size_t fds = tmpdir_open_fds();
	int fd = -1;

	put_index(&w->t, "a.fidx", IDX_FIXED, 1);
	fd = openat(w->t.fd, "a.fidx", O_RDONLY | O_CLOEXEC);
	assert_ok(idx_open_fd(fd, "a.fidx", &w->ix, &e), &e);
	assert_int_equal(idx_fd(w->ix), fd);
	idx_close(w->ix);
	w->ix = NULL;
	assert_int_equal(tmpdir_open_fds(), fds);
	idx_close(NULL);
}

static void tells_what_it_references(void **state)
{
	struct world *w = *state;
	struct err e = ERR_INIT;
	struct digest in = digest_number(299);
	struct digest out = digest_number(300);
	bool found = false;
	int fd = -1;

	put_index(&w->t, "x.tmp_didx", IDX_DYNAMIC, 300);
	fd = openat(w->t.fd, "x.tmp_didx", O_RDONLY | O_CLOEXEC);
	assert_ok(idx_references(fd, "x.didx", &in, &found, &e), &e);
	assert_true(found);
	assert_ok(idx_references(fd, "x.didx", &out, &found, &e), &e);
	assert_false(found);
	found = true;
	assert_ok(idx_references(fd, "x.conf.blob", &in, &found, &e), &e);
	assert_false(found);
	assert_err(idx_references(fd, "x.fidx", &in, &found, &e), &e,
	    ERR_CORRUPT, "'x.fidx': magic of a dynamic index");
	assert_int_equal(close(fd), 0); /* it stayed ours */
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(reads_a_fixed_index),
		T(reads_a_dynamic_index),
		T(reads_an_empty_dynamic_index),
		T(reads_across_pieces),
		T(rewinds_at_any_time),
		T(reads_anywhere),
		T(compares_the_checksum),
		T(finds_falling_ends),
		T(says_what_can_not_be_opened),
		T(wants_the_kind_that_the_name_says),
		T(notices_a_file_that_shrinks),
		T(passes_on_io_errors),
		T(owns_its_descriptor),
		T(tells_what_it_references),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
