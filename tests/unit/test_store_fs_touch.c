/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdio.h>

#include "tests/support/storefix.h"

#define PREFIX 0x0a1bU
#define LONG_AGO 1000000000
#define BATCH_MAX 16

static const char blob[] = "a blob of more than a header";

static void put_old(
    struct storefix *f, const struct digest *d, const char *suffix)
{
	storefix_put(f, d, suffix, blob, sizeof(blob));
	storefix_age(f, d, suffix, LONG_AGO, LONG_AGO);
}

static bool is_old(
    struct storefix *f, const struct digest *d, const char *suffix)
{
	return storefix_atime(f, d, suffix) == LONG_AGO;
}

static enum store_touched touch(struct storefix *f, const struct digest *d)
{
	enum store_touched what = STORE_TOUCHED;

	assert_ok(store_touch(f->store, d, &what, &f->e), &f->e);
	return what;
}

static void test_touch(void **state)
{
	struct storefix *f = *state;
	struct digest d = storefix_digest(PREFIX, 1);
	struct stat st;

	assert_int_equal(touch(f, &d), STORE_MISSING);
	assert_int_equal(tmpdir_count(f->chunks_fd, ""), 0);
	put_old(f, &d, "");
	put_old(f, &d, ".0.bad");
	assert_int_equal(touch(f, &d), STORE_TOUCHED);
	assert_true(storefix_stat(f, &d, "", &st));
	assert_true(st.st_atim.tv_sec > LONG_AGO);
	assert_int_equal(st.st_mtim.tv_sec, LONG_AGO);
	/* Its chunk is there: nobody needs this one. */
	assert_true(is_old(f, &d, ".0.bad"));
	d = storefix_digest(PREFIX, 2);
	assert_int_equal(touch(f, &d), STORE_MISSING);
}

static void test_touch_of_bad_copies(void **state)
{
	struct storefix *f = *state;
	struct digest d = storefix_digest(PREFIX, 1);

	put_old(f, &d, ".3.bad");
	put_old(f, &d, ".9.bad");
	put_old(f, &d, ".tmp_abcdef");
	assert_int_equal(touch(f, &d), STORE_ONLY_BAD);
	assert_false(is_old(f, &d, ".3.bad"));
	assert_false(is_old(f, &d, ".9.bad"));
	assert_true(is_old(f, &d, ".tmp_abcdef"));
}

/* What is no file is touched itself; where it leads to is not. */
static void test_touch_follows_no_link(void **state)
{
	struct storefix *f = *state;
	struct digest d = storefix_digest(PREFIX, 1);
	struct digest to = storefix_digest(PREFIX, 2);
	char hex[DIGEST_HEX_SIZE];

	put_old(f, &to, "");
	digest_hex(&to, hex);
	assert_int_equal(
	    symlinkat(hex, f->chunks_fd, storefix_path(&d, "")), 0);
	assert_int_equal(touch(f, &d), STORE_TOUCHED);
	assert_true(is_old(f, &to, ""));
}

static void fail_touch(int error, uint64_t at)
{
	fault_reset();
	fault_add(&(struct fault_rule){ .calls = FAULT_BIT(FAULT_UTIMENSAT),
	    .what = FAULT_FAIL,
	    .at = at,
	    .times = 1,
	    .error = error });
}

static int touch_failing(
    struct storefix *f, const struct digest *d, int error, uint64_t at)
{
	enum store_touched what = STORE_TOUCHED;

	fail_touch(error, at);
	return store_touch(f->store, d, &what, &f->e);
}

/* The message is enough to act on. */
static void test_touch_denied(void **state)
{
	static const int errors[] = { EPERM, EACCES };
	struct storefix *f = *state;
	struct digest d = storefix_digest(PREFIX, 1);
	char owner[64];
	char remedy[64];

	put_old(f, &d, "");
	(void)snprintf(owner, sizeof(owner), "which belongs to %u:%u,",
	    (unsigned)geteuid(), (unsigned)getegid());
	(void)snprintf(remedy, sizeof(remedy),
	    "chown -R %u:%u '/store/.chunks'", (unsigned)geteuid(),
	    (unsigned)getegid());
	fault_install();
	for (size_t i = 0; i < TEST_COUNT(errors); i++) {
		int rc = touch_failing(f, &d, errors[i], 1);

		assert_err(rc, &f->e, ERR_SYS, owner);
		assert_int_equal(f->e.sys_errno, errors[i]);
		assert_non_null(strstr(f->e.msg, remedy));
		assert_non_null(
		    strstr(f->e.msg, "'/store/.chunks/0a1b/0a1b0101"));
	}
}

static void test_touch_that_fails(void **state)
{
	static const int errors[] = { EIO, ENOSPC, EROFS, EDQUOT };
	struct storefix *f = *state;
	struct digest d = storefix_digest(PREFIX, 1);

	put_old(f, &d, "");
	fault_install();
	for (size_t i = 0; i < TEST_COUNT(errors); i++) {
		int rc = touch_failing(f, &d, errors[i], 1);

		assert_err(
		    rc, &f->e, ERR_SYS, "touch '/store/.chunks/0a1b/0a1b0101");
		assert_int_equal(f->e.sys_errno, errors[i]);
	}
	/* Nor is a bad copy that can not be kept passed over. */
	d = storefix_digest(PREFIX, 2);
	put_old(f, &d, ".4.bad");
	assert_err(touch_failing(f, &d, EIO, 6), &f->e, ERR_SYS, ".4.bad'");
}

/* What a batch was told. */
struct told {
	struct digest d[BATCH_MAX];
	enum store_touched what[BATCH_MAX];
	size_t n;
	size_t fail_at;
	struct task *stop;
};

static int tell(
    void *ctx, const struct digest *d, enum store_touched what, struct err *e)
{
	struct told *t = ctx;

	assert_true(t->n < BATCH_MAX);
	t->d[t->n] = *d;
	t->what[t->n] = what;
	t->n++;
	if (t->stop != NULL)
		t->stop->stop = 15;
	if (t->n == t->fail_at)
		return err_set(e, ERR_REFUSED, "told enough");
	return 0;
}

/* Prefixes with 1, 3, 2 and 1 of them; the third has no directory. */
static const struct {
	unsigned prefix;
	uint8_t n;
	const char *suffix; /* NULL: not there */
	enum store_touched want;
} batch[] = {
	{ 1, 1, "", STORE_TOUCHED },
	{ 2, 1, "", STORE_TOUCHED },
	{ 2, 2, NULL, STORE_MISSING },
	{ 2, 3, ".5.bad", STORE_ONLY_BAD },
	{ 3, 1, NULL, STORE_MISSING },
	{ 3, 2, NULL, STORE_MISSING },
	{ 0xffff, 1, ".0.bad", STORE_ONLY_BAD },
};

/* Plan and touch from number `first` on. */
static int touch_batch(struct storefix *f, const struct digest *d, size_t n,
    size_t first, struct told *told, struct task *task)
{
	uint64_t keys[BATCH_MAX];
	struct store_batch b = { .d = d, .n = n, .keys = keys };
	int rc = store_plan(f->store, &b, task, &f->e);

	assert_ok(rc, &f->e);
	assert_int_equal(b.todo, n);
	return store_touch_batch(f->store, &b, first, tell, told, task, &f->e);
}

static void put_batch(struct storefix *f, struct digest *d)
{
	for (size_t i = 0; i < TEST_COUNT(batch); i++) {
		d[i] = storefix_digest(batch[i].prefix, batch[i].n);
		if (batch[i].suffix != NULL)
			put_old(f, &d[i], batch[i].suffix);
	}
}

static void test_batch(void **state)
{
	struct storefix *f = *state;
	struct task silent = TASK_SILENT;
	struct digest d[TEST_COUNT(batch)];
	struct told told = { .n = 0 };

	put_batch(f, d);
	fault_install();
	assert_ok(
	    touch_batch(f, d, TEST_COUNT(batch), 0, &told, &silent), &f->e);
	assert_int_equal(told.n, TEST_COUNT(batch));
	for (size_t i = 0; i < TEST_COUNT(batch); i++) {
		assert_true(digest_equal(&told.d[i], &d[i]));
		assert_int_equal(told.what[i], batch[i].want);
		if (batch[i].suffix != NULL)
			assert_false(is_old(f, &d[i], batch[i].suffix));
	}
	/* For so few it does not pay to open their directories. */
	assert_int_equal(fault_count(FAULT_BIT(FAULT_OPENAT)), 0);
	assert_int_equal(fault_count(FAULT_BIT(FAULT_OFD_LOCK)), 0);
	/* Devices were looked at once; nothing else is stat'ed. */
	fault_reset();
	told.n = 0;
	assert_ok(touch_batch(f, d, 4, 0, &told, &silent), &f->e);
	assert_int_equal(fault_count(FAULT_BIT(FAULT_STATX)), 0);
}

static void test_batch_of_nothing(void **state)
{
	struct storefix *f = *state;
	struct task silent = TASK_SILENT;

	assert_ok(touch_batch(f, NULL, 0, 0, NULL, &silent), &f->e);
}

static void test_batch_stops(void **state)
{
	struct storefix *f = *state;
	struct task task = TASK_SILENT;
	struct digest d[TEST_COUNT(batch)];
	struct told told = { .fail_at = 3 };

	put_batch(f, d);
	assert_err(touch_batch(f, d, TEST_COUNT(batch), 0, &told, &task), &f->e,
	    ERR_REFUSED, "told enough");
	assert_int_equal(told.n, 3);
	/* Where it failed it can go on. */
	told = (struct told){ .n = 0 };
	assert_ok(touch_batch(f, d, TEST_COUNT(batch), 3, &told, &task), &f->e);
	assert_int_equal(told.n, TEST_COUNT(batch) - 3);
	assert_true(digest_equal(&told.d[0], &d[3]));
}

static void test_batch_that_fails(void **state)
{
	struct storefix *f = *state;
	struct task silent = TASK_SILENT;
	struct digest d[TEST_COUNT(batch)];
	struct told told = { .n = 0 };
	size_t fds = 0;

	put_batch(f, d);
	fds = tmpdir_open_fds();
	fault_install();
	fail_touch(EIO, 2);
	assert_err(touch_batch(f, d, TEST_COUNT(batch), 0, &told, &silent),
	    &f->e, ERR_SYS, "touch '/store/.chunks/0002/00020101");
	assert_int_equal(told.n, 1);
	assert_int_equal(tmpdir_open_fds(), fds);
}

/* A kind of store without batches gets them one by one. */
static void test_batch_without_one(void **state)
{
	struct storefix *f = *state;
	struct task task = TASK_SILENT;
	struct store_ops ops = *f->store->ops;
	const struct store_ops *own = f->store->ops;
	struct digest d[TEST_COUNT(batch)];
	struct told told = { .n = 0 };
	int rc = 0;

	put_batch(f, d);
	ops.touch_batch = NULL;
	ops.plan = NULL;
	ops.pace = NULL;
	f->store->ops = &ops;
	rc = touch_batch(f, d, TEST_COUNT(batch), 0, &told, &task);
	f->store->ops = own;
	assert_ok(rc, &f->e);
	assert_int_equal(told.n, TEST_COUNT(batch));
	for (size_t i = 0; i < TEST_COUNT(batch); i++)
		assert_int_equal(told.what[i], batch[i].want);
	told.fail_at = told.n = 0;
	told.stop = &task;
	f->store->ops = &ops;
	rc = touch_batch(f, d, TEST_COUNT(batch), 0, &told, &task);
	f->store->ops = own;
	assert_err(rc, &f->e, ERR_CANCELLED, "");
	assert_int_equal(told.n, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		storefix_test(test_touch),
		storefix_test(test_touch_of_bad_copies),
		storefix_test(test_touch_follows_no_link),
		storefix_test(test_touch_denied),
		storefix_test(test_touch_that_fails),
		storefix_test(test_batch),
		storefix_test(test_batch_of_nothing),
		storefix_test(test_batch_stops),
		storefix_test(test_batch_that_fails),
		storefix_test(test_batch_without_one),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
