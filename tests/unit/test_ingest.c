/* SPDX-License-Identifier: MIT */
#include "tests/support/ingestfix.h"

#include <errno.h>

/* For the memory that libzstd says it takes. */
#define ZSTD_STATIC_LINKING_ONLY
#include <zstd.h>

#include "datastore/compress.h"
#include "index/ingest.h"
#include "index/ingest_internal.h"
#include "tests/support/gen.h"

#define CHUNK ((size_t)64 << 10)

/* What a plan takes at most, by libzstd's own account. */
static size_t plan_memory(
    size_t chunk_max, int level, unsigned threads, size_t slots)
{
	size_t codec = ZSTD_estimateCCtxSize_usingCParams(
	    ZSTD_getCParams(level, chunk_max, 0));

	return slots * chunk_max + threads * (chunk_max + codec);
}

static void plan(size_t max, int level, unsigned want, size_t memory,
    unsigned *ret_threads, size_t *ret_slots)
{
	const struct ingest_opts opts = {
		.level = level, .threads = want, .memory = memory
	};

	ingest_plan(max, &opts, ret_threads, ret_slots);
}

/* For all chunk sizes, levels and machines. */
static void plans_within_its_memory(void **state)
{
	(void)state;
	for (size_t max = CHUNK; max <= CHUNK_MAX_PLAIN; max *= 2) {
		for (int level = 0; level <= COMPRESS_LEVEL_MAX; level++) {
			for (unsigned want = 1; want <= 64; want *= 2) {
				int real =
				    level == 0 ? COMPRESS_LEVEL_MAX : level;
				unsigned threads = 0;
				size_t slots = 0;

				plan(max, level, want, 0, &threads, &slots);
				assert_in_range(threads, 1, want);
				assert_true(slots > threads);
				assert_true(plan_memory(max, real, threads,
						slots) <= INGEST_MEMORY_MAX);
			}
		}
	}
}

/* Two cores are kept busy at every chunk size, up to level 9. */
static void plans_for_two_cores(void **state)
{
	(void)state;
	for (size_t max = CHUNK; max <= CHUNK_MAX_PLAIN; max *= 2) {
		for (int level = 1; level <= 9; level++) {
			unsigned threads = 0;
			size_t slots = 0;

			plan(max, level, 2, 0, &threads, &slots);
			assert_int_equal(threads, 2);
			assert_true(slots >= 4);
		}
	}
}

/* Less memory: fewer threads, but always one. */
static void plans_within_less_memory(void **state)
{
	size_t most = (size_t)100 << 20;
	unsigned threads = 0;
	size_t slots = 0;

	(void)state;
	for (int level = 1; level <= COMPRESS_LEVEL_MAX; level++) {
		plan(64 * CHUNK, level, 64, most, &threads, &slots);
		assert_in_range(threads, level < 5 ? 4 : 1, 10);
		assert_true(slots > threads);
		assert_true(
		    plan_memory(64 * CHUNK, level, threads, slots) <= most);
	}
	plan(CHUNK_MAX_PLAIN, COMPRESS_LEVEL_MAX, 64, 1, &threads, &slots);
	assert_int_equal(threads, 1);
	assert_int_equal(slots, 2);
}

/* By the suffix, an image or a stream. */
static int push(struct ingestfix *f, const char *filename, uint64_t size_hint,
    const struct ingest_opts *opts, struct ingest_result *ret)
{
	const struct ingest_source src = { f->fd, "source", size_hint };
	enum idx_kind kind = IDX_FIXED;

	assert_true(idx_kind_of_name(filename, &kind));
	return (kind == IDX_FIXED ? ingest_image : ingest_stream)(
	    f->s, filename, &src, opts, &f->task, ret, &f->e);
}

static int push_conf(
    struct ingestfix *f, const char *filename, struct ingest_result *ret)
{
	const struct ingest_source src = { f->fd, "x.conf", 0 };

	return ingest_conf(f->s, filename, &src, &f->task, ret, &f->e);
}

/* The content of a blob that was committed, into f->got. */
static void read_blob(struct ingestfix *f, const char *filename)
{
	char path[BACKUP_PATH_SIZE];
	struct codec *codec = NULL;
	size_t n = 0;
	char *raw = NULL;
	int dirfd = -1;

	backup_snapshot_path(&f->id, path);
	dirfd = openat(f->ds->root_fd, path, O_RDONLY | O_CLOEXEC);
	raw = tmpdir_get(dirfd, filename, &n);
	assert_int_equal(close(dirfd), 0);
	assert_non_null(raw);
	assert_ok(codec_new(&codec, &f->e), &f->e);
	assert_ok(
	    blob_decode(codec, raw, n, BLOB_MAX_PLAIN, &f->got, &f->e), &f->e);
	codec_free(codec);
	free(raw);
}

static void keeps_small_files(void **state)
{
	static const size_t sizes[] = { 0, 1, 100000, 262144, 300000 };
	struct ingestfix *f = *state;
	struct gen g;

	gen_seed(&g, 3);
	f->own = malloc(300000);
	assert_non_null(f->own);
	gen_fill(&g, GEN_TEXT, f->own, 300000);
	for (size_t i = 0; i < TEST_COUNT(sizes); i++) {
		struct ingest_result r = { .size = 99 };

		if (f->s == NULL)
			assert_ok(ingestfix_open(f, false), &f->e);
		ingestfix_source(f, f->own, sizes[i]);
		assert_ok(push_conf(f, "x.conf.blob", &r), &f->e);
		assert_int_equal(r.size, sizes[i]);
		assert_false(r.changed);
		assert_ok(ingestfix_commit(f), &f->e);
		read_blob(f, "x.conf.blob");
		ingestfix_assert_got(f, 0, f->own, sizes[i]);
	}
}

static void limits_small_files(void **state)
{
	struct ingestfix *f = *state;
	struct ingest_result r = { .size = 0 };

	f->own = calloc(1, INGEST_CONF_MAX + 1);
	assert_non_null(f->own);
	ingestfix_source(f, f->own, INGEST_CONF_MAX);
	assert_ok(push_conf(f, "x.conf.blob", &r), &f->e);
	assert_int_equal(r.size, INGEST_CONF_MAX);
	ingestfix_source(f, f->own, INGEST_CONF_MAX + 1);
	assert_err(push_conf(f, "y.conf.blob", &r), &f->e, ERR_LIMIT,
	    "'x.conf' has more than 16777216 bytes, the most that a '.conf' "
	    "may have");
}

static void tells_errors_of_small_files(void **state)
{
	struct ingestfix *f = *state;
	struct ingest_result r = { .size = 0 };
	int rc = 0;

	f->fd = dup(f->dir.fd);
	assert_err(push_conf(f, "x.conf.blob", &r), &f->e, ERR_SYS,
	    "read 'x.conf' at offset 0: ");
	assert_true(err_is_sys(&f->e, EISDIR));
	ingestfix_source(f, "abc", 3);
	assert_err(push_conf(f, "x.conf", &r), &f->e, ERR_INVALID, "'x.conf'");
	fault_install();
	fault_add(&(struct fault_rule){ .calls = FAULT_BIT(FAULT_READ),
	    .what = FAULT_FAIL,
	    .at = 2,
	    .times = 1,
	    .error = EIO });
	(void)lseek(f->fd, 0, SEEK_SET);
	rc = push_conf(f, "x.conf.blob", &r);
	fault_uninstall();
	assert_err(rc, &f->e, ERR_SYS, "read 'x.conf' at offset 3: ");
}

/* Told to stop while it waits for a pipe that nobody writes to. */
static void stops_while_it_waits(void **state)
{
	struct ingestfix *f = *state;
	struct ingest_result r = { .size = 0 };
	int ends[2];
	int rc = 0;

	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	f->fd = ends[0];
	atomic_store(&f->task.stop, 2);
	rc = push_conf(f, "x.conf.blob", &r);
	assert_int_equal(close(ends[1]), 0);
	assert_err(rc, &f->e, ERR_CANCELLED, "");
}

/* What a task was told. */
struct told {
	const char *phase;
	uint64_t total;
	uint64_t done;
	uint64_t counts[4];
	unsigned calls;
	bool fell;
	bool odd; /* another phase, total or kind of counts */
};

static void hear(void *ctx, const struct task_progress *p)
{
	static const char *const keys[] = { "chunks", "new-chunks", "new-bytes",
		"stored-bytes" };
	struct told *t = ctx;

	if (p->done < t->done)
		t->fell = true;
	if (strcmp(p->phase, t->phase) != 0 || p->total != t->total ||
	    p->unit != TASK_UNIT_BYTES || p->counts_n != TEST_COUNT(keys))
		t->odd = true;
	for (size_t i = 0; i < TEST_COUNT(keys) && !t->odd; i++) {
		if (strcmp(p->counts[i].key, keys[i]) != 0)
			t->odd = true;
		t->counts[i] = p->counts[i].done;
	}
	t->done = p->done;
	t->calls++;
}

static void check_told(
    const struct told *t, uint64_t done, uint64_t chunks, uint64_t new_chunks)
{
	assert_false(t->fell);
	assert_false(t->odd);
	assert_true(t->calls >= 3);
	assert_int_equal(t->done, done);
	assert_int_equal(t->counts[0], chunks);
	assert_int_equal(t->counts[1], new_chunks);
	assert_true(new_chunks == 0 || t->counts[2] > t->counts[3]);
	assert_true(t->counts[3] >= new_chunks);
}

/* Of holes and data; of a session that has pushed before. */
static void reports_progress(void **state)
{
	static const struct task_ops ops = { .progress = hear };
	const struct ingest_opts small = { .chunk_size = CHUNK };
	struct ingestfix *f = *state;
	struct told t = { .phase = "push a.img", .total = 300 * CHUNK };
	struct ingest_result r = { .size = 0 };
	struct gen g;
	int fd = -1;

	gen_seed(&g, 5);
	f->own = malloc(2 * CHUNK);
	assert_non_null(f->own);
	gen_fill(&g, GEN_TEXT, f->own, 2 * CHUNK);
	ingestfix_source(f, f->own, 2 * CHUNK);
	fd = openat(f->dir.fd, "source", O_WRONLY | O_CLOEXEC);
	assert_int_equal(ftruncate(fd, 300 * CHUNK), 0);
	assert_int_equal(close(fd), 0);
	f->task.ops = &ops;
	f->task.ctx = &t;
	assert_ok(push(f, "a.img.fidx", 0, &small, &r), &f->e);
	check_told(&t, 300 * CHUNK, 300, 3);
	t = (struct told){ .phase = "push b.x.img", .total = 300 * CHUNK };
	assert_ok(push(f, "b.x.img.fidx", 0, &small, &r), &f->e);
	check_told(&t, 300 * CHUNK, 300, 0);
	t = (struct told){ .phase = "push c.raw", .total = 12345 };
	(void)lseek(f->fd, 0, SEEK_SET);
	assert_ok(push(f, "c.raw.didx", 12345, &small, &r), &f->e);
	assert_false(t.fell || t.odd);
	assert_int_equal(t.done, 300 * CHUNK);
	assert_int_equal(t.counts[0], r.chunks);
	f->task.ops = NULL;
}

/* opts NULL: 1 MiB, and all the rest. */
static void has_defaults(void **state)
{
	struct ingestfix *f = *state;
	struct ingest_result r = { .size = 0 };
	struct idx *ix = NULL;

	f->own = calloc(1, 5 << 20);
	assert_non_null(f->own);
	ingestfix_source(f, f->own, 5 << 20);
	assert_ok(push(f, "a.img.fidx", 0, NULL, &r), &f->e);
	assert_int_equal(r.chunks, 5);
	assert_ok(
	    idx_open(session_dir_fd(f->s), "a.img.tmp_fidx", "a", &ix, &f->e),
	    &f->e);
	assert_int_equal(idx_info(ix)->chunk_size, 1 << 20);
	assert_memory_equal(idx_info(ix)->csum.b, r.csum.b, DIGEST_SIZE);
	idx_close(ix);
	(void)lseek(f->fd, 0, SEEK_SET);
	assert_ok(push(f, "b.raw.didx", 0, NULL, &r), &f->e);
	assert_int_equal(r.size, 5 << 20);
	assert_in_range(r.chunks, 2, 20); /* of 256 KiB to 4 MiB */
}

/* The same answers in a dry run, and nothing is written. */
static void writes_nothing_in_a_dry_run(void **state)
{
	const struct ingest_opts small = { .chunk_size = CHUNK };
	struct ingestfix *f = *state;
	struct ingest_result wet = { .size = 0 };
	struct ingest_result dry = { .size = 0 };
	struct session_stats stats;
	struct gen g;

	gen_seed(&g, 9);
	f->own = malloc(9 * CHUNK);
	assert_non_null(f->own);
	gen_fill(&g, GEN_RANDOM, f->own, 9 * CHUNK);
	ingestfix_source(f, f->own, 9 * CHUNK);
	ingestfix_abort(f);
	assert_ok(ingestfix_open(f, true), &f->e);
	fault_install();
	assert_ok(push(f, "a.img.fidx", 0, &small, &dry), &f->e);
	assert_int_equal(fault_count(FAULT_CHANGES), 0);
	fault_uninstall();
	session_stats(f->s, &stats);
	assert_int_equal(stats.new_chunks, 9);
	ingestfix_abort(f);
	assert_ok(ingestfix_open(f, false), &f->e);
	assert_ok(push(f, "a.img.fidx", 0, &small, &wet), &f->e);
	assert_int_equal(dry.size, wet.size);
	assert_int_equal(dry.chunks, wet.chunks);
	assert_memory_equal(dry.csum.b, wet.csum.b, DIGEST_SIZE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(plans_within_its_memory),
		cmocka_unit_test(plans_for_two_cores),
		cmocka_unit_test(plans_within_less_memory),
		INGESTFIX_TEST(keeps_small_files),
		INGESTFIX_TEST(limits_small_files),
		INGESTFIX_TEST(tells_errors_of_small_files),
		INGESTFIX_TEST(stops_while_it_waits),
		INGESTFIX_TEST(reports_progress),
		INGESTFIX_TEST(has_defaults),
		INGESTFIX_TEST(writes_nothing_in_a_dry_run),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
