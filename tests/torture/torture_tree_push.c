/* SPDX-License-Identifier: MIT */
/*
 * A tree is pushed while the n-th system call or allocation fails, for each n:
 * it succeeds, and each row that claims to be whole is; or it says why not,
 * and leaves nothing open.
 */
#include <errno.h>
#include <stdatomic.h>
#include <sys/xattr.h>

#include "tests/support/dirfix.h"
#include "tests/support/failmalloc.h"

#define LARGE (((size_t)1 << 20) + 4096)

/* See torture_ingest: nobody cuts the power here.  Nor is there a need to wait
 * between tries. */
static void skip_slow(void *ctx, struct fault_event *ev)
{
	(void)ctx;
	if (ev->call == FAULT_FSYNC || ev->call == FAULT_SYNCFS ||
	    ev->call == FAULT_NANOSLEEP)
		ev->skip = true;
}

static void arm_hooks(void)
{
	fault_reset();
	fault_set_hooks(&(struct fault_hooks){ .before = skip_slow });
}

struct fixture {
	struct dirfix *t;
	size_t fds;
};

static void make_tree(struct dirfix *t)
{
	static const char *const dirs[] = { "d", "d/e", "d/e/f" };
	char name[64];
	int fd = -1;

	for (size_t i = 0; i < TEST_COUNT(dirs); i++) {
		dirfix_dir(t, dirs[i]);
		for (unsigned k = 0; k < 3; k++) {
			(void)snprintf(
			    name, sizeof(name), "%s/f%u", dirs[i], k);
			dirfix_random(t, name, 100 + k * 1000, k);
		}
	}
	assert_int_equal(linkat(t->src, "d/f0", t->src, "d/e/link", 0), 0);
	assert_int_equal(symlinkat("to", t->src, "d/symlink"), 0);
	assert_int_equal(mkfifoat(t->src, "d/fifo", 0600), 0);
	dirfix_random(t, "large", LARGE, 9);
	dirfix_random(t, "large2", LARGE, 9);
	dirfix_put(t, "sparse", "x");
	fd = openat(t->src, "sparse", O_RDWR | O_CLOEXEC);
	assert_int_equal(ftruncate(fd, 1 << 20), 0);
	assert_int_equal(pwrite(fd, "y", 1, 700000), 1);
	/* Where there are none, the rest is still worth it. */
	(void)fsetxattr(fd, "user.x", "y", 1, 0);
	(void)close(fd);
	dirfix_dir(t, "cache");
	dirfix_put(t, "cache/CACHEDIR.TAG",
	    "Signature: 8a477f597d28d172789f06886806bc55");
	dirfix_put(t, "cache/x", "1");
}

static int setup(void **state)
{
	struct fixture *x = calloc(1, sizeof(*x));
	void *t = NULL;

	if (x == NULL || dirfix_setup(&t) < 0)
		return -1;
	*state = x;
	x->t = t;
	x->t->opts.ingest.threads = 1;
	x->t->opts.exclude_caches = true;
	make_tree(x->t);
	fault_install();
	arm_hooks();
	return 0;
}

static int teardown(void **state)
{
	struct fixture *x = *state;
	void *t = x->t;

	(void)failmalloc_off();
	free(x);
	return dirfix_teardown(&t);
}

static void begin(struct fixture *x)
{
	x->t->f->e = (struct err)ERR_INIT;
	x->t->result = (struct tree_push_result){ .files = 0 };
	buf_reset(&x->t->f->messages);
	restorefix_begin(x->t->f);
	x->fds = tmpdir_open_fds();
}

static int push(struct fixture *x)
{
	struct dirfix *t = x->t;

	return tree_push(t->f->session, "root.tree", t->src, "src", &t->opts,
	    &t->f->task, &t->result, &t->f->e);
}

/* What is stored is what is in the tree; what is not, was told. */
static void check_content(struct fixture *x, const char *path)
{
	struct dirfix *t = x->t;
	struct catalog_entry row;

	if (!dirfix_has(t, path)) {
		assert_true(t->result.unreadable + t->result.vanished > 0);
		return;
	}
	row = dirfix_row(t, path);
	if ((row.has & CATALOG_HAS_STATE) == 0)
		dirfix_assert_file(t, path);
	else
		assert_true(t->result.unreadable + t->result.changed > 0);
}

static void judge(struct fixture *x, int rc)
{
	static const char *const files[] = { "d/f0", "d/f1", "d/e/f2",
		"d/e/f/f0", "d/e/link", "large", "large2" };
	struct dirfix *t = x->t;

	arm_hooks();
	assert_int_equal(tmpdir_open_fds(), x->fds);
	if (rc < 0) {
		assert_int_equal(t->f->e.code, rc);
		assert_true(strlen(t->f->e.msg) > 10);
		session_abort(t->f->session);
		t->f->session = NULL;
		return;
	}
	catalogfix_open(t->x, "root.tree");
	for (size_t i = 0; i < TEST_COUNT(files); i++)
		check_content(x, files[i]);
	assert_int_equal(restorefix_said(t->f, "W ") > 0,
	    t->result.unreadable + t->result.changed > 0);
	catalog_close(t->x->c);
	t->x->c = NULL;
	restorefix_close(t->f);
}

static void strike_each_call(
    struct fixture *x, const struct fault_rule *rule, uint64_t step)
{
	bool hit = true;
	uint64_t rounds = 0;

	for (uint64_t n = 1; hit; n += step) {
		struct fault_rule one = *rule;
		int rc = 0;

		begin(x);
		arm_hooks();
		one.at = n;
		one.times = 1;
		fault_add(&one);
		rc = push(x);
		hit = fault_hits() > 0;
		if (!hit) {
			assert_ok(rc, &x->t->f->e);
			assert_int_equal(x->t->result.unreadable, 0);
			assert_int_equal(x->t->result.vanished, 0);
		}
		judge(x, rc);
		rounds++;
	}
	assert_in_range(rounds, 20, 5000);
}

/* Everything that the walk itself calls; the rest is ingest's, and the
 * catalog's. */
#define WALK_CALLS                                                     \
	(FAULT_BIT(FAULT_OPENAT) | FAULT_BIT(FAULT_PREAD) |            \
	    FAULT_BIT(FAULT_STATX) | FAULT_BIT(FAULT_LSEEK) |          \
	    FAULT_BIT(FAULT_READDIR) | FAULT_BIT(FAULT_FDOPENDIR) |    \
	    FAULT_BIT(FAULT_CLOSEDIR) | FAULT_BIT(FAULT_CLOSE) |       \
	    FAULT_BIT(FAULT_IOCTL) | FAULT_BIT(FAULT_READLINKAT) |     \
	    FAULT_BIT(FAULT_FLISTXATTR) | FAULT_BIT(FAULT_FGETXATTR) | \
	    FAULT_BIT(FAULT_LISTXATTR) | FAULT_BIT(FAULT_GETXATTR))

static void test_eio(void **state)
{
	const struct fault_rule rule = {
		.calls = WALK_CALLS, .what = FAULT_FAIL, .error = EIO
	};

	strike_each_call(*state, &rule, 1);
}

static void test_enoent(void **state)
{
	const struct fault_rule rule = {
		.calls = WALK_CALLS, .what = FAULT_FAIL, .error = ENOENT
	};

	strike_each_call(*state, &rule, 1);
}

static void test_emfile(void **state)
{
	const struct fault_rule rule = { .calls = FAULT_BIT(FAULT_OPENAT),
		.what = FAULT_FAIL,
		.error = EMFILE };

	strike_each_call(*state, &rule, 1);
}

static void test_short(void **state)
{
	const struct fault_rule rule = {
		.calls = FAULT_BIT(FAULT_PREAD), .what = FAULT_SHORT, .bytes = 1
	};

	strike_each_call(*state, &rule, 1);
}

static void fail_each_allocation(struct fixture *x, void (*arm)(uint64_t n))
{
	bool hit = true;
	uint64_t rounds = 0;

	for (uint64_t n = 1; hit; n++) {
		int rc = 0;

		begin(x);
		arm(n);
		rc = push(x);
		hit = failmalloc_off() > 0;
		if (!hit)
			assert_ok(rc, &x->t->f->e);
		else if (rc < 0)
			assert_int_equal(rc, ERR_NOMEM);
		judge(x, rc);
		rounds++;
	}
	assert_in_range(rounds, 50, 5000);
}

static void test_memory_once(void **state)
{
	fail_each_allocation(*state, failmalloc_at);
}

static void test_memory_out(void **state)
{
	fail_each_allocation(*state, failmalloc_from);
}

#define TORTURE(t) cmocka_unit_test_setup_teardown(t, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TORTURE(test_eio),
		TORTURE(test_enoent),
		TORTURE(test_emfile),
		TORTURE(test_short),
		TORTURE(test_memory_once),
		TORTURE(test_memory_out),
	};

	return cmocka_run_group_tests_name(
	    "torture_tree_push", tests, NULL, NULL);
}
