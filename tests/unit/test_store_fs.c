/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <signal.h>
#include <stdio.h>

#include "datastore/blob.h"
#include "tests/support/fault.h"
#include "tests/support/foreign.h"
#include "tests/support/storefix.h"

#define PREFIX 0x0a1bU
#define BATCH_MAX 30
#define LONG_AGO 1000000000

static const char blob[] = "a blob of more than a header";

static int insert(struct storefix *f, const struct digest *d,
    const struct store_insert_opts *opts, enum store_inserted *ret)
{
	return store_insert(f->store, d, blob, sizeof(blob), opts, ret, &f->e);
}

static const struct store_insert_opts usual = { .sync = false };

static bool reuse(struct storefix *f, const struct digest *d)
{
	bool hit = false;

	assert_ok(store_reuse(f->store, d, &hit, &f->e), &f->e);
	return hit;
}

static void test_reuse(void **state)
{
	struct storefix *f = *state;
	struct digest d = storefix_digest(PREFIX, 1);
	struct stat st;

	assert_false(reuse(f, &d));
	/* To look makes nothing. */
	assert_int_equal(tmpdir_count(f->chunks_fd, ""), 0);
	storefix_put(f, &d, "", blob, BLOB_HEADER_SIZE);
	assert_false(reuse(f, &d));
	storefix_put(f, &d, "", blob, BLOB_HEADER_SIZE + 1);
	storefix_age(f, &d, "", LONG_AGO, LONG_AGO);
	assert_true(reuse(f, &d));
	assert_true(storefix_stat(f, &d, "", &st));
	assert_true(st.st_atim.tv_sec > LONG_AGO);
	assert_int_equal(st.st_mtim.tv_sec, LONG_AGO);
	d = storefix_digest(PREFIX, 2);
	assert_int_equal(
	    symlinkat("../../.lock", f->chunks_fd, storefix_path(&d, "")), 0);
	assert_false(reuse(f, &d));
}

static void test_reuse_that_fails(void **state)
{
	struct fault_rule rule = { .calls = FAULT_BIT(FAULT_UTIMENSAT),
		.what = FAULT_FAIL,
		.at = 1,
		.times = 1 };
	struct storefix *f = *state;
	struct digest d = storefix_digest(PREFIX, 1);
	bool hit = false;

	storefix_put(f, &d, "", blob, sizeof(blob));
	fault_install();
	/* Not ours to touch: the insert that follows makes one that is. */
	rule.error = EPERM;
	fault_add(&rule);
	assert_false(reuse(f, &d));
	fault_reset();
	rule.error = EROFS;
	fault_add(&rule);
	assert_err(store_reuse(f->store, &d, &hit, &f->e), &f->e, ERR_SYS,
	    "touch '/store/.chunks/0a1b/0a1b0101");
	fault_uninstall();
	/* The lock is free again. */
	assert_true(foreign_can_byte(f->dir.fd, ".lock", 16 + PREFIX, F_WRLCK));
	assert_true(reuse(f, &d));
}

static void test_load(void **state)
{
	struct storefix *f = *state;
	struct digest d = storefix_digest(PREFIX, 1);
	struct buf raw = BUF_INIT;
	int fd = -1;

	assert_err(store_load(f->store, &d, &raw, &f->e), &f->e, ERR_NOTFOUND,
	    "'/store/.chunks/0a1b/0a1b0101");
	assert_err(store_open_chunk(f->store, &d, &fd, &f->e), &f->e,
	    ERR_NOTFOUND, "does not exist");
	storefix_put(f, &d, "", "", 0);
	assert_err(store_load(f->store, &d, &raw, &f->e), &f->e, ERR_CORRUPT,
	    "is empty");
	storefix_put(f, &d, "", "x", 1);
	assert_holds(f, &d, "x", 1);
	assert_ok(store_open_chunk(f->store, &d, &fd, &f->e), &f->e);
	assert_int_equal(ftruncate(fd, 0) < 0, 1); /* open for reading */
	(void)close(fd);
	fd = openat(f->chunks_fd, storefix_path(&d, ""), O_WRONLY);
	assert_int_equal(ftruncate(fd, CHUNK_MAX_FILE + 1), 0);
	(void)close(fd);
	buf_release(&raw);
	assert_err(store_load(f->store, &d, &raw, &f->e), &f->e, ERR_CORRUPT,
	    "want at most 16777260");
	assert_int_equal(raw.cap, 0);
	d = storefix_digest(PREFIX, 2);
	assert_int_equal(
	    symlinkat("../../.lock", f->chunks_fd, storefix_path(&d, "")), 0);
	assert_err(store_load(f->store, &d, &raw, &f->e), &f->e, ERR_CORRUPT,
	    "symbolic link");
}

static void test_stat(void **state)
{
	struct storefix *f = *state;
	struct digest d = storefix_digest(PREFIX, 1);
	struct store_entry entry;
	bool found = true;

	assert_ok(store_stat(f->store, &d, &entry, &found, &f->e), &f->e);
	assert_false(found);
	storefix_put(f, &d, "", blob, sizeof(blob));
	storefix_age(f, &d, "", LONG_AGO, LONG_AGO + 1);
	assert_ok(store_stat(f->store, &d, &entry, &found, &f->e), &f->e);
	assert_true(found);
	assert_true(entry.regular);
	assert_int_equal(entry.kind, STORE_CHUNK);
	assert_true(digest_equal(&entry.digest, &d));
	assert_int_equal(entry.bytes, sizeof(blob));
	assert_true(entry.atime == LONG_AGO * CLOCK_NS_PER_S);
	assert_true(entry.mtime == (LONG_AGO + 1) * CLOCK_NS_PER_S);
	assert_true(entry.ctime > entry.mtime);
	assert_int_equal(storefix_atime(f, &d, ""), LONG_AGO);
}

/* One is touched by its path, many relative to their directory. */
static void assert_batch_refused(
    struct storefix *f, const struct digest *d, size_t n, const char *why)
{
	struct task silent = TASK_SILENT;
	struct digest all[BATCH_MAX];
	uint64_t keys[BATCH_MAX];
	struct store_batch b = { .d = all, .n = n, .keys = keys };

	for (size_t i = 0; i < n; i++) {
		all[i] = *d;
		all[i].b[DIGEST_SIZE - 1] = (uint8_t)i;
	}
	assert_ok(store_plan(f->store, &b, &silent, &f->e), &f->e);
	assert_int_equal(b.todo, n);
	assert_err(
	    store_touch_batch(f->store, &b, 0, NULL, NULL, &silent, &f->e),
	    &f->e, ERR_CORRUPT, why);
}

/* What every call says of a prefix directory that is none of ours. */
static void assert_prefix_refused(struct storefix *f, const char *why)
{
	struct digest d[2] = { storefix_digest(PREFIX, 1),
		storefix_digest(PREFIX, 2) };
	enum store_inserted inserted = STORE_NEW;
	enum store_touched touched = STORE_TOUCHED;
	struct store_victim v = { .kind = STORE_CHUNK };
	struct store_entry entry;
	struct buf raw = BUF_INIT;
	bool flag = false;
	int fd = -1;

	assert_err(insert(f, d, &usual, &inserted), &f->e, ERR_CORRUPT, why);
	assert_err(
	    store_reuse(f->store, d, &flag, &f->e), &f->e, ERR_CORRUPT, why);
	assert_err(
	    store_load(f->store, d, &raw, &f->e), &f->e, ERR_CORRUPT, why);
	assert_err(store_stat(f->store, d, &entry, &flag, &f->e), &f->e,
	    ERR_CORRUPT, why);
	assert_err(
	    store_open_chunk(f->store, d, &fd, &f->e), &f->e, ERR_CORRUPT, why);
	assert_err(
	    store_touch(f->store, d, &touched, &f->e), &f->e, ERR_CORRUPT, why);
	assert_batch_refused(f, d, 1, why);
	assert_batch_refused(f, d, BATCH_MAX, why);
	assert_err(store_scan(f->store, PREFIX, NULL, NULL, &f->e), &f->e,
	    ERR_CORRUPT, why);
	assert_err(store_sweep(f->store, PREFIX, 0, &v, 1, &flag, &f->e), &f->e,
	    ERR_CORRUPT, why);
	assert_err(store_quarantine(f->store, d, f->chunks_fd, &flag, &f->e),
	    &f->e, ERR_CORRUPT, why);
	assert_true(foreign_can_byte(f->dir.fd, ".lock", 16 + PREFIX, F_WRLCK));
}

static void move_device(void *ctx, struct fault_event *ev)
{
	struct statx *st = ev->p;

	(void)ctx;
	if (ev->call == FAULT_STATX && ev->result == 0)
		st->stx_dev_minor ^= 1U;
}

static void test_prefix_that_is_none(void **state)
{
	struct storefix *f = *state;

	tmpdir_put_str(f->chunks_fd, "0a1b", "");
	assert_prefix_refused(f, "'/store/.chunks/0a1b' is a symbolic link");
	assert_int_equal(unlinkat(f->chunks_fd, "0a1b", 0), 0);
	assert_int_equal(mkdirat(f->dir.fd, "elsewhere", 0750), 0);
	assert_int_equal(symlinkat("../elsewhere", f->chunks_fd, "0a1b"), 0);
	assert_prefix_refused(f, "'/store/.chunks/0a1b' is a symbolic link");
	assert_int_equal(unlinkat(f->chunks_fd, "0a1b", 0), 0);
	assert_int_equal(mkdirat(f->chunks_fd, "0a1b", 0750), 0);
	fault_install();
	fault_set_hooks(&(struct fault_hooks){ .after = move_device });
	assert_prefix_refused(f, "'/store/.chunks/0a1b' is on another device");
	assert_entries(f, 0);
}

static void test_open_no_directory(void **state)
{
	struct storefix *f = *state;
	struct file_owner owner = { .change = false };
	struct store *s = NULL;
	int fd = openat(f->dir.fd, ".lock", O_RDONLY);

	assert_err(store_fs_open(fd, NULL, &owner, "x/.chunks", &s, &f->e),
	    &f->e, ERR_CORRUPT, "'x/.chunks' is not a directory");
	(void)close(fd);
	store_close(NULL);
}

/* Without locks a store can be read, and nothing else. */
static void test_read_only(void **state)
{
	struct storefix *f = *state;
	struct file_owner owner = { .change = false };
	struct digest d = storefix_digest(PREFIX, 1);
	enum store_inserted inserted = STORE_NEW;
	struct store_victim v = { .kind = STORE_CHUNK };
	bool flag = false;

	storefix_put(f, &d, "", blob, sizeof(blob));
	store_close(f->store);
	f->store = NULL;
	assert_ok(store_fs_open(
		      f->chunks_fd, NULL, &owner, ".chunks", &f->store, &f->e),
	    &f->e);
	assert_holds(f, &d, blob, sizeof(blob));
	assert_err(insert(f, &d, &usual, &inserted), &f->e, ERR_INVALID,
	    "reading only");
	assert_err(store_reuse(f->store, &d, &flag, &f->e), &f->e, ERR_INVALID,
	    "reading only");
	assert_err(store_sweep(f->store, PREFIX, 0, &v, 1, &flag, &f->e), &f->e,
	    ERR_INVALID, "reading only");
	assert_err(store_quarantine(f->store, &d, f->chunks_fd, &flag, &f->e),
	    &f->e, ERR_INVALID, "reading only");
	assert_entries(f, 1);
}

struct wait_test {
	struct foreign_holder holder;
	unsigned called;
};

static void let_go(void *ctx, struct task *task)
{
	struct wait_test *w = ctx;

	(void)task;
	w->called++;
	foreign_end(&w->holder);
}

/* Each look at the clock is 2 s later than the one before. */
static void hurry(void *ctx, struct fault_event *ev)
{
	int64_t *s = ctx;
	struct timespec *ts = ev->p;

	if (ev->call == FAULT_CLOCK_GETTIME) {
		*s += 2;
		ts->tv_sec += *s;
	}
}

static void test_waiting_is_told(void **state)
{
	struct foreign_lock lock = {
		.type = F_WRLCK, .len = 1, .start = 16 + PREFIX
	};
	struct storefix *f = *state;
	struct digest d = storefix_digest(PREFIX, 1);
	struct wait_test w = { .called = 0 };
	enum store_inserted got = STORE_HIT;
	int64_t ahead = 0;

	foreign_start(f->dir.fd, ".lock", &lock, &w.holder);
	store_fs_set_waiting(f->store, NULL, let_go, &w);
	fault_install();
	fault_set_hooks(&(struct fault_hooks){ .after = hurry, .ctx = &ahead });
	assert_ok(insert(f, &d, &usual, &got), &f->e);
	assert_int_equal(w.called, 1);
}

static void test_waiting_is_stopped(void **state)
{
	struct foreign_lock lock = {
		.type = F_WRLCK, .len = 1, .start = 16 + PREFIX
	};
	struct storefix *f = *state;
	struct digest d = storefix_digest(PREFIX, 1);
	struct task task = { .stop = SIGTERM };
	struct foreign_holder holder;
	enum store_inserted got = STORE_HIT;
	int rc = 0;

	foreign_start(f->dir.fd, ".lock", &lock, &holder);
	store_fs_set_waiting(f->store, &task, NULL, NULL);
	rc = insert(f, &d, &usual, &got);
	foreign_end(&holder);
	assert_err(rc, &f->e, ERR_CANCELLED, "stop");
	assert_int_equal(got, STORE_HIT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		storefix_test(test_reuse),
		storefix_test(test_reuse_that_fails),
		storefix_test(test_load),
		storefix_test(test_stat),
		storefix_test(test_prefix_that_is_none),
		storefix_test(test_open_no_directory),
		storefix_test(test_read_only),
		storefix_test(test_waiting_is_told),
		storefix_test(test_waiting_is_stopped),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
