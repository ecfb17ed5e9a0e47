/* SPDX-License-Identifier: MIT */
/*
 * An image with holes, a stream and a small file are pushed while the n-th
 * system call or allocation fails, for each n: it succeeds, and what is read
 * back is right, or it says why not; then the session can be aborted, and
 * nothing of it is left.
 */
#include <errno.h>

#include "index/ingest.h"
#include "tests/support/failmalloc.h"
#include "tests/support/gen.h"
#include "tests/support/ingestfix.h"

#define CHUNK ((size_t)64 << 10)
#define IMAGE_SIZE (4 * CHUNK + 5)
#define STREAM_SIZE (CHUNK + 5000)

/* Of .own: the image, then the stream, which is also the small file. */
#define OWN_SIZE (IMAGE_SIZE + STREAM_SIZE)

/*
 * No fsync reaches the disk, of which this program makes tens of thousands:
 * nobody cuts the power here.
 */
static void skip_sync(void *ctx, struct fault_event *ev)
{
	(void)ctx;
	if (ev->call == FAULT_FSYNC || ev->call == FAULT_SYNCFS)
		ev->skip = true;
}

static void arm_hooks(void)
{
	fault_reset();
	fault_set_hooks(&(struct fault_hooks){ .before = skip_sync });
}

struct fixture {
	struct ingestfix *f;
	int image;
	int stream;
	uint64_t round;
	size_t fds;
};

static int setup(void **state)
{
	struct fixture *x = calloc(1, sizeof(*x));
	void *one = NULL;

	if (x == NULL || ingestfix_setup(&one) < 0)
		return -1;
	x->f = one;
	*state = x;
	x->f->own = calloc(1, OWN_SIZE);
	tmpdir_put_str(x->f->dir.fd, "image", "");
	tmpdir_put_str(x->f->dir.fd, "stream", "");
	x->image = openat(x->f->dir.fd, "image", O_RDWR | O_CLOEXEC);
	x->stream = openat(x->f->dir.fd, "stream", O_RDWR | O_CLOEXEC);
	fault_install();
	arm_hooks();
	ingestfix_abort(x->f);
	x->fds = tmpdir_open_fds();
	return x->f->own != NULL && x->stream >= 0 ? 0 : -1;
}

static int teardown(void **state)
{
	struct fixture *x = *state;
	void *one = x->f;

	(void)failmalloc_off();
	(void)close(x->image);
	(void)close(x->stream);
	free(x);
	return ingestfix_teardown(&one);
}

/*
 * Sources that share no chunk with an earlier round's, but for zeros and the
 * third one: data, a hole, data that is known, data within a hole, data.
 */
static void next_sources(struct fixture *x)
{
	uint8_t *p = x->f->own;
	struct gen g;

	gen_seed(&g, 1000 + x->round++);
	gen_fill(&g, GEN_RANDOM, p, CHUNK);
	gen_fill(&g, GEN_RANDOM, p + 3 * CHUNK + 8192, 4096);
	gen_fill(&g, GEN_TEXT, p + 4 * CHUNK, OWN_SIZE - 4 * CHUNK);
	memset(p + 2 * CHUNK, 'x', CHUNK);
	assert_int_equal(ftruncate(x->image, 0), 0);
	assert_int_equal(ftruncate(x->image, IMAGE_SIZE), 0);
	assert_int_equal(pwrite(x->image, p, CHUNK, 0), CHUNK);
	assert_int_equal(
	    pwrite(x->image, p + 2 * CHUNK, CHUNK, 2 * CHUNK), CHUNK);
	assert_int_equal(
	    pwrite(x->image, p + 3 * CHUNK + 8192, 4096, 3 * CHUNK + 8192),
	    4096);
	assert_int_equal(pwrite(x->image, p + 4 * CHUNK, 5, 4 * CHUNK), 5);
	assert_int_equal(
	    pwrite(x->stream, p + IMAGE_SIZE, STREAM_SIZE, 0), STREAM_SIZE);
}

/* What is struck: everything between the opening and the end of a session. */
static int push(struct fixture *x)
{
	const struct ingest_opts opts = { .chunk_size = CHUNK, .threads = 1 };
	struct ingestfix *f = x->f;
	const struct ingest_source image = { x->image, "image", 0 };
	const struct ingest_source stream = { x->stream, "stream", 0 };
	struct ingest_result r = { .size = 0 };
	int rc = ingest_image(
	    f->s, "a.img.fidx", &image, &opts, &f->task, &r, &f->e);

	if (rc == 0) {
		(void)lseek(x->stream, 0, SEEK_SET);
		rc = ingest_stream(
		    f->s, "b.raw.didx", &stream, &opts, &f->task, &r, &f->e);
	}
	if (rc == 0) {
		(void)lseek(x->stream, 0, SEEK_SET);
		rc = ingest_conf(
		    f->s, "c.conf.blob", &stream, &f->task, &r, &f->e);
	}
	return rc;
}

static void begin(struct fixture *x)
{
	x->f->e = (struct err)ERR_INIT;
	next_sources(x);
	assert_ok(ingestfix_open(x->f, false), &x->f->e);
}

static void judge(struct fixture *x, int rc)
{
	struct ingestfix *f = x->f;
	int dirfd = session_dir_fd(f->s);

	arm_hooks();
	if (rc == 0) {
		ingestfix_assert_got(f,
		    ingestfix_read(f, dirfd, "a.img.tmp_fidx"), f->own,
		    IMAGE_SIZE);
		ingestfix_assert_got(f,
		    ingestfix_read(f, dirfd, "b.raw.tmp_didx"),
		    f->own + IMAGE_SIZE, STREAM_SIZE);
	} else {
		/* Said why, with a name that means something. */
		assert_int_equal(f->e.code, rc);
		assert_true(strlen(f->e.msg) > 10);
	}
	ingestfix_abort(f);
	assert_int_equal(tmpdir_open_fds(), x->fds);
}

/* Strikes one call per round, until there is none to strike. */
static uint64_t strike_each_call(
    struct fixture *x, const struct fault_rule *rule)
{
	uint64_t failed = 0;
	bool hit = true;

	for (uint64_t n = 1; hit; n++) {
		struct fault_rule one = *rule;
		int rc = 0;

		begin(x);
		arm_hooks();
		one.at = n;
		one.times = 1;
		fault_add(&one);
		rc = push(x);
		hit = fault_hits() > 0;
		if (!hit)
			assert_ok(rc, &x->f->e);
		failed += rc < 0;
		judge(x, rc);
	}
	return failed;
}

static void test_eio(void **state)
{
	const struct fault_rule rule = {
		.calls = FAULT_ANY, .what = FAULT_FAIL, .error = EIO
	};

	assert_in_range(strike_each_call(*state, &rule), 40, 2000);
}

static void test_enospc(void **state)
{
	const struct fault_rule rule = {
		.calls = FAULT_CHANGES, .what = FAULT_FAIL, .error = ENOSPC
	};

	assert_in_range(strike_each_call(*state, &rule), 20, 2000);
}

/* Every transfer falls short once: nobody notices. */
static void test_short(void **state)
{
	const struct fault_rule rule = { .calls = FAULT_BIT(FAULT_READ) |
		    FAULT_BIT(FAULT_PREAD) | FAULT_BIT(FAULT_WRITE) |
		    FAULT_BIT(FAULT_PWRITE),
		.what = FAULT_SHORT,
		.bytes = 1 };

	/* But for the registration, which is written by one pwrite. */
	assert_in_range(strike_each_call(*state, &rule), 0, 3);
}

static void test_eintr(void **state)
{
	const struct fault_rule rule = { .calls = FAULT_BIT(FAULT_READ) |
		    FAULT_BIT(FAULT_PREAD) | FAULT_BIT(FAULT_WRITE) |
		    FAULT_BIT(FAULT_PWRITE),
		.what = FAULT_FAIL,
		.error = EINTR };

	assert_in_range(strike_each_call(*state, &rule), 0, 3);
}

static uint64_t fail_each_allocation(struct fixture *x, void (*arm)(uint64_t n))
{
	uint64_t failed = 0;
	bool hit = true;

	for (uint64_t n = 1; hit; n++) {
		int rc = 0;

		begin(x);
		arm(n);
		rc = push(x);
		hit = failmalloc_off() > 0;
		if (!hit) {
			assert_ok(rc, &x->f->e);
		} else if (rc < 0) {
			assert_int_equal(rc, ERR_NOMEM);
		}
		failed += rc < 0;
		judge(x, rc);
	}
	return failed;
}

static void test_memory_once(void **state)
{
	assert_in_range(fail_each_allocation(*state, failmalloc_at), 20, 2000);
}

static void test_memory_out(void **state)
{
	assert_in_range(
	    fail_each_allocation(*state, failmalloc_from), 20, 2000);
}

#define TORTURE(t) cmocka_unit_test_setup_teardown(t, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TORTURE(test_eio),
		TORTURE(test_enospc),
		TORTURE(test_short),
		TORTURE(test_eintr),
		TORTURE(test_memory_once),
		TORTURE(test_memory_out),
	};

	return cmocka_run_group_tests_name("torture_ingest", tests, NULL, NULL);
}
