/* SPDX-License-Identifier: MIT */
#include "tests/support/ingestfix.h"

#include <errno.h>
#include <signal.h>

#include "index/ingest.h"
#include "tests/support/gen.h"

#define CHUNK ((size_t)64 << 10)
#define NAME "a.img.fidx"
#define TMP "a.img.tmp_fidx"

static const struct ingest_opts small = { .chunk_size = CHUNK, .threads = 2 };

/* Random bytes, to be freed by the fixture. */
static uint8_t *make_bytes(struct ingestfix *f, size_t n)
{
	struct gen g;

	free(f->own);
	f->own = malloc(n);
	assert_non_null(f->own);
	gen_seed(&g, n);
	gen_fill(&g, GEN_RANDOM, f->own, n);
	return f->own;
}

static int push_as(struct ingestfix *f, const struct ingest_opts *opts,
    struct ingest_result *ret)
{
	const struct ingest_source src = { f->fd, "disk", 0 };

	return ingest_image(f->s, NAME, &src, opts, &f->task, ret, &f->e);
}

static int push(struct ingestfix *f, struct ingest_result *ret)
{
	return push_as(f, &small, ret);
}

/* A new session, in which `push` can be done again. */
static void again(struct ingestfix *f)
{
	ingestfix_abort(f);
	assert_ok(ingestfix_open(f, false), &f->e);
}

static void keeps_every_byte(void **state)
{
	static const size_t sizes[] = { 1, 2, CHUNK - 1, CHUNK, CHUNK + 1,
		2 * CHUNK - 1, 2 * CHUNK, 2 * CHUNK + 1, 20 * CHUNK,
		33 * CHUNK + 777 };
	struct ingestfix *f = *state;

	for (size_t i = 0; i < TEST_COUNT(sizes); i++) {
		size_t n = sizes[i];
		uint8_t *p = make_bytes(f, n);
		struct ingest_result r = { .size = 0 };

		ingestfix_source(f, p, n);
		assert_ok(push(f, &r), &f->e);
		assert_int_equal(r.size, n);
		assert_int_equal(r.hole_bytes, 0);
		assert_int_equal(r.chunks, (n + CHUNK - 1) / CHUNK);
		assert_false(r.changed);
		ingestfix_assert_got(
		    f, ingestfix_read(f, session_dir_fd(f->s), TMP), p, n);
		again(f);
	}
}

/* As it is when it was committed. */
static void commits(void **state)
{
	struct ingestfix *f = *state;
	uint8_t *p = make_bytes(f, 5 * CHUNK);
	struct ingest_result r = { .size = 0 };
	char path[BACKUP_PATH_SIZE];
	int dirfd = -1;

	ingestfix_source(f, p, 5 * CHUNK);
	assert_ok(push(f, &r), &f->e);
	assert_ok(ingestfix_commit(f), &f->e);
	backup_snapshot_path(&f->id, path);
	dirfd = openat(f->ds->root_fd, path, O_RDONLY | O_CLOEXEC);
	ingestfix_assert_got(f, ingestfix_read(f, dirfd, NAME), p, 5 * CHUNK);
	assert_int_equal(close(dirfd), 0);
}

/* A run of data within a hole. */
struct run {
	size_t at;
	size_t n;
};

/* How much was read of a descriptor. */
struct counter {
	int fd;
	uint64_t bytes;
};

static void count_read(void *ctx, struct fault_event *ev)
{
	struct counter *c = ctx;

	if (ev->call == FAULT_PREAD && ev->fd == c->fd && ev->result > 0)
		c->bytes += (uint64_t)ev->result;
}

/* A sparse source: its bytes are in f->own, too. */
static void make_sparse(
    struct ingestfix *f, size_t size, const struct run *runs, size_t runs_n)
{
	struct gen g;

	free(f->own);
	f->own = calloc(1, size);
	assert_non_null(f->own);
	gen_seed(&g, size);
	ingestfix_source(f, "", 0);
	(void)close(f->fd);
	f->fd = openat(f->dir.fd, "source", O_RDWR | O_CLOEXEC);
	assert_int_equal(ftruncate(f->fd, (off_t)size), 0);
	for (size_t i = 0; i < runs_n; i++) {
		uint8_t *p = f->own + runs[i].at;

		gen_fill(&g, GEN_RANDOM, p, runs[i].n);
		assert_int_equal(
		    pwrite(f->fd, p, runs[i].n, (off_t)runs[i].at), runs[i].n);
	}
}

/* True where holes of 4 KiB can be told from data. */
static bool knows_holes(struct ingestfix *f)
{
	static const struct run one = { 8192, 4096 };

	make_sparse(f, 1 << 20, &one, 1);
	return lseek(f->fd, 0, SEEK_DATA) == 8192 &&
	    lseek(f->fd, 8192, SEEK_HOLE) == 12288;
}

static void does_not_read_holes(void **state)
{
	static const struct {
		size_t size;
		struct run runs[3];
		size_t runs_n;
		uint64_t puts; /* chunks that are put */
	} cases[] = {
		/* Nothing but a hole; with a short end, that is not it. */
		{ CHUNK, { { 0, 0 } }, 0, 1 },
		{ 100 * CHUNK, { { 0, 0 } }, 0, 1 },
		{ 100 * CHUNK + 5, { { 0, 0 } }, 0, 2 },
		{ 5, { { 0, 0 } }, 0, 1 },
		/* Data at the beginning, at the end, between. */
		{ 100 * CHUNK, { { 0, CHUNK } }, 1, 2 },
		{ 100 * CHUNK, { { 99 * CHUNK, CHUNK } }, 1, 2 },
		{ 100 * CHUNK + 4096, { { 100 * CHUNK, 4096 } }, 1, 2 },
		{ 100 * CHUNK, { { 50 * CHUNK, CHUNK } }, 1, 2 },
		/* Holes in parts of chunks. */
		{ 4 * CHUNK, { { CHUNK + 4096, 4096 } }, 1, 2 },
		{ 4 * CHUNK, { { CHUNK - 4096, 8192 } }, 1, 3 },
		{ 9 * CHUNK,
		    { { 4096, 4096 }, { 2 * CHUNK - 4096, 4096 },
			{ 5 * CHUNK + 4096, 2 * CHUNK } },
		    3, 6 },
	};
	struct ingestfix *f = *state;

	if (!knows_holes(f))
		skip();
	for (size_t i = 0; i < TEST_COUNT(cases); i++) {
		size_t data = 0;
		struct counter read = { .bytes = 0 };
		struct ingest_result r = { .size = 0 };
		struct session_stats stats;

		for (size_t k = 0; k < cases[i].runs_n; k++)
			data += cases[i].runs[k].n;
		make_sparse(f, cases[i].size, cases[i].runs, cases[i].runs_n);
		read.fd = f->fd;
		fault_install();
		fault_set_hooks(
		    &(struct fault_hooks){ .after = count_read, .ctx = &read });
		assert_ok(push(f, &r), &f->e);
		fault_uninstall();
		session_stats(f->s, &stats);
		assert_int_equal(read.bytes, data);
		assert_int_equal(r.hole_bytes, cases[i].size - data);
		assert_int_equal(r.size, cases[i].size);
		assert_int_equal(stats.chunks, cases[i].puts);
		ingestfix_assert_got(f,
		    ingestfix_read(f, session_dir_fd(f->s), TMP), f->own,
		    cases[i].size);
		again(f);
	}
}

/* Zeros that were written: read, but put once. */
static void puts_zeros_once(void **state)
{
	struct ingestfix *f = *state;
	size_t n = 600 * CHUNK + 9;
	struct session_stats stats;
	struct ingest_result r = { .size = 0 };

	f->own = calloc(1, n);
	assert_non_null(f->own);
	f->own[500 * CHUNK] = 1;
	ingestfix_source(f, f->own, n);
	assert_ok(push(f, &r), &f->e);
	assert_int_equal(r.chunks, 601);
	session_stats(f->s, &stats);
	assert_int_equal(stats.chunks, 3); /* zeros, one, and the short end */
	ingestfix_assert_got(
	    f, ingestfix_read(f, session_dir_fd(f->s), TMP), f->own, n);
}

/* Time follows data, not size. */
static void takes_giants(void **state)
{
	static const struct run end = { 0, 4 };
	struct ingestfix *f = *state;
	struct ingest_opts opts = { .chunk_size = 4U << 20 };
	off_t tib = (off_t)1 << 40;
	struct ingest_result r = { .size = 0 };
	struct idx *ix = NULL;
	struct idx_entry entry;

	make_sparse(f, 4096, &end, 1);
	if (ftruncate(f->fd, tib) < 0)
		skip();
	assert_int_equal(pwrite(f->fd, "tail", 4, tib - 4), 4);
	assert_ok(push_as(f, &opts, &r), &f->e);
	assert_int_equal(r.size, tib);
	assert_int_equal(r.chunks, 1 << 18);
	assert_true(r.hole_bytes >= (uint64_t)tib - (1 << 20));
	assert_ok(idx_open(session_dir_fd(f->s), TMP, TMP, &ix, &f->e), &f->e);
	assert_ok(idx_check(ix, &f->e), &f->e);
	assert_ok(idx_read(ix, 1, &entry, 1, &f->e), &f->e);
	idx_close(ix);
	/* 4 MiB of zeros, as the format's description has them. */
	assert_memory_equal(entry.digest.b,
	    "\xbb\x9f\x8d\xf6\x14\x74\xd2\x5e\x71\xfa\x00\x72\x23\x18\xcd\x38",
	    16);
}

/* A lseek that answers as ctx has it, for SEEK_DATA and SEEK_HOLE. */
struct lie {
	int64_t data;
	int64_t hole;
	int data_error;
	int hole_error;
};

static void lie_of_holes(void *ctx, struct fault_event *ev)
{
	const struct lie *lie = ctx;

	if (ev->call != FAULT_LSEEK || ev->flags == SEEK_END)
		return;
	ev->skip = true;
	ev->result = ev->flags == SEEK_DATA ? lie->data : lie->hole;
	ev->error = ev->flags == SEEK_DATA ? lie->data_error : lie->hole_error;
}

/* Where holes can not be asked for, or the answer is nonsense. */
static void reads_all_if_in_doubt(void **state)
{
	static const struct run runs[] = { { CHUNK, CHUNK },
		{ 5 * CHUNK, CHUNK } };
	static const struct lie lies[] = {
		{ -1, -1, EINVAL, EINVAL },
		{ -1, 0, EOPNOTSUPP, 0 },
		{ 0, -1, 0, EINVAL },
		{ 0, 0, 0, 0 },
		{ 0, INT64_MAX, 0, 0 },
	};
	struct ingestfix *f = *state;

	make_sparse(f, 7 * CHUNK, runs, 2);
	for (size_t i = 0; i < TEST_COUNT(lies); i++) {
		struct lie lie = lies[i];
		struct ingest_result r = { .size = 0 };

		fault_install();
		fault_set_hooks(&(struct fault_hooks){
		    .before = lie_of_holes, .ctx = &lie });
		assert_ok(push(f, &r), &f->e);
		fault_uninstall();
		assert_int_equal(r.hole_bytes, 0);
		ingestfix_assert_got(f,
		    ingestfix_read(f, session_dir_fd(f->s), TMP), f->own,
		    7 * CHUNK);
		again(f);
	}
}

/* A block device: its size is where SEEK_END leads. */
static void be_a_device(void *ctx, struct fault_event *ev)
{
	const int *fd = ctx;
	struct statx *st = ev->p;

	if (ev->call == FAULT_STATX && ev->fd == *fd) {
		st->stx_mode = S_IFBLK | 0600;
		st->stx_size = 0;
	}
}

static void takes_block_devices(void **state)
{
	struct ingestfix *f = *state;
	uint8_t *p = make_bytes(f, 3 * CHUNK);
	struct ingest_result r = { .size = 0 };

	ingestfix_source(f, p, 3 * CHUNK);
	fault_install();
	fault_set_hooks(
	    &(struct fault_hooks){ .after = be_a_device, .ctx = &f->fd });
	assert_ok(push(f, &r), &f->e);
	fault_uninstall();
	assert_false(r.changed);
	ingestfix_assert_got(
	    f, ingestfix_read(f, session_dir_fd(f->s), TMP), p, 3 * CHUNK);
}

/* At a certain pread (or lseek) the file gets another size. */
struct resize {
	int fd;
	enum fault_call call;
	uint64_t countdown;
	off_t size;
};

static void resize_file(void *ctx, struct fault_event *ev)
{
	struct resize *r = ctx;

	if (ev->call != r->call || ev->fd != r->fd || r->countdown == 0)
		return;
	if (--r->countdown == 0)
		assert_int_equal(ftruncate(r->fd, r->size), 0);
}

static int push_resized(struct ingestfix *f, enum fault_call call,
    uint64_t countdown, size_t size, struct ingest_result *ret)
{
	struct resize how = {
		.call = call, .countdown = countdown, .size = (off_t)size
	};
	int rc = 0;

	(void)close(f->fd);
	f->fd = openat(f->dir.fd, "source", O_RDWR | O_CLOEXEC);
	how.fd = f->fd;
	fault_install();
	fault_set_hooks(
	    &(struct fault_hooks){ .before = resize_file, .ctx = &how });
	rc = push(f, ret);
	fault_uninstall();
	assert_int_equal(how.countdown, 0);
	return rc;
}

static void notices_that_it_shrinks(void **state)
{
	struct ingestfix *f = *state;
	uint8_t *p = make_bytes(f, 6 * CHUNK);
	struct ingest_result r = { .size = 99 };

	ingestfix_source(f, p, 6 * CHUNK);
	assert_err(push_resized(f, FAULT_PREAD, 4, 3 * CHUNK + 5, &r), &f->e,
	    ERR_INVALID,
	    "'disk' shrank while it was read: 196613 bytes, want 393216");
	assert_int_equal(r.size, 99);
	again(f);
	/* After the last byte was read. */
	ingestfix_source(f, p, 6 * CHUNK);
	assert_err(push_resized(f, FAULT_STATX, 2, 6 * CHUNK - 1, &r), &f->e,
	    ERR_INVALID,
	    "'disk' shrank while it was read: 393215 bytes, want 393216");
	again(f);
	/* What is cut off looks like a hole. */
	ingestfix_source(f, p, 6 * CHUNK);
	assert_err(push_resized(f, FAULT_LSEEK, 1, 0, &r), &f->e, ERR_INVALID,
	    "'disk' shrank while it was read: 0 bytes, want 393216");
}

static void takes_what_was_there_if_it_grows(void **state)
{
	struct ingestfix *f = *state;
	uint8_t *p = make_bytes(f, 6 * CHUNK);
	struct ingest_result r = { .size = 0 };

	ingestfix_source(f, p, 6 * CHUNK);
	assert_ok(push_resized(f, FAULT_PREAD, 4, 60 * CHUNK, &r), &f->e);
	assert_true(r.changed);
	assert_int_equal(r.size, 6 * CHUNK);
	ingestfix_assert_got(
	    f, ingestfix_read(f, session_dir_fd(f->s), TMP), p, 6 * CHUNK);
}

static void write_while_read(void *ctx, struct fault_event *ev)
{
	struct ingestfix *f = ctx;

	/* The content is what it was; that it was written is what counts. */
	if (ev->call == FAULT_PREAD && ev->fd == f->fd)
		assert_int_equal(utimensat(f->dir.fd, "source", NULL, 0), 0);
}

static void tells_that_a_file_was_written(void **state)
{
	struct ingestfix *f = *state;
	const struct fault_hooks hooks = { .before = write_while_read,
		.ctx = f };
	uint8_t *p = make_bytes(f, 6 * CHUNK);
	struct ingest_result r = { .size = 0 };
	const struct timespec old[2] = { { .tv_sec = 1 }, { .tv_sec = 1 } };

	ingestfix_source(f, p, 6 * CHUNK);
	assert_int_equal(utimensat(f->dir.fd, "source", old, 0), 0);
	fault_install();
	fault_set_hooks(&hooks);
	assert_ok(push(f, &r), &f->e);
	assert_true(r.changed);
	assert_int_equal(r.size, 6 * CHUNK);
}

static void names_the_place_of_an_error(void **state)
{
	struct ingestfix *f = *state;
	uint8_t *p = make_bytes(f, 6 * CHUNK);
	struct ingest_result r = { .size = 0 };
	int rc = 0;

	ingestfix_source(f, p, 6 * CHUNK);
	fault_install();
	fault_add(&(struct fault_rule){ .calls = FAULT_BIT(FAULT_PREAD),
	    .what = FAULT_SHORT,
	    .at = 3,
	    .times = 1,
	    .bytes = 1000 });
	fault_add(&(struct fault_rule){ .calls = FAULT_BIT(FAULT_PREAD),
	    .what = FAULT_FAIL,
	    .at = 4,
	    .times = 1,
	    .error = EIO });
	rc = push(f, &r);
	fault_uninstall();
	assert_err(rc, &f->e, ERR_SYS, "read 'disk' at offset 132072: ");
	assert_true(err_is_sys(&f->e, EIO));
}

/* Interrupted, and never as much as was asked for. */
static void reads_in_pieces(void **state)
{
	struct ingestfix *f = *state;
	uint8_t *p = make_bytes(f, 3 * CHUNK + 1);
	struct ingest_result r = { .size = 0 };
	int rc = 0;

	ingestfix_source(f, p, 3 * CHUNK + 1);
	fault_install();
	fault_add(&(struct fault_rule){ .calls = FAULT_BIT(FAULT_PREAD),
	    .what = FAULT_FAIL,
	    .at = 2,
	    .times = 3,
	    .error = EINTR });
	fault_add(&(struct fault_rule){ .calls = FAULT_BIT(FAULT_PREAD),
	    .what = FAULT_SHORT,
	    .at = 1,
	    .times = FAULT_FOREVER,
	    .bytes = 4097 });
	rc = push(f, &r);
	fault_uninstall();
	assert_ok(rc, &f->e);
	ingestfix_assert_got(
	    f, ingestfix_read(f, session_dir_fd(f->s), TMP), p, 3 * CHUNK + 1);
}

static void refuses_what_is_no_image(void **state)
{
	struct ingestfix *f = *state;
	struct ingest_opts odd = { .chunk_size = 65537 };
	struct ingest_result r = { .size = 0 };
	int ends[2];

	ingestfix_source(f, "", 0);
	assert_err(push(f, &r), &f->e, ERR_INVALID,
	    "'disk': an image of 0 bytes, want at least 1");
	ingestfix_source(f, "x", 1);
	assert_err(push_as(f, &odd, &r), &f->e, ERR_INVALID,
	    "chunk size 65537, want a power of two");
	(void)close(f->fd);
	f->fd = dup(f->dir.fd);
	assert_err(push(f, &r), &f->e, ERR_INVALID,
	    "'disk' is of file type 040000, want a regular file or a block "
	    "device");
	(void)close(f->fd);
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	f->fd = ends[0];
	(void)close(ends[1]);
	assert_err(push(f, &r), &f->e, ERR_INVALID,
	    "'disk' is of file type 010000, want");
}

static void stops_when_asked(void **state)
{
	struct ingestfix *f = *state;
	uint8_t *p = make_bytes(f, 6 * CHUNK);
	struct ingest_result r = { .size = 0 };

	ingestfix_source(f, p, 6 * CHUNK);
	atomic_store(&f->task.stop, SIGINT);
	assert_err(push(f, &r), &f->e, ERR_CANCELLED, "");
	atomic_store(&f->task.stop, 0);
	again(f);
	assert_ok(push(f, &r), &f->e);
}

/* The store's errors end it, and are told. */
static void ends_at_an_error_of_the_store(void **state)
{
	struct ingestfix *f = *state;
	uint8_t *p = make_bytes(f, 60 * CHUNK);
	struct ingest_result r = { .size = 0 };
	uint64_t reads = 0;
	int rc = 0;

	ingestfix_source(f, p, 60 * CHUNK);
	fault_install();
	fault_add(&(struct fault_rule){ .calls = FAULT_BIT(FAULT_CREATE),
	    .name = ".tmp_",
	    .what = FAULT_FAIL,
	    .at = 4, /* the first is the index */
	    .times = FAULT_FOREVER,
	    .error = ENOSPC });
	rc = push(f, &r);
	reads = fault_count(FAULT_BIT(FAULT_PREAD));
	fault_uninstall();
	assert_true(err_is_sys(&f->e, ENOSPC));
	assert_true(rc < 0);
	assert_true(reads < 30);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		INGESTFIX_TEST(keeps_every_byte),
		INGESTFIX_TEST(commits),
		INGESTFIX_TEST(does_not_read_holes),
		INGESTFIX_TEST(puts_zeros_once),
		INGESTFIX_TEST(takes_giants),
		INGESTFIX_TEST(reads_all_if_in_doubt),
		INGESTFIX_TEST(takes_block_devices),
		INGESTFIX_TEST(notices_that_it_shrinks),
		INGESTFIX_TEST(takes_what_was_there_if_it_grows),
		INGESTFIX_TEST(tells_that_a_file_was_written),
		INGESTFIX_TEST(names_the_place_of_an_error),
		INGESTFIX_TEST(reads_in_pieces),
		INGESTFIX_TEST(refuses_what_is_no_image),
		INGESTFIX_TEST(stops_when_asked),
		INGESTFIX_TEST(ends_at_an_error_of_the_store),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
